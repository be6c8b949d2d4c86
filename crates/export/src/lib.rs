//! Logs in the formats of other tools.
//!
//! | format | what | for |
//! |---|---|---|
//! | [`Json`] | one line per sample | pipes and scripts |
//! | [`CsvWriter`] | a table per record | spreadsheets |
//! | `mcap` (feature `mcap`) | everything, with its definitions | Foxglove, PlotJuggler, Rerun, rosbag2 |
//! | `parquet` (feature `parquet`) | a table per record | pandas, polars, DuckDB |
//! | `dataset` (feature `parquet`) | tables of many logs, by robot and day | DuckDB, Polars, Spark, Ray |
//! | `lerobot` (feature `parquet`) | logs as episodes, with the times of their ticks | `LeRobot` |
//!
//! Everything works sample by sample, on logs larger than memory.
#![forbid(unsafe_code)]

#[cfg(feature = "parquet")]
mod arrow;
mod columns;
mod csv;
#[cfg(feature = "parquet")]
pub mod dataset;
mod json;
#[cfg(feature = "parquet")]
pub mod lerobot;
#[cfg(feature = "mcap")]
mod mcap;
mod names;
#[cfg(feature = "parquet")]
mod parquet;
pub mod ros2;
mod scan;

pub use columns::{Cell, Column, ColumnType, Names, columns, fill_row};
pub use csv::CsvWriter;
pub use json::{Json, Text};
pub use names::plain;
pub use ros2::Integers;
pub use scan::{Damage, Scan, Selection, scan};

#[cfg(feature = "mcap")]
pub use crate::mcap::McapWriter;
#[cfg(feature = "parquet")]
pub use crate::parquet::ParquetWriter;

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] khz_tlog::Error),
    /// The output could not be written.
    #[error("writing the export: {0}")]
    Write(#[from] std::io::Error),
    /// A field the record does not have.
    #[error("no field {field:?} in this record; it has {known}")]
    NoField {
        /// The field asked for.
        field: String,
        /// Fields there are.
        known: String,
    },
    /// The MCAP library refused something.
    #[cfg(feature = "mcap")]
    #[error("writing MCAP: {0}")]
    Mcap(#[from] ::mcap::McapError),
    /// The Parquet library refused something.
    #[cfg(feature = "parquet")]
    #[error("writing Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}
