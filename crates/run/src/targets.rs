//! How the targets of slow programs fared, of a robot that follows them: from a run or from its log.

use crate::record::{Following, Stage, Targets};
use khz_page::{counted, duration, grouped};
use std::collections::BTreeMap;

/// The account of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fared {
    /// Who sent what was taken.
    pub programs: Vec<String>,
    /// Messages taken.
    pub taken: u64,
    /// Messages refused, by the reason.
    pub refused: BTreeMap<String, u64>,
    /// Numbers that were beyond a limit, and were cut to it.
    pub clamped: u64,
    /// Ticks that were held over.
    pub held_over: u64,
    /// How often the robot came to stand for want of targets.
    pub waits: u64,
    /// How long after the time of the newest point the next one was not known, at the most, ns.
    pub longest_ns: i64,
    /// The stage of the last tick.
    pub stage: Stage,
}

/// More names are not told.
const MOST_PROGRAMS: usize = 64;

impl Fared {
    /// A message arrived. Allocates.
    pub fn message(&mut self, message: &Targets<'_>) {
        self.clamped += u64::from(message.clamped);
        if !message.refused.is_empty() {
            *self.refused.entry(message.refused.to_string()).or_default() += 1;
            return;
        }
        self.taken += 1;
        if !self.programs.iter().any(|name| *name == message.by) && self.programs.len() < MOST_PROGRAMS {
            self.programs.push(message.by.to_string());
        }
    }

    /// A tick.
    pub fn tick(&mut self, now: &Following) {
        self.held_over += u64::from(now.stage == Stage::HeldOver);
        self.waits += u64::from(now.stage == Stage::Waiting && self.stage != Stage::Waiting && !now.meant);
        if now.stage != Stage::Idle && !now.meant {
            self.longest_ns = self.longest_ns.max(now.age_us.saturating_mul(1000));
        }
        self.stage = now.stage;
    }

    /// One sentence, if anything was late, refused or cut.
    pub fn sentence(&self) -> Option<String> {
        let late = (self.held_over > 0 || self.waits > 0).then(|| self.late());
        let refused = (!self.refused.is_empty()).then(|| {
            let why: Vec<String> =
                self.refused.iter().map(|(why, count)| format!("{} {why}", grouped(*count))).collect();
            format!("{} refused ({})", were(self.refused.values().sum(), "message"), why.join(", "))
        });
        let cut = (self.clamped > 0).then(|| format!("{} cut to the limits", were(self.clamped, "number")));
        let all: Vec<String> = [late, refused, cut].into_iter().flatten().collect();
        (!all.is_empty()).then(|| format!("Targets{}: {}.", self.whose(), all.join("; ")))
    }

    fn whose(&self) -> String {
        match &self.programs[..] {
            [] => String::new(),
            [one] => format!(" of {one}"),
            [first, others @ ..] => {
                format!(" of {first} and {}", counted(others.len() as u64, "other program"))
            }
        }
    }

    fn late(&self) -> String {
        let waited = match self.waits {
            0 => String::new(),
            waits => format!(" and stood still for want of them {}", counted(waits, "time")),
        };
        let longest = duration(self.longest_ns as f64);
        format!(
            "up to {longest} late, the robot was carried over for {}{waited}",
            counted(self.held_over, "tick")
        )
    }
}

fn were(count: u64, what: &str) -> String {
    format!("{} {}", counted(count, what), if count == 1 { "was" } else { "were" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(stage: Stage, age_ms: i64) -> Following {
        Following { stage, age_us: age_ms * 1000, ..Following::default() }
    }

    #[test]
    fn what_went_well_is_not_told() {
        let mut fared = Fared::default();
        fared.message(&Targets { by: "policy".into(), points: 1, ..Targets::default() });
        fared.tick(&tick(Stage::OnTime, -20));
        assert_eq!((fared.sentence(), fared.taken), (None, 1));
    }

    #[test]
    fn lateness_refusals_and_cuts_are_one_sentence() {
        let mut fared = Fared::default();
        let by = |name: &'static str| Targets { by: name.into(), ..Targets::default() };
        fared.message(&Targets { clamped: 2, ..by("policy") });
        fared.message(&Targets { refused: "held".into(), ..by("other") });
        for ms in 0..81 {
            fared.tick(&tick(if ms == 0 { Stage::OnTime } else { Stage::HeldOver }, ms));
        }
        fared.tick(&tick(Stage::Waiting, 81));
        let said = fared.sentence().unwrap_or_default();
        let whole = "Targets of policy: up to 81 ms late, the robot was carried over for 80 ticks and stood still for want of them \
                     1 time; 1 message was refused (1 held); 2 numbers were cut to the limits.";
        assert_eq!(said, whole);
    }

    #[test]
    fn a_silence_that_is_meant_is_no_lateness() {
        let mut fared = Fared::default();
        fared.tick(&Following { meant: true, ..tick(Stage::Waiting, 30_000) });
        assert_eq!((fared.waits, fared.longest_ns, fared.sentence()), (0, 0, None));
    }
}
