//! What families in MIT mode have in common by hand.

use super::codec::Codec;
use super::{Drive, Reported};
use crate::by_hand::{Answer, Ask, Order, judged, not_written};
use crate::{Mounting, PositionCommand, ServoState};
use khz_wire::mit::Codes;

/// No watchdog waits longer, s.
const MOST_WATCHDOG_S: f64 = 30.0;

/// A watchdog to set, as encoded; 0: none.
///
/// # Errors
/// It is too short or too long, in words.
pub fn timeout(seconds: f64) -> Result<u32, String> {
    match seconds {
        0.0 => Ok(0),
        _ if (0.001..=MOST_WATCHDOG_S).contains(&seconds) => Ok(super::timeout(seconds)),
        _ => Err(format!("a watchdog of {seconds} s: write 0.001 to {MOST_WATCHDOG_S} s, or 0 for none")),
    }
}

/// An order that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Driven {
    /// Sent first: it is unknown whether a servo that is switched on follows an old command.
    pub damp: Codes,
    /// What it is to do.
    pub command: Codes,
    /// Its watchdog, s; `None`: it never acts by itself.
    pub watchdog_s: Option<f64>,
}

/// An order in codes; `None`: switch off.
///
/// # Errors
/// What of it cannot be sent, in words; `servo` is for example "a Damiao".
pub fn driven(
    drive: &Drive,
    mounting: &Mounting,
    order: &Order,
    servo: &str,
) -> Result<Option<Driven>, String> {
    let still = PositionCommand { kp_scale: 0.0, ..PositionCommand::hold(f64::NAN) };
    let (command, watchdog_s) = match *order {
        Order::Stop => return Ok(None),
        Order::Damp { kd_scale, watchdog_s } => (PositionCommand { kd_scale, ..still }, watchdog_s),
        Order::Position { command, watchdog_s } => (command, watchdog_s),
    };
    if command.position.is_nan() && command.kp_scale != 0.0 {
        return Err(format!("{servo} cannot start from an unknown position: give a position"));
    }
    if !command.max_torque.is_nan() {
        return Err(format!("no greatest torque travels to {servo}: leave it out"));
    }
    if watchdog_s == 0.0 {
        return Err(format!(
            "{servo} may follow its last command for ever: give a watchdog, for example 0.1 s"
        ));
    }
    if !watchdog_s.is_nan() && !(0.0..=MOST_WATCHDOG_S).contains(&watchdog_s) {
        return Err(format!("a watchdog of {watchdog_s} s: write 0.001 to {MOST_WATCHDOG_S} s"));
    }
    let share = |share: f64| (0.0..=1.0).contains(&share);
    if !share(command.kp_scale) || !share(command.kd_scale) {
        return Err("shares of the gains are from 0 to 1".to_owned());
    }
    if let Some((quantity, value, most)) = drive.carries(mounting).lack(command.kp_scale > 0.0, &command) {
        let unit = quantity.unit();
        return Err(format!("a {quantity} of {value} {unit} is beyond the motor's range, ±{most}"));
    }
    let mut codec = Codec::new(drive.clone(), *mounting);
    let damp = codec.damp(1.0);
    let command = match order {
        Order::Damp { .. } => codec.damp(command.kd_scale),
        _ => codec.follow(&command),
    };
    Ok(Some(Driven { damp, command, watchdog_s: Some(watchdog_s).filter(|seconds| !seconds.is_nan()) }))
}

/// See [`crate::ByHand::register`]: the families' own numbers of registers, with their names.
pub fn register<N: Copy + Into<u16>>(names: &[(N, &str)], name: &str) -> Option<u16> {
    let found = names.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
    found.map(|(number, _)| (*number).into())
}

/// See [`crate::ByHand::called`]: the number as its family writes it, and its name if there is one.
pub fn called<N: Copy + Into<u16>>(names: &[(N, &str)], register: u16, number: &str) -> String {
    let known = names.iter().find(|(known, _)| (*known).into() == register);
    let name = known.map(|(_, name)| format!(" (`{name}`)"));
    format!("{number}{}", name.unwrap_or_default())
}

/// See [`crate::ByHand::set_register`]: the last of the requests that write it reads it, which must bring what was written.
pub fn set_register(is_off: Ask, write: Vec<Ask>, register: u16, called: String, written: f64) -> Vec<Ask> {
    let mut asks = vec![is_off];
    asks.extend(write);
    let read =
        asks.pop().map(|read| judged(read, move |answer| not_written(answer, register, &called, written)));
    asks.extend(read);
    asks
}

/// A state as an answer.
pub fn answer(id: u8, reported: &Reported, drive: &Drive, mounting: &Mounting) -> Answer {
    let mut state = ServoState::UNKNOWN;
    Codec::new(drive.clone(), *mounting).decode(reported, true, &mut state);
    Answer {
        id,
        mode: Some(reported.mode),
        position: Some(state.position),
        velocity: Some(state.velocity),
        torque: Some(state.torque),
        temperature: Some(state.temperature).filter(|celsius| !celsius.is_nan()),
        fault: Some(reported.fault),
        ..Answer::default()
    }
}
