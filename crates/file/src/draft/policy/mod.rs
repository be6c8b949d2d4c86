//! The section `[controller]` of a trained policy, from its model and the files beside it.

mod keys;
mod known;
mod sources;
mod yaml;

use super::model::Targets;
use super::{CAREFUL, Draft, MOST, Servo, printable, unused};
use crate::config::{FamilyName, identifier, in_file};
use khz_controllers::policy::is_called;
use khz_controllers::policy::settings::Term as Sees;
use known::{Frames, Known, Same, Term};
use std::collections::BTreeSet;
use std::fmt::Write;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};
pub use yaml::LARGEST;
use yaml::Yaml;

/// A policy, and the findings about it.
pub struct Source<'a> {
    /// So many numbers does the model see, and for so many joints does it decide.
    pub numbers: usize,
    /// See there.
    pub joints: usize,
    /// The model's metadata: keys and values as they are.
    pub metadata: &'a [(String, String)],
    /// What the robot file calls it.
    pub called: &'a str,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: &'a str,
    /// Names and texts of the YAML files beside it. The first one counts.
    pub files: &'a [(String, String)],
}

/// What was made of it.
pub struct Section {
    /// `[controller]` and its tables.
    pub text: String,
    /// What was understood from where, and what was not, for a person.
    pub table: String,
    /// Each line of the section is known.
    pub is_complete: bool,
    /// The text without `not_known`, and what goes into that.
    plain: String,
    lacking: Vec<String>,
    joints: Vec<PolicyJoint>,
    needs_imu: bool,
    /// So many joints does the model decide for.
    count: usize,
}

struct PolicyJoint {
    servo: String,
    gains: Option<[f64; 2]>,
    torque: Option<f64>,
}

/// The section for a policy. `servos` are those of the robot it is for, if there is one.
///
/// # Errors
/// A YAML file cannot be read: which, and why.
pub fn of_policy(source: &Source<'_>, servos: Option<&[String]>) -> Result<Section, String> {
    let joints = source.joints;
    let mut known = Known::default();
    for (name, text) in source.files {
        let yaml = Yaml::parse(text).map_err(|why| format!("{name}: {why}"))?;
        known.over(sources::read(name, yaml, joints));
    }
    known.over(sources::metadata(source.called, source.metadata, joints));
    name_joints(&mut known, servos);
    Ok(section(source, &known, servos))
}

/// Joints of which only the order is known have the names of the robot's.
fn name_joints(known: &mut Known, servos: Option<&[String]>) {
    let Some(places) = known.places.clone() else { return };
    if let (Some(joints), Some(names)) = (&known.joints, &known.robot_names) {
        if !places.iter().map(|&place| names.get(place)).eq(joints.iter().map(Some)) {
            known.lacking.push(format!("joints: {joints:?}, and by joint_mapping others of {names:?}"));
        }
        return;
    }
    if known.joints.is_some() {
        return;
    }
    let (names, whose) = match (known.robot_names.clone(), servos) {
        (Some(names), _) => (names, "joint_names"),
        (None, Some(servos)) => (servos.to_vec(), "the robot's servos, in their order"),
        (None, None) => {
            known.lacking.push(
                "names of joints: none of the files has them, and these have the maker's numbers; say for which robot (--template, --from, \
                 --mjcf or --urdf)"
                    .to_owned(),
            );
            known.joints = Some(places.iter().map(|&place| numbered(place)).collect());
            return;
        }
    };
    known.from = whose.to_owned();
    let joints: Option<Vec<String>> = places.iter().map(|&place| names.get(place).cloned()).collect();
    if joints.is_none() {
        let what =
            format!("joints: {} have their places in {whose}, and there are {}", places.len(), names.len());
        known.lacking.push(what);
    }
    known.joints = known.record("joints", joints);
}

/// A joint of which only the place is known.
fn numbered(place: usize) -> String {
    format!("joint_{}", place.saturating_add(1))
}

