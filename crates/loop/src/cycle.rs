//! The bus cycle: command and query every servo, read the IMU, collect the replies.
//!
//! The order is the pi3hat article's: hand every frame to its bus, round robin over the buses, before any
//! reply is awaited; ask the IMU while the replies travel; then collect until all are in or the bus deadline
//! passes. A silent device is *missed*: its last state stays, its age grows, and the loop does not wait for it beyond
//! the deadline. On half-duplex buses one query is outstanding per bus, in the next cycle too, as mjlib's servers execute the
//! reads of a request that comes before they have replied. The next leaves the moment the reply has been read or given up; it is
//! given up when the queries behind it need what is left of the cycle, and the last one when it takes longer than usual. The buses
//! run in parallel. Where not all servos of a bus have a turn, those that had none go first in
//! the next cycle. Of each link a fair share of frames is taken at a time, so that one that floods costs the others nothing.
//!
//! What is in the frames, and which query a reply answers, is the business of the servos' family ([`khz_servo::Servos`]); the
//! cycle knows when they leave and whether they came in time. A reply to an older query is counted *late* and never taken for
//! this tick's; the age of its values counts from when that query was sent.
//!
//! # Realtime contract
//! After [`Cycle::new`] nothing allocates, locks, prints or waits. All methods take the present time.

mod device;
mod lane;

pub use device::{DevicePlan, DeviceStats};

use crate::state::{ImuState, RobotState};
use arrayvec::ArrayVec;
use device::Device;
use khz_link::{Link, LinkError, Received};
use khz_servo::{Family, ServoCommand, ServoPlan, Taken, family};
use lane::Lane;
use std::cmp::Reverse;

/// The most links of a robot: the result of a cycle has a bit for each.
pub const MAX_LINKS: usize = 64;

/// Frames taken from a link at once; more wait in the link, so that one that floods leaves time for the others.
const PER_LOOK: usize = 64;

/// Frames taken from a link in a cycle: more than any bus carries in one. What ends a flood is the deadline.
const PER_CYCLE: u32 = 1 << 16;

/// What the cycle has to do.
#[derive(Clone, Debug, Default)]
pub struct CyclePlan {
    /// One per servo, in the order of the state's servos.
    pub devices: Vec<DevicePlan>,
    /// The links to read the IMU from: it is in a device of one of them. None: no IMU is read.
    pub imu: Vec<usize>,
    /// The frame that paces the loop, if one does; it is no reply of a servo.
    pub pace: Option<PaceFrame>,
}

/// Where the frame that paces the loop comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceFrame {
    /// The link.
    pub link: usize,
    /// The link's channel.
    pub channel: u8,
    /// The frame's identifier.
    pub id: u32,
}

/// So many pacing frames are remembered between two looks; of more the oldest are counted only.
pub(crate) const PACED: usize = 64;

/// The servos on the bus of `device`, itself among them.
fn servos_beside(device: &DevicePlan, all: &[DevicePlan]) -> Vec<ServoPlan<Family>> {
    let beside =
        |(_, other): &(usize, &DevicePlan)| (other.link, other.channel) == (device.link, device.channel);
    let plan = |(servo, other): (usize, &DevicePlan)| ServoPlan { servo, ..other.servo.clone() };
    all.iter().enumerate().filter(beside).map(plan).collect()
}

/// The frames that pace the loop, since they were last asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// When each came, oldest first.
    pub at_ns: ArrayVec<i64, PACED>,
    /// Older ones.
    pub older: u64,
}

impl Paced {
    fn add(&mut self, at_ns: i64) {
        if self.at_ns.is_full() {
            self.at_ns.remove(0);
            self.older += 1;
        }
        self.at_ns.push(at_ns);
    }
}

