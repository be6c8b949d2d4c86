//! The commands that a verdict says to run. They name the robot file.

use khz_page::for_shell;

/// Where a robot comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RobotFile {
    /// From a text, or from a log that does not say: no command can name it, and what to do is said in words.
    #[default]
    Unknown,
    /// It is the robot that commands are about if no file is named.
    BuiltIn,
    /// From a file, as it was named.
    At(String),
}

impl RobotFile {
    /// A text in which commands say `FILE` for the robot file.
    #[must_use]
    pub fn named_in(&self, text: &str) -> String {
        match self {
            Self::Unknown => WITHOUT_FILE
                .into_iter()
                .fold(text.to_owned(), |text, (command, words)| text.replace(command, words)),
            Self::BuiltIn => text.replace(" FILE", ""),
            Self::At(path) => text.replace(" FILE", &format!(" {}", as_argument(path))),
        }
    }
}

/// A robot file as a command takes it: a word with a dash is an option, and one without a slash may be the name of a link.
fn as_argument(path: &str) -> String {
    let is_bare = path.starts_with('-') || !path.contains('/') && !path.ends_with(".toml");
    if is_bare { for_shell(&format!("./{path}")) } else { for_shell(path) }
}

/// What to do about a machine.
pub const DOCTOR: &str = "run `khz doctor`";
/// What to do about replies that do not come.
pub const SCAN: &str = "check power, wiring and ids with `khz bus scan FILE`";
pub(crate) const PARTS: &str = "`khz run FILE --budget` shows its time part by part";
/// What to do about replies that come too late.
pub const BUDGET: &str = "`khz budget FILE` shows what the buses need";
/// What to do about replies that come too late though the bus cycle has time enough.
pub const DELAYS: &str = "look for what delays or reorders frames (adapter, gateway, network; `khz doctor` knows the delays of adapters), \
                          or raise `loop.bus_deadline_us`";

/// What to do where no file can be named in a command.
const WITHOUT_FILE: [(&str, &str); 5] = [
    ("`khz budget FILE --measure`", "`khz budget --measure`"),
    (" with `khz bus scan FILE`", ""),
    (BUDGET, "raise `loop.bus_deadline_us`, or lower `loop.rate_hz`"),
    (PARTS, "see its time part by part in the report"),
    (" with `khz run FILE --budget`", " in the report"),
];
