//! `khz view`: the live view, of a robot elsewhere or of a finished log; and the process that `khz run --view` starts.

use super::{print_line, stop_on_signal, warn};
use anyhow::{Context, Result, anyhow, bail};
use khz_robot::viewer;
use khz_rt::Setup;
use khz_view::{Access, Hub, Log, PORT, Server, Serving, feed};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Watch a robot on another computer, or a log, in a browser
///
/// Or in Foxglove, Lichtblick or PlotJuggler.
///
/// `khz run --view` shows a robot on this computer. This command shows a robot that streams its samples by UDP (`log.stream` of its
/// robot file), or a log. Prints the address of the page; the other programs use the same address with `ws://`.
///
/// Only this computer can connect, unless --at gives another address; then every connection needs the token in the
/// printed link. Nothing is encrypted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz view run.tlog --open
  khz view --listen 0.0.0.0:7400                   of a robot with log.stream = \"THIS:7400\"
  khz view --listen 0.0.0.0:7400 --from 10.0.0.7   only this robot, if several send there
  khz view --listen 0.0.0.0:7400 --at 0.0.0.0      for other computers: the link has a token")]
pub struct Args {
    /// A finished log
    #[arg(conflicts_with_all = ["listen", "socket"])]
    log: Option<PathBuf>,
    /// The address to receive a robot's samples at, such as 0.0.0.0:7400
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_at)]
    listen: Option<SocketAddr>,
    /// Receive only what this address sends; by default, what the first robot sends until it ends or is silent
    #[arg(long, value_name = "ADDR", requires = "listen")]
    from: Option<IpAddr>,
    #[command(flatten)]
    at: At,
    /// The robot is at standard input, and the parent process reads the link at standard output
    #[arg(long, hide = true)]
    socket: bool,
    /// Stay away from this CPU
    #[arg(long, hide = true)]
    not_cpu: Option<u32>,
}

/// Where the view is served, and to whom.
#[derive(clap::Args)]
struct At {
    /// The address to serve the page at; without a port 8765, or a free one if that is taken
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = viewer::address, default_value = "127.0.0.1")]
    at: SocketAddr,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    allowed: Allowed,
}

/// Who may connect.
#[derive(clap::Args)]
pub struct Allowed {
    #[command(flatten)]
    secret: Secret,
    /// Let pages of this origin connect, too, such as http://localhost:8080; repeatable
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub allow_origin: Vec<String>,
}

/// What everybody needs to connect.
#[derive(clap::Args)]
pub struct Secret {
    /// The live view's token; by default it has a random one if other computers can connect. Every user of this computer can read this
    /// argument (`ps`): better use --token-file, or the environment variable KHZ_VIEW_TOKEN
    #[arg(long, global = true, value_name = "TOKEN", value_parser = token, conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with the live view's token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Secret {
    /// None was given on the command line.
    pub fn is_default(&self) -> bool {
        self.token.is_none() && self.token_file.is_none()
    }

    /// The token, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or what it or the environment has is no token.
    pub fn read(&self) -> Result<Option<String>> {
        let check = |from: &str, text: &str| token(text.trim()).map_err(|why| anyhow!("{from}: {why}"));
        match (&self.token, &self.token_file, std::env::var(viewer::TOKEN)) {
            (Some(token), ..) => Ok(Some(token.clone())),
            (None, Some(path), _) => {
                let cannot = || format!("cannot read the token in {}", path.display());
                check(&path.display().to_string(), &std::fs::read_to_string(path).with_context(cannot)?)
                    .map(Some)
            }
            (None, None, Ok(text)) if !text.is_empty() => check(viewer::TOKEN, &text).map(Some),
            _ => Ok(None),
        }
    }
}

/// After the run only an open page keeps the view; one that is loaded anew is away this long at the most.
const RELOAD: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);

/// Where a robot's samples come.
fn listen_at(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port: 0.0.0.0:7400".to_owned())
}

