mod sinks;

use super::*;
use crate::work::Work;
use khz_tlog::{Reader, Type, Value, Width};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const MS: i64 = 1_000_000;

/// A disk in memory that can be full or broken.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Shelf>>);

#[derive(Default)]
struct Shelf {
    files: HashMap<PathBuf, Vec<u8>>,
    free: Option<u64>,
    broken: bool,
    panics: bool,
    syncs: u32,
}

impl Memory {
    fn file(&self, path: &str) -> Vec<u8> {
        self.0.lock().unwrap().files[Path::new(path)].clone()
    }

    fn set(&self, change: impl FnOnce(&mut Shelf)) {
        change(&mut self.0.lock().unwrap());
    }
}

impl Disk for Memory {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
        let mut shelf = self.0.lock().unwrap();
        if shelf.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        shelf.files.insert(path.into(), Vec::new());
        Ok(Box::new(MemoryFile(self.clone(), path.into())))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().free.unwrap_or(u64::MAX))
    }
}

struct MemoryFile(Memory, PathBuf);

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let panics = self.0.0.lock().unwrap().panics;
        assert!(!panics, "a bug in the disk");
        let mut shelf = self.0.0.lock().unwrap();
        if shelf.broken {
            return Err(io::Error::other("the card was pulled"));
        }
        shelf.files.get_mut(&self.1).unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for MemoryFile {
    fn sync(&mut self) -> io::Result<()> {
        self.0.set(|shelf| shelf.syncs += 1);
        Ok(())
    }

    fn close(&mut self) -> io::Result<u64> {
        Ok(self.0.0.lock().unwrap().files[&self.1].len() as u64)
    }
}

struct Bench {
    disk: Memory,
    work: Work<Memory>,
    tap: Tap,
    tick: RecordId,
}

fn bench(change: impl FnOnce(&mut LogConfig)) -> Bench {
    let mut options = LogConfig { path: "run.tlog".into(), ..Default::default() };
    change(&mut options);
    let mut builder = RecorderBuilder::new(options).epoch_ns(0);
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    builder.record("other", &Type::Null).unwrap();
    let tap = builder.tap(0);
    let disk = Memory::default();
    Bench { work: Work::begin(builder, disk.clone(), 0).unwrap(), disk, tap, tick }
}

impl Bench {
    fn push(&mut self, time_ns: i64, value: u32) -> bool {
        self.tap.push_value(self.tick, time_ns, &value)
    }

    fn finish(&mut self, now_ns: i64) -> Summary {
        self.work.finish(now_ns);
        self.end()
    }

    fn end(&mut self) -> Summary {
        let nothing = RecorderBuilder::new(LogConfig { path: "nothing".into(), ..Default::default() });
        std::mem::replace(&mut self.work, Work::begin(nothing, Memory::default(), 0).unwrap()).summary()
    }

    /// Ticks of a millisecond each, a step of the recorder after every `every`-th.
    fn run(&mut self, ticks: std::ops::Range<u32>, every: u32) {
        for n in ticks {
            self.push(i64::from(n) * MS, n);
            if n % every == every - 1 {
                self.work.step(i64::from(n) * MS);
            }
        }
    }
}

fn ticks(log: &[u8]) -> Vec<u64> {
    let mut reader = Reader::open(log).unwrap();
    reader.select(["tick"]);
    let mut values = Vec::new();
    while let Ok(Some(item)) = reader.next() {
        let Value::Uint(value) = item.value().unwrap() else { panic!() };
        assert_eq!(item.time_us, Some(value as i64 * 1000));
        values.push(value);
    }
    values
}

fn logged_drops(log: &[u8]) -> Option<Value<'static>> {
    let mut reader = Reader::open(log).unwrap();
    let last = reader.record(file::OWN_RECORD).unwrap().last()?;
    let Value::Uint(drops) = reader.sample_at(last).unwrap().value().unwrap().at("dropped.tick")? else {
        panic!()
    };
    Some(Value::Uint(drops))
}

