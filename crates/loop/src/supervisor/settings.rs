//! `[supervisor]`: what counts as trouble, and what is done about it.

use khz_settings::{nanoseconds, section, words};
use std::ops::Deref;

/// The least `voltage_low_v` that can be written, V.
pub const LEAST_VOLTAGE_LOW_V: f64 = 4.0;

words! {
    /// What the supervisor does when something is wrong.
    Reaction {
        /// Print a warning and go on.
        Warn = "warn",
        /// Go on with less torque.
        Derate = "derate",
        /// Let the robot sink slowly: zero velocity on every servo that still can.
        Damp = "damp",
        /// Switch every servo off at once. The robot drops.
        Stop = "stop",
    }
}

words! {
    /// When the robot is armed.
    Arming {
        /// As soon as every servo replies.
        Automatic = "automatic",
        /// When an operator asks for it, from the live view or a program. Until then it waits in idle, outputs off.
        Operator = "operator",
    }
}

words! {
    /// How the robot comes down where it cannot go on.
    Descent {
        /// Let the robot sink slowly: zero velocity on every servo that still can.
        Damp = "damp",
        /// Switch every servo off at once. The robot drops.
        Stop = "stop",
    }
}

impl Descent {
    /// The reaction of this name.
    pub const fn reaction(self) -> Reaction {
        match self {
            Self::Damp => Reaction::Damp,
            Self::Stop => Reaction::Stop,
        }
    }
}

words! {
    /// Whether a run goes on after a stall in which servos have timed out.
    Recover {
        /// It does not: the robot comes down.
        Off = "off",
        /// Servos are switched on again where they are.
        On = "on",
    }
}

words! {
    /// What happens to a command beyond a servo's limits.
    OutOfLimits {
        /// It is clamped to the limit, a target that moves too fast is slowed down, and both are counted.
        Clamp = "clamp",
        /// It fires the trigger `command`, like a command that is not a number.
        Trip = "trip",
    }
}

