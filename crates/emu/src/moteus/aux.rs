//! The auxiliary connectors' pins (mjbots/moteus `fw/aux_common.h`, `fw/aux_port.h`). Nothing is connected to them.

use super::Servo;
use super::settings::Pin;

/// Modes of a pin, by the firmware's numbers.
const DIGITAL_INPUT: u8 = 14;
const DIGITAL_OUTPUT: u8 = 15;
/// A pull-up, by the firmware's number.
const PULL_UP: u8 = 1;

/// One auxiliary connector.
#[derive(Clone, Debug, Default)]
pub(super) struct AuxPort {
    /// What was written to the digital outputs, a bit each.
    outputs: u8,
    /// Duty cycle of each pin, 0 to 1.
    pub(super) pwm: [f64; 5],
}

impl Servo {
    /// Writes a connector's digital outputs; other pins do not change.
    pub(super) fn set_pins(&mut self, port: usize, bits: u8) {
        let outputs = bits_of(self.pin_settings(port), |pin| pin.mode == DIGITAL_OUTPUT);
        let kept = self.aux[port].outputs & !outputs;
        self.aux[port].outputs = kept | (bits & outputs);
    }

    /// A connector's digital pins: outputs as written, inputs as their pull-up has them, others 0.
    pub(super) fn pins(&self, port: usize) -> u8 {
        let pins = self.pin_settings(port);
        let outputs = bits_of(pins, |pin| pin.mode == DIGITAL_OUTPUT);
        let pulled = bits_of(pins, |pin| pin.mode == DIGITAL_INPUT && pin.pull == PULL_UP);
        (self.aux[port].outputs & outputs) | pulled
    }

    /// Sets the duty cycle of a pin, within 0 to 1. NaN is 1, as the firmware's limits make it.
    pub(super) fn set_duty(&mut self, port: usize, pin: usize, duty: f64) {
        if let Some(target) = self.aux[port].pwm.get_mut(pin) {
            *target = if duty < 1.0 { duty.max(0.0) } else { 1.0 };
        }
    }

    fn pin_settings(&self, port: usize) -> &[Pin; 5] {
        if port == 0 { &self.settings.aux1.pins } else { &self.settings.aux2.pins }
    }
}

/// One bit for each pin that is `wanted`.
fn bits_of(pins: &[Pin; 5], wanted: impl Fn(&Pin) -> bool) -> u8 {
    pins.iter().enumerate().fold(0, |bits, (nth, pin)| bits | u8::from(wanted(pin)) << nth)
}
