//! The servo that is looked for: its parameters, and the motion they give.

use crate::recording::{Known, Recording, Rig, Sample, TorqueCommand};
use khz_emu::{Drive, JointConfig, JointState, PositionServo, VoltageLaw};

/// Beyond this a simulated joint has run away, rad.
const AWAY: f64 = 1e4;

/// How a parameter's values lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Positive, known by its order of magnitude: a step is a share of it.
    Log,
    /// May be 0; a usual step is this.
    Linear(f64),
}

/// Something that is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// As robot files name it, where they have it.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The least it may be.
    pub low: f64,
    /// The most it may be.
    pub high: f64,
    /// How its values lie.
    pub scale: Scale,
    /// Where starts are taken from.
    pub starts: [f64; 2],
}

/// What friction is looked for, by bam's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Friction {
    /// Viscous and dry.
    M1,
    /// And more at standstill (Stribeck).
    M2,
    /// And more under load.
    #[default]
    M3,
    /// Both.
    M4,
}

/// How the servo follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    /// By its voltage; its motor and gain are looked for.
    Voltage,
    /// By its voltage, as its robot file knows it.
    Known,
    /// By torques.
    Torque,
}

/// Which parameters there are, and what is known of the recordings.
#[derive(Clone, Debug)]
pub struct Model {
    /// What is looked for, in the order of the values.
    pub parameters: Vec<Parameter>,
    control: Control,
    friction: Friction,
    /// Duty per rad and per unit of the gain's register, where others have measured it.
    gain: Option<f64>,
    /// The rig is known from the recordings: what is left of the inertia is the rotor's.
    has_rig: bool,
}

/// The longest step that is simulated, s.
#[derive(Clone, Copy, Debug)]
pub struct Step(pub f64);

/// Orders of magnitude, from which bounds and starts follow.
struct Orders {
    has_rig: bool,
    /// The highest speed, rad/s.
    speed: f64,
    /// kg·m².
    inertia: f64,
    /// The most torque that gravity needs, N·m.
    gravity: f64,
    /// The highest gain, as its register has it.
    kp: f64,
    supply_v: f64,
}

impl Orders {
    fn of(recordings: &[&Recording]) -> Self {
        let most = |of: fn(&Recording) -> f64| recordings.iter().map(|r| of(r)).fold(0.0, f64::max);
        let has_rig = recordings.iter().all(|recording| recording.rig.is_some());
        let (inertia, gravity) = if has_rig {
            (most(|r| r.rig.map_or(0.0, |rig| rig.inertia)), most(|r| r.rig.map_or(0.0, |rig| rig.gravity)))
        } else {
            (0.01, 0.5)
        };
        Self {
            has_rig,
            speed: most(Recording::top_speed).max(0.1),
            inertia,
            // A rig without gravity: torques as a pendulum of 0.5 m would need.
            gravity: gravity.max(20.0 * inertia),
            kp: most(|r| r.kp).max(1e-9),
            supply_v: most(|r| r.supply_v),
        }
    }

    /// No-load speeds and stall torques that make sense of what was seen.
    fn motor(&self) -> [Parameter; 3] {
        let (speed, supply_v, gravity) = (self.speed, self.supply_v, self.gravity);
        let kt = [supply_v / (4.0 * speed), supply_v / (1.1 * speed)];
        let stall = [1.5 * gravity, 15.0 * gravity];
        [
            log("kt", "N·m/A", [0.02 * kt[0], 20.0 * kt[1]], kt),
            log("stall_torque", "N·m", [0.1 * gravity, 1000.0 * gravity], stall),
            linear("sag", "", [0.0, 5.0], 0.1, [0.0, 0.4]),
        ]
    }

    fn gain(&self) -> Parameter {
        let kp = self.kp;
        log("gain", "1/rad", [0.02 / kp, 2000.0 / kp], [1.0 / kp, 30.0 / kp])
    }

    /// What the joint moves: on a rig, whose own inertia is known, that of the rotor.
    fn load(&self) -> Vec<Parameter> {
        let inertia = self.inertia;
        let mut load = if self.has_rig {
            let starts = [0.05 * inertia, inertia];
            vec![log("armature", "kg·m²", [1e-4 * inertia, 100.0 * inertia], starts)]
        } else {
            vec![
                log("inertia", "kg·m²", [1e-6, 100.0], [0.001, 0.1]),
                linear("gravity", "N·m", [0.0, 500.0], 0.1, [0.0, 1.0]),
            ]
        };
        // A rig hangs straight down, a robot's joint anywhere.
        let hangs = if self.has_rig { 0.03 } else { 1.6 };
        load.push(linear("gravity_at", "rad", [-3.2, 3.2], 0.02, [-hangs, hangs]));
        load
    }

