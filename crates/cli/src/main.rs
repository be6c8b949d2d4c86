//! The `khz` command: words in, calls, text and exit codes out.
#![forbid(unsafe_code)]

fn main() {}
