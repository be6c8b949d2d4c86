//! Runs ticks of emulated robots in virtual time for callgrind: `instructions [ROW…]`, all rows if none is named.
//!
//! Prints each row's name. [`counted`] is what is counted; before and after a row's ticks [`boundary`] is called, for a dump. What the
//! methods of [`Apart`] and [`Users`] take within is that of the emulated devices and of the user's part. `cargo xtask bench instructions`
//! reads the dumps.
#![allow(clippy::print_stdout)]

use khz_file::config::RobotConfig;
use khz_link::{Imu, ImuSample, Link, LinkError, Received, Request};
use khz_loop::console::Console;
use khz_loop::controller::Controller;
use khz_loop::parameters::{Intake, LiveParameters, Parameter};
use khz_loop::run::{Observer, RunStats, Tick, recorded};
use khz_loop::state::RobotState;
use khz_loop::supervisor::Phase;
use khz_loop::tick::{Machine, TickTiming};
use khz_loop::time::{Time, VirtualTime};
use khz_loop::timing::Clock;
use khz_loop::{ControlError, ServoCommand};
use khz_robot::assemble;
use khz_robot::recorder::{Recorder, RecorderBuilder};
use khz_robot::records::RunLog;
use khz_rt::Disturbance;
use khz_run::record;
use khz_run::tally::Pace;
use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;

/// Ticks of a row that are counted.
const COUNTED: u32 = 50;
/// Ticks under control before them.
const BEFORE: u32 = 10;
/// Ticks in which a robot must have come under control.
const START: u32 = 5_000;

/// Servos of a bus.
const PER_BUS: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for row in rows().iter().filter(|row| wanted.is_empty() || wanted.contains(&row.name())) {
        println!("{}", row.name());
        Bench::new(row)?.run()?;
    }
    Ok(())
}

/// What runs besides the cycle, the supervisor and the statistics of every run.
#[derive(Clone, Copy, Default)]
struct With {
    recorder: bool,
    /// A viewer's console, and parameters that it may change.
    viewer: bool,
}

/// A robot that is counted.
struct Row {
    /// `quadruped` is the robot of `khz run`; others are made up.
    robot: &'static str,
    servos: u32,
    with: With,
}

/// Every row of the table.
fn rows() -> Vec<Row> {
    const BARE: With = With { recorder: false, viewer: false };
    const RECORDED: With = With { recorder: true, ..BARE };
    let mut rows = vec![Row { robot: "quadruped", servos: 12, with: RECORDED }];
    for robot in ["moteus", "damiao", "robstride", "cubemars"] {
        rows.extend([1, 12, 24, 96].map(|servos| Row { robot, servos, with: RECORDED }));
    }
    let of_twelve = [BARE, With { viewer: true, ..BARE }, With { viewer: true, ..RECORDED }];
    rows.extend(of_twelve.map(|with| Row { robot: "moteus", servos: 12, with }));
    rows
}

impl Row {
    fn name(&self) -> String {
        let With { recorder, viewer } = self.with;
        let marks = [(recorder, "recorder"), (viewer, "viewer")];
        let marks = marks.iter().filter(|(is_on, _)| *is_on).map(|(_, mark)| format!("+{mark}"));
        format!("{}-{}{}", self.robot, self.servos, marks.collect::<String>())
    }

    fn config(&self) -> Result<RobotConfig, Box<dyn Error>> {
        match self.robot {
            "quadruped" => Ok(RobotConfig::quadruped()),
            _ => Ok(RobotConfig::parse(&self.text()?, "row.toml")?),
        }
    }

    /// Servos with three on a bus, an IMU, and every joint on the move.
    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = "[loop]\nbus_deadline_us = 980\n[imu]\nlink = \"emulated\"\n".to_owned();
        text.push_str("[controller]\nname = \"sine\"\n");
        for bus in 0..self.servos.div_ceil(PER_BUS) {
            write!(text, "[bus.b{bus}]\nlink = \"emulated\"\nturnaround_us = 50\n")?;
        }
        for servo in 0..self.servos {
            let (bus, id) = (servo / PER_BUS, servo % PER_BUS + 1);
            write!(text, "[[servo]]\nname = \"s{servo}\"\nbus = \"b{bus}\"\nid = {id}\n")?;
            text.push_str(self.family());
            text.push_str("limits = { position = [-1.5, 1.5], velocity = 3.0 }\n");
        }
        Ok(text)
    }

    fn family(&self) -> &'static str {
        match self.robot {
            "damiao" => "family = \"damiao\"\ndamiao = { model = \"4310\" }\n",
            "robstride" => "family = \"robstride\"\nrobstride = { model = \"RS02\" }\n",
            "cubemars" => {
                "family = \"cubemars\"\ncubemars = { model = \"AK80-9\", unwatched = true, reply_id = 0 }\n"
            }
            _ => "command = { velocity = \"int16\", torque = \"int16\", watchdog = \"int8\" }\n",
        }
    }
}

