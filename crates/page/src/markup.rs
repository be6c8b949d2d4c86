//! Text into markup: escaping, and numbers as a person reads them.
use std::fmt;

/// Writes text so that HTML takes it for text, in an element and in a quoted attribute alike.
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'', '\0']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                b'\'' => "&#39;",
                _ => "\u{fffd}",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// JSON that may stand inside a `<script>` element: no `<` can end it.
pub(super) fn script_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".into()).replace('<', "\\u003c")
}

/// A time in µs since 1970, `1583798400.5` s as `2020-03-10T00:00:00.500000Z`.
pub fn calendar(time_us: i64) -> String {
    let days = time_us.div_euclid(86_400_000_000);
    let us = time_us.rem_euclid(86_400_000_000);
    // Howard Hinnant's civil_from_days: eras of 400 years, years beginning in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{us:06}Z")
}

/// A word as a shell takes it: quoted, if it has to be.
pub fn for_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:=,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A duration in nanoseconds with the unit that suits its size: `12.3 µs`.
///
/// A value that is not finite is `–`.
pub fn duration(ns: f64) -> String {
    let (scale, unit) = duration_unit(ns);
    if ns.is_finite() { format!("{} {unit}", significant(ns / scale, 3)) } else { "–".into() }
}

/// Reads a length of time such as `200us`, `1.5ms`, `10s` or `2m`, as nanoseconds.
///
/// # Errors
/// What is wrong and how to write it.
pub fn duration_ns(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no length of time: write 200us, 10s or 1h30m");
    let mut rest = Some(text.trim()).filter(|text| !text.is_empty()).ok_or_else(wrong)?;
    let mut ns = 0.0;
    while !rest.is_empty() {
        let unit_at = rest.find(char::is_alphabetic).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(unit_at);
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len()));
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if unit.is_empty() {
            return Err(format!("`{text}` has no unit of time: write 200us, 10s or 1h30m"));
        }
        ns +=
            Some(number * nanoseconds(unit).ok_or_else(wrong)?).filter(|ns| *ns >= 0.0).ok_or_else(wrong)?;
        rest = tail.trim_start();
    }
    // Ten years: beyond it sums of times could overflow.
    if ns <= 3.2e17 { Ok(ns.round() as i64) } else { Err(format!("`{text}` is out of range")) }
}

fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        _ => return None,
    })
}

/// The unit in which a duration of this many nanoseconds is best read, and how many nanoseconds it has.
pub(super) fn duration_unit(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        a if a >= 1e9 => (1e9, "s"),
        a if a >= 1e6 => (1e6, "ms"),
        a if a >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    }
}

/// A number with its unit: durations (`ns`, `s`) choose their prefix, others stand as they are.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(value),
        "s" => duration(value * 1e9),
        "" => number(value),
        _ if value.is_finite() => format!("{} {unit}", number(value)),
        _ => number(value),
    }
}

/// A number in at most four significant digits, thousands kept apart; `–` when it is not finite.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value.abs() >= 1000.0 {
        return spaced(value.round());
    }
    significant(value, 4)
}

fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if magnitude < -6 {
        let decimals = digits as usize - 1;
        return format!("{value:.decimals$e}").replace('-', "−");
    }
    let decimals = (digits - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    let text = match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        None => text,
    };
    text.replace('-', "−")
}

fn spaced(value: f64) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.3e}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "−" } else { "" });
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push('\u{202f}');
        }
        text.push(c);
    }
    text
}

/// A count as prose and terminals show it: `12,345`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let first = digits.len() % 3;
    let mut groups: Vec<&str> = Vec::new();
    if first > 0 {
        groups.push(&digits[..first]);
    }
    groups.extend((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    groups.join(",")
}

/// Round numbers that divide `0..=span` into at most `most` steps, zero first.
pub(super) fn round_steps(span: f64, most: usize) -> Vec<f64> {
    if !(span.is_finite() && span > 0.0 && most > 0) {
        return vec![0.0];
    }
    let raw = span / most as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw).unwrap_or(raw);
    let count = (span / step * (1.0 + 1e-9)).floor() as usize;
    (0..=count.min(most)).map(|i| i as f64 * step).collect()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Numbers as base64 of little-endian `f32`, the way the page's script reads them.
pub(super) fn base64_f32(values: &[f32]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let b = [chunk[0], chunk.get(1).copied().unwrap_or(0), chunk.get(2).copied().unwrap_or(0)];
        let word = u32::from_be_bytes([0, b[0], b[1], b[2]]);
        for place in 0..4 {
            let index = (word >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() { BASE64[index as usize] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("200us", 200_000),
            ("1.5ms", 1_500_000),
            ("10s", 10_000_000_000),
            ("0s", 0),
            ("1m 5s", 65_000_000_000),
            ("7µs", 7_000),
            ("1h30m", 5_400_000_000_000),
        ] {
            assert_eq!(duration_ns(text), Ok(ns));
        }
        for bad in ["", "10", "ms", "-1s", "1e300s", "nans", "10 parsecs", "1s1", "1h-30m", "1h30"] {
            assert!(duration_ns(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_cannot_leave_its_element_or_attribute() {
        let hostile = "</title><script>alert(\"1\")</script>&'\0";
        assert_eq!(
            Text(hostile).to_string(),
            "&lt;/title&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\u{fffd}"
        );
        assert!(!script_json(&hostile).contains('<'));
        assert_eq!(serde_json::from_str::<String>(&script_json(&hostile)).ok().as_deref(), Some(hostile));
    }

    #[test]
    fn durations_choose_their_unit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (1_000.0, "1 µs"),
            (12_345.0, "12.3 µs"),
            (1.5e6, "1.5 ms"),
            (-2e9, "−2 s"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        for (value, text) in [
            (0.0, "0"),
            (100.0, "100"),
            (0.25, "0.25"),
            (999.96, "1000"),
            (12_345_678.0, "12\u{202f}345\u{202f}678"),
            (-1_000.0, "−1\u{202f}000"),
            (1.5e-9, "1.500e−9"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn base64_matches_the_rfc_4648_vectors() {
        // RFC 4648 section 10 has texts; these are the same alphabet over whole floats.
        assert_eq!(base64_f32(&[]), "");
        assert_eq!(base64_f32(&[1.0]), "AACAPw==");
        assert_eq!(base64_f32(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(base64_f32(&[0.0, 0.0, 0.0]), "A".repeat(16));
    }

    #[test]
    fn steps_are_round_and_start_at_zero() {
        assert_eq!(round_steps(1_000.0, 5), [0.0, 200.0, 400.0, 600.0, 800.0, 1_000.0]);
        assert_eq!(round_steps(f64::NAN, 5), [0.0]);
        assert_eq!(round_steps(0.0, 5), [0.0]);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(
            [0, 7, 999, 1_000, 11_059, 1_234_567].map(grouped).join(" "),
            "0 7 999 1,000 11,059 1,234,567"
        );
    }

    #[test]
    fn the_calendar_is_right_on_leap_days() {
        assert_eq!(calendar(1_583_798_400_500_000), "2020-03-10T00:00:00.500000Z");
        assert_eq!(calendar(951_782_400_000_000), "2000-02-29T00:00:00.000000Z");
        assert_eq!(calendar(-1), "1969-12-31T23:59:59.999999Z");
    }
}
