//! A MuJoCo model to begin with: the emulated joints of a robot file as MJCF.
//!
//! A quadruped becomes the machine that this program emulates, with masses for its legs. Of any other robot only the joints
//! are known, so each becomes an arm of its own beside the others: same inertia, friction, stops and gravity.

use crate::config::{RobotBody, RobotConfig, ServoConfig};
use khz_emu::{BodyConfig, JointConfig};
use std::fmt::Write;

const GRAVITY: f64 = 9.81;
/// The control loops of emulated servos and MuJoCo meet at this step, s.
const STEP_S: f64 = khz_emu::twin::STEP_NS as f64 * 1e-9;
/// Share of a quadruped's mass that is in a leg, and of that in hip, thigh and shin. An estimate: robot files do not have it.
const LEG: f64 = 0.05;
const PARTS: [f64; 3] = [0.4, 0.4, 0.2];
/// Radius of feet and knees, m.
const TIP: f64 = 0.015;
/// The longest arm of a joint with gravity, m.
const ARM: f64 = 0.2;
/// The least a body must have for MuJoCo to take it, kg and kg·m².
const LEAST_MASS: f64 = 1e-3;
const LEAST_INERTIA: f64 = 1e-7;

/// The model; its joints are called as the servos, or as their `model_joint`. MuJoCo loads it, and `[body]` with `kind = "mujoco"` takes it.
pub fn mjcf(config: &RobotConfig) -> String {
    match &config.body {
        Some(RobotBody::Quadruped(body)) => quadruped(config, body),
        Some(RobotBody::Mujoco(_)) | None => joints(config),
    }
}

fn head(config: &RobotConfig, about: &str) -> String {
    // Two dashes would end the comment.
    let name = config.name.replace(['<', '>', '&', '"'], "_").replace("--", "__");
    format!(
        "<!-- {name}, of its robot file by `khz new`.\n\n     {about} -->\n<mujoco model=\"{name}\">\n  \
         <compiler angle=\"radian\" autolimits=\"true\"/>\n  <option timestep=\"{STEP_S}\"/>\n\n"
    )
}

/// Each joint by itself.
fn joints(config: &RobotConfig) -> String {
    let mut text = head(
        config,
        "Each joint turns an arm of its own: inertia, friction, stops and gravity are those of `joint` in the robot file.\n     \
         Put the bodies together as your robot is built, and replace their masses.",
    );
    text.push_str("  <worldbody>\n    <light pos=\"0 0 3\" dir=\"0 0 -1\"/>\n");
    for (number, servo) in config.servos.iter().enumerate() {
        arm(&mut text, servo, number as f64 * 0.3);
    }
    text.push_str("  </worldbody>\n\n");
    keyframe(&mut text, config, "");
    text + "</mujoco>\n"
}

/// A point mass on an arm, as heavy as gravity pulls at the joint; the rest of the inertia is the motor's.
fn arm(text: &mut String, servo: &ServoConfig, y: f64) {
    let joint = &servo.joint;
    let length = ARM.min(0.5 * joint.inertia * GRAVITY / joint.gravity.max(1e-9));
    let mass = (joint.gravity / (GRAVITY * length)).max(LEAST_MASS);
    let (sin, cos) = joint.gravity_at.sin_cos();
    // Straight down when the joint is at `gravity_at`.
    let at = if joint.gravity > 0.0 { [length * sin, -length * cos] } else { [0.0; 2] };
    let armature = (joint.inertia - mass * (at[0] * at[0] + at[1] * at[1]) - LEAST_INERTIA).max(0.0);
    let name = servo.joint_in_model();
    let _ = write!(
        text,
        "    <body name=\"{name}_link\" pos=\"0 {y:.1} 1\">\n      <joint name=\"{name}\" axis=\"0 1 0\"{}/>\n      \
         <inertial pos=\"{} 0 {}\" mass=\"{}\" diaginertia=\"{LEAST_INERTIA} {LEAST_INERTIA} {LEAST_INERTIA}\"/>\n      \
         <geom type=\"capsule\" fromto=\"0 0 0 {} 0 {}\" size=\"0.01\" contype=\"0\" conaffinity=\"0\"/>\n    </body>\n",
        dynamics(joint, armature, servo.limits.position),
        round(at[0]),
        round(at[1]),
        round(mass),
        round(ARM * sin),
        round(-ARM * cos),
    );
}

