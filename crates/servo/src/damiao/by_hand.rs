//! A Damiao by hand: a frame for each thing, and only one servo at a time can be asked.

use super::{DamiaoSettings, Model, Settings, ready, reported};
use crate::Mounting;
use crate::by_hand::{Answer, Ask, ByHand, Order, Wanted, ZERO, in_turn, judged, not_zero, output_is_on};
use crate::mit::{self, Message};
use khz_wire::Frame;
use khz_wire::damiao::{self, Access, MOST_ID, RegisterReply, Special, State, register, status};
use std::ops::RangeInclusive;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        1..=MOST_ID
    }

    fn who(&self, id: u8) -> Vec<Ask> {
        let registers = [
            register::ID,
            register::SOFTWARE,
            register::SUB_VERSION,
            register::SERIAL,
            register::MASTER_ID,
            register::POSITION_RANGE,
            register::VELOCITY_RANGE,
            register::TORQUE_RANGE,
        ];
        let state = self.state(id, &Mounting::default(), damiao::REGISTERS, Access::Refresh.to_bytes(id));
        registers.into_iter().map(|register| self.read(id, register)).chain([state]).collect()
    }

    fn off(&self, id: u8) -> Frame {
        self.frame(id, Message::Disable)
    }

    fn exchange(
        &self,
        id: u8,
        mounting: &Mounting,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
    ) -> Result<Vec<Ask>, String> {
        let order = order.map(|order| self.order(id, mounting, order));
        let read = |wanted: &Wanted<'_>| Ok(self.read(id, number(wanted)?));
        let state = self.state(id, mounting, damiao::REGISTERS, Access::Refresh.to_bytes(id));
        in_turn(order, registers, read, [self.read(id, register::VOLTAGE), state])
    }

    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let number = number(register)?;
        let bytes = if !register::is_integer(number) {
            let float = value as f32;
            if !float.is_finite() {
                return Err(format!("register {number} cannot be {value}"));
            }
            float.to_le_bytes()
        } else if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
            (value as u32).to_le_bytes()
        } else {
            return Err(format!("register {number} is a whole number of 32 bits, and {value} is none"));
        };
        // The echo proves nothing: the register is read afterwards.
        Ok(vec![self.access(id, Access::Write(number, bytes), number), self.read(id, number)])
    }

    fn in_file(&self, answer: &Answer) -> Vec<String> {
        let number = |register: u8| answer.registers.get(&register.into()).copied();
        let [position, velocity, torque] =
            [register::POSITION_RANGE, register::VELOCITY_RANGE, register::TORQUE_RANGE].map(number);
        let ranges = [position, velocity, torque].map(|range| range.unwrap_or(f64::NAN));
        let same =
            |model: &&Model| model.ranges().iter().zip(ranges).all(|(own, range)| (own - range).abs() < 1e-3);
        let models: Vec<_> = Model::ALL.iter().filter(same).map(|model| model.word()).collect();
        let mut keys = Vec::new();
        let mut lines = match &models[..] {
            [model] => {
                keys.push(format!("model = \"{model}\""));
                Vec::new()
            }
            // A guess is not written as true: the file cannot be used before its model is named.
            [_, _, ..] => {
                keys.push(format!("model = \"{}\"", mit::UNNAMED));
                vec![format!("# NAME `model`: by its ranges it is {}.", models.join(" or "))]
            }
            [] => {
                keys.push(format!("model = \"{}\"", mit::UNNAMED));
                let names = ["position_range", "velocity_range", "torque_range"];
                let known = names.into_iter().zip(ranges).filter(|(_, range)| range.is_finite());
                keys.extend(known.map(|(name, range)| format!("{name} = {range}")));
                vec!["# NAME `model`: no known one has its ranges.".to_owned()]
            }
        };
        keys.extend(self.can_fd.then(|| "can_fd = true".to_owned()));
        let DamiaoSettings { kp, kd, damping, .. } = DamiaoSettings::default();
        keys.push(mit::gains_in_file(kp, kd, damping));
        match number(register::MASTER_ID) {
            Some(0.0) => lines.extend(self.amiss(answer).map(|amiss| format!("# CORRECT this: {amiss}."))),
            Some(master_id) if master_id != f64::from(answer.id + 0x10) => {
                keys.push(format!("master_id = {master_id}"))
            }
            _ => {}
        }
        lines.push(format!("damiao = {{ {} }}", keys.join(", ")));
        lines
    }

    fn register(&self, name: &str) -> Option<u16> {
        mit::by_hand::register(&register::NAMES, name)
    }

    fn set_register(&self, id: u8, register: u16, value: f64) -> Result<Vec<Ask>, String> {
        let wanted = Wanted { number: register, format: None };
        let number = number(&wanted)?;
        if number == register::ID {
            return Err("its id is set with `khz bus set-id`, which sets the identifier of its replies, too"
                .to_owned());
        }
        // Commands go to ids, and in other control modes to those and 0x100, 0x200 or 0x300.
        let is_command = (0x001..=0x3ff).contains(&(value as u32))
            && (1..=MOST_ID.into()).contains(&(value as u32 & 0xff));
        if number == register::MASTER_ID && is_command {
            return Err(format!(
                "on identifier {value} its replies would be commands to a servo: its id and 16 is usual"
            ));
        }
        if !(value as f32).is_finite() {
            return Err(format!("register {register} cannot be {value}"));
        }
        let written = if register::is_integer(number) { value } else { f64::from(value as f32) };
        let write = self.write(id, &wanted, value)?;
        Ok(mit::by_hand::set_register(self.is_off(id), write, register, self.called(register), written))
    }

    fn called(&self, register: u16) -> String {
        mit::by_hand::called(&register::NAMES, register, &format!("register {register}"))
    }

    fn amiss(&self, answer: &Answer) -> Option<String> {
        let id = answer.id;
        (answer.registers.get(&register::MASTER_ID.into()) == Some(&0.0)).then(|| {
            format!(
                "it replies on identifier 0, as motors leave the factory: `khz bus set-id LINK {id} {id} --store --family damiao` \
                 makes that {}",
                master_id(id)
            )
        })
    }

    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        let here = Mounting::default();
        let refresh = Access::Refresh.to_bytes(id);
        Ok(vec![
            self.is_off(id),
            self.state(id, &here, id.into(), Special::SetZero.to_bytes()),
            judged(self.state(id, &here, damiao::REGISTERS, refresh), |answer| {
                answer.position.filter(|position| position.abs() > ZERO).map(not_zero)
            }),
        ])
    }

    /// As long as `motorbridge` waits.
    fn zero_takes_s(&self) -> f64 {
        0.02
    }

    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        if !self.ids().contains(&new) {
            return Err(format!("a Damiao cannot have id {new}: its replies have room for 1 to {MOST_ID}"));
        }
        let master_id = u32::from(master_id(new));
        let write = |register, value: u32| {
            let read = move |frame: &Frame| {
                let reply = [id, new].into_iter().find_map(|id| RegisterReply::parse(frame.payload(), id));
                let is_meant = is_reply(frame) && reply.is_some_and(|reply| reply.register == register);
                // It is unknown whether it answers under its old id once more.
                is_meant.then(|| Answer { id, ..Answer::default() })
            };
            let write = Access::Write(register, value.to_le_bytes()).to_bytes(id);
            Ask::one(id, damiao::frame(damiao::REGISTERS, self.can_fd, write), read)
        };
        let replies = self.reads_back(new, register::MASTER_ID, master_id, "identifier of replies");
        let mut asks = vec![self.is_off(id), write(register::MASTER_ID, master_id)];
        if new == id {
            asks.push(replies);
        } else {
            let id_is_set = self.reads_back(new, register::ID, new.into(), "id");
            asks.extend([write(register::ID, new.into()), replies, id_is_set]);
        }
        Ok(asks)
    }

    fn has_id(&self, id: u8, answer: &Answer) -> bool {
        let replies_on = answer.registers.get(&register::MASTER_ID.into());
        answer.id == id && replies_on.is_none_or(|&replies_on| replies_on == f64::from(master_id(id)))
    }

    fn changes_with_id(&self, new: u8) -> Option<String> {
        let master_id = master_id(new);
        Some(format!("it replies on identifier {master_id} then, the default of `damiao.master_id`"))
    }

    fn collision(&self, new: u8, other: &Answer) -> Option<String> {
        let replies_on = other.registers.get(&register::MASTER_ID.into()).copied();
        if other.id == new {
            return Some(format!("a servo with id {new} is on the bus already"));
        }
        [new, master_id(new)].map(f64::from).contains(&replies_on?).then(|| {
            let (other, replies_on) = (other.id, replies_on.unwrap_or_default());
            format!("servo {other} replies on identifier {replies_on}, which id {new} would use: change that first (register 7)")
        })
    }

    fn set_watchdog(&self, id: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        let timeout = mit::by_hand::timeout(seconds)?;
        let write = Access::Write(register::TIMEOUT, timeout.to_le_bytes());
        Ok(vec![
            self.is_off(id),
            self.access(id, write, register::TIMEOUT),
            self.reads_back(id, register::TIMEOUT, timeout, "watchdog (50 µs each)"),
        ])
    }

    fn store(&self, id: u8) -> Result<Vec<Ask>, String> {
        let read = move |frame: &Frame| {
            let reply = RegisterReply::parse(frame.payload(), id).filter(|_| is_reply(frame))?;
            let wrong = (reply.register != 1).then(|| "it did not store its settings".to_owned());
            (reply.asked == damiao::STORE).then(|| Answer { id, wrong, ..Answer::default() })
        };
        let frame = damiao::frame(damiao::REGISTERS, self.can_fd, Access::Store.to_bytes(id));
        Ok(vec![self.is_disabled(id), Ask::one(id, frame, read)])
    }
}

