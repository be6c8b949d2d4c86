//! The files that let a robot run at real-time priority without root.
//!
//! They give rights, and root installs them. So what is written into them is checked: a user that is none would run the
//! robot as root, and a line break in a path would be a line of the unit.

use khz_page::for_shell;
use std::path::Path;

/// A file to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// The directory it belongs in.
    pub place: &'static str,
    /// What it holds.
    pub text: String,
}

/// What cannot be written into the files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// No name that every one of the files takes.
    #[error(
        "{0:?} is no name of a user: letters, digits, `_`, `-` and `.` (at most 32), the first a letter or `_`; give --user NAME"
    )]
    User(String),
    /// A path with a character that a unit cannot hold.
    #[error("the path of {what}, {path:?}, has a character that a systemd unit cannot hold; {cure}")]
    Path {
        /// What lies there.
        what: &'static str,
        /// The path.
        path: String,
        /// What to do.
        cure: &'static str,
    },
}

/// The files for a user and a robot. `program` and `robot` are full paths: of `khz`, and of the robot file.
///
/// # Errors
/// A user that cannot be one, or a path that cannot stand in a unit: no UTF-8, with control characters, or a program's
/// with `$`, quotes or backslashes.
pub fn files(user: &str, program: &Path, robot: &Path) -> Result<Vec<File>, SetupError> {
    if !is_user(user) {
        return Err(SetupError::User(user.to_owned()));
    }
    // systemd replaces variables in arguments only, and refuses quotes and backslashes in a program's path.
    let command = word(program, "$\"'\\", "khz", "install it elsewhere")?;
    let robot = word(robot, "", "the robot file", "give --robot another path")?.replace('$', "$$");
    let unit = unit(user, &command, &robot);
    Ok(vec![
        File { name: "99-kilohertz.conf", place: "/etc/security/limits.d", text: limits(user) },
        File { name: "99-kilohertz.rules", place: "/etc/udev/rules.d", text: rules(user) },
        File { name: "kilohertz.service", place: "/etc/systemd/system", text: unit },
    ])
}

/// What Debian's `adduser` and systemd's `User=` both take, and limits.conf and udev, too.
fn is_user(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let rest = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    name.len() <= 32 && name.starts_with(first) && name.chars().all(rest)
}

/// A path as a word of a command line in a unit (systemd.service(5), "Command lines").
fn word(path: &Path, but: &str, what: &'static str, cure: &'static str) -> Result<String, SetupError> {
    let text = path.to_str().filter(|text| !text.contains(|c: char| c.is_control() || but.contains(c)));
    let bad = || SetupError::Path { what, path: path.display().to_string(), cure };
    let text = text.ok_or_else(bad)?.replace('%', "%%");
    let plain = |c: char| c.is_alphanumeric() || "/._-+@:=,%$".contains(c);
    Ok(match text.chars().all(plain) {
        true => text,
        false => format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")),
    })
}

/// What to type to install files written to `directory`.
#[must_use]
pub fn install_commands(files: &[File], directory: &str) -> Vec<String> {
    let directory = for_shell(directory);
    let copy = |file: &File| format!("sudo install -m 644 {directory}/{} {}/", file.name, file.place);
    let after = [
        "sudo udevadm control --reload && sudo udevadm trigger".to_owned(),
        "sudo systemctl daemon-reload".to_owned(),
        "sudo systemctl enable --now kilohertz   # to start the robot with the machine".to_owned(),
    ];
    files.iter().map(copy).chain(after).collect()
}

fn limits(user: &str) -> String {
    format!(
        "# Lets {user} run real-time threads and lock memory, from the next login on.\n\
         {user} - rtprio 98\n\
         {user} - memlock unlimited\n"
    )
}

fn rules(user: &str) -> String {
    format!(
        "# Lets {user} keep the CPUs out of deep idle states.\n\
         KERNEL==\"cpu_dma_latency\", OWNER=\"{user}\", MODE=\"0660\"\n\
         # USB serial adapters hand over received bytes after 1 ms, not 16.\n\
         ACTION==\"add\", SUBSYSTEM==\"usb-serial\", ATTR{{latency_timer}}=\"1\"\n"
    )
}

