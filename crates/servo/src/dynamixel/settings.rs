//! `dynamixel` of a servo in a robot file: which model it is, in which mode it is driven, and with which gains.

use khz_settings::{section, words};
use khz_wire::dynamixel::Model;

words! {
    /// How a Dynamixel servo is driven.
    DynamixelMode {
        /// Positions within a turn (mode 3).
        Position = "position",
        /// Positions over many turns (mode 4).
        ExtendedPosition = "extended_position",
        /// The same, with the greatest torque of each command as a limit of current (mode 5). Not of models without a current sensor.
        CurrentPosition = "current_position",
        /// Velocities (mode 1): a wheel. It follows no position.
        Velocity = "velocity",
        /// Torques by its current (mode 0): it follows no position, and the loop damps it by `kd`. Not of models without a current sensor.
        Current = "current",
        /// Torques by its duty (mode 16), which the loop computes from its motor, its voltage and its velocity. It follows no position, and the
        /// loop damps it by `kd`. Not of models without a current sensor.
        Pwm = "pwm",
    }
}

impl DynamixelMode {
    /// The number of the operating mode.
    pub const fn number(self) -> u8 {
        match self {
            Self::Position => 3,
            Self::ExtendedPosition => 4,
            Self::CurrentPosition => 5,
            Self::Velocity => 1,
            Self::Current => 0,
            Self::Pwm => 16,
        }
    }

    /// It follows positions.
    pub const fn has_positions(self) -> bool {
        matches!(self, Self::Position | Self::ExtendedPosition | Self::CurrentPosition)
    }

    /// It follows torques.
    pub const fn follows_torque(self) -> bool {
        matches!(self, Self::Current | Self::Pwm)
    }

    /// Its torque is limited by each command, for which it must be known what an ampere is worth.
    pub const fn limits_torque(self) -> bool {
        matches!(self, Self::CurrentPosition | Self::Current | Self::Pwm)
    }
}

words! {
    /// A model of the X series. The servo is asked for it at the start.
    DynamixelModel {
        /// XL330-M077.
        Xl330M077 = "XL330-M077",
        /// XL330-M288.
        Xl330M288 = "XL330-M288",
        /// XC330-T288.
        Xc330T288 = "XC330-T288",
        /// XL430-W250.
        Xl430W250 = "XL430-W250",
        /// XC430-W150.
        Xc430W150 = "XC430-W150",
        /// 2XL430-W250.
        TwoXl430W250 = "2XL430-W250",
        /// XM430-W350.
        Xm430W350 = "XM430-W350",
        /// XM430-W210.
        Xm430W210 = "XM430-W210",
        /// XH540-W270.
        Xh540W270 = "XH540-W270",
        /// XM540-W270.
        Xm540W270 = "XM540-W270",
        /// XM540-W150.
        Xm540W150 = "XM540-W150",
        /// XW540-T260.
        Xw540T260 = "XW540-T260",
    }
}

impl DynamixelModel {
    /// What differs between the models.
    pub fn facts(self) -> &'static Model {
        const UNKNOWN: &Model = &khz_wire::dynamixel::MODELS[6];
        Model::named(self.word()).unwrap_or(UNKNOWN)
    }
}

section! {
    /// `dynamixel` of a servo with `family = "dynamixel"`. Gains, profile and limits are in the servo's own units.
    DynamixelSettings {
        /// The model; required.
        model: Option<DynamixelModel> = None, "";
        /// How it is driven.
        mode: DynamixelMode = DynamixelMode::Position, "";
        /// Torque at its shaft for each ampere that it measures; of a model without a current sensor for its full load. Required, as torques
        /// and their limits depend on it: stall torque divided by stall current, as its maker's page has them, is a beginning.
        torque_constant: Option<f64> = None, "N·m/A", 0.0001 => 1000.0;
        /// Resistance of its motor and driver; mode `pwm` needs it to compute duties. At its full duty it is that of the emulated servo: with it that
        /// follows positions by the voltage of its motor, and the faster it turns, the less torque it has, as real ones do. Without the key
        /// it is a spring within its greatest torque.
        motor_resistance: Option<f64> = None, "Ω", 0.001 => 1000.0;
        /// How much of that there is at full duty only, less by the square of the duty: a supply that sags, and whatever else lets torque grow
        /// less than the duty. A third in recordings of an XL330.
        sag: f64 = 0.0, "", 0.0 => 0.9;
        /// With `motor_resistance`: the emulated servo moves its own goal no faster. Without the key there is no limit.
        goal_speed: Option<f64> = None, "rad/s", 0.001 => 1000.0;
        /// With `motor_resistance`: from a goal's arrival at the emulated servo to its effect.
        delay_ms: f64 = 0.0, "ms", 0.0 => 100.0;
        /// Position P gain; the maker's is 800 (X330: 400).
        position_p: u32 = 800, "", 1 => 16_383;
        /// Position I gain.
        position_i: u32 = 0, "", 0 => 16_383;
        /// Position D gain.
        position_d: u32 = 0, "", 0 => 16_383;
        /// Position D gain while it damps, with a P gain of 0.
        damping: u32 = 2000, "", 1 => 16_383;
        /// Velocity P gain of mode `velocity`; the maker's is 100 (X330: 180).
        velocity_p: u32 = 100, "", 1 => 16_383;
        /// Velocity I gain of mode `velocity`, which is 0 while it damps; the maker's is 1920 (X330: 1600).
        velocity_i: u32 = 0, "", 0 => 16_383;
        /// The greatest velocity of mode `velocity`, 0.229 rpm. The servo refuses more than its own `velocity_limit` in silence: that is read
        /// at the start, and must not be less.
        velocity_limit: u32 = 330, "", 1 => 2047;
        /// The greatest current of modes `current` and `current_position`, in steps of its model; the same of its own `current_limit`.
        current_limit: u32 = 1193, "", 1 => 2047;
        /// The greatest duty in any mode, of 885; the same of its own `pwm_limit`. In mode `pwm` less of it keeps a joint from running away; in
        /// the others it weakens the servo.
        pwm_limit: u32 = 885, "", 1 => 885;
        /// Velocity gain of the modes `current` and `pwm`, at its shaft: the loop has it, not the servo, and nothing damps without a loop.
        kd: f64 = 0.05, "N·m·s/rad", 0.0001 => 1000.0;
        /// Profile velocity, 0.229 rpm; 0: none, which suits a loop that sends a target in each tick.
        profile_velocity: u32 = 0, "", 0 => 32_767;
        /// Profile acceleration, 214.577 rev/min²; 0: none.
        profile_acceleration: u32 = 0, "", 0 => 32_767;
        /// Its return delay time, which is read at the start. Its maker's is 500 µs, which no loop wants.
        return_delay_us: u32 = 0, "µs", 0 => 508;
        /// The servos of a bus with one layout of their tables answer in one packet. Without the key they do where the model can, with new
        /// firmware.
        fast: Option<bool> = None, "";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_facts_of_its_own() {
        for &model in DynamixelModel::ALL {
            assert_eq!(model.facts().name, model.word());
        }
        assert_eq!(DynamixelModel::ALL.len(), khz_wire::dynamixel::MODELS.len());
    }
}
