//! Command and query of 1, 6 and 12 servos over a pty fdcanusb: ours, official Rust, official Python.
//!
//! One process serves the emulated servos, each client on its own terminal, so that none sees another's
//! lines. All send the same command (position and velocity as floats) and the official default query. The
//! official Rust client runs pipelined, as with a real adapter (*rust*), and one servo after the other, as its
//! plain loop does (*sequential*). The Python client decides for itself. Ours waits for replies asleep, like
//! the peers; spinning is printed too, and what CPU time the emulated adapter needs for each.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anyhow::{Result, ensure};
use khz_bench::Bench;
use khz_bench::machine::{Machine, plan, short_command};
use khz_bench::turns::{Python, Serving, TURN, Took, Turns, turn};
use khz_emu::serve::Server;
use khz_emu::{BusConfig, ServoConfig, World, WorldConfig};
use khz_file::config::{Format, QueryFormat};
use khz_link::fdcanusb::{Fdcanusb, FdcanusbLink};
use khz_loop::time::Receive;
use moteus::command::PositionCommand as PeerCommand;
use moteus::transport::fdcanusb::{FdcanusbDevice, FdcanusbOptions};
use moteus::transport::transaction::Request;
use moteus::{Controller, Router};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Terminals: ours, official Rust, official Python.
const CLIENTS: usize = 3;
const SERVOS: [usize; 3] = [1, 6, 12];
/// For all alike: a machine that does other things too may stall for long.
const DEADLINE_NS: i64 = 1_000_000_000;

fn main() -> Result<()> {
    if let Some(wire) = std::env::args().skip_while(|word| word != "--serve").nth(1) {
        return serve(&wire);
    }
    let bench = Bench::from_args();
    for wire in ["instant", "canfd"] {
        for servos in SERVOS {
            compare(&bench, wire, servos)?;
        }
    }
    Ok(())
}

fn compare(bench: &Bench, wire: &str, servos: usize) -> Result<()> {
    let server = Serving::start(&["--serve", wire], CLIENTS)?;
    let mut ours = Ours::open(&server.terminals[0], servos)?;
    let mut rust = Official::open(&server.terminals[1], servos)?;
    let mut python = Python::start(SCRIPT, &server.terminals[2], servos)?;
    let turns = bench.rounds(100);
    let mut all: [Turns; 5] = Default::default();
    // The first turn of each only warms up.
    for turn in 0..=turns {
        for place in 0..all.len() {
            let client = (place + turn) % all.len();
            let adapter_ns = server.cpu_ns()?;
            let took = match client {
                0 => ours.turn(Receive::Poll)?,
                1 => ours.turn(Receive::Spin)?,
                2 => rust.turn(Official::pipelined)?,
                3 => rust.turn(Official::sequential)?,
                _ => python.turn()?,
            };
            if turn > 0 {
                all[client].add(&took, (server.cpu_ns()? - adapter_ns) / TURN as f64);
            }
        }
    }
    let [ours, spinning, rust, sequential, python] = all.map(Turns::medians);
    let name = format!("bus_{wire}_{servos}");
    // The goals are for the host's own cost; what a wire adds is equal for all and only reported.
    let is_goal = wire == "instant" && servos == 12;
    let goal = |value| if is_goal { value } else { f64::INFINITY };
    for (what, ours, rust, python) in [("cycle", ours.0, rust.0, python.0), ("cpu", ours.1, rust.1, python.1)]
    {
        bench.ratio(&format!("{name}_{what}_of_rust"), ours / rust, goal(0.5));
        bench.ratio(&format!("{name}_{what}_of_python"), ours / python, goal(0.1));
    }
    let figures = [
        ("ours", ours),
        ("spinning", spinning),
        ("rust", rust),
        ("sequential", sequential),
        ("python", python),
    ];
    for (client, (cycle, cpu, adapter)) in figures {
        bench.figure(&format!("{name}_{client}_cycle"), cycle / 1e3, "us", f64::INFINITY);
        bench.figure(&format!("{name}_{client}_cpu"), cpu / 1e3, "us", f64::INFINITY);
        bench.figure(&format!("{name}_{client}_adapter_cpu"), adapter / 1e3, "us", f64::INFINITY);
    }
    Ok(())
}

