//! The pi3hat: five CAN-FD buses and an IMU behind three processors on the Raspberry Pi's SPI.
//!
//! The order of a cycle is the article's: every frame is written round robin over the buses 1, 3, 5, 2, 4, the
//! attitude is read while the replies travel, then the processors are asked for replies until every device that
//! was queried has answered. Facts from mjbots/pi3hat `lib/cpp/mjbots/pi3hat/pi3hat.cc` and `fw/can_bridge.h`.

mod awaited;
mod settings;
mod spidev;

use crate::{Capabilities, Counters, Imu, ImuSample, Link, LinkError, OpenError, Received, Replier, unit};
use awaited::Awaited;
use khz_wire::pi3hat::{
    Attitude, CanConfig, DeviceInfo, ErrorStatus, IMU_VERSION, ImuConfig, MAX_BLOB, Performance,
    decode_receive_status, decode_received, encode_send, register,
};
use khz_wire::request::Kept;
use khz_wire::{Frame, Request};
pub use settings::{Pi3hatConfig, Pi3hatLink};
pub use spidev::Spidev;
use std::collections::VecDeque;

/// One of the hat's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// JC1 and JC2.
    Can1,
    /// JC3 and JC4.
    Can2,
    /// JC5 and the IMU.
    Aux,
}

/// What reaches the processors: the kernel's SPI driver, or an emulated hat.
pub trait Spi: Send {
    /// Reads the first bytes of a register; returns when it was done, which may lie ahead of `now_ns` only for
    /// emulated hats.
    ///
    /// # Errors
    /// [`LinkError::Down`] if the bus refuses.
    fn read(&mut self, of: Processor, register: u8, into: &mut [u8], now_ns: i64) -> Result<i64, LinkError>;

    /// Writes a register; returns when it was done.
    ///
    /// # Errors
    /// As [`Spi::read`].
    fn write(&mut self, to: Processor, register: u8, bytes: &[u8], now_ns: i64) -> Result<i64, LinkError>;

    /// Lets the hat digest a new configuration; returns when. Only while opening.
    fn settle(&mut self, ns: i64, now_ns: i64) -> i64;
}

/// How to set the hat up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Each bus, JC1 to JC5.
    pub can: [CanConfig; 5],
    /// Mounting angles and rate of the IMU.
    pub imu: ImuConfig,
}

impl Default for Options {
    fn default() -> Self {
        Self { can: [CanConfig::HOST_DEFAULT; 5], imu: ImuConfig::HOST_DEFAULT }
    }
}

/// Order in which a round of frames leaves (channel numbers).
const ORDER: [usize; 5] = [0, 2, 4, 1, 3];

/// Frames a processor queues.
const QUEUE: usize = 32;

/// A sample that was not there is asked for again after this, ns.
const AGAIN_NS: i64 = 50_000;

/// Pause before a processor that owes nothing is looked into, ns. It doubles while there is nothing, to 16 times this.
const LOOK_NS: i64 = 20_000;

/// This many calls of [`Link::receive`] at different times, with no reply outstanding, are those of a host that waits: one that
/// has what it asked for calls once to learn that there is no more, and once before its next burst.
const WAITING: u8 = 3;

/// A pi3hat: one link, channels 0 to 4 for JC1 to JC5.
///
/// The hat does not report when a frame arrived, and each look costs a transfer. So only processors that owe replies are
/// asked, until every device that was queried has answered; frames of others do not count. A host that calls
/// [`Link::receive`] again and again beyond that receives what else there is: answers to a broadcast, frames without a
/// query, a reply kept behind one that came twice.
///
/// # Realtime contract
/// As [`Link`], but SPI is synchronous: [`Link::flush`] takes about 9 µs and 0.8 µs per byte for each frame,
/// [`Link::receive`] as much for one status and at most six frames, [`Imu::request`] about 45 µs.
pub struct Pi3hat<S> {
    spi: S,
    out: [VecDeque<Kept>; 5],
    received: VecDeque<Received>,
    awaited: Awaited,
    replier: Replier,
    looks: Looks,
    /// The processor asked next.
    turn: usize,
    /// When the last transfer ended.
    free_ns: i64,
    sample: Option<ImuSample>,
    imu_again_ns: Option<i64>,
    counters: [Counters; 5],
    is_down: bool,
}

