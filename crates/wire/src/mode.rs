//! What a servo is doing (register 0x000) and why it stopped (register 0x00f).

/// Operating mode of a servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Driver off; writing it clears fault and timeout.
    Stopped = 0,
    /// Latched fault, output off.
    Fault = 1,
    /// Transient after leaving stopped.
    Enabling = 2,
    /// Transient: current offsets are measured.
    Calibrating = 3,
    /// Transient: calibration done.
    CalibrationComplete = 4,
    /// Raw PWM per phase.
    Pwm = 5,
    /// Voltage per phase.
    Voltage = 6,
    /// Voltage at a commanded electrical angle.
    VoltageFoc = 7,
    /// D/Q voltage.
    VoltageDq = 8,
    /// D/Q current.
    Current = 9,
    /// Position control with velocity and feed-forward torque.
    Position = 10,
    /// The watchdog ran out; left only through stopped.
    PositionTimeout = 11,
    /// Damping only.
    ZeroVelocity = 12,
    /// Free within bounds.
    StayWithin = 13,
    /// Internal measurement.
    MeasureInductance = 14,
    /// Phases shorted to ground.
    Brake = 15,
}

impl Mode {
    /// All modes in numerical order.
    pub const ALL: [Self; 16] = [
        Self::Stopped,
        Self::Fault,
        Self::Enabling,
        Self::Calibrating,
        Self::CalibrationComplete,
        Self::Pwm,
        Self::Voltage,
        Self::VoltageFoc,
        Self::VoltageDq,
        Self::Current,
        Self::Position,
        Self::PositionTimeout,
        Self::ZeroVelocity,
        Self::StayWithin,
        Self::MeasureInductance,
        Self::Brake,
    ];

    /// The mode a register value stands for, if any.
    pub fn from_number(number: i32) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number).copied())
    }

    /// The name it has in the servo's own diagnostics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Fault => "fault",
            Self::Enabling => "enabling",
            Self::Calibrating => "calibrating",
            Self::CalibrationComplete => "calib_complete",
            Self::Pwm => "pwm",
            Self::Voltage => "voltage",
            Self::VoltageFoc => "voltage_foc",
            Self::VoltageDq => "voltage_dq",
            Self::Current => "current",
            Self::Position => "position",
            Self::PositionTimeout => "pos_timeout",
            Self::ZeroVelocity => "zero_vel",
            Self::StayWithin => "within",
            Self::MeasureInductance => "meas_ind",
            Self::Brake => "brake",
        }
    }

    /// Position, stay-within, current, ...: the driver is on and follows a command.
    pub const fn is_active(self) -> bool {
        self as u8 >= Self::Pwm as u8
    }
}

/// Fault code of a servo (register 0x00f); 0 is none. Codes 96–105 only report a limited output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fault(pub u8);

impl Fault {
    /// No fault.
    pub const NONE: Self = Self(0);
    /// The gate driver reports a fault.
    pub const MOTOR_DRIVER: Self = Self(33);
    /// Supply above the limit.
    pub const OVER_VOLTAGE: Self = Self(34);
    /// The encoder does not answer plausibly.
    pub const ENCODER: Self = Self(35);
    /// Too hot.
    pub const OVER_TEMPERATURE: Self = Self(38);
    /// Position control was started outside the position bounds.
    pub const START_OUTSIDE_LIMIT: Self = Self(39);
    /// Supply below 4 V.
    pub const UNDER_VOLTAGE: Self = Self(40);
    /// A stop position was given together with limits.
    pub const STOP_POSITION_DEPRECATED: Self = Self(45);
    /// A finite bound lies beyond ±32768 revolutions.
    pub const INVALID_LIMITS: Self = Self(48);

    /// It is one with which the servo switches its output off, and not what limits it.
    pub const fn switches_off(self) -> bool {
        self.0 > 0 && self.0 < 96
    }

    /// What the manual calls it.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "none",
            1..=7 => "internal DMA or UART error",
            32 => "calibration fault",
            33 => "motor driver fault",
            34 => "over voltage",
            35 => "encoder fault",
            36 => "motor not configured",
            37 => "PWM cycle overrun",
            38 => "over temperature",
            39 => "outside limit at start",
            40 => "under voltage",
            41 => "configuration changed while running",
            42 => "theta invalid",
            43 => "position invalid",
            44 => "driver enable fault",
            45 => "stop position deprecated",
            46 => "timing violation",
            47 => "BEMF feed-forward without acceleration limit",
            48 => "invalid limits",
            49 => "position control error",
            50 => "velocity control error",
            96 => "limited by velocity",
            97 => "limited by power",
            98 => "limited by voltage",
            99 => "limited by current",
            100 => "limited by FET temperature",
            101 => "limited by motor temperature",
            102 => "limited by torque",
            103 => "limited by position bounds",
            104 => "flux braking",
            105 => "field weakening",
            _ => "unknown",
        }
    }
}
