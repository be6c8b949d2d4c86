//! The C library: what `include/kilohertz.h` declares and documents, over [`kilohertz::Robot`].
//!
//! | module | what it is |
//! |---|---|
//! | `calls` | the way in and out: panics caught, errors kept for `khz_last_error`, texts |
//! | `arrays` | state and command as plain arrays |
//! | `controller` | a C function in the tick |
//! | `robot`, `run`, `targets`, `desk` | the objects of the header |
//!
//! Pointers to objects are references and boxes that may be absent, so that a NULL is a value like any other. What C promises
//! beyond that (the object lives, no other thread uses it meanwhile) is in the header.

mod arrays;
mod calls;
mod controller;
mod desk;
mod robot;
mod run;
mod targets;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;
