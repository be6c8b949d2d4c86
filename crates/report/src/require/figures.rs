//! The figures that can be required of a run.

use super::Unit::{Count, Percent, Rate, Time};
use super::{DURATION, Figure, Value};
use crate::run::{Pipelined, RunSummary};
use khz_loop::timing::Clock;
use khz_page::{has_percentile, share};
use khz_rt::Summary;
use khz_rt::late::Causes;
use khz_run::figures::{COUNTS, Needs, TIMES};
use khz_run::targets::{self, FIGURES as TARGETS, Fared};

/// What can be required of a run. Figures are of the controlled ticks, unless they name others.
#[must_use]
pub fn of_run() -> Vec<Figure<RunSummary>> {
    type Of = Figure<RunSummary>;
    let mut figures = vec![
        Of::at_least("rate", Rate, |run| was_controlled(run).and(Ok(run.rate_hz))),
        Of::at_least(DURATION, Time, |run| controlled(run, run.lasted_ns().max(0) as u64)),
        Of::at_most("lost", Count, |run| controlled(run, run.controlled.lost_periods)),
        Of::at_most("lost_share", Percent, |run| {
            was_controlled(run).and(Ok(share(run.controlled.lost_periods, run.controlled.periods)))
        }),
        Of::at_most("late", Count, late),
        Of::at_most("damaged", Count, |run| controlled(run, run.damaged())),
        Of::at_most("log_dropped", Count, |run| match run.log {
            Some(_) => controlled(run, run.log_dropped),
            None => Err("no log was written"),
        }),
    ];
    for count in COUNTS {
        let one = |name| {
            Of::at_most(name, Count, |run| {
                has(run, count.needs).and(controlled(run, (count.within)(&run.controlled.counts)))
            })
        };
        figures.extend(count.required.map(one));
    }
    for time in TIMES {
        let percentiles = |name| Of::percentiles(name, |run, q| timing(run, (time.within)(&run.times), q));
        figures.extend(time.required.into_iter().flat_map(percentiles));
    }
    for figure in TARGETS {
        figures.extend(figure.required.into_iter().flat_map(|name| of_targets(name, figure.within)));
    }
    figures.extend(Of::percentiles("elsewhere", |run, q| percentile(&pipelined(run)?.elsewhere_ns, q)));
    figures.extend(Of::percentiles("command_age", |run, q| percentile(&pipelined(run)?.command_age_ns, q)));
    figures.push(Of::at_most("no_decision", Count, |run| Ok(pipelined(run)?.without_decision as f64)));
    figures
}

/// What can be required of a figure of targets: of a time its percentiles.
fn of_targets(name: &str, within: fn(&Fared) -> targets::Value) -> Vec<Figure<RunSummary>> {
    let count = move |run: &RunSummary| match within(fared(run)?) {
        targets::Value::Count(count) => controlled(run, count),
        targets::Value::Angle(rad) => Ok(rad),
        targets::Value::Time(_) => Err("no count"),
    };
    let time = move |run: &RunSummary, q| match within(fared(run)?) {
        targets::Value::Time(s) => percentile(&s, q),
        targets::Value::Count(_) | targets::Value::Angle(_) => Err("no time"),
    };
    match within(&Fared::default()) {
        targets::Value::Time(_) => Figure::percentiles(name, time).collect(),
        _ => vec![Figure::at_most(name, Count, count)],
    }
}

fn fared(run: &RunSummary) -> Result<&Fared, &'static str> {
    let fared = run.targets.as_ref().ok_or("the robot follows no targets")?;
    match fared.taken + fared.refused + fared.followed {
        0 => Err("no targets came"),
        _ => Ok(fared),
    }
}

/// A count, of a run that can be judged by it: without a controlled tick nothing is kept.
fn controlled(run: &RunSummary, count: u64) -> Value {
    was_controlled(run).and(Ok(count as f64))
}

fn was_controlled(run: &RunSummary) -> Value {
    if run.controlled.ticks > 0 { Ok(0.0) } else { Err("the robot was never controlled") }
}

/// Whether a run can be judged by a figure that needs this.
fn has(run: &RunSummary, needs: Needs) -> Value {
    match needs {
        Needs::Clock => of_computer(run),
        Needs::Imu if !run.has_imu => Err("the robot has no IMU"),
        Needs::Decisions if run.all.decisions == 0 => Err("no policy has decided"),
        Needs::Imu | Needs::Decisions | Needs::Nothing => Ok(0.0),
    }
}

fn late(run: &RunSummary) -> Value {
    of_computer(run)?;
    if run.late.judged > 0 {
        Ok(late_or_overran(&run.late.causes, run.controlled.overruns))
    } else {
        Err("the run was too short to judge a tick")
    }
}

/// What is always too slow is not later than usual, so ticks that overran count if there are more of them.
fn late_or_overran(causes: &Causes, overruns: u64) -> f64 {
    causes.late.max(overruns) as f64
}

fn pipelined(run: &RunSummary) -> Result<&Pipelined, &'static str> {
    run.pipelined.as_ref().ok_or("`loop.mode` is not \"pipelined\"")
}

fn timing(run: &RunSummary, s: &Summary, q: f64) -> Value {
    of_computer(run).and(percentile(s, q))
}

/// Nothing of this computer's is measured in virtual time.
fn of_computer(run: &RunSummary) -> Value {
    if run.clock == Clock::Real { Ok(0.0) } else { Err("virtual time measures nothing of this computer") }
}

