//! A loop that is kept from its CPU, in virtual time: who is blamed for state that is old then.

use khz_file::RobotConfig;
use khz_link::Link;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::supervisor::{Cause, Phase, Transition};
use khz_loop::time::{Time, VirtualTime};
use khz_robot::assemble;
use std::sync::Arc;

/// Time that jumps by `for_ns` before the loop looks at the clock for the `at`-th time.
struct Stolen {
    time: VirtualTime,
    looks: u64,
    at: u64,
    for_ns: i64,
}

impl Time for Stolen {
    fn now_ns(&mut self) -> i64 {
        self.looks += 1;
        if self.looks == self.at {
            self.time.elapse(self.for_ns);
        }
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.time.pass(until_ns, links);
    }
}

/// Time of which `for_ns` are lost at a moment: the process is stopped by a signal, or its CPU is another's.
struct Frozen {
    time: VirtualTime,
    at_ns: i64,
    for_ns: i64,
}

impl Time for Frozen {
    fn now_ns(&mut self) -> i64 {
        if self.time.now_ns() >= self.at_ns {
            self.time.elapse(std::mem::take(&mut self.for_ns));
        }
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.time.pass(until_ns, links);
    }
}

const MS: i64 = 1_000_000;

const ROBOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots");

/// A robot of the folder `robots`; `None` if its devices are elsewhere, or its body cannot be simulated here.
fn shipped(file: &str) -> Option<RobotConfig> {
    let config = RobotConfig::load(format!("{ROBOTS}/{file}.toml")).unwrap();
    (config.is_emulated() && config.emulate().is_ok()).then_some(config)
}

/// What ended control of a shipped robot that was frozen once, 0.7 s after its start, and whether the stall was reported. As on a real machine:
/// nothing is forgiven because the devices are emulated.
fn frozen(file: &str, offset_ns: i64, for_ms: i64) -> Option<(Cause, bool)> {
    frozen_in_a_run_of(file, offset_ns, for_ms, 900 + for_ms)
}

fn frozen_in_a_run_of(file: &str, offset_ns: i64, for_ms: i64, run_ms: i64) -> Option<(Cause, bool)> {
    let (config, mut stats) = (shipped(file)?, RunStats::new(100_000));
    run_frozen(&config, 700 * MS + offset_ns, for_ms, run_ms, &mut stats);
    // It is held up from the tick on that could not begin.
    let least_ns = for_ms * MS - config.timing.period_ns().max(2 * MS);
    let reported = |change: &Transition| matches!(change.cause, Cause::LoopHeldUp { held_up_ns, .. } if held_up_ns > least_ns);
    Some((end(&stats.transitions), stats.transitions.iter().any(reported)))
}

/// Runs a robot that is frozen once, `at_ns` after its servos were made ready.
fn run_frozen(config: &RobotConfig, at_ns: i64, for_ms: i64, run_ms: i64, observer: &mut dyn Observer) {
    let mut controller = assemble::controller(&config.controller);
    controller.prepare(&assemble::info(config)).unwrap();
    let mut machine = assemble::machine(config, controller).unwrap();
    let options = RunOptions::of(&config.timing, Some(run_ms * MS), Arc::default());
    let mut time = Frozen { time: VirtualTime::new(0), at_ns: i64::MAX, for_ns: 0 };
    machine.make_ready(&mut time).unwrap();
    (time.at_ns, time.for_ns) = (time.time.now_ns() + at_ns, for_ms * MS);
    run(&mut machine, &mut time, &options, &mut [observer]);
    assert_eq!(time.for_ns, 0, "{} was frozen", config.name);
}

/// Moments of a tick.
const OFFSETS_NS: [i64; 5] = [0, 80_000, 250_000, 450_000, 900_000];

/// Goes on after freezes of so many ms, and not after others; `down` is what ends it then.
fn goes_on_after(file: &str, bearable_ms: &[i64], down: fn(Cause) -> bool) {
    for for_ms in [15, 60, 150, 300] {
        for offset_ns in OFFSETS_NS {
            let (cause, reported) = frozen(file, offset_ns, for_ms).unwrap();
            if bearable_ms.contains(&for_ms) {
                assert_eq!(cause, Cause::TimeOver, "{file}, {for_ms} ms at {offset_ns}");
                assert!(reported, "{file}, {for_ms} ms at {offset_ns}: it is reported");
            } else {
                assert!(down(cause), "{file}, {for_ms} ms at {offset_ns}: {cause}");
            }
        }
    }
}

