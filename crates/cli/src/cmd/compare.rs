//! `khz compare`: results side by side on one page.

use super::{output, show};
use anyhow::{Context, Result, anyhow, bail};
use khz_measure::jitter::{Measurement, Results, comparison_text, results_page};
use khz_page::Page;
use khz_page::duration_ns;
use khz_rtt as rtt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare results of `khz jitter` or of `khz rtt send` on one page
///
/// The files are those written with `--save`. The page is one self-contained file.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz compare before.json after.json -o comparison.html
  khz compare jitter.json --bin 1us")]
pub struct Args {
    /// Files of results; the first is what the others are compared with
    #[arg(required = true, value_name = "RESULTS.json")]
    files: Vec<PathBuf>,
    /// The page to write, which must not be there yet; by default `report.html`, or `report-1.html` and so on
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the page if it is there
    #[arg(long)]
    force: bool,
    /// Width of the histograms' bins
    #[arg(long, value_parser = duration_ns)]
    bin: Option<i64>,
    /// Print the results together as JSON and write no page
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If a file cannot be used or the page cannot be written.
pub fn run(args: Args) -> Result<ExitCode> {
    output::check_all(&args.output, &args.files, args.force)?;
    let texts = args.files.iter().map(|file| text(file)).collect::<Result<Vec<_>>>()?;
    if texts.iter().any(|text| rtt::Results::is_saved_as(text)) {
        return round_trips(&args, &texts);
    }
    let runs = read(&args.files)?;
    if args.json {
        show(&format!("{}\n", serde_json::to_string(&Results::of(runs))?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = results_page(&runs, args.bin);
    let output = args.write(&page)?;
    show(&format!("{}\nwritten to {}\n", comparison_text(&runs), output.display()))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Writes the page; returns where it is.
    fn write(&self, page: &Page) -> Result<PathBuf> {
        let path = self.output.as_deref().unwrap_or(Path::new("report.html"));
        // Results may be called report.html; the page has another name then.
        let force = self.force && !self.files.iter().any(|file| output::is_input(path, file));
        Ok(output::save(path, force, |file| write!(file, "{page}"))?)
    }
}

/// The page of results of `khz rtt`.
fn round_trips(args: &Args, texts: &[String]) -> Result<ExitCode> {
    let read = |(file, text): (&PathBuf, &String)| {
        rtt::Results::from_json(text).map_err(|why| anyhow!("{}: {why}", file.display()))
    };
    let runs = args.files.iter().zip(texts).map(read).collect::<Result<Vec<_>>>()?;
    if args.json {
        show(&format!("{}\n", serde_json::to_string(&runs)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let output = args.write(&rtt::comparison_page(&runs))?;
    let verdict = rtt::comparison_verdict(&runs).text;
    show(&format!("{verdict}\n{} runs written to {}\n", runs.len(), output.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn text(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    String::from_utf8(bytes).map_err(|_| {
        anyhow!(
            "{} is no result of a measurement; `khz log diff` compares the logs of two runs",
            file.display()
        )
    })
}

/// All runs of all files; where there are several files, each run is named for its own.
fn read(files: &[PathBuf]) -> Result<Vec<Measurement>> {
    let mut runs = Vec::new();
    for file in files {
        for mut run in Results::read(file)?.runs {
            if files.len() > 1 {
                run.name = format!("{}: {}", stem(file), run.name);
            }
            runs.push(run);
        }
    }
    if runs.is_empty() {
        bail!("there is no run in these files");
    }
    Ok(runs)
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = read(&["/nowhere/a.json".into()]).unwrap_err();
        assert!(error.to_string().contains("/nowhere/a.json"), "{error}");
    }
}
