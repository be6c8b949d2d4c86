//! State and command as plain arrays: memory made once, its addresses the same for a whole run, filled in every tick.
//!
//! The loop's own state is one structure per servo, whose layout C does not know; a copy of some hundred numbers costs less than
//! C code that calls for each of them.

use crate::calls::{call_in_tick, is_in_controller, put_text};
use khz_robot::plain::{self, POSITION};
use khz_tlog::{Sink, Slice};
use kilohertz::record::{RecordId, Tap};
use kilohertz::{ControlError, Parameter, PositionCommand, RobotState, ServoCommand};
use std::ffi::c_char;
use std::ptr;

/// `khz_imu`.
#[repr(C)]
pub struct Imu {
    attitude: [f64; 4],
    rate: [f64; 3],
    acceleration: [f64; 3],
    age: f64,
    fresh: bool,
}

/// `khz_teleop`.
#[repr(C)]
#[derive(Default)]
pub struct Teleop {
    forward: f64,
    left: f64,
    turn: f64,
    height: f64,
    roll: f64,
    pitch: f64,
    age: f64,
}

/// `khz_state`.
#[repr(C)]
pub struct State {
    tick: u64,
    time: f64,
    dt: f64,
    elapsed: f64,
    now_ns: i64,
    servos: usize,
    position: *const f64,
    velocity: *const f64,
    torque: *const f64,
    voltage: *const f64,
    temperature: *const f64,
    age: *const f64,
    fault: *const u32,
    doing: *const u8,
    fresh: *const u8,
    imu: *const Imu,
    teleop: *const Teleop,
    parameter_count: usize,
    parameters: *const f64,
    library: *mut Library,
}

/// `khz_command`.
#[repr(C)]
pub struct Command {
    servos: usize,
    mode: *mut u8,
    pub position: *mut f64,
    velocity: *mut f64,
    torque: *mut f64,
    kp_scale: *mut f64,
    kd_scale: *mut f64,
    max_torque: *mut f64,
    /// The run is to end as planned.
    pub finish: bool,
}

/// `khz_tick`: what the functions for controllers need.
pub struct Library {
    now_ns: i64,
    faults: Vec<&'static str>,
    recording: Option<Recording>,
}

/// The records of a program's own, and where they go.
pub struct Recording {
    /// The loop's way to the recorder.
    pub tap: Tap,
    /// Of each record its number in the log, and how many fields it has.
    pub records: Vec<(RecordId, usize)>,
}

/// All memory of a controller.
pub struct Arrays {
    names: Vec<String>,
    parameters: Vec<Parameter>,
    library: Library,
    /// Position, velocity, torque, voltage, temperature, age: one after another.
    measured: Vec<f64>,
    fault: Vec<u32>,
    doing: Vec<u8>,
    fresh: Vec<u8>,
    imu: Option<Imu>,
    teleop: Teleop,
    values: Vec<f64>,
    /// With a guard before and after it.
    mode: Vec<u8>,
    /// [`TARGETS`], one after another, with a guard before each of them and after the last.
    targets: Vec<f64>,
}

/// The arrays of numbers of a command.
const TARGETS: [&str; 6] = ["position", "velocity", "torque", "kp_scale", "kd_scale", "max_torque"];

/// What lies between the arrays of a command: an index one too far changes it instead of moving another servo. No value that
/// a controller comes to: a NaN that no arithmetic makes, and no mode.
const GUARD: f64 = f64::from_bits(0x7ffc_6b68_7a5f_7761);
const MODE_GUARD: u8 = 0xa5;

