//! A robot as the model sees it: buses with their exchanges.

use crate::costs::{Inputs, Medium};
use khz_file::RobotConfig;
use khz_file::config::{ImuLink, LinkConfig, RobotFile, ServoConfig};
use khz_file::links::{Adapter, WireKind};
use khz_loop::time::LAST_LOOK_NS;
use khz_loop::timing::{Mode, usual_deadline_ns};
use khz_loop::{Aside, MOST_ASKED, Occasion};
use khz_page::duration;
use khz_wire::Frame;
use khz_wire::time::{CanRate, UartRate};
use std::collections::BTreeMap;

/// A robot to be timed.
#[derive(Clone, Debug, PartialEq)]
pub struct TickPlan {
    /// Its name.
    pub name: String,
    /// Its file, which commands name.
    pub file: RobotFile,
    /// One tick as configured, ns.
    pub period_ns: i64,
    /// The bus deadline, from the start of a tick, ns; `None`: the robot file leaves it to the period.
    pub deadline_ns: Option<i64>,
    /// The controller runs beside the cycle, not after it.
    pub pipelined: bool,
    /// Its buses.
    pub lines: Vec<Line>,
    /// Its IMU.
    pub imu: Option<ImuLink>,
    /// What the robot file does not have.
    pub inputs: Inputs,
    /// How late replies come within what their servos' delays vary by: 0 is the earliest, 1 the latest, and 0.5 what a usual cycle has.
    pub lateness: f64,
    /// Which of the cycles it is in which servos are asked something besides in turn.
    pub turn: u32,
    /// When servos send what they send by themselves, if that is as late as it may be: they all do at once, ns.
    pub unsolicited_ns: i64,
    /// The same robot when other frames travel: in a cycle before control, in which every servo is commanded to stop, and behind it those
    /// in which servos are switched on. None in these themselves.
    pub start: Vec<Self>,
}

/// One in so many servos of a bus is switched on at a time; see [`Occasion::SwitchingOn`].
const SWITCHED_AT_ONCE: usize = 4;

/// One bus.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its wire.
    pub medium: Medium,
    /// From the end of a request to the start of its reply, ns.
    pub turnaround_ns: i64,
    /// Behind a link with delays of its own; not emulated.
    pub is_real: bool,
    /// Behind an Ethernet port, the bus that the servos share, if they share one.
    pub behind: Option<Medium>,
    /// What an adapter adds each way, ns.
    pub adapter_ns: i64,
    /// What the robot file's injected faults delay every reply by (`faults.delay_us`), ns.
    pub delay_ns: i64,
    /// By so much more at most (`faults.jitter_us`), ns.
    pub jitter_ns: i64,
    /// Channel of a pi3hat, 1 to 5.
    pub hat: Option<u8>,
    /// Its servos.
    pub exchanges: Vec<Exchange>,
}

/// A servo's share of the cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The servo.
    pub name: String,
    /// What goes before it and is not answered.
    pub besides: Vec<Frame>,
    /// Command and query.
    pub command: Frame,
    /// Of a servo that is asked with others: what asks all of them instead, at the first of them; nothing at the others.
    pub shared: Option<Vec<Frame>>,
    /// Its reply.
    pub reply: Frame,
    /// How much later than the turnaround of its bus it answers, ns.
    pub delay_ns: i64,
    /// By how much its replies differ in when they come, ns.
    pub spread_ns: i64,
    /// How long it may take to answer the frame that switches it on, if that is longer, ns.
    pub switching_ns: i64,
    /// What it is asked besides in some cycles.
    pub aside: Option<Aside>,
    /// What it sends by itself, and how often, ns.
    pub by_itself: Option<(Frame, i64)>,
}

impl Exchange {
    /// What asks it and, at the first of them, those that are asked with it.
    pub(super) fn asked(&self) -> &[Frame] {
        self.shared.as_deref().unwrap_or(std::slice::from_ref(&self.command))
    }
}

impl Line {
    /// Only one query is outstanding at a time.
    pub const fn is_half_duplex(&self) -> bool {
        matches!(self.medium, Medium::Serial(..))
    }

    /// Becomes the emulated counterpart of this link.
    fn emulate(&mut self, link: &LinkConfig) {
        if matches!(self.medium, Medium::Ethernet(_)) {
            self.medium = self.behind.unwrap_or(Medium::Instant);
        }
        self.turnaround_ns = link.bus().emulated().turnaround_ns;
        (self.is_real, self.adapter_ns, self.hat) = (false, 0, None);
        (self.delay_ns, self.jitter_ns) = (0, 0);
    }

