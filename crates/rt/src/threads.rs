//! The threads of this process and how each is scheduled.

use crate::proc::{Root, field};
use crate::setup::Policy;
use serde::{Deserialize, Serialize};

/// How one thread is scheduled, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// The kernel's number.
    pub tid: i32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its policy; `None` for one this crate does not set (batch, idle).
    pub policy: Option<Policy>,
    /// Real-time priority, 1 to 99; 0 without.
    pub priority: u32,
    /// CPUs it may run on, as a list such as `0-3`.
    pub cpus: String,
}

/// All threads of this process: to see that helper threads kept off the real-time CPU and policy.
/// Not for the tick: reads files and allocates.
#[must_use]
pub fn threads() -> Vec<Thread> {
    let root = Root::system();
    root.list("/proc/self/task").iter().filter_map(|tid| thread(&root, tid)).collect()
}

/// `None` if the thread ended meanwhile.
fn thread(root: &Root, tid: &str) -> Option<Thread> {
    let stat = root.read(&format!("/proc/self/task/{tid}/stat"))?;
    let status = root.read(&format!("/proc/self/task/{tid}/status"))?;
    parse(&stat, &status)
}

/// Fields as numbered in proc(5): 40 is the real-time priority, 41 the policy. The name stands in
/// parentheses and may itself hold parentheses and blanks.
fn parse(stat: &str, status: &str) -> Option<Thread> {
    let (before, after) = stat.rsplit_once(')')?;
    let (tid, name) = before.split_once(" (")?;
    let mut fields = after.split_whitespace().skip(40 - 3);
    let priority = fields.next()?.parse().ok()?;
    let policy = Policy::from_kernel(fields.next()?.parse().ok()?);
    let cpus = field(status, "Cpus_allowed_list").unwrap_or("?").to_owned();
    Some(Thread { tid: tid.parse().ok()?, name: name.to_owned(), policy, priority, cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "719 (odd) name) S 1 719 719 0 -1 4194304 1 0 0 0 0 0 0 0 -81 0 2 0 100 1 1 1 1 1 1 1 1 \
                        0 0 0 0 0 0 0 17 1 80 1 0 0 0";

    #[test]
    fn a_fifo_thread_with_an_odd_name() {
        let thread = parse(STAT, "Name:\todd\nCpus_allowed_list:\t1\n").unwrap();
        assert_eq!(thread.name, "odd) name");
        assert_eq!((thread.policy, thread.priority, thread.cpus.as_str()), (Some(Policy::Fifo), 80, "1"));
    }

    #[test]
    fn every_truncation_is_no_thread_and_no_panic() {
        for end in 0..STAT.rfind(" 80 1").unwrap() {
            assert_eq!(parse(&STAT[..end], ""), None);
        }
    }

    #[test]
    fn lists_the_thread_that_asks() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(threads().iter().any(|thread| thread.tid == tid));
    }
}
