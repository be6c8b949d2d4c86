//! Changes of parameters: asked for beside the loop, taken at the start of a tick.

use super::ticket::{Answers, Asking, Fate, Taking, tickets};
use super::{Parameter, ParameterError, find, signal_of};
use crate::requests::{Made, Request as Asked};
use crate::supervisor::Phase;
use crate::timing::Clock;
use arrayvec::{ArrayString, ArrayVec};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many parameters one request may change.
pub const MOST_CHANGES: usize = 16;
/// Requests that may wait to be taken: one is per tick.
const ROOM: usize = 64;
/// Requests whose tick is remembered.
const REMEMBERED: usize = 1024;
/// How long [`LiveParameters::change`] waits for a loop that starts: to lock the memory of a large program takes seconds.
const START: Duration = Duration::from_secs(10);
/// How long it waits for a tick that takes the change.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);

/// Who asked, as far as there is room for it: what speaks there, and an address of IPv6 with zone and port. Two of them
/// must not become one.
pub type Source = ArrayString<96>;

/// Changes that are taken together.
struct Request {
    made: Made,
    by: Source,
    changes: ArrayVec<(u16, f64), MOST_CHANGES>,
}

/// A change that a tick has taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// Which parameter.
    pub parameter: u16,
    /// Its value from this tick on.
    pub value: f64,
    /// Its value until then.
    pub before: f64,
    /// Who asked.
    pub by: Source,
}

/// The loop's end.
pub struct Intake {
    list: Vec<Parameter>,
    requests: Taking<Request>,
    taken: ArrayVec<Taken, MOST_CHANGES>,
}

/// The parameters of a running robot, for everybody but its loop. Clones are of the same robot.
#[derive(Clone)]
pub struct LiveParameters(Arc<Shared>);

struct Shared {
    clock: Clock,
    list: Vec<Parameter>,
    /// The mutex is between those who ask; the loop does not know it.
    asking: Mutex<Asking<Request>>,
    answers: Arc<Answers>,
}

/// A request under way.
#[derive(Clone)]
pub struct Receipt {
    answers: Arc<Answers>,
    number: u64,
}

impl Intake {
    /// Both ends, for these parameters of a loop that runs by this clock.
    pub fn new(list: Vec<Parameter>, clock: Clock) -> (Self, LiveParameters) {
        let (asking, requests) = tickets(ROOM, REMEMBERED);
        let answers = asking.answers();
        let shared = Shared { clock, list: list.clone(), asking: Mutex::new(asking), answers };
        (Self { list, requests, taken: ArrayVec::new() }, LiveParameters(Arc::new(shared)))
    }

    /// Takes the oldest request, in this tick, if it still counts: it may have waited while the process was frozen. Neither
    /// allocates nor locks nor waits.
    pub fn take(&mut self, tick: u64, now_ns: i64, phase: Phase) {
        let Self { list, requests, taken } = self;
        taken.clear();
        requests.take(tick, |request| {
            if Asked::Change.admit(request.made, now_ns, phase).is_err() {
                return false;
            }
            for &(parameter, value) in &request.changes {
                let Some(changed) = list.get(usize::from(parameter)) else { continue };
                taken.push(Taken { parameter, value, before: changed.get(), by: request.by });
                changed.put(value);
            }
            true
        });
    }

    /// Of what the newest tick has taken, the signals: their places and values.
    pub(crate) fn signals(&self) -> impl Iterator<Item = (usize, f64)> {
        let of = |taken: &Taken| Some((signal_of(&self.list, taken.parameter.into())?, taken.value));
        self.taken.iter().filter_map(of)
    }

    /// What the newest tick has taken.
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }
}

impl LiveParameters {
    /// All of them; [`Parameter::get`] is the value that the newest tick has used.
    pub fn list(&self) -> &[Parameter] {
        &self.0.list
    }

