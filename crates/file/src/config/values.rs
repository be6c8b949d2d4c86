//! What a robot file means with every default filled in.

use super::*;
use serde::Serialize;
use serde_json::{Map, Value, json};

impl RobotConfig {
    /// The effective value of every key, in the shape of a robot file; keys that are off are left out. A file with
    /// all of it is the same robot.
    pub fn values(&self) -> Value {
        let buses: Map<String, Value> =
            self.buses.iter().map(|bus| (bus.name.clone(), bus.values())).collect();
        let servos: Vec<Value> = self.servos.iter().map(ServoConfig::values).collect();
        without_nulls(json!({
            "robot": { "name": self.name },
            "loop": self.timing,
            "bus": buses,
            "servo": servos,
            "imu": self.imu,
            "pi3hat": self.pi3hat,
            "controller": self.controller.values(),
            "parameters": self.parameters,
            "teleop": self.teleop,
            "targets": self.targets,
            "supervisor": self.supervisor,
            "watchdog": self.watchdog,
            "log": self.log,
            "emulation": self.emulation,
            "body": self.body.as_ref().map(RobotBody::values),
        }))
    }
}

impl RobotConfig {
    /// This robot as its file is checked, however it was made: every problem at once, each with its line in [`RobotConfig::text`].
    ///
    /// # Errors
    /// Something in it is wrong; see [`ConfigError`].
    pub fn checked(&self) -> Result<Self, ConfigError> {
        Self::parse(&self.text()?, &self.name)
    }

    /// A robot file with all of it, every default filled in.
    ///
    /// # Errors
    /// A number that no file can hold.
    pub fn text(&self) -> Result<String, ConfigError> {
        let mut tables = self.values();
        let buses = tables.as_object_mut().and_then(|tables| tables.remove("bus"));
        // One after another: a table of tables would be sorted by name.
        let bus = |bus: &BusConfig| {
            let values = buses.as_ref().map(|buses| &buses[&bus.name]);
            written(&json!({ "bus": { bus.name.as_str(): values } }), &self.name)
        };
        let buses = self.buses.iter().map(bus).collect::<Result<String, _>>()?;
        Ok(written(&tables, &self.name)? + &buses)
    }
}

fn written(tables: &Value, name: &str) -> Result<String, ConfigError> {
    toml::to_string(tables).map_err(|error| {
        ConfigError::new(vec![Problem::error("", format!("`{name}` fits no robot file: {error}"))], "", name)
    })
}

impl RobotBody {
    fn values(&self) -> Value {
        let keys = match self {
            Self::Quadruped(keys) => json!(keys),
            Self::Mujoco(keys) => json!(keys),
        };
        with(keys, "kind", self.kind())
    }
}

impl BusConfig {
    fn values(&self) -> Value {
        with(with(json!(self.link), "link", self.link.kind()), "faults", &self.faults)
    }
}

impl ServoConfig {
    /// Without the keys of other families.
    fn values(&self) -> Value {
        let mut values = json!(self.settings);
        for (key, family) in families::own_keys() {
            let table = match key.split_once('.') {
                Some((table, _)) => values.get_mut(table),
                None => Some(&mut values),
            };
            if family != self.family
                && let Some(table) = table.and_then(Value::as_object_mut)
            {
                table.remove(key.rsplit('.').next().unwrap_or(key));
            }
        }
        values
    }
}

impl ControllerConfig {
    fn values(&self) -> Value {
        let keys = match self {
            Self::Hold(parameters) => json!(parameters),
            Self::Sine(parameters) => json!(parameters),
            Self::Excite(parameters) => json!(parameters),
            Self::StandAndSquat(parameters) => json!(parameters),
            Self::Walk(parameters) => json!(parameters),
            Self::Targets => json!({}),
            Self::Policy(parameters) => json!(parameters),
            Self::Follow(parameters) => json!(parameters),
        };
        with(keys, "name", self.kind())
    }
}

fn with(mut table: Value, key: &str, value: impl Serialize) -> Value {
    table[key] = json!(value);
    table
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(table) => {
            let written = table.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(written.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_all_effective_values_is_the_same_robot() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for file in paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let robot = RobotConfig::load(&file).unwrap();
            let again = robot.checked().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert_eq!(again.values(), robot.values(), "{}", file.display());
            // `[servo_defaults]` of one family is not written for servos of another, which have no use for it.
            let is_mixed = robot.servos.iter().any(|servo| servo.family != robot.servos[0].family);
            let servos = if is_mixed { again.servos.clone() } else { robot.servos.clone() };
            let (warnings, of) = (again.warnings.clone(), again.file.clone());
            assert_eq!(again, RobotConfig { warnings, servos, file: of, ..robot }, "{}", file.display());
        }
    }

    #[test]
    fn buses_keep_their_order() {
        let bus = |name: &str| BusConfig::new(name, LinkConfig::Emulated(EmulatedLink::default()));
        let servo = ServoSettings { name: "pan".into(), bus: "a".into(), id: 1, ..ServoSettings::default() };
        let robot = RobotConfig {
            buses: vec![bus("b"), bus("a")],
            servos: vec![servo.into()],
            ..RobotConfig::default()
        };
        let checked = robot.checked().unwrap();
        assert_eq!(checked.buses, robot.buses);
        assert_eq!(checked.servos[0].bus, 1);
    }

    #[test]
    fn every_key_is_there_but_those_that_are_off() {
        let values = RobotConfig::quadruped().values();
        assert_eq!(values["supervisor"]["tilt"], 1.0);
        assert_eq!(values["bus"]["front_left"]["link"], "emulated");
        assert!(values["loop"].get("cpu").is_none() && values.get("pi3hat").is_none());
    }

    #[test]
    fn a_robot_of_another_family_keeps_its_keys() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/openarm_like.toml");
        let robot = RobotConfig::load(path).unwrap();
        assert_eq!(robot.checked().unwrap().values(), robot.values());
    }
}
