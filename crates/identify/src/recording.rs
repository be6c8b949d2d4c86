//! What a real servo did: its goals, when they were sent, and where it then was.

use khz_emu::VoltageLaw;
use serde_json::Value;

/// Samples of which a recording has at least so many.
const LEAST: usize = 20;
/// No servo turns as far, rad; degrees and steps of an encoder do.
const FARTHEST: f64 = 300.0;
/// Less than this is no motion that could be evaluated, rad.
const LEAST_WAY: f64 = 0.01;
/// The acceleration of gravity, m/s², as bam has it.
const GRAVITY: f64 = 9.80665;

/// What a servo was commanded and did at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// s, from any origin.
    pub time_s: f64,
    /// Measured, rad.
    pub position: f64,
    /// The goal that was sent then, rad.
    pub goal: f64,
    /// Its output was on.
    pub on: bool,
    /// The position was measured then; it is not valid for another time.
    pub measured: bool,
    /// The rest of a command to a servo with torque control; `None` for one that follows positions by its voltage.
    pub torque: Option<TorqueCommand>,
}

/// What a command to a servo with torque control has besides its position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TorqueCommand {
    /// N·m/rad.
    pub kp: f64,
    /// N·m·s/rad.
    pub kd: f64,
    /// rad/s.
    pub velocity: f64,
    /// N·m.
    pub torque: f64,
    /// N·m.
    pub most: f64,
}

/// A servo that follows positions by its voltage, as far as its robot file knows it: delay and limit of the goal's speed are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Its motor and gain.
    pub law: VoltageLaw,
    /// The share of its duty that it may use.
    pub share: f64,
}

/// The load on the servo, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rig {
    /// kg·m².
    pub inertia: f64,
    /// Greatest torque of gravity, N·m.
    pub gravity: f64,
}

/// One recording, whole and checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Where it is from, for messages.
    pub name: String,
    /// Under which conditions it was made; equal texts are the same condition.
    pub condition: String,
    /// At least 20, in the order of their times.
    pub samples: Vec<Sample>,
    /// rad/s at the first sample.
    pub velocity: f64,
    /// `None` if unknown.
    pub rig: Option<Rig>,
    /// The gain as the servo's register has it; 1 if unknown.
    pub kp: f64,
    /// V.
    pub supply_v: f64,
    /// The servo's type as bam names it; empty if not given.
    pub motor: String,
    /// The servo as a robot file knows it; `None` if there is none, or if it has torque control.
    pub known: Option<Known>,
    /// End stops of the joint, rad, where they are known.
    pub stops: Option<[f64; 2]>,
    /// A goal came this long before the position beside it was measured, s.
    pub lead_s: f64,
    /// The step of its positions, rad; 0 if unknown.
    pub step: f64,
    /// What was left out of it, for a person; empty if nothing was.
    pub left_out: String,
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}")]
pub struct Unusable {
    /// The recording.
    pub name: String,
    /// What is wrong with it, and what to do.
    pub what: String,
}

/// Columns of a CSV file by their names in its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Time, s.
    pub time: String,
    /// Goal, rad.
    pub goal: String,
    /// Position, rad.
    pub position: String,
}

impl Default for Columns {
    fn default() -> Self {
        Self { time: "time".to_owned(), goal: "goal".to_owned(), position: "position".to_owned() }
    }
}

impl Recording {
    /// A recording in bam's format: JSON with `mass` (kg), `length` (m), `kp`, `vin` (V) and `entries`. Allocates.
    ///
    /// # Errors
    /// What is missing or makes no sense.
    pub fn from_bam(name: &str, text: &str) -> Result<Self, Unusable> {
        let wrong = |what: String| Unusable { name: name.to_owned(), what };
        let json: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let number = |key: &str| {
            let value = json[key].as_f64().filter(|value| value.is_finite() && *value > 0.0);
            value.ok_or_else(|| wrong(format!("it needs `{key}`, a number above 0")))
        };
        let (mass, length, kp, supply_v) =
            (number("mass")?, number("length")?, number("kp")?, number("vin")?);
        // Both spellings are in use.
        let arm = ["arm_mass", "arm-mass"].iter().find_map(|key| json[*key].as_f64()).unwrap_or(0.0);
        let entries = json["entries"].as_array().ok_or_else(|| wrong("it has no `entries`".to_owned()))?;
        let samples: Option<Vec<Sample>> = entries.iter().map(entry).collect();
        let samples = samples.ok_or_else(|| {
            wrong(
                "each of its entries needs the numbers `timestamp`, `goal_position` and `position`"
                    .to_owned(),
            )
        })?;
        let trajectory = json["trajectory"].as_str().unwrap_or("?");
        let recording = Self {
            name: name.to_owned(),
            condition: format!("{mass} kg, {length} m, kp {kp}, {trajectory}"),
            velocity: entries.first().and_then(|entry| entry["speed"].as_f64()).unwrap_or(0.0),
            samples,
            rig: Some(Rig {
                inertia: (mass + arm / 3.0) * length * length,
                gravity: (mass + arm / 2.0) * length * GRAVITY,
            }),
            kp,
            supply_v,
            motor: json["motor"].as_str().unwrap_or_default().to_owned(),
            ..Self::default()
        };
        recording.checked()
    }

