//! The whole machine on emulated servos, in virtual time.

use khz_controllers::Hold;
use khz_emu::World;
use khz_file::RobotConfig;
use khz_link::{Capabilities, Counters, Link, LinkError, Received};
use khz_loop::console::Console;
use khz_loop::controller::Controller;
use khz_loop::operator::Heartbeat;
use khz_loop::parameters::{Intake, LiveParameters, Source};
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::state::RobotState;
use khz_loop::steer::Steering;
use khz_loop::supervisor::{Arming, Cause, Phase};
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};
use khz_loop::timing::Clock;
use khz_loop::{ControlError, Doing, ServoCommand, Teleop};
use khz_robot::assemble;
use khz_robot::records::RunLog;
use khz_wire::{Frame, Request};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const PERIOD_NS: i64 = 1_000_000;

fn machine(config: &RobotConfig) -> Machine {
    assemble::machine(config, assemble::controller(&config.controller)).unwrap()
}

/// The shipped quadruped with more text at its end.
fn quadruped_with(text: &str) -> RobotConfig {
    RobotConfig::parse(&format!("{}\n{text}", khz_file::config::QUADRUPED), "test").unwrap()
}

fn options(seconds: i64) -> RunOptions {
    RunOptions {
        period_ns: PERIOD_NS,
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(seconds * 1_000_000_000),
        stop: Arc::default(),
    }
}

fn run_stats(machine: &mut Machine, seconds: i64) -> RunStats {
    let mut stats = RunStats::new(100_000);
    run(machine, &mut VirtualTime::new(0), &options(seconds), &mut [&mut stats]);
    stats
}

fn causes(stats: &RunStats) -> Vec<Cause> {
    stats.transitions.iter().map(|transition| transition.cause).collect()
}

/// Largest distance between command and measured position once the robot stands.
#[derive(Default)]
struct Tracking {
    worst: f64,
}

impl Observer for Tracking {
    fn tick(&mut self, tick: &Tick<'_>) {
        if tick.machine.phase() != Phase::Active || tick.record.number < 3000 {
            return;
        }
        for (command, servo) in tick.machine.commands().iter().zip(&tick.machine.state().servos) {
            if let ServoCommand::Position(target) = command {
                self.worst = self.worst.max((target.position - servo.position).abs());
            }
        }
    }
}

#[test]
fn the_quadruped_stands_and_squats_without_missing_a_reply() {
    let mut machine = machine(&RobotConfig::quadruped());
    let (mut stats, mut tracking) = (RunStats::new(100_000), Tracking::default());
    run(&mut machine, &mut VirtualTime::new(0), &options(6), &mut [&mut stats, &mut tracking]);

    assert_eq!(
        (
            stats.all().missed_replies,
            stats.all().late_replies,
            stats.all().unexpected_frames,
            stats.all().imu_missed
        ),
        (0, 0, 0, 0)
    );
    assert!((stats.counter.rate_hz() - 1000.0).abs() < 1e-6);
    let expected =
        [Cause::AllServosSeen, Cause::ArmRequested, Cause::ControllerStarted, Cause::TimeOver, Cause::Still];
    assert_eq!(causes(&stats), expected);
    assert!(tracking.worst < 0.2, "{} rad", tracking.worst);
}

/// Greatest tilt once the robot stands, rad, and the knees' least and greatest angle.
#[derive(Default)]
struct Posture {
    tilt: f64,
    knees: Option<[f64; 2]>,
}

impl Observer for Posture {
    fn tick(&mut self, tick: &Tick<'_>) {
        if tick.machine.phase() != Phase::Active || tick.record.number < 3000 {
            return;
        }
        let state = tick.machine.state();
        self.tilt = state.imu.map_or(0.0, |imu| imu.tilt()).max(self.tilt);
        for knee in state.servos.iter().skip(2).step_by(3) {
            let [low, high] = self.knees.unwrap_or([knee.position; 2]);
            self.knees = Some([low.min(knee.position), high.max(knee.position)]);
        }
    }
}