/// A machine, and what observes its ticks.
struct Bench {
    machine: Machine,
    time: VirtualTime,
    stats: RunStats,
    log: Option<(RunLog, Recorder)>,
    /// Held, so that changes could be made.
    _viewer: Option<(LiveParameters, Arc<Console>)>,
    planned_ns: i64,
    period_ns: i64,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(row: &Row) -> Result<Self, Box<dyn Error>> {
        let (mut config, folder) = (row.config()?, tempfile::tempdir()?);
        config.log.path = folder.path().join("run.tlog").display().to_string();
        let links = assemble::open_links(&config, |world| Box::new(Apart(Box::new(world))))?;
        let controller = Box::new(Users(assemble::controller(&config.controller)));
        let parameters = controller.parameters();
        let mut machine = assemble::put_together(&config, controller, links);
        machine.forgive_hold_ups();
        let mut time = VirtualTime::new(0);
        machine.make_ready(&mut time)?;
        let period_ns = config.timing.period_ns();
        Ok(Self {
            log: row.with.recorder.then(|| recorder(&config, &parameters)).transpose()?,
            _viewer: row.with.viewer.then(|| view(&mut machine, parameters)),
            machine,
            planned_ns: time.now_ns() + period_ns,
            time,
            stats: RunStats::new(100_000),
            period_ns,
            _folder: folder,
        })
    }

    fn run(mut self) -> Result<(), Box<dyn Error>> {
        let mut starting = 0;
        while self.machine.phase() != Phase::Active {
            starting += 1;
            if starting > START {
                return Err(format!("not under control, but {:?}", self.machine.transitions()).into());
            }
            self.step(Self::tick);
        }
        (0..BEFORE).for_each(|_| self.step(Self::tick));
        boundary();
        (0..COUNTED).for_each(|_| self.step(counted));
        boundary();
        if self.machine.phase() != Phase::Active {
            return Err(format!("it came down: {:?}", self.stats.transitions).into());
        }
        if let Some((log, recorder)) = self.log {
            drop(log);
            recorder.finish();
        }
        Ok(())
    }

    fn step(&mut self, tick: impl FnOnce(&mut Self)) {
        self.time.wait_for_tick(self.planned_ns);
        tick(self);
        self.planned_ns += self.period_ns;
    }

    /// A tick, and what a run does with it.
    fn tick(&mut self) {
        let (number, started_ns) = (self.machine.state().tick, self.time.now_ns());
        let timing =
            self.machine.tick_started(&mut self.time, TickTiming::at(self.planned_ns, started_ns), None);
        let tick = Tick {
            record: record::Tick { number, ..recorded(&timing, &Disturbance::default(), 0, &self.machine) },
            pace: Pace { period_ns: self.period_ns, by_sensor: false },
            early_frames: 0,
            machine: &self.machine,
        };
        self.stats.tick(&tick);
        if let Some((log, _)) = &mut self.log {
            log.tick(&tick);
        }
    }
}

fn recorder(config: &RobotConfig, parameters: &[Parameter]) -> Result<(RunLog, Recorder), Box<dyn Error>> {
    let mut builder = RecorderBuilder::new(config.log.clone()).virtual_time(0);
    let log = RunLog::declare(&mut builder, config)?.with_parameters(parameters);
    Ok((log, builder.start()?))
}

fn view(machine: &mut Machine, parameters: Vec<Parameter>) -> (LiveParameters, Arc<Console>) {
    let console = Arc::new(Console::new(Clock::Virtual));
    machine.attend(Arc::clone(&console));
    let (intake, parameters) = Intake::new(parameters, Clock::Virtual);
    machine.tune(intake);
    (parameters, console)
}

/// What is counted.
#[inline(never)]
fn counted(bench: &mut Bench) {
    bench.tick();
    returned();
}

/// Before and after what is counted of a row.
#[inline(never)]
fn boundary() {
    returned();
}

/// A call after which more follows, so that it is no tail call.
fn call<T>(call: impl FnOnce() -> T) -> T {
    let outcome = call();
    returned();
    outcome
}

/// Prevents a tail call, in which the callee replaces its caller: callgrind could not distinguish that from a return.
fn returned() {
    std::hint::black_box(0_u8);
}

/// The emulated devices. What its methods take is counted as theirs, their own few instructions too: the loop calls a link as it calls these.
struct Apart(Box<dyn Link>);

impl Link for Apart {
    khz_link::forward_link!(it => it.0; capabilities, half_duplex, fd, about, close, counters);

    fn begin_cycle(&mut self, now_ns: i64) {
        call(|| self.0.begin_cycle(now_ns));
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        call(|| self.0.send(channel, request, now_ns))
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        call(|| self.0.flush(now_ns))
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        call(|| self.0.receive(now_ns))
    }

    fn next_event_ns(&self) -> Option<i64> {
        call(|| self.0.next_event_ns())
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        call(|| self.0.imu()).is_some().then_some(self)
    }
}

impl Imu for Apart {
    fn request(&mut self, now_ns: i64) -> Result<(), LinkError> {
        call(|| self.0.imu().map_or(Err(LinkError::Unsupported), |imu| imu.request(now_ns)))
    }

    fn poll(&mut self, now_ns: i64) -> Result<Option<ImuSample>, LinkError> {
        call(|| self.0.imu().map_or(Err(LinkError::Unsupported), |imu| imu.poll(now_ns)))
    }
}

/// The controller, counted apart as [`Apart`] is.
struct Users(Box<dyn Controller>);

impl Controller for Users {
    fn parameters(&self) -> Vec<Parameter> {
        self.0.parameters()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.0.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        call(|| self.0.update(state, commands))
    }
}
