//! The text console, through frames.

use crate::common::{Bench, hex};

/// Sends a line and reads everything the console then has, by plain polls.
fn type_in(bench: &mut Bench, line: &str) -> String {
    String::from_utf8_lossy(&type_bytes(bench, line.as_bytes())).into_owned()
}

fn type_bytes(bench: &mut Bench, line: &[u8]) -> Vec<u8> {
    for part in line.chunks(61) {
        bench.command(&format!("4001{:02x}{}", part.len(), hex(part)));
    }
    read(bench)
}

fn read(bench: &mut Bench) -> Vec<u8> {
    let mut text = Vec::new();
    loop {
        bench.send(1, true, "42013d");
        let received = bench.next().unwrap();
        let payload = received.frame.payload();
        assert_eq!(payload[..2], [0x41, 1]);
        match usize::from(payload[2]) {
            0 => return text,
            count => text.extend_from_slice(&payload[3..3 + count]),
        }
    }
}

#[test]
fn lines_and_their_answers() {
    let mut bench = Bench::servo(&[]);
    for (line, answer) in [
        ("nonsense\n", "ERR unknown command\r\n"),
        ("\r\n\r\n", ""),
        ("tel stop\r\n", "OK\r\n"),
        ("tel stop\ntel stop\n", "OK\r\nOK\r\n"),
        ("tel nonsense\n", "ERR unknown subcommand\r\n"),
        ("tel get nothing\n", "ERR unknown name\r\n"),
        (
            "tel list\n",
            "system_info\r\nfirmware\r\nmotor_position\r\nservo_stats\r\nservo_cmd\r\nservo_control\r\ngit\r\nOK\r\n",
        ),
        ("tel fmt git 1\n", "OK\r\n"),
        (
            "conf list\n",
            "uuid\r\nclock\r\naux1\r\naux2\r\nmotor_position\r\nmotor\r\nservo\r\nservopos\r\nid\r\ncan\r\nOK\r\n",
        ),
        ("conf nonsense\n", "ERR unknown subcommand\r\n"),
        ("conf get id.id\n", "1\r\n"),
        ("conf get id.nothing\n", "ERR error reading\r\n"),
        ("conf get nothing.x\n", "ERR unknown group\r\n"),
        ("conf set servo.max_velocity 12.5\n", "OK\r\n"),
        ("conf get servo.max_velocity\n", "12.5\r\n"),
        ("conf set servo.nothing 1\n", "ERR error setting\r\n"),
        ("conf set nothing.x 1\n", "ERR unknown group\r\n"),
        ("conf enumerate servopos\n", "servopos.position_min nan\r\nservopos.position_max nan\r\nOK\r\n"),
        ("conf enumerate nothing\n", "ERR unknown group\r\n"),
        ("conf schema nothing\n", "ERR unknown name\r\n"),
        ("conf data id\n", "cdata id\r\n\u{1}\0\0\0\u{1}"),
        ("clock trim\n", "0\r\n"),
        ("clock trim 3\n", "OK\r\n"),
        ("clock trim\n", "3\r\n"),
        ("clock nonsense\n", "ERR unknown clock\r\n"),
        ("conf set aux1.pins.2.mode 15\n", "OK\r\n"),
        ("aux1 out 5\n", "OK\r\n"),
        ("aux2 pwm 0 0.5\n", "OK\r\n"),
        ("aux1 ic-cmd 1\n", "ERR no iC-PZ setup\r\n"),
        ("aux1 nonsense\n", "ERR unknown aux cmd\r\n"),
        ("d nonsense\n", "ERR unknown command\r\n"),
        ("d pos 0 0\n", "ERR missing p/v/i\r\n"),
        ("d pos 0 0 1 x3\n", "ERR unknown option\r\n"),
        ("d within 0 1\n", "ERR missing min/max/t\r\n"),
        ("d within 0 1 1 s3\n", "ERR unknown option\r\n"),
        ("d index\n", "ERR missing index value\r\n"),
        ("d dq 1\n", "ERR missing d/q current\r\n"),
        ("d exact 2\n", "OK\r\n"),
    ] {
        assert_eq!(type_in(&mut bench, line), answer, "{line:?}");
    }
    assert_eq!(bench.ask("115c"), "215c04", "pin 0 is no output");
    assert_eq!(bench.float(0x07b), 0.5);
    assert_eq!(bench.float(0x001), 2.0);
}

