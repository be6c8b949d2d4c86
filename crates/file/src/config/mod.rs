//! One TOML file is the robot: read, checked, and turned into plain values.
//!
//! [`RobotConfig::load`] reads a file, [`RobotConfig::parse`] a text, and [`RobotConfig::quadruped`] gives the
//! machine `khz run` uses without a file. All problems of a file are reported at once, each with its line, its
//! column, its key and what to write instead. `docs/configuration.md` lists every key.
//!
//! ```
//! let robot = khz_file::RobotConfig::parse(
//!     r#"
//!     [bus.main]
//!     link = "emulated"
//!
//!     [[servo]]
//!     name = "pan"
//!     bus = "main"
//!     id = 1
//!     "#,
//!     "pan.toml",
//! )?;
//! assert_eq!(robot.timing.period_ns(), 1_000_000);
//! assert_eq!(robot.servos[0].bus, 0);
//! # Ok::<(), khz_file::ConfigError>(())
//! ```

mod bus;
mod bus_links;
mod checks;
mod diagram;
mod emulated;
mod families;
mod promises;
mod reference;
mod schema;
mod servo;
mod values;
mod varied;
mod whole;

pub use crate::links::{LinkConfig, LinkKind};
pub use bus::*;
pub use emulated::Simulation;
pub use families::{Facts, InFile, in_file, usual_servo};
pub use khz_controllers::{
    ExciteParameters, HoldParameters, PolicyConfig, SineParameters, StandAndSquatParameters, WalkParameters,
};
pub use khz_emu::{
    BodyConfig, DeviceConfig, EmulatedLink, EmulationConfig, HeatConfig, JointConfig, WireModel,
};
pub use khz_link::faults::{FaultEvent, FaultKind, FaultsConfig};
pub use khz_link::fdcanusb::FdcanusbLink;
pub use khz_link::pi3hat::{Pi3hatConfig, Pi3hatLink};
pub use khz_link::rs485::Rs485Link;
pub use khz_link::socketcan::SocketcanLink;
pub use khz_link::udp::UdpLink;
pub use khz_loop::cycle::MAX_LINKS;
pub use khz_loop::parameters::settings::{ParameterKind, ParameterSettings, ParametersConfig};
pub use khz_loop::steer::TeleopConfig;
pub use khz_loop::supervisor::{
    Arming, Descent, Limits, OutOfLimits, RESTART_UNSEEN, Reaction, Reactions, Recover, SupervisorSettings,
};
pub use khz_loop::time::Receive;
pub use khz_loop::timing::{Clock, LoopConfig, Mode, usual_deadline_ns};
pub use khz_loop::watchdogs::WatchdogSettings;
pub use khz_record::{Compression, LogConfig};
pub use khz_rt::{Overrun, Policy, Wake};
pub use khz_run::verdict::RobotFile;
pub use khz_settings::{ConfigError, Key, Problem, Word};
pub use khz_targets::{FollowConfig, Interpolation, SticksConfig, TargetsConfig};
pub use reference::reference;
pub use schema::schema;
pub use servo::*;
pub use varied::{Uncertain, Uncertainty, Variable};
pub use whole::*;

pub(crate) use checks::identifier;
use khz_settings::{KeyPlace, Reader};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A robot, as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct RobotConfig {
    /// `[robot]` name.
    pub name: String,
    /// `[loop]`.
    pub timing: LoopConfig,
    /// `[bus.NAME]`, in the order of the file.
    pub buses: Vec<BusConfig>,
    /// `[[servo]]`, in the order of the file.
    pub servos: Vec<ServoConfig>,
    /// `[imu]`.
    pub imu: Option<ImuConfig>,
    /// `[pi3hat]`, if a bus or the IMU is on one.
    pub pi3hat: Option<Pi3hatConfig>,
    /// `[controller]`.
    pub controller: ControllerConfig,
    /// `[parameters]`.
    pub parameters: ParametersConfig,
    /// `[teleop]`.
    pub teleop: TeleopConfig,
    /// `[targets]`.
    pub targets: TargetsConfig,
    /// `[supervisor]`.
    pub supervisor: SupervisorSettings,
    /// `[watchdog]`.
    pub watchdog: WatchdogSettings,
    /// `[log]`.
    pub log: LogConfig,
    /// `[emulation]`.
    pub emulation: EmulationConfig,
    /// `[body]`.
    pub body: Option<RobotBody>,
    /// What is suspicious but no error, ready to be shown.
    pub warnings: Vec<String>,
    /// Where it comes from: sentences about a run name it in the commands they print.
    pub file: RobotFile,
}

