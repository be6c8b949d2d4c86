//! Defects that were repaired, put back one at a time, to prove that the campaign finds each of them.
//!
//! Nothing in the product knows of them: a defect is put back by giving the supervisor another robot file than the cycle, or by what
//! stands between the machine and its buses.

use khz_drill::defect::{Defect, Forge};
use khz_emu::moteus::misbehaviour::{copied, rewritten};
use khz_file::config::{Format, RobotConfig};
use khz_link::Received;
use khz_loop::supervisor::{Reaction, Recover};
use khz_loop::{PositionCommand, ServoCommand};
use khz_wire::subframe::RegisterRun;
use khz_wire::{Address, Class, Frame, Mode, Register, Subframe, Subframes, Value, Writer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A repair that is taken out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A joint found outside its limits is armed.
    FoundOutside,
    /// A target may jump.
    TargetJumps,
    /// Positions of joints are ignored.
    PositionTrigger,
    /// Velocities of joints are ignored.
    VelocityTrigger,
    /// Velocity and torque commands may lead out of the limits.
    OutwardCommands,
    /// A position at the end of its format is taken for a position.
    SaturatedReplies,
    /// A command beyond its format is cut and sent.
    SaturatedCommands,
    /// Commands that found no room are delivered whenever the bus takes them.
    StaleCommands,
    /// A reply to an older query is taken for this tick's.
    LateReplies,
    /// Silence is forgiven.
    Silence,
    /// A servo may refuse what it is sent.
    RefusedWrites,
    /// What a servo refuses to read stays as it was last read.
    RefusedReads,
    /// A servo that stays off is taken for one that obeys.
    SleepingServo,
    /// A joint that the controller stops is taken for one that is driven, and its servo for one that started anew.
    OwnStops,
    /// One complete tick is enough to arm.
    HastyArming,
    /// Two servos may answer to one id.
    DuplicateIds,
    /// A controller's panic is printed within the tick.
    PrintedPanics,
    /// Frames that come too often speed the loop up.
    PaceSpeedsUp,
    /// All links share one inbox, and the first that floods fills it.
    SharedInbox,
    /// A servo in another mode than commanded is taken for one that obeys.
    OtherModes,
    /// A servo that stays on is taken for one that is off.
    StaysOn,
    /// A voltage and a temperature that are no numbers are taken for good ones.
    Unmeasured,
    /// A position that jumps is taken for one that moves.
    Jumps,
    /// A servo that answers twice under control is taken for one that answers once.
    Echoes,
    /// An IMU that repeats itself is taken for one that rests.
    FrozenImu,
    /// A request to arm is as old as the time since it came.
    LateRequests,
    /// Servos that have timed out are switched on again although the file forbids it.
    Recovers,
}

impl Defect for Plant {
    fn change(&self, robot: &mut RobotConfig) {
        match self {
            Self::FoundOutside => robot.supervisor.position_tolerance = 10.0,
            Self::PositionTrigger => robot.supervisor.reactions.position = Reaction::Warn,
            Self::VelocityTrigger => robot.supervisor.reactions.velocity = Reaction::Warn,
            Self::Silence => {
                robot.supervisor.stale_ms = Some(10_000.0);
                robot.supervisor.missed_replies = 100_000;
            }
            Self::HastyArming => robot.supervisor.answer_ticks = 1,
            Self::Recovers => robot.supervisor.recover = Recover::On,
            Self::FrozenImu => robot.supervisor.imu_frozen_ms = Some(100_000.0),
            // The same triggers at the same values, but a guard that allows ten times as much.
            Self::TargetJumps => {
                robot.supervisor.velocity_factor *= 0.1;
                let limits = robot.servos.iter_mut().map(|servo| &mut servo.settings.limits);
                limits.for_each(|limits| limits.velocity = limits.velocity.map(|limit| 10.0 * limit));
            }
            Self::OutwardCommands => {
                robot.supervisor.position_tolerance -= 10.0;
                let limits = robot.servos.iter_mut().map(|servo| &mut servo.settings.limits);
                limits
                    .for_each(|limits| limits.position = limits.position.map(|[a, b]| [a - 10.0, b + 10.0]));
            }
            Self::SaturatedCommands => {
                for servo in &mut robot.servos {
                    let command = &mut servo.settings.command;
                    [command.position, command.velocity, command.torque] = [Format::Float; 3];
                }
            }
            _ => {}
        }
    }

    fn forgers(&self, links: usize) -> Vec<Box<dyn Forge>> {
        let inbox = Arc::<Mutex<Inbox>>::default();
        let forger = |_| -> Option<Box<dyn Forge>> {
            if *self == Self::SharedInbox {
                return Some(Box::new(Shared(Arc::clone(&inbox))));
            }
            Some(Box::new(Forger::new(*self)?))
        };
        (0..links).filter_map(forger).collect()
    }

    fn own_stop(&self) -> ServoCommand {
        if *self == Self::OwnStops { ServoCommand::Position(limp()) } else { ServoCommand::Stop }
    }

    fn prints_panics(&self) -> bool {
        *self == Self::PrintedPanics
    }

