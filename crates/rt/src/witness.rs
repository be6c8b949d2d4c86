//! Who had the CPU: says for each tick whether the thread got it when it wanted it.
//!
//! Two intervals of a tick are watched. From the deadline to waking the thread wanted the CPU and got it
//! `late_ns` later. From waking to the end of the tick it used the CPU less than the clock advanced, by
//! `away_ns`. Of both, the kernel knows how long the thread stood in its queue while others ran,
//! `waited_ns` (the second number of `/proc/thread-self/schedstat`). What remains, `stolen_ns`, went to nobody
//! the kernel knows: the hypervisor ran something else, the firmware took over (SMI), interrupts were off
//! or the CPU was slow to leave an idle state.
//!
//! Limits: within a tick, theft by a hypervisor shows only where the guest kernel accounts it (KVM and Xen with
//! `CONFIG_PARAVIRT_TIME_ACCOUNTING`); interrupt handlers count as the thread's own time unless the kernel
//! has `CONFIG_IRQ_TIME_ACCOUNTING`. Sleeping on purpose within the tick counts as being away. A theft between queueing and running counts as waiting.

use crate::clock::thread_cpu_ns;
use crate::sys::thread_use;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// From this much on a tick counts as disturbed; below it lie the usual wake-up latencies.
pub const DISTURBED_NS: i64 = 50_000;

/// Watches one thread; belongs to the thread that made it.
///
/// # Realtime contract
/// No allocation; two system calls to read the thread's counters and one to read a file of the kernel's, an
/// estimated two microseconds per tick in all.
pub struct Witness {
    schedstat: Option<File>,
    woke_ns: i64,
    late_ns: i64,
    cpu_ns: i64,
    before: Counts,
    _on_its_thread: std::marker::PhantomData<*const ()>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    waited_ns: i64,
    minor_faults: i64,
    major_faults: i64,
    involuntary: i64,
}

impl Witness {
    /// Begins to watch the calling thread. Call it on the thread, after [`crate::Setup::apply`].
    #[must_use]
    pub fn new() -> Witness {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut witness = Witness {
            schedstat,
            woke_ns: 0,
            late_ns: 0,
            cpu_ns: thread_cpu_ns(),
            before: Counts::default(),
            _on_its_thread: std::marker::PhantomData,
        };
        witness.before = witness.counts();
        witness
    }

    /// To be called right after waking, with the time and how late that was.
    #[inline]
    pub fn woke(&mut self, now_ns: i64, late_ns: i64) {
        (self.woke_ns, self.late_ns) = (now_ns, late_ns.max(0));
        self.cpu_ns = thread_cpu_ns();
    }

    /// To be called at the end of the tick, before waiting for the next; tells what disturbed it.
    #[inline]
    pub fn done(&mut self, now_ns: i64) -> Disturbance {
        let used_ns = thread_cpu_ns() - self.cpu_ns;
        let counts = self.counts();
        let before = std::mem::replace(&mut self.before, counts);
        Disturbance {
            late_ns: self.late_ns,
            away_ns: (now_ns - self.woke_ns - used_ns).max(0),
            waited_ns: counts.waited_ns - before.waited_ns,
            involuntary: (counts.involuntary - before.involuntary) as u32,
            minor_faults: (counts.minor_faults - before.minor_faults) as u32,
            major_faults: (counts.major_faults - before.major_faults) as u32,
        }
    }

    fn counts(&self) -> Counts {
        let usage = thread_use();
        Counts {
            waited_ns: self.schedstat.as_ref().and_then(run_delay).unwrap_or(self.before.waited_ns),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            involuntary: usage.involuntary_switches,
        }
    }
}

impl Default for Witness {
    fn default() -> Witness {
        Witness::new()
    }
}

fn run_delay(schedstat: &File) -> Option<i64> {
    let mut buffer = [0u8; 96];
    let length = schedstat.read_at(&mut buffer, 0).ok()?;
    parse_run_delay(&buffer[..length])
}

fn parse_run_delay(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// What kept a tick from the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// From the deadline to waking.
    pub late_ns: i64,
    /// Between waking and the end of the tick, time the thread did not have the CPU.
    pub away_ns: i64,
    /// Time it stood in the queue while other threads ran.
    pub waited_ns: i64,
    /// Times another thread was put in its place.
    pub involuntary: u32,
    /// Page faults served from memory.
    pub minor_faults: u32,
    /// Page faults that read from disk.
    pub major_faults: u32,
}

impl Disturbance {
    /// Time that went to nobody the kernel knows, see the module's page.
    #[inline]
    #[must_use]
    pub fn stolen_ns(&self) -> i64 {
        (self.late_ns + self.away_ns - self.waited_ns).max(0)
    }

    /// What disturbed the tick most, or `None` if nothing took [`DISTURBED_NS`] or more.
    #[inline]
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        if self.major_faults > 0 {
            return Some(Cause::Fault);
        }
        let (cause, ns) = if self.stolen_ns() >= self.waited_ns {
            (Cause::Stolen, self.stolen_ns())
        } else {
            (Cause::Preempted, self.waited_ns)
        };
        (ns >= DISTURBED_NS).then_some(cause)
    }
}

/// Why a thread did not have the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Nobody the kernel knows had it: hypervisor, firmware, interrupts off, a deep idle state.
    Stolen,
    /// Another thread had it.
    Preempted,
    /// It waited for a page to be read from disk.
    Fault,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(late_ns: i64, away_ns: i64, waited_ns: i64) -> Disturbance {
        Disturbance { late_ns, away_ns, waited_ns, ..Disturbance::default() }
    }

    #[test]
    fn a_usual_wake_is_no_disturbance() {
        assert_eq!(tick(12_000, 1_000, 3_000).cause(), None);
        assert_eq!(tick(62_000, 0, 61_000).cause(), Some(Cause::Preempted));
    }

    #[test]
    fn a_late_timer_with_an_empty_queue_was_stolen() {
        let late = tick(830_000, 0, 2_000);
        assert_eq!((late.cause(), late.stolen_ns()), (Some(Cause::Stolen), 828_000));
    }

    #[test]
    fn theft_within_the_tick_counts_and_standing_in_the_queue_does_not() {
        assert_eq!(tick(5_000, 300_000, 1_000).cause(), Some(Cause::Stolen));
        assert_eq!(tick(5_000, 300_000, 299_000).cause(), Some(Cause::Preempted));
    }

    #[test]
    fn a_page_from_disk_is_named_before_all_else() {
        assert_eq!(Disturbance { major_faults: 1, ..tick(0, 900_000, 0) }.cause(), Some(Cause::Fault));
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
        let mut witness = Witness::new();
        let woke_ns = crate::now_ns();
        witness.woke(woke_ns, -3);
        let tick = witness.done(crate::now_ns());
        assert!(tick.late_ns == 0 && tick.away_ns >= 0 && tick.waited_ns >= 0);
    }
}
