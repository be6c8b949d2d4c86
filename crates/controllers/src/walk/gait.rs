//! Where the feet are, level with the ground, under the middle of the trunk.

use super::super::moving::Moving;
use std::f64::consts::{PI, TAU};

/// Front left, front right, rear left, rear right.
pub const LEGS: usize = 4;
/// Share of a step in which a foot is in the air.
const SWING: f64 = 0.4;
/// Share of a step between the end of one diagonal's swing and the start of the other's: all four stand, and the weight is
/// handed over.
const HANDOVER: f64 = 0.5 - SWING;
/// Share of a swing before its end from which a foot keeps the place it goes to.
const COMMITTED: f64 = 0.25;
/// How near to its home a foot may stay when the gait stops, m.
const AT_HOME: f64 = 0.002;
/// Slower counts as standing: m/s and rad/s.
const STANDING: f64 = 1e-6;

/// How fast the ground below the trunk's frame goes away under a point of it: the trunk's velocity there.
pub fn velocity_at([forward, left, turn]: [f64; 3], [x, y]: [f64; 2]) -> [f64; 2] {
    [forward - turn * y, left + turn * x]
}

/// A trot.
#[derive(Clone, Debug)]
pub struct Gait {
    feet: [Foot; LEGS],
    /// Of a step, 0 to 1: at 0 all stand. None: not stepping.
    phase: Option<f64>,
    step_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct Foot {
    home: [f64; 2],
    at: [f64; 2],
    velocity: [f64; 2],
    /// Where it goes while in the air.
    to: [f64; 2],
}

impl Gait {
    /// All feet at home, forwards and to the left of the trunk's middle.
    pub fn new(homes: [[f64; 2]; LEGS]) -> Self {
        let foot = |home| Foot { home, at: home, velocity: [0.0; 2], to: home };
        Self { feet: homes.map(foot), phase: None, step_s: 1.0 }
    }

    /// Moves on by `dt` seconds with the trunk at this velocity (forwards, to the left, turning), and every foot stepping once in
    /// `step_s`.
    pub fn advance(&mut self, velocity: [f64; 3], step_s: f64, dt: f64) {
        self.step_s = step_s;
        let is_standing = velocity.iter().all(|speed| speed.abs() < STANDING);
        let is_home = self.feet.iter().all(Foot::is_home);
        self.phase = match self.phase {
            None if is_standing => None,
            None => Some(0.0),
            Some(phase) if phase + dt / step_s < 1.0 => Some(phase + dt / step_s),
            Some(_) if is_standing && is_home => None,
            Some(phase) => Some((phase + dt / step_s).fract()),
        };
        for leg in 0..LEGS {
            let swing = self.swing(leg);
            let foot = &mut self.feet[leg];
            match swing {
                None => foot.stand(velocity, dt),
                Some(done) => {
                    if done < 1.0 - COMMITTED {
                        let ahead = 0.5 * (1.0 - SWING) * step_s;
                        let speed = velocity_at(velocity, foot.home);
                        foot.to = std::array::from_fn(|axis| foot.home[axis] + ahead * speed[axis]);
                    }
                    foot.swing(velocity, (1.0 - done) * SWING * step_s + dt, dt);
                }
            }
        }
    }

    /// Where the foot of a leg is.
    pub fn place(&self, leg: usize) -> [Moving; 2] {
        let foot = &self.feet[leg];
        std::array::from_fn(|axis| Moving::new(foot.at[axis], foot.velocity[axis]))
    }

    /// How high it is, as a share of the most.
    pub fn lift(&self, leg: usize) -> Moving {
        let Some(done) = self.swing(leg) else { return Moving::fixed(0.0) };
        Moving::new((PI * done).sin().powi(2), PI * (TAU * done).sin() / (SWING * self.step_s))
    }

    /// The share of the weight a leg carries.
    pub fn load(&self, leg: usize) -> f64 {
        let all: f64 = (0..LEGS).map(|leg| self.grip(leg)).sum();
        self.grip(leg) / all
    }

    /// How much of its share a leg carries: it takes over and hands over while all feet stand.
    fn grip(&self, leg: usize) -> f64 {
        let Some(phase) = self.leg_phase(leg) else { return 1.0 };
        let from_middle_of_swing = (phase - 0.25 + 0.5).rem_euclid(1.0) - 0.5;
        ((from_middle_of_swing.abs() - 0.5 * SWING) / HANDOVER).clamp(0.0, 1.0)
    }

    /// How much of its swing the foot of a leg has done; `None` while it stands.
    fn swing(&self, leg: usize) -> Option<f64> {
        let done = (self.leg_phase(leg)? - 0.5 * HANDOVER) / SWING;
        (0.0..1.0).contains(&done).then_some(done)
    }

    /// Front left and rear right step in the first half, the others in the second.
    fn leg_phase(&self, leg: usize) -> Option<f64> {
        let later = if matches!(leg, 0 | 3) { 0.0 } else { 0.5 };
        self.phase.map(|phase| (phase + later).fract())
    }
}

impl Foot {
    fn is_home(&self) -> bool {
        (self.at[0] - self.home[0]).hypot(self.at[1] - self.home[1]) < AT_HOME
    }

    /// Stays where it is on the ground while the trunk moves over it.
    fn stand(&mut self, velocity: [f64; 3], dt: f64) {
        let now = velocity_at(velocity, self.at).map(|speed| -speed);
        for ((at, velocity), now) in self.at.iter_mut().zip(&mut self.velocity).zip(now) {
            *at += 0.5 * (*velocity + now) * dt;
            *velocity = now;
        }
    }

    /// Moves on by `dt` on the way that ends in `left_s` where it goes, with the velocity of the ground there.
    fn swing(&mut self, velocity: [f64; 3], left_s: f64, dt: f64) {
        let ground = velocity_at(velocity, self.to).map(|speed| -speed);
        let share = (dt / left_s).min(1.0);
        for (axis, ground) in ground.into_iter().enumerate() {
            // The cubic from here, as fast as now, to there, as fast as the ground.
            let (from, to) = (self.velocity[axis] * left_s, ground * left_s);
            let way = self.to[axis] - self.at[axis];
            let (square, cube) = (3.0 * way - 2.0 * from - to, from + to - 2.0 * way);
            self.at[axis] += share * (from + share * (square + share * cube));
            self.velocity[axis] = (from + share * (2.0 * square + share * 3.0 * cube)) / left_s;
        }
    }
}
