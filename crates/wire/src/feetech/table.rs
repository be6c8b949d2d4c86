//! The control table of STS and SMS servos.

use crate::serial::is_same_name;

/// One item of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it begins.
    pub address: u8,
    /// Its bytes: 1 or 2.
    pub size: u8,
    /// What it is called.
    pub name: &'static str,
    /// It can be written.
    pub writable: bool,
    /// The bit that makes it negative; `None`: it never is.
    pub sign_bit: Option<u8>,
}

macro_rules! items {
    ($($(#[doc = $doc:literal])+ $name:ident = $address:literal, $size:literal, $access:ident $(, $sign:literal)?;)+) => {
        /// Where the items of the table begin.
        pub mod address {
            $($(#[doc = $doc])+ pub const $name: u8 = $address;)+
        }

        /// All items, by their addresses.
        pub const ITEMS: &[Item] = &[
            $(Item {
                address: $address,
                size: $size,
                name: stringify!($name),
                writable: matches!(stringify!($access).as_bytes(), b"rw"),
                sign_bit: items!(@ $($sign)?),
            },)+
        ];
    };
    (@) => { None };
    (@ $sign:literal) => { Some($sign) };
}

items! {
    /// First half of its version.
    FIRMWARE_MAJOR = 0, 1, r;
    /// Second half.
    FIRMWARE_MINOR = 1, 1, r;
    /// See [`crate::feetech::MODELS`].
    MODEL_NUMBER = 3, 2, r;
    /// 0 to 253.
    ID = 5, 1, rw;
    /// Place in [`crate::feetech::BAUDS`].
    BAUD_RATE = 6, 1, rw;
    /// 2 µs; tables differ on what it does.
    RETURN_DELAY = 7, 1, rw;
    /// 1: every instruction to one servo is answered; 0: pings and reads only.
    RESPONSE_LEVEL = 8, 1, rw;
    /// Steps; 0 with the greatest at 0: many turns.
    MIN_POSITION = 9, 2, rw;
    /// Steps.
    MAX_POSITION = 11, 2, rw;
    /// °C.
    MAX_TEMPERATURE = 13, 1, rw;
    /// 0.1 V.
    MAX_VOLTAGE = 14, 1, rw;
    /// 0.1 V.
    MIN_VOLTAGE = 15, 1, rw;
    /// 0.1 %; copied to the torque limit at power-up.
    MAX_TORQUE = 16, 2, rw;
    /// Bit 2: speeds in single steps; bit 3: a speed of 0 is the greatest.
    PHASE = 18, 1, rw;
    /// Conditions that switch it off.
    UNLOAD_CONDITIONS = 19, 1, rw;
    /// Conditions that its LED shows.
    LED_CONDITIONS = 20, 1, rw;
    /// Duty 0.166 times this per radian (Rhoban/bam, measured on one STS3215).
    POSITION_P = 21, 1, rw;
    /// A number.
    POSITION_D = 22, 1, rw;
    /// A number.
    POSITION_I = 23, 1, rw;
    /// 0.1 %.
    MIN_START_TORQUE = 24, 1, rw;
    /// Steps.
    DEAD_ZONE_CW = 26, 1, rw;
    /// Steps.
    DEAD_ZONE_CCW = 27, 1, rw;
    /// 6.5 mA.
    PROTECTION_CURRENT = 28, 2, rw;
    /// A factor, with many turns.
    ANGLE_RESOLUTION = 30, 1, rw;
    /// Steps, taken from the position.
    HOMING_OFFSET = 31, 2, rw, 11;
    /// 0 position, 1 speed, 2 PWM, 3 steps.
    MODE = 33, 1, rw;
    /// % of the greatest torque that is left after an overload.
    PROTECTIVE_TORQUE = 34, 1, rw;
    /// 10 ms.
    PROTECTION_TIME = 35, 1, rw;
    /// %.
    OVERLOAD_TORQUE = 36, 1, rw;
    /// In mode 1.
    SPEED_P = 37, 1, rw;
    /// 10 ms.
    OVERCURRENT_TIME = 38, 1, rw;
    /// In mode 1.
    SPEED_I = 39, 1, rw;
    /// 0 off, 1 on, 128: the present position becomes 2048.
    TORQUE_ENABLE = 40, 1, rw;
    /// 100 steps/s²; 0: the greatest.
    ACCELERATION = 41, 1, rw;
    /// Steps.
    GOAL_POSITION = 42, 2, rw, 15;
    /// In mode 2: duty, 0.1 % (one table has its sign in bit 11).
    GOAL_TIME = 44, 2, rw, 10;
    /// Steps/s; in mode 0 the most.
    GOAL_SPEED = 46, 2, rw, 15;
    /// 0.1 % of the duty.
    TORQUE_LIMIT = 48, 2, rw;
    /// 0: what is written to addresses below 40 is kept without power.
    LOCK = 55, 1, rw;
    /// Steps.
    PRESENT_POSITION = 56, 2, r, 15;
    /// Steps/s.
    PRESENT_SPEED = 58, 2, r, 15;
    /// 0.1 % of duty: no torque.
    PRESENT_LOAD = 60, 2, r, 10;
    /// 0.1 V.
    PRESENT_VOLTAGE = 62, 1, r;
    /// °C.
    PRESENT_TEMPERATURE = 63, 1, r;
    /// 1: something waits for an action.
    REGISTERED = 64, 1, r;
    /// [`crate::feetech::CONDITIONS`].
    STATUS = 65, 1, r;
    /// 1: it moves.
    MOVING = 66, 1, r;
    /// 6.5 mA; sources differ on whether it has a sign.
    PRESENT_CURRENT = 69, 2, r;
    /// 100 steps/s².
    MAX_ACCELERATION = 85, 1, rw;
}

impl Item {
    /// It is kept without power, where [`address::LOCK`] is 0.
    pub const fn is_kept(&self) -> bool {
        self.address < address::TORQUE_ENABLE
    }

    /// The value of its bytes; `None` if they are not as many.
    pub fn value(&self, bytes: &[u8]) -> Option<i32> {
        let word = match (self.size, bytes) {
            (1, [low]) => u16::from(*low),
            (2, [low, high]) => u16::from_le_bytes([*low, *high]),
            _ => return None,
        };
        let sign = self.sign_bit.map_or(0, |bit| 1 << bit);
        let magnitude = i32::from(word & !sign);
        Some(if word & sign == 0 { magnitude } else { -magnitude })
    }

    /// The word of a value, of which [`Item::size`] bytes travel; beyond what it can hold, the nearest that it can.
    pub fn word(&self, value: i32) -> u16 {
        let sign: u16 = self.sign_bit.map_or(0, |bit| 1 << bit);
        let most = match self.sign_bit {
            Some(_) => i32::from(sign - 1),
            None if self.size == 1 => 0xff,
            None => 0xffff,
        };
        let least = if sign == 0 { 0 } else { -most };
        let value = value.clamp(least, most);
        value.unsigned_abs() as u16 | if value < 0 { sign } else { 0 }
    }
}

/// The item that begins at an address.
pub fn item(address: u8) -> Option<&'static Item> {
    ITEMS.iter().find(|item| item.address == address)
}

/// The item with this name, for example `Goal_Position`.
pub fn item_named(name: &str) -> Option<&'static Item> {
    ITEMS.iter().find(|item| is_same_name(item.name, name))
}

/// A model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// In the register at address 3.
    pub number: u16,
    /// What its maker calls it.
    pub name: &'static str,
}

/// Models with this table, with their numbers as clients have them.
pub const MODELS: [Model; 4] = [
    Model { number: 777, name: "STS3215" },
    Model { number: 2825, name: "STS3250" },
    Model { number: 521, name: "STS3036" },
    Model { number: 11272, name: "SM8512BL" },
];

impl Model {
    /// The model with this number.
    pub fn numbered(number: u16) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.number == number)
    }

    /// The model with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }
}
