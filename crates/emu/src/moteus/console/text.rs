//! Values as text: `group.field value` lines, floats as C's `%g`.

use crate::moteus::record::{Field, Record};
use std::io::Write;

/// Writes one line per value below `path`.
pub(super) fn enumerate(path: &str, record: &mut dyn Record, out: &mut Vec<u8>) {
    let mut whole = Path::default();
    whole.push(path);
    enumerate_record(&mut whole, record, out);
}

fn enumerate_record(path: &mut Path, record: &mut dyn Record, out: &mut Vec<u8>) {
    record.fields(&mut |name, field| path.below(name, |path| enumerate_field(path, field, out)));
}

fn enumerate_field(path: &mut Path, field: Field<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Object(object) => enumerate_record(path, object, out),
        Field::List(list) => {
            for index in 0..list.count() {
                let mut digits = [0; 20];
                let name = decimal(index, &mut digits);
                path.below(name, |path| enumerate_field(path, list.item(index), out));
            }
        }
        value => {
            out.extend_from_slice(path.text().as_bytes());
            out.push(b' ');
            write_value(value, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// One value; nothing for a missing one.
pub(super) fn write_value(field: Field<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Bool(v) => put(out, format_args!("{}", u8::from(*v))),
        Field::Unsigned(8, v) => put(out, format_args!("{}", v.number() as u64)),
        Field::Unsigned(_, v) | Field::Signed(_, v) => put(out, format_args!("{}", v.number())),
        Field::Float(v) => write_float(*v, out),
        Field::Enum(v, _) => put(out, format_args!("{v}")),
        Field::MaybeInt(Some(v)) => put(out, format_args!("{v}")),
        Field::MaybeFloat(Some(v)) => write_float(*v, out),
        Field::MaybeInt(None) | Field::MaybeFloat(None) | Field::Object(_) | Field::List(_) => {}
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector does not fail.
    let _ = out.write_fmt(text);
}

/// As C's `%g`: six significant digits, no trailing zeros, an exponent below 1e-4 and from 1e6 on.
fn write_float(value: f32, out: &mut Vec<u8>) {
    if !value.is_finite() || value == 0.0 {
        let text = match value {
            v if v.is_nan() => "nan",
            v if v == f32::INFINITY => "inf",
            v if v == f32::NEG_INFINITY => "-inf",
            v if v.is_sign_negative() => "-0",
            _ => "0",
        };
        return out.extend_from_slice(text.as_bytes());
    }
    let start = out.len();
    put(out, format_args!("{value:.5e}"));
    let written = &out[start..];
    let Some(at) = written.iter().position(|&byte| byte == b'e') else { return };
    let exponent: i32 = str::from_utf8(&written[at + 1..]).ok().and_then(|e| e.parse().ok()).unwrap_or(0);
    if (-4..6).contains(&exponent) {
        out.truncate(start);
        put(out, format_args!("{value:.*}", (5 - exponent) as usize));
        trim(out, start);
    } else {
        out.truncate(start + at);
        trim(out, start);
        let sign = if exponent < 0 { '-' } else { '+' };
        put(out, format_args!("e{sign}{:02}", exponent.abs()));
    }
}

/// Takes zeros after the point, and a point that ends the number, off everything after `start`.
fn trim(out: &mut Vec<u8>, start: usize) {
    if out[start..].contains(&b'.') {
        while out.last() == Some(&b'0') {
            out.pop();
        }
        if out.last() == Some(&b'.') {
            out.pop();
        }
    }
}

fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &str {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return str::from_utf8(&digits[at..]).unwrap_or("0");
        }
    }
}

/// A dotted path that grows and shrinks in place.
struct Path {
    bytes: [u8; 96],
    len: usize,
}

impl Default for Path {
    fn default() -> Self {
        Self { bytes: [0; 96], len: 0 }
    }
}

impl Path {
    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }

    /// Cut off where the room ends; no name is that long.
    fn push(&mut self, part: &str) {
        let part = &part.as_bytes()[..part.len().min(self.bytes.len() - self.len)];
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    fn below(&mut self, name: &str, act: impl FnOnce(&mut Self)) {
        let before = self.len;
        self.push(".");
        self.push(name);
        act(self);
        self.len = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moteus::settings::Settings;

    fn float(value: f32) -> String {
        let mut out = Vec::new();
        write_float(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_as_printf_g_writes_them() {
        // Right-hand sides from printf("%g") of glibc.
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (4.0, "4"),
            (-0.01, "-0.01"),
            (100.0, "100"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_1, "0.0001"),
            (0.000_028, "2.8e-05"),
            (1e10, "1e+10"),
            (999_999.5, "1e+06"),
            (0.333_333_34, "0.333333"),
            (f32::NAN, "nan"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn enumerates_by_path() {
        let mut out = Vec::new();
        let mut settings = Settings::default();
        enumerate("motor_position", &mut settings.motor_position, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("motor_position.sources.1.cpr 16384\r\n"));
        assert!(text.contains("motor_position.output.sign 1\r\n"));
    }
}
