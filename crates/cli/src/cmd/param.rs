//! `khz param`: a running robot's parameters.

use super::show;
use super::view::Secret;
use anyhow::{Context, Result, anyhow, bail};
use khz_robot::viewer;
use khz_settings::nearest;
use khz_view::{AskError, Connection, PORT, parameters};
use serde_json::{Map, Value};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

/// List, read and set the parameters of a running robot
///
/// The robot must have been started with `khz run --view`.
///
/// Exit codes: 0 done, 1 the robot refused, 2 bad input, or no robot answers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz param list
  khz param get kp_scale
  khz param set kp_scale=0.4 kd_scale=0.8          both in the same tick, or none
  khz param list --at 'http://192.168.1.7:8765/?token=3f…'")]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Where the live view is: an address, or the link that it printed
    #[arg(long, global = true, value_name = "ADDR[:PORT]|LINK", value_parser = place, default_value = "127.0.0.1")]
    at: ViewAddress,
    #[command(flatten)]
    secret: Secret,
}

#[derive(clap::Subcommand)]
enum What {
    /// Show all parameters with their values, units and ranges
    #[command(after_help = "Examples:
  khz param list
  khz param list --json > parameters.json")]
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Print the value of a parameter that is in force
    #[command(after_help = "Examples:
  khz param get kp_scale")]
    Get {
        /// The parameter
        name: String,
    },
    /// Set parameters, all or none of them, at the start of one tick
    #[command(after_help = "Examples:
  khz param set kp_scale=0.4
  khz param set kp_scale=0.4 kd_scale=0.8          both in the same tick, or none")]
    Set {
        /// What to set
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = assignment)]
        values: Vec<(String, Value)>,
    },
}

/// Where a live view is, and the token that its link had.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ViewAddress {
    at: SocketAddr,
    token: Option<String>,
}

/// An address or a link, such as `http://robot:8765/?token=3f…`.
fn place(text: &str) -> Result<ViewAddress, String> {
    if text.starts_with("https:") {
        return Err("a live view speaks http:// and ws://, and encrypts nothing".into());
    }
    if let Ok(at) = viewer::address(text) {
        let port = if at.port() == 0 { PORT } else { at.port() };
        return Ok(ViewAddress { at: SocketAddr::new(at.ip(), port), token: None });
    }
    let link = text.split_once("://").map_or(text, |(_, link)| link);
    let (host, rest) = link.split_once('/').unwrap_or((link, ""));
    let token =
        rest.split_once("token=").map(|(_, token)| token.split('&').next().unwrap_or(token).to_owned());
    let found = host.to_socket_addrs().map_err(|error| format!("{host}: {error}"))?.next();
    found.map(|at| ViewAddress { at, token }).ok_or_else(|| format!("{host} has no address"))
}

/// A name and a number or a truth value.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.trim().to_owned(), parameters::value(value)?))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let token = match &args.at.token {
        Some(token) if args.secret.is_default() => Some(token.clone()),
        _ => args.secret.read()?,
    };
    let mut connection = Connection::open(args.at.at, token.as_deref()).map_err(explained)?;
    match &args.what {
        What::List { json } => {
            let all = connection.parameters()?;
            show(&if *json { serde_json::to_string_pretty(&all)? + "\n" } else { parameters::table(&all) })?;
        }
        What::Get { name } => show(&format!("{}\n", value(&connection.parameters()?, name)?))?,
        What::Set { values } => return set(&mut connection, values),
    }
    Ok(ExitCode::SUCCESS)
}

fn set(connection: &mut Connection, values: &[(String, Value)]) -> Result<ExitCode> {
    let mut all = Map::new();
    for (name, value) in values {
        if all.insert(name.clone(), value.clone()).is_some() {
            bail!("{name} is given twice");
        }
    }
    match connection.set(&all) {
        Ok(Some(tick)) => show(&format!("taken by tick {tick}\n"))?,
        Ok(None) => show("taken\n")?,
        Err(AskError::Refused(why)) => {
            super::print_line(format_args!("refused: {why}"));
            return Ok(ExitCode::from(1));
        }
        Err(AskError::Unanswered(why)) => {
            super::print_line(format_args!("{why}; whether the value was taken is not known: read it"));
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// What to do about it.
fn explained(error: AskError) -> anyhow::Error {
    match error {
        AskError::NotServed(..) => {
            anyhow!("{error}; is the robot running with `khz run --view`? Its link has the address for --at")
        }
        error => error.into(),
    }
}

fn value<'a>(all: &'a [Value], name: &str) -> Result<&'a Value> {
    let names: Vec<&str> = all.iter().filter_map(|one| one["name"].as_str()).collect();
    let found = all.iter().find(|one| one["name"] == name).map(|one| &one["value"]);
    found.with_context(|| match nearest(name, &names) {
        Some(near) => format!("no parameter {name}; did you mean {near}?"),
        None if all.is_empty() => "the robot has no parameters".to_owned(),
        None => format!("no parameter {name}; there are {}", names.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_numbers_or_truth() {
        assert_eq!(assignment("kp = 0.4"), Ok(("kp".into(), json!(0.4))));
        assert_eq!(assignment("on=true"), Ok(("on".into(), json!(true))));
        for bad in ["kp", "kp=", "kp=fast", "kp=[1]", "kp=NaN", "kp=\"1\""] {
            assert!(assignment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_link_that_the_view_printed_is_a_place() {
        let at: SocketAddr = "127.0.0.1:9000".parse().unwrap();
        let token = Some("abcdefgh".to_owned());
        assert_eq!(place("http://127.0.0.1:9000/?token=abcdefgh"), Ok(ViewAddress { at, token }));
        assert_eq!(place("ws://localhost:9000").map(|place| place.at.port()), Ok(9000));
        assert_eq!(place("127.0.0.1").map(|place| place.at.port()), Ok(PORT));
        assert_eq!(place("localhost:9000").map(|place| place.at.port()), Ok(9000));
        assert!(place("http://127.0.0.1/").is_err() && place("robot").is_err());
    }

    #[test]
    fn a_parameter_that_is_not_there_is_named_with_one_that_is() {
        let all = [json!({ "name": "kp_scale", "value": 0.5 })];
        assert_eq!(value(&all, "kp_scale").unwrap(), &json!(0.5));
        assert!(value(&all, "kp_scal").unwrap_err().to_string().contains("did you mean kp_scale"));
        assert!(value(&[], "x").unwrap_err().to_string().contains("no parameters"));
    }
}
