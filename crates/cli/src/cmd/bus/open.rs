//! Links as the command line names them, and `khz bus info`.

use crate::cmd::show;
use anyhow::{Result, anyhow};
use khz_file::links::LinkConfig;
use khz_link::Role;
use khz_robot::desk::{Desk, is_robot_file};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what each link is, what it can do, and what is wrong with it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus info socketcan:can0
  khz bus info pi3hat --json")]
pub struct Args {
    #[command(flatten)]
    links: Links,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The links a command works on: as words, or with `--link`, as where the words are frames.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
pub struct Links {
    /// The links: KIND:TARGET, a robot file, or `emulated`
    #[arg(value_name = "LINK")]
    words: Vec<String>,
    /// The same, as an option; repeatable
    #[arg(long = "link", short = 'l', value_name = "LINK")]
    options: Vec<String>,
}

impl Links {
    /// All of them.
    pub fn all(&self) -> Vec<String> {
        self.words.iter().chain(&self.options).cloned().collect()
    }
}

/// The robot files among links as the command line names them.
pub fn robots(words: &[String]) -> Vec<PathBuf> {
    words.iter().filter(|word| is_robot_file(word)).map(PathBuf::from).collect()
}

/// Opens links as the command line names them.
pub fn desk(words: &[String]) -> Result<Desk> {
    Desk::open(words).map_err(|error| anyhow!("{error}"))
}

/// The same, for commands that send nothing: they may run beside a program that commands the devices, where the link allows it.
pub fn listen(words: &[String]) -> Result<Desk> {
    Desk::open_as(Role::Listener, words).map_err(|error| anyhow!("{error}"))
}

/// `khz bus info`.
pub fn info(args: &Args) -> Result<ExitCode> {
    let links = args.links.all();
    let findings: Vec<_> = links.iter().flat_map(|word| findings(word)).collect();
    let mut desk = listen(&links);
    let about: Vec<_> = desk.iter_mut().flat_map(about).collect();
    if args.json {
        let error = desk.as_ref().err().map(|error| format!("{error:#}"));
        let list: Vec<_> = desk.iter().flat_map(describe).collect();
        show(&format!(
            "{}\n",
            json!({ "buses": list, "about": about, "findings": findings, "error": error })
        ))?;
    } else {
        let mut text = String::new();
        for bus in desk.iter().flat_map(describe) {
            writeln!(
                text,
                "bus {} {} ({}): {}, {} frames in flight",
                bus["bus"],
                bus["name"].as_str().unwrap_or_default(),
                bus["kind"].as_str().unwrap_or_default(),
                if bus["half_duplex"] == json!(true) { "half duplex" } else { "full duplex" },
                bus["in_flight"]
            )?;
        }
        about.iter().try_for_each(|line| writeln!(text, "{line}"))?;
        findings.iter().try_for_each(|finding| writeln!(text, "{finding}"))?;
        show(&text)?;
    }
    desk?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn about(desk: &mut Desk) -> Vec<String> {
    let about_link = |link: &mut Box<dyn khz_link::Link>| {
        let kind = link.capabilities().kind;
        link.about().unwrap_or_else(|error| vec![format!("{kind}: cannot be asked about itself: {error}")])
    };
    desk.links().iter_mut().flat_map(about_link).collect()
}

fn describe(desk: &Desk) -> Vec<serde_json::Value> {
    let one = |bus| {
        let (link, channel) = desk.link(bus);
        let can = link.capabilities();
        json!({
            "bus": bus + 1, "name": desk.name(bus), "kind": can.kind, "half_duplex": link.half_duplex(channel),
            "in_flight": can.in_flight, "emulated": can.emulated,
        })
    };
    (0..desk.buses()).map(one).collect()
}

/// What is wrong with the link a word names.
fn findings(word: &str) -> Vec<String> {
    LinkConfig::by_hand(word).map_or_else(Vec::new, |link| link.bus().findings())
}
