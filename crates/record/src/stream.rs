//! Samples by UDP: what a recorder sends and `khz log record` takes in.
//!
//! A datagram is `KLOG`, a version byte, the sender's session (u64, drawn at random when it starts), the datagram's
//! number in the session (u64, from 0), and then messages. A message is a byte 1, record number, name and schema; or a
//! byte 2, record number, time (i64, µs since the Unix epoch) and payload. Integers of fixed size are little endian;
//! record numbers are varuints; name, schema and payload have their length before them as a varuint. Every second the
//! schemas are sent again, for receivers that came late, and every ten seconds the samples of records that have only one.
//! A receiver skips those it has. The last datagram of a session has no messages; with its
//! number the receiver knows of gaps just before it.

use crate::records::{Declared, RecordId};
use crate::sink::{Sink, SinkResult};
use khz_tlog::{DecodeError, Input, Sink as _};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;

/// Its name as a sink.
pub(super) const STREAM: &str = "stream";
/// Its name as a sink, if it sends to a viewer.
pub(super) const VIEW: &str = "view";
const MAGIC: &[u8; 5] = b"KLOG\x01";
/// Magic, session, number.
const HEAD: usize = 5 + 8 + 8;
/// How full a datagram is made: what an Ethernet frame carries.
const FILL: usize = 1400;
/// The same within a computer.
const FILL_PAIR: usize = 16_384;
/// What a viewer may be behind: more than the kernel grants, as a rule.
const PAIR_BYTES: usize = 4 << 20;
/// The largest datagram.
const MAX: usize = 65_000;
/// How often the schemas are sent.
const SCHEMAS_NS: i64 = 1_000_000_000;
/// How often the samples of records that have only one are sent, such as what describes the robot.
const ONCE_NS: i64 = 10_000_000_000;

/// What carries datagrams.
enum Wire {
    Udp(UdpSocket),
    Pair(OwnedFd),
    /// A viewer that has gone.
    Gone,
}

impl Wire {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the viewer has gone");
        match self {
            Self::Udp(socket) => socket.send(datagram).map(drop),
            Self::Pair(socket) => match send(&*socket, datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                    *self = Self::Gone;
                    Err(gone())
                }
                Err(Errno::AGAIN) => Err(io::Error::other("the viewer did not keep up")),
                Err(error) => Err(error.into()),
            },
            Self::Gone => Err(gone()),
        }
    }

    /// How full a datagram is made.
    fn fill(&self) -> usize {
        if matches!(self, Self::Udp(_)) { FILL } else { FILL_PAIR }
    }
}

/// Sends samples. It never waits for anyone: what the network does not take is lost, and the receiver sees the gap.
pub(super) struct Uplink {
    wire: Wire,
    session: u64,
    number: u64,
    epoch_ns: i64,
    datagram: Vec<u8>,
    /// Samples in the datagram.
    samples: u64,
    /// Samples in datagrams that the network did not take.
    lost: u64,
    /// What went wrong and has not been reported yet.
    error: Option<io::Error>,
    schemas: Vec<Vec<u8>>,
    schemas_ns: Option<i64>,
    /// Of each record its sample, as a message, while it has one only.
    once: Vec<Once>,
    once_ns: Option<i64>,
}

/// What is known of a record's samples.
#[derive(Clone, Default)]
enum Once {
    #[default]
    None,
    One(Vec<u8>),
    Several,
}

/// A socket that sends to `HOST:PORT` and never waits, and the address.
pub(super) fn udp_to(to: &str) -> io::Result<(UdpSocket, SocketAddr)> {
    let to = to.to_socket_addrs()?.next().ok_or(io::ErrorKind::HostUnreachable)?;
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}

/// A number for a run, drawn at random: 53 bits, so that programs that keep numbers as float64 have all of it.
pub(super) fn new_session() -> io::Result<u64> {
    let mut session = [0; 8];
    rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(session) >> 11)
}

impl Uplink {
    pub fn new(to: &str, session: u64) -> io::Result<Self> {
        Ok(Self::on(Wire::Udp(udp_to(to)?.0), session))
    }

    /// To a viewer at the other end of a socket pair.
    pub fn to_viewer(socket: OwnedFd, session: u64) -> io::Result<Self> {
        // As much as is granted.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, PAIR_BYTES);
        Ok(Self::on(Wire::Pair(socket), session))
    }

    fn on(wire: Wire, session: u64) -> Self {
        let mut uplink = Self {
            wire,
            session,
            number: 0,
            epoch_ns: 0,
            datagram: Vec::new(),
            samples: 0,
            lost: 0,
            error: None,
            schemas: Vec::new(),
            schemas_ns: None,
            once: Vec::new(),
            once_ns: None,
        };
        uplink.open();
        uplink
    }

    /// Adds the schemas. One that fits no datagram keeps only its own record from being understood.
    fn announce(&mut self) {
        let schemas = std::mem::take(&mut self.schemas);
        for schema in &schemas {
            if let Err(error) = self.add(schema, &[]) {
                self.error.get_or_insert(error);
            }
        }
        self.schemas = schemas;
    }

    /// Adds the samples of records that have only one.
    fn repeat(&mut self) {
        let once = std::mem::take(&mut self.once);
        for record in &once {
            if let Once::One(message) = record
                && let Err(error) = self.add(message, &[])
            {
                self.error.get_or_insert(error);
            }
        }
        self.once = once;
    }

