//! What is sent to and requested from a servo before it may be driven: it is off, it is the motor that the robot file has, nothing is wrong with
//! it, and its watchdog acts. Nothing moves, and nothing is written.

use super::{Protocol, Settings, message, to};
use crate::exchange::{Exchange, ReplyCheck};
use khz_wire::Frame;
use khz_wire::rmd::{self, ERRORS, Message, Motion, Status, command, radians};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The error for a motor that does not answer.
const IF_SILENT: &str = "check its power, its id, the bit rate (1 Mbit/s from the factory), and that nothing makes it send by itself (0xB6)";

/// So long nothing may come unasked, ns.
const QUIET_NS: i64 = 30_000_000;

/// Positions end so far from the last code, rad.
const MARGIN: f64 = 0.2;

/// What the silence is longer than the watchdog.
const LONGER: f64 = 1.2;

/// Between two readings of a clock, ms, at least and at most.
const TICKED_MS: std::ops::Range<u32> = 25..60_000;

/// The exchanges in their order.
pub fn dialogue(settings: &Settings, id: u8, watchdog_s: f64) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let started = Arc::new(AtomicU32::new(0));
    let mut exchanges = vec![
        Exchange {
            quiet_ns: QUIET_NS,
            ..servo.ask("switch off", Message::of(command::OFF), |_| ReplyCheck::Good)
        },
        servo.ask("switch off once more", Message::of(command::OFF), |_| ReplyCheck::Good),
        servo.version(),
        servo.model(),
        servo.status(),
        servo.ask_past_echo("tell its time", Message::of(command::RUNTIME), {
            let started = Arc::clone(&started);
            move |reply| {
                started.store(reply.unsigned(), Ordering::Relaxed);
                ReplyCheck::Good
            }
        }),
        servo.angle(),
    ];
    if !settings.unwatched {
        exchanges.push(servo.watchdog(watchdog_s));
    }
    exchanges.push(servo.ask_past_echo("tell what it measures", Message::of(command::MOTION), |reply| {
        let Motion { celsius, .. } = Motion::parse(reply);
        if celsius == i8::MAX { ReplyCheck::Unrelated } else { ReplyCheck::Good }
    }));
    exchanges.push(Exchange { quiet_ns: QUIET_NS, ..servo.clock(started) });
    exchanges
}

struct Servo<'a> {
    settings: &'a Settings,
    id: u8,
}

