//! One servo: what to write to it, and what its replies report.

use super::{FeetechMode, MIDDLE, MODES, REACH, STEP, STEPS, Settings, USUAL_V};
use crate::{Doing, Fault, Mounting, PositionCommand, ServoCommand, ServoPlan, ServoState, Track};
use khz_wire::feetech::{Status, address as at, condition, item};

/// At most how many times a servo is commanded to switch on after a stop.
const ENABLES: u8 = 3;
/// After a change, a torque limit is written in this many cycles: nothing confirms its arrival.
const REPEATS: u8 = 5;
/// Value of torque enable: on. Others are off, or damp.
const ON: u8 = 1;

/// Its position has changed by more than a joint can.
const JUMPED: Fault = Fault {
    code: 258,
    text: "its position has jumped: it has lost its power, it has passed the end of its turn, or another program drives it; start a new run",
};
/// It cannot be commanded to stay where it is.
const OUTSIDE: Fault = Fault {
    code: 260,
    text: "it is at the end of the turn that it can be told: move the joint, or set its middle anew (`khz bus set-zero`); start a new run",
};

/// What a cycle is to write into a servo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub off: bool,
    pub on: bool,
    /// The greatest duty, thousandths.
    pub limit: Option<u16>,
    /// As they travel.
    pub goal: Option<u16>,
    pub speed: Option<u16>,
    pub duty: Option<u16>,
}

/// The content of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    conditions: u8,
    /// Steps.
    position: i32,
    /// Steps/s.
    speed: i32,
    /// Thousandths of the supply.
    duty: i32,
    /// V, where it was asked for.
    volts: Option<f64>,
    /// °C; the same.
    celsius: Option<f64>,
}

impl Measured {
    /// Position, speed and load at least.
    pub fn parse(status: &Status<'_>) -> Option<Self> {
        let (&[p0, p1, s0, s1, l0, l1], rest) = status.data.split_first_chunk()?;
        let value = |address, bytes: [u8; 2]| item(address)?.value(&bytes);
        Some(Self {
            conditions: status.conditions,
            position: value(at::PRESENT_POSITION, [p0, p1])?,
            speed: value(at::PRESENT_SPEED, [s0, s1])?,
            duty: value(at::PRESENT_LOAD, [l0, l1])?,
            volts: rest.first().map(|tenths| f64::from(*tenths) / 10.0),
            celsius: rest.get(1).map(|&celsius| celsius.into()),
        })
    }

    /// rad, rad/s, and the share of the supply that its motor gets.
    pub fn in_units(&self) -> [f64; 3] {
        let position = (f64::from(self.position) - MIDDLE) * STEP;
        [position, f64::from(self.speed) * STEP, f64::from(self.duty) / 1000.0]
    }
}

/// One servo.
#[derive(Debug)]
pub struct Driver {
    pub id: u8,
    pub wanted: Wanted,
    settings: Settings,
    mounting: Mounting,
    /// It is on, as last reported; `None` before the first report, and from its switching on until the next.
    is_on: Option<bool>,
    /// Where it was then, steps; `None` before the first report.
    position: Option<i32>,
    /// Whole turns that a wheel has made since.
    turns: i32,
    /// How fast it was, rad/s at its shaft.
    velocity: f64,
    /// It has not been on, nor commanded to damp, since it was last commanded to stop.
    may_enable: bool,
    enables: u8,
    /// Its last command.
    last_command: ServoCommand,
    /// The torque limit that was written last, and in how many cycles it is to be written yet.
    limit: (u16, u8),
    /// Why it is not driven any more.
    broken: Option<Fault>,
    track: Track,
    volts: f64,
    celsius: f64,
}

impl Driver {
    pub fn new(plan: &ServoPlan<&Settings>) -> Self {
        Self {
            id: plan.id,
            wanted: Wanted::default(),
            settings: plan.family.clone(),
            mounting: plan.mounting,
            is_on: None,
            position: None,
            turns: 0,
            velocity: 0.0,
            may_enable: true,
            enables: 0,
            last_command: ServoCommand::Stop,
            limit: (plan.family.torque_limit, 0),
            broken: None,
            track: Track::default(),
            volts: f64::NAN,
            celsius: f64::NAN,
        }
    }

