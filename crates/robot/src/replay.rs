//! A recorded run once more: its states for a controller, or its commands for simulated servos.

use crate::assemble::control::{PrepareError, Prepared};
use crate::assemble::{machine_on, supervisor};
use khz_controllers::{Hold, HoldParameters};
use khz_file::config::RobotConfig;
use khz_loop::controller::{ControlError, Controller, hold_still};
use khz_loop::parameters::{self, Parameter};
use khz_loop::ready::NotReady;
use khz_loop::state::{MOST_SIGNALS, RobotState, Signal};
use khz_loop::supervisor::{Phase, Supervisor};
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};
use khz_loop::timing::Mode;
use khz_run::record::{Decision, Policy};
use khz_servo::ServoCommand;
use std::collections::VecDeque;

/// Why a recorded run cannot be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The controller is not for this robot, or the file's parameters are not for the controller.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The robot cannot be simulated here.
    #[error("the robot cannot be simulated: {0}")]
    Emulate(khz_emu::ConfigError),
    /// A simulated servo does not start.
    #[error("in the simulation: {0}")]
    NotReady(NotReady),
}

/// A controller that sees recorded states instead of a robot's. The supervisor's limits act on its commands as they did on
/// the robot, except where the supervisor had lowered the torque for a reason other than heat (`derate`).
pub struct Rerun {
    controller: Box<dyn Controller>,
    parameters: Vec<Parameter>,
    /// Those of them that are signals.
    signals: [Signal; MOST_SIGNALS],
    supervisor: Supervisor,
    commands: Vec<ServoCommand>,
    /// What the controller asked for in the tick before, if it runs beside the loop: that is sent one tick later.
    beside: Option<Vec<ServoCommand>>,
    is_first: bool,
}

impl Rerun {
    /// A controller for the robot of a file.
    ///
    /// # Errors
    /// It is not for this robot.
    pub fn new(config: &RobotConfig, controller: Box<dyn Controller>) -> Result<Self, ReplayError> {
        let Prepared { controller, parameters, is_decimated, .. } = Prepared::for_robot(config, controller)?;
        let is_beside = config.timing.mode == Mode::Pipelined && !is_decimated;
        let stop = vec![ServoCommand::Stop; config.servos.len()];
        Ok(Self {
            controller,
            parameters,
            signals: [Signal::NONE; MOST_SIGNALS],
            supervisor: supervisor(config),
            beside: is_beside.then(|| stop.clone()),
            commands: stop,
            is_first: true,
        })
    }

    /// Decisions are made of the first, and followed in the second of each pair of ticks, as in the log. Nothing changes for a controller
    /// that decides in every tick.
    pub fn decide_again(&mut self, mut plan: VecDeque<[u64; 2]>) {
        if self.beside.is_some() {
            plan.iter_mut().for_each(|[_, followed]| *followed = followed.saturating_sub(1));
        }
        self.controller.decide_again(plan);
    }

    /// The decision made of a recorded state and followed from the tick of the last update on.
    pub fn decided(&self, tick: u64) -> Option<&Decision> {
        self.controller.decided().filter(|decided| decided.begins_in(tick))
    }

    /// What it is, if it is a policy.
    pub fn policy(&self) -> Option<Policy> {
        self.controller.policy()
    }

    /// Puts a recorded change of a parameter in force, as of this tick. One that the controller does not have is ignored.
    pub fn set(&mut self, name: &str, value: f64, tick: u64) {
        let is_it = |parameter: &Parameter| parameter.name == name && parameter.check(value).is_ok();
        let Some(at) = self.parameters.iter().position(is_it) else { return };
        self.parameters[at].put(value);
        if let Some(signal) =
            parameters::signal_of(&self.parameters, at).and_then(|at| self.signals.get_mut(at))
        {
            *signal = Signal { value, tick: Some(tick) };
        }
    }

    /// The signals as they were recorded.
    pub const fn signals(&self) -> [Signal; MOST_SIGNALS] {
        self.signals
    }

