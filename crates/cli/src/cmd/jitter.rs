//! `khz jitter`: how punctually a periodic thread wakes and works on this machine.

use super::output::{self, Output};
use super::progress::left;
use super::{ending_signals, note, show, show_judged, show_progress, show_text};
use anyhow::{Context, Result};
use khz_measure::jitter::{self, Axes, Experiment, Load, Measurement, Plan, Results, Watch, Work, Worker};
use khz_page::duration_ns;
use khz_report::require::Requirements;
use khz_rt::clock::Clock;
use khz_rt::{Grade, Overrun, Policy, Wake};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Measure how punctually a periodic thread wakes and works
///
/// On the machine as it is, or under a load of its own (`--load`).
///
/// Exit code 0: measured with everything that was requested; 1: measured, but the kernel did not grant everything, or a
/// limit of --require was not met; 2: not measured.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo khz jitter --cpu 3 --duration 1m
  sudo khz jitter --load cpu=4,mem=2 --html jitter.html --save jitter.json
  sudo khz jitter --matrix --duration 10s
  khz compare before.json after.json")]
pub struct Args {
    /// Time from one tick to the next
    #[arg(long, default_value = "1ms", value_parser = duration_ns)]
    period: i64,
    /// How long to measure, each combination of a matrix: as many ticks as fit, so missed ones make it longer
    #[arg(long, default_value = "10s", value_parser = duration_ns, conflicts_with = "ticks")]
    duration: i64,
    /// How many ticks to measure instead
    #[arg(long)]
    ticks: Option<u64>,
    /// What each tick does: none, division=10000, busy=200us
    #[arg(long, default_value = "none")]
    work: Work,
    /// How to wait: sleep, hybrid, spin, timerfd, sigwait
    #[arg(long, default_value = "hybrid")]
    wake: Wake,
    /// Which clock to wait on: monotonic, realtime
    #[arg(long, default_value = "monotonic", value_parser = clock)]
    clock: Clock,
    /// Scheduling policy: other, fifo, rr, deadline
    #[arg(long, default_value = "fifo")]
    policy: Policy,
    /// Priority for fifo and rr, 1 to 98
    #[arg(long, default_value_t = 80)]
    priority: u8,
    /// The CPU to measure on
    #[arg(long)]
    cpu: Option<usize>,
    /// After a tick that took too long: skip, run_late_once, re_phase, stop
    #[arg(long, default_value = "skip")]
    overrun: Overrun,
    /// What else the machine does: none, cpu=4,mem=2,io=1, memory (its bandwidth) or "stress-ng --cpu 4"
    #[arg(long, default_value = "none")]
    load: Load,
    /// Over its usual time by this much, a tick is late and explained [default: a tenth of the period]
    #[arg(long, value_parser = duration_ns)]
    late: Option<i64>,
    /// Trace the kernel on the CPU until the first late tick, and show what led up to it (root, needs --cpu)
    #[arg(long, requires = "cpu")]
    trace: bool,
    /// Limits of each measurement, as NAME=LIMIT,… (wake_p99=100us,lost=0); exit code 1 if one is not met. `help` lists the
    /// names
    #[arg(long, value_name = "NAME=LIMIT,…", value_parser = |text: &str| Requirements::parse(text, &jitter::required()))]
    require: Option<Requirements<Measurement>>,
    /// Refuse to measure with less than what is asked for
    #[arg(long)]
    strict: bool,
    /// Measure all combinations of some choices in turns [default: ordinary and real-time, idle and loaded]
    #[arg(long, value_name = "AXES", num_args = 0..=1, default_missing_value = jitter::ASSIGNMENT)]
    matrix: Option<Axes>,
    /// Turns each combination of a matrix gets
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Width of the histogram's bins on the page
    #[arg(long, value_parser = duration_ns)]
    bin: Option<i64>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the results to a file, for `khz compare`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every tick's times as CSV (a matrix: one file per combination)
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the wake latency's percentiles for HdrHistogram plotters (a matrix: one file per combination)
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Overwrite files that are there
    #[arg(long)]
    force: bool,
    /// Work as one process of the load
    #[arg(long, hide = true)]
    worker: Option<Worker>,
}

