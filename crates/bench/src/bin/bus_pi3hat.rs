//! The pi3hat cycle against the least its SPI allows: 12 servos on four buses and the attitude.
//!
//! In real time over the emulated hat, whose transfers cost 9 µs and 0.8 µs per byte, the address included; waiting
//! by spinning. The formats: position, velocity and feed-forward torque commanded as int16; position, velocity
//! and torque queried as int16, mode with them, voltage, temperature and fault as int8.
//!
//! Twice: over CAN buses that take no time (`spi`), compared to the least that the transfers take, which is one per
//! command and per reply, one status per six replies and processor, and one attitude; and over CAN-FD, on which the last
//! reply lands long after the last command was written, compared to the soonest that any order of asking can reach then,
//! found by trying all.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, ensure};
use khz_bench::machine::{Machine, TRACED, plan, short_command};
use khz_bench::{Bench, Samples};
use khz_emu::hat::Hat;
use khz_emu::{BusConfig, ImuConfig, ServoConfig, World, WorldConfig};
use khz_file::config::{CommandFormat, Format, QueryFormat};
use khz_link::Link;
use khz_link::pi3hat::{Options, Pi3hat};
use khz_link::trace::{Trace, Traced, Way};
use khz_loop::cycle::CyclePlan;
use khz_loop::time::Receive;
use khz_rt::now_ns;
use khz_wire::pi3hat::Attitude;
use khz_wire::time::SpiCost;
use khz_wire::{Address, Frame};

const SERVOS: u8 = 12;
const BUSES: u8 = 4;
/// Long enough for a machine that does other things too.
const DEADLINE_NS: i64 = 100_000_000;
/// Bytes of a status, and replies it reports.
const STATUS: usize = 6;

/// The one transfer a frame cannot do without.
fn transfer_ns(frame: &Frame) -> i64 {
    // A command has a size byte and a short identifier before its payload, a reply a size byte and a long one.
    let head = if Address::from_id(frame.id).reply { 3 } else { 5 };
    let mut frame = *frame;
    frame.pad();
    SpiCost::PI3HAT.transaction_with_ns(head + frame.payload().len())
}

/// The soonest a cycle can end that has written all commands, as the official library does, before it asks.
struct Soonest {
    /// When the replies of each processor land in it, since the cycle's start.
    landing_ns: [Vec<i64>; 2],
    status_ns: i64,
    reply_ns: i64,
    attitude_ns: i64,
    ns: i64,
}

impl Soonest {
    /// Of the commands of a cycle, sent to devices as these.
    fn of(config: &WorldConfig, commands: &[Traced], reply: &Frame) -> Result<Self> {
        let mut world = World::new(config)?;
        // A round is one command for each of JC1, JC3, JC2, JC4.
        let place = |channel: u8| [0, 2, 1, 3][usize::from(channel)];
        let mut rounds = [0; BUSES as usize];
        let mut order: Vec<_> = commands.iter().map(|it| it.item).collect();
        order.sort_by_cached_key(|it| {
            let round = &mut rounds[usize::from(it.channel)];
            *round += 1;
            (*round, place(it.channel))
        });
        let mut at_ns = 0;
        for item in &order {
            at_ns += transfer_ns(&item.frame);
            world.send(item.channel, &item.frame, at_ns)?;
        }
        let mut landing_ns = [Vec::new(), Vec::new()];
        while let Some(received) = world.receive(DEADLINE_NS)? {
            landing_ns[usize::from(received.channel / 2)].push(received.at_ns);
        }
        let mut soonest = Self {
            landing_ns,
            status_ns: SpiCost::PI3HAT.transaction_with_ns(STATUS),
            reply_ns: transfer_ns(reply),
            attitude_ns: SpiCost::PI3HAT.transaction_with_ns(Attitude::SHORT),
            ns: i64::MAX,
        };
        soonest.search(at_ns, [0; 2], false);
        Ok(soonest)
    }

