//! Late ticks as a reader meets them: which part was late, and why.

use khz_page::{Block, Cell, Column, Table, duration, grouped, share};
use khz_rt::Cause;
use khz_rt::late::{Causes, LateTick, Lost, LostTicks, Window};
use khz_run::costs::LateGroup;
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
    /// From the time it waited for to its end.
    pub response_ns: i64,
    /// The part of the tick that was late.
    pub part: String,
    /// Why it was late. None only in results before 2026-11-22, where the thread had the CPU.
    pub cause: Option<Cause>,
    /// Of its lateness, until the tick before was over.
    #[serde(default)]
    pub previous_ns: i64,
    /// Time other threads had the CPU. In results before 2026-11-22 `waited_ns`: all time in the run queue since the tick
    /// before, late for it or not.
    #[serde(alias = "waited_ns")]
    pub preempted_ns: i64,
    /// Time the thread waited by itself, or was stopped.
    #[serde(default)]
    pub blocked_ns: i64,
    /// Time it waited for a page from disk.
    #[serde(default)]
    pub page_fault_ns: i64,
    /// Time unaccounted for by the kernel. In results before 2026-11-22 `stolen_ns`: all that remains.
    #[serde(alias = "stolen_ns")]
    pub unaccounted_ns: i64,
    /// Times another thread was put in its place.
    pub involuntary: u32,
    /// Page faults.
    pub faults: u32,
    /// What the CPU's slow counters did around it, if they were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl LateReport {
    /// A late tick with the part of it that was late, and what the slow counters of its CPU did around it.
    pub fn new(tick: &LateTick, at_ns: i64, part: &str, window: Option<&Window>) -> LateReport {
        let disturbance = tick.disturbance;
        let shares = disturbance.shares();
        LateReport {
            tick: tick.number,
            at_ns,
            wake_latency_ns: disturbance.late_ns,
            response_ns: tick.response_ns,
            part: part.into(),
            cause: Some(tick.cause()),
            previous_ns: shares.previous_tick,
            preempted_ns: shares.preempted,
            blocked_ns: shares.blocked,
            page_fault_ns: shares.page_fault,
            unaccounted_ns: shares.unaccounted,
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
        let ns = |ns: i64| duration(ns as f64);
        let why = match self.cause {
            Some(Cause::PreviousTick) => format!("previous tick overran by {}", ns(self.previous_ns)),
            Some(Cause::Preempted) => format!("preempted for {}", ns(self.preempted_ns)),
            Some(Cause::Blocked) => {
                format!(
                    "blocked for {} (a lock, a file, a sleep, or the process was stopped)",
                    ns(self.blocked_ns)
                )
            }
            Some(Cause::PageFault) => "page faults".into(),
            Some(Cause::Unaccounted) => format!(
                "{} unaccounted for (hypervisor, SMI, interrupts off, timer slack or idle state)",
                ns(self.unaccounted_ns)
            ),
            Some(Cause::Controller) => "the controller was busy".into(),
            Some(Cause::Bus) => "waited for replies".into(),
            Some(Cause::Compute) | None => "the thread had the CPU all along".into(),
        };
        let counts = [(self.involuntary, "involuntary switch", "es"), (self.faults, "page fault", "s")];
        let counted: String = counts
            .iter()
            .filter(|(n, _, _)| *n > 0)
            .map(|(n, what, plural)| format!(", {n} {what}{}", if *n == 1 { "" } else { plural }))
            .collect();
        format!("{why}{counted}{}", self.around())
    }

    /// What the machine counted around it. The steal count stands beside every time that is unaccounted for, also if
    /// it is zero.
    fn around(&self) -> String {
        let Some(window) = &self.window else { return String::new() };
        let claimed = self.cause == Some(Cause::Unaccounted);
        let steal = (claimed || window.steal_ns > 0)
            .then(|| format!("the kernel counted {} of steal", duration(window.steal_ns as f64)));
        let interrupts = window.interrupts.iter().map(|(name, count)| format!("{count} × {name}"));
        let facts: Vec<String> = steal.into_iter().chain(interrupts).collect();
        if facts.is_empty() {
            return String::new();
        }
        format!("; in the {} around it: {}", duration(window.length_ns as f64), facts.join(", "))
    }

    /// The columns of a table of late ticks, as [`LateReport::cells`] fills them.
    pub fn columns() -> [Column; 5] {
        [
            Column::number("tick", ""),
            Column::number("at", "ns"),
            Column::number("response", "ns"),
            Column::text("late part"),
            Column::text("why"),
        ]
    }

    /// Its row in a table.
    pub fn cells(&self) -> [Cell; 5] {
        [
            self.tick.into(),
            (self.at_ns as f64).into(),
            (self.response_ns as f64).into(),
            self.part.as_str().into(),
            Cell::Text(self.sentence()),
        ]
    }

    /// One line for a terminal.
    pub fn line(&self) -> String {
        let [at, response] = [self.at_ns, self.response_ns].map(|ns| duration(ns as f64));
        format!("tick {} at {at} took {response}, {} late: {}", self.tick, self.part, self.sentence())
    }
}

