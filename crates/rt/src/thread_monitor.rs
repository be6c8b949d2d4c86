//! Who had the CPU: for each tick, what kept the thread from it when it wanted it.
//!
//! Two intervals of a tick are watched. From the time it waited for until it woke, the thread was `late_ns` late; from
//! waking to the end of the tick it used the CPU less than the clock advanced, by `away_ns`. The kernel's counters of
//! the thread, read at the end and after a late wake, divide both: see [`Disturbance::shares`].
//!
//! Limits: steal within a tick shows only where the guest kernel accounts it (KVM and Xen with
//! `CONFIG_PARAVIRT_TIME_ACCOUNTING`); interrupt handlers count as the thread's own time unless the kernel
//! has `CONFIG_IRQ_TIME_ACCOUNTING`; steal between queueing and running counts as preempted. A process stopped by a
//! signal looks like one that waits for a lock.

use crate::clock::thread_cpu_ns;
use crate::sys::{thread_use, with_absent_pages};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// From this much on a tick counts as disturbed; below it lie the usual wake-up latencies.
pub const DISTURBED_NS: i64 = 50_000;

/// From this much lateness on the counters are read at waking, too. Before that nothing was lost that had to be explained, and
/// every tick would begin two microseconds later.
const LATE_NS: i64 = 20_000;

/// What a page fault served from memory is taken to cost where it cannot be measured: the entry to the kernel and back,
/// and clearing the page.
pub const MINOR_FAULT_NS: i64 = 500;

/// Watches one thread; belongs to the thread that made it.
///
/// # Realtime contract
/// No allocation. [`ThreadMonitor::done`], and [`ThreadMonitor::woke`] after a late wake, make two system calls for the thread's counters and one
/// to read a file of the kernel's: some two microseconds (`cargo xtask bench attribution`).
pub struct ThreadMonitor {
    schedstat: Option<File>,
    woke_ns: i64,
    late_ns: i64,
    previous_ns: i64,
    cpu_ns: i64,
    fault_ns: i64,
    before: Counts,
    /// At waking, if that was late.
    woken: Option<Counts>,
    _on_its_thread: std::marker::PhantomData<*const ()>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    queued_ns: i64,
    minor_faults: i64,
    major_faults: i64,
    voluntary: i64,
    involuntary: i64,
}

impl ThreadMonitor {
    /// Begins to watch the calling thread. Call it on the thread, after [`crate::Setup::apply`]. Touches some fresh memory to
    /// learn what a page fault costs here.
    #[must_use]
    pub fn new() -> ThreadMonitor {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut monitor = ThreadMonitor {
            schedstat,
            woke_ns: 0,
            late_ns: 0,
            previous_ns: 0,
            cpu_ns: thread_cpu_ns(),
            fault_ns: minor_fault_ns(),
            before: Counts::default(),
            woken: None,
            _on_its_thread: std::marker::PhantomData,
        };
        monitor.before = monitor.counts();
        monitor
    }

    /// To be called right after waking, with the time, how late that was, and how much of that had passed when the
    /// thread began to wait (because the tick before was not over).
    #[inline]
    pub fn woke(&mut self, now_ns: i64, late_ns: i64, previous_ns: i64) {
        (self.woke_ns, self.late_ns) = (now_ns, late_ns.max(0));
        self.previous_ns = previous_ns.clamp(0, self.late_ns);
        self.woken = (self.late_ns >= LATE_NS).then(|| self.counts());
        self.cpu_ns = thread_cpu_ns();
    }

    /// CPU time used since waking. One system call.
    #[inline]
    #[must_use]
    pub fn used_ns(&self) -> i64 {
        thread_cpu_ns() - self.cpu_ns
    }

    /// To be called at the end of the tick, before waiting for the next, with what the thread waited for on purpose;
    /// gives what disturbed the tick.
    #[inline]
    pub fn done(&mut self, now_ns: i64, sleeps: Sleeps) -> Disturbance {
        let cpu_ns = self.used_ns();
        let counts = self.counts();
        let before = std::mem::replace(&mut self.before, counts);
        // Without a look at waking everything was after it, except the wait itself.
        let (woken, waits) = match self.woken {
            Some(woken) => (woken, sleeps.within),
            None => (before, sleeps.before + sleeps.within),
        };
        let count = |now: i64, then: i64| u32::try_from(now - then).unwrap_or(0);
        Disturbance {
            late_ns: self.late_ns,
            previous_ns: self.previous_ns,
            cpu_ns,
            away_ns: (now_ns - self.woke_ns - cpu_ns - sleeps.ns).max(0),
            queued_before_ns: woken.queued_ns - before.queued_ns,
            queued_ns: counts.queued_ns - woken.queued_ns,
            blocked_before: count(woken.voluntary, before.voluntary).saturating_sub(sleeps.before),
            blocked: count(counts.voluntary, woken.voluntary).saturating_sub(waits),
            involuntary: count(counts.involuntary, before.involuntary),
            minor_faults: count(counts.minor_faults, woken.minor_faults),
            faults_ns: (counts.minor_faults - woken.minor_faults) * self.fault_ns,
            major_faults: count(counts.major_faults, before.major_faults),
        }
    }

