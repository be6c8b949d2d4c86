//! A MuJoCo model as a body: one joint per servo, torques in, angles out.

use crate::api::{Api, Id, Loaded, MujocoError, Object, last_warning};
use crate::layout::{Joint, JointKind, Layout};
use crate::state::Part;
use crate::wrapper;
use arrayvec::ArrayString;
use khz_emu::JointConfig;
use khz_emu::body::{Body, Drive, Forces, JointState, Trunk};
use std::path::PathBuf;
use std::time::Instant;

/// What a trunk without gravity is compared with, m/s²: what the emulated IMU adds again.
const GRAVITY: f64 = 9.81;
/// More contacts than this are not counted.
const CONTACTS: i32 = 64;
/// Steps by which the cost is measured.
const COST_STEPS: usize = 200;
/// Torque with which the inertia that a joint feels is measured, N·m.
const PROBE: f64 = 1e-3;

/// What of a model moves which servo.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// MJCF or URDF.
    pub model: PathBuf,
    /// Name of the joint of each servo.
    pub joints: Vec<String>,
    /// The gear of each servo, of which only the friction counts that MuJoCo has no model of: what depends on the load, and what is
    /// added at standstill. Everything else is the model's. One per joint, or none at all.
    pub gears: Vec<JointConfig>,
    /// Where it starts; `None`: as in the model.
    pub keyframe: Option<String>,
    /// The site where the robot's IMU is, in line with the trunk; `None`: it has none.
    pub imu: Option<String>,
    /// The touch sensor of the trunk.
    pub trunk_touch: String,
    /// Mass whose weight the trunk carries beside the model's, kg.
    pub payload_kg: f64,
    /// Friction of all contacts; `None`: the model's.
    pub friction: Option<f64>,
    /// The longest step, s; the model's own is used if that is shorter.
    pub step_s: f64,
}

/// The simulated machine.
pub struct Mujoco {
    model: Loaded,
    step_s: f64,
    joints: Vec<JointIndex>,
    gears: Vec<Gear>,
    states: Vec<JointState>,
    free: Option<Joint>,
    imu: Option<Id>,
    trunk_touch: Option<Id>,
    position: Vec<f64>,
    velocity: Vec<f64>,
    applied: Vec<f64>,
    time_s: f64,
    trunk: Trunk,
    forces: Forces,
    /// MuJoCo's error when it could not go on; nothing moves any more.
    failed: Option<ArrayString<200>>,
}

/// A servo's joint in the state.
#[derive(Clone, Copy, Debug)]
struct JointIndex {
    position: usize,
    velocity: usize,
    /// 1/(kg·m²) at the start: how the joint answers a torque.
    mobility: f64,
}

/// Friction of a gear that MuJoCo has no model of.
#[derive(Clone, Copy, Debug)]
struct Gear {
    /// `coulomb` is the model's `frictionloss`, and 0 here.
    joint: JointConfig,
    /// Before the last step, rad/s.
    velocity: f64,
    /// During the last step, N·m.
    applied: f64,
}

impl Gear {
    fn new(joint: &JointConfig) -> Self {
        Self { joint: JointConfig { coulomb: 0.0, ..*joint }, velocity: 0.0, applied: 0.0 }
    }

    /// What it takes from a torque at its joint, N·m. What comes from outside is what the last step has shown: the change of speed
    /// that the torque before does not explain.
    ///
    /// Half of what would stop the joint within a step: it may be lighter in another pose than where its mobility was measured.
    fn friction(&mut self, place: &JointIndex, velocity: f64, torque: f64, step_s: f64) -> f64 {
        if !self.joint.has_rich_friction() || place.mobility <= 0.0 {
            return 0.0;
        }
        let stops = 1.0 / (step_s * place.mobility);
        let outside = (velocity - self.velocity) * stops - self.applied;
        let most = self.joint.dry_friction(torque - outside, velocity);
        let friction = (0.5 * velocity * stops + torque + outside).clamp(-most, most);
        (self.velocity, self.applied) = (velocity, torque - friction);
        friction
    }
}

