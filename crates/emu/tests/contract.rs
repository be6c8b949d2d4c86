//! What always holds: the same inputs give the same bytes, no input does harm, no call touches the heap.

use crate::common::{Bench, MS};
use khz_emu::{BusConfig, ImuConfig, ServoConfig, World, WorldConfig};
use khz_link::Link;
use khz_rt::alloc_trap::forbid;
use khz_wire::{Address, Frame, Subframe, Subframes};
use proptest::prelude::*;

/// Four CAN-FD buses of three servos, and an IMU.
fn quadruped(seed: u64) -> World {
    let servos = (1..=12).map(|id| ServoConfig::new(usize::from(id - 1) / 3, id)).collect();
    let config =
        WorldConfig { buses: vec![BusConfig::CAN_FD; 4], servos, imu: Some(ImuConfig::default()), seed };
    World::new(&config).unwrap()
}

/// One cycle: every servo commanded and queried, the IMU read; everything that came, as text.
fn cycle(world: &mut World, start_ns: i64, lines: &mut Vec<String>) {
    let payload = crate::common::bytes("01000a 0e20 0000803e 0000803f 11001f01130d");
    for id in 1..=12 {
        let mut frame = Frame::new(Address::to(id, true).id(), &payload).unwrap();
        frame.pad();
        world.send((id - 1) / 3, &frame, start_ns).unwrap();
    }
    world.imu().unwrap().request(start_ns).unwrap();
    for now_ns in (start_ns..start_ns + MS).step_by(10_000) {
        while let Some(received) = world.receive(now_ns).unwrap() {
            lines.push(format!("{received:?}"));
        }
        if let Some(sample) = world.imu().unwrap().poll(now_ns).unwrap() {
            lines.push(format!("{sample:?}"));
        }
    }
}

fn lines(seed: u64) -> Vec<String> {
    let (mut world, mut lines) = (quadruped(seed), Vec::new());
    for n in 0..50 {
        cycle(&mut world, n * MS, &mut lines);
    }
    lines
}

#[test]
fn equal_seeds_and_inputs_give_equal_bytes() {
    let first = lines(7);
    assert_eq!(first.len(), 50 * 13);
    assert_eq!(first, lines(7));
    assert_ne!(first, lines(8), "the IMU's noise differs");
}

#[test]
fn how_often_it_is_called_makes_no_difference() {
    let ends = [1_000, 77_777, 10_000_000].map(|step_ns| {
        let mut bench = Bench::new(BusConfig::CAN_FD, 1);
        bench.command("01000a 0e20 0000803e 0000803f 0d270000c07f");
        let end_ns = bench.now_ns + 200 * MS;
        while bench.now_ns < end_ns {
            bench.now_ns = (bench.now_ns + step_ns).min(end_ns);
            bench.world.advance(bench.now_ns);
        }
        bench.send(1, true, "1c0401");
        bench.next().unwrap().frame
    });
    assert!(ends.iter().all(|frame| *frame == ends[0]), "{ends:?}");
}

#[test]
fn the_tick_does_not_touch_the_heap() {
    let mut world = quadruped(1);
    let payload = crate::common::bytes("01000a 0e20 0000803e 0000803f 11001f01130d");
    let frames: Vec<Frame> =
        (1..=12).map(|id| Frame::new(Address::to(id, true).id(), &payload).unwrap()).collect();
    let (replies, heap) = forbid(|| {
        let mut replies = 0;
        for n in 0..100 {
            for (id, frame) in frames.iter().enumerate() {
                world.send(id as u8 / 3, frame, n * MS).unwrap();
            }
            world.imu().unwrap().request(n * MS).unwrap();
            while world.receive((n + 1) * MS - 1).unwrap().is_some() {
                replies += 1;
            }
            world.imu().unwrap().poll((n + 1) * MS - 1).unwrap();
        }
        replies
    });
    assert_eq!(replies, 1200);
    heap.assert_untouched();
}

#[test]
fn the_console_does_not_touch_the_heap_either() {
    let mut bench = Bench::servo(&[]);
    for line in
        ["tel schema servo_stats\n", "conf enumerate\n", "tel get servo_stats\n", "conf schema servo\n"]
    {
        let write = format!("4001{:02x}{}", line.len(), crate::common::hex(line.as_bytes()));
        let write = Frame::new(Address::to(1, false).id(), &crate::common::bytes(&write)).unwrap();
        let poll = Frame::new(Address::to(1, true).id(), &crate::common::bytes("42013d")).unwrap();
        let now_ns = bench.now_ns;
        let world = &mut bench.world;
        let (bytes, heap) = forbid(|| {
            world.send(0, &write, now_ns).unwrap();
            let mut bytes = 0;
            loop {
                world.send(0, &poll, now_ns).unwrap();
                let count = world.receive(now_ns).unwrap().map_or(0, |r| r.frame.payload()[2]);
                if count == 0 {
                    return bytes;
                }
                bytes += usize::from(count);
            }
        });
        assert!(bytes > 200, "{line}");
        heap.assert_untouched();
    }
}

