//! An ODrive by hand: questions by remote frame, and messages that nothing answers.

use super::ready::{TIMEOUT, WATCHED};
use super::{Endpoints, Firmware, OdriveSettings, PART, Settings, fault, mode};
use crate::by_hand::{
    Answer, Ask, ByHand, Order, Wanted, ZERO, in_turn, judged, not_written, not_zero, output_is_on,
};
use crate::{Fault, Mounting, mit};
use khz_wire::Frame;
use khz_wire::odrive::{
    self, Heartbeat, InputPos, Line, MOST_NODE, Sdo, Version, command, control, floats, input, reboot, state,
    two_floats, two_words, words,
};
use std::ops::RangeInclusive;

/// A message is carried out at once, ns.
const AT_ONCE_NS: i64 = 1_000_000;
/// Restarted, it is silent for so long, ns.
const RESTART_NS: i64 = 2_000_000_000;

/// A heartbeat comes within this, as it leaves the factory, ns.
const BEAT_NS: i64 = 150_000_000;

/// How an endpoint travels: what its value is, how it is written, and in how many bytes.
struct Format {
    name: &'static str,
    read: fn([u8; 4]) -> f64,
    write: fn(f64) -> [u8; 4],
    len: usize,
    range: RangeInclusive<f64>,
}

const fn format(
    name: &'static str,
    read: fn([u8; 4]) -> f64,
    write: fn(f64) -> [u8; 4],
    len: usize,
    range: RangeInclusive<f64>,
) -> Format {
    Format { name, read, write, len, range }
}

const FORMATS: [Format; 8] = [
    format(
        "float",
        |bytes| f32::from_le_bytes(bytes).into(),
        |value| (value as f32).to_le_bytes(),
        4,
        f64::NEG_INFINITY..=f64::INFINITY,
    ),
    format(
        "uint32",
        |bytes| u32::from_le_bytes(bytes).into(),
        |value| (value as u32).to_le_bytes(),
        4,
        0.0..=4_294_967_295.0,
    ),
    format(
        "int32",
        |bytes| i32::from_le_bytes(bytes).into(),
        |value| (value as i32).to_le_bytes(),
        4,
        -2_147_483_648.0..=2_147_483_647.0,
    ),
    format(
        "uint16",
        |[a, b, ..]| u16::from_le_bytes([a, b]).into(),
        |value| (value as u32).to_le_bytes(),
        2,
        0.0..=65_535.0,
    ),
    format(
        "int16",
        |[a, b, ..]| i16::from_le_bytes([a, b]).into(),
        |value| (value as i32).to_le_bytes(),
        2,
        -32_768.0..=32_767.0,
    ),
    format("uint8", |[a, ..]| a.into(), |value| (value as u32).to_le_bytes(), 1, 0.0..=255.0),
    format("int8", |[a, ..]| (a as i8).into(), |value| (value as i32).to_le_bytes(), 1, -128.0..=127.0),
    format("bool", |[a, ..]| u8::from(a != 0).into(), |value| (value as u32).to_le_bytes(), 1, 0.0..=1.0),
];

/// A value of an endpoint, as it travels.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) endpoint: u16,
    pub(super) bytes: [u8; 4],
    read: fn([u8; 4]) -> f64,
    len: usize,
}

impl Value {
    /// This value of the setting of this path.
    pub(super) fn of(endpoints: &Endpoints, path: &str, value: f64) -> Result<Self, String> {
        let endpoint = endpoints.get(path)?;
        Self::new(endpoint.id, of_name(&endpoint.kind)?, value).map_err(|why| format!("`{path}`: {why}"))
    }

    fn new(endpoint: u16, format: &Format, value: f64) -> Result<Self, String> {
        let is_one = format.range.contains(&value) && (format.name == "float" || value.fract() == 0.0);
        if !is_one {
            return Err(format!("{value} is no {}", format.name));
        }
        Ok(Self { endpoint, bytes: (format.write)(value), read: format.read, len: format.len })
    }

