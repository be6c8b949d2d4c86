//! A model with another step or friction than its own.
//!
//! These are no state and cannot be set by a function, so the model is loaded once more within another: an `include` and
//! an `option` behind it. Paths in a model count from the file that is loaded, which is why the wrapper lies in a folder of
//! links to everything beside the model.

use crate::api::{Api, Loaded, MujocoError};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Torsional and rolling friction, as MuJoCo has them by default.
const TURNING: &str = "0.005 0.0001 0.0001";

/// Loads a model whose step divides `longest_s`, and is its own if that is no longer. `friction` replaces that of all its
/// contacts.
///
/// # Errors
/// MuJoCo cannot load it, or there is no folder for the wrapper.
pub fn load(
    api: &'static Api,
    path: &Path,
    longest_s: f64,
    friction: Option<f64>,
) -> Result<Loaded, MujocoError> {
    let mut model = Loaded::load(api, path)?;
    let own_s = model.timestep();
    if !(own_s.is_finite() && own_s > 0.0) {
        let what = format!("its timestep is {own_s} s: give it one that is greater than 0");
        return Err(MujocoError::Model { path: path.to_owned(), what });
    }
    // As many whole steps as come nearest to the model's own, but not longer.
    let steps = (longest_s / own_s - 1e-6).ceil().max(1.0);
    let wanted_s = longest_s / steps;
    if (wanted_s - own_s).abs() < 1e-9 && friction.is_none() {
        model.reset(None);
        return Ok(model);
    }
    wrapped(api, &model, path, &option(wanted_s, friction)).map_err(|error| match error {
        Wrong::Mujoco(error) => error,
        Wrong::Io(error) => MujocoError::Model {
            path: path.to_owned(),
            what: format!("cannot write a copy with another step or friction: {error}"),
        },
    })
}

enum Wrong {
    Mujoco(MujocoError),
    Io(io::Error),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What the wrapper changes.
fn option(step_s: f64, friction: Option<f64>) -> String {
    let Some(friction) = friction else { return format!("<option timestep=\"{step_s}\"/>") };
    format!(
        "<option timestep=\"{step_s}\" o_friction=\"{friction} {friction} {TURNING}\">\
         <flag override=\"enable\"/></option>"
    )
}

fn wrapped(api: &'static Api, model: &Loaded, path: &Path, option: &str) -> Result<Loaded, Wrong> {
    let folder = tempfile::Builder::new().prefix("khz-model-").tempdir()?;
    let path = path.canonicalize()?;
    let beside = path.parent().unwrap_or(Path::new("/"));
    for entry in fs::read_dir(beside)?.flatten() {
        symlink(entry.path(), folder.path().join(entry.file_name()))?;
    }
    let is_mjcf =
        fs::read_to_string(&path).is_ok_and(|text| text.contains("<mujoco") && !text.contains("<robot"));
    let included = folder.path().join("khz-included.xml");
    if is_mjcf {
        symlink(&path, &included)?;
    } else {
        // A URDF cannot be included: as MuJoCo writes it.
        model.save(&included).map_err(Wrong::Mujoco)?;
    }
    let text = format!("<mujoco><include file=\"khz-included.xml\"/>{option}</mujoco>\n");
    let wrapper = folder.path().join("khz-wrapper.xml");
    fs::write(&wrapper, text)?;
    Loaded::load(api, &wrapper).map_err(Wrong::Mujoco)
}
