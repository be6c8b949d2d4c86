//! Types as ROS 2 message definitions and values as CDR: the one encoding that Foxglove, PlotJuggler, Rerun and
//! rosbag2 all read from MCAP files.
//!
//! Null fields are left out. An optional value, and a member of any other union, is an array of at most one item; such
//! a union also has the number of its member, in `which`. A map is an array of `key` and `value`. An array of arrays
//! is an array of messages with the field `items`. Enums are integers with constants beside them. A unit is a comment in
//! brackets behind its field, where ROS 2's own tools look for it.

use crate::columns::{Names, optional};
use khz_tlog::{DecodeError, Field, Input, Type, Value, Width};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

/// The little-endian plain CDR representation (OMG DDSI-RTPS 2.3, 10.5).
const HEADER: [u8; 4] = [0, 1, 0, 0];
const SEPARATOR: &str = "================================================================================";

/// How integers of 64 bits are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integers {
    /// As the nearest float64. PlotJuggler stops reading at an integer that no float64 holds exactly, unless its strict
    /// truncation check is off.
    #[default]
    Rounded,
    /// As they are.
    Exact,
}

/// The definition of a message for `ty`, as MCAP wants it: its fields, and behind separators the messages in them.
/// `name` is that of the message, without its package.
pub fn definition(name: &str, ty: &Type) -> String {
    let parts = parts(name, ty);
    let mut text = parts[0].1.clone();
    for (part, body) in &parts[1..] {
        _ = write!(text, "{SEPARATOR}\nMSG: {part}\n{body}");
    }
    text
}

/// The messages `ty` needs, each with its body; the first is `name` itself.
fn parts(name: &str, ty: &Type) -> Parts {
    let (mut parts, mut times) = (Vec::new(), (false, false));
    message(name, ty, &mut parts, &mut times);
    parts.iter_mut().for_each(|(part, _)| part.insert_str(0, "khz_msgs/"));
    for (used, part) in [(times.0, "Time"), (times.1, "Duration")] {
        if used {
            parts.push((format!("builtin_interfaces/{part}"), "int32 sec\nuint32 nanosec\n".into()));
        }
    }
    parts
}

/// The message names of one file. Programs that read it know every message by its name alone, so no name may stand for
/// two definitions, whichever records they come from.
#[derive(Default)]
pub struct Messages(HashMap<String, String>);

impl Messages {
    /// Name and definition of the message for a record: its name in camel case, with a letter and a number behind it if
    /// it, or a message within it, would mean something else in a record before.
    pub fn declare(&mut self, record: &str, ty: &Type, integers: Integers) -> (String, String) {
        let ty = match integers {
            Integers::Exact => Cow::Borrowed(ty),
            Integers::Rounded => Cow::Owned(rounded(ty)),
        };
        let ty = ty.as_ref();
        let base = camel(record);
        let candidates = std::iter::once(base.clone()).chain((2..).map(|n| format!("{base}V{n}")));
        let free = |name: &String| {
            let parts = parts(name, ty);
            parts.iter().all(|(part, body)| self.0.get(part).is_none_or(|known| known == body))
        };
        let mut candidates = candidates.filter(free);
        let name = candidates.next().unwrap_or(base);
        self.0.extend(parts(&name, ty));
        (format!("khz_msgs/msg/{name}"), definition(&name, ty))
    }
}

/// The same type with float64 for its integers of 64 bits, but for those of enums: constants are integers.
fn rounded(ty: &Type) -> Type {
    let inner = |ty: &Type| Box::new(rounded(ty));
    match ty {
        ty if is_wide(ty) => Type::Float64,
        Type::Object(fields) => Type::Object(
            fields.iter().map(|field| Field { ty: rounded(&field.ty), ..field.clone() }).collect(),
        ),
        Type::Array(item) => Type::Array(inner(item)),
        Type::FixedArray(size, item) => Type::FixedArray(*size, inner(item)),
        Type::Map(item) => Type::Map(inner(item)),
        Type::Union(members) => Type::Union(members.iter().map(rounded).collect()),
        other => other.clone(),
    }
}

fn is_wide(ty: &Type) -> bool {
    matches!(ty, Type::Int(Width::Eight) | Type::Uint(Width::Eight) | Type::VarInt | Type::VarUint)
}

