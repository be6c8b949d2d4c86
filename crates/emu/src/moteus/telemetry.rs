//! What a servo reports about itself, channel by channel (mjbots/moteus fw/bldc_servo_structs.h,
//! fw/firmware_info.cc, fw/system_info.cc, fw/motor_position.h).

use super::Servo;
use super::record::{AsField, Field, Record, record};
use khz_wire::Register;
use std::f64::consts::TAU;

/// The modes' names, by number.
const MODES: &[&str] = &[
    "stopped",
    "fault",
    "enabling",
    "calibrating",
    "calib_complete",
    "pwm",
    "voltage",
    "voltage_foc",
    "voltage_dq",
    "current",
    "position",
    "pos_timeout",
    "zero_vel",
    "within",
    "meas_ind",
    "brake",
];
const HOMES: &[&str] = &["relative", "rotor", "output"];

macro_rules! enums {
    ($($(#[$doc:meta])* $name:ident = $names:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u8);
        impl AsField for $name {
            fn field(&mut self) -> Field<'_> {
                Field::Enum(&mut self.0, $names)
            }
        }
    )*};
}

enums! {
    /// A mode by number.
    ModeNumber = MODES;
    /// A fault code, which the firmware gives no name.
    FaultNumber = &[];
    /// How the position is referenced.
    HomeNumber = HOMES;
}

record! {
    /// State of a current loop.
    PidCurrent {
        integral: f32 = 0.0,
        desired: f32 = 0.0,
        error: f32 = 0.0,
        p: f32 = 0.0,
        command: f32 = 0.0,
    }
}
record! {
    /// State of the position loop.
    PidState {
        integral: f32 = 0.0,
        desired: f32 = f32::NAN,
        error: f32 = 0.0,
        error_rate: f32 = 0.0,
        p: f32 = 0.0,
        d: f32 = 0.0,
        pd: f32 = 0.0,
        command: f32 = 0.0,
    }
}
record! {
    /// Field weakening.
    FieldWeakening { id_A: f32 = 0.0, id_char: f32 = 0.0 }
}
record! {
    /// Channel `servo_stats`.
    ServoStats {
        mode: ModeNumber = ModeNumber(0),
        fault: FaultNumber = FaultNumber(0),
        adc_cur1_raw: u16 = 0,
        adc_cur2_raw: u16 = 0,
        adc_cur3_raw: u16 = 0,
        adc_voltage_sense_raw: u16 = 0,
        adc_fet_temp_raw: u16 = 0,
        adc_motor_temp_raw: u16 = 0,
        adc_cur1_offset: u16 = 2048,
        adc_cur2_offset: u16 = 2048,
        adc_cur3_offset: u16 = 2048,
        cur1_A: f32 = 0.0,
        cur2_A: f32 = 0.0,
        cur3_A: f32 = 0.0,
        electrical_theta: f32 = 0.0,
        bus_V: f32 = 0.0,
        filt_bus_V: f32 = f32::NAN,
        filt_1ms_bus_V: f32 = f32::NAN,
        fet_temp_C: f32 = 0.0,
        filt_fet_temp_C: f32 = f32::NAN,
        motor_temp_C: f32 = 0.0,
        filt_motor_temp_C: f32 = f32::NAN,
        inductance_d_H: f32 = 0.0,
        d_A: f32 = 0.0,
        q_A: f32 = 0.0,
        position: f32 = 0.0,
        velocity: f32 = 0.0,
        torque_Nm: f32 = 0.0,
        power_W: f32 = 0.0,
        velocity_filt: f32 = 0.0,
        pid_d: PidCurrent = PidCurrent::default(),
        pid_q: PidCurrent = PidCurrent::default(),
        pid_position: PidState = PidState::default(),
        control_position_raw: Option<i64> = None,
        control_position: f32 = f32::NAN,
        control_velocity: Option<f32> = None,
        control_acceleration: f32 = 0.0,
        timeout_s: f32 = 0.0,
        trajectory_done: bool = false,
        motor_max_velocity: f32 = 0.0,
        motor_base_velocity: f32 = 0.0,
        max_power_W: f32 = 0.0,
        effective_max_current_A: f32 = 0.0,
        fw: FieldWeakening = FieldWeakening::default(),
        torque_error_Nm: f32 = 0.0,
        sin: f32 = 0.0,
        cos: f32 = 0.0,
        cooldown_count: u16 = 0,
        final_timer: u32 = 0,
        total_timer: u32 = 0,
        meas_ind_old_d_A: f32 = 0.0,
        meas_ind_old_q_A: f32 = 0.0,
        meas_ind_phase: i8 = 0,
        meas_ind_integrator: f32 = 0.0,
    }
}
record! {
    /// Three phases.
    Phases { a: f32 = 0.0, b: f32 = 0.0, c: f32 = 0.0 }
}
record! {
    /// Channel `servo_cmd`.
    ServoCommand {
        mode: ModeNumber = ModeNumber(0),
        pwm: Phases = Phases::default(),
        phase_v: Phases = Phases::default(),
        theta: f32 = 0.0,
        voltage: f32 = 0.0,
        theta_rate: f32 = 0.0,
        d_V: f32 = 0.0,
        q_V: f32 = 0.0,
        i_d_A: f32 = 0.0,
        i_q_A: f32 = 0.0,
        position: f32 = 0.0,
        velocity: f32 = 0.0,
        max_torque_Nm: f32 = 100.0,
        stop_position: f32 = f32::NAN,
        feedforward_Nm: f32 = 0.0,
        kp_scale: f32 = 1.0,
        kd_scale: f32 = 1.0,
        ilimit_scale: f32 = 1.0,
        velocity_limit: f32 = f32::NAN,
        accel_limit: f32 = f32::NAN,
        fixed_voltage_override: f32 = f32::NAN,
        fixed_current_override: f32 = f32::NAN,
        ignore_position_bounds: bool = false,
        timeout_s: f32 = 0.0,
        bounds_min: f32 = 0.0,
        bounds_max: f32 = 0.0,
    }
}
record! {
    /// Channel `servo_control`.
    ServoControl {
        pwm: Phases = Phases::default(),
        voltage: Phases = Phases::default(),
        d_V: f32 = 0.0,
        q_V: f32 = 0.0,
        i_d_A: f32 = 0.0,
        i_q_A: f32 = 0.0,
        q_comp_A: f32 = 0.0,
        torque_Nm: f32 = 0.0,
    }
}
record! {
    /// Channel `motor_position`.
    MotorPositionStatus {
        position_relative_valid: bool = true,
        position_relative: f32 = 0.0,
        position: f32 = 0.0,
        homed: HomeNumber = HomeNumber(0),
        velocity: f32 = 0.0,
        theta_valid: bool = true,
        electrical_theta: f32 = 0.0,
    }
}
record! {
    /// Channel `firmware`.
    Firmware {
        version: u32 = 0,
        serial_number: [u32; 3] = [0; 3],
        model: u32 = 0,
        family: u8 = 0,
        hwrev: u8 = 0,
    }
}
record! {
    /// Channel `git`.
    Git { hash: [u8; 20] = [0; 20], dirty: bool = false, timestamp: u64 = 0 }
}
record! {
    /// Channel `system_info`.
    SystemInfo {
        pool_size: u32 = 0,
        pool_available: u32 = 0,
        idle_rate: u32 = 0,
        can_reset_count: u32 = 0,
        ms_count: u32 = 0,
        mem_error: u32 = 0,
    }
}

