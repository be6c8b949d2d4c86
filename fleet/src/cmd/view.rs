//! `khz-fleet view`.

use super::{show, stop_on_signal};
use crate::network::{Options, Role};
use crate::pages::Pages;
use anyhow::{Context, Result};
use khz_view::{Access, Server, Serving};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use zenoh::Session;

/// Where the pages are by default; if that port is taken, another one is.
const PORT: u16 = 8770;

/// Serve the pages of all robots through one port
///
/// A list, and behind each name the robot's live page, as `khz run --view` has it. Foxglove connects to ws://…/?robot=NAME.
#[derive(clap::Args)]
pub struct Args {
    /// The address to serve at; if port 8770 is taken, another one. Other addresses than this computer's own need the token in the
    /// printed link
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:8770", value_parser = address)]
    at: SocketAddr,
    /// The token, instead of a random one: 8 or more letters, digits, `-` and `_`
    #[arg(long, env = "KHZ_FLEET_TOKEN", hide_env_values = true, value_parser = token)]
    token: Option<String>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    text.parse()
        .or_else(|_| ip(text))
        .map_err(|_| "write an IP address, with or without a port: 0.0.0.0:8770".to_owned())
}

fn token(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_plain && text.len() >= 8 {
        Ok(text.to_owned())
    } else {
        Err("a token is 8 or more letters, digits, - and _".into())
    }
}

/// Runs the command.
pub fn run(args: Args, network: &Options) -> Result<ExitCode> {
    let stop = stop_on_signal()?;
    let session = network.session(Role::Visitor)?;
    let view = View::start(session, args.at, args.token)?;
    show(&format!("{}\n", view.link))?;
    view.wait(&stop, || true);
    Ok(ExitCode::SUCCESS)
}

/// The pages, served until this is dropped.
pub struct View {
    pages: Arc<Pages>,
    _serving: Serving,
    /// Where they are.
    pub link: String,
}

impl View {
    /// Serves at an address; if its port is the usual one and taken, at any other.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(session: Session, at: SocketAddr, token: Option<String>) -> Result<Self> {
        let token = match token {
            None if at.ip().is_loopback() => None,
            None => Some(Access::random_token()?),
            given => given,
        };
        let access = token.into_iter().fold(Access::default(), Access::with_token);
        let pages = Arc::new(Pages::start(session)?);
        let bind = |at: SocketAddr| Server::bind_fleet(&at, access.clone(), pages.clone());
        let server = match bind(at) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && at.port() == PORT => {
                bind((at.ip(), 0).into())
            }
            bound => bound,
        };
        let server = server.with_context(|| format!("cannot serve at {at}"))?;
        let link = server.link(&rustix::system::uname().nodename().to_string_lossy());
        let serving = server.start().context("cannot start a thread")?;
        Ok(Self { pages, _serving: serving, link })
    }

    /// Waits for `stop`, or until `goes_on` returns false. Looks twenty times a second.
    pub fn wait(&self, stop: &AtomicBool, mut goes_on: impl FnMut() -> bool) {
        while !stop.load(Ordering::Relaxed) && goes_on() {
            self.pages.tidy();
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
