//! Limits hold on the joint, not only on the wire: single emulated joints in virtual time.

use khz_controllers::Hold;
use khz_file::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::controller::Controller;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::state::RobotState;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};
use khz_loop::{ControlError, PositionCommand, ServoCommand};
use khz_robot::assemble;
use khz_wire::{Frame, Request};
use std::sync::Arc;

const PERIOD_NS: i64 = 1_000_000;
/// How far a joint may be carried over a limit by its own momentum, rad; also the default tolerance.
const BRAKING: f64 = 0.05;

/// One joint with limits of ±0.5 rad and 2 rad/s, and more lines of its table.
fn joint(more: &str) -> RobotConfig {
    robot(&format!("limits = {{ position = [-0.5, 0.5], velocity = 2.0, torque = 5.0 }}\n{more}"), "")
}

/// One joint, and more tables.
fn robot(servo: &str, tables: &str) -> RobotConfig {
    let text = format!(
        "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n{servo}\n{tables}"
    );
    RobotConfig::parse(&text, "test").unwrap()
}

/// Commands what a function of the state returns.
struct Doing<F>(F);

impl<F: FnMut(&RobotState) -> ServoCommand + Send> Controller for Doing<F> {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        commands.fill((self.0)(state));
        Ok(())
    }
}

fn always(command: PositionCommand) -> Box<dyn Controller> {
    Box::new(Doing(move |_: &RobotState| ServoCommand::Position(command)))
}

/// Velocity and torque control: no position, no position gain.
fn free(velocity: f64, torque: f64, kd_scale: f64) -> PositionCommand {
    PositionCommand { velocity, torque, kp_scale: 0.0, kd_scale, ..PositionCommand::hold(f64::NAN) }
}

/// What the joint did.
struct Motion {
    active: u64,
    fastest: f64,
    range: [f64; 2],
    first_target: Option<f64>,
}

impl Default for Motion {
    fn default() -> Self {
        let range = [f64::INFINITY, f64::NEG_INFINITY];
        Self { active: 0, fastest: 0.0, range, first_target: None }
    }
}

impl Observer for Motion {
    fn tick(&mut self, tick: &Tick<'_>) {
        let servo = &tick.machine.state().servos[0];
        self.fastest = self.fastest.max(servo.velocity.abs());
        if tick.machine.phase() == Phase::Active {
            self.active += 1;
            self.range = [self.range[0].min(servo.position), self.range[1].max(servo.position)];
        }
        if let (None, ServoCommand::Position(target)) = (self.first_target, tick.machine.commands()[0]) {
            self.first_target = Some(target.position);
        }
    }
}

struct Outcome {
    machine: Machine,
    motion: Motion,
    stats: RunStats,
}

impl Outcome {
    /// What brought the robot down, or kept it there.
    fn cause(&self) -> String {
        let blame = self.machine.supervisor().blame();
        blame.unwrap_or(self.stats.transitions.last().unwrap().cause).to_string()
    }
}

fn run_machine(mut machine: Machine, seconds: i64) -> Outcome {
    let options = RunOptions {
        period_ns: machine.state().period_ns,
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(seconds * 1_000_000_000),
        stop: Arc::default(),
    };
    let (mut motion, mut stats) = (Motion::default(), RunStats::new(100_000));
    run(&mut machine, &mut VirtualTime::new(0), &options, &mut [&mut motion, &mut stats]);
    Outcome { machine, motion, stats }
}

fn run_robot(config: &RobotConfig, controller: Box<dyn Controller>, seconds: i64) -> Outcome {
    run_machine(assemble::machine(config, controller).unwrap(), seconds)
}

#[test]
fn a_joint_found_outside_its_limits_is_not_armed() {
    let outcome = run_robot(&joint("joint = { start = 3.0 }"), Box::<Hold>::default(), 2);
    assert_eq!((outcome.machine.phase(), outcome.motion.active), (Phase::Fault, 0));
    assert!(outcome.motion.fastest < 0.1, "{} rad/s", outcome.motion.fastest);
    let cause = outcome.cause();
    assert!(
        cause.contains("3.000 rad") && cause.contains("0.500 rad") && cause.contains("offset"),
        "{cause}"
    );
}

