//! Projects around a robot file.

use anyhow::{Context, Result};
use khz_page::for_shell;
use std::path::{Path, PathBuf};

/// Compiled and run by the tests as an example.
const MAIN: &str = include_str!("../../../new_project.rs");
/// Run by the tests of the Python package.
const CONTROLLER: &str = include_str!("controller.py");

/// Where the crate was when this program was built; not in one that is passed on, where that folder does not exist.
const BUILT_FROM: Option<&str> = match option_env!("KHZ_PASSED_ON") {
    None => Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../kilohertz")),
    Some(_) => None,
};

/// Files and what is in them; and what to do next.
pub type Project = (Vec<(PathBuf, String)>, String);

/// A Rust program.
///
/// # Errors
/// The crate is not where it should be.
pub fn rust(folder: &Path, robot: String, kilohertz: Option<&Path>) -> Result<Project> {
    let kilohertz = kilohertz.or(BUILT_FROM.map(Path::new)).context(
        "where is the crate `kilohertz`? Give its folder, crates/kilohertz of the sources, with --kilohertz",
    )?;
    let missing = || format!("{}: no crate there; give its folder with --kilohertz", kilohertz.display());
    kilohertz.join("Cargo.toml").metadata().with_context(missing)?;
    let kilohertz = kilohertz.canonicalize().with_context(missing)?;
    let manifest = format!(
        "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nkilohertz = {{ path = {:?} }}\n\n\
         # Of no workspace around this folder.\n[workspace]\n",
        package(folder),
        kilohertz.display().to_string()
    );
    let readme = readme("cargo run --release", "src/main.rs");
    let files = files(
        folder,
        robot,
        &[("Cargo.toml", manifest), ("src/main.rs", MAIN.to_owned()), ("README.md", readme)],
    );
    Ok((files, format!("cd {}\ncargo run --release", for_shell(&folder.to_string_lossy()))))
}

/// A Python program.
pub fn python(folder: &Path, robot: String) -> Project {
    let readme = readme("python controller.py", "controller.py");
    let files = files(folder, robot, &[("controller.py", CONTROLLER.to_owned()), ("README.md", readme)]);
    (files, format!("cd {}\npython controller.py", for_shell(&folder.to_string_lossy())))
}

fn files(folder: &Path, robot: String, others: &[(&str, String)]) -> Vec<(PathBuf, String)> {
    let others = others.iter().map(|(name, text)| (folder.join(name), text.clone()));
    std::iter::once((folder.join("robot.toml"), robot)).chain(others).collect()
}

fn readme(run: &str, program: &str) -> String {
    format!(
        "# A robot and its controller\n\n```sh\nkhz check robot.toml   # is the file right, and does the cycle fit?\n{run}\n```\n\n\
         `robot.toml` describes the robot; `{program}` is the controller. Ctrl-C brings the robot down gently. Each run leaves a log and a \
         report.\n"
    )
}

/// The folder's name, as a package can be called.
fn package(folder: &Path) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("robot_{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_folder_makes_a_package_name() {
        let names = ["arm", "My Arm!", "7dof", ".", "/tmp/leg-3"].map(|folder| package(Path::new(folder)));
        assert_eq!(names, ["arm", "my_arm_", "robot_7dof", "robot_", "leg_3"]);
    }
}
