//! `khz policy`, and what `khz check` says of a robot that a policy moves.
#![allow(clippy::unwrap_used)]

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

/// The robot file names the same hash.
#[test]
fn its_section_names_what_is_missing() {
    let section = text(&khz(&["policy", "toml", MODEL]).stdout);
    let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_policy.toml"))
        .unwrap();
    let hash = section.lines().find(|line| line.starts_with("sha256")).unwrap();
    assert!(file.contains(hash), "{section}");
    assert!(section.contains("joints = []  # not in the model: the 3 joints"), "{section}");
}

#[test]
fn what_is_no_model_is_refused() {
    for (file, says) in [
        ("README.md", "README.md: not an ONNX model, or damaged: byte "),
        ("none.onnx", "cannot read none.onnx: "),
    ] {
        let refused = khz(&["policy", "show", file]);
        assert!(matches!(refused.status.code(), Some(1 | 2)) && refused.stdout.is_empty());
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
}

#[test]
fn check_and_run_say_what_does_not_fit_before_anything_moves() {
    let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_policy.toml"))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/models/arm_policy.onnx");
    for (from, to, says) in [
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
            let said = khz(words);
            assert!(!said.status.success() && text(&said.stderr).contains(says), "{}", text(&said.stderr));
        }
    }
}