/// Runs the command.
///
/// # Errors
/// If it cannot be measured or the results cannot be written.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(worker) = args.worker {
        worker.work()?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = args.plan();
    let plans = args.matrix.as_ref().map_or_else(|| vec![plan.clone()], |axes| axes.plans(&plan));
    output::check_all(&args.outputs(plans.len()), [], args.force)?;
    let raw = args.csv.is_some();
    let make = |plan| Experiment::new(plan, raw).map(|made| if args.trace { made.traced() } else { made });
    let experiments = plans.into_iter().map(make).collect::<Result<Vec<_>, _>>()?;
    let mut runs = args.write_raw(args.measure(experiments)?)?;
    args.require.iter().for_each(|required| runs.iter_mut().for_each(|run| run.require(required)));
    args.write_results(&runs)?;
    let granted = runs.iter().all(|run| run.plan.policy == Policy::Other || run.grade() == Grade::RealTime);
    let stopped = runs.iter().any(Measurement::stopped);
    let kept = runs.iter().flat_map(|run| &run.required).all(|required| required.met);
    Ok(if granted && !stopped && kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn clock(name: &str) -> Result<Clock, String> {
    match name {
        "monotonic" => Ok(Clock::Monotonic),
        "realtime" => Ok(Clock::Realtime),
        _ => Err(format!("no clock `{name}`: use monotonic or realtime")),
    }
}

impl Args {
    fn plan(&self) -> Plan {
        // A period of zero is refused by the plan itself, with what to write.
        let ticks = self.ticks.unwrap_or_else(|| (self.duration / self.period.max(1)) as u64);
        Plan {
            period_ns: self.period,
            ticks,
            work: self.work,
            wake: self.wake,
            clock: self.clock,
            policy: self.policy,
            priority: self.priority,
            cpu: self.cpu,
            overrun: self.overrun,
            load: self.load.clone(),
            late_ns: self.late,
            strict: self.strict,
        }
    }

    /// Measures everything, showing how far it is.
    fn measure(&self, mut experiments: Vec<Experiment>) -> Result<Vec<Experiment>> {
        let myself =
            std::env::current_exe().context("cannot find this program, which the load is made of")?;
        let worker = [myself.display().to_string(), "jitter".into(), "--worker".into()];
        let watch = Arc::new(Watch::default());
        stop_on_signal(&watch)?;
        let total = experiments.iter().map(|experiment| experiment.plan().ticks).sum();
        let rounds = if self.matrix.is_some() { self.rounds } else { 1 };
        let progress = std::io::stderr().is_terminal().then(|| Progress::show(Arc::clone(&watch), total));
        let result = jitter::measure_in_turns(&mut experiments, rounds, &worker, &watch);
        drop(progress);
        result?;
        Ok(experiments)
    }

    fn write_raw(&self, experiments: Vec<Experiment>) -> Result<Vec<Measurement>> {
        let several = experiments.len() > 1;
        let finish = |(number, experiment): (usize, Experiment)| {
            let (run, recording) = experiment.finish();
            if let Some(path) = &self.csv {
                self.write(&numbered(path, several, number), |file| jitter::csv(recording.samples(), file))?;
            }
            if let Some(path) = &self.hgrm {
                self.write(&numbered(path, several, number), |file| jitter::hgrm(&recording, file))?;
            }
            Ok(run)
        };
        experiments.into_iter().enumerate().map(finish).collect()
    }

    /// Every file that will be written.
    fn outputs(&self, runs: usize) -> Vec<PathBuf> {
        let raw = self.csv.iter().chain(&self.hgrm);
        let raw = raw.flat_map(|path| (0..runs).map(move |number| numbered(path, runs > 1, number)));
        raw.chain(self.html.clone()).chain(self.save.clone()).collect()
    }

    fn write(&self, path: &Path, content: impl FnOnce(&mut Output) -> std::io::Result<()>) -> Result<()> {
        let written = output::save(path, self.force, content)?;
        if written != path {
            note(format_args!("{} is there by now; written to {}", path.display(), written.display()));
        }
        Ok(())
    }

    fn write_results(&self, runs: &[Measurement]) -> Result<()> {
        if let Some(path) = &self.html {
            self.write(path, |file| write!(file, "{}", jitter::results_page(runs, self.bin)))?;
        }
        if self.json || self.save.is_some() {
            let json = serde_json::to_string(&Results::of(runs.to_vec()))?;
            if let Some(path) = &self.save {
                self.write(path, |file| writeln!(file, "{json}"))?;
            }
            if self.json {
                return show(&format!("{json}\n"));
            }
        }
        for run in runs {
            show_judged(run.verdict().level, &(jitter::run_text(run) + "\n"))?;
        }
        if runs.len() > 1 { show_text(&jitter::comparison_text(runs)) } else { Ok(()) }
    }
}

/// `a.csv` → `a-2.csv` for the second of several.
fn numbered(path: &Path, several: bool, number: usize) -> PathBuf {
    if !several {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension =
        path.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}-{}{extension}", number + 1))
}

/// Ctrl-C ends the measuring and shows what there is; a second one ends the program.
fn stop_on_signal(watch: &Arc<Watch>) -> Result<()> {
    use signal_hook::iterator::Signals;
    let mut signals = Signals::new(ending_signals()).context("cannot watch for Ctrl-C")?;
    let watch = Arc::clone(watch);
    std::thread::Builder::new().name("khz-signals".into()).spawn(move || {
        for signal in &mut signals {
            if watch.stop.swap(true, Ordering::Relaxed) {
                std::process::exit(128 + signal);
            }
        }
    })?;
    Ok(())
}

/// A line on stderr with its progress and what was worst, until dropped.
struct Progress {
    done: std::sync::mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Progress {
    fn show(watch: Arc<Watch>, total: u64) -> Progress {
        let (done, ended) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            while ended.recv_timeout(Duration::from_millis(250))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                show_progress(&bar(
                    watch.ticks.load(Ordering::Relaxed),
                    total,
                    watch.worst_ns.load(Ordering::Relaxed),
                    started.elapsed(),
                ));
            }
            show_progress("\r\x1b[K");
        });
        Progress { done, thread: Some(thread) }
    }
}

