//! Plots the page's script draws: lines, percentile curves, histograms and stacks.
//!
//! Plots that share a group (all plots over time do) zoom and point together.
use super::markup::{Text, base64_f32, script_json};
use super::{Distribution, Level, StackedTrace, Trace};
use serde::Serialize;
use std::fmt;

/// What an axis shows, in which unit.
#[derive(Debug, Clone)]
pub struct Axis {
    label: String,
    unit: String,
    log: bool,
}

impl Axis {
    /// An axis. The unit is that of the values; for `ns` and `s` the reader sees ns, µs, ms or s as it suits.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), log: false }
    }

    /// The same axis, logarithmic at first sight (the reader can switch).
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }
}

/// How the points of a line are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stroke {
    /// A solid line.
    Solid,
    /// A dashed line: what was commanded, predicted or allowed.
    Dashed,
    /// Single points.
    Points,
}

/// A plot of the page: built by one of its constructors, completed by its methods.
#[derive(Debug, Clone)]
pub struct Plot {
    kind: PlotKind,
    title: String,
    note: String,
    group: String,
    x: Axis,
    y: Axis,
    lines: Vec<Line>,
    markers: Vec<Marker>,
    limits: Vec<Limit>,
    palette: Vec<String>,
    compact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum PlotKind {
    Lines,
    Percentiles,
    Bars,
    Stack,
}

#[derive(Debug, Clone)]
struct Line {
    name: String,
    stroke: Stroke,
    points: Vec<(f64, f32)>,
}

#[derive(Debug, Clone, Serialize)]
struct Marker {
    x: f64,
    label: String,
    level: Level,
}

#[derive(Debug, Clone, Serialize)]
struct Limit {
    y: f64,
    label: String,
}

/// Points beyond which a line is thinned for the page: more than a wide screen has columns, twice over.
const MOST_POINTS: usize = 12_000;
/// Buckets a line has after thinning; each shows two points.
const THIN_BUCKETS: usize = 2_500;
/// Buckets of a line in a compact plot, which is a few hundred pixels wide.
const COMPACT_BUCKETS: usize = 600;
/// Buckets of a stack: every one of its parts is as long.
const STACK_BUCKETS: usize = 1_500;
/// Bins a histogram may have before the rest goes into the last one.
const MOST_BINS: usize = 400;

impl Plot {
    /// Lines over time in seconds, zoomed together with every other plot over time.
    pub fn over_time(title: impl Into<String>, y: Axis) -> Self {
        Self { group: "time".into(), ..Self::new(PlotKind::Lines, title, Axis::new("time", "s"), y) }
    }

    /// Lines over anything else.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(PlotKind::Lines, title, x, y)
    }

    /// Percentile curves: the tail is stretched, so that p99.9 has as much room as p90.
    pub fn percentiles(title: impl Into<String>, y: Axis) -> Self {
        Self::new(PlotKind::Percentiles, title, Axis::new("percentile", "%"), y)
    }

    /// How often each value came.
    pub fn histogram(title: impl Into<String>, x: Axis) -> Self {
        Self::new(PlotKind::Bars, title, x, Axis::new("count", "").log())
    }

    /// Parts of a whole over time in seconds, stacked.
    pub fn stack(title: impl Into<String>, y: Axis, parts: &StackedTrace) -> Self {
        let mut plot = Self { kind: PlotKind::Stack, ..Self::over_time(title, y) };
        let parts = parts.thinned(STACK_BUCKETS);
        let rows = parts.rows();
        for (at, name) in parts.names().iter().enumerate() {
            let points = rows.iter().map(|(x, row)| (*x, row[at])).collect();
            plot.lines.push(Line { name: name.clone(), stroke: Stroke::Solid, points });
        }
        plot
    }

