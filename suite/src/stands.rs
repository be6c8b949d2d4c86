//! How each link is set up opposite its servos.

use crate::lockstep::{InProcess, Lockstep, Shared};
use crate::rig::{STRANGER, Stand};
use khz_emu::hat::Hat;
use khz_emu::serve::{Endpoint, Server};
use khz_emu::{BusConfig, ServoConfig, World, WorldConfig};
use khz_link::fdcanusb::{self, Fdcanusb};
use khz_link::pi3hat::{Pi3hat, Processor, Spi};
use khz_link::rs485::{self, Rs485};
use khz_link::socketcan::SocketCan;
use khz_link::udp::{Options, Peer, Reach, Udp};
use khz_link::{Link, LinkError};
use khz_wire::fdcanusb::Dialect;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Servos 1 to `n` and the stranger on one bus.
fn world(n: u8, bus: BusConfig) -> World {
    let ids = (1..=n).chain([STRANGER]);
    let servos = ids.map(|id| ServoConfig::new(0, id)).collect();
    World::new(&WorldConfig { buses: vec![bus], servos, ..WorldConfig::default() }).unwrap()
}

/// The emulated machine itself, its bus as `bus`.
pub fn emulated(bus: BusConfig) -> impl Fn(u8) -> Box<dyn Stand> {
    move |n| Box::new(Emulated(Arc::new(Mutex::new(world(n, bus)))))
}

struct Emulated(Arc<Mutex<World>>);

impl Stand for Emulated {
    fn link(&mut self) -> Box<dyn Link> {
        Box::new(InProcess(Arc::clone(&self.0)))
    }

    fn world(&mut self, work: &mut dyn FnMut(&mut World)) {
        work(&mut self.0.lock().unwrap());
    }

    fn cut(&mut self) -> bool {
        false
    }

    fn mend(&mut self) -> bool {
        false
    }

    fn heap_used(&self) -> bool {
        false
    }
}

/// A pi3hat over the emulated hat's SPI.
pub fn pi3hat(version: u8) -> impl Fn(u8) -> Box<dyn Stand> {
    move |n| {
        let buses = 5;
        let ids = (1..=n).chain([STRANGER]);
        let servos = ids.map(|id| ServoConfig::new(0, id)).collect();
        let config = WorldConfig { buses: vec![BusConfig::CAN_FD; buses], servos, ..WorldConfig::default() };
        let hat = Arc::new(Mutex::new(Hat::new(World::new(&config).unwrap(), version)));
        let link = Pi3hat::open(SharedHat(Arc::clone(&hat)), &Default::default(), -100_000_000).unwrap();
        Box::new(OnHat { hat, link: Some(link) })
    }
}

struct OnHat {
    hat: Arc<Mutex<Hat>>,
    link: Option<Pi3hat<SharedHat>>,
}

/// The hat, shared with the case.
struct SharedHat(Arc<Mutex<Hat>>);

impl Spi for SharedHat {
    fn read(&mut self, of: Processor, register: u8, into: &mut [u8], now_ns: i64) -> Result<i64, LinkError> {
        self.0.lock().unwrap().read(of, register, into, now_ns)
    }

    fn write(&mut self, to: Processor, register: u8, bytes: &[u8], now_ns: i64) -> Result<i64, LinkError> {
        self.0.lock().unwrap().write(to, register, bytes, now_ns)
    }

    fn settle(&mut self, ns: i64, now_ns: i64) -> i64 {
        self.0.lock().unwrap().settle(ns, now_ns)
    }
}

impl Stand for OnHat {
    fn link(&mut self) -> Box<dyn Link> {
        Box::new(self.link.take().unwrap())
    }

    fn world(&mut self, work: &mut dyn FnMut(&mut World)) {
        work(self.hat.lock().unwrap().world());
    }

    fn cut(&mut self) -> bool {
        false
    }

    fn mend(&mut self) -> bool {
        false
    }

    fn heap_used(&self) -> bool {
        false
    }
}

