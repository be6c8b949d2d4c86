//! The budget's prediction against emulated devices in virtual time: in the process, and opposite the real links.
//!
//! The bytes are those of the wire, and a pi3hat's SPI takes its time. What the emulation leaves out the prediction
//! leaves out too: USB behind an fdcanusb, and the network before the bus of a UDP gateway.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use khz_budget::{Inputs, TickPlan};
use khz_emu::hat::Hat;
use khz_emu::{Injection, World};
use khz_file::RobotConfig;
use khz_file::config::{FamilyName, in_file, usual_servo};
use khz_link::Link;
use khz_link::pi3hat::{Options, Pi3hat};
use khz_loop::Doing;
use khz_loop::supervisor::Phase;
use khz_loop::time::{Time, VirtualTime};
use khz_robot::assemble::{self, Links};
use khz_suite::rig::replier;
use khz_suite::stands;
use khz_wire::fdcanusb::Dialect;
use khz_wire::slcan::Answers;
use khz_wire::time::EthernetRate;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

// The stands watch that links stay off the heap.
#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;

/// Long enough for every cycle here, and no part of what servos send by themselves: their frames come at any time of a cycle.
const PERIOD_NS: i64 = 10_070_000;

/// Bus cycles, ns: usual ones, from the shortest to the longest, and the longest under control and before.
#[derive(Clone, Copy, Debug)]
struct Cycles {
    usual_ns: [i64; 2],
    longest_ns: i64,
    before_ns: i64,
}

/// Which part of them are usual: where every second cycle has a frame more than the others, the median is as good as any of both.
const USUAL: [f64; 2] = [0.45, 0.55];

/// The cycles of a robot on these links.
fn emulated_ns(robot: &RobotConfig, links: Links) -> Cycles {
    median_and_longest(robot, vec![run_ns(robot, links, 0)])
}

/// The same emulated in the process. What servos send by themselves comes at any time of a cycle, and of all of them at once.
fn in_process_ns(robot: &RobotConfig) -> Cycles {
    let servos = || robot.servos.iter();
    let speaks = servos().any(|servo| servo.family().settings().by_itself(servo.id).is_some());
    let phases = if speaks { 40 } else { 1_i64 };
    let run = |phase| {
        let links = assemble::open_links(robot, |world| Box::new(restarted(world))).unwrap();
        run_ns(robot, links, phase * 500_000)
    };
    median_and_longest(robot, (0..phases).map(run).collect())
}

/// The cycles under control, and the longest before; the first begins so long after all servos are ready.
fn run_ns(robot: &RobotConfig, links: Links, after_ns: i64) -> (Vec<i64>, i64) {
    let mut machine = assemble::put_together(robot, assemble::controller(&robot.controller), links);
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time).unwrap();
    let from_ns = time.now_ns() + after_ns;
    let (mut cycles, mut before_ns) = (Vec::new(), 0);
    for number in 0..400 {
        let planned_ns = from_ns + number * PERIOD_NS;
        time.wait_for_tick(planned_ns);
        let is_on = machine.state().servos.iter().all(|servo| servo.doing == Doing::Following);
        let timing = machine.tick(&mut time, planned_ns, None);
        assert_eq!(machine.result().missed, 0, "{} in tick {number}", robot.name);
        match timing.controlled {
            // What the prediction states that it does not count.
            true if is_slow_on(robot) && !is_on => {}
            true => cycles.push(timing.collected_ns - timing.started_ns),
            false => before_ns = (timing.collected_ns - timing.started_ns).max(before_ns),
        }
    }
    assert_eq!(machine.phase(), Phase::Active);
    (cycles, before_ns)
}

/// Its servos take longer than a cycle to answer that they are on.
fn is_slow_on(robot: &RobotConfig) -> bool {
    robot.servos.iter().any(|servo| matches!(servo.family, FamilyName::Robstride | FamilyName::RobstrideMit))
}

fn median_and_longest(robot: &RobotConfig, runs: Vec<(Vec<i64>, i64)>) -> Cycles {
    let before_ns = runs.iter().map(|(_, before_ns)| *before_ns).max().unwrap();
    let mut cycles: Vec<_> = runs.into_iter().flat_map(|(cycles, _)| cycles).collect();
    cycles.sort_unstable();
    let longest_ns = cycles[cycles.len() - 1];
    // Of cycles in which such servos are switched on it is unknown what they take without that answer: most of their frames are those
    // of before control.
    let longest_ns = if is_slow_on(robot) { longest_ns.max(before_ns) } else { longest_ns };
    let usual_ns = USUAL.map(|share| cycles[(cycles.len() as f64 * share) as usize]);
    Cycles { usual_ns, longest_ns, before_ns }
}

/// The machine after the power of all its servos was switched on at once, so that what they send by themselves they send together.
fn restarted(mut world: World) -> World {
    (0..world.servos().len()).for_each(|servo| world.inject(servo, Injection::Reboot, -2_000_000_000));
    world
}

