//! The hat's radio (mjbots/pi3hat `fw/rf_transceiver.h`) with no remote in reach: its registers answer and its
//! settings read back, but it never locks and receives nothing.

use khz_wire::pi3hat::{RF_VERSION, register};

/// The firmware's id at power-up.
const FACTORY_ID: u32 = 0x3045;
/// Receive slots.
const SLOTS: u8 = 15;

/// The radio's registers.
#[derive(Clone, Debug)]
pub(super) struct Radio {
    id: u32,
    /// When the hat was first used, ns; it has looked for a remote since.
    since_ns: Option<i64>,
}

impl Radio {
    pub(super) fn new() -> Self {
        Self { id: FACTORY_ID, since_ns: None }
    }

    /// Time passes without a remote.
    pub(super) fn advance(&mut self, now_ns: i64) {
        self.since_ns.get_or_insert(now_ns);
    }

    /// What a register reads, and how much of it; `None` if it is not the radio's.
    pub(super) fn content(&self, address: u8, now_ns: i64) -> Option<([u8; 8], usize)> {
        let mut content = [0; 8];
        let len = match address {
            register::RF_VERSION => {
                content[0] = RF_VERSION;
                1
            }
            register::READ_RF_ID => {
                content[..4].copy_from_slice(&self.id.to_le_bytes());
                4
            }
            // No slot has received anything; then the milliseconds without lock.
            register::RF_STATUS => {
                let unlocked_ms = now_ns.saturating_sub(self.since_ns.unwrap_or(now_ns)) / 1_000_000;
                let unlocked_ms = u32::try_from(unlocked_ms).unwrap_or(u32::MAX);
                content[4..].copy_from_slice(&unlocked_ms.to_le_bytes());
                8
            }
            // Age and size of an empty slot.
            slot if (register::READ_RF_SLOT..register::READ_RF_SLOT + SLOTS).contains(&slot) => 5,
            _ => return None,
        };
        Some((content, len))
    }

    /// Takes what was written. Slots to transmit go nowhere, as in the firmware, which never sends them.
    pub(super) fn take(&mut self, address: u8, bytes: &[u8]) {
        if let (register::WRITE_RF_ID, Ok(id)) = (address, bytes.try_into()) {
            self.id = u32::from_le_bytes(id);
        }
    }
}
