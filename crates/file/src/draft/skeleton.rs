//! How a robot's joints lie to each other, for pages that draw it: bodies, the joints that move them, and segments along their
//! shapes, as JSON.
//!
//! Read is MJCF in radians: that of `[body]`, or what MuJoCo writes of the model. A mesh has no segments; where bodies hang together
//! is drawn all the same.

use super::mjcf;
use super::model::{all, attribute, numbers};
use crate::config::{RobotBody, RobotConfig};
use khz_emu::body::{Rotation, Vec3, add as added, norm};
use roxmltree::{Document, Node};
use serde_json::{Value, json};
use std::path::Path;

/// With the robot file, it has to fit into one datagram.
const MOST_BYTES: usize = 32 << 10;
/// Shorter than this nothing is to be seen, m.
const LEAST_M: f64 = 1e-3;

/// What a page needs to draw the robot; empty if its shape is unknown. Reads the model, which takes some of its time.
///
/// # Errors
/// Why pages do not draw a robot whose shape is known.
pub fn shape(config: &RobotConfig) -> Result<String, String> {
    match &config.body {
        None => Ok(String::new()),
        Some(RobotBody::Quadruped(_)) => shape_in(&mjcf(config), config),
        // Without MuJoCo the robot runs, and is not drawn.
        Some(RobotBody::Mujoco(body)) => {
            shape_in(&khz_mujoco::saved(Path::new(&body.model)).unwrap_or_default(), config)
        }
    }
}

/// The same, of the robot's model.
pub(crate) fn shape_in(model: &str, config: &RobotConfig) -> Result<String, String> {
    sendable(of_mjcf(model, config).map(|found| found.to_string()).unwrap_or_default())
}

fn sendable(shape: String) -> Result<String, String> {
    if shape.len() <= MOST_BYTES {
        return Ok(shape);
    }
    Err(format!(
        "the live view and the report do not draw this robot: its shape takes {} KiB, and at most {} KiB are sent; leave bodies without \
         joints or geoms out of its model",
        shape.len().div_ceil(1024),
        MOST_BYTES >> 10
    ))
}

fn of_mjcf(text: &str, config: &RobotConfig) -> Option<Value> {
    let document = Document::parse(text).ok()?;
    let servo = |joint: &str| config.servos.iter().find(|servo| servo.joint_in_model() == joint);
    let servo = |joint: &str| servo(joint).map(|servo| servo.name.as_str());
    let drives = |joint: Node<'_, '_>| joint.attribute("name").is_some_and(|name| servo(name).is_some());
    let trees = all(document.root_element(), "worldbody").flat_map(bodies);
    // What stands in the scene beside the robot has no servos.
    let trees: Vec<_> = trees.filter(|tree| all(*tree, "joint").any(drives)).collect();
    let floats = trees.first().is_some_and(|tree| is_floating(*tree));
    let mut found = Vec::new();
    trees.into_iter().for_each(|tree| add(tree, None, &servo, &mut found));
    (!found.is_empty()).then(|| json!({ "floats": floats, "bodies": found }))
}

/// Adds a body and those that hang on it.
fn add<'a>(
    body: Node<'a, '_>,
    parent: Option<usize>,
    servo: &impl Fn(&str) -> Option<&'a str>,
    found: &mut Vec<Value>,
) {
    let place = found.len();
    // The position of a floating body is not measured; its attitude is the IMU's.
    let is_fixed = parent.is_some() || !is_floating(body);
    let (at, quat) = if is_fixed { frame(body) } else { ([0.0; 3], Rotation::IDENTITY) };
    let joints: Vec<Value> = children(body, "joint").filter_map(|joint| turn(joint, servo)).collect();
    let mut lines: Vec<Value> = children(body, "geom").flat_map(segments).map(line).collect();
    let hung: Vec<_> = bodies(body).collect();
    let ends = hung.iter().map(|hung| vector(*hung, "pos", [0.0; 3]));
    // The last of a chain may be a mesh alone: as far as its middle.
    let middle = children(body, "inertial").map(|inertial| vector(inertial, "pos", [0.0; 3]));
    let middle = middle.filter(|_| lines.is_empty() && hung.is_empty());
    let bones: Vec<_> = ends.chain(middle).filter(|end| norm(*end) > LEAST_M).collect();
    lines.extend(bones.into_iter().map(|end| line(([0.0; 3], end, 0.0))));
    found.push(
        json!({ "parent": parent, "at": short(at), "quat": short(quat.0), "joints": joints, "lines": lines }),
    );
    hung.into_iter().for_each(|hung| add(hung, Some(place), servo, found));
}

