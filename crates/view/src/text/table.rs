//! A table that is too wide for a terminal: what its columns are is seen from the spaces that all rows share.

use std::ops::Range;

/// How far in a row goes on that does not fit a line.
const FURTHER: usize = 4;
/// Between two columns.
const BETWEEN: usize = 2;

/// A line that has columns.
pub(super) fn is_row(line: &str) -> bool {
    line.trim().contains("  ")
}

/// The rows anew, so that they fit `columns`. None if they do, if they are no table, or if its last column is a text, which has to be
/// broken itself.
pub(super) fn laid_out(lines: &[&str], columns: usize) -> Option<String> {
    let rows: Vec<Vec<char>> = lines.iter().map(|line| line.trim_end().chars().collect()).collect();
    if rows.len() < 2 || rows.iter().all(|row| row.len() <= columns) {
        return None;
    }
    let places = places(&rows);
    let begins = places.first()?.start;
    let cells: Vec<Column> = places.iter().map(|place| Column::of(&rows, place)).collect();
    let is_narrow = |column: &Column| begins + FURTHER + column.width <= columns;
    let fits = begins + cells.iter().map(|column| column.width + BETWEEN).sum::<usize>() <= columns + BETWEEN;
    let (_, others) = cells.split_first()?;
    let last = others.last()?;
    if !others.iter().all(is_narrow) || !fits && (others.len() < 2 || last.width > columns / 2) {
        return None;
    }
    let row = |index| row(&cells, index, begins, columns);
    Some((0..rows.len()).map(row).collect())
}

/// Where the columns are: between the spaces, two or more, that all rows have.
fn places(rows: &[Vec<char>]) -> Vec<Range<usize>> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_blank = |at: usize| rows.iter().all(|row| row.get(at).is_none_or(|&c| c == ' '));
    let mut places: Vec<Range<usize>> = Vec::new();
    for at in (0..width).filter(|&at| !is_blank(at)) {
        match places.last_mut() {
            Some(last) if at < last.end + BETWEEN => last.end = at + 1,
            _ => places.push(at..at + 1),
        }
    }
    places
}

struct Column {
    cells: Vec<String>,
    width: usize,
    /// Its cells end under each other, as numbers do.
    to_the_right: bool,
}

impl Column {
    fn of(rows: &[Vec<char>], place: &Range<usize>) -> Self {
        let cell = |row: &Vec<char>| row.iter().take(place.end).skip(place.start).collect::<String>();
        let raw: Vec<String> = rows.iter().map(cell).collect();
        let filled = || raw.iter().filter(|cell| !cell.trim().is_empty());
        let to_the_right = filled().all(|cell| cell.chars().count() == place.len() && !cell.ends_with(' '))
            && filled().any(|cell| cell.starts_with(' '));
        let cells: Vec<String> = raw.iter().map(|cell| cell.trim().to_owned()).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        Self { cells, width, to_the_right }
    }

    fn cell(&self, row: usize) -> String {
        let (cell, width) = (&self.cells[row], self.width);
        if self.to_the_right { format!("{cell:>width$}") } else { format!("{cell:width$}") }
    }
}

/// One row, on as many lines as it needs; one with nothing on it is left out.
fn row(columns: &[Column], row: usize, begins: usize, room: usize) -> String {
    let (mut lines, mut line, mut used) = (Vec::new(), " ".repeat(begins), begins);
    for (index, column) in columns.iter().enumerate() {
        let gap = if index == 0 { 0 } else { BETWEEN };
        if used + gap + column.width > room && index > 0 {
            used = begins + FURTHER;
            lines.push(std::mem::replace(&mut line, " ".repeat(used)));
        } else {
            used += gap;
            line.push_str(&" ".repeat(gap));
        }
        used += column.width;
        line.push_str(&column.cell(row));
    }
    lines.push(line);
    // The first column may be a text for which one line is not enough.
    lines[0] = super::wrapped_line(lines[0].trim_end(), room).into_owned();
    lines.iter().filter(|line| !line.trim().is_empty()).map(|line| format!("{}\n", line.trim_end())).collect()
}
