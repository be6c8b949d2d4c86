//! The emulated machine as a link.

use crate::body::{Body, Drive, JointState, Joints};
use crate::bus::{Arrival, Bus, NEVER, Sender, Transmission};
use crate::config::{BusConfig, JointConfig, ReceiveBuffers, WireKind};
use crate::family::{ServoConfig, switched_on};
use crate::hand::Hand;
use crate::imu::Sensor;
use crate::injection::Injection;
use crate::machine::{ConfigError, WorldConfig};
use crate::moteus::Servo;
use crate::noise::Noise;
use crate::pusher::Pusher;
use crate::tamper::Tamper;
use crate::twin::{STEP_NS, Twin};
use khz_link::{Capabilities, Counters, Imu, ImuSample, Link, LinkError, Received};
use khz_servo::Mounting;
use khz_wire::serial::Packets;
use khz_wire::{Address, Frame, Request};
use std::collections::VecDeque;

/// Replies kept for the host until it fetches them; then new ones are lost, as in an adapter.
const INBOX: usize = 1024;

/// An emulated machine: its buses are the channels of one link.
///
/// Time passes only in calls: each lets happen what is due by its `now_ns`, so the same calls at the same
/// times give the same bytes. The first call sets the machine's time zero.
///
/// # Realtime contract
/// As [`Link`]: after construction nothing here allocates, locks or makes a system call. A call costs about
/// as much as the virtual time that passed since the one before is long: one control step per servo and
/// [`STEP_NS`].
pub struct World {
    buses: Vec<Channel>,
    servos: Vec<Box<dyn Twin>>,
    /// Between each and its bus.
    tampers: Vec<Tamper>,
    /// How each is mounted: here the joint's angles meet the servo's, and nowhere else.
    mountings: Vec<Mounting>,
    /// Of each, the torque at the joint per torque that it believes to give.
    motor_constants: Vec<f64>,
    body: Box<dyn Body>,
    drives: Vec<Drive>,
    /// The joints as the servos see them.
    seen: Vec<JointState>,
    /// How far body and control loops have come.
    stepped_ns: Option<i64>,
    /// Nothing happens on a bus before this.
    quiet_until_ns: i64,
    inbox: VecDeque<Received>,
    imu: Option<Sensor>,
    observer: Option<ThreadMonitor>,
    /// External torque on each joint, N·m.
    pushes: Vec<f64>,
    /// Who swings which joint.
    hands: Vec<(usize, Hand)>,
    /// Who pushes which joint.
    pushers: Vec<(usize, Pusher)>,
    /// Steps so far.
    steps: u64,
    probe: Option<Box<dyn Probe>>,
    /// The host was informed that the body moves no more.
    is_failure_reported: bool,
}

/// Watches the machine from the devices' side of the wire: what the servos take, and what their joints do.
///
/// Called from within the world's methods, so it must not call the world, and should neither allocate nor wait.
pub trait Probe: Send {
    /// A servo has taken a frame of the host off its bus at `at_ns`.
    fn took(&mut self, servo: usize, frame: &Frame, at_ns: i64);

    /// Control loops and body have moved on by one [`STEP_NS`] to `at_ns`. `joints` are as the servos see them: the
    /// angle at the servo's output.
    fn stepped(&mut self, servos: &[Box<dyn Twin>], joints: &[JointState], at_ns: i64);
}

/// Sees every frame of the host that reaches the servos: bus, frame, time.
type ThreadMonitor = Box<dyn FnMut(u8, &Frame, i64) + Send>;

struct Channel {
    bus: Bus,
    /// Indices of its servos.
    servos: Vec<usize>,
    /// Of these, the ones that can send something unasked.
    speakers: Vec<usize>,
    counters: Counters,
    /// When the host has fetched all it has received.
    fetched_ns: i64,
}

impl World {
    /// A machine whose joints do not feel each other.
    ///
    /// # Errors
    /// [`ConfigError`] names the bus or servo that cannot be built, and why.
    pub fn new(config: &WorldConfig) -> Result<Self, ConfigError> {
        let joints = config.servos.iter().map(|servo| servo.joint).collect();
        Self::with_body(config, Box::new(Joints::new(joints)))
    }

