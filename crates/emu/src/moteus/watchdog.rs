//! How long a command stays valid.

use super::Servo;
use khz_wire::Mode;

impl Servo {
    /// A command has just been applied.
    pub(super) fn feed(&mut self, timeout_s: f64) {
        let default = f64::from(self.settings.servo.default_timeout_s);
        self.status.timeout_s = if timeout_s == 0.0 { default } else { timeout_s };
    }

    /// Counts down; never below 0, and not at all from NaN.
    pub(super) fn count_down(&mut self, dt_s: f64) {
        if self.status.timeout_s > 0.0 {
            self.status.timeout_s = (self.status.timeout_s - dt_s).max(0.0);
        }
    }

    /// Position and stay-within are the modes that time out.
    pub(super) fn timed_out(&self) -> bool {
        matches!(self.status.mode, Mode::Position | Mode::StayWithin) && self.status.timeout_s <= 0.0
    }
}
