//! The messages that viewers know by name, made of the robot's records: nothing has to be set up to see a robot move.
//!
//! Each is written as a value of ours first, whose fields lie as those of the ROS 2 message; the encoding is then that of
//! all records.

use khz_export::ros2::{self, Integers};
use khz_tlog::{Field, Sink, Type, Value, Width};

const SEPARATOR: &str =
    "================================================================================\nMSG: ";
const TIME: (&str, &str) = ("builtin_interfaces/Time", "int32 sec\nuint32 nanosec\n");
const HEADER: (&str, &str) = ("std_msgs/Header", "builtin_interfaces/Time stamp\nstring frame_id\n");
const VECTOR: (&str, &str) = ("geometry_msgs/Vector3", "float64 x\nfloat64 y\nfloat64 z\n");
const QUATERNION: (&str, &str) = ("geometry_msgs/Quaternion", "float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n");

/// The frame of the ground, and of the robot's trunk.
const WORLD: &str = "odom";
const TRUNK: &str = "base_link";

/// A message that viewers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// `sensor_msgs/JointState`, of the record `servo`.
    JointStates,
    /// `sensor_msgs/Imu`, of `imu`.
    Imu,
    /// `tf2_msgs/TFMessage`, of `imu`.
    Tf,
    /// `diagnostic_msgs/DiagnosticArray`, of `tick` and the newest `servo`.
    Diagnostics,
    /// `rcl_interfaces/Log`, of `event`.
    Events,
}

impl Standard {
    /// What is made of a record.
    pub fn of(record: &str, ty: &Type) -> Vec<Self> {
        match record {
            "servo" if !joints(ty).is_empty() => vec![Self::JointStates],
            "imu" if has(ty, &["attitude", "rate", "acceleration"]) => vec![Self::Imu, Self::Tf],
            "tick" if has(ty, &["phase", "overrun", "missed", "wake_latency_ns"]) => vec![Self::Diagnostics],
            "event" if has(ty, &["from", "to", "cause", "trouble"]) => vec![Self::Events],
            _ => Vec::new(),
        }
    }

    /// Its topic.
    pub fn topic(self) -> &'static str {
        match self {
            Self::JointStates => "/joint_states",
            Self::Imu => "/imu/data",
            Self::Tf => "/tf",
            Self::Diagnostics => "/diagnostics",
            Self::Events => "/events",
        }
    }

    /// The name of its type in ROS 2.
    pub fn message(self) -> &'static str {
        match self {
            Self::JointStates => "sensor_msgs/msg/JointState",
            Self::Imu => "sensor_msgs/msg/Imu",
            Self::Tf => "tf2_msgs/msg/TFMessage",
            Self::Diagnostics => "diagnostic_msgs/msg/DiagnosticArray",
            Self::Events => "rcl_interfaces/msg/Log",
        }
    }

    /// How much time lies between two messages at least, µs: a trunk that turns is not seen more often.
    pub fn period_us(self) -> i64 {
        match self {
            Self::Tf => 20_000,
            Self::Diagnostics => 1_000_000,
            Self::JointStates | Self::Imu | Self::Events => 0,
        }
    }

    /// The definition, with those of the messages within.
    pub fn definition(self) -> String {
        match self {
            Self::JointStates => with(
                "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n",
                &[HEADER, TIME],
            ),
            Self::Imu => with(
                "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\nfloat64[9] orientation_covariance\n\
                 geometry_msgs/Vector3 angular_velocity\nfloat64[9] angular_velocity_covariance\n\
                 geometry_msgs/Vector3 linear_acceleration\nfloat64[9] linear_acceleration_covariance\n",
                &[HEADER, TIME, QUATERNION, VECTOR],
            ),
            Self::Tf => with(
                "geometry_msgs/TransformStamped[] transforms\n",
                &[
                    (
                        "geometry_msgs/TransformStamped",
                        "std_msgs/Header header\nstring child_frame_id\ngeometry_msgs/Transform transform\n",
                    ),
                    HEADER,
                    TIME,
                    (
                        "geometry_msgs/Transform",
                        "geometry_msgs/Vector3 translation\ngeometry_msgs/Quaternion rotation\n",
                    ),
                    VECTOR,
                    QUATERNION,
                ],
            ),
            Self::Diagnostics => with(
                "std_msgs/Header header\ndiagnostic_msgs/DiagnosticStatus[] status\n",
                &[
                    HEADER,
                    TIME,
                    (
                        "diagnostic_msgs/DiagnosticStatus",
                        "byte OK=0\nbyte WARN=1\nbyte ERROR=2\nbyte STALE=3\nbyte level\nstring name\nstring message\n\
                         string hardware_id\ndiagnostic_msgs/KeyValue[] values\n",
                    ),
                    ("diagnostic_msgs/KeyValue", "string key\nstring value\n"),
                ],
            ),
            Self::Events => with(
                "byte DEBUG=10\nbyte INFO=20\nbyte WARN=30\nbyte ERROR=40\nbyte FATAL=50\n\
                 builtin_interfaces/Time stamp\nuint8 level\nstring name\nstring msg\nstring file\nstring function\n\
                 uint32 line\n",
                &[TIME],
            ),
        }
    }
}

