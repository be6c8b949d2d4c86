//! The figures of a run, in virtual time with scripted freezes: every value is known exactly.

use khz_controllers::Hold;
use khz_file::RobotConfig;
use khz_file::config::QUADRUPED;
use khz_loop::controller::Controller;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::state::RobotState;
use khz_loop::time::{Freeze, VirtualTime};
use khz_loop::{ControlError, ServoCommand};
use khz_robot::assemble;
use khz_rt::{Cause, Histogram, Overrun, Summary};
use khz_run::late::LEARNING;
use khz_run::tally::Pace;

const PERIOD_NS: i64 = 1_000_000;
const PACE: Pace = Pace { period_ns: PERIOD_NS, by_sensor: false };

fn options(overrun: Overrun) -> RunOptions {
    RunOptions {
        period_ns: PERIOD_NS,
        overrun,
        frame_patience_ns: None,
        duration_ns: Some(2_000_000_000),
        stop: Default::default(),
    }
}

/// Holds, and takes so long in some ticks.
#[derive(Default)]
struct Slow {
    hold: Hold,
    time: VirtualTime,
    start_ns: i64,
    slow: Vec<(u64, i64)>,
}

impl Controller for Slow {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.time.elapse(self.start_ns);
        self.hold.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        for &(_, ns) in self.slow.iter().filter(|(tick, _)| *tick == state.tick) {
            self.time.elapse(ns);
        }
        self.hold.update(state, commands)
    }
}

/// What was logged of each tick.
#[derive(Default)]
struct Starts(Vec<(i64, i64, u64)>);

impl Observer for Starts {
    fn tick(&mut self, tick: &Tick<'_>) {
        let timing = &tick.record;
        self.0.push((timing.waited_for_ns, timing.started_ns, tick.record.skipped.into()));
    }
}

struct Played {
    stats: RunStats,
    starts: Vec<(i64, i64, u64)>,
}

fn play(overrun: Overrun, time: VirtualTime, controller: Slow) -> Played {
    let text = format!("{QUADRUPED}\n[supervisor.reactions]\noverruns = \"warn\"");
    let config = RobotConfig::parse(&text, "test").unwrap();
    let controller = Slow { time: time.clone(), ..controller };
    let mut machine = assemble::machine(&config, Box::new(controller)).unwrap();
    let (mut stats, mut starts) = (RunStats::new(100_000), Starts::default());
    run(&mut machine, &mut time.clone(), &options(overrun), &mut [&mut stats, &mut starts]);
    Played { stats, starts: starts.0 }
}

/// Frozen for 7.1 ms at the planned starts of ticks 500, 700, … and once for 0.2 ms.
fn frozen() -> VirtualTime {
    let freeze = |ms: i64, for_ns| Freeze { at_ns: ms * PERIOD_NS, for_ns };
    let freezes = (0..5).map(|n| freeze(501 + 200 * n, 7_100_000)).chain([freeze(1601, 200_000)]);
    VirtualTime::new(0).frozen(freezes)
}

#[test]
fn a_frozen_loop_shows_the_whole_freeze_as_wake_latency_under_every_policy() {
    for overrun in [Overrun::Skip, Overrun::RunLateOnce, Overrun::RePhase] {
        let Played { stats, .. } = play(overrun, frozen(), Slow::default());
        let wake = stats.times.wake_latency.summary();
        assert_eq!(wake.max, 7_100_000, "{overrun}");
        let late = stats
            .times
            .wake_latency
            .buckets()
            .filter(|(ns, _)| *ns > 50_000)
            .map(|(_, count)| count)
            .sum::<u64>();
        assert_eq!((late, stats.all().late_wakes, stats.controlled().late_wakes), (6, 5, 5), "{overrun}");
        assert_eq!(stats.times.period.summary().max, 8_100_000, "{overrun}");
        assert_eq!((stats.all().skipped, stats.controlled().lost_periods(PACE)), (35, 35), "{overrun}");
        assert_eq!(stats.times.wake_latency.count(), stats.controlled().ticks);
    }
}

