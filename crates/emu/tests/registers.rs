//! Frames in, frames out: every register and encoding, as tables of payloads in hex.

use crate::common::{Bench, bytes};
use khz_emu::BusConfig;
use khz_link::Link;
use khz_wire::register::{Access, MAP};
use khz_wire::{Address, Class, Frame};

#[track_caller]
fn table(bench: &mut Bench, rows: &[(&str, &str)]) {
    for (request, reply) in rows {
        let reply: String = reply.split_whitespace().collect();
        assert_eq!(bench.ask(request), reply, "request {request}");
    }
}

#[test]
fn the_default_query_of_a_servo_at_rest() {
    let mut bench = Bench::servo(&[]);
    // Stopped, 0 rev, 0 rev/s, 0 N·m, 24 V (0.5 V per step), 25 °C, no fault.
    let floats = "00000000 00000000 00000000";
    table(&mut bench, &[("11001f01130d", &format!("210000 2f01 {floats} 230d 30 19 00"))]);
    table(&mut bench, &[("140400130d", "240400 0000 0000 0000 0000 230d 30 19 00")]);
}

#[test]
fn identity() {
    let mut bench = Bench::servo(&[]);
    // UUID "\x01\x00lohertz-emu\0\0\0"; the serial number is its first twelve bytes.
    table(
        &mut bench,
        &[
            ("1804d00211d802", "2804d002 01006c6f 68657274 7a2d656d 75000000 21d80201"),
            ("198002", "298002 00000000"),
            ("198102", "298102 00010100"),
            ("198202", "298202 05000000"),
            ("1ba002", "2ba002 01006c6f 68657274 7a2d656d"),
            // A 32-bit word in another type, a register that is not there, one that is only written.
            ("11d002", "31d00201"),
            ("1d8002", "31800201"),
            ("119102", "31910201"),
            ("119002", "31900201"),
            ("11b002", "31b00201"),
            ("11d402", "31d40201"),
        ],
    );
}

#[test]
fn writes_that_are_refused() {
    table(
        &mut Bench::servo(&[]),
        &[
            // Mode 16, mode −1; a read-only register; the multiplex id; nothing there.
            ("010010", "300001"),
            ("0100ff", "300001"),
            ("010105", "300102"),
            ("01900205", "30900202"),
            ("019f0205", "309f0201"),
            // Errors do not stop what follows.
            ("010105 01100a 1110", "300102 21100a"),
        ],
    );
}

#[test]
fn command_registers_read_back_and_a_mode_resets_them() {
    let mut bench = Bench::servo(&[]);
    table(
        &mut bench,
        &[
            ("0520c409 1520", "2520c409"),
            ("0d220000003f 1d22 1d42", "2d220000003f 2d420000003f"),
            // A mode write puts all defaults back: 0 rev, 0 rev/s, 0 N·m, 1, 1, 100 N·m, no stop position.
            ("010000 1c0720", "2c0720 00000000 00000000 00000000 0000803f 0000803f 0000c842 0000c07f"),
            // Timeout 0, velocity and acceleration limit NaN, no fixed voltage, ilimit 1, no fixed current.
            ("1c0627", "2c0627 00000000 0000c07f 0000c07f 0000c07f 0000803f 0000c07f"),
            ("112d", "212d00"),
            ("012d05 112d 1148", "212d01 214801"),
            // NaN in every integer type.
            ("112a 152a 192a", "212a80 252a0080 292a00000080"),
        ],
    );
}

#[test]
fn gpio_writes_change_only_digital_outputs() {
    // Pin 0 an output, pin 1 as delivered, pin 2 an input with a pull-up, pin 3 another output.
    let pins = [("aux1.pins.0.mode", "15"), ("aux1.pins.2.mode", "14"), ("aux1.pins.2.pull", "1")];
    let mut bench = Bench::servo(&[&pins[..], &[("aux1.pins.3.mode", "15")]].concat());
    table(
        &mut bench,
        &[
            ("115c 115e", "215c04 215e04"),
            ("015c0f 115c 115e", "215c0d 215e0d"),
            ("015c02 115e", "215e04"),
            // No pin of the other connector is an output.
            ("015d1f 115d 115f", "215d00 215f00"),
        ],
    );
    let mut factory = Bench::servo(&[]);
    table(&mut factory, &[("025c0301 125e", "225e0000")]);
}