/// A token that can be part of an address as it is.
fn token(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    match is_plain && text.len() >= 8 {
        true => Ok(text.to_owned()),
        false => Err("a token is 8 or more letters, digits, - and _".into()),
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.socket {
        // Whatever its parent was given, the threads of this process are ordinary ones, and away from the loop.
        let _ = Setup::ordinary().apply();
        args.not_cpu.into_iter().for_each(stay_away);
    }
    let hub = Arc::new(Hub::default());
    if args.socket {
        let (serving, link) = args.at.serve(&hub)?;
        return of_run(&args, &hub, serving, &link);
    }
    // Before a client can connect: one that has seen the page may end the view.
    let stop = stop_on_signal()?;
    let (serving, link) = args.at.serve(&hub)?;
    match (&args.listen, &args.log) {
        (Some(listen), _) => receive(*listen, args.from, hub.clone())?,
        (None, Some(log)) => {
            read(log, hub.clone())?;
        }
        (None, None) => bail!(
            "nothing to show: name a log (`khz view run.tlog`), or where a robot's samples come (`khz view --listen 0.0.0.0:7400`)"
        ),
    }
    super::show(&format!("{link}\n"))?;
    args.at.open(&link);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    drop(serving);
    Ok(ExitCode::SUCCESS)
}

/// Takes in what robots send, on a thread.
fn receive(listen: SocketAddr, from: Option<IpAddr>, hub: Arc<Hub>) -> Result<()> {
    let socket = UdpSocket::bind(listen).with_context(|| format!("cannot listen at {listen}"))?;
    print_line(format_args!("listening at {}", socket.local_addr()?));
    std::thread::spawn(move || {
        let report = |sender, why| warn(format_args!("datagrams of {sender} are ignored: {why}"));
        if let Err(error) = feed::udp(&socket, from, &hub, report) {
            warn(format_args!("receiving ended: {error}"));
        }
    });
    Ok(())
}

/// Takes in a log, on a thread: a long one takes a while.
fn read(path: &Path, hub: Arc<Hub>) -> Result<()> {
    let cannot = format!("cannot read {}", path.display());
    if !std::fs::metadata(path).context(cannot.clone())?.is_file() {
        bail!("{cannot}: it is no file; a pipe cannot be searched");
    }
    let log = Log::open(path).context(cannot.clone())?;
    std::thread::spawn(move || {
        if let Err(error) = feed::log(log, &hub) {
            warn(format_args!("{cannot}: {error}"));
        }
    });
    Ok(())
}

/// Where pages come from that may connect: `http://localhost:8080`, or `null`, which a page from a file sends.
fn origin(text: &str) -> Result<String, String> {
    if text.contains('*') {
        return Err(
            "any page that is open in the operator's browser could move the robot: name its origin, such as \
            http://localhost:8080 (the terminal names one that was refused)"
                .into(),
        );
    }
    let host = text.split_once("://").map_or("", |(_, host)| host);
    match text == "null" || !host.is_empty() && !host.contains('/') {
        true => Ok(text.to_owned()),
        false => Err("an origin is a scheme and a host, without a path: http://localhost:8080".into()),
    }
}

impl Allowed {
    /// None was given on the command line, neither a token nor an origin.
    pub fn is_default(&self) -> bool {
        self.secret.is_default() && self.allow_origin.is_empty()
    }

    /// The token, if there is one.
    ///
    /// # Errors
    /// As [`Secret::read`].
    pub fn token(&self) -> Result<Option<String>> {
        self.secret.read()
    }
}

impl At {
    fn serve(&self, hub: &Arc<Hub>) -> Result<(Serving, String)> {
        let token = match self.allowed.token()? {
            None if self.at.ip().is_loopback() => None,
            None => Some(Access::random_token()?),
            given => given,
        };
        let report = |why: &str| warn(format_args!("the live view refused a connection: {why}"));
        let access = Access::default().with_origins(self.allowed.allow_origin.clone()).with_report(report);
        let access = token.into_iter().fold(access, Access::with_token);
        let server = Server::bind(&self.at, access, hub.clone())
            .with_context(|| format!("cannot serve at {}", self.at))?;
        let at = server.at();
        if self.at.port() == 0 && at.port() != PORT {
            print_line(format_args!(
                "port {PORT} is taken, perhaps by another view: `khz param` needs `--at {at}` for this one"
            ));
        }
        let link = server.link(&own_name());
        Ok((server.start()?, link))
    }

    fn open(&self, link: &str) {
        if self.open {
            open_page(link);
        }
    }
}

/// Opens a page in whatever the desktop opens pages with; does not wait for it.
pub fn open_page(page: &str) {
    let browser = Command::new("xdg-open").arg(page).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    match browser {
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(error) => warn(format_args!("cannot open the browser: {error}; the page is at {page}")),
    }
}

/// How other computers find this one: by its address towards them, or else by its name.
fn own_name() -> String {
    let towards_others = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // Sends nothing; the kernel chooses which of its addresses it would use. 192.0.2.1 is for documentation.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    match towards_others() {
        Ok(ip) if !ip.is_unspecified() => ip.to_string(),
        _ => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

/// Shows the run of the process that started this one, until it is over and no page is open any more.
fn of_run(args: &Args, hub: &Arc<Hub>, serving: Serving, link: &str) -> Result<ExitCode> {
    let mut out = std::io::stdout();
    writeln!(out, "{link}")?;
    out.flush()?;
    args.at.open(link);
    feed::socket(std::io::stdin().as_fd().try_clone_to_owned()?, hub)?;
    let mut left: Option<Instant> = None;
    if hub.is_watched() {
        // Its reader may be gone.
        let _ = writeln!(out, "{}", viewer::STAYS).and_then(|()| out.flush());
        while left.is_none_or(|left| left.elapsed() < RELOAD) {
            left = if hub.is_watched() { None } else { left.or_else(|| Some(Instant::now())) };
            std::thread::sleep(LOOK);
        }
    }
    drop(serving);
    Ok(ExitCode::SUCCESS)
}

/// Leaves a CPU to the loop, if there is another.
fn stay_away(cpu: u32) {
    let Ok(mut cpus) = sched_getaffinity(None) else { return };
    if (cpu as usize) < CpuSet::MAX_CPU && cpus.count() > 1 {
        cpus.unset(cpu as usize);
        // A view on the loop's CPU costs it little: it has no priority there.
        let _ = sched_setaffinity(None, &cpus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was accepted, and allowed no page to connect.
    #[test]
    fn an_origin_that_allows_every_page_is_refused() {
        for good in ["http://localhost:8080", "https://app.example", "vscode-webview://x", "null"] {
            assert_eq!(origin(good), Ok(good.to_owned()));
        }
        for bad in ["*", "http://*", "https://*.example", "localhost:8080", "http://a/b", "http://", ""] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_is_read_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let secret = Secret { token: None, token_file: Some(path.clone()) };
        assert!(secret.read().unwrap_err().to_string().contains("cannot read the token"));
        std::fs::write(&path, "s3cret-s3cret\n").unwrap();
        assert_eq!(secret.read().unwrap().as_deref(), Some("s3cret-s3cret"));
        std::fs::write(&path, "short").unwrap();
        assert!(secret.read().unwrap_err().to_string().contains("8 or more"));
    }
}
