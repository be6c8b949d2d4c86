//! The built-in controller `walk` on an emulated quadruped, with the bytes of all its servos, in virtual time.

use khz_controllers::Walk;
use khz_emu::{Trunk, World};
use khz_file::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::ServoCommand;
use khz_loop::controller::{ControlError, Controller};
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::state::{RobotState, Teleop};
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::time::VirtualTime;
use khz_robot::assemble;
use khz_wire::Request;
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex};

/// When the robot has stood up, s.
const STANDS_S: f64 = 2.5;

/// Where the trunk was in a tick.
#[derive(Clone, Copy)]
struct Place {
    t: f64,
    trunk: Trunk,
    touches: bool,
}

impl Place {
    fn tilt(&self) -> f64 {
        let [_, x, y, _] = self.trunk.attitude;
        (1.0 - 2.0 * (x * x + y * y)).clamp(-1.0, 1.0).acos()
    }
}

/// The emulated machine, reporting where its trunk is.
struct Watched {
    world: World,
    place: Arc<Mutex<Place>>,
}

impl Link for Watched {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, begin_cycle, next_event_ns, imu, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.world.send(channel, request.frame, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.world.receive(now_ns);
        let mut place = self.place.lock().unwrap();
        place.t = now_ns as f64 * 1e-9;
        place.trunk = self.world.body().trunk();
        place.touches |= self.world.body().forces().unwrap().trunk_touches && place.t > STANDS_S;
        received
    }
}

/// Walks as `operator` wants at each time.
struct Driven<F> {
    walk: Walk,
    state: RobotState,
    operator: F,
}

impl<F: FnMut(f64) -> Teleop + Send> Controller for Driven<F> {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.walk.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.state.copy_from(state);
        self.state.teleop = (self.operator)(state.time());
        let (result, heap) = khz_rt::alloc_trap::forbid(|| self.walk.update(&self.state, commands));
        heap.assert_untouched();
        result
    }
}

/// Every tick's place while the robot is active.
struct Path {
    place: Arc<Mutex<Place>>,
    places: Vec<Place>,
}

impl Observer for Path {
    fn tick(&mut self, tick: &Tick<'_>) {
        if tick.machine.phase() == Phase::Active {
            self.places.push(*self.place.lock().unwrap());
        }
    }
}

struct Walked {
    places: Vec<Place>,
}

fn robot() -> RobotConfig {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/quadruped_walk.toml");
    RobotConfig::load(file).unwrap()
}

/// Lets the robot walk for `seconds`. It must never touch the ground with its trunk, nor tilt beyond 0.3 rad, and the
/// supervisor must have nothing to clamp.
fn walk(seconds: f64, operator: impl FnMut(f64) -> Teleop + Send + 'static) -> Walked {
    let config = robot();
    let khz_file::config::ControllerConfig::Walk(parameters) = config.controller else { panic!() };
    let place = Arc::new(Mutex::new(Place { t: 0.0, trunk: Trunk::UPRIGHT, touches: false }));
    let link = Watched { world: config.emulate().unwrap(), place: Arc::clone(&place) };
    let driven = Driven { walk: Walk::new(parameters), state: assemble::state(&config), operator };
    let mut machine = assemble::machine_on(&config, Box::new(driven), Box::new(link));
    let mut path = Path { place, places: Vec::new() };
    let mut stats = RunStats::new(100_000);
    let options = RunOptions {
        period_ns: config.timing.period_ns(),
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some((seconds * 1e9) as i64),
        stop: Arc::default(),
    };
    run(&mut machine, &mut VirtualTime::new(0), &options, &mut [&mut stats, &mut path]);

    assert_eq!(stats.transitions[3].cause, Cause::TimeOver, "{:?}", stats.transitions);
    let last = path.places.last().unwrap();
    assert!(!last.touches, "the trunk touched the ground");
    let tilt = path.places.iter().filter(|place| place.t > STANDS_S).map(Place::tilt).fold(0.0, f64::max);
    assert!(tilt < 0.3, "{tilt} rad");
    assert_eq!(machine.supervisor().clamped(), 0, "commands clamped");
    Walked { places: path.places }
}

impl Walked {
    fn at(&self, t: f64) -> &Place {
        self.places.iter().find(|place| place.t >= t).unwrap()
    }

    /// Mean velocity between two times, as the trunk sees it: forwards, to the left, turning.
    fn velocity(&self, from: f64, to: f64) -> [f64; 3] {
        let (mut sum, mut ticks) = ([0.0; 3], 0.0);
        for pair in self.places.windows(2).filter(|pair| pair[0].t >= from && pair[1].t <= to) {
            let (sin, cos) = pair[0].trunk.yaw().sin_cos();
            let [x, y] = [0, 1].map(|axis| pair[1].trunk.position[axis] - pair[0].trunk.position[axis]);
            let turned = (pair[1].trunk.yaw() - pair[0].trunk.yaw() + 0.5 * TAU).rem_euclid(TAU) - 0.5 * TAU;
            let moved = [cos * x + sin * y, cos * y - sin * x, turned];
            let dt = pair[1].t - pair[0].t;
            sum = [0, 1, 2].map(|axis| sum[axis] + moved[axis]);
            ticks += dt;
        }
        sum.map(|sum| sum / ticks)
    }
}

