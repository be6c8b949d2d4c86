//! The model checker's types under the names of `crate::sync` in `rt`, `record` and `robot`.

pub use loom::cell::UnsafeCell;
pub use loom::sync::Arc;
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
pub use loom::thread::{Thread, park};
use std::cell::Cell;

/// A ring with one writer and one reader, as `rtrb` promises it: pushing releases, popping acquires, nothing else is shared.
pub struct RingBuffer;

struct Ring<T> {
    slots: Vec<UnsafeCell<Option<T>>>,
    pushed: AtomicU64,
    popped: AtomicU64,
}

// SAFETY: a slot is the writer's until `pushed` says that it is filled, and the reader's until `popped` says that it is
// empty; the model checker fails on an access that breaks this.
unsafe impl<T: Send> Sync for Ring<T> {}

/// There is nothing in the ring.
#[derive(Debug)]
pub struct Empty;

/// The writer's end.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    pushed: u64,
}

/// The reader's end.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    popped: Cell<u64>,
}

impl RingBuffer {
    /// A ring with so many slots.
    #[expect(clippy::new_ret_no_self, reason = "the name is rtrb's")]
    pub fn new<T>(slots: usize) -> (Producer<T>, Consumer<T>) {
        let slots = (0..slots).map(|_| UnsafeCell::new(None)).collect();
        let ring = Arc::new(Ring { slots, pushed: AtomicU64::new(0), popped: AtomicU64::new(0) });
        (Producer { ring: Arc::clone(&ring), pushed: 0 }, Consumer { ring, popped: Cell::new(0) })
    }
}

impl<T> Producer<T> {
    /// Puts a value in, if there is room.
    ///
    /// # Errors
    /// With the value, if the ring is full.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        let slots = self.ring.slots.len() as u64;
        if self.pushed - self.ring.popped.load(Ordering::Acquire) == slots {
            return Err(value);
        }
        let slot = &self.ring.slots[(self.pushed % slots) as usize];
        // SAFETY: the slot is the writer's until `pushed` is stored.
        slot.with_mut(|slot| unsafe { *slot = Some(value) });
        self.pushed += 1;
        self.ring.pushed.store(self.pushed, Ordering::Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest value.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop(&mut self) -> Result<T, Empty> {
        if self.is_empty() {
            return Err(Empty);
        }
        let popped = self.popped.get();
        let slot = &self.ring.slots[(popped % self.ring.slots.len() as u64) as usize];
        // SAFETY: the slot is the reader's until `popped` is stored.
        let value = slot.with_mut(|slot| unsafe { (*slot).take() });
        self.popped.set(popped + 1);
        self.ring.popped.store(popped + 1, Ordering::Release);
        value.ok_or(Empty)
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.ring.pushed.load(Ordering::Acquire) == self.popped.get()
    }
}
