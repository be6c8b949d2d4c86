//! `khz emulate`: the devices of a robot file, for any client.

use super::{BAD_INPUT, print_line, show, stop_on_signal};
use anyhow::{Context, Result, anyhow, bail};
use khz_emu::serve::{Endpoint, Server};
use khz_emu::{InjectedFault, Injection};
use khz_file::RobotConfig;
use khz_file::config::ServoConfig;
use khz_file::links::LinkKind;
use khz_link::socketcan::interface::Interface;
use khz_loop::Doing;
use khz_page::duration_ns;
use khz_wire::slcan::Answers;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Serve a robot's emulated devices to other programs
///
/// On pseudo terminals, CAN interfaces or UDP ports.
///
/// Prints one line `BUS ENDPOINT` per bus as soon as it can be used, then serves until Ctrl-C. A pseudo terminal is
/// for the vendor's Python programs, for example `moteus_tool --fdcanusb ENDPOINT --info`, and for `khz`.
///
/// The vendor's C++ client cannot open a pseudo terminal by its path: it asks for serial settings (TIOCGSERIAL) that
/// only real serial ports have. Use `--at BUS=socketcan:vcan0` and its `--socketcan-iface vcan0`, or open the terminal
/// in your program and give its `Fdcanusb` the file descriptor (docs/emulator.md, "Clients").
///
/// The links of the robot file are ignored: every bus is a pseudo terminal unless `--at` gives another endpoint, so that
/// emulated servos do not answer on a bus with real ones by mistake.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz emulate robots/pan_tilt.toml
  moteus_tool --fdcanusb ENDPOINT --info           with the endpoint it prints
  khz emulate robot.toml --at main=socketcan:vcan0")]
pub struct Args {
    /// The robot file; without it, the built-in quadruped.
    robot: Option<PathBuf>,
    /// Serve this bus there: `terminal`, `slcan` (a CANable for python-can), `slcan:canable` (one that acknowledges nothing),
    /// `socketcan:INTERFACE` or `udp:ADDRESS:PORT`. Once per bus.
    #[arg(long, value_name = "BUS=WHERE", value_parser = at)]
    at: Vec<(String, Endpoint)>,
    /// Inject a fault when the first servo follows a command, or TIME after that: `KIND[=VALUE][:SERVO][@TIME]`, for example
    /// `mode=15:pan@1s` (reports mode 15). Repeatable; `help` lists the kinds.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// End after this time, for example 30s.
    #[arg(long, value_parser = duration_ns)]
    duration: Option<i64>,
    /// Make a symbolic link FOLDER/BUS to each pseudo terminal while serving.
    #[arg(long, value_name = "FOLDER")]
    links: Option<PathBuf>,
}

fn at(text: &str) -> Result<(String, Endpoint), String> {
    let (bus, endpoint) = text.split_once('=').ok_or("write BUS=WHERE")?;
    Ok((bus.to_owned(), endpoint.parse().map_err(|error| format!("{error}"))?))
}

