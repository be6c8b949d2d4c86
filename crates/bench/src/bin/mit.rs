//! Servos in MIT mode: their bus cycle against what the wires allow, and against damiao-motor and RobStride's own package.
//!
//! First in real time on emulated buses, as `tick` does it: 12 RobStride at 1 kHz on four of classic CAN (robots/quadruped_robstride.toml) and
//! 12 Damiao at 2 kHz on four of CAN-FD. The bound of a tick is its longest bus: the time its frames occupied the wire, and one
//! turnaround. That of an emulated RobStride varies from reply to reply by 0 to 40 µs more than the bus's: the bound takes 20.
//!
//! Then over emulated slcan adapters: a command and a state of 7 Damiao, with `damiao-motor` as the peer, and of 6 RobStride, with
//! `robstride-dynamics`. One process serves the emulated servos, each client at its own adapter. A cycle is: every servo is commanded, and a
//! fresh state of each has arrived. `damiao-motor` sends all commands, and a thread of its own looks for replies every millisecond;
//! `robstride-dynamics` waits for each reply before the next command. Ours waits for replies asleep; spinning is printed too. Once with a
//! wire on which bits take no time, so that the hosts' own cost is compared, and once with classic CAN at 1 Mbit/s. The adapters
//! acknowledge nothing, as a CANable: each acknowledgement would cost `damiao-motor` another millisecond.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, ensure};
use khz_bench::machine::Machine;
use khz_bench::turns::{Python, Serving, TURN, Took, Turns, turn};
use khz_bench::{Bench, watched};
use khz_emu::serve::{Endpoint, Server};
use khz_emu::{BusConfig, World, WorldConfig};
use khz_file::config::RobotConfig;
use khz_loop::time::Receive;
use khz_wire::slcan::Answers;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

/// Emulated RobStride servos are later than their bus's turnaround by so much, on average.
const ROBSTRIDE_LATER_NS: i64 = 20_000;
/// For all alike: a machine that does other things too may stall for long.
const DEADLINE_NS: i64 = 1_000_000_000;

fn main() -> Result<()> {
    let mut words = std::env::args().skip_while(|word| word != "--serve").skip(1);
    if let (Some(peer), Some(wire)) = (words.next(), words.next()) {
        return serve(&peer, &wire);
    }
    let bench = Bench::from_args();
    let quadruped = include_str!("../../../../robots/quadruped_robstride.toml");
    cycle_to_wire(&bench, "mit_robstride", quadruped, ROBSTRIDE_LATER_NS)?;
    cycle_to_wire(&bench, "mit_damiao_fd", &twelve_damiao(), 0)?;
    for peer in &PEERS {
        for wire in ["instant", "can"] {
            compare(&bench, peer, wire)?;
        }
    }
    Ok(())
}

fn twelve_damiao() -> String {
    let mut text =
        "[loop]\nrate_hz = 2000\nbus_deadline_us = 450\n[controller]\nname = \"sine\"\n".to_owned();
    for bus in 0..watched::BUSES {
        let _ = writeln!(text, "[bus.b{bus}]\nlink = \"emulated\"\nturnaround_us = 50");
    }
    for servo in 0..12 {
        let (bus, id) = (servo / 3, servo + 1);
        let _ = writeln!(
            text,
            "[[servo]]\nname = \"s{id}\"\nid = {id}\nbus = \"b{bus}\"\nfamily = \"damiao\"\n\
             damiao = {{ model = \"4310\", can_fd = true }}\nlimits = {{ position = [-1.5, 1.5], velocity = 3 }}"
        );
    }
    text
}

