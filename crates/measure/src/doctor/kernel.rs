//! The kernel: how far it lets itself be interrupted, and its clocks.

use super::{Finding, Level, Machine};
use khz_rt::Passport;

const PREEMPTION: &str = "While the kernel does not let itself be interrupted, a wake-up waits: microseconds with \
                          PREEMPT_RT, milliseconds at worst without.";

pub(super) fn preemption(machine: &Machine) -> Vec<Finding> {
    let passport = Passport::of(&machine.root);
    let what = format!("kernel {} with preemption model {}", passport.kernel, passport.preemption);
    let finding = match passport.preemption.as_str() {
        "realtime" => Finding::good("kernel", what, PREEMPTION),
        "full" | "lazy" | "dynamic" => {
            Finding::new("kernel", Level::Warning, what, PREEMPTION).advise(real_time_kernel(machine))
        }
        _ => Finding::new("kernel", Level::Bad, what, PREEMPTION).advise(real_time_kernel(machine)),
    };
    vec![finding]
}

/// The way to a PREEMPT_RT kernel of the distribution at hand.
fn real_time_kernel(machine: &Machine) -> String {
    let release = machine.root.read("/etc/os-release").unwrap_or_default();
    let is = |name: &str| {
        let named = |line: &str| line.trim_start_matches("ID=").trim_matches('"') == name;
        release.lines().any(|line| line.starts_with("ID=") && named(line))
    };
    let arm = machine.root.has("/proc/device-tree/model");
    if is("debian") || is("raspbian") {
        let architecture = if arm { "arm64" } else { "amd64" };
        format!("sudo apt install linux-image-rt-{architecture} && sudo reboot")
    } else if is("ubuntu") {
        "sudo pro enable realtime-kernel && sudo reboot".into()
    } else if is("fedora") || is("rhel") || is("centos") {
        "sudo dnf install kernel-rt && sudo reboot".into()
    } else {
        "install a kernel built with CONFIG_PREEMPT_RT; until then add preempt=full to the kernel's command line".into()
    }
}

const THROTTLING: &str = "The kernel stops real-time threads that use more than their share of a second, so that a \
                          runaway loop cannot lock the machine; a loop that spins all the time is stopped too.";

pub(super) fn throttling(machine: &Machine) -> Vec<Finding> {
    let share = Passport::of(&machine.root).rt_share_percent;
    let what = format!("real-time threads may use {share:.0} % of each second");
    let back = "sudo sysctl kernel.sched_rt_runtime_us=950000";
    vec![match share {
        90.0..100.0 => Finding::new("kernel", Level::Note, what, THROTTLING).advise(
            "keep `loop.wake` at \"hybrid\" or \"sleep\", which leave the rest by themselves; for \"spin\", or a loop that is \
             never done before its period is over: sudo sysctl kernel.sched_rt_runtime_us=-1",
        ),
        100.0.. => Finding::new("kernel", Level::Note, what, THROTTLING).fix(back),
        _ => Finding::new("kernel", Level::Bad, what, THROTTLING).fix(back),
    }]
}

const CLOCK: &str = "A loop reads the clock some ten times a tick: nanoseconds from a CPU's counter, microseconds and a \
                     bus access from a timer chip.";
const CLOCK_FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

pub(super) fn clock_source(machine: &Machine) -> Vec<Finding> {
    let Some(source) = machine.root.read(CLOCK_FILE) else { return Vec::new() };
    let what = format!("clock source {source}");
    if !matches!(source.as_str(), "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit") {
        return vec![Finding::good("kernel", what, CLOCK)];
    }
    let available = machine.root.read(&CLOCK_FILE.replace("current", "available")).unwrap_or_default();
    let finding = Finding::new("kernel", Level::Bad, what, CLOCK);
    vec![if available.split(' ').any(|name| name == "tsc") {
        finding.fix(format!("echo tsc | sudo tee {CLOCK_FILE}"))
    } else {
        finding.advise(
            "the kernel found the CPU's counter unreliable (`dmesg | grep -i tsc`): update the firmware",
        )
    }]
}

const MIGRATION: &str = "With it, a timer armed by a thread may be served by another CPU's interrupt.";

pub(super) fn timer_migration(machine: &Machine) -> Vec<Finding> {
    match machine.root.number("/proc/sys/kernel/timer_migration") {
        Some(1) => vec![
            Finding::new("kernel", Level::Note, "timers may move between CPUs", MIGRATION)
                .fix("sudo sysctl kernel.timer_migration=0"),
        ],
        Some(0) => vec![Finding::good("kernel", "timers stay on their CPU", MIGRATION)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pretend::found;
    use super::*;

    #[test]
    fn the_kernel_by_preemption_and_distribution() {
        let version = "/proc/sys/kernel/version";
        assert_eq!(found(preemption, &[(version, "#1 SMP PREEMPT_RT Debian")])[0].0, Level::Good);
        let debian = ("/etc/os-release", "NAME=x\nID=debian\n");
        let (level, _, command) = &found(preemption, &[(version, "#1 SMP PREEMPT_DYNAMIC"), debian])[0];
        assert_eq!(
            (*level, command.as_str()),
            (Level::Warning, "sudo apt install linux-image-rt-amd64 && sudo reboot")
        );
        let ubuntu = ("/etc/os-release", "ID=ubuntu");
        let (level, _, command) = &found(preemption, &[(version, "#1 SMP"), ubuntu])[0];
        assert!(*level == Level::Bad && command.contains("pro enable"));
    }

    #[test]
    fn throttling_by_share() {
        let runtime = |us| {
            [("/proc/sys/kernel/sched_rt_runtime_us", us), ("/proc/sys/kernel/sched_rt_period_us", "1000000")]
        };
        // It stops a loop that spins for 50 ms of each second.
        let (level, _, advice) = &found(throttling, &runtime("950000"))[0];
        assert!(*level == Level::Note && advice.contains("loop.wake"), "{advice}");
        assert_eq!(found(throttling, &runtime("-1"))[0].0, Level::Note);
        assert_eq!(found(throttling, &runtime("10000"))[0].0, Level::Bad);
    }

    #[test]
    fn clock_sources() {
        assert_eq!(found(clock_source, &[(CLOCK_FILE, "tsc")])[0].0, Level::Good);
        assert_eq!(found(clock_source, &[(CLOCK_FILE, "arch_sys_counter")])[0].0, Level::Good);
        let available = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
        let (level, _, command) =
            &found(clock_source, &[(CLOCK_FILE, "hpet"), (available, "tsc hpet acpi_pm")])[0];
        assert!(*level == Level::Bad && command.starts_with("echo tsc | sudo tee"), "{command}");
        assert!(found(clock_source, &[(CLOCK_FILE, "hpet")])[0].2.contains("dmesg"));
    }

    #[test]
    fn timers() {
        assert_eq!(found(timer_migration, &[("/proc/sys/kernel/timer_migration", "1")])[0].0, Level::Note);
        assert_eq!(found(timer_migration, &[("/proc/sys/kernel/timer_migration", "0")])[0].0, Level::Good);
    }
}