    /// The controller starts from this state.
    ///
    /// # Errors
    /// Those of the controller.
    pub fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.supervisor.follow(Phase::Armed);
        self.is_first = true;
        self.commands.fill(ServoCommand::Stop);
        self.beside.iter_mut().for_each(|asked| asked.fill(ServoCommand::Stop));
        self.controller.start(state)
    }

    /// What would have been sent after this state. Where the supervisor led the joints is in no log, so it is computed here.
    ///
    /// # Errors
    /// Those of the controller.
    pub fn update(&mut self, state: &mut RobotState) -> Result<&[ServoCommand], ControlError> {
        self.supervisor.copy_led_to(&mut state.led_to);
        match &mut self.beside {
            None => self.controller.update(state, &mut self.commands)?,
            Some(asked) => {
                match std::mem::take(&mut self.is_first) {
                    true => hold_still(state, &mut self.commands),
                    false => self.commands.copy_from_slice(asked),
                }
                self.controller.update(state, asked)?;
            }
        }
        self.supervisor.follow(Phase::Active);
        self.supervisor.govern(&mut self.commands, state);
        Ok(&self.commands)
    }
}

/// The simulated servos of a robot under recorded commands, over the simulated buses, in virtual time.
pub struct Playback {
    machine: Machine,
    time: VirtualTime,
    period_ns: i64,
    /// From recorded to virtual time; known from the first tick on.
    shift_ns: Option<i64>,
    commands: Vec<ServoCommand>,
}

impl Playback {
    /// The robot of a file, whatever its buses are. Its joints start at these angles, rad, if the body's start is not given
    /// by a MuJoCo model; NaN leaves one where the file has it.
    ///
    /// # Errors
    /// It cannot be simulated on this computer.
    pub fn new(config: &RobotConfig, start: &[f64]) -> Result<Self, ReplayError> {
        let mut config = config.clone();
        for (servo, start) in config.servos.iter_mut().zip(start) {
            if start.is_finite() {
                servo.settings.joint.start = *start;
            }
        }
        let world = Box::new(config.emulate().map_err(ReplayError::Emulate)?);
        // The machine needs one; it is never asked.
        let controller = Box::new(Hold::new(HoldParameters::default()));
        let mut machine = machine_on(&config, controller, world);
        let mut time = VirtualTime::new(0);
        machine.make_ready(&mut time).map_err(ReplayError::NotReady)?;
        let commands = vec![ServoCommand::Stop; config.servos.len()];
        Ok(Self { machine, time, period_ns: config.timing.period_ns(), shift_ns: None, commands })
    }

