//! Waiting for an absolute deadline, in five ways.

use crate::clock::{Clock, now_ns, timespec};
use crate::sys::SignalTimer;
use khz_settings::words;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};

words! {
    /// How the loop waits for the start of a tick.
    Wake {
        /// Sleep until shortly before, then spin.
        Hybrid = "hybrid",
        /// Sleep to an absolute time.
        Sleep = "sleep",
        /// Never sleep; takes a whole CPU.
        Spin = "spin",
        /// Wait on a `timerfd`.
        Timerfd = "timerfd",
        /// Wait for the signal of a POSIX timer.
        Sigwait = "sigwait",
    }
}

/// Waits for deadlines. Belongs to the thread that made it, because a POSIX timer signals one thread.
///
/// # Realtime contract
/// [`Waiter::wait_until`] allocates nothing and blocks until the deadline and no longer than the kernel takes
/// to wake the thread. Signals do not end the wait.
pub struct Waiter {
    clock: Clock,
    means: Means,
    guard: Guard,
    gap_ns: i64,
    spun_ns: i64,
    slept: bool,
    _on_its_thread: PhantomData<*const ()>,
}

enum Means {
    Sleep,
    Hybrid,
    Spin,
    Timerfd(OwnedFd),
    Sigwait(SignalTimer),
}

impl Waiter {
    /// Makes ready to wait on `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// If the kernel has no timer to give (`timerfd`, `sigwait`); the others cannot fail.
    pub fn new(wake: Wake) -> io::Result<Waiter> {
        Waiter::on(Clock::Monotonic, wake)
    }

    /// Makes ready to wait on a clock of choice; deadlines and return values are times of that clock.
    ///
    /// # Errors
    /// As [`Waiter::new`].
    pub fn on(clock: Clock, wake: Wake) -> io::Result<Waiter> {
        let means = match wake {
            Wake::Sleep => Means::Sleep,
            Wake::Hybrid => Means::Hybrid,
            Wake::Spin => Means::Spin,
            Wake::Timerfd => Means::Timerfd(timerfd_create(timerfd_clock(clock), TimerfdFlags::CLOEXEC)?),
            Wake::Sigwait => Means::Sigwait(SignalTimer::new(clock)?),
        };
        Ok(Waiter {
            clock,
            means,
            guard: Guard::default(),
            gap_ns: 0,
            spun_ns: 0,
            slept: false,
            _on_its_thread: PhantomData,
        })
    }

    /// Replaces the guard of [`Wake::Hybrid`], to bound it differently.
    #[must_use]
    pub fn with_guard(self, guard: Guard) -> Waiter {
        Waiter { guard, ..self }
    }

    /// Waits until the clock reaches `deadline_ns` and returns the time it woke; at once if that is past.
    /// Lateness is the difference of the two, never negative but where the clock was set back meanwhile.
    #[inline]
    pub fn wait_until(&mut self, deadline_ns: i64) -> i64 {
        (self.gap_ns, self.spun_ns, self.slept) = (0, 0, false);
        match &mut self.means {
            Means::Sleep => self.sleep(deadline_ns),
            Means::Spin => self.spin(deadline_ns),
            Means::Hybrid => self.sleep_then_spin(deadline_ns),
            Means::Timerfd(timer) => {
                self.slept = self.clock.now_ns() < deadline_ns;
                if wait_timer(timer, deadline_ns).is_err() {
                    self.sleep(deadline_ns);
                }
                self.clock.now_ns()
            }
            Means::Sigwait(timer) => {
                self.slept = self.clock.now_ns() < deadline_ns;
                if timer.wait_until(deadline_ns).is_err() {
                    self.sleep(deadline_ns);
                }
                self.clock.now_ns()
            }
        }
    }

    /// The guard as it stands now.
    #[must_use]
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// The longest time between two readings of the clock in the last spin: what took the CPU away then.
    /// Zero for strategies that do not spin.
    #[must_use]
    pub fn gap_ns(&self) -> i64 {
        self.gap_ns
    }

    /// How long the last wait spun, which is its cost in CPU time beyond the sleep's.
    #[must_use]
    pub fn spun_ns(&self) -> i64 {
        self.spun_ns
    }

    /// Whether the last wait gave the CPU up: it did not only spin, and was not over when it began.
    #[must_use]
    pub fn slept(&self) -> bool {
        self.slept
    }

