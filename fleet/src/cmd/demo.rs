//! `khz-fleet demo`.

use super::view::View;
use super::{show, signalled};
use crate::bridge::eprint_line;
use crate::network::{Options, ROUTER, Role};
use crate::programs::khz;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The robots: name and file.
const ROBOTS: [(&str, &str); 5] = [
    ("pan_tilt", include_str!("../../../robots/pan_tilt.toml")),
    ("leg3", include_str!("../../../robots/leg3.toml")),
    ("arm", include_str!("../../../robots/arm.toml")),
    ("quadruped", include_str!("../../../robots/quadruped.toml")),
    ("walker", include_str!("../../../robots/quadruped_walk.toml")),
];

/// How long a robot may take to come down.
const PATIENCE: Duration = Duration::from_secs(10);

/// Start five emulated robots with their bridges and a router on this computer, and serve their pages, until Ctrl-C
#[derive(clap::Args)]
pub struct Args {
    /// The rate of the robots' loops, Hz
    #[arg(long, default_value_t = 200.0, value_parser = rate)]
    rate: f64,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (200.0..=1000.0).contains(rate));
    rate.ok_or_else(|| "a rate is 200 to 1000 Hz: below, the walking robot falls".into())
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    // A second Ctrl-C ends the programs at once, and does not end the demo before them.
    let stop = signalled()?;
    let folder = tempfile::tempdir().context("cannot make a folder for the robots' logs")?;
    let endpoint = network.router.clone().map_or_else(free_endpoint, Ok)?;
    let local = Options { router: Some(endpoint.clone()), ..network.clone() };
    let _router = local.session(Role::Router)?;
    let mut programs = Programs { folder: folder.path().to_owned(), all: Vec::new(), stop: stop.clone() };
    for (name, text) in ROBOTS {
        start(&mut programs, folder.path(), name, text, args.rate, &endpoint)?;
    }
    let view = View::start(local.session(Role::Visitor)?, ([127, 0, 0, 1], 8770).into(), None)?;
    show(&format!("{}\n", view.link))?;
    eprint_line(&format!("the pages of all robots: {}", view.link));
    let at = if endpoint == ROUTER { String::new() } else { format!(" --router {endpoint}") };
    eprint_line(&format!("router at {endpoint}: try `khz-fleet{at} ls`, top, stop leg3, logs arm"));
    eprint_line(&format!("logs in {}; they go with this demo", folder.path().display()));
    let mut reported = Vec::new();
    view.wait(&stop, || {
        programs.report(&mut reported);
        programs.is_any_left()
    });
    eprint_line("ending the robots and their bridges; Ctrl-C again ends them at once");
    programs.end();
    Ok(ExitCode::SUCCESS)
}

/// Starts a robot and its bridge.
fn start(
    programs: &mut Programs,
    folder: &Path,
    name: &str,
    text: &str,
    rate: f64,
    endpoint: &str,
) -> Result<()> {
    let logs = folder.join(name);
    std::fs::create_dir(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, robot(name, text, rate)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let (stream, view) = (free_udp()?, free_tcp()?);
    let bridge = std::env::current_exe().context("cannot find this program")?;
    let mut bridge = Command::new(bridge);
    bridge.args(["--router", endpoint, "bridge", "--name", name]);
    bridge.args(["--listen", &stream.to_string(), "--view", &view.to_string()]).arg("--logs").arg(&logs);
    programs.start(&format!("bridge of {name}"), bridge)?;
    let mut robot = Command::new(khz());
    robot.current_dir(&logs).arg("run").arg(&file);
    robot.args([
        "--no-report",
        "--log",
        "run.tlog",
        "--stream",
        &stream.to_string(),
        &format!("--view={view}"),
    ]);
    programs.start(&format!("robot {name}"), robot)
}

/// A robot file with another name and rate. The loops share a computer with each other: none asks for a CPU of its own.
fn robot(name: &str, text: &str, rate: f64) -> Result<String> {
    let mut file: toml::Table = toml::from_str(text).with_context(|| format!("the robot file of {name}"))?;
    let mut set = |table: &str, key: &str, value: toml::Value| {
        if let Some(table) = file.entry(table).or_insert_with(|| toml::Table::new().into()).as_table_mut() {
            table.insert(key.to_owned(), value);
        }
    };
    set("robot", "name", name.into());
    set("loop", "rate_hz", rate.into());
    toml::to_string(&file).with_context(|| format!("the robot file of {name}"))
}

fn free_endpoint() -> Result<String> {
    let usual = TcpListener::bind("127.0.0.1:7447").and_then(|listener| listener.local_addr());
    let at = usual.map_or_else(|_| free_tcp(), Ok)?;
    Ok(format!("tcp/{at}"))
}

fn free_tcp() -> Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).context("no port is free")
}

