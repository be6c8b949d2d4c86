//! What machine a result was measured on, and what happened to it meanwhile.

use crate::clock::realtime_ns;
use crate::proc::{Root, cpu_list, field};
use crate::sys::clock_ticks_per_second;
use serde::{Deserialize, Serialize};

/// The machine, as far as it matters for timing. Without it a latency figure means nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Passport {
    /// When it was taken, nanoseconds since 1970.
    pub taken_ns: i64,
    /// The computer's name; empty in what was taken before it was part of this.
    #[serde(default)]
    pub host: String,
    /// Kernel release, such as `6.1.0-28-rt-amd64`.
    pub kernel: String,
    /// How far the kernel lets itself be interrupted: `realtime`, `full`, `lazy`, `voluntary`, `none`,
    /// `dynamic` (chosen at boot, not readable) or `unknown`.
    pub preemption: String,
    /// A PREEMPT_RT kernel.
    pub realtime_kernel: bool,
    /// CPU model.
    pub cpu: String,
    /// CPUs online, as a list.
    pub cpus_online: String,
    /// CPUs the scheduler leaves alone (`isolcpus`), as a list; empty for none.
    pub cpus_isolated: String,
    /// CPUs without a scheduler tick (`nohz_full`), as a list; empty for none.
    pub cpus_tickless: String,
    /// Frequency governors in use, each once; empty if the machine has none.
    pub governors: Vec<String>,
    /// The clock source.
    pub clocksource: String,
    /// The hypervisor the machine runs under, if it runs under one.
    pub hypervisor: Option<String>,
    /// Memory in kB.
    pub memory_kb: u64,
    /// Real-time threads may use this share of every second, percent; 100 if not throttled.
    pub rt_share_percent: f64,
}

impl Passport {
    /// Reads this machine's. Not for the tick: reads files and allocates.
    #[must_use]
    pub fn read() -> Passport {
        Passport::of(&Root::system())
    }

    /// Reads that of the machine a directory stands for.
    #[must_use]
    pub fn of(root: &Root) -> Passport {
        let cpu_info = root.read("/proc/cpuinfo").unwrap_or_default();
        let sys = |file: &str| root.read(&format!("/sys/devices/system/{file}")).unwrap_or_default();
        let list = |file: &str| {
            let text = sys(file);
            if cpu_list(&text).is_empty() { String::new() } else { text }
        };
        let preemption = preemption(root);
        Passport {
            taken_ns: realtime_ns(),
            host: root.read("/proc/sys/kernel/hostname").unwrap_or_default(),
            kernel: root.read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            realtime_kernel: preemption == "realtime",
            preemption,
            cpu: cpu_model(root, &cpu_info),
            cpus_online: sys("cpu/online"),
            cpus_isolated: list("cpu/isolated"),
            cpus_tickless: list("cpu/nohz_full"),
            governors: governors(root),
            clocksource: sys("clocksource/clocksource0/current_clocksource"),
            hypervisor: hypervisor(root, &cpu_info),
            memory_kb: memory_kb(root),
            rt_share_percent: rt_share(root),
        }
    }
}

/// The active model of a dynamic kernel stands in parentheses in debugfs; else it is in the version text.
fn preemption(root: &Root) -> String {
    let version = root.read("/proc/sys/kernel/version").unwrap_or_default();
    let has = |word: &str| version.split_whitespace().any(|part| part == word);
    if root.number("/sys/kernel/realtime") == Some(1) || has("PREEMPT_RT") {
        return "realtime".into();
    }
    if let Some(model) = active_model(root) {
        return model;
    }
    let known = [("PREEMPT_DYNAMIC", "dynamic"), ("PREEMPT_LAZY", "lazy"), ("PREEMPT", "full")];
    let found = known.into_iter().find(|(word, _)| has(word));
    found.map_or(if version.is_empty() { "unknown" } else { "voluntary or none" }, |(_, model)| model).into()
}

fn active_model(root: &Root) -> Option<String> {
    let models = root.read("/sys/kernel/debug/sched/preempt").or_else(|| command_line_model(root))?;
    let (_, rest) = models.split_once('(')?;
    Some(rest.split_once(')')?.0.to_owned())
}

fn command_line_model(root: &Root) -> Option<String> {
    let line = root.read("/proc/cmdline")?;
    line.split_whitespace().find_map(|word| word.strip_prefix("preempt=")).map(|model| format!("({model})"))
}

