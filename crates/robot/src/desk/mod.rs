//! Servos without a loop: who is there, single commands, registers, frames as they are.
//!
//! A [`Desk`] has the buses of a robot file, or of links that a command line names ([`Desk::open`]). What to send to a servo
//! and what it answers is its family's business ([`khz_servo::ByHand`]). Nothing here is for a loop: everything waits.

mod open;
mod set;

pub use khz_servo::Fault;
pub use khz_servo::by_hand::{Answer, Found, Identity, Order, Wanted};
pub use open::{hat_spi, is_robot_file};
pub use set::Setting;

use crate::assemble::{AssembleError, Links, open_links};
use khz_file::RobotConfig;
use khz_file::links::LinkConfig;
use khz_link::{Counters, Imu, Link, LinkError, Received};
use khz_loop::buses::BusPlace;
use khz_rt::{now_ns, wait_readable};
use khz_servo::by_hand::Ask;
use khz_servo::{Family, FamilyName, Identifiers, Occasion, ServoPlan};
use khz_wire::{Address, Frame, Request};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::path::Path;
use std::time::Duration;

/// Below this distance sleeping is coarser than waiting.
const SLEEP_NS: i64 = 100_000;
/// How many times a servo is sent the command to switch off.
const OFFS: usize = 3;
/// How much longer a second servo with the same id may take to identify itself, ns.
const TWIN_NS: i64 = 3_000_000;
/// Servos that identify themselves unasked do so within this, ns: an ODrive's heartbeats come every 100 ms by default.
const LISTEN_NS: i64 = 150_000_000;
/// So many frames are enough to know which servos are there.
const MOST_FRAMES: usize = 10_000;
/// Requests under way at once where a bus takes several; every adapter takes as many.
const BURST: usize = 16;

/// Why something could not be done by hand.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// A bus cannot be used.
    #[error("bus {bus}: {why}")]
    Bus {
        /// Its name.
        bus: String,
        /// The link's error.
        why: LinkError,
    },
    /// What is on the bus is not known, and it cannot carry the queries of the family that is asked first.
    #[error(
        "bus {bus}: this link carries classic CAN only, and queries of {family} servos are CAN-FD: nothing was sent. Give the family \
         of its servos ({}), or a robot file. For moteus servos set the interface up for CAN-FD, or give the data bit rate \
         (slcan:PATH,data=5000000, or `data_bit_rate` in a robot file)",
        on_classic_can()
    )]
    NotCarried {
        /// The bus.
        bus: String,
        /// Who was to be asked first.
        family: FamilyName,
    },
    /// The servo did not answer.
    #[error("{servo} did not reply within {timeout_s} s: is it powered, is the id right?")]
    NoReply {
        /// Which servo.
        servo: String,
        /// How long it had.
        timeout_s: f64,
    },
    /// The servo's answer is cut off or garbled.
    #[error("{servo}: its reply is damaged: {why}")]
    Damaged {
        /// Which servo.
        servo: String,
        /// How it is damaged.
        why: String,
    },
    /// The servo's settings are not those of its robot file: it would understand commands differently.
    #[error("{servo}: {why}")]
    Wrong {
        /// Which servo.
        servo: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Something was written, and whether the servo took it is not known.
    #[error("it is not known whether this was set: {0}")]
    Unsure(Box<DeskError>),
    /// It cannot be sent; the text says why.
    #[error("{0}")]
    Impossible(String),
}

impl DeskError {
    /// The link does not carry such frames.
    const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Bus { why: LinkError::Unsupported, .. } | Self::NotCarried { .. })
    }
}

