//! A robot file from a URDF: the joints that turn, their limits, and what their links weigh.
//!
//! A URDF does not define which servo drives a joint, or on which bus: the file has emulated buses of two servos each, and ids in the
//! order of the joints.

use super::{CAREFUL, Draft, MOST, Servo, left_out_lines, printable, unused};
use roxmltree::{Document, Node};
use std::collections::BTreeSet;

/// What a robot file takes for velocities and torques, rad/s and N·m.
const TAKEN: [f64; 2] = [0.001, 1000.0];
/// More than the servos of a robot reach, rad/s and N·m: what exporters write where no limit was set.
const PLAUSIBLE: [f64; 2] = [100.0, 500.0];
/// Negative moments of inertia up to this are what rounding leaves of 0, kg·m²: a sphere of steel of 5 mm has 2e-11 kg·m², and
/// exporters write sums that should be 0 as -5e-20, for example.
const ROUNDING: f64 = 1e-12;
/// What a robot file takes for positions, rad.
const WIDEST: f64 = 10_000.0;

/// Why a URDF cannot become a robot file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrdfError {
    /// It is no XML.
    #[error("not readable as XML: {0}")]
    Xml(String),
    /// Something in it is wrong.
    #[error("line {line}: {what}")]
    Wrong {
        /// Where, from 1.
        line: u32,
        /// What.
        what: String,
    },
}

/// A joint that turns.
struct Joint<'a> {
    name: &'a str,
    /// Free to turn if there is none.
    position: Option<[f64; 2]>,
    velocity: Option<f64>,
    effort: Option<f64>,
    mass: f64,
    /// Of the link behind it, about its axis.
    inertia: f64,
}

/// The robot file for the URDF with this text.
///
/// # Errors
/// It is no XML, no URDF, has no joint that turns, or something in it is wrong: what and in which line.
pub fn of_urdf(text: &str) -> Result<String, UrdfError> {
    let document = Document::parse(text).map_err(|error| UrdfError::Xml(error.to_string()))?;
    let robot = document.root_element();
    if robot.tag_name().name() != "robot" {
        return Err(wrong(
            robot,
            format!("`<{}>` where a URDF begins with `<robot>`", robot.tag_name().name()),
        ));
    }
    let (mut joints, mut left_out, mut named) = (Vec::new(), Vec::new(), BTreeSet::new());
    for node in children(robot, "joint") {
        let (name, kind) = (required(node, "name")?, required(node, "type")?);
        if !named.insert(name) {
            return Err(wrong(node, format!("a second joint is called `{}`", printable(name))));
        }
        match kind {
            "revolute" | "continuous" if child(node, "mimic").is_none() => {
                joints.push(joint(robot, node, name, kind)?)
            }
            "revolute" | "continuous" => left_out.push(format!("{name} (mimics another joint)")),
            "fixed" => {}
            other => left_out.push(format!("{name} ({other})")),
        }
    }
    if joints.is_empty() {
        return Err(wrong(robot, "no joint in it turns (type `revolute` or `continuous`)".to_owned()));
    }
    if joints.len() > MOST {
        return Err(wrong(robot, format!("{} joints, and ids go up to {MOST}", joints.len())));
    }
    Ok(draft(robot.attribute("name").unwrap_or("robot"), &joints, &left_out).to_string())
}

