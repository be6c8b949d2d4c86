//! A moteus by hand: everything fits in one frame, and every id can be asked alone or all at once.

use super::Settings;
use crate::by_hand::{self, Answer, Ask, ByHand, Identity, Order, Wanted, ZERO, not_zero, output_is_on};
use crate::{Fault, Mode, Mounting};
use khz_wire::address::BROADCAST;
use khz_wire::command;
use khz_wire::subframe::Full;
use khz_wire::{
    Address, Class, Format, Frame, Mode as WireMode, Register, Reply, Request, Resolution, Value, Writer,
};
use std::f64::consts::TAU;
use std::ops::RangeInclusive;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        1..=BROADCAST - 1
    }

    fn everybody(&self) -> Option<Ask> {
        who(BROADCAST)
    }

    fn who(&self, id: u8) -> Vec<Ask> {
        who(id).into_iter().collect()
    }

    fn off(&self, id: u8) -> Frame {
        let stop = |writer: &mut Writer<'_>| write_order(&Order::Stop, &Mounting::default(), writer);
        let frame = command::frame(Address::to(id, false), stop);
        frame.unwrap_or_else(|_| unreachable!("a mode fits every frame"))
    }

    fn left_on(&self, id: u8) -> Option<Ask> {
        judged(id, Mounting::default(), |_| Ok(()), is_on).ok()
    }

    /// One that has timed out damps by itself, and takes no order but to stop.
    fn let_down(&self, id: u8, mounting: &Mounting) -> Vec<Ask> {
        let damps = Order::Damp { kd_scale: 1.0, watchdog_s: f64::NAN };
        judged(id, *mounting, |writer| write_order(&damps, mounting, writer), is_on).into_iter().collect()
    }

    fn exchange(
        &self,
        id: u8,
        mounting: &Mounting,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
    ) -> Result<Vec<Ask>, String> {
        let query = registers.iter().try_fold(Format::default_query(), |format, wanted| {
            let resolution = resolution(wanted)?;
            format.with(Register(wanted.number), resolution).map_err(|error| error.to_string())
        })?;
        let ask = ask(id, query, *mounting, |writer| match order {
            Some(order) => write_order(order, mounting, writer),
            None => Ok(()),
        });
        Ok(vec![ask.map_err(|_| "command and query do not fit into one frame".to_owned())?])
    }

    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let value = Register(register.number).class().encode(value, resolution(register)?);
        // Its answer shows that it received the command.
        let ask = ask(id, Format::default_query(), Mounting::default(), |writer| {
            writer.write(u32::from(register.number), &[value])
        });
        Ok(vec![ask.map_err(|_| "the write does not fit into one frame".to_owned())?])
    }

    fn register(&self, name: &str) -> Option<u16> {
        Register::called(name).map(|register| register.0)
    }

    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        let set = |writer: &mut Writer<'_>| {
            writer.write(u32::from(Register::SET_OUTPUT_EXACT.0), &[Value::Float(0.0)])
        };
        let read = |_: &mut Writer<'_>| Ok(());
        let mounting = Mounting::default();
        Ok(vec![
            judged(id, mounting, read, is_on)?,
            judged(id, mounting, set, refuses)?,
            judged(id, mounting, read, is_elsewhere)?,
        ])
    }

    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        Err(format!(
            "the id of a moteus is in its configuration: `moteus_tool -t {id} --console`, then `conf set id.id {new}` and `conf write`"
        ))
    }

    fn set_register(&self, id: u8, _: u16, _: f64) -> Result<Vec<Ask>, String> {
        Err(format!(
            "registers of a moteus are commands; what it keeps is in its configuration: `moteus_tool -t {id} --console`, then `conf set` \
             and `conf write`"
        ))
    }

    fn set_watchdog(&self, id: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        Err(format!(
            "the watchdog of a moteus comes with every command (`watchdog_s` in the robot file); what it is without one is in its \
             configuration: `moteus_tool -t {id} --console`, then `conf set servo.default_timeout_s {seconds}` and `conf write`"
        ))
    }

    fn store(&self, id: u8) -> Result<Vec<Ask>, String> {
        Err(format!(
            "a moteus keeps a zero only if its own tool sets it: `moteus_tool -t {id} --zero-offset`"
        ))
    }
}

