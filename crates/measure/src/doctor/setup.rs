//! The files that let a robot run at real-time priority without root.

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

/// The files for a user and a robot. `program` and `robot` are full paths: of `khz`, and of the robot file.
#[must_use]
pub fn files(user: &str, program: &str, robot: &str) -> Vec<File> {
    vec![
        File { name: "99-kilohertz.conf", place: "/etc/security/limits.d", text: limits(user) },
        File { name: "99-kilohertz.rules", place: "/etc/udev/rules.d", text: rules(user) },
        File { name: "kilohertz.service", place: "/etc/systemd/system", text: unit(user, program, robot) },
    ]
}

/// What to type to install files written to `directory`.
#[must_use]
pub fn install_commands(files: &[File], directory: &str) -> Vec<String> {
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

    #[test]
    fn every_file_names_the_user_and_is_installed() {
        let files = files("robot", "/usr/local/bin/khz", "/etc/kilohertz/quadruped.toml");
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