fn with(text: &str, parts: &[(&str, &str)]) -> String {
    parts.iter().fold(text.to_owned(), |all, (name, body)| all + SEPARATOR + name + "\n" + body)
}

fn has(ty: &Type, names: &[&str]) -> bool {
    let Type::Object(fields) = ty else { return false };
    names.iter().all(|name| fields.iter().any(|field| field.name == *name))
}

/// The fields of a `servo` record that are joints.
fn joints(ty: &Type) -> Vec<&Field> {
    let Type::Object(fields) = ty else { return Vec::new() };
    fields.iter().filter(|field| has(&field.ty, &["position", "velocity", "torque"])).collect()
}

fn list(of: Type) -> Type {
    Type::Array(Box::new(of))
}

fn floats<const N: u64>() -> Type {
    Type::FixedArray(N, Box::new(Type::Float64))
}

fn object(fields: impl IntoIterator<Item = Type>) -> Type {
    Type::object(fields.into_iter().map(|ty| ("f", ty)))
}

fn header() -> Type {
    object([Type::Timestamp, Type::String])
}

fn put_floats(values: impl IntoIterator<Item = f64>, out: &mut Vec<u8>) {
    values.into_iter().for_each(|value| out.put(&value.to_le_bytes()));
}

fn put_header(time_us: i64, frame: &str, out: &mut Vec<u8>) {
    out.put(&time_us.to_le_bytes());
    out.counted(frame.as_bytes());
}

/// The bytes of a message whose fields are `ty` and whose values are `payload`.
fn cdr(ty: &Type, payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(payload.len() + 64);
    ros2::encode(ty, payload, Integers::Exact, &mut out).ok()?;
    Some(out)
}

