//! How each link is set up opposite its servos.

use crate::lockstep::{Far, Lockstep};
use crate::rig::{STRANGER, Stand, replier};
use crate::shared::{Pluggable, Share, Watched};
use khz_emu::hat::Hat;
use khz_emu::pl011::Uart;
use khz_emu::serve::{Endpoint, Server};
use khz_emu::{BusConfig, Injection, ServoConfig, World, WorldConfig};
use khz_link::Link;
use khz_link::fdcanusb::{Fdcanusb, FdcanusbLink};
use khz_link::pi3hat::Pi3hat;
use khz_link::pl011::Pl011;
use khz_link::rs485::{Rs485, Rs485Link};
use khz_link::slcan::{Slcan, SlcanLink};
use khz_link::socketcan::{SocketCan, SocketcanLink};
use khz_link::udp::{Options, Peer, Reach, Udp};
use khz_wire::fdcanusb::Dialect;
use khz_wire::slcan::Answers;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::termios::{Action, tcflow};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Servos 1 to `n` and an unexpected one, on bus 0.
fn servos(n: u8) -> Vec<ServoConfig> {
    (1..=n).chain([STRANGER]).map(|id| ServoConfig::new(0, id)).collect()
}

/// The same on one bus.
fn world(n: u8, bus: BusConfig) -> World {
    World::new(&WorldConfig { buses: vec![bus], servos: servos(n), ..WorldConfig::default() }).unwrap()
}

/// The emulated machine itself, its bus as `bus`.
pub fn emulated(bus: BusConfig) -> impl Fn(u8) -> Box<dyn Stand> {
    move |n| {
        let far = Share::new(world(n, bus));
        // A bus without servos and one whose servos are silent look the same.
        let cut = |world: &mut World, is_cut, now_ns| {
            let servos = 0..world.servos().len();
            servos.for_each(|servo| world.inject(servo, Injection::Silent(is_cut), now_ns));
        };
        let refuse = |world: &mut World, refuses, now_ns| world.stall(0, refuses, now_ns);
        InProcess::boxed(&far, far.clone(), |world| world, cut, refuse, 0)
    }
}

/// A pi3hat over the emulated hat's SPI.
pub fn pi3hat(version: u8) -> impl Fn(u8) -> Box<dyn Stand> {
    move |n| {
        let config =
            WorldConfig { buses: vec![BusConfig::CAN_FD; 5], servos: servos(n), ..Default::default() };
        let hat = Hat::new(World::new(&config).unwrap(), version);
        let far = Share::new(Pluggable { hat, is_off: false });
        let link = Pi3hat::open(far.clone(), &Default::default(), replier, -100_000_000).unwrap();
        // SPI has no queue that could be full: it fails. What waits in the hat is another matter.
        let off = |it: &mut Pluggable, is_off, _| it.is_off = is_off;
        InProcess::boxed(&far, link, |it| it.hat.world(), off, off, 1)
    }
}

/// An RS485 line on a PL011 that is driven by its registers, over the emulated registers.
pub fn pl011(n: u8) -> Box<dyn Stand> {
    let (clock_hz, baud) = (48_000_000, 3_000_000);
    let far = Share::new(Uart::new(servos(n), BusConfig::RS485.turnaround_ns, clock_hz, baud).unwrap());
    let line = Pl011::new(far.clone(), "model", clock_hz, baud, -1_000_000).unwrap();
    // A line that was cut cannot be distinguished from a silent one.
    let cut = |uart: &mut Uart, is_cut, _| uart.cut(is_cut);
    let refuse = |uart: &mut Uart, refuses, now_ns| uart.hold(refuses, now_ns);
    InProcess::boxed(&far, Rs485::over(line), Uart::world, cut, refuse, 0)
}

/// A link to emulated servos without a kernel in between.
struct InProcess<T> {
    far: Share<T>,
    link: Option<Box<dyn Link>>,
    heap_used: Arc<AtomicBool>,
    world: fn(&mut T) -> &mut World,
    cut: fn(&mut T, bool, i64),
    refuse: fn(&mut T, bool, i64),
    downs: u64,
}

impl<T: Send + 'static> InProcess<T> {
    fn boxed(
        far: &Share<T>,
        link: impl Link + 'static,
        world: fn(&mut T) -> &mut World,
        cut: fn(&mut T, bool, i64),
        refuse: fn(&mut T, bool, i64),
        downs: u64,
    ) -> Box<dyn Stand> {
        let (link, heap_used) = Watched::new(link);
        Box::new(Self { far: far.clone(), link: Some(Box::new(link)), heap_used, world, cut, refuse, downs })
    }
}

