//! What a [`crate::World`] is made of: plain data, checked once when the world is built.

pub use crate::thermal::HeatConfig;
use khz_servo::Mounting;
use khz_settings::section;
use khz_wire::address::BROADCAST;
use khz_wire::robstride::{MOST_ID, POSITION_RANGE};

/// An emulated machine: its buses, servos and IMU.
#[derive(Clone, Debug, Default)]
pub struct WorldConfig {
    /// The buses; a servo names one by its index, which is also its channel on the link.
    pub buses: Vec<BusConfig>,
    /// The servos, in the order in which a body counts its joints.
    pub servos: Vec<ServoConfig>,
    /// The IMU, if there is one.
    pub imu: Option<ImuConfig>,
    /// Seed of all noise; equal seeds and equal inputs give equal bytes.
    pub seed: u64,
}

/// One bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusConfig {
    /// What its bits cost.
    pub wire: WireKind,
    /// From the end of a request to the earliest start of its reply, ns.
    pub turnaround_ns: i64,
    /// Frames the host's adapter queues before it is full.
    pub host_queue: u16,
    /// What the host's controller has room for until the host fetches it; `None`: for everything.
    pub receive: Option<ReceiveBuffers>,
}

/// A small controller that loses what the host does not fetch in time, as an MCP2515 does with two buffers. What it keeps
/// is received at once all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffers {
    /// Frames it has room for, at least 1.
    pub frames: u8,
    /// What the host takes to fetch one, ns.
    pub fetch_ns: i64,
}

/// How frames share and occupy a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// CAN-FD: arbitration by identifier, stuffed bits at two rates.
    CanFd {
        /// Bits per second of arbitration and acknowledgement.
        nominal_bps: u32,
        /// Bits per second of the data phase.
        data_bps: u32,
    },
    /// RS485 half duplex: ten bits per byte and no arbitration; who talks over another destroys both frames.
    Rs485 {
        /// Bits per second.
        baud: u32,
    },
    /// No time at all; the turnaround is ignored too. Leaves the host's own cost to be measured.
    Instant,
}

/// One servo and the joint it drives.
#[derive(Clone, Debug, PartialEq)]
pub struct ServoConfig {
    /// Index of its bus.
    pub bus: usize,
    /// Its id: 1 to 126 of a moteus, 127 of others.
    pub id: u8,
    /// What it speaks.
    pub family: FamilyConfig,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// How it is mounted on its joint.
    pub mounting: Mounting,
    /// What hangs on its output, in angles of the joint.
    pub joint: JointConfig,
    /// Torque at the joint per torque that the servo believes to give.
    pub motor_constant: f64,
    /// Supply voltage without load, V.
    pub supply_v: f64,
    /// Temperature around it, °C.
    pub ambient_c: f64,
    /// How it warms up.
    pub thermal: HeatConfig,
    /// Heat flows this many times as fast as everything else happens.
    pub heat_rate: f64,
    /// Settings as a moteus's console names them, for example `("servo.pid_position.kp", "50")`.
    pub settings: Vec<(String, String)>,
}

/// What a servo speaks, with what is set up in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FamilyConfig {
    /// The register protocol; set up by [`ServoConfig::settings`].
    Moteus,
    /// Damiao in MIT mode.
    Damiao(DamiaoMotor),
    /// RobStride with its "private protocol", or a CyberGear.
    Robstride(RobstrideMotor),
    /// CubeMars AK in MIT mode.
    Cubemars(CubemarsMotor),
}

/// How a Damiao motor leaves the factory, or was set since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DamiaoMotor {
    /// The identifier of its replies.
    pub master_id: u16,
    /// It speaks CAN-FD.
    pub can_fd: bool,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
    /// It faults when board or rotor are this warm, °C.
    pub fault_c: f64,
}

