//! A robot file from a MuJoCo model: the hinges that its actuators move, with their gains and limits.
//!
//! Read is what MuJoCo writes of a model it has loaded: one file, in radians, each actuator a `general`; what an element leaves
//! out is in the default of its class. As of a URDF, buses and ids are made up.

use super::{CAREFUL, Draft, MOST, Servo, left_out_lines, printable, unused};
use khz_mujoco::{MujocoError, saved};
use roxmltree::{Document, Node};
use std::collections::BTreeSet;
use std::path::Path;

/// Why a model cannot become a robot file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// MuJoCo is not there, or does not take it.
    #[error(transparent)]
    Mujoco(#[from] MujocoError),
    /// There is nothing to make servos of.
    #[error("{0}")]
    Unfit(String),
}

/// What the actuators of a joint do together.
struct Drive<'a> {
    joint: &'a str,
    range: Option<[f64; 2]>,
    /// N·m/rad and N·m·s/rad at the joint; 0 without a control loop of its own.
    gains: [f64; 2],
    torque: Option<f64>,
    /// rad/s, of an actuator that is commanded a velocity.
    velocity: Option<f64>,
    /// What the joint itself opposes: N·m·s/rad, and N·m.
    damping: f64,
    friction: f64,
}

/// How its targets move that will drive the robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Under a limit of velocity.
    Limited,
    /// They jump, as those of a trained policy: what the model does not limit is not limited. Led to its target over several ticks, a joint would
    /// answer each decision later than in training.
    Jump,
}

/// The robot file for the model at `path`, which it calls `model`.
///
/// # Errors
/// MuJoCo cannot load it, or none of its actuators moves a hinge.
pub fn of_model(path: &Path, model: &str, targets: Targets) -> Result<String, ModelError> {
    of_saved(&saved(path)?, model, targets).map_err(ModelError::Unfit)
}

/// The robot file for a model as MuJoCo writes it.
fn of_saved(text: &str, model: &str, targets: Targets) -> Result<String, String> {
    let document = Document::parse(text).map_err(|error| format!("MuJoCo wrote it as no XML: {error}"))?;
    let root = document.root_element();
    let (mut drives, mut left_out): (Vec<Drive<'_>>, _) = (Vec::new(), Vec::new());
    for actuator in all(root, "actuator").flat_map(|list| list.children().filter(Node::is_element)) {
        match drive(root, actuator) {
            Ok(more) => match drives.iter_mut().find(|known| known.joint == more.joint) {
                Some(known) => known.add(&more),
                None => drives.push(more),
            },
            Err(why) => left_out.push(why),
        }
    }
    if drives.is_empty() {
        let why = left_out.first().map_or_else(String::new, |why| format!(" ({})", printable(why)));
        return Err(format!("none of its actuators moves a hinge that has a name{why}"));
    }
    if drives.len() > MOST {
        return Err(format!("{} joints, and ids go up to {MOST}", drives.len()));
    }
    Ok(draft(root, model, &drives, &left_out, targets).to_string())
}

impl Drive<'_> {
    /// A further actuator of the joint, such as a `velocity` beside a `position`.
    fn add(&mut self, more: &Self) {
        self.gains = [self.gains[0] + more.gains[0], self.gains[1] + more.gains[1]];
        self.torque = match (self.torque, more.torque) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        self.range = self.range.or(more.range);
        self.velocity = self.velocity.or(more.velocity);
    }

    /// As fast as an actuator may be commanded, or as its largest torque drives the joint against its damping: with the reason. The latter
    /// limits joints, and no target that jumps.
    fn velocity(&self, targets: Targets) -> Option<(f64, &'static str)> {
        if let Some(velocity) = self.velocity {
            return Some((velocity, "what its actuator may be commanded"));
        }
        if targets == Targets::Jump {
            return None;
        }
        let torque = self.torque.filter(|torque| self.damping > 0.0 && *torque > self.friction)?;
        let velocity = (torque - self.friction) / self.damping;
        let why = "where its damping takes all of its torque; a servo's data sheet may say less";
        // Beyond that the damping is too small to describe a servo.
        (velocity <= FASTEST).then_some((velocity, why))
    }
}

