//! When each tick is due, and what happens after one that took too long. Pure: the time is an argument.
//!
//! A tick is *planned* for a time on a fixed grid, *wakes* some lateness after it, and *finishes*. If the next
//! planned time has passed by then, the tick has *overrun*; planned times for which no tick ran are *skipped*.

use khz_settings::words;
use serde::{Deserialize, Serialize};

words! {
    /// What happens after a tick that took longer than a period.
    Overrun {
        /// Skip the ticks that passed; the phase is kept.
        Skip = "skip",
        /// Run one tick at once, then continue in phase.
        RunLateOnce = "run_late_once",
        /// Restart the period from here; the phase moves.
        RePhase = "re_phase",
        /// Bring the robot down.
        Stop = "stop",
    }
}

/// Plans the ticks of a loop with a fixed period.
///
/// ```
/// use khz_rt::{Overrun, Pacer};
/// let mut pacer = Pacer::new(1_000_000, Overrun::Skip, 0);
/// assert_eq!(pacer.deadline_ns(), 0);
/// let tick = pacer.woke(12_000).unwrap();         // 12 µs late
/// assert_eq!((tick.number, tick.late_ns), (0, 12_000));
/// pacer.finished(2_500_000);                       // overran the plans for 1 ms and 2 ms
/// assert_eq!(pacer.deadline_ns(), 3_000_000);
/// assert_eq!(pacer.counts().skipped, 2);
/// ```
///
/// Realtime: a few nanoseconds, no allocation, no clock.
#[derive(Clone, Debug)]
pub struct Pacer {
    period_ns: i64,
    policy: Overrun,
    next_ns: i64,
    /// The first planned time no tick has run for.
    due_ns: i64,
    late_ns: i64,
    /// Planned times skipped since the last tick.
    skipped: u64,
    stopped: bool,
    counts: Counts,
}

/// One tick as planned and as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Counts the ticks that ran, from 0.
    pub number: u64,
    /// The planned time it ran for: of those passed, the latest.
    pub planned_ns: i64,
    /// How much later it woke than the time it waited for; negative only on a clock that was set back. After a
    /// late wake that is longer than the time since `planned_ns`.
    pub late_ns: i64,
    /// The first planned time that no earlier tick ran for. `skipped` planned times from here on, one period apart, got
    /// no tick of their own.
    pub due_ns: i64,
    /// Planned times skipped since the tick before.
    #[serde(rename = "missed")]
    pub skipped: u64,
}

impl Tick {
    /// How late this tick was for the last of the planned times it makes up for; for each of the `skipped` ones before, it
    /// was one period later. What [`crate::Histogram::record_corrected`] takes.
    #[inline]
    #[must_use]
    pub fn start_delay_ns(&self, woke_ns: i64, period_ns: i64) -> i64 {
        let skipped_ns = period_ns.saturating_mul(i64::try_from(self.skipped).unwrap_or(i64::MAX));
        woke_ns.saturating_sub(self.due_ns).saturating_sub(skipped_ns)
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Ticks that ran.
    pub ticks: u64,
    /// Ticks that finished after the next planned time.
    pub overruns: u64,
    /// Ticks that woke a period or more late.
    pub late_wakes: u64,
    /// Planned times for which no tick ran: `missed` in the results of `khz jitter`.
    #[serde(rename = "missed")]
    pub skipped: u64,
    /// Times the phase was given up.
    pub re_phased: u64,
}

impl Counts {
    /// The sum of two stretches.
    #[must_use]
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            ticks: self.ticks + other.ticks,
            overruns: self.overruns + other.overruns,
            late_wakes: self.late_wakes + other.late_wakes,
            skipped: self.skipped + other.skipped,
            re_phased: self.re_phased + other.re_phased,
        }
    }
}

