//! The page of one run of a robot.
use super::{
    Axis, Block, Cell, Column, Distribution, Figure, Gantt, KeyValues, Level, Page, Plot, Ranges, Section,
    StackedTrace, Stroke, Table, Trace, duration,
};
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
    /// How late each tick woke, in nanoseconds.
    pub wake: Measured,
    /// How long each tick's cycle took, in nanoseconds.
    pub cycle: Measured,
    /// The tick's own work, without waiting for the wire, in nanoseconds.
    pub cpu: Measured,
    /// Durations of a tick's phases in their order, in nanoseconds.
    pub phases: StackedTrace,
    /// All durations of each phase, in the order of the phases; empty for what the trace kept.
    pub phase_values: Vec<Distribution>,
    /// What each phase was predicted to take, by its name.
    pub prediction: Vec<Predicted>,
    /// The joints.
    pub joints: Vec<Joint>,
    /// What happened.
    pub events: Vec<Event>,
    /// The devices.
    pub devices: Vec<Device>,
    /// The machine and what the loop's threads asked of it.
    pub passport: Vec<Fact>,
    /// Requested and granted settings.
    pub grants: Vec<Grant>,
    /// The robot file, as it was used.
    pub config: String,
}

/// The verdict on a run: a grade in a word, and why it is no better.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// How good it is.
    pub level: Level,
    /// The grade: `grade A`, `degraded`.
    pub grade: String,
    /// Why it is no better, one sentence each.
    pub reasons: Vec<String>,
}

/// A duration measured once per tick, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Over time.
    pub trace: Trace,
    /// All values, however long the run.
    pub values: Distribution,
}

impl Measured {
    /// From what was traced and what was counted while the loop ran.
    pub fn new(trace: Trace, values: &khz_rt::Histogram) -> Self {
        Self { trace, values: values.into() }
    }

    /// Adds what was measured later, its times shifted by so many seconds.
    pub fn absorb(&mut self, later: &Self, shift_s: f64) {
        let shifted = later.trace.points().into_iter().map(|(x, y)| (x + shift_s, y));
        let points = self.trace.points().into_iter().chain(shifted);
        self.trace = Trace::from_points(points.map(|(x, y)| (x, f64::from(y))));
        self.values = Distribution::from_counts(self.values.counts().chain(later.values.counts()));
    }

    /// From the time of each tick in seconds and its value in nanoseconds.
    pub fn from_points(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut trace = Trace::new();
        let values = points.into_iter().map(|(x, y)| {
            trace.push(x, y);
            y
        });
        let values = Distribution::from_samples(values);
        Self { trace, values }
    }
}

/// A phase with its predicted duration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// The name of the phase, as in the run's phases.
    pub phase: String,
    /// Its duration in nanoseconds.
    pub ns: f64,
    /// Where the figure comes from.
    #[serde(default)]
    pub source: String,
}

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
    /// Replies after the deadline.
    pub late: u64,
    /// Errors the device reported.
    pub errors: u64,
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

/// A prediction that is off by more than this share of itself is pointed out.
const PREDICTION_OFF: f64 = 0.2;
/// Events marked in plots; the table has them all.
const MOST_MARKERS: usize = 200;
/// Events the table shows.
const MOST_EVENTS: usize = 1_000;

