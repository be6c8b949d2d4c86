//! The loop in virtual time, and what is done by hand on emulated buses, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used)]

mod cycle;
mod damiao;
mod damiao_by_hand;
mod desk;
mod dynamixel;
mod feedback;
mod feetech;
mod follow;
mod freshness;
mod held_up;
mod limits;
mod line;
mod links;
mod machine;
mod mit;
mod odrive;
#[allow(dead_code)]
#[path = "../../../policy/tests/all/onnx.rs"]
mod onnx;
mod pi3hat;
mod policy;
mod recover;
mod rig;
mod rmd;
mod set_by_hand;
mod shared_bus;
mod statistics;
mod targets;
mod walk;
mod walks_by_policy;

/// Some count what they allocate, on their own threads.
#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;
