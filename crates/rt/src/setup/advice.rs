//! Where a program runs decides who grants its rights, and so what to do about one that is missing: PAM reads `limits.d` when a user
//! logs in, never for a service of systemd.

use crate::proc::Root;

const GROUP: &str = "kilohertz";
/// Of the Debian package: what they grant, they grant to the group.
const LIMITS: &str = "/etc/security/limits.d/kilohertz.conf";
const RULES: [&str; 2] = ["/usr/lib/udev/rules.d/70-kilohertz.rules", "/lib/udev/rules.d/70-kilohertz.rules"];

/// What started this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartedBy {
    /// A unit of the machine's systemd, with its name.
    Service(String),
    /// The runtime of a container.
    Container,
    /// A user who logged in: a shell, a desktop.
    Login,
}

/// How to get the rights a loop needs, each as text for the person at the machine.
#[derive(Clone, Debug)]
pub struct Advice {
    place: StartedBy,
    user: String,
    group_has_limits: bool,
    group_has_device: bool,
}

impl Advice {
    /// For this process, by the files of `root` and the name of the user. Reads files.
    #[must_use]
    pub fn new(root: &Root, user: &str) -> Self {
        let place = StartedBy::of(root);
        let group_has_device = RULES.iter().any(|file| root.has(file));
        Self { place, user: user.to_owned(), group_has_limits: root.has(LIMITS), group_has_device }
    }

    /// For real-time priority.
    #[must_use]
    pub fn priority(&self) -> String {
        match &self.place {
            StartedBy::Service(unit) => edit(unit, "LimitRTPRIO=98 and no RestrictRealtime="),
            StartedBy::Container => "start the container with --cap-add SYS_NICE --ulimit rtprio=98".into(),
            StartedBy::Login => self.limit("rtprio 98"),
        }
    }

    /// For locked memory.
    #[must_use]
    pub fn memory(&self) -> String {
        match &self.place {
            StartedBy::Service(unit) => edit(unit, "LimitMEMLOCK=infinity"),
            StartedBy::Container => "start the container with --ulimit memlock=-1".into(),
            StartedBy::Login => self.limit("memlock unlimited"),
        }
    }

    /// For `/dev/cpu_dma_latency`.
    #[must_use]
    pub fn idle_states(&self) -> String {
        match &self.place {
            StartedBy::Service(unit) if self.group_has_device => edit(unit, "SupplementaryGroups=kilohertz"),
            StartedBy::Service(unit) => format!(
                "sudo groupadd --system {GROUP}; write KERNEL==\"cpu_dma_latency\", GROUP=\"{GROUP}\", MODE=\"0660\" into \
                 /etc/udev/rules.d/70-kilohertz.rules; sudo udevadm control --reload && sudo udevadm trigger \
                 --name-match=cpu_dma_latency; {}",
                edit(unit, "SupplementaryGroups=kilohertz")
            ),
            StartedBy::Container => {
                "start the container with --device /dev/cpu_dma_latency, as a user who may write to it".into()
            }
            StartedBy::Login if self.group_has_device => self.join(),
            StartedBy::Login => "khz doctor --setup writes a udev rule that gives it to your user".into(),
        }
    }

    /// A policy that no limit grants, only a capability.
    pub(super) fn deadline(&self) -> String {
        match &self.place {
            StartedBy::Service(unit) => {
                format!("{}; or use fifo", edit(unit, "AmbientCapabilities=CAP_SYS_NICE"))
            }
            StartedBy::Container => "start the container with --cap-add SYS_NICE, or use fifo".into(),
            StartedBy::Login => "run with sudo, or use fifo".into(),
        }
    }

    fn limit(&self, limit: &str) -> String {
        if self.group_has_limits {
            return self.join();
        }
        format!(
            "echo \"{} - {limit}\" | sudo tee -a /etc/security/limits.d/99-kilohertz.conf, then log in again (or khz \
             doctor --setup)",
            self.user
        )
    }

    fn join(&self) -> String {
        format!("sudo usermod --append --groups {GROUP} \"{}\", then log in again", self.user)
    }
}

fn edit(unit: &str, lines: &str) -> String {
    // A shell would take the backslash of an escaped name.
    let unit = if unit.contains('\\') { format!("'{unit}'") } else { unit.to_owned() };
    format!("sudo systemctl edit {unit}: under [Service] {lines}; then sudo systemctl restart {unit}")
}

impl StartedBy {
    /// Of this process. Reads files.
    #[must_use]
    pub fn of(root: &Root) -> Self {
        if root.has("/.dockerenv") || root.has("/run/.containerenv") {
            return Self::Container;
        }
        // cron and sshd lie in units, too, where no session has a scope of its own; they clear the environment, and use PAM.
        let environment = root.read("/proc/self/environ").unwrap_or_default();
        let invoked = environment.split('\0').any(|variable| variable.starts_with("INVOCATION_ID="));
        match root.read("/proc/self/cgroup").as_deref().and_then(service) {
            Some(unit) if invoked => Self::Service(unit.to_owned()),
            _ => Self::Login,
        }
    }
}