    fn counts(&self) -> Counts {
        let usage = thread_use();
        Counts {
            queued_ns: self.schedstat.as_ref().and_then(run_delay).unwrap_or(self.before.queued_ns),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            voluntary: usage.voluntary_switches,
            involuntary: usage.involuntary_switches,
        }
    }
}

impl Default for ThreadMonitor {
    fn default() -> ThreadMonitor {
        ThreadMonitor::new()
    }
}

/// What a thread waited for on purpose since the end of the tick before: each wait may give the CPU up once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sleeps {
    /// Waits before the tick: for its start.
    pub before: u32,
    /// Waits within the tick: for replies.
    pub within: u32,
    /// How long those within the tick lasted.
    pub ns: i64,
}

impl Sleeps {
    /// One wait, for the start of the tick.
    pub const START: Sleeps = Sleeps { before: 1, within: 0, ns: 0 };
}

/// What a page fault served from memory costs on this machine: the median of some tries, each of pages that are not there yet.
fn minor_fault_ns() -> i64 {
    const PAGES: usize = 48;
    let page = rustix::param::page_size();
    let touch = |absent: &mut [u8]| {
        let (faults, from_ns) = (thread_use().minor_faults, crate::now_ns());
        absent.iter_mut().step_by(page).for_each(|byte| *std::hint::black_box(byte) = 1);
        let took_ns = crate::now_ns() - from_ns;
        let faults = thread_use().minor_faults - faults;
        (faults >= PAGES as i64 / 2).then(|| took_ns / faults)
    };
    let mut tries: Vec<i64> = (0..9).filter_map(|_| with_absent_pages(PAGES, touch)?).collect();
    tries.sort_unstable();
    tries.get(tries.len() / 2).copied().unwrap_or(MINOR_FAULT_NS)
}

fn run_delay(schedstat: &File) -> Option<i64> {
    let mut buffer = [0u8; 96];
    let length = schedstat.read_at(&mut buffer, 0).ok()?;
    parse_run_delay(&buffer[..length])
}

fn parse_run_delay(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// What kept a tick from the CPU, as counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// From the time waited for to waking; never negative.
    pub late_ns: i64,
    /// Of that, what had passed before the thread began to wait: the tick before was not over.
    pub previous_ns: i64,
    /// CPU time used between waking and the end of the tick.
    pub cpu_ns: i64,
    /// Between waking and the end of the tick, time the thread neither used the CPU nor slept on purpose.
    pub away_ns: i64,
    /// Time in the run queue while other threads ran, from the end of the tick before to waking. After a wake less than
    /// 20 µs late the counters are not divided: this is 0, and all is in `queued_ns`.
    pub queued_before_ns: i64,
    /// The same from waking to the end of the tick.
    pub queued_ns: i64,
    /// Times the thread gave the CPU up (voluntary switches) from the end of the tick before to waking, beyond its wait
    /// for the start. Divided as `queued_before_ns`.
    pub blocked_before: u32,
    /// The same from waking to the end of the tick, beyond its waits for replies.
    pub blocked: u32,
    /// Times another thread was put in its place, since the end of the tick before.
    pub involuntary: u32,
    /// Page faults served from memory, from waking to the end of the tick. Divided as `queued_before_ns`.
    pub minor_faults: u32,
    /// What those took, about: the kernel counts but does not time them. CPU time of the thread, and so no time lost to
    /// others.
    pub faults_ns: i64,
    /// Page faults that read from disk, since the end of the tick before.
    pub major_faults: u32,
}

/// The time a tick lost, by what took it. Of the lateness and of the time away, what the run queue accounts for is
/// `preempted`; of the rest, everything is `blocked` if the thread gave the CPU up by itself (`page_fault` if it read a
/// page from disk meanwhile), and `unaccounted` if not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// The tick before was not over.
    pub previous_tick: i64,
    /// Other threads had the CPU.
    pub preempted: i64,
    /// The thread waited by itself: for a lock, a file, a sleep; or it was stopped.
    pub blocked: i64,
    /// It waited for a page from disk.
    pub page_fault: i64,
    /// Unaccounted for by the kernel: hypervisor, firmware (SMI), interrupts off, timer slack, idle state.
    pub unaccounted: i64,
}

