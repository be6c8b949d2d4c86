//! A bus cycle by itself, without robot around it, in real time.

use anyhow::{Result, bail};
use khz_file::config::{CommandFormat, Format, QueryFormat, RobotConfig};
use khz_link::Link;
use khz_link::trace::Tap;
use khz_loop::cycle::{Cycle, CyclePlan, CycleResult, DevicePlan};
use khz_loop::state::RobotState;
use khz_loop::supervisor::SupervisorSettings;
use khz_loop::time::{RealTime, Receive, Time};
use khz_loop::{PositionCommand, ServoCommand, ready};
use khz_robot::assemble;
use khz_servo::Doing;
use khz_servo::moteus::Settings;
use khz_servo::{Family, Mounting, ServoPlan};
use khz_wire::Frame;
use std::sync::atomic::AtomicBool;

/// Position and velocity, nothing else: what the official clients send by default.
pub fn short_command(format: Format) -> CommandFormat {
    CommandFormat {
        position: format,
        velocity: format,
        torque: Format::None,
        kp_scale: Format::None,
        kd_scale: Format::None,
        max_torque: Format::None,
        watchdog: Format::None,
    }
}

/// Servos 1 to `count` on one link, dealt round to its first `buses` channels; a half-duplex bus waits for a reply
/// for `reply_timeout_ns`.
pub fn plan(
    count: u8,
    buses: u8,
    command: &CommandFormat,
    query: &QueryFormat,
    reply_timeout_ns: i64,
) -> CyclePlan {
    let device = |id: u8| DevicePlan {
        name: format!("servo_{id}"),
        link: 0,
        channel: (id - 1) % buses,
        servo: ServoPlan {
            servo: 0,
            id,
            mounting: Mounting::default(),
            family: Family::Moteus(Settings { command: command.clone(), query: query.clone() }),
            watchdog_s: f64::NAN,
        },
        reply_timeout_ns,
    };
    CyclePlan { devices: (1..=count).map(device).collect(), ..CyclePlan::default() }
}

/// Frames a trace of one cycle has room for.
pub const TRACED: usize = 256;

/// The frames that went over a traced link since they were last asked for, whichever way.
pub fn frames(tap: &mut Tap) -> impl Iterator<Item = Frame> {
    std::iter::from_fn(|| tap.take()).map(|traced| traced.item.frame)
}

/// Links, the cycle over them, and the machine's clock.
pub struct Machine {
    links: Vec<Box<dyn Link>>,
    cycle: Cycle,
    state: RobotState,
    commands: Vec<ServoCommand>,
}

impl Machine {
    /// One link, and what to do on it. Every servo is commanded to hold where it is.
    pub fn new(link: Box<dyn Link>, plan: CyclePlan) -> Self {
        let links = vec![link];
        let (servos, has_imu) = (plan.devices.len(), !plan.imu.is_empty());
        let cycle = Cycle::new(plan, &links);
        let hold =
            ServoCommand::Position(PositionCommand { position: f64::NAN, ..PositionCommand::hold(0.0) });
        Self { links, cycle, state: RobotState::unknown(servos, has_imu, 0), commands: vec![hold; servos] }
    }

    /// The links and servos of a robot file. Every servo is commanded to hold at 0, once it was started.
    ///
    /// # Errors
    /// A link that cannot be opened.
    pub fn of(config: &RobotConfig) -> Result<Self> {
        let links = assemble::open_links(config, |world| Box::new(world))?;
        let (cycle, state) = (assemble::cycle(config, &links), assemble::state(config));
        Ok(Self { links: links.links, cycle, state, commands: vec![ServoCommand::Stop; config.servos.len()] })
    }

    /// Makes the servos ready and runs cycles until all of them are on and do as commanded.
    ///
    /// # Errors
    /// A servo that does not get so far.
    pub fn start(&mut self, time: &mut RealTime, deadline_ns: i64) -> Result<()> {
        let settings = SupervisorSettings::default();
        ready::make_ready(
            &mut self.links,
            &mut self.cycle,
            &settings,
            time,
            &mut |_| {},
            &AtomicBool::new(false),
        )?;
        for _ in 0..1000 {
            self.cycle(time, deadline_ns);
            self.commands.fill(ServoCommand::Position(PositionCommand::hold(0.0)));
            if self.state.servos.iter().all(|servo| servo.doing == Doing::Following) {
                return Ok(());
            }
        }
        let doing: Vec<_> = self.state.servos.iter().map(|servo| (servo.doing, servo.fault.text)).collect();
        bail!("the servos do not start: {doing:?}")
    }

    /// A time that waits for replies so.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn time(receive: Receive) -> Result<RealTime> {
        Ok(RealTime::new(khz_rt::Waiter::new(khz_rt::Wake::Sleep)?, receive))
    }

    /// One cycle: how long it took, ns, and what came of it.
    pub fn cycle(&mut self, time: &mut RealTime, deadline_ns: i64) -> (i64, CycleResult) {
        let started_ns = time.now_ns();
        let last_look_ns = started_ns + deadline_ns - time.reserve_ns();
        self.cycle.begin(&self.commands, last_look_ns);
        self.cycle.send(&mut self.links, started_ns);
        let ended_ns = loop {
            let now_ns = time.now_ns();
            self.cycle.receive(&mut self.links, now_ns);
            self.cycle.receive_imu(&mut self.links, &mut self.state, now_ns);
            self.cycle.take_in(&mut self.state);
            if self.cycle.is_complete() || now_ns >= last_look_ns {
                break time.now_ns();
            }
            self.cycle.time_out(now_ns);
            self.cycle.send(&mut self.links, now_ns);
            let next_ns = self.cycle.next_ns(&self.links);
            time.pass(next_ns, &self.links);
        };
        (ended_ns - started_ns, self.cycle.end(&mut self.state))
    }
}
