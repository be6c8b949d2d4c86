//! What single values cannot show: things that collide, or do not fit together.

use super::{
    BusConfig, Clock, ControllerConfig, FollowConfig, ImuLink, LinkKind, MAX_LINKS, PolicyConfig,
    RESTART_UNSEEN, Reaction, RobotBody, RobotConfig, ServoConfig, StandAndSquatParameters, Uncertainty,
    WalkParameters,
};
use super::{bus_links, families, promises};
use khz_controllers::policy::settings::Term;
use khz_controllers::walk::LONGEST;
use khz_servo::{Carries, Quantity};
use khz_settings::Problem;
use khz_settings::{Reader, suggestion};
use khz_targets::follow::Pair;
use khz_targets::mean;
use serde_json::json;
use std::f64::consts::TAU;
use std::ops::Range;

pub(super) fn check(robot: &RobotConfig, text: &str, reader: &mut Reader) {
    check_presence(robot, text, reader);
    check_loop(robot, reader);
    check_pace(robot, reader);
    check_clock(robot, reader);
    check_connectors(robot, reader);
    check_link_count(robot, reader);
    bus_links::check(robot, reader);
    check_names(robot, reader);
    check_ids(robot, reader);
    for (i, servo) in robot.servos.iter().enumerate() {
        check_bus_of(robot, i, servo, reader);
        check_limits(i, servo, reader);
        check_jerk(robot, i, servo, reader);
        families::check(robot, i, servo, reader);
        check_joint(i, servo, reader);
        check_uncertainty(i, servo, reader);
    }
    check_imu(robot, reader);
    check_controller(robot, reader);
    check_supervisor(robot, text, reader);
    promises::check(robot, text, reader);
    check_kernel_watchdog(robot, reader);
    check_body(robot, reader);
    check_stream(robot, reader);
    check_teleop(robot, reader);
    check_parameters(robot, reader);
    check_zstd(robot, reader);
    check_idle_buses(robot, reader);
    once_each(reader);
}

/// What is wrong in `[servo_defaults]` is found in every servo, and reported once, with the key as it is written.
fn once_each(reader: &mut Reader) {
    let mut all: Vec<Problem> = Vec::new();
    for mut problem in std::mem::take(&mut reader.problems) {
        let same = |other: &Problem| other.title == problem.title && other.start() == problem.start();
        if all.iter().any(same) {
            continue;
        }
        let shared = problem.key.strip_prefix("servo[").and_then(|rest| rest.split_once("]."));
        if let Some(key) = shared.map(|(_, key)| format!("servo_defaults.{key}"))
            && reader.span(&key).is_some_and(|span| span.start == problem.start())
        {
            problem.key = key;
        }
        all.push(problem);
    }
    reader.problems = all;
}

fn check_presence(robot: &RobotConfig, text: &str, reader: &mut Reader) {
    let broken = !reader.problems.is_empty();
    if robot.servos.is_empty() && !broken {
        let problem = Problem::error("servo", "this robot has no servos")
            .at(text.len()..text.len(), "nothing after this")
            .help("add a bus, and one `[[servo]]` table per servo with `name`, `bus` and `id`");
        reader.problems.push(problem);
    }
    for key in ["name", "id"] {
        if let Some(span) = reader.span(&format!("servo_defaults.{key}")) {
            let problem =
                Problem::error(format!("servo_defaults.{key}"), format!("servos cannot share one `{key}`"))
                    .at(span, "every servo would get this")
                    .help(format!("write `{key}` in each `[[servo]]`"));
            reader.problems.push(problem);
        }
    }
}

