//! Durations as people write them: `5s`, `250ms`, `1.5m`, `2h`.

use std::time::Duration;

/// Reads a number with a unit of time: ns, us, ms, s, m or h.
///
/// # Errors
/// What is wrong, and what to write instead.
pub fn parse(text: &str) -> Result<Duration, String> {
    khz_measure::jitter::duration_ns(text).map(|ns| Duration::from_nanos(ns.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, ms) in [("5s", 5000), ("250ms", 250), ("1.5m", 90_000), ("2h", 7_200_000), ("0s", 0)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["5", "", "s", "-1s", "1d", "1e400s", "nans"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
