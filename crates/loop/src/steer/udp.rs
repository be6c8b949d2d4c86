//! Inputs of own programs by UDP: `[teleop] from`.
//!
//! A datagram is JSON: `{"seq": 17, "now": 123456, "forward": 0.3, "turn": -0.1}`. `seq` is an integer that grows from input to input of a sender; one
//! that does not is dropped, unless the sender was silent for so long that it may have started again. A sender is an address and a
//! port. Each is answered by `{"now": 123456}`,
//! the robot's clock in µs. A sender repeats the newest `now` it has received, and so proves how old its input is at most. An input
//! without it counts as too old, as every request that does not prove its age: the first of a sender only brings it the clock.

use super::{Dropped, Steering};
use crate::operator::OperatorError;
use crate::parameters::{Source, source};
use crate::waited::{PATIENCE_NS, Waited, wait};
use khz_rt::now_ns;
use serde_json::{Value, json};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The largest datagram that is looked at.
const MOST: usize = 1024;
/// Datagrams per look.
const READS: usize = 1024;

/// Receives inputs on its own thread until dropped.
pub struct Receiver {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Listens at the address in the robot file: `udp:ADDRESS:PORT`.
    ///
    /// # Errors
    /// If it cannot be listened to.
    pub fn start(from: &str, steering: Steering) -> Result<Self, OperatorError> {
        let start = || {
            let no_address = || io::Error::new(io::ErrorKind::InvalidInput, "write `udp:ADDRESS:PORT`");
            let socket = UdpSocket::bind(from.strip_prefix("udp:").ok_or_else(no_address)?)?;
            socket.set_nonblocking(true)?;
            let over = Arc::new(AtomicBool::new(false));
            let ended = Arc::clone(&over);
            let mut ear = Ear { socket, steering, waited: Waited::new() };
            let work = move || ear.listen(&ended);
            let thread = thread::Builder::new().name("khz-teleop".to_owned()).spawn(work)?;
            Ok(Self { over, thread: Some(thread) })
        };
        start().map_err(|error| OperatorError::of("[teleop] from", from, error))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It does not panic.
        self.thread.take().map(JoinHandle::join);
    }
}

struct Ear {
    socket: UdpSocket,
    steering: Steering,
    waited: Waited,
}

impl Ear {
    fn listen(&mut self, over: &AtomicBool) {
        // What comes from now on did not wait before the robot was there.
        self.look();
        while !over.load(Ordering::Relaxed) {
            wait(&self.socket, PATIENCE_NS);
            self.look();
        }
    }

    /// Takes all that waits.
    fn look(&mut self) {
        let mut bytes = [0; MOST];
        for _ in 0..READS {
            let looked_ns = now_ns();
            let Ok((len, sender)) = self.socket.recv_from(&mut bytes) else {
                return self.waited.found_nothing(looked_ns);
            };
            // The process may have been stopped since.
            self.take(&bytes[..len], sender, now_ns());
        }
    }

    fn take(&mut self, bytes: &[u8], sender: SocketAddr, now_ns: i64) {
        let input: Value = serde_json::from_slice(bytes).unwrap_or_default();
        match number(&input) {
            Ok(seq) => {
                let age_ns = self.waited.at_most_ns(now_ns).saturating_add(proven_age_ns(&input, now_ns));
                let decided_ns = now_ns.saturating_sub(age_ns);
                self.steering.steer_by_numbered(&input, seq, decided_ns, now_ns, by(sender));
            }
            Err(why) => {
                self.steering.count(why as usize);
            }
        }
        let now = json!({ "now": now_ns / 1000 }).to_string();
        // A sender may ignore it.
        let _ = self.socket.send_to(now.as_bytes(), sender);
    }
}

/// Its number among those of its sender, if it has one. One that cannot be read would let a repeated input through.
fn number(input: &Value) -> Result<Option<u64>, Dropped> {
    input.get("seq").map(|seq| seq.as_u64().ok_or(Dropped::Invalid)).transpose()
}

/// How old the input is at most by the clock that its sender repeats. None, or a time to come, proves nothing.
fn proven_age_ns(input: &Value, now_ns: i64) -> i64 {
    match input.get("now").map(Value::as_i64) {
        Some(Some(now_us)) if now_us <= now_ns / 1000 => now_ns.saturating_sub(now_us.saturating_mul(1000)),
        _ => i64::MAX,
    }
}

