//! A RobStride servo by hand: a frame for each thing, and only one servo at a time can be asked.

use super::ready::{self, Mark};
use super::{Model, RobstrideSettings, Settings, reported};
use crate::Mounting;
use crate::by_hand::{Answer, Ask, ByHand, Order, Wanted, ZERO, in_turn, judged, not_zero, output_is_on};
use crate::mit::{self, Message};
use khz_wire::Frame;
use khz_wire::robstride::{MOST_ID, Reply, Request, State, TIMEOUT_PER_S, mode, parameter};
use std::ops::RangeInclusive;

/// Read from each servo that is asked who it is. Of these a CyberGear has all but the watchdog.
const SHOWN: [u16; 4] =
    [parameter::VOLTAGE, parameter::RUN_MODE, parameter::TORQUE_LIMIT, parameter::TIMEOUT];

/// Angle and velocity of the output as parameters: rad, rad/s.
const POSITION: u16 = 0x7019;
const VELOCITY: u16 = 0x701b;

impl ByHand for Settings {
    fn ids(&self) -> RangeInclusive<u8> {
        1..=MOST_ID
    }

    /// The version of the firmware is not asked for: no source states whether the request switches the output off.
    fn who(&self, id: u8) -> Vec<Ask> {
        let shown = SHOWN.into_iter().filter(|&number| !self.cybergear || number != parameter::TIMEOUT);
        let mut asks = vec![self.identity(id)];
        asks.extend(shown.map(|number| self.read(id, number)));
        asks.extend(self.state_of(id, &Mounting::default()));
        asks
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
        let state = std::iter::once(self.read(id, parameter::VOLTAGE)).chain(self.state_of(id, mounting));
        in_turn(order, registers, |wanted| Ok(self.read(id, wanted.number)), state)
    }

    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String> {
        let number = register.number;
        let bytes = parameter::value(number, value);
        let is = parameter::number(number, bytes);
        let differs = if parameter::integer(number) > 0 { is != value } else { !is.is_finite() };
        if differs {
            return Err(format!("parameter 0x{number:04X} cannot be {value}"));
        }
        let write = self.state(id, &Mounting::default(), Request::Write(number, bytes));
        Ok(vec![write, self.read(id, number)])
    }

    fn in_file(&self, answer: &Answer) -> Vec<String> {
        let limit = answer.registers.get(&parameter::TORQUE_LIMIT).copied().unwrap_or(f64::NAN);
        let is = |torque: f64| (torque - limit).abs() < 0.01;
        let fits = |model: &Model| {
            let facts = model.facts();
            facts.torque.into_iter().chain([facts.limit]).any(is)
        };
        let mut fitting: Vec<Model> = Model::ALL.iter().copied().filter(fits).collect();
        // The manual's figures count for more, and then one on which the sources agree.
        fitting.sort_by_key(|model| {
            let facts = model.facts();
            let [manual, package] = facts.torque;
            (!is(facts.limit), !is(manual), manual != package)
        });
        let model = fitting.first().copied().unwrap_or_default();
        let words: Vec<_> = fitting.iter().map(|model| model.word()).collect();
        let guess = if words.is_empty() { "no known model".to_owned() } else { words.join(" or ") };
        let (ranges, notes): (Vec<_>, Vec<_>) = disputed(model, limit).into_iter().unzip();
        let keys = [vec![format!("model = \"{model}\"")], ranges].concat().join(", ");
        // A guess is not written as true: the file cannot be used before its model is named.
        let mut lines = vec![
            format!(
                "# NAME `model`: no servo reports it. By its torque limit of {limit} N·m this is {guess}."
            ),
            format!("# The first of these is written: {keys}"),
        ];
        lines.extend(notes);
        let RobstrideSettings { kp, kd, damping, .. } = RobstrideSettings::default();
        let gains = mit::gains_in_file(kp, kd, damping);
        lines.push(format!("robstride = {{ model = \"{}\", {gains} }}", mit::UNNAMED));
        lines
    }

    fn set_register(&self, id: u8, register: u16, value: f64) -> Result<Vec<Ask>, String> {
        let written = parameter::number(register, parameter::value(register, value));
        let write = self.write(id, &Wanted { number: register, format: None }, value)?;
        Ok(mit::by_hand::set_register(self.is_off(id)?, write, register, self.called(register), written))
    }

