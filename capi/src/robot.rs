//! `khz_robot`: a robot file, and what a program adds to it.

use crate::arrays::Recording;
use crate::calls::{Problem, Status, Text, c_string, call, there};
use crate::controller::{CController, Functions, Release, Start, Update, User};
use crate::run::Run;
use khz_file::config::QUADRUPED;
use khz_loop::parameters::settings::ParametersConfig;
use khz_loop::parameters::settle;
use khz_robot::assemble;
use khz_tlog::{Field as LogField, Type};
use kilohertz::record::{RecorderBuilder, RecorderError};
use kilohertz::{Overrides, Pace, Parameter, RobotConfig};
use std::collections::HashSet;
use std::ffi::{CString, c_char, c_void};
use std::path::PathBuf;
use std::time::Duration;

/// Memory for the records of a program, between the loop and the recorder.
const RING_BYTES: usize = 4 << 20;

const NO_CONTROLLER: &str = "parameters or records were declared, but the robot has no controller of the program's own to use \
     them: give it one by khz_robot_set_controller";

/// `khz_robot`.
pub struct Robot {
    text: String,
    config: RobotConfig,
    /// For C: its name, its warnings, and the names of its servos.
    called: (CString, CString, Vec<CString>),
    functions: Option<Functions>,
    declared: Vec<Declared>,
    records: Vec<(String, Type, usize)>,
    duration: Option<Duration>,
    /// How often the controller decides, if that is less often than the loop ticks.
    pace: Option<Pace>,
}

/// A parameter that a program declares. Each run has values of its own.
struct Declared {
    name: String,
    kind: Kind,
    /// Value, least, greatest.
    numbers: [f64; 3],
    unit: String,
    about: String,
}

/// `khz_kind`, as a number that C may have made up.
type Kind = i32;

const FLOAT: Kind = 0;
const INTEGER: Kind = 1;
const BOOLEAN: Kind = 2;

/// `khz_field`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Field {
    name: Text<'static>,
    unit: Text<'static>,
}

impl Robot {
    fn parse(text: &str, name: &str) -> Result<Box<Self>, Problem> {
        let config = RobotConfig::parse(text, name).map_err(kilohertz::Error::from)?;
        Ok(Self::new(config, text))
    }

    fn new(config: RobotConfig, text: &str) -> Box<Self> {
        let servos = config.servos.iter().map(|servo| c_string(servo.name.as_str())).collect();
        let called = (c_string(config.name.as_str()), c_string(config.warnings.join("\n")), servos);
        Box::new(Self {
            text: text.to_owned(),
            config,
            called,
            functions: None,
            declared: Vec::new(),
            records: Vec::new(),
            duration: None,
            pace: None,
        })
    }

    /// The settings of the robot file, with the program's changes.
    pub fn config(&self) -> &RobotConfig {
        &self.config
    }

    fn override_with(&mut self, overrides: Overrides) -> Status {
        overrides.apply(&mut self.config);
        Status::Ok
    }

    /// The robot as `kilohertz` has it: ready to start.
    fn ready(&self) -> Result<kilohertz::Robot, Problem> {
        let mut robot = kilohertz::Robot::read(self.config.clone(), self.text.clone());
        if let Some(duration) = self.duration {
            robot = robot.duration(duration);
        }
        let Some(functions) = self.functions.clone() else {
            return match self.declared.is_empty() && self.records.is_empty() {
                true => Ok(robot),
                false => Err(Problem(Status::Start, NO_CONTROLLER.to_owned())),
            };
        };
        let mut builder = RecorderBuilder::default();
        let declare = |(name, ty, fields): &(String, Type, usize)| Ok((builder.record(name, ty)?, *fields));
        let records: Result<Vec<_>, RecorderError> = self.records.iter().map(declare).collect();
        let records = records.map_err(refused_record)?;
        let is_recording = self.config.log.enabled && !records.is_empty();
        let recording = is_recording.then(|| Recording { tap: builder.tap(RING_BYTES), records });
        let declared = self.declared.iter().map(Declared::parameter).collect();
        let controller = CController::new(functions, declared, recording).at_pace(self.pace);
        Ok(robot.recorder(builder).controller(controller))
    }

    fn servo(&self, servo: usize) -> Result<usize, Problem> {
        let count = self.config.servos.len();
        let text = || format!("servo {servo} is out of range: the robot has {count}, counted from 0");
        if servo < count { Ok(servo) } else { Err(Problem::invalid(text())) }
    }
}