    /// A machine whose servos move `body`, which has one joint per servo.
    ///
    /// # Errors
    /// As [`World::new`].
    ///
    /// # Panics
    /// If `body` has not exactly one joint per servo.
    pub fn with_body(config: &WorldConfig, body: Box<dyn Body>) -> Result<Self, ConfigError> {
        config.check()?;
        assert_eq!(body.joints().len(), config.servos.len(), "one joint per servo");
        let build = |(index, servo): (usize, &ServoConfig)| {
            // Each has its own noise.
            let seed = Noise::new(config.seed ^ (index as u64) << 32).bits();
            // The body knows where the joint is; a servo asked before its first step reports that.
            let joint = JointConfig { start: body.joints()[index].position, ..servo.joint };
            let servo = ServoConfig { joint, ..servo.clone() };
            switched_on(&servo, seed).map_err(|name| ConfigError::NoSuchSetting { servo: index, name })
        };
        let servos = config.servos.iter().enumerate().map(build).collect::<Result<Vec<_>, _>>()?;
        let hands = config.servos.iter().map(|servo| Hand::of(&servo.joint)).enumerate();
        let hands = hands.filter_map(|(joint, hand)| Some((joint, hand?))).collect();
        let pusher = |(joint, servo): (usize, &ServoConfig)| {
            Some((joint, Pusher::of(&servo.joint, config.seed ^ (joint as u64) << 48)?))
        };
        Ok(Self {
            buses: (0..config.buses.len()).map(|bus| Channel::new(config, bus, &servos)).collect(),
            servos,
            tampers: (0..)
                .zip(&config.servos)
                .map(|(n, servo)| Tamper::new(servo, config.seed ^ n << 16))
                .collect(),
            mountings: config.servos.iter().map(|servo| servo.mounting).collect(),
            motor_constants: config.servos.iter().map(|servo| servo.motor_constant).collect(),
            drives: vec![Drive::default(); config.servos.len()],
            seen: vec![JointState::default(); config.servos.len()],
            body,
            stepped_ns: None,
            quiet_until_ns: NEVER,
            inbox: VecDeque::with_capacity(INBOX),
            imu: config.imu.map(|imu| Sensor::new(imu, config.seed)),
            observer: None,
            pushes: vec![0.0; config.servos.len()],
            hands,
            pushers: config.servos.iter().enumerate().filter_map(pusher).collect(),
            steps: 0,
            probe: None,
            is_failure_reported: false,
        })
    }

    /// From now on `probe` is called for every frame a servo takes and for every step of the joints.
    pub fn attach(&mut self, probe: Box<dyn Probe>) {
        self.probe = Some(probe);
    }

