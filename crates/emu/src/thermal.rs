//! Temperatures of a servo: board and windings warm the housing, the sun does too, the air cools it.

use khz_settings::section;

section! {
    /// `heat` of a servo: how the emulated servo warms up. The defaults are estimates for a servo of half a kilogram the
    /// size of a fist, in still air, whose board has no heat sink.
    #[derive(Copy)]
    HeatConfig {
        /// Heat capacity of the board.
        board_j_per_k: f64 = 12.0, "J/K", 0.01 => 100_000.0;
        /// Heat capacity of the windings with their iron.
        winding_j_per_k: f64 = 80.0, "J/K", 0.01 => 100_000.0;
        /// Heat capacity of the housing.
        housing_j_per_k: f64 = 280.0, "J/K", 0.01 => 100_000.0;
        /// Thermal conductance from the board to the housing.
        board_w_per_k: f64 = 0.1, "W/K", 0.0001 => 1000.0;
        /// Thermal conductance from the windings to the housing.
        winding_w_per_k: f64 = 1.0, "W/K", 0.0001 => 1000.0;
        /// Thermal conductance from the housing to the air.
        housing_w_per_k: f64 = 0.3, "W/K", 0.0001 => 1000.0;
        /// Power that the board dissipates while it drives the motor, independent of the current.
        board_w: f64 = 1.5, "W", 0.0 => 1000.0;
        /// Resistance of the board per phase.
        board_ohm: f64 = 0.005, "Ω", 0.0 => 10.0;
        /// Power that the housing receives from the sun.
        sun_w: f64 = 0.0, "W", 0.0 => 1000.0;
    }
}

/// Resistance of copper per kelvin, and the temperature at which a winding has the configured one.
const COPPER_PER_K: f64 = 0.0039;
const COPPER_AT_C: f64 = 25.0;
/// No mass is colder than this, and none stays solid above that, °C: a motor that cannot exist heats itself without end.
const POSSIBLE_C: (f64, f64) = (-273.15, 5000.0);

/// The temperatures, °C.
#[derive(Clone, Debug)]
pub struct Thermal {
    /// Where the power transistors are.
    pub board_c: f64,
    /// The windings.
    pub motor_c: f64,
    /// What surrounds them.
    pub housing_c: f64,
}

impl Thermal {
    /// As warm as the air.
    pub fn new(ambient_c: f64) -> Self {
        Self { board_c: ambient_c, motor_c: ambient_c, housing_c: ambient_c }
    }

    /// Resistance of the windings over the configured one.
    pub fn resistance(&self) -> f64 {
        1.0 + COPPER_PER_K * (self.motor_c - COPPER_AT_C)
    }

    /// `board_w` watts of heat on the board and `winding_w` in the windings for `dt_s` seconds of flowing heat.
    pub fn step(&mut self, config: &HeatConfig, ambient_c: f64, [board_w, winding_w]: [f64; 2], dt_s: f64) {
        let (board, winding) = (config.board_w_per_k, config.winding_w_per_k);
        let housing = [(board, self.board_c), (winding, self.motor_c), (config.housing_w_per_k, ambient_c)];
        self.housing_c = warmed(self.housing_c, config.housing_j_per_k, config.sun_w, housing, dt_s);
        self.board_c = warmed(self.board_c, config.board_j_per_k, board_w, [(board, self.housing_c)], dt_s);
        self.motor_c =
            warmed(self.motor_c, config.winding_j_per_k, winding_w, [(winding, self.housing_c)], dt_s);
    }
}

/// The temperature of a mass after `dt_s` seconds, by the heat that flows at their end: stable however long they are.
/// Heat that is not a number does not flow.
fn warmed<const N: usize>(now_c: f64, j_per_k: f64, heat_w: f64, to: [(f64, f64); N], dt_s: f64) -> f64 {
    let (flow, inflow) = to.iter().fold((0.0, heat_w), |(w_per_k, w), (g, c)| (w_per_k + g, w + g * c));
    let kick = dt_s / j_per_k;
    let then_c = (now_c + kick * inflow) / (1.0 + kick * flow);
    if then_c.is_nan() { now_c } else { then_c.clamp(POSSIBLE_C.0, POSSIBLE_C.1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: f64, rate: f64) -> Thermal {
        let config = HeatConfig { sun_w: 3.0, ..HeatConfig::default() };
        let mut thermal = Thermal::new(20.0);
        (0..(seconds / 0.01) as usize).for_each(|_| thermal.step(&config, 20.0, [2.0, 10.0], 0.01 * rate));
        thermal
    }

    #[test]
    fn settles_where_as_much_heat_leaves_as_comes() {
        let thermal = after(20_000.0, 1.0);
        // 15 W through 0.3 W/K to the air, 2 W through 0.1 W/K and 10 W through 1 W/K to the housing.
        assert!((thermal.housing_c - 70.0).abs() < 0.1, "{thermal:?}");
        assert!((thermal.board_c - 90.0).abs() < 0.1, "{thermal:?}");
        assert!((thermal.motor_c - 80.0).abs() < 0.1, "{thermal:?}");
    }

    #[test]
    fn heat_that_flows_faster_arrives_at_the_same() {
        let (slow, fast) = (after(1200.0, 1.0), after(40.0, 30.0));
        assert!((slow.board_c - fast.board_c).abs() < 0.1, "{slow:?} {fast:?}");
        assert!(slow.board_c < 80.0, "still on its way: {slow:?}");
    }

    #[test]
    fn no_step_is_too_long() {
        let thermal = after(1.0, 1e6);
        assert!((thermal.board_c - 90.0).abs() < 1.0, "{thermal:?}");
    }
}