/// No joint of a legged robot or an arm turns faster, rad/s.
const FASTEST: f64 = 60.0;

/// What an actuator does to its joint, or why a servo cannot.
fn drive<'a>(root: Node<'a, '_>, actuator: Node<'a, '_>) -> Result<Drive<'a>, String> {
    let name = attribute(actuator, "name").or_else(|| attribute(actuator, "joint")).unwrap_or("an actuator");
    let name = attribute(actuator, "joint").ok_or_else(|| format!("{name} (moves no joint)"))?;
    let is_named = |joint: &Node<'_, '_>| joint.attribute("name") == Some(name);
    let joint = all(root, "worldbody").flat_map(|world| all(world, "joint")).find(is_named);
    let joint = joint.ok_or_else(|| format!("{name} (not found)"))?;
    if let Some(kind) = attribute(joint, "type").filter(|kind| *kind != "hinge") {
        return Err(format!("{name} ({kind})"));
    }
    let [gear, gain, kp, kd] = [("gear", 0), ("gainprm", 0), ("biasprm", 1), ("biasprm", 2)]
        .map(|(key, place)| attribute(actuator, key).and_then(|text| numbers(text).get(place).copied()));
    let (gear, gain) = (gear.unwrap_or(1.0), gain.unwrap_or(1.0));
    let is_loop = attribute(actuator, "biastype") == Some("affine");
    // The force is kp·(u − gear·q), and the torque gear times that.
    let gains = [kp, kd].map(|bias| if is_loop { -bias.unwrap_or(0.0) * gear * gear } else { 0.0 });
    let control = range(actuator, "ctrlrange", "ctrllimited");
    let largest = |[low, high]: [f64; 2], scale: f64| low.abs().max(high.abs()) * scale.abs();
    let torque = range(actuator, "forcerange", "forcelimited").map(|range| largest(range, gear));
    let torque = torque.or_else(|| control.filter(|_| !is_loop).map(|range| largest(range, gear * gain)));
    let torque = torque
        .or_else(|| range(joint, "actuatorfrcrange", "actuatorfrclimited").map(|range| largest(range, 1.0)));
    let commanded = control.filter(|_| gains[0] > 0.0 && gear > 0.0).map(|range| range.map(|end| end / gear));
    let is_velocity = is_loop && gains[0] == 0.0 && gains[1] > 0.0 && gear != 0.0;
    let velocity = control.filter(|_| is_velocity).map(|range| largest(range, 1.0 / gear));
    let range = range(joint, "range", "limited").or(commanded);
    let [damping, friction] = ["damping", "frictionloss"]
        .map(|key| attribute(joint, key).and_then(|text| numbers(text).first().copied()).unwrap_or(0.0));
    Ok(Drive { joint: name, range, gains, torque, velocity, damping, friction })
}

