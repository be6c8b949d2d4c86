//! Recordings out of Kilohertz' own logs: the commands that a joint got, and where it then was.

use crate::found::FINE;
use crate::recording::{Known, Recording, Sample, TorqueCommand, Unusable};
use khz_tlog::{Reader, Source, Type, Value};
use std::collections::BTreeMap;

/// Samples that are kept at most: an hour and more at 1 kHz.
const MOST: usize = 5_000_000;
/// So much is kept before the goal moves and after, s: a joint that only holds gives no information, and takes time to simulate.
const HELD_S: f64 = 1.0;
/// A goal that has moved so far has moved, rad.
const MOVED: f64 = 1e-4;
/// Longer than this the joint's position is unknown: the recording ends, s.
const GAP_S: f64 = 0.1;
/// An emulated servo, which is what is looked for, measures and takes goals once in a period: a position is half of that old, a goal waits
/// half of it, and moves the joint within the next.
const PERIOD_S: f64 = 1.5 * FINE.0;
/// Resolution of times in a log, s.
const CLOCK_S: f64 = 2e-6;
/// The log's value for a servo that follows its commands (`doing`).
const FOLLOWING: f64 = 2.0;

/// What the robot file knows of the servo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Servo {
    /// Its position and velocity gain, N·m/rad and N·m·s/rad, if it has torque control.
    pub gains: [f64; 2],
    /// The greatest torque that it gives, N·m.
    pub most: f64,
    /// Commanded velocities and torques travel to it.
    pub feeds_forward: bool,
    /// How it follows positions, if it does so by its voltage.
    pub known: Option<Known>,
    /// The step of the positions it reports, rad.
    pub step: f64,
    /// Its goals are of these steps, rad, from this angle on; steps of 0 for one whose goals travel as they are.
    pub goals: [f64; 2],
    /// End stops of its joint, rad.
    pub stops: Option<[f64; 2]>,
}

/// A recording of one joint out of a log with the records `tick`, `servo` and `command`: the longest time in which it follows position
/// commands without a break. Allocates, and reads the whole log.
///
/// # Errors
/// The log cannot be read, does not know the joint, or what it has of it makes no sense.
pub fn from_log<S: Source>(
    name: &str,
    reader: &mut Reader<S>,
    joint: &str,
    servo: &Servo,
) -> Result<Recording, Unusable> {
    let wrong = |what: String| Unusable { name: name.to_owned(), what };
    reader.survey().map_err(|error| wrong(error.to_string()))?;
    let names = match reader.record("servo").map(|record| record.ty()) {
        Ok(Type::Object(fields)) => fields.iter().map(|field| field.name.clone()).collect(),
        _ => Vec::new(),
    };
    if !names.iter().any(|known| known == joint) {
        return Err(wrong(format!("it has no joint `{joint}`; it has `{}`", names.join("`, `"))));
    }
    reader.select(["tick", "servo", "command"]);
    let (ticks, damage) = ticks(reader, joint, servo).map_err(|error| wrong(error.to_string()))?;
    let mut stretches = Stretches::default();
    let mut commanded = None;
    let first_us = ticks.keys().next().copied().unwrap_or_default();
    for (time_us, tick) in ticks {
        if let Some(state) = &tick.state {
            stretches.add(state, (time_us - first_us) as f64 * 1e-6, tick.cycle_s, commanded);
        }
        // It is sent by the next tick.
        commanded = tick.command;
    }
    let mut longest = stretches.longest(name, servo);
    let cut_off =
        (!reader.is_finished()).then(|| "it has no end: it is cut off, or still being written".to_owned());
    let left_out = [damage, cut_off, Some(longest.left_out).filter(|text| !text.is_empty())];
    longest.left_out = left_out.into_iter().flatten().collect::<Vec<_>>().join("; ");
    longest.checked()
}

/// What a log has of a tick and of one joint.
#[derive(Default)]
struct Tick {
    cycle_s: f64,
    state: Option<State>,
    command: Option<(f64, TorqueCommand)>,
}