/// An fdcanusb client on a pseudo terminal.
pub fn fdcanusb(dialect: Dialect) -> impl Fn(u8) -> Box<dyn Stand> {
    move |n| {
        let options = fdcanusb::Options { dialect: Some(dialect), ..fdcanusb::Options::default() };
        terminal(n, BusConfig::CAN_FD, move |path| Box::new(Fdcanusb::open(path, options).unwrap()))
    }
}

/// An RS485 line on a pseudo terminal.
pub fn rs485_line(n: u8) -> Box<dyn Stand> {
    terminal(n, BusConfig::RS485, |path| Box::new(Rs485::open(path, rs485::Options::default()).unwrap()))
}

fn terminal(n: u8, bus: BusConfig, open: impl FnOnce(PathBuf) -> Box<dyn Link> + 'static) -> Box<dyn Stand> {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("tty");
    let serve = move || {
        let server = Server::new(world(n, bus)).unwrap();
        let _ = std::fs::remove_file(&name);
        symlink(server.endpoints().next().unwrap(), &name).unwrap();
        server
    };
    let name = folder.path().join("tty");
    let stand = Served::new(serve, |_| open(name));
    Box::new(Served { _folder: Some(folder), ..stand })
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
        let open = move |server: &Server| -> Box<dyn Link> {
            let address = server.endpoints().next().unwrap().to_str().unwrap().parse().unwrap();
            let peer = |id| Peer { channel: 0, id, address };
            let reach = if to_all {
                Reach::All(address)
            } else {
                Reach::Unicast((1..=n).chain([STRANGER]).map(peer).collect())
            };
            Box::new(Udp::open(Options { bind: local, reach, ..Options::default() }).unwrap())
        };
        Box::new(Served::new(serve, open))
    }
}

/// SocketCAN: over the interface named by `KHZ_CAN` where there is one, else over a socket pair that carries
/// the same raw frames.
pub fn socketcan(n: u8) -> Box<dyn Stand> {
    if let Some(interface) = std::env::var_os("KHZ_CAN") {
        let interface = interface.to_str().unwrap().to_owned();
        let name = interface.clone();
        let serve = move || Server::at(world(n, BusConfig::CAN_FD), &[Endpoint::Can(name.clone())]).unwrap();
        return Box::new(Served::new(serve, |_| Box::new(SocketCan::open(&interface).unwrap())));
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let theirs = Mutex::new(Some(theirs));
    let serve = move || Server::over_can_sockets(world(n, BusConfig::CAN_FD), theirs.lock().unwrap().take());
    let stand = Served::new(serve, |_| Box::new(SocketCan::from_fd(ours)));
    Box::new(Served { mendable: false, ..stand })
}

/// A real link, and a server at the other end of its wire.
struct Served {
    server: Shared,
    serve: Box<dyn Fn() -> Server>,
    link: Option<Box<dyn Link>>,
    heap_used: Arc<Mutex<bool>>,
    mendable: bool,
    _folder: Option<TempDir>,
}

impl Served {
    fn new(serve: impl Fn() -> Server + 'static, open: impl FnOnce(&Server) -> Box<dyn Link>) -> Self {
        let server = serve();
        let host = open(&server);
        let server = Arc::new(Mutex::new(Some(server)));
        let (link, heap_used) = Lockstep::new(host, Arc::clone(&server));
        let link: Box<dyn Link> = Box::new(link);
        Self { server, serve: Box::new(serve), link: Some(link), heap_used, mendable: true, _folder: None }
    }
}

impl Stand for Served {
    fn link(&mut self) -> Box<dyn Link> {
        self.link.take().unwrap()
    }

    fn world(&mut self, work: &mut dyn FnMut(&mut World)) {
        work(self.server.lock().unwrap().as_mut().unwrap().world());
    }

    fn cut(&mut self) -> bool {
        self.server.lock().unwrap().take().is_some()
    }

    fn mend(&mut self) -> bool {
        if self.mendable {
            *self.server.lock().unwrap() = Some((self.serve)());
        }
        self.mendable
    }

    fn heap_used(&self) -> bool {
        *self.heap_used.lock().unwrap()
    }
}