/// The service of the machine that a process is in, by its control groups: the unified ones, or systemd's of the first version. A
/// person's own services have the limits of that person's login.
fn service(groups: &str) -> Option<&str> {
    let paths = ["0::", "name=systemd:"].map(|hierarchy| {
        groups.lines().find_map(|line| Some(line.split_once(hierarchy)?.1)).filter(|path| *path != "/")
    });
    let path = paths.into_iter().flatten().next().filter(|path| !path.starts_with("/user.slice/"))?;
    path.rsplit('/').find(|part| part.ends_with(".service"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn advice(files: &[(&str, &str)]) -> Advice {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (name, text) in files {
            fs::create_dir_all(root.path(name).parent().unwrap()).unwrap();
            fs::write(root.path(name), text).unwrap();
        }
        Advice::new(&root, "ada")
    }

    const INVOKED: (&str, &str) = ("/proc/self/environ", "HOME=/\0INVOCATION_ID=0f\0LANG=C\0");
    const UNIT: (&str, &str) = ("/proc/self/cgroup", "0::/system.slice/system-khz.slice/khz@head.service\n");

    #[test]
    fn a_service_is_recognised_by_its_control_group() {
        let unit = |groups| advice(&[INVOKED, ("/proc/self/cgroup", groups)]).place;
        let service = |name: &str| StartedBy::Service(name.to_owned());
        assert_eq!(unit(UNIT.1), service("khz@head.service"));
        assert_eq!(unit("0::/system.slice/robot.service/below\n"), service("robot.service"));
        assert_eq!(
            unit("9:cpu:/x.service\n1:name=systemd:/system.slice/old.service\n0::/\n"),
            service("old.service")
        );
        for login in [
            "0::/user.slice/user-1000.slice/session-3.scope\n",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope\n",
            "0::/\n",
            "",
            "rubbish",
        ] {
            assert_eq!(unit(login), StartedBy::Login, "{login:?}");
        }
    }

    #[test]
    fn what_cron_and_sshd_start_is_a_login() {
        let groups = ("/proc/self/cgroup", "0::/system.slice/ssh.service\n");
        assert_eq!(advice(&[groups, ("/proc/self/environ", "HOME=/root\0")]).place, StartedBy::Login);
    }

    #[test]
    fn a_service_is_never_sent_to_limits_that_do_not_reach_it() {
        let service = advice(&[INVOKED, UNIT]);
        let all = [service.priority(), service.memory(), service.idle_states(), service.deadline()];
        let lines =
            ["LimitRTPRIO=98", "LimitMEMLOCK=infinity", "SupplementaryGroups=kilohertz", "CAP_SYS_NICE"];
        for (text, line) in all.iter().zip(lines) {
            assert!(text.contains("systemctl edit khz@head.service: under [Service] "), "{text}");
            assert!(text.contains(line) && !text.contains("limits.d") && !text.contains("log in"), "{text}");
        }
        assert!(service.idle_states().contains("GROUP=\"kilohertz\", MODE=\"0660\""));
        let packaged = advice(&[INVOKED, UNIT, (RULES[0], "")]).idle_states();
        assert!(!packaged.contains("udev"), "the package has the rule: {packaged}");
    }

    #[test]
    fn a_person_gets_limits_of_their_own_or_the_group_s() {
        let alone = advice(&[]);
        assert!(alone.priority().contains("\"ada - rtprio 98\""), "{}", alone.priority());
        assert!(alone.memory().contains("\"ada - memlock unlimited\""), "{}", alone.memory());
        let packaged = advice(&[(LIMITS, ""), (RULES[1], "")]);
        for text in [packaged.priority(), packaged.memory(), packaged.idle_states()] {
            assert_eq!(text, "sudo usermod --append --groups kilohertz \"ada\", then log in again");
        }
    }

    #[test]
    fn no_advice_opens_anything_to_all_users() {
        let container = ("/.dockerenv", "");
        for files in [vec![], vec![INVOKED, UNIT], vec![container], vec![(LIMITS, ""), (RULES[0], "")]] {
            let advice = advice(&files);
            for text in [advice.priority(), advice.memory(), advice.idle_states()] {
                assert!(!text.contains("* -") && !text.contains("o+") && !text.contains("0666"), "{text}");
            }
        }
    }

    #[test]
    fn a_container_gets_its_rights_from_its_runtime() {
        let advice = advice(&[("/run/.containerenv", ""), INVOKED, UNIT]);
        assert!(advice.memory().contains("--ulimit memlock=-1"));
        assert!(advice.priority().contains("--ulimit rtprio=98"));
    }

    #[test]
    fn an_escaped_name_is_quoted_for_the_shell() {
        let text = advice(&[INVOKED, ("/proc/self/cgroup", "0::/system.slice/a\\x2db.service\n")]).memory();
        assert!(text.contains("systemctl edit 'a\\x2db.service':"), "{text}");
    }
}
