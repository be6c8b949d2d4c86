//! The page of one run of a robot.
pub use super::details::Detail;
use super::over_time::PHASES;
use crate::late::{LateReport, blocks};
use khz_page::{
    Axis, Block, Cell, Column, Distribution, Figure, Gantt, KeyValues, Level, Measured, Page, Plot, Ranges,
    Robot, Section, StackedTrace, Stroke, Table, Trace, Verdict, duration,
};
use khz_rt::Summary;
use khz_run::costs::LateGroup;
use khz_run::figures::LOST_PERIODS;
use serde::{Deserialize, Serialize};

/// All that the page of a run shows. Fields that stay empty leave their part of the page out.
///
/// Times of the traces are seconds since the first tick.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunData {
    /// What ran: `quadruped, 12 servos + IMU at 1 kHz`.
    pub title: String,
    /// When, for how long, on which machine.
    pub subtitle: String,
    /// The verdict on the run.
    pub verdict: Verdict,
    /// The figures a reader wants first.
    pub figures: Vec<Figure>,
    /// The period of the loop, in nanoseconds.
    pub period_ns: i64,
    /// When the bus cycle of a tick ends at the latest, in nanoseconds from the tick's start.
    pub bus_deadline_ns: i64,
    /// How late each tick woke, in nanoseconds.
    pub wake: Measured,
    /// How long each tick's cycle took, in nanoseconds.
    pub cycle: Measured,
    /// Loop compute time of each tick, without waiting for the wire, in nanoseconds.
    pub cpu: Measured,
    /// From each planned time to the start of the first tick at or after it, in nanoseconds.
    pub start_delay: Distribution,
    /// Durations of a tick's phases in their order, in nanoseconds.
    pub phases: StackedTrace,
    /// The parts of all ticks, more than the phases: how late it began, sections of the controller.
    pub parts: Vec<PartTimes>,
    /// Late ticks by cause, most first.
    pub late_groups: Vec<LateGroup>,
    /// The worst late ticks.
    pub late: Vec<LateReport>,
    /// How many ticks were late, in a sentence.
    pub late_counts: String,
    /// The joints.
    pub joints: Vec<Joint>,
    /// How they lie to each other, as the log's `robot` record has it; empty if that is not known.
    pub skeleton: String,
    /// The parts of the body's attitude over time, w, x, y, z; none without an IMU.
    pub attitude: Vec<Trace>,
    /// What is there to be unfolded: velocity, torque and so on.
    pub details: Vec<Detail>,
    /// What happened.
    pub events: Vec<Event>,
    /// How many more the log has.
    pub events_left_out: u64,
    /// Changes of parameters.
    pub changes: Vec<ParameterChange>,
    /// How many more the log has.
    pub changes_left_out: u64,
    /// The devices.
    pub devices: Vec<Device>,
    /// The machine and what the loop's threads asked of it.
    pub passport: Vec<Fact>,
    /// Requested and granted settings.
    pub grants: Vec<Grant>,
    /// The robot file, as it was used.
    pub config: String,
}

/// A parameter that was changed while the robot ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterChange {
    /// When a tick took it, in seconds after the first tick.
    pub time_s: f64,
    /// The parameter.
    pub name: String,
    /// Its value before.
    pub before: f64,
    /// The value from then on.
    pub value: f64,
    /// Who asked for it.
    pub by: String,
}

/// A part of the tick: what it took, and what it was predicted to take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartTimes {
    /// Its name; that of a phase for the same thing.
    pub name: String,
    /// What it took, of all ticks in which it was; `max_at` is the number of the worst.
    pub time_ns: Summary,
    /// The prediction of the budget, for the parts it knows.
    #[serde(default)]
    pub predicted_ns: Option<i64>,
}

impl PartTimes {
    /// Median less prediction.
    pub fn difference_ns(&self) -> Option<i64> {
        self.predicted_ns.map(|predicted_ns| self.time_ns.p50 - predicted_ns)
    }

