//! `khz new`: a robot file to begin with, a project around it, or a model of it.

mod identify;
mod model;
mod project;

use super::bus::scan;
use super::check;
use super::output;
use super::policy::{model_in, section};
use super::{complain, note, print_line, show, warn};
use anyhow::{Context, Result, anyhow, bail};
use khz_file::config::{ConfigError, FamilyName};
use khz_file::draft::model::Targets;
use khz_file::draft::policy::Decided;
use khz_file::{RobotConfig, draft};
use khz_page::for_shell;
use khz_robot::desk::{Desk, Scan};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The largest URDF that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// What the draft of a servo without a watchdog has, and what it has once its owner accepts that; its comment names the key, too.
const WATCHED: &str = ", unwatched = false";
const UNWATCHED: &str = ", unwatched = true";
/// Before what its owner writes the torque constant of a Dynamixel, and what stands in for it meanwhile: it takes no time of the cycle.
const UNKNOWN: &str = "\", position_p = ";
const STAND_IN: &str = "\", torque_constant = 1.0, position_p = ";

/// Write a robot file, a project around it, or a MuJoCo model of it
///
/// The file is checked, with its model if it has a policy. Rate and formats are chosen so that the cycle fits, as far as `khz budget`
/// predicts it. Existing files are overwritten only with --force.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("origin").args(["from", "template", "urdf", "mjcf", "model_of", "identify"])))]
#[command(group(clap::ArgGroup::new("given").required(true).multiple(true).args(["from", "template", "urdf", "mjcf", "model_of", "identify", "policy"])))]
pub struct Args {
    /// Where to write the robot file, or the model; without it, robot.toml or robot.xml
    #[arg(conflicts_with_all = ["rust", "python"])]
    file: Option<PathBuf>,
    /// Write it for the servos that reply on a link: fdcanusb:/dev/ttyACM0, socketcan:can0, …; repeat it for several adapters
    #[arg(long, value_name = "LINK")]
    from: Vec<String>,
    /// With --from, query servos of this family only: once for all links, or once for each
    #[arg(long, value_name = FamilyName::USAGE, requires = "from", conflicts_with_all = ["template", "urdf", "mjcf", "model_of", "identify"])]
    family: Vec<FamilyName>,
    /// With --from, how long to wait for the replies to one burst of queries, ms, as in `khz bus scan`
    #[arg(long, default_value_t = 20, value_name = "MS", requires = "from", value_parser = clap::value_parser!(u16).range(1..))]
    timeout_ms: u16,
    /// Copy a built-in emulated robot: pan_tilt, leg3, arm6, arm_targets, arm_rmd, koch, koch_pair, so101, so101_pair, openarm_like,
    /// leader_follower, mixed, quadruped, quadruped_walk, quadruped_mujoco or quadruped_robstride
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Write it for the rotating joints of a URDF, with their names, limits and inertia; emulated
    #[arg(long, value_name = "FILE")]
    urdf: Option<PathBuf>,
    /// Write it for the actuated joints of a MuJoCo model, with its gains, limits, IMU and keyframe; simulated in this model
    #[arg(long, value_name = "FILE")]
    mjcf: Option<PathBuf>,
    /// Write no robot file but a first MuJoCo model of the joints of this one: with their names, inertia, friction, stops, gravity
    /// and start; the rest is for you to fill in
    #[arg(long, value_name = "ROBOT", conflicts_with_all = ["rust", "python"])]
    model_of: Option<PathBuf>,
    /// Write a copy of this robot with a controller that moves one joint after another, gently and within its limits, for a
    /// recording that `khz identify` can use; without FILE, identify.toml
    #[arg(long, value_name = "ROBOT", conflicts_with_all = ["rust", "python", "policy"])]
    identify: Option<PathBuf>,
    /// Make a trained policy its controller: the ONNX model in this folder, or with this name, configured by the model's metadata and the
    /// trainer's files beside it. Shows which file each setting comes from, and what remains open. Alone, for a robot of its joints
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model_of", "rust", "python"])]
    policy: Option<PathBuf>,
    /// Make a Rust project in this folder, with the robot file in it
    #[arg(long, value_name = "DIR", conflicts_with = "python")]
    rust: Option<PathBuf>,
    /// Where the crate `kilohertz` is, for --rust; without it, where this program was built
    #[arg(long, value_name = "PATH", requires = "rust")]
    kilohertz: Option<PathBuf>,
    /// Make a Python project in this folder, with the robot file in it
    #[arg(long, value_name = "DIR")]
    python: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

/// Writes the files, and prints what to do next.
///
/// # Errors
/// There is nothing to make it of, or a file cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(robot) = &args.model_of {
        let path = args.file.clone().unwrap_or_else(|| PathBuf::from("robot.xml"));
        model::write(robot, &path, args.force)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(robot) = &args.identify {
        let path = args.file.clone().unwrap_or_else(|| PathBuf::from("identify.toml"));
        identify::write(robot, &path, args.force)?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = robot_path(args);
    let (mut text, others) = robot(args)?;
    let mut lacks = false;
    if let Some(folder) = &args.policy {
        let (with, table) = decided(&path, &text, folder, targets(args))?;
        show(&table)?;
        text = with.text;
        lacks = !with.is_complete;
    }
    let Drafted { text, mut wrong } = fitting(text, &path.display().to_string())?;
    let beside = |(name, text): &(&str, &str)| (path.with_file_name(name), (*text).to_owned());
    let others: Vec<_> = others.iter().map(beside).collect();
    let (mut files, next) = if let Some(folder) = &args.rust {
        project::rust(folder, text, args.kilohertz.as_deref())?
    } else if let Some(folder) = &args.python {
        project::python(folder, text)
    } else {
        let next = next(&for_shell(&path.display().to_string()), !args.from.is_empty());
        (vec![(path.clone(), text)], next)
    };
    files.extend(others);
    write(&files, args.force)?;
    if args.policy.is_some() && wrong.is_none() {
        wrong = check::checked(Some(&path)).err();
    }
    if wrong.is_some() || lacks {
        show(&listed(&files))?;
        wrong.into_iter().for_each(|wrong| complain(&wrong.into()));
        if lacks {
            complain(&anyhow!(
                "not all of the policy was understood: see the lines above, and those with `# not known` in the file, which runs when \
                 its list `not_known` is empty"
            ));
        }
        return Ok(ExitCode::FAILURE);
    }
    show(&format!("{}next:\n{}\n", listed(&files), indented(&next)))?;
    Ok(ExitCode::SUCCESS)
}

/// What to do with a new robot file; for a real one in the order of a bring-up.
fn next(path: &str, is_real: bool) -> String {
    let (check, run) = (format!("khz check {path}"), format!("khz run {path} --duration 5s"));
    if !is_real {
        return format!("{check}\n{run}");
    }
    format!(
        "{check}\n# Name the joints. Then turn each by hand and compare its angle (docs/bring-up.md, step 4).\n\
         # Then hold one joint with small limits (step 5), and then all:\n{run}"
    )
}

/// What drives the robot: a policy drives that of a model as in its training.
fn targets(args: &Args) -> Targets {
    if args.policy.is_some() && args.mjcf.is_some() { Targets::Jump } else { Targets::Limited }
}

/// The robot file that is decided for by the policy of a folder, and what was understood of that. Without text, one of its joints.
fn decided(robot: &Path, text: &str, folder: &Path, targets: Targets) -> Result<(Decided, String)> {
    let model = model_in(folder)?;
    let called = seen_from(robot, &model)?;
    let servos =
        (!text.is_empty()).then(|| RobotConfig::parse(text, &robot.display().to_string())).transpose()?;
    let servos: Option<Vec<String>> =
        servos.map(|robot| robot.servos.iter().map(|servo| servo.name.clone()).collect());
    let section = section(&model, &called, servos.as_deref())?;
    let decided = match servos {
        Some(_) => draft::policy::with_policy(text, &section, targets),
        None => {
            let name = folder.file_stem().map_or_else(|| "robot".into(), |name| name.to_string_lossy());
            draft::policy::robot(&section, &name)
        }
    };
    Ok((decided, section.table))
}

/// Where the robot file goes.
fn robot_path(args: &Args) -> PathBuf {
    let folder = args.rust.as_ref().or(args.python.as_ref());
    match (folder, &args.file) {
        (Some(folder), _) => folder.join("robot.toml"),
        (None, Some(file)) => file.clone(),
        (None, None) => PathBuf::from("robot.toml"),
    }
}

/// Paths from the folder of the robot file, and what is in them.
type Files = &'static [(&'static str, &'static str)];

/// A new robot file, and what is wrong with it.
struct Drafted {
    text: String,
    wrong: Option<ConfigError>,
}

/// The text of the robot file, and the files that belong to it.
fn robot(args: &Args) -> Result<(String, Files)> {
    match &args.template {
        None if args.policy.is_some()
            && args.urdf.is_none()
            && args.mjcf.is_none()
            && args.from.is_empty() =>
        {
            Ok((String::new(), &[]))
        }
        None => Ok((drawn_up(args)?, &[])),
        Some(name) => {
            let template = draft::template(name).map_err(|error| anyhow!(error))?;
            Ok((template.text.to_owned(), template.others))
        }
    }
}

/// The text of the robot file, of what there is.
fn drawn_up(args: &Args) -> Result<String> {
    if let Some(path) = &args.urdf {
        let text = read_urdf(path).with_context(|| format!("cannot read {}", path.display()))?;
        let robot = draft::urdf::of_urdf(&text).with_context(|| path.display().to_string())?;
        if robot.contains("CHECK:") {
            print_line(
                "some limits of this URDF say nothing of the robot: see the lines with CHECK in the file",
            );
        }
        return Ok(robot);
    }
    if let Some(model) = &args.mjcf {
        let called = seen_from(&robot_path(args), model)?;
        return draft::model::of_model(model, &called, targets(args))
            .with_context(|| model.display().to_string());
    }
    let links = &args.from;
    if links.is_empty() {
        bail!("write --from, --template, --urdf, --mjcf or --policy");
    }
    let mut desk = Desk::open_for(&args.family, links).map_err(|error| anyhow!(error))?;
    desk.scan_does().into_iter().for_each(note);
    let scan = Scan { last: u8::MAX, timeout_ns: i64::from(args.timeout_ms) * 1_000_000, together: false };
    let found = scan::everywhere(&mut desk, &scan, warn)?;
    if found.is_empty() {
        bail!("no servo answered on {}: {}", links.join(", "), scan::unanswered(links));
    }
    for each in &found {
        let amiss = each.family.by_hand().amiss(&each.answer);
        amiss.map(|why| scan::amiss(each, &why)).iter().for_each(warn);
        each.twins().iter().for_each(|twins| warn(format_args!("{twins}: give each its own id")));
    }
    // With what their family needs of a serial line.
    let word =
        |link: usize| Some(desk.name(desk.places().iter().position(|place| place.0 == link)?).to_owned());
    let links: Vec<String> = (0..links.len()).filter_map(word).collect();
    draft::of_found(&links, &desk.places(), &found).map_err(|error| anyhow!(error))
}

/// What a robot file calls a model: by its place from there if it is in the same folder or below, else by its whole path.
fn seen_from(robot: &Path, model: &Path) -> Result<String> {
    let model = model.canonicalize().with_context(|| format!("cannot read {}", model.display()))?;
    let folder = robot.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_default();
    let below = model.strip_prefix(&folder).ok().filter(|_| folder.is_absolute());
    Ok(below.unwrap_or(&model).display().to_string())
}

/// A device, or what is no URDF, may have no end.
fn read_urdf(path: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 {
        ..=LARGEST => Ok(text),
        _ => bail!("it is larger than 16 MiB, which no URDF is: meshes are files of their own"),
    }
}

/// The file at the rate it was made for if the cycle fits, or as near to it as it can. A file that is wrong stays as it is: its
/// owner knows what to correct. One of servos without a watchdog is only wrong until that is accepted, which takes no time of the cycle; nor does a
/// torque constant that is still to be written.
fn fitting(text: String, name: &str) -> Result<Drafted> {
    let wrong = khz_budget::File::read(&text, name).err();
    let accepted = match wrong {
        Some(_) => text.replace(WATCHED, UNWATCHED).replace(UNKNOWN, STAND_IN),
        None => text.clone(),
    };
    let file = match khz_budget::File::read(&accepted, name) {
        Ok(file) if !file.predict().fits() => file,
        _ => return Ok(Drafted { text, wrong }),
    };
    let rate_hz = RobotConfig::parse(&accepted, name)?.timing.rate_hz;
    let mut fit = file.fit(rate_hz)?;
    print_line(format_args!("with the defaults the cycle does not fit; {}", fit.text()));
    if fit.rate_hz < rate_hz {
        fit.text = fit.text.replace(draft::RATE, &format!("{}; {rate_hz} did not", draft::RATE_FITS));
    }
    if wrong.is_none() {
        return Ok(Drafted { text: fit.text, wrong });
    }
    let text = fit.text.replace(UNWATCHED, WATCHED).replace(STAND_IN, UNKNOWN);
    Ok(Drafted { wrong: khz_budget::File::read(&text, name).err(), text })
}

/// Writes all of them, or none if one of them is there.
fn write(files: &[(PathBuf, String)], force: bool) -> Result<()> {
    for (path, _) in files {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        output::check(path, force)?;
    }
    for (path, text) in files {
        let mut out = output::Output::new(path, force)?;
        out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        out.keep()?;
    }
    Ok(())
}

fn listed(files: &[(PathBuf, String)]) -> String {
    files.iter().map(|(path, _)| format!("written: {}\n", path.display())).collect()
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_that_is_wrong_is_kept_with_the_lines_to_correct() {
        let text = draft::template("leg3").unwrap().text.replace("rate_hz = 1000", "rate_hz = -1");
        let Drafted { text: kept, wrong } = fitting(text.clone(), "leg.toml").unwrap();
        assert_eq!(kept, text);
        assert!(wrong.unwrap().to_string().contains("leg.toml:"));
    }

    /// It had 1 kHz, as nothing was predicted of a file without a torque constant.
    #[test]
    fn a_draft_of_servos_of_several_models_has_a_rate_that_fits_once_their_torque_constants_are_written() {
        let servo = |(id, model): (usize, &str)| {
            format!(
                "[[servo]]\nname = \"servo_{id}\"\nbus = \"main\"\nid = {id}\nfamily = \"dynamixel\"\n# WRITE `torque_constant = …` into it.\n\
                 dynamixel = {{ model = \"{model}\", position_p = 400 }}\n"
            )
        };
        let models = ["XL330-M288", "XL430-W250", "XL330-M077", "XM430-W350"];
        let servos: String = (1..).zip(models).map(servo).collect();
        let text = format!(
            "{}\n[loop]\nrate_hz = 1000\n[bus.main]\nlink = \"rs485\"\npath = \"/dev/none\"\nbaud = 1000000\nprotocol = \"dynamixel\"\n\
             [supervisor]\nvoltage_low_v = 5\n[emulation]\nsupply_v = 7\n[servo_defaults]\n\
             limits = {{ position = [-0.5, 0.5], velocity = 1.0 }}\n{servos}",
            draft::RATE
        );
        let Drafted { text, wrong } = fitting(text, "arm.toml").unwrap();
        assert!(wrong.unwrap().to_string().contains("torque_constant"));
        assert!(text.contains(draft::RATE_FITS) && text.contains("; 1000 did not\n"), "{text}");
        assert!(!text.contains("rate_hz = 1000") && !text.contains(STAND_IN), "{text}");
        let known = text.replace(UNKNOWN, STAND_IN);
        assert!(khz_budget::File::read(&known, "arm.toml").unwrap().predict().fits(), "{text}");
    }

    /// Its rate was not looked at, and once `unwatched` was written the cycle did not fit.
    #[test]
    fn a_draft_of_servos_without_a_watchdog_fits_once_that_is_accepted() {
        let so101 = draft::template("so101").unwrap().text.replace(UNWATCHED, WATCHED);
        let fast =
            so101.replace("rate_hz = 500\nbus_deadline_us = 1900", "rate_hz = 1000 # `unwatched = true`");
        assert_ne!(fast, so101);
        let Drafted { text, wrong } = fitting(fast, "arm.toml").unwrap();
        assert!(wrong.unwrap().to_string().contains("unwatched"));
        let accepted = text.replace(WATCHED, UNWATCHED);
        assert!(accepted != text && text.contains("`unwatched = true`"), "{text}");
        assert!(khz_budget::File::read(&accepted, "arm.toml").unwrap().predict().fits(), "{text}");
    }
}
