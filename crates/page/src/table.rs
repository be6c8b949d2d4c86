//! Tables, key and value lists, headline figures.
use super::Level;
use super::markup::{Text, quantity};
use std::fmt;

/// A table: columns first, then rows of cells in the same order.
#[derive(Debug, Clone, Default)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// What a column holds.
#[derive(Debug, Clone)]
pub struct Column {
    label: String,
    unit: Option<String>,
    worst: Option<Worst>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worst {
    High,
    Low,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A value in the unit of its column; shown as `–` when it is not finite.
    Number(f64),
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        Self::Number(value.unwrap_or(f64::NAN))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Column {
    /// A column of words.
    pub fn text(label: impl Into<String>) -> Self {
        Self { label: label.into(), unit: None, worst: None }
    }

    /// A column of numbers in this unit (`ns` for durations, empty for plain numbers).
    pub fn number(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: Some(unit.into()), worst: None }
    }

    /// Marks the largest value as the worst.
    pub fn worst_is_high(mut self) -> Self {
        self.worst = Some(Worst::High);
        self
    }

    /// Marks the smallest value as the worst.
    pub fn worst_is_low(mut self) -> Self {
        self.worst = Some(Worst::Low);
        self
    }

    fn class(&self) -> &'static str {
        if self.unit.is_some() { " class=\"n\"" } else { "" }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { title: String::new(), columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// A title above the table.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Adds a row. Cells that are not given stay empty, cells too many are left out.
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Self {
        self.rows.push(cells.into_iter().take(self.columns.len()).collect());
        self
    }

    /// True when no row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The worst value of a column, if the column has one and its values differ.
    fn worst(&self, at: usize) -> Option<f64> {
        let worst = self.columns[at].worst?;
        let values = || {
            self.rows.iter().filter_map(|r| match r.get(at) {
                Some(Cell::Number(v)) if v.is_finite() => Some(*v),
                _ => None,
            })
        };
        let (low, high) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        (low < high).then_some(if worst == Worst::High { high } else { low })
    }

    pub(super) fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "<div class=\"table\"><table>")?;
        if !self.title.is_empty() {
            write!(out, "<caption>{}</caption>", Text(&self.title))?;
        }
        write!(out, "<thead><tr>")?;
        for column in &self.columns {
            write!(out, "<th scope=\"col\"{}>{}</th>", column.class(), Text(&column.label))?;
        }
        write!(out, "</tr></thead><tbody>")?;
        let worst: Vec<Option<f64>> = (0..self.columns.len()).map(|at| self.worst(at)).collect();
        for row in &self.rows {
            write!(out, "<tr>")?;
            for (at, column) in self.columns.iter().enumerate() {
                cell(out, column, row.get(at), worst[at])?;
            }
            write!(out, "</tr>")?;
        }
        writeln!(out, "</tbody></table></div>")
    }
}

fn cell(out: &mut dyn fmt::Write, column: &Column, cell: Option<&Cell>, worst: Option<f64>) -> fmt::Result {
    match cell {
        None => write!(out, "<td></td>"),
        Some(Cell::Text(text)) => write!(out, "<td{}>{}</td>", column.class(), Text(text)),
        Some(Cell::Number(value)) => {
            let class = if worst == Some(*value) { "n worst" } else { "n" };
            let text = quantity(*value, column.unit.as_deref().unwrap_or_default());
            write!(out, "<td class=\"{class}\">{}</td>", Text(&text))
        }
    }
}

/// Keys and values: the machine's passport.
#[derive(Debug, Clone, Default)]
pub struct KeyValues {
    title: String,
    pairs: Vec<(String, String, Option<Level>)>,
}

impl KeyValues {
    /// An empty list.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), pairs: Vec::new() }
    }

    /// Adds a pair.
    pub fn pair(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.pairs.push((key.into(), value.into(), None));
        self
    }

    /// Adds a pair that is good, or not.
    pub fn judged(mut self, key: impl Into<String>, value: impl Into<String>, level: Level) -> Self {
        self.pairs.push((key.into(), value.into(), Some(level)));
        self
    }

    pub(super) fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "<div class=\"pairs\">")?;
        if !self.title.is_empty() {
            write!(out, "<h3>{}</h3>", Text(&self.title))?;
        }
        write!(out, "<dl>")?;
        for (key, value, level) in &self.pairs {
            write!(out, "<div><dt>{}</dt><dd>", Text(key))?;
            match level {
                Some(level) => write!(out, "<span class=\"{}\">{}</span>", level.class(), Text(value))?,
                None => write!(out, "{}", Text(value))?,
            }
            write!(out, "</dd></div>")?;
        }
        writeln!(out, "</dl></div>")
    }
}

/// One headline figure.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is.
    pub label: String,
    /// Its value with its unit, as text.
    pub value: String,
    /// What to compare it with, or nothing.
    #[serde(default)]
    pub note: String,
    /// Whether that is good.
    #[serde(default)]
    pub level: Level,
}

impl Figure {
    /// A figure without a judgement.
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), note: String::new(), level: Level::Note }
    }

    /// What to compare it with.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Whether it is good.
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }
}

pub(super) fn figures_html(figures: &[Figure], out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "<div class=\"figures\">")?;
    for figure in figures {
        let (level, label, value) = (figure.level.class(), Text(&figure.label), Text(&figure.value));
        write!(out, "<div class=\"{level}\"><span>{label}</span><strong>{value}</strong>")?;
        if !figure.note.is_empty() {
            write!(out, "<small>{}</small>", Text(&figure.note))?;
        }
        write!(out, "</div>")?;
    }
    writeln!(out, "</div>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(table: &Table) -> String {
        let mut text = String::new();
        table.html(&mut text).unwrap_or_default();
        text
    }

    #[test]
    fn the_worst_is_marked_once_values_differ() {
        let columns = [Column::text("d"), Column::number("p99", "ns").worst_is_high()];
        let table = Table::new(columns).row(["a".into(), 10.0.into()]).row(["b".into(), 30.0.into()]);
        let text = html(&table);
        assert!(text.contains("<td class=\"n worst\">30 ns</td>") && text.matches("worst").count() == 1);
        assert!(
            !html(&Table::new([Column::number("x", "").worst_is_low()]).row([1.0.into()])).contains("worst")
        );
    }

    #[test]
    fn ragged_rows_and_hostile_cells_are_taken() {
        let table = Table::new([Column::text("<a>"), Column::number("n", "<u>")])
            .title("<t>")
            .row(["<script>".into(), f64::NAN.into(), "too much".into()])
            .row([])
            .row(["x".into(), 1.0.into()]);
        let text = html(&table);
        for tag in ["<a>", "<u>", "<t>", "<script>", "too much"] {
            assert!(!text.contains(tag), "{tag}");
        }
    }
}
