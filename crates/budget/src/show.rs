//! A plan's prediction: figures, shares of the critical path, and what would help.

use crate::change::{Change, worthwhile};
use crate::costs::Inputs;
use crate::fit::SPARE;
use crate::lines::{Ends, HOST};
use crate::plan::TickPlan;
use crate::timeline::{SpanKind, Timeline};
use khz_loop::time::LAST_LOOK_NS;
use khz_page::duration;
use serde::Serialize;
use std::fmt::Write;

/// What the model predicts for a robot. Its fields and their meaning are part of the interface of
/// `khz budget --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Name of the robot.
    pub robot: String,
    /// How many servos it has.
    pub servos: usize,
    /// From the start of a tick until the last reply is decoded, usually.
    pub cycle_ns: i64,
    /// The same in the longest cycle under control, without losses: servos are switched on, and replies come as late as they may.
    pub longest_cycle_ns: i64,
    /// The same in the longest cycle before control, while every servo is commanded to stop.
    pub start_cycle_ns: i64,
    /// Until controller, supervisor and recorder are done too.
    pub tick_ns: i64,
    /// The configured tick.
    pub period_ns: i64,
    /// What is left of it; negative if it does not suffice.
    pub headroom_ns: i64,
    /// The highest rate at which it fits, with the bus deadline as it is set; 0 if replies miss that at any rate.
    pub highest_rate_hz: f64,
    /// The same with a bus deadline as late as may be.
    pub highest_rate_any_deadline_hz: f64,
    /// Until when replies count.
    pub counts_until_ns: i64,
    /// Replies would come too late to count before the bus deadline.
    pub deadline_missed: bool,
    /// The parts of the tick, as a run measures them.
    pub parts: Vec<Part>,
    /// The buses.
    pub buses: Vec<BusShare>,
    /// What the critical path consists of, the largest share first.
    pub critical: Vec<Share>,
    /// What to change, the largest gain first.
    pub changes: Vec<Change>,
    /// The computer's own parts were measured (`khz budget --measure`); otherwise they are assumed.
    pub host_measured: bool,
    /// What was taken for granted.
    pub assumptions: Vec<String>,
    /// One tick.
    pub timeline: Timeline,
}

/// A part of the tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name, as in [`khz_run::late::PARTS`].
    pub name: &'static str,
    /// How long it takes.
    pub ns: i64,
}

/// One bus in a tick.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusShare {
    /// Its name.
    pub name: String,
    /// Frames of host and devices in every tick.
    pub frames: usize,
    /// Their bytes; on serial lines and Ethernet with framing, on CAN the payload.
    pub bytes: usize,
    /// Their bits, stuffing, checksums and pauses included, and those of what does not travel in every tick, on average.
    pub bits: u64,
    /// How long the wire is in use, with the same.
    pub busy_ns: i64,
    /// Share of the configured tick.
    pub utilisation: f64,
}

/// A part of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The bus, or the host.
    pub row: String,
    /// What the time goes to.
    pub kind: SpanKind,
    /// How much.
    pub ns: i64,
}

impl TickPlan {
    /// The prediction.
    pub fn predict(&self) -> Prediction {
        let mut timeline = Timeline::default();
        let ends = self.cycle(&mut timeline);
        let (cycle_ns, tick_ns) = (ends.over_ns, ends.recorded_ns);
        let [highest_rate_hz, highest_rate_any_deadline_hz] = self.highest_rates_hz();
        let [start_cycle_ns, longest_cycle_ns] = self.longest_cycles_ns();
        let counts_until_ns = self.counts_until_ns();
        Prediction {
            robot: self.name.clone(),
            servos: self.servos(),
            cycle_ns,
            longest_cycle_ns,
            start_cycle_ns,
            tick_ns,
            period_ns: self.period_ns,
            headroom_ns: self.period_ns - tick_ns,
            highest_rate_hz,
            highest_rate_any_deadline_hz,
            counts_until_ns,
            deadline_missed: longest_cycle_ns.max(start_cycle_ns) > counts_until_ns,
            parts: parts(ends),
            buses: self.shares(&timeline),
            critical: critical(&timeline),
            changes: worthwhile(self, tick_ns),
            host_measured: self.inputs.measured.is_some(),
            assumptions: Inputs::assumptions(&self.inputs, self),
            timeline,
        }
    }