/// The ticks by their times, and what of the log is damaged and was left out. The records of one tick may lie a second apart: samples of a record that are compressed together come together.
fn ticks<S: Source>(
    reader: &mut Reader<S>,
    joint: &str,
    servo: &Servo,
) -> Result<(BTreeMap<i64, Tick>, Option<String>), khz_tlog::Error> {
    let mut ticks: BTreeMap<i64, Tick> = BTreeMap::new();
    let mut damage = None;
    while ticks.len() < MOST {
        let item = match reader.next() {
            Ok(None) => break,
            Ok(Some(item)) => item,
            Err(error) => {
                damage.get_or_insert_with(|| {
                    format!("it is damaged, and what could not be read is left out ({error})")
                });
                reader.step_over(error)?;
                continue;
            }
        };
        let (Some(time_us), Ok(value)) = (item.time_us, item.value()) else { continue };
        let tick = ticks.entry(time_us).or_default();
        match (item.record.name(), value.at(joint)) {
            ("tick", _) => tick.cycle_s = number(&value, "cycle_ns").map_or(0.0, |ns| ns * 1e-9),
            ("command", Some(value)) => tick.command = command(&value, servo),
            ("servo", Some(value)) => tick.state = Some(State::of(&value)),
            _ => {}
        }
    }
    Ok((ticks, damage))
}

fn number(value: &Value<'_>, field: &str) -> Option<f64> {
    value.at(field).and_then(|value| value.number()).filter(|number| number.is_finite())
}

/// What a servo reported.
struct State {
    position: Option<f64>,
    velocity: f64,
    volts: f64,
    /// It follows its commands.
    follows: bool,
    /// It answered in this tick.
    is_fresh: bool,
    /// How old its position was when the cycle ended, s.
    age_s: f64,
    round_trip_s: f64,
}

impl State {
    fn of(value: &Value<'_>) -> Self {
        let or = |field: &str, otherwise: f64| number(value, field).unwrap_or(otherwise);
        Self {
            position: number(value, "position"),
            velocity: or("velocity", 0.0),
            volts: or("voltage", 0.0),
            follows: or("doing", FOLLOWING) == FOLLOWING,
            is_fresh: or("fresh", 1.0) != 0.0,
            age_s: or("age_us", 0.0) * 1e-6,
            round_trip_s: or("round_trip_ns", 0.0) * 1e-9,
        }
    }
}

/// Angle and the rest of the command; `None` for everything that is no position command.
fn command(value: &Value<'_>, servo: &Servo) -> Option<(f64, TorqueCommand)> {
    let or = |field: &str, otherwise: f64| number(value, field).unwrap_or(otherwise);
    let fed = |field: &str| if servo.feeds_forward { or(field, 0.0) } else { 0.0 };
    let goal = match (number(value, "position")?, servo.goals) {
        (goal, [step, from]) if step > 0.0 => from + ((goal - from) / step).round() * step,
        (goal, _) => goal,
    };
    let [kp, kd] = servo.gains;
    let command = TorqueCommand {
        kp: kp * or("kp_scale", 1.0),
        kd: kd * or("kd_scale", 1.0),
        velocity: fed("velocity"),
        torque: fed("torque"),
        most: or("max_torque", f64::MAX).min(servo.most),
    };
    Some((goal, command))
}

/// A time in which the joint followed position commands.
#[derive(Default)]
struct Stretch {
    samples: Vec<Sample>,
    /// Sums over its measured samples: half round trips, s, and voltages, V; how many there were of each.
    lead_s: f64,
    volts: [f64; 2],
    /// When it was measured last, s.
    measured_s: f64,
    /// How fast it was at its first sample, rad/s.
    velocity: f64,
}

