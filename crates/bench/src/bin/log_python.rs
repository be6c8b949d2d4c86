//! One field of one record of a 1 GB log from Python, against the original Python reader (`MJLIB` names its folder).
//!
//! With `--quick` the log has 100 MB. The measuring is done in Python, `crates/bench/python/log_bench.py`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use khz_tlog::{Compression, Options, Record, Sink, Type, Writer};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/log_bench.py");

#[derive(Record)]
struct Servo {
    position: f64,
    velocity: f64,
    torque: f64,
}

fn main() -> Result<()> {
    let python = std::env::var_os("PYTHON").context("start it with `cargo xtask bench log_python`")?;
    let folder = tempfile::tempdir()?;
    measure(&python, &folder.path().join("large.tlog"))?;
    Ok(folder.close()?)
}

fn measure(python: &std::ffi::OsStr, path: &Path) -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let size = if words.iter().any(|word| word == "--quick") { 100_000_000 } else { 1_000_000_000 };
    make(path, size)?;
    let status = Command::new(python).arg(SCRIPT).arg(path).args(&words).status()?;
    ensure!(status.success(), "{SCRIPT} failed");
    Ok(())
}

/// A log of 1 kHz, 1 kB per tick, of which `servo` is a small part.
fn make(path: &Path, size: u64) -> Result<()> {
    let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut log = Writer::new(out, Options { compression: Compression::None, ..Options::default() })?;
    let servo = log.record("servo", &Servo::schema())?;
    let rest = log.record("rest", &Type::Bytes)?;
    let mut payload = Vec::new();
    payload.counted(&[0x5a; 1000]);
    let mut tick = 0;
    while log.position() < size {
        let position = f64::from(tick).sin();
        let sample = Servo { position, velocity: 0.0, torque: 0.0 };
        log.write(servo, Some(i64::from(tick) * 1000), &sample.to_bytes())?;
        log.write(rest, Some(i64::from(tick) * 1000), &payload)?;
        tick += 1;
    }
    log.finish()?;
    Ok(())
}
