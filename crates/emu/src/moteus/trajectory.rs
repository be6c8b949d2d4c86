//! How the control position moves towards its target within limits of speed and acceleration.

use super::command::Command;

/// The firmware's positions are numbers of fixed point, which end here, rev: what is beyond counts as this.
const REACH: f64 = 32_768.0;
/// So do its steps, at half a turn in a control period of 1/30 kHz, rev/s.
const FASTEST: f64 = 15_000.0;

/// Where the control loop wants the output; revolutions.
#[derive(Clone, Debug, Default)]
pub struct Trajectory {
    /// Where it is to go.
    pub target: Target,
    /// Where the output is wanted now; missing until captured.
    pub position: Option<f64>,
    /// How fast it is wanted to move now.
    pub velocity: Option<f64>,
    /// How its speed changes now.
    pub acceleration: f64,
    /// The target is reached.
    pub done: bool,
}

/// Where the control position is to go, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Position at which to arrive; it moves with `velocity` and vanishes on arrival.
    pub position: Option<f64>,
    /// Velocity to have on arrival and from then on.
    pub velocity: f64,
    /// Position not to move away from (only without limits).
    pub stop: Option<f64>,
    /// Most speed; NaN is any.
    pub velocity_limit: f64,
    /// Most acceleration; NaN is any.
    pub accel_limit: f64,
}

/// What a missing control position starts from.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// Measured position.
    pub position: f64,
    /// Filtered measured velocity.
    pub velocity: f64,
    /// Slower than this counts as standing.
    pub threshold: f64,
}

/// What holds the control position back; NaN holds nothing.
#[derive(Clone, Copy, Debug)]
pub struct Confines {
    /// Measured position and velocity.
    pub measured: (f64, f64),
    /// How far the control position may be from the measured one.
    pub position_slip: f64,
    /// How far the control velocity may be from the measured one.
    pub velocity_slip: f64,
    /// Least control position.
    pub lower: f64,
    /// Greatest control position.
    pub upper: f64,
}

impl Target {
    /// Stay where the output is.
    pub const HOLD: Self =
        Self { position: None, velocity: 0.0, stop: None, velocity_limit: f64::NAN, accel_limit: f64::NAN };

    /// What a position command asks for of a servo now at `measured`.
    pub fn new(command: &Command, measured: f64) -> Self {
        let given = |value: f64| (!value.is_nan()).then_some(value);
        let position = given(reachable(command.position));
        let stop = given(reachable(command.stop_position));
        let mut velocity = given(command.velocity).unwrap_or(0.0);
        if let (None, Some(stop)) = (position, stop) {
            velocity = velocity.abs() * if stop > measured { 1.0 } else { -1.0 };
        }
        Self {
            position,
            velocity: bounded(bounded(velocity, command.velocity_limit), FASTEST),
            stop,
            velocity_limit: command.velocity_limit,
            accel_limit: command.accel_limit,
        }
    }

    fn limited(&self) -> bool {
        !self.velocity_limit.is_nan() || !self.accel_limit.is_nan()
    }
}

impl Default for Target {
    fn default() -> Self {
        Self::HOLD
    }
}

impl Trajectory {
    /// Drops the control position; the next step captures a new one.
    pub fn release(&mut self) {
        *self = Self { target: self.target, done: self.done, ..Self::default() };
    }

    /// Moves on by one control period; the velocity to command. [`Trajectory::confine`] comes next.
    /// `fastest` is what the motor can do at its voltage.
    pub fn step(&mut self, capture: Capture, fastest: f64, dt_s: f64) -> f64 {
        if !self.target.limited()
            && let Some(position) = self.target.position.take()
        {
            self.position = Some(position);
        }
        let standing = capture.velocity.abs() < capture.threshold;
        let position = *self.position.get_or_insert(capture.position);
        let before = *self.velocity.get_or_insert(if standing { 0.0 } else { capture.velocity });

        let wanted = if self.target.limited() {
            self.limited_velocity(position, before, dt_s)
        } else {
            self.done = true;
            self.target.velocity
        };
        let velocity = bounded(bounded(wanted, fastest), FASTEST);
        self.acceleration = if self.target.accel_limit.is_nan() { 0.0 } else { (velocity - before) / dt_s };
        self.velocity = Some(velocity);
        self.position = Some(position + velocity * dt_s);
        if let Some(target) = &mut self.target.position {
            *target += self.target.velocity * dt_s;
        }
        self.arrive(dt_s);
        self.velocity.unwrap_or(velocity)
    }