    pub(super) const fn sdo(&self, write: bool) -> Sdo {
        Sdo { write, endpoint: self.endpoint, value: if write { self.bytes } else { [0; 4] } }
    }

    pub(super) fn read(&self, bytes: [u8; 4]) -> f64 {
        (self.read)(bytes)
    }

    /// An answer has this value; the bytes beyond it mean nothing.
    pub(super) fn is(&self, bytes: [u8; 4]) -> bool {
        self.bytes[..self.len] == bytes[..self.len]
    }
}

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        0..=MOST_NODE
    }

    /// 0.5 does not report a version.
    fn who(&self, id: u8) -> Vec<Ask> {
        let version = Ask::one(id, odrive::ask(id, command::VERSION), move |frame| {
            let Version { hardware: [line, major, variant], firmware: [a, b, c], .. } =
                Version::parse(payload_of(id, command::VERSION, frame)?)?;
            let mut answer = Answer { id, ..Answer::default() };
            answer.identity.firmware = Some(format!("{a}.{b}.{c} (board {line}.{major}.{variant})"));
            Some(answer)
        });
        let first = match self.line() {
            Line::V05 => self.count(id),
            Line::V06 => version,
        };
        vec![first, self.supply(id), self.doing(id), self.errors(id), self.place(id, &Mounting::default())]
    }

    fn announced(&self, frame: &Frame) -> Option<u8> {
        let (node, message) = odrive::parts(frame)?;
        let beat = Heartbeat::parse(frame.payload())
            .filter(|_| frame.remote.is_none() && message == command::HEARTBEAT)?;
        (node <= MOST_NODE && usize::from(beat.state) < state::NAMES.len()).then_some(node)
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
        let order = order.map(|order| self.order(id, mounting, order));
        let state = [
            self.doing(id),
            self.errors(id),
            self.supply(id),
            self.torque_of(id, mounting),
            self.place(id, mounting),
        ];
        in_turn(order, registers, |wanted| self.read(id, wanted), state)
    }

    /// Nothing answers it: it is read back.
    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let value = Value::new(register.number, self.format(register)?, value)?;
        Ok(vec![self.send(id, command::RX_SDO, value.sdo(true).to_bytes()), self.read(id, register)?])
    }

    /// By its number alone nothing is kept that may mean something else with another firmware.
    fn set_register(&self, id: u8, register: u16, value: f64) -> Result<Vec<Ask>, String> {
        let endpoints = self.endpoints()?;
        let (path, _) =
            endpoints.of_id(register).ok_or_else(|| format!("its firmware has no endpoint {register}"))?;
        let path = path.to_owned();
        let set = self.set(id, &endpoints, &path, value)?;
        Ok([self.is_off(id), self.is_of(id, endpoints)].into_iter().chain(set).collect())
    }

    fn called(&self, register: u16) -> String {
        let path = self.endpoints().ok().and_then(|endpoints| Some(endpoints.of_id(register)?.0.to_owned()));
        path.map_or_else(|| format!("endpoint {register}"), |path| format!("endpoint {register} (`{path}`)"))
    }

    fn register(&self, name: &str) -> Option<u16> {
        self.endpoints().ok()?.get(name).ok().map(|endpoint| endpoint.id)
    }

    fn no_register(&self, name: &str) -> Option<String> {
        self.endpoints().and_then(|endpoints| endpoints.get(name).map(|_| ())).err()
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
        Ok(vec![self.is_off(id), self.send(id, command::ABSOLUTE_POSITION, [0; 8]), zero])
    }

    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        if !self.ids().contains(&new) {
            return Err(format!("an ODrive cannot have node {new} here: nodes are from 0 to {MOST_NODE}"));
        }
        match self.line() {
            Line::V05 => {
                let there = self.count(new);
                Ok(vec![self.is_off(id), self.send(id, command::ADDRESS, words([new.into(), 0])), there])
            }
            Line::V06 => Err("firmware 0.6 takes a node by its serial number: set `axis0.config.can.node_id` with `odrivetool`, and keep it"
                .to_owned()),
        }
    }

    fn set_watchdog(&self, id: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        mit::by_hand::timeout(seconds)?;
        if self.endpoints.is_none() {
            return Err(format!(
                "no message sets the watchdog of an ODrive, but an endpoint of firmware 0.6 does: give the `flat_endpoints.json` of its release with \
                 `--endpoints` (robot file: `odrive.endpoints`). Or set `axis0.config.watchdog_timeout = {seconds}` and \
                 `axis0.config.enable_watchdog = True` with `odrivetool`, and keep that (`odrv0.save_configuration()`)"
            ));
        }
        let endpoints = self.endpoints()?;
        let is_used = seconds > 0.0;
        let timeout = if is_used { self.set(id, &endpoints, TIMEOUT, seconds)? } else { Vec::new() };
        let used = self.set(id, &endpoints, WATCHED, f64::from(u8::from(is_used)))?;
        // Set while it was timed out, it would stay so.
        let clear = Ask::silent(id, odrive::frame(id, command::CLEAR_ERRORS, &[0]), AT_ONCE_NS);
        let mut asks: Vec<_> =
            [self.is_off(id), self.is_of(id, endpoints)].into_iter().chain(timeout).chain(used).collect();
        asks.insert(asks.len() - 1, clear);
        let last = asks.pop().map(|ask| {
            let read = ask.read;
            Ask {
                read: Box::new(move |frame| {
                    read(frame).map(|answer| Answer { watchdog_s: Some(seconds), ..answer })
                }),
                ..ask
            }
        });
        Ok(asks.into_iter().chain(last).collect())
    }

    /// It does by its endpoint, if the robot file has those, and then it is the same.
    fn run_sets_watchdog(&self) -> bool {
        false
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

const NO_ENDPOINTS: &str = "firmware 0.5 has no endpoints by CAN: `odrivetool` reads and sets them by USB";

/// The answer of the drive with this node id to a command, in eight bytes.
fn payload_of(id: u8, message: u8, frame: &Frame) -> Option<&[u8]> {
    let is_its = odrive::parts(frame) == Some((id, message)) && frame.payload().len() == 8;
    is_its.then(|| frame.payload())
}

fn of_name(name: &str) -> Result<&'static Format, String> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        let names = FORMATS.each_ref().map(|format| format.name).join(", ");
        format!("no endpoint of an ODrive travels as {name} by CAN: {names}")
    })
}