/// One frame that writes and asks for the state, whose answer is wrong for a reason.
fn judged(
    id: u8,
    mounting: Mounting,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
    wrong: impl Fn(&Answer) -> Option<String> + Send + 'static,
) -> Result<Ask, String> {
    let asked = ask(id, Format::default_query(), mounting, write);
    let asked = asked.map_err(|_| "the query does not fit into one frame".to_owned())?;
    Ok(by_hand::judged(asked, wrong))
}

/// It does not know a register.
fn refuses(answer: &Answer) -> Option<String> {
    let (register, code) = answer.refused?;
    Some(format!("it refuses register {register:#x} (error {code}): its firmware is too old for that"))
}

/// It is not at zero.
fn is_elsewhere(answer: &Answer) -> Option<String> {
    match answer.position {
        Some(position) if position.abs() <= ZERO => None,
        Some(position) => Some(not_zero(position)),
        None => Some("it does not say where it is".to_owned()),
    }
}

/// Why it must not be set now: its output is on, or that is unknown.
fn is_on(answer: &Answer) -> Option<String> {
    let off = [WireMode::Stopped, WireMode::Fault].map(|mode| mode as u8);
    match answer.mode {
        Some(mode) if off.contains(&mode.number) => None,
        Some(mode) => Some(output_is_on(mode.name)),
        None => Some("it does not say whether its output is off".to_owned()),
    }
}

fn resolution(wanted: &Wanted<'_>) -> Result<Resolution, String> {
    Ok(match wanted.format {
        Some("int8") => Resolution::Int8,
        Some("int16") => Resolution::Int16,
        Some("int32") => Resolution::Int32,
        Some("float") => Resolution::Float,
        Some(other) => return Err(format!("resolution `{other}`: write int8, int16, int32 or float")),
        None if matches!(Register(wanted.number).class(), Class::Integer | Class::Word) => Resolution::Int32,
        None => Resolution::Float,
    })
}

