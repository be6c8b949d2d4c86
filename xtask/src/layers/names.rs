//! Which crate may not name what: the column "what it must not know" of `ARCHITECTURE.md` as data, where the layers alone do not ensure it.

use super::source::Source;
use std::collections::BTreeSet;

/// `who` (paths in the repository) must not name `what`, because of `why`. `but` are the files whose subject it is.
struct Forbidden {
    who: &'static [&'static str],
    but: &'static [&'static str],
    what: &'static [&'static str],
    why: &'static str,
}

/// What moteus servos call things. Only the codec and their emulation speak so.
const MOTEUS: &[&str] = &[
    "khz_wire::Mode",
    "khz_wire::Fault",
    "khz_wire::Register",
    "khz_wire::Reply",
    "khz_wire::Command",
    "khz_wire::CommandTemplate",
    "khz_wire::ReplyLayout",
    "khz_wire::mode",
    "khz_wire::register",
    "khz_wire::reply",
    "khz_wire::command",
    "khz_wire::template",
    "khz_wire::subframe",
    "khz_wire::device",
];

/// What reads a clock, or waits.
const CLOCKS: &[&str] = &[
    "khz_rt::now_ns",
    "khz_rt::clock",
    "khz_rt::wait",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

const FORBIDDEN: &[Forbidden] = &[
    Forbidden {
        who: &[
            "crates/link",
            "crates/loop",
            "crates/controllers",
            "crates/file",
            "crates/robot",
            "crates/budget",
            "crates/report",
            "crates/measure",
            "crates/drill",
            "crates/rtt",
            "crates/export",
            "crates/cli",
            "python",
            "capi",
        ],
        but: &[],
        what: MOTEUS,
        why: "only a family's own code and its emulation speak its words",
    },
    Forbidden {
        who: &["crates/link"],
        but: &[],
        what: &["khz_wire::Address", "khz_wire::address", "khz_wire::Class", "khz_wire::Value"],
        why: "a link does not know what a frame means",
    },
    Forbidden {
        who: &[
            "crates/loop",
            "crates/controllers",
            "crates/file",
            "crates/robot",
            "crates/budget",
            "crates/report",
            "crates/measure",
            "crates/drill",
            "crates/rtt",
            "crates/export",
            "crates/cli",
            "python",
            "capi",
        ],
        but: &[],
        what: &["khz_wire::fdcanusb", "khz_wire::rs485", "khz_wire::pi3hat", "khz_wire::udp"],
        why: "how bytes move is the links' business",
    },
    Forbidden {
        who: &["crates/cli", "python", "capi"],
        but: &[],
        what: &["khz_robot::launch::Launch", "khz_report::run::page_data", "khz_robot::session::Session"],
        why: "the life of a run is written once, in kilohertz",
    },
    Forbidden {
        who: &["crates/kilohertz"],
        but: &[],
        what: &["khz_link", "khz_wire", "libc"],
        why: "how bytes move is the links' business",
    },
    Forbidden {
        who: &["crates/servo"],
        but: &[],
        what: &["khz_link", "khz_rt", "libc", "rustix", "std::time", "std::thread"],
        why: "a family knows neither links nor clocks",
    },
    Forbidden {
        who: &["crates/emu"],
        but: &["crates/emu/src/serve.rs", "crates/emu/src/serve/can.rs"],
        what: CLOCKS,
        why: "only what serves an emulated machine to other programs reads a clock",
    },
    Forbidden {
        who: &["crates/loop/src/cycle.rs", "crates/loop/src/cycle", "crates/loop/src/supervisor"],
        but: &[],
        what: CLOCKS,
        why: "the cycle and the supervisor get the time as an argument",
    },
    Forbidden {
        who: &["crates/loop", "crates/controllers"],
        but: &[],
        what: &["khz_servo::moteus", "khz_wire::Address"],
        why: "what decides about a servo knows no family",
    },
    Forbidden {
        who: &["crates/loop", "crates/controllers"],
        but: &[],
        what: &[
            "khz_file",
            "khz_robot",
            "khz_emu",
            "khz_mujoco",
            "khz_record",
            "khz_link::faults",
            "khz_link::fdcanusb",
            "khz_link::pi3hat",
            "khz_link::rs485",
            "khz_link::serial",
            "khz_link::slcan",
            "khz_link::socketcan",
            "khz_link::udp",
        ],
        why: "the loop knows no robot file, no kind of link, and nothing that simulates or records",
    },
    Forbidden {
        who: &["crates/controllers"],
        but: &[],
        what: &["khz_link", "khz_rt", "khz_run", "std::time"],
        why: "a controller knows its state and its commands",
    },
    Forbidden {
        who: &["crates/targets"],
        but: &[],
        what: &["khz_link", "khz_file", "khz_robot", "khz_emu", "khz_record", "std::time::Instant"],
        why: "what makes a motion knows no link and no robot file, and is told the time",
    },
    Forbidden {
        who: &["crates/policy/src"],
        but: &[],
        what: &["std::fs", "std::net", "std::time", "std::thread", "libc", "rustix", "khz_rt"],
        why: "an evaluation depends on its numbers alone",
    },
    Forbidden {
        who: &["crates/file"],
        but: &[],
        what: &[
            "khz_robot",
            "khz_loop::tick",
            "khz_loop::run",
            "khz_loop::cycle::Cycle",
            "std::net",
            "std::thread",
        ],
        why: "a robot file is read without running anything",
    },
    Forbidden {
        who: &["crates/budget", "crates/report", "crates/measure", "crates/export"],
        but: &[],
        what: &["khz_link", "libc"],
        why: "how bytes move is the links' business",
    },
    Forbidden {
        who: &["crates/measure"],
        but: &[],
        what: &["khz_servo", "khz_wire", "khz_emu", "khz_loop", "khz_file", "khz_robot"],
        why: "a machine is measured without a robot",
    },
    Forbidden {
        who: &["crates/rtt"],
        but: &[],
        what: &["khz_servo"],
        why: "a round trip knows no servo family",
    },
    Forbidden {
        who: &["crates/mujoco"],
        but: &[],
        what: &["khz_servo", "khz_wire", "khz_link"],
        why: "a body knows neither servos nor buses",
    },
    Forbidden {
        who: &["crates/onnxruntime"],
        but: &[],
        what: &[
            "khz_rt::now_ns",
            "khz_rt::clock",
            "std::time::Instant",
            "std::time::SystemTime",
            "khz_servo",
        ],
        why: "an evaluation depends on its numbers alone",
    },
    Forbidden {
        who: &["crates/drill"],
        but: &[],
        what: &["libc", "rustix", "std::net", "std::time"],
        why: "drills pass in virtual time, on no machine",
    },
    Forbidden {
        who: &["crates/identify"],
        but: &[],
        what: &["khz_file", "khz_link", "khz_wire", "khz_rt", "std::time", "std::net"],
        why: "what was found depends on the recordings alone",
    },
    Forbidden {
        who: &["crates/export"],
        but: &[],
        what: &["khz_robot", "khz_file", "khz_loop", "khz_emu", "khz_wire", "khz_servo"],
        why: "a log is exported without knowing robots",
    },
    Forbidden {
        who: &["crates/view"],
        but: &[],
        what: &["khz_robot", "khz_file", "khz_loop", "khz_emu", "khz_wire", "khz_link", "khz_servo", "libc"],
        why: "a viewer knows records by their schemas, in a process of its own",
    },
    Forbidden {
        who: &["crates/run"],
        but: &[],
        what: &[
            "khz_robot",
            "khz_file",
            "khz_loop",
            "khz_emu",
            "khz_wire",
            "khz_link",
            "khz_servo",
            "khz_record",
            "khz_settings",
            "libc",
            "rustix",
            "std::fs",
            "std::net",
            "std::time",
        ],
        why: "the account of a run knows no robot file, no link and no byte, and makes no system call",
    },
    Forbidden {
        who: &["crates/record"],
        but: &[],
        what: &["khz_wire", "khz_link", "khz_servo", "khz_emu", "khz_loop", "khz_file", "khz_robot"],
        why: "samples are recorded without knowing robots",
    },
    Forbidden {
        who: &["crates/tlog", "crates/wire", "crates/page"],
        but: &[],
        what: &["libc", "rustix", "khz_rt", "std::net"],
        why: "logs, protocols and pages do not know Linux",
    },
];

/// Files that still break a rule, each with the step that ends it. Only to be shortened.
struct Exception {
    file: &'static str,
    what: &'static str,
    until: &'static str,
}

const FAMILIES: &str = "state, commands and injected faults have words of no family";
const SIZES: &str = "what a frame's envelope costs is part of the wire's time";

const EXCEPTIONS: &[Exception] = &[
    Exception { file: "crates/budget/src/lines.rs", what: "khz_wire::udp", until: SIZES },
    Exception { file: "crates/drill/src/wire_monitor.rs", what: "khz_wire::Mode", until: FAMILIES },
    Exception { file: "crates/drill/src/wire_monitor.rs", what: "khz_wire::Register", until: FAMILIES },
];

/// One line per forbidden name, and per exception that is no longer needed.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let found: Vec<(&Source, &str, &str)> = sources.iter().flat_map(breaches).collect();
    let excepted = |file: &str, what: &str| {
        EXCEPTIONS.iter().any(|exception| exception.file == file && exception.what == what)
    };
    let forbidden = found.iter().filter(|(source, what, _)| !excepted(&source.file, what));
    let mut wrong: Vec<String> =
        forbidden.map(|(source, what, why)| format!("{} must not name {what}: {why}", source.file)).collect();
    for Exception { file, what, until } in EXCEPTIONS {
        if !found.iter().any(|(source, name, _)| source.file == *file && name == what) {
            wrong.push(format!(
                "{file} does not name {what} any more ({until}): remove it from EXCEPTIONS of xtask/src/layers/names.rs"
            ));
        }
    }
    wrong
}

