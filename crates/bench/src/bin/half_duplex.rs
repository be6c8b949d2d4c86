//! Servos on half-duplex lines: the cycle against what the line allows, and against dynamixel-sdk, rustypot and LeRobot.
//!
//! With the wire the emulated machine is in the same thread, which waits by spinning. The bound is every byte that travels, and a turnaround
//! before each answer. Without it one process serves the servos, each client at its own terminal, and a byte takes no time: every client sends a
//! goal to all servos in one packet and asks all of them for what they measure by one question (LeRobot: for positions alone, servo by servo in its
//! replies, as it does). All wait asleep. The bare terminal writes the same bytes and waits for as many as come back, without reading them: what is
//! left then is the terminal and the emulated servos, below which no client can come.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, ensure};
use khz_bench::machine::Machine;
use khz_bench::turns::{Python, Serving, TURN, Took, Turns, turn};
use khz_bench::{Bench, Samples};
use khz_emu::serve::Server;
use khz_emu::{WireKind, World};
use khz_file::RobotConfig;
use khz_loop::time::Receive;
use khz_wire::{Frame, dynamixel, feetech};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

/// Long enough for a machine that does other things too.
const DEADLINE_NS: i64 = 1_000_000_000;
/// A byte takes next to no time.
const NO_WIRE: u32 = 2_000_000_000;

/// A client in Python, behind what all begin with.
macro_rules! client {
    ($path:literal) => {
        concat!(include_str!("../../python/half_duplex.py"), include_str!($path))
    };
}

/// A family on a line.
struct Kind {
    name: &'static str,
    /// What `wire` of an emulated bus and `protocol` of a serial one call it.
    protocol: &'static str,
    baud: u32,
    turnaround_us: f64,
    supply_v: f64,
    /// The keys of each servo.
    servo: &'static str,
    /// Bytes of a cycle with so many servos on one line: what is sent, and what comes back.
    bytes: fn(usize) -> (usize, usize),
    /// The goals and the question for these servos, and what writes a packet as its bytes.
    request: fn(&[u8]) -> Option<Vec<Frame>>,
    encode: fn(&Frame, &mut [u8]) -> Option<usize>,
    /// What else is at the terminals, and what of its time ours may take.
    peers: &'static [(&'static str, &'static str, f64)],
}

/// Goals in a sync write; a fast sync read, and its answer with 14 bytes of each (one more or less in two of three cycles).
const DYNAMIXEL: Kind = Kind {
    name: "dynamixel",
    protocol: "dynamixel",
    baud: 4_000_000,
    turnaround_us: 4.0,
    supply_v: 5.0,
    servo: "family = \"dynamixel\"\ndynamixel = { model = \"XL330-M288\", torque_constant = 0.35, position_p = 400 }\n\
            watchdog_s = 2.5\nlimits = { position = [-1.5, 1.5], velocity = 8 }\njoint = { inertia = 0.001 }\n",
    bytes: |servos| ((14 + 5 * servos) + (14 + servos), 8 + 18 * servos),
    request: |ids| {
        let mut goals = dynamixel::SyncWrite::new(116, 4);
        ids.iter().all(|id| goals.add(*id, &2048_u32.to_le_bytes())).then_some(())?;
        Some(vec![goals.packet(), dynamixel::sync_read(124, 14, ids, true)?])
    },
    encode: dynamixel::encode,
    peers: &[
        ("dynamixel_sdk", client!("../../python/half_duplex_dynamixel_sdk.py"), 0.1),
        ("rustypot", client!("../../python/half_duplex_rustypot.py"), 0.5),
        ("lerobot", client!("../../python/half_duplex_lerobot.py"), 0.1),
    ],
};

/// Goals in a sync write; a sync read, and answers with 7 bytes of each (one more or less in two of three cycles).
const FEETECH: Kind = Kind {
    name: "feetech",
    protocol: "feetech",
    baud: 1_000_000,
    turnaround_us: 20.0,
    supply_v: 7.4,
    servo: "family = \"feetech\"\nfeetech = { model = \"STS3215\", unwatched = true }\n\
            limits = { position = [-1.5, 1.5], velocity = 6 }\njoint = { inertia = 0.003, armature = 0.0284 }\n",
    bytes: |servos| ((8 + 3 * servos) + (8 + servos), 13 * servos),
    request: |ids| {
        let mut goals = feetech::SyncWrite::new(42, 2);
        ids.iter().all(|id| goals.add(*id, &2048_u16.to_le_bytes())).then_some(())?;
        Some(vec![goals.packet(), feetech::sync_read(56, 7, ids)?])
    },
    encode: feetech::encode,
    peers: &[
        ("feetech_sdk", client!("../../python/half_duplex_feetech_sdk.py"), 0.1),
        ("rustypot", client!("../../python/half_duplex_rustypot_feetech.py"), 0.5),
        ("lerobot", client!("../../python/half_duplex_lerobot_feetech.py"), 0.1),
    ],
};

