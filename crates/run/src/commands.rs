//! The commands that a verdict recommends. They name the robot file.

use khz_page::for_shell;

/// Where a robot comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RobotFile {
    /// From a text, or from a log without its path: no command can name it, so the advice is in words.
    #[default]
    Unknown,
    /// It is the robot that commands are about if no file is named.
    BuiltIn,
    /// From a file, as it was named.
    At(String),
}

impl RobotFile {
    /// A text in which commands have `FILE` for the robot file.
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
/// What to do about a controller that takes too long.
pub const CONTROLLER: &str = "make it faster, or set `loop.mode = \"pipelined\"`";
/// What to do about replies that come too late.
pub const BUDGET: &str = "`khz budget FILE` shows what the buses need";

/// What carries the frames of a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// Several, or it is not known.
    #[default]
    Any,
    /// CAN, by an adapter.
    Can,
    /// A serial line.
    Serial,
    /// A network, and a gateway behind it.
    Network,
}

impl Medium {
    /// What to do about replies that come too late though the bus cycle has time enough.
    #[must_use]
    pub const fn delays(self) -> &'static str {
        match self {
            Self::Any => {
                "look for what delays or reorders frames (adapter, gateway, network; `khz doctor` knows the delays of adapters), \
                 or raise `loop.bus_deadline_us`"
            }
            Self::Can => {
                "look for what delays or reorders frames (the CAN adapter, other senders on the bus; `khz doctor` knows the delays of \
                 adapters), or raise `loop.bus_deadline_us`"
            }
            Self::Serial => {
                "look for what delays or reorders frames (the serial adapter, its latency timer; `khz doctor` knows the delays of \
                 adapters), or raise `loop.bus_deadline_us`"
            }
            Self::Network => {
                "look for what delays or reorders frames (network, gateway), or raise `loop.bus_deadline_us`"
            }
        }
    }
}

/// What to do where no file can be named in a command.
const WITHOUT_FILE: [(&str, &str); 3] = [
    ("`khz budget FILE --measure`", "`khz budget --measure`"),
    (" with `khz bus scan FILE`", ""),
    (BUDGET, "raise `loop.bus_deadline_us`, or lower `loop.rate_hz`"),
];