fn section(source: &Source<'_>, known: &Known, servos: Option<&[String]>) -> Section {
    let mut out = Lines { text: String::new(), lacking: known.lacking.clone() };
    let joints = joints(known, servos, &mut out.lacking);
    check_lengths(known, source.joints, &mut out.lacking);
    let model = quoted(source.called);
    out.line(format!("[controller]\nname = \"policy\"\nmodel = {model}\nsha256 = \"{}\"", source.sha256));
    elsewhere(known, &mut out);
    let rate = known.rate_hz.map(|rate| format!("{rate:?}"));
    out.key("rate_hz", rate, "50", "1 / (time step × decimation) of the training");
    let listed = |names: Vec<String>| format!("[{}]", names.join(", "));
    let names: Vec<String> = joints.iter().map(|joint| quoted(&joint.servo)).collect();
    let of_robot = servos.filter(|servos| servos.len() == source.joints).unwrap_or_default();
    out.key(
        "joints",
        Some(names).filter(|names| !names.is_empty()).map(listed),
        &listed(of_robot.iter().map(|name| quoted(name)).collect()),
        &format!("the {} joints by the names of your servos, in the policy's order", source.joints),
    );
    let default = known.default.as_ref().map(|default| format!("{default:?}"));
    out.key("default", default, "[]", "the default posture, rad");
    let needs_imu = observe(source.numbers, known, &mut out);
    history(known.frames.unwrap_or_default(), &mut out);
    action(known, &mut out);
    let table = table(known, &out.lacking);
    let count = source.joints;
    let (plain, lacking) = (out.text, out.lacking);
    let (text, is_complete) = (asking(&plain, &lacking), lacking.is_empty());
    Section { text, table, is_complete, plain, lacking, joints, needs_imu, count }
}

/// The section with a list of what is a guess in it: nothing runs before its owner has looked at each.
fn asking(section: &str, lacking: &[String]) -> String {
    if lacking.is_empty() {
        return section.to_owned();
    }
    let entries: String = lacking.iter().map(|what| format!("  {},\n", quoted(what))).collect();
    let list = format!(
        "# Correct or confirm each of these in this file, and delete it here: nothing runs before.\nnot_known = [\n{entries}]\n"
    );
    section.replacen("\nrate_hz = ", &format!("\n{list}rate_hz = "), 1)
}

/// The section, line by line, and what lacks in it.
struct Lines {
    text: String,
    lacking: Vec<String>,
}

impl Lines {
    fn line(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{line}");
    }

    /// A key with its value. Without one, the line has a value to begin with, and a comment that the value is missing.
    fn key(&mut self, key: &str, value: Option<String>, instead: &str, what: &str) {
        match value {
            Some(value) => self.line(format_args!("{key} = {value}")),
            None => {
                self.line(format_args!("{key} = {instead}  # not known: {what}"));
                self.lacking.push(format!("{key}: {what}"));
            }
        }
    }

    /// What is reported already, where the value would be.
    fn unknown(&mut self, what: &[String]) {
        what.iter().for_each(|what| self.line(format_args!("# not known: {}", printable(what))));
    }
}

/// What is not understood and has no better place.
fn elsewhere(known: &Known, out: &mut Lines) {
    let terms = known.terms.iter().flatten().flat_map(|term| &term.unknown);
    let placed: BTreeSet<&String> = terms.chain(&known.action_unknown).collect();
    let other: Vec<String> = out.lacking.iter().filter(|what| !placed.contains(what)).cloned().collect();
    out.unknown(&other);
}

fn history(frames: Frames, out: &mut Lines) {
    if frames == Frames::default() {
        return;
    }
    out.line("\n[controller.history]");
    if frames.newest_first {
        out.line("order = \"newest_first\"");
    }
    if frames.by_time {
        out.line("layout = \"time\"");
    }
}

fn action(known: &Known, out: &mut Lines) {
    out.line("\n[controller.action]");
    out.unknown(&known.action_unknown);
    let scale = known.scale.as_ref().map(|scale| format!("{:?}", one_if_equal(scale)));
    out.key("scale", scale, "[]", "the scale of actions, rad");
    let is_default = |offset: &Vec<f64>| known.default.as_ref().is_some_and(|default| offset.is_as(default));
    if let Some(offset) = known.offset.as_ref().filter(|offset| !is_default(offset)) {
        out.line(format_args!("offset = {offset:?}"));
    }
    if let Some(clip) = &known.clip {
        out.line(format_args!("clip = {:?}", one_if_equal(clip)));
    }
    for (key, of_servo, gains) in [("stiffness", "kp", &known.kp), ("damping", "kd", &known.kd)] {
        match gains {
            Some(gains) => {
                out.line(format_args!("# {key} of the training, `{of_servo}` of the servos: {gains:?}"))
            }
            None => {
                let what = format!("{key} of the training; set `{of_servo}` of the servos to it");
                out.line(format_args!("# not known: {what}"));
                out.lacking.push(what);
            }
        }
    }
}