impl Mujoco {
    /// Loads a model and places it at its start.
    ///
    /// # Errors
    /// MuJoCo is not installed, or the model does not fit the binding.
    pub fn new(binding: &Binding) -> Result<Self, MujocoError> {
        let api = Api::open()?;
        let wrong = |what: String| MujocoError::Model { path: binding.model.clone(), what };
        let mut model = wrapper::load(api, &binding.model, binding.step_s, binding.friction)?;
        let layout = Layout::of(&model).map_err(wrong)?;
        let key =
            binding.keyframe.as_deref().map(|name| keyframe(&model, name)).transpose().map_err(wrong)?;
        let places: Result<Vec<JointIndex>, String> =
            binding.joints.iter().map(|name| place(&layout, name)).collect();
        let joints = places.map_err(wrong)?;
        let free = joints.first().and_then(|joint| layout.trunk_of(joint.velocity)).cloned();
        if free.is_none() && binding.payload_kg != 0.0 {
            return Err(wrong(
                "it has no trunk, a body with a free joint, that could carry `body.payload`".to_owned(),
            ));
        }
        // Without a trunk nothing moves the IMU.
        let imu = binding.imu.as_deref().filter(|_| free.is_some());
        let imu = imu.map(|name| imu_site(&model, name)).transpose().map_err(wrong)?;
        let step_s = model.timestep();
        model.reset(key);
        let size = |part| vec![0.0; model.size(part)];
        let mut body = Self {
            step_s,
            gears: binding.gears.iter().map(Gear::new).collect(),
            states: vec![JointState::default(); joints.len()],
            free,
            imu,
            joints,
            trunk_touch: model.find(Object::Sensor, &binding.trunk_touch).filter(|_| model.reads_sensors()),
            position: size(Part::Position),
            velocity: size(Part::Velocity),
            applied: size(Part::Applied),
            time_s: 0.0,
            trunk: Trunk::UPRIGHT,
            forces: Forces::default(),
            failed: None,
            model,
        };
        body.measure_mobility();
        if let Some(free) = &body.free {
            // The first three velocities of a free joint are the world's x, y and z.
            body.applied[free.velocity + 2] = -binding.payload_kg * GRAVITY;
        }
        body.model.reset(key);
        body.forward();
        body.read();
        Ok(body)
    }

    /// Computes what follows from the state, and leaves the state as it is: before 3.5 that alone changes where the solver
    /// begins.
    fn forward(&mut self) {
        let mut warm_start = vec![0.0; self.velocity.len()];
        self.model.get(Part::WarmStart, &mut warm_start);
        self.model.forward();
        self.model.set(Part::WarmStart, &warm_start);
    }

    /// CPU time of one second of simulation at the start pose, s: the median of many steps. Ends at the start again.
    pub fn cost(&mut self) -> f64 {
        let rest = (self.position.clone(), self.velocity.clone());
        let mut took: Vec<f64> = (0..COST_STEPS)
            .map(|_| {
                let from = Instant::now();
                self.model.step();
                from.elapsed().as_secs_f64()
            })
            .collect();
        self.model.set(Part::Position, &rest.0);
        self.model.set(Part::Velocity, &rest.1);
        self.model.set(Part::WarmStart, &vec![0.0; rest.1.len()]);
        self.model.set(Part::Time, &[self.time_s]);
        self.forward();
        took.sort_by(f64::total_cmp);
        took[COST_STEPS / 2] / self.step_s
    }

    /// The version of MuJoCo that simulates it.
    pub fn version(&self) -> String {
        self.model.version()
    }

    /// The model, if none was loaded since, as [`saved`](crate::saved) has it.
    ///
    /// # Errors
    /// The error of MuJoCo or the system.
    pub fn saved(&self) -> Result<String, MujocoError> {
        self.model.saved()
    }

    /// The model's mass, kg.
    pub fn mass(&self) -> f64 {
        self.model.mass()
    }

    /// Positions of all joints of the model, as MuJoCo orders them.
    pub fn positions(&self) -> &[f64] {
        &self.position
    }

    /// What the last step applied at the velocities of the model, N·m.
    pub fn applied(&self) -> &[f64] {
        &self.applied
    }

