//! Comma-separated values (RFC 4180): a header line, then a line per sample.

use crate::ExportError;
use crate::columns::{Cell, Column, columns, fill_row};
use khz_tlog::{Item, Type};
use std::io::Write;

/// Writes the samples of one record as a table. Its first column is `time`, seconds since the Unix epoch.
pub struct CsvWriter<W> {
    out: W,
    chosen: Vec<usize>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header line. `fields` chooses columns by their paths or the beginnings of these; none means all.
    ///
    /// # Errors
    /// When a field names no column, or `out` cannot be written.
    pub fn new(mut out: W, ty: &Type, fields: &[String]) -> Result<Self, ExportError> {
        let all = columns(ty);
        let chosen = choose(&all, fields)?;
        out.write_all(b"time")?;
        for &index in &chosen {
            out.write_all(b",")?;
            quoted(&mut out, &all[index].name)?;
        }
        out.write_all(b"\n")?;
        Ok(Self { out, chosen })
    }

    /// Writes a line.
    ///
    /// # Errors
    /// When the sample does not fit its schema, or `out` cannot be written.
    pub fn write(&mut self, item: &Item<'_>) -> Result<(), ExportError> {
        let mut row = Vec::new();
        fill_row(item.record.ty(), item.value()?, &mut row);
        if let Some(time_us) = item.time_us {
            let sign = if time_us < 0 { "-" } else { "" };
            let us = time_us.unsigned_abs();
            write!(self.out, "{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)?;
        }
        for &index in &self.chosen {
            self.out.write_all(b",")?;
            write_cell(&mut self.out, row.get(index).unwrap_or(&Cell::Empty))?;
        }
        Ok(self.out.write_all(b"\n")?)
    }

    /// Gives the destination back, flushed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The columns that `fields` name, in the order of the record.
pub(crate) fn choose(all: &[Column], fields: &[String]) -> Result<Vec<usize>, ExportError> {
    let names = |column: &Column, field: &str| {
        column.path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(field) = fields.iter().find(|field| !all.iter().any(|column| names(column, field))) {
        let known: Vec<_> =
            all.iter().map(|column| column.path.escape_debug().to_string()).take(30).collect();
        return Err(ExportError::NoField { field: field.clone(), known: known.join(", ") });
    }
    let wanted = |column: &Column| fields.is_empty() || fields.iter().any(|field| names(column, field));
    Ok((0..all.len()).filter(|&index| wanted(&all[index])).collect())
}

fn write_cell(out: &mut impl Write, cell: &Cell<'_>) -> Result<(), ExportError> {
    match cell {
        Cell::Empty => {}
        Cell::Bool(value) => write!(out, "{value}")?,
        Cell::Int(value) => write!(out, "{value}")?,
        Cell::Uint(value) => write!(out, "{value}")?,
        Cell::Float32(value) => write!(out, "{value}")?,
        Cell::Float64(value) => write!(out, "{value}")?,
        Cell::Text(text) => quoted(out, text)?,
        Cell::Made(text) => quoted(out, text)?,
        Cell::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?,
    }
    Ok(())
}

fn quoted(out: &mut impl Write, text: &str) -> Result<(), ExportError> {
    match text.contains([',', '"', '\n', '\r']) {
        true => write!(out, "\"{}\"", text.replace('"', "\"\""))?,
        false => out.write_all(text.as_bytes())?,
    }
    Ok(())
}
