//! Feetech servos of the STS and SMS series: targets of all servos in one packet, and their states by one question.
//!
//! - A sync write with their goals, which is not answered, and one sync read (`together`): position, speed and duty; in two of three
//!   cycles the voltage, and in one of these the temperature as well. Every answer has the servo's conditions.
//! - Torque enable, which alone shows whether a servo is on or off, is not adjacent to them. It is asked for instead of the state: in every other
//!   cycle while a servo is off or about to be, in that in which it is switched on, and in one of 25 while all follow. The state of such a cycle
//!   is that of the one before.
//! - An answer has no number, and there is no register that a number could be written into. As long as an answer is missing each question has
//!   another length, a few bytes more than are needed: so one that comes up to ten cycles late is not taken for a newer one.
//! - Nothing that is written in a cycle is answered, and nothing confirms that it was taken. Goals are written in each cycle, a torque limit in five
//!   after it has changed, of those whose question is short; gains, acceleration and speed before the first tick, and read back.
//! - They have no watchdog: they hold their last goal for ever.
//! - There is no command that damps in all firmwares: its goal is where it is, in each cycle, so that what damps is the short delay of that, and
//!   the current that its turning motor induces at a duty of almost 0.

mod by_hand;
mod drive;
mod ready;
mod settings;

pub use settings::{FeetechMode, FeetechModel, FeetechSettings};

use crate::about::OnBus;
use crate::together::{self, Together, packets, write};
use crate::{
    Carries, Exchange, FamilySettings, Identifiers, Mode, Mounting, Occasion, ServoCommand, ServoPlan,
    ServoState,
};
use drive::{Driver, Measured};
use khz_wire::Frame;
use khz_wire::feetech::{self, Status, SyncWrite, address as at, sync_read};
use std::f64::consts::TAU;

/// Steps of a turn; the middle of it is the servo's zero.
const STEPS: f64 = 4096.0;
const MIDDLE: f64 = 2048.0;
/// rad, and of speeds rad/s.
const STEP: f64 = TAU / STEPS;
/// The greatest goal, steps from the servo's zero: the last that is the same in both directions.
const REACH: f64 = MIDDLE - 1.0;
/// The greatest position and speed that can be reported, steps.
const MOST_TOLD: f64 = 32_767.0;
/// The greatest voltage that can be reported, V.
const MOST_V: f64 = 25.5;
/// The supply assumed until the first report, V.
const USUAL_V: f64 = 7.4;
/// The greatest speed of most, steps/s.
const FASTEST: u16 = 3400;

/// How many bytes of a state are asked for: position, speed and load at least, …
const LEAST: u8 = 6;
/// … with the voltage and the temperature, …
const ALL: u8 = 8;
/// … and, so that late answers can be distinguished, all that lies behind them up to the current.
const MOST: u8 = 15;
/// How many bytes are asked for from torque enable on, at most: one of them, but for the same reason.
const TORQUE_MOST: u8 = LEAST - 1;
/// In one of so many cycles torque enable is asked for while all follow, …
const SELDOM: u64 = 25;
/// … and while answers are missing: so it takes 15 cycles until a question is as long as another.
const LOST: u64 = 3;

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Its model; `None`: unknown.
    pub model: Option<FeetechModel>,
    /// How it is driven.
    pub mode: FeetechMode,
    /// N·m·s/rad, of [`FeetechMode::Pwm`].
    pub kd: f64,
    /// N·m/A, and V·s/rad.
    pub motor_constant: f64,
    /// Ω.
    pub motor_resistance: f64,
    /// Position P, D and I gain, as they are written.
    pub gains: [u8; 3],
    /// Acceleration, 100 steps/s².
    pub acceleration: u8,
    /// The greatest speed, steps/s.
    pub speed: u16,
    /// The greatest duty, thousandths.
    pub torque_limit: u16,
    /// Return delay time, 2 µs.
    pub return_delay: u8,
}

impl Settings {
    /// The keys of a servo in a robot file. Without model or motor those of an STS3215; `khz check` refuses that.
    pub fn of(file: &FeetechSettings) -> Self {
        let [constant, resistance] =
            file.model.and_then(FeetechModel::motor).or(FeetechModel::Sts3215.motor()).unwrap_or([1.0; 2]);
        Self {
            model: file.model,
            mode: file.mode,
            kd: file.kd,
            motor_constant: file.motor_constant.unwrap_or(constant),
            motor_resistance: file.motor_resistance.unwrap_or(resistance),
            gains: [file.position_p, file.position_d, file.position_i].map(|gain| gain as u8),
            acceleration: file.acceleration as u8,
            speed: file.speed as u16,
            torque_limit: file.torque_limit as u16,
            return_delay: (file.return_delay_us / 2) as u8,
        }
    }

    /// Its torque at standstill for each volt that its motor gets, N·m/V.
    fn per_volt(&self) -> f64 {
        self.motor_constant / self.motor_resistance
    }

