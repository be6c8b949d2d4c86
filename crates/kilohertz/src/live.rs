//! What is reported of a run while it goes on: where its live view is, and the live line: rate, missed replies, ticks that overran
//! and why, 99th percentile of the wake latency, worst cycle. What does not fit the terminal's line is left out from the right.

use crate::robot::Run;
use khz_loop::timing::Clock;
use khz_page::{duration, grouped};
use khz_robot::session::Session;
use khz_robot::viewer::Viewer;
use khz_rt::Summary;
use khz_run::record::Tick;
use khz_run::tally::{Pace, Tally};
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the end looks whether the terminal has taken the last line, and how many times.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 20;
/// Back to the beginning of the line, and nothing on it.
const CLEAR: &str = "\r\x1b[2K";

/// Columns of a terminal that does not report its width.
const COLUMNS: usize = 80;

/// Prints on stderr where the live view is, and until the loop is over what goes wrong with the log and, if that is a terminal, the live line.
/// Blocks.
pub fn watch(run: &mut Run) {
    run.view().iter().for_each(|link| show(&format!("live view: {link}\n")));
    let mut watcher = Watcher::new(run);
    while !run.is_over() {
        thread::sleep(Watcher::INTERVAL);
        watcher.look(run);
    }
}

/// As [`watch`], for programs that wait by themselves. Dropped, it clears the live line.
pub struct Watcher {
    screen: Option<Screen>,
    live: Live,
    /// Not shown yet.
    warning: Option<String>,
}

impl Watcher {
    /// How often it is to look.
    pub const INTERVAL: Duration = Duration::from_millis(200);

    /// Of this run.
    pub fn new(run: &Run) -> Self {
        let screen = io::stderr().is_terminal().then(Screen::open);
        Self { screen, live: Live::new(run.session()), warning: None }
    }

    /// Of this run, for programs that show [`Watcher::line`] by themselves, as a notebook does.
    pub fn without_terminal(run: &Run) -> Self {
        Self { screen: None, live: Live::new(run.session()), warning: None }
    }

    /// The live line, complete. None before the first tick.
    pub fn line(&self) -> Option<String> {
        self.live.line(usize::MAX)
    }

    /// Shows what is new; to be called every [`Watcher::INTERVAL`]. Never waits for the terminal.
    pub fn look(&mut self, run: &mut Run) {
        while let Some(tick) = run.live() {
            self.live.take(&tick);
        }
        let trouble = run.session().note().or_else(|| run.trouble_with_log());
        self.warning = trouble.map(|trouble| format!("warning: {trouble}\n")).or(self.warning.take());
        let Some(screen) = &self.screen else {
            return self.warning.take().iter().for_each(|warning| show(warning));
        };
        // Until the terminal has taken it.
        self.warning.take_if(|warning| screen.show(format!("{CLEAR}{warning}")));
        // The last column stays free: some terminals begin a new line when it is written.
        let room = khz_rt::columns(io::stderr()).unwrap_or(COLUMNS) - 1;
        if let Some(line) = self.live.line(room) {
            screen.show(format!("{CLEAR}{line}"));
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.screen.take().into_iter().for_each(Screen::close);
    }
}

/// After the run: waits until the view has shown it to its end, and prints on stderr if it stays because it is being watched.
pub fn announce_view_end(view: Viewer) {
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
            // A line must not stop a robot that runs in the background. Linux does not refuse.
            let _ = khz_rt::hold_tostop();
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

    /// The line, of no more than `room` characters.
    fn line(&self, room: usize) -> Option<String> {
        let (first_ns, last) = (self.first_ns?, self.last?);
        let seconds = (last.started_ns - first_ns).max(1) as f64 * 1e-9;
        if self.clock == Clock::Virtual {
            // Most ticks come faster than anyone can read, and no time of this computer's is measured.
            let fields = [format!("{seconds:>6.1} s of virtual time"), last.phase.name().to_owned()];
            return Some(fitting(&fields, room));
        }
        let (Summary { p99, .. }, Summary { max, .. }) =
            (self.tally.times.wake_latency.summary(), self.tally.times.cycle.summary());
        let (rate_hz, controlled) = (self.tally.counter.rate_hz(), self.tally.controlled());
        let [missed, overruns] = [controlled.missed_replies, controlled.overruns].map(grouped);
        let mut fields = vec![
            format!("{seconds:>6.1} s"),
            format!("{:<8}", last.phase.name()),
            format!("{:>8.2} Hz", if rate_hz.is_nan() { 0.0 } else { rate_hz }),
            format!("missed {missed}"),
        ];
        fields.extend(self.cause.map(|cause| format!("overruns {overruns} ({cause})")));
        fields.push(format!("wake p99 {}", duration(p99 as f64)));
        fields.push(format!("worst cycle {}", duration(max as f64)));
        Some(fitting(&fields, room))
    }
}

/// As many of the fields, from the left, as there is room for; of the first as much as there is.
fn fitting(fields: &[String], room: usize) -> String {
    let mut line: String = fields.iter().take(1).flat_map(|first| first.chars()).take(room).collect();
    for field in fields.iter().skip(1) {
        if line.chars().count() + 2 + field.chars().count() > room {
            break;
        }
        line = format!("{line}  {field}");
    }
    line
}

/// Writes to stderr. If that fails, there is nowhere to report it.
pub(crate) fn show(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        let pace = Pace { period_ns: 1_000_000, by_sensor: false };
        let tally = Tally::new(100_000);
        Live { clock: Clock::Real, pace, tally, first_ns: None, last: None, cause: None }
    }

    fn quiet(number: u64) -> Tick {
        let started_ns = number as i64 * 1_000_000;
        Tick { number, started_ns, waited_for_ns: started_ns, ..Tick::UNKNOWN }
    }

    #[test]
    fn the_line_says_why_ticks_overran() {
        let mut live = live();
        (0..300).for_each(|number| live.take(&quiet(number)));
        let line = live.line(79).unwrap_or_default();
        assert!(line.contains("worst cycle") && !line.contains("overruns"), "{line}");
        live.take(&Tick {
            overrun: true,
            decide_ns: 900_000,
            away_ns: 900_000,
            queued_ns: 900_000,
            ..quiet(300)
        });
        let line = live.line(79).unwrap_or_default();
        assert!(line.contains("  overruns 1 (preempted)"), "{line}");
    }

    /// It scrolled: 51 rows of junk before the first verdict, at 80 columns.
    #[test]
    fn the_line_never_needs_a_second_row() {
        let mut live = live();
        (0..300).for_each(|number| live.take(&quiet(number)));
        (300..3_000).for_each(|number| {
            live.take(&Tick {
                overrun: true,
                missed: 12,
                decide_ns: 9_123_456,
                away_ns: 9_123_456,
                queued_ns: 9_123_456,
                wake_latency_ns: 1_774_600,
                cycle_ns: 18_681_400,
                ..quiet(number)
            });
        });
        let lines = [39, 79, 119].map(|room| live.line(room).unwrap_or_default());
        for (line, room) in lines.iter().zip([39, 79, 119]) {
            assert!(line.chars().count() <= room, "{line}");
        }
        // It is the end that is left out, and no more than needed.
        assert!(lines[2].starts_with(&lines[1]) && lines[1].starts_with(&lines[0]), "{lines:?}");
        assert!(lines[1].contains("overruns") && lines[2].contains("worst cycle"), "{lines:?}");
        assert_eq!(live.line(3).unwrap_or_default().chars().count(), 3);
    }
}
