//! What a serial server does with a query that comes before it has replied to an earlier one.
//!
//! It has no reply to put the values into. mjlib's `ProcessSubframeRead` then skips a read's opcode only, so that its operands are
//! executed as subframes. On a half-duplex bus a query waits for the reply before it, but only for so long.

use khz_wire::device::{Refusal, RegisterFile, Server};
use khz_wire::frame::MAX_PAYLOAD;
use khz_wire::register::Access;
use khz_wire::{Mode, Register, Resolution, Value};

/// Registers of commands that neither stop, damp nor a position uses.
const OF_OTHER_MODES: std::ops::RangeInclusive<Register> = Register::PWM_PHASE_A..=Register::VFOC_THETA_RATE;

/// Taken for subframes, these reads and the padding behind them write nothing that a servo would obey or keep, whatever command comes
/// before them in the frame.
pub fn is_harmless(reads: &[u8]) -> bool {
    let mut done = Done::default();
    Server::new().answer(reads, false, &mut done, &mut [0; MAX_PAYLOAD]);
    done.is_complete && !done.harm
}

/// What was done to a server's registers.
#[derive(Default)]
struct Done {
    harm: bool,
    /// Else it was taken for a frame to another server, and the command in it with it.
    is_complete: bool,
}

impl RegisterFile for Done {
    fn read(&mut self, _: Register, _: Resolution) -> Result<Value, Refusal> {
        Err(Refusal::Unknown)
    }

    fn write(&mut self, register: Register, value: Value) -> Result<(), Refusal> {
        let is_writable = |access| !matches!(access, Access::Read | Access::Reserved);
        self.harm |= match register {
            Register::MODE => Mode::from_number(i32::from(value.integer() as i8)).is_some(),
            register if OF_OTHER_MODES.contains(&register) => false,
            register => register.entry().is_some_and(|entry| is_writable(entry.access)),
        };
        Ok(())
    }

    fn complete(&mut self) {
        self.is_complete = true;
    }

    fn uuid(&self) -> [u8; 16] {
        [0; 16]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_acts_or_stays_is_harm() {
        // The query of the official clients: 31 values from the position on.
        assert!(is_harmless(&[0x11, 0x00, 0x1f, 0x01, 0x13, 0x0d]));
        // Ten values from register 0x11 on, which only PWM uses.
        assert!(is_harmless(&[0x11, 0x0d, 0x11, 0x0f]));
        // The mode, as int8 and, cut off to 0, as a float; a mode that does not exist.
        assert!(!is_harmless(&[0x11, 0x01, 0x00, 0x0a]));
        assert!(!is_harmless(&[0x11, 0x0c, 0x11, 0x00, 0x1f, 0x01, 0x13, 0x0d]));
        assert!(is_harmless(&[0x11, 0x01, 0x00, 0x1f]));
        // The commanded position; and the UUID's mask, for which the servo drops the frame.
        assert!(!is_harmless(&[0x11, 0x03, 0x1e, 0x0d, 0x11, 0x0f]));
        assert!(!is_harmless(&[0x11, 0x09, 0xd4, 0x02, 1, 2, 3, 4]));
    }
}