fn bar(ticks: u64, total: u64, worst_ns: i64, elapsed: Duration) -> String {
    const WIDTH: usize = 30;
    let share = ticks as f64 / total.max(1) as f64;
    let full = ((share * WIDTH as f64) as usize).min(WIDTH);
    let worst = khz_page::duration(worst_ns as f64);
    format!(
        "\r\x1b[K[{}{}] {:3.0} %  worst wake {worst}{}",
        "#".repeat(full),
        "·".repeat(WIDTH - full),
        100.0 * share,
        left(share, elapsed)
    )
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = self.done.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        assert!(bar(0, 100, 0, Duration::ZERO).contains("[······························]   0 %"));
        assert!(bar(100, 100, 12_300, Duration::ZERO).ends_with("] 100 %  worst wake 12.3 µs"));
        assert!(bar(150, 100, 0, Duration::ZERO).contains("##############################]"));
    }

    #[test]
    fn files_of_a_matrix_are_numbered() {
        assert_eq!(numbered(Path::new("out/a.csv"), true, 1), Path::new("out/a-2.csv"));
        assert_eq!(numbered(Path::new("a"), true, 0), Path::new("a-1"));
        assert_eq!(numbered(Path::new("a.csv"), false, 0), Path::new("a.csv"));
    }
}
