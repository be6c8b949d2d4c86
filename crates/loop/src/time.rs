//! Where the loop's time comes from: the machine's clock, or one that tests move.

use arrayvec::ArrayVec;
use khz_link::Link;
use khz_rt::{Disturbance, Sleeps, ThreadMonitor, Waiter, now_ns};
use khz_settings::words;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Links that [`Receive::Poll`] can wait for at once.
const MOST_LINKS: usize = 16;

/// What a last look at clock and links takes at most, with frames to decode and an interrupt of the kernel, ns: so long
/// before the bus deadline replies no longer count in real time.
pub const LAST_LOOK_NS: i64 = 20_000;

/// What waking up takes; so long before something is due the loop does not sleep.
const WAKING_NS: i64 = 80_000;

/// The loop's source of time. Everything below the loop gets the time as an argument; only this reads a clock.
pub trait Time {
    /// The present, ns.
    fn now_ns(&mut self) -> i64;

    /// Waits for the start of a tick, as precisely as it can.
    fn wait_for_tick(&mut self, at_ns: i64);

    /// Lets time pass within the bus cycle until `until_ns` or until a link may have something, whichever is
    /// sooner. May return early.
    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]);

    /// As [`Time::pass`], between two ticks: time there is long, and a CPU is not to be used up by waiting.
    fn rest(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.pass(until_ns, links);
    }

    /// How long before the bus deadline the bus cycle stops, so that it has ended by then. In virtual time a look at
    /// the links takes none.
    fn reserve_ns(&self) -> i64 {
        0
    }

    /// Called right after the wait for a tick, so that the tick's disturbances can be watched: when it woke, how late that
    /// was, and how much of that had passed before the wait began.
    fn woke(&mut self, now_ns: i64, late_ns: i64, previous_ns: i64) {
        let _ = (now_ns, late_ns, previous_ns);
    }

    /// Called at the end of the bus cycle, so that time away within it can be distinguished.
    fn collected(&mut self) {}

    /// Time the thread was kept from its CPU between [`Time::woke`] and [`Time::collected`], other than by itself. None in
    /// virtual time.
    fn away_in_cycle_ns(&self) -> i64 {
        0
    }

    /// What kept the thread from its CPU since [`Time::woke`]. Nothing does in virtual time.
    fn disturbance(&mut self) -> Disturbance {
        Disturbance::default()
    }
}

words! {
    /// How the loop waits for replies within the bus cycle.
    Receive {
        /// Poll all the time: the lowest latency, but a whole CPU during the cycle.
        Spin = "spin",
        /// Sleep until the kernel has data: less CPU time, but tens of microseconds later.
        Poll = "poll",
    }
}

/// The machine's clock, `CLOCK_MONOTONIC`.
pub struct RealTime {
    waiter: Waiter,
    receive: Receive,
    monitor: ThreadMonitor,
    /// Longest time between two looks at the clock while waiting for replies: what took the CPU away then. Needed
    /// because not every guest kernel accounts what its hypervisor steals.
    gap_ns: i64,
    sleeps: Sleeps,
    in_tick: bool,
    woke_ns: i64,
    away_in_cycle_ns: i64,
}

impl RealTime {
    /// Waits for ticks with `waiter` and for replies by `receive`.
    ///
    /// Belongs to the thread that makes it, because it watches what that thread gets of its CPU.
    pub fn new(waiter: Waiter, receive: Receive) -> Self {
        Self {
            waiter,
            receive,
            monitor: ThreadMonitor::new(),
            gap_ns: 0,
            sleeps: Sleeps::default(),
            in_tick: false,
            woke_ns: 0,
            away_in_cycle_ns: 0,
        }
    }

    /// Spins until `until_ns`; remembers the longest time between two looks at the clock.
    fn spin(&mut self, until_ns: i64) {
        let mut last_ns = now_ns();
        while last_ns < until_ns {
            std::hint::spin_loop();
            let next_ns = now_ns();
            self.gap_ns = self.gap_ns.max(next_ns - last_ns);
            last_ns = next_ns;
        }
    }

