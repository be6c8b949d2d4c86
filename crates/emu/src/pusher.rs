//! Pushes of a joint now and then, as in the campaign (`khz drill campaign`).

use crate::config::JointConfig;
use crate::noise::Noise;

/// A push lasts so long, s.
pub const PUSH_S: f64 = 0.1;

/// Pushes a joint once in each of its turns, at a time and with a torque that follow from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Pusher {
    most: f64,
    every_s: f64,
    seed: u64,
    /// The turn that `from_s` and `torque` are of.
    turn: u64,
    from_s: f64,
    torque: f64,
}

impl Pusher {
    /// The pusher of a joint, if it has one.
    pub fn of(joint: &JointConfig, seed: u64) -> Option<Self> {
        let JointConfig { push_torque: most, push_every_s: every_s, .. } = *joint;
        // There is no push in the first turn, in which the robot rises.
        (most > 0.0).then_some(Self { most, every_s, seed, turn: 0, from_s: f64::INFINITY, torque: 0.0 })
    }

    /// The torque so long after the machine began, which goes up, N·m.
    pub fn torque(&mut self, time_s: f64) -> f64 {
        let turn = (time_s / self.every_s) as u64;
        if turn > self.turn {
            self.turn = turn;
            let mut noise = Noise::new(self.seed ^ turn << 32);
            self.from_s = turn as f64 * self.every_s + noise.uniform() * (self.every_s - PUSH_S);
            self.torque = self.most * (2.0 * noise.uniform() - 1.0);
        }
        let since_s = time_s - self.from_s;
        if (0.0..PUSH_S).contains(&since_s) { self.torque } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joint_is_pushed_once_in_each_turn_but_the_first() {
        let joint = JointConfig { push_torque: 3.0, push_every_s: 2.0, ..JointConfig::default() };
        assert!(Pusher::of(&JointConfig::default(), 1).is_none());
        let pushes = |seed| -> Vec<f64> {
            let mut pusher = Pusher::of(&joint, seed).expect("a pusher");
            (0..80_000).map(|step| pusher.torque(f64::from(step) * 250e-6)).collect()
        };
        let one = pushes(1);
        for (turn, torques) in one.chunks(8000).enumerate() {
            let pushed: Vec<_> = torques.iter().filter(|torque| **torque != 0.0).collect();
            let steps = if turn == 0 { 0..=0 } else { 399..=401 };
            assert!(steps.contains(&pushed.len()), "turn {turn}: {} steps", pushed.len());
            assert!(pushed.iter().all(|torque| torque.abs() <= 3.0 && *torque == pushed[0]));
        }
        assert!(one == pushes(1) && one != pushes(2));
        assert!(one.iter().any(|torque| *torque > 1.0) && one.iter().any(|torque| *torque < -1.0));
    }
}