fn check_loop(robot: &RobotConfig, reader: &mut Reader) {
    let timing = &robot.timing;
    if let (Some(us), Some(span)) = (timing.bus_deadline_us, reader.span("loop.bus_deadline_us"))
        && timing.bus_deadline_ns() >= timing.period_ns()
    {
        let period_us = timing.period_ns() as f64 / 1e3;
        let mut problem = Problem::error("loop.bus_deadline_us", "the bus deadline is not within the period")
            .at(span, format!("{us} µs"))
            .help(format!("write less than {period_us}, for example {}", period_us * 0.8));
        if let Some(span) = reader.span("loop.rate_hz") {
            problem = problem.at(span, format!("a period of {period_us} µs"));
        }
        reader.problems.push(problem);
    }
    if timing.policy == super::Policy::Deadline
        && let (Some(policy), Some(cpu)) = (reader.span("loop.policy"), reader.span("loop.cpu"))
    {
        let problem =
            Problem::error("loop.cpu", "the kernel refuses `deadline` for a thread bound to one CPU")
                .at(cpu, "bound here")
                .at(policy, "deadline here")
                .help("leave out `cpu`, or use `policy = \"fifo\"`");
        reader.problems.push(problem);
    }
}

/// Names are looked up when the run begins; here only what cannot be an address of a host.
fn check_stream(robot: &RobotConfig, reader: &mut Reader) {
    let keys = [
        (
            "log.stream",
            &robot.log.stream,
            "write where `khz log record --listen` runs, for example `stream = \"192.168.1.5:7400\"`",
        ),
        (
            "log.plotjuggler",
            &robot.log.plotjuggler,
            "write where PlotJuggler's \"UDP Server\" listens, for example `plotjuggler = \"127.0.0.1:9870\"`",
        ),
    ];
    for (key, to, help) in keys {
        if let (Some(to), Some(span)) = (to, reader.span(key))
            && !is_address(to)
        {
            let problem = Problem::error(key, format!("`{to}` is not an address to send to"))
                .at(span, "not `HOST:PORT`")
                .help(help);
            reader.problems.push(problem);
        }
    }
}

/// Where inputs of own programs are received.
fn check_teleop(robot: &RobotConfig, reader: &mut Reader) {
    let Some((from, span)) = robot.teleop.from.as_ref().zip(reader.span("teleop.from")) else { return };
    if !from.strip_prefix("udp:").is_some_and(is_address) {
        let problem = Problem::error("teleop.from", format!("inputs cannot be received from `{from}`"))
            .at(span, "not `udp:ADDRESS:PORT`")
            .help("write where this robot listens, for example `from = \"udp:127.0.0.1:7500\"`");
        reader.problems.push(problem);
    }
}

/// Whether they can be parameters at all. Which of them there are, only the controller of a run knows.
fn check_parameters(robot: &RobotConfig, reader: &mut Reader) {
    for (name, settings) in &robot.parameters {
        let place = format!("parameters.{name}");
        let Some(span) = reader.span(&place) else { continue };
        let wrong = match settings.declared(name) {
            Some(parameter) => parameter.check_declaration().err(),
            None if !khz_loop::parameters::is_name(name) => {
                Some(khz_loop::parameters::ParameterError(format!("`{name}` cannot name a parameter")))
            }
            None => None,
        };
        if let Some(error) = wrong {
            let help = "letters, digits, `_` and `.` make a name; `min` ≤ `value` ≤ `max`";
            reader.problems.push(Problem::error(place, error.0).at(span, "here").help(help));
        }
    }
}

/// The recorder refuses to compress what is not there, and with it the run.
fn check_zstd(robot: &RobotConfig, reader: &mut Reader) {
    let Some(span) = reader.span("log.zstd") else { return };
    let known: Vec<&str> = robot.record_names().collect();
    for name in robot.log.zstd.iter().filter(|name| !known.contains(&name.as_str())) {
        let problem = Problem::error("log.zstd", format!("a run has no record `{name}`"))
            .at(span.clone(), "no such record")
            .help(suggestion(name, &known, "the records are"));
        reader.problems.push(problem);
    }
}

/// The keys for virtual time fit the rest of the file.
fn check_clock(robot: &RobotConfig, reader: &mut Reader) {
    let Some(span) = reader.span("loop.clock").filter(|_| robot.timing.clock == Clock::Virtual) else {
        return;
    };
    if let Some(why) = robot.why_not_virtual() {
        let problem = Problem::error("loop.clock", "this robot cannot run in virtual time")
            .at(span, why)
            .help("write \"real\", or change that");
        reader.problems.push(problem);
    }
}