    fn poll(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        let mut fds = ArrayVec::<PollFd<'_>, MOST_LINKS>::new();
        for fd in links.iter().filter_map(|link| link.fd()).take(MOST_LINKS) {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let from_ns = now_ns();
        let timeout_ns = until_ns.saturating_sub(from_ns).max(0);
        let timeout = Timespec { tv_sec: timeout_ns / 1_000_000_000, tv_nsec: timeout_ns % 1_000_000_000 };
        // Whatever poll returns, the links are asked next; an error can only make that sooner.
        let _ = poll(&mut fds, Some(&timeout));
        if self.in_tick {
            self.sleeps.within += 1;
            self.sleeps.ns += on_purpose_ns(now_ns() - from_ns, timeout_ns);
        } else {
            self.sleeps.before += 1;
        }
    }
}

/// Of a wait that was to end after `timeout_ns` at the latest: what is longer is no wait for replies, but a stall.
fn on_purpose_ns(waited_ns: i64, timeout_ns: i64) -> i64 {
    waited_ns.min(timeout_ns + WAKING_NS)
}

impl Time for RealTime {
    fn now_ns(&mut self) -> i64 {
        now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.waiter.wait_until(at_ns);
        self.sleeps.before += u32::from(self.waiter.slept());
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        let kernel_fed = links.iter().any(|link| link.fd().is_some());
        match self.receive {
            _ if !kernel_fed => self.spin(until_ns),
            Receive::Spin => std::hint::spin_loop(),
            Receive::Poll if until_ns.saturating_sub(now_ns()) > WAKING_NS => {
                self.poll(until_ns - WAKING_NS, links);
            }
            Receive::Poll => std::hint::spin_loop(),
        }
    }

    fn reserve_ns(&self) -> i64 {
        LAST_LOOK_NS
    }

    fn rest(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        if links.iter().any(|link| link.fd().is_some()) {
            self.poll(until_ns, links);
        } else {
            self.wait_for_tick(until_ns);
        }
    }

    fn woke(&mut self, now_ns: i64, late_ns: i64, previous_ns: i64) {
        (self.gap_ns, self.in_tick, self.woke_ns) = (0, true, now_ns);
        self.monitor.woke(now_ns, late_ns, previous_ns);
    }

    fn collected(&mut self) {
        // A sleep on purpose, waiting for replies, is no time taken.
        let away_ns = now_ns() - self.woke_ns - self.sleeps.ns - self.monitor.used_ns();
        self.away_in_cycle_ns = away_ns.max(self.gap_ns).max(0);
    }

    fn away_in_cycle_ns(&self) -> i64 {
        self.away_in_cycle_ns
    }

    fn disturbance(&mut self) -> Disturbance {
        let mut disturbance = self.monitor.done(now_ns(), self.sleeps);
        disturbance.away_ns = disturbance.away_ns.max(self.gap_ns);
        (self.sleeps, self.in_tick) = (Sleeps::default(), false);
        disturbance
    }
}

/// Virtual time: moves only when it is waited for, so a run of minutes takes milliseconds and repeats exactly.
/// Clones share it, so that others can hold the loop up.
#[derive(Clone, Debug, Default)]
pub struct VirtualTime {
    now_ns: Arc<AtomicI64>,
    freezes: Arc<[Freeze]>,
}

/// A stretch of virtual time in which the loop does not get the CPU: a wait that would end within it ends with it. One
/// that begins at a planned start is a late wake of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// When it begins.
    pub at_ns: i64,
    /// How long it lasts.
    pub for_ns: i64,
}

impl VirtualTime {
    /// Time passes in steps no shorter than this.
    const LEAST_STEP_NS: i64 = 500;

    /// Starts at `now_ns`.
    pub fn new(now_ns: i64) -> Self {
        Self { now_ns: Arc::new(AtomicI64::new(now_ns)), freezes: Arc::default() }
    }

    /// The same time, in which the loop is kept from its CPU as written. The stretches are in order and do not touch.
    #[must_use]
    pub fn frozen(self, freezes: impl IntoIterator<Item = Freeze>) -> Self {
        Self { freezes: freezes.into_iter().collect(), ..self }
    }