section! {
    /// `[supervisor]`: thresholds of the triggers, and how damping ends.
    SupervisorSettings {
        /// When the robot is armed.
        arming: Arming = Arming::Automatic, "";
        /// Missed replies of one servo in a row.
        missed_replies: u32 = 10, "", 1 => 100_000;
        /// A servo's state older than this. Without the key 50 ms; at rates below 70 Hz three and a half periods.
        stale_ms: Option<f64> = None, "ms", 0.1 => 100_000.0;
        /// Ticks in a row that took longer than a period.
        overruns: u32 = 10, "", 1 => 100_000;
        /// No IMU reading for this long. Without the key 20 ms; at rates below 175 Hz three and a half periods.
        imu_silent_ms: Option<f64> = None, "ms", 0.1 => 100_000.0;
        /// The IMU repeats one reading, bit for bit, for this long: it hangs, as the noise of a real one changes the last
        /// digits. Without the key 100 ms, and ten and a half periods at rates below 105 Hz; 0: not watched, for a sensor that
        /// rounds its noise away. Not watched for an emulated IMU without noise.
        imu_frozen_ms: Option<f64> = None, "ms", 0.0 => 100_000.0;
        /// The body leans more than this.
        tilt: f64 = 1.0, "rad", 0.01 => 3.2;
        /// A joint is measured this far beyond `limits.position`: it cannot be armed, and under control it is a trigger.
        position_tolerance: f64 = 0.05, "rad", 0.001 => 10.0;
        /// A joint is measured at this many times its `limits.velocity`.
        velocity_factor: f64 = 1.5, "", 1.0 => 100.0;
        /// What happens to a command beyond a servo's limits.
        out_of_limits: OutOfLimits = OutOfLimits::Clamp, "";
        /// Below this loop rate a joint with position or velocity limits accepts no torque command, not even as
        /// feed-forward in position control: the speed it gains in two periods is too much to brake. Such a command
        /// fires the trigger `command`, like one that is not a number. Lower this for joints that are slow enough.
        torque_control_hz: f64 = 200.0, "Hz", 0.0 => 100_000.0;
        /// The controller took longer than this. Without the key, half a period inline, a whole period
        /// pipelined.
        controller_us: Option<f64> = None, "µs", 1.0 => 1_000_000.0;
        /// Ticks in a row in which the controller took longer than `controller_us`. Ticks in which the thread of a pipelined
        /// controller waited for a CPU do not count; these may last as long as `stale_ms`.
        controller_slow: u32 = 10, "", 1 => 100_000;
        /// No heartbeat from the operator for this long. Without the key no operator is expected.
        heartbeat_ms: Option<f64> = None, "ms", 1.0 => 1_000_000.0;
        /// Where heartbeats are received: `udp:ADDRESS:PORT` (any datagram), `stdin`, or the path of a pipe (any
        /// line), or `teleop`: every fresh steering input. The robot waits in idle for the first one.
        heartbeat_from: Option<String> = None, "";
        /// The supply voltage of a servo is below this.
        voltage_low_v: f64 = 11.0, "V", LEAST_VOLTAGE_LOW_V => 60.0;
        /// A servo has this temperature: derating of its torque begins.
        temperature_soft_c: f64 = 60.0, "°C", 0.0 => 200.0;
        /// A servo has this temperature: its torque is fully derated, and the trigger `temperature` fires. Should be
        /// below the servo's own fault temperature (75 °C from the factory).
        temperature_hard_c: f64 = 70.0, "°C", 0.0 => 200.0;
        /// Share of a servo's torque limit left at `temperature_hard_c`.
        derate_to: f64 = 0.3, "", 0.0 => 1.0;
        /// During start-up every servo must have replied, without a fault, within this time.
        answer_s: f64 = 1.0, "s", 0.01 => 60.0;
        /// The robot arms after this many consecutive ticks in which every servo replied in time and exactly once;
        /// counting restarts if replies are missed before arming.
        answer_ticks: u32 = 5, "", 1 => 1000;
        /// Start-up grace period: for this long after arming, an IMU that is silent or not ready, overruns, a slow
        /// controller, and missed replies for `stale_ms` (but at most 24 in a row) are tolerated.
        grace_s: f64 = 0.5, "s", 0.0 => 60.0;
        /// Damping ends in stop after at most this time.
        damping_s: f64 = 3.0, "s", 0.1 => 60.0;
        /// Damping ends in stop once every joint is slower than this for `still_s` and has moved by no more than 0.004 rad (and two steps of
        /// its position's format) in that time. A joint that goes on sinking is damped for `damping_s`.
        still_velocity: f64 = 0.05, "rad/s", 0.0 => 10.0;
        /// See `still_velocity`. At least 50 ms, and two periods: before that, joints that were held have not begun to sink.
        still_s: f64 = 0.3, "s", 0.0 => 60.0;
        /// Whether servos whose watchdogs expired while the loop was held up, for at most 0.3 s, are switched on again where they are,
        /// at most 3 times in 60 s. Otherwise, and if a joint has moved by more than 0.05 rad, the robot comes down. For
        /// an arm that must not fall for one late tick; safety.md has the conditions. Every servo must be a Damiao or RobStride with
        /// `limits.velocity`.
        recover: Recover = Recover::Off, "";
        /// The reaction to each trigger.
        reactions: Reactions = Reactions::default(), "";
    }
}

