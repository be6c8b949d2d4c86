//! A number and how fast it changes, so that what is computed from it knows its own rate.

use super::gliding::Glide;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value that changes at `rate` per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moving {
    pub at: f64,
    pub rate: f64,
}

impl Moving {
    pub const fn new(at: f64, rate: f64) -> Self {
        Self { at, rate }
    }

    pub const fn fixed(at: f64) -> Self {
        Self { at, rate: 0.0 }
    }

    /// From 0 to 1 within `duration` seconds, `t` seconds after its start; it starts and ends at rest.
    pub fn step(t: f64, duration: f64) -> Self {
        if t >= duration {
            return Self::fixed(1.0);
        }
        let x = t / duration;
        Self::new(x * x * (3.0 - 2.0 * x), 6.0 * x * (1.0 - x) / duration)
    }

    pub fn sin_cos(self) -> (Self, Self) {
        let (sin, cos) = self.at.sin_cos();
        (Self::new(sin, cos * self.rate), Self::new(cos, -sin * self.rate))
    }

    /// Of a number above 0.
    pub fn sqrt(self) -> Self {
        let root = self.at.sqrt();
        Self::new(root, 0.5 * self.rate / root)
    }

    /// Of a number between -1 and 1.
    pub fn acos(self) -> Self {
        Self::new(self.at.acos(), -self.rate / (1.0 - self.at * self.at).sqrt())
    }

    /// The angle of the point `x`, `self`; at the origin it does not turn.
    pub fn atan2(self, x: Self) -> Self {
        let square = (self.at * self.at + x.at * x.at).max(f64::MIN_POSITIVE);
        Self::new(self.at.atan2(x.at), (x.at * self.rate - self.at * x.rate) / square)
    }

    /// At rest at `low` or `high` when beyond it.
    pub fn clamp(self, low: f64, high: f64) -> Self {
        if (low..=high).contains(&self.at) { self } else { Self::fixed(self.at.clamp(low, high)) }
    }

    /// `share` of the way to `to`.
    pub fn towards(self, to: Self, share: Self) -> Self {
        self + share * (to - self)
    }
}

impl From<Glide> for Moving {
    fn from(Glide { value, rate }: Glide) -> Self {
        Self::new(value, rate)
    }
}

impl Add for Moving {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.at + other.at, self.rate + other.rate)
    }
}

impl Sub for Moving {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::new(self.at - other.at, self.rate - other.rate)
    }
}

impl Mul for Moving {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::new(self.at * other.at, self.rate * other.at + self.at * other.rate)
    }
}

impl Mul<f64> for Moving {
    type Output = Self;
    fn mul(self, by: f64) -> Self {
        Self::new(self.at * by, self.rate * by)
    }
}

impl Div<f64> for Moving {
    type Output = Self;
    fn div(self, by: f64) -> Self {
        Self::new(self.at / by, self.rate / by)
    }
}

impl Neg for Moving {
    type Output = Self;
    fn neg(self) -> Self {
        self * -1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_derivatives() {
        let x = |t: f64| Moving::new(0.3 + 0.2 * t, 0.2);
        let y = |t: f64| Moving::new(0.7 - 0.1 * t, -0.1);
        let functions: [fn(Moving, Moving) -> Moving; 7] = [
            |x, y| x * y - x,
            |x, y| (x * x + y * y).sqrt(),
            |x, _| x.acos(),
            |x, y| y.atan2(x),
            |x, y| x.sin_cos().0 * y.sin_cos().1,
            |x, y| -x.towards(y, x) / 3.0,
            |x, _| x.clamp(0.0, 0.2),
        ];
        for (number, function) in functions.iter().enumerate() {
            let at = |t| function(x(t), y(t));
            let slope = (at(1e-6).at - at(-1e-6).at) / 2e-6;
            assert!((slope - at(0.0).rate).abs() < 1e-8, "function {number}: {slope}");
        }
    }
}
