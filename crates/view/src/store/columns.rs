//! A record's payload as a row of numbers.

use super::schemas::{Signal, SignalKind};
use khz_tlog::{DecodeError, Input, Type, Value};

/// Fixed arrays up to this length have a signal per item.
const SPREAD: u64 = 64;

/// How many numbers a payload of this type has: always the same.
pub(super) fn width(ty: &Type) -> u64 {
    match ty {
        Type::Object(fields) => fields.iter().fold(0, |sum, field| sum.saturating_add(width(&field.ty))),
        Type::FixedArray(size, item) if *size <= SPREAD => size.saturating_mul(width(item)),
        Type::Union(members) => optional(members).map_or(0, width),
        leaf => u64::from(kind(leaf).is_some()),
    }
}

/// Appends a signal for each of these numbers, in their order.
pub(super) fn describe(ty: &Type, path: &str, unit: Option<&str>, out: &mut Vec<Signal>) {
    match ty {
        Type::Object(fields) => {
            for field in fields {
                describe(&field.ty, &format!("{path}.{}", field.name), field.unit(), out);
            }
        }
        Type::FixedArray(size, item) if *size <= SPREAD => {
            (0..*size).for_each(|index| describe(item, &format!("{path}.{index}"), unit, out));
        }
        Type::Union(members) => {
            optional(members).iter().for_each(|member| describe(member, path, unit, out));
        }
        leaf => {
            if let Some(kind) = kind(leaf) {
                out.push(Signal {
                    name: path.to_owned(),
                    unit: unit.map(str::to_owned),
                    kind,
                    is_current: true,
                });
            }
        }
    }
}

/// Appends the numbers of the payload at `input`; NaN for those that are absent.
pub(super) fn pour<'a>(ty: &'a Type, input: &mut Input<'a>, out: &mut Vec<f64>) -> Result<(), DecodeError> {
    match ty {
        Type::Object(fields) => fields.iter().try_for_each(|field| pour(&field.ty, input, out)),
        Type::FixedArray(size, item) if *size <= SPREAD => {
            (0..*size).try_for_each(|_| pour(item, input, out))
        }
        Type::Union(members) => match optional(members) {
            Some(member) => pour_optional(ty, members, member, input, out),
            None => Value::next(ty, input).map(|_| ()),
        },
        leaf => {
            let value = Value::next(leaf, input)?;
            if kind(leaf).is_some() {
                out.push(value.number().unwrap_or(f64::NAN));
            }
            Ok(())
        }
    }
}

fn pour_optional<'a>(
    ty: &'a Type,
    members: &'a [Type],
    member: &'a Type,
    input: &mut Input<'a>,
    out: &mut Vec<f64>,
) -> Result<(), DecodeError> {
    let mut ahead = *input;
    let index = ahead.varuint()?;
    if usize::try_from(index).ok().and_then(|index| members.get(index)) == Some(member) {
        *input = ahead;
        return pour(member, input, out);
    }
    Value::next(ty, input)?;
    out.extend((0..width(member)).map(|_| f64::NAN));
    Ok(())
}

fn kind(leaf: &Type) -> Option<SignalKind> {
    Some(match leaf {
        Type::Bool => SignalKind::Truth,
        Type::Enum { names, .. } => {
            SignalKind::Choice(names.iter().map(|(value, name)| (*value as f64, name.clone())).collect())
        }
        Type::Int(_) | Type::Uint(_) | Type::VarInt | Type::VarUint => SignalKind::Number,
        Type::Float32 | Type::Float64 | Type::Timestamp | Type::Duration => SignalKind::Number,
        _ => return None,
    })
}

/// The type of a value that may be absent, unless it is another of this kind.
fn optional(members: &[Type]) -> Option<&Type> {
    match members {
        [Type::Null, inner] | [inner, Type::Null] if !matches!(inner, Type::Null) => Some(inner),
        _ => None,
    }
}