/// Runs a robot and compares its bus cycles with their bound; `later_ns` is the mean of what its servos add to the bus's turnaround.
fn cycle_to_wire(bench: &Bench, name: &str, robot: &str, later_ns: i64) -> Result<()> {
    let config = RobotConfig::parse(robot, name)?;
    let turnaround_ns = config.world().buses[0].turnaround_ns + later_ns;
    let seen = watched::run(&config, turnaround_ns, bench.rounds(10) as i64)?;
    let stats = &seen.outcome.stats;
    let (own, cycle) = (stats.times.loop_compute.summary(), stats.times.cycle.summary());
    bench.ratio(&format!("{name}_cycle_to_wire_bound_p50"), seen.ratios.median(), 1.03);
    bench.figure(&format!("{name}_missed_clean"), seen.missed_clean as f64, "replies", 0.0);
    let under_control = stats.controlled().missed_replies as f64;
    bench.figure(&format!("{name}_missed_under_control"), under_control, "replies", f64::INFINITY);
    let outside = stats.outside().missed_replies as f64;
    bench.figure(&format!("{name}_missed_outside_control"), outside, "replies", f64::INFINITY);
    bench.figure(&format!("{name}_loop_compute_p50"), own.p50 as f64 / 1e3, "us", 15.0);
    bench.figure(&format!("{name}_cycle_p50"), cycle.p50 as f64 / 1e3, "us", f64::INFINITY);
    bench.figure(&format!("{name}_cycle_max"), cycle.max as f64 / 1e3, "us", f64::INFINITY);
    bench.figure(&format!("{name}_lost_time"), stats.lost.ticks as f64, "ticks", f64::INFINITY);
    Ok(())
}

/// A program that drives the same servos.
struct Peer {
    name: &'static str,
    servos: usize,
    /// The key of a servo in the robot file.
    family: &'static str,
    model: &'static str,
    script: &'static str,
}

const PEERS: [Peer; 2] = [
    Peer { name: "damiao_motor", servos: 7, family: "damiao", model: "4310", script: DAMIAO_MOTOR },
    Peer { name: "robstride_sdk", servos: 6, family: "robstride", model: "RS02", script: ROBSTRIDE_SDK },
];

const DAMIAO_MOTOR: &str = r#"
import sys, time
import can
from damiao_motor import DaMiaoController

path, servos, turn = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# It sets no bit rate; an adapter keeps the one it has got.
can.Bus(interface="slcan", channel=path, bitrate=1_000_000, sleep_after_open=0.05).shutdown()
controller = DaMiaoController(channel=path, bustype="slcan")
motors = [controller.add_motor(i + 1, i + 0x11, "4310") for i in range(servos)]
controller.enable_all()

def cycle():
    before = [motor.state for motor in motors]
    for motor in motors:
        motor.send_cmd_mit(target_position=0.0, target_velocity=0.0, stiffness=20.0, damping=0.5, feedforward_torque=0.0)
    while any(motor.state is state for motor, state in zip(motors, before)):
        time.sleep(0.001)

time.sleep(0.1)
cycle()
for _ in sys.stdin:
    took = []
    for _ in range(turn):
        # Its other thread works, too.
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        cycle()
        took.append(f"{time.perf_counter_ns() - wall} {time.process_time_ns() - cpu}")
    assert all(motor.state["status"] == "ENABLED" for motor in motors)
    print(",".join(took), flush=True)
"#;

const ROBSTRIDE_SDK: &str = r#"
import sys, time
import can
from can.interfaces.slcan import slcanBus
from robstride_dynamics import Motor, RobstrideBus

path, servos, turn = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
out, sys.stdout = sys.stdout, sys.stderr

class PatientBus(slcanBus):
    def recv(self, timeout=None):
        # It gives up after 0.1 s; a machine that does other things too may stall for longer.
        return super().recv(None if timeout is None else 20 * timeout)

# It opens SocketCAN interfaces only.
can.interface.Bus = lambda interface, **more: PatientBus(sleep_after_open=0.05, **more)
bus = RobstrideBus(path, {f"servo_{i + 1}": Motor(i + 1, "rs-02") for i in range(servos)})
bus.connect()
for motor in bus.motors:
    bus.enable(motor)

def cycle():
    for motor in bus.motors:
        bus.write_operation_frame(motor, position=0.0, kp=20.0, kd=0.5)
        bus.read_operation_frame(motor)

for _ in sys.stdin:
    took = []
    for _ in range(turn):
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        cycle()
        took.append(f"{time.perf_counter_ns() - wall} {time.process_time_ns() - cpu}")
    print(",".join(took), file=out, flush=True)
"#;

