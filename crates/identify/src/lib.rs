//! Finds what an emulated servo must be made of to move as a recorded one did.
//!
//! A [`Recording`] is what a real servo was commanded and did; a [`Model`] defines the parameters; [`identify`] finds them, reports how sure it
//! is, and compares with recordings that it has not seen. The servo is that of [`khz_emu`]: its joint, and the motor's law.
//!
//! | module | what |
//! |---|---|
//! | [`recording`] | recordings in bam's JSON and CSV, checked |
//! | [`model`] | the parameters, and the motion they give |
//! | [`fit`] | the fit |
//! | [`found`] | what was found, and how far it can be trusted |
//! | [`log`] | recordings out of Kilohertz' own logs |
//! | [`results`] | text, page, and files of other programs |
#![forbid(unsafe_code)]

pub mod fit;
pub mod found;
pub mod log;
pub mod model;
pub mod recording;
pub mod results;

pub use found::{Found, Split, identify};
pub use model::{Friction, Model};
pub use recording::{Columns, Recording, Unusable};