#[test]
fn a_joint_found_just_outside_its_limits_returns_at_limited_speed() {
    let outcome = run_robot(&joint("joint = { start = 0.54 }"), Box::<Hold>::default(), 2);
    assert!((outcome.motion.first_target.unwrap() - 0.54).abs() < 0.003, "{:?}", outcome.motion.first_target);
    assert!(outcome.motion.fastest < 2.5, "{} rad/s", outcome.motion.fastest);
    assert!(outcome.motion.active > 1900 && outcome.motion.range[0] < 0.51, "{:?}", outcome.motion.range);
}

#[test]
fn a_joint_without_a_speed_limit_returns_slowly_too() {
    let config = robot("limits = { position = [-0.5, 0.5] }\njoint = { start = 0.54 }", "");
    let outcome = run_robot(&config, Box::<Hold>::default(), 2);
    assert!(outcome.motion.fastest < 1.3, "{} rad/s", outcome.motion.fastest);
}

#[test]
fn the_first_target_does_not_jump() {
    let outcome = run_robot(&joint(""), always(PositionCommand::hold(0.45)), 2);
    assert!(outcome.motion.first_target.unwrap().abs() < 0.003, "{:?}", outcome.motion.first_target);
    assert!(outcome.motion.fastest < 2.5, "{} rad/s", outcome.motion.fastest);
    assert!((outcome.machine.state().servos[0].position - 0.45).abs() < 0.05);
}

#[test]
fn a_step_of_the_target_is_slowed_to_the_speed_limit() {
    let square = |state: &RobotState| {
        let side = if state.tick % 1000 < 500 { 0.4 } else { -0.4 };
        ServoCommand::Position(PositionCommand::hold(side))
    };
    let outcome = run_robot(&joint(""), Box::new(Doing(square)), 4);
    assert!(outcome.motion.fastest < 2.5, "{} rad/s", outcome.motion.fastest);
    let [low, high] = outcome.motion.range;
    assert!(outcome.motion.active > 3900 && low < -0.35 && high > 0.35, "{low} to {high}");
    assert!(outcome.machine.supervisor().clamped() > 1000);
}

#[test]
fn a_step_of_the_target_trips_where_limits_trip() {
    let square = |state: &RobotState| {
        let side = if state.tick % 1000 < 500 { 0.0 } else { 0.4 };
        ServoCommand::Position(PositionCommand::hold(side))
    };
    let limits = "limits = { position = [-0.5, 0.5], velocity = 2.0 }";
    let config = robot(limits, "[supervisor]\nout_of_limits = \"trip\"");
    let outcome = run_robot(&config, Box::new(Doing(square)), 4);
    assert!(outcome.cause().contains("limits"), "{}", outcome.cause());
    assert!(outcome.motion.fastest < 0.1, "{} rad/s", outcome.motion.fastest);
}

#[test]
fn a_machine_armed_again_starts_from_where_the_joint_is() {
    // The load hangs down at 0; the controller wants 0.45 from the first tick on.
    let config = joint("joint = { gravity = 1.0 }");
    let mut machine = assemble::machine(&config, always(PositionCommand::hold(0.45))).unwrap();
    let mut time = VirtualTime::new(0);
    let mut fastest = 0.0_f64;
    for start in 0..3 {
        for tick in 0..6000 {
            let planned_ns = machine.state().planned_ns + PERIOD_NS;
            time.wait_for_tick(planned_ns);
            let stop = (tick > 1000).then_some(Cause::OperatorStop);
            machine.tick(&mut time, planned_ns, stop);
            if machine.phase() == Phase::Active {
                fastest = fastest.max(machine.state().servos[0].velocity.abs());
            }
        }
        assert!(machine.is_settled() && fastest > 1.0, "start {start}: {fastest} rad/s");
        assert!(fastest < 2.5, "start {start}: {fastest} rad/s");
        machine.arm();
    }
}

