//! Steering from elsewhere. How old an input is, the robot's own side finds out: the bridge publishes the clock of the robot's
//! live view, an operator repeats the newest value received in each input, and the view subtracts. An operator's clock, and
//! what the network does to a message, therefore do not matter.

use crate::asks::{Asker, Meant};
use crate::bridge::Shared;
use anyhow::{Result, anyhow};
use khz_view::control::Teleop;
use serde::Deserialize;
use serde_json::json;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::qos::{CongestionControl, Priority};

/// How often the clock is published while steering is possible.
const CLOCK: Duration = Duration::from_millis(50);
/// How long a bridge waits before it looks for the view again.
const AGAIN: Duration = Duration::from_secs(1);
/// An operator this silent has let go, and another may take over.
const LET_GO: Duration = Duration::from_secs(1);
/// How many inputs may wait. They are old soon.
const WAITING: usize = 8;
const MAX_INPUT: usize = 1024;
/// An input older than this is ignored by the robot, and does not give its sender the steering.
const FRESH: Duration = Duration::from_millis(300);

/// An input as it comes by `khz/<robot>/operator`.
#[derive(Debug, Deserialize)]
struct Input {
    /// Who steers: any text that no other operator uses.
    by: String,
    /// The newest time of `khz/<robot>/@clock` that was received, and the run that came with it.
    now_us: u64,
    run: u64,
    #[serde(flatten)]
    teleop: Teleop,
}

/// Who steers: one at a time.
#[derive(Debug, Default)]
struct Steering(Option<(String, Instant)>);

impl Steering {
    /// Whether this operator may steer now.
    fn take(&mut self, by: &str, now: Instant) -> bool {
        let is_free =
            self.0.as_ref().is_none_or(|(who, received)| who == by || now.duration_since(*received) > LET_GO);
        if is_free {
            self.0 = Some((by.to_owned(), now));
        }
        is_free
    }
}

/// The clock of the robot's live view, when it was read last.
#[derive(Clone, Copy, Debug)]
struct Clock {
    now_us: u64,
    run: u64,
    at: Instant,
}

impl Clock {
    /// Whether an input belongs to the present run, and is not too old to count. One from the future is none.
    fn takes(&self, input: &Input, now: Instant) -> bool {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let here_us = self.now_us.saturating_add(us(now.duration_since(self.at)));
        let age_us = here_us.checked_sub(input.now_us);
        input.run == self.run && age_us.is_some_and(|age_us| age_us <= us(FRESH))
    }
}

/// Passes inputs on to the robot, and publishes its view's clock, until the process ends. Blocks.
///
/// # Errors
/// The session is closed.
pub fn drive(shared: &Shared) -> Result<()> {
    if shared.view().is_none() {
        return Ok(());
    }
    let (queue, inputs) = sync_channel::<Input>(WAITING);
    let callback = move |sample: zenoh::sample::Sample| {
        let bytes = sample.payload();
        if bytes.len() <= MAX_INPUT
            && let Ok(input) = serde_json::from_slice(&bytes.to_bytes())
        {
            // One that finds no room is too old when there is.
            let _ = queue.try_send(input);
        }
    };
    let _inputs = shared
        .session
        .declare_subscriber(shared.name.key("operator"))
        .callback(callback)
        .wait()
        .map_err(closed)?;
    let clock = shared.session.declare_publisher(shared.name.key("@clock"));
    let clock =
        clock.congestion_control(CongestionControl::Drop).priority(Priority::InteractiveHigh).express(true);
    let clock = clock.encoding(zenoh::bytes::Encoding::APPLICATION_JSON).wait().map_err(closed)?;
    let mut driven = Driven { view: Asker::new(shared.view()), steering: Steering::default(), clock: None };
    let mut due = Instant::now();
    loop {
        // Before any input: without the clock all of them are too old.
        if Instant::now() >= due {
            driven.read_clock(shared);
            due = Instant::now() + if driven.clock.is_some() { CLOCK } else { AGAIN };
            if let Some(published) = driven.published_clock() {
                clock.put(published).wait().map_err(closed)?;
            }
        }
        match inputs.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(input) => driven.steer(input),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn closed(error: zenoh::Error) -> anyhow::Error {
    anyhow!("{error}")
}

/// The robot, by its live view, and who steers it.
struct Driven {
    view: Asker,
    steering: Steering,
    clock: Option<Clock>,
}

impl Driven {
    fn read_clock(&mut self, shared: &Shared) {
        self.clock = shared.robot().run().ok().and_then(|run| {
            let at = Instant::now();
            let (now_us, of_view) = self.view.ask(&Meant::default(), khz_view::Connection::now).ok()?;
            // Another robot's view, or a run that has only begun to stream.
            (of_view == Some(run)).then_some(Clock { now_us, run, at })
        });
    }

    /// The clock for operators, with the one who steers.
    fn published_clock(&self) -> Option<String> {
        let Clock { now_us, run, .. } = self.clock?;
        let holder = self.steering.0.as_ref().filter(|(_, received)| received.elapsed() <= LET_GO);
        let by = holder.map(|(by, _)| by);
        Some(json!({ "now_us": now_us, "run": run, "by": by }).to_string())
    }

    /// Only an input that counts at the robot decides who steers.
    fn steer(&mut self, input: Input) {
        let counts = self.clock.is_some_and(|clock| clock.takes(&input, Instant::now()));
        if counts && self.steering.take(&input.by, Instant::now()) {
            // The robot stands still by itself when inputs stay away.
            let meant = Meant { run: Some(input.run), by: Some(input.by) };
            let _ = self.view.ask(&meant, |connection| connection.steer(&input.teleop, input.now_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operator_at_a_time() {
        let (mut steering, begun) = (Steering::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        assert!(steering.take("ann", at(0)));
        assert!(!steering.take("bob", at(900)));
        assert!(steering.take("ann", at(950)));
        assert!(!steering.take("bob", at(1900)));
        assert!(steering.take("bob", at(1960)));
    }

    #[test]
    fn an_input_shows_its_age_and_its_run() {
        let read = |now_us: u64, run: u64| {
            let text = format!(r#"{{"by": "ann", "now_us": {now_us}, "run": {run}, "forward": 0.3}}"#);
            serde_json::from_str::<Input>(&text).unwrap()
        };
        let clock = Clock { now_us: 1_000_000, run: 5, at: Instant::now() };
        let later = clock.at + Duration::from_millis(100);
        assert_eq!(read(7, 5).teleop.forward, 0.3);
        assert!(clock.takes(&read(1_000_000, 5), later) && clock.takes(&read(800_000, 5), later));
        assert!(!clock.takes(&read(799_999, 5), later), "too old");
        assert!(!clock.takes(&read(1_100_001, 5), later), "from the future");
        assert!(!clock.takes(&read(1_000_000, 6), later), "of another run");
        assert!(serde_json::from_str::<Input>(r#"{"by": "ann", "now_us": 7, "forward": 0.3}"#).is_err());
    }
}