fn number(value: &Value<'_>, field: &str) -> f64 {
    match value {
        Value::Object(object) => object.field(field).and_then(|value| value.number()).unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

/// Positions, velocities and torques of all joints.
pub fn joint_states(time_us: i64, value: &Value<'_>) -> Option<Vec<u8>> {
    let Value::Object(servos) = *value else { return None };
    let joints: Vec<_> = servos.filter(|(_, servo)| !number(servo, "position").is_nan()).collect();
    let all = |field: &str, out: &mut Vec<u8>| {
        out.varuint(joints.len() as u64);
        put_floats(joints.iter().map(|(_, servo)| number(servo, field)), out);
    };
    let mut out = Vec::new();
    put_header(time_us, "", &mut out);
    out.varuint(joints.len() as u64);
    joints.iter().for_each(|(name, _)| out.counted(name.as_bytes()));
    ["position", "velocity", "torque"].into_iter().for_each(|field| all(field, &mut out));
    let ty =
        object([header(), list(Type::String), list(Type::Float64), list(Type::Float64), list(Type::Float64)]);
    cdr(&ty, &out)
}

/// The numbers of an array.
fn numbers<const N: usize>(value: &Value<'_>, field: &str) -> Option<[f64; N]> {
    let Some(Value::Array(items)) = value.at(field) else { return None };
    let numbers: Vec<f64> = items.map(|item| item.number().unwrap_or(f64::NAN)).collect();
    numbers.try_into().ok()
}

/// Attitude w, x, y, z as x, y, z, w.
fn quaternion(value: &Value<'_>) -> Option<[f64; 4]> {
    let [w, x, y, z] = numbers(value, "attitude")?;
    Some([x, y, z, w])
}

/// Standard gravity, m/s².
const GRAVITY: f64 = 9.806_65;

/// Attitude, rate and acceleration; how exact they are is not known. Records have the acceleration without gravity; `sensor_msgs/Imu`
/// has what an accelerometer measures (REP 145): upwards at rest.
pub fn imu(time_us: i64, value: &Value<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    put_header(time_us, TRUNK, &mut out);
    let unknown = [0.0; 9];
    let attitude = quaternion(value)?;
    put_floats(attitude.into_iter().chain(unknown), &mut out);
    put_floats(numbers::<3>(value, "rate")?.into_iter().chain(unknown), &mut out);
    let [x, y, z, w] = attitude;
    // Upwards, as the trunk sees it.
    let up = [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)];
    let own: [f64; 3] = numbers(value, "acceleration")?;
    let measured = own.into_iter().zip(up).map(|(own, up)| own + GRAVITY * up);
    put_floats(measured.chain(unknown), &mut out);
    let parts = [floats::<4>(), floats::<9>(), floats::<3>(), floats::<9>(), floats::<3>(), floats::<9>()];
    cdr(&object(std::iter::once(header()).chain(parts)), &out)
}

/// How the trunk is turned. Its position is unknown.
pub fn tf(time_us: i64, value: &Value<'_>) -> Option<Vec<u8>> {
    let rotation = quaternion(value)?;
    // Viewers refuse a transform that turns by no number, as before the first reading.
    if rotation.iter().any(|part| !part.is_finite()) {
        return None;
    }
    let mut out = Vec::new();
    out.varuint(1);
    put_header(time_us, WORLD, &mut out);
    out.counted(TRUNK.as_bytes());
    put_floats([0.0; 3].into_iter().chain(rotation), &mut out);
    cdr(&object([list(object([header(), Type::String, floats::<3>(), floats::<4>()]))]), &out)
}

/// A change of phase as a line of a log.
pub fn event(time_us: i64, value: &Value<'_>) -> Option<Vec<u8>> {
    let text = |field: &str| match value.at(field) {
        Some(Value::String(text)) => text,
        _ => "",
    };
    let servo = text("servo");
    let who = if servo.is_empty() { "supervisor" } else { servo };
    let line = format!("{} → {}: {}", text("from"), text("to"), text("cause"));
    let level = if matches!(value.at("trouble"), Some(Value::Bool(true))) { ERROR } else { INFO };
    log(time_us, level, who, &line)
}

const INFO: u8 = 20;
const ERROR: u8 = 40;

fn log(time_us: i64, level: u8, who: &str, line: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    out.put(&time_us.to_le_bytes());
    out.put(&[level]);
    [who, line, "", ""].iter().for_each(|text| out.counted(text.as_bytes()));
    out.put(&0u32.to_le_bytes());
    let texts = std::iter::repeat_n(Type::String, 4);
    let ty = object(
        [Type::Timestamp, Type::Uint(Width::One)].into_iter().chain(texts).chain([Type::Uint(Width::Four)]),
    );
    cdr(&ty, &out)
}

/// How one thing is.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// How bad it is.
    pub level: Level,
    /// What it is about.
    pub name: String,
    /// How it is, in a few words.
    pub message: String,
    /// Names and values.
    pub values: Vec<(String, String)>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// To be looked at.
    Warn,
    /// Broken.
    Error,
}

/// How all these things are, as `diagnostic_msgs/DiagnosticArray`.
pub fn diagnostics(time_us: i64, all: &[Status]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    put_header(time_us, "", &mut out);
    out.varuint(all.len() as u64);
    for status in all {
        out.put(&[status.level as u8]);
        [status.name.as_str(), &status.message, ""].iter().for_each(|text| out.counted(text.as_bytes()));
        out.varuint(status.values.len() as u64);
        for text in status.values.iter().flat_map(|(key, value)| [key, value]) {
            out.counted(text.as_bytes());
        }
    }
    let pair = object([Type::String, Type::String]);
    let status = object([Type::Uint(Width::One), Type::String, Type::String, Type::String, list(pair)]);
    cdr(&object([header(), list(status)]), &out)
}