    /// It is on, and to stay so.
    pub fn is_settled(&self) -> bool {
        let is_on = self.is_on == Some(true) && self.enables > 0 && self.last_command != ServoCommand::Stop;
        is_on && self.limit.1 == 0
    }

    /// What this command wants written.
    pub fn begin(&mut self, command: &ServoCommand) {
        (self.wanted, self.last_command) = (Wanted::default(), *command);
        match command {
            ServoCommand::Stop => {
                (self.wanted.off, self.may_enable, self.enables) = (true, true, 0);
                // What it was to do last is not what it does when it is switched on, also if the next target is lost.
                if !self.settings.mode.has_positions() {
                    self.rest();
                }
            }
            // It has not received the last stop, or another host has switched it on.
            ServoCommand::Position(_) if self.is_on == Some(true) && self.enables == 0 => {
                self.wanted.off = true;
            }
            ServoCommand::Position(target) if self.broken.is_none() => self.follow(target),
            ServoCommand::Damp | ServoCommand::Position(_) => self.damp(),
        }
    }

    /// What is off needs no brake, and is not switched on for one.
    fn damp(&mut self) {
        self.may_enable = false;
        if self.is_on == Some(true) || self.enables > 0 {
            self.rest();
        }
    }

    /// Its target is to stay as it is: where it is, or to stand, or with a duty of 0, at which its motor brakes.
    fn rest(&mut self) {
        match self.settings.mode {
            FeetechMode::Position => self.wanted.goal = self.position.map(|it| word(at::GOAL_POSITION, it)),
            FeetechMode::Velocity => self.wanted.speed = Some(0),
            FeetechMode::Pwm => self.wanted.duty = Some(0),
        }
    }

    fn follow(&mut self, target: &PositionCommand) {
        match self.is_on {
            Some(true) => {
                self.write_limit(target.max_torque);
                self.aim(target);
            }
            Some(false) if self.may_enable && !self.is_within() => self.broken = Some(OUTSIDE),
            Some(false) if self.may_enable && self.enables < ENABLES => {
                // With the goal where it is: an old one would be followed at once.
                self.write_limit(target.max_torque);
                self.rest();
                self.wanted.on = true;
                self.enables += 1;
                // What it reported before is no answer to that.
                self.is_on = None;
            }
            Some(false) | None => {}
        }
    }

    /// It can be commanded to stay where it is.
    fn is_within(&self) -> bool {
        let is_near = |steps| (f64::from(steps) - MIDDLE).abs() <= REACH;
        !self.settings.mode.has_positions() || self.position.is_some_and(is_near)
    }

    /// NaN is the servo's own limit: the one that was set before the first tick.
    fn write_limit(&mut self, torque: f64) {
        let share = (1000.0 * torque / (self.settings.per_volt() * self.supply())).floor();
        let most = self.settings.torque_limit;
        let limit = if share.is_nan() { most } else { share.clamp(0.0, most.into()) as u16 };
        if limit != self.limit.0 {
            self.limit = (limit, REPEATS);
        }
        // When it is switched on, whatever was before.
        let is_due = self.limit.1 > 0 || self.is_on == Some(false);
        self.wanted.limit = is_due.then_some(limit);
    }

    /// Whether this cycle has time for its torque limit.
    pub fn limit_goes(&mut self, has_time: bool) {
        if !has_time {
            self.wanted.limit = None;
        } else if self.wanted.limit.is_some() {
            self.limit.1 = self.limit.1.saturating_sub(1);
        }
    }

    /// Whether it can be switched on in this cycle; else it is in a later one, as nothing has been written yet.
    pub fn on_goes(&mut self, is_asked: bool) {
        if self.wanted.on && !is_asked {
            self.wanted.on = false;
            self.enables -= 1;
            self.is_on = Some(false);
        }
    }

    /// V, as last reported.
    fn supply(&self) -> f64 {
        if self.volts > 0.0 { self.volts } else { USUAL_V }
    }

