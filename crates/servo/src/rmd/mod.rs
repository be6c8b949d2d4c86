//! MyActuator RMD motors in motion mode: one command and one reply of eight bytes per servo and cycle, on classic CAN.
//!
//! [`crate::mit`] describes how they are driven. Specific to them:
//! - Motion mode has identifiers of its own; everything else is a message, and its reply names the command. A motion's reply reports
//!   neither whether the output is on nor faults: every eleventh exchange asks for those instead, so that a bus carries no more.
//! - "Off" is echoed and reports no state: while it is not driven, it is asked for its angle in turns.
//! - Faults may vanish by themselves, and the motor moves again. They are kept here.
//! - A motor has a watchdog that is set once, kept without power, and cannot be read: a silence before the first tick proves it. When it
//!   has acted, the next command is not carried out and comes back as it is: [`rmd::is_echo`].
//! - The time since its start is the mark of a run: nothing is written.
//! - What the codes mean depends on the date of its firmware and on its model. Both are in the file, and asked for before the first
//!   tick.
//! - "Release the brake" is answered when the brake has moved, up to 150 ms later.

mod by_hand;
mod ready;
mod settings;

pub use settings::{Model, Protocol, REPLY_DELAY_US, RmdSettings};

use crate::about::OnBus;
use crate::mit::codec::{Codec, INTRUDED};
use crate::mit::{self, Drive, Output, Received, Reported};
use crate::{
    Carries, Exchange, FamilySettings, Fault, Identifiers, Mode, Mounting, Occasion, PositionCommand,
    ServoPlan,
};
use khz_wire::Frame;
use khz_wire::rmd::{
    self, ALL, IDS, MOTION_REPLIES, MOTIONS, Message, REPLIES, REQUESTS, State, Status, command, radians,
};

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Its model; `None`: unknown.
    pub model: Option<Model>,
    /// The protocol of its firmware; the same.
    pub protocol: Option<Protocol>,
    /// Its watchdog is not proved.
    pub unwatched: bool,
    /// From a command to its reply, beyond the turnaround of its bus, ns.
    pub reply_delay_ns: i64,
    /// Its codes and gains.
    pub drive: Drive,
}

/// The gains of the last code, whichever the model: N·m/rad and N·m·s/rad.
const MOST_GAINS: [f64; 2] = [500.0, 5.0];

/// How long a brake may take to be released, ns.
const RELEASE_NS: i64 = 150_000_000;

/// Its watchdog has acted although it was commanded.
const CUT_OFF: Fault = Fault {
    code: 0x1_0000,
    text: "its watchdog has switched it off: it has heard nothing for too long; start a new run",
};

impl Settings {
    /// The keys of a servo in a robot file. Without model or protocol the ranges are those of an X8 with old firmware; `khz check` refuses
    /// that.
    pub fn of(file: &RmdSettings) -> Self {
        let protocol = file.protocol.unwrap_or(Protocol::Old);
        let [position, velocity] = rmd::ranges(protocol.date());
        let known = protocol.torque(file.model.unwrap_or(Model::X8));
        Self {
            model: file.model,
            protocol: file.protocol,
            unwatched: file.unwatched,
            reply_delay_ns: (file.reply_delay_us.unwrap_or(REPLY_DELAY_US) * 1e3) as i64,
            drive: Drive {
                kp: file.kp,
                kd: file.kd,
                damping: file.damping,
                ranges: [
                    position,
                    file.velocity_range.unwrap_or(velocity),
                    file.torque_range.or(known).unwrap_or(rmd::OLD_TORQUE),
                ],
                most: MOST_GAINS,
                bits: 12,
            },
        }
    }
}

/// A message to the servo of this id.
fn to(id: u8, message: Message) -> Frame {
    rmd::frame(REQUESTS + u32::from(id), message)
}

