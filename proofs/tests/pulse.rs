//! The loop's sign of life: a reader that sees a tick sees its phase, or a newer one.
#![allow(missing_docs)]

use khz_proofs::pulse::Pulse;
use khz_proofs::supervisor::Phase;
use khz_proofs::sync::Arc;
use loom::thread;

#[test]
fn a_reader_that_sees_a_tick_sees_its_phase_or_a_newer_one() {
    loom::model(|| {
        let pulse = Arc::new(Pulse::default());
        let looked = Arc::clone(&pulse);
        let thread = thread::spawn(move || {
            khz_proofs::beat(&pulse, 1, Phase::Idle);
            khz_proofs::beat(&pulse, 2, Phase::Active);
        });
        let before = looked.ticks();
        let phase = looked.phase();
        assert!(phase as u64 >= [0, 1, 3][before as usize], "{phase:?} after {before} ticks");
        assert!(looked.ticks() >= before);
        thread.join().unwrap();
        assert_eq!((looked.ticks(), looked.phase()), (2, Phase::Active));
    });
}
