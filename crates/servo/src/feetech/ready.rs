//! What is sent to and requested from a servo before it may be driven: it is off, it is the servo that the robot file has, nothing is wrong with
//! it, and it is set as it will be driven. All that is written is read back, as no answer confirms that it was taken.

use super::{MOST, Settings};
use crate::exchange::{Exchange, ReplyCheck};
use khz_wire::Frame;
use khz_wire::feetech::{self, Model, Status, address as at, condition, item};

/// The error for a servo that does not answer.
const IF_SILENT: &str = "check its power, its id, that its baud rate is that of the bus (`khz bus scan` tries others), and its `response_level`";
const OVERWRITTEN: &str = "it does not keep what is written: another program writes it, too";
const STILL_ON: &str = "it is on although it was told to switch off: another program drives it";
/// A bit of its phase: speeds are in steps/s.
const FINE_SPEED: u8 = 4;

/// The exchanges in their order.
pub fn dialogue(settings: &Settings, id: u8) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let mut exchanges = vec![servo.is_set(at::RESPONSE_LEVEL, 1), servo.model()];
    let mut set = |address: u8, data: &[u8], otherwise: &'static str| {
        exchanges.push(servo.write(address, data));
        exchanges.push(servo.has(address, data, otherwise));
    };
    set(at::TORQUE_ENABLE, &[0], STILL_ON);
    // What is below address 40 is kept, but with an open lock only.
    set(at::LOCK, &[0], OVERWRITTEN);
    set(at::MODE, &[settings.mode.number()], OVERWRITTEN);
    set(at::POSITION_P, &settings.gains, OVERWRITTEN);
    set(at::LOCK, &[1], OVERWRITTEN);
    set(at::ACCELERATION, &[settings.acceleration], OVERWRITTEN);
    // Of a wheel it is the target.
    let speed = if settings.mode.has_positions() { settings.speed } else { 0 };
    set(at::GOAL_SPEED, &speed.to_le_bytes(), OVERWRITTEN);
    set(at::GOAL_TIME, &[0; 2], OVERWRITTEN);
    set(at::TORQUE_LIMIT, &settings.torque_limit.to_le_bytes(), OVERWRITTEN);
    exchanges.extend([
        servo.is_set(at::RETURN_DELAY, settings.return_delay),
        servo.has_fine_speed(),
        servo.has_one_turn(),
        servo.block(),
    ]);
    exchanges
}

struct Servo<'a> {
    settings: &'a Settings,
    id: u8,
}

fn name(address: u8) -> String {
    item(address)
        .map_or_else(|| format!("register {address}"), |item| format!("`{}`", item.name.to_ascii_lowercase()))
}

impl Servo<'_> {
    fn exchange(
        &self,
        what: String,
        frame: Frame,
        judge: impl Fn(&Status<'_>) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let id = self.id;
        Exchange {
            what,
            if_silent: IF_SILENT,
            quiet_ns: 0,
            frame,
            judge: Box::new(move |frame: &Frame| match Status::parse(frame) {
                Some(status) if status.id == id => judge(&status),
                _ => ReplyCheck::Unrelated,
            }),
        }
    }

    fn model(&self) -> Exchange {
        let expected = self.settings.model;
        let frame = feetech::read(self.id, at::MODEL_NUMBER, 2);
        self.exchange("tell its model".to_owned(), frame, move |status| {
            let &[low, high] = status.data else { return ReplyCheck::Unrelated };
            let number = u16::from_le_bytes([low, high]);
            let name = Model::numbered(number).map_or("a model nobody here knows", |model| model.name);
            match expected {
                Some(model) if model.number() != number => ReplyCheck::Wrong(format!(
                    "it is {name} (number {number}), not {model}: correct `feetech.model`"
                )),
                _ => ReplyCheck::Good,
            }
        })
    }

    /// A setting that it keeps: who uses it decides, not the run.
    fn is_set(&self, address: u8, value: u8) -> Exchange {
        let (id, name) = (self.id, name(address));
        let frame = feetech::read(id, address, 1);
        self.exchange(format!("tell its {name}"), frame, move |status| match status.data {
            [reported] if *reported == value => ReplyCheck::Good,
            [reported] => ReplyCheck::Wrong(format!(
                "its {name} is {reported}, not {value}: type `khz bus set LINK {id} {}={value} --family feetech`",
                name.trim_matches('`')
            )),
            _ => ReplyCheck::Unrelated,
        })
    }

    fn has_fine_speed(&self) -> Exchange {
        let id = self.id;
        let frame = feetech::read(id, at::PHASE, 1);
        self.exchange("tell its `phase`".to_owned(), frame, move |status| match status.data {
            [phase] if phase & FINE_SPEED != 0 => ReplyCheck::Good,
            [phase] => ReplyCheck::Wrong(format!(
                "it counts speeds in 50 steps/s: type `khz bus set LINK {id} phase={} --family feetech`",
                phase | FINE_SPEED
            )),
            _ => ReplyCheck::Unrelated,
        })
    }

    /// Within limits of its own it follows no further; without any it counts turns.
    fn has_one_turn(&self) -> Exchange {
        let id = self.id;
        let frame = feetech::read(id, at::MIN_POSITION, 4);
        self.exchange("tell its limits".to_owned(), frame, move |status| {
            let &[a, b, c, d] = status.data else { return ReplyCheck::Unrelated };
            if u16::from_le_bytes([a, b]) < u16::from_le_bytes([c, d]) {
                return ReplyCheck::Good;
            }
            ReplyCheck::Wrong(format!(
                "it is set to many turns: type `khz bus set LINK {id} min_position=0 max_position=4095 --family feetech`; the robot file \
                 limits its joint"
            ))
        })
    }

    fn write(&self, address: u8, data: &[u8]) -> Exchange {
        // Never too much.
        let frame = feetech::write(self.id, address, data).unwrap_or_else(|| feetech::ping(self.id));
        self.exchange(format!("take its {}", name(address)), frame, |_| ReplyCheck::Good)
    }

    fn has(&self, address: u8, data: &[u8], otherwise: &'static str) -> Exchange {
        let (data, len) = (data.to_vec(), data.len() as u8);
        let frame = feetech::read(self.id, address, len);
        self.exchange(format!("tell its {}", name(address)), frame, move |status| match status.data {
            reported if *reported == data[..] => ReplyCheck::Good,
            reported if reported.len() == data.len() => ReplyCheck::Wrong(otherwise.to_owned()),
            _ => ReplyCheck::Unrelated,
        })
    }

    /// What is read in each cycle can be, and nothing is wrong with it.
    fn block(&self) -> Exchange {
        let frame = feetech::read(self.id, at::PRESENT_POSITION, MOST);
        self.exchange("tell what it measures".to_owned(), frame, |status| match status.conditions {
            0 if status.data.len() == usize::from(MOST) => ReplyCheck::Good,
            0 => ReplyCheck::Unrelated,
            bits => ReplyCheck::Wrong(format!(
                "it tells of trouble: {}. Remove the cause, then switch its power off and on",
                condition(bits)
            )),
        })
    }
}