/// What a RobStride motor or CyberGear is, and how it was left. The default is an RS02 as it is delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobstrideMotor {
    /// It is a CyberGear.
    pub cybergear: bool,
    /// Half the range of positions, rad: beyond it they go round.
    pub position: f64,
    /// Half the range of velocities, rad/s.
    pub velocity: f64,
    /// Half the range of torques, N·m.
    pub torque: f64,
    /// The torque it is limited to, N·m.
    pub torque_limit: f64,
    /// Greatest position gain, N·m/rad.
    pub kp_most: f64,
    /// Greatest velocity gain, N·m·s/rad.
    pub kd_most: f64,
    /// It faults when board or windings are this warm, °C.
    pub fault_c: f64,
    /// After power-up its position is within half a turn of its zero, not between there and a whole turn: somebody has stored
    /// `zero_sta` 1.
    pub centred: bool,
    /// It sends reports from the start: an earlier host has left it so.
    pub reports: bool,
    /// Share of its replies that come up to 5 ms late, at random, 0 to 1.
    pub late: f64,
    /// Of its firmware: each recorded model has one of its own.
    pub version: [u8; 4],
}

/// How a CubeMars motor was set up with its maker's tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubemarsMotor {
    /// The identifier of its replies; may be its own id.
    pub reply_id: u16,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
    /// It faults when board or windings are this warm, °C.
    pub fault_c: f64,
    /// It switches off when it was sent nothing for so long, s; 0: never.
    pub watchdog_s: f64,
}

impl Default for RobstrideMotor {
    fn default() -> Self {
        Self {
            cybergear: false,
            position: POSITION_RANGE,
            velocity: 44.0,
            torque: 17.0,
            torque_limit: 17.0,
            kp_most: 500.0,
            kd_most: 5.0,
            fault_c: 135.0,
            centred: false,
            reports: false,
            late: 0.0,
            version: [0, 2, 3, 34],
        }
    }
}

section! {
    /// `joint` of a servo: the emulated mechanics behind its output.
    #[derive(Copy)]
    JointConfig {
        /// Moment of inertia at the output.
        inertia: f64 = 0.01, "kg·m²", 0.000_001 => 1000.0;
        /// Viscous friction.
        viscous: f64 = 0.01, "N·m·s/rad", 0.0 => 1000.0;
        /// Dry friction.
        coulomb: f64 = 0.02, "N·m", 0.0 => 1000.0;
        /// Maximum torque of gravity, m·g·l.
        gravity: f64 = 0.0, "N·m", 0.0 => 1000.0;
        /// Joint angle at which the load hangs straight down.
        gravity_at: f64 = 0.0, "rad", -100.0 => 100.0;
        /// End stops, `[min, max]`; without the key the joint turns freely.
        stops: Option<[f64; 2]> = None, "rad", -10_000.0 => 10_000.0;
        /// Joint angle at the start.
        start: f64 = 0.0, "rad", -10_000.0 => 10_000.0;
    }
}

/// The emulated IMU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImuConfig {
    /// From the request to the finished reading, ns.
    pub latency_ns: i64,
    /// Standard deviation of each rate reading, rad/s.
    pub rate_noise: f64,
    /// Standard deviation of each acceleration reading, m/s².
    pub acceleration_noise: f64,
    /// Standard deviation of the attitude about each axis, rad.
    pub attitude_noise: f64,
}

impl BusConfig {
    /// CAN-FD at 1 and 5 Mbit/s; 75 µs turnaround.
    pub const CAN_FD: Self = Self {
        wire: WireKind::CanFd { nominal_bps: 1_000_000, data_bps: 5_000_000 },
        turnaround_ns: 75_000,
        host_queue: 64,
        receive: None,
    };
    /// RS485 at 3 Mbaud; 75 µs turnaround.
    pub const RS485: Self = Self { wire: WireKind::Rs485 { baud: 3_000_000 }, ..Self::CAN_FD };
    /// A bus that costs no time.
    pub const INSTANT: Self = Self { wire: WireKind::Instant, turnaround_ns: 0, ..Self::CAN_FD };
}