fn unit(user: &str, program: &str, robot: &str) -> String {
    format!(
        "[Unit]\n\
         Description=Kilohertz robot\n\
         After=network.target\n\
         \n\
         [Service]\n\
         User={user}\n\
         # Logs go to /var/lib/kilohertz, unless the robot file names another place.\n\
         StateDirectory=kilohertz\n\
         WorkingDirectory=%S/kilohertz\n\
         ExecStart={program} run {robot}\n\
         LimitRTPRIO=98\n\
         LimitMEMLOCK=infinity\n\
         # Ctrl-C's signal: the robot is brought down gently, which may take supervisor.damping_s, at most 60 s.\n\
         KillSignal=SIGINT\n\
         TimeoutStopSec=90\n\
         Restart=no\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const KHZ: &str = "/usr/local/bin/khz";

    fn exec_start(program: &str, robot: &str) -> Result<String, SetupError> {
        let files = files("ada", Path::new(program), Path::new(robot))?;
        let line = files[2].text.lines().find(|line| line.starts_with("ExecStart="));
        Ok(line.unwrap().to_owned())
    }

    #[test]
    fn a_user_that_is_none_is_refused() {
        for name in ["ada", "_apt", "a.b-c_1", "Robot2"] {
            assert!(files(name, Path::new(KHZ), Path::new("/r.toml")).is_ok(), "{name}");
        }
        let long = "a".repeat(33);
        for name in [
            "",
            " ",
            "ada\nAmbientCapabilities=~",
            "a b",
            "1ada",
            "-ada",
            "a%u",
            "a$",
            "a\"",
            "é",
            "*",
            "@ada",
            &long,
        ] {
            let refused = files(name, Path::new(KHZ), Path::new("/r.toml"));
            assert_eq!(refused, Err(SetupError::User(name.to_owned())));
        }
    }

    #[test]
    fn paths_are_quoted_as_systemd_reads_them() {
        let start = |program: &str, robot: &str| exec_start(program, robot).unwrap();
        assert_eq!(start(KHZ, "/r.toml"), "ExecStart=/usr/local/bin/khz run /r.toml");
        assert_eq!(
            start("/opt/my tools/khz", "/my robot.toml"),
            r#"ExecStart="/opt/my tools/khz" run "/my robot.toml""#
        );
        assert_eq!(start("/a%b/khz", "/100%h/$HOME.toml"), "ExecStart=/a%%b/khz run /100%%h/$$HOME.toml");
        assert_eq!(start(KHZ, r#"/a"b\c'd;.toml"#), r#"ExecStart=/usr/local/bin/khz run "/a\"b\\c'd;.toml""#);
    }

    #[test]
    fn a_path_that_would_be_more_than_a_word_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        for path in ["/r\nExecStartPre=/bin/evil", "/r\t", "/r\u{7f}", "/r\u{9b}"] {
            assert!(exec_start(KHZ, path).is_err() && exec_start(path, "/r.toml").is_err(), "{path:?}");
        }
        assert!(
            exec_start("/$HOME/khz", "/r.toml").unwrap_err().to_string().contains("install it elsewhere")
        );
        let bytes = Path::new(std::ffi::OsStr::from_bytes(b"/r\xff"));
        assert!(files("ada", Path::new(KHZ), bytes).is_err());
    }

    #[test]
    fn what_is_to_be_typed_is_quoted_for_the_shell() {
        let files = files("ada", Path::new(KHZ), Path::new("/r.toml")).unwrap();
        let first = |directory| install_commands(&files, directory).swap_remove(0);
        assert!(first("a/b").starts_with("sudo install -m 644 a/b/99-"), "{}", first("a/b"));
        assert!(first("my set-up").starts_with("sudo install -m 644 'my set-up'/99-"));
        assert!(first("it's; rm").starts_with(r"sudo install -m 644 'it'\''s; rm'/99-"));
    }

    #[test]
    fn every_file_names_the_user_and_is_installed() {
        let robot = Path::new("/etc/kilohertz/quadruped.toml");
        let files = files("robot", Path::new(KHZ), robot).unwrap();
        assert!(files.iter().all(|file| file.text.contains("robot")));
        let commands = install_commands(&files, "setup");
        for file in &files {
            assert!(
                commands.iter().any(|command| command.contains(file.name) && command.contains(file.place))
            );
        }
        assert!(files[2].text.contains("ExecStart=/usr/local/bin/khz run /etc/kilohertz/quadruped.toml\n"));
    }
}