#[test]
fn velocity_control_stops_at_the_limits() {
    for (velocity, more) in
        [(1.9, ""), (-1.9, ""), (1.9, "device = { kp = 80.0, kd = 2.0 }\njoint = { inertia = 0.09 }")]
    {
        let outcome = run_robot(&joint(more), always(free(velocity, 0.0, 1.0)), 5);
        let [low, high] = outcome.motion.range;
        assert!(low > -0.5 - BRAKING && high < 0.5 + BRAKING, "{velocity} rad/s {more}: {low} to {high} rad");
        assert!(high.max(-low) > 0.45 && outcome.motion.active > 4900, "{low} to {high} rad");
        assert!(outcome.machine.supervisor().clamped() > 1000);
    }
}

#[test]
fn torque_control_stops_at_the_limits() {
    for (torque, kd_scale) in [(4.9, 0.0), (-4.9, 0.0), (1.0, 1.0), (0.3, 0.0)] {
        let outcome = run_robot(&joint(""), always(free(0.0, torque, kd_scale)), 5);
        let [low, high] = outcome.motion.range;
        assert!(low > -0.5 - BRAKING && high < 0.5 + BRAKING, "{torque} N·m: {low} to {high} rad");
        assert!(high.max(-low) > 0.4 && outcome.motion.active > 4900, "{torque} N·m: {low} to {high} rad");
        assert!(outcome.motion.fastest < 3.0, "{torque} N·m: {} rad/s", outcome.motion.fastest);
    }
}

#[test]
fn feed_forward_does_not_push_a_held_joint_out_of_its_limits() {
    for (velocity, torque) in [(1.9, 0.0), (0.0, 2.0), (1.9, 2.0)] {
        let pushing = PositionCommand { velocity, torque, ..PositionCommand::hold(0.5) };
        let outcome = run_robot(&joint(""), always(pushing), 3);
        let high = outcome.motion.range[1];
        assert!(high < 0.5 + BRAKING, "{velocity} rad/s, {torque} N·m: {high} rad");
        assert!(outcome.motion.active > 2900, "{}", outcome.cause());
    }
}

#[test]
fn a_joint_carried_out_of_its_limits_brings_the_robot_down() {
    // A load that the velocity gain alone cannot hold.
    let load = "joint = { gravity = 4.0, gravity_at = 1.5, inertia = 0.05 }";
    let config = robot(&format!("limits.position = [-0.5, 0.5]\n{load}"), "");
    let outcome = run_robot(&config, always(free(0.0, 0.0, 1.0)), 3);
    assert!(outcome.cause().contains("limit 0.500 rad"), "{}", outcome.cause());
    assert!(outcome.motion.range[1] < 0.5 + 1.1 * BRAKING, "{:?}", outcome.motion.range);
}

#[test]
fn a_joint_that_runs_away_brings_the_robot_down() {
    // Nothing limits its position, and a load drives it faster than commanded.
    let config = robot(
        "limits = { velocity = 1.0 }\njoint = { gravity = 5.0, gravity_at = 3.0 }\ndevice = { kd = 0.05 }",
        "",
    );
    let outcome = run_robot(&config, always(free(0.0, 0.0, 0.0)), 3);
    assert!(outcome.cause().contains("rad/s"), "{}", outcome.cause());
    assert_eq!(outcome.machine.phase(), Phase::Fault);
}

#[test]
fn a_position_beyond_its_format_is_no_position() {
    let config = robot("query.position = \"int16\"\njoint = { start = 40.0 }", "");
    let outcome = run_robot(&config, Box::<Hold>::default(), 3);
    assert_eq!((outcome.machine.phase(), outcome.motion.active), (Phase::Fault, 0));
    assert!(outcome.motion.fastest < 0.1, "{} rad/s", outcome.motion.fastest);
    let cause = outcome.cause();
    assert!(cause.contains("20.588 rad") && cause.contains("float"), "{cause}");
}

