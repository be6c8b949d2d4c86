//! What is sent to and requested from a servo before it may be driven: it is off, it is the one it should be, its codes mean what the
//! robot file sets, and its watchdog is on.

use super::Settings;
use crate::exchange::{Exchange, ReplyCheck};
use crate::mit;
use khz_wire::Frame;
use khz_wire::damiao::{self, Access, RegisterReply, Special, State, register, status};

/// Ranges that differ by less are the same: a servo reports a float that a person has typed.
const SAME: f64 = 1e-4;

/// The error for a motor that does not answer.
const IF_SILENT: &str = "check its power, its id, the identifier of its replies (`damiao.master_id`), the bit rate and whether it is \
                         set to CAN-FD (`damiao.can_fd`)";

/// The value of [`register::CONTROL_MODE`] for MIT commands.
const MIT: u32 = 1;

/// The exchanges in their order. What is written is read back, as an echo proves nothing, and not before other registers: replies
/// keep their order, so no echo is on its way by then. The mark is in the servo before all else is read, and is read last: the
/// servo has kept its power meanwhile.
pub fn dialogue(settings: &Settings, id: u8, watchdog_s: f64, mark: u32) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let timeout = timeout(watchdog_s, mark);
    let mut exchanges = vec![
        servo.special("switch it off", Special::Disable, |_| ReplyCheck::Good),
        servo.special("clear its faults", Special::Clear, |state| match state.status {
            status::DISABLED => ReplyCheck::Good,
            fault => ReplyCheck::Wrong(format!(
                "it says \"{}\" although it was commanded to switch off; find out why before you drive it",
                status::name(fault)
            )),
        }),
        servo.read(register::TIMEOUT, move |message| {
            if message.number() == f64::from(timeout) { ReplyCheck::Used } else { ReplyCheck::Good }
        }),
        servo.write(register::TIMEOUT, "set its watchdog", timeout),
        servo.write(register::CONTROL_MODE, "set its control mode to MIT", MIT),
    ];
    let watched = WATCHED.into_iter().chain([register::TIMEOUT]);
    exchanges.extend(watched.map(|register| servo.is_as_set(register, timeout)));
    exchanges
}

/// The watchdog as it travels, longer by the run's mark. 0 would switch it off.
pub fn timeout(seconds: f64, mark: u32) -> u32 {
    mit::timeout(seconds) + mark
}

/// Registers whose values decide what a command does, besides the watchdog.
pub const WATCHED: [u8; 6] = [
    register::ID,
    register::MASTER_ID,
    register::POSITION_RANGE,
    register::VELOCITY_RANGE,
    register::TORQUE_RANGE,
    register::CONTROL_MODE,
];

/// The value a register must have before the servo may be driven; `None` if that does not matter. NaN: nothing will do.
fn expected(settings: &Settings, id: u8, timeout: Option<u32>, register: u8) -> Option<f64> {
    match register {
        register::ID => Some(id.into()),
        register::MASTER_ID => Some(settings.master_id.into()),
        register::TIMEOUT => Some(timeout.map_or(f64::NAN, f64::from)),
        register::CONTROL_MODE => Some(MIT.into()),
        register::POSITION_RANGE => Some(settings.drive.ranges[0]),
        register::VELOCITY_RANGE => Some(settings.drive.ranges[1]),
        register::TORQUE_RANGE => Some(settings.drive.ranges[2]),
        _ => None,
    }
}

/// The registers in a reply have the values they were set to. Does not allocate.
pub fn is_as_set(settings: &Settings, id: u8, timeout: Option<u32>, reply: &RegisterReply) -> bool {
    let Some(expected) = expected(settings, id, timeout, reply.register) else {
        // Once the mark is in its flash, it is no sign any more that the servo has kept its power.
        return (reply.asked, reply.register) != (damiao::STORE, 1);
    };
    let same = if register::is_integer(reply.register) { 0.0 } else { SAME * expected };
    reply.asked == damiao::READ && (reply.number() - expected).abs() <= same
}

/// The control mode is not that for MIT commands.
pub fn is_other_mode(reply: &RegisterReply) -> bool {
    reply.register == register::CONTROL_MODE && reply.number() != f64::from(MIT)
}

/// Why the servo must not be driven, if a register that was read does not have the required value.
pub fn wrong(settings: &Settings, id: u8, timeout: u32, reply: &RegisterReply) -> Option<String> {
    if is_as_set(settings, id, Some(timeout), reply) {
        return None;
    }
    let (register, message) = (reply.register, reply.number());
    let expected = expected(settings, id, Some(timeout), register)?;
    let (name, unit) = named(register);
    Some(match unit {
        "" => format!("its {name} (register {register}) is {message}, not {expected}; correct one of them"),
        _ => format!(
            "its range (register {register}) is {message} {unit}, the robot file says {expected}: every value would be \
             wrong by that factor. Is it another `damiao.model`? If the model is right and the motor was set so, write \
             `damiao.{name} = {message}`"
        ),
    })
}