#[test]
fn every_tick_is_in_the_log_and_the_log_is_finished() {
    let mut bench = bench(|_| {});
    bench.run(0..1000, 7);
    let summary = bench.finish(1000 * MS);
    let log = bench.disk.file("run.tlog");
    assert_eq!(ticks(&log), Vec::from_iter(0..1000));
    assert!(Reader::open(&log).unwrap().is_finished());
    assert_eq!((summary.bytes, summary.dropped(), summary.error), (log.len() as u64, 0, None));
    assert_eq!(summary.records[0], RecordSummary { name: "tick".into(), written: 1000, dropped: 0 });
    assert_eq!(bench.disk.0.lock().unwrap().syncs, 1);
}

#[test]
fn a_killed_recorder_leaves_all_but_the_last_tenth_of_a_second() {
    let mut bench = bench(|_| {});
    bench.run(0..5000, 5);
    let found = ticks(&bench.disk.file("run.tlog"));
    assert_eq!(found, Vec::from_iter(0..found.len() as u64));
    assert!(found.len() >= 4890, "{}", found.len());
}

#[test]
fn records_chosen_for_zstd_are_as_safe_and_as_whole_as_others() {
    let mut bench = bench(|options| options.zstd = vec!["tick".into()]);
    bench.run(0..5000, 5);
    let found = ticks(&bench.disk.file("run.tlog"));
    assert!(found.len() >= 4890, "{}", found.len());
    let summary = bench.finish(5000 * MS);
    let log = bench.disk.file("run.tlog");
    assert_eq!(ticks(&log), Vec::from_iter(0..5000));
    assert_eq!(summary.records[0].written, 5000);
    assert!(Reader::open(&log).unwrap().record("tick").unwrap().is_zstd());
}

#[test]
fn a_record_that_is_not_there_cannot_be_chosen_for_zstd() {
    let mut builder = RecorderBuilder::new(LogConfig { zstd: vec!["tack".into()], ..Default::default() });
    builder.record("tick", &Type::Null).unwrap();
    let Err(error) = builder.start_on(Memory::default()) else { panic!() };
    assert!(error.to_string().contains("\"tack\"") && error.to_string().contains("tick"), "{error}");
}

#[test]
fn a_full_ring_drops_and_the_log_says_how_many() {
    let mut bench = bench(|_| {});
    let taken = (0..10_000).filter(|&n| bench.push(0, n)).count() as u64;
    assert!(taken < 10_000);
    bench.work.step(0);
    let summary = bench.finish(1);
    assert_eq!((summary.records[0].written, summary.dropped()), (taken, 10_000 - taken));
    assert_eq!(logged_drops(&bench.disk.file("run.tlog")), Some(Value::Uint(10_000 - taken)));
}

#[test]
fn files_rotate_by_size_and_by_time_and_none_is_overwritten() {
    for change in [(|options| options.rotate_mib = Some(1)) as fn(&mut LogConfig), |options| {
        options.rotate_s = Some(20.0)
    }] {
        let mut bench = bench(change);
        bench.run(0..160_000, 10);
        let summary = bench.finish(160_000 * MS);
        assert!(summary.paths.len() >= 3);
        assert_eq!(summary.paths[1], Path::new("run-1.tlog"));
        let logs: Vec<_> = summary.paths.iter().map(|path| bench.disk.file(path.to_str().unwrap())).collect();
        assert_eq!(logs.iter().flat_map(|log| ticks(log)).collect::<Vec<_>>(), Vec::from_iter(0..160_000));
        assert_eq!(summary.bytes, logs.iter().map(|log| log.len() as u64).sum::<u64>());
        assert!(logs.iter().all(|log| Reader::open(log).unwrap().is_finished()));
    }
}

