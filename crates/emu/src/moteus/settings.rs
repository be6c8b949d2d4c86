//! What a servo can be configured to: the groups and names of mjbots/moteus firmware 1.1
//! (fw/bldc_servo_structs.h, fw/motor_position.h), as far as they mean something to an emulated servo.
//!
//! Values are the factory's, except that the motor counts as calibrated.

use super::record::{Field, Record, at, record};

record! {
    /// Group `clock`.
    Clock { hsitrim: i32 = 64 }
}
record! {
    /// Group `id`.
    Id { id: u8 = 1 }
}
record! {
    /// Group `can`.
    Can { prefix: u32 = 0 }
}
record! {
    /// Group `uuid`.
    Uuid { uuid: [u8; 16] = [0; 16] }
}
record! {
    /// One pin of an auxiliary port.
    Pin { mode: u8 = 0, pull: u8 = 0 }
}
record! {
    /// Groups `aux1` and `aux2`.
    Aux { pwm_period_us: u32 = 1000, pins: [Pin; 5] = Default::default() }
}
record! {
    /// One encoder.
    Source {
        aux_number: u8 = 1,
        r#type: u8 = 0,
        cpr: u32 = 16384,
        offset: f32 = 0.0,
        sign: i8 = 1,
        pll_filter_hz: f32 = 400.0,
    }
}
record! {
    /// What counts as the output position.
    Output { source: i8 = 0, offset: f32 = 0.0, sign: i8 = 1, reference_source: i8 = -1 }
}
record! {
    /// Group `motor_position`.
    MotorPosition {
        sources: [Source; 3] = Default::default(),
        commutation_source: u8 = 0,
        output: Output = Output::default(),
        rotor_to_output_ratio: f32 = 1.0,
        rotor_to_output_override: bool = false,
    }
}
record! {
    /// Group `motor`.
    Motor {
        poles: u8 = 14,
        phase_invert: u8 = 0,
        resistance_ohm: f32 = 0.047,
        inductance_d_H: f32 = 0.000_028,
        inductance_q_H: f32 = 0.000_028,
        Kv: f32 = 16.4,
        rotation_current_cutoff_A: f32 = 10_000.0,
        rotation_current_scale: f32 = 0.05,
        rotation_torque_scale: f32 = 14.7,
    }
}
record! {
    /// Gains of the position loop, in N·m per revolution.
    PidPosition {
        kp: f32 = 4.0,
        ki: f32 = 1.0,
        kd: f32 = 0.05,
        iratelimit: f32 = -1.0,
        ilimit: f32 = 0.0,
        max_desired_rate: f32 = 0.0,
        sign: i8 = -1,
    }
}
record! {
    /// Group `servo`.
    ServoSettings {
        pwm_rate_hz: u16 = 30_000,
        max_voltage: f32 = 46.0,
        max_power_W: f32 = f32::NAN,
        override_board_max_power: bool = false,
        temperature_margin: f32 = 25.0,
        fault_temperature: f32 = 75.0,
        enable_motor_temperature: bool = false,
        motor_temperature_margin: f32 = 20.0,
        motor_fault_temperature: f32 = f32::NAN,
        fault_position_error: f32 = f32::NAN,
        fault_velocity_error: f32 = f32::NAN,
        velocity_threshold: f32 = 0.0,
        position_derate: f32 = 0.02,
        pid_position: PidPosition = PidPosition::default(),
        bemf_feedforward: f32 = 0.0,
        bemf_feedforward_override: bool = false,
        inertia_feedforward: f32 = 0.0,
        default_velocity_limit: f32 = f32::NAN,
        default_accel_limit: f32 = 50.0,
        max_position_slip: f32 = f32::NAN,
        max_velocity_slip: f32 = f32::NAN,
        default_timeout_s: f32 = 0.1,
        timeout_max_torque_Nm: f32 = 5.0,
        timeout_mode: u8 = 12,
        max_current_A: f32 = 100.0,
        derate_current_A: f32 = -20.0,
        max_velocity: f32 = 500.0,
        max_velocity_derate: f32 = 2.0,
        velocity_zero_capture_threshold: f32 = 0.05,
    }
}
record! {
    /// Group `servopos`: the factory's bounds let a servo hardly move.
    ServoBounds { position_min: f32 = -0.01, position_max: f32 = 0.01 }
}
record! {
    /// Everything, in the order of the console's `conf enumerate`.
    Settings {
        uuid: Uuid = Uuid::default(),
        clock: Clock = Clock::default(),
        aux1: Aux = Aux::default(),
        aux2: Aux = Aux::default(),
        motor_position: MotorPosition = MotorPosition::default(),
        motor: Motor = Motor::default(),
        servo: ServoSettings = ServoSettings::default(),
        servopos: ServoBounds = ServoBounds::default(),
        id: Id = Id::default(),
        can: Can = Can::default(),
    }
}

