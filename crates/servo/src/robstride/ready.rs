//! What is sent to and requested from a servo before it may be driven: it is off, it is there, its codes can mean what the robot file says,
//! and its watchdog is on.

use super::Settings;
use crate::exchange::{Exchange, Heard};
use khz_wire::Frame;
use khz_wire::robstride::{FAULTS, Reply, Request, State, TIMEOUT_PER_S, kind, mode, parameter, parts};

/// Said of a motor that does not answer.
const IF_SILENT: &str = "check its power, its id, the bit rate (1 Mbit/s), and that it speaks the private protocol of its maker, not MIT or \
                         CANopen";

/// Said of a CyberGear that does not tell its watchdog.
const UNTOLD: &str = "firmware differs in that; write `robstride.unwatched = true` if you accept that without this computer it may follow \
                      its last command for ever";

/// What carries a run's mark: the parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub [u8; 4]);

impl Mark {
    pub fn of(settings: &Settings, watchdog_s: f64, mark: u32) -> Self {
        if settings.cybergear {
            // Nothing in operation mode uses the speed limit. 2 rad/s is what it has from the factory.
            let value = 2.0 + f64::from(mark) * 0.01;
            Self(parameter::value(parameter::SPEED_LIMIT, value))
        } else {
            Self((timeout(watchdog_s) + mark).to_le_bytes())
        }
    }
}

/// The watchdog as it travels. 0 would switch it off.
pub fn timeout(seconds: f64) -> u32 {
    ((seconds * TIMEOUT_PER_S).round() as u32).max(1)
}

/// What a parameter tells is as it was set. Does not allocate.
pub fn is_as_set(settings: &Settings, mark: Option<Mark>, parameter: u16, value: Option<[u8; 4]>) -> bool {
    match (parameter, value) {
        // Told or not: it is read as a mark only.
        (parameter, None) => !is_watched(settings, parameter),
        (parameter, Some(value)) if parameter == settings.power_mark() => mark == Some(Mark(value)),
        (parameter::RUN_MODE, Some(value)) => value[0] == 0,
        (parameter::TORQUE_LIMIT, Some(value)) => is_in_range(settings, value),
        _ => true,
    }
}

fn is_watched(settings: &Settings, parameter: u16) -> bool {
    parameter == settings.power_mark() || matches!(parameter, parameter::RUN_MODE | parameter::TORQUE_LIMIT)
}

fn is_in_range(settings: &Settings, value: [u8; 4]) -> bool {
    parameter::number(parameter::TORQUE_LIMIT, value) <= settings.drive.ranges[2] * 1.001
}

/// The exchanges in their order. What is written is read back, as its answer is only a state. The mark is in the servo before all else is
/// read, and is read last: the servo has kept its power meanwhile.
pub fn dialogue(settings: &Settings, id: u8, watchdog_s: f64, mark: u32) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let Mark(value) = Mark::of(settings, watchdog_s, mark);
    let power_mark = settings.power_mark();
    let mut exchanges = vec![
        servo.state("switch off", Request::Stop { clear: false }, |_| Heard::Good),
        servo.identity(),
        servo.state("clear its faults", Request::Stop { clear: true }, is_off),
    ];
    if !settings.cybergear {
        exchanges.push(servo.state("stop sending reports", Request::Report(false), |_| Heard::Good));
    }
    exchanges.push(servo.read("the mark of earlier runs", power_mark, move |told| {
        if told == Some(value) { Heard::Used } else { Heard::Good }
    }));
    let writes = [("set its watchdog", power_mark, value), ("set its run mode", parameter::RUN_MODE, [0; 4])];
    exchanges.extend(writes.map(|(what, parameter, value)| {
        servo.state(what, Request::Write(parameter, value), |_| Heard::Good)
    }));
    if settings.cybergear && !settings.unwatched {
        exchanges.extend(servo.stored_watchdog(timeout(watchdog_s).to_le_bytes()));
    }
    let required = [parameter::RUN_MODE, parameter::TORQUE_LIMIT, power_mark];
    exchanges.extend(required.map(|parameter| servo.is_as_set(parameter, Mark(value))));
    exchanges
}

fn is_off(state: &State) -> Heard {
    match (state.mode, state.faults) {
        (mode::RESET, 0) => Heard::Good,
        (mode::RESET, faults) => Heard::Wrong(format!(
            "it says \"{}\" although it was commanded to clear its faults; find out why before you drive it",
            named(faults)
        )),
        (other, _) => Heard::Wrong(format!(
            "it says \"{}\" although it was commanded to switch off; find out who drives it",
            mode::name(other)
        )),
    }
}

