//! Evaluates a trained policy with [`khz_policy`], or with onnxruntime if that lacks an operator.
//!
//! onnxruntime is opened at run time, by its C functions alone; nothing of it is needed to build. See [`Session`] for where it is looked
//! for, and what an evaluation by it is.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod api;
mod evaluator;

pub use api::{LibraryError, Session};
pub use evaluator::{Engine, EngineError, Evaluator};
