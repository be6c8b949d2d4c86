//! One servo: what to write to it, and what its replies report.

use super::{DynamixelMode, FULL_DUTY, MIDDLE, MODES, STEP, Settings, VELOCITY_STEP, watchdog};
use crate::{Doing, Fault, Mounting, PositionCommand, ServoCommand, ServoPlan, ServoState, Track};
use khz_wire::dynamixel::{Status, hardware_error};

/// At most how many times a servo is commanded to switch on after a stop.
const ENABLES: u8 = 5;
/// After a change, gains are written in this many cycles: nothing confirms their arrival.
const REPEATS: u8 = 5;

/// Its watchdog has acted.
const TIMED_OUT: Fault = Fault {
    code: 256,
    text: "its watchdog has acted: it has heard nothing for too long, holds where it is and refuses goals; start a new run",
};
/// Its watchdog is not as it was set.
const CHANGED: Fault = Fault {
    code: 257,
    text: "its watchdog is not as it was set: it has lost its power or was restarted, or another program has written it; start a new run",
};
/// What it reads out is as a start leaves it.
const RESTARTED: Fault = Fault {
    code: 261,
    text: "it was restarted, or has lost its power: nothing that was set for the run is in it any more; look at its supply, and start a new run",
};
/// Its position has changed by more than a joint can.
const JUMPED: Fault = Fault {
    code: 258,
    text: "its position has jumped: it has lost its power, or another program drives it; start a new run",
};
/// It would refuse to stay where it is.
const OUTSIDE: Fault = Fault {
    code: 260,
    text: "it is outside of the turn that it can be told: move the joint, or write `dynamixel.mode = \"extended_position\"`; start a new run",
};
/// It refused to be asked.
const REFUSED: Fault = Fault {
    code: 259,
    text: "it refuses what it is asked in each cycle: it has lost its power, or another program has written it; start a new run",
};

/// What a cycle is to write into a servo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub off: bool,
    pub on: bool,
    /// D, I and P gain, as they travel.
    pub gains: Option<[u8; 6]>,
    /// Velocity I and P gain, the same.
    pub velocity_gains: Option<[u8; 4]>,
    pub pwm: Option<i16>,
    pub current: Option<i16>,
    pub velocity: Option<i32>,
    pub goal: Option<i32>,
}

/// The content of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reported {
    /// There are nothing but zeros where its state was to lie together.
    is_blank: bool,
    alert: bool,
    error: u8,
    current: i16,
    velocity: i32,
    position: i32,
    is_on: bool,
    watchdog: u8,
    hardware: u8,
    /// V, where it was asked for.
    volts: Option<f64>,
    /// °C; the same.
    celsius: Option<f64>,
}

impl Reported {
    /// Of the bytes of [`super::READ`], the first at least.
    pub fn parse(status: &Status<'_>) -> Option<Self> {
        let (&[c0, c1, v0, v1, v2, v3, p0, p1, p2, p3, on, watchdog, hardware], rest) =
            status.data.split_first_chunk()?;
        Some(Self {
            is_blank: status.data.iter().all(|byte| *byte == 0),
            alert: status.alert,
            error: status.error,
            current: i16::from_le_bytes([c0, c1]),
            velocity: i32::from_le_bytes([v0, v1, v2, v3]),
            position: i32::from_le_bytes([p0, p1, p2, p3]),
            is_on: on != 0,
            watchdog,
            hardware,
            // A byte of it: up to 25.5 V.
            volts: rest.first().map(|tenths| f64::from(*tenths) / 10.0),
            celsius: rest.get(1).map(|&celsius| celsius.into()),
        })
    }
}

