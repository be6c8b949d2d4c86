//! `feetech` of a servo in a robot file: which model it is, and how it is driven.

use khz_settings::{section, words};
use khz_wire::feetech::Model;

words! {
    /// How a Feetech servo is driven.
    FeetechMode {
        /// Positions within a turn (mode 0).
        Position = "position",
        /// Velocities (mode 1): a wheel. It follows no position.
        Velocity = "velocity",
        /// Torques by its duty (mode 2), which the loop computes from its motor, its voltage and its velocity. It follows no position, and the loop
        /// damps it by `kd`.
        Pwm = "pwm",
    }
}

impl FeetechMode {
    /// The number of the mode.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// It follows positions.
    pub const fn has_positions(self) -> bool {
        matches!(self, Self::Position)
    }
}

words! {
    /// A model of the STS and SMS series. The servo is asked for it at the start.
    FeetechModel {
        /// STS3215, of 7.4 V or 12 V.
        Sts3215 = "STS3215",
        /// STS3250.
        Sts3250 = "STS3250",
        /// STS3036.
        Sts3036 = "STS3036",
        /// SM8512BL.
        Sm8512Bl = "SM8512BL",
    }
}

impl FeetechModel {
    /// Its number.
    pub fn number(self) -> u16 {
        Model::named(self.word()).map_or(0, |model| model.number)
    }

    /// N·m/A and Ω at the output, where they have been measured: those of an STS3215 of 7.4 V (Rhoban/bam).
    pub const fn motor(self) -> Option<[f64; 2]> {
        match self {
            Self::Sts3215 => Some([1.2116, 2.676]),
            Self::Sts3250 | Self::Sts3036 | Self::Sm8512Bl => None,
        }
    }
}

section! {
    /// `feetech` of a servo with `family = "feetech"`. Gains, acceleration and limits are in the servo's own units.
    FeetechSettings {
        /// The model; required.
        model: Option<FeetechModel> = None, "";
        /// How it is driven.
        mode: FeetechMode = FeetechMode::Position, "";
        /// Required: these servos have no watchdog. `true` confirms that you know that they hold their last target for ever when this computer
        /// fails.
        unwatched: bool = false, "";
        /// Torque at its shaft per current, and voltage per speed. Torques and their limits are calculated from it, its resistance, its duty
        /// and its voltage. Required, but for an STS3215: without the keys it is taken for one of 7.4 V.
        motor_constant: Option<f64> = None, "N·m/A", 0.0001 => 1000.0;
        /// Resistance of its motor and driver.
        motor_resistance: Option<f64> = None, "Ω", 0.001 => 1000.0;
        /// Position P gain; the maker's is 32, and 16 is usual for arms.
        position_p: u32 = 16, "", 1 => 255;
        /// Position D gain.
        position_d: u32 = 32, "", 0 => 255;
        /// Position I gain.
        position_i: u32 = 0, "", 0 => 255;
        /// Acceleration, 100 steps/s²; 0: the greatest, which suits a loop that sends a target in each tick.
        acceleration: u32 = 0, "", 0 => 254;
        /// Velocity gain of mode `pwm`, at its shaft: the loop has it, not the servo.
        kd: f64 = 0.1, "N·m·s/rad", 0.0001 => 1000.0;
        /// The greatest speed, steps/s; 0: as fast as it can, for which mode `velocity` takes 3400.
        speed: u32 = 0, "", 0 => 32_767;
        /// The greatest duty, thousandths: it limits the torque at standstill. A command with a `max_torque` sets it anew.
        torque_limit: u32 = 1000, "", 1 => 1000;
        /// The emulated servo moves its own goal no faster; real ones have a limit of their own, which `khz identify` finds. Without
        /// the key 4.9 rad/s, as recordings of a small Feetech have it.
        goal_speed: Option<f64> = None, "rad/s", 0.001 => 1000.0;
        /// Duty of the emulated servo for a radian and a unit of the P gain; without the key that of an STS3215.
        duty_gain: Option<f64> = None, "1/rad", 0.000_01 => 100.0;
        /// How much of `motor_resistance` there is at full duty only, less by the square of the duty: a supply that sags.
        sag: f64 = 0.0, "", 0.0 => 0.9;
        /// From a goal's arrival at the emulated servo to its effect, found as that limit is; without the key 35 ms.
        delay_ms: Option<f64> = None, "ms", 0.0 => 100.0;
        /// Its return delay time, which is read at the start.
        return_delay_us: u32 = 0, "µs", 0 => 508;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_number() {
        assert!(FeetechModel::ALL.iter().all(|model| model.number() != 0));
        assert_eq!(FeetechModel::ALL.len(), khz_wire::feetech::MODELS.len());
    }
}
