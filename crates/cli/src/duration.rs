//! Durations as people write them: `5s`, `250ms`, `1.5m`, `1h30m`.

use std::time::Duration;

/// Reads numbers with units of time: ns, us, ms, s, m or h.
///
/// # Errors
/// What is wrong, and what to write instead.
pub fn parse(text: &str) -> Result<Duration, String> {
    khz_page::duration_ns(text).map(|ns| Duration::from_nanos(ns.unsigned_abs()))
}

/// As [`parse`]; a number alone is seconds.
///
/// # Errors
/// As [`parse`].
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.map_or_else(|| parse(text), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, ms) in [
            ("5s", 5000),
            ("250ms", 250),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_seconds("2"), parse("2s"));
        assert_eq!(parse_seconds("0.5"), parse_seconds("500ms"));
        assert!(parse_seconds("-1").is_err() && parse_seconds("two").is_err());
        for text in ["5", "", "s", "-1s", "1d", "1e400s", "nans"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