/// Looks for frames no query asked for.
#[derive(Default)]
struct Looks {
    /// Calls of [`Link::receive`] since nothing is outstanding, at different times, and the last of them.
    calls: u8,
    called_ns: i64,
    /// Looks since the last frame, and when the last was.
    in_vain: u32,
    looked_ns: i64,
}

impl Looks {
    /// When to look next, if the last transfer ended at `free_ns`. Each pause is good for one look at each processor.
    fn next_ns(&self, free_ns: i64) -> i64 {
        free_ns.max(self.looked_ns) + (LOOK_NS << (self.in_vain / 3).min(4))
    }

    /// The host calls and nothing is outstanding; true if it is time to look.
    fn begin(&mut self, free_ns: i64, now_ns: i64) -> bool {
        if self.calls == 0 || self.called_ns != now_ns {
            self.calls = self.calls.saturating_add(1);
            self.called_ns = now_ns;
        }
        let due = self.calls >= WAITING && self.next_ns(free_ns) <= now_ns;
        if due {
            self.looked_ns = now_ns;
            self.in_vain = self.in_vain.saturating_add(1);
        }
        due
    }
}

const PROCESSORS: [Processor; 3] = [Processor::Can1, Processor::Can2, Processor::Aux];

impl<S: Spi> Pi3hat<S> {
    /// Checks and configures the hat as the official library does. Waits some milliseconds. `replier` as in [`Replier`].
    ///
    /// # Errors
    /// There is no hat, its firmware is too old or too new, or it does not take the configuration.
    pub fn open(
        mut spi: S,
        options: &Options,
        replier: impl Fn(u8, &Frame) -> Option<u8> + Send + 'static,
        now_ns: i64,
    ) -> Result<Self, OpenError> {
        let mut now_ns = now_ns;
        let mut setup = SetUp { spi: &mut spi, now_ns: &mut now_ns };
        let mut versions = [0; 3];
        for index in [2, 0, 1] {
            versions[index] = setup.version(PROCESSORS[index])?;
        }
        setup.imu(&options.imu)?;
        for channel in 0..5 {
            setup.can(channel, versions[channel / 2], &options.can[channel])?;
        }
        Ok(Self {
            spi,
            out: [(); 5].map(|()| VecDeque::with_capacity(QUEUE)),
            received: VecDeque::with_capacity(128),
            awaited: Awaited::default(),
            replier: Box::new(replier),
            looks: Looks::default(),
            turn: 0,
            free_ns: now_ns,
            sample: None,
            imu_again_ns: None,
            counters: [Counters::default(); 5],
            is_down: false,
        })
    }

    /// What reaches the processors.
    pub fn spi(&mut self) -> &mut S {
        &mut self.spi
    }

    /// The oldest frame whose transfer is over by now.
    fn due(&mut self, now_ns: i64) -> Option<Received> {
        self.received.front().filter(|received| received.at_ns <= now_ns)?;
        self.received.pop_front()
    }

    /// When the next transfer can begin.
    fn free(&self, now_ns: i64) -> i64 {
        self.free_ns.max(now_ns)
    }

    fn check<T>(&mut self, result: Result<T, LinkError>) -> Result<T, LinkError> {
        let lost = result.is_err() && !std::mem::replace(&mut self.is_down, result.is_err());
        if lost {
            self.counters.iter_mut().for_each(|counters| counters.downs += 1);
        }
        result
    }

    /// Reads the frames one processor has waiting, at most six.
    fn fetch(&mut self, index: usize, now_ns: i64) -> Result<(), LinkError> {
        let processor = PROCESSORS[index];
        let mut status = [0; 7];
        let start_ns = self.free(now_ns);
        self.free_ns = self.spi.read(processor, register::RECEIVE_STATUS, &mut status, start_ns)?;
        let Some(sizes) = decode_receive_status(&status) else {
            self.counters[index * 2].corrupt += 1;
            return Ok(());
        };
        for size in sizes.into_iter().take_while(|size| *size > 0) {
            let mut blob = [0; MAX_BLOB];
            let Some(bytes) = blob.get_mut(..usize::from(size)) else { break };
            self.free_ns = self.spi.read(processor, register::RECEIVE_FRAME, bytes, self.free_ns)?;
            self.take_frame(index, bytes);
        }
        Ok(())
    }

