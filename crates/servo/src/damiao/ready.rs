//! What is sent to and requested from a servo before it may be driven: it is off, it is the one it should be, its codes mean what the
//! robot file says, and its watchdog is on.

use super::Settings;
use crate::exchange::{Exchange, Heard};
use khz_wire::Frame;
use khz_wire::damiao::{self, Access, RegisterReply, Special, State, TIMEOUT_PER_S, register, status};

/// Ranges that differ by less are the same: what a servo tells is a float that somebody has typed.
const SAME: f64 = 1e-4;

/// Said of a motor that does not answer.
const IF_SILENT: &str = "check its power, its id, the identifier of its replies (`damiao.master_id`), the bit rate and whether it is \
                         set to CAN-FD (`damiao.can_fd`)";

/// The value of [`register::CONTROL_MODE`] for MIT commands.
const MIT: u32 = 1;

/// The exchanges in their order.
pub fn dialogue(settings: &Settings, id: u8, watchdog_s: f64) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let mut exchanges = vec![
        servo.special("switch it off", Special::Disable, |_| Heard::Good),
        servo.special("clear its faults", Special::Clear, |state| match state.status {
            status::DISABLED => Heard::Good,
            fault => Heard::Wrong(format!(
                "it says \"{}\" although it was commanded to switch off; find out why before you drive it",
                status::name(fault)
            )),
        }),
        servo.is(register::ID, "id", id.into()),
        servo.is(
            register::MASTER_ID,
            "identifier of replies (`damiao.master_id`)",
            settings.master_id.into(),
        ),
        servo.write(register::CONTROL_MODE, "set its control mode to MIT", MIT),
        servo.is(register::CONTROL_MODE, "control mode", MIT),
    ];
    let ranges = [
        (register::POSITION_RANGE, "position_range", "rad"),
        (register::VELOCITY_RANGE, "velocity_range", "rad/s"),
        (register::TORQUE_RANGE, "torque_range", "N·m"),
    ];
    for ((register, key, unit), range) in ranges.into_iter().zip(settings.ranges) {
        exchanges.push(servo.range(register, key, unit, range));
    }
    let timeout = timeout(watchdog_s);
    exchanges.push(servo.write(register::TIMEOUT, "set its watchdog", timeout));
    exchanges.push(servo.is(register::TIMEOUT, "watchdog (50 µs each)", timeout));
    exchanges
}

/// The watchdog as it travels. 0 would switch it off.
pub fn timeout(seconds: f64) -> u32 {
    ((seconds * TIMEOUT_PER_S).round() as u32).max(1)
}

struct Servo<'a> {
    settings: &'a Settings,
    id: u8,
}

