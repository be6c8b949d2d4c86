//! What a run of the controller `targets` reports of its senders: as it ran, and from its log alone.

use khz_report::run::from_log;
use khz_tlog::{Reader, Value};
use kilohertz::targets::{Points, Program, Sender};
use kilohertz::{Observer, Robot, Tick};
use std::fs::File;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const ARM: &str = r#"
    [bus.arm]
    link = "emulated"
    [servo_defaults]
    bus = "arm"
    limits = { position = [-1.5, 1.5], velocity = 3, acceleration = 30, jerk = 3000 }
    [[servo]]
    name = "shoulder"
    id = 1
    [[servo]]
    name = "elbow"
    id = 2
    [controller]
    name = "targets"
    [supervisor.reactions]
    targets = "warn"
"#;

/// Sends as if it were beside the loop, at times that are the same in every run.
struct Policy {
    program: Receiver<[Program; 2]>,
    programs: Option<[Program; 2]>,
    every: u64,
}

impl Observer for Policy {
    fn tick(&mut self, tick: &Tick<'_>) {
        let number = tick.record.number;
        let programs = self.programs.get_or_insert_with(|| self.program.recv().expect("both"));
        let now_ns = programs[0].now_ns();
        let position = 0.3 * (now_ns as f64 * 2e-9).sin();
        // Nothing for a while, then on again.
        if number > 500 && number.is_multiple_of(self.every) && !(1500..1900).contains(&number) {
            let beyond = if number > 2000 { 7.0 } else { position };
            let _ = programs[0].send(&Points::new(vec![now_ns], vec![vec![position, beyond]]));
        }
        if number == 1000 {
            let _ = programs[1].send(&Points::new(vec![now_ns], vec![vec![0.0; 2]]));
        }
    }
}

#[test]
fn a_log_reports_of_targets_what_the_run_itself_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("arm.tlog");
    let (send, program) = channel();
    let robot = Robot::parse(ARM, "arm.toml").expect("a right file").log(&log);
    let robot = robot.duration(Duration::from_secs(3)).virtual_time();
    let run = robot.observer(Policy { program, programs: None, every: 33 }).start().expect("it starts");
    let both = ["policy", "other"].map(|name| run.targets(Sender::new(name)).expect("it follows targets"));
    send.send(both).expect("it runs");
    let summary = run.finish().expect("it ran").summary;
    let text = &summary.verdict.text;
    let replayed = from_log(std::slice::from_ref(&log)).expect("a log");
    let fared = summary.targets.clone().expect("it follows targets");
    assert_eq!(Some(&fared), replayed.targets.as_ref());
    // Each 33 ms, but for 429 ms once; each was expected 1.25 of these after the one before.
    let late_ms = fared.lateness_ns.max as f64 * 1e-6;
    assert!((late_ms - (429.0 - 1.25 * 33.0)).abs() < 2.0, "{late_ms} ms late");
    assert_eq!([fared.waits, fared.silences, fared.refused_by["held"]], [1, 0, 1], "{:?}", fared.refused_by);
    assert_eq!(fared.cadence_ns.p50 / 1_000_000, 33);
    assert!((79..=81).contains(&fared.held_over) && fared.held_over == fared.held_over_in_a_row, "{fared:?}");
    let [of_run, of_log] = [text.clone(), replayed.data.verdict.text]
        .map(|text| text[text.find("Targets of policy").unwrap_or_else(|| panic!("{text}"))..].to_owned());
    assert_eq!(of_run, of_log);
    for words in ["carried over for", "stood still for want of them 1 time", "1 held", "cut to the limits"] {
        assert!(of_run.contains(words), "{words}: {of_run}");
    }
    let (mut aims, mut messages, mut reader) = (0, 0, Reader::open(File::open(&log).unwrap()).unwrap());
    while let Some(item) = reader.next().unwrap() {
        let value = item.value().unwrap();
        let number = |of: &str, field: &str| {
            let servo = value.at(of).unwrap_or(Value::Null);
            servo.at(field).and_then(|value| value.number()).unwrap_or(f64::NAN)
        };
        match item.record.name() {
            "targets" => messages += 1,
            "aim" => {
                aims += 1;
                let [target, offset, both] =
                    ["target", "offset", "reference"].map(|field| number("elbow", field));
                assert!((target + offset - both).abs() < 1e-6, "{target} {offset} {both}");
            }
            _ => {}
        }
    }
    assert!(messages > 50 && aims > 2000, "{messages} messages, {aims} ticks");
}