    /// The median is worse than predicted: by more than 20 %, and by enough to matter to a tick.
    pub fn is_worse(&self) -> bool {
        let worse = |predicted_ns: i64| {
            let over_ns = self.time_ns.p50 - predicted_ns;
            over_ns * 5 > predicted_ns && over_ns > MATTERS_NS
        };
        self.predicted_ns.is_some_and(worse)
    }

    /// The difference in words; empty without a prediction.
    pub fn difference(&self) -> String {
        let (Some(predicted_ns), Some(difference_ns)) = (self.predicted_ns, self.difference_ns()) else {
            return String::new();
        };
        let sign = if difference_ns < 0 { "−" } else { "+" };
        let size = duration(difference_ns.abs() as f64);
        let share = difference_ns.abs() as f64 / predicted_ns as f64 * 100.0;
        let share = if predicted_ns > 0 { format!(" ({sign}{share:.0} %)") } else { String::new() };
        let flag = if self.is_worse() { " — look here" } else { "" };
        format!("{sign}{size}{share}{flag}")
    }
}

/// A part this much longer than predicted matters: 1 % of a tick at 1 kHz.
const MATTERS_NS: i64 = 10_000;

/// One joint over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joint {
    /// Its name.
    pub name: String,
    /// The unit of its values: `rad`.
    pub unit: String,
    /// What was commanded.
    pub commanded: Trace,
    /// What was measured.
    pub measured: Trace,
    /// The lower and upper bound of the configuration.
    #[serde(default)]
    pub limits: Option<(f64, f64)>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When, in seconds since the first tick.
    pub time_s: f64,
    /// How bad it is.
    pub level: Level,
    /// What, in a few words.
    pub what: String,
    /// Cause, device, phase.
    #[serde(default)]
    pub detail: String,
}

/// One device and how it answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its bus.
    pub bus: String,
    /// Requests sent.
    pub sent: u64,
    /// Replies in time.
    pub replied: u64,
    /// Replies that never came.
    pub missed: u64,
    /// Replies after the deadline, and further replies to one query, if they are known.
    pub late: Option<u64>,
    /// Of these, further replies to one query: two devices may have the same id.
    pub duplicates: Option<u64>,
    /// Round trips, in nanoseconds.
    pub round_trip: Distribution,
}

/// A line of the passport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// What.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Whether that is good for the loop.
    #[serde(default)]
    pub level: Level,
}

/// A setting a thread asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The thread.
    pub thread: String,
    /// The setting.
    pub setting: String,
    /// What was asked for.
    pub requested: String,
    /// What was read back.
    pub granted: String,
    /// Whether the two agree.
    pub ok: bool,
}

/// The colours of what is measured of a tick, in every plot.
const MEASURES: [&str; 4] = ["cycle", "wake latency", "loop compute time", START_DELAY];
const START_DELAY: &str = "start delay, all planned periods";

/// The figures that are shown first, by their labels, if none is worse than these.
const FIRST: [&str; 5] = ["rate", LOST_PERIODS, "overruns", "missed replies", "wake latency"];

/// Bars of ticks go no further: one tick of 88 ms would leave nothing to see of the others.
const SHOWN_PERIODS: f64 = 1.25;

/// Events marked in plots; the table has them all.
const MOST_MARKERS: usize = 200;
/// Events the table shows.
const MOST_EVENTS: usize = 1_000;

