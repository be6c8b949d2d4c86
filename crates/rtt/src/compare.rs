//! Runs side by side.
use super::results::Results;
use khz_page::{
    Axis, Better, Block, Comparison, Distribution, Page, Plot, Section, Verdict, alike, duration, grouped,
    has_percentile, share,
};

/// The page that sets runs side by side and then shows each.
pub fn comparison_page(runs: &[Results]) -> Page {
    let page = Page::new("UDP round trips compared").verdict(&verdict(runs));
    runs.iter().fold(page.section(compare(runs)), |page, run| {
        page.section(run.timing().titled(&run.name)).section(run.device_rows())
    })
}

/// The verdict on runs side by side: how many were answered in time, and which was fastest.
#[must_use]
pub fn verdict(runs: &[Results]) -> Verdict {
    let verdicts: Vec<Verdict> = runs.iter().map(Results::verdict).collect();
    let held = verdicts.iter().filter(|verdict| verdict.held).count();
    let p99 = |run: &Results| run.planned.as_ref().and_then(|planned| planned.round_trip_ns(0.99));
    let mut trips: Vec<(f64, &str)> =
        runs.iter().filter_map(|run| Some((p99(run)?, run.name.as_str()))).collect();
    trips.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fastest = match trips[..] {
        [(least, best), .., (most, worst)] => format!(
            "; least p99 over planned periods: {} with {best}, most: {} with {worst}",
            duration(least),
            duration(most)
        ),
        _ => String::new(),
    };
    let verdict = Verdict {
        level: verdicts.iter().map(|verdict| verdict.level).max().unwrap_or_default(),
        held: held == runs.len(),
        reasons: verdicts
            .iter()
            .zip(runs)
            .map(|(verdict, run)| format!("{}: {}", run.name, verdict.text))
            .collect(),
        headline: format!("{held} of {} answered in time", runs.len()),
        ..Verdict::default()
    };
    verdict.sentence(&format!("{held} of {} runs had every answer in time{fastest}", runs.len()))
}

/// The value of each run, NaN where it has none.
fn of_each(runs: &[Results], value: impl Fn(&Results) -> Option<f64>) -> impl Iterator<Item = f64> {
    runs.iter().map(move |run| value(run).unwrap_or(f64::NAN))
}

/// Planned periods; of a run saved by an older version, the ticks in which it asked.
fn periods(run: &Results) -> u64 {
    run.planned.as_ref().map_or(run.ticks, |planned| planned.periods)
}

/// One section that sets runs side by side, the first as the yardstick. Runs are judged by what a planned question waited
/// for its answer; what the answers alone show stands beside it.
pub fn compare(runs: &[Results]) -> Section {
    const SHOWN: [(&str, f64); 5] =
        [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("largest", 1.0)];
    let trips: Vec<Distribution> = runs.iter().map(Results::round_trips).collect();
    let planned = |q: f64| {
        of_each(runs, move |run| {
            let planned = run.planned.as_ref()?;
            if q < 1.0 && !has_percentile(planned.questions, q) { None } else { planned.round_trip_ns(q) }
        })
    };
    let like_length = alike(runs.iter().map(periods));
    let judged = |q: f64| if q < 1.0 || like_length { Better::Lower } else { Better::Neither };
    let mut table = Comparison::new(runs.iter().map(|r| r.name.as_str()));
    for (label, q) in SHOWN {
        table = table.row(format!("over planned periods {label}"), "ns", judged(q), planned(q));
    }
    for (label, q) in SHOWN {
        let values = trips.iter().map(|t| t.quantile(q).unwrap_or(f64::NAN));
        table = table.row(format!("of the answers {label}"), "ns", Better::Neither, values);
    }
    let table = shares(runs, cycles(runs, table));
    let curves = Plot::percentiles("Round trips over planned periods", Axis::new("round trip", "ns").log());
    let curves = runs.iter().zip(&trips).fold(curves, |plot, (run, trips)| {
        plot.curve(&run.name, run.planned.as_ref().map_or(trips, |planned| &planned.round_trip))
    });
    let lengths = (!like_length).then(|| {
        let periods: Vec<String> = runs.iter().map(|run| grouped(periods(run))).collect();
        Block::Text(format!(
            "The runs are of different length ({} planned periods): counts are compared as shares, percentiles that few \
             questions do not have are left out, and the largest values are not judged.",
            periods.join(", ")
        ))
    });
    Section::new("Side by side")
        .text(
            "Each run against the first. Over planned periods: from a question's planned time to its answer, also where the \
             sender was too late to ask. Runs saved by older versions have only the times of the answers.",
        )
        .with_some(lengths)
        .with(table)
        .with(curves)
}

/// The cycles' rows.
fn cycles(runs: &[Results], mut table: Comparison) -> Comparison {
    for (label, q) in [("p50", 0.5), ("p99", 0.99)] {
        let planned =
            of_each(runs, |run| if has_percentile(periods(run), q) { run.cycle_planned_ns(q) } else { None });
        let complete = of_each(runs, |run| run.cycle.values.quantile(q));
        table = table.row(format!("cycle {label}, planned ticks"), "ns", Better::Lower, planned).row(
            format!("cycle {label}, ticks that got all answers"),
            "ns",
            Better::Neither,
            complete,
        );
    }
    table
}

