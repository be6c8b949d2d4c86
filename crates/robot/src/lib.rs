//! One machine: its configuration, bus cycle, loop, supervisor and recorder.
#![forbid(unsafe_code)]
