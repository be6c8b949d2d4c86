//! Physical values and their integer and float encodings.

/// How a register travels: its type and size on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Resolution {
    /// One byte, scaled.
    Int8 = 0,
    /// Two bytes, scaled.
    Int16 = 1,
    /// Four bytes, scaled.
    Int32 = 2,
    /// IEEE-754 binary32, unscaled.
    Float = 3,
}

impl Resolution {
    /// The resolution of a 2-bit type code.
    pub const fn from_code(code: u8) -> Self {
        match code & 3 {
            0 => Self::Int8,
            1 => Self::Int16,
            2 => Self::Int32,
            _ => Self::Float,
        }
    }

    /// Bytes of one value.
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 | Self::Float => 4,
        }
    }
}

/// One value as it travels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// See [`Resolution::Int8`].
    Int8(i8),
    /// See [`Resolution::Int16`].
    Int16(i16),
    /// See [`Resolution::Int32`].
    Int32(i32),
    /// See [`Resolution::Float`].
    Float(f32),
}

impl Value {
    /// Its type on the wire.
    pub const fn resolution(self) -> Resolution {
        match self {
            Self::Int8(_) => Resolution::Int8,
            Self::Int16(_) => Resolution::Int16,
            Self::Int32(_) => Resolution::Int32,
            Self::Float(_) => Resolution::Float,
        }
    }

    /// Reads one little-endian value from the front of `bytes`; `None` if there are too few.
    #[inline]
    pub fn read(resolution: Resolution, bytes: &[u8]) -> Option<Self> {
        Some(match resolution {
            Resolution::Int8 => Self::Int8(i8::from_le_bytes([*bytes.first()?])),
            Resolution::Int16 => Self::Int16(i16::from_le_bytes(*bytes.first_chunk()?)),
            Resolution::Int32 => Self::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
            Resolution::Float => Self::Float(f32::from_le_bytes(*bytes.first_chunk()?)),
        })
    }

    /// Writes the value little-endian to the front of `bytes`; `None`, writing nothing, if it does not fit.
    #[inline]
    pub fn write(self, bytes: &mut [u8]) -> Option<usize> {
        // Arrays, whose lengths the compiler knows: a copy of unknown length is a call, seven per servo and tick.
        match self {
            Self::Int8(v) => *bytes.first_chunk_mut()? = v.to_le_bytes(),
            Self::Int16(v) => *bytes.first_chunk_mut()? = v.to_le_bytes(),
            Self::Int32(v) => *bytes.first_chunk_mut()? = v.to_le_bytes(),
            Self::Float(v) => *bytes.first_chunk_mut()? = v.to_le_bytes(),
        }
        Some(self.resolution().size())
    }

    /// The number itself, unscaled; for plain integers such as mode and fault.
    /// A float is truncated and saturated; NaN gives 0.
    pub const fn integer(self) -> i32 {
        match self {
            Self::Int8(v) => v as i32,
            Self::Int16(v) => v as i32,
            Self::Int32(v) => v,
            Self::Float(v) => v as i32,
        }
    }
}

/// More steps than any integer has, few enough for `f64` to count them.
const MANY_STEPS: f64 = (1_u64 << 40) as f64;

/// What a register measures; sets unit and scale of its integer encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Revolutions of the output.
    Position,
    /// Revolutions per second.
    Velocity,
    /// Revolutions per second squared.
    Acceleration,
    /// N·m.
    Torque,
    /// A.
    Current,
    /// V.
    Voltage,
    /// °C.
    Temperature,
    /// s.
    Time,
    /// A ratio, −1 to 1.
    Pwm,
    /// W.
    Power,
    /// A plain integer; a float carries the integer's value.
    Integer,
    /// Raw 32 bits; int32 only.
    Word,
}

/// Of each [`Class`] the value of the least significant bit as int8, int16, int32 and float: a table, because each number of each
/// frame needs one.
const LSB: [[f64; 4]; 12] = [
    [0.01, 0.0001, 0.000_01, 1.0],
    [0.1, 0.000_25, 0.000_01, 1.0],
    [0.05, 0.001, 0.000_01, 1.0],
    [0.5, 0.01, 0.001, 1.0],
    [1.0, 0.1, 0.001, 1.0],
    [0.5, 0.1, 0.001, 1.0],
    [1.0, 0.1, 0.001, 1.0],
    [0.01, 0.001, 0.000_001, 1.0],
    [1.0 / 127.0, 1.0 / 32_767.0, 1.0 / 2_147_483_647.0, 1.0],
    [10.0, 0.05, 0.0001, 1.0],
    [1.0; 4],
    [1.0; 4],
];

impl Class {
    /// The value of the least significant bit of `resolution` (1 for floats).
    #[inline]
    pub const fn lsb(self, resolution: Resolution) -> f64 {
        LSB[self as usize][resolution as usize]
    }

    /// The greatest magnitude that can travel: a finite number beyond it would be sent cut. A received integer of this
    /// magnitude means "this much or more".
    pub const fn greatest(self, resolution: Resolution) -> f64 {
        let integer = match resolution {
            Resolution::Int8 => i8::MAX as i32,
            Resolution::Int16 => i16::MAX as i32,
            Resolution::Int32 => i32::MAX,
            Resolution::Float => return f32::MAX as f64,
        };
        integer as f64 * self.lsb(resolution)
    }

