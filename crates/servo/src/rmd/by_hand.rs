//! An RMD by hand: messages with replies that name them.

use super::{Model, Protocol, REPLY_DELAY_US, RmdSettings, Settings, message, ready, to};
use crate::by_hand::{Answer, Ask, ByHand, Order, Wanted, ZERO, in_turn, judged, not_zero, output_is_on};
use crate::mit;
use crate::{Mode, Mounting};
use khz_wire::Frame;
use khz_wire::rmd::{self, MOST_ID, Message, Motion, Status, command, function, radians};
use std::ops::RangeInclusive;

/// Registers are numbered by the command that reads them, and its index: 0x4201 is acceleration 1. What can be named:
const NAMES: [(u16, &str); 8] = [
    (0x4200, "acceleration_up"),
    (0x4201, "acceleration_down"),
    (0x4202, "speed_acceleration_up"),
    (0x4203, "speed_acceleration_down"),
    (0x6000, "encoder"),
    (0x6200, "encoder_offset"),
    (VERSION, "firmware_date"),
    (RUNTIME, "runtime_ms"),
];
const VERSION: u16 = (command::VERSION as u16) << 8;
const RUNTIME: u16 = (command::RUNTIME as u16) << 8;

/// Accelerations that can be written, °/s²; 0 is none.
const ACCELERATIONS: RangeInclusive<f64> = 100.0..=60_000.0;

/// Restarted, it is silent for 1.1 s; as long again is allowed.
const RESTART_NS: i64 = 2_200_000_000;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        1..=MOST_ID
    }

    fn who(&self, id: u8) -> Vec<Ask> {
        let name = self.ask(id, Message::of(command::MODEL), move |reply| {
            // Its protocol decides which of the two it is; for one that reports blocks, bytes 1 and 2 are numbers.
            let mut answer = Answer { id, ..Answer::default() };
            answer.identity.serial = Some(ready::model_name(reply, reply.index < b' '));
            answer
        });
        // One whose watchdog has acted sends the first request back as it is: it is there.
        let is_there =
            self.ask(id, Message::of(command::STATUS), move |_| Answer { id, ..Answer::default() });
        vec![
            is_there,
            self.status(id),
            self.read(id, VERSION),
            name,
            self.read(id, RUNTIME),
            self.angle(id, &Mounting::default()),
        ]
    }

    fn off(&self, id: u8) -> Frame {
        to(id, Message::of(command::OFF))
    }

    fn exchange(
        &self,
        id: u8,
        mounting: &Mounting,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
    ) -> Result<Vec<Ask>, String> {
        let order = order.map(|order| self.order(id, mounting, order));
        let read = |wanted: &Wanted<'_>| Ok(self.read(id, readable(wanted.number)?));
        in_turn(
            order,
            registers,
            read,
            [self.status(id), self.measures(id, mounting), self.angle(id, mounting)],
        )
    }

    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let number = register.number;
        if !(0x4200..=0x4203).contains(&number) {
            return Err(format!(
                "{} is not written here: gains have another form with every protocol, and the rest is measured",
                self.called(number)
            ));
        }
        if value.fract() != 0.0 || value != 0.0 && !ACCELERATIONS.contains(&value) {
            return Err(format!(
                "an acceleration is 0, for none, or 100 to 60000 °/s², and {value} is none of them"
            ));
        }
        let write =
            Message { index: number as u8, ..Message::with(command::WRITE_ACCELERATION, value as i32) };
        Ok(vec![self.echo(id, write), self.read(id, number)])
    }

    fn set_register(&self, id: u8, register: u16, value: f64) -> Result<Vec<Ask>, String> {
        let write = self.write(id, &Wanted { number: register, format: None }, value)?;
        Ok(mit::by_hand::set_register(self.is_off(id), write, register, self.called(register), value))
    }

    fn called(&self, register: u16) -> String {
        mit::by_hand::called(&NAMES, register, &format!("register 0x{register:04X}"))
    }

    fn register(&self, name: &str) -> Option<u16> {
        mit::by_hand::register(&NAMES, name)
    }

    fn in_file(&self, answer: &Answer) -> Vec<String> {
        let date = answer.registers.get(&VERSION).map(|date| *date as u32);
        let name = answer.identity.serial.as_deref().unwrap_or_default();
        let model = Model::ALL.iter().find(|model| ready::is_of(name, model.word()));
        let mut keys = vec![format!("model = \"{}\"", model.map_or(mit::UNNAMED, |model| model.word()))];
        let mut lines = Vec::new();
        if model.is_none() {
            lines.push(format!("# NAME `model`: it calls itself \"{name}\"."));
        }
        let protocol = date.map(Protocol::of);
        keys.push(format!("protocol = \"{}\"", protocol.map_or(mit::UNNAMED, |protocol| protocol.word())));
        if let (Some(protocol), Some(model)) = (protocol, model)
            && protocol.torque(*model).is_none()
        {
            lines.push(
                "# WRITE `torque_range`, N·m: nobody has published it for this model with this firmware."
                    .to_owned(),
            );
        }
        let RmdSettings { kp, kd, damping, .. } = RmdSettings::default();
        keys.push(format!("reply_delay_us = {REPLY_DELAY_US}"));
        keys.push(mit::gains_in_file(kp, kd, damping));
        lines.push(format!("# `reply_delay_us`: {REPLY_DELAY_US} was measured of an X8-Pro V2. Measure yours before you raise the rate."));
        lines.push(format!(
            "# Set its watchdog once: `khz bus set-watchdog LINK {} 0.1 --family rmd`.",
            answer.id
        ));
        lines.push(format!("rmd = {{ {} }}", keys.join(", ")));
        lines
    }

    /// The zero counts from the next start on, so the motor is restarted.
    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        // To a degree; an angle of 0 would look like a request that came back.
        let zero = judged(self.measures(id, &Mounting::default()), |answer| {
            answer.position.filter(|position| position.abs() > ZERO).map(not_zero)
        });
        let here = self.ask(id, Message::of(command::ZERO_HERE), move |_| Answer { id, ..Answer::default() });
        Ok(vec![self.is_off(id), here, self.restart(id), zero])
    }

    /// So is it after it was given an id.
    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        if !self.ids().contains(&new) {
            return Err(format!("an RMD cannot have id {new}: ids are from 1 to {MOST_ID}"));
        }
        let write = Message { index: function::ID, ..Message::with(command::FUNCTION, new.into()) };
        Ok(vec![self.is_off(id), self.echo(id, write), self.restart(id), self.read(new, VERSION)])
    }

    /// Nothing reads it; the next run proves it. One of the manual's two examples answers without the value.
    fn set_watchdog(&self, id: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        mit::by_hand::timeout(seconds)?;
        let milliseconds = (seconds * 1e3).round();
        if milliseconds < LEAST_MS && seconds != 0.0 {
            return Err(format!(
                "a watchdog of {seconds} s: an RMD counts milliseconds, and less than {LEAST_MS} ms no loop keeps up with"
            ));
        }
        let write = Message::with(command::WATCHDOG, milliseconds as i32);
        let reply_time = self.ask(id, write, move |reply| {
            let differs = reply != write && reply != Message::of(command::WATCHDOG);
            let wrong = differs
                .then(|| format!("it says {} ms although {milliseconds} were written", reply.unsigned()));
            Answer { id, watchdog_s: Some(seconds), wrong, ..Answer::default() }
        });
        Ok(vec![self.is_off(id), reply_time])
    }

    fn keeps_what_is_set(&self) -> bool {
        true
    }

    fn store(&self, _: u8) -> Result<Vec<Ask>, String> {
        Err("an RMD keeps what is set by itself: leave `--store` out".to_owned())
    }
}

