//! The live view of a run, `khz view` as a process of its own: its memory, its threads and its clients are not the loop's.
//!
//! [`Options::start`] goes before the real-time set-up, which a child would inherit. What it returns for
//! [`crate::launch::LaunchOptions::live`] never makes the loop wait.

use khz_file::config::RobotConfig;
use khz_loop::timing::Clock;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// The program that serves the view, and the variable that names it where it is not found.
const PROGRAM: &str = "khz";
const VARIABLE: &str = "KHZ";
/// What the view prints when the run is over and a page is still open.
pub const STAYS: &str = "stays";

/// The variable that has the view's token: every user of the computer can read arguments (`ps`).
pub const TOKEN: &str = "KHZ_VIEW_TOKEN";

/// So long a view may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long it may take to show the rest of a run. One that takes longer may be frozen, and does not delay the end.
const ENDING: Duration = Duration::from_secs(1);
/// More than a view prints, bytes.
const LONGEST: u64 = 4096;

/// Why there is no live view.
#[derive(Debug, thiserror::Error)]
pub enum ViewerError {
    /// It makes no sense.
    #[error("the live view is for a run in real time: a run in virtual time is over before you can look")]
    VirtualTime,
    /// The program is not installed.
    #[error(
        "the live view is served by the program khz, which is neither beside this program nor in PATH: install it (in a \
         clone of Kilohertz: cargo install --path crates/cli), or name it in the environment variable KHZ"
    )]
    NoProgram,
    /// The program cannot be run.
    #[error("cannot start {0}, which serves the live view: {1}")]
    Start(PathBuf, io::Error),
    /// It is something else.
    #[error("{0} is not the khz that serves the live view: it printed no link; is it of another version?")]
    Other(PathBuf),
    /// It hangs.
    #[error("{0}, which serves the live view, has printed nothing for 10 s")]
    Silent(PathBuf),
    /// It ended at once; what was wrong it has written to stderr.
    #[error("the live view could not be started")]
    Ended,
}

/// Where a run is shown, and to whom. By default at port 8765, or a free one if that is taken, to this computer alone.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to serve at; with port 0 it is 8765, or a free one.
    pub at: SocketAddr,
    /// Open the page in the browser.
    pub open: bool,
    /// What every client needs to connect: 8 or more letters, digits, `-` and `_`. `None`: a random one if other computers can reach the
    /// address, else none.
    pub token: Option<String>,
    /// Pages of these origins may connect, too, such as `http://localhost:8080`.
    pub origins: Vec<String>,
    /// The program that serves it; `None`: what [`find`] finds.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            at: (Ipv4Addr::LOCALHOST, 0).into(),
            open: false,
            token: None,
            origins: Vec::new(),
            program: None,
        }
    }
}

impl Options {
    /// Starts the program as the view of a robot's run. Returns it with the robot's end of the socket. Blocks until the
    /// page can be opened.
    ///
    /// # Errors
    /// When it cannot be started, or the run is one in virtual time.
    pub fn start(&self, config: &RobotConfig) -> Result<(Viewer, OwnedFd), ViewerError> {
        if config.timing.clock == Clock::Virtual {
            return Err(ViewerError::VirtualTime);
        }
        let program = &self.program.clone().map_or_else(|| find(&[]), Ok)?;
        let cannot = |error| ViewerError::Start(program.to_owned(), error);
        let (robot, view) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|error| cannot(error.into()))?;
        let mut command = self.command(program, config);
        // A group of its own: Ctrl-C is for the robot, and the view ends after it.
        let mut child =
            command.stdin(view).stdout(Stdio::piped()).process_group(0).spawn().map_err(cannot)?;
        let lines = child.stdout.take();
        let lines = lines_of(lines.ok_or(ViewerError::Ended)?);
        let link = lines.recv_timeout(PATIENCE);
        let link = match link {
            Ok(link) if link.starts_with("http://") => Ok(link),
            Ok(_) => Err(ViewerError::Other(program.to_owned())),
            Err(RecvTimeoutError::Timeout) => Err(ViewerError::Silent(program.to_owned())),
            Err(RecvTimeoutError::Disconnected) => Err(ViewerError::Ended),
        };
        if link.is_err() {
            // It may be any program.
            let _ = child.kill();
        }
        std::thread::spawn(move || child.wait());
        Ok((Viewer { lines, link: link? }, robot))
    }

    fn command(&self, program: &Path, config: &RobotConfig) -> Command {
        let mut command = Command::new(program);
        command.args(["view", "--socket", "--at", &self.at.to_string()]);
        command.args(config.timing.cpu.iter().flat_map(|cpu| ["--not-cpu".to_owned(), cpu.to_string()]));
        command.args(self.open.then_some("--open"));
        match &self.token {
            Some(token) => command.env(TOKEN, token),
            None => command.env_remove(TOKEN),
        };
        command.args(self.origins.iter().flat_map(|origin| ["--allow-origin", origin]));
        command
    }
}