/// Where a motor of this id replies, as robot files have it without `damiao.master_id`.
const fn master_id(id: u8) -> u8 {
    id + 0x10
}

/// The number of a register, as this family has them.
fn number(wanted: &Wanted<'_>) -> Result<u8, String> {
    // Each has one format, whichever is asked for.
    u8::try_from(wanted.number)
        .map_err(|_| format!("a Damiao has no register {}; the last is 81", wanted.number))
}

impl Settings {
    /// Asks for the state, which is wrong unless the output is off.
    fn is_off(&self, id: u8) -> Ask {
        let state = self.state(id, &Mounting::default(), damiao::REGISTERS, Access::Refresh.to_bytes(id));
        judged(state, |answer| {
            let mode = answer.mode.filter(|mode| mode.number == status::ENABLED)?;
            Some(output_is_on(mode.name))
        })
    }

    /// The same, which is wrong in a fault, too: then nothing is stored.
    fn is_disabled(&self, id: u8) -> Ask {
        let state = self.state(id, &Mounting::default(), damiao::REGISTERS, Access::Refresh.to_bytes(id));
        judged(state, |answer| {
            let mode = answer.mode.filter(|mode| mode.number != status::DISABLED)?;
            Some(format!("it stores its settings only when it is disabled, and it says \"{}\"", mode.name))
        })
    }

