//! Which registers travel, and at which resolution each: the format of a command or of a query.

use crate::register::Register;
use crate::subframe::{Full, RegisterRun, Subframe, Subframes, Writer, varuint_len};
use crate::value::Resolution;

/// The most registers in one format.
pub const MAX_REGISTERS: usize = 24;

/// A device stops processing a request once fewer than 23 of the 64 bytes of its reply are left, so no reply
/// subframe may start behind this one.
const LAST_START: usize = 41;

/// Registers in ascending order with their resolutions. A register that is not in it is not sent.
///
/// Neighbours of equal resolution travel as one subframe, as the official clients encode them: up to three
/// registers in the short form, four and more in the long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    registers: [(Register, Resolution); MAX_REGISTERS],
    len: usize,
    /// How many subframes travel last instead of first.
    rotation: usize,
}

/// The format already has [`MAX_REGISTERS`] registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatFull;

impl core::fmt::Display for FormatFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "more than {MAX_REGISTERS} registers in one format")
    }
}

impl core::error::Error for FormatFull {}

impl Format {
    /// No registers.
    pub const fn new() -> Self {
        Self { registers: [(Register::MODE, Resolution::Int8); MAX_REGISTERS], len: 0, rotation: 0 }
    }

    /// These registers, in any order; of a register given twice the last counts.
    ///
    /// # Errors
    /// [`FormatFull`].
    pub fn of(registers: &[(Register, Resolution)]) -> Result<Self, FormatFull> {
        registers
            .iter()
            .try_fold(Self::new(), |format, &(register, resolution)| format.with(register, resolution))
    }

    /// What the official clients ask for by default: mode int8; position, velocity, torque float;
    /// voltage, temperature, fault int8.
    pub fn default_query() -> Self {
        use Resolution::{Float, Int8};
        Self::listed(&[
            (Register::MODE, Int8),
            (Register::POSITION, Float),
            (Register::VELOCITY, Float),
            (Register::TORQUE, Float),
            (Register::VOLTAGE, Int8),
            (Register::TEMPERATURE, Int8),
            (Register::FAULT, Int8),
        ])
    }

    /// What the official C++ client sends by default: position and velocity as floats.
    pub fn default_position() -> Self {
        use Resolution::Float;
        Self::listed(&[(Register::COMMAND_POSITION, Float), (Register::COMMAND_VELOCITY, Float)])
    }

    /// Of at most [`MAX_REGISTERS`]; more are left out.
    pub(crate) fn listed(registers: &[(Register, Resolution)]) -> Self {
        registers.iter().fold(Self::new(), |format, &(register, resolution)| {
            format.with(register, resolution).unwrap_or(format)
        })
    }

    /// Adds a register, or changes its resolution.
    ///
    /// # Errors
    /// [`FormatFull`].
    pub fn with(mut self, register: Register, resolution: Resolution) -> Result<Self, FormatFull> {
        match self.find(register) {
            Ok(at) => self.registers[at].1 = resolution,
            Err(_) if self.len == MAX_REGISTERS => return Err(FormatFull),
            Err(at) => {
                self.registers.copy_within(at..self.len, at + 1);
                self.registers[at] = (register, resolution);
                self.len += 1;
            }
        }
        Ok(self)
    }

    /// Leaves a register out.
    pub fn without(mut self, register: Register) -> Self {
        if let Ok(at) = self.find(register) {
            self.registers.copy_within(at + 1..self.len, at);
            self.len -= 1;
        }
        self
    }

    /// Without the registers that `keep` refuses.
    pub(crate) fn only(mut self, keep: impl Fn(Register) -> bool) -> Self {
        let mut kept = 0;
        for i in 0..self.len {
            if keep(self.registers[i].0) {
                self.registers[kept] = self.registers[i];
                kept += 1;
            }
        }
        self.len = kept;
        self
    }

    /// The same registers, with the first `by` subframes moved behind the others. A device answers in the order
    /// of the query, so the order of a reply shows which of several rotations it answers.
    pub const fn rotated(mut self, by: usize) -> Self {
        self.rotation = by;
        self
    }

