//! One frame: an identifier, flags and at most 64 bytes.

use core::fmt;

/// The most bytes a frame carries (CAN-FD; the other buses keep to it).
pub const MAX_PAYLOAD: usize = 64;

/// The NOP sub-frame, used to pad a payload up to a length CAN-FD can express.
pub const PADDING: u8 = 0x50;

/// A frame as it travels on any of the buses.
///
/// The meaning of an identifier belongs to a servo's family ([`crate::Address`] for the register protocol); links are given
/// the destination of a frame ([`crate::Request`]).
#[derive(Clone, Copy)]
pub struct Frame {
    /// Arbitration identifier, at most 29 bits.
    pub id: u32,
    /// Sent or received with a 29-bit identifier (else 11-bit).
    pub extended: bool,
    /// CAN-FD format (else classic CAN).
    pub fd: bool,
    /// Bit-rate switch: the data phase runs at the data bit rate.
    pub brs: bool,
    /// A remote frame: it asks for the data of its identifier, so many bytes of it, and carries none. Classic CAN only.
    pub remote: Option<u8>,
    len: u8,
    data: [u8; MAX_PAYLOAD],
}

impl Frame {
    /// A CAN-FD frame with bit-rate switch, extended exactly if the identifier needs more than 11 bits
    /// (the rule of the official Python client).
    ///
    /// `None` if `payload` is longer than [`MAX_PAYLOAD`] or `id` than 29 bits. The payload is *not*
    /// padded; see [`Frame::pad`].
    pub fn new(id: u32, payload: &[u8]) -> Option<Self> {
        if payload.len() > MAX_PAYLOAD || id >= 1 << 29 {
            return None;
        }
        let mut data = [0; MAX_PAYLOAD];
        data[..payload.len()].copy_from_slice(payload);
        Some(Self {
            id,
            extended: id > 0x7ff,
            fd: true,
            brs: true,
            remote: None,
            len: payload.len() as u8,
            data,
        })
    }

    /// A classic CAN frame: at most 8 bytes, one bit rate. Extended exactly if the identifier needs more than 11 bits.
    ///
    /// `None` if `payload` is longer or `id` beyond 29 bits.
    pub fn classic(id: u32, payload: &[u8]) -> Option<Self> {
        let frame = Self::new(id, payload).filter(|_| payload.len() <= 8)?;
        Some(Self { fd: false, brs: false, ..frame })
    }

    /// A remote frame, which asks for `len` bytes of this identifier. Extended exactly if the identifier needs more than 11 bits.
    ///
    /// `None` if `len` is more than 8 or `id` beyond 29 bits.
    pub fn remote(id: u32, len: u8) -> Option<Self> {
        let frame = Self::classic(id, &[]).filter(|_| len <= 8)?;
        Some(Self { remote: Some(len), ..frame })
    }

    /// A classic CAN frame with a 29-bit identifier, whichever it is; higher bits are cut off.
    pub fn extended(id: u32, payload: [u8; 8]) -> Self {
        let mut data = [0; MAX_PAYLOAD];
        data[..8].copy_from_slice(&payload);
        Self { id: id & 0x1fff_ffff, extended: true, fd: false, brs: false, remote: None, len: 8, data }
    }

    /// The bytes carried.
    pub fn payload(&self) -> &[u8] {
        &self.data[..usize::from(self.len)]
    }

    /// Bytes at a place that is known from set-up on, also beyond what is carried, which are 0; `None`: there is no room for so many.
    #[inline]
    pub fn bytes_at<const N: usize>(&self, at: u8) -> Option<&[u8; N]> {
        self.data.get(usize::from(at)..)?.first_chunk()
    }

    /// The bytes carried, to be patched in place.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.data[..usize::from(self.len)]
    }

    /// How many bytes it carries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Everything there is room for, whatever the length: lets offsets known at start-up be used unchecked.
    pub(crate) fn buffer(&self) -> &[u8; MAX_PAYLOAD] {
        &self.data
    }

    pub(crate) fn buffer_mut(&mut self) -> &mut [u8; MAX_PAYLOAD] {
        &mut self.data
    }

    /// Appends NOPs up to the next length CAN-FD can express.
    pub fn pad(&mut self) {
        let padded = padded_len(usize::from(self.len));
        self.data[usize::from(self.len)..padded].fill(PADDING);
        self.len = padded as u8;
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.extended, self.fd, self.brs, self.remote, self.payload())
            == (other.id, other.extended, other.fd, other.brs, other.remote, other.payload())
    }
}

impl Eq for Frame {}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}#", self.id)?;
        self.payload().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if let Some(len) = self.remote {
            write!(f, "R{len}")?;
        }
        let flag = |on, name| if on { name } else { "" };
        write!(f, "{}{}{}", flag(self.extended, " ext"), flag(self.fd, " fd"), flag(self.brs, " brs"))
    }
}

/// The next length CAN-FD can express: 0–8, 12, 16, 20, 24, 32, 48, 64. Lengths above 64 give 64.
pub const fn padded_len(len: usize) -> usize {
    match len {
        0..=8 => len,
        9..=24 => len.div_ceil(4) * 4,
        25..=32 => 32,
        33..=48 => 48,
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_reaches_the_next_dlc_length() {
        let lengths = [0, 1, 8, 9, 12, 13, 17, 21, 25, 33, 49, 64];
        let padded = [0, 1, 8, 12, 12, 16, 20, 24, 32, 48, 64, 64];
        assert_eq!(lengths.map(padded_len), padded);

        let mut frame = Frame::new(0x8001, &[1; 19]).unwrap();
        frame.pad();
        assert_eq!(frame.payload().len(), 20);
        assert_eq!(frame.payload()[19], PADDING);
    }

    #[test]
    fn refuses_what_no_bus_can_carry() {
        assert!(Frame::new(0, &[0; 65]).is_none());
        assert!(Frame::new(1 << 29, &[]).is_none());
        assert!(Frame::classic(1, &[0; 9]).is_none());
        assert!(Frame::remote(1, 9).is_none() && Frame::remote(1 << 29, 0).is_none());
        assert!(Frame::classic(1, &[0; 8]).is_some_and(|frame| !frame.fd && !frame.brs));
    }
}