/// Every fault of these bits.
pub fn named(faults: u8) -> String {
    let named = FAULTS.iter().enumerate().filter(|(bit, _)| faults >> bit & 1 == 1);
    named.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// Why the servo must not be driven, if a parameter says something else than it has to.
pub fn wrong(settings: &Settings, mark: Mark, parameter: u16, told: Option<[u8; 4]>) -> Option<String> {
    if is_as_set(settings, Some(mark), parameter, told) {
        return None;
    }
    let Some(value) = told else {
        return Some(format!(
            "it has no parameter 0x{parameter:04X}: its firmware is too old, or it is another `robstride.model`"
        ));
    };
    let number = parameter::number(parameter, value);
    Some(match parameter {
        parameter::RUN_MODE => {
            format!(
                "its run mode (parameter 0x7005) is {number}, not 0, although it was set; is another program running?"
            )
        }
        parameter::TORQUE_LIMIT => format!(
            "its torque limit (parameter 0x700B) is {number} N·m, beyond the range of {} N·m in the robot file: it is another \
             `robstride.model`, or `robstride.torque_range` is wrong",
            settings.drive.ranges[2]
        ),
        _ => {
            let expected = parameter::number(parameter, mark.0);
            format!(
                "parameter 0x{parameter:04X} is {number}, not {expected}, although it was set; is another program running?"
            )
        }
    })
}

struct Servo<'a> {
    settings: &'a Settings,
    id: u8,
}

impl Servo<'_> {
    fn exchange(
        &self,
        what: String,
        request: Request,
        judge: impl Fn(Reply, &Frame) -> Heard + Send + 'static,
    ) -> Exchange {
        let (settings, id) = (self.settings.clone(), self.id);
        Exchange {
            what,
            if_silent: IF_SILENT,
            frame: self.settings.request(self.id, request),
            judge: Box::new(move |frame| {
                settings.reply(id, frame).map_or(Heard::SomethingElse, |reply| judge(reply, frame))
            }),
        }
    }

    /// A request that is answered by the state. What a servo reports by itself is no answer.
    fn state(
        &self,
        what: &str,
        request: Request,
        judge: impl Fn(&State) -> Heard + Send + 'static,
    ) -> Exchange {
        self.exchange(what.to_owned(), request, move |reply, frame| match reply {
            Reply::State(state) if parts(frame).is_some_and(|(kind, ..)| kind == kind::STATE) => {
                judge(&state)
            }
            _ => Heard::SomethingElse,
        })
    }

    fn identity(&self) -> Exchange {
        self.exchange("tell who it is".to_owned(), Request::Identity, |reply, _| match reply {
            Reply::Identity { .. } => Heard::Good,
            _ => Heard::SomethingElse,
        })
    }

    fn read(
        &self,
        what: &str,
        parameter: u16,
        judge: impl Fn(Option<[u8; 4]>) -> Heard + Send + 'static,
    ) -> Exchange {
        let what = format!("tell parameter 0x{parameter:04X}, {what}");
        self.exchange(what, Request::Read(parameter), move |reply, _| match reply {
            Reply::Value { parameter: told, value, .. } if told == parameter => judge(value),
            _ => Heard::SomethingElse,
        })
    }

    fn is_as_set(&self, parameter: u16, mark: Mark) -> Exchange {
        let settings = self.settings.clone();
        let what = match parameter {
            parameter::RUN_MODE => "its run mode",
            parameter::TORQUE_LIMIT => "its torque limit",
            _ => "which was set",
        };
        self.read(what, parameter, move |told| {
            wrong(&settings, mark, parameter, told).map_or(Heard::Good, Heard::Wrong)
        })
    }

    /// The watchdog of a CyberGear is in a table of its own.
    fn stored_watchdog(&self, value: [u8; 4]) -> [Exchange; 2] {
        let write = Request::Write(parameter::CYBERGEAR_TIMEOUT, value);
        let told = move |reply: Reply, _: &Frame| match reply {
            Reply::Stored { parameter: parameter::CYBERGEAR_TIMEOUT, value: told, .. } if told == value => {
                Heard::Good
            }
            Reply::Stored { parameter: parameter::CYBERGEAR_TIMEOUT, .. } => {
                Heard::Wrong(format!("its watchdog (parameter 0x200C) is not as it was set; {UNTOLD}"))
            }
            _ => Heard::SomethingElse,
        };
        let read = self.exchange(
            "tell parameter 0x200C, its watchdog".to_owned(),
            Request::ReadStored(parameter::CYBERGEAR_TIMEOUT),
            told,
        );
        [self.state("set its watchdog", write, |_| Heard::Good), Exchange { if_silent: UNTOLD, ..read }]
    }
}
