//! A servo that follows positions by the voltage of its motor, as hobby servos do: what is between a goal that has arrived and a torque.
//!
//! It saturates in voltage, not in torque: the faster it turns, the less torque it has left. Within it, a goal takes effect after a
//! while, and the servo moves its own goal no faster than a limit. The law of the motor is that of *bam* (github.com/Rhoban/bam,
//! `VoltageControlledActuator`): duty = gain·error within a limit, torque = kt·(V·duty − kt·ω)/R;
//! here R may grow with duty², which is what a sagging supply comes to.

use crate::body::{Drive, JointState};
use khz_settings::section;
use std::collections::VecDeque;

/// Goals on their way within the servo; when there are more, the newest takes the place of the one before.
const PENDING: usize = 512;

section! {
    /// `motor` of a servo that follows positions by its voltage.
    #[derive(Copy)]
    VoltageLaw {
        /// Torque per current, and voltage per speed, at the output.
        kt: f64 = 0.5, "N·m/A", 0.000_1 => 100.0;
        /// Resistance of motor and driver.
        resistance: f64 = 3.0, "Ω", 0.001 => 1000.0;
        /// Resistance in addition at full duty, less by the square of the duty: a supply that sags, and whatever else lets torque grow
        /// less than the duty.
        sag_resistance: f64 = 0.0, "Ω", 0.0 => 1000.0;
        /// Duty cycle per position error.
        gain: f64 = 1.0, "1/rad", 0.0 => 10_000.0;
        /// Most of the supply that the motor gets.
        duty_limit: f64 = 1.0, "", 0.0 => 1.0;
        /// The servo moves its own goal no faster; without the key there is no limit.
        goal_speed: Option<f64> = None, "rad/s", 0.001 => 1000.0;
        /// From a goal's arrival to its effect.
        delay_ms: f64 = 0.0, "ms", 0.0 => 100.0;
    }
}

impl VoltageLaw {
    /// What the motor does to the joint at this duty, −1 to 1: the supply carries the motor's current for this share of the time.
    #[inline]
    pub fn driven(&self, supply_v: f64, duty: f64) -> Drive {
        let resistance = self.resistance + self.sag_resistance * duty * duty;
        let per_volt = self.kt / resistance;
        Drive { torque: per_volt * supply_v * duty, damping: per_volt * self.kt }
    }
}

/// The state of one such servo.
///
/// Nothing but [`PositionServo::new`] allocates.
#[derive(Clone, Debug)]
pub struct PositionServo {
    law: VoltageLaw,
    /// Goals that have no effect yet, and in how many seconds they have.
    pending: VecDeque<(f64, f64)>,
    /// What has come through the delay, rad.
    arrived: f64,
    /// Its own goal, on its way to what has arrived, rad.
    own: f64,
    /// The mean of that over the last step, rad.
    goal: f64,
}

impl PositionServo {
    /// At rest with its goal where it is, rad. Allocates.
    pub fn new(law: VoltageLaw, position: f64) -> Self {
        Self {
            law,
            pending: VecDeque::with_capacity(PENDING),
            arrived: position,
            own: position,
            goal: position,
        }
    }

    /// What it is made of.
    pub fn law(&self) -> &VoltageLaw {
        &self.law
    }

    /// Another law from now on, such as another gain; goals on their way keep their time.
    pub fn set_law(&mut self, law: VoltageLaw) {
        self.law = law;
    }

    /// A goal arrives, rad.
    pub fn aim(&mut self, goal: f64) {
        if self.pending.len() == PENDING {
            self.pending.pop_back();
        }
        self.pending.push_back((1e-3 * self.law.delay_ms, goal));
    }

    /// It gives up its goals, and will hold where it is, rad: what switching on begins with.
    pub fn forget(&mut self, position: f64) {
        self.pending.clear();
        (self.arrived, self.own, self.goal) = (position, position, position);
    }

    /// The goal it follows now, rad: delayed, and moving no faster than its limit.
    pub fn goal(&self) -> f64 {
        self.goal
    }

    /// The duty cycle at this position, −1 to 1.
    pub fn duty(&self, position: f64) -> f64 {
        (self.law.gain * (self.goal - position)).clamp(-self.law.duty_limit, self.law.duty_limit)
    }

    /// Moves on by one step with the output on; what the motor then does to the joint.
    #[inline]
    pub fn step(&mut self, joint: JointState, supply_v: f64, dt_s: f64) -> Drive {
        self.pass(dt_s);
        self.law.driven(supply_v, self.duty(joint.position))
    }

    /// Time passes for its goals alone; [`PositionServo::step`] does this.
    ///
    /// A goal that takes effect within the step counts for the rest of it, so the motion changes evenly with the delay.
    #[inline]
    pub fn pass(&mut self, dt_s: f64) {
        let (mut moment, mut left_s) = (0.0, dt_s);
        for (due_s, _) in &mut self.pending {
            *due_s -= dt_s;
        }
        while let Some(&(due_s, goal)) = self.pending.front().filter(|(due_s, _)| *due_s < 0.0) {
            let rest_s = (-due_s).min(left_s);
            moment += self.approach(left_s - rest_s);
            (self.arrived, left_s) = (goal, rest_s);
            self.pending.pop_front();
        }
        self.goal = if left_s < dt_s {
            (moment + self.approach(left_s)) / dt_s
        } else {
            self.approach(dt_s);
            self.own
        };
    }

    /// Its own goal moves for so long; times where it then is.
    #[inline]
    fn approach(&mut self, dt_s: f64) -> f64 {
        self.own = match self.law.goal_speed {
            Some(limit) => self.own + (self.arrived - self.own).clamp(-limit * dt_s, limit * dt_s),
            None => self.arrived,
        };
        self.own * dt_s
    }
}
