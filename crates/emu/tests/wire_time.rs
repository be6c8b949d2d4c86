//! When replies arrive, on each kind of wire.

use crate::common::Bench;
use khz_emu::{BusConfig, WireKind};
use khz_link::{Link, LinkError};
use khz_servo::moteus::{self, Format, QueryFormat, Settings};
use khz_servo::{Mounting, PositionCommand, ServoCommand, ServoPlan, Servos};
use khz_wire::time::{CanBits, CanFormat, CanRate, Stuffing, UartRate};
use khz_wire::{Address, Frame, Mode};
use std::f64::consts::TAU;

const QUERY: &str = "11001f01130d";

#[test]
fn a_can_reply_is_there_exactly_when_its_last_bit_is() {
    let mut bench = Bench::new(BusConfig::CAN_FD, 1);
    let sent_ns = bench.now_ns;
    bench.send(1, true, QUERY);
    let mut request = Frame::new(Address::to(1, true).id(), &crate::common::bytes(QUERY)).unwrap();
    request.pad();
    let received = bench.next().unwrap();
    let rate = CanRate::MOTEUS;
    let expected_ns = sent_ns + rate.frame_ns(&request) + 75_000 + rate.frame_ns(&received.frame);
    assert_eq!(received.at_ns, expected_ns);
    assert_eq!(bench.now_ns, expected_ns, "next_event_ns is the exact time");
    assert_eq!(received.frame.id, 0x100);
    assert!(!received.frame.extended);
}

#[test]
fn nothing_comes_a_nanosecond_early() {
    let mut bench = Bench::new(BusConfig::CAN_FD, 1);
    bench.send(1, true, QUERY);
    let due_ns = {
        let mut twin = Bench::new(BusConfig::CAN_FD, 1);
        twin.send(1, true, QUERY);
        twin.next().unwrap().at_ns
    };
    assert_eq!(bench.world.receive(due_ns - 1), Ok(None));
    assert!(bench.world.receive(due_ns).unwrap().is_some());
}

#[test]
fn a_reply_with_a_lower_identifier_overtakes_queued_requests() {
    // 0x100 (11 bits) against 0x8003 (29 bits, first 11 bits 0): the request wins, and so 3 is asked before
    // 1 may answer; with prefix 1 the request's first bits are 000 0000 0100 = 0x004, still lower.
    let mut bench = Bench::new(BusConfig::CAN_FD, 3);
    for id in 1..=3 {
        bench.send(id, true, QUERY);
    }
    let order: Vec<u32> = (0..3).map(|_| bench.next().unwrap().frame.id).collect();
    assert_eq!(order, [0x100, 0x200, 0x300]);
    let busy_ns = bench.world.busy_ns(0);
    assert!(bench.now_ns - 5_000_000_000 <= busy_ns + 75_000, "the bus idles for one turnaround at most");
}

#[test]
fn serial_frames_take_ten_bits_a_byte_and_carry_no_padding() {
    let mut bench = Bench::new(BusConfig::RS485, 1);
    let sent_ns = bench.now_ns;
    let request = Frame::new(Address::to(1, true).id(), &crate::common::bytes(QUERY)).unwrap();
    bench.world.send(0, &request, bench.now_ns).unwrap();
    let received = bench.next().unwrap();
    let line = UartRate::eight_n_one(3_000_000);
    assert_eq!(received.frame.payload().len(), 22);
    assert_eq!(received.at_ns, sent_ns + line.bytes_ns(13) + 75_000 + line.bytes_ns(29));
}

/// As mjlib's `MicroServer`: it has no reply to put the values into, and takes the arguments of reads for subframes.
#[test]
fn a_serial_servo_executes_the_reads_of_a_request_that_comes_before_it_has_replied() {
    // Register 1 as int8; then a write of ten values that are not there. From its second byte on: write mode = 10.
    const READ: &str = "1101000a";
    let mut bench = Bench::new(BusConfig::RS485, 1);
    bench.send(1, true, READ);
    bench.wait_ms(1);
    assert_eq!((bench.received().len(), bench.state().0), (1, 0));
    bench.send(1, true, READ);
    bench.send(1, true, READ);
    bench.wait_ms(20);
    assert_eq!((bench.received().len(), bench.state().0), (1, 10));
}

/// What a loop asks in a cycle, asked again before the reply is there, again and again: the servo goes on as it is commanded.
#[test]
fn a_serial_servo_takes_no_harm_of_misreading_what_a_loop_asks() {
    let mixed = QueryFormat {
        position: Format::Int8,
        velocity: Format::None,
        torque: Format::Int8,
        voltage: Format::Float,
        temperature: Format::Float,
    };
    for query in [QueryFormat::default(), mixed] {
        // Both requests are there before it replies.
        let mut bench = Bench::new(BusConfig { turnaround_ns: 200_000, ..BusConfig::RS485 }, 1);
        let settings = Settings { query, ..Settings::default() };
        let mut asking = moteus::Bus::default();
        let plan = ServoPlan {
            servo: 0,
            id: 1,
            mounting: Mounting::default(),
            watchdog_s: f64::NAN,
            family: &settings,
        };
        asking.add(&plan);
        let command = PositionCommand { max_torque: 1.0, ..PositionCommand::hold(0.25 * TAU) };
        for cycle in 0..2000 {
            asking.begin(&[ServoCommand::Position(command)]);
            let frame = *asking.request(0, 0).unwrap().frame;
            (0..2).for_each(|_| bench.world.send(0, &frame, bench.now_ns).unwrap());
            asking.sent(0, 0, bench.now_ns);
            bench.wait_ms(1);
            let mode = bench.world.moteus(0).unwrap().status().mode;
            assert!(cycle < 20 || mode == Mode::Position, "{mode:?} after {frame:02x?}");
        }
        assert_eq!(bench.received().len(), 1024, "one reply a cycle, and no room for more");
        bench.wait_ms(1);
        let kept = [0x020, 0x025, 0x05c, 0x05d, 0x071].map(|register| bench.float(register));
        assert_eq!(kept, [0.25, 1.0, 0.0, 0.0, 0.0]);
    }
}

