//! The documentation as a site: the pages of `docs`, and, if all is wanted, their pictures, the Python package's pages and the crates'.

use crate::{dist, package, shell, test, venv};
use anyhow::{Result, bail};
use std::process::Command;

/// Builds it in `target/site`: its pages alone, which needs three Python packages, or, with `--all`, everything; false if a page has a
/// mistake, a broken link for example.
///
/// # Errors
/// If what it is made from cannot be built.
pub fn build(args: &[String]) -> Result<bool> {
    match args {
        [] => {
            let mut sphinx = sphinx(shell::command(venv::pages()?, &[]));
            let sound = shell::succeeds(sphinx.args(["--tag", "pages"]))?;
            notice();
            Ok(sound)
        }
        [all] if all == "--all" => everything(),
        _ => bail!("`cargo xtask site` builds the pages, `cargo xtask site --all` everything"),
    }
}

fn everything() -> Result<bool> {
    let (python, khz) = (package::with_package(dist::QUICK)?, test::parts::khz()?);
    shell::run(shell::command(&python, &["docs/pictures.py"]).arg(&khz))?;
    let sound = shell::succeeds(sphinx(shell::command(python, &[])).env("KHZ", khz))?;
    let rust = ["doc", "--quiet", "--workspace", "--no-deps", "--all-features"];
    shell::run(&mut shell::cargo(&rust))?;
    let site = shell::target().join("site");
    shell::run(shell::command("cp", &["-r"]).arg(shell::target().join("doc")).arg(site.join("rust")))?;
    notice();
    Ok(sound)
}

fn sphinx(mut python: Command) -> Command {
    python.args(["-m", "sphinx", "--fail-on-warning", "--keep-going", "--builder", "html", "docs"]);
    python.arg(shell::target().join("site"));
    python
}

fn notice() {
    println!("{}", shell::target().join("site/index.html").display());
}
