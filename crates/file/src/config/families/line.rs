//! Serial lines that carry the packets of one family only.

use super::written;
use crate::config::{RobotConfig, ServoConfig};
use khz_emu::WireKind;
use khz_loop::supervisor::LEAST_VOLTAGE_LOW_V;
use khz_servo::FamilyName;
use khz_settings::{Problem, Reader};
use khz_wire::serial::Packets;

/// What the servos of a family need of their line.
pub(super) struct Line {
    /// What they speak.
    pub packets: Packets,
    /// The baud rates they can have.
    pub bauds: &'static [u32],
    /// Those that are reported.
    pub usual: &'static str,
}

/// A serial line of their own, at a baud rate that they have.
pub(super) fn check(robot: &RobotConfig, i: usize, servo: &ServoConfig, line: &Line, reader: &mut Reader) {
    let Some(bus) = robot.buses.get(servo.bus) else { return };
    let Some(span) = reader.span(&format!("bus.{}", bus.name)) else { return };
    let place = format!("servo[{i}].bus");
    let (family, word) = (servo.family.title(), servo.family.word());
    match bus.link.bus().emulated().wire {
        WireKind::Rs485 { packets, baud } if packets == line.packets && !line.bauds.contains(&baud) => {
            let problem = Problem::error(place, format!("no {family} has this baud rate"))
                .at(span, format!("{baud} bit/s"))
                .help(format!(
                    "write {}, and set each servo so: `khz bus set LINK ID baud_rate=…`",
                    line.usual
                ));
            reader.problems.push(problem);
        }
        WireKind::Rs485 { packets, .. } if packets == line.packets => {}
        WireKind::Instant => {}
        _ => {
            let help = if bus.link.is_emulated() {
                format!("write `wire = \"{word}\"`")
            } else {
                format!("write `link = \"rs485\"` with `protocol = \"{word}\"`")
            };
            let title = format!("this link does not carry the packets of {family} servos");
            let problem =
                Problem::error(place, title).at(span, format!("`{}` is one", servo.name)).help(help);
            reader.problems.push(problem);
        }
    }
}

/// The share of what a servo bears that counts as too low a supply.
const LOW: f64 = 0.65;

/// Warns of an emulated supply that is more than a servo bears, V, and of a `voltage_low_v` that is: once for each model.
pub(super) fn warn_of_supply(
    robot: &RobotConfig,
    i: usize,
    servo: &ServoConfig,
    most_v: f64,
    reader: &mut Reader,
) {
    let is_emulated =
        |servo: &ServoConfig| robot.buses.get(servo.bus).is_some_and(|bus| bus.link.is_emulated());
    let is_like = |other: &ServoConfig| (other.family, other.model()) == (servo.family, servo.model());
    let model = servo.model().unwrap_or(servo.family.title());
    let low_v = robot.supervisor.voltage_low_v;
    let low_at = reader.span("supervisor.voltage_low_v").or_else(|| written(i, "family", reader));
    if let Some(span) = low_at.filter(|_| low_v >= most_v && robot.servos.iter().position(is_like) == Some(i))
    {
        let title = format!("{model} comes down at once: below `voltage_low_v`, {low_v} V, a robot does");
        let problem = Problem::warning("supervisor.voltage_low_v", title)
            .at(span, format!("it bears {most_v} V"))
            .help(format!(
                "write `voltage_low_v = {:.1}` in `[supervisor]`",
                (LOW * most_v).max(LEAST_VOLTAGE_LOW_V)
            ));
        reader.problems.push(problem);
    }
    let first = robot.servos.iter().position(|other| is_like(other) && is_emulated(other));
    let supply_v = robot.emulation.supply_v;
    let Some(span) = reader.span("emulation.supply_v").or_else(|| written(i, "family", reader)) else {
        return;
    };
    if supply_v <= most_v || first != Some(i) {
        return;
    }
    let problem =
        Problem::warning("emulation.supply_v", format!("{supply_v} V are too many for an emulated {model}"))
            .at(span, format!("it bears {most_v} V"))
            .help("all emulated servos have this supply: write one as `supply_v` in `[emulation]` that each of them bears");
    reader.problems.push(problem);
}

/// The family whose packets alone are on such a line.
pub(crate) const fn of(packets: Packets) -> FamilyName {
    match packets {
        Packets::Moteus => FamilyName::Moteus,
        Packets::Dynamixel => FamilyName::Dynamixel,
        Packets::Feetech => FamilyName::Feetech,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An XL330 of 5 V ran on 24 V without a word.
    #[test]
    fn an_emulated_supply_that_is_too_much_for_a_model_is_reported_once() {
        let warned = |of_it: &str, wire: &str, supply: &str| {
            let servo = |id| {
                format!(
                    "[[servo]]\nname = \"s{id}\"\nbus = \"main\"\nid = {id}\nfamily = \"{wire}\"\n{wire} = {{ {of_it} }}\n"
                )
            };
            let text = format!(
                "[bus.main]\nlink = \"emulated\"\nwire = \"{wire}\"\nbaud = 1000000\n{supply}\n[loop]\nrate_hz = 100\n\
                 [supervisor]\nvoltage_low_v = 4\n{}{}",
                servo(1),
                servo(2)
            );
            RobotConfig::parse(&text, "line.toml").unwrap().warnings.join("\n")
        };
        let xl330 = "model = \"XL330-M288\", torque_constant = 0.35";
        let warnings = warned(xl330, "dynamixel", "[emulation]\nsupply_v = 12");
        assert_eq!(warnings.matches("12 V are too many for an emulated XL330-M288").count(), 1, "{warnings}");
        assert!(warned(xl330, "dynamixel", "").contains("24 V are too many"), "the default");
        assert_eq!(warned(xl330, "dynamixel", "[emulation]\nsupply_v = 5"), "");
        let sts3215 = "model = \"STS3215\", unwatched = true";
        assert!(warned(sts3215, "feetech", "[emulation]\nsupply_v = 12").contains("it bears 8 V"));
        assert_eq!(
            warned(&format!("{sts3215}, motor_resistance = 3"), "feetech", "[emulation]\nsupply_v = 12"),
            ""
        );
    }

    /// An outsider's finding: the default of 11 V brought a real arm of 7.4 V down at once, without a warning.
    #[test]
    fn a_low_voltage_above_what_a_model_bears_is_reported_with_its_cure() {
        let warned = |supervisor: &str| {
            let text = format!(
                "[bus.main]\nlink = \"rs485\"\npath = \"/dev/arm\"\nbaud = 1000000\nprotocol = \"feetech\"\n[loop]\nrate_hz = 100\n{supervisor}\
                 [[servo]]\nname = \"s\"\nbus = \"main\"\nid = 1\nfamily = \"feetech\"\nfeetech = {{ model = \"STS3215\", unwatched = true }}\n"
            );
            RobotConfig::parse(&text, "line.toml").unwrap().warnings.join("\n")
        };
        let warning = warned("");
        assert!(
            warning.contains("STS3215 comes down at once: below `voltage_low_v`, 11 V, a robot does"),
            "{warning}"
        );
        assert!(warning.contains("write `voltage_low_v = 5.2` in `[supervisor]`"), "{warning}");
        assert!(!warned("[supervisor]\nvoltage_low_v = 5.2\n").contains("at once"));
    }
}