impl Arrays {
    /// Room for a robot with these servos.
    pub fn new(
        names: Vec<String>,
        has_imu: bool,
        parameters: Vec<Parameter>,
        recording: Option<Recording>,
    ) -> Self {
        let servos = names.len();
        let unread = Imu {
            attitude: [f64::NAN; 4],
            rate: [f64::NAN; 3],
            acceleration: [f64::NAN; 3],
            age: f64::INFINITY,
            fresh: false,
        };
        Self {
            library: Library { now_ns: 0, faults: vec!["none"; servos], recording },
            measured: vec![f64::NAN; 6 * servos],
            fault: vec![0; servos],
            doing: vec![0; servos],
            fresh: vec![0; servos],
            imu: has_imu.then_some(unread),
            teleop: Teleop::default(),
            values: vec![0.0; parameters.len()],
            mode: vec![MODE_GUARD; servos + 2],
            targets: vec![GUARD; TARGETS.len() * (servos + 1) + 1],
            names,
            parameters,
        }
    }

    /// Fills in the state. Allocates nothing.
    pub fn look(&mut self, state: &RobotState) {
        let servos = self.names.len();
        self.library.now_ns = state.now_ns;
        for (at, servo) in state.servos.iter().enumerate().take(servos) {
            let age = seconds(servo.age_ns(state.now_ns));
            let values =
                [servo.position, servo.velocity, servo.torque, servo.voltage, servo.temperature, age];
            for (field, value) in values.into_iter().enumerate() {
                self.measured[field * servos + at] = value;
            }
            self.fault[at] = servo.fault.code;
            self.library.faults[at] = servo.fault.text;
            self.doing[at] = servo.doing as u8;
            self.fresh[at] = u8::from(servo.fresh);
        }
        if let (Some(imu), Some(newest)) = (&mut self.imu, &state.imu) {
            let (sample, age) = (&newest.sample, seconds(newest.age_ns(state.now_ns)));
            let (attitude, rate, acceleration) = (sample.attitude, sample.rate, sample.acceleration);
            *imu = Imu { attitude, rate, acceleration, age, fresh: newest.fresh };
        }
        let kilohertz::Teleop { forward, left, turn, height, roll, pitch, age_ns } = state.teleop;
        self.teleop = Teleop { forward, left, turn, height, roll, pitch, age: seconds(age_ns) };
        for (value, parameter) in self.values.iter_mut().zip(&self.parameters) {
            *value = parameter.get();
        }
    }

    /// State and command for C: valid until these arrays are used otherwise. Allocates nothing.
    pub fn for_c(&mut self, state: &RobotState) -> (State, Command) {
        let servos = self.names.len();
        let measured = self.measured.as_ptr();
        let column = |field: usize| measured.wrapping_add(field * servos);
        let targets = self.targets.as_mut_ptr();
        let target = |field: usize| targets.wrapping_add(place(field, 0, servos));
        let state = State {
            tick: state.tick,
            time: state.time(),
            dt: state.dt(),
            elapsed: state.elapsed_ns as f64 * 1e-9,
            now_ns: state.now_ns,
            servos,
            position: column(0),
            velocity: column(1),
            torque: column(2),
            voltage: column(3),
            temperature: column(4),
            age: column(5),
            fault: self.fault.as_ptr(),
            doing: self.doing.as_ptr(),
            fresh: self.fresh.as_ptr(),
            imu: self.imu.as_ref().map_or(ptr::null(), |imu| imu),
            teleop: &self.teleop,
            parameter_count: self.values.len(),
            parameters: self.values.as_ptr(),
            library: &mut self.library,
        };
        let command = Command {
            servos,
            mode: self.mode.as_mut_ptr().wrapping_add(1),
            position: target(0),
            velocity: target(1),
            torque: target(2),
            kp_scale: target(3),
            kd_scale: target(4),
            max_torque: target(5),
            finish: false,
        };
        (state, command)
    }

