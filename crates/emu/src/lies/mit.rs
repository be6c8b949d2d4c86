//! The lies of servos in MIT mode.

use crate::config::FamilyConfig;
use khz_wire::Frame;
use khz_wire::damiao::{REGISTERS, RegisterReply};
use khz_wire::mit::{Codes, Special};
use khz_wire::robstride::{self, Request};

/// Whether a command makes the servo follow a position; `None` if it is no command.
pub(super) fn follows(family: &FamilyConfig, frame: &Frame) -> Option<bool> {
    if let FamilyConfig::Robstride(_) = family {
        return match Request::parse(frame)?.0 {
            Request::Command(codes) => Some(codes.kp > 0),
            Request::Stop { .. } => Some(false),
            _ => None,
        };
    }
    let bytes = frame.payload().try_into().ok().filter(|_| frame.id != REGISTERS)?;
    match Special::from_bytes(bytes) {
        Some(Special::Disable) => Some(false),
        Some(_) => None,
        None => Some(Codes::from_bytes(bytes).kp > 0),
    }
}

/// The bytes of a reply that tell the state, and not the mode; none of a reply about registers.
fn state(family: &FamilyConfig, reply: &Frame) -> std::ops::Range<usize> {
    let is_state = match family {
        FamilyConfig::Robstride(_) => robstride::State::parse(reply).is_some(),
        FamilyConfig::Damiao(_) => RegisterReply::parse(reply.payload(), reply.payload()[0]).is_none(),
        _ => true,
    };
    match family {
        _ if !is_state => 0..0,
        // The first byte has the status, or the last one the error.
        FamilyConfig::Damiao(_) => 1..8,
        FamilyConfig::Cubemars(_) => 1..7,
        _ => 0..8,
    }
}

/// The reply of a servo that says what it `said` first.
pub(super) fn frozen(family: &FamilyConfig, reply: &Frame, said: &mut Option<Frame>) -> Frame {
    let state = state(family, reply);
    if state.is_empty() {
        return *reply;
    }
    let mut frozen = *reply;
    frozen.payload_mut()[state.clone()].copy_from_slice(&said.get_or_insert(*reply).payload()[state]);
    frozen
}

/// The reply of a servo that says it is in this mode.
pub(super) fn in_mode(family: &FamilyConfig, reply: &Frame, mode: u8) -> Frame {
    let mut lied = *reply;
    match family {
        _ if state(family, reply).is_empty() => {}
        FamilyConfig::Robstride(_) => {
            const MODE: u32 = 3 << 22;
            lied.id = reply.id & !MODE | u32::from(mode) << 22 & MODE;
        }
        FamilyConfig::Damiao(_) => lied.payload_mut()[0] = mode << 4 | reply.payload()[0] & 0xf,
        _ => lied.payload_mut()[7] = mode,
    }
    lied
}