impl Peer {
    /// The robot file of the servos at this adapter. Their watchdogs must outlast the turns of the others.
    fn robot(&self, path: &str) -> Result<RobotConfig> {
        let Self { family, model, .. } = self;
        let mut text = format!(
            "[loop]\nrate_hz = 100\n[bus.main]\nlink = \"slcan\"\npath = \"{path}\"\n\
             [servo_defaults]\nbus = \"main\"\nfamily = \"{family}\"\nwatchdog_s = 30\n\
             {family} = {{ model = \"{model}\" }}\nlimits = {{ position = [-1.5, 1.5], velocity = 3 }}\n"
        );
        for id in 1..=self.servos {
            let _ = writeln!(text, "[[servo]]\nname = \"servo_{id}\"\nid = {id}");
        }
        Ok(RobotConfig::parse(&text, self.name)?)
    }
}

fn compare(bench: &Bench, peer: &Peer, wire: &str) -> Result<()> {
    let server = Serving::start(&["--serve", peer.name, wire], 2)?;
    let mut ours = Machine::of(&peer.robot(&server.terminals[0])?)?;
    ours.start(&mut Machine::time(Receive::Poll)?, DEADLINE_NS)?;
    let mut python = Python::start(peer.script, &server.terminals[1], peer.servos)?;
    let mut all: [Turns; 3] = Default::default();
    // The first turn of each only warms up.
    for turn in 0..=bench.rounds(100) {
        for place in 0..all.len() {
            let client = (place + turn) % all.len();
            let adapter_ns = server.cpu_ns()?;
            let took = match client {
                0 => our_turn(&mut ours, Receive::Poll)?,
                1 => our_turn(&mut ours, Receive::Spin)?,
                _ => python.turn()?,
            };
            if turn > 0 {
                all[client].add(&took, (server.cpu_ns()? - adapter_ns) / TURN as f64);
            }
        }
    }
    let [ours, spinning, python] = all.map(Turns::medians);
    // The goals are for the host's own cost; what a wire adds is equal for all and only reported.
    let (suffix, is_goal) = if wire == "instant" { ("", true) } else { ("_on_the_wire", false) };
    let goal = |value| if is_goal { value } else { f64::INFINITY };
    bench.ratio(&format!("mit_cycle_of_{}{suffix}", peer.name), ours.0 / python.0, goal(0.2));
    bench.ratio(&format!("mit_cpu_of_{}{suffix}", peer.name), ours.1 / python.1, goal(0.1));
    for (client, (cycle, cpu, adapter)) in [("ours", ours), ("spinning", spinning), (peer.name, python)] {
        let name = format!("mit_{}_{}_{client}{suffix}", peer.servos, peer.family);
        bench.figure(&format!("{name}_cycle"), cycle / 1e3, "us", f64::INFINITY);
        bench.figure(&format!("{name}_cpu"), cpu / 1e3, "us", f64::INFINITY);
        bench.figure(&format!("{name}_adapter_cpu"), adapter / 1e3, "us", f64::INFINITY);
    }
    Ok(())
}

fn our_turn(machine: &mut Machine, receive: Receive) -> Result<Took> {
    let mut time = Machine::time(receive)?;
    turn(|| {
        let (_, result) = machine.cycle(&mut time, DEADLINE_NS);
        ensure!(result.missed == 0, "our cycle missed {} replies", result.missed);
        Ok(())
    })
}

/// Serves the servos of a comparison twice: ours, and the peer's.
fn serve(peer: &str, wire: &str) -> Result<()> {
    let peer = PEERS.iter().find(|known| known.name == peer).context("no such peer")?;
    let bus = if wire == "instant" { BusConfig::INSTANT } else { BusConfig::CAN_FD };
    let one = peer.robot("/dev/null")?.world();
    let servos = (0..2)
        .flat_map(|bus| one.servos.iter().map(move |servo| khz_emu::ServoConfig { bus, ..servo.clone() }));
    let config = WorldConfig { buses: vec![bus; 2], servos: servos.collect(), ..WorldConfig::default() };
    let endpoints = [Endpoint::Slcan(Answers::None), Endpoint::Slcan(Answers::None)];
    let mut server = Server::at(World::new(&config)?, &endpoints)?;
    server.endpoints().for_each(|path| println!("{}", path.display()));
    server.run(&AtomicBool::new(false), None)?;
    Ok(())
}