impl RunData {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&self.title).subtitle(&self.subtitle).verdict(&self.verdict);
        let sections = [
            Some(self.summary()),
            self.timing(),
            self.tick(),
            self.late_rows(),
            self.joint_plots(),
            self.device_rows(),
            self.event_rows(),
            self.change_rows(),
            self.machine(),
            self.robot_file(),
        ];
        for section in sections.into_iter().flatten() {
            page = page.section(section);
        }
        page
    }

    /// Five figures, what is wrong first; the others are folded.
    fn summary(&self) -> Section {
        let mut figures = self.figures.clone();
        let rank = |figure: &Figure| {
            let first = FIRST.iter().position(|label| *label == figure.label);
            (std::cmp::Reverse(figure.level.max(Level::Note)), first.unwrap_or(FIRST.len()))
        };
        figures.sort_by_key(rank);
        let others = figures.split_off(FIRST.len().min(figures.len()));
        let reasons = self.verdict.reasons.join(" ");
        Section::new("")
            .with_some((!figures.is_empty()).then_some(figures))
            .with_some((!reasons.is_empty()).then_some(Block::Text(reasons)))
            .with_some(
                (!others.is_empty()).then(|| Block::Fold("More figures".to_owned(), vec![others.into()])),
            )
    }

    fn timing(&self) -> Option<Section> {
        if self.cycle.trace.is_empty() && self.wake.trace.is_empty() {
            return None;
        }
        let cycle = Plot::over_time("Cycle time", Axis::new("cycle", "ns"))
            .note("from the start of a tick to its last reply")
            .palette(MEASURES)
            .line("cycle", &self.cycle.trace);
        let cycle =
            if self.cpu.trace.is_empty() { cycle } else { cycle.line("loop compute time", &self.cpu.trace) };
        let cycle = self.deadlines().fold(cycle, |plot, (ns, label)| plot.limit(ns, label));
        let wake = Plot::over_time("Wake latency", Axis::new("latency", "ns"))
            .note("from the time the loop waited for to the thread running")
            .palette(MEASURES)
            .line("wake latency", &self.wake.trace);
        let section = Section::new("Timing")
            .text("Every tick of the run. Drag across a plot to zoom all plots over time, double-click for the whole run.")
            .with(self.marked(cycle))
            .with(self.marked(wake))
            .with(self.curves())
            .with(self.percentiles());
        Some(section)
    }

    fn curves(&self) -> Plot {
        self.distributions().fold(
            Plot::percentiles("Percentiles", Axis::new("duration", "ns").log())
                .note("of the controlled ticks; the start delay is of all planned periods, with a tick or without")
                .palette(MEASURES),
            |plot, (name, values)| plot.curve(name, values),
        )
    }

    fn percentiles(&self) -> Table {
        const AT: [(&str, f64); 6] = [
            ("p50", 0.5),
            ("p90", 0.9),
            ("p99", 0.99),
            ("p99.9", 0.999),
            ("p99.99", 0.9999),
            ("largest", 1.0),
        ];
        let columns = AT.iter().map(|(label, _)| Column::number(*label, "ns"));
        let table = Table::new(std::iter::once(Column::text("")).chain(columns));
        self.distributions().fold(table, |table, (name, values)| {
            let cells = AT.iter().map(|(_, q)| Cell::from(values.quantile(*q)));
            table.row(std::iter::once(Cell::from(name)).chain(cells))
        })
    }

    /// What was measured of the ticks and their starts, as far as there are values.
    fn distributions(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        let named = [
            ("cycle", &self.cycle.values),
            ("wake latency", &self.wake.values),
            (START_DELAY, &self.start_delay),
            ("loop compute time", &self.cpu.values),
        ];
        named.into_iter().filter(|(_, values)| values.count() > 0)
    }

    fn tick(&self) -> Option<Section> {
        let rows = self.whole_ticks();
        let longest = rows.last()?;
        let mut gantt = Gantt::new("Where a tick goes")
            .note("real ticks of this run, phase after phase")
            .palette(PHASES.iter().copied());
        let predicted =
            self.parts.iter().filter_map(|part| Some((part.name.clone(), part.predicted_ns? as f64)));
        if self.parts.iter().any(|part| part.predicted_ns.is_some()) {
            gantt = gantt.sequence("predicted", predicted);
        }
        let typical = |quantile| self.tick_at(&rows, quantile);
        for (label, tick) in
            [("median tick", typical(0.5)), ("p99 tick", typical(0.99)), ("longest tick", longest)]
        {
            let parts = self.phases.names().iter().cloned().zip(tick.parts.iter().map(|v| f64::from(*v)));
            gantt = gantt.sequence(format!("{label} (at {:.3} s)", tick.time_s), parts);
        }
        if self.period_ns > 0 {
            gantt = gantt.cut_at(SHOWN_PERIODS * self.period_ns as f64);
        }
        gantt = self.deadlines().fold(gantt, |gantt, (ns, label)| gantt.mark(ns, label));
        let stack = Plot::stack("Phases over time", Axis::new("duration", "ns"), &self.phases)
            .palette(PHASES.iter().copied());
        let stack = self.deadlines().fold(stack, |plot, (ns, label)| plot.limit(ns, label));
        let section = Section::new("The tick")
            .text("What the loop did with its period: how long each phase of a tick took.")
            .with(gantt)
            .with(self.part_rows())
            .with(self.marked(stack));
        Some(section)
    }

    /// Until when the replies have to be in, and the tick over.
    fn deadlines(&self) -> impl Iterator<Item = (f64, &'static str)> + use<> {
        let deadlines = [(self.bus_deadline_ns, "bus deadline"), (self.period_ns, "period")];
        deadlines.into_iter().filter(|(ns, _)| *ns > 0).map(|(ns, label)| (ns as f64, label))
    }

    /// The ticks whose phases are all known, shortest first.
    fn whole_ticks(&self) -> Vec<Tick<'_>> {
        let ticks = self.phases.rows().into_iter().map(|(time_s, parts)| {
            let sum = parts.iter().copied().map(f64::from).sum();
            Tick { time_s, parts, sum }
        });
        let mut ticks: Vec<Tick> = ticks.filter(|t| t.sum.is_finite() && !t.parts.is_empty()).collect();
        ticks.sort_by(|a, b| a.sum.total_cmp(&b.sum));
        ticks
    }

    /// The tick at this quantile: of all ticks, or of those the trace kept the one as long as the cycle at the
    /// quantile was.
    fn tick_at<'a, 'b>(&self, ticks: &'b [Tick<'a>], quantile: f64) -> &'b Tick<'a> {
        let last = ticks.len() - 1;
        let wanted = self.cycle.values.quantile(quantile).filter(|_| !self.phases.is_whole());
        let at = match wanted {
            Some(ns) => ticks.partition_point(|t| t.sum < ns),
            None => (last as f64 * quantile).round() as usize,
        };
        &ticks[at.min(last)]
    }

    fn part_rows(&self) -> Table {
        let mut columns = vec![
            Column::text("part"),
            Column::number("ticks", ""),
            Column::number("mean", "ns"),
            Column::number("p50", "ns"),
            Column::number("p90", "ns"),
            Column::number("p99", "ns"),
            Column::number("p99.9", "ns"),
            Column::number("largest", "ns").worst_is_high(),
            Column::number("in tick", ""),
        ];
        let predicted = self.parts.iter().any(|part| part.predicted_ns.is_some());
        if predicted {
            columns.extend([Column::number("predicted", "ns"), Column::text("p50 against prediction")]);
        }
        self.parts.iter().fold(Table::new(columns), |table, part| {
            let time = &part.time_ns;
            let ns = |ns: i64| Cell::from(ns as f64);
            let prediction = [part.predicted_ns.map(|ns| ns as f64).into(), Cell::Text(part.difference())];
            let cells = [
                Cell::from(part.name.as_str()),
                time.count.into(),
                time.mean.into(),
                ns(time.p50),
                ns(time.p90),
                ns(time.p99),
                ns(time.p999),
                ns(time.max),
                ns(time.max_at),
            ];
            table.row(cells.into_iter().chain(prediction))
        })
    }

    fn late_rows(&self) -> Option<Section> {
        let mut worst: Vec<_> = self.late.iter().collect();
        worst.sort_by_key(|late| std::cmp::Reverse(late.response_ns));
        let table =
            worst.into_iter().fold(Table::new(LateReport::columns()), |table, late| table.row(late.cells()));
        let section =
            (!self.late_counts.is_empty()).then(|| Section::new("Late ticks").text(&self.late_counts))?;
        Some(blocks(&self.late_groups, table).into_iter().fold(section, Section::with))
    }

    fn joint_plots(&self) -> Option<Section> {
        let plots: Vec<Plot> = self
            .joints
            .iter()
            .map(|joint| {
                let plot = Plot::over_time(&joint.name, Axis::new("position", &joint.unit))
                    .compact()
                    .line("measured", &joint.measured)
                    .stroke("commanded", &joint.commanded, Stroke::Dashed);
                match joint.limits {
                    Some((low, high)) => plot.limit(low, "lower limit").limit(high, "upper limit"),
                    None => plot,
                }
            })
            .collect();
        let text = "Position of each joint: dashed what was commanded, kept within the limits; solid what the servo measured.";
        let robot = Robot::new(&self.skeleton, &self.attitude);
        let section =
            (!plots.is_empty()).then(|| Section::new("Joints").text(text).with_some(robot).with(plots))?;
        Some(self.details.iter().filter_map(Detail::block).fold(section, Section::with))
    }

    fn device_rows(&self) -> Option<Section> {
        if self.devices.is_empty() {
            return None;
        }
        let count = |label: &str| Column::number(label, "").worst_is_high();
        // Of a log they are not known.
        let late_ones = ["late", "duplicates"].map(count).into_iter();
        let late_ones = late_ones.filter(|_| self.devices.iter().any(|d| d.late.is_some()));
        let names = [
            Column::text("device"),
            Column::text("bus"),
            Column::number("sent", ""),
            Column::number("replied", ""),
            count("missed"),
        ];
        let trips = [
            Column::number("round trip p50", "ns"),
            Column::number("p99", "ns").worst_is_high(),
            Column::number("largest", "ns").worst_is_high(),
        ];
        let table = Table::new(names.into_iter().chain(late_ones).chain(trips));
        // The worst first.
        let mut devices: Vec<_> = self.devices.iter().collect();
        devices.sort_by_key(|d| std::cmp::Reverse((d.missed, d.late, d.duplicates)));
        let table = devices.iter().fold(table, |table, d| {
            let counts = [d.sent, d.replied, d.missed].into_iter().chain(d.late).chain(d.duplicates);
            let trips = [0.5, 0.99, 1.0].map(|q| Cell::from(d.round_trip.quantile(q)));
            let names = [d.name.as_str().into(), d.bus.as_str().into()].into_iter();
            table.row(names.chain(counts.map(Cell::from)).chain(trips))
        });
        let ranges = Ranges::new("Round trips", "ns").note("request sent to reply received");
        let with_trips = devices.iter().filter(|d| d.round_trip.count() > 0);
        let ranges = with_trips.fold(ranges, |ranges, d| ranges.device(&d.name, &d.round_trip));
        let section = Section::new("Devices").text("How each device answered.");
        let has_trips = self.devices.iter().any(|d| d.round_trip.count() > 0);
        Some(section.with_some(has_trips.then_some(ranges)).with(table))
    }

    fn event_rows(&self) -> Option<Section> {
        if self.events.is_empty() {
            return None;
        }
        let columns = [Column::text("time"), Column::text(""), Column::text("event"), Column::text("detail")];
        let table = self.events.iter().take(MOST_EVENTS).fold(Table::new(columns), |table, e| {
            table.row([
                Cell::Text(format!("{:.3} s", e.time_s)),
                Cell::Text(e.level.word().into()),
                Cell::from(e.what.as_str()),
                Cell::from(e.detail.as_str()),
            ])
        });
        let more = self.events.len().saturating_sub(MOST_EVENTS) as u64 + self.events_left_out;
        let rest = (more > 0).then(|| Block::Text(format!("{more} further events are in the log.")));
        Some(Section::new("Events").with(table).with_some(rest))
    }

    fn change_rows(&self) -> Option<Section> {
        if self.changes.is_empty() {
            return None;
        }
        let columns = ["time", "parameter", "from", "to", "by"].map(Column::text);
        let table = self.changes.iter().take(MOST_EVENTS).fold(Table::new(columns), |table, change| {
            table.row([
                Cell::Text(format!("{:.3} s", change.time_s)),
                Cell::from(change.name.as_str()),
                Cell::Text(change.before.to_string()),
                Cell::Text(change.value.to_string()),
                Cell::from(change.by.as_str()),
            ])
        });
        let more = self.changes.len().saturating_sub(MOST_EVENTS) as u64 + self.changes_left_out;
        let rest = (more > 0).then(|| Block::Text(format!("{more} further changes are in the log.")));
        Some(Section::new("Parameter changes").with(table).with_some(rest))
    }

    fn machine(&self) -> Option<Section> {
        if self.passport.is_empty() && self.grants.is_empty() {
            return None;
        }
        let facts = self.passport.iter().fold(KeyValues::default(), |list, fact| match fact.level {
            Level::Note => list.pair(&fact.key, &fact.value),
            level => list.judged(&fact.key, &fact.value, level),
        });
        let columns = ["thread", "setting", "requested", "granted", ""].map(Column::text);
        let grants =
            self.grants.iter().fold(Table::new(columns).title("Requested and granted"), |table, g| {
                let verdict = if g.ok { "granted" } else { "not granted" };
                table.row(
                    [&g.thread, &g.setting, &g.requested, &g.granted, verdict]
                        .map(|text: &str| Cell::from(text)),
                )
            });
        let section =
            Section::new("Machine").text("The machine the run was made on, and what it allowed.").with(facts);
        Some(section.with_some((!self.grants.is_empty()).then_some(grants)))
    }

    fn robot_file(&self) -> Option<Section> {
        let listing = Block::Listing("the robot file of this run".into(), self.config.clone());
        (!self.config.is_empty()).then(|| Section::new("Configuration").with(listing))
    }

    fn marked(&self, plot: Plot) -> Plot {
        self.events.iter().take(MOST_MARKERS).fold(plot, |plot, e| plot.marker(e.time_s, &e.what, e.level))
    }
}