    /// What the model does not know of the link, in words.
    pub(super) fn uncounted(&self) -> Option<&'static str> {
        let is_adapter = self.hat.is_some() || self.adapter_ns > 0;
        match self.medium {
            _ if !self.is_real => {
                Some("emulated; a real link adds driver, adapter or network delays, which are not counted")
            }
            Medium::Can(..) if !is_adapter => Some(
                "counted as a CAN controller of this computer; an adapter on USB adds delays, which are not counted",
            ),
            Medium::Ethernet(_) if self.behind.is_none() => Some(
                "counted as servos with Ethernet ports of their own; a gateway's bus is counted if the file has `behind = \"can_fd\"`. \
                 What boards, gateways and other traffic take is not counted",
            ),
            Medium::Ethernet(_) => {
                Some("what the gateway and other traffic on the network take is not counted")
            }
            _ => None,
        }
    }
}

impl TickPlan {
    /// The plan of a robot file.
    pub fn of(robot: &RobotConfig, inputs: Inputs) -> Self {
        let before = |occasion: &dyn Fn(usize, usize) -> Occasion| {
            let mut plan = Self { lateness: 1.0, ..Self::with(robot, inputs.clone(), occasion) };
            // While gains change nothing is asked besides.
            plan.lines
                .iter_mut()
                .flat_map(|line| &mut line.exchanges)
                .for_each(|exchange| exchange.aside = None);
            plan
        };
        // A part at a time is verified, is damped in the next cycle, is switched on in the one after, which takes frames as "stop" does,
        // and follows. Those behind are stopped. In the last step all of them begin to follow.
        let switching_on = |step: usize| {
            before(&|number, servos| match number / servos.div_ceil(SWITCHED_AT_ONCE).max(1) {
                part if part == step => Occasion::SwitchingOn,
                part if part < step && part + 2 != step => Occasion::Changing,
                _ => Occasion::Stopped,
            })
        };
        let stopped = before(&|_, _| Occasion::Stopped);
        let start = std::iter::once(stopped).chain((0..=SWITCHED_AT_ONCE + 2).map(switching_on)).collect();
        Self { start, ..Self::with(robot, inputs, &|_, _| Occasion::Following) }.in_usual_turn()
    }

    /// So many cycles differ in what servos are asked besides.
    pub(super) fn turns(&self) -> u32 {
        let asides =
            self.lines.iter().flat_map(|line| &line.exchanges).filter_map(|exchange| exchange.aside.as_ref());
        asides.map(|aside| aside.every).max().unwrap_or(1)
    }

    fn in_usual_turn(mut self) -> Self {
        let cycle_ns = |turn| Self { turn, start: Vec::new(), ..self.clone() }.durations_ns()[0];
        let mut turns: Vec<_> = (0..self.turns()).map(|turn| (cycle_ns(turn), turn)).collect();
        turns.sort_unstable();
        self.turn = turns[turns.len() / 2].1;
        self
    }

    /// The same robot on the wires as they are emulated, in virtual time: without adapters, SPI, networks and injected delays.
    pub fn emulated(robot: &RobotConfig) -> Self {
        let mut plan = Self::of(robot, Inputs::VIRTUAL);
        plan.imu = plan.imu.filter(|imu| *imu == ImuLink::Emulated);
        plan.each(|plan| {
            plan.lines.iter_mut().zip(&robot.buses).for_each(|(line, bus)| line.emulate(&bus.link))
        });
        plan
    }

    /// The plan of a tick in which the first servo of each bus is asked as after a lost reply: a family that distinguishes its queries from
    /// each other needs longer frames then.
    pub fn after_loss(robot: &RobotConfig, inputs: Inputs) -> Self {
        let occasion = |number, _| if number == 0 { Occasion::AfterLoss } else { Occasion::Following };
        Self { lateness: 1.0, ..Self::with(robot, inputs, &occasion) }
    }

