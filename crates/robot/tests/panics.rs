//! Within a tick nothing is printed, not even a panic. Alone in its process: the panic hook is the whole process's.
#![allow(clippy::unwrap_used)]

use khz_file::RobotConfig;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::state::RobotState;
use khz_loop::supervisor::Phase;
use khz_loop::time::{Receive, VirtualTime};
use khz_loop::{ControlError, Controller, ServoCommand};
use khz_robot::assemble;
use khz_robot::session::{Session, SessionError, SessionSettings};
use khz_rt::{Overrun, Setup, Wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Panics in its hundredth tick.
struct Panicking;

impl Controller for Panicking {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        assert!(state.tick < 100, "a bug in the controller");
        commands.fill(ServoCommand::Damp);
        Ok(())
    }
}

/// Panics in the tick after.
struct Broken;

impl Observer for Broken {
    fn tick(&mut self, _: &Tick<'_>) {
        panic!("a bug in the loop");
    }
}

const PERIOD_NS: i64 = 1_000_000;

#[test]
fn panics_within_a_tick_are_reported_and_never_printed() {
    let printed = Arc::new(AtomicU32::new(0));
    let prints = Arc::clone(&printed);
    std::panic::set_hook(Box::new(move |_| _ = prints.fetch_add(1, Ordering::Relaxed)));

    // In virtual time: the controller.
    let mut machine = assemble::machine(&RobotConfig::quadruped(), Box::new(Panicking)).unwrap();
    let options = RunOptions {
        period_ns: PERIOD_NS,
        overrun: Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(3_000_000_000),
        stop: Arc::default(),
    };
    let mut stats = RunStats::new(100_000);
    run(&mut machine, &mut VirtualTime::new(0), &options, &mut [&mut stats]);
    let phases: Vec<Phase> = stats.transitions.iter().map(|change| change.to).collect();
    assert_eq!(phases[3..], [Phase::Damping, Phase::Fault]);
    let message = machine.failure().unwrap().to_string();
    assert!(
        message.starts_with("a bug in the controller, at ") && message.contains("panics.rs:"),
        "{message}"
    );

    // On the machine's clock: the loop itself.
    let settings = SessionSettings {
        clock: khz_loop::timing::Clock::Real,
        setup: Setup::ordinary(),
        wake: Wake::Sleep,
        receive: Receive::Poll,
        period_ns: PERIOD_NS,
        overrun: Overrun::Skip,
        frame_patience_ns: None,
        late_ns: PERIOD_NS,
        duration_ns: None,
    };
    let machine = assemble::machine(&RobotConfig::quadruped(), Box::new(Panicking)).unwrap();
    let session = Session::start(machine, vec![Box::new(Broken)], settings, Arc::default()).unwrap();
    let Err(SessionError::Panicked(message)) = session.wait() else { panic!("the loop goes on") };
    assert!(message.starts_with("a bug in the loop, at "), "{message}");

    assert_eq!(printed.load(Ordering::Relaxed), 0);
    // Panics of other threads go where they went before.
    let other = std::thread::spawn(|| panic!("another thread's"));
    assert!(other.join().is_err());
    assert_eq!(printed.load(Ordering::Relaxed), 1);
}