impl<T> Stand for InProcess<T> {
    fn link(&mut self) -> Box<dyn Link> {
        self.link.take().unwrap()
    }

    fn world(&mut self, work: &mut dyn FnMut(&mut World)) {
        work((self.world)(&mut self.far.get()));
    }

    fn cut(&mut self, now_ns: i64) -> u64 {
        (self.cut)(&mut self.far.get(), true, now_ns);
        self.downs
    }

    fn repair(&mut self, now_ns: i64) {
        (self.cut)(&mut self.far.get(), false, now_ns);
    }

    fn refuse(&mut self, refuses: bool, now_ns: i64) {
        (self.refuse)(&mut self.far.get(), refuses, now_ns);
    }

    fn heap_used(&self) -> bool {
        self.heap_used.load(Relaxed)
    }
}

/// An fdcanusb client on a pseudo terminal.
pub fn fdcanusb(dialect: Dialect) -> impl Fn(u8) -> Box<dyn Stand> {
    move |n| {
        let checksum = Some(dialect == Dialect::Uart);
        let link = move |path| FdcanusbLink { checksum, ..FdcanusbLink::at(path) };
        terminal(n, BusConfig::CAN_FD, Endpoint::Terminal, move |path, _| {
            Fdcanusb::open(&link(path)).unwrap()
        })
    }
}

/// An slcan adapter on a pseudo terminal.
pub fn slcan(answers: Answers) -> impl Fn(u8) -> Box<dyn Stand> {
    let link = |path| SlcanLink { data_bit_rate: Some(5_000_000), ..SlcanLink::at(path) };
    move |n| {
        let endpoint = Endpoint::Slcan(answers);
        terminal(n, BusConfig::CAN_FD, endpoint, move |path, server| {
            let opening = std::thread::spawn(move || Slcan::open(&link(path)).unwrap());
            // The adapter answers while it is opened.
            while !opening.is_finished() {
                server.serve_once(0);
            }
            opening.join().unwrap()
        })
    }
}

/// An RS485 line on a pseudo terminal.
pub fn rs485_line(n: u8) -> Box<dyn Stand> {
    terminal(n, BusConfig::RS485, Endpoint::Terminal, |path, _| Rs485::open(&Rs485Link::at(path)).unwrap())
}

/// What a terminal is called in its folder.
const TERMINAL: &str = "tty";

fn terminal<L: Link + 'static>(
    n: u8,
    bus: BusConfig,
    endpoint: Endpoint,
    open: impl FnOnce(PathBuf, &mut Server) -> L,
) -> Box<dyn Stand> {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join(TERMINAL);
    let serve = move || {
        let server = Server::at(world(n, bus), std::slice::from_ref(&endpoint)).unwrap();
        let _ = std::fs::remove_file(&name);
        symlink(server.endpoints().next().unwrap(), &name).unwrap();
        server
    };
    let name = folder.path().join(TERMINAL);
    let stand = Served::new(serve, |server| open(name, server));
    Box::new(Served { folder: Some(folder), refuse: Refuse::Terminal, ..stand })
}

/// UDP over the loopback interface.
pub fn udp(to_all: bool) -> impl Fn(u8) -> Box<dyn Stand> {
    move |n| {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let address = Arc::new(Mutex::new(local));
        let serve = move || {
            let mut address = address.lock().unwrap();
            let server = Server::at(world(n, BusConfig::CAN_FD), &[Endpoint::Udp(*address)]).unwrap();
            // The same port again after a cut.
            *address = server.endpoints().next().unwrap().to_str().unwrap().parse().unwrap();
            server
        };
        let open = |server: &mut Server| {
            let address = server.endpoints().next().unwrap().to_str().unwrap().parse().unwrap();
            let peer = |id| Peer { channel: 0, id, address };
            let reach = if to_all {
                Reach::All(address)
            } else {
                Reach::Unicast((1..=n).chain([STRANGER]).map(peer).collect())
            };
            Udp::open(Options { bind: local, reach, ..Options::default() }, replier).unwrap()
        };
        // A sender of datagrams does not learn whether there is a receiver.
        Box::new(Served { downs: 0, ..Served::new(serve, open) })
    }
}