/// Friction, the motor's inertia and the range of a joint: its stops, else its limits.
fn dynamics(joint: &JointConfig, armature: f64, limits: Option<[f64; 2]>) -> String {
    let range =
        joint.stops.or(limits).map(|[low, high]| format!(" range=\"{low} {high}\"")).unwrap_or_default();
    format!(
        " armature=\"{}\" damping=\"{}\" frictionloss=\"{}\"{range}",
        round(armature),
        joint.viscous,
        joint.coulomb
    )
}

fn quadruped(config: &RobotConfig, body: &BodyConfig) -> String {
    let mut text = head(
        config,
        "Sizes and the whole mass are those of `[body]`; that each leg has a twentieth of the mass, and how it is divided\n     \
         within the leg, is an estimate. Joint angles as in the robot file. Feet, knees and the trunk touch the ground.",
    );
    let mass = body.mass * (1.0 - 4.0 * LEG);
    let [length, width, height] = body.trunk;
    let moment = |a: f64, b: f64| round(mass / 12.0 * (a * a + b * b));
    let _ = write!(
        text,
        "  <default>\n    <geom contype=\"0\" conaffinity=\"1\" friction=\"{}\"/>\n    <default class=\"link\">\n      \
         <geom conaffinity=\"0\"/>\n    </default>\n    <default class=\"tip\">\n      \
         <geom type=\"sphere\" size=\"{TIP}\" mass=\"0\"/>\n    </default>\n  </default>\n\n  <worldbody>\n    \
         <light pos=\"0 0 3\" dir=\"0 0 -1\"/>\n    \
         <geom name=\"ground\" type=\"plane\" size=\"0 0 1\" contype=\"1\" conaffinity=\"0\"/>\n    \
         <body name=\"trunk\" pos=\"0 0 {}\">\n      <freejoint name=\"{}\"/>\n      \
         <inertial pos=\"0 0 0\" mass=\"{}\" diaginertia=\"{} {} {}\"/>\n      \
         <geom name=\"trunk\" type=\"box\" size=\"{} {} {}\"/>\n      <site name=\"imu\" size=\"0.01\"/>\n      \
         <site name=\"trunk\" type=\"box\" size=\"{} {} {}\" rgba=\"0 0 0 0\"/>\n",
        body.friction,
        height_at_start(config, body),
        free_joint(config),
        round(mass),
        moment(width, height),
        moment(length, height),
        moment(length, width),
        0.5 * length,
        0.5 * width,
        0.5 * height,
        round(0.5 * length + 0.005),
        round(0.5 * width + 0.005),
        round(0.5 * height + 0.005),
    );
    for (number, servos) in config.servos.chunks_exact(3).enumerate() {
        leg(&mut text, servos, body, number);
    }
    text.push_str("    </body>\n  </worldbody>\n\n  <sensor>\n    <touch name=\"trunk_touch\" site=\"trunk\"/>\n  </sensor>\n\n");
    let free = format!("0 0 {} 1 0 0 0 ", height_at_start(config, body));
    keyframe(&mut text, config, &free);
    text + "</mujoco>\n"
}

fn leg(text: &mut String, servos: &[ServoConfig], body: &BodyConfig, number: usize) {
    let [hip, thigh, knee] = servos else { return };
    let (front, left) =
        (if number < 2 { 1.0 } else { -1.0 }, if number.is_multiple_of(2) { 1.0 } else { -1.0 });
    let joint = |servo: &ServoConfig, axis: &str| {
        let dynamics = dynamics(&servo.joint, servo.joint.inertia, servo.limits.position);
        format!("<joint name=\"{}\" axis=\"{axis}\"{dynamics}/>", servo.joint_in_model())
    };
    let [hip_mass, thigh_mass, shin_mass] = PARTS.map(|part| round(part * LEG * body.mass));
    let _ = write!(
        text,
        "\n      <body name=\"{}_link\" pos=\"{} {} 0\">\n        {}\n        \
         <geom class=\"link\" type=\"sphere\" size=\"0.04\" mass=\"{hip_mass}\"/>\n        \
         <body name=\"{}_link\" pos=\"{} {} 0\">\n          {}\n          \
         <geom class=\"link\" type=\"capsule\" fromto=\"0 0 0 0 0 {}\" size=\"0.012\" mass=\"{thigh_mass}\"/>\n          \
         <body name=\"{}_link\" pos=\"0 0 {}\">\n            {}\n            <geom class=\"tip\"/>\n            \
         <geom class=\"link\" type=\"capsule\" fromto=\"0 0 0 0 0 {}\" size=\"0.01\" mass=\"{shin_mass}\"/>\n            \
         <geom class=\"tip\" pos=\"0 0 {}\"/>\n          </body>\n        </body>\n      </body>\n",
        hip.joint_in_model(),
        front * body.hip[0],
        left * body.hip[1],
        joint(hip, "1 0 0"),
        thigh.joint_in_model(),
        front * body.offset[0],
        left * body.offset[1],
        joint(thigh, "0 -1 0"),
        -body.thigh,
        knee.joint_in_model(),
        -body.thigh,
        joint(knee, "0 -1 0"),
        -body.shin,
        -body.shin,
    );
}

