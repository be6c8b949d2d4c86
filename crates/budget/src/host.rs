//! What this computer takes for its own parts of a tick: measured once, and kept for the predictions that follow.
//!
//! The robot runs for a while in real time, with its devices emulated. What is kept is of one computer, kernel and build of the
//! program; another's is not used.

use crate::costs::Inputs;
use khz_file::RobotConfig;
use khz_loop::run::{Observer, Tick};
use khz_loop::supervisor::Arming;
use khz_loop::timing::{Clock, Mode};
use khz_robot::assemble::Links;
use khz_robot::launch::{Launch, LaunchOptions, OpenLinks};
use khz_rt::Passport;
use khz_run::record;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// How long the robot runs.
const MEASURED_NS: i64 = 2_000_000_000;
/// So many ticks are kept at most.
const MOST_TICKS: usize = 20_000;

/// A computer's own parts of a tick: medians, ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The computer: CPU and kernel.
    pub machine: String,
    /// The program: its version and how it was built.
    pub program: String,
    /// The robot that was measured.
    pub robot: String,
    /// Encoding one servo's command.
    pub servo_ns: i64,
    /// Handing one frame to emulated devices in this process, which includes emulating them.
    pub emulated_send_ns: i64,
    /// The controller.
    pub control_ns: i64,
    /// Its name: another takes another time.
    pub controller: String,
    /// The supervisor.
    pub supervise_ns: i64,
    /// Handing the tick to the recorder.
    pub record_ns: i64,
}

impl Host {
    /// Runs a robot for two seconds with its devices emulated, and measures. `text` is its file's text. Blocks so long, and writes
    /// a log to the folder of temporary files, which it removes.
    ///
    /// # Errors
    /// It could not be run, or never came under control, and why.
    pub fn measure(robot: &RobotConfig, text: &str) -> Result<Self, String> {
        let robot = emulated(robot);
        let world = robot.emulate().map_err(|error| error.to_string())?;
        let places = (0..robot.buses.len()).map(|bus| (0, bus as u8)).collect();
        let imu = robot.imu.iter().map(|_| 0).collect();
        let links = Links { links: vec![Box::new(world)], places, imu };
        let links: OpenLinks = Box::new(|_| Ok(links));
        let ticks = Arc::<Mutex<Vec<record::Tick>>>::default();
        let seen = Seen { ticks: Vec::with_capacity(MOST_TICKS), out: Arc::clone(&ticks) };
        let options = LaunchOptions {
            links: Some(links),
            observers: vec![Box::new(seen)],
            duration_ns: Some(MEASURED_NS),
            ..LaunchOptions::default()
        };
        let launch = Launch::start(&robot, text, options).map_err(|error| error.to_string());
        let outcome = launch.and_then(|launch| launch.wait().map_err(|error| error.to_string()));
        // It may not have been made.
        let _ = std::fs::remove_file(&robot.log.path);
        outcome?;
        let ticks = ticks.lock().map_err(|error| error.to_string())?;
        Self::of(&robot, &ticks).ok_or_else(|| "the robot never came under control".to_owned())
    }

    fn of(robot: &RobotConfig, ticks: &[record::Tick]) -> Option<Self> {
        let median = |part: fn(&record::Tick) -> i64| {
            let mut parts: Vec<_> = ticks.iter().map(part).collect();
            parts.sort_unstable();
            parts.get(parts.len() / 2).copied()
        };
        let servos = robot.servos.len().max(1) as i64;
        Some(Self {
            machine: machine(),
            program: program(),
            robot: robot.name.clone(),
            servo_ns: median(|tick| tick.encode_ns)? / servos,
            emulated_send_ns: median(|tick| tick.send_ns)? / servos,
            control_ns: median(|tick| tick.control_ns)?,
            controller: robot.controller.kind().word().to_owned(),
            supervise_ns: median(|tick| tick.decide_ns - tick.control_ns)?,
            record_ns: median(|tick| tick.record_ns)?,
        })
    }

    /// Keeps it for this user. Returns where.
    ///
    /// # Errors
    /// There is no such place, or it cannot be written.
    pub fn keep(&self) -> io::Result<PathBuf> {
        let place = place().ok_or_else(|| io::Error::other("neither XDG_STATE_HOME nor HOME is set"))?;
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&place, format!("{:#}\n", serde_json::to_value(self)?))?;
        Ok(place)
    }

    /// What was kept, if it is of this computer and this program.
    pub fn kept() -> Option<Self> {
        let text = std::fs::read_to_string(place()?).ok()?;
        let host: Self = serde_json::from_str(&text).ok()?;
        (host.machine == machine() && host.program == program()).then_some(host)
    }
}

