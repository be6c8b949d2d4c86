//! What was found as text, as a page, and in the files of other programs.

use crate::found::{Found, Value};
use crate::model::Friction;
use crate::recording::Recording;
use khz_emu::JointConfig;
use khz_page::{Axis, KeyValues, Page, Plot, Section, Trace};
use serde_json::{Map, json};
use std::fmt::Write;

/// Recordings that are drawn: those that are met worst.
const DRAWN: usize = 8;
/// Parameters that are keys of a robot file's `joint`.
const JOINT_KEYS: [&str; 10] = [
    "inertia",
    "armature",
    "gravity",
    "gravity_at",
    "viscous",
    "coulomb",
    "load_friction",
    "stribeck",
    "stribeck_load",
    "stribeck_speed",
];
/// Those that are keys of the servo's own table, where it has a voltage law.
const SERVO_KEYS: [&str; 2] = ["goal_speed", "delay_ms"];

/// What goes into a robot file, and what a person should know of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Keys and values.
    pub keys: Vec<(&'static str, f64)>,
    /// What stays, and what is taken out, with the reason.
    pub notes: Vec<String>,
}

impl Written {
    /// By a 0 of its own, as `[servo_defaults]` may have the key, too.
    fn taken_out(&mut self, key: &'static str, why: &str) {
        self.keys.push((key, 0.0));
        self.notes.push(format!("`{key}` becomes 0: {why}"));
    }
}

