//! An ODrive by hand: questions by remote frame, and messages that nothing answers.

use super::{Firmware, OdriveSettings, Settings, fault, mode};
use crate::by_hand::{Answer, Ask, ByHand, Order, Wanted, ZERO, judged, not_zero, output_is_on};
use crate::{Mounting, mit};
use khz_wire::Frame;
use khz_wire::odrive::{
    self, Heartbeat, InputPos, Line, MOST_NODE, Sdo, Version, command, control, floats, input, reboot, state,
    two_floats, words,
};
use std::ops::RangeInclusive;

/// A message is carried out at once, ns.
const AT_ONCE_NS: i64 = 1_000_000;
/// Restarted, it is silent for so long, ns.
const RESTART_NS: i64 = 2_000_000_000;

/// How an endpoint travels, and how its value is read.
const FORMATS: [(&str, Reading); 6] = [
    ("float", |bytes| f32::from_le_bytes(bytes).into()),
    ("uint32", |bytes| u32::from_le_bytes(bytes).into()),
    ("int32", |bytes| i32::from_le_bytes(bytes).into()),
    ("uint16", |[a, b, ..]| u16::from_le_bytes([a, b]).into()),
    ("uint8", |[a, ..]| a.into()),
    ("bool", |[a, ..]| u8::from(a != 0).into()),
];
type Reading = fn([u8; 4]) -> f64;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        1..=MOST_NODE
    }

    /// 0.5 has no version to tell.
    fn who(&self, id: u8) -> Vec<Ask> {
        let version = Ask::one(id, odrive::ask(id, command::VERSION), move |frame| {
            let Version { hardware: [line, major, variant], firmware: [a, b, c], .. } =
                Version::parse(said(id, command::VERSION, frame)?)?;
            let mut answer = Answer { id, ..Answer::default() };
            answer.identity.firmware = Some(format!("{a}.{b}.{c} (board {line}.{major}.{variant})"));
            Some(answer)
        });
        let first = match self.line() {
            Line::V05 => self.count(id),
            Line::V06 => version,
        };
        vec![first, self.supply(id), self.doing(id), self.place(id, &Mounting::default())]
    }

    fn off(&self, id: u8) -> Frame {
        odrive::frame(id, command::AXIS_STATE, &words([state::IDLE.into(), 0]))
    }

    fn exchange(
        &self,
        id: u8,
        mounting: &Mounting,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
    ) -> Result<Vec<Ask>, String> {
        let mut asks = match order {
            Some(order) => self.order(id, mounting, order)?,
            None => Vec::new(),
        };
        for wanted in registers {
            asks.push(self.read(id, wanted)?);
        }
        asks.extend([
            self.doing(id),
            self.supply(id),
            self.torque_of(id, mounting),
            self.place(id, mounting),
        ]);
        Ok(asks)
    }

    /// Nothing answers it: it is read back.
    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let (format, _) = format(register)?;
        let value = match format {
            "float" => (value as f32).to_le_bytes(),
            _ if value.fract() != 0.0 => return Err(format!("{value} is no {format}")),
            "int32" => (value as i32).to_le_bytes(),
            _ => (value as u32).to_le_bytes(),
        };
        let write = Sdo { write: true, endpoint: register.number, value };
        Ok(vec![self.say(id, command::RX_SDO, write.to_bytes()), self.read(id, register)?])
    }

    fn set_register(&self, _: u8, _: u16, _: f64) -> Result<Vec<Ask>, String> {
        Err("an endpoint's number means something else with every firmware: set it by its name with `odrivetool`".to_owned())
    }

    fn called(&self, register: u16) -> String {
        format!("endpoint {register}")
    }

    fn register(&self, _: &str) -> Option<u16> {
        None
    }

    fn in_file(&self, message: &Answer) -> Vec<String> {
        let OdriveSettings { kp, kd, damping, .. } = OdriveSettings::default();
        let firmware = self.firmware.unwrap_or(Firmware::V06);
        vec![
            "# WRITE `torque_constant`, N·m/A, and `reduction`, turns of the motor for one of the joint: no drive reports them by CAN."
                .to_owned(),
            format!(
                "# Set its watchdog, heartbeats of 20 ms and no estimates by themselves with `odrivetool`: docs/servos.md. It is node {}.",
                message.id
            ),
            format!("odrive = {{ firmware = \"{firmware}\", {} }}", mit::gains_in_file(kp, kd, damping)),
        ]
    }

    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        let zero = judged(self.place(id, &Mounting::default()), |answer| {
            answer.position.filter(|position| position.abs() > ZERO).map(not_zero)
        });
        Ok(vec![self.is_off(id), self.say(id, command::ABSOLUTE_POSITION, [0; 8]), zero])
    }

    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        if !self.ids().contains(&new) {
            return Err(format!("an ODrive cannot have node {new} here: nodes are from 1 to {MOST_NODE}"));
        }
        match self.line() {
            Line::V05 => {
                let there = self.count(new);
                Ok(vec![self.is_off(id), self.say(id, command::ADDRESS, words([new.into(), 0])), there])
            }
            Line::V06 => Err("firmware 0.6 takes a node by its serial number: set `axis0.config.can.node_id` with `odrivetool`, and keep it"
                .to_owned()),
        }
    }

    fn set_watchdog(&self, _: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        Err(format!(
            "no message sets the watchdog of an ODrive: set `axis0.config.watchdog_timeout = {seconds}` and \
             `axis0.config.enable_watchdog = True` with `odrivetool`, and keep that (`odrv0.save_configuration()`)"
        ))
    }

    fn store(&self, id: u8) -> Result<Vec<Ask>, String> {
        match self.line() {
            Line::V06 => {
                let keep = odrive::frame(id, command::REBOOT, &[reboot::SAVE]);
                Ok(vec![self.is_off(id), Ask::silent(id, keep, RESTART_NS), self.place(id, &Mounting::default())])
            }
            Line::V05 => Err("firmware 0.5 keeps its settings by USB alone: `odrv0.save_configuration()` with `odrivetool`".to_owned()),
        }
    }
}