impl MotorPosition {
    /// Turns of the output per turn of the rotor; what no gear can have counts as 1.
    pub fn ratio(&self) -> f64 {
        let ratio = f64::from(self.rotor_to_output_ratio);
        if ratio.is_finite() && ratio != 0.0 { ratio } else { 1.0 }
    }
}

impl Settings {
    /// Sets one value from text, as `conf set` does; false if nothing has this name.
    pub fn set(&mut self, path: &str, text: &str) -> bool {
        let found = at(self, path, &mut |field| assign(field, text));
        if !(1..=126).contains(&self.id.id) {
            self.id.id = 1;
        }
        found
    }

    /// Calls `act` with a group; false if there is none of this name.
    pub fn group(&mut self, name: &str, act: &mut dyn FnMut(&mut dyn Record)) -> bool {
        let mut found = false;
        self.fields(&mut |group, field| {
            if let (true, Field::Object(record)) = (group == name, field) {
                found = true;
                act(record);
            }
        });
        found
    }
}

fn assign(field: Field<'_>, text: &str) {
    match field {
        Field::Bool(v) => *v = integer(text) != 0,
        Field::Unsigned(_, v) | Field::Signed(_, v) => v.put(integer(text)),
        Field::Float(v) => *v = float(text) as f32,
        Field::Enum(v, _) => *v = integer(text) as u8,
        Field::MaybeInt(v) => *v = Some(integer(text)),
        Field::MaybeFloat(v) => *v = Some(float(text) as f32),
        Field::Object(_) | Field::List(_) => {}
    }
}

/// As C's `strtoll` with base 0: leading digits count, anything else is 0.
fn integer(text: &str) -> i64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    let (radix, digits) = match digits {
        hex if lower => (16, &hex[2..]),
        octal if octal.len() > 1 && octal.starts_with('0') => (8, &octal[1..]),
        decimal => (10, decimal),
    };
    let value = digits
        .chars()
        .map_while(|c| c.to_digit(radix))
        .fold(0_i64, |value, digit| value.saturating_mul(i64::from(radix)).saturating_add(i64::from(digit)));
    if negative { -value } else { value }
}

/// As C's `strtof`: the longest number at the start counts, anything else is 0.
pub(super) fn float(text: &str) -> f64 {
    (0..=text.len()).rev().filter_map(|end| text.get(..end)?.parse().ok()).next().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_in_c() {
        let integers = [("12", 12), ("0x1f", 31), ("010", 8), ("-3x", -3), ("junk", 0), ("", 0), ("0", 0)];
        for (text, value) in integers {
            assert_eq!(integer(text), value, "{text}");
        }
        for (text, value) in [("0.5", 0.5), ("-inf", f64::NEG_INFINITY), ("1.5x", 1.5), ("e", 0.0)] {
            assert_eq!(float(text), value, "{text}");
        }
        assert!(float("nan").is_nan());
    }

    #[test]
    fn sets_by_path() {
        let mut settings = Settings::default();
        assert!(settings.set("servo.pid_position.kp", "7"));
        assert!(settings.set("motor_position.sources.2.cpr", "42"));
        assert!(settings.set("motor_position.sources.1.type", "3"));
        assert!(settings.set("id.id", "200"));
        assert_eq!(settings.servo.pid_position.kp, 7.0);
        assert_eq!(settings.motor_position.sources[2].cpr, 42);
        assert_eq!(settings.id.id, 1, "an impossible id falls back to 1");
        for nothing in ["servo", "servo.pid_position", "servo.none", "none.x", "id.id.0", "uuid.uuid.16", ""]
        {
            assert!(!settings.set(nothing, "1"), "{nothing}");
        }
    }
}
