//! Viewers of a live view that cost next to nothing themselves: they subscribe, read, and count what they get.

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Before the payload of a message: its kind, the subscription, the time.
const HEAD: usize = 1 + 4 + 8;

/// One connection that speaks Foxglove's protocol.
struct Viewer {
    stream: TcpStream,
    /// Read and not yet taken apart.
    bytes: Vec<u8>,
    topics: Arc<[&'static str]>,
    subscribed: usize,
    got: Arc<Got>,
}

/// What viewers got together.
#[derive(Default)]
struct Got {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Payload of a message, by topic, as last seen.
    sizes: Mutex<BTreeMap<&'static str, usize>>,
}

/// Viewers that read, on one thread.
pub struct Viewers {
    got: Arc<Got>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Viewers {
    /// Connects so many and subscribes each to these topics, waiting until it is served and they are there.
    ///
    /// # Errors
    /// If there is no server or the topics do not come.
    pub fn connect(port: u16, topics: &'static [&'static str], count: usize) -> Result<Self> {
        let got = Arc::<Got>::default();
        let mut viewers =
            (0..count).map(|_| Viewer::connect(port, topics, &got)).collect::<Result<Vec<_>>>()?;
        viewers.iter_mut().try_for_each(Viewer::wait_for_topics)?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || read_all(&mut viewers, &stopped));
        Ok(Self { got, stop, thread: Some(thread) })
    }

    /// Messages and bytes so far.
    pub fn got(&self) -> (u64, u64) {
        (self.got.messages.load(Relaxed), self.got.bytes.load(Relaxed))
    }

    /// Size of a message of each topic.
    pub fn sizes(&self) -> BTreeMap<&'static str, usize> {
        self.got.sizes.lock().map(|sizes| sizes.clone()).unwrap_or_default()
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// A viewer that subscribes and then never reads, until it is dropped.
pub struct Mute(#[expect(dead_code, reason = "it is open as long as this is")] Viewer);

impl Mute {
    /// As [`Viewers::connect`].
    ///
    /// # Errors
    /// As [`Viewers::connect`].
    pub fn connect(port: u16, topics: &'static [&'static str]) -> Result<Self> {
        let mut viewer = Viewer::connect(port, topics, &Arc::default())?;
        viewer.wait_for_topics()?;
        Ok(Self(viewer))
    }
}

fn read_all(viewers: &mut [Viewer], stop: &AtomicBool) -> Result<()> {
    for viewer in &*viewers {
        viewer.stream.set_nonblocking(true)?;
    }
    let patience = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !stop.load(Relaxed) {
        let mut fds: Vec<PollFd<'_>> =
            viewers.iter().map(|viewer| PollFd::new(&viewer.stream, PollFlags::IN)).collect();
        poll(&mut fds, Some(&patience))?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (viewer, _) in viewers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            viewer.read()?;
        }
    }
    Ok(())
}

impl Viewer {
    fn connect(port: u16, topics: &'static [&'static str], got: &Arc<Got>) -> Result<Self> {
        let begun = Instant::now();
        let mut stream = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > Duration::from_secs(20) => {
                    return Err(error).context("no process serves a view");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
             Sec-WebSocket-Protocol: foxglove.sdk.v1\r\n\r\n"
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).context("no answer to the handshake")?;
            head.push(byte[0]);
        }
        ensure!(head.starts_with(b"HTTP/1.1 101"), "refused: {}", String::from_utf8_lossy(&head));
        let topics = topics.into();
        Ok(Self { stream, bytes: Vec::new(), topics, subscribed: 0, got: Arc::clone(got) })
    }

    fn wait_for_topics(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.subscribed < self.topics.len() {
            ensure!(begun.elapsed() < Duration::from_secs(20), "the topics did not come");
            self.read()?;
        }
        Ok(())
    }

    /// Reads what is there, at most so much that others get their turn.
    fn read(&mut self) -> Result<()> {
        let mut buffer = [0; 256 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => bail!("the view closed the connection"),
            Ok(len) => self.bytes.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        let (bytes, mut at) = (std::mem::take(&mut self.bytes), 0);
        while let Some((kind, from, to)) = frame(&bytes[at..]) {
            self.take(kind, &bytes[at + from..at + to])?;
            at += to;
        }
        self.bytes = bytes;
        self.bytes.drain(..at);
        Ok(())
    }

    fn take(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        match kind {
            BINARY => {
                self.got.messages.fetch_add(1, Relaxed);
                self.got.bytes.fetch_add(payload.len() as u64, Relaxed);
                let id = payload.get(1..5).and_then(|id| id.try_into().ok()).map(u32::from_le_bytes);
                if let (Some(&topic), Ok(mut sizes)) =
                    (id.and_then(|id| self.topics.get(id as usize)), self.got.sizes.lock())
                {
                    sizes.insert(topic, payload.len().saturating_sub(HEAD));
                }
            }
            TEXT => self.receive(&serde_json::from_slice(payload)?)?,
            PING => self.send(PONG, payload)?,
            _ => {}
        }
        Ok(())
    }

    /// Subscribes to those of the topics that are advertised.
    fn receive(&mut self, message: &Value) -> Result<()> {
        let channels = message["channels"].as_array().filter(|_| message["op"] == "advertise");
        for channel in channels.into_iter().flatten() {
            let topic = channel["topic"].as_str().unwrap_or_default();
            let Some(id) = self.topics.iter().position(|known| *known == topic) else { continue };
            let subscription = json!({"id": id, "channelId": channel["id"]});
            let message = json!({"op": "subscribe", "subscriptions": [subscription]});
            self.send(TEXT, message.to_string().as_bytes())?;
            self.subscribed += 1;
        }
        Ok(())
    }

    /// Sends a frame whose mask changes nothing.
    fn send(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let len = u16::try_from(payload.len())?;
        let mut frame = vec![0x80 | kind, 0x80 | 126];
        frame.extend(len.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        Ok(self.stream.write_all(&frame)?)
    }
}

/// The first frame of some bytes, if it is whole: its kind, and where its payload begins and ends.
fn frame(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (&kind, &len) = (bytes.first()?, bytes.get(1)?);
    let (from, len): (usize, usize) = match len {
        126 => (4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize),
        len => (2, usize::from(len)),
    };
    let to = from.checked_add(len)?;
    (bytes.len() >= to).then_some((kind & 0x0f, from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_apart_when_they_are_whole() {
        assert_eq!(frame(&[0x82, 3, 1, 2, 3, 9]), Some((BINARY, 2, 5)));
        assert_eq!(frame(&[0x82, 3, 1, 2]), None);
        let long = [&[0x81, 126, 1, 0][..], &[0; 256]].concat();
        assert_eq!(frame(&long), Some((TEXT, 4, 260)));
        let longest = [&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0][..], &[0; 65_536]].concat();
        assert_eq!(frame(&longest), Some((BINARY, 10, 65_546)));
    }
}
