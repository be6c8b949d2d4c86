//! What feeds a controller from outside, as the supervisor sees it: how long it has been silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Until when a controller goes on with what it was fed. Clones share it: the controller writes, the loop reads, on whatever threads.
#[derive(Clone, Debug)]
pub struct Feed(Arc<Expected>);

#[derive(Debug)]
struct Expected {
    until_ns: AtomicI64,
    bearable_ns: AtomicI64,
}

impl Feed {
    /// Nothing is expected yet.
    pub fn new() -> Self {
        Self(Arc::new(Expected { until_ns: AtomicI64::new(i64::MAX), bearable_ns: AtomicI64::new(0) }))
    }

    /// What came lasts until `until_ns`, and silence of `bearable_ns` after that is borne. Two stores; never waits.
    pub fn expect(&self, until_ns: i64, bearable_ns: i64) {
        self.0.bearable_ns.store(bearable_ns, Ordering::Relaxed);
        self.0.until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Nothing is missed. One store; never waits.
    pub fn nothing_expected(&self) {
        self.0.until_ns.store(i64::MAX, Ordering::Relaxed);
    }

    /// How long it has been silent, ns, if that is more than is borne.
    pub fn silent_ns(&self, now_ns: i64) -> Option<i64> {
        let silent_ns = now_ns.saturating_sub(self.0.until_ns.load(Ordering::Relaxed));
        (silent_ns > self.0.bearable_ns.load(Ordering::Relaxed)).then_some(silent_ns)
    }
}

impl Default for Feed {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_when_something_is_expected_and_it_lasts() {
        let feed = Feed::new();
        assert_eq!(feed.silent_ns(i64::MAX - 1), None);
        feed.expect(100, 50);
        assert_eq!([feed.silent_ns(150), feed.silent_ns(151)], [None, Some(51)]);
        feed.nothing_expected();
        assert_eq!(feed.silent_ns(1000), None);
    }
}