/// The families whose queries classic CAN carries, as a command line gives them; last those whose servos do more than reply.
fn on_classic_can() -> String {
    let is_carried = |family: &Family| {
        let settings = family.settings();
        let [request, _] = settings.exchange(1, Occasion::Stopped);
        // Servos that take a whole line for themselves are on a serial one.
        !request.fd && settings.identifiers(1) != Identifiers::ALL
    };
    let of_each = FamilyName::ALL.iter().filter_map(|&name| Family::named(name).into_iter().find(is_carried));
    let mut families: Vec<_> =
        of_each.map(|family| (family.by_hand().who_does(), family.name().word())).collect();
    families.sort_by_key(|(does, _)| does.is_some());
    let words = families.into_iter().map(|(does, word)| match does {
        None => format!("`--family {word}`"),
        Some(does) => format!("`--family {word}`, whose servo {does}"),
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Buses and the servos known on them.
pub struct Desk {
    links: Vec<Box<dyn Link>>,
    buses: Vec<Bus>,
    servos: Vec<DeskServo>,
}

/// The bit rates that are tried on a serial line without a reply, bit/s: first that of servos from their maker.
const BAUDS: [u32; 7] = [57_600, 1_000_000, 4_000_000, 3_000_000, 2_000_000, 115_200, 9_600];

/// The same on CAN: those that the families' servos can be set to, and the adapters.
const BIT_RATES: [u32; 6] = [1_000_000, 500_000, 250_000, 125_000, 100_000, 50_000];

/// What was found at other bit rates.
#[derive(Clone, Debug, PartialEq)]
pub enum Elsewhere {
    /// The link cannot change its bit rate.
    NotTried,
    /// No reply at any.
    NoReply,
    /// These servos answered at this one, bit/s.
    At(u32, Vec<Found>),
}

/// A bus, and who is asked for in a scan of it.
struct Bus {
    name: String,
    /// The link as a robot file or a command line has it.
    link: Option<LinkConfig>,
    place: BusPlace,
    families: Vec<Family>,
}

/// A servo: where it is, and the family whose messages it takes.
#[derive(Clone, Debug)]
pub struct DeskServo {
    /// For messages.
    pub name: String,
    /// Its bus, counted from 0.
    pub bus: usize,
    /// Its id there, how it is mounted and what it speaks.
    pub servo: ServoPlan<Family>,
}

/// How to look for servos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The highest id to ask for.
    pub last: u8,
    /// How long to wait for the answers to what was sent together, ns.
    pub timeout_ns: i64,
    /// Asks all ids at once, where family and bus allow it. Round trips then mean little.
    pub together: bool,
}

impl DeskServo {
    /// The servo, with the file of the numbers of its settings (`flat_endpoints.json` of an ODrive).
    ///
    /// # Errors
    /// Servos of its family have no such numbers.
    pub fn with_endpoints(mut self, path: &Path) -> Result<Self, DeskError> {
        let name = self.servo.family.name();
        let family = self.servo.family.with_endpoints(path);
        self.servo.family = family
            .ok_or_else(|| DeskError::Impossible(format!("`--endpoints`: no {} has any", name.title())))?;
        Ok(self)
    }

    /// The number of the register that the servo's manual calls so.
    ///
    /// # Errors
    /// There is none.
    pub fn register(&self, name: &str) -> Result<u16, DeskError> {
        let family = self.servo.family.by_hand();
        family.register(name).ok_or_else(|| {
            let why = family.no_register(name).unwrap_or_else(|| format!("no register is called `{name}`"));
            DeskError::Impossible(format!("{}: {why}", self.name))
        })
    }
}

impl Desk {
    /// Opens the buses of a robot file.
    ///
    /// # Errors
    /// A link that cannot be opened, with its bus.
    pub fn connect(config: &RobotConfig) -> Result<Self, AssembleError> {
        Ok(Self::of(config, open_links(config, |world| Box::new(world))?))
    }

    /// The buses and servos of a robot file, on links that are open.
    pub fn of(config: &RobotConfig, links: Links) -> Self {
        let mut desk = Self { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
        desk.add(config, links);
        desk
    }

    fn add(&mut self, config: &RobotConfig, links: Links) {
        let (first_link, first_bus) = (self.links.len(), self.buses.len());
        for ((link, channel), bus) in links.places.into_iter().zip(&config.buses) {
            let place = (first_link + link, channel);
            let (name, link) = (bus.name.clone(), Some(bus.link.clone()));
            self.buses.push(Bus { name, link, place, families: Vec::new() });
        }
        self.links.extend(links.links);
        for (number, servo) in config.servos.iter().enumerate() {
            let (bus, plan) = (first_bus + servo.bus, servo.plan(number));
            let families = &mut self.buses[bus].families;
            // How values travel makes no other family.
            if !families.iter().any(|other| discriminant(other) == discriminant(&plan.family)) {
                families.push(plan.family.clone());
            }
            self.servos.push(DeskServo { name: servo.name.clone(), bus, servo: plan });
        }
    }

    /// A link without a robot file, so what is on it is not known: each of its channels is a bus. `families`: those it carries, if not all.
    fn add_link(&mut self, name: &str, link: Box<dyn Link>, families: &[Family]) {
        for channel in 0..link.capabilities().channels {
            let place = (self.links.len(), channel);
            let link = LinkConfig::by_hand(name);
            self.buses.push(Bus { name: name.to_owned(), link, place, families: families.to_vec() });
        }
        self.links.push(link);
    }

    /// How many buses there are; they are counted from 0.
    pub fn buses(&self) -> usize {
        self.buses.len()
    }

    /// What a bus is called.
    pub fn name(&self, bus: usize) -> &str {
        &self.buses[bus].name
    }

    /// The servos of the robot files, in their order.
    pub fn servos(&self) -> &[DeskServo] {
        &self.servos
    }

    /// The links, open.
    pub fn links(&mut self) -> &mut [Box<dyn Link>] {
        &mut self.links
    }

    /// The link of a bus, and its channel there.
    pub fn link(&self, bus: usize) -> (&dyn Link, u8) {
        let (link, channel) = self.buses[bus].place;
        (&*self.links[link], channel)
    }

    /// Of each bus its link, by its place among them, and its channel there.
    pub fn places(&self) -> Vec<(usize, u8)> {
        self.buses.iter().map(|bus| bus.place).collect()
    }

    /// Only one query may be under way on this bus.
    pub fn is_half_duplex(&self, bus: usize) -> bool {
        let (link, channel) = self.link(bus);
        link.half_duplex(channel)
    }

    /// What happened so far on a bus.
    pub fn counters(&self, bus: usize) -> Counters {
        let (link, channel) = self.link(bus);
        link.counters(channel)
    }

    /// The first link's IMU, of the links that have one.
    pub fn imu(&mut self) -> Option<&mut dyn Imu> {
        self.links.iter_mut().find_map(|link| link.imu())
    }

    /// Hands a frame as it is to its bus, without waiting; [`Desk::flush`] sends what was handed over.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub fn send(&mut self, bus: usize, frame: &Frame) -> Result<(), LinkError> {
        self.hand_over(bus, &Address::request(frame))
    }

    fn hand_over(&mut self, bus: usize, request: &Request<'_>) -> Result<(), LinkError> {
        let (link, channel) = self.buses[bus].place;
        self.links[link].send(channel, request, now_ns())
    }

    /// Hands everything sent to the wires.
    ///
    /// # Errors
    /// As [`Link::flush`].
    pub fn flush(&mut self) -> Result<(), LinkError> {
        self.links.iter_mut().try_for_each(|link| link.flush(now_ns()))
    }

    /// Sends a frame as it is, waiting for room until `until_ns`.
    ///
    /// # Errors
    /// The bus has no room for so long, or cannot carry the frame.
    pub fn send_by(&mut self, bus: usize, frame: &Frame, until_ns: i64) -> Result<(), DeskError> {
        self.request_by(bus, &Address::request(frame), until_ns)
    }

    fn request_by(&mut self, bus: usize, request: &Request<'_>, until_ns: i64) -> Result<(), DeskError> {
        let sent = loop {
            match self.hand_over(bus, request) {
                Err(LinkError::Full) if now_ns() < until_ns => std::thread::yield_now(),
                Ok(()) => break self.flush(),
                refused => break refused,
            }
        };
        sent.map_err(|why| self.refused(bus, why))
    }

    /// Why a bus took nothing, as far as its adapter knows better.
    fn refused(&mut self, bus: usize, why: LinkError) -> DeskError {
        let (link, name) = (self.buses[bus].place.0, self.buses[bus].name.clone());
        let misnamed = if why == LinkError::Full { self.links[link].misnamed() } else { None };
        match misnamed {
            Some(misnamed) => DeskError::Impossible(format!("bus {name}: {misnamed}")),
            None => DeskError::Bus { bus: name, why },
        }
    }

    /// What has come by now, with its bus.
    pub fn receive(&mut self) -> Option<(usize, Received)> {
        let now_ns = now_ns();
        let buses = &self.buses;
        self.links.iter_mut().enumerate().find_map(|(link, each)| {
            let received = each.receive(now_ns).ok()??;
            let bus = buses.iter().position(|bus| bus.place == (link, received.channel))?;
            Some((bus, received))
        })
    }

    /// Receives frames until `take` returns true, or the time is over. Those that have come by then count, however late they are
    /// read. True if `take` returned true.
    pub fn receive_until(&mut self, timeout_ns: i64, mut take: impl FnMut(usize, Received) -> bool) -> bool {
        let until_ns = now_ns().saturating_add(timeout_ns);
        loop {
            // The last look begins when the time is over: a process that stood still for it has looked once more.
            let looked_ns = now_ns();
            match self.receive() {
                Some((bus, received)) if take(bus, received) => return true,
                Some(_) => {}
                None if looked_ns >= until_ns => return false,
                None => self.pass(until_ns),
            }
        }
    }

    /// Lets time pass until something may have come, and no longer than until `until_ns`.
    pub fn pass(&self, until_ns: i64) {
        if let [link] = self.links.as_slice()
            && let Some(fd) = link.fd()
        {
            // Whatever the result, the link is asked next.
            let _ = wait_readable(fd, until_ns);
            return;
        }
        let next_ns = self.links.iter().filter_map(|link| link.next_event_ns()).min().unwrap_or(until_ns);
        let left_ns = next_ns.min(until_ns).saturating_sub(now_ns());
        let kernel_fed = self.links.iter().any(|link| link.fd().is_some());
        match left_ns {
            // Short enough for any reply, long enough to leave the CPU alone.
            _ if kernel_fed => std::thread::sleep(Duration::from_micros(20)),
            SLEEP_NS.. => std::thread::sleep(Duration::from_nanos((left_ns - SLEEP_NS / 2) as u64)),
            _ => std::hint::spin_loop(),
        }
    }

    /// On buses without known servos, scans ask for this family only.
    pub fn expect(&mut self, family: FamilyName) {
        let families = Family::named(family);
        for bus in self.buses.iter_mut().filter(|bus| bus.families.is_empty()) {
            bus.families.clone_from(&families);
        }
    }

    /// What a scan makes servos do beside replying, by the families that are asked for: a sentence each.
    pub fn scan_does(&self) -> Vec<String> {
        let families = self.buses.iter().flat_map(|bus| &bus.families);
        let line = |family: &Family| {
            let does = family.by_hand().who_does()?;
            Some(format!("each {} that is asked {does}", family.name().title()))
        };
        families.filter_map(line).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The servos that answer on a bus, whether a robot file has them or not, by their ids. Without known servos, one family
    /// after another is asked for until a servo answers; a family is asked for only if those before it could be.
    ///
    /// # Errors
    /// The bus cannot be used, or does not carry the requests.
    pub fn scan(&mut self, bus: usize, scan: &Scan) -> Result<Vec<Found>, DeskError> {
        let mut found = BTreeMap::new();
        let known = self.buses[bus].families.clone();
        if !known.is_empty() {
            let (mut refused, mut is_asked) = (None, false);
            for family in known {
                match self.look_for(&family, bus, scan, None, &mut found) {
                    // A bus that does not carry the frames of one may carry those of the next.
                    Err(error) if error.is_unsupported() => refused = refused.or(Some(error)),
                    asked => is_asked = asked.map(|()| true)?,
                }
            }
            return refused.filter(|_| !is_asked).map_or_else(|| Ok(found.into_values().collect()), Err);
        }
        if self.look_for_announced(bus, scan, &mut found)? {
            return Ok(found.into_values().collect());
        }
        let possible = Family::possible();
        // Where not all ids of the first family are scanned, one of its servos may be there unasked: the next family's requests must not
        // reach it.
        let certain = if scan.last < *Family::default().by_hand().ids().end() { 1 } else { possible.len() };
        for family in possible.into_iter().take(certain) {
            // The same holds where the bus cannot carry the requests: the error ends the scan.
            self.look_for(&family, bus, scan, None, &mut found)?;
            if !found.is_empty() {
                break;
            }
        }
        Ok(found.into_values().collect())
    }

    /// Listens for servos that identify themselves unasked, and asks those alone: no other frame is sent to their bus. True if any
    /// answered.
    fn look_for_announced(
        &mut self,
        bus: usize,
        scan: &Scan,
        found: &mut BTreeMap<u8, Found>,
    ) -> Result<bool, DeskError> {
        let mut frames = Vec::new();
        self.receive_until(LISTEN_NS, |from, received| {
            frames.extend((from == bus).then_some(received.frame));
            frames.len() >= MOST_FRAMES
        });
        for family in FamilyName::ALL.iter().flat_map(|&name| Family::named(name)) {
            let by_hand = family.by_hand();
            let announced = frames.iter().filter_map(|frame| by_hand.announced(frame));
            let announced: BTreeSet<u8> = announced.filter(|id| !found.contains_key(id)).collect();
            if announced.is_empty() {
                continue;
            }
            match self.look_for(&family, bus, scan, Some(&announced), found) {
                // What a bus cannot carry counts as no answer.
                Err(error) if error.is_unsupported() => {}
                asked => asked?,
            }
        }
        Ok(!found.is_empty())
    }

    /// Which servos answer at another bit rate on a bus from which nothing has come; each rate is scanned for. Devices at yet another rate see
    /// errors on the bus meanwhile. Afterwards the link has its own bit rate again.
    ///
    /// # Errors
    /// The adapter is lost.
    pub fn elsewhere(&mut self, bus: usize, scan: &Scan) -> Result<Elsewhere, DeskError> {
        let mut elsewhere = Elsewhere::NotTried;
        let (link, channel) = self.buses[bus].place;
        let is_line = self.links[link].half_duplex(channel);
        for &rate in if is_line { &BAUDS[..] } else { &BIT_RATES } {
            match self.set_bit_rate(bus, Some(rate)) {
                Err(LinkError::Unsupported) => continue,
                set => set.map_err(|why| self.refused(bus, why))?,
            }
            elsewhere = Elsewhere::NoReply;
            let found = self.scan(bus, scan)?;
            if !found.is_empty() {
                elsewhere = Elsewhere::At(rate, found);
                break;
            }
        }
        if elsewhere != Elsewhere::NotTried {
            self.set_bit_rate(bus, None).map_err(|why| self.refused(bus, why))?;
        }
        Ok(elsewhere)
    }

    fn set_bit_rate(&mut self, bus: usize, bits_per_second: Option<u32>) -> Result<(), LinkError> {
        self.links[self.buses[bus].place.0].set_bit_rate(bits_per_second)
    }

    /// How the bit rate of a bus is changed; to this one, if it is known which it has.
    pub fn rate_advice(&self, bus: usize, rate: Option<u32>) -> String {
        self.buses[bus].link.as_ref().map_or_else(String::new, |link| link.bus().rate_advice(rate))
    }

    fn look_for(
        &mut self,
        family: &Family,
        bus: usize,
        scan: &Scan,
        only: Option<&BTreeSet<u8>>,
        found: &mut BTreeMap<u8, Found>,
    ) -> Result<(), DeskError> {
        let (asked_for, alone) = (family, self.is_half_duplex(bus));
        let family = family.by_hand();
        let everybody = family.everybody().filter(|_| scan.together && !alone);
        let ids = family.ids().take_while(|&id| id <= scan.last);
        let ids = ids.filter(|id| only.is_none_or(|only| only.contains(id)));
        let (mut asks, mut more) = (Vec::from_iter(everybody), BTreeMap::new());
        if asks.is_empty() {
            for id in ids {
                let mut who = family.who(id).into_iter();
                asks.extend(who.next());
                more.insert(id, who.collect::<Vec<_>>());
            }
        }
        // What came before was not asked now.
        while self.receive().is_some() {}
        let mut asked = Asked { family: asked_for, requests: Vec::new(), once: true };
        for burst in chunks(asks, if alone { 1 } else { BURST }) {
            self.ask_all(bus, burst, scan.timeout_ns, &mut asked, found).map_err(|error| match error {
                DeskError::Bus { bus, why: LinkError::Unsupported } if *asked_for == Family::default() => {
                    DeskError::NotCarried { bus, family: asked_for.name() }
                }
                error => error,
            })?;
        }
        if !found.is_empty() {
            self.ask_all(bus, Vec::new(), TWIN_NS.min(scan.timeout_ns), &mut asked, found)?;
        }
        for (_, ask) in
            found.keys().copied().collect::<Vec<_>>().iter().filter_map(|id| more.remove_entry(id))
        {
            for ask in ask {
                let mut asked = Asked { family: asked_for, requests: Vec::new(), once: false };
                self.ask_all(bus, vec![ask], scan.timeout_ns, &mut asked, found)?;
            }
        }
        Ok(())
    }

    /// Sends these together and waits for all servos that are asked by id, or to the end of the time if nothing is sent. Answers to
    /// earlier requests count, too.
    fn ask_all(
        &mut self,
        bus: usize,
        asks: Vec<Ask>,
        timeout_ns: i64,
        asked: &mut Asked<'_>,
        found: &mut BTreeMap<u8, Found>,
    ) -> Result<(), DeskError> {
        let mut open: Vec<Option<u8>> = asks.iter().map(|ask| ask.id).collect();
        let ends_early = !open.is_empty();
        let timeout_ns = asks.iter().map(|ask| ask.quiet_ns).fold(timeout_ns, i64::max);
        for ask in asks {
            let sent_ns = now_ns();
            self.request_by(bus, &ask.request(), sent_ns.saturating_add(timeout_ns))?;
            asked.requests.push((ask, sent_ns));
        }
        self.receive_until(timeout_ns, |from, received| {
            if from == bus
                && let Some(id) = asked.enter(bus, &received, found)
            {
                open.retain(|open| *open != Some(id));
            }
            ends_early && open.is_empty()
        });
        Ok(())
    }

    /// Sends a servo the order, if there is one, and then asks it for its state and for further registers.
    ///
    /// # Errors
    /// It does not answer, its answer is damaged, or that cannot be sent.
    pub fn exchange(
        &mut self,
        servo: &DeskServo,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
        timeout_ns: i64,
    ) -> Result<Answer, DeskError> {
        let ServoPlan { id, mounting, family, .. } = &servo.servo;
        let asks = family.by_hand().exchange(*id, mounting, order, registers);
        let asks = asks.map_err(DeskError::Impossible)?;
        let has_steps = asks.len() > 1;
        let answer = self.ask(servo, asks, timeout_ns);
        // After an error the caller assumes that nothing was done, but an order of several steps may have been done in part.
        if answer.is_err() && order.is_some() && has_steps {
            self.switch_off(servo, timeout_ns);
        }
        answer
    }

    /// Sends a servo the command to switch off, without waiting for an answer.
    fn switch_off(&mut self, servo: &DeskServo, timeout_ns: i64) {
        let ServoPlan { id, family, .. } = &servo.servo;
        let frame = family.by_hand().off(*id);
        let request = Request { frame: &frame, to: Some(*id), replies: 0 };
        for _ in 0..OFFS {
            // The error that led here is the better report.
            let _ = self.request_by(servo.bus, &request, now_ns().saturating_add(timeout_ns));
        }
    }

    /// Writes a register of a servo, in the servo's own units.
    ///
    /// # Errors
    /// As [`Desk::exchange`].
    pub fn write(
        &mut self,
        servo: &DeskServo,
        register: &Wanted<'_>,
        value: f64,
        timeout_ns: i64,
    ) -> Result<Answer, DeskError> {
        let asks = servo.servo.family.by_hand().write(servo.servo.id, register, value);
        self.ask(servo, asks.map_err(DeskError::Impossible)?, timeout_ns)
    }

    fn ask(&mut self, servo: &DeskServo, asks: Vec<Ask>, timeout_ns: i64) -> Result<Answer, DeskError> {
        let mut whole = Answer { id: servo.servo.id, ..Answer::default() };
        for ask in asks {
            let answer = self.ask_one(servo, &ask, timeout_ns)?;
            if let Some(why) = answer.wrong {
                return Err(DeskError::Wrong { servo: servo.name.clone(), why });
            }
            whole.add(answer);
        }
        match whole.damaged {
            Some(why) => Err(DeskError::Damaged { servo: servo.name.clone(), why }),
            None => Ok(whole),
        }
    }

    fn ask_one(&mut self, servo: &DeskServo, ask: &Ask, timeout_ns: i64) -> Result<Answer, DeskError> {
        // What came before was not asked now.
        while self.receive().is_some() {}
        self.request_by(servo.bus, &ask.request(), now_ns().saturating_add(timeout_ns))?;
        if ask.answers == 0 {
            self.receive_until(ask.quiet_ns, |_, _| false);
            return Ok(Answer { id: servo.servo.id, ..Answer::default() });
        }
        let (mut answer, mut came_back) = (None, false);
        let mut look = |from, received: Received| {
            answer = (ask.read)(&received.frame).filter(|_| from == servo.bus);
            came_back = from == servo.bus && received.frame.payload() == ask.frame.payload();
            answer.is_some() || came_back
        };
        let timeout_ns = timeout_ns.max(ask.quiet_ns);
        self.receive_until(timeout_ns, &mut look);
        // A servo that sends back the command itself, which is no answer, has not carried it out.
        if answer.is_none() && came_back {
            self.request_by(servo.bus, &ask.request(), now_ns().saturating_add(timeout_ns))?;
            self.receive_until(timeout_ns, |from, received| {
                answer = (ask.read)(&received.frame).filter(|_| from == servo.bus);
                answer.is_some()
            });
        }
        answer.ok_or_else(|| DeskError::NoReply {
            servo: format!("{} (id {} on bus {})", servo.name, servo.servo.id, self.name(servo.bus)),
            timeout_s: timeout_ns as f64 * 1e-9,
        })
    }
}

/// What was asked in a scan, and when.
struct Asked<'a> {
    family: &'a Family,
    requests: Vec<(Ask, i64)>,
    /// Each servo was asked one thing: a second answer with the same id is from another servo.
    once: bool,
}

impl Asked<'_> {
    /// Enters the servo of which this frame is an answer; its id.
    fn enter(&self, bus: usize, received: &Received, found: &mut BTreeMap<u8, Found>) -> Option<u8> {
        let answer_of = |(ask, sent_ns): &(Ask, i64)| Some(((ask.read)(&received.frame)?, *sent_ns));
        // The newest first: a servo asked again answers that.
        let (answer, sent_ns) = self.requests.iter().rev().find_map(answer_of)?;
        let id = answer.id;
        match found.entry(id) {
            Entry::Occupied(known) if self.once && known.get().family == *self.family => {
                known.into_mut().others.push(answer);
            }
            Entry::Occupied(known) => known.into_mut().answer.add(answer),
            Entry::Vacant(new) => {
                let round_trip_ns = received.at_ns - sent_ns;
                let family = self.family.clone();
                new.insert(Found { bus, family, answer, round_trip_ns, others: Vec::new() });
            }
        }
        Some(id)
    }
}

fn chunks<T>(items: Vec<T>, size: usize) -> Vec<Vec<T>> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| {
        Some(items.by_ref().take(size).collect()).filter(|chunk: &Vec<T>| !chunk.is_empty())
    })
    .collect()
}
