//! What is different between recorded and replayed, joint by joint.

use khz_loop::{PositionCommand, ServoCommand, ServoState};
use serde::Serialize;

/// A joint with what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Joint<T> {
    /// Its name.
    pub name: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: T,
}

/// How the commands of a joint differ.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Differences {
    /// Ticks in which they do.
    pub ticks: u64,
    /// The first difference.
    pub first: Option<Apart>,
    /// The largest difference.
    pub largest: Option<Apart>,
}

/// One difference. A command that has no such number is `null`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Apart {
    /// When.
    #[serde(flatten)]
    pub place: AtTick,
    /// What of the command: `kind` (0 stop, 1 damp, 2 position), or one of its numbers.
    pub what: &'static str,
    /// The log's.
    pub recorded: f64,
    /// The controller's.
    pub replayed: f64,
}

/// A tick.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct AtTick {
    /// Its number.
    pub tick: u64,
    /// Since the start of the log, s.
    pub time_s: f64,
}

/// How a simulated joint moved apart from the recorded one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JointDeviation {
    /// rad.
    pub position: Deviation,
    /// rad/s.
    pub velocity: Deviation,
    /// N·m.
    pub torque: Deviation,
}

/// How two series differ, over the ticks that have both.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Deviation {
    /// Root mean square of the differences.
    pub rms: f64,
    /// The largest difference.
    pub largest: f64,
    /// When it was.
    #[serde(flatten)]
    pub place: AtTick,
    /// Ticks that have both.
    pub samples: u64,
}

/// Compares commands.
pub(super) struct Commands {
    tolerance: f64,
    joints: Vec<Joint<Differences>>,
}

impl Commands {
    pub fn of(names: &[String], tolerance: f64) -> Self {
        Self { tolerance, joints: joints(names) }
    }

    /// `at`: number of the tick, and ns since the start of the log.
    pub fn compare(&mut self, at: (u64, i64), recorded: &[ServoCommand], replayed: &[ServoCommand]) {
        let place = AtTick::of(at);
        for (joint, (recorded, replayed)) in self.joints.iter_mut().zip(recorded.iter().zip(replayed)) {
            let (recorded, replayed) = (fields(recorded), fields(replayed));
            let mut differs = false;
            for ((what, recorded), (_, replayed)) in recorded.into_iter().zip(replayed) {
                // As the log keeps it.
                let replayed = f64::from(replayed as f32);
                let apart = Apart { place, what, recorded, replayed };
                let tolerance = if what == "kind" { 0.0 } else { self.tolerance };
                if apart.distance() <= tolerance * recorded.abs().max(1.0) {
                    continue;
                }
                differs = true;
                joint.outcome.note(apart);
            }
            joint.outcome.ticks += u64::from(differs);
        }
    }

    pub fn finish(self) -> Vec<Joint<Differences>> {
        self.joints
    }
}

impl Differences {
    fn note(&mut self, apart: Apart) {
        self.first.get_or_insert(apart);
        if self.largest.is_none_or(|largest| apart.distance() > largest.distance()) {
            self.largest = Some(apart);
        }
    }
}

impl Apart {
    /// Infinite if only one of them is a number; 0 if neither is.
    pub fn distance(&self) -> f64 {
        match (self.recorded.is_nan(), self.replayed.is_nan()) {
            (true, true) => 0.0,
            (false, false) if self.recorded == self.replayed => 0.0,
            (false, false) => (self.recorded - self.replayed).abs(),
            _ => f64::INFINITY,
        }
    }
}

impl AtTick {
    fn of((tick, since_ns): (u64, i64)) -> Self {
        Self { tick, time_s: since_ns as f64 * 1e-9 }
    }
}

/// A command as the log has it.
fn fields(command: &ServoCommand) -> [(&'static str, f64); 7] {
    let (kind, target) = match command {
        ServoCommand::Stop => (0.0, None),
        ServoCommand::Damp => (1.0, None),
        ServoCommand::Position(target) => (2.0, Some(target)),
    };
    let of = |field: fn(&PositionCommand) -> f64| target.map_or(f64::NAN, field);
    [
        ("kind", kind),
        ("position", of(|target| target.position)),
        ("velocity", of(|target| target.velocity)),
        ("torque", of(|target| target.torque)),
        ("kp_scale", of(|target| target.kp_scale)),
        ("kd_scale", of(|target| target.kd_scale)),
        ("max_torque", of(|target| target.max_torque)),
    ]
}

/// Compares motion.
pub(super) struct Motion(Vec<Joint<JointDeviation>>);

impl Motion {
    pub fn of(names: &[String]) -> Self {
        Self(joints(names))
    }

    /// `at` as in [`Commands::compare`].
    pub fn compare(&mut self, at: (u64, i64), recorded: &[ServoState], simulated: &[ServoState]) {
        let place = AtTick::of(at);
        for (joint, (recorded, simulated)) in self.0.iter_mut().zip(recorded.iter().zip(simulated)) {
            if !recorded.fresh || !simulated.fresh {
                continue;
            }
            let outcome = &mut joint.outcome;
            outcome.position.note(place, simulated.position - recorded.position);
            outcome.velocity.note(place, simulated.velocity - recorded.velocity);
            outcome.torque.note(place, simulated.torque - recorded.torque);
        }
    }

    pub fn finish(self) -> Vec<Joint<JointDeviation>> {
        let mut joints = self.0;
        for joint in &mut joints {
            let JointDeviation { position, velocity, torque } = &mut joint.outcome;
            [position, velocity, torque].into_iter().for_each(Deviation::finish);
        }
        joints
    }
}

impl Deviation {
    /// A quantity that a servo does not report is NaN.
    fn note(&mut self, place: AtTick, difference: f64) {
        if !difference.is_finite() {
            return;
        }
        self.samples += 1;
        self.rms += difference * difference;
        if difference.abs() > self.largest {
            (self.largest, self.place) = (difference.abs(), place);
        }
    }

    /// Until here, the sum of squares.
    fn finish(&mut self) {
        self.rms = if self.samples == 0 { f64::NAN } else { (self.rms / self.samples as f64).sqrt() };
        if self.samples == 0 {
            self.largest = f64::NAN;
        }
    }
}

fn joints<T: Default>(names: &[String]) -> Vec<Joint<T>> {
    names.iter().map(|name| Joint { name: name.clone(), outcome: T::default() }).collect()
}