impl Shares {
    /// All together.
    #[inline]
    #[must_use]
    pub fn sum(&self) -> i64 {
        self.previous_tick + self.preempted + self.blocked + self.page_fault + self.unaccounted
    }

    /// The largest and how much it is; of equal ones the first in the order of the fields.
    #[inline]
    #[must_use]
    pub fn largest(&self) -> (Cause, i64) {
        let shares = [
            (Cause::Unaccounted, self.unaccounted),
            (Cause::PageFault, self.page_fault),
            (Cause::Blocked, self.blocked),
            (Cause::Preempted, self.preempted),
            (Cause::PreviousTick, self.previous_tick),
        ];
        shares.into_iter().max_by_key(|(_, ns)| *ns).unwrap_or((Cause::Unaccounted, 0))
    }

    /// Adds those of another tick.
    #[inline]
    pub fn add(&mut self, other: &Shares) {
        self.previous_tick += other.previous_tick;
        self.preempted += other.preempted;
        self.blocked += other.blocked;
        self.page_fault += other.page_fault;
        self.unaccounted += other.unaccounted;
    }
}

impl Disturbance {
    /// Divides the lateness and the time away by what took them.
    #[inline]
    #[must_use]
    pub fn shares(&self) -> Shares {
        let late_ns = (self.late_ns - self.previous_ns).max(0);
        let (queued_late, rest_late) = split(late_ns, self.queued_before_ns);
        let (queued_away, rest_away) = split(self.away_ns, self.queued_ns);
        let by_itself = if self.blocked_before > 0 { rest_late } else { 0 }
            + if self.blocked > 0 { rest_away } else { 0 };
        let from_disk = self.major_faults > 0;
        Shares {
            previous_tick: self.previous_ns,
            preempted: queued_late + queued_away,
            blocked: if from_disk { 0 } else { by_itself },
            page_fault: if from_disk { by_itself } else { 0 },
            unaccounted: rest_late + rest_away - by_itself,
        }
    }

    /// Most of the time that the thread gave up by itself passed while it did nothing but wait for the tick: it was stopped from
    /// outside, by a signal, a debugger or the freezer of its control group. Nothing of its own stops it there.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        let (_, late_ns) = split((self.late_ns - self.previous_ns).max(0), self.queued_before_ns);
        self.blocked_before > 0 && self.major_faults == 0 && 2 * late_ns > self.shares().blocked
    }

    /// What took most of the time the tick lost, or `None` if nothing took [`DISTURBED_NS`] or more.
    #[inline]
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        // In nearly every tick all shares together are less.
        if self.late_ns.max(self.previous_ns) + self.away_ns < DISTURBED_NS {
            return None;
        }
        let (cause, ns) = self.shares().largest();
        (ns >= DISTURBED_NS).then_some(cause)
    }

    /// Why a tick was late that took `excess_ns` longer than usual, of which `own` is the name of what the thread did
    /// while it had the CPU. Names the largest part; faults served from memory are a part of the thread's own.
    #[inline]
    #[must_use]
    pub fn late_cause(&self, excess_ns: i64, own: Cause) -> Cause {
        let mut shares = self.shares();
        let own_ns = (excess_ns - shares.sum()).max(0);
        let faults_ns = self.faults_ns.clamp(0, own_ns);
        shares.page_fault += faults_ns;
        let (cause, ns) = shares.largest();
        if own_ns - faults_ns >= ns { own } else { cause }
    }
}

/// As much of the first as the second accounts for, and the rest.
#[inline]
fn split(ns: i64, accounted_ns: i64) -> (i64, i64) {
    let accounted_ns = accounted_ns.clamp(0, ns);
    (accounted_ns, ns - accounted_ns)
}

