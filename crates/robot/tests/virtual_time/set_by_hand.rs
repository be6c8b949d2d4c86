//! Zero, id and watchdog of emulated servos, set by hand: what counts is what the servo reports afterwards.

use khz_emu::{Injection, World};
use khz_file::RobotConfig;
use khz_link::{Capabilities, Counters, Link, LinkError, Received};
use khz_robot::assemble::Links;
use khz_robot::desk::{Answer, Desk, DeskError, DeskServo, Found, Scan, Setting, Wanted};
use khz_wire::damiao::{Access, REGISTERS, Special, register};
use khz_wire::{Frame, Request};
use std::sync::{Arc, Mutex};

const PATIENCE_NS: i64 = 20_000_000;

/// An emulated machine, and what its servos were sent.
struct Bus {
    world: Arc<Mutex<World>>,
    sent: Arc<Mutex<Vec<Frame>>>,
    /// What the servos get in place of a frame.
    instead: fn(Frame) -> Frame,
}

impl Link for Bus {
    fn capabilities(&self) -> Capabilities {
        Link::capabilities(&*self.world.lock().unwrap())
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        self.world.lock().unwrap().begin_cycle(now_ns);
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.sent.lock().unwrap().push(*request.frame);
        let frame = (self.instead)(*request.frame);
        Link::send(&mut *self.world.lock().unwrap(), channel, &Request { frame: &frame, ..*request }, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.world.lock().unwrap().receive(now_ns)
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.world.lock().unwrap().next_event_ns()
    }

    fn counters(&self, channel: u8) -> Counters {
        self.world.lock().unwrap().counters(channel)
    }
}

struct Bench {
    desk: Desk,
    world: Arc<Mutex<World>>,
    sent: Arc<Mutex<Vec<Frame>>>,
}

const DAMIAO: &str = "family = \"damiao\"\ndamiao.model = \"4310\"\n";

impl Bench {
    /// `hip` with id 1, sign −1 and an offset, at 0.5 rad, and `knee` with id 2.
    fn new(hip: &str, knee: &str, instead: fn(Frame) -> Frame) -> Self {
        let text = format!(
            "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"hip\"\nbus = \"main\"\nid = 1\nsign = -1\noffset = 0.3\n{hip}\
             [[servo]]\nname = \"knee\"\nbus = \"main\"\nid = 2\n{knee}"
        );
        let config = RobotConfig::parse(&text, "bench.toml").unwrap();
        let mut world = config.world();
        world.servos[0].joint.start = 0.5;
        let world = Arc::new(Mutex::new(World::new(&world).unwrap()));
        let sent = Arc::<Mutex<Vec<Frame>>>::default();
        let link = Box::new(Bus { world: Arc::clone(&world), sent: Arc::clone(&sent), instead });
        let links = Links { links: vec![link], places: vec![(0, 0)], imu: Vec::new() };
        Self { desk: Desk::of(&config, links), world, sent }
    }

    fn damiao() -> Self {
        Self::new(DAMIAO, DAMIAO, |frame| frame)
    }

    fn hip(&self) -> DeskServo {
        self.desk.servos()[0].clone()
    }

    fn set(&mut self, setting: Setting, store: bool) -> Result<Answer, DeskError> {
        let hip = self.hip();
        self.desk.set(&hip, setting, store, PATIENCE_NS)
    }

    fn refusal(&mut self, setting: Setting, store: bool) -> String {
        self.set(setting, store).unwrap_err().to_string()
    }

    /// Has anything been sent that changes a Damiao?
    fn has_written(&self) -> bool {
        let changes = |frame: &Frame| {
            let special = frame.payload().try_into().ok().and_then(Special::from_bytes);
            let access = Access::parse(frame.payload()).filter(|_| frame.id == REGISTERS);
            special.is_some() || matches!(access, Some((_, Access::Write(..) | Access::Store)))
        };
        self.sent.lock().unwrap().iter().any(changes)
    }

