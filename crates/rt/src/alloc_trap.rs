//! Proves that a piece of code does not touch the heap.
//!
//! A test binary installs the [`CountingAllocator`] and wraps the code in [`forbid`]:
//! ```
//! #[global_allocator]
//! static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;
//!
//! let mut filled = Vec::with_capacity(4);
//! let ((), heap) = khz_rt::alloc_trap::forbid(|| filled.push(1));
//! heap.assert_untouched();
//! let (_boxed, heap) = khz_rt::alloc_trap::forbid(|| Box::new(1));
//! assert_eq!(heap.allocations, 1);
//! ```
//! Only the calling thread is counted, so tests may run side by side.

pub use crate::sys::CountingAllocator;
use std::cell::Cell;

thread_local! {
    static HEAP: Cell<HeapUse> = const { Cell::new(HeapUse { allocations: 0, frees: 0, bytes: 0 }) };
}

/// What a piece of code did on the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct HeapUse {
    /// Calls that asked for memory, growing and shrinking included.
    pub allocations: u64,
    /// Calls that gave memory back; freeing takes the allocator's locks too.
    pub frees: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

impl HeapUse {
    /// # Panics
    /// If the heap was used.
    #[track_caller]
    pub fn assert_untouched(self) {
        assert_eq!(self, HeapUse::default(), "the heap was used where it must not be");
    }
}

/// Runs `code` and reports what it did on the heap.
///
/// # Panics
/// If no [`CountingAllocator`] is installed: without one the answer would always be "nothing".
pub fn forbid<T>(code: impl FnOnce() -> T) -> (T, HeapUse) {
    let probe = HEAP.get();
    drop(std::hint::black_box(Box::new(0u8)));
    assert_ne!(HEAP.get(), probe, "install khz_rt::alloc_trap::CountingAllocator as #[global_allocator]");

    let before = HEAP.get();
    let value = code();
    let after = HEAP.get();
    let used = HeapUse {
        allocations: after.allocations - before.allocations,
        frees: after.frees - before.frees,
        bytes: after.bytes - before.bytes,
    };
    (value, used)
}

/// Called by the allocator; does nothing while the thread's locals are being destroyed.
pub(crate) fn count(allocations: u64, frees: u64, bytes: usize) {
    let _ = HEAP.try_with(|heap| {
        let so_far = heap.get();
        heap.set(HeapUse {
            allocations: so_far.allocations + allocations,
            frees: so_far.frees + frees,
            bytes: so_far.bytes + bytes as u64,
        });
    });
}
