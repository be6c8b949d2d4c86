//! From states to observations: terms, clipped and scaled in float32 as trainers do it, and their history.

use super::settings::{Advance, Fill, HistoryConfig, Layout, ObserveConfig, Order, Term};
use super::signals;
use khz_loop::controller::{ControlError, record};
use khz_loop::state::RobotState;

/// What an observation is of, beside a state.
#[derive(Debug)]
pub(super) struct Joints {
    /// The servo of each.
    pub(super) servos: Vec<usize>,
    pub(super) names: Vec<String>,
    pub(super) default: Vec<f64>,
}

/// Puts observations together.
#[derive(Debug)]
pub(super) struct Observation {
    joints: Joints,
    terms: Vec<Kept>,
    history: HistoryConfig,
    /// Seconds from one decision to the next.
    period_s: f64,
    /// The newest first.
    actions: Vec<Vec<f32>>,
    /// Where the last decision wants the joints, rad.
    targets: Vec<f64>,
    decisions: u32,
}

/// A term with the values it keeps, the oldest first.
#[derive(Debug)]
struct Kept {
    config: ObserveConfig,
    len: usize,
    clip: Vec<[f32; 2]>,
    scale: Vec<f32>,
    /// Where its signals are in a state.
    signals: Vec<usize>,
    values: Vec<f32>,
}

impl Observation {
    /// # Errors
    /// What does not fit together.
    pub(super) fn new(
        terms: &[ObserveConfig],
        history: &HistoryConfig,
        joints: Joints,
        period_s: f64,
    ) -> Result<Self, ControlError> {
        let count = joints.names.len();
        let kept = terms.iter().map(|term| Kept::new(term, terms, count)).collect::<Result<Vec<_>, _>>()?;
        if history.layout == Layout::Time
            && kept.iter().any(|term| term.config.history != kept[0].config.history)
        {
            return Err(wrong("`layout = \"time\"` needs the same `history` of every term".into()));
        }
        let oldest = terms.iter().map(|term| term.age as usize).max().unwrap_or(0);
        let actions = vec![vec![0.0; count]; oldest + 1];
        let targets = joints.default.clone();
        Ok(Self { joints, terms: kept, history: history.clone(), period_s, actions, targets, decisions: 0 })
    }

    /// How many numbers it has.
    pub(super) fn len(&self) -> usize {
        self.terms.iter().map(|term| term.values.len()).sum()
    }

    /// The newest numbers of every term, as a model sees them.
    pub(super) fn newest(&self, into: &mut Vec<f32>) {
        into.clear();
        self.terms.iter().for_each(|term| into.extend_from_slice(term.frame(term.frames() - 1)));
    }

    /// Its terms, as a log names them: one that is there several times has a number from the second on.
    pub(super) fn terms(&self) -> Vec<record::Term> {
        let mut offset = 0;
        let one = |(place, term): (usize, &Kept)| {
            let word = term.config.term.word();
            let same =
                self.terms[..place].iter().filter(|other| other.config.term == term.config.term).count();
            let name = if same > 0 { format!("{word}_{}", same + 1) } else { word.to_owned() };
            let from = offset;
            offset += term.values.len() as u32;
            record::Term {
                name,
                offset: from,
                len: term.len as u32,
                history: term.config.history,
                clip: term.config.clip.iter().map(|pair| pair.map(|bound| bound as f32)).collect(),
                scale: term.scale.clone(),
            }
        };
        self.terms.iter().enumerate().map(one).collect()
    }

