//! A CubeMars by hand: nothing can be read but the state, and only one servo at a time can be asked.

use super::{CubemarsSettings, Settings, reported};
use crate::Mounting;
use crate::by_hand::{Answer, Ask, ByHand, Order, Wanted};
use crate::mit::{self, Message};
use khz_wire::Frame;
use std::ops::RangeInclusive;

/// Commands go to the id, replies may come on any other identifier; its maker's tool offers no more.
const MOST_ID: u8 = 127;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        1..=MOST_ID
    }

    /// Switches its output off: there is no other request that it answers and that does not make it move.
    fn who(&self, id: u8) -> Vec<Ask> {
        vec![self.ask(id, &Mounting::default(), Message::Disable)]
    }

    fn who_does(&self) -> Option<&'static str> {
        Some("switches its output off, as it replies to no other question")
    }

    fn off(&self, id: u8) -> Frame {
        self.frame(id, Message::Disable)
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
        let ask = |message: Message| self.ask(id, mounting, message);
        let Some(order) = order else {
            return Err(
                "a CubeMars reports its state only when it is commanded: give it a command, for example `stop`"
                    .to_owned(),
            );
        };
        let Some(driven) = mit::by_hand::driven(&self.drive, mounting, order, "a CubeMars")? else {
            return Ok(vec![ask(Message::Disable)]);
        };
        if driven.watchdog_s.is_some() {
            return Err("no host can set the watchdog of a CubeMars: give NaN if it may follow its last command for ever".to_owned());
        }
        let messages = [
            Message::Disable,
            Message::Command(driven.damp),
            Message::Enable,
            Message::Command(driven.command),
        ];
        Ok(messages.map(ask).into())
    }

    fn write(&self, _: u8, _: &Wanted<'_>, _: f64) -> Result<Vec<Ask>, String> {
        Err(NO_REGISTERS.to_owned())
    }

    fn set_register(&self, _: u8, _: u16, _: f64) -> Result<Vec<Ask>, String> {
        Err(NO_REGISTERS.to_owned())
    }

    fn set_zero(&self, _: u8) -> Result<Vec<Ask>, String> {
        Err("a CubeMars does not tell whether its output is on: set its zero with its maker's tool"
            .to_owned())
    }

    fn in_file(&self, _: &Answer) -> Vec<String> {
        let CubemarsSettings { kp, kd, damping, .. } = CubemarsSettings::default();
        let gains = mit::gains_in_file(kp, kd, damping);
        // No guess is written as true, nor a promise that only a person can give.
        vec![
            "# NAME `model`: no servo reports it. Set its watchdog with its maker's tool (\"CAN timeout\"), then write `unwatched = true`."
                .to_owned(),
            format!("cubemars = {{ model = \"{}\", {gains} }}", mit::UNNAMED),
        ]
    }

    fn register(&self, _: &str) -> Option<u16> {
        None
    }
}

const NO_REGISTERS: &str =
    "a CubeMars has no registers that can be read or written over CAN; its maker's tool sets it up";

impl Settings {
    fn ask(&self, id: u8, mounting: &Mounting, message: Message) -> Ask {
        let (settings, mounting) = (self.clone(), *mounting);
        let read = move |frame: &Frame| -> Option<Answer> {
            let state = settings.state(id, frame)?;
            Some(mit::by_hand::answer(id, &reported(&state), &settings.drive, &mounting))
        };
        Ask::one(id, self.frame(id, message), read)
    }
}
