//! Load: what the machine is made to do while the timing of one thread is measured.
//!
//! The built-in load does what `stress -c N -m M -i K` does, each worker a process of its own so that it shares
//! neither memory nor locks with the measurement: square roots; 256 MiB taken, touched and given back;
//! blocks written to disk and forced out. Beyond that, 64 MiB copied again and again, which takes the bandwidth of the memory, as a
//! GPU or cameras beside a robot do.

use khz_rt::proc::{Root, field};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

/// The load of an experiment: `none`, `cpu=4,mem=2,io=1`, `memory` (as many workers as CPUs) or `memory=2`, or a `stress-ng …` command
/// line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Load {
    /// Nothing beyond what the machine does anyway.
    #[default]
    None,
    /// The built-in workers.
    Workers {
        /// Processes computing square roots.
        cpu: u32,
        /// Processes taking, touching and giving back 256 MiB.
        mem: u32,
        /// Processes writing to disk.
        io: u32,
        /// Processes copying memory.
        memory: u32,
    },
    /// Arguments for the program `stress-ng`.
    StressNg(String),
}

/// What one worker process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// Square roots.
    Cpu,
    /// Memory taken, touched and given back.
    Mem,
    /// Blocks written and forced to disk.
    Io,
    /// Memory copied.
    Memory,
}

/// Memory one memory worker takes, as `stress` does by default.
const MEM_BYTES: usize = 256 << 20;
/// What is copied from one place to another: more than caches hold.
const COPIED_BYTES: usize = 64 << 20;
/// More workers of a kind than this is a slip of the finger.
const MOST_WORKERS: u32 = 256;

/// Why a load could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not enough memory for the memory workers.
    #[error(
        "load {load} needs {need_mb} MB of memory, of which {free_mb} MB are free: use fewer memory workers"
    )]
    Memory {
        /// Which.
        load: String,
        /// What they need.
        need_mb: u64,
        /// What there is.
        free_mb: u64,
    },
    /// A program could not be started.
    #[error("cannot start the load `{program}`: {error}{hint}")]
    Start {
        /// Its name.
        program: String,
        /// The system's answer.
        error: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// A worker ended while it should have worked.
    #[error(
        "the load `{0}` ended before the measurement did, so the figures are not those of a loaded machine"
    )]
    Ended(String),
}

impl Load {
    /// Whether it is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Load::None
    }

    /// Starts it; it ends when the result is dropped.
    ///
    /// `worker` is the command that becomes a worker: a program and its arguments, to which the worker's name
    /// (`cpu`, `mem`, `io`) is added and which must then call [`Worker::work`].
    ///
    /// # Errors
    /// If there is not enough memory or a process cannot be started.
    pub fn start(&self, worker: &[String]) -> Result<Running, LoadError> {
        let mut running = Running { name: self.to_string(), children: Vec::new() };
        match self {
            Load::None => {}
            Load::Workers { cpu, mem, io, memory } => {
                self.check_memory(&Root::system())?;
                let kinds = [Worker::Cpu, Worker::Mem, Worker::Io, Worker::Memory];
                for (kind, count) in kinds.into_iter().zip([cpu, mem, io, memory]) {
                    for _ in 0..*count {
                        let (program, arguments) =
                            worker.split_first().map_or(("", worker), |(p, a)| (p.as_str(), a));
                        let mut command = Command::new(program);
                        command.args(arguments).arg(kind.name());
                        running.children.push(spawn(&mut command, program, "")?);
                    }
                }
            }
            Load::StressNg(arguments) => {
                let mut command = Command::new("stress-ng");
                command.args(arguments.split_whitespace());
                running.children.push(spawn(
                    &mut command,
                    "stress-ng",
                    ": install it (apt install stress-ng) or use cpu=4,mem=2",
                )?);
            }
        }
        Ok(running)
    }

    fn check_memory(&self, root: &Root) -> Result<(), LoadError> {
        let Load::Workers { mem, memory, .. } = self else { return Ok(()) };
        let need = u64::from(*mem) * MEM_BYTES as u64 + u64::from(*memory) * 2 * COPIED_BYTES as u64;
        let need_mb = need >> 20;
        let info = root.read("/proc/meminfo").unwrap_or_default();
        let free_kb =
            field(&info, "MemAvailable").and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
        match free_kb {
            // A tenth stays free, or the measurement would be of the machine swapping.
            Some(free_kb) if need_mb * 1024 > free_kb / 10 * 9 => {
                Err(LoadError::Memory { load: self.to_string(), need_mb, free_mb: free_kb / 1024 })
            }
            _ => Ok(()),
        }
    }
}

