//! Keys of a robot file to be set to other values. Comments and layout of the file stay.

use khz_file::RobotConfig;
use khz_file::config::{Format, ServoConfig};
use khz_file::edit::{rewritten, set, table};
use serde::Serialize;
use toml_edit::{DocumentMut, Item, Value};

/// A key and its new value.
#[derive(Clone, Debug, Serialize)]
pub struct Edit {
    /// The key, as a person finds it.
    pub key: String,
    /// Its value now.
    pub now: String,
    /// The value proposed.
    pub then: String,
    #[serde(skip)]
    target: Target,
    #[serde(skip)]
    value: Value,
}

#[derive(Clone, Debug)]
enum Target {
    /// A key of `[loop]`.
    Loop(&'static str),
    /// A table and a key of it in every servo for which it is wider than this; they are of this family.
    Formats([&'static str; 2], Format),
    /// The same for a switch.
    Switch([&'static str; 2]),
    /// The bus of one servo.
    Bus(usize),
}

/// How short values travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// Velocities and torques in two bytes, the watchdog in one.
    Short,
    /// Positions in two bytes, too: steps of 0.6 mrad.
    Shortest,
}

type Keyed = ([&'static str; 2], Format, fn(&khz_file::config::ServoConfig) -> Format);

static FORMATS: &[Keyed] = &[
    (["query", "velocity"], Format::Int16, |servo| servo.query.velocity),
    (["query", "torque"], Format::Int16, |servo| servo.query.torque),
    (["query", "voltage"], Format::Int8, |servo| servo.query.voltage),
    (["query", "temperature"], Format::Int8, |servo| servo.query.temperature),
    (["command", "velocity"], Format::Int16, |servo| servo.command.velocity),
    (["command", "torque"], Format::Int16, |servo| servo.command.torque),
    (["command", "watchdog"], Format::Int8, |servo| servo.command.watchdog),
];

static POSITIONS: &[Keyed] = &[
    (["query", "position"], Format::Int16, |servo| servo.query.position),
    (["command", "position"], Format::Int16, |servo| servo.command.position),
];

impl Edit {
    /// `loop.rate_hz`.
    pub fn rate(robot: &RobotConfig, hz: f64) -> Self {
        let now = robot.timing.rate_hz.to_string();
        Self::of_loop("rate_hz", now, hz)
    }

    /// `loop.bus_deadline_us`.
    pub fn deadline(robot: &RobotConfig, us: f64) -> Self {
        let now = robot.timing.bus_deadline_us;
        Self::of_loop("bus_deadline_us", now.map_or("80 % of the period".to_owned(), |us| us.to_string()), us)
    }

    fn of_loop(key: &'static str, now: String, number: f64) -> Self {
        // Whole numbers are written without a point, as people do.
        let value = if number.fract() == 0.0 { Value::from(number as i64) } else { Value::from(number) };
        Self { key: format!("loop.{key}"), now, then: number.to_string(), target: Target::Loop(key), value }
    }

    /// Shorter formats for what travels longer now, of all moteus servos.
    pub fn formats(robot: &RobotConfig, lengths: Lengths) -> Vec<Self> {
        let positions = if lengths == Lengths::Shortest { POSITIONS } else { &[] };
        let keys = FORMATS.iter().chain(positions);
        keys.filter_map(|(path, format, read)| {
            let moteus = robot.servos.iter().filter(|servo| servo.in_file().facts().has_formats);
            let mut now: Vec<_> =
                moteus.map(read).filter(|now| is_longer(*now, *format)).map(Format::word).collect();
            now.dedup();
            (!now.is_empty()).then(|| Self {
                key: path.join("."),
                now: now.join(", "),
                then: format.word().to_owned(),
                target: Target::Formats(*path, *format),
                value: format.word().into(),
            })
        })
        .collect()
    }

    /// CAN-FD for servos on classic CAN that can be switched to it.
    pub fn can_fd(robot: &RobotConfig) -> Option<Self> {
        let is_classic = |servo: &&ServoConfig| !servo.speaks_fd();
        let switch =
            robot.servos.iter().filter(is_classic).find_map(|servo| servo.in_file().facts().fd_switch)?;
        Some(Self {
            key: switch.join("."),
            now: "false".to_owned(),
            then: "true (and the motors set to it)".to_owned(),
            target: Target::Switch(switch),
            value: true.into(),
        })
    }

    /// A servo on another bus.
    pub fn bus(robot: &RobotConfig, servo: usize, bus: usize) -> Self {
        let (from, to) = (&robot.servos[servo], &robot.buses[bus].name);
        Self {
            key: format!("bus of {}", from.name),
            now: from.settings.bus.clone(),
            then: to.clone(),
            target: Target::Bus(servo),
            value: to.as_str().into(),
        }
    }

    /// Sets the key in a file that was read without an error.
    fn apply(&self, file: &mut DocumentMut) {
        match &self.target {
            Target::Loop(key) => set(&mut table(file, "loop")[*key], &self.value),
            Target::Bus(servo) => set(&mut file["servo"][*servo]["bus"], &self.value),
            Target::Switch([part, key]) => self.each_servo(file, |servo, is_default| {
                if is_default || servo.get(part).and_then(|part| part.get(key)).is_some() {
                    set(&mut servo[*part][*key], &self.value);
                }
            }),
            Target::Formats([part, key], format) => self.each_servo(file, |servo, is_default| {
                let written = servo.get(part).and_then(|part| part.get(key)).and_then(Item::as_str);
                let written = written.and_then(|word| word.parse::<Format>().ok());
                // What is written nowhere is as long as the built-in format, which is longer.
                if written.map_or(is_default, |written| is_longer(written, *format)) {
                    set(&mut servo[*part][*key], &self.value);
                }
            }),
        }
    }

    /// `[servo_defaults]`, then each `[[servo]]`.
    fn each_servo(&self, file: &mut DocumentMut, mut change: impl FnMut(&mut Item, bool)) {
        change(table(file, "servo_defaults"), true);
        let servos = &mut file["servo"];
        let count = servos.as_array_of_tables().map_or(0, toml_edit::ArrayOfTables::len)
            + servos.as_array().map_or(0, toml_edit::Array::len);
        (0..count).for_each(|servo| change(&mut servos[servo], false));
    }
}

/// The text of a robot file with these edits. Its line endings, and the byte order mark some editors begin with, stay.
///
/// # Errors
/// The text is no TOML.
pub fn edited(text: &str, edits: &[Edit]) -> Result<String, toml_edit::TomlError> {
    rewritten(text, |file| edits.iter().for_each(|edit| edit.apply(file)))
}

fn is_longer(format: Format, than: Format) -> bool {
    let bytes = |format| match format {
        Format::None => 0,
        Format::Int8 => 1,
        Format::Int16 => 2,
        Format::Int32 | Format::Float => 4,
    };
    bytes(format) > bytes(than)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_file::config::QUADRUPED;

    const BYTE_ORDER_MARK: char = '\u{feff}';

    #[test]
    fn the_comment_behind_a_changed_key_of_the_loop_stays() {
        let robot = RobotConfig::quadruped();
        let text = "[loop]\nrate_hz = 1000 # as fast as the legs need\nbus_deadline_us=500  # measured\n";
        let edits = [Edit::rate(&robot, 1400.0), Edit::deadline(&robot, 700.0)];
        let wanted = "[loop]\nrate_hz = 1400 # as fast as the legs need\nbus_deadline_us=700  # measured\n";
        assert_eq!(edited(text, &edits).unwrap(), wanted);
    }

    #[test]
    fn line_endings_and_a_byte_order_mark_stay() {
        let robot = RobotConfig::quadruped();
        let dos = format!("{BYTE_ORDER_MARK}{}", QUADRUPED.replace('\n', "\r\n"));
        for text in [QUADRUPED, &dos] {
            assert_eq!(edited(text, &[]).unwrap(), text);
        }
        let changed = edited(&dos, &[Edit::rate(&robot, 500.0)]).unwrap();
        assert!(changed.starts_with(BYTE_ORDER_MARK) && changed.contains("rate_hz = 500"), "{changed}");
        assert_eq!(changed.matches('\n').count(), changed.matches("\r\n").count());
    }
}
