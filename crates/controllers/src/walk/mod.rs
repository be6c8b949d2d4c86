//! A 12-joint quadruped stands up and walks as its operator wants.
//!
//! A trot: the feet of a diagonal step together, and between steps all four stand. Feet on the ground are moved against the
//! wanted motion of the trunk, all alike; a foot in the air goes to where, half a stance later, it will be under its hip. So
//! the trunk moves as wanted as long as no foot slips; nothing is measured and corrected. Each joint's torque for its share of
//! the weight is fed forward.

mod gait;
mod leg;

use super::gliding::{Glide, Gliding};
use super::moving::Moving;
use gait::{Gait, LEGS};
use khz_loop::controller::{ControlError, Controller};
use khz_loop::parameters::Parameter;
use khz_loop::state::{RobotState, Teleop};
use khz_servo::{PositionCommand, ServoCommand};
use khz_settings::section;
use leg::{JOINTS, Leg, Point};

const GRAVITY: f64 = 9.81;
/// Greatest acceleration of the trunk forwards and to the left, m/s², and of turning, rad/s².
const ACCELERATION: [f64; 3] = [1.5, 1.0, 4.0];
/// Share of its full length to which a leg is stretched at most when it stands.
pub const LONGEST: f64 = 0.9;

section! {
    /// `[controller]` with `name = "walk"`: a quadruped of twelve servos that stands up, and walks as `[teleop]` says. Sizes as in
    /// `[body]`.
    #[derive(Copy)]
    WalkParameters {
        /// From the middle of the trunk to the axis of a hip: forwards, and sideways.
        hip_m: [f64; 2] = [0.113, 0.065], "m", 0.0 => 10.0;
        /// From there to the axis of the thigh: forwards, and sideways.
        offset_m: [f64; 2] = [0.065, 0.1], "m", 0.0 => 10.0;
        /// Length of the thigh.
        thigh_m: f64 = 0.149, "m", 0.01 => 10.0;
        /// Length of the shin.
        shin_m: f64 = 0.15, "m", 0.01 => 10.0;
        /// Mass of the machine, whose weight is fed forward to the joints. 0: the position gains carry it alone.
        mass_kg: f64 = 10.0, "kg", 0.0 => 1000.0;
        /// Height of the hips over the feet when standing.
        stand_m: f64 = 0.22, "m", 0.01 => 20.0;
        /// Time to stand up.
        rise_s: f64 = 2.0, "s", 0.1 => 1000.0;
        /// How high feet are lifted.
        lift_m: f64 = 0.04, "m", 0.0 => 20.0;
        /// Time in which every foot steps once.
        step_s: f64 = 0.4, "s", 0.1 => 1000.0;
        /// Greatest speed forwards and backwards.
        forward_m_s: f64 = 0.4, "m/s", 0.0 => 100.0;
        /// Greatest speed to the left and to the right.
        left_m_s: f64 = 0.25, "m/s", 0.0 => 100.0;
        /// Greatest rate of turning.
        turn_rad_s: f64 = 1.0, "rad/s", 0.0 => 100.0;
        /// How far a hip is raised and lowered from `stand_m` at most.
        height_m: f64 = 0.04, "m", 0.0 => 20.0;
        /// Greatest roll and pitch of the trunk, as far as `height_m` allows.
        lean_rad: f64 = 0.2, "rad", 0.0 => 1.0;
        /// Share of the servos' position gain.
        kp_scale: f64 = 1.0, "", 0.0 => 1.0;
        /// Share of the servos' velocity gain.
        kd_scale: f64 = 1.0, "", 0.0 => 1.0;
    }
}

/// Stands up, then walks as [`RobotState::teleop`] commands. Twelve servos, leg by leg (front left, front right, rear left, rear
/// right): hip, thigh, knee.
#[derive(Clone, Debug)]
pub struct Walk {
    parameters: WalkParameters,
    live: Gliding<5>,
    legs: [Leg; LEGS],
    from: [f64; LEGS * JOINTS],
    elapsed_s: f64,
    gait: Gait,
    /// Forwards, to the left, turning, as it is walked.
    velocity: [f64; 3],
    /// Height over the usual one, roll and pitch.
    posture: [Glide; 3],
}

/// What is the same for all legs in a tick.
struct Stride {
    /// Height of the hips.
    stand: Moving,
    /// How high feet are lifted.
    lift: Moving,
    /// How far the robot has stood up.
    part: Moving,
    kp_scale: f64,
    kd_scale: f64,
}

impl Walk {
    /// See [`WalkParameters`].
    pub fn new(parameters: WalkParameters) -> Self {
        let legs = std::array::from_fn(|leg| Leg::new(&parameters, leg));
        let length = parameters.thigh_m + parameters.shin_m;
        // Within these the legs neither stretch fully nor fold up, where their joints would have to be infinitely fast.
        let live = [
            ("stand_m", parameters.stand_m, 0.65 * length..=LONGEST * length - parameters.height_m),
            ("lift_m", parameters.lift_m, 0.0..=0.15 * length),
            ("step_s", parameters.step_s, 0.35..=0.6),
            ("kp_scale", parameters.kp_scale, 0.0..=1.0),
            ("kd_scale", parameters.kd_scale, 0.0..=1.0),
        ];
        Self {
            parameters,
            live: Gliding::of(WalkParameters::KEYS, live),
            legs,
            from: [0.0; LEGS * JOINTS],
            elapsed_s: 0.0,
            gait: Gait::new(legs.map(|leg| leg.home())),
            velocity: [0.0; 3],
            posture: [Glide { value: 0.0, rate: 0.0 }; 3],
        }
    }

