//! Finding a place in a log by time.

use crate::block::{DATA_START, MARKER, MarkerBody};
use crate::error::Error;
use crate::reader::{BlockAt, Reader};
use crate::source::Source;

/// How much is read at once when looking for a marker.
pub(crate) const PROBE: usize = 128 << 10;
/// Below this distance reading on is cheaper than looking for another marker.
const NEAR: u64 = 2 * PROBE as u64;
/// Probes that guess from the times at both ends; the others halve.
const GUESSES: u32 = 4;

/// A record and where its newest sample lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
    /// The record's identifier.
    pub identifier: u64,
    /// The position of its block.
    pub position: u64,
}

/// A sound seek marker.
pub(crate) struct Marker {
    pub position: u64,
    pub body: MarkerBody,
}

/// The part of the log in which the time must lie, with the times at its ends as far as known.
struct Range {
    low: u64,
    high: u64,
    low_us: Option<i64>,
    high_us: Option<i64>,
    probes: u32,
}

impl<S: Source> Reader<S> {
    /// Goes to a time: [`next`](Self::next) then gives the first sample later than `time_us`. Returns, for each record
    /// that has one, its newest sample not later than that, by identifier; of samples compressed together, the newest
    /// block of which all are.
    ///
    /// It halves the log at its seek markers and so reads little of it, however long it is. A log without markers is
    /// read through; so is the part behind damage.
    ///
    /// # Errors
    /// When the log cannot be read, or is damaged where it is read.
    pub fn seek(&mut self, time_us: i64) -> Result<Vec<Latest>, Error> {
        let mut range = self.whole()?;
        let mut latest = Vec::new();
        while range.high - range.low > NEAR {
            let middle = range.probe(time_us);
            range.probes += 1;
            match self.find_marker(middle, range.high)? {
                Some(Marker { position, body }) if body.time_us <= time_us => {
                    latest = table(position, &body);
                    (range.low, range.low_us) = (position, Some(body.time_us));
                }
                found => {
                    range.high = middle;
                    range.high_us = found.map(|marker| marker.body.time_us).or(range.high_us);
                }
            }
        }
        self.next = range.low;
        self.read_until(time_us, &mut latest)?;
        self.go_to(self.next, Some(time_us));
        latest.sort_by_key(|latest| latest.identifier);
        Ok(latest)
    }

    /// The whole log as a range; with an index, the time of its last sample is known.
    fn whole(&mut self) -> Result<Range, Error> {
        let mut range = Range { low: DATA_START, high: self.size(), low_us: None, high_us: None, probes: 0 };
        self.rewind();
        if let Some(place) = self.advance_any()? {
            range.low_us = self.item(place, false)?.time_us;
        }
        let last = self.records().iter().filter_map(|record| record.last()).max();
        if let (Some(index), Some(last)) = (self.index, last) {
            range.high = index;
            let header = self.header_at(last)?;
            range.high_us = self.item(BlockAt { position: last, header }, false)?.time_us;
        }
        Ok(range)
    }

    /// Reads on to the first sample later than `time_us`, keeping the newest position of each record.
    fn read_until(&mut self, time_us: i64, latest: &mut Vec<Latest>) -> Result<(), Error> {
        loop {
            let before = self.next;
            let Some(place) = self.advance_any()? else { return Ok(()) };
            let item = self.item(place, false)?;
            if item.time_us.is_none_or(|time| time > time_us) {
                self.next = before;
                return Ok(());
            }
            let found = Latest { identifier: item.record.identifier(), position: place.position };
            match latest.iter_mut().find(|latest| latest.identifier == found.identifier) {
                Some(latest) => *latest = found,
                None => latest.push(found),
            }
        }
    }

    /// The first sound marker that begins at or behind `from` and before `before`.
    fn find_marker(&mut self, from: u64, before: u64) -> Result<Option<Marker>, Error> {
        let mut position = from;
        while position < before {
            let bytes = self.window.at(position, PROBE, PROBE)?;
            if bytes.is_empty() {
                break;
            }
            let Some(hit) = bytes.windows(MARKER.len()).position(|window| *window == MARKER) else {
                position += (bytes.len().saturating_sub(MARKER.len() - 1)).max(1) as u64;
                continue;
            };
            let pattern = position + hit as u64;
            let header_len = u64::from(self.window.at(pattern + 12, 1, PROBE)?.first().copied().unwrap_or(0));
            let start = pattern.checked_sub(header_len).filter(|start| (from..before).contains(start));
            if let Some(start) = start
                && let Some(marker) = self.marker_at(start)?
            {
                return Ok(Some(marker));
            }
            position = pattern + 1;
        }
        Ok(None)
    }
}

impl Range {
    /// Where to look next: first where the time should lie if data flowed evenly, a little before it and a little
    /// behind it in turn, so that both ends close in; then in the middle.
    fn probe(&self, time_us: i64) -> u64 {
        let length = self.high - self.low;
        let middle = self.low + length / 2;
        let (Some(low_us), Some(high_us)) = (self.low_us, self.high_us) else { return middle };
        if self.probes >= GUESSES || low_us >= high_us {
            return middle;
        }
        let share = (time_us as f64 - low_us as f64) / (high_us as f64 - low_us as f64);
        let guess = (length as f64 * share.clamp(0.0, 1.0)) as u64;
        let aim = match self.probes % 2 {
            0 => guess.saturating_sub(NEAR),
            _ => guess + NEAR / 2,
        };
        self.low + aim.clamp(length / 64, length - length / 64 - 1)
    }
}

fn table(position: u64, body: &MarkerBody) -> Vec<Latest> {
    let known = body.latest.iter().filter_map(|&(identifier, previous)| {
        Some(Latest { identifier, position: position.checked_sub(previous)? })
    });
    known.collect()
}
