//! The Zenoh session: how it finds its router, and who may listen beyond this computer.

use crate::bridge::eprint_line;
use crate::known::Known;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use zenoh::{Session, Wait};

/// Where a router is by default.
pub const ROUTER: &str = "tcp/127.0.0.1:7447";

/// How a frozen process is noticed: its links are given up after this, ms. A dead one is noticed at once.
pub const LEASE_MS: u64 = 2000;

/// How to reach the network
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Options {
    /// Where the router is [default: tcp/127.0.0.1:7447]
    #[arg(long, value_name = "ENDPOINT", global = true)]
    pub router: Option<String>,
    /// A Zenoh configuration (JSON5): TLS, users, access control. What it leaves open is as without it
    #[arg(long, value_name = "FILE", global = true)]
    pub zenoh: Option<PathBuf>,
    /// Allow connections from other computers without authentication: every one of them can stop the robots
    #[arg(long, global = true)]
    pub open: bool,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Beside a robot: waits for its router for as long as it takes.
    Bridge,
    /// A command at a terminal: fails if there is no router.
    Visitor,
    /// The router itself.
    Router,
}

impl Options {
    /// Opens a session. Blocks.
    ///
    /// # Errors
    /// The configuration is wrong or lacks authentication, or (not for a bridge) the router cannot be reached.
    pub fn session(&self, role: Role) -> Result<Session> {
        let config = self.config(role)?;
        let parsed = zenoh::Config::from_json5(&config.to_string())
            .map_err(|error| anyhow!("the Zenoh configuration is not valid: {error}"))?;
        if role == Role::Bridge {
            eprint_line(&format!("connecting to {}", endpoints(&config, "connect").join(", ")));
        }
        zenoh::open(parsed).wait().map_err(|error| plain(&error)).map_err(|error| match role {
            Role::Router => anyhow!(
                "the router cannot listen at {}: {error}. If another router runs there, robots can use that one; otherwise name \
                 another address with --router",
                endpoints(&config, "listen").join(", ")
            ),
            _ => anyhow!(
                "no router answers at {}: {error}. Start one with `khz-fleet router`, or name it with --router",
                endpoints(&config, "connect").join(", ")
            ),
        })
    }

    /// The configuration as JSON.
    /// The robots that have answered here before on this network.
    ///
    /// # Errors
    /// The configuration is wrong.
    pub fn known(&self) -> Result<Known> {
        Ok(Known::of(&endpoints(&self.config(Role::Visitor)?, "connect").join(" ")))
    }

    fn config(&self, role: Role) -> Result<Value> {
        let mut config = usual(role, self.router.as_deref().unwrap_or(ROUTER));
        if let Some(path) = &self.zenoh {
            merge(&mut config, read(path)?);
            // The command line overrides a file.
            if let Some(router) = &self.router {
                let side = if role == Role::Router { "listen" } else { "connect" };
                config[side]["endpoints"] = json!([router]);
            }
        }
        match exposed(&config, role) {
            Some(endpoint) if !self.open => bail!(
                "{endpoint} reaches beyond this computer, and nothing says who may do what there. Give a configuration with TLS \
                 client certificates or users and passwords (--zenoh FILE; fleet/examples has one, and docs/fleet.md says how to use it), or --open if everybody \
                 on that network may stop the robots"
            ),
            _ => Ok(config),
        }
    }
}

/// Zenoh's message, without the places in its sources.
pub fn plain(error: &zenoh::Error) -> String {
    let text = error.to_string();
    text.split(" at /").next().unwrap_or(&text).trim_end_matches('.').to_owned()
}

fn usual(role: Role, router: &str) -> Value {
    let (mode, waits) = match role {
        Role::Bridge => ("client", -1),
        Role::Visitor => ("client", 5000),
        Role::Router => ("router", -1),
    };
    let (listen, connect) =
        if role == Role::Router { (vec![router], vec![]) } else { (vec![], vec![router]) };
    json!({
        "mode": mode,
        "listen": { "endpoints": listen },
        "connect": {
            "endpoints": connect,
            "timeout_ms": waits,
            "exit_on_failure": role == Role::Visitor,
            "retry": { "period_init_ms": 200, "period_max_ms": 1000, "period_increase_factor": 2 },
        },
        // Peers are named, not discovered: a robot does not join what happens to be on the network.
        "scouting": { "multicast": { "enabled": false }, "gossip": { "enabled": role == Role::Router } },
        "transport": { "link": { "tx": {
            "lease": LEASE_MS,
            // A bridge publishes on a thread of its own that may wait: a computer that is busy for a moment need not cost samples.
            "queue": { "congestion_control": { "drop": { "wait_before_drop": 5000 } } },
        } } },
    })
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    json5::from_str(&text).with_context(|| format!("{} is no JSON5", path.display()))
}

/// Puts `over` on top of `config`, table by table.
fn merge(config: &mut Value, over: Value) {
    match (config, over) {
        (Value::Object(config), Value::Object(over)) => {
            over.into_iter().for_each(|(key, value)| merge(config.entry(key).or_insert(Value::Null), value));
        }
        (config, over) => *config = over,
    }
}

