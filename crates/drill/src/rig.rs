//! A machine on an emulated world that the drill can reach into.

use super::defect::{Defect, Sound};
use super::line::{Gate, Line, Shared, Switch, View};
use super::monitor::{Monitor, MonitorProbe, lock};
use super::wire_monitor::WireMonitor;
use khz_emu::World;
use khz_file::RobotConfig;
use khz_link::faults::{Fault, Faults};
use khz_link::{Link, LinkError, Received};
use khz_loop::console::Console;
use khz_loop::requests::Made;
use khz_loop::supervisor::Cause;
use khz_loop::tick::{Machine, TickTiming};
use khz_loop::time::{Time, VirtualTime};
use khz_loop::timing::Clock;
use khz_loop::{Controller, ready};
use khz_robot::assemble::{self, Links};
use khz_wire::Frame;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

/// The world and what was seen on its wires.
pub struct Stage {
    pub world: World,
    pub wire: WireMonitor,
    /// What each bus has for the host.
    inboxes: Vec<VecDeque<Received>>,
}

impl Stage {
    fn new(world: World, config: &RobotConfig) -> Self {
        Self {
            world,
            wire: WireMonitor::new(config),
            inboxes: vec![VecDeque::with_capacity(64); config.buses.len()],
        }
    }

    pub fn send(&mut self, bus: u8, frame: &Frame, now_ns: i64) -> Result<(), LinkError> {
        self.wire.sent(bus, frame, now_ns);
        self.world.send(bus, frame, now_ns)
    }

    pub fn receive(&mut self, bus: u8, now_ns: i64) -> Result<Option<Received>, LinkError> {
        while let Some(received) = self.world.receive(now_ns)? {
            self.wire.received(&received);
            self.inboxes[usize::from(received.channel)].push_back(received);
        }
        Ok(self.inboxes[usize::from(bus)].pop_front())
    }

    pub fn next_event_ns(&self, bus: u8) -> Option<i64> {
        let waiting = self.inboxes[usize::from(bus)].front().map(|received| received.at_ns);
        waiting.or_else(|| self.world.next_event_ns())
    }
}

/// What a machine under drill is put on.
pub struct Set<'a> {
    /// The devices.
    pub world: World,
    /// The robot file.
    pub config: &'a RobotConfig,
    /// The robot file the supervisor reads: the same, unless a defect is planted.
    pub supervised: &'a RobotConfig,
    /// Who watches the devices.
    pub monitor: Option<Arc<Mutex<Monitor>>>,
    /// The defect planted, or none.
    pub defect: &'a dyn Defect,
}

/// One machine under drill.
pub struct Rig {
    pub machine: Machine,
    /// Names of the servos.
    pub names: Vec<String>,
    /// Where people ask it to arm.
    console: Arc<Console>,
    stage: Arc<Mutex<Stage>>,
    switches: Vec<Shared>,
    time: VirtualTime,
    /// Every servo is ready to be driven; otherwise no program would begin.
    pub is_ready: bool,
    period_ns: i64,
    /// When its first tick was planned.
    first_ns: i64,
    planned_ns: i64,
}

impl Rig {
    /// The robot of `config`, with `faults` on its wires, from `time`'s zero on.
    pub fn new(
        config: &RobotConfig,
        controller: Box<dyn Controller>,
        faults: &[Fault],
        time: VirtualTime,
    ) -> Result<Self, khz_emu::ConfigError> {
        Ok(Self::on(
            Set { world: config.emulate()?, config, supervised: config, monitor: None, defect: &Sound },
            controller,
            faults,
            time,
        ))
    }

    /// A machine on a set.
    pub fn on(set: Set<'_>, controller: Box<dyn Controller>, faults: &[Fault], time: VirtualTime) -> Self {
        let Set { world, config, supervised, monitor, defect } = set;
        let stage = Arc::new(Mutex::new(Stage::new(world, config)));
        let view = |bus| -> Box<dyn Link> { Box::new(View::new(Arc::clone(&stage), bus as u8)) };
        let mut views: Vec<_> = (0..config.buses.len()).map(view).collect();
        let switches: Vec<Shared> =
            config.buses.iter().map(|_| Arc::new(Mutex::new(Switch::default()))).collect();
        let mut forgers = defect.forgers(switches.len()).into_iter();
        let mut line = |(bus, switch): (usize, &Shared)| -> Box<dyn Link> {
            let on_bus = |fault: &&Fault| fault.channel.is_none_or(|channel| usize::from(channel) == bus);
            let faults: Vec<Fault> =
                faults.iter().filter(on_bus).map(|fault| Fault { channel: None, ..*fault }).collect();
            let view = View::new(Arc::clone(&stage), bus as u8);
            let seed = config.emulation.seed.wrapping_add(bus as u64);
            let link = Faults::new(view, &faults, seed, assemble::replier(config, [(0, bus)]));
            let servos = config.servos_on(bus).map(|(index, servo)| (servo.id, index));
            let line = Line::new(link, Arc::clone(switch), servos, time.clone());
            Box::new(line.watched_by(monitor.clone()).forged_by(forgers.next()))
        };
        let links = Links {
            links: switches.iter().enumerate().map(&mut line).collect(),
            places: (0..config.buses.len()).map(|bus| (bus, 0)).collect(),
            imu: config.imu.iter().map(|_| 0).collect(),
        };
        let period_ns = config.timing.period_ns();
        let (mut cycle, state) = (assemble::cycle(config, &links), assemble::state(config));
        // Before the faults begin, and the monitor looks: those are of the run.
        let mut time = time;
        let settings = config.supervisor_settings();
        let is_ready = ready::make_ready(
            &mut views,
            &mut cycle,
            &settings,
            &mut time,
            &mut |_| {},
            &AtomicBool::new(false),
        )
        .is_ok();
        if let Some(monitor) = &monitor {
            lock(&stage).world.attach(Box::new(MonitorProbe(Arc::clone(monitor))));
        }
        let supervisor = assemble::supervisor(supervised);
        let bus_deadline_ns = config.timing.bus_deadline_ns();
        let mut machine = Machine::new(links.links, cycle, supervisor, controller, state, bus_deadline_ns);
        let console = Arc::new(Console::new(Clock::Virtual));
        machine.attend(Arc::clone(&console));
        let first_ns = time.now_ns() + period_ns;
        let names = config.servos.iter().map(|servo| servo.name.clone()).collect();
        let planned_ns = first_ns;
        Self { machine, names, console, stage, switches, time, is_ready, period_ns, first_ns, planned_ns }
    }

