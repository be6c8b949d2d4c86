//! The system calls links need that no safe crate offers. All `unsafe` of this crate is in here.

pub(crate) mod can;
pub(crate) mod tty;
