//! The loop's own time, in virtual time: what starts a tick, and which part made one late.
#![allow(clippy::unwrap_used)]

use khz_controllers::Hold;
use khz_file::RobotConfig;
use khz_file::config::QUADRUPED;
use khz_link::{Link, LinkError, Received};
use khz_loop::controller::Controller;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::state::RobotState;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::time::{Freeze, Time, VirtualTime};
use khz_loop::{ControlError, ServoCommand};
use khz_robot::assemble;
use khz_run::late::PARTS;
use khz_run::tally::Pace;
use khz_wire::Frame;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;

const PERIOD_NS: i64 = 1_000_000;
const PACE: Pace = Pace { period_ns: PERIOD_NS, by_sensor: false };

fn options(seconds: i64, frame_patience_ns: Option<i64>) -> RunOptions {
    RunOptions {
        period_ns: PERIOD_NS,
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns,
        duration_ns: Some(seconds * 1_000_000_000),
        stop: Arc::default(),
    }
}

/// Virtual time that others can use up: the controller, the recorder, and in one tick the waking.
#[derive(Clone, Default)]
struct UsedTime {
    now_ns: Arc<AtomicI64>,
    late_wake: i64,
}

impl UsedTime {
    fn use_up(&self, us: i64) {
        self.now_ns.fetch_add(us * 1000, Ordering::Relaxed);
    }
}

impl Time for UsedTime {
    fn now_ns(&mut self) -> i64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.now_ns.fetch_max(at_ns, Ordering::Relaxed);
        // The first tick is planned one period after the start. Late, but by less than the cycle leaves of the period,
        // whatever stuff bits its frames have.
        if at_ns == (self.late_wake + 1) * PERIOD_NS {
            self.use_up(200);
        }
    }

    fn pass(&mut self, until_ns: i64, _: &[Box<dyn Link>]) {
        self.use_up(1);
        self.now_ns.fetch_max(until_ns, Ordering::Relaxed);
    }
}

/// Virtual time in which every look at the clock takes 2 µs.
struct SlowClock(UsedTime);

impl Time for SlowClock {
    fn now_ns(&mut self) -> i64 {
        self.0.use_up(2);
        self.0.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.0.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.0.pass(until_ns, links);
    }

    fn reserve_ns(&self) -> i64 {
        6_000
    }
}

/// How long each bus cycle took.
#[derive(Default)]
struct Cycles(Vec<i64>);

impl Observer for Cycles {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0.push(tick.record.cycle_ns);
    }
}

#[test]
fn the_deadline_is_when_a_cycle_has_ended_at_the_latest() {
    let silence =
        "[bus.rear_left.faults]\nevents = [{ at_s = 0.5, for_s = 1.0, kind = \"silence\", id = 7 }]";
    let config = RobotConfig::parse(&format!("{QUADRUPED}\n{silence}"), "test").unwrap();
    let mut machine = assemble::machine(&config, assemble::controller(&config.controller)).unwrap();
    let (mut time, mut cycles) = (SlowClock(UsedTime::default()), Cycles::default());
    run(&mut machine, &mut time, &options(1, None), &mut [&mut cycles]);
    let deadline_ns = config.timing.bus_deadline_ns();
    assert!(cycles.0.iter().all(|&ns| ns <= deadline_ns), "{:?}", cycles.0.iter().max());
    let waited = cycles.0.iter().filter(|&&ns| ns > deadline_ns - 6_000).count();
    assert!(waited > 100, "only {waited} cycles waited for the silent servo");
}

/// Holds, but takes long in one tick.
struct Slow {
    hold: Hold,
    time: UsedTime,
}

impl Controller for Slow {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.hold.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.time.use_up(if state.tick == 500 { 310 } else { 30 });
        self.hold.update(state, commands)
    }
}

/// A recorder that takes long in one tick, and watches that the statistics stay off the heap.
struct SlowRecorder {
    time: UsedTime,
    stats: RunStats,
}

