//! What a [`crate::World`] is made of, whichever its families: plain data, checked once when the world is built.

use crate::thermal::HeatConfig;
use khz_servo::Mounting;
use khz_settings::section;
use khz_wire::serial::Packets;

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
        /// What frames are on it.
        packets: Packets,
    },
    /// No time at all; the turnaround is ignored too. Leaves the host's own cost to be measured.
    Instant,
}

/// One servo and the joint it drives, with what its family has set up in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Device<F> {
    /// Index of its bus.
    pub bus: usize,
    /// Its id: 1 to 126 of a moteus, 127 of most others.
    pub id: u8,
    /// What it speaks.
    pub family: F,
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

section! {
    /// `joint` of a servo: the emulated mechanics behind its output.
    #[derive(Copy)]
    JointConfig {
        /// Moment of inertia at the output.
        inertia: f64 = 0.01, "kg·m²", 0.000_001 => 1000.0;
        /// Inertia of the rotor as it is felt at the output, added to `inertia`.
        armature: f64 = 0.0, "kg·m²", 0.0 => 1000.0;
        /// Viscous friction.
        viscous: f64 = 0.01, "N·m·s/rad", 0.0 => 1000.0;
        /// Dry friction.
        coulomb: f64 = 0.02, "N·m", 0.0 => 1000.0;
        /// Dry friction per torque that passes the gear: the difference of the motor's and the load's.
        load_friction: f64 = 0.0, "", 0.0 => 10.0;
        /// Dry friction at standstill in addition to `coulomb` (Stribeck).
        stribeck: f64 = 0.0, "N·m", 0.0 => 1000.0;
        /// `load_friction` at standstill in addition.
        stribeck_load: f64 = 0.0, "", 0.0 => 10.0;
        /// Speed at which what is added at standstill has fallen to 37 %.
        stribeck_speed: f64 = 0.2, "rad/s", 0.001 => 1000.0;
        /// Exponent of that fall: exp(−(speed / `stribeck_speed`)^`stribeck_shape`).
        stribeck_shape: f64 = 2.0, "", 0.1 => 20.0;
        /// Play between gear and output: `armature` and `inertia` meet at its ends. Needs an `armature`.
        backlash: f64 = 0.0, "rad", 0.0 => 1.0;
        /// Maximum torque of gravity, m·g·l.
        gravity: f64 = 0.0, "N·m", 0.0 => 1000.0;
        /// Joint angle at which the load hangs straight down.
        gravity_at: f64 = 0.0, "rad", -100.0 => 100.0;
        /// End stops, `[min, max]`; without the key the joint turns freely.
        stops: Option<[f64; 2]> = None, "rad", -10_000.0 => 10_000.0;
        /// Joint angle at the start.
        start: f64 = 0.0, "rad", -10_000.0 => 10_000.0;
        /// A hand swings the joint so far to both sides of where it starts, from 1 s on, as a spring that holds it. 0: there is none.
        hand_rad: f64 = 0.0, "rad", 0.0 => 100.0;
        /// How often the hand goes there and back.
        hand_hz: f64 = 0.3, "Hz", 0.0 => 100.0;
        /// Random pushes: from the second `push_every_s` on, one of 0.1 s in each, at a random time, with a random torque of up to so much, in
        /// either direction. 0: none.
        push_torque: f64 = 0.0, "N·m", 0.0 => 1000.0;
        /// How often it is pushed.
        push_every_s: f64 = 10.0, "s", 0.2 => 10_000.0;
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
    pub const RS485: Self =
        Self { wire: WireKind::Rs485 { baud: 3_000_000, packets: Packets::Moteus }, ..Self::CAN_FD };
    /// A bus that costs no time.
    pub const INSTANT: Self = Self { wire: WireKind::Instant, turnaround_ns: 0, ..Self::CAN_FD };
}

impl<F: Default> Device<F> {
    /// A servo with id `id` on bus `bus`: calibrated motor, position bounds open, a light free joint. The
    /// UUID is made from bus and id.
    pub fn new(bus: usize, id: u8) -> Self {
        let mut uuid = *b"kilohertz-emu\0\0\0";
        uuid[..2].copy_from_slice(&[id, bus as u8]);
        let open = |name: &str| (name.to_owned(), "nan".to_owned());
        Self {
            bus,
            id,
            family: F::default(),
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
}

impl<F> Device<F> {
    /// The same servo, of this family.
    pub fn of<G>(&self, family: G) -> Device<G> {
        Device {
            family,
            bus: self.bus,
            id: self.id,
            uuid: self.uuid,
            mounting: self.mounting,
            joint: self.joint,
            motor_constant: self.motor_constant,
            supply_v: self.supply_v,
            ambient_c: self.ambient_c,
            thermal: self.thermal,
            heat_rate: self.heat_rate,
            settings: self.settings.clone(),
        }
    }

    /// The same servo with one more setting; see [`Device::settings`].
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

impl WireKind {
    pub(crate) fn runs(self) -> bool {
        match self {
            Self::CanFd { nominal_bps, data_bps } => nominal_bps > 0 && data_bps > 0,
            Self::Rs485 { baud, .. } => baud > 0,
            Self::Instant => true,
        }
    }
}
