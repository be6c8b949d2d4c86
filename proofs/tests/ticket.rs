//! Requests into the loop: taken in their order and whole, and a reader that sees that one was taken sees its tick and what the loop
//! did before it reported that.
#![allow(missing_docs)]

use khz_proofs::sync::{Arc, AtomicU64, Ordering};
use khz_proofs::ticket::{Fate, tickets};
use loom::thread;

#[test]
fn a_reader_that_sees_that_a_request_was_taken_sees_its_tick_and_its_effect() {
    loom::model(|| {
        let (mut asking, mut taking) = tickets::<[u64; 2]>(2, 2);
        let answers = asking.answers();
        let value = Arc::new(AtomicU64::new(0));
        let effect = Arc::clone(&value);
        let thread = thread::spawn(move || {
            for tick in 10..12 {
                taking.take(tick, |&[one, two]| {
                    assert_eq!(one, two, "whole");
                    assert_eq!(effect.load(Ordering::Relaxed) + 1, one, "in order");
                    effect.store(one, Ordering::Relaxed);
                    true
                });
            }
        });
        let numbers = [1, 2].map(|n| asking.ask([n; 2]).unwrap());
        assert_eq!(numbers, [1, 2]);
        for number in numbers {
            if let Fate::Taken(tick) = answers.fate(number) {
                assert!((10..12).contains(&tick));
                assert!(value.load(Ordering::Relaxed) >= number);
            }
        }
        thread.join().unwrap();
        // What no tick came for is not taken, and nothing waits for it.
        let fates = numbers.map(|number| answers.fate(number));
        let taken = fates.iter().filter(|fate| matches!(fate, Fate::Taken(_))).count() as u64;
        assert_eq!(taken, value.load(Ordering::Relaxed));
        assert!(!fates.contains(&Fate::Waiting));
    });
}
