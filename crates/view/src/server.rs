//! The port: who may connect gets a thread, and either the page or a websocket.

use crate::access::Access;
use crate::ask::Asking;
use crate::client::{Speaker, converse};
use crate::foxglove::Foxglove;
use crate::http::{self, ASK, MAX_HEAD, PAGE, Request, Status};
use crate::hub::{Hub, PROGRAM};
use crate::page::{self, PageClient};
use crate::slots::{Limits, Origin, Slot, who_leaves};
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The port that PlotJuggler, Foxglove and `khz param` try first.
pub const PORT: u16 = 8765;
/// How many connections without a first request there may be, in all and of one address.
const NEW: Limits = Limits { slots: 64, of_one: 32 };
/// How many different reasons are reported.
const MAX_REPORTS: usize = 16;
/// How long a request's head may take.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// Several robots behind one port, each at `/?robot=NAME`.
pub trait Fleet: std::fmt::Debug + Send + Sync {
    /// The page that lists them, as HTML. Its links need `token`, if there is one.
    fn page(&self, token: Option<&str>) -> String;

    /// A robot's run; none if there is no such robot. Called for every connection.
    ///
    /// # Errors
    /// Why it cannot be shown.
    fn hub(&self, robot: &str) -> Result<Option<Arc<Hub>>, String>;

    /// The runs that clients may look at.
    fn hubs(&self) -> Vec<Arc<Hub>>;
}

#[derive(Debug)]
enum Shown {
    Robot(Arc<Hub>),
    Fleet(Arc<dyn Fleet>),
}

impl Shown {
    /// The run that a request is about.
    fn hub(&self, request: &Request) -> Result<Arc<Hub>, Status> {
        match self {
            Self::Robot(hub) => Ok(hub.clone()),
            Self::Fleet(fleet) => {
                let robot = request.query("robot").ok_or(Status::NotFound)?;
                fleet.hub(robot).map_err(Status::Unavailable)?.ok_or(Status::NotFound)
            }
        }
    }

    fn hubs(&self) -> Vec<Arc<Hub>> {
        match self {
            Self::Robot(hub) => vec![hub.clone()],
            Self::Fleet(fleet) => fleet.hubs(),
        }
    }
}

/// A server that does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    at: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    access: Access,
    shown: Shown,
    /// Connections without a first request yet, the oldest first.
    new: Mutex<Vec<(u64, Origin, TcpStream)>>,
    is_over: AtomicBool,
    /// The reasons of refusals that have been reported.
    reported: Mutex<HashSet<String>>,
}

impl Shared {
    /// Notes a new connection. If there are too many, the oldest of the address with most of them is ended: silent
    /// connections must not keep others out.
    fn welcome(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let from = Origin::of(stream.peer_addr()?.ip());
        let mut new = self.newcomers();
        let slot = |&(client, from, _): &(u64, Origin, TcpStream)| Slot {
            client,
            from,
            active_us: None,
            is_stopping: false,
            is_fresh: false,
        };
        let taken: Vec<Slot> = new.iter().map(slot).collect();
        if let Some(leaving) = who_leaves(&taken, from, NEW)
            && let Some(at) = new.iter().position(|(number, ..)| *number == leaving)
        {
            // What it has sent already is still read.
            let _ = new.remove(at).2.shutdown(Shutdown::Read);
        }
        new.push((number, from, stream.try_clone()?));
        Ok(())
    }

    /// Its first request has arrived, or it has left.
    fn admitted(&self, number: u64) {
        self.newcomers().retain(|(new, ..)| *new != number);
    }

    fn newcomers(&self) -> MutexGuard<'_, Vec<(u64, Origin, TcpStream)>> {
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, status: &Status) {
        let Status::Forbidden(why) = status else { return };
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MAX_REPORTS && reported.insert(why.clone()) {
            self.access.report(why);
        }
    }
}

impl Server {
    /// Takes an address. With port 0 it is 8765, or a free one if that is taken.
    ///
    /// # Errors
    /// When the address cannot be had, or others can reach it and `access` has no token.
    pub fn bind(at: &SocketAddr, access: Access, hub: Arc<Hub>) -> io::Result<Self> {
        Self::bind_to(at, access, Shown::Robot(hub))
    }

    /// The same for several robots.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    pub fn bind_fleet(at: &SocketAddr, access: Access, fleet: Arc<dyn Fleet>) -> io::Result<Self> {
        Self::bind_to(at, access, Shown::Fleet(fleet))
    }

    fn bind_to(at: &SocketAddr, access: Access, shown: Shown) -> io::Result<Self> {
        if !at.ip().is_loopback() && access.token().is_none() {
            return Err(io::Error::other("a server that others can reach needs a token"));
        }
        let listener = match at.port() {
            0 => TcpListener::bind((at.ip(), PORT)).or_else(|_| TcpListener::bind(at))?,
            _ => TcpListener::bind(at)?,
        };
        let at = listener.local_addr()?;
        let (new, is_over, reported) = (Mutex::default(), AtomicBool::new(false), Mutex::default());
        Ok(Self { listener, at, shared: Arc::new(Shared { access, shown, new, is_over, reported }) })
    }

    /// Where it is.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// The page's address, with the token if it needs one. A server at every address of this computer is named by
    /// `name`.
    pub fn link(&self, name: &str) -> String {
        let host = match self.at.ip() {
            ip if ip.is_unspecified() => name.to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let token = self.shared.access.token().map(|token| format!("?token={token}")).unwrap_or_default();
        format!("http://{host}:{}/{token}", self.at.port())
    }

    /// Begins to answer.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(self) -> io::Result<Serving> {
        let Self { listener, at, shared } = self;
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("khz-view".into())
            .spawn(move || accept(&listener, &of_thread))?;
        Ok(Serving { at, shared, thread: Some(thread) })
    }
}