/// Appends a payload of type `ty` as one CDR message. Returns whether it has an integer that no float64 holds exactly.
///
/// # Errors
/// When the payload does not fit the type.
pub fn encode<'a>(
    ty: &'a Type,
    payload: &'a [u8],
    integers: Integers,
    out: &mut Vec<u8>,
) -> Result<bool, DecodeError> {
    Value::read(ty, payload)?;
    let origin = out.len() + HEADER.len();
    out.extend(HEADER);
    let mut cdr = Cdr { out, origin, input: Input::new(payload), integers, beyond: false };
    cdr.fields(ty)?;
    Ok(cdr.beyond)
}

/// Whether values of this type carry no information. ROS 2, which has neither null nor empty arrays, leaves them out.
fn is_nothing(ty: &Type) -> bool {
    match (ty, optional(ty)) {
        (Type::Null | Type::FixedArray(0, _), _) => true,
        (Type::Array(item) | Type::FixedArray(_, item), _) => is_nothing(item),
        (_, Some(inner)) => is_nothing(inner),
        _ => false,
    }
}

type Parts = Vec<(String, String)>;

/// Adds the message `name` for `ty` to `parts`, before the messages in it.
fn message(name: &str, ty: &Type, parts: &mut Parts, times: &mut (bool, bool)) {
    let place = parts.len();
    parts.push((name.to_owned(), String::new()));
    let mut text = String::new();
    match ty {
        Type::Object(fields) => {
            let mut names = Names::default();
            for field in fields {
                let field_name = names.unique(&snake(&field.name));
                let before = text.len();
                line(name, &field_name, &field.ty, "", &mut text, parts, times);
                if let Some(unit) = field.unit().filter(|_| text.len() > before) {
                    comment(unit, &mut text);
                }
            }
        }
        Type::Union(members) if optional(ty).is_none() => {
            text.push_str("uint64 which\n");
            for (index, member) in members.iter().enumerate() {
                line(name, &format!("member{index}"), member, "[<=1]", &mut text, parts, times);
            }
        }
        Type::Map(item) => {
            let entry = unused(format!("{name}Entry"), parts);
            _ = writeln!(text, "{entry}[] entries");
            let fields = [("key", Type::String), ("value", (**item).clone())];
            message(&entry, &Type::object(fields), parts, times);
        }
        Type::Array(_) | Type::FixedArray(..) => line(name, "items", ty, "", &mut text, parts, times),
        _ => line(name, "value", ty, "", &mut text, parts, times),
    }
    if text.is_empty() {
        text.push_str("uint8 structure_needs_at_least_one_member\n");
    }
    parts[place].1 = text;
}

/// Puts a unit behind the last line. One that would end the brackets is left out.
fn comment(unit: &str, text: &mut String) {
    if !unit.contains(['[', ']', ',']) {
        text.truncate(text.len() - 1);
        _ = writeln!(text, "  # [{unit}]");
    }
}

/// `name`, or one like it, that none of `parts` has.
fn unused(name: String, parts: &Parts) -> String {
    let is_free = |name: &String| parts.iter().all(|(part, _)| part != name);
    let mut candidates =
        std::iter::once(name.clone()).chain((2..).map(|n| format!("{name}V{n}"))).filter(is_free);
    candidates.next().unwrap_or(name)
}

/// Adds the line of one field, whose name is in snake case. `suffix` makes an array of it.
fn line(
    outer: &str,
    name: &str,
    ty: &Type,
    suffix: &str,
    text: &mut String,
    parts: &mut Parts,
    times: &mut (bool, bool),
) {
    let field = name;
    match ty {
        _ if is_nothing(ty) => {}
        Type::Array(item) if suffix.is_empty() => line(outer, name, item, "[]", text, parts, times),
        Type::FixedArray(size, item) if suffix.is_empty() => {
            line(outer, name, item, &format!("[{size}]"), text, parts, times);
        }
        Type::Union(_) if suffix.is_empty() && optional(ty).is_some() => {
            line(outer, name, optional(ty).unwrap_or(ty), "[<=1]", text, parts, times);
        }
        Type::Enum { of, names } => {
            let of = scalar(of).unwrap_or("int64");
            let mut constants = Names::default();
            for (value, label) in names {
                let constant = constants.unique(&format!("{field}_{}", snake(label))).to_uppercase();
                _ = writeln!(text, "{of} {constant}={value}");
            }
            _ = writeln!(text, "{of}{suffix} {field}");
        }
        Type::Timestamp => {
            times.0 = true;
            _ = writeln!(text, "builtin_interfaces/Time{suffix} {field}");
        }
        Type::Duration => {
            times.1 = true;
            _ = writeln!(text, "builtin_interfaces/Duration{suffix} {field}");
        }
        Type::Bytes if suffix.is_empty() => _ = writeln!(text, "uint8[] {field}"),
        _ => match scalar(ty) {
            Some(scalar) => _ = writeln!(text, "{scalar}{suffix} {field}"),
            None => {
                let inner = unused(format!("{outer}{}", camel(name)), parts);
                _ = writeln!(text, "khz_msgs/{inner}{suffix} {field}");
                message(&inner, ty, parts, times);
            }
        },
    }
}