    /// Notes a record's first sample, and that it has another.
    fn note(&mut self, record: RecordId, head: &[u8], payload: &[u8]) {
        let Some(once) = self.once.get_mut(record.index()) else { return };
        match once {
            Once::None => *once = Once::One([head, payload].concat()),
            Once::One(_) => *once = Once::Several,
            Once::Several => {}
        }
    }

    /// Sends what has come together.
    fn flush(&mut self) {
        if self.datagram.len() > HEAD {
            self.send();
        }
    }

    fn add(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let len = head.len() + payload.len();
        if self.datagram.len() + len > self.wire.fill() && self.datagram.len() > HEAD {
            self.send();
        }
        if HEAD + len > MAX {
            self.number += 1; // A gap: the receiver shall know that something is missing.
            return Err(io::Error::other(format!("{len} bytes do not fit a datagram")));
        }
        self.datagram.put(head);
        self.datagram.put(payload);
        Ok(())
    }

    fn send(&mut self) {
        // A full send buffer or a closed port: the number goes on all the same.
        if let Err(error) = self.wire.send(&self.datagram) {
            self.lost += self.samples;
            self.error.get_or_insert(error);
        }
        self.number += 1;
        self.open();
    }

    /// Begins a datagram.
    fn open(&mut self) {
        self.samples = 0;
        self.datagram.clear();
        self.datagram.put(MAGIC);
        self.datagram.put(&self.session.to_le_bytes());
        self.datagram.put(&self.number.to_le_bytes());
    }

    fn result(&mut self) -> SinkResult {
        self.error.take().map_or(Ok(()), |error| Err(error.into()))
    }
}

impl Sink for Uplink {
    fn name(&self) -> &str {
        if matches!(self.wire, Wire::Udp(_)) { STREAM } else { VIEW }
    }

    fn begin(&mut self, records: &[Declared], epoch_ns: i64) -> SinkResult {
        let schema = |(number, record): (usize, &Declared)| {
            let mut message = vec![1];
            message.varuint(number as u64);
            message.counted(record.name.as_bytes());
            message.counted(&record.ty.to_bytes());
            message
        };
        self.schemas = records.iter().enumerate().map(schema).collect();
        self.once = vec![Once::None; records.len()];
        self.epoch_ns = epoch_ns;
        self.announce();
        Ok(())
    }

    /// Adds a sample to the next datagram.
    fn sample(&mut self, record: RecordId, time_ns: i64, payload: &[u8]) -> SinkResult {
        let mut head = Vec::with_capacity(24);
        head.push(2);
        head.varuint(record.index() as u64);
        head.put(&((time_ns + self.epoch_ns) / 1000).to_le_bytes());
        head.varuint(payload.len() as u64);
        self.add(&head, payload)?;
        self.note(record, &head, payload);
        self.samples += 1;
        Ok(())
    }

    /// Sends what has come together, and the schemas when they are due.
    fn turn(&mut self, now_ns: i64) -> SinkResult {
        if now_ns - *self.schemas_ns.get_or_insert(now_ns) >= SCHEMAS_NS {
            self.schemas_ns = Some(now_ns);
            self.announce();
        }
        if now_ns - *self.once_ns.get_or_insert(now_ns) >= ONCE_NS {
            self.once_ns = Some(now_ns);
            self.repeat();
        }
        self.flush();
        self.result()
    }

    /// Sends the rest, and a datagram without messages: by its number the receiver knows whether the last ones came.
    fn finish(&mut self, _: i64) -> SinkResult {
        self.flush();
        self.send();
        self.result()
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

/// A datagram's head and its messages, not yet read. Behind a message that cannot be read there is none.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The sender's session: drawn at random when it starts.
    pub session: u64,
    /// The datagram's number in the session, from 0.
    pub number: u64,
    messages: Input<'a>,
}

/// One message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// What the samples of a record are.
    Schema {
        /// The record's number.
        record: u64,
        /// Its name.
        name: &'a str,
        /// Its type: [`khz_tlog::Type::decode`] reads it.
        schema: &'a [u8],
    },
    /// A sample.
    Sample {
        /// The record's number.
        record: u64,
        /// Its time, µs since the Unix epoch.
        time_us: i64,
        /// Its bytes: [`khz_tlog::Value::read`] decodes them.
        payload: &'a [u8],
    },
}

impl<'a> Datagram<'a> {
    /// Reads the head; `None` if it is none of ours.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (session, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (session, number) = (u64::from_le_bytes(*session), u64::from_le_bytes(*number));
        Some(Self { session, number, messages: Input::new(rest) })
    }
}

impl<'a> Iterator for Datagram<'a> {
    type Item = Result<Message<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.messages.is_empty() {
            return None;
        }
        let message = message(&mut self.messages);
        if message.is_err() {
            self.messages = Input::new(&[]);
        }
        Some(message)
    }
}

fn message<'a>(input: &mut Input<'a>) -> Result<Message<'a>, DecodeError> {
    let unknown = |at| DecodeError { at, flaw: khz_tlog::Flaw::Value("message") };
    let at = input.position();
    match input.byte()? {
        1 => {
            let record = input.varuint()?;
            let name = std::str::from_utf8(input.counted()?).map_err(|_| unknown(at))?;
            Ok(Message::Schema { record, name, schema: input.counted()? })
        }
        2 => {
            let record = input.varuint()?;
            let time_us = i64::from_le_bytes(input.array()?);
            Ok(Message::Sample { record, time_us, payload: input.counted()? })
        }
        _ => Err(unknown(at)),
    }
}