/// Slow enough that no deadline cuts a cycle short.
fn slowed(mut robot: RobotConfig) -> RobotConfig {
    (robot.timing.rate_hz, robot.timing.bus_deadline_us) = (100.0, None);
    robot
}

/// What `khz check` and `khz budget` say of a robot's cycles is within 5 % of what they are in virtual time. Prints a row of a table.
fn assert_met(what: &str, plan: &TickPlan, measured: Cycles) {
    let prediction = plan.predict();
    let predicted_ns = [prediction.cycle_ns, prediction.longest_cycle_ns, prediction.start_cycle_ns];
    let Cycles { usual_ns: [least_ns, most_ns], longest_ns, before_ns } = measured;
    let measured_ns = [predicted_ns[0].clamp(least_ns, most_ns), longest_ns, before_ns];
    let mut row = format!("| {what} |");
    for (predicted_ns, measured_ns) in predicted_ns.into_iter().zip(measured_ns) {
        let [predicted, measured] = [predicted_ns, measured_ns].map(|ns| ns as f64 / 1e3);
        row += &format!(" {predicted:.0} | {measured:.0} | {:+.1} % |", 100.0 * (predicted / measured - 1.0));
    }
    println!("{row}");
    for (predicted_ns, measured_ns) in predicted_ns.into_iter().zip(measured_ns) {
        let error = predicted_ns as f64 / measured_ns as f64 - 1.0;
        assert!(error.abs() < 0.05, "predicted, measured, error; usual, longest, before control: {row}");
    }
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
        shipped("arm_rmd"),
        shipped("legs_odrive"),
        shipped("koch"),
        shipped("so101"),
        shipped("mixed_arm"),
        rs485(1, 3, 3_000_000),
        rs485(2, 12, 3_000_000),
        rs485(4, 12, 1_000_000),
    ];
    // The answers to one question are delayed together: three of them take no three delays.
    let delayed = ["koch", "so101"].map(|name| {
        let mut robot = shipped(name);
        robot.buses[0].faults.delay_us = 300.0;
        robot
    });
    for robot in robots.into_iter().chain(delayed).map(slowed) {
        assert_met(&robot.name, &TickPlan::of(&robot, Inputs::VIRTUAL), in_process_ns(&robot));
    }
}

/// A machine that reports how long its first bus was in use.
struct Watched {
    world: World,
    busy_ns: Arc<AtomicI64>,
}

impl Link for Watched {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, next_event_ns, imu, counters, send, receive);

    fn begin_cycle(&mut self, now_ns: i64) {
        self.world.begin_cycle(now_ns);
        self.busy_ns.store(self.world.busy_ns(0), Ordering::Relaxed);
    }
}

#[test]
fn ten_servos_of_three_families_load_their_bus_as_predicted() {
    const TICKS: i64 = 500;
    let robot = shipped("mixed_arm");
    let busy_ns = Arc::<AtomicI64>::default();
    let link = Watched { world: robot.emulate().unwrap(), busy_ns: Arc::clone(&busy_ns) };
    let mut machine = assemble::machine_on(&robot, assemble::controller(&robot.controller), Box::new(link));
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time).unwrap();
    let (from_ns, period_ns) = (time.now_ns(), robot.timing.period_ns());
    let mut busy_at = Vec::new();
    for number in 0..TICKS + 100 {
        time.wait_for_tick(from_ns + number * period_ns);
        machine.tick(&mut time, from_ns + number * period_ns, None);
        busy_at.push(busy_ns.load(Ordering::Relaxed));
    }
    assert_eq!(machine.phase(), Phase::Active);
    let measured = (busy_at[99 + TICKS as usize] - busy_at[99]) as f64 / TICKS as f64;
    let bus = &TickPlan::of(&robot, Inputs::VIRTUAL).predict().buses[0];
    // At 1 Mbit/s.
    let predicted = bus.bits as f64 * 1e3;
    assert!((predicted / measured - 1.0).abs() < 0.05, "{predicted} {measured}");
}

/// Cycles of which a reply is late at this rate, wherever in them servos send what they send by themselves.
fn late_at(robot: &RobotConfig, rate_hz: f64) -> u64 {
    let mut robot = robot.clone();
    (robot.timing.rate_hz, robot.timing.bus_deadline_us) = (rate_hz, Some(1e6 / rate_hz - 1.0));
    let period_ns = robot.timing.period_ns();
    let late = |phase: i64| {
        let links = assemble::open_links(&robot, |world| Box::new(restarted(world))).unwrap();
        let mut machine = assemble::put_together(&robot, assemble::controller(&robot.controller), links);
        let mut time = VirtualTime::new(0);
        machine.make_ready(&mut time).unwrap();
        let from_ns = time.now_ns() + phase * 500_000;
        let tick = |number| {
            let planned_ns = from_ns + number * period_ns;
            time.wait_for_tick(planned_ns);
            machine.tick(&mut time, planned_ns, None);
            u64::from(machine.result().missed > 0)
        };
        (0..200).map(tick).sum::<u64>()
    };
    (0..40).map(late).sum()
}

