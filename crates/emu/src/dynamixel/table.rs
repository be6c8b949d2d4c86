//! The control table: what is read, what may be written, and what follows from it.

use super::{FULL_DUTY, Setup, mode};
use khz_wire::dynamixel::{ITEMS, Item, MOST_ID, Model, address as at, error, item};
use std::ops::RangeInclusive;

/// Bytes of the table.
const SIZE: usize = 256;
/// What [`khz_wire::dynamixel::Item::is_kept`] keeps.
const KEPT: usize = at::TORQUE_ENABLE as usize;
/// Value of the watchdog's register when it has acted.
const TRIPPED: i64 = -1;
/// Positions over many turns, steps.
const MANY_TURNS: i64 = 1_048_575;

/// The table of a servo.
#[derive(Clone, Debug)]
pub struct Table {
    bytes: [u8; SIZE],
    kept: [u8; KEPT],
    model: Option<&'static Model>,
}

/// What is to be written, by address.
type Staged = [Option<u8>; SIZE];

impl Table {
    /// As it leaves its maker, with this id and set-up.
    pub fn new(id: u8, setup: &Setup) -> Self {
        let mut table = Self { bytes: [0; SIZE], kept: [0; KEPT], model: setup.model() };
        let is_small = setup.is_small();
        let [least_v, most_v] = setup.volts().map(|volts| (10.0 * volts) as i64);
        let [warmest, fastest] = if is_small { [70, 445] } else { [80, 350] };
        for (address, value) in [
            (at::MODEL_NUMBER, setup.model.into()),
            (at::FIRMWARE_VERSION, setup.firmware.into()),
            (at::ID, id.into()),
            (at::BAUD_RATE, setup.baud.into()),
            (at::RETURN_DELAY_TIME, setup.return_delay.into()),
            (at::OPERATING_MODE, setup.mode.into()),
            (at::SECONDARY_ID, 255),
            (at::PROTOCOL_TYPE, 2),
            (at::MOVING_THRESHOLD, 10),
            (at::TEMPERATURE_LIMIT, warmest),
            (at::MAX_VOLTAGE_LIMIT, most_v),
            (at::MIN_VOLTAGE_LIMIT, least_v),
            (at::PWM_LIMIT, FULL_DUTY as i64),
            (at::CURRENT_LIMIT, setup.most_current().into()),
            (at::VELOCITY_LIMIT, fastest),
            (at::MAX_POSITION_LIMIT, 4095),
            (at::SHUTDOWN, if is_small { 53 } else { 52 }),
        ] {
            table.put(address, value);
        }
        table.keep();
        table
    }

    fn keep(&mut self) {
        self.kept.copy_from_slice(&self.bytes[..KEPT]);
    }

    /// What is not kept is as at the start.
    pub fn restart(&mut self, setup: &Setup) {
        self.bytes = [0; SIZE];
        self.bytes[..KEPT].copy_from_slice(&self.kept);
        self.put(at::STATUS_RETURN_LEVEL, 2);
        self.mode_changed(setup);
        for place in 0..u16::from(self.indirect_bytes()) {
            let [low, high] = (self.indirect_data() + place).to_le_bytes();
            let address = usize::from(at::INDIRECT + 2 * place);
            (self.bytes[address], self.bytes[address + 1]) = (low, high);
        }
    }

    /// As it leaves its maker, but for id and baud rate where they are kept.
    pub fn reset(&mut self, setup: &Setup, keeps_id: bool, keeps_baud: bool) {
        let (id, baud) = (self.get(at::ID), self.get(at::BAUD_RATE));
        // The emulated set-up has its baud rate; a servo from its maker has 57600 bit/s.
        let factory = Setup { baud: 1, return_delay: 250, mode: mode::POSITION, ..*setup };
        *self = Self::new(if keeps_id { id as u8 } else { 1 }, &factory);
        if keeps_baud {
            self.put(at::BAUD_RATE, baud);
            self.keep();
        }
    }

