//! Frames on a serial line, whichever packets its servos speak.

pub(crate) mod crc;
pub(crate) mod entries;
pub(crate) mod window;

use crate::frame::{Frame, MAX_PAYLOAD};
use crate::{dynamixel, feetech, rs485};

/// What a frame becomes on a serial line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packets {
    /// Frames of mjlib: [`rs485`].
    #[default]
    Moteus,
    /// Packets of protocol 2.0: [`dynamixel`].
    Dynamixel,
    /// Packets of STS and SMS servos: [`feetech`].
    Feetech,
}

/// The longest [`End::write`] writes: a frame, or the beginning of a fast status and its first block.
pub const MAX_FRAME: usize =
    if rs485::MAX_FRAME > dynamixel::MAX_PACKET { rs485::MAX_FRAME } else { dynamixel::MAX_PACKET };

const _: () = assert!(MAX_FRAME >= 8 + 4 + MAX_PAYLOAD && MAX_FRAME >= feetech::MAX_PACKET);

impl Packets {
    /// Bytes on the wire of a frame.
    pub fn wire_len(self, frame: &Frame) -> usize {
        match self {
            Self::Moteus => rs485::frame_len(frame.payload().len()),
            Self::Dynamixel => dynamixel::wire_len(frame),
            Self::Feetech => feetech::wire_len(frame),
        }
    }

    /// Bytes of the shortest answer there can be.
    pub const fn shortest(self) -> usize {
        match self {
            Self::Moteus => rs485::frame_len(0),
            Self::Dynamixel => dynamixel::SHORTEST,
            Self::Feetech => feetech::SHORTEST,
        }
    }

    /// There is room for all of the frame.
    pub fn carries(self, frame: &Frame) -> bool {
        match self {
            Self::Moteus => rs485::carries(frame),
            Self::Dynamixel => dynamixel::parts(frame).is_some(),
            Self::Feetech => feetech::parts(frame).is_some(),
        }
    }

    /// Servos that are asked together answer one after the other: a question to all does not make them talk at once.
    pub const fn answers_in_order(self) -> bool {
        !matches!(self, Self::Moteus)
    }
}

/// Both are one name of an item of a servo's table: with `_`, a blank or nothing between its words, in whatever case.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    fn plain(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(|byte| !b"_ ".contains(byte)).map(|byte| byte.to_ascii_lowercase())
    }
    plain(one).eq(plain(other))
}

/// One end of a line, the host's or the servos'. Never allocates.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each line")]
pub enum End {
    /// Of a line with [`Packets::Moteus`].
    Moteus(rs485::Decoder),
    /// Of a line with [`Packets::Dynamixel`].
    Dynamixel(dynamixel::End),
    /// Of a line with [`Packets::Feetech`].
    Feetech(feetech::Decoder),
}

impl End {
    /// The host's, with nothing received yet.
    pub const fn new(packets: Packets) -> Self {
        Self::of(packets, feetech::End::Host)
    }

    /// The same, of the servos.
    pub const fn of_servos(packets: Packets) -> Self {
        Self::of(packets, feetech::End::Servo)
    }

    /// Only packets of Feetech servos do not show which end has sent them.
    const fn of(packets: Packets, end: feetech::End) -> Self {
        match packets {
            Packets::Moteus => Self::Moteus(rs485::Decoder::new()),
            Packets::Dynamixel => Self::Dynamixel(dynamixel::End::new()),
            Packets::Feetech => Self::Feetech(feetech::Decoder::new(end)),
        }
    }

    /// What it speaks.
    pub const fn packets(&self) -> Packets {
        match self {
            Self::Moteus(_) => Packets::Moteus,
            Self::Dynamixel(_) => Packets::Dynamixel,
            Self::Feetech(_) => Packets::Feetech,
        }
    }

    /// Writes a frame to `out`; its length, or `None` if it does not fit, or cannot be sent now.
    pub fn write(&mut self, frame: &Frame, out: &mut [u8]) -> Option<usize> {
        match self {
            Self::Moteus(_) => rs485::encode(frame, out),
            Self::Dynamixel(end) => end.write(frame, out),
            Self::Feetech(decoder) => {
                let len = feetech::encode(frame, out)?;
                decoder.expect(frame);
                Some(len)
            }
        }
    }

