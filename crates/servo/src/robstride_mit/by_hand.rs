//! A RobStride in its MIT protocol by hand: its state and its faults can be asked for, and its zero be set.

use super::{RobstrideMitSettings, Settings, fault, reported};
use crate::by_hand::{Answer, Ask, ByHand, Order, Wanted, ZERO, judged, not_zero};
use crate::mit::{self, UNNAMED};
use crate::{Fault, Mounting};
use khz_wire::Frame;
use khz_wire::robstride_mit::{MOST_ID, Reply, Request, frame};
use std::ops::RangeInclusive;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        1..=MOST_ID
    }

    /// Switches its output off first: to a motor of another maker what asks for faults alone may be a command.
    fn who(&self, id: u8) -> Vec<Ask> {
        vec![self.ask(id, &Mounting::default(), Request::Stop)]
    }

    fn who_does(&self) -> Option<&'static str> {
        Some("switches its output off, as other questions may be commands to motors of other makers")
    }

    fn off(&self, id: u8) -> Frame {
        frame(id, Request::Stop.to_bytes())
    }

    fn exchange(
        &self,
        id: u8,
        mounting: &Mounting,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
    ) -> Result<Vec<Ask>, String> {
        if !registers.is_empty() {
            return Err(NO_REGISTERS.to_owned());
        }
        let ask = |request: Request| self.ask(id, mounting, request);
        let faults = Request::Faults { clear: true };
        let Some(order) = order else { return Ok(vec![ask(faults)]) };
        let Some(driven) =
            mit::by_hand::driven(&self.drive, mounting, order, "a RobStride in its MIT protocol")?
        else {
            return Ok(vec![ask(Request::Stop), ask(faults)]);
        };
        if driven.watchdog_s.is_some() {
            return Err("the watchdog of a RobStride is not set by its MIT protocol: give NaN if it may follow its last command for ever".to_owned());
        }
        Ok(vec![
            ask(Request::Stop),
            ask(faults),
            ask(Request::Mode(0)),
            judged(ask(faults), |answer| {
                let fault = answer.fault.filter(|fault| *fault != Fault::NONE)?;
                Some(format!("it says \"{}\" although it was commanded to clear its faults", fault.text))
            }),
            ask(Request::Command(driven.damp)),
            ask(Request::Enable),
            ask(Request::Command(driven.command)),
        ])
    }

    fn write(&self, _: u8, _: &Wanted<'_>, _: f64) -> Result<Vec<Ask>, String> {
        Err(NO_REGISTERS.to_owned())
    }

    fn set_register(&self, _: u8, _: u16, _: f64) -> Result<Vec<Ask>, String> {
        Err(NO_REGISTERS.to_owned())
    }

    /// It does not report whether its output is on, so that is switched off.
    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        let ask = |request: Request| self.ask(id, &Mounting::default(), request);
        let read_back = judged(ask(Request::Stop), |answer| {
            answer.position.filter(|position| position.abs() > ZERO).map(not_zero)
        });
        Ok(vec![ask(Request::Stop), ask(Request::SetZero), read_back])
    }

    /// By the private protocol it neither receives nor sends anything for up to 67 ms, half a second after it.
    fn zero_takes_s(&self) -> f64 {
        0.8
    }

    fn in_file(&self, _: &Answer) -> Vec<String> {
        let RobstrideMitSettings { kp, kd, damping, .. } = RobstrideMitSettings::default();
        let gains = mit::gains_in_file(kp, kd, damping);
        // No guess is written as true, nor a promise that only a person can give.
        vec![
            "# NAME `model`: no servo reports it. `unwatched = true` confirms that it may follow its last command for ever."
                .to_owned(),
            format!("robstride_mit = {{ model = \"{UNNAMED}\", {gains} }}"),
        ]
    }

    fn register(&self, _: &str) -> Option<u16> {
        None
    }
}

const NO_REGISTERS: &str = "no register of a RobStride is read or written by its MIT protocol: set it to its private protocol, which is `--family robstride`, \
                            or use its maker's tool";

impl Settings {
    fn ask(&self, id: u8, mounting: &Mounting, request: Request) -> Ask {
        let (settings, mounting) = (self.clone(), *mounting);
        let read = move |frame: &Frame| -> Option<Answer> {
            Some(match settings.reply(id, frame)? {
                Reply::State(state) => {
                    mit::by_hand::answer(id, &reported(&state), &settings.drive, &mounting)
                }
                Reply::Faults { faults, .. } => {
                    Answer { id, fault: Some(fault(faults)), ..Answer::default() }
                }
            })
        };
        Ask::one(id, frame(id, request.to_bytes()), read)
    }
}