    /// Tries everything that can be done from `at_ns` on with these replies fetched: the attitude, or a status at once or
    /// as soon as one more reply has arrived, and all that it announces.
    fn search(&mut self, at_ns: i64, fetched: [usize; 2], has_attitude: bool) {
        let left = |p: usize| self.landing_ns[p].len() - fetched[p];
        let attitude_ns = if has_attitude { 0 } else { self.attitude_ns };
        let work_ns =
            (0..2).map(|p| left(p) as i64 * self.reply_ns + i64::from(left(p) > 0) * self.status_ns);
        let end_ns = at_ns + attitude_ns + work_ns.sum::<i64>();
        if end_ns >= self.ns {
            return;
        }
        if has_attitude && left(0) + left(1) == 0 {
            self.ns = end_ns;
            return;
        }
        if !has_attitude {
            self.search(at_ns + attitude_ns, fetched, true);
        }
        for p in 0..2 {
            for one_more in fetched[p]..self.landing_ns[p].len() {
                let asked_ns = self.landing_ns[p][one_more].max(at_ns);
                let there = self.landing_ns[p].partition_point(|&landing_ns| landing_ns <= asked_ns);
                let mut then = fetched;
                then[p] = there.min(fetched[p] + 6);
                let took_ns = self.status_ns + (then[p] - fetched[p]) as i64 * self.reply_ns;
                self.search(asked_ns + took_ns, then, has_attitude);
            }
        }
    }
}

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let spi = Cycles::run(&bench, BusConfig::INSTANT)?;
    bench.ratio("bus_pi3hat_spi_cycle_to_least_p50", spi.to_least.median(), 1.05);
    bench.ratio("bus_pi3hat_spi_cycle_to_least_p99", spi.to_least.percentile(99.0), f64::INFINITY);
    bench.figure("bus_pi3hat_spi_cycle_p50", spi.us.median(), "us", 740.0);
    bench.figure("bus_pi3hat_least", spi.us.median() / spi.to_least.median(), "us", f64::INFINITY);
    let canfd = Cycles::run(&bench, BusConfig::CAN_FD)?;
    bench.ratio("bus_pi3hat_canfd_cycle_to_soonest_p50", canfd.us.median() / canfd.soonest_us, 1.05);
    bench.ratio("bus_pi3hat_canfd_cycle_to_least_p50", canfd.to_least.median(), 1.05);
    bench.figure("bus_pi3hat_canfd_cycle_p50", canfd.us.median(), "us", 740.0);
    bench.figure("bus_pi3hat_canfd_cycle_p99", canfd.us.percentile(99.0), "us", f64::INFINITY);
    bench.figure("bus_pi3hat_canfd_soonest", canfd.soonest_us, "us", f64::INFINITY);
    Ok(())
}

/// What cycles took.
struct Cycles {
    us: Samples,
    to_least: Samples,
    soonest_us: f64,
}

impl Cycles {
    /// Over buses of this kind.
    fn run(bench: &Bench, bus: BusConfig) -> Result<Self> {
        let servos = (1..=SERVOS).map(|id| ServoConfig::new(usize::from((id - 1) % BUSES), id)).collect();
        let imu = Some(ImuConfig::default());
        let config = WorldConfig { buses: vec![bus; 5], servos, imu, ..WorldConfig::default() };
        let hat = Hat::new(World::new(&config)?, 4);
        // As `khz run` sets it: at the hat's own 400 Hz every other cycle would wait for a reading.
        let mut options = Options::default();
        options.imu.rate_hz = 1000;
        let link = Pi3hat::open(hat, &options, |_, frame| Address::replier(frame), now_ns())?;
        let (link, mut tap) = Trace::new(link, TRACED);
        let short = Format::Int16;
        let command = CommandFormat { torque: short, ..short_command(short) };
        let query = QueryFormat { position: short, velocity: short, torque: short, ..QueryFormat::default() };
        let plan = CyclePlan { imu: vec![0], ..plan(SERVOS, BUSES, &command, &query, DEADLINE_NS) };
        let mut machine = Machine::new(Box::new(link), plan);
        let mut time = Machine::time(Receive::Spin)?;

        // Two processors with six servos each.
        let others_ns = 2 * SpiCost::PI3HAT.transaction_with_ns(STATUS)
            + SpiCost::PI3HAT.transaction_with_ns(Attitude::SHORT);
        let (mut to_least, mut us, mut missed, mut traced) = (Vec::new(), Vec::new(), 0, Vec::new());
        for _ in 0..bench.rounds(1000) {
            let (took_ns, result) = machine.cycle(&mut time, DEADLINE_NS);
            missed += result.missed + u16::from(result.imu_missed);
            traced = std::iter::from_fn(|| tap.take()).collect();
            let transfers_ns: i64 = traced.iter().map(|traced| transfer_ns(&traced.item.frame)).sum();
            to_least.push(took_ns as f64 / (transfers_ns + others_ns) as f64);
            us.push(took_ns as f64 / 1e3);
            // The hat samples its IMU a thousand times a second.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        ensure!(tap.lost() == 0, "a trace of {TRACED} frames is too short for a cycle");
        ensure!(missed == 0, "{missed} replies or attitudes missed: too much else is going on");
        let (commands, replies): (Vec<Traced>, Vec<Traced>) =
            traced.iter().partition(|traced| traced.way == Way::Sent);
        let reply = replies.first().context("no reply")?.item.frame;
        let soonest_us = Soonest::of(&config, &commands, &reply)?.ns as f64 / 1e3;
        Ok(Self { us: Samples::new(us), to_least: Samples::new(to_least), soonest_us })
    }
}
