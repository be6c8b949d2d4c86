//! What the loop knows about the robot at a tick. SI units: radians, N·m, seconds where named.

use khz_link::ImuSample;
use khz_servo::ServoState;

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
    /// For each servo, where its last command led it in the place of what the controller asked for, rad; `None`: as asked. A joint
    /// that was carried out of its limits, or answers again, is led by the supervisor until the controller goes on from there.
    pub led_to: Vec<Option<f64>>,
    /// The IMU, if one is configured.
    pub imu: Option<ImuState>,
    /// What a person steering the robot asks for.
    pub teleop: Teleop,
    /// What programs outside of the run send to the controller, in the order of its parameters that are
    /// [signals](crate::parameters::Parameter::signal).
    pub signals: [Signal; MOST_SIGNALS],
}

/// The most signals of a controller.
pub const MOST_SIGNALS: usize = 16;

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
            led_to: vec![None; servos],
            imu: imu.then_some(ImuState { sample: ImuState::NONE, fresh: false }),
            teleop: Teleop::NONE,
            signals: [Signal::NONE; MOST_SIGNALS],
        }
    }

    /// Copies `other` without allocating. Both must come from the same robot.
    pub fn copy_from(&mut self, other: &Self) {
        let (servos, led_to) = (std::mem::take(&mut self.servos), std::mem::take(&mut self.led_to));
        *self = Self { servos, led_to, ..*other };
        self.servos.copy_from_slice(&other.servos);
        self.led_to.copy_from_slice(&other.led_to);
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

/// What a person steering the robot asks for: the newest input, within the limits of `[teleop]`; nothing once that is older than
/// [`Teleop::STALE_NS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Teleop {
    /// Velocity forwards, m/s.
    pub forward: f64,
    /// Velocity to the left, m/s.
    pub left: f64,
    /// Rate of turning, rad/s; to the left is positive.
    pub turn: f64,
    /// Height of the body above its usual one, m.
    pub height: f64,
    /// Roll of the body, rad; right side down is positive.
    pub roll: f64,
    /// Pitch of the body, rad; nose down is positive.
    pub pitch: f64,
    /// How long ago, at least, the person decided this, as of this tick's `now_ns`; `i64::MAX`: there was no input yet.
    pub age_ns: i64,
}

impl Teleop {
    /// No input yet.
    pub const NONE: Self =
        Self { forward: 0.0, left: 0.0, turn: 0.0, height: 0.0, roll: 0.0, pitch: 0.0, age_ns: i64::MAX };
    /// An input older than this is stale: the sender sends one every 50 ms.
    pub const STALE_NS: i64 = 300_000_000;

    /// This input; zero everywhere if it is stale.
    pub fn fresh(&self) -> Self {
        if self.age_ns > Self::STALE_NS { Self { age_ns: self.age_ns, ..Self::NONE } } else { *self }
    }
}

/// The newest value of a number that a program outside of the run sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// The number; 0 before the first.
    pub value: f64,
    /// The tick that took it; `None`: there was none yet.
    pub tick: Option<u64>,
}

impl Signal {
    /// None yet.
    pub const NONE: Self = Self { value: 0.0, tick: None };
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
        self.cosine_of_tilt().acos()
    }

    /// Of [`ImuState::tilt`]: an arc cosine takes long.
    pub(crate) fn cosine_of_tilt(&self) -> f64 {
        let [_, x, y, _] = self.sample.attitude;
        (1.0 - 2.0 * (x * x + y * y)).clamp(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        from.teleop = Teleop { forward: 0.5, age_ns: 1, ..Teleop::NONE };
        let mut to = RobotState::unknown(2, true, 1);
        to.copy_from(&from);
        assert_eq!((to.tick, to.period_ns), (7, 1_000_000));
        assert_eq!(to.servos[1].position, 0.5);
        assert_eq!(to.teleop, from.teleop);
    }

    #[test]
    fn a_stale_input_asks_to_stand_still() {
        let fresh = Teleop { forward: 0.5, age_ns: Teleop::STALE_NS, ..Teleop::NONE };
        assert_eq!(fresh.fresh(), fresh);
        let stale = Teleop { age_ns: Teleop::STALE_NS + 1, ..fresh };
        assert_eq!(stale.fresh(), Teleop { age_ns: stale.age_ns, ..Teleop::NONE });
    }
}
