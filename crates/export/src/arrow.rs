//! The Arrow schema of a table, which Parquet files carry for readers that use Arrow (pyarrow, pandas): the one place
//! where a column has its own metadata.
//!
//! It is one message of Arrow's IPC format (`Message.fbs` and `Schema.fbs`, version 5), in base64. The numbers of
//! slots and types below are those of these files.

use crate::columns::{Column, ColumnType, TIME};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, VOffsetT, WIPOffset};

/// The key of a file's metadata under which readers look for it.
pub(crate) const KEY: &str = "ARROW:schema";
/// The key of a column's metadata under which its unit stands.
const UNIT: &str = "unit";

/// Where the n-th field of a table stands.
const fn slot(n: VOffsetT) -> VOffsetT {
    4 + 2 * n
}

type Builder = FlatBufferBuilder<'static>;
type Table = WIPOffset<TableFinishedWIPOffset>;

/// The schema of a table of the log's times and these columns.
pub(crate) fn schema<'a>(columns: impl Iterator<Item = &'a Column>) -> String {
    let mut out = Builder::new();
    let mut fields = vec![time_field(&mut out)];
    fields.extend(columns.map(|column| column_field(&mut out, column)));
    let fields = out.create_vector(&fields);
    let start = out.start_table();
    out.push_slot_always(slot(1), fields);
    let schema = out.end_table(start);
    let start = out.start_table();
    out.push_slot_always(slot(0), 4i16); // Metadata version 5.
    out.push_slot_always(slot(1), 1u8); // The header is a schema.
    out.push_slot_always(slot(2), schema);
    let message = out.end_table(start);
    out.finish_minimal(message);
    let message = out.finished_data();
    let len = message.len() as u32;
    BASE64_STANDARD.encode([&u32::MAX.to_le_bytes(), &len.to_le_bytes(), message].concat())
}

fn time_field(out: &mut Builder) -> Table {
    let zone = out.create_string("UTC");
    let start = out.start_table();
    out.push_slot_always(slot(0), 2i16); // Microseconds.
    out.push_slot_always(slot(1), zone);
    let timestamp = out.end_table(start);
    field(out, TIME, 10, timestamp, None)
}

fn column_field(out: &mut Builder, column: &Column) -> Table {
    let start = out.start_table();
    let code = match column.kind {
        ColumnType::Bool => 6,
        ColumnType::Int | ColumnType::Uint => {
            out.push_slot_always(slot(0), 64i32);
            out.push_slot_always(slot(1), column.kind == ColumnType::Int);
            2
        }
        ColumnType::Float32 | ColumnType::Float64 => {
            out.push_slot_always(slot(0), if column.kind == ColumnType::Float32 { 1i16 } else { 2 });
            3
        }
        ColumnType::Bytes => 4,
        ColumnType::Text | ColumnType::Json => 5,
    };
    let ty = out.end_table(start);
    field(out, &column.name, code, ty, column.unit.as_deref())
}

fn field(out: &mut Builder, name: &str, code: u8, ty: Table, unit: Option<&str>) -> Table {
    let name = out.create_string(name);
    let children = out.create_vector::<Table>(&[]);
    let metadata = unit.map(|unit| {
        let pair = pair(out, UNIT, unit);
        out.create_vector(&[pair])
    });
    let start = out.start_table();
    out.push_slot_always(slot(0), name);
    out.push_slot_always(slot(1), true); // Any cell may be empty.
    out.push_slot_always(slot(2), code);
    out.push_slot_always(slot(3), ty);
    out.push_slot_always(slot(5), children);
    if let Some(metadata) = metadata {
        out.push_slot_always(slot(6), metadata);
    }
    out.end_table(start)
}

fn pair(out: &mut Builder, key: &str, value: &str) -> Table {
    let (key, value) = (out.create_string(key), out.create_string(value));
    let start = out.start_table();
    out.push_slot_always(slot(0), key);
    out.push_slot_always(slot(1), value);
    out.end_table(start)
}
