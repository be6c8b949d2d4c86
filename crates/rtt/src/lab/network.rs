//! A network inside this machine: namespaces joined by veth pairs and bridges, made and removed here.
use super::super::RttError;
use super::ports::{Ports, refused};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

/// Namespaces of ours begin with this, then the process that made them.
const PREFIX: &str = "khzlab";
/// Where `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";
/// The controller's address; it is not visible outside the namespaces.
const CONTROLLER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The broadcast address of the network.
pub(super) const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 255);
/// The most devices a network can have.
pub(super) const MOST_DEVICES: usize = 250;

/// Makes a namespace a switch.
const SWITCH: &str = "link add name sw0 type bridge\nlink set dev sw0 up\nlink set dev lo up\n";

/// A controller and devices at a switch, and one device more at a second switch behind the first.
///
/// Everything is gone when this is dropped. What a killed process left behind is removed by the next.
#[derive(Debug)]
pub(super) struct Network {
    devices: usize,
}

impl Network {
    /// Builds it, with so many devices at the first switch.
    ///
    /// # Errors
    /// If `ip` is missing, namespaces are not permitted, or there can be no such ports.
    pub(super) fn build(devices: usize, ports: &Ports) -> Result<Self, RttError> {
        ports.check()?;
        remove_leftovers();
        let network = Self { devices };
        let spaces: Vec<String> =
            network.members().iter().chain(&["s1".into(), "s2".into()]).map(|member| space(member)).collect();
        ip(None, &spaces.iter().map(|space| format!("netns add {space}\n")).collect::<String>())?;
        ip(Some("s1"), SWITCH)?;
        ip(Some("s2"), SWITCH)?;
        let second = space("s2");
        let trunk = format!(
            "link add name trunk type veth peer name trunk netns {second}\nlink set dev trunk master sw0 up\n"
        );
        ip(Some("s1"), &trunk)?;
        ip(Some("s2"), "link set dev trunk master sw0 up\n")?;
        for (port, member) in network.members().iter().enumerate() {
            network.join(member, port)?;
        }
        network.set_up(ports)?;
        Ok(network)
    }

    /// Everyone with an address: the controller, the devices, the one behind the second switch.
    fn members(&self) -> Vec<String> {
        let devices = (0..self.devices).map(|at| format!("d{at}"));
        ["c".to_owned()].into_iter().chain(devices).chain(["far".to_owned()]).collect()
    }

    fn join(&self, member: &str, port: usize) -> Result<(), RttError> {
        let switch = switch_of(member);
        let space = space(member);
        let port = format!("p{port}");
        ip(
            Some(switch),
            &format!(
                "link add name {port} type veth peer name eth0 netns {space}\nlink set dev {port} master sw0 up\n"
            ),
        )?;
        let address = self.address(member);
        ip(
            Some(member),
            &format!(
                "link set dev lo up\nlink set dev eth0 up\naddr add {address}/16 broadcast {BROADCAST} dev eth0\n"
            ),
        )
    }

    fn address(&self, member: &str) -> Ipv4Addr {
        match member.strip_prefix('d').and_then(|at| at.parse::<u8>().ok()) {
            Some(at) => Ipv4Addr::new(10, 77, 1, at + 1),
            None if member == "far" => Ipv4Addr::new(10, 77, 2, 1),
            None => CONTROLLER,
        }
    }

    /// Call it once all members are joined, so that joining is neither slow nor lossy.
    fn set_up(&self, ports: &Ports) -> Result<(), RttError> {
        for (port, member) in self.members().iter().enumerate() {
            for (qdisc, rule) in ports.rules(&format!("p{port}")) {
                batch("tc", Some(switch_of(member)), &rule)?.map_err(|stderr| refused(qdisc, &stderr))?;
            }
        }
        Ok(())
    }

    /// The address of a device's echo.
    pub(super) fn device(&self, at: usize, port: u16) -> SocketAddr {
        (self.address(&format!("d{at}")), port).into()
    }