impl Servo<'_> {
    /// A message. Anything else from this servo that comes unasked is wrong.
    fn ask(
        &self,
        what: &str,
        asked: Message,
        judge: impl Fn(Message) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let command = asked.command;
        let (id, motions) = (self.id, rmd::MOTION_REPLIES + u32::from(self.id));
        Exchange {
            what: what.to_owned(),
            if_silent: IF_SILENT,
            quiet_ns: 0,
            frame: to(id, asked),
            judge: Box::new(move |frame: &Frame| match message(id, frame) {
                Some(reply) if reply.command == command => judge(reply),
                // Reported repeatedly by one whose watchdog has acted.
                Some(reply) if reply.command == command::CUT_OFF => ReplyCheck::Unrelated,
                // What was asked before "off" is not known here.
                Some(reply) if command != command::OFF && is_asked_here(reply.command) => {
                    ReplyCheck::Unrelated
                }
                Some(reply) => ReplyCheck::Wrong(unasked(reply.command)),
                None if frame.id == motions && !frame.extended => ReplyCheck::Wrong(unasked(0)),
                None => ReplyCheck::Unrelated,
            }),
        }
    }

    /// The same, where the echo of the request is no answer: one whose watchdog has acted sends that once.
    fn ask_past_echo(
        &self,
        what: &str,
        asked: Message,
        judge: impl Fn(Message) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        self.ask(what, asked, move |reply| if reply == asked { ReplyCheck::Unrelated } else { judge(reply) })
    }

    fn version(&self) -> Exchange {
        let expected = self.settings.protocol;
        self.ask_past_echo("tell the date of its firmware", Message::of(command::VERSION), move |reply| {
            let (date, protocol) = (reply.unsigned(), Protocol::of(reply.unsigned()));
            match expected {
                Some(expected) if expected == protocol => ReplyCheck::Good,
                _ => ReplyCheck::Wrong(format!(
                    "its firmware is of {date}, which has other ranges than the robot file says: torques would be wrong by up to 5.4. Write \
                     `rmd.protocol = \"{protocol}\"`"
                )),
            }
        })
    }

    fn model(&self) -> Exchange {
        let (expected, is_new) = (self.settings.model, self.settings.protocol == Some(Protocol::V44));
        // In protocol V4.4 it comes in blocks of five characters.
        let asked = Message { index: u8::from(is_new), ..Message::of(command::MODEL) };
        self.ask_past_echo("tell its model", asked, move |reply| {
            let name = model_name(reply, is_new);
            match expected {
                Some(expected) if is_of(&name, expected.word()) => ReplyCheck::Good,
                _ => ReplyCheck::Wrong(format!("it says that it is \"{name}\": correct `rmd.model`")),
            }
        })
    }

    fn status(&self) -> Exchange {
        self.ask_past_echo("tell its status", Message::of(command::STATUS), |reply| match Status::parse(reply) {
            Some(Status { errors: 0, released: false, .. }) => ReplyCheck::Good,
            Some(Status { errors: 0, .. }) => ReplyCheck::Wrong(
                "it says that its brake is released although it was told to switch off: another program drives it, or its firmware means \
                 something else by that, and nobody would know whether it is off"
                    .to_owned(),
            ),
            Some(Status { errors, .. }) => ReplyCheck::Wrong(format!(
                "it says \"{}\"; find out why, and switch its power off and on if that stays",
                named(errors)
            )),
            None => ReplyCheck::Unrelated,
        })
    }

    fn angle(&self) -> Exchange {
        let most = self.settings.drive.ranges[0] - MARGIN;
        // An angle of 0 is an echo, too.
        self.ask("tell its angle", Message::of(command::ANGLE), move |reply| {
            let angle = radians(reply.number());
            if (reply.index, reply.limit) != (0, 0) {
                ReplyCheck::Wrong("its angle has more than 32 bits: it is a motor of protocol V2, which is another".to_owned())
            } else if angle.abs() > most {
                ReplyCheck::Wrong(format!(
                    "it is at {angle:.2} rad, and positions travel up to {most:.2} rad: set its zero nearer (`khz bus set-zero`)"
                ))
            } else {
                ReplyCheck::Good
            }
        })
    }

    /// Its watchdog acts in a silence with its output off: it reports so unasked, or does not carry out the next request.
    fn watchdog(&self, watchdog_s: f64) -> Exchange {
        let id = self.id;
        let milliseconds = (watchdog_s * 1e3).ceil();
        Exchange {
            what: "tell what it measures after a silence".to_owned(),
            if_silent: IF_SILENT,
            quiet_ns: (watchdog_s * LONGER * 1e9) as i64,
            frame: to(id, Message::of(command::MOTION)),
            judge: Box::new(move |frame: &Frame| match message(id, frame) {
                Some(Message { command: command::CUT_OFF, .. }) => ReplyCheck::Good,
                Some(reply) if reply == Message::of(command::MOTION) => ReplyCheck::Good,
                Some(Message { command: command::MOTION, .. }) => ReplyCheck::Wrong(format!(
                    "it was told nothing for {milliseconds} ms and a fifth more, and its watchdog did not act: nothing stops it when this \
                     computer fails. Set it with `khz bus set-watchdog LINK {id} {watchdog_s} --family rmd`, which it keeps, or accept that \
                     with `rmd.unwatched = true`"
                )),
                _ => ReplyCheck::Unrelated,
            }),
        }
    }

    fn clock(&self, started: Arc<AtomicU32>) -> Exchange {
        self.ask_past_echo("tell its time once more", Message::of(command::RUNTIME), move |reply| {
            let passed = reply.unsigned().wrapping_sub(started.load(Ordering::Relaxed));
            if TICKED_MS.contains(&passed) {
                ReplyCheck::Good
            } else {
                ReplyCheck::Wrong(
                    "its clock does not run on, or it has restarted: look at its supply".to_owned(),
                )
            }
        })
    }
}

/// Its reply may still be on its way from a step before.
const fn is_asked_here(command: u8) -> bool {
    matches!(
        command,
        command::OFF
            | command::VERSION
            | command::MODEL
            | command::STATUS
            | command::RUNTIME
            | command::ANGLE
            | command::MOTION
    )
}

fn unasked(command: u8) -> String {
    format!(
        "it sends by itself, or another program commands it: 0x{command:02X} came unasked. Requests are not answered then: end the program, or \
         switch its power off and on"
    )
}

/// What it calls itself.
pub fn model_name(reply: Message, in_blocks: bool) -> String {
    let bytes = reply.to_bytes();
    let text = if in_blocks { &bytes[3..] } else { &bytes[1..] };
    text.iter().filter(|byte| byte.is_ascii_graphic()).map(|&byte| char::from(byte)).collect()
}

/// A name is of this model: "X1" is none of "X10".
pub fn is_of(name: &str, model: &str) -> bool {
    name.strip_prefix(model).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// Every error of these bits.
pub fn named(errors: u16) -> String {
    let named: Vec<_> = ERRORS.iter().filter(|(bit, _)| errors & bit != 0).map(|(_, name)| *name).collect();
    if named.is_empty() { format!("error {errors:#06x}") } else { named.join(", ") }
}