    /// Each servo on its occasion, by its number among those of its family on its bus and how many of these there are. They are asked in
    /// this order: family by family, but those that are switched on before all others.
    fn with(robot: &RobotConfig, inputs: Inputs, occasion: &dyn Fn(usize, usize) -> Occasion) -> Self {
        let line = |(index, bus): (usize, &khz_file::config::BusConfig)| {
            let servos: Vec<_> = robot.servos_on(index).map(|(_, servo)| servo).collect();
            let asked = asked(&servos, occasion);
            let groups = groups(&asked);
            let exchanges = asked.into_iter().enumerate().map(|(place, (servo, occasion))| {
                let is_first = groups.iter().any(|(places, _)| places[0] == place);
                exchange(servo, occasion, is_first, &inputs)
            });
            let [delay_ns, jitter_ns] =
                [bus.faults.delay_us, bus.faults.jitter_us].map(|us| (us * 1e3) as i64);
            let name = bus.name.clone();
            Line {
                name,
                delay_ns,
                jitter_ns,
                exchanges: together(exchanges.collect(), &groups),
                ..bare(&bus.link, &inputs)
            }
        };
        let lines = robot.buses.iter().enumerate().map(line).collect();
        let imu = robot.imu.as_ref().map(|imu| imu.link);
        let imu_ns = match imu {
            Some(ImuLink::Emulated) => (robot.emulation.imu_latency_us * 1e3) as i64,
            _ => inputs.imu_ns,
        };
        Self {
            name: robot.name.clone(),
            file: robot.file.clone(),
            period_ns: robot.timing.period_ns(),
            deadline_ns: robot.timing.bus_deadline_us.map(|_| robot.timing.bus_deadline_ns()),
            pipelined: robot.timing.mode == Mode::Pipelined,
            lines,
            imu,
            inputs: Inputs { imu_ns, ..inputs },
            lateness: 0.5,
            turn: 0,
            unsolicited_ns: 0,
            start: Vec::new(),
        }
    }

    /// How long after the start of a tick replies count, ns.
    pub fn counts_until_ns(&self) -> i64 {
        self.deadline_ns.unwrap_or_else(|| usual_deadline_ns(self.period_ns)) - LAST_LOOK_NS
    }

    /// What is to be changed if the replies to queries of such a robot count, and after a lost one do not; `None` if they count, or do not
    /// anyway.
    pub fn advice_for_loss(robot: &RobotConfig, inputs: Inputs) -> Option<String> {
        let usual = Self::of(robot, inputs.clone());
        let (until_ns, usual_ns) = (usual.counts_until_ns(), usual.longest_ns());
        let longer_ns = Self::after_loss(robot, inputs).durations_ns()[0];
        (usual_ns <= until_ns && longer_ns > until_ns).then(|| {
            let [longer, until] = [longer_ns, until_ns].map(|ns| duration(ns as f64));
            let least_us = (longer_ns + LAST_LOOK_NS + 999) / 1000;
            format!(
                "after a lost reply a servo's queries are longer for some ticks: the last reply is then read after {longer}, and replies \
                 count until {until}; one loss makes further replies late. Set `loop.bus_deadline_us` to {least_us} at least"
            )
        })
    }

    /// The highest rate at which such a cycle and tick fit: with the bus deadline as it is set (0 if replies miss it at any rate),
    /// and with one as late as may be.
    pub(super) fn highest_rates_hz(&self) -> [f64; 2] {
        let ([cycle_ns, tick_ns], longest_ns) = (self.durations_ns(), self.longest_ns());
        let replies_ns = longest_ns + LAST_LOOK_NS;
        // A deadline is less than its period.
        let least_ns = (tick_ns + longest_ns - cycle_ns).max(replies_ns + 1);
        let as_set_ns = match self.deadline_ns {
            None => Some(least_ns.max(replies_ns * 10 / 8 + 10)),
            Some(deadline_ns) => (replies_ns <= deadline_ns).then(|| least_ns.max(deadline_ns + 1)),
        };
        [as_set_ns.map_or(0.0, |ns| 1e9 / ns as f64), 1e9 / least_ns as f64]
    }

    /// This plan, and those of other frames.
    pub(super) fn each(&mut self, change: impl Fn(&mut Self)) {
        self.start.iter_mut().for_each(&change);
        change(self);
    }

    /// Servos on all buses.
    pub fn servos(&self) -> usize {
        self.lines.iter().map(|line| line.exchanges.len()).sum()
    }
}

/// The servos of a bus, each on its occasion, in the order in which they are asked.
fn asked<'a>(
    servos: &[&'a ServoConfig],
    occasion: &dyn Fn(usize, usize) -> Occasion,
) -> Vec<(&'a ServoConfig, Occasion)> {
    let occasion = |(place, servo): (usize, &&'a ServoConfig)| {
        let of_family =
            |servos: &[&ServoConfig]| servos.iter().filter(|other| other.family == servo.family).count();
        (*servo, occasion(of_family(&servos[..place]), of_family(servos)))
    };
    let mut asked: Vec<_> = servos.iter().enumerate().map(occasion).collect();
    asked.sort_by_key(|(servo, occasion)| (*occasion != Occasion::SwitchingOn, servo.family as usize));
    // All of a group are switched on at once.
    if asked.iter().any(|(_, occasion)| *occasion == Occasion::SwitchingOn) {
        let grouped = asked.iter_mut().filter(|(servo, _)| servo.family().settings().group().is_some());
        grouped.for_each(|(_, occasion)| *occasion = Occasion::SwitchingOn);
    }
    asked
}