/// What the drive of this node says of a command, in eight bytes.
fn said(id: u8, message: u8, frame: &Frame) -> Option<&[u8]> {
    let is_its = odrive::parts(frame) == Some((id, message)) && frame.payload().len() == 8;
    is_its.then(|| frame.payload())
}

/// The format of an endpoint, which no drive tells.
fn format(register: &Wanted<'_>) -> Result<(&'static str, Reading), String> {
    let wanted = register.format.unwrap_or("float");
    let known = FORMATS.iter().find(|(name, _)| *name == wanted);
    known.copied().ok_or_else(|| {
        let names = FORMATS.map(|(name, _)| name).join(", ");
        format!("no endpoint of an ODrive travels as {wanted}: {names}")
    })
}

impl Settings {
    /// A message that nothing answers.
    fn say(&self, id: u8, message: u8, payload: [u8; 8]) -> Ask {
        Ask::silent(id, odrive::frame(id, message, &payload), AT_ONCE_NS)
    }

    fn ask(&self, id: u8, asked: u8, read: impl Fn([f32; 2]) -> Answer + Send + 'static) -> Ask {
        Ask::one(id, odrive::ask(id, asked), move |frame| {
            said(id, asked, frame).and_then(two_floats).map(&read)
        })
    }

    /// What 0.5 alone answers.
    fn count(&self, id: u8) -> Ask {
        Ask::one(id, odrive::ask(id, command::COUNT), move |frame| {
            said(id, command::COUNT, frame)?;
            let mut answer = Answer { id, ..Answer::default() };
            answer.identity.firmware = Some("0.5".to_owned());
            Some(answer)
        })
    }

    fn supply(&self, id: u8) -> Ask {
        self.ask(id, command::BUS, move |[volts, _]| Answer {
            id,
            voltage: Some(volts.into()),
            ..Answer::default()
        })
    }

    fn torque_of(&self, id: u8, mounting: &Mounting) -> Ask {
        let (settings, sign) = (self.clone(), mounting.sign);
        self.ask(id, self.torque_command(), move |message| Answer {
            id,
            torque: Some(sign * settings.torque(message)),
            ..Answer::default()
        })
    }