    /// Reads a register that must have this value.
    fn reads_back(&self, id: u8, register: u8, value: u32, what: &'static str) -> Ask {
        self.access_judged(id, Access::Read(register), register, move |reply| {
            let is = u32::from_le_bytes(reply.value);
            (is != value)
                .then(|| format!("its {what} (register {register}) is {is} although {value} was written"))
        })
    }

    fn read(&self, id: u8, register: u8) -> Ask {
        self.access(id, Access::Read(register), register)
    }

    /// The identifier of replies is not looked at: it is what one would want to find out.
    fn access(&self, id: u8, access: Access, register: u8) -> Ask {
        self.access_judged(id, access, register, |_| None)
    }

    /// A register that must be as it is in the robot file, or as it was written just now, for the servo to be driven.
    fn required(&self, id: u8, register: u8, timeout: u32) -> Ask {
        let settings = self.clone();
        self.access_judged(id, Access::Read(register), register, move |reply| {
            ready::wrong(&settings, id, timeout, reply)
        })
    }

    fn access_judged(
        &self,
        id: u8,
        access: Access,
        register: u8,
        wrong: impl Fn(&RegisterReply) -> Option<String> + Send + 'static,
    ) -> Ask {
        let is_read = matches!(access, Access::Read(_));
        let read = move |frame: &Frame| {
            let reply = RegisterReply::parse(frame.payload(), id).filter(|_| is_reply(frame))?;
            // Some motors answer a write like a read.
            let is_meant = reply.register == register && (reply.asked == damiao::READ || !is_read);
            is_meant.then(|| Answer { wrong: wrong(&reply), ..register_answer(id, &reply) })
        };
        let frame = damiao::frame(damiao::REGISTERS, self.can_fd, access.to_bytes(id));
        Ask::one(id, frame, read)
    }

    /// A request that is answered by the state.
    fn state(&self, id: u8, mounting: &Mounting, to: u32, payload: [u8; 8]) -> Ask {
        let (settings, mounting) = (self.clone(), *mounting);
        let read = move |frame: &Frame| {
            let is_state = is_reply(frame) && RegisterReply::parse(frame.payload(), id).is_none();
            let state = State::parse(frame.payload()).filter(|_| is_state)?;
            (state.id == id & 0xf)
                .then(|| mit::by_hand::answer(id, &reported(&state), &settings.drive, &mounting))
        };
        Ask::one(id, damiao::frame(to, self.can_fd, payload), read)
    }

