//! Late ticks, and what was different about them.
//!
//! The loop hands each late tick to a [`LateLog`] with what [`crate::ThreadMonitor`] and [`crate::Profile`] know at
//! once. An [`Observer`] on an ordinary thread keeps the machine's slow counters (interrupts per CPU, stolen time)
//! in short windows, and the report joins the two by time.

use crate::histogram::HIGHEST_NS;
use crate::proc::Root;
use crate::thread_monitor::{Cause, Disturbance, Shares};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// One late tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateTick {
    /// The tick's number.
    pub number: u64,
    /// When it woke, on `CLOCK_MONOTONIC`, as the ends of [`Window`]s are.
    pub at_ns: i64,
    /// From the time it waited for to its end.
    pub response_ns: i64,
    /// What that usually is.
    pub usual_ns: i64,
    /// The part most over its usual time, as an index the caller understands; `None`: the waking.
    pub part: Option<usize>,
    /// What to call it if the thread had the CPU: [`Cause::Controller`], [`Cause::Bus`] or [`Cause::Compute`].
    pub own: Cause,
    /// Who had the CPU meanwhile.
    pub disturbance: Disturbance,
}

impl LateTick {
    /// Why it was late: see [`Disturbance::late_cause`].
    #[inline]
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.disturbance.late_cause(self.response_ns - self.usual_ns, self.own)
    }
}

/// Keeps the worst late ticks in a fixed number of places, and counts all.
///
/// Realtime: allocates only in [`LateLog::new`]; [`LateLog::record`] compares with the places when a tick is late.
#[derive(Clone, Debug)]
pub struct LateLog {
    worst: Vec<LateTick>,
    threshold_ns: i64,
    causes: Causes,
}

/// How many late ticks had which cause. In results before 2026-11-22 `unaccounted` is called `stolen` and is the whole
/// remainder, `page_fault` is `fault`, and `compute` is `own` and includes controller, bus and short wake latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Causes {
    /// All late ticks.
    pub late: u64,
    /// The tick before was not over.
    pub previous_tick: u64,
    /// Another thread had the CPU.
    pub preempted: u64,
    /// The thread waited by itself: for a lock, a file, a sleep; or it was stopped.
    pub blocked: u64,
    /// A page came from disk, or many from memory.
    #[serde(alias = "fault")]
    pub page_fault: u64,
    /// Unaccounted for by the kernel: hypervisor, firmware, interrupts off, timer slack, idle state.
    #[serde(alias = "stolen")]
    pub unaccounted: u64,
    /// The controller had the CPU.
    pub controller: u64,
    /// It waited for replies.
    pub bus: u64,
    /// It had the CPU for something else of its own.
    #[serde(alias = "own")]
    pub compute: u64,
}

impl Causes {
    /// Counts a late tick.
    #[inline]
    pub fn count(&mut self, cause: Cause) {
        self.late += 1;
        *match cause {
            Cause::PreviousTick => &mut self.previous_tick,
            Cause::Preempted => &mut self.preempted,
            Cause::Blocked => &mut self.blocked,
            Cause::PageFault => &mut self.page_fault,
            Cause::Unaccounted => &mut self.unaccounted,
            Cause::Controller => &mut self.controller,
            Cause::Bus => &mut self.bus,
            Cause::Compute => &mut self.compute,
        } += 1;
    }

    /// These and others together.
    #[must_use]
    pub fn and(self, other: &Causes) -> Causes {
        Causes {
            late: self.late + other.late,
            previous_tick: self.previous_tick + other.previous_tick,
            preempted: self.preempted + other.preempted,
            blocked: self.blocked + other.blocked,
            page_fault: self.page_fault + other.page_fault,
            unaccounted: self.unaccounted + other.unaccounted,
            controller: self.controller + other.controller,
            bus: self.bus + other.bus,
            compute: self.compute + other.compute,
        }
    }

    /// How many had this cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        match cause {
            Cause::PreviousTick => self.previous_tick,
            Cause::Preempted => self.preempted,
            Cause::Blocked => self.blocked,
            Cause::PageFault => self.page_fault,
            Cause::Unaccounted => self.unaccounted,
            Cause::Controller => self.controller,
            Cause::Bus => self.bus,
            Cause::Compute => self.compute,
        }
    }
}

/// The ticks of a run that lost 50 µs ([`crate::DISTURBED_NS`]) or more to one cause, by that cause; and the time they
/// lost. Counted as it goes; no memory grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Such ticks.
    pub ticks: u64,
    /// By the cause that took most.
    pub causes: LostTicks,
    /// The time all of them lost, by what took it.
    pub time_ns: Shares,
}