/// The samples of a record, with their times.
fn samples(log: &[u8], record: &str) -> Vec<(Option<i64>, u64)> {
    let mut reader = Reader::open(log).unwrap();
    reader.select([record]);
    let mut samples = Vec::new();
    while let Ok(Some(item)) = reader.next() {
        let Value::Uint(value) = item.value().unwrap() else { panic!() };
        samples.push((item.time_us, value));
    }
    samples
}

#[test]
fn each_file_begins_with_what_says_whose_it_is() {
    let options =
        LogConfig { path: "run.tlog".into(), rotate_s: Some(1.0), keep_free_mib: 1, ..Default::default() };
    let mut builder = RecorderBuilder::new(options).epoch_ns(5_000 * MS);
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let robot = builder.record("robot", &Type::Uint(Width::Four)).unwrap();
    let never = builder.record("never", &Type::Uint(Width::Four)).unwrap();
    builder.in_every_file(robot);
    builder.in_every_file(never);
    let (mut tap, disk) = (builder.tap(0), Memory::default());
    let mut work = Work::begin(builder, disk.clone(), 0).unwrap();
    let mut run = |ticks: std::ops::Range<u32>, work: &mut Work<Memory>| {
        for n in ticks {
            if n == 0 || n == 1500 {
                assert!(tap.push_value(robot, i64::from(n) * MS, &(7 + n)));
            }
            assert!(tap.push_value(tick, i64::from(n) * MS, &n));
            // The recorder is a little late, as ever.
            if n % 10 == 9 {
                work.step(i64::from(n + 3) * MS);
            }
        }
    };
    run(0..2500, &mut work);
    // A disk that was full begins a new file, too.
    disk.set(|shelf| shelf.free = Some(1000));
    run(2500..4500, &mut work);
    disk.set(|shelf| shelf.free = Some(100 << 20));
    run(4500..6500, &mut work);
    work.finish(6500 * MS);
    let summary = work.summary();
    assert!(summary.paths.len() >= 5, "{:?}", summary.paths);
    for (at, path) in summary.paths.iter().enumerate() {
        let log = disk.file(path.to_str().unwrap());
        let (robots, ticks) = (samples(&log, "robot"), samples(&log, "tick"));
        let (time_us, value) = robots[0];
        let begun_us = ticks[0].0;
        assert_eq!(value, if begun_us.unwrap() <= 6_500_000 { 7 } else { 1507 }, "{path:?}");
        assert!(time_us <= begun_us, "{path:?}: {time_us:?} {begun_us:?}");
        // No two files begin alike: the time is that of the newest sample, not of the first file's.
        assert!(
            at == 0
                || time_us
                    >= samples(&disk.file(summary.paths[at - 1].to_str().unwrap()), "tick").last().unwrap().0
        );
        assert!(samples(&log, "never").is_empty());
    }
    let written: Vec<u64> = summary.records.iter().map(|record| record.written).collect();
    assert_eq!((written[1], written[2]), (2, 0), "copies are in no count");
    assert_eq!(written[0] + summary.records[0].dropped, 6500);
}

#[test]
fn a_disk_running_full_ends_the_file_and_a_freed_one_begins_another() {
    let mut bench = bench(|options| options.keep_free_mib = 1);
    bench.run(0..2000, 10);
    bench.disk.set(|shelf| shelf.free = Some(1000));
    bench.run(2000..6000, 10);
    bench.disk.set(|shelf| shelf.free = Some(100 << 20));
    bench.run(6000..9000, 10);
    let summary = bench.finish(9000 * MS);
    assert_eq!(summary.paths.len(), 2);
    let mut found = ticks(&bench.disk.file("run.tlog"));
    found.extend(ticks(&bench.disk.file("run-1.tlog")));
    assert_eq!(found.len() as u64, summary.records[0].written);
    assert_eq!(summary.records[0].written + summary.records[0].dropped, 9000);
    assert!((3000..5000).contains(&summary.dropped()));
    assert_eq!(logged_drops(&bench.disk.file("run-1.tlog")), Some(Value::Uint(summary.dropped())));
}

