//! The controller of a campaign: the robot's own or a simple one, until a fault is injected.

use super::monitor::{Monitor, lock};
use super::scenario::Style;
use khz_controllers::Hold;
use khz_file::RobotConfig;
use khz_loop::parameters::Parameter;
use khz_loop::supervisor::Limits;
use khz_loop::time::VirtualTime;
use khz_loop::{ControlError, Controller, PositionCommand, RobotState, ServoCommand};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub const PANIC: u8 = 1;
pub const FAIL: u8 = 2;
pub const NAN: u8 = 4;
pub const WILD: u8 = 8;
pub const OPERATOR: u8 = 16;
pub const HUGE: u8 = 32;

/// No servo.
const NO_SERVO: usize = usize::MAX;

/// Faults injected into the controller, and the operator's stop.
pub struct ControllerFaults {
    /// The bits above.
    kinds: AtomicU8,
    /// How long the next update takes.
    freeze_ns: AtomicI64,
    /// How long every update takes.
    slow_ns: AtomicI64,
    /// The servo that is switched off.
    stopped: AtomicUsize,
}

impl Default for ControllerFaults {
    fn default() -> Self {
        let none = || AtomicI64::new(0);
        Self {
            kinds: AtomicU8::new(0),
            freeze_ns: none(),
            slow_ns: none(),
            stopped: AtomicUsize::new(NO_SERVO),
        }
    }
}

impl ControllerFaults {
    pub fn begin(&self, kind: u8) {
        self.kinds.fetch_or(kind, Ordering::Relaxed);
    }

    pub fn has(&self, kind: u8) -> bool {
        self.kinds.load(Ordering::Relaxed) & kind != 0
    }

    /// The next update takes so long.
    pub fn freeze(&self, for_ns: i64) {
        self.freeze_ns.store(for_ns, Ordering::Relaxed);
    }

    /// Every update takes so long.
    pub fn slow(&self, for_ns: i64) {
        self.slow_ns.store(for_ns, Ordering::Relaxed);
    }

    /// One servo is commanded to stop.
    pub fn stop(&self, servo: usize) {
        self.stopped.store(servo, Ordering::Relaxed);
    }
}

/// A controller of this style for a robot, prepared for it.
///
/// # Panics
/// If the robot's own does not fit it: the fleet has none such.
pub fn controller(style: Style, robot: &RobotConfig) -> Box<dyn Controller> {
    match style {
        Style::Own => {
            let mut own = khz_robot::assemble::controller(&robot.controller);
            let prepared = own.prepare(&khz_robot::assemble::info(robot));
            assert!(prepared.is_ok(), "{prepared:?}");
            own
        }
        Style::Hold => Box::new(Hold::default()),
        Style::Steps | Style::Velocity | Style::Torque => {
            let limits = robot.servos.iter().map(|servo| servo.limits.clone()).collect();
            Box::new(Crude { style, limits, from: Vec::new() })
        }
    }
}

/// The torque that torque control commands, N·m.
pub fn torque(limits: &Limits) -> f64 {
    0.5 * limits.torque.unwrap_or(1.0)
}

/// Steps of the target, a velocity or a torque, with a new one every 50 ms.
struct Crude {
    style: Style,
    limits: Vec<Limits>,
    from: Vec<f64>,
}

impl Crude {
    fn command(&self, servo: usize, turn: u64) -> PositionCommand {
        // Towards both ends in turn, and not all servos alike: steps longer to one side, motion until the end is reached.
        let (turns, forth) = if self.style == Style::Steps { (5, 3) } else { (24, 12) };
        let way = if (turn + servo as u64) % turns < forth { 1.0 } else { -1.0 };
        let limits = &self.limits[servo];
        let free = PositionCommand { kp_scale: 0.0, ..PositionCommand::hold(f64::NAN) };
        match self.style {
            Style::Velocity => {
                PositionCommand { velocity: 1.5 * way * limits.velocity.unwrap_or(5.0), ..free }
            }
            Style::Torque => PositionCommand { torque: way * torque(limits), kd_scale: 0.0, ..free },
            _ => {
                let [low, high] = limits.position.unwrap_or([-1.0, 1.0].map(|by| self.from[servo] + by));
                let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
                let share = [0.3, 0.9, 1.4][turn as usize % 3];
                PositionCommand::hold(middle + way * share * half)
            }
        }
    }
}

impl Controller for Crude {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.from.clear();
        self.from.extend(state.servos.iter().map(|servo| servo.position));
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let turn = (state.time() / 0.05) as u64;
        for (servo, command) in commands.iter_mut().enumerate() {
            *command = ServoCommand::Position(self.command(servo, turn));
        }
        Ok(())
    }
}

/// A controller until it misbehaves as configured. It compares every state it is given with the truth.
pub struct FaultyController {
    pub inner: Box<dyn Controller>,
    pub faults: Arc<ControllerFaults>,
    pub monitor: Arc<Mutex<Monitor>>,
    pub time: VirtualTime,
    /// What it commands to stop a servo.
    pub own_stop: ServoCommand,
    /// It prints its panic.
    pub prints_panics: bool,
}

impl Controller for FaultyController {
    fn parameters(&self) -> Vec<Parameter> {
        self.inner.parameters()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        lock(&self.monitor).compare(state);
        self.inner.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        lock(&self.monitor).compare(state);
        self.inner.update(state, commands)?;
        let faults = &self.faults;
        let took_ns = faults.freeze_ns.swap(0, Ordering::Relaxed) + faults.slow_ns.load(Ordering::Relaxed);
        self.time.elapse(took_ns);
        if faults.has(PANIC) && self.prints_panics {
            super::prints::count();
        }
        assert!(!faults.has(PANIC), "a bug, for the drill");
        if faults.has(FAIL) {
            return Err("given up, for the drill".into());
        }
        if let Some(command) = commands.get_mut(faults.stopped.load(Ordering::Relaxed)) {
            *command = self.own_stop;
        }
        if faults.has(NAN) {
            spoil(commands, f64::NAN, f64::NAN);
        } else if faults.has(HUGE) {
            spoil(commands, 1e40, 1e39);
        } else if faults.has(WILD) {
            let wild = if state.tick.is_multiple_of(2) { 1e6 } else { -1e6 };
            spoil(commands, wild, wild);
        }
        Ok(())
    }
}

fn spoil(commands: &mut [ServoCommand], position: f64, torque: f64) {
    let command = PositionCommand { velocity: position, torque, ..PositionCommand::hold(position) };
    commands.fill(ServoCommand::Position(command));
}
