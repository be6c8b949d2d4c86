//! What a run must keep: `--require rate=999.9,missed=0,wake_p99=100us`.
//!
//! A figure that a run does not have is not met: nothing is taken for good that was not measured.

mod figures;

pub use figures::{of_run, percentile};

use khz_page::{Level, Verdict, counted, duration, duration_ns, grouped};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A value in ns, Hz, percent or a count; or why there is none.
pub type Value = Result<f64, &'static str>;

/// A figure that can be required of a `T`.
#[derive(Clone)]
pub struct Figure<T> {
    name: String,
    unit: Unit,
    bound: Bound,
    of: Arc<dyn Fn(&T) -> Value + Send + Sync>,
}

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, written with their unit: `100us`.
    Time,
    /// Hertz: `999.9` or `999.9Hz`.
    Rate,
    /// Percent: `0.1%`.
    Percent,
    /// A whole number.
    Count,
}

/// Which values are good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The limit or more.
    AtLeast,
    /// The limit or less.
    AtMost,
}

/// The figure for how long something lasted.
pub const DURATION: &str = "duration";

/// Over how much was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Such as `14 ticks (14 ms)`; empty if it is not shown.
    pub over: String,
    /// It ended early: `it ended after 3.2 s of 60 s`.
    pub early: Option<String>,
}

impl Extent {
    /// Of so many ticks in so long.
    pub fn of(ticks: u64, lasted_ns: i64) -> Self {
        Self { over: format!("{} ({})", counted(ticks, "tick"), duration(lasted_ns as f64)), early: None }
    }
}

/// What is required of a `T`.
#[derive(Clone)]
pub struct Requirements<T>(Vec<(Figure<T>, f64)>);

/// The percentiles that can be required of a duration.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

impl<T> Figure<T> {
    /// A figure that has to be no more than its limit.
    pub fn at_most(name: &str, unit: Unit, of: impl Fn(&T) -> Value + Send + Sync + 'static) -> Self {
        Self { name: name.into(), unit, bound: Bound::AtMost, of: Arc::new(of) }
    }

    /// A figure that has to be no less than its limit.
    pub fn at_least(name: &str, unit: Unit, of: impl Fn(&T) -> Value + Send + Sync + 'static) -> Self {
        Self { bound: Bound::AtLeast, ..Self::at_most(name, unit, of) }
    }

    /// Durations: `NAME_p50`, `NAME_p90`, `NAME_p99`, `NAME_p99.9` and `NAME_max`. `of` has the value at a fraction, 1 for
    /// the largest.
    pub fn percentiles(
        name: &str,
        of: impl Fn(&T, f64) -> Value + Copy + Send + Sync + 'static,
    ) -> impl Iterator<Item = Self> {
        PERCENTILES
            .map(|(label, q)| Self::at_most(&format!("{name}_{label}"), Unit::Time, move |of_t| of(of_t, q)))
            .into_iter()
    }
}

/// One requirement and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Required {
    /// The figure.
    pub name: String,
    /// The limit, in ns, Hz, percent or a count.
    pub limit: f64,
    /// What was measured; none if this run has no such figure.
    pub measured: Option<f64>,
    /// Whether it is met.
    pub met: bool,
    /// All of it in words.
    pub text: String,
}

impl<T> Requirements<T> {
    /// Reads `NAME=LIMIT,…` with the names of these figures.
    ///
    /// # Errors
    /// What is wrong, and the names there are.
    pub fn parse(text: &str, figures: &[Figure<T>]) -> Result<Self, String>
    where
        T: Clone,
    {
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        if text == "help" {
            return Err(help(figures));
        }
        let one = |part: &str| {
            let (name, limit) =
                part.split_once('=').map_or((part, ""), |(name, limit)| (name.trim(), limit.trim()));
            let figure = figures.iter().find(|figure| figure.name == name).ok_or_else(|| {
                format!(
                    "there is no figure `{name}`: {}",
                    khz_settings::suggestion(name, &names, "there are")
                )
            })?;
            let limit = figure.unit.parse(limit).ok_or_else(|| {
                format!("`{part}` has no limit that can be read: write `{name}={}`", figure.unit.example())
            })?;
            Ok((figure.clone(), limit))
        };
        let all = text.split(',').map(|part| one(part.trim())).collect::<Result<Vec<_>, String>>()?;
        let is_twice = |(at, (figure, _)): &(usize, &(Figure<T>, f64))| {
            all[..*at].iter().any(|(other, _)| other.name == figure.name)
        };
        match all.iter().enumerate().find(is_twice) {
            Some((_, (figure, _))) => Err(format!("`{}` is required twice: give one limit", figure.name)),
            None => Ok(Self(all)),
        }
    }

