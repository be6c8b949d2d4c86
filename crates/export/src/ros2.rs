//! Types as ROS 2 message definitions and values as CDR: the one encoding that Foxglove, PlotJuggler, Rerun and
//! rosbag2 all read from MCAP files.
//!
//! Null fields are left out. An optional value, and a member of any other union, is an array of at most one item; such
//! a union also says in `which` the number of its member. A map is an array of `key` and `value`. An array of arrays
//! is an array of messages with the field `items`. Enums are integers with constants beside them.

use crate::columns::optional;
use khz_tlog::{DecodeError, Input, Type, Value};
use std::fmt::Write;

/// The little-endian plain CDR representation (OMG DDSI-RTPS 2.3, 10.5).
const HEADER: [u8; 4] = [0, 1, 0, 0];
const SEPARATOR: &str = "================================================================================";

/// The definition of a message for `ty`, as MCAP wants it: its fields, and behind separators the messages in them.
/// `name` is that of the message.
pub fn definition(name: &str, ty: &Type) -> String {
    let mut parts = Vec::new();
    let mut times = (false, false);
    message(&camel(name), ty, &mut parts, &mut times);
    let mut text = parts.remove(0).1;
    for (part, body) in &parts {
        _ = write!(text, "{SEPARATOR}\nMSG: khz_msgs/{part}\n{body}");
    }
    for (used, part) in [(times.0, "Time"), (times.1, "Duration")] {
        if used {
            _ = write!(text, "{SEPARATOR}\nMSG: builtin_interfaces/{part}\nint32 sec\nuint32 nanosec\n");
        }
    }
    text
}

/// The name of the message for a record of this name.
pub fn message_name(record: &str) -> String {
    format!("khz_msgs/msg/{}", camel(record))
}

/// Appends a payload of type `ty` as one CDR message.
///
/// # Errors
/// When the payload does not fit the type.
pub fn encode<'a>(ty: &'a Type, payload: &'a [u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    Value::read(ty, payload)?;
    let start = out.len();
    out.extend(HEADER);
    let mut cdr = Cdr { out, origin: start + HEADER.len(), input: Input::new(payload) };
    cdr.fields(ty)
}

/// Whether values of this type have nothing to tell, so that ROS 2, which knows neither null nor empty arrays, leaves
/// them out.
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
            for field in fields {
                line(name, &field.name, &field.ty, "", &mut text, parts, times);
            }
        }
        Type::Union(members) if optional(ty).is_none() => {
            text.push_str("uint64 which\n");
            for (index, member) in members.iter().enumerate() {
                line(name, &format!("member{index}"), member, "[<=1]", &mut text, parts, times);
            }
        }
        Type::Map(item) => {
            let entry = format!("{name}Entry");
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

/// Adds the line of one field. `suffix` makes an array of it.
fn line(
    outer: &str,
    name: &str,
    ty: &Type,
    suffix: &str,
    text: &mut String,
    parts: &mut Parts,
    times: &mut (bool, bool),
) {
    let field = snake(name);
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
            for (value, label) in names {
                _ = writeln!(text, "{of} {}_{}={value}", field.to_uppercase(), snake(label).to_uppercase());
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
                let inner = format!("{outer}{}", camel(name));
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
            Type::VarInt => {
                let value = self.input.varint()?;
                self.put(&value.to_le_bytes());
            }
            Type::VarUint => {
                let value = self.input.varuint()?;
                self.put(&value.to_le_bytes());
            }
            Type::String => self.text()?,
            Type::Enum { of, .. } => self.item(of)?,
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
        assert_eq!(definition("imu", &ty), expected.join("\n"));
        assert_eq!(message_name("imu_2"), "khz_msgs/msg/Imu2");
    }

    #[test]
    fn values_are_aligned_to_their_size() {
        let fields =
            [("a", Type::Bool), ("b", Type::Float64), ("c", Type::String), ("d", Type::Int(Width::Two))];
        let payload = [&[1][..], &1f64.to_le_bytes(), &[2, b'h', b'i', 0xfe, 0xff]].concat();
        let mut out = Vec::new();
        encode(&Type::object(fields), &payload, &mut out).unwrap();
        let expected = [
            &[0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..],
            &1f64.to_le_bytes(),
            &[3, 0, 0, 0, b'h', b'i', 0, 0, 0xfe, 0xff],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_union_tells_its_member() {
        let ty = Type::Union(vec![Type::Bool, Type::Null, Type::Uint(Width::One)]);
        assert_eq!(definition("u", &ty), "uint64 which\nbool[<=1] member0\nuint8[<=1] member2\n");
        let mut out = Vec::new();
        encode(&ty, &[2, 7], &mut out).unwrap();
        assert_eq!(out[4..], [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7]);
    }
}