/// What a watched register is called, and the unit of a range.
const fn named(register: u8) -> (&'static str, &'static str) {
    match register {
        register::ID => ("id", ""),
        register::MASTER_ID => ("identifier of replies (`damiao.master_id`)", ""),
        register::CONTROL_MODE => ("control mode", ""),
        register::POSITION_RANGE => ("position_range", "rad"),
        register::VELOCITY_RANGE => ("velocity_range", "rad/s"),
        register::TORQUE_RANGE => ("torque_range", "N·m"),
        _ => ("watchdog (50 µs each)", ""),
    }
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
    fn reply(&self) -> impl Fn(&Frame) -> Result<[u8; 8], ReplyCheck> + Send + use<> {
        let (master_id, id) = (u32::from(self.settings.master_id), self.id);
        move |frame| {
            let payload: [u8; 8] = frame.payload().try_into().map_err(|_| ReplyCheck::Unrelated)?;
            if frame.extended || payload[0] & 0xf != id & 0xf {
                Err(ReplyCheck::Unrelated)
            } else if frame.id == master_id {
                Ok(payload)
            } else if frame.id == 0 {
                Err(ReplyCheck::Wrong(format!(
                    "it replies on identifier 0, as motors leave the factory: write {master_id} into its register 7 (`MST_ID`) \
                     and store it, for example with `khz bus set-id LINK {id} {id} --store --family damiao`"
                )))
            } else if RegisterReply::parse(&payload, id).is_some() {
                Err(ReplyCheck::Wrong(format!(
                    "a motor with its id replies on identifier {}, not {master_id}: there are two with this id, or \
                     `damiao.master_id` is wrong",
                    frame.id
                )))
            } else {
                Err(ReplyCheck::Unrelated)
            }
        }
    }

    fn special(
        &self,
        what: &str,
        code: Special,
        judge: impl Fn(&State) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let (reply, id) = (self.reply(), self.id);
        Exchange {
            what: what.to_owned(),
            if_silent: IF_SILENT,
            quiet_ns: 0,
            frame: self.frame(self.id.into(), code.to_bytes()),
            judge: Box::new(move |frame| match reply(frame) {
                Ok(payload) if RegisterReply::parse(&payload, id).is_some() => ReplyCheck::Unrelated,
                Ok(payload) => State::parse(&payload).map_or(ReplyCheck::Unrelated, |state| judge(&state)),
                Err(reply) => reply,
            }),
        }
    }

    fn register(
        &self,
        what: String,
        register: u8,
        access: Access,
        judge: impl Fn(&RegisterReply) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let (reply, id) = (self.reply(), self.id);
        Exchange {
            what,
            if_silent: IF_SILENT,
            quiet_ns: 0,
            frame: self.frame(damiao::REGISTERS, access.to_bytes(self.id)),
            judge: Box::new(move |frame| {
                let payload = match reply(frame) {
                    Ok(payload) => payload,
                    Err(reply) => return reply,
                };
                let message =
                    RegisterReply::parse(&payload, id).filter(|message| message.register == register);
                message.map_or(ReplyCheck::Unrelated, |message| judge(&message))
            }),
        }
    }

    /// Some motors answer a write like a read.
    fn write(&self, register: u8, what: &str, value: u32) -> Exchange {
        self.register(what.to_owned(), register, Access::Write(register, value.to_le_bytes()), |_| {
            ReplyCheck::Good
        })
    }

    fn read(&self, register: u8, judge: impl Fn(&RegisterReply) -> ReplyCheck + Send + 'static) -> Exchange {
        let (name, unit) = named(register);
        let name = if unit.is_empty() { name.to_owned() } else { format!("`{name}`") };
        let what = format!("tell register {register}, its {name}");
        self.register(what, register, Access::Read(register), move |message| {
            if message.asked == damiao::READ { judge(message) } else { ReplyCheck::Unrelated }
        })
    }

    fn is_as_set(&self, register: u8, timeout: u32) -> Exchange {
        let (settings, id) = (self.settings.clone(), self.id);
        self.read(register, move |message| {
            wrong(&settings, id, timeout, message).map_or(ReplyCheck::Good, ReplyCheck::Wrong)
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
        dialogue(&settings, 1, 0.05, 3)
    }

    fn answer(exchange: &Exchange, payload: [u8; 8]) -> ReplyCheck {
        (exchange.judge)(&Frame::classic(0x11, &payload).unwrap())
    }

    fn asks(exchanges: &[Exchange], access: Access) -> usize {
        let bytes = access.to_bytes(1);
        let found = exchanges.iter().rposition(|exchange| exchange.frame.payload() == bytes);
        found.unwrap_or_else(|| panic!("{access:?}"))
    }

    #[test]
    fn the_watchdog_is_written_and_read_back() {
        let all = exchanges();
        let write = asks(&all, Access::Write(9, [0xeb, 3, 0, 0]));
        let read = asks(&all, Access::Read(9));
        assert!(write < read && read == all.len() - 1);
        let read = &all[read];
        assert_eq!(answer(read, [1, 0, 0x33, 9, 0xeb, 3, 0, 0]), ReplyCheck::Good);
        let ReplyCheck::Wrong(why) = answer(read, [1, 0, 0x33, 9, 0, 0, 0, 0]) else { panic!() };
        assert_eq!(why, "its watchdog (50 µs each) (register 9) is 0, not 1003; correct one of them");
        assert_eq!(timeout(0.00001, 2), 3);
    }

    #[test]
    fn a_mark_that_is_in_the_motor_already_is_no_mark() {
        let before = exchanges().remove(2);
        assert_eq!(before.frame.payload(), Access::Read(9).to_bytes(1));
        assert_eq!(answer(&before, [1, 0, 0x33, 9, 0xeb, 3, 0, 0]), ReplyCheck::Used);
        assert_eq!(answer(&before, [1, 0, 0x33, 9, 0xe8, 3, 0, 0]), ReplyCheck::Good);
        // Long watchdogs are compared to the step, too.
        let settings = Settings::of(&DamiaoSettings::default(), 1);
        let message = RegisterReply { asked: damiao::READ, register: 9, value: 600_001_u32.to_le_bytes() };
        assert!(
            !is_as_set(&settings, 1, Some(600_002), &message)
                && is_as_set(&settings, 1, Some(600_001), &message)
        );
    }

    #[test]
    fn the_echo_of_a_write_is_no_reading() {
        let all = exchanges();
        for (register, value) in [(9, 0xeb), (10, 1)] {
            let last = all.iter().rfind(|ask| ask.frame.payload() == Access::Read(register).to_bytes(1));
            let high = if register == 9 { 3 } else { 0 };
            assert_eq!(
                answer(last.unwrap(), [1, 0, 0x55, register, value, high, 0, 0]),
                ReplyCheck::Unrelated
            );
            // Another register is read in between: older echoes have come by then.
            let value = [value, high, 0, 0];
            assert!(asks(&all, Access::Read(register)) > asks(&all, Access::Write(register, value)) + 1);
        }
    }

    #[test]
    fn a_reply_about_registers_is_no_state() {
        for exchange in &exchanges()[..2] {
            for asked in [damiao::READ, damiao::WRITE, damiao::STORE] {
                assert_eq!(answer(exchange, [1, 0, asked, 1, 0, 0, 0, 0]), ReplyCheck::Unrelated);
            }
        }
    }

    #[test]
    fn another_range_is_refused_with_what_to_write() {
        let all = exchanges();
        let velocity = &all[asks(&all, Access::Read(22))];
        assert_eq!(answer(velocity, [1, 0, 0x33, 22, 0, 0, 0xf0, 0x41]), ReplyCheck::Good);
        let ReplyCheck::Wrong(why) = answer(velocity, [1, 0, 0x33, 22, 0, 0, 0x20, 0x41]) else { panic!() };
        assert!(
            why.contains("another `damiao.model`") && why.ends_with("write `damiao.velocity_range = 10`"),
            "{why}"
        );
    }

    #[test]
    fn replies_of_others_and_to_others_are_waited_out() {
        for exchange in &exchanges()[2..] {
            let [_, _, asked, register, ..] = *exchange.frame.payload() else { panic!() };
            let good = [1, 0, asked, register, 0, 0, 0, 0];
            assert_ne!(answer(exchange, good), ReplyCheck::Unrelated);
            assert_eq!(answer(exchange, [2, 0, asked, register, 0, 0, 0, 0]), ReplyCheck::Unrelated);
            assert_eq!(answer(exchange, [0x11, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]), ReplyCheck::Unrelated);
            let twin = (exchange.judge)(&Frame::classic(0x21, &good).unwrap());
            assert!(matches!(&twin, ReplyCheck::Wrong(why) if why.contains("two with this id")), "{twin:?}");
            assert_eq!((exchange.judge)(&Frame::classic(0x11, &good[..7]).unwrap()), ReplyCheck::Unrelated);
        }
    }

    #[test]
    fn one_as_it_leaves_the_factory_is_reported_with_the_register_to_set() {
        let off = Frame::classic(0, &[1, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]).unwrap();
        let ReplyCheck::Wrong(why) = (exchanges()[0].judge)(&off) else { panic!() };
        assert!(why.contains("write 17 into its register 7 (`MST_ID`)"), "{why}");
    }

    #[test]
    fn a_fault_that_stays_is_refused() {
        let clear = &exchanges()[1];
        assert_eq!(answer(clear, [1, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]), ReplyCheck::Good);
        assert!(matches!(answer(clear, [0xb1, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 31]), ReplyCheck::Wrong(_)));
    }
}
