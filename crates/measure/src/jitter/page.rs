//! Results as a page: lines over time, histograms, percentile curves, side by side.

use super::result::{Buckets, Measurement};
use khz_page::{
    Axis, Better, Block, Cell, Column, Comparison, Distribution, Figure, KeyValues, Level, Page, Plot,
    Section, Stroke, Table, Verdict, alike, duration, grouped, has_percentile, share,
};
use khz_report::late::{LateReport, blocks};
use khz_rt::{Policy, Summary};
use khz_run::costs::{LateGroup, merged};
use khz_run::verdict::side_by_side;

/// One page for one run or several. `bin_ns` is the width of the histograms' bins; chosen by the data if not
/// given.
#[must_use]
pub fn page(runs: &[Measurement], bin_ns: Option<i64>) -> Page {
    let title = match runs {
        [run] => format!("Jitter: {}", run.name),
        _ => format!("Jitter: {} runs side by side", runs.len()),
    };
    let mut page = Page::new(title).subtitle(runs.first().map_or(String::new(), subtitle));
    page = page.verdict(&verdict(runs));
    page = page.section(overview(runs)).section(distributions(runs, bin_ns)).section(over_time(runs));
    page = late(runs).into_iter().fold(page, Page::section);
    page.section(machine(runs))
}

/// The verdict on one run, or on runs side by side.
#[must_use]
pub fn verdict(runs: &[Measurement]) -> Verdict {
    let [first, .., last] = runs else {
        return runs.first().map_or_else(Verdict::default, Measurement::verdict);
    };
    let delays = runs.iter().filter(|run| run.plan.policy != Policy::Deadline);
    let mut by_delay: Vec<&Measurement> = delays.filter(|run| run.start_delay_ns.count > 0).collect();
    by_delay.sort_by_key(|run| run.start_delay_ns.p99);
    let [best, worst] = [by_delay.first().unwrap_or(&first), by_delay.last().unwrap_or(&last)];
    let p99 = |run: &Measurement| duration(run.start_delay_ns.p99 as f64);
    let compared = format!(
        "least start delay p99: {} with {}, most: {} with {}",
        p99(best),
        best.name,
        p99(worst),
        worst.name
    );
    let each: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.verdict())).collect();
    side_by_side(&each, &compared)
}

fn subtitle(run: &Measurement) -> String {
    let (passport, plan) = (&run.passport, &run.plan);
    format!(
        "{} on {}, kernel {}, work {}",
        duration(plan.period_ns as f64),
        passport.cpu,
        passport.kernel,
        plan.work
    )
}

fn overview(runs: &[Measurement]) -> Section {
    let section = Section::new("Overview").text(
        "Wake latency: from the time the thread waited for to its waking, of the ticks that ran. Start delay: from each \
         planned time to the first tick at or after it, so lost periods count, too. Execution: its work. Response: from \
         the time waited for to the end of the work. Period: from one waking to the next. No value is filtered.",
    );
    let section = match runs {
        [run] => section.with(figures(run)).with(summary_table(run)),
        _ => section.with_some(lengths(runs).map(Block::Text)).with(comparison(runs)),
    };
    let warned = |section: Section, run: &Measurement| {
        run.warnings()
            .into_iter()
            .fold(section, |section, warning| section.with(Block::Text(format!("{}: {warning}.", run.name))))
    };
    runs.iter().fold(section, warned)
}

fn figures(run: &Measurement) -> Vec<Figure> {
    let (wake, delay, counts) = (&run.wake_latency_ns, &run.start_delay_ns, &run.counts);
    let figure = |label: &str, value: String, note: &str| Figure::new(label, value).note(note);
    let duration_of = |s: &Summary, ns: i64| duration(if s.count == 0 { f64::NAN } else { ns as f64 });
    vec![
        figure("wake latency p50", duration_of(wake, wake.p50), "half of the ticks woke no later"),
        figure("wake latency p99", duration_of(wake, wake.p99), "of the ticks that ran"),
        figure("start delay p99", duration_of(delay, delay.p99), "of all planned periods"),
        figure(
            "start delay max",
            duration_of(delay, delay.max),
            &format!("at {}", duration(delay.max_at as f64)),
        ),
        figure("lost periods", grouped(counts.skipped), &format!("of {} planned", grouped(run.periods()))),
        figure("thread", run.grade().to_string(), "what the kernel granted; no verdict"),
        figure("CPU", format!("{:.1} %", run.cpu_percent), "of one CPU, by this thread"),
        figure("steal", duration(run.usage.steal_total_ns() as f64), "taken by the hypervisor from all CPUs"),
    ]
}

