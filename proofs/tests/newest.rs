//! The newest value: whole, never older than the one before, and the last one in the end.
#![allow(missing_docs)]

use khz_proofs::newest::newest;
use loom::thread;

#[test]
fn the_newest_value_is_whole_and_never_goes_back() {
    loom::model(|| {
        let (mut writer, mut reader) = newest(&[0; 2]);
        let thread = thread::spawn(move || {
            for n in 1..=3 {
                *writer.value() = [n; 2];
                writer.publish();
            }
        });
        let mut last = 0;
        for _ in 0..2 {
            let [one, two] = *reader.read();
            assert_eq!(one, two);
            assert!(one >= last);
            last = one;
        }
        thread.join().unwrap();
        assert_eq!(*reader.read(), [3; 2]);
    });
}
