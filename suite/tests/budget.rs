//! The budget's prediction against emulated devices in virtual time: in the process, and opposite the real links.
//!
//! The bytes are those of the wire, and a pi3hat's SPI takes its time. What the emulation leaves out the prediction
//! leaves out too: USB behind an fdcanusb, and the network before the bus of a UDP gateway.
#![allow(clippy::unwrap_used)]

use khz_emu::hat::Hat;
use khz_link::pi3hat::{Options, Pi3hat};
use khz_measure::budget::{Inputs, Medium, Plan};
use khz_robot::RobotConfig;
use khz_robot::assemble::{self, Links};
use khz_robot::supervisor::Phase;
use khz_robot::time::{Time, VirtualTime};
use khz_suite::rig::replier;
use khz_suite::stands;
use khz_wire::fdcanusb::Dialect;
use khz_wire::time::CanRate;

// The stands watch that links stay off the heap.
#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;

/// Long enough for every cycle here.
const PERIOD_NS: i64 = 10_000_000;

/// The median cycle of a robot on these links.
fn emulated_ns(robot: &RobotConfig, links: Links) -> i64 {
    let mut machine = assemble::put_together(robot, assemble::controller(&robot.controller), links);
    let mut time = VirtualTime::new(0);
    let mut cycles = Vec::new();
    for number in 0..600 {
        time.wait_for_tick(number * PERIOD_NS);
        let timing = machine.tick(&mut time, number * PERIOD_NS, None);
        // In the first ticks the robot only finds its servos.
        if number >= 200 {
            assert_eq!(machine.result().missed, 0, "{} in tick {number}", robot.name);
            cycles.push(timing.collected_ns - timing.started_ns);
        }
    }
    assert_eq!(machine.phase(), Phase::Active);
    cycles.sort_unstable();
    cycles[cycles.len() / 2]
}

/// Slow enough that no deadline cuts a cycle short.
fn slowed(mut robot: RobotConfig) -> RobotConfig {
    (robot.timing.rate_hz, robot.timing.bus_deadline_us) = (100.0, None);
    robot
}

fn assert_met(plan: &Plan, measured_ns: i64) {
    let [predicted_ns, _] = plan.durations_ns();
    let error = predicted_ns as f64 / measured_ns as f64 - 1.0;
    let (name, percent) = (&plan.name, 100.0 * error);
    assert!(
        error.abs() < 0.1,
        "{name}: {predicted_ns} ns predicted, {measured_ns} ns emulated, {percent:+.1} %"
    );
}

fn shipped(name: &str) -> RobotConfig {
    RobotConfig::load(format!("{}/../robots/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn robots_emulated_in_the_process() {
    let rs485 =
        |buses, n, baud| on_buses(&format!("link = \"emulated\"\nwire = \"rs485\"\nbaud = {baud}"), buses, n);
    let robots = [
        RobotConfig::quadruped(),
        shipped("arm"),
        shipped("pan_tilt"),
        rs485(1, 3, 3_000_000),
        rs485(2, 12, 3_000_000),
        rs485(4, 12, 1_000_000),
    ];
    for robot in robots.map(slowed) {
        let links = assemble::open_links(&robot, |world| Box::new(world)).unwrap();
        assert_met(&Plan::of(&robot, Inputs::VIRTUAL), emulated_ns(&robot, links));
    }
}

#[test]
fn a_pi3hat_with_twelve_servos_and_its_imu() {
    let robot = slowed(shipped("published/pi3hat"));
    let hat = Hat::new(robot.emulate().unwrap(), 3);
    let link = Pi3hat::open(hat, &Options::default(), replier, -100_000_000).unwrap();
    // The file's buses are JC1 to JC4.
    let places = (0..4).map(|channel| (0, channel)).collect();
    let links = Links { links: vec![Box::new(link)], places, imu: vec![0] };
    assert_met(&Plan::of(&robot, Inputs::VIRTUAL), emulated_ns(&robot, links));
}

/// Servos 1 to `n`, dealt round to buses of this link.
fn on_buses(link: &str, buses: u8, n: u8) -> RobotConfig {
    let buses_text: String = (0..buses).map(|bus| format!("[bus.b{bus}]\n{link}\n")).collect();
    let servo = |id| format!("[[servo]]\nname = \"s{id}\"\nbus = \"b{}\"\nid = {id}\n", (id - 1) % buses);
    let servos: String = (1..=n).map(servo).collect();
    let text = format!("[robot]\nname = \"{n} servos\"\n{buses_text}{servos}");
    slowed(RobotConfig::parse(&text, "test.toml").unwrap())
}

fn one_bus(link: &str, n: u8) -> RobotConfig {
    on_buses(link, 1, n)
}

fn on(stand: &mut dyn khz_suite::rig::Stand) -> Links {
    Links { links: vec![stand.link()], places: vec![(0, 0)], imu: Vec::new() }
}

#[test]
fn an_fdcanusb() {
    for n in [1, 4, 8] {
        let robot = one_bus("link = \"fdcanusb\"\npath = \"unused\"", n);
        let mut stand = stands::fdcanusb(Dialect::Adapter)(n);
        let inputs = Inputs { adapter_ns: 0, ..Inputs::VIRTUAL };
        assert_met(&Plan::of(&robot, inputs), emulated_ns(&robot, on(&mut *stand)));
    }
}

#[test]
fn a_udp_gateway_to_a_bus() {
    for n in [1, 4, 8] {
        let robot = one_bus("link = \"udp\"\naddress = \"127.0.0.1:1\"", n);
        let mut stand = stands::udp(true)(n);
        let mut plan = Plan::of(&robot, Inputs::VIRTUAL);
        plan.lines[0].medium = Medium::Can(CanRate::MOTEUS, true);
        assert_met(&plan, emulated_ns(&robot, on(&mut *stand)));
    }
}

#[test]
fn socketcan() {
    for n in [1, 4, 8] {
        let robot = one_bus("link = \"socketcan\"\ninterface = \"unused\"", n);
        let mut stand = stands::socketcan(n);
        assert_met(&Plan::of(&robot, Inputs::VIRTUAL), emulated_ns(&robot, on(&mut *stand)));
    }
}

#[test]
fn an_rs485_line() {
    for n in [1, 4, 8] {
        let robot = one_bus("link = \"rs485\"\npath = \"unused\"", n);
        let mut stand = stands::rs485_line(n);
        assert_met(&Plan::of(&robot, Inputs::VIRTUAL), emulated_ns(&robot, on(&mut *stand)));
    }
}