impl Observer for SlowRecorder {
    fn tick(&mut self, tick: &Tick<'_>) {
        let ((), heap) = khz_rt::alloc_trap::forbid(|| self.stats.tick(tick));
        heap.assert_untouched();
        self.time.use_up(if tick.record.number == 700 { 900 } else { 2 });
    }
}

#[test]
fn each_late_tick_is_blamed_on_the_part_that_was_late() {
    let silence = "[bus.rear_left.faults]\nevents = \
                   [{ at_s = 1.1, for_s = 0.001, kind = \"silence\", id = 7 }]";
    // Late enough that a tick that waits for a silent servo stands out.
    let quadruped = QUADRUPED.replace("bus_deadline_us = 880", "bus_deadline_us = 950");
    let config = RobotConfig::parse(&format!("{quadruped}\n{silence}"), "test").unwrap();
    let time = UsedTime { late_wake: 900, ..UsedTime::default() };
    let controller = Slow { hold: Hold::default(), time: time.clone() };
    let mut machine = assemble::machine(&config, Box::new(controller)).unwrap();
    let mut recorder = SlowRecorder { time: time.clone(), stats: RunStats::new(config.timing.late_ns()) };
    run(&mut machine, &mut time.clone(), &options(2, None), &mut [&mut recorder]);

    let tally = recorder.stats.tally;
    let name = |part: Option<usize>| part.map_or("none", |part| PARTS[part]);
    let late: Vec<_> = tally.worst().iter().map(|tick| (tick.number, name(tick.part))).collect();
    // A period was skipped after the overrun, so from 702 on a tick is one behind its millisecond.
    assert_eq!(late, [(500, "control"), (701, "record"), (898, "wake"), (1098, "bus")]);
    let causes: Vec<_> = tally.worst().iter().map(|tick| tick.cause()).collect();
    // In virtual time no other thread has the CPU while the loop wakes late.
    let expected = [
        khz_rt::Cause::Controller,
        khz_rt::Cause::PreviousTick,
        khz_rt::Cause::Unaccounted,
        khz_rt::Cause::Bus,
    ];
    assert_eq!(causes, expected);
    assert_eq!((tally.counter.causes().late, tally.counter.late_ns()), (4, 100_000));
    let part = |name: &str| tally.parts().into_iter().find(|part| part.name == name).unwrap().time;
    let control = part("control");
    assert!((30_000..=30_030).contains(&control.p50), "{control:?}");
    assert_eq!((control.max, control.max_at), (310_000, 500));
    assert_eq!((part("record").max, part("record").max_at), (900_000, 701));
    assert_eq!(part("imu").max, 0, "the IMU is faster than the servos");
    let whole = part("encode").count;
    assert!(["wake", "bus", "supervise"].iter().all(|name| part(name).count == whole));
    // In the last of them the supervisor took over.
    assert_eq!(part("control").count, whole - 1);
}

#[test]
fn a_loop_that_stops_on_an_overrun_says_so_even_where_overruns_are_only_warned_of() {
    let text = format!("{QUADRUPED}\n[supervisor.reactions]\noverruns = \"warn\"");
    let config = RobotConfig::parse(&text, "test").unwrap();
    let time = UsedTime { late_wake: -1, ..UsedTime::default() };
    let mut machine = assemble::machine(&config, Box::new(Hold::default())).unwrap();
    let mut recorder = SlowRecorder { time: time.clone(), stats: RunStats::new(config.timing.late_ns()) };
    let options = RunOptions { overrun: khz_rt::Overrun::Stop, ..options(60, None) };
    let mut stats = RunStats::new(100_000);
    run(&mut machine, &mut time.clone(), &options, &mut [&mut stats, &mut recorder]);

    assert_eq!(machine.supervisor().blame(), Some(Cause::Overruns { count: 1 }));
    // The tick that comes down starts at once, so late that it overruns, too.
    assert_eq!((machine.phase(), stats.all().overruns), (Phase::Fault, 2));
    assert!(stats.all().ticks < 10_000, "{} ticks", stats.all().ticks);
    assert!(!options.stop.load(Ordering::Relaxed), "the operator asked for nothing");
}