/// x86 has a model name per CPU; ARM boards name the board in the device tree.
fn cpu_model(root: &Root, cpu_info: &str) -> String {
    let named = field(cpu_info, "model name").or_else(|| field(cpu_info, "Model")).map(str::to_owned);
    named.or_else(|| root.read("/proc/device-tree/model")).unwrap_or_else(|| "unknown".into())
}

fn governors(root: &Root) -> Vec<String> {
    let policies = root.list("/sys/devices/system/cpu/cpufreq");
    let governor =
        |policy: &String| root.read(&format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor"));
    let mut found: Vec<String> = policies.iter().filter_map(governor).collect();
    found.sort();
    found.dedup();
    found
}

fn hypervisor(root: &Root, cpu_info: &str) -> Option<String> {
    if let Some(kind) = root.read("/sys/hypervisor/type").filter(|kind| !kind.is_empty()) {
        return Some(kind);
    }
    let flagged =
        field(cpu_info, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let in_tree = root.has("/proc/device-tree/hypervisor");
    let vendor = root.read("/sys/class/dmi/id/sys_vendor").filter(|vendor| !vendor.is_empty());
    (flagged || in_tree).then(|| vendor.unwrap_or_else(|| "unknown".into()))
}

fn memory_kb(root: &Root) -> u64 {
    let info = root.read("/proc/meminfo").unwrap_or_default();
    field(&info, "MemTotal").and_then(|value| value.split(' ').next()?.parse().ok()).unwrap_or(0)
}

fn rt_share(root: &Root) -> f64 {
    let runtime = root.number("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or(-1);
    let period = root.number("/proc/sys/kernel/sched_rt_period_us").unwrap_or(1_000_000);
    if runtime < 0 || period <= 0 { 100.0 } else { 100.0 * runtime as f64 / period as f64 }
}

/// What the kernel counted for the whole machine up to now; [`Usage::since`] gives what happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time the hypervisor took from each CPU, in nanoseconds, in steps of 10 ms.
    pub steal_ns: Vec<i64>,
    /// Context switches of all threads.
    pub switches: i64,
    /// Interrupts served.
    pub interrupts: i64,
    /// Page faults of all programs that had to read from disk.
    pub major_faults: i64,
    /// System management interrupts since boot, where the machine reports them (Intel, as root).
    pub smi: Option<i64>,
    /// Time for which the CPU quota of this process's control group, or of one above it, kept its threads off their CPUs; of
    /// several CPUs the sum.
    #[serde(default)]
    pub throttled_ns: i64,
    /// Time for which it, or one above it, was frozen, where the kernel counts that (version 2, from Linux 6.18 on).
    #[serde(default)]
    pub frozen_ns: i64,
    /// There is a freezer of version 1, and nothing counts what it takes.
    #[serde(default)]
    pub has_old_freezer: bool,
}

impl Usage {
    /// Reads this machine's counters. Not for the tick: reads files and allocates.
    #[must_use]
    pub fn read() -> Usage {
        Usage::of(&Root::system())
    }

    /// Reads those of the machine a directory stands for.
    #[must_use]
    pub fn of(root: &Root) -> Usage {
        let stat = root.read("/proc/stat").unwrap_or_default();
        let faults = root.read("/proc/vmstat").unwrap_or_default();
        let groups = root.read("/proc/self/cgroup").unwrap_or_default();
        Usage {
            steal_ns: steal(&stat),
            switches: counter(&stat, "ctxt").unwrap_or(0),
            interrupts: counter(&stat, "intr").unwrap_or(0),
            major_faults: counter(&faults, "pgmajfault").unwrap_or(0),
            smi: smi(root),
            throttled_ns: of_group(root, &groups, "cpu.stat", "throttled_usec")
                .max(throttled_of_old_group(root, &groups)),
            frozen_ns: of_group(root, &groups, "cgroup.stat.local", "frozen_usec"),
            has_old_freezer: groups.contains(":freezer:"),
        }
    }

    /// What was counted after `before` was read.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        let steal = self.steal_ns.iter().zip(before.steal_ns.iter().chain(std::iter::repeat(&0)));
        Usage {
            steal_ns: steal.map(|(now, then)| now - then).collect(),
            switches: self.switches - before.switches,
            interrupts: self.interrupts - before.interrupts,
            major_faults: self.major_faults - before.major_faults,
            smi: self.smi.zip(before.smi).map(|(now, then)| now - then),
            throttled_ns: self.throttled_ns - before.throttled_ns,
            frozen_ns: self.frozen_ns - before.frozen_ns,
            has_old_freezer: self.has_old_freezer,
        }
    }

    /// The sum of two stretches of time.
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        let cpus = self.steal_ns.len().max(other.steal_ns.len());
        let steal = |usage: &Usage, cpu| usage.steal_ns.get(cpu).copied().unwrap_or(0);
        Usage {
            steal_ns: (0..cpus).map(|cpu| steal(self, cpu) + steal(other, cpu)).collect(),
            switches: self.switches + other.switches,
            interrupts: self.interrupts + other.interrupts,
            major_faults: self.major_faults + other.major_faults,
            smi: self.smi.or(other.smi).map(|_| self.smi.unwrap_or(0) + other.smi.unwrap_or(0)),
            throttled_ns: self.throttled_ns + other.throttled_ns,
            frozen_ns: self.frozen_ns + other.frozen_ns,
            has_old_freezer: self.has_old_freezer || other.has_old_freezer,
        }
    }

    /// Stolen time of all CPUs together.
    #[must_use]
    pub fn steal_total_ns(&self) -> i64 {
        self.steal_ns.iter().sum()
    }
}