fn summary_table(run: &Measurement) -> Table {
    let columns = ["min", "mean", "σ", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let columns = columns.map(|label| Column::number(label, "ns"));
    let table = Table::new(std::iter::once(Column::text("")).chain(columns));
    let row = |name: &str, s: &Summary| {
        let times = [s.min, s.p50, s.p90, s.p99, s.p999, s.p9999, s.max].map(|ns| ns as f64);
        let [min, rest @ ..] = times;
        let shown = |value: f64| if s.count == 0 { f64::NAN } else { value };
        let numbers = [min, s.mean, s.sigma].into_iter().chain(rest).map(|value| Cell::from(shown(value)));
        std::iter::once(Cell::from(name)).chain(numbers).collect::<Vec<_>>()
    };
    table
        .row(row("wake latency", &run.wake_latency_ns))
        .row(row("start delay", &run.start_delay_ns))
        .row(row("period", &run.period_ns))
        .row(row("execution", &run.execution_ns))
        .row(row("response", &run.response_ns))
}

/// Runs are judged by figures of all planned periods: those of the ticks that ran would favour a run that lost some.
/// Deadline runs keep their own column of delays empty: theirs mean something else.
fn comparison(runs: &[Measurement]) -> Comparison {
    let delay = |f: fn(&Measurement) -> f64| {
        let value =
            move |run: &Measurement| if run.plan.policy == Policy::Deadline { f64::NAN } else { f(run) };
        runs.iter().map(value).collect::<Vec<_>>()
    };
    let of = |f: fn(&Measurement) -> f64| runs.iter().map(f).collect::<Vec<_>>();
    let largest = if of_like_length(runs) { Better::Lower } else { Better::Neither };
    Comparison::new(runs.iter().map(|run| run.name.clone()))
        .row("start delay mean", "ns", Better::Lower, delay(|run| run.start_delay_ns.mean))
        .row("start delay σ", "ns", Better::Lower, delay(|run| run.start_delay_ns.sigma))
        .row("start delay p50", "ns", Better::Lower, delay(|run| run.start_delay_ns.p50 as f64))
        .row("start delay p99", "ns", Better::Lower, delay(|run| p99(&run.start_delay_ns)))
        .row("start delay p99.9", "ns", Better::Lower, delay(|run| p999(&run.start_delay_ns)))
        .row("start delay max", "ns", largest, delay(|run| run.start_delay_ns.max as f64))
        .row(
            "wake latency p50, ticks that ran",
            "ns",
            Better::Neither,
            delay(|run| run.wake_latency_ns.p50 as f64),
        )
        .row(
            "wake latency p99, ticks that ran",
            "ns",
            Better::Neither,
            delay(|run| p99(&run.wake_latency_ns)),
        )
        .row("period σ", "ns", Better::Lower, of(|run| run.period_ns.sigma))
        .row("execution mean", "ns", Better::Lower, of(|run| run.execution_ns.mean))
        .row("execution p99", "ns", Better::Lower, of(|run| p99(&run.execution_ns)))
        .row("response p99, ticks that ran", "ns", Better::Neither, of(|run| p99(&run.response_ns)))
        .row("response max", "ns", largest, of(|run| run.response_ns.max as f64))
        .row(
            "lost periods, of planned",
            "%",
            Better::Lower,
            of(|run| share(run.counts.skipped, run.periods())),
        )
        .row("planned ticks after it stopped", "%", Better::Lower, of(never_ran))
        .row("late ticks, of those that ran", "%", Better::Lower, of(|run| late_share(run, run.causes.late)))
        .row("late: unaccounted", "%", Better::Neither, of(|run| late_share(run, run.causes.unaccounted)))
        .row("late: preempted", "%", Better::Neither, of(|run| late_share(run, run.causes.preempted)))
        .row("CPU of the thread", "%", Better::Lower, of(|run| run.cpu_percent))
        .row("steal", "ns", Better::Neither, of(|run| run.usage.steal_total_ns() as f64))
}

/// Runs of different length differ in counts and largest values for that alone.
fn of_like_length(runs: &[Measurement]) -> bool {
    alike(runs.iter().map(Measurement::periods))
}

fn lengths(runs: &[Measurement]) -> Option<String> {
    let message: Vec<String> = runs.iter().map(|run| duration(run.duration_ns as f64)).collect();
    (!of_like_length(runs)).then(|| {
        format!(
            "The runs are of different length ({}): counts are compared as shares, percentiles that few ticks do not have \
             are left out, and the largest values are not judged.",
            message.join(", ")
        )
    })
}

fn p99(s: &Summary) -> f64 {
    if has_percentile(s.count, 0.99) { s.p99 as f64 } else { f64::NAN }
}

fn p999(s: &Summary) -> f64 {
    if has_percentile(s.count, 0.999) { s.p999 as f64 } else { f64::NAN }
}

fn late_share(run: &Measurement, late: u64) -> f64 {
    share(late, run.counts.ticks)
}

/// Of the plan, what a measurement that stopped itself left out.
fn never_ran(run: &Measurement) -> f64 {
    let left = run.plan.ticks.saturating_sub(run.periods());
    if run.stopped() { share(left, run.plan.ticks) } else { 0.0 }
}

fn distribution(buckets: &Buckets) -> Distribution {
    Distribution::from_counts(buckets.iter().map(|&(value, count)| (value as f64, count)))
}

fn distributions(runs: &[Measurement], bin_ns: Option<i64>) -> Section {
    let wakes: Vec<Distribution> =
        runs.iter().map(|run| distribution(&run.histograms.wake_latency)).collect();
    let delays: Vec<Distribution> =
        runs.iter().map(|run| distribution(&run.histograms.start_delay)).collect();
    let periods: Vec<Distribution> = runs.iter().map(|run| distribution(&run.histograms.period)).collect();
    let curve = Plot::percentiles("Start delay, all planned periods", Axis::new("delay", "ns").log());
    let curve = runs.iter().zip(&delays).fold(curve, |plot, (run, delay)| plot.curve(&run.name, delay));
    let section = Section::new("Distribution").with(curve);
    section
        .with(histogram("Wake latency", "latency", runs, &wakes, bin_ns))
        .with(histogram("Period", "period", runs, &periods, bin_ns))
}

fn histogram(
    title: &str,
    axis: &str,
    runs: &[Measurement],
    values: &[Distribution],
    bin_ns: Option<i64>,
) -> Plot {
    let widest = values.iter().map(Distribution::bin_width).fold(0.0, f64::max);
    let width = bin_ns.map_or(widest, |ns| ns as f64);
    let plot = Plot::histogram(title, Axis::new(axis, "ns")).note(format!("Bins of {}.", duration(width)));
    runs.iter().zip(values).fold(plot, |plot, (run, values)| plot.bins(&run.name, values, width))
}

fn over_time(runs: &[Measurement]) -> Section {
    let axis = |label: &str| Axis::new(label, "ns").log();
    let wake = Plot::over_time("Wake latency", axis("latency"));
    let wake = runs.iter().fold(wake, |plot, run| plot.line(&run.name, &run.wake_trace));
    let execution = Plot::over_time("Execution time", axis("time"));
    let execution =
        runs.iter().fold(execution, |plot, run| plot.stroke(&run.name, &run.execution_trace, Stroke::Solid));
    Section::new("Over time")
        .text("Thinned to what a screen can show, keeping every peak.")
        .with(wake)
        .with(execution)
}

fn late(runs: &[Measurement]) -> Option<Section> {
    let columns = std::iter::once(Column::text("run")).chain(LateReport::columns());
    let row = |run: &Measurement, late: &LateReport| {
        std::iter::once(Cell::from(run.name.as_str())).chain(late.cells())
    };
    let mut all: Vec<_> = runs.iter().flat_map(|run| run.late.iter().map(move |late| (run, late))).collect();
    all.sort_by_key(|(_, late)| std::cmp::Reverse(late.response_ns));
    let table =
        all.iter().take(MOST_LATE).fold(Table::new(columns), |table, (run, late)| table.row(row(run, late)));
    let text = "The late ticks by cause, and what was different about the worst.";
    let section = (!table.is_empty()).then(|| Section::new("Late ticks").text(text))?;
    let section = blocks(&all_groups(runs), table).into_iter().fold(section, Section::with);
    let traced = runs.iter().filter(|run| !run.kernel_events.is_empty());
    Some(traced.fold(section, |section, run| {
        let title = format!("What the kernel recorded before the first late tick of {}", run.name);
        section.with(Block::Listing(title, run.kernel_events.join("\n")))
    }))
}

/// The late ticks of all runs by cause.
fn all_groups(runs: &[Measurement]) -> Vec<LateGroup> {
    let groups: Vec<_> = runs.iter().flat_map(Measurement::late_groups).collect();
    merged(&groups)
}

/// Late ticks the page lists.
const MOST_LATE: usize = 50;

fn machine(runs: &[Measurement]) -> Section {
    let section = Section::new("Machine and set-up");
    let section = runs.iter().fold(section, |section, run| section.with_some(grants(run)));
    section.with_some(runs.first().map(passport))
}

fn grants(run: &Measurement) -> Option<Table> {
    let setup = run.setup.as_ref()?;
    let columns = ["setting", "requested", "granted", "what to do"].map(Column::text);
    let rows = setup.settings.iter().map(|setting| {
        let remedy = setting.remedy.as_deref().unwrap_or_default();
        [setting.name.as_str(), &setting.requested, &setting.granted, remedy].map(Cell::from)
    });
    Some(rows.fold(Table::new(columns).title(format!("{}: {}", run.name, setup.grade)), Table::row))
}

fn passport(run: &Measurement) -> KeyValues {
    let passport = &run.passport;
    let listed = |list: &str| if list.is_empty() { "none".to_owned() } else { list.to_owned() };
    KeyValues::new("Machine")
        .pair("kernel", &passport.kernel)
        .judged(
            "preemption",
            &passport.preemption,
            if passport.realtime_kernel { Level::Good } else { Level::Note },
        )
        .pair("CPU", &passport.cpu)
        .pair("CPUs online", &passport.cpus_online)
        .pair("isolated", listed(&passport.cpus_isolated))
        .pair("without tick", listed(&passport.cpus_tickless))
        .pair("governor", listed(&passport.governors.join(", ")))
        .pair("clock source", &passport.clocksource)
        .pair("hypervisor", passport.hypervisor.as_deref().unwrap_or("none"))
        .pair("memory", format!("{} MB", passport.memory_kb / 1024))
        .pair("real-time share", format!("{:.0} %", passport.rt_share_percent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitter::{Experiment, Plan};
    use khz_rt::{Counts, Summary};

    /// So many ticks that ran and lost periods, late ticks, and these start delays.
    fn run(ticks: u64, missed: u64, late: u64, p999: i64, max: i64) -> Measurement {
        let mut run = Experiment::new(Plan::default(), false).unwrap().finish().0;
        run.duration_ns = (ticks + missed) as i64 * 1_000_000;
        run.counts = Counts { ticks, skipped: missed, ..Counts::default() };
        run.causes.late = late;
        run.start_delay_ns = Summary { count: ticks + missed, p999, max, ..Summary::default() };
        run
    }

    fn row<'a>(page: &'a str, label: &str) -> &'a str {
        let rest = page.split(label).nth(1).unwrap_or_else(|| panic!("no row {label}"));
        rest.split("</tr>").next().unwrap_or("")
    }

    #[test]
    fn a_short_run_does_not_win_by_being_short() {
        // Of three seconds 4.5 % were lost, of 36 ms 17 %: fewer, and of no p99.9.
        let long = run(3_000, 143, 15, 20_000_000, 40_000_000);
        let short = run(30, 6, 1, 7_000_000, 7_000_000);
        let page = page(&[long, short], None).to_string();
        assert!(row(&page, "lost periods, of planned<").contains("class=\"bad\""), "{page}");
        assert!(row(&page, "late ticks, of those that ran<").contains("class=\"bad\""));
        assert!(row(&page, "start delay p99.9<").contains("–"));
        assert!(!row(&page, "start delay max<").contains("class=\"good\""));
        assert!(page.contains("different length (3.14 s, 36 ms)"), "{page}");
    }

    #[test]
    fn runs_of_like_length_are_judged_by_their_largest_values() {
        let page =
            page(&[run(3_000, 0, 0, 1, 40_000_000), run(3_000, 0, 0, 1, 10_000_000)], None).to_string();
        assert!(row(&page, "start delay max<").contains("class=\"good\""));
        assert!(!page.contains("different length"));
    }
}
