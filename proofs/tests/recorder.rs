//! The end of a recording: what was pushed before the stop is written, in order.
#![allow(missing_docs)]

use khz_proofs::sync::{Arc, AtomicBool, Ordering, RingBuffer};
use khz_proofs::until::until_stopped;
use loom::thread;

#[test]
fn what_was_pushed_before_the_stop_is_recorded() {
    loom::model(|| {
        let (mut tap, mut drain) = RingBuffer::new(3);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut written = Vec::new();
            until_stopped(&stopped, || written.extend(drain.pop()), thread::yield_now);
            while let Ok(sample) = drain.pop() {
                written.push(sample);
            }
            written
        });
        for sample in [1, 2] {
            tap.push(sample).unwrap();
        }
        stop.store(true, Ordering::Release);
        assert_eq!(thread.join().unwrap(), [1, 2]);
    });
}