fn draft(name: &str, joints: &[Joint<'_>], left_out: &[String]) -> Draft {
    let mut about = vec![
        format!("The joints of the URDF of `{}`, emulated.", printable(name)),
        String::new(),
        "A URDF says nothing of servos and buses: put the real `link`, `bus` and `id` of each servo here, its direction".to_owned(),
        "(`sign`) and the joint's angle at its zero (`offset`). Every key: docs/configuration.md.".to_owned(),
    ];
    about.extend(left_out_lines(left_out));
    let mut names = BTreeSet::new();
    let servos = joints.iter().enumerate().map(|(index, joint)| servo(index, joint, &mut names)).collect();
    Draft::emulated(about, name, servos, Vec::new())
}

fn servo(index: usize, joint: &Joint<'_>, names: &mut BTreeSet<String>) -> Servo {
    let name = unused(joint.name, names);
    let mut about = Vec::new();
    if joint.mass > 0.0 {
        about.push(format!("The link behind it weighs {} kg.", joint.mass));
    }
    let [velocity, torque] = [0, 1].map(|which| limit(joint, which, &mut about));
    // An emulated servo has a rotor, however light its link is.
    let inertia = (joint.inertia.clamp(0.001, 1000.0) * 1e6).round() / 1e6;
    let lines = match joint.position {
        Some([low, high]) => {
            let start = if (low..=high).contains(&0.0) { 0.0 } else { (low + high) / 2.0 };
            vec![
                format!(
                    "limits = {{ position = [{low:?}, {high:?}], velocity = {velocity:?}, torque = {torque:?} }}"
                ),
                format!(
                    "joint = {{ inertia = {inertia:?}, stops = [{low:?}, {high:?}], start = {start:?} }}"
                ),
            ]
        }
        None => vec![
            format!("limits = {{ velocity = {velocity:?}, torque = {torque:?} }}"),
            format!("joint = {{ inertia = {inertia:?} }}"),
        ],
    };
    Servo::emulated(about, name, index, lines)
}

/// The limit of velocity (0) or effort (1) for the robot file; doubts about it are reported.
fn limit(joint: &Joint<'_>, which: usize, about: &mut Vec<String>) -> f64 {
    let (name, unit) = [("velocity", "rad/s"), ("effort", "N·m")][which];
    let Some(wanted) = [joint.velocity, joint.effort][which] else {
        let careful = CAREFUL[which];
        about.push(format!(
            "The URDF does not limit its {name}: {careful:?} {unit} is only a careful beginning."
        ));
        return careful;
    };
    let taken = wanted.clamp(TAKEN[0], TAKEN[1]);
    if wanted > PLAUSIBLE[which] {
        about.push(format!(
            "CHECK: the URDF limits its {name} to {wanted:e} {unit}, which says nothing: write what servo and robot bear."
        ));
    }
    if taken != wanted {
        about.push(format!(
            "CHECK: {taken:?} {unit} is the nearest a robot file takes to the {name} in the URDF, {wanted:e}."
        ));
    }
    taken
}

fn joint<'a>(
    robot: Node<'a, '_>,
    node: Node<'a, '_>,
    name: &'a str,
    kind: &str,
) -> Result<Joint<'a>, UrdfError> {
    let limit = child(node, "limit");
    let of_limit = |key: &str| limit.map_or(Ok(None), |limit| number(limit, key));
    let position = if kind == "revolute" {
        let limit =
            limit.ok_or_else(|| wrong(node, format!("joint `{name}` is revolute and has no `<limit>`")))?;
        // What is left out is 0.
        let [low, high] = [number(limit, "lower")?.unwrap_or(0.0), number(limit, "upper")?.unwrap_or(0.0)];
        if low >= high || low < -WIDEST || high > WIDEST {
            return Err(wrong(limit, format!("joint `{name}` cannot turn from {low} to {high} rad")));
        }
        Some([low, high])
    } else {
        None
    };
    // A limit of 0 is what exporters write where none was set.
    let positive = |value: Option<f64>| value.filter(|value| *value > 0.0);
    let (mass, inertia) = behind(robot, node)?;
    let (velocity, effort) = (positive(of_limit("velocity")?), positive(of_limit("effort")?));
    Ok(Joint { name, position, velocity, effort, mass, inertia })
}

/// Mass of the link behind a joint, and its moment of inertia about the joint's axis. The frame of its `<inertial>` counts as
/// parallel to the joint's; links behind it are not counted.
fn behind(robot: Node<'_, '_>, joint: Node<'_, '_>) -> Result<(f64, f64), UrdfError> {
    let link = child(joint, "child").and_then(|child| child.attribute("link"));
    let named = |node: &Node<'_, '_>| link.is_some() && node.attribute("name") == link;
    let inertial = children(robot, "link").find(named).and_then(|link| child(link, "inertial"));
    let Some(inertial) = inertial else { return Ok((0.0, 0.0)) };
    let mass = child(inertial, "mass").map_or(Ok(None), |mass| number(mass, "value"))?.unwrap_or(0.0);
    if mass < 0.0 {
        return Err(wrong(inertial, "its mass is negative".to_owned()));
    }
    let center = child(inertial, "origin").map_or(Ok([0.0; 3]), |origin| vector(origin, "xyz", [0.0; 3]))?;
    let axis =
        child(joint, "axis").map_or(Ok([1.0, 0.0, 0.0]), |axis| vector(axis, "xyz", [1.0, 0.0, 0.0]))?;
    let length = dot(axis, axis).sqrt();
    let axis = axis.map(|part| part / length);
    if !axis.iter().all(|part| part.is_finite()) {
        return Err(wrong(joint, "its axis has no direction".to_owned()));
    }
    let off_axis = dot(center, center) - dot(center, axis).powi(2);
    let own = child(inertial, "inertia").map_or(Ok(0.0), |tensor| about(tensor, axis))?;
    let inertia = own + mass * off_axis;
    if !inertia.is_finite() {
        return Err(wrong(inertial, "its numbers are too large".to_owned()));
    }
    Ok((mass, inertia))
}