/// What the ticks of about a second were like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickSummary {
    since_us: Option<i64>,
    ticks: u64,
    overruns: u64,
    missed: u64,
    worst_wake_ns: i64,
    phase: String,
}

impl TickSummary {
    /// Notes a sample of `tick`.
    pub fn add(&mut self, time_us: i64, tick: &Value<'_>) {
        self.since_us.get_or_insert(time_us);
        let Value::Object(tick) = *tick else { return };
        self.ticks += 1;
        for (name, value) in tick {
            match (name, value) {
                ("overrun", Value::Bool(true)) => self.overruns += 1,
                ("missed", value) => self.missed += value.number().unwrap_or(0.0) as u64,
                ("wake_latency_ns", Value::Int(ns)) => self.worst_wake_ns = self.worst_wake_ns.max(ns),
                ("phase", Value::Enum(phase)) => {
                    self.phase.clear();
                    self.phase.push_str(phase.name.unwrap_or("unknown"));
                }
                _ => {}
            }
        }
    }

    /// The status of the loop.
    pub fn status(&self, time_us: i64) -> Status {
        let seconds = (time_us - self.since_us.unwrap_or(time_us)).max(1) as f64 / 1e6;
        let level = match self.phase.as_str() {
            "fault" => Level::Error,
            "damping" => Level::Warn,
            _ if self.overruns + self.missed > 0 => Level::Warn,
            _ => Level::Ok,
        };
        let values = [
            ("ticks per second", format!("{:.0}", self.ticks as f64 / seconds)),
            ("overruns", self.overruns.to_string()),
            ("missed replies", self.missed.to_string()),
            ("worst wake latency", format!("{:.1} µs", self.worst_wake_ns as f64 / 1000.0)),
        ];
        let values = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let mut message = self.phase.clone();
        for (count, one, many) in
            [(self.overruns, "overrun", "overruns"), (self.missed, "missed reply", "missed replies")]
        {
            if count > 0 {
                message += &format!(", {count} {}", if count == 1 { one } else { many });
            }
        }
        Status { level, name: "loop".into(), message, values }
    }
}

/// The status of each servo in a `servo` record.
pub fn servos(value: &Value<'_>) -> Vec<Status> {
    let Value::Object(servos) = *value else { return Vec::new() };
    servos.map(|(name, servo)| servo_status(name, &servo)).collect()
}

