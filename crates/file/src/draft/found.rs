//! A robot file of the servos that answered on a link.

use super::{Draft, Servo};
use crate::links::{LinkConfig, LinkKind};
use khz_loop::supervisor::LEAST_VOLTAGE_LOW_V;
use khz_servo::Family;
use khz_servo::by_hand::Found;
use std::collections::BTreeSet;
use std::path::Path;

/// The file of the servos found on the links that a command line names so. `places`: of each bus its link, by its place among
/// `words`, and its channel there. A serial device is named by what does not change between boots, where that is known.
///
/// # Errors
/// A word names no link that a robot file could describe.
pub fn of_found(words: &[String], places: &[(usize, u8)], found: &[Found]) -> Result<String, String> {
    let words: Vec<String> = words.iter().map(|word| by_id(word, Path::new(BY_ID))).collect();
    let links = words.iter().map(|word| {
        let link = LinkConfig::by_hand(word);
        link.ok_or_else(|| format!("{word}: no link of a robot file; write {}", LinkKind::usages()))
    });
    let links = links.collect::<Result<Vec<_>, _>>()?;
    let buses: BTreeSet<usize> = found.iter().map(|found| found.bus).collect();
    let is_alone = buses.len() == 1;
    let name = |bus: usize| if is_alone { "main".to_owned() } else { format!("bus_{}", bus + 1) };
    let servo = |found: &Found| {
        let id = found.answer.id;
        let own = if is_alone { format!("servo_{id}") } else { format!("servo_{}_{id}", found.bus + 1) };
        let firmware = found.answer.identity.firmware.as_deref().unwrap_or("unknown");
        Servo {
            about: vec![format!("{}, firmware {firmware}", found.family.name())],
            name: own,
            bus: name(found.bus),
            id,
            lines: [
                vec![format!("family = \"{}\"", found.family.name())],
                found.family.by_hand().in_file(&found.answer),
            ]
            .concat(),
        }
    };
    // No greatest torque travels to other families.
    let torque =
        if found.iter().all(|found| found.family == Family::default()) { ", torque = 1.0" } else { "" };
    let draft = Draft {
        about: vec![
            format!("The servos that answered on {}.", words.join(", ")),
            String::new(),
            "Give each its joint's name, its direction (`sign`) and its angle at the servo's zero (`offset`), and widen the".to_owned(),
            "limits once it moves as it should. Every key: docs/configuration.md.".to_owned(),
        ],
        name: "robot".to_owned(),
        rate_hz: rate_hz(found),
        buses: buses
            .iter()
            .map(|&bus| {
                let (link, channel) = places.get(bus).copied().unwrap_or_default();
                (name(bus), bus_keys(&links[link], &words[link], channel.into()))
            })
            .collect(),
        defaults: vec![
            "# Narrow and slow on purpose. Positions in rad, velocities in rad/s, torques in N·m.".to_owned(),
            "# A joint that is found outside its limits is not armed.".to_owned(),
            format!("limits = {{ position = [-0.5, 0.5], velocity = 1.0{torque} }}"),
        ],
        servos: found.iter().map(servo).collect(),
        more: supply(found),
    };
    Ok(draft.to_string())
}

/// What servos that are supplied with less than most need: with the defaults they would be brought down by their voltage.
fn supply(found: &[Found]) -> Vec<String> {
    let volts = found.iter().filter_map(|found| found.answer.voltage).fold(f64::NAN, f64::min);
    if volts.is_nan() || volts >= LESS_V {
        return Vec::new();
    }
    vec![
        format!("# The servos reported {volts:.1} V; below `voltage_low_v` the robot comes down."),
        "[supervisor]".to_owned(),
        format!("voltage_low_v = {:.1}", (LOW * volts).max(LEAST_VOLTAGE_LOW_V)),
        String::new(),
        "# For an emulated link.".to_owned(),
        "[emulation]".to_owned(),
        format!("supply_v = {:.1}", volts.max(LEAST_SUPPLY_V)),
    ]
}