    fn new(kind: PlotKind, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            kind,
            title: title.into(),
            note: String::new(),
            group: String::new(),
            x,
            y,
            lines: Vec::new(),
            markers: Vec::new(),
            limits: Vec::new(),
            palette: Vec::new(),
            compact: false,
        }
    }

    /// A sentence under the title.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Plots of the same group share their zoom.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Names in the order of the colours: the same name has the same colour in every plot and chart that is given this list.
    pub fn palette(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.palette = names.into_iter().map(Into::into).collect();
        self
    }

    /// Half as high: for plots in a grid.
    pub fn compact(mut self) -> Self {
        self.compact = true;
        self
    }

    /// Adds a solid line.
    pub fn line(self, name: impl Into<String>, trace: &Trace) -> Self {
        self.stroke(name, trace, Stroke::Solid)
    }

    /// Adds a line drawn in the given way.
    pub fn stroke(mut self, name: impl Into<String>, trace: &Trace, stroke: Stroke) -> Self {
        let (most, buckets) =
            if self.compact { (2 * COMPACT_BUCKETS, COMPACT_BUCKETS) } else { (MOST_POINTS, THIN_BUCKETS) };
        let mut points = trace.points();
        if points.len() > most {
            points = trace.thinned(buckets).points();
        }
        self.lines.push(Line { name: name.into(), stroke, points });
        self
    }

    /// Adds the percentile curve of a run.
    pub fn curve(mut self, name: impl Into<String>, values: &Distribution) -> Self {
        let points = values.curve().into_iter().map(|(x, y)| (x, y as f32)).collect();
        self.lines.push(Line { name: name.into(), stroke: Stroke::Solid, points });
        self
    }

    /// Adds a histogram of bins `bin_width` wide.
    pub fn bins(mut self, name: impl Into<String>, values: &Distribution, bin_width: f64) -> Self {
        let bins = values.bins(bin_width, MOST_BINS);
        if bins.last().zip(values.max()).is_some_and(|(last, max)| max >= last.0 + bin_width) {
            self.note = "the last bin holds all that lies beyond".into();
        }
        let end = bins.last().map(|b| (b.0 + bin_width, 0.0));
        let points = bins.iter().map(|(x, n)| (*x, *n as f32)).chain(end).collect();
        self.lines.push(Line { name: name.into(), stroke: Stroke::Solid, points });
        self
    }

    /// Marks an event with a vertical line.
    pub fn marker(mut self, x: f64, label: impl Into<String>, level: Level) -> Self {
        if x.is_finite() {
            self.markers.push(Marker { x, label: label.into(), level });
        }
        self
    }

    /// Marks a bound with a horizontal line.
    pub fn limit(mut self, y: f64, label: impl Into<String>) -> Self {
        if y.is_finite() {
            self.limits.push(Limit { y, label: label.into() });
        }
        self
    }

    fn colour(&self, line: &str) -> Option<usize> {
        self.palette.iter().position(|named| named == line)
    }

    pub(super) fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let class = if self.compact { "plot compact" } else { "plot" };
        let title = Text(&self.title);
        write!(out, "<figure class=\"{class}\"><figcaption><b>{title}</b>")?;
        if !self.note.is_empty() {
            write!(out, "<span>{}</span>", Text(&self.note))?;
        }
        write!(out, "</figcaption>")?;
        write!(out, "<script type=\"application/json\">{}</script>", script_json(&Drawing::of(self)))?;
        writeln!(out, "</figure>")
    }
}

/// What the script is given.
#[derive(Serialize)]
struct Drawing<'a> {
    kind: PlotKind,
    title: &'a str,
    group: &'a str,
    x: Scale<'a>,
    y: Scale<'a>,
    lines: Vec<Points<'a>>,
    markers: &'a [Marker],
    limits: &'a [Limit],
}

#[derive(Serialize)]
struct Scale<'a> {
    label: &'a str,
    unit: &'a str,
    log: bool,
}

