//! The list of all keys, as the second half of `docs/configuration.md`.

use super::*;
use std::fmt::Write;

/// A heading, what the table is for, and its keys.
type Section = (&'static str, &'static [&'static str], &'static [Key]);

const SECTIONS: &[Section] = &[
    ("`[robot]`", RobotSection::ABOUT, RobotSection::KEYS),
    ("`[loop]`", LoopConfig::ABOUT, LoopConfig::KEYS),
    ("`[bus.NAME]`", BusSection::ABOUT, BusSection::KEYS),
    ("`[bus.NAME]` with `link = \"emulated\"`", EmulatedLink::ABOUT, EmulatedLink::KEYS),
    ("`[bus.NAME]` with `link = \"socketcan\"`", SocketcanLink::ABOUT, SocketcanLink::KEYS),
    ("`[bus.NAME]` with `link = \"fdcanusb\"`", FdcanusbLink::ABOUT, FdcanusbLink::KEYS),
    ("`[bus.NAME]` with `link = \"rs485\"`", Rs485Link::ABOUT, Rs485Link::KEYS),
    ("`[bus.NAME]` with `link = \"pi3hat\"`", Pi3hatLink::ABOUT, Pi3hatLink::KEYS),
    ("`[bus.NAME]` with `link = \"udp\"`", UdpLink::ABOUT, UdpLink::KEYS),
    ("`[bus.NAME.faults]`", FaultsConfig::ABOUT, FaultsConfig::KEYS),
    ("`events` of `[bus.NAME.faults]`", FaultEvent::ABOUT, FaultEvent::KEYS),
    ("`[pi3hat]`", Pi3hatConfig::ABOUT, Pi3hatConfig::KEYS),
    ("`[[servo]]` and `[servo_defaults]`", ServoSettings::ABOUT, ServoSettings::KEYS),
    ("`limits` of a servo", Limits::ABOUT, Limits::KEYS),
    ("`query` of a servo", QueryFormat::ABOUT, QueryFormat::KEYS),
    ("`command` of a servo", CommandFormat::ABOUT, CommandFormat::KEYS),
    ("`joint` of a servo", JointConfig::ABOUT, JointConfig::KEYS),
    ("`device` of a servo", DeviceConfig::ABOUT, DeviceConfig::KEYS),
    ("`heat` of a servo", HeatConfig::ABOUT, HeatConfig::KEYS),
    ("`[imu]`", ImuConfig::ABOUT, ImuConfig::KEYS),
    ("`[controller]`", ControllerSection::ABOUT, ControllerSection::KEYS),
    ("`[controller]` with `name = \"sine\"`", SineParameters::ABOUT, SineParameters::KEYS),
    (
        "`[controller]` with `name = \"stand_and_squat\"`",
        StandAndSquatParameters::ABOUT,
        StandAndSquatParameters::KEYS,
    ),
    ("`[supervisor]`", SupervisorConfig::ABOUT, SupervisorConfig::KEYS),
    ("`[supervisor.reactions]`", Reactions::ABOUT, Reactions::KEYS),
    ("`[watchdog]`", WatchdogConfig::ABOUT, WatchdogConfig::KEYS),
    ("`[log]`", LogConfig::ABOUT, LogConfig::KEYS),
    ("`[emulation]`", EmulationConfig::ABOUT, EmulationConfig::KEYS),
    ("`[body]`", BodyConfig::ABOUT, BodyConfig::KEYS),
];

/// Every key with its values, default and meaning, as Markdown.
pub fn reference() -> String {
    let mut text = String::new();
    for (heading, about, keys) in SECTIONS {
        let about = sentence(about);
        // The source begins with the table's name; the heading says it already.
        let about = about.strip_prefix(&format!("{heading}: ")).unwrap_or(&about);
        let (first, rest) = about.split_at(about.chars().next().map_or(0, char::len_utf8));
        let _ = writeln!(text, "### {heading}\n\n{}{rest}\n", first.to_uppercase());
        text.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in *keys {
            let _ =
                writeln!(text, "| `{}` | {} | {} | {} |", key.name, values(key), default(key), meaning(key));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

fn sentence(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

fn values(key: &Key) -> String {
    if !key.words.is_empty() { "one of the words".to_owned() } else { key.expected() }
}

fn default(key: &Key) -> String {
    match (key.default)() {
        _ if key.required => "**required**".to_owned(),
        default if default.is_empty() => "–".to_owned(),
        default => format!("`{default}`"),
    }
}

fn meaning(key: &Key) -> String {
    let words = key.words.iter().map(|(word, doc)| format!("<br>`\"{word}\"`: {}", sentence(doc)));
    // A bar would end the cell.
    (sentence(key.doc) + &words.collect::<String>()).replace('|', "\\|")
}
