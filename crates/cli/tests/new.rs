//! `khz new` as a person meets it: what it makes is right, and it overwrites nothing.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn khz(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_khz")).args(words).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const URDF: &str = r#"<robot name="two wheels"><link name="wheel"/>
<joint name="left" type="continuous"><child link="wheel"/><limit velocity="20" effort="2"/></joint>
<joint name="camera" type="revolute"><child link="wheel"/><limit lower="0.5" upper="2" velocity="5" effort="1"/></joint>
</robot>"#;

#[test]
fn what_is_made_is_checked_without_a_warning_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("robot.urdf"), URDF).unwrap();
    let origins = [
        ["--template", "pan_tilt"],
        ["--template", "leg3"],
        ["--template", "arm6"],
        ["--template", "openarm_like"],
        ["--template", "quadruped"],
        ["--from", "emulated"],
        ["--urdf", "robot.urdf"],
    ];
    // It was ignored.
    let refused = khz(folder, &["new", "--template", "leg3", "--family", "damiao"]);
    assert!(text(&refused.stderr).contains("cannot be used with"), "{}", text(&refused.stderr));
    for [origin, value] in origins {
        let made = khz(folder, &["new", origin, value, "--force"]);
        assert!(made.status.success(), "{value}: {}", text(&made.stderr));
        assert!(text(&made.stdout).contains("khz check robot.toml"), "{}", text(&made.stdout));
        let checked = khz(folder, &["check", "robot.toml"]);
        assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(0), String::new()), "{value}");
    }
    let run = khz(folder, &["run", "robot.toml", "--virtual", "--duration", "1s"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
}

#[test]
fn nothing_is_overwritten_and_of_a_project_nothing_is_written_then() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("leg")).unwrap();
    std::fs::write(folder.join("leg/controller.py"), "mine").unwrap();
    let words = ["new", "--template", "leg3", "--python", "leg"];
    let refused = khz(folder, &words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("leg/controller.py is there already"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(std::fs::read_dir(folder.join("leg")).unwrap().count(), 1);
    assert!(khz(folder, &[&words[..], &["--force"]].concat()).status.success());
    assert!(std::fs::read_to_string(folder.join("leg/controller.py")).unwrap().contains("import kilohertz"));
}

#[test]
fn a_rust_project_depends_on_the_crate_this_program_was_built_with() {
    let folder = tempfile::tempdir().unwrap();
    let made = khz(folder.path(), &["new", "--template", "pan_tilt", "--rust", "my-head"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let manifest = std::fs::read_to_string(folder.path().join("my-head/Cargo.toml")).unwrap();
    let crate_there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kilohertz").canonicalize().unwrap();
    assert!(
        manifest.contains(crate_there.to_str().unwrap()) && manifest.contains("name = \"my_head\""),
        "{manifest}"
    );
    let main = std::fs::read_to_string(folder.path().join("my-head/src/main.rs")).unwrap();
    assert_eq!(main, include_str!("../../kilohertz/examples/new_project.rs"));
    let nowhere =
        khz(folder.path(), &["new", "--template", "leg3", "--rust", "leg", "--kilohertz", "/no/such"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("--kilohertz") && !folder.path().join("leg").exists());
}

#[test]
fn what_cannot_be_made_says_why() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.urdf"), URDF.replace("\"20\"", "\"fast\"")).unwrap();
    for (words, expected) in [
        (&["--template", "leg"][..], "did you mean `leg3`?"),
        (&["--template", "xyzzy"], "the templates are"),
        (&["--urdf", "bad.urdf"], "bad.urdf: line 2: `velocity` is no number: `fast`"),
        (&["--urdf", "none.urdf"], "cannot read none.urdf"),
        (&["--urdf", "/dev/zero"], "cannot read /dev/zero: it is larger than 16 MiB"),
        (&["--from", "can0"], "did you mean socketcan:can0?"),
        (&[], "--template"),
    ] {
        let refused = khz(folder.path(), &[&["new"], words].concat());
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was made");
}
