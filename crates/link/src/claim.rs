//! One program at a time commands a bus. A program that opens a link claims its device, interface or address; a second program learns who
//! has it.
//!
//! | what | claimed by |
//! |---|---|
//! | a serial port, an SPI device | `flock` on its node in `/dev`; other serial programs respect it, too |
//! | a CAN interface, the UDP address of a device | a name of the kernel's abstract sockets: it belongs to a network namespace, as they do |
//!
//! The kernel releases both when the process ends, however it ends. No file is left behind, and no folder or permission is
//! needed. Programs in two containers see each other's claims if they share the device's node, or the network namespace.

use crate::OpenError;
use crate::sys::peer::peer_process;
use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{bind, connect, listen, socket_with};
use std::fs::read_to_string;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The names of all claims on the network begin so.
const PREFIX: &str = "kilohertz";
/// Where the kernel lists the names of sockets.
const NAMES: &str = "/proc/net/unix";
/// So many can ask who it is.
const QUEUE: i32 = 4096;
/// Characters of a command line in a message.
const COMMAND: usize = 80;

/// What a program is on a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It commands the devices: one program at a time.
    #[default]
    Host,
    /// It is the devices, as `khz emulate` is: one program at a time.
    Devices,
    /// It only listens: any number of programs, beside a host. Only on links that let several programs read the same frames.
    Listener,
}

/// A name of the network namespace that this process has, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: OwnedFd,
}

impl Claim {
    /// Claims `target`, one of its `kind`. A listener claims nothing.
    ///
    /// # Errors
    /// Another program has it, or the system gives no socket.
    pub(crate) fn new(role: Role, kind: &str, target: &str) -> Result<Option<Self>, OpenError> {
        if role == Role::Listener {
            return Ok(None);
        }
        let name = name(role, kind, target);
        match bind_name(&name) {
            Ok(socket) => Ok(Some(Self { _socket: socket })),
            Err(Errno::ADDRINUSE) => Err(taken(target, process_of(&name))),
            Err(error) => {
                let problem = format!("cannot be claimed for this program alone: {}", io::Error::from(error));
                Err(OpenError::new(target, &problem, "may this process open Unix sockets?"))
            }
        }
    }
}

/// The targets of a kind that hosts have claimed.
pub(crate) fn targets(kind: &str) -> Vec<String> {
    let names = read_to_string(NAMES).unwrap_or_default();
    let begin = format!("@{}", name(Role::Host, kind, ""));
    let claimed = names.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix(&begin));
    claimed.map(str::to_owned).collect()
}

/// The error of a host where another has claimed this target.
pub(crate) fn taken_by_host(kind: &str, target: &str) -> OpenError {
    taken(target, process_of(&name(Role::Host, kind, target)))
}

fn name(role: Role, kind: &str, target: &str) -> String {
    let role = if role == Role::Devices { "devices" } else { "host" };
    format!("{PREFIX}/{role}/{kind}/{target}")
}

/// Claims the device of an open descriptor, as long as that is open.
pub(crate) fn claim_node(fd: impl AsFd) -> io::Result<()> {
    Ok(flock(fd, FlockOperation::NonBlockingLockExclusive)?)
}

/// [`claim_node`] failed because another program has it.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::AGAIN.raw_os_error())
}

/// Who has claimed the device at this path.
pub(crate) fn taken_node(path: &Path) -> OpenError {
    let target = path.display().to_string();
    let locks = read_to_string("/proc/locks").unwrap_or_default();
    let node = path
        .metadata()
        .map(|node| format!("{:02x}:{:02x}:{}", major(node.dev()), minor(node.dev()), node.ino()));
    taken(&target, node.ok().and_then(|node| locker(&locks, &node)))
}

/// The process with the `flock` on this file, in the words of `/proc/locks`.
fn locker(locks: &str, node: &str) -> Option<u32> {
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut held = fields.filter(|fields| fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&node));
    held.find_map(|fields| fields[4].parse().ok())
}

fn bind_name(name: &str) -> Result<OwnedFd, Errno> {
    let socket = unix_socket()?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    // So that others can ask the kernel who it is; no connection is ever accepted.
    listen(&socket, QUEUE)?;
    Ok(socket)
}

