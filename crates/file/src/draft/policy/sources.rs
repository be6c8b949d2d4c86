//! Reads the files of trainers, each format in its own way.

use super::keys::Keys;
use super::known::{Frames, Known, Term};
use super::yaml::Yaml;
use khz_controllers::policy::entries;
use khz_controllers::policy::settings::Term as Sees;
use std::cell::RefCell;

/// How often a robot file lets a policy decide, Hz.
const RATES: std::ops::RangeInclusive<f64> = 0.1..=10_000.0;

/// Bounds of targets from here on, rad, bound no joint.
const FARTHEST: f64 = 100.0;

/// The content of a file, and what of it is not understood; the content shows which trainer wrote it.
pub(super) fn read(file: &str, mut yaml: Yaml, joints: usize) -> Known {
    let mut known = Known { from: file.to_owned(), ..Known::default() };
    let reported = RefCell::default();
    let within = rl_sar_name(&yaml).map(str::to_owned);
    let mut keys = Keys::new(file, &mut yaml, joints, &reported);
    let reads: fn(&mut Keys<'_>, &mut Known) = if keys.has("joint_ids_map") {
        unitree
    } else if keys.is_list("actions") {
        isaac
    } else if keys.has("policy_dt") {
        berkeley
    } else if within.is_some() {
        rl_sar
    } else {
        keys.report("a file of none of the trainers that are known here");
        known.lacking = reported.take();
        return known;
    };
    match within.as_ref().and_then(|name| keys.within(name)) {
        Some(mut within) => reads(&mut within, &mut known),
        None => reads(&mut keys, &mut known),
    }
    keys.close();
    known.lacking.extend(reported.take());
    known
}

/// The keys of Isaac Lab's and mjlab's exporters in a model.
pub(super) fn metadata(file: &str, metadata: &[(String, String)], joints: usize) -> Known {
    let mut known = Known { from: file.to_owned(), ..Known::default() };
    let list = |text: &String| Yaml::List(entries(text).map(|part| Yaml::Text(part.to_owned())).collect());
    let mut map = Yaml::Map(metadata.iter().map(|(key, value)| (key.clone(), list(value))).collect());
    let reported = RefCell::default();
    let mut keys = Keys::new(file, &mut map, joints, &reported);
    let twice = |(at, (key, _)): (usize, &(String, String))| {
        metadata[..at].iter().any(|(known, _)| known == key).then(|| key.clone())
    };
    metadata
        .iter()
        .enumerate()
        .filter_map(twice)
        .for_each(|key| keys.report(format_args!("{key} is there twice")));
    known.joints = known.record("joint_names", keys.names("joint_names"));
    known.default = known.record("default_joint_pos", keys.posture("default_joint_pos"));
    known.scale = known.record("action_scale", keys.each("action_scale"));
    known.kp = known.record("joint_stiffness", keys.gains("joint_stiffness"));
    known.kd = known.record("joint_damping", keys.gains("joint_damping"));
    let names = keys.texts("observation_names");
    let lengths = keys.wholes("observation_history_lengths");
    let fits =
        lengths.as_ref().zip(names.as_ref()).is_none_or(|(lengths, names)| lengths.len() == names.len());
    if !fits {
        keys.report("observation_history_lengths: not one for each of observation_names");
    }
    let lengths = lengths.filter(|_| fits);
    let term = |(place, name): (usize, String)| {
        let history = lengths.as_ref().map(|lengths| lengths[place].max(1));
        Term { name, history, ..Term::default() }
    };
    let terms = names.map(|names| names.into_iter().enumerate().map(term).collect());
    known.terms = known.record("observation_names", terms);
    // Of the motion that is followed, and where it was trained.
    keys.pass(&["run_path", "command_names", "anchor_body_name", "body_names"]);
    keys.close();
    known.lacking = reported.take();
    known
}