    fn friction(&self, friction: Friction) -> Vec<Parameter> {
        let (gravity, step) = (self.gravity, 0.02 * self.gravity);
        let dry = [0.01 * gravity, 0.15 * gravity];
        let mut all = vec![
            linear("viscous", "N·m·s/rad", [0.0, 100.0 * gravity], step, [0.0, 0.1 * gravity]),
            linear("coulomb", "N·m", [0.0, 100.0 * gravity], step, dry),
        ];
        if matches!(friction, Friction::M3 | Friction::M4) {
            all.push(linear("load_friction", "", [0.0, 0.95], 0.05, [0.02, 0.3]));
        }
        if matches!(friction, Friction::M2 | Friction::M4) {
            all.push(linear("stribeck", "N·m", [0.0, 10.0 * gravity], step, [0.0, 0.1 * gravity]));
            all.push(log("stribeck_speed", "rad/s", [0.02, 10.0], [0.1, 1.0]));
        }
        if friction == Friction::M4 {
            all.push(linear("stribeck_load", "", [0.0, 0.95], 0.05, [0.0, 0.2]));
        }
        all
    }
}

/// A parameter that is known by its order of magnitude.
fn log(name: &'static str, unit: &'static str, [low, high]: [f64; 2], starts: [f64; 2]) -> Parameter {
    Parameter { name, unit, low, high, scale: Scale::Log, starts }
}

/// A parameter that may be 0, with its usual step.
fn linear(
    name: &'static str,
    unit: &'static str,
    [low, high]: [f64; 2],
    step: f64,
    starts: [f64; 2],
) -> Parameter {
    Parameter { name, unit, low, high, scale: Scale::Linear(step), starts }
}

impl Model {
    /// What can be looked for in these recordings, at least one. Bounds and starts follow from them.
    pub fn of(recordings: &[&Recording], friction: Friction) -> Self {
        let control = match recordings {
            all if all.iter().any(|recording| recording.has_torque_control()) => Control::Torque,
            all if all.iter().all(|recording| recording.known.is_some()) => Control::Known,
            _ => Control::Voltage,
        };
        let (orders, gain) = (Orders::of(recordings), known_gain(recordings));
        let mut parameters = Vec::new();
        if control == Control::Voltage {
            parameters.extend(orders.motor());
            parameters.extend(gain.is_none().then(|| orders.gain()));
        }
        if control != Control::Torque {
            let speed = orders.speed;
            let starts = [0.5 * speed, 4.0 * speed];
            parameters.push(log("goal_speed", "rad/s", [0.05 * speed, 20.0 * speed], starts));
        }
        parameters.push(linear("delay_ms", "ms", [0.0, 100.0], 5.0, [0.0, 50.0]));
        parameters.extend(orders.load());
        parameters.extend(orders.friction(friction));
        Self { parameters, control, friction, gain, has_rig: orders.has_rig }
    }

    /// The friction looked for.
    pub fn friction(&self) -> Friction {
        self.friction
    }

    /// Motor and gain are looked for, not taken as a robot file has them.
    pub fn finds_motor(&self) -> bool {
        self.control == Control::Voltage
    }

    /// The value of a parameter; `None` if it is not looked for.
    pub fn value(&self, values: &[f64], name: &str) -> Option<f64> {
        self.parameters.iter().position(|parameter| parameter.name == name).map(|index| values[index])
    }

    /// The joint of these values, with the rig and the stops of this recording.
    pub fn joint(&self, values: &[f64], rig: Option<Rig>, stops: Option<[f64; 2]>) -> JointConfig {
        let value = |name, otherwise| self.value(values, name).unwrap_or(otherwise);
        let rig = rig.filter(|_| self.has_rig);
        JointConfig {
            inertia: rig.map_or_else(|| value("inertia", 0.01), |rig| rig.inertia),
            armature: value("armature", 0.0),
            viscous: value("viscous", 0.0),
            coulomb: value("coulomb", 0.0),
            load_friction: value("load_friction", 0.0),
            stribeck: value("stribeck", 0.0),
            stribeck_load: value("stribeck_load", 0.0),
            stribeck_speed: value("stribeck_speed", 0.2),
            gravity: rig.map_or_else(|| value("gravity", 0.0), |rig| rig.gravity),
            gravity_at: value("gravity_at", 0.0),
            stops,
            ..JointConfig::default()
        }
    }

    /// The motor of these values at this gain register and supply, V.
    pub fn motor(&self, values: &[f64], kp: f64, supply_v: f64) -> VoltageLaw {
        let value = |name, otherwise| self.value(values, name).unwrap_or(otherwise);
        let kt = value("kt", 1.0);
        let (whole, share) = (kt * supply_v / value("stall_torque", 1.0), value("sag", 0.0));
        VoltageLaw {
            kt,
            resistance: whole / (1.0 + share),
            sag_resistance: whole * share / (1.0 + share),
            gain: kp * self.gain.unwrap_or_else(|| value("gain", 1.0)),
            duty_limit: 1.0,
            goal_speed: self.value(values, "goal_speed"),
            delay_ms: value("delay_ms", 0.0),
        }
    }

    /// The law of the servo that made a recording: as its robot file knows it, or as these values have it.
    pub fn law(&self, values: &[f64], recording: &Recording) -> VoltageLaw {
        match recording.known.filter(|_| self.control == Control::Known) {
            Some(known) => VoltageLaw { goal_speed: self.value(values, "goal_speed"), ..known.law },
            None => self.motor(values, recording.kp, recording.supply_v),
        }
    }

