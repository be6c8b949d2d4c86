//! Samples by UDP: what a recorder sends and `khz log record` takes in.
//!
//! A datagram is `KLOG`, a version byte, the sender's session (u64, drawn at random when it starts), the datagram's
//! number in the session (u64, from 0), and then messages. A message is a byte 1, record number, name and schema; or a
//! byte 2, record number, time (i64, µs since the Unix epoch) and payload. Integers of fixed size are little endian;
//! record numbers are varuints; name, schema and payload have their length before them as a varuint. Every second the
//! schemas are sent again, for receivers that came late. The last datagram of a session has no messages; with its
//! number the receiver knows of gaps just before it.

use khz_tlog::{DecodeError, Input, Sink, Type};
use std::net::{ToSocketAddrs, UdpSocket};

const MAGIC: &[u8; 5] = b"KLOG\x01";
/// Magic, session, number.
const HEAD: usize = 5 + 8 + 8;
/// How full a datagram is made: what an Ethernet frame carries.
const FILL: usize = 1400;
/// The largest datagram.
const MAX: usize = 65_000;
const SCHEMAS_NS: i64 = 1_000_000_000;

/// Sends samples. It never waits for anyone: what the network does not take is lost, and the receiver sees the gap.
pub(super) struct Uplink {
    socket: UdpSocket,
    session: u64,
    number: u64,
    datagram: Vec<u8>,
    schemas: Vec<Vec<u8>>,
    schemas_ns: Option<i64>,
}

impl Uplink {
    pub fn new(to: &str, records: &[(String, Type)]) -> std::io::Result<Self> {
        let to = to.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::HostUnreachable)?;
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        let mut session = [0; 8];
        rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())?;
        let schema = |(number, (name, ty)): (usize, &(String, Type))| {
            let mut message = vec![1];
            message.varuint(number as u64);
            message.counted(name.as_bytes());
            message.counted(&ty.to_bytes());
            message
        };
        let schemas = records.iter().enumerate().map(schema).collect();
        // 53 bits, so that programs that keep numbers as float64 have all of it.
        let session = u64::from_le_bytes(session) >> 11;
        let mut uplink = Self { socket, session, number: 0, datagram: Vec::new(), schemas, schemas_ns: None };
        uplink.begin();
        Ok(uplink)
    }

    /// Adds a sample to the next datagram.
    pub fn sample(&mut self, record: usize, time_us: i64, payload: &[u8]) {
        let mut head = Vec::with_capacity(24);
        head.push(2);
        head.varuint(record as u64);
        head.put(&time_us.to_le_bytes());
        head.varuint(payload.len() as u64);
        self.add(&head, payload);
    }

    /// Adds the schemas when they are due; before the first sample, so that it is understood.
    pub fn announce(&mut self, now_ns: i64) {
        if self.schemas_ns.is_none_or(|last_ns| now_ns - last_ns >= SCHEMAS_NS) {
            self.schemas_ns = Some(now_ns);
            let schemas = std::mem::take(&mut self.schemas);
            schemas.iter().for_each(|schema| self.add(schema, &[]));
            self.schemas = schemas;
        }
    }

    /// Sends the rest, and a datagram without messages: its number tells the receiver whether the last ones came.
    pub fn finish(&mut self) {
        self.flush();
        self.send();
    }

    /// Sends what has come together.
    pub fn flush(&mut self) {
        if self.datagram.len() > HEAD {
            self.send();
        }
    }

    fn add(&mut self, head: &[u8], payload: &[u8]) {
        let len = head.len() + payload.len();
        if self.datagram.len() + len > FILL && self.datagram.len() > HEAD {
            self.send();
        }
        if HEAD + len > MAX {
            self.number += 1; // A gap: the receiver shall know that something is missing.
            return;
        }
        self.datagram.put(head);
        self.datagram.put(payload);
    }

    fn send(&mut self) {
        // A full send buffer or nobody listening: the number goes on all the same.
        let _ = self.socket.send(&self.datagram);
        self.number += 1;
        self.begin();
    }

    fn begin(&mut self) {
        self.datagram.clear();
        self.datagram.put(MAGIC);
        self.datagram.put(&self.session.to_le_bytes());
        self.datagram.put(&self.number.to_le_bytes());
    }
}

/// A datagram's head and its messages, not yet read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    pub session: u64,
    pub number: u64,
    messages: Input<'a>,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Schema { record: u64, name: &'a str, schema: &'a [u8] },
    Sample { record: u64, time_us: i64, payload: &'a [u8] },
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
