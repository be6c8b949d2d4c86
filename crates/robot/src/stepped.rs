//! A machine in virtual time that stands still whenever its controller is to decide: for learning, where who decides is
//! outside and takes as long as it likes.

use crate::assemble::{self, Links};
use crate::launch::LaunchError;
use crate::session::SessionError;
use khz_file::config::RobotConfig;
use khz_loop::controller::{ControlError, Controller};
use khz_loop::run::{Begun, RunOptions, Ticks};
use khz_loop::state::RobotState;
use khz_loop::supervisor::Phase;
use khz_loop::tick::Machine;
use khz_loop::time::VirtualTime;
use khz_servo::ServoCommand;
use std::sync::Arc;

/// An emulated robot, tick by tick on the caller's thread. Between calls it stands within a tick, just before the controller: what
/// [`Commands`] are set then leave when those of a controller would that saw the same state.
pub struct Stepped {
    machine: Machine,
    time: VirtualTime,
    ticks: Ticks,
    options: RunOptions,
    /// The tick whose controller is outside; `None` once the robot is down.
    begun: Option<Begun>,
}

/// What each servo is to do, from outside.
pub struct Commands(khz_rt::Writer<Vec<ServoCommand>>);

impl Commands {
    /// Those of a robot with so many servos, and the controller that commands them.
    pub fn outside(servos: usize) -> (Self, Box<dyn Controller>) {
        let (commands, outside) = khz_rt::newest(&vec![ServoCommand::Stop; servos]);
        (Self(commands), Box::new(FromCaller(outside)))
    }

    /// From the next tick on, one command for each servo.
    pub fn set(&mut self, commands: &[ServoCommand]) {
        self.0.value().copy_from_slice(commands);
        self.0.publish();
    }
}

impl Stepped {
    /// Starts a robot on links that are open, and runs it until its controller is to decide for the first time. The controller is
    /// prepared. Nothing is recorded. A robot that waits for an operator is armed.
    ///
    /// # Errors
    /// It cannot run in virtual time, or a servo must not be driven. A robot that does not come under control is none:
    /// [`Stepped::is_active`].
    pub fn start(
        config: &RobotConfig,
        controller: Box<dyn Controller>,
        links: Links,
    ) -> Result<Self, LaunchError> {
        if let Some(why) = config.why_not_virtual() {
            return Err(LaunchError::VirtualTime(why));
        }
        let mut machine = assemble::put_together(config, controller, links);
        machine.forgive_hold_ups();
        let mut time = VirtualTime::new(0);
        machine.make_ready(&mut time).map_err(SessionError::from)?;
        let options = RunOptions::of(&config.timing, None, Arc::default());
        let ticks = Ticks::new(&options, &mut time);
        let mut stepped = Self { machine, time, ticks, options, begun: None };
        stepped.come_under_control();
        Ok(stepped)
    }

    /// Runs so many ticks, and stops where the controller is to decide again. Calls `each` in every tick, when its replies are in.
    /// Ends earlier if the supervisor takes over; returns the number of ticks.
    pub fn advance(&mut self, ticks: u32, mut each: impl FnMut(&Machine)) -> u32 {
        for done in 0..ticks {
            if !self.is_active() {
                return done;
            }
            self.tick();
            each(&self.machine);
        }
        ticks
    }

    /// The controller is asked: what is commanded reaches the servos, within the limits.
    pub fn is_active(&self) -> bool {
        self.machine.phase() == Phase::Active
    }

    /// A signal of its controller, as of the present tick.
    pub fn signal(&mut self, place: usize, value: f64) {
        self.machine.signal(place, value);
    }

    /// The machine, in its present tick.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Until its controller is to decide, or it is at rest.
    fn come_under_control(&mut self) {
        while !self.is_active() && !self.machine.is_settled() {
            self.tick();
            if self.machine.phase() == Phase::Idle {
                self.machine.arm();
            }
        }
    }