#[test]
fn a_position_that_grows_beyond_its_format_brings_the_robot_down() {
    let config =
        robot("query.position = \"int16\"\nlimits = { velocity = 20.0 }\njoint = { start = 20.0 }", "");
    let outcome = run_robot(&config, always(free(10.0, 0.0, 1.0)), 3);
    assert!(outcome.cause().contains("20.588 rad"), "{}", outcome.cause());
}

#[test]
fn a_command_beyond_its_format_is_not_sent_cut() {
    let target = PositionCommand::hold(40.0);
    let torque = PositionCommand { torque: 1e39, ..PositionCommand::hold(0.0) };
    let velocity = PositionCommand { velocity: 60.0, ..PositionCommand::hold(0.0) };
    for (servo, command, names) in [
        ("command.position = \"int16\"", target, "20.588 rad"),
        ("", PositionCommand::hold(1e40), "position"),
        ("", torque, "torque"),
        ("command.torque = \"int8\"", PositionCommand { torque: 64.0, ..torque }, "63.5"),
        ("command.velocity = \"int16\"", velocity, "51.4"),
    ] {
        let outcome = run_robot(&robot(servo, ""), always(command), 1);
        assert_eq!(outcome.machine.phase(), Phase::Fault, "{servo} {command:?}");
        assert!(outcome.cause().contains(names), "{servo}: {}", outcome.cause());
        assert!(outcome.motion.first_target.is_none() && outcome.motion.fastest < 0.1, "{servo} {command:?}");
    }
}

#[test]
fn a_target_is_not_left_out_silently() {
    let outcome = run_robot(&robot("command.position = \"none\"", ""), Box::<Hold>::default(), 1);
    assert!(outcome.cause().contains("position"), "{}", outcome.cause());
    assert!(outcome.motion.first_target.is_none());
}

#[test]
fn a_share_of_a_gain_is_not_left_out_silently() {
    for (key, command) in [
        ("kp_scale", PositionCommand { kp_scale: 0.0, velocity: 2.0, ..PositionCommand::hold(0.4) }),
        ("kp_scale", free(1.5, 0.0, 1.0)),
        ("kd_scale", PositionCommand { kd_scale: 0.5, ..PositionCommand::hold(0.0) }),
    ] {
        let config = joint(&format!("command.{key} = \"none\""));
        assert!(config.warnings[0].contains(key), "{:?}", config.warnings);
        let outcome = run_robot(&config, always(command), 1);
        assert_eq!(outcome.machine.phase(), Phase::Fault, "{command:?}");
        assert!(outcome.cause().contains(&format!("command.{key}")), "{}", outcome.cause());
        assert!(outcome.motion.first_target.is_none() && outcome.motion.fastest < 0.1, "{command:?}");
        let outcome = run_robot(&config, Box::<Hold>::default(), 1);
        assert_eq!(
            outcome.machine.phase(),
            Phase::Stopped,
            "all of a gain needs no sending: {}",
            outcome.cause()
        );
    }
}

#[test]
fn a_servo_silent_after_arming_is_not_waited_for_until_the_grace_is_over() {
    let config = robot("", "[bus.main.faults]\nevents = [{ at_s = 0.03, kind = \"silence\", id = 1 }]");
    let outcome = run_robot(&config, Box::<Hold>::default(), 3);
    let down = outcome.stats.transitions.iter().find(|transition| transition.from == Phase::Active).unwrap();
    assert!((30..100).contains(&down.tick), "tick {}: {}", down.tick, down.cause);
}

/// An emulated machine behind an adapter that changes frames.
struct Meddler {
    world: khz_emu::World,
    to_servo: fn(&mut Vec<u8>),
    from_servo: fn(&mut Vec<u8>),
}

fn changed(frame: &Frame, change: fn(&mut Vec<u8>)) -> Frame {
    let mut payload = frame.payload().to_vec();
    change(&mut payload);
    let mut frame = Frame::new(frame.id, &payload).unwrap();
    frame.pad();
    frame
}