    /// Keeps the control position near the measured one, within the position bounds, and from moving away from
    /// the stop position; the velocity to command then, of the `velocity` that was to be.
    ///
    /// Slip changes the control velocity, from which the next period starts, but not the velocity commanded now.
    pub fn confine(&mut self, confines: &Confines, velocity: f64) -> f64 {
        let (Some(mut position), Some(control_velocity)) = (self.position, self.velocity) else {
            return velocity;
        };
        position = near(position, confines.measured.0, confines.position_slip);
        let slipped = near(control_velocity, confines.measured.1, confines.velocity_slip);
        if slipped != control_velocity {
            self.acceleration = 0.0;
        }
        self.velocity = Some(slipped);

        // f64::max and f64::min ignore a NaN bound.
        let within = position.max(confines.lower).min(confines.upper);
        let mut held = within != position;
        position = within;
        if let Some(stop) = self.target.stop
            && (position - stop) * velocity > 0.0
        {
            position = stop;
            self.target.position = None;
            self.target.velocity = 0.0;
            self.done = true;
            held = true;
        }
        self.position = Some(position);
        if held {
            self.velocity = Some(0.0);
            self.acceleration = 0.0;
        }
        if held { 0.0 } else { velocity }
    }

    /// The next velocity of a limited trajectory.
    fn limited_velocity(&mut self, position: f64, before: f64, dt_s: f64) -> f64 {
        let Target { velocity, velocity_limit, accel_limit, .. } = self.target;
        let wanted = match self.target.position {
            None => velocity,
            Some(target) => velocity + approach(target - position, accel_limit, dt_s),
        };
        let step = if accel_limit.is_nan() { f64::INFINITY } else { accel_limit * dt_s };
        let next = before + bounded(bounded(wanted, velocity_limit) - before, step);
        self.done = self.target.position.is_none() && next == velocity;
        next
    }

    /// Near enough to the target, and to its speed, to be there with one more step.
    fn arrive(&mut self, dt_s: f64) {
        let (Some(target), Some(position), Some(velocity)) =
            (self.target.position, self.position, self.velocity)
        else {
            return;
        };
        let accel = if self.target.accel_limit.is_nan() { 0.0 } else { self.target.accel_limit };
        let closing = (velocity - self.target.velocity).abs();
        let speed_near = closing <= accel * dt_s;
        // However great the acceleration may be, the last step is one at the speeds there are.
        let step = closing.max(self.target.velocity.abs()) * dt_s;
        let near = (accel * dt_s * dt_s).min(step).max(1e-9);
        if (target - position).abs() <= near && (speed_near || accel == 0.0) {
            self.position = Some(target);
            self.velocity = Some(self.target.velocity);
            self.target.position = None;
            self.acceleration = 0.0;
            self.done = true;
        }
    }
}

/// The greatest speed towards a target `distance` away from which `accel` can still stop there, found for
/// steps of `dt_s`, each at its new speed: braking from `v` covers `v·dt/2 + v²/2a`.
fn approach(distance: f64, accel: f64, dt_s: f64) -> f64 {
    let last = distance.abs() / dt_s;
    if !accel.is_finite() {
        return last.copysign(distance);
    }
    let half = 0.5 * accel * dt_s;
    let speed = (half * half + 2.0 * accel * distance.abs()).sqrt() - half;
    speed.min(last).copysign(distance)
}

/// A position as the firmware can hold it; NaN stays.
pub(super) fn reachable(position: f64) -> f64 {
    position.clamp(-REACH, REACH)
}

/// `value` no further than `most` from `measured`, unless that is infinite or NaN.
fn near(value: f64, measured: f64, most: f64) -> f64 {
    if most.is_finite() { value.max(measured - most).min(measured + most) } else { value }
}

