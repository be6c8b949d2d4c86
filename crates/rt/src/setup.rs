//! Asks the kernel for real-time treatment of the calling thread, reads back what it granted, and advises what
//! to do about the difference.

mod advice;
mod apply;

pub use advice::{Advice, StartedBy};

use khz_settings::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;

words! {
    /// Scheduling policy of the loop's thread.
    Policy {
        /// `SCHED_FIFO`: real-time, runs until it sleeps.
        Fifo = "fifo",
        /// `SCHED_RR`: real-time, shares time with equals.
        Rr = "rr",
        /// `SCHED_DEADLINE`: real-time, by period and budget. Cannot be combined with `cpu`.
        Deadline = "deadline",
        /// `SCHED_OTHER`: ordinary.
        Other = "other",
    }
}

impl Policy {
    /// By the kernel's number (uapi/linux/sched.h).
    pub(crate) fn from_kernel(number: u32) -> Option<Policy> {
        Policy::ALL.iter().copied().find(|policy| policy.number() == number)
    }

    fn number(self) -> u32 {
        match self {
            Policy::Other => 0,
            Policy::Fifo => 1,
            Policy::Rr => 2,
            Policy::Deadline => 6,
        }
    }

    fn has_priority(self) -> bool {
        matches!(self, Policy::Fifo | Policy::Rr)
    }
}

/// What a thread asks for. [`Setup::default`] is what a control loop wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Scheduling policy.
    pub policy: Policy,
    /// Priority for FIFO and RR, 1 to 98. 99 belongs to the kernel's own threads.
    pub priority: u8,
    /// The only CPU to run on.
    pub cpu: Option<usize>,
    /// The period of the loop, for [`Policy::Deadline`]: runtime is half of it, deadline all of it.
    pub period_ns: i64,
    /// Lock all memory of the process, present and future, and keep freed memory.
    pub lock_memory: bool,
    /// Touch this many bytes of stack beforehand, at most 1 MiB.
    pub stack_bytes: usize,
    /// How late the kernel may make this thread's timers to save power (only ordinary threads' timers wait).
    pub timer_slack_ns: u64,
    /// Keep CPUs out of deep idle states, which take long to leave.
    pub stay_awake: bool,
    /// Refuse to go on with less than what is asked for.
    pub strict: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            policy: Policy::Fifo,
            priority: 80,
            cpu: None,
            period_ns: 1_000_000,
            lock_memory: true,
            stack_bytes: 64 * 1024,
            timer_slack_ns: 1,
            stay_awake: true,
            strict: false,
        }
    }
}

impl Setup {
    /// Nothing special: an ordinary thread, as it would be without this crate.
    #[must_use]
    pub fn ordinary() -> Setup {
        Setup {
            policy: Policy::Other,
            priority: 0,
            lock_memory: false,
            stack_bytes: 0,
            timer_slack_ns: 0,
            stay_awake: false,
            ..Setup::default()
        }
    }

    /// Whether this computer has the CPU, priority and period it asks for: what is wrong shows before anything is begun.
    ///
    /// # Errors
    /// The first that cannot exist.
    pub fn check(&self) -> Result<(), SetupError> {
        apply::check(self)
    }

    /// Applies it to the calling thread (memory locking and idle states are the process's and the machine's).
    /// Call it after the helper threads are made: children of the thread start as ordinary threads
    /// (`SCHED_RESET_ON_FORK`), but inherit its CPU.
    ///
    /// What is not granted is reported, not an error, unless [`Setup::strict`]. Keep the result as long as the
    /// thread runs: it holds the request to stay awake.
    ///
    /// # Errors
    /// A priority or CPU that cannot exist; with `strict`, anything not granted.
    pub fn apply(&self) -> Result<Granted, SetupError> {
        apply::apply(self)
    }
}

/// Undoes [`Setup::lock_memory`] for the whole process: between experiments, never while a loop runs.
pub fn unlock_memory() {
    // It can only fail where locking did.
    let _ = rustix::mm::munlockall();
}

/// What was granted, held until dropped.
#[derive(Debug)]
pub struct Granted {
    /// Setting by setting.
    pub report: Report,
    /// The kernel honours the request as long as this file is open.
    _awake: Option<File>,
    _resume_latency: Option<apply::ResumeLatency>,
}

/// How much of the real-time treatment a thread got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// An ordinary thread: the kernel may let others run first for milliseconds.
    Ordinary,
    /// A real-time thread without all it asked for.
    Degraded,
    /// Everything asked for, on a real-time policy.
    RealTime,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grade::Ordinary => "ordinary",
            Grade::Degraded => "degraded",
            Grade::RealTime => "real-time",
        })
    }
}

