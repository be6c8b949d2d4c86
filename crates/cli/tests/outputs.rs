//! Files that commands write: never over one that is there, unless asked to.
#![allow(clippy::unwrap_used)]

mod common;

use common::{PAN, khz, stderr, stdout};
use khz_tlog::{Options, Type, Writer};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A folder with a robot, and results of `khz jitter`.
fn bench() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN).unwrap();
    let made = khz(folder.path(), &[&JITTER[..], &["--save", "results.json"]].concat());
    assert!(made.status.success(), "{}", stderr(&made));
    folder
}

const JITTER: [&str; 7] = ["jitter", "--ticks", "20", "--policy", "other", "--wake", "sleep"];
const RUN: [&str; 5] = ["run", "robot.toml", "--virtual", "--duration", "100ms"];

/// It was reported, but the exit code was 0.
#[test]
fn a_report_that_was_asked_for_and_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN).unwrap();
    let output = khz(folder.path(), &[&RUN[..], &["--report", "/dev/full"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot write the report"), "{}", stderr(&output));
}

/// With `--force` a report took the place of an earlier run's log, or of one that was being written.
#[test]
fn a_log_is_replaced_by_no_page() {
    let bench = bench();
    let folder = bench.path();
    let made = khz(folder, &[&RUN[..], &["--log", "old.tlog", "--no-report"]].concat());
    assert!(made.status.success(), "{}", stderr(&made));
    symlink("old.tlog", folder.join("link.html")).unwrap();
    for report in ["old.tlog", "link.html"] {
        for words in [&[&RUN[..], &["--report"]].concat()[..], &["compare", "results.json", "-o"]] {
            let output = khz(folder, &[words, &[report, "--force"]].concat());
            assert_eq!(output.status.code(), Some(2), "{words:?}");
            assert!(stderr(&output).contains("is a log, and never overwritten"), "{}", stderr(&output));
        }
    }
    assert!(is_whole(folder.join("old.tlog")));
}

/// It was off by what start-up took.
#[test]
fn a_run_that_lasted_as_asked_meets_that_duration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN).unwrap();
    for (required, code) in [("duration=100ms", 0), ("duration=102ms", 1)] {
        let output = khz(folder.path(), &[&RUN[..], &["--no-report", "--require", required]].concat());
        assert_eq!(output.status.code(), Some(code), "{required}: {}", stdout(&output));
    }
}

#[test]
fn no_command_writes_over_a_file_or_through_a_link_unless_it_is_forced() {
    let bench = bench();
    let folder = bench.path();
    let jitter = |option| [&JITTER[..], &[option]].concat();
    // And whether it takes no more than a moment, no device and no root to see it overwrite.
    let commands: Vec<(Vec<&str>, bool)> = vec![
        ([&RUN[..], &["--report"]].concat(), true),
        (jitter("--save"), true),
        (jitter("--html"), true),
        (jitter("--csv"), true),
        (jitter("--hgrm"), true),
        (vec!["budget", "robot.toml", "--report"], true),
        (vec!["compare", "results.json", "-o"], true),
        (vec!["bus", "record", "emulated", "--duration", "1ms", "-o"], true),
        (vec!["bus", "send", "--link", "emulated", "1,8001,1300,r", "--run", "1", "--time-log"], true),
        (vec!["drill", "fall", "--report"], false),
        (vec!["drill", "heat", "--report"], false),
        (vec!["rtt", "send", "127.0.0.1", "--save"], false),
        (vec!["rtt", "send", "127.0.0.1", "--report"], false),
        (vec!["rtt", "send", "127.0.0.1", "--compare-receive", "--report"], false),
        (vec!["rtt", "lab", "--report"], false),
    ];
    let (mine, link, nowhere) = (folder.join("mine"), folder.join("link"), folder.join("nowhere"));
    for (words, quick) in commands {
        std::fs::write(&mine, "another file").unwrap();
        for target in [&mine, &folder.join("missing")] {
            let _ = std::fs::remove_file(&link);
            symlink(target, &link).unwrap();
            for name in ["mine", "link"] {
                let output = khz(folder, &[&words[..], &[name]].concat());
                assert_eq!(output.status.code(), Some(2), "{words:?} {name}: {}", stderr(&output));
                assert!(
                    stderr(&output).contains(&format!("{name} is there already; --force overwrites it")),
                    "{words:?}"
                );
            }
        }
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "another file", "{words:?}");
        assert!(!folder.join("missing").exists() && !nowhere.exists(), "{words:?}");
        assert!(!folder.join("run.tlog").exists(), "{words:?}: refused before it begins");
        if quick {
            let output = khz(folder, &[&words[..], &["mine", "--force"]].concat());
            assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
            assert_ne!(std::fs::read_to_string(&mine).unwrap(), "another file", "{words:?}");
            let _ = std::fs::remove_file(folder.join("run.tlog"));
        }
        let left =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(left.filter(|name| name.contains("part")).count(), 0, "{words:?}");
    }
}