/// At 500 Hz ten periods.
const LEAST_MS: f64 = 20.0;

/// What may be read as a register: nothing that moves the motor or is kept by it.
fn readable(number: u16) -> Result<u16, String> {
    let [command, index] = number.to_be_bytes();
    let most = match command {
        command::READ_GAIN => 9,
        command::READ_ACCELERATION => 3,
        command::VERSION | command::RUNTIME | command::MODE | command::POWER => 0,
        other if command::PULSES.contains(&other) => 0,
        _ => {
            return Err(format!(
                "an RMD has no register 0x{number:04X}: it is the command that reads it, and its index"
            ));
        }
    };
    if index > most { Err(format!("register 0x{number:04X}: the last index is {most}")) } else { Ok(number) }
}

impl Settings {
    fn ask(&self, id: u8, request: Message, read: impl Fn(Message) -> Answer + Send + 'static) -> Ask {
        Ask::one(id, to(id, request), move |frame| {
            message(id, frame).filter(|reply| reply.command == request.command).map(&read)
        })
    }

    /// A request that measures something: its echo is no answer.
    fn measured(&self, id: u8, command: u8, read: impl Fn(Message) -> Answer + Send + 'static) -> Ask {
        Ask::one(id, to(id, Message::of(command)), move |frame| {
            message(id, frame)
                .filter(|reply| reply.command == command && *reply != Message::of(command))
                .map(&read)
        })
    }

    /// A request that comes back as it is.
    fn echo(&self, id: u8, request: Message) -> Ask {
        self.ask(id, request, move |reply| {
            let wrong = (reply != request).then(|| "it answered something else than it was told".to_owned());
            Answer { id, wrong, ..Answer::default() }
        })
    }