    /// Gains, profile and limits of a mode are those it begins with.
    fn mode_changed(&mut self, setup: &Setup) {
        for (address, value) in [
            (at::VELOCITY_I_GAIN, 1920),
            (at::VELOCITY_P_GAIN, 100),
            (at::POSITION_P_GAIN, if setup.is_small() { 400 } else { 800 }),
            (at::POSITION_I_GAIN, 0),
            (at::POSITION_D_GAIN, 0),
            (at::GOAL_PWM, self.get(at::PWM_LIMIT)),
            (
                at::GOAL_CURRENT,
                if self.get(at::OPERATING_MODE) as u8 == mode::CURRENT {
                    0
                } else {
                    self.get(at::CURRENT_LIMIT)
                },
            ),
            (at::GOAL_VELOCITY, 0),
            (at::PROFILE_ACCELERATION, 0),
            (at::PROFILE_VELOCITY, 0),
        ] {
            self.put(address, value);
        }
    }

    fn indirect_data(&self) -> u16 {
        self.model.map_or(224, |model| model.indirect_data)
    }

    fn indirect_bytes(&self) -> u8 {
        self.model.map_or(0, |model| model.indirect_bytes)
    }

    /// An item, by where it begins; 0 if none does.
    pub fn get(&self, address: u16) -> i64 {
        let value = |item: &Item| item.value(&self.bytes[bytes_of(item)]);
        item(address).and_then(value).unwrap_or(0)
    }

    /// Puts a value into an item, also one that is read-only to a host.
    pub fn put(&mut self, address: u16, value: i64) {
        if let Some(item) = item(address) {
            let len = usize::from(item.size);
            self.bytes[bytes_of(item)].copy_from_slice(&value.to_le_bytes()[..len]);
        }
    }

    /// Its watchdog has acted.
    pub fn has_tripped(&self) -> bool {
        self.get(at::BUS_WATCHDOG) == TRIPPED
    }

    /// Its watchdog acts.
    pub fn trip(&mut self) {
        self.put(at::BUS_WATCHDOG, TRIPPED);
    }

    /// Where a byte really is; `None` if there is none.
    fn place(&self, address: u16) -> Option<usize> {
        let (data, bytes) = (self.indirect_data(), u16::from(self.indirect_bytes()));
        let at = if (data..data + bytes).contains(&address) {
            let entry = usize::from(at::INDIRECT + 2 * (address - data));
            u16::from_le_bytes([self.bytes[entry], self.bytes[entry + 1]])
        } else {
            address
        };
        (usize::from(at) < SIZE).then_some(at.into())
    }

    fn is_indirect_address(&self, at: usize) -> bool {
        let first = usize::from(at::INDIRECT);
        (first..first + 2 * usize::from(self.indirect_bytes())).contains(&at)
    }

    /// Reads bytes into `out`.
    ///
    /// # Errors
    /// The number of the error: not there.
    pub fn read(&self, address: u16, out: &mut [u8]) -> Result<(), u8> {
        for (offset, byte) in (0..).zip(out) {
            let at =
                address.checked_add(offset).and_then(|address| self.place(address)).ok_or(error::ACCESS)?;
            *byte = self.bytes[at];
        }
        Ok(())
    }

    /// Writes bytes: all of them or none.
    ///
    /// # Errors
    /// The number of the error.
    pub fn write(&mut self, address: u16, data: &[u8], setup: &Setup) -> Result<(), u8> {
        let mut staged: Staged = [None; SIZE];
        for (offset, &byte) in (0..).zip(data) {
            let at =
                address.checked_add(offset).and_then(|address| self.place(address)).ok_or(error::ACCESS)?;
            if !self.is_indirect_address(at) && !ITEMS.iter().any(|item| bytes_of(item).contains(&at)) {
                return Err(error::ACCESS);
            }
            staged[at] = Some(byte);
        }
        ITEMS.iter().try_for_each(|item| self.check(item, &staged))?;
        let before = self.get(at::OPERATING_MODE);
        for (byte, staged) in self.bytes.iter_mut().zip(staged) {
            *byte = staged.unwrap_or(*byte);
        }
        if self.get(at::OPERATING_MODE) != before {
            self.mode_changed(setup);
        }
        self.keep();
        Ok(())
    }

