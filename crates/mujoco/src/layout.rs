//! Where each joint is in the positions and velocities of a model, found without the layout of a struct.
//!
//! From the start, each velocity alone moves the positions a little: one position that changes belongs to a slide or a
//! hinge, several are a quaternion, which three velocities turn. Velocities are walked upwards, positions with them. A free
//! joint is three slides and a quaternion; how many of the quaternions belong to one follows from the number of joints.

use crate::api::{Loaded, Object};
use crate::state::Part;

/// Velocity and time of the probe.
const PROBE: f64 = 1.0;
const PROBE_S: f64 = 1e-3;

/// The model has more or fewer joints than its velocities show.
const INSEPARABLE: &str = "its joints cannot be distinguished in its state: report this with the model";

/// Where the joints are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In the order of the model.
    pub joints: Vec<Joint>,
}

/// A joint of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it is.
    pub kind: JointKind,
    /// Its first position.
    pub position: usize,
    /// Its first velocity.
    pub velocity: usize,
}

/// What a joint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JointKind {
    /// A slide or a hinge: one position, one velocity.
    Scalar,
    /// A ball: four positions, three velocities.
    Ball,
    /// A body that nothing holds: seven positions, six velocities.
    Free,
}

/// A block of velocities: where its positions and velocities begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Scalar(usize, usize),
    Rotation(usize, usize),
}

impl Layout {
    /// The layout of a model.
    ///
    /// # Errors
    /// Why it cannot be found, in words.
    pub fn of(model: &Loaded) -> Result<Self, String> {
        let mut start = vec![0.0; model.size(Part::Position)];
        model.get(Part::Position, &mut start);
        let moved = |velocity: usize| {
            let mut velocities = vec![0.0; model.size(Part::Velocity)];
            velocities[velocity] = PROBE;
            let mut positions = start.clone();
            model.integrate(&mut positions, &velocities, PROBE_S);
            positions.iter().zip(&start).filter(|(moved, start)| moved != start).count()
        };
        let blocks = blocks(model.size(Part::Velocity), start.len(), moved)?;
        // Not up to the last that has a name: three slides and a ball would look like a free joint.
        let names = (0..count(model)?).map(|number| model.name(Object::Joint, number)).collect();
        Ok(Self { joints: joints(&blocks, names)? })
    }

    /// The joint of this name.
    pub fn joint(&self, name: &str) -> Option<&Joint> {
        self.joints.iter().find(|joint| joint.name.as_deref() == Some(name))
    }

    /// The body that nothing holds and that the joint at `velocity` belongs to: joints are in the order of the model's
    /// trees, and each tree begins with what holds it.
    pub fn trunk_of(&self, velocity: usize) -> Option<&Joint> {
        self.joints.iter().rfind(|joint| joint.kind == JointKind::Free && joint.velocity < velocity)
    }
}

/// How many joints the model has, named or not.
fn count(model: &Loaded) -> Result<i32, String> {
    let text = model.saved().map_err(|error| error.to_string())?;
    let document = roxmltree::Document::parse(&text).map_err(|error| error.to_string())?;
    let is_world = |node: &roxmltree::Node<'_, '_>| node.has_tag_name("worldbody");
    let is_joint =
        |node: &roxmltree::Node<'_, '_>| ["joint", "freejoint"].iter().any(|tag| node.has_tag_name(*tag));
    let worlds = document.descendants().filter(is_world);
    let joints = worlds.flat_map(|world| world.descendants().filter(is_joint)).count();
    i32::try_from(joints).map_err(|error| error.to_string())
}

/// `moved` gives how many positions a velocity moves.
fn blocks(velocities: usize, positions: usize, moved: impl Fn(usize) -> usize) -> Result<Vec<Block>, String> {
    let (mut blocks, mut position, mut velocity) = (Vec::new(), 0, 0);
    while velocity < velocities {
        if moved(velocity) == 1 {
            blocks.push(Block::Scalar(position, velocity));
            (position, velocity) = (position + 1, velocity + 1);
        } else {
            blocks.push(Block::Rotation(position, velocity));
            (position, velocity) = (position + 4, velocity + 3);
        }
    }
    if position == positions && velocity == velocities { Ok(blocks) } else { Err(INSEPARABLE.to_owned()) }
}

