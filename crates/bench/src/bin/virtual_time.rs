//! How long a second of virtual time takes: the quadruped of `khz run` with its controller, without a log and with one.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::Result;
use khz_bench::Bench;
use kilohertz::Robot;
use std::time::{Duration, Instant};

const SECONDS: u64 = 10;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("run.tlog");
    let run = |robot: Robot| {
        let robot = robot.virtual_time().duration(Duration::from_secs(SECONDS));
        let from = Instant::now();
        let finished = robot.start().and_then(kilohertz::Run::finish);
        let took = from.elapsed();
        assert!(
            finished.is_ok_and(|finished| finished.summary.ended_well && finished.summary.log_dropped == 0)
        );
        took.as_secs_f64() * 1e3 / SECONDS as f64
    };
    let (bare, logged) =
        bench.interleave(20, || run(Robot::quadruped().no_log()), || run(Robot::quadruped().log(&log)));
    // Thirty simulated seconds in one.
    bench.figure("virtual_time_second_p50", bare.median(), "ms", 33.3);
    bench.figure("virtual_time_second_logged_p50", logged.median(), "ms", f64::INFINITY);
    Ok(())
}
