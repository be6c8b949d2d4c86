//! A process that records is killed: what it had told of is in the log, but for the last moment.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop at what it did not expect")]

use khz_robot::recorder::{LogConfig, Plan};
use khz_tlog::{Reader, Type, Value, Width};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Tells the child where to record.
const LOG: &str = "KHZ_TEST_LOG";
/// What may be lost, µs.
const PROMISE_US: i64 = 250_000;

/// The child: records a number each millisecond, and then tells it with its time.
#[test]
fn child() {
    let Some(path) = std::env::var(LOG).ok() else { return };
    let mut plan = Plan::new(LogConfig { path, keep_free_mib: 0, ..Default::default() }).epoch_ns(0);
    let number = Type::Uint(Width::Eight);
    let id = plan.record("number", &number).unwrap();
    let mut tap = plan.tap(16 << 20);
    let _recorder = plan.start().unwrap();
    for n in 0..60_000u64 {
        let now_ns = khz_rt::now_ns();
        assert!(tap.push_value(id, now_ns, &n));
        println!("told {n} {}", now_ns / 1000);
        std::io::stdout().flush().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Kills a recording child once it has told `count` numbers. Returns the last number told, and its time in µs.
fn kill_after(count: u64, log: &Path) -> (u64, i64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(LOG, log)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = (0, 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let mut words = line.split(' ').skip_while(|word| *word != "told").skip(1);
        let (Some(n), Some(us)) = (words.next(), words.next()) else { continue };
        let Ok(us) = us.parse() else { continue };
        last = (n.parse().unwrap(), us);
        if last.0 == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    last
}

/// How many numbers there are, which must be 0, 1, 2, …; and the time of the last.
fn numbers(log: &Path) -> (u64, i64) {
    let mut reader = Reader::open(std::fs::File::open(log).unwrap()).unwrap();
    reader.select(["number"]);
    let (mut count, mut last_us) = (0, 0);
    while let Ok(Some(item)) = reader.next() {
        assert_eq!(item.value().unwrap(), Value::Uint(count));
        (count, last_us) = (count + 1, item.time_us.unwrap());
    }
    (count, last_us)
}

#[test]
fn a_killed_process_loses_the_last_quarter_of_a_second_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = 0;
    for count in [300, 433, 571, 704, 850] {
        let log = folder.path().join(format!("{count}.tlog"));
        let (last, told_us) = kill_after(count, &log);
        assert!(last >= count);
        let found = numbers(&log);
        // The writer's thread competes with whatever else runs here, so now and then it may come late.
        kept += u32::from(told_us - found.1 <= PROMISE_US);

        let mended = folder.path().join("mended.tlog");
        let repair = Command::new(env!("CARGO_BIN_EXE_khz"))
            .args(["log", "repair", "--force", "-o"])
            .args([&mended, &log])
            .output()
            .unwrap();
        assert!(repair.status.success(), "{}", String::from_utf8_lossy(&repair.stderr));
        assert!(Reader::open(std::fs::File::open(&mended).unwrap()).unwrap().is_finished());
        assert_eq!(numbers(&mended), found);
    }
    assert!(kept >= 3, "only {kept} of 5 kept the promise");
}
