//! Parameters of the built-in controllers: where they are set, they go smoothly.

use khz_loop::parameters::Parameter;
use khz_settings::Key;
use std::ops::RangeInclusive;

/// How fast a value follows where it is set, rad/s: it is there, but for 2 %, after 1.2 s.
const BANDWIDTH: f64 = 5.0;
/// Nearer than this share of its size it is there.
const THERE: f64 = 1e-9;

/// A value on its way, and its rate per second: that of a critically damped spring, so neither jumps and there is no
/// overshoot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Glide {
    pub value: f64,
    pub rate: f64,
}

impl Glide {
    /// After `dt` more seconds on the way to `target`.
    pub fn towards(self, target: f64, dt: f64) -> Self {
        let off = self.value - target;
        if off.abs() <= THERE * target.abs().max(1.0) && self.rate.abs() <= THERE * target.abs().max(1.0) {
            return Self { value: target, rate: 0.0 };
        }
        // The exact solution, so no step is too long for it.
        let drive = (self.rate + BANDWIDTH * off) * dt;
        let fade = (-BANDWIDTH * dt).exp();
        Self { value: target + (off + drive) * fade, rate: (self.rate - BANDWIDTH * drive) * fade }
    }
}

impl Glide {
    /// As a share of a gain, which rounding must not take beyond 0 and 1.
    pub fn share(self) -> f64 {
        self.value.clamp(0.0, 1.0)
    }
}

/// Parameters made of keys of the robot file, and where their values are.
#[derive(Clone, Debug)]
pub(super) struct Gliding<const N: usize> {
    parameters: [Parameter; N],
    glides: [Glide; N],
}

impl<const N: usize> Gliding<N> {
    /// The keys of these names, each with its value and the range within which it may be changed live, which includes that
    /// value.
    pub fn of(keys: &[Key], live: [(&str, f64, RangeInclusive<f64>); N]) -> Self {
        let parameters = live.map(|(name, value, range)| {
            let (low, high) = range.into_inner();
            let parameter = Parameter::float(name, value, low.min(value)..=high.max(value));
            let Some(key) = keys.iter().find(|key| key.name == name) else { return parameter };
            let lines: Vec<&str> = key.doc.iter().map(|line| line.trim()).collect();
            parameter.in_unit(key.unit).about(lines.join(" "))
        });
        let glides = live_values(&parameters);
        Self { parameters, glides }
    }

    /// What a controller declares.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.parameters.to_vec()
    }

    /// Every value is at once where it is set.
    pub fn begin(&mut self) {
        self.glides = live_values(&self.parameters);
    }

    /// The values after `dt` more seconds, in their order.
    pub fn step(&mut self, dt: f64) -> [Glide; N] {
        for (glide, parameter) in self.glides.iter_mut().zip(&self.parameters) {
            *glide = glide.towards(parameter.get(), dt);
        }
        self.glides
    }
}

fn live_values<const N: usize>(parameters: &[Parameter; N]) -> [Glide; N] {
    parameters.each_ref().map(|parameter| Glide { value: parameter.get(), rate: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_arrives_without_a_jump_and_without_overshoot() {
        let mut gliding = Gliding::of(&[], [("kp", 0.0, 0.0..=1.0)]);
        gliding.parameters[0].put(1.0);
        let mut last = Glide { value: 0.0, rate: 0.0 };
        for tick in 0..10_000 {
            let [now] = gliding.step(1e-3);
            assert!(
                (now.value - last.value).abs() < 0.0021 && (0.0..=1.0).contains(&now.value),
                "tick {tick}: {now:?}"
            );
            assert!(
                (now.value - last.value - 5e-4 * (now.rate + last.rate)).abs() < 1e-5,
                "tick {tick}: {now:?}"
            );
            last = now;
        }
        assert_eq!(last, Glide { value: 1.0, rate: 0.0 });
    }

    #[test]
    fn a_value_that_is_set_again_on_its_way_stays_within_what_was_set() {
        let mut gliding = Gliding::of(&[], [("kp", 0.5, 0.0..=1.0)]);
        for tick in 0..5000 {
            if tick % 70 == 0 {
                gliding.parameters[0].put(f64::from(tick / 70 % 3 % 2));
            }
            let [now] = gliding.step(1e-3);
            assert!((-1e-12..=1.0 + 1e-12).contains(&now.value), "tick {tick}: {now:?}");
        }
    }

    #[test]
    fn nothing_is_added_to_a_value_that_does_not_change() {
        let mut gliding = Gliding::of(&[], [("kp", 0.1, 0.0..=1.0)]);
        assert!((0..1000).all(|_| gliding.step(1e-3) == [Glide { value: 0.1, rate: 0.0 }]));
    }
}