/// Requested and granted, setting by setting, of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The thread's name.
    pub thread: String,
    /// The verdict.
    pub grade: Grade,
    /// One entry per setting asked for.
    pub settings: Vec<Setting>,
}

impl Report {
    /// Settings that were not granted.
    pub fn lacking(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|setting| !setting.ok)
    }
}

impl fmt::Display for Report {
    /// One line per setting; what to do on its own line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "thread {}: {}", self.thread, self.grade)?;
        for setting in &self.settings {
            let mark = if setting.ok { "ok " } else { "no " };
            writeln!(f, "  {mark} {:<13} {} → {}", setting.name, setting.requested, setting.granted)?;
            if let Some(remedy) = &setting.remedy {
                writeln!(f, "      {remedy}")?;
            }
        }
        Ok(())
    }
}

/// One setting: asked for and read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What.
    pub name: String,
    /// What was asked for.
    pub requested: String,
    /// What is in force, as the kernel reports it.
    pub granted: String,
    /// Whether that is what was asked for.
    pub ok: bool,
    /// If not: why, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Why a thread was not set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A priority outside the range.
    #[error("priority {0} does not exist: use 1 to 98 (99 belongs to the kernel's own threads)")]
    Priority(u8),
    /// A CPU that is not online.
    #[error("CPU {cpu} is not online: use one of {online}")]
    Cpu {
        /// The one asked for.
        cpu: usize,
        /// Those there are.
        online: String,
    },
    /// A period the deadline policy cannot take.
    #[error("a period of {0} ns is not possible with policy deadline: use 100 µs to 4 s")]
    Period(i64),
    /// [`Setup::strict`] and something was not granted.
    #[error("refusing to run degraded (strict):\n{0}")]
    Strict(Report),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for policy in Policy::ALL.iter().copied() {
            assert_eq!(policy.word().parse(), Ok(policy));
            assert_eq!(Policy::from_kernel(policy.number()), Some(policy));
        }
        assert!("rt".parse::<Policy>().unwrap_err().contains("fifo"));
    }

    #[test]
    fn impossible_requests_are_refused_by_name() {
        for priority in [0, 99, 100, 255] {
            let error = Setup { priority, ..Setup::default() }.apply().unwrap_err();
            assert_eq!(error, SetupError::Priority(priority));
        }
        let error = Setup { cpu: Some(4_096), ..Setup::ordinary() }.apply().unwrap_err();
        assert!(error.to_string().starts_with("CPU 4096 is not online: use one of 0"), "{error}");
        let deadline = Setup { policy: Policy::Deadline, period_ns: 0, ..Setup::ordinary() };
        assert_eq!(deadline.apply().unwrap_err(), SetupError::Period(0));
    }

    #[test]
    fn an_ordinary_thread_gets_what_it_asks_for_and_is_graded_ordinary() {
        let granted = Setup::ordinary().apply().unwrap();
        assert_eq!(granted.report.grade, Grade::Ordinary);
        assert_eq!(granted.report.lacking().count(), 0);
    }

    #[test]
    fn whatever_is_granted_is_what_the_kernel_lists_for_the_thread() {
        // Those the tests run on may be others than the first.
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).unwrap();
        let worker = std::thread::Builder::new().name("rt-under-test".into()).spawn(move || {
            let setup = Setup { cpu: Some(cpu), lock_memory: false, ..Setup::default() };
            let granted = setup.apply().unwrap();
            let child = std::thread::Builder::new().name("rt-child".into());
            let child =
                child.spawn(|| std::thread::park_timeout(std::time::Duration::from_secs(60))).unwrap();
            let listed = crate::threads();
            child.thread().unpark();
            (granted.report, listed)
        });
        let (report, listed) = worker.unwrap().join().unwrap();
        let me = listed.iter().find(|thread| thread.name == "rt-under-test").unwrap();
        let child = listed.iter().find(|thread| thread.name == "rt-child");
        let policy = report.settings.iter().find(|setting| setting.name == "policy").unwrap();
        assert_eq!(policy.ok, me.policy == Some(Policy::Fifo) && me.priority == 80, "{report}");
        assert_eq!(report.grade == Grade::Ordinary, !policy.ok);
        assert_eq!(me.cpus, cpu.to_string());
        assert!(child.is_none_or(|child| child.policy == Some(Policy::Other)), "real-time policy inherited");
    }
}