fn draft(
    root: Node<'_, '_>,
    model: &str,
    drives: &[Drive<'_>],
    left_out: &[String],
    targets: Targets,
) -> Draft {
    let name = root.attribute("model").unwrap_or("robot");
    let mut about = vec![
        format!("The joints that actuators of the MuJoCo model of `{}` move, emulated.", printable(name)),
        String::new(),
        "The servos take their place: gains and limits are theirs. A model says nothing of servos and buses: put the real `link`,".to_owned(),
        "`bus` and `id` of each servo here, its direction (`sign`) and the joint's angle at its zero (`offset`). Every key:".to_owned(),
        "docs/configuration.md.".to_owned(),
    ];
    about.extend(left_out_lines(left_out));
    let mut names = BTreeSet::new();
    let one = |(index, drive)| servo(index, drive, targets, &mut names);
    let servos = drives.iter().enumerate().map(one).collect();
    let mut more = body(root, model);
    if targets == Targets::Jump && drives.iter().any(|drive| drive.range.is_some()) {
        more.push(GIVES_WAY.to_owned());
    }
    Draft::emulated(about, name, servos, more)
}

/// The limit of a joint's velocity as a robot file has it, and the remark about it.
fn velocity(drive: &Drive<'_>, targets: Targets) -> (Option<f64>, String) {
    match (drive.velocity(targets), targets) {
        // In hundredths: more digits mean nothing.
        (Some((velocity, why)), _) => {
            (Some((velocity * 100.0).round().max(1.0) / 100.0), format!("Its velocity: {why}."))
        }
        (None, Targets::Limited) => {
            let careful = CAREFUL[0];
            let why = format!(
                "The model does not limit its velocity: {careful:?} rad/s is only a careful beginning."
            );
            (Some(careful), why)
        }
        (None, Targets::Jump) => {
            let why = "Its velocity is not limited: a policy's targets jump. Before a servo moves: `velocity` of its data sheet.";
            (None, why.to_owned())
        }
    }
}

fn servo(index: usize, drive: &Drive<'_>, targets: Targets, names: &mut BTreeSet<String>) -> Servo {
    let name = unused(drive.joint, names);
    let (velocity, why) = velocity(drive, targets);
    let mut about = vec![why];
    let torque = drive.torque.map(|torque| torque.clamp(0.001, 1000.0)).unwrap_or_else(|| {
        about.push(format!(
            "The model does not limit its torque: {:?} N·m is only a careful beginning.",
            CAREFUL[1]
        ));
        CAREFUL[1]
    });
    let position =
        drive.range.map_or_else(String::new, |[low, high]| format!("position = [{low:?}, {high:?}], "));
    let velocity = velocity.map_or_else(String::new, |velocity| format!("velocity = {velocity:?}, "));
    let mut lines = vec![format!("limits = {{ {position}{velocity}torque = {torque:?} }}")];
    let [kp, kd] = drive.gains;
    if kp > 0.0 || kd > 0.0 {
        lines.push(format!("device = {{ kp = {:?}, kd = {:?} }}", kp.max(0.0), kd.max(0.0)));
    } else {
        about.push("Its actuator has no gains: those of the servo are its defaults.".to_owned());
    }
    if name != drive.joint {
        lines.push(format!("model_joint = {:?}", drive.joint));
    }
    Servo::emulated(about, name, index, lines)
}

/// A policy may lean on the stops of its model, and has learned so.
const GIVES_WAY: &str = "
# Limits of position are the model's stops, which give way a little under a joint that is driven against them.
[supervisor]
position_tolerance = 0.2";

/// The tables of body and IMU.
fn body(root: Node<'_, '_>, model: &str) -> Vec<String> {
    let mut lines = vec![
        "# The servos move the joints of this model.".to_owned(),
        format!("[body]\nkind = \"mujoco\"\nmodel = {model:?}"),
    ];
    let keys =
        all(root, "keyframe").flat_map(|list| all(list, "key")).filter_map(|key| key.attribute("name"));
    lines.extend(keys.take(1).map(|key| format!("keyframe = {key:?}")));
    let is_floating = all(root, "worldbody").flat_map(|world| world.descendants()).any(|joint| {
        joint.has_tag_name("freejoint")
            || joint.has_tag_name("joint") && joint.attribute("type") == Some("free")
    });
    if let Some(site) = imu(root).filter(|_| is_floating) {
        lines.push(format!("imu_site = {site:?}\n\n[imu]\nlink = \"emulated\""));
    }
    lines
}

/// The site that is called so, or at which the model measures what an IMU does.
fn imu<'a>(root: Node<'a, '_>) -> Option<&'a str> {
    let mut sites = all(root, "worldbody").flat_map(|world| all(world, "site"));
    let named = sites.find_map(|site| site.attribute("name").filter(|name| *name == "imu"));
    let measures =
        |sensor: &Node<'_, '_>| ["gyro", "accelerometer"].iter().any(|kind| sensor.has_tag_name(*kind));
    let sensors = all(root, "sensor").flat_map(|list| list.children());
    named.or_else(|| sensors.filter(measures).find_map(|sensor| sensor.attribute("site")))
}

/// All elements of this name within another.
pub(super) fn all<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.descendants().filter(move |within| within.has_tag_name(name))
}