    fn take_frame(&mut self, index: usize, bytes: &[u8]) {
        let Some((port, frame)) = decode_received(bytes) else {
            self.counters[index * 2].corrupt += 1;
            return;
        };
        let channel = index * 2 + usize::from(port);
        let Some(counters) = self.counters.get_mut(channel) else { return };
        if let Some(device) = (self.replier)(channel as u8, &frame) {
            self.awaited.came(channel, device);
        }
        self.looks.in_vain = 0;
        if self.received.len() == self.received.capacity() {
            counters.full += 1;
            return;
        }
        counters.received += 1;
        self.received.push_back(Received { channel: channel as u8, at_ns: self.free_ns, frame });
    }

    /// Frames of an earlier cycle are taken out of the way, so that they do not count as this one's replies.
    fn drain(&mut self, now_ns: i64) -> Result<(), LinkError> {
        for index in 0..3 {
            if self.awaited.owes(index) {
                self.awaited.forget(index);
                self.fetch(index, now_ns)?;
            }
        }
        self.looks = Looks::default();
        Ok(())
    }

    fn write(&mut self, channel: usize, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        let mut blob = [0; MAX_BLOB];
        let (register, len) =
            encode_send(channel as u8 % 2, request.frame, &mut blob).ok_or(LinkError::Unsupported)?;
        let start_ns = self.free(now_ns);
        self.free_ns = self.spi.write(PROCESSORS[channel / 2], register, &blob[..len], start_ns)?;
        self.counters[channel].sent += 1;
        self.awaited.ask(channel, request);
        Ok(())
    }

    fn write_all(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.drain(now_ns)?;
        while self.out.iter().any(|queue| !queue.is_empty()) {
            for channel in ORDER {
                if let Some(kept) = self.out[channel].pop_front() {
                    self.write(channel, &kept.request(), now_ns)?;
                }
            }
        }
        Ok(())
    }

    /// The processor to be asked now: in turn those that owe replies; if none does, all, when it is time to look.
    fn next_processor(&mut self, now_ns: i64) -> Option<usize> {
        if self.free_ns > now_ns {
            return None;
        }
        let looking = !self.awaited.is_owed();
        if looking && !self.looks.begin(self.free_ns, now_ns) {
            return None;
        }
        let mut turns = (1..=3).map(|step| (self.turn + step) % 3);
        self.turn = turns.find(|index| looking || self.awaited.owes(*index))?;
        Some(self.turn)
    }

    fn read_attitude(&mut self, now_ns: i64) -> Result<(), LinkError> {
        let mut bytes = [0; Attitude::SHORT];
        let start_ns = self.free(now_ns);
        self.free_ns = self.spi.read(Processor::Aux, register::ATTITUDE, &mut bytes, start_ns)?;
        self.sample = Attitude::decode(&bytes).map(|attitude| sample(&attitude, self.free_ns));
        self.imu_again_ns = self.sample.is_none().then_some(self.free_ns + AGAIN_NS);
        Ok(())
    }
}

/// From the hat's axes (x forward, y right, z down; quaternion not normalised; °/s) to ours.
fn sample(hat: &Attitude, at_ns: i64) -> ImuSample {
    let turned = |[x, y, z]: [f32; 3]| [x, -y, -z].map(f64::from);
    let [w, x, y, z] = hat.attitude.map(f64::from);
    ImuSample {
        at_ns,
        attitude: unit([w, x, -y, -z]),
        rate: turned(hat.rate_dps).map(f64::to_radians),
        acceleration: turned(hat.acceleration),
    }
}

impl<S: Spi + ?Sized> Spi for Box<S> {
    fn read(&mut self, of: Processor, register: u8, into: &mut [u8], now_ns: i64) -> Result<i64, LinkError> {
        (**self).read(of, register, into, now_ns)
    }

    fn write(&mut self, to: Processor, register: u8, bytes: &[u8], now_ns: i64) -> Result<i64, LinkError> {
        (**self).write(to, register, bytes, now_ns)
    }

