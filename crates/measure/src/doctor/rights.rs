//! What this user may ask of the kernel, and what a container leaves of it.

use super::{Finding, Level, Machine};
use khz_rt::Advice;
use khz_rt::proc::{cpu_list, field};

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;
const PRIORITY_WANTED: u64 = 80;
/// Programs and libraries of a loop with a recorder and Python take tens of megabytes.
const MEMORY_WANTED: u64 = 1 << 30;

const PRIORITY: &str =
    "Without a real-time policy the loop waits its turn among all programs: milliseconds under load.";

pub(super) fn priority(machine: &Machine) -> Vec<Finding> {
    if capable(machine, CAP_SYS_NICE) {
        return vec![Finding::good("rights", "any real-time priority (CAP_SYS_NICE)", PRIORITY)];
    }
    let limit = limit(machine, "Max realtime priority");
    let what = format!("real-time priority up to {}", shown(limit));
    let enough = limit.is_none_or(|limit| limit >= PRIORITY_WANTED);
    vec![if enough {
        Finding::good("rights", what, PRIORITY)
    } else {
        Finding::new("rights", Level::Bad, what, PRIORITY).advise(advice(machine).priority())
    }]
}

const MEMORY: &str = "A page that is not in memory costs its reader milliseconds; locked memory stays. With a limit, \
                      a process that locks its memory cannot grow past it.";

pub(super) fn locked_memory(machine: &Machine) -> Vec<Finding> {
    if capable(machine, CAP_IPC_LOCK) {
        return vec![Finding::good("rights", "may lock all memory (CAP_IPC_LOCK)", MEMORY)];
    }
    let limit = limit(machine, "Max locked memory");
    let what =
        format!("may lock {} of memory", limit.map_or("all".into(), |bytes| format!("{} kB", bytes / 1024)));
    vec![if limit.is_none_or(|bytes| bytes >= MEMORY_WANTED) {
        Finding::good("rights", what, MEMORY)
    } else {
        Finding::new("rights", Level::Warning, what, MEMORY).advise(advice(machine).memory())
    }]
}

/// For the shell that it is pasted into, or the service that asked.
pub(super) fn advice(machine: &Machine) -> Advice {
    Advice::new(&machine.root, "$USER")
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or("any".into(), |limit| limit.to_string())
}

/// The soft limit, `None` if unlimited. One that cannot be read counts as 0.
fn limit(machine: &Machine, name: &str) -> Option<u64> {
    let limits = machine.root.read("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => None,
        soft => Some(soft.and_then(|soft| soft.parse().ok()).unwrap_or(0)),
    }
}

fn capable(machine: &Machine, capability: u32) -> bool {
    let status = machine.root.read("/proc/self/status").unwrap_or_default();
    let mask = field(&status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    mask & (1 << capability) != 0
}

const GROUP: &str = "On kernels with CONFIG_RT_GROUP_SCHED a control group without real-time share may not run a single \
                     real-time thread, not even root's.";

pub(super) fn real_time_group(machine: &Machine) -> Vec<Finding> {
    let Some(group) = group_v1(machine, "cpu") else { return Vec::new() };
    let file = format!("/sys/fs/cgroup/cpu{}/cpu.rt_runtime_us", group.trim_end_matches('/'));
    match machine.root.number(&file) {
        Some(0) => vec![
            Finding::new(
                "rights",
                Level::Bad,
                format!("control group {group} has no real-time share"),
                GROUP,
            )
            .fix(format!("echo 950000 | sudo tee {file}")),
        ],
        Some(share) => {
            vec![Finding::good("rights", format!("control group may use {share} µs of real time"), GROUP)]
        }
        None => Vec::new(),
    }
}

/// The path of this process in a controller of the first version of control groups.
fn group_v1(machine: &Machine, controller: &str) -> Option<String> {
    let groups = machine.root.read("/proc/self/cgroup")?;
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
    })
}

const CONTAINER: &str =
    "A container has its own limits on priority, memory and CPU time, whatever the machine allows.";
const QUOTA: &str =
    "When the quota is used up the whole group stops until the next period, real-time threads with it.";

pub(super) fn container(machine: &Machine) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root = &machine.root;
    if root.has("/.dockerenv") || root.has("/run/.containerenv") {
        let rights =
            "--cap-add SYS_NICE --ulimit rtprio=98 --ulimit memlock=-1 --device /dev/cpu_dma_latency";
        let finding = if capable(machine, CAP_SYS_NICE) {
            Finding::good("rights", "in a container that may set priorities", CONTAINER)
        } else {
            Finding::new("rights", Level::Warning, "in a container without CAP_SYS_NICE", CONTAINER)
                .advise(format!("start it with: docker run {rights} …"))
        };
        findings.push(finding);
    }
    if let Some(percent) = quota(machine) {
        let what = format!("CPU time limited to {percent:.0} % of a CPU");
        findings.push(
            Finding::new("rights", Level::Bad, what, QUOTA)
                .advise("sudo systemctl set-property <unit> CPUQuota= (container: start it without --cpus)"),
        );
    }
    let online = cpu_list(&root.read("/sys/devices/system/cpu/online").unwrap_or_default()).len();
    let status = root.read("/proc/self/status").unwrap_or_default();
    let allowed = cpu_list(field(&status, "Cpus_allowed_list").unwrap_or_default()).len();
    if allowed > 0 && allowed < online {
        let what = format!("may use {allowed} of {online} CPUs");
        let why = "A thread cannot be tied to a CPU outside this set.";
        let fix =
            "start it without taskset, or widen the set: sudo systemctl set-property <unit> AllowedCPUs=";
        findings.push(Finding::new("rights", Level::Note, what, why).advise(fix));
    }
    findings
}