/// A time that control groups of version 2 count in µs.
fn of_group(root: &Root, groups: &str, file: &str, time: &str) -> i64 {
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return 0 };
    most_of_groups(root, "/sys/fs/cgroup", path, file, time) * 1000
}

/// The time for which the CPU quota of version 1 throttled: in ns, and mounted by the names of the controllers.
fn throttled_of_old_group(root: &Root, groups: &str) -> i64 {
    let cpu = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|controller| controller == "cpu").then_some((controllers, path))
    });
    let Some((controllers, path)) = cpu else { return 0 };
    most_of_groups(root, &format!("/sys/fs/cgroup/{controllers}"), path, "cpu.stat", "throttled_time")
}

/// What a control group counts: the most of this process's and those above it.
fn most_of_groups(root: &Root, mount: &str, path: &str, file: &str, name: &str) -> i64 {
    let of = |group: &std::path::Path| {
        let group = group.display().to_string();
        let counted = root.read(&format!("{mount}{}/{file}", group.trim_end_matches('/')));
        counter(&counted.unwrap_or_default(), name).unwrap_or(0)
    };
    std::path::Path::new(path).ancestors().map(of).max().unwrap_or(0)
}

/// The eighth number of each `cpuN` line is time stolen, in clock ticks (proc_stat(5)).
fn steal(stat: &str) -> Vec<i64> {
    let tick_ns = 1_000_000_000 / clock_ticks_per_second();
    let per_cpu = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    per_cpu
        .map(|line| line.split_whitespace().nth(8).and_then(|n| n.parse().ok()).unwrap_or(0) * tick_ns)
        .collect()
}

fn counter(text: &str, name: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.split(' ').next()?.parse().ok())
}

