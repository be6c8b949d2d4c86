//! The files of trainers, as a section of a robot file. The files are of our own making, in the forms of theirs.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
#[path = "../../policy/tests/all/onnx.rs"]
mod onnx;

use khz_controllers::policy::PolicyConfig;
use khz_controllers::policy::settings::{Layout, Order, Term};
use khz_file::RobotConfig;
use khz_file::config::ControllerConfig;
use khz_file::draft::model::Targets;
use khz_file::draft::policy::{Section, Source, of_policy, robot, with_policy};
use khz_policy::Model;
use onnx::Graph;

/// Two joints; an observation of so many numbers.
fn model(numbers: u64, metadata: &[(&str, &str)]) -> Model {
    let weights = vec![0.0; 2 * numbers as usize];
    let graph = Graph::default().input("obs", &[1, numbers]).output("actions", &[1, 2]);
    let graph = graph.floats("w", &[numbers, 2], &weights).node("MatMul", &["obs", "w"], &["actions"]);
    Model::parse(&graph.file_saying(17, metadata)).unwrap()
}

fn section(model: &Model, files: &[(&str, &str)], servos: Option<&[&str]>) -> Section {
    let files: Vec<_> = files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    let servos: Option<Vec<String>> =
        servos.map(|servos| servos.iter().map(|&name| name.to_owned()).collect());
    let numbers = model.inputs()[0].shape.iter().product();
    let (metadata, sha256) = (model.metadata(), "0".repeat(64));
    let source = Source { numbers, joints: 2, metadata, called: "a.onnx", sha256: &sha256, files: &files };
    of_policy(&source, servos.as_deref()).unwrap()
}

