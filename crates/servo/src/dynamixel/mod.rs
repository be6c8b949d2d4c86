//! Dynamixel servos of the X series, by protocol 2.0: targets of all servos in one packet, and their states by one question.
//!
//! - Servos with the same layout of their tables are one *group*: a sync write with their goals, which is not answered, and one sync read, fast
//!   where the model has it. Its bytes lie together by indirect addresses: current, velocity, position, torque enable, watchdog, hardware
//!   error; in two of three cycles the voltage, and in one of these the temperature as well.
//! - Three lengths of the question take turns (`together`). As long as an answer is missing, more may be on their way: then each question has a
//!   length of its own, and before it a number is written into a gain that no position needs, which is read back with it. So an answer that comes
//!   late is not taken for a newer one.
//! - Nothing that is written in a cycle is answered. Torque enable is read back in each: only that shows whether a servo is on or off. Goals are
//!   written in each cycle, gains in five after they have changed.
//! - Its watchdog refuses goals in silence once it has acted; its register, which is read in each cycle, shows that. Without power it is 0, as
//!   all is that is read in a cycle: nothing else is as it was set, either.
//! - There is no command that damps: the P gain is set to 0, and the D gain to `damping`; in mode `velocity` the I gain to 0, with a goal of 0.
//!   In mode `current` the loop computes what the velocity gain would be; in mode `pwm` also the duty that a torque takes, from its motor, its
//!   voltage and its velocity.

mod by_hand;
mod drive;
mod ready;
mod settings;

pub use settings::{DynamixelMode, DynamixelModel, DynamixelSettings};

use crate::about::OnBus;
use crate::together::{self, Together, packets, write};
use crate::{
    Carries, Exchange, FamilySettings, Identifiers, Mode, Mounting, Occasion, ServoCommand, ServoPlan,
    ServoState,
};
use drive::{Driver, Reported};
use khz_wire::Frame;
use khz_wire::dynamixel::{self, Status, SyncWrite, address as at, sync_read};
use std::f64::consts::TAU;

/// Steps of a turn; the middle of the first is the servo's zero.
const STEPS: f64 = 4096.0;
const MIDDLE: f64 = 2048.0;
/// rad.
const STEP: f64 = TAU / STEPS;
/// rad/s.
const VELOCITY_STEP: f64 = 0.229 * TAU / 60.0;
/// Steps of the full duty.
pub const FULL_DUTY: f64 = 885.0;
/// The greatest voltage that can be reported, V.
const MOST_V: f64 = 25.5;
/// A unit of the watchdog, s, and how many there are at most.
const WATCHDOG: (f64, f64) = (0.02, 127.0);
/// The greatest position over many turns, steps.
const MANY_TURNS: f64 = 1_048_575.0;

/// What is read in a cycle, byte by byte: where it really is.
const READ: [u16; 15] = [126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 64, 98, 70, 144, 146];
/// The lengths of a query.
const LENGTHS: [u16; 3] = [13, 14, 15];
/// The length of a query with a number, which is read behind the others.
const NUMBERED: u16 = READ.len() as u16 + 1;
/// What the number is written into: the velocity I gain, which no position needs, and in the other modes the position D gain. They are set anew
/// when the operating mode changes.
const NUMBER: [u16; 2] = [at::VELOCITY_I_GAIN, at::POSITION_D_GAIN];
/// So many numbers take turns, from 1 on.
const NUMBERS: usize = 127;

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Its model; `None`: unknown.
    pub model: Option<DynamixelModel>,
    /// How it is driven.
    pub mode: DynamixelMode,
    /// N·m for a step of its currents.
    pub torque_step: f64,
    /// Position D, I and P gain, as they are written.
    pub gains: [u16; 3],
    /// Position D gain while it damps.
    pub damping: u16,
    /// Velocity I and P gain, as they are written.
    pub velocity_gains: [u16; 2],
    /// The greatest goals of velocity, current and duty, in steps.
    pub most: [u16; 3],
    /// Velocity gain of the modes `current` and `pwm`, N·m·s/rad.
    pub kd: f64,
    /// N·m/A and Ω, of [`DynamixelMode::Pwm`].
    pub motor: [f64; 2],
    /// The supply assumed until the first report, V.
    pub usual_v: f64,
    /// Profile acceleration and velocity.
    pub profile: [u32; 2],
    /// Return delay time, 2 µs.
    pub return_delay: u8,
    /// It is asked by fast reads.
    pub fast: bool,
}

