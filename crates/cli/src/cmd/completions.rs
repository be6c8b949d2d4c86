//! `khz completions` and `khz man`: what shells and `man` know of this program.

use super::show;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the completions of a shell
///
/// Completes commands, options and files.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz completions bash > ~/.local/share/bash-completion/completions/khz
  khz completions zsh > ~/.zfunc/_khz
  khz completions fish > ~/.config/fish/completions/khz.fish")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Write the man pages of all commands
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz man ~/.local/share/man/man1
  man khz-run")]
pub struct ManArgs {
    /// The folder; made if it is not there. Pages that are there are replaced
    folder: PathBuf,
}

/// Prints the completions.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut text = Vec::new();
    generate(args.shell, &mut crate::Khz::command(), "khz", &mut text);
    show(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the man pages.
pub fn man(args: &ManArgs) -> Result<ExitCode> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make the folder {folder}"))?;
    clap_mangen::generate_to(crate::Khz::command(), &args.folder)
        .with_context(|| format!("cannot write the man pages to {folder}"))?;
    show(&format!("written to {folder}: `man {folder}/khz.1`\n"))?;
    Ok(ExitCode::SUCCESS)
}