fn timed_out(cause: Cause) -> bool {
    matches!(cause, Cause::ServoTimedOut { .. })
}

#[test]
fn an_arm_of_damiao_servos_goes_on_until_their_watchdogs_expire() {
    let communication_lost = |cause| matches!(cause, Cause::ServoFault { fault, .. } if fault.code == 13);
    goes_on_after("openarm_like", &[15, 60, 150], communication_lost);
}

/// It ended as planned, however long it stood still and whatever its servos had done meanwhile.
#[test]
fn a_run_whose_time_is_over_while_it_stands_still_ends_as_any_stall_of_that_length_does() {
    for (file, bearable_ms) in
        [("openarm_like", 150), ("quadruped", 60), ("quadruped_robstride", 60), ("pan_tilt", 60)]
    {
        for for_ms in [60, 150, 300, 3000] {
            // Over as the loop is stopped, just after that, and just before it goes on.
            for (offset_ns, over_ms) in OFFSETS_NS
                .into_iter()
                .flat_map(|offset_ns| [0, 2, for_ms - 2].map(|over_ms| (offset_ns, over_ms)))
            {
                let (cause, reported) = frozen_in_a_run_of(file, offset_ns, for_ms, 700 + over_ms).unwrap();
                let as_planned = cause == Cause::TimeOver;
                assert!(
                    reported || !as_planned,
                    "{file}, {for_ms} ms at {offset_ns}, over at {over_ms}: it is reported"
                );
                assert_eq!(as_planned, for_ms <= bearable_ms, "{file}, {for_ms} ms at {offset_ns}: {cause}");
            }
        }
    }
}

#[test]
fn a_quadruped_of_moteus_goes_on_until_their_watchdogs_expire() {
    goes_on_after("quadruped", &[15, 60], timed_out);
}

#[test]
fn a_walking_quadruped_goes_on_until_its_watchdogs_expire() {
    goes_on_after("quadruped_walk", &[15, 60], timed_out);
}

#[test]
fn a_quadruped_of_robstride_servos_goes_on_until_their_watchdogs_expire() {
    goes_on_after("quadruped_robstride", &[15, 60], |cause| matches!(cause, Cause::ServoReset { .. }));
}

#[test]
fn other_shipped_robots_go_on_until_their_watchdogs_expire() {
    for file in ["arm", "leg3", "pan_tilt"] {
        goes_on_after(file, &[15, 60], timed_out);
    }
    goes_on_after("mixed", &[15, 60], |cause| {
        matches!(cause, Cause::ServoTimedOut { .. } | Cause::ServoReset { .. })
    });
}

/// Whichever robot is added to the folder.
#[test]
fn no_run_of_a_shipped_robot_ends_by_a_freeze_of_60_ms() {
    let files = std::fs::read_dir(ROBOTS).unwrap().map(|entry| entry.unwrap().path());
    let robots = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut tried = 0;
    for path in robots {
        let file = path.file_stem().unwrap().to_str().unwrap();
        let Some((cause, reported)) = frozen(file, 250_000, 60) else { continue };
        assert_eq!((cause, reported), (Cause::TimeOver, true), "{file}");
        tried += 1;
    }
    assert!(tried >= 8, "{tried} robots");
}

/// Small, so that many runs take no time.
const ROBOT: &str = r#"
[bus.main]
link = "emulated"
[[servo]]
name = "pan"
bus = "main"
id = 1
[imu]
link = "emulated"
[supervisor]
grace_s = 0.1
damping_s = 0.2
"#;

const TICKS: u64 = 1000;

fn robot() -> RobotConfig {
    RobotConfig::parse(ROBOT, "test").unwrap()
}

/// A run of [`TICKS`] and until the robot is down, held up once; `forgiving`: as [`khz_robot::launch`] has it for emulated devices.
fn run_held_up(config: &RobotConfig, (at, for_ns): (u64, i64), forgiving: bool) -> (Vec<Transition>, u64) {
    let mut machine = assemble::machine(config, assemble::controller(&config.controller)).unwrap();
    if forgiving {
        machine.forgive_hold_ups();
    }
    let options = RunOptions {
        period_ns: config.timing.period_ns(),
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(TICKS as i64 * config.timing.period_ns()),
        stop: Arc::default(),
    };
    let mut stats = RunStats::new(100_000);
    let mut time = Stolen { time: VirtualTime::new(0), looks: 0, at, for_ns };
    run(&mut machine, &mut time, &options, &mut [&mut stats]);
    (stats.transitions, time.looks)
}