#[test]
fn the_quadruped_trots_on_the_spot_and_stays_upright() {
    let text = khz_file::config::QUADRUPED.replace("squat_m = 0.06", "squat_m = 0.0\nlift_m = 0.03");
    let mut machine = machine(&RobotConfig::parse(&text, "trot").unwrap());
    let (mut stats, mut posture) = (RunStats::new(100_000), Posture::default());
    run(&mut machine, &mut VirtualTime::new(0), &options(20), &mut [&mut stats, &mut posture]);
    assert_eq!(stats.transitions[3].cause, Cause::TimeOver, "{:?}", causes(&stats));
    assert!(posture.tilt < 0.1, "{} rad", posture.tilt);
    let [low, high] = posture.knees.unwrap();
    assert!(high - low > 0.2, "feet leave the ground: knees from {low} to {high} rad");
}

#[test]
fn every_shipped_robot_keeps_its_rate() {
    for file in ["quadruped", "pan_tilt", "arm"] {
        let path = format!("{}/../../robots/{file}.toml", env!("CARGO_MANIFEST_DIR"));
        let config = RobotConfig::load(path).unwrap();
        let mut machine = machine(&config);
        let mut stats = RunStats::new(100_000);
        let options = RunOptions { period_ns: config.timing.period_ns(), ..options(1) };
        run(&mut machine, &mut VirtualTime::new(0), &options, &mut [&mut stats]);
        assert_eq!((stats.all().missed_replies, stats.all().overruns), (0, 0), "{file}");
        assert!(causes(&stats).contains(&Cause::TimeOver), "{file}: {:?}", causes(&stats));
    }
}

#[test]
fn no_tick_touches_the_heap() {
    let mut machine = machine(&RobotConfig::quadruped());
    let mut time = VirtualTime::new(0);
    let mut tick = |number: i64| machine.tick(&mut time, number * PERIOD_NS, None);
    // The controller's start may allocate; it happens in the first ticks.
    (0..50).for_each(|number| _ = tick(number));
    let ((), heap) = khz_rt::alloc_trap::forbid(|| (50..2000).for_each(|number| _ = tick(number)));
    heap.assert_untouched();
    assert_eq!(machine.phase(), Phase::Active);
}

#[test]
fn a_tick_that_takes_a_change_and_an_input_does_not_touch_the_heap() {
    let config = RobotConfig::quadruped();
    let controller = assemble::controller(&config.controller);
    let (intake, live) = Intake::new(controller.parameters(), Clock::Virtual);
    let mut machine = assemble::machine(&config, controller).unwrap();
    let (wheel, steering) = Steering::new(&config.teleop, Heartbeat::new());
    machine.tune(intake);
    machine.steer(wheel);
    machine.attend(Arc::new(Console::new(Clock::Virtual)));
    let mut time = VirtualTime::new(0);
    (0..50).for_each(|number| _ = machine.tick(&mut time, number * PERIOD_NS, None));
    for number in 50..500 {
        live.set_all("test", &[("kp_scale", 0.5), ("squat_m", number as f64 * 1e-4)]).unwrap();
        let now_ns = machine.state().now_ns;
        assert!(steering.steer(&Teleop { forward: 0.1, ..Teleop::NONE }, now_ns, now_ns, Source::new()));
        let ((), heap) = khz_rt::alloc_trap::forbid(|| _ = machine.tick(&mut time, number * PERIOD_NS, None));
        heap.assert_untouched();
        assert_eq!((machine.changes().len(), machine.state().teleop.forward), (2, 0.1));
    }
    assert_eq!(machine.phase(), Phase::Active);
}

#[test]
fn no_tick_that_takes_changes_and_inputs_or_records_them_touches_the_heap() {
    let mut config = RobotConfig::quadruped();
    config.log.enabled = false;
    let controller = assemble::controller(&config.controller);
    let (intake, live) = Intake::new(controller.parameters(), Clock::Virtual);
    let mut machine = assemble::machine(&config, controller).unwrap();
    let (wheel, steering) = Steering::new(&config.teleop, Heartbeat::new());
    machine.tune(intake);
    machine.steer(wheel);
    machine.attend(Arc::new(Console::new(Clock::Virtual)));
    let mut builder = khz_robot::recorder::RecorderBuilder::default();
    let log = RunLog::declare(&mut builder, &config).unwrap().with_parameters(live.list());
    let mut people = People { log, live, steering, changes: 0, inputs: 0 };
    run(&mut machine, &mut VirtualTime::new(0), &options(3), &mut [&mut people]);
    assert_eq!((people.changes, people.inputs), (2 * 300, 300));
    assert!(people.steering.counts().taken >= 300);
}