    /// From the start of a tick until the last reply is decoded, and until everything is done.
    pub fn durations_ns(&self) -> [i64; 2] {
        let ends = self.cycle(&mut Timeline::default());
        [ends.over_ns, ends.recorded_ns]
    }

    /// The longest cycle of a run without losses.
    pub fn longest_ns(&self) -> i64 {
        self.longest_cycles_ns().into_iter().fold(0, i64::max)
    }

    /// The longest cycle before control, and under control.
    fn longest_cycles_ns(&self) -> [i64; 2] {
        let latest = Self { lateness: 1.0, start: Vec::new(), ..self.clone() };
        let controlled_ns = latest.latest_ns();
        let mut start_ns = self.start.iter().map(Self::latest_ns);
        let stopped_ns = start_ns.next().unwrap_or(controlled_ns);
        [stopped_ns, start_ns.fold(controlled_ns, i64::max)]
    }

    /// The longest of these cycles: what servos are asked besides holds the last reply up most, and so does what they send by themselves.
    fn latest_ns(&self) -> i64 {
        let turns = (0..self.turns())
            .map(|turn| Self { turn, start: Vec::new(), ..self.clone() }.latest_of_turn_ns());
        turns.fold(0, i64::max)
    }

    fn latest_of_turn_ns(&self) -> i64 {
        let mut timeline = Timeline::default();
        let over_ns = self.cycle(&mut timeline).over_ns;
        let mut exchanges = self.lines.iter().flat_map(|line| &line.exchanges);
        if exchanges.all(|exchange| exchange.by_itself.is_none()) {
            return over_ns;
        }
        let replies = timeline.spans.iter().filter(|span| span.kind == SpanKind::Reply);
        let over =
            replies.map(|span| Self { unsolicited_ns: span.start_ns, ..self.clone() }.durations_ns()[0]);
        over.fold(over_ns, i64::max)
    }

    fn shares(&self, timeline: &Timeline) -> Vec<BusShare> {
        let share = |line: &crate::Line| {
            let frames = line.exchanges.iter().flat_map(|exchange| {
                exchange.besides.iter().chain(exchange.asked()).chain([&exchange.reply])
            });
            let costs: Vec<_> = frames.map(|frame| line.medium.cost(frame)).collect();
            let on_wire = timeline.spans.iter().filter(|span| {
                span.row == line.name && matches!(span.kind, SpanKind::Command | SpanKind::Reply)
            });
            let busy_ns: i64 = on_wire.map(|span| span.end_ns - span.start_ns).sum();
            let seldom = line.seldom(self.period_ns);
            BusShare {
                name: line.name.clone(),
                frames: costs.len(),
                bytes: costs.iter().map(|cost| cost.bytes).sum(),
                bits: costs.iter().map(|cost| cost.bits).sum::<u64>() + seldom.bits,
                busy_ns: busy_ns + seldom.frame_ns,
                utilisation: (busy_ns + seldom.frame_ns) as f64 / self.period_ns.max(1) as f64,
            }
        };
        self.lines.iter().map(share).collect()
    }
}

fn parts(ends: Ends) -> Vec<Part> {
    let Ends { encoded_ns, sent_ns, replied_ns, over_ns, controlled_ns, supervised_ns, recorded_ns } = ends;
    let ends = [
        ("encode", encoded_ns),
        ("send", sent_ns),
        ("bus", replied_ns),
        ("imu", over_ns),
        ("control", controlled_ns),
        ("supervise", supervised_ns),
        ("record", recorded_ns),
    ];
    let starts = std::iter::once(0).chain(ends.map(|(_, end_ns)| end_ns));
    ends.into_iter()
        .zip(starts)
        .map(|((name, end_ns), start_ns)| Part { name, ns: end_ns - start_ns })
        .collect()
}

fn critical(timeline: &Timeline) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for span in timeline.critical_path() {
        let ns = span.end_ns - span.start_ns;
        match shares.iter_mut().find(|share| share.row == span.row && share.kind == span.kind) {
            Some(share) => share.ns += ns,
            None => shares.push(Share { row: span.row.clone(), kind: span.kind, ns }),
        }
    }
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    shares
}

impl Share {
    /// As a reader sees it.
    pub fn what(&self) -> String {
        if self.row == HOST {
            self.kind.word().to_owned()
        } else {
            format!("{} {}", self.row, self.kind.word())
        }
    }
}

