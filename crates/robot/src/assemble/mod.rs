//! From a robot file to a machine: links opened, cycle planned, controller prepared.

pub(crate) mod control;
pub(crate) mod links;

pub use control::{PrepareError, controller};
pub use links::{AssembleError, Devices, Links, open_links, open_links_as, replier};

use khz_emu::WireKind;
use khz_file::config::{RobotConfig, ServoConfig};
use khz_link::Link;
use khz_loop::buses::{BusPlace, Buses};
use khz_loop::controller::{Controller, JointInfo, RobotInfo};
use khz_loop::cycle::{Cycle, CyclePlan, DevicePlan, PaceFrame};
use khz_loop::state::RobotState;
use khz_loop::supervisor::{Joint, Supervisor};
use khz_loop::tick::Machine;

/// Builds the machine of a robot file around a controller. Opens every link, so devices may be touched.
///
/// # Errors
/// A link that cannot be opened, with its bus.
pub fn machine(config: &RobotConfig, controller: Box<dyn Controller>) -> Result<Machine, AssembleError> {
    Ok(put_together(config, controller, open_links(config, |world| Box::new(world))?))
}

/// Builds the machine of a robot file on a link of your own, whose channels are the file's buses in their order
/// and whose IMU is the robot's: for tests and benches that look into the devices.
pub fn machine_on(config: &RobotConfig, controller: Box<dyn Controller>, link: Box<dyn Link>) -> Machine {
    let places = (0..config.buses.len()).map(|bus| (0, bus as u8)).collect();
    let imu = config.imu.iter().map(|_| 0).collect();
    put_together(config, controller, Links { links: vec![link], places, imu })
}

/// Builds the machine of a robot file on links that are open.
pub fn put_together(config: &RobotConfig, controller: Box<dyn Controller>, links: Links) -> Machine {
    let (cycle, state, buses) = (cycle(config, &links), state(config), buses(config, &links.places));
    let deadline_ns = config.timing.bus_deadline_ns();
    let mut machine = Machine::new(links.links, cycle, supervisor(config), controller, state, deadline_ns);
    machine.name_buses(buses);
    machine
}

/// The bus cycle of a robot file on links that are open.
pub fn cycle(config: &RobotConfig, links: &Links) -> Cycle {
    let devices = config
        .servos
        .iter()
        .enumerate()
        .map(|(number, servo)| device(config, number, links.places[servo.bus]))
        .collect();
    let plan = CyclePlan { devices, imu: links.imu.clone(), pace: pace_frame(config, links) };
    Cycle::new(plan, &links.links)
}

fn pace_frame(config: &RobotConfig, links: &Links) -> Option<PaceFrame> {
    let timing = &config.timing;
    let bus = config.buses.iter().position(|bus| timing.pace_bus.as_ref() == Some(&bus.name))?;
    let (link, channel) = links.places[bus];
    Some(PaceFrame { link, channel, id: timing.pace_id? })
}

/// The supervisor of the robot of a file, with its thresholds and limits.
pub fn supervisor(config: &RobotConfig) -> Supervisor {
    let joint =
        |servo: &ServoConfig| Joint::new(&servo.limits, &servo.family(), &servo.mounting(), servo.timeout());
    let bearable_ns = (config.bearable_stall_s() * 1e9) as i64;
    Supervisor::of(config.supervisor_settings(), config.servos.iter().map(joint).collect(), bearable_ns)
}

/// What a controller gets to know about the robot of a file.
pub fn info(config: &RobotConfig) -> RobotInfo {
    let joint = |servo: &ServoConfig| JointInfo {
        name: servo.name.clone(),
        limits: servo.limits.clone(),
        gains: servo.in_file().facts().sends_gains.then(|| servo.gains()),
        torque: servo.limits.torque.or_else(|| {
            let carried = servo.carries().torque;
            (!servo.in_file().facts().limits_torque && carried.is_finite()).then_some(carried)
        }),
    };
    RobotInfo {
        name: config.name.clone(),
        period_ns: config.timing.period_ns(),
        joints: config.servos.iter().map(joint).collect(),
        has_imu: config.imu.is_some(),
        parameters: config.parameters.iter().filter_map(|(name, given)| given.declared(name)).collect(),
    }
}

/// The state of the robot before anything is known.
pub fn state(config: &RobotConfig) -> RobotState {
    RobotState::unknown(config.servos.len(), config.imu.is_some(), config.timing.period_ns())
}

/// What people call the links of a robot file, in the order in which they are opened: by its buses.
fn buses(config: &RobotConfig, places: &[BusPlace]) -> Buses {
    let links = places.iter().map(|(link, _)| link + 1).max().unwrap_or(0);
    let name = |link| {
        let on_link = config.buses.iter().zip(places).filter(|(_, place)| place.0 == link);
        let buses: Vec<&str> = on_link.map(|(bus, _)| bus.name.as_str()).collect();
        match &buses[..] {
            [] => "the emulated IMU".to_owned(),
            [bus] => format!("bus {bus}"),
            several => format!("the link of buses {}", several.join(", ")),
        }
    };
    let own = config.buses.iter().map(|bus| format!("bus {}", bus.name));
    Buses { names: (0..links).map(name).chain(own).collect(), places: places.to_vec() }
}

fn device(config: &RobotConfig, number: usize, (link, channel): BusPlace) -> DevicePlan {
    let servo = &config.servos[number];
    DevicePlan {
        name: servo.name.clone(),
        link,
        channel,
        servo: servo.plan(number),
        reply_timeout_ns: reply_timeout_ns(config, servo.bus),
    }
}

/// For how long without its reply the next query of a half-duplex bus is not sent, ns, whatever is left of the cycle: the longest query and reply
/// on the wire, or all answers of servos that are asked together, and then some for the servo and the kernel.
fn reply_timeout_ns(config: &RobotConfig, bus: usize) -> i64 {
    const SLACK_NS: i64 = 300_000;
    const LONGEST_EXCHANGE_BITS: i64 = 2 * (64 + 8) * 10;
    // A servo's share of what is asked together, and its answer.
    const LONGEST_SHARED_BITS: i64 = 32 * 10;
    let WireKind::Rs485 { baud, packets } = config.buses[bus].link.bus().emulated().wire else {
        return SLACK_NS;
    };
    let together = packets.answers_in_order();
    let servos = config.servos_on(bus).count() as i64;
    let bits = if together { LONGEST_SHARED_BITS * servos } else { LONGEST_EXCHANGE_BITS };
    let timeout_ns = bits * 1_000_000_000 / i64::from(baud) + SLACK_NS;
    // One that is silent is not to hold up the next cycle's question to all.
    if together { timeout_ns.min(config.timing.period_ns() * 3 / 4) } else { timeout_ns }
}
