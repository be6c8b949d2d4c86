//! How a servo is mounted on its joint.

/// Joint ⇄ servo: joint angle = sign · servo angle + offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mounting {
    /// 1 or −1.
    pub sign: f64,
    /// Joint angle at the servo's zero, rad.
    pub offset: f64,
}

impl Default for Mounting {
    fn default() -> Self {
        Self { sign: 1.0, offset: 0.0 }
    }
}

impl Mounting {
    /// The servo's angle at a joint angle, rad.
    pub fn to_servo(&self, joint: f64) -> f64 {
        self.sign * (joint - self.offset)
    }

    /// The joint angle at an angle of the servo, rad.
    pub fn to_joint(&self, servo: f64) -> f64 {
        self.sign * servo + self.offset
    }

    /// Narrows a range of joint angles, rad, by what `narrow` makes of it as the servo sees it.
    pub fn narrow(&self, [low, high]: [f64; 2], narrow: impl Fn([f64; 2]) -> [f64; 2]) -> [f64; 2] {
        let ordered = |[a, b]: [f64; 2]| if self.sign < 0.0 { [b, a] } else { [a, b] };
        let servo = ordered([self.to_servo(low), self.to_servo(high)]);
        ordered(narrow(servo).map(|angle| self.to_joint(angle)))
    }
}