/// `value` within ±`limit`; NaN is no limit.
fn bounded(value: f64, limit: f64) -> f64 {
    if value > limit {
        limit
    } else if value < -limit {
        -limit
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Mode;

    const DT: f64 = 250e-6;
    const AT_ZERO: Capture = Capture { position: 0.0, velocity: 0.0, threshold: 0.05 };

    fn target(position: f64, velocity: f64, velocity_limit: f64, accel_limit: f64) -> Target {
        let command =
            Command { position, velocity, velocity_limit, accel_limit, ..Command::new(Mode::Position) };
        Target::new(&command, 0.0)
    }

    /// Runs until done; time, highest speed, highest acceleration, end.
    fn run(target: Target) -> (f64, f64, f64, f64) {
        let mut trajectory = Trajectory { target, ..Trajectory::default() };
        let (mut fastest, mut hardest, mut before) = (0.0_f64, 0.0_f64, 0.0);
        for step in 1..400_000 {
            let velocity = trajectory.step(AT_ZERO, f64::NAN, DT);
            fastest = fastest.max(velocity.abs());
            hardest = hardest.max((velocity - before).abs() / DT);
            before = velocity;
            if trajectory.done {
                return (f64::from(step) * DT, fastest, hardest, trajectory.position.unwrap());
            }
        }
        panic!("never done");
    }

    #[test]
    fn a_trapezoid_takes_its_time_and_keeps_its_limits() {
        // 2 s to reach 1 rev/s at 0.5 rev/s², likewise to stop, and 3 rev in between.
        let (time, fastest, hardest, end) = run(target(5.0, 0.0, 1.0, 0.5));
        assert!((time - 7.0).abs() < 0.01, "{time}");
        assert!(fastest <= 1.0 + 1e-9 && fastest > 0.999);
        assert!(hardest <= 0.5 + 1e-6, "{hardest}");
        assert!((end - 5.0).abs() < 1e-6);
    }

    #[test]
    fn a_triangle_never_reaches_the_limit() {
        let (time, fastest, _, end) = run(target(-0.5, 0.0, 10.0, 2.0));
        assert!((time - 1.0).abs() < 0.01, "{time}");
        assert!((fastest - 1.0).abs() < 0.01);
        assert!((end + 0.5).abs() < 1e-6);
    }

    #[test]
    fn catches_a_moving_target() {
        let mut trajectory = Trajectory { target: target(1.0, 0.5, 2.0, 4.0), ..Trajectory::default() };
        for _ in 0..(4.0 / DT) as usize {
            trajectory.step(AT_ZERO, f64::NAN, DT);
        }
        assert!(trajectory.done);
        assert!((trajectory.position.unwrap() - 3.0).abs() < 0.001, "{:?}", trajectory.position);
        assert_eq!(trajectory.velocity, Some(0.5));
    }

    #[test]
    fn without_limits_it_jumps() {
        let mut trajectory =
            Trajectory { target: target(1.0, 0.5, f64::NAN, f64::NAN), ..Trajectory::default() };
        let velocity = trajectory.step(AT_ZERO, f64::NAN, DT);
        assert_eq!((trajectory.position, velocity), (Some(1.0 + 0.5 * DT), 0.5));
        assert!(trajectory.done);
    }

    #[test]
    fn a_missing_position_is_captured_once() {
        let mut trajectory =
            Trajectory { target: target(f64::NAN, 0.0, f64::NAN, f64::NAN), ..Trajectory::default() };
        let moving = Capture { position: 0.3, velocity: 1.0, threshold: 0.05 };
        trajectory.step(moving, f64::NAN, DT);
        trajectory.step(Capture { position: 0.4, ..moving }, f64::NAN, DT);
        assert_eq!(trajectory.position, Some(0.3));
    }

    #[test]
    fn a_velocity_alone_has_no_position_to_reach() {
        let (time, _, _, _) = run(target(f64::NAN, 1.0, f64::NAN, 2.0));
        assert!((time - 0.5).abs() < 0.01);
    }

    #[test]
    fn a_speed_limit_alone_needs_no_acceleration() {
        let (time, fastest, _, end) = run(target(1.0, 0.0, 2.0, f64::NAN));
        assert!((time - 0.5).abs() < 0.01);
        assert!(fastest <= 2.0);
        assert_eq!(end, 1.0);
    }
}