#[test]
fn a_disk_that_breaks_is_reported_and_the_rest_counted() {
    let mut bench = bench(|_| {});
    bench.run(0..1000, 10);
    bench.disk.set(|shelf| shelf.broken = true);
    bench.run(1000..2000, 10);
    let summary = bench.finish(2000 * MS);
    assert!(summary.error.unwrap().contains("the card was pulled"));
    let RecordSummary { written, dropped, .. } = summary.records[0];
    assert_eq!(written + dropped, 2000);
    let found = ticks(&bench.disk.file("run.tlog")).len() as u64;
    assert!((890..=found).contains(&written), "{written} of {found}");
}

#[test]
fn what_waited_in_memory_when_the_disk_broke_is_not_counted_as_written() {
    for zstd in [vec![], vec!["tick".to_owned()]] {
        let mut bench = bench(|options| options.zstd = zstd);
        bench.run(0..500, 10);
        bench.disk.set(|shelf| shelf.broken = true);
        // All of it is less than what is written at once, so only the index and the end meet the broken disk.
        (500..550).for_each(|n| assert!(bench.push(i64::from(n) * MS, n)));
        let summary = bench.finish(550 * MS);
        assert!(summary.error.unwrap().contains("the card was pulled"));
        let RecordSummary { written, dropped, .. } = summary.records[0];
        assert_eq!(written + dropped, 550);
        assert!(written <= ticks(&bench.disk.file("run.tlog")).len() as u64);
        assert!((50..=160).contains(&dropped), "{dropped}");
    }
}

#[test]
fn a_recorder_that_panics_is_reported_with_what_it_wrote_before() {
    let mut builder = RecorderBuilder::new(LogConfig { path: "run.tlog".into(), ..Default::default() });
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let mut tap = builder.tap(0);
    let disk = Memory::default();
    let recorder = builder.start_on(disk.clone()).unwrap();
    disk.set(|shelf| shelf.panics = true);
    (0..100).for_each(|n| assert!(tap.push_value(tick, i64::from(n) * MS, &n)));
    let summary = recorder.finish();
    assert!(summary.error.unwrap().contains("panicked"));
    assert_eq!((summary.records[0].written, summary.records[0].dropped), (0, 100));
    assert_eq!(summary.paths, [Path::new("run.tlog")]);
}

#[test]
fn a_disk_that_is_full_from_the_beginning_is_an_error() {
    let disk = Memory::default();
    disk.set(|shelf| shelf.free = Some(5));
    let Err(error) = RecorderBuilder::new(LogConfig::default()).start_on(disk) else { panic!() };
    assert!(error.to_string().contains("has 5 bytes free"), "{error}");
}

#[test]
fn at_its_most_bytes_a_recording_ends_cleanly_and_counts_the_rest() {
    const MOST: u64 = 60_000;
    let log = LogConfig { path: "a".into(), rotate_s: Some(1.0), ..Default::default() };
    let mut builder = RecorderBuilder::new(log).epoch_ns(0).most_bytes(MOST);
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let (tap, disk) = (builder.tap(0), Memory::default());
    let mut bench = Bench { work: Work::begin(builder, disk.clone(), 0).unwrap(), disk, tap, tick };
    bench.run(0..9000, 10);
    let summary = bench.finish(9000 * MS);
    let files: Vec<_> = summary.paths.iter().map(|path| bench.disk.file(path.to_str().unwrap())).collect();
    assert!((2..5).contains(&files.len()) && (MOST..MOST + 1000).contains(&summary.bytes), "{summary:?}");
    let found = files.iter().map(|file| ticks(file).len() as u64).sum::<u64>();
    assert_eq!((summary.records[0].written, summary.sinks[0].taken, &summary.error), (found, found, &None));
    assert_eq!((summary.dropped(), summary.sinks[0].lost), (9000 - found, 9000 - found));
    assert_eq!(logged_drops(files.last().unwrap()), Some(Value::Uint(9000 - found)));
}