/// The moment of inertia about an axis.
fn about(tensor: Node<'_, '_>, [x, y, z]: [f64; 3]) -> Result<f64, UrdfError> {
    let part = |key| number(tensor, key).map(Option::unwrap_or_default);
    let moment = |key| match part(key)? {
        moment if moment < -ROUNDING => Err(wrong(tensor, "a moment of inertia is negative".to_owned())),
        moment => Ok(moment.max(0.0)),
    };
    let square = moment("ixx")? * x * x + moment("iyy")? * y * y + moment("izz")? * z * z;
    Ok(square + 2.0 * (part("ixy")? * x * y + part("ixz")? * x * z + part("iyz")? * y * z))
}

fn dot(one: [f64; 3], two: [f64; 3]) -> f64 {
    one.iter().zip(two).map(|(one, two)| one * two).sum()
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> Option<Node<'a, 'i>> {
    children(node, name).next()
}

fn required<'a>(node: Node<'a, '_>, key: &str) -> Result<&'a str, UrdfError> {
    node.attribute(key)
        .ok_or_else(|| wrong(node, format!("this `<{}>` has no `{key}`", node.tag_name().name())))
}

fn number(node: Node<'_, '_>, key: &str) -> Result<Option<f64>, UrdfError> {
    node.attribute(key).map(|text| parsed(node, key, text)).transpose()
}

fn vector(node: Node<'_, '_>, key: &str, otherwise: [f64; 3]) -> Result<[f64; 3], UrdfError> {
    let Some(text) = node.attribute(key) else { return Ok(otherwise) };
    let parts: Result<Vec<f64>, _> = text.split_whitespace().map(|part| parsed(node, key, part)).collect();
    <[f64; 3]>::try_from(parts?)
        .map_err(|_| wrong(node, format!("`{key}` is three numbers, not `{}`", printable(text))))
}

fn parsed(node: Node<'_, '_>, key: &str, text: &str) -> Result<f64, UrdfError> {
    let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| wrong(node, format!("`{key}` is no number: `{}`", printable(text))))
}

