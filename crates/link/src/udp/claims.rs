//! The addresses of devices, for one program of this computer.
//!
//! A device on another computer is known by its address. One on this computer may be reached by several: by each of the computer's
//! own, and by the unspecified one; it is known by the address its socket is bound to.

use super::{Reach, is_broadcast};
use crate::OpenError;
use crate::claim::{Claim, Role, taken_by_host, targets};
use std::fs::read_to_string;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What kind of claim it is.
const KIND: &str = "udp";
/// Where the kernel lists the sockets of this network namespace.
const SOCKETS: [&str; 2] = ["/proc/net/udp", "/proc/net/udp6"];

/// Claims every device that is reached.
///
/// # Errors
/// Another program commands one of them.
pub(super) fn claim(reach: &Reach) -> Result<Vec<Claim>, OpenError> {
    let mut addresses: Vec<SocketAddr> = match reach {
        Reach::Unicast(peers) => peers.iter().map(|peer| peer.address).collect(),
        Reach::All(address) => vec![*address],
    };
    // Each is looked up once: while others open and close sockets the kernel's list may lack one, and what is one device by its
    // first look and every address by its second would be claimed twice.
    distinct(&mut addresses);
    addresses.iter_mut().for_each(|address| *address = device_at(*address, bound_at));
    distinct(&mut addresses);
    let claims = addresses.iter().map(|address| Claim::new(Role::Host, KIND, &address.to_string()));
    let claims: Vec<_> = claims.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    addresses.iter().try_for_each(|&address| refuse_overlap(address))?;
    Ok(claims)
}

fn distinct(addresses: &mut Vec<SocketAddr>) {
    addresses.sort_unstable();
    addresses.dedup();
}

/// A broadcast commands the devices of others, too. Of two programs that begin at once both may be refused.
fn refuse_overlap(address: SocketAddr) -> Result<(), OpenError> {
    let overlaps = |target: &String| {
        target.parse().is_ok_and(|other| other != address && reaches_the_same(address, other))
    };
    targets(KIND).into_iter().find(overlaps).map_or(Ok(()), |other| Err(taken_by_host(KIND, &other)))
}

/// One of two addresses is the broadcast of the other's network, or it stands for every address of this computer and the other is one
/// of them. A broadcast also reaches a device that has every address of this computer: the kernel hands it to its own sockets.
fn reaches_the_same(one: SocketAddr, other: SocketAddr) -> bool {
    if one.port() != other.port() {
        return false;
    }
    let [to_all, other_to_all] = [one, other].map(is_broadcast);
    let is_on_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    if !to_all && !other_to_all {
        return is_on_all && is_here(one) && is_here(other);
    }
    let leads = |to: SocketAddr| route(to).is_some();
    let is_same_network = leads(one) && route(one) == route(other);
    is_same_network || is_on_all && leads(if to_all { one } else { other })
}

/// The address to which the device at an address is bound. Where nothing is bound to the very address of this computer, that is every
/// address of it: a device that has all of them, or is not there yet. `bound`: the addresses to which sockets are bound at a port.
fn device_at(address: SocketAddr, bound: impl Fn(u16) -> Vec<IpAddr>) -> SocketAddr {
    let ip = address.ip().to_canonical();
    if !is_here((ip, address.port()).into()) {
        return (ip, address.port()).into();
    }
    let reached = match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let is_bound = bound(address.port()).contains(&reached);
    let device = if is_bound { reached } else { Ipv4Addr::UNSPECIFIED.into() };
    (device, address.port()).into()
}

/// It is an address of this computer.
fn is_here(address: SocketAddr) -> bool {
    let ip = address.ip();
    // The kernel sends to its own addresses from them.
    !is_broadcast(address) && (ip.is_unspecified() || ip.is_loopback() || route(address) == Some(ip))
}

/// The addresses to which sockets of this computer are bound at a port.
fn bound_at(port: u16) -> Vec<IpAddr> {
    let lists = SOCKETS.map(|path| read_to_string(path).unwrap_or_default());
    let lines = lists.iter().flat_map(|list| list.lines().skip(1));
    let bound = lines.filter_map(|line| bound_to(line.split_whitespace().nth(1)?));
    bound.filter(|address| address.port() == port).map(|address| address.ip().to_canonical()).collect()
}

