//! What if: one input changed, by the user or by the search for what would help.

use crate::costs::{Bridge, Medium};
use crate::plan::{Exchange, Line, TickPlan, resized};
use khz_loop::Aside;
use khz_wire::time::{CanRate, EthernetRate, UartRate};
use khz_wire::{Address, Frame, frame};
use serde::Serialize;

/// Something to change, and what it would bring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What to do.
    pub what: String,
    /// The tick with it.
    pub tick_ns: i64,
    /// How much shorter that is.
    pub gain_ns: i64,
    /// The highest rate with it, with a bus deadline as late as may be.
    pub rate_hz: f64,
}

/// Why a `KEY=VALUE` cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// No `=` in it.
    #[error("`{0}` is no change: write KEY=VALUE, for example servo.count=12")]
    NoValue(String),
    /// Nothing is called that.
    #[error("`{0}` cannot be changed; what can is {list}", list = keys())]
    NoSuchKey(String),
    /// Not a number in range.
    #[error("`{key}={value}`: {key} takes {takes}")]
    BadValue {
        /// What was to be changed.
        key: String,
        /// To what.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// One question goes to all servos of a line, and what it would be for others is not known.
    #[error(
        "`{0}`: these servos are asked together, by questions that the robot file makes: write what is to be tried into a copy of the file"
    )]
    Together(String),
    /// Not `FROM..=TO`.
    #[error("`{0}` is no sweep: write KEY=FROM..TO, for example servo.count=1..40")]
    NoRange(String),
}

type Set = fn(&mut TickPlan, f64);
type Key = (&'static str, &'static str, std::ops::RangeInclusive<f64>, Set);

const MICROSECONDS: &str = "microseconds from 0 to 1000000";

/// What can be changed, what it takes, its range, how.
static KEYS: &[Key] = &[
    ("servo.count", "a whole number from 1 to 126", 1.0..=126.0, |p, v| p.set_servos(v as usize)),
    ("servo.turnaround_us", MICROSECONDS, 0.0..=1e6, |p, v| {
        p.inputs.turnaround_ns = ns(v);
        p.lines.iter_mut().for_each(|line| line.turnaround_ns = ns(v));
    }),
    ("bus.count", "a whole number from 1 to 64", 1.0..=64.0, |p, v| p.set_buses(v as usize)),
    ("bus.rate", "bits per second from 9600 to 4e9", 9600.0..=4e9, |p, v| p.set_rate(v as u32)),
    ("command.bytes", "a whole number of payload bytes from 0 to 64", 0.0..=64.0, |p, v| {
        p.each_exchange(|exchange| exchange.command = padded(&exchange.command, v as usize));
    }),
    ("reply.bytes", "a whole number of payload bytes from 0 to 64", 0.0..=64.0, |p, v| {
        p.each_exchange(|exchange| exchange.reply = padded(&exchange.reply, v as usize));
    }),
    ("host.gap_us", MICROSECONDS, 0.0..=1e6, |p, v| p.inputs.host_gap_ns = ns(v)),
    ("host.handover_us", MICROSECONDS, 0.0..=1e6, |p, v| p.inputs.handover_ns = ns(v)),
    ("host.arrival_us", MICROSECONDS, 0.0..=1e6, |p, v| p.inputs.arrival_ns = ns(v)),
    ("host.servo_us", MICROSECONDS, 0.0..=1e6, |p, v| p.inputs.servo_ns = ns(v)),
    ("controller_us", MICROSECONDS, 0.0..=1e6, |p, v| p.inputs.control_ns = ns(v)),
    ("supervisor_us", MICROSECONDS, 0.0..=1e6, |p, v| p.inputs.supervise_ns = ns(v)),
    ("recorder_us", MICROSECONDS, 0.0..=1e6, |p, v| p.inputs.record_ns = ns(v)),
    ("adapter_us", MICROSECONDS, 0.0..=1e6, |p, v| {
        p.inputs.adapter_ns = ns(v);
        let real = p.lines.iter_mut().filter(|line| line.adapter_ns > 0);
        real.for_each(|line| line.adapter_ns = ns(v));
    }),
    ("bridge_us", "microseconds from 0 to 1000000; the bridge stores and forwards", 0.0..=1e6, |p, v| {
        p.inputs.bridge = Some(Bridge { stores: true, delay_ns: ns(v) });
    }),
    ("switches", "a whole number from 0 to 100", 0.0..=100.0, |p, v| p.inputs.switches = v as i64),
    ("loop.rate_hz", "ticks per second from 1 to 10000", 1.0..=10_000.0, |p, v| {
        p.period_ns = (1e9 / v) as i64;
    }),
    ("loop.bus_deadline_us", "microseconds from 50 to 1000000", 50.0..=1e6, |p, v| {
        p.deadline_ns = Some(ns(v));
    }),
];

/// Those that take whole numbers only.
const WHOLE: &[&str] = &["servo.count", "bus.count", "command.bytes", "reply.bytes", "switches"];

