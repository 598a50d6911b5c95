//! The decoder of stored values: what it takes is a limiter on which everything works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rl_core::stored::limiter::decode_limiter;
use rl_fuzz::exercise;

fuzz_target!(|data: &[u8]| {
    if let Ok(limiter) = decode_limiter(data) {
        // As much as came in at most, but for the fixed part.
        assert!(limiter.heap_bytes() < 2_000 + 400 * data.len(), "{} bytes", limiter.heap_bytes());
        exercise(&limiter);
    }
});