    fn called(&self, register: u16) -> String {
        mit::by_hand::called(&parameter::NAMES, register, &format!("parameter 0x{register:04X}"))
    }

    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        let here = Mounting::default();
        let read_back = judged(self.state(id, &here, Request::Report(false)), |answer| {
            answer.position.filter(|position| position.abs() > ZERO).map(not_zero)
        });
        Ok(vec![self.is_off(id)?, self.state(id, &here, Request::SetZero), read_back])
    }

    /// From half a second after it a servo neither receives nor sends anything for up to 67 ms.
    fn zero_takes_s(&self) -> f64 {
        0.8
    }

    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        if !self.ids().contains(&new) {
            return Err(format!("a RobStride cannot have id {new}: ids are from 1 to {MOST_ID}"));
        }
        // Its answer comes from the new id, or from the old one once more.
        let read = move |frame: &Frame| match Reply::parse(frame) {
            Some(Reply::Identity { id: from, .. }) if [id, new].contains(&from) => {
                Some(Answer { id, ..Answer::default() })
            }
            _ => None,
        };
        let write = Ask::one(id, self.request(id, Request::SetId(new)), read);
        Ok(vec![self.is_off(id)?, write, self.identity(new)])
    }

    fn set_watchdog(&self, id: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        let timeout = mit::by_hand::timeout(seconds)?;
        let write = Request::Write(parameter::TIMEOUT, timeout.to_le_bytes());
        let read_back = self.read_judged(id, parameter::TIMEOUT, move |value| {
            let value = value.map(u32::from_le_bytes);
            (value != Some(timeout)).then(|| match value {
                Some(value) => format!("its watchdog (50 µs each) is {value} although {timeout} was written"),
                None => "it has no watchdog: its firmware is too old".to_owned(),
            })
        });
        Ok(vec![self.is_off(id)?, self.state(id, &Mounting::default(), write), read_back])
    }

    fn store(&self, id: u8) -> Result<Vec<Ask>, String> {
        Ok(vec![self.is_off(id)?, self.state(id, &Mounting::default(), Request::Store)])
    }

    fn register(&self, name: &str) -> Option<u16> {
        mit::by_hand::register(&parameter::NAMES, name)
    }
}

impl Settings {
    /// A request, and how to read its answer.
    fn ask(&self, id: u8, request: Request, read: impl Fn(Reply) -> Option<Answer> + Send + 'static) -> Ask {
        let settings = self.clone();
        Ask::one(id, self.request(id, request), move |frame| settings.reply(id, frame).and_then(&read))
    }

    fn identity(&self, id: u8) -> Ask {
        self.ask(id, Request::Identity, move |reply| match reply {
            Reply::Identity { number, .. } => {
                let mut answer = Answer { id, ..Answer::default() };
                answer.identity.serial = Some(number.map(|byte| format!("{byte:02x}")).concat());
                Some(answer)
            }
            _ => None,
        })
    }

    /// Asks for the state, which is wrong unless the output is off.
    fn is_off(&self, id: u8) -> Result<Ask, String> {
        if self.cybergear {
            return Err("a CyberGear does not tell whether its output is on: use its maker's tool".to_owned());
        }
        Ok(judged(self.state(id, &Mounting::default(), Request::Report(false)), |answer| {
            let mode = answer.mode.filter(|mode| mode.number != mode::RESET)?;
            Some(output_is_on(mode.name))
        }))
    }

    fn read(&self, id: u8, number: u16) -> Ask {
        self.read_judged(id, number, |_| None)
    }

    /// A parameter that must be as it was written just now, or fit the robot file, for the servo to be driven.
    fn required(&self, id: u8, number: u16, mark: Mark) -> Ask {
        let settings = self.clone();
        self.read_judged(id, number, move |value| ready::wrong(&settings, mark, number, value))
    }

    fn read_judged(
        &self,
        id: u8,
        number: u16,
        wrong: impl Fn(Option<[u8; 4]>) -> Option<String> + Send + 'static,
    ) -> Ask {
        self.ask(id, Request::Read(number), move |reply| match reply {
            Reply::Value { parameter, value, .. } if parameter == number => {
                let wrong = wrong(value);
                Some(Answer { wrong, ..value_answer(id, number, value) })
            }
            _ => None,
        })
    }