    /// The registers, ascending.
    pub fn registers(&self) -> &[(Register, Resolution)] {
        &self.registers[..self.len]
    }

    /// No register at all.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The resolution a register has here, if it is here.
    pub fn resolution(&self, register: Register) -> Option<Resolution> {
        self.find(register).ok().map(|at| self.registers[at].1)
    }

    /// The subframes in the order they travel: neighbouring registers of equal resolution, rotated.
    pub fn runs(&self) -> impl Iterator<Item = RegisterRun> + '_ {
        self.ascending_runs().skip(self.rotation).chain(self.ascending_runs().take(self.rotation))
    }

    fn ascending_runs(&self) -> impl Iterator<Item = RegisterRun> + '_ {
        let follows = |a: &(Register, Resolution), b: &(Register, Resolution)| {
            a.1 == b.1 && a.0.0.checked_add(1) == Some(b.0.0)
        };
        self.registers().chunk_by(follows).filter_map(|chunk| {
            let &(first, resolution) = chunk.first()?;
            let count = chunk.len() as u32;
            Some(RegisterRun { resolution, start: u32::from(first.0), count, long: count > 3 })
        })
    }

    /// Writes the read subframes of a query.
    ///
    /// # Errors
    /// [`Full`] if they do not all fit; those before are written.
    pub fn query(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        self.runs().try_for_each(|run| writer.read(run))
    }

    /// Length of the reads of this query.
    pub fn query_len(&self) -> usize {
        self.runs().map(head_len).sum()
    }

    /// Length of the reply to this query, before padding.
    pub fn reply_len(&self) -> usize {
        self.runs().map(reply_subframe_len).sum()
    }

    /// The reply fits a frame, and the device gets to every part of the query; of a query that is not
    /// answerable the last registers never arrive.
    pub fn is_answerable(&self) -> bool {
        self.is_answerable_after(0)
    }

    /// As [`Format::is_answerable`], behind so many bytes of the reply that other reads take.
    pub fn is_answerable_after(&self, taken: usize) -> bool {
        let mut start = taken;
        let starts_in_time = self.runs().all(|run| {
            let in_time = start <= LAST_START;
            start += reply_subframe_len(run);
            in_time
        });
        starts_in_time && start <= crate::frame::MAX_PAYLOAD
    }

    /// Whether this reply can be one to this query, and not a late one to another: every register in it was asked for,
    /// and none is missing that a device gets to. One that reports an error or is damaged may be an answer to anything.
    pub fn is_answered_by(&self, reply: &[u8]) -> bool {
        let mut answered = 0;
        for subframe in Subframes::new(reply) {
            match subframe {
                Ok(Subframe::Reply(values)) => {
                    for (register, _) in values.iter() {
                        let asked =
                            u16::try_from(register).is_ok_and(|number| self.find(Register(number)).is_ok());
                        if !asked {
                            return false;
                        }
                        answered += 1;
                    }
                }
                Ok(Subframe::ReadError(_) | Subframe::WriteError(_)) | Err(_) => return true,
                Ok(_) => {}
            }
        }
        answered == self.registers().len() || answered > 0 && !self.is_answerable()
    }

    fn find(&self, register: Register) -> Result<usize, usize> {
        self.registers().binary_search_by_key(&register, |&(register, _)| register)
    }
}

impl Default for Format {
    fn default() -> Self {
        Self::new()
    }
}

/// Opcode, count and start register of a subframe.
pub(crate) fn head_len(run: RegisterRun) -> usize {
    1 + if run.long { varuint_len(run.count) } else { 0 } + varuint_len(run.start)
}

