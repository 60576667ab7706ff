//! The property block's reader and editor against arbitrary blocks.
#![no_main]

#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::properties(data));
