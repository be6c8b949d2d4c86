//! The robot file's tables for what is emulated, and what an emulated machine is made of by them.

use crate::config::{BusConfig, ImuConfig, WireKind};
use crate::family::ServoConfig;
use khz_settings::{nanoseconds, section, words};
use khz_wire::serial::Packets;
use std::f64::consts::TAU;

words! {
    /// What an emulated frame costs.
    WireModel {
        /// CAN-FD: arbitration, stuffing, two bit rates.
        CanFd = "can_fd",
        /// Classic CAN: up to 8 bytes in a frame, one bit rate.
        Can = "can",
        /// RS485: half duplex, ten bits per byte.
        Rs485 = "rs485",
        /// The same, with the packets of Dynamixel servos.
        Dynamixel = "dynamixel",
        /// The same, with those of Feetech servos.
        Feetech = "feetech",
        /// No time: to measure the cost of the host alone.
        Instant = "instant",
    }
}

section! {
    /// A bus with `link = "emulated"`.
    EmulatedLink {
        /// How long a frame occupies the wire.
        wire: WireModel = WireModel::CanFd, "";
        /// Bit rate of arbitration, for `can_fd`; of the whole frame for `can`.
        nominal_bit_rate: u32 = 1_000_000, "bit/s", 10_000 => 1_000_000;
        /// Bit rate of the data phase, for `can_fd`.
        data_bit_rate: u32 = 5_000_000, "bit/s", 10_000 => 12_000_000;
        /// Bit rate, for `rs485`, `dynamixel` and `feetech`.
        baud: u32 = 3_000_000, "bit/s", 9600 => 12_000_000;
        /// Time a servo takes from the end of a request to the start of its reply.
        turnaround_us: f64 = 75.0, "µs", 0.0 => 100_000.0;
    }
}

section! {
    /// `[emulation]`: what the emulated devices have in common.
    EmulationConfig {
        /// Seed of all noise and faults; equal seeds give equal runs.
        seed: u64 = 1, "", 0 => i64::MAX;
        /// Supply of the servos.
        supply_v: f64 = 24.0, "V", 5.0 => 60.0;
        /// Temperature around the servos.
        ambient_c: f64 = 25.0, "°C", -40.0 => 120.0;
        /// Heat flows this many times as fast as everything else, so that minutes show the effect of an hour.
        /// Repeated motion heats at the same rate if one repetition is short compared with the heating.
        heat_rate: f64 = 1.0, "", 0.0 => 1000.0;
        /// Time the IMU takes for a reading.
        imu_latency_us: f64 = 40.0, "µs", 0.0 => 1_000_000.0;
        /// Noise of the rate, standard deviation.
        imu_rate_noise: f64 = 0.002, "rad/s", 0.0 => 100.0;
        /// Noise of the acceleration, standard deviation.
        imu_acceleration_noise: f64 = 0.02, "m/s²", 0.0 => 100.0;
        /// Noise of the attitude, standard deviation.
        imu_attitude_noise: f64 = 0.0005, "rad", 0.0 => 1.0;
    }
}

section! {
    /// `device` of a servo: the emulated servo itself.
    DeviceConfig {
        /// Position gain at the output.
        kp: f64 = 20.0, "N·m/rad", 0.0 => 100_000.0;
        /// Velocity gain at the output.
        kd: f64 = 0.5, "N·m·s/rad", 0.0 => 10_000.0;
        /// The servo faults when its board reaches this temperature.
        fault_temperature: f64 = 75.0, "°C", 0.0 => 200.0;
        /// The servo starts to derate its own current this far below `fault_temperature`. 0: it does not.
        temperature_margin: f64 = 25.0, "°C", 0.0 => 200.0;
        /// Torque at the joint per torque that the servo calculates from its current: 0.9 if the motor is weaker than its
        /// calibration says. What the servo reports is what it calculates.
        motor_constant: f64 = 1.0, "", 0.1 => 10.0;
    }
}

impl EmulatedLink {
    /// The bus as it is emulated.
    pub fn bus(&self) -> BusConfig {
        let wire = match self.wire {
            WireModel::CanFd => {
                WireKind::CanFd { nominal_bps: self.nominal_bit_rate, data_bps: self.data_bit_rate }
            }
            WireModel::Can => {
                WireKind::CanFd { nominal_bps: self.nominal_bit_rate, data_bps: self.nominal_bit_rate }
            }
            WireModel::Rs485 => WireKind::Rs485 { baud: self.baud, packets: Packets::Moteus },
            WireModel::Dynamixel => WireKind::Rs485 { baud: self.baud, packets: Packets::Dynamixel },
            WireModel::Feetech => WireKind::Rs485 { baud: self.baud, packets: Packets::Feetech },
            WireModel::Instant => WireKind::Instant,
        };
        BusConfig { wire, turnaround_ns: nanoseconds(self.turnaround_us, 1e3), ..BusConfig::CAN_FD }
    }
}

impl EmulationConfig {
    /// Readings of the emulated IMU differ although nothing moves.
    pub fn imu_has_noise(&self) -> bool {
        self.imu_rate_noise > 0.0 || self.imu_acceleration_noise > 0.0 || self.imu_attitude_noise > 0.0
    }

    /// The IMU as it is emulated.
    pub fn imu(&self) -> ImuConfig {
        ImuConfig {
            latency_ns: nanoseconds(self.imu_latency_us, 1e3),
            rate_noise: self.imu_rate_noise,
            acceleration_noise: self.imu_acceleration_noise,
            attitude_noise: self.imu_attitude_noise,
        }
    }
}

impl DeviceConfig {
    /// The servo with these settings of its own, in revolutions as its console has them.
    pub fn configure(&self, servo: ServoConfig) -> ServoConfig {
        let per_turn = |per_rad: f64| per_rad * TAU;
        servo
            .with("servo.pid_position.kp", per_turn(self.kp))
            .with("servo.pid_position.ki", 0)
            .with("servo.pid_position.kd", per_turn(self.kd))
            // Commands come every tick; a trajectory of the servo's own would lag behind them.
            .with("servo.default_accel_limit", "nan")
            .with("servo.fault_temperature", self.fault_temperature)
            .with("servo.temperature_margin", self.temperature_margin)
    }
}