    fn sleep_then_spin(&mut self, deadline_ns: i64) -> i64 {
        let wake_ns = deadline_ns.saturating_sub(self.guard.ns());
        if self.clock.now_ns() < wake_ns {
            let woke_ns = self.sleep(wake_ns);
            self.guard.observe(woke_ns - wake_ns);
        }
        self.spin(deadline_ns)
    }

    fn sleep(&mut self, deadline_ns: i64) -> i64 {
        self.slept = self.clock.now_ns() < deadline_ns;
        let deadline = timespec(deadline_ns);
        while clock_nanosleep_absolute(self.clock.id(), &deadline) == Err(Errno::INTR) {}
        self.clock.now_ns()
    }

    fn spin(&mut self, deadline_ns: i64) -> i64 {
        let start_ns = self.clock.now_ns();
        let mut now_ns = start_ns;
        while now_ns < deadline_ns {
            std::hint::spin_loop();
            let next_ns = self.clock.now_ns();
            self.gap_ns = self.gap_ns.max(next_ns - now_ns);
            now_ns = next_ns;
        }
        self.spun_ns = now_ns - start_ns;
        now_ns
    }
}

fn timerfd_clock(clock: Clock) -> TimerfdClockId {
    match clock {
        Clock::Monotonic => TimerfdClockId::Monotonic,
        Clock::Realtime => TimerfdClockId::Realtime,
    }
}

fn wait_timer(timer: &OwnedFd, deadline_ns: i64) -> io::Result<()> {
    // A value of zero would disarm the timer and the read would never return.
    let due = Itimerspec { it_interval: timespec(0), it_value: timespec(deadline_ns.max(1)) };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &due)?;
    let mut expirations = [0u8; 8];
    loop {
        match rustix::io::read(timer, &mut expirations) {
            Err(Errno::INTR) => {}
            result => return result.map(|_| ()).map_err(io::Error::from),
        }
    }
}

/// How long before the deadline a hybrid wait stops sleeping. Follows the 99th percentile of the measured
/// sleep error plus a margin, so it is no longer than this machine needs, and never exceeds the usual sleep error
/// by more than a budget, so that the time spun is bounded. Single outliers hardly move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// 99th percentile and median of the sleep error, as they are estimated.
    worst_ns: i64,
    usual_ns: i64,
    budget_ns: i64,
    fixed: bool,
    observed: u32,
}

/// A thread that sleeps in a hot cache wakes this soon on a fast machine; less is no use.
const LEAST_NS: i64 = 5_000;
const MARGIN_NS: i64 = 4_000;
/// Sleep errors at the start, before any is known: those of a small or loaded machine.
const FIRST_WORST_NS: i64 = 50_000;
const FIRST_USUAL_NS: i64 = 15_000;
/// So many sleeps are learnt from in longer steps.
const LEARNING: u32 = 500;

impl Default for Guard {
    /// Spins 45 µs before the deadline at most, 4.5 % of a CPU at 1 kHz; mostly much less.
    fn default() -> Guard {
        Guard::with_budget(45_000)
    }
}

impl Guard {
    /// A guard that lets the thread spin for `budget_ns` in a usual tick at most.
    #[must_use]
    pub fn with_budget(budget_ns: i64) -> Guard {
        Guard { worst_ns: FIRST_WORST_NS, usual_ns: FIRST_USUAL_NS, budget_ns, fixed: false, observed: 0 }
    }

    /// A guard that never changes.
    #[must_use]
    pub fn fixed(ns: i64) -> Guard {
        Guard { worst_ns: ns, usual_ns: 0, budget_ns: ns, fixed: true, observed: 0 }
    }

    /// Its present length.
    #[inline]
    #[must_use]
    pub fn ns(&self) -> i64 {
        if self.fixed {
            return self.worst_ns;
        }
        (self.worst_ns + MARGIN_NS).min(self.usual_ns + self.budget_ns).max(LEAST_NS)
    }

    /// Takes in how late a sleep woke. An estimate that steps up 99 times as far as down rests where one sleep in
    /// a hundred is later: the 99th percentile, found without memory. With equal steps it is the median.
    #[inline]
    pub fn observe(&mut self, late_ns: i64) {
        let gain = if self.observed < LEARNING { 8 } else { 1 };
        self.observed = self.observed.saturating_add(1);
        let towards = |estimate_ns: i64, up_ns: i64, down_ns: i64| {
            let step = if late_ns > estimate_ns { up_ns } else { -down_ns };
            (estimate_ns + gain * step).max(0)
        };
        if !self.fixed {
            self.worst_ns = towards(self.worst_ns, 990, 10);
            self.usual_ns = towards(self.usual_ns, 50, 50);
        }
    }
}

