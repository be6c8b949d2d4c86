//! How one joint moves: inertia, friction, play and stops. Every body that has joints of its own moves them by this law.
//!
//! The friction is that of the models M1 to M4 of Duclusaud and Passault, "Extended friction models for the physics simulation of
//! servo actuators" (2025), as their program *bam* (github.com/Rhoban/bam) has it; its directional and quadratic terms (M5, M6) are not here.

use super::{Drive, JointState};
use crate::config::JointConfig;

impl JointConfig {
    /// Moves a joint on under its servo's `drive` and a torque from outside, N·m. `rotor` is where the gear has its input if there is
    /// play, and is not looked at otherwise.
    // Not left to the compiler, nor in `turned`: 24 instructions of each step of each servo.
    #[inline(always)]
    pub fn step(
        &self,
        state: &mut JointState,
        rotor: &mut JointState,
        dt_s: f64,
        drive: Drive,
        outside: f64,
    ) {
        let load = outside + self.pull(state.position);
        if self.backlash > 0.0 {
            return self.step_with_play(state, rotor, dt_s, drive, load);
        }
        *state = self.stop(self.turned(*state, self.whole_inertia(), dt_s, drive, load));
    }

    /// What turns with its output if there is no play, that of the rotor too, kg·m².
    #[inline]
    pub fn whole_inertia(&self) -> f64 {
        self.inertia + self.armature
    }

    /// The friction depends on more than speed.
    #[inline]
    pub fn has_rich_friction(&self) -> bool {
        self.load_friction + self.stribeck + self.stribeck_load > 0.0
    }

    /// The dry friction while `through` passes the gear, N·m, at this speed, rad/s.
    pub fn dry_friction(&self, through: f64, speed: f64) -> f64 {
        let at_rest = if self.stribeck + self.stribeck_load > 0.0 {
            (-(speed / self.stribeck_speed).abs().powf(self.stribeck_shape)).exp()
        } else {
            0.0
        };
        let per_load = self.load_friction + self.stribeck_load * at_rest;
        self.coulomb + self.stribeck * at_rest + per_load * through.abs()
    }

    /// What gravity puts on it, N·m.
    #[inline]
    fn pull(&self, position: f64) -> f64 {
        if self.gravity == 0.0 { 0.0 } else { -self.gravity * (position - self.gravity_at).sin() }
    }

    /// Semi-implicit Euler: the new velocity moves the joint, and all damping acts on the new velocity.
    #[inline(always)]
    fn turned(&self, state: JointState, inertia: f64, dt_s: f64, drive: Drive, load: f64) -> JointState {
        let kick = dt_s / inertia;
        let damping = drive.damping + self.viscous;
        let free = (state.velocity + kick * (drive.torque + load)) / (1.0 + kick * damping);
        let dry = if self.has_rich_friction() {
            let motor = drive.torque - drive.damping * state.velocity;
            self.dry_friction(motor - load, state.velocity)
        } else {
            self.coulomb
        };
        let velocity = towards_zero(free, kick * dry);
        JointState { position: state.position + velocity * dt_s, velocity }
    }

    /// Within the play rotor and output move by themselves; at its ends they meet without bouncing and move as one while they press on each other.
    #[cold]
    fn step_with_play(
        &self,
        state: &mut JointState,
        rotor: &mut JointState,
        dt_s: f64,
        drive: Drive,
        load: f64,
    ) {
        let (whole, most) = (self.whole_inertia(), 0.5 * self.backlash);
        let ahead = rotor.position - state.position;
        let together = self.turned(*state, whole, dt_s, drive, load);
        let pressing = self.inertia * (together.velocity - state.velocity) / dt_s - load;
        if ahead.abs() >= most && pressing * ahead >= 0.0 {
            *state = self.stop(together);
            *rotor = JointState { position: state.position + ahead.clamp(-most, most), ..*state };
            return;
        }
        // All friction is the gear's.
        *rotor = self.turned(*rotor, self.armature, dt_s, drive, 0.0);
        let velocity = state.velocity + dt_s / self.inertia * load;
        *state = self.stop(JointState { position: state.position + velocity * dt_s, velocity });
        let ahead = rotor.position - state.position;
        if ahead.abs() > most {
            let moment = self.armature * rotor.velocity + self.inertia * state.velocity;
            // Parting already, or turned round by the step: nothing to share.
            if (rotor.velocity - state.velocity) * ahead > 0.0 {
                rotor.velocity = moment / whole;
                state.velocity = rotor.velocity;
            }
            rotor.position = state.position + ahead.clamp(-most, most);
        }
    }

