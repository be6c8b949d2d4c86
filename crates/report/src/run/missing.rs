//! What of a robot was missing: adapters that were lost, and servos that never replied. That explains more than the silence of the one
//! servo that was noticed first.

use super::facts::{planned, trouble};
use super::{EventSummary, ServoSummary};
use khz_file::RobotConfig;
use khz_file::config::{BusConfig, LinkKind};
use khz_loop::supervisor::Cause;
use khz_loop::tick::Machine;
use khz_page::grouped;
use khz_run::tally::Tally;
use khz_run::verdict::{BUDGET, SCAN};

/// How many servos are named.
const NAMED: usize = 8;

/// Of a servo under control.
const NO_REPLY: &str = "no reply in time for";
const SILENT: &str = "no reply during start-up";
/// Of a CubeMars servo whose late replies belong to no query that is known.
const WAS_SILENT: &str = "it was silent";
/// Of servos that replied, but not always.
const SOMETIMES: &str = "missed during start-up";
const LATE: &str = "replies come too late during start-up";
const DISCONNECTED: &str = "disconnected";
const DOWN: &str = "went down";

/// Which buses lost their adapter or interface, if only for a moment.
pub(super) fn lost(config: &RobotConfig, machine: &Machine) -> Vec<bool> {
    let is_lost = |(bus, (link, channel)): (&BusConfig, (usize, u8))| {
        let link = machine.links().get(link).filter(|_| !bus.link.is_emulated());
        link.is_some_and(|link| link.counters(channel).downs > 0)
    };
    config.buses.iter().zip(machine.buses().places.iter().copied()).map(is_lost).collect()
}

/// How the run ended, with what was missing: the adapter before everything, and all servos that never replied in place of one.
/// `lack` is what kept the robot from control, as it stands in `end`.
pub(super) fn named(
    end: &str,
    lack: Option<&str>,
    (events, servos): (&[EventSummary], &[ServoSummary]),
    (buses, lost): (&[BusConfig], &[bool]),
    fits_not: bool,
) -> String {
    let down = trouble(events);
    let message = down.map(EventSummary::text);
    let silent = silent(servos);
    let mut end = end.to_owned();
    // What follows where the bus has no time for every query and reply: the replies of all servos come late, and not one is silent.
    let are_late = fits_not && servos.iter().any(|servo| servo.late > 0);
    for message in message.as_deref().into_iter().chain(lack) {
        end = match never_replied(&end, message, &silent) {
            Some(end) => end,
            None if are_late && silent.is_empty() && message.contains(SILENT) => late(&end, message),
            None if are_late => late_not_silent(&end, message),
            None => continue,
        };
    }
    let its_bus = down.and_then(|down| down.bus.as_ref());
    // It is not why a robot came down that was asked to.
    let mut lost = buses.iter().zip(lost).filter(|(_, is_lost)| **is_lost && planned(events).is_none());
    match lost.find(|(bus, _)| its_bus.is_none_or(|its| *its == bus.name)) {
        Some((bus, _)) => format!("bus {}: {} {}; {end}", bus.name, bus.link.endpoint(), what(bus)),
        None => end,
    }
}

/// How a run ended that was brought down by the silence of a servo, with all that were silent then: a whole bus, or the whole robot, is no
/// matter of one servo's wiring. `servos`: names of servos and their buses, in their order.
pub(super) fn together(
    end: String,
    down: Option<&EventSummary>,
    tally: &Tally,
    servos: &[(&str, &str)],
) -> String {
    let Some(down) = down.filter(|down| down.cause.starts_with(NO_REPLY)) else { return end };
    let silent: Vec<_> = tally.silent_in(down.tick).filter_map(|servo| servos.get(servo).copied()).collect();
    if silent.len() < 2 || !silent.iter().any(|(name, _)| down.servo.as_deref() == Some(name)) {
        return end;
    }
    end.replace(&down.text(), &format!("{} ({})", down.cause, these(&silent, servos.len())))
}