/// What came of one cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleResult {
    /// Servos that answered this tick's query in time.
    pub replied: u16,
    /// Servos that did not.
    pub missed: u16,
    /// Servos that were asked nothing, so that what they still answer cannot be mistaken: they miss no reply.
    pub quiet: u16,
    /// Replies to older queries, and further replies to the same one.
    pub late: u32,
    /// Whose the replies to older queries were; bit per servo, by its number modulo 64.
    pub late_servos: u64,
    /// Frames from devices that are not in the plan, or that were no reply.
    pub foreign: u32,
    /// A servo that answered a query more than once in this cycle or one of the last twenty, the first of them: two servos may
    /// have its id, or another program commands it.
    pub answered_twice: Option<u16>,
    /// The first that does so again and again, as no disturbance explains.
    pub intruded: Option<u16>,
    /// The IMU was asked and did not answer in time.
    pub imu_missed: bool,
    /// Links that refused or failed since the cycle before; bit per link.
    pub links_down: u64,
}

/// The bus cycle of one robot.
#[derive(Debug)]
pub struct Cycle {
    plan: CyclePlan,
    lanes: Vec<Lane>,
    devices: Vec<Device>,
    /// Lane of a link's channel.
    lane_of: Vec<Vec<Option<usize>>>,
    inbox: Vec<(usize, Received)>,
    /// Frames taken from each link in this cycle.
    taken: Vec<u32>,
    deadline_ns: i64,
    /// Nothing was sent in this cycle yet.
    is_new: bool,
    /// Every frame of this cycle was sent, as far as its bus is there.
    is_sent: bool,
    /// Some bus waits for a reply before its next query.
    has_half_duplex: bool,
    pending: u16,
    imu: ImuPhase,
    paced: Paced,
    result: CycleResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImuPhase {
    Absent,
    Idle,
    Asked,
    Read,
    Failed,
}

impl Cycle {
    /// Prepares every frame. `links` are those the plan's numbers mean; they are not kept.
    ///
    /// # Panics
    /// If the plan names a link or channel that is not there, or there are more than [`MAX_LINKS`] links (the
    /// configuration has checked it).
    pub fn new(plan: CyclePlan, links: &[Box<dyn Link>]) -> Self {
        assert!(links.len() <= MAX_LINKS, "{} links, but a cycle has at most {MAX_LINKS}", links.len());
        let mut lane_of: Vec<Vec<Option<usize>>> =
            links.iter().map(|link| vec![None; usize::from(link.capabilities().channels)]).collect();
        let mut lanes: Vec<Lane> = Vec::new();
        let mut devices = Vec::new();
        for device in &plan.devices {
            let slot = &mut lane_of[device.link][usize::from(device.channel)];
            let lane = *slot.get_or_insert_with(|| {
                let half_duplex = links[device.link].half_duplex(device.channel);
                let servos = family::on_bus(&servos_beside(device, &plan.devices));
                lanes.push(Lane::new(device.link, device.channel, half_duplex, servos));
                lanes.len() - 1
            });
            devices.push(Device::new(lane, device.reply_timeout_ns));
        }
        let imu = if plan.imu.is_empty() { ImuPhase::Absent } else { ImuPhase::Idle };
        Self {
            has_half_duplex: lanes.iter().any(Lane::is_half_duplex),
            plan,
            lanes,
            devices,
            lane_of,
            inbox: Vec::with_capacity(PER_LOOK * links.len()),
            taken: vec![0; links.len()],
            deadline_ns: 0,
            is_new: false,
            is_sent: false,
            pending: 0,
            imu,
            paced: Paced::default(),
            result: CycleResult::default(),
        }
    }

    /// Every servo has been made ready with this mark; see [`khz_servo::Servos::made_ready`].
    pub fn made_ready(&mut self, mark: u32) {
        self.lanes.iter_mut().for_each(|lane| lane.made_ready(mark));
    }

    /// The half-duplex buses on which a cycle takes longer than `deadline_ns`, the slowest first, by how soon their servos have answered before
    /// the first cycle: one servo of each, how many queries the cycle has there, and the soonest answer to one.
    pub(crate) fn too_slow(&self, soonest_ns: &[Option<i64>], deadline_ns: i64) -> Vec<(usize, usize, i64)> {
        let slow = self.lanes.iter().filter_map(|lane| {
            let answers = lane.all_servos().iter().filter_map(|&servo| Some((soonest_ns[servo]?, servo)));
            let (soonest_ns, servo) = answers.min()?;
            let queries = lane.in_sequence();
            (queries as i64 * soonest_ns > deadline_ns).then_some((servo, queries, soonest_ns))
        });
        let mut slow: Vec<_> = slow.collect();
        slow.sort_by_key(|&(_, queries, soonest_ns)| Reverse(queries as i64 * soonest_ns));
        slow
    }

