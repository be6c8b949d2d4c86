//! Faults of the emulated devices by their names, for commands and programs.

use crate::injection::{Injection, Lie};
use crate::world::World;

/// A fault of the emulated devices, for those who name one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InjectedFault {
    /// Of a servo, by its index.
    Servo(usize, Injection),
    /// The IMU is gone, or back.
    ImuGone(bool),
    /// The IMU repeats its newest reading, or reads on.
    ImuFrozen(bool),
    /// A servo's supply, V.
    Supply(usize, f64),
}

impl InjectedFault {
    /// The names there are, for messages.
    pub const NAMES: &str = "silent, lying, stuck, asleep, stays_on, frozen, twice, unmeasured (0 ends them), fault, mode, mode_mostly \
        (numbers), slow (µs), altered (percent), jump (rad), reboot, supply (V), imu_gone, imu_frozen";

    /// The fault of this name says nothing without its size.
    pub fn has_size(name: &str) -> bool {
        ["fault", "mode", "mode_mostly", "slow", "altered", "jump", "supply"].contains(&name)
    }

    /// The fault of this name; `value` is its size, or whether it begins.
    pub fn named(name: &str, servo: usize, value: f64) -> Option<Self> {
        let on = value != 0.0;
        let lie = |lie: Lie| Injection::Lie(on.then_some(lie));
        Some(Self::Servo(
            servo,
            match name {
                "imu_gone" => return Some(Self::ImuGone(on)),
                "imu_frozen" => return Some(Self::ImuFrozen(on)),
                "supply" => return Some(Self::Supply(servo, value)),
                "silent" => Injection::Silent(on),
                "lying" => Injection::Lying(on),
                "stuck" => Injection::Stuck(on),
                "asleep" => Injection::Asleep(on),
                "fault" => Injection::Fault(value as u32),
                "reboot" => Injection::Reboot,
                "jump" => Injection::Jump((value * 1e3) as i16),
                "stays_on" => lie(Lie::StaysOn),
                "frozen" => lie(Lie::Frozen),
                "twice" => lie(Lie::Twice),
                "unmeasured" => lie(Lie::Unmeasured),
                "mode" => Injection::Lie(Some(Lie::Mode(value as u8))),
                "mode_mostly" => Injection::Lie(Some(Lie::Mostly(value as u8))),
                "slow" => lie(Lie::Slow(value as u16)),
                "altered" => lie(Lie::Altered(value as u8)),
                _ => return None,
            },
        ))
    }

    /// Into the emulated devices, now.
    pub fn put_into(self, world: &mut World, now_ns: i64) {
        match self {
            Self::Servo(servo, injection) => world.inject(servo, injection, now_ns),
            Self::ImuGone(gone) => world.lose_imu(gone),
            Self::ImuFrozen(frozen) => world.freeze_imu(frozen),
            Self::Supply(servo, volts) => world.set_supply(servo, volts, now_ns),
        }
    }
}
