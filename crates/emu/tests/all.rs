//! What an emulated servo, its bus and its console do, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be read fails the test")]

mod common;
mod console;
mod contract;
mod cubemars;
mod damiao;
mod dynamixel;
mod family;
mod feetech;
mod finite;
mod firmware;
mod injections;
mod modes;
mod motion;
mod odrive;
mod position_servo;
mod registers;
mod rmd;
mod robstride;
mod robstride_mit;
mod serve;
mod wire_time;

/// Some count what they allocate, on their own threads.
#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;
