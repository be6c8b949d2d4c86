//! Packets of Dynamixel servos as three clients wrote and took them, and what damage costs.

use crate::common::{bytes, text, vectors};
use khz_wire::Frame;
use khz_wire::dynamixel::{
    self, BROADCAST, Decoder, FastStatus, HARDWARE_ERRORS, ITEMS, MAX_PACKET, MODELS, Model, Status,
    SyncWrite, address, asked, clear_turns, encode, error, factory_reset, hardware_error, instruction, item,
    item_named, packet, parts, ping, place, read, reboot, reset, sync_read, wire_len, write, written,
};
use serde_json::Value as Json;

/// All frames of a stream, given in pieces of so many bytes.
fn decoded(asked: Option<&Frame>, stream: &[u8], piece: usize) -> (Vec<Frame>, Decoder) {
    let mut decoder = Decoder::new();
    asked.iter().for_each(|asked| decoder.expect(asked));
    let mut frames = Vec::new();
    for mut piece in stream.chunks(piece.max(1)) {
        while let Some(frame) = decoder.next(&mut piece) {
            frames.push(frame);
        }
    }
    (frames, decoder)
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut out = [0; MAX_PACKET];
    let len = encode(frame, &mut out).unwrap();
    assert_eq!(wire_len(frame), len);
    out[..len].to_vec()
}

/// A fast status as its servos write it.
fn fast(request: &Frame, statuses: &[Status<'_>]) -> Vec<u8> {
    let mut out = [0; 1024];
    let (mut writer, mut len) = FastStatus::begin(request, &mut out).unwrap();
    for status in statuses {
        len += writer.add(status, &mut out[len..]).unwrap();
    }
    out[..len].to_vec()
}

fn request_of(vector: &Json) -> Frame {
    let (frames, decoder) = decoded(None, &bytes(&vector["request"]), 7);
    assert_eq!((frames.len(), decoder.corrupt(), decoder.discarded()), (1, 0, 0), "{vector}");
    frames[0]
}

#[test]
fn requests_have_the_bytes_of_their_clients() {
    for vector in vectors("dynamixel.json") {
        let request = request_of(&vector);
        if vector["unstuffed"] != true {
            assert_eq!(encoded(&request), bytes(&vector["request"]), "{vector}");
        }
    }
}

#[test]
fn replies_are_understood_and_written_as_the_same_bytes() {
    let mut blocks = 0;
    for vector in vectors("dynamixel.json") {
        let request = request_of(&vector);
        for reply in vector["replies"].as_array().unwrap() {
            let reply = bytes(reply);
            let (frames, decoder) = decoded(Some(&request), &reply, 3);
            assert_eq!((decoder.corrupt(), decoder.discarded()), (0, 0), "{vector}");
            let statuses: Vec<_> = frames.iter().map(|frame| Status::parse(frame).unwrap()).collect();
            if place(&frames[0]).is_none() {
                assert_eq!((frames.len(), encoded(&statuses[0].packet().unwrap())), (1, reply), "{vector}");
                continue;
            }
            assert_eq!(fast(&request, &statuses), reply, "{vector}");
            assert_eq!(frames.iter().map(wire_len).sum::<usize>(), reply.len());
            for (index, (frame, status)) in (0..).zip(frames.iter().zip(&statuses)) {
                assert_eq!((Some(*frame), place(frame)), (status.block(index), Some(index)));
            }
            blocks += frames.len();
        }
    }
    assert_eq!(blocks, 33);
}

/// The vector of a client's call.
fn of(call: &str) -> Json {
    vectors("dynamixel.json")
        .into_iter()
        .find(|vector| text(&vector["of"]) == call)
        .unwrap_or_else(|| panic!("{call}"))
}

#[test]
fn what_we_ask_is_what_clients_ask() {
    let mut torque = SyncWrite::new(address::TORQUE_ENABLE, 1);
    (1..=6).for_each(|id| assert!(torque.add(id, &[1])));
    for (call, ours) in [
        ("ping(1)", ping(1)),
        ("broadcastPing()", ping(BROADCAST)),
        ("read4ByteTxRx(1,132)", read(1, address::PRESENT_POSITION, 4)),
        ("write2ByteTxRx(1,102,-200): goal current", write(1, 102, &(-200_i16).to_le_bytes()).unwrap()),
        ("GroupSyncRead(126,10): 1..6", sync_read(126, 10, &[1, 2, 3, 4, 5, 6], false).unwrap()),
        ("fastSyncRead(126,10): 1..6", sync_read(126, 10, &[1, 2, 3, 4, 5, 6], true).unwrap()),
        ("reboot(1)", reboot(1)),
        ("factoryReset(1,0x01)", factory_reset(1, reset::BUT_ID)),
        ("clearMultiTurn(1)", clear_turns(1)),
        ("torque on 1..6", torque.packet()),
    ] {
        assert_eq!(encoded(&ours), bytes(&of(call)["request"]), "{call}");
    }
}

#[test]
fn what_is_asked_and_written_is_found() {
    let mixed = request_of(&of("fastBulkRead (3,132,4)(7,124,2)(4,146,1) (manual example)"));
    let of_mixed: Vec<_> = asked(&mixed).map(|one| (one.id, one.address, one.len)).collect();
    assert_eq!(of_mixed, [(3, 132, 4), (7, 124, 2), (4, 146, 1)]);
    let sync = request_of(&of("GroupSyncWrite(116,4): 1=150, 2=170"));
    assert_eq!(
        [1, 2, 3].map(|id| written(&sync, id)),
        [Some((116, &[150, 0, 0, 0][..])), Some((116, &[170, 0, 0, 0][..])), None]
    );
    let bulk = request_of(&of("GroupBulkWrite (1,32,[a0,00])(2,31,[50])"));
    assert_eq!((written(&bulk, 1), written(&bulk, 2)), (Some((32, &[0xa0, 0][..])), Some((31, &[0x50][..]))));
    assert_eq!((asked(&sync).count(), written(&mixed, 3)), (0, None));
}

#[test]
fn check_value_of_the_crc() {
    assert_eq!(dynamixel::crc16(0, b"123456789"), 0xfee8);
    assert_eq!(dynamixel::crc16(dynamixel::crc16(0, b"1234"), b"56789"), 0xfee8);
}

/// xorshift64*, so that a failure is the same everywhere.
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    }
}

