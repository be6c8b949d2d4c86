//! The frames of CubeMars servos as `TMotorCANControl` sends and reads them.

use crate::common::{bytes, number, small, text, vectors};
use khz_wire::cubemars::{KD, KP, State};
use khz_wire::mit::{Codes, Scale, Special};
use serde_json::Value as Json;

fn code(of: &Json, key: &str) -> u32 {
    of[key].as_u64().unwrap() as u32
}

#[test]
fn requests_say_what_the_program_meant() {
    for vector in vectors("cubemars.json").into_iter().filter(|vector| vector["asks"].is_object()) {
        let (asks, sent) = (&vector["asks"], bytes(&vector["request"]).try_into().unwrap());
        let special = match text(&asks["what"]) {
            "enable" => Some(Special::Enable),
            "disable" => Some(Special::Disable),
            "set_zero" => Some(Special::SetZero),
            _ => None,
        };
        assert_eq!(Special::from_bytes(sent), special, "{vector}");
        if let Some(special) = special {
            assert_eq!(special.to_bytes(), sent);
            continue;
        }
        let codes = Codes {
            position: code(asks, "position"),
            velocity: code(asks, "velocity"),
            kp: code(asks, "kp"),
            kd: code(asks, "kd"),
            torque: code(asks, "torque"),
        };
        assert_eq!((Codes::from_bytes(sent), codes.to_bytes()), (codes, sent), "{vector}");
        let Some(numbers) = vector["numbers"].as_object() else { continue };
        let near = |code: u32, of: &str, scale: Scale| {
            // The program has one code more than the range has steps.
            assert!(scale.encode(number(&numbers[of])).abs_diff(code) <= 1, "{of} {code:x} of {vector}");
        };
        near(codes.position, "position", Scale::symmetric(12.5, 16));
        near(codes.velocity, "velocity", Scale::symmetric(50.0, 12));
        near(codes.torque, "torque", Scale::symmetric(18.0, 12));
        near(codes.kp, "kp", KP);
        near(codes.kd, "kd", KD);
    }
}

#[test]
fn replies_say_what_the_program_read() {
    for vector in vectors("cubemars.json").into_iter().filter(|vector| vector["says"].is_object()) {
        let (means, sent) = (&vector["says"], bytes(&vector["reply"]));
        let state = State {
            id: small(&means["id"]),
            position: code(means, "position") as u16,
            velocity: code(means, "velocity") as u16,
            torque: code(means, "torque") as u16,
            temperature: means["celsius"].as_u64().map(|celsius| celsius as u8),
            error: small(&means["error"]),
        };
        assert_eq!(State::parse(&sent), Some(state), "{vector}");
        assert_eq!(state.to_bytes()[..sent.len()], sent, "{vector}");
        for len in (0..sent.len()).filter(|len| *len != 6) {
            assert_eq!(State::parse(&sent[..len]), None, "{len}");
        }
    }
}