    /// Each requirement and what was measured.
    #[must_use]
    pub fn check(&self, of: &T) -> Vec<Required> {
        self.check_over(of, &Extent::default())
    }

    /// As [`Requirements::check`], of what was measured over `extent`. What ended early meets nothing, unless it is required to
    /// have lasted for some time ([`DURATION`]): then that decides.
    #[must_use]
    pub fn check_over(&self, of: &T, extent: &Extent) -> Vec<Required> {
        let asks = self.0.iter().any(|(figure, _)| figure.name == DURATION);
        let early = extent.early.as_ref().filter(|_| !asks);
        let check = |(figure, limit): &(Figure<T>, f64)| {
            let required = figure.check(*limit, (figure.of)(of), &extent.over);
            match early {
                Some(early) => {
                    Required { met: false, text: format!("{}, and {early}", required.text), ..required }
                }
                None => required,
            }
        };
        self.0.iter().map(check).collect()
    }
}

/// What `--require help` prints.
fn help<T>(figures: &[Figure<T>]) -> String {
    let line = |figure: &Figure<T>| {
        let bound = match figure.bound {
            Bound::AtLeast => "at least",
            Bound::AtMost => "at most",
        };
        format!("\n  {:<18} {bound}, for example {}", figure.name, figure.unit.example())
    };
    let lines: String = figures.iter().map(line).collect();
    format!("write NAME=LIMIT, several with commas between; the names are:{lines}")
}

impl Unit {
    fn parse(self, text: &str) -> Option<f64> {
        let number =
            |text: &str| text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        match self {
            Self::Time => duration_ns(text).ok().map(|ns| ns as f64),
            Self::Rate => number(text.strip_suffix("Hz").unwrap_or(text)),
            Self::Percent => number(text.strip_suffix('%')?),
            Self::Count => text.parse::<u64>().ok().map(|count| count as f64),
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Time => "100us",
            Self::Rate => "999.9",
            Self::Percent => "0.1%",
            Self::Count => "0",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Time => duration(value),
            Self::Rate => format!("{value:.3} Hz"),
            Self::Percent => format!("{value:.4} %"),
            Self::Count => grouped(value as u64),
        }
    }
}

impl<T> Figure<T> {
    fn check(&self, limit: f64, measured: Value, over: &str) -> Required {
        let show = |value| self.unit.show(value);
        // A period is a whole number of ns, so that a rate is off by less than a millionth.
        let least = if self.unit == Unit::Rate { limit * (1.0 - 1e-6) } else { limit };
        let keeps = |value| if self.bound == Bound::AtLeast { value >= least } else { value <= limit };
        let bound = if self.bound == Bound::AtLeast { "at least" } else { "at most" };
        let measured = measured.and_then(|value| if value.is_finite() { Ok(value) } else { Err("no value") });
        let over = if over.is_empty() || measured.is_err() { String::new() } else { format!(" over {over}") };
        let found = measured
            .map_or_else(|why| format!("cannot be judged ({why})"), |value| format!("is {}", show(value)));
        Required {
            name: self.name.clone(),
            limit,
            measured: measured.ok(),
            met: measured.is_ok_and(keeps),
            text: format!("{} {found}{over}; {bound} {} is required", self.name, show(limit)),
        }
    }
}

/// The verdict with what is required: what is not met comes first.
#[must_use]
pub fn amended(verdict: Verdict, required: &[Required]) -> Verdict {
    let unmet: Vec<&Required> = required.iter().filter(|required| !required.met).collect();
    let Some(first) = unmet.first() else { return verdict };
    let more = unmet.len() - 1;
    let more =
        if more > 0 { format!(" (and {})", counted(more as u64, "more requirement")) } else { String::new() };
    let sentences = unmet.iter().map(|required| format!("Not met: {}.", required.text));
    Verdict {
        level: Level::Bad,
        headline: format!("{} of {} not met", unmet.len(), counted(required.len() as u64, "requirement")),
        text: format!("Not met: {}{more}. {}", first.text, verdict.text),
        reasons: sentences.chain(verdict.reasons.iter().cloned()).collect(),
        ..verdict
    }
}

