//! The frames of RMD motors as two clients send them and their manual prints them.

use crate::common::{bytes, hex_number, number, small, text, vectors};
use khz_wire::mit::Codes;
use khz_wire::rmd::{
    self, KD, KP, MOTION_REPLIES, MOTIONS, Message, Motion, REPLIES, REQUESTS, Status, hundredths, radians,
    scales, state,
};
use serde_json::Value as Json;

fn ranges(of: &Json) -> [f64; 3] {
    [0, 1, 2].map(|at| number(&of["ranges"][at]))
}

fn message(of: &Json) -> Message {
    Message::parse(&bytes(of)).unwrap()
}

#[test]
fn requests_say_what_the_clients_meant() {
    let mut count = 0;
    for vector in vectors("rmd.json").into_iter().filter(|vector| vector["asks"].is_object()) {
        let asks = &vector["asks"];
        let asked = Message {
            index: small(&asks["index"]),
            limit: asks["limit"].as_u64().unwrap() as u16,
            ..Message::with(hex_number(&asks["command"]) as u8, asks["value"].as_i64().unwrap() as i32)
        };
        assert_eq!(asked.to_bytes()[..], bytes(&vector["request"]), "{vector}");
        assert_eq!(rmd::frame(REQUESTS + 1, asked).id, hex_number(&vector["to"]));
        count += 1;
    }
    assert_eq!(count, 33);
}

#[test]
fn numbers_of_motion_mode_become_the_bytes_of_the_clients() {
    let mut count = 0;
    for vector in vectors("rmd.json").into_iter().filter(|vector| vector["numbers"].is_object()) {
        let number = |key: &str| number(&vector["numbers"][key]);
        let [position, velocity, torque] = scales(ranges(&vector));
        let codes = Codes {
            position: position.encode(number("position")),
            velocity: velocity.encode(number("velocity")),
            kp: KP.encode(number("kp")),
            kd: KD.encode(number("kd")),
            torque: torque.encode(number("torque")),
        };
        let frame = rmd::motion(1, codes);
        assert_eq!((frame.payload(), frame.id), (&bytes(&vector["request"])[..], MOTIONS + 1), "{vector}");
        count += 1;
    }
    assert_eq!(count, 9 + 12);
}

#[test]
fn replies_say_what_the_manual_says_they_do() {
    let mut count = 0;
    for vector in vectors("rmd.json").into_iter().filter(|vector| vector["by"] == "manual") {
        count += 1;
        if vector["reply"].is_null() {
            continue;
        }
        let means = &vector["says"];
        if !means.is_object() {
            continue;
        }
        let reply = message(&vector["reply"]);
        assert_eq!((hex_number(&vector["from"]), reply.command), (REPLIES + 1, bytes(&vector["request"])[0]));
        if let Some(value) = means["value"].as_u64() {
            assert_eq!(u64::from(reply.unsigned()), value, "{vector}");
        }
        if means["float"].is_number() {
            assert_eq!(f64::from(f32::from_le_bytes(reply.value)), number(&means["float"]));
        }
        if let Some(expected) = means["text"].as_str() {
            assert_eq!(reply.to_bytes()[1..], *expected.as_bytes());
        }
        if means["amperes"].is_number() {
            let motion = Motion::parse(reply);
            let expected = [f64::from(motion.current) / 100.0, motion.speed.into(), motion.angle.into()];
            assert_eq!(expected, ["amperes", "dps", "degrees"].map(|key| number(&means[key])), "{vector}");
            assert_eq!(motion.celsius, 50);
        }
        if means["volts"].is_number() {
            let status = Status::parse(reply).unwrap();
            assert_eq!((status.volts, status.released), (number(&means["volts"]), true));
            assert_eq!((status.celsius, status.errors), (50, 4));
            assert_eq!(rmd::error_name(status.errors), "low voltage");
        }
    }
    assert_eq!(count, 30);
}

#[test]
fn states_of_motion_mode_are_those_the_client_decoded() {
    let mut count = 0;
    for vector in vectors("rmd.json").into_iter().filter(|vector| vector["of"] == "decoded") {
        let (means, reply) = (&vector["says"], bytes(&vector["reply"]));
        let decoded = state(1, &reply).unwrap();
        let codes = [decoded.position, decoded.velocity, decoded.torque];
        for ((scale, code), of) in
            scales(ranges(&vector)).into_iter().zip(codes).zip(["position", "velocity", "torque"])
        {
            // The client calculates in single precision.
            assert!((scale.decode(code.into()) - number(&means[of])).abs() < 5e-6, "{of} of {vector}");
        }
        assert_eq!(
            (decoded.to_bytes()[..].to_vec(), hex_number(&vector["from"])),
            (reply, MOTION_REPLIES + 1)
        );
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn the_manual_s_motion_is_answered_by_a_state_and_its_command_is_none() {
    let all = vectors("rmd.json");
    let vector = all.iter().find(|vector| text(&vector["of"]).starts_with("motion (manual")).unwrap();
    let (request, reply) = (bytes(&vector["request"]), bytes(&vector["reply"]));
    assert_eq!(state(1, &reply).unwrap().position, 0xe665);
    assert_eq!(state(2, &reply), None);
    assert!((0..=u8::MAX).all(|id| state(id, &request).is_none()), "the echo of a command");
}

#[test]
fn angles_are_hundredths_of_a_degree() {
    assert!((radians(36_000) - core::f64::consts::TAU).abs() < 1e-12);
    for angle in [-36_000, -1, 0, 1, 9_000, 71_619] {
        assert_eq!(hundredths(radians(angle)), angle);
    }
}