impl Declared {
    fn parameter(&self) -> Parameter {
        let Self { name, kind, numbers: [value, min, max], unit, about } = self;
        let parameter = match *kind {
            BOOLEAN => Parameter::boolean(name, *value != 0.0),
            INTEGER => Parameter::integer(name, *value as i64, *min as i64..=*max as i64),
            _ => Parameter::float(name, *value, *min..=*max),
        };
        parameter.in_unit(unit).about(about)
    }
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_load(path: Text<'_>) -> Option<Box<Robot>> {
    call(|| {
        let path = path.get("path")?;
        let text = std::fs::read_to_string(path)
            .map_err(|source| kilohertz::Error::File { path: path.into(), source })?;
        let config = RobotConfig::of_file(&text, path).map_err(kilohertz::Error::from)?;
        Ok(Some(Robot::new(config, &text)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_parse(text: Text<'_>, name: Text<'_>) -> Option<Box<Robot>> {
    call(|| Robot::parse(text.get("text")?, name.get("name")?).map(Some))
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_quadruped() -> Option<Box<Robot>> {
    call(|| Ok(Some(Robot::new(RobotConfig::quadruped(), QUADRUPED))))
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_free(robot: Option<Box<Robot>>) {
    // Refused within a controller, it must not be freed on the way out either.
    let mut robot = std::mem::ManuallyDrop::new(robot);
    call(|| {
        drop(robot.take());
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_name(robot: Option<&Robot>) -> *const c_char {
    call(|| Ok(there(robot, "robot")?.called.0.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_rate_hz(robot: Option<&Robot>) -> f64 {
    call(|| Ok(there(robot, "robot")?.config.timing.rate_hz))
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_has_imu(robot: Option<&Robot>) -> bool {
    call(|| Ok(there(robot, "robot")?.config.imu.is_some()))
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_warnings(robot: Option<&Robot>) -> *const c_char {
    call(|| Ok(there(robot, "robot")?.called.1.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_servo_count(robot: Option<&Robot>) -> usize {
    call(|| Ok(there(robot, "robot")?.config.servos.len()))
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_servo_name(robot: Option<&Robot>, servo: usize) -> *const c_char {
    call(|| {
        let robot = there(robot, "robot")?;
        Ok(robot.called.2[robot.servo(servo)?].as_ptr())
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_servo(robot: Option<&Robot>, name: Text<'_>) -> isize {
    call(|| {
        let (robot, name) = (there(robot, "robot")?, name.get("name")?);
        let found = assemble::info(&robot.config).joint(name);
        found.map(|at| at as isize).map_err(|error| Problem::invalid(error.to_string()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_limits(
    robot: Option<&Robot>,
    servo: usize,
    min: Option<&mut f64>,
    max: Option<&mut f64>,
) -> Status {
    call(|| {
        let robot = there(robot, "robot")?;
        let limits = robot.config.servos[robot.servo(servo)?].limits.position;
        [*there(min, "min")?, *there(max, "max")?] = limits.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_set_controller(
    robot: Option<&mut Robot>,
    start: Option<Start>,
    update: Option<Update>,
    user: *mut c_void,
) -> Status {
    khz_robot_set_controller_owned(robot, start, update, user, None)
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_set_controller_owned(
    robot: Option<&mut Robot>,
    start: Option<Start>,
    update: Option<Update>,
    user: *mut c_void,
    release: Option<Release>,
) -> Status {
    call(|| {
        let (robot, update) = (there(robot, "robot")?, there(update, "update")?);
        robot.functions = Some(Functions { start, update, user: User::new(user, release) });
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_set_duration(robot: Option<&mut Robot>, seconds: f64) -> Status {
    call(|| {
        let robot = there(robot, "robot")?;
        let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
        let text = || Problem::invalid(format!("seconds is {seconds}; it must be a number above 0"));
        robot.duration = Some(duration.ok_or_else(text)?);
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_set_virtual_time(robot: Option<&mut Robot>, on: bool) -> Status {
    call(|| {
        use kilohertz::config::Clock;
        let clock = Some(if on { Clock::Virtual } else { Clock::Real });
        Ok(there(robot, "robot")?.override_with(Overrides { clock, ..Overrides::default() }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_set_log(robot: Option<&mut Robot>, path: Text<'_>) -> Status {
    call(|| {
        let (robot, path) = (there(robot, "robot")?, path.maybe("path")?);
        let (no_log, log) = (path.is_none(), path.map(PathBuf::from));
        Ok(robot.override_with(Overrides { no_log, log, ..Overrides::default() }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_set_seed(robot: Option<&mut Robot>, seed: u64) -> Status {
    call(|| {
        let seed = Some(seed);
        Ok(there(robot, "robot")?.override_with(Overrides { seed, ..Overrides::default() }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_set_decisions(
    robot: Option<&mut Robot>,
    rate_hz: f64,
    delay_ticks: u32,
    max_late: u32,
) -> Status {
    call(|| {
        let robot = there(robot, "robot")?;
        let (delay, period_ns) = ((delay_ticks > 0).then_some(delay_ticks), robot.config.timing.period_ns());
        let pace = Pace::of(rate_hz, delay, max_late, period_ns);
        robot.pace = Some(pace.map_err(|error| Problem::invalid(error.to_string()))?);
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_add_parameter(
    robot: Option<&mut Robot>,
    name: Text<'_>,
    kind: Kind,
    value: f64,
    min: f64,
    max: f64,
    unit: Text<'_>,
    about: Text<'_>,
) -> isize {
    call(|| {
        let (robot, name) = (there(robot, "robot")?, name.get("name")?.to_owned());
        if !(FLOAT..=BOOLEAN).contains(&kind) {
            return Err(Problem::invalid(format!(
                "kind is {kind}; it must be KHZ_FLOAT, KHZ_INTEGER or KHZ_BOOLEAN"
            )));
        }
        if kind == BOOLEAN && ![0.0, 1.0].contains(&value) {
            return Err(Problem::invalid(format!("{name}: value is {value}; it must be 0 or 1")));
        }
        let whole = |number: &f64| number.fract() == 0.0;
        if kind == INTEGER && ![value, min, max].iter().all(whole) {
            return Err(Problem::invalid(format!("{name}: value, min and max must be whole numbers")));
        }
        let unit = unit.maybe("unit")?.unwrap_or_default().to_owned();
        let about = about.maybe("text")?.unwrap_or_default().to_owned();
        let declared = Declared { name, kind, numbers: [value, min, max], unit, about };
        // The checks of a start, without the robot file's values: those are checked there.
        let all = robot.declared.iter().chain([&declared]).map(Declared::parameter).collect();
        settle(all, Vec::new(), &ParametersConfig::default())
            .map_err(|error| Problem::invalid(error.to_string()))?;
        robot.declared.push(declared);
        Ok((assemble::info(&robot.config).parameters.len() + robot.declared.len()) as isize - 1)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_parameter(robot: Option<&Robot>, name: Text<'_>) -> isize {
    call(|| {
        let (robot, name) = (there(robot, "robot")?, name.get("name")?);
        let of_file = assemble::info(&robot.config);
        let mut of_program = robot.declared.iter().map(|declared| &declared.name);
        if let Some(at) = of_program.position(|declared| declared == name) {
            return Ok((of_file.parameters.len() + at) as isize);
        }
        of_file.parameter(name).map_err(|error| Problem::invalid(error.to_string()))?;
        let at = of_file.parameters.iter().position(|parameter| parameter.name == name);
        Ok(at.map_or(-1, |at| at as isize))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_add_record(
    robot: Option<&mut Robot>,
    name: Text<'_>,
    fields: *const Field,
    count: usize,
) -> isize {
    call(|| {
        let (robot, name) = (there(robot, "robot")?, name.get("name")?.to_owned());
        if fields.is_null() || count == 0 {
            return Err(Problem::invalid(format!("record {name}: it has no fields")));
        }
        // SAFETY: the header has the caller give `count` fields.
        let fields = unsafe { std::slice::from_raw_parts(fields, count) };
        let field = |field: &Field| -> Result<LogField, Problem> {
            let made = LogField::new(field.name.get("the name of a field")?, Type::Float64);
            Ok(field.unit.maybe("the unit of a field")?.map_or(made.clone(), |unit| made.with_unit(unit)))
        };
        let fields: Vec<_> = fields.iter().map(field).collect::<Result<_, _>>()?;
        check_record(robot, &name, &fields)?;
        let ty = Type::Object(fields);
        robot.records.push((name, ty, count));
        Ok(robot.records.len() as isize - 1)
    })
}

/// Whether the log can have such a record beside those it has.
fn check_record(robot: &Robot, name: &str, fields: &[LogField]) -> Result<(), Problem> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_control);
    if !is_name(name) {
        return Err(Problem::invalid(format!(
            "{name:?} cannot name a record: it is empty or has control characters"
        )));
    }
    let mut names = HashSet::new();
    for LogField { name: field, .. } in fields {
        if !is_name(field) {
            let why = "it is empty or has control characters";
            return Err(Problem::invalid(format!("record {name}: {field:?} cannot name a field: {why}")));
        }
        if !names.insert(field) {
            return Err(Problem::invalid(format!("record {name}: two fields are called `{field}`")));
        }
    }
    let mut builder = RecorderBuilder::default();
    let mut declare = |name: &str| builder.record(name, &Type::Null).map(drop).map_err(refused_record);
    robot.config.record_names().try_for_each(&mut declare)?;
    robot.records.iter().try_for_each(|(name, ..)| declare(name))?;
    declare(name)
}

fn refused_record(error: RecorderError) -> Problem {
    Problem::invalid(error.to_string())
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_start(robot: Option<&Robot>) -> Option<Box<Run>> {
    call(|| {
        let robot = there(robot, "robot")?.ready()?;
        Ok(Some(Box::new(Run::running(robot.start()?))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_robot_run(robot: Option<&Robot>) -> Option<Box<Run>> {
    call(|| {
        let robot = there(robot, "robot")?.ready()?;
        Ok(Some(Box::new(Run::finished(robot.run()?))))
    })
}
