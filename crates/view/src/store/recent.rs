//! Every sample of the last seconds.

use super::Span;
use std::collections::VecDeque;

/// Samples of a record that are kept and dropped together.
const CHUNK: usize = 256;

/// Samples of all records; the oldest give way.
#[derive(Debug)]
pub(super) struct Recent {
    budget: usize,
    bytes: usize,
    tracks: Vec<Track>,
}

#[derive(Debug)]
struct Track {
    width: usize,
    chunks: VecDeque<Chunk>,
    /// Samples from here on are all there; `None` if none was ever dropped.
    whole_from_us: Option<i64>,
}

#[derive(Debug)]
struct Chunk {
    /// In order.
    times: Vec<i64>,
    /// Column after column, each with room for [`CHUNK`] values.
    values: Vec<f32>,
}

impl Recent {
    pub fn new(budget: usize) -> Self {
        Self { budget, bytes: 0, tracks: Vec::new() }
    }

    pub fn resize(&mut self, widths: &[usize]) {
        let new = widths.iter().skip(self.tracks.len());
        self.tracks.extend(new.map(|&width| Track { width, chunks: VecDeque::new(), whole_from_us: None }));
    }

    pub fn push(&mut self, record: usize, time_us: i64, row: &[f64]) {
        let Some(track) = self.tracks.get_mut(record).filter(|track| track.width > 0) else { return };
        if track.chunks.back().is_none_or(|chunk| chunk.times.len() == CHUNK) {
            self.bytes += track.open();
            self.make_room(record);
        }
        let Some(chunk) = self.tracks[record].chunks.back_mut() else { return };
        let place = chunk.times.len();
        for (column, &value) in row.iter().enumerate() {
            chunk.values[column * CHUNK + place] = value as f32;
        }
        let last_us = chunk.times.last().copied().unwrap_or(i64::MIN);
        chunk.times.push(time_us.max(last_us));
    }

    /// Drops the oldest samples, but not the chunk just opened.
    fn make_room(&mut self, opened: usize) {
        while self.bytes > self.budget {
            let spare =
                |(record, track): &(usize, &mut Track)| track.chunks.len() > usize::from(*record == opened);
            let oldest = self.tracks.iter_mut().enumerate().filter(spare);
            let Some((_, track)) = oldest.min_by_key(|(_, track)| track.chunks[0].times.first().copied())
            else {
                return;
            };
            self.bytes -= track.drop_oldest();
        }
    }

    /// The memory in use.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a signal's values into the buckets of a span. Returns how many buckets at its beginning are older than what
    /// is kept; these are left alone.
    pub fn fill(&self, record: usize, column: usize, span: Span, min: &mut [f32], max: &mut [f32]) -> usize {
        let Some(track) = self.tracks.get(record) else { return 0 };
        let old = track.whole_from_us.map_or(0, |from_us| (from_us >> span.level) + 1 - span.from);
        let old = usize::try_from(old).unwrap_or(0).min(span.count);
        let from_us = span.from_us() + ((old as i64) << span.level);
        for chunk in &track.chunks {
            if chunk.times.last().is_none_or(|last_us| *last_us < from_us) {
                continue;
            }
            if chunk.times[0] >= span.to_us() {
                break;
            }
            let range =
                [from_us, span.to_us()].map(|us| chunk.times.partition_point(|time_us| *time_us < us));
            for place in range[0]..range[1] {
                let bucket = ((chunk.times[place] >> span.level) - span.from) as usize;
                let value = chunk.values[column * CHUNK + place];
                // With NaN, which is nothing so far, `min` gives the other.
                (min[bucket], max[bucket]) = (min[bucket].min(value), max[bucket].max(value));
            }
        }
        old
    }
}

impl Track {
    /// Begins a chunk and returns its size.
    fn open(&mut self) -> usize {
        let chunk = Chunk { times: Vec::with_capacity(CHUNK), values: vec![f32::NAN; self.width * CHUNK] };
        self.chunks.push_back(chunk);
        self.chunk_bytes()
    }

    fn drop_oldest(&mut self) -> usize {
        let Some(chunk) = self.chunks.pop_front() else { return 0 };
        self.whole_from_us = chunk.times.last().copied().or(self.whole_from_us);
        self.chunk_bytes()
    }

    fn chunk_bytes(&self) -> usize {
        CHUNK * (self.width * size_of::<f32>() + size_of::<i64>())
    }
}