/// Asks for something every tenth tick, and records every tick.
struct People {
    log: RunLog,
    live: LiveParameters,
    steering: Steering,
    changes: usize,
    inputs: usize,
}

impl Observer for People {
    fn tick(&mut self, tick: &Tick<'_>) {
        let ((), heap) = khz_rt::alloc_trap::forbid(|| self.log.tick(tick));
        heap.assert_untouched();
        if tick.record.number >= 3000 {
            return;
        }
        self.changes += tick.machine.changes().len();
        self.inputs += usize::from(tick.machine.input().is_some());
        if tick.record.number.is_multiple_of(10) {
            let share = (tick.record.number % 100) as f64 / 100.0;
            self.live
                .set_all("people", &[("kp_scale", 1.0 - share / 4.0), ("lift_m", share / 50.0)])
                .unwrap();
            let now_ns = tick.machine.state().now_ns;
            self.steering.steer(&Teleop { forward: share, ..Teleop::NONE }, now_ns, now_ns, Source::new());
        }
    }
}

#[test]
fn no_tick_of_damiao_servos_touches_the_heap() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/openarm_like.toml");
    let mut machine = machine(&RobotConfig::load(path).unwrap());
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time).unwrap();
    let first_ns = time.now_ns() + PERIOD_NS;
    let mut tick = |number: i64| machine.tick(&mut time, first_ns + number * PERIOD_NS, None);
    (0..50).for_each(|number| _ = tick(number));
    let ((), heap) = khz_rt::alloc_trap::forbid(|| (50..2000).for_each(|number| _ = tick(number)));
    heap.assert_untouched();
    assert_eq!(machine.phase(), Phase::Active);
}

/// Holds where it was started, and counts how often that was.
#[derive(Default)]
struct Starts {
    hold: Hold,
    count: Arc<AtomicU32>,
}

impl Controller for Starts {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        assert!(state.servos.iter().all(|servo| servo.fresh && servo.position.is_finite()));
        self.count.fetch_add(1, Ordering::Relaxed);
        self.hold.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.hold.update(state, commands)
    }
}

#[test]
fn a_ticked_machine_can_be_armed_again_from_measured_positions() {
    let starts = Starts::default();
    let count = Arc::clone(&starts.count);
    let mut machine = assemble::machine(&RobotConfig::quadruped(), Box::new(starts)).unwrap();
    let mut time = VirtualTime::new(0);
    let mut until = |machine: &mut Machine, done: fn(&Machine) -> bool, stop: Option<Cause>| {
        for _ in 0..10_000 {
            let planned_ns = machine.state().planned_ns + PERIOD_NS;
            time.wait_for_tick(planned_ns);
            machine.tick(&mut time, planned_ns, stop);
            if done(machine) {
                return;
            }
        }
        panic!("still {:?}", machine.phase());
    };
    for start in 1..=2 {
        until(&mut machine, |machine| machine.phase() == Phase::Active, None);
        assert_eq!(count.load(Ordering::Relaxed), start);
        until(&mut machine, Machine::is_settled, Some(Cause::OperatorStop));
        machine.arm();
    }
}

/// Asked to arm in idle, then frozen before a tick had looked: it was armed and active in the first tick after that.
#[test]
fn a_process_frozen_between_a_request_to_arm_and_its_tick_does_not_arm() {
    let mut config = RobotConfig::quadruped();
    config.supervisor.arming = Arming::Operator;
    for (frozen_s, reached) in [(0, Phase::Active), (120, Phase::Idle)] {
        let mut machine = machine(&config);
        let console = Arc::new(Console::new(Clock::Real));
        machine.attend(Arc::clone(&console));
        // In idle at the time at which the request is made, or later: it is no older than now.
        let mut time = VirtualTime::new(khz_rt::now_ns());
        let mut planned_ns = time.now_ns();
        let mut ticks = |machine: &mut Machine, time: &mut VirtualTime| {
            for _ in 0..50 {
                planned_ns = time.now_ns() + PERIOD_NS;
                time.wait_for_tick(planned_ns);
                machine.tick(time, planned_ns, None);
            }
        };
        ticks(&mut machine, &mut time);
        assert_eq!(machine.phase(), Phase::Idle);
        console.arm().unwrap();
        time.elapse(frozen_s * 1_000_000_000);
        ticks(&mut machine, &mut time);
        assert_eq!(machine.phase(), reached, "frozen for {frozen_s} s");
    }
}