    fn settle(&mut self, ns: i64, now_ns: i64) -> i64 {
        (**self).settle(ns, now_ns)
    }
}

/// A processor's lines: firmware and chip, rounds of its main loop, errors of its buses.
fn counter_lines(
    name: &str,
    first_bus: usize,
    info: &[u8; 33],
    performance: &[u8; 8],
    errors: &[u8; 12],
) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut lines = Vec::new();
    if let Some(DeviceInfo { git_hash, dirty, serial }) = DeviceInfo::decode(info) {
        let state = if dirty { "dirty" } else { "clean" };
        lines.push(format!("{name}: {} {state} {}", hex(&git_hash), hex(&serial)));
    }
    if let Some(Performance { average, minimum }) = Performance::decode(performance) {
        lines.push(format!("{name}: average:{average} min:{minimum}"));
    }
    for (port, status) in ErrorStatus::decode(errors).into_iter().flatten().enumerate() {
        let ErrorStatus { flags, receive_errors, transmit_errors, bus_offs, .. } = status;
        let names = [(1, "error passive"), (2, "warning"), (4, "bus off"), (8, "protocol exception")];
        let state: Vec<_> = names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
        if status != (ErrorStatus { codes: status.codes, ..ErrorStatus::default() }) {
            lines.push(format!(
                "JC{}: errors received {receive_errors} sent {transmit_errors}, bus off {bus_offs} times{}{}",
                first_bus + port,
                if state.is_empty() { "" } else { "; now " },
                state.join(", ")
            ));
        }
    }
    lines
}

impl<S: Spi> Link for Pi3hat<S> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "pi3hat",
            channels: 5,
            half_duplex: false,
            in_flight: QUEUE as u16,
            emulated: false,
        }
    }

    fn begin_cycle(&mut self, _: i64) {
        for (queue, counters) in self.out.iter_mut().zip(&mut self.counters) {
            counters.expired += queue.len() as u64;
            queue.clear();
        }
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, _: i64) -> Result<(), LinkError> {
        let queue = self.out.get_mut(usize::from(channel)).filter(|_| request.frame.remote.is_none());
        let queue = queue.ok_or(LinkError::Unsupported)?;
        if queue.len() == QUEUE {
            self.counters[usize::from(channel)].full += 1;
            return Err(LinkError::Full);
        }
        queue.push_back(request.kept());
        Ok(())
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        if self.out.iter().all(VecDeque::is_empty) {
            return Ok(());
        }
        let result = self.write_all(now_ns);
        self.out.iter_mut().for_each(VecDeque::clear);
        self.check(result)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        if self.received.is_empty()
            && let Some(index) = self.next_processor(now_ns)
        {
            let was_down = self.is_down;
            let result = self.fetch(index, now_ns);
            if let (Err(error), false) = (self.check(result), was_down) {
                return Err(error);
            }
        }
        Ok(self.due(now_ns))
    }

    fn next_event_ns(&self) -> Option<i64> {
        let received = self.received.front().map(|received| received.at_ns);
        let asking = if self.awaited.is_owed() { self.free_ns } else { self.looks.next_ns(self.free_ns) };
        let imu = self.sample.map(|sample| sample.at_ns).or(self.imu_again_ns);
        [Some(received.unwrap_or(asking)), imu].into_iter().flatten().min()
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        Some(self)
    }

    fn about(&mut self) -> Result<Vec<String>, LinkError> {
        let mut lines = Vec::new();
        for (index, (processor, name)) in PROCESSORS.into_iter().zip(["CAN1", "CAN2", "AUX"]).enumerate() {
            let (mut info, mut performance, mut errors) = ([0; 33], [0; 8], [0; 12]);
            let blobs: [(u8, &mut [u8]); 3] = [
                (register::DEVICE_INFO, &mut info),
                (register::PERFORMANCE, &mut performance),
                (register::ERROR_STATUS, &mut errors),
            ];
            for (register, blob) in blobs {
                self.free_ns = self.spi.read(processor, register, blob, self.free_ns)?;
            }
            lines.extend(counter_lines(name, index * 2 + 1, &info, &performance, &errors));
        }
        Ok(lines)
    }

    fn counters(&self, channel: u8) -> Counters {
        self.counters.get(usize::from(channel)).copied().unwrap_or_default()
    }
}

