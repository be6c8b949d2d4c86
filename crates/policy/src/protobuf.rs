//! Fields of a protobuf message. A length is compared with the bytes there are before anything is done with it.

use crate::ModelError;

/// A message, and where in the file it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    start: usize,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    pub(crate) value: Value<'a>,
    /// Where in the file.
    pub(crate) at: usize,
}

/// What a field has, by its wire type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Bytes(Message<'a>),
    Fixed32([u8; 4]),
}

impl<'a> Message<'a> {
    pub(crate) fn of_file(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0 }
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Its fields in their order; after an error there is none.
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields { rest: self }
    }

    /// The varints of a packed field.
    pub(crate) fn varints(self) -> impl Iterator<Item = Result<u64, ModelError>> + 'a {
        let mut rest = self;
        std::iter::from_fn(move || (!rest.bytes.is_empty()).then(|| rest.stop_at_error(Self::varint)))
    }

    /// The message as text.
    pub(crate) fn text(self) -> Result<&'a str, ModelError> {
        std::str::from_utf8(self.bytes).map_err(|_| self.wrong("a name that is no UTF-8"))
    }

    pub(crate) fn wrong(self, what: &'static str) -> ModelError {
        ModelError::Bytes { at: self.start, what }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ModelError> {
        let Some((head, tail)) = self.bytes.split_at_checked(len) else {
            return Err(self.wrong("a length beyond the end of what it is in"));
        };
        (self.bytes, self.start) = (tail, self.start + len);
        Ok(head)
    }

    fn varint(&mut self) -> Result<u64, ModelError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.wrong("a number longer than 64 bits"))
    }

    fn field(&mut self) -> Result<Field<'a>, ModelError> {
        let at = self.start;
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let start = self.start;
                Value::Bytes(Message { bytes: self.take(len)?, start })
            }
            5 => Value::Fixed32(self.take(4)?.try_into().unwrap_or_default()),
            _ => return Err(ModelError::Bytes { at, what: "a field of no known kind" }),
        };
        Ok(Field { number: tag >> 3, value, at })
    }

    fn stop_at_error<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let result = read(self);
        if result.is_err() {
            self.bytes = &[];
        }
        result
    }
}

impl<'a> Field<'a> {
    pub(crate) fn message(&self) -> Result<Message<'a>, ModelError> {
        match self.value {
            Value::Bytes(message) => Ok(message),
            _ => Err(self.wrong("a number where a message or text is expected")),
        }
    }

    pub(crate) fn number(&self) -> Result<u64, ModelError> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.wrong("no whole number where one is expected")),
        }
    }

    pub(crate) fn float(&self) -> Result<f32, ModelError> {
        match self.value {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.wrong("no float where one is expected")),
        }
    }

    /// Adds whole numbers, which are packed or not.
    pub(crate) fn numbers(&self, into: &mut Vec<i64>, most: usize) -> Result<(), ModelError> {
        let mut add = |value: u64| {
            into.push(value.cast_signed());
            if into.len() > most { Err(self.wrong("more numbers than any policy has here")) } else { Ok(()) }
        };
        match self.value {
            Value::Bytes(packed) => packed.varints().try_for_each(|value| add(value?)),
            _ => add(self.number()?),
        }
    }

    /// Adds floats, which are packed or not.
    pub(crate) fn floats(&self, into: &mut Vec<f32>) -> Result<(), ModelError> {
        let Value::Bytes(packed) = self.value else {
            into.push(self.float()?);
            return Ok(());
        };
        into.extend(floats(packed.bytes).ok_or_else(|| self.wrong("floats of no whole number of bytes"))?);
        Ok(())
    }

    fn wrong(&self, what: &'static str) -> ModelError {
        ModelError::Bytes { at: self.at, what }
    }
}

/// Little-endian floats; none if they are not four bytes each.
pub(crate) fn floats(bytes: &[u8]) -> Option<impl Iterator<Item = f32>> {
    let (floats, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| floats.iter().map(|&bytes| f32::from_le_bytes(bytes)))
}

/// See [`Message::fields`].
pub(crate) struct Fields<'a> {
    rest: Message<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, ModelError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.bytes.is_empty()).then(|| self.rest.stop_at_error(Message::field))
    }
}
