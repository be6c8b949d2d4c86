//! The fit finds what recordings were made of, reports what it cannot determine, and refuses what is no recording.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be read fails the test")]

use khz_identify::model::Step;
use khz_identify::recording::{Rig, Sample, TorqueCommand};
use khz_identify::{Columns, Friction, Model, Recording, Split, identify};

/// Made with `motion` as goals, 4 s at 200 Hz, on a pendulum.
fn asked(name: &str, mass: f64, motion: impl Fn(f64) -> f64) -> Recording {
    let sample = |index: i32| {
        let time_s = f64::from(index) * 0.005;
        Sample { time_s, goal: motion(time_s), on: true, measured: true, ..Sample::default() }
    };
    Recording {
        name: name.to_owned(),
        condition: format!("{mass} kg"),
        samples: (0..800).map(sample).collect(),
        rig: Some(Rig { inertia: mass * 0.0144, gravity: mass * 0.12 * 9.80665 }),
        kp: 32.0,
        supply_v: 12.0,
        ..Recording::default()
    }
}

fn motions() -> Vec<Recording> {
    vec![
        asked("a", 0.5, |t| 1.2 * (2.0 * t).sin() + 0.4 * (9.0 * t).sin()),
        asked("b", 0.5, |t| 1.2 * (2.0 * t).sin() + 0.4 * (9.0 * t).sin()),
        asked("c", 1.0, |t| if (t % 1.0) < 0.5 { 1.0 } else { -0.6 }),
        asked("d", 1.0, |t| (t * t * 2.0).sin()),
    ]
}

/// The recordings as this servo makes them, on an encoder of 4096 steps.
fn made_by(model: &Model, values: &[f64], asked: &[Recording]) -> Vec<Recording> {
    let make = |recording: &Recording| {
        let mut positions = Vec::new();
        model.simulate(values, recording, Step(100e-6), &mut positions);
        let mut made = recording.clone();
        let grid = std::f64::consts::TAU / 4096.0;
        made.samples.iter_mut().zip(&positions).for_each(|(s, p)| s.position = (p / grid).round() * grid);
        made
    };
    asked.iter().map(make).collect()
}

/// Values by name; the rest as the middle of where starts are taken from.
fn values(model: &Model, known: &[(&str, f64)]) -> Vec<f64> {
    let value = |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    model.parameters.iter().map(|p| value(p.name).unwrap_or(0.5 * (p.starts[0] + p.starts[1]))).collect()
}

const SERVO: [(&str, f64); 10] = [
    ("kt", 0.9),
    ("stall_torque", 4.0),
    ("sag", 0.0),
    ("gain", 0.2),
    ("goal_speed", 4.8),
    ("delay_ms", 35.0),
    ("armature", 0.006),
    ("gravity_at", 0.01),
    ("viscous", 0.05),
    ("coulomb", 0.05),
];

#[test]
fn a_servo_is_found_and_unseen_motion_is_met() {
    let asked = motions();
    let model = Model::of(&asked.iter().collect::<Vec<_>>(), Friction::M3);
    let recordings =
        made_by(&model, &values(&model, &[&SERVO[..], &[("load_friction", 0.1)]].concat()), &asked);
    let found = identify(&recordings, Friction::M3, Split::EveryOther, 1, |_| {});
    let of = |name: &str| found.parameters.iter().find(|parameter| parameter.name == name).unwrap();
    assert!((of("delay_ms").value - 35.0).abs() < 3.0, "{:?}", of("delay_ms"));
    assert!((of("goal_speed").value / 4.8 - 1.0).abs() < 0.1, "{:?}", of("goal_speed"));
    assert!(of("delay_ms").determined && of("goal_speed").determined);
    let unseen = found.error(|score| !score.fitted).unwrap();
    assert!(unseen < 0.01, "{unseen}, {:?}", found.parameters);
    assert_eq!(found.scores.iter().filter(|score| score.fitted).count(), 2);
    assert!(!found.is_unseen(&found.scores[1]) && !found.is_unseen(&found.scores[3]));
}

