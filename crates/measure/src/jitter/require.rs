//! The figures that can be required of a measurement.

use super::Measurement;
use khz_page::share;
use khz_report::require::Unit::{Count, Percent, Rate};
use khz_report::require::{Figure, percentile};

/// What can be required of a measurement of jitter.
#[must_use]
pub fn required() -> Vec<Figure<Measurement>> {
    type Of = Figure<Measurement>;
    let mut figures = vec![
        Of::at_least("rate", Rate, |run| Ok(run.rate_hz())),
        Of::at_most("lost", Count, |run| Ok(run.counts.skipped as f64)),
        Of::at_most("lost_share", Percent, |run| Ok(share(run.counts.skipped, run.periods()))),
        Of::at_most("overruns", Count, |run| Ok(run.counts.overruns as f64)),
        // What is always too slow is not later than usual, so ticks that overran count if there are more of them.
        Of::at_most("late", Count, |run| Ok(run.causes.late.max(run.counts.overruns) as f64)),
        Of::at_most("cpu", Percent, |run| Ok(run.cpu_percent)),
    ];
    figures.extend(Of::percentiles("wake", |run, q| percentile(&run.wake_latency_ns, q)));
    figures.extend(Of::percentiles("start_delay", |run, q| percentile(&run.start_delay_ns, q)));
    figures.extend(Of::percentiles("period", |run, q| percentile(&run.period_ns, q)));
    figures.extend(Of::percentiles("execution", |run, q| percentile(&run.execution_ns, q)));
    figures.extend(Of::percentiles("response", |run, q| percentile(&run.response_ns, q)));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_report::require::Requirements;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_there_once() {
        let help = Requirements::parse("help", &required()).err().unwrap_or_default();
        let names: Vec<_> = help.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        let unique: BTreeSet<_> = names.iter().collect();
        assert!(names.len() == unique.len() && names.contains(&"wake_p99.9"), "{names:?}");
    }
}