    /// Position at the time of each sample, rad, from the first state on, never corrected. Appends to `positions`.
    pub fn simulate(&self, values: &[f64], recording: &Recording, step: Step, positions: &mut Vec<f64>) {
        let first = recording.samples[0];
        let joint = self.joint(values, recording.rig, recording.stops);
        let mut rotor = JointState { position: first.position, velocity: recording.velocity };
        let mut state = rotor;
        let delay_s = 1e-3 * self.value(values, "delay_ms").unwrap_or(0.0) - recording.lead_s;
        let law = self.law(values, recording);
        let mut servo = PositionServo::new(law, first.position);
        servo.set_law(VoltageLaw { delay_ms: 1e3 * delay_s.max(0.0), ..law });
        servo.aim(first.goal);
        let mut commands = Delayed::new(delay_s);
        for (index, sample) in recording.samples.iter().enumerate() {
            positions.push(state.position.clamp(-AWAY, AWAY));
            let Some(next) = recording.samples.get(index + 1) else { break };
            let steps = ((next.time_s - sample.time_s) / step.0 - 1e-9).ceil().max(1.0);
            let dt_s = (next.time_s - sample.time_s) / steps;
            // The next goal comes before its sample, if it has to travel.
            let after_s = (next.time_s - sample.time_s + delay_s).max(0.0);
            let duty_limit = law.duty_limit * share(recording, sample);
            servo.set_law(VoltageLaw { delay_ms: 1e3 * after_s, duty_limit, ..law });
            servo.aim(next.goal);
            for part in 0..steps as u32 {
                let drive = match (sample.on, self.control == Control::Torque) {
                    (false, _) => {
                        servo.pass(dt_s);
                        Drive::default()
                    }
                    (true, false) => servo.step(state, recording.supply_v, dt_s),
                    (true, true) => {
                        let now_s = sample.time_s + f64::from(part) * dt_s;
                        torque_control(&commands.during(&recording.samples, now_s, dt_s), state)
                    }
                };
                joint.step(&mut state, &mut rotor, dt_s, drive, 0.0);
            }
        }
    }
}

/// Duty per rad and per unit of the gain's register, if all recordings are of a servo that is known to have this one: an XL330 has 4096
/// steps per turn, divides its gain by 256 and counts its duty to 885. Its register of the duty shows the same at every error of its 16
/// public recordings.
fn known_gain(recordings: &[&Recording]) -> Option<f64> {
    let is_known = recordings.iter().all(|recording| recording.motor == "xl330");
    is_known.then_some(4096.0 / std::f64::consts::TAU / (256.0 * 885.0))
}

/// The share of its duty that a servo may use: its own, or what the greatest torque of its command comes to, which it is sent in thousandths.
fn share(recording: &Recording, sample: &Sample) -> f64 {
    let Some(Known { law, share }) = recording.known else { return 1.0 };
    let stalled = law.kt / law.resistance * recording.supply_v;
    let commanded = |command: TorqueCommand| (1000.0 * command.most / stalled).floor() / 1000.0;
    sample.torque.map_or(share, |command| share.min(commanded(command)))
}

/// A servo with torque control: position and velocity gains, within a torque.
fn torque_control(sample: &Sample, state: JointState) -> Drive {
    let Some(command) = sample.torque else { return Drive::default() };
    let steady = command.kp * (sample.goal - state.position) + command.kd * command.velocity + command.torque;
    let torque = steady - command.kd * state.velocity;
    if torque.abs() < command.most {
        Drive { torque: steady, damping: command.kd }
    } else {
        Drive { torque: torque.clamp(-command.most, command.most), damping: 0.0 }
    }
}

/// Commands that take effect later than they were sent.
struct Delayed {
    delay_s: f64,
    newest: usize,
}

impl Delayed {
    fn new(delay_s: f64) -> Self {
        Self { delay_s, newest: 0 }
    }

    /// What has an effect during this step: the newest, and the one before for the part of the step before it. Times must not go back.
    fn during(&mut self, samples: &[Sample], now_s: f64, dt_s: f64) -> Sample {
        let end_s = now_s + dt_s - self.delay_s;
        while samples.get(self.newest + 1).is_some_and(|next| next.time_s < end_s) {
            self.newest += 1;
        }
        let newest = samples[self.newest];
        let share = (end_s - newest.time_s) / dt_s;
        match samples.get(self.newest.wrapping_sub(1)) {
            Some(before) if share < 1.0 => blended(before, &newest, share.max(0.0)),
            _ => newest,
        }
    }
}

/// This share of the newer command.
fn blended(older: &Sample, newer: &Sample, share: f64) -> Sample {
    let mix = |old: f64, new: f64| old + (new - old) * share;
    let (Some(old), Some(new)) = (older.torque, newer.torque) else { return *newer };
    let torque = TorqueCommand {
        kp: mix(old.kp, new.kp),
        kd: mix(old.kd, new.kd),
        velocity: mix(old.velocity, new.velocity),
        torque: mix(old.torque, new.torque),
        most: mix(old.most, new.most),
    };
    Sample { goal: mix(older.goal, newer.goal), torque: Some(torque), ..*newer }
}
