//! The documentation as a site: the pages of `docs`, the Python package's and the crates'.

use crate::{dist, package, shell, test};
use anyhow::Result;

/// Builds it in `target/site`; false if a page has a mistake, a broken link for example.
///
/// # Errors
/// If what it is made from cannot be built.
pub fn build() -> Result<bool> {
    let site = shell::target().join("site");
    let mut sphinx = shell::command(
        package::with_package(dist::QUICK)?,
        &["-m", "sphinx", "--fail-on-warning", "--keep-going"],
    );
    let sound = shell::succeeds(
        sphinx.args(["--builder", "html", "docs"]).arg(&site).env("KHZ", test::parts::khz()?),
    )?;
    let rust = ["doc", "--quiet", "--workspace", "--no-deps", "--all-features"];
    shell::run(&mut shell::cargo(&rust))?;
    shell::run(shell::command("cp", &["-r"]).arg(shell::target().join("doc")).arg(site.join("rust")))?;
    println!("{}", site.join("index.html").display());
    Ok(sound)
}