    fn order(&self, id: u8, mounting: &Mounting, order: &Order) -> Result<Vec<Ask>, String> {
        let special = |code: Special| self.state(id, mounting, id.into(), code.to_bytes());
        let Some(driven) = mit::by_hand::driven(&self.drive, mounting, order, "a Damiao")? else {
            // What switches it off comes first: the next is sent only when the one before has been answered.
            return Ok(vec![special(Special::Disable), special(Special::Clear)]);
        };
        let timeout = driven.watchdog_s.map_or(0, |seconds| ready::timeout(seconds, 0));
        let mut asks = vec![
            special(Special::Disable),
            self.access(id, Access::Write(register::TIMEOUT, timeout.to_le_bytes()), register::TIMEOUT),
        ];
        // The watchdog last: replies keep their order, so the echo of its write has come by then.
        let required = ready::WATCHED.into_iter().filter(|&register| register != register::MASTER_ID);
        let required = required.chain([register::TIMEOUT]);
        asks.extend(required.map(|register| self.required(id, register, timeout)));
        let commands = [Message::Command(driven.damp), Message::Enable, Message::Command(driven.command)];
        asks.extend(
            commands.map(|message| Ask { frame: self.frame(id, message), ..special(Special::Disable) }),
        );
        Ok(asks)
    }
}

/// It goes to no servo: commands go to ids up to 15, and those plus a multiple of 0x100.
fn is_reply(frame: &Frame) -> bool {
    !frame.extended && frame.id != damiao::REGISTERS
}

fn register_answer(id: u8, reply: &RegisterReply) -> Answer {
    let number = reply.number();
    let mut answer = Answer { id, ..Answer::default() };
    match reply.register {
        register::VOLTAGE => answer.voltage = Some(number),
        register::TIMEOUT => answer.watchdog_s = Some(number / damiao::TIMEOUT_PER_S),
        register::SOFTWARE => answer.identity.firmware = Some(format!("{number}")),
        register::SERIAL => answer.identity.serial = Some(format!("{number}")),
        _ => {}
    }
    answer.registers.insert(reply.register.into(), number);
    answer
}

#[cfg(test)]
mod tests {
    use super::super::{DamiaoSettings, Model};
    use super::*;
    use crate::PositionCommand;
    use khz_wire::mit::Codes;

    fn settings() -> Settings {
        Settings::of(&DamiaoSettings { model: Some(Model::Dm4310), ..DamiaoSettings::default() }, 1)
    }

    fn refusal(order: Order) -> String {
        ByHand::exchange(&settings(), 1, &Mounting::default(), Some(&order), &[]).unwrap_err()
    }

    #[test]
    fn a_command_by_hand_sets_the_watchdog_first() {
        let command = PositionCommand::hold(0.5);
        let order = Order::Position { command, watchdog_s: 0.05 };
        let asks = ByHand::exchange(&settings(), 1, &Mounting::default(), Some(&order), &[]).unwrap();
        let sent: Vec<&[u8]> = asks.iter().map(|ask| ask.frame.payload()).collect();
        assert_eq!(sent[0], Special::Disable.to_bytes());
        assert_eq!(sent[1], [1, 0, 0x55, 9, 0xe8, 3, 0, 0]);
        // Id, ranges, control mode, and the watchdog last.
        for (at, register) in [8, 21, 22, 23, 10, 9].into_iter().enumerate() {
            assert_eq!(sent[2 + at][..4], [1, 0, 0x33, register]);
        }
        let damp = Codes::from_bytes(sent[8].try_into().unwrap());
        assert!(damp.kp == 0 && damp.kd > 0);
        assert_eq!(sent[9], Special::Enable.to_bytes());
        assert_eq!(sent[10][..2], [0x85, 0x1e]);
        assert_eq!(sent.len(), 13);
    }

