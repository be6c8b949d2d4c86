//! A tick's commands and replies with everything but the numbers done beforehand.
//!
//! At start-up the formats become a frame whose numbers are at known offsets, and a list of where the reply's
//! numbers will be. In the tick [`CommandTemplate::fill`] writes numbers and [`ReplyLayout::decode`] compares
//! a mask and reads numbers. Neither allocates, blocks or can fail.

use crate::address::Address;
use crate::command::{Command, Position, frame};
use crate::format::{Format, MAX_REGISTERS, head_len};
use crate::frame::{Frame, MAX_PAYLOAD, PADDING, padded_len};
use crate::register::Register;
use crate::reply::Reply;
use crate::subframe::{RegisterRun, SubframeError, Writer};
use crate::value::{Class, Resolution, Value};

/// A position command with its query, ready but for the numbers of [`Target`].
#[derive(Clone, Debug)]
pub struct CommandTemplate {
    frame: Frame,
    /// In the order of [`Target::values`].
    slots: [Slot; Target::REGISTERS.len()],
}

/// The values of a position command that change from tick to tick; the others are there from the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// rev. NaN: go on from the present control position with `velocity`.
    pub position: f64,
    /// rev/s. NaN counts as 0.
    pub velocity: f64,
    /// Feed-forward torque, N·m.
    pub torque: f64,
    /// Scales the servo's kp, 0 to 1.
    pub kp_scale: f64,
    /// Scales the servo's kd, 0 to 1.
    pub kd_scale: f64,
    /// N·m. NaN: no limit but the current's.
    pub max_torque: f64,
}

impl Target {
    const REGISTERS: [Register; 6] = [
        Register::COMMAND_POSITION,
        Register::COMMAND_VELOCITY,
        Register::COMMAND_TORQUE,
        Register::COMMAND_KP_SCALE,
        Register::COMMAND_KD_SCALE,
        Register::COMMAND_MAX_TORQUE,
    ];

    #[inline]
    const fn values(&self) -> [f64; Self::REGISTERS.len()] {
        [self.position, self.velocity, self.torque, self.kp_scale, self.kd_scale, self.max_torque]
    }
}

/// Where a value of a position command is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// `None`: it is not sent.
    number: Option<Number>,
    /// The bits of the value that was last asked for.
    written: u64,
}

impl Slot {
    /// Another value. By itself: it is called for few values, and beside it the others cost no more than a comparison.
    #[inline(never)]
    fn put(&mut self, value: f64, payload: &mut [u8; MAX_PAYLOAD]) {
        self.written = value.to_bits();
        if let Some(number) = &self.number {
            number.write(value, payload);
        }
    }
}

impl CommandTemplate {
    /// Lays the frame of this command out: mode, the registers of `format`, the reads of `query`. Registers of `format` that
    /// are not a position command's are left out. A reply is asked for exactly if there is a query.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn new(
        address: Address,
        command: &Position,
        format: &Format,
        query: &Format,
    ) -> Result<Self, TemplateError> {
        if !query.is_answerable() {
            return Err(TemplateError::ReplyTooLong);
        }
        let own = format.only(|register| command.value(register).is_some());
        let frame = Command::Position(*command)
            .frame(address, &own, query)
            .map_err(|_| TemplateError::RequestTooLong)?;
        // The mode's write takes the first three bytes.
        let numbers = Numbers::of(&own, 3);
        let slots = Target::REGISTERS.map(|register| Slot {
            number: numbers.iter().find(|number| number.register == register).copied(),
            written: command.value(register).unwrap_or(f64::NAN).to_bits(),
        });
        Ok(Self { frame, slots })
    }

    /// With a frame that is padded.
    #[must_use]
    pub fn padded(mut self) -> Self {
        self.frame.pad();
        self
    }

    /// Puts the numbers in that are not there yet; the frame to send. Inlined, as it is called for every command.
    #[inline(always)]
    pub fn fill(&mut self, target: &Target) -> &Frame {
        let buffer = self.frame.buffer_mut();
        for (value, slot) in target.values().into_iter().zip(&mut self.slots) {
            if value.to_bits() != slot.written {
                slot.put(value, buffer);
            }
        }
        &self.frame
    }

    /// The frame as last filled.
    pub const fn frame(&self) -> &Frame {
        &self.frame
    }
}

/// A query without command: a frame that never changes.
///
/// # Errors
/// [`TemplateError`].
pub fn query_frame(address: Address, query: &Format) -> Result<Frame, TemplateError> {
    if !query.is_answerable() {
        return Err(TemplateError::ReplyTooLong);
    }
    frame(Address { reply: true, ..address }, |writer| query.query(writer))
        .map_err(|_| TemplateError::RequestTooLong)
}

