//! The clocks, as `i64` nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

/// Nanoseconds of `CLOCK_MONOTONIC`: never steps, not even when the wall clock is set. The clock of every
/// deadline and timestamp in this project.
///
/// Realtime: reads the vDSO, tens of nanoseconds, no system call where the clock source allows it.
#[inline]
#[must_use]
pub fn now_ns() -> i64 {
    to_ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since 1970 of the wall clock. Steps when it is set: for naming files and relating logs
/// of several machines, never for deadlines.
#[must_use]
pub fn realtime_ns() -> i64 {
    to_ns(clock_gettime(ClockId::Realtime))
}

/// CPU time this thread has used. On kernels with paravirtual steal accounting, time the hypervisor took
/// away is not in it.
///
/// Realtime: one system call, a few hundred nanoseconds.
#[inline]
#[must_use]
pub fn thread_cpu_ns() -> i64 {
    to_ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// A clock a thread can wait on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, see [`now_ns`].
    #[default]
    Monotonic,
    /// `CLOCK_REALTIME`, see [`realtime_ns`]; only to measure what it does to a loop.
    Realtime,
}

impl Clock {
    /// The present time on this clock.
    #[inline]
    #[must_use]
    pub fn now_ns(self) -> i64 {
        to_ns(clock_gettime(self.id()))
    }

    pub(crate) fn id(self) -> ClockId {
        match self {
            Clock::Monotonic => ClockId::Monotonic,
            Clock::Realtime => ClockId::Realtime,
        }
    }
}

fn to_ns(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The kernel's form of a time; a time before the clock's zero becomes zero, which every wait takes as past.
pub(crate) fn timespec(ns: i64) -> Timespec {
    let ns = ns.max(0);
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_run_forward() {
        let (a, cpu) = (now_ns(), thread_cpu_ns());
        assert!(now_ns() >= a);
        assert!(thread_cpu_ns() >= cpu);
        assert!(realtime_ns() > 1_600_000_000_000_000_000);
    }

    #[test]
    fn timespec_round_trip() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, 123_456_789_012] {
            assert_eq!(to_ns(timespec(ns)), ns);
        }
        assert_eq!(to_ns(timespec(-5)), 0);
    }
}
