//! Percentile columns per device: one row each, all on one axis.
use super::markup::{Text, number, quantity, round_steps};
use super::{Distribution, duration_unit};
use std::fmt;

/// One row per device: its median as a bar, p90 and p99 behind it, its largest value as a tick.
#[derive(Debug, Clone)]
pub struct Ranges {
    title: String,
    note: String,
    unit: String,
    rows: Vec<Row>,
}

#[derive(Debug, Clone)]
struct Row {
    label: String,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Ranges {
    /// A chart without rows; values are in `unit`.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), note: String::new(), unit: unit.into(), rows: Vec::new() }
    }

    /// A sentence under the title.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Adds a device by its distribution.
    pub fn device(self, label: impl Into<String>, values: &Distribution) -> Self {
        let at = |q| values.quantile(q).unwrap_or(f64::NAN);
        self.row(label, [at(0.5), at(0.9), at(0.99), at(1.0)])
    }

    /// Adds a device by its p50, p90, p99 and largest value.
    pub fn row(mut self, label: impl Into<String>, [p50, p90, p99, max]: [f64; 4]) -> Self {
        self.rows.push(Row { label: label.into(), p50, p90, p99, max });
        self
    }

    /// The axis ends where the largest p99 does, or at the largest value if that is not far beyond.
    fn span(&self) -> f64 {
        let most = |f: fn(&Row) -> f64| self.rows.iter().map(f).filter(|v| v.is_finite()).fold(0.0, f64::max);
        let (p99, max) = (most(|r| r.p99), most(|r| r.max));
        let span = if max <= 3.0 * p99 { max } else { 1.5 * p99 };
        if span > 0.0 { span * 1.02 } else { 1.0 }
    }

    pub(super) fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let span = self.span();
        write!(out, "<figure class=\"gantt ranges\"><figcaption><b>{}</b>", Text(&self.title))?;
        if !self.note.is_empty() {
            write!(out, "<span>{}</span>", Text(&self.note))?;
        }
        write!(out, "</figcaption><div class=\"rows\">")?;
        for row in &self.rows {
            row.html(out, span, &self.unit)?;
        }
        self.axis(out, span)?;
        writeln!(
            out,
            "</div><ul class=\"key\"><li><i class=\"p50\"></i>p50</li><li><i class=\"p90\"></i>p90</li>\
             <li><i class=\"p99\"></i>p99</li><li><i class=\"max\"></i>largest (an arrow: beyond the axis)</li></ul></figure>"
        )
    }

    fn axis(&self, out: &mut dyn fmt::Write, span: f64) -> fmt::Result {
        let (scale, unit) = match self.unit.as_str() {
            "ns" => duration_unit(span),
            other => (1.0, other),
        };
        write!(out, "<div class=\"label\">{}</div><div class=\"axis\">", Text(unit))?;
        for step in round_steps(span, 8) {
            write!(out, "<span style=\"left:{:.3}%\">{}</span>", step / span * 100.0, number(step / scale))?;
        }
        write!(out, "</div>")
    }
}

impl Row {
    fn html(&self, out: &mut dyn fmt::Write, span: f64, unit: &str) -> fmt::Result {
        let percent = |v: f64| (v / span * 100.0).clamp(0.0, 100.0);
        let text = |v: f64| quantity(v, unit);
        write!(
            out,
            "<div class=\"label\">{}</div><div class=\"track\" title=\"p50 {}, p90 {}, p99 {}, largest {}\">",
            Text(&self.label),
            Text(&text(self.p50)),
            Text(&text(self.p90)),
            Text(&text(self.p99)),
            Text(&text(self.max)),
        )?;
        for (class, value) in [("p99", self.p99), ("p90", self.p90), ("p50", self.p50)] {
            if value.is_finite() {
                write!(out, "<b class=\"{class}\" style=\"left:0;width:{:.3}%\"></b>", percent(value))?;
            }
        }
        if self.max.is_finite() {
            let class = if self.max > span { "max beyond" } else { "max" };
            write!(out, "<i class=\"{class}\" style=\"left:{:.3}%\"></i>", percent(self.max))?;
        }
        write!(out, "</div>")
    }
}
