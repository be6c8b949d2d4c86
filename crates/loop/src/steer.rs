//! Teleoperation: the newest input of a person who steers, for the loop.
//!
//! The stick is the heartbeat: its sender sends an input every 50 ms while it is held. An input that is too old when it
//! arrives is dropped and counted; one that no newer one follows grows old in the state, and once it is too old, nothing is asked for
//! any more ([`Teleop::fresh`]). So a frozen window, a closed laptop and a network that delivers late all look like silence.
//!
//! # Realtime contract
//! The loop's end ([`SteeringReceiver`]) neither allocates nor locks nor waits.

mod udp;

pub use udp::Receiver;

use crate::operator::Heartbeat;
use crate::parameters::Source;
use crate::requests::Request;
use crate::state::Teleop;
use khz_rt::{Reader, Writer, newest};
use khz_run::channel;
use khz_settings::section;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

section! {
    /// `[teleop]`: what a person who steers may ask for, and from where. The live view steers without `from`, too.
    TeleopConfig {
        /// Where inputs of your own programs are received, `udp:ADDRESS:PORT`. Anyone who reaches that address can steer.
        from: Option<String> = None, "";
        /// Fastest walk forwards or backwards.
        max_forward: f64 = 0.5, "m/s", 0.0 => 20.0;
        /// Fastest walk sideways.
        max_left: f64 = 0.3, "m/s", 0.0 => 20.0;
        /// Fastest turn.
        max_turn: f64 = 1.0, "rad/s", 0.0 => 20.0;
        /// Most that the body is raised or lowered.
        max_height: f64 = 0.05, "m", 0.0 => 1.0;
        /// Largest roll of the body.
        max_roll: f64 = 0.3, "rad", 0.0 => 1.5;
        /// Largest pitch of the body.
        max_pitch: f64 = 0.3, "rad", 0.0 => 1.5;
    }
}

/// An input on its way to the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// What is asked for, within the limits. Its age is counted from `decided_ns`.
    pub wanted: Teleop,
    /// When the person decided it, at the latest.
    pub decided_ns: i64,
    /// Who sent it.
    pub by: Source,
    /// Which one it is, from 1; 0: there was none.
    number: u64,
}

/// The loop's end.
pub struct SteeringReceiver {
    inputs: Reader<Input>,
    seen: u64,
    news: Option<Input>,
}

/// The end that receives inputs. Clones steer the same robot; the newest input counts.
#[derive(Clone)]
pub struct Steering(Arc<Shared>);

struct Shared {
    limits: TeleopConfig,
    heartbeat: Heartbeat,
    /// The mutex is between those who steer; the loop does not know it.
    inputs: Mutex<(Writer<Input>, Stick)>,
    counts: [AtomicU64; 4],
}

/// Who has the stick: one sender at a time, whose inputs come in their order. Only an input that is taken changes it, so no
/// sender can push another one out or ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stick(Option<Held>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    by: Source,
    seq: Option<u64>,
    decided_ns: i64,
}

/// Why an input was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Dropped {
    /// It was too old when it arrived, or older than the one before.
    Stale = STALE,
    /// It was not an input.
    Invalid = INVALID,
    /// Another sender has the stick.
    Other = OTHERS,
}

impl Stick {
    /// Takes an input of `by` that was decided at `decided_ns` at the latest, if it counts. `seq` is its number among those of
    /// its sender, if they have numbers; they begin anew when the sender was silent for so long that it has let go.
    ///
    /// # Errors
    /// Why it does not count; then nothing has changed.
    pub fn take(
        &mut self,
        by: Source,
        seq: Option<u64>,
        decided_ns: i64,
        now_ns: i64,
    ) -> Result<(), Dropped> {
        let is_fresh = |decided_ns: i64| Request::Steer.is_fresh(now_ns.saturating_sub(decided_ns));
        if decided_ns > now_ns || !is_fresh(decided_ns) {
            return Err(Dropped::Stale);
        }
        // One at a time: two sticks would throw the robot to and fro. A sender has it until its input is stale.
        let held = self.0.as_ref().filter(|held| is_fresh(held.decided_ns));
        if held.is_some_and(|held| held.by != by) {
            return Err(Dropped::Other);
        }
        let is_behind = |held: &Held| decided_ns < held.decided_ns || held.seq.is_some() && seq <= held.seq;
        if held.is_some_and(is_behind) {
            return Err(Dropped::Stale);
        }
        self.0 = Some(Held { by, seq, decided_ns });
        Ok(())
    }
}

/// What became of the inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct InputCounts {
    /// Handed to the loop.
    pub taken: u64,
    /// Dropped: too old when they arrived, or older than the one before.
    pub stale: u64,
    /// Dropped: not an input.
    pub invalid: u64,
    /// Dropped: another sender was steering.
    pub others: u64,
}

const TAKEN: usize = 0;
const STALE: usize = 1;
const INVALID: usize = 2;
const OTHERS: usize = 3;

