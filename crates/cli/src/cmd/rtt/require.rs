//! What can be required of round trips: `--require lost=0,planned_p99=1ms`.

use khz_page::{Distribution, has_percentile, share};
use khz_report::require::Unit::{Count, Percent, Rate};
use khz_report::require::{Figure, Value};
use khz_rtt::{PlannedResults, Results};

type Of = Figure<Results>;

/// The figures there are.
pub(super) fn figures() -> Vec<Of> {
    let mut figures = vec![
        Of::at_least("rate", Rate, |run| {
            planned(run)?.achieved_rate_hz(run.ticks).ok_or("it has no duration")
        }),
        Of::at_most("lost", Count, |run| Ok(run.counts().lost() as f64)),
        Of::at_most("lost_share", Percent, |run| Ok(share(run.counts().lost(), run.counts().sent))),
        Of::at_most("never_asked", Count, |run| Ok(planned(run)?.missed as f64)),
        Of::at_most("late", Count, |run| Ok(run.counts().late as f64)),
        Of::at_most("incomplete", Count, |run| Ok(run.incomplete as f64)),
        Of::at_most("duplicates", Count, |run| Ok(run.counts().duplicates as f64)),
        Of::at_most("corrupt", Count, |run| Ok(run.counts().corrupt as f64)),
    ];
    figures.extend(Of::percentiles("round_trip", |run, q| answered(&run.round_trips(), q)));
    figures.extend(Of::percentiles("planned", |run, q| {
        let planned = planned(run)?;
        of_all(planned.questions, planned.round_trip_ns(q), q)
    }));
    figures
        .extend(Of::percentiles("cycle", |run, q| of_all(planned(run)?.periods, run.cycle_planned_ns(q), q)));
    figures
}

fn planned(run: &Results) -> Result<&PlannedResults, &'static str> {
    run.planned.as_ref().ok_or("saved by an older version")
}

/// The value at the fraction `q` of the answers.
fn answered(values: &Distribution, q: f64) -> Value {
    of_all(values.count(), values.quantile(q), q)
}

/// A value of so many, of which some may never have come.
fn of_all(count: u64, value: Option<f64>, q: f64) -> Value {
    if q < 1.0 && !has_percentile(count, q) {
        return Err("too few questions for this percentile");
    }
    value.ok_or("so many never got an answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_without_an_answer_do_not_shorten_a_percentile() {
        assert_eq!(of_all(1_000, None, 0.99), Err("so many never got an answer"));
        assert_eq!(of_all(99, Some(1.0), 0.99), Err("too few questions for this percentile"));
        assert_eq!(of_all(1_000, Some(1.0), 0.99), Ok(1.0));
    }
}
