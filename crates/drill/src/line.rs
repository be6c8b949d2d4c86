//! One bus of the emulated robot as its machine sees it: with faults, with a queue that may stand still, and with a flood.

use super::defect::Forge;
use super::monitor::{Monitor, lock};
use super::rig::Stage;
use khz_link::faults::Faults;
use khz_link::{Capabilities, Counters, Imu, ImuSample, Link, LinkError, Received};
use khz_loop::time::VirtualTime;
use khz_wire::request::Kept;
use khz_wire::{Address, Frame, Request};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Frames the longest queue holds.
const HELD: usize = 1024;
/// Frames of a flood that wait to be read; more are lost.
const BACKLOG: i64 = 512;
/// What reading a frame of a flood takes, ns: so much that a fast flood leaves no time for anything else.
const READ_NS: i64 = 1_000;
/// Who floods, or keeps the time: no servo of the robot.
pub const FOREIGN: u32 = Address { prefix: 0, source: 0x7e, destination: 0x7d, reply: false }.id();

/// What happens to commands on this bus now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// They pass.
    #[default]
    Open,
    /// They vanish.
    Lost,
    /// The link keeps them until its next cycle begins.
    Link,
    /// A queue behind the link keeps so many and refuses more.
    Kernel(usize),
    /// A queue that keeps everything for ever, as links once did: only to prove that the campaign finds it.
    Endless,
}

/// The state of a bus, in the hands of the rig.
#[derive(Debug, Default)]
pub struct Switch {
    pub gate: Gate,
    /// Frames a second that come from another host.
    pub flood_hz: i64,
    held: VecDeque<Kept>,
    /// Where they are.
    held_in: Gate,
}

/// A switch and its bus.
pub type Shared = Arc<Mutex<Switch>>;

impl Switch {
    /// Opens the bus; what waits in a queue behind the link goes first.
    pub fn open(&mut self) {
        self.gate = Gate::Open;
    }

    /// The host is gone, and what its link held with it. What a queue behind the link still delivers.
    pub fn abandon(&mut self) -> VecDeque<Kept> {
        match self.held_in {
            Gate::Kernel(_) | Gate::Endless => std::mem::take(&mut self.held),
            Gate::Open | Gate::Lost | Gate::Link => VecDeque::new(),
        }
    }
}

/// One bus.
pub struct Line {
    link: Faults<View>,
    switch: Shared,
    monitor: Option<Arc<Mutex<Monitor>>>,
    /// Servo of the file by id.
    servos: Vec<Option<usize>>,
    /// When the newest frame of a flood came.
    flooded_ns: Option<i64>,
    forger: Option<Box<dyn Forge>>,
    time: VirtualTime,
}

impl Line {
    /// `servos`: ids on this bus and the servos of the file they belong to; `time` passes while frames of a flood are read.
    pub fn new(
        link: Faults<View>,
        switch: Shared,
        servos: impl Iterator<Item = (u8, usize)>,
        time: VirtualTime,
    ) -> Self {
        let mut by_id = vec![None; 128];
        servos.for_each(|(id, servo)| by_id[usize::from(id & 0x7f)] = Some(servo));
        lock(&switch).held.reserve(HELD);
        Self { link, switch, monitor: None, servos: by_id, flooded_ns: None, forger: None, time }
    }

    /// `monitor` sees what the host sends.
    pub fn watched_by(mut self, monitor: Option<Arc<Mutex<Monitor>>>) -> Self {
        self.monitor = monitor;
        self
    }

    /// With what a planted defect changes.
    pub fn forged_by(mut self, forger: Option<Box<dyn Forge>>) -> Self {
        self.forger = forger;
        self
    }

    fn made(&mut self, request: &Request<'_>, now_ns: i64) {
        // A broadcast may command all of them.
        let servos = match request.to {
            Some(id) => &self.servos[usize::from(id & 0x7f)..][..1],
            None => &self.servos[..],
        };
        if let Some(monitor) = &self.monitor {
            servos.iter().flatten().for_each(|servo| lock(monitor).made(*servo, request.frame, now_ns));
        }
        if let Some(forger) = &mut self.forger {
            forger.query(request.frame);
        }
    }

    /// Delivers what waited for the bus.
    fn release(&mut self, now_ns: i64) {
        let waiting = {
            let mut switch = lock(&self.switch);
            if switch.gate != Gate::Open || switch.held.is_empty() {
                return;
            }
            std::mem::take(&mut switch.held)
        };
        // What finds no room even now is lost.
        waiting.iter().for_each(|kept| _ = self.link.send(0, &kept.request(), now_ns));
        let _ = self.link.flush(now_ns);
    }