#[test]
fn what_the_data_do_not_determine_is_named() {
    // So slow that neither delay nor limit nor inertia matter.
    let asked = vec![asked("slow", 0.5, |t| 0.2 * (0.5 * t).sin())];
    let model = Model::of(&asked.iter().collect::<Vec<_>>(), Friction::M1);
    let recordings = made_by(&model, &values(&model, &SERVO), &asked);
    let found = identify(&recordings, Friction::M1, Split::All, 1, |_| {});
    let determined =
        |name: &str| found.parameters.iter().find(|p| p.name == name).is_some_and(|p| p.determined);
    assert!(!determined("goal_speed") && !determined("armature"), "{:?}", found.parameters);
}

#[test]
fn a_joint_with_torque_control_is_found_without_a_rig() {
    let torque = Some(TorqueCommand { kp: 20.0, kd: 0.5, velocity: 0.0, torque: 0.0, most: 10.0 });
    let mut asked = motions();
    for recording in &mut asked {
        recording.rig = None;
        recording.samples.iter_mut().for_each(|sample| sample.torque = torque);
    }
    let model = Model::of(&asked.iter().collect::<Vec<_>>(), Friction::M1);
    let servo = [
        ("inertia", 0.03),
        ("gravity", 0.8),
        ("gravity_at", 0.0),
        ("viscous", 0.05),
        ("coulomb", 0.1),
        ("delay_ms", 2.0),
    ];
    let recordings = made_by(&model, &values(&model, &servo), &asked);
    let found = identify(&recordings, Friction::M1, Split::EveryOther, 1, |_| {});
    for (name, value) in [("inertia", 0.03), ("gravity", 0.8)] {
        let of = found.parameters.iter().find(|parameter| parameter.name == name).unwrap();
        assert!((of.value / value - 1.0).abs() < 0.1 && of.determined, "{of:?}");
    }
}

fn refused(text: &str) -> String {
    Recording::from_csv("x.csv", text, &Columns::default(), 12.0).unwrap_err().to_string()
}

fn csv(line: impl Fn(i32) -> String) -> String {
    let lines: Vec<String> = (0..40).map(line).collect();
    format!("time,goal,position\n{}\n", lines.join("\n"))
}

#[test]
fn what_is_no_recording_is_refused_with_the_reason() {
    assert!(refused("").contains("it is empty"));
    assert!(refused("a,b\n1,2\n").contains("no column `time`; it has `a`, `b`"));
    assert!(refused("time,goal,position\n0,0,0\n").contains("1 samples"));
    assert!(refused(&csv(|n| format!("{},0,x", n))).contains("line 2"));
    assert!(refused(&csv(|n| format!("{},0,nan", n))).contains("not finite"));
    assert!(
        refused(&csv(|n| format!("{},0,1.5", f64::from(n) * 0.01))).contains("nothing can be identified")
    );
    assert!(
        refused(&csv(|n| format!("{},0,{n}", f64::from(-n) * 0.01)))
            .contains("does not advance after sample 0")
    );
    assert!(refused(&csv(|n| format!("{n}000,0,{n}"))).contains("seconds"));
    assert!(refused(&csv(|n| format!("{},0,{}", f64::from(n) * 0.01, n * 90))).contains("degrees"));
}

#[test]
fn bams_json_is_read_and_what_is_missing_named() {
    let entry = |n: i32| {
        format!(
            r#"{{"timestamp": {}, "goal_position": 0.1, "position": {}, "speed": 0.5, "torque_enable": {}}}"#,
            f64::from(n) * 0.01,
            f64::from(n) * 0.002,
            n < 30
        )
    };
    let entries: Vec<String> = (0..40).map(entry).collect();
    let text = format!(
        r#"{{"mass": 0.5, "arm_mass": 0.3, "length": 0.1, "kp": 32, "vin": 12.0, "motor": "sts3250", "entries": [{}]}}"#,
        entries.join(",")
    );
    let recording = Recording::from_bam("a.json", &text).unwrap();
    assert_eq!(
        (recording.samples.len(), recording.samples[29].on, recording.samples[30].on),
        (40, true, false)
    );
    assert_eq!((recording.kp, recording.supply_v, recording.velocity), (32.0, 12.0, 0.5));
    let rig = recording.rig.unwrap();
    assert!((rig.inertia - 0.006).abs() < 1e-12 && (rig.gravity - 0.65 * 0.1 * 9.80665).abs() < 1e-12);
    let error = Recording::from_bam("a.json", &text.replace("\"kp\"", "\"gain\"")).unwrap_err();
    assert_eq!(error.to_string(), "a.json: it needs `kp`, a number above 0");
    assert!(Recording::from_bam("a.json", "[").is_err());
}