/// How many ticks lost most of their time to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostTicks {
    /// The tick before was not over.
    pub previous_tick: u64,
    /// Other threads had the CPU.
    pub preempted: u64,
    /// The thread waited by itself, or was stopped.
    pub blocked: u64,
    /// It waited for a page from disk.
    pub page_fault: u64,
    /// Unaccounted for by the kernel.
    pub unaccounted: u64,
}

impl Lost {
    /// Takes in a tick.
    #[inline]
    pub fn record(&mut self, disturbance: &Disturbance) {
        let Some(cause) = disturbance.cause() else { return };
        self.ticks += 1;
        self.time_ns.add(&disturbance.shares());
        let causes = &mut self.causes;
        match cause {
            Cause::PreviousTick => causes.previous_tick += 1,
            Cause::Preempted => causes.preempted += 1,
            Cause::Blocked => causes.blocked += 1,
            Cause::PageFault => causes.page_fault += 1,
            _ => causes.unaccounted += 1,
        }
    }

    /// Of the unaccounted time, how much the steal that the kernel counted explains: never more than that. The rest is
    /// unexplained. (The count may lack one step of 10 ms; a step that was not counted explains nothing.)
    #[must_use]
    pub fn steal_at_most_ns(&self, counted_ns: i64) -> i64 {
        self.time_ns.unaccounted.min(counted_ns.max(0))
    }
}

impl LateLog {
    /// Ticks whose response exceeds the usual by more than `threshold_ns` are late; the worst `places` are kept.
    #[must_use]
    pub fn new(threshold_ns: i64, places: usize) -> LateLog {
        LateLog { worst: Vec::with_capacity(places.max(1)), threshold_ns, causes: Causes::default() }
    }

    /// Takes in a tick; true if it was late.
    #[inline]
    pub fn record(&mut self, tick: LateTick) -> bool {
        if tick.response_ns - tick.usual_ns <= self.threshold_ns {
            return false;
        }
        self.causes.count(tick.cause());
        self.keep(tick);
        true
    }

    /// How many were late, by cause.
    #[must_use]
    pub fn causes(&self) -> Causes {
        self.causes
    }

    /// From how much over the usual response on a tick is late.
    #[must_use]
    pub fn threshold_ns(&self) -> i64 {
        self.threshold_ns
    }

    /// The worst, by time. Not for the tick: allocates.
    #[must_use]
    pub fn worst(&self) -> Vec<LateTick> {
        let mut worst = self.worst.clone();
        worst.sort_by_key(|tick| tick.number);
        worst
    }

    fn keep(&mut self, tick: LateTick) {
        if self.worst.len() < self.worst.capacity() {
            self.worst.push(tick);
        } else if let Some(least) = self.worst.iter_mut().min_by_key(|kept| kept.response_ns)
            && least.response_ns < tick.response_ns
        {
            *least = tick;
        }
    }
}

/// What the machine's slow counters did in a short stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its end on `CLOCK_MONOTONIC`.
    pub end_ns: i64,
    /// Its length.
    pub length_ns: i64,
    /// Time stolen from the CPU, in steps of the kernel's 10 ms.
    pub steal_ns: i64,
    /// Interrupts served on the CPU by name, most first, without the timer's own.
    pub interrupts: Vec<(String, u64)>,
}

/// Watches one CPU's slow counters from an ordinary thread, every [`OBSERVER_PERIOD`], keeps the windows asked for, and notices
/// when it stands still itself. Ends when dropped.
pub struct Observer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Length of the observer's windows. Reading the interrupt table takes a good part of a millisecond on a big
/// machine, so not shorter.
pub const OBSERVER_PERIOD: Duration = Duration::from_millis(100);

/// An hour; older windows give way.
const MOST_WINDOWS: usize = 36_000;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    windows: Mutex<std::collections::VecDeque<Window>>,
    stopped_ns: AtomicI64,
}