/// An emulated robot that outlives the machine that drives it.
#[derive(Clone)]
pub struct Shared(pub Arc<Mutex<World>>);

impl Link for Shared {
    fn capabilities(&self) -> Capabilities {
        self.0.lock().unwrap().capabilities()
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        self.0.lock().unwrap().begin_cycle(now_ns);
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        Link::send(&mut *self.0.lock().unwrap(), channel, request, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.0.lock().unwrap().receive(now_ns)
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.0.lock().unwrap().next_event_ns()
    }

    fn counters(&self, channel: u8) -> Counters {
        self.0.lock().unwrap().counters(channel)
    }
}

/// A robot whose servo reports falsely, in the replies of these numbers, that it is off.
struct Lying {
    robot: Shared,
    lies: fn(u32) -> bool,
    replies: u32,
}

impl Link for Lying {
    khz_link::forward_link!(it => it.robot; capabilities, begin_cycle, send, next_event_ns, counters);

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let mut received = self.robot.receive(now_ns)?;
        if let Some(received) = &mut received {
            if (self.lies)(self.replies) {
                let mut payload = received.frame.payload().to_vec();
                assert_eq!(payload[..2], [0x21, 0], "the mode comes first");
                payload[2] = 0;
                received.frame = Frame::new(received.frame.id, &payload).unwrap();
            }
            self.replies += 1;
        }
        Ok(received)
    }
}

/// One joint, and what a run that was killed has left of it: it follows.
fn left_on() -> (RobotConfig, Shared, VirtualTime) {
    let text = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n[supervisor]\ndamping_s = 1\n";
    let config = RobotConfig::parse(text, "test").unwrap();
    let world = Shared(Arc::new(Mutex::new(config.emulate().unwrap())));
    let mut killed = assemble::machine_on(&config, Box::new(Hold::default()), Box::new(world.clone()));
    let mut time = VirtualTime::new(0);
    killed.make_ready(&mut time).unwrap();
    assert_eq!(ticks(&mut killed, &mut time), Phase::Active);
    (config, world, time)
}

/// A tenth of a second.
fn ticks(machine: &mut Machine, time: &mut VirtualTime) -> Phase {
    let first_ns = time.now_ns() + PERIOD_NS;
    (0..100).for_each(|n| _ = machine.tick(time, first_ns + n * PERIOD_NS, None));
    machine.phase()
}

/// One such reply was believed: the servo was stopped, and what it held fell.
#[test]
fn a_run_that_begins_believes_no_servo_that_says_once_that_it_is_off() {
    let lies: [fn(u32) -> bool; 4] =
        [|reply| reply == 0, |reply| reply == 1, |reply| reply == 5, |reply| reply % 5 < 2];
    for (n, lies) in lies.into_iter().enumerate() {
        let (config, world, mut time) = left_on();
        world.0.lock().unwrap().push(0, 1.0, time.now_ns());
        let begun_ns = time.now_ns();
        let lying = Lying { robot: world.clone(), lies, replies: 0 };
        let mut next = assemble::machine_on(&config, Box::new(Hold::default()), Box::new(lying));
        next.make_ready(&mut time).unwrap();
        let took_ms = (time.now_ns() - begun_ns) / 1_000_000;
        assert!((1000..1030).contains(&took_ms), "{n}: {took_ms}");
        assert_eq!(world.0.lock().unwrap().servos()[0].doing(), Doing::Damping, "{n}");
    }
}

#[test]
fn a_run_that_begins_does_not_wait_for_a_servo_that_is_off() {
    let (config, world, mut time) = left_on();
    let mut next = assemble::machine_on(&config, Box::new(Hold::default()), Box::new(world.clone()));
    // It begins by commanding to stop.
    assert_eq!(ticks(&mut next, &mut time), Phase::Active);
    next.tick(&mut time, 0, Some(Cause::OperatorStop));
    (0..20).for_each(|_| _ = ticks(&mut next, &mut time));
    assert!(next.is_settled());
    let begun_ns = time.now_ns();
    next.make_ready(&mut time).unwrap();
    assert!(time.now_ns() - begun_ns < 10_000_000, "{} ns", time.now_ns() - begun_ns);
}