    /// A tick that started at this time; then `commands` are what the next one sends. Returns what the servos replied.
    ///
    /// # Errors
    /// Why the simulated body moves no more.
    pub fn tick(&mut self, started_ns: i64, commands: &[ServoCommand]) -> Result<&RobotState, String> {
        let first_ns = self.time.now_ns() + self.period_ns;
        let shift_ns = *self.shift_ns.get_or_insert(first_ns - started_ns);
        self.time.wait_for_tick(started_ns + shift_ns);
        self.machine.play(&mut self.time, started_ns + shift_ns, &self.commands);
        self.commands.copy_from_slice(commands);
        if self.machine.result().links_down != 0 {
            let why = self.machine.close_links(self.time.now_ns());
            return Err(why.join("; "));
        }
        Ok(self.machine.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble;
    use khz_loop::controller::Pace;
    use khz_loop::run::{Observer, RunOptions, Tick, run};
    use khz_servo::PositionCommand;

    const PENDULUM: &str = r#"
        [bus.main]
        link = "emulated"
        [[servo]]
        name = "joint"
        bus = "main"
        id = 1
        joint = { start = 0.5, gravity = 1.0 }
        limits = { position = [-0.45, 0.7], velocity = 3.0, torque = 2.0 }
        [controller]
        name = "sine"
        amplitude = 1.0
    "#;

    /// What a log would keep of every tick.
    #[derive(Default)]
    struct Log(Vec<(RobotState, Vec<ServoCommand>, bool, Phase)>);

    impl Observer for Log {
        fn tick(&mut self, tick: &Tick<'_>) {
            let (machine, timing) = (tick.machine, &tick.record);
            let state = RobotState { tick: tick.record.number, ..machine.state().clone() };
            self.0.push((state, machine.commands().to_vec(), timing.controller_ran, machine.phase()));
        }
    }

    fn recorded(config: &RobotConfig) -> Log {
        recorded_of(config, assemble::controller(&config.controller))
    }

    fn recorded_of(config: &RobotConfig, controller: Box<dyn Controller>) -> Log {
        let mut machine = assemble::machine(config, controller).unwrap();
        let (mut time, mut log) = (VirtualTime::new(0), Log::default());
        machine.make_ready(&mut time).unwrap();
        let options = RunOptions::of(&config.timing, Some(1_000_000_000), std::sync::Arc::default());
        run(&mut machine, &mut time, &options, &mut [&mut log]);
        log
    }

    #[test]
    fn a_controller_commands_again_what_it_commanded_limits_included() {
        let config = RobotConfig::parse(PENDULUM, "pendulum.toml").unwrap();
        let log = recorded(&config);
        let mut rerun = Rerun::new(&config, assemble::controller(&config.controller)).unwrap();
        let mut compared = 0;
        for (state, commands, ran, phase) in &log.0 {
            if *ran {
                let replayed = rerun.update(&mut state.clone()).unwrap();
                // As text, where NaN is NaN.
                assert_eq!(format!("{replayed:?}"), format!("{commands:?}"), "tick {}", state.tick);
                compared += 1;
            } else if *phase == Phase::Active {
                rerun.start(state).unwrap();
            }
        }
        assert!(compared > 900 && rerun.supervisor.clamped() > 100, "{compared}");
    }

    /// Goes on from where it was, a hundred times a second, and takes 7 ticks for it.
    struct Slow(f64);

    impl Controller for Slow {
        fn pace(&self) -> Result<Option<Pace>, ControlError> {
            Pace::of(100.0, Some(7), 2, 1_000_000).map(Some)
        }

        fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
            self.0 = state.servos[0].position;
            Ok(())
        }

        fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            self.0 += 0.002;
            commands[0] = ServoCommand::Position(PositionCommand::hold(self.0));
            Ok(())
        }
    }

    /// In both modes: it has a thread for its decisions, or none of its own where time stands still.
    #[test]
    fn one_that_decides_less_often_commands_again_what_it_commanded() {
        for mode in ["inline", "pipelined"] {
            let config = PENDULUM.replace("[loop]", &format!("[loop]\nmode = \"{mode}\""));
            let config = RobotConfig::parse(&config, "pendulum.toml").unwrap();
            let paced = Prepared::for_robot(&config, Box::new(Slow(0.0))).unwrap();
            let log = recorded_of(&config, paced.controller);
            let mut rerun = Rerun::new(&config, Box::new(Slow(0.0))).unwrap();
            let mut changes = 0;
            let mut before = None;
            for (state, commands, ran, phase) in &log.0 {
                if *ran {
                    assert_eq!(
                        format!("{:?}", rerun.update(&mut state.clone()).unwrap()),
                        format!("{commands:?}")
                    );
                    changes += u32::from(before.replace(commands[0]) != Some(commands[0]));
                } else if *phase == Phase::Active {
                    rerun.start(state).unwrap();
                }
            }
            // A limit moves some of them on in further ticks.
            assert!((95..=120).contains(&changes), "{changes}");
        }
    }

    #[test]
    fn a_simulated_joint_moves_again_as_it_moved() {
        let config = RobotConfig::parse(PENDULUM, "pendulum.toml").unwrap();
        let log = recorded(&config);
        let mut playback = Playback::new(&config, &[f64::NAN]).unwrap();
        for (state, commands, ..) in &log.0 {
            let simulated = playback.tick(state.started_ns, commands).unwrap();
            assert_eq!(simulated.servos[0].position.to_bits(), state.servos[0].position.to_bits());
        }
    }
}
