//! A model with another step or friction than its own, and without its own actuators: servos move its joints.
//!
//! These are no state and cannot be set by a function, so the model is loaded once more within another: an `include` and
//! an `option` behind it. Paths in a model count from the file that is loaded, which is why the wrapper lies in a folder of
//! links to everything beside the model, within folders of links to everything beside those (`meshdir="../assets"`).

use crate::api::{Api, Loaded, MujocoError};
use crate::state::Part;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Torsional and rolling friction, as MuJoCo has them by default.
const TURNING: &str = "0.005 0.0001 0.0001";

/// Folders above the model's that paths in it may lead through.
const ABOVE: usize = 3;

/// Loads a model whose step divides `longest_s`, and is its own if that is no longer. `friction` replaces that of all its
/// contacts. Its actuators are off.
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
    let has_actuators = model.size(Part::Control) > 0;
    if (wanted_s - own_s).abs() < 1e-9 && friction.is_none() && !has_actuators {
        model.reset(None);
        return Ok(model);
    }
    wrapped(api, &model, path, &option(wanted_s, friction)).map_err(|error| match error {
        Wrong::Mujoco(error) => error,
        Wrong::Io(error) => MujocoError::Model {
            path: path.to_owned(),
            what: format!("cannot write a copy with another step or friction, or without actuators: {error}"),
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

/// What the wrapper changes. An actuator such as `position` pulls its joint to 0 although it is not commanded.
fn option(step_s: f64, friction: Option<f64>) -> String {
    let (friction, override_) = match friction {
        Some(sliding) => (format!(" o_friction=\"{sliding} {sliding} {TURNING}\""), " override=\"enable\""),
        None => (String::new(), ""),
    };
    format!("<option timestep=\"{step_s}\"{friction}><flag actuation=\"disable\"{override_}/></option>")
}

/// Makes a folder within `into` that looks like `folder`, as do the folders above it, and returns it.
fn mirror(folder: &Path, into: &Path, above: usize) -> io::Result<PathBuf> {
    let here = match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) if above > 0 => {
            let here = mirror(parent, into, above - 1)?.join(name);
            // A link to the folder itself, made with the others beside it; or none where it may not be listed.
            if here.is_symlink() {
                fs::remove_file(&here)?;
            }
            fs::create_dir(&here)?;
            here
        }
        _ => into.to_owned(),
    };
    // A folder on the way may be one that only lets through.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        symlink(entry.path(), here.join(entry.file_name()))?;
    }
    Ok(here)
}

fn wrapped(api: &'static Api, model: &Loaded, path: &Path, option: &str) -> Result<Loaded, Wrong> {
    let temporary = tempfile::Builder::new().prefix("khz-model-").tempdir()?;
    let path = path.canonicalize()?;
    let folder = mirror(path.parent().unwrap_or(Path::new("/")), temporary.path(), ABOVE)?;
    let is_mjcf =
        fs::read_to_string(&path).is_ok_and(|text| text.contains("<mujoco") && !text.contains("<robot"));
    let included = folder.join("khz-included.xml");
    if is_mjcf {
        symlink(&path, &included)?;
    } else {
        // A URDF cannot be included: as MuJoCo writes it.
        model.save(&included).map_err(Wrong::Mujoco)?;
    }
    let text = format!("<mujoco><include file=\"khz-included.xml\"/>{option}</mujoco>\n");
    let wrapper = folder.join("khz-wrapper.xml");
    fs::write(&wrapper, text)?;
    Loaded::load(api, &wrapper).map_err(Wrong::Mujoco)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_the_folders_above_is_found() {
        let robot = tempfile::tempdir().unwrap();
        let model = robot.path().join("description/models");
        fs::create_dir_all(&model).unwrap();
        fs::create_dir(robot.path().join("assets")).unwrap();
        fs::write(robot.path().join("assets/leg.stl"), "leg").unwrap();
        fs::write(model.join("leg.xml"), "model").unwrap();
        let into = tempfile::tempdir().unwrap();
        let here = mirror(&model, into.path(), ABOVE).unwrap();
        assert_eq!(fs::read_to_string(here.join("leg.xml")).unwrap(), "model");
        assert_eq!(fs::read_to_string(here.join("../../assets/leg.stl")).unwrap(), "leg");
        // The wrapper is written beside the copy's links, not beside the model.
        fs::write(here.join("new.xml"), "").unwrap();
        assert!(!model.join("new.xml").exists());
    }
}
