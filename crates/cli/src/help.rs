//! The first help: all commands by what they are for; and what commands are called that had another name.

use clap::error::{ContextKind, ContextValue};
use clap::{Command, Error};
use std::fmt::Write;

/// The commands by what they are for, in the order in which a person meets them.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Robots", &["new", "check", "budget", "run", "policy", "view", "param", "bus", "emulate"]),
    ("Logs and faults", &["log", "replay", "identify", "drill"]),
    ("Computer and network", &["doctor", "jitter", "rtt", "compare"]),
];

/// Former names of commands, and what to write now.
const RENAMED: [(&str, &str); 3] =
    [("body", "new --model-of ROBOT.toml"), ("report", "compare"), ("rtt record", "log record")];

/// What `khz --help` prints of its commands: it fits 25 lines of 80 columns.
pub fn template(commands: &Command) -> String {
    let about = |name: &&str| commands.find_subcommand(name).and_then(Command::get_about);
    let mut text = "{about-with-newline}{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n\x1b[1m\x1b[4m{title}:\x1b[0m");
        for name in names {
            let about = about(name).map(ToString::to_string).unwrap_or_default();
            let _ = write!(text, "\n  \x1b[1m{name:<9}\x1b[0m{about}");
        }
    }
    text + "\n\n`khz COMMAND --help` has examples. Also: `khz completions`, `khz man`, `khz -V`."
}

/// What to write instead of a command that was called otherwise once.
pub fn renamed(error: &Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let (old, new) = RENAMED.iter().find(|(old, _)| old.split(' ').next_back() == Some(name))?;
    Some(format!("`khz {old}` is now `khz {new}`"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Every command is in the help, once, and no former name is one.
    pub fn assert_lists(commands: &Command) {
        let shown = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let mut names: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(names, grouped);
        assert!(RENAMED.iter().all(|(old, _)| commands.find_subcommand(old).is_none()));
    }
}
