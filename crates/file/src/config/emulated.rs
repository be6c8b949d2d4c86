//! The emulated devices a robot file describes.

use super::{ImuConfig, ImuLink, MujocoConfig, RobotBody, RobotConfig, ServoConfig};
use crate::draft::shape_in;
use khz_emu::twin::STEP_NS;
use khz_emu::{Body, ConfigError, Quadruped, QuadrupedConfig, World, WorldConfig};
use khz_mujoco::{Binding, Mujoco};
use std::path::PathBuf;

/// The share of the time that a simulated body may take of a loop in real time.
const MOST_COST: f64 = 0.6;

/// What simulates a robot's body.
pub struct Simulation {
    /// The simulator and the model, in a line.
    pub text: String,
    /// Why pages do not draw the robot, if they do not though its shape is known.
    pub not_drawn: Option<String>,
}

impl RobotConfig {
    /// The emulated machine: one channel per bus in the order of the file, every servo in that order, the IMU.
    ///
    /// Buses with another kind of link get the emulated counterpart of their wire, so that `khz emulate` can
    /// serve a robot file written for real hardware.
    pub fn world(&self) -> WorldConfig {
        WorldConfig {
            buses: self.buses.iter().map(|bus| bus.link.bus().emulated()).collect(),
            servos: self.servos.iter().map(|servo| self.emulated_servo(servo)).collect(),
            imu: self.imu.as_ref().map(|imu| self.emulated_imu(imu)),
            seed: self.emulation.seed,
        }
    }

    /// Builds the emulated machine, with its body if the file describes one.
    ///
    /// # Errors
    /// Its body cannot be simulated here: MuJoCo is not installed, or its model does not fit the servos. Nothing else that a
    /// robot file can contain is refused; see [`ConfigError`].
    pub fn emulate(&self) -> Result<World, ConfigError> {
        let config = self.world();
        let body: Box<dyn Body> = match &self.body {
            None => return World::new(&config),
            Some(RobotBody::Quadruped(body)) => {
                let joints = config.servos.iter().map(|servo| servo.joint).collect();
                Box::new(Quadruped::new(QuadrupedConfig { body: body.clone(), joints }))
            }
            Some(RobotBody::Mujoco(body)) => {
                let plan = self.mujoco_binding(body);
                Box::new(Mujoco::new(&plan).map_err(|error| ConfigError::Body(error.to_string()))?)
            }
        };
        World::with_body(&config, body)
    }

    /// Whether the body can be simulated as fast as it moves, on this computer as busy as it is.
    ///
    /// # Errors
    /// MuJoCo takes too long, or cannot simulate it at all.
    pub fn check_real_time(&self) -> Result<(), String> {
        let Some(body) = self.body.as_ref().and_then(RobotBody::mujoco).filter(|_| self.is_emulated()) else {
            return Ok(());
        };
        let mut simulated = Mujoco::new(&self.mujoco_binding(body)).map_err(|error| error.to_string())?;
        let cost = simulated.cost();
        if cost <= MOST_COST {
            return Ok(());
        }
        Err(format!(
            "{} takes {cost:.2} s of this computer's time for a second of its own, and the loop needs some, too: run it in \
             virtual time (--virtual, or clock = \"virtual\" in [loop]), or make the model simpler",
            body.model
        ))
    }

    /// The simulator of the body and its model; `None` if nothing has to be installed for it.
    ///
    /// # Errors
    /// It cannot be simulated on this computer, or the model does not fit the servos.
    pub fn simulation(&self) -> Option<Result<Simulation, String>> {
        let body = self.body.as_ref().and_then(RobotBody::mujoco).filter(|_| self.is_emulated())?;
        let simulated = Mujoco::new(&self.mujoco_binding(body));
        Some(simulated.map_err(|error| error.to_string()).map(|simulated| {
            let (version, mass) = (simulated.version(), simulated.mass());
            let not_drawn = simulated.saved().ok().and_then(|model| shape_in(&model, self).err());
            Simulation { text: format!("MuJoCo {version}, {}, {mass:.3} kg", body.model), not_drawn }
        }))
    }

    /// What MuJoCo simulates of the robot.
    pub fn mujoco_binding(&self, body: &MujocoConfig) -> Binding {
        Binding {
            model: PathBuf::from(&body.model),
            joints: self.servos.iter().map(|servo| servo.joint_in_model().to_owned()).collect(),
            gears: self.servos.iter().map(|servo| servo.joint).collect(),
            keyframe: body.keyframe.clone(),
            imu: self.imu.as_ref().map(|_| body.imu_site.clone()),
            trunk_touch: body.trunk_touch.clone(),
            payload_kg: body.payload,
            friction: body.friction,
            step_s: STEP_NS as f64 * 1e-9,
        }
    }

    fn emulated_servo(&self, servo: &ServoConfig) -> khz_emu::ServoConfig {
        servo.device.configure(khz_emu::ServoConfig {
            mounting: servo.mounting(),
            joint: servo.joint,
            motor_constant: servo.device.motor_constant,
            supply_v: self.emulation.supply_v,
            ambient_c: self.emulation.ambient_c,
            thermal: servo.heat,
            heat_rate: self.emulation.heat_rate,
            family: servo.twin(),
            ..khz_emu::ServoConfig::new(servo.bus, servo.id)
        })
    }

    fn emulated_imu(&self, imu: &ImuConfig) -> khz_emu::ImuConfig {
        let emulated = self.emulation.imu();
        match imu.link {
            // A device behind Ethernet reads its IMU all the time and sends the newest reading.
            ImuLink::Udp => khz_emu::ImuConfig { latency_ns: 0, ..emulated },
            _ => emulated,
        }
    }
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
        let robot = RobotConfig::parse(MIRRORED, "mirrored.toml").unwrap();
        assert_eq!(robot.world().buses[0].turnaround_ns, 50_000);
        let mut world = robot.emulate().unwrap();
        // The body is in angles of the joint, the servo in its own. Gravity pulls the joint towards 0.5 rad; it stops at 0.25.
        assert_eq!((world.body().joints()[0].position, world.servos()[0].position()), (-0.5, 1.0));
        world.advance(0);
        world.advance(3_000_000_000);
        assert_eq!(world.body().joints()[0].position, 0.25);
        assert!((world.servos()[0].position() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn every_shipped_robot_can_be_emulated() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for file in paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let robot = RobotConfig::load(file).unwrap();
            match robot.emulate() {
                // Not every computer has MuJoCo; tests/mujoco has it.
                Err(ConfigError::Body(why)) if why.contains("MuJoCo is not installed") => {}
                Err(error) => panic!("{}: {error}", robot.name),
                Ok(_) => {}
            }
        }
    }
}