fn spawn(command: &mut Command, program: &str, hint: &'static str) -> Result<Child, LoadError> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|error| LoadError::Start { program: program.to_owned(), error, hint })
}

/// A load at work.
#[derive(Debug)]
pub struct Running {
    name: String,
    children: Vec<Child>,
}

impl Running {
    /// Makes sure that all of it is still at work.
    ///
    /// # Errors
    /// If a worker has ended.
    pub fn check(&mut self) -> Result<(), LoadError> {
        let ended = self.children.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None)));
        if ended { Err(LoadError::Ended(self.name.clone())) } else { Ok(()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended already cannot be killed, which is as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Worker {
    fn name(self) -> &'static str {
        match self {
            Worker::Cpu => "cpu",
            Worker::Mem => "mem",
            Worker::Io => "io",
            Worker::Memory => "memory",
        }
    }

    /// Works until the process that started it is gone.
    ///
    /// # Errors
    /// If the disk cannot be written ([`Worker::Io`]).
    pub fn work(self) -> std::io::Result<()> {
        let parent = std::os::unix::process::parent_id();
        let orphaned = || std::os::unix::process::parent_id() != parent;
        match self {
            Worker::Cpu => compute(orphaned),
            Worker::Mem => take_memory(orphaned),
            Worker::Io => return write_disk(orphaned),
            Worker::Memory => copy_memory(orphaned),
        }
        Ok(())
    }
}

fn compute(orphaned: impl Fn() -> bool) {
    let mut number = 1u64;
    while !orphaned() {
        for _ in 0..1_000_000 {
            // Knuth's multiplier for a linear congruential generator; any would do.
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::hint::black_box((number as f64).sqrt());
        }
    }
}

fn take_memory(orphaned: impl Fn() -> bool) {
    while !orphaned() {
        let mut memory: Vec<u8> = Vec::with_capacity(MEM_BYTES);
        memory.resize(MEM_BYTES, 1);
        std::hint::black_box(&mut memory);
    }
}

fn copy_memory(orphaned: impl Fn() -> bool) {
    // Ones: pages of zeros may all be one page.
    let (mut to, mut from) = (vec![1_u8; COPIED_BYTES], vec![1_u8; COPIED_BYTES]);
    while !orphaned() {
        to.copy_from_slice(std::hint::black_box(&from));
        std::mem::swap(&mut to, &mut from);
    }
}

fn write_disk(orphaned: impl Fn() -> bool) -> std::io::Result<()> {
    let path = std::env::temp_dir().join(format!("khz-load-{}", std::process::id()));
    let mut file = File::create_new(&path)?;
    // Without a name it is gone with the process, however that ends.
    std::fs::remove_file(&path)?;
    let block = vec![0x5a; 1 << 20];
    while !orphaned() {
        file.seek(SeekFrom::Start(0))?;
        for _ in 0..16 {
            file.write_all(&block)?;
        }
        file.sync_data()?;
    }
    Ok(())
}

impl FromStr for Worker {
    type Err = String;

    fn from_str(name: &str) -> Result<Worker, String> {
        let all = [Worker::Cpu, Worker::Mem, Worker::Io, Worker::Memory];
        let found = all.into_iter().find(|worker| worker.name() == name);
        found.ok_or_else(|| format!("no worker `{name}`: use cpu, mem, io or memory"))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::None => write!(f, "none"),
            Load::StressNg(arguments) => write!(f, "stress-ng {arguments}"),
            Load::Workers { cpu, mem, io, memory } => {
                let parts = [("cpu", cpu), ("mem", mem), ("io", io), ("memory", memory)];
                let named = parts
                    .iter()
                    .filter(|(_, count)| **count > 0)
                    .map(|(name, count)| format!("{name}={count}"));
                f.write_str(&named.collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        if let Some(arguments) = text.strip_prefix("stress-ng ") {
            return Ok(Load::StressNg(arguments.trim().to_owned()));
        }
        if matches!(text, "none" | "idle") {
            return Ok(Load::None);
        }
        let (mut cpu, mut mem, mut io, mut memory) = (0, 0, 0, 0);
        for part in text.split(',') {
            let help =
                || format!("no load `{part}`: use none, cpu=4,mem=2,io=1, memory or \"stress-ng --cpu 4\"");
            if part.trim() == "memory" {
                memory = std::thread::available_parallelism()
                    .map_or(1, |cpus| cpus.get() as u32)
                    .min(MOST_WORKERS);
                continue;
            }
            let (name, count) = part.trim().split_once('=').ok_or_else(help)?;
            let count =
                count.parse().ok().filter(|count| (1..=MOST_WORKERS).contains(count)).ok_or_else(help)?;
            match name {
                "cpu" => cpu = count,
                "mem" => mem = count,
                "io" => io = count,
                "memory" => memory = count,
                _ => return Err(help()),
            }
        }
        Ok(Load::Workers { cpu, mem, io, memory })
    }
}

impl TryFrom<String> for Load {
    type Error = String;

    fn try_from(text: String) -> Result<Load, String> {
        text.parse()
    }
}

impl From<Load> for String {
    fn from(load: Load) -> String {
        load.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_round_trip() {
        for text in
            ["none", "cpu=4,mem=2", "mem=6", "cpu=1,io=2", "mem=1,memory=3", "stress-ng --cpu 4 --vm 2"]
        {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_loads_name_the_part() {
        for bad in ["", "cpu", "cpu=0", "cpu=-1", "gpu=1", "cpu=4,", "cpu=100000"] {
            assert!(bad.parse::<Load>().is_err(), "{bad}");
        }
        assert!("cpu=4,gpu=1".parse::<Load>().unwrap_err().contains("`gpu=1`"));
    }

    #[test]
    fn a_load_beyond_the_memory_is_refused_before_it_starts() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("proc")).unwrap();
        std::fs::write(directory.path().join("proc/meminfo"), "MemTotal: 9 kB\nMemAvailable: 1000000 kB\n")
            .unwrap();
        let root = Root::at(directory.path());
        let check = |text: &str| text.parse::<Load>().unwrap().check_memory(&root);
        assert!(check("mem=3").is_ok() && check("mem=2,memory=2").is_ok());
        for load in ["mem=4", "mem=2,memory=4"] {
            let error = check(load).unwrap_err().to_string();
            assert!(error.contains(&format!("{load} needs 1024 MB")), "{error}");
            assert!(error.contains("976 MB are free"), "{error}");
        }
    }

    #[test]
    fn memory_alone_is_a_worker_for_each_cpu() {
        let Load::Workers { cpu: 0, mem: 0, io: 0, memory } = "memory".parse().unwrap() else { panic!() };
        assert!(memory >= 1);
        assert_eq!("memory".parse::<Worker>(), Ok(Worker::Memory));
    }

    #[test]
    fn a_load_that_cannot_start_says_which() {
        let load: Load = "cpu=1".parse().unwrap();
        let error = load.start(&["/nowhere/khz".into()]).unwrap_err().to_string();
        assert!(error.contains("/nowhere/khz"), "{error}");
    }

    #[test]
    fn a_worker_that_ends_is_noticed() {
        let load: Load = "cpu=1".parse().unwrap();
        let mut running = load.start(&["true".into()]).unwrap();
        running.children[0].wait().unwrap();
        assert!(matches!(running.check(), Err(LoadError::Ended(_))));
    }
}