    /// MuJoCo's part of [`Body::step`] alone, under what [`Mujoco::applied`] was: to measure what the rest costs. Nothing is read.
    ///
    /// # Panics
    /// If these are not as many as the model has velocities.
    pub fn step_alone(&mut self, applied: &[f64]) {
        self.model.set(Part::Applied, applied);
        self.model.step();
    }

    /// Each joint by itself under a small torque, from the start: the change of its velocity is its mobility.
    fn measure_mobility(&mut self) {
        let still = self.velocities_after(None);
        for index in 0..self.joints.len() {
            let velocity = self.joints[index].velocity;
            let pushed = self.velocities_after(Some(velocity));
            let gained = (pushed[velocity] - still[velocity]) / (PROBE * self.step_s);
            self.joints[index].mobility = if gained.is_finite() { gained.max(0.0) } else { 0.0 };
        }
        self.applied.fill(0.0);
        self.model.set(Part::Applied, &self.applied);
    }

    /// Velocities after one step from rest, with a torque at one of them.
    fn velocities_after(&mut self, pushed: Option<usize>) -> Vec<f64> {
        let mut position = self.position.clone();
        self.model.get(Part::Position, &mut position);
        let rest = vec![0.0; self.velocity.len()];
        self.applied.fill(0.0);
        pushed.into_iter().for_each(|velocity| self.applied[velocity] = PROBE);
        self.model.set(Part::Velocity, &rest);
        self.model.set(Part::Applied, &self.applied);
        self.model.step();
        let mut after = rest.clone();
        self.model.get(Part::Velocity, &mut after);
        self.model.set(Part::Position, &position);
        self.model.set(Part::Velocity, &rest);
        self.model.set(Part::WarmStart, &rest);
        after
    }

    /// Reads where everything is.
    fn read(&mut self) {
        self.model.get(Part::Position, &mut self.position);
        self.model.get(Part::Velocity, &mut self.velocity);
        for (state, place) in self.states.iter_mut().zip(&self.joints) {
            *state = JointState {
                position: self.position[place.position],
                velocity: self.velocity[place.velocity],
            };
        }
        self.read_trunk();
    }

    fn read_trunk(&mut self) {
        let Some(Joint { position, velocity, .. }) = self.free else { return };
        let at = |from: usize| -> [f64; 3] { std::array::from_fn(|axis| self.velocity[from + axis]) };
        let attitude = std::array::from_fn(|part| self.position[position + 3 + part]);
        let ground = (0..CONTACTS).map(|number| self.model.contact(number)).sum::<f64>();
        let touch = self.trunk_touch.and_then(|sensor| self.model.scalar(sensor)).unwrap_or(0.0);
        self.forces.peak_ground = self.forces.peak_ground.max(ground);
        if touch > 0.0 && self.forces.contact_speed.is_none() {
            self.forces.contact_speed = Some(-self.forces.vertical_speed);
        }
        self.forces = Forces {
            height: self.position[position + 2],
            vertical_speed: at(velocity)[2],
            ground,
            trunk_touches: touch > 0.0,
            ..self.forces
        };
        let felt = self.imu.map_or([0.0; 3], |site| self.model.specific_force(site));
        let up = to_body(attitude, [0.0, 0.0, GRAVITY]);
        self.trunk = Trunk {
            position: std::array::from_fn(|axis| self.position[position + axis]),
            attitude,
            rate: at(velocity + 3),
            acceleration: std::array::from_fn(|axis| felt[axis] - up[axis]),
        };
    }

    /// What the servos do, as torques at this velocity. Damping is what it takes from the velocity of a free joint within the
    /// step, so it never turns one round.
    fn apply(&mut self, drives: &[Drive]) {
        for ((place, state), drive) in self.joints.iter().zip(&self.states).zip(drives) {
            self.applied[place.velocity] =
                drive.torque - place.damping(drive.damping, self.step_s) * state.velocity;
        }
        for ((place, state), gear) in self.joints.iter().zip(&self.states).zip(&mut self.gears) {
            let torque = &mut self.applied[place.velocity];
            *torque -= gear.friction(place, state.velocity, *torque, self.step_s);
        }
        self.model.set(Part::Applied, &self.applied);
    }

