//! Modules that make the commands before them gentler. They come last in a [`Chain`](khz_loop::controller::Chain).

use khz_loop::controller::{ControlError, Controller};
use khz_loop::parameters::Parameter;
use khz_loop::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};
use std::f64::consts::TAU;

/// A first-order low-pass filter on commanded positions, velocities and torques. Begins at the measured positions.
///
/// Commands without a position to follow (off, damping, velocity control) pass unchanged, and the filter of that
/// joint begins anew from where it is measured.
#[derive(Clone, Debug)]
pub struct LowPass {
    cutoff_hz: Parameter,
    last: Vec<PositionCommand>,
}

impl LowPass {
    /// Passes half the power of a movement at `cutoff_hz`, Hz; at 0 or below nothing moves.
    pub fn new(cutoff_hz: f64) -> Self {
        let cutoff_hz = at_least_0("cutoff_hz", cutoff_hz, 100.0).in_unit("Hz");
        Self {
            cutoff_hz: cutoff_hz.about("Half the power of a movement passes at this frequency."),
            last: Vec::new(),
        }
    }
}

impl Controller for LowPass {
    fn parameters(&self) -> Vec<Parameter> {
        vec![self.cutoff_hz.clone()]
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        begin(&mut self.last, state);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let part = 1.0 - (-TAU * self.cutoff_hz.get() * state.dt()).exp();
        each(&mut self.last, state, commands, |last, wanted| {
            wanted.position = last.position + part * (wanted.position - last.position);
            wanted.velocity = last.velocity + part * (wanted.velocity - last.velocity);
            wanted.torque = last.torque + part * (wanted.torque - last.torque);
        });
        Ok(())
    }
}

/// Lets no commanded position move faster than a limit. Begins at the measured positions.
///
/// Commands without a position to follow (off, damping, velocity control) pass unchanged, and the limit of that
/// joint begins anew from where it is measured.
#[derive(Clone, Debug)]
pub struct Slew {
    limit: Parameter,
    last: Vec<PositionCommand>,
}

impl Slew {
    /// `limit`: fastest movement of a commanded position, and largest commanded velocity, rad/s; at 0 or below
    /// nothing moves.
    pub fn new(limit: f64) -> Self {
        let limit = at_least_0("limit", limit, 20.0).in_unit("rad/s");
        Self { limit: limit.about("Fastest movement of a commanded position."), last: Vec::new() }
    }
}

impl Controller for Slew {
    fn parameters(&self) -> Vec<Parameter> {
        vec![self.limit.clone()]
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        begin(&mut self.last, state);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let limit = self.limit.get();
        let step = limit * state.dt();
        each(&mut self.last, state, commands, |last, wanted| {
            wanted.position = last.position + (wanted.position - last.position).clamp(-step, step);
            wanted.velocity = wanted.velocity.clamp(-limit, limit);
        });
        Ok(())
    }
}

/// A parameter that may be changed up to `most`, and starts with what it is given.
fn at_least_0(name: &str, given: f64, most: f64) -> Parameter {
    let value = if given > 0.0 { given.min(f64::MAX) } else { 0.0 };
    Parameter::float(name, value, 0.0..=most.max(value))
}

fn begin(last: &mut Vec<PositionCommand>, state: &RobotState) {
    last.clear();
    last.extend(state.servos.iter().map(|servo| PositionCommand::hold(servo.position)));
}

/// Changes what is wanted of every joint that follows a position, given what was commanded last.
fn each(
    last: &mut [PositionCommand],
    state: &RobotState,
    commands: &mut [ServoCommand],
    change: impl Fn(&PositionCommand, &mut PositionCommand),
) {
    for ((last, command), servo) in last.iter_mut().zip(commands).zip(&state.servos) {
        match command {
            ServoCommand::Position(wanted) if wanted.position.is_finite() => {
                // NaN counts as 0, and would stay in a filter permanently.
                wanted.velocity = if wanted.velocity.is_nan() { 0.0 } else { wanted.velocity };
                change(last, wanted);
                *last = *wanted;
            }
            _ => *last = PositionCommand::hold(servo.position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a module makes of commands to one joint, which is measured at 0.5 rad.
    fn run(mut module: impl Controller, wanted: &[ServoCommand]) -> Vec<ServoCommand> {
        let mut state = RobotState::unknown(1, false, 1_000_000);
        state.servos[0].position = 0.5;
        state.elapsed_ns = 1_000_000;
        module.start(&state).unwrap();
        let update = |&wanted: &ServoCommand| {
            let mut commands = [wanted];
            module.update(&state, &mut commands).unwrap();
            commands[0]
        };
        wanted.iter().map(update).collect()
    }

    fn to(position: f64) -> ServoCommand {
        ServoCommand::Position(PositionCommand::hold(position))
    }

    fn position(command: &ServoCommand) -> f64 {
        match command {
            ServoCommand::Position(target) => target.position,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_step_takes_its_time_constant_to_63_percent() {
        // 1 / (2π · 10 Hz) is 15.9 ms.
        let out = run(LowPass::new(10.0), &[to(1.5); 100]);
        let constant = 1.0 / (TAU * 10.0) / 1e-3;
        let reached = position(&out[constant.round() as usize - 1]) - 0.5;
        assert!((reached - 0.632).abs() < 0.01, "{reached}");
        assert!((position(&out[99]) - 1.5).abs() < 0.01);
        assert!(out.windows(2).all(|pair| position(&pair[0]) <= position(&pair[1])), "no overshoot");
    }

    #[test]
    fn positions_move_no_faster_than_the_limit() {
        let out = run(Slew::new(2.0), &[to(1.0), to(1.0), to(-1.0), to(0.5011)]);
        let moved: Vec<_> = out.iter().map(|command| (position(command) * 1e6).round()).collect();
        assert_eq!(moved, [502_000.0, 504_000.0, 502_000.0, 501_100.0]);
    }

    #[test]
    fn after_damping_they_begin_where_the_joint_is() {
        let commands = [to(2.0), ServoCommand::Damp, to(2.0)];
        for out in [run(Slew::new(1.0), &commands), run(LowPass::new(5.0), &commands)] {
            assert_eq!(out[1], ServoCommand::Damp);
            assert_eq!(position(&out[2]), position(&out[0]));
        }
    }

    #[test]
    fn velocity_control_and_its_nan_pass_and_do_not_stick() {
        let spin = PositionCommand { velocity: 3.0, kp_scale: 0.0, ..PositionCommand::hold(f64::NAN) };
        let unknown = PositionCommand { velocity: f64::NAN, ..PositionCommand::hold(0.5) };
        let commands = [ServoCommand::Position(spin), ServoCommand::Position(unknown), to(0.5)];
        let out = run(LowPass::new(5.0), &commands);
        assert!(matches!(out[0], ServoCommand::Position(target) if target.velocity == 3.0));
        assert_eq!(position(&out[2]), 0.5);
        assert!(matches!(out[2], ServoCommand::Position(target) if target.velocity == 0.0));
    }
}
