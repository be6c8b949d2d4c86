//! The register map, version 5: one line per register.

use crate::value::Class;

/// A register number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u16);

/// What a client may do with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
    /// Write only.
    Write,
    /// Part of the command: takes effect only together with a mode write in the same frame.
    Command,
    /// Known, but neither readable nor writable.
    Reserved,
}

/// One line of the map.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// First register of the run.
    pub first: Register,
    /// Last register of the run.
    pub last: Register,
    /// Unit and scale.
    pub class: Class,
    /// What a client may do.
    pub access: Access,
    /// The manual's name.
    pub name: &'static str,
}

macro_rules! registers {
    ($($(#[$doc:meta])* $first:literal $(..= $last:literal)? $constant:ident $class:ident $access:ident $name:literal;)*) => {
        impl Register {
            $($(#[$doc])* #[doc = concat!("Register ", stringify!($first), ": ", $name, ".")]
              pub const $constant: Self = Self($first);)*
        }
        /// The whole map in ascending order.
        pub const MAP: &[Entry] = &[$(Entry {
            first: Register($first),
            last: Register({ #[allow(unused_variables)] let last = $first; $(let last = $last;)? last }),
            class: Class::$class,
            access: Access::$access,
            name: $name,
        }),*];
    };
}

registers! {
    0x000 MODE Integer ReadWrite "mode";
    0x001 POSITION Position Read "position";
    0x002 VELOCITY Velocity Read "velocity";
    0x003 TORQUE Torque Read "torque";
    0x004 Q_CURRENT Current Read "Q current";
    0x005 D_CURRENT Current Read "D current";
    0x006 ABSOLUTE_POSITION Position Read "absolute position";
    0x007 POWER Power Read "electrical power";
    0x00a MOTOR_TEMPERATURE Temperature Read "motor temperature";
    0x00b TRAJECTORY_COMPLETE Integer Read "trajectory complete";
    0x00c HOME_STATE Integer Read "home state";
    0x00d VOLTAGE Voltage Read "bus voltage";
    0x00e TEMPERATURE Temperature Read "board temperature";
    0x00f FAULT Integer Read "fault code";
    0x010..=0x012 PWM_PHASE_A Pwm Command "PWM phase A, B, C";
    0x014..=0x016 VOLTAGE_PHASE_A Voltage Command "voltage phase A, B, C";
    0x018 VFOC_THETA Pwm Command "voltage FOC theta, in half turns";
    0x019 VFOC_VOLTAGE Voltage Command "voltage FOC voltage";
    0x01a D_VOLTAGE Voltage Command "D voltage";
    0x01b Q_VOLTAGE Voltage Command "Q voltage";
    0x01c COMMAND_Q_CURRENT Current Command "commanded Q current";
    0x01d COMMAND_D_CURRENT Current Command "commanded D current";
    0x01e VFOC_THETA_RATE Velocity Command "voltage FOC theta rate, in half turns per second";
    0x020 COMMAND_POSITION Position Command "commanded position";
    0x021 COMMAND_VELOCITY Velocity Command "commanded velocity";
    0x022 COMMAND_TORQUE Torque Command "feed-forward torque";
    0x023 COMMAND_KP_SCALE Pwm Command "kp scale";
    0x024 COMMAND_KD_SCALE Pwm Command "kd scale";
    0x025 COMMAND_MAX_TORQUE Torque Command "maximum torque";
    0x026 COMMAND_STOP_POSITION Position Command "stop position";
    0x027 COMMAND_WATCHDOG Time Command "watchdog timeout";
    0x028 COMMAND_VELOCITY_LIMIT Velocity Command "velocity limit";
    0x029 COMMAND_ACCELERATION_LIMIT Acceleration Command "acceleration limit";
    0x02a COMMAND_FIXED_VOLTAGE Voltage Command "fixed voltage override";
    0x02b COMMAND_ILIMIT_SCALE Pwm Command "ki ilimit scale";
    0x02c COMMAND_FIXED_CURRENT Current Command "fixed current override";
    0x02d COMMAND_IGNORE_BOUNDS Integer Command "ignore position bounds";
    0x030 CONTROL_P Torque Read "P torque";
    0x031 CONTROL_I Torque Read "I torque";
    0x032 CONTROL_D Torque Read "D torque";
    0x033 CONTROL_FEEDFORWARD Torque Read "feed-forward torque applied";
    0x034 CONTROL_TORQUE Torque Read "total control torque";
    0x038 CONTROL_POSITION Position Read "control position";
    0x039 CONTROL_VELOCITY Velocity Read "control velocity";
    0x03a CONTROL_TORQUE_TARGET Torque Read "control torque";
    0x03b POSITION_ERROR Position Read "position error";
    0x03c VELOCITY_ERROR Velocity Read "velocity error";
    0x03d TORQUE_ERROR Torque Read "torque error";
    0x040 WITHIN_LOWER Position Command "stay-within lower bound";
    0x041 WITHIN_UPPER Position Command "stay-within upper bound";
    0x042 WITHIN_TORQUE Torque Command "stay-within feed-forward torque";
    0x043 WITHIN_KP_SCALE Pwm Command "stay-within kp scale";
    0x044 WITHIN_KD_SCALE Pwm Command "stay-within kd scale";
    0x045 WITHIN_MAX_TORQUE Torque Command "stay-within maximum torque";
    0x046 WITHIN_WATCHDOG Time Command "stay-within watchdog timeout";
    0x047 WITHIN_ILIMIT_SCALE Pwm Command "stay-within ki ilimit scale";
    0x048 WITHIN_IGNORE_BOUNDS Integer Command "stay-within ignore position bounds";
    0x050 ENCODER_0_POSITION Position Read "encoder 0 position";
    0x051 ENCODER_0_VELOCITY Velocity Read "encoder 0 velocity";
    0x052 ENCODER_1_POSITION Position Read "encoder 1 position";
    0x053 ENCODER_1_VELOCITY Velocity Read "encoder 1 velocity";
    0x054 ENCODER_2_POSITION Position Read "encoder 2 position";
    0x055 ENCODER_2_VELOCITY Velocity Read "encoder 2 velocity";
    0x058 ENCODER_VALIDITY Integer Read "encoder validity";
    0x05c AUX1_GPIO_COMMAND Integer ReadWrite "aux1 GPIO command";
    0x05d AUX2_GPIO_COMMAND Integer ReadWrite "aux2 GPIO command";
    0x05e AUX1_GPIO_STATUS Integer Read "aux1 GPIO status";
    0x05f AUX2_GPIO_STATUS Integer Read "aux2 GPIO status";
    0x060..=0x064 AUX1_ANALOG_IN_1 Pwm Read "aux1 analog inputs 1 to 5";
    0x068..=0x06c AUX2_ANALOG_IN_1 Pwm Read "aux2 analog inputs 1 to 5";
    0x070 MILLISECOND_COUNTER Integer Read "millisecond counter";
    0x071 CLOCK_TRIM Integer ReadWrite "clock trim";
    0x072 AUX1_PWM_PERIOD Integer Read "aux1 PWM input period, µs";
    0x073 AUX1_PWM_DUTY Pwm Read "aux1 PWM input duty";
    0x074 AUX2_PWM_PERIOD Integer Read "aux2 PWM input period, µs";
    0x075 AUX2_PWM_DUTY Pwm Read "aux2 PWM input duty";
    0x076..=0x07a AUX1_PWM_OUT_1 Pwm ReadWrite "aux1 PWM outputs 1 to 5";
    0x07b..=0x07f AUX2_PWM_OUT_1 Pwm ReadWrite "aux2 PWM outputs 1 to 5";
    0x100 MODEL Word Read "model number";
    0x101 FIRMWARE_VERSION Word Read "firmware version";
    0x102 MAP_VERSION Word Read "register map version";
    0x110 MULTIPLEX_ID Integer Reserved "multiplex id";
    0x120..=0x122 SERIAL_NUMBER Word Read "serial number words 0 to 2";
    0x130 SET_OUTPUT_NEAREST Position Write "set output nearest";
    0x131 SET_OUTPUT_EXACT Position Write "set output exact";
    0x132 REQUIRE_REINDEX Integer Write "require reindex";
    0x133 RECAPTURE Integer Write "recapture position and velocity";
    0x140 DRIVER_FAULT_1 Integer Read "driver fault 1";
    0x141 DRIVER_FAULT_2 Integer Read "driver fault 2";
    0x150..=0x153 UUID Word Read "UUID words 0 to 3";
    0x154..=0x157 UUID_MASK Word Write "UUID mask words 0 to 3";
    0x158 UUID_MASK_CAPABLE Integer Read "UUID mask capable";
}

/// One more than the last register of the map.
const END: usize = MAP[MAP.len() - 1].last.0 as usize + 1;

/// One more than the place of each register's line in [`MAP`]; 0 where there is none.
static LINES: [u8; END] = {
    let mut lines = [0; END];
    let mut index = 0;
    while index < MAP.len() {
        let mut register = MAP[index].first.0;
        while register <= MAP[index].last.0 {
            lines[register as usize] = index as u8 + 1;
            register += 1;
        }
        index += 1;
    }
    lines
};

impl Register {
    /// The map's line for this register, if it has one.
    #[inline]
    pub fn entry(self) -> Option<&'static Entry> {
        let line = *LINES.get(usize::from(self.0))?;
        MAP.get(usize::from(line).checked_sub(1)?)
    }

    /// The register, or the first of several, that the manual calls so.
    pub fn called(name: &str) -> Option<Self> {
        MAP.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)).map(|entry| entry.first)
    }

    /// Unit and scale; unknown registers count as plain integers.
    pub fn class(self) -> Class {
        self.entry().map_or(Class::Integer, |entry| entry.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_ascends_without_overlap() {
        assert!(MAP.iter().all(|entry| entry.first <= entry.last));
        assert!(MAP.windows(2).all(|pair| pair[0].last < pair[1].first));
    }

    #[test]
    fn every_register_has_the_line_that_holds_it() {
        assert!(MAP.len() < usize::from(u8::MAX));
        for register in (0..=u16::MAX).map(Register) {
            let line = MAP.iter().position(|entry| entry.first <= register && register <= entry.last);
            let found = register.entry().map(|entry| entry.first);
            assert_eq!(found, line.map(|line| MAP[line].first), "{register:?}");
        }
    }

    #[test]
    fn finds_lines_and_runs() {
        assert_eq!(Register(0x012).entry().unwrap().name, "PWM phase A, B, C");
        assert_eq!(Register::FAULT.class(), Class::Integer);
        assert!(Register(0x013).entry().is_none());
        assert!(Register(0x159).entry().is_none());
    }
}
