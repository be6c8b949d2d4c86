//! Servos by hand, emulated.

use khz_file::RobotConfig;
use khz_robot::desk::{Desk, DeskError, Order, Scan, Wanted};

const SECOND_NS: i64 = 1_000_000_000;

fn desk(wire: &str) -> Desk {
    let bus = format!("[bus.main]\nlink = \"emulated\"\nwire = \"{wire}\"\n");
    let servo = |id: u8| format!("[[servo]]\nname = \"servo_{id}\"\nbus = \"main\"\nid = {id}\nsign = -1\n");
    let text = bus + &[1, 2, 20].map(servo).concat();
    Desk::connect(&RobotConfig::parse(&text, "desk.toml").unwrap()).unwrap()
}

fn ids(desk: &mut Desk, last: u8, together: bool) -> Vec<u8> {
    let scan = Scan { last, timeout_ns: SECOND_NS / 5, together };
    desk.scan(0, &scan).unwrap().iter().map(|found| found.answer.id).collect()
}

#[test]
fn a_scan_finds_every_servo_one_by_one_and_together() {
    let mut desk = desk("can_fd");
    assert_eq!(ids(&mut desk, 20, false), [1, 2, 20]);
    assert_eq!(ids(&mut desk, 16, false), [1, 2]);
    assert_eq!(ids(&mut desk, u8::MAX, true), [1, 2, 20]);
}

#[test]
fn a_scan_of_a_half_duplex_bus_asks_one_by_one() {
    assert_eq!(ids(&mut desk("rs485"), 2, true), [1, 2]);
}

#[test]
fn what_is_found_says_who_it_is() {
    let found = desk("can_fd").scan(0, &Scan { last: 1, timeout_ns: SECOND_NS, together: false }).unwrap();
    let [found] = &found[..] else { panic!("{found:?}") };
    let who = &found.answer.identity;
    assert!(
        who.firmware.is_some() && who.map == Some(5) && who.serial.is_some() && who.uuid.is_some(),
        "{who:?}"
    );
    assert_eq!(found.answer.mode.map(|mode| mode.name), Some("stopped"));
    assert!(found.round_trip_ns > 0);
}

#[test]
fn commands_and_registers_are_answered() {
    let mut desk = desk("instant");
    let servo = desk.servos()[0].clone();
    let damp = Order::Damp { kd_scale: 1.0, watchdog_s: f64::NAN };
    desk.exchange(&servo, Some(&damp), &[], SECOND_NS).unwrap();
    let number = servo.register("clock trim").unwrap();
    let wanted = Wanted { number, format: None };
    desk.write(&servo, &wanted, 5.0, SECOND_NS).unwrap();
    let answer = desk.exchange(&servo, None, &[wanted], SECOND_NS).unwrap();
    // Its output takes some milliseconds to come on.
    assert_ne!(answer.mode.map(|mode| mode.name), Some("stopped"));
    assert_eq!(answer.registers.get(&number), Some(&5.0));
    assert!(servo.register("elbow").unwrap_err().to_string().contains("no register is called `elbow`"));
}

#[test]
fn a_servo_that_is_not_there_is_an_error_with_its_name() {
    let mut desk = desk("instant");
    let mut absent = desk.servos()[1].clone();
    absent.servo.id = 7;
    let error = desk.exchange(&absent, None, &[], 20_000_000).unwrap_err();
    assert!(matches!(error, DeskError::NoReply { .. }));
    let message = "servo_2 (id 7 on bus main) did not reply within 0.02 s: is it powered, is the id right?";
    assert_eq!(error.to_string(), message);
}
