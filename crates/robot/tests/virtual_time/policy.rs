//! An emulated arm that a policy moves.

use crate::onnx::Graph;
use crate::rig::Rig;
use khz_file::RobotConfig;
use khz_loop::parameters::{Intake, LiveParameters};
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::timing::Clock;
use khz_robot::assemble;

/// Three joints; the elbow follows the sine of the policy's clock, and all are drawn to the posture.
const CONTROLLER: &str = r#"
[controller]
name = "policy"
model = "policy.onnx"
rate_hz = 50
joints = ["elbow", "shoulder", "wrist"]
default = [0.2, 0.1, -0.1]
start_s = 0.5
observe = [
    { term = "phase", period_s = 1.0 },
    { term = "joint_pos", history = 2 },
    { term = "last_action" },
    { term = "joint_pos", scale = [100] },
]
action = { scale = [0.3] }
"#;

/// Its action is the sine for the elbow, and a tenth of what it observes of the other two; NaN once the elbow is more than `most` centiradians
/// beyond the posture.
fn model(most: f32) -> Vec<u8> {
    let (inputs, mut weights) = (2 + 6 + 3 + 3, vec![0.0; 3 * 14]);
    (weights[0], weights[14 + 3], weights[28 + 4]) = (1.0, -0.1, -0.1);
    Graph::default()
        .input("obs", &[1, inputs])
        .output("actions", &[1, 3])
        .floats("w", &[3, inputs], &weights)
        .floats("most", &[1], &[most])
        .ints("elbow", &[11])
        .node_with("Gemm", &["obs", "w"], &["wanted"], &[crate::onnx::whole("transB", 1)])
        .node_with("Gather", &["obs", "elbow"], &["at"], &[crate::onnx::whole("axis", 1)])
        .node("Sub", &["most", "at"], &["left"])
        .node("Sqrt", &["left"], &["root"])
        .node("Sub", &["root", "root"], &["nothing"])
        .node("Add", &["wanted", "nothing"], &["actions"])
        .file()
}

/// Under control.
fn arm(most: f32) -> Rig {
    arm_of(CONTROLLER, &model(most)).0
}

/// With its live parameters.
fn arm_of(section: &str, model: &[u8]) -> (Rig, LiveParameters) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_targets.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let (before, after) = (text.find("[controller]").unwrap(), text.find("[log]").unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.onnx"), model).unwrap();
    let path = folder.path().join("arm.toml");
    let text = [&text[..before], section, &text[after..]].concat();
    let config = RobotConfig::parse(&text, &path.display().to_string()).unwrap();
    // What a log has is the same robot.
    assert_eq!(config.checked().unwrap().controller, config.controller);
    let mut controller = assemble::controller(&config.controller);
    controller.prepare(&assemble::info(&config)).unwrap();
    let (intake, live) = Intake::new(controller.parameters(), Clock::Virtual);
    let mut machine = assemble::machine(&config, controller).unwrap();
    machine.tune(intake);
    (Rig::under_control(machine), live)
}

/// Positions of all joints after so many ticks.
fn after(arm: &mut Rig, ticks: usize) -> Vec<f64> {
    (0..ticks).for_each(|_| arm.tick());
    arm.machine.state().servos.iter().map(|servo| servo.position).collect()
}

#[test]
fn an_arm_moves_as_its_policy_says_and_no_tick_allocates() {
    let mut arm = arm(1e9);
    let mut elbow: Vec<f64> = Vec::new();
    after(&mut arm, 600);
    for _ in 0..1000 {
        arm.tick_without_heap();
        elbow.push(arm.machine.state().servos[1].position);
    }
    assert_eq!(arm.machine.phase(), Phase::Active, "{:?} {:?}", arm.causes, arm.machine.failure());
    let [least, most] = [f64::min, f64::max].map(|of| elbow.iter().copied().reduce(of).unwrap());
    assert!((least + 0.1).abs() < 0.05 && (most - 0.5).abs() < 0.05, "{least} to {most}");
}

#[test]
fn two_runs_are_the_same_to_the_last_bit() {
    let run = || after(&mut arm(1e9), 3000).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    assert_eq!(run(), run());
}

/// The trial before the start does not find it: no observation within ±3 is that far out.
#[test]
fn a_policy_that_says_nan_brings_its_robot_down_with_the_name_of_the_joint() {
    let mut arm = arm(4.0);
    after(&mut arm, 2000);
    assert!(arm.causes.contains(&Cause::ControllerFailed), "{:?}", arm.causes);
    let failure = arm.machine.failure().map(ToString::to_string).unwrap_or_default();
    assert!(failure.contains("it says NaN for the joint `elbow`"), "{failure}");
    assert!(!matches!(arm.machine.phase(), Phase::Active | Phase::Armed), "{:?}", arm.machine.phase());
}

/// The model's action is its observation: the program's signals.
#[test]
fn an_arm_goes_where_a_program_sends_its_policy_until_that_is_silent() {
    let observed = "term = \"signal\", signals = [\"lift\", \"turn\", \"roll\"], max_age_s = 0.05";
    let before = CONTROLLER.find("observe").unwrap();
    let section = format!("{}observe = [{{ {observed} }}]\n", &CONTROLLER[..before]);
    let echo = Graph::default().input("obs", &[1, 3]).output("actions", &[1, 3]);
    let echo = echo.node("Identity", &["obs"], &["actions"]).file();
    let (mut arm, live) = arm_of(&section, &echo);
    for tick in 0..1000 {
        // All three are set by the same request.
        if tick % 20 == 0 {
            live.set_all("program", &[("lift", 0.3), ("turn", -0.2), ("roll", 0.0)]).unwrap();
        }
        arm.tick();
    }
    assert_eq!(arm.machine.phase(), Phase::Active, "{:?} {:?}", arm.causes, arm.machine.failure());
    // Elbow and shoulder beside their posture.
    let at = after(&mut arm, 1);
    assert!((at[1] - 0.5).abs() < 0.05 && (at[0] + 0.1).abs() < 0.05, "{at:?}");
    after(&mut arm, 100);
    let failure = arm.machine.failure().map(ToString::to_string).unwrap_or_default();
    assert!(failure.contains("its signal `lift` is 0.0") && failure.contains("silent"), "{failure}");
}