fn turn<'a>(joint: Node<'_, '_>, servo: &impl Fn(&str) -> Option<&'a str>) -> Option<Value> {
    let kind = attribute(joint, "type").unwrap_or("hinge");
    let name = servo(joint.attribute("name")?)?;
    let zero = attribute(joint, "ref").and_then(|text| numbers(text).first().copied()).unwrap_or(0.0);
    let (axis, about) = (vector(joint, "axis", [0.0, 0.0, 1.0]), vector(joint, "pos", [0.0; 3]));
    let axis = axis.map(|part| part / norm(axis).max(1e-12));
    let is_drawn = ["hinge", "slide"].contains(&kind);
    is_drawn.then(|| json!({ "servo": name, "slides": kind == "slide", "axis": short(axis), "at": short(about), "zero": zero }))
}

/// A shape as segments with their radius.
fn segments(geom: Node<'_, '_>) -> Vec<(Vec3, Vec3, f64)> {
    let size = attribute(geom, "size").map(numbers).unwrap_or_default();
    let size = |place: usize| size.get(place).copied().unwrap_or(0.0);
    let (at, quat) = frame(geom);
    let from_to = attribute(geom, "fromto").map(numbers).and_then(|ends| <[f64; 6]>::try_from(ends).ok());
    let is_mesh = attribute(geom, "mesh").is_some();
    match attribute(geom, "type").unwrap_or(if is_mesh { "mesh" } else { "sphere" }) {
        "capsule" | "cylinder" => {
            let along = quat.to_world([0.0, 0.0, size(1)]);
            let ends = match from_to {
                Some([a, b, c, x, y, z]) => ([a, b, c], [x, y, z]),
                None => (added(at, along.map(|part| -part)), added(at, along)),
            };
            vec![(ends.0, ends.1, size(0))]
        }
        "sphere" | "ellipsoid" => vec![(at, at, size(0))],
        "box" => box_edges([size(0), size(1), size(2)])
            .map(|(from, to)| (added(at, quat.to_world(from)), added(at, quat.to_world(to)), 0.0))
            .collect(),
        _ => Vec::new(),
    }
}

/// The twelve edges of a box of these half sizes: between corners that differ in one direction.
fn box_edges(half: Vec3) -> impl Iterator<Item = (Vec3, Vec3)> {
    let corner = move |of: usize| -> Vec3 {
        std::array::from_fn(|axis| if of >> axis & 1 == 0 { -half[axis] } else { half[axis] })
    };
    let pairs = (0..8).flat_map(|of| (0..3).map(move |axis| (of, of | 1 << axis)));
    pairs.filter(|(from, to)| from != to).map(move |(from, to)| (corner(from), corner(to)))
}

fn is_floating(body: Node<'_, '_>) -> bool {
    let is_free = |joint: Node<'_, '_>| joint.attribute("type") == Some("free");
    children(body, "freejoint").next().is_some() || children(body, "joint").any(is_free)
}

/// Bodies that hang on this one, or on a frame within it.
fn bodies<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    children(node, "body")
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

fn frame(node: Node<'_, '_>) -> (Vec3, Rotation) {
    let quat = attribute(node, "quat").map(numbers).and_then(|quat| <[f64; 4]>::try_from(quat).ok());
    (vector(node, "pos", [0.0; 3]), quat.map_or(Rotation::IDENTITY, Rotation))
}

fn vector(node: Node<'_, '_>, key: &str, otherwise: Vec3) -> Vec3 {
    let found = attribute(node, key).map(numbers).and_then(|parts| <Vec3>::try_from(parts).ok());
    found.unwrap_or(otherwise)
}

fn line((from, to, radius): (Vec3, Vec3, f64)) -> Value {
    json!(short([from[0], from[1], from[2], to[0], to[1], to[2], radius]))
}