/// unitree_rl_lab's deploy.yaml: no names; the policy's order but for gains, which are in the SDK's.
fn unitree(keys: &mut Keys<'_>, known: &mut Known) {
    known.places = known.record("joint_ids_map", keys.places("joint_ids_map"));
    known.rate_hz = known.record("step_dt", rate(keys, "step_dt"));
    known.default = known.record("default_joint_pos", keys.posture("default_joint_pos"));
    let places = known.places.clone();
    known.kp = known.record("stiffness", sorted_gains(keys, "stiffness", places.as_deref()));
    known.kd = known.record("damping", sorted_gains(keys, "damping", places.as_deref()));
    let actions = keys.maps("actions");
    let names: Vec<String> = actions.iter().map(|(name, _)| name.clone()).collect();
    if names == ["JointPositionAction"] {
        actions.into_iter().for_each(|(_, mut action)| {
            // By `joint_ids`.
            action.pass(&["joint_names"]);
            acted(&mut action, known);
        });
    } else {
        keys.report(format_args!("actions: {}; only JointPositionAction is known", names.join(", ")));
        keys.pass(&["actions"]);
    }
    let ranges = ranges(keys);
    let mut terms = Vec::new();
    for (name, mut fields) in keys.maps("observations") {
        let (mut term, unknown) = fields.reported_by(|fields| {
            let term = term(name, fields);
            fields.close();
            term
        });
        term.unknown = unknown;
        if term.sees() == Some(Sees::Command) && term.clip.as_ref().is_none_or(Vec::is_empty) {
            term.clip = ranges.clone().or(term.clip);
        }
        terms.push(term);
    }
    known.terms = known.record("observations", Some(terms).filter(|terms: &Vec<_>| !terms.is_empty()));
    known.frames = Some(Frames::default());
}

/// The commands that a policy was trained with.
fn ranges(keys: &mut Keys<'_>) -> Option<Vec<[f64; 2]>> {
    let mut commands = keys.within("commands")?;
    let mut command = commands.within("base_velocity")?;
    let mut ranges = command.within("ranges")?;
    // A heading is held by turning.
    ranges.pass(&["heading"]);
    let axes = ["lin_vel_x", "lin_vel_y", "ang_vel_z"];
    let pairs: Vec<_> = axes.iter().filter_map(|axis| ranges.bounds(axis)).collect();
    if pairs.len() < axes.len() {
        let axes = axes.join(", ");
        ranges
            .report(format_args!("{axes}: {} of them are known, and commands are not clipped", pairs.len()));
        return None;
    }
    Some(pairs)
}

/// Isaac Lab's IO_descriptors.yaml: each list with the names of its joints.
fn isaac(keys: &mut Keys<'_>, known: &mut Known) {
    let mut actions = keys.maps("actions");
    if let [(_, action)] = &mut actions[..] {
        known.joints = known.record("actions", action.names("joint_names"));
        let path = action.text("full_path").or_else(|| action.text("name")).unwrap_or_default();
        let kind = path.rsplit('.').next().unwrap_or_default();
        if !["", "JointPositionAction", "joint_position_action"].contains(&kind) {
            action.report(format_args!("full_path: `{kind}`; only JointPositionAction is known"));
        }
        action.pass(&["name", "action_type", "dtype", "extras", "mdp_type", "shape", "export"]);
        acted(action, known);
    } else {
        let count = actions.len();
        keys.report(format_args!("actions: {count} terms; only one, of positions, is known"));
        keys.pass(&["actions"]);
    }
    let joints = known.joints.clone().unwrap_or_default();
    if let Some(mut all) = keys.within("articulations")
        && let Some(mut robot) = all.within("robot")
    {
        articulation(&mut robot, &joints, known);
    }
    if let Some(mut scene) = keys.within("scene") {
        let physics = scene.number("physics_dt").zip(scene.number("decimation"));
        let step = rate(&mut scene, "dt");
        known.rate_hz = known.record("scene", step.or(physics.map(|(step, times)| rounded(step * times))));
        let apart = |rate: f64, (step, times): (f64, f64)| (rate * step * times - 1.0).abs() > 1e-3;
        if step.zip(physics).is_some_and(|(rate, physics)| apart(rate, physics)) {
            scene.report("dt is not physics_dt × decimation");
        }
    }
    let mut terms = Vec::new();
    if let Some(mut groups) = keys.within("observations") {
        for (_, mut fields) in groups.maps("policy") {
            let (mut term, unknown) = fields.reported_by(|fields| {
                let term = observed(fields, &joints, known);
                fields.close();
                term
            });
            term.unknown = unknown;
            terms.push(term);
        }
        // What others than the policy see.
        groups.pass_others("policy");
    }
    known.terms = known.record("observations", Some(terms).filter(|terms| !terms.is_empty()));
    known.frames = Some(Frames::default());
}