#[test]
fn every_planned_period_counts_with_its_delay() {
    // Five freezes of 7.1 ms delay eight periods each: by 7.1, 6.1, … 0.1 ms. A loop that gives up its phase after the first
    // plans 0.1 ms later from then on, so the others delay it by 7, 6, … 0 ms.
    for (overrun, others_ns, short_ns) in [
        (Overrun::Skip, 100_000, 200_000),
        (Overrun::RunLateOnce, 100_000, 200_000),
        (Overrun::RePhase, 0, 100_000),
    ] {
        let Played { stats, .. } = play(overrun, frozen(), Slow::default());
        assert_eq!(stats.times.start_delay.count(), stats.controlled().ticks + 35, "{overrun}");
        let freeze = |rest_ns: i64| (0..8).map(move |n| rest_ns + n * PERIOD_NS);
        let mut expected = Histogram::new();
        let late = freeze(100_000).chain((0..4).flat_map(|_| freeze(others_ns))).chain([short_ns]);
        late.for_each(|ns| expected.record(ns, 0));
        let in_time = stats.times.start_delay.count() - expected.count();
        (0..in_time).for_each(|_| expected.record(0, 0));
        let without_time = |histogram: &Histogram| Summary { max_at: 0, ..histogram.summary() };
        assert_eq!(without_time(&stats.times.start_delay), without_time(&expected), "{overrun}");
        assert_eq!(
            stats.times.wake_latency.summary().p99,
            0,
            "{overrun}: of the ticks that ran nearly all were in time"
        );
        assert!(stats.times.start_delay.summary().p99 > 4_000_000, "{overrun}");
    }
}

#[test]
fn a_loop_that_stops_on_a_late_wake_shows_it_and_comes_down_at_once() {
    let freeze = Freeze { at_ns: 501 * PERIOD_NS, for_ns: 7_100_000 };
    let time = VirtualTime::new(0).frozen([freeze]);
    let Played { stats, starts, .. } = play(Overrun::Stop, time, Slow::default());
    assert_eq!((stats.all().late_wakes, stats.all().skipped), (1, 7));
    assert_eq!(stats.times.wake_latency.summary().max, 7_100_000);
    let late = starts.iter().find(|(_, _, skipped)| *skipped > 0);
    assert_eq!(late, Some(&(501 * PERIOD_NS, 508 * PERIOD_NS + 100_000, 7)));
}

#[test]
fn an_overrun_costs_the_periods_it_took_and_the_phase_or_none_of_it() {
    // Tick 600, planned for 601 ms, takes 2.5 ms longer than its bus cycle.
    let slow = || Slow { slow: vec![(600, 2_500_000)], ..Slow::default() };
    for (overrun, lost) in [(Overrun::Skip, 3), (Overrun::RunLateOnce, 2), (Overrun::RePhase, 2)] {
        let Played { stats, .. } = play(overrun, VirtualTime::new(0), slow());
        assert_eq!((stats.all().overruns, stats.all().skipped), (1, lost), "{overrun}");
        assert_eq!(
            (stats.all().late_wakes, stats.controlled().lost_periods(PACE)),
            (0, lost.max(stats.all().skipped))
        );
        let delayed =
            stats.times.start_delay.buckets().filter(|(ns, _)| *ns > 0).map(|(_, n)| n).sum::<u64>();
        // Under `skip` the next tick starts in time for the period it waits for.
        assert_eq!(delayed, 3, "{overrun}");
        assert_eq!(stats.times.control.summary().max, 2_500_000);
    }
}

#[test]
fn a_loop_that_gives_up_its_phase_a_little_each_time_does_not_hold_its_rate() {
    // Every tick takes 1.1 ms: no whole period is ever skipped.
    let slow = Slow { slow: (0..3000).map(|tick| (tick, 1_000_000)).collect(), ..Slow::default() };
    let Played { stats, .. } = play(Overrun::RePhase, VirtualTime::new(0), slow);
    assert_eq!(stats.all().skipped, 0);
    let lost = stats.controlled().lost_periods(PACE);
    assert!(lost > 100, "{lost} lost of {:?}", stats.controlled());
    assert!(stats.counter.rate_hz() < 950.0, "{} Hz", stats.counter.rate_hz());
}

