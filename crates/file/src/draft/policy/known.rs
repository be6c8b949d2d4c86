//! What is known of a policy, and of two files about the same policy.

use super::short;
use khz_controllers::policy::settings::Term as Sees;
use khz_controllers::policy::{is_same, known_term};
use std::fmt;

/// What is known so far. Lists are in the policy's order.
#[derive(Default)]
pub(super) struct Known {
    /// What is being read.
    pub(super) from: String,
    /// Key, value, file.
    pub(super) rows: Vec<[String; 3]>,
    pub(super) lacking: Vec<String>,
    pub(super) rate_hz: Option<f64>,
    pub(super) joints: Option<Vec<String>>,
    /// Of each joint its place in the robot's order, and the names of that.
    pub(super) places: Option<Vec<usize>>,
    pub(super) robot_names: Option<Vec<String>>,
    pub(super) default: Option<Vec<f64>>,
    pub(super) scale: Option<Vec<f64>>,
    pub(super) offset: Option<Vec<f64>>,
    pub(super) clip: Option<Vec<[f64; 2]>>,
    pub(super) kp: Option<Vec<f64>>,
    pub(super) kd: Option<Vec<f64>>,
    pub(super) torque: Option<Vec<f64>>,
    pub(super) terms: Option<Vec<Term>>,
    pub(super) frames: Option<Frames>,
    /// What of `lacking` is of the action.
    pub(super) action_unknown: Vec<String>,
}

/// A term as its trainer names it. `None`: not given.
#[derive(Clone, Default)]
pub(super) struct Term {
    pub(super) name: String,
    /// Empty: it is not clipped.
    pub(super) clip: Option<Vec<[f64; 2]>>,
    pub(super) scale: Option<Vec<f64>>,
    pub(super) history: Option<usize>,
    /// Of a phase.
    pub(super) period_s: Option<f64>,
    /// What of the file is not understood of it.
    pub(super) unknown: Vec<String>,
}

/// How a history lies in the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Frames {
    pub(super) newest_first: bool,
    pub(super) by_time: bool,
}

/// As the table shows it.
impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.history.filter(|history| *history > 1).map_or(Ok(()), |history| write!(f, " × {history}"))
    }
}

impl Term {
    /// What it is here.
    pub(super) fn sees(&self) -> Option<Sees> {
        known_term(&self.name)
    }

    /// The differences to the other, each with both values.
    fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        macro_rules! compare {
            ($($key:ident)*) => { $(
                if let (Some(one), Some(other_one)) = (&self.$key, &other.$key) && !one.is_as(other_one) {
                    found.push(format!("{} of {}: {one:?}, and {other_one:?}", stringify!($key), self.name));
                }
            )* };
        }
        compare!(clip scale history period_s);
        found
    }
}

impl Known {
    /// Records what the file being read has for this key, for the table.
    pub(super) fn record<T: fmt::Debug>(&mut self, key: &str, value: Option<T>) -> Option<T> {
        if let Some(value) = &value {
            self.rows.push([key.to_owned(), short(&format!("{value:?}")), self.from.clone()]);
        }
        value
    }

    /// Takes from another file what is not known yet; what both have is the same.
    pub(super) fn over(&mut self, other: Self) {
        macro_rules! take {
            ($($key:ident)*) => { $(
                if let (Some(one), Some(other_one)) = (&self.$key, &other.$key) && !one.is_as(other_one) {
                    let what = format!("{}: {one:?}, and {}: {other_one:?}", stringify!($key), other.from);
                    self.lacking.push(what);
                }
                self.$key = self.$key.take().or(other.$key);
            )* };
        }
        if let (Some(ones), Some(others)) = (&self.terms, &other.terms)
            && ones.is_as(others)
        {
            let differ = ones.iter().zip(others).flat_map(|(one, other)| one.differences(other));
            self.lacking.extend(differ.map(|what| format!("{what} in {}", other.from)));
        }
        take!(rate_hz joints places robot_names default scale offset clip kp kd torque terms frames);
        self.rows.extend(other.rows);
        self.lacking.extend(other.lacking);
        self.action_unknown.extend(other.action_unknown);
    }
}

/// The same numbers but for what exporters round.
pub(super) fn same(one: &Vec<f64>, other: &Vec<f64>) -> bool {
    one.is_as(other)
}

/// Equal but for what exporters round.
pub(super) trait Same {
    fn is_as(&self, other: &Self) -> bool;
}

impl Same for f64 {
    fn is_as(&self, other: &Self) -> bool {
        is_same(*self, *other)
    }
}

impl Same for [f64; 2] {
    fn is_as(&self, other: &Self) -> bool {
        self.iter().zip(other).all(|(one, other)| one.is_as(other))
    }
}

macro_rules! same_if_equal {
    ($($kind:ty)*) => { $(
        impl Same for $kind {
            fn is_as(&self, other: &Self) -> bool {
                self == other
            }
        }
    )* };
}

same_if_equal!(String usize Frames);

/// The same term; see [`Term::differences`].
impl Same for Term {
    fn is_as(&self, other: &Self) -> bool {
        self.sees() == other.sees() && (self.sees().is_some() || self.name == other.name)
    }
}

/// One for all is as many.
impl<T: Same> Same for Vec<T> {
    fn is_as(&self, other: &Self) -> bool {
        let count = self.len().max(other.len());
        let fits = |list: &Self| list.len() == count || list.len() == 1;
        let one = |list: &'_ Self, place: usize| if list.len() == 1 { 0 } else { place };
        fits(self) && fits(other) && (0..count).all(|at| self[one(self, at)].is_as(&other[one(other, at)]))
    }
}
