//! A process that records is killed: what it had printed, but for the last moment, is in the log. How long that moment is, is tested
//! where time is an argument (`a_killed_recorder_leaves_all_but_the_last_tenth_of_a_second` in `crates/record`).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop at what it did not expect")]

use khz_robot::recorder::{LogConfig, RecorderBuilder};
use khz_tlog::{Reader, Type, Value, Width};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The variable with the child's log.
const LOG: &str = "KHZ_TEST_LOG";
/// A busy machine must not fail a test. A test that fails waits so long.
const GENEROUS: Duration = Duration::from_secs(60);

/// The child: records a number each millisecond, and then prints it.
#[test]
fn child() {
    let Some(path) = std::env::var(LOG).ok() else { return };
    let mut builder =
        RecorderBuilder::new(LogConfig { path, keep_free_mib: 0, ..Default::default() }).epoch_ns(0);
    let number = Type::Uint(Width::Eight);
    let id = builder.record("number", &number).unwrap();
    let mut tap = builder.tap(16 << 20);
    let _recorder = builder.start().unwrap();
    for n in 0..60_000u64 {
        let now_ns = khz_rt::now_ns();
        assert!(tap.push_value(id, now_ns, &n));
        println!("wrote {n}");
        std::io::stdout().flush().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a recording child once it has printed number `count` and the log has it. Returns the last number printed.
fn kill_after(count: u64, log: &Path) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(LOG, log)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let message = line.split(' ').skip_while(|word| *word != "wrote").nth(1).and_then(|n| n.parse().ok());
        let Some(n) = message else { continue };
        last = n;
        if last == count {
            wait_for(count, log);
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    last
}

/// Waits until a log that is being written has this number.
fn wait_for(number: u64, log: &Path) {
    let begun = Instant::now();
    while !log.exists() || numbers(log) <= number {
        assert!(begun.elapsed() < GENEROUS, "{number} was reported and never written");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How many numbers there are, which must be 0, 1, 2, …; none in a log of which not even the head is written.
fn numbers(log: &Path) -> u64 {
    let Ok(mut reader) = Reader::open(std::fs::File::open(log).unwrap()) else { return 0 };
    reader.select(["number"]);
    let mut count = 0;
    while let Ok(Some(item)) = reader.next() {
        assert_eq!(item.value().unwrap(), Value::Uint(count));
        count += 1;
    }
    count
}

#[test]
fn what_a_killed_process_recorded_is_soon_in_its_log_and_can_be_repaired() {
    let folder = tempfile::tempdir().unwrap();
    for count in [300, 433, 571, 704, 850] {
        let log = folder.path().join(format!("{count}.tlog"));
        let last = kill_after(count, &log);
        let found = numbers(&log);
        assert!(count < found && found <= last + 2, "{count} {found} {last}");

        let repaired = folder.path().join("repaired.tlog");
        let repair = Command::new(env!("CARGO_BIN_EXE_khz"))
            .args(["log", "repair", "--force", "-o"])
            .args([&repaired, &log])
            .output()
            .unwrap();
        // 1 where its last block is torn.
        assert!(matches!(repair.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&repair.stderr));
        assert!(Reader::open(std::fs::File::open(&repaired).unwrap()).unwrap().is_finished());
        assert_eq!(numbers(&repaired), found);
    }
}