/// The rows of what was lost, late and never asked, of what was planned or sent.
fn shares(runs: &[Results], table: Comparison) -> Comparison {
    let late = |q: f64| of_each(runs, move |run| run.planned.as_ref()?.late.quantile(q));
    let rate = of_each(runs, |run| run.planned.as_ref()?.achieved_rate_hz(run.ticks));
    let shares = |counts: fn(&Results) -> (u64, u64)| {
        of_each(runs, move |run| {
            let (count, of) = counts(run);
            Some(share(count, of))
        })
    };
    let never_asked = |run: &Results| {
        let planned = run.planned.as_ref()?;
        Some(share(planned.missed, planned.periods))
    };
    table
        .row("incomplete ticks, of asked", "%", Better::Lower, shares(|run| (run.incomplete, run.ticks)))
        .row(
            "late answers, of sent",
            "%",
            Better::Lower,
            shares(|run| (run.counts().late, run.counts().sent)),
        )
        .row("late tick over planned periods p99", "ns", Better::Lower, late(0.99))
        .row("lost, of sent", "%", Better::Lower, shares(|run| (run.counts().lost(), run.counts().sent)))
        .row("never asked, of planned", "%", Better::Lower, of_each(runs, never_asked))
        .row("achieved rate", "Hz", Better::Neither, rate)
        .row("steal", "ns", Better::Neither, of_each(runs, |run| Some(run.steal_ns as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counts, Plan, PlannedResults, Tally};

    fn run(name: &str, ticks: u64) -> Results {
        let plan = Plan { name: name.into(), ..Plan::new(vec![([127, 0, 0, 1], 7755).into()]) };
        let tally = Tally::new(plan.targets.iter().copied());
        let setup =
            khz_rt::Report { thread: "t".into(), grade: khz_rt::Grade::Ordinary, settings: Vec::new() };
        Results { ticks, planned: None, ..Results::new(&plan, &tally, &setup, 0, 0) }
    }

    /// The row of a comparison that begins with this label.
    fn row<'a>(page: &'a str, label: &str) -> &'a str {
        let rest = page.split(label).nth(1).unwrap_or_else(|| panic!("no row {label}"));
        rest.split("</tr>").next().unwrap_or("")
    }

    #[test]
    fn a_short_run_does_not_win_by_being_short() {
        let lossy = |name, sent: u64, answered| {
            let mut run = run(name, sent);
            run.devices[0].counts = Counts { sent, answered, ..Counts::default() };
            let round_trip = Distribution::from_counts([(1e6 / sent as f64, answered)]);
            let (periods, questions) = (sent, sent);
            run.planned =
                Some(PlannedResults { periods, questions, round_trip, ..PlannedResults::default() });
            run
        };
        // 1 % lost, and 10 %.
        let page = comparison_page(&[lossy("long", 10_000, 9_900), lossy("short", 50, 45)]).to_string();
        assert!(row(&page, "lost, of sent<").contains("class=\"bad\""), "{page}");
        assert!(page.contains("different length (10,000, 50 planned periods)"), "{page}");
        let p99 = row(&page, "over planned periods p99<");
        assert!(p99.contains("–") && !p99.contains("small"), "{p99}");
    }

    /// Of one run every cycle took 2 ms; the other answered a quarter of its ticks after 229 µs, and the rest too late.
    #[test]
    fn a_cycle_of_which_few_ticks_got_all_answers_does_not_win() {
        let cycles = |name, ns: f64, count| {
            let mut run = run(name, 300);
            run.cycle.values = Distribution::from_counts([(ns, count)]);
            run.incomplete = 300 - count;
            run
        };
        let page = comparison_page(&[cycles("even", 2e6, 300), cycles("broken", 229e3, 75)]).to_string();
        for label in ["cycle p50, planned ticks<", "cycle p99, planned ticks<"] {
            assert!(row(&page, label).contains("2 ms") && !row(&page, label).contains("good"), "{page}");
        }
        let complete = row(&page, "cycle p99, ticks that got all answers<");
        assert!(complete.contains("229 µs") && !complete.contains("good"), "{complete}");
        assert!(row(&page, "incomplete ticks, of asked<").contains("75 %"));
    }

    /// A run of a thousand periods with round trips of 100 µs, and of another that stalled for half of them: to a reader of
    /// its answers it is the faster one.
    #[test]
    fn a_run_that_asked_half_as_often_does_not_win() {
        let run = |name: &str, ticks: u64, answer: f64, planned: Vec<f64>| {
            let mut run = run(name, ticks);
            run.devices[0].round_trip.values = Distribution::from_counts([(answer, ticks)]);
            let round_trip = Distribution::from_samples(planned);
            let (periods, missed, questions) = (1000, 1000 - ticks, 1000);
            let duration_ns = 1_000_000_000;
            let late = Distribution::default();
            run.planned = Some(PlannedResults { periods, missed, questions, duration_ns, round_trip, late });
            run
        };
        let even = run("even", 1000, 100_000.0, vec![100_000.0; 1000]);
        let stalled =
            run("stalled", 500, 90_000.0, (0..1000).map(|n| f64::from(n.max(499) - 498) * 1e6).collect());
        let page = comparison_page(&[even, stalled]).to_string();
        let row =
            |label: &str| page.split(label).nth(1).and_then(|rest| rest.split("</tr>").next()).unwrap_or("");
        assert!(
            row("over planned periods p99<").contains("class=\"bad\""),
            "{}",
            row("over planned periods p99<")
        );
        assert!(!row("of the answers p99<").contains("class=\"good\""));
        assert!(row("never asked, of planned<").contains("50 %") && row("achieved rate<").contains("500"));
    }
}
