//! Effects as a primary sends them: any bytes are a payload or an error, and any payload leaves any limiter valid.
//!
//! The first byte says how many of the bytes behind it are a stored limiter; the rest are payloads of a byte of length each.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rl_core::stored::effect::{Payload, decode_payload, encode_effect};
use rl_core::stored::limiter::decode_limiter;
use rl_fuzz::{assert_stable, exercise};

fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first()?;
    Some(rest.split_at((*len as usize).min(rest.len())))
}

fuzz_target!(|data: &[u8]| {
    let Some((stored, mut rest)) = split(data) else { return };
    let mut limiter = decode_limiter(stored).unwrap_or_default();
    let mut applied = 0;
    while let Some((payload, behind)) = split(rest) {
        rest = behind;
        match decode_payload(payload) {
            Ok(Payload::Effect(effect)) => {
                let mut again = Vec::new();
                encode_effect(&effect, &mut again);
                assert_eq!(decode_payload(&again), Ok(Payload::Effect(effect.clone())));
                limiter.apply(&effect);
            }
            Ok(Payload::Whole(whole)) => limiter = whole,
            Err(error) => {
                let _ = error.to_string();
                continue;
            }
        }
        applied += 1;
        assert_stable(&limiter);
    }
    if applied > 0 {
        exercise(&limiter);
    }
});
