//! Links as the command line names them, and `khz bus info`.

use crate::cmd::show;
use anyhow::{Result, anyhow};
use khz_robot::desk::{Desk, is_robot_file};
use khz_robot::links::LinkConfig;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tell what each link is, what it can do, and what is wrong with it.
#[derive(clap::Args)]
pub struct Args {
    /// The links: KIND:TARGET, a robot file, or `emulated`.
    #[arg(required = true, value_name = "LINK")]
    links: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The robot files among links as the command line names them.
pub fn robots(words: &[String]) -> Vec<PathBuf> {
    words.iter().filter(|word| is_robot_file(word)).map(PathBuf::from).collect()
}

/// Opens links as the command line names them.
pub fn desk(words: &[String]) -> Result<Desk> {
    Desk::open(words).map_err(|error| anyhow!("{error}"))
}

/// `khz bus info`.
pub fn info(args: &Args) -> Result<ExitCode> {
    let findings: Vec<_> = args.links.iter().flat_map(|word| findings(word)).collect();
    let mut desk = desk(&args.links);
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
    let tell = |link: &mut Box<dyn khz_link::Link>| {
        let kind = link.capabilities().kind;
        link.about().unwrap_or_else(|error| vec![format!("{kind}: cannot be asked about itself: {error}")])
    };
    desk.links().iter_mut().flat_map(tell).collect()
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
