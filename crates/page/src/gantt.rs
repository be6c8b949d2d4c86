//! Bars on a common time axis: the phases of a tick, the frames of a bus cycle.
use super::markup::{Text, duration, duration_unit, number, round_steps};
use std::fmt;

/// Rows of bars over one span of time, drawn without a script.
#[derive(Debug, Clone)]
pub struct Gantt {
    title: String,
    note: String,
    rows: Vec<Row>,
    marks: Vec<(f64, String)>,
    palette: Vec<String>,
    most_ns: f64,
}

#[derive(Debug, Clone)]
struct Row {
    label: String,
    bars: Vec<Bar>,
}

/// One bar: what it is, from when to when, in nanoseconds from the left edge.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its kind, which gives the colour and stands in the legend.
    pub kind: String,
    /// What a reader sees who points at it; empty for the kind.
    pub detail: String,
    /// Its beginning.
    pub start_ns: f64,
    /// Its end.
    pub end_ns: f64,
}

impl Bar {
    /// A bar of this kind.
    pub fn new(kind: impl Into<String>, start_ns: f64, end_ns: f64) -> Self {
        Self { kind: kind.into(), detail: String::new(), start_ns, end_ns }
    }

    /// The same bar with a detail.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    fn is_drawn(&self) -> bool {
        self.start_ns.is_finite() && self.end_ns.is_finite() && self.end_ns > self.start_ns
    }
}

impl Row {
    fn end_ns(&self) -> f64 {
        self.bars.iter().map(|bar| bar.end_ns).fold(0.0, f64::max)
    }
}

impl Gantt {
    /// A chart without rows.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            note: String::new(),
            rows: Vec::new(),
            marks: Vec::new(),
            palette: Vec::new(),
            most_ns: f64::INFINITY,
        }
    }

    /// A sentence under the title.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Kinds in the order of the colours, as [`Plot::palette`](super::Plot::palette).
    pub fn palette(mut self, kinds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.palette = kinds.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a row of bars.
    pub fn row(mut self, label: impl Into<String>, bars: impl IntoIterator<Item = Bar>) -> Self {
        self.rows.push(Row { label: label.into(), bars: bars.into_iter().filter(Bar::is_drawn).collect() });
        self
    }

    /// Adds a row of bars that follow each other without a pause, the first at zero.
    pub fn sequence(self, label: impl Into<String>, parts: impl IntoIterator<Item = (String, f64)>) -> Self {
        let mut at = 0.0;
        let bars: Vec<Bar> = parts
            .into_iter()
            .filter(|(_, ns)| ns.is_finite() && *ns > 0.0)
            .map(|(kind, ns)| {
                let start = at;
                at += ns;
                Bar::new(kind, start, at)
            })
            .collect();
        self.row(label, bars)
    }

    /// Marks a moment across all rows (the deadline).
    pub fn mark(mut self, at_ns: f64, label: impl Into<String>) -> Self {
        if at_ns.is_finite() && at_ns >= 0.0 {
            self.marks.push((at_ns, label.into()));
        }
        self
    }

    /// The axis goes no further than this: bars beyond it are cut, and say where they end.
    pub fn cut_at(mut self, most_ns: f64) -> Self {
        self.most_ns = most_ns;
        self
    }

    fn span_ns(&self) -> f64 {
        let ends = self.rows.iter().map(Row::end_ns);
        let span = ends.chain(self.marks.iter().map(|m| m.0 * 1.02)).fold(1.0, f64::max);
        span.min(self.most_ns)
    }

    /// The kinds in order of their first appearance.
    fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = Vec::new();
        for bar in self.rows.iter().flat_map(|r| &r.bars) {
            if !kinds.contains(&bar.kind.as_str()) {
                kinds.push(&bar.kind);
            }
        }
        kinds
    }

    /// The colour of a kind: its place in the palette, or after that in the order of appearance.
    fn colour(&self, kinds: &[&str], kind: &str) -> usize {
        let given = self.palette.iter().position(|named| named == kind);
        let others = || kinds.iter().filter(|kind| !self.palette.iter().any(|named| named == *kind));
        given.unwrap_or_else(|| self.palette.len() + others().position(|other| *other == kind).unwrap_or(0))
    }

    pub(super) fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (span, kinds) = (self.span_ns(), self.kinds());
        write!(out, "<figure class=\"gantt\"><figcaption><b>{}</b>", Text(&self.title))?;
        if !self.note.is_empty() {
            write!(out, "<span>{}</span>", Text(&self.note))?;
        }
        write!(out, "</figcaption><div class=\"rows\">")?;
        for row in &self.rows {
            write!(out, "<div class=\"label\">{}</div><div class=\"track\">", Text(&row.label))?;
            for bar in row.bars.iter().filter(|bar| bar.start_ns < span) {
                bar.html(out, span, self.colour(&kinds, &bar.kind))?;
            }
            if row.end_ns() > span {
                write!(
                    out,
                    "<em class=\"cut\">ends at {}</em><i class=\"beyond\"></i>",
                    duration(row.end_ns())
                )?;
            }
            for (at, _) in &self.marks {
                write!(out, "<i class=\"mark\" style=\"left:{:.3}%\"></i>", at / span * 100.0)?;
            }
            write!(out, "</div>")?;
        }
        self.axis(out, span)?;
        write!(out, "</div><ul class=\"key\">")?;
        for kind in &kinds {
            let colour = self.colour(&kinds, kind) % super::COLOURS;
            write!(out, "<li><i class=\"c{colour}\"></i>{}</li>", Text(kind))?;
        }
        for (at, label) in &self.marks {
            write!(out, "<li><i class=\"mark\"></i>{} ({})</li>", Text(label), duration(*at))?;
        }
        writeln!(out, "</ul></figure>")
    }

    fn axis(&self, out: &mut dyn fmt::Write, span: f64) -> fmt::Result {
        let (scale, unit) = duration_unit(span);
        write!(out, "<div class=\"label\">{unit}</div><div class=\"axis\">")?;
        for step in round_steps(span, 8) {
            let left = step / span * 100.0;
            write!(out, "<span style=\"left:{left:.3}%\">{}</span>", number(step / scale))?;
        }
        write!(out, "</div>")
    }
}