/// Why a format cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// Command and query are longer than a frame.
    RequestTooLong,
    /// The reply is longer than a frame, or has a subframe the device would not get to.
    ReplyTooLong,
}

impl core::fmt::Display for TemplateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::RequestTooLong => "command and query are longer than 64 bytes",
            Self::ReplyTooLong => "the query's reply is longer than a servo answers",
        })
    }
}

impl core::error::Error for TemplateError {}

/// What the reply to a query looks like, byte by byte, but for the numbers.
#[derive(Clone, Debug)]
pub struct ReplyLayout {
    /// With the padding that a servo adds.
    padded: Layout,
    /// Length before it.
    len: usize,
}

impl ReplyLayout {
    /// Of the replies to `query`.
    ///
    /// # Errors
    /// [`TemplateError::ReplyTooLong`].
    pub fn new(query: &Format) -> Result<Self, TemplateError> {
        if !query.is_answerable() {
            return Err(TemplateError::ReplyTooLong);
        }
        let mut layout = Layout::EMPTY;
        for run in query.runs() {
            let mut head = [0; MAX_PAYLOAD];
            let mut writer = Writer::new(&mut head);
            writer.reply_head(run).map_err(|_| TemplateError::ReplyTooLong)?;
            layout.known(writer.written());
            layout.numbers(run).ok_or(TemplateError::ReplyTooLong)?;
        }
        let len = layout.len;
        layout.known(&[PADDING; MAX_PAYLOAD][..padded_len(len) - len]);
        Ok(Self { padded: layout, len })
    }

    /// What replies look like in which these registers have these values, padded as on CAN-FD.
    pub fn with(&self, known: &[(Register, f64)]) -> Layout {
        let mut layout = self.padded;
        known.iter().for_each(|(register, value)| layout.number_is(*register, *value));
        layout
    }

    /// Where the number of this register begins in a reply, if it travels in this resolution.
    pub fn place(&self, register: Register, resolution: Resolution) -> Option<u8> {
        let mut numbers = self.padded.iter();
        let number = numbers.find(|number| (number.register, number.resolution) == (register, resolution));
        number.map(|number| number.offset)
    }

    /// Where this register's number is; [`Reading::ABSENT`] if it was not asked for.
    pub fn reading(&self, register: Register) -> Reading {
        let number = self.padded.iter().find(|number| number.register == register);
        number.map_or(Reading::ABSENT, |number| Reading::of(*number))
    }

    /// Decodes a reply: straight if it has this layout, by the general parser if not (an error in it, a
    /// stream, another query's reply).
    ///
    /// # Errors
    /// As [`Reply::parse`].
    pub fn decode(&self, frame: &Frame) -> Result<Reply, SubframeError> {
        if !self.fits(frame) {
            return Reply::parse(frame.payload());
        }
        let mut reply = Reply::default();
        for number in self.padded.iter() {
            if let Some(value) = Value::read(number.resolution, number.of(frame.buffer())) {
                reply.set(number.register, value);
            }
        }
        Ok(reply)
    }

    /// The payload is long enough, and begins with the same registers as the same type.
    #[inline]
    pub fn begins(&self, payload: &[u8]) -> bool {
        // The head of a few registers has two bytes, that of more has three.
        let Layout { mask, expected, .. } = &self.padded;
        let unequal = |at: usize| (payload[at] & mask[at]) ^ expected[at];
        payload.len() >= self.len && unequal(0) | unequal(1) | unequal(2) == 0
    }

    /// The frame has exactly this layout, padding aside.
    #[inline]
    pub fn fits(&self, frame: &Frame) -> bool {
        self.padded.is_of(frame) || self.fits_padded_otherwise(frame.payload())
    }

    /// With less padding than a frame of CAN-FD has, or with more.
    #[cold]
    fn fits_padded_otherwise(&self, payload: &[u8]) -> bool {
        let Some((payload, padding)) = payload.split_at_checked(self.len) else { return false };
        self.padded.begins(payload) && padding.iter().all(|&byte| byte == PADDING)
    }
}

/// Where one register's number is in a reply of a known layout, and how it is read: everything that does not depend on the reply is
/// worked out beforehand, so that neither type nor unit is looked up in the tick.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The number is in the four bytes from here on, …
    at: u8,
    /// … so many bits from their upper end, and shifted down by so many afterwards.
    left: u8,
    right: u8,
    is_float: bool,
    /// The integer that stands for NaN; none for plain integers and floats.
    missing: i64,
    lsb: f64,
}