    /// Takes bytes off the front of `input` until a frame is complete. `None` once `input` is used up; a frame begun is kept for the next
    /// call.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Frame> {
        match self {
            Self::Moteus(decoder) => decoder.next(input),
            Self::Dynamixel(end) => end.next(input),
            Self::Feetech(decoder) => decoder.next(input),
        }
    }

    /// Gives up the frame begun, as after a silence; [`End::next`] searches what is behind its lead-in. `false` if nothing was begun.
    pub fn give_up(&mut self) -> bool {
        match self {
            Self::Moteus(decoder) => decoder.give_up(),
            Self::Dynamixel(end) => end.give_up(),
            Self::Feetech(decoder) => decoder.give_up(),
        }
    }

    /// Frames whose CRC was wrong (or lead-ins that were none).
    pub const fn corrupt(&self) -> u64 {
        match self {
            Self::Moteus(decoder) => decoder.corrupt(),
            Self::Dynamixel(end) => end.corrupt(),
            Self::Feetech(decoder) => decoder.corrupt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamixel::{Status, sync_read};

    /// What the host's end writes the servos' end finds, and the other way round.
    #[test]
    fn a_fast_read_goes_there_and_back() {
        let (mut host, mut servos) = (End::new(Packets::Dynamixel), End::of_servos(Packets::Dynamixel));
        let mut out = [0; MAX_FRAME];
        for fast in [true, false, true] {
            let asked = sync_read(132, 4, &[1, 2], fast).unwrap();
            let len = host.write(&asked, &mut out).unwrap();
            assert_eq!(
                (servos.next(&mut &out[..len]), len),
                (Some(asked), Packets::Dynamixel.wire_len(&asked))
            );
            for place in 0..2 {
                let status = Status { id: 1 + place, alert: false, error: 0, data: &[place, 8, 0, 0] };
                let reply = if fast { status.block(place) } else { status.packet() }.unwrap();
                let len = servos.write(&reply, &mut out).unwrap();
                assert_eq!(len, Packets::Dynamixel.wire_len(&reply));
                assert_eq!(host.next(&mut &out[..len]), Some(reply));
            }
        }
        assert_eq!((host.corrupt(), servos.corrupt()), (0, 0));
    }

    #[test]
    fn a_reply_that_looks_like_an_instruction_is_one_to_the_servos_only() {
        let (mut host, mut servos) = (End::new(Packets::Feetech), End::of_servos(Packets::Feetech));
        let mut out = [0; MAX_FRAME];
        let asked = feetech::read(1, feetech::address::PRESENT_POSITION, 2);
        let len = host.write(&asked, &mut out).unwrap();
        assert_eq!((servos.next(&mut &out[..len]), len), (Some(asked), Packets::Feetech.wire_len(&asked)));
        // Its conditions are the number of a read.
        let status = feetech::Status { id: 1, conditions: 2, data: &[0, 8] }.packet().unwrap();
        let len = servos.write(&status, &mut out).unwrap();
        assert_eq!(host.next(&mut &out[..len]), Some(status));
        let goals = {
            let mut goals = feetech::SyncWrite::new(feetech::address::GOAL_POSITION, 2);
            assert!(goals.add(1, &[0, 8]));
            goals.packet()
        };
        // What is written to all is no servo's reply: an echo, or another program.
        let question = feetech::sync_read(56, 2, &[1]).unwrap();
        let mut written = host.write(&goals, &mut out).unwrap();
        written += host.write(&question, &mut out[written..]).unwrap();
        written += servos.write(&status, &mut out[written..]).unwrap();
        let input = &mut &out[..written];
        assert_eq!((host.next(input), host.next(input), host.next(input)), (Some(goals), Some(status), None));
        assert_eq!((host.corrupt(), servos.corrupt()), (0, 0));
    }

    #[test]
    fn a_block_that_was_not_requested_is_not_written() {
        let mut servos = End::of_servos(Packets::Dynamixel);
        let block = Status { id: 1, alert: false, error: 0, data: &[] }.block(1).unwrap();
        assert_eq!(servos.write(&block, &mut [0; MAX_FRAME]), None);
        assert!(Packets::Dynamixel.answers_in_order() && !servos.give_up());
        assert_eq!(
            (servos.packets(), End::new(Packets::Moteus).packets()),
            (Packets::Dynamixel, Packets::Moteus)
        );
    }
}
