//! The bus cycle over the emulated pi3hat, in virtual time.

use khz_emu::hat::Hat;
use khz_emu::{BusConfig, ImuConfig, ServoConfig, World, WorldConfig};
use khz_file::config::{CommandFormat, Format, QueryFormat};
use khz_link::Link;
use khz_link::pi3hat::{Options, Pi3hat};
use khz_loop::cycle::{Cycle, CyclePlan, CycleResult, DevicePlan};
use khz_loop::state::RobotState;
use khz_loop::time::{Time, VirtualTime};
use khz_loop::{PositionCommand, ServoCommand};
use khz_servo::moteus::Settings;
use khz_servo::{Family, Mounting, ServoPlan, family};

const DEADLINE_NS: i64 = 900_000;

fn link() -> Box<dyn Link> {
    let config = WorldConfig {
        buses: vec![BusConfig::CAN_FD; 5],
        servos: (0..12).map(|n| ServoConfig::new(n % 4, n as u8 + 1)).collect(),
        imu: Some(ImuConfig::default()),
        ..WorldConfig::default()
    };
    let mut options = Options::default();
    options.imu.rate_hz = 1000;
    let hat = Hat::new(World::new(&config).unwrap(), 4);
    Box::new(Pi3hat::open(hat, &options, |_, frame| family::replier(frame), 0).unwrap())
}

/// Position, velocity and torque as int16, both ways; what is commanded besides is left out.
fn device(n: u8) -> DevicePlan {
    let (short, none) = (Format::Int16, Format::None);
    let motion =
        CommandFormat { position: short, velocity: short, torque: short, ..CommandFormat::default() };
    DevicePlan {
        name: format!("servo_{}", n + 1),
        link: 0,
        channel: n % 4,
        servo: ServoPlan {
            servo: 0,
            id: n + 1,
            mounting: Mounting::default(),
            family: Family::Moteus(Settings {
                command: CommandFormat {
                    kp_scale: none,
                    kd_scale: none,
                    max_torque: none,
                    watchdog: none,
                    ..motion
                },
                query: QueryFormat {
                    position: short,
                    velocity: short,
                    torque: short,
                    ..QueryFormat::default()
                },
            }),
            watchdog_s: f64::NAN,
        },
        reply_timeout_ns: DEADLINE_NS,
    }
}

#[test]
fn twelve_servos_and_the_attitude_take_this_long() {
    let plan = CyclePlan { devices: (0..12).map(device).collect(), imu: vec![0], ..CyclePlan::default() };
    let mut links = vec![link()];
    let mut cycle = Cycle::new(plan, &links);
    let mut state = RobotState::unknown(12, true, 0);
    let commands = [ServoCommand::Position(PositionCommand::hold(0.0)); 12];
    let mut time = VirtualTime::new(0);
    // Opening the hat has taken some milliseconds.
    for tick in 20..40 {
        time.wait_for_tick(tick * 1_000_000);
        let start_ns = time.now_ns();
        cycle.begin(&commands, start_ns + DEADLINE_NS);
        cycle.send(&mut links, start_ns);
        while !cycle.is_complete() && time.now_ns() < start_ns + DEADLINE_NS {
            time.pass(cycle.next_ns(&links), &links);
            cycle.receive(&mut links, time.now_ns());
            cycle.receive_imu(&mut links, &mut state, time.now_ns());
            cycle.take_in(&mut state);
        }
        assert_eq!(cycle.end(&mut state), CycleResult { replied: 12, ..CycleResult::default() });
        // Twelve commands of 16 bytes, 25 µs each, the attitude, 43.4, twelve replies, 26.6, and at most seven statuses, 15.4.
        let took_ns = time.now_ns() - start_ns;
        assert!((700_000..=770_500).contains(&took_ns), "tick {tick}: {took_ns} ns");
    }
}
