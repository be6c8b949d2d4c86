//! The steps of [`Setup::apply`], each read back from the kernel.

use super::advice::Advice;
use super::{Grade, Granted, Policy, Report, Setting, Setup, SetupError};
use crate::proc::{Root, cpu_list, field};
use crate::sys::{SchedAttr, keep_heap, scheduler, set_scheduler};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{
    CpuSet, current_timer_slack, sched_getaffinity, sched_setaffinity, set_current_timer_slack,
};
use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

const RESET_ON_FORK: u64 = 1;
const CAP_IPC_LOCK: u32 = 14;
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

pub(super) fn apply(setup: &Setup) -> Result<Granted, SetupError> {
    check(setup)?;
    let mut settings = Vec::new();
    if setup.lock_memory {
        settings.push(lock_memory());
        settings.push(keep_freed_memory());
    }
    if setup.stack_bytes > 0 {
        settings.push(prefault(setup.stack_bytes));
    }
    if setup.timer_slack_ns > 0 {
        settings.push(timer_slack(setup.timer_slack_ns));
    }
    if let Some(cpu) = setup.cpu {
        settings.push(affinity(cpu));
    }
    let (mut awake, mut resume_latency) = (None, None);
    if setup.stay_awake {
        let setting;
        (setting, awake, resume_latency) = stay_awake(setup.cpu);
        settings.push(setting);
    }
    // Last, so that the slow steps above do not run at real-time priority.
    settings.push(policy(setup));
    let report = Report { thread: thread_name(), grade: grade(setup, &settings), settings };
    if setup.strict && report.lacking().next().is_some() {
        return Err(SetupError::Strict(report));
    }
    Ok(Granted { report, _awake: awake, _resume_latency: resume_latency })
}

pub(super) fn check(setup: &Setup) -> Result<(), SetupError> {
    if setup.policy.has_priority() && !(1..=98).contains(&setup.priority) {
        return Err(SetupError::Priority(setup.priority));
    }
    if setup.policy == Policy::Deadline && !(100_000..=4_000_000_000).contains(&setup.period_ns) {
        return Err(SetupError::Period(setup.period_ns));
    }
    let online = Root::system().read("/sys/devices/system/cpu/online").unwrap_or_else(|| "0".into());
    match setup.cpu {
        Some(cpu) if !cpu_list(&online).contains(&cpu) => Err(SetupError::Cpu { cpu, online }),
        _ => Ok(()),
    }
}

fn grade(setup: &Setup, settings: &[Setting]) -> Grade {
    let policy_granted = settings.iter().any(|setting| setting.name == "policy" && setting.ok);
    match setup.policy {
        Policy::Other => Grade::Ordinary,
        _ if !policy_granted => Grade::Ordinary,
        _ if settings.iter().any(|setting| !setting.ok) => Grade::Degraded,
        _ => Grade::RealTime,
    }
}

fn policy(setup: &Setup) -> Setting {
    let wanted = attributes(setup);
    let result = set_scheduler(&wanted);
    let granted = scheduler(0).unwrap_or_default();
    let ok = granted.policy == wanted.policy
        && granted.priority == wanted.priority
        && granted.runtime_ns.max(wanted.runtime_ns) == granted.runtime_ns
        && granted.flags & wanted.flags == wanted.flags;
    Setting {
        name: "policy".into(),
        requested: describe(&wanted),
        granted: describe(&granted),
        ok,
        remedy: (!ok).then(|| policy_remedy(setup, result.err().as_ref())),
    }
}

fn attributes(setup: &Setup) -> SchedAttr {
    let mut attr = SchedAttr { policy: setup.policy.number(), ..SchedAttr::default() };
    if setup.policy != Policy::Other {
        attr.flags = RESET_ON_FORK;
    }
    if setup.policy.has_priority() {
        attr.priority = setup.priority.into();
    }
    if setup.policy == Policy::Deadline {
        attr.period_ns = setup.period_ns as u64;
        attr.deadline_ns = attr.period_ns;
        attr.runtime_ns = attr.period_ns / 2;
    }
    attr
}