    /// Lets everything happen that is due by `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: i64) {
        let stepped_ns = *self.stepped_ns.get_or_insert(now_ns);
        debug_assert!(stepped_ns <= now_ns + STEP_NS, "time runs backwards");
        if self.quiet_until_ns <= now_ns || stepped_ns + STEP_NS <= now_ns {
            self.quiet_until_ns = self.catch_up(now_ns);
        }
    }

    /// When the next thing happens on a bus after that.
    fn catch_up(&mut self, now_ns: i64) -> i64 {
        loop {
            let (next_ns, index) = self.next_bus();
            if self.step_to(next_ns.min(now_ns)) {
                // A servo has sent something: a bus may have something to do earlier now.
                continue;
            }
            if next_ns > now_ns {
                return next_ns;
            }
            if let Some((at_ns, Some(arrival))) = self.buses[index].bus.step(now_ns) {
                self.arrive(index, at_ns, &arrival);
            }
        }
    }

    /// A frame of the host for a bus. Every servo receives it, so it needs no destination.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub fn send(&mut self, channel: u8, frame: &Frame, now_ns: i64) -> Result<(), LinkError> {
        self.advance(now_ns);
        let channel = self.buses.get_mut(usize::from(channel)).ok_or(LinkError::Unsupported)?;
        if channel.bus.send(frame, now_ns) {
            channel.counters.sent += 1;
            self.quiet_until_ns = self.quiet_until_ns.min(channel.bus.next_ns());
            Ok(())
        } else {
            channel.counters.full += 1;
            Err(LinkError::Full)
        }
    }

    /// Puts a fault into a servo; without effect if there is no such servo.
    pub fn inject(&mut self, servo: usize, injection: Injection, now_ns: i64) {
        self.advance(now_ns);
        if let (Injection::Misbehave(misbehaviour), Some(tamper)) = (injection, self.tampers.get_mut(servo)) {
            tamper.set(misbehaviour);
        }
        if let Some(servo) = self.servos.get_mut(servo) {
            servo.inject(injection);
        }
    }

    /// Stalls a bus, or lets it go on: frames of the host wait before the wire, as they do without an acknowledgement
    /// them. Without effect if there is no such bus.
    pub fn stall(&mut self, bus: u8, is_stalled: bool, now_ns: i64) {
        self.advance(now_ns);
        if let Some(channel) = self.buses.get_mut(usize::from(bus)) {
            channel.bus.stall(is_stalled, now_ns);
            self.quiet_until_ns = now_ns;
        }
    }

    /// Shows every frame of the host that reaches the servos to `observer`: bus, frame and time, ns.
    pub fn watch(&mut self, observer: impl FnMut(u8, &Frame, i64) + Send + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// Has the IMU repeat its newest reading to the last bit, or read on.
    pub fn freeze_imu(&mut self, frozen: bool) {
        if let Some(imu) = &mut self.imu {
            imu.frozen = frozen;
        }
    }

    /// Takes the IMU away or gives it back.
    pub fn lose_imu(&mut self, gone: bool) {
        if let Some(imu) = &mut self.imu {
            imu.gone = gone;
        }
    }

    /// Sets a servo's supply voltage without load; without effect if there is no such servo.
    pub fn set_supply(&mut self, servo: usize, volts: f64, now_ns: i64) {
        self.advance(now_ns);
        if let Some(servo) = self.servos.get_mut(servo) {
            servo.set_supply(volts);
        }
    }

    /// Pushes a servo's joint from outside with this torque, N·m, until it is changed; without effect if there is no such
    /// servo.
    pub fn push(&mut self, servo: usize, torque: f64, now_ns: i64) {
        self.advance(now_ns);
        if let Some(push) = self.pushes.get_mut(servo) {
            *push = torque;
        }
    }

    /// Lets heat flow in all servos so many times as fast as everything else happens.
    pub fn set_heat_rate(&mut self, rate: f64, now_ns: i64) {
        self.advance(now_ns);
        self.servos.iter_mut().for_each(|servo| servo.set_heat_rate(rate));
    }

    /// The servos, in the order of the configuration, as of the last call with a time.
    pub fn servos(&self) -> &[Box<dyn Twin>] {
        &self.servos
    }

    /// A servo, if it is there and a moteus.
    pub fn moteus(&self, servo: usize) -> Option<&Servo> {
        self.servos.get(servo)?.as_any().downcast_ref()
    }

    /// What the servos move, as of the last call with a time.
    pub fn body(&self) -> &dyn Body {
        &*self.body
    }

    /// How a bus is set up, if there is one of this number.
    pub fn bus(&self, bus: u8) -> Option<&BusConfig> {
        self.buses.get(usize::from(bus)).map(|channel| channel.bus.config())
    }

    /// What the servos move, to be changed.
    pub fn body_mut(&mut self) -> &mut dyn Body {
        &mut *self.body
    }

    /// How long a bus was in use so far, ns: the frames' bits and the gaps the bus demands between them.
    /// The difference over a cycle, plus one turnaround (per query on RS485), is what the cycle cannot be
    /// faster than. 0 if there is no such bus.
    pub fn busy_ns(&self, bus: u8) -> i64 {
        self.buses.get(usize::from(bus)).map_or(0, |channel| channel.bus.busy_ns())
    }

    /// When and on which bus the next thing happens.
    fn next_bus(&self) -> (i64, usize) {
        let mut first = (NEVER, 0);
        for (index, channel) in self.buses.iter().enumerate() {
            let at_ns = channel.bus.next_ns();
            if at_ns < first.0 {
                first = (at_ns, index);
            }
        }
        first
    }

    fn arrive(&mut self, index: usize, at_ns: i64, arrival: &Arrival) {
        match arrival {
            Arrival::Garbage => self.buses[index].counters.corrupt += 1,
            Arrival::Frame(sent) => self.deliver(index, at_ns, sent),
        }
    }

    /// Everyone on the bus but the sender gets the frame.
    fn deliver(&mut self, index: usize, at_ns: i64, sent: &Transmission) {
        if let (Some(observer), Sender::Host) = (&mut self.observer, sent.sender) {
            observer(index as u8, &sent.frame, at_ns);
        }
        let channel = &mut self.buses[index];
        let wire = channel.bus.config().wire;
        for &servo in &channel.servos {
            if sent.sender == Sender::Servo(servo) {
                continue;
            }
            if let Some(probe) = &mut self.probe
                && sent.sender == Sender::Host
                && self.servos[servo].takes(&sent.frame)
            {
                probe.took(servo, &sent.frame, at_ns);
            }
            let (twin, tamper) = (&mut self.servos[servo], &mut self.tampers[servo]);
            let is_busy = matches!(wire, WireKind::Rs485 { packets: Packets::Moteus, .. })
                && channel.bus.is_replying(servo);
            let muted = is_busy.then(|| unanswered(&sent.frame));
            let request = muted.as_ref().unwrap_or(&sent.frame);
            if !tamper.is_off() {
                let received = tamper.received(request, &**twin);
                let Some(reply) = twin.answer(&received, wire) else { continue };
                let (sent, delay_ns) = (tamper.sent(&reply), twin.delay_ns() + tamper.delay_ns());
                for _ in 0..tamper.times() {
                    channel.counters.errors += u64::from(!channel.bus.reply(servo, &sent, at_ns, delay_ns));
                }
            } else if let Some(reply) = twin.answer(request, wire)
                && !channel.bus.reply(servo, &reply, at_ns, twin.delay_ns())
            {
                channel.counters.errors += 1;
            }
        }
        if sent.sender == Sender::Host {
            return;
        }
        if self.inbox.len() == INBOX || channel.overruns(at_ns) {
            channel.counters.errors += 1;
            return;
        }
        channel.counters.received += 1;
        self.inbox.push_back(Received { channel: index as u8, at_ns, frame: sent.frame });
    }

    /// What the servos and external pushes do to the joints in the next step.
    fn drive(&mut self, dt_s: f64) {
        let servos = self.servos.iter_mut().zip(&self.mountings).zip(&self.motor_constants);
        let joints = self.body.joints().iter().zip(&self.pushes).zip(&mut self.drives);
        for (((servo, mounting), constant), ((joint, push), drive)) in servos.zip(joints) {
            let Drive { torque, damping } = servo.step(mounted(*joint, mounting), dt_s);
            *drive = Drive { torque: mounting.sign * constant * torque + push, damping: constant * damping };
        }
        for (joint, hand) in &self.hands {
            let Drive { torque, damping } = hand.pull(self.body.joints()[*joint], self.steps as f64 * dt_s);
            self.drives[*joint].torque += torque;
            self.drives[*joint].damping += damping;
        }
        for (joint, pusher) in &mut self.pushers {
            self.drives[*joint].torque += pusher.torque(self.steps as f64 * dt_s);
        }
        self.steps += 1;
    }

    /// Body and control loops move on; true, and earlier, as soon as a servo has sent something unasked.
    fn step_to(&mut self, now_ns: i64) -> bool {
        while let Some(stepped_ns) = self.stepped_ns.filter(|stepped_ns| stepped_ns + STEP_NS <= now_ns) {
            self.stepped_ns = Some(stepped_ns + STEP_NS);
            let dt_s = STEP_NS as f64 * 1e-9;
            self.drive(dt_s);
            let steps = (dt_s / self.body.longest_step_s()).ceil().max(1.0);
            (0..steps as usize).for_each(|_| self.body.step(dt_s / steps, &self.drives));
            if let Some(probe) = &mut self.probe {
                for ((seen, joint), mounting) in
                    self.seen.iter_mut().zip(self.body.joints()).zip(&self.mountings)
                {
                    *seen = mounted(*joint, mounting);
                }
                probe.stepped(&self.servos, &self.seen, self.stepped_ns.unwrap_or(now_ns));
            }
            if self.speak(stepped_ns + STEP_NS) {
                return true;
            }
        }
        false
    }

    /// Passes what servos send unasked to their buses; returns whether there was something.
    fn speak(&mut self, now_ns: i64) -> bool {
        let mut spoken = false;
        for Channel { bus, speakers, counters, .. } in &mut self.buses {
            for &servo in &*speakers {
                while let Some(frame) = self.servos[servo].speak() {
                    spoken = true;
                    counters.errors += u64::from(!bus.queue(servo, &frame, now_ns));
                }
            }
        }
        spoken
    }

    /// Before this time, no servo of a bus sends anything unasked; [`NEVER`] if none does.
    fn unasked_ns(&self, channel: &Channel) -> i64 {
        let first_ns = channel.speakers.iter().filter_map(|&servo| self.servos[servo].unasked_ns()).min();
        match (first_ns, self.stepped_ns) {
            (Some(first_ns), Some(stepped_ns)) => channel.bus.earliest_ns(stepped_ns + first_ns),
            _ => NEVER,
        }
    }
}

