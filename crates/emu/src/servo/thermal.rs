//! Temperatures of board and motor: one mass each, heated by the motor current, cooled by the air.

/// How something warms up.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mass {
    /// Warmer than the air by this much per watt of heat, in the end, K/W.
    per_watt: f64,
    /// Time to come within 37 % of it, s.
    seconds: f64,
}

/// A bare controller board with still air.
const BOARD: Mass = Mass { per_watt: 0.6, seconds: 60.0 };
/// A motor the size of a fist in its housing.
const MOTOR: Mass = Mass { per_watt: 1.2, seconds: 400.0 };

/// The temperatures, °C.
#[derive(Clone, Debug)]
pub struct Thermal {
    /// Where the power transistors are.
    pub board_c: f64,
    /// The windings.
    pub motor_c: f64,
}

impl Thermal {
    /// As warm as the air.
    pub fn new(ambient_c: f64) -> Self {
        Self { board_c: ambient_c, motor_c: ambient_c }
    }

    /// `heat_w` watts for `dt_s` seconds.
    pub fn step(&mut self, heat_w: f64, ambient_c: f64, dt_s: f64) {
        self.board_c += BOARD.change(self.board_c, heat_w, ambient_c) * dt_s;
        self.motor_c += MOTOR.change(self.motor_c, heat_w, ambient_c) * dt_s;
    }
}

impl Mass {
    fn change(self, now_c: f64, heat_w: f64, ambient_c: f64) -> f64 {
        (ambient_c + heat_w * self.per_watt - now_c) / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settles_at_heat_times_resistance() {
        let mut thermal = Thermal::new(20.0);
        for _ in 0..10_000 {
            thermal.step(50.0, 20.0, 0.5);
        }
        assert!((thermal.board_c - 50.0).abs() < 0.1);
        assert!((thermal.motor_c - 80.0).abs() < 0.1);
    }
}