impl Inputs {
    /// The same with the parts of this computer as they were measured, for this robot.
    #[must_use]
    pub fn on(self, host: Option<&Host>, robot: &RobotConfig) -> Self {
        let Some(host) = host else { return self };
        let is_same = host.controller == robot.controller.kind().word();
        let mut measured = Self {
            servo_ns: host.servo_ns,
            supervise_ns: host.supervise_ns,
            record_ns: host.record_ns,
            measured: Some(host.robot.clone()),
            control_measured: is_same,
            ..self
        };
        if is_same {
            measured.control_ns = host.control_ns;
        }
        if robot.is_emulated() {
            measured.emulated_send_ns = host.emulated_send_ns;
        }
        measured
    }
}

/// The robot as it is measured: its devices emulated, and nothing that reaches beyond this process.
fn emulated(robot: &RobotConfig) -> RobotConfig {
    let mut robot = robot.clone();
    let log = std::env::temp_dir().join(format!("khz-budget-{}.tlog", std::process::id()));
    (robot.log.enabled, robot.log.stream) = (true, None);
    robot.log.path = log.display().to_string();
    (robot.timing.clock, robot.timing.mode, robot.timing.strict) = (Clock::Real, Mode::Inline, false);
    (robot.timing.pace_bus, robot.timing.pace_id) = (None, None);
    (robot.supervisor.arming, robot.supervisor.heartbeat_from) = (Arming::Automatic, None);
    (robot.watchdog.device, robot.watchdog.systemd) = (None, false);
    (robot.teleop.from, robot.body) = (None, None);
    robot
}

/// The ticks of a run that were controlled.
struct Seen {
    ticks: Vec<record::Tick>,
    out: Arc<Mutex<Vec<record::Tick>>>,
}

impl Observer for Seen {
    fn tick(&mut self, tick: &Tick<'_>) {
        // Where there is no room, nothing is allocated within a tick.
        let tick = &tick.record;
        if tick.controlled && tick.controller_ran && self.ticks.len() < self.ticks.capacity() {
            self.ticks.push(*tick);
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        if let Ok(mut out) = self.out.lock() {
            *out = std::mem::take(&mut self.ticks);
        }
    }
}

fn machine() -> String {
    let Passport { cpu, kernel, .. } = Passport::read();
    format!("{cpu}, Linux {kernel}")
}

fn program() -> String {
    let built = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("khz {} ({built})", env!("CARGO_PKG_VERSION"))
}

/// Where it is kept.
fn place() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    set.or_else(home).map(|folder| folder.join("kilohertz/host.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(controller: &str) -> Host {
        let of = |name: &str| name.to_owned();
        Host {
            machine: machine(),
            program: program(),
            robot: of("legs"),
            servo_ns: 700,
            emulated_send_ns: 680,
            control_ns: 1_200,
            controller: of(controller),
            supervise_ns: 2_000,
            record_ns: 5_000,
        }
    }

    #[test]
    fn medians_are_per_servo() {
        let robot = RobotConfig::quadruped();
        let tick = record::Tick {
            encode_ns: 12_000,
            send_ns: 12_000,
            collect_ns: 676_000,
            decide_ns: 5_000,
            control_ns: 2_000,
            record_ns: 4_000,
            ..record::Tick::UNKNOWN
        };
        let host = Host::of(&robot, &[tick; 3]).unwrap();
        assert_eq!((host.servo_ns, host.emulated_send_ns), (1_000, 1_000));
        assert_eq!((host.control_ns, host.supervise_ns, host.record_ns), (2_000, 3_000, 4_000));
        assert_eq!(Host::of(&robot, &[]), None);
    }

    #[test]
    fn a_prediction_says_what_was_measured_and_what_assumed() {
        let robot = RobotConfig::quadruped();
        let text = |host: Option<&Host>| {
            crate::TickPlan::of(&robot, Inputs::of(&robot).on(host, &robot)).predict().assumptions[0].clone()
        };
        assert!(text(None).contains("assumed"), "{}", text(None));
        let same = host(robot.controller.kind().word());
        assert!(text(Some(&same)).contains("measured") && !text(Some(&same)).contains("assumed"));
        let other = text(Some(&host("another")));
        assert!(other.contains("measured") && other.contains("controller 10 µs (assumed"), "{other}");
    }

    #[test]
    fn what_emulated_devices_take_is_no_part_of_a_real_robot() {
        let emulated = RobotConfig::quadruped();
        let file =
            "[bus.b]\nlink = \"fdcanusb\"\npath = \"/dev/x\"\n[[servo]]\nname = \"s\"\nbus = \"b\"\nid = 1\n";
        let real = RobotConfig::parse(file, "robot.toml").unwrap();
        let send_ns = |robot| Inputs::of(robot).on(Some(&host("hold")), robot).emulated_send_ns;
        assert_eq!([send_ns(&emulated), send_ns(&real)], [680, 0]);
    }
}