    /// A servo did not answer what it was asked before the first cycle; see [`khz_servo::Servos::unanswered`].
    pub fn unanswered(&mut self) {
        self.lanes.iter_mut().for_each(Lane::unanswered);
    }

    /// See [`khz_servo::Servos::clear_timeout`].
    pub fn clear_timeout(&mut self, servo: usize) {
        self.lanes.iter_mut().for_each(|lane| lane.clear_timeout(servo));
    }

    /// Begins a cycle: encodes one command with query per servo. Replies count until `deadline_ns`.
    ///
    /// Call [`Cycle::receive`] and [`Cycle::take_in`] first, so that what arrived since the last cycle is
    /// known to be late.
    pub fn begin(&mut self, commands: &[ServoCommand], deadline_ns: i64) {
        (self.is_new, self.is_sent) = (true, false);
        self.taken.fill(0);
        self.deadline_ns = deadline_ns;
        self.pending = self.devices.len() as u16;
        self.devices.iter_mut().for_each(Device::begin);
        self.lanes.iter_mut().for_each(|lane| lane.begin(commands));
        if self.imu != ImuPhase::Absent {
            self.imu = ImuPhase::Idle;
        }
    }

    /// Replies of this cycle count until then, and not until the deadline given to [`Cycle::begin`].
    pub fn count_until(&mut self, deadline_ns: i64) {
        self.deadline_ns = deadline_ns;
    }

    /// Hands as many frames to the links as they take now, round robin over the buses, and asks the IMU once
    /// every bus has its frames. The first call of a cycle has the links drop what they hold of the last.
    #[inline]
    pub fn send(&mut self, links: &mut [Box<dyn Link>], now_ns: i64) {
        // After most looks nothing is left.
        if self.is_new || !self.is_sent || self.imu == ImuPhase::Idle {
            self.send_rest(links, now_ns);
        }
    }

    fn send_rest(&mut self, links: &mut [Box<dyn Link>], now_ns: i64) {
        if std::mem::take(&mut self.is_new) {
            links.iter_mut().for_each(|link| link.begin_cycle(now_ns));
        }
        if !self.is_sent {
            self.send_frames(links, now_ns);
        }
        self.ask_imu(links, now_ns);
    }

    fn send_frames(&mut self, links: &mut [Box<dyn Link>], now_ns: i64) {
        let mut touched = 0_u64;
        loop {
            let mut progress = false;
            for lane in self.lanes.iter_mut().filter(|lane| lane.may_send()) {
                let times = [now_ns, self.deadline_ns];
                let sent = lane.send_next(&mut self.devices, links, times, &mut self.result);
                touched |= u64::from(sent) << lane.link;
                progress |= sent;
            }
            if !progress {
                break;
            }
        }
        for (index, link) in links.iter_mut().enumerate().filter(|(index, _)| touched >> index & 1 == 1) {
            if link.flush(now_ns).is_err() {
                self.result.links_down |= 1 << index;
            }
        }
        self.is_sent = self.lanes.iter().all(Lane::is_sent);
    }

    fn ask_imu(&mut self, links: &mut [Box<dyn Link>], now_ns: i64) {
        if self.imu != ImuPhase::Idle {
            return;
        }
        self.imu = ImuPhase::Failed;
        for &link in &self.plan.imu {
            if let Some(Ok(())) = links[link].imu().map(|imu| imu.request(now_ns)) {
                self.imu = ImuPhase::Asked;
            }
        }
    }

    /// Takes what the links have by now, a fair share of each. Returns how many frames came; [`Cycle::take_in`] reads them.
    pub fn receive(&mut self, links: &mut [Box<dyn Link>], now_ns: i64) -> usize {
        for (index, link) in links.iter_mut().enumerate() {
            if self.taken[index] < PER_CYCLE {
                self.taken[index] += self.receive_from(index, &mut **link, now_ns);
            }
        }
        self.inbox.len()
    }