impl Settings {
    /// The format of an endpoint, which no drive reports.
    fn format(&self, register: &Wanted<'_>) -> Result<&'static Format, String> {
        if let (None, Ok(endpoints)) = (register.format, self.endpoints())
            && let Some((_, kind)) = endpoints.of_id(register.number)
        {
            return of_name(kind);
        }
        of_name(register.format.unwrap_or("float"))
    }

    fn endpoints(&self) -> Result<Endpoints, String> {
        if self.firmware == Some(Firmware::V05) {
            return Err(NO_ENDPOINTS.to_owned());
        }
        let path = self.endpoints.as_deref().ok_or(
            "a setting has another number with every firmware: give the `flat_endpoints.json` of its release with `--endpoints` (robot file: \
             `odrive.endpoints`), or set it by its name with `odrivetool`",
        )?;
        Endpoints::load(path)
    }

    /// The file is of its firmware.
    fn is_of(&self, id: u8, endpoints: Endpoints) -> Ask {
        Ask::one(id, odrive::ask(id, command::VERSION), move |frame| {
            let version = Version::parse(payload_of(id, command::VERSION, frame)?)?;
            Some(Answer { id, wrong: endpoints.differ_from(version), ..Answer::default() })
        })
    }

    /// Writes a setting and reads it back.
    fn set(&self, id: u8, endpoints: &Endpoints, path: &str, value: f64) -> Result<Vec<Ask>, String> {
        let number = endpoints.get(path)?.id;
        let value = Value::of(endpoints, path, value)?;
        let (called, wanted) = (format!("`{path}`"), value.read(value.bytes));
        let read = self.read(id, &Wanted { number, format: None })?;
        let read = judged(read, move |answer| not_written(answer, number, &called, wanted));
        Ok(vec![self.send(id, command::RX_SDO, value.sdo(true).to_bytes()), read])
    }

    /// A message that nothing answers.
    fn send(&self, id: u8, message: u8, payload: [u8; 8]) -> Ask {
        Ask::silent(id, odrive::frame(id, message, &payload), AT_ONCE_NS)
    }

    fn ask(&self, id: u8, asked: u8, read: impl Fn([f32; 2]) -> Answer + Send + 'static) -> Ask {
        Ask::one(id, odrive::ask(id, asked), move |frame| {
            payload_of(id, asked, frame).and_then(two_floats).map(&read)
        })
    }

    /// What 0.5 alone answers.
    fn count(&self, id: u8) -> Ask {
        Ask::one(id, odrive::ask(id, command::COUNT), move |frame| {
            payload_of(id, command::COUNT, frame)?;
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
            let message = settings.estimates(payload_of(id, command::ESTIMATES, frame)?);
            let [position, velocity] = message.unwrap_or([f64::NAN; 2]);
            let (position, velocity) = (Some(mounting.to_joint(position)), Some(mounting.sign * velocity));
            Some(Answer { id, position, velocity, ..Answer::default() })
        })
    }

    /// Its next heartbeat: nothing asks for it.
    fn doing(&self, id: u8) -> Ask {
        let line = self.line();
        let ask = Ask::one(id, odrive::ask(id, command::BUS), move |frame| {
            let beat = Heartbeat::parse(payload_of(id, command::HEARTBEAT, frame)?)?;
            Some(Answer {
                id,
                mode: Some(mode(beat.state)),
                fault: Some(fault(beat, line)),
                ..Answer::default()
            })
        });
        Ask { quiet_ns: BEAT_NS, ..ask }
    }

    /// Errors that are active, and why it switched off last (0.6).
    fn errors(&self, id: u8) -> Ask {
        let line = self.line();
        Ask::one(id, odrive::ask(id, command::ERROR), move |frame| {
            let [active, disarmed] = two_words(payload_of(id, command::ERROR, frame)?)?;
            let named =
                |errors: u32| (errors != 0).then(|| Fault { code: errors, text: line.error_name(errors) });
            let (fault, disarmed_by) = match line {
                Line::V05 => (named(active | disarmed).map(|_| PART), None),
                Line::V06 => (named(active), named(disarmed)),
            };
            Some(Answer { id, fault, disarmed_by, ..Answer::default() })
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
            return Err(NO_ENDPOINTS.to_owned());
        }
        let value = self.format(register)?.read;
        let (number, read) =
            (register.number, Sdo { write: false, endpoint: register.number, value: [0; 4] });
        Ok(Ask::one(id, odrive::frame(id, command::RX_SDO, &read.to_bytes()), move |frame| {
            let message = Sdo::parse(payload_of(id, command::TX_SDO, frame)?)
                .filter(|message| message.endpoint == number)?;
            let mut answer = Answer { id, ..Answer::default() };
            answer.registers.insert(number, value(message.value));
            Some(answer)
        }))
    }

    fn order(&self, id: u8, mounting: &Mounting, order: &Order) -> Result<Vec<Ask>, String> {
        let off = Ask::silent(id, self.off(id), AT_ONCE_NS);
        let Some(driven) = mit::by_hand::driven(&self.drive, mounting, order, "an ODrive")? else {
            return Ok(vec![off, self.send(id, command::CLEAR_ERRORS, [0; 8])]);
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
            self.send(id, command::CONTROLLER_MODE, words([control::POSITION, input::PASSTHROUGH])),
            self.send(id, command::LIMITS, self.limits()),
            self.send(id, command::POS_GAIN, [0; 8]),
            self.send(id, command::VEL_GAINS, floats([vel, 0.0])),
            // Without a position gain an old set-point moves nothing, and this one replaces it.
            self.send(id, command::INPUT_POS, point.to_bytes()),
            self.send(id, command::AXIS_STATE, on),
            self.send(id, command::POS_GAIN, floats([pos, 0.0])),
        ])
    }
}
