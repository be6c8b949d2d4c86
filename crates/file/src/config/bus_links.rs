//! Whether the links of a file's buses can do what their servos need.

use super::{RobotConfig, ServoConfig};
use khz_settings::{Problem, Reader};

pub(super) fn check(robot: &RobotConfig, reader: &mut Reader) {
    for (i, bus) in robot.buses.iter().enumerate() {
        let place = format!("bus.{}", bus.name);
        let Some(span) = reader.span(&place) else { continue };
        if let Some((misfit, help)) = bus.link.bus().misfit() {
            let problem = Problem::error(place.clone(), misfit).at(span.clone(), "this bus").help(help);
            reader.problems.push(problem);
        }
        check_rate(robot, i, reader);
        let needs_fd = robot.servos.iter().find(|servo| servo.bus == i && servo.speaks_fd());
        if let (Some(why), Some(servo)) = (bus.link.bus().classic_only(), needs_fd) {
            let title = format!("`{}` speaks CAN-FD, and this bus does not", servo.name);
            let problem = Problem::error(place, title).at(span, why).help(match bus.link.is_emulated() {
                true => "write `wire = \"can_fd\"`, or let the servo speak classic CAN",
                false => "write `data_bit_rate = 5000000` if adapter and servos speak CAN-FD",
            });
            reader.problems.push(problem);
        }
    }
}

/// A servo at another bit rate than its bus never answers, and disturbs those that do.
fn check_rate(robot: &RobotConfig, i: usize, reader: &mut Reader) {
    let bus = &robot.buses[i];
    let leaves_with = |servo: &ServoConfig| servo.in_file().facts().factory_bit_rate;
    let on_bus = robot.servos.iter().filter(|servo| servo.bus == i);
    let Some((servo, leaves)) = { on_bus }.find_map(|servo| Some((servo, leaves_with(servo)?))) else {
        return;
    };
    let rate = bus.link.bus().nominal_bit_rate().filter(|&rate| rate != leaves);
    let place = format!("bus.{}.nominal_bit_rate", bus.name);
    if let (Some(rate), Some(span)) = (rate, reader.span(&place)) {
        let title =
            format!("{} servos leave the factory at {} Mbit/s", servo.family.title(), leaves / 1_000_000);
        let problem = Problem::warning(place, title)
            .at(span, format!("{rate} bit/s, and `{}` is one", servo.name))
            .help("remove the key, unless every servo on the bus was set to that rate");
        reader.problems.push(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_of_robstride_servos_at_another_bit_rate_is_warned_of() {
        let warnings = |rate: &str| {
            let text = format!(
                "[loop]\nrate_hz = 200\n[bus.leg]\nlink = \"slcan\"\npath = \"/dev/ttyACM0\"\n{rate}[[servo]]\nname = \"hip\"\nbus = \"leg\"\n\
                 id = 1\nfamily = \"robstride\"\nrobstride.model = \"RS02\"\nlimits = {{ position = [-1, 1], velocity = 2 }}\n"
            );
            RobotConfig::parse(&text, "leg.toml").unwrap().warnings.join("\n")
        };
        let message = warnings("nominal_bit_rate = 500000\n");
        assert!(message.contains("RobStride servos leave the factory at 1 Mbit/s"), "{message}");
        assert!(!warnings("nominal_bit_rate = 1000000\n").contains("Mbit/s"));
        assert!(!warnings("").contains("Mbit/s"));
    }
}