    fn receive_from(&mut self, index: usize, link: &mut dyn Link, now_ns: i64) -> u32 {
        let before = self.inbox.len();
        let room = PER_LOOK.min(self.inbox.capacity() - before);
        while self.inbox.len() < before + room {
            match link.receive(now_ns) {
                Ok(Some(received)) => self.inbox.push((index, received)),
                Ok(None) | Err(LinkError::Full | LinkError::Unsupported) => break,
                Err(LinkError::Down { .. }) => {
                    self.result.links_down |= 1 << index;
                    break;
                }
            }
        }
        (self.inbox.len() - before) as u32
    }

    /// The link whose frames pace the loop, and those that have come. Other links are left alone: what
    /// lies there has time until the cycle, and to look may take long (a pi3hat's status is an SPI transfer).
    pub fn receive_pace<'a>(
        &mut self,
        links: &'a mut [Box<dyn Link>],
        state: &mut RobotState,
        now_ns: i64,
    ) -> (&'a [Box<dyn Link>], Paced) {
        let Some(PaceFrame { link: index, .. }) = self.plan.pace else { return (&[], Paced::default()) };
        let links = &mut links[index..=index];
        self.receive_from(index, &mut *links[0], now_ns);
        if !self.inbox.is_empty() {
            self.take_in(state);
        }
        (links, std::mem::take(&mut self.paced))
    }

    /// Reads the IMU if it was asked and has answered by now.
    #[inline]
    pub fn receive_imu(&mut self, links: &mut [Box<dyn Link>], state: &mut RobotState, now_ns: i64) {
        if self.imu == ImuPhase::Asked {
            self.poll_imu(links, state, now_ns);
        }
    }

    fn poll_imu(&mut self, links: &mut [Box<dyn Link>], state: &mut RobotState, now_ns: i64) {
        self.imu = ImuPhase::Failed;
        for &link in &self.plan.imu {
            match links[link].imu().map(|imu| imu.poll(now_ns)) {
                Some(Ok(None)) => self.imu = ImuPhase::Asked,
                Some(Ok(Some(sample))) => {
                    self.imu = ImuPhase::Read;
                    state.imu = Some(ImuState { sample, fresh: true });
                    return;
                }
                Some(Err(_)) | None => {}
            }
        }
    }

    /// Reads the received frames into the state.
    pub fn take_in(&mut self, state: &mut RobotState) {
        let mut inbox = std::mem::take(&mut self.inbox);
        for (link, received) in &inbox {
            self.take_in_one(*link, received, state);
        }
        inbox.clear();
        self.inbox = inbox;
    }

    fn take_in_one(&mut self, link: usize, received: &Received, state: &mut RobotState) {
        let from = PaceFrame { link, channel: received.channel, id: received.frame.id };
        if self.plan.pace == Some(from) {
            self.paced.add(received.at_ns);
            return;
        }
        let lane = self.lane_of[link].get(usize::from(received.channel)).copied().flatten();
        // A remote frame asks, and answers nothing.
        let lane = lane.filter(|_| received.frame.remote.is_none());
        let taken = lane.map(|lane| self.lanes[lane].take(&received.frame, &mut state.servos));
        let taken = taken.unwrap_or(Taken::Unexpected);
        match taken {
            Taken::State { servo, sent_ns, .. } | Taken::Answer { servo, sent_ns } => {
                // What came before in this cycle and could have been its reply was an older one's.
                let (newest, was_another) = match taken {
                    Taken::State { newest, .. } => (newest, self.devices[servo].is_excused()),
                    _ => (true, false),
                };
                if !newest || !self.answered(servo, sent_ns, received.at_ns, state) || was_another {
                    self.late(servo, received.at_ns, false);
                }
            }
            Taken::Unclear { servo, sent_ns } => {
                if !self.devices[servo].unclear(sent_ns, received.at_ns, self.deadline_ns) {
                    self.late(servo, received.at_ns, false);
                }
            }
            Taken::Late { servo } => self.late(servo, received.at_ns, false),
            Taken::Duplicate { servo } => self.late(servo, received.at_ns, true),
            Taken::Aside => {}
            Taken::Unexpected => self.result.foreign = self.result.foreign.saturating_add(1),
        }
    }

