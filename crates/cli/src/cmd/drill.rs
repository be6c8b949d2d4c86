//! `khz drill`: inject faults into the emulated robot and measure what happens.

use super::progress;
use super::{output, show, show_judged};
use anyhow::{Result, bail};
use khz_drill::campaign::{Campaign, Count, campaign_watched, idle};
use khz_drill::fall::{self, Fall, ratio};
use khz_drill::heat::{self, Sun, Walk};
use khz_drill::{Fleet, in_words, watch_prints};
use khz_file::config::{ConfigError, RobotConfig};
use khz_page::{Page, counted, for_shell, grouped};
use serde_json::json;
use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Inject faults into the emulated robot and measure what happens.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(clap::Subcommand)]
enum Drill {
    /// One injected fault, several reactions: the impact speed of each.
    #[command(after_help = "Examples:
  khz drill fall --report fall.html
  khz drill fall robots/quadruped.toml --json")]
    Fall {
        /// The robot file; without it, the built-in quadruped.
        robot: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Write the plots to this HTML file, which must not be there yet.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Overwrite the HTML file if it is there.
        #[arg(long)]
        force: bool,
    },
    /// Thermal run: an hour of trotting in the sun, until a servo is too hot; several reactions, and the impact speed of each.
    ///
    /// Heat flows faster than the robot moves, so that the hour takes minutes; what is not in the robot file are
    /// estimates, see docs/safety.md.
    #[command(after_help = "Examples:
  khz drill heat --report heat.html
  khz drill heat --ambient 45 --sun 20")]
    Heat {
        /// The robot file; without it, the built-in quadruped.
        robot: Option<PathBuf>,
        /// Temperature of the air, °C.
        #[arg(long, value_name = "C", default_value_t = Sun::default().ambient_c, value_parser = |text: &str| within(text, -40.0, 70.0))]
        ambient: f64,
        /// What the sun gives each servo, W.
        #[arg(long, value_name = "W", default_value_t = Sun::default().sun_w, value_parser = |text: &str| within(text, 0.0, 100.0))]
        sun: f64,
        /// Heat flows this many times as fast as everything else; 1 simulates the hour second by second.
        #[arg(long, value_name = "N", default_value_t = Sun::default().heat_rate, value_parser = |text: &str| within(text, 1.0, 200.0))]
        heat_rate: f64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Write the plots to this HTML file, which must not be there yet.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Overwrite the HTML file if it is there.
        #[arg(long)]
        force: bool,
    },
    /// Thousands of runs with injected faults drawn at random, and what must hold in every one.
    #[command(after_help = "Examples:
  khz drill campaign --scenarios 5000
  khz drill campaign robot.toml --seed 4711 --scenarios 1      one of them again")]
    Campaign {
        /// The robot file; without it, a fleet of built-in robots.
        robot: Option<PathBuf>,
        /// How many runs.
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
        scenarios: u64,
        /// Seed of the first run; a violation's seed replays it.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Run one scenario after the other, on one CPU, and print each result as a line of JSON.
        #[arg(long, conflicts_with = "json")]
        each: bool,
    },
}

