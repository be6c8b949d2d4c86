//! What may be asked of the robot ([`khz_run::channel`]), and the way to it.

pub use khz_run::channel::{Answer, Ask, Denied, MAX_REQUEST, Parameter, Teleop, ValueKind};
use khz_run::channel::{Reply, Request, What};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{SendFlags, send};
use serde_json::Value;
use std::os::fd::OwnedFd;

/// A request as the robot reads it. `age_ms` is how long ago it was decided, at most; without it only a stop counts.
pub(crate) fn request(id: u64, by: &str, ask: Ask, age_ms: Option<f64>) -> String {
    Request { id: id.into(), by: Some(by.to_owned()), age_ms, what: What::Ask(ask) }.json()
}

/// An input as the robot reads it.
pub(crate) fn input(by: &str, teleop: Teleop, age_ms: f64) -> String {
    let what = What::Steer(Some(teleop));
    Request { id: Value::Null, by: Some(by.to_owned()), age_ms: Some(age_ms), what }.json()
}

/// Reads an answer: the request's number, and what became of it.
pub(crate) fn answer(bytes: &[u8]) -> Option<(u64, Answer)> {
    let reply = Reply::read(bytes)?;
    Some((reply.id.as_u64()?, reply.answer))
}

/// The way to the robot: the socket by which its samples come. Sending never waits.
#[derive(Debug)]
pub struct Robot(OwnedFd);

/// What the kernel keeps of requests that the robot has not read, bytes; it doubles them, and a request costs it 800 or more.
const ROOM: usize = 64 << 10;
/// The same with stops, which have room when nothing else has; as far as the kernel grants it.
const ROOM_WITH_STOPS: usize = 256 << 10;

impl Robot {
    /// Requests go to `socket`.
    pub fn new(socket: OwnedFd) -> Self {
        let robot = Self(socket);
        robot.set_room(ROOM);
        robot
    }

    /// Sends what can wait.
    pub(crate) fn send(&self, text: &str) -> Result<(), Denied> {
        if text.len() > MAX_REQUEST {
            return Err(format!("the request has {} bytes; {MAX_REQUEST} are the most", text.len()).into());
        }
        self.put(text).map_err(|errno| {
            Denied::Unreachable(match errno {
                Errno::AGAIN => "the robot takes no more requests at the moment; try again".into(),
                _ => "the run has ended".into(),
            })
        })
    }

    /// Sends a stop, for which there is room though the robot has not read what came before.
    pub(crate) fn send_stop(&self, text: &str) -> Result<(), Denied> {
        self.put(text).or_else(|_| {
            self.set_room(ROOM_WITH_STOPS);
            let sent = self.put(text);
            self.set_room(ROOM);
            sent
        }).map_err(|errno| Denied::Unreachable(match errno {
            Errno::AGAIN => "the robot reads nothing, stops neither: hundreds of them wait; use the emergency stop".into(),
            _ => "the run has ended".into(),
        }))
    }

    fn put(&self, text: &str) -> Result<(), Errno> {
        send(&self.0, text.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop)
    }

    /// What is in the socket already stays there.
    fn set_room(&self, bytes: usize) {
        // A kernel that does not allow it has as much room as it has.
        let _ = set_socket_send_buffer_size(&self.0, bytes);
    }
}
