//! Memory: whether there is enough of it.

use super::{Finding, Level, Machine};
use khz_rt::proc::field;

const PRESSURE: &str =
    "When memory is short the kernel reclaims pages, and a thread that asks for one waits.";

pub(super) fn pressure(machine: &Machine) -> Vec<Finding> {
    let info = machine.root.read("/proc/meminfo").unwrap_or_default();
    let kb = |name: &str| field(&info, name).and_then(|value| value.split(' ').next()?.parse::<f64>().ok());
    let (Some(total), Some(free)) = (kb("MemTotal"), kb("MemAvailable")) else { return Vec::new() };
    let stalled = stalled_percent(&machine.root.read("/proc/pressure/memory").unwrap_or_default());
    let share = 100.0 * free / total.max(1.0);
    let what = format!(
        "{:.0} MB of memory free ({share:.0} %), programs stalled for it {stalled:.1} % of the time",
        free / 1024.0
    );
    vec![if share >= 10.0 && stalled < 1.0 {
        Finding::good("memory", what, PRESSURE)
    } else {
        Finding::new("memory", Level::Warning, what, PRESSURE)
            .advise("end programs that are not needed: ps --sort=-rss -eo rss,comm | head")
    }]
}

/// The last ten seconds' share from `/proc/pressure/memory`.
fn stalled_percent(text: &str) -> f64 {
    let some = text.lines().find_map(|line| line.strip_prefix("some avg10="));
    some.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0.0)
}

const SWAP: &str = "A page that was swapped out is read from disk again when it is needed, which takes milliseconds. Locked \
                    memory is safe from it; other programs the robot depends on are not.";

pub(super) fn swap(machine: &Machine) -> Vec<Finding> {
    let swaps = machine.root.read("/proc/swaps").unwrap_or_default();
    let used: Vec<u64> =
        swaps.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)?.parse().ok()).collect();
    if used.is_empty() {
        return vec![Finding::good("memory", "no swap", SWAP)];
    }
    let used_mb = used.iter().sum::<u64>() / 1024;
    let level = if used_mb > 0 { Level::Warning } else { Level::Note };
    let what = format!("swap is on, {used_mb} MB of it used");
    vec![
        Finding::new("memory", level, what, SWAP).fix_but("sudo swapoff -a", "and take it out of /etc/fstab"),
    ]
}

const HUGE: &str =
    "The kernel joins small pages to large ones in the background and stops their users meanwhile.";

pub(super) fn huge_pages(machine: &Machine) -> Vec<Finding> {
    let enabled = machine.root.read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !enabled.contains("[always]") {
        return Vec::new();
    }
    let finding = Finding::new("memory", Level::Note, "transparent huge pages are always on", HUGE);
    vec![finding.fix("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")]
}

#[cfg(test)]
mod tests {
    use super::super::pretend::found;
    use super::*;

    #[test]
    fn little_memory_and_stalls() {
        let plenty = ("/proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
        assert_eq!(found(pressure, &[plenty])[0].0, Level::Good);
        let stalled =
            ("/proc/pressure/memory", "some avg10=12.50 avg60=1.00 avg300=0.10 total=9\nfull avg10=0\n");
        assert!(found(pressure, &[plenty, stalled])[0].1.contains("12.5 %"));
        let scarce = ("/proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 50000 kB\n");
        assert_eq!(found(pressure, &[scarce])[0].0, Level::Warning);
    }

    #[test]
    fn swap_by_use() {
        let table = |used: &'static str| ("/proc/swaps", used);
        assert_eq!(found(swap, &[])[0].0, Level::Good);
        assert_eq!(
            found(swap, &[table("Filename Type Size Used Priority\n/swap file 9999999 0 -2")])[0].0,
            Level::Note
        );
        assert_eq!(
            found(swap, &[table("Filename Type Size Used Priority\n/swap file 9999999 20480 -2")])[0].0,
            Level::Warning
        );
    }

    #[test]
    fn huge_pages_when_always_on() {
        let file = "/sys/kernel/mm/transparent_hugepage/enabled";
        assert_eq!(found(huge_pages, &[(file, "[always] madvise never")])[0].0, Level::Note);
        assert_eq!(found(huge_pages, &[(file, "always [madvise] never")]), []);
    }
}