fn wrong(node: Node<'_, '_>, what: String) -> UrdfError {
    UrdfError::Wrong { line: node.document().text_pos_at(node.range().start).row, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RobotConfig;
    use proptest::prelude::*;

    const ARM: &str = r#"<?xml version="1.0"?>
<robot name="two-link arm">
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0.2 0 0"/><mass value="1.5"/><inertia ixx="0.001" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="lower"/>
  <joint name="shoulder-pitch" type="revolute">
    <parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-1.5" upper="2" velocity="3.5" effort="12"/>
  </joint>
  <joint name="shoulder pitch" type="continuous"><parent link="upper"/><child link="lower"/></joint>
  <joint name="slide" type="prismatic"/>
  <joint name="bolt" type="fixed"/>
</robot>"#;

    #[test]
    fn joints_become_servos_with_limits_and_inertia() {
        let text = of_urdf(ARM).unwrap();
        let robot = RobotConfig::parse(&text, "urdf.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(robot.warnings.is_empty() && robot.name == "two_link_arm", "{text}");
        let [shoulder, second] = &robot.servos[..] else { panic!("{text}") };
        assert_eq!((shoulder.name.as_str(), second.name.as_str()), ("shoulder_pitch", "shoulder_pitch_2"));
        assert_eq!(shoulder.limits.position, Some([-1.5, 2.0]));
        assert_eq!((shoulder.limits.velocity, shoulder.limits.torque), (Some(3.5), Some(12.0)));
        // 0.02 about y, and 1.5 kg at 0.2 m.
        assert!((shoulder.joint.inertia - 0.08).abs() < 1e-9);
        assert_eq!((second.limits.position, second.limits.velocity), (None, Some(1.0)));
        assert!(text.contains("# Left out: slide (prismatic).") && text.contains("weighs 1.5 kg"), "{text}");
    }

    #[test]
    fn limits_that_are_none_or_do_not_fit_are_reported() {
        let made = |velocity: &str, effort: &str| {
            let limits = format!("velocity=\"{velocity}\" effort=\"{effort}\"");
            of_urdf(&ARM.replacen("velocity=\"3.5\" effort=\"12\"", &limits, 1)).unwrap()
        };
        assert!(!made("3.5", "12").contains("CHECK"));
        let endless = made("1e9", "1000");
        assert!(endless.contains("# CHECK: the URDF limits its velocity to 1e9 rad/s"), "{endless}");
        assert!(endless.contains("# CHECK: 1000.0 rad/s is the nearest"), "{endless}");
        assert!(endless.contains("# CHECK: the URDF limits its effort to 1e3 N·m"), "{endless}");
        let slow = made("1e-9", "12");
        assert!(slow.contains("# CHECK: 0.001 rad/s is the nearest") && slow.contains("1e-9"), "{slow}");
        let one = made("3.5", "0");
        assert!(one.contains("does not limit its effort: 1.0 N·m"), "{one}");
        assert_eq!(one.matches("does not limit its velocity").count(), 1, "that of the other joint: {one}");
    }

    #[test]
    fn a_moment_of_inertia_that_rounding_made_negative_is_0() {
        // That of a link of iCub.
        let made = |moment: &str| of_urdf(&ARM.replacen("iyy=\"0.02\"", &format!("iyy=\"{moment}\""), 1));
        assert_eq!(made("-5e-20"), made("0"));
        assert!(made("-1e-9").unwrap_err().to_string().contains("a moment of inertia is negative"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (from, to, message) in [
            ("velocity=\"3.5\"", "velocity=\"fast\"", "line 10: `velocity` is no number: `fast`"),
            (
                "upper=\"2\"",
                "upper=\"-2\"",
                "line 10: joint `shoulder-pitch` cannot turn from -1.5 to -2 rad",
            ),
            ("effort=\"12\"", "effort=\"NaN\"", "`effort` is no number"),
            ("xyz=\"0 1 0\"", "xyz=\"0 0 0\"", "its axis has no direction"),
            ("xyz=\"0 1 0\"", "xyz=\"0 1\"", "`xyz` is three numbers, not `0 1`"),
            (" name=\"slide\"", "", "this `<joint>` has no `name`"),
            ("shoulder pitch", "shoulder-pitch", "line 12: a second joint is called `shoulder-pitch`"),
            ("value=\"1.5\"", "value=\"-1.5\"", "its mass is negative"),
            ("ixx=\"0.001\"", "ixx=\"-1\"", "a moment of inertia is negative"),
            ("<robot ", "<robots ", "not readable as XML"),
        ] {
            let error = of_urdf(&ARM.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        assert!(of_urdf("<sdf/>").unwrap_err().to_string().contains("`<sdf>` where a URDF begins"));
        assert!(of_urdf("<robot/>").unwrap_err().to_string().contains("no joint in it turns"));
        let bomb = "<!DOCTYPE r [<!ENTITY a \"x\">]><robot name=\"&a;\"/>";
        assert!(matches!(of_urdf(bomb), Err(UrdfError::Xml(_))));
    }

    proptest! {
        #[test]
        fn a_urdf_cut_or_altered_anywhere_never_panics_and_what_it_makes_is_right(
            cut in 0..ARM.len(), at in 0..ARM.len(), byte in any::<u8>(),
        ) {
            let mut bytes = ARM.as_bytes().to_vec();
            bytes[at] = byte;
            let altered = String::from_utf8_lossy(&bytes).into_owned();
            for text in [ARM.get(..cut).unwrap_or_default(), &altered] {
                if let Ok(made) = of_urdf(text) {
                    prop_assert!(RobotConfig::parse(&made, "made.toml").is_ok(), "{}", made);
                }
            }
        }
    }
}