fn input(forward: f64, left: f64, turn: f64) -> Teleop {
    Teleop { forward, left, turn, age_ns: 0, ..Teleop::NONE }
}

/// Three seconds of an input, after the robot stands and has got going.
fn follows(wanted: [f64; 3]) {
    let [forward, left, turn] = wanted;
    let walked = walk(7.0, move |t| if t < STANDS_S { Teleop::NONE } else { input(forward, left, turn) });
    let is = walked.velocity(STANDS_S + 1.0, STANDS_S + 4.0);
    for (axis, (is, wanted)) in is.iter().zip(wanted).enumerate() {
        let scale = [0.3, 0.15, 0.8][axis];
        let allowed = 0.3 * f64::max(wanted.abs(), 0.5 * scale);
        assert!((is - wanted).abs() < allowed, "axis {axis}: {is} instead of {wanted}");
    }
}

#[test]
fn walks_forwards() {
    follows([0.3, 0.0, 0.0]);
}

#[test]
fn walks_backwards() {
    follows([-0.3, 0.0, 0.0]);
}

#[test]
fn walks_sideways() {
    follows([0.0, 0.15, 0.0]);
}

#[test]
fn turns() {
    follows([0.0, 0.0, 0.8]);
}

#[test]
fn walks_mixtures() {
    follows([0.2, 0.1, 0.0]);
    follows([0.3, 0.0, -0.5]);
    follows([-0.15, -0.1, 0.4]);
}

#[test]
fn walks_at_full_speed() {
    follows([0.4, 0.0, 0.0]);
}

/// The greatest speed of the trunk in a time, forwards or to the left, m/s; means of 50 ms.
fn fastest(walked: &Walked, from: f64, to: f64) -> f64 {
    let windows = (0..).map(|n| from + 0.05 * f64::from(n)).take_while(|&t| t + 0.05 < to);
    let speed = |t| walked.velocity(t, t + 0.05)[..2].iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    windows.map(speed).fold(0.0, f64::max)
}

#[test]
fn stops_within_half_a_second_of_the_end_of_inputs() {
    for age_ns in [0, i64::MAX] {
        let stop = Teleop { age_ns, ..Teleop::NONE };
        let walked = walk(8.0, move |t| match t {
            t if t < STANDS_S => Teleop::NONE,
            t if t < 6.0 => input(0.4, 0.0, 0.0),
            _ => stop,
        });
        let left = walked.at(6.5).trunk.position[0] - walked.at(7.9).trunk.position[0];
        assert!(left.abs() < 0.02, "{left} m after it should have stopped");
        assert!(fastest(&walked, 6.5, 6.9) < 0.1, "{}", fastest(&walked, 6.5, 6.9));
        assert!(fastest(&walked, 7.2, 7.9) < 0.01, "stands still");
    }
}

#[test]
fn jumps_from_full_forwards_to_full_backwards_and_more_do_not_upset_it() {
    let inputs = [input(0.5, 0.0, 0.0), input(-0.5, 0.0, 0.0), input(0.5, 0.3, 1.2), input(-0.5, -0.3, -1.2)];
    walk(15.0, move |t| if t < STANDS_S { Teleop::NONE } else { inputs[(t / 0.7) as usize % 4] });
}

#[test]
fn leans_and_lifts_as_the_operator_wants() {
    let still = input(0.0, 0.0, 0.0);
    let lean = Teleop { roll: 0.12, pitch: -0.1, ..still };
    let walked = walk(6.0, move |t| if t < STANDS_S { Teleop::NONE } else { lean });
    let [w, x, y, z] = walked.at(5.9).trunk.attitude;
    let (roll, pitch) = (2.0 * (w * x + y * z), 2.0 * (w * y - x * z));
    assert!((roll - 0.12).abs() < 0.03 && (pitch + 0.1).abs() < 0.03, "{roll}, {pitch}");

    let lift = Teleop { height: 0.03, ..still };
    let walked = walk(6.0, move |t| if t < STANDS_S { Teleop::NONE } else { lift });
    let raised = walked.at(5.9).trunk.position[2] - walked.at(STANDS_S).trunk.position[2];
    assert!((raised - 0.03).abs() < 0.01, "{raised} m");
}

#[test]
fn no_operator_makes_it_fall() {
    for seed in 1..=4 {
        let mut numbers = Numbers(seed);
        let (mut now, mut until) = (Teleop::NONE, STANDS_S);
        walk(20.0, move |t| {
            if t >= until {
                until = t + 0.02 + 1.5 * numbers.next().abs();
                now = Teleop {
                    height: 0.05 * numbers.next(),
                    roll: 0.1 * numbers.next(),
                    pitch: 0.1 * numbers.next(),
                    age_ns: if numbers.next() > 0.8 { i64::MAX } else { 0 },
                    ..input(0.6 * numbers.next(), 0.4 * numbers.next(), 1.5 * numbers.next())
                };
            }
            now
        });
    }
}

/// Numbers between -1 and 1 (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