/// Below this supply, V, a file has more about it; and the share of it that counts as too low.
const LESS_V: f64 = 15.0;
const LOW: f64 = 0.7;
/// The least supply that can be written, V.
const LEAST_SUPPLY_V: f64 = 5.0;

/// Servos that take longer than this to answer, ns, do not answer within a millisecond with all else that is in it.
const SLOW_NS: i64 = 500_000;

/// 1 kHz, or half of it if servos are too slow for that.
fn rate_hz(found: &[Found]) -> f64 {
    let is_slow = |found: &Found| found.family.settings().reply_delay_ns() > SLOW_NS;
    if found.iter().any(is_slow) { 500.0 } else { 1000.0 }
}

/// Where the system names serial devices by their serial number.
const BY_ID: &str = "/dev/serial/by-id";

/// The word with the name in `folder` of its serial device, if it has one there: `/dev/ttyACM0` may be another adapter tomorrow.
fn by_id(word: &str, folder: &Path) -> String {
    let Some((kind, rest)) = word.split_once(':') else { return word.to_owned() };
    let (path, keys) = rest.find(',').map_or((rest, ""), |at| rest.split_at(at));
    let Some(device) = Path::new(path).canonicalize().ok().filter(|_| path.starts_with('/')) else {
        return word.to_owned();
    };
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let same = names.filter(|name| name.canonicalize().is_ok_and(|of| of == device));
    // Of several the first by name, so that the file does not depend on the order of a folder.
    same.min().map_or_else(|| word.to_owned(), |name| format!("{kind}:{}{keys}", name.display()))
}