impl Settings {
    /// The keys of a servo in a robot file. Without model or torque constant those of an XM430; `khz check` refuses that.
    pub fn of(file: &DynamixelSettings) -> Self {
        let model = file.model.unwrap_or(DynamixelModel::Xm430W350).facts();
        // A load is in thousandths.
        let step = model.current_step.unwrap_or(0.001);
        Self {
            model: file.model,
            mode: file.mode,
            torque_step: step * file.torque_constant.unwrap_or(1.0),
            gains: [file.position_d, file.position_i, file.position_p].map(|gain| gain as u16),
            damping: file.damping as u16,
            velocity_gains: [file.velocity_i, file.velocity_p].map(|gain| gain as u16),
            most: [file.velocity_limit, file.current_limit, file.pwm_limit].map(|most| most as u16),
            kd: file.kd,
            motor: [file.torque_constant.unwrap_or(1.0), file.motor_resistance.unwrap_or(1.0)],
            usual_v: model.nominal_v(),
            profile: [file.profile_acceleration, file.profile_velocity],
            return_delay: (file.return_delay_us / 2) as u8,
            fast: file.fast.unwrap_or(model.fast_from.is_some()),
        }
    }

    /// Where the bytes of [`READ`] lie together.
    fn block(&self) -> u16 {
        self.model.map_or(224, |model| model.facts().indirect_data)
    }

    /// The greatest goal, steps from the servo's zero: the last that is the same in both directions.
    fn reach(&self) -> f64 {
        match self.mode {
            DynamixelMode::Position => MIDDLE - 1.0,
            _ => MANY_TURNS - MIDDLE,
        }
    }

    /// The limit of its current is written with each command.
    fn limits_current(&self) -> bool {
        self.mode == DynamixelMode::CurrentPosition
    }

    /// The greatest torque that can be commanded, N·m; 0: none.
    fn most_torque(&self) -> f64 {
        match self.mode {
            DynamixelMode::Current => f64::from(self.most[1]) * self.torque_step,
            DynamixelMode::Pwm => self.motor[0] / self.motor[1] * MOST_V,
            _ => 0.0,
        }
    }

    /// The duty, −1 to 1, for this torque at this voltage and velocity.
    fn duty(&self, torque: f64, volts: f64, velocity: f64) -> f64 {
        let [constant, resistance] = self.motor;
        (torque * resistance / constant + constant * velocity) / volts
    }

    /// What the number of a question is written into.
    fn number_at(&self) -> u16 {
        NUMBER[usize::from(!self.mode.has_positions())]
    }

    /// What is read in a cycle, with the number.
    fn layout(&self) -> impl Iterator<Item = u16> {
        READ.into_iter().chain([self.number_at()])
    }
}

/// How many bytes are asked for: at the start as many as there are at most.
const fn length(occasion: Occasion) -> u16 {
    match occasion {
        Occasion::Following => LENGTHS[1],
        Occasion::AfterLoss => NUMBERED,
        _ => LENGTHS[2],
    }
}

