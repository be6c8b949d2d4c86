//! The frames of RobStride servos in their MIT protocol as LeRobot sends and reads them.

use crate::common::{bytes, number, small, text, vectors};
use khz_wire::mit::{Codes, Scale};
use khz_wire::robstride_mit::{KD, KP, Reply, Request, State};
use serde_json::Value as Json;

fn code(of: &Json, key: &str) -> u32 {
    of[key].as_u64().unwrap() as u32
}

#[test]
fn requests_say_what_the_program_meant() {
    for vector in vectors("robstride_mit.json") {
        let (asks, sent) = (&vector["asks"], bytes(&vector["request"]).try_into().unwrap());
        let request = match text(&asks["what"]) {
            "enable" => Request::Enable,
            "stop" => Request::Stop,
            "set_zero" => Request::SetZero,
            "faults" => Request::Faults { clear: true },
            "mode" => Request::Mode(small(&asks["mode"])),
            _ => {
                let [position, velocity, kp, kd, torque] =
                    ["position", "velocity", "kp", "kd", "torque"].map(|key| code(asks, key));
                Request::Command(Codes { position, velocity, kp, kd, torque })
            }
        };
        assert_eq!((Request::from_bytes(sent), request.to_bytes()), (Some(request), sent), "{vector}");
        let (Request::Command(codes), Some(numbers)) = (request, vector["numbers"].as_object()) else {
            continue;
        };
        let given = |key: &str| number(&numbers[key]);
        let encoded = Codes {
            position: Scale::symmetric(12.57, 16).encode(given("position_deg").to_radians()),
            velocity: Scale::symmetric(33.0, 12).encode(given("velocity_deg").to_radians()),
            kp: KP.encode(given("kp")),
            kd: KD.encode(given("kd")),
            torque: Scale::symmetric(14.0, 12).encode(given("torque")),
        };
        assert_eq!(encoded, codes, "{vector}");
    }
}

#[test]
fn replies_say_what_the_program_read() {
    for vector in vectors("robstride_mit.json") {
        let (means, sent) = (&vector["says"], bytes(&vector["reply"]));
        let id = small(&means["id"]);
        let reply = if means["faults"].is_u64() {
            Reply::Faults { id, faults: code(means, "faults") as u16 }
        } else {
            let [position, velocity, torque] =
                ["position", "velocity", "torque"].map(|key| code(means, key) as u16);
            Reply::State(State {
                id,
                position,
                velocity,
                torque,
                temperature: code(means, "temperature") as i16,
            })
        };
        assert_eq!(Reply::parse(&sent), Some(reply), "{vector}");
        assert_eq!(reply.to_bytes().as_slice(), sent, "{vector}");
        assert_eq!(Reply::parse(&sent[..7]), None);
    }
}
