//! The control table: what is read, what may be written, and what is kept.

use super::{Setup, mode};
use khz_wire::feetech::{ITEMS, Item, MOST_ID, address as at, item};
use std::ops::Range;

/// Bytes of the table.
const SIZE: usize = 256;
/// What [`Item::is_kept`] keeps.
const KEPT: usize = at::TORQUE_ENABLE as usize;
/// Its conditions that switch it off as it leaves its maker: overload, current, temperature.
const UNLOADS: i32 = 44;
/// A bit of its phase: it counts whole turns.
const COUNTS_TURNS: i32 = 0x10;

/// The table of a servo.
#[derive(Clone, Debug)]
pub struct Table {
    bytes: [u8; SIZE],
    /// What a restart leaves, while the lock is closed.
    kept: [u8; KEPT],
}

impl Table {
    /// As it leaves its maker, with this id and set-up.
    pub fn new(id: u8, setup: &Setup) -> Self {
        let mut table = Self { bytes: [0; SIZE], kept: [0; KEPT] };
        for (address, value) in [
            (at::FIRMWARE_MAJOR, setup.firmware[0].into()),
            (at::FIRMWARE_MINOR, setup.firmware[1].into()),
            (at::MODEL_NUMBER, setup.model.into()),
            (at::ID, id.into()),
            (at::BAUD_RATE, setup.baud.into()),
            (at::RETURN_DELAY, setup.return_delay.into()),
            (at::RESPONSE_LEVEL, 1),
            (at::MAX_POSITION, 4095),
            (at::MAX_TEMPERATURE, 70),
            (at::MAX_VOLTAGE, setup.volts[0].into()),
            (at::MIN_VOLTAGE, setup.volts[1].into()),
            (at::MAX_TORQUE, 1000),
            (at::PHASE, 12),
            (at::UNLOAD_CONDITIONS, UNLOADS),
            (at::LED_CONDITIONS, 47),
            (at::POSITION_P, 32),
            (at::POSITION_D, 32),
            (at::MIN_START_TORQUE, 16),
            (at::DEAD_ZONE_CW, 1),
            (at::DEAD_ZONE_CCW, 1),
            (at::PROTECTION_CURRENT, 500),
            (at::ANGLE_RESOLUTION, 1),
            (at::MODE, setup.mode.into()),
            (at::PROTECTIVE_TORQUE, 20),
            (at::PROTECTION_TIME, 200),
            (at::OVERLOAD_TORQUE, 80),
            (at::SPEED_P, 10),
            (at::OVERCURRENT_TIME, 200),
            (at::SPEED_I, 10),
        ] {
            table.put(address, value);
        }
        table.keep(0..KEPT);
        table
    }

    fn keep(&mut self, places: Range<usize>) {
        let places = places.start.min(KEPT)..places.end.min(KEPT);
        self.kept[places.clone()].copy_from_slice(&self.bytes[places]);
    }

    /// What is not kept is as at the start.
    pub fn restart(&mut self) {
        self.bytes = [0; SIZE];
        self.bytes[..KEPT].copy_from_slice(&self.kept);
        self.put(at::TORQUE_LIMIT, self.get(at::MAX_TORQUE));
        self.put(at::LOCK, 1);
    }

    /// As it leaves its maker, but for its id and baud rate.
    pub fn reset(&mut self, setup: &Setup) {
        let factory = Setup { baud: self.get(at::BAUD_RATE) as u8, mode: mode::POSITION, ..*setup };
        *self = Self::new(self.get(at::ID) as u8, &factory);
    }

    /// An item, by where it begins; 0 if none does.
    pub fn get(&self, address: u8) -> i32 {
        let value = |item: &Item| item.value(&self.bytes[bytes_of(item)]);
        item(address).and_then(value).unwrap_or(0)
    }

    /// Puts a value into an item, also one that is read-only to a host; the nearest that it can hold.
    pub fn put(&mut self, address: u8, value: i32) {
        if let Some(item) = item(address) {
            let word = item.word(value).to_le_bytes();
            self.bytes[bytes_of(item)].copy_from_slice(&word[..item.size.into()]);
        }
    }

    /// Its positions are those of many turns.
    pub fn has_many_turns(&self) -> bool {
        let is_unlimited = self.get(at::MIN_POSITION) == 0 && self.get(at::MAX_POSITION) == 0;
        is_unlimited || self.get(at::PHASE) & COUNTS_TURNS != 0
    }

    /// Where it is to be: within its limits, if it has any.
    pub fn goal(&self) -> i32 {
        let [least, most] = [at::MIN_POSITION, at::MAX_POSITION].map(|limit| self.get(limit));
        let goal = self.get(at::GOAL_POSITION);
        if least < most { goal.clamp(least, most) } else { goal }
    }

    /// These bytes; `None` if the table ends before.
    pub fn read(&self, address: u8, len: u8) -> Option<&[u8]> {
        self.bytes.get(usize::from(address)..usize::from(address) + usize::from(len))
    }

    /// Writes bytes: of each item that may be written, has all of its bytes here, and can have that value.
    pub fn write(&mut self, address: u8, data: &[u8]) {
        let from = usize::from(address);
        let given = from..from + data.len();
        let lock_is_open = self.get(at::LOCK) == 0;
        for item in ITEMS.iter().filter(|item| item.writable) {
            let places = bytes_of(item);
            if !(given.contains(&places.start) && given.contains(&(places.end - 1))) {
                continue;
            }
            let bytes = &data[places.start - from..places.end - from];
            if item.value(bytes).is_some_and(|value| suits(item.address, value)) {
                self.bytes[places.clone()].copy_from_slice(bytes);
                if lock_is_open {
                    self.keep(places);
                }
            }
        }
    }
}

/// An item can have this value.
fn suits(address: u8, value: i32) -> bool {
    match address {
        at::ID => value <= MOST_ID.into(),
        at::BAUD_RATE => value <= 7,
        at::MODE => value <= mode::PWM.into(),
        at::TORQUE_ENABLE | at::RESPONSE_LEVEL | at::LOCK => value <= 1,
        at::MAX_TORQUE | at::TORQUE_LIMIT => value <= 1000,
        _ => true,
    }
}

fn bytes_of(item: &Item) -> Range<usize> {
    let from = usize::from(item.address);
    from..from + usize::from(item.size)
}