    fn place(&self, id: u8, mounting: &Mounting) -> Ask {
        let (settings, mounting) = (self.clone(), *mounting);
        Ask::one(id, odrive::ask(id, command::ESTIMATES), move |frame| {
            let message = settings.estimates(said(id, command::ESTIMATES, frame)?);
            let [position, velocity] = message.unwrap_or([f64::NAN; 2]);
            let (position, velocity) = (Some(mounting.to_joint(position)), Some(mounting.sign * velocity));
            Some(Answer { id, position, velocity, ..Answer::default() })
        })
    }

    /// Its next heartbeat: nothing asks for it.
    fn doing(&self, id: u8) -> Ask {
        let line = self.line();
        Ask::one(id, odrive::ask(id, command::BUS), move |frame| {
            let beat = Heartbeat::parse(said(id, command::HEARTBEAT, frame)?)?;
            Some(Answer {
                id,
                mode: Some(mode(beat.state)),
                fault: Some(fault(beat, line)),
                ..Answer::default()
            })
        })
    }

    fn is_off(&self, id: u8) -> Ask {
        judged(self.doing(id), |answer| {
            let on = answer.mode.filter(|mode| mode.number != state::IDLE);
            on.map(|mode| output_is_on(mode.name))
        })
    }

    fn read(&self, id: u8, register: &Wanted<'_>) -> Result<Ask, String> {
        if self.line() == Line::V05 {
            return Err(
                "firmware 0.5 has no endpoints by CAN: `odrivetool` reads and sets them by USB".to_owned()
            );
        }
        let (_, value) = format(register)?;
        let (number, read) =
            (register.number, Sdo { write: false, endpoint: register.number, value: [0; 4] });
        Ok(Ask::one(id, odrive::frame(id, command::RX_SDO, &read.to_bytes()), move |frame| {
            let message =
                Sdo::parse(said(id, command::TX_SDO, frame)?).filter(|message| message.endpoint == number)?;
            let mut answer = Answer { id, ..Answer::default() };
            answer.registers.insert(number, value(message.value));
            Some(answer)
        }))
    }

    fn order(&self, id: u8, mounting: &Mounting, order: &Order) -> Result<Vec<Ask>, String> {
        let off = Ask::silent(id, self.off(id), AT_ONCE_NS);
        let Some(driven) = mit::by_hand::driven(&self.drive, mounting, order, "an ODrive")? else {
            return Ok(vec![off, self.say(id, command::CLEAR_ERRORS, [0; 8])]);
        };
        if driven.watchdog_s.is_some() {
            return Err("no message sets the watchdog of an ODrive: give NaN if it may follow its last command for ever, as long as it has \
                        none of its own"
                .to_owned());
        }
        let drive = &self.drive;
        let codes = driven.command;
        let gains = [drive.kp().decode(codes.kp), drive.kd().decode(codes.kd)];
        if gains[0] > 0.0 && gains[1] == 0.0 {
            return Err(
                "an ODrive has its position gain behind its velocity gain: give a share of that, too"
                    .to_owned(),
            );
        }
        let [pos, vel] = self.cascade(gains);
        let [position, velocity, torque] = [
            drive.position().decode(codes.position),
            drive.velocity().decode(codes.velocity),
            drive.torque().decode(codes.torque),
        ];
        let point: InputPos = self.set_point(position, velocity, torque);
        let on = words([state::CLOSED_LOOP.into(), 0]);
        Ok(vec![
            off,
            self.is_off(id),
            self.say(id, command::CONTROLLER_MODE, words([control::POSITION, input::PASSTHROUGH])),
            self.say(id, command::LIMITS, self.limits()),
            self.say(id, command::POS_GAIN, [0; 8]),
            self.say(id, command::VEL_GAINS, floats([vel, 0.0])),
            // Without a position gain an old set-point moves nothing, and this one replaces it.
            self.say(id, command::INPUT_POS, point.to_bytes()),
            self.say(id, command::AXIS_STATE, on),
            self.say(id, command::POS_GAIN, floats([pos, 0.0])),
        ])
    }
}
