//! Clients that take turns at emulated servos, each at its own terminal, so that none sees another's lines.

use crate::Samples;
use anyhow::{Context, Result, bail};
use khz_rt::clock::{now_ns, thread_cpu_ns};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Cycles measured in one turn of a client.
pub const TURN: usize = 50;

/// Wall and CPU time of each cycle of a turn, ns.
pub type Took = Vec<(f64, f64)>;

/// What was measured of one client.
#[derive(Default)]
pub struct Turns {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    adapter: Vec<f64>,
}

impl Turns {
    /// A turn, and the adapter's CPU time per cycle of it.
    pub fn add(&mut self, took: &Took, adapter_ns: f64) {
        self.adapter.push(adapter_ns);
        self.wall.extend(took.iter().map(|(wall, _)| wall));
        // One cycle's CPU time is below what some kernels account; a turn's is not.
        self.cpu.push(took.iter().map(|(_, cpu)| cpu).sum::<f64>() / took.len() as f64);
    }

    /// Wall, CPU and adapter's CPU time of a cycle.
    pub fn medians(self) -> (f64, f64, f64) {
        let median = |values| Samples::new(values).median();
        (median(self.wall), median(self.cpu), median(self.adapter))
    }
}

/// Measures [`TURN`] cycles.
///
/// # Errors
/// The error of the first cycle that fails.
pub fn turn(mut cycle: impl FnMut() -> Result<()>) -> Result<Took> {
    let one = |_| {
        let (wall, cpu) = (now_ns(), thread_cpu_ns());
        cycle()?;
        Ok(((now_ns() - wall) as f64, (thread_cpu_ns() - cpu) as f64))
    };
    (0..TURN).map(one).collect()
}

/// A Python client, in its own process.
pub struct Python {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    /// Starts the client at this terminal; the program gets it, the number of servos and [`TURN`] as arguments. For each line it reads it
    /// makes a turn, and it prints the wall and CPU time of its cycles: `WALL CPU,WALL CPU,…`.
    ///
    /// # Errors
    /// If there is no Python.
    pub fn start(script: &str, path: &str, servos: usize) -> Result<Self> {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
        let mut child = Command::new(python)
            .args(["-c", script, path, &servos.to_string(), &TURN.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start Python")?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("no pipes to Python")
        };
        Ok(Self { child, orders, answers: BufReader::new(answers) })
    }

    /// One turn.
    ///
    /// # Errors
    /// If it ends or prints something else.
    pub fn turn(&mut self) -> Result<Took> {
        writeln!(self.orders, "go")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let number = |word: Option<&str>| anyhow::Ok(word.context("Python stopped early")?.parse::<f64>()?);
        let pair = |text: &str| {
            let mut words = text.split_whitespace();
            Ok((number(words.next())?, number(words.next())?))
        };
        line.trim()
            .split(',')
            .map(pair)
            .collect::<Result<_>>()
            .context("are the packages of the tests installed (`$PYTHON`)?")
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process that plays the servos.
pub struct Serving {
    child: Child,
    /// Where the clients find them, in the order in which the process printed them.
    pub terminals: Vec<String>,
}

impl Serving {
    /// Starts this program once more with other arguments, and waits until it has printed so many terminals.
    ///
    /// # Errors
    /// If it does not start or ends early.
    pub fn start(args: &[&str], terminals: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?).args(args).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no pipe to the server")?).lines();
        let terminals = lines.take(terminals).collect::<std::io::Result<_>>()?;
        Ok(Self { child, terminals })
    }

    /// CPU time so far, ns.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn cpu_ns(&self) -> Result<f64> {
        let path = format!("/proc/{}/schedstat", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Ok(text.split_whitespace().next().context("an empty schedstat")?.parse()?)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
