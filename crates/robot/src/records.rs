//! What a run records of each tick, as the records of [`khz_run::record`].

use crate::recorder::{RecordId, RecorderBuilder, RecorderError, Tap};
use arrayvec::ArrayString;
use khz_file::config::{RobotConfig, RobotFile, ServoConfig};
use khz_loop::console::Console;
use khz_loop::parameters::{Parameter, Taken};
use khz_loop::run::{Observer, Tick};
use khz_loop::state::{ImuState, Teleop};
use khz_loop::steer::Input;
use khz_loop::supervisor::Transition;
use khz_rt::Reader;
use khz_run::record;
use khz_servo::{Doing, Family, PositionCommand, ServoCommand, ServoState};
use khz_targets::{Inbox, Status};
use khz_tlog::{Record, Sink, Type};
use std::fmt::{Display, Write};
use std::sync::Arc;

/// Room for messages of programs that send targets, some seconds of a flood.
const MESSAGES_RING_BYTES: usize = 1 << 20;

/// Records every tick of a run.
pub struct RunLog {
    tap: Tap,
    tick: RecordId,
    servo: RecordId,
    command: RecordId,
    imu: Option<RecordId>,
    event: RecordId,
    parameter: RecordId,
    teleop: RecordId,
    follows: Option<Follows>,
    decision: Option<RecordId>,
    parameters: Vec<String>,
    names: Vec<String>,
}

impl RunLog {
    /// Declares the records of a run of this robot and takes the loop's ring.
    ///
    /// # Errors
    /// If the builder has records of these names already.
    pub fn declare(builder: &mut RecorderBuilder, config: &RobotConfig) -> Result<Self, RecorderError> {
        let names: Vec<String> = config.servos.iter().map(|servo| servo.name.clone()).collect();
        let of_servos = || names.iter().map(String::as_str);
        let families: Vec<_> = of_servos().zip(config.servos.iter().map(ServoConfig::family)).collect();
        Ok(Self {
            tick: builder.record("tick", &record::Tick::schema())?,
            servo: builder
                .record("servo", &servo_schema(families.iter().map(|(name, family)| (*name, family))))?,
            command: builder.record(
                "command",
                &record::per_servo(of_servos().map(|name| (name, record::Command::schema()))),
            )?,
            imu: config.imu.as_ref().map(|_| builder.record("imu", &record::Imu::schema())).transpose()?,
            event: builder.record("event", &record::Event::schema())?,
            parameter: builder.record("parameter", &record::Parameter::schema())?,
            teleop: builder.record("teleop", &record::Teleop::schema())?,
            follows: None,
            decision: None,
            parameters: Vec::new(),
            tap: builder.tap(config.log.ring_mib as usize * 1024 * 1024),
            names,
        })
    }

    /// Changes of these parameters are recorded by their names.
    #[must_use]
    pub fn with_parameters(self, list: &[Parameter]) -> Self {
        Self { parameters: list.iter().map(|parameter| parameter.name.clone()).collect(), ..self }
    }

    /// Also what becomes of targets: of each message, and in each tick.
    ///
    /// # Errors
    /// If the builder has records of these names already.
    pub(crate) fn with_targets(
        mut self,
        builder: &mut RecorderBuilder,
        inbox: &Inbox,
    ) -> Result<Self, RecorderError> {
        let record = builder.record("targets", &record::Targets::schema())?;
        let stage = builder.record("stage", &record::Following::schema())?;
        let aims = self.names.iter().map(|name| (name.as_str(), record::Aim::schema()));
        let aim = builder.record("aim", &record::per_servo(aims))?;
        let mut tap = builder.tap(MESSAGES_RING_BYTES);
        inbox.listen(move |now_ns, message| _ = tap.push_value(record, now_ns, message));
        self.follows = inbox.watch().map(|status| Follows { status, tick: None, stage, aim });
        Ok(self)
    }

    /// Also each decision of a policy.
    ///
    /// # Errors
    /// If the builder has a record of this name already.
    pub fn with_decisions(
        mut self,
        builder: &mut RecorderBuilder,
        policy: &record::Policy,
    ) -> Result<Self, RecorderError> {
        self.decision = Some(builder.record("decision", &record::Decision::schema_of(policy))?);
        Ok(self)
    }

    /// What goes wrong with the log becomes an `event`, so that a live view shows it.
    pub(crate) fn report_errors(&self, builder: &mut RecorderBuilder, console: &Arc<Console>) {
        let console = Arc::clone(console);
        builder.report_errors(self.event, move |error| {
            let (tick, phase) = console.seen();
            let cause = format!("the log is incomplete: {error}").into();
            let [from, to] = [(); 2].map(|()| phase.name().into());
            record::Event { tick, from, to, cause, servo: "".into(), trouble: true }.to_bytes()
        });
    }

