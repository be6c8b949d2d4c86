//! What may be asked of a running robot from outside, how old a request may be, and in which phases it counts.
//!
//! Every way in asks here: the live view (the page, Foxglove, `khz param`, `khz-fleet`), UDP, pipes, and programs in Rust, Python
//! and C. A request that starts motion is checked twice: when it arrives, and in the tick that is to act. In between the process
//! may have been frozen. [`RULES`] is the table in `docs/safety.md`.
//!
//! # Realtime contract
//! [`Request::admit`] neither allocates nor locks nor reads a clock.

use crate::parameters::ParameterError;
use crate::state::Teleop;
use crate::supervisor::{Phase, Supervisor};
use crate::timing::Clock;
use std::fmt;

/// Something asked of a running robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Bring the robot down.
    Stop,
    /// Arm the robot.
    Arm,
    /// Change parameters of the controller.
    Change,
    /// An input of a person who steers.
    Steer,
}

/// What holds for a request.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The request.
    pub request: Request,
    /// Who may ask.
    pub who: &'static str,
    /// How old it may be when a tick acts on it, ns; `None`: of any age.
    pub at_most_ns: Option<i64>,
    /// The phases in which it counts.
    pub phases: &'static [Phase],
    /// What is answered.
    pub answer: &'static str,
}

/// The rules, one for each [`Request`], in their order.
pub const RULES: [Rule; 4] = [
    Rule {
        request: Request::Stop,
        who: "everyone, any number at once",
        at_most_ns: None,
        phases: &Phase::ALL,
        answer: "the tick that obeyed. Only a stop that names another run is refused",
    },
    Rule {
        request: Request::Arm,
        who: "the page, Foxglove (`/arm`), programs of the live view; Rust, Python and C. Not `khz-fleet`",
        at_most_ns: Some(400_000_000),
        phases: &[Phase::Idle],
        answer: "the tick that armed it; or refused, with the reason, and not kept. A robot that leaves idle forgets the request",
    },
    Rule {
        request: Request::Change,
        who: "the page, Foxglove, `khz param`, `khz-fleet param`; Rust, Python and C",
        at_most_ns: Some(1_000_000_000),
        phases: &Phase::ALL,
        answer: "the tick that took it; or refused, with the reason. Asked through the live view, it must be taken in the phase in which it arrived",
    },
    Rule {
        request: Request::Steer,
        who: "the page, `[teleop] from`, `khz-fleet`, programs of the live view. One sender at a time, until its newest input is too old",
        at_most_ns: Some(Teleop::STALE_NS),
        phases: &Phase::ALL,
        answer: "none. What is too old, out of order or of a second sender is dropped and counted",
    },
];

/// When a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// When it was decided, at the latest, by the loop's clock. [`Made::NOW_NS`]: by the tick that takes it.
    pub decided_ns: i64,
    /// The phase in which it arrived, if it must still be that when it is taken.
    pub phase: Option<Phase>,
}

impl Made {
    /// Of a request without an age: in virtual time nothing passes between a request and the tick that takes it.
    pub const NOW_NS: i64 = i64::MAX;

    /// A request that a program of this process makes now.
    pub fn now(clock: Clock) -> Self {
        let decided_ns = match clock {
            Clock::Real => khz_rt::now_ns(),
            Clock::Virtual => Self::NOW_NS,
        };
        Self { decided_ns, phase: None }
    }

    /// How old it is at most.
    pub const fn age_ns(&self, now_ns: i64) -> i64 {
        let age_ns = now_ns.saturating_sub(self.decided_ns);
        if age_ns > 0 { age_ns } else { 0 }
    }
}

/// Why a request does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is too old.
    Stale {
        /// What was asked.
        request: Request,
        /// How old it may be, ns.
        age_ns: i64,
    },
    /// It does not count in this phase.
    Phase {
        /// What was asked.
        request: Request,
        /// The phase.
        phase: Phase,
    },
    /// The robot is in another phase than when it was asked.
    Meanwhile {
        /// The phase when it was asked.
        asked: Phase,
        /// The phase now.
        phase: Phase,
    },
}

impl Request {
    /// What holds for it.
    pub const fn rule(self) -> &'static Rule {
        &RULES[self as usize]
    }

    /// Whether it counts at this age.
    pub const fn is_fresh(self, age_ns: i64) -> bool {
        match self.rule().at_most_ns {
            Some(at_most_ns) => age_ns <= at_most_ns,
            None => true,
        }
    }

    /// Whether a request counts now, in this phase.
    ///
    /// # Errors
    /// Why it does not.
    pub fn admit(self, made: Made, now_ns: i64, phase: Phase) -> Result<(), Refusal> {
        let age_ns = made.age_ns(now_ns);
        if !self.is_fresh(age_ns) {
            return Err(Refusal::Stale { request: self, age_ns });
        }
        if !self.rule().phases.contains(&phase) {
            return Err(Refusal::Phase { request: self, phase });
        }
        match made.phase {
            Some(asked) if asked != phase => Err(Refusal::Meanwhile { asked, phase }),
            _ => Ok(()),
        }
    }
}