/// Why a tick was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The tick before was not over.
    PreviousTick,
    /// Other threads had the CPU.
    Preempted,
    /// The thread waited by itself: for a lock, a file, a sleep; or it was stopped.
    Blocked,
    /// It waited for a page from disk, or for many from memory.
    #[serde(alias = "fault")]
    PageFault,
    /// Unaccounted for by the kernel. Results before 2026-11-22 have `stolen`, which there is the whole remainder:
    /// also what the tick before took, what the thread waited for by itself, and faults.
    #[serde(alias = "stolen")]
    Unaccounted,
    /// The thread had the CPU and was busy in the controller.
    Controller,
    /// It waited for replies.
    Bus,
    /// The thread had the CPU and was busy with something else of its own.
    Compute,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 8] = [
        Cause::PreviousTick,
        Cause::Preempted,
        Cause::Blocked,
        Cause::PageFault,
        Cause::Unaccounted,
        Cause::Controller,
        Cause::Bus,
        Cause::Compute,
    ];

    /// The name a person reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::PreviousTick => "previous tick overran",
            Cause::Preempted => "preempted",
            Cause::Blocked => "blocked",
            Cause::PageFault => "page fault",
            Cause::Unaccounted => "unaccounted",
            Cause::Controller => "controller",
            Cause::Bus => "bus",
            Cause::Compute => "loop compute",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(late_ns: i64) -> Disturbance {
        Disturbance { late_ns, ..Disturbance::default() }
    }

    fn away(away_ns: i64) -> Disturbance {
        Disturbance { away_ns, ..Disturbance::default() }
    }

    #[test]
    fn a_usual_wake_is_no_disturbance() {
        assert_eq!(Disturbance { queued_before_ns: 3_000, ..late(12_000) }.cause(), None);
        let preempted = Disturbance { queued_before_ns: 61_000, ..late(62_000) };
        assert_eq!(preempted.cause(), Some(Cause::Preempted));
    }

    #[test]
    fn a_late_timer_with_an_empty_queue_is_unaccounted() {
        let tick = Disturbance { queued_before_ns: 2_000, ..late(830_000) };
        assert_eq!((tick.cause(), tick.shares().unaccounted), (Some(Cause::Unaccounted), 828_000));
    }

    #[test]
    fn what_the_tick_before_took_is_neither_stolen_nor_preempted() {
        let tick = Disturbance { previous_ns: 800_000, queued_before_ns: 700_000, ..late(830_000) };
        let shares = Shares { previous_tick: 800_000, preempted: 30_000, ..Shares::default() };
        assert_eq!((tick.cause(), tick.shares()), (Some(Cause::PreviousTick), shares));
    }

    #[test]
    fn time_away_with_a_voluntary_switch_is_blocked() {
        let tick = Disturbance { queued_ns: 100_000, blocked: 1, ..away(900_000) };
        let shares = Shares { preempted: 100_000, blocked: 800_000, ..Shares::default() };
        assert_eq!((tick.cause(), tick.shares()), (Some(Cause::Blocked), shares));
        let stopped = Disturbance { blocked_before: 1, ..late(7_000_000) };
        assert_eq!(stopped.cause(), Some(Cause::Blocked));
    }

    #[test]
    fn a_switch_in_one_interval_says_nothing_about_the_other() {
        let tick = Disturbance { away_ns: 200_000, blocked_before: 1, ..late(100_000) };
        assert_eq!(tick.shares(), Shares { blocked: 100_000, unaccounted: 200_000, ..Shares::default() });
        let tick = Disturbance { away_ns: 200_000, queued_before_ns: 900_000, ..Disturbance::default() };
        assert_eq!(tick.shares(), Shares { unaccounted: 200_000, ..Shares::default() });
    }

    #[test]
    fn being_away_counts_and_standing_in_the_queue_is_preempted() {
        assert_eq!(Disturbance { queued_ns: 1_000, ..away(300_000) }.cause(), Some(Cause::Unaccounted));
        assert_eq!(Disturbance { queued_ns: 299_000, ..away(300_000) }.cause(), Some(Cause::Preempted));
    }

    #[test]
    fn a_page_from_disk_is_what_the_thread_waited_for() {
        let tick = Disturbance { major_faults: 1, blocked: 1, ..away(900_000) };
        assert_eq!(tick.cause(), Some(Cause::PageFault));
        assert_eq!(Disturbance { queued_ns: 900_000, ..tick }.cause(), Some(Cause::Preempted));
    }

    #[test]
    fn a_late_tick_is_named_for_the_largest_part_of_its_excess() {
        // At a period of 0.1 ms a wake 12 µs late makes a tick late; that is no work of its own.
        assert_eq!(late(12_000).late_cause(12_000, Cause::Compute), Cause::Unaccounted);
        assert_eq!(late(12_000).late_cause(30_000, Cause::Compute), Cause::Compute);
        let faults = Disturbance { minor_faults: 400, faults_ns: 200_000, ..late(12_000) };
        assert_eq!(faults.late_cause(260_000, Cause::Controller), Cause::PageFault);
        assert_eq!(faults.late_cause(900_000, Cause::Controller), Cause::Controller);
        assert_eq!(away(300_000).late_cause(310_000, Cause::Bus), Cause::Unaccounted);
    }

    #[test]
    fn shares_add_up_to_the_time_lost() {
        for bits in 0..64 {
            let bit = |n: u32| i64::from(bits >> n & 1);
            let tick = Disturbance {
                late_ns: 500,
                previous_ns: 200 * bit(0),
                away_ns: 300 * bit(1),
                queued_before_ns: 400 * bit(2),
                queued_ns: 400 * bit(3),
                blocked_before: bit(4) as u32,
                blocked: bit(4) as u32,
                major_faults: bit(5) as u32,
                ..Disturbance::default()
            };
            assert_eq!(tick.shares().sum(), tick.late_ns + tick.away_ns, "{tick:?}");
            for factor in [1, 50, 99, 100, 101, 200, 300] {
                let [late_ns, previous_ns] = [tick.late_ns, tick.previous_ns].map(|ns| factor * ns);
                let [away_ns, queued_ns] = [tick.away_ns, tick.queued_ns].map(|ns| factor * ns);
                let tick = Disturbance { late_ns, previous_ns, away_ns, queued_ns, ..tick };
                let (cause, ns) = tick.shares().largest();
                assert_eq!(tick.cause(), (ns >= DISTURBED_NS).then_some(cause), "{tick:?}");
            }
        }
    }

    #[test]
    fn what_a_page_fault_costs_is_measured_or_taken() {
        let ns = minor_fault_ns();
        assert!((1..1_000_000).contains(&ns), "{ns}");
    }

    #[test]
    fn pages_that_are_not_there_fault_also_where_memory_is_locked() {
        let faults = |absent: &mut [u8]| {
            let before = thread_use().minor_faults;
            let page = rustix::param::page_size();
            assert!(absent.iter().step_by(page).all(|byte| std::hint::black_box(*byte) == 0));
            absent.iter_mut().step_by(page).for_each(|byte| *std::hint::black_box(byte) = 1);
            thread_use().minor_faults - before
        };
        // Where it is not allowed to lock, this shows no more than without.
        let _ = rustix::mm::mlockall(rustix::mm::MlockAllFlags::FUTURE);
        let counted = with_absent_pages(16, faults);
        let _ = rustix::mm::munlockall();
        assert!(counted.is_some_and(|counted| counted >= 16), "{counted:?}");
    }

    #[test]
    fn schedstat_as_the_kernel_writes_it() {
        assert_eq!(parse_run_delay(b"8123 4567 12\n"), Some(4567));
        for bad in [&b""[..], b"1", b"1 x 2", b"\xff\xff 1"] {
            assert_eq!(parse_run_delay(bad), None);
        }
    }

    #[test]
    fn counts_of_a_quiet_tick_are_not_negative() {
        let mut monitor = ThreadMonitor::new();
        let woke_ns = crate::now_ns();
        monitor.woke(woke_ns, -3, 5);
        let tick = monitor.done(crate::now_ns(), Sleeps::START);
        assert!(tick.late_ns == 0 && tick.previous_ns == 0 && tick.away_ns >= 0);
        assert!(tick.queued_ns >= 0 && tick.queued_before_ns >= 0);
    }

    #[test]
    fn a_sleep_within_the_tick_is_a_voluntary_switch_unless_it_was_on_purpose() {
        let mut monitor = ThreadMonitor::new();
        let mut tick = |sleeps: Sleeps| {
            // The wait for the start.
            std::thread::sleep(std::time::Duration::from_millis(1));
            monitor.woke(crate::now_ns(), 0, 0);
            std::thread::sleep(std::time::Duration::from_millis(2));
            monitor.done(crate::now_ns(), sleeps)
        };
        let blocked = tick(Sleeps::START);
        assert!(blocked.blocked >= 1 && blocked.away_ns >= 1_000_000, "{blocked:?}");
        let on_purpose = tick(Sleeps { within: 1, ns: i64::from(u32::MAX), ..Sleeps::START });
        assert_eq!((on_purpose.blocked, on_purpose.away_ns), (0, 0));
    }

    #[test]
    fn causes_are_read_by_their_old_names() {
        let read = |name: &str| serde_json::from_str::<Cause>(name).unwrap();
        assert_eq!(read("\"stolen\""), Cause::Unaccounted);
        assert_eq!(read("\"fault\""), Cause::PageFault);
        assert_eq!(serde_json::to_string(&Cause::PreviousTick).unwrap(), "\"previous_tick\"");
    }
}