/// One servo.
#[derive(Debug)]
pub struct Driver {
    pub id: u8,
    pub wanted: Wanted,
    settings: Settings,
    mounting: Mounting,
    /// The value of its watchdog's register while it waits.
    watchdog: u8,
    /// It is on, as last reported; `None` before the first report.
    is_on: Option<bool>,
    /// It was on before it restarted, so that it is off since.
    was_on: bool,
    /// Where it was then, steps.
    position: i32,
    /// How fast, rad/s at its shaft.
    velocity: f64,
    /// It has not been on, nor commanded to damp, since it was last commanded to stop.
    may_enable: bool,
    enables: u8,
    /// Its last command.
    last_command: ServoCommand,
    /// It is to damp, as its gains were written last, and in how many cycles they are to be written yet.
    damps: bool,
    repeats: u8,
    /// The limit of current that was written last, and in how many cycles it is to be written yet.
    current: (i16, u8),
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
            watchdog: watchdog(plan.watchdog_s),
            is_on: None,
            was_on: false,
            position: 0,
            velocity: 0.0,
            may_enable: true,
            enables: 0,
            last_command: ServoCommand::Stop,
            damps: false,
            repeats: REPEATS,
            current: (0, 0),
            broken: None,
            track: Track::default(),
            volts: f64::NAN,
            celsius: f64::NAN,
        }
    }

    /// What this command wants written.
    pub fn begin(&mut self, command: &ServoCommand) {
        (self.wanted, self.last_command) = (Wanted::default(), *command);
        match command {
            ServoCommand::Stop => self.stop(),
            // It has not received the last stop, or another host has switched it on.
            ServoCommand::Position(_) if self.is_on == Some(true) && self.enables == 0 => {
                self.wanted.off = true
            }
            ServoCommand::Position(target) if self.broken.is_none() => self.follow(target),
            ServoCommand::Damp | ServoCommand::Position(_) => self.damp(),
        }
    }

    fn stop(&mut self) {
        (self.wanted.off, self.may_enable, self.enables) = (true, true, 0);
        // The next time its gains are those of following.
        (self.damps, self.repeats) = (false, REPEATS);
        // What it was to do last is not what it does when it is switched on, also if the next goal is lost.
        match self.settings.mode {
            DynamixelMode::Velocity => self.wanted.velocity = Some(0),
            DynamixelMode::Current => self.wanted.current = Some(0),
            DynamixelMode::Pwm => self.wanted.pwm = Some(0),
            _ => {}
        }
    }

    /// What is off needs no brake, and is not switched on for one.
    fn damp(&mut self) {
        self.may_enable = false;
        if self.is_on == Some(true) || self.enables > 0 {
            // Repeatedly: nothing confirms its arrival.
            (self.damps, self.repeats) = (true, REPEATS);
            match self.settings.mode {
                DynamixelMode::Velocity => {
                    self.wanted.velocity_gains = Some(gains([0, self.settings.velocity_gains[1]]));
                    self.wanted.velocity = Some(0);
                }
                DynamixelMode::Current => {
                    self.wanted.current = Some(self.torque(0.0, -self.velocity, f64::NAN))
                }
                // Its motor brakes.
                DynamixelMode::Pwm => self.wanted.pwm = Some(0),
                _ => self.wanted.gains = Some(gains([self.settings.damping, 0, 0])),
            }
        }
    }

    fn follow(&mut self, target: &PositionCommand) {
        match self.is_on {
            Some(true) => self.command(target, false),
            Some(false) if self.may_enable && !self.is_within() => self.broken = Some(OUTSIDE),
            Some(false) if self.may_enable && self.enables < ENABLES => {
                // With the goal where it is: an old one would be followed at once.
                self.repeats = REPEATS;
                self.command(target, true);
                self.wanted.on = true;
                self.enables += 1;
            }
            Some(false) | None => {}
        }
    }

    /// What its mode is to follow; `rests`: to stay as it is.
    fn command(&mut self, target: &PositionCommand, rests: bool) {
        self.write_gains();
        match self.settings.mode {
            DynamixelMode::Velocity => {
                let velocity = if rests { 0.0 } else { self.mounting.sign * target.velocity / VELOCITY_STEP };
                let most = f64::from(self.settings.most[0]);
                self.wanted.velocity = Some(velocity.clamp(-most, most).round() as i32);
            }
            DynamixelMode::Current if rests => self.wanted.current = Some(0),
            DynamixelMode::Current => {
                let damped = target.kd_scale * (self.mounting.sign * target.velocity - self.velocity);
                let torque = self.mounting.sign * target.torque;
                self.wanted.current = Some(self.torque(torque, damped, target.max_torque));
            }
            DynamixelMode::Pwm if rests => self.wanted.pwm = Some(0),
            DynamixelMode::Pwm => self.wanted.pwm = Some(self.duty(target)),
            _ => {
                self.write_current(target.max_torque);
                let goal = if rests { self.position } else { self.steps(target.position) };
                self.wanted.goal = Some(goal);
            }
        }
    }

    /// A torque beside the velocity gain, N·m at its shaft, in steps of current. `most` is NaN where nothing but the servo limits it.
    fn torque(&self, torque: f64, error: f64, most: f64) -> i16 {
        let most = most.min(self.settings.most_torque());
        ((torque + self.settings.kd * error).clamp(-most, most) / self.settings.torque_step).trunc() as i16
    }

    /// The duty for the torque of this command beside the velocity gain, in steps.
    fn duty(&self, target: &PositionCommand) -> i16 {
        let (sign, settings) = (self.mounting.sign, &self.settings);
        let velocity = if target.velocity.is_nan() { 0.0 } else { sign * target.velocity };
        let damped = settings.kd * target.kd_scale * (velocity - self.velocity);
        // NaN where nothing but the servo limits it.
        let most = target.max_torque.abs().min(f64::MAX);
        let torque = (sign * target.torque + damped).clamp(-most, most);
        let volts = if self.volts > 0.0 { self.volts } else { settings.usual_v };
        let most = f64::from(settings.most[2]);
        (FULL_DUTY * settings.duty(torque, volts, self.velocity)).clamp(-most, most).trunc() as i16
    }

    /// What the number of a question is written into.
    pub fn number_at(&self) -> u16 {
        self.settings.number_at()
    }

    /// It can be commanded to stay where it is.
    fn is_within(&self) -> bool {
        !self.settings.mode.has_positions()
            || (f64::from(self.position) - MIDDLE).abs() <= self.settings.reach()
    }

    fn write_gains(&mut self) {
        if std::mem::take(&mut self.damps) {
            self.repeats = REPEATS;
        }
        if self.repeats > 0 {
            self.repeats -= 1;
            match self.settings.mode {
                DynamixelMode::Velocity => {
                    self.wanted.velocity_gains = Some(gains(self.settings.velocity_gains));
                }
                DynamixelMode::Current | DynamixelMode::Pwm => {}
                _ => self.wanted.gains = Some(gains(self.settings.gains)),
            }
        }
    }

    /// NaN is the servo's own limit, which is not changed: with it the current that was set before the first tick.
    fn write_current(&mut self, torque: f64) {
        if !self.settings.limits_current() || torque.is_nan() {
            return;
        }
        let current =
            (torque / self.settings.torque_step).floor().clamp(0.0, self.settings.most[1].into()) as i16;
        if current != self.current.0 {
            self.current = (current, REPEATS);
        }
        // While it switches on it is written whatever was before.
        if self.current.1 > 0 || self.is_on == Some(false) {
            self.current.1 = self.current.1.saturating_sub(1);
            self.wanted.current = Some(current);
        }
    }

    /// A joint's angle in steps; the present one if the angle is unknown.
    fn steps(&self, angle: f64) -> i32 {
        let steps = self.mounting.to_servo(angle) / STEP;
        let reach = self.settings.reach();
        if steps.is_nan() { self.position } else { (steps.clamp(-reach, reach) + MIDDLE).round() as i32 }
    }

    /// Reads an answer: whether it had a state.
    pub fn read(&mut self, reported: &Reported, state: &mut ServoState) -> bool {
        // No servo that answers has 0 V, or forgets its watchdog.
        if reported.is_blank && (reported.volts.is_some() || self.watchdog != 0) {
            self.has_restarted(state);
            return false;
        }
        (self.is_on, self.position) = (Some(reported.is_on), reported.position);
        (self.volts, self.celsius) =
            (reported.volts.unwrap_or(self.volts), reported.celsius.unwrap_or(self.celsius));
        if reported.is_on {
            self.may_enable = false;
        }
        let sign = self.mounting.sign;
        let position = (f64::from(reported.position) - MIDDLE) * STEP;
        let velocity = f64::from(reported.velocity) * VELOCITY_STEP;
        self.velocity = velocity;
        state.position = self.mounting.to_joint(position);
        state.velocity = sign * velocity;
        state.torque = sign * f64::from(reported.current) * self.settings.torque_step;
        (state.voltage, state.temperature) = (self.volts, self.celsius);
        let own = self.look(reported, state.at_ns, [position, velocity]);
        state.fault = self.broken.unwrap_or(own);
        state.doing = self.doing(reported, own);
        state.mode = MODES[usize::from(reported.is_on)];
        state.refused = None;
        true
    }

    /// A start has cleared where its state was to lie together: it reports nothing any more, and is off unless it was switched on since.
    fn has_restarted(&mut self, state: &mut ServoState) {
        self.was_on |= self.is_on == Some(true);
        self.is_on = Some(false);
        state.fault = *self.broken.get_or_insert(RESTARTED);
        state.doing = match self.enables {
            0 => Doing::Faulted,
            _ if self.was_on => Doing::Off,
            _ => Doing::Other,
        };
        state.mode = MODES[usize::from(state.doing.is_on())];
        state.refused = None;
    }

    /// What is wrong with it, as it reports itself; faults found otherwise are kept.
    fn look(&mut self, reported: &Reported, at_ns: i64, moved: [f64; 2]) -> Fault {
        let found = match reported.watchdog {
            _ if reported.error != 0 => Some(REFUSED),
            watchdog if watchdog == self.watchdog => None,
            0xff => Some(TIMED_OUT),
            _ => Some(CHANGED),
        };
        let jumped = self.track.jumps(at_ns, moved, [f64::INFINITY; 2]).then_some(JUMPED);
        self.broken = self.broken.or(found).or(jumped);
        match reported.hardware {
            0 if reported.alert => Fault { code: 0x80, text: hardware_error(0) },
            0 => Fault::NONE,
            bits => Fault { code: bits.into(), text: hardware_error(bits) },
        }
    }

    fn doing(&self, reported: &Reported, own: Fault) -> Doing {
        match self.last_command {
            // Whatever else is wrong with it: its output is not off yet.
            ServoCommand::Stop if reported.is_on && (self.broken.is_some() || own != Fault::NONE) => {
                Doing::Other
            }
            _ if reported.watchdog == 0xff && reported.is_on => Doing::TimedOut,
            _ if self.broken.is_some() || own != Fault::NONE => Doing::Faulted,
            _ if !reported.is_on => Doing::Off,
            ServoCommand::Damp => Doing::Damping,
            // It is switched off before it follows.
            ServoCommand::Position(_) if self.enables == 0 => Doing::Starting,
            _ => Doing::Following,
        }
    }
}

/// Gains as they travel.
pub fn gains<const N: usize, const BYTES: usize>(gains: [u16; N]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes.chunks_exact_mut(2).zip(gains).for_each(|(bytes, gain)| bytes.copy_from_slice(&gain.to_le_bytes()));
    bytes
}