    /// Makes the command: hold every joint where it is. Allocates nothing.
    pub fn hold(&mut self, state: &RobotState) {
        let servos = self.names.len();
        self.mode.fill(MODE_GUARD);
        self.targets.fill(GUARD);
        for (at, servo) in state.servos.iter().enumerate().take(servos) {
            let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } =
                PositionCommand::hold(servo.position);
            self.mode[1 + at] = POSITION;
            let values = [position, velocity, torque, kp_scale, kd_scale, max_torque];
            for (field, value) in values.into_iter().enumerate() {
                self.targets[place(field, at, servos)] = value;
            }
        }
    }

    /// Takes the commands out of the arrays. Allocates nothing unless something is wrong.
    ///
    /// # Errors
    /// The array that was written beyond, or the servo and the value that it cannot follow.
    pub fn read(&self, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let servos = self.names.len();
        self.check_guards()?;
        for (at, command) in commands.iter_mut().enumerate().take(servos) {
            let value = |field: usize| self.targets[place(field, at, servos)];
            let target = PositionCommand {
                position: value(0),
                velocity: value(1),
                torque: value(2),
                kp_scale: value(3),
                kd_scale: value(4),
                max_torque: value(5),
            };
            let wrong = |wrong| ControlError(format!("{}: {wrong}", self.names[at]).into());
            *command = plain::read(self.mode[1 + at], target).map_err(wrong)?;
        }
        Ok(())
    }

    /// Whether the controller has kept to the arrays of the command. Allocates nothing unless it has not.
    fn check_guards(&self) -> Result<(), ControlError> {
        let wrote = |where_: &str, name: &str| {
            Err(ControlError(
                format!("the controller wrote {where_} of `{name}`: its indices go up to servos - 1").into(),
            ))
        };
        let servos = self.names.len();
        if self.mode[0] != MODE_GUARD {
            return wrote("before the start", "mode");
        }
        if self.mode[1 + servos] != MODE_GUARD {
            return wrote("past the end", "mode");
        }
        let is_whole = |at: usize| self.targets[at].to_bits() == GUARD.to_bits();
        if !is_whole(0) {
            return wrote("before the start", TARGETS[0]);
        }
        // A guard between two arrays is more often one too far for the first than one too few for the second.
        let damaged = (0..TARGETS.len()).find(|&field| !is_whole(place(field, servos, servos)));
        damaged.map_or(Ok(()), |field| wrote("past the end", TARGETS[field]))
    }
}

/// Where the target of a servo is; the guard after an array is where one servo more would be.
fn place(field: usize, servo: usize, servos: usize) -> usize {
    1 + field * (servos + 1) + servo
}

/// Asks what is behind the state of a controller that is being called; `None` anywhere else.
fn ask<T>(state: Option<&State>, ask: impl FnOnce(&mut Library) -> T) -> Option<T> {
    let library = state.filter(|_| is_in_controller())?.library;
    // SAFETY: the header allows this within the controller only, on its thread and with its own state: the library lives then,
    // and no other reference to it is in use.
    unsafe { library.as_mut() }.map(ask)
}

#[unsafe(no_mangle)]
pub extern "C" fn khz_state_fault_text(
    state: Option<&State>,
    servo: usize,
    text: *mut c_char,
    size: usize,
) -> usize {
    call_in_tick(|| {
        let fault = ask(state, |library| library.faults.get(servo).copied()).flatten();
        fault.iter().for_each(|fault| put_text(fault, text, size));
        Ok(fault.map_or(0, str::len))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn khz_state_record(
    state: Option<&State>,
    record: isize,
    values: *const f64,
    count: usize,
) -> bool {
    call_in_tick(|| {
        let push = |library: &mut Library| library.record(record, values, count);
        Ok(ask(state, push).flatten().unwrap_or(false))
    })
}

impl Library {
    /// Records a sample; `None` if it is none of that record.
    fn record(&mut self, record: isize, values: *const f64, count: usize) -> Option<bool> {
        let Recording { tap, records } = self.recording.as_mut()?;
        let (record, fields) = *records.get(usize::try_from(record).ok()?)?;
        if fields != count || values.is_null() {
            return None;
        }
        // SAFETY: the header has the caller give `count` values, and as many as the record has fields are not too many.
        let values = unsafe { std::slice::from_raw_parts(values, count) };
        let put = |out: &mut Slice<'_>| values.iter().for_each(|value| out.put(&value.to_le_bytes()));
        Some(tap.push_with(record, self.now_ns, put))
    }
}

fn seconds(ns: i64) -> f64 {
    if ns == i64::MAX { f64::INFINITY } else { ns as f64 * 1e-9 }
}