    fn renews_requests(&self) -> bool {
        *self == Self::LateRequests
    }

    fn keeps_commands(&self) -> bool {
        *self == Self::StaleCommands
    }

    fn period_ns(&self, period_ns: i64) -> i64 {
        if *self == Self::PaceSpeedsUp { period_ns / 10 } else { period_ns }
    }
}

/// An inbox that all links of a machine share.
#[derive(Debug, Default)]
struct Inbox {
    /// Who was asked last.
    asked: usize,
    left: u32,
}

/// Frames taken at once from all links together.
const INBOX: u32 = 64;

/// A link's share of it.
struct Shared(Arc<Mutex<Inbox>>);

impl Forge for Shared {
    /// The first link is asked first each time.
    fn may_receive(&mut self, link: usize) -> bool {
        let mut inbox = self.0.lock().unwrap();
        if link == 0 && inbox.asked != 0 {
            inbox.left = INBOX;
        }
        inbox.asked = link;
        inbox.left > 0
    }

    fn has_received(&mut self) {
        self.0.lock().unwrap().left -= 1;
    }
}

/// Changes replies so that the host cannot see what it has learnt to see, and commands so that it does not know what they contain.
struct Forger {
    plant: Plant,
    /// The last query to each servo, and how many replies came to it.
    queries: Vec<Option<(Frame, u32)>>,
    /// What each servo answered last, by register.
    known: Vec<BTreeMap<u32, Value>>,
    /// The position each servo reported last, rev, and how far it has jumped since.
    smooth: Vec<[f64; 2]>,
}

impl Forger {
    /// For the plants that need one.
    fn new(plant: Plant) -> Option<Self> {
        let forged = [
            Plant::SaturatedReplies,
            Plant::LateReplies,
            Plant::RefusedWrites,
            Plant::RefusedReads,
            Plant::SleepingServo,
            Plant::OwnStops,
            Plant::DuplicateIds,
            Plant::OtherModes,
            Plant::StaysOn,
            Plant::Unmeasured,
            Plant::Jumps,
            Plant::Echoes,
        ];
        forged.contains(&plant).then(|| Self {
            plant,
            queries: vec![None; 128],
            known: vec![BTreeMap::new(); 128],
            smooth: vec![[f64::NAN, 0.0]; 128],
        })
    }
}

impl Forge for Forger {
    fn command(&self, frame: &Frame) -> Frame {
        if self.plant == Plant::OwnStops && is_limp(frame) { stopped(frame) } else { *frame }
    }

    fn query(&mut self, frame: &Frame) {
        let id = Address::from_id(frame.id).destination;
        self.queries[usize::from(id & 0x7f)] = Some((*frame, 0));
    }

    fn reply(&mut self, received: Received) -> Option<Received> {
        let id = Address::from_id(received.frame.id).source;
        let Some((query, replies)) = &mut self.queries[usize::from(id & 0x7f)] else { return Some(received) };
        *replies += 1;
        if matches!(self.plant, Plant::DuplicateIds | Plant::Echoes) && *replies > 1 {
            return None;
        }
        let frame = match self.plant {
            Plant::LateReplies => reordered(query, &received.frame),
            Plant::RefusedReads => completed(query, &received.frame, &mut self.known[usize::from(id & 0x7f)]),
            Plant::DuplicateIds | Plant::Echoes | Plant::OwnStops => received.frame,
            Plant::Jumps => smoothed(&received.frame, &mut self.smooth[usize::from(id & 0x7f)]),
            plant => copied(&received.frame, |register, value| forged(plant, query, register, value)),
        };
        Some(Received { frame, ..received })
    }
}

/// A value as the host is to see it.
fn forged(plant: Plant, query: &Frame, register: u32, value: Value) -> Value {
    match (plant, value) {
        (Plant::SaturatedReplies, Value::Int8(-128 | -127)) => Value::Int8(-126),
        (Plant::SaturatedReplies, Value::Int8(127)) => Value::Int8(126),
        (Plant::SaturatedReplies, Value::Int16(..=-32_767)) => Value::Int16(-32_766),
        (Plant::SaturatedReplies, Value::Int16(32_767)) => Value::Int16(32_766),
        (Plant::SleepingServo, Value::Int8(mode)) if register == u32::from(Register::MODE.0) => {
            Value::Int8(if is_starting(mode) { commanded(query).unwrap_or(mode) } else { mode })
        }
        (Plant::OtherModes | Plant::StaysOn, Value::Int8(_)) if register == u32::from(Register::MODE.0) => {
            Value::Int8(commanded(query).unwrap_or(Mode::Stopped as i8))
        }
        (Plant::OtherModes | Plant::StaysOn, Value::Int16(_)) if register == u32::from(Register::MODE.0) => {
            Value::Int16(commanded(query).unwrap_or(Mode::Stopped as i8).into())
        }
        (Plant::Unmeasured, value) if is_unmeasured(value) => {
            Value::read(value.resolution(), &[30, 0, 0, 0]).unwrap_or(value)
        }
        _ => value,
    }
}

