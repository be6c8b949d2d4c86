//! Which samples go on the network: a loop makes more than a viewer can use.

use khz_tlog::{DecodeError, Input, Type, Value};
use serde::{Deserialize, Serialize};

/// How many samples of a record are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// All of them.
    Every,
    /// Those that differ from the one before.
    Change,
    /// The newest, at most so many times a second (0.001 to 10,000 Hz).
    RateHz(f64),
    /// None.
    Off,
}

impl Rule {
    /// Checks the rate.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(self) -> Result<Self, String> {
        match self {
            Self::RateHz(hz) if !(0.001..=10_000.0).contains(&hz) => {
                Err(format!("rate_hz: {hz} is outside 0.001 to 10000"))
            }
            rule => Ok(rule),
        }
    }

    /// What is usual for a record of this name: what happens rarely in full, the rest 50 times a second.
    pub fn usual(record: &str) -> Self {
        match record {
            "event" | "parameter" | "teleop" => Self::Every,
            "robot" | "parameters" => Self::Change,
            _ => Self::RateHz(50.0),
        }
    }
}

/// The least and the greatest of what was not passed on, field by field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Range {
    /// A sample with the least value of each number; everything else as in the newest sample.
    pub least: Vec<u8>,
    /// The same with the greatest.
    pub greatest: Vec<u8>,
}

/// Thins out the samples of one record.
#[derive(Debug)]
pub struct Thinner {
    rule: Rule,
    /// Keep the range of the samples between two that are passed on.
    ranges: bool,
    due_us: Option<i64>,
    before: Option<Vec<u8>>,
    range: Option<Range>,
}

impl Thinner {
    /// One that has seen nothing yet. `ranges` matters with [`Rule::RateHz`] alone: the other rules lose nothing that
    /// differs.
    pub fn new(rule: Rule, ranges: bool) -> Self {
        Self {
            rule,
            ranges: ranges && matches!(rule, Rule::RateHz(_)),
            due_us: None,
            before: None,
            range: None,
        }
    }

    /// Whether a sample is passed on, and with which range of it and those since the last.
    pub fn sample(&mut self, ty: &Type, time_us: i64, payload: &[u8]) -> Option<Option<Range>> {
        match self.rule {
            Rule::Every => Some(None),
            Rule::Off => None,
            Rule::Change => {
                let is_new = self.before.as_deref() != Some(payload);
                if is_new {
                    self.before = Some(payload.to_owned());
                }
                is_new.then_some(None)
            }
            Rule::RateHz(hz) => {
                if self.ranges {
                    self.widen(ty, payload);
                }
                self.is_due(time_us, (1e6 / hz) as i64).then(|| self.range.take())
            }
        }
    }

    fn is_due(&mut self, time_us: i64, period_us: i64) -> bool {
        let due_us = self.due_us.unwrap_or(time_us);
        // A clock that was set back starts anew, and so does a record that paused.
        let is_due = time_us >= due_us || due_us.saturating_sub(time_us) > period_us;
        if is_due {
            let next_us = due_us.saturating_add(period_us);
            let is_near = (time_us..=time_us.saturating_add(period_us)).contains(&next_us);
            self.due_us = Some(if is_near { next_us } else { time_us.saturating_add(period_us) });
        }
        is_due
    }

    fn widen(&mut self, ty: &Type, payload: &[u8]) {
        let wider = self.range.as_ref().and_then(|range| {
            let side = |kept: &[u8], pick| fold(ty, kept, payload, pick).ok();
            Some(Range {
                least: side(&range.least, Pick::Least)?,
                greatest: side(&range.greatest, Pick::Greatest)?,
            })
        });
        self.range =
            Some(wider.unwrap_or_else(|| Range { least: payload.to_owned(), greatest: payload.to_owned() }));
    }
}

#[derive(Clone, Copy)]
enum Pick {
    Least,
    Greatest,
}

/// A sample with the least or the greatest of each number of two, and the rest of `new`.
fn fold(ty: &Type, kept: &[u8], new: &[u8], pick: Pick) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(new.len());
    each(ty, &mut Input::new(kept), &mut Input::new(new), pick, &mut out)?;
    Ok(out)
}

fn each<'a>(
    ty: &'a Type,
    kept: &mut Input<'a>,
    new: &mut Input<'a>,
    pick: Pick,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    if let Type::Object(fields) = ty {
        return fields.iter().try_for_each(|field| each(&field.ty, kept, new, pick, out));
    }
    if let Type::FixedArray(size, item) = ty
        && item.fixed_size().is_some_and(|size| size > 0)
    {
        return (0..*size).try_for_each(|_| each(item, kept, new, pick, out));
    }
    let (old, of_old) = next(ty, kept)?;
    let (value, of_new) = next(ty, new)?;
    let keeps = is_plain(ty)
        && old.number().zip(value.number()).is_some_and(|(old, value)| match pick {
            // What is no number gives way to what is one.
            _ if value.is_nan() => true,
            Pick::Least => old < value,
            Pick::Greatest => old > value,
        });
    out.extend_from_slice(if keeps { of_old } else { of_new });
    Ok(())
}