impl ServoConfig {
    /// A servo with id `id` on bus `bus`: calibrated motor, position bounds open, a light free joint. The
    /// UUID is made from bus and id.
    pub fn new(bus: usize, id: u8) -> Self {
        let mut uuid = *b"kilohertz-emu\0\0\0";
        uuid[..2].copy_from_slice(&[id, bus as u8]);
        let open = |name: &str| (name.to_owned(), "nan".to_owned());
        Self {
            bus,
            id,
            family: FamilyConfig::Moteus,
            uuid,
            mounting: Mounting::default(),
            joint: JointConfig::default(),
            motor_constant: 1.0,
            supply_v: 24.0,
            ambient_c: 25.0,
            thermal: HeatConfig::default(),
            heat_rate: 1.0,
            settings: vec![open("servopos.position_min"), open("servopos.position_max")],
        }
    }

    /// The same servo with one more setting; see [`ServoConfig::settings`].
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }
}

impl Default for ImuConfig {
    /// A reading takes 25 µs to ask for and 15 µs to fetch over 10 MHz SPI.
    fn default() -> Self {
        Self { latency_ns: 40_000, rate_noise: 0.002, acceleration_noise: 0.02, attitude_noise: 0.000_5 }
    }
}

/// Why a [`crate::World`] cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A servo names a bus that is not there.
    #[error("servo {servo}: bus {bus} does not exist; there are {buses}")]
    NoSuchBus {
        /// Index of the servo.
        servo: usize,
        /// The bus it names.
        bus: usize,
        /// How many there are.
        buses: usize,
    },
    /// What simulates the body cannot.
    #[error("[body] {0}")]
    Body(String),
    /// A servo id no device can have.
    #[error("servo {servo}: id {id} is not between 1 and {most}")]
    BadId {
        /// Index of the servo.
        servo: usize,
        /// The id.
        id: u8,
        /// The greatest id of its family.
        most: u8,
    },
    /// A joint without inertia, or with end stops the wrong way round.
    #[error("servo {servo}: {what}")]
    BadJoint {
        /// Index of the servo.
        servo: usize,
        /// What is wrong and what would be right.
        what: &'static str,
    },
    /// A setting the servo does not have.
    #[error("servo {servo}: no setting is called {name:?}")]
    NoSuchSetting {
        /// Index of the servo.
        servo: usize,
        /// What was asked for.
        name: String,
    },
    /// A bit rate of zero.
    #[error("bus {bus}: the bit rate must be more than 0")]
    BadRate {
        /// Index of the bus.
        bus: usize,
    },
    /// More buses than a link has channels.
    #[error("{0} buses; at most 255 are possible")]
    TooManyBuses(usize),
}

impl WorldConfig {
    /// Everything that does not need the servos' settings.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.buses.len() > 255 {
            return Err(ConfigError::TooManyBuses(self.buses.len()));
        }
        for (bus, config) in self.buses.iter().enumerate() {
            if !config.wire.runs() {
                return Err(ConfigError::BadRate { bus });
            }
        }
        self.servos.iter().enumerate().try_for_each(|(servo, config)| self.check_servo(servo, config))
    }

    fn check_servo(&self, servo: usize, config: &ServoConfig) -> Result<(), ConfigError> {
        let buses = self.buses.len();
        if config.bus >= buses {
            return Err(ConfigError::NoSuchBus { servo, bus: config.bus, buses });
        }
        let most = if config.family == FamilyConfig::Moteus { BROADCAST - 1 } else { MOST_ID };
        if !(1..=most).contains(&config.id) {
            return Err(ConfigError::BadId { servo, id: config.id, most });
        }
        let [low, high] = config.joint.stops.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        match config.joint {
            joint if joint.inertia.is_nan() || joint.inertia <= 0.0 => {
                Err(ConfigError::BadJoint { servo, what: "the inertia must be more than 0" })
            }
            joint if !(low..=high).contains(&joint.start) => {
                Err(ConfigError::BadJoint { servo, what: "the joint must start between its end stops" })
            }
            _ => Ok(()),
        }
    }
}

impl WireKind {
    fn runs(self) -> bool {
        match self {
            Self::CanFd { nominal_bps, data_bps } => nominal_bps > 0 && data_bps > 0,
            Self::Rs485 { baud } => baud > 0,
            Self::Instant => true,
        }
    }
}