impl Prediction {
    /// Every reply comes in time, and the tick ends within the period.
    pub const fn fits(&self) -> bool {
        self.headroom_ns >= 0 && !self.deadline_missed
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let ns = |ns: i64| duration(ns as f64);
        writeln!(
            out,
            "{}: {} {} at {} Hz: {}; cycle {}, tick {}, headroom {}",
            self.robot,
            self.servos,
            if self.servos == 1 { "servo" } else { "servos" },
            (1e12 / self.period_ns as f64).round() / 1e3,
            if self.fits() { "fits" } else { "does not fit" },
            ns(self.cycle_ns),
            ns(self.tick_ns),
            ns(self.headroom_ns),
        )?;
        writeln!(out, "  {}\n  {}", self.replies_text(), self.rates_text())?;
        writeln!(out, "\nbuses")?;
        for bus in &self.buses {
            let (name, percent) = (&bus.name, 100.0 * bus.utilisation);
            let (frames, bytes, bits, busy) = (bus.frames, bus.bytes, bus.bits, ns(bus.busy_ns));
            writeln!(
                out,
                "  {name:16} {frames:3} frames {bytes:5} bytes {bits:6} bits {busy:>9} {percent:5.1} %"
            )?;
        }
        writeln!(out, "\ncritical path")?;
        for share in &self.critical {
            writeln!(out, "  {:40} {:>9}", share.what(), ns(share.ns))?;
        }
        writeln!(out, "\nwhat would help")?;
        let what = self.changes.iter().map(|change| change.what.chars().count()).max().unwrap_or(0);
        for Change { what: change, tick_ns, gain_ns, rate_hz } in &self.changes {
            let (gain, tick, rate) = (ns(*gain_ns), ns(*tick_ns), rate_hz.floor());
            writeln!(out, "  {change:what$}  gains {gain:>9}  tick {tick:>9}  {rate:>6} Hz")?;
        }
        writeln!(out, "\nassumed")?;
        self.assumptions.iter().try_for_each(|assumption| writeln!(out, "  {assumption}"))
    }

    /// When the last reply comes, and until when replies count.
    pub fn replies_text(&self) -> String {
        let deadline = duration((self.counts_until_ns + LAST_LOOK_NS) as f64);
        let before = duration(LAST_LOOK_NS as f64);
        let late = if self.deadline_missed { ": too late" } else { "" };
        let read = self.cycle_text();
        format!(
            "the last reply is read after {read}, and replies count until {before} before the bus deadline of {deadline} \
             (`loop.bus_deadline_us`){late}"
        )
    }

    /// The usual cycle in words, and the longest if that is another.
    pub fn cycle_text(&self) -> String {
        let Self { cycle_ns, longest_cycle_ns, start_cycle_ns, .. } = *self;
        let [cycle, longest, start] =
            [cycle_ns, longest_cycle_ns, start_cycle_ns].map(|ns| duration(ns as f64));
        if start_cycle_ns > longest_cycle_ns {
            format!("{cycle}, before control after {start}")
        } else if cycle == longest {
            cycle
        } else {
            format!("{cycle}, at the latest after {longest}")
        }
    }

    /// The longest cycle, before control or under it.
    pub const fn needed_ns(&self) -> i64 {
        let (start_ns, longest_ns) = (self.start_cycle_ns, self.longest_cycle_ns);
        if start_ns > longest_ns { start_ns } else { longest_ns }
    }

    /// The highest rate with a little to spare, and whether it needs a later bus deadline than the one that is set.
    pub fn spared_rate_hz(&self) -> (f64, bool) {
        let needs_later = self.highest_rate_hz < 1.0;
        let highest_hz = if needs_later { self.highest_rate_any_deadline_hz } else { self.highest_rate_hz };
        ((highest_hz / (1.0 + SPARE)).floor(), needs_later)
    }

    /// The highest rates.
    pub(super) fn rates_text(&self) -> String {
        let later =
            format!("up to {} Hz with a later bus deadline", self.highest_rate_any_deadline_hz.floor());
        match self.highest_rate_hz.floor() {
            0.0 => format!("at no rate with this bus deadline; {later}"),
            rate => {
                let (spared, _) = self.spared_rate_hz();
                format!("up to {rate} Hz with this bus deadline, {spared} Hz with 5 % to spare; {later}")
            }
        }
    }
}