    /// Whether what is to be written into an item may be.
    fn check(&self, item: &Item, staged: &Staged) -> Result<(), u8> {
        let bytes = &staged[bytes_of(item)];
        let mut given = [0; 4];
        let count =
            bytes.iter().zip(&mut given).filter_map(|(byte, place)| byte.map(|byte| *place = byte)).count();
        if count == 0 {
            return Ok(());
        }
        if !item.writable || item.is_kept() && self.get(at::TORQUE_ENABLE) != 0 {
            return Err(error::ACCESS);
        }
        if count < bytes.len() {
            return Err(error::LENGTH);
        }
        let value = item.value(&given[..count]).ok_or(error::LENGTH)?;
        let is_goal =
            (at::GOAL_PWM..=at::GOAL_VELOCITY).contains(&item.address) || item.address == at::GOAL_POSITION;
        if is_goal && self.has_tripped() {
            return Err(error::RANGE);
        }
        if !self.range(item.address).contains(&value) {
            return Err(if is_goal { error::LIMIT } else { error::RANGE });
        }
        self.suits(item.address, value)
    }

    /// What an item takes.
    fn range(&self, address: u16) -> RangeInclusive<i64> {
        let within = |limit: u16| -self.get(limit)..=self.get(limit);
        let of_mode = [at::MIN_POSITION_LIMIT, at::MAX_POSITION_LIMIT].map(|limit| self.get(limit));
        match address {
            at::ID => 0..=MOST_ID.into(),
            at::BAUD_RATE => 0..=7,
            at::RETURN_DELAY_TIME => 0..=254,
            at::TORQUE_ENABLE | at::LED => 0..=1,
            at::STATUS_RETURN_LEVEL => 0..=2,
            at::BUS_WATCHDOG => 0..=127,
            at::VELOCITY_I_GAIN..=at::FEEDFORWARD_1ST_GAIN => 0..=16_383,
            at::PWM_LIMIT => 0..=FULL_DUTY as i64,
            at::GOAL_PWM => within(at::PWM_LIMIT),
            at::GOAL_CURRENT => within(at::CURRENT_LIMIT),
            at::GOAL_VELOCITY => within(at::VELOCITY_LIMIT),
            at::PROFILE_ACCELERATION | at::PROFILE_VELOCITY => 0..=32_767,
            at::GOAL_POSITION if self.get(at::OPERATING_MODE) as u8 == mode::POSITION => {
                of_mode[0]..=of_mode[1]
            }
            at::GOAL_POSITION => -MANY_TURNS..=MANY_TURNS,
            _ => i64::MIN..=i64::MAX,
        }
    }

    /// What depends on more than a range.
    fn suits(&self, address: u16, value: i64) -> Result<(), u8> {
        let measures = self.model.is_none_or(|model| model.current_step.is_some());
        let is_mode = match value as u8 {
            mode::VELOCITY | mode::POSITION | mode::MANY_TURNS | mode::PWM => true,
            mode::CURRENT | mode::CURRENT_POSITION => measures,
            _ => false,
        };
        let failed = self.get(at::HARDWARE_ERROR_STATUS) & self.get(at::SHUTDOWN) != 0;
        match address {
            at::OPERATING_MODE if !is_mode => Err(error::RANGE),
            at::TORQUE_ENABLE if value != 0 && failed => Err(error::RESULT),
            _ => Ok(()),
        }
    }
}

fn bytes_of(item: &Item) -> std::ops::Range<usize> {
    let from = usize::from(item.address);
    from..from + usize::from(item.size)
}