/// How a packet-paced wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paced {
    /// The descriptor is readable.
    Packet,
    /// The deadline passed first: the caller goes on by the timer.
    Timer,
}

/// Waits until `fd` is readable or `CLOCK_MONOTONIC` reaches `deadline_ns`: a loop paced by a sensor's
/// packets, with the timer to fall back on.
///
/// Realtime: one system call, no allocation; blocks until the deadline at most.
///
/// # Errors
/// If the descriptor cannot be polled. A hung-up descriptor is readable: reading it returns the error.
pub fn wait_readable(fd: BorrowedFd<'_>, deadline_ns: i64) -> io::Result<Paced> {
    let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    loop {
        let left = timespec(deadline_ns.saturating_sub(now_ns()));
        match poll(&mut watched, Some(&left)) {
            Ok(0) => return Ok(Paced::Timer),
            Ok(_) if watched[0].revents().contains(PollFlags::NVAL) => return Err(Errno::BADF.into()),
            Ok(_) => return Ok(Paced::Packet),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn no_strategy_wakes_early_or_hangs_on_the_past() {
        for wake in Wake::ALL.iter().copied() {
            for clock in [Clock::Monotonic, Clock::Realtime] {
                let mut waiter = Waiter::on(clock, wake).unwrap();
                for _ in 0..3 {
                    let deadline_ns = clock.now_ns() + 200_000;
                    assert!(waiter.wait_until(deadline_ns) >= deadline_ns, "{wake} {clock:?}");
                }
                for past in [clock.now_ns() - 1, 0, -1, i64::MIN] {
                    waiter.wait_until(past);
                }
            }
        }
    }

    #[test]
    fn names_round_trip_and_a_wrong_one_lists_the_right_ones() {
        for wake in Wake::ALL.iter().copied() {
            assert_eq!(wake.word().parse(), Ok(wake));
        }
        let error = "busy".parse::<Wake>().unwrap_err();
        assert!(error.contains("`busy`") && error.contains("hybrid"));
    }

    #[test]
    fn guard_settles_at_the_99th_percentile_of_the_sleep_error() {
        let mut guard = Guard::default();
        for n in 0..200_000i64 {
            guard.observe(10_000 + (n * 7_919) % 1_000 * 10);
        }
        assert!((19_900..20_600).contains(&(guard.ns() - MARGIN_NS)), "{guard:?}");
    }

    #[test]
    fn guard_is_not_moved_by_a_stolen_millisecond() {
        let mut guard = Guard::default();
        (0..50_000).for_each(|_| guard.observe(12_000));
        let before = guard.ns();
        guard.observe(1_083_000);
        assert!(guard.ns() - before < 1_000);
    }

    #[test]
    fn guard_lets_a_usual_tick_spin_no_longer_than_its_budget() {
        let mut guard = Guard::with_budget(45_000);
        (0..20_000).for_each(|n| guard.observe(if n % 10 == 0 { 2_000_000 } else { 20_000 }));
        assert!((64_000..66_000).contains(&guard.ns()), "{guard:?}");
    }

    #[test]
    fn guard_learns_within_half_a_second_at_1_khz() {
        let mut guard = Guard::default();
        (0..500).for_each(|_| guard.observe(10_000));
        assert!(guard.ns() < 20_000, "{guard:?}");
    }

    #[test]
    fn a_fixed_guard_stays_and_no_guard_is_shorter_than_a_wake_up() {
        let mut fixed = Guard::fixed(30_000);
        (0..1_000).for_each(|_| fixed.observe(0));
        assert_eq!(fixed.ns(), 30_000);
        let mut guard = Guard::default();
        (0..100_000).for_each(|_| guard.observe(0));
        assert_eq!(guard.ns(), LEAST_NS);
    }

    #[test]
    fn a_packet_wakes_before_the_deadline_and_silence_falls_back_to_the_timer() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        for deadline_ns in [now_ns() + 1_000, 0, i64::MIN] {
            assert_eq!(wait_readable(reader.as_fd(), deadline_ns).unwrap(), Paced::Timer);
        }
        writer.write_all(b"x").unwrap();
        assert_eq!(wait_readable(reader.as_fd(), now_ns() + 60_000_000_000).unwrap(), Paced::Packet);
    }
}