/// The content of a frame of the servo with this id that is no motion.
fn message(id: u8, frame: &Frame) -> Option<Message> {
    let is_its = !frame.extended && !frame.fd && frame.id == REPLIES + u32::from(id);
    Message::parse(frame.payload()).filter(|_| is_its)
}

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        self.drive.carries(mounting)
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        self.drive.targets(limits, mounting)
    }

    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2] {
        let reply = |message| rmd::frame(REPLIES + u32::from(id), message);
        match occasion {
            Occasion::Stopped => {
                let off = Message::of(command::OFF);
                [to(id, off), reply(off)]
            }
            Occasion::SwitchingOn | Occasion::AfterLoss => {
                [to(id, Message::of(command::RUNTIME)), reply(Message::with(command::RUNTIME, 100_000))]
            }
            Occasion::Following | Occasion::Changing => {
                let codec = Codec::new(self.drive.clone(), Mounting::default());
                let rest = State {
                    id,
                    position: 0x7fff,
                    velocity: 0x7ff,
                    torque: 0x7ff,
                    temperature: None,
                    error: 0,
                };
                let motion = rmd::motion(id, codec.follow(&PositionCommand::hold(0.0)));
                let reply = rest.to_bytes();
                [motion, khz_wire::cubemars::frame(MOTION_REPLIES + u32::from(id), reply)]
            }
        }
    }

    fn reply_delay_ns(&self) -> i64 {
        self.reply_delay_ns
    }

    fn switching_ns(&self) -> i64 {
        RELEASE_NS
    }

    fn identifiers(&self, id: u8) -> Vec<Identifiers> {
        let own = [REQUESTS, REPLIES, MOTIONS, MOTION_REPLIES].map(|base| base + u32::from(id));
        own.into_iter().chain([ALL, IDS]).map(Identifiers::one).collect()
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        let from = [REPLIES, MOTION_REPLIES].into_iter().find_map(|base| frame.id.checked_sub(base))?;
        let from = if frame.id > MOTION_REPLIES { frame.id - MOTION_REPLIES } else { from };
        let is_id = (1..=u32::from(rmd::MOST_ID)).contains(&from);
        (is_id && !frame.extended && !frame.fd).then_some(from as u8)
    }

    fn cut_off(&self) -> &'static str {
        if self.unwatched {
            "may follow its last command for ever: `rmd.unwatched`"
        } else {
            "switches off; a motor with a brake locks"
        }
    }

    fn reach_of(&self, torque: f64) -> Option<f64> {
        Some(self.drive.reach_of(torque))
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        vec![(0, Mode::UNREPORTED.name)]
    }

    fn ready(&self, id: u8, watchdog_s: f64, _: u32) -> Vec<Exchange> {
        ready::dialogue(self, id, watchdog_s)
    }
}

/// One servo, as [`mit`] drives it.
#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    id: u8,
    /// The newest frame that is no mark.
    last: Frame,
    /// It was commanded on.
    is_driven: bool,
    /// The state of its output, as far as reported.
    output: Output,
    /// It was commanded to release its brake, and has not reported that it did.
    is_releasing: bool,
    /// How often in a row it was commanded off.
    stops: u32,
    /// Commands until it is asked for its status instead.
    left: u32,
    /// When the newest frame was handed to the bus, ns.
    sent_ns: i64,
    /// How far its clock was ahead of ours when it first reported it, ns.
    ahead_ns: Option<i64>,
    /// The last angle it reported looked like an echo.
    was_zero: bool,
    celsius: f64,
}

/// In place of one in so many commands it is asked for its status.
const STATUS_EVERY: u32 = 11;

/// The first of these commands, at the earliest, after it was off.
const FIRST_STATUS: u32 = 4;

/// A clock that differs by more, ns, is that of a motor that has restarted.
const SAME_CLOCK_NS: i64 = 200_000_000;

