//! Parameters: numbers of a controller that a person may change while the robot runs.
//!
//! A controller declares them ([`Controller::parameters`](crate::Controller::parameters)) and keeps a clone of each: that
//! is where it reads the value in force. A change is checked where it is asked for ([`LiveParameters`]), travels to the
//! loop through a ring, and is taken at the start of a tick, so that no update sees two values of one parameter. Only
//! what a tick has taken is shown and recorded.
//!
//! ```
//! use khz_loop::parameters::Parameter;
//! use khz_loop::{ControlError, Controller, PositionCommand, RobotState, ServoCommand};
//!
//! /// Pulls every joint to zero, as stiffly as a person likes.
//! struct Zero {
//!     stiffness: Parameter,
//! }
//!
//! impl Controller for Zero {
//!     fn parameters(&self) -> Vec<Parameter> {
//!         vec![self.stiffness.clone()]
//!     }
//!
//!     fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
//!         let kp_scale = self.stiffness.get();
//!         commands.fill(ServoCommand::Position(PositionCommand { kp_scale, ..PositionCommand::hold(0.0) }));
//!         Ok(())
//!     }
//! }
//!
//! let stiffness = Parameter::float("stiffness", 0.5, 0.0..=1.0).about("Share of the servos' position gain");
//! let zero = Zero { stiffness };
//! assert_eq!(zero.parameters()[0].get(), 0.5);
//! ```

mod change;
pub mod settings;
mod settle;
mod ticket;

pub use change::source;
pub use change::{Intake, LiveParameters, MOST_CHANGES, Receipt, Source, Taken};
pub use settle::settle;

use khz_run::channel;
use serde_json::Value;
use settings::{ParameterKind, ParameterSettings, ParameterValue};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value beyond a bound by so small a share of it is the bound.
const ROUNDING: f64 = 1e-9;

/// Whole numbers beyond this are not all numbers of 64 bits.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// One parameter: what it is, and its value in force. Clones share the value.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// `[A-Za-z_][A-Za-z0-9_.]*`, unique within a run. Those of a chain's module begin with the module's name and a dot.
    pub name: String,
    /// What values it takes.
    pub kind: ParameterKind,
    /// Unit; empty if it has none.
    pub unit: String,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// What the controller starts with by default.
    pub default: f64,
    /// What it does, in a sentence.
    pub text: String,
    /// It is a [signal](Self::signal).
    pub is_signal: bool,
    value: Arc<AtomicU64>,
}

/// Why a parameter cannot be declared, or a value not be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParameterError(pub String);

impl Parameter {
    /// A number. What is wrong with name or range is reported when the robot is started.
    pub fn float(name: impl Into<String>, default: f64, range: RangeInclusive<f64>) -> Self {
        Self::new(name.into(), ParameterKind::Float, default, range)
    }

    /// A number without a fraction.
    pub fn integer(name: impl Into<String>, default: i64, range: RangeInclusive<i64>) -> Self {
        let range = *range.start() as f64..=*range.end() as f64;
        Self::new(name.into(), ParameterKind::Integer, default as f64, range)
    }

    /// On or off.
    pub fn boolean(name: impl Into<String>, default: bool) -> Self {
        Self::new(name.into(), ParameterKind::Boolean, f64::from(u8::from(default)), 0.0..=1.0)
    }

    pub(crate) fn new(name: String, kind: ParameterKind, default: f64, range: RangeInclusive<f64>) -> Self {
        let (min, max) = range.into_inner();
        let value = Arc::new(AtomicU64::new(default.to_bits()));
        Self {
            name,
            kind,
            unit: String::new(),
            min,
            max,
            default,
            text: String::new(),
            is_signal: false,
            value,
        }
    }

    /// The same in this unit.
    #[must_use]
    pub fn in_unit(self, unit: impl Into<String>) -> Self {
        Self { unit: unit.into(), ..self }
    }

    /// The same with a sentence on what it does.
    #[must_use]
    pub fn about(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// The same as a signal: a number that a program sends repeatedly, and whose age counts. The controller finds it in
    /// [`RobotState::signals`](crate::RobotState::signals), at the place among its signals that it has among those it declares.
    #[must_use]
    pub fn signal(self) -> Self {
        Self { is_signal: true, ..self }
    }

    /// The value in force; 0 or 1 of a boolean. Neither allocates nor locks.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.value.load(Ordering::Relaxed))
    }

    /// A boolean is on.
    pub fn is_on(&self) -> bool {
        self.get() != 0.0
    }

    /// Puts a checked value in force, in place of the loop. While a loop runs, [`LiveParameters`] changes it.
    pub fn put(&self, value: f64) {
        self.value.store(value.to_bits(), Ordering::Relaxed);
    }