impl Pacer {
    /// The first tick is planned for `first_ns`, further ones every `period_ns`.
    ///
    /// # Panics
    /// If the period is not positive.
    #[must_use]
    pub fn new(period_ns: i64, policy: Overrun, first_ns: i64) -> Pacer {
        assert!(period_ns > 0, "the period must be positive");
        let (next_ns, due_ns) = (first_ns, first_ns);
        let counts = Counts::default();
        Pacer { period_ns, policy, next_ns, due_ns, late_ns: 0, skipped: 0, stopped: false, counts }
    }

    /// When the next tick is planned; may be past, then it runs at once.
    #[inline]
    #[must_use]
    pub fn deadline_ns(&self) -> i64 {
        self.next_ns
    }

    /// Call this when the thread woke for [`Pacer::deadline_ns`]; `None` once the loop is to stop.
    ///
    /// Waking a whole period late or more is a late wake: the tick runs at once, for the latest planned
    /// time passed ([`Overrun::RePhase`]: for now), or the loop stops ([`Overrun::Stop`]).
    #[inline]
    pub fn woke(&mut self, now_ns: i64) -> Option<Tick> {
        self.late_ns = now_ns.saturating_sub(self.next_ns);
        if self.late_ns >= self.period_ns {
            self.counts.late_wakes += 1;
            self.catch_up(now_ns, self.late_ns / self.period_ns);
        }
        (!self.stopped).then(|| self.start())
    }

    /// Goes on after [`Overrun::Stop`] ended the loop, with [`Overrun::Skip`]: gives the tick [`Pacer::woke`] withheld.
    /// For loops that have something to bring down.
    #[inline]
    pub fn resume(&mut self) -> Tick {
        (self.stopped, self.policy) = (false, Overrun::Skip);
        self.start()
    }

    fn start(&mut self) -> Tick {
        let skipped = std::mem::take(&mut self.skipped);
        let (number, planned_ns) = (self.counts.ticks, self.next_ns);
        let tick = Tick { number, planned_ns, late_ns: self.late_ns, due_ns: self.due_ns, skipped };
        self.counts.ticks += 1;
        self.next_ns += self.period_ns;
        self.due_ns = self.next_ns;
        tick
    }

    /// Call this when the tick's work is done; decides when the next is planned.
    #[inline]
    pub fn finished(&mut self, now_ns: i64) {
        if now_ns <= self.next_ns {
            return;
        }
        self.counts.overruns += 1;
        let passed = (now_ns - self.next_ns) / self.period_ns;
        match self.policy {
            Overrun::Skip => self.skip(passed + 1),
            Overrun::RunLateOnce => self.skip(passed),
            Overrun::RePhase => self.re_phase(now_ns, passed),
            Overrun::Stop => self.stop(passed),
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Already awake, so the tick runs now whatever the policy; waiting again would only lose time.
    fn catch_up(&mut self, now_ns: i64, passed: i64) {
        match self.policy {
            Overrun::Skip | Overrun::RunLateOnce => self.skip(passed),
            Overrun::RePhase => self.re_phase(now_ns, passed),
            Overrun::Stop => self.stop(passed),
        }
    }

    fn skip(&mut self, periods: i64) {
        self.counts.skipped += periods as u64;
        self.skipped += periods as u64;
        self.next_ns += periods * self.period_ns;
    }

    fn re_phase(&mut self, now_ns: i64, passed: i64) {
        self.skip(passed);
        self.counts.re_phased += 1;
        self.next_ns = now_ns;
    }

    fn stop(&mut self, passed: i64) {
        self.skip(passed);
        self.stopped = true;
    }
}

/// Plans the ticks of a loop that runs when a packet comes (a sensor's, that keeps the time), and by the timer
/// when none does.
///
/// The loop waits with [`crate::wait_readable`] until [`PacketPacer::deadline_ns`] and reports how that ended. It follows a
/// sensor that is up to 5 % faster than the period, with a jitter of up to 0.4 periods. Packets that come more often
/// start no tick: over any time there are at most 5 % more ticks than periods, and two.
///
/// ```
/// use khz_rt::PacketPacer;
/// let mut pacer = PacketPacer::new(1_000_000, 200_000, 0);
/// assert!(pacer.packet(0).is_some());
/// assert!(pacer.packet(400_000).is_none());        // not due for half a period
/// assert!(pacer.packet(1_000_000).is_some());
/// assert_eq!(pacer.counts().early, 1);
/// ```
///
/// Realtime: a few nanoseconds, no allocation, no clock.
#[derive(Clone, Debug)]
pub struct PacketPacer {
    period_ns: i64,
    patience_ns: i64,
    expected_ns: i64,
    /// When the next packet is due at the greatest rate allowed; moves on by less than a period with each tick.
    soonest_ns: i64,
    counts: PacketCounts,
}

/// What happened so far in a packet-paced loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketCounts {
    /// Ticks that ran.
    pub ticks: u64,
    /// Ticks run by the timer because no packet came in time.
    pub fallbacks: u64,
    /// Longest run of ticks without a packet.
    pub longest_silence: u64,
    /// Ticks without a packet up to now.
    pub silence: u64,
    /// Packets that came too early to start a tick.
    pub early: u64,
}

impl PacketPacer {
    /// Packets are expected every `period_ns`, the first at `first_ns`; the timer takes over when one is more
    /// than `patience_ns` late.
    ///
    /// # Panics
    /// If the period is not positive or the patience is negative.
    #[must_use]
    pub fn new(period_ns: i64, patience_ns: i64, first_ns: i64) -> PacketPacer {
        assert!(period_ns > 0 && patience_ns >= 0, "the period must be positive, the patience not negative");
        PacketPacer {
            period_ns,
            patience_ns,
            expected_ns: first_ns,
            soonest_ns: first_ns.saturating_sub(period_ns),
            counts: PacketCounts::default(),
        }
    }

