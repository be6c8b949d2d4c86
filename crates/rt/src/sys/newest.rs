//! The newest value of one thread for another, neither of which ever waits.
//!
//! Three places: one the writer fills, one the reader reads, and between them one that they swap for their own by one
//! atomic operation. `proofs/tests/newest.rs` tries every order in which two threads can do that.

use crate::sync::{Arc, AtomicU8, Ordering, UnsafeCell};

/// Which of the three places it is.
const PLACE: u8 = 0b011;
/// The place in between was published after the reader looked.
const NEW: u8 = 0b100;

struct Shared<T> {
    places: [UnsafeCell<T>; 3],
    /// The place in between, and whether it is new.
    between: AtomicU8,
}

// SAFETY: each place belongs to the writer, to the reader or to neither; they change owners by `between` alone, whose
// swaps acquire and release. So no place is reached by two threads at once, and values only move between threads.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The end that publishes values.
pub struct Writer<T> {
    shared: Arc<Shared<T>>,
    place: u8,
}

/// The end that sees the newest value published.
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
    place: u8,
}

/// Makes both ends; `first` is what the reader sees until something is published. Allocates, as nothing later does.
pub fn newest<T: Clone>(first: &T) -> (Writer<T>, Reader<T>) {
    let places = [(); 3].map(|()| UnsafeCell::new(first.clone()));
    let shared = Arc::new(Shared { places, between: AtomicU8::new(1) });
    (Writer { shared: Arc::clone(&shared), place: 0 }, Reader { shared, place: 2 })
}

impl<T> Writer<T> {
    /// The value to publish next, to be written in full: it holds an older one.
    pub fn value(&mut self) -> &mut T {
        let place = &self.shared.places[usize::from(self.place)];
        // SAFETY: the place is the writer's until `publish` gives it away, which the borrow of `self` prevents.
        place.with_mut(|value| unsafe { &mut *value })
    }

    /// Hands the value to the reader, in place of one that it has not looked at yet. Neither waits nor allocates.
    pub fn publish(&mut self) {
        let between = self.shared.between.swap(self.place | NEW, Ordering::AcqRel);
        self.place = between & PLACE;
    }
}

impl<T> Reader<T> {
    /// The newest value published. Neither waits nor allocates.
    pub fn read(&mut self) -> &T {
        // Only the reader takes the mark away, so what is new now is new in the swap, or newer.
        if self.shared.between.load(Ordering::Relaxed) & NEW != 0 {
            let between = self.shared.between.swap(self.place, Ordering::AcqRel);
            self.place = between & PLACE;
        }
        let place = &self.shared.places[usize::from(self.place)];
        // SAFETY: the place is the reader's until the next `read`, which the borrow of `self` prevents.
        place.with(|value| unsafe { &*value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_read_and_stays() {
        let (mut writer, mut reader) = newest(&0);
        assert_eq!(*reader.read(), 0);
        for n in 1..=5 {
            *writer.value() = n;
            writer.publish();
        }
        assert_eq!([*reader.read(), *reader.read()], [5, 5]);
        *writer.value() = 6;
        assert_eq!(*reader.read(), 5);
        writer.publish();
        assert_eq!(*reader.read(), 6);
    }

    #[test]
    fn values_come_whole_and_in_order_from_another_thread() {
        const LAST: u64 = if cfg!(miri) { 100 } else { 10_000 };
        let (mut writer, mut reader) = newest(&[0_u64; 4]);
        let thread = std::thread::spawn(move || {
            for n in 1..=LAST {
                *writer.value() = [n; 4];
                writer.publish();
            }
        });
        let mut last = 0;
        while last < LAST {
            let value = *reader.read();
            assert!(value == [value[0]; 4] && value[0] >= last, "{value:?} after {last}");
            last = value[0];
            std::thread::yield_now();
        }
        thread.join().unwrap();
    }
}