/// Looks at the clock in the middle of the run: those of some two ticks, more or less.
fn looks() -> impl Iterator<Item = u64> {
    let (transitions, all) = run_held_up(&robot(), (u64::MAX, 0), false);
    let ticks = transitions.last().unwrap().tick;
    let per_tick = all / ticks;
    let middle = TICKS / 2 * per_tick;
    middle..middle + 2 * per_tick
}

/// What brought the robot down.
fn end(transitions: &[Transition]) -> Cause {
    transitions
        .iter()
        .find(|change| change.from == Phase::Active && change.to != Phase::Active)
        .unwrap()
        .cause
}

/// More than an IMU may be silent, less than servos wait for a command.
const HELD_UP_NS: i64 = 38_800_000;

#[test]
fn a_robot_goes_on_after_its_loop_was_held_up_and_says_so() {
    for forgiving in [false, true] {
        for at in looks() {
            let (transitions, _) = run_held_up(&robot(), (at, HELD_UP_NS), forgiving);
            // Wherever it happens.
            assert_eq!(end(&transitions), Cause::TimeOver, "held up at look {at}");
            let reported = transitions.iter().any(|change| {
                matches!(change.cause, Cause::LoopHeldUp { held_up_ns, .. } if (37_000_000..40_000_000).contains(&held_up_ns))
            });
            assert!(reported, "held up at look {at}: {transitions:?}");
        }
    }
}

#[test]
fn a_device_that_is_silent_is_blamed_although_the_loop_is_held_up_too() {
    let silent = "[bus.main.faults]\nevents = [{ at_s = 0.495, kind = \"silence\", id = 1 }]";
    let config = RobotConfig::parse(&format!("{ROBOT}{silent}"), "test").unwrap();
    let at = looks().next().unwrap();
    for forgiving in [false, true] {
        let (transitions, _) = run_held_up(&config, (at, 5_000_000), forgiving);
        assert!(matches!(end(&transitions), Cause::MissedReplies { servo: 0, .. }), "{transitions:?}");
    }
}

#[test]
fn a_device_that_stays_silent_after_a_stall_brings_the_robot_down() {
    // It falls silent during the stall.
    let silent = "[bus.main.faults]\nevents = [{ at_s = 0.51, kind = \"silence\", id = 1 }]";
    let config = RobotConfig::parse(&format!("{ROBOT}{silent}"), "test").unwrap();
    for at in looks().step_by(3) {
        let (transitions, _) = run_held_up(&config, (at, HELD_UP_NS), false);
        let cause = end(&transitions);
        assert!(
            matches!(cause, Cause::MissedReplies { servo: 0, .. } | Cause::LoopHeldUp { .. }),
            "{cause:?}"
        );
    }
}

#[test]
fn servos_that_timed_out_meanwhile_bring_an_emulated_robot_down_too() {
    let at = looks().next().unwrap();
    let (transitions, _) = run_held_up(&robot(), (at, 300_000_000), true);
    assert!(matches!(end(&transitions), Cause::ServoTimedOut { .. }), "{transitions:?}");
}

/// Time in which encoding takes so long in every tick.
struct SlowEncoding {
    time: VirtualTime,
    looks: u32,
    for_ns: i64,
}

impl Time for SlowEncoding {
    fn now_ns(&mut self) -> i64 {
        self.looks += 1;
        // The first look of a tick is its start, the next two are before and after encoding.
        if self.looks == 3 {
            self.time.elapse(self.for_ns);
        }
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
        self.looks = 0;
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.time.pass(until_ns, links);
    }
}

