//! What is told of a run while it goes on: where its live view is, and the live line: rate, missed replies, 99th percentile of
//! the wake latency, worst cycle, and why ticks overran.

use khz_robot::config::Clock;
use khz_robot::launch::Launch;
use khz_robot::session::Session;
use khz_robot::viewer::Viewer;
use khz_rt::Summary;
use khz_run::record::Tick;
use khz_run::tally::{Pace, Tally};
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

/// Shows on stderr until the loop is over what goes wrong with the log and, if that is a terminal, the live line. Blocks.
pub fn watch(launch: &mut Launch) {
    let screen = std::io::stderr().is_terminal().then(Screen::open);
    let (mut live, mut warning) = (Live::new(&launch.session), None);
    while !launch.session.is_over() {
        thread::sleep(INTERVAL);
        while let Some(tick) = launch.session.live() {
            live.take(&tick);
        }
        warning = launch.trouble_with_log().map(|trouble| format!("warning: {trouble}\n")).or(warning);
        let Some(screen) = &screen else {
            warning.take().iter().for_each(|warning| show(warning));
            continue;
        };
        // Until the terminal has taken it.
        warning.take_if(|warning| screen.show(format!("{CLEAR}{warning}")));
        if let Some(line) = live.line() {
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

    /// Shows a line, unless the terminal has not taken the one before yet: whether it is shown.
    fn show(&self, line: String) -> bool {
        self.lines.try_send(line).is_ok()
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
    pace: Pace,
    tally: Tally,
    first_ns: Option<i64>,
    last: Option<Tick>,
    /// Why the last tick that overran did.
    cause: Option<&'static str>,
}

impl Live {
    fn new(session: &Session) -> Self {
        let (clock, pace, late_ns) = (session.clock(), session.pace(), session.late_ns());
        Self { clock, pace, tally: Tally::new(late_ns), first_ns: None, last: None, cause: None }
    }

    fn take(&mut self, tick: &Tick) {
        self.first_ns.get_or_insert(tick.started_ns);
        self.last = Some(*tick);
        let counted = self.tally.count(tick, self.pace);
        if let Some(judged) = counted.judged.filter(|_| tick.overrun) {
            self.cause = Some(judged.root.name());
        }
    }

    fn line(&self) -> Option<String> {
        let (first_ns, last) = (self.first_ns?, self.last?);
        let elapsed_ns = (last.started_ns - first_ns).max(1);
        if self.clock == Clock::Virtual {
            // Most ticks come faster than anybody looks, and no time of this computer's is measured.
            let seconds = elapsed_ns as f64 * 1e-9;
            return Some(format!("{CLEAR}{seconds:>6.1} s of virtual time  {}", last.phase.name()));
        }
        let (Summary { p99, .. }, Summary { max, .. }) =
            (self.tally.times.wake_latency.summary(), self.tally.times.cycle.summary());
        let rate_hz = self.tally.counter.rate_hz();
        Some(
            format!(
                "{CLEAR}{:>6.1} s  {:<8} {:>8.2} Hz  missed {}  wake p99 {}  worst cycle {}",
                elapsed_ns as f64 * 1e-9,
                last.phase.name(),
                if rate_hz.is_nan() { 0.0 } else { rate_hz },
                self.tally.controlled().missed_replies,
                micros(p99),
                micros(max),
            ) + &self.overruns(),
        )
    }

    /// How many ticks overran, and why the last did.
    fn overruns(&self) -> String {
        let overruns = self.tally.controlled().overruns;
        self.cause.map_or(String::new(), |cause| format!("  overruns {overruns} (last: {cause})"))
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

    #[test]
    fn the_line_says_why_ticks_overran() {
        let pace = Pace { period_ns: 1_000_000, by_sensor: false };
        let tally = Tally::new(100_000);
        let mut live = Live { clock: Clock::Real, pace, tally, first_ns: None, last: None, cause: None };
        let quiet = |number| {
            let started_ns = number as i64 * 1_000_000;
            Tick { number, started_ns, waited_for_ns: started_ns, ..Tick::UNKNOWN }
        };
        (0..300).for_each(|number| live.take(&quiet(number)));
        assert!(!live.line().unwrap_or_default().contains("overruns"));
        live.take(&Tick {
            overrun: true,
            decide_ns: 900_000,
            away_ns: 900_000,
            queued_ns: 900_000,
            ..quiet(300)
        });
        let line = live.line().unwrap_or_default();
        assert!(line.ends_with("  overruns 1 (last: preempted)"), "{line}");
    }
}
