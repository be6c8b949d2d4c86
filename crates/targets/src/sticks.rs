//! The sticks of an operator, who has the robot before all programs.

use crate::settings::SticksConfig;
use khz_loop::controller::{ControlError, RobotInfo};
use khz_loop::state::Teleop;
use khz_loop::steer::TeleopConfig;

/// A full stick moves a joint with this share of its greatest velocity.
const SHARE: f64 = 0.25;

/// Which joints move with which sticks, and whether an operator has them.
pub(crate) struct Sticks {
    settings: SticksConfig,
    /// What a full stick asks for, in the order of [`Sticks::asked`].
    most: [f64; 6],
    /// The joint of each stick.
    joints: [Option<usize>; 6],
    is_held: bool,
}

impl Sticks {
    pub fn new(settings: &SticksConfig, teleop: &TeleopConfig) -> Self {
        let TeleopConfig { max_forward, max_left, max_turn, max_height, max_roll, max_pitch, .. } = *teleop;
        let most = [max_forward, max_left, max_turn, max_height, max_roll, max_pitch];
        Self { settings: settings.clone(), most, joints: [None; 6], is_held: false }
    }

    /// Finds its joints.
    pub fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        for (to, (key, name)) in self.joints.iter_mut().zip(self.settings.joints()) {
            let found = name.map(|name| robot.joint(name)).transpose();
            *to = found.map_err(|error| ControlError(format!("`targets.sticks.{key}`: {error}").into()))?;
        }
        Ok(())
    }

    pub fn begin(&mut self) {
        self.is_held = false;
    }

    /// Whether an operator has begun or ended to move joints. One who has begun keeps the robot, also with all sticks at rest, until none of the
    /// inputs is fresh any more.
    pub fn look(&mut self, teleop: &Teleop) -> bool {
        let is_fresh = teleop.age_ns <= Teleop::STALE_NS;
        let moves =
            self.joints.iter().zip(Self::asked(teleop)).any(|(joint, asked)| joint.is_some() && asked != 0.0);
        let is_held = is_fresh && (self.is_held || moves);
        std::mem::replace(&mut self.is_held, is_held) != is_held
    }

    /// An operator moves joints.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// The share of its greatest velocity that a joint is to move with.
    pub fn share(&self, joint: usize, teleop: &Teleop) -> f64 {
        let asked = self.joints.iter().zip(Self::asked(teleop)).zip(self.most);
        let shares = asked.filter(|((at, _), most)| **at == Some(joint) && *most > 0.0);
        SHARE * shares.map(|((_, asked), most)| asked / most).sum::<f64>().clamp(-1.0, 1.0)
    }

    fn asked(teleop: &Teleop) -> [f64; 6] {
        let Teleop { forward, left, turn, height, roll, pitch, .. } = teleop.fresh();
        [forward, left, turn, height, roll, pitch]
    }
}
