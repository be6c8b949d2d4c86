//! Damiao servos by hand, emulated: an order is carried out whole, or the motor is off.

use khz_emu::{FamilyConfig, World};
use khz_file::RobotConfig;
use khz_link::{Capabilities, Counters, Imu, Link, LinkError, Received};
use khz_loop::{Doing, PositionCommand};
use khz_robot::assemble::Links;
use khz_robot::desk::{Desk, DeskError, Order};
use khz_wire::Request;
use khz_wire::damiao::Special;
use std::sync::{Arc, Mutex};

const PATIENCE_NS: i64 = 20_000_000;

/// What the motor does, and the special codes it was sent.
#[derive(Default)]
struct Seen {
    codes: Vec<Special>,
    doing: Option<Doing>,
}

/// An emulated bus on which no reply arrives any more once the motor was sent the command to switch on.
struct Cut {
    world: World,
    cuts: bool,
    is_cut: bool,
    seen: Arc<Mutex<Seen>>,
}

impl Link for Cut {
    fn capabilities(&self) -> Capabilities {
        Link::capabilities(&self.world)
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        self.world.begin_cycle(now_ns);
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        if let Some(code) = request.frame.payload().try_into().ok().and_then(Special::from_bytes) {
            self.seen.lock().unwrap().codes.push(code);
            self.is_cut |= self.cuts && code == Special::Enable;
        }
        Link::send(&mut self.world, channel, request, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.world.receive(now_ns);
        self.seen.lock().unwrap().doing = Some(self.world.servos()[0].doing());
        received.map(|received| received.filter(|_| !self.is_cut))
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.world.next_event_ns()
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        None
    }

    fn counters(&self, channel: u8) -> Counters {
        self.world.counters(channel)
    }
}

fn desk(ranges: [f64; 3], cuts: bool) -> (Desk, Arc<Mutex<Seen>>) {
    let text = "[bus.main]\nlink = \"emulated\"\n\
                [[servo]]\nname = \"hip\"\nbus = \"main\"\nid = 1\nfamily = \"damiao\"\n\
                damiao = { model = \"4310\", kp = 20, kd = 1 }\n";
    let config = RobotConfig::parse(text, "test").unwrap();
    let mut world = config.world();
    if let FamilyConfig::Damiao(motor) = &mut world.servos[0].family {
        motor.ranges = ranges;
    }
    let seen = Arc::<Mutex<Seen>>::default();
    let world = World::new(&world).unwrap();
    let link = Box::new(Cut { world, cuts, is_cut: false, seen: Arc::clone(&seen) });
    (Desk::of(&config, Links { links: vec![link], places: vec![(0, 0)], imu: Vec::new() }), seen)
}

fn hold(desk: &mut Desk) -> Result<Option<f64>, DeskError> {
    let servo = desk.servos()[0].clone();
    let order = Order::Position { command: PositionCommand::hold(0.1), watchdog_s: f64::NAN };
    desk.exchange(&servo, Some(&order), &[], PATIENCE_NS).map(|answer| answer.position)
}

#[test]
fn an_order_by_hand_is_carried_out() {
    let (mut desk, seen) = desk([12.5, 30.0, 10.0], false);
    hold(&mut desk).unwrap();
    assert_eq!(seen.lock().unwrap().doing, Some(Doing::Following));
}

#[test]
fn an_order_by_hand_to_a_motor_with_another_range_is_refused_and_leaves_it_off() {
    let (mut desk, seen) = desk([50.0, 120.0, 200.0], false);
    let error = hold(&mut desk).unwrap_err();
    assert!(matches!(error, DeskError::Wrong { .. }), "{error}");
    assert!(error.to_string().starts_with("hip: its range (register 21) is 50 rad"), "{error}");
    while desk.receive().is_some() {}
    let seen = seen.lock().unwrap();
    assert_eq!(seen.doing, Some(Doing::Off));
    assert!(!seen.codes.contains(&Special::Enable));
}

#[test]
fn an_order_by_hand_that_fails_on_its_way_leaves_the_motor_off() {
    let (mut desk, seen) = desk([12.5, 30.0, 10.0], true);
    assert!(matches!(hold(&mut desk), Err(DeskError::NoReply { .. })));
    desk.receive_until(PATIENCE_NS, |_, _| false);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.codes[seen.codes.len() - 3..], [Special::Disable; 3]);
    assert_eq!(seen.doing, Some(Doing::Off));
}