/// Reads that are marks; the first is its clock. Nothing but a mark is answered so.
const MARKS: [u8; mit::queries::MARKS] = [
    command::RUNTIME,
    command::VERSION,
    command::MODEL,
    command::MODE,
    command::POWER,
    command::MOTION,
    command::PHASES,
    command::READ_ACCELERATION,
    command::PULSES[0],
    command::PULSES[1],
    command::PULSES[2],
    command::ENCODER,
    command::TURN_ANGLE,
];

/// Answers to what moves a motor, which is never sent here.
const OTHERS: [u8; 6] = [
    command::HOLD,
    command::CURRENT,
    command::SPEED,
    command::POSITION,
    command::WITHIN_TURN,
    command::INCREMENT,
];

impl Driver {
    /// The servo of a plan.
    pub fn of(plan: &ServoPlan<&Settings>) -> Self {
        Self {
            settings: plan.family.clone(),
            id: plan.id,
            last: to(plan.id, Message::of(command::OFF)),
            is_driven: false,
            is_releasing: false,
            output: Output::Off,
            stops: 0,
            left: 1 + u32::from(plan.id) % STATUS_EVERY,
            sent_ns: 0,
            ahead_ns: None,
            was_zero: false,
            celsius: f64::NAN,
        }
    }

    /// What it is sent while it is not driven: twice "off", as a motor whose watchdog has acted does not carry out the first; then its angle
    /// is asked for every other time.
    fn stop(&mut self) -> Frame {
        let off = match self.stops {
            0 | 1 => command::OFF,
            2 | 4 => command::ANGLE,
            3 => command::STATUS,
            _ => command::OFF,
        };
        self.stops = if self.stops < 5 { self.stops + 1 } else { 2 };
        (self.is_driven, self.is_releasing) = (false, false);
        to(self.id, Message::of(off))
    }

    fn drive(&mut self, frame: Frame) -> Frame {
        (self.stops, self.is_driven) = (0, true);
        frame
    }

    /// Something that it has done or reported, and no state.
    fn done(&self, command: u8, fault: Fault) -> Received {
        Received::Done { output: self.output, fault, newest: self.last.payload().first() == Some(&command) }
    }

    /// It has echoed its command: its watchdog has acted.
    fn echoed(&self, command: u8) -> Received {
        self.done(command, if self.is_driven { CUT_OFF } else { Fault::NONE })
    }

    fn angle(&mut self, reply: Message) -> Received {
        let is_zero = reply == Message::of(command::ANGLE);
        // Of two in a row one at least is none.
        if is_zero && !std::mem::replace(&mut self.was_zero, is_zero) {
            return self.done(command::ANGLE, Fault::NONE);
        }
        self.was_zero = is_zero;
        // Motors of protocol V2 have more bits, of another shaft.
        if (reply.index, reply.limit) != (0, 0) {
            return Received::Nothing;
        }
        let position = self.settings.drive.position().encode(radians(reply.number()));
        Received::Position(Reported {
            output: self.output,
            celsius: self.celsius,
            ..reported([position, 0, 0])
        })
    }

    fn status(&mut self, reply: Message) -> Received {
        let Some(status) = Status::parse(reply).filter(|_| reply != Message::of(command::STATUS)) else {
            return self.echoed(command::STATUS);
        };
        self.celsius = f64::from(status.celsius);
        self.output = if status.released { Output::On } else { Output::Off };
        self.is_releasing &= !status.released;
        self.done(command::STATUS, fault(status.errors))
    }

    /// Its clock shows whether it has restarted.
    fn clock(&mut self, reply: Message) -> bool {
        let ahead_ns = i64::from(reply.unsigned()) * 1_000_000 - self.sent_ns;
        let before_ns = *self.ahead_ns.get_or_insert(ahead_ns);
        (ahead_ns - before_ns).abs() > SAME_CLOCK_NS
    }

