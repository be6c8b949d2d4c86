//! From mode to mode: commands, transients, faults and the watchdog.

use super::Servo;
use super::command::Command;
use super::trajectory::Target;
use khz_wire::{Fault, Mode};

/// The driver powers up.
const ENABLING_S: f64 = 0.001;
/// 256 control cycles at 30 kHz measure the current offsets.
const CALIBRATING_S: f64 = 256.0 / 30_000.0;
/// Below this the electronics give up, V.
const LEAST_BUS_V: f64 = 4.0;

impl Servo {
    /// Carries out a command from now on.
    pub(super) fn apply(&mut self, command: Command) {
        let transients = [Mode::Fault, Mode::Enabling, Mode::Calibrating, Mode::CalibrationComplete];
        if transients.contains(&command.mode) {
            return;
        }
        self.feed(command.timeout_s);
        let command = self.with_defaults(command);
        self.active = command;
        self.trajectory.target = Target::new(&command, self.status.position);
        match self.objection(&command) {
            Some(fault) => self.fail(fault),
            None => self.follow_command(),
        }
    }

    /// Fills in the configured limits.
    fn with_defaults(&self, mut command: Command) -> Command {
        let settings = &self.settings.servo;
        let limit = |asked: f64, default: f32| match asked {
            asked if asked.is_nan() => f64::from(default),
            asked if asked < 0.0 => f64::NAN,
            asked => asked,
        };
        command.velocity_limit = limit(command.velocity_limit, settings.default_velocity_limit);
        command.accel_limit = limit(command.accel_limit, settings.default_accel_limit);
        if command.is_limited() {
            // f64::min ignores a NaN limit.
            command.velocity_limit = command.velocity_limit.min(f64::from(settings.max_velocity));
        }
        command
    }

    /// What the servo would rather fault than carry out.
    fn objection(&self, command: &Command) -> Option<Fault> {
        let settings = &self.settings.servo;
        let feedforward = settings.bemf_feedforward != 0.0 && !settings.bemf_feedforward_override;
        if command.is_limited() && !command.stop_position.is_nan() {
            Some(Fault::STOP_POSITION_DEPRECATED)
        } else if feedforward && !command.accel_limit.is_finite() {
            Some(Fault(47))
        } else {
            None
        }
    }

    /// Goes where the active command wants, if the present mode lets it.
    pub(super) fn follow_command(&mut self) {
        let wanted = self.active.mode;
        match (self.status.mode, wanted) {
            (now, wanted) if now == wanted => {}
            (_, Mode::Stopped) => self.enter(Mode::Stopped),
            (Mode::Stopped, _) if self.injected.asleep => {}
            (Mode::Stopped, _) => {
                self.status.mode = Mode::Enabling;
                self.status.transient_s = ENABLING_S;
            }
            (Mode::Fault | Mode::PositionTimeout | Mode::Enabling | Mode::Calibrating, _) => {}
            (_, wanted) => self.start(wanted),
        }
    }

    fn start(&mut self, mode: Mode) {
        let bounded = matches!(mode, Mode::Position | Mode::StayWithin) && !self.active.ignore_bounds;
        if bounded && self.outside_bounds() {
            self.fail(Fault::START_OUTSIDE_LIMIT);
        } else if bounded && self.invalid_bounds() {
            self.fail(Fault::INVALID_LIMITS);
        } else {
            self.enter(mode);
        }
    }

    fn enter(&mut self, mode: Mode) {
        self.status.mode = mode;
        self.release();
        if mode == Mode::Stopped {
            self.status.fault = Fault::NONE;
        }
    }

    /// Forgets everything the control loop has gathered.
    pub(super) fn release(&mut self) {
        self.pid.clear();
        self.trajectory.release();
    }

    /// Latches a fault; only a stop leads out of it.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.status.mode = Mode::Fault;
        self.status.fault = fault;
        self.release();
    }

    /// One control period's worth of transitions.
    pub(super) fn step_mode(&mut self, dt_s: f64) {
        self.step_transient(dt_s);
        self.follow_command();
        if !matches!(self.status.mode, Mode::Stopped | Mode::Fault)
            && let Some(fault) = self.failure()
        {
            self.fail(fault);
        }
        if self.timed_out() {
            self.status.mode = Mode::PositionTimeout;
        }
    }

    fn step_transient(&mut self, dt_s: f64) {
        self.status.transient_s -= dt_s;
        if self.status.transient_s > 0.0 {
            return;
        }
        if self.status.mode == Mode::Enabling {
            self.status.mode = Mode::Calibrating;
            self.status.transient_s = CALIBRATING_S;
        } else if self.status.mode == Mode::Calibrating {
            self.status.mode = Mode::CalibrationComplete;
        }
    }

    /// What switches a running servo off.
    fn failure(&self) -> Option<Fault> {
        let settings = &self.settings.servo;
        if self.status.bus_v > f64::from(settings.max_voltage) {
            Some(Fault::OVER_VOLTAGE)
        } else if self.status.bus_v < LEAST_BUS_V {
            Some(Fault::UNDER_VOLTAGE)
        } else if self.thermal.board_c > f64::from(settings.fault_temperature)
            || self.motor_temperature() > f64::from(settings.motor_fault_temperature)
        {
            Some(Fault::OVER_TEMPERATURE)
        } else {
            None
        }
    }

    fn outside_bounds(&self) -> bool {
        let bounds = &self.settings.servopos;
        self.status.position < f64::from(bounds.position_min)
            || self.status.position > f64::from(bounds.position_max)
    }

    fn invalid_bounds(&self) -> bool {
        let bounds = &self.settings.servopos;
        [bounds.position_min, bounds.position_max].iter().any(|b| b.abs() > 32_768.0)
    }

    /// The driver works on the motor, so that a torque is worth reporting.
    pub(super) fn torque_on(&self) -> bool {
        match self.status.mode {
            Mode::PositionTimeout => self.settings.servo.timeout_mode != 0,
            mode => mode.is_active(),
        }
    }
}
