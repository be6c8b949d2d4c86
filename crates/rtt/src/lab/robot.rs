//! A robot's servos behind Ethernet: boards with one or several of them, each in its own network namespace.
use super::network::{BROADCAST, MOST_DEVICES, Network, inside, space};
use super::ports::Ports;
use crate::RttError;
use khz_emu::serve::{Endpoint, Server};
use khz_emu::{ServoConfig, World, WorldConfig};
use khz_file::RobotConfig;
use khz_file::config::LinkConfig;
use khz_rt::Setup;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Below that of the loop, above that of everything else.
const PRIORITY: u8 = 70;

/// Builds a network of boards with `per_board` servos each (the last may have fewer) of a robot file whose one bus is a
/// broadcast into it, and does some work while the emulated servos answer. The work is given the name of the controller's
/// namespace. The first board has the IMU, if there is one.
///
/// # Errors
/// If `per_board` is 0, the file's bus is not such a one, the machine does not let us make namespaces (it takes root), or
/// the kernel has no qdisc for such ports.
pub fn with_servos<T>(
    robot: &RobotConfig,
    per_board: usize,
    ports: &Ports,
    work: impl FnOnce(&str) -> T,
) -> Result<T, RttError> {
    let port = port(robot)?;
    let servos = robot.world().servos;
    let boards: Vec<_> = servos.chunks(per_board.max(1)).collect();
    if per_board == 0 || !(1..=MOST_DEVICES).contains(&boards.len()) {
        let what = format!(
            "{} servos, {per_board} on a board, cannot be: use 1 to {MOST_DEVICES} boards",
            servos.len()
        );
        return Err(RttError::Plan(what));
    }
    let _network = Network::build(boards.len(), ports)?;
    let serve = |(at, servos): (usize, &&[ServoConfig])| serve(robot, at, servos, port);
    let mut servers = boards.iter().enumerate().map(serve).collect::<Result<Vec<_>, _>>()?;
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

/// A board with these servos, at its own address.
fn serve(robot: &RobotConfig, at: usize, servos: &[ServoConfig], port: u16) -> Result<Server, RttError> {
    let all = robot.world();
    let board = WorldConfig {
        servos: servos.to_vec(),
        imu: all.imu.filter(|_| at == 0),
        seed: all.seed.wrapping_add(at as u64),
        ..all
    };
    let world = World::new(&board).map_err(|error| RttError::Plan(error.to_string()))?;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    inside(&format!("d{at}"), || Server::at(world, &[Endpoint::Udp(address)]))?
        .map_err(|source| RttError::Bind { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_robots_on_the_labs_network_are_played() {
        let shipped = include_str!("../../../../robots/ethernet.toml");
        let parse = |text: &str| RobotConfig::parse(text, "a.toml").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(port(&parse(shipped)).ok(), Some(7757));
        let elsewhere = shipped.replace("10.77.255.255", "192.168.1.255");
        for robot in [parse(&elsewhere), RobotConfig::quadruped()] {
            let message = with_servos(&robot, 1, &Ports::default(), |_| ())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(message.contains("10.77.255.255:PORT"), "{message}");
        }
    }
}
