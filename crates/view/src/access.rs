//! Who may connect: without this any web page in the operator's browser could move the robot.

use crate::http::{Request, Status};
use std::net::IpAddr;

/// Who may connect.
#[derive(Clone, Debug, Default)]
pub struct Access {
    token: Option<String>,
    origins: Vec<String>,
    report: Option<fn(&str)>,
}

impl Access {
    /// Clients with the token. Without one the server must be reachable from this computer only.
    #[must_use]
    pub fn with_token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// Also pages of these origins (`http://localhost:8080`), beside the server's own.
    #[must_use]
    pub fn with_origins(self, origins: impl IntoIterator<Item = String>) -> Self {
        Self { origins: origins.into_iter().collect(), ..self }
    }

    /// Has `report` called with the reason when a client is refused, once for each reason: few programs show their users why
    /// they cannot connect.
    #[must_use]
    pub fn with_report(self, report: fn(&str)) -> Self {
        Self { report: Some(report), ..self }
    }

    pub(crate) fn report(&self, why: &str) {
        self.report.into_iter().for_each(|report| report(why));
    }

    /// 128 random bits.
    ///
    /// # Errors
    /// When the system has none.
    pub fn random_token() -> std::io::Result<String> {
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether a request may go on.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Status> {
        let host = request.header("host");
        if let Some(origin) = request.header("origin")
            && !is_own(origin, host)
            && !self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
        {
            return Err(Status::Forbidden(format!(
                "pages of {} may not connect; to allow it: --allow-origin",
                khz_export::plain(origin)
            )));
        }
        match &self.token {
            // A name that leads here, but is not this computer's: a page elsewhere whose name was bound anew (DNS
            // rebinding), to which this server is its own.
            None if !host.is_some_and(is_loopback) => Err(Status::Forbidden(
                "this server is only for this computer, as localhost or 127.0.0.1".into(),
            )),
            Some(token) if !request.query("token").is_some_and(|given| are_equal(given, token)) => {
                Err(Status::Forbidden(
                    "the address needs the token: ?token= as in the link that was printed".into(),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Whether `origin` is a page of this server.
fn is_own(origin: &str, host: Option<&str>) -> bool {
    let stripped = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    stripped.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

/// Whether a `Host` header names this computer.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Takes as long for a wrong token as for the right one.
fn are_equal(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differing) == 0 && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, headers: &[(&str, &str)]) -> Request {
        let mut text = format!("GET {target} HTTP/1.1\r\n");
        headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        text += "\r\n";
        Request::parse(text.as_bytes()).unwrap().unwrap().0
    }

    fn admits(access: &Access, target: &str, headers: &[(&str, &str)]) -> bool {
        access.check(&request(target, headers)).is_ok()
    }

    #[test]
    fn without_a_token_only_this_computer_is_served() {
        let access = Access::default();
        for host in ["localhost:8765", "LOCALHOST", "127.0.0.1:8765", "127.8.9.1", "[::1]:8765", "[::1]"] {
            assert!(admits(&access, "/", &[("Host", host)]), "{host}");
        }
        for host in
            ["evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "", "10.0.0.1", "::1x"]
        {
            assert!(!admits(&access, "/", &[("Host", host)]), "{host}");
        }
        assert!(!admits(&access, "/", &[]));
    }

    #[test]
    fn pages_of_others_are_refused() {
        let access = Access::default().with_origins(["https://app.example".to_owned()]);
        let with = |origin| admits(&access, "/", &[("Host", "localhost:1"), ("Origin", origin)]);
        assert!(with("http://localhost:1") && with("https://app.example"));
        assert!(
            !with("http://localhost:2") && !with("null") && !with("file://") && !with("http://evil.example")
        );
        let rebound = [("Host", "evil.example"), ("Origin", "http://evil.example")];
        assert!(!admits(&access, "/", &rebound));
    }

    #[test]
    fn with_a_token_it_must_be_the_right_one() {
        let access = Access::default().with_token("abc");
        let with = |target| admits(&access, target, &[("Host", "robot:8765")]);
        assert!(with("/?token=abc") && with("/?x=1&token=abc"));
        assert!(
            !with("/")
                && !with("/?token=")
                && !with("/?token=abd")
                && !with("/?token=abcd")
                && !with("/?token=ab")
        );
        let other_page = [("Host", "robot:8765"), ("Origin", "http://evil.example")];
        assert!(!admits(&access, "/?token=abc", &other_page));
        assert_eq!(Access::random_token().unwrap().len(), 32);
    }
}
