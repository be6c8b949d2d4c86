//! The five numbers of an MIT-type command in eight bytes, and how a number becomes a code.
//!
//! Position, velocity, both gains and a torque travel as unsigned codes between the ends of a range. The range is not in
//! the frame: a host that takes another one than the servo's is wrong by a factor, and nothing reveals it.
//!
//! The formula is the one of Damiao's clients (`damiao-motor` 1.0.6, `openarm_can` 9866604, LeRobot 0.6.2): truncated, so that
//! 0 becomes the code just below the middle.

/// A range of numbers and the codes they travel as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    codes: u32,
    /// From the one end to the other, …
    span: f64,
    /// … in so many steps, …
    steps: f64,
    /// … of which each is so long.
    step: f64,
}

impl Scale {
    /// From `low` to `high` in this many bits, 32 at the most.
    ///
    /// The ends must be finite and the right way round; otherwise every number has the code 0 or the greatest.
    pub const fn new(low: f64, high: f64, bits: u32) -> Self {
        let codes = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
        let (span, steps) = (high - low, codes as f64);
        Self { low, high, codes, span, steps, step: span / steps }
    }

    /// From −`most` to `most`.
    pub const fn symmetric(most: f64, bits: u32) -> Self {
        Self::new(-most, most, bits)
    }

    /// What one code is worth.
    pub const fn step(self) -> f64 {
        self.step
    }

    /// The greatest code.
    pub const fn last(self) -> u32 {
        self.codes
    }

    /// The code of a number: of the codes not above it the nearest; beyond the ends that of the end. NaN is as 0.
    #[inline]
    pub fn encode(self, value: f64) -> u32 {
        let value = if value.is_nan() { 0.0 } else { value };
        let within = value.max(self.low).min(self.high) - self.low;
        // The conversion cuts off what is behind the point.
        (within * self.steps / self.span) as u32
    }

    /// The number of a code.
    #[inline]
    pub fn decode(self, code: u32) -> f64 {
        f64::from(code) * self.span / self.steps + self.low
    }

    /// What was measured: between this code and the next, as codes are cut off, so that the code below the middle is 0. The last
    /// code at either end means "this or more": infinite.
    #[inline]
    pub fn measured(self, code: u32) -> f64 {
        match code {
            0 => f64::NEG_INFINITY,
            code if code >= self.codes => f64::INFINITY,
            code => self.decode(code) + 0.5 * self.step,
        }
    }

    /// The numbers between `low` and `high` whose codes are between them too. Infinite bounds stay; the wrong way round if there
    /// are none.
    pub fn inside(self, [low, high]: [f64; 2]) -> [f64; 2] {
        let code = self.encode(low);
        // Cutting off moves a number down by less than a step, so only the lower bound has to move: half a step above a
        // code, where no rounding can take it to another.
        let low = if low.is_finite() && self.decode(code) < low {
            self.decode(code) + 1.5 * self.step
        } else {
            low
        };
        [low, high]
    }
}

/// The range of position gains of Damiao and CubeMars servos, N·m/rad, whichever the model.
pub const KP: Scale = Scale::new(0.0, 500.0, 12);
/// Of their velocity gains, N·m·s/rad.
pub const KD: Scale = Scale::new(0.0, 5.0, 12);

/// Units of the watchdogs of Damiao and RobStride servos per second.
pub const TIMEOUT_PER_S: f64 = 20_000.0;

/// The codes of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codes {
    /// 16 bits of them in MIT mode.
    pub position: u32,
    /// 12 bits, as the others.
    pub velocity: u32,
    /// Position gain.
    pub kp: u32,
    /// Velocity gain.
    pub kd: u32,
    /// Torque added.
    pub torque: u32,
}

impl Codes {
    /// As they travel.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [_, _, p1, p0] = self.position.to_be_bytes();
        [
            p1,
            p0,
            (self.velocity >> 4) as u8,
            ((self.velocity & 0xf) << 4) as u8 | (self.kp >> 8 & 0xf) as u8,
            self.kp as u8,
            (self.kd >> 4) as u8,
            ((self.kd & 0xf) << 4) as u8 | (self.torque >> 8 & 0xf) as u8,
            self.torque as u8,
        ]
    }

    /// Decodes these bytes.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        let [p1, p0, v, v_kp, kp, kd, kd_t, t] = bytes;
        Self {
            position: u32::from_be_bytes([0, 0, p1, p0]),
            velocity: (v as u32) << 4 | (v_kp >> 4) as u32,
            kp: ((v_kp & 0xf) as u32) << 8 | kp as u32,
            kd: (kd as u32) << 4 | (kd_t >> 4) as u32,
            torque: ((kd_t & 0xf) as u32) << 8 | t as u32,
        }
    }

    /// The same, or with a velocity gain one code less if the command would be one of the special codes (seven bytes of `FF` and
    /// one more): with everything at its greatest, a torque just below full scale *is* "disable", "enable" or "clear".
    #[must_use]
    pub const fn beside_special_codes(self) -> Self {
        if self.position as u16 != u16::MAX {
            return self;
        }
        match self.to_bytes() {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, _] => Self { kd: self.kd - 1, ..self },
            _ => self,
        }
    }
}

