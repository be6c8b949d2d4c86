//! What a model says of itself, as a section of a robot file.

use crate::onnx::Graph;
use khz_controllers::policy::draft;
use khz_policy::Model;

fn drafted(metadata: &[(&str, &str)]) -> String {
    let graph =
        Graph::default().input("obs", &[1, 2]).output("actions", &[1, 2]).node("Neg", &["obs"], &["actions"]);
    draft(&Model::parse(&graph.file_saying(17, metadata)).expect("a model"), "a.onnx", "00")
}

#[test]
fn what_exporters_write_is_taken() {
    let text = drafted(&[
        ("joint_names", "knee,hip"),
        ("default_joint_pos", "0.100,-0.200"),
        ("action_scale", "0.547,0.439"),
        ("joint_stiffness", "40.000,99.098"),
        ("observation_names", "base_ang_vel,dof_pos,actions,height_scan"),
        ("observation_history_lengths", "5.000,1.000,5.000,1"),
    ]);
    let expected = r#"[controller]
name = "policy"
model = "a.onnx"
sha256 = "00"
rate_hz = 50  # not in the model: 1 / (time step × decimation) of the training
joints = ["knee", "hip"]  # the model's joint_names
default = [0.1, -0.2]  # the model's default_joint_pos

[[controller.observe]]
term = "base_ang_vel"  # the model's "base_ang_vel"; its clip and scale are not in the model
history = 5

[[controller.observe]]
term = "joint_pos"  # the model's "dof_pos"; its clip and scale are not in the model

[[controller.observe]]
term = "last_action"  # the model's "actions"; its clip and scale are not in the model
history = 5

# the model's "height_scan": no term is known by this name
[[controller.observe]]
term = "constant"

[controller.action]
scale = [0.547, 0.439]  # the model's action_scale
# joint_stiffness of the model: set `kp` of the servos to 40, 99.098
"#;
    assert_eq!(text, expected);
}

#[test]
fn what_a_model_does_not_say_is_named() {
    let text = drafted(&[("default_joint_pos", "nan,1"), ("action_scale", "half")]);
    for line in [
        "joints = []  # not in the model: the 2 joints by the names of your servos",
        "default = []  # not in the model: the default posture, rad",
        "scale = []  # not in the model: the scale of actions, rad",
        "# not in the model: the terms of its 2 numbers, one table each, in order",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}

#[test]
fn no_name_is_more_than_text() {
    let text = drafted(&[("joint_names", "a\"]\n[servo]\\,b"), ("observation_names", "x\n[log]\u{1b}")]);
    assert!(text.contains(r#"joints = ["a\"]\u000a[servo]\\", "b"]"#), "{text}");
    assert!(text.lines().all(|line| !line.starts_with("[log]") && !line.starts_with("[servo]")), "{text}");
    assert!(!text.contains('\u{1b}'));
}