    /// The same parameter as another thread sees it: with a value of its own.
    pub(crate) fn apart(&self) -> Self {
        Self { value: Arc::new(AtomicU64::new(self.get().to_bits())), ..self.clone() }
    }

    /// The same parameter as one of a module; what cannot stand in a name becomes `_`.
    pub(crate) fn of_module(self, module: &str) -> Self {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let module: String = module.chars().map(allowed).collect();
        Self { name: format!("{module}.{}", self.name), ..self }
    }

    /// Another owner keeps a clone of it.
    pub(crate) fn is_kept(&self) -> bool {
        Arc::strong_count(&self.value) > 1
    }

    /// Whether it takes this value.
    ///
    /// # Errors
    /// Why not, with what it takes.
    pub fn check(&self, value: f64) -> Result<(), ParameterError> {
        let Self { name, min, max, .. } = self;
        if !value.is_finite() {
            return Err(refused(name, format_args!("{value} is not a finite number")));
        }
        if self.kind != ParameterKind::Float && value.fract() != 0.0 {
            return Err(refused(name, format_args!("{value} is not a whole number")));
        }
        // A bound as it is printed, rounded, is one.
        let [least, most] = [min - ROUNDING * min.abs(), max + ROUNDING * max.abs()];
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(refused(name, format_args!("{value} is outside {min} to {max}"))),
        }
    }

    /// The number that stands for a value of JSON.
    ///
    /// # Errors
    /// It is of another type.
    pub fn read(&self, value: &Value) -> Result<f64, ParameterError> {
        let found = match self.kind {
            ParameterKind::Boolean => value.as_bool().map(|on| f64::from(u8::from(on))),
            _ => value.as_f64(),
        };
        let want = if self.kind == ParameterKind::Boolean { "true or false" } else { "a number" };
        found.ok_or_else(|| refused(&self.name, format_args!("it must be {want}, not {value}")))
    }

    /// A value of it as JSON, by its kind.
    pub fn json(&self, value: f64) -> Value {
        channel::ValueKind::from(self.kind).json(Some(value))
    }

    /// What it is and its value in force, as in the record `parameters`.
    pub fn described(&self) -> Value {
        let described = channel::Parameter {
            name: self.name.clone(),
            kind: self.kind.into(),
            unit: self.unit.clone(),
            min: Some(self.min),
            max: Some(self.max),
            default: Some(self.default),
            text: self.text.clone(),
            value: Some(self.get()),
        };
        // It has numbers, texts and nothing else.
        serde_json::to_value(described).unwrap_or_default()
    }

    /// Gives it the start value of the robot file, and the file's range within its own.
    ///
    /// # Errors
    /// The file has what only the controller can declare, or values that do not fit.
    fn narrow(&mut self, file: &ParameterSettings) -> Result<(), ParameterError> {
        let ParameterSettings { value, kind, min, max, unit, text } = file;
        let name = &self.name;
        if kind.is_some_and(|kind| kind != self.kind) || unit.is_some() || text.is_some() {
            let help = "the controller declares it; only `value`, `min` and `max` can be given here";
            return Err(refused(name, help));
        }
        for end in [min, max].into_iter().flatten() {
            self.check(*end)?;
        }
        if let Some(value) = value {
            let is_boolean = matches!(value, ParameterValue::Boolean(_));
            if is_boolean != (self.kind == ParameterKind::Boolean) {
                let want = if is_boolean { "a number" } else { "true or false" };
                return Err(refused(name, format_args!("it must be {want}")));
            }
            self.check(value.number())?;
            self.put(value.number());
        }
        (self.min, self.max) = (min.unwrap_or(self.min), max.unwrap_or(self.max));
        self.default = self.default.clamp(self.min, self.max.max(self.min));
        Ok(())
    }

    /// Whether it can be declared.
    ///
    /// # Errors
    /// Its name cannot name a parameter, or its range or value is none.
    pub fn check_declaration(&self) -> Result<(), ParameterError> {
        let Self { name, kind, min, max, .. } = self;
        if !is_name(name) {
            let help = "letters, digits, `_` and `.`, and first a letter or `_`";
            return Err(ParameterError(format!("`{name}` cannot name a parameter: use {help}")));
        }
        if !(min.is_finite() && max.is_finite() && min <= max) {
            return Err(refused(name, format_args!("{min} to {max} is no range of finite numbers")));
        }
        if *kind == ParameterKind::Integer && [min, max].iter().any(|end| end.abs() > WHOLE) {
            return Err(refused(name, format_args!("whole numbers go up to {WHOLE}")));
        }
        self.check(*min)?;
        self.check(*max)?;
        self.check(self.default)
    }
}

