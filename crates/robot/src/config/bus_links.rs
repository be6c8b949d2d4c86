//! Whether the links of a file's buses can do what their servos need.

use super::{FamilyName, RobotConfig};
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
            let problem = Problem::error(place, title)
                .at(span, why)
                .help("write `data_bit_rate = 5000000` if adapter and servos speak CAN-FD");
            reader.problems.push(problem);
        }
    }
}

/// The rate at which RobStride and CubeMars servos speak, bit/s.
const ONE_RATE: u32 = 1_000_000;

/// A servo at another bit rate than its bus never answers, and disturbs those that do.
fn check_rate(robot: &RobotConfig, i: usize, reader: &mut Reader) {
    let bus = &robot.buses[i];
    let is_meant = |family| matches!(family, FamilyName::Robstride | FamilyName::Cubemars);
    let servo = robot.servos.iter().find(|servo| servo.bus == i && is_meant(servo.family));
    let rate = bus.link.bus().nominal_bit_rate().filter(|&rate| rate != ONE_RATE);
    let place = format!("bus.{}.nominal_bit_rate", bus.name);
    if let (Some(servo), Some(rate), Some(span)) = (servo, rate, reader.span(&place)) {
        let title = format!("{} servos leave the factory at 1 Mbit/s", servo.family.title());
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
        let told = warnings("nominal_bit_rate = 500000\n");
        assert!(told.contains("RobStride servos leave the factory at 1 Mbit/s"), "{told}");
        assert!(!warnings("nominal_bit_rate = 1000000\n").contains("Mbit/s"));
        assert!(!warnings("").contains("Mbit/s"));
    }
}