    /// Until when to wait for the packet.
    #[inline]
    #[must_use]
    pub fn deadline_ns(&self) -> i64 {
        self.expected_ns + self.patience_ns
    }

    /// Call this when the packet arrived: the next is expected a period after it. `None`: it came too early, and the loop is
    /// to wait on.
    #[inline]
    pub fn packet(&mut self, now_ns: i64) -> Option<Tick> {
        // Jitter may bring a packet nearly half a period before the greatest rate allows it.
        if now_ns < self.soonest_ns - self.period_ns / 20 * 9 {
            self.counts.early += 1;
            if self.counts.silence > 0 {
                // The sensor is back, just behind a tick of the timer: its next packet starts one.
                self.expected_ns = now_ns + self.period_ns;
            }
            return None;
        }
        self.counts.silence = 0;
        let tick = self.tick(now_ns, 0, now_ns);
        self.expected_ns = now_ns + self.period_ns;
        Some(tick)
    }

    /// Call this when the deadline passed without a packet: runs as if the packet had come on time, so that a
    /// silent sensor leaves a loop of the same rate, `patience_ns` late.
    #[inline]
    pub fn timeout(&mut self, now_ns: i64) -> Tick {
        self.counts.fallbacks += 1;
        self.counts.silence += 1;
        self.counts.longest_silence = self.counts.longest_silence.max(self.counts.silence);
        let skipped = ((now_ns - self.deadline_ns()) / self.period_ns).max(0);
        self.expected_ns += skipped * self.period_ns;
        // The packet would have come by the plan; `patience_ns` later is no reason to refuse the next.
        let tick = self.tick(now_ns, skipped as u64, self.expected_ns);
        self.expected_ns += self.period_ns;
        tick
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> PacketCounts {
        self.counts
    }

    fn tick(&mut self, now_ns: i64, skipped: u64, due_ns: i64) -> Tick {
        let number = self.counts.ticks;
        self.counts.ticks += 1;
        // 5 % faster: 20 periods in the time of 21 ticks.
        self.soonest_ns = self.soonest_ns.max(due_ns) + self.period_ns - self.period_ns / 21;
        let due_ns = self.expected_ns - self.period_ns * skipped as i64;
        Tick { number, planned_ns: self.expected_ns, late_ns: now_ns - self.expected_ns, due_ns, skipped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// Plays ticks of given (lateness of waking, work) against a pacer of 1 ms and writes each tick as
    /// `planned+late` in µs, with the skipped periods before it.
    fn trace(policy: Overrun, ticks: &[(i64, i64)]) -> (String, Counts) {
        let mut pacer = Pacer::new(MS, policy, 0);
        let (mut now_ns, mut lines) = (0, Vec::new());
        for &(late_us, work_us) in ticks {
            now_ns = pacer.deadline_ns().max(now_ns) + late_us * 1_000;
            let Some(tick) = pacer.woke(now_ns) else {
                lines.push("stop".to_owned());
                break;
            };
            let skipped = if tick.skipped > 0 { format!(" skipped {}", tick.skipped) } else { String::new() };
            lines.push(format!("{}+{}{skipped}", tick.planned_ns / 1_000, tick.late_ns / 1_000));
            now_ns += work_us * 1_000;
            pacer.finished(now_ns);
        }
        (lines.join(", "), pacer.counts())
    }

    #[test]
    fn an_overrun_of_two_and_a_half_periods() {
        let ticks = [(0, 100), (10, 2_490 + 1_000), (0, 100), (0, 100)];
        let golden = [
            (Overrun::Skip, "0+0, 1000+10, 5000+0 skipped 3, 6000+0", 3),
            (Overrun::RunLateOnce, "0+0, 1000+10, 4000+500 skipped 2, 5000+0", 2),
            (Overrun::RePhase, "0+0, 1000+10, 4500+0 skipped 2, 5500+0", 2),
            (Overrun::Stop, "0+0, 1000+10, stop", 2),
        ];
        for (policy, expected, skipped) in golden {
            let (trace, counts) = trace(policy, &ticks);
            assert_eq!((trace.as_str(), counts.skipped, counts.overruns), (expected, skipped, 1), "{policy}");
        }
    }

    #[test]
    fn a_tick_missed_by_waking_two_and_a_half_periods_late() {
        let ticks = [(0, 100), (2_500, 100), (0, 100)];
        let golden = [
            (Overrun::Skip, "0+0, 3000+2500 skipped 2, 4000+0"),
            (Overrun::RunLateOnce, "0+0, 3000+2500 skipped 2, 4000+0"),
            (Overrun::RePhase, "0+0, 3500+2500 skipped 2, 4500+0"),
            (Overrun::Stop, "0+0, stop"),
        ];
        for (policy, expected) in golden {
            let (trace, counts) = trace(policy, &ticks);
            assert_eq!((trace.as_str(), counts.late_wakes, counts.overruns), (expected, 1, 0), "{policy}");
        }
    }

    /// The delays of all planned times of a loop that wakes and works as scripted, in µs.
    fn delays(policy: Overrun, ticks: &[(i64, i64)]) -> Vec<i64> {
        let (mut pacer, mut now_ns, mut delays) = (Pacer::new(MS, policy, 0), 0, Vec::new());
        for &(late_us, work_us) in ticks {
            now_ns = pacer.deadline_ns().max(now_ns) + late_us * 1_000;
            let tick = pacer.woke(now_ns).unwrap_or_else(|| pacer.resume());
            let last_ns = tick.start_delay_ns(now_ns, MS);
            delays.extend((0..=tick.skipped as i64).rev().map(|n| (last_ns + n * MS) / 1_000));
            now_ns += work_us * 1_000;
            pacer.finished(now_ns);
        }
        delays
    }

    #[test]
    fn every_planned_time_has_a_delay_until_the_first_tick_after_it() {
        let late_wake = [(0, 100), (2_500, 100), (0, 100)];
        for policy in Overrun::ALL.iter().copied() {
            assert_eq!(delays(policy, &late_wake), [0, 2_500, 1_500, 500, 0], "{policy}");
        }
        let overrun = [(0, 100), (10, 2_490 + 1_000), (0, 100), (0, 100)];
        assert_eq!(delays(Overrun::Skip, &overrun), [0, 10, 3_000, 2_000, 1_000, 0, 0]);
        for policy in [Overrun::RunLateOnce, Overrun::RePhase, Overrun::Stop] {
            assert_eq!(delays(policy, &overrun), [0, 10, 2_500, 1_500, 500, 0], "{policy}");
        }
    }

    #[test]
    fn a_loop_that_stopped_can_go_on_at_once_and_in_phase() {
        let mut pacer = Pacer::new(MS, Overrun::Stop, 0);
        pacer.woke(0);
        assert_eq!(pacer.woke(3_500_000), None);
        let tick = pacer.resume();
        assert_eq!((tick.planned_ns, tick.late_ns, tick.skipped), (3 * MS, 2_500_000, 2));
        pacer.finished(6_100_000);
        assert_eq!((pacer.deadline_ns(), pacer.counts().skipped), (7 * MS, 5));
    }

    #[test]
    fn finishing_exactly_on_the_next_plan_is_no_overrun() {
        let (trace, counts) = trace(Overrun::Skip, &[(0, 1_000), (0, 0)]);
        assert_eq!((trace.as_str(), counts.overruns), ("0+0, 1000+0", 0));
    }

    #[test]
    fn a_clock_set_forward_an_hour_is_one_late_wake_and_set_back_is_an_early_one() {
        let mut pacer = Pacer::new(MS, Overrun::Skip, 0);
        pacer.woke(0);
        let hour = 3_600_000 * MS;
        let tick = pacer.woke(hour).unwrap();
        assert_eq!((tick.planned_ns, tick.late_ns, tick.skipped), (hour, hour - MS, 3_599_999));
        let tick = pacer.woke(hour - 5 * MS).unwrap();
        assert_eq!((tick.planned_ns, tick.late_ns, tick.skipped), (hour + MS, -6 * MS, 0));
    }

    #[test]
    fn names_round_trip() {
        for policy in Overrun::ALL.iter().copied() {
            assert_eq!(policy.word().parse(), Ok(policy));
        }
        assert!("catch-up".parse::<Overrun>().unwrap_err().contains("run_late_once"));
    }

    #[test]
    fn packets_pace_and_the_timer_bridges_silence() {
        let mut pacer = PacketPacer::new(MS, 200_000, 0);
        assert_eq!(pacer.packet(50_000).unwrap().late_ns, 50_000);
        assert_eq!(pacer.deadline_ns(), 1_250_000);
        assert_eq!(pacer.timeout(1_251_000).planned_ns, 1_050_000);
        assert_eq!(pacer.timeout(2_251_000).planned_ns, 2_050_000);
        let tick = pacer.packet(3_060_000).unwrap();
        assert_eq!((tick.number, tick.planned_ns, tick.late_ns), (3, 3_050_000, 10_000));
        assert_eq!(pacer.deadline_ns(), 4_260_000);
        let counts = PacketCounts { ticks: 4, fallbacks: 2, longest_silence: 2, silence: 0, early: 0 };
        assert_eq!(pacer.counts(), counts);
    }

    #[test]
    fn a_timer_tick_that_itself_comes_late_keeps_the_rate() {
        let mut pacer = PacketPacer::new(MS, 0, 0);
        let tick = pacer.timeout(2_300_000);
        assert_eq!((tick.planned_ns, tick.late_ns, tick.skipped), (2_000_000, 300_000, 2));
        assert_eq!(pacer.deadline_ns(), 3_000_000);
    }

    /// Plays packets at these times to the end; when each tick ran, and the counts.
    fn paced(packets_ns: &[i64], patience_ns: i64) -> (Vec<i64>, PacketCounts) {
        let mut pacer = PacketPacer::new(MS, patience_ns, 0);
        let mut ticks = Vec::new();
        for &at_ns in packets_ns {
            while pacer.deadline_ns() < at_ns {
                ticks.push(pacer.deadline_ns());
                pacer.timeout(pacer.deadline_ns());
            }
            ticks.extend(pacer.packet(at_ns).map(|_| at_ns));
        }
        (ticks, pacer.counts())
    }

    #[test]
    fn packets_that_come_too_often_do_not_speed_the_loop_up() {
        for (every_us, most) in [(10, 1051), (100, 1051), (400, 1051), (500, 1001), (700, 1051), (940, 1051)]
        {
            let packets: Vec<_> = (0..=1_000_000 / every_us).map(|n| n * every_us * 1000).collect();
            let (ticks, counts) = paced(&packets, 500_000);
            assert!(
                (950..=most).contains(&ticks.len()),
                "every {every_us} µs: {} ticks in a second",
                ticks.len()
            );
            assert_eq!(counts.early as usize + ticks.len(), packets.len() + counts.fallbacks as usize);
        }
    }

    #[test]
    fn a_sensor_with_drift_and_jitter_starts_every_tick() {
        for period_us in [953, 990, 1000, 1010, 1050] {
            for jitter_us in [0, 50, 200] {
                let jitter = |n: i64| [0, jitter_us, -jitter_us, jitter_us / 2][n as usize % 4];
                let packets: Vec<_> = (0..2000).map(|n| (n * period_us + jitter(n)) * 1000).collect();
                let (ticks, counts) = paced(&packets, 500_000);
                let expected = PacketCounts { ticks: 2000, ..PacketCounts::default() };
                assert_eq!(counts, expected, "{period_us} µs, ±{jitter_us} µs");
                assert_eq!(ticks, packets);
            }
        }
    }

    #[test]
    fn a_sensor_that_comes_back_at_any_phase_is_taken_up_again() {
        for phase_us in (0..1000).step_by(10) {
            let back = 500_000_000 + phase_us * 1000;
            let packets: Vec<_> = (0..100).map(|n| n * MS).chain((0..100).map(|n| back + n * MS)).collect();
            let (ticks, counts) = paced(&packets, 500_000);
            assert!(counts.early <= 1, "phase {phase_us} µs: {} early", counts.early);
            assert!(ticks.ends_with(&packets[102..]), "phase {phase_us} µs");
        }
    }

    proptest! {
        #[test]
        fn however_packets_come_there_are_at_most_five_percent_more_ticks_than_periods(
            gaps_us in prop::collection::vec(prop_oneof![1i64..400, 400i64..1_100, 900i64..4_000], 1..400),
            patience_us in 0i64..2_000,
        ) {
            let packets: Vec<_> = gaps_us.iter().scan(0, |at, gap| { *at += gap * 1000; Some(*at) }).collect();
            let (ticks, _) = paced(&packets, patience_us * 1000);
            for (first, last) in [(0, ticks.len()), (ticks.len() / 3, ticks.len())] {
                let Some(&[from, .., to]) = ticks.get(first..last) else { continue };
                let most = (to - from + patience_us * 1000) as f64 / MS as f64 * 1.05 + 3.0;
                prop_assert!(((last - first) as f64) <= most, "{} ticks in {} ms", last - first, (to - from) / MS);
            }
        }

        #[test]
        fn skip_keeps_the_phase_and_accounts_for_every_period(ticks in prop::collection::vec((0i64..3_000, 0i64..5_000), 1..60)) {
            let mut pacer = Pacer::new(MS, Overrun::Skip, 0);
            let mut now_ns = 0;
            for (late_us, work_us) in ticks {
                now_ns = pacer.deadline_ns().max(now_ns) + late_us * 1_000;
                let tick = pacer.woke(now_ns).unwrap();
                prop_assert_eq!(tick.planned_ns % MS, 0);
                prop_assert!((0..MS).contains(&(now_ns - tick.planned_ns)));
                now_ns += work_us * 1_000;
                pacer.finished(now_ns);
                let counts = pacer.counts();
                prop_assert_eq!((counts.ticks + counts.skipped) as i64 * MS, pacer.deadline_ns());
            }
        }
    }
}
