//! A MuJoCo model as the body that emulated servos move.
//!
//! libmujoco is opened at run time, by its C functions alone; nothing of it is needed to build. See [`Api::open`] for where
//! it is looked for and which versions can be used.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod api;
mod body;
mod layout;
mod state;
mod wrapper;

pub use api::{Api, MujocoError};
pub use body::{Binding, Mujoco};
use std::path::Path;

/// A model as MuJoCo writes it: one MJCF file in radians, with every default and each actuator as a `general`.
///
/// # Errors
/// MuJoCo is not installed, or cannot load it.
pub fn saved(model: &Path) -> Result<String, MujocoError> {
    api::Loaded::load(Api::open()?, model)?.saved()
}
