//! The page of a measurement, section by section.

use super::Results;
use khz_page::{
    Axis, Block, Cell, Column, Figure, KeyValues, Level, Page, Plot, Ranges, Section, Table, duration,
};

impl Results {
    /// The page of this run.
    pub fn page(&self) -> Page {
        let page = Page::new(&self.name).subtitle(self.subtitle()).verdict(&self.verdict());
        page.section(self.summary())
            .section(self.where_time_goes())
            .section(self.timing())
            .section(self.mode_rows())
            .section(self.device_rows())
            .section(self.machine())
    }

    fn subtitle(&self) -> String {
        let rate = self.rate_hz.map_or("unpaced".into(), |rate| format!("{rate} Hz"));
        let devices = self.devices.len();
        let plural = if devices == 1 { "device" } else { "devices" };
        format!(
            "{devices} {plural} asked {}, {rate}, {} bytes, {} ticks",
            self.ask.word(),
            self.payload,
            self.ticks
        )
    }

    /// The section with the headline figures.
    pub fn summary(&self) -> Section {
        let (counts, trips) = (self.counts(), self.round_trips());
        let at = |q: f64| duration(trips.quantile(q).unwrap_or(f64::NAN));
        let planned = |q: f64| self.cycle_planned_ns(q).map_or("no answer".into(), duration);
        let warned = |count: u64| if count == 0 { Level::Good } else { Level::Warning };
        let lost_level = if counts.lost() == 0 { Level::Good } else { Level::Bad };
        let mut figures = vec![
            Figure::new("round trip p50", at(0.5)),
            Figure::new("round trip p99", at(0.99)).note("of the answers"),
            Figure::new("largest", at(1.0)),
            Figure::new("lost", counts.lost().to_string())
                .note(format!("of {} sent", counts.sent))
                .level(lost_level),
            Figure::new("late", counts.late.to_string())
                .note("after their period")
                .level(warned(counts.late)),
            Figure::new("incomplete ticks", self.incomplete.to_string())
                .note(format!("of {}: an answer was late or lost", self.ticks))
                .level(warned(self.incomplete)),
            Figure::new("whole cycle p99", planned(0.99)).note("of all planned ticks"),
            Figure::new("out of order", counts.out_of_order.to_string()),
            Figure::new("corrupt replies", counts.corrupt.to_string()),
            Figure::new("unexpected", self.unexpected.total().to_string()).note("datagrams of others"),
        ];
        if let Some(planned) = &self.planned {
            figures.extend(planned.figures(self.rate_hz, self.ticks));
        }
        Section::new("Summary").with(figures)
    }

    /// The lines that set theory beside measurement: what, and how long in ns. Empty if the network is not known.
    pub fn account(&self) -> Vec<(String, f64)> {
        let (Some(network), Some(theory)) = (self.network, self.theory()) else { return Vec::new() };
        let bytes = theory.wire_bytes;
        let mut lines = vec![
            (format!("{bytes} bytes on the sender's wire, one pass"), theory.sender_pass_ns as f64),
            (format!("{bytes} bytes on the device's wire, one pass"), theory.device_pass_ns as f64),
            (format!("computed: {} passes, {network}", theory.passes), theory.round_trip_ns as f64),
        ];
        if self.devices.len() > 1 {
            let waiting =
                format!("computed: the last of {} answers at the sender's port waits", self.devices.len());
            lines.push((waiting, theory.burst_ns as f64));
        }
        if let Some(shares) = self.shares() {
            lines.push(("measured round trip, p50".into(), shares.measured_ns));
            lines.push(("held by the device's program, p50".into(), shares.held_ns));
            lines.push((
                "the rest: host and device, outside wire and device's program".into(),
                shares.rest_ns,
            ));
        }
        lines
    }

    /// The lines of what the kernel's own times show, as [`Results::account`], p50. Empty if it was not asked.
    pub fn stack(&self) -> Vec<(String, f64)> {
        let Some(split) = &self.split else { return Vec::new() };
        let message = split
            .parts()
            .into_iter()
            .filter_map(|(name, values)| Some((name.to_owned(), values.quantile(0.5)?)));
        message.collect()
    }

    /// The section of periodic modes.
    pub fn mode_rows(&self) -> Section {
        let section = Section::new("Periodic modes").text(format!(
            "Of {} stretches of unusually long cycles, those that resemble each other and come back after equal \
             times, if chance would hardly make such a row.",
            self.excursions.all().len()
        ));
        let found = self.modes();
        if found.is_empty() {
            return section.text("None was found.");
        }
        let table = Table::new([
            Column::text("mode"),
            Column::number("period", "s"),
            Column::number("lasts", "s"),
            Column::number("adds up to", "ns"),
            Column::number("seen", ""),
        ]);
        section.with(found.into_iter().enumerate().fold(table, |table, (at, mode)| {
            let figures = [mode.period_s, mode.lasts_s, mode.added_ns].map(Cell::from);
            table.row(
                [Cell::from(format!("{}", at + 1))]
                    .into_iter()
                    .chain(figures)
                    .chain([Cell::from(mode.count as u64)]),
            )
        }))
    }

