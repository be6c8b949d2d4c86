//! Bytes on their way to and from a stream, in memory taken once.

/// Bytes to be written.
pub(crate) struct Outbox {
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl Outbox {
    /// Room for `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        Self { buffer: vec![0; size].into(), begin: 0, end: 0 }
    }

    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.end..]
    }

    pub(crate) fn add(&mut self, len: usize) {
        self.end += len;
    }

    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    pub(crate) fn took(&mut self, len: usize) {
        self.begin += len;
        if self.begin == self.end {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }
}

/// Bytes that were read and not yet parsed.
pub(crate) struct Inbox {
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
    /// When they were read.
    pub(crate) at_ns: i64,
}

impl Inbox {
    /// Room for `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        Self { buffer: vec![0; size].into(), begin: 0, end: 0, at_ns: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    pub(crate) fn take(&mut self, len: usize) {
        self.begin += len;
    }

    /// All of the buffer; only when everything was taken.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    pub(crate) fn filled(&mut self, len: usize, now_ns: i64) {
        (self.begin, self.end, self.at_ns) = (0, len, now_ns);
    }

    pub(crate) fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }
}
