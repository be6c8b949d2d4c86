//! Several modules as one controller, one after another in the same tick.

use super::RobotInfo;
use super::{Beside, ControlError, Controller, Decimated, Decision, OnThread, record};
use crate::parameters::Parameter;
use crate::state::RobotState;
use khz_rt::{Profile, SectionId, SectionSummary, now_ns};
use khz_servo::ServoCommand;
use std::collections::VecDeque;

/// Runs named modules in order. Each finds the commands as the ones before it left them, so a gait can come first, a
/// correction of it next and a filter last. The time each takes is kept under its name.
///
/// ```
/// use khz_loop::controller::{Chain, Controller};
///
/// fn chained(gait: Box<dyn Controller>, filter: Box<dyn Controller>) -> Chain {
///     Chain::new().then("gait", gait).then("gently", filter)
/// }
/// ```
///
/// # Realtime contract
/// [`Chain::then`] allocates; a tick does not, unless a module does. Reads the clock once per module.
#[derive(Default)]
pub struct Chain {
    modules: Vec<Module>,
    profile: Profile,
}

struct Module {
    name: String,
    section: SectionId,
    controller: Box<dyn Controller>,
}

impl Chain {
    /// One without modules, which leaves commands as they are.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a module. Two of the same name share one line of the profile.
    #[must_use]
    pub fn then(mut self, name: &str, controller: Box<dyn Controller>) -> Self {
        self.modules.push(Module { name: name.to_owned(), section: self.profile.section(name), controller });
        self
    }
}

impl Controller for Chain {
    /// Prepares every module, in order. One that decides less often than the loop ticks does so from now on, and commands in every tick what
    /// it has decided last, whatever modules before it command.
    ///
    /// # Errors
    /// The error of the first module that is not for this robot.
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        self.modules.iter_mut().try_for_each(|module| {
            module.controller.prepare(robot)?;
            let Some(pace) = module.controller.pace()? else { return Ok(()) };
            let state = RobotState::unknown(robot.joints.len(), robot.has_imu, robot.period_ns);
            let parameters = module.controller.parameters();
            let controller = std::mem::replace(&mut module.controller, Box::new(Self::new()));
            module.controller = Box::new(Decimated::new(controller, pace, parameters, &state));
            Ok(())
        })
    }

    /// Those of every module, each under the module's name and a dot.
    fn parameters(&self) -> Vec<Parameter> {
        let of = |module: &Module| {
            let parameters = module.controller.parameters().into_iter();
            parameters.map(|parameter| parameter.of_module(&module.name)).collect::<Vec<_>>()
        };
        self.modules.iter().flat_map(of).collect()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.modules.iter_mut().try_for_each(|module| module.controller.start(state))
    }

    /// Updates every module, in order.
    ///
    /// # Errors
    /// The error of the first module that cannot go on; the modules after it are not called.
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let mut at_ns = now_ns();
        for Module { section, controller, .. } in &mut self.modules {
            self.profile.begin(*section, at_ns);
            controller.update(state, commands)?;
            at_ns = now_ns();
            self.profile.end(*section, at_ns);
        }
        self.profile.tick(state.tick);
        Ok(())
    }

    /// The first module that decides less often than the loop ticks does so on a thread of its own.
    fn to_thread(&mut self, on_thread: OnThread) -> std::io::Result<bool> {
        let slower = self.modules.iter_mut().find(|module| module.controller.policy().is_some());
        slower.map_or(Ok(false), |module| module.controller.to_thread(on_thread))
    }

    /// The longest of its modules'.
    fn elsewhere_ns(&self) -> i64 {
        self.modules.iter().map(|module| module.controller.elsewhere_ns()).max().unwrap_or(0)
    }

    /// The wait of the module that takes longest.
    fn waited_ns(&self) -> i64 {
        let longest = self.modules.iter().max_by_key(|module| module.controller.elsewhere_ns());
        longest.map_or(0, |module| module.controller.waited_ns())
    }

    /// Where the first module on a thread of its own stands.
    fn beside(&self) -> Option<Beside> {
        self.modules.iter().find_map(|module| module.controller.beside())
    }

    /// The policy of the first module that is one.
    fn policy(&self) -> Option<record::Policy> {
        self.modules.iter().find_map(|module| module.controller.policy())
    }

    /// The decision of the same module.
    fn decided(&self) -> Option<&Decision> {
        self.modules.iter().find_map(|module| module.controller.decided())
    }

    fn cut(&mut self, servos: &[bool]) {
        self.modules.iter_mut().for_each(|module| module.controller.cut(servos));
    }

    fn decide_again(&mut self, plan: VecDeque<[u64; 2]>) {
        let policy = self.modules.iter_mut().find(|module| module.controller.policy().is_some());
        if let Some(module) = policy {
            module.controller.decide_again(plan);
        }
    }

    /// One of its modules is.
    fn is_finished(&self) -> bool {
        self.modules.iter().any(|module| module.controller.is_finished())
    }

    /// The modules in order, then the profiles that they report themselves.
    fn profile(&mut self) -> Vec<SectionSummary> {
        let mut sections = self.profile.summary();
        sections.extend(self.modules.iter_mut().flat_map(|module| module.controller.profile()));
        sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_servo::PositionCommand;

    /// Adds to the position it finds; gives up in one tick.
    struct Add(f64, u64);

    impl Controller for Add {
        fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            if state.tick == self.1 {
                return Err("enough".into());
            }
            for command in commands {
                let found = match command {
                    ServoCommand::Position(target) => target.position,
                    _ => 0.0,
                };
                *command = ServoCommand::Position(PositionCommand::hold(found * 10.0 + self.0));
            }
            Ok(())
        }
    }

    #[test]
    fn modules_run_in_order_and_see_what_those_before_them_command() {
        let mut chain = Chain::new()
            .then("a", Box::new(Add(1.0, 9)))
            .then("b", Box::new(Add(2.0, 9)))
            .then("a", Box::new(Add(3.0, 9)));
        let mut commands = [ServoCommand::Stop];
        chain.update(&RobotState::unknown(1, false, 1_000_000), &mut commands).unwrap();
        assert!(
            matches!(commands, [ServoCommand::Position(target)] if target.position == 123.0),
            "{commands:?}"
        );
        let profile = chain.profile();
        let names: Vec<_> =
            profile.iter().map(|section| (section.name.as_str(), section.time.count)).collect();
        assert_eq!(names, [("a", 1), ("b", 1)]);
    }

    #[test]
    fn a_module_that_gives_up_ends_the_tick_there() {
        let mut chain = Chain::new().then("a", Box::new(Add(1.0, 0))).then("b", Box::new(Add(2.0, 9)));
        let mut commands = [ServoCommand::Stop];
        let state = RobotState::unknown(1, false, 1_000_000);
        assert_eq!(chain.update(&state, &mut commands), Err("enough".into()));
        assert_eq!(commands, [ServoCommand::Stop]);
        assert!(chain.profile().iter().all(|section| section.time.count == 0));
    }
}