impl Steering {
    /// Both ends. Every fresh input is a heartbeat.
    pub fn new(limits: &TeleopConfig, heartbeat: Heartbeat) -> (SteeringReceiver, Self) {
        let none = Input { wanted: Teleop::NONE, decided_ns: i64::MIN, by: Source::new(), number: 0 };
        let (writer, inputs) = newest(&none);
        let counts = [const { AtomicU64::new(0) }; 4];
        let inputs_in = Mutex::new((writer, Stick::default()));
        let shared = Shared { limits: limits.clone(), heartbeat, inputs: inputs_in, counts };
        (SteeringReceiver { inputs, seen: 0, news: None }, Self(Arc::new(shared)))
    }

    /// Hands an input over that was decided at `decided_ns` at the latest; returns whether it was taken. An input that is
    /// stale, older than the newest, or not a number is dropped and counted.
    pub fn steer(&self, wanted: &Teleop, decided_ns: i64, now_ns: i64, by: Source) -> bool {
        self.steer_in_order(wanted, None, decided_ns, now_ns, by)
    }

    /// As [`Steering::steer`], of a sender whose inputs have numbers.
    fn steer_in_order(
        &self,
        wanted: &Teleop,
        seq: Option<u64>,
        decided_ns: i64,
        now_ns: i64,
        by: Source,
    ) -> bool {
        let Some(wanted) = self.limited(wanted) else { return self.count(INVALID) };
        let mut inputs = self.0.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let (writer, stick) = &mut *inputs;
        if let Err(why) = stick.take(by, seq, decided_ns, now_ns) {
            return self.count(why as usize);
        }
        let number = self.0.counts[TAKEN].load(Ordering::Relaxed) + 1;
        *writer.value() = Input { wanted, decided_ns, by, number };
        writer.publish();
        self.0.heartbeat.beat(decided_ns);
        self.count(TAKEN)
    }

    /// As [`Steering::steer`], of an input as it was read; none is one that could not be, which is counted. Returns whether it was
    /// taken.
    pub fn steer_as_read(
        &self,
        input: Option<channel::Teleop>,
        decided_ns: i64,
        now_ns: i64,
        by: Source,
    ) -> bool {
        match input {
            Some(wanted) => self.steer(&wanted.into(), decided_ns, now_ns, by),
            None => self.count(INVALID),
        }
    }

    /// As [`Steering::steer`], of an input as JSON: `{"forward": 0.3, "turn": -0.1}`; what is not named is 0.
    pub fn steer_by(&self, input: &Value, decided_ns: i64, now_ns: i64, by: Source) -> bool {
        self.steer_by_numbered(input, None, decided_ns, now_ns, by)
    }

    fn steer_by_numbered(
        &self,
        input: &Value,
        seq: Option<u64>,
        decided_ns: i64,
        now_ns: i64,
        by: Source,
    ) -> bool {
        match channel::Teleop::read(input) {
            Ok(wanted) => self.steer_in_order(&wanted.into(), seq, decided_ns, now_ns, by),
            Err(_) => self.count(INVALID),
        }
    }

    /// What became of the inputs so far.
    pub fn counts(&self) -> InputCounts {
        let counts = self.0.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [taken, stale, invalid, others] = counts;
        InputCounts { taken, stale, invalid, others }
    }

    /// Counts it; returns whether it was taken.
    fn count(&self, what: usize) -> bool {
        self.0.counts[what].fetch_add(1, Ordering::Relaxed);
        what == TAKEN
    }

    /// Within the limits; nothing if a number is none.
    fn limited(&self, wanted: &Teleop) -> Option<Teleop> {
        let Teleop { forward, left, turn, height, roll, pitch, .. } = *wanted;
        let limits = &self.0.limits;
        if ![forward, left, turn, height, roll, pitch].iter().all(|value| value.is_finite()) {
            return None;
        }
        let within = |value: f64, limit: f64| value.clamp(-limit, limit);
        Some(Teleop {
            forward: within(forward, limits.max_forward),
            left: within(left, limits.max_left),
            turn: within(turn, limits.max_turn),
            height: within(height, limits.max_height),
            roll: within(roll, limits.max_roll),
            pitch: within(pitch, limits.max_pitch),
            age_ns: i64::MAX,
        })
    }
}

impl SteeringReceiver {
    /// The newest input as of `now_ns`, with its age; zero everywhere if it is stale by then: the process may have been stopped since
    /// it was taken.
    pub fn look(&mut self, now_ns: i64) -> Teleop {
        let input = self.inputs.read();
        let is_new = input.number != self.seen;
        self.seen = input.number;
        let seen = match input.number {
            0 => Teleop::NONE,
            // One that was decided after this tick read the clock counts as decided now.
            _ => Teleop { age_ns: (now_ns - input.decided_ns).max(0), ..input.wanted }.fresh(),
        };
        self.news = (is_new && seen.age_ns <= Teleop::STALE_NS).then_some(*input);
        seen
    }

