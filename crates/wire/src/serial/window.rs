//! What a decoder of a serial line looks at.

/// Bytes that came in and are not understood yet. Never allocates.
#[derive(Clone, Debug)]
pub(crate) struct Window<const N: usize> {
    buffer: [u8; N],
    start: usize,
    end: usize,
    discarded: u64,
}

impl<const N: usize> Window<N> {
    /// With nothing received yet.
    pub const fn new() -> Self {
        Self { buffer: [0; N], start: 0, end: 0, discarded: 0 }
    }

    /// The oldest first.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Bytes before the first that may begin a lead-in; all, if there is none.
    pub fn noise(&self, lead_in: u8) -> usize {
        let bytes = self.bytes();
        bytes.iter().position(|&byte| byte == lead_in).unwrap_or(bytes.len())
    }

    /// Takes as many bytes off the front of `input` as there is room for.
    pub fn take(&mut self, input: &mut &[u8]) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = input.len().min(N - self.end);
        let (now, later) = input.split_at(count);
        self.buffer[self.end..self.end + count].copy_from_slice(now);
        self.end += count;
        *input = later;
    }

    /// The oldest of so many are understood.
    pub fn used(&mut self, count: usize) {
        self.start += count;
    }

    /// They belong to nothing.
    pub fn discard(&mut self, count: usize) {
        self.used(count);
        self.discarded += count as u64;
    }

    /// How many belonged to nothing.
    pub const fn discarded(&self) -> u64 {
        self.discarded
    }
}
