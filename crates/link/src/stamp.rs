//! The kernel's receive times, which are of `CLOCK_REALTIME`, as times of `CLOCK_MONOTONIC`.

/// Both clocks read together, once per batch and only if needed.
#[derive(Default)]
pub(crate) struct Clocks(Option<(i64, i64)>);

impl Clocks {
    /// When a packet with this stamp was received; `now_ns` if it has none.
    pub(crate) fn at_ns(&mut self, stamp: Option<i64>, now_ns: i64) -> i64 {
        let Some(stamp_ns) = stamp else { return now_ns };
        let read = || (khz_rt::clock::realtime_ns(), khz_rt::now_ns());
        let (realtime_ns, monotonic_ns) = *self.0.get_or_insert_with(read);
        monotonic_ns - (realtime_ns - stamp_ns).max(0)
    }
}
