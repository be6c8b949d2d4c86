//! A websocket client and its thread: its requests are answered, what is for it is sent, and nothing waits for it.

use crate::hub::Hub;
use crate::page::PageClient;
use crate::peer::{Notices, Peer, Queued, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

/// The largest message of a client.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;
/// How many bytes are handed to the system at once.
const BATCH: usize = 256 << 10;
/// How many bytes of answers may wait for a client that the system takes nothing for; further ones are dropped.
const MAX_UNSENT: usize = 1 << 20;
/// How many messages of a client are read before it is its turn to be sent something, and how long it then waits: some
/// hundred in a second. 64 that flood must leave the CPU to who stops the robot.
const MAX_RECEIVED: usize = 64;
const BREATH: Duration = Duration::from_millis(100);
/// How long a client that got messages is left alone, so that not every message costs a system call.
const REST: Duration = Duration::from_millis(8);
/// When a client is asked whether it is still there, and when it is not.
const PING: Duration = Duration::from_secs(10);
/// How often one is that proves the age of its requests by the pongs before them.
const PROOF: Duration = Duration::from_millis(100);
const GONE: Duration = Duration::from_secs(40);

/// One of the languages that clients speak. What it receives comes from outside and may contain anything.
pub(crate) trait Speaker {
    /// What is sent to a client first.
    fn begin(&mut self, hub: &Hub) -> Vec<Reply>;
    /// Its requests cannot carry the newest time that the client knows: its pongs do.
    fn proves_age_by_pongs(&self) -> bool {
        false
    }
    fn receive_text(&mut self, text: &str, hub: &Hub) -> Vec<Reply>;
    fn receive_binary(&mut self, bytes: &[u8], hub: &Hub) -> Vec<Reply>;
    fn notice(&mut self, notices: Notices, hub: &Hub) -> Vec<Reply>;
    /// A message of a channel, as this client gets it.
    fn message(&mut self, message: &Queued) -> Option<Vec<u8>>;
}

impl Speaker for PageClient {
    fn begin(&mut self, _: &Hub) -> Vec<Reply> {
        Vec::new()
    }

    fn receive_text(&mut self, text: &str, hub: &Hub) -> Vec<Reply> {
        self.receive(text, hub)
    }

    fn receive_binary(&mut self, _: &[u8], _: &Hub) -> Vec<Reply> {
        Vec::new()
    }

    /// The page asks for everything else.
    fn notice(&mut self, notices: Notices, _: &Hub) -> Vec<Reply> {
        notices.answers.iter().flat_map(|(id, answer)| self.answered(*id, answer)).collect()
    }

    fn message(&mut self, _: &Queued) -> Option<Vec<u8>> {
        None
    }
}

/// Serves a client until it leaves. `behind` is what came behind its request.
pub(crate) fn converse(
    stream: TcpStream,
    behind: Vec<u8>,
    hub: &Hub,
    peer: &Peer,
    mut speaker: Box<dyn Speaker>,
) -> Result<(), Error> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .read_buffer_size(8 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(64 << 20);
    let socket = WebSocket::from_partially_read(stream, behind, Role::Server, Some(config));
    let now = Instant::now();
    let proves = speaker.proves_age_by_pongs();
    let mut line =
        Line { socket, proves, is_blocked: false, unsent: 0, received: now, pinged: now, sent: None };
    line.send_replies(speaker.begin(hub))?;
    let mut messages = Vec::new();
    while !peer.is_over() {
        hub.expire();
        if !line.is_blocked {
            line.send(peer, speaker.as_mut(), hub, &mut messages)?;
        }
        line.receive(peer, speaker.as_mut(), hub)?;
        line.check(hub)?;
        line.wait(peer)?;
    }
    // What it has sent already is read: it may be Stop.
    line.receive(peer, speaker.as_mut(), hub)?;
    line.socket.close(Some(leave()))?;
    line.flush()
}

/// What a client receives that has to leave: the server ends, or others need its slot.
fn leave() -> CloseFrame {
    CloseFrame {
        code: CloseCode::Again,
        reason: "the live view ends, or needs the seat of a silent client".into(),
    }
}

struct Line {
    socket: WebSocket<TcpStream>,
    /// See [`Speaker::proves_age_by_pongs`].
    proves: bool,
    /// The system takes no more: nothing but answers is sent until it does.
    is_blocked: bool,
    /// Bytes of answers that wait since then.
    unsent: usize,
    received: Instant,
    pinged: Instant,
    /// When messages were sent last.
    sent: Option<Instant>,
}

impl Line {
    /// Answers. What a client asks is always read, however slowly it reads answers: it may be Stop. What it asks to see is not
    /// kept without bound; whether it was stopped is a notice, and kept.
    fn send_replies(&mut self, replies: Vec<Reply>) -> Result<(), Error> {
        for reply in replies {
            if self.is_blocked {
                if self.unsent >= MAX_UNSENT {
                    return Ok(());
                }
                self.unsent += match &reply {
                    Reply::Text(text) => text.len(),
                    Reply::Binary(bytes) => bytes.len(),
                };
            }
            self.write(match reply {
                Reply::Text(text) => Message::text(text),
                Reply::Binary(bytes) => Message::binary(bytes),
            })?;
        }
        self.flush()
    }

    fn send(
        &mut self,
        peer: &Peer,
        speaker: &mut dyn Speaker,
        hub: &Hub,
        messages: &mut Vec<Queued>,
    ) -> Result<(), Error> {
        peer.silence();
        let notices = peer.notices();
        if notices != Notices::default() {
            self.send_replies(speaker.notice(notices, hub))?;
        }
        if self.is_blocked || self.rest().is_some() {
            return Ok(());
        }
        peer.take(BATCH, messages);
        self.sent = (!messages.is_empty()).then(Instant::now);
        let takes_some = !messages.is_empty();
        for message in messages.drain(..) {
            if let Some(bytes) = speaker.message(&message) {
                self.write(Message::binary(bytes))?;
            }
        }
        self.flush()?;
        if takes_some && !self.is_blocked {
            peer.is_active(hub.now_us());
        }
        Ok(())
    }

    fn receive(&mut self, peer: &Peer, speaker: &mut dyn Speaker, hub: &Hub) -> Result<(), Error> {
        for received in 0.. {
            if received == MAX_RECEIVED {
                // A client that sends so much waits.
                std::thread::sleep(BREATH);
                return Ok(());
            }
            let message = match self.socket.read() {
                Err(error) if would_block(&error) => return Ok(()),
                message => message?,
            };
            self.received = Instant::now();
            let replies = match message {
                Message::Text(text) => {
                    peer.is_active(hub.now_us());
                    speaker.receive_text(&text, hub)
                }
                Message::Binary(bytes) => {
                    peer.is_active(hub.now_us());
                    speaker.receive_binary(&bytes, hub)
                }
                Message::Pong(payload) => {
                    let sent_us = (*payload).try_into().map(u64::from_le_bytes).unwrap_or(0);
                    // What follows in this connection was sent after it. A time to come is none.
                    if sent_us <= hub.now_us() {
                        peer.knows(sent_us);
                    }
                    Vec::new()
                }
                // Pings are answered within, and a close is an error of the next read.
                _ => Vec::new(),
            };
            self.send_replies(replies)?;
        }
        Ok(())
    }

    /// Asks a silent client whether it is there, and gives up one that is not. The question is the time.
    fn check(&mut self, hub: &Hub) -> Result<(), Error> {
        if self.received.elapsed() > GONE {
            return Err(Error::Io(ErrorKind::TimedOut.into()));
        }
        let is_silent = self.received.elapsed() > PING && self.pinged.elapsed() > PING;
        let is_due = self.proves && self.pinged.elapsed() >= PROOF && hub.run().can_be_asked;
        if !self.is_blocked && (is_silent || is_due) {
            self.pinged = Instant::now();
            self.write(Message::Ping(hub.now_us().to_le_bytes().to_vec().into()))?;
            self.flush()?;
        }
        Ok(())
    }

    /// Waits for the client, for something new for it, or a second at most.
    fn wait(&mut self, peer: &Peer) -> Result<(), Error> {
        let rest = self.rest();
        let side = if self.is_blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let bell = peer.bell();
        let mut fds = [PollFd::new(self.socket.get_ref(), side), PollFd::new(&bell, PollFlags::IN)];
        // Who rests or cannot be sent anything is not woken by what is new.
        let count = if self.is_blocked || rest.is_some() { 1 } else { 2 };
        let patience = if self.proves { PROOF } else { Duration::from_secs(1) };
        let nanos = rest.unwrap_or(patience).as_nanos().min(1_000_000_000) as i64;
        let timeout = Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 };
        match poll(&mut fds[..count], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Io(error.into())),
        }
        if self.is_blocked && fds[0].revents().intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP) {
            (self.is_blocked, self.unsent) = (false, 0);
            self.flush()?;
        }
        Ok(())
    }

    /// How long it is left alone yet.
    fn rest(&self) -> Option<Duration> {
        self.sent.and_then(|sent| REST.checked_sub(sent.elapsed()))
    }

    fn write(&mut self, message: Message) -> Result<(), Error> {
        let result = self.socket.write(message);
        self.note(result)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let result = self.socket.flush();
        self.note(result)
    }

    /// What the system did not take is kept, and sent when it does.
    fn note(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        match result {
            Err(error) if would_block(&error) => self.is_blocked = true,
            Ok(()) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn would_block(error: &Error) -> bool {
    matches!(error, Error::Io(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
}