/// What goes to a servo and comes from it; `is_first`: of those that answer one question.
fn exchange(servo: &ServoConfig, occasion: Occasion, is_first: bool, inputs: &Inputs) -> Exchange {
    let family = servo.family();
    let settings = family.settings();
    let [command, reply] = settings.exchange(servo.id, occasion);
    let reply = if is_first { settings.first_of_group(&reply) } else { reply };
    let (command, reply) = match inputs.payload {
        Some((sent, back)) => (resized(&command, sent), resized(&reply, back)),
        None => (command, reply),
    };
    Exchange {
        name: servo.name.clone(),
        besides: settings.besides(servo.id, occasion),
        command,
        shared: None,
        reply,
        delay_ns: settings.reply_delay_ns(),
        spread_ns: settings.reply_spread_ns(),
        switching_ns: settings.switching_ns(),
        aside: settings.aside(servo.id).filter(|_| occasion == Occasion::Following),
        by_itself: settings.by_itself(servo.id),
    }
}

/// Servos that are asked by one question: their places on the bus, and what asks them.
type Groups = Vec<(Vec<usize>, Vec<Frame>)>;

fn groups(asked: &[(&ServoConfig, Occasion)]) -> Groups {
    let mut numbers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, (servo, _)) in asked.iter().enumerate() {
        if let Some(group) = servo.family().settings().group() {
            numbers.entry(group).or_default().push(place);
        }
    }
    let question = |places: Vec<usize>| {
        let ids: Vec<u8> = places.iter().map(|place| asked[*place].0.id).collect();
        let (first, occasion) = asked[places[0]];
        let frames = first.family().settings().question(&ids, occasion);
        (places, frames)
    };
    // Of more than one question has room for, the others have a second one.
    let questions = numbers
        .into_values()
        .flat_map(|places| places.chunks(MOST_ASKED).map(<[usize]>::to_vec).collect::<Vec<_>>());
    questions.map(question).collect()
}

/// Group behind group, each asked at its first servo.
fn together(mut exchanges: Vec<Exchange>, groups: &Groups) -> Vec<Exchange> {
    if groups.is_empty() {
        return exchanges;
    }
    let mut ordered = Vec::new();
    for (places, frames) in groups {
        for (number, place) in places.iter().enumerate() {
            exchanges[*place].shared = Some(if number == 0 { frames.clone() } else { Vec::new() });
            ordered.push(exchanges[*place].clone());
        }
    }
    ordered
}

/// A frame to the same address with a payload of another length. Its contents are not known: zeros need the most stuff bits.
pub(super) fn resized(frame: &Frame, len: usize) -> Frame {
    Frame::new(frame.id, &[0; 64][..len.min(64)]).unwrap_or(*frame)
}

fn bare(link: &LinkConfig, inputs: &Inputs) -> Line {
    let (link, is_real) = (link.bus(), !link.is_emulated());
    let bus = link.emulated();
    let medium = match (link.adapter(), bus.wire) {
        (Adapter::Ethernet, _) => Medium::Ethernet(inputs.ethernet),
        (_, WireKind::CanFd { nominal_bps, data_bps }) => {
            Medium::Can(CanRate { nominal: nominal_bps, data: data_bps }, link.bit_rate_switch())
        }
        (_, WireKind::Rs485 { baud, packets }) => Medium::Serial(UartRate::eight_n_one(baud), packets),
        (_, WireKind::Instant) => Medium::Instant,
    };
    let turnaround_ns = match medium {
        Medium::Instant => 0,
        _ if is_real => inputs.turnaround_ns,
        _ => bus.turnaround_ns,
    };
    let behind = match (medium, bus.wire) {
        (Medium::Ethernet(_), WireKind::CanFd { nominal_bps, data_bps }) => {
            Some(Medium::Can(CanRate { nominal: nominal_bps, data: data_bps }, link.bit_rate_switch()))
        }
        _ => None,
    };
    let (hat, adapter_ns) = match link.adapter() {
        Adapter::Hat(channel) => (Some(channel), 0),
        Adapter::Usb => (None, inputs.adapter_ns),
        Adapter::Emulated | Adapter::None | Adapter::Ethernet => (None, 0),
    };
    Line {
        name: String::new(),
        medium,
        turnaround_ns,
        is_real,
        behind,
        adapter_ns,
        delay_ns: 0,
        jitter_ns: 0,
        hat,
        exchanges: Vec::new(),
    }
}
