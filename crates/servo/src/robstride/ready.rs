//! What is sent to and requested from a servo before it may be driven: it is off, it is there, its codes can mean what the robot file sets,
//! and its watchdog is on.

use super::Settings;
use crate::exchange::{Exchange, ReplyCheck};
use crate::mit;
use khz_wire::robstride::{FAULTS, Reply, Request, State, mode, parameter};

/// The error for a motor that does not answer.
const IF_SILENT: &str = "check its power, its id, the bit rate (1 Mbit/s), and that it speaks the private protocol of its maker, not MIT or \
                         CANopen";

/// The error for a CyberGear that does not report its watchdog.
const UNREPORTED: &str = "firmware differs in that; write `robstride.unwatched = true` if you accept that without this computer it may follow \
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
            Self((mit::timeout(watchdog_s) + mark).to_le_bytes())
        }
    }
}

/// A reported parameter has the value it was set to. Does not allocate.
pub fn is_as_set(settings: &Settings, mark: Option<Mark>, parameter: u16, value: Option<[u8; 4]>) -> bool {
    match (parameter, value) {
        // Reported or not: it is read as a mark only.
        (parameter, None) => !is_watched(settings, parameter),
        (parameter, Some(value)) if parameter == settings.power_mark() => mark == Some(Mark(value)),
        (parameter::RUN_MODE, Some(value)) => value[0] == 0,
        (parameter::TORQUE_LIMIT, Some(value)) => is_of_model(settings, value),
        _ => true,
    }
}

fn is_watched(settings: &Settings, parameter: u16) -> bool {
    parameter == settings.power_mark() || matches!(parameter, parameter::RUN_MODE | parameter::TORQUE_LIMIT)
}

fn is_of_model(settings: &Settings, value: [u8; 4]) -> bool {
    let found = parameter::number(parameter::TORQUE_LIMIT, value);
    let is_known = settings.torque_limits.iter().any(|limit| (found - limit).abs() <= 1e-3 * limit);
    is_known && found <= settings.drive.ranges[2] * 1.001
}

/// The exchanges in their order. What is written is read back, as its answer is only a state. The mark is in the servo before all else is
/// read, and is read last: the servo has kept its power meanwhile.
pub fn dialogue(settings: &Settings, id: u8, watchdog_s: f64, mark: u32) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let Mark(value) = Mark::of(settings, watchdog_s, mark);
    let power_mark = settings.power_mark();
    let mut exchanges = vec![
        servo.state("switch off", Request::Stop { clear: false }, |_| ReplyCheck::Good),
        servo.identity(),
        servo.state("clear its faults", Request::Stop { clear: true }, is_off),
    ];
    if !settings.cybergear {
        exchanges.push(servo.state("stop sending reports", Request::Report(false), |_| ReplyCheck::Good));
    }
    exchanges.push(servo.read("the mark of earlier runs", power_mark, move |read| {
        if read == Some(value) { ReplyCheck::Used } else { ReplyCheck::Good }
    }));
    let writes = [("set its watchdog", power_mark, value), ("set its run mode", parameter::RUN_MODE, [0; 4])];
    exchanges.extend(writes.map(|(what, parameter, value)| {
        servo.state(what, Request::Write(parameter, value), |_| ReplyCheck::Good)
    }));
    if settings.cybergear && !settings.unwatched {
        exchanges.extend(servo.stored_watchdog(mit::timeout(watchdog_s).to_le_bytes()));
    }
    let required = [parameter::RUN_MODE, parameter::TORQUE_LIMIT, power_mark];
    exchanges.extend(required.map(|parameter| servo.is_as_set(parameter, Mark(value))));
    exchanges
}

