//! What to measure: the plan of one experiment and its words.

use super::load::Load;
use khz_rt::clock::Clock;
use khz_rt::{Overrun, Policy, Setup, Wake};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One experiment: a thread with a period, what it does in each, and what else the machine is made to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The period.
    pub period_ns: i64,
    /// How many ticks.
    pub ticks: u64,
    /// What the thread does in each tick.
    pub work: Work,
    /// How it waits for the next.
    pub wake: Wake,
    /// On which clock.
    pub clock: Clock,
    /// Its scheduling policy. `other` is a plain thread: no locked memory, default timer slack.
    pub policy: Policy,
    /// Its priority, for FIFO and RR.
    pub priority: u8,
    /// The CPU it is tied to.
    pub cpu: Option<usize>,
    /// What it does after a tick that took too long.
    pub overrun: Overrun,
    /// What else the machine does meanwhile.
    pub load: Load,
    /// Waking or work this much over the usual makes a tick late; a tenth of the period if not given.
    pub late_ns: Option<i64>,
    /// Refuse to measure with less than what is asked for.
    pub strict: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            period_ns: 1_000_000,
            ticks: 10_000,
            work: Work::None,
            wake: Wake::Hybrid,
            clock: Clock::Monotonic,
            policy: Policy::Fifo,
            priority: 80,
            cpu: None,
            overrun: Overrun::Skip,
            load: Load::default(),
            late_ns: None,
            strict: false,
        }
    }
}

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A period outside the range.
    #[error("a period of {0} ns cannot be measured: use 10us to 10s")]
    Period(i64),
    /// Nothing to do.
    #[error("no ticks to measure: give a longer duration or more ticks")]
    NoTicks,
    /// More work than time.
    #[error(
        "{work_ns} ns of work do not fit in a period of {period_ns} ns: shorten the work or lengthen the period"
    )]
    Work {
        /// The work.
        work_ns: i64,
        /// The period.
        period_ns: i64,
    },
}

impl Plan {
    /// Looks for what no machine could do.
    ///
    /// # Errors
    /// The first thing found.
    pub fn check(&self) -> Result<(), PlanError> {
        if !(10_000..=10_000_000_000).contains(&self.period_ns) {
            return Err(PlanError::Period(self.period_ns));
        }
        if self.ticks == 0 {
            return Err(PlanError::NoTicks);
        }
        match self.work {
            Work::Busy(work_ns) if work_ns >= self.period_ns => {
                Err(PlanError::Work { work_ns, period_ns: self.period_ns })
            }
            _ => Ok(()),
        }
    }

    /// What the measuring thread asks the kernel for.
    #[must_use]
    pub fn setup(&self) -> Setup {
        let base = if self.policy == Policy::Other { Setup::ordinary() } else { Setup::default() };
        Setup {
            policy: self.policy,
            priority: self.priority,
            cpu: self.cpu,
            period_ns: self.period_ns,
            strict: self.strict,
            ..base
        }
    }

    /// From when on a tick's waking or extra work is late.
    #[must_use]
    pub fn late_ns(&self) -> i64 {
        self.late_ns.unwrap_or(self.period_ns / 10)
    }

    /// The experiment in few words: `fifo 80, hybrid, cpu=4,mem=2`.
    #[must_use]
    pub fn name(&self) -> String {
        let policy = match self.policy {
            Policy::Other => "ordinary".to_owned(),
            Policy::Deadline => "deadline".to_owned(),
            policy => format!("{policy} {}", self.priority),
        };
        let clock = if self.clock == Clock::Realtime { ", realtime clock" } else { "" };
        let load = if self.load.is_none() { "idle".to_owned() } else { self.load.to_string() };
        format!("{policy}, {}{clock}, {load}", self.wake)
    }
}

/// What a tick does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Work {
    /// Nothing: the bare timing of the machine.
    #[default]
    None,
    /// A loop of this many divisions and additions of floating point numbers.
    Division(u32),
    /// Spinning for this many nanoseconds.
    Busy(i64),
}

impl Work {
    /// Does it. Realtime: no allocation.
    #[inline]
    pub fn run(self, tick: u64) {
        match self {
            Work::None => {}
            Work::Division(count) => divide(tick, count),
            Work::Busy(ns) => {
                let until_ns = khz_rt::now_ns() + ns;
                while khz_rt::now_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// The same sum every time but for its numerator, so that nothing of it can be kept from the last tick.
fn divide(tick: u64, count: u32) {
    let numerator = std::hint::black_box((tick % 100) as f64);
    let sum = (1..=count).fold(0.0, |sum, k| sum + numerator / f64::from(k));
    std::hint::black_box(sum);
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::None => write!(f, "none"),
            Work::Division(count) => write!(f, "division={count}"),
            Work::Busy(ns) => write!(f, "busy={ns}ns"),
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let help = || format!("no work `{text}`: use none, division=10000 or busy=200us");
        match text.split_once('=') {
            None if text == "none" => Ok(Work::None),
            Some(("division", count)) => count.parse().map(Work::Division).map_err(|_| help()),
            Some(("busy", time)) => khz_page::duration_ns(time).map(Work::Busy),
            _ => Err(help()),
        }
    }
}

impl TryFrom<String> for Work {
    type Error = String;

    fn try_from(text: String) -> Result<Work, String> {
        text.parse()
    }
}

impl From<Work> for String {
    fn from(work: Work) -> String {
        work.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_round_trips_and_a_wrong_one_says_how() {
        for text in ["none", "division=10000", "busy=200000ns"] {
            assert_eq!(text.parse::<Work>().unwrap().to_string(), text);
        }
        for bad in ["", "division", "division=x", "division=-1", "busy=5", "stress"] {
            assert!(bad.parse::<Work>().is_err(), "{bad}");
        }
    }

    #[test]
    fn impossible_plans() {
        let plan = Plan { period_ns: 0, ..Plan::default() };
        assert_eq!(plan.check(), Err(PlanError::Period(0)));
        assert_eq!(Plan { ticks: 0, ..Plan::default() }.check(), Err(PlanError::NoTicks));
        let plan = Plan { work: Work::Busy(2_000_000), ..Plan::default() };
        assert_eq!(plan.check(), Err(PlanError::Work { work_ns: 2_000_000, period_ns: 1_000_000 }));
        assert_eq!(Plan::default().check(), Ok(()));
    }
}
