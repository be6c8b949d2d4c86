//! A robot run by [`Launch`], in real time. Nothing here must be fast; things must only happen at last.
#![allow(clippy::unwrap_used)]

use khz_robot::controller::{Controller, Hold};
use khz_robot::launch::Launch;
use khz_robot::state::RobotState;
use khz_robot::supervisor::Cause;
use khz_robot::{ControlError, RobotConfig, ServoCommand};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// One emulated servo at 100 Hz, with what else a test wants of the loop.
fn robot(timing: &str) -> RobotConfig {
    let text = format!(
        "[loop]\nrate_hz = 100\npolicy = \"other\"\nlock_memory = false\n{timing}\n[bus.main]\nlink = \"emulated\"\n\
         [log]\nenabled = false\n[supervisor]\ndamping_s = 0.2\noverruns = 100000\n\
         [[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\n"
    );
    RobotConfig::parse(&text, "test").unwrap()
}

/// Holds, and takes four and a half periods for every update.
#[derive(Default)]
struct Slow(Hold);

impl Controller for Slow {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.0.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        thread::sleep(Duration::from_millis(45));
        self.0.update(state, commands)
    }
}

#[test]
fn a_pipelined_controller_that_is_slow_for_good_is_caught() {
    for mode in ["inline", "pipelined"] {
        let config = robot(&format!("mode = \"{mode}\""));
        let launch =
            Launch::start(&config, "", Some(Box::<Slow>::default()), Some(5_000_000_000), Arc::default());
        let landed = launch.unwrap().land().unwrap();
        let machine = landed.outcome.machine;
        let down = landed.outcome.stats.transitions.iter().find(|change| change.cause.is_trouble());
        match down.map(|change| change.cause) {
            Some(Cause::ControllerSlow { took_ns, .. }) => {
                assert!(took_ns >= 45_000_000, "{mode}: {took_ns}")
            }
            // The machine is so busy that the controller missed six ticks.
            Some(Cause::ControllerFailed) if mode == "pipelined" => {
                assert!(machine.failure().unwrap().to_string().contains("does not finish"));
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
}