fn endpoints(config: &Value, side: &str) -> Vec<String> {
    let mut found = Vec::new();
    texts(&config[side]["endpoints"], &mut found);
    found
}

/// All texts in a value: endpoints may be listed per mode.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| texts(item, found)),
        _ => {}
    }
}

/// What can be reached from other computers without authentication.
fn exposed(config: &Value, role: Role) -> Option<String> {
    let auth = &config["transport"]["auth"]["usrpwd"];
    let tls = &config["transport"]["link"]["tls"];
    // Who listens asks for a proof; who connects brings one.
    let asks = (auth["dictionary_file"].is_string(), tls["enable_mtls"] == true);
    let brings = (auth["user"].is_string(), tls["connect_certificate"].is_string());
    let of = |side: &str, (by_password, by_certificate): (bool, bool)| {
        let is_proof = |endpoint: &str| by_password || (endpoint.starts_with("tls/") && by_certificate);
        endpoints(config, side).into_iter().find(|endpoint| !is_local(endpoint) && !is_proof(endpoint))
    };
    let is_on =
        |value: &Value| value == true || value.as_object().is_some_and(|of| of.values().any(|on| on == true));
    if is_on(&config["scouting"]["multicast"]["enabled"]) {
        return Some("scouting.multicast joins whatever is on the network, which".into());
    }
    let mode = if role == Role::Router { "router" } else { "client" };
    if config["mode"] != mode {
        return Some(format!(
            "mode {} instead of `{mode}` listens or connects by itself, which",
            config["mode"]
        ));
    }
    if role == Role::Router && endpoints(config, "listen").is_empty() {
        return Some("a router without listen.endpoints listens everywhere, which".into());
    }
    of("listen", asks).or_else(|| of("connect", brings))
}

/// Whether an endpoint such as `tcp/127.0.0.1:7447` is on this computer alone.
fn is_local(endpoint: &str) -> bool {
    let Some((protocol, address)) = endpoint.split_once('/') else { return false };
    if protocol.starts_with("unix") {
        return true;
    }
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn refused(options: &Options, role: Role) -> bool {
        options.config(role).is_err_and(|error| error.to_string().contains("beyond this computer"))
    }

    #[test]
    fn without_configuration_nothing_reaches_beyond_this_computer() {
        let of = |router: &str| Options { router: Some(router.into()), ..Options::default() };
        for role in [Role::Bridge, Role::Visitor, Role::Router] {
            assert!(!refused(&Options::default(), role));
            for local in
                ["tcp/localhost:7447", "tcp/[::1]:7447", "udp/127.0.0.2:1", "unixsock-stream//run/khz"]
            {
                assert!(!refused(&of(local), role), "{local}");
            }
            for far in [
                "tcp/0.0.0.0:7447",
                "tcp/[::]:7447",
                "tls/robots.example:7447",
                "tcp/192.168.1.5:7447",
                "odd",
            ] {
                assert!(refused(&of(far), role), "{far}");
                assert!(!refused(&Options { open: true, ..of(far) }, role), "{far}");
            }
        }
    }

    #[test]
    fn a_configuration_that_asks_who_is_there_may() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"{ listen: { endpoints: ['tls/[::]:7447'] }, // all\n transport: { link: { tls: { enable_mtls: true } } } }")
            .unwrap();
        let options = Options { zenoh: Some(file.path().into()), ..Options::default() };
        let config = options.config(Role::Router).unwrap();
        assert_eq!(config["listen"]["endpoints"], json!(["tls/[::]:7447"]));
        assert_eq!(config["scouting"]["multicast"]["enabled"], false, "what it leaves open stays");
        let plain = Options { router: Some("tcp/0.0.0.0:7447".into()), ..options };
        assert!(refused(&plain, Role::Router), "certificates prove nothing on a link without TLS");
    }

    #[test]
    fn what_proves_nothing_is_refused() {
        let is_refused = |text: &str, role: Role| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            refused(&Options { zenoh: Some(file.path().into()), ..Options::default() }, role)
        };
        let link = |tls: &str| {
            format!(
                "{{ listen: {{ endpoints: ['tls/[::]:7447'] }}, transport: {{ link: {{ tls: {{ {tls} }} }} }} }}"
            )
        };
        assert!(is_refused(&link("connect_certificate: 'a.pem', enable_mtls: false"), Role::Router));
        assert!(!is_refused(&link("enable_mtls: true"), Role::Router));
        assert!(is_refused("{ scouting: { multicast: { enabled: true } } }", Role::Visitor));
        assert!(is_refused("{ scouting: { multicast: { enabled: { client: true } } } }", Role::Visitor));
        assert!(is_refused("{ mode: 'peer' }", Role::Bridge));
        assert!(is_refused("{ listen: { endpoints: [] } }", Role::Router));
        assert!(is_refused(
            "{ connect: { endpoints: ['tls/robots.example:1'] }, transport: { link: { tls: { enable_mtls: true } } } }",
            Role::Visitor
        ));
    }

    #[test]
    fn every_role_has_a_configuration_that_zenoh_takes() {
        for role in [Role::Bridge, Role::Visitor, Role::Router] {
            let config = Options::default().config(role).unwrap();
            zenoh::Config::from_json5(&config.to_string()).unwrap();
        }
    }
}
