//! CPUs: who else uses them, how fast they run and how deep they sleep.

use super::{Finding, Level, Machine};
use khz_rt::proc::cpu_list;
use khz_rt::{Passport, Usage};

const ISOLATION: &str =
    "On a CPU of its own the loop shares caches, timer interrupts and kernel work with no other thread.";

pub(super) fn count_and_isolation(machine: &Machine) -> Vec<Finding> {
    let passport = Passport::of(&machine.root);
    let (online, isolated) = (cpu_list(&passport.cpus_online), &passport.cpus_isolated);
    let Some(&last) = online.last() else { return Vec::new() };
    if online.len() == 1 {
        let why =
            "The loop, its recorder and everything else share one CPU; a fast bus cycle is still possible.";
        let finding = Finding::new("cpu", Level::Warning, "one CPU only", why);
        return vec![finding.advise("use a machine with two or more CPUs; give a virtual one another")];
    }
    let line = |cpus: &str| {
        let others = others(&online, &cpu_list(cpus));
        format!(
            "add to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then sudo update-grub): \
             isolcpus=domain,managed_irq,{cpus} nohz_full={cpus} rcu_nocbs={cpus} irqaffinity={others}"
        )
    };
    if isolated.is_empty() {
        let what = format!("no CPU of {} is kept for the loop (isolcpus)", online.len());
        return vec![Finding::new("cpu", Level::Note, what, ISOLATION).advise(line(&last.to_string()))];
    }
    let command_line = machine.root.read("/proc/cmdline").unwrap_or_default();
    let lacking: Vec<&str> =
        ["nohz_full=", "rcu_nocbs="].into_iter().filter(|word| !command_line.contains(word)).collect();
    let what = format!("CPU {isolated} is kept for the loop");
    vec![if lacking.is_empty() {
        Finding::good("cpu", what, ISOLATION)
    } else {
        let what = format!("{what}, but without {}", lacking.join(" and ").replace('=', ""));
        Finding::new("cpu", Level::Note, what, ISOLATION).advise(line(isolated))
    }]
}

/// The CPUs that are left for everything but the loop, as the kernel takes them.
fn others(online: &[usize], kept: &[usize]) -> String {
    let others: Vec<String> = online.iter().filter(|cpu| !kept.contains(cpu)).map(usize::to_string).collect();
    others.join(",")
}

const GOVERNOR: &str = "A CPU that slows down between ticks does each tick's work at the low frequency.";