/// A line for each requirement.
pub fn lines(required: &[Required]) -> impl Iterator<Item = String> {
    required.iter().map(|required| {
        let word = if required.met { "met" } else { "NOT MET" };
        format!("required        {word}: {}", required.text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<Figure<f64>> {
        let mut figures = vec![
            Figure::at_least("rate", Unit::Rate, |value: &f64| Ok(*value)),
            Figure::at_most("lost_share", Unit::Percent, |value| Ok(*value)),
            Figure::at_most("missed", Unit::Count, |value| Ok(*value)),
            Figure::at_most("imu_missed", Unit::Count, |_| Err("the robot has no IMU")),
        ];
        figures.extend(Figure::percentiles("wake", |value, _| Ok(*value)));
        figures
    }

    fn check(text: &str, value: f64) -> Vec<Required> {
        Requirements::parse(text, &figures()).unwrap_or_else(|error| panic!("{error}")).check(&value)
    }

    #[test]
    fn units_are_read_and_limits_count_as_kept() {
        for (text, value) in [
            ("rate=999.9", 999.9),
            ("rate=999.9Hz", 1000.0),
            ("wake_p99=100us", 100_000.0),
            ("wake_p99=0.1ms", 100_000.0),
            ("lost_share=0.1%", 0.1),
            ("missed=0", 0.0),
        ] {
            assert!(check(text, value)[0].met, "{text}");
        }
        for (text, value) in [("rate=999.9", 999.8), ("wake_p99=100us", 100_001.0), ("missed=0", 1.0)] {
            assert!(!check(text, value)[0].met, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_to_write() {
        let error = |text: &str| Requirements::parse(text, &figures()).err().unwrap_or_default();
        assert_eq!(error("imu_mised=1"), "there is no figure `imu_mised`: did you mean `imu_missed`?");
        assert!(error("torque=1").contains("there are `rate`, `lost_share`"), "{}", error("torque=1"));
        assert_eq!(
            error("wake_p99=100"),
            "`wake_p99=100` has no limit that can be read: write `wake_p99=100us`"
        );
        for bad in [
            "",
            "rate",
            "rate=",
            "rate=nan",
            "rate=-1",
            "lost_share=1",
            "missed=0.5",
            "rate=1,,missed=0",
            "rate=1,rate=2",
        ] {
            assert!(!error(bad).is_empty(), "{bad}");
        }
        assert!(
            error("help").contains("\n  wake_p99           at most, for example 100us"),
            "{}",
            error("help")
        );
    }

    #[test]
    fn a_figure_that_was_not_measured_is_not_met() {
        let required = &check("imu_missed=0", 0.0)[0];
        assert!(!required.met && required.measured.is_none());
        assert_eq!(
            required.text,
            "imu_missed cannot be judged (the robot has no IMU); at most 0 is required"
        );
        assert!(!check("rate=1", f64::NAN)[0].met);
    }

    #[test]
    fn what_ended_early_meets_nothing_unless_its_duration_is_required() {
        let mut figures = figures();
        figures.push(Figure::at_least(DURATION, Unit::Time, |_| Ok(14e6)));
        let check = |text: &str, early: Option<&str>| {
            let extent = Extent { early: early.map(str::to_owned), ..Extent::of(14, 14_000_000) };
            let requirements = Requirements::parse(text, &figures).unwrap_or_else(|error| panic!("{error}"));
            requirements.check_over(&0.0, &extent)
        };
        let met = &check("missed=0", None)[0];
        assert!(met.met);
        assert_eq!(met.text, "missed is 0 over 14 ticks (14 ms); at most 0 is required");
        let early = &check("missed=0", Some("it ended after 14 ms of 60 s"))[0];
        assert!(!early.met);
        assert_eq!(
            early.text,
            "missed is 0 over 14 ticks (14 ms); at most 0 is required, and it ended after 14 ms of 60 s"
        );
        assert!(check("missed=0,duration=10ms", Some("it ended early")).iter().all(|required| required.met));
        assert!(!check("missed=0,duration=1s", Some("it ended early"))[1].met);
    }

    #[test]
    fn what_is_not_met_comes_first_in_the_verdict() {
        let held =
            Verdict { level: Level::Good, held: true, text: "Held 1000 Hz.".into(), ..Verdict::default() };
        assert_eq!(amended(held.clone(), &check("missed=5", 5.0)), held);
        let verdict = amended(held, &check("missed=0,wake_p99=1us,rate=1", 143_000.0));
        assert_eq!((verdict.level, verdict.headline.as_str()), (Level::Bad, "2 of 3 requirements not met"));
        assert_eq!(
            verdict.text,
            "Not met: missed is 143,000; at most 0 is required (and 1 more requirement). Held 1000 Hz."
        );
        assert_eq!(verdict.reasons[1], "Not met: wake_p99 is 143 µs; at most 1 µs is required.");
    }
}