section! {
    /// `[supervisor.reactions]`: the reaction to each trigger. A servo that has a fault is left alone; the
    /// reaction applies to the others.
    Reactions {
        /// A servo reports a fault, timed out, restarted, does not do what it is commanded, refused a register, reports a value
        /// beyond its format, or its position jumped.
        servo_fault: Reaction = Reaction::Damp, "";
        /// See `missed_replies` of `[supervisor]`.
        missed_replies: Reaction = Reaction::Damp, "";
        /// See `stale_ms`.
        stale: Reaction = Reaction::Damp, "";
        /// See `overruns`.
        overruns: Reaction = Reaction::Damp, "";
        /// See `imu_silent_ms` and `imu_frozen_ms`; also a reading that is not a number.
        imu: Reaction = Reaction::Damp, "";
        /// See `tilt`.
        tilt: Reaction = Reaction::Damp, "";
        /// A command that is not a number or is out of range of its format, or is beyond the limits with
        /// `out_of_limits = "trip"`. It is not sent, and the robot cannot go on without a command.
        command: Descent = Descent::Damp, "";
        /// The controller takes too long. If it reports an error or panics, there is no command to go on with, so the
        /// robot is at least damped.
        controller: Reaction = Reaction::Damp, "";
        /// The operator asks to stop, and is obeyed.
        operator: Descent = Descent::Damp, "";
        /// No heartbeat from the operator; see `heartbeat_ms`.
        heartbeat: Reaction = Reaction::Damp, "";
        /// See `voltage_low_v`; also a servo that is asked for its voltage and reports no number.
        voltage: Reaction = Reaction::Damp, "";
        /// See `temperature_hard_c`; also a servo that is asked for its temperature and reports no number.
        temperature: Reaction = Reaction::Damp, "";
        /// A joint is beyond `limits.position`; see `position_tolerance`. If it starts there, the robot is not armed,
        /// whatever the reaction is.
        position: Reaction = Reaction::Damp, "";
        /// A joint is faster than `limits.velocity`; see `velocity_factor`.
        velocity: Reaction = Reaction::Damp, "";
        /// The link of a bus failed or refused frames in `missed_replies` ticks in a row.
        bus_down: Reaction = Reaction::Damp, "";
        /// No targets for longer than `silent_s` of `[targets]`. With `warn` every joint goes on holding its position.
        targets: Reaction = Reaction::Damp, "";
    }
}

/// A longer stall is not recovered from, ns.
pub const LONGEST_RECOVERED_NS: i64 = 300_000_000;

/// Without `stale_ms`.
const STALE_MS: f64 = 50.0;

/// Without `imu_silent_ms`.
const IMU_SILENT_MS: f64 = 20.0;

/// Without `imu_frozen_ms`.
const IMU_FROZEN_MS: f64 = 100.0;

/// The times, in ns. Without their keys those that depend on the rate are as at 1 kHz; see [`SupervisorSettings::at`].
impl SupervisorSettings {
    /// With the keys that depend on the rate; `share`: of a period, that is the controller's.
    #[must_use]
    pub fn at(&self, period_ns: i64, share: f64) -> Self {
        let period_ms = period_ns as f64 * 1e-6;
        let mut settings = self.clone();
        // At low rates one reply that is lost is no silence.
        settings.stale_ms.get_or_insert(STALE_MS.max(3.5 * period_ms));
        settings.imu_silent_ms.get_or_insert(IMU_SILENT_MS.max(3.5 * period_ms));
        settings.imu_frozen_ms.get_or_insert(IMU_FROZEN_MS.max(10.5 * period_ms));
        settings.controller_us.get_or_insert(share * period_ms * 1e3);
        settings
    }

    /// Age of a servo's state.
    pub fn stale_ns(&self) -> i64 {
        nanoseconds(self.stale_ms.unwrap_or(STALE_MS), 1e6)
    }

    /// Age of the IMU's reading.
    pub fn imu_silent_ns(&self) -> i64 {
        nanoseconds(self.imu_silent_ms.unwrap_or(IMU_SILENT_MS), 1e6)
    }

    /// How long the IMU may repeat one reading; `None`: it is not watched.
    pub fn imu_frozen_ns(&self) -> Option<i64> {
        let ms = self.imu_frozen_ms.unwrap_or(IMU_FROZEN_MS);
        (ms > 0.0).then(|| nanoseconds(ms, 1e6))
    }