pub(super) fn governor(machine: &Machine) -> Vec<Finding> {
    let governors = Passport::of(&machine.root).governors;
    if governors.is_empty() {
        return Vec::new();
    }
    let what = format!("frequency governor {}", governors.join(", "));
    vec![if governors == ["performance"] {
        Finding::good("cpu", what, GOVERNOR)
    } else {
        Finding::new("cpu", Level::Warning, what, GOVERNOR)
            .fix("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
    }]
}

const IDLE: &str = "Leaving a deep idle state takes up to hundreds of microseconds, at the very moment a tick is due. \
                    khz holds /dev/cpu_dma_latency at 0 while it runs, if it may.";
/// An idle state that takes longer to leave delays a wake-up noticeably.
const SLOW_EXIT_US: i64 = 20;

pub(super) fn idle_states(machine: &Machine) -> Vec<Finding> {
    let root = &machine.root;
    let place = "/sys/devices/system/cpu/cpu0/cpuidle";
    let exits =
        root.list(place).into_iter().filter_map(|state| root.number(&format!("{place}/{state}/latency")));
    let deepest_us = exits.max().unwrap_or(0);
    if deepest_us < SLOW_EXIT_US {
        return vec![Finding::good("cpu", "no idle state that is slow to leave", IDLE)];
    }
    let what = format!("deepest idle state takes {deepest_us} µs to leave");
    let file = std::fs::File::options().write(true).open(root.path("/dev/cpu_dma_latency"));
    vec![if file.is_ok() {
        Finding::good("cpu", format!("{what}, and khz may forbid it"), IDLE)
    } else {
        Finding::new("cpu", Level::Warning, format!("{what}, and this user may not forbid it"), IDLE)
            .advise(super::rights::advice(machine).idle_states())
    }]
}

const SIBLINGS: &str = "Two threads of one core take turns at its units, so a busy sibling slows the loop.";

pub(super) fn siblings(machine: &Machine) -> Vec<Finding> {
    match machine.root.number("/sys/devices/system/cpu/smt/active") {
        Some(1) => {
            vec![Finding::new("cpu", Level::Note, "cores run two threads each (SMT)", SIBLINGS).advise(
                "echo off | sudo tee /sys/devices/system/cpu/smt/control (or leave the loop's sibling idle)",
            )]
        }
        _ => Vec::new(),
    }
}

const INTERRUPTS: &str =
    "A device's interrupt on the loop's CPU runs before the loop, for as long as its driver likes.";

/// Only where CPUs are kept free is it clear where interrupts should not be.
pub(super) fn interrupts(machine: &Machine) -> Vec<Finding> {
    let root = &machine.root;
    let passport = Passport::of(root);
    let isolated = cpu_list(&passport.cpus_isolated);
    if isolated.is_empty() {
        return Vec::new();
    }
    let served_on = |irq: &String| {
        let file = |name: &str| root.read(&format!("/proc/irq/{irq}/{name}"));
        file("effective_affinity_list").or_else(|| file("smp_affinity_list")).unwrap_or_default()
    };
    let strays = |irq: &String| cpu_list(&served_on(irq)).iter().any(|cpu| isolated.contains(cpu));
    let numbers = root.list("/proc/irq").into_iter().filter(|name| name.parse::<u32>().is_ok());
    let strays: Vec<String> = numbers.filter(strays).collect();
    if strays.is_empty() {
        return vec![Finding::good("cpu", "no device interrupt on the loop's CPU", INTERRUPTS)];
    }
    let others = others(&cpu_list(&passport.cpus_online), &isolated);
    let what = format!("interrupts {} are served on the loop's CPU", strays.join(", "));
    let fix = format!(
        "for i in {}; do echo {} | sudo tee /proc/irq/$i/smp_affinity_list; done",
        strays.join(" "),
        others
    );
    vec![Finding::new("cpu", Level::Warning, what, INTERRUPTS).fix(fix)]
}

const HYPERVISOR: &str = "A hypervisor stops a virtual CPU whenever it likes, for milliseconds (steal time); nothing \
                          inside the machine can prevent it.";

pub(super) fn hypervisor(machine: &Machine) -> Vec<Finding> {
    let Some(hypervisor) = Passport::of(&machine.root).hypervisor else {
        return vec![Finding::good("cpu", "no hypervisor", HYPERVISOR)];
    };
    let steal = steal_percent(&machine.root.read("/proc/stat").unwrap_or_default());
    let what = format!("virtual machine ({hypervisor}), {steal:.2} % of its CPU time stolen since the start");
    let level = if steal >= 0.5 { Level::Bad } else { Level::Warning };
    let fix = "run robots on real hardware; else give the guest CPUs of the host's own (virsh vcpupin, isolcpus there)";
    vec![Finding::new("cpu", level, what, HYPERVISOR).advise(fix)]
}

/// Stolen time of all time, from the first line of `/proc/stat`.
fn steal_percent(stat: &str) -> f64 {
    let line = stat.lines().next().unwrap_or_default();
    let times: Vec<f64> =
        line.split_whitespace().skip(1).take(8).filter_map(|time| time.parse().ok()).collect();
    let all: f64 = times.iter().sum();
    if all > 0.0 { 100.0 * times.get(7).copied().unwrap_or(0.0) / all } else { 0.0 }
}

const FIRMWARE: &str = "System management interrupts stop all CPUs for the firmware, unseen by the kernel, up to hundreds \
                        of microseconds each.";

pub(super) fn firmware(machine: &Machine) -> Vec<Finding> {
    let Some(count) = Usage::of(&machine.root).smi else { return Vec::new() };
    let uptime = machine.root.read("/proc/uptime").unwrap_or_default();
    let seconds: f64 = uptime.split(' ').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0);
    let per_hour = count as f64 / (seconds / 3600.0).max(1.0);
    let what = format!("{count} firmware interrupts (SMI) since the start, {per_hour:.0} an hour");
    vec![if per_hour < 60.0 {
        Finding::good("cpu", what, FIRMWARE)
    } else {
        Finding::new("cpu", Level::Warning, what, FIRMWARE)
            .advise("in the firmware's settings turn off USB legacy support, power and fan management by SMI; update it")
    }]
}

const HEAT: &str = "A CPU that is too hot is slowed down, and with it every tick.";

