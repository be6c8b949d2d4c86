//! A Dynamixel servo by hand: items of its table by their names.

use super::drive::gains;
use super::{DynamixelMode, DynamixelModel, MODES, Settings, VELOCITY_STEP, WATCHDOG, watchdog};
use crate::by_hand::{
    Answer, Ask, ByHand, Order, Wanted, answers_no_more, id_as_register, in_turn, judged, not_written,
    torque_is_on, torque_on_by_hand,
};
use crate::mit::UNNAMED;
use crate::{Fault, Mounting};
use khz_wire::Frame;
use khz_wire::dynamixel::{
    self, BROADCAST, Item, MOST_ID, Model, Status, SyncWrite, address as at, error, hardware_error, item,
    item_named,
};
use std::ops::RangeInclusive;

use super::{MIDDLE, STEP};

/// What it measures, from this address on: current, velocity, position; then from the next voltage and temperature.
const MEASURED: (u16, u16) = (at::PRESENT_CURRENT, 10);
const SUPPLY: (u16, u16) = (at::PRESENT_INPUT_VOLTAGE, 3);
/// All answers to a ping of all are in by then, ns: each id has a time of its own.
const PINGED_NS: i64 = 900_000_000;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        0..=MOST_ID
    }

    /// They answer one after the other, by their ids.
    fn everybody(&self) -> Option<Ask> {
        let read = |frame: &Frame| pinged(&Status::parse(frame)?);
        let frame = dynamixel::ping(BROADCAST);
        Some(Ask {
            frame,
            id: None,
            answers: khz_wire::Request::UNKNOWN,
            quiet_ns: PINGED_NS,
            read: Box::new(read),
        })
    }

    fn who(&self, id: u8) -> Vec<Ask> {
        let ping = Ask::one(id, dynamixel::ping(id), move |frame| {
            pinged(&Status::parse(frame)?).filter(|it| it.id == id)
        });
        vec![ping, self.mode(id), self.errors(id), self.supply(id), self.measured(id, &Mounting::default())]
    }

    /// Of a kind that is not answered: several of them go out in one burst.
    fn off(&self, id: u8) -> Frame {
        let mut off = SyncWrite::new(at::TORQUE_ENABLE, 1);
        off.add(id, &[0]);
        off.packet()
    }

    /// In another mode than that of the file it may turn or push as it was told last, and in mode `current` it does: it is switched off at once.
    fn left_on(&self, id: u8) -> Option<Ask> {
        let (own, first) = (self.mode, at::OPERATING_MODE);
        Some(self.ask(id, dynamixel::read(id, first, at::TORQUE_ENABLE + 1 - first), move |status| {
            let &[mode, .., on] = status.data else { return None };
            let is_damped = mode == own.number() && own != DynamixelMode::Current;
            let wrong = (on != 0 && is_damped).then(torque_is_on);
            Some(Answer { id, wrong, may_turn: on != 0 && !is_damped, ..Answer::default() })
        }))
    }

    /// As in a run. What it refuses once its watchdog has acted is what it does already.
    fn let_down(&self, id: u8, mounting: &Mounting) -> Vec<Ask> {
        let told = |address, data: &[u8]| {
            let frame = dynamixel::write(id, address, data)?;
            let is_from = move |frame: &Frame| Status::parse(frame).is_some_and(|status| status.id == id);
            Some(Ask::one(id, frame, move |frame| is_from(frame).then(|| Answer { id, ..Answer::default() })))
        };
        let asks = match self.mode {
            DynamixelMode::Current => return Vec::new(),
            DynamixelMode::Velocity => {
                let gains: [u8; 4] = gains([0, self.velocity_gains[1]]);
                vec![told(at::VELOCITY_I_GAIN, &gains), told(at::GOAL_VELOCITY, &[0; 4])]
            }
            DynamixelMode::Pwm => vec![told(at::GOAL_PWM, &[0; 2])],
            _ => {
                let gains: [u8; 6] = gains([self.damping, 0, 0]);
                vec![told(at::POSITION_D_GAIN, &gains)]
            }
        };
        asks.into_iter().flatten().chain([self.measured(id, mounting), self.is_off(id)]).collect()
    }

    fn exchange(
        &self,
        id: u8,
        mounting: &Mounting,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
    ) -> Result<Vec<Ask>, String> {
        let order = order.map(|order| self.order(id, mounting, order));
        let read = |wanted: &Wanted<'_>| Ok(self.read(id, known(wanted.number)?));
        let state = [self.mode(id), self.errors(id), self.supply(id), self.measured(id, mounting)];
        in_turn(order, registers, read, state)
    }

    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let item = known(register.number)?;
        Ok(vec![self.put(id, item, value)?, self.read(id, item)])
    }

    fn set_register(&self, id: u8, register: u16, value: f64) -> Result<Vec<Ask>, String> {
        let item = known(register)?;
        let read = judged(self.read(id, item), move |answer| not_written(answer, register, item.name, value));
        let asked = match register {
            at::ID => return Err(id_as_register()),
            at::STATUS_RETURN_LEVEL | at::PROTOCOL_TYPE if value != 2.0 => {
                return Err(answers_no_more(item.name, 2));
            }
            at::TORQUE_ENABLE if value != 0.0 => return Err(torque_on_by_hand()),
            at::TORQUE_ENABLE => self.mode(id),
            _ => self.is_off(id),
        };
        Ok(vec![asked, self.put(id, item, value)?, read])
    }

    fn rate_after(&self, register: u16, value: f64) -> Option<u32> {
        dynamixel::BAUDS.get(value as usize).filter(|_| register == at::BAUD_RATE).copied()
    }

    fn called(&self, register: u16) -> String {
        item(register).map_or_else(|| format!("register {register}"), |item| item.name.to_owned())
    }

    fn register(&self, name: &str) -> Option<u16> {
        item_named(name).map(|item| item.address)
    }

    fn in_file(&self, answer: &Answer) -> Vec<String> {
        let named = answer.identity.serial.as_deref().and_then(|name| name.parse::<DynamixelModel>().ok());
        let model = named.map_or(UNNAMED, |model| model.word());
        // As its maker leaves it.
        let gain = if model.contains("330") { 400 } else { 800 };
        vec![
            "# WRITE `torque_constant = …` into it, N·m/A: stall torque divided by stall current, as its maker's page has them.".to_owned(),
            format!("dynamixel = {{ model = \"{model}\", position_p = {gain} }}"),
        ]
    }

    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        if !self.ids().contains(&new) {
            return Err(format!("a Dynamixel cannot have id {new}: ids are from 0 to {MOST_ID}"));
        }
        let item = known(at::ID)?;
        let read =
            judged(self.read(new, item), move |answer| not_written(answer, at::ID, item.name, new.into()));
        Ok(vec![self.is_off(id), self.put(id, item, new.into())?, read])
    }

    fn set_watchdog(&self, id: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        let most = WATCHDOG.0 * WATCHDOG.1;
        if !(0.0..=most).contains(&seconds) {
            return Err(format!("a watchdog of {seconds} s: write 0.02 to {most} s, or 0 for none"));
        }
        let (item, units) = (known(at::BUS_WATCHDOG)?, if seconds == 0.0 { 0 } else { watchdog(seconds) });
        let read = self.read(id, item);
        let waits = move |answer: Answer| {
            let wrong = not_written(&answer, at::BUS_WATCHDOG, item.name, units.into());
            Answer { watchdog_s: Some(f64::from(units) * WATCHDOG.0), wrong, ..answer }
        };
        let inner = read.read;
        let read = Ask { read: Box::new(move |frame| inner(frame).map(waits)), ..read };
        Ok(vec![self.is_off(id), self.put(id, item, 0.0)?, self.put(id, item, units.into())?, read])
    }

    fn keeps_what_is_set(&self) -> bool {
        true
    }

    fn keeps_register(&self, register: u16) -> bool {
        known(register).is_ok_and(Item::is_kept)
    }

    fn run_sets_watchdog(&self) -> bool {
        true
    }

    fn store(&self, _: u8) -> Result<Vec<Ask>, String> {
        Err("a Dynamixel keeps its id, and what is before `torque_enable` in its table, by itself, and nothing else: leave `--store` out".to_owned())
    }
}