/// The servo of each joint: called so, or so but for `_joint` and its case. Of a robot that is yet to be made, as a robot file takes it.
fn joints(known: &Known, servos: Option<&[String]>, lacking: &mut Vec<String>) -> Vec<PolicyJoint> {
    let names = known.joints.as_deref().unwrap_or_default();
    let mut taken = BTreeSet::new();
    let mut made: Vec<PolicyJoint> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let servo = match servos {
            None => unused(name, &mut taken),
            Some(servos) => servo_of(name, servos).unwrap_or_else(|| {
                lacking.push(format!("joints: the robot has no servo `{}`", printable(name)));
                identifier(name)
            }),
        };
        if made.iter().any(|joint| joint.servo == servo) {
            lacking.push(format!("joints: `{}` and another are the servo `{servo}`", printable(name)));
        }
        let at = |list: &Option<Vec<f64>>| {
            let list = list.as_ref()?;
            list.get(if list.len() == 1 { 0 } else { place }).copied()
        };
        let gains = at(&known.kp).zip(at(&known.kd)).map(<[f64; 2]>::from);
        made.push(PolicyJoint { servo, gains, torque: at(&known.torque) });
    }
    made
}

fn servo_of(joint: &str, servos: &[String]) -> Option<String> {
    let called_so = servos.iter().find(|servo| *servo == joint);
    called_so.or_else(|| servos.iter().find(|servo| is_called(servo, joint))).cloned()
}

/// The terms; returns whether one is of the IMU.
fn observe(numbers: usize, known: &Known, out: &mut Lines) -> bool {
    let terms = known.terms.as_deref().unwrap_or_default();
    if terms.is_empty() {
        let what = format!("the terms of its {numbers} numbers, one table each, in order");
        out.line(format_args!("\n# not known: {what}\n[[controller.observe]]\nterm = \"constant\""));
        out.lacking.push(format!("observe: {what}"));
    }
    terms.iter().for_each(|trained| term(trained, out));
    terms.iter().filter_map(Term::sees).any(Sees::is_of_imu)
}

/// How trainers call what no IMU measures, the velocity of the body, m/s.
const VELOCITIES: [&str; 3] = ["base_lin_vel", "lin_vel", "base_linear_velocity"];

fn term(trained: &Term, out: &mut Lines) {
    let name = printable(&trained.name);
    if VELOCITIES.contains(&trained.name.as_str()) {
        out.line(format_args!("\n# not known: which program tells `{name}`, an estimate (docs/policies.md)"));
        out.line("[[controller.observe]]\nterm = \"signal\"\nsignals = [\"velocity_x\", \"velocity_y\", \"velocity_z\"]");
        out.lacking.push(format!("observe: `{name}` is measured by no IMU; a program has to tell it"));
        return how(trained, Sees::Signal, out);
    }
    let Some(term) = trained.sees() else {
        out.line(format_args!(
            "\n# not known: what `{name}` is\n[[controller.observe]]\nterm = \"constant\""
        ));
        out.lacking.push(format!("observe: `{name}` is no term that is known"));
        return;
    };
    out.line(format_args!("\n[[controller.observe]]\nterm = \"{term}\""));
    how(trained, term, out);
}

