//! What a tick measured and commands: servos and the IMU.

use khz_tlog::{DecodeError, Field, Input, Record, Sink, Type};

/// What was measured of a servo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
pub struct Servo {
    /// Where the joint is.
    #[tlog(unit = "rad")]
    pub position: f32,
    /// How fast it turns.
    #[tlog(unit = "rad/s")]
    pub velocity: f32,
    /// What it applies.
    #[tlog(unit = "N·m")]
    pub torque: f32,
    /// The supply.
    #[tlog(unit = "V")]
    pub voltage: f32,
    /// The motor or its driver, whichever the servo reports.
    #[tlog(unit = "°C")]
    pub temperature: f32,
    /// What it does.
    pub doing: Code,
    /// The mode it reports, by its family's number.
    pub mode: Code,
    /// Its fault code; 0 is none.
    pub fault: u32,
    /// It replied in this tick.
    pub fresh: bool,
    /// How old these values are at the end of the bus cycle.
    #[tlog(unit = "us")]
    pub age_us: u32,
    /// From handing the query to the link until its reply arrived. The periods of a loop are a second at the most.
    #[tlog(unit = "ns")]
    pub round_trip_ns: u32,
}

/// A number whose names the schema has: those of a family of servos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code(pub u8);

impl Record for Code {
    fn schema() -> Type {
        Type::enumeration([(0, "unknown")])
    }

    #[inline]
    fn encode(&self, out: &mut impl Sink) {
        out.varuint(self.0.into());
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(Self(input.varuint()? as u8))
    }
}

impl Servo {
    /// Its schema with the names of what a servo does, and of a family's modes.
    pub fn schema_with(doing: &Type, modes: &Type) -> Type {
        let named = |field: Field| match field.name.as_str() {
            "doing" => Field::new("doing", doing.clone()),
            "mode" => Field::new("mode", modes.clone()),
            _ => field,
        };
        match Self::schema() {
            Type::Object(fields) => Type::Object(fields.into_iter().map(named).collect()),
            other => other,
        }
    }
}

/// What the next tick will send to a servo. Values that a command does not have are NaN.
#[derive(Clone, Copy, Debug, PartialEq, Record)]
pub struct Command {
    /// Which command.
    pub kind: CommandKind,
    /// Where to.
    #[tlog(unit = "rad")]
    pub position: f32,
    /// How fast.
    #[tlog(unit = "rad/s")]
    pub velocity: f32,
    /// What to apply besides.
    #[tlog(unit = "N·m")]
    pub torque: f32,
    /// Share of the servo's position gain.
    pub kp_scale: f32,
    /// Share of its velocity gain.
    pub kd_scale: f32,
    /// What it may apply at most.
    #[tlog(unit = "N·m")]
    pub max_torque: f32,
}

/// Which command a servo gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum CommandKind {
    /// Output off.
    #[tlog(rename = "stop")]
    Stop = 0,
    /// Brake.
    #[tlog(rename = "damp")]
    Damp = 1,
    /// Move or hold.
    #[tlog(rename = "position")]
    Position = 2,
}

/// What the IMU measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
pub struct Imu {
    /// A quaternion.
    pub attitude: [f32; 4],
    /// How fast the body turns, about x, y, z.
    #[tlog(unit = "rad/s")]
    pub rate: [f32; 3],
    /// Its acceleration along x, y, z.
    #[tlog(unit = "m/s²")]
    pub acceleration: [f32; 3],
    /// It was read in this tick.
    pub fresh: bool,
    /// How old these values are at the end of the bus cycle.
    #[tlog(unit = "us")]
    pub age_us: u32,
}
