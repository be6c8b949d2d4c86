//! `khz-fleet`: robots of Kilohertz on Zenoh.
#![forbid(unsafe_code)]

mod asks;
mod bridge;
mod claim;
mod cmd;
mod fleet;
mod health;
mod known;
mod logs;
mod names;
mod network;
mod operator;
mod outlets;
mod pages;
mod programs;
mod publication;
mod recent;
mod ros;
mod serve;
mod settings;
mod thin;
mod viewed;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cmd::run() {
        Ok(code) => code,
        Err(error) if cmd::is_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            bridge::eprint_line(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}
