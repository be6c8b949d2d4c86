//! As much of HTTP as the page and the upgrade to a websocket need.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// The longest head of a request.
pub(crate) const MAX_HEAD: usize = 8192;
const MAX_HEADERS: usize = 64;
/// The subprotocol of our own page.
pub(crate) const PAGE: &str = "khz.page.v1";
/// The subprotocol of programs that ask for parameters and set them.
pub(crate) const ASK: &str = "khz.ask.v1";
/// The names of Foxglove's protocol: the present one, and the one of older clients.
pub(crate) const FOXGLOVE: [&str; 2] = ["foxglove.sdk.v1", "foxglove.websocket.v1"];

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub method: String,
    target: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
}

/// What a request gets that is not served, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    BadRequest(String),
    Forbidden(String),
    NotFound,
    NotAllowed,
    TooLong,
    Unavailable(String),
}

impl Request {
    /// Reads a head: the request and the length of its head, or nothing if more bytes are needed.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Status> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD => Ok(Some((Self::from(&request), len))),
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => Err(Status::TooLong),
            Err(error) => Err(Status::BadRequest(error.to_string())),
        }
    }

    fn from(request: &httparse::Request<'_, '_>) -> Self {
        let headers = request.headers.iter().map(|header| {
            (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).trim().to_owned())
        });
        Self {
            method: request.method.unwrap_or_default().to_owned(),
            target: request.path.unwrap_or_default().to_owned(),
            headers: headers.collect(),
        }
    }

    /// A header that is there once. One that comes twice with different values means nothing certain.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let first = values.next()?;
        Some(if values.all(|value| value == first) { first } else { "" })
    }

    /// The words of a header that lists some, over all its lines.
    fn listed<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.headers.iter().filter(move |(known, _)| known == name);
        lines.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
    }

    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub fn query(&self, key: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query
            .split('&')
            .find_map(|pair| pair.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value))
    }

    pub fn is_upgrade(&self) -> bool {
        self.listed("upgrade").any(|word| word.eq_ignore_ascii_case("websocket"))
    }

    /// The protocol to speak: the first of those offered that is known here.
    pub fn protocol(&self) -> Result<&str, Status> {
        let mut offered = self.listed("sec-websocket-protocol");
        offered.find(|name| [PAGE, ASK].contains(name) || FOXGLOVE.contains(name)).ok_or_else(|| {
            let known = [PAGE, ASK].into_iter().chain(FOXGLOVE).collect::<Vec<_>>().join(", ");
            Status::BadRequest(format!("sec-websocket-protocol must be one of {known}"))
        })
    }

    /// The value that shows the client that its key was read.
    pub fn accept(&self) -> Result<String, Status> {
        let bad = |what: &str| Err(Status::BadRequest(what.to_owned()));
        if self.method != "GET" || !self.listed("connection").any(|word| word.eq_ignore_ascii_case("upgrade"))
        {
            return bad("an upgrade is a GET with \"connection: upgrade\"");
        }
        if self.header("sec-websocket-version") != Some("13") {
            return bad("sec-websocket-version must be 13");
        }
        match self.header("sec-websocket-key") {
            Some(key) if STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) => Ok(accept(key)),
            _ => bad("sec-websocket-key must be 16 bytes in base64"),
        }
    }
}

/// RFC 6455, 4.2.2.
pub(crate) fn accept(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(hash.digest().bytes())
}

/// The answer to an upgrade.
pub(crate) fn upgraded(accept: &str, protocol: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    )
}

/// Nothing is loaded from elsewhere, no other page may frame this one, and the token leaves with no link.
const POLICY: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'none'\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n";

/// A whole answer, behind which the connection is closed.
pub(crate) fn answer(status: &str, kind: &str, body: &str, with_body: bool) -> Vec<u8> {
    let mut text =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}; charset=utf-8\r\n{POLICY}");
    _ = write!(text, "Content-Length: {}\r\n\r\n", body.len());
    if with_body {
        text.push_str(body);
    }
    text.into_bytes()
}