/// With `--force` they once wrote their page over the robot file, the results or the log they had just read.
#[test]
fn no_command_writes_over_a_file_that_it_reads() {
    let bench = bench();
    let folder = bench.path();
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let record = log.record("a", &Type::object([("n", Type::VarUint)])).unwrap();
    (0..9).for_each(|n| log.write(record, Some(n), &[1]).unwrap());
    std::fs::write(folder.join("a.tlog"), log.finish().unwrap()).unwrap();
    let commands: [(&str, &[&str]); 13] = [
        ("robot.toml", &["run", "robot.toml", "--duration", "100ms", "--report"]),
        ("robot.toml", &["budget", "robot.toml", "--report"]),
        ("robot.toml", &["drill", "fall", "robot.toml", "--report"]),
        ("robot.toml", &["drill", "heat", "robot.toml", "--report"]),
        ("robot.toml", &["rtt", "lab", "--robot", "robot.toml", "--report"]),
        ("robot.toml", &["bus", "record", "robot.toml", "--duration", "1ms", "-o"]),
        ("robot.toml", &["bus", "send", "-l", "robot.toml", "1,8001,1300,r", "--run", "1", "--time-log"]),
        ("results.json", &["compare", "results.json", "-o"]),
        ("a.tlog", &["log", "plot", "a.tlog", "a", "-o"]),
        ("a.tlog", &["log", "export", "a.tlog", "--format", "mcap", "-o"]),
        ("a.tlog", &["log", "extract", "a.tlog", "-r", "a", "-o"]),
        ("a.tlog", &["log", "repair", "a.tlog", "-o"]),
        // The table has the record's name.
        ("a.tlog", &["log", "export", "a.tlog", "--format", "csv", "-o"]),
    ];
    for (input, words) in commands {
        let before = std::fs::read(folder.join(input)).unwrap();
        let mut names = vec![input, "soft", "hard"];
        let is_folder = words.contains(&"csv");
        let _ = std::fs::create_dir(folder.join("tables"));
        for link in ["soft", "hard", "tables/a.csv"] {
            let _ = std::fs::remove_file(folder.join(link));
        }
        symlink(folder.join(input), folder.join("soft")).unwrap();
        std::fs::hard_link(folder.join(input), folder.join("hard")).unwrap();
        std::fs::hard_link(folder.join(input), folder.join("tables/a.csv")).unwrap();
        if is_folder {
            names = vec!["tables"];
        }
        for name in names {
            for force in [&[][..], &["--force"]] {
                let output = khz(folder, &[words, &[name], force].concat());
                assert_eq!(output.status.code(), Some(2), "{words:?} {name}: {}", stderr(&output));
                let error = stderr(&output);
                assert!(
                    error.contains("read by this command and never overwritten"),
                    "{words:?} {name}: {error}"
                );
                assert!(std::fs::read(folder.join(input)).unwrap() == before, "{words:?} {name}");
            }
        }
    }
}

#[test]
fn a_page_that_chooses_its_name_spares_what_is_read() {
    let bench = bench();
    let folder = bench.path();
    std::fs::copy(folder.join("results.json"), folder.join("report.html")).unwrap();
    let output = khz(folder, &["compare", "report.html", "--force"]);
    assert!(stdout(&output).contains("written to report-1.html"), "{}", stderr(&output));
    assert!(std::fs::read_to_string(folder.join("report.html")).unwrap().starts_with('{'));
}