fn servo_status(name: &str, servo: &Value<'_>) -> Status {
    let Value::Object(fields) = *servo else {
        return Status { level: Level::Ok, name: name.into(), message: String::new(), values: Vec::new() };
    };
    let (mut level, mut message) = (Level::Ok, "ok".to_owned());
    let mut values = Vec::new();
    for (field, value) in fields {
        match (field, &value) {
            ("fault", value) if value.number().is_some_and(|code| code != 0.0) => {
                (level, message) = (Level::Error, format!("fault {}", shown(value)));
            }
            ("fresh", Value::Bool(false)) if level < Level::Error => {
                (level, message) = (Level::Warn, "no reply in this tick".into());
            }
            _ => {}
        }
        if !matches!(field, "position" | "velocity") {
            values.push((field.to_owned(), shown(&value)));
        }
    }
    Status { level, name: name.to_owned(), message, values }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Enum(symbol) => symbol.name.map_or_else(|| symbol.value.to_string(), str::to_owned),
        Value::Float32(number) => format!("{number:.2}"),
        Value::Bool(truth) => truth.to_string(),
        value => value.number().map(|number| number.to_string()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servo_type() -> Type {
        let fields = ["position", "velocity", "torque"].map(|name| (name, Type::Float32));
        Type::object([("hip", Type::object(fields.clone())), ("knee", Type::object(fields))])
    }

    #[test]
    fn joint_states_have_the_bytes_of_ros() {
        let payload: Vec<u8> =
            [1f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let ty = servo_type();
        let bytes = joint_states(1_500_000, &Value::read(&ty, &payload).unwrap()).unwrap();
        let mut expected = vec![0, 1, 0, 0];
        expected.extend([1u32, 500_000_000, 1].iter().flat_map(|value| value.to_le_bytes()));
        expected.extend([0, 0, 0, 0]);
        expected.extend([2, 0, 0, 0, 4, 0, 0, 0, b'h', b'i', b'p', 0, 5, 0, 0, 0, b'k', b'n', b'e', b'e', 0]);
        for pair in [[1.0f64, 4.0], [2.0, 5.0], [3.0, 6.0]] {
            while !(expected.len() - 4).is_multiple_of(4) {
                expected.push(0);
            }
            expected.extend(2u32.to_le_bytes());
            while !(expected.len() - 4).is_multiple_of(8) {
                expected.push(0);
            }
            pair.iter().for_each(|value| expected.extend(value.to_le_bytes()));
        }
        assert_eq!(bytes, expected);
    }

    #[test]
    fn an_accelerometer_at_rest_measures_upwards() {
        let floats = |count| Type::FixedArray(count, Box::new(Type::Float64));
        let ty = Type::object([("attitude", floats(4)), ("rate", floats(3)), ("acceleration", floats(3))]);
        let measured = |attitude: [f64; 4]| {
            let numbers = attitude.into_iter().chain([0.0; 3]).chain([1.0, 0.0, 0.0]);
            let payload: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
            let bytes = imu(0, &Value::read(&ty, &payload).unwrap()).unwrap();
            // Before the last nine numbers.
            let at = bytes.len() - 12 * 8;
            [0, 1, 2].map(|axis| f64::from_le_bytes(bytes[at + 8 * axis..][..8].try_into().unwrap()))
        };
        assert_eq!(measured([1.0, 0.0, 0.0, 0.0]), [1.0, 0.0, GRAVITY]);
        // Rolled by 90° to the right, its left side is up.
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let [x, y, z] = measured([half, half, 0.0, 0.0]);
        assert!((x - 1.0).abs() + (y - GRAVITY).abs() + z.abs() < 1e-9, "{x} {y} {z}");
    }

    #[test]
    fn an_attitude_that_is_no_number_turns_no_trunk() {
        let floats = |count| Type::FixedArray(count, Box::new(Type::Float32));
        let ty = Type::object([("attitude", floats(4)), ("rate", floats(3)), ("acceleration", floats(3))]);
        assert_eq!(Standard::of("imu", &ty), [Standard::Imu, Standard::Tf]);
        let payload = |w: f32| [[w.to_le_bytes(); 4].as_flattened(), &[0; 24]].concat();
        let (good, bad) = (payload(0.5), payload(f32::NAN));
        let value = |payload| Value::read(&ty, payload).unwrap();
        assert!(tf(0, &value(&good)).is_some() && imu(0, &value(&good)).is_some());
        assert!(tf(0, &value(&bad)).is_none() && imu(0, &value(&bad)).is_some());
    }

    #[test]
    fn records_of_other_shapes_make_no_message() {
        for record in ["servo", "imu", "tick", "event"] {
            assert_eq!(Standard::of(record, &Type::Null), []);
            assert_eq!(Standard::of(record, &Type::object([("attitude", Type::Bool)])), []);
        }
        assert_eq!(Standard::of("servo", &servo_type()), [Standard::JointStates]);
    }

    #[test]
    fn the_loop_is_judged_by_its_last_second() {
        let phases = Type::enumeration([(0, "idle"), (4, "fault")]);
        let fields = [
            ("overrun", Type::Bool),
            ("missed", Type::Uint(Width::Four)),
            ("wake_latency_ns", Type::Int(Width::Eight)),
            ("phase", phases),
        ];
        let ty = Type::object(fields);
        let mut ticks = TickSummary::default();
        for at in 0..1000i64 {
            let mut payload = vec![0, 0, 0, 0, 0];
            payload.put(&(at * 10).to_le_bytes());
            payload.varuint(0);
            ticks.add(at * 1000, &Value::read(&ty, &payload).unwrap());
        }
        let status = ticks.status(1_000_000);
        assert_eq!((status.level, status.message.as_str()), (Level::Ok, "idle"));
        let values: Vec<&str> = status.values.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["1000", "0", "0", "10.0 µs"]);
        assert!(diagnostics(0, &[status]).is_some());
    }
}