/// The robot of Isaac Lab's file, each list in its own order.
fn articulation(robot: &mut Keys<'_>, joints: &[String], known: &mut Known) {
    let names = robot.names("joint_names").unwrap_or_else(|| joints.to_vec());
    let place = |joint: &String| names.iter().position(|name| name == joint);
    let places: Option<Vec<usize>> = joints.iter().map(place).collect();
    if places.is_none() {
        robot.report("joint_names: not all joints of the action are there");
    }
    let places = places.filter(|places| !places.is_empty());
    let places = places.as_deref();
    let default = sorted(robot, "default_joint_pos", places);
    let default = default.map(|list| robot.posture_in("default_joint_pos", list));
    known.default = known.record("default_joint_pos", default);
    known.kp =
        known.record("default_joint_stiffness", sorted_gains(robot, "default_joint_stiffness", places));
    known.kd = known.record("default_joint_damping", sorted_gains(robot, "default_joint_damping", places));
    // Of the simulated joints.
    robot.pass(&[
        "default_joint_vel",
        "default_joint_armature",
        "default_joint_friction",
        "default_joint_pos_limits",
    ]);
}

/// A term of Isaac Lab's file.
fn observed(fields: &mut Keys<'_>, joints: &[String], known: &Known) -> Term {
    let name = fields.text("name").unwrap_or_default();
    if fields.names("joint_names").is_some_and(|order| order != joints) {
        fields.report("joint_names: another order than the action's");
    }
    let offsets = fields.each("joint_pos_offsets");
    if offsets
        .zip(known.default.as_ref())
        .is_some_and(|(offsets, default)| !super::known::same(&offsets, default))
    {
        fields.report("joint_pos_offsets: not those of default_joint_pos");
    }
    let about = ["axes", "description", "units"];
    fields.pass(&about);
    if let Some(mut extras) = fields.within("extras") {
        extras.pass(&about);
    }
    fields.pass(&["dtype", "full_path", "mdp_type", "observation_type", "shape", "export"]);
    let own = term(name, fields);
    let Some(mut overloads) = fields.within("overloads") else { return own };
    if overloads.text("flatten_history_dim").is_some_and(|flat| !flat.eq_ignore_ascii_case("true")) {
        overloads.report("flatten_history_dim: a history that is not flat");
    }
    let over = term(own.name.clone(), &mut overloads);
    let some = |list: Option<Vec<f64>>| list.filter(|list| *list != [1.0]);
    Term {
        clip: over.clip.filter(|clip| !clip.is_empty()).or(own.clip),
        scale: some(over.scale).or(own.scale),
        history: over.history.max(own.history),
        period_s: over.period_s.or(own.period_s),
        ..own
    }
}

/// Berkeley Humanoid Lite: what it observes is in its program, not in the file.
fn berkeley(keys: &mut Keys<'_>, known: &mut Known) {
    known.joints = known.record("joints", keys.names("joints"));
    known.rate_hz = known.record("policy_dt", rate(keys, "policy_dt"));
    known.default = known.record("default_joint_positions", keys.posture("default_joint_positions"));
    known.kp = known.record("joint_kp", keys.gains("joint_kp"));
    known.kd = known.record("joint_kd", keys.gains("joint_kd"));
    known.torque = known.record("effort_limits", keys.gains("effort_limits"));
    known.scale = known.record("action_scale", keys.each("action_scale"));
    let (clip, unknown) = keys.reported_by(|keys| keys.bounds_of("action_limit_lower", "action_limit_upper"));
    known.clip = known.record("action_limit", clip);
    known.action_unknown = unknown;
    let indices = keys.wholes("action_indices").unwrap_or_default();
    if !indices.iter().copied().eq(0..keys.joints) {
        keys.report("action_indices: a policy moves all of `joints`, in their order");
    }
    let names = ["commands", "base_ang_vel", "projected_gravity", "joint_pos", "joint_vel", "actions"];
    let plain = |name: &&str| Term {
        name: (*name).to_owned(),
        clip: Some(Vec::new()),
        scale: Some(vec![1.0]),
        history: Some(1),
        ..Term::default()
    };
    known.terms = known.record("its program, not the file", Some(names.iter().map(plain).collect()));
    if keys.whole("history_length").is_some_and(|length| length > 0) {
        keys.report("history_length: the order of its history is not in the file");
    }
    count(keys, &["num_joints", "num_actions"]);
    // Of its other programs.
    keys.pass(&[
        "policy_checkpoint_path",
        "ip_robot_addr",
        "ip_policy_obs_port",
        "ip_host_addr",
        "ip_policy_acs_port",
    ]);
    keys.pass(&["control_dt", "physics_dt", "cutoff_freq", "default_base_position", "command_velocity"]);
    // The model's input shows it.
    keys.pass(&["num_observations"]);
    known.frames = Some(Frames::default());
}

