//! The control table of the X series.

use crate::serial::is_same_name;

/// One item of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it begins.
    pub address: u16,
    /// Its bytes: 1, 2 or 4.
    pub size: u8,
    /// What the manual calls it.
    pub name: &'static str,
    /// It can be written.
    pub writable: bool,
    /// It is a two's complement.
    pub signed: bool,
}

macro_rules! items {
    ($($(#[doc = $doc:literal])+ $name:ident($called:ident) = $address:literal, $size:literal, $access:ident $(, $signed:ident)?;)+) => {
        /// Where the items of the table begin.
        pub mod address {
            $($(#[doc = $doc])+ pub const $name: u16 = $address;)+
            /// The first of the indirect addresses, two bytes each: where an indirect byte really is.
            pub const INDIRECT: u16 = 168;
        }

        /// All items but the indirect ones, by their addresses.
        pub const ITEMS: &[Item] = &[
            $(Item {
                address: $address,
                size: $size,
                name: stringify!($called),
                writable: matches!(stringify!($access).as_bytes(), b"rw"),
                signed: matches!(stringify!($($signed)?).as_bytes(), b"signed"),
            },)+
        ];
    };
}

items! {
    /// See [`crate::dynamixel::Model`].
    MODEL_NUMBER(model_number) = 0, 2, r;
    /// A number.
    FIRMWARE_VERSION(firmware_version) = 6, 1, r;
    /// 0 to 252.
    ID(id) = 7, 1, rw;
    /// Place in [`crate::dynamixel::BAUDS`].
    BAUD_RATE(baud_rate) = 8, 1, rw;
    /// 2 µs.
    RETURN_DELAY_TIME(return_delay_time) = 9, 1, rw;
    /// Bit 0: reverse; bit 2: profiles in time; bit 3: a goal switches the torque on.
    DRIVE_MODE(drive_mode) = 10, 1, rw;
    /// 0 current, 1 velocity, 3 position, 4 position over many turns, 5 that with a limit of current, 16 PWM.
    OPERATING_MODE(operating_mode) = 11, 1, rw;
    /// A second id, under which it does not answer; above 252: none.
    SECONDARY_ID(secondary_id) = 12, 1, rw;
    /// 2.
    PROTOCOL_TYPE(protocol_type) = 13, 1, rw;
    /// Steps, added to the position.
    HOMING_OFFSET(homing_offset) = 20, 4, rw, signed;
    /// 0.229 rpm.
    MOVING_THRESHOLD(moving_threshold) = 24, 4, rw;
    /// °C.
    TEMPERATURE_LIMIT(temperature_limit) = 31, 1, rw;
    /// 0.1 V.
    MAX_VOLTAGE_LIMIT(max_voltage_limit) = 32, 2, rw;
    /// 0.1 V.
    MIN_VOLTAGE_LIMIT(min_voltage_limit) = 34, 2, rw;
    /// 1/885.
    PWM_LIMIT(pwm_limit) = 36, 2, rw;
    /// [`crate::dynamixel::Model::current_step`].
    CURRENT_LIMIT(current_limit) = 38, 2, rw;
    /// 0.229 rpm.
    VELOCITY_LIMIT(velocity_limit) = 44, 4, rw;
    /// Steps; in mode 3 only.
    MAX_POSITION_LIMIT(max_position_limit) = 48, 4, rw, signed;
    /// Steps; in mode 3 only.
    MIN_POSITION_LIMIT(min_position_limit) = 52, 4, rw, signed;
    /// Bit 0: torque on at power-up.
    STARTUP_CONFIGURATION(startup_configuration) = 60, 1, rw;
    /// Which hardware errors switch it off.
    SHUTDOWN(shutdown) = 63, 1, rw;
    /// 1: on, and EEPROM is locked.
    TORQUE_ENABLE(torque_enable) = 64, 1, rw;
    /// 1: on.
    LED(led) = 65, 1, rw;
    /// 0: pings are answered, 1: reads too, 2: everything.
    STATUS_RETURN_LEVEL(status_return_level) = 68, 1, rw;
    /// 1: something waits for an action.
    REGISTERED_INSTRUCTION(registered_instruction) = 69, 1, r;
    /// [`crate::dynamixel::HARDWARE_ERRORS`].
    HARDWARE_ERROR_STATUS(hardware_error_status) = 70, 1, r;
    /// 1/65536.
    VELOCITY_I_GAIN(velocity_i_gain) = 76, 2, rw;
    /// 1/128.
    VELOCITY_P_GAIN(velocity_p_gain) = 78, 2, rw;
    /// 1/16.
    POSITION_D_GAIN(position_d_gain) = 80, 2, rw;
    /// 1/65536.
    POSITION_I_GAIN(position_i_gain) = 82, 2, rw;
    /// 1/128.
    POSITION_P_GAIN(position_p_gain) = 84, 2, rw;
    /// 1/4.
    FEEDFORWARD_2ND_GAIN(feedforward_2nd_gain) = 88, 2, rw;
    /// 1/4.
    FEEDFORWARD_1ST_GAIN(feedforward_1st_gain) = 90, 2, rw;
    /// 20 ms; 0: none, −1: it has acted.
    BUS_WATCHDOG(bus_watchdog) = 98, 1, rw, signed;
    /// 1/885; in other modes the most.
    GOAL_PWM(goal_pwm) = 100, 2, rw, signed;
    /// As the limit; in mode 5 the most.
    GOAL_CURRENT(goal_current) = 102, 2, rw, signed;
    /// 0.229 rpm.
    GOAL_VELOCITY(goal_velocity) = 104, 4, rw, signed;
    /// 214.577 rev/min²; 0: none.
    PROFILE_ACCELERATION(profile_acceleration) = 108, 4, rw;
    /// 0.229 rpm; 0: none.
    PROFILE_VELOCITY(profile_velocity) = 112, 4, rw;
    /// 4096 a turn.
    GOAL_POSITION(goal_position) = 116, 4, rw, signed;
    /// ms, up to 32767.
    REALTIME_TICK(realtime_tick) = 120, 2, r;
    /// 1: faster than the threshold.
    MOVING(moving) = 122, 1, r;
    /// Bit 0: it has arrived.
    MOVING_STATUS(moving_status) = 123, 1, r;
    /// 1/885.
    PRESENT_PWM(present_pwm) = 124, 2, r, signed;
    /// As the limit; a model without a sensor: load, 0.1 %.
    PRESENT_CURRENT(present_current) = 126, 2, r, signed;
    /// 0.229 rpm.
    PRESENT_VELOCITY(present_velocity) = 128, 4, r, signed;
    /// 4096 a turn.
    PRESENT_POSITION(present_position) = 132, 4, r, signed;
    /// What the profile wants.
    VELOCITY_TRAJECTORY(velocity_trajectory) = 136, 4, r, signed;
    /// What the profile wants.
    POSITION_TRAJECTORY(position_trajectory) = 140, 4, r, signed;
    /// 0.1 V.
    PRESENT_INPUT_VOLTAGE(present_input_voltage) = 144, 2, r;
    /// °C.
    PRESENT_TEMPERATURE(present_temperature) = 146, 1, r;
    /// 1: there is a backup.
    BACKUP_READY(backup_ready) = 147, 1, r;
}

impl Item {
    /// It is kept without power, and locked while the torque is on.
    pub const fn is_kept(&self) -> bool {
        self.address < address::TORQUE_ENABLE
    }

    /// The value of its bytes.
    pub fn value(&self, bytes: &[u8]) -> Option<i64> {
        let signed = self.signed;
        Some(match *bytes {
            [a] if signed => i64::from(a as i8),
            [a] => i64::from(a),
            [a, b] if signed => i64::from(i16::from_le_bytes([a, b])),
            [a, b] => i64::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] if signed => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d] => i64::from(u32::from_le_bytes([a, b, c, d])),
            _ => return None,
        })
    }
}

/// The item that begins at an address.
pub fn item(address: u16) -> Option<&'static Item> {
    ITEMS.iter().find(|item| item.address == address)
}

/// The item with this name, for example `Goal_Position`.
pub fn item_named(name: &str) -> Option<&'static Item> {
    ITEMS.iter().find(|item| is_same_name(item.name, name))
}
