//! The last seconds of a run, as a log.

use khz_tlog::{Options, Writer};
use khz_view::Known;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// How many bytes are kept, and how many seconds: 6 s of a quadruped at 1 kHz.
const MAX_BYTES: usize = 16 << 20;
const MAX_US: i64 = 30_000_000;
/// What a sample costs beside its bytes.
const BESIDE: usize = 48;

/// The last seconds.
#[derive(Debug, Default)]
pub struct Recent {
    samples: VecDeque<(usize, i64, Arc<[u8]>)>,
    bytes: usize,
}

impl Recent {
    /// Keeps a sample of the record at `place`.
    pub fn keep(&mut self, place: usize, time_us: i64, payload: &[u8]) {
        self.bytes += payload.len() + BESIDE;
        self.samples.push_back((place, time_us, payload.into()));
        while let Some((_, oldest_us, bytes)) = self.samples.front()
            && (self.bytes > MAX_BYTES || time_us.saturating_sub(*oldest_us) > MAX_US)
        {
            self.bytes -= bytes.len() + BESIDE;
            self.samples.pop_front();
        }
    }

    /// The last `seconds`, apart from this, so that other requests need not wait until they are a log. Copies no sample.
    pub fn last(&self, seconds: f64) -> Last {
        let newest_us = self.samples.back().map_or(0, |(_, time_us, _)| *time_us);
        let from_us = newest_us.saturating_sub((seconds.clamp(0.0, MAX_US as f64 / 1e6) * 1e6) as i64);
        let samples = self.samples.iter().filter(|(_, time_us, _)| *time_us >= from_us).cloned().collect();
        Last { from_us, samples }
    }
}

/// Some of the last seconds.
#[derive(Debug)]
pub struct Last {
    from_us: i64,
    samples: Vec<(usize, i64, Arc<[u8]>)>,
}

impl Last {
    /// As a log. A record with one sample, such as the robot file, is in it however old that is.
    ///
    /// # Errors
    /// When a record cannot be written.
    pub fn log(&self, records: &[Known]) -> io::Result<Vec<u8>> {
        let from_us = self.from_us;
        let mut log = Writer::new(Vec::new(), Options::default())?;
        let ids =
            records.iter().map(|known| log.record(&known.name, &known.ty)).collect::<io::Result<Vec<_>>>()?;
        for (known, id) in records.iter().zip(&ids) {
            if let (1, Some((time_us, payload))) = (known.samples, &known.latest)
                && *time_us < from_us
            {
                log.write(*id, Some(*time_us), payload)?;
            }
        }
        for (place, time_us, payload) in &self.samples {
            if let Some(id) = ids.get(*place) {
                log.write(*id, Some(*time_us), payload)?;
            }
        }
        log.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Reader, Type};

    fn known(name: &str, samples: u64, latest: (i64, Vec<u8>)) -> Known {
        let ty = Type::object([("value", Type::Float64)]);
        Known { name: name.into(), ty, latest: Some(latest), samples }
    }

    #[test]
    fn the_last_seconds_are_a_log_that_explains_itself() {
        let bytes = |value: f64| value.to_le_bytes();
        let mut recent = Recent::default();
        recent.keep(0, 0, &bytes(7.0));
        (0..5000).for_each(|ms| recent.keep(1, 1000 * ms, &bytes(ms as f64)));
        let records = [
            known("robot", 1, (0, bytes(7.0).to_vec())),
            known("servo", 5000, (4_999_000, bytes(4999.0).to_vec())),
        ];
        let mut reader = Reader::open(recent.last(1.0).log(&records).unwrap()).unwrap();
        let mut all = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            all.push((item.record.name().to_owned(), item.time_us.unwrap()));
        }
        assert_eq!(all[0], ("robot".into(), 0));
        assert_eq!(all[1..], (3999..5000).map(|ms| ("servo".to_owned(), 1000 * ms)).collect::<Vec<_>>()[..]);
    }

    /// A request for them once held the lock on the robot while 16 MiB became a log, and Stop waited for that.
    #[test]
    fn taking_the_last_seconds_copies_no_sample_and_needs_the_robot_no_longer() {
        let mut recent = Recent::default();
        recent.keep(0, 1, &[7; 1000]);
        let last = recent.last(5.0);
        assert!(Arc::ptr_eq(&last.samples[0].2, &recent.samples[0].2));
        drop(recent);
        assert_eq!(last.samples[0].2.len(), 1000);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = Recent::default();
        (0..100).for_each(|n| recent.keep(0, n, &vec![0; 1 << 20]));
        assert!(recent.bytes <= MAX_BYTES && recent.samples.len() < 17);
        recent.keep(0, 10 * MAX_US, &[0]);
        assert_eq!(recent.samples.len(), 1);
        assert!(Recent::default().last(f64::NAN).log(&[]).is_ok());
    }
}
