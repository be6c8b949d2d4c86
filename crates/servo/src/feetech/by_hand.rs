//! A Feetech servo by hand: items of its table by their names.

use super::drive::Measured;
use super::{ALL, FeetechMode, FeetechModel, MIDDLE, MODES, REACH, STEP, Settings};
use crate::by_hand::{
    Answer, Ask, ByHand, Order, Wanted, ZERO, answers_no_more, id_as_register, in_turn, judged, not_written,
    not_zero, torque_is_on, torque_on_by_hand,
};
use crate::mit::UNNAMED;
use crate::{Fault, Mounting};
use khz_wire::Frame;
use khz_wire::feetech::{
    self, Item, MOST_ID, Model, Status, SyncWrite, address as at, condition, item, item_named,
};
use std::ops::RangeInclusive;

/// Written to its torque enable: where it is becomes the middle.
const SET_MIDDLE: u8 = 128;
/// So long is waited after what is not answered, ns.
const WRITTEN_NS: i64 = 20_000_000;
const NO_WATCHDOG: &str = "a Feetech has no watchdog";

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        0..=MOST_ID
    }

    fn who(&self, id: u8) -> Vec<Ask> {
        let version = self.ask(id, feetech::read(id, at::FIRMWARE_MAJOR, 5), move |status| {
            let &[major, minor, _, low, high] = status.data else { return None };
            let number = u16::from_le_bytes([low, high]);
            let mut answer = Answer { id, ..Answer::default() };
            let name =
                Model::numbered(number).map_or_else(|| format!("model {number}"), |it| it.name.to_owned());
            (answer.identity.serial, answer.identity.firmware) =
                (Some(name), Some(format!("{major}.{minor}")));
            Some(answer)
        });
        vec![version, self.mode(id), self.measured(id, &Mounting::default())]
    }

    /// Of a kind that is not answered: several of them go out in one burst.
    fn off(&self, id: u8) -> Frame {
        let mut off = SyncWrite::new(at::TORQUE_ENABLE, 1);
        off.add(id, &[0]);
        off.packet()
    }

    /// It has nothing that damps. In mode position it holds until it is switched off; in others it may turn, and is switched off at once.
    fn left_on(&self, id: u8) -> Option<Ask> {
        let first = at::MODE;
        Some(self.ask(id, feetech::read(id, first, at::TORQUE_ENABLE + 1 - first), move |status| {
            let &[mode, .., on] = status.data else { return None };
            let holds = mode == FeetechMode::Position.number();
            let wrong = (on != 0 && holds).then(torque_is_on);
            Some(Answer { id, wrong, may_turn: on != 0 && !holds, ..Answer::default() })
        }))
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
        in_turn(order, registers, read, [self.mode(id), self.measured(id, mounting)])
    }

    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let item = known(register.number)?;
        Ok(vec![self.put(id, item, value)?, self.read(id, item)])
    }

    fn set_register(&self, id: u8, register: u16, value: f64) -> Result<Vec<Ask>, String> {
        if register == u16::from(at::ID) {
            return Err(id_as_register());
        }
        if register == u16::from(at::RESPONSE_LEVEL) && value != 1.0 {
            return Err(answers_no_more("response_level", 1));
        }
        self.set(id, id, known(register)?, value)
    }

    fn called(&self, register: u16) -> String {
        known(register).map_or_else(|_| format!("register {register}"), |item| item.name.to_ascii_lowercase())
    }

    fn register(&self, name: &str) -> Option<u16> {
        item_named(name).map(|item| item.address.into())
    }

    fn in_file(&self, answer: &Answer) -> Vec<String> {
        let named = answer.identity.serial.as_deref().and_then(|name| name.parse::<FeetechModel>().ok());
        let model = named.map_or(UNNAMED, |model| model.word());
        vec![
            "# It has no watchdog: when this computer fails, it holds its last target for ever. WRITE `unwatched = true` if you know that."
                .to_owned(),
            format!("feetech = {{ model = \"{model}\", unwatched = false }}"),
        ]
    }

    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        let here = feetech::write(id, at::TORQUE_ENABLE, &[SET_MIDDLE]).ok_or("too long")?;
        let zero = judged(self.measured(id, &Mounting::default()), |answer| {
            answer.position.filter(|position| position.abs() > ZERO).map(not_zero)
        });
        let lock = known(at::LOCK.into())?;
        let locks = [self.put(id, lock, 0.0)?, self.put(id, lock, 1.0)?];
        let [open, close] = locks;
        Ok(vec![self.is_off(id), open, self.acknowledged(id, here), close, zero])
    }

    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        if !self.ids().contains(&new) {
            return Err(format!("a Feetech cannot have id {new}: ids are from 0 to {MOST_ID}"));
        }
        self.set(id, new, known(at::ID.into())?, new.into())
    }

    fn set_watchdog(&self, _: u8, _: f64) -> Result<Vec<Ask>, String> {
        Err(format!("{NO_WATCHDOG}: have a switch at hand that cuts its power"))
    }

    fn keeps_what_is_set(&self) -> bool {
        true
    }

    fn keeps_register(&self, register: u16) -> bool {
        known(register).is_ok_and(Item::is_kept)
    }

    fn run_sets_watchdog(&self) -> bool {
        false
    }

    fn store(&self, _: u8) -> Result<Vec<Ask>, String> {
        Err("a Feetech keeps its id, its zero, and what is before `torque_enable` in its table, by itself, and nothing else: leave `--store` out"
            .to_owned())
    }
}