/// What a frame of seven `FF` and one more byte asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Special {
    /// Clear a fault.
    Clear = 0xfb,
    /// Output on.
    Enable = 0xfc,
    /// Output off.
    Disable = 0xfd,
    /// Here is 0.
    SetZero = 0xfe,
}

impl Special {
    /// As it travels.
    pub const fn to_bytes(self) -> [u8; 8] {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, self as u8]
    }

    /// What these bytes ask for, if they are a special code.
    pub const fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        match bytes {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, last] => match last {
                0xfb => Some(Self::Clear),
                0xfc => Some(Self::Enable),
                0xfd => Some(Self::Disable),
                0xfe => Some(Self::SetZero),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSITION: Scale = Scale::symmetric(12.5, 16);
    const GAIN: Scale = Scale::new(0.0, 500.0, 12);

    #[test]
    fn zero_is_the_code_below_the_middle() {
        assert_eq!(POSITION.encode(0.0), 0x7fff);
        assert_eq!(Scale::symmetric(30.0, 12).encode(0.0), 0x7ff);
        assert!((POSITION.decode(0x7fff) + 0.000_190_7).abs() < 1e-6);
        assert_eq!([GAIN.encode(0.0), GAIN.encode(5.0), GAIN.encode(500.0)], [0, 0x28, 0xfff]);
    }

    #[test]
    fn what_is_no_number_or_beyond_the_range_cannot_run_away() {
        assert_eq!(POSITION.encode(f64::NAN), 0x7fff);
        assert_eq!([POSITION.encode(1e300), POSITION.encode(f64::NEG_INFINITY)], [0xffff, 0]);
        assert_eq!(GAIN.encode(-1.0), 0);
    }

    #[test]
    fn the_ends_say_this_or_more() {
        assert_eq!([POSITION.measured(0), POSITION.measured(0xffff)], [f64::NEG_INFINITY, f64::INFINITY]);
        assert!(POSITION.measured(1).is_finite() && POSITION.measured(0xfffe).is_finite());
    }

    #[test]
    fn a_joint_at_rest_is_measured_at_rest() {
        let velocity = Scale::symmetric(280.0, 12);
        assert!(velocity.measured(velocity.encode(0.0)).abs() < 1e-9);
        // What was measured and is commanded again has the same code.
        (1..0xffff).for_each(|code| assert_eq!(POSITION.encode(POSITION.measured(code)), code));
    }

    #[test]
    fn what_is_inside_stays_inside_on_its_way() {
        let mut low = -12.4;
        while low < 12.3 {
            let [least, most] = POSITION.inside([low, low + 0.1]);
            assert!(POSITION.decode(POSITION.encode(least)) >= low, "{low}");
            assert!(POSITION.decode(POSITION.encode(most)) <= low + 0.1 && least < low + 0.001, "{low}");
            low += 0.001_7;
        }
        assert_eq!(POSITION.inside([f64::NEG_INFINITY, f64::INFINITY]), [f64::NEG_INFINITY, f64::INFINITY]);
    }

    #[test]
    fn codes_survive_the_way_there_and_back() {
        for bytes in [[0x85, 0x1e, 0x7f, 0xf0, 0x28, 0x19, 0x97, 0xff], [1, 2, 3, 4, 5, 6, 7, 8], [0xff; 8]] {
            assert_eq!(Codes::from_bytes(bytes).to_bytes(), bytes);
        }
    }

    #[test]
    fn no_command_is_a_special_code() {
        let most = Codes::from_bytes([0xff; 8]);
        for torque in 0..=0xfff {
            let sent = Codes { torque, ..most }.beside_special_codes();
            assert_ne!(sent.to_bytes()[..7], [0xff; 7], "torque {torque:x}");
            assert!(most.kd - sent.kd <= 1 && sent.torque == torque);
        }
        for at in 0..7 {
            let mut bytes = [0xff; 8];
            bytes[at] = 0xfe;
            assert_eq!(Codes::from_bytes(bytes).beside_special_codes().to_bytes(), bytes);
        }
    }
}