impl<S: Spi> Imu for Pi3hat<S> {
    fn request(&mut self, now_ns: i64) -> Result<(), LinkError> {
        let result = self.read_attitude(now_ns);
        self.check(result)
    }

    fn poll(&mut self, now_ns: i64) -> Result<Option<ImuSample>, LinkError> {
        if self.imu_again_ns.is_some_and(|again_ns| again_ns <= now_ns) && self.free_ns <= now_ns {
            self.request(now_ns)?;
        }
        Ok(self.sample.take_if(|sample| sample.at_ns <= now_ns))
    }
}

/// The steps of opening.
struct SetUp<'a, S> {
    spi: &'a mut S,
    now_ns: &'a mut i64,
}

impl<S: Spi> SetUp<'_, S> {
    fn read<const N: usize>(&mut self, of: Processor, register: u8) -> Result<[u8; N], OpenError> {
        let mut bytes = [0; N];
        *self.now_ns = self.spi.read(of, register, &mut bytes, *self.now_ns).map_err(|e| explain(of, &e))?;
        Ok(bytes)
    }

    fn write(&mut self, to: Processor, register: u8, bytes: &[u8], settle_ns: i64) -> Result<(), OpenError> {
        let done_ns = self.spi.write(to, register, bytes, *self.now_ns).map_err(|e| explain(to, &e))?;
        *self.now_ns = self.spi.settle(settle_ns, done_ns);
        Ok(())
    }

    fn version(&mut self, of: Processor) -> Result<u8, OpenError> {
        let [version] = self.read(of, register::PROTOCOL_VERSION)?;
        match version {
            2..=4 => Ok(version),
            0 | 0xff => Err(OpenError::new(
                "pi3hat",
                &format!("processor {of:?} does not answer"),
                "is the hat seated and powered, and SPI enabled (`dtparam=spi=on`, `dtoverlay=spi1-2cs`)?",
            )),
            other => Err(OpenError::new(
                "pi3hat",
                &format!("processor {of:?} speaks version {other}, not 2, 3 or 4"),
                "update the hat's firmware, or this program",
            )),
        }
    }

    fn imu(&mut self, wanted: &ImuConfig) -> Result<(), OpenError> {
        let [version] = self.read(Processor::Aux, register::IMU_VERSION)?;
        if version != IMU_VERSION {
            let what = format!("IMU version 0x{version:02x}, not 0x{IMU_VERSION:02x}");
            return Err(OpenError::new("pi3hat", &what, "update the hat's firmware, or this program"));
        }
        let wanted = wanted.encode();
        if self.read::<16>(Processor::Aux, register::READ_IMU_CONFIG)? == wanted {
            return Ok(());
        }
        self.write(Processor::Aux, register::WRITE_IMU_CONFIG, &wanted, 1_000_000)?;
        let taken = self.read::<16>(Processor::Aux, register::READ_IMU_CONFIG)? == wanted;
        taken.then_some(()).ok_or_else(|| refused("the IMU configuration"))
    }

    fn can(&mut self, channel: usize, version: u8, wanted: &CanConfig) -> Result<(), OpenError> {
        let (of, port) = (PROCESSORS[channel / 2], channel as u8 % 2);
        let (wanted, len) = (wanted.encode(), CanConfig::len(version));
        let there =
            |it: &mut Self| Ok(it.read::<25>(of, register::READ_CAN_CONFIG + port)?[..len] == wanted[..len]);
        if len == 0 || there(self)? {
            return Ok(());
        }
        self.write(of, register::WRITE_CAN_CONFIG + port, &wanted[..len], 100_000)?;
        let taken: bool = there(self)?;
        taken.then_some(()).ok_or_else(|| refused(&format!("the configuration of JC{}", channel + 1)))
    }
}

fn refused(what: &str) -> OpenError {
    OpenError::new(
        "pi3hat",
        &format!("the hat does not take {what}"),
        "check the bit rates and angles asked for",
    )
}

fn explain(of: Processor, error: &LinkError) -> OpenError {
    OpenError::new(
        "pi3hat",
        &format!("processor {of:?}: {error}"),
        "see `dmesg | tail` and `ls /dev/spidev*`",
    )
}