/// The lines of a bus: the kind of its link and where it is.
fn bus_keys(link: &LinkConfig, word: &str, channel: usize) -> Vec<String> {
    let mut lines = vec![format!("link = \"{}\"", link.kind())];
    let keys = serde_json::to_value(link).unwrap_or_default();
    let keys = keys.as_object().into_iter().flatten();
    match word.split_once(':') {
        Some(_) => {
            let endpoint = link.endpoint();
            let is_place = |value: &serde_json::Value| value.as_str() == Some(&endpoint);
            let place = keys.clone().find(|(_, value)| is_place(value));
            lines.extend(place.map(|(key, _)| format!("{key} = {endpoint:?}")));
            let given = |key: &str| match key {
                "nominal_bit_rate" => word.contains(",bitrate="),
                "data_bit_rate" => word.contains(",data="),
                "baud" | "protocol" => word.contains(&format!(",{key}=")),
                _ => false,
            };
            let given_keys = keys.into_iter().filter(|(key, _)| given(key));
            lines.extend(given_keys.map(|(key, value)| format!("{key} = {value}")));
        }
        None if link.bus().shared(channel).is_some() && !link.is_emulated() => {
            lines.push(format!("channel = {}", channel + 1));
        }
        None => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RobotConfig;
    use crate::config::FamilyName;
    use khz_servo::by_hand::Answer;

    #[test]
    fn a_serial_device_is_named_by_what_does_not_change_between_boots() {
        let folder = tempfile::tempdir().unwrap();
        let (device, names) = (folder.path().join("ttyACM0"), folder.path().join("by-id"));
        std::fs::write(&device, "").unwrap();
        std::fs::create_dir(&names).unwrap();
        std::os::unix::fs::symlink("../ttyACM0", names.join("usb-mjbots_fdcanusb_1234-if00")).unwrap();
        let word = format!("slcan:{},data=5000000", device.display());
        let named = format!("slcan:{}/usb-mjbots_fdcanusb_1234-if00,data=5000000", names.display());
        assert_eq!(by_id(&word, &names), named);
        assert_eq!(by_id(&named, &names), named);
        for other in ["socketcan:can0", "slcan:/dev/none", "emulated", "udp:10.0.0.1:7000"] {
            assert_eq!(by_id(other, &names), other);
        }
    }

    /// The file had neither gains nor a place for the model.
    #[test]
    fn a_cubemars_has_its_gains_and_is_usable_once_its_model_is_named() {
        let family = Family::named(FamilyName::Cubemars).remove(0);
        let answer = Answer { id: 1, ..Answer::default() };
        let found = [Found { bus: 0, family, answer, round_trip_ns: 0, others: Vec::new() }];
        let text = of_found(&["socketcan:can0".to_owned()], &[(0, 0)], &found).unwrap();
        assert!(text.contains("kp = 20, kd = 0.5, damping = 1"), "{text}");
        let refused = RobotConfig::parse(&text, "one.toml").unwrap_err().to_string();
        assert!(refused.contains("cubemars.model"), "{refused}");
        let named = text.replace("model = \"?\"", "model = \"AK80-9\", unwatched = true");
        RobotConfig::parse(&named, "one.toml").unwrap_or_else(|error| panic!("{error}\n{named}"));
    }

    /// The file was refused: it had 1000 Hz, and nothing of how long its motors take to answer.
    #[test]
    fn an_rmd_is_driven_as_fast_as_it_answers() {
        let family = Family::named(FamilyName::Rmd).remove(0);
        let mut answer = Answer { id: 1, ..Answer::default() };
        answer.identity.serial = Some("X8S2V".to_owned());
        let date = family.by_hand().register("firmware_date").unwrap();
        answer.registers.insert(date, 2_026_042_402.0);
        let found = [Found { bus: 0, family, answer, round_trip_ns: 0, others: Vec::new() }];
        let text = of_found(&["socketcan:can0".to_owned()], &[(0, 0)], &found).unwrap();
        let robot = RobotConfig::parse(&text, "one.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((robot.timing.rate_hz, robot.servos[0].rmd.reply_delay_us), (500.0, Some(800.0)));
    }

    /// Only the path was in it, and servos of another protocol were refused on the line.
    #[test]
    fn a_serial_line_keeps_the_rate_and_the_protocol_that_were_asked_with() {
        for (name, protocol) in [(FamilyName::Feetech, "feetech"), (FamilyName::Dynamixel, "dynamixel")] {
            let family = Family::named(name).remove(0);
            let answer = Answer { id: 1, voltage: Some(7.4), ..Answer::default() };
            let found = [Found { bus: 0, family, answer, round_trip_ns: 0, others: Vec::new() }];
            let word = format!("rs485:/dev/none,baud=1000000,protocol={protocol}");
            let text = of_found(&[word], &[(0, 0)], &found).unwrap();
            let bus = format!(
                "[bus.main]\nlink = \"rs485\"\npath = \"/dev/none\"\nbaud = 1000000\nprotocol = \"{protocol}\"\n"
            );
            assert!(text.contains(&bus), "{text}");
            // The default of 11 V brought it down.
            assert!(text.contains("\n[supervisor]\nvoltage_low_v = 5.2\n"), "{text}");
            assert!(text.contains("\n[emulation]\nsupply_v = 7.4\n"), "{text}");
        }
    }

    #[test]
    fn servos_of_several_adapters_make_one_robot() {
        let found = |bus, id| Found {
            bus,
            family: Family::default(),
            answer: Answer { id, ..Answer::default() },
            round_trip_ns: 0,
            others: Vec::new(),
        };
        let words = ["fdcanusb:/dev/ttyACM0", "socketcan:can0"].map(str::to_owned);
        let text = of_found(&words, &[(0, 0), (1, 0)], &[found(0, 1), found(1, 1), found(1, 2)]).unwrap();
        let robot = RobotConfig::parse(&text, "two.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let ends: Vec<_> = robot.buses.iter().map(|bus| bus.link.endpoint()).collect();
        assert_eq!(ends, ["/dev/ttyACM0", "can0"]);
        let servos: Vec<_> = robot.servos.iter().map(|servo| (servo.name.as_str(), servo.bus)).collect();
        assert_eq!(servos, [("servo_1_1", 0), ("servo_2_1", 1), ("servo_2_2", 1)]);
        assert!(robot.servos.iter().all(|servo| servo.limits.position.is_some()), "{text}");
    }
}