/// SocketCAN: over the interface named by `KHZ_CAN` where there is one, else over socket pairs that carry the
/// same raw frames.
pub fn socketcan(n: u8) -> Box<dyn Stand> {
    if let Some(interface) = std::env::var_os("KHZ_CAN") {
        let interface = interface.to_str().unwrap().to_owned();
        let name = interface.clone();
        let serve = move || Server::at(world(n, BusConfig::CAN_FD), &[Endpoint::Can(name.clone())]).unwrap();
        let open = |_: &mut Server| SocketCan::open(&SocketcanLink::at(&interface)).unwrap();
        // The interface stays up whatever is on it.
        let refuse = Refuse::Interface(interface.clone());
        return Box::new(Served { downs: 0, refuse, ..Served::new(serve, open) });
    }
    // Our end of the newest pair, until the link takes it.
    let ours: Share<Option<OwnedFd>> = Share::new(None);
    let (end, copy) = (ours.clone(), Share::new(None));
    let other_program = copy.clone();
    let serve = move || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        *copy.get() = Some(near.try_clone().unwrap());
        *end.get() = Some(near);
        Server::over_can_sockets(world(n, BusConfig::CAN_FD), [far]).unwrap()
    };
    let take = move || ours.get().take().ok_or(std::io::ErrorKind::NotFound.into());
    let stand = Served::new(serve, |_| SocketCan::over(true, take).unwrap());
    Box::new(Served { refuse: Refuse::Fill(other_program), ..stand })
}

/// A real link, and a server at the other end of its wire.
struct Served {
    server: Far,
    serve: Box<dyn Fn() -> Server>,
    link: Option<Box<dyn Link>>,
    heap_used: Arc<AtomicBool>,
    downs: u64,
    refuse: Refuse,
    /// The servos' end is not asked for anything.
    is_paused: Arc<AtomicBool>,
    /// Where the name of a terminal lies.
    folder: Option<TempDir>,
}

/// How the bus of a server refuses.
enum Refuse {
    /// The devices leave what comes where it is.
    Pause,
    /// The terminal's output is stopped, as by a device that holds up its end.
    Terminal,
    /// The interface is down.
    Interface(String),
    /// The socket's queue is full of another program's packets.
    Fill(Share<Option<OwnedFd>>),
}

impl Served {
    fn new<L: Link + 'static>(
        serve: impl Fn() -> Server + 'static,
        open: impl FnOnce(&mut Server) -> L,
    ) -> Self {
        let mut server = serve();
        let (host, heap_used) = Watched::new(open(&mut server));
        let server = Share::new(Some(server));
        let is_paused = Arc::new(AtomicBool::new(false));
        let link: Box<dyn Link> = Box::new(Lockstep::new(host, server.clone(), is_paused.clone()));
        let (serve, refuse) = (Box::new(serve), Refuse::Pause);
        Self { server, serve, link: Some(link), heap_used, downs: 1, refuse, is_paused, folder: None }
    }
}

impl Stand for Served {
    fn link(&mut self) -> Box<dyn Link> {
        self.link.take().unwrap()
    }

    fn world(&mut self, work: &mut dyn FnMut(&mut World)) {
        work(self.server.get().as_mut().unwrap().world());
    }

    fn cut(&mut self, _: i64) -> u64 {
        // The number of a terminal that is gone is given to the next, which may be another test's.
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_file(folder.path().join(TERMINAL));
        }
        *self.server.get() = None;
        self.downs
    }

    fn repair(&mut self, _: i64) {
        *self.server.get() = Some((self.serve)());
    }

    fn refuse(&mut self, refuses: bool, _: i64) {
        match (&self.refuse, &self.folder) {
            (Refuse::Terminal, Some(folder)) => {
                let terminal =
                    std::fs::File::options().read(true).write(true).open(folder.path().join(TERMINAL));
                let action = if refuses { Action::OOff } else { Action::OOn };
                tcflow(terminal.unwrap(), action).unwrap();
            }
            (Refuse::Fill(near), _) => {
                self.is_paused.store(refuses, Relaxed);
                let near = near.get();
                let fill = || rustix::io::write(near.as_ref().unwrap(), b"another program's").is_ok();
                while refuses && fill() {}
            }
            (Refuse::Interface(name), _) => {
                let state = if refuses { "down" } else { "up" };
                let set = std::process::Command::new("ip").args(["link", "set", name, state]).status();
                assert!(set.unwrap().success(), "{name} does not go {state}");
            }
            _ => self.is_paused.store(refuses, Relaxed),
        }
    }

    fn heap_used(&self) -> bool {
        self.heap_used.load(Relaxed)
    }
}