/// The keys of a term that are known, and those that are not.
fn how(trained: &Term, term: Sees, out: &mut Lines) {
    out.unknown(&trained.unknown);
    if let Some(clip) = trained.clip.as_ref().filter(|clip| !clip.is_empty()) {
        out.line(format_args!("clip = {:?}", one_if_equal(clip)));
    }
    if let Some(scale) = trained.scale.as_ref().filter(|scale| scale.iter().any(|scale| *scale != 1.0)) {
        out.line(format_args!("scale = {:?}", one_if_equal(scale)));
    }
    if let Some(history) = trained.history.filter(|history| *history > 1) {
        out.line(format_args!("history = {history}"));
    }
    let lacks: Vec<&str> = [
        ("clip", trained.clip.is_none()),
        ("scale", trained.scale.is_none()),
        ("history", trained.history.is_none()),
    ]
    .into_iter()
    .filter(|(_, lacks)| *lacks)
    .map(|(key, _)| key)
    .collect();
    if !lacks.is_empty() {
        let what = format!("{} of `{term}`", lacks.join(", "));
        out.line(format_args!("# not known: {what}"));
        out.lacking.push(format!("observe: {what}"));
    }
    if term == Sees::Phase {
        out.key(
            "period_s",
            trained.period_s.map(|period| format!("{period:?}")),
            "1.0",
            "the time of one turn of the phase, s",
        );
    } else if let Some(period) = trained.period_s {
        out.line(format_args!("# not known: what the period {period:?} of `{term}` is"));
        out.lacking.push(format!("observe: `{term}` has a period, {period:?}"));
    }
}

/// Lists of joints are as long as the model's output.
fn check_lengths(known: &Known, count: usize, lacking: &mut Vec<String>) {
    let names = known.joints.as_ref().map(Vec::len);
    let lists = [("joints", names), ("default", known.default.as_ref().map(Vec::len))];
    for (key, len) in lists.into_iter().filter_map(|(key, len)| Some((key, len?))) {
        if len != count {
            lacking.push(format!("{key}: {len}, and the model says {count} numbers"));
        }
    }
}

fn table(known: &Known, lacking: &[String]) -> String {
    let width = |column: usize| known.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (keys, files) = (width(0), width(2));
    let mut text = String::from("understood:\n");
    for [key, value, file] in &known.rows {
        let _ = writeln!(text, "  {file:files$}  {key:keys$}  {}", printable(value));
    }
    if !lacking.is_empty() {
        text.push_str("not understood, or not there:\n");
    }
    for what in lacking {
        let _ = writeln!(text, "  {}", printable(what));
    }
    text
}

/// A robot file with a policy.
pub struct Decided {
    /// The file.
    pub text: String,
    /// Each line of its section is known, and each of its servos has the gains of the training.
    pub is_complete: bool,
}

/// A robot of its joints alone: emulated servos with its gains. Where not even their order is known, as many servos as joints.
pub fn robot(section: &Section, name: &str) -> Decided {
    let about = vec![
        "The joints of a policy, emulated. Of the robot nothing else is known: put the real `link`, `bus` and `id` of each servo here,".to_owned(),
        "its limits, its direction (`sign`) and the joint's angle at its zero (`offset`). Every key: docs/configuration.md.".to_owned(),
    ];
    let unknown = |place| PolicyJoint { servo: numbered(place), gains: None, torque: None };
    let unknown: Vec<_> = if section.joints.is_empty() {
        (0..section.count.min(MOST)).map(unknown).collect()
    } else {
        Vec::new()
    };
    let servo = |(index, joint): (usize, &PolicyJoint)| {
        let torque = joint.torque.unwrap_or(CAREFUL[1]).clamp(0.001, 1000.0);
        let lines = vec![format!("limits = {{ velocity = {:?}, torque = {torque:?} }}", CAREFUL[0])];
        let why = format!("Its velocity is not known: {:?} rad/s is only a careful beginning.", CAREFUL[0]);
        Servo::emulated(vec![why], joint.servo.clone(), index, lines)
    };
    let servos = section.joints.iter().chain(&unknown).enumerate().map(servo).collect();
    with_policy(&Draft::emulated(about, name, servos, Vec::new()).to_string(), section, Targets::Limited)
}

