//! The JSON Schema of robot files, for editors.

use super::*;
use khz_settings::schema::{DRAFT, optional, section, selected, table};
use serde_json::{Value, json};

/// The schema of robot files as JSON: `khz check --schema`.
pub fn schema() -> Value {
    json!({
        "$schema": DRAFT,
        "title": "Robot file of Kilohertz",
        "type": "object",
        "additionalProperties": false,
        "required": ["bus", "servo"],
        "properties": {
            "robot": section(RobotSection::ABOUT, RobotSection::KEYS),
            "loop": section(LoopConfig::ABOUT, LoopConfig::KEYS),
            "bus": { "type": "object", "minProperties": 1, "additionalProperties": { "oneOf": buses() } },
            "servo": { "type": "array", "minItems": 1, "items": servo() },
            "servo_defaults": servo_defaults(),
            "imu": section(ImuConfig::ABOUT, ImuConfig::KEYS),
            "pi3hat": section(Pi3hatConfig::ABOUT, Pi3hatConfig::KEYS),
            "controller": { "oneOf": controllers() },
            "parameters": { "type": "object", "additionalProperties": { "anyOf": parameters() } },
            "targets": section(TargetsConfig::ABOUT, TargetsConfig::KEYS),
            "teleop": section(TeleopConfig::ABOUT, TeleopConfig::KEYS),
            "supervisor": section(SupervisorSettings::ABOUT, SupervisorSettings::KEYS),
            "watchdog": section(WatchdogSettings::ABOUT, WatchdogSettings::KEYS),
            "log": section(LogConfig::ABOUT, LogConfig::KEYS),
            "emulation": section(EmulationConfig::ABOUT, EmulationConfig::KEYS),
            "body": { "oneOf": bodies() },
        },
    })
}

/// One table per kind of link.
fn buses() -> Vec<Value> {
    let bus =
        |kind: &LinkKind| selected(table(BusSection::KEYS.iter().chain(kind.keys())), "link", kind.word());
    LinkKind::ALL.iter().map(bus).collect()
}

/// One table per controller; without `name` it is the first.
fn controllers() -> Vec<Value> {
    let controller = |kind: &ControllerKind| {
        let mut table =
            selected(table(ControllerSection::KEYS.iter().chain(kind.keys())), "name", kind.word());
        if *kind != ControllerKind::default() {
            table["required"] = json!(["name"]);
        }
        table
    };
    ControllerKind::ALL.iter().map(controller).collect()
}

/// A start value, a declaration, or parameters whose names begin alike.
fn parameters() -> Vec<Value> {
    let mut table = table(ParameterSettings::KEYS);
    table["properties"]["value"]["type"] = json!(["number", "boolean"]);
    vec![json!({ "type": ["number", "boolean"] }), table, json!({ "type": "object" })]
}

/// One table per kind of body; without `kind` it is the first.
fn bodies() -> Vec<Value> {
    let body = |kind: &BodyKind| {
        let mut table = selected(table(BodySection::KEYS.iter().chain(kind.keys())), "kind", kind.word());
        if *kind == BodyKind::default() {
            return optional(table);
        }
        table["required"] = json!(["kind", "model"]);
        table
    };
    BodyKind::ALL.iter().map(body).collect()
}

/// The bus may be given for all servos; what only one can have must be in its own table.
fn servo() -> Value {
    let mut servo = section(ServoSettings::ABOUT, ServoSettings::KEYS);
    servo["required"] = json!(OWN);
    servo
}

fn servo_defaults() -> Value {
    let shared = ServoSettings::KEYS.iter().filter(|key| !OWN.contains(&key.name));
    optional(table(shared))
}

/// What servos cannot share.
const OWN: [&str; 2] = ["name", "id"];