/// The points of a line: `x` is left out when the points lie `step` apart.
#[derive(Serialize)]
pub(super) struct Points<'a> {
    name: &'a str,
    /// Its place in the palette; without one, the order of the lines gives the colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    colour: Option<usize>,
    stroke: Stroke,
    start: f64,
    step: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    x: String,
    y: String,
}

impl<'a> Drawing<'a> {
    fn of(plot: &'a Plot) -> Self {
        Self {
            kind: plot.kind,
            title: &plot.title,
            group: &plot.group,
            x: Scale::of(&plot.x),
            y: Scale::of(&plot.y),
            lines: plot.lines.iter().map(|line| Points::of(line, plot.colour(&line.name))).collect(),
            markers: &plot.markers,
            limits: &plot.limits,
        }
    }
}

impl<'a> Scale<'a> {
    fn of(axis: &'a Axis) -> Self {
        Self { label: &axis.label, unit: &axis.unit, log: axis.log }
    }
}

impl<'a> Points<'a> {
    fn of(line: &'a Line, colour: Option<usize>) -> Self {
        Self::new(&line.name, line.stroke, &line.points, colour)
    }

    pub(super) fn new(name: &'a str, stroke: Stroke, points: &[(f64, f32)], colour: Option<usize>) -> Self {
        let start = points.first().map_or(0.0, |p| p.0);
        let step = even_step(points);
        let y: Vec<f32> = points.iter().map(|p| p.1).collect();
        let x: Vec<f32> = match step {
            Some(_) => Vec::new(),
            None => points.iter().map(|p| (p.0 - start) as f32).collect(),
        };
        Self { name, colour, stroke, start, step: step.unwrap_or(0.0), x: base64_f32(&x), y: base64_f32(&y) }
    }
}

/// The distance between neighbours, when it is the same for all to a thousandth.
fn even_step(points: &[(f64, f32)]) -> Option<f64> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    if points.len() < 2 {
        return None;
    }
    let step = (last - first) / (points.len() - 1) as f64;
    let even = |(i, p): (usize, &(f64, f32))| (p.0 - (first + i as f64 * step)).abs() <= step * 1e-3;
    (step > 0.0 && points.iter().enumerate().all(even)).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(plot: &Plot) -> String {
        let mut text = String::new();
        plot.html(&mut text).unwrap_or_default();
        text
    }

    #[test]
    fn even_points_need_no_x() {
        let even = [(1.0, 0.0), (1.5, 0.0), (2.0, 0.0)];
        assert_eq!(even_step(&even), Some(0.5));
        assert_eq!(even_step(&[(1.0, 0.0), (1.1, 0.0), (2.0, 0.0)]), None);
        assert_eq!(even_step(&even[..1]), None);
        assert_eq!(even_step(&[]), None);
        assert_eq!(even_step(&[(1.0, 0.0), (1.0, 0.0)]), None);
    }

    #[test]
    fn a_hostile_name_stays_data() {
        let plot = Plot::over_time("<b>", Axis::new("y", "</script><script>alert(1)//"))
            .line("</script><img src=x onerror=alert(1)>", &Trace::from_uniform(0.0, 1.0, [1.0]))
            .marker(0.0, "</script>", Level::Bad);
        let text = html(&plot);
        assert_eq!(text.matches("</script>").count(), 1);
        assert!(!text.contains("<img") && !text.contains("<b><b>"));
    }

    #[test]
    fn what_is_not_finite_marks_nothing() {
        let plot =
            Plot::over_time("p", Axis::new("y", "")).marker(f64::NAN, "n", Level::Note).limit(f64::NAN, "l");
        assert!(html(&plot).contains("\"markers\":[],\"limits\":[]"));
    }

    #[test]
    fn a_line_of_many_points_is_thinned() {
        let trace = Trace::from_uniform(0.0, 1.0, (0..1_000_000).map(f64::from));
        let text = html(&Plot::over_time("p", Axis::new("y", "")).line("a", &trace));
        assert!(text.len() < 200_000, "{}", text.len());
    }
}
