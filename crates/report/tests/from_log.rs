//! A run and its log are judged alike.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_file::RobotConfig;
use khz_report::run::{RunSummary, from_log};
use khz_robot::launch::{Launch, LaunchOptions};

const ROBOT: &str = r#"
    [robot]
    name = "two"
    [loop]
    rate_hz = 500
    clock = "virtual"
    [bus.main]
    link = "emulated"
    [[servo]]
    name = "hip"
    bus = "main"
    id = 1
    limits = { position = [-1.0, 1.0], velocity = 4.0, torque = 1.0 }
    [[servo]]
    name = "knee"
    bus = "main"
    id = 2
    limits = { position = [-1.0, 1.0], velocity = 4.0, torque = 1.0 }
    [controller]
    name = "hold"
"#;

/// The verdicts of a run in virtual time and of its log.
fn verdicts(more: &str, stopped: bool) -> [khz_page::Verdict; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tlog");
    let text = format!("{ROBOT}\n{more}\n[log]\npath = \"{}\"\n", path.display());
    let config = RobotConfig::parse(&text, "two.toml").unwrap_or_else(|error| panic!("{error}"));
    let options = LaunchOptions { duration_ns: Some(1_500_000_000), ..LaunchOptions::default() };
    options.stop.store(stopped, std::sync::atomic::Ordering::Relaxed);
    let outcome = Launch::start(&config, &text, options).unwrap().wait().unwrap();
    let summary = RunSummary::of(&config, &outcome);
    let log = from_log(&[path]).unwrap();
    assert_eq!(log.missing, [""; 0], "{more}");
    [summary.verdict, log.data.verdict]
}

#[test]
fn a_log_is_judged_as_its_run() {
    let lost = "[bus.main.faults]\nloss = 0.01";
    let silent = "[bus.main.faults]\nevents = [{ at_s = 0.9, kind = \"silence\", id = 2 }]";
    let slow = "[bus.main.faults]\ndelay_us = 1900";
    let mut texts = Vec::new();
    for (more, stopped) in [("", false), (lost, false), (silent, false), (slow, false), ("", true)] {
        let [run, mut log] = verdicts(more, stopped);
        let unlogged = log.reasons.pop().unwrap();
        assert!(unlogged.starts_with("A log does not say"), "{unlogged}");
        assert_eq!(run, log, "{more}");
        texts.push(run.text);
    }
    assert!(texts[0].starts_with("Held 500 Hz of virtual time"), "{}", texts[0]);
    assert!(texts[1].contains("missed"), "{}", texts[1]);
    assert!(texts[2].starts_with("Came down after") && texts[2].contains("knee on bus main"), "{}", texts[2]);
}

/// All eight were reported as late, because a log counts further replies to one query as late ones; and no servo was named.
#[test]
fn a_log_does_not_take_duplicates_for_the_replies_that_a_silent_servo_owes() {
    let faults = "duplicate = 0.02\nevents = [{ at_s = 0.8, for_s = 0.015, kind = \"silence\", id = 2 }]";
    let [run, log] = verdicts(&format!("[bus.main.faults]\n{faults}"), false);
    for verdict in [&run, &log] {
        let text = &verdict.text;
        assert!(
            text.contains("missed 8 replies") || text.contains("8 replies were missed by knee"),
            "{text}"
        );
        assert!(text.contains("khz bus scan") || text.contains("check power"), "{text}");
        assert!(!text.contains("khz budget"), "{text}");
    }
    assert!(
        log.reasons.iter().any(|reason| reason.contains("late or duplicates: a log does not tell")),
        "{log:?}"
    );
}

/// Where no reply was ever missed, none can be late: it was "23 replies were late or duplicates: a log does not tell which".
#[test]
fn a_log_of_duplicates_alone_says_so_in_the_words_of_its_run() {
    let [run, log] = verdicts("[bus.main.faults]\nduplicate = 0.02", false);
    assert!(run.text.contains("duplicates: two servos may have the same id"), "{}", run.text);
    assert_eq!(run.text, log.text);
}

/// The emulated buses are one link: it was "the link of buses main, right is down".
#[test]
fn of_buses_that_share_a_link_the_one_that_is_down_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tlog");
    let right = "[bus.right]\nlink = \"emulated\"\n[bus.right.faults]\nevents = [{ at_s = 0.8, kind = \"bus_off\" }]\n\
                 [[servo]]\nname = \"toe\"\nbus = \"right\"\nid = 1\n";
    let text = format!("{ROBOT}\n{right}\n[log]\npath = \"{}\"\n", path.display());
    let config = RobotConfig::parse(&text, "two.toml").unwrap_or_else(|error| panic!("{error}"));
    let options = LaunchOptions { duration_ns: Some(1_500_000_000), ..LaunchOptions::default() };
    let outcome = Launch::start(&config, &text, options).unwrap().wait().unwrap();
    let summary = RunSummary::of(&config, &outcome);
    let log = from_log(&[path]).unwrap().data;
    let of_run: Vec<String> = summary.events.iter().map(|event| event.cause.clone()).collect();
    let of_log: Vec<String> =
        log.events.iter().map(|event| format!("{} {}", event.what, event.detail)).collect();
    for message in [of_run, of_log] {
        assert!(message.iter().any(|message| message.contains("bus right is down")), "{message:?}");
        assert!(!message.iter().any(|message| message.contains("the link of buses")), "{message:?}");
    }
}

/// What was lost is counted, and the cycles in which it was not queried are reported beside it.
#[test]
fn a_servo_that_is_asked_nothing_after_a_miss_has_missed_one_reply() {
    // No bus has two families.
    let cubemars = "family = \"cubemars\"\nid = 2\nlimits = { position = [-1.0, 1.0], velocity = 4.0 }\ncubemars = { model = \"AK80-9\", unwatched = true, kp = 30, kd = 1 }\n";
    let limits = "id = 2\n    limits = { position = [-1.0, 1.0], velocity = 4.0, torque = 1.0 }\n";
    let text = ROBOT
        .replace(limits, cubemars)
        .replace(&limits.replace("id = 2", "id = 1"), &cubemars.replace("id = 2", "id = 1"));
    let text = format!("{text}\n[bus.main.faults]\nevents = [{{ at_s = 0.9, kind = \"silence\", id = 2 }}]");
    let config = RobotConfig::parse(&text, "two.toml").unwrap_or_else(|error| panic!("{error}"));
    let options = LaunchOptions { duration_ns: Some(1_500_000_000), ..LaunchOptions::default() };
    let outcome = Launch::start(&config, &text, options).unwrap().wait().unwrap();
    let summary = RunSummary::of(&config, &outcome);
    assert!(
        summary.verdict.text.contains("no reply in time for 10 ticks (knee on bus main)"),
        "{}",
        summary.verdict.text
    );
    // After each it was asked nothing in three ticks.
    assert_eq!(summary.controlled.missed_replies, 3);
    let knee = &summary.servos[1];
    assert!(knee.missed > 10 && knee.quiet > 0 && knee.sent < knee.replied + knee.missed, "{knee:?}");
    assert!(!summary.verdict.text.contains("khz budget"), "{}", summary.verdict.text);
}