impl Default for RobotConfig {
    /// A robot file without a line. It is no robot yet: a bus and a servo are the least.
    fn default() -> Self {
        Self {
            name: RobotSection::default().name,
            timing: LoopConfig::default(),
            buses: Vec::new(),
            servos: Vec::new(),
            imu: None,
            pi3hat: None,
            controller: ControllerConfig::default(),
            parameters: ParametersConfig::new(),
            teleop: TeleopConfig::default(),
            targets: TargetsConfig::default(),
            supervisor: SupervisorSettings::default(),
            watchdog: WatchdogSettings::default(),
            log: LogConfig::default(),
            emulation: EmulationConfig::default(),
            body: None,
            warnings: Vec::new(),
            file: RobotFile::Unknown,
        }
    }
}

/// The quadruped `khz run` uses without a file.
pub const QUADRUPED: &str = include_str!("../../robots/quadruped.toml");

impl RobotConfig {
    /// Reads a robot file.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong; see [`ConfigError`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::of_file(&read_text(path.as_ref())?, &path.as_ref().display().to_string())
    }

    /// Reads a robot from the text of the file at this path: messages and the commands of a verdict name it.
    ///
    /// # Errors
    /// Something in the text is wrong; see [`ConfigError`].
    pub fn of_file(text: &str, path: &str) -> Result<Self, ConfigError> {
        Ok(Self { file: RobotFile::At(path.to_owned()), ..Self::parse(text, path)? })
    }

    /// Reads a robot from text; `name` is what messages call it.
    ///
    /// # Errors
    /// Something in the text is wrong; see [`ConfigError`].
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let (robot, warnings) = khz_settings::parse(text, name, |root, reader| {
            let robot = read_robot(root, reader);
            // Nearly all that is checked follows from the families.
            if families::are_known(reader) {
                checks::check(&robot, text, reader);
                families::check_beside(&robot, Path::new(name).parent(), reader);
            }
            robot
        })?;
        Ok(Self { warnings, ..robot }.beside(Path::new(name)))
    }

    /// Paths of files that belong to a robot file count from its folder.
    fn beside(mut self, file: &Path) -> Self {
        let Some(folder) = file.parent() else { return self };
        let place = |path: &mut String| *path = folder.join(&*path).display().to_string();
        if let Some(RobotBody::Mujoco(body)) = &mut self.body {
            place(&mut body.model);
        }
        if let ControllerConfig::Policy(policy) = &mut self.controller {
            place(&mut policy.model);
            policy.test.iter_mut().for_each(place);
        }
        if let Some(folder) = file.parent() {
            for endpoints in
                self.servos.iter_mut().filter_map(|servo| servo.settings.odrive.endpoints.as_mut())
            {
                *endpoints = folder.join(&*endpoints).display().to_string();
            }
        }
        self
    }

    /// The emulated 12-servo quadruped of `robots/quadruped.toml`.
    ///
    /// # Panics
    /// Never: a test reads the same text.
    pub fn quadruped() -> Self {
        match Self::parse(QUADRUPED, "robots/quadruped.toml") {
            Ok(robot) => Self { file: RobotFile::BuiltIn, ..robot },
            Err(error) => panic!("{error}"),
        }
    }

    /// The supervisor's settings, with the controller's share of a period: half of it in the tick, all of it on a thread
    /// of its own.
    pub fn supervisor_settings(&self) -> SupervisorSettings {
        let share = match self.timing.mode {
            Mode::Inline => 0.5,
            Mode::Pipelined => 1.0,
        };
        let mut settings = self.supervisor.at(self.timing.period_ns(), share);
        if self.imu.as_ref().is_some_and(|imu| imu.link == ImuLink::Emulated)
            && !self.emulation.imu_has_noise()
        {
            settings.imu_frozen_ms = Some(0.0);
        }
        settings
    }

    /// Whether every bus and the IMU are emulated.
    pub fn is_emulated(&self) -> bool {
        self.buses.iter().all(|bus| bus.link.is_emulated())
            && self.imu.as_ref().is_none_or(|imu| imu.link == ImuLink::Emulated)
    }

    /// How long the loop may be held up, s, before a servo's watchdog expires, the operator's heartbeat counts as lost, or the stall
    /// itself is too long, which brings the robot down.
    pub fn bearable_stall_s(&self) -> f64 {
        let watched = self.servos.iter().filter(|servo| servo.in_file().facts().has_watchdog);
        let watchdogs = watched.map(ServoConfig::sent_watchdog_s).filter(|&watchdog_s| watchdog_s > 0.0);
        let heartbeat = self.supervisor.heartbeat_ms.map(|ms| ms * 1e-3);
        let longest_s = khz_loop::supervisor::LONGEST_STALL_NS as f64 * 1e-9;
        let shortest_s = watchdogs.chain(heartbeat).fold(longest_s, f64::min);
        // The last command, or heartbeat, came up to a period before, and the next one travels.
        (shortest_s - 2.0 / self.timing.rate_hz).max(0.0)
    }

    /// After how long a stall, s, servos that have timed out are switched on again; `None`: the robot comes down.
    pub fn recoverable_stall_s(&self) -> Option<f64> {
        let recovers = self.supervisor.recover == Recover::On
            && self.supervisor.reactions.servo_fault == Reaction::Damp
            && self.servos.iter().all(|servo| servo.timeout().is_some());
        recovers.then_some(khz_loop::supervisor::LONGEST_RECOVERED_NS as f64 * 1e-9)
    }

    /// How the loop waits for replies: as the file sets, else by what its links need.
    pub fn receive(&self) -> Receive {
        let own = if self.needs_kernel_thread() { Receive::Poll } else { Receive::Spin };
        self.timing.receive.unwrap_or(own)
    }

    /// A thread of the kernel delivers the bytes of a bus.
    fn needs_kernel_thread(&self) -> bool {
        self.buses.iter().any(|bus| bus.link.bus().by_kernel_thread())
    }

    /// The loop spins for replies that a thread of the kernel delivers, which it can keep off its CPU.
    pub fn may_starve_its_replies(&self) -> bool {
        self.needs_kernel_thread() && self.receive() == Receive::Spin
    }

    /// The names of the records in the log of a run.
    pub fn record_names(&self) -> impl Iterator<Item = &'static str> {
        let imu = self.imu.as_ref().map(|_| "imu");
        let rest = ["event", "parameter", "teleop", "robot", "parameters"];
        ["tick", "servo", "command"].into_iter().chain(imu).chain(rest)
    }

    /// The servos on a bus with their indices, in the order of the file.
    pub fn servos_on(&self, bus: usize) -> impl Iterator<Item = (usize, &ServoConfig)> {
        self.servos.iter().enumerate().filter(move |(_, servo)| servo.bus == bus)
    }
}