    /// One tick, `late_ns` after it was due.
    pub fn tick(&mut self, stop: Option<Cause>, late_ns: i64) -> TickTiming {
        self.time.wait_for_tick(self.planned_ns + late_ns);
        let timing = self.machine.tick(&mut self.time, self.planned_ns, stop);
        self.planned_ns += self.period_ns;
        let behind = (self.time.now_ns() - self.planned_ns).max(0) / self.period_ns;
        self.planned_ns += behind * self.period_ns;
        timing
    }

    /// A request to arm comes that was made then.
    pub fn ask_to_arm(&mut self, decided_ns: i64) {
        let now_ns = self.now_ns();
        // A refusal is reported to the operator, and a drill has none.
        let _ = self.console.arm_as(Made { decided_ns, phase: None }, now_ns);
    }

    /// The period of the last tick, from 0: those without a tick count, too, as they do for what happens on a bus.
    pub fn period(&self) -> u64 {
        ((self.planned_ns - self.first_ns) / self.period_ns - 1).max(0) as u64
    }

    /// Lets time pass without the host doing anything.
    pub fn freeze(&mut self, for_ns: i64) {
        let until_ns = self.now_ns() + for_ns;
        self.time.wait_for_tick(until_ns);
        self.stage().world.advance(until_ns);
        // The next tick is the first one planned after that.
        let passed_ns = (until_ns - self.planned_ns).max(0);
        self.planned_ns += (passed_ns + self.period_ns - 1) / self.period_ns * self.period_ns;
    }

    /// From now on `gate` decides about the commands on a bus.
    pub fn set_gate(&mut self, bus: usize, gate: Gate) {
        lock(&self.switches[bus]).gate = gate;
    }

    /// The bus carries frames again.
    pub fn open(&mut self, bus: usize) {
        lock(&self.switches[bus]).open();
    }

    /// From now on another host sends so many frames a second on a bus.
    pub fn flood(&mut self, bus: usize, hz: i64) {
        lock(&self.switches[bus]).flood_hz = hz;
    }

    /// The host is gone. What waits behind its links is delivered when the buses carry frames again, which is now.
    pub fn end_host(&mut self) {
        let now_ns = self.now_ns();
        for (bus, switch) in self.switches.iter().enumerate() {
            for kept in lock(switch).abandon() {
                // A queue that is full delivers no more.
                let _ = self.stage().send(bus as u8, &kept.frame, now_ns);
            }
        }
    }

    /// The present, ns since the start.
    pub fn now_ns(&mut self) -> i64 {
        self.time.now_ns()
    }

    /// World and wire.
    pub fn stage(&self) -> MutexGuard<'_, Stage> {
        lock(&self.stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_controllers::Hold;

    #[test]
    fn time_goes_on_however_short_a_freeze_is_compared_to_a_period() {
        let text = "[loop]\nrate_hz = 10\n[bus.main]\nlink = \"emulated\"\n\
                    [[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\nwatchdog_s = 0.25";
        let config = RobotConfig::parse(text, "test").unwrap();
        let mut rig = Rig::new(&config, Box::new(Hold::default()), &[], VirtualTime::new(0)).unwrap();
        // Making the servo ready took its time.
        let (ms, begin_ns) = (1_000_000, rig.now_ns());
        for (for_ns, next_ns) in [(5 * ms, 200 * ms), (100 * ms, 400 * ms), (250 * ms, 700 * ms)] {
            rig.tick(None, 0);
            let before_ns = rig.now_ns();
            rig.freeze(for_ns);
            assert_eq!(rig.now_ns(), before_ns + for_ns);
            assert_eq!(rig.planned_ns, begin_ns + next_ns, "after {for_ns} ns");
        }
    }
}
