//! The kernel's own record of who ran on a CPU, stopped when a tick was late.

use crate::proc::Root;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

/// A ring of the kernel's trace (tracefs) of one CPU: thread switches and interrupts. It overwrites itself until
/// stopped, so what it holds then led up to the stop. Tracing costs each of these events some hundred nanoseconds.
///
/// Its own instance, so other tracing goes on; gone when dropped.
#[derive(Debug)]
pub struct KernelTrace {
    place: PathBuf,
    /// `tracing_on`, open until dropped.
    switch: Option<File>,
    running: bool,
}

const EVENTS: [&str; 5] = [
    "sched/sched_switch",
    "sched/sched_wakeup",
    "irq/irq_handler_entry",
    "irq/softirq_entry",
    "timer/hrtimer_expire_entry",
];
/// Holds some thousand events.
const RING_KB: &str = "512";

impl KernelTrace {
    /// Begins to trace a CPU.
    ///
    /// # Errors
    /// If the kernel does not trace, does not let this user, or tracefs is not mounted; the error states what to do.
    pub fn start(cpu: usize) -> io::Result<KernelTrace> {
        KernelTrace::within(&Root::system(), cpu)
    }

    fn within(root: &Root, cpu: usize) -> io::Result<KernelTrace> {
        let instances = root.path("/sys/kernel/tracing/instances");
        if !instances.exists() {
            let help = "no kernel trace to be seen: as root, mount -t tracefs tracefs /sys/kernel/tracing";
            return Err(io::Error::new(io::ErrorKind::NotFound, help));
        }
        let place = instances.join(format!("khz-{}", std::process::id()));
        let refused = |error: io::Error| {
            io::Error::new(error.kind(), format!("kernel trace {}: {error}", place.display()))
        };
        fs::create_dir(&place).map_err(refused)?;
        let set_up = || {
            fs::write(place.join("buffer_size_kb"), RING_KB)?;
            fs::write(place.join("trace_clock"), "mono")?;
            fs::write(place.join("tracing_cpumask"), mask(cpu))?;
            // Not every kernel has every event.
            let enabled = EVENTS
                .iter()
                .filter(|event| fs::write(place.join(format!("events/{event}/enable")), "1").is_ok());
            if enabled.count() == 0 {
                return Err(io::Error::other("this kernel has none of the events"));
            }
            let mut switch = File::options().write(true).open(place.join("tracing_on"))?;
            switch.write_all(b"1")?;
            Ok(switch)
        };
        match set_up() {
            Ok(switch) => Ok(KernelTrace { switch: Some(switch), running: true, place }),
            Err(error) => {
                let error = refused(error);
                let _ = fs::remove_dir(&place);
                Err(error)
            }
        }
    }

    /// Stops it, the first time; later calls do nothing.
    ///
    /// Realtime: one system call, no allocation.
    #[inline]
    pub fn stop(&mut self) {
        if let Some(switch) = self.switch.as_mut().filter(|_| self.running) {
            self.running = false;
            // A ring that cannot be stopped shows later events; nothing else is lost.
            let _ = switch.write_all(b"0");
        }
    }

    /// Whether it was stopped by [`KernelTrace::stop`].
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        !self.running
    }

    /// The last `most` events before the stop, oldest first, as the kernel writes them; times are seconds of
    /// `CLOCK_MONOTONIC`. Not for the tick.
    #[must_use]
    pub fn events(&self, most: usize) -> Vec<String> {
        let text = fs::read(self.place.join("trace")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let events: Vec<&str> =
            text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        events[events.len().saturating_sub(most)..].iter().map(|line| line.trim().to_owned()).collect()
    }
}

impl Drop for KernelTrace {
    fn drop(&mut self) {
        // An instance with an open file is busy and cannot be removed.
        self.switch = None;
        // An instance that stays behind costs its ring's memory until the next start of the machine.
        let _ = fs::remove_dir(&self.place);
    }
}

/// One CPU as the kernel's masks are written: 32 bits a group, the highest first.
fn mask(cpu: usize) -> String {
    let groups = (0..=cpu / 32).rev();
    let group = |group| format!("{:08x}", if group == cpu / 32 { 1u32 << (cpu % 32) } else { 0 });
    groups.map(group).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_as_the_kernel_writes_them() {
        assert_eq!(
            (mask(0), mask(5), mask(33)),
            ("00000001".into(), "00000020".into(), "00000002,00000000".into())
        );
    }

    #[test]
    fn where_nothing_is_mounted_the_error_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let error = KernelTrace::within(&Root::at(directory.path()), 0).unwrap_err();
        assert!(error.to_string().contains("mount -t tracefs"), "{error}");
    }

    #[test]
    fn a_refusal_names_the_place() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        fs::create_dir_all(root.path("/sys/kernel/tracing/instances")).unwrap();
        // No kernel puts its files into the new instance, so setting it up fails.
        let error = KernelTrace::within(&root, 0).unwrap_err();
        assert!(error.to_string().contains("instances/khz-"), "{error}");
    }
}
