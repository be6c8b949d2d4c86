//! A real kernel for what the development machine's may lack: CAN, PREEMPT_RT, a watchdog.
//!
//! Debian's real-time kernel is downloaded (not installed) and booted by QEMU's own emulation, which works
//! without virtualisation support. Its first file system holds busybox, a few modules, can-utils, iproute2, our
//! statically linked binaries, and the scripts of `vm/guest`. Each script is one test; what it needs of ours
//! stands in its head:
//!
//! ```sh
//! # needs: khz                         the command
//! # needs: khz-link socketcan          the integration test `socketcan` of a package
//! ```

mod cpio;

use crate::tally::Tally;
use crate::{debian, dist, shell};
use anyhow::{Context, Result, bail};
use cpio::Archive;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const KERNEL: &str = "linux-image-rt-amd64";
/// The libraries are those of iproute2.
const PACKAGES: [&str; 12] = [
    "busybox-static",
    "can-utils",
    "iproute2",
    "libbpf1",
    "libbsd0",
    "libc6",
    "libcap2",
    "libelf1",
    "libmd0",
    "libmnl0",
    "libxtables12",
    "zlib1g",
];
const MODULES: [&str; 12] = [
    "net/can/can",
    "net/can/can-raw",
    "drivers/net/can/dev/can-dev",
    "drivers/net/can/vcan",
    "drivers/watchdog/watchdog",
    "drivers/watchdog/softdog",
    "net/llc/llc",
    "net/802/stp",
    "net/bridge/bridge",
    "drivers/net/veth",
    "net/sched/sch_netem",
    "net/sched/sch_tbf",
];
/// Where they are in their packages; in the guest they lie in `/usr/sbin`, as busybox has its own `ip`.
const TOOLS: [&str; 6] =
    ["usr/bin/candump", "usr/bin/cansend", "usr/bin/cangen", "usr/bin/canfdtest", "bin/ip", "sbin/tc"];
/// The guest's own scripts are limited to 300 s each; a guest that hangs altogether is ended after this.
const PATIENCE_S: &str = "1200";

/// Boots the virtual machine with the named guest scripts (all if none is named); true if all passed.
///
/// # Errors
/// On a wrong name, if the kernel cannot be had, or our binaries cannot be built.
pub fn run(words: &[String]) -> Result<bool> {
    let all = scripts();
    if words.iter().any(|word| word == "--list") {
        shell::print(&all.iter().map(|name| format!("{name}\n")).collect::<String>());
        return Ok(true);
    }
    if let Some(name) = words.iter().find(|word| !all.contains(word)) {
        bail!("no guest script is called `{name}`; there are: {}", all.join(", "));
    }
    let chosen: Vec<String> =
        all.into_iter().filter(|name| words.is_empty() || words.contains(name)).collect();
    if let Some(why) = cannot_run() {
        bail!(why);
    }
    let tally = boot(&chosen)?;
    println!("{tally}");
    Ok(tally.failed == 0 && tally.ran())
}

/// The names of the guest scripts.
pub fn scripts() -> Vec<String> {
    shell::entries("vm/guest").iter().map(|file| shell::stem(file)).collect()
}

/// What is missing to boot the virtual machine, after trying to install it.
pub fn cannot_run() -> Option<String> {
    let missing = debian::provide("vm").err();
    let tools = || ["apt-get", "apt-cache", "dpkg-deb"].iter().find(|tool| shell::which(tool).is_none());
    missing.or_else(|| tools().map(|tool| format!("no {tool}: the guest's kernel comes as a Debian package")))
}

/// Boots, runs the scripts, and counts the results of them and their test binaries.
///
/// # Errors
/// If something needed cannot be downloaded, built or started.
pub fn boot(scripts: &[String]) -> Result<Tally> {
    let (kernel, disk) = disk(scripts)?;
    let (_, console) = shell::tee(&mut qemu(&kernel, &disk))?;
    let mut tally = Tally::of(&console);
    if !console.contains("# guest done") {
        eprintln!("vm: the guest did not come to its end");
        tally.failed += 1;
    }
    Ok(tally)
}

/// The kernel and the guest's file system, written to this clone: what they are made of is shared with others.
fn disk(scripts: &[String]) -> Result<(PathBuf, PathBuf)> {
    let ours = ours(scripts)?;
    let _one = shell::lock(&shell::kept(), "guest")?;
    let debian = unpacked()?;
    let (kernel, disk) = (shell::target().join("guest-kernel"), shell::target().join("guest.cpio"));
    std::fs::copy(only_entry(&debian.join("boot"), "vmlinuz-")?, &kernel)
        .context("cannot copy the kernel")?;
    std::fs::write(&disk, initramfs(&debian, scripts, ours)?)
        .context("cannot write the guest's file system")?;
    Ok((kernel, disk))
}