    /// What its mode is to follow.
    fn aim(&mut self, target: &PositionCommand) {
        let sign = self.mounting.sign;
        let velocity = if target.velocity.is_nan() { 0.0 } else { sign * target.velocity };
        match self.settings.mode {
            FeetechMode::Position => {
                let steps = self.mounting.to_servo(target.position) / STEP;
                if steps.is_nan() {
                    return self.rest();
                }
                let goal = (steps.clamp(-REACH, REACH) + MIDDLE).round() as i32;
                self.wanted.goal = Some(word(at::GOAL_POSITION, goal));
            }
            FeetechMode::Velocity => {
                let most = f64::from(self.settings.fastest());
                let speed = (velocity / STEP).clamp(-most, most).round() as i32;
                self.wanted.speed = Some(word(at::GOAL_SPEED, speed));
            }
            FeetechMode::Pwm => {
                let damped = self.settings.kd * target.kd_scale * (velocity - self.velocity);
                // NaN where nothing but the servo limits it.
                let most = target.max_torque.abs().min(f64::MAX);
                let torque = (sign * target.torque + damped).clamp(-most, most);
                let share = self.settings.duty(torque, self.supply(), self.velocity);
                let most = f64::from(self.settings.torque_limit);
                let duty = (1000.0 * share).clamp(-most, most).trunc() as i32;
                self.wanted.duty = Some(word(at::GOAL_TIME, duty));
            }
        }
    }

    /// Reads its torque enable. Its conditions say why it has switched itself off.
    pub fn read_torque(&mut self, enable: u8, conditions: u8, state: &mut ServoState) {
        self.is_on = Some(enable == ON);
        if enable == ON {
            self.may_enable = false;
        }
        if state.is_known() {
            state.fault = self.fault(conditions);
            self.report(state);
        }
    }

    fn fault(&self, conditions: u8) -> Fault {
        let own = match conditions {
            0 => Fault::NONE,
            bits => Fault { code: bits.into(), text: condition(bits) },
        };
        self.broken.unwrap_or(own)
    }

    /// Reads an answer.
    pub fn read(&mut self, reported: &Measured, state: &mut ServoState) {
        self.count_turns(reported.position);
        (self.volts, self.celsius) =
            (reported.volts.unwrap_or(self.volts), reported.celsius.unwrap_or(self.celsius));
        let sign = self.mounting.sign;
        let [position, velocity, duty] = reported.in_units();
        let position = position + f64::from(self.turns) * STEPS * STEP;
        self.velocity = velocity;
        state.position = self.mounting.to_joint(position);
        state.velocity = sign * velocity;
        state.torque = sign * self.settings.torque(duty, self.supply(), velocity);
        (state.voltage, state.temperature) = (self.volts, self.celsius);
        let jumped = self.track.jumps(state.at_ns, [position, velocity], [f64::INFINITY; 2]);
        self.broken = self.broken.or(jumped.then_some(JUMPED));
        state.fault = self.fault(reported.conditions);
        state.refused = None;
        self.report(state);
    }

    /// What it does, from its torque enable and its fault.
    fn report(&self, state: &mut ServoState) {
        let is_on = self.is_on == Some(true);
        state.doing = self.doing(is_on, state.fault != Fault::NONE);
        state.mode = MODES[usize::from(is_on)];
    }

    /// A wheel goes on behind the end of its turn.
    fn count_turns(&mut self, position: i32) {
        let before = self.position.replace(position).unwrap_or(position);
        if !self.settings.mode.has_positions() {
            self.turns -= (f64::from(position - before) / STEPS).round() as i32;
        }
    }

    fn doing(&self, is_on: bool, is_wrong: bool) -> Doing {
        match self.last_command {
            // Whatever else is wrong with it: its output is not off yet.
            ServoCommand::Stop if is_on && is_wrong => Doing::Other,
            _ if is_wrong => Doing::Faulted,
            // Switched on, and not asked since.
            ServoCommand::Position(_) if self.is_on.is_none() && self.enables > 0 => Doing::Starting,
            _ if !is_on => Doing::Off,
            ServoCommand::Damp => Doing::Damping,
            // It is switched off before it follows.
            ServoCommand::Position(_) if self.enables == 0 => Doing::Starting,
            _ => Doing::Following,
        }
    }
}

/// A target as it travels.
fn word(address: u8, value: i32) -> u16 {
    item(address).map_or(0, |item| item.word(value))
}
