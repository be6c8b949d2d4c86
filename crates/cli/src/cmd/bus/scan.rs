//! `khz bus scan`: who is there.

use super::open::Links;
use crate::cmd::{note, show, warn};
use anyhow::{Result, anyhow};
use khz_file::config::FamilyName;
use khz_file::links::LinkConfig;
use khz_link::rs485::SerialProtocol;
use khz_loop::ready::ONE_ID;
use khz_robot::desk::{Desk, DeskServo, Elsewhere, Fault, Found, Scan};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// Find the devices on every bus.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus scan socketcan:can0
  khz bus scan fdcanusb:/dev/ttyACM0 --last 12
  khz bus scan slcan:/dev/ttyACM0 --family robstride
  khz bus scan robot.toml                          also names the servos of the file that do not reply")]
#[command(mut_group("Links", |group| group.required(false)))]
#[command(mut_arg("words", |words| words.help("The links: KIND:TARGET, a robot file, or `emulated`; without any, the built-in robot")))]
pub struct Args {
    #[command(flatten)]
    links: Links,
    /// The highest id to query. By default every id is queried that a servo of its family can have.
    #[arg(long, default_value_t = u8::MAX, hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..))]
    last: u8,
    /// Query servos of this family only, on links that no robot file describes. By default moteus are queried; if none replies and
    /// --last leaves no id out, RobStride, and then Damiao on CAN and on CAN-FD. Once for all links, or once for each
    #[arg(long, value_name = FamilyName::USAGE)]
    family: Vec<FamilyName>,
    /// How long to wait for the replies to one burst of queries, ms.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    timeout_ms: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The servos of robot files that did not reply, and who did on their bus: a line each.
fn silent(desk: &Desk, found: &[Found], last: u8) -> Vec<String> {
    let replied = |bus| found.iter().filter(move |found| found.bus == bus).map(|found| found.answer.id);
    let asked = desk.servos().iter().filter(|servo| servo.servo.id <= last);
    let missing = asked.filter(|servo| !replied(servo.bus).any(|id| id == servo.servo.id));
    let line = |servo: &DeskServo| {
        let ids: Vec<String> = replied(servo.bus).map(|id| id.to_string()).collect();
        let who = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
        let (id, name, bus) = (servo.servo.id, &servo.name, desk.name(servo.bus));
        format!(
            "servo {id} ({name}) on bus {bus} did not reply; replied: {who}. Check its power, cable and id"
        )
    };
    missing.map(line).collect()
}

/// Asks all ids; exit code 1 if no servo answers, a servo of a robot file does not, or two have one id.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut links = args.links.all();
    if links.is_empty() {
        note("no link is given: these are the emulated servos of the built-in robot");
        links.push("emulated".to_owned());
    }
    let mut desk = Desk::open_for(&args.family, &links).map_err(|error| anyhow!(error))?;
    desk.scan_does().into_iter().for_each(note);
    let scan = Scan { last: args.last, timeout_ns: i64::from(args.timeout_ms) * 1_000_000, together: false };
    let mut elsewhere = Vec::new();
    let found = everywhere(&mut desk, &scan, |line| elsewhere.push(line))?;
    if args.json {
        let devices: Vec<_> = found.iter().map(described).collect();
        show(&format!("{}\n", json!(devices)))?;
    } else {
        show(&table(&desk, &links, &found)?)?;
    }
    let silent = silent(&desk, &found, args.last);
    let twins: Vec<_> = found.iter().filter_map(|found| twins(&desk, found)).collect();
    elsewhere.iter().chain(&silent).chain(&twins).chain(&damaged(&desk, &found)).for_each(warn);
    found.iter().flat_map(errors).for_each(warn);
    found
        .iter()
        .filter_map(|found| found.family.by_hand().amiss(&found.answer).map(|why| amiss(found, &why)))
        .for_each(warn);
    Ok(if found.is_empty() || !silent.is_empty() || !twins.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Several servos with one id: a line with what to do.
fn twins(desk: &Desk, found: &Found) -> Option<String> {
    let (id, bus, family) = (found.answer.id, desk.name(found.bus), found.family.by_hand());
    let how = match (family.set_id(id, id), family.store(id)) {
        (Err(_), _) => "with its maker's tool".to_owned(),
        (Ok(_), Err(_)) => format!("`khz bus set-id LINK {id} NEW`"),
        (Ok(_), Ok(_)) => format!("`khz bus set-id LINK {id} NEW --store`"),
    };
    let line = |twins| format!("{twins} on bus {bus}: unplug one of them and give the other a new id, {how}");
    found.twins().map(line)
}

/// Buses from which damaged frames came beside the answers: a line each.
fn damaged(desk: &Desk, found: &[Found]) -> Vec<String> {
    let is_answered = |bus: &usize| found.iter().any(|found| found.bus == *bus);
    let line = |bus: usize| {
        let corrupt = desk.counters(bus).corrupt;
        (corrupt > 0)
            .then(|| format!("bus {}: {corrupt} damaged frames came, too, as when {ONE_ID}", desk.name(bus)))
    };
    (0..desk.buses()).filter(is_answered).filter_map(line).collect()
}

/// A servo that cannot be driven as it is set.
pub fn amiss(found: &Found, why: &str) -> String {
    format!("servo {}: {why}", found.answer.id)
}

/// What is wrong with a servo, and what was, in words.
fn errors(found: &Found) -> Vec<String> {
    let Found { answer, .. } = found;
    let line =
        |what: &str, fault: &Fault| amiss(found, &format!("{what} \"{}\" (0x{:X})", fault.text, fault.code));
    let active = answer.fault.filter(|fault| fault.code != 0);
    let before = answer.disarmed_by.filter(|_| active.is_none());
    [
        active.map(|fault| line("it says", &fault)),
        before.map(|fault| line("it switched off last for", &fault)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn mode(found: &Found) -> &'static str {
    found.answer.mode.map_or("unknown", |mode| mode.name)
}

fn described(found: &Found) -> serde_json::Value {
    let Found { bus, family, answer, round_trip_ns, others } = found;
    let who = &answer.identity;
    json!({
        "bus": bus + 1, "id": answer.id, "family": family.name().word(), "mode": mode(found), "firmware": who.firmware, "serial": who.serial,
        "fault": answer.fault.map(|fault| fault.code), "fault_text": answer.fault.filter(|fault| fault.code != 0).map(|fault| fault.text),
        "disarmed_by": answer.disarmed_by.map(|fault| fault.text), "map": who.map, "round_trip_us": *round_trip_ns as f64 / 1e3,
        "others_with_id": others.len(),
    })
}

/// Scans every bus; of one without a reply `print` gets what came of other bit rates.
pub fn everywhere(desk: &mut Desk, scan: &Scan, mut print: impl FnMut(String)) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for bus in 0..desk.buses() {
        let here = desk.scan(bus, scan)?;
        if here.is_empty() {
            at_other_rates(desk, bus, scan)?.into_iter().for_each(&mut print);
        }
        found.extend(here);
    }
    Ok(found)
}

/// Tries other bit rates on a bus without a reply, if its link can change its own; what came of it, if there is anything to report.
fn at_other_rates(desk: &mut Desk, bus: usize, scan: &Scan) -> Result<Option<String>> {
    let can = desk.link(bus).0.capabilities();
    // What is received has the bit rate of the link.
    if can.emulated || desk.counters(bus).received > 0 {
        return Ok(None);
    }
    let name = desk.name(bus).to_owned();
    note(format_args!("bus {name}: no reply; trying other bit rates, if its adapter can"));
    Ok(Some(match desk.elsewhere(bus, scan)? {
        Elsewhere::At(rate, found) => {
            let ids: Vec<String> = found.iter().map(|found| found.answer.id.to_string()).collect();
            let whose = if let [id] = &ids[..] {
                format!("servo {id} replies")
            } else {
                format!("servos {} reply", ids.join(", "))
            };
            format!(
                "bus {name}: {whose} at {rate} bit/s, which is not the link's bit rate: {}",
                desk.rate_advice(bus, Some(rate))
            )
        }
        Elsewhere::NoReply => {
            let rates = if can.half_duplex { "9600 bit/s to 4 Mbit/s" } else { "50 kbit/s to 1 Mbit/s" };
            format!("bus {name}: no reply at any of the common bit rates, {rates}")
        }
        Elsewhere::NotTried => {
            format!("bus {name}: other bit rates cannot be tried from here: {}", desk.rate_advice(bus, None))
        }
    }))
}

/// What to look at when no servo answers.
pub fn unanswered(links: &[impl AsRef<str>]) -> String {
    let all: Vec<_> = links.iter().filter_map(|word| LinkConfig::by_hand(word.as_ref())).collect();
    let mut advice = "are they powered, terminated, and at the bus's bit rates?".to_owned();
    if all.iter().any(|link| link.bus().classic_only().is_some()) {
        advice.push_str(
            " If they are set to CAN-FD, give the data bit rate, for example slcan:PATH,data=5000000",
        );
    }
    advice.extend(all.iter().find_map(asked_for_moteus));
    advice
}

/// For a serial line without the protocol of its servos: which servos were asked, and how to ask others.
fn asked_for_moteus(link: &LinkConfig) -> Option<String> {
    let LinkConfig::Rs485(line) = link else { return None };
    let (path, baud) = (&line.path, line.baud);
    (line.protocol == SerialProtocol::Moteus).then(|| {
        format!(
            " Only moteus were asked, at {baud} bit/s; write rs485:{path},baud=1000000,protocol=feetech for Feetech servos, and \
             protocol=dynamixel for Dynamixel"
        )
    })
}

fn table(desk: &Desk, links: &[String], found: &[Found]) -> Result<String> {
    if found.is_empty() {
        let mut buses = (0..desk.buses()).map(|bus| desk.link(bus));
        let is_damaged = buses.any(|(link, channel)| link.counters(channel).corrupt > 0);
        let damaged =
            if is_damaged { format!(", but damaged frames came, as when {ONE_ID}") } else { String::new() };
        return Ok(format!("no device answered{damaged}: {}\n", unanswered(links)));
    }
    let wide = found.iter().map(|each| each.family.name().word().len()).fold("family".len(), usize::max);
    let mut text = format!(
        "bus   id  {:<wide$}  mode            fault  firmware  serial                    round trip\n",
        "family"
    );
    for each in found {
        let who = &each.answer.identity;
        writeln!(
            text,
            "{:<4} {:>3}  {:<wide$}  {:<14} {:>6}  {:<8}  {:<24} {:>8.0} µs  {}",
            each.bus + 1,
            each.answer.id,
            each.family.name().word(),
            mode(each),
            each.answer.fault.map_or(0, |fault| fault.code),
            who.firmware.as_deref().unwrap_or("unknown"),
            who.serial.as_deref().unwrap_or("unknown"),
            each.round_trip_ns as f64 / 1e3,
            desk.name(each.bus)
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_file::RobotConfig;
    use khz_file::config::usual_servo;

    /// Owners of Feetech servos took them to be dead.
    #[test]
    fn without_an_answer_on_a_serial_line_it_is_reported_what_was_asked_and_how_to_ask_others() {
        let text = unanswered(&["rs485:/dev/ttyUSB0"]);
        let other = "rs485:/dev/ttyUSB0,baud=1000000,protocol=feetech";
        assert!(text.contains("Only moteus were asked, at 3000000 bit/s; write "), "{text}");
        assert!(text.contains(other) && text.contains("protocol=dynamixel"), "{text}");
        for links in [[other], ["socketcan:can0"], ["robot.toml"]] {
            assert!(unanswered(&links).ends_with("bit rates?"), "{links:?}");
        }
    }

    #[test]
    fn the_table_is_as_wide_as_the_word_of_a_family() {
        for family in [FamilyName::Rmd, FamilyName::Moteus, FamilyName::RobstrideMit] {
            let keys = usual_servo(family, "");
            let text = format!(
                "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"a\"\nbus = \"main\"\nid = 1\n{keys}"
            );
            let config = RobotConfig::parse(&text, "robot.toml").unwrap();
            let mut desk = Desk::connect(&config).unwrap();
            let scan = Scan { last: 1, timeout_ns: 2_000_000_000, together: false };
            let found = desk.scan(0, &scan).unwrap();
            let table = table(&desk, &[], &found).unwrap();
            let (head, row) = table.split_once('\n').unwrap();
            let (_, after) = row.split_once(&format!("{family}")).unwrap();
            let before = row.len() - after.trim_start().len();
            assert_eq!(head.find("mode"), Some(before), "{table}");
        }
    }

    #[test]
    fn a_servo_that_does_not_reply_is_named_with_those_that_do() {
        let mut desk = Desk::connect(&RobotConfig::quadruped()).unwrap();
        let scan = Scan { last: 3, timeout_ns: 2_000_000_000, together: false };
        let mut found = desk.scan(0, &scan).unwrap();
        assert!(silent(&desk, &found, 3).is_empty(), "{found:?}");
        found.remove(1);
        let message = silent(&desk, &found, 3).join("\n");
        assert!(
            message.starts_with("servo 2 (") && message.contains("did not reply; replied: 1, 3."),
            "{message}"
        );
        assert!(silent(&desk, &[], 1)[0].contains("replied: none"));
    }
}