/// Runs the drill; 1 if something did not hold.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.drill {
        Drill::Fall { robot, json, report, force } => {
            output::check_all(&report, &robot, force)?;
            let falls = fall::experiments(&load(robot)?)?;
            write_page(report.as_deref(), force, || fall::page(&falls))?;
            match json {
                true => show(&falls_json(&falls))?,
                false => show_judged(fall::verdict(&falls).level, &falls_table(&falls))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Drill::Heat { robot, ambient, sun, heat_rate, json, report, force } => {
            output::check_all(&report, &robot, force)?;
            let sun = Sun { ambient_c: ambient, sun_w: sun, heat_rate };
            let config = load(robot)?;
            let minutes = heat::ALL_MINUTES;
            let walks = progress::counted(minutes, "minutes of heat", |done| {
                heat::experiments_watched(&config, sun, done)
            })?;
            write_page(report.as_deref(), force, || heat::page(&walks, sun))?;
            match json {
                true => show(&walks_json(&walks, sun))?,
                false => show_judged(heat::verdict(&walks).level, &walks_text(&walks, sun))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Drill::Campaign { robot, scenarios, seed, json, each } => {
            // Controllers panic by the hundred here, and none may be printed.
            watch_prints();
            let fleet = fleet_of(robot.clone())?;
            if each {
                return print_each(&fleet, scenarios, seed);
            }
            let result = progress::counted(scenarios, "scenarios", |begun| {
                campaign_watched(&fleet, scenarios, seed, begun)
            })?;
            match json {
                true => show(&campaign_json(&result))?,
                false => show_judged(result.verdict().level, &campaign_text(&result, robot.as_deref()))?,
            }
            Ok(ExitCode::from(u8::from(!result.violations.is_empty())))
        }
    }
}

fn load(robot: Option<PathBuf>) -> Result<RobotConfig, ConfigError> {
    match robot {
        Some(path) => RobotConfig::load(path),
        None => Ok(RobotConfig::quadruped()),
    }
}

/// The robot of this file, if it can move; without one, the built-in robots.
fn fleet_of(robot: Option<PathBuf>) -> Result<Fleet> {
    let Some(path) = robot else { return Ok(Fleet::built_in()) };
    let fleet = Fleet::of(&load(Some(path.clone()))?);
    if let Some(why) = idle(&fleet) {
        bail!("{}: {why}", path.display());
    }
    Ok(fleet)
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("a number from {least} to {most} is wanted"))
}

fn write_page(path: Option<&Path>, force: bool, page: impl FnOnce() -> Page) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let page = page().to_string();
    output::save(path, force, |file| file.write_all(page.as_bytes()))?;
    Ok(())
}

fn walks_json(walks: &[Walk], sun: Sun) -> String {
    format!("{:#}\n", json!({ "verdict": heat::verdict(walks), "sun": sun, "experiments": walks }))
}

/// A figure, or that there is none.
fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
}

fn falls_json(falls: &[Fall]) -> String {
    let speeds: serde_json::Map<_, _> =
        falls.iter().map(|fall| (fall.name.to_owned(), json!(fall.contact_speed))).collect();
    let value = json!({ "verdict": fall::verdict(falls), "contact_speed": speeds, "ratio_to_power_cut": ratio(falls), "experiments": falls });
    format!("{value:#}\n")
}

fn falls_table(falls: &[Fall]) -> String {
    let mut text = format!(
        "{}\n\n{:<30} {:>11} {:>12} {:>15} {:>12}  {}\n",
        fall::verdict(falls).text,
        "",
        "impact m/s",
        "peak force N",
        "peak torque N·m",
        "answered ms",
        "because of"
    );
    for fall in falls {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<30} {:>11} {:>12.0} {:>15} {:>12}  {}",
            fall.name,
            number(fall.contact_speed, 3),
            fall.peak_force,
            number(fall.peak_torque, 2),
            number(fall.reaction_ms, 3),
            fall.cause.as_deref().unwrap_or("–"),
        );
    }
    if let Some(ratio) = ratio(falls) {
        let _ = writeln!(text, "\nimpact speed: ratio to power cut: {ratio:.3}");
    }
    text
}

fn walks_text(walks: &[Walk], sun: Sun) -> String {
    let mut text = format!(
        "{}\n\n{}\n\n{:<24} {:>9} {:>8} {:>10} {:>8} {:>11} {:>12} {:>12}  {}\n",
        heat::verdict(walks).text,
        heat::about(sun),
        "",
        "fault min",
        "down min",
        "hottest °C",
        "height m",
        "impact m/s",
        "to power cut",
        "peak force N",
        "because of"
    );
    for walk in walks {
        let fall = walk.fall.as_ref();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<24} {:>9} {:>8} {:>10.1} {:>8.3} {:>11} {:>12} {:>12}  {}",
            walk.name,
            number(walk.fault_min, 1),
            number(walk.down_min, 1),
            walk.hottest_c,
            walk.height,
            number(walk.contact_speed, 3),
            number(walk.of_power_cut, 3),
            number(fall.map(|fall| fall.peak_force), 0),
            fall.and_then(|fall| fall.cause.as_deref()).unwrap_or("–"),
        );
    }
    let _ = write!(text, "\n{:<24}", "hottest °C after minutes");
    let minutes = (1..=12).map(|five| 5 * five);
    minutes.clone().for_each(|minute| _ = write!(text, " {minute:>3}"));
    for walk in walks {
        let _ = write!(text, "\n{:<24}", walk.name);
        for minute in minutes.clone() {
            let then = walk.minutes.iter().find(|then| then.minute.floor() as i32 == minute);
            let _ = write!(text, " {:>3}", number(then.map(|then| then.hottest_c), 0));
        }
    }
    text + "\n"
}

