//! Robot files to begin with: templates, the servos found on a link, the joints of a URDF or of a MuJoCo model.

mod found;
mod mjcf;
pub mod model;
pub mod policy;
mod skeleton;
pub mod urdf;

pub use found::of_found;
pub use mjcf::mjcf;
pub use skeleton::shape;
pub(crate) use skeleton::shape_in;

use crate::config::{QUADRUPED, identifier};
use khz_settings::suggestion;
use std::collections::BTreeSet;
use std::fmt;

/// What is said of the rate in a draft; where fewer ticks than usual fit, the other.
pub const RATE: &str = "# Ticks per second. `khz check` says whether the cycle fits.";
/// See [`RATE`].
pub const RATE_FITS: &str = "# Ticks per second, as many as fit by `khz budget`";

/// A robot file that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The file.
    pub text: &'static str,
    /// Files that belong to it: their paths from its folder, and what is in them.
    pub others: &'static [(&'static str, &'static str)],
}

macro_rules! robot {
    ($name:literal, $file:literal, $about:literal) => {
        Template {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../robots/", $file)),
            others: &[],
        }
    };
}

/// All templates. Each is emulated as it stands.
pub const TEMPLATES: &[Template] = &[
    robot!("pan_tilt", "pan_tilt.toml", "a camera head of two moteus servos"),
    robot!("leg3", "leg3.toml", "one leg of three moteus servos"),
    robot!("arm6", "arm.toml", "an arm of six moteus servos on one bus"),
    robot!("arm_targets", "arm_targets.toml", "an arm of three servos that follows the targets of programs"),
    robot!("arm_rmd", "arm_rmd.toml", "an arm of MyActuator RMD motors"),
    robot!("koch", "koch.toml", "an arm of six Dynamixel servos"),
    robot!("koch_pair", "koch_pair.toml", "two such arms, one of which a hand leads and the other follows"),
    robot!("so101", "so101.toml", "an arm of six Feetech servos"),
    robot!("so101_pair", "so101_pair.toml", "two such arms, one of which a hand leads and the other follows"),
    robot!("openarm_like", "openarm_like.toml", "an arm of seven Damiao servos"),
    robot!(
        "quadruped_robstride",
        "quadruped_robstride.toml",
        "twelve RobStride servos on four buses, with an IMU"
    ),
    robot!("mixed", "mixed.toml", "a leg of three RobStride and a head of two moteus servos"),
    robot!(
        "leader_follower",
        "leader_follower.toml",
        "two arms of three Damiao servos, one of which a hand leads and the other follows"
    ),
    robot!("quadruped_walk", "quadruped_walk.toml", "the quadruped, walking as an operator wants"),
    Template {
        name: "quadruped",
        about: "twelve moteus servos on four buses, with an IMU",
        text: QUADRUPED,
        others: &[],
    },
    Template {
        name: "quadruped_mujoco",
        about: "the quadruped in a MuJoCo world",
        text: include_str!("../../robots/quadruped_mujoco.toml"),
        others: &[("models/quadruped.xml", include_str!("../../robots/models/quadruped.xml"))],
    },
];

/// The template of this name.
///
/// # Errors
/// There is none; the message has those there are.
pub fn template(name: &str) -> Result<&'static Template, String> {
    let names: Vec<_> = TEMPLATES.iter().map(|template| template.name).collect();
    TEMPLATES.iter().find(|template| template.name == name).ok_or_else(|| {
        let nearest = suggestion(name, &names, "");
        let nearest =
            if nearest.starts_with("did you mean") { format!("; {nearest}") } else { String::new() };
        let lines = TEMPLATES.iter().map(|each| format!("\n  {:12}  {}", each.name, each.about));
        format!("there is no template `{name}`{nearest}; the templates are{}", lines.collect::<String>())
    })
}

/// A robot file in the making.
struct Draft {
    /// Comment at the top, a line each.
    about: Vec<String>,
    name: String,
    rate_hz: f64,
    /// Names, and the lines of each table.
    buses: Vec<(String, Vec<String>)>,
    /// The lines of `[servo_defaults]`.
    defaults: Vec<String>,
    servos: Vec<Servo>,
    /// Further tables, a line each or several.
    more: Vec<String>,
}

struct Servo {
    /// Comment above it, a line each.
    about: Vec<String>,
    name: String,
    bus: String,
    id: u8,
    /// Further lines of its table.
    lines: Vec<String>,
}

/// Servos on one emulated bus: so many fit 1 kHz with room to spare.
const PER_BUS: usize = 2;
/// Ids a bus can have, and so servos a file numbers through.
const MOST: usize = 126;
/// For joints without these limits in the description, rad/s and N·m.
const CAREFUL: [f64; 2] = [1.0, 1.0];

impl Draft {
    /// For a description without buses: emulated ones, of [`Servo::emulated`] servos.
    fn emulated(about: Vec<String>, name: &str, servos: Vec<Servo>, more: Vec<String>) -> Self {
        let bus = |index: usize| (bus_name(index), vec!["link = \"emulated\"".to_owned()]);
        let buses = (0..servos.len().div_ceil(PER_BUS)).map(bus).collect();
        Self { about, name: identifier(name), rate_hz: 1000.0, buses, defaults: Vec::new(), servos, more }
    }
}