/// The emulated machine with a sensor head on its first bus that sends a frame at each of these times.
struct WithHead {
    machine: Box<dyn Link>,
    frames_ns: VecDeque<i64>,
    /// As links without a stamp of the kernel's do it.
    stamped_when_read: bool,
}

const HEAD: u32 = 0x7f00;

impl Link for WithHead {
    khz_link::forward_link!(it => it.machine; capabilities, half_duplex, send, flush, imu, counters);

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        if self.frames_ns.front().is_some_and(|at_ns| *at_ns <= now_ns)
            && let Some(at_ns) = self.frames_ns.pop_front()
        {
            let frame = Frame::new(HEAD, &[1, 2, 3, 4]).unwrap();
            let at_ns = if self.stamped_when_read { now_ns } else { at_ns };
            return Ok(Some(Received { channel: 0, at_ns, frame }));
        }
        self.machine.receive(now_ns)
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.frames_ns.front().copied().into_iter().chain(self.machine.next_event_ns()).min()
    }
}

/// When each tick was planned, and whether its frame was there.
#[derive(Default)]
struct Starts(Vec<(i64, bool)>);

impl Observer for Starts {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0.push((tick.record.planned_ns, tick.record.without_frame));
    }
}

/// Runs the quadruped paced by frames at these times, with a patience of 0.3 ms.
fn paced(frames_ns: impl Iterator<Item = i64>) -> (RunStats, Starts) {
    paced_in(VirtualTime::new(0), frames_ns, false)
}

fn paced_in(
    mut time: VirtualTime,
    frames_ns: impl Iterator<Item = i64>,
    stamped_when_read: bool,
) -> (RunStats, Starts) {
    let text = QUADRUPED.replace(
        "[loop]",
        &format!("[loop]\npace_bus = \"front_left\"\npace_id = {HEAD}\npace_patience_us = 300"),
    );
    let config = RobotConfig::parse(&text, "test").unwrap();
    let frames_ns = frames_ns.collect();
    let links = assemble::open_links(&config, |world| {
        Box::new(WithHead { machine: Box::new(world), frames_ns, stamped_when_read })
    });
    let controller = assemble::controller(&config.controller);
    let mut machine = assemble::put_together(&config, controller, links.unwrap());
    let options = options(1, Some(config.timing.pace_patience_ns()));
    let (mut stats, mut starts) = (RunStats::new(100_000), Starts::default());
    run(&mut machine, &mut time, &options, &mut [&mut stats, &mut starts]);
    (stats, starts)
}

#[test]
fn a_loop_paced_by_a_sensor_follows_its_clock() {
    // The sensor's clock is 1 % fast, so its frames drift away from the timer's grid.
    let frame_ns = |n: i64| 700_000 + n * 990_000;
    let (stats, starts) = paced((0..3000).map(frame_ns));
    assert_eq!(
        (stats.all().ticks_without_frame, stats.all().missed_replies, stats.all().unexpected_frames),
        (0, 0, 0)
    );
    assert!(starts.0.len() > 1000);
    for (n, &start) in starts.0.iter().enumerate() {
        assert_eq!(start, (frame_ns(n as i64), false), "tick {n}");
    }
    // Virtual time goes on in steps of half a microsecond.
    assert!(stats.times.wake_latency.summary().max < 1_000);
}