#[test]
fn a_run_keeps_a_page_beside_its_log_and_numbers_its_own() {
    let bench = bench();
    let folder = bench.path();
    std::fs::write(folder.join("notes.html"), "another file").unwrap();
    for number in 1..3 {
        let output = khz(folder, &[&RUN[..], &["--log", "notes.tlog", "--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        // The second run's log is `notes-1.tlog`.
        let report = if number == 1 { "notes-1.html" } else { "notes-1-1.html" };
        assert_eq!(run["report"], report);
        assert!(std::fs::read_to_string(folder.join(report)).unwrap().contains("<html"));
    }
    assert_eq!(std::fs::read_to_string(folder.join("notes.html")).unwrap(), "another file");
}

#[test]
fn a_page_of_results_without_a_name_gets_one_that_is_free() {
    let bench = bench();
    let folder = bench.path();
    for name in ["report.html", "report-1.html"] {
        let output = khz(folder, &["compare", "results.json"]);
        assert!(stdout(&output).contains(&format!("written to {name}")));
        assert!(folder.join(name).exists());
    }
}

fn is_whole(log: PathBuf) -> bool {
    khz_tlog::Reader::open(std::fs::File::open(log).unwrap()).unwrap().is_finished()
}

#[test]
fn a_log_named_like_its_report_is_not_destroyed() {
    let bench = bench();
    let folder = bench.path();
    let named = PAN.to_owned() + "[log]\npath = \"file.html\"\n";
    std::fs::write(folder.join("named.toml"), named).unwrap();
    let flag = [&RUN[..], &["--log", "flag.html"]].concat();
    for (words, log, report) in [
        (flag, "flag.html", "flag-1.html"),
        (vec!["run", "named.toml", "--virtual", "--duration", "100ms"], "file.html", "file-1.html"),
    ] {
        let output = khz(folder, &words);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
        assert!(is_whole(folder.join(log)), "{text}");
        assert!(text.contains(report), "{text}");
        assert!(std::fs::read_to_string(folder.join(report)).unwrap().contains("<html"));
    }
}

#[test]
fn a_report_with_the_name_of_the_log_is_refused_before_the_robot_moves() {
    let bench = bench();
    let folder = bench.path();
    std::fs::create_dir(folder.join("logs")).unwrap();
    symlink("logs", folder.join("same")).unwrap();
    let around = format!("{}/logs/x", folder.display());
    for (log, report) in [("x", "x"), ("x", "./x"), ("logs/x", "same/x"), ("logs/x", around.as_str())] {
        for force in [&[][..], &["--force"]] {
            let output = khz(folder, &[&RUN[..], &["--log", log, "--report", report], force].concat());
            assert_eq!(output.status.code(), Some(2), "{log} {report}: {}", stderr(&output));
            assert!(stderr(&output).contains("is the log, too"), "{}", stderr(&output));
        }
    }
    assert!(!folder.join("x").exists() && !folder.join("logs/x").exists());
    // The second log is `x-1.tlog`; even `--force` does not write the report over it.
    std::fs::write(folder.join("x.tlog"), "another file").unwrap();
    let words = [&RUN[..], &["--log", "x.tlog", "--report", "x-1.tlog", "--force", "--json"]].concat();
    let output = khz(folder, &words);
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&run["log"], &run["report"]), (&"x-1.tlog".into(), &"x-1-1.tlog".into()));
    assert!(is_whole(folder.join("x-1.tlog")));
}

#[test]
fn two_outputs_of_one_name_are_refused() {
    let bench = bench();
    for words in [
        [&JITTER[..], &["--save", "a", "--html", "./a"]].concat(),
        vec!["rtt", "send", "127.0.0.1", "--save", "a", "--report", "a"],
        vec!["rtt", "send", "127.0.0.1", "--log", "a", "--report", "a"],
    ] {
        let output = khz(bench.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains("are one file"), "{}", stderr(&output));
    }
    assert!(!bench.path().join("a").exists());
}