impl RobotConfig {
    /// Why this robot cannot run in virtual time, if it cannot.
    pub fn why_not_virtual(&self) -> Option<String> {
        let real = self.buses.iter().find(|bus| !bus.link.is_emulated());
        if let Some(bus) = real {
            return Some(format!(
                "bus `{}` is not emulated, and devices outside keep their own time",
                bus.name
            ));
        }
        if self.timing.mode == super::Mode::Pipelined {
            return Some(
                "`loop.mode = \"pipelined\"` runs the controller beside the loop, in real time".to_owned(),
            );
        }
        let keeps_real_time = [
            (self.supervisor.heartbeat_ms.is_some(), "`supervisor.heartbeat_ms` waits for an operator"),
            (self.watchdog.device.is_some(), "`watchdog.device` is fed"),
            (self.teleop.from.is_some(), "`teleop.from` receives what a person wants"),
            (self.log.enabled && self.log.stream.is_some(), "`log.stream` sends by UDP"),
            (self.log.enabled && self.log.plotjuggler.is_some(), "`log.plotjuggler` sends by UDP"),
        ];
        let why = keeps_real_time.into_iter().find(|(is_so, _)| *is_so);
        why.map(|(_, what)| format!("{what}, and that keeps real time"))
    }
}

fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0))
}