    /// The next frame of a flood, if one is due.
    fn flood(&mut self, now_ns: i64) -> Option<Received> {
        let hz = lock(&self.switch).flood_hz;
        if hz == 0 {
            return None;
        }
        let apart_ns = 1_000_000_000 / hz;
        // What is not read is lost in the end.
        let last_ns = self.flooded_ns.unwrap_or(now_ns).max(now_ns - BACKLOG * apart_ns);
        let at_ns = last_ns + apart_ns;
        self.flooded_ns = Some(if at_ns <= now_ns { at_ns } else { last_ns });
        let frame = Frame::new(FOREIGN, &[0x50; 8]).filter(|_| at_ns <= now_ns)?;
        Some(Received { channel: 0, at_ns, frame })
    }

    /// What has come, that of a flood first.
    fn next(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.release(now_ns);
        if let Some(foreign) = self.flood(now_ns) {
            self.time.elapse(READ_NS);
            return Ok(Some(foreign));
        }
        while let Some(received) = self.link.receive(now_ns)? {
            if let Some(received) = self.forge(received) {
                return Ok(Some(received));
            }
        }
        Ok(None)
    }

    /// The replies, as planted defects change them.
    fn forge(&mut self, received: Received) -> Option<Received> {
        match &mut self.forger {
            Some(forger) => forger.reply(received),
            None => Some(received),
        }
    }
}

impl Link for Line {
    fn capabilities(&self) -> Capabilities {
        self.link.capabilities()
    }

    fn half_duplex(&self, channel: u8) -> bool {
        self.link.half_duplex(channel)
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        let mut switch = lock(&self.switch);
        if switch.held_in == Gate::Link {
            switch.held.clear();
        }
        drop(switch);
        self.link.begin_cycle(now_ns);
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.release(now_ns);
        let frame = &self.forger.as_ref().map_or(*request.frame, |forger| forger.command(request.frame));
        let request = &Request { frame, ..*request };
        let mut switch = lock(&self.switch);
        let room = match switch.gate {
            Gate::Open => {
                drop(switch);
                let sent = self.link.send(channel, request, now_ns);
                sent.is_ok().then(|| self.made(request, now_ns));
                return sent;
            }
            Gate::Lost => return Ok(()),
            Gate::Link | Gate::Endless => HELD,
            Gate::Kernel(room) => room,
        };
        if switch.held.len() >= room {
            return Err(LinkError::Full);
        }
        switch.held.push_back(request.kept());
        switch.held_in = switch.gate;
        drop(switch);
        self.made(request, now_ns);
        Ok(())
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.link.flush(now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let bus = usize::from(self.link.inner().bus);
        if self.forger.as_mut().is_some_and(|forger| !forger.may_receive(bus)) {
            return Ok(None);
        }
        let received = self.next(now_ns);
        if let (Some(forger), Ok(Some(_))) = (&mut self.forger, &received) {
            forger.has_received();
        }
        received
    }

    fn next_event_ns(&self) -> Option<i64> {
        let hz = lock(&self.switch).flood_hz;
        let flood = (hz > 0).then(|| self.flooded_ns.map_or(0, |last_ns| last_ns + 1_000_000_000 / hz));
        [self.link.next_event_ns(), flood].into_iter().flatten().min()
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        self.link.imu()
    }

    fn counters(&self, channel: u8) -> Counters {
        self.link.counters(channel)
    }
}

/// One channel of the world.
pub struct View {
    stage: Arc<Mutex<Stage>>,
    bus: u8,
}

impl View {
    pub fn new(stage: Arc<Mutex<Stage>>, bus: u8) -> Self {
        Self { stage, bus }
    }
}

impl Link for View {
    fn capabilities(&self) -> Capabilities {
        let stage = lock(&self.stage);
        let half_duplex = stage.world.half_duplex(self.bus);
        Capabilities { channels: 1, half_duplex, ..stage.world.capabilities() }
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        lock(&self.stage).world.begin_cycle(now_ns);
    }

    fn send(&mut self, _: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        lock(&self.stage).send(self.bus, request.frame, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = lock(&self.stage).receive(self.bus, now_ns)?;
        Ok(received.map(|received| Received { channel: 0, ..received }))
    }

    fn next_event_ns(&self) -> Option<i64> {
        lock(&self.stage).next_event_ns(self.bus)
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        if self.bus == 0 { Some(self) } else { None }
    }

    fn counters(&self, _: u8) -> Counters {
        lock(&self.stage).world.counters(self.bus)
    }
}

impl Imu for View {
    fn request(&mut self, now_ns: i64) -> Result<(), LinkError> {
        lock(&self.stage).world.request(now_ns)
    }

    fn poll(&mut self, now_ns: i64) -> Result<Option<ImuSample>, LinkError> {
        lock(&self.stage).world.poll(now_ns)
    }
}