/// In tenths of a millimetre: finer than a drawing shows.
fn short<const N: usize>(numbers: [f64; N]) -> Vec<f64> {
    numbers.iter().map(|number| (number * 1e4).round() / 1e4 + 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM: &str = r#"<mujoco model="arm"><compiler angle="radian"/>
        <default><geom size="0.02"/><joint axis="0 1 0"/><default class="slim"><geom type="capsule" size="0.01 0.1"/></default></default>
        <worldbody>
          <body name="ball"><freejoint/><geom/></body>
          <body name="base" pos="0 0 0.5">
            <geom type="mesh" mesh="base"/>
            <body name="upper" pos="0 0 0.2" quat="0.7071068 0 0.7071068 0">
              <joint name="lift" ref="0.25"/>
              <geom class="slim" quat="0.7071068 0 0.7071068 0"/>
              <body name="hand" pos="0.3 0 0"><joint name="slide" type="slide" axis="2 0 0"/>
                <inertial pos="0.04 0 0" mass="1"/><geom type="mesh" mesh="hand"/></body>
            </body>
          </body>
        </worldbody></mujoco>"#;

    fn arm(more: &str) -> RobotConfig {
        let servo = |name: &str, id: u8| format!("[[servo]]\nname = {name:?}\nbus = \"a\"\nid = {id}\n");
        let (lift, hand) = (servo("lift", 1), servo("hand", 2) + "model_joint = \"slide\"\n");
        let text = format!("[bus.a]\nlink = \"emulated\"\n{lift}{hand}{more}");
        RobotConfig::parse(&text, "arm.toml").unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn an_arm_of_a_model_is_drawn_without_what_lies_beside_it() {
        let found = of_mjcf(ARM, &arm("[body]\nkind = \"mujoco\"\nmodel = \"arm.xml\"\n")).unwrap();
        assert_eq!((&found["floats"], found["bodies"].as_array().map(Vec::len)), (&json!(false), Some(3)));
        let [base, upper, hand] = [0, 1, 2].map(|place| &found["bodies"][place]);
        assert_eq!((&base["at"], &base["parent"]), (&json!([0.0, 0.0, 0.5]), &Value::Null));
        // A mesh has no segments: where the next body hangs.
        assert_eq!(base["lines"], json!([[0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.0]]));
        assert_eq!(
            upper["joints"][0],
            json!({ "servo": "lift", "slides": false, "axis": [0.0, 1.0, 0.0], "at": [0.0, 0.0, 0.0], "zero": 0.25 })
        );
        // The capsule lies along x: its z turned about y.
        assert_eq!(upper["lines"][0], json!([-0.1, 0.0, 0.0, 0.1, 0.0, 0.0, 0.01]));
        let slide = &hand["joints"][0];
        assert_eq!(
            (&slide["servo"], &slide["slides"], &slide["axis"]),
            (&json!("hand"), &json!(true), &json!([1.0, 0.0, 0.0]))
        );
        assert_eq!(hand["lines"], json!([[0.0, 0.0, 0.0, 0.04, 0.0, 0.0, 0.0]]));
    }

    #[test]
    fn the_quadruped_is_a_trunk_and_four_legs_whose_joints_are_its_servos() {
        let robot = RobotConfig::quadruped();
        let found: Value = serde_json::from_str(&shape(&robot).unwrap()).unwrap();
        let bodies = found["bodies"].as_array().unwrap();
        assert_eq!((&found["floats"], bodies.len()), (&json!(true), 13));
        let named = bodies.iter().flat_map(|body| body["joints"].as_array().unwrap());
        let named: Vec<_> = named.map(|joint| joint["servo"].as_str().unwrap()).collect();
        let servos: Vec<_> = robot.servos.iter().map(|servo| servo.name.as_str()).collect();
        assert_eq!(named, servos);
        assert_eq!(
            bodies[0]["lines"].as_array().unwrap().iter().filter(|line| line[6] == 0.0).count(),
            12 + 4
        );
    }

    #[test]
    fn a_robot_of_unknown_shape_is_not_drawn() {
        let unknown = Ok(String::new());
        assert_eq!(shape(&arm("")), unknown);
        assert_eq!(shape(&arm("[body]\nkind = \"mujoco\"\nmodel = \"nowhere.xml\"\n")), unknown);
    }

    /// It was left out without a word.
    #[test]
    fn a_shape_that_is_too_large_is_reported() {
        assert!(sendable("x".repeat(MOST_BYTES)).is_ok());
        let error = sendable("x".repeat(MOST_BYTES + 1)).unwrap_err();
        assert!(error.contains("takes 33 KiB, and at most 32 KiB are sent"), "{error}");
    }
}