#[test]
fn figures_are_of_the_controlled_time_and_the_rest_is_counted_apart() {
    // Starting the controller takes 4.3 ms, and the robot is frozen once while coming down.
    let freeze = Freeze { at_ns: 2_050 * PERIOD_NS, for_ns: 3_200_000 };
    let slow = Slow { start_ns: 4_300_000, ..Slow::default() };
    let Played { stats, .. } = play(Overrun::Skip, VirtualTime::new(0).frozen([freeze]), slow);
    assert_eq!((stats.all().skipped, stats.outside().skipped, stats.controlled().skipped), (7, 7, 0));
    assert_eq!(
        (stats.all().late_wakes, stats.outside().late_wakes, stats.controlled().late_wakes),
        (1, 1, 0)
    );
    assert_eq!(
        (stats.times.wake_latency.summary().max, stats.wake_latency_outside.summary().max),
        (0, 3_200_000)
    );
    assert_eq!(stats.all().ticks, stats.controlled().ticks + stats.outside().ticks);
    assert!((stats.counter.rate_hz() - 1000.0).abs() < 1e-9);
    for count in [stats.times.start_delay.count(), stats.times.period.count(), stats.times.cycle.count()] {
        assert_eq!(count, stats.controlled().ticks);
    }
    // The controller also ran in the first active tick, whose waiting was part of the start, but not in the last, in which
    // the supervisor took over.
    assert_eq!(stats.times.control.count(), stats.controlled().ticks);
    let part = |name: &str| stats.parts().into_iter().find(|part| part.name == name).unwrap().time.count;
    assert_eq!((part("wake"), part("control")), (stats.controlled().ticks, stats.controlled().ticks - 1));
}

#[test]
fn ticks_that_were_not_judged_are_not_reported_in_time() {
    // Three of the first controlled ticks take three periods each, and so do three of the later ones.
    let Played { stats, .. } = play(Overrun::Skip, VirtualTime::new(0), Slow::default());
    // The robot is controlled until 2 s.
    let from = 2_000 - stats.controlled().ticks;
    let slow = |begin: u64| (0..3).map(move |n| (begin + 20 * n, 3_000_000));
    let controller = Slow { slow: slow(from + 5).chain(slow(from + 200)).collect(), ..Slow::default() };
    let Played { stats, .. } = play(Overrun::Skip, VirtualTime::new(0), controller);
    assert_eq!(stats.counter.causes().controller, 3);
    assert_eq!(stats.counter.judged(), stats.controlled().ticks - LEARNING);
}

#[test]
fn a_tick_late_for_the_one_before_is_not_blamed_on_the_machine() {
    // With `run_late_once` the tick after an overrun starts late, for a reason that is known.
    let slow = Slow { slow: vec![(600, 1_500_000), (900, 200_000)], ..Slow::default() };
    let Played { stats, .. } = play(Overrun::RunLateOnce, VirtualTime::new(0), slow);
    let causes = stats.counter.causes();
    assert_eq!((causes.late, causes.controller, causes.previous_tick, causes.unaccounted), (3, 2, 1, 0));
    assert_eq!(
        (stats.lost.ticks, stats.lost.causes.previous_tick, stats.lost.time_ns.unaccounted),
        (1, 1, 0)
    );
    let late: Vec<_> = stats.worst().iter().map(|tick| (tick.number, tick.cause())).collect();
    let expected = [(600, Cause::Controller), (601, Cause::PreviousTick), (900, Cause::Controller)];
    assert_eq!(late, expected);
}

#[test]
fn a_frozen_wait_is_unaccounted_in_virtual_time_where_nothing_else_has_the_cpu() {
    let Played { stats, .. } = play(Overrun::Skip, frozen(), Slow::default());
    assert_eq!((stats.counter.causes().late, stats.counter.causes().unaccounted), (6, 6));
    assert_eq!(stats.lost.time_ns.unaccounted, 5 * 7_100_000 + 200_000);
    // The kernel counted one step of steal: of 35.7 ms no more than that can be claimed.
    assert_eq!(stats.lost.steal_at_most_ns(10_000_000), 10_000_000);
}