/// A request as a serial server takes it that is still replying to an earlier one (mjlib's `write_outstanding_`).
fn unanswered(request: &Frame) -> Frame {
    let mut unanswered = *request;
    unanswered.id = Address { reply: false, ..Address::from_id(request.id) }.id();
    unanswered
}

/// A joint as the servo mounted on it sees it.
fn mounted(joint: JointState, mounting: &Mounting) -> JointState {
    JointState { position: mounting.to_servo(joint.position), velocity: mounting.sign * joint.velocity }
}

impl Channel {
    fn new(config: &WorldConfig, index: usize, twins: &[Box<dyn Twin>]) -> Self {
        let of_bus = |(servo, c): (usize, &ServoConfig)| (c.bus == index).then_some(servo);
        let servos: Vec<usize> = config.servos.iter().enumerate().filter_map(of_bus).collect();
        Self {
            bus: Bus::new(config.buses[index], servos.len()),
            speakers: servos.iter().copied().filter(|&servo| twins[servo].can_speak()).collect(),
            servos,
            counters: Counters::default(),
            fetched_ns: i64::MIN / 2,
        }
    }

    /// The host's controller has no buffer left for a frame that arrives now.
    fn overruns(&mut self, at_ns: i64) -> bool {
        let Some(ReceiveBuffers { frames, fetch_ns }) = self.bus.config().receive else { return false };
        let from_ns = self.fetched_ns.max(at_ns);
        let is_full = from_ns - at_ns > (i64::from(frames) - 1) * fetch_ns;
        if !is_full {
            self.fetched_ns = from_ns + fetch_ns;
        }
        is_full
    }

