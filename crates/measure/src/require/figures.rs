//! The figures that can be required of a run and of a measurement of jitter.

use super::Unit::{Count, Percent, Rate};
use super::{Figure, Value};
use crate::jitter::Run;
use crate::run::RunSummary;
use khz_page::{has_percentile, share};
use khz_robot::config::Clock;
use khz_rt::Summary;

/// What can be required of a run. Of the controlled ticks, if nothing else is said.
#[must_use]
pub fn of_run() -> Vec<Figure<RunSummary>> {
    type Of = Figure<RunSummary>;
    let mut figures = vec![
        Of::at_least("rate", Rate, |run| Ok(run.rate_hz)),
        Of::at_most("lost", Count, |run| controlled(run, run.controlled.lost_periods)),
        Of::at_most("lost_share", Percent, |run| {
            Ok(share(run.controlled.lost_periods, run.controlled.periods))
        }),
        Of::at_most("overruns", Count, |run| of_computer(run).and(controlled(run, run.controlled.overruns))),
        Of::at_most("late", Count, late),
        Of::at_most("missed", Count, |run| controlled(run, run.controlled.missed_replies)),
        Of::at_most("late_replies", Count, |run| Ok(run.late_replies as f64)),
        Of::at_most("unexpected", Count, |run| Ok(run.unexpected_frames as f64)),
        Of::at_most("imu_missed", Count, |run| match run.has_imu {
            true => Ok(run.imu_missed as f64),
            false => Err("the robot has no IMU"),
        }),
        Of::at_most("log_dropped", Count, |run| match run.log {
            Some(_) => Ok(run.log_dropped as f64),
            None => Err("no log was written"),
        }),
    ];
    figures.extend(Of::percentiles("wake", |run, q| timing(run, &run.wake_latency_ns, q)));
    figures.extend(Of::percentiles("start_delay", |run, q| timing(run, &run.start_delay_ns, q)));
    figures.extend(Of::percentiles("period", |run, q| timing(run, &run.period_ns, q)));
    figures.extend(Of::percentiles("cycle", |run, q| timing(run, &run.cycle_ns, q)));
    figures.extend(Of::percentiles("compute", |run, q| timing(run, &run.loop_compute_ns, q)));
    figures.extend(Of::percentiles("control", |run, q| timing(run, &run.control_ns, q)));
    figures
}

/// What can be required of a measurement of jitter.
#[must_use]
pub fn of_jitter() -> Vec<Figure<Run>> {
    type Of = Figure<Run>;
    let mut figures = vec![
        Of::at_least("rate", Rate, |run| Ok(run.rate_hz())),
        Of::at_most("lost", Count, |run| Ok(run.counts.missed as f64)),
        Of::at_most("lost_share", Percent, |run| Ok(share(run.counts.missed, run.periods()))),
        Of::at_most("overruns", Count, |run| Ok(run.counts.overruns as f64)),
        Of::at_most("late", Count, |run| Ok(run.causes.late as f64)),
        Of::at_most("cpu", Percent, |run| Ok(run.cpu_percent)),
    ];
    figures.extend(Of::percentiles("wake", |run, q| at(&run.wake_latency_ns, q)));
    figures.extend(Of::percentiles("start_delay", |run, q| at(&run.start_delay_ns, q)));
    figures.extend(Of::percentiles("period", |run, q| at(&run.period_ns, q)));
    figures.extend(Of::percentiles("execution", |run, q| at(&run.execution_ns, q)));
    figures.extend(Of::percentiles("response", |run, q| at(&run.response_ns, q)));
    figures
}

/// A count of the controlled ticks.
fn controlled(run: &RunSummary, count: u64) -> Value {
    if run.controlled.ticks > 0 { Ok(count as f64) } else { Err("the robot was never controlled") }
}

fn late(run: &RunSummary) -> Value {
    of_computer(run)?;
    if run.late.judged > 0 {
        Ok(run.late.causes.late as f64)
    } else {
        Err("the run was too short to judge a tick")
    }
}

fn timing(run: &RunSummary, s: &Summary, q: f64) -> Value {
    of_computer(run).and(at(s, q))
}

/// Nothing of this computer's is measured in virtual time.
fn of_computer(run: &RunSummary) -> Value {
    if run.clock == Clock::Real { Ok(0.0) } else { Err("virtual time measures nothing of this computer") }
}

/// The value at the fraction `q`, 1 for the largest.
fn at(s: &Summary, q: f64) -> Value {
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

    #[test]
    fn a_percentile_needs_enough_values() {
        let s = |count| Summary { count, p999: 7, max: 9, ..Summary::default() };
        assert_eq!([s(0), s(999)].map(|s| at(&s, 0.999).is_err()), [true, true]);
        assert_eq!((at(&s(1000), 0.999), at(&s(1), 1.0)), (Ok(7.0), Ok(9.0)));
    }

    #[test]
    fn every_name_is_there_once() {
        let names = |help: String| {
            let names =
                help.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(str::to_owned));
            names.collect::<Vec<_>>()
        };
        for names in [
            names(Requirements::parse("help", &of_run()).err().unwrap_or_default()),
            names(Requirements::parse("help", &of_jitter()).err().unwrap_or_default()),
        ] {
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            assert!(names.len() == unique.len() && names.contains(&"wake_p99.9".to_owned()), "{names:?}");
        }
    }
}
