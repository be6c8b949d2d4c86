//! Which missed replies the loop itself missed, because it was kept from its CPU: in virtual time, with lost frames and
//! times away as written.
#![allow(clippy::unwrap_used)]

use khz_file::RobotConfig;
use khz_file::config::QUADRUPED;
use khz_link::Link;
use khz_loop::run::{RunOptions, RunStats, run};
use khz_loop::time::{Time, VirtualTime};
use khz_robot::assemble;

const PERIOD_NS: i64 = 1_000_000;

/// Virtual time that reports, as the machine's clock does, how long the loop was kept from its CPU in a bus cycle.
struct Watched {
    time: VirtualTime,
    /// Each wait holds a gap this long between two looks at the clock.
    gaps_ns: i64,
    /// At the first look at the clock within a bus cycle from this time on, the loop is kept from its CPU for so long.
    hold_up: Option<(i64, i64)>,
    away_ns: i64,
    in_cycle: bool,
}

impl Watched {
    fn new(gaps_ns: i64, hold_up: Option<(i64, i64)>) -> Self {
        Self { time: VirtualTime::new(0), gaps_ns, hold_up, away_ns: 0, in_cycle: false }
    }
}

impl Time for Watched {
    fn now_ns(&mut self) -> i64 {
        let now_ns = self.time.now_ns();
        if let Some((_, for_ns)) = self.hold_up.take_if(|(from_ns, _)| self.in_cycle && *from_ns <= now_ns) {
            self.time.elapse(for_ns);
            self.away_ns += for_ns;
        }
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.time.pass(until_ns, links);
        self.away_ns = self.away_ns.max(self.gaps_ns);
    }

    fn woke(&mut self, _: i64, _: i64, _: i64) {
        (self.away_ns, self.in_cycle) = (0, true);
    }

    fn collected(&mut self) {
        self.in_cycle = false;
    }

    fn away_in_cycle_ns(&self) -> i64 {
        self.away_ns
    }
}

fn play(faults: &str, mut time: Watched) -> RunStats {
    let buses = ["front_left", "rear_left"].map(|bus| format!("[bus.{bus}.faults]\n{faults}\n"));
    let faults = if faults.is_empty() { String::new() } else { buses.concat() };
    let lenient = "[supervisor.reactions]\nmissed_replies = \"warn\"\nstale = \"warn\"";
    // The replies are in after three quarters of a period; the deadline leaves a good time more.
    let quadruped = QUADRUPED.replace("bus_deadline_us = 880", "bus_deadline_us = 950");
    let text = format!("{quadruped}\n{faults}{lenient}");
    let config = RobotConfig::parse(&text, "test").unwrap();
    let mut machine = assemble::machine(&config, assemble::controller(&config.controller)).unwrap();
    let options = RunOptions {
        period_ns: PERIOD_NS,
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(1_000_000_000),
        stop: Default::default(),
    };
    let mut stats = RunStats::new(100_000);
    run(&mut machine, &mut time, &options, &mut [&mut stats]);
    stats
}

#[test]
fn a_reply_the_bus_lost_is_not_blamed_on_a_gap_in_the_waiting_it_causes() {
    let stats = play("loss = 0.01", Watched::new(50_000, None));
    assert!(stats.all().missed_replies > 50, "{} missed", stats.all().missed_replies);
    assert_eq!(
        stats.all().missed_while_off_cpu,
        0,
        "of {} that only the bus lost",
        stats.all().missed_replies
    );
}

/// Kept from the CPU from this time of tick 500 on, for so long.
fn away(from_us: i64, for_us: i64) -> Option<(i64, i64)> {
    Some((501 * PERIOD_NS + from_us * 1000, for_us * 1000))
}

#[test]
fn replies_are_missed_off_cpu_where_the_loop_had_less_time_than_a_cycle_takes() {
    let stats = play("", Watched::new(0, away(0, 700)));
    // Replies that are late for it keep buses busy in the next tick, which costs some more; that tick had its CPU.
    assert!(stats.all().missed_replies >= 12);
    assert_eq!((stats.all().missed_while_off_cpu, stats.controlled().missed_while_off_cpu), (12, 12));
}

#[test]
fn a_freeze_after_the_replies_were_due_excuses_nothing() {
    // Servo 7 is silent meanwhile. The others have answered long before the loop is kept from its CPU, beyond the deadline.
    let silence = "events = [{ at_s = 0.4999, for_s = 0.003, kind = \"silence\", id = 7 }]";
    let stats = play(silence, Watched::new(0, away(850, 2_000)));
    assert!(stats.all().missed_replies > 0);
    assert_eq!(stats.all().missed_while_off_cpu, 0, "of {}", stats.all().missed_replies);
}