/// The CPU quota of this process's control group in percent of one CPU, if there is one.
fn quota(machine: &Machine) -> Option<f64> {
    let groups = machine.root.read("/proc/self/cgroup").unwrap_or_default();
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let v2 = unified.and_then(|path| {
        let limit = machine.root.read(&format!("/sys/fs/cgroup{}/cpu.max", path.trim_end_matches('/')))?;
        let (quota, period) = limit.split_once(' ')?;
        Some((quota.parse().ok()?, period.trim().parse().ok()?))
    });
    let v1 = || {
        let path =
            format!("/sys/fs/cgroup/cpu{}", group_v1(machine, "cpu")?.trim_end_matches('/').to_owned());
        let number = |file: &str| machine.root.number(&format!("{path}/{file}"));
        Some((number("cpu.cfs_quota_us")? as f64, number("cpu.cfs_period_us")? as f64))
    };
    let (quota, period): (f64, f64) = v2.or_else(v1)?;
    (quota > 0.0 && period > 0.0).then(|| 100.0 * quota / period)
}

#[cfg(test)]
mod tests {
    use super::super::pretend::found;
    use super::*;

    const NONE: &str = "Name:\tx\nCapEff:\t0000000000000000\n";
    const ALL: &str = "Name:\tx\nCapEff:\t000001ffffffffff\n";
    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                          Max locked memory         8388608              8388608              bytes     \n\
                          Max realtime priority     0                    0                    \n";

    #[test]
    fn priority_by_capability_and_limit() {
        let finding = |status, limits| {
            found(priority, &[("/proc/self/status", status), ("/proc/self/limits", limits)])[0].clone()
        };
        assert_eq!(finding(ALL, LIMITS).0, Level::Good);
        let (level, what, command) = finding(NONE, LIMITS);
        assert_eq!((level, what.as_str()), (Level::Bad, "real-time priority up to 0"));
        assert!(command.contains("\"$USER - rtprio 98\""), "{command}");
        assert_eq!(finding(NONE, "Max realtime priority     98      98\n").0, Level::Good);
        assert_eq!(finding(NONE, "Max realtime priority     unlimited unlimited\n").0, Level::Good);
        assert_eq!(finding(NONE, "").0, Level::Bad);
    }

    #[test]
    fn memory_by_capability_and_limit() {
        let finding = |status, limits| {
            found(locked_memory, &[("/proc/self/status", status), ("/proc/self/limits", limits)])[0].clone()
        };
        assert_eq!(finding(NONE, LIMITS).1, "may lock 8192 kB of memory");
        assert_eq!(finding(NONE, "Max locked memory unlimited unlimited bytes").0, Level::Good);
        assert_eq!(finding(ALL, LIMITS).0, Level::Good);
    }

    #[test]
    fn a_service_is_sent_to_its_unit() {
        let files = [
            ("/proc/self/status", NONE),
            ("/proc/self/limits", LIMITS),
            ("/proc/self/environ", "INVOCATION_ID=0f\0"),
            ("/proc/self/cgroup", "0::/system.slice/robot.service\n"),
        ];
        for (check, line) in
            [(priority as fn(&Machine) -> _, "LimitRTPRIO=98"), (locked_memory, "LimitMEMLOCK=infinity")]
        {
            let command = &found(check, &files)[0].2;
            assert!(command.contains("systemctl edit robot.service") && command.contains(line), "{command}");
        }
    }

    #[test]
    fn a_group_without_real_time_share() {
        let group = ("/proc/self/cgroup", "9:cpu,cpuacct:/user\n8:pids:/\n");
        let share = |us| found(real_time_group, &[group, ("/sys/fs/cgroup/cpu/user/cpu.rt_runtime_us", us)]);
        assert_eq!(share("0")[0].2, "echo 950000 | sudo tee /sys/fs/cgroup/cpu/user/cpu.rt_runtime_us");
        assert_eq!(share("950000")[0].0, Level::Good);
        assert_eq!(found(real_time_group, &[("/proc/self/cgroup", "0::/x\n")]), []);
    }

    #[test]
    fn quotas_of_both_kinds_of_control_group() {
        let v2 = |limit| {
            found(container, &[("/proc/self/cgroup", "0::/app\n"), ("/sys/fs/cgroup/app/cpu.max", limit)])
        };
        assert_eq!(v2("50000 100000")[0].1, "CPU time limited to 50 % of a CPU");
        assert_eq!(v2("max 100000"), []);
        let v1 = found(
            container,
            &[
                ("/proc/self/cgroup", "3:cpu:/\n"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
            ],
        );
        assert_eq!(v1[0].1, "CPU time limited to 200 % of a CPU");
    }

    #[test]
    fn a_container_without_the_right_and_with_fewer_cpus() {
        let status = "CapEff:\t0\nCpus_allowed_list:\t0-1\n";
        let files =
            [("/.dockerenv", ""), ("/proc/self/status", status), ("/sys/devices/system/cpu/online", "0-3")];
        let findings = found(container, &files);
        assert!(findings[0].2.contains("--cap-add SYS_NICE"));
        assert_eq!((findings[1].0, findings[1].1.as_str()), (Level::Note, "may use 2 of 4 CPUs"));
    }
}