/// How a run ended in which replies came too late during start-up, with all servos that missed about as many as the one that missed most: the
/// one that was noticed first may be on another bus than the slowest. `servos` as for [`together`].
pub(super) fn late_together(end: &str, tally: &Tally, servos: &[(&str, &str)]) -> String {
    let missed = tally.missed_of(false);
    let most = missed.iter().copied().max().unwrap_or(0);
    let late = servos.iter().zip(missed).filter(|(_, missed)| 2 * **missed >= most.max(1));
    let late: Vec<_> = late.map(|(names, _)| *names).collect();
    let named = end.split_once(LATE).and_then(|(before, rest)| {
        let (_, after) = rest.strip_prefix(" (")?.split_once(')')?;
        (late.len() > 1).then(|| format!("{before}{LATE} ({}){after}", these(&late, servos.len())))
    });
    named.unwrap_or_else(|| end.to_owned())
}

/// These servos, each with its bus, of so many in all.
fn these(servos: &[(&str, &str)], all: usize) -> String {
    match all {
        _ if servos.len() < all => by_bus(servos),
        2 => "both servos".to_owned(),
        _ => format!("all {all} servos"),
    }
}

/// How a run ended in which so many replies came late that it is not known whether a CubeMars servo was silent.
pub(super) fn late_not_silent(end: &str, message: &str) -> String {
    if message.contains(WAS_SILENT) { late(end, message) } else { end.to_owned() }
}

/// How the run ended whose servos have all replied, where `message` reports one as silent: how many replies were missed, and by which
/// servo most often.
pub(super) fn sometimes(end: &str, message: &str, tally: &Tally, servos: &[String]) -> String {
    let (ticks, missed) = (tally.all().ticks, tally.all().missed_replies);
    if !message.contains(SILENT) || missed == 0 {
        return end.to_owned();
    }
    let of = grouped(ticks.saturating_mul(servos.len() as u64));
    let worst = tally.worst_servo(false, servos.len());
    let whose = match worst.and_then(|(servo, count)| Some((servos.get(servo)?, count))) {
        Some((name, count)) if count == missed => format!(" by {name}"),
        Some((name, _)) => format!(", most often by {name}"),
        None => String::new(),
    };
    let were = if missed == 1 { "was" } else { "were" };
    end.replace(message, &format!("{} of {of} replies {were} {SOMETIMES}{whose}", grouped(missed)))
}

/// Replaces a message on one servo by one that replies come too late.
fn late(end: &str, message: &str) -> String {
    let place = message.rsplit_once(" (").map_or(String::new(), |(_, place)| format!(" ({place}"));
    end.replace(message, &format!("{}{place}", Cause::NotSeen { servo: 0, late: true }))
}

/// What happens to such a link when it is lost.
fn what(bus: &BusConfig) -> &'static str {
    match bus.link.kind() {
        LinkKind::Socketcan | LinkKind::Udp => DOWN,
        _ => DISCONNECTED,
    }
}

/// What to do, if something is missing by which the run ended.
pub(super) fn remedy(end: &str) -> Option<&'static str> {
    const REPLUG: &str = "replug it, and look for a loose plug, a hub or a supply that sags";
    const UP: &str = "see in `dmesg` why, and bring it up again";
    let begins = end.split("; ").next().unwrap_or_default();
    match begins {
        _ if begins.ends_with(DISCONNECTED) => Some(REPLUG),
        _ if begins.ends_with(DOWN) => Some(UP),
        _ if end.contains(LATE) => Some(BUDGET),
        _ => [SILENT, SOMETIMES].iter().any(|words| end.contains(words)).then_some(SCAN),
    }
}

/// The servos that never replied, each with its bus.
fn silent(servos: &[ServoSummary]) -> Vec<(&str, &str)> {
    let silent =
        servos.iter().filter(|servo| servo.sent + servo.missed > 0 && servo.replied == 0 && servo.late == 0);
    silent.map(|servo| (&*servo.name, &*servo.bus)).collect()
}