    fn message(&mut self, reply: Message) -> Received {
        match reply.command {
            command::ANGLE => self.angle(reply),
            command::STATUS => self.status(reply),
            command::OFF => {
                self.output = Output::Off;
                self.done(command::OFF, Fault::NONE)
            }
            command::RELEASE => {
                (self.output, self.is_releasing) = (Output::On, false);
                self.done(command::RELEASE, Fault::NONE)
            }
            command::CUT_OFF if self.is_driven => Received::Fault(CUT_OFF),
            // An echo has no time, and keeps the motor under suspicion.
            command::RUNTIME if reply == Message::of(command::RUNTIME) => {
                if self.is_driven {
                    Received::Fault(CUT_OFF)
                } else {
                    Received::Aside
                }
            }
            other if OTHERS.contains(&other) => Received::Fault(INTRUDED),
            other => match MARKS.iter().position(|mark| *mark == other) {
                Some(0) => Received::Register { mark: Some(0), changed: self.clock(reply), deaf: false },
                Some(mark) => Received::Register { mark: Some(mark), changed: false, deaf: false },
                None => Received::Aside,
            },
        }
    }

    /// A reply in motion mode.
    fn motion(&self, frame: &Frame) -> Received {
        match motion(self.id, frame) {
            Some(reported) => {
                let output = match self.is_driven {
                    true if self.is_releasing => Output::Starting,
                    true => Output::AsCommanded,
                    // It was commanded off, and moves.
                    false => self.output,
                };
                Received::State(Reported { output, celsius: self.celsius, ..reported })
            }
            None if rmd::is_echo(&self.last, frame) => {
                Received::Done { output: self.output, fault: CUT_OFF, newest: true }
            }
            None => Received::Nothing,
        }
    }
}

/// The state in a frame in motion mode: not whether its output is on.
fn motion(id: u8, frame: &Frame) -> Option<Reported> {
    let is_its = !frame.extended && !frame.fd && frame.id == MOTION_REPLIES + u32::from(id);
    let State { position, velocity, torque, .. } = rmd::state(id, frame.payload()).filter(|_| is_its)?;
    Some(reported([position, velocity, torque].map(u32::from)))
}

fn reported([position, velocity, torque]: [u32; 3]) -> Reported {
    let (output, mode, fault) = (Output::AsCommanded, Mode::UNREPORTED, Fault::NONE);
    Reported { output, mode, fault, position, velocity, torque, celsius: f64::NAN }
}

/// The fault of these errors; the code has all of them.
fn fault(errors: u16) -> Fault {
    match errors {
        0 => Fault::NONE,
        bits => Fault { code: bits.into(), text: rmd::error_name(bits) },
    }
}

impl OnBus for Settings {
    const ASKED: Option<u8> = Some(3);

    fn unknown() -> Vec<Self> {
        vec![Self::of(&RmdSettings::default())]
    }

    type Bus = mit::Bus<Driver>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        bus.add(plan, Driver::of(plan));
    }
}

impl mit::Protocol for Driver {
    const MARKS: usize = MARKS.len();
    // Its clock.
    const WATCHED: usize = 1;
    // The date determines them, but not which shaft the velocity is of.
    const REPORTS_RANGES: bool = false;
    const SWITCHING_NS: i64 = RELEASE_NS;

    fn id(&self) -> u8 {
        self.id
    }

    fn drive(&self) -> &Drive {
        &self.settings.drive
    }

    fn frame(&mut self, message: mit::Message) -> Frame {
        let frame = match message {
            mit::Message::Mark(mark) => return to(self.id, Message::of(MARKS[mark])),
            mit::Message::Command(codes) => {
                // What damps it before it is switched on, and its first states, do not wait: a mark has taken the place of one already.
                self.left = if self.is_driven { self.left } else { self.left.max(FIRST_STATUS) } - 1;
                let message = if self.left == 0 {
                    self.left = STATUS_EVERY;
                    to(self.id, Message::of(command::STATUS))
                } else {
                    rmd::motion(self.id, codes)
                };
                self.drive(message)
            }
            mit::Message::Enable => {
                self.is_releasing = true;
                self.drive(to(self.id, Message::of(command::RELEASE)))
            }
            mit::Message::Disable | mit::Message::Clear => self.stop(),
            mit::Message::Ask => to(self.id, Message::of(command::ANGLE)),
        };
        self.last = frame;
        frame
    }