impl Servo<'_> {
    fn frame(&self, id: u32, payload: [u8; 8]) -> Frame {
        damiao::frame(id, self.settings.can_fd, payload)
    }

    /// What a frame is: the payload of a reply of this servo, or what else is to be made of it.
    fn reply(&self) -> impl Fn(&Frame) -> Result<[u8; 8], Heard> + Send + use<> {
        let (master_id, id) = (u32::from(self.settings.master_id), self.id);
        move |frame| {
            let payload: [u8; 8] = frame.payload().try_into().map_err(|_| Heard::SomethingElse)?;
            let register = RegisterReply::parse(&payload).filter(|told| told.id == u16::from(id));
            if frame.extended || payload[0] & 0xf != id & 0xf {
                Err(Heard::SomethingElse)
            } else if frame.id == master_id {
                Ok(payload)
            } else if frame.id == 0 {
                Err(Heard::Wrong(format!(
                    "it replies on identifier 0, as motors leave the factory: write {master_id} into its register 7 (`MST_ID`) \
                     and store it"
                )))
            } else if register.is_some() {
                Err(Heard::Wrong(format!(
                    "a motor with its id replies on identifier {}, not {master_id}: there are two with this id, or \
                     `damiao.master_id` is wrong",
                    frame.id
                )))
            } else {
                Err(Heard::SomethingElse)
            }
        }
    }

    fn special(
        &self,
        what: &str,
        code: Special,
        judge: impl Fn(&State) -> Heard + Send + 'static,
    ) -> Exchange {
        let reply = self.reply();
        Exchange {
            what: what.to_owned(),
            if_silent: IF_SILENT,
            frame: self.frame(self.id.into(), code.to_bytes()),
            judge: Box::new(move |frame| match reply(frame) {
                Ok(payload) => State::parse(&payload).map_or(Heard::SomethingElse, |state| judge(&state)),
                Err(heard) => heard,
            }),
        }
    }

    fn register(
        &self,
        what: String,
        register: u8,
        access: Access,
        judge: impl Fn(f64) -> Heard + Send + 'static,
    ) -> Exchange {
        let (reply, id) = (self.reply(), u16::from(self.id));
        Exchange {
            what,
            if_silent: IF_SILENT,
            frame: self.frame(damiao::REGISTERS, access.to_bytes(self.id)),
            judge: Box::new(move |frame| {
                let payload = match reply(frame) {
                    Ok(payload) => payload,
                    Err(heard) => return heard,
                };
                let told = RegisterReply::parse(&payload);
                let told = told.filter(|told| told.id == id && told.register == register);
                told.map_or(Heard::SomethingElse, |told| judge(told.number()))
            }),
        }
    }

    fn write(&self, register: u8, what: &str, value: u32) -> Exchange {
        // The echo proves nothing; the register is read next.
        self.register(what.to_owned(), register, Access::Write(register, value.to_le_bytes()), |_| {
            Heard::Good
        })
    }

    fn is(&self, register: u8, name: &'static str, expected: u32) -> Exchange {
        self.register(
            format!("tell register {register}, its {name}"),
            register,
            Access::Read(register),
            move |told| {
                if told == f64::from(expected) {
                    return Heard::Good;
                }
                Heard::Wrong(format!(
                    "its {name} (register {register}) is {told}, not {expected}; correct one of them"
                ))
            },
        )
    }

    fn range(&self, register: u8, key: &'static str, unit: &'static str, expected: f64) -> Exchange {
        let what = format!("tell register {register}, its `{key}`");
        self.register(what, register, Access::Read(register), move |told| {
            if (told - expected).abs() <= SAME * expected {
                return Heard::Good;
            }
            Heard::Wrong(format!(
                "its range (register {register}) is {told} {unit}, the robot file says {expected}: every value would be \
                 wrong by that factor. Is it another `damiao.model`? If the model is right and the motor was set so, write \
                 `damiao.{key} = {told}`"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DamiaoSettings, Model};
    use super::*;

    fn exchanges() -> Vec<Exchange> {
        let file = DamiaoSettings { model: Some(Model::Dm4310), ..DamiaoSettings::default() };
        let settings = Settings::of(&file, 1);
        dialogue(&settings, 1, 0.05)
    }

    fn answer(exchange: &Exchange, payload: [u8; 8]) -> Heard {
        (exchange.judge)(&Frame::classic(0x11, &payload).unwrap())
    }

    #[test]
    fn the_watchdog_is_written_and_read_back() {
        let all = exchanges();
        let [.., write, read] = &all[..] else { panic!() };
        assert_eq!(write.frame.payload(), [1, 0, 0x55, 9, 0xe8, 3, 0, 0]);
        assert_eq!(read.frame.payload()[..4], [1, 0, 0x33, 9]);
        assert_eq!(answer(read, [1, 0, 0x33, 9, 0xe8, 3, 0, 0]), Heard::Good);
        let Heard::Wrong(why) = answer(read, [1, 0, 0x33, 9, 0, 0, 0, 0]) else { panic!() };
        assert_eq!(why, "its watchdog (50 µs each) (register 9) is 0, not 1000; correct one of them");
        assert_eq!(timeout(0.00001), 1);
    }

    #[test]
    fn another_range_is_refused_with_what_to_write() {
        let velocity = &exchanges()[7];
        assert_eq!(answer(velocity, [1, 0, 0x33, 22, 0, 0, 0xf0, 0x41]), Heard::Good);
        let Heard::Wrong(why) = answer(velocity, [1, 0, 0x33, 22, 0, 0, 0x20, 0x41]) else { panic!() };
        assert!(
            why.contains("another `damiao.model`") && why.ends_with("write `damiao.velocity_range = 10`"),
            "{why}"
        );
    }

    #[test]
    fn replies_of_others_and_to_others_are_waited_out() {
        for exchange in &exchanges()[2..] {
            let register = exchange.frame.payload()[3];
            let good = [1, 0, 0x33, register, 0, 0, 0, 0];
            assert_ne!(answer(exchange, good), Heard::SomethingElse);
            assert_eq!(answer(exchange, [2, 0, 0x33, register, 0, 0, 0, 0]), Heard::SomethingElse);
            assert_eq!(answer(exchange, [0x11, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]), Heard::SomethingElse);
            let twin = (exchange.judge)(&Frame::classic(0x21, &good).unwrap());
            assert!(matches!(&twin, Heard::Wrong(why) if why.contains("two with this id")), "{twin:?}");
            assert_eq!((exchange.judge)(&Frame::classic(0x11, &good[..7]).unwrap()), Heard::SomethingElse);
        }
    }

    #[test]
    fn one_as_it_leaves_the_factory_is_told_which_register_to_set() {
        let off = Frame::classic(0, &[1, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]).unwrap();
        let Heard::Wrong(why) = (exchanges()[0].judge)(&off) else { panic!() };
        assert!(why.contains("write 17 into its register 7 (`MST_ID`)"), "{why}");
    }

    #[test]
    fn a_fault_that_stays_is_refused() {
        let clear = &exchanges()[1];
        assert_eq!(answer(clear, [1, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]), Heard::Good);
        assert!(matches!(answer(clear, [0xb1, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]), Heard::Wrong(_)));
    }
}