#[test]
fn commands_by_text() {
    for (line, mode) in [
        ("d pos nan 0 1\n", 10),
        ("d pos 0 0 1 p0.5 d0.5 i1 f0.1 t5 a2 v1 b1\n", 10),
        ("d tmt nan 0 1\n", 11),
        ("d zero nan 0 1\n", 12),
        ("d within -1 1 2 f0\n", 13),
        ("d brake\n", 15),
        ("d dq 0 1\n", 9),
        ("d vdq 0 1\n", 8),
        ("d v 0 0 0\n", 6),
        ("d raw 0 0 0\n", 5),
        ("d pwm 0 0.1 1\n", 7),
    ] {
        let mut bench = Bench::servo(&[]);
        assert_eq!(type_in(&mut bench, line), "OK\r\n");
        bench.wait_ms(500);
        assert_eq!(bench.state(), (mode, 0), "{line:?}: no watchdog by default");
        assert_eq!(type_in(&mut bench, "d stop\n"), "OK\r\n");
        assert_eq!(bench.state().0, 0);
    }
    let mut bench = Bench::servo(&[]);
    type_in(&mut bench, "d pos nan 0 1 t0.05\n");
    bench.wait_ms(100);
    assert_eq!(bench.state().0, 11);
}

#[test]
fn saved_settings_survive_a_reboot_and_others_do_not() {
    let mut bench = Bench::servo(&[]);
    type_in(&mut bench, "conf set servo.max_velocity 11\n");
    assert_eq!(type_in(&mut bench, "conf write\n"), "OK\r\n");
    type_in(&mut bench, "conf set servo.max_velocity 12\n");
    assert_eq!(type_in(&mut bench, "conf load\n"), "OK\r\n");
    assert_eq!(type_in(&mut bench, "conf get servo.max_velocity\n"), "11\r\n");
    type_in(&mut bench, "conf set servo.max_velocity 12\n");
    assert_eq!(type_in(&mut bench, "d reset\n"), "", "a reset says nothing");
    assert_eq!(type_in(&mut bench, "conf get servo.max_velocity\n"), "11\r\n");
    assert_eq!(type_in(&mut bench, "conf default\n"), "OK\r\n");
    assert_eq!(type_in(&mut bench, "conf get servo.max_velocity\n"), "500\r\n");
    assert!(type_in(&mut bench, "conf enumerate uuid\n").starts_with("uuid.uuid.0 1\r\nuuid.uuid.1 0\r\n"));
    let size = type_in(&mut bench, "conf size\n");
    assert!(size.ends_with("\r\nOK\r\n") && size.split('\r').next().unwrap().parse::<u32>().is_ok());
}

#[test]
fn changing_the_geometry_of_a_running_motor_faults() {
    let mut bench = Bench::servo(&[]);
    type_in(&mut bench, "d pos nan 0 1\n");
    bench.wait_ms(20);
    type_in(&mut bench, "conf set servo.max_velocity 12\n");
    assert_eq!(bench.state(), (10, 0));
    type_in(&mut bench, "conf set motor_position.rotor_to_output_ratio 0.5\n");
    assert_eq!(bench.state(), (1, 41));
}

#[test]
fn lines_too_long_are_ignored_whole() {
    let mut bench = Bench::servo(&[]);
    let mut long = vec![b'x'; 99];
    long.push(b'\n');
    assert_eq!(type_bytes(&mut bench, &long), b"ERR unknown command\r\n");
    let mut longer = vec![b'x'; 100];
    longer.extend_from_slice(b"\n");
    assert_eq!(type_bytes(&mut bench, &longer), b"");
    assert_eq!(type_in(&mut bench, "tel stop\n"), "OK\r\n");
    let mut endless = vec![b'x'; 120];
    endless.extend_from_slice(b"\ntel stop\n");
    for part in [&endless[..60], &endless[60..120], &endless[120..]] {
        bench.command(&format!("4001{:02x}{}", part.len(), hex(part)));
    }
    assert_eq!(read(&mut bench), b"OK\r\n");
}