fn reply_subframe_len(run: RegisterRun) -> usize {
    head_len(run) + run.count as usize * run.resolution.size()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::value::Resolution::{Float, Int8, Int16, Int32};
    use std::vec::Vec;

    #[test]
    fn a_rotated_query_asks_for_the_same_in_another_order() {
        let starts = |by| Format::default_query().rotated(by).runs().map(|run| run.start).collect::<Vec<_>>();
        assert_eq!([starts(0), starts(1), starts(2)], [[0, 1, 13], [1, 13, 0], [13, 0, 1]]);
    }

    #[track_caller]
    fn asks(registers: &[(u16, Resolution)], expected: &[u8]) {
        let mut format = Format::new();
        for &(register, resolution) in registers {
            format = format.with(Register(register), resolution).unwrap();
        }
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        format.query(&mut writer).unwrap();
        assert_eq!(writer.written(), expected);
    }

    #[test]
    fn groups_neighbours_of_equal_resolution() {
        asks(&[(0x101, Int32), (0x70, Int32)], &[0x19, 0x70, 0x19, 0x81, 0x02]);
        asks(
            &[(0, Int16), (1, Int16), (2, Int16), (3, Int16), (13, Int8), (14, Int8), (15, Int8)],
            &[0x14, 0x04, 0x00, 0x13, 0x0d],
        );
        asks(&[(0, Int8), (2, Int8)], &[0x11, 0x00, 0x11, 0x02]);
        let default: [u8; 6] = [0x11, 0x00, 0x1f, 0x01, 0x13, 0x0d];
        asks(&[(0, Int8), (1, Float), (2, Float), (3, Float), (13, Int8), (14, Int8), (15, Int8)], &default);
    }

    #[test]
    fn keeps_order_and_uniqueness() {
        let format = Format::of(&[(Register(5), Int8), (Register(1), Float), (Register(5), Int16)]).unwrap();
        assert_eq!(format.registers(), [(Register(1), Float), (Register(5), Int16)]);
        assert_eq!(format.without(Register(1)).registers(), [(Register(5), Int16)]);
        assert_eq!(format.without(Register(2)), format);
        assert_eq!(format.resolution(Register(5)), Some(Int16));
    }

    #[test]
    fn refuses_one_too_many() {
        let full = (0..24).try_fold(Format::new(), |format, n| format.with(Register(n), Int8)).unwrap();
        assert_eq!(full.with(Register(30), Int8), Err(FormatFull));
        assert!(full.with(Register(3), Float).is_ok());
    }

    #[test]
    fn an_answer_to_another_query_is_distinguished() {
        let uuid = Format::of(&[(Register(0x150), Int32), (Register(0x151), Int32)]).unwrap();
        let mode = Format::of(&[(Register(0), Int8)]).unwrap();
        let both = mode.with(Register(0x150), Int32).unwrap();
        let uuid_reply = [0x2a, 0xd0, 0x02, 1, 0, 0, 0, 2, 0, 0, 0, 0x50];
        let mode_reply = [0x21, 0, 10, 0x50];
        let answered = |reply: &[u8]| [&uuid, &mode, &both].map(|query| query.is_answered_by(reply));
        assert_eq!(answered(&uuid_reply), [true, false, false]);
        assert_eq!(answered(&mode_reply), [false, true, false]);
        assert_eq!(answered(&[0x50]), [false; 3]);
        // It cannot read register 0x150: error 1.
        assert_eq!(answered(&[0x31, 0xd0, 0x02, 0x01]), [true; 3]);
        assert_eq!(answered(&uuid_reply[..5]), [true; 3]);
    }

    #[test]
    fn of_a_query_too_long_a_part_is_an_answer() {
        let long = (0..20).try_fold(Format::new(), |format, n| format.with(Register(n), Float)).unwrap();
        assert!(!long.is_answerable());
        assert!(long.is_answered_by(&[0x2d, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn knows_what_a_device_can_answer() {
        assert_eq!(Format::default_query().reply_len(), 22);
        assert!(Format::default_query().is_answerable());
        // 10 floats in one subframe: 43 bytes; the next would start too late.
        let floats = (0..10).try_fold(Format::new(), |format, n| format.with(Register(n), Float)).unwrap();
        assert!(floats.is_answerable());
        assert!(!floats.with(Register(20), Int8).unwrap().is_answerable());
    }
}