/// These servos, each with its bus: some of them by name.
fn by_bus(servos: &[(&str, &str)]) -> String {
    let mut buses: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, its) in servos.iter().take(NAMED) {
        match buses.iter_mut().find(|(bus, _)| bus == its) {
            Some((_, names)) => names.push(name),
            None => buses.push((its, vec![name])),
        }
    }
    let named: Vec<String> =
        buses.iter().map(|(bus, names)| format!("{} on bus {bus}", names.join(", "))).collect();
    let more = servos.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    named.join("; ") + &more
}

/// How a run ended in which these servos never replied, if `message` reports that of one: they all are named in its place.
pub(super) fn never_replied(end: &str, message: &str, servos: &[(&str, &str)]) -> Option<String> {
    let is_silence = message.contains(SILENT) || message.contains(LATE);
    (is_silence && !servos.is_empty())
        .then(|| end.replace(message, &format!("{SILENT} ({})", by_bus(servos))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_run::record::Tick;
    use khz_run::tally::Pace;

    fn servo(name: &str, bus: &str, replied: u64, late: u64) -> ServoSummary {
        ServoSummary {
            name: name.into(),
            bus: bus.into(),
            sent: 100,
            replied,
            missed: 100 - replied,
            quiet: 0,
            missed_in_a_row: 100,
            late,
            duplicates: 0,
            round_trip_ns: khz_rt::Histogram::new().summary(),
        }
    }

    fn came_down(cause: &str, servo: &str, bus: &str) -> EventSummary {
        EventSummary {
            time_s: 1.0,
            tick: 1_000,
            from: "active",
            to: "damping",
            cause: cause.into(),
            servo: Some(servo.into()),
            bus: Some(bus.into()),
            trouble: true,
        }
    }

    fn config() -> RobotConfig {
        let text = r#"
            [bus.main]
            link = "fdcanusb"
            path = "/dev/ttyACM0"
            [bus.spare]
            link = "fdcanusb"
            path = "/dev/ttyACM1"
            [[servo]]
            name = "pan"
            bus = "main"
            id = 1
            [[servo]]
            name = "tilt"
            bus = "spare"
            id = 2
        "#;
        RobotConfig::parse(text, "robot.toml").unwrap()
    }

    /// It was the silence of one servo, and its wiring was to be checked.
    #[test]
    fn a_lost_adapter_is_named_before_the_servo_that_missed_it_first() {
        let event = came_down("no reply in time for 24 ticks", "pan", "main");
        let (end, config) = (event.text(), config());
        let of = |lost: [bool; 2]| {
            named(&end, None, (std::slice::from_ref(&event), &[]), (&config.buses, &lost), false)
        };
        let expected = "bus main: /dev/ttyACM0 disconnected; no reply in time for 24 ticks (pan on bus main)";
        assert_eq!(of([true, false]), expected);
        assert!(remedy(expected).unwrap_or_default().starts_with("replug it"));
        // Another bus was lost for a moment, and is not why it came down.
        assert_eq!(of([false, true]), end);
        assert_eq!(remedy(&end), None);
        // Nor is one that was lost in a run that the operator stopped.
        let stopped =
            EventSummary { cause: "stopped by the operator".into(), trouble: false, ..event.clone() };
        let off = EventSummary { from: "damping", to: "fault", ..event };
        let events = [stopped, off];
        assert_eq!(named(&end, None, (&events, &[]), (&config.buses, &[true, false]), false), end);
    }

    /// "No reply during start-up" was reported of a servo that replied in 12 of 14 ticks.
    #[test]
    fn of_servos_that_miss_a_reply_now_and_then_none_is_called_silent() {
        let mut tally = Tally::new(100_000);
        let names = ["hip", "knee"].map(String::from);
        let missing = [&[0_usize, 1][..], &[1], &[], &[1]];
        for (number, missing) in missing.into_iter().cycle().take(40).enumerate() {
            let missed = missing.len() as u32;
            let (number, controlled) = (number as u64, false);
            tally.count(&Tick { number, missed, controlled, ..Tick::UNKNOWN }, Pace::default());
            missing.iter().for_each(|servo| tally.missed_by(*servo));
        }
        let message = "no reply during start-up (hip on bus a)";
        let expected = sometimes(message, message, &tally, &names);
        assert_eq!(expected, "40 of 80 replies were missed during start-up, most often by knee");
        assert_eq!(remedy(&expected), Some(SCAN));
        // What else ends a run stays as it is.
        assert_eq!(sometimes(LATE, LATE, &tally, &names), LATE);
    }

    /// The one servo that was noticed first was named, and its wiring was to be checked.
    #[test]
    fn all_that_fall_silent_together_are_named() {
        let servos = [("hip", "left"), ("knee", "left"), ("arm", "right")];
        let event = EventSummary { tick: 29, ..came_down("no reply in time for 10 ticks", "knee", "left") };
        let expected = |silent: &[usize]| {
            let mut tally = Tally::new(100_000);
            for number in 0..40 {
                tally.count(&Tick { number, controlled: true, ..Tick::UNKNOWN }, Pace::default());
                silent.iter().filter(|_| number >= 20).for_each(|servo| tally.missed_by(*servo));
            }
            together(event.text(), Some(&event), &tally, &servos)
        };
        assert_eq!(expected(&[0, 1, 2]), "no reply in time for 10 ticks (all 3 servos)");
        assert_eq!(expected(&[0, 1]), "no reply in time for 10 ticks (hip, knee on bus left)");
        assert_eq!(expected(&[1]), event.text());
        assert_eq!(expected(&[0, 2]), event.text());
    }

    /// The first servo that was late was named, and its bus was not the slowest.
    #[test]
    fn all_servos_whose_replies_come_too_late_are_named() {
        let servos = [("pan", "leader"), ("grip", "leader"), ("elbow", "follower"), ("wrist", "follower")];
        let named = |late: &[usize]| {
            let mut tally = Tally::new(100_000);
            for number in 0..40 {
                tally.count(&Tick { number, ..Tick::UNKNOWN }, Pace::default());
                late.iter().filter(|_| number % 3 == 0).for_each(|servo| tally.missed_by(*servo));
            }
            tally.missed_by(0);
            late_together(&format!("it came down: {LATE} (grip on bus leader); 9 more"), &tally, &servos)
        };
        let place = |who: &str| format!("it came down: {LATE} ({who}); 9 more");
        assert_eq!(named(&[1, 2, 3]), place("grip on bus leader; elbow, wrist on bus follower"));
        assert_eq!(named(&[0, 1, 2, 3]), place("all 4 servos"));
        assert_eq!(named(&[1]), place("grip on bus leader"));
    }

    #[test]
    fn all_servos_that_never_replied_are_named_and_win_over_late_ones() {
        let event = came_down(LATE, "knee", "main");
        let servos = [
            servo("knee", "main", 0, 90),
            servo("pan", "main", 0, 0),
            servo("tilt", "main", 0, 0),
            servo("hip", "left", 100, 0),
            servo("ankle", "left", 0, 0),
        ];
        let (end, config) = (event.text(), config());
        let of = |servos: &[ServoSummary]| {
            named(&end, None, (std::slice::from_ref(&event), servos), (&config.buses, &[false; 2]), false)
        };
        assert_eq!(of(&servos), "no reply during start-up (pan, tilt on bus main; ankle on bus left)");
        assert_eq!(remedy(&of(&servos)), Some(SCAN));
        assert_eq!(of(&servos[..1]), end);
        let many: Vec<_> = (0..12).map(|number| servo(&format!("s{number}"), "main", 0, 0)).collect();
        assert!(of(&many).ends_with("s6, s7 on bus main, and 4 more)"), "{}", of(&many));
    }
}