    /// The end stops swallow all speed.
    fn stop(&self, state: JointState) -> JointState {
        let Some([low, high]) = self.stops else { return state };
        if state.position < low {
            JointState { position: low, velocity: state.velocity.max(0.0) }
        } else if state.position > high {
            JointState { position: high, velocity: state.velocity.min(0.0) }
        } else {
            state
        }
    }
}

/// Joints of which none has more than inertia, viscous and constant dry friction, and end stops: all are moved on in one loop without
/// branches, which vectorises, by the law of [`JointConfig::step`] and to the same bits.
#[derive(Clone, Debug)]
pub struct PlainJoints<const N: usize> {
    inertia: [f64; N],
    viscous: [f64; N],
    coulomb: [f64; N],
    /// End stops; infinite without.
    low: [f64; N],
    high: [f64; N],
}

impl<const N: usize> PlainJoints<N> {
    /// `None` if a joint has more than that.
    pub fn of(joints: &[JointConfig; N]) -> Option<Self> {
        let has_more =
            |joint: &JointConfig| joint.backlash > 0.0 || joint.has_rich_friction() || joint.gravity != 0.0;
        let stops = joints.map(|joint| joint.stops.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]));
        (!joints.iter().any(has_more)).then(|| Self {
            inertia: joints.map(|joint| joint.whole_inertia()),
            viscous: joints.map(|joint| joint.viscous),
            coulomb: joints.map(|joint| joint.coulomb),
            low: stops.map(|[low, _]| low),
            high: stops.map(|[_, high]| high),
        })
    }

    /// Moves each on under its servo's drive and a torque from outside, N·m.
    #[inline]
    pub fn step(&self, states: &mut [JointState; N], dt_s: f64, drives: &[Drive; N], outside: &[f64; N]) {
        for i in 0..N {
            let (JointState { position, velocity }, drive) = (states[i], drives[i]);
            let kick = dt_s / self.inertia[i];
            let damping = drive.damping + self.viscous[i];
            // Gravity, which makes a 0 of −0.
            let load = outside[i] + 0.0;
            let free = (velocity + kick * (drive.torque + load)) / (1.0 + kick * damping);
            let velocity = towards_zero(free, kick * self.coulomb[i]);
            let position = position + velocity * dt_s;
            let (low, high) = (self.low[i], self.high[i]);
            let (is_below, is_above) = (position < low, position > high);
            states[i] = JointState {
                position: chosen(is_below, low, chosen(is_above, high, position)),
                velocity: chosen(is_below, velocity.max(0.0), chosen(is_above, velocity.min(0.0), velocity)),
            };
        }
    }
}

/// Both are worked out, so that nothing branches.
#[inline]
fn chosen(is_first: bool, first: f64, second: f64) -> f64 {
    if is_first { first } else { second }
}