    /// A request that is answered by the state.
    fn state(&self, id: u8, mounting: &Mounting, request: Request) -> Ask {
        let (drive, mounting) = (self.drive.clone(), *mounting);
        self.ask(id, request, move |reply| match reply {
            Reply::State(state) => Some(answer(id, &state, &drive, &mounting)),
            _ => None,
        })
    }

    /// Requests its state and changes nothing, except that a servo that reports by itself stops that. A CyberGear does not report; it
    /// sends angle and velocity, and not whether its output is on.
    fn state_of(&self, id: u8, mounting: &Mounting) -> Vec<Ask> {
        if !self.cybergear {
            return vec![self.state(id, mounting, Request::Report(false))];
        }
        let measured = |number: u16| {
            let mounting = *mounting;
            self.ask(id, Request::Read(number), move |reply| {
                let Reply::Value { parameter, value: Some(value), .. } = reply else { return None };
                let value = parameter::number(parameter, value);
                let mut answer = Answer { id, ..Answer::default() };
                match parameter {
                    POSITION if parameter == number => answer.position = Some(mounting.to_joint(value)),
                    VELOCITY if parameter == number => answer.velocity = Some(mounting.sign * value),
                    _ => return None,
                }
                Some(answer)
            })
        };
        vec![measured(POSITION), measured(VELOCITY)]
    }

    fn order(&self, id: u8, mounting: &Mounting, order: &Order) -> Result<Vec<Ask>, String> {
        let state = |request: Request| self.state(id, mounting, request);
        let off = state(Request::Stop { clear: false });
        let Some(driven) = mit::by_hand::driven(&self.drive, mounting, order, "a RobStride")? else {
            // What switches it off comes first: the next is sent only when the one before has been answered.
            return Ok(vec![off, state(Request::Stop { clear: true })]);
        };
        if self.cybergear && driven.watchdog_s.is_some() {
            return Err("the watchdog of a CyberGear cannot be set by hand here: give NaN if it may follow its last command for \
                        ever"
                .to_owned());
        }
        let timeout = driven.watchdog_s.map_or(0, mit::timeout).to_le_bytes();
        let mark = Mark(timeout);
        let mut asks = vec![off];
        if !self.cybergear {
            asks.push(state(Request::Report(false)));
            asks.push(state(Request::Write(parameter::TIMEOUT, timeout)));
        }
        let required = [parameter::RUN_MODE, parameter::TORQUE_LIMIT, parameter::TIMEOUT];
        let known = required.into_iter().filter(|&number| !self.cybergear || number != parameter::TIMEOUT);
        asks.extend(known.map(|number| self.required(id, number, mark)));
        let commands = [Request::Command(driven.damp), Request::Enable, Request::Command(driven.command)];
        asks.extend(commands.map(state));
        Ok(asks)
    }
}

/// The keys that a robot file must have where sources differ on a model's ranges, each with a comment that has both figures. Where the
/// manual's range of torques does not hold the servo's own limit, the package's is taken.
fn disputed(model: Model, torque_limit: f64) -> Vec<(String, String)> {
    let facts = model.facts();
    let [manual, package] = facts.torque;
    let torque = if torque_limit > manual { manual.max(package) } else { manual };
    let ranges = [
        ("velocity_range", facts.velocity, facts.velocity[0], "rad/s"),
        ("torque_range", facts.torque, torque, "N·m"),
    ];
    let differ = ranges.into_iter().filter(|(_, [manual, package], ..)| manual != package);
    let line = |(key, [manual, package], taken, unit): (&str, [f64; 2], f64, &str)| {
        let note = format!(
            "# `{key}` of an {model}: {manual} {unit} by its manual, {package} by its maker's Python package; compare as docs/servos.md says."
        );
        (format!("{key} = {taken}"), note)
    };
    differ.map(line).collect()
}

fn value_answer(id: u8, number: u16, value: Option<[u8; 4]>) -> Answer {
    let mut answer = Answer { id, ..Answer::default() };
    let Some(value) = value else {
        answer.refused = Some((number.into(), 1));
        return answer;
    };
    let value = parameter::number(number, value);
    match number {
        parameter::VOLTAGE => answer.voltage = Some(value),
        parameter::TIMEOUT => answer.watchdog_s = Some(value / TIMEOUT_PER_S),
        _ => {}
    }
    answer.registers.insert(number, value);
    answer
}