    /// The greatest speed of mode `velocity`, steps/s.
    const fn fastest(&self) -> u16 {
        if self.speed == 0 { FASTEST } else { self.speed }
    }

    /// Where its target is written.
    const fn goal_at(&self) -> u8 {
        match self.mode {
            FeetechMode::Position => at::GOAL_POSITION,
            FeetechMode::Velocity => at::GOAL_SPEED,
            FeetechMode::Pwm => at::GOAL_TIME,
        }
    }

    /// The duty, −1 to 1, for this torque at this voltage and velocity.
    fn duty(&self, torque: f64, volts: f64, velocity: f64) -> f64 {
        (torque / self.per_volt() + self.motor_constant * velocity) / volts
    }

    /// Its torque with this duty, voltage and velocity, N·m: it does not report a torque.
    fn torque(&self, duty: f64, volts: f64, velocity: f64) -> f64 {
        self.per_volt() * (volts * duty - self.motor_constant * velocity)
    }
}

/// Asks for so many bytes: what is shorter than a state begins with torque enable.
fn asking(ids: &[u8], len: u8) -> Option<Frame> {
    let address = if len <= TORQUE_MOST { at::TORQUE_ENABLE } else { at::PRESENT_POSITION };
    sync_read(address, len, ids)
}

/// How many bytes are asked for: of a state that are as many as there are on average, or more.
const fn length(occasion: Occasion) -> u8 {
    match occasion {
        Occasion::Following => LEAST + 1,
        Occasion::SwitchingOn => 1,
        Occasion::AfterLoss => ALL + 1,
        _ => ALL,
    }
}

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        let (mode, most) = (self.mode, self.per_volt() * MOST_V);
        Carries {
            zero: mounting.offset,
            position: if mode.has_positions() { REACH * STEP } else { 0.0 },
            velocity: match mode {
                FeetechMode::Position => f64::INFINITY,
                FeetechMode::Velocity => f64::from(self.fastest()) * STEP,
                FeetechMode::Pwm => MOST_TOLD * STEP,
            },
            torque: if mode == FeetechMode::Pwm { most } else { 0.0 },
            max_torque: most,
            least_max_torque: most / 1000.0,
            // Where there is no position, no gain of it does anything.
            kp_scale: !mode.has_positions(),
            kd_scale: mode == FeetechMode::Pwm,
            kp_needs_kd: false,
            velocity_asked: true,
            torque_asked: true,
            voltage_asked: true,
            temperature_asked: true,
            reported: [MOST_TOLD * STEP; 2],
            reported_steps: [STEP; 2],
        }
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        mounting.narrow(limits, |[low, high]| {
            let steps = [(low / STEP).ceil(), (high / STEP).floor()];
            steps.map(|steps| steps.clamp(-REACH, REACH) * STEP)
        })
    }

    /// As if it were asked alone.
    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2] {
        let (data, len) = ([0; MOST as usize], length(occasion));
        let status = Status { id, conditions: 0, data: &data[..len.into()] };
        let command = asking(&[id], len);
        [command, status.packet()].map(|frame| frame.unwrap_or_else(|| feetech::ping(id)))
    }

    fn group(&self) -> Option<u32> {
        Some(0)
    }

    fn question(&self, ids: &[u8], occasion: Occasion) -> Vec<Frame> {
        let (limit, torque) = ((at::TORQUE_LIMIT.into(), 2), (at::TORQUE_ENABLE.into(), 1));
        let goal = (self.goal_at().into(), 2);
        let written = match occasion {
            Occasion::Stopped if self.mode.has_positions() => vec![torque],
            Occasion::Stopped => vec![torque, goal],
            Occasion::SwitchingOn => vec![limit, goal, torque],
            Occasion::Changing | Occasion::Following | Occasion::AfterLoss => vec![goal],
        };
        let mut frames = packets::<SyncWrite>(ids, &written);
        frames.extend(asking(ids, length(occasion)));
        frames
    }

    fn reply_delay_ns(&self) -> i64 {
        i64::from(self.return_delay) * 2000
    }

    fn identifiers(&self, _: u8) -> Vec<Identifiers> {
        // Packets of another protocol on its line would be noise.
        Identifiers::ALL.to_vec()
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        Status::parse(frame).map(|status| status.id)
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        MODES.iter().map(|mode| (mode.number.into(), mode.name)).collect()
    }

    fn cut_off(&self) -> &'static str {
        match self.mode {
            FeetechMode::Position => "holds its last target for ever: it has no watchdog",
            FeetechMode::Velocity => "turns for ever as it was told last: it has no watchdog",
            FeetechMode::Pwm => "gives its last duty for ever: it has no watchdog",
        }
    }

    fn ready(&self, id: u8, _: f64, _: u32) -> Vec<Exchange> {
        ready::dialogue(self, id)
    }
}

