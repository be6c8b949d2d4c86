use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// One of the robot's parameters, as its record `parameters` and the answer to [`Question::Parameters`](super::Question::Parameters)
/// have it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Wire")]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: ValueKind,
    /// The unit of its values, if they have one.
    pub unit: String,
    /// The smallest value.
    pub min: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
    /// The value it has unless it is set.
    pub default: Option<f64>,
    /// What it does.
    pub text: String,
    /// The value in force: that of the last tick that took one.
    pub value: Option<f64>,
}

/// What the values of a parameter are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// Any number.
    #[default]
    Float,
    /// Integers.
    Integer,
    /// True or false; 1 and 0 in records.
    Boolean,
}

impl ValueKind {
    /// A value of this kind as JSON.
    pub fn json(self, value: Option<f64>) -> Value {
        match (self, value) {
            (_, None) => Value::Null,
            (Self::Boolean, Some(value)) => (value != 0.0).into(),
            (Self::Integer, Some(value)) if value.abs() < 9e15 => (value as i64).into(),
            (_, Some(value)) => value.into(),
        }
    }

    /// A number, or a truth value as 1 or 0.
    pub fn number(value: &Value) -> Option<f64> {
        value.as_bool().map(f64::from).or_else(|| value.as_f64())
    }
}

impl Parameter {
    /// A value of it as JSON.
    pub fn json(&self, value: Option<f64>) -> Value {
        self.kind.json(value)
    }

    /// The parameters in a list as the record `parameters` has it. One that cannot be read is left out.
    pub fn list(text: &str) -> Vec<Self> {
        let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect()
    }
}

/// A parameter as it is written; limits and values are of its kind.
#[derive(Serialize, Deserialize)]
struct Wire {
    name: String,
    #[serde(rename = "type", default)]
    kind: ValueKind,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    min: Value,
    #[serde(default)]
    max: Value,
    #[serde(default)]
    default: Value,
    #[serde(default)]
    text: String,
    #[serde(default)]
    value: Value,
}

impl From<Wire> for Parameter {
    fn from(wire: Wire) -> Self {
        let Wire { name, kind, unit, min, max, default, text, value } = wire;
        let [min, max, default, value] = [min, max, default, value].map(|value| ValueKind::number(&value));
        Self { name, kind, unit, min, max, default, text, value }
    }
}

impl Serialize for Parameter {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { name, kind, unit, min, max, default, text, value } = self.clone();
        let [min, max, default, value] = [min, max, default, value].map(|value| kind.json(value));
        Wire { name, kind, unit, min, max, default, text, value }.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_can_be_read_of_the_parameters_is() {
        let text = r#"[{"name":"kp","type":"float","unit":"N·m/rad","min":0,"max":2,"default":1,"text":"gain","value":0.5},
            {"name":"on","type":"boolean","default":true,"value":false}, {"name":"odd","type":"colour"}, 7]"#;
        let all = Parameter::list(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].max, all[0].value, all[0].json(all[0].value)), (Some(2.0), Some(0.5), json!(0.5)));
        assert_eq!((all[1].default, all[1].json(all[1].value)), (Some(1.0), json!(false)));
        assert_eq!(Parameter::list("{"), []);
    }

    #[test]
    fn limits_and_values_are_written_by_kind() {
        let one = |kind, value| Parameter {
            name: "a".into(),
            kind,
            unit: String::new(),
            min: Some(0.0),
            max: None,
            default: Some(1.0),
            text: "gain".into(),
            value: Some(value),
        };
        let written = |kind, value| serde_json::to_value(one(kind, value)).unwrap();
        let common = |kind: &str, min: Value, default: Value, value: Value| json!({ "name": "a", "type": kind, "unit": "", "min": min, "max": null, "default": default, "text": "gain", "value": value });
        assert_eq!(written(ValueKind::Float, 0.5), common("float", json!(0.0), json!(1.0), json!(0.5)));
        assert_eq!(written(ValueKind::Integer, 3.0), common("integer", json!(0), json!(1), json!(3)));
        assert_eq!(
            written(ValueKind::Boolean, 0.0),
            common("boolean", json!(false), json!(true), json!(false))
        );
        assert_eq!(
            serde_json::from_value::<Parameter>(written(ValueKind::Boolean, 0.0)).unwrap(),
            one(ValueKind::Boolean, 0.0)
        );
    }
}