impl Bar {
    fn html(&self, out: &mut dyn fmt::Write, span: f64, colour: usize) -> fmt::Result {
        let (left, right) = (self.start_ns.clamp(0.0, span), self.end_ns.clamp(0.0, span));
        let detail = if self.detail.is_empty() { &self.kind } else { &self.detail };
        write!(
            out,
            "<b class=\"c{}\" style=\"left:{:.3}%;width:{:.3}%\" title=\"{}: {} (from {} to {})\"></b>",
            colour % super::COLOURS,
            left / span * 100.0,
            (right - left) / span * 100.0,
            Text(detail),
            duration(self.end_ns - self.start_ns),
            duration(self.start_ns),
            duration(self.end_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_follows_on_and_skips_nothing_but_nothing() {
        let parts = [("a", 10.0), ("b", f64::NAN), ("c", 0.0), ("d", 5.0)].map(|(k, v)| (k.to_string(), v));
        let gantt = Gantt::new("t").sequence("r", parts);
        assert_eq!(gantt.rows[0].bars, [Bar::new("a", 0.0, 10.0), Bar::new("d", 10.0, 15.0)]);
    }

    #[test]
    fn one_long_row_does_not_squeeze_the_others() {
        let parts = |ns| [("bus".to_owned(), ns), ("control".to_owned(), 10.0)];
        let gantt =
            Gantt::new("t").sequence("usual", parts(700.0)).sequence("longest", parts(88e6)).cut_at(1250.0);
        assert_eq!(gantt.span_ns(), 1250.0);
        let mut text = String::new();
        gantt.html(&mut text).unwrap();
        assert_eq!(text.matches("class=\"beyond\"").count(), 1);
        assert!(text.contains("ends at 88 ms"), "{text}");
    }

    #[test]
    fn an_empty_chart_has_a_span() {
        assert_eq!(Gantt::new("t").span_ns(), 1.0);
        let mut text = String::new();
        assert!(Gantt::new("<t>").row("<r>", []).mark(f64::NAN, "m").html(&mut text).is_ok());
        assert!(!text.contains("<t>") && !text.contains("<r>"));
    }
}