    /// Where the time goes: theory beside measurement, and what the kernel's own times show.
    pub fn where_time_goes(&self) -> Section {
        let section = Section::new("Where the time goes");
        let lines = [self.account(), self.stack()].concat();
        if lines.is_empty() {
            return section.text(
                "The network was not specified, so nothing is computed (`--link-mbit`, `--switches`).",
            );
        }
        let table = lines
            .into_iter()
            .fold(Table::new([Column::text("share"), Column::number("time", "ns")]), |table, (what, ns)| {
                table.row([Cell::from(what), Cell::from(ns)])
            });
        section.with(table)
    }

    /// The section with round trips over time and as curves.
    pub fn timing(&self) -> Section {
        const SHOWN: usize = 8;
        let rtt = || Axis::new("round trip", "ns");
        let mut over_time = Plot::over_time("Round trips over time", rtt());
        for device in self.devices.iter().take(SHOWN) {
            over_time = over_time.line(&device.address, &device.round_trip.trace);
        }
        if self.devices.len() > SHOWN {
            over_time = over_time.note(format!("the first {SHOWN} of {} devices", self.devices.len()));
        }
        let trips = self.round_trips();
        let width = trips.bin_width();
        let curves = Plot::percentiles("Percentiles", Axis::new("time", "ns").log())
            .curve("round trip", &trips)
            .curve("whole cycle, of ticks that got all answers", &self.cycle.values)
            .curve("late tick (the sender's own)", &self.late_ticks.values);
        let bins = Plot::histogram(
            format!("Round trips in bins of {}", duration(width)),
            Axis::new("round trip", "ns"),
        )
        .bins("round trip", &trips, width);
        let curves = self.planned.iter().fold(curves, |curves, planned| {
            curves.curve("round trip over planned periods", &planned.round_trip)
        });
        let ticks = Plot::over_time("How late the sender's ticks began", Axis::new("late", "ns"))
            .note("the operating system's share of the jitter")
            .line("late", &self.late_ticks.trace);
        Section::new("Round trips")
            .text(
                "From a question's sending until the program has its answer, by the sender's clock; nothing is filtered. \
                 Over planned periods: from the planned time, also for questions the sender was too late to ask.",
            )
            .with(over_time)
            .with(curves)
            .with(bins)
            .with(ticks)
    }

    /// The section with a row for each device.
    pub fn device_rows(&self) -> Section {
        let ranges = self.devices.iter().fold(Ranges::new("Round trips by device", "ns"), |r, d| {
            r.device(&d.address, &d.round_trip.values)
        });
        let count = |label: &str| Column::number(label, "").worst_is_high();
        let table = Table::new([
            Column::text("device"),
            Column::number("sent", ""),
            count("lost"),
            count("late"),
            count("duplicates"),
            count("out of order"),
            count("corrupt"),
            count("refused"),
            Column::number("p50", "ns"),
            Column::number("p99", "ns").worst_is_high(),
            Column::number("p99.9", "ns").worst_is_high(),
            Column::number("p99.99", "ns").worst_is_high(),
            Column::number("largest", "ns").worst_is_high(),
            Column::number("held p50", "ns"),
        ]);
        let table = self.devices.iter().fold(table, |table, d| {
            let c = d.counts;
            let counts = [c.sent, c.lost(), c.late, c.duplicates, c.out_of_order, c.corrupt, c.refused];
            let counts = counts.map(Cell::from);
            let trips = [0.5, 0.99, 0.999, 0.9999, 1.0].map(|q| Cell::from(d.round_trip.values.quantile(q)));
            let held = Cell::from(d.held.quantile(0.5));
            table.row([Cell::from(d.address.as_str())].into_iter().chain(counts).chain(trips).chain([held]))
        });
        Section::new("Devices")
            .text("Held: how long the device's own program had the request, by its own clock.")
            .with(ranges)
            .with(table)
    }

    fn machine(&self) -> Section {
        let p = &self.passport;
        let machine = KeyValues::default()
            .pair("kernel", &p.kernel)
            .pair("preemption", &p.preemption)
            .pair("CPU", &p.cpu)
            .pair("hypervisor", p.hypervisor.as_deref().unwrap_or("none"))
            .pair("steal meanwhile", duration(self.steal_ns as f64))
            .pair("sending thread", self.setup.grade.to_string())
            .pair("answers waited for by", self.receive.word());
        let columns = ["setting", "requested", "granted"].map(Column::text);
        let grants = self.setup.settings.iter().fold(Table::new(columns), |table, s| {
            table.row([&s.name, &s.requested, &s.granted].map(|text| Cell::from(text.as_str())))
        });
        let notes = self.notes.iter().map(|note| Block::Text(note.clone()));
        let section = notes.fold(Section::new("Machine"), Section::with);
        section.with(machine).with(grants)
    }
}
