//! A robot run by [`Launch`], in real time. Nothing here must be fast; things must only happen at last.
#![allow(clippy::unwrap_used)]

use khz_controllers::Hold;
use khz_file::RobotConfig;
use khz_loop::controller::Controller;
use khz_loop::run::{Observer, Tick};
use khz_loop::state::RobotState;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::time::Receive;
use khz_loop::{ControlError, ServoCommand};
use khz_robot::assemble;
use khz_robot::launch::{Launch, LaunchOptions};
use khz_robot::recorder::{Declared, RecordId, RecorderBuilder, Sink, SinkResult, Tap};
use khz_robot::session::{Session, SessionSettings};
use khz_rt::{Overrun, Setup, Wake};
use khz_tlog::{Reader, Type, Width};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// One emulated servo at 100 Hz, with what else a test wants of the loop. Lenient in everything but the controller, because the
/// machine that runs the tests may be busy.
fn robot(timing: &str) -> RobotConfig {
    let text = format!(
        "[loop]\nrate_hz = 100\npolicy = \"other\"\nlock_memory = false\n{timing}\n[bus.main]\nlink = \"emulated\"\n\
         [log]\nenabled = false\n[supervisor]\nanswer_s = 60\ndamping_s = 0.2\noverruns = 100000\n\
         missed_replies = 100000\nstale_ms = 100000\n\
         [[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\nwatchdog_s = 30.0\n"
    );
    RobotConfig::parse(&text, "test").unwrap()
}

/// Holds, and takes four and a half periods for every update.
#[derive(Default)]
struct Slow(Hold);

impl Controller for Slow {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.0.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        thread::sleep(Duration::from_millis(45));
        self.0.update(state, commands)
    }
}

#[test]
fn a_pipelined_controller_that_is_slow_for_good_is_caught() {
    for mode in ["inline", "pipelined"] {
        let config = robot(&format!("mode = \"{mode}\""));
        let launch = Launch::start(
            &config,
            "",
            LaunchOptions {
                controller: Some(Box::<Slow>::default()),
                // A loop that is itself held up again and again has to try for long: its controller is excused each time.
                duration_ns: Some(600_000_000_000),
                ..LaunchOptions::default()
            },
        );
        let outcome = launch.unwrap().wait().unwrap();
        // A loop that computes for four periods is also reported as held up, which ends nothing.
        let down = outcome.stats.transitions.iter().find(|change| change.to == Phase::Damping);
        match down.map(|change| change.cause) {
            Some(Cause::ControllerSlow { took_ns, .. }) => {
                assert!(took_ns >= 45_000_000, "{mode}: {took_ns}")
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
}

/// Holds, and counts its updates.
struct Counting(Hold, Arc<AtomicU64>);

impl Counting {
    /// It and its count.
    fn new() -> (Box<Self>, Arc<AtomicU64>) {
        let updates = Arc::new(AtomicU64::new(0));
        (Box::new(Self(Hold::default(), Arc::clone(&updates))), updates)
    }
}

impl Controller for Counting {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.0.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.update(state, commands)
    }
}

fn wait_until_driven(updates: &AtomicU64) {
    let begun = Instant::now();
    while updates.load(Ordering::Relaxed) < 10 {
        assert!(begun.elapsed() < Duration::from_secs(120), "the robot was never driven");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_robot_that_is_dropped_comes_down_and_its_log_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = robot("");
    config.log.enabled = true;
    config.log.path = folder.path().join("log.tlog").display().to_string();
    let (controller, updates) = Counting::new();
    let launch = Launch::start(
        &config,
        "",
        LaunchOptions { controller: Some(controller), ..LaunchOptions::default() },
    )
    .unwrap();
    wait_until_driven(&updates);
    drop(launch);
    // The controller is gone with the loop: nothing drives the robot any more.
    assert_eq!(Arc::strong_count(&updates), 1);
    let log = std::fs::read(&config.log.path).unwrap();
    assert!(log.windows(7).any(|word| word == b"damping") && log.windows(7).any(|word| word == b"stopped"));
}

/// Live view and log did not show it; only the terminal did.
#[test]
fn a_log_that_is_removed_is_an_event_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = robot("");
    config.log.enabled = true;
    config.log.path = folder.path().join("log.tlog").display().to_string();
    let (controller, updates) = Counting::new();
    let options = LaunchOptions { controller: Some(controller), ..LaunchOptions::default() };
    let launch = Launch::start(&config, "", options).unwrap();
    wait_until_driven(&updates);
    std::fs::remove_file(&config.log.path).unwrap();
    let begun = Instant::now();
    while launch.trouble_with_log().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not noticed");
        thread::sleep(Duration::from_millis(1));
    }
    launch.session.stop();
    let recording = launch.wait().unwrap().recording.unwrap();
    let log = std::fs::read(&recording.paths[0]).unwrap();
    let mut reader = Reader::open(&log).unwrap();
    reader.select(["event"]);
    let mut events = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let value = item.value().unwrap();
        events.push(["from", "to", "cause"].map(|field| format!("{:?}", value.at(field).unwrap())));
    }
    let message = events.iter().find(|[_, _, cause]| cause.contains("the log is incomplete: writing "));
    assert!(message.is_some_and(|[from, to, _]| from == to), "{events:?}");
}

