//! What happens now and then: changes of phase and of parameters, inputs of a person.

use khz_tlog::Record;
use std::borrow::Cow;

/// A change of phase; or, with equal phases, something that was warned of or derated for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Record)]
pub struct Event<'a> {
    /// In which tick.
    pub tick: u64,
    /// The phase left.
    pub from: Cow<'a, str>,
    /// The phase entered.
    pub to: Cow<'a, str>,
    /// Why.
    pub cause: Cow<'a, str>,
    /// The servo it is about, or empty.
    pub servo: Cow<'a, str>,
    /// Not part of a run that ends as planned.
    pub trouble: bool,
}

/// A change of a parameter.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Parameter<'a> {
    /// The tick that took it.
    pub tick: u64,
    /// Its name.
    pub name: Cow<'a, str>,
    /// The value from then on.
    pub value: f64,
    /// The value before.
    pub before: f64,
    /// Who asked for it.
    pub by: Cow<'a, str>,
}

/// An input of a person who steers, within the limits.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Teleop<'a> {
    /// The tick that took it.
    pub tick: u64,
    /// Forwards.
    #[tlog(unit = "m/s")]
    pub forward: f32,
    /// To the left.
    #[tlog(unit = "m/s")]
    pub left: f32,
    /// Turning, to the left.
    #[tlog(unit = "rad/s")]
    pub turn: f32,
    /// Height of the body above its usual one.
    #[tlog(unit = "m")]
    pub height: f32,
    /// Roll of the body.
    #[tlog(unit = "rad")]
    pub roll: f32,
    /// Pitch of the body.
    #[tlog(unit = "rad")]
    pub pitch: f32,
    /// How old it was when the tick took it.
    #[tlog(unit = "us")]
    pub age_us: u32,
    /// Who sent it.
    pub by: Cow<'a, str>,
}