pub(super) fn heat(machine: &Machine) -> Vec<Finding> {
    let count = machine.root.number("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count");
    match count {
        Some(0) => vec![Finding::good("cpu", "never slowed down for heat", HEAT)],
        Some(count) => vec![
            Finding::new("cpu", Level::Warning, format!("slowed down for heat {count} times"), HEAT)
                .advise("cool it better: clean the fan, add a heat sink"),
        ],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pretend::found;
    use super::*;

    const CPUS: (&str, &str) = ("/sys/devices/system/cpu/online", "0-3");
    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "3");

    #[test]
    fn isolation() {
        assert!(
            found(count_and_isolation, &[CPUS])[0].2.contains("nohz_full=3 rcu_nocbs=3 irqaffinity=0,1,2")
        );
        let two = ("/sys/devices/system/cpu/isolated", "2-3");
        assert!(found(count_and_isolation, &[CPUS, two])[0].2.ends_with("rcu_nocbs=2-3 irqaffinity=0,1"));
        let half = found(count_and_isolation, &[CPUS, ISOLATED, ("/proc/cmdline", "isolcpus=3 nohz_full=3")]);
        assert_eq!(half[0].1, "CPU 3 is kept for the loop, but without rcu_nocbs");
        let whole = ("/proc/cmdline", "isolcpus=3 nohz_full=3 rcu_nocbs=3");
        assert_eq!(found(count_and_isolation, &[CPUS, ISOLATED, whole])[0].0, Level::Good);
        let one = found(count_and_isolation, &[("/sys/devices/system/cpu/online", "0")]);
        assert_eq!(one[0].0, Level::Warning);
    }

    #[test]
    fn governors() {
        let policy = |n: usize| {
            [
                "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
            ][n]
        };
        assert_eq!(found(governor, &[(policy(0), "performance")])[0].0, Level::Good);
        let mixed = found(governor, &[(policy(0), "performance"), (policy(1), "schedutil")]);
        assert_eq!(
            (mixed[0].0, mixed[0].1.as_str()),
            (Level::Warning, "frequency governor performance, schedutil")
        );
        assert_eq!(found(governor, &[]), []);
    }

    #[test]
    fn idle() {
        let state = |us| ("/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", us);
        assert_eq!(found(idle_states, &[state("2")])[0].0, Level::Good);
        let deep = found(idle_states, &[state("133")]);
        assert_eq!(deep[0].0, Level::Warning);
        assert!(deep[0].1.contains("133 µs"));
        assert_eq!(found(idle_states, &[state("133"), ("/dev/cpu_dma_latency", "")])[0].0, Level::Good);
    }

    #[test]
    fn interrupts_on_the_loops_cpu() {
        let irq = ("/proc/irq/36/effective_affinity_list", "3");
        let other = ("/proc/irq/37/smp_affinity_list", "0-1");
        let strays = found(interrupts, &[CPUS, ISOLATED, irq, other]);
        assert_eq!(strays[0].2, "for i in 36; do echo 0,1,2 | sudo tee /proc/irq/$i/smp_affinity_list; done");
        assert_eq!(found(interrupts, &[CPUS, ISOLATED, other])[0].0, Level::Good);
        assert_eq!(found(interrupts, &[CPUS, irq]), []);
    }

    #[test]
    fn hypervisors_by_what_they_steal() {
        let guest = ("/proc/cpuinfo", "flags\t: hypervisor\n");
        let stat = |steal| ("/proc/stat", steal);
        assert_eq!(found(hypervisor, &[guest, stat("cpu  50 0 0 940 0 0 0 10 0 0")])[0].0, Level::Bad);
        let little = &found(hypervisor, &[guest, stat("cpu  9990 0 0 0 0 0 0 10 0 0")])[0];
        assert!(little.0 == Level::Warning && little.1.contains("0.10 %"), "{little:?}");
        assert_eq!(found(hypervisor, &[stat("")])[0].0, Level::Good);
    }

    #[test]
    fn firmware_interrupts_by_the_hour() {
        let intel = ("/proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
        let count = |count: u64| {
            let mut msr = vec![0u8; 0x34];
            msr.extend(count.to_ne_bytes());
            let files: [(&str, &[u8]); 3] =
                [(intel.0, intel.1.as_bytes()), ("/dev/cpu/0/msr", &msr), ("/proc/uptime", b"36000.00 1.00")];
            firmware(&super::super::pretend::machine(&files).machine)[0].level
        };
        assert_eq!((count(100), count(100_000)), (Level::Good, Level::Warning));
    }

    #[test]
    fn smt_and_heat() {
        assert_eq!(found(siblings, &[("/sys/devices/system/cpu/smt/active", "1")])[0].0, Level::Note);
        let hot = ("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "7");
        assert!(found(heat, &[hot])[0].1.contains("7 times"));
    }
}
