//! Who leaves when there are more connections than slots, so that no client keeps others from Stop: of the address with the most
//! slots, the one that was idle for the longest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a connection comes from. All addresses of this computer are one, and so is a network of IPv6 (/64), of which a
/// computer may use any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(IpAddr);

impl Origin {
    pub fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            ip if ip.is_loopback() => Self(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) => {
                let network = u128::from(ip) & (u128::MAX << 64);
                Self(Ipv6Addr::from(network).into())
            }
            ip => Self(ip),
        }
    }
}

/// A slot that is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Whose it is.
    pub client: u64,
    pub from: Origin,
    /// When it was active last, µs; `None`: it has sent nothing yet.
    pub active_us: Option<u64>,
    /// It waits for the answer to a stop: others leave first.
    pub is_stopping: bool,
    /// It has just connected, and its first request, which may be a stop, had no time to arrive; or it has just sent or taken something.
    pub is_fresh: bool,
}

/// How many slots there are, and how many of them one address may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub slots: usize,
    pub of_one: usize,
}

impl Slot {
    /// Its first request, which may be a stop, had no time to arrive.
    fn is_coming(&self) -> bool {
        self.is_fresh && self.active_us.is_none() && !self.is_stopping
    }
}

/// Who leaves for one more connection from `from`. `taken` is in the order in which they came. Those that are just coming have as many
/// slots of their own: connections that never cease to ask, and come back whenever they had to leave, end none before it has spoken.
pub(crate) fn who_leaves(taken: &[Slot], from: Origin, limits: Limits) -> Option<u64> {
    let (coming, others): (Vec<_>, Vec<_>) = taken.iter().partition(|slot| slot.is_coming());
    who_leaves_of(&coming, from, limits).or_else(|| who_leaves_of(&others, from, limits))
}

fn who_leaves_of(taken: &[&Slot], from: Origin, limits: Limits) -> Option<u64> {
    let count = |of: Origin| taken.iter().filter(|slot| slot.from == of).count();
    let is_over = count(from) >= limits.of_one;
    if !is_over && taken.len() < limits.slots {
        return None;
    }
    let candidates = taken.iter().filter(|slot| !is_over || slot.from == from);
    // The first of equals is the one that came first.
    let leaving = candidates.min_by_key(|slot| {
        (slot.is_stopping, slot.is_fresh, std::cmp::Reverse(count(slot.from)), slot.active_us)
    });
    leaving.map(|slot| slot.client)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { slots: 4, of_one: 3 };

    fn from(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    fn slots(all: &[(u8, Option<u64>, bool)]) -> Vec<Slot> {
        let slot = |(client, &(last, active_us, is_stopping)): (usize, &(u8, Option<u64>, bool))| Slot {
            client: client as u64,
            from: from(last),
            active_us,
            is_stopping,
            is_fresh: false,
        };
        all.iter().enumerate().map(slot).collect()
    }

    #[test]
    fn no_client_leaves_while_there_is_room() {
        let two = slots(&[(1, None, false), (1, None, false), (2, None, false)]);
        assert_eq!(who_leaves(&two, from(1), LIMITS), None);
    }

    #[test]
    fn an_address_that_has_its_share_makes_room_itself() {
        let own = slots(&[(2, None, false), (1, Some(9), false), (1, Some(5), false), (1, Some(7), false)]);
        assert_eq!(who_leaves(&own[1..], from(1), LIMITS), Some(2));
        assert_eq!(who_leaves(&own, from(1), LIMITS), Some(2), "and not the idle one of another address");
    }

    #[test]
    fn the_address_with_the_most_seats_loses_one_that_was_silent() {
        let full = slots(&[(1, None, false), (2, Some(1), false), (2, None, false), (2, None, false)]);
        assert_eq!(who_leaves(&full, from(3), LIMITS), Some(2), "the first that never sent anything");
        let each =
            slots(&[(1, Some(4), false), (2, Some(3), false), (3, Some(2), false), (4, Some(9), false)]);
        assert_eq!(who_leaves(&each, from(5), LIMITS), Some(2), "idle for the longest");
    }

    #[test]
    fn a_client_that_waits_for_a_stop_leaves_last() {
        let full = slots(&[(1, None, true), (1, None, true), (2, Some(8), false), (3, Some(9), false)]);
        assert_eq!(who_leaves(&full, from(4), LIMITS), Some(2));
        let all = slots(&[(1, Some(3), true), (2, Some(2), true), (3, Some(1), true), (4, Some(4), true)]);
        assert_eq!(who_leaves(&all, from(5), LIMITS), Some(2), "even then a new one can connect");
    }

    #[test]
    fn a_client_that_has_just_come_may_send_its_request() {
        let mut full = slots(&[
            (1, Some(9), false),
            (1, Some(8), false),
            (1, Some(7), false),
            (2, None, false),
            (2, None, false),
        ]);
        full[3..].iter_mut().for_each(|slot| slot.is_fresh = true);
        assert_eq!(who_leaves(&full, from(3), LIMITS), None, "they take no other's slot yet");
        assert_eq!(who_leaves(&full, from(1), LIMITS), Some(2), "and not one that sent nothing yet");
        full.extend_from_slice(&full.clone()[4..]);
        assert_eq!(who_leaves(&full, from(2), LIMITS), Some(3), "the first of too many that have just come");
    }

    /// 60 connections of one address that set parameters all the time, and came back whenever they had to leave, ended each connection
    /// from there before its stop was sent.
    #[test]
    fn a_client_that_has_just_come_stays_beside_others_of_its_address_that_flood() {
        let stop = slots(&[(1, None, false)])[0];
        let mut taken = vec![Slot { client: 99, is_fresh: true, ..stop }];
        for client in 0..1000 {
            if let Some(leaving) = who_leaves(&taken, from(1), LIMITS) {
                taken.retain(|slot| slot.client != leaving);
            }
            // It connects, and soon sends something.
            taken.push(Slot { client: 100 + client, active_us: Some(client), is_fresh: true, ..stop });
            assert!(taken.iter().any(|slot| slot.client == 99), "after {client}");
            assert!(taken.len() <= LIMITS.of_one + 1);
        }
    }

    #[test]
    fn a_computer_with_many_addresses_is_one() {
        let of = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(of("127.0.0.1"), of("127.8.9.1"));
        assert_eq!(of("::1"), of("127.0.0.1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
