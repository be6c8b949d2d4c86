//! A sink as its producer sees it: it may fail, be slow and panic.

use crate::records::{Counts, Declared, RecordId};
use crate::sink::{Sink, SinkResult, SinkSummary};
use crate::tap::{self, Drain, Tap};
use crate::until::until_stopped;
use khz_rt::panics::{self, Panic};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a thread looks into its rings. It cannot be woken: that would be a system call of the tick.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// Memory between the recorder's thread and that of a further sink.
pub(super) const RING_BYTES: usize = 8 << 20;

/// How long the end of a recording waits for sinks that are behind.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// A sink, and what became of the samples given to it. Whatever the sink does, the caller's thread goes on.
pub(super) struct Lane {
    name: String,
    /// `None` after a panic.
    sink: Option<Box<dyn Sink>>,
    given: u64,
    refused: u64,
    /// What the sink reported as lost of those it took.
    lost_since: u64,
    error: Option<String>,
}

impl Lane {
    pub fn new(sink: Box<dyn Sink>) -> Self {
        panics::install();
        let name = sink.name().to_owned();
        Self { name, sink: Some(sink), given: 0, refused: 0, lost_since: 0, error: None }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins; an error states what keeps the sink from working.
    pub fn begin(&mut self, records: &[Declared], epoch_ns: i64) -> Result<(), String> {
        match self.call(|sink| sink.begin(records, epoch_ns)) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err(self.error.take().unwrap_or_default()),
        }
    }

    pub fn sample(&mut self, record: RecordId, time_ns: i64, payload: &[u8]) {
        self.given += 1;
        let outcome = self.call(|sink| sink.sample(record, time_ns, payload));
        self.refused += u64::from(!matches!(outcome, Some(Ok(()))));
        self.keep(outcome);
    }

    pub fn turn(&mut self, now_ns: i64) {
        let outcome = self.call(|sink| sink.turn(now_ns));
        self.keep(outcome);
        self.ask();
    }

    pub fn finish(&mut self, now_ns: i64) {
        let outcome = self.call(|sink| sink.finish(now_ns));
        self.keep(outcome);
        self.ask();
    }

    /// Samples lost so far.
    pub fn lost(&self) -> u64 {
        (self.refused + self.lost_since).min(self.given)
    }

    pub fn summary(mut self) -> SinkSummary {
        let lost = self.lost();
        let note = self.call(|sink| sink.note()).flatten();
        SinkSummary { name: self.name, taken: self.given - lost, lost, error: self.error, note }
    }

    fn ask(&mut self) {
        self.lost_since = self.call(|sink| sink.lost()).unwrap_or(self.lost_since);
    }

    fn keep(&mut self, outcome: Option<SinkResult>) {
        if let Some(Err(error)) = outcome {
            self.error.get_or_insert_with(|| error.to_string());
        }
    }

    /// Calls the sink, if it is still there. One that panics is dropped.
    fn call<T>(&mut self, action: impl FnOnce(&mut dyn Sink) -> T) -> Option<T> {
        let sink = self.sink.as_mut()?;
        let mut panic = Panic::new();
        let outcome = panics::catch(&mut panic, || action(sink.as_mut()));
        if outcome.is_none() {
            self.error = Some(format!("it panicked: {panic}"));
            let sink = self.sink.take();
            // Whatever it reports as it fails is known already.
            panics::catch(&mut Panic::new(), || drop(sink));
        }
        outcome
    }
}

/// What the thread of a sink and the recorder's exchange. Every number has one meaning, so no order among them
/// matters.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The last waiter is gone.
    left: AtomicBool,
    taken: AtomicU64,
    lost: AtomicU64,
}

/// A sink on its own thread, seen from the recorder's. To give it a sample never waits.
pub(super) struct Beside {
    name: String,
    tap: Tap,
    given: u64,
    counts: Arc<Counts>,
    shared: Arc<Shared>,
    /// `None` once its end was waited for.
    thread: Option<JoinHandle<SinkSummary>>,
}

impl Beside {
    pub fn start(lane: Lane, ring_bytes: usize) -> io::Result<Self> {
        let counts = Arc::new(Counts::new());
        let (tap, drain) = tap::ring(ring_bytes, Arc::clone(&counts));
        let (name, shared) = (lane.name().to_owned(), Arc::<Shared>::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("khz-sink".into());
        let thread = Some(thread.spawn(move || work(lane, drain, &theirs))?);
        Ok(Self { name, tap, given: 0, counts, shared, thread })
    }

    /// Gives it a sample, or counts it as lost.
    pub fn sample(&mut self, record: RecordId, time_ns: i64, payload: &[u8]) {
        self.given += 1;
        self.tap.push(record, time_ns, payload);
    }

    /// Samples lost so far.
    pub fn lost(&self) -> u64 {
        self.counts.all_dropped() + self.shared.lost.load(Ordering::Relaxed)
    }

    /// There will be no more samples.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Waits for the sink until `deadline`, and leaves it behind then.
    pub fn summary(mut self, deadline: Instant) -> SinkSummary {
        let Some(thread) = self.thread.take() else { return SinkSummary::default() };
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let ended = if thread.is_finished() { thread.join().ok() } else { None };
        let taken = || self.shared.taken.load(Ordering::Relaxed);
        let behind = || Some("it had not taken all when the recording was over".to_owned());
        let ended =
            ended.unwrap_or_else(|| SinkSummary { taken: taken(), error: behind(), ..Default::default() });
        let lost = self.given - ended.taken;
        SinkSummary { name: std::mem::take(&mut self.name), lost, ..ended }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.shared.left.store(true, Ordering::Release);
        self.stop();
    }
}

/// The sink's thread.
fn work(mut lane: Lane, mut drain: Drain, shared: &Shared) -> SinkSummary {
    let mut step = || {
        deliver(&mut lane, &mut drain, shared);
        lane.turn(khz_rt::now_ns());
        publish(&lane, shared);
    };
    until_stopped(&shared.stop, &mut step, || std::thread::park_timeout(LOOK));
    step();
    lane.finish(khz_rt::now_ns());
    publish(&lane, shared);
    lane.summary()
}

fn deliver(lane: &mut Lane, drain: &mut Drain, shared: &Shared) {
    while let Some(head) = drain.peek()
        && !shared.left.load(Ordering::Acquire)
    {
        lane.sample(head.record, head.time_ns, drain.take(head));
        publish(lane, shared);
    }
}

fn publish(lane: &Lane, shared: &Shared) {
    shared.taken.store(lane.given - lane.lost(), Ordering::Relaxed);
    shared.lost.store(lane.lost(), Ordering::Relaxed);
}
