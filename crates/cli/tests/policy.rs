//! `khz policy`, and `khz check` of a robot that a policy moves.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../policy/tests/all/onnx.rs"]
mod onnx;

use std::process::{Command, Output};

fn khz(arguments: &[&str]) -> Output {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    Command::new(env!("CARGO_BIN_EXE_khz")).args(arguments).current_dir(root).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const MODEL: &str = "robots/models/arm_policy.onnx";

#[test]
fn a_model_is_shown() {
    let shown = khz(&["policy", "show", MODEL]);
    let shown = text(&shown.stdout);
    for line in [
        "robots/models/arm_policy.onnx: 387 parameters, opset 17 by tests/policy",
        "  input      obs float32 [1, 20]",
        "  output     actions float32 [1, 3]",
        "  operators  1 Elu, 2 Gemm, 1 Tanh",
    ] {
        assert!(shown.lines().any(|found| found == line), "{shown}");
    }
}

/// Inputs and outputs belong together by their order, even if their names suggest otherwise.
#[test]
fn what_a_model_carries_is_shown() {
    let graph = onnx::Graph::default().input("obs", &[1, 2]).input("state", &[1, 2]);
    let graph = graph.output("actions", &[1, 2]).output("next", &[1, 2]);
    let graph = graph.node("Neg", &["obs"], &["actions"]).node("Neg", &["state"], &["next"]);
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("carries.onnx");
    std::fs::write(&model, graph.file()).unwrap();
    let shown = text(&khz(&["policy", "show", model.to_str().unwrap()]).stdout);
    assert!(shown.contains("\n  carried    state is what next was in the decision before\n"), "{shown}");
}

/// The robot file names the same hash.
#[test]
fn its_section_names_what_is_missing() {
    let printed = khz(&["policy", "toml", MODEL]);
    let (section, err) = (text(&printed.stdout), text(&printed.stderr));
    assert!(printed.status.code() == Some(1) && err.contains("the lines with `# not known`"), "{err}");
    let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_policy.toml"))
        .unwrap();
    let hash = section.lines().find(|line| line.starts_with("sha256")).unwrap();
    assert!(file.contains(hash), "{section}");
    assert!(section.contains("joints = []  # not known: the 3 joints"), "{section}");
}

/// A model of 20 numbers and 3 joints, and a file in the form of a trainer's with these terms, in a folder with a space in its name.
fn trained(terms: &str) -> (tempfile::TempDir, String, String) {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("my waves");
    std::fs::create_dir(&folder).unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/models/arm_policy.onnx");
    std::fs::copy(model, folder.join("waves.onnx")).unwrap();
    let descriptors = format!(
        "actions:\n- {{joint_names: [a, b, c_joint], scale: 0.4, offset: [0.2, -0.3, 0.1]}}\n\
        articulations: {{robot: {{joint_names: [c_joint, b, a], default_joint_pos: [0.1, -0.3, 0.2], \
        default_joint_stiffness: [1, 2, 3], default_joint_damping: [0.1, 0.2, 0.3]}}}}\n\
        observations:\n  policy:\n{terms}scene: {{dt: 0.02}}\n"
    );
    std::fs::write(folder.join("IO_descriptors.yaml"), descriptors).unwrap();
    let [folder, robot] = [folder.clone(), folder.join("robot.toml")].map(|path| path.display().to_string());
    (outer, folder, robot)
}

const TERMS: &str = "  - {name: joint_pos_rel, overloads: {history_length: 3}}\n  \
    - {name: joint_vel_rel, overloads: {scale: 0.05, history_length: 2}}\n  - {name: last_action, overloads: {}}\n  \
    - {name: gait_phase, params: {period: 2.0}}\n";

#[test]
fn a_robot_is_made_of_a_policy_and_the_file_beside_it() {
    let (_outer, folder, robot) = trained(TERMS);
    let made = khz(&["new", "--policy", &folder, &robot]);
    let shown = text(&made.stdout);
    assert!(made.status.success(), "{shown}{}", text(&made.stderr));
    assert!(shown.contains("understood:") && !shown.contains("not understood"), "{shown}");
    assert!(shown.contains("IO_descriptors.yaml") && shown.contains("default_joint_stiffness"), "{shown}");
    assert!(shown.ends_with(&format!("next:\n  khz check '{robot}'\n  khz run '{robot}' --duration 5s\n")));
    let checked = khz(&["check", &robot]);
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
    std::fs::remove_file(format!("{folder}/IO_descriptors.yaml")).unwrap();
    let made = khz(&["new", "--policy", &folder, &robot, "--force"]);
    assert!(!made.status.success() && text(&made.stdout).contains("not understood, or not there:"));
    std::fs::copy(format!("{folder}/waves.onnx"), format!("{folder}/other.onnx")).unwrap();
    let many = khz(&["new", "--policy", &folder, &robot, "--force"]);
    assert!(text(&many.stderr).contains("more than one model"), "{}", text(&many.stderr));
}

/// All of the file is understood; it is not this model's.
#[test]
fn what_check_refuses_of_a_new_file_is_reported_in_place_of_what_is_next() {
    let (_outer, folder, robot) = trained(&TERMS.replace("history_length: 3", "history_length: 2"));
    let made = khz(&["new", "--policy", &folder, &robot]);
    let (shown, err) = (text(&made.stdout), text(&made.stderr));
    assert_eq!(made.status.code(), Some(1), "{shown}{err}");
    assert!(err.contains("has 20 numbers, and the terms have 17"), "{err}");
    assert!(shown.contains("written: ") && !shown.contains("next:"), "{shown}");
    assert!(!shown.contains("not understood"), "{shown}");
}

/// One key of the trainer's file is not understood; all else is.
#[test]
fn a_file_of_guesses_does_not_run_until_its_owner_has_confirmed_them() {
    let (_outer, folder, robot) = trained(&format!("{TERMS}mystery: 1\n"));
    let made = khz(&["new", "--policy", &folder, &robot]);
    assert!(
        !made.status.success() && text(&made.stderr).contains("when its list `not_known` is empty"),
        "{}",
        text(&made.stderr)
    );
    for words in [&["check", &robot][..], &["run", &robot, "--virtual", "--duration", "1s"]] {
        let refused = khz(words);
        let said = text(&refused.stdout) + &text(&refused.stderr);
        assert!(!refused.status.success() && said.contains("delete it from the list:\n"), "{said}");
        assert!(said.contains("mystery: `1` has no meaning here that is known"), "{said}");
    }
    let written = std::fs::read_to_string(&robot).unwrap();
    let confirmed: Vec<_> = written.lines().filter(|line| !line.contains("mystery")).collect();
    std::fs::write(&robot, confirmed.join("\n")).unwrap();
    let checked = khz(&["check", &robot]);
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
}

/// The gains of the servos alone were shown.
#[test]
fn check_shows_the_gains_that_the_policy_commands() {
    let (_folder, robot, _) = arm(|text| {
        text.replace(
            "[controller.action]",
            "[controller.action]\nkp = [60.0, 20.0, 40.0]\nkd_scale = [0.5, 1.0, 1.0]",
        )
    });
    let checked = khz(&["check", &robot]);
    let shown = text(&checked.stdout);
    let gains = |name: &str| {
        let row = shown.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(
        gains("shoulder").ends_with(&["60 of 120".into(), "1.5 of 3".into()]),
        "{shown}{}",
        text(&checked.stderr)
    );
    assert!(gains("elbow").ends_with(&["20 of 80".into(), "2".into()]), "{shown}");
}

/// `params` is where unitree_rl_lab has its file, and its model lies elsewhere.
#[test]
fn a_folder_without_a_model_and_files_of_one_name_are_reported() {
    let (_outer, folder, robot) = trained(TERMS);
    let params = format!("{folder}/../params");
    std::fs::create_dir(&params).unwrap();
    let twin = format!("{params}/IO_descriptors.yaml");
    std::fs::copy(format!("{folder}/IO_descriptors.yaml"), &twin).unwrap();
    let refused = text(&khz(&["new", "--policy", &params, &robot]).stderr);
    let expected = "no `.onnx` in it, or in a folder of it; there is `IO_descriptors.yaml`: do you mean the folder above?";
    assert!(refused.contains(expected), "{refused}");
    let shown = text(&khz(&["new", "--policy", &folder, &robot]).stdout);
    assert!(shown.contains(&twin) && shown.contains(&format!("{folder}/IO_descriptors.yaml")), "{shown}");
}

#[test]
fn the_robot_of_a_urdf_gets_the_imu_that_its_policy_sees() {
    let terms =
        "  - {name: base_ang_vel}\n  - {name: projected_gravity}\n  - {name: last_action, overloads: {}}\n"
            .to_owned()
            + &TERMS
                .lines()
                .filter(|line| !line.contains("_vel") && !line.contains("last"))
                .collect::<Vec<_>>()
                .join("\n")
            + "\n";
    let (_outer, folder, robot) = trained(&terms);
    let joint = |name: &str| {
        format!(
            "<joint name=\"{name}\" type=\"revolute\"><parent link=\"base\"/><child link=\"of_{name}\"/><axis xyz=\"0 0 1\"/>\
            <limit lower=\"-2\" upper=\"2\" effort=\"3\" velocity=\"5\"/></joint><link name=\"of_{name}\"/>"
        )
    };
    let urdf =
        format!("<robot name=\"r\"><link name=\"base\"/>{}{}{}</robot>", joint("a"), joint("b"), joint("c"));
    let path = format!("{folder}/robot.urdf");
    std::fs::write(&path, urdf).unwrap();
    let made = khz(&["new", "--policy", &folder, "--urdf", &path, &robot]);
    assert!(made.status.success(), "{}{}", text(&made.stdout), text(&made.stderr));
    assert!(std::fs::read_to_string(&robot).unwrap().contains("[imu]\nlink = \"emulated\""));
    assert!(khz(&["check", &robot]).status.success());
}

#[test]
fn what_is_no_model_is_refused() {
    for (file, expected) in [
        ("README.md", "README.md: not an ONNX model, or damaged: byte "),
        ("none.onnx", "cannot read none.onnx: "),
    ] {
        let refused = khz(&["policy", "show", file]);
        assert!(matches!(refused.status.code(), Some(1 | 2)) && refused.stdout.is_empty());
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
}

#[test]
fn check_and_run_say_what_does_not_fit_before_anything_moves() {
    let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_policy.toml"))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/models/arm_policy.onnx");
    for (from, to, expected) in [
        (
            "history = 3",
            "history = 2",
            "has 20 numbers, and the terms have 17: phase 0..2, joint_pos 2..8 (3 × 2), joint_vel 8..14",
        ),
        ("sha256 = \"", "sha256 = \"00", "is another file than the one that was meant"),
    ] {
        let path = folder.path().join("robot.toml");
        std::fs::write(&path, file.replace("models/arm_policy.onnx", model).replace(from, to)).unwrap();
        let path = path.to_str().unwrap();
        for words in [&["check", path][..], &["run", path, "--virtual", "--duration", "1s"]] {
            let output = khz(words);
            assert!(
                !output.status.success() && text(&output.stderr).contains(expected),
                "{}",
                text(&output.stderr)
            );
        }
    }
}

/// The arm in a folder of its own, with a second of way to the default posture less, and a log.
fn arm(change: impl Fn(String) -> String) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let robots = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots");
    let file = std::fs::read_to_string(format!("{robots}/arm_policy.toml")).unwrap();
    let lines = file.lines().filter(|line| !line.starts_with("sha256")).collect::<Vec<_>>().join("\n");
    let [robot, log, model] = ["robot.toml", "run.tlog", "arm_policy.onnx"]
        .map(|name| folder.path().join(name).display().to_string());
    std::fs::write(
        &robot,
        change(lines.replace("models/arm_policy.onnx", &model).replace("start_s = 1.0", "start_s = 0.1")),
    )
    .unwrap();
    std::fs::copy(format!("{robots}/models/arm_policy.onnx"), model).unwrap();
    (folder, robot, log)
}

#[test]
fn decisions_are_made_again_bit_by_bit_and_one_flipped_bit_of_the_model_is_found() {
    let (folder, robot, log) = arm(|text| text);
    let run = khz(&["run", &robot, "--virtual", "--duration", "1s", "--log", &log]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let replay = || khz(&["replay", &log, "--robot", &robot]);
    let same = replay();
    assert!(
        same.status.success()
            && text(&same.stdout).contains("\n45 decisions made again, equal to the last bit\n"),
        "{}",
        text(&same.stdout)
    );

    let model = folder.path().join("arm_policy.onnx");
    let mut bytes = std::fs::read(&model).unwrap();
    // The lowest bit of a weight of the first layer, among the first of the initializers.
    bytes[400] ^= 1;
    std::fs::write(&model, bytes).unwrap();
    let other = replay();
    let out = text(&other.stdout);
    assert_eq!(other.status.code(), Some(1), "{out}");
    assert!(out.contains("the model is another one: c109f1371d8ad3"), "{out}");
    let end = "\ndifferent: the decisions are not those of the log; every command is within 1e-5 of the recorded one\n";
    assert!(out.ends_with(end), "{out}");
    assert!(
        out.contains(", of tick ")
            && out.contains(" differs: action for the joint `")
            && out.contains(" is 0x"),
        "{out}"
    );
}

/// As in a log that was cut before the first: nothing was compared.
#[test]
fn a_log_without_a_decision_has_none_that_was_made_again() {
    let (_folder, robot, log) = arm(|text| text);
    let run = khz(&["run", &robot, "--virtual", "--duration", "50ms", "--log", &log]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let out = text(&khz(&["replay", &log, "--robot", &robot]).stdout);
    assert!(out.contains("\nno decision is in the log, and none was made again\n"), "{out}");
}

/// Sqrt of what is beyond the first 0.6 s of its clock: no observation of the trial before the start is.
fn nan_model() -> Vec<u8> {
    let graph = onnx::Graph::default().input("obs", &[1, 2]).output("actions", &[1, 3]);
    let graph = graph.ints("cosine", &[1]).floats("most", &[1], &[4.0]).floats("zero", &[3], &[0.0; 3]);
    let graph = graph.node_with("Gather", &["obs", "cosine"], &["at"], &[onnx::whole("axis", 1)]);
    let graph = graph.node("Sub", &["most", "at"], &["left"]).node("Sqrt", &["left"], &["root"]);
    graph.node("Mul", &["root", "zero"], &["actions"]).file()
}

#[test]
fn verdict_log_report_and_replay_name_the_same_cause_of_a_policy_that_failed() {
    let (folder, robot, log) = arm(|text| {
        let (before, after) =
            (text.find("[[controller.observe]]").unwrap(), text.find("[controller.action]").unwrap());
        let term = "[[controller.observe]]\nterm = \"phase\"\nperiod_s = 2.0\nscale = [1, -5]\n";
        [&text[..before], term, &text[after..]].concat()
    });
    std::fs::write(folder.path().join("arm_policy.onnx"), nan_model()).unwrap();
    let run = khz(&["run", &robot, "--virtual", "--duration", "3s", "--log", &log]);
    let cause = "the controller failed: it says NaN for the joint `shoulder`";
    let verdict = text(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{verdict}");
    assert!(
        verdict.contains(cause) && verdict.contains("last `decision`") && !verdict.contains("printed"),
        "{verdict}"
    );
    let report = folder.path().join("again.html").display().to_string();
    let reported = khz(&["log", "report", &log, "-o", &report]);
    let page = std::fs::read_to_string(&report).unwrap_or_default();
    assert!(page.contains(cause) && page.contains("last `decision`"), "{}{page}", text(&reported.stderr));
    let events = text(&khz(&["log", "cat", "-r", "event", &log]).stdout);
    assert!(events.contains(cause), "{events}");
    let replay = khz(&["replay", &log, "--robot", &robot]);
    let out = text(&replay.stdout);
    assert!(
        replay.status.success() && out.contains("as recorded: it says NaN for the joint `shoulder`\n"),
        "{out}"
    );
    // Another controller goes on where it gave up.
    let other = text(&khz(&["replay", &log, "--robot", &robot, "--controller", "hold"]).stdout);
    assert!(
        other.contains("\nthe recorded controller gave up in tick ") && other.contains(": it says NaN for"),
        "{other}"
    );
}
