//! The machine as a Mermaid block diagram.

use super::{ImuLink, RobotConfig};
use std::fmt::Write;

impl RobotConfig {
    /// The machine as a Mermaid flowchart: host, buses with their links, servos, IMU.
    pub fn diagram(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        let controller = self.controller.kind();
        let mut line = |line: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    {line}");
        };
        line(format!(
            "host[\"{}<br/>{controller}, {} Hz, {}\"]",
            escape(&self.name),
            self.timing.rate_hz,
            self.timing.mode
        ));
        for (i, bus) in self.buses.iter().enumerate() {
            let (kind, endpoint) = (bus.link.kind(), escape(&bus.link.endpoint()));
            line(format!("host --- bus{i}{{{{\"{}<br/>{kind}: {endpoint}\"}}}}", escape(&bus.name)));
            for (k, servo) in self.servos_on(i) {
                line(format!("bus{i} --- servo{k}([\"{}<br/>id {}\"])", servo.settings.name, servo.id));
            }
        }
        match self.imu.as_ref().map(|imu| imu.link) {
            Some(ImuLink::Pi3hat) => line("host --- imu[/\"IMU<br/>pi3hat\"/]".to_owned()),
            Some(ImuLink::Udp) => line("host --- imu[/\"IMU<br/>udp\"/]".to_owned()),
            Some(ImuLink::Emulated) => line("host --- imu[/\"IMU<br/>emulated\"/]".to_owned()),
            None => {}
        }
        text
    }
}

/// Mermaid reads `#` and `"` in a label as entities and ends.
fn escape(text: &str) -> String {
    text.replace('#', "#35;").replace('"', "#quot;")
}
