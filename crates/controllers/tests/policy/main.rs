//! A policy as a controller: what it sees, what it wants, and what is refused.

#[allow(dead_code)]
#[path = "../../../policy/tests/all/onnx.rs"]
mod onnx;
mod records;
mod refused;
mod rig;
mod sees;
mod wants;

#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;
