//! Debian packages that some tests need, installed only where root may and only if a test is there to use them.

use crate::shell;
use std::sync::OnceLock;

/// A program some tests use, the package that brings it, and the path in this workspace, or the chore, that wants it.
struct Need {
    program: &'static str,
    package: &'static str,
    wanted_by: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "chromium", package: "chromium", wanted_by: "tests/browser" },
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86", wanted_by: "vm" },
    Need { program: "debootstrap", package: "debootstrap", wanted_by: "tests/dist" },
    Need { program: "lintian", package: "lintian", wanted_by: "tests/dist" },
    Need { program: "cmake", package: "cmake", wanted_by: "tests/dist" },
    Need { program: "g++", package: "g++", wanted_by: "tests/dist" },
    Need { program: "systemd-analyze", package: "systemd", wanted_by: "tests/dist" },
    Need { program: "strace", package: "strace", wanted_by: "tests/dist" },
    Need { program: "tshark", package: "tshark", wanted_by: "tests/links" },
    Need { program: "node", package: "nodejs", wanted_by: "tests/live" },
    Need { program: "npm", package: "npm", wanted_by: "tests/live" },
    Need { program: "g++", package: "g++", wanted_by: "tests/capi" },
    Need { program: "clang++", package: "clang", wanted_by: "tests/capi" },
    Need { program: "cmake", package: "cmake", wanted_by: "tests/capi" },
    Need { program: "pkg-config", package: "pkg-config", wanted_by: "tests/capi" },
    Need { program: "valgrind", package: "valgrind", wanted_by: "tests/capi" },
    Need { program: "valgrind", package: "valgrind", wanted_by: "crates/robot/examples/instructions.rs" },
    Need { program: "g++", package: "g++", wanted_by: "crates/bench/src/bin/cpp.rs" },
    Need { program: "ip", package: "iproute2", wanted_by: "tests/rtt" },
    Need { program: "ip", package: "iproute2", wanted_by: "tests/fleet" },
    Need { program: "faketime", package: "faketime", wanted_by: "tests/fleet" },
    Need { program: "chromium", package: "chromium", wanted_by: "tests/fleet" },
    Need { program: "java", package: "default-jre-headless", wanted_by: "tests/dataset/test_engines.py" },
    Need { program: "qemu-aarch64-static", package: "qemu-user-static", wanted_by: "nightly" },
    Need { program: "cyclictest", package: "rt-tests", wanted_by: "crates/bench/src/bin/jitter.rs" },
    Need { program: "chromium", package: "chromium", wanted_by: "crates/bench/src/bin/live.rs" },
    Need { program: "sockperf", package: "sockperf", wanted_by: "crates/bench/src/bin/rtt.rs" },
];

/// Sees to it that a part's programs are there, installing them if root.
///
/// # Errors
/// One line per program that is missing and could not be installed, with what to type.
pub fn provide(wanted_by: &str) -> Result<(), String> {
    let missing: Vec<&Need> = NEEDS
        .iter()
        .filter(|need| need.wanted_by == wanted_by && shell::which(need.program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    match install(&packages) {
        true => Ok(()),
        false => Err(format!("missing: type `apt-get install {}`", packages.join(" "))),
    }
}

/// Installs packages, one process at a time; false if this is not root on Debian or the package manager refuses.
fn install(packages: &[&str]) -> bool {
    let _one = shell::lock(&shell::kept(), "apt");
    if !refreshed() {
        return false;
    }
    let arguments = ["install", "--yes", "--quiet", "--no-install-recommends"];
    let mut command = shell::command("apt-get", &arguments);
    shell::fetch(command.args(packages).env("DEBIAN_FRONTEND", "noninteractive")).is_ok()
}

/// Whether the package lists are there to install from: refreshed once in a run, and only by root.
pub fn refreshed() -> bool {
    static REFRESHED: OnceLock<bool> = OnceLock::new();
    *REFRESHED.get_or_init(|| {
        is_root() && shell::fetch(&mut shell::command("apt-get", &["update", "--quiet"])).is_ok()
    })
}

fn is_root() -> bool {
    let id = shell::output(&mut shell::command("id", &["-u"]));
    shell::which("apt-get").is_some() && id.is_ok_and(|id| id.trim() == "0")
}