    fn sent(&mut self, now_ns: i64) {
        self.sent_ns = now_ns;
    }

    fn made_ready(&mut self, _: u32) {}

    fn is_from(&self, frame: &Frame) -> bool {
        self.settings.replier(frame) == Some(self.id)
    }

    fn receive(&mut self, frame: &Frame) -> Received {
        match message(self.id, frame) {
            Some(reply) => self.message(reply),
            None => self.motion(frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mit::Protocol as _;
    use khz_wire::mit::Codes;

    fn driver() -> Driver {
        let file =
            RmdSettings { model: Some(Model::X8), protocol: Some(Protocol::Old), ..RmdSettings::default() };
        let settings = Settings::of(&file);
        Driver::of(&ServoPlan {
            servo: 0,
            id: 1,
            mounting: Mounting::default(),
            watchdog_s: 0.1,
            family: &settings,
        })
    }

    fn reply_to(driver: &mut Driver, message: Message) -> Received {
        driver.receive(&rmd::frame(REPLIES + 1, message))
    }

    fn sent(driver: &mut Driver, message: mit::Message) -> u8 {
        let frame = driver.frame(message);
        if frame.id > rmd::MOTIONS { 0 } else { frame.payload()[0] }
    }

    const DONE: Received = Received::Done { output: Output::Off, fault: Fault::NONE, newest: true };

    /// After retries at the start that outlast its watchdog a motor sends its first question back: a clock of 0 was taken for its own,
    /// and the true one that came next for that of a motor which had lost its power.
    #[test]
    fn the_echo_of_a_question_for_its_clock_is_no_clock() {
        let mut driver = driver();
        driver.sent(0);
        let echo = Message::of(command::RUNTIME);
        assert_eq!(reply_to(&mut driver, echo), Received::Aside);
        let clock = |driver: &mut Driver, ms| reply_to(driver, Message::with(command::RUNTIME, ms));
        let as_before = Received::Register { mark: Some(0), changed: false, deaf: false };
        assert_eq!([clock(&mut driver, 50_000), clock(&mut driver, 50_100)], [as_before; 2]);
        driver.is_driven = true;
        assert_eq!(reply_to(&mut driver, echo), Received::Fault(CUT_OFF));
    }

    #[test]
    fn off_is_sent_twice_and_then_the_angle_is_asked_for_in_turns() {
        let mut driver = driver();
        let sent: Vec<_> = (0..10).map(|_| sent(&mut driver, mit::Message::Disable)).collect();
        use command::{ANGLE, OFF, STATUS};
        assert_eq!(sent, [OFF, OFF, ANGLE, STATUS, ANGLE, OFF, ANGLE, STATUS, ANGLE, OFF]);
    }

    #[test]
    fn the_echo_of_a_request_is_no_measurement_and_two_angles_of_zero_are_one() {
        let mut driver = driver();
        let zero = Message::of(command::ANGLE);
        driver.frame(mit::Message::Ask);
        assert_eq!(reply_to(&mut driver, zero), DONE);
        assert!(matches!(reply_to(&mut driver, zero), Received::Position(Reported { position: 0x7fff, .. })));
        assert!(matches!(reply_to(&mut driver, Message::with(command::ANGLE, 1)), Received::Position(_)));
        assert_eq!(reply_to(&mut driver, zero), DONE);
        // Of protocol V2.
        assert_eq!(reply_to(&mut driver, Message { index: 1, ..zero }), Received::Nothing);
    }

    #[test]
    fn under_control_the_echo_of_a_command_is_the_end_of_its_watchdog() {
        let mut driver = driver();
        let sent = driver.frame(mit::Message::Command(Codes { position: 0x1234, kd: 9, ..Codes::default() }));
        let echo = khz_wire::cubemars::frame(MOTION_REPLIES + 1, sent.payload().try_into().unwrap());
        assert!(matches!(driver.receive(&echo), Received::Done { fault: CUT_OFF, .. }));
        assert_eq!(reply_to(&mut driver, Message::of(command::CUT_OFF)), Received::Fault(CUT_OFF));
        driver.frame(mit::Message::Disable);
        assert_eq!(reply_to(&mut driver, Message::of(command::CUT_OFF)), Received::Aside);
    }

    #[test]
    fn its_status_is_asked_for_in_place_of_every_eleventh_command() {
        let mut driver = driver();
        let sent: Vec<_> =
            (0..23).map(|_| sent(&mut driver, mit::Message::Command(Codes::default()))).collect();
        let asked: Vec<_> = (0..23).filter(|&at| sent[at] == command::STATUS).collect();
        assert_eq!(asked, [3, 14]);
        let status = Status { celsius: 40, released: true, volts: 48.0, errors: 0x1004 };
        let Received::Done { output: Output::On, fault, .. } = reply_to(&mut driver, status.to_message())
        else {
            panic!()
        };
        assert_eq!((fault.code, fault.text), (0x1004, "low voltage"));
    }

    #[test]
    fn a_clock_that_is_another_is_that_of_a_motor_that_has_restarted() {
        let mut driver = driver();
        let mut clock = |sent_ms: i64, reported_ms| {
            driver.sent(sent_ms * 1_000_000);
            let Received::Register { mark: Some(0), changed, .. } =
                reply_to(&mut driver, Message::with(command::RUNTIME, reported_ms))
            else {
                panic!()
            };
            changed
        };
        assert!(!clock(0, 70_000) && !clock(1000, 71_002) && !clock(2000, 71_900));
        assert!(clock(3000, 1200) && clock(3000, 73_300), "earlier and later");
    }

    #[test]
    fn a_brake_that_moves_is_starting_and_its_late_answer_is_no_answer_to_another_command() {
        let mut driver = driver();
        driver.frame(mit::Message::Enable);
        driver.frame(mit::Message::Command(Codes::default()));
        let rest =
            State { id: 1, position: 0x7fff, velocity: 0x7ff, torque: 0x7ff, temperature: None, error: 0 };
        let rest = khz_wire::cubemars::frame(MOTION_REPLIES + 1, rest.to_bytes());
        assert!(matches!(driver.receive(&rest), Received::State(Reported { output: Output::Starting, .. })));
        let released = reply_to(&mut driver, Message::of(command::RELEASE));
        assert_eq!(released, Received::Done { output: Output::On, fault: Fault::NONE, newest: false });
        assert!(matches!(
            driver.receive(&rest),
            Received::State(Reported { output: Output::AsCommanded, .. })
        ));
        // Commanded off, it moves.
        driver.frame(mit::Message::Disable);
        assert!(matches!(driver.receive(&rest), Received::State(Reported { output: Output::On, .. })));
    }

    #[test]
    fn what_the_file_says_decides_what_codes_mean_and_nothing_is_guessed() {
        let torque = |protocol: Protocol, model: Model| protocol.torque(model);
        assert_eq!(torque(Protocol::Old, Model::X6), Some(24.0));
        assert_eq!(torque(Protocol::V44, Model::X6), Some(60.0));
        assert_eq!(torque(Protocol::V44, Model::X8), Some(129.0));
        assert_eq!(torque(Protocol::V44, Model::X10), None);
        assert_eq!([rmd::V44 - 1, rmd::V44].map(Protocol::of), [Protocol::Old, Protocol::V44]);
    }
}