/// The process that has bound this name.
fn process_of(name: &str) -> Option<u32> {
    let socket = unix_socket().ok()?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?).ok()?;
    peer_process(socket.as_fd())
}

fn unix_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The error of a second program.
fn taken(target: &str, process: Option<u32>) -> OpenError {
    let (by, advice) = match process {
        Some(own) if own == std::process::id() => ("this program itself".to_owned(), "open each bus once"),
        Some(process) => (describe(process), "only one program may command a bus: stop that one first"),
        None => (
            "a program that cannot be seen from here".to_owned(),
            "only one program may command a bus: look in other containers and at other users' programs",
        ),
    };
    OpenError::new(target, &format!("in use by {by}"), advice)
}

/// A process for a person who looks for it: its command line, number and age.
fn describe(process: u32) -> String {
    let read = |file: &str| read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    let line = read("cmdline");
    let mut words: Vec<&str> = line.trim_end_matches('\0').split('\0').collect();
    let name = words[0].rsplit('/').next().unwrap_or_default();
    words[0] = name;
    let command: String = words.join(" ").chars().take(COMMAND).collect();
    let age = started_s(&read("stat")).and_then(|started_s| Some(uptime_s()? - started_s));
    let age = age.map_or(String::new(), |age_s| format!(", running for {}", duration(age_s)));
    match command.is_empty() {
        true => format!("process {process}{age}"),
        false => format!("`{command}` (process {process}{age})"),
    }
}

/// When a process began, s after the computer did: field 22 of its `stat`, after a name that may contain anything.
fn started_s(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

fn uptime_s() -> Option<f64> {
    read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that no other test has.
    fn target(name: &str) -> String {
        format!("{name}-{}", std::process::id())
    }

    #[test]
    fn a_name_has_one_host_and_any_number_of_listeners_and_is_free_when_dropped() {
        let target = target("one");
        let host = Claim::new(Role::Host, "test", &target).unwrap();
        let error = Claim::new(Role::Host, "test", &target).unwrap_err().to_string();
        assert_eq!(error, format!("{target}: in use by this program itself; open each bus once"));
        for _ in 0..2 {
            assert!(Claim::new(Role::Listener, "test", &target).unwrap().is_none());
        }
        assert!(targets("test").contains(&target));
        assert!(Claim::new(Role::Devices, "test", &target).is_ok(), "it is no host");
        drop(host);
        assert!(Claim::new(Role::Host, "test", &target).is_ok());
    }

    #[test]
    fn every_refusal_names_the_program() {
        let target = target("often");
        let _host = Claim::new(Role::Host, "test", &target).unwrap();
        for _ in 0..100 {
            let error = Claim::new(Role::Host, "test", &target).unwrap_err();
            assert_eq!(error.problem, "in use by this program itself");
        }
    }

    #[test]
    fn a_lock_on_a_file_names_its_process() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let [first, second] = [0; 2].map(|_| file.reopen().unwrap());
        claim_node(&first).unwrap();
        assert!(is_taken(&claim_node(&second).unwrap_err()));
        let error = taken_node(file.path());
        assert_eq!(error.problem, "in use by this program itself");
        drop(first);
        claim_node(&second).unwrap();
    }

    #[test]
    fn locks_are_found_in_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:06:123 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 00:06:123 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 00:06:123 0 EOF\n";
        assert_eq!(locker(locks, "00:06:123"), Some(4711));
        assert_eq!(locker(locks, "00:06:12"), None);
    }

    #[test]
    fn a_process_is_described_by_what_a_person_knows() {
        let own = describe(std::process::id());
        assert!(
            own.starts_with('`') && own.contains(&format!("(process {}, running for ", std::process::id())),
            "{own}"
        );
        assert_eq!(describe(u32::MAX), format!("process {}", u32::MAX));
        assert_eq!(started_s("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 200 1"), Some(2.0));
        assert_eq!([1.0, 119.0, 120.0, 7200.0].map(duration), ["1 s", "119 s", "2 min", "2 h"]);
    }
}