/// The value at the fraction `q`, 1 for the largest.
///
/// # Errors
/// There are too few values for it.
pub fn percentile(s: &Summary, q: f64) -> Value {
    match q {
        _ if s.count == 0 => Err("no value"),
        _ if q < 1.0 && !has_percentile(s.count, q) => Err("too few values for this percentile"),
        0.5 => Ok(s.p50 as f64),
        0.9 => Ok(s.p90 as f64),
        0.99 => Ok(s.p99 as f64),
        0.999 => Ok(s.p999 as f64),
        _ => Ok(s.max as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require::Requirements;
    use khz_file::RobotConfig;
    use khz_loop::run::{RunOptions, RunStats, run};
    use khz_loop::time::VirtualTime;
    use khz_robot::assemble;
    use khz_robot::session::Outcome;
    use khz_rt::{Grade, Report};
    use std::sync::Arc;

    #[test]
    fn a_percentile_needs_enough_values() {
        let s = |count| Summary { count, p999: 7, max: 9, ..Summary::default() };
        assert_eq!([s(0), s(999)].map(|s| percentile(&s, 0.999).is_err()), [true, true]);
        assert_eq!((percentile(&s(1000), 0.999), percentile(&s(1), 1.0)), (Ok(7.0), Ok(9.0)));
    }

    #[test]
    fn a_loop_that_overruns_always_is_not_free_of_late_ticks() {
        let causes = |late| Causes { late, ..Causes::default() };
        assert_eq!((late_or_overran(&causes(2), 246), late_or_overran(&causes(7), 3)), (246.0, 7.0));
    }

    /// A robot of one emulated servo, brought down after so long.
    fn run_for(duration_ns: i64) -> RunSummary {
        let text = "[robot]\nname = \"a\"\n[loop]\nrate_hz = 200\nclock = \"virtual\"\n[bus.main]\nlink = \"emulated\"\n\
                    [[servo]]\nname = \"a\"\nbus = \"main\"\nid = 1\n\
                    limits = { position = [-1.0, 1.0], velocity = 4.0, torque = 1.0 }\n[controller]\nname = \"hold\"\n";
        let config = RobotConfig::parse(text, "test").unwrap_or_else(|error| panic!("{error}"));
        let controller = assemble::controller(&config.controller);
        let mut machine = assemble::machine(&config, controller).unwrap_or_else(|error| panic!("{error}"));
        let options = RunOptions::of(&config.timing, Some(duration_ns), Arc::default());
        let mut stats = RunStats::new(100_000);
        run(&mut machine, &mut VirtualTime::new(0), &options, &mut [&mut stats]);
        let grants = Report { thread: "virtual".into(), grade: Grade::Ordinary, settings: Vec::new() };
        RunSummary::of(&config, &Outcome::of(machine, stats, grants))
    }

    #[test]
    fn nothing_is_met_by_a_robot_that_was_never_controlled() {
        let required = Requirements::parse("rate=1,late_replies=0,unexpected=0,lost_share=1%", &of_run());
        let required = required.unwrap_or_else(|error| panic!("{error}"));
        let runs: Vec<RunSummary> = (1..80).map(|ms| run_for(ms * 1_000_000)).collect();
        for run in &runs {
            let controlled = run.controlled.ticks > 0;
            assert_eq!(run.ended_well, controlled, "{}", run.end);
            assert!(required.check(run).iter().all(|one| one.met == controlled), "{:?}", required.check(run));
        }
        let begun = |run: &&RunSummary| run.events.iter().any(|event| event.to == "active");
        let begun: Vec<&RunSummary> = runs.iter().filter(begun).collect();
        assert_eq!(begun[0].end, "finished before it was under control: it had only begun");
        assert!(runs.last().is_some_and(RunSummary::is_well));
    }

    /// "late_replies is 163 over 4,994 ticks" counted those of start-up and of coming down.
    #[test]
    fn what_is_required_is_judged_over_the_ticks_that_are_named() {
        let mut run = run_for(500_000_000);
        (run.outside.counts.late_replies, run.all.late_replies) = (40, 43);
        run.controlled.counts.late_replies = 3;
        let required = Requirements::parse("late_replies=3,unexpected=0,missed=0", &of_run());
        run.require(&required.unwrap_or_else(|error| panic!("{error}")), None);
        let ticks = run.controlled.ticks;
        assert!(
            run.is_well()
                && run.required[0].text.starts_with(&format!("late_replies is 3 over {ticks} ticks")),
            "{:?}",
            run.required
        );
    }

    /// The summary had nothing lost or missed.
    #[test]
    fn of_a_run_never_under_control_the_figures_are_those_of_its_start() {
        let mut run = run_for(1_000_000);
        assert_eq!(run.controlled.ticks, 0);
        (run.outside.counts.missed_replies, run.outside.lost_periods) = (1_234, 5);
        let message = run.to_string();
        assert!(message.contains("lost 5  missed 1,234"), "{message}");
    }

    #[test]
    fn every_name_is_there_once() {
        let names = |help: String| {
            let names =
                help.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(str::to_owned));
            names.collect::<Vec<_>>()
        };
        let names = names(Requirements::parse("help", &of_run()).err().unwrap_or_default());
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert!(names.len() == unique.len() && names.contains(&"wake_p99.9".to_owned()), "{names:?}");
    }
}