#[test]
fn a_duty_cycle_stays_within_its_range() {
    let mut bench = Bench::servo(&[]);
    table(&mut bench, &[("0d760000c03f 1d76", "2d760000803f"), ("0d77000080bf 1d77", "2d7700000000")]);
}

#[test]
fn auxiliary_ports_and_clock() {
    let mut bench = Bench::servo(&[]);
    table(
        &mut bench,
        &[
            ("0676ff3fff7f 1676", "2676ff3fff7f"),
            ("0971feffffff 1971", "2971feffffff"),
            ("017164 1171", "217108"),
            ("1172 1173", "217200 217380"),
            // 2³¹ − 300 000 ms, in each type; the float counts modulo 2²³.
            ("1970", "2970206cfb7f"),
            ("1170 1570 1d70", "217020 2570206c 2d7040d8f64a"),
        ],
    );
    bench.wait_ms(1000);
    table(&mut bench, &[("1970", "29700870fb7f")]);
}

#[test]
fn every_register_of_the_map_answers_as_it_should() {
    let mut bench = Bench::servo(&[]);
    for entry in MAP {
        for number in entry.first.0..=entry.last.0 {
            for (kind, size) in [(0x11, 1), (0x15, 2), (0x19, 4), (0x1d, 4)] {
                let payload: Vec<u8> = std::iter::once(kind).chain(crate::common::varuint(number)).collect();
                let reply = bench.ask(&crate::common::hex(&payload));
                let readable = !matches!(entry.access, Access::Write | Access::Reserved)
                    && (entry.class != Class::Word || kind == 0x19);
                let head = if readable { kind + 0x10 } else { 0x31 };
                assert_eq!(bytes(&reply)[0], head, "{} {number:#x} as type {kind:#x}", entry.name);
                if readable {
                    assert!(bytes(&reply).len() <= payload.len() + size);
                }
            }
        }
    }
}

#[test]
fn only_the_one_addressed_answers() {
    let mut bench = Bench::new(BusConfig::INSTANT, 3);
    let ids = |bench: &mut Bench| -> Vec<u32> {
        bench.received().iter().map(|received| received.frame.id).collect()
    };
    bench.send(2, true, "1100");
    assert_eq!(ids(&mut bench), [0x200]);
    bench.send(0x7f, true, "1100");
    assert_eq!(ids(&mut bench), [0x100, 0x200, 0x300]);
    bench.send(9, true, "1100");
    bench.send(1, false, "1100");
    assert!(ids(&mut bench).is_empty());
    // Full UUID and its first word; the source of the request is the destination of the reply.
    let frame = Address { source: 0x7d, ..Address::to(0x7f, true) };
    bench.send_frame(Frame::new(frame.id(), &bytes("09d402 03006c6f 1100")).unwrap());
    assert_eq!(ids(&mut bench), [0x37d]);
    bench.send(0x7f, true, "0804d402 02006c6f 68657274 7a2d656d 75000000 1100");
    assert_eq!(ids(&mut bench), [0x200]);
    bench.send(0x7f, true, "0804d402 02006c6f 68657274 7a2d656d 75000001 1100");
    assert!(ids(&mut bench).is_empty());
    // Another prefix.
    let other = Address { prefix: 0x12, ..Address::to(1, true) };
    bench.send_frame(Frame::new(other.id(), &bytes("1100")).unwrap());
    assert!(ids(&mut bench).is_empty());
    assert_eq!(bench.world.counters(0).received, 6);
}

#[test]
fn set_output_moves_the_coordinate() {
    let mut bench = Bench::servo(&[("motor_position.rotor_to_output_ratio", "0.125")]);
    // Exact, then nearest: turns of the rotor are an eighth of a revolution.
    table(&mut bench, &[("110c", "210c01")]);
    bench.command("0db1020000003f");
    assert_eq!(bench.float(0x001), 0.5);
    table(&mut bench, &[("110c", "210c02")]);
    bench.command("0db002cdcc4c3f");
    assert_eq!(bench.float(0x001), 0.75, "0.8 lies nearest to 0.75 among 0.5 + n/8");
    bench.command("01b20201");
    assert_eq!(bench.float(0x001), 0.0);
    table(&mut bench, &[("110c", "210c00"), ("01b30201", "")]);
}
