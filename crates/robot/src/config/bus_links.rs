//! Whether the links of a file's buses can do what their servos need.

use super::RobotConfig;
use khz_settings::{Problem, Reader};

pub(super) fn check(robot: &RobotConfig, reader: &mut Reader) {
    for (i, bus) in robot.buses.iter().enumerate() {
        let place = format!("bus.{}", bus.name);
        let Some(span) = reader.span(&place) else { continue };
        if let Some((misfit, help)) = bus.link.bus().misfit() {
            let problem = Problem::error(place.clone(), misfit).at(span.clone(), "this bus").help(help);
            reader.problems.push(problem);
        }
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