    fn name(&self, servo: Option<u16>) -> &str {
        servo.and_then(|servo| self.names.get(usize::from(servo))).map_or("", String::as_str)
    }
}

impl Observer for RunLog {
    /// Copies the tick into the recorder's ring; what does not fit is dropped and counted there.
    fn tick(&mut self, tick: &Tick<'_>) {
        let (machine, at_ns) = (tick.machine, tick.record.started_ns);
        let (state, number) = (machine.state(), tick.record.number);
        self.tap.gather_value(self.tick, at_ns, &tick.record);
        self.tap.gather_with(self.servo, at_ns, |out| {
            state.servos.iter().for_each(|servo| measured(servo, state.now_ns).encode(out));
        });
        self.tap.gather_with(self.command, at_ns, |out| {
            machine.commands().iter().for_each(|command| commanded(command).encode(out));
        });
        if let (Some(record), Some(imu)) = (self.imu, &state.imu) {
            self.tap.gather_value(record, at_ns, &sensed(imu, state.now_ns));
        }
        if let Some(follows) = &mut self.follows {
            follows.record(&mut self.tap, at_ns);
        }
        if let (Some(record), Some(decided)) = (self.decision, machine.decided()) {
            self.tap.push_value(record, at_ns, decided);
        }
        for change in machine.changes() {
            let name = self.parameters.get(usize::from(change.parameter)).map_or("", String::as_str);
            self.tap.push_value(self.parameter, at_ns, &changed(number, name, change));
        }
        if let Some(input) = machine.input() {
            let age_ns = state.teleop.age_ns;
            self.tap.push_value(self.teleop, at_ns, &steered(number, input, age_ns));
        }
        for transition in machine.transitions() {
            let mut event = [0; 1024];
            let mut out = khz_tlog::Slice::new(&mut event);
            let why = machine.explained(transition.cause, Some(transition.tick));
            write_event(transition, &why, self.name(transition.cause.servo()), &mut out);
            if let Some(bytes) = out.written() {
                self.tap.push(self.event, transition.at_ns, bytes);
            }
        }
        self.tap.hand_over();
    }
}

/// What of targets goes into a log in each tick.
struct Follows {
    status: Reader<Status>,
    /// The last tick that it got.
    tick: Option<u64>,
    stage: RecordId,
    aim: RecordId,
}

impl Follows {
    fn record(&mut self, tap: &mut Tap, at_ns: i64) {
        let status = self.status.read();
        if status.epoch == 0 || self.tick == Some(status.tick) {
            return;
        }
        self.tick = Some(status.tick);
        tap.push_value(self.stage, at_ns, &status.following);
        tap.push_with(self.aim, at_ns, |out| {
            for (target, offset) in status.target.iter().zip(&status.offset) {
                let [target, offset, reference] =
                    [*target, *offset, target + offset].map(|value| value as f32);
                record::Aim { target, offset, reference }.encode(out);
            }
        });
    }
}

/// Schema of `robot`.
pub fn robot_schema() -> Type {
    record::Robot::schema()
}

/// The bytes of a `robot` record: the robot file's text, the computer's passport as JSON, and the robot's
/// [`shape`](khz_file::draft::shape).
pub fn robot_record(config: &RobotConfig, file: &str, passport: &str, shape: &str) -> Vec<u8> {
    let path = if let RobotFile::At(path) = &config.file { path } else { "" };
    let clock = config.timing.clock.word();
    let all = [&config.name, file, passport, clock, path, shape];
    let [name, file, passport, clock, path, skeleton] = all.map(str::to_owned);
    record::Robot { name, file, passport, clock, path, skeleton }.to_bytes()
}

/// Schema of `parameters`.
pub fn parameters_schema() -> Type {
    record::Parameters::schema()
}

/// The bytes of a `parameters` record: JSON, one object per parameter, with its value now.
pub fn parameters_record(list: &[Parameter]) -> Vec<u8> {
    let list: serde_json::Value = list.iter().map(Parameter::described).collect();
    record::Parameters { text: list.to_string() }.to_bytes()
}

/// Schema of `servo`: one object per servo.
fn servo_schema<'a>(servos: impl IntoIterator<Item = (&'a str, &'a Family)>) -> Type {
    let doing = Type::enumeration(Doing::ALL.map(|doing| (doing as u64, doing.name())));
    record::per_servo(servos.into_iter().map(|(name, family)| {
        let modes = Type::enumeration(family.settings().modes());
        (name, record::Servo::schema_with(&doing, &modes))
    }))
}

