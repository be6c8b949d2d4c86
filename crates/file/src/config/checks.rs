//! What single values cannot show: things that collide, or do not fit together.

mod buses;
mod controller;
mod servos;
mod supervisor;

pub(crate) use servos::identifier;

use super::{Clock, ImuLink, LinkKind, RobotBody, RobotConfig};
use super::{bus_links, promises};
use khz_settings::{Problem, Reader, suggestion};

pub(super) fn check(robot: &RobotConfig, text: &str, reader: &mut Reader) {
    check_presence(robot, text, reader);
    check_loop(robot, reader);
    buses::check_pace(robot, reader);
    check_clock(robot, reader);
    buses::check_connectors(robot, reader);
    buses::check_link_count(robot, reader);
    bus_links::check(robot, reader);
    servos::check(robot, reader);
    check_imu(robot, reader);
    controller::check(robot, reader);
    supervisor::check(robot, text, reader);
    promises::check(robot, text, reader);
    supervisor::check_kernel_watchdog(robot, reader);
    check_body(robot, reader);
    check_stream(robot, reader);
    check_teleop(robot, reader);
    check_parameters(robot, reader);
    check_zstd(robot, reader);
    buses::check_idle_buses(robot, reader);
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
            .help(format!("write less than {period_us}, for example {:.0}", period_us * 0.8));
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