fn is_off(state: &State) -> ReplyCheck {
    match (state.mode, state.faults) {
        (mode::RESET, 0) => ReplyCheck::Good,
        (mode::RESET, faults) => ReplyCheck::Wrong(format!(
            "it says \"{}\" although it was commanded to clear its faults; find out why before you drive it",
            named(faults)
        )),
        (other, _) => ReplyCheck::Wrong(format!(
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

/// Why the servo must not be driven, if a parameter does not have the required value.
pub fn wrong(settings: &Settings, mark: Mark, parameter: u16, value: Option<[u8; 4]>) -> Option<String> {
    if is_as_set(settings, Some(mark), parameter, value) {
        return None;
    }
    let Some(value) = value else {
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
        parameter::TORQUE_LIMIT if number > settings.drive.ranges[2] => format!(
            "its torque limit (parameter 0x700B) is {number} N·m, beyond the range of {} N·m in the robot file: it is another \
             `robstride.model`, or `robstride.torque_range` is wrong",
            settings.drive.ranges[2]
        ),
        parameter::TORQUE_LIMIT => format!(
            "its torque limit (parameter 0x700B) is {number} N·m, not {}: is it another `robstride.model`? No servo tells its model, and \
             with another every gain and speed would be wrong by a factor. If the model is right and the motor was set so, write \
             `robstride.torque_limit = {number}`",
            settings.torque_limits[0]
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
        judge: impl Fn(Reply) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let (settings, id) = (self.settings.clone(), self.id);
        Exchange {
            what,
            if_silent: IF_SILENT,
            quiet_ns: 0,
            frame: self.settings.request(self.id, request),
            judge: Box::new(move |frame| settings.reply(id, frame).map_or(ReplyCheck::Unrelated, &judge)),
        }
    }

    /// A request that is answered by the state.
    fn state(
        &self,
        what: &str,
        request: Request,
        judge: impl Fn(&State) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        self.exchange(what.to_owned(), request, move |reply| match reply {
            Reply::State(state) => judge(&state),
            _ => ReplyCheck::Unrelated,
        })
    }

    fn identity(&self) -> Exchange {
        self.exchange("tell who it is".to_owned(), Request::Identity, |reply| match reply {
            Reply::Identity { .. } => ReplyCheck::Good,
            _ => ReplyCheck::Unrelated,
        })
    }

    fn read(
        &self,
        what: &str,
        parameter: u16,
        judge: impl Fn(Option<[u8; 4]>) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let what = format!("tell parameter 0x{parameter:04X}, {what}");
        self.exchange(what, Request::Read(parameter), move |reply| match reply {
            Reply::Value { parameter: number, value, .. } if number == parameter => judge(value),
            _ => ReplyCheck::Unrelated,
        })
    }

    fn is_as_set(&self, parameter: u16, mark: Mark) -> Exchange {
        let settings = self.settings.clone();
        let what = match parameter {
            parameter::RUN_MODE => "its run mode",
            parameter::TORQUE_LIMIT => "its torque limit",
            _ => "which was set",
        };
        self.read(what, parameter, move |value| {
            wrong(&settings, mark, parameter, value).map_or(ReplyCheck::Good, ReplyCheck::Wrong)
        })
    }

    /// The watchdog of a CyberGear is in a table of its own.
    fn stored_watchdog(&self, value: [u8; 4]) -> [Exchange; 2] {
        let write = Request::Write(parameter::CYBERGEAR_TIMEOUT, value);
        let stored = move |reply: Reply| match reply {
            Reply::Stored { parameter: parameter::CYBERGEAR_TIMEOUT, value: stored, .. }
                if stored == value =>
            {
                ReplyCheck::Good
            }
            Reply::Stored { parameter: parameter::CYBERGEAR_TIMEOUT, .. } => ReplyCheck::Wrong(format!(
                "its watchdog (parameter 0x200C) is not as it was set; {UNREPORTED}"
            )),
            _ => ReplyCheck::Unrelated,
        };
        let read = self.exchange(
            "tell parameter 0x200C, its watchdog".to_owned(),
            Request::ReadStored(parameter::CYBERGEAR_TIMEOUT),
            stored,
        );
        [
            self.state("set its watchdog", write, |_| ReplyCheck::Good),
            Exchange { if_silent: UNREPORTED, ..read },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Model, RobstrideSettings};
    use super::*;
    use khz_wire::Frame;
    use khz_wire::robstride::kind;

    fn settings(model: Model) -> Settings {
        Settings::of(&RobstrideSettings { model: Some(model), ..RobstrideSettings::default() })
    }

    fn asks(exchanges: &[Exchange], request: Request) -> usize {
        let frame = request.to_frame(1, 253);
        exchanges
            .iter()
            .rposition(|exchange| exchange.frame == frame)
            .unwrap_or_else(|| panic!("{request:?}"))
    }

    fn reply(parameter: u16, value: Option<[u8; 4]>) -> Frame {
        Reply::Value { id: 1, host: 253, parameter, value }.to_frame()
    }

    fn state(mode: u8, faults: u8) -> Frame {
        let rest =
            State { id: 1, host: 253, mode, faults, position: 0, velocity: 0, torque: 0, temperature: 0 };
        rest.to_frame(kind::STATE)
    }

    #[test]
    fn the_watchdog_is_written_and_read_back_last() {
        let all = dialogue(&settings(Model::Rs02), 1, 0.1, 3);
        let value = 2003_u32.to_le_bytes();
        let write = asks(&all, Request::Write(parameter::TIMEOUT, value));
        let read = asks(&all, Request::Read(parameter::TIMEOUT));
        assert!(write < read && read == all.len() - 1);
        let judge = |value| (all[read].judge)(&reply(parameter::TIMEOUT, value));
        assert_eq!(judge(Some(value)), ReplyCheck::Good);
        assert_eq!((all[read].judge)(&state(0, 0)), ReplyCheck::Unrelated, "a write's answer is no reading");
        assert!(
            matches!(judge(Some([0; 4])), ReplyCheck::Wrong(why) if why.contains("0x7028 is 0, not 2003"))
        );
        assert!(matches!(judge(None), ReplyCheck::Wrong(why) if why.contains("firmware is too old")));
        // Before, that value would prove nothing.
        let before =
            all.iter().find(|ask| ask.frame == Request::Read(parameter::TIMEOUT).to_frame(1, 253)).unwrap();
        assert_eq!((before.judge)(&reply(parameter::TIMEOUT, Some(value))), ReplyCheck::Used);
    }

    #[test]
    fn a_torque_limit_beyond_the_range_is_another_model() {
        let all = dialogue(&settings(Model::Rs02), 1, 0.1, 3);
        let read = &all[asks(&all, Request::Read(parameter::TORQUE_LIMIT))];
        let judge = |limit: f64| {
            (read.judge)(&reply(
                parameter::TORQUE_LIMIT,
                Some(parameter::value(parameter::TORQUE_LIMIT, limit)),
            ))
        };
        assert_eq!([judge(17.0), judge(14.0)], [ReplyCheck::Good, ReplyCheck::Good]);
        assert!(
            matches!(judge(5.5), ReplyCheck::Wrong(why) if why.ends_with("write `robstride.torque_limit = 5.5`"))
        );
        assert!(matches!(judge(60.0), ReplyCheck::Wrong(why) if why.contains("another `robstride.model`")));
        assert!(matches!(judge(f64::NAN), ReplyCheck::Wrong(_)));
    }

    #[test]
    fn one_that_stays_on_or_faulted_is_refused() {
        let all = dialogue(&settings(Model::Rs02), 1, 0.1, 3);
        let clear = &all[asks(&all, Request::Stop { clear: true })];
        assert_eq!((clear.judge)(&state(mode::RESET, 0)), ReplyCheck::Good);
        assert!(
            matches!((clear.judge)(&state(mode::RUN, 0)), ReplyCheck::Wrong(why) if why.contains("who drives it"))
        );
        let faulted = (clear.judge)(&state(mode::RESET, 0b100_001));
        assert!(
            matches!(&faulted, ReplyCheck::Wrong(why) if why.contains("under-voltage, not calibrated")),
            "{faulted:?}"
        );
    }

    #[test]
    fn replies_of_others_and_to_others_are_waited_out() {
        for exchange in dialogue(&settings(Model::Rs02), 1, 0.1, 3) {
            let other = State {
                id: 2,
                host: 253,
                mode: 0,
                faults: 0,
                position: 0,
                velocity: 0,
                torque: 0,
                temperature: 0,
            };
            for frame in [
                other.to_frame(kind::STATE),
                State { id: 1, host: 1, ..other }.to_frame(kind::STATE),
                State { id: 1, ..other }.to_frame(kind::REPORT),
                Frame::classic(0x11, &[1; 8]).unwrap(),
            ] {
                assert_eq!((exchange.judge)(&frame), ReplyCheck::Unrelated, "{}", exchange.what);
            }
        }
    }

    #[test]
    fn a_cybergear_is_asked_for_its_watchdog_unless_the_file_says_that_it_has_none() {
        let mut cybergear = settings(Model::CyberGear);
        let all = dialogue(&cybergear, 1, 0.1, 3);
        let read = &all[asks(&all, Request::ReadStored(parameter::CYBERGEAR_TIMEOUT))];
        let stored = |value: u32| {
            let value = value.to_le_bytes();
            (read.judge)(
                &Reply::Stored { id: 1, host: 253, parameter: parameter::CYBERGEAR_TIMEOUT, value }
                    .to_frame(),
            )
        };
        assert_eq!(stored(2000), ReplyCheck::Good);
        assert!(matches!(stored(0), ReplyCheck::Wrong(why) if why.contains("robstride.unwatched")));
        // To a CyberGear it is another thing.
        assert!(all.iter().all(|ask| ask.frame != Request::Report(false).to_frame(1, 253)));
        cybergear.unwatched = true;
        assert_eq!(dialogue(&cybergear, 1, 0.1, 3).len(), all.len() - 2);
        assert_eq!(Mark::of(&cybergear, 0.1, 3), Mark(2.03_f32.to_le_bytes()));
    }
}
