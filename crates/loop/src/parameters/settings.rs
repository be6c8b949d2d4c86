//! `[parameters]` of a robot file: start values, and parameters declared for controllers of one's own.

use super::Parameter;
use khz_settings::{Key, KeyPlace, Reader, Setting, Shape, section, words};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

words! {
    /// What values a parameter takes.
    ParameterKind {
        /// A number.
        Float = "float",
        /// A number without a fraction.
        Integer = "integer",
        /// `true` or `false`.
        Boolean = "boolean",
    }
}

section! {
    /// `NAME = { … }` of `[parameters]`: narrows the range of a parameter that the controller declares, or declares one for
    /// controllers of your own, which read it by its name. `NAME = VALUE` alone gives a declared one its start value.
    ParameterSettings {
        /// Start value: a number, `true` or `false`.
        value: Option<ParameterValue> = None, "";
        /// What values it takes. Without the key a value of `true` or `false` makes it a boolean.
        kind: Option<ParameterKind> = None, "";
        /// Least value. A parameter that the controller does not declare needs it, unless it is a boolean.
        min: Option<f64> = None, "";
        /// Greatest value, as `min`.
        max: Option<f64> = None, "";
        /// Unit, for people.
        unit: Option<String> = None, "";
        /// What it does, in a sentence.
        text: Option<String> = None, "";
    }
}

/// `[parameters]`, by name.
pub type ParametersConfig = BTreeMap<String, ParameterSettings>;

/// A number, or `true` or `false`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterValue {
    /// A number.
    Number(f64),
    /// On or off.
    Boolean(bool),
}

impl Default for ParameterValue {
    fn default() -> Self {
        Self::Number(0.0)
    }
}

impl ParameterValue {
    /// As a parameter keeps it.
    pub fn number(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Boolean(on) => f64::from(u8::from(on)),
        }
    }
}

impl Serialize for ParameterValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => number.serialize(serializer),
            Self::Boolean(on) => on.serialize(serializer),
        }
    }
}

impl Setting for ParameterValue {
    const SHAPE: Shape = Shape::Number;

    fn read(base: Self, value: &Spanned<DeValue<'_>>, at: &KeyPlace<'_>, reader: &mut Reader) -> Self {
        match value.get_ref().as_bool() {
            Some(on) => Self::Boolean(on),
            None => Self::Number(f64::read(base.number(), value, at, reader)),
        }
    }
}

impl ParameterSettings {
    /// The parameter that it declares, if it is complete.
    pub fn declared(&self, name: &str) -> Option<Parameter> {
        let value = self.value?;
        let is_boolean = matches!(value, ParameterValue::Boolean(_));
        let kind =
            self.kind.unwrap_or(if is_boolean { ParameterKind::Boolean } else { ParameterKind::Float });
        let range = match kind {
            ParameterKind::Boolean => 0.0..=1.0,
            _ => self.min?..=self.max?,
        };
        let parameter = Parameter::new(name.to_owned(), kind, value.number(), range);
        let [unit, text] = [&self.unit, &self.text].map(|text| text.clone().unwrap_or_default());
        Some(parameter.in_unit(unit).about(text))
    }
}

const SETTINGS: Key = Key::table("parameters", ParameterSettings::KEYS);
const VALUE: Key = ParameterSettings::KEYS[0];

/// Reads `[parameters]`, or a table below it whose names begin with `prefix`. `gait.kp = 0.4` and `"gait.kp" = 0.4` are the same.
/// What is wrong becomes a problem of the reader.
pub fn read_parameters(table: &DeTable<'_>, prefix: &str, reader: &mut Reader) -> ParametersConfig {
    let mut read = ParametersConfig::new();
    for (key, value) in table {
        let name = khz_settings::join(prefix, key.get_ref());
        let at = |key| KeyPlace { path: format!("parameters.{name}"), key };
        let before = reader.problems.len();
        let settings = match value.get_ref().as_table() {
            Some(group) if !has_key_of_a_parameter(group) => {
                read.extend(read_parameters(group, &name, reader));
                continue;
            }
            Some(_) => ParameterSettings::read(ParameterSettings::default(), value, &at(&SETTINGS), reader),
            None => {
                let value = ParameterValue::read(ParameterValue::default(), value, &at(&VALUE), reader);
                ParameterSettings { value: Some(value), ..ParameterSettings::default() }
            }
        };
        if reader.problems.len() == before {
            reader.remember(format!("parameters.{name}"), value.span());
        }
        read.insert(name, settings);
    }
    read
}

/// A table is a parameter if it has one of its keys, else a group of parameters.
fn has_key_of_a_parameter(table: &DeTable<'_>) -> bool {
    let names = ParameterSettings::names();
    table.keys().any(|key| names.contains(&key.get_ref().as_ref()))
}