/// A value and its bytes.
fn next<'a>(ty: &'a Type, input: &mut Input<'a>) -> Result<(Value<'a>, &'a [u8]), DecodeError> {
    let before = input.rest();
    let value = Value::next(ty, input)?;
    Ok((value, &before[..before.len() - input.rest().len()]))
}

fn is_plain(ty: &Type) -> bool {
    use Type::{Bool, Duration, Float32, Float64, Int, Uint, VarInt, VarUint};
    matches!(ty, Bool | Int(_) | Uint(_) | VarInt | VarUint | Float32 | Float64 | Duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Sink, Width};

    fn volts() -> Type {
        Type::object([("volts", Type::Float64)])
    }

    fn passed(thinner: &mut Thinner, times: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let value = 1.0f64.to_le_bytes();
        times.into_iter().filter(|time| thinner.sample(&volts(), *time, &value).is_some()).collect()
    }

    #[test]
    fn a_rate_is_kept_whatever_the_samples_come_at() {
        let mut thinner = Thinner::new(Rule::RateHz(50.0), false);
        assert_eq!(passed(&mut thinner, (0..100).map(|ms| 1000 * ms)), [0, 20_000, 40_000, 60_000, 80_000]);
        // 60 a second of 1000: not every 17th ms, which would be 58.8.
        let mut thinner = Thinner::new(Rule::RateHz(60.0), false);
        assert_eq!(passed(&mut thinner, (0..1000).map(|ms| 1000 * ms)).len(), 60);
        // Slower than the rule: all.
        let mut thinner = Thinner::new(Rule::RateHz(50.0), false);
        assert_eq!(passed(&mut thinner, (0..10).map(|n| 100_000 * n)).len(), 10);
    }

    #[test]
    fn a_clock_that_leaps_starts_anew() {
        let mut thinner = Thinner::new(Rule::RateHz(50.0), false);
        let hour = 3_600_000_000;
        assert_eq!(passed(&mut thinner, [hour, 0, 1000, 20_000, hour, hour + 1000]), [hour, 0, 20_000, hour]);
    }

    #[test]
    fn changes_alone() {
        let mut thinner = Thinner::new(Rule::Change, true);
        let mut passes = |value: f64| thinner.sample(&volts(), 0, &value.to_le_bytes()).is_some();
        assert_eq!([passes(1.0), passes(1.0), passes(2.0), passes(1.0)], [true, false, true, true]);
        assert!(Thinner::new(Rule::Off, true).sample(&volts(), 0, &[0; 8]).is_none());
        assert_eq!(Thinner::new(Rule::Every, true).sample(&volts(), 0, &[0; 8]), Some(None));
    }

    #[test]
    fn no_spike_is_lost() {
        let ty = Type::object([
            ("a", Type::Float32),
            ("name", Type::String),
            ("counts", Type::FixedArray(2, Box::new(Type::Int(Width::Two)))),
            ("n", Type::VarUint),
        ]);
        let sample = |a: f32, name: &str, counts: [i16; 2], n: u64| {
            let mut bytes = a.to_le_bytes().to_vec();
            bytes.counted(name.as_bytes());
            counts.iter().for_each(|count| bytes.put(&count.to_le_bytes()));
            bytes.varuint(n);
            bytes
        };
        let mut thinner = Thinner::new(Rule::RateHz(100.0), true);
        assert!(thinner.sample(&ty, 0, &sample(1.0, "first", [0, 0], 5)).is_some());
        assert_eq!(thinner.sample(&ty, 1000, &sample(f32::NAN, "", [7, -7], 1000)), None);
        assert_eq!(thinner.sample(&ty, 2000, &sample(9.0, "longer", [1, 1], 1)), None);
        let range = thinner.sample(&ty, 10_000, &sample(2.0, "last", [2, 2], 3)).flatten().unwrap();
        assert_eq!(range.least, sample(2.0, "last", [1, -7], 1));
        assert_eq!(range.greatest, sample(9.0, "last", [7, 2], 1000));
    }

    #[test]
    fn rates_are_checked() {
        assert!(Rule::RateHz(0.0).check().is_err() && Rule::RateHz(f64::NAN).check().is_err());
        assert_eq!(Rule::RateHz(50.0).check(), Ok(Rule::RateHz(50.0)));
    }
}
