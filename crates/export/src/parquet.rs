//! Parquet files: a table per record.

use crate::columns::{Cell, Column, ColumnType, TIME, columns, fill_row};
use crate::csv::choose;
use crate::{ExportError, arrow};
use khz_tlog::{Item, Type as LogType};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::io::Write;
use std::sync::Arc;

/// A row group is written when so many bytes of cells have come together; that is the memory this needs.
const GROUP_BYTES: usize = 32 << 20;

/// Writes the samples of one record as a table. Its first column is `time`, µs since the Unix epoch. The unit of a column is
/// in its Arrow metadata, under `unit`.
pub struct ParquetWriter<W: Write + Send> {
    out: Sheet<W>,
    chosen: Vec<usize>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins the file. `fields` chooses columns by their paths or the beginnings of these; none means all.
    ///
    /// # Errors
    /// When a field names no column, or the file cannot be written.
    pub fn new(out: W, ty: &LogType, fields: &[String]) -> Result<Self, ExportError> {
        let all = columns(ty);
        let chosen = choose(&all, fields)?;
        let columns: Vec<&Column> = chosen.iter().map(|&index| &all[index]).collect();
        Ok(Self { out: Sheet::new(out, &columns)?, chosen })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When the sample does not fit its schema, or the file cannot be written.
    pub fn write(&mut self, item: &Item<'_>) -> Result<(), ExportError> {
        let mut row = Vec::new();
        fill_row(item.record.ty(), item.value()?, &mut row);
        let cells = self.chosen.iter().map(|&index| row.get(index).cloned().unwrap_or(Cell::Empty));
        self.out.write(item.time_us, cells)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<W, ExportError> {
        self.out.finish()
    }
}

/// A Parquet file: a column of times, and others.
pub(crate) struct Sheet<W: Write + Send> {
    out: SerializedFileWriter<W>,
    time: Buffer,
    buffers: Vec<Buffer>,
    bytes: usize,
}

impl<W: Write + Send> Sheet<W> {
    /// Begins the file.
    pub(crate) fn new(out: W, columns: &[&Column]) -> Result<Self, ExportError> {
        let schema = schema(columns.iter().copied())?;
        let arrow = KeyValue::new(arrow::KEY.to_owned(), arrow::schema(columns.iter().copied()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![arrow]))
            .build();
        Ok(Self {
            out: SerializedFileWriter::new(out, schema, Arc::new(properties))?,
            time: Buffer::new(ColumnType::Int),
            buffers: columns.iter().map(|column| Buffer::new(column.kind)).collect(),
            bytes: 0,
        })
    }

    /// Writes a row; cells that are missing at its end are empty.
    pub(crate) fn write<'a>(
        &mut self,
        time_us: Option<i64>,
        cells: impl IntoIterator<Item = Cell<'a>>,
    ) -> Result<(), ExportError> {
        self.bytes += self.time.push(time_us.map_or(Cell::Empty, Cell::Int));
        let cells = cells.into_iter().chain(std::iter::repeat(Cell::Empty));
        for (buffer, cell) in self.buffers.iter_mut().zip(cells) {
            self.bytes += buffer.push(cell);
        }
        if self.bytes >= GROUP_BYTES { self.write_group() } else { Ok(()) }
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> Result<W, ExportError> {
        self.write_group()?;
        Ok(self.out.into_inner()?)
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        self.bytes = 0;
        let mut group = self.out.next_row_group()?;
        for buffer in std::iter::once(&mut self.time).chain(&mut self.buffers) {
            let missing = || ParquetError::General("the schema has fewer columns than the table".into());
            let mut column = group.next_column()?.ok_or_else(missing)?;
            buffer.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn schema<'a>(columns: impl Iterator<Item = &'a Column>) -> Result<TypePtr, ParquetError> {
    let time = LogicalType::timestamp(true, TimeUnit::MICROS);
    let mut fields = vec![field(TIME, Physical::INT64, Some(time))?];
    for column in columns {
        let (physical, logical) = match column.kind {
            ColumnType::Bool => (Physical::BOOLEAN, None),
            ColumnType::Int => (Physical::INT64, None),
            ColumnType::Uint => (Physical::INT64, Some(LogicalType::integer(64, false))),
            ColumnType::Float32 => (Physical::FLOAT, None),
            ColumnType::Float64 => (Physical::DOUBLE, None),
            ColumnType::Bytes => (Physical::BYTE_ARRAY, None),
            ColumnType::Text | ColumnType::Json => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        fields.push(field(&column.name, physical, logical)?);
    }
    Ok(Arc::new(Type::group_type_builder("samples").with_fields(fields).build()?))
}

fn field(name: &str, physical: Physical, logical: Option<LogicalType>) -> Result<TypePtr, ParquetError> {
    let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(builder.with_logical_type(logical).build()?))
}

/// The cells of one column in one row group.
struct Buffer {
    cells: Cells,
    /// 1 where there is a value, 0 where the cell is empty.
    there: Vec<i16>,
}

enum Cells {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

impl Buffer {
    fn new(kind: ColumnType) -> Self {
        let cells = match kind {
            ColumnType::Bool => Cells::Bool(Vec::new()),
            ColumnType::Int | ColumnType::Uint => Cells::Int(Vec::new()),
            ColumnType::Float32 => Cells::Float32(Vec::new()),
            ColumnType::Float64 => Cells::Float64(Vec::new()),
            ColumnType::Text | ColumnType::Bytes | ColumnType::Json => Cells::Bytes(Vec::new()),
        };
        Self { cells, there: Vec::new() }
    }

    /// Adds a cell and returns about how much memory it takes. One of another kind than the column's is empty.
    fn push(&mut self, cell: Cell<'_>) -> usize {
        let mut size = 10;
        match (&mut self.cells, cell) {
            (Cells::Bool(all), Cell::Bool(value)) => all.push(value),
            (Cells::Int(all), Cell::Int(value)) => all.push(value),
            (Cells::Int(all), Cell::Uint(value)) => all.push(value as i64),
            (Cells::Float32(all), Cell::Float32(value)) => all.push(value),
            (Cells::Float64(all), Cell::Float64(value)) => all.push(value),
            // What repeats from row to row is kept once.
            (Cells::Bytes(all), Cell::Text(text)) => match all.last() {
                Some(last) if last.data() == text.as_bytes() => all.push(last.clone()),
                _ => all.push(sized(text.as_bytes().to_vec(), &mut size)),
            },
            (Cells::Bytes(all), Cell::Made(text)) => all.push(sized(text.into_bytes(), &mut size)),
            (Cells::Bytes(all), Cell::Bytes(bytes)) => all.push(sized(bytes.to_vec(), &mut size)),
            _ => {
                self.there.push(0);
                return 2;
            }
        }
        self.there.push(1);
        size
    }

    /// Writes the cells and forgets them.
    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let there = Some(self.there.as_slice());
        match &mut self.cells {
            Cells::Bool(all) => column.typed::<BoolType>().write_batch(all, there, None).map(|_| all.clear()),
            Cells::Int(all) => column.typed::<Int64Type>().write_batch(all, there, None).map(|_| all.clear()),
            Cells::Float32(all) => {
                column.typed::<FloatType>().write_batch(all, there, None).map(|_| all.clear())
            }
            Cells::Float64(all) => {
                column.typed::<DoubleType>().write_batch(all, there, None).map(|_| all.clear())
            }
            Cells::Bytes(all) => {
                column.typed::<ByteArrayType>().write_batch(all, there, None).map(|_| all.clear())
            }
        }?;
        self.there.clear();
        Ok(())
    }
}

fn sized(bytes: Vec<u8>, size: &mut usize) -> ByteArray {
    *size += bytes.len() + 40;
    ByteArray::from(bytes)
}