/// Serves until it is asked to stop.
pub fn run(args: Args) -> Result<ExitCode> {
    let robot = match args.robot.as_ref().map(RobotConfig::load) {
        None => RobotConfig::quadruped(),
        Some(Ok(robot)) => robot,
        Some(Err(error)) => {
            print_line(&error);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let stop = stop_on_signal()?;
    let mut faults =
        args.fault.iter().map(|text| Pending::parse(text, &robot)).collect::<Result<Vec<_>>>()?;
    let endpoints = endpoints(&robot, &args.at)?;
    require_fd(&robot, &endpoints)?;
    let mut server = Server::at(robot.emulate()?, &endpoints).context("cannot serve the buses")?;
    let names = robot.buses.iter().map(|bus| bus.name.as_str());
    let served: Vec<(&str, PathBuf)> = names.zip(server.endpoints()).collect();
    let _links = args.links.map(|folder| Links::make(&folder, &served)).transpose()?;
    announce(&served)?;
    let until = args.duration.map(|duration_ns| khz_rt::now_ns().saturating_add(duration_ns));
    while !faults.is_empty()
        && !stop.load(Ordering::Relaxed)
        && until.is_none_or(|until_ns| khz_rt::now_ns() < until_ns)
    {
        server.run(&stop, Some(khz_rt::now_ns() + LOOK_NS))?;
        put_in(&mut faults, &mut server);
    }
    server.run(&stop, until)?;
    Ok(ExitCode::SUCCESS)
}

/// How often it is looked whether a fault is due, ns.
const LOOK_NS: i64 = 5_000_000;

/// A fault that has not begun.
struct Pending {
    what: InjectedFault,
    after_ns: i64,
    /// When a servo first followed a command.
    since_ns: Option<i64>,
}

impl Pending {
    fn parse(text: &str, robot: &RobotConfig) -> Result<Self> {
        let (rest, after) = text.rsplit_once('@').map_or((text, None), |(rest, after)| (rest, Some(after)));
        let (fault, servo) = rest.split_once(':').map_or((rest, None), |(fault, servo)| (fault, Some(servo)));
        let (kind, value) = fault.split_once('=').unwrap_or((fault, "1"));
        if kind == fault && InjectedFault::has_size(kind) {
            bail!("--fault {text}: write {kind}=NUMBER; see khz emulate --help");
        }
        let value: f64 =
            value.parse().with_context(|| format!("--fault {text}: `{value}` is not a number"))?;
        let number = |name: &str| robot.servos.iter().position(|servo| servo.name == name);
        let servo =
            servo.map_or(Some(0), number).with_context(|| format!("--fault {text}: no such servo"))?;
        let what =
            InjectedFault::named(kind, servo, value).map_err(|why| anyhow!("--fault {text}: {why}"))?;
        if let Some(servo) = robot.servos.get(servo) {
            is_there(what, servo).map_err(|why| anyhow!("--fault {text}: {why}"))?;
        }
        let after_ns =
            after.map_or(Ok(0), duration_ns).map_err(|error| anyhow!("--fault {text}: {error}"))?;
        Ok(Self { what, after_ns, since_ns: None })
    }
}

/// Whether the servo can suffer it; else why not.
fn is_there(what: InjectedFault, servo: &ServoConfig) -> Result<(), String> {
    let (twin, family) = (servo.twin(), servo.family.title());
    let misbehaviours = twin.misbehaviours();
    match what {
        InjectedFault::Servo(_, Injection::Fault(code)) if !misbehaviours.has_fault(code) => {
            Err(format!("a {family} has no fault {code}"))
        }
        _ if !what.suits(misbehaviours) => {
            Err(format!("a {family} has no such fault; it has {}", InjectedFault::names(Some(misbehaviours))))
        }
        _ => Ok(()),
    }
}

/// Puts those faults in that are due.
fn put_in(faults: &mut Vec<Pending>, server: &mut Server) {
    let now_ns = khz_rt::now_ns();
    let follows = server.world().servos().iter().any(|servo| servo.doing() == Doing::Following);
    faults.retain_mut(|fault| {
        fault.since_ns = fault.since_ns.or(follows.then_some(now_ns));
        let is_due = fault.since_ns.is_some_and(|since_ns| now_ns - since_ns >= fault.after_ns);
        if is_due {
            fault.what.put_into(server.world(), now_ns);
        }
        !is_due
    });
}

/// Where each bus is served, in the order of the robot file.
fn endpoints(robot: &RobotConfig, at: &[(String, Endpoint)]) -> Result<Vec<Endpoint>> {
    let mut endpoints: Vec<Endpoint> = robot.buses.iter().map(|bus| usual(bus.link.kind())).collect();
    for (name, endpoint) in at {
        let bus = robot.buses.iter().position(|bus| bus.name == *name);
        let names = || robot.buses.iter().map(|bus| bus.name.as_str()).collect::<Vec<_>>().join(", ");
        let bus = bus.with_context(|| format!("--at {name}: no such bus; there are: {}", names()))?;
        endpoints[bus] = endpoint.clone();
    }
    Ok(endpoints)
}

/// Servos that speak CAN-FD would receive nothing on an interface for classic CAN.
fn require_fd(robot: &RobotConfig, endpoints: &[Endpoint]) -> Result<()> {
    for (bus, endpoint) in endpoints.iter().enumerate() {
        let speaks_fd = robot.servos_on(bus).find(|(_, servo)| servo.speaks_fd());
        if let (Endpoint::Can(interface), Some((_, servo))) = (endpoint, speaks_fd) {
            Interface::read(interface)?.require_fd(&servo.name)?;
        }
    }
    Ok(())
}

/// Where a bus is served without `--at`: on a terminal that speaks as its link's adapter does.
fn usual(link: LinkKind) -> Endpoint {
    match link {
        LinkKind::Slcan => Endpoint::Slcan(Answers::Lawicel),
        _ => Endpoint::Terminal,
    }
}

fn announce(served: &[(&str, PathBuf)]) -> Result<()> {
    let line = |(name, endpoint): &(&str, PathBuf)| format!("{name} {}\n", endpoint.display());
    show(&served.iter().map(line).collect::<String>())
}

/// Symbolic links that vanish with the server.
struct Links(Vec<PathBuf>);

impl Links {
    fn make(folder: &Path, served: &[(&str, PathBuf)]) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut links = Self(Vec::new());
        // Interfaces and addresses are no paths.
        for (name, endpoint) in served.iter().filter(|(_, endpoint)| endpoint.is_absolute()) {
            let link = folder.join(name);
            if link.is_symlink() {
                std::fs::remove_file(&link).with_context(|| format!("cannot replace {}", link.display()))?;
            }
            std::os::unix::fs::symlink(endpoint, &link)
                .with_context(|| format!("cannot make the link {}", link.display()))?;
            links.0.push(link);
        }
        Ok(links)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for link in &self.0 {
            // Another process may have removed it, which is all that is wanted.
            let _ = std::fs::remove_file(link);
        }
    }
}