    /// A recording in CSV with a line of names; separated by commas, semicolons or tabs. Allocates.
    ///
    /// # Errors
    /// A column is missing, or something is no number or makes no sense.
    pub fn from_csv(name: &str, text: &str, columns: &Columns, supply_v: f64) -> Result<Self, Unusable> {
        let wrong = |what: String| Unusable { name: name.to_owned(), what };
        // A mark that spreadsheets put before their text.
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        let (_, head) = lines.next().ok_or_else(|| wrong("it is empty".to_owned()))?;
        let separator = [',', ';', '\t'].into_iter().find(|mark| head.contains(*mark)).unwrap_or(',');
        let names: Vec<&str> = head.split(separator).map(|name| name.trim().trim_matches('"')).collect();
        let find = |wanted: &str| {
            let found = names.iter().position(|name| *name == wanted);
            found
                .ok_or_else(|| wrong(format!("it has no column `{wanted}`; it has `{}`", names.join("`, `"))))
        };
        let wanted = [find(&columns.time)?, find(&columns.goal)?, find(&columns.position)?];
        let mut samples = Vec::new();
        for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
            let cells: Vec<&str> = text.split(separator).collect();
            let number = |column: usize| cells.get(column).and_then(|cell| cell.trim().parse::<f64>().ok());
            let [Some(time_s), Some(goal), Some(position)] = wanted.map(number) else {
                return Err(wrong(format!("line {} has no numbers in its columns", line + 1)));
            };
            samples.push(Sample { time_s, goal, position, on: true, measured: true, torque: None });
        }
        let recording = Self {
            name: name.to_owned(),
            condition: name.to_owned(),
            samples,
            kp: 1.0,
            supply_v,
            ..Self::default()
        };
        recording.checked()
    }

    /// The recording, if it can be evaluated.
    ///
    /// # Errors
    /// Too few samples, no motion, times that go back, numbers that no joint has.
    pub fn checked(self) -> Result<Self, Unusable> {
        match self.wrong() {
            Some(what) => Err(Unusable { name: self.name, what }),
            None => Ok(self),
        }
    }

    fn wrong(&self) -> Option<String> {
        if self.samples.len() < LEAST {
            return Some(format!("it has {} samples; {LEAST} are the least", self.samples.len()));
        }
        let numbers = |sample: &Sample| [sample.time_s, sample.goal, sample.position];
        if let Some(at) = self.samples.iter().position(|s| !numbers(s).iter().all(|n| n.is_finite())) {
            return Some(format!("sample {at} has a number that is not finite"));
        }
        let gap = |pair: &[Sample]| pair[1].time_s - pair[0].time_s;
        if let Some(at) = self.samples.windows(2).position(|pair| gap(pair) <= 0.0) {
            return Some(format!(
                "its time does not advance after sample {at}: give its samples in order, each once"
            ));
        }
        if let Some(at) = self.samples.windows(2).position(|pair| gap(pair) > 1.0) {
            return Some(format!(
                "{:.1} s are missing after sample {at}: times are in seconds; cut it there",
                gap(&self.samples[at..at + 2])
            ));
        }
        let far = |sample: &Sample| sample.position.abs() > FARTHEST || sample.goal.abs() > FARTHEST;
        if let Some(at) = self.samples.iter().position(far) {
            return Some(format!("sample {at} is beyond {FARTHEST} rad: are these degrees or steps?"));
        }
        if self.way() < LEAST_WAY {
            return Some(format!("it moves by {:.4} rad: nothing can be identified from it", self.way()));
        }
        None
    }

    /// From the least to the greatest position, rad.
    fn way(&self) -> f64 {
        let positions = || self.samples.iter().map(|sample| sample.position);
        positions().fold(f64::MIN, f64::max) - positions().fold(f64::MAX, f64::min)
    }

    /// The standard deviation of its positions, rad.
    pub fn spread(&self) -> f64 {
        let count = self.samples.len() as f64;
        let mean = self.samples.iter().map(|sample| sample.position).sum::<f64>() / count;
        (self.samples.iter().map(|sample| (sample.position - mean).powi(2)).sum::<f64>() / count).sqrt()
    }

    /// Where it stands at an end of its way for a while although its goal is further, rad.
    pub fn stands_at(&self) -> Option<f64> {
        let positions = || self.samples.iter().map(|sample| sample.position);
        let near = 2.0 * self.step.max(1e-4);
        let ends =
            [(positions().fold(f64::MIN, f64::max), 1.0), (positions().fold(f64::MAX, f64::min), -1.0)];
        let pressed = |(end, sign): &(f64, f64)| {
            let is_there = |sample: &&Sample| {
                (sample.position - end).abs() < near && sign * (sample.goal - end) > 10.0 * near
            };
            self.samples.iter().filter(is_there).count() * 50 > self.samples.len()
        };
        ends.into_iter().find(pressed).map(|(end, _)| end)
    }

    /// s.
    pub fn duration_s(&self) -> f64 {
        self.samples[self.samples.len() - 1].time_s - self.samples[0].time_s
    }

    /// How fast it moved over 50 ms at most, rad/s.
    pub fn top_speed(&self) -> f64 {
        let mut from = 0;
        let mut top: f64 = 0.0;
        for (at, sample) in self.samples.iter().enumerate() {
            while sample.time_s - self.samples[from + 1].time_s > 0.05 && from + 1 < at {
                from += 1;
            }
            let took = sample.time_s - self.samples[from].time_s;
            if took >= 0.04 {
                top = top.max((sample.position - self.samples[from].position).abs() / took);
            }
        }
        top
    }

    /// Its servo follows by torques, not by a voltage.
    pub fn has_torque_control(&self) -> bool {
        self.known.is_none() && self.samples.iter().any(|sample| sample.torque.is_some())
    }
}

fn entry(entry: &Value) -> Option<Sample> {
    Some(Sample {
        time_s: entry["timestamp"].as_f64()?,
        goal: entry["goal_position"].as_f64()?,
        position: entry["position"].as_f64()?,
        on: entry["torque_enable"].as_bool().unwrap_or(true),
        measured: true,
        torque: None,
    })
}