#[test]
fn whatever_is_sent_is_received() {
    let mut random = Random(3);
    for round in 0..20_000 {
        // Mostly what has to be stuffed.
        let byte = |random: &mut Random| [0xff, 0xff, 0xfd, random.byte()][usize::from(random.byte() % 4)];
        let payload: Vec<u8> = (0..round % 65).map(|_| byte(&mut random)).collect();
        let sent = packet(random.byte() % 253, random.byte() | 1, &payload).unwrap();
        if place(&sent).is_some() {
            continue;
        }
        let (received, decoder) = decoded(None, &encoded(&sent), 1 + round % 9);
        assert_eq!((&received[..], decoder.discarded()), (&[sent][..], 0));
    }
    assert_eq!(packet(1, 3, &[0; 65]), None);
}

/// Positions of six servos.
const DATA: [[u8; 4]; 6] =
    [[1, 8, 0, 0], [2, 8, 0, 0], [0xff, 0xff, 0xfd, 0], [4, 8, 0, 0], [5, 8, 0, 0], [6, 8, 0, 0]];
const IDS: [u8; 6] = [1, 2, 3, 4, 5, 6];

fn statuses() -> Vec<Status<'static>> {
    IDS.iter().zip(&DATA).map(|(&id, data)| Status { id, alert: false, error: 0, data }).collect()
}

/// Whose answers are found in a stream, after a silence at its end.
fn found(request: &Frame, stream: &[u8]) -> (Vec<u8>, Decoder) {
    let (mut frames, mut decoder) = decoded(Some(request), stream, 5);
    while decoder.give_up() {
        while let Some(frame) = decoder.next(&mut &[][..]) {
            frames.push(frame);
        }
    }
    let right = |frame: &Frame| {
        Status::parse(frame).filter(|status| statuses().contains(status)).map(|status| status.id)
    };
    (frames.iter().map(|frame| right(frame).unwrap_or_else(|| panic!("{frame:?}"))).collect(), decoder)
}

#[test]
fn a_flipped_bit_costs_one_status() {
    let request = sync_read(132, 4, &IDS, false).unwrap();
    let packets: Vec<_> = statuses().iter().map(|status| encoded(&status.packet().unwrap())).collect();
    let stream = packets.concat();
    assert_eq!(found(&request, &stream).0, IDS);
    for bit in 0..8 * stream.len() {
        let mut damaged = stream.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (ids, decoder) = found(&request, &damaged);
        assert_eq!(ids.len(), 5, "bit {bit}: {ids:?}");
        assert!(decoder.corrupt() + decoder.discarded() > 0);
    }
}

#[test]
fn a_flipped_bit_costs_one_block() {
    let request = sync_read(132, 4, &IDS, true).unwrap();
    let stream = fast(&request, &statuses());
    assert_eq!(found(&request, &stream).0, IDS);
    for bit in 0..8 * stream.len() {
        let mut damaged = stream.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (ids, decoder) = found(&request, &damaged);
        // By lead-in, id and instruction the packet is known; its length is known anyway.
        let least = match bit / 8 {
            0..=4 | 7 => 0,
            5..=6 => 6,
            _ => 5,
        };
        assert!(ids.len() == least, "bit {bit}: {ids:?}");
        assert!(least == 6 || decoder.corrupt() + decoder.discarded() > 0);
    }
}