/// Those that change what a question to several servos is.
const OF_QUESTIONS: &[&str] = &["servo.count", "bus.count", "command.bytes"];

fn keys() -> String {
    KEYS.iter().map(|key| key.0).collect::<Vec<_>>().join(", ")
}

fn ns(us: f64) -> i64 {
    (us * 1e3).round() as i64
}

/// Applies `KEY=VALUE` to a plan.
///
/// # Errors
/// The key is unknown, or the value out of its range.
pub fn apply(plan: &mut TickPlan, change: &str) -> Result<(), ChangeError> {
    let (key, value) = change.split_once('=').ok_or_else(|| ChangeError::NoValue(change.to_owned()))?;
    let (name, takes, range, set) = lookup(key.trim())?;
    let fits = |number: &f64| range.contains(number) && (number.fract() == 0.0 || !WHOLE.contains(name));
    let number = value.trim().parse().ok().filter(fits);
    let bad = || ChangeError::BadValue { key: key.to_owned(), value: value.to_owned(), takes };
    let number = number.ok_or_else(bad)?;
    if OF_QUESTIONS.contains(name) && plan.asks_together() {
        return Err(ChangeError::Together(key.to_owned()));
    }
    plan.each(|plan| set(plan, number));
    Ok(())
}

fn lookup(key: &str) -> Result<&'static Key, ChangeError> {
    KEYS.iter().find(|known| known.0 == key).ok_or_else(|| ChangeError::NoSuchKey(key.to_owned()))
}

/// One input over a range, and what it makes of the tick.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// What is changed.
    pub key: String,
    /// Its value, the cycle and the tick in ns.
    pub points: Vec<(f64, i64, i64)>,
}

/// Steps of a sweep over more than this many whole numbers.
const MOST_STEPS: f64 = 100.0;
/// Steps of a sweep whose bounds are not both whole.
const FRACTIONS: f64 = 10.0;

impl Sweep {
    /// Predicts for the values of `KEY=FROM..TO`, both included: every whole number between whole bounds, 101 of them
    /// in a wide range; eleven evenly spread values between others.
    ///
    /// # Errors
    /// As [`apply`], or if it is no range.
    pub fn of(plan: &TickPlan, sweep: &str) -> Result<Self, ChangeError> {
        let no_range = || ChangeError::NoRange(sweep.to_owned());
        let (key, range) = sweep.split_once('=').ok_or_else(no_range)?;
        let (from, to) = range.split_once("..").ok_or_else(no_range)?;
        let bound = |text: &str| text.trim_start_matches('=').trim().parse::<f64>().map_err(|_| no_range());
        let (from, to) = (bound(from)?, bound(to)?);
        if !(from.is_finite() && to.is_finite() && from <= to) {
            return Err(no_range());
        }
        // First, so that an error in a bound is reported for the bound that was written.
        for bound in [from, to] {
            apply(&mut plan.clone(), &format!("{key}={bound}"))?;
        }
        let span = to - from;
        let is_whole = from.fract() == 0.0 && to.fract() == 0.0;
        // Millionths take off what binary fractions add.
        let (steps, parts) = if is_whole { (span.min(MOST_STEPS), 1.0) } else { (FRACTIONS, 1e6) };
        let steps = if span > 0.0 { steps } else { 0.0 };
        let mut points = Vec::new();
        for step in 0..=steps as usize {
            let exact = from + span * step as f64 / steps.max(1.0);
            let value = ((exact * parts).round() / parts).clamp(from, to);
            let mut plan = plan.clone();
            apply(&mut plan, &format!("{key}={value}"))?;
            let [cycle_ns, tick_ns] = plan.durations_ns();
            points.push((value, cycle_ns, tick_ns));
        }
        Ok(Self { key: key.to_owned(), points })
    }
}

impl Exchange {
    /// The same with another servo of this id.
    fn with_id(&self, id: u8) -> Self {
        let to = Address::to(id, true);
        // Other families' identifiers differ by a bit or two, which costs a stuff bit at most.
        let is_moteus = self.command.extended && self.command.fd;
        let addressed = |frame: &Frame, address: Address| {
            let addressed = Frame::new(address.id(), frame.payload()).filter(|_| is_moteus);
            addressed.unwrap_or(*frame)
        };
        Self {
            name: format!("servo {id}"),
            besides: self.besides.clone(),
            shared: None,
            // Servos take turns.
            aside: self
                .aside
                .clone()
                .map(|aside| Aside { turn: u32::from(id) % aside.every.max(1), ..aside }),
            command: addressed(&self.command, to),
            reply: addressed(&self.reply, to.answered_by(id)),
            ..*self
        }
    }
}

impl TickPlan {
    /// Some of its servos are asked by one question.
    pub(super) fn asks_together(&self) -> bool {
        self.lines.iter().flat_map(|line| &line.exchanges).any(|exchange| exchange.shared.is_some())
    }

