//! Models that are evaluated, and models that are refused.

mod bits;
mod hostile;
mod models;
mod onnx;
mod refused;
mod run;

#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;