/// What a request gets that is no upgrade.
pub(crate) fn serve(request: &Request, page: &str) -> Result<Vec<u8>, Status> {
    match (request.method.as_str(), request.path()) {
        ("GET" | "HEAD", "/") => Ok(answer("200 OK", "text/html", page, request.method == "GET")),
        ("GET" | "HEAD", _) => Err(Status::NotFound),
        _ => Err(Status::NotAllowed),
    }
}

impl Status {
    pub fn answer(&self) -> Vec<u8> {
        let (status, body) = match self {
            Self::BadRequest(why) => ("400 Bad Request", why.as_str()),
            Self::Forbidden(why) => ("403 Forbidden", why.as_str()),
            Self::NotFound => {
                ("404 Not Found", "there is only /, and of a fleet /?robot=NAME with a robot that is there")
            }
            Self::NotAllowed => ("405 Method Not Allowed", "only GET"),
            Self::Unavailable(why) => ("503 Service Unavailable", why.as_str()),
            Self::TooLong => {
                ("431 Request Header Fields Too Large", "the head of a request has 8192 bytes at the most")
            }
        };
        answer(status, "text/plain", &format!("{body}\n"), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    fn request(text: &str) -> Request {
        Request::parse(format!("{text}\r\n").as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn the_key_of_the_rfc_is_answered() {
        let request = request(UPGRADE);
        assert!(request.is_upgrade());
        assert_eq!(request.accept().unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn the_protocol_is_the_first_one_offered_that_is_known() {
        for (offered, expected) in [
            ("foxglove.sdk.v1", Some("foxglove.sdk.v1")),
            ("foxglove.websocket.v1", Some("foxglove.websocket.v1")),
            ("mqtt , foxglove.websocket.v1,foxglove.sdk.v1", Some("foxglove.websocket.v1")),
            ("khz.page.v1", Some(PAGE)),
            ("mqtt", None),
            ("", None),
        ] {
            let request = request(&format!("{UPGRADE}Sec-WebSocket-Protocol: {offered}\r\n"));
            assert_eq!(request.protocol().ok(), expected, "{offered}");
        }
        let twice = format!("{UPGRADE}Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: {PAGE}\r\n");
        assert_eq!(request(&twice).protocol(), Ok(PAGE));
        assert!(request(UPGRADE).protocol().is_err());
    }

    #[test]
    fn what_is_no_upgrade_is_refused_with_the_reason() {
        for (from, to) in [
            ("Version: 13", "Version: 8"),
            ("Connection: keep-alive, Upgrade", "Connection: close"),
            ("dGhlIHNhbXBsZSBub25jZQ==", "short"),
            ("GET", "POST"),
        ] {
            let request = request(&UPGRADE.replace(from, to));
            assert!(matches!(request.accept(), Err(Status::BadRequest(_))), "{to}");
        }
    }

    #[test]
    fn a_head_is_read_whole_or_not_at_all() {
        let whole = format!("{UPGRADE}\r\n");
        for len in 0..whole.len() {
            assert_eq!(Request::parse(&whole.as_bytes()[..len]), Ok(None), "{len}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(MAX_HEAD));
        assert_eq!(Request::parse(long.as_bytes()), Err(Status::TooLong));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert_eq!(Request::parse(many.as_bytes()), Err(Status::TooLong));
        assert!(matches!(Request::parse(b"\x16\x03\x01\x02"), Err(Status::BadRequest(_))), "a TLS hello");
    }

    #[test]
    fn only_the_page_is_served() {
        let first_line = |text: &str| {
            let answer = serve(&request(text), "<p>").unwrap_or_else(|status| status.answer());
            let answer = String::from_utf8(answer).unwrap();
            (answer.lines().next().unwrap_or_default().to_owned(), answer.ends_with("<p>"))
        };
        assert_eq!(first_line("GET /?token=1 HTTP/1.1\r\n"), ("HTTP/1.1 200 OK".into(), true));
        assert_eq!(first_line("HEAD / HTTP/1.1\r\n"), ("HTTP/1.1 200 OK".into(), false));
        assert_eq!(first_line("GET /../etc/passwd HTTP/1.1\r\n").0, "HTTP/1.1 404 Not Found");
        assert_eq!(first_line("POST / HTTP/1.1\r\n").0, "HTTP/1.1 405 Method Not Allowed");
    }
}