impl Found {
    /// Everything that was found, for a person.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for value in &self.parameters {
            let (number, note) = (number(value.value), note(value));
            let is_sure = value.determined && self.unexplained.is_none();
            let spread =
                if is_sure { format!("± {}", self::number(value.uncertainty)) } else { String::new() };
            let line = format!("{:<14} {number:>10} {spread:<12} {}", value.name, value.unit);
            let _ = writeln!(text, "{}{note}", line.trim_end());
        }
        for names in &self.together {
            let _ = writeln!(text, "only together: {}", names.join(", "));
        }
        if let Some(why) = &self.unexplained {
            let _ = writeln!(text, "not explained: {why}");
        }
        text + &self.errors()
    }

    fn errors(&self) -> String {
        let mut text =
            "mean absolute error of the position, simulated without correction, mean over recordings:\n"
                .to_owned();
        let mut line = |what: &str, error: Option<f64>| {
            error.into_iter().for_each(|error| _ = writeln!(text, "  {error:.4} rad  {what}"));
        };
        line("fitted", self.error(|score| score.fitted));
        line("not fitted", self.error(|score| !score.fitted));
        line(
            "not fitted, under conditions not fitted",
            self.error(|score| !score.fitted && self.is_unseen(score)),
        );
        text.push_str("by condition:\n");
        for (condition, error) in self.by_condition() {
            let _ = writeln!(text, "  {error:.4} rad  {condition}");
        }
        text
    }

    /// Measured beside simulated for the recordings that are met worst.
    pub fn page(&self, joint: &str, recordings: &[Recording]) -> Page {
        let mut values = KeyValues::new("Found");
        for value in &self.parameters {
            let text = format!(
                "{} ± {} {}{}",
                number(value.value),
                number(value.uncertainty),
                value.unit,
                note(value)
            );
            values = values.pair(value.name, text);
        }
        let mut worst: Vec<usize> = (0..recordings.len()).collect();
        worst.sort_by(|one, other| self.scores[*other].error.total_cmp(&self.scores[*one].error));
        let mut section =
            Section::new("Measured beside simulated").text("The recordings that are met worst.");
        for index in worst.into_iter().take(DRAWN) {
            section = section.with(self.plot(index, &recordings[index]));
        }
        Page::new(format!("{joint}: a servo identified"))
            .section(Section::new("Parameters").with(values))
            .section(section)
    }

    fn plot(&self, index: usize, recording: &Recording) -> Plot {
        let score = &self.scores[index];
        let fitted = if score.fitted { "fitted" } else { "not fitted" };
        let title = format!("{} ({}), {fitted}: {:.4} rad", score.name, score.condition, score.error);
        let trace = |of: &dyn Fn(usize) -> f64| {
            let points = recording.samples.iter().enumerate();
            Trace::from_points(points.map(|(at, sample)| (sample.time_s, of(at))))
        };
        let simulated = self.simulated(recording);
        Plot::over_time(title, Axis::new("position", "rad"))
            .line("goal", &trace(&|at| recording.samples[at].goal))
            .line("measured", &trace(&|at| recording.samples[at].position))
            .line("simulated", &trace(&|at| simulated[at]))
    }

    /// What a robot file's `joint` gets so that the emulated joint is the one found; `now` is what it has. All that was found is written: what
    /// the data do not determine, too, as the rest was found with it.
    pub fn joint_keys(&self, now: &JointConfig) -> Written {
        let mut written = Written::default();
        for value in &self.parameters {
            // What hangs on a rig hangs on no robot.
            let of_rig = value.name == "gravity_at" && self.finds("armature");
            if JOINT_KEYS.contains(&value.name) && !of_rig {
                written.keys.push((value.name, rounded(value.value)));
            }
        }
        if let Some((_, inertia)) = written.keys.iter_mut().find(|(key, _)| *key == "inertia")
            && now.armature > 0.0
        {
            if now.armature < *inertia {
                *inertia = rounded(*inertia - now.armature);
                written.notes.push(format!(
                    "`armature` stays {}: the recordings show only its sum with `inertia`",
                    now.armature
                ));
            } else {
                written.taken_out("armature", "all inertia that was found is less");
            }
        }
        for (key, value) in [
            ("load_friction", now.load_friction),
            ("stribeck", now.stribeck),
            ("stribeck_load", now.stribeck_load),
            ("backlash", now.backlash),
        ] {
            if value != 0.0 && !self.finds(key) {
                written.taken_out(key, "the rest was found without it");
            }
        }
        written
    }

    /// What the table of a servo with a voltage law gets: what the data determine of it.
    pub fn servo_keys(&self) -> Vec<(&'static str, f64)> {
        let determined =
            self.parameters.iter().filter(|value| value.determined && SERVO_KEYS.contains(&value.name));
        determined.map(|value| (value.name, rounded(value.value))).collect()
    }

    /// How well those of these keys are known: what the data determine, unless they are not explained.
    pub fn uncertainties<'a>(&'a self, keys: &'a [&str]) -> impl Iterator<Item = (&'static str, f64)> + 'a {
        let determined =
            |value: &&Value| value.determined && self.unexplained.is_none() && value.uncertainty > 0.0;
        let written = self.parameters.iter().filter(|value| keys.contains(&value.name)).filter(determined);
        written.map(|value| (value.name, rounded(value.uncertainty)))
    }

    /// Parameters as bam's files have them, for the servo of this recording, which follows by its voltage. Its `sag` bam has not, and without a
    /// known load all inertia is its `armature`.
    pub fn bam(&self, of: &Recording) -> String {
        let motor = self.model.law(&self.values, of);
        let joint = self.model.joint(&self.values, None, None);
        let mut file = Map::new();
        let mut put = |name: &str, value: f64| _ = file.insert(name.to_owned(), json!(value));
        put("kt", motor.kt);
        put("R", motor.resistance + motor.sag_resistance);
        put("armature", if self.finds("armature") { joint.armature } else { joint.inertia });
        put("q_offset", -joint.gravity_at);
        put("friction_base", joint.coulomb);
        put("friction_viscous", joint.viscous);
        if matches!(self.model.friction(), Friction::M3 | Friction::M4) {
            put("load_friction_base", joint.load_friction);
        }
        if matches!(self.model.friction(), Friction::M2 | Friction::M4) {
            put("friction_stribeck", joint.stribeck);
            put("dtheta_stribeck", joint.stribeck_speed);
            put("alpha", joint.stribeck_shape);
        }
        if self.model.friction() == Friction::M4 {
            put("load_friction_stribeck", joint.stribeck_load);
        }
        motor.goal_speed.into_iter().for_each(|limit| put("max_velocity", limit));
        // As it was found: the law of a robot file has its own.
        put("delay", 1e-3 * self.model.value(&self.values, "delay_ms").unwrap_or(motor.delay_ms));
        file.insert("model".to_owned(), json!(format!("{:?}", self.model.friction()).to_lowercase()));
        format!("{:#}\n", serde_json::Value::Object(file))
    }

    /// This is one of the parameters that were looked for.
    fn finds(&self, name: &str) -> bool {
        self.parameters.iter().any(|value| value.name == name)
    }

    /// A joint and its actuator, that of this recording, for a MuJoCo model: what MuJoCo has of it.
    pub fn mjcf(&self, joint: &str, of: &Recording) -> String {
        let found = self.model.joint(&self.values, None, None);
        let mut text =
            "<!-- Found by khz identify. MuJoCo has no load-dependent friction, no delay and no limit of the goal's speed. -->\n".to_owned();
        let mut armature = String::new();
        if self.finds("armature") {
            armature = format!(" armature=\"{}\"", rounded(found.armature));
        } else if self.finds("inertia") {
            let whole = rounded(found.inertia);
            let _ = writeln!(
                text,
                "<!-- The joint and its load have {whole} kg·m² in all: what of that the bodies do not have is its `armature`. -->"
            );
        }
        let (damping, friction) = (rounded(found.viscous), rounded(found.coulomb));
        let _ = writeln!(
            text,
            "<joint name=\"{joint}\"{armature} damping=\"{damping}\" frictionloss=\"{friction}\"/>"
        );
        if of.has_torque_control() {
            return text + "<!-- Its actuator has the gains and limits of the robot file. -->\n";
        }
        let motor = self.model.law(&self.values, of);
        let per_volt = motor.kt / (motor.resistance + motor.sag_resistance);
        let most = rounded(per_volt * of.supply_v * motor.duty_limit);
        let _ = writeln!(
            text,
            "<position joint=\"{joint}\" kp=\"{}\" kv=\"{}\" forcerange=\"-{most} {most}\"/>",
            rounded(per_volt * of.supply_v * motor.gain),
            rounded(per_volt * motor.kt)
        );
        text
    }
}

fn note(value: &Value) -> &'static str {
    match (value.determined, value.on_bound) {
        (false, true) => "  not identifiable; at its bound",
        (false, false) => "  not identifiable",
        (true, true) => "  at its bound",
        (true, false) => "",
    }
}

/// Four digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e5).contains(&value.abs()) {
        format!("{value:.2e}")
    } else {
        rounded(value).to_string()
    }
}