    /// The answer to this cycle's query has come: true if it is the first and in time. Inlined, as it is called for every reply.
    #[inline(always)]
    fn answered(&mut self, servo: usize, sent_ns: i64, at_ns: i64, state: &mut RobotState) -> bool {
        let device = &mut self.devices[servo];
        let in_time = device.answered(sent_ns, at_ns, self.deadline_ns, &mut state.servos[servo]);
        if in_time {
            self.pending -= 1;
            self.result.replied += 1;
            if self.has_half_duplex {
                self.lanes[device.lane].answered(&self.devices, at_ns);
            }
        }
        in_time
    }

    #[cold]
    fn late(&mut self, servo: usize, at_ns: i64, is_duplicate: bool) {
        if !is_duplicate {
            self.lanes[self.devices[servo].lane].received_late(servo, at_ns);
        }
        // What answers "switch on" may take longer than a cycle: that is no late reply, as it is no missed one.
        let mut switching_on = self.lanes[self.devices[servo].lane].switching_on();
        if !is_duplicate && switching_on.any(|other| other == servo) {
            return;
        }
        self.devices[servo].late(is_duplicate);
        self.result.late_servos |= u64::from(!is_duplicate) << (servo % 64);
        self.result.late = self.result.late.saturating_add(1);
    }

    /// No servo's reply is outstanding any more.
    pub fn has_every_reply(&self) -> bool {
        self.pending == 0
    }

    /// Everything that can still come has come.
    pub fn is_complete(&self) -> bool {
        self.has_every_reply() && !matches!(self.imu, ImuPhase::Idle | ImuPhase::Asked)
    }

    /// The next moment at which something has to be done: a link has something, a half-duplex query has
    /// waited long enough, or the deadline passes.
    pub fn next_ns(&self, links: &[Box<dyn Link>]) -> i64 {
        let lanes: &[Lane] = if self.has_half_duplex { &self.lanes } else { &[] };
        let timeouts = lanes.iter().filter_map(|lane| lane.timeout_ns());
        let until_ns = timeouts.fold(self.deadline_ns, i64::min);
        links.iter().filter_map(|link| link.next_event_ns()).fold(until_ns, i64::min)
    }

    /// Gives up half-duplex queries that have waited long enough, so that the bus can go on.
    pub fn time_out(&mut self, now_ns: i64) {
        if self.has_half_duplex {
            self.lanes.iter_mut().for_each(|lane| lane.time_out(now_ns));
        }
    }

    /// Ends the cycle: a servo that has not answered is missed. Returns what happened since the last end.
    pub fn end(&mut self, state: &mut RobotState) -> CycleResult {
        if !self.has_every_reply() {
            self.excuse_those_switching_on();
        }
        for (number, (device, servo)) in (0..).zip(self.devices.iter_mut().zip(&mut state.servos)) {
            let doubled = device.doubled();
            if doubled.is_any() {
                self.result.answered_twice.get_or_insert(number);
            }
            if doubled.is_intruded() {
                self.result.intruded.get_or_insert(number);
            }
            let (answered, missed) = device.end();
            servo.fresh = answered;
            self.result.missed += u16::from(missed);
        }
        for lane in &mut self.lanes {
            lane.end(&self.devices);
        }
        if let Some(imu) = &mut state.imu {
            imu.fresh = self.imu == ImuPhase::Read;
            self.result.imu_missed = !imu.fresh;
        }
        std::mem::take(&mut self.result)
    }

    #[cold]
    fn excuse_those_switching_on(&mut self) {
        for lane in &self.lanes {
            lane.switching_on().for_each(|servo| self.devices[servo].excuse());
        }
    }

    /// The servos that did not reply in the last cycle, by their places in the plan.
    pub fn missed(&self) -> impl Iterator<Item = usize> {
        self.devices.iter().enumerate().filter(|(_, device)| device.is_missing()).map(|(servo, _)| servo)
    }

    /// The servos of the plan.
    pub fn devices(&self) -> &[DevicePlan] {
        &self.plan.devices
    }

    /// Counts and round trips of one servo since the start.
    pub fn stats(&self, servo: usize) -> &DeviceStats {
        self.devices[servo].stats()
    }
}