/// Late ticks by cause, as a table, and the worst of them one by one, folded behind it.
pub fn blocks(groups: &[LateGroup], worst: Table) -> Vec<Block> {
    let columns = [
        Column::text("cause"),
        Column::number("late ticks", ""),
        Column::number("share", "%"),
        Column::number("lost periods", "").worst_is_high(),
        Column::number("overruns", "").worst_is_high(),
        Column::number("worst", "ns").worst_is_high(),
        Column::number("in tick", ""),
    ];
    let all: u64 = groups.iter().map(|group| group.ticks).sum();
    let table = groups.iter().fold(Table::new(columns), |table, group| {
        table.row([
            group.cause.name().into(),
            group.ticks.into(),
            share(group.ticks, all).into(),
            group.lost_periods.into(),
            group.overruns.into(),
            group.worst_ns.map(|ns| ns as f64).into(),
            group.worst_tick.map(|tick| tick as f64).into(),
        ])
    });
    let fold = (!worst.is_empty()).then(|| Block::Fold("The worst, tick by tick".into(), vec![worst.into()]));
    (!table.is_empty()).then(|| table.into()).into_iter().chain(fold).collect()
}

/// The late ticks by cause, in one line; causes that did not occur are left out.
pub fn tally(causes: &Causes) -> String {
    occurred(&Cause::ALL.map(|cause| (cause, causes.of(cause))))
}

/// Those that there were, by name.
fn occurred(counts: &[(Cause, u64)]) -> String {
    let occurred = counts.iter().filter(|(_, count)| *count > 0);
    let occurred: Vec<String> =
        occurred.map(|(cause, count)| format!("{} {}", cause.name(), grouped(*count))).collect();
    if occurred.is_empty() { "none".to_owned() } else { occurred.join(", ") }
}

