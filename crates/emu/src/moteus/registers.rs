//! Register number ⇄ value (map version 5).

use super::{Home, Servo};
use crate::moteus::command::Command;
use khz_wire::device::Refusal;
use khz_wire::{Class, Mode, Register, Resolution, Value, register::Access};

/// Version 1.1.0.
pub(super) const FIRMWARE_VERSION: i32 = 0x01_01_00;
const MAP_VERSION: i32 = 5;
/// The millisecond counter starts five minutes before its sign changes.
const FIRST_MILLISECOND: u32 = (1 << 31) - 300_000;
/// A float counts milliseconds exactly up to here.
const FLOAT_MILLISECONDS: u32 = 8_388_608;

impl Servo {
    /// A register's value in the type asked for.
    pub(crate) fn read_register(
        &mut self,
        register: Register,
        resolution: Resolution,
    ) -> Result<Value, Refusal> {
        let entry = register.entry().ok_or(Refusal::Unknown)?;
        match entry.access {
            Access::Write | Access::Reserved => return Err(Refusal::Unknown),
            Access::Read | Access::ReadWrite | Access::Command => {}
        }
        match entry.class {
            Class::Word if resolution != Resolution::Int32 => Err(Refusal::Unknown),
            Class::Word => self.word(register).map(Value::Int32).ok_or(Refusal::Unknown),
            Class::Integer if register == Register::MILLISECOND_COUNTER => {
                Ok(self.milliseconds_as(resolution))
            }
            Class::Integer => self.integer(register).map(|v| plain(v, resolution)).ok_or(Refusal::Unknown),
            class => self.quantity(register).map(|v| class.encode(v, resolution)).ok_or(Refusal::Unknown),
        }
    }

    /// Takes a value for a register.
    pub(crate) fn write_register(&mut self, register: Register, value: Value) -> Result<(), Refusal> {
        let entry = register.entry().ok_or(Refusal::Unknown)?;
        let quantity = entry.class.decode(value);
        match entry.access {
            Access::Read | Access::Reserved => return Err(Refusal::NotWritable),
            Access::Command => self.write_command(register, value, quantity),
            Access::Write | Access::ReadWrite => match register {
                Register::MODE => return self.write_mode(value),
                Register::AUX1_GPIO_COMMAND => self.set_pins(0, value.integer() as u8),
                Register::AUX2_GPIO_COMMAND => self.set_pins(1, value.integer() as u8),
                Register::CLOCK_TRIM => self.clock.trim = i32::from(value.integer() as i8).clamp(-8, 8),
                Register(r @ 0x076..=0x07a) => self.set_duty(0, usize::from(r - 0x076), quantity),
                Register(r @ 0x07b..=0x07f) => self.set_duty(1, usize::from(r - 0x07b), quantity),
                Register::SET_OUTPUT_NEAREST => self.set_output_nearest(quantity),
                Register::SET_OUTPUT_EXACT => self.set_output_exact(quantity),
                Register::REQUIRE_REINDEX => self.require_reindex(),
                Register::RECAPTURE => self.release(),
                _ => return Err(Refusal::Unknown),
            },
        }
        Ok(())
    }

    fn write_mode(&mut self, value: Value) -> Result<(), Refusal> {
        let mode = Mode::from_number(i32::from(value.integer() as i8)).ok_or(Refusal::Unknown)?;
        self.written = Command::new(mode);
        self.commanded = true;
        Ok(())
    }

    fn write_command(&mut self, register: Register, value: Value, quantity: f64) {
        if let Some(target) = self.written.value(register) {
            *target = quantity;
        } else {
            // The one plain integer among the command registers.
            self.written.ignore_bounds = value.integer() as i8 != 0;
        }
    }

    fn integer(&self, register: Register) -> Option<i32> {
        Some(match register {
            Register::MODE => self.status.mode as i32,
            Register::TRAJECTORY_COMPLETE => i32::from(self.trajectory.done),
            Register::HOME_STATE => self.status.home as i32,
            Register::FAULT => i32::from(self.status.fault.0),
            Register::COMMAND_IGNORE_BOUNDS | Register::WITHIN_IGNORE_BOUNDS => {
                i32::from(self.written.ignore_bounds)
            }
            Register::ENCODER_VALIDITY => 0b11,
            Register::AUX1_GPIO_COMMAND | Register::AUX1_GPIO_STATUS => i32::from(self.pins(0)),
            Register::AUX2_GPIO_COMMAND | Register::AUX2_GPIO_STATUS => i32::from(self.pins(1)),
            Register::CLOCK_TRIM => self.clock.trim,
            Register::AUX1_PWM_PERIOD | Register::AUX2_PWM_PERIOD => 0,
            Register::DRIVER_FAULT_1 | Register::DRIVER_FAULT_2 => 0,
            Register::UUID_MASK_CAPABLE => 1,
            _ => return None,
        })
    }