/// The policy of a robot of its joints alone, which is a right file.
fn policy(section: &Section) -> PolicyConfig {
    let text = robot(section, "made").text;
    let made = RobotConfig::parse(&text, "made.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let ControllerConfig::Policy(policy) = made.controller else { panic!("{text}") };
    *policy
}

fn terms(policy: &PolicyConfig) -> Vec<Term> {
    policy.observe.iter().map(|term| term.term).collect()
}

const UNITREE: &str = "
joint_ids_map: [1, 0]
step_dt: 0.02
stiffness: [10.0, 20.0]
damping: [1.0, 2.0]
default_joint_pos: [0.1, -0.2]
commands: {base_velocity: {ranges: {lin_vel_x: [-0.5, 1.0], lin_vel_y: [-0.3, 0.3], ang_vel_z: [-0.2, 0.2], heading: null}}}
actions:
  JointPositionAction: {clip: null, joint_names: [.*], scale: [0.25, 0.25], offset: [0.1, -0.2], joint_ids: !!python/object/apply:slice [null]}
observations:
  base_ang_vel: {params: {}, clip: null, scale: [0.2, 0.2, 0.2], history_length: 5}
  velocity_commands: {params: {}, clip: null, scale: [1.0, 1.0, 1.0], history_length: 5}
  gait_phase: {params: {period: 0.6}, clip: null, scale: null, history_length: 1}
  joint_pos_rel: {params: {}, clip: [-3, 3], scale: [1.0, 1.0], history_length: 5}
";

#[test]
fn of_unitree_gains_are_in_the_sdks_order_and_all_else_in_the_policys() {
    let model = model(42, &[]);
    let made = section(&model, &[("deploy.yaml", UNITREE)], Some(&["hip", "knee"]));
    assert!(made.is_complete, "{}", made.table);
    let text = with_policy(
        "[bus.a]\nlink = \"emulated\"\n[imu]\nlink = \"emulated\"\n[[servo]]\nname = \"hip\"\nbus = \"a\"\nid = 1\n[[servo]]\nname = \"knee\"\nbus = \"a\"\nid = 2\n[controller]\nname = \"hold\"\n",
        &made,
        Targets::Limited,
    )
    .text;
    let made = RobotConfig::parse(&text, "made.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let gains: Vec<_> = made.servos.iter().map(|servo| (servo.device.kp, servo.device.kd)).collect();
    assert_eq!(gains, [(10.0, 1.0), (20.0, 2.0)]);
    let ControllerConfig::Policy(policy) = made.controller else { panic!("{text}") };
    assert_eq!(
        (policy.joints.as_slice(), policy.default.as_slice()),
        (&["knee".to_owned(), "hip".to_owned()][..], &[0.1, -0.2][..])
    );
    assert_eq!(terms(&policy), [Term::BaseAngVel, Term::Command, Term::Phase, Term::JointPos]);
    let [rate, command, phase, angles] = &policy.observe[..] else { panic!() };
    assert_eq!((rate.scale.as_slice(), rate.history), (&[0.2][..], 5));
    assert_eq!(command.clip, [[-0.5, 1.0], [-0.3, 0.3], [-0.2, 0.2]]);
    assert_eq!((phase.period_s, phase.history, angles.clip.as_slice()), (0.6, 1, &[[-3.0, 3.0]][..]));
    assert_eq!(
        (policy.rate_hz, policy.action.scale.as_slice(), policy.action.offset.len()),
        (50.0, &[0.25][..], 0)
    );
    assert_eq!((policy.history.order, policy.history.layout), (Order::OldestFirst, Layout::Term));
}

/// Servos of every family but moteus got a `device`, which means nothing to them.
#[test]
fn only_moteus_servos_get_the_gains_and_the_others_say_where_they_would_go() {
    let section = section(&model(42, &[]), &[("deploy.yaml", UNITREE)], Some(&["hip", "knee"]));
    let servos = |family: &str| {
        format!(
            "[bus.a]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"a\"\nfamily = \"{family}\"\n\n# The hip.\n[[servo]]\n\
             name = \"hip\"\nid = 1\n\n[[servo]]\nname = \"knee\"\nid = 2\nfamily = \"moteus\"\n"
        )
    };
    for (family, expected) in [
        ("feetech", "which `position_p` of `feetech` is as stiff as in the training: kp 10.0 N·m/rad"),
        ("dynamixel", "which `position_p` of `dynamixel` is as stiff"),
        ("damiao", "suit this servo, `kp = 10.0` and `kd = 1.0` of `damiao`"),
    ] {
        let made = with_policy(&servos(family), &section, Targets::Limited);
        let text = &made.text;
        assert!(text.contains("\n# The hip.\n# not known: ") && text.contains(expected), "{text}");
        assert!(!made.is_complete && section.is_complete);
        assert!(
            text.contains("\nnot_known = [\n  \"gains: see above the servos hip\",\n]\nrate_hz"),
            "{text}"
        );
        let devices: Vec<_> = text.lines().filter(|line| line.starts_with("device")).collect();
        assert_eq!(devices, ["device = { kp = 20.0, kd = 2.0 }"], "{text}");
    }
    assert!(with_policy(&servos("moteus"), &section, Targets::Limited).is_complete);
}

/// Both are in files of unitree_rl_lab, and stood in the way of a policy that is understood completely otherwise.
#[test]
fn of_unitree_bounds_that_bound_nothing_and_the_keyboards_command_are_understood() {
    let text = UNITREE
        .replace("{clip: null, joint", "{clip: [[-100.0, 100.0], [-100.0, 100.0]], joint")
        .replace("  velocity_commands", "  keyboard_velocity_commands");
    let made = section(&model(42, NAMED), &[("deploy.yaml", &text)], Some(&["hip", "knee"]));
    assert!(made.is_complete && made.text.contains("term = \"command\""), "{}{}", made.table, made.text);
    let narrow = text.replace("[-100.0, 100.0]]", "[-1.0, 100.0]]");
    let made = section(&model(42, NAMED), &[("deploy.yaml", &narrow)], Some(&["hip", "knee"]));
    assert!(made.table.contains("clip: of the targets"), "{}", made.table);
}

/// A biped fell within the 2 s in which its joints moved to the posture in which they were.
#[test]
fn in_a_model_a_robot_on_its_feet_is_the_policys_at_once() {
    let made = section(&model(42, NAMED), &[("deploy.yaml", UNITREE)], Some(&["hip", "knee"]));
    let start_s = |body: &str, targets| {
        let text = format!(
            "[bus.a]\nlink = \"emulated\"\n[imu]\nlink = \"emulated\"\n{body}\n[[servo]]\nname = \"hip\"\nbus = \"a\"\nid = 1\n[[servo]]\nname = \"knee\"\nbus = \"a\"\nid = 2\n"
        );
        let text = with_policy(&text, &made, targets).text;
        let robot = RobotConfig::parse(&text, "made.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let ControllerConfig::Policy(policy) = robot.controller else { panic!("{text}") };
        policy.start_s
    };
    let fixed = "[body]\nkind = \"mujoco\"\nmodel = \"dog.xml\"";
    let free = format!("{fixed}\nimu_site = \"imu\"");
    assert_eq!([start_s("", Targets::Jump), start_s(fixed, Targets::Jump)], [2.0; 2]);
    assert_eq!([start_s(&free, Targets::Jump), start_s(&free, Targets::Limited)], [0.05, 2.0]);
}

/// There were no servos in the file then, which was of no use.
#[test]
fn of_unitree_alone_joints_have_the_numbers_of_the_maker_and_a_mark() {
    let made = section(&model(42, &[]), &[("deploy.yaml", UNITREE)], None);
    assert!(!made.is_complete && made.table.contains("names of joints"), "{}", made.table);
    assert!(made.text.contains("# not known: names of joints"), "{}", made.text);
    let text = robot(&made, "made").text;
    assert_eq!(policy(&made).joints, ["joint_2", "joint_1"]);
    let made = RobotConfig::parse(&text, "made.toml").unwrap();
    // As of the maker's second and first.
    let servos: Vec<_> = made.servos.iter().map(|servo| (servo.name.as_str(), servo.device.kp)).collect();
    assert_eq!(servos, [("joint_2", 20.0), ("joint_1", 10.0)]);
}

#[test]
fn of_a_model_alone_there_are_as_many_servos_as_joints() {
    let made = section(&model(42, &[]), &[], None);
    assert!(made.text.contains("joints = []  # not known"), "{}", made.text);
    let text = robot(&made, "made").text;
    assert_eq!(text.matches("[[servo]]\nname = \"joint_").count(), 2, "{text}");
    // In the robot's order, until the policy's is known.
    let made = section(&model(42, &[]), &[], Some(&["hip", "knee"]));
    assert!(
        made.text.contains("joints = [\"hip\", \"knee\"]  # not known") && !made.is_complete,
        "{}",
        made.text
    );
}

#[test]
fn of_isaac_lab_each_list_is_sorted_by_its_own_names() {
    let text = "
actions:
- {action_type: JointAction, name: joint_position_action, joint_names: [hip, knee], scale: 0.5, offset: [0.0, 0.4], clip: null}
articulations:
  robot:
    joint_names: [knee, hip]
    default_joint_pos: [0.4, 0.0]
    default_joint_stiffness: [80.0, 60.0]
    default_joint_damping: [2.0, 1.0]
observations:
  policy:
  - {name: projected_gravity, units: m/s^2, overloads: {clip: null, flatten_history_dim: true, history_length: 0, scale: null}, shape: [3]}
  - {name: joint_vel_rel, joint_names: [hip, knee], overloads: {clip: [-10, 10], history_length: 0, scale: 0.05}}
  - {name: last_action, overloads: {}}
scene: {decimation: 4, dt: 0.02, physics_dt: 0.005}
";
    let made = section(&model(7, &[]), &[("IO_descriptors.yaml", text)], None);
    assert!(made.is_complete, "{}", made.table);
    let policy = policy(&made);
    assert_eq!(
        (policy.joints.as_slice(), policy.default.as_slice()),
        (&["hip".to_owned(), "knee".to_owned()][..], &[0.0, 0.4][..])
    );
    let alone = robot(&made, "made").text;
    assert!(alone.contains("kp = 60.0, kd = 1.0"), "{alone}");
    assert_eq!(terms(&policy), [Term::ProjectedGravity, Term::JointVel, Term::LastAction]);
    assert_eq!(
        (policy.observe[1].clip.as_slice(), policy.observe[1].scale.as_slice()),
        (&[[-10.0, 10.0]][..], &[0.05][..])
    );
    let turned =
        text.replace("joint_vel_rel, joint_names: [hip, knee]", "joint_vel_rel, joint_names: [knee, hip]");
    let turned = section(&model(7, &[]), &[("IO_descriptors.yaml", &turned)], None);
    assert!(turned.table.contains("another order"), "{}", turned.table);
}

const RL_SAR: &str = "
go/robot_lab:
  num_observations: 10
  observations: [\"ang_vel\", \"commands\", \"dof_pos\", \"actions\"]
  observations_history: [0, 1]
  observations_history_priority: \"time\"
  clip_obs: 100.0
  clip_actions_lower: [-100, -100]
  clip_actions_upper: [100, 100]
  rl_kp: [40, 30]
  rl_kd: [1, 2]
  num_of_dofs: 2
  action_scale: [0.125, 0.25]
  wheel_indices: []
  ang_vel_scale: 0.25
  dof_pos_scale: 1.0
  commands_scale: [2.0, 2.0, 0.25]
  default_dof_pos: [0.1, 0.8]
  joint_mapping: [1, 0]
";
const RL_SAR_BASE: &str = "
go: {dt: 0.005, decimation: 4, num_of_dofs: 2, fixed_kp: [80, 80], default_dof_pos: [0.0, 9.0], joint_names: [FR_hip_joint, FL_hip_joint], joint_mapping: [0, 1]}
";

#[test]
fn of_rl_sar_frames_lie_by_time_and_it_clips_what_is_scaled() {
    let files = [("config.yaml", RL_SAR), ("../base.yaml", RL_SAR_BASE)];
    let made = section(&model(20, &[]), &files, None);
    assert!(made.is_complete, "{}", made.table);
    let policy = policy(&made);
    assert_eq!(policy.joints, ["FL_hip_joint", "FR_hip_joint"]);
    assert_eq!((policy.rate_hz, policy.default.as_slice()), (50.0, &[0.1, 0.8][..]));
    assert_eq!((policy.history.order, policy.history.layout), (Order::NewestFirst, Layout::Time));
    let [rate, command, _, _] = &policy.observe[..] else { panic!() };
    assert_eq!(
        (rate.clip.as_slice(), rate.scale.as_slice(), rate.history),
        (&[[-400.0, 400.0]][..], &[0.25][..], 2)
    );
    assert_eq!(command.clip, [[-50.0, 50.0], [-50.0, 50.0], [-400.0, 400.0]]);
    let turned = RL_SAR.replace(
        "[0, 1]\n  observations_history_priority: \"time\"",
        "[1, 0]\n  observations_history_priority: \"term\"",
    );
    let turned = section(&model(20, &[]), &[("config.yaml", &turned), ("base.yaml", RL_SAR_BASE)], None);
    assert!(turned.is_complete && !turned.text.contains("[controller.history]"), "{}", turned.text);
    let gaps = RL_SAR.replace("[0, 1]\n  obs", "[0, 3]\n  obs");
    let gaps = section(&model(20, &[]), &[("config.yaml", &gaps), ("base.yaml", RL_SAR_BASE)], None);
    assert!(gaps.table.contains("one after the other"), "{}", gaps.table);
}

#[test]
fn of_berkeley_the_terms_are_those_of_its_program() {
    let text = "
policy_dt: 0.04
num_joints: 2
joints: [left_hip_joint, left_knee_joint]
joint_kp: [20.0, 20.0]
joint_kd: [2.0, 2.0]
effort_limits: [5.0, 6.0]
default_joint_positions: [-0.2, 0.4]
history_length: 0
action_scale: 0.25
action_indices: [0, 1]
action_limit_lower: -10000
action_limit_upper: 10000
";
    let made = section(&model(15, &[]), &[("policy.yaml", text)], Some(&["Left_Hip", "left_knee"]));
    assert!(made.is_complete, "{}", made.table);
    assert!(made.text.contains("joints = [\"Left_Hip\", \"left_knee\"]"), "{}", made.text);
    let policy = policy(&made);
    assert_eq!((policy.rate_hz, policy.observe.len(), policy.action.clip[0]), (25.0, 6, [-10000.0, 10000.0]));
    let turned = section(&model(15, &[]), &[("policy.yaml", &text.replace("[0, 1]", "[1, 0]"))], None);
    assert!(turned.table.contains("action_indices"), "{}", turned.table);
}

#[test]
fn metadata_fills_gaps_and_what_contradicts_is_shown() {
    let metadata = [
        ("joint_names", "knee,hip"),
        ("default_joint_pos", "0.100,-0.200"),
        ("action_scale", "0.250,0.250"),
        ("joint_stiffness", "20.000,10.000"),
        ("joint_damping", "2.000,1.000"),
        ("observation_names", "base_ang_vel,velocity_commands,gait_phase,joint_pos"),
    ];
    let files = [("deploy.yaml", UNITREE.replace("[0.1, -0.2]\ncommands", "[0.1004, -0.2]\ncommands"))];
    let files = [(files[0].0, files[0].1.as_str())];
    let made = section(&model(42, &metadata), &files, None);
    // Rounded in the metadata.
    assert!(made.is_complete && made.text.contains("default = [0.1004, -0.2]"), "{}", made.table);
    let mut other = metadata;
    other[1] = ("default_joint_pos", "0.110,-0.200");
    let made = section(&model(42, &other), &files, None);
    assert!(made.table.contains("default: [0.1004, -0.2], and a.onnx: [0.11, -0.2]"), "{}", made.table);
}

#[test]
fn what_is_given_nowhere_is_named() {
    let metadata = [("default_joint_pos", "nan,1"), ("observation_names", "x\n[log]\u{1b},base_lin_vel")];
    let made = section(&model(2, &metadata), &[("notes.yaml", "a: 1")], None);
    assert!(!made.is_complete);
    for what in [
        "rate_hz",
        "joints",
        "default",
        "scale",
        "notes.yaml: a file of none",
        "`base_lin_vel` is measured by no IMU",
    ] {
        assert!(made.table.contains(what), "{what}: {}", made.table);
    }
    assert!(made.text.contains("[[controller.observe]]\nterm = \"signal\"\nsignals = "), "{}", made.text);
    assert!(!made.text.contains("\n[log]") && !made.table.contains('\u{1b}'), "{}", made.text);
    // Each is to be confirmed before it runs.
    let listed = policy(&made).not_known;
    assert_eq!(
        listed.len(),
        made.table.split("not there:\n").nth(1).unwrap_or_default().lines().count(),
        "{listed:?}"
    );
    assert!(
        listed.contains(&"rate_hz: 1 / (time step × decimation) of the training".to_owned()),
        "{listed:?}"
    );
}

/// It would be NaN in the first observation.
#[test]
fn a_term_that_a_servo_does_not_report_is_refused() {
    let checked = |term: &str, query: &str| {
        let text = format!(
            "[bus.a]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"a\"\nwatchdog_s = 0.1\n[[servo]]\nname = \"hip\"\nid = 1\n[[servo]]\nname = \"knee\"\nid = 2\n\
             query = {{ {query} }}\n[controller]\nname = \"policy\"\nmodel = \"a.onnx\"\njoints = [\"hip\", \"knee\"]\ndefault = [0.0, 0.0]\n\
             [[controller.observe]]\nterm = \"joint_pos\"\n[[controller.observe]]\nterm = \"{term}\"\n"
        );
        RobotConfig::parse(&text, "robot.toml").err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (term, quantity) in [("joint_torque", "torque"), ("joint_vel", "velocity")] {
        let error = checked(term, &format!("{quantity} = \"none\""));
        assert!(
            error.contains(&format!("the policy sees `{term}`, which `knee` does not report")),
            "{error}"
        );
        assert!(
            error.contains(&format!("`knee`, of family moteus, is not asked for its {quantity}")),
            "{error}"
        );
        assert_eq!(checked(term, &format!("{quantity} = \"float\"")), "");
    }
    assert_eq!(checked("last_action", "torque = \"none\""), "");
}

/// Names for a file that has none.
const NAMED: &[(&str, &str)] = &[("joint_names", "knee,hip")];

/// What of a file is changed, to what, and the message about it.
type Doubts<'a> = &'a [(&'a str, &'a str, &'a str)];

/// Each is reported, and marked where it would have its place; as it was, the file is understood.
fn doubted(file: &str, text: &str, doubts: Doubts) {
    let model = model(42, NAMED);
    let whole = section(&model, &[(file, text)], None);
    assert!(whole.is_complete && !whole.text.contains("# not known"), "{}{}", whole.table, whole.text);
    for (from, to, expected) in doubts {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        let made = section(&model, &[(file, &changed)], None);
        assert!(!made.is_complete, "{to}: {}", made.table);
        assert!(made.table.contains(expected), "{to}: {expected}: {}", made.table);
        assert!(made.text.contains("# not known: "), "{to}: {}", made.text);
    }
}

#[test]
fn of_unitree_nothing_is_dropped_without_a_mark() {
    doubted(
        "deploy.yaml",
        UNITREE,
        &[
            // Gains.
            ("stiffness", "stiffnes", "deploy.yaml: stiffnes: `[10.0, 20.0]` has no meaning here"),
            ("stiffness", "stiffnes", "stiffness of the training"),
            ("damping: [1.0, 2.0]\n", "", "damping of the training"),
            ("stiffness: [10.0, 20.0]", "stiffness: [10.0]\nmore: 1", "more: `1` has no meaning"),
            ("[10.0, 20.0]", "[10.0, .nan]", "stiffness: `[10.0, .nan]` is not a list of numbers"),
            ("[10.0, 20.0]", "[10.0, -20.0]", "stiffness: -20 is negative"),
            ("[10.0, 20.0]", "[10.0, 20.0, 30.0]", "stiffness: 1 of its numbers"),
            // The order of joints.
            ("[1, 0]\n", "[1, 1]\n", "joint_ids_map: `[1, 1]` is not 2 different places"),
            ("[1, 0]\n", "[-1, 0]\n", "joint_ids_map: `[-1, 0]` is not"),
            ("[1, 0]\n", "[1.5, 0]\n", "joint_ids_map: `[1.5, 0]` is not"),
            (
                "[1, 0]\n",
                "[200, 0]\n",
                "stiffness: 2 numbers, not one for each of the joints' places [200, 0]",
            ),
            ("[1, 0]\n", "[1, 0, 2]\n", "joint_ids_map: `[1, 0, 2]` is not"),
            // Time and posture.
            ("0.02", "0", "step_dt: 0 s"),
            ("0.02", "-0.02", "step_dt: -0.02 s"),
            ("0.02", "20ms", "step_dt: `20ms` is not a number"),
            (
                "default_joint_pos: [0.1",
                "default_joint_pos: [5.7, 0.1",
                "default_joint_pos: `[5.7, 0.1, -0.2]` is not one",
            ),
            (
                "default_joint_pos: [0.1",
                "default_joint_pos: [57.0",
                "default_joint_pos: 57 rad is more than a turn",
            ),
            // The action.
            ("JointPosition", "JointVelocity", "actions: JointVelocityAction"),
            (
                "scale: [0.25, 0.25]",
                "scale: [a, 0.25]",
                "actions.JointPositionAction.scale: `[a, 0.25]` is not",
            ),
            ("offset: [0.1, -0.2]", "offset: [0.1, -0.2, 0.3]", "offset: `[0.1, -0.2, 0.3]` is not"),
            ("offset: [0.1, -0.2], ", "", "JointPositionAction.offset: not there"),
            ("{clip: null, joint", "{clip: [-1, 1], joint", "clip: of the targets"),
            ("slice [null]", "slice [1, null]", "joint_ids: `[1, null]` is not"),
            ("{clip: null, joint", "{use_zero: 1, joint", "JointPositionAction.use_zero: `1` has no meaning"),
            // Observations.
            ("clip: [-3, 3]", "clip: 5.0", "joint_pos_rel.clip: `5.0` is not least and greatest"),
            ("clip: [-3, 3]", "clip: [3, -3]", "clip: `[3, -3]` is not"),
            ("clip: [-3, 3]", "clip: [-3, 3, 4]", "clip: `[-3, 3, 4]` is not"),
            ("clip: [-3, 3]", "clip: [[-3, 3], [-1, 1]]", "clip: `[[-3, 3], [-1, 1]]` is not"),
            (
                "scale: [0.2, 0.2, 0.2]",
                "scale: [a, 0.2, 0.2]",
                "base_ang_vel.scale: `[a, 0.2, 0.2]` is not a list of numbers",
            ),
            ("scale: [0.2, 0.2, 0.2]", "scale: {x: 1}", "base_ang_vel.scale: `{x: 1}` is not"),
            ("scale: [0.2, 0.2, 0.2]", "scales: 1", "base_ang_vel.scales: `1` has no meaning"),
            ("history_length: 5", "history_length: -1", "history_length: `-1` is not"),
            ("history_length: 5", "history_length: 2.5", "history_length: `2.5` is not"),
            ("{period: 0.6}", "{}", "period_s: the time of one turn"),
            (
                "gait_phase: {params: {period",
                "joint_vel_rel: {params: {period",
                "`joint_vel` has a period, 0.6",
            ),
            (
                "params: {}",
                "params: {asset_cfg: {joint_names: [knee]}}",
                "params.asset_cfg.joint_names: `[knee]` has no",
            ),
            (
                "observations:",
                "observations:\n  use_gym_history: true",
                "observations.use_gym_history: `true` has no",
            ),
            ("lin_vel_y: [-0.3, 0.3], ", "", "commands.base_velocity.ranges.lin_vel_x"),
            ("commands: {", "commands: {motion: x, ", "commands.motion: `x` has no meaning"),
        ],
    );
}

#[test]
fn of_rl_sar_nothing_is_dropped_without_a_mark() {
    let one = RL_SAR.replace(
        "  num_of_dofs: 2",
        "  dt: 0.005\n  decimation: 4\n  joint_names: [hip, knee]\n  num_of_dofs: 2",
    );
    doubted(
        "config.yaml",
        &one,
        &[
            (
                "clip_actions_lower: [-100, -100]",
                "clip_actions_lower: [-1, -1, -1]",
                "clip_actions_lower: `[-1, -1, -1]` is not",
            ),
            ("clip_actions_lower: [-100, -100]", "clip_actions_lower: null", "only one is there"),
            ("clip_actions_lower: [-100, -100]", "clip_actions_lower: [-100, 200]", "[200.0, 100.0]"),
            ("clip_obs: 100.0", "clip_obs: many", "clip_obs: `many` is not a number"),
            ("ang_vel_scale: 0.25", "ang_vel_scale: x", "ang_vel_scale: `x` is not"),
            ("wheel_indices: []", "wheel_indices: [1]", "wheel_indices: wheels"),
            ("num_of_dofs: 2", "num_of_dofs: 12", "num_of_dofs: 12, and the model says 2"),
            ("\"time\"", "\"none\"", "observations_history_priority: neither"),
            ("joint_mapping: [1, 0]", "joint_mapping: [0, 1]", "by joint_mapping others"),
            ("decimation: 4", "decimation: x", "decimation: `x` is not a number"),
            ("  rl_kd", "  motion_file: a.csv\n  rl_kd", "go/robot_lab.motion_file: `a.csv` has no meaning"),
        ],
    );
    let zero = one.replace("ang_vel_scale: 0.25", "ang_vel_scale: 0.0");
    let zero = section(&model(20, NAMED), &[("config.yaml", &zero)], None);
    assert!(zero.is_complete && !zero.text.contains("inf"), "{}", zero.text);
}

#[test]
fn of_a_models_metadata_nothing_is_dropped_without_a_mark() {
    let right = [
        ("joint_names", "hip,knee"),
        ("joint_stiffness", "20,10"),
        ("joint_damping", "2,1"),
        ("observation_names", "joint_pos,joint_vel"),
        ("observation_history_lengths", "1,2.000"),
        ("observation_names", "joint_pos,joint_vel"),
    ];
    for (key, value, expected) in [
        ("joint_stiffness", "20,10,5", "a.onnx: joint_stiffness: `[20, 10, 5]` is not one number"),
        ("joint_stiffness", "20,nan", "joint_stiffness: `[20, nan]` is not"),
        ("joint_stiffness", "", "stiffness of the training"),
        ("joint_names", "['hip', 'knee']", "joint_names: `[['hip', 'knee']]` is not a list of names"),
        ("joint_names", "hip,hip", "joint_names: `[hip, hip]` is not"),
        ("observation_history_lengths", "1,x", "observation_history_lengths: `[1, x]` is not"),
        ("observation_history_lengths", "5", "not one for each of observation_names"),
        ("observation_scales", "0.2,1", "observation_scales: `[0.2, 1]` has no meaning"),
        ("joint_damping", "2,-1", "joint_damping: -1 is negative"),
        ("run_path", "x", "clip, scale of `joint_vel`"),
    ] {
        let others = right[..5].iter().filter(|(known, _)| *known != key);
        let metadata: Vec<_> = others.copied().chain([(key, value)]).collect();
        let made = section(&model(42, &metadata), &[], None);
        assert!(made.table.contains(expected) && !made.is_complete, "{key} {value}: {}", made.table);
    }
    let twice = section(&model(42, &right), &[], None);
    assert!(twice.table.contains("observation_names is there twice"), "{}", twice.table);
}

#[test]
fn what_two_files_say_otherwise_is_shown() {
    let two = |one: &str, other: &str| {
        let made = section(&model(42, NAMED), &[("a.yaml", one), ("b.yaml", other)], None);
        assert!(!made.is_complete && made.text.contains("# not known: "), "{}", made.text);
        made.table
    };
    for (from, to, expected) in [
        (
            "scale: [0.2, 0.2, 0.2]",
            "scale: 0.9",
            "scale of base_ang_vel: [0.2, 0.2, 0.2], and [0.9] in b.yaml",
        ),
        ("clip: [-3, 3]", "clip: null", "clip of joint_pos_rel: [[-3.0, 3.0]], and [] in b.yaml"),
        ("history_length: 5", "history_length: 1", "history of joint_pos_rel: 5, and 1 in b.yaml"),
        ("period: 0.6", "period: 0.8", "period_s of gait_phase: 0.6, and 0.8 in b.yaml"),
        (
            "[1, 0]\nstep_dt: 0.02\nstiffness: [10.0, 20.0]\ndamping: [1.0, 2.0]",
            "[0, 1]\nstep_dt: 0.02\nstiffness: [20.0, 10.0]\ndamping: [2.0, 1.0]",
            "places: [1, 0], and b.yaml: [0, 1]",
        ),
    ] {
        let (table, back) =
            (two(UNITREE, &UNITREE.replace(from, to)), two(&UNITREE.replace(from, to), UNITREE));
        assert!(table.contains(expected) && back.contains("b.yaml"), "{table}{back}");
    }
    let base = RL_SAR_BASE.replace("joint_names: [FR", "joint_names: [RR");
    let table = two(RL_SAR_BASE, &base);
    assert!(
        table.contains("robot_names: [\"FR_hip_joint\", \"FL_hip_joint\"], and b.yaml: [\"RR"),
        "{table}"
    );
}

/// YAML has each key once; Python's reader takes the last.
#[test]
fn a_key_that_is_there_twice_and_a_second_document_are_refused() {
    for (text, expected) in [
        (format!("{UNITREE}step_dt: 0.01\n"), "line 15: the key `step_dt` for the second time"),
        (format!("{UNITREE}---\nstep_dt: 0.01\n"), "a second document"),
    ] {
        let files = [("deploy.yaml".to_owned(), text)];
        let source =
            Source { numbers: 42, joints: 2, metadata: &[], called: "a.onnx", sha256: "00", files: &files };
        let refused = of_policy(&source, None).err().unwrap();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn joints_whose_names_become_the_same_are_numbered_and_one_servo_is_not_two_joints() {
    let three = [("joint_names", "a-b,a b")];
    let made = section(&model(42, &three), &[("deploy.yaml", UNITREE)], None);
    assert_eq!(policy(&made).joints, ["a_b", "a_b_2"]);
    let made = section(&model(42, &three), &[("deploy.yaml", UNITREE)], Some(&["a_b", "c"]));
    assert!(made.table.contains("`a b` and another are the servo `a_b`"), "{}", made.table);
}

/// A robot of a URDF has no IMU; emulated, it gets one.
#[test]
fn an_emulated_robot_gets_the_imu_that_its_policy_sees() {
    let made = section(&model(42, NAMED), &[("deploy.yaml", UNITREE)], Some(&["hip", "knee"]));
    let servos =
        "[[servo]]\nname = \"hip\"\nbus = \"a\"\nid = 1\n[[servo]]\nname = \"knee\"\nbus = \"a\"\nid = 2\n";
    let text = with_policy(&format!("[bus.a]\nlink = \"emulated\"\n{servos}"), &made, Targets::Limited).text;
    let robot = RobotConfig::parse(&text, "made.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(robot.imu.is_some() && made.is_complete, "{text}");
    let real = with_policy(
        &format!("[bus.a]\nlink = \"socketcan\"\ninterface = \"can0\"\n{servos}"),
        &made,
        Targets::Limited,
    )
    .text;
    assert!(!real.contains("[imu]"), "{real}");
}