/// The text of a robot file.
///
/// # Errors
/// The file cannot be read, or is no text.
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    let name = path.display().to_string();
    read_file(path).map_err(|error| unreadable(&name, &error.to_string()))
}

/// As [`read_text`], for those with an error of their own.
///
/// # Errors
/// The file cannot be read, is no text, or is a device: a serial port would be waited for without end.
pub fn read_file(path: &Path) -> io::Result<String> {
    if std::fs::metadata(path)?.file_type().is_char_device() {
        return Err(io::Error::other("it is a device, not a robot file"));
    }
    String::from_utf8(std::fs::read(path)?).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

fn unreadable(name: &str, why: &str) -> ConfigError {
    let problem = Problem::error("", format!("cannot read `{name}`: {why}"))
        .help("give the path of a robot file; examples are in the folder `robots`");
    ConfigError::new(vec![problem], "", name)
}

fn read_robot(root: &DeTable<'_>, reader: &mut Reader) -> RobotConfig {
    let tables = [
        "robot",
        "loop",
        "bus",
        "servo",
        "servo_defaults",
        "imu",
        "pi3hat",
        "controller",
        "parameters",
        "teleop",
        "targets",
        "supervisor",
        "watchdog",
        "log",
        "emulation",
        "body",
    ];
    reader.refuse_unknown(root, "", &tables);
    let buses = root.get("bus").map(|value| bus::read_buses(value, reader)).unwrap_or_default();
    RobotConfig {
        name: reader.table::<RobotSection>(root, "robot").name,
        timing: reader.table(root, "loop"),
        servos: read_servos(root, &buses, reader),
        buses,
        imu: read_imu(root, reader),
        pi3hat: root.get("pi3hat").map(|_| reader.table(root, "pi3hat")),
        controller: read_controller(root, reader),
        parameters: read_parameters(root, reader),
        teleop: reader.table(root, "teleop"),
        targets: reader.table(root, "targets"),
        supervisor: reader.table(root, "supervisor"),
        watchdog: reader.table(root, "watchdog"),
        log: reader.table(root, "log"),
        emulation: reader.table(root, "emulation"),
        body: read_body(root, reader),
        ..RobotConfig::default()
    }
}

fn read_imu(root: &DeTable<'_>, reader: &mut Reader) -> Option<ImuConfig> {
    let value = root.get("imu")?;
    if let Some(array) = value.get_ref().as_array() {
        let mut problem = Problem::error("imu", "a robot has one IMU");
        for (i, imu) in array.iter().enumerate() {
            problem = problem.at(imu.span(), if i == 0 { "one is here" } else { "and another here" });
        }
        reader.problems.push(problem.help("write one `[imu]` table, with single brackets"));
        return None;
    }
    Some(reader.table(root, "imu"))
}

fn read_controller(root: &DeTable<'_>, reader: &mut Reader) -> ControllerConfig {
    let value = root.get("controller");
    let table = value.and_then(|value| Some((as_table(value, "controller", reader)?, value.span())));
    table.map(|(table, span)| whole::read_controller(table, span, reader)).unwrap_or_default()
}

fn read_parameters(root: &DeTable<'_>, reader: &mut Reader) -> ParametersConfig {
    let table = root.get("parameters").and_then(|value| as_table(value, "parameters", reader));
    table.map(|table| khz_loop::parameters::settings::read_parameters(table, "", reader)).unwrap_or_default()
}

fn read_body(root: &DeTable<'_>, reader: &mut Reader) -> Option<RobotBody> {
    let value = root.get("body")?;
    let table = as_table(value, "body", reader)?;
    reader.remember("body".to_owned(), value.span());
    Some(whole::read_body(table, value.span(), reader))
}

fn as_table<'a, 'i>(
    value: &'a Spanned<DeValue<'i>>,
    path: &str,
    reader: &mut Reader,
) -> Option<&'a DeTable<'i>> {
    let table = value.get_ref().as_table();
    if table.is_none() {
        reader.wrong_type(value, &KeyPlace { path: path.to_owned(), key: &Key::table("", &[]) });
    }
    table
}

/// Reads `[[servo]]` over `[servo_defaults]`. A servo whose bus is not there gets bus 0; that is reported.
fn read_servos(root: &DeTable<'_>, buses: &[BusConfig], reader: &mut Reader) -> Vec<ServoConfig> {
    let empty = DeTable::new();
    let given = root.get("servo_defaults").and_then(|value| as_table(value, "servo_defaults", reader));
    let given = given.unwrap_or(&empty);
    reader.refuse_unknown(given, "servo_defaults", &ServoSettings::names());
    let defaults = ServoSettings::default().over(given, "servo_defaults", reader);
    let given: Vec<&str> = given.keys().map(|key| &**key.get_ref()).collect();
    let Some(value) = root.get("servo") else { return Vec::new() };
    let Some(array) = value.get_ref().as_array() else {
        let problem = Problem::error("servo", "`servo` must be a list of tables")
            .at(value.span(), "this is not")
            .help("write `[[servo]]`, with double brackets, above each servo");
        reader.problems.push(problem);
        return Vec::new();
    };
    let servos = array.iter().enumerate();
    servos.map(|(i, value)| read_servo(i, value, &defaults, &given, buses, reader)).collect()
}

fn read_servo(
    i: usize,
    value: &Spanned<DeValue<'_>>,
    defaults: &ServoSettings,
    given: &[&str],
    buses: &[BusConfig],
    reader: &mut Reader,
) -> ServoConfig {
    let path = format!("servo[{i}]");
    let mut settings = defaults.clone();
    if let Some(table) = as_table(value, &path, reader) {
        reader.refuse_unknown(table, &path, &ServoSettings::names());
        reader.require(table, value.span(), &path, ServoSettings::KEYS, given);
        settings = settings.over(table, &path, reader);
    }
    let bus = buses.iter().position(|bus| bus.name == settings.bus).unwrap_or(0);
    ServoConfig { bus, settings }
}