/// A watchdog in its units; 0: none.
fn watchdog(seconds: f64) -> u8 {
    if seconds.is_nan() { 0 } else { (seconds / WATCHDOG.0).round().clamp(1.0, WATCHDOG.1) as u8 }
}

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        let (mode, has_positions) = (self.mode, self.mode.has_positions());
        let most = if self.limits_current() {
            f64::from(self.most[1]) * self.torque_step
        } else {
            self.most_torque()
        };
        Carries {
            zero: mounting.offset,
            position: if has_positions { self.reach() * STEP } else { 0.0 },
            velocity: match mode {
                DynamixelMode::Velocity => f64::from(self.most[0]) * VELOCITY_STEP,
                DynamixelMode::Current | DynamixelMode::Pwm => f64::from(i16::MAX) * VELOCITY_STEP,
                _ => f64::INFINITY,
            },
            torque: self.most_torque(),
            max_torque: most,
            least_max_torque: if mode.limits_torque() { self.torque_step } else { 0.0 },
            // Where there is no position, no gain of it does anything.
            kp_scale: !has_positions,
            kd_scale: mode.follows_torque(),
            kp_needs_kd: false,
            velocity_asked: true,
            torque_asked: true,
            voltage_asked: true,
            temperature_asked: true,
            reported: [f64::from(i32::MAX) * STEP, f64::from(i32::MAX) * VELOCITY_STEP],
            reported_steps: [STEP, VELOCITY_STEP],
        }
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        let reach = self.reach();
        mounting.narrow(limits, |[low, high]| {
            let steps = [(low / STEP).ceil(), (high / STEP).floor()];
            steps.map(|steps| steps.clamp(-reach, reach) * STEP)
        })
    }

    /// As if it were asked alone.
    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2] {
        let (data, len) = ([0; NUMBERED as usize], length(occasion));
        let status = Status { id, alert: false, error: 0, data: &data[..len.into()] };
        let reply = if self.fast { status.block(1) } else { status.packet() };
        let command = sync_read(self.block(), len, &[id], self.fast);
        [command, reply].map(|frame| frame.unwrap_or_else(|| dynamixel::ping(id)))
    }

    fn group(&self) -> Option<u32> {
        Some(u32::from(self.block()) << 1 | u32::from(self.fast))
    }

    /// Before its block comes the header of the fast status.
    fn first_of_group(&self, reply: &Frame) -> Frame {
        let status = Status::parse(reply).filter(|_| self.fast);
        status.and_then(|status| status.block(0)).unwrap_or(*reply)
    }

    fn question(&self, ids: &[u8], occasion: Occasion) -> Vec<Frame> {
        let (gains, goal) = match self.mode {
            DynamixelMode::Velocity => (vec![(at::VELOCITY_I_GAIN, 4)], (at::GOAL_VELOCITY, 4)),
            DynamixelMode::Current => (vec![], (at::GOAL_CURRENT, 2)),
            DynamixelMode::Pwm => (vec![], (at::GOAL_PWM, 2)),
            DynamixelMode::CurrentPosition => {
                (vec![(at::POSITION_D_GAIN, 6), (at::GOAL_CURRENT, 2)], (at::GOAL_POSITION, 4))
            }
            _ => (vec![(at::POSITION_D_GAIN, 6)], (at::GOAL_POSITION, 4)),
        };
        let torque = (at::TORQUE_ENABLE, 1);
        let written = match occasion {
            Occasion::Stopped if self.mode.has_positions() => vec![torque],
            Occasion::Stopped => vec![torque, goal],
            Occasion::SwitchingOn => [gains, vec![goal, torque]].concat(),
            Occasion::Changing => [gains, vec![goal]].concat(),
            Occasion::Following => vec![goal],
            Occasion::AfterLoss => vec![goal, (self.number_at(), 2)],
        };
        let mut frames = packets::<SyncWrite>(ids, &written);
        frames.extend(sync_read(self.block(), length(occasion), ids, self.fast));
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
            DynamixelMode::Current => "goes limp, and refuses goals: so its watchdog acts in mode `current`",
            DynamixelMode::Pwm => {
                "brakes by its motor alone, and refuses goals: so its watchdog acts in mode `pwm`"
            }
            DynamixelMode::Velocity => "stops, and refuses goals: so its watchdog acts in mode `velocity`",
            _ => "holds where it is, and refuses goals: so its watchdog acts in modes of position",
        }
    }

    fn ready(&self, id: u8, watchdog_s: f64, _: u32) -> Vec<Exchange> {
        ready::dialogue(self, id, watchdog(watchdog_s))
    }
}

/// The torque enable of a servo, as reported.
const MODES: [Mode; 2] = [Mode { number: 0, name: "torque off" }, Mode { number: 1, name: "torque on" }];

impl OnBus for Settings {
    // Only a line of its own carries its packets.
    const ASKED: Option<u8> = None;

    fn unknown() -> Vec<Self> {
        vec![Self::of(&DynamixelSettings::default())]
    }

    type Bus = together::Bus<Layout>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        let layout = Layout { block: plan.family.block(), fast: plan.family.fast };
        let packets = |servos: usize| KINDS * servos.div_ceil(SyncWrite::room(6));
        bus.group(|theirs| *theirs == layout, || layout).add(Driver::new(plan), plan.servo, packets);
    }
}