    #[test]
    fn an_order_by_hand_is_refused_by_a_motor_with_other_ranges_or_another_mode() {
        let order = Order::Position { command: PositionCommand::hold(0.1), watchdog_s: 0.05 };
        let asks = ByHand::exchange(&settings(), 1, &Mounting::default(), Some(&order), &[]).unwrap();
        let wrong = |at: usize, payload: [u8; 8]| {
            (asks[at].read)(&Frame::classic(0x11, &payload).unwrap()).unwrap().wrong
        };
        let [b0, b1, b2, b3] = 50.0_f32.to_le_bytes();
        let why = wrong(3, [1, 0, 0x33, 21, b0, b1, b2, b3]).unwrap();
        assert!(why.contains("is 50 rad, the robot file says 12.5"), "{why}");
        let why = wrong(6, [1, 0, 0x33, 10, 2, 0, 0, 0]).unwrap();
        assert!(why.contains("control mode (register 10) is 2, not 1"), "{why}");
        assert_eq!(wrong(6, [1, 0, 0x33, 10, 1, 0, 0, 0]), None);
        assert!(wrong(7, [1, 0, 0x33, 9, 0, 0, 0, 0]).is_some());
        // The echo of the write is no reading, and no register is a state.
        let echo = Frame::classic(0x11, &[1, 0, 0x55, 9, 0xe8, 3, 0, 0]).unwrap();
        assert!((asks[1].read)(&echo).is_some() && (asks[7].read)(&echo).is_none());
        for asked in [0x33, 0x55, 0xaa] {
            assert_eq!((asks[0].read)(&Frame::classic(0x11, &[1, 0, asked, 1, 0, 0, 0, 0]).unwrap()), None);
        }
    }

    #[test]
    fn damping_by_hand_has_its_own_gain_also_where_none_drives() {
        let mut settings = settings();
        (settings.drive.kd, settings.drive.damping) = (0.0, 2.0);
        let order = Order::Damp { kd_scale: 0.5, watchdog_s: 0.05 };
        let asks = ByHand::exchange(&settings, 1, &Mounting::default(), Some(&order), &[]).unwrap();
        let codes = Codes::from_bytes(asks[10].frame.payload().try_into().unwrap());
        assert_eq!((codes.kp, codes.kd), (0, khz_wire::damiao::KD.encode(1.0)));
    }

    #[test]
    fn what_would_go_on_for_ever_or_jump_is_refused() {
        let hold = PositionCommand::hold(0.5);
        assert!(refusal(Order::Position { command: hold, watchdog_s: 0.0 }).contains("for ever"));
        assert!(refusal(Order::Damp { kd_scale: 1.0, watchdog_s: 0.0 }).contains("for ever"));
        let anywhere = PositionCommand { position: f64::NAN, ..hold };
        assert!(refusal(Order::Position { command: anywhere, watchdog_s: 0.1 }).contains("give a position"));
        let limited = PositionCommand { max_torque: 1.0, ..hold };
        assert!(refusal(Order::Position { command: limited, watchdog_s: 0.1 }).contains("leave it out"));
    }

    #[test]
    fn a_written_register_is_read_back_and_known_by_its_name() {
        let settings = settings();
        assert_eq!(settings.register("timeout"), Some(9));
        let timeout = Wanted { number: 9, format: None };
        let asks = settings.write(1, &timeout, 1000.0).unwrap();
        assert_eq!(asks[1].frame.payload(), [1, 0, 0x33, 9, 0, 0, 0, 0]);
        let reply = Frame::classic(0x11, &[1, 0, 0x33, 9, 0xe8, 3, 0, 0]).unwrap();
        let answer = (asks[1].read)(&reply).unwrap();
        assert_eq!(answer.registers.get(&9), Some(&1000.0));
        assert!(settings.write(1, &timeout, 0.5).is_err());
        assert!(settings.write(1, &Wanted { number: 300, format: None }, 1.0).is_err());
    }

    #[test]
    fn what_is_beyond_the_motor_is_refused_and_not_cut() {
        let order = |command| Order::Position { command, watchdog_s: 0.1 };
        let hold = PositionCommand::hold;
        for command in [
            hold(100.0),
            hold(f64::INFINITY),
            PositionCommand { torque: 1e9, ..hold(0.0) },
            PositionCommand { kp_scale: 50.0, ..hold(0.0) },
            PositionCommand { kd_scale: -1.0, ..hold(0.0) },
        ] {
            assert!(!refusal(order(command)).is_empty());
        }
        for watchdog_s in [-1.0, f64::INFINITY] {
            assert!(refusal(Order::Position { command: hold(0.0), watchdog_s }).contains("watchdog"));
        }
    }

    #[test]
    fn stop_switches_off_before_it_clears() {
        let asks = ByHand::exchange(&settings(), 1, &Mounting::default(), Some(&Order::Stop), &[]).unwrap();
        assert_eq!(asks[0].frame.payload(), Special::Disable.to_bytes());
    }
}