/// A robot file with the policy for its controller, and the gains of its training for moteus servos; each other has a comment that shows
/// where they would go. An emulated robot gets an IMU if the policy sees one; drawn up of a model for targets that jump, one that stands by itself
/// there is the policy's at once.
pub fn with_policy(robot: &str, section: &Section, targets: Targets) -> Decided {
    let Ok(mut document) = robot.parse::<DocumentMut>() else {
        return Decided { text: format!("{robot}\n{}", section.text), is_complete: section.is_complete };
    };
    let mut left = Vec::new();
    document.remove("controller");
    if section.needs_imu && is_emulated(&document) && !document.contains_key("imu") {
        let mut imu = Table::new();
        imu.insert("link", toml_edit::value("emulated"));
        document.insert("imu", Item::Table(imu));
    }
    let common = document.get("servo_defaults").and_then(Item::as_table_like).and_then(family);
    let servos = document.get_mut("servo").and_then(Item::as_array_of_tables_mut);
    for servo in servos.into_iter().flat_map(|servos| servos.iter_mut()) {
        let name = servo.get("name").and_then(Item::as_str);
        let joint = section.joints.iter().find(|joint| Some(joint.servo.as_str()) == name);
        let Some([kp, kd]) = joint.and_then(|joint| joint.gains) else { continue };
        let family = family(&*servo).or(common).unwrap_or_default();
        if family != FamilyName::Moteus {
            let comment = format!("# not known: {}\n", left_gains(family, [kp, kd]));
            let before = servo.decor().prefix().and_then(|text| text.as_str()).unwrap_or("\n").to_owned();
            servo.decor_mut().set_prefix(before + &comment);
            left.extend(joint.map(|joint| joint.servo.as_str()));
            continue;
        }
        let device = servo.entry("device").or_insert(Item::Value(Value::InlineTable(InlineTable::new())));
        if let Some(device) = device.as_table_like_mut() {
            device.insert("kp", toml_edit::value(kp));
            device.insert("kd", toml_edit::value(kd));
        }
    }
    let left = (!left.is_empty()).then(|| format!("gains: see above the servos {}", left.join(", ")));
    let lacking: Vec<String> = section.lacking.iter().cloned().chain(left).collect();
    let soon = if targets == Targets::Jump && stands(&document) { SOON } else { "" };
    let controller =
        asking(&section.plain, &lacking).replacen("\njoints = ", &format!("\n{soon}joints = "), 1);
    let text = format!("{}\n\n{controller}", document.to_string().trim_end());
    Decided { text, is_complete: lacking.is_empty() }
}

/// Nothing holds a simulated robot until its policy begins; a biped falls in less than the default time.
const SOON: &str = "# Simulated, it stands by itself from the start. One that is held may take its time: 2.0.\nstart_s = 0.05\n";

/// A model simulates it, and its trunk is free: it has an IMU there.
fn stands(robot: &DocumentMut) -> bool {
    robot.get("body").is_some_and(|body| body.get("model").is_some() && body.get("imu_site").is_some())
}

/// The family that a servo's table, or that of all servos, names.
fn family(servo: &dyn TableLike) -> Option<FamilyName> {
    servo.get("family")?.as_str()?.parse().ok()
}

/// Where the gains of the training would go in a servo that does not get them.
fn left_gains(family: FamilyName, [kp, kd]: [f64; 2]) -> String {
    let table = family.word();
    if in_file(family).facts().sends_gains {
        format!(
            "whether the gains of the training suit this servo, `kp = {kp:?}` and `kd = {kd:?}` of `{table}`"
        )
    } else {
        format!(
            "which `position_p` of `{table}` is as stiff as in the training: kp {kp:?} N·m/rad, kd {kd:?} N·m·s/rad"
        )
    }
}

/// All of its buses are, and its body is not a model's, which defines where its IMU is.
fn is_emulated(robot: &DocumentMut) -> bool {
    let buses = robot.get("bus").and_then(Item::as_table_like);
    let is_emulated = |bus: &Item| bus.get("link").and_then(Item::as_str) == Some("emulated");
    let has_model = robot.get("body").and_then(|body| body.get("model")).is_some();
    !has_model && buses.is_some_and(|buses| buses.iter().all(|(_, bus)| is_emulated(bus)))
}

/// One for all where all are the same.
fn one_if_equal<T: PartialEq>(list: &[T]) -> &[T] {
    if list.iter().all(|item| *item == list[0]) { &list[..list.len().min(1)] } else { list }
}

/// As much as fits a line of the table.
fn short(text: &str) -> String {
    const MOST: usize = 90;
    if text.chars().count() <= MOST {
        text.to_owned()
    } else {
        text.chars().take(MOST).chain(['…']).collect()
    }
}

/// As text of a TOML file, on one line.
fn quoted(text: &str) -> String {
    Value::from(text.replace(char::is_control, " ")).to_string()
}
