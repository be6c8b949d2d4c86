//! Values in binary, and the schema with which a client reads them (mjbots/mjlib
//! `mjlib/telemetry/README.md`).

use crate::moteus::record::{Field, Record};

const FINAL: u8 = 0;
const NULL: u8 = 1;
const BOOLEAN: u8 = 2;
const FIXED_INT: u8 = 3;
const FIXED_UINT: u8 = 4;
const VARUINT: u8 = 6;
const FLOAT32: u8 = 7;
const OBJECT: u8 = 16;
const ENUM: u8 = 17;
const FIXED_ARRAY: u8 = 19;
const UNION: u8 = 21;

/// A header line, then a size and as many bytes: what `write` puts out.
pub(super) fn frame(header: [&str; 2], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let [kind, name] = header;
    for part in [kind, " ", name, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    let size_at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let size = (out.len() - size_at - 4) as u32;
    out[size_at..size_at + 4].copy_from_slice(&size.to_le_bytes());
}

/// The fields' values.
pub(super) fn data(record: &mut dyn Record, out: &mut Vec<u8>) {
    record.fields(&mut |_, field| write_data(field, out));
}

/// The fields' names and types, with `record`'s values as defaults.
pub(super) fn schema(record: &mut dyn Record, out: &mut Vec<u8>) {
    out.extend_from_slice(&[OBJECT, 0]);
    // Twice the same pass over the fields, because writing a field's type uses the field up.
    let mut index = 0;
    loop {
        let mut found = false;
        nth(record, index, &mut |name, field| {
            found = true;
            out.push(0);
            string(name, out);
            out.push(0);
            write_type(field, out);
            out.push(1);
        });
        if !found {
            break;
        }
        nth(record, index, &mut |_, field| write_data(field, out));
        index += 1;
    }
    out.extend_from_slice(&[FINAL; 5]);
}

/// Shows one field.
fn nth(record: &mut dyn Record, index: usize, act: &mut dyn FnMut(&'static str, Field<'_>)) {
    let mut at = 0;
    record.fields(&mut |name, field| {
        if at == index {
            act(name, field);
        }
        at += 1;
    });
}

fn write_type(field: Field<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Bool(_) => out.push(BOOLEAN),
        Field::Unsigned(size, _) => out.extend_from_slice(&[FIXED_UINT, size]),
        Field::Signed(size, _) => out.extend_from_slice(&[FIXED_INT, size]),
        Field::Float(_) => out.push(FLOAT32),
        Field::Enum(_, names) => {
            out.extend_from_slice(&[ENUM, VARUINT]);
            varuint(names.len(), out);
            for (value, name) in names.iter().enumerate() {
                varuint(value, out);
                string(name, out);
            }
        }
        Field::MaybeInt(_) => out.extend_from_slice(&[UNION, NULL, FIXED_INT, 8, FINAL]),
        Field::MaybeFloat(_) => out.extend_from_slice(&[UNION, NULL, FLOAT32, FINAL]),
        Field::Object(object) => schema(object, out),
        Field::List(list) => {
            out.push(FIXED_ARRAY);
            varuint(list.count(), out);
            if list.count() > 0 {
                write_type(list.item(0), out);
            } else {
                out.push(NULL);
            }
        }
    }
}

fn write_data(field: Field<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Bool(v) => out.push(u8::from(*v)),
        Field::Unsigned(size, v) | Field::Signed(size, v) => {
            out.extend_from_slice(&v.number().to_le_bytes()[..usize::from(size).min(8)]);
        }
        Field::Float(v) => out.extend_from_slice(&v.to_le_bytes()),
        Field::Enum(v, _) => varuint(usize::from(*v), out),
        Field::MaybeInt(None) | Field::MaybeFloat(None) => out.push(0),
        Field::MaybeInt(Some(v)) => {
            out.push(1);
            out.extend_from_slice(&v.to_le_bytes());
        }
        Field::MaybeFloat(Some(v)) => {
            out.push(1);
            out.extend_from_slice(&v.to_le_bytes());
        }
        Field::Object(object) => data(object, out),
        Field::List(list) => (0..list.count()).for_each(|index| write_data(list.item(index), out)),
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    varuint(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

fn varuint(value: usize, out: &mut Vec<u8>) {
    let mut bytes = [0; 5];
    let len = khz_wire::subframe::write_varuint(value as u32, &mut bytes).unwrap_or(0);
    out.extend_from_slice(&bytes[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moteus::settings::{Id, PidPosition};

    #[test]
    fn the_schema_and_data_of_id_as_captured() {
        // moteus 1.1.1's client read `conf schema id` and `conf data id` in these bytes.
        let mut out = Vec::new();
        frame(["cschema", "id"], &mut out, |out| schema(&mut Id::default(), out));
        let mut expected = b"cschema id\r\n\x10\0\0\0".to_vec();
        expected.extend([0x10, 0, 0, 2, 0x69, 0x64, 0, 4, 1, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(out, expected);
        out.clear();
        frame(["cdata", "id"], &mut out, |out| data(&mut Id::default(), out));
        assert_eq!(out, b"cdata id\r\n\x01\0\0\0\x01");
    }

    #[test]
    fn numbers_keep_their_width() {
        let mut out = Vec::new();
        data(&mut PidPosition::default(), &mut out);
        assert_eq!(out.len(), 6 * 4 + 1);
        assert_eq!(out[24], 0xff);
    }
}