    fn inject(&self, injection: Injection) {
        self.world.lock().unwrap().inject(0, injection, khz_rt::now_ns());
    }
}

#[test]
fn here_is_zero_in_the_servos_coordinates_and_the_joints_offset() {
    for family in [DAMIAO, ""] {
        let mut bench = Bench::new(family, family, |frame| frame);
        let hip = bench.hip();
        let before = bench.desk.exchange(&hip, None, &[], PATIENCE_NS).unwrap().position.unwrap();
        assert!((before - 0.5).abs() < 0.01, "{before}");
        let after = bench.set(Setting::Zero, false).unwrap().position.unwrap();
        assert!((after - 0.3).abs() < 0.01, "{after}");
    }
}

#[test]
fn a_motor_that_takes_no_zero_is_an_error_though_it_answers() {
    let mut bench = Bench::new(DAMIAO, DAMIAO, |frame| {
        let special = frame.payload().try_into().ok().and_then(Special::from_bytes);
        if special == Some(Special::SetZero) { special_frame(frame, Special::Disable) } else { frame }
    });
    let message = bench.refusal(Setting::Zero, false);
    assert!(message.starts_with("hip: it says -0.2") && message.contains("set to 0"), "{message}");
}

fn special_frame(frame: Frame, code: Special) -> Frame {
    Frame::classic(frame.id, &code.to_bytes()).unwrap()
}

#[test]
fn nothing_is_written_to_a_servo_that_is_on() {
    let settings = [Setting::Zero, Setting::Id(3), Setting::Watchdog(0.1), Setting::Register(3, 0.5)];
    for setting in settings {
        let mut bench = Bench::damiao();
        let frame = Frame::classic(1, &Special::Enable.to_bytes()).unwrap();
        bench.desk.send_by(0, &frame, i64::MAX).unwrap();
        bench.desk.receive_until(PATIENCE_NS, |_, _| true);
        bench.sent.lock().unwrap().clear();
        let message = bench.refusal(setting, false);
        assert!(message.starts_with("hip: its output is on (enabled)"), "{message}");
        assert!(!bench.has_written());
    }
    let mut bench = Bench::new("", "", |frame| frame);
    let hip = bench.hip();
    let damp = khz_robot::desk::Order::Damp { kd_scale: 1.0, watchdog_s: f64::NAN };
    bench.desk.exchange(&hip, Some(&damp), &[], PATIENCE_NS).unwrap();
    // Its output takes some milliseconds to come on.
    bench.desk.receive_until(PATIENCE_NS, |_, _| false);
    let message = bench.refusal(Setting::Zero, false);
    assert!(message.starts_with("hip: its output is on ("), "{message}");
}

#[test]
fn an_id_is_taken_with_the_identifier_of_replies_and_kept_if_stored() {
    for store in [false, true] {
        let mut bench = Bench::damiao();
        let after = bench.set(Setting::Id(3), store).unwrap();
        assert_eq!(
            (after.id, after.registers.get(&7), after.registers.get(&8)),
            (3, Some(&19.0), Some(&3.0))
        );
        bench.inject(Injection::Reboot);
        let found = bench.desk.named(if store { "3" } else { "1" }, None, PATIENCE_NS).unwrap();
        assert!(bench.desk.exchange(&found, None, &[], PATIENCE_NS).is_ok(), "{store}");
    }
}

#[test]
fn an_id_that_another_servo_has_or_replies_on_is_refused() {
    for (knee, new, why) in [
        ("", 2, "hip: a servo with id 2 is on the bus already"),
        ("damiao.master_id = 4\n", 4, "servo 2 replies on identifier 4"),
        ("damiao.master_id = 19\n", 3, "servo 2 replies on identifier 19, which id 3 would use"),
        ("", 1, "hip: it has id 1 already"),
        ("", 16, "a Damiao cannot have id 16"),
        ("", 0, "a Damiao cannot have id 0"),
    ] {
        let mut bench = Bench::new(DAMIAO, &format!("{DAMIAO}{knee}"), |frame| frame);
        let message = bench.refusal(Setting::Id(new), true);
        assert!(message.contains(why), "{message}");
        assert!(!bench.has_written());
    }
}

/// What writes this register, reads it.
fn unwritten(frame: Frame, number: u8) -> Frame {
    match Access::parse(frame.payload()).filter(|_| frame.id == REGISTERS) {
        Some((id, Access::Write(register, _))) if register == number => {
            Frame::classic(REGISTERS, &Access::Read(register).to_bytes(id as u8)).unwrap()
        }
        _ => frame,
    }
}

#[test]
fn an_id_that_is_not_taken_is_an_error_that_names_the_old_one() {
    let mut bench = Bench::new(DAMIAO, DAMIAO, |frame| unwritten(frame, register::ID));
    let message = bench.refusal(Setting::Id(3), true);
    assert!(message.starts_with("hip: it still answers to id 1 and not to 3"), "{message}");
}

#[test]
fn a_motor_that_is_gone_with_its_new_id_is_an_error_that_names_both() {
    let mut bench = Bench::new(DAMIAO, DAMIAO, |frame| {
        match Access::parse(frame.payload()).filter(|_| frame.id == REGISTERS) {
            // It takes an id that was not requested.
            Some((id, Access::Write(register::ID, _))) => {
                Frame::classic(REGISTERS, &Access::Write(register::ID, [9, 0, 0, 0]).to_bytes(id as u8))
                    .unwrap()
            }
            _ => frame,
        }
    });
    let message = bench.refusal(Setting::Id(3), false);
    assert!(message.starts_with("hip: it answers neither to id 1 nor to 3"), "{message}");
}

#[test]
fn a_watchdog_is_read_back_and_lost_with_the_power_unless_stored() {
    for store in [false, true] {
        let mut bench = Bench::damiao();
        assert_eq!(bench.set(Setting::Watchdog(0.05), store).unwrap().watchdog_s, Some(0.05));
        bench.inject(Injection::Reboot);
        let hip = bench.hip();
        let wanted = Wanted { number: register::TIMEOUT.into(), format: None };
        let after = bench.desk.exchange(&hip, None, &[wanted], PATIENCE_NS).unwrap();
        assert_eq!(after.watchdog_s, Some(if store { 0.05 } else { 0.0 }));
    }
    let mut bench = Bench::new(DAMIAO, DAMIAO, |frame| unwritten(frame, register::TIMEOUT));
    let message = bench.refusal(Setting::Watchdog(0.05), true);
    assert!(
        message.contains("watchdog (50 µs each) (register 9) is 0 although 1000 was written"),
        "{message}"
    );
    assert!(bench.refusal(Setting::Watchdog(60.0), false).contains("write 0.001 to 30 s, or 0 for none"));
    assert!(bench.refusal(Setting::Watchdog(f64::NAN), false).contains("a watchdog of NaN s"));
}

#[test]
fn a_motor_in_a_fault_that_could_not_store_is_not_changed() {
    let mut bench = Bench::damiao();
    bench.inject(Injection::Fault(0xd));
    let message = bench.refusal(Setting::Watchdog(0.05), true);
    assert!(message.contains("only when it is disabled, and it says \"communication lost\""), "{message}");
    assert!(!bench.has_written());
    // Without storing it can be.
    assert!(bench.set(Setting::Watchdog(0.05), false).is_ok());
}

#[test]
fn a_motor_that_says_nothing_after_it_was_commanded_may_have_taken_it() {
    let mut bench = Bench::new(DAMIAO, DAMIAO, |frame| match Access::parse(frame.payload()) {
        Some((_, Access::Write(..))) => Frame::classic(0x6ff, &[0; 8]).unwrap(),
        _ => frame,
    });
    let message = bench.refusal(Setting::Watchdog(0.05), false);
    assert!(
        message.starts_with("it is not known whether this was set: hip (id 1 on bus main) did not reply"),
        "{message}"
    );
}

#[test]
fn what_a_moteus_does_with_its_own_tool_is_reported_with_the_command() {
    let mut bench = Bench::new("", "", |frame| frame);
    for (setting, store, command) in [
        (Setting::Zero, true, "moteus_tool -t 1 --zero-offset"),
        (Setting::Id(5), false, "conf set id.id 5"),
        (Setting::Watchdog(0.2), false, "conf set servo.default_timeout_s 0.2"),
    ] {
        let message = bench.refusal(setting, store);
        assert!(message.contains(command), "{message}");
    }
    assert!(bench.sent.lock().unwrap().is_empty());
}

#[test]
fn servos_are_named_as_in_the_file_or_by_their_id() {
    let mut bench = Bench::damiao();
    for (word, named) in [("knee", Some("knee")), ("2", Some("knee")), ("7", None), ("elbow", None)] {
        let servo = bench.desk.named(word, None, PATIENCE_NS);
        assert_eq!(servo.as_ref().ok().map(|servo| servo.name.as_str()), named, "{servo:?}");
    }
    let message = bench.desk.named("7", None, PATIENCE_NS).unwrap_err().to_string();
    assert!(message.contains("servo 7 on bus main did not reply; replied: 1, 2"), "{message}");
    let message = bench.desk.named("2", Some(4), PATIENCE_NS).unwrap_err().to_string();
    assert!(message.contains("on which bus is servo 2? There are 1 to 1"), "{message}");
}

#[test]
fn a_motor_as_it_leaves_the_factory_is_named_and_gets_its_identifier_of_replies_with_the_id_it_has() {
    let mut bench = Bench::damiao();
    let hip = bench.hip();
    bench.set(Setting::Register(register::MASTER_ID.into(), 0.0), true).unwrap();
    let scan = Scan { last: 15, timeout_ns: PATIENCE_NS, together: false };
    let found = bench.desk.scan(0, &scan).unwrap();
    let by_hand = |found: &Found| found.family.by_hand().amiss(&found.answer);
    let message = by_hand(&found[0]).unwrap();
    assert!(
        message.contains("identifier 0") && message.contains("khz bus set-id LINK 1 1 --store"),
        "{message}"
    );
    assert_eq!(by_hand(&found[1]), None);
    let after = bench.desk.set(&hip, Setting::Id(1), true, PATIENCE_NS).unwrap();
    assert_eq!((after.id, after.registers.get(&7)), (1, Some(&17.0)));
    let message = bench.refusal(Setting::Id(1), true);
    assert!(message.contains("hip: it has id 1 already"), "{message}");
}

#[test]
fn a_servo_that_does_not_have_the_files_id_is_not_reported_to_have_it() {
    for new in [1, 5] {
        let mut bench = Bench::damiao();
        bench.set(Setting::Id(3), true).unwrap();
        let message = bench.refusal(Setting::Id(new), true);
        let why = "hip: id 1 on bus main was asked and did not reply; replied: 2, 3.";
        assert!(message.starts_with(why), "{message}");
    }
}

const ROBSTRIDE: &str = "family = \"robstride\"\nrobstride.model = \"RS02\"\n";

#[test]
fn a_register_is_written_read_back_and_lost_with_the_power_unless_stored() {
    for (family, number, value) in [(ROBSTRIDE, 0x7029, 0.0), (DAMIAO, 3, 0.5), (DAMIAO, 9, 1000.0)] {
        for store in [false, true] {
            let mut bench = Bench::new(family, family, |frame| frame);
            let hip = bench.hip();
            let before =
                bench.desk.may_set(&hip, Setting::Register(number, value), store, PATIENCE_NS).unwrap();
            let before = before.registers[&number];
            assert_ne!(before, value);
            let after = bench.set(Setting::Register(number, value), store).unwrap();
            assert_eq!(after.registers[&number], value);
            bench.inject(Injection::Reboot);
            let wanted = Wanted { number, format: None };
            let kept = bench.desk.exchange(&hip, None, &[wanted], PATIENCE_NS).unwrap().registers[&number];
            assert_eq!(kept, if store { value } else { before }, "{number} {store}");
        }
    }
}

#[test]
fn a_register_that_is_not_taken_or_not_there_or_sets_the_id_is_an_error() {
    let mut bench = Bench::new(DAMIAO, DAMIAO, |frame| unwritten(frame, register::TIMEOUT));
    let message = bench.refusal(Setting::Register(9, 1000.0), true);
    assert!(message.contains("its register 9 (`TIMEOUT`) is 0 although 1000 was written"), "{message}");
    let mut bench = Bench::new(ROBSTRIDE, ROBSTRIDE, |frame| frame);
    let message = bench.refusal(Setting::Register(0x7999, 1.0), false);
    assert!(message.contains("parameter 0x7999"), "{message}");
    let mut bench = Bench::damiao();
    for (number, value, why) in
        [(8, 5.0, "khz bus set-id"), (3, f64::NAN, "cannot be NaN"), (300, 1.0, "no register 300")]
    {
        let message = bench.refusal(Setting::Register(number, value), false);
        assert!(message.contains(why), "{message}");
    }
    assert!(!bench.has_written());
}