fn by(sender: SocketAddr) -> Source {
    source(&format!("udp {sender}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Heartbeat;
    use crate::state::Teleop;
    use crate::steer::{SteeringReceiver, TeleopConfig};

    const MS: i64 = 1_000_000;

    fn ear() -> (Ear, SteeringReceiver, SocketAddr) {
        let (receiver, steering) = Steering::new(&TeleopConfig::default(), Heartbeat::new());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = socket.local_addr().unwrap();
        (Ear { socket, steering, waited: Waited::new() }, receiver, sender)
    }

    /// With a proof of its age, unless it has one of its own.
    fn send(ear: &mut Ear, sender: SocketAddr, text: &str, now_ns: i64) {
        ear.waited.found_nothing(now_ns);
        let proven = text.replacen('{', &format!("{{\"now\":{},", now_ns / 1000), 1);
        let text = if text.contains("\"now\"") { text } else { &proven };
        ear.take(text.as_bytes(), sender, now_ns);
    }

    #[test]
    fn an_input_that_does_not_prove_its_age_is_dropped_and_answered_with_the_clock() {
        let (mut ear, mut receiver, sender) = ear();
        ear.waited.found_nothing(100 * MS);
        ear.take(br#"{"seq":1,"forward":0.1}"#, sender, 100 * MS);
        assert_eq!((receiver.look(100 * MS), ear.steering.counts().stale), (Teleop::NONE, 1));
        // The sender is the socket itself.
        let mut bytes = [0; 100];
        let len = ear.socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], br#"{"now":100000}"#);
        send(&mut ear, sender, r#"{"seq":2,"forward":0.1,"now":100000}"#, 110 * MS);
        assert_eq!(receiver.look(110 * MS).forward, 0.1);
    }

    #[test]
    fn an_input_that_is_not_newer_is_dropped_until_the_sender_may_have_started_again() {
        let (mut ear, mut receiver, sender) = ear();
        for (text, at_ns) in [
            (r#"{"seq":5,"forward":0.1}"#, 100 * MS),
            (r#"{"seq":4,"forward":0.2}"#, 110 * MS),
            (r#"{"seq":5,"forward":0.3}"#, 120 * MS),
            ("junk", 130 * MS),
        ] {
            send(&mut ear, sender, text, at_ns);
        }
        assert_eq!(receiver.look(130 * MS).forward, 0.1);
        send(&mut ear, sender, r#"{"seq":1,"forward":0.4}"#, 500 * MS);
        assert_eq!(receiver.look(500 * MS).forward, 0.4);
        let counts = ear.steering.counts();
        assert_eq!((counts.taken, counts.stale + counts.invalid), (2, 3));
    }

    fn other() -> SocketAddr {
        "127.0.0.1:9".parse().unwrap()
    }

    /// 53 of 94 inputs taken were the second's: the first had lost its place in the order to inputs that were refused.
    #[test]
    fn a_second_sender_does_not_take_the_stick_by_a_greater_number() {
        let (mut ear, mut receiver, sender) = ear();
        for round in 1..=20 {
            let at_ns = round * 50 * MS;
            send(&mut ear, sender, &format!(r#"{{"seq":{round},"forward":0.1}}"#), at_ns);
            send(&mut ear, other(), &format!(r#"{{"seq":{},"forward":-0.1}}"#, 1_000 + round), at_ns + MS);
            assert_eq!(receiver.look(at_ns + MS).forward, 0.1, "round {round}");
        }
        let counts = ear.steering.counts();
        assert_eq!((counts.taken, counts.others, counts.stale), (20, 20, 0));
    }

    #[test]
    fn one_datagram_with_the_greatest_number_mutes_no_sender() {
        let (mut ear, mut receiver, sender) = ear();
        let greatest = format!(r#"{{"seq":{},"forward":"junk"}}"#, u64::MAX);
        for round in 1..=20 {
            let at_ns = round * 50 * MS;
            send(&mut ear, other(), &greatest, at_ns);
            // From the sender itself, but not taken.
            send(&mut ear, sender, &greatest, at_ns);
            send(
                &mut ear,
                sender,
                &format!(r#"{{"seq":{},"forward":9,"now":0}}"#, u64::MAX),
                at_ns + 400 * MS,
            );
            send(&mut ear, sender, &format!(r#"{{"seq":{round},"forward":0.1}}"#), at_ns);
            assert_eq!(receiver.look(at_ns).forward, 0.1, "round {round}");
        }
        assert_eq!(ear.steering.counts().taken, 20);
    }

    /// It was ignored, and inputs repeated 2 s late were obeyed.
    #[test]
    fn a_number_that_is_no_integer_is_refused() {
        let (mut ear, mut receiver, sender) = ear();
        for seq in ["17.0", "\"17\"", "-1", "null", "[17]", "1e3", "18446744073709551616"] {
            send(&mut ear, sender, &format!(r#"{{"seq":{seq},"forward":0.1}}"#), 100 * MS);
        }
        assert_eq!((receiver.look(100 * MS), ear.steering.counts().invalid), (Teleop::NONE, 7));
        // An input without a number is none of a sender that counts.
        send(&mut ear, sender, r#"{"seq":17,"forward":0.1}"#, 100 * MS);
        send(&mut ear, sender, r#"{"forward":0.2}"#, 110 * MS);
        assert_eq!(receiver.look(110 * MS).forward, 0.1);
    }

    #[test]
    fn a_network_that_delivers_late_in_a_burst_is_noticed_by_a_repeated_clock() {
        let (mut ear, mut receiver, sender) = ear();
        for seq in 0..10 {
            let text = format!(r#"{{"seq":{seq},"forward":0.2,"now":{}}}"#, 1_000_000 + seq * 50_000);
            send(&mut ear, sender, &text, 1_480 * MS);
        }
        // Those of the last 300 ms.
        assert_eq!((ear.steering.counts().taken, ear.steering.counts().stale), (6, 4));
        assert_eq!(receiver.look(1_480 * MS).age_ns, 30 * MS);
        send(&mut ear, sender, r#"{"seq":99,"forward":0.3,"now":9000000}"#, 1_490 * MS);
        assert_eq!(receiver.look(1_490 * MS).forward, 0.2, "a time to come proves nothing");
    }

    #[test]
    fn what_waited_while_the_process_was_frozen_is_dropped() {
        let (mut ear, mut receiver, sender) = ear();
        ear.waited.found_nothing(0);
        ear.take(br#"{"forward":0.2,"now":400000}"#, sender, 400 * MS);
        assert_eq!((receiver.look(400 * MS), ear.steering.counts().stale), (Teleop::NONE, 1));
    }
}
