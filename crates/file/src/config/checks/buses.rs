//! The buses: which of them paces the loop, their connectors and how many links they need.

use crate::config::{BusConfig, LinkKind, MAX_LINKS, RobotConfig};
use khz_settings::{Problem, Reader, suggestion};
use std::ops::Range;

/// The frame that paces the loop comes from a bus there is, and is named.
pub(super) fn check_pace(robot: &RobotConfig, reader: &mut Reader) {
    let timing = &robot.timing;
    if let (Some(name), Some(span)) = (&timing.pace_bus, reader.span("loop.pace_bus")) {
        check_bus_name(name, "loop.pace_bus", span.clone(), robot, reader);
        if timing.pace_id.is_none() && reader.span("loop.pace_id").is_none() {
            let problem = Problem::error("loop.pace_bus", "it is not specified which frame paces the loop")
                .at(span.clone(), "any frame of this bus?")
                .help("add `pace_id`, the identifier of the sensor's frame");
            reader.problems.push(problem);
        }
        let on_hat = |bus: &BusConfig| bus.name == *name && bus.link.kind() == LinkKind::Pi3hat;
        if robot.buses.iter().any(on_hat) {
            let problem = Problem::error("loop.pace_bus", "a bus of a pi3hat cannot pace the loop")
                .at(span, "the hat does not report when a frame arrives")
                .help("connect the sensor by another link, or leave out `pace_bus`: then the timer paces the loop");
            reader.problems.push(problem);
        }
    }
    for key in ["loop.pace_id", "loop.pace_patience_us"] {
        if let (Some(span), None) = (reader.span(key), reader.span("loop.pace_bus")) {
            let problem = Problem::error(key, "no bus paces the loop")
                .at(span, "of a frame of which bus?")
                .help("add `pace_bus`, the bus the frame comes from, or leave this out");
            reader.problems.push(problem);
        }
    }
}

/// Two buses on one connector.
pub(super) fn check_connectors(robot: &RobotConfig, reader: &mut Reader) {
    for (i, bus) in robot.buses.iter().enumerate() {
        let Some(span) = reader.span(&format!("bus.{}", bus.name)) else { continue };
        let same = |other: &&BusConfig| {
            let kind = other.link.kind() == bus.link.kind();
            !bus.link.is_emulated() && kind && other.link.endpoint() == bus.link.endpoint()
        };
        if let Some(other) = robot.buses[..i].iter().find(same)
            && let Some(first) = reader.span(&format!("bus.{}", other.name))
        {
            let endpoint = bus.link.endpoint();
            let problem = Problem::error(format!("bus.{}", bus.name), format!("two buses on `{endpoint}`"))
                .at(span.clone(), "this bus")
                .at(first, "and this one")
                .help("put all servos of one connector on one bus, or name the connector of this one");
            reader.problems.push(problem);
        }
    }
}

/// Each bus is a link of its own, but that those of a hat share one, as the emulated ones do.
pub(super) fn check_link_count(robot: &RobotConfig, reader: &mut Reader) {
    let own = robot.buses.iter().filter(|bus| bus.link.bus().shared(0).is_none());
    // Room for the emulated devices and a hat beside them.
    let Some(one_too_many) = own.clone().nth(MAX_LINKS - 2) else { return };
    let Some(span) = reader.span(&format!("bus.{}", one_too_many.name)) else { return };
    let most = MAX_LINKS - 2;
    let problem = Problem::error(
        format!("bus.{}", one_too_many.name),
        format!("{} buses with their own link", own.count()),
    )
    .at(span, format!("number {}", most + 1))
    .help(format!("one process serves {most} at most: put more servos on each bus, or divide the robot"));
    reader.problems.push(problem);
}

/// Buses without a servo whose frames do not pace the loop. Only looked for when nothing else is wrong: a wrong servo may be the missing one.
pub(super) fn check_idle_buses(robot: &RobotConfig, reader: &mut Reader) {
    if !reader.problems.iter().all(|problem| problem.warning) {
        return;
    }
    for bus in &robot.buses {
        let Some(span) = reader.span(&format!("bus.{}", bus.name)) else { continue };
        let paces = robot.timing.pace_bus.as_deref() == Some(&bus.name);
        if !paces && robot.servos.iter().all(|servo| servo.settings.bus != bus.name) {
            let problem =
                Problem::warning(format!("bus.{}", bus.name), format!("no servo is on bus `{}`", bus.name))
                    .at(span, "not used")
                    .help(format!("write `bus = \"{}\"` in a `[[servo]]`, or remove the bus", bus.name));
            reader.problems.push(problem);
        }
    }
}

/// There is a bus of this name.
pub(super) fn check_bus_name(
    name: &str,
    place: &str,
    span: Range<usize>,
    robot: &RobotConfig,
    reader: &mut Reader,
) {
    // A bus that was written, but wrongly, has been reported.
    if reader.span(&format!("bus.{name}")).is_none() {
        let names: Vec<&str> = robot.buses.iter().map(|bus| bus.name.as_str()).collect();
        let help = match suggestion(name, &names, "the buses are") {
            none if none.is_empty() => format!("add a table `[bus.{name}]`"),
            some => some,
        };
        let problem =
            Problem::error(place, format!("there is no bus `{name}`")).at(span, "no such bus").help(help);
        reader.problems.push(problem);
    }
}