    fn each_exchange(&mut self, change: impl FnMut(&mut Exchange)) {
        self.lines.iter_mut().flat_map(|line| &mut line.exchanges).for_each(change);
    }

    /// So many servos like the first one, spread evenly over the buses, neighbours together.
    fn set_servos(&mut self, count: usize) {
        let buses = self.lines.len();
        let Some(model) = self.lines.iter().find_map(|line| line.exchanges.first()).cloned() else { return };
        self.lines.iter_mut().for_each(|line| line.exchanges.clear());
        for index in 0..count {
            self.lines[index * buses / count].exchanges.push(model.with_id(index as u8 + 1));
        }
    }

    /// So many buses like the first one, with the same servos spread evenly over them.
    pub(super) fn set_buses(&mut self, count: usize) {
        let Some(model) = self.lines.first().cloned() else { return };
        let servos: Vec<_> = self.lines.drain(..).flat_map(|line| line.exchanges).collect();
        self.lines = (1..=count)
            .map(|bus| Line { name: format!("bus {bus}"), exchanges: Vec::new(), ..model.clone() })
            .collect();
        let per_bus = servos.len().div_ceil(count.max(1)).max(1);
        for (index, servo) in servos.into_iter().enumerate() {
            self.lines[index / per_bus].exchanges.push(servo);
        }
        // A pi3hat has five channels; more buses would be on a second one.
        for (index, line) in self.lines.iter_mut().enumerate() {
            line.hat = line.hat.map(|_| index as u8 % 5 + 1);
        }
    }

    fn set_rate(&mut self, rate: u32) {
        for line in &mut self.lines {
            line.medium = match line.medium {
                Medium::Can(can, brs) => Medium::Can(CanRate { data: rate, ..can }, brs),
                Medium::Serial(uart, packets) => Medium::Serial(UartRate { baud: rate, ..uart }, packets),
                Medium::Ethernet(_) => Medium::Ethernet(EthernetRate { bits_per_second: rate }),
                Medium::Instant => Medium::Instant,
            };
        }
    }
}

fn padded(like: &Frame, len: usize) -> Frame {
    resized(like, frame::padded_len(len))
}

/// A change worth trying: what it is, and how.
type Idea = (&'static str, fn(&mut TickPlan));

static IDEAS: &[Idea] = &[
    ("twice the bit rate (CAN-FD: of the data phase)", |p| {
        p.lines.iter_mut().for_each(|line| line.medium = line.medium.faster(2.0));
    }),
    ("twice as many buses", |p| p.set_buses(2 * p.lines.len())),
    ("servos that answer twice as fast", |p| {
        p.lines.iter_mut().for_each(|line| line.turnaround_ns /= 2);
        p.each_exchange(|exchange| exchange.delay_ns /= 2);
    }),
    // What servos that are asked together are asked for is as short as their tables allow.
    ("commands and replies half as long", |p| {
        if p.asks_together() {
            return;
        }
        p.each_exchange(|exchange| {
            let half = |frame: &Frame| padded(frame, frame.payload().len() / 2);
            (exchange.command, exchange.reply) = (half(&exchange.command), half(&exchange.reply));
        });
    }),
    ("a host that polls: 4 µs from reply to query", |p| {
        p.inputs.host_gap_ns = p.inputs.host_gap_ns.min(4_000);
    }),
    ("links that take and give frames twice as fast", |p| {
        p.inputs.handover_ns /= 2;
        p.inputs.arrival_ns /= 2;
        p.inputs.spi.transaction_ns /= 2;
    }),
    ("an adapter twice as fast", |p| p.lines.iter_mut().for_each(|line| line.adapter_ns /= 2)),
    ("no bridge between host and servos", |p| p.inputs.bridge = None),
    ("commands and queries in one frame", |p| {
        if let Some(separate) = p.inputs.separate.take() {
            p.each_exchange(|exchange| {
                let together = exchange.command.payload().len() + separate.payload;
                exchange.command = resized(&exchange.command, together);
            });
        }
    }),
    ("the controller beside the cycle (mode = \"pipelined\")", |p| p.pipelined = true),
];

/// Every change that shortens the tick by a hundredth or more, the best first.
pub(super) fn worthwhile(plan: &TickPlan, tick_ns: i64) -> Vec<Change> {
    let tried = IDEAS.iter().map(|(what, change)| {
        let mut changed = plan.clone();
        changed.each(change);
        let [_, after_ns] = changed.durations_ns();
        let [_, rate_hz] = changed.highest_rates_hz();
        Change { what: (*what).to_owned(), tick_ns: after_ns, gain_ns: tick_ns - after_ns, rate_hz }
    });
    let mut changes: Vec<_> =
        tried.filter(|change| change.gain_ns > 0 && change.gain_ns * 100 >= tick_ns).collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.gain_ns));
    changes
}