    /// The input that the last look has taken, if it was a new one.
    pub fn news(&self) -> Option<&Input> {
        self.news.as_ref()
    }
}

impl From<channel::Teleop> for Teleop {
    fn from(input: channel::Teleop) -> Self {
        let channel::Teleop { forward, left, turn, height, roll, pitch } = input;
        Self { forward, left, turn, height, roll, pitch, age_ns: i64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::source;
    use serde_json::json;

    const MS: i64 = 1_000_000;

    fn both() -> (SteeringReceiver, Steering) {
        Steering::new(&TeleopConfig::default(), Heartbeat::new())
    }

    #[test]
    fn the_newest_input_is_seen_once_as_news_and_grows_old() {
        let (mut receiver, steering) = both();
        assert_eq!((receiver.look(0), receiver.news()), (Teleop::NONE, None));
        assert!(steering.steer_by(&json!({"forward": 0.2}), 90 * MS, 100 * MS, source("test")));
        assert!(steering.steer_by(&json!({"forward": 0.3, "turn": -0.1}), 95 * MS, 101 * MS, source("test")));
        let seen = receiver.look(102 * MS);
        assert_eq!((seen.forward, seen.turn, seen.age_ns), (0.3, -0.1, 7 * MS));
        assert_eq!(receiver.news().map(|news| news.by.as_str()), Some("test"));
        assert_eq!((receiver.look(500 * MS).age_ns, receiver.news()), (405 * MS, None));
    }

    /// Taken just before the process was stopped: a controller that did not look at its age obeyed it 0.6 s later.
    #[test]
    fn an_input_that_waited_for_its_tick_while_the_process_was_stopped_moves_nothing() {
        let (mut receiver, steering) = both();
        let wanted = Teleop { forward: 0.2, roll: 0.1, ..Teleop::NONE };
        assert!(steering.steer(&wanted, 100 * MS, 100 * MS, source("test")));
        assert_eq!(receiver.look(700 * MS), Teleop { age_ns: 600 * MS, ..Teleop::NONE });
        assert_eq!(receiver.news(), None, "no tick took it");
        assert!(steering.steer(&wanted, 710 * MS, 710 * MS, source("test")));
        assert_eq!(receiver.look(710 * MS + Teleop::STALE_NS).forward, 0.2);
        assert_eq!(receiver.look(711 * MS + Teleop::STALE_NS).forward, 0.0);
    }

    #[test]
    fn what_comes_late_or_out_of_order_is_dropped_and_is_no_heartbeat() {
        let (mut receiver, steering) = both();
        let input = json!({"forward": 0.2});
        assert!(!steering.steer_by(&input, 0, 301 * MS, source("late")));
        assert!(!steering.steer_by(&input, 302 * MS, 301 * MS, source("from the future")));
        assert_eq!(steering.0.heartbeat.age_ns(301 * MS), i64::MAX);
        assert!(steering.steer_by(&input, 300 * MS, 301 * MS, source("ours")));
        assert!(!steering.steer_by(&input, 200 * MS, 301 * MS, source("ours")));
        assert_eq!(steering.0.heartbeat.age_ns(301 * MS), MS);
        receiver.look(301 * MS);
        assert_eq!(receiver.news().map(|news| news.by.as_str()), Some("ours"));
        assert_eq!(steering.counts(), InputCounts { taken: 1, stale: 3, ..InputCounts::default() });
    }

    #[test]
    fn a_second_stick_waits_until_the_first_is_let_go() {
        let (mut receiver, steering) = both();
        let forward = |speed: f64, at_ms: i64, by| {
            steering.steer_by(&json!({ "forward": speed }), at_ms * MS, at_ms * MS, source(by))
        };
        assert!(forward(0.2, 0, "first") && !forward(-0.2, 10, "second") && forward(0.2, 50, "first"));
        assert_eq!(receiver.look(50 * MS).forward, 0.2);
        assert!(!forward(-0.2, 350, "second") && forward(-0.2, 351, "second"));
        assert_eq!((receiver.look(351 * MS).forward, steering.counts().others), (-0.2, 2));
    }

    #[test]
    fn inputs_are_limited_and_what_is_no_number_is_dropped() {
        let (mut receiver, steering) = both();
        assert!(steering.steer_by(&json!({"forward": 9, "left": -9, "roll": 0.1}), 0, 0, source("")));
        let seen = receiver.look(0);
        assert_eq!((seen.forward, seen.left, seen.roll), (0.5, -0.3, 0.1));
        for bad in [json!({"forward": "fast"}), json!({"turn": null}), json!([0.1]), json!(1)] {
            assert!(!steering.steer_by(&bad, 0, 0, source("")));
        }
        assert!(!steering.steer(&Teleop { turn: f64::NAN, ..Teleop::NONE }, 0, 0, source("")));
        assert_eq!(steering.counts().invalid, 5);
    }
}