    /// Its terms with their places, as an error shows them.
    pub(super) fn table(&self) -> String {
        let mut first = 0;
        let one = |term: &Kept| {
            let from = first;
            first += term.values.len();
            let times = if term.config.history > 1 {
                format!(" ({} × {})", term.len, term.config.history)
            } else {
                String::new()
            };
            format!("{} {from}..{first}{times}", term.config.term)
        };
        self.terms.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Whether a term is of the IMU.
    pub(super) fn needs_imu(&self) -> bool {
        self.terms.iter().any(|term| term.config.term.is_of_imu())
    }

    /// The next observation is the first.
    pub(super) fn begin(&mut self) {
        self.decisions = 0;
        self.actions.iter_mut().for_each(|action| action.fill(0.0));
        self.targets.copy_from_slice(&self.joints.default);
    }

    /// Takes a state, and writes the observation of it.
    ///
    /// # Errors
    /// A number of it is none; the text names the term and the number. Nothing is kept of the state then but in the terms before.
    pub(super) fn observe(&mut self, state: &RobotState, into: &mut [f32]) -> Result<(), ControlError> {
        let is_first = self.decisions == 0;
        for number in 0..self.terms.len() {
            self.take(number, state)?;
            let term = &mut self.terms[number];
            if is_first {
                term.fill(self.history.fill);
            }
        }
        self.decisions = self.decisions.saturating_add(1);
        self.write(into);
        Ok(())
    }

    /// The policy's action, and where that wants the joints.
    pub(super) fn acted(&mut self, action: &[f32], targets: &[f64]) {
        self.targets.copy_from_slice(targets);
        self.actions.rotate_right(1);
        self.actions[0].copy_from_slice(action);
    }

    /// The newest value of a term.
    fn take(&mut self, number: usize, state: &RobotState) -> Result<(), ControlError> {
        let (joints, before) = (&self.joints, (&self.actions[..], &self.targets[..]));
        let turned = f64::from(self.decisions) * self.period_s;
        let term = &mut self.terms[number];
        signals::fresh(&term.config, &term.signals, state)?;
        term.values.rotate_left(term.len);
        let start = term.values.len() - term.len;
        let newest = &mut term.values[start..];
        fill(newest, (&term.config, &term.signals), state, joints, before, [turned, turned + self.period_s]);
        for (place, value) in newest.iter_mut().enumerate() {
            if !value.is_finite() {
                return Err(not_a_number(&term.config, place, *value, joints));
            }
            let [least, most] = *one_or_each(&term.clip, place);
            *value = value.clamp(least, most) * one_or_each(&term.scale, place);
        }
        Ok(())
    }

    fn write(&self, into: &mut [f32]) {
        let mut into = into.iter_mut();
        let mut put = |values: &[f32]| into.by_ref().zip(values).for_each(|(to, value)| *to = *value);
        let place = |frame: usize, frames: usize| match self.history.order {
            Order::OldestFirst => frame,
            Order::NewestFirst => frames - 1 - frame,
        };
        match self.history.layout {
            Layout::Term => {
                for term in &self.terms {
                    let frames = term.frames();
                    (0..frames).for_each(|frame| put(term.frame(place(frame, frames))));
                }
            }
            Layout::Time => {
                let frames = self.terms.first().map_or(0, Kept::frames);
                for frame in 0..frames {
                    self.terms.iter().for_each(|term| put(term.frame(place(frame, frames))));
                }
            }
        }
    }
}

impl Kept {
    fn new(config: &ObserveConfig, terms: &[ObserveConfig], joints: usize) -> Result<Self, ControlError> {
        let len = match config.term {
            Term::BaseAngVel | Term::ProjectedGravity | Term::BaseAcceleration | Term::Command => 3,
            Term::Attitude => 4,
            Term::JointPos | Term::JointVel | Term::JointTorque | Term::LastAction | Term::Target => joints,
            Term::Phase => 2 * config.offsets.len(),
            Term::Constant => config.values.len(),
            Term::Signal | Term::Contact => config.signals.len(),
        };
        let fits = |name: &str, count: usize| match count {
            1 => Ok(()),
            count if count == len => Ok(()),
            count => {
                let term = config.term;
                Err(wrong(format!(
                    "`{name}` of the term `{term}` has {count} values; it has {len} numbers: write 1 or {len}"
                )))
            }
        };
        if len == 0 {
            return Err(wrong(format!("the term `{}` has no numbers", config.term)));
        }
        if let Some(key) = of_another(config) {
            return Err(wrong(format!("`{key}` is no key of the term `{}`", config.term)));
        }
        let clip = if config.clip.is_empty() { vec![[-1e30, 1e30]] } else { config.clip.clone() };
        fits("clip", clip.len())?;
        fits("scale", config.scale.len())?;
        if let Some([least, most]) = clip.iter().find(|[least, most]| least > most) {
            return Err(wrong(format!("`clip` of the term `{}` is from {least} to {most}", config.term)));
        }
        Ok(Self {
            clip: clip.iter().map(|pair| pair.map(|bound| bound as f32)).collect(),
            scale: config.scale.iter().map(|&scale| scale as f32).collect(),
            signals: signals::places(config, terms)?,
            values: vec![0.0; len * config.history as usize],
            config: config.clone(),
            len,
        })
    }

    fn frames(&self) -> usize {
        self.config.history as usize
    }

    fn frame(&self, number: usize) -> &[f32] {
        &self.values[number * self.len..(number + 1) * self.len]
    }

