//! Requests together with the supervisor: requests late, twice, in another order and from two senders, in every state.
//!
//! No network is modelled: in any tick a request of any age may arrive, which includes every delay, repetition and order. The
//! process may be frozen for any number of periods, also between the arrival of a request and the tick that acts.

use crate::events::{Event, ServoEvent, Tick};
use crate::key::{Caps, EPOCH_NS, Key, key};
use khz_file::config::RobotConfig;
use khz_loop::parameters::Source;
use khz_loop::requests::{self, Made, RULES, Request};
use khz_loop::steer::Stick;
use khz_loop::supervisor::{Cause, Phase, Supervisor};
use khz_robot::assemble;
use std::collections::HashMap;

/// Long, so that an age is a few periods: nothing in requests and supervisor knows how long a tick is.
const PERIOD_NS: i64 = 100_000_000;
/// Ages in periods: beyond the oldest, all are the same.
const AGES: i64 = 6;
const CAPS: Caps =
    Caps { age_ns: AGES * PERIOD_NS, count: 10, long_age_ns: AGES * PERIOD_NS, long_count: 11 };
const ARM_NS: i64 = 400_000_000;
const STEER_NS: i64 = 300_000_000;

/// What may happen in a period.
#[derive(Clone, Debug, PartialEq)]
enum Happens {
    /// The process is frozen: time passes without a tick.
    Frozen,
    /// A tick in which these events happen.
    Tick(Vec<Event>),
    /// A tick before which a request to arm of this age has arrived.
    Arm(i64),
    /// As `Arm`, but the process is frozen before the tick.
    ArmThenFrozen(i64),
    /// A request to stop, of any age.
    Stop,
}

fn all() -> Vec<Happens> {
    let ticks = [
        vec![],
        vec![Event::OperatorSilent],
        vec![Event::Servo(0, ServoEvent::Missed)],
        vec![Event::Servo(0, ServoEvent::Stale)],
        vec![Event::Servo(0, ServoEvent::Fault)],
        vec![Event::Servo(0, ServoEvent::OutOfLimits)],
    ];
    let arms = (0..=AGES).flat_map(|age| [Happens::Arm(age), Happens::ArmThenFrozen(age)]);
    let others = [Happens::Frozen, Happens::Stop];
    ticks.map(Happens::Tick).into_iter().chain(arms).chain(others).collect()
}

#[derive(Clone)]
struct World {
    supervisor: Supervisor,
    now_ns: i64,
    /// The phase that the last tick has shown.
    shown: Phase,
    /// What the console holds for the next tick.
    held: Option<i64>,
    /// The law's own: when the newest request was decided that arrived in this stay in idle.
    asked_ns: Option<i64>,
}

