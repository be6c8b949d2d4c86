//! Faults of the emulated devices by their names, for commands and programs.

use crate::injection::{Injection, Misbehaviour};
use crate::misbehaviour::Misbehaviours;
use crate::world::World;
use std::ops::RangeInclusive;

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

/// What the size of a fault may be, and its unit.
type Sizes = (RangeInclusive<f64>, &'static str);

impl InjectedFault {
    /// Names, and the sizes that those may have which need one, with their units.
    const KINDS: [(&str, Option<Sizes>); 18] = [
        ("silent", None),
        ("lying", None),
        ("stuck", None),
        ("asleep", None),
        ("stays_on", None),
        ("frozen", None),
        ("twice", None),
        ("unmeasured", None),
        ("reboot", None),
        ("imu_gone", None),
        ("imu_frozen", None),
        ("fault", Some((0.0..=65_535.0, "number"))),
        ("mode", Some((0.0..=255.0, "number"))),
        ("mode_mostly", Some((0.0..=255.0, "number"))),
        ("slow", Some((0.0..=65_535.0, "µs"))),
        ("altered", Some((0.0..=100.0, "percent"))),
        ("jump", Some((-32.0..=32.0, "rad"))),
        ("supply", Some((0.0..=1000.0, "V"))),
    ];

    /// The names there are, or those of what servos that can misbehave so can suffer, for messages. Allocates.
    pub fn names(misbehaviours: Option<&dyn Misbehaviours>) -> String {
        let is_there = |name: &str| {
            let fault = Self::of(name, 0, 1.0);
            fault.is_some_and(|fault| misbehaviours.is_none_or(|misbehaviours| fault.suits(misbehaviours)))
        };
        let named = Self::KINDS.iter().filter(|(name, _)| is_there(name));
        let label = named.map(|(name, size)| match size {
            Some((_, unit)) => format!("{name} ({unit})"),
            None => (*name).to_owned(),
        });
        label.collect::<Vec<_>>().join(", ")
    }

    /// Servos that can misbehave so can suffer it, whatever its size; what is none of a servo suits all.
    pub fn suits(self, misbehaviours: &dyn Misbehaviours) -> bool {
        match self {
            Self::Servo(_, Injection::Fault(_) | Injection::Jump(_)) => true,
            Self::Servo(_, injection) => misbehaviours.suits(injection),
            _ => true,
        }
    }

    /// The fault of this name needs a size.
    pub fn has_size(name: &str) -> bool {
        Self::KINDS.iter().any(|(kind, size)| *kind == name && size.is_some())
    }

    /// The fault of this name; `value` is its size, or whether it begins.
    ///
    /// # Errors
    /// None is called so, with the names there are, or it cannot have that size, with those that it can have.
    pub fn named(name: &str, servo: usize, value: f64) -> Result<Self, String> {
        let size = Self::KINDS.iter().find(|(kind, _)| *kind == name).and_then(|(_, size)| size.as_ref());
        if let Some((sizes, unit)) = size.filter(|(sizes, _)| !sizes.contains(&value)) {
            return Err(format!(
                "{name} is from {} to {} ({unit}), not {value:?}",
                sizes.start(),
                sizes.end()
            ));
        }
        Self::of(name, servo, value)
            .ok_or_else(|| format!("no fault is called `{name}`; there are: {}", Self::names(None)))
    }

    fn of(name: &str, servo: usize, value: f64) -> Option<Self> {
        let on = value != 0.0;
        let misbehave = |kind: Misbehaviour| Injection::Misbehave(on.then_some(kind));
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
                "stays_on" => misbehave(Misbehaviour::StaysOn),
                "frozen" => misbehave(Misbehaviour::Frozen),
                "twice" => misbehave(Misbehaviour::Twice),
                "unmeasured" => misbehave(Misbehaviour::Unmeasured),
                "mode" => Injection::Misbehave(Some(Misbehaviour::Mode(value as u8))),
                "mode_mostly" => Injection::Misbehave(Some(Misbehaviour::Mostly(value as u8))),
                "slow" => misbehave(Misbehaviour::Slow(value as u16)),
                "altered" => misbehave(Misbehaviour::Altered(value as u8)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A size that was no number injected nothing, in silence.
    #[test]
    fn a_fault_has_a_size_that_it_can_have() {
        for (name, size) in
            [("slow", f64::NAN), ("slow", -5.0), ("altered", 500.0), ("jump", 1e9), ("supply", -3.0)]
        {
            let why = InjectedFault::named(name, 0, size).unwrap_err();
            assert!(why.starts_with(&format!("{name} is from ")), "{why}");
        }
        assert!(InjectedFault::named("slow", 0, 50.0).is_ok());
        assert!(InjectedFault::named("slwo", 0, 50.0).unwrap_err().contains("slow (µs)"));
    }
}