/// An address of a view, with or without a port (then 0): `127.0.0.1`, `0.0.0.0:8765`, `[::1]:8765`, `localhost`.
///
/// # Errors
/// Another text, with what it should be.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    match text {
        "localhost" => Ok((Ipv4Addr::LOCALHOST, 0).into()),
        text => text.parse().or_else(|_| ip(text)).map_err(|_| {
            "an address is an IP address, with or without a port: 127.0.0.1, 0.0.0.0:8765".to_owned()
        }),
    }
}

/// The program `khz`: named by the environment variable KHZ, in one of the folders `beside`, in this program's own or that
/// above it (as Cargo has examples and tests), or in PATH.
///
/// # Errors
/// It is nowhere.
pub fn find(beside: &[PathBuf]) -> Result<PathBuf, ViewerError> {
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let own = env::current_exe().ok();
    let own = own.iter().flat_map(|own| own.ancestors().skip(1).take(2)).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.iter().cloned().chain(own).chain(env::split_paths(&path));
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    folders.map(|folder| folder.join(PROGRAM)).find(is_program).ok_or(ViewerError::NoProgram)
}

/// What a program prints, line by line. A thread reads it, so waiting for a line can time out.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (lines, read) = sync_channel(1);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout.take(LONGEST));
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
            if lines.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    read
}

/// The live view of a run.
#[derive(Debug)]
pub struct Viewer {
    lines: Receiver<String>,
    link: String,
}

impl Viewer {
    /// The page's address, with the token if it needs one.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// Waits until the view has shown the run to its end, 1 s at the most. Returns whether it stays, because a page is open.
    pub fn stays(self) -> bool {
        self.lines.recv_timeout(ENDING).is_ok_and(|word| word == STAYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(program: impl Into<PathBuf>) -> Options {
        Options { program: Some(program.into()), ..Options::default() }
    }

    #[test]
    fn virtual_time_is_not_shown() {
        let mut config = RobotConfig::quadruped();
        config.timing.clock = Clock::Virtual;
        let refused = by("/nowhere").start(&config);
        assert!(matches!(refused, Err(ViewerError::VirtualTime)));
    }

    /// A view that was stopped (SIGSTOP) held the end of its run up until it went on.
    #[test]
    fn the_end_of_a_run_waits_for_no_view_that_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("khz");
        // Like `khz view` it ends with its socket.
        std::fs::write(&program, "#!/bin/sh\necho http://127.0.0.1:1/\nexec cat >/dev/null\n").unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let (viewer, robot) = by(program).start(&RobotConfig::quadruped()).unwrap();
        assert_eq!(viewer.link(), "http://127.0.0.1:1/");
        assert!(!viewer.stays());
        drop(robot);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let refused = by("/nowhere/khz").start(&RobotConfig::quadruped());
        let text = refused.map(|_| ()).map_err(|error| error.to_string());
        assert!(text.is_err_and(|text| text.contains("/nowhere/khz")));
    }

    #[test]
    fn the_token_is_no_argument_that_everybody_can_read() {
        let token = Some("s3cret-s3cret".to_owned());
        let options = Options { token, ..Options::default() };
        let command = options.command(Path::new("khz"), &RobotConfig::quadruped());
        assert!(command.get_args().all(|argument| argument != "s3cret-s3cret"));
        assert!(
            command.get_envs().any(|(name, value)| name == TOKEN && value == Some("s3cret-s3cret".as_ref()))
        );
    }

    #[test]
    fn a_program_that_is_something_else_is_no_view() {
        let start = |program| by(program).start(&RobotConfig::quadruped());
        assert!(matches!(start("/bin/true"), Err(ViewerError::Ended)));
        assert!(matches!(start("/bin/echo"), Err(ViewerError::Other(_))));
    }
}