impl World {
    fn key(&self) -> Key {
        // Written as the supervisor's fields are, so that the times become ages.
        #[derive(Debug)]
        #[allow(dead_code, reason = "read by Debug")]
        struct All<'a>(&'a Supervisor, Phase, Option<i64>, Option<i64>, Option<Cause>);
        let Self { supervisor, now_ns, shown, held, asked_ns } = self;
        key(&All(supervisor, *shown, *held, *asked_ns, supervisor.blame()), *now_ns, CAPS)
    }

    fn after(&self, happens: &Happens, robot: &RobotConfig, tick: &mut Tick) -> Result<Self, String> {
        let mut world = self.clone();
        let tick = &mut *tick;
        match happens {
            Happens::Frozen => world.now_ns += PERIOD_NS,
            Happens::Tick(events) => world.tick(events, robot, tick)?,
            Happens::Arm(age) => {
                world.arrives(*age);
                world.tick(&[], robot, tick)?;
            }
            Happens::ArmThenFrozen(age) => {
                world.arrives(*age);
                world.now_ns += PERIOD_NS;
            }
            Happens::Stop => {
                let now_ns = world.now_ns;
                let of_any_age = Made { decided_ns: i64::MIN, phase: None };
                Request::Stop.admit(of_any_age, now_ns, world.shown).map_err(|why| why.to_string())?;
                world.tick(&[Event::Stop(Cause::OperatorStop)], robot, tick)?;
                let after = world.supervisor.phase();
                let obeyed = matches!(after, Phase::Damping | Phase::Stopped | Phase::Fault);
                law(obeyed, || format!("asked to stop it is in {after:?}"))?;
            }
        }
        Ok(world)
    }

    /// As `Console::arm` does it beside the loop.
    fn arrives(&mut self, age: i64) {
        let decided_ns = self.now_ns - age * PERIOD_NS;
        if Request::Arm.admit(Made { decided_ns, phase: None }, self.now_ns, self.shown).is_ok() {
            self.held = Some(decided_ns);
            self.asked_ns = self.asked_ns.max(Some(decided_ns));
        }
    }

    fn tick(&mut self, events: &[Event], robot: &RobotConfig, tick: &mut Tick) -> Result<(), String> {
        self.now_ns += PERIOD_NS;
        let now_ns = self.now_ns;
        tick.set(self.supervisor.phase(), now_ns, events, &robot.supervisor_settings());
        if let Some(decided_ns) = self.held.take() {
            requests::arm(&mut self.supervisor, decided_ns, now_ns);
        }
        self.supervisor.observe(&tick.state, &tick.seen);
        if self.supervisor.phase() == Phase::Armed {
            self.supervisor.controller_started(&tick.state);
        }
        self.supervisor.govern(&mut tick.commands, &tick.state);
        for transition in self.supervisor.take_transitions() {
            if transition.to == Phase::Armed {
                let asked_ns = self.asked_ns.ok_or("armed without a request of this stay in idle")?;
                let age_ns = now_ns - asked_ns;
                law(age_ns <= ARM_NS, || format!("armed by a request {} ms old", age_ns / 1_000_000))?;
            }
            if transition.from == Phase::Idle {
                self.asked_ns = None;
            }
        }
        self.shown = self.supervisor.phase();
        Ok(())
    }
}