fn measured(servo: &ServoState, now_ns: i64) -> record::Servo {
    record::Servo {
        position: servo.position as f32,
        velocity: servo.velocity as f32,
        torque: servo.torque as f32,
        voltage: servo.voltage as f32,
        temperature: servo.temperature as f32,
        doing: record::Code(servo.doing as u8),
        mode: record::Code(servo.mode.number),
        fault: servo.fault.code,
        fresh: servo.fresh,
        age_us: micros(servo.age_ns(now_ns)),
        round_trip_ns: u32::try_from(servo.round_trip_ns).unwrap_or(u32::MAX),
    }
}

/// Fields of commands that have none are NaN.
fn commanded(command: &ServoCommand) -> record::Command {
    const NONE: PositionCommand = PositionCommand {
        position: f64::NAN,
        velocity: f64::NAN,
        torque: f64::NAN,
        kp_scale: f64::NAN,
        kd_scale: f64::NAN,
        max_torque: f64::NAN,
    };
    let (kind, target) = match command {
        ServoCommand::Stop => (record::CommandKind::Stop, NONE),
        ServoCommand::Damp => (record::CommandKind::Damp, NONE),
        ServoCommand::Position(target) => (record::CommandKind::Position, *target),
    };
    record::Command {
        kind,
        position: target.position as f32,
        velocity: target.velocity as f32,
        torque: target.torque as f32,
        kp_scale: target.kp_scale as f32,
        kd_scale: target.kd_scale as f32,
        max_torque: target.max_torque as f32,
    }
}

fn sensed(imu: &ImuState, now_ns: i64) -> record::Imu {
    record::Imu {
        attitude: imu.sample.attitude.map(|value| value as f32),
        rate: imu.sample.rate.map(|value| value as f32),
        acceleration: imu.sample.acceleration.map(|value| value as f32),
        fresh: imu.fresh,
        age_us: micros(imu.age_ns(now_ns)),
    }
}

/// Writes an `event` record; `servo` is the name of the servo it is about, or empty. The only record that
/// is formatted as text; written once per change of phase.
fn write_event(transition: &Transition, why: &impl Display, servo: &str, out: &mut impl Sink) {
    // A controller's error may be longer than a panic's; its beginning has the reason.
    let mut cause = CutOff(ArrayString::<600>::new());
    let _ = write!(cause, "{why}");
    let event = record::Event {
        tick: transition.tick,
        from: transition.from.name().into(),
        to: transition.to.name().into(),
        cause: cause.0.as_str().into(),
        servo: servo.into(),
        trouble: transition.cause.is_trouble(),
    };
    event.encode(out);
}

fn changed<'a>(tick: u64, name: &'a str, change: &'a Taken) -> record::Parameter<'a> {
    let Taken { value, before, by, .. } = change;
    record::Parameter { tick, name: name.into(), value: *value, before: *before, by: by.as_str().into() }
}

fn steered(tick: u64, input: &Input, age_ns: i64) -> record::Teleop<'_> {
    let Teleop { forward, left, turn, height, roll, pitch, .. } = input.wanted;
    record::Teleop {
        tick,
        forward: forward as f32,
        left: left as f32,
        turn: turn as f32,
        height: height as f32,
        roll: roll as f32,
        pitch: pitch as f32,
        age_us: micros(age_ns),
        by: input.by.as_str().into(),
    }
}

/// A text that ends where there is no more room.
struct CutOff<const N: usize>(ArrayString<N>);

impl<const N: usize> Write for CutOff<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        text.chars().try_for_each(|char| self.0.try_push(char)).map_err(|_| std::fmt::Error)
    }
}

fn micros(ns: i64) -> u32 {
    u32::try_from(ns / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_loop::supervisor::{Cause, Phase};

    #[test]
    fn a_cause_too_long_for_its_record_is_cut_off() {
        let transition = Transition {
            tick: 7,
            at_ns: 0,
            from: Phase::Active,
            to: Phase::Damping,
            cause: Cause::BusDown { link: 0 },
            deadline_ns: None,
            last_good_ns: 0,
        };
        let links = [format!("the link of buses {}", "ä".repeat(400))];
        let mut out = Vec::new();
        write_event(&transition, &transition.cause.named(&links), "", &mut out);
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains("the link of buses ääää") && !text.contains("is down"), "{text}");
    }
}