/// rl_sar's config.yaml, and the base.yaml of its robot: names are in the robot's order, all else in the policy's.
fn rl_sar(keys: &mut Keys<'_>, known: &mut Known) {
    known.robot_names = known.record("joint_names", keys.names("joint_names"));
    let step = keys.number("dt").zip(keys.number("decimation"));
    let rate = step.and_then(|(step, times)| allowed(keys, "dt × decimation", step * times));
    known.rate_hz = known.record("dt × decimation", rate);
    count(keys, &["num_of_dofs"]);
    if keys.wholes("wheel_indices").is_some_and(|wheels| !wheels.is_empty()) {
        keys.report("wheel_indices: wheels, which are driven by velocity");
    }
    // How the robot stands up, before any policy; and what the model's file and input show.
    keys.pass(&["fixed_kp", "fixed_kd", "joint_controller_names", "model_name", "num_observations"]);
    if !keys.has("observations") {
        // Posture and order of standing up, too.
        keys.pass(&["default_dof_pos", "joint_mapping", "torque_limits"]);
        return;
    }
    known.places = known.record("joint_mapping", keys.places("joint_mapping"));
    known.default = known.record("default_dof_pos", keys.posture("default_dof_pos"));
    known.kp = known.record("rl_kp", keys.gains("rl_kp"));
    known.kd = known.record("rl_kd", keys.gains("rl_kd"));
    known.torque = known.record("torque_limits", keys.gains("torque_limits"));
    known.scale = known.record("action_scale", keys.each("action_scale"));
    let (clip, unknown) = keys.reported_by(|keys| keys.bounds_of("clip_actions_lower", "clip_actions_upper"));
    known.clip = known.record("clip_actions", clip);
    known.action_unknown = unknown;
    let length = frames(keys, known);
    let clip = keys.number("clip_obs");
    if clip.is_some_and(|clip| clip < 0.0) {
        keys.report("clip_obs: negative");
    }
    let clip = clip.filter(|clip| *clip >= 0.0);
    let mut terms = Vec::new();
    for name in keys.texts("observations").unwrap_or_default() {
        let key = format!("{}_scale", name.strip_suffix("_vec").unwrap_or(&name));
        let (scale, unknown) = keys.reported_by(|keys| keys.numbers(&key));
        let scale = scale.unwrap_or_else(|| vec![1.0]);
        // It clips what is scaled already; what is scaled by 0 is 0.
        let bound = |scale: &f64| {
            if *scale == 0.0 { [-1.0, 1.0] } else { [-1.0, 1.0].map(|sign| sign / scale.abs()) }
        };
        let clip =
            clip.map(|clip| scale.iter().map(|scale| bound(scale).map(|bound| bound * clip)).collect());
        let (clip, scale) = (Some(clip.unwrap_or_default()), Some(scale));
        terms.push(Term { name, clip, scale, history: Some(length), unknown, ..Term::default() });
    }
    known.terms = known.record("observations", Some(terms).filter(|terms| !terms.is_empty()));
    // Of terms that it does not see.
    keys.pass(&["lin_vel_scale", "ang_vel_scale", "dof_pos_scale", "dof_vel_scale", "commands_scale"]);
}

/// How a history of rl_sar lies, and its length.
fn frames(keys: &mut Keys<'_>, known: &mut Known) -> usize {
    let ages = keys.wholes("observations_history").unwrap_or_default();
    let newest_first = ages.iter().copied().eq(0..ages.len());
    if !newest_first && !ages.iter().rev().copied().eq(0..ages.len()) {
        keys.report("observations_history: ages that are not one after the other from 0");
    }
    let priority = keys.text("observations_history_priority");
    if priority.as_ref().is_some_and(|priority| !["time", "term"].contains(&priority.as_str())) {
        keys.report("observations_history_priority: neither time nor term");
    }
    let by_time = priority.as_deref() == Some("time") && ages.len() > 1;
    known.frames = Some(Frames { newest_first: newest_first && ages.len() > 1, by_time });
    ages.len().max(1)
}

