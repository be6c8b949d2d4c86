//! A small table as a Parquet file, with lists.

use crate::ExportError;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::sync::Arc;

/// Columns with their names, all of as many rows, in one row group.
pub(super) struct Sheet(pub Vec<(String, Data)>);

/// A column.
pub(super) enum Data {
    /// Rows of so many numbers each; one is no list, as `LeRobot` has it.
    Floats {
        values: Vec<f32>,
        width: usize,
    },
    Ints(Vec<i64>),
    Texts(Vec<String>),
    /// A list of one text in each row.
    TextLists(Vec<String>),
}

impl Data {
    pub(super) fn floats(values: &[f32], width: usize) -> Self {
        Self::Floats { values: values.to_vec(), width }
    }
}

impl Sheet {
    /// Writes the file, with these metadata.
    pub(super) fn write(&self, out: File, about: &[(&str, String)]) -> Result<(), ExportError> {
        let fields = self.0.iter().map(|(name, data)| field(name, data)).collect::<Result<_, _>>()?;
        let schema = Arc::new(Type::group_type_builder("frames").with_fields(fields).build()?);
        let about = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(about.collect()))
            .build();
        let mut out = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        let mut group = out.next_row_group()?;
        for (_, data) in &self.0 {
            let missing = || ParquetError::General("the schema has fewer columns than the table".into());
            let mut column = group.next_column()?.ok_or_else(missing)?;
            data.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        out.close()?;
        Ok(())
    }
}

impl Data {
    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<usize, ParquetError> {
        let texts =
            |all: &[String]| all.iter().map(|text| ByteArray::from(text.as_str())).collect::<Vec<_>>();
        match self {
            Self::Floats { values, width: 1 } => column.typed::<FloatType>().write_batch(values, None, None),
            Self::Floats { values, width } => {
                // 0 begins a row, 1 goes on with it.
                let begins: Vec<i16> = (0..values.len()).map(|at| i16::from(at % width != 0)).collect();
                let there = vec![1; values.len()];
                column.typed::<FloatType>().write_batch(values, Some(&there), Some(&begins))
            }
            Self::Ints(values) => column.typed::<Int64Type>().write_batch(values, None, None),
            Self::Texts(all) => column.typed::<ByteArrayType>().write_batch(&texts(all), None, None),
            Self::TextLists(all) => {
                let (there, begins) = (vec![1; all.len()], vec![0; all.len()]);
                column.typed::<ByteArrayType>().write_batch(&texts(all), Some(&there), Some(&begins))
            }
        }
    }
}

fn field(name: &str, data: &Data) -> Result<TypePtr, ParquetError> {
    let text = || Some(LogicalType::String);
    match data {
        Data::Floats { width: 1, .. } => one(name, Physical::FLOAT, None),
        Data::Floats { .. } => list(name, one("element", Physical::FLOAT, None)?),
        Data::Ints(_) => one(name, Physical::INT64, None),
        Data::Texts(_) => one(name, Physical::BYTE_ARRAY, text()),
        Data::TextLists(_) => list(name, one("element", Physical::BYTE_ARRAY, text())?),
    }
}

fn one(name: &str, physical: Physical, logical: Option<LogicalType>) -> Result<TypePtr, ParquetError> {
    let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(builder.with_logical_type(logical).build()?))
}

/// Parquet's list of three levels.
fn list(name: &str, element: TypePtr) -> Result<TypePtr, ParquetError> {
    let group = |name: &str, repetition, logical, field| {
        let builder = Type::group_type_builder(name).with_repetition(repetition);
        builder.with_logical_type(logical).with_fields(vec![field]).build().map(Arc::new)
    };
    let items = group("list", Repetition::REPEATED, None, element)?;
    group(name, Repetition::REQUIRED, Some(LogicalType::List), items)
}
