//! Servos, link and cycle put together.

use crate::shared::Share;
use khz_emu::World;
use khz_link::Link;
use khz_link::faults::{Fault, Faults};
use khz_loop::ServoCommand;
use khz_loop::cycle::{Cycle, CyclePlan, CycleResult, DevicePlan};
use khz_loop::state::RobotState;
use khz_loop::time::{Time, VirtualTime};
use khz_servo::moteus::Settings;
use khz_servo::{Family, Mounting, ServoPlan, family};
use khz_wire::Frame;

/// Time between two cycles, ns. Long enough for 32 servos on one RS485 line.
pub const PERIOD_NS: i64 = 20_000_000;
/// Replies count until then, ns.
pub const DEADLINE_NS: i64 = 18_000_000;

/// A link opposite emulated servos, and the means to break things.
pub trait Stand {
    /// The host's link; asked once.
    fn link(&mut self) -> Box<dyn Link>;

    /// Works on the servos. Not while they are cut off.
    fn world(&mut self, work: &mut dyn FnMut(&mut World));

    /// Cuts the link off from the servos; how often a link of this kind has to report that it is down.
    fn cut(&mut self, now_ns: i64) -> u64;

    /// Joins them again. The servos may have booted afresh.
    fn repair(&mut self, now_ns: i64);

    /// The bus takes nothing, or takes everything again: the adapter stays, its queue is full.
    fn refuse(&mut self, refuses: bool, now_ns: i64);

    /// A call of the link has used the heap.
    fn heap_used(&self) -> bool;
}

/// Makes a stand with servos 1 to `n` on one bus, and a servo [`STRANGER`] that is in no plan.
pub type Build = dyn Fn(u8) -> Box<dyn Stand>;

/// A servo no plan knows.
pub const STRANGER: u8 = 99;

/// A stand, the cycle over it, and virtual time.
pub struct Rig {
    /// Servos and link.
    pub stand: Box<dyn Stand>,
    /// The link, also for frames outside the cycle.
    pub link: Share<Box<dyn Link>>,
    links: Vec<Box<dyn Link>>,
    cycle: Cycle,
    /// As of the last cycle.
    pub state: RobotState,
    /// What every servo gets in the next cycle.
    pub command: ServoCommand,
    time: VirtualTime,
    tick: i64,
}

impl Rig {
    /// With `n` servos, and a script of faults between link and cycle.
    pub fn new(build: &Build, n: u8, script: &[Fault]) -> Self {
        let mut stand = build(n);
        let faulty: Box<dyn Link> = Box::new(Faults::new(stand.link(), script, 1, replier));
        let link = Share::new(faulty);
        let devices: Vec<_> = (1..=n).map(device).collect();
        let state = RobotState::unknown(devices.len(), false, PERIOD_NS);
        let links: Vec<Box<dyn Link>> = vec![Box::new(link.clone())];
        let cycle = Cycle::new(CyclePlan { devices, ..CyclePlan::default() }, &links);
        Self {
            stand,
            link,
            links,
            cycle,
            state,
            command: ServoCommand::Stop,
            time: VirtualTime::new(0),
            tick: 0,
        }
    }

    /// The next cycle.
    pub fn tick(&mut self) -> CycleResult {
        let start_ns = self.tick * PERIOD_NS;
        self.tick += 1;
        self.time.wait_for_tick(start_ns);
        let commands = vec![self.command; self.state.servos.len()];
        self.cycle.receive(&mut self.links, start_ns);
        self.cycle.take_in(&mut self.state);
        self.cycle.begin(&commands, start_ns + DEADLINE_NS);
        self.cycle.send(&mut self.links, start_ns);
        loop {
            let now_ns = self.time.now_ns();
            self.cycle.receive(&mut self.links, now_ns);
            self.cycle.take_in(&mut self.state);
            if self.cycle.is_complete() || now_ns >= start_ns + DEADLINE_NS {
                break;
            }
            self.cycle.time_out(now_ns);
            self.cycle.send(&mut self.links, now_ns);
            let next_ns = self.cycle.next_ns(&self.links);
            self.time.pass(next_ns, &self.links);
        }
        self.cycle.end(&mut self.state)
    }

    /// The present.
    pub fn now_ns(&mut self) -> i64 {
        self.time.now_ns()
    }

    /// Which servos answered in the last cycle.
    pub fn fresh(&self) -> Vec<u8> {
        let servos = self.state.servos.iter().enumerate();
        servos.filter(|(_, servo)| servo.fresh).map(|(index, _)| index as u8 + 1).collect()
    }
}

/// As all links of the suite are configured.
pub fn replier(_: u8, frame: &Frame) -> Option<u8> {
    family::replier(frame)
}

fn device(id: u8) -> DevicePlan {
    DevicePlan {
        name: format!("servo_{id}"),
        link: 0,
        channel: 0,
        servo: ServoPlan {
            servo: 0,
            id,
            mounting: Mounting::default(),
            family: Family::Moteus(Settings::default()),
            watchdog_s: 0.1,
        },
        reply_timeout_ns: 1_000_000,
    }
}