impl Link for Meddler {
    khz_link::forward_link!(it => it.world; capabilities, begin_cycle, next_event_ns, imu, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        assert_eq!(request.to, Some(1));
        self.world.send(channel, &changed(request.frame, self.to_servo), now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.world.receive(now_ns)?;
        Ok(received.map(|received| Received { frame: changed(&received.frame, self.from_servo), ..received }))
    }
}

fn meddled(config: &RobotConfig, to_servo: fn(&mut Vec<u8>), from_servo: fn(&mut Vec<u8>)) -> Outcome {
    let world = config.emulate().unwrap();
    let link = Box::new(Meddler { world, to_servo, from_servo });
    run_machine(assemble::machine_on(config, Box::<Hold>::default(), link), 3)
}

/// Before whatever a reply holds: register 0x025 could not be written.
fn refuse_torque(payload: &mut Vec<u8>) {
    payload.retain(|&byte| byte != 0x50);
    payload.splice(0..0, [0x30, 0x25, 1]);
}

/// Instead of what it holds: a reply that could read nothing but the mode.
fn refuse_position(payload: &mut Vec<u8>) {
    *payload = match payload[0] {
        0x21 => vec![0x21, 0, payload[2], 0x31, 1, 1],
        0x2f => vec![0x31, 1, 1],
        _ => vec![0x23, 0x0d, 48, 25, 0, 0x21, 0, 0, 0x31, 1, 1],
    };
}

#[test]
fn a_refused_register_keeps_the_robot_at_rest() {
    for (change, names) in [
        (refuse_torque as fn(&mut Vec<u8>), "write register 0x025"),
        (refuse_position, "read register 0x001"),
    ] {
        let outcome = meddled(&joint(""), |_| {}, change);
        assert_eq!((outcome.machine.phase(), outcome.motion.active), (Phase::Fault, 0));
        assert!(outcome.cause().contains(names), "{}", outcome.cause());
    }
}

#[test]
fn a_servo_that_stays_stopped_is_noticed() {
    // The mode of the command is changed to "stopped" on its way.
    let outcome = meddled(&joint(""), |payload| payload[2] = 0, |_| {});
    let down = outcome.stats.transitions.iter().find(|transition| transition.from == Phase::Active).unwrap();
    assert!(down.tick < 100 && down.to == Phase::Damping, "tick {}: {}", down.tick, down.cause);
    assert!(outcome.cause().contains("stopped"), "{}", outcome.cause());
}

#[test]
fn a_controllers_own_stop_of_a_joint_is_no_restart() {
    let resting = |state: &RobotState| match state.tick {
        700..1000 => ServoCommand::Stop,
        1300..1600 => ServoCommand::Damp,
        1650 => ServoCommand::Stop,
        _ => ServoCommand::Position(PositionCommand::hold(0.0)),
    };
    let outcome = run_robot(&joint(""), Box::new(Doing(resting)), 3);
    let causes: Vec<_> = outcome.stats.transitions.iter().map(|transition| transition.cause).collect();
    assert_eq!(causes[3], Cause::TimeOver, "{causes:?}");
}

#[test]
fn no_shipped_robot_is_cut() {
    for file in ["quadruped", "pan_tilt", "arm"] {
        let path = format!("{}/../../robots/{file}.toml", env!("CARGO_MANIFEST_DIR"));
        let config = RobotConfig::load(path).unwrap();
        let outcome = run_robot(&config, assemble::controller(&config.controller), 4);
        assert_eq!(outcome.stats.transitions[3].cause, Cause::TimeOver, "{file}: {}", outcome.cause());
        assert_eq!(outcome.machine.supervisor().clamped(), 0, "{file}");
    }
}

/// The rates of slow machines, and ours.
const RATES_HZ: [f64; 4] = [20.0, 100.0, 200.0, 1000.0];

/// The joint of [`joint`] at another rate.
fn joint_at(rate_hz: f64, more: &str) -> RobotConfig {
    let limits = "limits = { position = [-0.5, 0.5], velocity = 2.0, torque = 5.0 }";
    // Replies of one servo in a row, which at 20 Hz would be half a second.
    let late = "stale_ms = 500.0\nanswer_s = 10.0\nvelocity_factor = 100.0\nposition_tolerance = 10.0";
    robot(limits, &format!("[loop]\nrate_hz = {rate_hz}\n[supervisor]\n{late}\n{more}"))
}

#[test]
fn velocity_control_keeps_the_limits_at_every_rate() {
    for rate_hz in RATES_HZ {
        let outcome = run_robot(&joint_at(rate_hz, ""), always(free(1.9, 0.0, 1.0)), 4);
        assert!(outcome.motion.active as f64 > 3.0 * rate_hz, "{rate_hz} Hz: {}", outcome.cause());
        assert!(outcome.motion.range[1] < 0.5 + BRAKING, "{rate_hz} Hz: {:?}", outcome.motion.range);
        assert!(outcome.motion.fastest < 2.2, "{rate_hz} Hz: {} rad/s", outcome.motion.fastest);
    }
}

#[test]
fn a_loop_too_slow_to_brake_takes_no_torque() {
    for kp_scale in [0.0, 1e-6, 0.1, 0.2, 1.0] {
        for rate_hz in RATES_HZ.into_iter().filter(|hz| *hz < 200.0) {
            let pushing =
                PositionCommand { torque: 1.0, kp_scale, kd_scale: 0.0, ..PositionCommand::hold(0.0) };
            let outcome = run_robot(&joint_at(rate_hz, ""), always(pushing), 4);
            assert!(outcome.cause().contains("torque_control_hz"), "{rate_hz} Hz: {}", outcome.cause());
            assert!(outcome.motion.fastest < 0.1, "{rate_hz} Hz: {} rad/s", outcome.motion.fastest);
        }
    }
    let pushing = PositionCommand { torque: 0.1, kp_scale: 0.0, kd_scale: 0.0, ..PositionCommand::hold(0.0) };
    let outcome = run_robot(&joint_at(100.0, "torque_control_hz = 50.0"), always(pushing), 1);
    assert!(!outcome.cause().contains("torque_control_hz"), "a lower rate may be allowed");
    let outcome = run_robot(&robot("", "[loop]\nrate_hz = 100"), always(pushing), 1);
    assert!(!outcome.cause().contains("torque_control_hz"), "a joint without limits has none to keep");
}

#[test]
fn a_joint_whose_speed_is_not_asked_for_takes_no_torque_without_position_control() {
    let config = joint("query = { velocity = \"none\" }");
    let outcome = run_robot(&config, always(free(0.0, 1.0, 0.0)), 2);
    assert!(outcome.cause().contains("query.velocity"), "{}", outcome.cause());
    assert!(outcome.motion.range[1] < 0.01, "{:?}", outcome.motion.range);
    let held = PositionCommand { torque: 0.5, ..PositionCommand::hold(0.0) };
    let outcome = run_robot(&config, always(held), 1);
    assert!(!outcome.cause().contains("query.velocity"), "{}", outcome.cause());
}

/// For a second the joint cannot follow its target; then it can.
fn held_back(weak: PositionCommand, ramp_ticks: u64) -> impl FnMut(&RobotState) -> ServoCommand + Send {
    let full = PositionCommand::hold(0.4);
    move |state| {
        let active_ticks = state.tick.saturating_sub(20);
        let since = active_ticks.saturating_sub(1000) as f64 / ramp_ticks.max(1) as f64;
        let kp_scale = if weak.kp_scale < 1.0 { since.clamp(weak.kp_scale, 1.0) } else { 1.0 };
        let command = if active_ticks < 1000 { weak } else { PositionCommand { kp_scale, ..full } };
        ServoCommand::Position(command)
    }
}

#[test]
fn a_joint_that_could_not_follow_its_target_is_not_driven_after_it_all_at_once() {
    let target = PositionCommand::hold(0.4);
    let weak = [
        PositionCommand { kp_scale: 0.003, ..target },
        PositionCommand { max_torque: 0.0, ..target },
        PositionCommand { max_torque: 1e-4, ..target },
    ];
    let int8 = "command = { kp_scale = \"int8\" }";
    for (weak, ramp_ticks) in weak.iter().flat_map(|weak| [0, 100].map(|ticks| (*weak, ticks))) {
        let outcome = run_robot(&joint(int8), Box::new(Doing(held_back(weak, ramp_ticks))), 3);
        let motion = &outcome.motion;
        assert!(motion.fastest < 2.4, "{weak:?}, {ramp_ticks} ticks: {} rad/s", motion.fastest);
        assert!((motion.range[1] - 0.4).abs() < 0.02, "{weak:?}, {ramp_ticks} ticks: {:?}", motion.range);
    }
}

#[test]
fn next_to_no_position_gain_gets_no_joint_past_its_limits() {
    for (format, kp_scale) in [("float", 1e-6), ("int8", 0.003), ("float", 0.19)] {
        let servo =
            format!("command.kp_scale = \"{format}\"\nlimits = {{ position = [-0.5, 0.5], torque = 5.0 }}");
        let pushing = PositionCommand { torque: 1.0, kp_scale, kd_scale: 0.0, ..PositionCommand::hold(0.0) };
        let outcome = run_robot(&robot(&servo, ""), always(pushing), 2);
        assert!(outcome.motion.active > 1900, "{}", outcome.cause());
        assert!(outcome.motion.range[1] < 0.5 + BRAKING, "{format} {kp_scale}: {:?}", outcome.motion.range);
    }
}

#[test]
fn torque_beside_some_position_gain_carries_no_joint_past_its_limits() {
    for kp_scale in [0.02, 0.1, 0.3, 1.0] {
        for limits in ["torque = 5.0", "torque = 5.0, velocity = 8.0"] {
            let pushing =
                PositionCommand { torque: 4.9, kp_scale, kd_scale: 0.2, ..PositionCommand::hold(0.0) };
            let config = robot(&format!("limits = {{ position = [-0.5, 0.5], {limits} }}"), "");
            let outcome = run_robot(&config, always(pushing), 2);
            assert!(outcome.motion.active > 1900, "{kp_scale} {limits}: {}", outcome.cause());
            assert!(
                outcome.motion.range[1] < 0.5 + BRAKING,
                "{kp_scale} {limits}: {:?}",
                outcome.motion.range
            );
        }
    }
}

#[test]
fn a_target_with_a_velocity_does_not_run_past_the_limit_at_low_rates() {
    for rate_hz in RATES_HZ {
        let pushing = PositionCommand { velocity: 2.0, ..PositionCommand::hold(0.49) };
        let outcome = run_robot(&joint_at(rate_hz, ""), always(pushing), 3);
        assert!(outcome.motion.range[1] < 0.5 + BRAKING, "{rate_hz} Hz: {:?}", outcome.motion.range);
    }
}

/// Ticks in which the robot is at rest.
struct AtRest(u64);

impl Observer for AtRest {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0 += u64::from(tick.machine.phase().is_over());
    }
}

#[test]
fn stop_is_sent_often_enough_to_arrive_at_every_rate() {
    for rate_hz in RATES_HZ {
        // It falls silent, but may still receive.
        let silent = "[bus.main.faults]\nevents = [{ at_s = 2.0, kind = \"silence\", id = 1 }]";
        let mut machine = assemble::machine(&joint_at(rate_hz, silent), Box::<Hold>::default()).unwrap();
        let options = RunOptions {
            period_ns: machine.state().period_ns,
            overrun: khz_rt::Overrun::Skip,
            frame_patience_ns: None,
            duration_ns: Some(3_000_000_000),
            stop: Arc::default(),
        };
        let mut rest = AtRest(0);
        run(&mut machine, &mut VirtualTime::new(0), &options, &mut [&mut rest]);
        assert!(rest.0 >= 5, "{rate_hz} Hz: stop was sent in {} ticks", rest.0);
    }
}

#[test]
fn a_torque_limit_below_the_step_of_its_format_is_refused() {
    let text = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n\
                limits.torque = 0.4\ncommand.max_torque = \"int8\"";
    let error = RobotConfig::parse(text, "test").unwrap_err().to_string();
    assert!(error.contains("too coarse") && error.contains("0.5 N·m"), "{error}");
}
