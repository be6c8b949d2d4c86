//! Durations as people write them: `5s`, `250ms`, `1.5m`, `2h`.

use std::time::Duration;

/// Reads a number with a unit of time: ns, us, ms, s, m or h.
///
/// # Errors
/// What is wrong, and what to write instead.
pub fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a number with a unit, such as 5s, 250ms, 2m or 1h".into()),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("`{number}` is not a number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("`{text}` is not a possible duration"))
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