/// What the controlled ticks lost, and how much of it the kernel accounts for.
pub fn lost_lines(lost: &Lost, steal_ns: i64) -> [String; 2] {
    let ns = |ns: i64| duration(ns as f64);
    let unaccounted_ns = lost.time_ns.unaccounted;
    let LostTicks { previous_tick, preempted, blocked, page_fault, unaccounted } = lost.causes;
    let causes = occurred(&[
        (Cause::PreviousTick, previous_tick),
        (Cause::Preempted, preempted),
        (Cause::Blocked, blocked),
        (Cause::PageFault, page_fault),
        (Cause::Unaccounted, unaccounted),
    ]);
    let causes = if lost.ticks > 0 { format!("    ({causes})") } else { String::new() };
    let at_most_ns = lost.steal_at_most_ns(steal_ns);
    let steal = match (unaccounted_ns, steal_ns) {
        (0, _) => String::new(),
        (_, 0) => "    (the kernel counted no steal, in steps of 10 ms)".to_owned(),
        _ => format!(
            "    (the kernel counted {} of steal, in steps of 10 ms: at most {} of it are steal, {} unexplained)",
            ns(steal_ns),
            ns(at_most_ns),
            ns(unaccounted_ns - at_most_ns)
        ),
    };
    [format!("{:>10}{causes}", grouped(lost.ticks)), format!("{:>10}{steal}", ns(unaccounted_ns))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_rt::Disturbance;

    fn late(disturbance: Disturbance, window: Option<Window>) -> LateReport {
        let (number, at_ns, response_ns, usual_ns) = (7, 0, 900_000, 500_000);
        let tick = LateTick {
            number,
            at_ns,
            response_ns,
            usual_ns,
            part: None,
            own: Cause::Controller,
            disturbance,
        };
        LateReport::new(&tick, 1_500_000_000, "control", window.as_ref())
    }

    #[test]
    fn the_page_on_trouble_has_the_causes_under_the_names_that_are_printed() {
        let page = include_str!("../../../docs/troubleshooting.md");
        for cause in Cause::ALL {
            assert!(page.contains(&format!("\n| `{}`", cause.name())), "{}", cause.name());
        }
        for figure in khz_run::figures::COUNTS
            .iter()
            .filter(|count| ["late_replies", "missed_while_off_cpu"].contains(&count.key))
        {
            assert!(page.contains(&format!("`{}`", figure.label)), "{}", figure.label);
        }
    }

    #[test]
    fn lost_time_names_what_there_was() {
        let quiet = Lost::default();
        assert_eq!(lost_lines(&quiet, 0), ["         0", "      0 ns"]);
        let mut lost = Lost { ticks: 1_597, ..quiet };
        (lost.causes.preempted, lost.time_ns.unaccounted) = (494, 18_700_000);
        let expected = [
            "     1,597    (preempted 494)",
            "   18.7 ms    (the kernel counted no steal, in steps of 10 ms)",
        ];
        assert_eq!(lost_lines(&lost, 0), expected);
        assert!(
            lost_lines(&lost, 10_000_000)[1].ends_with("at most 10 ms of it are steal, 8.7 ms unexplained)")
        );
    }

    fn quiet() -> Window {
        Window { length_ns: 100_000_000, ..Window::default() }
    }

    #[test]
    fn a_late_tick_has_part_cause_and_surroundings() {
        let preempted =
            Disturbance { away_ns: 300_000, queued_ns: 300_000, involuntary: 1, ..Disturbance::default() };
        let window = Window { interrupts: vec![("27 net".into(), 9)], ..quiet() };
        let message = late(preempted, Some(window)).line();
        assert_eq!(
            message,
            "tick 7 at 1.5 s took 900 µs, control late: preempted for 300 µs, 1 involuntary switch; in the 100 ms around it: \
             9 × 27 net"
        );
    }

    #[test]
    fn the_steal_count_stands_beside_every_unaccounted_time() {
        let away = Disturbance { away_ns: 390_000, ..Disturbance::default() };
        let message = late(away, Some(quiet())).sentence();
        assert!(message.starts_with("390 µs unaccounted for (hypervisor"), "{message}");
        assert!(message.ends_with("in the 100 ms around it: the kernel counted 0 ns of steal"), "{message}");
        let busy = late(Disturbance::default(), Some(quiet())).sentence();
        assert_eq!(busy, "the controller was busy");
    }

    #[test]
    fn steal_is_claimed_up_to_the_kernels_count() {
        let mut lost = Lost::default();
        lost.record(&Disturbance { late_ns: 25_000_000, ..Disturbance::default() });
        let line = &lost_lines(&lost, 10_000_000)[1];
        assert!(
            line.contains("25 ms    (the kernel counted 10 ms of steal, in steps of 10 ms: at most 10 ms"),
            "{line}"
        );
        assert!(line.ends_with("15 ms unexplained)"), "{line}");
    }

    #[test]
    fn causes_that_did_not_occur_are_left_out() {
        let causes = Causes { late: 1_205, preempted: 1_200, compute: 5, ..Causes::default() };
        assert_eq!(tally(&causes), "preempted 1,200, loop compute 5");
        assert_eq!(tally(&Causes::default()), "none");
    }

    #[test]
    fn old_results_are_read_with_their_old_names() {
        let old = r#"{"tick":1,"at_ns":2,"wake_latency_ns":3,"response_ns":4,"part":"wake","cause":"stolen",
            "stolen_ns":5,"waited_ns":6,"involuntary":0,"faults":0}"#;
        let late: LateReport = serde_json::from_str(old).unwrap();
        assert_eq!((late.cause, late.unaccounted_ns, late.preempted_ns), (Some(Cause::Unaccounted), 5, 6));
    }
}