/// One tick of the trace and its phases.
struct Tick<'a> {
    time_s: f64,
    parts: &'a [f32],
    sum: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_nothing_is_a_page() {
        let page = RunData::default().page().to_string();
        assert!(page.contains("untitled") && !page.contains("<h2>Timing"));
    }

    #[test]
    fn a_run_survives_json() {
        let mut data =
            RunData { title: "t".into(), phases: StackedTrace::new(["a", "b"]), ..RunData::default() };
        data.phases.push(0.0, &[1.0, 2.0]);
        data.wake = Measured::from_points([(0.0, 1.0), (0.001, 2.0)]);
        let json = serde_json::to_string(&data).unwrap_or_default();
        assert_eq!(serde_json::from_str::<RunData>(&json).ok(), Some(data));
    }

    #[test]
    fn only_a_part_that_is_worse_than_predicted_is_pointed_out() {
        let part = |p50, predicted_ns| PartTimes {
            name: "bus".into(),
            time_ns: Summary { p50, ..Summary::default() },
            predicted_ns,
        };
        assert_eq!(part(130_000, Some(100_000)).difference(), "+30 µs (+30 %) — look here");
        assert_eq!(part(120_000, Some(100_000)).difference(), "+20 µs (+20 %)");
        assert_eq!(part(13_000, Some(9_000)).difference(), "+4 µs (+44 %)");
        assert_eq!(part(9_000, Some(100_000)).difference(), "−91 µs (−91 %)");
        assert_eq!(part(1, Some(0)).difference(), "+1 ns");
        assert_eq!(part(1, None).difference(), "");
    }

    #[test]
    fn ticks_that_are_not_finite_do_not_break_the_page() {
        let mut data = RunData { phases: StackedTrace::new(["a"]), period_ns: -1, ..RunData::default() };
        data.phases.push(0.0, &[f32::NAN]);
        data.phases.push(f64::NAN, &[1.0]);
        data.events.push(Event {
            time_s: f64::NAN,
            level: Level::Bad,
            what: "<x>".into(),
            detail: "<y>".into(),
        });
        data.joints.push(Joint {
            name: "<j>".into(),
            unit: "<u>".into(),
            commanded: Trace::new(),
            measured: Trace::from_points([(f64::NAN, 0.0), (0.0, f64::NAN)]),
            limits: Some((f64::NAN, f64::INFINITY)),
        });
        let page = data.page().to_string();
        for tag in ["<x>", "<y>", "<j>", "<u>"] {
            assert!(!page.contains(tag), "{tag}");
        }
    }
}
