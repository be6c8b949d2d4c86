//! Whose datagrams are taken in at a UDP port: those of one recorder at a time.

use khz_record::Datagram;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The recorder that is listened to.
#[derive(Clone, Debug)]
pub struct Senders {
    only: Option<IpAddr>,
    silence: Duration,
    present: Option<(SocketAddr, Instant)>,
}

/// Why a datagram is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ignored {
    /// It is not of the address that was named.
    NotNamed,
    /// It is none of a recorder.
    Invalid,
    /// Another recorder sends already: this one.
    Taken(SocketAddr),
}

impl std::fmt::Display for Ignored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotNamed => f.write_str("only the address given with --from is received"),
            Self::Invalid => f.write_str("these are no datagrams of a recorder (log.stream)"),
            Self::Taken(by) => write!(f, "{by} sends already; --from ADDRESS chooses one"),
        }
    }
}

impl Senders {
    /// A recorder that sends nothing for `silence` makes room for another. `only`: none but this address counts.
    pub const fn new(only: Option<IpAddr>, silence: Duration) -> Self {
        Self { only, silence, present: None }
    }

    /// Whether a datagram that came from `from` at `now` counts. Only what a recorder sends makes its sender the one that is
    /// listened to; a run that reports its end makes room at once, because the next one may begin right away.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn admit(&mut self, from: SocketAddr, bytes: &[u8], now: Instant) -> Result<(), Ignored> {
        if self.only.is_some_and(|only| only != from.ip().to_canonical()) {
            return Err(Ignored::NotNamed);
        }
        let present = self.present.filter(|(_, received)| now.duration_since(*received) < self.silence);
        match (present, Datagram::read(bytes).map(|mut datagram| datagram.next())) {
            (Some((known, _)), _) if known != from => Err(Ignored::Taken(known)),
            (_, Some(Some(Ok(_)))) => {
                self.present = Some((from, now));
                Ok(())
            }
            (Some(_), Some(None)) => {
                self.present = None;
                Ok(())
            }
            // Damaged ones of the present sender are counted where they are taken in.
            (Some(_), _) => Ok(()),
            (None, _) => Err(Ignored::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Sink, Type};

    const SILENCE: Duration = Duration::from_secs(2);

    fn datagram(messages: &[u8]) -> Vec<u8> {
        [&b"KLOG\x01"[..], &7u64.to_le_bytes(), &0u64.to_le_bytes(), messages].concat()
    }

    fn sound() -> Vec<u8> {
        let mut bytes = vec![1, 0];
        bytes.counted(b"a");
        bytes.counted(&Type::Bool.to_bytes());
        datagram(&bytes)
    }

    fn at(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 7400).into()
    }

    /// One byte a second from anywhere shut the robot out.
    #[test]
    fn only_a_recorders_datagrams_take_the_place_of_the_sender() {
        let (mut senders, now) = (Senders::new(None, SILENCE), Instant::now());
        for junk in [&b"x"[..], b"KLOG\x01", &datagram(&[9]), &datagram(&[])] {
            assert_eq!(senders.admit(at(1), junk, now), Err(Ignored::Invalid));
        }
        assert_eq!(senders.admit(at(2), &sound(), now), Ok(()));
        assert_eq!(senders.admit(at(1), &sound(), now), Err(Ignored::Taken(at(2))));
        assert_eq!(senders.admit(at(2), b"damaged", now + SILENCE / 2), Ok(()));
        assert_eq!(senders.admit(at(1), &sound(), now + SILENCE), Ok(()), "junk keeps no place");
    }

    #[test]
    fn a_run_that_has_ended_makes_room_at_once() {
        let (mut senders, now) = (Senders::new(None, SILENCE), Instant::now());
        assert_eq!(senders.admit(at(1), &sound(), now), Ok(()));
        assert_eq!(
            senders.admit(at(2), &datagram(&[]), now),
            Err(Ignored::Taken(at(1))),
            "no other sender ends it"
        );
        assert_eq!(senders.admit(at(1), &datagram(&[]), now), Ok(()));
        assert_eq!(senders.admit(at(2), &sound(), now), Ok(()));
    }

    #[test]
    fn a_named_address_is_the_only_one() {
        let (mut senders, now) = (Senders::new(Some([192, 0, 2, 1].into()), SILENCE), Instant::now());
        assert_eq!(senders.admit(at(2), &sound(), now), Err(Ignored::NotNamed));
        let mapped = SocketAddr::new("::ffff:192.0.2.1".parse().unwrap(), 7400);
        assert_eq!(senders.admit(mapped, &sound(), now), Ok(()));
    }
}