/// It was obeyed when all servos had been set up for a run that was not wanted any more.
#[test]
fn a_stop_while_servos_are_let_down_ends_the_run_once_they_are_off() {
    let (config, world, mut time) = left_on();
    world.0.lock().unwrap().push(0, 1.0, time.now_ns());
    let mut next = assemble::machine_on(&config, Box::new(Hold::default()), Box::new(world.clone()));
    let (begun_ns, stop, mut told) = (time.now_ns(), AtomicBool::new(false), String::new());
    // Ctrl-C, and another one.
    let mut note = |note: String| {
        stop.store(true, Ordering::Relaxed);
        told += &note;
    };
    let begins = next.make_ready_telling(&mut time, &mut note, &stop).unwrap();
    let took_ms = (time.now_ns() - begun_ns) / 1_000_000;
    let doing = world.0.lock().unwrap().servos()[0].doing();
    assert_eq!((begins, doing), (false, Doing::Off));
    assert!((1000..1060).contains(&took_ms), "let down gently: {took_ms} ms");
    assert!(told.contains("Ctrl-C does not shorten that; the run ends then without beginning"), "{told}");
    // Where none was on, the run itself ends at once, as any other.
    assert!(next.make_ready_telling(&mut time, &mut |_| {}, &stop).unwrap());
}

#[test]
fn a_run_that_begins_lets_down_what_another_has_left_on() {
    // Killed just now, it still follows; later it has timed out and damps. What it holds sinks, or it stands by itself.
    for (killed_ms, load, waited_ms) in [(20, 1.0, 1000), (300, 1.0, 1000), (20, 0.0, 600), (300, 0.0, 600)] {
        let (config, world, mut time) = left_on();
        world.0.lock().unwrap().push(0, load, time.now_ns());
        time.elapse(killed_ms * 1_000_000);

        let begun_ns = time.now_ns();
        let mut next = assemble::machine_on(&config, Box::new(Hold::default()), Box::new(world.clone()));
        next.make_ready(&mut time).unwrap();
        let took_ms = (time.now_ns() - begun_ns) / 1_000_000;
        assert!((waited_ms..waited_ms + 30).contains(&took_ms), "{killed_ms} {load}: {took_ms}");
        let doing = || world.0.lock().unwrap().servos()[0].doing();
        assert!(matches!(doing(), Doing::Damping | Doing::TimedOut), "{:?}", doing());
        if load == 0.0 {
            assert_eq!(ticks(&mut next, &mut time), Phase::Active, "as any other run");
        }
    }
}

#[test]
fn a_bus_that_dies_ends_in_damping_with_the_cause() {
    let faults = "[bus.rear_left.faults]\nevents = [{ at_s = 1.0, kind = \"bus_off\" }]";
    let mut machine = machine(&quadruped_with(faults));
    let stats = run_stats(&mut machine, 10);
    let down = stats.transitions[3];
    assert!(matches!(down.cause, Cause::MissedReplies { servo: 6, .. }), "{:?}", causes(&stats));
    assert_eq!((down.from, down.to), (Phase::Active, Phase::Damping));
    assert!((990..1030).contains(&down.tick), "in tick {}", down.tick);
}

#[test]
fn what_brought_the_robot_down_is_reported_after_any_number_of_warnings() {
    // Each silence of 11 ticks is warned of once; the bus is off in the end.
    let silences: Vec<_> = (0..100)
        .map(|n| {
            format!(
                "{{ at_s = {:.3}, for_s = 0.015, kind = \"silence\", id = 7 }}",
                0.6 + 0.03 * f64::from(n)
            )
        })
        .collect();
    let text = format!(
        "[bus.rear_left.faults]\nevents = [{}, {{ at_s = 4.0, kind = \"bus_off\" }}]\n[supervisor.reactions]\n\
         missed_replies = \"warn\"",
        silences.join(", ")
    );
    let mut machine = machine(&quadruped_with(&text));
    let mut stats = RunStats::new(100_000);
    let room = stats.transitions.capacity();
    run(&mut machine, &mut VirtualTime::new(0), &options(10), &mut [&mut stats]);

    let changes: Vec<_> = stats.transitions.iter().filter(|t| t.from != t.to).map(|t| t.to).collect();
    assert_eq!(changes[..4], [Phase::Idle, Phase::Armed, Phase::Active, Phase::Damping]);
    let blame = machine.supervisor().blame();
    assert!(matches!(blame, Some(Cause::BusDown { .. })), "{blame:?}");
    assert_eq!((stats.transitions.len(), stats.transitions.capacity()), (room, room));
    assert!((30..60).contains(&stats.transitions_left_out), "{}", stats.transitions_left_out);
}

