//! What the faults of a campaign are called in a table for people. JSON and datasets keep their names.

use std::borrow::Cow;

/// What is called by its name taken apart is not listed: `BusDead`, bus dead.
const WORDS: [(&str, &str); 36] = [
    ("Silent", "servo silent"),
    ("Reboot", "servo reboots"),
    ("OtherTurn", "servo reboots a turn off"),
    ("Lying", "servo reports NaN"),
    ("Stuck", "encoder stuck"),
    ("Asleep", "servo does not switch on"),
    ("RefusesPosition", "position cannot be read"),
    ("RefusesLimit", "servo refuses its limits"),
    ("Pushed", "joint pushed"),
    ("BusNoisy", "frames damaged"),
    ("BusSlow", "replies slow"),
    ("BusLate", "replies ticks late"),
    ("BusHolds", "bus carries nothing for a while"),
    ("ImuGone", "IMU silent"),
    ("ImuFrozen", "IMU repeats itself"),
    ("BrownOut", "supply sags"),
    ("HostKilled", "host process killed"),
    ("HostStopped", "host process stopped"),
    ("HostLate", "ticks start late"),
    ("ControllerFreezes", "controller hangs once"),
    ("ControllerNan", "controller commands NaN"),
    ("ControllerWild", "controller beyond limits"),
    ("ControllerHuge", "controller beyond 32 bits"),
    ("ControllerStops", "controller stops a servo"),
    ("FoundBeyondFormat", "found beyond the format"),
    ("WrongSign", "wrong sign in the file"),
    ("Overloaded", "bus cycle too long"),
    ("AsksLate", "requests to arm late"),
    ("StaysOn", "servo stays on"),
    ("OtherMode", "servo reports another mode"),
    ("Frozen", "servo repeats itself"),
    ("Echoes", "servo answers twice"),
    ("Altered", "bits of replies altered"),
    ("Unmeasured", "no voltage and temperature"),
    ("Jumps", "position jumps"),
    ("WatchdogActs", "servo refuses targets"),
];

/// A name from [`Campaign::drawn`](crate::campaign::Campaign::drawn) in words.
#[must_use]
pub fn in_words(name: &str) -> Cow<'_, str> {
    if let Some((_, words)) = WORDS.iter().find(|(known, _)| *known == name) {
        return (*words).into();
    }
    // `robot quadruped` and `controller hold` are words already.
    if !name.starts_with(char::is_uppercase) {
        return name.into();
    }
    let mut words = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(character.to_lowercase());
    }
    words.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the faults, from the source.
    fn faults() -> impl Iterator<Item = &'static str> {
        let lines =
            include_str!("scenario.rs").lines().skip_while(|line| !line.starts_with("pub enum Fault"));
        let lines = lines.skip(1).take_while(|line| !line.starts_with('}'));
        lines
            .filter_map(|line| line.trim_start().split(['(', ',']).next())
            .filter(|name| name.starts_with(char::is_uppercase))
    }

    #[test]
    fn every_fault_is_words_and_no_two_are_the_same() {
        let words: std::collections::BTreeSet<_> = faults().map(in_words).collect();
        assert!(faults().count() > 40 && words.len() == faults().count());
        for words in &words {
            let first = words.split(' ').next().unwrap_or_default();
            assert!(
                words.contains(' ') && (first == "IMU" || !first.starts_with(char::is_uppercase)),
                "{words}"
            );
        }
        assert!(WORDS.iter().all(|(name, _)| faults().any(|fault| fault == *name)));
        assert_eq!((in_words("BusDead"), in_words("robot solo")), ("bus dead".into(), "robot solo".into()));
    }
}