/// It is the value of its format for no number.
fn is_unmeasured(value: Value) -> bool {
    match value {
        Value::Int8(value) => value == i8::MIN,
        Value::Int16(value) => value == i16::MIN,
        Value::Int32(value) => value == i32::MIN,
        Value::Float(value) => value.is_nan(),
    }
}

/// A reply whose position goes on where it was before it jumped.
fn smoothed(reply: &Frame, [last, jumped]: &mut [f64; 2]) -> Frame {
    const JUMP: f64 = 0.02;
    copied(reply, |register, value| {
        let resolution = value.resolution();
        let turns = Class::Position.decode(value);
        if register != u32::from(Register::POSITION.0) || !turns.is_finite() {
            return value;
        }
        if (turns - *last).abs() > JUMP {
            *jumped += turns - *last;
        }
        *last = turns;
        // What has not jumped is not rounded either.
        if *jumped == 0.0 { value } else { Class::Position.encode(turns - *jumped, resolution) }
    })
}

/// Off, or on the way from there to what is commanded.
fn is_starting(mode: i8) -> bool {
    let starting = [Mode::Stopped, Mode::Enabling, Mode::Calibrating, Mode::CalibrationComplete];
    starting.iter().any(|&starting| starting as i8 == mode)
}

/// The mode a query commands.
fn commanded(query: &Frame) -> Option<i8> {
    let mode = Subframes::new(query.payload()).flatten().find_map(|subframe| {
        let Subframe::Write(values) = subframe else { return None };
        values.iter().find(|(register, _)| *register == u32::from(Register::MODE.0))
    });
    mode.map(|(_, value)| value.integer() as i8).filter(|&mode| mode != Mode::Stopped as i8)
}

/// A command under which a servo does nothing, and that no controller but a `FaultyController` gives: a stop that the supervisor takes
/// for a position command.
fn limp() -> PositionCommand {
    PositionCommand { kp_scale: 0.0, kd_scale: 0.0, max_torque: 0.0, ..PositionCommand::hold(f64::NAN) }
}

/// It carries [`limp`].
fn is_limp(frame: &Frame) -> bool {
    let mut values = Subframes::new(frame.payload()).flatten().filter_map(|subframe| match subframe {
        Subframe::Write(values) => Some(values),
        _ => None,
    });
    let no_torque = |(register, value): (u32, Value)| {
        register == u32::from(Register::COMMAND_MAX_TORQUE.0)
            && matches!(value, Value::Float(0.0) | Value::Int8(0) | Value::Int16(0) | Value::Int32(0))
    };
    values.any(|values| values.iter().any(no_torque))
}

/// A stop with the reads of another command.
fn stopped(command: &Frame) -> Frame {
    rewritten(command, |writer| {
        writer.write(u32::from(Register::MODE.0), &[Value::Int8(Mode::Stopped as i8)]).ok()?;
        for subframe in Subframes::new(command.payload()).flatten() {
            if let Subframe::Read(run) = subframe {
                writer.read(run).ok()?;
            }
        }
        Some(())
    })
}

/// The values of a reply.
fn values(reply: &Frame) -> impl Iterator<Item = (u32, Value)> {
    let runs = Subframes::new(reply.payload()).flatten().filter_map(|subframe| match subframe {
        Subframe::Reply(values) => Some(values.iter()),
        _ => None,
    });
    runs.flatten()
}

/// The values of a reply in the order of another query: as if they answered that.
fn reordered(query: &Frame, reply: &Frame) -> Frame {
    let values: Vec<(u32, Value)> = values(reply).collect();
    rewritten(reply, |writer| {
        answer(writer, query, |register, run| {
            let known = values
                .iter()
                .find(|(known, value)| *known == register && value.resolution() == run.resolution);
            known.map_or(Value::read(run.resolution, &[0; 4]), |(_, value)| Some(*value))
        })
    })
}

/// A reply to this query in which what the servo refused to read, and what it therefore left out, is as it was `known` before.
fn completed(query: &Frame, reply: &Frame, known: &mut BTreeMap<u32, Value>) -> Frame {
    known.extend(values(reply));
    let is_refused = |subframe| matches!(subframe, Subframe::ReadError(_));
    if !Subframes::new(reply.payload()).flatten().any(is_refused) {
        return *reply;
    }
    rewritten(reply, |writer| {
        for subframe in Subframes::new(reply.payload()).flatten() {
            if let Subframe::WriteError(error) = subframe {
                writer.write_error(error).ok()?;
            }
        }
        answer(writer, query, |register, run| {
            known.get(&register).copied().filter(|value| value.resolution() == run.resolution)
        })
    })
}

/// Answers every read of a query with a value.
fn answer(
    writer: &mut Writer<'_>,
    query: &Frame,
    value: impl Fn(u32, RegisterRun) -> Option<Value>,
) -> Option<()> {
    for subframe in Subframes::new(query.payload()).flatten() {
        let Subframe::Read(run) = subframe else { continue };
        writer.reply_head(run).ok()?;
        for register in run.start..run.start + run.count {
            writer.value(value(register, run)?).ok()?;
        }
    }
    Some(())
}