/// The frame that paces the loop comes from a bus there is, and is named.
fn check_pace(robot: &RobotConfig, reader: &mut Reader) {
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
fn check_connectors(robot: &RobotConfig, reader: &mut Reader) {
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
fn check_link_count(robot: &RobotConfig, reader: &mut Reader) {
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
fn check_idle_buses(robot: &RobotConfig, reader: &mut Reader) {
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

fn check_names(robot: &RobotConfig, reader: &mut Reader) {
    for (i, servo) in robot.servos.iter().enumerate() {
        let Some(span) = reader.span(&format!("servo[{i}].name")) else { continue };
        let name = &servo.settings.name;
        if !is_identifier(name) {
            let problem = Problem::error(format!("servo[{i}].name"), format!("`{name}` cannot name a servo"))
                .at(span, "not a name")
                .help(format!("use letters, digits and `_`, first a letter: `{}`", identifier(name)));
            reader.problems.push(problem);
        } else if let Some(first) = robot.servos[..i].iter().position(|other| other.settings.name == *name)
            && let Some(first) = reader.span(&format!("servo[{first}].name"))
        {
            let problem =
                Problem::error(format!("servo[{i}].name"), format!("two servos are called `{name}`"))
                    .at(span, "the second")
                    .at(first, "the first")
                    .help("give each servo its own name");
            reader.problems.push(problem);
        }
    }
}

/// `[A-Za-z][A-Za-z0-9_]*`
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The nearest name that is allowed.
pub(crate) fn identifier(name: &str) -> String {
    let cleaned: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if cleaned.starts_with(|c: char| c.is_ascii_alphabetic()) { cleaned } else { format!("joint_{cleaned}") }
}

fn check_ids(robot: &RobotConfig, reader: &mut Reader) {
    for (i, servo) in robot.servos.iter().enumerate() {
        let Some(span) = reader.span(&format!("servo[{i}].id")) else { continue };
        let same = |other: &ServoConfig| other.id == servo.id && other.settings.bus == servo.settings.bus;
        let Some(first) = robot.servos[..i].iter().position(same) else { continue };
        let Some(first_span) = reader.span(&format!("servo[{first}].id")) else { continue };
        let (bus, id) = (&servo.settings.bus, servo.id);
        let used: Vec<u8> = robot.servos.iter().filter(|s| s.settings.bus == *bus).map(|s| s.id).collect();
        let free = (1..=126).find(|id| !used.contains(id)).unwrap_or(126);
        let problem =
            Problem::error(format!("servo[{i}].id"), format!("two servos have id {id} on bus `{bus}`"))
                .at(span, format!("`{}`", servo.settings.name))
                .at(first_span, format!("`{}`", robot.servos[first].settings.name))
                .help(format!("ids on one bus must differ; {free} is free"));
        reader.problems.push(problem);
    }
}

fn check_bus_of(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = format!("servo[{i}].bus");
    let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.bus")) else { return };
    check_bus_name(&servo.settings.bus, &place, span, robot, reader);
}

/// There is a bus of this name.
fn check_bus_name(name: &str, place: &str, span: Range<usize>, robot: &RobotConfig, reader: &mut Reader) {
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

fn check_limits(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = format!("servo[{i}].limits.position");
    let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.limits.position")) else {
        return;
    };
    let Some([low, high]) = servo.limits.position else { return };
    if low >= high {
        let problem = Problem::error(place, "the position limits are the wrong way round")
            .at(span, format!("from {low} to {high} rad is an empty range"))
            .help(format!("write the least first: `position = [{high:?}, {low:?}]`"));
        reader.problems.push(problem);
    } else if low.abs().max(high.abs()) > 2.0 * TAU && low.fract() == 0.0 && high.fract() == 0.0 {
        let (low, high) = (low.to_radians(), high.to_radians());
        let problem = Problem::warning(place, "these position limits look like degrees")
            .at(span, "more than two turns")
            .help(format!("positions are in rad: {low:.4} to {high:.4} if these are degrees"));
        reader.problems.push(problem);
    }
}

/// A jerk is limited by a mean over many ticks; see [`mean`].
fn check_jerk(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let (place, dt) = (format!("servo[{i}].limits.jerk"), robot.timing.period_ns() as f64 * 1e-9);
    let (Some(jerk), Some(span)) = (servo.limits.jerk, families::written(i, "limits.jerk", reader)) else {
        return;
    };
    let Some(acceleration) = servo.limits.greatest_acceleration() else {
        let problem = Problem::error(place, "a limit of jerk needs one of acceleration")
            .at(span, "of which acceleration?")
            .help("give `limits.acceleration`, or `limits.velocity`, which is reached within 0.1 s");
        return reader.problems.push(problem);
    };
    let ticks = mean::ticks(acceleration, jerk, dt);
    if ticks > mean::MOST {
        let least = (2.0 * acceleration / (mean::MOST as f64 * dt)).ceil();
        let problem = Problem::error(place, "`limits.jerk` is too low for this acceleration")
            .at(span, format!("a mean of {ticks} ticks, and {} are the most", mean::MOST))
            .help(format!("write at least `jerk = {least}`, or a lower `acceleration` than {acceleration}"));
        reader.problems.push(problem);
    }
}

fn check_joint(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    if servo.sign == 0
        && let Some(span) =
            reader.span(&format!("servo[{i}].sign")).or_else(|| reader.span("servo_defaults.sign"))
    {
        let problem =
            Problem::error(format!("servo[{i}].sign"), "a sign is 1 or -1").at(span, "not 0").help("write 1");
        reader.problems.push(problem);
    }
    if servo.joint.backlash > 0.0 && servo.joint.armature == 0.0 {
        let place = format!("servo[{i}].joint.backlash");
        if let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.joint.backlash")) {
            let problem = Problem::error(place, "play without a rotor on its other side")
                .at(span, "`armature` is 0")
                .help("write the rotor's inertia as felt at the output, such as `armature = 0.001`");
            reader.problems.push(problem);
        }
    }
    let Some([low, high]) = servo.joint.stops else { return };
    let place = format!("servo[{i}].joint.stops");
    let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.joint.stops")) else {
        return;
    };
    let start = servo.joint.start;
    if low >= high {
        let problem = Problem::error(place, "the end stops are the wrong way round")
            .at(span, format!("from {low} to {high} rad is an empty range"))
            .help(format!("write the least first: `stops = [{high:?}, {low:?}]`"));
        reader.problems.push(problem);
    } else if !(low..=high).contains(&start) {
        let problem = Problem::error(place, "the joint starts beyond its end stops")
            .at(span, format!("it starts at {start} rad"))
            .help(format!("set `joint.start` between {low} and {high}"));
        reader.problems.push(problem);
    }
}

/// What the emulated joint does not have, or has as 0, cannot be drawn.
fn check_uncertainty(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let drawn = servo.uncertain();
    let is_drawn = |key: &str| drawn.iter().any(|one| one.name == format!("{}.{key}", servo.name));
    let deviations = json!(servo.uncertainty);
    let unused = |key: &&str| deviations[key].as_f64().is_some_and(|by| by > 0.0) && !is_drawn(key);
    for key in Uncertainty::names().into_iter().filter(|key| unused(key)) {
        let shared = format!("servo_defaults.uncertainty.{key}");
        let place = format!("servo[{i}].uncertainty.{key}");
        let Some(span) = reader.span(&place).or_else(|| reader.span(&shared)) else { continue };
        let problem = Problem::error(place, format!("`{key}` has an uncertainty and no value"))
            .at(span, format!("of `{}` it is not there, or 0", servo.name))
            .help(format!("write its `{key}`, or remove this"));
        reader.problems.push(problem);
    }
}

fn check_imu(robot: &RobotConfig, reader: &mut Reader) {
    let hat = robot.buses.iter().any(|bus| bus.link.kind() == LinkKind::Pi3hat);
    let on_hat = robot.imu.as_ref().is_some_and(|imu| imu.link == ImuLink::Pi3hat);
    if on_hat
        && !hat
        && let Some(span) = reader.span("imu.link")
    {
        let problem = Problem::error("imu.link", "the IMU is on a pi3hat, but no bus is")
            .at(span, "no hat to read it from")
            .help("write `link = \"emulated\"`, or put a bus on the hat with `link = \"pi3hat\"`");
        reader.problems.push(problem);
    }
    let udp = robot.buses.iter().any(|bus| bus.link.kind() == LinkKind::Udp);
    if robot.imu.as_ref().is_some_and(|imu| imu.link == ImuLink::Udp)
        && !udp
        && let Some(span) = reader.span("imu.link")
    {
        let problem = Problem::error("imu.link", "the IMU is in a device behind Ethernet, but no bus is")
            .at(span, "no device that could send its readings")
            .help("write `link = \"emulated\"`, or reach a bus with `link = \"udp\"`");
        reader.problems.push(problem);
    }
    let emulated = robot.imu.as_ref().is_some_and(|imu| imu.link == ImuLink::Emulated);
    let emulated_bus = robot.buses.iter().any(|bus| bus.link.is_emulated());
    if emulated
        && !emulated_bus
        && !robot.buses.is_empty()
        && let Some(span) = reader.span("imu.link")
    {
        let problem = Problem::warning("imu.link", "an emulated IMU on a machine without emulated buses")
            .at(span, "it does not sense the motion of the robot")
            .help("remove `[imu]`, or name the real one");
        reader.problems.push(problem);
    }
}

fn check_controller(robot: &RobotConfig, reader: &mut Reader) {
    match &robot.controller {
        ControllerConfig::StandAndSquat(legs) => check_stand_and_squat(robot, legs, reader),
        ControllerConfig::Walk(legs) => check_walk(robot, legs, reader),
        ControllerConfig::Targets => {
            check_targets(robot, reader);
            check_sticks(robot, reader);
        }
        ControllerConfig::Follow(follow) => {
            check_follow(robot, follow, reader);
            check_sticks(robot, reader);
        }
        ControllerConfig::Excite(_) => check_excite(robot, reader),
        ControllerConfig::Policy(policy) => check_observed(robot, policy, reader),
        ControllerConfig::Hold(_) | ControllerConfig::Sine(_) => {}
    }
    if !matches!(robot.controller, ControllerConfig::Targets | ControllerConfig::Follow(_)) {
        check_unused_socket(robot, reader);
    }
}

/// The servos report what a policy sees of them: otherwise its first observation is none.
fn check_observed(robot: &RobotConfig, policy: &PolicyConfig, reader: &mut Reader) {
    for (i, observe) in policy.observe.iter().enumerate() {
        let (term, path) = (observe.term, format!("controller.observe[{i}].term"));
        let (quantity, is_reported): (_, fn(Carries) -> bool) = match term {
            Term::JointVel => (Quantity::Velocity, |carries| carries.velocity_asked),
            Term::JointTorque => (Quantity::Torque, |carries| carries.torque_asked),
            _ => continue,
        };
        let silent = robot.servos.iter().find(|servo| !is_reported(servo.carries()));
        if let (Some(servo), Some(span)) = (silent, reader.span(&path)) {
            let (name, family) = (&servo.name, servo.family);
            let problem =
                Problem::error(path, format!("the policy sees `{term}`, which `{name}` does not report"))
                    .at(span, format!("`{name}`, of family {family}, is not asked for its {quantity}"))
                    .help(format!("ask it for that: `query.{quantity} = \"float\"`"));
            reader.problems.push(problem);
        }
    }
}

/// A program that sends targets would wait for an answer for ever.
fn check_unused_socket(robot: &RobotConfig, reader: &mut Reader) {
    let Some(span) = reader.span("targets.from") else { return };
    let what =
        format!("the controller `{}` follows no targets: nothing listens there", robot.controller.kind());
    let problem = Problem::warning("targets.from", what)
        .at(span, "of the controllers `targets` and `follow`")
        .help("remove it, or write `name = \"targets\"` below `[controller]`");
    reader.problems.push(problem);
}

/// What moves by commands from outside has limits.
fn check_targets(robot: &RobotConfig, reader: &mut Reader) {
    let unlimited = robot.servos.iter().find(|servo| servo.limits.velocity.is_none());
    if let (Some(servo), Some(span)) = (unlimited, reader.span("controller.name")) {
        let name = robot.controller.kind();
        let needs = format!("`{name}` needs `limits.velocity` of every servo");
        let problem = Problem::error("controller.name", needs)
            .at(span, format!("`{}` has none", servo.name))
            .help("write `limits = { velocity = … }` below `[servo_defaults]` or each `[[servo]]`");
        reader.problems.push(problem);
    }
}

/// A motion without a program or an operator stays within limits.
fn check_excite(robot: &RobotConfig, reader: &mut Reader) {
    let unlimited = |servo: &&ServoConfig| servo.limits.position.is_none() || servo.limits.velocity.is_none();
    let unlimited = robot.servos.iter().find(unlimited);
    if let (Some(servo), Some(span)) = (unlimited, reader.span("controller.name")) {
        let needs = "`excite` needs `limits.position` and `limits.velocity` of every servo";
        let problem = Problem::error("controller.name", needs)
            .at(span, format!("`{}` lacks one", servo.name))
            .help("write `limits = { position = […, …], velocity = … }` below `[servo_defaults]` or each `[[servo]]`");
        reader.problems.push(problem);
    }
}

/// Which joint each stick moves.
fn check_sticks(robot: &RobotConfig, reader: &mut Reader) {
    let names: Vec<&str> = robot.servos.iter().map(|servo| servo.name.as_str()).collect();
    let sticks = robot.targets.sticks.joints();
    for (at, (key, joint)) in sticks.into_iter().enumerate() {
        let path = format!("targets.sticks.{key}");
        let (Some(joint), Some(span)) = (joint, reader.span(&path)) else { continue };
        let other = sticks[..at].iter().find(|(_, other)| *other == Some(joint));
        let (why, help) = match other {
            _ if matches!(robot.controller, ControllerConfig::Follow(_)) => {
                ("no stick moves an arm that follows another one".to_owned(), "remove it".to_owned())
            }
            _ if !names.contains(&joint) => {
                (format!("there is no joint `{joint}`"), suggestion(joint, &names, "the joints are"))
            }
            Some((other, _)) => {
                (format!("`{other}` moves `{joint}` already"), "give each joint one stick".to_owned())
            }
            None => continue,
        };
        reader.problems.push(Problem::error(path, why).at(span, "moved by this stick").help(help));
    }
}

/// Who leads whom.
fn check_follow(robot: &RobotConfig, follow: &FollowConfig, reader: &mut Reader) {
    check_targets(robot, reader);
    let names: Vec<&str> = robot.servos.iter().map(|servo| servo.name.as_str()).collect();
    let (key, why, help) = match follow.pairs(&names) {
        Err((key, why)) => (key, why, "name as many joints in `leader` as in `follower`, each once"),
        Ok(pairs) if follow.feedback > 0.0 => {
            let most = |pair: &&Pair| follow.most_torque(robot.servos[pair.leader].limits.torque);
            if let Some(pair) = pairs.iter().find(|pair| most(pair).is_none()) {
                let why = format!("nothing limits the torque that `{}` is given back", names[pair.leader]);
                ("feedback", why, "write `feedback_torque = …` beside it, N·m")
            } else if let Some(why) = too_slow_for_torque(robot, &pairs) {
                ("feedback", why, "raise `loop.rate_hz`, or write `feedback = 0`")
            } else {
                return;
            }
        }
        Ok(_) => return,
    };
    let path = format!("controller.{key}");
    if let Some(span) = reader.span(&path).or(reader.span("controller.name")) {
        reader.problems.push(Problem::error(path, "these joints cannot follow").at(span, why).help(help));
    }
}

/// Why the first torque that is given back to a leader would bring the robot down, if it would.
fn too_slow_for_torque(robot: &RobotConfig, pairs: &[Pair]) -> Option<String> {
    let least_hz = robot.supervisor.torque_control_hz;
    let has_limits =
        |servo: &&ServoConfig| servo.limits.position.is_some() || servo.limits.velocity.is_some();
    let leader = pairs.iter().map(|pair| &robot.servos[pair.leader]).find(has_limits)?;
    (robot.timing.period_ns() as f64 * least_hz > 1e9).then(|| {
        format!(
            "below {least_hz} Hz (`supervisor.torque_control_hz`) `{}` takes no torque, as it has limits",
            leader.name
        )
    })
}

fn check_stand_and_squat(robot: &RobotConfig, legs: &StandAndSquatParameters, reader: &mut Reader) {
    let (Some(name), count) = (reader.span("controller.name"), robot.servos.len()) else { return };
    if count % 3 != 0 {
        let problem = Problem::error("controller.name", "`stand_and_squat` needs legs of three servos each")
            .at(name.clone(), format!("this robot has {count} servos"))
            .help("list hip, thigh and knee of each leg in this order, or choose another controller");
        reader.problems.push(problem);
    }
    if legs.stand_m >= 2.0 * legs.link_m || legs.squat_m + legs.lift_m >= legs.stand_m {
        let span = first_key(reader, &["squat_m", "lift_m", "stand_m", "link_m"]);
        let (link, stand) = (legs.link_m, legs.stand_m);
        let problem = Problem::error("controller", "the legs cannot do this")
            .at(span.unwrap_or(name), format!("standing at {stand} m on two links of {link} m"))
            .help("`squat_m` and `lift_m` together must be less than `stand_m`, and that less than twice `link_m`");
        reader.problems.push(problem);
    }
}

fn check_walk(robot: &RobotConfig, legs: &WalkParameters, reader: &mut Reader) {
    let (Some(name), count) = (reader.span("controller.name"), robot.servos.len()) else { return };
    if count != 12 {
        let problem = Problem::error("controller.name", "`walk` needs four legs of three servos each")
            .at(name.clone(), format!("this robot has {count} servos"))
            .help("list hip, thigh and knee of each leg in this order, or choose another controller");
        reader.problems.push(problem);
    }
    let (length, tall) = (legs.thigh_m + legs.shin_m, legs.stand_m + legs.height_m);
    if tall > LONGEST * length || legs.lift_m + legs.height_m >= legs.stand_m {
        let span = first_key(reader, &["lift_m", "height_m", "stand_m", "thigh_m", "shin_m"]);
        let problem = Problem::error("controller", "the legs cannot do this")
            .at(span.unwrap_or(name), format!("up to {tall:.3} m on legs of {length:.3} m"))
            .help(
                "`stand_m` and `height_m` together must be at most 0.9 of `thigh_m` and `shin_m` together, and `lift_m` and \
                 `height_m` together less than `stand_m`",
            );
        reader.problems.push(problem);
    }
}

/// Where the first of these keys of the controller that the file has is.
fn first_key(reader: &Reader, keys: &[&str]) -> Option<Range<usize>> {
    keys.iter().find_map(|key| reader.span(&format!("controller.{key}")))
}

fn check_supervisor(robot: &RobotConfig, text: &str, reader: &mut Reader) {
    let supervisor = &robot.supervisor;
    let (soft, hard) = (supervisor.temperature_soft_c, supervisor.temperature_hard_c);
    let span = |key: &str| reader.span(&format!("supervisor.{key}"));
    if soft >= hard
        && let Some(at) = span("temperature_soft_c").or_else(|| span("temperature_hard_c"))
    {
        let problem =
            Problem::error("supervisor.temperature_soft_c", "derating would begin after it has ended")
                .at(at, format!("from {soft} °C to {hard} °C"))
                .help("`temperature_soft_c` must be below `temperature_hard_c`");
        reader.problems.push(problem);
    }
    if supervisor.missed_replies > RESTART_UNSEEN
        && let Some(at) = reader.span("supervisor.missed_replies")
    {
        let title = "a servo could lose its power and come back unseen, on another turn";
        let problem = Problem::warning("supervisor.missed_replies", title)
            .at(at, format!("more than {RESTART_UNSEEN} replies in a row may hide a restart"))
            .help("write 24 at the most, unless no servo can lose its power alone");
        reader.problems.push(problem);
    }
    let cannot = |servo: &&ServoConfig| {
        servo.limits.torque.is_none()
            || servo.in_file().facts().limits_torque && !servo.in_file().derates(servo)
    };
    if let Some(at) = reader.span("supervisor.temperature_soft_c")
        && let Some(servo) = robot.servos.iter().find(cannot)
    {
        let title = format!("heat cannot lower the torque of `{}`", servo.name);
        let problem = Problem::warning("supervisor.temperature_soft_c", title)
            .at(at, "unless the controller limits its torque, this does nothing for it")
            .help(
                "a moteus needs `limits.torque`, `command.max_torque` and `query.temperature`; others cannot",
            );
        reader.problems.push(problem);
    }
    let unlimited = |servo: &&ServoConfig| servo.limits.torque.is_none();
    if let Some(servo) = robot.servos.iter().find(unlimited) {
        for (place, at) in promises::reactions_written(Reaction::Derate, text, reader) {
            let title = format!("`derate` cannot lower the torque of `{}`", servo.name);
            let problem = Problem::warning(place, title)
                .at(at, "unless the controller limits its torque, this does nothing for it")
                .help("give it `limits.torque`");
            reader.problems.push(problem);
        }
    }
    let heartbeat = [
        ("heartbeat_ms", supervisor.heartbeat_ms.is_some()),
        ("heartbeat_from", supervisor.heartbeat_from.is_some()),
    ];
    for ((key, given), (other, other_given)) in [(heartbeat[0], heartbeat[1]), (heartbeat[1], heartbeat[0])] {
        if given
            && !other_given
            && let Some(at) = reader.span(&format!("supervisor.{key}"))
        {
            let problem = Problem::error(format!("supervisor.{key}"), format!("`{key}` needs `{other}`"))
                .at(at, "alone, this does nothing")
                .help("for example `heartbeat_ms = 500` and `heartbeat_from = \"udp:0.0.0.0:7757\"`");
            reader.problems.push(problem);
        }
    }
}

/// The kernel's watchdog is fed every 100 ms, or every two periods if that is longer.
fn check_kernel_watchdog(robot: &RobotConfig, reader: &mut Reader) {
    let least = (4.0 * robot.timing.period_ns() as f64 * 1e-9).ceil();
    let (Some(timeout), Some(at)) = (robot.watchdog.timeout_s, reader.span("watchdog.timeout_s")) else {
        return;
    };
    if f64::from(timeout) < least {
        let problem = Problem::error("watchdog.timeout_s", "the computer could be reset between two ticks")
            .at(at, format!("{timeout} s at {} Hz", robot.timing.rate_hz))
            .help(format!("write at least four periods, {least} s"));
        reader.problems.push(problem);
    }
}

fn check_body(robot: &RobotConfig, reader: &mut Reader) {
    let count = robot.servos.len();
    if matches!(robot.body, Some(RobotBody::Quadruped(_)))
        && count != 12
        && let Some(span) = reader.span("body")
    {
        let problem = Problem::error("body", "the emulated body is a quadruped of twelve servos")
            .at(span, format!("this robot has {count}"))
            .help("remove `[body]`: the joints are then emulated one by one");
        reader.problems.push(problem);
    }
}