    /// Ends the present tick, and begins the next.
    fn tick(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.ticks.act(begun, &mut self.machine, &mut self.time, &mut []);
        }
        self.begun = Some(self.ticks.look(&mut self.machine, &mut self.time, &self.options));
    }
}

/// Commands what the caller has set.
struct FromCaller(khz_rt::Reader<Vec<ServoCommand>>);

impl Controller for FromCaller {
    fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        commands.copy_from_slice(self.0.read());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::open_links;
    use crate::launch::{Launch, LaunchOptions};
    use khz_servo::PositionCommand;

    const ROBOT: &str = r#"
        [loop]
        clock = "virtual"
        [log]
        enabled = false
        [bus.main]
        link = "emulated"
        faults = { loss = 0.01, jitter_us = 30 }
        [imu]
        link = "emulated"
        [[servo]]
        name = "a"
        bus = "main"
        id = 1
        [[servo]]
        name = "b"
        bus = "main"
        id = 2
    "#;

    /// Every tenth tick, from the first one under control on.
    const TICKS: u32 = 10;

    fn decide(state: &RobotState, commands: &mut [ServoCommand]) {
        for (command, servo) in commands.iter_mut().zip(&state.servos) {
            *command = ServoCommand::Position(PositionCommand::hold(0.5 + 0.3 * servo.position));
        }
    }

    /// The same decisions in the loop.
    struct Within(u32, Arc<std::sync::Mutex<Vec<RobotState>>>);

    impl Controller for Within {
        fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            if self.0.is_multiple_of(TICKS) {
                decide(state, commands);
                self.1.lock().unwrap().push(state.clone());
            }
            self.0 += 1;
            Ok(())
        }
    }

    #[test]
    fn a_decision_from_outside_is_as_good_as_one_of_a_controller() {
        let config = RobotConfig::parse(ROBOT, "stepped.toml").unwrap();
        let links = open_links(&config, |world| Box::new(world)).unwrap();
        let (mut wanted, controller) = Commands::outside(2);
        let mut stepped = Stepped::start(&config, controller, links).unwrap();
        let mut outside = Vec::new();
        let mut commands = vec![ServoCommand::Stop; 2];
        for _ in 0..50 {
            assert!(stepped.is_active());
            let state = stepped.machine().state().clone();
            decide(&state, &mut commands);
            outside.push(state);
            wanted.set(&commands);
            assert_eq!(stepped.advance(TICKS, |_| {}), TICKS);
        }
        let within = Arc::default();
        let controller: Option<Box<dyn Controller>> = Some(Box::new(Within(0, Arc::clone(&within))));
        let options = LaunchOptions { controller, duration_ns: Some(1_000_000_000), ..Default::default() };
        Launch::start(&config, ROBOT, options).unwrap().wait().unwrap();
        // Debug, as NaN is not equal to itself.
        assert_eq!(format!("{:?}", &within.lock().unwrap()[..50]), format!("{outside:?}"));
    }

    #[test]
    fn what_the_supervisor_ends_stays_ended() {
        let text = ROBOT.replace("[imu]", "[supervisor]\nmissed_replies = 3\n[imu]");
        let text = text.replace("jitter_us = 30", "events = [{ at_s = 0.2, kind = \"silence\", id = 2 }]");
        let config = RobotConfig::parse(&text, "stepped.toml").unwrap();
        let links = open_links(&config, |world| Box::new(world)).unwrap();
        let (mut commands, controller) = Commands::outside(2);
        let mut stepped = Stepped::start(&config, controller, links).unwrap();
        commands.set(&[ServoCommand::Position(PositionCommand::hold(0.0)); 2]);
        let mut missed = 0;
        let done = stepped.advance(1000, |machine| missed += u32::from(machine.result().missed));
        assert!(done < 1000 && missed >= 3 && !stepped.is_active(), "{done} {missed}");
        assert_eq!(stepped.advance(1000, |_| {}), 0);
    }
}