impl Observer {
    /// Begins to watch `cpu`, or none: then there are no windows. Call it before the calling thread becomes real-time or is tied to a CPU, or the
    /// observer inherits that.
    ///
    /// # Errors
    /// If no thread can be made.
    pub fn start(cpu: Option<usize>) -> std::io::Result<Observer> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("khz-observer".into()).spawn(move || observe(cpu, &theirs))?;
        Ok(Observer { shared, thread: Some(thread) })
    }

    /// Stops watching and gives the windows, oldest first; and for how long the whole process seems to have been stopped (by a
    /// signal, or frozen with its control group): this thread slept on, and wanted no CPU.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Window>, i64) {
        self.stop();
        let mut windows = self.shared.windows.lock().unwrap_or_else(PoisonError::into_inner);
        (windows.drain(..).collect(), self.shared.stopped_ns.load(Ordering::Relaxed))
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there has been reported already and loses no more than the windows.
            let _ = thread.join();
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A sleep that lasts this much longer than asked for, without the thread waiting for a CPU, is a stop.
const STOPPED_NS: i64 = 20_000_000;

fn observe(cpu: Option<usize>, shared: &Shared) {
    let root = Root::system();
    let mut before = cpu.map(|cpu| Counters::read(&root, cpu)).unwrap_or_default();
    loop {
        let stopped_ns = sleep();
        shared.stopped_ns.fetch_add(if stopped_ns > STOPPED_NS { stopped_ns } else { 0 }, Ordering::Relaxed);
        if shared.stop.load(Ordering::Relaxed) && cpu.is_none() {
            return;
        }
        let Some(cpu) = cpu else { continue };
        let now = Counters::read(&root, cpu);
        let mut windows = shared.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() == MOST_WINDOWS {
            windows.pop_front();
        }
        windows.push_back(now.since(&before));
        drop(windows);
        before = now;
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Sleeps for a window, and returns by how much longer it slept than that without waiting for a CPU.
fn sleep() -> i64 {
    let (from_ns, queued_ns) = (crate::now_ns(), queued_ns());
    std::thread::park_timeout(OBSERVER_PERIOD);
    let period_ns = OBSERVER_PERIOD.as_nanos() as i64;
    crate::now_ns() - from_ns - period_ns - (queued_ns_since(queued_ns)).max(0)
}

/// Time this thread has spent in the run queue, if the kernel reports it.
fn queued_ns() -> Option<i64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The same since then. Where the kernel does not report it, everything: nothing is called a stop.
fn queued_ns_since(then_ns: Option<i64>) -> i64 {
    queued_ns().zip(then_ns).map_or(i64::MAX / 2, |(now_ns, then_ns)| now_ns - then_ns)
}

/// The window that holds a time, if any does.
#[must_use]
pub fn window_at(windows: &[Window], at_ns: i64) -> Option<&Window> {
    let next = windows.partition_point(|window| window.end_ns < at_ns);
    windows.get(next).filter(|window| window.end_ns - window.length_ns <= at_ns)
}

#[derive(Default)]
struct Counters {
    at_ns: i64,
    steal_ns: i64,
    interrupts: Vec<(String, u64)>,
}

impl Counters {
    fn read(root: &Root, cpu: usize) -> Counters {
        Counters {
            at_ns: crate::now_ns(),
            steal_ns: crate::Usage::of(root).steal_ns.get(cpu).copied().unwrap_or(0),
            interrupts: interrupts(&root.read("/proc/interrupts").unwrap_or_default(), cpu),
        }
    }

    fn since(&self, before: &Counters) -> Window {
        let old = |name: &str| {
            before.interrupts.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
        };
        let grown =
            self.interrupts.iter().map(|(name, count)| (name.clone(), count.saturating_sub(old(name))));
        let mut interrupts: Vec<_> = grown.filter(|(_, count)| *count > 0).collect();
        interrupts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Window {
            end_ns: self.at_ns,
            length_ns: (self.at_ns - before.at_ns).min(HIGHEST_NS),
            steal_ns: self.steal_ns - before.steal_ns,
            interrupts,
        }
    }
}

/// The counts of one CPU from `/proc/interrupts`, named by number and device. The local timer is left out:
/// it is what wakes the loop.
fn interrupts(table: &str, cpu: usize) -> Vec<(String, u64)> {
    let mut lines = table.lines();
    let header = format!("CPU{cpu}");
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let Some(column) = names.iter().position(|name| *name == header) else { return Vec::new() };
    let count = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let label = fields.get(names.len()..).map(|label| label.join(" ")).unwrap_or_default();
        let name = format!("{} {label}", number.trim()).trim_end().to_owned();
        Some((name, fields.get(column)?.parse().ok()?))
    };
    lines.filter(|line| !line.trim_start().starts_with("LOC:")).filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(number: u64, response_ns: i64, disturbance: Disturbance) -> LateTick {
        let (at_ns, own) = (number as i64, Cause::Compute);
        LateTick { number, at_ns, response_ns, usual_ns: 0, part: None, own, disturbance }
    }

    #[test]
    fn keeps_the_worst_and_counts_all() {
        let mut log = LateLog::new(100, 2);
        let delayed = Disturbance { late_ns: 900_000, ..Disturbance::default() };
        for (number, response_ns) in [(0, 100), (1, 500), (2, 300), (3, 400), (4, 900_000)] {
            log.record(late(number, response_ns, if number == 4 { delayed } else { Disturbance::default() }));
        }
        assert_eq!(log.worst().iter().map(|tick| tick.number).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(log.causes(), Causes { late: 4, unaccounted: 1, compute: 3, ..Causes::default() });
    }

    #[test]
    fn late_is_what_exceeds_the_usual() {
        let mut log = LateLog::new(100, 2);
        let tick = |response_ns| LateTick { usual_ns: 1_000, ..late(0, response_ns, Disturbance::default()) };
        assert_eq!([1_100, 1_101].map(|response_ns| log.record(tick(response_ns))), [false, true]);
    }

    #[test]
    fn causes_of_old_results_are_read_with_their_old_names() {
        let old = r#"{"late":9,"stolen":4,"preempted":3,"fault":1,"own":1}"#;
        let causes: Causes = serde_json::from_str(old).unwrap();
        let expected =
            Causes { late: 9, unaccounted: 4, preempted: 3, page_fault: 1, compute: 1, ..Causes::default() };
        assert_eq!(causes, expected);
    }

    #[test]
    fn each_cause_is_counted_as_itself() {
        let mut causes = Causes::default();
        for (times, cause) in Cause::ALL.into_iter().enumerate() {
            (0..=times).for_each(|_| causes.count(cause));
        }
        assert_eq!(Cause::ALL.map(|cause| causes.of(cause)), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(causes.late, 36);
    }

    #[test]
    fn no_more_steal_is_claimed_than_the_kernel_counted() {
        let mut lost = Lost::default();
        for late_ns in [900_000, 49_000, 30_100_000] {
            lost.record(&Disturbance { late_ns, ..Disturbance::default() });
        }
        lost.record(&Disturbance { late_ns: 90_000, previous_ns: 80_000, ..Disturbance::default() });
        assert_eq!((lost.ticks, lost.causes.unaccounted, lost.causes.previous_tick), (3, 2, 1));
        assert_eq!((lost.time_ns.unaccounted, lost.time_ns.previous_tick), (31_010_000, 80_000));
        assert_eq!(
            [0, 10_000_000, 40_000_000].map(|ns| lost.steal_at_most_ns(ns)),
            [0, 10_000_000, 31_010_000]
        );
    }

    const TABLE: &str = "           CPU0       CPU1\n  1:          0         11   IO-APIC   1-edge      i8042\n \
                         27:       4000       3000   PCI-MSI 0-edge   virtio1-input.0\nLOC:     100000     200000   \
                         Local timer interrupts\nERR:          0\n";

    #[test]
    fn interrupts_of_one_cpu_without_its_timer() {
        assert_eq!(
            interrupts(TABLE, 1),
            [
                ("1 IO-APIC 1-edge i8042".to_owned(), 11),
                ("27 PCI-MSI 0-edge virtio1-input.0".to_owned(), 3000)
            ]
        );
        assert!(interrupts(TABLE, 7).is_empty());
        for end in 0..TABLE.len() {
            interrupts(&TABLE[..end], 1);
        }
    }

    #[test]
    fn a_window_holds_what_grew_and_is_found_by_time() {
        let counters = |at_ns, net| Counters {
            at_ns,
            steal_ns: at_ns / 10,
            interrupts: vec![("9 quiet".into(), 5), ("27 net".into(), net)],
        };
        let first = counters(200, 10).since(&counters(100, 10));
        let second = counters(300, 42).since(&counters(200, 10));
        assert_eq!((second.steal_ns, &second.interrupts), (10, &vec![("27 net".to_owned(), 32)]));
        let windows = [first, second];
        assert_eq!(window_at(&windows, 250).map(|window| window.end_ns), Some(300));
        assert_eq!(window_at(&windows, 99), None);
        assert_eq!(window_at(&windows, 301), None);
    }

    #[test]
    fn an_observer_gives_at_least_the_last_window() {
        assert!(!Observer::start(Some(0)).unwrap().finish().0.is_empty());
        assert!(Observer::start(None).unwrap().finish().0.is_empty());
    }
}