fn qemu(kernel: &Path, disk: &Path) -> Command {
    let mut command = shell::command("timeout", &["--kill-after=5", PATIENCE_S, "qemu-system-x86_64"]);
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"]);
    command.args(["-nographic", "-no-reboot", "-nic", "none", "-append", "console=ttyS0 quiet panic=-1"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(disk);
    command
}

/// The Debian packages, unpacked into one folder; downloaded when the archive has another version.
fn unpacked() -> Result<PathBuf> {
    let folder = shell::kept().join("vm");
    let packages = [&[kernel_package()?], PACKAGES.map(str::to_owned).as_slice()].concat();
    let wanted = versions(&packages)?;
    let (stamp, root) = (folder.join("versions.txt"), folder.join("root"));
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(root);
    }
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    shell::fetch(shell::command("apt-get", &["download", "--quiet"]).args(&packages).current_dir(&folder))?;
    let files = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
    for package in files.filter(|path| path.extension().is_some_and(|extension| extension == "deb")) {
        shell::run(shell::command("dpkg-deb", &["-x"]).args([&package, &root]))?;
        std::fs::remove_file(&package)?;
    }
    std::fs::write(stamp, wanted).context("cannot write the versions")?;
    Ok(root)
}

/// What the package lists offer now.
fn versions(packages: &[String]) -> Result<String> {
    let shown = shell::output(shell::command("apt-cache", &["show", "--no-all-versions"]).args(packages))?;
    let lines = shown.lines().filter(|line| line.starts_with("Package: ") || line.starts_with("Version: "));
    Ok(lines.flat_map(|line| [line, "\n"]).collect())
}

/// The package that holds the kernel the Debian meta-package points to.
fn kernel_package() -> Result<String> {
    let named = || -> Result<Option<String>> {
        let message = shell::output(&mut shell::command("apt-cache", &["depends", KERNEL]))?;
        Ok(message.lines().find_map(|line| line.trim().strip_prefix("Depends: ").map(str::to_owned)))
    };
    match named() {
        Ok(Some(package)) => Ok(package),
        _ if debian::refreshed() => named()?.with_context(|| format!("{KERNEL} names no kernel")),
        _ => bail!("the package lists do not know {KERNEL}: type `apt-get update`"),
    }
}

fn initramfs(debian: &Path, scripts: &[String], ours: Vec<(String, PathBuf)>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let modules = only_entry(&debian.join("lib/modules"), "")?.join("kernel");
    let library = "lib/x86_64-linux-gnu";
    let mut copy = |to: String, from: PathBuf| -> Result<()> {
        let content = std::fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        archive.program(&to, &content);
        Ok(())
    };
    copy("init".into(), shell::root().join("vm/init"))?;
    copy("lib.sh".into(), shell::root().join("vm/lib.sh"))?;
    copy("bin/busybox".into(), debian.join("bin/busybox"))?;
    // The tools are linked dynamically.
    copy("lib64/ld-linux-x86-64.so.2".into(), debian.join(library).join("ld-linux-x86-64.so.2"))?;
    for folder in [library.to_owned(), format!("usr/{library}")] {
        for file in std::fs::read_dir(debian.join(folder))?.flatten().map(|entry| entry.path()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.contains(".so.") {
                copy(format!("{library}/{name}"), file)?;
            }
        }
    }
    for tool in TOOLS {
        copy(format!("usr/sbin/{}", shell::stem(Path::new(tool))), debian.join(tool))?;
    }
    for module in MODULES {
        let file = modules.join(format!("{module}.ko"));
        copy(format!("modules/{}.ko", shell::stem(&file)), file)?;
    }
    for script in scripts {
        copy(format!("guest/{script}.sh"), shell::root().join(format!("vm/guest/{script}.sh")))?;
    }
    for (to, from) in ours {
        copy(to, from)?;
    }
    Ok(archive.finish())
}

/// Our binaries the scripts need: the place in the guest, and the file here.
fn ours(scripts: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let mut binaries = Vec::new();
    for need in needs(scripts)? {
        match need.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["khz"] => {
                // As it is passed on: one file that needs no library.
                binaries.push(("bin/khz".into(), dist::program(dist::QUICK)?));
            }
            [package, test] => {
                binaries.push((format!("tests/{test}"), dist::test(dist::QUICK, package, test)?));
            }
            _ => bail!("a guest script needs `{need}`: write `khz`, or a package and its test"),
        }
    }
    Ok(binaries)
}

fn needs(scripts: &[String]) -> Result<BTreeSet<String>> {
    let mut needs = BTreeSet::new();
    for script in scripts {
        let file = shell::root().join(format!("vm/guest/{script}.sh"));
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let lines = text.lines().filter_map(|line| line.strip_prefix("# needs: "));
        needs.extend(lines.map(|need| need.trim().to_owned()));
    }
    Ok(needs)
}

/// The entry of a folder whose name begins so; there must be one.
fn only_entry(folder: &Path, start: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
    found.next().map(|entry| entry.path()).with_context(|| format!("no {start}* in {}", folder.display()))
}