/// What `source` names although a rule forbids it, each once, with the reason.
fn breaches(source: &Source) -> Vec<(&Source, &'static str, &'static str)> {
    let written: BTreeSet<String> = source
        .names
        .union(&source.exports)
        .map(|path| path.join("::").trim_start_matches("::").to_owned() + "::")
        .collect();
    let applies = |rule: &&Forbidden| {
        let is_of = |path: &&str| source.file == **path || source.file.starts_with(&format!("{path}/"));
        rule.who.iter().any(is_of) && !rule.but.contains(&source.file.as_str())
    };
    let named = |what: &&'static str| written.iter().any(|path| path.starts_with(&format!("{what}::")));
    let mut found = BTreeSet::new();
    for rule in FORBIDDEN.iter().filter(applies) {
        found.extend(rule.what.iter().filter(|what| named(what)).map(|what| (*what, rule.why)));
    }
    found.into_iter().map(|(what, why)| (source, what, why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(file: &str, text: &str) -> Source {
        Source::parse(file.into(), Vec::new(), text).expect("Rust")
    }

    #[test]
    fn a_planted_forbidden_name_is_caught() {
        let planted = source("crates/link/src/new.rs", "use khz_wire::{Frame, Mode};");
        let wrong: Vec<_> = breaches(&planted).into_iter().map(|(_, what, _)| what).collect();
        assert_eq!(wrong, ["khz_wire::Mode"]);
        assert!(
            check(&[planted]).iter().any(|line| line.starts_with("crates/link/src/new.rs must not name"))
        );
    }

    #[test]
    fn the_loop_knows_no_robot_file_and_no_kind_of_link() {
        let text = "use khz_file::config::Limits; use khz_file::draft; use khz_link::{Link, socketcan::SocketcanLink};";
        let planted = source("crates/loop/src/supervisor/new.rs", text);
        let wrong: Vec<_> = breaches(&planted).into_iter().map(|(_, what, _)| what).collect();
        assert_eq!(wrong, ["khz_file", "khz_link::socketcan"]);
    }

    #[test]
    fn what_a_path_goes_through_is_named() {
        let planted = source("crates/robot/src/new.rs", "fn f() { khz_wire::command::frame() }");
        assert_eq!(breaches(&planted).len(), 1);
        assert_eq!(breaches(&source("crates/servo/src/moteus/codec.rs", "use khz_wire::Mode;")).len(), 0);
    }

    #[test]
    fn a_glob_cannot_hide_a_name() {
        assert!(!breaches(&source("crates/export/src/new.rs", "use khz_wire::*;")).is_empty());
    }

    #[test]
    fn an_exception_that_is_not_needed_is_reported() {
        assert_eq!(check(&[]).len(), EXCEPTIONS.len());
    }
}