    /// The values between `low` and `high` that travel without leaving that range: truncation toward zero moves a
    /// negative lower bound or a positive upper one inwards, but the others outwards, and a float rounds either way.
    /// Infinite bounds stay; if nothing that can travel is between them, the result is the wrong way round.
    pub fn inside(self, [low, high]: [f64; 2], resolution: Resolution) -> [f64; 2] {
        [-self.at_most(-low, resolution), self.at_most(high, resolution)]
    }

    /// The greatest value that is not above `high` when it has travelled.
    fn at_most(self, high: f64, resolution: Resolution) -> f64 {
        if !high.is_finite() {
            return high;
        }
        if resolution == Resolution::Float {
            let nearest = high as f32;
            return f64::from(if f64::from(nearest) > high { nearest.next_down() } else { nearest });
        }
        // A little further from zero than the step: no rounding of this division or the next moves it to another one.
        let lsb = self.lsb(resolution);
        let truncated = (high / lsb).clamp(-MANY_STEPS, MANY_STEPS) as i64;
        let steps = if truncated as f64 * lsb > high { truncated - 1 } else { truncated } as f64;
        (steps + 1e-3 * steps.signum() * f64::from(steps != 0.0)) * lsb
    }

    /// Physical value → wire: truncates toward zero, saturates to ±the largest number, and turns NaN and
    /// infinity into the most negative one.
    #[inline]
    pub fn encode(self, value: f64, resolution: Resolution) -> Value {
        let integer = |limit: i32| {
            if value.is_finite() {
                let scaled = value / self.lsb(resolution);
                scaled.clamp(-f64::from(limit), f64::from(limit)) as i32
            } else {
                -limit - 1
            }
        };
        match resolution {
            Resolution::Int8 => Value::Int8(integer(i32::from(i8::MAX)) as i8),
            Resolution::Int16 => Value::Int16(integer(i32::from(i16::MAX)) as i16),
            Resolution::Int32 => Value::Int32(integer(i32::MAX)),
            Resolution::Float => Value::Float(value as f32),
        }
    }

    /// Wire → physical value. The most negative integer is NaN, except for plain integers and words.
    #[inline]
    pub fn decode(self, value: Value) -> f64 {
        let missing = match value {
            Value::Int8(v) => v == i8::MIN,
            Value::Int16(v) => v == i16::MIN,
            Value::Int32(v) => v == i32::MIN,
            Value::Float(v) => return f64::from(v),
        };
        if missing && !matches!(self, Self::Integer | Self::Word) {
            return f64::NAN;
        }
        f64::from(value.integer()) * self.lsb(value.resolution())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturates_but_never_to_nan() {
        let encode = |v| Class::Position.encode(v, Resolution::Int16);
        assert_eq!(encode(100.0), Value::Int16(32_767));
        assert_eq!(encode(-100.0), Value::Int16(-32_767));
        assert_eq!(encode(f64::NAN), Value::Int16(i16::MIN));
        assert_eq!(encode(f64::INFINITY), Value::Int16(i16::MIN));
        assert!(Class::Position.decode(Value::Int16(i16::MIN)).is_nan());
    }

    #[test]
    fn truncates_toward_zero() {
        assert_eq!(Class::Position.encode(0.29, Resolution::Int8), Value::Int8(28));
        assert_eq!(Class::Position.encode(-0.255, Resolution::Int8), Value::Int8(-25));
    }

    #[test]
    fn no_value_inside_limits_leaves_them_on_its_way() {
        let travelled = |value, resolution| Class::Position.decode(Class::Position.encode(value, resolution));
        for resolution in [Resolution::Int8, Resolution::Int16, Resolution::Int32, Resolution::Float] {
            for step in -200_i32..200 {
                let low = f64::from(step) * 0.003_7;
                for width in [0.011, 0.25, 0.3] {
                    let limits = [low, low + width];
                    let [least, most] = Class::Position.inside(limits, resolution);
                    assert!(least <= most, "{limits:?} {resolution:?}");
                    for share in [0.0, 0.3, 0.999_999, 1.0] {
                        let sent = travelled(least + share * (most - least), resolution);
                        let inside = sent >= limits[0] && sent <= limits[1];
                        assert!(inside, "{sent} is outside {limits:?} as {resolution:?}");
                    }
                    let lost = Class::Position.lsb(resolution).min(0.01);
                    assert!(limits[1] - travelled(most, resolution) < lost * 1.001, "too much is cut");
                    assert!(travelled(least, resolution) - limits[0] < lost * 1.001, "too much is cut");
                }
            }
        }
        let open = [f64::NEG_INFINITY, f64::INFINITY];
        assert_eq!(Class::Position.inside(open, Resolution::Int16), open);
    }

    #[test]
    fn the_greatest_value_is_the_one_that_saturates() {
        assert!((Class::Position.greatest(Resolution::Int16) - 3.2767).abs() < 1e-12);
        for resolution in [Resolution::Int8, Resolution::Int16, Resolution::Int32] {
            let most = Class::Velocity.decode(Class::Velocity.encode(1e9, resolution));
            assert_eq!(Class::Velocity.greatest(resolution), most);
        }
        assert!((Class::Torque.greatest(Resolution::Float) as f32).is_finite());
    }

    #[test]
    fn plain_integers_have_no_nan() {
        assert_eq!(Class::Integer.decode(Value::Int8(-128)), -128.0);
    }
}