impl Stretch {
    /// Its next sample is one that was measured.
    fn measured(&mut self, state: &State, sent_s: f64) {
        if self.samples.is_empty() {
            self.velocity = state.velocity;
        }
        self.lead_s += 0.5 * state.round_trip_s;
        if state.volts > 0.0 {
            self.volts = [self.volts[0] + state.volts, self.volts[1] + 1.0];
        }
        self.measured_s = sent_s;
    }

    fn duration_s(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| last.time_s - self.samples[0].time_s)
    }
}

/// Leaves out the time before its goal moves and after; whether something was left out before, so that the joint rests at the first sample.
fn trim(samples: &mut Vec<Sample>) -> bool {
    let (Some(first), Some(last)) = (samples.first().copied(), samples.last().copied()) else { return false };
    let moved = |from: Sample| move |sample: &Sample| (sample.goal - from.goal).abs() > MOVED;
    let begins_s = samples.iter().find(|s| moved(first)(s)).map_or(first.time_s, |s| s.time_s - HELD_S);
    let ends_s = samples.iter().rfind(|s| moved(last)(s)).map_or(last.time_s, |s| s.time_s + HELD_S);
    let begin = samples.iter().position(|s| s.measured && s.time_s >= begins_s).unwrap_or(0);
    let end = samples.iter().rposition(|s| s.time_s <= ends_s).unwrap_or(samples.len() - 1);
    samples.truncate(end + 1);
    samples.drain(..begin.min(end));
    begin > 0
}

#[derive(Default)]
struct Stretches {
    best: Stretch,
    now: Stretch,
    /// Times in which it did not follow after it had.
    breaks: usize,
}

impl Stretches {
    /// A tick: what the servo answered, and the command that was sent in it.
    fn add(&mut self, state: &State, started_s: f64, cycle_s: f64, commanded: Option<(f64, TorqueCommand)>) {
        let (Some((goal, torque)), true) = (commanded, state.follows) else { return self.end() };
        // In a tick without a new answer the state is an older one.
        let asked_s = started_s + cycle_s - state.age_s;
        let sent_s = asked_s.max(started_s);
        let measured = state.is_fresh && asked_s > started_s - CLOCK_S && state.position.is_some();
        let last = self.now.samples.last().map(|sample| sample.position);
        let Some(position) = state.position.filter(|_| measured).or(last) else { return };
        if measured {
            self.now.measured(state, sent_s);
        } else if sent_s - self.now.measured_s > GAP_S {
            return self.end();
        }
        let torque = Some(torque);
        self.now.samples.push(Sample { time_s: sent_s, position, goal, on: true, measured, torque });
    }

    fn end(&mut self) {
        let ended = std::mem::take(&mut self.now);
        if ended.samples.is_empty() {
            return;
        }
        self.breaks += 1;
        if ended.duration_s() > self.best.duration_s() {
            self.best = ended;
        }
    }

    fn longest(mut self, name: &str, servo: &Servo) -> Recording {
        self.end();
        let Stretch { mut samples, lead_s, volts: [volts, reports], velocity, .. } = self.best;
        let measured = samples.iter().filter(|sample| sample.measured).count();
        let is_held = trim(&mut samples);
        let lead_s = lead_s / measured.max(1) as f64 - PERIOD_S;
        // What a log has are the times of questions.
        samples.iter_mut().for_each(|sample| sample.time_s += lead_s);
        let left_out = match self.breaks {
            0 | 1 => String::new(),
            breaks => format!(
                "it followed in {breaks} stretches, of which the longest is used, {:.1} s: the others have a fault, a stop or missing replies between",
                samples.last().map_or(0.0, |last| last.time_s - samples[0].time_s)
            ),
        };
        Recording {
            name: name.to_owned(),
            condition: name.to_owned(),
            samples,
            kp: 1.0,
            velocity: if is_held { 0.0 } else { velocity },
            supply_v: if reports > 0.0 { volts / reports } else { 1.0 },
            known: servo.known,
            stops: servo.stops,
            step: servo.step,
            lead_s,
            left_out,
            ..Recording::default()
        }
    }
}