/// The item that begins there.
fn known(register: u16) -> Result<&'static Item, String> {
    let found = u8::try_from(register).ok().and_then(item);
    found.ok_or_else(|| format!("a Feetech has no item that begins at {register}"))
}

impl Settings {
    /// A request, and what is made of its answer.
    fn ask(
        &self,
        id: u8,
        frame: Frame,
        read: impl Fn(&Status<'_>) -> Option<Answer> + Send + 'static,
    ) -> Ask {
        Ask::one(id, frame, move |frame| read(&Status::parse(frame).filter(|status| status.id == id)?))
    }

    /// What is answered without a word.
    fn acknowledged(&self, id: u8, frame: Frame) -> Ask {
        self.ask(id, frame, move |status| status.data.is_empty().then(|| Answer { id, ..Answer::default() }))
    }

    fn read(&self, id: u8, item: &'static Item) -> Ask {
        self.ask(id, feetech::read(id, item.address, item.size), move |status| {
            let mut answer = Answer { id, ..Answer::default() };
            answer.registers.insert(item.address.into(), item.value(status.data)?.into());
            Some(answer)
        })
    }

    fn put(&self, id: u8, item: &'static Item, value: f64) -> Result<Ask, String> {
        if !item.writable {
            return Err(format!("`{}` is measured, and not written", item.name.to_ascii_lowercase()));
        }
        let word = item.word(value as i32).to_le_bytes();
        let bytes = &word[..item.size.into()];
        match feetech::write(id, item.address, bytes) {
            Some(frame) if item.value(bytes).is_some_and(|it| f64::from(it) == value) => {
                Ok(self.acknowledged(id, frame))
            }
            _ => Err(format!(
                "`{}` has {} bytes, and {value} is no number of them",
                item.name.to_ascii_lowercase(),
                item.size
            )),
        }
    }

    /// Writes an item of a servo that is off, with an open lock where it is to be kept; after that it has the id `then`.
    fn set(&self, id: u8, then: u8, item: &'static Item, value: f64) -> Result<Vec<Ask>, String> {
        let lock = known(at::LOCK.into())?;
        let number = item.address.into();
        let read = judged(self.read(then, item), move |answer| not_written(answer, number, item.name, value));
        let put = self.put(id, item, value)?;
        if item.address == at::TORQUE_ENABLE {
            let off = vec![self.mode(id), put, read];
            return if value == 0.0 { Ok(off) } else { Err(torque_on_by_hand()) };
        }
        if !item.is_kept() {
            return Ok(vec![self.is_off(id), put, read]);
        }
        // One that answers reads alone could not be set so that it answers writes.
        if item.address == at::RESPONSE_LEVEL {
            let written = |at, value| {
                let mut packet = SyncWrite::new(at, 1);
                packet.add(id, &[value]);
                Ask::silent(id, packet.packet(), WRITTEN_NS)
            };
            let level = item.word(value as i32) as u8;
            let writes = [(at::LOCK, 0), (at::RESPONSE_LEVEL, level), (at::LOCK, 1)];
            let writes = writes.into_iter().map(|(at, value)| written(at, value));
            return Ok([self.is_off(id)].into_iter().chain(writes).chain([read]).collect());
        }
        Ok(vec![self.is_off(id), self.put(id, lock, 0.0)?, put, self.put(then, lock, 1.0)?, read])
    }

    fn mode(&self, id: u8) -> Ask {
        self.ask(id, feetech::read(id, at::TORQUE_ENABLE, 1), move |status| {
            let &[on] = status.data else { return None };
            Some(Answer { id, mode: Some(MODES[usize::from(on != 0)]), ..Answer::default() })
        })
    }

    /// Asks whether its torque is on, which is wrong.
    fn is_off(&self, id: u8) -> Ask {
        judged(self.mode(id), |answer| answer.mode.filter(|mode| mode.number != 0).map(|_| torque_is_on()))
    }

    fn measured(&self, id: u8, mounting: &Mounting) -> Ask {
        let (mounting, settings) = (*mounting, self.clone());
        let frame = feetech::read(id, at::PRESENT_POSITION, ALL);
        self.ask(id, frame, move |status| {
            let (voltage, temperature) = match *status.data {
                [.., tenths, celsius] if status.data.len() == usize::from(ALL) => {
                    (f64::from(tenths) / 10.0, f64::from(celsius))
                }
                _ => return None,
            };
            let [position, velocity, duty] = Measured::parse(status)?.in_units();
            let fault = match status.conditions {
                0 => Fault::NONE,
                bits => Fault { code: bits.into(), text: condition(bits) },
            };
            Some(Answer {
                id,
                position: Some(mounting.to_joint(position)),
                velocity: Some(mounting.sign * velocity),
                torque: Some(mounting.sign * settings.torque(duty, voltage, velocity)),
                voltage: Some(voltage),
                temperature: Some(temperature),
                fault: Some(fault),
                ..Answer::default()
            })
        })
    }

    fn order(&self, id: u8, mounting: &Mounting, order: &Order) -> Result<Vec<Ask>, String> {
        let torque = |on: u8| self.put(id, known(at::TORQUE_ENABLE.into())?, on.into());
        let (command, watchdog_s) = match order {
            Order::Stop => return Ok(vec![torque(0)?]),
            Order::Damp { .. } => return Err("a Feetech is damped in a run only: stop it".to_owned()),
            Order::Position { command, watchdog_s } => (command, *watchdog_s),
        };
        if !self.mode.has_positions() {
            return Err("a Feetech in a mode without positions follows none: it is commanded in a run only"
                .to_owned());
        }
        let steps = mounting.to_servo(command.position) / STEP;
        if steps.is_nan() || steps.abs() > REACH {
            return Err(format!(
                "a Feetech needs a position, and one within ±{:.2} rad of its zero",
                REACH * STEP
            ));
        }
        if !watchdog_s.is_nan() {
            return Err(format!("{NO_WATCHDOG}: give NaN if it may follow its last command for ever"));
        }
        let goal = self.put(id, known(at::GOAL_POSITION.into())?, (steps + MIDDLE).round())?;
        Ok(vec![goal, torque(1)?])
    }
}