    /// The value in force.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn get(&self, name: &str) -> Result<f64, ParameterError> {
        Ok(find(self.list(), name)?.1.get())
    }

    /// The number that stands for a value of JSON.
    ///
    /// # Errors
    /// There is no such parameter, or it is of another type.
    pub fn read(&self, name: &str, value: &serde_json::Value) -> Result<f64, ParameterError> {
        find(self.list(), name)?.1.read(value)
    }

    /// Asks for another value; the next ticks take it. Returns at once.
    ///
    /// # Errors
    /// As [`LiveParameters::set_all`].
    pub fn set(&self, name: &str, value: f64) -> Result<Receipt, ParameterError> {
        self.set_all("program", &[(name, value)])
    }

    /// Asks for several values that one tick takes together: all of them, or none. `by` is who asks, for the log. Counts for 1 s
    /// from now: no later tick takes it.
    ///
    /// # Errors
    /// An unknown name, a name twice, a value that is not taken, more than [`MOST_CHANGES`], a loop that has not taken
    /// earlier requests yet, or has ended.
    pub fn set_all(&self, by: &str, changes: &[(&str, f64)]) -> Result<Receipt, ParameterError> {
        self.set_all_as(by, changes, Made::now(self.0.clock))
    }

    /// As [`LiveParameters::set_all`]; blocks until a tick has taken the change, for at most 2 s, and 10 s before the first
    /// tick. Gives that tick; `None`: none has taken it yet, and one still may within 1 s.
    ///
    /// # Errors
    /// As [`LiveParameters::set_all`] and [`Receipt::tick`].
    pub fn change(&self, by: &str, changes: &[(&str, f64)]) -> Result<Option<u64>, ParameterError> {
        let answers = &self.0.answers;
        wait(START, || answers.has_begun() || answers.is_over());
        let receipt = self.set_all(by, changes)?;
        wait(PATIENCE, || !matches!(receipt.tick(), Ok(None)));
        receipt.tick()
    }

    /// As [`LiveParameters::set_all`], of a request that was made before. Does not wait for the tick that takes it.
    ///
    /// # Errors
    /// As there, and where the request is too old or its phase has passed.
    pub fn set_all_as(
        &self,
        by: &str,
        changes: &[(&str, f64)],
        made: Made,
    ) -> Result<Receipt, ParameterError> {
        let mut request = Request { made, by: source(by), changes: ArrayVec::new() };
        for (name, value) in changes {
            let (at, parameter) = find(self.list(), name)?;
            parameter.check(*value)?;
            if request.changes.iter().any(|(other, _)| usize::from(*other) == at) {
                return Err(ParameterError(format!("{name}: it is given twice")));
            }
            let more = || ParameterError(format!("at most {MOST_CHANGES} parameters change at once"));
            request.changes.try_push((at as u16, *value)).map_err(|_| more())?;
        }
        self.ask(request)
    }

    fn ask(&self, request: Request) -> Result<Receipt, ParameterError> {
        if self.0.answers.is_over() {
            return Err(ParameterError("the robot is down".to_owned()));
        }
        let number = self.0.asking.lock().unwrap_or_else(PoisonError::into_inner).ask(request);
        let busy = || ParameterError("the loop has not taken earlier changes yet; try again".to_owned());
        Ok(Receipt { answers: Arc::clone(&self.0.answers), number: number.ok_or_else(busy)? })
    }
}

impl Receipt {
    /// The tick that took the request; `None`: none has yet.
    ///
    /// # Errors
    /// The robot came down before one could, or the request did not count any more.
    pub fn tick(&self) -> Result<Option<u64>, ParameterError> {
        match self.answers.fate(self.number) {
            Fate::Waiting => Ok(None),
            Fate::Taken(tick) => Ok(Some(tick)),
            Fate::Refused => Err(ParameterError(
                "the change was not taken: it waited for longer than 1 s, or the robot changed its phase meanwhile; ask again"
                    .to_owned(),
            )),
            Fate::Over => Err(ParameterError("the robot came down before it took the change".to_owned())),
        }
    }
}

