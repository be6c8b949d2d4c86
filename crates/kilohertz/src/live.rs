//! What is told of a run while it goes on: where its live view is, and the live line: rate, missed replies, 99th percentile of
//! the wake latency, worst cycle, and why ticks overran.

use khz_robot::config::Clock;
use khz_robot::session::{LiveTick, Session};
use khz_robot::viewer::Viewer;
use khz_rt::{Histogram, Summary};
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(200);
/// How often the end looks whether the terminal has taken the last line, and how many times.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 20;
/// Back to the beginning of the line, and nothing on it.
const CLEAR: &str = "\r\x1b[2K";

/// Shows the live line on stderr, if that is a terminal, until the loop is over. Blocks.
pub fn watch(session: &mut Session) {
    let screen = std::io::stderr().is_terminal().then(Screen::open);
    let mut live = Live::new(session.clock());
    while !session.is_over() {
        thread::sleep(INTERVAL);
        while let Some(tick) = session.live() {
            live.take(&tick);
        }
        if let (Some(screen), Some(line)) = (&screen, live.line()) {
            screen.show(line);
        }
    }
    screen.into_iter().for_each(Screen::close);
}

/// Tells on stderr where the live view is.
pub fn tell_view(view: &Viewer) {
    show(&format!("live view: {}\n", view.link()));
}

/// After the run: waits until the view has shown it to its end, and tells on stderr if it stays, because somebody looks.
pub fn tell_view_end(view: Viewer) {
    let link = view.link().to_owned();
    if view.stays() {
        show(&format!("the live view stays until its page is closed: {link}\n"));
    }
}

/// The terminal, written by its own thread: one stopped by Ctrl-S takes nothing until Ctrl-Q, and the end of the run
/// (watchdogs called off, the log finished) must not wait for that.
struct Screen {
    lines: SyncSender<String>,
    thread: JoinHandle<()>,
}

impl Screen {
    fn open() -> Self {
        let (lines, waiting) = sync_channel(1);
        let write = move |waiting: Receiver<String>| {
            waiting.iter().for_each(|line| show(&line));
            show(CLEAR);
        };
        Self { lines, thread: thread::spawn(move || write(waiting)) }
    }

    /// Shows a line, unless the terminal has not taken the one before yet.
    fn show(&self, line: String) {
        let _ = self.lines.try_send(line);
    }

    /// Clears the line. A thread that waits for the terminal is left behind.
    fn close(self) {
        drop(self.lines);
        for _ in 0..LOOKS {
            if self.thread.is_finished() {
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

struct Live {
    clock: Clock,
    wake: Histogram,
    worst_cycle_ns: i64,
    missed: u64,
    late: u64,
    cause: Option<&'static str>,
    first: Option<LiveTick>,
    last: Option<LiveTick>,
}

impl Live {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            wake: Histogram::new(),
            worst_cycle_ns: 0,
            missed: 0,
            late: 0,
            cause: None,
            first: None,
            last: None,
        }
    }

    fn take(&mut self, tick: &LiveTick) {
        self.first.get_or_insert(*tick);
        self.last = Some(*tick);
        self.wake.record(tick.wake_latency_ns, tick.started_ns);
        self.worst_cycle_ns = self.worst_cycle_ns.max(tick.cycle_ns);
        self.missed += u64::from(tick.missed);
        if tick.overrun {
            self.late += 1;
            self.cause = Some(tick.cause.map_or("its own work", khz_rt::Cause::name));
        }
    }

    fn line(&self) -> Option<String> {
        let (first, last) = (self.first?, self.last?);
        let elapsed_ns = (last.started_ns - first.started_ns).max(1);
        if self.clock == Clock::Virtual {
            // Most ticks come faster than anybody looks, and no time of this computer's is measured.
            let seconds = elapsed_ns as f64 * 1e-9;
            return Some(format!("{CLEAR}{seconds:>6.1} s of virtual time  {}", last.phase.name()));
        }
        let Summary { p99, .. } = self.wake.summary();
        Some(
            format!(
                "{CLEAR}{:>6.1} s  {:<8} {:>8.2} Hz  missed {}  wake p99 {}  worst cycle {}",
                elapsed_ns as f64 * 1e-9,
                last.phase.name(),
                (last.number - first.number) as f64 / elapsed_ns as f64 * 1e9,
                self.missed,
                micros(p99),
                micros(self.worst_cycle_ns),
            ) + &self.overruns(),
        )
    }

    /// How many ticks overran, and why the last did.
    fn overruns(&self) -> String {
        self.cause.map_or(String::new(), |cause| format!("  overruns {} (last: {cause})", self.late))
    }
}

/// Writes to stderr. There is nobody left to tell that nobody listens.
pub(crate) fn show(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn micros(ns: i64) -> String {
    format!("{:.1} µs", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_robot::supervisor::Phase;

    #[test]
    fn the_line_says_why_ticks_overran() {
        let mut live = Live::new(Clock::Real);
        let quiet = LiveTick {
            number: 1,
            started_ns: 0,
            wake_latency_ns: 0,
            cycle_ns: 0,
            missed: 0,
            overrun: false,
            cause: None,
            phase: Phase::Active,
        };
        live.take(&quiet);
        assert!(!live.line().unwrap_or_default().contains("overruns"));
        live.take(&LiveTick { overrun: true, cause: Some(khz_rt::Cause::Preempted), ..quiet });
        let line = live.line().unwrap_or_default();
        assert!(line.ends_with("  overruns 1 (last: preempted)"), "{line}");
    }
}
