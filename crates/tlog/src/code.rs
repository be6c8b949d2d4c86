//! The primitive encodings: everything is little endian and byte packed.

use crate::error::{DecodeError, Flaw};

/// Where encoded bytes go.
///
/// A `Vec<u8>` grows (and so may allocate); a [`Slice`] is bounded and never allocates, which is what a control
/// loop uses.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a variable-length unsigned integer, in its shortest form.
    #[inline]
    fn varuint(&mut self, mut value: u64) {
        if value < 0x80 {
            return self.put(&[value as u8]);
        }
        let mut bytes = [0; 10];
        let mut len = 0;
        while value >= 0x80 {
            bytes[len] = value as u8 | 0x80;
            value >>= 7;
            len += 1;
        }
        bytes[len] = value as u8;
        self.put(&bytes[..=len]);
    }

    /// Appends a variable-length signed integer (zig-zag, then [`varuint`](Sink::varuint)).
    fn varint(&mut self, value: i64) {
        self.varuint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Appends a byte count and the bytes; strings and byte strings alike.
    fn counted(&mut self, bytes: &[u8]) {
        self.varuint(bytes.len() as u64);
        self.put(bytes);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A bounded [`Sink`] over borrowed memory.
#[derive(Debug)]
pub struct Slice<'a> {
    bytes: &'a mut [u8],
    /// Beyond the bytes once something did not fit.
    len: usize,
}

impl<'a> Slice<'a> {
    /// An empty sink with room for `bytes.len()` bytes.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// What was written; `None` if it did not all fit.
    pub fn written(&self) -> Option<&[u8]> {
        self.bytes.get(..self.len)
    }
}

impl Sink for Slice<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        // Where it begins and where it ends one after the other: a sum of both would have to be checked, too.
        match self.bytes.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            Some(target) => {
                target.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.len = usize::MAX,
        }
    }
}

/// Encoded bytes being read, front to back. Nothing read from it can panic.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    whole: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// Reads `bytes` from the front.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { whole: bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        &self.whole[self.at..]
    }

    /// Whether everything has been read.
    pub const fn is_empty(&self) -> bool {
        self.at == self.whole.len()
    }

    /// The bytes read since position `start`.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        &self.whole[start..self.at]
    }

    /// An error at the present position.
    pub(crate) const fn error(&self, flaw: Flaw) -> DecodeError {
        DecodeError { at: self.at, flaw }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        let Some(taken) = rest.get(..len) else {
            return Err(self.error(Flaw::Short { needed: len as u64, left: rest.len() as u64 }));
        };
        self.at += len;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// When none is left.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// A variable-length unsigned integer; longer forms than necessary are accepted.
    ///
    /// # Errors
    /// When it is cut short or does not fit 64 bits.
    pub fn varuint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (index, &byte) in self.rest().iter().take(10).enumerate() {
            if index == 9 && byte > 1 {
                return Err(self.error(Flaw::Overlong));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        let left = self.rest().len() as u64;
        Err(self.error(Flaw::Short { needed: left + 1, left }))
    }

    /// A variable-length signed integer.
    ///
    /// # Errors
    /// When it is cut short or does not fit 64 bits.
    pub fn varint(&mut self) -> Result<i64, DecodeError> {
        let raw = self.varuint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A byte count and that many bytes.
    ///
    /// # Errors
    /// When the count is malformed or fewer bytes are left.
    pub fn counted(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = *self;
        let len = self.varuint()?;
        let left = self.rest().len() as u64;
        if len > left {
            return Err(start.error(Flaw::Short { needed: len, left }));
        }
        self.take(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        out.varuint(value);
        out
    }

    #[test]
    fn the_table_of_the_format() {
        let cases: [(u64, &[u8]); 5] =
            [(0, &[0]), (127, &[0x7f]), (128, &[0x80, 1]), (256, &[0x80, 2]), (300, &[0xac, 2])];
        for (value, bytes) in cases {
            assert_eq!(encoded(value), bytes);
        }
        assert_eq!(encoded(u64::MAX), [[0xff; 9].as_slice(), &[1]].concat());
        let signed: [(i64, &[u8]); 5] = [(0, &[0]), (-1, &[1]), (1, &[2]), (-64, &[0x7f]), (64, &[0x80, 1])];
        for (value, bytes) in signed {
            let mut out = Vec::new();
            out.varint(value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_longer_form_is_accepted_and_an_overflow_is_not() {
        assert_eq!(Input::new(&[0x85, 0]).varuint(), Ok(5));
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(Input::new(&bytes).varuint(), Err(DecodeError { at: 0, flaw: Flaw::Overlong }));
        assert!(Input::new(&[0xff; 10]).varuint().is_err());
    }

    #[test]
    fn a_full_slice_says_so() {
        let mut memory = [0; 3];
        let mut slice = Slice::new(&mut memory);
        slice.put(&[1, 2]);
        assert_eq!(slice.written(), Some(&[1, 2][..]));
        slice.put(&[3, 4]);
        assert_eq!(slice.written(), None);
        slice.put(&[]);
        slice.put(&[5]);
        assert_eq!(slice.written(), None);
    }

    proptest! {
        #[test]
        fn integers_come_back(value: u64, signed: i64) {
            let mut out = encoded(value);
            prop_assert!(out.len() <= 10);
            out.varint(signed);
            let mut input = Input::new(&out);
            prop_assert_eq!(input.varuint(), Ok(value));
            prop_assert_eq!(input.varint(), Ok(signed));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn every_truncation_of_an_integer_is_an_error(value in 128u64..) {
            let out = encoded(value);
            for len in 0..out.len() {
                prop_assert!(Input::new(&out[..len]).varuint().is_err());
            }
        }
    }
}
