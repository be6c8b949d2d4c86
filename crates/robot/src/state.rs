//! What the loop knows about the robot at a tick. SI units: radians, N·m, seconds where named.

use khz_link::ImuSample;
use khz_wire::{Fault, Mode, Register};

/// Everything a controller sees. Rewritten in place every tick; never reallocated.
#[derive(Clone, Debug, PartialEq)]
pub struct RobotState {
    /// Number of this tick, from 0.
    pub tick: u64,
    /// When this tick was meant to start.
    pub planned_ns: i64,
    /// When it really started.
    pub started_ns: i64,
    /// When this state was complete: after the last reply, or at the bus deadline.
    pub now_ns: i64,
    /// The configured period.
    pub period_ns: i64,
    /// Time between this tick's real start and the one before; equals `period_ns` in the first tick.
    pub elapsed_ns: i64,
    /// One per configured servo, in the order of the configuration.
    pub servos: Vec<ServoState>,
    /// The IMU, if one is configured.
    pub imu: Option<ImuState>,
}

impl RobotState {
    /// Nothing known yet about `servos` servos.
    pub fn unknown(servos: usize, imu: bool, period_ns: i64) -> Self {
        Self {
            tick: 0,
            planned_ns: 0,
            started_ns: 0,
            now_ns: 0,
            period_ns,
            elapsed_ns: period_ns,
            servos: vec![ServoState::UNKNOWN; servos],
            imu: imu.then_some(ImuState { sample: ImuState::NONE, fresh: false }),
        }
    }

    /// Copies `other` without allocating. Both must come from the same robot.
    pub fn copy_from(&mut self, other: &Self) {
        let servos = std::mem::take(&mut self.servos);
        *self = Self { servos, ..Self { servos: Vec::new(), ..*other } };
        self.servos.copy_from_slice(&other.servos);
    }

    /// The period in seconds: the `dt` a controller integrates with.
    pub fn dt(&self) -> f64 {
        self.period_ns as f64 * 1e-9
    }

    /// Seconds since the first tick was planned, by the plan.
    pub fn time(&self) -> f64 {
        self.tick as f64 * self.dt()
    }
}

/// One servo, as of its newest reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServoState {
    /// Joint position, rad. NaN before the first reply; infinite if it is beyond what the format of the query can carry,
    /// as are velocity and torque.
    pub position: f64,
    /// Joint velocity, rad/s.
    pub velocity: f64,
    /// Joint torque, N·m.
    pub torque: f64,
    /// Supply, V.
    pub voltage: f64,
    /// Temperature of the servo's board, °C.
    pub temperature: f64,
    /// What it is doing.
    pub mode: Mode,
    /// Why it stopped, if it did.
    pub fault: Fault,
    /// The register its newest reply refused to read or write, if it did. Values that were not read are NaN.
    pub refused: Option<Refused>,
    /// When the query was sent that its newest reply answers: its values are no older. `i64::MIN` before the first.
    pub at_ns: i64,
    /// Of the newest reply that came in time: from handing its query to the link until it had arrived. 0 before the first.
    pub round_trip_ns: i64,
    /// The newest reply answers this tick's query.
    pub fresh: bool,
}

/// A register that a servo refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which register.
    pub register: Register,
    /// What was refused: to write it, or else to read it.
    pub write: bool,
}

impl ServoState {
    /// Before the first reply.
    pub const UNKNOWN: Self = Self {
        position: f64::NAN,
        velocity: f64::NAN,
        torque: f64::NAN,
        voltage: f64::NAN,
        temperature: f64::NAN,
        mode: Mode::Stopped,
        fault: Fault::NONE,
        refused: None,
        at_ns: i64::MIN,
        round_trip_ns: 0,
        fresh: false,
    };

    /// It has replied at least once.
    pub const fn is_known(&self) -> bool {
        self.at_ns != i64::MIN
    }

    /// How old its values are at `now_ns`, at the most; `i64::MAX` before the first reply.
    pub const fn age_ns(&self, now_ns: i64) -> i64 {
        if self.is_known() { now_ns.saturating_sub(self.at_ns) } else { i64::MAX }
    }
}

/// The IMU, as of its newest reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImuState {
    /// The newest reading; NaN before the first.
    pub sample: ImuSample,
    /// It was read in this tick.
    pub fresh: bool,
}

impl ImuState {
    /// Before the first reading.
    pub const NONE: ImuSample = ImuSample {
        at_ns: i64::MIN,
        attitude: [f64::NAN; 4],
        rate: [f64::NAN; 3],
        acceleration: [f64::NAN; 3],
    };

    /// How old the reading is at `now_ns`; `i64::MAX` before the first.
    pub const fn age_ns(&self, now_ns: i64) -> i64 {
        if self.sample.at_ns == i64::MIN { i64::MAX } else { now_ns.saturating_sub(self.sample.at_ns) }
    }

    /// Angle between the body's up axis and the world's, rad.
    pub fn tilt(&self) -> f64 {
        let [_, x, y, _] = self.sample.attitude;
        (1.0 - 2.0 * (x * x + y * y)).clamp(-1.0, 1.0).acos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unheard_servo_is_infinitely_old() {
        assert_eq!(ServoState::UNKNOWN.age_ns(5), i64::MAX);
        assert_eq!(ServoState { at_ns: 3, ..ServoState::UNKNOWN }.age_ns(5), 2);
    }

    #[test]
    fn tilt_of_a_quarter_roll_is_a_right_angle() {
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let sample = ImuSample { attitude: [half, half, 0.0, 0.0], ..ImuState::NONE };
        let tilt = ImuState { sample, fresh: true }.tilt();
        assert!((tilt - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
    }

    #[test]
    fn copying_takes_every_field() {
        let mut from = RobotState::unknown(2, true, 1_000_000);
        from.tick = 7;
        from.servos[1].position = 0.5;
        from.servos[0].position = 0.25;
        let mut to = RobotState::unknown(2, true, 1);
        to.copy_from(&from);
        assert_eq!((to.tick, to.period_ns), (7, 1_000_000));
        assert_eq!(to.servos[1].position, 0.5);
    }
}