/// The recorder's own record lies between samples of another clock, where a search by time finds it.
#[test]
fn what_the_recorder_adds_has_the_time_of_samples_stamped_since_1970() {
    const LATER: i64 = 4_000_000_000 * 1_000_000_000;
    let mut builder = RecorderBuilder::new(LogConfig { path: "a".into(), ..Default::default() }).since_1970();
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let (mut tap, disk) = (builder.tap(0), Memory::default());
    let mut work = Work::begin(builder, disk.clone(), 0).unwrap();
    assert!(tap.push_value(tick, LATER, &1u32));
    work.finish(MS);
    let mut log = Reader::open(disk.file("a")).unwrap();
    let mut times = Vec::new();
    while let Some(sample) = log.next().unwrap() {
        times.push(sample.time_us);
    }
    assert_eq!(times, [Some(LATER / 1000); 2]);
}

#[test]
fn samples_of_several_threads_lie_in_the_order_of_their_time() {
    let mut builder = RecorderBuilder::new(LogConfig { path: "a".into(), ..Default::default() }).epoch_ns(0);
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let (mut one, mut two) = (builder.tap(0), builder.tap(0));
    let disk = Memory::default();
    let mut work = Work::begin(builder, disk.clone(), 0).unwrap();
    (0..100)
        .for_each(|n| assert!([&mut one, &mut two][n as usize % 2].push_value(tick, i64::from(n) * MS, &n)));
    work.step(100 * MS);
    work.finish(100 * MS);
    assert_eq!(ticks(&disk.file("a")), Vec::from_iter(0..100));
}

/// The run went on without a log, and reported that only at its end.
#[test]
fn a_log_that_is_removed_or_cut_goes_on_in_another_file() {
    for cuts in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let [path, next] = ["run.tlog", "run-1.tlog"].map(|name| directory.path().join(name));
        let log = LogConfig { path: path.display().to_string(), keep_free_mib: 0, ..Default::default() };
        let mut builder = RecorderBuilder::new(log).epoch_ns(0);
        let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
        let trouble = builder.record("trouble", &Type::String).unwrap();
        builder.report_errors(trouble, |error| {
            let mut payload = Vec::new();
            khz_tlog::Sink::counted(&mut payload, error.as_bytes());
            payload
        });
        let mut tap = builder.tap(0);
        let mut work = Work::begin(builder, Files, 0).unwrap();
        let news = work.news();
        let mut run = |ticks: std::ops::Range<u32>| {
            for n in ticks {
                assert!(tap.push_value(tick, i64::from(n) * MS, &n));
                work.step(i64::from(n) * MS);
            }
        };
        run(0..500);
        assert_eq!(news.take(), None);
        if cuts {
            drop(std::fs::File::create(&path).unwrap())
        } else {
            std::fs::remove_file(&path).unwrap()
        }
        run(500..1000);
        let message = news.take().unwrap();
        let what = if cuts { "the file was cut to 0 of" } else { "the file was removed meanwhile" };
        let goes_on = format!("recording goes on in {}", next.display());
        assert!(message.contains(what) && message.contains(&goes_on), "{message}");
        work.finish(1000 * MS);
        let summary = work.summary();
        assert_eq!(summary.error, Some(message));
        assert_eq!(troubles(&next), [summary.error.clone().unwrap()]);
        let found = ticks(&std::fs::read(&next).unwrap());
        // All but what was in hand when it was noticed.
        assert!(found.len() >= 400 && found.last() == Some(&999), "{}", found.len());
        let RecordSummary { written, dropped, .. } = summary.records[0];
        assert_eq!(written + dropped, 1000);
        // Of the file that was cut nothing is left, either.
        assert_eq!(written, found.len() as u64);
        assert_eq!(summary.paths, if cuts { vec![path, next] } else { vec![next] });
    }
}