impl Reading {
    /// Of a register that a reply does not bring: NaN.
    pub const ABSENT: Self =
        Self { at: 0, left: 0, right: 0, is_float: false, missing: i64::MAX, lsb: f64::NAN };

    pub(crate) fn of(number: Number) -> Self {
        let Number { class, resolution, offset, .. } = number;
        let (offset, bits) = (usize::from(offset), 8 * resolution.size());
        let at = offset.min(MAX_PAYLOAD - 4);
        let is_float = resolution == Resolution::Float;
        let has_nan = !is_float && !matches!(class, Class::Integer | Class::Word);
        Self {
            at: at as u8,
            left: (32 - bits - 8 * (offset - at)) as u8,
            right: (32 - bits) as u8,
            is_float,
            missing: if has_nan { -(1 << (bits - 1)) } else { i64::MAX },
            lsb: class.lsb(resolution),
        }
    }

    #[inline]
    fn bytes(&self, payload: &[u8; MAX_PAYLOAD]) -> i32 {
        let at = usize::from(self.at);
        // There are four: see `Reading::of`.
        let bytes = payload.get(at..at + 4).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| i32::from_le_bytes(*bytes))
    }

    #[inline]
    fn word(&self, payload: &[u8; MAX_PAYLOAD]) -> i32 {
        self.bytes(payload).wrapping_shl(self.left.into()).wrapping_shr(self.right.into())
    }

    /// The number in the unit of its class, as [`Class::decode`]. The frame must have the reading's layout: see [`ReplyLayout::fits`].
    #[inline]
    pub fn value(&self, frame: &Frame) -> f64 {
        self.value_in(frame.buffer())
    }

    /// As [`Reading::value`], of a payload.
    #[inline]
    pub(crate) fn value_in(&self, payload: &[u8; MAX_PAYLOAD]) -> f64 {
        if self.is_float {
            return f64::from(f32::from_bits(self.bytes(payload) as u32));
        }
        let word = self.word(payload);
        if i64::from(word) == self.missing { f64::NAN } else { f64::from(word) * self.lsb }
    }

    /// The unscaled integer, as [`Value::integer`], of a frame of this layout.
    #[inline]
    pub fn integer(&self, frame: &Frame) -> i32 {
        let word = self.word(frame.buffer());
        if self.is_float { truncated(word) } else { word }
    }
}

/// An integer that travels as a float, which is rarely requested.
#[cold]
fn truncated(word: i32) -> i32 {
    f32::from_bits(word as u32) as i32
}

/// A payload, byte by byte, but for its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Bits that are known, and what they are.
    mask: [u8; MAX_PAYLOAD],
    expected: [u8; MAX_PAYLOAD],
    /// Length before padding.
    len: usize,
    numbers: Numbers,
}

impl Layout {
    pub(crate) const EMPTY: Self =
        Self { mask: [0; MAX_PAYLOAD], expected: [0; MAX_PAYLOAD], len: 0, numbers: Numbers::NONE };

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds bytes that are always the same. There must be room.
    pub(crate) fn known(&mut self, bytes: &[u8]) {
        let place = self.len..self.len + bytes.len();
        self.mask[place.clone()].fill(0xff);
        self.expected[place].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds a run's numbers; `None` if there is no room, or a register of a larger number than there is.
    pub(crate) fn numbers(&mut self, run: RegisterRun) -> Option<()> {
        let end = self.len + (run.count as usize).checked_mul(run.resolution.size())?;
        let last = run.start.checked_add(run.count.saturating_sub(1))?;
        let fits = end <= MAX_PAYLOAD
            && self.numbers.len + run.count as usize <= MAX_REGISTERS
            && last <= u32::from(u16::MAX);
        fits.then(|| self.len = self.numbers.push(run, self.len))
    }

    /// Adds that the number of this register is that of `value`, if there is one.
    fn number_is(&mut self, register: Register, value: f64) {
        let numbers = self.numbers;
        for number in numbers.iter().filter(|number| number.register == register) {
            number.write(value, &mut self.expected);
            number.of_mut(&mut self.mask)[..number.resolution.size()].fill(0xff);
        }
    }

    /// The known bytes, and 0 for the numbers.
    pub(crate) const fn bytes(&self) -> &[u8; MAX_PAYLOAD] {
        &self.expected
    }

    #[inline]
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Number> {
        self.numbers.iter()
    }

    /// The frame has this layout, and the padding that belongs to it.
    #[inline]
    pub fn is_of(&self, frame: &Frame) -> bool {
        self.fits(frame.buffer(), frame.len())
    }

    /// A payload of this length has this layout.
    #[inline]
    pub(crate) fn fits(&self, payload: &[u8; MAX_PAYLOAD], len: usize) -> bool {
        // All of it, as the lengths of arrays are known to the compiler.
        len == self.len && self.begins(payload)
    }

    /// Its beginning is this payload, with any numbers.
    #[inline]
    fn begins(&self, payload: &[u8]) -> bool {
        let known = payload.iter().zip(&self.mask).zip(&self.expected);
        known.fold(0, |unequal, ((byte, mask), expected)| unequal | (byte & mask ^ expected)) == 0
    }
}

/// Where the numbers are in a payload.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    numbers: [Number; MAX_REGISTERS],
    len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub register: Register,
    pub class: Class,
    pub resolution: Resolution,
    offset: u8,
}

