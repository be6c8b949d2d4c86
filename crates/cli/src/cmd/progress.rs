//! How far a command is, and how long it still takes: a line on stderr, if that is a terminal, from the second second on.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);
const BYTES: &str = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
const COUNT: &str = "{bar:30} {human_pos}/{human_len} {msg}, {eta} left";

/// A line that shows how far a command is, until it is dropped.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    calls: u32,
}

impl Progress {
    /// Of a file of `total` bytes.
    pub fn new(total: u64) -> Self {
        Self::with(total, BYTES)
    }

    /// Of `total` things called `what`.
    pub fn of(total: u64, what: &'static str) -> Self {
        let progress = Self::with(total, COUNT);
        progress.bar.set_message(what);
        progress
    }

    fn with(total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now(), calls: 0 }
    }

    /// Updates the position, cheaply: for calls by the million.
    pub fn at(&mut self, position: u64) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(1024) {
            self.show(position);
        }
    }

    fn show(&self, position: u64) {
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Does `work`, which counts what it has done, and shows how far it is meanwhile.
pub fn counted<T>(total: u64, what: &'static str, work: impl FnOnce(&AtomicU64) -> T) -> T {
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&done, total, what));
        let result = work(&done);
        done.store(u64::MAX, Ordering::Relaxed);
        watcher.thread().unpark();
        result
    })
}

/// Until all is done; then the counter is at its end.
fn watch(done: &AtomicU64, total: u64, what: &'static str) {
    let progress = Progress::of(total, what);
    loop {
        thread::park_timeout(Duration::from_millis(200));
        match done.load(Ordering::Relaxed) {
            u64::MAX => return,
            count => progress.show(count.min(total)),
        }
    }
}

/// `, 2m left`, if that can be estimated: `share` of the work is done, after `elapsed`.
pub fn left(share: f64, elapsed: Duration) -> String {
    if share <= 0.0 || elapsed < PATIENCE {
        return String::new();
    }
    let left = Duration::try_from_secs_f64((elapsed.as_secs_f64() * (1.0 / share - 1.0)).max(0.0));
    left.map_or_else(|_| String::new(), |left| format!(", {} left", indicatif::HumanDuration(left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_from_the_share_that_is_done() {
        assert_eq!(left(0.25, Duration::from_secs(10)), ", 30 seconds left");
        assert_eq!(left(0.0, Duration::from_secs(10)), "");
        assert_eq!(left(0.5, Duration::from_millis(10)), "");
    }

    #[test]
    fn work_is_done_and_its_result_given_back() {
        let add = |done: &AtomicU64| (0..10).for_each(|_| _ = done.fetch_add(1, Ordering::Relaxed));
        assert_eq!(
            counted(10, "things", |done| {
                add(done);
                done.load(Ordering::Relaxed)
            }),
            10
        );
    }
}
