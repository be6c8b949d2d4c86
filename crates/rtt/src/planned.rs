//! Times over all planned periods: what a robot would have waited, had the run been its loop.
//!
//! A sender that stalls asks nothing meanwhile, so the round trips it measured know nothing of its stall (coordinated
//! omission). Here each planned question counts, from its planned time on.
use super::tally::Tally;
use khz_page::{Distribution, Figure, Level, duration};
use serde::{Deserialize, Serialize};

/// What became of all planned periods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedResults {
    /// Planned periods.
    pub periods: u64,
    /// Those of them in which was not asked, as the sender was not awake in time.
    pub missed: u64,
    /// Questions planned: periods times devices.
    pub questions: u64,
    /// From the first planned tick to the end of the last period, ns.
    pub duration_ns: i64,
    /// From the planned time of a question to its answer, ns; of one that was never asked, to the answer of the next asked
    /// of that device. Questions without an answer are not in it: see [`PlannedResults::round_trip_ns`].
    pub round_trip: Distribution,
    /// How late ticks began after their planned time, ns; of one that never began, until the next began.
    pub late: Distribution,
}

impl PlannedResults {
    pub(super) fn new(tally: &Tally) -> Self {
        let planned = &tally.planned;
        let periods = tally.ticks + planned.missed;
        Self {
            periods,
            missed: planned.missed,
            questions: periods * tally.devices.len() as u64,
            duration_ns: planned.duration_ns,
            round_trip: Distribution::from_ns(planned.round_trip.values()),
            late: Distribution::from_ns(planned.late.values()),
        }
    }

    /// This and what was measured later.
    pub(super) fn and(self, later: &Self) -> Self {
        let both =
            |a: &Distribution, b: &Distribution| Distribution::from_counts(a.counts().chain(b.counts()));
        Self {
            periods: self.periods + later.periods,
            missed: self.missed + later.missed,
            questions: self.questions + later.questions,
            duration_ns: self.duration_ns + later.duration_ns,
            round_trip: both(&self.round_trip, &later.round_trip),
            late: both(&self.late, &later.late),
        }
    }

    /// The time within which the fraction `q` of all planned questions was answered, ns; none if fewer were ever answered.
    pub fn round_trip_ns(&self, q: f64) -> Option<f64> {
        of_all(&self.round_trip, self.questions, q)
    }

    /// Ticks in which was asked, a second; none of a run without duration.
    pub fn achieved_rate_hz(&self, ticks: u64) -> Option<f64> {
        (self.duration_ns > 0).then(|| ticks as f64 * 1e9 / self.duration_ns as f64)
    }

    /// The figures of a page.
    pub(super) fn figures(&self, rate_hz: Option<f64>, ticks: u64) -> Vec<Figure> {
        let at = |q| self.round_trip_ns(q).map_or("no answer".into(), duration);
        let level = if self.missed == 0 { Level::Good } else { Level::Bad };
        let achieved = self.achieved_rate_hz(ticks).map_or("—".into(), |rate| format!("{rate:.1} Hz"));
        let asked_for = rate_hz.map_or("unpaced".into(), |rate| format!("of {rate} Hz"));
        vec![
            Figure::new("p99 over planned", at(0.99)).note("from the planned time"),
            Figure::new("p99.9 over planned", at(0.999)),
            Figure::new("never asked", self.missed.to_string())
                .note(format!("of {} planned periods", self.periods))
                .level(level),
            Figure::new("achieved rate", achieved).note(asked_for).level(level),
            Figure::new("duration", duration(self.duration_ns as f64)),
        ]
    }
}

/// The value that the fraction `q` of `all` does not exceed, where those beyond `values` are larger than any; none if it is
/// one of them.
pub(super) fn of_all(values: &Distribution, all: u64, q: f64) -> Option<f64> {
    let known = values.count();
    let rank = (q.clamp(0.0, 1.0) * all.max(known) as f64).ceil().max(1.0);
    // The same rank among those known; half a rank less, so that no rounding makes it the next.
    if rank > known as f64 { None } else { values.quantile((rank - 0.5) / known as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(questions: u64, answers: u32) -> PlannedResults {
        let round_trip = Distribution::from_samples((1..=answers).map(f64::from));
        PlannedResults { questions, round_trip, ..PlannedResults::default() }
    }

    #[test]
    fn what_was_never_answered_has_no_percentile() {
        let planned = planned(1000, 990);
        let at = |q| planned.round_trip_ns(q);
        assert_eq!([at(0.5), at(0.99), at(0.9901), at(1.0)], [Some(500.0), Some(990.0), None, None]);
        assert_eq!(PlannedResults::default().round_trip_ns(0.5), None);
    }

    #[test]
    fn the_achieved_rate_is_that_of_the_ticks_that_asked() {
        let planned = PlannedResults { duration_ns: 2_000_000_000, ..PlannedResults::default() };
        assert_eq!(planned.achieved_rate_hz(1_005), Some(502.5));
        assert_eq!(PlannedResults::default().achieved_rate_hz(1), None);
    }
}