/// An element's own, or that of its class, of what its class derives from, and so on.
pub(super) fn attribute<'a>(node: Node<'a, '_>, key: &str) -> Option<&'a str> {
    let inherited = || {
        let class = node.attribute("class");
        let class = class.or_else(|| node.ancestors().find_map(|body| body.attribute("childclass")));
        let mut defaults = all(node.document().root_element(), "default");
        let default = match class {
            Some(class) => defaults.find(|default| default.attribute("class") == Some(class)),
            None => defaults.next(),
        };
        let chain = default.into_iter().flat_map(|default| default.ancestors());
        let of_kind = |default: Node<'a, '_>| {
            let mut children = default.children().filter(|child| child.tag_name() == node.tag_name());
            children.find_map(|child| child.attribute(key))
        };
        chain.filter(|ancestor| ancestor.has_tag_name("default")).find_map(of_kind)
    };
    node.attribute(key).or_else(inherited)
}

/// A range, unless it is declared inactive.
fn range(node: Node<'_, '_>, key: &str, limited: &str) -> Option<[f64; 2]> {
    let counts = attribute(node, limited) != Some("false");
    let ends = attribute(node, key).filter(|_| counts).map(numbers)?;
    <[f64; 2]>::try_from(ends).ok().filter(|[low, high]| low < high)
}