/// A channel of the console's `tel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    SystemInfo,
    Firmware,
    MotorPosition,
    ServoStats,
    ServoCommand,
    ServoControl,
    Git,
}

/// All of them, in the firmware's order.
pub(super) const CHANNELS: [Channel; 7] = [
    Channel::SystemInfo,
    Channel::Firmware,
    Channel::MotorPosition,
    Channel::ServoStats,
    Channel::ServoCommand,
    Channel::ServoControl,
    Channel::Git,
];

impl Channel {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SystemInfo => "system_info",
            Self::Firmware => "firmware",
            Self::MotorPosition => "motor_position",
            Self::ServoStats => "servo_stats",
            Self::ServoCommand => "servo_cmd",
            Self::ServoControl => "servo_control",
            Self::Git => "git",
        }
    }

    /// Shows the channel as the servo fills it now.
    pub(super) fn with(self, servo: &Servo, act: &mut dyn FnMut(&mut dyn Record)) {
        match self {
            Self::SystemInfo => act(&mut servo.system_info()),
            Self::Firmware => act(&mut servo.firmware()),
            Self::MotorPosition => act(&mut servo.motor_position()),
            Self::ServoStats => act(&mut servo.stats()),
            Self::ServoCommand => act(&mut servo.command()),
            Self::ServoControl => act(&mut servo.control_outputs()),
            Self::Git => act(&mut git()),
        }
    }

    /// Shows the channel with the values its schema calls default.
    pub(super) fn with_default(self, act: &mut dyn FnMut(&mut dyn Record)) {
        match self {
            Self::SystemInfo => act(&mut SystemInfo::default()),
            Self::Firmware => act(&mut Firmware::default()),
            Self::MotorPosition => act(&mut MotorPositionStatus::default()),
            Self::ServoStats => act(&mut ServoStats::default()),
            Self::ServoCommand => act(&mut ServoCommand::default()),
            Self::ServoControl => act(&mut ServoControl::default()),
            Self::Git => act(&mut Git::default()),
        }
    }
}

/// No firmware was ever built from this hash; it distinguishes an emulated servo from a real one.
fn git() -> Git {
    Git { hash: *b"kilohertz emulator\0\0", ..Git::default() }
}

impl Servo {
    fn system_info(&self) -> SystemInfo {
        SystemInfo { ms_count: self.milliseconds(), ..SystemInfo::default() }
    }