    /// Speeds as wanted, within what the legs can do: together no foot is faster than walking straight forwards.
    fn wanted_velocity(&self, teleop: &Teleop) -> [f64; 3] {
        let WalkParameters { forward_m_s, left_m_s, turn_rad_s, .. } = self.parameters;
        let most = [forward_m_s, left_m_s, turn_rad_s];
        let asked = [teleop.forward, teleop.left, teleop.turn];
        let wanted: [f64; 3] = std::array::from_fn(|axis| within(asked[axis], most[axis]));
        let speed = |leg: &Leg| {
            let [x, y] = gait::velocity_at(wanted, leg.home());
            x.hypot(y)
        };
        let fastest = self.legs.iter().map(speed).fold(0.0, f64::max);
        let share =
            if fastest > forward_m_s.max(left_m_s) { forward_m_s.max(left_m_s) / fastest } else { 1.0 };
        wanted.map(|speed| share * speed)
    }

    /// Height, roll and pitch as wanted, within what the legs can do: together no hip is higher or lower than by height alone.
    fn wanted_posture(&self, teleop: &Teleop) -> [f64; 3] {
        let WalkParameters { height_m, lean_rad, .. } = self.parameters;
        let wanted =
            [within(teleop.height, height_m), within(teleop.roll, lean_rad), within(teleop.pitch, lean_rad)];
        let [x, y] = self.legs[0].home();
        let farthest = wanted[0].abs() + y * wanted[1].abs() + x * wanted[2].abs();
        let share = if farthest > height_m { height_m / farthest } else { 1.0 };
        wanted.map(|wanted| share * wanted)
    }

    /// Moves on by `dt` seconds.
    fn advance(&mut self, teleop: &Teleop, step_s: f64, dt: f64) {
        let standing = Teleop { forward: 0.0, left: 0.0, turn: 0.0, ..*teleop };
        let is_fresh = teleop.age_ns <= Teleop::STALE_NS && self.elapsed_s > self.parameters.rise_s;
        let wanted = self.wanted_velocity(if is_fresh { teleop } else { &standing });
        for axis in 0..3 {
            let most = ACCELERATION[axis] * dt;
            self.velocity[axis] += (wanted[axis] - self.velocity[axis]).clamp(-most, most);
        }
        // Without an input it stays as it is.
        let wanted = if is_fresh { self.wanted_posture(teleop) } else { self.posture.map(|now| now.value) };
        for (now, wanted) in self.posture.iter_mut().zip(wanted) {
            *now = now.towards(wanted, dt);
        }
        self.gait.advance(self.velocity, step_s, dt);
    }

    /// A foot in the trunk's frame.
    fn foot(&self, leg: usize, stride: &Stride) -> Point {
        let [x, y] = self.gait.place(leg);
        let height = stride.stand + self.posture[0].into();
        self.leaned([x, y, self.gait.lift(leg) * stride.lift - height])
    }

    /// What is level with the ground, as the leaning trunk sees it.
    fn leaned(&self, [x, y, z]: Point) -> Point {
        let [_, roll, pitch] = self.posture.map(Moving::from);
        let (sin, cos) = pitch.sin_cos();
        let (x, z) = (cos * x - sin * z, sin * x + cos * z);
        let (sin, cos) = roll.sin_cos();
        [x, cos * y + sin * z, cos * z - sin * y]
    }

    fn command(&self, leg: usize, stride: &Stride) -> [ServoCommand; JOINTS] {
        let angles = self.legs[leg].angles(self.foot(leg, stride));
        let weight = self.parameters.mass_kg * GRAVITY * self.gait.load(leg) * stride.part.at;
        let up = self.leaned([0.0, 0.0, weight].map(Moving::fixed)).map(|force| force.at);
        let torques = self.legs[leg].torques(angles.map(|angle| angle.at), up);
        std::array::from_fn(|joint| {
            let from = Moving::fixed(self.from[leg * JOINTS + joint]);
            let target = from.towards(angles[joint], stride.part);
            ServoCommand::Position(PositionCommand {
                velocity: target.rate,
                torque: torques[joint],
                kp_scale: stride.kp_scale,
                kd_scale: stride.kd_scale,
                ..PositionCommand::hold(target.at)
            })
        })
    }
}

impl Controller for Walk {
    fn parameters(&self) -> Vec<Parameter> {
        self.live.parameters()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        if state.servos.len() != LEGS * JOINTS {
            return Err("walk needs four legs of three servos each: hip, thigh, knee".into());
        }
        self.live.begin();
        self.gait = Gait::new(self.legs.map(|leg| leg.home()));
        (self.elapsed_s, self.velocity) = (0.0, [0.0; 3]);
        self.posture = [Glide { value: 0.0, rate: 0.0 }; 3];
        for (from, servo) in self.from.iter_mut().zip(&state.servos) {
            *from = servo.position;
        }
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.elapsed_s += state.dt();
        let [stand, lift, step, kp, kd] = self.live.step(state.dt());
        self.advance(&state.teleop, step.value, state.dt());
        let stride = Stride {
            stand: stand.into(),
            lift: lift.into(),
            part: Moving::step(self.elapsed_s, self.parameters.rise_s),
            kp_scale: kp.share(),
            kd_scale: kd.share(),
        };
        for (leg, commands) in commands.chunks_exact_mut(JOINTS).enumerate() {
            commands.copy_from_slice(&self.command(leg, &stride));
        }
        Ok(())
    }
}

/// Between -`most` and `most`; what is not a number is 0.
fn within(asked: f64, most: f64) -> f64 {
    if asked.is_nan() { 0.0 } else { asked.clamp(-most, most) }
}

#[cfg(test)]
mod tests;
