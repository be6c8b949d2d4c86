//! Packets of Feetech servos as three clients wrote and took them, and what damage costs.

use crate::common::{bytes, text, vectors};
use khz_wire::Frame;
use khz_wire::feetech::{
    self, BROADCAST, CONDITIONS, Decoder, End, ITEMS, Item, MAX_PACKET, MODELS, Model, Status, SyncWrite,
    address, asked, condition, encode, instruction, item, item_named, packet, parts, ping, read, reboot,
    sync_read, wire_len, write, written,
};
use serde_json::Value as Json;

fn all(decoder: &mut Decoder, stream: &[u8], piece: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    for mut piece in stream.chunks(piece) {
        while let Some(frame) = decoder.next(&mut piece) {
            frames.push(frame);
        }
    }
    frames
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut out = [0; MAX_PACKET];
    let len = encode(frame, &mut out).unwrap();
    assert_eq!(wire_len(frame), len);
    out[..len].to_vec()
}

fn request_of(vector: &Json) -> Frame {
    let mut decoder = Decoder::new(End::Servo);
    let frames = all(&mut decoder, &bytes(&vector["request"]), 5);
    assert_eq!((frames.len(), decoder.corrupt(), decoder.discarded()), (1, 0, 0), "{vector}");
    frames[0]
}

fn host(request: &Frame) -> Decoder {
    let mut decoder = Decoder::new(End::Host);
    decoder.expect(request);
    decoder
}

#[test]
fn requests_and_replies_have_the_bytes_of_their_clients() {
    for vector in vectors("feetech.json") {
        let request = request_of(&vector);
        assert_eq!(encoded(&request), bytes(&vector["request"]), "{vector}");
        let replies: Vec<_> = vector["replies"].as_array().unwrap().iter().map(bytes).collect();
        // An adapter that echoes changes nothing.
        for echo in [vec![], encoded(&request)] {
            let mut decoder = host(&request);
            let frames = all(&mut decoder, &[&echo[..], &replies.concat()].concat(), 3);
            let again: Vec<_> = frames.iter().map(encoded).collect();
            assert_eq!(again, replies, "{vector}");
            assert_eq!((decoder.corrupt(), decoder.discarded()), (0, echo.len() as u64), "{vector}");
            assert!(frames.iter().all(|frame| Status::parse(frame).is_some()));
        }
    }
}

/// The vector of a client's call.
fn of(call: &str) -> Json {
    let found = vectors("feetech.json").into_iter().find(|vector| text(&vector["of"]) == call);
    found.unwrap_or_else(|| panic!("{call}"))
}

#[test]
fn what_we_ask_is_what_clients_ask() {
    let goals = |entries: &[(u8, u16)]| {
        let mut goals = SyncWrite::new(address::GOAL_POSITION, 2);
        assert!(entries.iter().all(|(id, goal)| goals.add(*id, &goal.to_le_bytes())));
        goals.packet()
    };
    let speed = item(address::GOAL_SPEED).unwrap().word(-300);
    for (call, ours) in [
        ("ping(1), 1", ping(1)),
        ("read2ByteTxRx(1,56)", read(1, address::PRESENT_POSITION, 2)),
        ("write1ByteTxRx(1,40,1) torque on", write(1, address::TORQUE_ENABLE, &[1]).unwrap()),
        ("write2ByteTxRx(1,46,0x812c): speed -300", write(1, 46, &speed.to_le_bytes()).unwrap()),
        ("GroupSyncRead(56,2) 1..6", sync_read(56, 2, &[1, 2, 3, 4, 5, 6]).unwrap()),
        (
            "GroupSyncWrite(42,2): 1..6 = 2049..2054",
            goals(&[(1, 2049), (2, 2050), (3, 2051), (4, 2052), (5, 2053), (6, 2054)]),
        ),
        ("reboot(1)", reboot(1)),
        ("action(254)", packet(BROADCAST, instruction::ACTION, &[]).unwrap()),
    ] {
        assert_eq!(encoded(&ours), bytes(&of(call)["request"]), "{call}");
    }
    let sync = request_of(&of("GroupSyncWrite(42,2): 1..6 = 2049..2054"));
    assert_eq!((written(&sync, 6), written(&sync, 7)), (Some((42, &[6, 8][..])), None));
    let read = request_of(&of("GroupSyncRead(56,15) 1,2"));
    assert_eq!((asked(&read), asked(&sync), written(&read, 1)), (Some((56, 15, &[1, 2][..])), None, None));
}

const IDS: [u8; 6] = [1, 2, 3, 4, 5, 6];
/// Position and speed; one reply has a lead-in inside.
const DATA: [[u8; 4]; 6] =
    [[1, 8, 0, 0], [2, 8, 50, 128], [0xff, 0xff, 3, 4], [4, 8, 0, 0], [0xff, 8, 0xff, 0xff], [6, 8, 0, 0]];

fn statuses() -> Vec<Status<'static>> {
    IDS.iter().zip(&DATA).map(|(&id, data)| Status { id, conditions: 0, data }).collect()
}

/// Whose replies are found in a stream, after a silence at its end.
fn found(stream: &[u8]) -> (Vec<u8>, Decoder) {
    let mut decoder = host(&sync_read(56, 4, &IDS).unwrap());
    let mut frames = all(&mut decoder, stream, 5);
    while decoder.give_up() {
        frames.extend(all(&mut decoder, &[], 1));
        while let Some(frame) = decoder.next(&mut &[][..]) {
            frames.push(frame);
        }
    }
    let right = |frame: &Frame| {
        Status::parse(frame).filter(|status| statuses().contains(status)).map(|status| status.id)
    };
    (frames.iter().map(|frame| right(frame).unwrap_or_else(|| panic!("{frame:?}"))).collect(), decoder)
}