/// The trunk's free joint, by a name that none of the servos' joints has.
fn free_joint(config: &RobotConfig) -> String {
    let mut name = "trunk".to_owned();
    while config.servos.iter().any(|servo| servo.joint_in_model() == name) {
        name.push_str("_free");
    }
    name
}

/// Height of the trunk's middle when its lowest point touches the ground, m.
fn height_at_start(config: &RobotConfig, body: &BodyConfig) -> f64 {
    let mut lowest = -0.5 * body.trunk[2];
    for (number, servos) in config.servos.chunks_exact(3).enumerate() {
        let [hip, thigh, knee] = [0, 1, 2].map(|joint| servos[joint].joint.start);
        let left = if number.is_multiple_of(2) { 1.0 } else { -1.0 };
        let knee_z = -body.thigh * thigh.cos();
        for z in [knee_z, knee_z - body.shin * (thigh + knee).cos()] {
            let turned = left * body.offset[1] * hip.sin() + z * hip.cos();
            lowest = lowest.min(turned - TIP);
        }
    }
    round(-lowest)
}

/// Where the robot file has the joints start. `free`: place and attitude of the trunk.
fn keyframe(text: &mut String, config: &RobotConfig, free: &str) {
    let starts: Vec<String> = config.servos.iter().map(|servo| servo.joint.start.to_string()).collect();
    let _ = write!(
        text,
        "  <keyframe>\n    <key name=\"start\" qpos=\"{free}{}\"/>\n  </keyframe>\n",
        starts.join(" ")
    );
}

/// To six significant digits: more is not known.
fn round(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_servo_has_its_joint_and_gravity_its_arm() {
        let text = r#"
            [bus.main]
            link = "emulated"
            [[servo]]
            name = "shoulder"
            bus = "main"
            id = 1
            joint = { inertia = 0.02, gravity = 1.962, gravity_at = 0.5, stops = [-1.0, 2.0], start = 0.25 }
            [[servo]]
            name = "wrist"
            bus = "main"
            id = 2
            limits = { position = [-0.5, 0.5] }
        "#;
        let model = mjcf(&RobotConfig::parse(text, "arm.toml").unwrap());
        assert!(
            model.contains(r#"<joint name="shoulder" axis="0 1 0""#) && model.contains(r#"range="-1 2""#)
        );
        // 0.05 m: half of the inertia is the arm's, 1.962 N·m / 9.81 m/s² / 0.05 m = 4 kg.
        assert!(model.contains(r#"mass="4""#) && model.contains(r#"armature="0.0099999""#), "{model}");
        assert!(model.contains(r#"range="-0.5 0.5""#) && model.contains(r#"qpos="0.25 0""#));
    }

    #[test]
    fn no_servo_s_name_is_in_the_way_of_the_model_s_own() {
        let mut config = RobotConfig::quadruped();
        config.servos[0].settings.name = "trunk".to_owned();
        config.servos[1].settings.model_joint = Some("thigh".to_owned());
        let model = mjcf(&config);
        for one in [
            r#"<body name="trunk""#,
            r#"joint name="trunk""#,
            r#"<freejoint name="trunk_free"/>"#,
            r#"<joint name="thigh""#,
        ] {
            assert_eq!(model.matches(one).count(), 1, "{one}");
        }
        let world = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"world\"\nbus = \"main\"\nid = 1\n";
        assert!(
            mjcf(&RobotConfig::parse(world, "world.toml").unwrap()).contains(r#"<body name="world_link""#)
        );
    }

    #[test]
    fn a_quadruped_lies_on_its_lowest_point() {
        let config = RobotConfig::quadruped();
        let model = mjcf(&config);
        // Knees of the folded legs: 0.149 m · cos 1.4 + 15 mm, less than half of the trunk's height plus nothing.
        let lowest =
            (0.149 * f64::cos(1.4) + TIP).max(0.05).max(0.149 * f64::cos(1.4) + 0.15 * f64::cos(1.4) + TIP);
        assert!(model.contains(&format!(r#"<body name="trunk" pos="0 0 {}">"#, round(lowest))), "{model}");
        for servo in &config.servos {
            assert!(model.contains(&format!(r#"<joint name="{}""#, servo.name)));
        }
    }
}