/// A server that answers until this is dropped.
#[derive(Debug)]
pub struct Serving {
    at: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let ip = if self.at.ip().is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { self.at.ip() };
        let _ = TcpStream::connect_timeout(&(ip, self.at.port()).into(), Duration::from_secs(1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.shown.hubs().iter().for_each(|hub| hub.close());
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut number = 0;
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // No file descriptor left: there will be.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        number += 1;
        let Ok(()) = shared.welcome(number, &stream) else { continue };
        let of_thread = shared.clone();
        let serve = move || {
            let admitted = admit(&stream, &of_thread);
            of_thread.admitted(number);
            if let Some((request, behind)) = admitted {
                upgrade(stream, &request, behind, &of_thread);
            }
        };
        if std::thread::Builder::new().name("khz-view-client".into()).spawn(serve).is_err() {
            shared.admitted(number);
        }
    }
}

/// Answers a request for the page, and returns one for a websocket with what came behind it.
fn admit(mut stream: &TcpStream, shared: &Shared) -> Option<(Request, Vec<u8>)> {
    let answer = match read_head(stream) {
        Ok(Some((request, behind))) => match shared.access.check(&request) {
            Ok(()) if request.is_upgrade() => return Some((request, behind)),
            Ok(()) => serve(&request, shared).unwrap_or_else(|status| status.answer()),
            Err(status) => {
                shared.report(&status);
                status.answer()
            }
        },
        Ok(None) => return None,
        Err(status) => status.answer(),
    };
    // Who is gone needs no answer.
    let _ = stream.set_write_timeout(Some(HEAD_TIME));
    let _ = stream.write_all(&answer);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    drain(stream);
    None
}

/// The page of a robot, or the one that lists them.
fn serve(request: &Request, shared: &Shared) -> Result<Vec<u8>, Status> {
    match &shared.shown {
        Shown::Fleet(fleet) if request.query("robot").is_none() => {
            http::serve(request, &fleet.page(shared.access.token()))
        }
        shown => shown.hub(request).and_then(|_| http::serve(request, &page::HTML)),
    }
}

/// Reads on for a moment: a connection closed with bytes unread is reset, and the answer lost.
fn drain(mut stream: &TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let mut rest = [0; 4096];
    for _ in 0..16 {
        if !matches!(stream.read(&mut rest), Ok(1..)) {
            return;
        }
    }
}

/// Reads a request's head, and what came behind it. Nothing if the client left or takes too long.
fn read_head(mut stream: &TcpStream) -> Result<Option<(Request, Vec<u8>)>, Status> {
    let deadline = Instant::now() + HEAD_TIME;
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Ok(None);
        }
        let len = match stream.read(&mut part) {
            Ok(len @ 1..) => len,
            // A signal, or this process stood still.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => return Ok(None),
        };
        head.extend_from_slice(&part[..len]);
        if let Some((request, end)) = Request::parse(&head)? {
            return Ok(Some((request, head.split_off(end))));
        }
        debug_assert!(head.len() < MAX_HEAD);
    }
}

/// Makes the connection a websocket and serves it to its end.
fn upgrade(mut stream: TcpStream, request: &Request, behind: Vec<u8>, shared: &Shared) {
    let _ = stream.set_write_timeout(Some(HEAD_TIME));
    let agreed = request.accept().and_then(|accept| Ok((accept, request.protocol()?)));
    let (accept, protocol) = match agreed {
        Ok(agreed) => agreed,
        Err(status) => {
            let _ = stream.write_all(&status.answer());
            return;
        }
    };
    let hub = match shared.shown.hub(request) {
        Ok(hub) => hub,
        Err(status) => {
            let _ = stream.write_all(&status.answer());
            return;
        }
    };
    let Ok(from) = stream.peer_addr() else { return };
    let what = match protocol {
        PAGE => "page",
        ASK => PROGRAM,
        _ => "foxglove",
    };
    let Ok(peer) = hub.join(format!("{what} {from}"), from.ip()) else { return };
    let Some(peer) = peer else {
        let full =
            http::answer("503 Service Unavailable", "text/plain", "too many clients; try again\n", true);
        let _ = stream.write_all(&full);
        return;
    };
    if stream.write_all(http::upgraded(&accept, protocol).as_bytes()).is_ok() {
        let speaker: Box<dyn Speaker> = match protocol {
            ASK => Box::new(Asking::new(peer.clone())),
            PAGE => Box::new(PageClient::new(peer.clone())),
            _ => Box::new(Foxglove::new(peer.clone())),
        };
        // Whatever ended it, the client knows.
        let _ = converse(stream, behind, &hub, &peer, speaker);
    }
    hub.leave(&peer);
}