#[test]
fn a_truncation_costs_what_is_missing() {
    let sync = sync_read(132, 4, &IDS, false).unwrap();
    let packets: Vec<_> = statuses().iter().map(|status| encoded(&status.packet().unwrap())).collect();
    let fast_read = sync_read(132, 4, &IDS, true).unwrap();
    let fast = fast(&fast_read, &statuses());
    let last = encoded(&statuses()[5].packet().unwrap());
    for len in 0..=packets.concat().len() {
        let mut stream = packets.concat()[..len].to_vec();
        let ends = packets.iter().scan(0, |end, packet| {
            *end += packet.len();
            Some(*end)
        });
        let whole = ends.filter(|end| *end <= len).count();
        assert_eq!(found(&sync, &stream).0, IDS[..whole]);
        // What comes behind it is found, too.
        stream.extend(&last);
        assert_eq!(found(&sync, &stream).0, [&IDS[..whole], &[6]].concat());
    }
    for len in 0..=fast.len() {
        let whole = len.saturating_sub(8) / 8;
        assert_eq!(found(&fast_read, &fast[..len]).0, IDS[..whole], "{len}");
        // The next answer, after a servo that sent nothing.
        let (mut frames, mut decoder) = decoded(Some(&fast_read), &fast[..len], 4);
        decoder.expect(&fast_read);
        let mut rest = &fast[..];
        while let Some(frame) = decoder.next(&mut rest) {
            frames.push(frame);
        }
        // A header cut short may take the next for its length.
        assert!(frames.len() == whole + 6 || len < 8, "{len}: {}", frames.len());
    }
}

#[test]
fn what_others_say_is_no_status() {
    // Another host's write to twenty servos is longer than our frames.
    let (mut long, mut crc_at) =
        (vec![0xff, 0xff, 0xfd, 0x00, 0xfe, 0, 0, instruction::SYNC_WRITE, 116, 0, 4, 0], 0);
    (1..=20).for_each(|id| long.extend([id, 0, 8, 0, 0]));
    crc_at += long.len();
    let len = (crc_at - 7 + 2) as u16;
    long[5..7].copy_from_slice(&len.to_le_bytes());
    let crc = dynamixel::crc16(0, &long);
    long.extend(crc.to_le_bytes());
    let status = encoded(&statuses()[0].packet().unwrap());
    let (frames, decoder) = decoded(None, &[long, status].concat(), 11);
    assert_eq!((frames.len(), decoder.corrupt()), (1, 1));
    assert_eq!(Status::parse(&ping(1)), None);
    let mut short = Frame::new(0x5501, &[0]).unwrap();
    short.extended = false;
    assert_eq!(parts(&short), None);
    // A fast status that comes unasked.
    let request = sync_read(132, 4, &IDS, true).unwrap();
    let (frames, _) = decoded(None, &fast(&request, &statuses()), 9);
    assert!(frames.iter().all(|frame| Status::parse(frame).is_none()));
}

#[test]
fn sync_writes_have_room_for_what_they_say() {
    for len in [1, 4, 6] {
        let mut full = SyncWrite::new(208, len);
        assert!(full.is_empty() && !full.add(1, &vec![0; usize::from(len) + 1]));
        let data = vec![7; usize::from(len)];
        let added = (1..=60).take_while(|id| full.add(*id, &data)).count();
        assert_eq!(added, SyncWrite::room(len));
        assert_eq!(written(&full.packet(), added as u8), Some((208, &data[..])));
    }
}

#[test]
fn the_table_is_in_order_and_named_as_clients_do() {
    assert!(ITEMS.windows(2).all(|two| two[0].address + u16::from(two[0].size) <= two[1].address));
    for (name, address) in
        [("Goal_Position", 116), ("present_temperature", 146), ("PWM_Limit", 36), ("led", 65)]
    {
        assert_eq!(item_named(name).map(|item| item.address), Some(address), "{name}");
    }
    let current = item(126).unwrap();
    assert_eq!(current.name, "present_current");
    assert_eq!((current.value(&[0xfb, 0xff]), current.writable, current.is_kept()), (Some(-5), false, false));
    assert!(item(7).unwrap().is_kept() && item(64).unwrap().writable && item(127).is_none());
    assert_eq!(current.value(&[1, 2, 3]), None);
}

#[test]
fn models_and_errors_have_names() {
    assert!(MODELS.iter().all(|model| Model::numbered(model.number) == Model::named(model.name)));
    let small = Model::named("XL330-M288").unwrap();
    assert_eq!([45, 46].map(|firmware| small.is_fast(firmware)), [false, true]);
    assert!(!Model::named("2XL430-W250").unwrap().is_fast(255));
    assert!(HARDWARE_ERRORS.iter().all(|(bit, name)| hardware_error(*bit) == *name));
    assert_eq!(
        (error::name(0x87), hardware_error(0x40)),
        (error::name(error::ACCESS), "unknown hardware error")
    );
}
