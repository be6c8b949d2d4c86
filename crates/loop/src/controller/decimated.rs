//! A controller that decides less often than the loop ticks.

use super::decisions::{Decide, Decisions, OnThread, Pace};
use super::pipelined::hold;
use super::{ControlError, Controller, Decision, record};
use crate::parameters::Parameter;
use crate::state::RobotState;
use khz_rt::SectionSummary;
use khz_servo::ServoCommand;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs another controller at its [`Pace`]: of the state of tick *k*, and followed from tick *k* + `delay` on. Until its
/// first decision is there, however long that takes, joints are held where they were measured; so a first call that loads and compiles
/// ends no run. Its thread is called `khz-decisions`.
///
/// # Realtime contract
/// The same as that of [`Decisions`].
pub struct Decimated {
    decisions: Decisions<ServoCommand>,
    pace: Pace,
    starts: bool,
    is_finished: Arc<AtomicBool>,
    /// As the loop sees them; the controller has its own, which are set before it decides.
    parameters: Vec<Parameter>,
}

/// The controller, where it decides.
struct Deciding {
    controller: Box<dyn Controller>,
    starts: bool,
    is_finished: Arc<AtomicBool>,
    /// The loop's, and its own.
    parameters: Vec<(Parameter, Parameter)>,
}

impl Decide<ServoCommand> for Deciding {
    fn begin(&mut self) {
        self.starts = true;
    }

    fn decide(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.parameters.iter().for_each(|(of_loop, own)| own.put(of_loop.get()));
        if std::mem::take(&mut self.starts) {
            self.controller.start(state)?;
        }
        self.controller.update(state, commands)?;
        self.is_finished.store(self.controller.is_finished(), Ordering::Relaxed);
        Ok(())
    }
}

impl Decimated {
    /// A controller that is prepared, with every parameter it reads. `state` is any state of the same robot; it gives the sizes.
    pub fn new(
        controller: Box<dyn Controller>,
        pace: Pace,
        inner: Vec<Parameter>,
        state: &RobotState,
    ) -> Self {
        let pace = Pace { waits_for_first: true, ..pace };
        let parameters: Vec<Parameter> = inner.iter().map(Parameter::apart).collect();
        let is_finished = Arc::new(AtomicBool::new(false));
        let deciding = Deciding {
            controller,
            starts: true,
            is_finished: Arc::clone(&is_finished),
            parameters: parameters.iter().cloned().zip(inner).collect(),
        };
        let first = vec![ServoCommand::Stop; state.servos.len()];
        let decisions = Decisions::new(Box::new(deciding), pace, first, state);
        Self { decisions, pace, starts: true, is_finished, parameters }
    }
}

impl Controller for Decimated {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn start(&mut self, _: &RobotState) -> Result<(), ControlError> {
        self.decisions.start();
        self.is_finished.store(false, Ordering::Relaxed);
        self.starts = true;
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        if std::mem::take(&mut self.starts) {
            hold(state, self.decisions.decision_mut());
        }
        self.decisions.tick(state)?;
        commands.copy_from_slice(self.decisions.decision());
        Ok(())
    }

    fn to_thread(&mut self, on_thread: OnThread) -> std::io::Result<bool> {
        self.decisions.to_thread(on_thread).map(|()| true)
    }

    /// It has no model.
    fn policy(&self) -> Option<record::Policy> {
        let Pace { every, delay, max_late, .. } = self.pace;
        Some(record::Policy { every, delay, max_late, ..record::Policy::default() })
    }

    fn decided(&self) -> Option<&Decision> {
        Some(self.decisions.followed())
    }

    fn decide_again(&mut self, plan: VecDeque<[u64; 2]>) {
        self.decisions.again(plan);
    }

    fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Relaxed)
    }

    fn profile(&mut self) -> Vec<SectionSummary> {
        self.decisions.profile()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_servo::PositionCommand;
    use std::sync::mpsc::{Receiver, channel};

    /// Counts its calls since its start, and waits for a permission each time, if it needs one.
    struct Counts(f64, Parameter, Option<Receiver<()>>);

    impl Controller for Counts {
        fn start(&mut self, _: &RobotState) -> Result<(), ControlError> {
            self.0 = 10.0;
            Ok(())
        }

        fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            if let Some(permission) = &self.2 {
                let _ = permission.recv();
            }
            self.0 += self.1.get();
            commands.fill(ServoCommand::Position(PositionCommand::hold(self.0)));
            Ok(())
        }

        fn is_finished(&self) -> bool {
            self.0 > 12.0
        }
    }

    fn decimated(permission: Option<Receiver<()>>) -> (Decimated, RobotState) {
        let mut state = RobotState::unknown(1, false, 1_000_000);
        state.servos[0].position = 0.25;
        let step = Parameter::float("step", 1.0, 0.0..=5.0);
        let pace = Pace { every: 5, delay: 3, max_late: 2, waits_for_first: false };
        let counts = Counts(0.0, step.clone(), permission);
        (Decimated::new(Box::new(counts), pace, vec![step], &state), state)
    }

    fn tick(decimated: &mut Decimated, state: &mut RobotState) -> f64 {
        let mut commands = [ServoCommand::Stop];
        decimated.update(state, &mut commands).expect("commands");
        state.tick += 1;
        match commands[0] {
            ServoCommand::Position(command) => command.position,
            _ => f64::NAN,
        }
    }

    #[test]
    fn it_holds_still_then_follows_each_decision_after_its_delay() {
        let (mut decimated, mut state) = decimated(None);
        decimated.start(&state).expect("a start");
        let positions: Vec<f64> = (0..14).map(|_| tick(&mut decimated, &mut state)).collect();
        let expected = [0.25, 0.25, 0.25, 11.0, 11.0, 11.0, 11.0, 11.0, 12.0, 12.0, 12.0, 12.0, 12.0, 13.0];
        assert_eq!(positions, expected);
        assert!(decimated.is_finished());
        state.servos[0].position = 0.5;
        decimated.start(&state).expect("a start");
        assert!(!decimated.is_finished());
        let positions: Vec<f64> = (0..4).map(|_| tick(&mut decimated, &mut state)).collect();
        assert_eq!(positions, [0.5, 0.5, 0.5, 11.0], "it begins anew");
    }

    #[test]
    fn a_parameter_is_taken_between_two_decisions() {
        let (mut decimated, mut state) = decimated(None);
        decimated.start(&state).expect("a start");
        (0..4).for_each(|_| _ = tick(&mut decimated, &mut state));
        decimated.parameters()[0].put(2.0);
        let positions: Vec<f64> = (4..10).map(|_| tick(&mut decimated, &mut state)).collect();
        assert_eq!(positions, [11.0, 11.0, 11.0, 11.0, 13.0, 13.0]);
    }

    #[test]
    fn a_first_call_may_take_long_and_later_ones_may_not() {
        let (permit, permission) = channel();
        let (mut decimated, mut state) = decimated(Some(permission));
        decimated.start(&state).expect("a start");
        decimated.to_thread(Box::new(|| ())).expect("a thread");
        (0..200).for_each(|_| assert_eq!(tick(&mut decimated, &mut state), 0.25));
        permit.send(()).expect("a decision under way");
        while tick(&mut decimated, &mut state) < 11.0 {}
        let mut commands = [ServoCommand::Stop];
        let error = (0..40).find_map(|_| {
            state.tick += 1;
            decimated.update(&state, &mut commands).err()
        });
        assert!(error.is_some_and(|error| error.to_string().contains("late")));
        drop(permit);
    }
}