    /// MuJoCo starts again from its beginning after a NaN; nothing of that may pass for motion.
    fn fail(&mut self, text: ArrayString<200>) {
        self.failed = Some(text);
        self.states.iter_mut().for_each(|state| state.velocity = 0.0);
    }
}

impl JointIndex {
    /// The damping that, constant over a step, takes from the velocity of a free joint what `damping` takes from it.
    fn damping(&self, damping: f64, step_s: f64) -> f64 {
        let decay = damping * step_s * self.mobility;
        if decay > 0.0 { -(-decay).exp_m1() / decay * damping } else { damping }
    }
}

impl Body for Mujoco {
    fn longest_step_s(&self) -> f64 {
        self.step_s
    }

    fn step(&mut self, _: f64, drives: &[Drive]) {
        if self.failed.is_some() {
            return;
        }
        self.apply(drives);
        let warned = self.model.step();
        let mut time = [0.0];
        self.model.get(Part::Time, &mut time);
        if warned || time[0] <= self.time_s {
            let text = last_warning();
            return self.fail(text);
        }
        self.time_s = time[0];
        self.read();
    }

    fn joints(&self) -> &[JointState] {
        &self.states
    }

    fn has_trunk(&self) -> bool {
        self.free.is_some()
    }

    fn trunk(&self) -> Trunk {
        self.trunk
    }

    /// None without a trunk and a sensor that feels when it touches something.
    fn forces(&self) -> Option<Forces> {
        self.free.as_ref().and(self.trunk_touch).map(|_| self.forces)
    }

    fn forget_peaks(&mut self) {
        self.forces = Forces { contact_speed: None, peak_ground: 0.0, ..self.forces };
    }

    fn model_state(&self) -> Option<(&[f64], &[f64])> {
        Some((&self.position, &self.velocity))
    }

    fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}

fn keyframe(model: &Loaded, name: &str) -> Result<Id, String> {
    model.find(Object::Key, name).ok_or_else(|| {
        let known = model.names(Object::Key);
        if known.is_empty() {
            format!("it has no keyframe `{name}`, and none at all")
        } else {
            format!("it has no keyframe `{name}`; it has `{}`", known.join("`, `"))
        }
    })
}

fn imu_site(model: &Loaded, name: &str) -> Result<Id, String> {
    model.find(Object::Site, name).ok_or_else(|| {
        format!("it has no site `{name}`, where the robot's IMU is: add one to the trunk, or name another in `body.imu_site`")
    })
}

fn place(layout: &Layout, name: &str) -> Result<JointIndex, String> {
    let joint = layout.joint(name).ok_or_else(|| {
        let scalars = layout.joints.iter().filter(|joint| joint.kind == JointKind::Scalar);
        let (named, unnamed): (Vec<_>, Vec<_>) = scalars.map(|joint| joint.name.as_deref()).partition(Option::is_some);
        let unnamed = match unnamed.len() {
            0 => String::new(),
            more => format!(" and {more} without a name, which no servo can drive"),
        };
        format!(
            "it has no joint `{name}`; its joints are `{}`{unnamed}: name its joint in the servo's `model_joint`",
            named.into_iter().flatten().collect::<Vec<_>>().join("`, `")
        )
    })?;
    if joint.kind != JointKind::Scalar {
        return Err(format!("its joint `{name}` is no hinge"));
    }
    Ok(JointIndex { position: joint.position, velocity: joint.velocity, mobility: 0.0 })
}

/// A vector of the world in the body's frame.
fn to_body([w, x, y, z]: [f64; 4], v: [f64; 3]) -> [f64; 3] {
    let cross = |a: [f64; 3], b: [f64; 3]| {
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    };
    let axis = [-x, -y, -z];
    let twice = cross(axis, v).map(|part| 2.0 * part);
    let turned = cross(axis, twice);
    std::array::from_fn(|part| v[part] + w * twice[part] + turned[part])
}