/// One frame that writes and asks.
fn ask(
    id: u8,
    query: Format,
    mounting: Mounting,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<Ask, Full> {
    let address = Address::to(id, true);
    let frame = command::frame(address, |writer| {
        write(writer)?;
        query.query(writer)
    })?;
    let read = move |frame: &Frame| {
        let from = Address::from_id(frame.id);
        let meant = [from.source, BROADCAST].contains(&id);
        let is_answer = meant && from == address.answered_by(from.source);
        (is_answer && query.is_answered_by(frame.payload())).then(|| answer(from.source, frame, &mounting))
    };
    let Request { to, replies, .. } = Address::request(&frame);
    Ok(Ask { frame, id: to, answers: replies, quiet_ns: 0, read: Box::new(read) })
}

/// UUIDs come last: firmware that has none leaves out what was asked behind them.
fn who(id: u8) -> Option<Ask> {
    let words =
        |first: Register, count| (0..count).map(move |word| (Register(first.0 + word), Resolution::Int32));
    let mut registers = vec![(Register::MODE, Resolution::Int8), (Register::FAULT, Resolution::Int8)];
    registers.extend(words(Register::FIRMWARE_VERSION, 1).chain(words(Register::MAP_VERSION, 1)));
    registers.extend(words(Register::SERIAL_NUMBER, 3).chain(words(Register::UUID, 4)));
    ask(id, Format::of(&registers).ok()?, Mounting::default(), |_| Ok(())).ok()
}

/// Mode first, because it resets the others; then the values, as floats.
fn write_order(order: &Order, mounting: &Mounting, writer: &mut Writer<'_>) -> Result<(), Full> {
    let mut values = Vec::new();
    let mode = match *order {
        Order::Stop => WireMode::Stopped,
        Order::Damp { kd_scale, watchdog_s } => {
            values.extend([(Register::COMMAND_KD_SCALE, kd_scale), (Register::COMMAND_WATCHDOG, watchdog_s)]);
            WireMode::ZeroVelocity
        }
        Order::Position { command, watchdog_s } => {
            values.extend([
                (Register::COMMAND_POSITION, mounting.to_servo(command.position) / TAU),
                (Register::COMMAND_VELOCITY, mounting.sign * command.velocity / TAU),
                (Register::COMMAND_TORQUE, mounting.sign * command.torque),
                (Register::COMMAND_KP_SCALE, command.kp_scale),
                (Register::COMMAND_KD_SCALE, command.kd_scale),
                (Register::COMMAND_MAX_TORQUE, command.max_torque),
                (Register::COMMAND_WATCHDOG, watchdog_s),
            ]);
            WireMode::Position
        }
    };
    writer.write(u32::from(Register::MODE.0), &[Value::Int8(mode as i8)])?;
    values
        .into_iter()
        .try_for_each(|(register, value)| writer.write(u32::from(register.0), &[Value::Float(value as f32)]))
}

fn answer(id: u8, frame: &Frame, mounting: &Mounting) -> Answer {
    let reply = match Reply::parse(frame.payload()) {
        Ok(reply) => reply,
        Err(error) => return Answer { id, damaged: Some(error.to_string()), ..Answer::default() },
    };
    Answer {
        id,
        mode: reply.mode.map(|mode| Mode { number: mode as u8, name: mode.name() }),
        position: reply.position.map(|turns| mounting.to_joint(turns * TAU)),
        velocity: reply.velocity.map(|turns| mounting.sign * turns * TAU),
        torque: reply.torque.map(|torque| mounting.sign * torque),
        voltage: reply.voltage,
        temperature: reply.temperature,
        watchdog_s: None,
        fault: reply.fault.map(|fault| Fault { code: u32::from(fault.0), text: fault.name() }),
        disarmed_by: None,
        refused: reply.write_error.or(reply.read_error).map(|error| (error.register, error.code)),
        registers: registers(&reply).collect(),
        identity: identity(&reply),
        damaged: None,
        wrong: None,
        may_turn: false,
    }
}

/// Registers of a reply in the servo's own units, whether they have a field or not.
fn registers(reply: &Reply) -> impl Iterator<Item = (u16, f64)> {
    let with_field = [
        (Register::Q_CURRENT, reply.q_current),
        (Register::D_CURRENT, reply.d_current),
        (Register::ABSOLUTE_POSITION, reply.absolute_position),
        (Register::POWER, reply.power),
        (Register::MOTOR_TEMPERATURE, reply.motor_temperature),
        (Register::TRAJECTORY_COMPLETE, reply.trajectory_complete.map(|is| f64::from(u8::from(is)))),
        (Register::HOME_STATE, reply.home_state.map(f64::from)),
    ];
    let fields = with_field.into_iter().filter_map(|(register, value)| Some((register.0, value?)));
    fields.chain(reply.extras().map(|(register, value)| (register.0, value)))
}

fn identity(reply: &Reply) -> Identity {
    let word = |register: u16| reply.extra(Register(register)).map(|value| value as i64 as u32);
    let words =
        |first: Register, count: u16| (first.0..first.0 + count).map(word).collect::<Option<Vec<_>>>();
    let version = |word: u32| format!("{}.{}.{}", word >> 16 & 0xff, word >> 8 & 0xff, word & 0xff);
    let serial = words(Register::SERIAL_NUMBER, 3);
    let uuid = words(Register::UUID, 4)
        .map(|words| words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>());
    Identity {
        firmware: word(Register::FIRMWARE_VERSION.0).map(version),
        map: word(Register::MAP_VERSION.0).map(i64::from),
        serial: serial.map(|words| words.into_iter().map(|word| format!("{word:08x}")).collect()),
        uuid: uuid.and_then(|bytes| bytes.try_into().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(address: Address, payload: &[u8]) -> Frame {
        Frame::new(address.id(), payload).unwrap()
    }

    #[test]
    fn only_answers_of_those_asked_are_answers() {
        let [asked] = &Settings::default().who(3)[..] else { panic!() };
        // Mode, fault, and that it would not read more.
        let bytes = [0x21, 0, 0, 0x21, 0xf, 5, 0x31, 0x82, 2, 4];
        let answer = |id| Address::to(id, true).answered_by(id);
        let answer_read = (asked.read)(&frame(answer(3), &bytes)).unwrap();
        assert_eq!(
            (
                answer_read.id,
                answer_read.mode.map(|mode| mode.name),
                answer_read.fault.map(|fault| fault.code)
            ),
            (3, Some("stopped"), Some(5))
        );
        assert_eq!((answer_read.identity, answer_read.refused), (Identity::default(), Some((0x102, 4))));
        // Another master with our id and with one of its own, and its servos.
        let master = Address { source: 4, ..Address::to(3, true) };
        let system = Address { prefix: 7, ..answer(3) };
        for other in [Address::to(3, true), master, master.answered_by(3), system, answer(5)] {
            assert_eq!((asked.read)(&frame(other, &bytes)), None);
        }
        // What answers another question.
        assert_eq!((asked.read)(&frame(answer(3), &[0x21, 1, 0])), None);
        assert!((asked.read)(&frame(answer(3), &[0x2f])).unwrap().damaged.is_some());
        assert_eq!((Settings::default().everybody().unwrap().read)(&frame(answer(5), &bytes)).unwrap().id, 5);
    }

    #[test]
    fn the_question_who_it_is_is_answered_in_one_frame() {
        let [asked] = &Settings::default().who(126)[..] else { panic!() };
        assert!(asked.frame.payload().len() <= 64);
        let id = Address::to(126, true).answered_by(126);
        let mut payload = [0; 64];
        let mut writer = Writer::new(&mut payload);
        writer.reply(0, &[Value::Int8(0)]).unwrap();
        writer.reply(0xf, &[Value::Int8(0)]).unwrap();
        writer.reply(0x101, &[Value::Int32(0x0001_0203), Value::Int32(5)]).unwrap();
        writer.reply(0x120, &[Value::Int32(-1), Value::Int32(2), Value::Int32(3)]).unwrap();
        writer.reply(0x150, &[Value::Int32(1), Value::Int32(0), Value::Int32(0), Value::Int32(-1)]).unwrap();
        let identity = (asked.read)(&frame(id, writer.written())).unwrap().identity;
        let mut uuid = [0; 16];
        uuid[0] = 1;
        uuid[12..].fill(0xff);
        assert_eq!(
            identity,
            Identity {
                firmware: Some("1.2.3".into()),
                map: Some(5),
                serial: Some("ffffffff0000000200000003".into()),
                uuid: Some(uuid),
            }
        );
    }

    #[test]
    fn a_zero_is_set_between_two_looks_and_not_where_the_firmware_has_no_register_for_it() {
        let asks = Settings::default().set_zero(3).unwrap();
        let [look, set, again] = &asks[..] else { panic!() };
        assert!(set.frame.payload().starts_with(&[0x0d, 0xb1, 2, 0, 0, 0, 0]));
        assert!([look, again].iter().all(|ask| !ask.frame.payload().contains(&0xb1)));
        let wrong = |ask: &Ask, bytes: &[u8]| {
            (ask.read)(&frame(Address::to(3, true).answered_by(3), bytes)).unwrap().wrong
        };
        let stopped = [0x21, 0, 0, 0x30, 0xb1, 2, 1];
        assert_eq!(wrong(look, &stopped), None);
        assert!(
            wrong(look, &[0x21, 0, 10, 0x30, 0xb1, 2, 1]).unwrap().starts_with("its output is on (position)")
        );
        assert!(wrong(set, &stopped).unwrap().starts_with("it refuses register 0x131 (error 1)"));
        assert!(wrong(again, &stopped).unwrap().contains("does not say where it is"));
        assert!(wrong(again, &[0x2d, 1, 0, 0, 0, 0x3f, 0x31, 0, 1]).unwrap().contains("it says 3.142 rad"));
    }

    #[test]
    fn registers_have_names_and_formats() {
        let servo = Settings::default();
        assert_eq!((servo.register("UUID mask capable"), servo.register("nothing")), (Some(0x158), None));
        let wanted = Wanted { number: 1, format: Some("double") };
        assert!(
            servo.exchange(1, &Mounting::default(), None, &[wanted]).unwrap_err().contains("int8, int16")
        );
        let [written] = &servo.write(1, &Wanted { number: 0x158, format: None }, 7.0).unwrap()[..] else {
            panic!()
        };
        assert!(written.frame.payload().starts_with(&[0x09, 0xd8, 2, 7, 0, 0, 0]));
    }
}
