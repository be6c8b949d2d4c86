//! What a sender logs does not touch the heap, even when it is dropped.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_rt::alloc_trap::{CountingAllocator, forbid};
use khz_rtt::{AskedTick, Log, RoundTrip};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const TRIP: RoundTrip = RoundTrip {
    run: 7,
    sequence: 1,
    device: [1; 16],
    device_port: 7755,
    sender: [0; 16],
    asked_ns: 1,
    round_trip_ns: 2,
    held_ns: 3,
    late: false,
};
const TICK: AskedTick = AskedTick {
    run: 7,
    sequence: 1,
    planned_ns: 1,
    begun_ns: 2,
    ends_ns: 3,
    late_ns: 1,
    missed: 0,
    cycle_ns: -1,
};

#[test]
fn telling_the_log_does_not_touch_the_heap() {
    const TURNS: u64 = 200_000;
    let folder = tempfile::tempdir().unwrap();
    let (mut tap, log) = Log::begin(Some(&folder.path().join("a.tlog")), None).unwrap();
    let ((), heap) = forbid(|| {
        for turn in 0..TURNS as i64 {
            tap.put(turn * 1_000, &TRIP);
            tap.tick(turn * 1_000, &TICK);
        }
    });
    heap.assert_untouched();
    let logged = log.finish().unwrap();
    // It is written meanwhile, so how much is dropped is a matter of speed; some fits the ring in any case.
    let message = logged.written + logged.dropped;
    assert!((1..=TURNS).contains(&logged.written) && (TURNS..=2 * TURNS).contains(&message), "{logged:?}");
}