/// Packets of a cycle at most, for each that goals need.
const KINDS: usize = 10;

/// What servos that are asked together have in common: where the bytes that are read lie together, and whether they are asked by fast reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    block: u16,
    fast: bool,
}

impl Together for Layout {
    type Servo = Driver;
    type Packet = SyncWrite;

    /// Questions of each length, then of each number.
    const TURNS: usize = LENGTHS.len() + NUMBERS;

    fn id(servo: &Driver) -> u8 {
        servo.id
    }

    fn begin(servo: &mut Driver, command: &ServoCommand) {
        servo.begin(command);
    }

    fn turn(&mut self, _: &mut [Driver], number: u64, has_lost: bool) -> usize {
        match has_lost {
            false => (number % LENGTHS.len() as u64) as usize,
            true => LENGTHS.len() + (number % NUMBERS as u64) as usize,
        }
    }

    fn write(&self, servos: &[Driver], turn: usize, frames: &mut Vec<Frame>) {
        // Off before all else, and on behind what it is to follow.
        write::<Self, _>(servos, at::TORQUE_ENABLE, frames, |servo| servo.wanted.off.then_some([0]));
        write::<Self, _>(servos, at::POSITION_D_GAIN, frames, |servo| servo.wanted.gains);
        write::<Self, _>(servos, at::VELOCITY_I_GAIN, frames, |servo| servo.wanted.velocity_gains);
        write::<Self, _>(servos, at::GOAL_PWM, frames, |servo| servo.wanted.pwm.map(i16::to_le_bytes));
        write::<Self, _>(servos, at::GOAL_CURRENT, frames, |servo| {
            servo.wanted.current.map(i16::to_le_bytes)
        });
        write::<Self, _>(servos, at::GOAL_VELOCITY, frames, |servo| {
            servo.wanted.velocity.map(i32::to_le_bytes)
        });
        write::<Self, _>(servos, at::GOAL_POSITION, frames, |servo| servo.wanted.goal.map(i32::to_le_bytes));
        write::<Self, _>(servos, at::TORQUE_ENABLE, frames, |servo| servo.wanted.on.then_some([1]));
        if let Some(number) = number_of(turn) {
            for place in NUMBER {
                write::<Self, _>(servos, place, frames, |servo| {
                    (servo.number_at() == place).then_some([number, 0])
                });
            }
        }
    }

    fn question(&self, ids: &[u8], turn: usize) -> Option<Frame> {
        sync_read(self.block, LENGTHS.get(turn).copied().unwrap_or(NUMBERED), ids, self.fast)
    }

    fn answer(frame: &Frame) -> Option<(u8, Option<usize>)> {
        let Status { id, data, .. } = Status::parse(frame)?;
        let length = LENGTHS.iter().position(|len| usize::from(*len) == data.len());
        let number = || match data.get(usize::from(NUMBERED) - 1)? {
            &number @ 1.. if data.len() == usize::from(NUMBERED) => turn_of(number),
            _ => None,
        };
        Some((id, length.or_else(number)))
    }

    /// A servo that has restarted has no number, and nothing else.
    fn has_forgotten(frame: &Frame, turn: usize) -> bool {
        let is_blank =
            |data: &[u8]| data.len() == usize::from(NUMBERED) && data.iter().all(|byte| *byte == 0);
        number_of(turn).is_some() && Status::parse(frame).is_some_and(|status| is_blank(status.data))
    }

    fn read(servo: &mut Driver, frame: &Frame, _: usize, state: &mut ServoState) -> Option<bool> {
        Some(servo.read(&Reported::parse(&Status::parse(frame)?)?, state))
    }
}

/// The number that is written before the question of this turn, if it has one.
fn number_of(turn: usize) -> Option<u8> {
    turn.checked_sub(LENGTHS.len()).map(|number| number as u8 + 1)
}

/// The turn of the question with this number, which is from 1 on.
fn turn_of(number: u8) -> Option<usize> {
    Some(LENGTHS.len() + usize::from(number) - 1).filter(|turn| *turn < Layout::TURNS)
}

#[cfg(test)]
mod tests;