/// In the tick: arms the robot if the request that was decided at `decided_ns` still counts.
pub fn arm(supervisor: &mut Supervisor, decided_ns: i64, now_ns: i64) {
    let made = Made { decided_ns, phase: None };
    if Request::Arm.admit(made, now_ns, supervisor.phase()).is_ok() {
        supervisor.arm_since(now_ns - made.age_ns(now_ns));
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Arm => "arm",
            Self::Change => "change parameters",
            Self::Steer => "steer",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Stale { request, age_ns } => {
                let most_s = request.rule().at_most_ns.unwrap_or(i64::MAX) as f64 / 1e9;
                write!(f, "the request to {request} came too late: ")?;
                match age_ns {
                    i64::MAX => write!(f, "its age is unknown")?,
                    age_ns => write!(f, "it is up to {:.1} s old", age_ns as f64 / 1e9)?,
                }
                write!(f, ", and counts for {most_s} s; ask again")
            }
            Self::Phase { request: Request::Arm, phase } => {
                write!(f, "the robot is in phase {}; it can be armed in phase idle", phase.name())
            }
            Self::Phase { request, phase } => {
                write!(f, "the request to {request} does not count in phase {}", phase.name())
            }
            Self::Meanwhile { asked, phase } => write!(
                f,
                "the robot went from phase {} to {} before it took the request; ask again",
                asked.name(),
                phase.name()
            ),
        }
    }
}

impl From<Refusal> for ParameterError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_rules_are_in_the_order_of_the_requests() {
        for rule in &RULES {
            assert_eq!(rule.request.rule().request, rule.request);
        }
    }

    #[test]
    fn a_stop_counts_however_old_it_is_in_every_phase() {
        for phase in Phase::ALL {
            assert_eq!(
                Request::Stop.admit(Made { decided_ns: i64::MIN, phase: None }, i64::MAX, phase),
                Ok(())
            );
        }
    }

    #[test]
    fn what_starts_motion_counts_only_while_it_is_fresh_and_in_its_phase() {
        let made = Made { decided_ns: 0, phase: None };
        assert_eq!(Request::Arm.admit(made, 400 * MS, Phase::Idle), Ok(()));
        assert!(Request::Arm.admit(made, 401 * MS, Phase::Idle).is_err());
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Idle) {
            assert_eq!(
                Request::Arm.admit(made, 0, phase),
                Err(Refusal::Phase { request: Request::Arm, phase })
            );
        }
        let of_idle = Made { decided_ns: 0, phase: Some(Phase::Idle) };
        assert_eq!(Request::Change.admit(of_idle, 1000 * MS, Phase::Idle), Ok(()));
        assert!(Request::Change.admit(of_idle, 1001 * MS, Phase::Idle).is_err());
        assert!(Request::Change.admit(of_idle, MS, Phase::Active).is_err());
        let text = Refusal::Stale { request: Request::Arm, age_ns: 7800 * MS }.to_string();
        assert_eq!(
            text,
            "the request to arm came too late: it is up to 7.8 s old, and counts for 0.4 s; ask again"
        );
    }

    /// What an operator reads is what the robot does. `UPDATE=1` writes it.
    #[test]
    fn the_table_in_the_documentation_is_the_rules() {
        const FROM: &str = "| request | who | at most | phases | answer |\n|---|---|---|---|---|\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/safety.md");
        let page = std::fs::read_to_string(path).unwrap();
        let rows: String = RULES.iter().map(row).collect();
        let (before, rest) = page.split_once(FROM).expect("docs/safety.md has the table of requests");
        let (table, after) = rest.split_once("\n\n").unwrap();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, format!("{before}{FROM}{rows}\n{after}")).unwrap();
        } else {
            assert_eq!(format!("{table}\n"), rows, "UPDATE=1 cargo test -p khz-loop requests writes it");
        }
    }

    fn row(rule: &Rule) -> String {
        let most = rule.at_most_ns.map_or("any age".to_owned(), |ns| format!("{} s", ns as f64 / 1e9));
        let phases: Vec<_> = rule.phases.iter().map(|phase| phase.name()).collect();
        let phases = if rule.phases.len() == Phase::ALL.len() { "all".to_owned() } else { phases.join(", ") };
        format!("| {} | {} | {most} | {phases} | {} |\n", rule.request, rule.who, rule.answer)
    }
}
