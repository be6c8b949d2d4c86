//! Late ticks as a reader meets them: which part was late, and why.

use crate::report::{Cell, Column, duration};
use khz_rt::Cause;
use khz_rt::late::{Causes, LateTick, Window};
use serde::{Deserialize, Serialize};

/// A late tick and what was different about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateReport {
    /// The tick's number.
    pub tick: u64,
    /// Since the start of the run.
    pub at_ns: i64,
    /// How late it woke.
    pub wake_latency_ns: i64,
    /// From its planned time to its end.
    pub response_ns: i64,
    /// The part of the tick that was late.
    pub part: String,
    /// Who had the CPU; none if the thread had it.
    pub cause: Option<Cause>,
    /// Time that went to nobody the kernel knows.
    pub stolen_ns: i64,
    /// Time other threads had the CPU.
    pub waited_ns: i64,
    /// Times another thread was put in its place.
    pub involuntary: u32,
    /// Page faults.
    pub faults: u32,
    /// What the CPU's slow counters did around it, if they were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl LateReport {
    pub(crate) fn new(tick: &LateTick, at_ns: i64, part: &str, window: Option<&Window>) -> LateReport {
        let disturbance = tick.disturbance;
        LateReport {
            tick: tick.number,
            at_ns,
            wake_latency_ns: disturbance.late_ns,
            response_ns: tick.response_ns,
            part: part.into(),
            cause: disturbance.cause(),
            stolen_ns: disturbance.stolen_ns(),
            waited_ns: disturbance.waited_ns,
            involuntary: disturbance.involuntary,
            faults: disturbance.minor_faults + disturbance.major_faults,
            window: window.map(|window| Window {
                interrupts: window.interrupts.iter().take(3).cloned().collect(),
                ..window.clone()
            }),
        }
    }

    /// One sentence on why.
    #[must_use]
    pub fn sentence(&self) -> String {
        let why = match self.cause {
            Some(Cause::Stolen) => format!(
                "{} went to nobody the kernel knows (hypervisor, firmware, interrupts off)",
                duration(self.stolen_ns as f64)
            ),
            Some(Cause::Preempted) => {
                format!("other threads had the CPU for {}", duration(self.waited_ns as f64))
            }
            Some(Cause::Fault) => "a page had to be read from disk".into(),
            None => "the thread had the CPU all along".into(),
        };
        let counts = [(self.involuntary, "involuntary switches"), (self.faults, "page faults")];
        let counted: String =
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
        let around = self.window.as_ref().map_or(String::new(), |window| {
            let interrupts = window.interrupts.iter().map(|(name, count)| format!("{count} × {name}"));
            let steal = (window.steal_ns > 0).then(|| format!("steal {}", duration(window.steal_ns as f64)));
            let facts: Vec<String> = steal.into_iter().chain(interrupts).collect();
            let length = duration(window.length_ns as f64);
            if facts.is_empty() {
                String::new()
            } else {
                format!("; in the {length} around it: {}", facts.join(", "))
            }
        });
        format!("{why}{counted}{around}")
    }

    /// The columns of a table of late ticks, as [`LateReport::cells`] fills them.
    pub(crate) fn columns() -> [Column; 5] {
        [
            Column::number("tick", ""),
            Column::number("at", "ns"),
            Column::number("response", "ns"),
            Column::text("late part"),
            Column::text("why"),
        ]
    }

    /// Its row in a table.
    pub(crate) fn cells(&self) -> [Cell; 5] {
        [
            self.tick.into(),
            (self.at_ns as f64).into(),
            (self.response_ns as f64).into(),
            self.part.as_str().into(),
            Cell::Text(self.sentence()),
        ]
    }

    /// One line for a terminal.
    pub(crate) fn line(&self) -> String {
        let [at, response] = [self.at_ns, self.response_ns].map(|ns| duration(ns as f64));
        format!("tick {} at {at} took {response}, {} late: {}", self.tick, self.part, self.sentence())
    }
}

/// The count of late ticks and what the kernel knows of them, in one line.
pub(crate) fn tally(causes: &Causes) -> String {
    let Causes { late, stolen, preempted, fault, own } = causes;
    format!("{late}: stolen {stolen}, preempted {preempted}, page fault {fault}, own work {own}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_rt::Disturbance;

    #[test]
    fn a_late_tick_tells_part_cause_and_surroundings() {
        let disturbance = Disturbance { late_ns: 2_000, waited_ns: 300_000, ..Disturbance::default() };
        let tick = LateTick {
            number: 7,
            at_ns: 0,
            response_ns: 900_000,
            usual_ns: 500_000,
            part: None,
            disturbance,
        };
        let window =
            Window { length_ns: 100_000_000, interrupts: vec![("27 net".into(), 9)], ..Window::default() };
        let told = LateReport::new(&tick, 1_500_000_000, "control", Some(&window)).line();
        assert!(
            told.starts_with("tick 7 at 1.5 s took 900 µs, control late: other threads had the CPU"),
            "{told}"
        );
        assert!(told.ends_with("in the 100 ms around it: 9 × 27 net"), "{told}");
    }
}