fn law(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn waiting_robot() -> RobotConfig {
    let text = "[loop]\nrate_hz = 10\n[bus.main]\nlink = \"emulated\"\n[supervisor]\narming = \"operator\"\nanswer_s = 0.2\n\
        answer_ticks = 2\ngrace_s = 0.2\nmissed_replies = 2\nstale_ms = 200.0\noverruns = 2\ncontroller_slow = 2\ndamping_s = 0.3\n\
        still_s = 0.1\nheartbeat_ms = 30.0\nheartbeat_from = \"stdin\"\n[[servo]]\nname = \"s\"\nbus = \"main\"\nid = 1\nwatchdog_s = 0.5\n\
        limits = { position = [-1.0, 1.0], velocity = 20.0 }\n";
    RobotConfig::parse(text, "waiting.toml").unwrap()
}

/// Every state that any sequence of requests, freezes and faults leads to. The error has the sequence.
fn explore(most_states: usize) -> Result<(usize, [usize; 7]), String> {
    let robot = waiting_robot();
    let mut tick = Tick::new(1, PERIOD_NS);
    let supervisor = assemble::supervisor(&robot);
    let first = World { supervisor, now_ns: EPOCH_NS, shown: Phase::Init, held: None, asked_ns: None };
    let mut known = HashMap::from([(first.key(), 0)]);
    let mut worlds = vec![(first, 0, Happens::Frozen)];
    let (happens, mut at) = (all(), 0);
    while at < worlds.len() {
        for what in &happens {
            let world = worlds[at].0.after(what, &robot, &mut tick);
            let world = world.map_err(|broken| format!("{broken}\n{}", way(&worlds, at, what)))?;
            let next = worlds.len();
            if *known.entry(world.key()).or_insert(next) == next {
                worlds.push((world, at, what.clone()));
            }
        }
        law(worlds.len() <= most_states, || format!("more than {most_states} states"))?;
        at += 1;
    }
    let mut phases = [0; 7];
    worlds.iter().for_each(|(world, ..)| phases[world.supervisor.phase() as usize] += 1);
    Ok((worlds.len(), phases))
}

fn way(worlds: &[(World, usize, Happens)], mut at: usize, last: &Happens) -> String {
    let mut text = vec![format!("{last:?}")];
    while at != 0 {
        text.push(format!("{:?}", worlds[at].2));
        at = worlds[at].1;
    }
    text.reverse();
    text.join("\n")
}

#[test]
fn no_request_arms_a_robot_late_and_a_stop_is_obeyed_in_every_state() {
    let (states, phases) = explore(100_000).unwrap_or_else(|broken| panic!("{broken}"));
    println!("requests and the supervisor: {states} states (by phase {phases:?})");
    assert!(phases[Phase::Active as usize] > 0 && phases[Phase::Idle as usize] > 0, "{phases:?}");
}

/// The rules above are written down once more: a rule that becomes weaker must be weakened here, too.
#[test]
fn the_rules_are_those_that_are_explored() {
    assert_eq!(RULES.map(|rule| rule.at_most_ns), [None, Some(ARM_NS), Some(1_000_000_000), Some(STEER_NS)]);
}

/// A person at a stick.
fn sender(number: usize) -> Source {
    Source::from(["udp 10.0.0.1:1", "udp 10.0.0.2:1"][number]).unwrap()
}

/// When each sender's newest input was taken: when it was decided, and its number.
type Newest = [Option<(i64, Option<u64>)>; 2];

/// In every state of the stick, any input of two senders with any number and of any age.
#[test]
fn the_stick_has_one_sender_in_order_whatever_arrives() {
    let numbers = [None, Some(0), Some(1), Some(2), Some(u64::MAX)];
    let now_ns = EPOCH_NS;
    let (mut states, mut at) = (vec![(Stick::default(), Newest::default(), 0)], 0);
    let mut known = std::collections::HashSet::new();
    let mut inputs = 0;
    while at < states.len() {
        let (stick, newest, passed) = states[at].clone();
        let now_ns = now_ns + passed * PERIOD_NS;
        for (who, number, age) in (0..2).flat_map(|who| {
            numbers.iter().flat_map(move |number| (-1..=AGES).map(move |age| (who, *number, age)))
        }) {
            let decided_ns = now_ns - age * PERIOD_NS;
            let (mut after, mut taken) = (stick.clone(), newest);
            let result = after.take(sender(who), number, decided_ns, now_ns);
            inputs += 1;
            let text = || format!("{stick:?} takes {number:?} of {who}, {age} periods old: {result:?}");
            let holds = |one: usize| newest[one].filter(|(at_ns, _)| now_ns - at_ns <= STEER_NS);
            let is_fresh = (0..=STEER_NS / PERIOD_NS).contains(&age);
            let is_next = holds(who).is_none_or(|(at_ns, last)| {
                decided_ns >= at_ns && last.is_none_or(|last| number.is_some_and(|number| number > last))
            });
            // Taken exactly if it is fresh, next of its sender, and the other does not hold the stick.
            assert_eq!(result.is_ok(), is_fresh && is_next && holds(1 - who).is_none(), "{}", text());
            match result {
                Ok(()) => taken[who] = Some((decided_ns, number)),
                Err(_) => assert_eq!(after, stick, "{}", text()),
            }
            // Who has let go has no place in the order any more.
            let taken = taken.map(|one| one.filter(|(at_ns, _)| now_ns - at_ns <= STEER_NS));
            for passes in [0, 1] {
                let later_ns = now_ns + passes * PERIOD_NS;
                if known.insert(key(&(&after, taken), later_ns, CAPS)) {
                    states.push((after.clone(), taken, passed + passes));
                }
            }
        }
        at += 1;
        assert!(at < 100_000, "it does not end");
    }
    println!("the stick: {} states, {inputs} inputs", states.len());
}
