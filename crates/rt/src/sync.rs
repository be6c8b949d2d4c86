//! What threads share, named in one place: `proofs/` puts a model checker's types here and compiles the same files.

pub use std::sync::Arc;
pub use std::sync::atomic::{AtomicU8, Ordering};

/// As `std`'s, with the access functions of the model checker.
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}