fn describe(attr: &SchedAttr) -> String {
    match Policy::from_kernel(attr.policy) {
        Some(policy) if policy.has_priority() => format!("{policy} {}", attr.priority),
        Some(Policy::Deadline) => {
            format!("deadline {}/{} µs", attr.runtime_ns / 1_000, attr.period_ns / 1_000)
        }
        Some(policy) => policy.to_string(),
        None => format!("policy {}", attr.policy),
    }
}

/// How to get a right that is missing. A user without a name in the environment is looked up when the command is typed.
fn advice() -> Advice {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    Advice::new(&Root::system(), user.as_deref().unwrap_or("$(id -un)"))
}

fn policy_remedy(setup: &Setup, error: Option<&io::Error>) -> String {
    let denied = error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    match setup.policy {
        Policy::Deadline if denied && setup.cpu.is_some() => {
            "SCHED_DEADLINE refuses a thread tied to one CPU unless that CPU is an exclusive cpuset: \
             leave out the CPU, or use fifo"
                .into()
        }
        Policy::Deadline if denied => format!("SCHED_DEADLINE needs CAP_SYS_NICE: {}", advice().deadline()),
        _ if denied && is_capable(23) => "the control group has no real-time share: \
             echo 950000 | sudo tee /sys/fs/cgroup/cpu/<group>/cpu.rt_runtime_us (container: allow it from outside)"
            .into(),
        _ if denied => format!("no right to real-time priority: {}", advice().priority()),
        _ => match error {
            Some(error) => format!("the kernel refused: {error}"),
            None => "the kernel took the request but did not follow it".into(),
        },
    }
}

fn affinity(cpu: usize) -> Setting {
    let mut wanted = CpuSet::new();
    wanted.set(cpu);
    let result = sched_setaffinity(None, &wanted);
    let granted = sched_getaffinity(None).unwrap_or_default();
    let ok = granted == wanted;
    Setting {
        name: "cpu".into(),
        requested: cpu.to_string(),
        granted: (0..CpuSet::MAX_CPU)
            .filter(|&n| granted.is_set(n))
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(","),
        ok,
        remedy: (!ok).then(|| match result {
            Err(error) => format!("{error}: the control group may not use this CPU (cpuset.cpus)"),
            Ok(()) => "the control group narrows the CPUs (cpuset.cpus)".into(),
        }),
    }
}

/// A process that maps more than this belongs to a larger program that also has a loop: with a learning library it maps gigabytes that it never
/// touches, and to fill the RAM with them takes seconds.
const LARGE_KB: u64 = 1 << 20;

/// With a limit, later growth of the process would fail; so the limit is looked at first.
fn lock_memory() -> Setting {
    let status = || Root::system().read("/proc/self/status").unwrap_or_default();
    let kilobytes = |status: &str| field(status, "VmSize")?.split_whitespace().next()?.parse::<u64>().ok();
    let is_large = kilobytes(&status()).is_some_and(|mapped_kb| mapped_kb > LARGE_KB);
    let limit = getrlimit(Resource::Memlock).current;
    let result = match limit {
        Some(bytes) if !is_capable(CAP_IPC_LOCK) => Err(format!(
            "the limit on locked memory is {} kB, and growing past it would fail: {}",
            bytes / 1024,
            advice().memory()
        )),
        _ => crate::sys::lock_memory(is_large).map_err(|error| {
            format!(
                "mlockall: {error}; free memory, of the machine or its control group (container: --memory)"
            )
        }),
    };
    let locked = status();
    let locked = field(&locked, "VmLck").unwrap_or("0 kB").to_owned();
    let ok = result.is_ok() && locked != "0 kB";
    Setting {
        name: "memory".into(),
        requested: "locked".into(),
        granted: format!("{locked} locked{}", if is_large { ", as it is touched" } else { "" }),
        ok,
        remedy: result.err(),
    }
}