fn free_udp() -> Result<SocketAddr> {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).context("no port is free")
}

/// The programs of a demo. Dropped, they end.
struct Programs {
    folder: PathBuf,
    all: Vec<(String, Child)>,
    stop: Arc<AtomicBool>,
}

impl Programs {
    fn start(&mut self, what: &str, command: Command) -> Result<()> {
        let program = command.get_program().to_owned();
        // Whatever ends the demo ends them.
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut follower = Command::new(own);
        follower
            .arg("with-parent")
            .arg(std::process::id().to_string())
            .arg(&program)
            .args(command.get_args());
        command.get_current_dir().into_iter().for_each(|folder| _ = follower.current_dir(folder));
        let mut command = follower;
        // The output of a program is of interest only when it ends by itself.
        let stderr = std::fs::File::create(self.folder.join(format!("{what}.txt")))
            .context("cannot keep what programs say")?;
        // A group of its own: Ctrl-C is for the demo, which brings the robots down before their bridges.
        command.process_group(0);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn();
        match child {
            Ok(child) => self.all.push((what.to_owned(), child)),
            Err(error) => {
                bail!("cannot start {}: {error} (the variable KHZ names the program khz)", program.display())
            }
        }
        Ok(())
    }

    /// Reports once each program that has ended.
    fn report(&mut self, reported: &mut Vec<String>) {
        for (what, child) in &mut self.all {
            if let Ok(Some(status)) = child.try_wait()
                && !reported.contains(what)
            {
                let output =
                    std::fs::read_to_string(self.folder.join(format!("{what}.txt"))).unwrap_or_default();
                eprint_line(&format!(
                    "{what} has ended: {status}: {}",
                    output.lines().last().unwrap_or("it printed nothing")
                ));
                reported.push(what.clone());
            }
        }
    }

    fn is_any_left(&mut self) -> bool {
        self.all.iter_mut().any(|(_, child)| matches!(child.try_wait(), Ok(None)))
    }

    /// Ends the robots gently, then the rest.
    fn end(&mut self) {
        // From now on it is set by the next Ctrl-C.
        self.stop.store(false, Ordering::Relaxed);
        for what in ["robot", "bridge"] {
            let mut of_kind: Vec<_> = self
                .all
                .iter_mut()
                .filter(|(name, _)| name.starts_with(what))
                .map(|(_, child)| child)
                .collect();
            of_kind.iter().for_each(|child| interrupt(child));
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until
                && !self.stop.load(Ordering::Relaxed)
                && of_kind.iter_mut().any(|child| matches!(child.try_wait(), Ok(None)))
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            of_kind.iter_mut().for_each(|child| {
                let _ = child.kill();
                let _ = child.wait();
            });
        }
        self.all.clear();
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ctrl-C for one that still runs; its number is not another's before it was waited for.
fn interrupt(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::INT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_robot_of_the_demo_has_its_name_and_rate() {
        for (name, text) in ROBOTS {
            let file: toml::Table = robot(name, text, 200.0).unwrap().parse().unwrap();
            assert_eq!(
                (file["robot"]["name"].as_str(), file["loop"]["rate_hz"].as_float()),
                (Some(name), Some(200.0))
            );
            assert!(file.contains_key("servo"));
        }
    }
}