/// Dry friction takes at most `most` of the speed and never turns it round, so a joint at rest sticks.
// As `clamp` does, whose check of its limits would keep a loop from vectorising.
#[inline]
fn towards_zero(velocity: f64, most: f64) -> f64 {
    let dry = if velocity < -most { -most } else { velocity };
    velocity - if dry > most { most } else { dry }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, Joints};
    use crate::noise::Noise;

    /// 0.01 kg·m² without friction.
    fn light() -> JointConfig {
        JointConfig { viscous: 0.0, coulomb: 0.0, ..JointConfig::default() }
    }

    fn run(joint: JointConfig, torque: f64, seconds: f64) -> JointState {
        let mut body = Joints::new(vec![joint]);
        for _ in 0..(seconds / 250e-6) as usize {
            body.step(250e-6, &[Drive { torque, damping: 0.0 }]);
        }
        body.joints()[0]
    }

    #[test]
    fn plain_joints_move_by_the_law_of_each() {
        let mut noise = Noise::new(1);
        let (mut stopped, mut stuck) = (0, 0);
        for _ in 0..1000 {
            let mut of = |most: f64| noise.uniform() * most * f64::from(!noise.bits().is_multiple_of(4));
            let joints: [JointConfig; 5] = std::array::from_fn(|i| JointConfig {
                inertia: 0.001 + of(0.1),
                armature: of(0.01),
                viscous: of(0.1),
                coulomb: of(0.3),
                stops: i.is_multiple_of(2).then(|| [-of(0.1), of(0.1)]),
                ..JointConfig::default()
            });
            let plain = PlainJoints::of(&joints).unwrap();
            let mut states = [JointState::default(); 5];
            let mut alone = states;
            for _ in 0..100 {
                let drives = [0; 5].map(|_| Drive { torque: of(2.0) - of(2.0), damping: of(1.0) });
                let outside = [0; 5].map(|_| of(1.0) - of(1.0));
                plain.step(&mut states, 250e-6, &drives, &outside);
                for (i, state) in alone.iter_mut().enumerate() {
                    joints[i].step(state, &mut state.clone(), 250e-6, drives[i], outside[i]);
                    let is_stopped = joints[i].stops.is_some_and(|stops| stops.contains(&state.position));
                    (stopped, stuck) = (
                        stopped + i32::from(is_stopped),
                        stuck + i32::from(!is_stopped && state.velocity == 0.0),
                    );
                }
                let bits = |state: JointState| [state.position.to_bits(), state.velocity.to_bits()];
                assert_eq!(states.map(bits), alone.map(bits), "{states:?} {alone:?}");
            }
        }
        assert!(stopped > 1000 && stuck > 1000, "{stopped} {stuck}");
        for more in [
            JointConfig { backlash: 0.1, ..JointConfig::default() },
            JointConfig { load_friction: 0.1, ..JointConfig::default() },
            JointConfig { gravity: 0.1, ..JointConfig::default() },
        ] {
            assert!(PlainJoints::of(&[JointConfig::default(), more]).is_none());
        }
    }

    #[test]
    fn armature_is_inertia_of_the_joint() {
        let state = run(JointConfig { armature: 0.01, ..light() }, 0.1, 1.0);
        assert!((state.velocity - 5.0).abs() < 0.01, "{state:?}");
    }

    #[test]
    fn friction_grows_with_the_torque_through_the_gear() {
        let joint = JointConfig { load_friction: 0.5, ..light() };
        // Half of what the motor gives is lost.
        assert!((run(joint, 0.1, 1.0).velocity - 5.0).abs() < 0.01);
        // A load that the motor holds back only half of stays where it is: both press on the gear.
        let held = JointConfig { gravity: 1.0, start: 1.0, ..joint };
        assert_eq!(run(held, 0.5, 1.0).position, 1.0);
        assert!(run(JointConfig { load_friction: 0.0, ..held }, 0.5, 1.0).position < 1.0);
    }

    #[test]
    fn what_sticks_slips_with_less_friction() {
        let joint = JointConfig { coulomb: 0.02, stribeck: 0.03, ..light() };
        assert_eq!(run(joint, 0.045, 1.0).position, 0.0);
        let [slipping, faster] = [1.0, 1.5].map(|seconds| run(joint, 0.055, seconds).velocity);
        assert!((faster - slipping - 0.5 * 3.5).abs() < 0.02, "{slipping}, {faster}");
        assert!((joint.dry_friction(0.0, 0.2) - (0.02 + 0.03 / std::f64::consts::E)).abs() < 1e-12);
    }

    #[test]
    fn an_output_within_its_play_is_not_moved() {
        let joint = JointConfig { armature: 0.001, backlash: 0.1, ..light() };
        // The rotor crosses half the play alone: 0.05 rad at 100 rad/s² take 32 ms.
        assert_eq!(run(joint, 0.1, 0.030).position, 0.0);
        let after = run(joint, 0.1, 0.040);
        // It meets the output, and from then on both have the momentum of the torque.
        assert!(after.position > 0.0);
        assert!((after.velocity - 0.1 * 0.040 / 0.011).abs() < 0.01, "{after:?}");
    }

    #[test]
    fn an_output_hangs_at_an_end_of_its_play_and_stays_there() {
        let joint = JointConfig {
            armature: 0.001,
            backlash: 0.1,
            gravity: 0.5,
            start: 0.02,
            coulomb: 1.0,
            ..light()
        };
        let hung = run(joint, 0.0, 5.0).position;
        // The gear sticks at 0.02 rad: the load falls half the play towards where it hangs, and swings there.
        assert!((-0.03..=0.07).contains(&hung), "{hung}");
        let mut body = Joints::new(vec![JointConfig { start: 1.0, ..joint }]);
        for _ in 0..20_000 {
            body.step(250e-6, &[Drive::default()]);
        }
        // It falls 0.05 rad, meets the gear, and friction brings both to rest within 0.033 rad: as follows from the energies.
        assert!((body.joints()[0].position - 0.917).abs() < 0.002, "{:?}", body.joints()[0]);
    }
}
