#![no_main]

use khz_tlog::{Sink, Type, Width};

/// What a robot has sent before: what is fuzzed then finds something to ask for.
fn begin() -> Vec<u8> {
    let mut bytes = head(0);
    let text = Type::object([("text", Type::String)]);
    let servo = Type::object(["position", "velocity", "torque"].map(|name| (name, Type::Float32)));
    let parameter =
        Type::object([("tick", Type::Uint(Width::Eight)), ("name", Type::String), ("value", Type::Float64)]);
    let records = [("servo", Type::object([("hip", servo)])), ("parameters", text), ("parameter", parameter)];
    for (number, (name, ty)) in records.iter().enumerate() {
        bytes.put(&[1]);
        bytes.varuint(number as u64);
        bytes.counted(name.as_bytes());
        bytes.counted(&ty.to_bytes());
    }
    let list = br#"[{"name":"kp","min":0,"max":2,"default":1,"value":0.5}]"#;
    bytes.put(&[2, 1]);
    bytes.put(&[0; 8]);
    bytes.put(&[list.len() as u8 + 1, list.len() as u8]);
    bytes.put(list);
    bytes
}

fn head(number: u64) -> Vec<u8> {
    [b"KLOG\x01", &7u64.to_le_bytes()[..], &number.to_le_bytes()].concat()
}

// Whatever clients and robots send, nothing panics.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut robot = vec![begin()];
    let mut client: Vec<&[u8]> =
        vec![br#"{"op":"subscribe","subscriptions":[{"id":0,"channelId":1},{"id":1,"channelId":2}]}"#];
    let mut rest = bytes;
    while let [kind, len, tail @ ..] = rest {
        let (piece, tail) = tail.split_at((*len as usize).min(tail.len()));
        rest = tail;
        match kind % 4 {
            // Mostly a sound head, so that what is behind it is looked at.
            0 => robot.push([head(robot.len() as u64), piece.to_vec()].concat()),
            1 => robot.push(piece.to_vec()),
            _ => client.push(piece),
        }
    }
    khz_view::fuzzing::receive(bytes, robot.iter().map(Vec::as_slice), client.into_iter());
});