#[test]
fn ten_servos_of_three_families_run_at_the_rate_that_is_predicted() {
    let robot = shipped("mixed_arm");
    let rate_hz = TickPlan::of(&robot, Inputs::VIRTUAL).predict().highest_rate_any_deadline_hz;
    assert_eq!(late_at(&robot, 0.95 * rate_hz), 0, "{rate_hz}");
    assert!(late_at(&robot, 1.05 * rate_hz) > 0, "{rate_hz}");
}

#[test]
fn every_family_on_every_wire_that_carries_it() {
    let fd = "link = \"emulated\"";
    let rs485 = "link = \"emulated\"\nwire = \"rs485\"";
    let can = "link = \"emulated\"\nwire = \"can\"";
    let slow = "link = \"emulated\"\nnominal_bit_rate = 500_000\ndata_bit_rate = 2_000_000";
    let others = [
        ("moteus", "", &[fd, rs485, slow][..]),
        ("damiao", "damiao = { model = \"4310\", can_fd = true }", &[fd, slow]),
        ("robstride", "robstride = { model = \"CyberGear\" }", &[fd]),
        ("odrive", "odrive = { firmware = \"0.5\", torque_constant = 0.1 }", &[can]),
        ("rmd", "rmd = { model = \"X8\", protocol = \"V4.4\", reply_delay_us = 800 }", &[fd, slow]),
    ];
    let others = others.map(|(family, keys, wires)| (format!("family = \"{family}\"\n{keys}"), wires));
    let (classic, both) = ([can], [fd, slow]);
    let usual = FamilyName::ALL.iter().filter(|&&name| in_file(name).facts().sends_gains).map(|&name| {
        // Remote frames are of classic CAN.
        let wires = if name == FamilyName::Odrive { &classic[..] } else { &both };
        (usual_servo(name, ""), wires)
    });
    for (keys, wires) in others.into_iter().chain(usual) {
        for (wire, servos) in wires.iter().flat_map(|wire| [1, 3, 7].map(|servos| (wire, servos))) {
            let defaults = format!("{wire}\n[servo_defaults]\n{keys}\n");
            let robot = on_buses(&defaults, 1, servos);
            let what = format!("{servos} × {}, {}", keys.replace('\n', " "), wire.replace('\n', ", "));
            assert_met(&what, &TickPlan::of(&robot, Inputs::VIRTUAL), in_process_ns(&robot));
        }
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
    assert_met("pi3hat", &TickPlan::of(&robot, Inputs::VIRTUAL), emulated_ns(&robot, links));
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
        assert_met(
            &format!("{n} × fdcanusb"),
            &TickPlan::of(&robot, inputs),
            emulated_ns(&robot, on(&mut *stand)),
        );
    }
}

#[test]
fn a_udp_gateway_to_a_bus() {
    for n in [1, 4, 8] {
        let robot = one_bus("link = \"udp\"\naddress = \"127.0.0.1:1\"\nbehind = \"can_fd\"", n);
        let mut stand = stands::udp(true)(n);
        // Datagrams take no time in virtual time.
        let ethernet = EthernetRate { bits_per_second: u32::MAX };
        let inputs = Inputs { ethernet, switches: 0, ..Inputs::VIRTUAL };
        assert_met(
            &format!("{n} × udp"),
            &TickPlan::of(&robot, inputs),
            emulated_ns(&robot, on(&mut *stand)),
        );
    }
}

#[test]
fn socketcan() {
    for n in [1, 4, 8] {
        let robot = one_bus("link = \"socketcan\"\ninterface = \"unused\"", n);
        let mut stand = stands::socketcan(n);
        assert_met(
            &format!("{n} × socketcan"),
            &TickPlan::of(&robot, Inputs::VIRTUAL),
            emulated_ns(&robot, on(&mut *stand)),
        );
    }
}

#[test]
fn an_rs485_line() {
    for n in [1, 4, 8] {
        let robot = one_bus("link = \"rs485\"\npath = \"unused\"", n);
        let mut stand = stands::rs485_line(n);
        assert_met(
            &format!("{n} × rs485"),
            &TickPlan::of(&robot, Inputs::VIRTUAL),
            emulated_ns(&robot, on(&mut *stand)),
        );
    }
}

#[test]
fn an_slcan_adapter() {
    for n in [1, 4] {
        let robot = one_bus("link = \"slcan\"\npath = \"unused\"\ndata_bit_rate = 5_000_000", n);
        let mut stand = stands::slcan(Answers::Lawicel)(n);
        let inputs = Inputs { adapter_ns: 0, ..Inputs::VIRTUAL };
        assert_met(
            &format!("{n} × slcan"),
            &TickPlan::of(&robot, inputs),
            emulated_ns(&robot, on(&mut *stand)),
        );
    }
}
