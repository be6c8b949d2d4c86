//! The prediction as a page of a report.

use crate::change::Sweep;
use crate::show::Prediction;
use khz_page::{
    Axis, Bar, Cell, Column, Figure, Gantt, KeyValues, Level, Page, Plot, Section, Table, Trace, duration,
};

impl Prediction {
    /// The page, with the plot of a sweep if one was made.
    pub fn page(&self, sweep: Option<&Sweep>) -> Page {
        let (level, badge) = if self.fits() { (Level::Good, "fits") } else { (Level::Bad, "does not fit") };
        let page = Page::new(format!("Budget of {}", self.robot))
            .subtitle("predicted from bytes, bits and delays; nothing was measured")
            .badge(level, badge)
            .section(self.overview())
            .section(Section::new("One tick").with(self.gantt()).with(self.path()))
            .section(Section::new("What would help").with(self.helpful()))
            .section(Section::new("Buses").with(self.bus_table()))
            .section(Section::new("Assumptions").with(self.assumed()));
        match sweep {
            Some(sweep) => page.section(Section::new("Sweep").with(sweep.plot(self.period_ns))),
            None => page,
        }
    }

    fn overview(&self) -> Section {
        let ns = |ns: i64| duration(ns as f64);
        let rate = |hz: f64| format!("{} Hz", hz.floor());
        let later = rate(self.highest_rate_any_deadline_hz);
        Section::new("At a glance").with(vec![
            Figure::new("highest rate", rate(self.highest_rate_hz))
                .note(format!("{later} with a later bus deadline")),
            Figure::new("cycle", ns(self.cycle_ns)).note(format!(
                "at the latest {}, before control {}",
                ns(self.longest_cycle_ns),
                ns(self.start_cycle_ns)
            )),
            Figure::new("tick", ns(self.tick_ns)),
            Figure::new("headroom", ns(self.headroom_ns)).note(format!("of {}", ns(self.period_ns))),
        ])
    }

    fn gantt(&self) -> Gantt {
        let chart = Gantt::new("Where the time goes").note("every frame and every delay of one tick");
        let chart = self.timeline.rows().into_iter().fold(chart, |chart, row| {
            let spans = self.timeline.spans.iter().filter(|span| span.row == row);
            let bars = spans.map(|span| {
                Bar::new(span.kind.word(), span.start_ns as f64, span.end_ns as f64).detail(&span.detail)
            });
            chart.row(row, bars)
        });
        let path = self.timeline.critical_path();
        let bars = path.iter().map(|span| {
            let detail = format!("{} {}", span.row, span.detail);
            Bar::new(span.kind.word(), span.start_ns as f64, span.end_ns as f64).detail(detail)
        });
        chart.row("critical path", bars).mark(self.period_ns as f64, "period")
    }

    fn path(&self) -> Table {
        let columns = [Column::text("on the critical path"), Column::number("time", "ns")];
        self.critical.iter().fold(Table::new(columns), |table, share| {
            table.row([Cell::Text(share.what()), Cell::from(share.ns as f64)])
        })
    }

    fn helpful(&self) -> Table {
        let columns = [
            Column::text("change"),
            Column::number("gain", "ns"),
            Column::number("tick", "ns"),
            Column::number("highest rate", "Hz"),
        ];
        self.changes.iter().fold(Table::new(columns), |table, change| {
            let (gain, tick) = (change.gain_ns as f64, change.tick_ns as f64);
            table.row([change.what.as_str().into(), gain.into(), tick.into(), change.rate_hz.floor().into()])
        })
    }

    fn bus_table(&self) -> Table {
        let columns = [
            Column::text("bus"),
            Column::number("frames", ""),
            Column::number("bytes", ""),
            Column::number("bits", ""),
            Column::number("busy", "ns"),
            Column::number("of the period", "%"),
        ];
        self.buses.iter().fold(Table::new(columns), |table, bus| {
            let counts = [bus.frames as u64, bus.bytes as u64, bus.bits].map(Cell::from);
            let times = [bus.busy_ns as f64, 100.0 * bus.utilisation].map(Cell::from);
            table.row([Cell::from(bus.name.as_str())].into_iter().chain(counts).chain(times))
        })
    }

    fn assumed(&self) -> KeyValues {
        let numbered = self.assumptions.iter().enumerate();
        numbered.fold(KeyValues::new("Taken for granted"), |list, (index, assumption)| {
            list.pair((index + 1).to_string(), assumption)
        })
    }
}

impl Sweep {
    fn plot(&self, period_ns: i64) -> Plot {
        let line = |pick: fn(&(f64, i64, i64)) -> i64| {
            Trace::from_points(self.points.iter().map(|point| (point.0, pick(point) as f64)))
        };
        Plot::lines(format!("Over {}", self.key), Axis::new(&self.key, ""), Axis::new("time", "ns"))
            .line("cycle", &line(|point| point.1))
            .line("tick", &line(|point| point.2))
            .limit(period_ns as f64, "period")
    }

    /// For a terminal: value, cycle, tick and rate, a line each.
    pub fn text(&self) -> String {
        let line = |&(value, cycle_ns, tick_ns): &(f64, i64, i64)| {
            let [cycle, tick] = [cycle_ns, tick_ns].map(|ns| duration(ns as f64));
            let rate = (1e9 / tick_ns.max(1) as f64).floor();
            format!("  {value:>10}  cycle {cycle:>9}  tick {tick:>9}  {rate:>6} Hz\n")
        };
        format!("\n{}\n{}", self.key, self.points.iter().map(line).collect::<String>())
    }
}
