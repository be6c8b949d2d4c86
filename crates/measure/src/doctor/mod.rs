//! Is this machine fit for a loop at 1 kHz? Each check is a pure function of what the machine reports.
//!
//! ```no_run
//! use khz_measure::doctor::{Machine, examine, worst};
//! let findings = examine(&Machine::here());
//! for finding in &findings {
//!     println!("{finding}");
//! }
//! println!("{:?}", worst(&findings));
//! ```

mod cpu;
mod kernel;
mod memory;
mod network;
mod rights;
mod setup;
mod usb;

pub use khz_page::Level;
pub use setup::{File, files, install_commands};

use khz_rt::proc::Root;
use serde::Serialize;
use std::fmt;
use std::process::Command;

/// What is known of the machine: its `/proc`, `/sys` and `/dev`, and the output of programs.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where the files are read from.
    pub root: Root,
    /// The output of `ethtool -c` for each network card, by the card's name.
    pub coalescing: Vec<(String, String)>,
}

impl Machine {
    /// The one this runs on. Runs `ethtool` for each network card, if it is installed.
    #[must_use]
    pub fn here() -> Machine {
        let root = Root::system();
        let cards = network::cards(&root).into_iter();
        let coalescing = cards.filter_map(|card| ethtool(&card).map(|text| (card, text))).collect();
        Machine { root, coalescing }
    }

    /// One that a directory laid out like a root stands for.
    #[must_use]
    pub fn at(root: Root) -> Machine {
        Machine { root, coalescing: Vec::new() }
    }
}

fn ethtool(card: &str) -> Option<String> {
    let output = Command::new("ethtool").args(["-c", card]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One thing found, good or bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub topic: &'static str,
    /// How good it is.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// Why it matters for a loop at 1 kHz.
    pub why: &'static str,
    /// What fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// What fixes a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// What does it by itself, now: a line for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What to do where no command does it by itself, or what to know of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Needs root; such commands begin with `sudo`.
    pub root: bool,
}

impl Fix {
    /// What a line for a shell does by itself.
    pub fn command(line: impl Into<String>) -> Self {
        Self::new(Some(line.into()), None)
    }

    fn new(command: Option<String>, note: Option<String>) -> Self {
        let root = command.iter().chain(&note).any(|text| text.contains("sudo "));
        Self { command, note, root }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.command, &self.note) {
            (Some(command), Some(note)) => write!(f, "{command} ({note})"),
            (only, None) | (None, only) => f.write_str(only.as_deref().unwrap_or_default()),
        }
    }
}

impl Finding {
    pub(crate) fn new(
        topic: &'static str,
        level: Level,
        what: impl Into<String>,
        why: &'static str,
    ) -> Finding {
        Finding { topic, level, what: what.into(), why, fix: None }
    }

    pub(crate) fn good(topic: &'static str, what: impl Into<String>, why: &'static str) -> Finding {
        Finding::new(topic, Level::Good, what, why)
    }

    /// A line for a shell fixes it by itself.
    #[must_use]
    pub(crate) fn fix(self, command: impl Into<String>) -> Finding {
        Finding { fix: Some(Fix::command(command)), ..self }
    }

    /// As [`Finding::fix`], with what to know of the command.
    #[must_use]
    pub(crate) fn fix_but(self, command: &str, note: &str) -> Finding {
        Finding { fix: Some(Fix::new(Some(command.to_owned()), Some(note.to_owned()))), ..self }
    }

    /// No command fixes it by itself: it needs a choice, an editor or a new start.
    #[must_use]
    pub(crate) fn advise(self, note: impl Into<String>) -> Finding {
        Finding { fix: Some(Fix::new(None, Some(note.into()))), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Good => "good",
            Level::Note => "note",
            Level::Warning => "WARNING",
            Level::Bad => "BAD",
        };
        write!(f, "{level:<8} {:<9} {}", self.topic, self.what)?;
        if self.level == Level::Good {
            return Ok(());
        }
        write!(f, "\n{:19}{}", "", self.why)?;
        if let Some(fix) = &self.fix {
            write!(f, "\n{:19}→ {}", "", fix)?;
        }
        Ok(())
    }
}

/// All checks; the worst findings first, otherwise in the order of the checks.
#[must_use]
pub fn examine(machine: &Machine) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(machine)).collect();
    sort(&mut findings);
    findings
}

/// Puts the worst first.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
}

/// The level of the worst finding; good if there is none.
#[must_use]
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Good)
}