    /// The address of the echo behind the second switch.
    pub(super) fn far(&self, port: u16) -> SocketAddr {
        (self.address("far"), port).into()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let members = self.members();
        let spaces = members.iter().map(String::as_str).chain(["s1", "s2"]);
        remove(spaces.map(space).filter(|space| std::path::Path::new(NAMESPACES).join(space).exists()));
    }
}

/// Does something in the namespace of a member, on its own thread. Sockets made there stay there.
pub(super) fn inside<T: Send>(member: &str, work: impl FnOnce() -> T + Send) -> Result<T, RttError> {
    let path = format!("{NAMESPACES}/{}", space(member));
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let space = File::open(&path)?;
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok::<T, std::io::Error>(work())
        });
        match worker.join() {
            Ok(result) => Ok(result?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn switch_of(member: &str) -> &'static str {
    if member == "far" { "s2" } else { "s1" }
}

/// The name of a member's namespace.
pub(super) fn space(member: &str) -> String {
    format!("{PREFIX}-{}-{member}", std::process::id())
}

fn remove(spaces: impl Iterator<Item = String>) {
    // Best effort: this runs while dropping, and the next lab removes what is left.
    let _ = ip(None, &spaces.map(|space| format!("netns del {space}\n")).collect::<String>());
}

/// Removes namespaces of labs whose process is gone.
fn remove_leftovers() {
    let entries = std::fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    remove(names.filter(|name| maker_is_gone(name)));
}

fn maker_is_gone(space: &str) -> bool {
    let maker = space.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('-')?.split('-').next());
    let alive = |pid: u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    maker.and_then(|pid| pid.parse().ok()).is_some_and(|pid| !alive(pid))
}

fn ip(member: Option<&str>, lines: &str) -> Result<(), RttError> {
    batch("ip", member, lines)?.map_err(RttError::Lab)
}

/// Gives lines to `ip` or `tc`, in the namespace of a member. Returns the program's message if it refuses them.
///
/// # Errors
/// If the program cannot be run.
fn batch(program: &str, member: Option<&str>, lines: &str) -> Result<Result<(), String>, RttError> {
    if lines.is_empty() {
        return Ok(Ok(()));
    }
    let mut command = Command::new(program);
    if let Some(member) = member {
        command.args(["-n", &space(member)]);
    }
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let missing =
        |e| RttError::Lab(format!("cannot run `{program}` ({e}); it is in the Debian package iproute2"));
    let mut child = command.spawn().map_err(missing)?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().map_err(|e| RttError::Lab(format!("{program}: {e}")))?;
    if output.status.success() {
        written.map_err(|e| RttError::Lab(format!("{program} stopped reading: {e}")))?;
        return Ok(Ok(()));
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let first = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed without a word");
    let hint =
        if first.contains("ermitted") || first.contains("ermission") { "; run it as root" } else { "" };
    Ok(Err(format!("{program}: {first}{hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leftovers_of_dead_labs_are_removed() {
        let mine = space("c");
        assert!(!maker_is_gone(&mine));
        // The largest number a process can have is 4194304 (proc(5), pid_max).
        assert!(maker_is_gone("khzlab-4194305-d0"));
        for other in ["default", "khzlab", "khzlab-x-d0", "khzlabs-4194305-d0"] {
            assert!(!maker_is_gone(other), "{other}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_not_one_that_refuses() {
        let run = |program| batch(program, None, "x\n").map_err(|error| error.to_string());
        let missing = run("khz-no-such-program").err().unwrap_or_default();
        assert!(
            missing.contains("`khz-no-such-program`") && missing.contains("package iproute2"),
            "{missing}"
        );
        assert!(run("false").is_ok_and(|done| done.is_err()));
    }

    #[test]
    fn members_have_addresses_of_their_own() {
        let network = Network { devices: 0 };
        let mut all: Vec<Ipv4Addr> = (0..MOST_DEVICES).map(|at| network.address(&format!("d{at}"))).collect();
        all.extend([network.address("c"), network.address("far"), BROADCAST]);
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