    /// What was before the first value.
    fn fill(&mut self, fill: Fill) {
        let (before, newest) = self.values.split_at_mut(self.len * (self.config.history as usize - 1));
        match fill {
            Fill::Zero => before.fill(0.0),
            Fill::First => {
                before.chunks_exact_mut(newest.len().max(1)).for_each(|frame| frame.copy_from_slice(newest))
            }
        }
    }
}

/// A key that belongs to other terms.
fn of_another(config: &ObserveConfig) -> Option<&'static str> {
    let (term, plain) = (config.term, ObserveConfig { term: config.term, ..ObserveConfig::default() });
    let is_phase = term == Term::Phase;
    let keys = [
        ("relative", config.relative == plain.relative || matches!(term, Term::JointPos | Term::Target)),
        ("age", config.age == plain.age || term == Term::LastAction),
        ("period_s", config.period_s == plain.period_s || is_phase),
        ("offsets", config.offsets == plain.offsets || is_phase),
        ("advance", config.advance == plain.advance || is_phase),
        ("values", config.values == plain.values || term == Term::Constant),
        ("signals", config.signals == plain.signals || matches!(term, Term::Signal | Term::Contact)),
    ];
    keys.into_iter().find(|(_, is_right)| !is_right).map(|(key, _)| key)
}

/// A term of a state, as it is.
fn fill(
    into: &mut [f32],
    (config, signals): (&ObserveConfig, &[usize]),
    state: &RobotState,
    joints: &Joints,
    (actions, targets): (&[Vec<f32>], &[f64]),
    clock: [f64; 2],
) {
    let imu = state.imu.map(|imu| imu.sample);
    let of_imu = |numbers: Option<[f64; 3]>| numbers.unwrap_or([f64::NAN; 3]);
    match config.term {
        Term::BaseAngVel => put(into, of_imu(imu.map(|imu| imu.rate))),
        Term::BaseAcceleration => put(into, of_imu(imu.map(|imu| imu.acceleration))),
        Term::ProjectedGravity => put(into, of_imu(imu.map(|imu| down(imu.attitude.map(logged))))),
        Term::Attitude => put(into, imu.map_or([f64::NAN; 4], |imu| imu.attitude)),
        Term::Command => put(into, [state.teleop.forward, state.teleop.left, state.teleop.turn]),
        Term::JointPos => {
            positions(into, config, joints, joints.servos.iter().map(|&servo| state.servos[servo].position));
        }
        Term::Target => positions(into, config, joints, targets.iter().copied()),
        Term::JointVel => put(into, joints.servos.iter().map(|&servo| state.servos[servo].velocity)),
        Term::JointTorque => put(into, joints.servos.iter().map(|&servo| state.servos[servo].torque)),
        Term::LastAction => into.copy_from_slice(&actions[config.age as usize]),
        Term::Phase => {
            let seconds = if config.advance == Advance::Before { clock[1] } else { clock[0] };
            let turns = (seconds / config.period_s).fract() * std::f64::consts::TAU;
            let (sines, cosines) = into.split_at_mut(config.offsets.len());
            for ((sine, cosine), offset) in sines.iter_mut().zip(cosines).zip(&config.offsets) {
                (*sine, *cosine) =
                    (khz_policy::maths::sin(turns + offset), khz_policy::maths::cos(turns + offset));
            }
        }
        Term::Constant => put(into, config.values.iter().copied()),
        Term::Signal => put(into, signals.iter().map(|&place| state.signals[place].value)),
        Term::Contact => {
            let is_on = |&place: &usize| state.signals[place].value > config.threshold;
            put(into, signals.iter().map(|place| f64::from(u8::from(is_on(place)))));
        }
    }
}

fn positions(
    into: &mut [f32],
    config: &ObserveConfig,
    joints: &Joints,
    positions: impl Iterator<Item = f64>,
) {
    for ((to, position), &default) in into.iter_mut().zip(positions).zip(&joints.default) {
        *to = if config.relative { position as f32 - default as f32 } else { position as f32 };
    }
}

fn put(into: &mut [f32], values: impl IntoIterator<Item = f64>) {
    into.iter_mut().zip(values).for_each(|(to, value)| *to = value as f32);
}

/// As a log has it, so that a replay computes of the same number.
fn logged(number: f64) -> f64 {
    f64::from(number as f32)
}

/// Which way is down, in the frame of a body of this attitude.
fn down([w, x, y, z]: [f64; 4]) -> [f64; 3] {
    [2.0 * (w * y - x * z), -2.0 * (y * z + w * x), 2.0 * (x * x + y * y) - 1.0]
}

/// Of a list with one for all, or one each.
pub(super) fn one_or_each<T>(list: &[T], place: usize) -> &T {
    &list[if list.len() == 1 { 0 } else { place }]
}

fn not_a_number(config: &ObserveConfig, place: usize, value: f32, joints: &Joints) -> ControlError {
    let term = config.term;
    let of_joint =
        matches!(term, Term::JointPos | Term::JointVel | Term::JointTorque | Term::LastAction | Term::Target);
    let name =
        if of_joint { format!("of the joint `{}`", joints.names[place]) } else { format!("number {place}") };
    wrong(format!("its observation has {value}: term `{term}`, {name}"))
}

fn wrong(text: String) -> ControlError {
    ControlError(text.into())
}