const KINDS: [&Kind; 2] = [&DYNAMIXEL, &FEETECH];

/// Servos of a kind, dealt over so many lines, and what a cycle may take, µs.
const WIRED: [(&Kind, usize, usize, f64); 3] =
    [(&DYNAMIXEL, 6, 1, 1e6 / 1500.0), (&DYNAMIXEL, 12, 2, 1e6 / 1000.0), (&FEETECH, 6, 1, 1e6 / 500.0)];
/// Servos without the wire.
const SERVOS: usize = 6;

fn main() -> Result<()> {
    if let Some(name) = std::env::args().skip_while(|word| word != "--serve").nth(1) {
        return KINDS.iter().filter(|kind| kind.name == name).try_for_each(|kind| serve(kind));
    }
    let bench = Bench::from_args();
    println!("load {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    WIRED
        .iter()
        .try_for_each(|(kind, servos, lines, goal)| on_the_wire(&bench, kind, *servos, *lines, *goal))?;
    KINDS.iter().try_for_each(|kind| at_terminals(&bench, kind))
}

/// A robot of this kind; each line is what its text says.
fn robot(kind: &Kind, servos: usize, lines: &[String]) -> Result<RobotConfig> {
    let bus = |(number, line): (usize, &String)| format!("[bus.line_{number}]\n{line}\n");
    let servo = |number: usize| {
        let (line, id) = (number % lines.len(), number / lines.len() + 1);
        format!("[[servo]]\nname = \"servo_{number}\"\nbus = \"line_{line}\"\nid = {id}\n")
    };
    let text = format!(
        "[loop]\nrate_hz = 100\n[emulation]\nsupply_v = {}\n[supervisor]\nvoltage_low_v = 4\n{}[servo_defaults]\n{}{}[controller]\nname = \"hold\"\n",
        kind.supply_v,
        lines.iter().enumerate().map(bus).collect::<String>(),
        kind.servo,
        (0..servos).map(servo).collect::<String>()
    );
    Ok(RobotConfig::parse(&text, kind.name)?)
}

fn emulated(kind: &Kind) -> String {
    let Kind { protocol, baud, turnaround_us, .. } = kind;
    format!("link = \"emulated\"\nwire = \"{protocol}\"\nbaud = {baud}\nturnaround_us = {turnaround_us}")
}

fn on_the_wire(bench: &Bench, kind: &Kind, servos: usize, lines: usize, goal_us: f64) -> Result<()> {
    let mut machine = Machine::of(&robot(kind, servos, &vec![emulated(kind); lines])?)?;
    let mut time = Machine::time(Receive::Spin)?;
    machine.start(&mut time, DEADLINE_NS)?;
    let on_line = servos / lines;
    let byte_us = 10.0 / f64::from(kind.baud) * 1e6;
    let (sent, answered) = (kind.bytes)(on_line);
    let bound_us = (sent + answered) as f64 * byte_us + on_line as f64 * kind.turnaround_us;
    let (mut took, mut missed) = (Vec::new(), 0);
    for _ in 0..bench.rounds(3000) {
        let (took_ns, result) = machine.cycle(&mut time, DEADLINE_NS);
        missed += result.missed;
        took.push(took_ns as f64 / 1e3);
    }
    ensure!(missed == 0, "{missed} answers missed: too much else is going on");
    let took = Samples::new(took);
    let name = format!("half_duplex_{}_{servos}_on_{lines}", kind.name);
    bench.ratio(&format!("{name}_cycle_to_bound_p50"), took.median() / bound_us, 1.05);
    bench.ratio(&format!("{name}_cycle_to_bound_p99"), took.percentile(99.0) / bound_us, f64::INFINITY);
    bench.figure(&format!("{name}_cycle_p50"), took.median(), "us", goal_us);
    Ok(())
}

fn at_terminals(bench: &Bench, kind: &Kind) -> Result<()> {
    let server = Serving::start(&["--serve", kind.name], 2 + kind.peers.len())?;
    let line = |path: &str| {
        format!("link = \"rs485\"\npath = \"{path}\"\nbaud = {}\nprotocol = \"{}\"", kind.baud, kind.protocol)
    };
    let mut ours = Machine::of(&robot(kind, SERVOS, &[line(&server.terminals[0])])?)?;
    let mut time = Machine::time(Receive::Poll)?;
    ours.start(&mut time, DEADLINE_NS)?;
    let mut bare = Bare::open(kind, &server.terminals[1])?;
    let peers = kind.peers.iter().zip(&server.terminals[2..]);
    let mut peers = peers
        .map(|((_, script, _), path)| Python::start(script, path, SERVOS))
        .collect::<Result<Vec<_>>>()?;
    let mut all: Vec<Turns> = std::iter::repeat_with(Turns::default).take(2 + peers.len()).collect();
    // The first turn of each only warms up.
    for round in 0..=bench.rounds(100) {
        for place in 0..all.len() {
            let client = (place + round) % all.len();
            let adapter_ns = server.cpu_ns()?;
            let took = match client {
                0 => our_turn(&mut ours, &mut time)?,
                1 => turn(|| bare.cycle())?,
                peer => peers[peer - 2].turn()?,
            };
            if round > 0 {
                all[client].add(&took, (server.cpu_ns()? - adapter_ns) / TURN as f64);
            }
        }
    }
    let mut all = all.into_iter().map(Turns::medians);
    let Some((cycle, cpu, _)) = all.next() else { return Ok(()) };
    let name = format!("half_duplex_{}_{SERVOS}", kind.name);
    let names = std::iter::once(("bare_terminal", f64::INFINITY))
        .chain(kind.peers.iter().map(|(name, _, goal)| (*name, *goal)));
    for ((peer, goal), (their_cycle, their_cpu, _)) in names.zip(all) {
        bench.ratio(&format!("{name}_cycle_of_{peer}"), cycle / their_cycle, goal);
        bench.ratio(&format!("{name}_cpu_of_{peer}"), cpu / their_cpu, f64::INFINITY);
        bench.figure(&format!("{name}_{peer}_cycle"), their_cycle / 1e3, "us", f64::INFINITY);
        bench.figure(&format!("{name}_{peer}_cpu"), their_cpu / 1e3, "us", f64::INFINITY);
    }
    bench.figure(&format!("{name}_ours_cycle"), cycle / 1e3, "us", f64::INFINITY);
    bench.figure(&format!("{name}_ours_cpu"), cpu / 1e3, "us", f64::INFINITY);
    Ok(())
}

/// A terminal, the bytes of a cycle and where its answers go.
struct Bare {
    terminal: File,
    request: Vec<u8>,
    answers: Vec<u8>,
}

impl Bare {
    fn open(kind: &Kind, path: &str) -> Result<Self> {
        let ids: Vec<u8> = (1..=SERVOS as u8).collect();
        let mut request = Vec::new();
        for frame in (kind.request)(&ids).context("the request does not fit in packets")? {
            let mut bytes = [0; 256];
            let len = (kind.encode)(&frame, &mut bytes).context("the request does not fit in 256 bytes")?;
            request.extend_from_slice(&bytes[..len]);
        }
        let terminal = File::options().read(true).write(true).open(path)?;
        Ok(Self { terminal, request, answers: vec![0; (kind.bytes)(SERVOS).1] })
    }

    fn cycle(&mut self) -> Result<()> {
        self.terminal.write_all(&self.request)?;
        Ok(self.terminal.read_exact(&mut self.answers)?)
    }
}

fn our_turn(machine: &mut Machine, time: &mut khz_loop::time::RealTime) -> Result<Took> {
    turn(|| {
        let (_, result) = machine.cycle(time, DEADLINE_NS);
        ensure!(result.missed == 0, "our cycle missed {} answers", result.missed);
        Ok(())
    })
}

fn serve(kind: &Kind) -> Result<()> {
    let clients = 2 + kind.peers.len();
    let mut world = robot(kind, SERVOS * clients, &vec![emulated(kind); clients])?.world();
    for bus in &mut world.buses {
        bus.turnaround_ns = 0;
        if let WireKind::Rs485 { baud, .. } = &mut bus.wire {
            *baud = NO_WIRE;
        }
    }
    let mut server = Server::new(World::new(&world)?)?;
    server.endpoints().for_each(|path| println!("{}", path.display()));
    server.run(&AtomicBool::new(false), None)?;
    Ok(())
}