fn answer(id: u8, state: &State, drive: &mit::Drive, mounting: &Mounting) -> Answer {
    mit::by_hand::answer(id, &reported(state), drive, mounting)
}

#[cfg(test)]
mod tests {
    use super::super::RobstrideSettings;
    use super::*;
    use crate::PositionCommand;

    fn settings(model: Model) -> Settings {
        Settings::of(&RobstrideSettings { model: Some(model), ..RobstrideSettings::default() })
    }

    fn sent(model: Model, order: Order) -> Result<Vec<Request>, String> {
        let asks = settings(model).order(1, &Mounting::default(), &order)?;
        Ok(asks.iter().map(|ask| Request::parse(&ask.frame).unwrap().0).collect())
    }

    #[test]
    fn an_order_sets_and_reads_the_watchdog_before_the_motor_is_enabled() {
        let order = Order::Position { command: PositionCommand::hold(0.5), watchdog_s: 0.05 };
        let sent = sent(Model::Rs02, order).unwrap();
        assert_eq!(sent[0], Request::Stop { clear: false });
        let at = |request: Request| sent.iter().position(|sent| *sent == request).unwrap();
        let write = at(Request::Write(parameter::TIMEOUT, 1000_u32.to_le_bytes()));
        let (read, enable) = (at(Request::Read(parameter::TIMEOUT)), at(Request::Enable));
        assert!(write < read && read < enable);
        assert!(matches!(sent[enable - 1], Request::Command(codes) if codes.kp == 0));
        assert!(
            matches!(sent[enable + 1], Request::Command(codes) if codes.kp > 0 && codes.position == 0x8517)
        );
        assert_eq!(sent.len(), enable + 2);
    }

    #[test]
    fn a_new_robot_file_suggests_the_likeliest_model_with_its_ranges_and_names_none() {
        for (limit, keys) in [
            (17.0, "model = \"RS01\""),
            (14.0, "model = \"RS00\", velocity_range = 33, torque_range = 14"),
            (60.0, "model = \"RS03\", velocity_range = 20"),
            (36.0, "model = \"RS06\", velocity_range = 50, torque_range = 36"),
            (99.0, "model = \"RS00\", velocity_range = 33, torque_range = 17"),
        ] {
            let registers = [(parameter::TORQUE_LIMIT, limit)].into();
            let lines = settings(Model::Rs02).in_file(&Answer { registers, ..Answer::default() });
            let written = "robstride = { model = \"?\", kp = 20, kd = 0.5, damping = 1 }";
            assert_eq!(lines.last().unwrap(), written);
            assert!(lines[1].ends_with(keys), "{lines:?}");
            let notes = lines[2..lines.len() - 1].iter();
            assert!(notes.clone().all(|note| note.starts_with("# `") && note.contains("by its manual")));
            assert_eq!(notes.count(), keys.matches("_range").count());
            assert!(lines[0].starts_with("# NAME `model`"), "{lines:?}");
            assert_eq!(lines[0].contains("this is RS00 or RS02."), limit == 14.0, "{lines:?}");
        }
    }

    #[test]
    fn stop_switches_off_before_it_clears() {
        assert_eq!(
            sent(Model::Rs02, Order::Stop).unwrap(),
            [false, true].map(|clear| Request::Stop { clear })
        );
    }

    #[test]
    fn what_would_go_on_for_ever_is_refused() {
        let damp = |watchdog_s| Order::Damp { kd_scale: 1.0, watchdog_s };
        assert!(sent(Model::Rs02, damp(0.0)).unwrap_err().contains("for ever"));
        assert!(sent(Model::CyberGear, damp(0.1)).unwrap_err().contains("CyberGear"));
    }

    #[test]
    fn a_parameter_that_is_not_there_is_refused_and_integers_stay_whole() {
        let settings = settings(Model::Rs02);
        let ask = settings.read(1, 0x7999);
        let reply = Reply::Value { id: 1, host: 253, parameter: 0x7999, value: None };
        assert_eq!((ask.read)(&reply.to_frame()).unwrap().refused, Some((0x7999, 1)));
        let timeout = Wanted { number: parameter::TIMEOUT, format: None };
        assert!(settings.write(1, &timeout, 0.5).is_err());
        assert_eq!(settings.write(1, &timeout, 2000.0).unwrap().len(), 2);
        assert_eq!(settings.register("cantimeout"), Some(parameter::TIMEOUT));
    }
}