type Check = fn(&Machine) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    kernel::preemption,
    kernel::throttling,
    kernel::clock_source,
    kernel::timer_migration,
    rights::priority,
    rights::locked_memory,
    rights::real_time_group,
    rights::container,
    cpu::count_and_isolation,
    cpu::governor,
    cpu::idle_states,
    cpu::siblings,
    cpu::interrupts,
    cpu::hypervisor,
    cpu::firmware,
    cpu::heat,
    memory::pressure,
    memory::swap,
    memory::huge_pages,
    network::coalescing,
    network::busy_poll,
    network::serial_latency,
    usb::autosuspend,
    usb::hubs,
    usb::gs_usb,
];

#[cfg(test)]
pub(crate) mod pretend {
    use super::{Finding, Machine};
    use khz_rt::proc::Root;
    use std::fs;

    /// A machine made of files.
    pub(crate) struct Pretend {
        pub(crate) machine: Machine,
        _directory: tempfile::TempDir,
    }

    pub(crate) fn machine<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Pretend {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        for (path, text) in files {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
            fs::write(root.path(path), text).unwrap();
        }
        Pretend { machine: Machine::at(root), _directory: directory }
    }

    /// What a check finds on a machine of these files: level, what, and what fixes it.
    pub(crate) fn found(
        check: fn(&Machine) -> Vec<Finding>,
        files: &[(&str, &str)],
    ) -> Vec<(super::Level, String, String)> {
        let message = |finding: Finding| {
            (finding.level, finding.what, finding.fix.map_or(String::new(), |fix| fix.to_string()))
        };
        check(&machine(files).machine).into_iter().map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_machine_breaks_no_check() {
        let findings = examine(&pretend::machine::<&str>(&[]).machine);
        assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.level)));
    }

    #[test]
    fn this_machine_can_be_examined() {
        assert!(!examine(&Machine::here()).is_empty());
    }

    #[test]
    fn whatever_is_not_well_says_what_to_do() {
        let noisy = pretend::machine(&[
            ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC"),
            ("/proc/cpuinfo", "flags : hypervisor"),
            ("/proc/self/limits", "Max realtime priority 0 0\nMax locked memory 8388608 8388608 bytes\n"),
            ("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave"),
            ("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1000 10 -2\n"),
        ]);
        for finding in examine(&noisy.machine) {
            assert_eq!(finding.fix.is_none(), finding.level == Level::Good, "{finding}");
            assert!(!finding.why.is_empty());
        }
    }

    #[test]
    fn every_command_is_one_that_a_shell_understands() {
        let mut ill = pretend::machine(&[
            ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC"),
            ("/proc/sys/kernel/timer_migration", "1"),
            ("/proc/sys/kernel/sched_rt_runtime_us", "10000"),
            ("/proc/sys/kernel/sched_rt_period_us", "1000000"),
            ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
            ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet"),
            ("/proc/self/cgroup", "9:cpu,cpuacct:/user\n0::/app\n"),
            ("/sys/fs/cgroup/cpu/user/cpu.rt_runtime_us", "0"),
            ("/sys/fs/cgroup/app/cpu.max", "50000 100000"),
            ("/proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-1\n"),
            ("/sys/devices/system/cpu/online", "0-3"),
            ("/sys/devices/system/cpu/isolated", "3"),
            ("/sys/devices/system/cpu/smt/active", "1"),
            ("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "133"),
            ("/proc/irq/36/effective_affinity_list", "3"),
            ("/proc/irq/37/effective_affinity_list", "3"),
            ("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1000 10 -2\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
            ("/sys/class/net/eth0/type", "1"),
            ("/sys/class/net/eth0/device/vendor", "x"),
            ("/proc/sys/net/core/busy_poll", "0"),
            ("/sys/bus/usb-serial/devices/ttyUSB0/latency_timer", "16"),
            ("/sys/bus/usb/devices/1-1:1.0/ttyUSB0/dev", "188:0"),
            ("/sys/bus/usb/devices/1-1/power/control", "auto"),
        ]);
        ill.machine.coalescing = vec![("eth0".into(), "Adaptive RX: on\nrx-usecs: 3\n".into())];
        let fixes = examine(&ill.machine).into_iter().filter_map(|finding| finding.fix);
        let commands: Vec<_> = fixes.filter_map(|fix| fix.command).collect();
        assert_eq!(commands.len(), 12, "{commands:#?}");
        for command in commands {
            let read = std::process::Command::new("sh").args(["-n", "-c", &command]).status().unwrap();
            assert!(read.success() && !command.contains(['<', '\n']), "{command}");
        }
    }

    #[test]
    fn shown_with_why_and_how_only_when_not_well() {
        let bad = Finding::new("rights", Level::Bad, "no right", "It matters.").fix("sudo true");
        assert_eq!(
            bad.to_string(),
            "BAD      rights    no right\n                   It matters.\n                   → sudo true"
        );
        assert!(bad.fix.unwrap().root);
        assert_eq!(Finding::good("rights", "all", "It matters.").to_string(), "good     rights    all");
    }
}
