//! Handing samples to the recorder does not touch the heap, even when they are dropped.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_record::{LogConfig, RecordId, RecorderBuilder, Sink, SinkResult};
use khz_rt::alloc_trap::{CountingAllocator, forbid};
use khz_tlog::Type;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A sink that allocates, as sinks may.
struct Deaf;

impl Sink for Deaf {
    fn name(&self) -> &str {
        "deaf"
    }

    fn sample(&mut self, _: RecordId, _: i64, payload: &[u8]) -> SinkResult {
        Err(format!("{} bytes not received", payload.len()).into())
    }
}

#[test]
fn pushing_does_not_touch_the_heap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.tlog").display().to_string();
    let mut builder = RecorderBuilder::new(LogConfig { path, keep_free_mib: 0, ..Default::default() });
    let tick = builder.record("tick", &Type::Bytes).unwrap();
    let mut tap = builder.tap(0);
    builder.sink(Box::new(Deaf)).unwrap();
    let recorder = builder.start().unwrap();
    let payload = [7; 1000];
    let (pushed, heap) = forbid(|| (0..10_000).filter(|&n| tap.push(tick, n, &payload)).count());
    heap.assert_untouched();
    let summary = recorder.finish();
    assert_eq!(summary.sinks[1].lost, pushed as u64);
    assert_eq!((summary.records[0].written, summary.dropped()), (pushed as u64, 10_000 - pushed as u64));
}