#[test]
fn two_who_talk_at_once_on_rs485_destroy_both_frames() {
    let mut bench = Bench::new(BusConfig::RS485, 2);
    // The second query ends before the first reply starts, but that reply takes longer than the second
    // servo's turnaround.
    bench.send(1, true, QUERY);
    bench.send(2, true, QUERY);
    bench.wait_ms(10);
    assert_eq!(bench.received().len(), 0);
    assert_eq!(bench.world.counters(0).corrupt, 2);

    bench.send(0x7f, true, QUERY);
    bench.wait_ms(10);
    assert_eq!(bench.received().len(), 0);
    assert_eq!(bench.world.counters(0).corrupt, 4);

    bench.send(2, true, QUERY);
    assert_eq!(bench.next().unwrap().frame.id, 0x200);
}

#[test]
fn an_instant_wire_answers_in_the_same_call() {
    let mut bench = Bench::new(BusConfig::INSTANT, 3);
    for id in 1..=3 {
        bench.send(id, true, QUERY);
    }
    let received = bench.received();
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|r| r.at_ns == bench.now_ns));
}

#[test]
fn a_full_host_queue_says_so() {
    let bus = BusConfig { host_queue: 2, ..BusConfig::CAN_FD };
    let mut bench = Bench::new(bus, 1);
    let frame = Frame::new(0x8001, &[0x50]).unwrap();
    // The first goes on the wire at once and so leaves the queue.
    for _ in 0..3 {
        bench.world.send(0, &frame, bench.now_ns).unwrap();
    }
    assert_eq!(bench.world.send(0, &frame, bench.now_ns), Err(LinkError::Full));
    assert_eq!(bench.world.counters(0).full, 1);
    assert_eq!(bench.world.send(1, &frame, bench.now_ns), Err(LinkError::Unsupported));
}

#[test]
fn slower_rates_take_longer() {
    let slow = WireKind::CanFd { nominal_bps: 500_000, data_bps: 1_000_000 };
    let time = |wire| {
        let mut bench = Bench::new(BusConfig { wire, ..BusConfig::CAN_FD }, 1);
        bench.send(1, true, QUERY);
        bench.next().unwrap().at_ns
    };
    assert!(time(slow) > time(BusConfig::CAN_FD.wire));
}

#[test]
fn who_sleeps_until_the_next_event_wakes_up_at_most_twice_for_a_reply() {
    for bus in [BusConfig::CAN_FD, BusConfig { turnaround_ns: 300_000, ..BusConfig::CAN_FD }] {
        let mut bench = Bench::new(bus, 6);
        for id in 1..=6 {
            bench.send(id, true, QUERY);
        }
        bench.send(1, false, "010000");
        let (mut replies, mut wakes) = (0, 0);
        while let Some(next_ns) = bench.world.next_event_ns() {
            assert!(next_ns > bench.now_ns, "asleep until a time that has passed");
            wakes += 1;
            bench.now_ns = next_ns;
            replies += bench.received().len();
        }
        assert_eq!(replies, 6);
        assert!(wakes <= 12, "{wakes} wakes for 6 replies");
    }
}

#[test]
fn classic_frames_of_servos_have_their_bits() {
    let hex = |hex: &str| -> [u8; 8] { crate::common::bytes(hex).try_into().unwrap() };
    let short = |id, payload| Frame::classic(id, &hex(payload)).unwrap();
    let long = |id, payload| Frame::extended(id, hex(payload));
    // With intermission, stuff bits and CRC computed by another program.
    for (what, frame, bits) in [
        ("RobStride, command of nothing", long(0x017f_ff01, "7fff7fff00000000"), 148),
        ("RobStride, command", long(0x017f_ff01, "85167fff051e3333"), 141),
        ("RobStride, state", long(0x0280_01ff, "7fff7fff7fff00fb"), 145),
        ("RobStride, enable", long(0x0300_ff01, "0000000000000000"), 148),
        ("Damiao, command of nothing", short(1, "7fff7ff0000007ff"), 126),
        ("Damiao, command", short(1, "851e7ff0281997ff"), 120),
        ("Damiao, state", short(0x11, "117fff7ff7ff1e1f"), 121),
        ("Damiao, enable", short(1, "fffffffffffffffc"), 125),
        ("Damiao, register read", short(0x7ff, "0100330a00000000"), 125),
        ("CubeMars, command of nothing", short(1, "8000800000000800"), 125),
    ] {
        assert_eq!(CanBits::of(&frame).with_intermission(), CanBits { nominal: bits, data: 0 }, "{what}");
    }
    for (extended, len, least, worst) in [(false, 8, 111, 135), (true, 8, 131, 160), (false, 6, 95, 115)] {
        let format = CanFormat { extended, fd: false, brs: false };
        let bits = |stuffing| CanBits::for_length(format, len, stuffing).with_intermission().nominal;
        assert_eq!((bits(Stuffing::Least), bits(Stuffing::Worst)), (least, worst));
    }
}