/// The one map in it that is rl_sar's.
fn rl_sar_name(yaml: &Yaml) -> Option<&str> {
    let [(name, within)] = yaml.map()? else { return None };
    within.get("num_of_dofs").and(Some(name))
}

/// Scale, offset and joints of an action of Isaac Lab and of unitree_rl_lab.
fn acted(action: &mut Keys<'_>, known: &mut Known) {
    let ((scale, offset), unknown) = action.reported_by(|action| {
        if !action.has("offset") {
            action.report("offset: not there; the default posture is in its place");
        }
        let found = (action.each("scale"), action.each("offset"));
        if action.has("clip") && !action.is_beyond("clip", FARTHEST) {
            action.report("clip: of the targets; the servos' limits are in its place");
        }
        action.pass(&["clip"]);
        if !action.is_empty("joint_ids") {
            let ids = action.wholes("joint_ids");
            if ids.is_some_and(|ids| !ids.iter().copied().eq(0..action.joints)) {
                action.report("joint_ids: not all joints in their order");
            }
        }
        action.close();
        found
    });
    known.scale = known.record("actions.scale", scale);
    known.offset = known.record("actions.offset", offset);
    known.action_unknown = unknown;
}

/// Clip, scale and history of a term as Isaac Lab writes them.
fn term(name: String, how: &mut Keys<'_>) -> Term {
    let clip = how.bounds("clip");
    let scale = how.numbers("scale");
    let history = how.whole("history_length");
    let period_s = how.within("params").and_then(|mut params| {
        params.pass(&["command_name"]);
        params.number("period")
    });
    Term {
        name,
        clip: Some(clip.into_iter().collect()),
        scale: Some(scale.unwrap_or_else(|| vec![1.0])),
        history: Some(history.unwrap_or(1).max(1)),
        period_s,
        unknown: Vec::new(),
    }
}

/// Of a list in the robot's order the numbers of the policy's joints, whose places it has.
fn sorted(keys: &mut Keys<'_>, key: &str, places: Option<&[usize]>) -> Option<Vec<f64>> {
    let list = keys.numbers(key)?;
    let Some(places) = places else {
        keys.report(format_args!("{key}: in an order that is not known"));
        return None;
    };
    let of_none = (0..list.len()).filter(|place| !places.contains(place) && list[*place] != 0.0).count();
    let found: Option<Vec<f64>> = places.iter().map(|&place| list.get(place).copied()).collect();
    if list.len() == 1 {
        return Some(list);
    }
    if found.is_none() {
        let count = list.len();
        keys.report(format_args!(
            "{key}: {count} numbers, not one for each of the joints' places {places:?}"
        ));
    } else if of_none > 0 {
        keys.report(format_args!("{key}: {of_none} of its numbers are of no joint of the policy"));
    }
    found
}

fn sorted_gains(keys: &mut Keys<'_>, key: &str, places: Option<&[usize]>) -> Option<Vec<f64>> {
    sorted(keys, key, places).and_then(|list| keys.gains_in(key, list))
}

/// As many as the policy's joints.
fn count(keys: &mut Keys<'_>, names: &[&str]) {
    let joints = keys.joints;
    for name in names {
        if let Some(count) = keys.whole(name).filter(|count| *count != joints) {
            keys.report(format_args!("{name}: {count}, and the model says {joints} numbers"));
        }
    }
}

/// How often a policy decides whose time of a step is behind a key.
fn rate(keys: &mut Keys<'_>, key: &str) -> Option<f64> {
    let step = keys.number(key)?;
    allowed(keys, key, step)
}

fn allowed(keys: &Keys<'_>, key: &str, step: f64) -> Option<f64> {
    let rate = rounded(step);
    if !RATES.contains(&rate) {
        keys.report(format_args!("{key}: {step} s, and 0.1 to 10000 decisions in a second are possible"));
        return None;
    }
    Some(rate)
}

/// Without what a decimal fraction of a second leaves.
fn rounded(step: f64) -> f64 {
    (1e6 / step).round() / 1e6
}