    fn is_half_duplex(&self) -> bool {
        matches!(self.bus.config().wire, WireKind::Rs485 { .. })
    }
}

impl Link for World {
    fn capabilities(&self) -> Capabilities {
        let queues = self.buses.iter().map(|channel| channel.bus.config().host_queue);
        Capabilities {
            kind: "emulated",
            channels: self.buses.len() as u8,
            half_duplex: self.buses.iter().any(Channel::is_half_duplex),
            in_flight: queues.min().unwrap_or(0),
            emulated: true,
        }
    }

    fn half_duplex(&self, channel: u8) -> bool {
        self.buses.get(usize::from(channel)).is_some_and(Channel::is_half_duplex)
    }

    /// Drops what waits before the wire.
    fn begin_cycle(&mut self, now_ns: i64) {
        self.advance(now_ns);
        for Channel { bus, counters, .. } in &mut self.buses {
            let dropped = bus.drop_waiting();
            counters.sent -= dropped;
            counters.expired += dropped;
        }
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        // What the servos would reply is no measurement any more.
        if self.body.failed().is_some() {
            return Err(LinkError::Down { errno: 0 });
        }
        self.send(channel, request.frame, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.advance(now_ns);
        if self.body.failed().is_some() && !self.is_failure_reported {
            self.is_failure_reported = true;
            return Err(LinkError::Down { errno: 0 });
        }
        Ok(self.inbox.pop_front())
    }

    fn next_event_ns(&self) -> Option<i64> {
        let waiting_ns = self.inbox.front().map_or(NEVER, |received| received.at_ns);
        let imu_ns = self.imu.as_ref().and_then(Sensor::ready_ns).unwrap_or(NEVER);
        let mut first_ns = waiting_ns.min(imu_ns);
        for channel in &self.buses {
            first_ns = first_ns.min(channel.bus.next_for_host_ns()).min(self.unasked_ns(channel));
        }
        (first_ns != NEVER).then_some(first_ns)
    }

    /// Why the body moves no more, if it does not.
    fn close(&mut self, now_ns: i64) -> Vec<String> {
        self.begin_cycle(now_ns);
        let why = self.body.failed();
        why.map(|why| format!("the simulated body moves no more: {why}")).into_iter().collect()
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        if self.imu.is_some() { Some(self) } else { None }
    }

    fn counters(&self, channel: u8) -> Counters {
        self.buses.get(usize::from(channel)).map_or_else(Counters::default, |channel| channel.counters)
    }
}

impl Imu for World {
    fn request(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.advance(now_ns);
        match &mut self.imu {
            Some(imu) if !imu.gone => {
                imu.request(now_ns);
                Ok(())
            }
            _ => Err(LinkError::Down { errno: 0 }),
        }
    }

    fn poll(&mut self, now_ns: i64) -> Result<Option<ImuSample>, LinkError> {
        self.advance(now_ns);
        let trunk = self.body.trunk();
        let Some(imu) = self.imu.as_mut().filter(|imu| !imu.gone) else {
            return Err(LinkError::Down { errno: 0 });
        };
        let ready = imu.ready_ns().filter(|&ready_ns| ready_ns <= now_ns);
        Ok(ready.map(|ready_ns| imu.take(trunk, ready_ns)))
    }
}