/// The item that begins there.
fn known(register: u16) -> Result<&'static Item, String> {
    item(register).ok_or_else(|| format!("a Dynamixel has no item that begins at {register}"))
}

/// Who has answered a ping.
fn pinged(status: &Status<'_>) -> Option<Answer> {
    let &[low, high, firmware] = status.data else { return None };
    let number = u16::from_le_bytes([low, high]);
    let mut answer = Answer { id: status.id, ..Answer::default() };
    answer.identity.serial = Some(
        Model::numbered(number).map_or_else(|| format!("model {number}"), |model| model.name.to_owned()),
    );
    answer.identity.firmware = Some(firmware.to_string());
    Some(answer)
}

impl Settings {
    /// A request, and what is made of its answer.
    fn ask(
        &self,
        id: u8,
        frame: Frame,
        read: impl Fn(&Status<'_>) -> Option<Answer> + Send + 'static,
    ) -> Ask {
        Ask::one(id, frame, move |frame| {
            let status = Status::parse(frame).filter(|status| status.id == id)?;
            if status.error != 0 {
                let tripped = if status.error == error::RANGE {
                    ", or a goal after its watchdog has acted: its `bus_watchdog` is 255 then, and 0 clears it"
                } else {
                    ""
                };
                let wrong = Some(format!("it refuses that: {}{tripped}", error::name(status.error)));
                return Some(Answer {
                    id,
                    refused: Some((0, status.error.into())),
                    wrong,
                    ..Answer::default()
                });
            }
            read(&status)
        })
    }

    fn read(&self, id: u8, item: &'static Item) -> Ask {
        self.ask(id, dynamixel::read(id, item.address, item.size.into()), move |status| {
            let value = item.value(status.data).filter(|_| status.data.len() == usize::from(item.size))?;
            let mut answer = Answer { id, ..Answer::default() };
            answer.registers.insert(item.address, value as f64);
            Some(answer)
        })
    }

    fn put(&self, id: u8, item: &'static Item, value: f64) -> Result<Ask, String> {
        let bytes = &(value as i64).to_le_bytes()[..item.size.into()];
        let is_whole = value.fract() == 0.0 && item.value(bytes).is_some_and(|it| it as f64 == value);
        match dynamixel::write(id, item.address, bytes) {
            Some(frame) if item.writable && is_whole => Ok(self.ask(id, frame, move |status| {
                status.data.is_empty().then(|| Answer { id, ..Answer::default() })
            })),
            _ if !item.writable => Err(format!("`{}` is measured, and not written", item.name)),
            _ => Err(format!("`{}` has {} bytes, and {value} is no number of them", item.name, item.size)),
        }
    }

    fn mode(&self, id: u8) -> Ask {
        self.ask(id, dynamixel::read(id, at::TORQUE_ENABLE, 1), move |status| {
            let &[on] = status.data else { return None };
            Some(Answer { id, mode: Some(MODES[usize::from(on != 0)]), ..Answer::default() })
        })
    }

    /// Asks whether its torque is on, which is wrong.
    fn is_off(&self, id: u8) -> Ask {
        judged(self.mode(id), |answer| answer.mode.filter(|mode| mode.number != 0).map(|_| torque_is_on()))
    }

    fn errors(&self, id: u8) -> Ask {
        self.ask(id, dynamixel::read(id, at::HARDWARE_ERROR_STATUS, 1), move |status| {
            let &[bits] = status.data else { return None };
            let fault =
                if bits == 0 { Fault::NONE } else { Fault { code: bits.into(), text: hardware_error(bits) } };
            Some(Answer { id, fault: Some(fault), ..Answer::default() })
        })
    }

    fn supply(&self, id: u8) -> Ask {
        self.ask(id, dynamixel::read(id, SUPPLY.0, SUPPLY.1), move |status| {
            let &[low, high, celsius] = status.data else { return None };
            let voltage = Some(f64::from(u16::from_le_bytes([low, high])) / 10.0);
            Some(Answer { id, voltage, temperature: Some(celsius.into()), ..Answer::default() })
        })
    }

    fn measured(&self, id: u8, mounting: &Mounting) -> Ask {
        let (mounting, torque_step) = (*mounting, self.torque_step);
        self.ask(id, dynamixel::read(id, MEASURED.0, MEASURED.1), move |status| {
            let &[c0, c1, v0, v1, v2, v3, p0, p1, p2, p3] = status.data else { return None };
            let position = (f64::from(i32::from_le_bytes([p0, p1, p2, p3])) - MIDDLE) * STEP;
            let velocity = f64::from(i32::from_le_bytes([v0, v1, v2, v3])) * VELOCITY_STEP;
            let torque = f64::from(i16::from_le_bytes([c0, c1])) * torque_step;
            Some(Answer {
                id,
                position: Some(mounting.to_joint(position)),
                velocity: Some(mounting.sign * velocity),
                torque: Some(mounting.sign * torque),
                ..Answer::default()
            })
        })
    }

    fn order(&self, id: u8, mounting: &Mounting, order: &Order) -> Result<Vec<Ask>, String> {
        let torque = |on: u8| self.put(id, known(at::TORQUE_ENABLE)?, on.into());
        let (command, watchdog_s) = match order {
            Order::Stop => return Ok(vec![torque(0)?]),
            Order::Damp { .. } => {
                return Err("a Dynamixel is damped by its gains, in a run only: stop it".to_owned());
            }
            Order::Position { command, watchdog_s } => (command, *watchdog_s),
        };
        if !self.mode.has_positions() {
            return Err(
                "a Dynamixel in a mode without positions follows none: it is commanded in a run only"
                    .to_owned(),
            );
        }
        let steps = mounting.to_servo(command.position) / STEP;
        if steps.is_nan() || steps.abs() > self.reach() {
            return Err(format!(
                "a Dynamixel needs a position, and one within ±{:.2} rad of its zero",
                self.reach() * STEP
            ));
        }
        if watchdog_s == 0.0 {
            return Err(
                "a Dynamixel may follow its last command for ever: give a watchdog, for example 0.1 s"
                    .to_owned(),
            );
        }
        let goal = self.put(id, known(at::GOAL_POSITION)?, (steps + MIDDLE).round())?;
        let mut asks = vec![goal, torque(1)?];
        if !watchdog_s.is_nan() {
            asks.splice(0..0, self.set_watchdog(id, watchdog_s)?);
        }
        Ok(asks)
    }
}