/// First what the lines are and whose, so that a reader knows that the robot is in order; then the scenarios.
fn print_each(fleet: &Fleet, scenarios: u64, seed: u64) -> Result<ExitCode> {
    let seeds = (0..scenarios).map(|index| seed.wrapping_add(index));
    let outcomes = khz_drill::outcomes(fleet, seeds)?;
    let head = json!({ "format": "khz-campaign", "version": 1, "khz": env!("CARGO_PKG_VERSION") });
    show(&format!("{head}\n"))?;
    let mut held = true;
    for outcome in outcomes {
        held &= outcome.invariant.is_none();
        show(&format!("{}\n", json!(outcome)))?;
    }
    Ok(ExitCode::from(u8::from(!held)))
}

fn campaign_json(campaign: &Campaign) -> String {
    let mut value = json!(campaign);
    value["verdict"] = json!(campaign.verdict());
    format!("{value:#}\n")
}

/// `robot` is the file the robots were drawn from.
fn campaign_text(campaign: &Campaign, robot: Option<&Path>) -> String {
    let file = robot.map_or(String::new(), |path| format!(" {}", for_shell(&path.to_string_lossy())));
    let mut text = format!(
        "{}\n{} from seed {}: {} came under control, {} brought down by an injected fault, {}\n",
        campaign.verdict().text,
        counted(campaign.scenarios, "scenario"),
        campaign.seed,
        grouped(campaign.armed),
        grouped(campaign.brought_down),
        counted(campaign.violations.len() as u64, "violation")
    );
    if let Some(reaction) = campaign.reaction_us {
        let _ = writeln!(
            text,
            "fault on the wire → last damping command: p50 {:.0} µs, p90 {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs, max {:.0} µs (allowed {:.0} µs, {} runs)",
            reaction.p50,
            reaction.p90,
            reaction.p99,
            reaction.p999,
            reaction.max,
            reaction.allowed,
            reaction.count
        );
    }
    let _ = writeln!(text, "fastest driven joint: {:.2} of what is allowed", campaign.peak_speed);
    let _ = writeln!(
        text,
        "\n{:<31} {:>7} {:>7} {:>12} {:>10}",
        "runs with", "runs", "armed", "brought down", "violations"
    );
    for (name, Count { runs, armed, brought_down, violations }) in &campaign.drawn {
        let [runs, armed, down, violations] = [*runs, *armed, *brought_down, *violations].map(grouped);
        let _ = writeln!(text, "{:<31} {runs:>7} {armed:>7} {down:>12} {violations:>10}", in_words(name));
    }
    for (invariant, count) in &campaign.broken {
        let _ = writeln!(text, "\nviolated: {invariant}, in {count} runs");
    }
    for violation in &campaign.violations {
        let _ = writeln!(
            text,
            "\nVIOLATION {}: {}\n  {}",
            violation.invariant, violation.what, violation.scenario
        );
        let _ = writeln!(text, "  replay: khz drill campaign{file} --scenarios 1 --seed {}", violation.seed);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_drill::Invariant;
    use khz_drill::campaign::Violation;

    #[test]
    fn a_violation_is_replayed_with_the_robot_file_it_was_found_with() {
        let violation =
            Violation { seed: 7, scenario: String::new(), invariant: Invariant::Panics, what: String::new() };
        let campaign = Campaign { violations: vec![violation], ..Campaign::default() };
        let replay = |robot: Option<&str>| {
            let text = campaign_text(&campaign, robot.map(Path::new));
            text.rsplit_once("replay: ").unwrap().1.to_owned()
        };
        assert_eq!(replay(None), "khz drill campaign --scenarios 1 --seed 7\n");
        assert_eq!(replay(Some("a/lr.toml")), "khz drill campaign a/lr.toml --scenarios 1 --seed 7\n");
        let odd = replay(Some("Tom's leg.toml"));
        assert_eq!(odd, "khz drill campaign 'Tom'\\''s leg.toml' --scenarios 1 --seed 7\n");
    }
}