impl From<ParameterKind> for channel::ValueKind {
    fn from(kind: ParameterKind) -> Self {
        match kind {
            ParameterKind::Float => Self::Float,
            ParameterKind::Integer => Self::Integer,
            ParameterKind::Boolean => Self::Boolean,
        }
    }
}

/// A parameter may be called so: `[A-Za-z_][A-Za-z0-9_.]*`.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

fn refused(name: &str, why: impl Display) -> ParameterError {
    ParameterError(format!("{name}: {why}"))
}

/// The place among all signals of one in a list of parameters; `None`: it is none.
pub fn signal_of(list: &[Parameter], at: usize) -> Option<usize> {
    let is_signal = list.get(at)?.is_signal;
    is_signal.then(|| list[..at].iter().filter(|parameter| parameter.is_signal).count())
}

/// The parameter of this name, with its place.
fn find<'a>(list: &'a [Parameter], name: &str) -> Result<(usize, &'a Parameter), ParameterError> {
    let found = list.iter().enumerate().find(|(_, parameter)| parameter.name == name);
    found.ok_or_else(|| unknown(list, name))
}

fn unknown(list: &[Parameter], name: &str) -> ParameterError {
    let known: Vec<&str> = list.iter().map(|parameter| parameter.name.as_str()).collect();
    let help = match khz_settings::suggestion(name, &known, "the parameters are") {
        none if none.is_empty() => "the controller declares none".to_owned(),
        help => help,
    };
    ParameterError(format!("there is no parameter `{name}`; {help}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_refused_with_what_is_taken() {
        let gain = Parameter::float("kp", 0.4, 0.0..=2.0);
        let steps = Parameter::integer("steps", 2, -3..=3);
        let refused = |parameter: &Parameter, value| parameter.check(value).unwrap_err().0;
        assert_eq!(refused(&gain, 7.0), "kp: 7 is outside 0 to 2");
        assert_eq!(refused(&gain, f64::NAN), "kp: NaN is not a finite number");
        assert_eq!(refused(&steps, 0.5), "steps: 0.5 is not a whole number");
        assert_eq!(refused(&steps, 4.0), "steps: 4 is outside -3 to 3");
        assert_eq!((gain.check(2.0), steps.check(-3.0)), (Ok(()), Ok(())));
        // Shown as 0.04485.
        let lift = Parameter::float("lift_m", 0.0, 0.0..=0.044_849_999_999_999_994);
        assert!(lift.check(0.04485).is_ok() && lift.check(0.04486).is_err() && lift.check(-1e-12).is_err());
    }

    #[test]
    fn json_is_read_by_kind() {
        let (gain, on) = (Parameter::float("kp", 0.4, 0.0..=2.0), Parameter::boolean("on", false));
        assert_eq!((gain.read(&json!(1)), on.read(&json!(true))), (Ok(1.0), Ok(1.0)));
        assert_eq!(on.read(&json!(1)).unwrap_err().0, "on: it must be true or false, not 1");
        assert_eq!(gain.read(&json!("1")).unwrap_err().0, "kp: it must be a number, not \"1\"");
        let steps = Parameter::integer("steps", 2, -3..=3).in_unit("steps").described();
        assert_eq!(
            (&steps["value"], &steps["type"], &steps["min"]),
            (&json!(2), &json!("integer"), &json!(-3))
        );
    }

    #[test]
    fn a_module_of_any_name_can_have_parameters() {
        let parameter = Parameter::float("kp", 0.0, 0.0..=1.0).of_module("low pass").of_module("gait");
        assert_eq!((parameter.name.as_str(), parameter.check_declaration()), ("gait.low_pass.kp", Ok(())));
    }

    #[test]
    fn what_cannot_be_declared_is_refused() {
        for bad in [
            Parameter::float("2kp", 0.0, 0.0..=1.0),
            Parameter::float("k p", 0.0, 0.0..=1.0),
            Parameter::float("", 0.0, 0.0..=1.0),
            Parameter::float("kp", 2.0, 0.0..=1.0),
            Parameter::float("kp", 0.0, 1.0..=0.0),
            Parameter::float("kp", 0.0, 0.0..=f64::INFINITY),
            Parameter::float("kp", f64::NAN, 0.0..=1.0),
            Parameter::integer("n", 0, 0..=i64::MAX),
        ] {
            assert!(bad.check_declaration().is_err(), "{bad:?}");
        }
        assert_eq!(Parameter::float("_gait.kp2", 0.0, -1.0..=1.0).check_declaration(), Ok(()));
    }
}