fn stream() -> (Vec<u8>, Vec<usize>) {
    let packets: Vec<_> = statuses().iter().map(|status| encoded(&status.packet().unwrap())).collect();
    let mut end = 0;
    let ends = packets.iter().map(|packet| {
        end += packet.len();
        end
    });
    let ends = ends.collect();
    (packets.concat(), ends)
}

#[test]
fn a_flipped_bit_costs_one_reply() {
    let (stream, _) = stream();
    assert_eq!(found(&stream).0, IDS);
    for bit in 0..8 * stream.len() {
        let mut damaged = stream.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (ids, decoder) = found(&damaged);
        assert_eq!(ids.len(), 5, "bit {bit}: {ids:?}");
        assert!(decoder.corrupt() + decoder.discarded() > 0);
    }
}

#[test]
fn a_truncation_costs_what_is_missing() {
    let (stream, ends) = stream();
    let last = encoded(&statuses()[5].packet().unwrap());
    for len in 0..=stream.len() {
        let whole = ends.iter().filter(|end| **end <= len).count();
        assert_eq!(found(&stream[..len]).0, IDS[..whole]);
        // What comes behind it is found, too.
        let more = [&stream[..len], &last].concat();
        assert_eq!(found(&more).0, [&IDS[..whole], &[6]].concat(), "{len}");
    }
}

#[test]
fn only_what_was_asked_is_a_reply() {
    let reply = |id, data: &[u8]| encoded(&Status { id, conditions: 0, data }.packet().unwrap());
    let decoded = |request: &Frame, bytes: &[u8]| {
        let mut decoder = host(request);
        (all(&mut decoder, bytes, 64).len(), decoder.corrupt() > 0)
    };
    let position = read(1, address::PRESENT_POSITION, 2);
    assert_eq!(decoded(&position, &reply(1, &[0, 8])), (1, false));
    for other in [reply(2, &[0, 8]), reply(1, &[0]), reply(1, &[0, 8, 1]), reply(1, &[])] {
        assert_eq!(decoded(&position, &other), (0, true));
    }
    // No servo answers a sync write, and any servo a ping of all.
    let sync = request_of(&of("GroupSyncWrite(42,2): 1..6 = 2049..2054"));
    assert_eq!(decoded(&sync, &reply(1, &[])), (0, true));
    assert_eq!(decoded(&ping(BROADCAST), &[reply(1, &[]), reply(9, &[])].concat()), (2, false));
    // Nothing was asked.
    assert!(all(&mut Decoder::new(End::Host), &reply(1, &[]), 64).is_empty());
}

#[test]
fn a_servo_skips_what_is_longer_than_our_packets() {
    let mut long = vec![0xff, 0xff, BROADCAST, 0, instruction::SYNC_WRITE, 42, 6];
    (1..=20).for_each(|id| long.extend([id, 0, 8, 0, 0, 0, 0]));
    long[3] = (long.len() - 3) as u8;
    long.push(feetech::checksum(&long[2..]));
    let mut decoder = Decoder::new(End::Servo);
    let frames = all(&mut decoder, &[long, encoded(&ping(1))].concat(), 11);
    assert_eq!((&frames[..], decoder.corrupt()), (&[ping(1)][..], 1));
    assert_eq!(Status::parse(&ping(1)), None);
    assert_eq!(encode(&packet(1, instruction::STATUS, &[]).unwrap(), &mut [0; 9]), None);
    let mut short = Frame::new(0x5501, &[0]).unwrap();
    short.extended = false;
    assert_eq!(parts(&short), None);
}

#[test]
fn signs_are_apart_from_magnitudes() {
    let of = |name: &str| item_named(name).unwrap();
    for (name, value, word) in [
        ("Goal_Position", 2048, 2048),
        ("goal speed", -300, 0x812c),
        ("PRESENT_LOAD", -120, 0x0478),
        ("Homing_Offset", -100, 0x0864),
    ] {
        assert_eq!(
            (of(name).word(value), of(name).value(&u16::to_le_bytes(word))),
            (word, Some(value)),
            "{name}"
        );
    }
    assert_eq!(of("Present_Speed").value(&[0, 0x80]), Some(0), "there is a negative zero");
    for item in ITEMS {
        let clamped = |value| item.value(&item.word(value).to_le_bytes()[..usize::from(item.size)]).unwrap();
        let (most, least) = (clamped(i32::MAX), clamped(i32::MIN));
        assert_eq!(least, if item.sign_bit.is_some() { -most } else { 0 }, "{}", item.name);
        assert!((least..=most).step_by(7).all(|value| clamped(value) == value), "{}", item.name);
        assert_eq!(item.value(&[0; 3]), None);
    }
}

#[test]
fn the_table_is_in_order() {
    assert!(ITEMS.windows(2).all(|two| two[0].address + two[0].size <= two[1].address));
    assert!(item(5).is_some_and(Item::is_kept) && !item(56).unwrap().writable && item(57).is_none());
    assert!(MODELS.iter().all(|model| Model::numbered(model.number) == Model::named(model.name)));
    assert!(CONDITIONS.iter().all(|(bit, name)| condition(*bit) == *name));
    assert_eq!(condition(0x40), "unknown condition");
}

#[test]
fn sync_writes_have_room_for_what_they_say() {
    for len in [1, 2, 7] {
        let mut full = SyncWrite::new(41, len);
        assert!(full.is_empty() && !full.add(1, &vec![0; usize::from(len) + 1]));
        let data = vec![7; usize::from(len)];
        let added = (1..=60).take_while(|id| full.add(*id, &data)).count();
        assert_eq!(added, SyncWrite::room(len));
        assert_eq!(written(&full.packet(), added as u8), Some((41, &data[..])));
    }
}