/// Intel counts them in a register of each CPU (MSR 0x34, Intel SDM volume 4), which root reads where the
/// module `msr` is loaded. All CPUs are interrupted together, so the first one's count is the machine's.
fn smi(root: &Root) -> Option<i64> {
    const COUNT: u64 = 0x34;
    let cpu_info = root.read("/proc/cpuinfo")?;
    if field(&cpu_info, "vendor_id") != Some("GenuineIntel") {
        return None;
    }
    let mut bytes = [0; 8];
    let registers = std::fs::File::open(root.path("/dev/cpu/0/msr")).ok()?;
    std::os::unix::fs::FileExt::read_exact_at(&registers, &mut bytes, COUNT).ok()?;
    // The upper half is reserved.
    Some(i64::from(u64::from_ne_bytes(bytes) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        for (path, text) in files {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
            fs::write(root.path(path), text).unwrap();
        }
        (directory, root)
    }

    #[test]
    fn a_realtime_board() {
        let (_keep, root) = machine(&[
            ("/proc/sys/kernel/osrelease", "6.1.0-28-rt-arm64\n"),
            ("/proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.1.119-1\n"),
            ("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0"),
            ("/sys/devices/system/cpu/online", "0-3\n"),
            ("/sys/devices/system/cpu/isolated", "3\n"),
            ("/sys/devices/system/cpu/nohz_full", "(null)\n"),
            ("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
            ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("/proc/meminfo", "MemTotal:        3884332 kB\nMemFree: 1 kB\n"),
        ]);
        let passport = Passport::of(&root);
        assert!(passport.realtime_kernel);
        assert_eq!(passport.cpu, "Raspberry Pi 4 Model B Rev 1.4");
        assert_eq!((passport.cpus_isolated.as_str(), passport.cpus_tickless.as_str()), ("3", ""));
        assert_eq!(passport.governors, ["ondemand"]);
        assert_eq!((passport.memory_kb, passport.rt_share_percent), (3_884_332, 95.0));
        assert_eq!(passport.hypervisor, None);
    }

    #[test]
    fn a_virtual_machine_with_a_dynamic_kernel() {
        let (_keep, root) = machine(&[
            ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC @0\n"),
            ("/sys/kernel/debug/sched/preempt", "none voluntary (full) lazy\n"),
            ("/proc/cpuinfo", "model name\t: AMD EPYC\nflags\t\t: fpu hypervisor sse\n"),
            ("/sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ]);
        let passport = Passport::of(&root);
        assert_eq!((passport.preemption.as_str(), passport.realtime_kernel), ("full", false));
        assert_eq!(passport.hypervisor.as_deref(), Some("QEMU"));
        assert_eq!(passport.rt_share_percent, 100.0);
    }

    #[test]
    fn a_quota_of_a_control_group_above_counts() {
        let (_keep, root) = machine(&[
            ("/proc/self/cgroup", "1:name=systemd:/old\n0::/robots/quadruped\n"),
            ("/sys/fs/cgroup/robots/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 1500\n"),
            ("/sys/fs/cgroup/robots/quadruped/cpu.stat", "usage_usec 9\nthrottled_usec 20\n"),
        ]);
        assert_eq!(Usage::of(&root).throttled_ns, 1_500_000);
    }

    #[test]
    fn a_quota_of_control_groups_of_version_1_counts() {
        let (_keep, root) = machine(&[
            ("/proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/robots/quadruped\n0::/\n"),
            (
                "/sys/fs/cgroup/cpu,cpuacct/robots/cpu.stat",
                "nr_periods 9\nnr_throttled 3\nthrottled_time 1500000\n",
            ),
        ]);
        assert_eq!(Usage::of(&root).throttled_ns, 1_500_000);
    }

    #[test]
    fn a_frozen_control_group_is_counted_where_the_kernel_does() {
        let usage = |frozen_usec| {
            let stat = format!("frozen_usec {frozen_usec}\n");
            let (_keep, root) = machine(&[
                ("/proc/self/cgroup", "0::/robots/quadruped\n"),
                ("/sys/fs/cgroup/robots/cgroup.stat.local", &stat),
            ]);
            Usage::of(&root)
        };
        let during = usage(120_900).since(&usage(900));
        assert_eq!((during.frozen_ns, during.has_old_freezer), (120_000_000, false));
        let (_keep, root) = machine(&[("/proc/self/cgroup", "6:freezer:/\n0::/\n")]);
        assert!(Usage::of(&root).has_old_freezer);
    }

    #[test]
    fn an_empty_machine_is_unknown_and_no_panic() {
        let (_keep, root) = machine(&[]);
        assert_eq!(Passport::of(&root).preemption, "unknown");
        assert_eq!(Usage::of(&root), Usage::default());
    }

    #[test]
    fn counters_are_differences() {
        let stat = |steal: u32, switches: u32| {
            format!(
                "cpu  1 0 3 4 5 0 6 {steal} 0 0\ncpu0 1 0 3 4 5 0 6 7 0 0\ncpu1 1 0 3 4 5 0 6 {steal} 0 0\nintr 77 0 0\nctxt {switches}\n"
            )
        };
        let (_a, before) = machine(&[("/proc/stat", &stat(10, 100)), ("/proc/vmstat", "pgmajfault 5\n")]);
        let (_b, after) = machine(&[("/proc/stat", &stat(14, 180)), ("/proc/vmstat", "pgmajfault 6\n")]);
        let usage = Usage::of(&after).since(&Usage::of(&before));
        assert_eq!((usage.switches, usage.interrupts, usage.major_faults), (80, 0, 1));
        assert_eq!(usage.steal_ns[0], 0);
        assert_eq!(Usage::default().plus(&usage), usage);
        assert_eq!(usage.plus(&usage).switches, 160);
        assert_eq!(usage.steal_total_ns(), usage.steal_ns[1]);
        assert_eq!(usage.steal_ns[1], 4 * 1_000_000_000 / clock_ticks_per_second());
    }

    #[test]
    fn this_machine_has_a_kernel() {
        assert!(!Passport::read().kernel.is_empty());
    }
}
