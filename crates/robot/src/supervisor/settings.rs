//! Thresholds and times, as the state machine needs them.

use crate::config::{OutOfLimits, Reactions, RobotConfig, SupervisorConfig};

/// Thresholds, times and reactions. Times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorSettings {
    /// Go from idle to armed without being asked.
    pub auto_arm: bool,
    /// How long all servos may take to answer at the start.
    pub answer_ns: i64,
    /// Ticks in a row in which every servo has to answer before the robot may be armed.
    pub answer_ticks: u32,
    /// After arming, missed replies (for `stale_ns`), overruns and a slow controller are forgiven for this long.
    pub grace_ns: i64,
    /// Missed replies of one servo, or refusals of one link, in a row.
    pub missed_replies: u32,
    /// Age of a servo's state.
    pub stale_ns: i64,
    /// Overruns in a row.
    pub overruns: u32,
    /// Age of the IMU's reading.
    pub imu_silent_ns: i64,
    /// Tilt of the body, rad.
    pub tilt: f64,
    /// How far beyond its limits a joint may be measured, rad.
    pub position_tolerance: f64,
    /// How many times its greatest speed a joint may be measured at.
    pub velocity_factor: f64,
    /// What happens to commands beyond the limits.
    pub out_of_limits: OutOfLimits,
    /// Time in the controller.
    pub controller_ns: i64,
    /// Ticks in a row in which the controller took longer.
    pub controller_slow: u32,
    /// Age of the operator's heartbeat; `None`: no operator is expected.
    pub heartbeat_ns: Option<i64>,
    /// Supply, V.
    pub voltage_low: f64,
    /// Where derating begins, °C.
    pub temperature_soft: f64,
    /// Where derating ends and the trigger acts, °C.
    pub temperature_hard: f64,
    /// Share of the torque limit left at `temperature_hard`, and for the reaction `derate`.
    pub derate_to: f64,
    /// How long to damp before outputs go off, at the most.
    pub damping_ns: i64,
    /// Every joint is slower than this, rad/s, …
    pub still_velocity: f64,
    /// … for this long: damping ends early.
    pub still_ns: i64,
    /// What is done about each trigger.
    pub reactions: Reactions,
}

impl SupervisorSettings {
    /// What a robot file says.
    pub fn of(robot: &RobotConfig) -> Self {
        // The controller's share of a period: half of it in the tick, all of it on its own thread.
        let share = match robot.timing.mode {
            crate::config::Mode::Inline => 2,
            crate::config::Mode::Pipelined => 1,
        };
        Self::from_config(&robot.supervisor, robot.timing.period_ns() / share)
    }

    fn from_config(config: &SupervisorConfig, controller_ns: i64) -> Self {
        let ns = |value: f64, unit: f64| (value * unit).round() as i64;
        Self {
            auto_arm: true,
            answer_ns: ns(config.answer_s, 1e9),
            answer_ticks: config.answer_ticks,
            grace_ns: ns(config.grace_s, 1e9),
            missed_replies: config.missed_replies,
            stale_ns: ns(config.stale_ms, 1e6),
            overruns: config.overruns,
            imu_silent_ns: ns(config.imu_silent_ms, 1e6),
            tilt: config.tilt,
            position_tolerance: config.position_tolerance,
            velocity_factor: config.velocity_factor,
            out_of_limits: config.out_of_limits,
            controller_ns: config.controller_us.map_or(controller_ns, |us| ns(us, 1e3)),
            controller_slow: config.controller_slow,
            heartbeat_ns: config.heartbeat_ms.map(|ms| ns(ms, 1e6)),
            voltage_low: config.voltage_low_v,
            temperature_soft: config.temperature_soft_c,
            temperature_hard: config.temperature_hard_c,
            derate_to: config.derate_to,
            damping_ns: ns(config.damping_s, 1e9),
            still_velocity: config.still_velocity,
            still_ns: ns(config.still_s, 1e9),
            reactions: config.reactions.clone(),
        }
    }
}

impl Default for SupervisorSettings {
    /// The defaults of a robot file at 1 kHz.
    fn default() -> Self {
        Self::from_config(&SupervisorConfig::default(), 500_000)
    }
}
