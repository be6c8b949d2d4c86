//! A robot's servos behind Ethernet, each in a network namespace of its own.
use super::network::{BROADCAST, MOST_DEVICES, Network, inside, space};
use super::ports::Ports;
use crate::rtt::RttError;
use khz_emu::serve::{Endpoint, Server};
use khz_emu::{World, WorldConfig};
use khz_robot::RobotConfig;
use khz_robot::config::LinkConfig;
use khz_rt::Setup;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Below that of the loop, above that of everything else.
const PRIORITY: u8 = 70;

/// Builds a network with a device for each servo of a robot file whose one bus is a broadcast into it, and does some
/// work while the emulated servos answer. The work is told the name of the controller's namespace. The first servo has
/// the IMU, if there is one.
///
/// # Errors
/// If the file's bus is not such a one, the machine does not let us make namespaces (it takes root), or the kernel has no
/// qdisc for such ports.
pub fn with_servos<T>(
    robot: &RobotConfig,
    ports: &Ports,
    work: impl FnOnce(&str) -> T,
) -> Result<T, RttError> {
    let port = port(robot)?;
    let devices = robot.servos.len();
    if !(1..=MOST_DEVICES).contains(&devices) {
        return Err(RttError::Plan(format!("{devices} servos cannot be: use 1 to {MOST_DEVICES}")));
    }
    let _network = Network::build(devices, ports)?;
    let mut servers = (0..devices).map(|at| serve(robot, at, port)).collect::<Result<Vec<_>, _>>()?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for server in &mut servers {
            scope.spawn(|| {
                // Servos do not wait for this computer's programs. Without the right to it they have to.
                let ordinary = Setup { lock_memory: false, stay_awake: false, ..Setup::default() };
                let _ = Setup { priority: PRIORITY, ..ordinary }.apply();
                server.run(&over, None)
            });
        }
        let result = work(&space("c"));
        over.store(true, Ordering::Relaxed);
        Ok(result)
    })
}

/// The port of the robot's one bus, which must be a broadcast into the lab's network.
fn port(robot: &RobotConfig) -> Result<u16, RttError> {
    if let [bus] = &robot.buses[..]
        && let LinkConfig::Udp(link) = &bus.link
        && let Ok(SocketAddr::V4(address)) = link.address.parse()
        && *address.ip() == BROADCAST
    {
        return Ok(address.port());
    }
    Err(RttError::Plan(format!(
        "the lab plays robots with one bus of `link = \"udp\"` and `address = \"{BROADCAST}:PORT\"`; `{}` is none",
        robot.name
    )))
}

/// One servo at its own address.
fn serve(robot: &RobotConfig, at: usize, port: u16) -> Result<Server, RttError> {
    let all = robot.world();
    let alone = WorldConfig {
        servos: vec![all.servos[at].clone()],
        imu: all.imu.filter(|_| at == 0),
        seed: all.seed.wrapping_add(at as u64),
        ..all
    };
    let world = World::new(&alone).map_err(|error| RttError::Plan(error.to_string()))?;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    inside(&format!("d{at}"), || Server::at(world, &[Endpoint::Udp(address)]))?
        .map_err(|source| RttError::Bind { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_robots_on_the_labs_network_are_played() {
        let shipped = include_str!("../../../../../robots/ethernet.toml");
        let parse = |text: &str| RobotConfig::parse(text, "a.toml").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(port(&parse(shipped)).ok(), Some(7757));
        let elsewhere = shipped.replace("10.77.255.255", "192.168.1.255");
        for robot in [parse(&elsewhere), RobotConfig::quadruped()] {
            let said = with_servos(&robot, &Ports::default(), |_| ())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(said.contains("10.77.255.255:PORT"), "{said}");
        }
    }
}