impl Number {
    const NOWHERE: Self =
        Self { register: Register::MODE, class: Class::Integer, resolution: Resolution::Int8, offset: 0 };

    /// The payload from this number on.
    #[inline]
    pub fn of(self, payload: &[u8; MAX_PAYLOAD]) -> &[u8] {
        &payload[usize::from(self.offset) % MAX_PAYLOAD..]
    }

    /// As [`Number::of`], to be written to.
    #[inline]
    pub fn of_mut(self, payload: &mut [u8; MAX_PAYLOAD]) -> &mut [u8] {
        &mut payload[usize::from(self.offset) % MAX_PAYLOAD..]
    }

    /// Writes a number to its place.
    #[inline]
    pub fn write(&self, value: f64, payload: &mut [u8; MAX_PAYLOAD]) {
        let (class, place) = (self.class, self.of_mut(payload));
        // Each by itself, so that the value is written as it is made and not looked at again.
        let _ = match self.resolution {
            Resolution::Int8 => class.encode(value, Resolution::Int8).write(place),
            Resolution::Int16 => class.encode(value, Resolution::Int16).write(place),
            Resolution::Int32 => class.encode(value, Resolution::Int32).write(place),
            Resolution::Float => class.encode(value, Resolution::Float).write(place),
        };
    }
}

impl Numbers {
    const NONE: Self = Self { numbers: [Number::NOWHERE; MAX_REGISTERS], len: 0 };

    /// Of subframes, in the order of `format`, that start at `start`.
    fn of(format: &Format, start: usize) -> Self {
        let mut all = Self::NONE;
        let mut offset = start;
        for run in format.runs() {
            offset += head_len(run);
            offset = all.push(run, offset);
        }
        all
    }

    /// Adds a run's numbers; the offset behind them.
    fn push(&mut self, run: RegisterRun, start: usize) -> usize {
        let RegisterRun { resolution, .. } = run;
        for i in 0..run.count as usize {
            let register = Register((run.start as usize + i) as u16);
            let offset = (start + i * resolution.size()) as u8;
            self.numbers[self.len] = Number { register, class: register.class(), resolution, offset };
            self.len += 1;
        }
        start + run.count as usize * resolution.size()
    }

    #[inline]
    fn iter(&self) -> core::slice::Iter<'_, Number> {
        self.numbers[..self.len].iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Resolution::{Float, Int8, Int16, Int32};

    /// All resolutions, a gap, and both forms of a run.
    fn formats() -> (Format, Format) {
        let command = [
            (Register::COMMAND_POSITION, Int16),
            (Register::COMMAND_VELOCITY, Int16),
            (Register::COMMAND_TORQUE, Float),
            (Register::COMMAND_KP_SCALE, Int8),
            (Register::COMMAND_WATCHDOG, Int32),
        ];
        let query = [
            (Register::MODE, Int16),
            (Register::POSITION, Int16),
            (Register::VELOCITY, Int16),
            (Register::TORQUE, Int16),
            (Register::Q_CURRENT, Int32),
            (Register::VOLTAGE, Float),
            (Register::FAULT, Int8),
            (Register::MILLISECOND_COUNTER, Int32),
        ];
        (Format::of(&command).unwrap(), Format::of(&query).unwrap())
    }