    fn restart(&self, id: u8) -> Ask {
        Ask::silent(id, to(id, Message::of(command::RESET)), RESTART_NS)
    }

    fn status(&self, id: u8) -> Ask {
        self.measured(id, command::STATUS, move |reply| {
            let status = Status::parse(reply);
            let mode = status.map(|status| if status.released { ON } else { OFF });
            Answer {
                id,
                mode,
                voltage: status.map(|status| status.volts),
                temperature: status.map(|status| status.celsius.into()),
                fault: status.map(|status| super::fault(status.errors)),
                ..Answer::default()
            }
        })
    }

    /// Asks for its status, which is wrong unless its output is off.
    fn is_off(&self, id: u8) -> Ask {
        judged(self.status(id), |answer| {
            answer.mode.filter(|mode| *mode == ON).map(|mode| output_is_on(mode.name))
        })
    }

    fn angle(&self, id: u8, mounting: &Mounting) -> Ask {
        let mounting = *mounting;
        self.ask(id, Message::of(command::ANGLE), move |reply| {
            let position = mounting.to_joint(radians(reply.number()));
            Answer { id, position: Some(position), ..Answer::default() }
        })
    }

    /// Velocity and angle, in whole degrees.
    fn measures(&self, id: u8, mounting: &Mounting) -> Ask {
        let mounting = *mounting;
        self.measured(id, command::MOTION, move |reply| {
            let reply = Motion::parse(reply);
            let [position, speed] = [reply.angle, reply.speed].map(|degrees| f64::from(degrees).to_radians());
            let (position, velocity) = (Some(mounting.to_joint(position)), Some(mounting.sign * speed));
            Answer { id, position, velocity, ..Answer::default() }
        })
    }

    fn read(&self, id: u8, register: u16) -> Ask {
        let [command, index] = register.to_be_bytes();
        self.ask(id, Message { index, ..Message::of(command) }, move |reply| {
            let value = match command {
                command::READ_GAIN => f32::from_le_bytes(reply.value).into(),
                command::VERSION | command::RUNTIME | command::READ_ACCELERATION => {
                    f64::from(reply.unsigned())
                }
                command::MODE => f64::from(reply.value[3]),
                command::POWER => f64::from(u16::from_le_bytes([reply.value[2], reply.value[3]])) / 10.0,
                _ => f64::from(reply.number()),
            };
            let mut answer = Answer { id, ..Answer::default() };
            if register == VERSION {
                answer.identity.firmware = Some(format!("{value}"));
            }
            answer.registers.insert(register, value);
            answer
        })
    }

    /// Its firmware is the one the file has, or its torques would be wrong by a factor.
    fn is_as_in_file(&self, id: u8) -> Ask {
        let expected = self.protocol;
        judged(self.read(id, VERSION), move |answer| {
            let date = answer.registers.get(&VERSION).map_or(0, |date| *date as u32);
            (expected != Some(Protocol::of(date))).then(|| {
                format!(
                    "its firmware is of {date}: drive it by a robot file with `rmd.protocol = \"{}\"`, or its torques are wrong by a factor",
                    Protocol::of(date)
                )
            })
        })
    }

    fn order(&self, id: u8, mounting: &Mounting, order: &Order) -> Result<Vec<Ask>, String> {
        let off = || self.echo(id, Message::of(command::OFF));
        let Some(driven) = mit::by_hand::driven(&self.drive, mounting, order, "an RMD")? else {
            return Ok(vec![off(), off()]);
        };
        if driven.watchdog_s.is_some() {
            return Err("the watchdog of an RMD is set with `khz bus set-watchdog`, and nothing reads it: give NaN if it may follow its last \
                        command for ever"
                .to_owned());
        }
        let moved = |codes| {
            let (drive, mounting) = (self.drive.clone(), *mounting);
            Ask::one(id, rmd::motion(id, codes), move |frame| {
                let reply_time = super::motion(id, frame)?;
                let answer = mit::by_hand::answer(id, &reply_time, &drive, &mounting);
                Some(Answer { mode: Some(ON), fault: None, ..answer })
            })
        };
        let release = self.echo(id, Message::of(command::RELEASE));
        // Twice: a motor whose watchdog has acted sends the first back as it is.
        let before = [off(), off(), self.is_as_in_file(id), self.is_off(id), moved(driven.damp)];
        Ok(before.into_iter().chain([release, moved(driven.command)]).collect())
    }
}

const OFF: Mode = Mode { number: 0, name: "off" };
const ON: Mode = Mode { number: 1, name: "on" };
