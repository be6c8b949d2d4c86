//! Emulated servos, IMU, body and wire that speak the real bytes; deterministic from a seed.
#![forbid(unsafe_code)]