    #[test]
    fn filling_equals_encoding_anew() {
        let (format, query) = formats();
        let always = Position { watchdog: 0.1, ..Position::default() };
        let mut template = CommandTemplate::new(Address::to(7, false), &always, &format, &query).unwrap();
        assert_eq!(
            *template.frame(),
            Command::Position(always).frame(Address::to(7, false), &format, &query).unwrap()
        );
        for (position, velocity, torque) in [(0.25, -1.0, 0.5), (f64::NAN, 1e9, -0.0), (0.0, 0.0, 3.0)] {
            let Position { kd_scale, max_torque, .. } = always;
            let target = Target { position, velocity, torque, kp_scale: 0.5, kd_scale, max_torque };
            let values = Position { position, velocity, torque, kp_scale: 0.5, ..always };
            let anew = Command::Position(values).frame(Address::to(7, false), &format, &query).unwrap();
            assert_eq!(*template.fill(&target), anew);
        }
    }

    #[test]
    fn the_straight_way_equals_the_parser() {
        let (_, query) = formats();
        let layout = ReplyLayout::new(&query).unwrap();
        let mut payload = [0; 64];
        let mut writer = Writer::new(&mut payload);
        for (i, run) in query.runs().enumerate() {
            writer.reply_head(run).unwrap();
            for k in 0..run.count {
                writer.value(Class::Integer.encode(f64::from(k + 3) + i as f64, run.resolution)).unwrap();
            }
        }
        let len = writer.len();
        let mut frame = Frame::new(0x100, &payload[..len]).unwrap();
        for _ in 0..2 {
            assert!(layout.fits(&frame));
            assert_eq!(layout.decode(&frame), Reply::parse(frame.payload()));
            frame.pad();
        }
    }

    /// At every place of a payload, also its last bytes.
    #[test]
    fn a_reading_is_the_value_at_its_place() {
        let numbers = [Int8, Int16, Int32, Float].map(|resolution| (0..=64 - resolution.size(), resolution));
        for (offset, resolution) in
            numbers.into_iter().flat_map(|(offsets, resolution)| offsets.map(move |at| (at, resolution)))
        {
            for bytes in [[0, 0, 0, 0x80], [0x80; 4], [0, 0x80, 0x80, 0x7f], [0xff; 4], [7, 1, 2, 0x41]] {
                for class in [Class::Position, Class::Integer] {
                    let mut payload = [0x55; MAX_PAYLOAD];
                    let size = resolution.size();
                    payload[offset..offset + size].copy_from_slice(&bytes[..size]);
                    let frame = Frame::new(0x100, &payload).unwrap();
                    let number = Number { register: Register(1), class, resolution, offset: offset as u8 };
                    let value = Value::read(resolution, number.of(&payload)).unwrap();
                    let reading = Reading::of(number);
                    assert_eq!(reading.integer(&frame), value.integer(), "{number:?}");
                    assert_eq!(reading.value(&frame).to_bits(), class.decode(value).to_bits(), "{number:?}");
                }
            }
        }
        assert!(Reading::ABSENT.value(&Frame::new(0, &[1, 2, 3, 4]).unwrap()).is_nan());
    }

    #[test]
    fn other_layouts_go_to_the_parser() {
        let layout = ReplyLayout::new(&Format::default_query()).unwrap();
        for payload in [&[0x21, 0, 10][..], &[0x31, 0, 1], &[0x60], &[], &[0x41, 1, 0], &[0x50; 24]] {
            let frame = Frame::new(0x100, payload).unwrap();
            assert!(!layout.fits(&frame));
            assert_eq!(layout.decode(&frame), Reply::parse(payload));
        }
        let mut payload = *b"\x21\0\x0a\x2f\x01\0\0\0\0\0\0\0\0\0\0\0\0\x23\x0d\x31\x1e\0\x50\x50";
        assert!(layout.fits(&Frame::new(0x100, &payload).unwrap()));
        payload[23] = 0x60;
        assert!(!layout.fits(&Frame::new(0x100, &payload).unwrap()));
    }

    #[test]
    fn refuses_what_no_servo_answers() {
        let floats = (0..16).map(|n| (Register(n), Float));
        let query = floats
            .fold(Format::new(), |format, (register, resolution)| format.with(register, resolution).unwrap());
        let to = Address::to(1, true);
        let refused =
            CommandTemplate::new(to, &Position::default(), &Format::default_position(), &query).unwrap_err();
        assert_eq!(refused, TemplateError::ReplyTooLong);
        assert_eq!(query_frame(to, &query), Err(TemplateError::ReplyTooLong));
        let refused =
            CommandTemplate::new(to, &Position::default(), &Position::all_floats(), &Format::default_query())
                .unwrap_err();
        assert_eq!(refused, TemplateError::RequestTooLong);
    }
}
