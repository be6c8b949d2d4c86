//! A machine on an emulated world that the drill can reach into.

use super::spy::Spy;
use khz_emu::World;
use khz_link::faults::{Fault, Faults};
use khz_link::{Capabilities, Counters, Imu, ImuSample, Link, LinkError, Received};
use khz_robot::assemble::machine_on;
use khz_robot::supervisor::Cause;
use khz_robot::tick::{Machine, TickTiming};
use khz_robot::time::{Time, VirtualTime};
use khz_robot::{Controller, RobotConfig};
use khz_wire::Frame;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The world and what was seen on its wires.
pub struct Stage {
    pub world: World,
    pub spy: Spy,
}

/// One machine under drill.
pub struct Rig {
    pub machine: Machine,
    stage: Arc<Mutex<Stage>>,
    time: VirtualTime,
    period_ns: i64,
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
        let stage = Arc::new(Mutex::new(Stage { world: config.emulate()?, spy: Spy::new(config) }));
        let shared = Shared(Arc::clone(&stage));
        let link: Box<dyn Link> = Box::new(Faults::new(shared, faults, config.emulation.seed));
        let period_ns = config.timing.period_ns();
        let machine = machine_on(config, controller, link);
        Ok(Self { machine, stage, time, period_ns, planned_ns: period_ns })
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

    /// Lets time pass without the host doing anything.
    pub fn freeze(&mut self, for_ns: i64) {
        self.planned_ns += for_ns / self.period_ns * self.period_ns;
        let now_ns = self.planned_ns - self.period_ns;
        self.time.wait_for_tick(now_ns);
        self.stage().world.advance(now_ns);
    }

    /// The present, ns since the start.
    pub fn now_ns(&mut self) -> i64 {
        self.time.now_ns()
    }

    /// World and spy.
    pub fn stage(&self) -> MutexGuard<'_, Stage> {
        lock(&self.stage)
    }
}

/// A controller that panics does so outside the world's calls, so a poisoned lock still holds a sound world.
fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The world as the machine sees it.
struct Shared(Arc<Mutex<Stage>>);

impl Link for Shared {
    fn capabilities(&self) -> Capabilities {
        lock(&self.0).world.capabilities()
    }

    fn half_duplex(&self, channel: u8) -> bool {
        lock(&self.0).world.half_duplex(channel)
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        lock(&self.0).world.begin_cycle(now_ns);
    }

    fn send(&mut self, channel: u8, frame: &Frame, now_ns: i64) -> Result<(), LinkError> {
        let mut stage = lock(&self.0);
        stage.spy.sent(channel, frame, now_ns);
        stage.world.send(channel, frame, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let mut stage = lock(&self.0);
        let received = stage.world.receive(now_ns)?;
        if let Some(received) = &received {
            stage.spy.received(received);
        }
        Ok(received)
    }

    fn next_event_ns(&self) -> Option<i64> {
        lock(&self.0).world.next_event_ns()
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        Some(self)
    }

    fn counters(&self, channel: u8) -> Counters {
        lock(&self.0).world.counters(channel)
    }
}

impl Imu for Shared {
    fn request(&mut self, now_ns: i64) -> Result<(), LinkError> {
        lock(&self.0).world.request(now_ns)
    }

    fn poll(&mut self, now_ns: i64) -> Result<Option<ImuSample>, LinkError> {
        lock(&self.0).world.poll(now_ns)
    }
}
