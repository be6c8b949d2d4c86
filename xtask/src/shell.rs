//! Starting other programs: always in the workspace root, always without standard input, always shown.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The folder that holds the workspace: that of the tree in which `cargo xtask` was typed. Where trees share a target folder, this
/// program may have been built in another one.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let here =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&here).parent().unwrap_or(Path::new(".")).to_owned()
    })
}

/// Where cargo puts what it makes, and we what we make of that.
pub fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Where what takes long to fetch is kept: for all clones of this user, or if there is no such place in [`target`].
pub fn kept() -> PathBuf {
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = set.or_else(home).map(|folder| folder.join("kilohertz"));
    folder.filter(|folder| std::fs::create_dir_all(folder).is_ok()).unwrap_or_else(target)
}

/// A lock that other processes of ours wait for, held as long as what is returned.
///
/// # Errors
/// If it cannot be made or taken.
pub fn lock(folder: &Path, name: &str) -> Result<File> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = File::create(folder.join(format!("{name}.lock"))).context("cannot make a lock")?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).context("cannot take a lock")?;
    Ok(file)
}

/// Where cargo puts a program of a profile (`release`, `dist`).
pub fn program(profile: &str, name: &str) -> PathBuf {
    target().join(profile).join(name)
}

/// Keeps the paths of this machine out of what a command compiles: the workspace, and what cargo and rustup keep at
/// home. Commands that do so share what they compile, and no others do.
///
/// # Errors
/// If `HOME` is not set.
pub fn remapped(command: &mut Command) -> Result<&mut Command> {
    let home = std::env::var("HOME").context("HOME is not set")?;
    let pairs = [(home.as_str(), "home"), (&root().display().to_string(), "kilohertz")]
        .map(|(from, to)| format!("--remap-path-prefix={from}=/{to}"));
    // As cargo takes them: a path may have spaces.
    Ok(command.env("CARGO_ENCODED_RUSTFLAGS", pairs.join("\x1f")))
}

/// A command that will run in the workspace root, without standard input.
pub fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// Prints a text. A reader that wants no more of it, as `head` does, is no error.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// `cargo` of the toolchain that runs us.
pub fn cargo(arguments: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// Makes clippy the compiler of our own crates in what a command builds, in the way `cargo clippy` makes it so. `cargo clippy` itself would
/// check all that others wrote, too, and share nothing with compiling it for the tests. Commands that do so share what they compile.
pub fn linted(command: &mut Command) -> &mut Command {
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env_remove("CLIPPY_ARGS")
}

/// Shows a command that compiles, and runs it [`linted`]; true if it succeeded and nothing warned. Warnings are no errors to the compiler,
/// so that tests run beside them.
///
/// # Errors
/// If it could not be started.
pub fn is_clean(command: &mut Command) -> Result<bool> {
    linted(command);
    show(command);
    let mut child = command.stderr(Stdio::piped()).spawn().with_context(|| cannot_start(command))?;
    let text = passed_on(child.stderr.take().context("no standard error")?)?;
    Ok(child.wait()?.success() && !text.lines().any(|line| line.starts_with("warning")))
}

/// Shows the command and runs it; true if it succeeded.
///
/// # Errors
/// If it could not be started.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    show(command);
    let status = command.status().with_context(|| cannot_start(command))?;
    Ok(status.success())
}

/// Shows the command and runs it.
///
/// # Errors
/// If it could not be started, or failed.
pub fn run(command: &mut Command) -> Result<()> {
    if succeeds(command)? {
        return Ok(());
    }
    bail!("failed: {}", words(command))
}

/// [`run`]s a command that fetches something, which may fail twice: networks do, and package managers when another
/// process is installing.
///
/// # Errors
/// As [`run`].
pub fn fetch(command: &mut Command) -> Result<()> {
    for pause_s in [5, 30] {
        if succeeds(command)? {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_secs(pause_s));
    }
    run(command)
}

/// Shows the command and runs it; its standard output is passed on line by line and also returned.
///
/// # Errors
/// If it could not be started.
pub fn tee(command: &mut Command) -> Result<(bool, String)> {
    show(command);
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| cannot_start(command))?;
    let text = passed_on(child.stdout.take().context("no standard output")?)?;
    Ok((child.wait()?.success(), text))
}

/// What a command prints on standard output.
///
/// # Errors
/// If it could not be started, failed, or printed something that is no text.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        bail!("failed: {}", words(command));
    }
    String::from_utf8(output.stdout).context("not UTF-8")
}

/// Where a program is found on the `PATH` (or in `/usr/sbin`, where ordinary users' paths do not look).
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether this runs in continuous integration, where a part that cannot run is a failure.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Files and folders directly in a folder of the workspace, by name; empty if there is no such folder.
pub fn entries(folder: &str) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(root().join(folder))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    entries.sort();
    entries
}

/// The last part of a path without its extension, as text.
pub fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// All lines, each printed when it comes.
fn passed_on(output: impl Read) -> Result<String> {
    let mut text = String::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

fn show(command: &Command) {
    println!("$ {}", words(command));
}

fn words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words: Vec<_> = std::iter::once(program).chain(command.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ").replace(&format!("{}/", root().display()), "")
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`: is it installed?", command.get_program().to_string_lossy())
}
