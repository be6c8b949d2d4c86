//! What was counted and measured: in a whole run, or between two looks at it.
use super::modes::Excursions;
use super::{Counts, Unattended, Unexpected};
use khz_page::{Distribution, Measured, Trace};
use khz_rt::Histogram;
use std::net::SocketAddr;

/// What was counted and measured: in a whole run, or between two looks at it.
#[derive(Debug)]
pub struct Tally {
    /// Device by device, in the order they were given or found.
    pub devices: Vec<DeviceTally>,
    /// From a tick's question to its last answer.
    pub cycle: Series,
    /// How late the ticks began, after the time waited for.
    pub late_ticks: Series,
    /// Ticks that did not get all their answers in time.
    pub incomplete: u64,
    /// Ticks in which was asked.
    pub ticks: u64,
    /// The same over all planned periods.
    pub planned: Planned,
    /// What came and was no answer of this run.
    pub unexpected: Unexpected,
    /// Answers that were not seen to arrive.
    pub unattended: Unattended,
    /// Cycles that took unusually long.
    pub excursions: Excursions,
    /// Round trips the kernel's own times split.
    pub split: Split,
}

/// Times over all planned periods, so that periods in which the sender itself did not ask count, too (HdrHistogram's
/// correction of coordinated omission).
#[derive(Debug, Default)]
pub struct Planned {
    /// Planned periods in which was not asked.
    pub missed: u64,
    /// The run's time, from the first planned tick to the end of the last period, ns.
    pub duration_ns: i64,
    /// From the planned time of a question to its answer, ns; of one that was never asked, to the answer of the next asked.
    pub round_trip: Histogram,
    /// How late ticks began after their planned time, ns; of one that never began, until the next began.
    pub late: Histogram,
}

impl Planned {
    fn clear(&mut self) {
        (self.missed, self.duration_ns) = (0, 0);
        self.round_trip.clear();
        self.late.clear();
    }
}

/// One device's part of a [`Tally`].
#[derive(Debug)]
pub struct DeviceTally {
    /// Its address.
    pub address: SocketAddr,
    /// Its counts; what was sent and not answered is lost.
    pub counts: Counts,
    /// Its round trips.
    pub round_trip: Series,
    /// How long it held the requests, as it reports itself.
    pub held: Histogram,
}

/// Where the kernel's own times split round trips, ns.
#[derive(Debug, Default)]
pub struct Split {
    /// From the program to the kernel's handing it to the network card.
    pub out: Histogram,
    /// From there to the answer's arrival in the kernel: wire, switches, device.
    pub between: Histogram,
    /// From there to the program.
    pub back: Histogram,
    /// From the card's sending to its receiving, by the card's clock.
    pub card: Histogram,
    /// Round trips that could not be split, as a time was missing or the clock was set meanwhile.
    pub missing: u64,
}

/// The parts of one round trip, ns.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// As [`Split::out`].
    pub out_ns: i64,
    /// As [`Split::between`].
    pub between_ns: i64,
    /// As [`Split::back`].
    pub back_ns: i64,
    /// As [`Split::card`], if the card reports it.
    pub card_ns: Option<i64>,
}

impl Split {
    /// Counts a round trip with its parts, if they are known.
    pub fn record(&mut self, parts: Option<Parts>) {
        let Some(parts) = parts else {
            self.missing += 1;
            return;
        };
        self.out.record(parts.out_ns, 0);
        self.between.record(parts.between_ns, 0);
        self.back.record(parts.back_ns, 0);
        if let Some(card_ns) = parts.card_ns {
            self.card.record(card_ns, 0);
        }
    }

    fn clear(&mut self) {
        for part in [&mut self.out, &mut self.between, &mut self.back, &mut self.card] {
            part.clear();
        }
        self.missing = 0;
    }
}

impl Tally {
    /// An empty one for these devices.
    pub fn new(devices: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            devices: devices.into_iter().map(DeviceTally::new).collect(),
            cycle: Series::with_buckets(5_120),
            late_ticks: Series::with_buckets(5_120),
            incomplete: 0,
            ticks: 0,
            planned: Planned::default(),
            unexpected: Unexpected::default(),
            unattended: Unattended::default(),
            excursions: Excursions::with_room(),
            split: Split::default(),
        }
    }

    /// Forgets all but the devices.
    pub fn clear(&mut self) {
        for device in &mut self.devices {
            device.counts = Counts::default();
            device.round_trip.clear();
            device.held.clear();
        }
        self.cycle.clear();
        self.late_ticks.clear();
        (self.incomplete, self.ticks) = (0, 0);
        (self.unexpected, self.unattended) = (Unexpected::default(), Unattended::default());
        self.planned.clear();
        self.excursions.clear();
        self.split.clear();
    }
}

impl DeviceTally {
    pub(super) fn new(address: SocketAddr) -> Self {
        let (counts, round_trip) = (Counts::default(), Series::with_buckets(2_048));
        Self { address, counts, round_trip, held: Histogram::new() }
    }
}

/// A duration over time and as a distribution.
#[derive(Debug, Default)]
pub struct Series {
    trace: Trace,
    values: Histogram,
}

impl Series {
    fn with_buckets(buckets: usize) -> Self {
        Self { trace: Trace::with_buckets(buckets), values: Histogram::new() }
    }

    pub(super) fn push(&mut self, time_ns: i64, value_ns: i64) {
        self.trace.push(time_ns as f64 / 1e9, value_ns as f64);
        self.values.record(value_ns, time_ns);
    }

    fn clear(&mut self) {
        self.trace.clear();
        self.values.clear();
    }

    /// As a page shows it.
    pub fn measured(&self) -> Measured {
        Measured::new(self.trace.clone(), Distribution::from_ns(self.values.values()))
    }

    /// The values.
    pub fn values(&self) -> &Histogram {
        &self.values
    }
}