/// The torque enable of a servo, as reported.
const MODES: [Mode; 2] = [Mode { number: 0, name: "torque off" }, Mode { number: 1, name: "torque on" }];

impl OnBus for Settings {
    // Only a line of its own carries its packets.
    const ASKED: Option<u8> = None;

    fn unknown() -> Vec<Self> {
        vec![Self::of(&FeetechSettings::default())]
    }

    type Bus = together::Bus<Line>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        let packets = |servos: usize| KINDS * servos.div_ceil(SyncWrite::room(2));
        bus.group(|_| true, Line::default).add(Driver::new(plan), plan.servo, packets);
    }
}

/// Packets of a cycle at most, for each that goals need.
const KINDS: usize = 6;

/// What the servos of a line have in common: how they were asked.
#[derive(Debug, Default)]
pub struct Line {
    /// How many states were asked for.
    states: u64,
    /// The same of torque enable and states since an answer has been missing.
    lost: [u64; 2],
    /// The last question was for torque enable.
    asked_torque: bool,
}

impl Line {
    /// How many bytes are asked for next.
    fn length(&mut self, asks_torque: bool, has_lost: bool) -> u8 {
        /// Lengths of torque enable and of a state, and the first of each.
        const KINDS: [[u64; 2]; 2] = [[TORQUE_MOST as u64, 1], [(MOST - LEAST + 1) as u64, LEAST as u64]];
        let kind = usize::from(!asks_torque);
        let [lengths, first] = KINDS[kind];
        let used = u64::from(if asks_torque { 1 } else { ALL + 1 - LEAST });
        // Those that are not used otherwise come first, the shortest of them before others.
        let place = match (has_lost, asks_torque) {
            (true, _) => used + self.lost[kind],
            (false, true) => 0,
            // All of it at first.
            (false, false) => (self.states + 2) % used,
        };
        self.states += u64::from(!asks_torque);
        self.lost = if has_lost { self.lost } else { [0; 2] };
        self.lost[kind] += u64::from(has_lost);
        (first + place % lengths) as u8
    }
}

impl Together for Line {
    type Servo = Driver;
    type Packet = SyncWrite;

    /// One for each length.
    const TURNS: usize = MOST as usize;

    fn id(servo: &Driver) -> u8 {
        servo.id
    }

    fn begin(servo: &mut Driver, command: &ServoCommand) {
        servo.begin(command);
    }

    fn turn(&mut self, servos: &mut [Driver], number: u64, has_lost: bool) -> usize {
        let every = match servos.iter().all(Driver::is_settled) {
            _ if has_lost => LOST,
            true => SELDOM,
            false => 2,
        };
        // Never twice running: the states would grow too old while servos are switched on one after the other.
        let is_due = number % every == 1 || servos.iter().any(|servo| servo.wanted.on);
        let asks_torque = is_due && !self.asked_torque;
        self.asked_torque = asks_torque;
        for servo in servos {
            servo.limit_goes(asks_torque);
            servo.on_goes(asks_torque);
        }
        usize::from(self.length(asks_torque, has_lost)) - 1
    }

    fn write(&self, servos: &[Driver], _: usize, frames: &mut Vec<Frame>) {
        // Off before all else, and on behind what it is to follow.
        write::<Self, _>(servos, at::TORQUE_ENABLE, frames, |servo| servo.wanted.off.then_some([0]));
        write::<Self, _>(servos, at::TORQUE_LIMIT, frames, |servo| servo.wanted.limit.map(u16::to_le_bytes));
        write::<Self, _>(servos, at::GOAL_POSITION, frames, |servo| servo.wanted.goal.map(u16::to_le_bytes));
        write::<Self, _>(servos, at::GOAL_TIME, frames, |servo| servo.wanted.duty.map(u16::to_le_bytes));
        write::<Self, _>(servos, at::GOAL_SPEED, frames, |servo| servo.wanted.speed.map(u16::to_le_bytes));
        write::<Self, _>(servos, at::TORQUE_ENABLE, frames, |servo| servo.wanted.on.then_some([1]));
    }

    fn question(&self, ids: &[u8], turn: usize) -> Option<Frame> {
        asking(ids, turn as u8 + 1)
    }

    fn answer(frame: &Frame) -> Option<(u8, Option<usize>)> {
        let status = Status::parse(frame)?;
        Some((status.id, status.data.len().checked_sub(1).filter(|turn| *turn < Self::TURNS)))
    }

    fn read(servo: &mut Driver, frame: &Frame, turn: usize, state: &mut ServoState) -> Option<bool> {
        let status = Status::parse(frame)?;
        if turn < TORQUE_MOST.into() {
            servo.read_torque(*status.data.first()?, status.conditions, state);
            return Some(false);
        }
        servo.read(&Measured::parse(&status)?, state);
        Some(true)
    }
}

#[cfg(test)]
mod tests;