impl Servo {
    /// The servo of this number, with an id and a bus to match.
    fn emulated(about: Vec<String>, name: String, index: usize, lines: Vec<String>) -> Self {
        Self { about, name, bus: bus_name(index / PER_BUS), id: (index + 1) as u8, lines }
    }
}

fn bus_name(index: usize) -> String {
    format!("bus_{}", index + 1)
}

/// The lines of a file about joints that get no servo.
fn left_out_lines(joints: &[String]) -> impl Iterator<Item = String> {
    joints.iter().map(|joint| format!("Left out: {}.", printable(joint)))
}

/// A joint's name as a robot file takes it. Names that differ in what it does not take become numbers.
fn unused(joint: &str, names: &mut BTreeSet<String>) -> String {
    let plain = identifier(joint);
    let mut numbered = (1..).map(|n| if n == 1 { plain.clone() } else { format!("{plain}_{n}") });
    numbered.find(|name| names.insert(name.clone())).unwrap_or_default()
}

/// A name from outside on one line.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |f: &mut fmt::Formatter<'_>, lines: &[String]| -> fmt::Result {
            lines.iter().try_for_each(|line| writeln!(f, "{line}"))
        };
        let comment = |f: &mut fmt::Formatter<'_>, about: &[String]| -> fmt::Result {
            about.iter().try_for_each(|line| writeln!(f, "{}", format!("# {line}").trim_end()))
        };
        comment(f, &self.about)?;
        writeln!(f, "\n[robot]\nname = {:?}", self.name)?;
        writeln!(f, "\n{RATE}\n[loop]\nrate_hz = {}", self.rate_hz)?;
        for (name, keys) in &self.buses {
            writeln!(f, "\n[bus.{name}]")?;
            lines(f, keys)?;
        }
        if !self.defaults.is_empty() {
            writeln!(f, "\n# What all servos have in common.\n[servo_defaults]")?;
            lines(f, &self.defaults)?;
        }
        for servo in &self.servos {
            writeln!(f)?;
            comment(f, &servo.about)?;
            writeln!(f, "[[servo]]\nname = {:?}\nbus = {:?}\nid = {}", servo.name, servo.bus, servo.id)?;
            lines(f, &servo.lines)?;
        }
        if !self.more.is_empty() {
            writeln!(f)?;
            lines(f, &self.more)?;
        }
        writeln!(
            f,
            "\n# Holds every joint where it was found; \"sine\" swings them.\n[controller]\nname = \"hold\""
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RobotConfig;

    #[test]
    fn every_template_is_a_right_file() {
        for template in TEMPLATES {
            let robot = RobotConfig::parse(template.text, template.name).unwrap();
            assert!(robot.is_emulated() && robot.warnings.is_empty(), "{}", template.name);
        }
    }

    #[test]
    fn the_robstride_quadruped_is_on_classic_can_and_right_after_the_edits_that_its_comment_names() {
        let text = template("quadruped_robstride").unwrap().text;
        let robot = RobotConfig::parse(text, "classic.toml").unwrap();
        assert!(robot.buses.iter().all(|bus| bus.link.bus().classic_only().is_some()));
        let bus = "link = \"emulated\"\nwire = \"can\"\nturnaround_us = 50\n";
        assert_eq!(text.matches(bus).count(), 4);
        let real = (0..4).fold(text.to_owned(), |text, number| {
            text.replacen(bus, &format!("link = \"socketcan\"\ninterface = \"can{number}\"\n"), 1)
        });
        let real = real.replace("[imu]\nlink = \"emulated\"\n", "");
        let robot = RobotConfig::parse(&real, "real.toml").unwrap_or_else(|error| panic!("{error}"));
        assert!(!robot.is_emulated());
        let moteus = text.replacen("family = \"robstride\"\nrobstride", "# ", 1);
        assert!(
            RobotConfig::parse(&moteus, "moteus.toml").unwrap_err().to_string().contains("speaks CAN-FD")
        );
    }

    #[test]
    fn an_unknown_template_names_the_nearest_and_lists_them() {
        let error = template("leg").unwrap_err();
        assert!(error.contains("did you mean `leg3`?") && error.contains("quadruped"), "{error}");
        assert!(template("xyzzy").unwrap_err().contains("the templates are\n  pan_tilt"));
    }

    /// They were seven in the documentation, and eight.
    #[test]
    fn the_documentation_counts_the_templates() {
        let page = include_str!("../../../../docs/configuration.md");
        let number = ["Ten", "Eleven", "Twelve", "Thirteen", "Fourteen", "Fifteen", "Sixteen"]
            .get(TEMPLATES.len() - 10);
        let sentence = format!("{} emulated robots come with the program", number.unwrap_or(&"?"));
        assert!(page.contains(&sentence), "{sentence}");
    }
}
