//! A trained policy without its framework: an ONNX model, read and evaluated here.
//!
//! ```text
//! bytes ──► protobuf ──► onnx ──► compile ──► steps over one arena of f32
//!           (fields)     (graph)  (shapes, constants, memory)   (run)
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | a model: its inputs and outputs, its file's metadata, and one evaluation |
//! | [`maths`] | exp, tanh and their kin, and sums in a fixed order |
//! | `protobuf`, `onnx` | the file's bytes, each length checked before it is believed |
//! | `compile` | nodes to steps: every shape is known, and what depends on constants alone is computed once |
//! | `steps`, `recurrent` | what an evaluation does |
//!
//! Of ONNX it knows [`OPERATORS`], in float32, for one observation at a time (a batch of 1). Everything else is refused with the name of
//! the operator and its node; a model that was accepted can be evaluated.
//!
//! # The same bits everywhere
//! Sums have a fixed order, nothing is contracted to fused operations, and exp, tanh and log are [`maths`], not a C library's. So an
//! evaluation has the same bits on every machine that has IEEE 754 arithmetic, whatever it is compiled for. Of a NaN that is true of
//! its being one, not of its bits.
//!
//! # Realtime contract
//! [`Model::run`] neither allocates nor locks, prints, waits or reads a clock, and takes about as long each time. Reading a model does
//! all of it but reading a clock.
#![forbid(unsafe_code)]

mod compile;
mod digest;
mod error;
pub mod maths;
pub mod model;
mod onnx;
mod operators;
mod protobuf;
mod recurrent;
mod steps;

pub use digest::sha256;
pub use error::ModelError;
pub use model::{Model, Port, metadata};
pub use operators::OPERATORS;