fn keep_freed_memory() -> Setting {
    let result = keep_heap();
    Setting {
        name: "heap".into(),
        requested: "kept".into(),
        granted: if result.is_ok() { "kept" } else { "as the C library likes" }.into(),
        // Other C libraries have no such tunable; the tick does not allocate, so nothing is lost.
        ok: result.is_ok() || cfg!(not(target_env = "gnu")),
        remedy: None,
    }
}

fn prefault(bytes: usize) -> Setting {
    const CHUNK: usize = 16 * 1024;
    let chunks = bytes.div_ceil(CHUNK).min(1024 * 1024 / CHUNK);
    touch_stack(chunks);
    let done = format!("{} kB", chunks * CHUNK / 1024);
    Setting { name: "stack".into(), requested: done.clone(), granted: done, ok: true, remedy: None }
}

/// Each call lies deeper in the stack by at least a chunk.
#[inline(never)]
fn touch_stack(chunks: usize) {
    let mut chunk = [0u8; 16 * 1024];
    std::hint::black_box(&mut chunk);
    if chunks > 1 {
        touch_stack(chunks - 1);
    }
    // After the recursion, so that it is no tail call.
    std::hint::black_box(&mut chunk);
}

fn timer_slack(ns: u64) -> Setting {
    let result = set_current_timer_slack(NonZeroU64::new(ns));
    // A thread already at real-time priority has no slack at all, and reports 0.
    let granted = current_timer_slack().unwrap_or(u64::MAX);
    let ok = granted <= ns;
    Setting {
        name: "timer slack".into(),
        requested: format!("{ns} ns"),
        granted: format!("{granted} ns"),
        ok,
        remedy: (!ok).then(|| format!("prctl: {result:?}")),
    }
}

type StayAwake = (Setting, Option<File>, Option<ResumeLatency>);

/// The whole machine by `/dev/cpu_dma_latency`; else the one CPU by its own file; else report.
fn stay_awake(cpu: Option<usize>) -> StayAwake {
    let setting = |granted: &str, remedy: Option<String>| Setting {
        name: "idle states".into(),
        requested: "none deep".into(),
        granted: granted.into(),
        ok: remedy.is_none(),
        remedy,
    };
    let refused = match request_latency() {
        Ok(file) => return (setting("none deep on any CPU", None), Some(file), None),
        Err(error) => error,
    };
    if Root::system().read(IDLE_DRIVER).is_some_and(|driver| driver == "none") {
        return (setting("none deep (the machine has none)", None), None, None);
    }
    if let Some(held) = cpu.and_then(|cpu| ResumeLatency::hold(cpu).ok()) {
        return (setting("none deep on this CPU", None), None, Some(held));
    }
    let remedy = format!("{DMA_LATENCY}: {refused}: {}", advice().idle_states());
    (setting("as the kernel likes", Some(remedy)), None, None)
}

fn request_latency() -> io::Result<File> {
    let mut file = File::options().write(true).open(DMA_LATENCY)?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(file)
}

/// Holds one CPU's own latency request and puts the old one back when dropped.
#[derive(Debug)]
pub(super) struct ResumeLatency {
    path: PathBuf,
    before: Vec<u8>,
}

impl ResumeLatency {
    /// In this file `n/a` means no latency at all is tolerated, and 0 that any is
    /// (kernel Documentation/ABI/testing/sysfs-devices-power).
    fn hold(cpu: usize) -> io::Result<ResumeLatency> {
        let path = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"));
        let before = fs::read(&path)?;
        fs::write(&path, "n/a")?;
        Ok(ResumeLatency { path, before })
    }
}

impl Drop for ResumeLatency {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the request does no harm.
        let _ = fs::write(&self.path, &self.before);
    }
}

fn is_capable(capability: u32) -> bool {
    let status = Root::system().read("/proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    effective & (1 << capability) != 0
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or("unnamed").to_owned()
}