    // Not left to the compiler, as `Command::value`: six registers of each reply, seven of each command.
    #[inline(always)]
    pub(super) fn quantity(&mut self, register: Register) -> Option<f64> {
        let status = &self.status;
        let truth = if self.injected.lying { f64::NAN } else { 1.0 };
        Some(match register {
            Register::POSITION => status.position * truth,
            Register::VELOCITY => status.velocity * truth,
            Register::TORQUE => status.torque * truth,
            Register::Q_CURRENT => status.q_a,
            Register::D_CURRENT => status.d_a,
            Register::POWER => status.power_w,
            Register::MOTOR_TEMPERATURE => self.motor_temperature(),
            Register::VOLTAGE => status.bus_v,
            Register::TEMPERATURE => self.thermal.board_c,
            Register::CONTROL_P => self.pid.p,
            Register::CONTROL_I => self.pid.integral,
            Register::CONTROL_D => self.pid.d,
            Register::CONTROL_FEEDFORWARD => self.written.feedforward,
            Register::CONTROL_TORQUE | Register::CONTROL_TORQUE_TARGET => status.control_torque,
            Register::CONTROL_POSITION => self.trajectory.position.unwrap_or(f64::NAN),
            Register::CONTROL_VELOCITY => self.trajectory.velocity.unwrap_or(f64::NAN),
            Register::POSITION_ERROR => self.pid.error,
            Register::VELOCITY_ERROR => self.pid.error_rate,
            Register::TORQUE_ERROR => status.torque_error,
            Register::ENCODER_0_POSITION => self.rotor_turn(),
            Register::ENCODER_0_VELOCITY => status.velocity / self.ratio(),
            Register::AUX1_PWM_DUTY | Register::AUX2_PWM_DUTY => f64::NAN,
            Register(r @ 0x076..=0x07a) => self.aux[0].pwm[usize::from(r - 0x076)],
            Register(r @ 0x07b..=0x07f) => self.aux[1].pwm[usize::from(r - 0x07b)],
            // No second or third encoder and nothing on the analogue pins.
            Register::ABSOLUTE_POSITION
            | Register(0x052..=0x055)
            | Register(0x060..=0x064)
            | Register(0x068..=0x06c) => 0.0,
            command => *self.written.value(command)?,
        })
    }

    fn word(&self, register: Register) -> Option<i32> {
        Some(match register {
            Register::MODEL => 0,
            Register::FIRMWARE_VERSION => FIRMWARE_VERSION,
            Register::MAP_VERSION => MAP_VERSION,
            Register(r @ 0x120..=0x122) => self.serial_number()[usize::from(r - 0x120)] as i32,
            Register(r @ 0x150..=0x153) => self.uuid_word(usize::from(r - 0x150)),
            _ => return None,
        })
    }

    fn uuid_word(&self, index: usize) -> i32 {
        let uuid = &self.settings.uuid.uuid;
        let byte = |i: usize| uuid.get(4 * index + i).copied().unwrap_or(0);
        i32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
    }

    /// Least significant word first; made from the UUID, which is unique already.
    pub(super) fn serial_number(&self) -> [u32; 3] {
        [0, 1, 2].map(|word| self.uuid_word(word) as u32)
    }

    pub(super) fn milliseconds(&self) -> u32 {
        FIRST_MILLISECOND.wrapping_add((self.clock.ns / 1_000_000) as u32)
    }

    fn milliseconds_as(&self, resolution: Resolution) -> Value {
        match resolution {
            Resolution::Float => Value::Float((self.milliseconds() % FLOAT_MILLISECONDS) as f32),
            integer => plain(self.milliseconds() as i32, integer),
        }
    }

    pub(super) fn motor_temperature(&self) -> f64 {
        if self.settings.servo.enable_motor_temperature { self.thermal.motor_c } else { 0.0 }
    }

    fn ratio(&self) -> f64 {
        self.settings.motor_position.ratio()
    }

    /// Where the rotor is within its turn, 0 to 1.
    fn rotor_turn(&self) -> f64 {
        ((self.status.position - self.offset) / self.ratio()).rem_euclid(1.0)
    }

    /// Chooses which turn of the rotor this is, so that the position is as near to `value` as can be.
    pub(super) fn set_output_nearest(&mut self, value: f64) {
        let turns = ((value - self.status.position) / self.ratio()).round();
        self.shift(turns * self.ratio(), Home::Output);
    }

    /// Calls the present position `value`.
    pub(super) fn set_output_exact(&mut self, value: f64) {
        self.shift(value - self.status.position, Home::Output);
    }

    /// Forgets which turn of the rotor this is.
    pub(super) fn require_reindex(&mut self) {
        let turns = (self.status.position / self.ratio()).round();
        self.shift(-turns * self.ratio(), Home::Relative);
    }

    /// Moves the coordinate, and the control position with it, so that the joint does not jump.
    fn shift(&mut self, by: f64, home: Home) {
        self.status.home = home;
        if !by.is_finite() {
            return;
        }
        self.offset += by;
        self.status.position += by;
        for position in [&mut self.trajectory.position, &mut self.trajectory.target.position] {
            *position = position.map(|p| p + by);
        }
    }
}

/// An integer cut down to its type, as a C cast does.
fn plain(value: i32, resolution: Resolution) -> Value {
    match resolution {
        Resolution::Int8 => Value::Int8(value as i8),
        Resolution::Int16 => Value::Int16(value as i16),
        Resolution::Int32 => Value::Int32(value),
        Resolution::Float => Value::Float(value as f32),
    }
}
