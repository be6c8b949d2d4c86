//! The addresses of devices, for one program of this computer.

use super::{Reach, is_broadcast};
use crate::OpenError;
use crate::claim::{Claim, Role, taken_by_host, targets};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// What kind of claim it is.
const KIND: &str = "udp";

/// Claims every device that is reached.
///
/// # Errors
/// Another program commands one of them.
pub(super) fn claim(reach: &Reach) -> Result<Vec<Claim>, OpenError> {
    let mut addresses: Vec<SocketAddr> = match reach {
        Reach::Unicast(peers) => peers.iter().map(|peer| peer.address).collect(),
        Reach::All(address) => vec![*address],
    };
    addresses.sort_unstable();
    addresses.dedup();
    let claims = addresses.iter().map(|address| Claim::new(Role::Host, KIND, &address.to_string()));
    let claims: Vec<_> = claims.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    addresses.iter().try_for_each(|&address| refuse_overlap(address))?;
    Ok(claims)
}

/// A broadcast commands the devices of others, too. Of two programs that begin at once both may be refused.
fn refuse_overlap(address: SocketAddr) -> Result<(), OpenError> {
    let overlaps = |target: &String| {
        target.parse().is_ok_and(|other| other != address && reaches_the_same(address, other))
    };
    targets(KIND).into_iter().find(overlaps).map_or(Ok(()), |other| Err(taken_by_host(KIND, &other)))
}

/// One of two addresses is everybody on a network in which the other is.
fn reaches_the_same(one: SocketAddr, other: SocketAddr) -> bool {
    let is_to_all = is_broadcast(one) || is_broadcast(other);
    is_to_all && one.port() == other.port() && route(one).is_some() && route(one) == route(other)
}

/// The address of this computer from which it would send there. Sends nothing.
fn route(to: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.set_broadcast(true).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device, so that no other test has its port.
    fn device() -> (UdpSocket, u16) {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        (socket, port)
    }

    fn to(ip: [u8; 4], port: u16) -> Reach {
        Reach::All((ip, port).into())
    }

    #[test]
    fn a_broadcast_leaves_no_host_beside_it() {
        let ((_device, port), (_other, other)) = (device(), device());
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
        assert!(claim(&to([127, 0, 0, 2], port)).is_ok(), "devices at another address are others");
    }
}
