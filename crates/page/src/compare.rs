//! Runs side by side: each figure of each run, and how it stands to the first.
use super::markup::{Text, quantity};
use std::fmt;

/// Figures of several runs in columns; every run is compared with the first.
#[derive(Debug, Clone)]
pub struct Comparison {
    runs: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone)]
struct Row {
    label: String,
    unit: String,
    better: Better,
    values: Vec<f64>,
}

/// Which way a figure gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
    /// Neither.
    Neither,
}

/// Ratios nearer to one than this are called equal: repeated runs differ by as much.
const SAME: f64 = 0.05;

/// Whether so many values have this percentile: at least one lies beyond it. Fewer have none that could be compared.
pub fn has_percentile(count: u64, q: f64) -> bool {
    // A little less, so that no rounding takes the last one away.
    count as f64 * (1.0 - q) >= 1.0 - 1e-6
}

/// Whether samples of these sizes can be compared by their largest values: the largest of many is larger than that of few.
pub fn alike(counts: impl IntoIterator<Item = u64>) -> bool {
    let counts: Vec<f64> = counts.into_iter().map(|count| count as f64).collect();
    let first = counts.first().copied().unwrap_or(0.0);
    counts.iter().all(|count| (count - first).abs() <= SAME * first)
}

/// A share in percent; NaN of nothing.
pub fn share(count: u64, of: u64) -> f64 {
    100.0 * count as f64 / of as f64
}

impl Comparison {
    /// A comparison of these runs, the first of which is the yardstick.
    pub fn new(runs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { runs: runs.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a figure with its value in each run; NaN where a run has none.
    pub fn row(
        mut self,
        label: impl Into<String>,
        unit: impl Into<String>,
        better: Better,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        let values = values.into_iter().take(self.runs.len()).collect();
        self.rows.push(Row { label: label.into(), unit: unit.into(), better, values });
        self
    }

    pub(super) fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "<div class=\"table compare\"><table><thead><tr><th></th>")?;
        for (at, run) in self.runs.iter().enumerate() {
            let colour = at % super::COLOURS;
            write!(out, "<th scope=\"col\" class=\"n\"><i class=\"c{colour}\"></i>{}</th>", Text(run))?;
        }
        write!(out, "</tr></thead><tbody>")?;
        for row in &self.rows {
            row.html(out)?;
        }
        writeln!(out, "</tbody></table></div>")
    }
}

impl Row {
    fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let most = self.values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let first = self.values.first().copied().unwrap_or(f64::NAN);
        write!(out, "<tr><th scope=\"row\">{}</th>", Text(&self.label))?;
        for (at, value) in self.values.iter().enumerate() {
            write!(out, "<td class=\"n\">{}", Text(&quantity(*value, &self.unit)))?;
            if at > 0 {
                self.ratio(out, *value, first)?;
            }
            let width = if most > 0.0 && *value > 0.0 { value / most * 100.0 } else { 0.0 };
            let colour = at % super::COLOURS;
            write!(
                out,
                "<span class=\"bar\"><b class=\"c{colour}\" style=\"width:{width:.1}%\"></b></span></td>"
            )?;
        }
        write!(out, "</tr>")
    }

    fn ratio(&self, out: &mut dyn fmt::Write, value: f64, first: f64) -> fmt::Result {
        let ratio = value / first;
        if !ratio.is_finite() || first <= 0.0 {
            return Ok(());
        }
        let class = match self.better {
            _ if (ratio - 1.0).abs() < SAME => "same",
            Better::Neither => "same",
            Better::Lower if ratio < 1.0 => "good",
            Better::Higher if ratio > 1.0 => "good",
            _ => "bad",
        };
        write!(out, " <small class=\"{class}\">× {ratio:.2}</small>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_a_value_beyond_it() {
        assert_eq!([99, 100].map(|count| has_percentile(count, 0.99)), [false, true]);
        assert_eq!([36, 999, 1_000].map(|count| has_percentile(count, 0.999)), [false, false, true]);
        assert!(alike([1_000, 1_010]) && !alike([3_143, 36]) && alike([]));
    }

    #[test]
    fn runs_are_judged_against_the_first() {
        let comparison = Comparison::new(["<a>", "b", "c"])
            .row("p99", "ns", Better::Lower, [100.0, 50.0, 300.0])
            .row("rate", "Hz", Better::Higher, [1000.0, 1001.0, f64::NAN])
            .row("nothing", "", Better::Lower, [0.0, 1.0]);
        let mut text = String::new();
        assert!(comparison.html(&mut text).is_ok());
        assert!(text.contains("class=\"good\">× 0.50") && text.contains("class=\"bad\">× 3.00"));
        assert!(text.contains("class=\"same\">× 1.00"));
        assert!(!text.contains("<a>") && !text.contains("NaN") && !text.contains("inf"));
    }
}