#[test]
fn a_servo_silent_from_the_start_keeps_the_robot_at_rest() {
    let faults = "[bus.front_right.faults]\nevents = [{ at_s = 0.0, kind = \"silence\", id = 5 }]";
    let mut machine = machine(&quadruped_with(faults));
    let stats = run_stats(&mut machine, 3);
    assert_eq!(causes(&stats), [Cause::NotSeen { servo: 4, late: false }]);
    assert_eq!(machine.phase(), Phase::Fault);
}

/// Fails in the way asked for after half a second.
struct Failing {
    panics: bool,
}

impl Controller for Failing {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        commands.fill(ServoCommand::Damp);
        match (state.tick > 500, self.panics) {
            (true, true) => panic!("a bug in the controller"),
            (true, false) => Err("out of ideas".into()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_controller_that_fails_or_panics_ends_in_damping() {
    for (panics, cause) in [(false, Cause::ControllerFailed), (true, Cause::ControllerPanicked)] {
        let mut machine = assemble::machine(&RobotConfig::quadruped(), Box::new(Failing { panics })).unwrap();
        let stats = run_stats(&mut machine, 5);
        assert_eq!((stats.transitions[3].cause, stats.transitions[3].to), (cause, Phase::Damping));
        let message = machine.failure().unwrap().to_string();
        assert!(
            message.starts_with(if panics { "a bug in the controller, at " } else { "out of ideas" }),
            "{message}"
        );
    }
}

/// Holds, and takes as long as `took_ns` returns for the number of a tick.
struct Slow {
    inner: Hold,
    time: VirtualTime,
    took_ns: fn(u64) -> i64,
}

impl Controller for Slow {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.inner.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.time.elapse((self.took_ns)(state.tick));
        self.inner.update(state, commands)
    }
}

/// What brought the quadruped down under a controller that takes so long.
fn end_of_slow(took_ns: fn(u64) -> i64) -> Cause {
    let mut time = VirtualTime::new(0);
    let slow = Slow { inner: Hold::default(), time: time.clone(), took_ns };
    let mut machine = assemble::machine(&RobotConfig::quadruped(), Box::new(slow)).unwrap();
    let mut stats = RunStats::new(100_000);
    run(&mut machine, &mut time, &options(3), &mut [&mut stats]);
    let down = stats.transitions.iter().find(|transition| transition.from == Phase::Active);
    assert_eq!(down.unwrap().to, Phase::Damping);
    down.unwrap().cause
}

#[test]
fn a_controller_that_is_slow_now_and_then_goes_on() {
    // What the hypervisor takes while the controller computes looks like this.
    assert_eq!(end_of_slow(|tick| if tick % 50 == 0 { 1_796_000 } else { 0 }), Cause::TimeOver);
}

#[test]
fn a_controller_that_is_slow_for_good_or_hangs_is_caught() {
    let slow = end_of_slow(|tick| if tick > 1000 { 600_000 } else { 0 });
    assert_eq!(slow, Cause::ControllerSlow { count: 10, took_ns: 600_000 });
    // Nothing can be sent while it hangs: the servos' own watchdogs expire, which they report afterwards.
    let hung = end_of_slow(|tick| if tick == 1000 { 300_000_000 } else { 0 });
    assert!(matches!(hung, Cause::ServoTimedOut { .. }), "{hung:?}");
}

#[test]
fn equal_seeds_give_equal_runs() {
    let end = || {
        let mut machine = assemble::machine(&RobotConfig::quadruped(), Box::new(Hold::default())).unwrap();
        run_stats(&mut machine, 1);
        machine.state().clone()
    };
    assert_eq!(format!("{:?}", end()), format!("{:?}", end()));
}