pub(super) fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .filter(|number: &f64| number.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RobotConfig;
    use crate::config::RobotBody;

    /// As MuJoCo 3.17.0 wrote it.
    const DOG: &str = r#"<mujoco model="dog two">
  <compiler angle="radian"/>
  <default>
    <default class="leg">
      <joint range="-60 60" axis="0 1 0"/>
      <general ctrlrange="-1 1" forcerange="-20 20" biastype="affine" gainprm="35" biasprm="0 -35 -0.5"/>
      <default class="knee"><joint range="-150 -20"/><general forcerange="-30 30"/></default>
    </default>
  </default>
  <worldbody>
    <body name="trunk">
      <joint type="free"/>
      <site name="middle"/>
      <body childclass="leg">
        <joint name="FL hip" range="-1.05 1.05"/>
        <body><joint name="FL_knee" class="knee" range="-2.61799 -0.349066"/></body>
      </body>
      <body><joint name="wheel" axis="0 1 0"/></body>
      <body><joint name="passive" axis="0 1 0"/></body>
      <body><joint name="slider" type="slide"/></body>
    </body>
  </worldbody>
  <actuator>
    <general name="fl_hip" class="leg" joint="FL hip"/>
    <general class="knee" joint="FL_knee" gear="2"/>
    <general joint="wheel" ctrlrange="-3 3" gear="2"/>
    <general joint="slider" biastype="affine" gainprm="3" biasprm="0 0 -3"/>
    <general name="claw" tendon="t"/>
  </actuator>
  <sensor><gyro site="middle"/></sensor>
  <keyframe><key name="home" qpos="0 0 0.4 1 0 0 0 0.1 -0.5 0 0 0"/></keyframe>
</mujoco>"#;

    #[test]
    fn servos_have_gains_and_limits_of_the_actuators_they_replace() {
        let text = of_saved(DOG, "dog.xml", Targets::Limited).unwrap();
        let robot = RobotConfig::parse(&text, "dog.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(robot.warnings.is_empty() && robot.name == "dog_two", "{:?}\n{text}", robot.warnings);
        let [hip, knee, wheel] = &robot.servos[..] else { panic!("{text}") };
        assert_eq!((hip.name.as_str(), hip.joint_in_model()), ("FL_hip", "FL hip"));
        assert_eq!((hip.limits.position, hip.limits.torque), (Some([-1.05, 1.05]), Some(20.0)));
        assert_eq!((hip.device.kp, hip.device.kd), (35.0, 0.5));
        // A gear of 2 doubles the torque and quadruples the gains.
        assert_eq!((knee.limits.position, knee.limits.torque), (Some([-2.61799, -0.349066]), Some(60.0)));
        assert_eq!((knee.device.kp, knee.device.kd), (140.0, 2.0));
        assert_eq!((wheel.limits.position, wheel.limits.torque), (None, Some(6.0)));
        assert!(
            text.contains("# Left out: slider (slide).")
                && text.contains("# Left out: claw (moves no joint).")
        );
        let body = robot.body.as_ref().and_then(RobotBody::mujoco).unwrap();
        assert_eq!((body.keyframe.as_deref(), body.imu_site.as_str()), (Some("home"), "middle"));
        assert!(robot.imu.is_some());
    }

    /// It was 1 rad/s whatever the model.
    #[test]
    fn velocities_are_those_the_model_implies() {
        let limits = |from: &str, to: &str| {
            let text = of_saved(&DOG.replace(from, to), "dog.xml", Targets::Limited).unwrap();
            let robot =
                RobotConfig::parse(&text, "dog.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
            robot.servos.iter().map(|servo| servo.limits.velocity).collect::<Vec<_>>()
        };
        let careful = Some(CAREFUL[0]);
        assert_eq!(limits("", ""), [careful; 3]);
        // 20 N·m and 60 N·m, less the friction, against the damping of the class.
        let damped =
            limits("axis=\"0 1 0\"/>\n      <general", "damping=\"2\" frictionloss=\"1\"/>\n      <general");
        assert_eq!(damped, [Some(9.5), Some(29.5), careful]);
        // Too little to describe a servo.
        assert_eq!(
            limits("axis=\"0 1 0\"/>\n      <general", "damping=\"0.01\"/>\n      <general"),
            [careful; 3]
        );
        let wheel = "<general joint=\"wheel\" biastype=\"affine\" gainprm=\"4\" biasprm=\"0 0 -4\" ctrlrange=\"-30 30\"";
        let commanded = limits("<general joint=\"wheel\" ctrlrange=\"-3 3\"", wheel);
        assert_eq!(commanded, [careful, careful, Some(15.0)]);
    }

    /// At 1 rad/s, and at what damping allows, nearly every decision of public policies was cut, and none of them walked.
    #[test]
    fn for_targets_that_jump_only_what_an_actuator_may_be_commanded_is_a_limit_of_velocity() {
        let damped = DOG.replace(
            "axis=\"0 1 0\"/>\n      <general",
            "damping=\"2\" frictionloss=\"1\"/>\n      <general",
        );
        let wheel = "<general joint=\"wheel\" biastype=\"affine\" gainprm=\"4\" biasprm=\"0 0 -4\" ctrlrange=\"-30 30\"";
        let model = damped.replace("<general joint=\"wheel\" ctrlrange=\"-3 3\"", wheel);
        let text = of_saved(&model, "dog.xml", Targets::Jump).unwrap();
        let robot = RobotConfig::parse(&text, "dog.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let limits: Vec<_> = robot.servos.iter().map(|servo| servo.limits.velocity).collect();
        assert_eq!(limits, [None, None, Some(15.0)]);
        // A public biped was brought down by an ankle 0.05 rad beyond its stop.
        assert_eq!(robot.supervisor.position_tolerance, 0.2);
        assert_eq!(text.matches("`velocity` of its data sheet").count(), 2, "{text}");
    }

    #[test]
    fn a_velocity_beside_a_position_actuator_is_its_damping() {
        let more = r#"<general joint="FL hip" biastype="affine" gainprm="2" biasprm="0 0 -2"/></actuator>"#;
        let text = of_saved(&DOG.replace("</actuator>", more), "dog.xml", Targets::Limited).unwrap();
        assert!(text.contains("device = { kp = 35.0, kd = 2.5 }"), "{text}");
    }

    #[test]
    fn a_model_of_which_nothing_can_be_made_says_why() {
        let passive = DOG.replace("joint=\"", "tendon=\"");
        let why = of_saved(&passive, "dog.xml", Targets::Limited).unwrap_err();
        assert!(
            why.contains("none of its actuators moves a hinge") && why.contains("moves no joint"),
            "{why}"
        );
    }
}