#[test]
fn a_silent_sensor_leaves_a_loop_of_the_same_rate_and_is_taken_up_again() {
    // Frames for half a second, none for 0.2 s, then again.
    let silent = 500_000_000..700_000_000;
    let frames_ns = (1..3000).map(|n| n * PERIOD_NS).filter(|at_ns| !silent.contains(at_ns));
    let (stats, starts) = paced(frames_ns);
    let without: Vec<i64> = starts.0.iter().filter(|(_, without)| *without).map(|(at, _)| *at).collect();
    // The first comes when the patience is over, the others a period after it each.
    assert_eq!(without.first(), Some(&500_300_000));
    assert!(without.windows(2).all(|pair| pair[1] - pair[0] == PERIOD_NS), "{without:?}");
    assert_eq!((stats.all().ticks_without_frame, without.len()), (200, 200));
    assert_eq!((stats.all().skipped, stats.all().overruns, stats.all().missed_replies), (0, 0, 0));
    let again = starts.0.iter().find(|(at_ns, _)| *at_ns >= 700_000_000);
    assert_eq!(again, Some(&(700_000_000, false)));
}

#[test]
fn a_loop_paced_by_a_slow_sensor_loses_no_period() {
    for every_ns in [960_000, 1_000_050, 1_001_000, 1_010_000, 1_040_000] {
        let (stats, _) = paced((1..20_000).map(|n| n * every_ns));
        assert_eq!((stats.all().skipped, stats.all().ticks_without_frame), (0, 0), "every {every_ns} ns");
        assert_eq!(
            stats.controlled().lost_periods(Pace { by_sensor: true, ..PACE }),
            0,
            "every {every_ns} ns"
        );
    }
}

#[test]
fn a_tick_whose_pace_frame_did_not_come_has_waited_for_it() {
    // Each tenth frame is missing: its tick starts when the patience is over.
    let (stats, _) = paced((1..3000).filter(|n| n % 10 != 0).map(|n| n * PERIOD_NS));
    let delayed = |from_ns: i64| {
        stats
            .times
            .start_delay
            .buckets()
            .filter(|(ns, _)| *ns >= from_ns)
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let tenth = stats.controlled().ticks / 10;
    assert!((tenth - 1..=tenth + 1).contains(&delayed(299_000)), "{} of {tenth}", delayed(299_000));
    assert_eq!(stats.times.start_delay.summary().max / 1000, 300);
    // The loop woke about when it wanted to: at the end of its patience.
    assert!(stats.times.wake_latency.summary().max < 50_000);
    assert_eq!((stats.all().skipped, stats.all().overruns), (0, 0));
}

#[test]
fn a_paced_loop_that_was_frozen_does_not_show_its_lost_periods_as_frames_that_came_too_early() {
    // Frozen for 10.4 ms when the frame of 500 ms comes: those of 500 to 510 ms are read at once, and one tick runs for them.
    for (stamped_when_read, early) in [(false, 0), (true, 10)] {
        let freeze = Freeze { at_ns: 500_000_000, for_ns: 10_400_000 };
        let time = VirtualTime::new(0).frozen([freeze]);
        let (stats, _) = paced_in(time, (1..3000).map(|n| n * PERIOD_NS), stamped_when_read);
        assert_eq!(
            (stats.all().skipped, stats.early_frames),
            (10, early),
            "stamped when read: {stamped_when_read}"
        );
        assert_eq!(
            stats.times.start_delay.summary().max,
            10_400_000,
            "stamped when read: {stamped_when_read}"
        );
    }
}

#[test]
fn pacing_frames_that_come_too_often_do_not_speed_the_robot_up() {
    for every_us in [100, 400, 500, 900] {
        let (stats, starts) = paced((1..20_000).map(|n| n * every_us * 1000));
        let rate_hz = stats.counter.rate_hz();
        assert!((950.0..=1051.0).contains(&rate_hz), "frames every {every_us} µs: {rate_hz} Hz");
        // Of frames a tenth too fast one is left out now and then, and the timer bridges the gap.
        assert_eq!(
            (stats.all().ticks_without_frame > 0, stats.all().skipped),
            (every_us == 900, 0),
            "every {every_us} µs"
        );
        let frames = starts.0.iter().rfind(|(_, without)| !without).unwrap().0 / (every_us * 1000);
        let started = stats.all().ticks - stats.all().ticks_without_frame;
        assert!(
            (0..=1).contains(&(stats.early_frames + started).abs_diff(frames as u64)),
            "every {every_us} µs"
        );
    }
}
