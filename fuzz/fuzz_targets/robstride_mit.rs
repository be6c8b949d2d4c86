#![no_main]

#[path = "../../crates/wire/tests/entry_points/mod.rs"]
mod entry_points;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry_points::robstride_mit(bytes));