    fn firmware(&self) -> Firmware {
        Firmware {
            version: super::registers::FIRMWARE_VERSION as u32,
            serial_number: self.serial_number(),
            hwrev: 8,
            ..Firmware::default()
        }
    }

    fn motor_position(&self) -> MotorPositionStatus {
        MotorPositionStatus {
            position_relative: (self.status.position - self.offset) as f32,
            position: self.status.position as f32,
            homed: HomeNumber(self.status.home as u8),
            velocity: self.status.velocity as f32,
            electrical_theta: self.electrical_theta() as f32,
            ..MotorPositionStatus::default()
        }
    }

    fn stats(&self) -> ServoStats {
        let (status, pid) = (&self.status, &self.pid);
        let theta = self.electrical_theta();
        let (bus_v, board_c, motor_c) =
            (status.bus_v as f32, self.thermal.board_c as f32, self.motor_temperature() as f32);
        let fastest = self.motor.fastest(status.bus_v) as f32;
        ServoStats {
            mode: ModeNumber(status.mode as u8),
            fault: FaultNumber(status.fault.0),
            electrical_theta: theta as f32,
            bus_V: bus_v,
            filt_bus_V: bus_v,
            filt_1ms_bus_V: bus_v,
            fet_temp_C: board_c,
            filt_fet_temp_C: board_c,
            motor_temp_C: motor_c,
            filt_motor_temp_C: motor_c,
            inductance_d_H: self.settings.motor.inductance_d_H,
            d_A: status.d_a as f32,
            q_A: status.q_a as f32,
            position: status.position as f32,
            velocity: status.velocity as f32,
            torque_Nm: status.torque as f32,
            power_W: status.power_w as f32,
            velocity_filt: status.velocity_filtered as f32,
            pid_position: PidState {
                integral: pid.integral as f32,
                error: pid.error as f32,
                error_rate: pid.error_rate as f32,
                p: pid.p as f32,
                d: pid.d as f32,
                pd: (pid.p + pid.d) as f32,
                command: pid.command as f32,
                ..PidState::default()
            },
            // 48 bits are one revolution.
            control_position_raw: self.trajectory.position.map(|p| (p * (1_i64 << 48) as f64) as i64),
            control_position: self.trajectory.position.map_or(f32::NAN, |p| p as f32),
            control_velocity: self.trajectory.velocity.map(|v| v as f32),
            control_acceleration: self.trajectory.acceleration as f32,
            timeout_s: status.timeout_s as f32,
            trajectory_done: self.trajectory.done,
            motor_max_velocity: fastest,
            motor_base_velocity: fastest,
            max_power_W: self.most_power() as f32,
            effective_max_current_A: self.settings.servo.max_current_A,
            torque_error_Nm: status.torque_error as f32,
            sin: theta.sin() as f32,
            cos: theta.cos() as f32,
            ..ServoStats::default()
        }
    }

    fn command(&self) -> ServoCommand {
        let mut command = self.active;
        let mut value = |register| command.value(register).map_or(0.0, |v| *v as f32);
        let mut phases = |Register(first)| {
            let [a, b, c] = [0, 1, 2].map(|phase| value(Register(first + phase)));
            Phases { a, b, c }
        };
        let (pwm, phase_v) = (phases(Register::PWM_PHASE_A), phases(Register::VOLTAGE_PHASE_A));
        let active = &self.active;
        ServoCommand {
            mode: ModeNumber(active.mode as u8),
            pwm,
            phase_v,
            theta: (active.theta * 0.5 * TAU) as f32,
            voltage: active.voltage as f32,
            theta_rate: (active.theta_rate * 0.5 * TAU) as f32,
            d_V: active.d_v as f32,
            q_V: active.q_v as f32,
            i_d_A: active.d_a as f32,
            i_q_A: active.q_a as f32,
            position: active.position as f32,
            velocity: active.velocity as f32,
            max_torque_Nm: active.max_torque as f32,
            stop_position: active.stop_position as f32,
            feedforward_Nm: active.feedforward as f32,
            kp_scale: active.kp_scale as f32,
            kd_scale: active.kd_scale as f32,
            ilimit_scale: active.ilimit_scale as f32,
            velocity_limit: active.velocity_limit as f32,
            accel_limit: active.accel_limit as f32,
            fixed_voltage_override: active.fixed_voltage as f32,
            fixed_current_override: active.fixed_current as f32,
            ignore_position_bounds: active.ignore_bounds,
            timeout_s: active.timeout_s as f32,
            bounds_min: active.lower as f32,
            bounds_max: active.upper as f32,
        }
    }

    fn control_outputs(&self) -> ServoControl {
        ServoControl {
            i_d_A: self.status.d_a as f32,
            i_q_A: self.status.q_a as f32,
            torque_Nm: self.status.control_torque as f32,
            ..ServoControl::default()
        }
    }

    /// rad, 0 to 2π.
    fn electrical_theta(&self) -> f64 {
        (self.motor.electrical(self.status.position - self.offset) * TAU).rem_euclid(TAU)
    }
}
