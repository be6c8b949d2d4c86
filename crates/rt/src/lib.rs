//! Linux scheduling, memory locking, clocks, periodic waits, latency histograms and the machine's passport.
//!
//! A real-time thread does, in this order: [`Setup::apply`] (asks the kernel, reads back what it granted),
//! [`Waiter::new`] (how to wait for a deadline), and then in each tick [`Waiter::wait_until`], the work, and
//! [`Histogram::record`]. [`ThreadMonitor`] shows for each tick whether something took the CPU away meanwhile.
//!
//! Nothing here knows about robots. `unsafe` code is confined to the private module `sys`.
#![deny(unsafe_code)]

pub mod alloc_trap;
pub mod clock;
mod histogram;
pub mod late;
pub mod library;
mod other;
mod pace;
pub mod panics;
mod passport;
pub mod proc;
mod profile;
mod setup;
mod sync;
#[allow(unsafe_code)]
mod sys;
mod terminal;
mod thread_monitor;
mod threads;
mod trace;
mod wait;
mod watchdog;

pub use clock::now_ns;
pub use histogram::{Histogram, Summary};
pub use other::OtherThread;
pub use pace::{Counts, Overrun, Pacer, PacketCounts, PacketPacer, Tick};
pub use passport::{Passport, Usage};
pub use proc::Root;
pub use profile::{Profile, RunningMedian, SectionId, SectionSummary};
pub use setup::{
    Advice, Grade, Granted, Policy, Report, Setting, Setup, SetupError, StartedBy, unlock_memory,
};
pub use sys::{Caught, Reader, Writer, hold_tostop, ignore_tostop, newest, touch};
pub use terminal::columns;
pub use thread_monitor::{Cause, DISTURBED_NS, Disturbance, MINOR_FAULT_NS, Shares, Sleeps, ThreadMonitor};
pub use threads::{Thread, threads};
pub use trace::KernelTrace;
pub use wait::{Guard, Paced, Waiter, Wake, wait_readable};
pub use watchdog::Watchdog;
