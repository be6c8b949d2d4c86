//! The emulated devices a robot file describes.

use super::{BodyConfig, ImuLink, LinkConfig, RobotConfig, ServoConfig, WireModel, nanoseconds};
use khz_emu::{
    BusConfig, ConfigError, ImuConfig, JointConfig, Quadruped, QuadrupedConfig, WireKind, World, WorldConfig,
};
use std::f64::consts::TAU;

impl RobotConfig {
    /// The emulated machine: one channel per bus in the order of the file, every servo in that order, the IMU.
    ///
    /// Buses with another kind of link get the emulated counterpart of their wire, so that `khz emulate` can
    /// serve a robot file written for real hardware.
    pub fn world(&self) -> WorldConfig {
        WorldConfig {
            buses: self.buses.iter().map(|bus| emulated_bus(&bus.link)).collect(),
            servos: self.servos.iter().map(|servo| self.emulated_servo(servo)).collect(),
            imu: self.imu.as_ref().map(|_| self.emulated_imu()),
            seed: self.emulation.seed,
        }
    }

    /// Builds the emulated machine, with its body if the file describes one.
    ///
    /// # Errors
    /// Nothing a robot file can say is refused; see [`ConfigError`].
    pub fn emulate(&self) -> Result<World, ConfigError> {
        let config = self.world();
        match &self.body {
            None => World::new(&config),
            Some(body) => {
                World::with_body(&config, Box::new(Quadruped::new(self.emulated_body(body, &config))))
            }
        }
    }

    fn emulated_body(&self, body: &BodyConfig, world: &WorldConfig) -> QuadrupedConfig {
        QuadrupedConfig {
            body: body.clone(),
            joints: world.servos.iter().map(|servo| servo.joint).collect(),
            mounting: self.servos.iter().map(|servo| (f64::from(servo.sign), servo.offset)).collect(),
        }
    }

    fn emulated_servo(&self, servo: &ServoConfig) -> khz_emu::ServoConfig {
        let per_turn = |per_rad: f64| per_rad * TAU;
        let device = &servo.device;
        let base = khz_emu::ServoConfig::new(servo.bus, servo.id);
        khz_emu::ServoConfig {
            joint: emulated_joint(servo),
            supply_v: self.emulation.supply_v,
            ambient_c: self.emulation.ambient_c,
            thermal: servo.heat,
            heat_rate: self.emulation.heat_rate,
            ..base
        }
        .with("servo.pid_position.kp", per_turn(device.kp))
        .with("servo.pid_position.ki", 0)
        .with("servo.pid_position.kd", per_turn(device.kd))
        // Commands come every tick; a trajectory of the servo's own would lag behind them.
        .with("servo.default_accel_limit", "nan")
        .with("servo.fault_temperature", device.fault_temperature)
        .with("servo.temperature_margin", device.temperature_margin)
    }

    fn emulated_imu(&self) -> ImuConfig {
        let emulation = &self.emulation;
        // A device behind Ethernet reads its IMU all the time and sends the newest reading.
        let is_asked = self.imu.as_ref().is_none_or(|imu| imu.link != ImuLink::Udp);
        ImuConfig {
            latency_ns: if is_asked { nanoseconds(emulation.imu_latency_us) } else { 0 },
            rate_noise: emulation.imu_rate_noise,
            acceleration_noise: emulation.imu_acceleration_noise,
            attitude_noise: emulation.imu_attitude_noise,
        }
    }
}

fn emulated_bus(link: &LinkConfig) -> BusConfig {
    match link {
        LinkConfig::Emulated(link) => {
            let wire = match link.wire {
                WireModel::CanFd => {
                    WireKind::CanFd { nominal_bps: link.nominal_bit_rate, data_bps: link.data_bit_rate }
                }
                WireModel::Rs485 => WireKind::Rs485 { baud: link.baud },
                WireModel::Instant => WireKind::Instant,
            };
            BusConfig { wire, turnaround_ns: nanoseconds(link.turnaround_us), ..BusConfig::CAN_FD }
        }
        LinkConfig::Rs485(link) => {
            BusConfig { wire: WireKind::Rs485 { baud: link.baud }, ..BusConfig::RS485 }
        }
        LinkConfig::Pi3hat(link) => BusConfig {
            wire: WireKind::CanFd { nominal_bps: link.nominal_bit_rate, data_bps: link.data_bit_rate },
            ..BusConfig::CAN_FD
        },
        LinkConfig::Socketcan(_) | LinkConfig::Fdcanusb(_) => BusConfig::CAN_FD,
        // Each device has an Ethernet port of its own: there is no bus they share.
        LinkConfig::Udp(_) => {
            BusConfig { turnaround_ns: BusConfig::CAN_FD.turnaround_ns, ..BusConfig::INSTANT }
        }
    }
}

/// The joint as its servo sees it: the file gives angles of the joint, the emulator turns the servo.
fn emulated_joint(servo: &ServoConfig) -> JointConfig {
    let joint = &servo.joint;
    let sign = f64::from(servo.sign);
    let of_servo = |angle: f64| sign * (angle - servo.offset);
    let stops = joint.stops.map(|stops| {
        let [a, b] = stops.map(of_servo);
        [a.min(b), a.max(b)]
    });
    JointConfig { gravity_at: of_servo(joint.gravity_at), stops, start: of_servo(joint.start), ..*joint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIRRORED: &str = r#"
        [bus.main]
        link = "emulated"
        turnaround_us = 50
        [[servo]]
        name = "knee"
        bus = "main"
        id = 4
        sign = -1
        offset = 0.5
        joint = { stops = [-1.0, 0.25], start = -0.5, gravity = 1.0, gravity_at = 0.5 }
    "#;

    #[test]
    fn a_mirrored_joint_is_mirrored_in_the_emulator() {
        let world = RobotConfig::parse(MIRRORED, "mirrored.toml").unwrap().world();
        assert_eq!(world.buses[0].turnaround_ns, 50_000);
        let joint = world.servos[0].joint;
        assert_eq!(joint.stops, Some([0.25, 1.5]));
        assert_eq!((joint.start, joint.gravity_at), (1.0, 0.0));
    }

    #[test]
    fn every_shipped_robot_can_be_emulated() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for file in paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let robot = RobotConfig::load(file).unwrap();
            if let Err(error) = robot.emulate() {
                panic!("{}: {error}", robot.name);
            }
        }
    }
}