    /// Time in the controller.
    pub fn controller_ns(&self) -> i64 {
        self.controller_us.map_or(500_000, |us| nanoseconds(us, 1e3))
    }

    /// Ticks in a row in which a pipelined controller may be late because its thread gets no CPU: commands may be as old as the
    /// state. Ticks, not a time, since a loop that is held up may hold the controller up, too.
    pub fn controller_late(&self, period_ns: i64) -> u32 {
        controller_late(self.stale_ns(), period_ns, self.controller_slow)
    }

    /// Age of the operator's heartbeat; `None`: no operator is expected.
    pub fn heartbeat_ns(&self) -> Option<i64> {
        self.heartbeat_ms.map(|ms| nanoseconds(ms, 1e6))
    }

    /// How long all servos may take to answer at the start.
    pub fn answer_ns(&self) -> i64 {
        nanoseconds(self.answer_s, 1e9)
    }

    /// How long much is forgiven after arming.
    pub fn grace_ns(&self) -> i64 {
        nanoseconds(self.grace_s, 1e9)
    }

    /// How long to damp before outputs go off, at the most.
    pub fn damping_ns(&self) -> i64 {
        nanoseconds(self.damping_s, 1e9)
    }

    /// For how long every joint is still before damping ends early.
    pub fn still_ns(&self) -> i64 {
        nanoseconds(self.still_s, 1e9)
    }
}

fn controller_late(stale_ns: i64, period_ns: i64, slow: u32) -> u32 {
    let ticks = stale_ns / period_ns.max(1) + 1;
    u32::try_from(ticks).unwrap_or(u32::MAX).max(slow)
}

/// The settings, with the times that every tick needs rounded to ns beforehand: they have the names of what rounds them.
#[derive(Clone, Debug)]
pub(super) struct Thresholds {
    settings: SupervisorSettings,
    stale_ns: i64,
    imu_silent_ns: i64,
    imu_frozen_ns: Option<i64>,
    controller_ns: i64,
    heartbeat_ns: Option<i64>,
    grace_ns: i64,
    upright: f64,
}

/// So much below the greatest tilt, rad, no rounding makes it more.
const UPRIGHT: f64 = 1e-6;

impl Thresholds {
    pub fn of(settings: SupervisorSettings) -> Self {
        Self {
            stale_ns: settings.stale_ns(),
            imu_silent_ns: settings.imu_silent_ns(),
            imu_frozen_ns: settings.imu_frozen_ns(),
            controller_ns: settings.controller_ns(),
            heartbeat_ns: settings.heartbeat_ns(),
            grace_ns: settings.grace_ns(),
            upright: (settings.tilt - UPRIGHT).max(0.0).cos(),
            settings,
        }
    }

    pub const fn stale_ns(&self) -> i64 {
        self.stale_ns
    }

    pub const fn imu_silent_ns(&self) -> i64 {
        self.imu_silent_ns
    }

    pub const fn imu_frozen_ns(&self) -> Option<i64> {
        self.imu_frozen_ns
    }

    pub const fn controller_ns(&self) -> i64 {
        self.controller_ns
    }

    pub fn controller_late(&self, period_ns: i64) -> u32 {
        controller_late(self.stale_ns, period_ns, self.controller_slow)
    }

    pub const fn heartbeat_ns(&self) -> Option<i64> {
        self.heartbeat_ns
    }

    pub const fn grace_ns(&self) -> i64 {
        self.grace_ns
    }

    /// A robot whose tilt has this cosine or a greater one is surely not tilted too far.
    pub const fn upright(&self) -> f64 {
        self.upright
    }
}

impl Deref for Thresholds {
    type Target = SupervisorSettings;

    fn deref(&self) -> &SupervisorSettings {
        &self.settings
    }
}