/// 45 of 60 lost ticks were reported: what had been written behind the cut counted as written.
#[test]
fn of_a_log_that_is_cut_what_was_behind_is_lost() {
    for share in [0.3, 0.7, 0.999] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tlog");
        let log = LogConfig { path: path.display().to_string(), keep_free_mib: 0, ..Default::default() };
        let mut builder = RecorderBuilder::new(log).epoch_ns(0);
        let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
        let mut tap = builder.tap(0);
        let mut work = Work::begin(builder, Files, 0).unwrap();
        for n in 0..60_000_u32 {
            if n == 50_000 {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.set_len((file.metadata().unwrap().len() as f64 * share) as u64).unwrap();
            }
            assert!(tap.push_value(tick, i64::from(n) * MS, &n));
            work.step(i64::from(n) * MS);
        }
        work.finish(60_000 * MS);
        let summary = work.summary();
        let found: usize = summary.paths.iter().map(|path| ticks(&std::fs::read(path).unwrap()).len()).sum();
        let RecordSummary { written, dropped, .. } = summary.records[0];
        assert_eq!(written + dropped, 60_000);
        // What was written since the last place that is known counts as lost, too.
        assert!(written <= found as u64 && found as u64 - written < 3_000, "{share}: {written} of {found}");
    }
}

/// What was reported of the log within it.
fn troubles(path: &Path) -> Vec<String> {
    let mut reader = Reader::open(std::fs::File::open(path).unwrap()).unwrap();
    reader.select(["trouble"]);
    let mut texts = Vec::new();
    while let Ok(Some(item)) = reader.next() {
        let Value::String(text) = item.value().unwrap() else { panic!() };
        texts.push(text.to_owned());
    }
    texts
}

/// The error was only that the file was removed, and for the second file that the first was.
#[test]
fn a_log_without_a_place_for_another_file_says_that_recording_ends() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("logs");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("run.tlog").display().to_string();
    let mut builder =
        RecorderBuilder::new(LogConfig { path, keep_free_mib: 0, ..Default::default() }).epoch_ns(0);
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let mut tap = builder.tap(0);
    let mut work = Work::begin(builder, Files, 0).unwrap();
    let news = work.news();
    let mut message = Vec::new();
    for n in 0..900u32 {
        match n {
            100 => std::fs::remove_file(folder.join("run.tlog")).unwrap(),
            500 => std::fs::remove_dir_all(&folder).unwrap(),
            _ => {}
        }
        assert!(tap.push_value(tick, i64::from(n) * MS, &n));
        work.step(i64::from(n) * MS);
        message.extend(news.take());
    }
    work.finish(900 * MS);
    let [first, second] = &message[..] else { panic!("{message:?}") };
    assert!(first.contains("logs/run.tlog failed") && first.contains("goes on in "), "{first}");
    assert!(second.contains("logs/run-1.tlog failed") && second.contains("recording ends"), "{second}");
    let summary = work.summary();
    assert_eq!((summary.paths.len(), summary.records[0].dropped), (0, 900));
    let error = summary.error.unwrap();
    assert!(error.starts_with(first.as_str()) && error.contains("recording ends"), "{error}");
}

#[test]
fn a_real_file_is_written_by_a_real_thread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.tlog");
    std::fs::write(&path, "kept").unwrap();
    let log = LogConfig { path: path.display().to_string(), keep_free_mib: 0, ..Default::default() };
    let mut builder = RecorderBuilder::new(log).epoch_ns(0);
    let tick = builder.record("tick", &Type::Uint(Width::Four)).unwrap();
    let mut tap = builder.tap(1 << 20);
    let recorder = builder.start().unwrap();
    (0..1000u32).for_each(|n| assert!(tap.push_value(tick, i64::from(n) * MS, &n)));
    let summary = recorder.finish();
    assert_eq!(summary.paths, [directory.path().join("run-1.tlog")]);
    let log = std::fs::read(&summary.paths[0]).unwrap();
    assert_eq!((log.len() as u64, ticks(&log).len()), (summary.bytes, 1000));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "kept");
}