/// An address in the kernel's words: 32-bit words in hexadecimal numbers, as they are in memory, and the port.
fn bound_to(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(words.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match words.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut bytes = [0; 16];
            for (part, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                part.copy_from_slice(&word(at)?);
            }
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some((ip, port).into())
}

/// The address of this computer from which it would send there. Sends nothing.
fn route(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    if to.is_ipv4() {
        socket.set_broadcast(true).ok()?;
    }
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device at this address, so that no other test has its port.
    fn device(ip: [u8; 4]) -> (UdpSocket, u16) {
        let socket = UdpSocket::bind((Ipv4Addr::from(ip), 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        (socket, port)
    }

    /// The broadcast addresses of the networks this computer is in, as far as a test can know them.
    fn broadcasts() -> Vec<Ipv4Addr> {
        let own = route(([192, 0, 2, 1], 9).into()).and_then(|ip| match ip {
            IpAddr::V4(ip) => Some(ip.octets()),
            IpAddr::V6(_) => None,
        });
        let network = own.map(|[a, b, c, _]| Ipv4Addr::new(a, b, c, 255));
        let all = [Some(Ipv4Addr::new(127, 255, 255, 255)), Some(Ipv4Addr::BROADCAST), network];
        let leads = |ip: &Ipv4Addr| {
            let address = (*ip, 9).into();
            is_broadcast(address) && route(address).is_some()
        };
        all.into_iter().flatten().filter(leads).collect()
    }

    fn to(ip: [u8; 4], port: u16) -> Reach {
        Reach::All((ip, port).into())
    }

    #[test]
    fn a_broadcast_leaves_no_host_beside_it() {
        let ((_device, port), (_other, other)) = (device([127, 0, 0, 1]), device([127, 0, 0, 1]));
        let everybody = to([127, 255, 255, 255], port);
        let all = claim(&everybody).unwrap();
        for taken in [&everybody, &to([127, 0, 0, 1], port)] {
            let error = claim(taken).unwrap_err().to_string();
            assert!(error.starts_with(&format!("127.255.255.255:{port}: in use by this program")), "{error}");
        }
        assert!(claim(&to([127, 0, 0, 1], other)).is_ok(), "devices at another port are others");
        drop(all);
        let _one = claim(&to([127, 0, 0, 1], port)).unwrap();
        assert!(claim(&everybody).is_err());
        let _second = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), port)).unwrap();
        assert!(claim(&to([127, 0, 0, 2], port)).is_ok(), "devices at another address are others");
    }

    #[test]
    fn a_device_of_this_computer_has_one_host_whatever_its_address_is_called() {
        // An address of this computer that is not its loopback, where it has one.
        let own = route(([192, 0, 2, 1], 9).into()).filter(IpAddr::is_ipv4);
        let spellings = |port: u16| {
            let own = own.map(|ip| Reach::All((ip, port).into()));
            [[0; 4], [127, 0, 0, 1], [127, 0, 0, 2]].map(|ip| to(ip, port)).into_iter().chain(own)
        };
        let (_all, port) = device([0; 4]);
        for first in spellings(port) {
            let _first = claim(&first).unwrap();
            for second in spellings(port) {
                assert!(claim(&second).is_err(), "{first:?} and {second:?}");
            }
        }
        // A broadcast reaches it, too: the kernel hands it to every socket of this computer that has all addresses.
        for everybody in broadcasts() {
            let everybody = to(everybody.octets(), port);
            let _first = claim(&everybody).unwrap();
            for second in spellings(port) {
                assert!(claim(&second).is_err(), "{everybody:?} and {second:?}");
            }
            drop(_first);
            let _first = claim(&to([127, 0, 0, 1], port)).unwrap();
            assert!(claim(&everybody).is_err(), "{everybody:?}");
        }
        // One that is bound to its address is another at each.
        let (_loopback, port) = device([127, 0, 0, 1]);
        let _first = claim(&to([0; 4], port)).unwrap();
        assert!(claim(&to([127, 0, 0, 1], port)).is_err());
        // One that begins to listen after its host has begun.
        let (device, port) = device([127, 0, 0, 1]);
        drop(device);
        let _first = claim(&to([127, 0, 0, 1], port)).unwrap();
        let _device = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(claim(&to([127, 0, 0, 1], port)).is_err());
    }

    #[test]
    fn addresses_in_the_kernels_words() {
        let word = |ip: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(ip));
        let v4 = format!("{}:1E4D", word([127, 0, 0, 1]));
        assert_eq!(bound_to(&v4), Some("127.0.0.1:7757".parse().unwrap()));
        let v6 = format!("{}{}{}{}:0035", word([0; 4]), word([0; 4]), word([0; 4]), word([0, 0, 0, 1]));
        assert_eq!(bound_to(&v6), Some("[::1]:53".parse().unwrap()));
        assert_eq!([bound_to("x:1"), bound_to("0100:1"), bound_to("")], [None; 3]);
        let remote = "10.1.2.3:7757".parse().unwrap();
        assert_eq!(device_at(remote, |_| unreachable!("it is elsewhere")), remote);
    }
}
