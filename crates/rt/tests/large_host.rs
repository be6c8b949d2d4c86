//! A loop in a process that maps gigabytes: a file of its own, because it locks the memory of its whole process.

use khz_rt::{Policy, Setup};

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// A learning library in the process made that 6 GB, and took 5 s.
#[test]
fn what_is_mapped_and_never_touched_does_not_fill_the_ram() {
    const GIGABYTES: usize = 2 << 30;
    let untouched = Vec::<u8>::with_capacity(GIGABYTES);
    let setup = Setup { policy: Policy::Other, stay_awake: false, strict: false, ..Setup::default() };
    let report = setup.apply().expect("nothing is insisted on").report;
    let memory = report.settings.iter().find(|setting| setting.name == "memory").expect("asked for");
    assert!(untouched.capacity() >= GIGABYTES && resident_kb() < 1 << 20, "{} kB: {memory:?}", resident_kb());
    // Where the kernel refuses, nothing was locked at all.
    assert!(!memory.ok || memory.granted.contains("as it is touched"), "{memory:?}");
}
