use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Long enough for every machine.
const EVER: Duration = Duration::from_secs(600);

/// What a sink does with a sample.
type Take = Box<dyn FnMut(i64) -> SinkResult + Send>;

/// A sink that does what the test sets, and keeps what it was given.
struct Taking {
    name: &'static str,
    seen: Arc<Mutex<Seen>>,
    take: Take,
}

#[derive(Default)]
struct Seen {
    records: Vec<Declared>,
    samples: Vec<(usize, i64, Vec<u8>)>,
    turns: u32,
    finished: u32,
}

impl Sink for Taking {
    fn name(&self) -> &str {
        self.name
    }

    fn begin(&mut self, records: &[Declared], epoch_ns: i64) -> SinkResult {
        assert_eq!(epoch_ns, 0);
        self.seen.lock().unwrap().records = records.to_vec();
        Ok(())
    }

    fn sample(&mut self, record: RecordId, time_ns: i64, payload: &[u8]) -> SinkResult {
        (self.take)(time_ns)?;
        self.seen.lock().unwrap().samples.push((record.index(), time_ns, payload.to_vec()));
        Ok(())
    }

    fn turn(&mut self, _: i64) -> SinkResult {
        self.seen.lock().unwrap().turns += 1;
        Ok(())
    }

    fn finish(&mut self, _: i64) -> SinkResult {
        self.seen.lock().unwrap().finished += 1;
        Ok(())
    }
}