    /// Lets time pass, as something that takes long does.
    pub fn elapse(&self, for_ns: i64) {
        self.move_to(self.now_ns.load(Ordering::Relaxed) + for_ns);
    }

    fn move_to(&self, until_ns: i64) {
        let from_ns = self.now_ns.load(Ordering::Relaxed);
        // The last to have begun by then: who wakes in it wakes at its end.
        let begun = self.freezes.partition_point(|freeze| freeze.at_ns <= until_ns);
        let frozen = begun.checked_sub(1).map(|last| self.freezes[last]);
        let thawed_ns = frozen.map_or(until_ns, |freeze| freeze.at_ns + freeze.for_ns);
        let passed = frozen.is_some_and(|freeze| from_ns > freeze.at_ns);
        self.now_ns.store(if passed { until_ns } else { until_ns.max(thawed_ns) }, Ordering::Relaxed);
    }
}

impl Time for VirtualTime {
    fn now_ns(&mut self) -> i64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        if at_ns > self.now_ns() {
            self.move_to(at_ns);
        }
    }

    fn pass(&mut self, until_ns: i64, _: &[Box<dyn Link>]) {
        // A link's next event is a lower bound and may be past; time goes on all the same.
        let soonest_ns = self.now_ns() + Self::LEAST_STEP_NS;
        self.move_to(until_ns.max(soonest_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_link::LinkError;
    use khz_link::rs485::Rs485;
    use khz_link::serial::Line;
    use khz_rt::Wake;
    use std::os::unix::net::UnixStream;

    /// A silent line that has to be asked again and again.
    struct Polled;

    impl Line for Polled {
        fn read(&mut self, _: &mut [u8], _: i64) -> Result<usize, LinkError> {
            Ok(0)
        }

        fn write(&mut self, bytes: &[u8], _: i64) -> Result<usize, LinkError> {
            Ok(bytes.len())
        }

        fn is_polled(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_frozen_loop_wakes_when_the_freeze_ends() {
        let freezes = [Freeze { at_ns: 1_000, for_ns: 300 }, Freeze { at_ns: 5_000, for_ns: 2_000 }];
        let mut time = VirtualTime::new(0).frozen(freezes);
        let mut wait = |at_ns| {
            time.wait_for_tick(at_ns);
            time.now_ns()
        };
        assert_eq!(
            [900, 1_100, 1_200, 1_400, 6_999, 7_500].map(&mut wait),
            [900, 1_300, 1_300, 1_400, 7_000, 7_500]
        );
        time.elapse(10);
        assert_eq!(time.now_ns(), 7_510);
    }

    /// A loop that was stopped for 50 ms while it waited for replies was late because "replies took too long".
    #[test]
    fn a_stall_while_it_waits_for_replies_is_no_wait_for_replies() {
        let (prompt_ns, late_ns) = (300_000, 1_000_000 + WAKING_NS);
        assert_eq!([prompt_ns, late_ns].map(|ns| on_purpose_ns(ns, 1_000_000)), [prompt_ns, late_ns]);
        assert_eq!(on_purpose_ns(50_000_000, 1_000_000), late_ns);
    }

    #[test]
    fn the_loop_does_not_sleep_while_a_line_must_be_polled() {
        let (silent, _end) = UnixStream::pair().unwrap();
        let polled = || -> Box<dyn Link> { Box::new(Rs485::over(Polled)) };
        let fed_by_kernel: Box<dyn Link> = Box::new(Rs485::from_fd(silent.into()));
        for links in [vec![polled()], vec![fed_by_kernel, polled()]] {
            let next_ns = links.iter().filter_map(|link| link.next_event_ns()).min().unwrap();
            for receive in [Receive::Spin, Receive::Poll] {
                let mut time = RealTime::new(Waiter::new(Wake::Hybrid).unwrap(), receive);
                // Each would wait for ever, as nothing comes.
                for until_ns in [next_ns, i64::MIN] {
                    time.pass(until_ns, &links);
                    time.rest(until_ns, &links);
                }
            }
        }
    }
}
