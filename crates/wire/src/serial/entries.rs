//! The parameters of a write to several servos.

use crate::frame::MAX_PAYLOAD;

/// What all get, then for each its id and its data, all of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    parameters: [u8; MAX_PAYLOAD],
    head: usize,
    item: usize,
    len: usize,
}

impl Entries {
    /// With this beginning, and `item` bytes for each servo; no servo yet.
    pub const fn new<const HEAD: usize>(head: [u8; HEAD], item: usize) -> Self {
        let mut parameters = [0; MAX_PAYLOAD];
        let mut at = 0;
        while at < HEAD {
            parameters[at] = head[at];
            at += 1;
        }
        Self { parameters, head: HEAD, item, len: HEAD }
    }

    /// False if there is no room, or the data are not as many as they must be.
    pub fn add(&mut self, id: u8, data: &[u8]) -> bool {
        let is_one = data.len() == self.item;
        let Some(place) = self.parameters.get_mut(self.len..=self.len + self.item).filter(|_| is_one) else {
            return false;
        };
        place[0] = id;
        place[1..].copy_from_slice(data);
        self.len += place.len();
        true
    }

    pub const fn is_empty(&self) -> bool {
        self.len == self.head
    }

    pub fn bytes(&self) -> &[u8] {
        &self.parameters[..self.len]
    }
}