/// Blocks until it is done, or this long.
fn wait(patience: Duration, done: impl Fn() -> bool) {
    let deadline = Instant::now() + patience;
    while !done() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

/// Who asked, from a text that is cut off where there is no more room. Allocates nothing.
pub fn source(text: &str) -> Source {
    let mut source = Source::new();
    let _ = text.chars().try_for_each(|char| source.try_push(char));
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (Intake, LiveParameters) {
        let list = vec![Parameter::float("kp", 0.4, 0.0..=2.0), Parameter::boolean("on", false)];
        Intake::new(list, Clock::Virtual)
    }

    #[test]
    fn the_value_is_the_one_a_tick_has_taken() {
        let (mut intake, live) = both();
        let receipt = live.set("kp", 0.5).unwrap();
        assert_eq!((live.get("kp"), receipt.tick()), (Ok(0.4), Ok(None)));
        intake.take(7, 0, Phase::Active);
        assert_eq!((live.get("kp"), receipt.tick()), (Ok(0.5), Ok(Some(7))));
        let taken = Taken { parameter: 0, value: 0.5, before: 0.4, by: source("program") };
        assert_eq!(intake.taken(), [taken]);
        intake.take(8, 0, Phase::Active);
        assert_eq!((intake.taken(), receipt.tick()), (&[][..], Ok(Some(7))));
    }

    #[test]
    fn several_are_taken_together_or_not_at_all() {
        let (mut intake, live) = both();
        let refused = live.set_all("page", &[("kp", 1.0), ("on", 2.0)]).err().unwrap();
        assert_eq!(refused.0, "on: 2 is outside 0 to 1");
        assert!(live.set_all("page", &[("kp", 1.0), ("kp", 1.5)]).is_err());
        intake.take(1, 0, Phase::Active);
        assert_eq!(live.get("kp"), Ok(0.4));
        live.set_all("page", &[("kp", 1.0), ("on", 1.0)]).unwrap();
        intake.take(2, 0, Phase::Active);
        assert_eq!((live.get("kp"), live.get("on"), intake.taken().len()), (Ok(1.0), Ok(1.0), 2));
    }

    #[test]
    fn a_loop_that_takes_nothing_refuses_more_and_one_that_ended_takes_none() {
        let (intake, live) = both();
        let first = live.set("kp", 0.5).unwrap();
        let mut more = (1..=ROOM).map(|_| live.set("kp", 0.6));
        assert!(more.by_ref().take(ROOM - 1).all(|asked| asked.is_ok()));
        assert!(more.next().unwrap().is_err());
        drop(intake);
        assert!(first.tick().is_err() && live.set("kp", 0.7).err().unwrap().0.contains("down"));
    }

    #[test]
    fn a_change_that_waited_while_the_process_was_frozen_is_not_taken() {
        let (mut intake, live) = both();
        let made = Made { decided_ns: 0, phase: None };
        let receipt = live.set_all_as("page", &[("kp", 0.5)], made).unwrap();
        intake.take(7, 7_800_000_000, Phase::Active);
        assert_eq!((live.get("kp"), intake.taken().len()), (Ok(0.4), 0));
        assert!(receipt.tick().err().unwrap().0.contains("waited"));
        // The next one is not confused with it.
        let next =
            live.set_all_as("page", &[("kp", 0.6)], Made { decided_ns: 7_800_000_000, ..made }).unwrap();
        intake.take(8, 7_801_000_000, Phase::Active);
        assert_eq!((live.get("kp"), next.tick(), receipt.tick().is_err()), (Ok(0.6), Ok(Some(8)), true));
    }

    #[test]
    fn a_change_asked_in_idle_is_not_taken_under_control() {
        let (mut intake, live) = both();
        let asked =
            |phase| live.set_all_as("page", &[("kp", 0.5)], Made { decided_ns: 0, phase: Some(phase) });
        let receipt = asked(Phase::Idle).unwrap();
        intake.take(1, 0, Phase::Active);
        assert!(receipt.tick().is_err() && live.get("kp") == Ok(0.4));
        let receipt = asked(Phase::Active).unwrap();
        intake.take(2, 0, Phase::Active);
        assert_eq!((receipt.tick(), live.get("kp")), (Ok(Some(2)), Ok(0.5)));
    }

    #[test]
    fn a_change_asked_while_the_robot_starts_waits_for_its_first_tick() {
        let list = vec![Parameter::float("kp", 0.4, 0.0..=2.0)];
        let (mut intake, live) = Intake::new(list, Clock::Real);
        let other = live.clone();
        let asked = std::thread::spawn(move || other.change("python", &[("kp", 0.5)]));
        // A start of 2.5 s on a busy computer: asked before it, the change would have been too old in the first tick.
        std::thread::sleep(Duration::from_millis(20));
        let late_ns = khz_rt::now_ns() + 2_500_000_000;
        intake.take(0, late_ns, Phase::Active);
        let mut tick = 0;
        while !asked.is_finished() {
            tick += 1;
            intake.take(tick, khz_rt::now_ns(), Phase::Active);
            std::thread::sleep(LOOK);
        }
        assert!(asked.join().unwrap().unwrap().is_some() && live.get("kp") == Ok(0.5));
    }

    #[test]
    fn a_long_source_is_cut_off() {
        assert_eq!(source(&"ä".repeat(100)).as_str(), "ä".repeat(48));
        // At 48 bytes two operators at one computer became one, and both steered.
        let at =
            |port: u16| source(&format!("foxglove [1234:1234:1234:1234:1234:1234:1234:1234%wlan0]:{port}"));
        assert_ne!(at(50_001), at(50_002));
    }
}