#[test]
fn the_next_line_waits_until_the_answer_is_fetched() {
    let mut bench = Bench::servo(&[]);
    // "tel stop" answered, "d exact 2" not yet carried out.
    bench.command("40010974656c2073746f700a");
    bench.command("40010a6420657861637420320a");
    assert_eq!(bench.float(0x001), 0.0);
    assert_eq!(bench.ask("420101"), "4101014f");
    assert_eq!(bench.float(0x001), 0.0);
    assert_eq!(bench.ask("42013d"), "4101034b0d0a");
    assert_eq!(bench.float(0x001), 2.0);
    assert_eq!(bench.ask("42013d"), "4101044f4b0d0a");
}

#[test]
fn flow_control_repeats_until_acknowledged() {
    let mut bench = Bench::servo(&[]);
    bench.command("40010974656c2073746f700a");
    assert_eq!(bench.ask("44010001"), "430101014f");
    assert_eq!(bench.ask("4401003d"), "430101014f", "not acknowledged: the same again");
    assert_eq!(bench.ask("4401013d"), "430102034b0d0a");
    assert_eq!(bench.ask("4401023d"), "43010300");
}

#[test]
fn an_unacknowledged_answer_is_discarded_after_a_second() {
    let mut bench = Bench::servo(&[]);
    bench.command("40010974656c2073746f700a");
    assert_eq!(bench.ask("4401003d"), "430101044f4b0d0a");
    bench.wait_ms(500);
    assert_eq!(bench.ask("4401003d"), "430101044f4b0d0a");
    bench.wait_ms(1100);
    assert_eq!(bench.ask("4401003d"), "43010200");
}

#[test]
fn channels_two_and_three_are_there_and_four_is_not() {
    let mut bench = Bench::servo(&[]);
    assert_eq!(bench.ask("42023d 1100"), "410200210000");
    assert_eq!(bench.ask("42033d"), "410300");
    assert_eq!(bench.ask("42043d 1100"), "");
}

#[test]
fn telemetry_comes_at_its_rate_in_both_forms() {
    let mut bench = Bench::servo(&[]);
    assert_eq!(type_in(&mut bench, "tel fmt system_info 1\n"), "OK\r\n");
    let text = type_in(&mut bench, "tel get system_info\n");
    assert!(text.contains("system_info.ms_count 2147183648\r\n") && text.ends_with("OK\r\n"), "{text}");
    assert_eq!(type_in(&mut bench, "tel rate system_info 100\n").matches("ms_count").count(), 1);
    let mut seen = 0;
    for _ in 0..100 {
        bench.wait_ms(10);
        seen += String::from_utf8_lossy(&read(&mut bench)).matches("ms_count").count();
    }
    assert!((9..=10).contains(&seen), "{seen}");
    assert_eq!(type_in(&mut bench, "tel stop\n"), "OK\r\n");
    bench.wait_ms(500);
    assert_eq!(read(&mut bench), b"");
    // Binary: a header, a size, and so many bytes.
    type_in(&mut bench, "tel fmt system_info 0\n");
    let blob = type_bytes(&mut bench, b"tel get system_info\n");
    let header = b"emit system_info\r\n";
    assert_eq!(&blob[..header.len()], header);
    assert_eq!(blob[header.len()..header.len() + 4], 24_u32.to_le_bytes());
    assert_eq!(blob.len(), header.len() + 4 + 24);
}

#[test]
fn the_worked_transcript_of_a_stop() {
    // moteus_tool -s over a pty, as recorded from the official client.
    let mut bench = Bench::servo(&[]);
    bench.command("400107642073746f700a5050");
    assert_eq!(bench.ask("44010001"), "430101014f");
    assert_eq!(bench.ask("4401013d"), "430102034b0d0a");
}