fn scalar(ty: &Type) -> Option<&'static str> {
    Some(match ty {
        Type::Bool => "bool",
        Type::Int(width) => ["int8", "int16", "int32", "int64"][(*width as usize).ilog2() as usize],
        Type::Uint(width) => ["uint8", "uint16", "uint32", "uint64"][(*width as usize).ilog2() as usize],
        Type::VarInt => "int64",
        Type::VarUint => "uint64",
        Type::Float32 => "float32",
        Type::Float64 => "float64",
        Type::String => "string",
        _ => return None,
    })
}

/// A field name as ROS 2 allows it: lower case letters, digits and single underscores, first a letter.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars() {
        match character.to_ascii_lowercase() {
            plain if plain.is_ascii_alphanumeric() => out.push(plain),
            _ if out.ends_with('_') || out.is_empty() => {}
            _ => out.push('_'),
        }
    }
    let out = out.trim_end_matches('_');
    match out.starts_with(|first: char| first.is_ascii_lowercase()) {
        true => out.to_owned(),
        false => format!("x{out}"),
    }
}

fn camel(name: &str) -> String {
    let words = snake(name);
    words.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

struct Cdr<'a, 'b> {
    out: &'b mut Vec<u8>,
    origin: usize,
    input: Input<'a>,
    integers: Integers,
    /// There was an integer that no float64 holds exactly.
    beyond: bool,
}

impl<'a> Cdr<'a, '_> {
    /// The fields of the message that stands for `ty`.
    fn fields(&mut self, ty: &'a Type) -> Result<(), DecodeError> {
        let start = self.out.len();
        match ty {
            Type::Object(fields) => fields.iter().try_for_each(|field| self.value(&field.ty))?,
            Type::Union(members) if optional(ty).is_none() => {
                let which = self.input.varuint()?;
                self.put(&which.to_le_bytes());
                for (index, member) in members.iter().enumerate() {
                    let chosen = index as u64 == which;
                    match is_nothing(member) {
                        true if chosen => self.value(member)?,
                        true => {}
                        false => self.some(member, chosen)?,
                    }
                }
            }
            Type::Map(item) => {
                for _ in 0..self.count()? {
                    self.text()?;
                    self.value(item)?;
                }
            }
            _ => self.value(ty)?,
        }
        if self.out.len() == start {
            self.put(&[0]);
        }
        Ok(())
    }

    /// One field.
    fn value(&mut self, ty: &'a Type) -> Result<(), DecodeError> {
        match (ty, optional(ty)) {
            _ if is_nothing(ty) => Value::next(ty, &mut self.input).map(|_| ()),
            (Type::Array(item), _) => {
                let count = self.count()?;
                (0..count).try_for_each(|_| self.item(item))
            }
            (Type::FixedArray(size, item), _) => (0..*size).try_for_each(|_| self.item(item)),
            (Type::Union(members), Some(inner)) => {
                let index = self.input.varuint()? as usize;
                self.some(inner, members.get(index).is_some_and(|member| *member != Type::Null))
            }
            _ => self.item(ty),
        }
    }

    /// An array of one item, or of none.
    fn some(&mut self, ty: &'a Type, there: bool) -> Result<(), DecodeError> {
        self.put(&u32::from(there).to_le_bytes());
        if there { self.item(ty) } else { Ok(()) }
    }

    /// One value that is not spread into an array of the field it stands in.
    fn item(&mut self, ty: &'a Type) -> Result<(), DecodeError> {
        match ty {
            Type::Bool => {
                let truth = self.input.byte()? != 0;
                self.put(&[u8::from(truth)]);
            }
            wide if is_wide(wide) => match Value::next(wide, &mut self.input)? {
                Value::Int(value) => self.integer(value.into(), value.to_le_bytes()),
                Value::Uint(value) => self.integer(value.into(), value.to_le_bytes()),
                _ => {}
            },
            Type::Int(width) | Type::Uint(width) => {
                let bytes = self.input.take(*width as usize)?;
                self.put(bytes);
            }
            Type::Float32 => {
                let bytes = self.input.take(4)?;
                self.put(bytes);
            }
            Type::Float64 => {
                let bytes = self.input.take(8)?;
                self.put(bytes);
            }
            Type::String => self.text()?,
            Type::Enum { of, .. } => {
                let integers = std::mem::replace(&mut self.integers, Integers::Exact);
                self.item(of)?;
                self.integers = integers;
            }
            Type::Timestamp | Type::Duration => {
                let us = i64::from_le_bytes(self.input.array()?);
                self.put(
                    &(us.div_euclid(1_000_000).clamp(i32::MIN.into(), i32::MAX.into()) as i32).to_le_bytes(),
                );
                self.put(&(us.rem_euclid(1_000_000) as u32 * 1000).to_le_bytes());
            }
            Type::Bytes => {
                let bytes = self.input.counted()?;
                self.put(&(bytes.len() as u32).to_le_bytes());
                self.out.extend(bytes);
            }
            message => self.fields(message)?,
        }
        Ok(())
    }

    /// An integer of 64 bits.
    fn integer(&mut self, value: i128, bytes: [u8; 8]) {
        let float = value as f64;
        self.beyond |= float as i128 != value;
        match self.integers {
            Integers::Exact => self.put(&bytes),
            Integers::Rounded => self.put(&float.to_le_bytes()),
        }
    }

    fn count(&mut self) -> Result<u64, DecodeError> {
        let count = self.input.varuint()?;
        self.put(&(count as u32).to_le_bytes());
        Ok(count)
    }

    fn text(&mut self) -> Result<(), DecodeError> {
        let bytes = self.input.counted()?;
        self.put(&(bytes.len() as u32 + 1).to_le_bytes());
        self.out.extend(bytes);
        self.out.push(0);
        Ok(())
    }

    /// Appends one primitive, aligned to its own size.
    fn put(&mut self, bytes: &[u8]) {
        while !(self.out.len() - self.origin).is_multiple_of(bytes.len()) {
            self.out.push(0);
        }
        self.out.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::Width;

    #[test]
    fn a_record_becomes_a_message_definition() {
        let ty = Type::object([
            ("rate", Type::FixedArray(3, Box::new(Type::Float32))),
            ("frontLeft-hip", Type::object([("mode", Type::enumeration([(5, "kOn")]))])),
            ("maybe", Type::optional(Type::Timestamp)),
            ("grid", Type::Array(Box::new(Type::Array(Box::new(Type::Bool))))),
            ("nothing", Type::Null),
        ]);
        let expected = [
            "float32[3] rate",
            "khz_msgs/ImuFrontleftHip frontleft_hip",
            "builtin_interfaces/Time[<=1] maybe",
            "khz_msgs/ImuGrid[] grid",
            SEPARATOR,
            "MSG: khz_msgs/ImuFrontleftHip",
            "uint64 MODE_KON=5",
            "uint64 mode",
            SEPARATOR,
            "MSG: khz_msgs/ImuGrid",
            "bool[] items",
            SEPARATOR,
            "MSG: builtin_interfaces/Time",
            "int32 sec",
            "uint32 nanosec",
            "",
        ];
        assert_eq!(definition("Imu", &ty), expected.join("\n"));
    }

    /// rosbags once decoded the second of two such records with the definition of the first.
    #[test]
    fn no_message_name_has_two_definitions() {
        let (a, b) = (Type::object([("a", Type::Bool)]), Type::object([("b", Type::Bool)]));
        let mut messages = Messages::default();
        let mut name = |record: &str, ty: &Type| messages.declare(record, ty, Integers::Exact).0;
        assert_eq!(name("servo1", &a), "khz_msgs/msg/Servo1");
        assert_eq!(name("servo_1", &b), "khz_msgs/msg/Servo1V2");
        assert_eq!(name("Servo1", &a), "khz_msgs/msg/Servo1");
        // The message of a field, too, is known to every record.
        let nested = |ty: &Type| Type::object([("state", ty.clone())]);
        assert_eq!(name("leg", &nested(&a)), "khz_msgs/msg/Leg");
        assert_eq!(name("leg_state", &b), "khz_msgs/msg/LegStateV2");
    }

    #[test]
    fn fields_and_constants_that_differ_in_case_or_punctuation_only_stay_apart() {
        let ty = Type::object([
            ("a_b", Type::Bool),
            ("a-b", Type::Bool),
            ("A.B", Type::enumeration([(1, "on"), (2, "ON")])),
            ("b_c", Type::object([("d", Type::Bool)])),
            ("b", Type::object([("c", Type::object([("e", Type::Bool)]))])),
        ]);
        let text = definition("M", &ty);
        assert!(text.starts_with(
            "bool a_b\nbool a_b_2\nuint64 A_B_3_ON=1\nuint64 A_B_3_ON_2=2\nuint64 a_b_3\nkhz_msgs/MBC b_c\n"
        ), "{text}");
        assert!(text.contains("MSG: khz_msgs/MB\nkhz_msgs/MBCV2 c\n"), "{text}");
    }

    #[test]
    fn a_unit_stands_behind_its_field_and_cannot_end_the_line() {
        let on = Type::enumeration([(1, "on")]);
        let ty = Type::Object(vec![
            Field::new("rate", Type::FixedArray(3, Box::new(Type::Float32))).with_unit("rad/s"),
            Field::new("mode", on).with_unit("1"),
            Field::new("nothing", Type::Null).with_unit("V"),
            Field::new("bad", Type::Bool).with_unit("V]\nbool more"),
            Field::new("bracket", Type::Bool).with_unit("V], [A"),
            Field::new("line", Type::Bool).with_unit("V\u{2028}bool more"),
        ]);
        let expected = "float32[3] rate  # [rad/s]\nuint64 MODE_ON=1\nuint64 mode  # [1]\nbool bad\nbool bracket\nbool line\n";
        assert_eq!(definition("Imu", &ty), expected);
    }

    /// Enums were written as float64 once rounding was the default, under a definition that has `uint64`.
    #[test]
    fn an_enum_stays_the_integer_its_definition_says() {
        let ty = Type::object([("mode", Type::enumeration([(200, "on")])), ("n", Type::VarUint)]);
        let text = Messages::default().declare("m", &ty, Integers::Rounded).1;
        assert_eq!(text, "uint64 MODE_ON=200\nuint64 mode\nfloat64 n\n");
        let mut out = Vec::new();
        encode(&ty, &[200, 1, 7], Integers::Rounded, &mut out).unwrap();
        assert_eq!(out[4..], [200u64.to_le_bytes(), 7f64.to_le_bytes()].concat());
    }

    /// PlotJuggler stops at an integer that no float64 holds exactly.
    #[test]
    fn integers_beyond_float64_are_noticed_and_can_be_rounded() {
        let wide = |width| Type::Union(vec![Type::Null, width]);
        let ty = Type::object([("a", wide(Type::Uint(Width::Eight))), ("b", Type::VarInt)]);
        let payload = |a: u64| [&[1][..], &a.to_le_bytes(), &[6]].concat();
        let (mut exact, mut rounded) = (Vec::new(), Vec::new());
        for (a, beyond) in [(1 << 53, false), ((1 << 53) + 1, true), (1 << 63, false), (u64::MAX, true)] {
            (exact, rounded) = (Vec::new(), Vec::new());
            assert_eq!(encode(&ty, &payload(a), Integers::Exact, &mut exact), Ok(beyond), "{a}");
            assert_eq!(encode(&ty, &payload(a), Integers::Rounded, &mut rounded), Ok(beyond), "{a}");
        }
        let numbers = |bytes: &[u8]| [bytes[12..20].to_vec(), bytes[20..].to_vec()];
        assert_eq!(numbers(&exact), [u64::MAX.to_le_bytes(), 3i64.to_le_bytes()]);
        assert_eq!(numbers(&rounded), [(u64::MAX as f64).to_le_bytes(), 3f64.to_le_bytes()]);
        let text = Messages::default().declare("m", &ty, Integers::Rounded).1;
        assert_eq!(text, "float64[<=1] a\nfloat64 b\n");
    }

    #[test]
    fn values_are_aligned_to_their_size() {
        let fields =
            [("a", Type::Bool), ("b", Type::Float64), ("c", Type::String), ("d", Type::Int(Width::Two))];
        let payload = [&[1][..], &1f64.to_le_bytes(), &[2, b'h', b'i', 0xfe, 0xff]].concat();
        let mut out = Vec::new();
        encode(&Type::object(fields), &payload, Integers::Exact, &mut out).unwrap();
        let expected = [
            &[0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..],
            &1f64.to_le_bytes(),
            &[3, 0, 0, 0, b'h', b'i', 0, 0, 0xfe, 0xff],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_union_names_its_member() {
        let ty = Type::Union(vec![Type::Bool, Type::Null, Type::Uint(Width::One)]);
        assert_eq!(definition("U", &ty), "uint64 which\nbool[<=1] member0\nuint8[<=1] member2\n");
        let mut out = Vec::new();
        encode(&ty, &[2, 7], Integers::Exact, &mut out).unwrap();
        assert_eq!(out[4..], [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7]);
    }
}
