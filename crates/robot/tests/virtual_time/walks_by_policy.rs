//! The policy that comes with the program walks as it has learned, also while its joints are pushed.

use crate::rig::Rig;
use khz_emu::{Trunk, World};
use khz_file::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::supervisor::Phase;
use khz_robot::assemble;
use khz_wire::Request;
use std::sync::{Arc, Mutex};

/// As the campaign pushes: with up to this share of a joint's torque limit.
const SHARE: f64 = 0.64;
/// Each joint is pushed so often, s: one of the twelve every 1.5 s.
const EVERY_S: f64 = 18.0;

/// The emulated machine, and where its trunk is.
struct Seen {
    world: World,
    trunk: Arc<Mutex<Trunk>>,
}

impl Link for Seen {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, next_event_ns, imu, counters);

    fn begin_cycle(&mut self, now_ns: i64) {
        *self.trunk.lock().unwrap() = self.world.body().trunk();
        self.world.begin_cycle(now_ns);
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.world.send(channel, request.frame, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.world.receive(now_ns)
    }
}

/// Walks for so many seconds, and returns how far it came in each after the first two.
fn walk(seconds: usize, share: f64, seed: u64) -> Result<Vec<f64>, String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/quadruped_policy.toml");
    let mut config = RobotConfig::load(file).unwrap();
    config.emulation.seed = seed;
    for servo in &mut config.servos {
        servo.settings.joint.push_torque = share * servo.limits.torque.unwrap_or(5.0);
        servo.settings.joint.push_every_s = EVERY_S;
    }
    let trunk = Arc::new(Mutex::new(Trunk::UPRIGHT));
    let link = Seen { world: config.emulate().unwrap(), trunk: Arc::clone(&trunk) };
    let mut controller = assemble::controller(&config.controller);
    controller.prepare(&assemble::info(&config)).unwrap();
    let mut rig = Rig::under_control(assemble::machine_on(&config, controller, Box::new(link)));
    let (mut ways, mut before) = (Vec::new(), None);
    for tick in 0..1000 * (seconds + 2) {
        rig.tick();
        let Trunk { position: [x, y, z], attitude: [_, roll, pitch, _], .. } = *trunk.lock().unwrap();
        if rig.machine.phase() != Phase::Active {
            return Err(format!("came down after {tick} ticks: {:?}", rig.causes));
        }
        if tick > 1500 && (roll.hypot(pitch) > 0.4 || z < 0.1) {
            return Err(format!("fell after {tick} ticks"));
        }
        if tick >= 2000 && tick % 1000 == 0 {
            ways.extend(before.map(|[from_x, from_y]: [f64; 2]| (x - from_x).hypot(y - from_y)));
            before = Some([x, y]);
        }
    }
    Ok(ways)
}

#[test]
fn the_trained_quadruped_walks_half_a_metre_a_second() {
    let ways = walk(10, 0.0, 1).unwrap();
    let mean = ways.iter().sum::<f64>() / ways.len() as f64;
    assert!((0.45..0.55).contains(&mean), "{mean} m/s: {ways:?}");
}

#[test]
fn it_keeps_walking_where_its_joints_are_pushed() {
    for seed in 1..=3 {
        let ways = walk(60, SHARE, seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let mean = ways.iter().sum::<f64>() / ways.len() as f64;
        println!("seed {seed}: {mean:.3} m/s for {} s under pushes", ways.len());
        assert!((0.4..0.6).contains(&mean), "seed {seed}: {mean} m/s");
    }
}