/// A recording into these sinks, too, with little room before each.
fn bench(sinks: Vec<(&'static str, Take)>, patience: Duration) -> (Bench, Vec<Arc<Mutex<Seen>>>) {
    let mut builder =
        RecorderBuilder::new(LogConfig { path: "run.tlog".into(), ..Default::default() }).epoch_ns(0);
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    builder.record("other", &Type::Null).unwrap();
    let tap = builder.tap(0);
    let mut all = Vec::new();
    for (name, take) in sinks {
        let seen = Arc::<Mutex<Seen>>::default();
        all.push(Arc::clone(&seen));
        builder.sink(Box::new(Taking { name, seen, take })).unwrap();
    }
    let disk = Memory::default();
    let work = Work::begin_with(builder, disk.clone(), 0, 0, patience).unwrap();
    (Bench { work, disk, tap, tick }, all)
}

/// A sample waits until the other end is dropped.
fn gate() -> (Sender<()>, Take) {
    let (gate, closed): (Sender<()>, Receiver<()>) = channel();
    let take = move |_| {
        let _ = closed.recv();
        Ok(())
    };
    (gate, Box::new(take))
}

fn all() -> Take {
    Box::new(|_| Ok(()))
}

fn sink(name: &str, taken: u64, lost: u64) -> SinkSummary {
    SinkSummary { name: name.into(), taken, lost, error: None, note: None }
}

#[test]
fn a_sink_of_ones_own_sees_every_record_and_sample() {
    let (mut bench, seen) = bench(vec![("own", all())], EVER);
    bench.run(0..1000, 7);
    let summary = bench.finish(1000 * MS);
    assert_eq!(summary.sinks, [sink("log", 1000, 0), sink("own", 1000, 0)]);
    let seen = seen[0].lock().unwrap();
    let names: Vec<_> = seen.records.iter().map(|record| (record.name.as_str(), &record.ty)).collect();
    assert_eq!(names, [("tick", &Type::Uint(Width::Four)), ("other", &Type::Null)]);
    let expected = (0..1000u32).map(|n| (0, i64::from(n) * MS, n.to_le_bytes().to_vec()));
    assert_eq!(seen.samples, Vec::from_iter(expected));
    assert!(seen.turns > 0 && seen.finished == 1);
}

#[test]
fn a_slow_sink_loses_samples_and_no_other_does() {
    let (gate, slow) = gate();
    let (mut bench, seen) = bench(vec![("slow", slow), ("quick", all())], EVER);
    // Slower than the ring of the quick sink runs full.
    for n in 0..100 {
        bench.run(n * 100..(n + 1) * 100, 10);
        while seen[1].lock().unwrap().samples.len() < (n as usize + 1) * 100 {
            std::thread::yield_now();
        }
    }
    bench.work.finish(10_000 * MS);
    // The log is whole while the sink still stands.
    let log = bench.disk.file("run.tlog");
    assert_eq!(ticks(&log), Vec::from_iter(0..10_000));
    drop(gate);
    let [log_file, slow, quick] = &bench.end().sinks[..] else { panic!() };
    assert_eq!((log_file, quick), (&sink("log", 10_000, 0), &sink("quick", 10_000, 0)));
    assert_eq!((slow.taken + slow.lost, &slow.error), (10_000, &None));
    assert_eq!(seen[0].lock().unwrap().samples.len() as u64, slow.taken);
    assert!(slow.lost > 0 && slow.taken > 0, "{slow:?}");
    assert_eq!(logged_losses(&log), [("slow", slow.lost), ("quick", 0)]);
}

/// What the log's own record has last of the sinks.
fn logged_losses(log: &[u8]) -> [(&'static str, u64); 2] {
    let mut reader = Reader::open(log).unwrap();
    let last = reader.record(file::OWN_RECORD).unwrap().last().unwrap();
    let sample = reader.sample_at(last).unwrap();
    let value = sample.value().unwrap();
    ["slow", "quick"].map(|name| match value.at(&format!("lost.{name}")) {
        Some(Value::Uint(lost)) => (name, lost),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_sink_that_never_returns_is_left_behind() {
    let (gate, stuck) = gate();
    let (mut bench, seen) = bench(vec![("stuck", stuck)], Duration::ZERO);
    bench.run(0..100, 10);
    let summary = bench.finish(100 * MS);
    assert_eq!(ticks(&bench.disk.file("run.tlog")).len(), 100);
    let [_, stuck] = &summary.sinks[..] else { panic!() };
    assert_eq!((stuck.taken, stuck.lost), (0, 100));
    assert!(stuck.error.as_ref().unwrap().contains("had not taken all"), "{stuck:?}");
    drop(gate);
    // Its thread ends, and gives it no sample any more but the one it had.
    while Arc::strong_count(&seen[0]) > 1 {
        std::thread::yield_now();
    }
    assert!(seen[0].lock().unwrap().samples.len() <= 1);
}

#[test]
fn a_failing_sink_loses_what_it_refused_and_is_given_the_rest() {
    let third =
        Box::new(
            |time_ns| {
                if time_ns / MS % 3 == 2 { Err(format!("no {}", time_ns / MS).into()) } else { Ok(()) }
            },
        );
    let (mut bench, seen) = bench(vec![("third", third)], EVER);
    bench.run(0..900, 10);
    let summary = bench.finish(900 * MS);
    let third = SinkSummary { error: Some("no 2".into()), ..sink("third", 600, 300) };
    assert_eq!(summary.sinks, [sink("log", 900, 0), third]);
    assert_eq!((summary.dropped(), seen[0].lock().unwrap().samples.len()), (0, 600));
}

#[test]
fn a_sink_that_panics_is_dropped_counted_and_named_and_the_log_goes_on() {
    struct Falls;
    impl Drop for Falls {
        fn drop(&mut self) {
            panic!("in its fall");
        }
    }
    let falls = Falls;
    let panics = Box::new(move |time_ns| {
        let _falls = &falls;
        assert!(time_ns < 10 * MS, "a bug in the sink");
        Ok(())
    });
    let (mut bench, seen) = bench(vec![("panics", panics), ("other", all())], EVER);
    bench.run(0..1000, 10);
    let summary = bench.finish(1000 * MS);
    assert_eq!(ticks(&bench.disk.file("run.tlog")).len(), 1000);
    let [log, panicked, other] = &summary.sinks[..] else { panic!() };
    assert_eq!((log, other), (&sink("log", 1000, 0), &sink("other", 1000, 0)));
    assert_eq!((panicked.name.as_str(), panicked.taken, panicked.lost), ("panics", 10, 990));
    assert!(panicked.error.as_ref().unwrap().starts_with("it panicked: a bug in the sink, at "));
    assert_eq!((summary.error, seen[0].lock().unwrap().finished), (None, 0));
}

/// A sink that cannot begin.
struct Unable(fn() -> SinkResult);

impl Sink for Unable {
    fn name(&self) -> &str {
        "unable"
    }

    fn begin(&mut self, _: &[Declared], _: i64) -> SinkResult {
        (self.0)()
    }

    fn sample(&mut self, _: RecordId, _: i64, _: &[u8]) -> SinkResult {
        Ok(())
    }
}

#[test]
fn a_sink_that_cannot_begin_is_an_error_and_nothing_is_recorded() {
    for (begin, why) in [
        ((|| Err("no plotter".into())) as fn() -> SinkResult, "\"unable\" cannot start: no plotter"),
        (|| panic!("a bug"), "\"unable\" cannot start: it panicked: a bug"),
    ] {
        let disk = Memory::default();
        let mut builder = RecorderBuilder::new(LogConfig::default());
        builder.sink(Box::new(Unable(begin))).unwrap();
        let Err(error) = builder.start_on(disk.clone()) else { panic!() };
        assert!(error.to_string().contains(why), "{error}");
        assert!(disk.0.lock().unwrap().files.is_empty());
    }
}

#[test]
fn two_sinks_of_one_name_could_not_be_distinguished() {
    let mut builder = RecorderBuilder::new(LogConfig::default());
    let named = |name| Box::new(Taking { name, seen: Arc::default(), take: all() });
    builder.sink(named("own")).unwrap();
    for name in ["own", "log", "stream"] {
        assert!(matches!(builder.sink(named(name)), Err(RecorderError::SinkTwice(twice)) if twice == name));
    }
}

#[test]
fn samples_the_network_does_not_take_are_counted() {
    let unused = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut bench = super::bench(|log| log.stream = Some(unused.to_string()));
    // The answer that the port is closed comes after a datagram, and the next one pays for it.
    bench.run(0..1000, 10);
    let summary = bench.finish(1000 * MS);
    let [log, stream] = &summary.sinks[..] else { panic!() };
    assert_eq!(log, &sink("log", 1000, 0));
    assert_eq!((stream.name.as_str(), stream.taken + stream.lost), ("stream", 1000));
    assert!(stream.lost > 0 && stream.error.as_ref().unwrap().contains("refused"), "{stream:?}");
}

#[test]
fn a_schema_too_large_for_a_datagram_keeps_no_recording_from_its_beginning() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let stream = Some(receiver.local_addr().unwrap().to_string());
    let mut builder =
        RecorderBuilder::new(LogConfig { path: "run.tlog".into(), stream, ..Default::default() }).epoch_ns(0);
    builder.record(&"x".repeat(70_000), &Type::Null).unwrap();
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let tap = builder.tap(0);
    let disk = Memory::default();
    let work = Work::begin(builder, disk.clone(), 0).unwrap();
    let mut bench = Bench { work, disk, tap, tick };
    bench.run(0..10, 10);
    let stream = &bench.finish(10 * MS).sinks[1];
    assert_eq!((stream.taken, stream.lost), (10, 0));
    assert!(stream.error.as_ref().unwrap().contains("do not fit a datagram"), "{stream:?}");
}

/// A viewer that is started after the robot did not know the robot's name and its parameters.
#[test]
fn the_sample_of_a_record_with_only_one_is_sent_again_for_late_receivers() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    let stream = Some(receiver.local_addr().unwrap().to_string());
    let mut builder =
        RecorderBuilder::new(LogConfig { path: "run.tlog".into(), stream, ..Default::default() }).epoch_ns(0);
    let robot = builder.record("robot", &Type::Uint(Width::Four)).unwrap();
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let mut tap = builder.tap(1 << 16);
    let disk = Memory::default();
    let mut work = Work::begin(builder, disk, 0).unwrap();
    tap.push(robot, 5 * MS, &[1, 2, 3, 4]);
    tap.push(tick, 5 * MS, &[0; 4]);
    tap.push(tick, 6 * MS, &[1; 4]);
    let mut samples = |now_ns| {
        work.step(now_ns);
        let mut found = Vec::new();
        let mut bytes = [0; 2000];
        while let Ok(len) = receiver.recv(&mut bytes) {
            for message in crate::Datagram::read(&bytes[..len]).unwrap() {
                if let crate::Message::Sample { record, time_us, payload } = message.unwrap() {
                    found.push((record, time_us, payload.to_vec()));
                }
            }
        }
        found
    };
    let of_robot = (0, 5000, vec![1, 2, 3, 4]);
    assert_eq!(samples(6 * MS).len(), 3);
    assert_eq!(samples(5000 * MS), []);
    assert_eq!(samples(10_006 * MS), std::slice::from_ref(&of_robot));
    assert_eq!(samples(11_000 * MS), []);
    assert_eq!(samples(20_006 * MS), [of_robot]);
}