/// Names the blocks: three scalars before a rotation may be a free joint with it.
fn joints(blocks: &[Block], names: Vec<Option<String>>) -> Result<Vec<Joint>, String> {
    let rotations = blocks.iter().filter(|block| matches!(block, Block::Rotation(..))).count();
    // Each free joint takes three scalars with its rotation.
    let free =
        blocks.len().checked_sub(names.len()).filter(|more| more.is_multiple_of(3)).map(|more| more / 3);
    let all_free = match free {
        Some(0) => false,
        Some(free) if free == rotations => true,
        Some(free) if free < rotations => {
            return Err("it has ball joints beside free joints, which cannot be distinguished: replace each ball by three \
                        hinges"
                .to_owned());
        }
        _ => return Err(INSEPARABLE.to_owned()),
    };
    let mut found: Vec<(JointKind, usize, usize)> = Vec::new();
    for block in blocks {
        match *block {
            Block::Scalar(position, velocity) => found.push((JointKind::Scalar, position, velocity)),
            Block::Rotation(position, velocity) if !all_free => {
                found.push((JointKind::Ball, position, velocity))
            }
            Block::Rotation(position, velocity) => {
                let slides = found.len().checked_sub(3).map(|from| found.split_off(from));
                if !slides.is_some_and(|slides| slides.iter().all(|(kind, ..)| *kind == JointKind::Scalar)) {
                    return Err(INSEPARABLE.to_owned());
                }
                found.push((JointKind::Free, position - 3, velocity - 3));
            }
        }
    }
    let joint = |(name, (kind, position, velocity))| Joint { name, kind, position, velocity };
    Ok(names.into_iter().zip(found).map(joint).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<Option<String>> {
        (0..count).map(|number| Some(format!("j{number}"))).collect()
    }

    #[test]
    fn a_free_joint_and_hinges_are_distinguished() {
        let moved = |velocity: usize| if (3..6).contains(&velocity) { 4 } else { 1 };
        let blocks = blocks(8, 9, moved).unwrap();
        let joints = joints(&blocks, names(3)).unwrap();
        let found: Vec<_> = joints.iter().map(|joint| (joint.kind, joint.position, joint.velocity)).collect();
        assert_eq!(found, [(JointKind::Free, 0, 0), (JointKind::Scalar, 7, 6), (JointKind::Scalar, 8, 7)]);
    }

    #[test]
    fn three_slides_and_a_ball_are_no_free_joint() {
        let moved = |velocity: usize| if velocity >= 3 { 4 } else { 1 };
        let blocks = blocks(6, 7, moved).unwrap();
        let kinds: Vec<_> = joints(&blocks, names(4)).unwrap().iter().map(|joint| joint.kind).collect();
        assert_eq!(kinds, [JointKind::Scalar, JointKind::Scalar, JointKind::Scalar, JointKind::Ball]);
    }

    #[test]
    fn an_unnamed_free_joint_is_found() {
        let moved = |velocity: usize| if (3..6).contains(&velocity) { 4 } else { 1 };
        let blocks = blocks(7, 8, moved).unwrap();
        let joints = joints(&blocks, vec![None, Some("knee".to_owned())]).unwrap();
        let layout = Layout { joints };
        assert_eq!(layout.joint("knee").map(|joint| (joint.position, joint.velocity)), Some((7, 6)));
        let trunk = layout.trunk_of(6).unwrap();
        assert_eq!((trunk.name.as_deref(), trunk.kind, trunk.position), (None, JointKind::Free, 0));
    }

    #[test]
    fn a_ball_beside_a_free_joint_and_a_wrong_count_are_refused() {
        let moved = |velocity: usize| if velocity >= 3 { 4 } else { 1 };
        let blocks = blocks(9, 11, moved).unwrap();
        assert!(joints(&blocks, names(2)).unwrap_err().contains("ball"));
        assert!(joints(&blocks, names(1)).unwrap_err().contains("cannot be distinguished"));
    }
}