#[test]
fn servos_are_not_blamed_for_a_computer_that_takes_long_to_encode() {
    let mut config = RobotConfig::quadruped();
    // Its cycle takes 0.73 ms. Half of the rest of the period is 120 µs.
    config.timing.bus_deadline_us = Some(760.0);
    for (for_ns, missed) in [(0, false), (90_000, false), (200_000, true)] {
        let mut machine = assemble::machine(&config, assemble::controller(&config.controller)).unwrap();
        let mut time = SlowEncoding { time: VirtualTime::new(0), looks: 0, for_ns };
        let period_ns = config.timing.period_ns();
        let missing = (0..50).map(|tick| {
            time.wait_for_tick(tick * period_ns);
            machine.tick(&mut time, tick * period_ns, None);
            u32::from(machine.result().missed)
        });
        assert_eq!(missing.sum::<u32>() > 0, missed, "{for_ns} ns");
    }
}

/// The greatest speed of a joint upwards, rad/s, once the robot is under control.
#[derive(Default)]
struct Fastest(f64);

impl Observer for Fastest {
    fn tick(&mut self, tick: &Tick<'_>) {
        if tick.machine.supervisor().phase() == Phase::Active {
            let speeds = tick.machine.state().servos.iter().map(|servo| servo.velocity);
            self.0 = speeds.fold(self.0, f64::max);
        }
    }
}

/// How far a joint has risen from the lowest place it was seen at, rad, since the run began; and what ended control.
#[derive(Default)]
struct Rise {
    lowest: Vec<f64>,
    most: f64,
    end: Option<Cause>,
}

impl Observer for Rise {
    fn tick(&mut self, tick: &Tick<'_>) {
        let servos = &tick.machine.state().servos;
        self.lowest.resize(servos.len(), f64::INFINITY);
        let ends = |it: &&Transition| it.from == Phase::Active && it.to != Phase::Active;
        self.end = self.end.or(tick.machine.transitions().iter().find(ends).map(|it| it.cause));
        for (lowest, servo) in self.lowest.iter_mut().zip(servos) {
            *lowest = lowest.min(servo.position);
            self.most = self.most.max(servo.position - *lowest);
        }
    }
}

/// Two joints that sink slowly wherever they are not held.
const ARM: &str = "
    loop = { rate_hz = 200, bus_deadline_us = 4000 }
    bus.main = { link = 'emulated', wire = 'can' }
    controller.name = 'hold'
    servo = [{ name = 'a', id = 1, FAMILY }, { name = 'b', id = 2, FAMILY }]
    [servo_defaults]
    bus = 'main'
    watchdog_s = 0.5
    limits = { position = [-1.5, 1.5], velocity = 0.8 }
    joint = { inertia = 0.05, coulomb = 0.05, gravity = 3.0, start = 1.2, viscous = 5.0 }
";
const FAMILIES: [&str; 2] = [
    "family = 'damiao', damiao = { model = '8009', kp = 120, kd = 3, damping = 3 }",
    "family = 'robstride', robstride = { model = 'RS04', velocity_range = 15, kp = 120, kd = 3, damping = 3 }",
];

/// The controller was started where the joints were before the stall, and drove them back there, under the limit of their velocity.
#[test]
fn a_stall_before_the_first_commands_starts_the_controller_anew_where_the_joints_are() {
    for family in FAMILIES {
        let config = RobotConfig::parse(&ARM.replace("FAMILY", family), "arm.toml").unwrap();
        for offset_ns in (0..150).map(|step| step * MS) {
            let mut rise = Rise::default();
            run_frozen(&config, offset_ns, 180, 900, &mut rise);
            assert_eq!(rise.end, Some(Cause::TimeOver), "{family}, {offset_ns}");
            assert!(rise.most < 0.03, "{family}, {offset_ns}: {} rad", rise.most);
        }
    }
}

/// Commands are decided on in one tick and sent in the next. A loop that was held up between them drove a joint that had sunk meanwhile
/// back to where it had been, at full gain.
#[test]
fn a_joint_that_sinks_while_the_loop_is_held_up_before_its_first_command_is_not_driven_back() {
    for family in FAMILIES {
        let config = RobotConfig::parse(&ARM.replace("FAMILY", family), "arm.toml").unwrap();
        let mut fastest = Fastest::default();
        for offset_ns in (0..150).map(|step| step * MS) {
            run_frozen(&config, offset_ns, 180, 900, &mut fastest);
        }
        assert!(fastest.0 > 0.0, "{family}: it was never under control");
        assert!(fastest.0 < 1.0, "{family}: {} rad/s", fastest.0);
    }
}