/// Records a number of its own in every update.
struct Recording(Box<Counting>, RecordId, Tap);

impl Controller for Recording {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.0.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.2.push_value(self.1, state.now_ns, &state.tick);
        self.0.update(state, commands)
    }
}

/// Counts the samples of every record.
struct Census(Arc<Mutex<BTreeMap<String, u64>>>, Vec<String>);

impl Sink for Census {
    fn name(&self) -> &str {
        "census"
    }

    fn begin(&mut self, records: &[Declared], _: i64) -> SinkResult {
        self.1 = records.iter().map(|record| record.name.clone()).collect();
        Ok(())
    }

    fn sample(&mut self, record: RecordId, _: i64, _: &[u8]) -> SinkResult {
        *self.0.lock().unwrap().entry(self.1[record.index()].clone()).or_default() += 1;
        Ok(())
    }
}

#[test]
fn records_and_sinks_of_ones_own_are_part_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = robot("");
    config.log.enabled = true;
    config.log.path = folder.path().join("log.tlog").display().to_string();
    let census = Arc::<Mutex<_>>::default();
    let mut builder = RecorderBuilder::default();
    let own = builder.record("own", &Type::Uint(Width::Eight)).unwrap();
    let (tap, (counting, updates)) = (builder.tap(1 << 20), Counting::new());
    builder.sink(Box::new(Census(Arc::clone(&census), Vec::new()))).unwrap();
    let controller = Box::new(Recording(counting, own, tap));
    let launch = Launch::start(
        &config,
        "",
        LaunchOptions { controller: Some(controller), recorder: builder, ..LaunchOptions::default() },
    )
    .unwrap();
    wait_until_driven(&updates);
    launch.session.stop();
    let recording = launch.wait().unwrap().recording.unwrap();
    let written = recording.records.iter().map(|record| (record.name.as_str(), record.written));
    let written: BTreeMap<_, _> = written.filter(|(_, written)| *written > 0).collect();
    assert_eq!(written["own"], updates.load(Ordering::Relaxed));
    let log = std::fs::read(&config.log.path).unwrap();
    let mut reader = Reader::open(&log).unwrap();
    reader.select(["own"]);
    let logged = std::iter::from_fn(|| reader.next().unwrap().map(|_| ())).count();
    assert_eq!(logged as u64, written["own"]);
    let [_, census_of_sink] = &recording.sinks[..] else { panic!("{:?}", recording.sinks) };
    assert_eq!(census_of_sink.taken + census_of_sink.lost, written.values().sum::<u64>());
    assert_eq!(census.lock().unwrap().values().sum::<u64>(), census_of_sink.taken);
}

#[test]
fn a_record_of_ones_own_cannot_take_the_name_of_one_of_a_run() {
    let mut config = robot("");
    config.log.enabled = true;
    let mut builder = RecorderBuilder::default();
    builder.record("servo", &Type::Null).unwrap();
    let Err(error) =
        Launch::start(&config, "", LaunchOptions { recorder: builder, ..LaunchOptions::default() })
    else {
        panic!()
    };
    assert_eq!(error.to_string(), "the record \"servo\" is declared twice");
}

/// Keeps the phase after every tick.
struct Phases(Arc<Mutex<Vec<Phase>>>);

impl Observer for Phases {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0.lock().unwrap().push(tick.machine.phase());
    }
}

#[test]
fn a_session_that_is_dropped_brings_its_robot_down() {
    let (controller, updates) = Counting::new();
    let machine = assemble::machine(&robot(""), controller).unwrap();
    let phases = Arc::new(Mutex::new(Vec::new()));
    let observers: Vec<Box<dyn Observer + Send>> = vec![Box::new(Phases(Arc::clone(&phases)))];
    let settings = SessionSettings {
        clock: khz_loop::timing::Clock::Real,
        setup: Setup::ordinary(),
        wake: Wake::Sleep,
        receive: Receive::Poll,
        period_ns: 10_000_000,
        overrun: Overrun::Skip,
        frame_patience_ns: None,
        late_ns: 10_000_000,
        duration_ns: None,
    };
    let session = Session::start(machine, observers, settings, Arc::default()).unwrap();
    wait_until_driven(&updates);
    drop(session);
    assert_eq!(Arc::strong_count(&updates), 1);
    let phases = phases.lock().unwrap();
    assert!(phases.contains(&Phase::Damping));
    assert_eq!(phases.last(), Some(&Phase::Stopped));
}