#[test]
fn the_imu_takes_its_time_and_can_be_lost() {
    let mut world = quadruped(3);
    let imu = world.imu().unwrap();
    assert_eq!(imu.poll(0), Ok(None), "nothing was asked for");
    imu.request(1000).unwrap();
    assert_eq!(imu.poll(40_999), Ok(None));
    let sample = imu.poll(41_000).unwrap().unwrap();
    assert_eq!(sample.at_ns, 41_000);
    let norm: f64 = sample.attitude.iter().map(|v| v * v).sum();
    assert!((norm - 1.0).abs() < 1e-12 && sample.attitude[0] > 0.999);
    assert_eq!(imu.poll(50_000), Ok(None), "one reading per request");
    world.lose_imu(true);
    assert!(world.imu().unwrap().request(60_000).is_err());
    assert!(World::new(&WorldConfig::default()).unwrap().imu().is_none());
}

#[test]
fn what_cannot_be_built_says_why() {
    let servo = ServoConfig::new(0, 1);
    for (bus, servo, why) in [
        (
            BusConfig::CAN_FD,
            ServoConfig { bus: 3, ..servo.clone() },
            "servo 0: bus 3 does not exist; there are 1",
        ),
        (BusConfig::CAN_FD, ServoConfig { id: 0, ..servo.clone() }, "servo 0: id 0 is not between 1 and 126"),
        (
            BusConfig::CAN_FD,
            ServoConfig { id: 127, ..servo.clone() },
            "servo 0: id 127 is not between 1 and 126",
        ),
        (BusConfig::CAN_FD, servo.clone().with("servo.no", 1), "servo 0: no setting is called \"servo.no\""),
        (
            BusConfig {
                wire: khz_emu::WireKind::Rs485 { baud: 0, packets: Default::default() },
                ..BusConfig::RS485
            },
            servo.clone(),
            "bus 0: the bit rate must be more than 0",
        ),
    ] {
        let config = WorldConfig { buses: vec![bus], servos: vec![servo], ..WorldConfig::default() };
        assert_eq!(World::new(&config).err().map(|error| error.to_string()).as_deref(), Some(why));
    }
}

/// Payloads of any bytes, and payloads that look like requests.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop::sample::select(vec![
        0x00_u8, 0x01, 0x05, 0x0d, 0x0e, 0x10, 0x11, 0x14, 0x1d, 0x40, 0x42, 0x44, 0x50, 0x60,
    ]);
    let likely = prop::collection::vec((opcode, 0_u8..0x50, any::<[u8; 4]>()), 0..10).prop_map(|parts| {
        parts.iter().flat_map(|(op, reg, data)| [&[*op, *reg][..], data].concat()).collect()
    });
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=64),
        likely.prop_map(|mut bytes: Vec<u8>| {
            bytes.truncate(64);
            bytes
        })
    ]
}

/// What a servo may send: whole sub-frames of the device, nothing else.
fn is_reply(frame: &Frame) -> bool {
    Subframes::new(frame.payload()).all(|subframe| {
        matches!(
            subframe,
            Ok(Subframe::Reply(_)
                | Subframe::WriteError(_)
                | Subframe::ReadError(_)
                | Subframe::StreamToHost(_)
                | Subframe::FlowToHost(..)
                | Subframe::Nop)
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_frame_does_harm(
        frames in prop::collection::vec((0..1_u32 << 29, any::<bool>(), payload(), 0..3_000_000_i64), 1..30),
        serial in any::<bool>(),
    ) {
        let bus = if serial { BusConfig::RS485 } else { BusConfig::CAN_FD };
        let mut bench = Bench::new(bus, 2);
        for (id, to_servo, payload, wait_ns) in frames {
            let id = if to_servo { 0x8001 } else { id };
            let frame = Frame::new(id, &payload).unwrap();
            let _ = bench.world.send(0, &frame, bench.now_ns);
            bench.now_ns += wait_ns;
            for received in bench.received() {
                prop_assert!(is_reply(&received.frame), "{:?}", received.frame);
                prop_assert!(!Address::from_id(received.frame.id).reply);
            }
        }
        // Whatever happened, a stop works and the servo then answers as ever.
        bench.wait_ms(50);
        bench.received();
        bench.send(1, true, "010000");
        bench.next();
        bench.send(1, true, "1100");
        let reply = bench.next();
        prop_assert_eq!(reply.map(|r| crate::common::hex(&r.frame.payload()[..3])), Some("210000".into()));
        let joint = bench.world.body().joints()[0];
        prop_assert!(joint.position.is_finite() && joint.velocity.is_finite());
    }
}