/// Our cycle over our link.
struct Ours(Machine);

impl Ours {
    fn open(path: &str, servos: usize) -> Result<Self> {
        // Both speak plainly, as with a real adapter.
        let link = Fdcanusb::open(&FdcanusbLink { checksum: Some(false), ..FdcanusbLink::at(path) })?;
        let command = short_command(Format::Float);
        let plan = plan(servos as u8, 1, &command, &QueryFormat::default(), DEADLINE_NS);
        Ok(Self(Machine::new(Box::new(link), plan)))
    }

    fn turn(&mut self, receive: Receive) -> Result<Took> {
        let mut time = Machine::time(receive)?;
        turn(|| {
            let (_, result) = self.0.cycle(&mut time, DEADLINE_NS);
            ensure!(result.missed == 0, "our cycle missed {} replies", result.missed);
            Ok(())
        })
    }
}

/// The official Rust client.
struct Official {
    router: Router,
    controllers: Vec<Controller>,
}

impl Official {
    fn open(path: &str, servos: usize) -> Result<Self> {
        let mut port = serial2::SerialPort::open(path, 921_600)?;
        // Its own port layer waits this long at a time.
        port.set_read_timeout(Duration::from_millis(10))?;
        let options =
            FdcanusbOptions::new().timeout(Duration::from_secs(1)).uart_mode(false).checksum_enabled(false);
        let device = FdcanusbDevice::from_stream_with(port, &options);
        let controllers = (1..=servos as u8).map(Controller::new).collect();
        Ok(Self { router: Router::from_device(device), controllers })
    }

    fn turn(&mut self, once: fn(&mut Self) -> Result<()>) -> Result<Took> {
        turn(|| once(self))
    }

    fn request(controller: &Controller) -> Request {
        let command = PeerCommand::new().position(f32::NAN).velocity(0.0);
        Request::new(controller.make_position_command(&command, true).into_frame())
    }

    /// All frames first, then all replies, each read into its values.
    fn pipelined(&mut self) -> Result<()> {
        let mut requests: Vec<_> = self.controllers.iter().map(Self::request).collect();
        self.router.cycle(&mut requests)?;
        let replies = requests.iter().map(Self::read).sum::<usize>();
        ensure!(replies == self.controllers.len(), "the official client missed replies");
        Ok(())
    }

    fn sequential(&mut self) -> Result<()> {
        for controller in &self.controllers {
            let mut requests = [Self::request(controller)];
            self.router.cycle(&mut requests)?;
            ensure!(Self::read(&requests[0]) == 1, "the official client missed a reply");
        }
        Ok(())
    }

    fn read(request: &Request) -> usize {
        let replies = request.responses.take();
        let results = replies.iter().map(moteus::query::QueryResult::parse);
        results.map(std::hint::black_box).count()
    }
}

/// The official Python client.
const SCRIPT: &str = r#"
import asyncio, math, sys, time, moteus

async def main(path, servos, turn):
    transport = moteus.Transport([moteus.FdcanusbDevice(path)])
    controllers = [moteus.Controller(id=i + 1, transport=transport) for i in range(servos)]
    for _ in sys.stdin:
        took = []
        for _ in range(turn):
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            commands = [c.make_position(position=math.nan, velocity=0.0, query=True) for c in controllers]
            results = await transport.cycle(commands)
            took.append(f"{time.perf_counter_ns() - wall} {time.thread_time_ns() - cpu}")
            assert len(results) == servos, len(results)
        print(",".join(took), flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"#;

fn serve(wire: &str) -> Result<()> {
    let bus = if wire == "instant" { BusConfig::INSTANT } else { BusConfig::CAN_FD };
    let most = SERVOS[SERVOS.len() - 1];
    let servos = (0..CLIENTS).flat_map(|bus| (1..=most as u8).map(move |id| ServoConfig::new(bus, id)));
    let config =
        WorldConfig { buses: vec![bus; CLIENTS], servos: servos.collect(), ..WorldConfig::default() };
    let mut server = Server::new(World::new(&config)?)?;
    server.endpoints().for_each(|path| println!("{}", path.display()));
    server.run(&AtomicBool::new(false), None)?;
    Ok(())
}
