//! The text of a robot file, for what has to know more than the robot it describes.

use khz_file::ConfigError;
use khz_file::config::{QUADRUPED, read_text};
use std::path::Path;

/// A robot file as it stands.
pub struct RobotFile {
    pub text: String,
    /// For messages.
    pub name: String,
}

impl RobotFile {
    /// Reads it; without a path, the built-in quadruped.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = path else {
            return Ok(Self { text: QUADRUPED.to_owned(), name: "robots/quadruped.toml".to_owned() });
        };
        Ok(Self { text: read_text(path)?, name: path.display().to_string() })
    }
}