impl RunData {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page =
            Page::new(&self.title).subtitle(&self.subtitle).badge(self.verdict.level, &self.verdict.grade);
        let sections = [
            Some(self.summary()),
            self.timing(),
            self.tick(),
            self.joint_plots(),
            self.device_rows(),
            self.event_rows(),
            self.machine(),
            self.robot_file(),
        ];
        for section in sections.into_iter().flatten() {
            page = page.section(section);
        }
        page
    }

    fn summary(&self) -> Section {
        let section = Section::new("Summary").text(self.verdict.reasons.join(" "));
        section.with_some((!self.figures.is_empty()).then(|| self.figures.clone()))
    }

    fn timing(&self) -> Option<Section> {
        if self.cycle.trace.is_empty() && self.wake.trace.is_empty() {
            return None;
        }
        let cycle = Plot::over_time("Cycle time", Axis::new("cycle", "ns"))
            .note("from the tick's planned start to its end")
            .line("cycle", &self.cycle.trace);
        let cycle = if self.cpu.trace.is_empty() { cycle } else { cycle.line("own work", &self.cpu.trace) };
        let cycle = if self.period_ns > 0 { cycle.limit(self.period_ns as f64, "deadline") } else { cycle };
        let wake = Plot::over_time("Wake latency", Axis::new("latency", "ns"))
            .note("from the planned start to the thread running")
            .line("wake", &self.wake.trace);
        let section = Section::new("Timing")
            .text(
                "Every tick of the run; nothing is filtered. Drag across a plot to zoom all plots over time, \
                   double-click for the whole run.",
            )
            .with(self.marked(cycle))
            .with(self.marked(wake))
            .with(self.curves())
            .with(self.percentiles());
        Some(section)
    }

    fn curves(&self) -> Plot {
        let named = [("cycle", &self.cycle), ("wake", &self.wake), ("own work", &self.cpu)];
        named.into_iter().filter(|(_, m)| m.values.count() > 0).fold(
            Plot::percentiles("Percentiles", Axis::new("duration", "ns").log())
                .note("read: so many ticks out of a hundred stayed below the line"),
            |plot, (name, measured)| plot.curve(name, &measured.values),
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
        let named = [("cycle", &self.cycle), ("wake latency", &self.wake), ("own work", &self.cpu)];
        named.into_iter().filter(|(_, m)| m.values.count() > 0).fold(table, |table, (name, measured)| {
            let cells = AT.iter().map(|(_, q)| Cell::from(measured.values.quantile(*q)));
            table.row(std::iter::once(Cell::from(name)).chain(cells))
        })
    }

    fn tick(&self) -> Option<Section> {
        let rows = self.whole_ticks();
        let longest = rows.last()?;
        let mut gantt = Gantt::new("Where a tick goes").note("real ticks of this run, phase after phase");
        if !self.prediction.is_empty() {
            gantt = gantt.sequence("predicted", self.prediction.iter().map(|p| (p.phase.clone(), p.ns)));
        }
        let typical = |quantile| self.tick_at(&rows, quantile);
        for (label, tick) in
            [("median tick", typical(0.5)), ("p99 tick", typical(0.99)), ("longest tick", longest)]
        {
            let parts = self.phases.names().iter().cloned().zip(tick.parts.iter().map(|v| f64::from(*v)));
            gantt = gantt.sequence(format!("{label} (at {:.3} s)", tick.time_s), parts);
        }
        if self.period_ns > 0 {
            gantt = gantt.mark(self.period_ns as f64, "deadline");
        }
        let stack = Plot::stack("Phases over time", Axis::new("duration", "ns"), &self.phases);
        let section = Section::new("The tick")
            .text("What the loop did with its period: how long each phase of a tick took.")
            .with(gantt)
            .with(self.phase_rows())
            .with(self.marked(stack));
        Some(section)
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

    fn phase_rows(&self) -> Table {
        let mut columns = vec![
            Column::text("phase"),
            Column::number("p50", "ns"),
            Column::number("p99", "ns"),
            Column::number("largest", "ns").worst_is_high(),
        ];
        if !self.prediction.is_empty() {
            columns.extend([Column::number("predicted", "ns"), Column::text("p50 against prediction")]);
        }
        let rows = self.phases.rows();
        self.phases.names().iter().enumerate().fold(Table::new(columns), |table, (at, name)| {
            let kept = || Distribution::from_samples(rows.iter().map(|(_, row)| f64::from(row[at])));
            let values = self.phase_values.get(at).cloned().unwrap_or_else(kept);
            let predicted = self.prediction.iter().find(|p| p.phase == *name).map(|p| p.ns);
            let p50 = values.quantile(0.5);
            table.row([
                Cell::from(name.as_str()),
                p50.into(),
                values.quantile(0.99).into(),
                values.max().into(),
                predicted.into(),
                Cell::Text(difference(p50, predicted)),
            ])
        })
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
        let text =
            "Position of each joint: dashed what the controller commanded, solid what the servo measured.";
        (!plots.is_empty()).then(|| Section::new("Joints").text(text).with(plots))
    }

    fn device_rows(&self) -> Option<Section> {
        if self.devices.is_empty() {
            return None;
        }
        let count = |label: &str| Column::number(label, "").worst_is_high();
        let table = Table::new([
            Column::text("device"),
            Column::text("bus"),
            Column::number("sent", ""),
            Column::number("replied", ""),
            count("missed"),
            count("late"),
            count("errors"),
            Column::number("round trip p50", "ns"),
            Column::number("p99", "ns").worst_is_high(),
            Column::number("largest", "ns").worst_is_high(),
        ]);
        let table = self.devices.iter().fold(table, |table, d| {
            let counts = [d.sent, d.replied, d.missed, d.late, d.errors].map(Cell::from);
            let trips = [0.5, 0.99, 1.0].map(|q| Cell::from(d.round_trip.quantile(q)));
            table.row([d.name.as_str().into(), d.bus.as_str().into()].into_iter().chain(counts).chain(trips))
        });
        let ranges = Ranges::new("Round trips", "ns").note("request sent to reply received");
        let with_trips = self.devices.iter().filter(|d| d.round_trip.count() > 0);
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
        let more = self.events.len().saturating_sub(MOST_EVENTS);
        let rest = (more > 0).then(|| Block::Text(format!("{more} further events are in the log.")));
        Some(Section::new("Events").with(table).with_some(rest))
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

fn difference(measured: Option<f64>, predicted: Option<f64>) -> String {
    let (Some(measured), Some(predicted)) = (measured, predicted.filter(|p| *p > 0.0)) else {
        return String::new();
    };
    let share = measured / predicted - 1.0;
    let flag = if share.abs() > PREDICTION_OFF { " — look here" } else { "" };
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{:.0} % ({}){flag}", share.abs() * 100.0, duration(measured - predicted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_nothing_is_a_page() {
        let page = RunData::default().page().to_string();
        assert!(page.contains("Summary") && !page.contains("<h2>Timing"));
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
    fn a_phase_far_from_its_prediction_is_pointed_out() {
        assert_eq!(difference(Some(130.0), Some(100.0)), "+30 % (30 ns) — look here");
        assert_eq!(difference(Some(90.0), Some(100.0)), "−10 % (−10 ns)");
        assert_eq!(difference(None, Some(1.0)), "");
        assert_eq!(difference(Some(1.0), Some(0.0)), "");
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
