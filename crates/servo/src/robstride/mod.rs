//! RobStride servos and the CyberGear, by their "private protocol": classic CAN with 29-bit identifiers.
//!
//! [`crate::mit`] describes how they are driven. Specific to them:
//! - Ranges of codes cannot be read: the robot file has them. The torque limit of a servo, which can, must be one of the model's.
//!   Where two sources of a model's ranges differ the file has to choose one.
//! - A reply carries the servo's id and that of the host, and a register cannot be mistaken for a state.
//! - Positions wrap within two turns either way.
//! - The mark of a run is a watchdog that is longer by 1 to 15 steps of 50 µs. A CyberGear has its watchdog in a table that keeps it
//!   without power, so there it is a speed limit, which operation mode does not use.
//! - It is unknown whether another host has left one reporting its state by itself: it is commanded to stop that.
//! - It answers to "enable" after 1.4 to 5 ms.

mod by_hand;
mod ready;
mod settings;

pub use settings::{Facts, Model, RobstrideSettings};

use crate::about::OnBus;
use crate::mit::codec::Codec;
use crate::mit::{self, Drive, Message, Output, Received, Reported};
use crate::{
    Carries, Doing, Exchange, FamilySettings, Fault, Identifiers, Mode, Mounting, Occasion, PositionCommand,
    ServoPlan,
};
use khz_wire::Frame;
use khz_wire::robstride::{FAULTS, POSITION_RANGE, Reply, Request, State, kind, mode, parameter, parts};
use ready::Mark;

/// By how much replies differ in when they come, ns, as five recorded drives do.
pub const REPLY_SPREAD_NS: i64 = 40_000;
/// Of 245 times that one was switched on its answer took 5 ms at most.
const SWITCHING_NS: i64 = 5_000_000;

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// This computer's id.
    pub host_id: u8,
    /// It is a CyberGear, whose protocol differs a little.
    pub cybergear: bool,
    /// Its watchdog is not set.
    pub unwatched: bool,
    /// The torque limits it may report, N·m: no servo reports its model, but models differ in that.
    pub torque_limits: [f64; 3],
    /// Its codes and gains.
    pub drive: Drive,
}

impl Settings {
    /// The keys of a servo in a robot file. Without a model it is the first, and where sources differ the range is the manual's;
    /// `khz check` refuses both.
    pub fn of(file: &RobstrideSettings) -> Self {
        let model = file.model.unwrap_or_default();
        let facts = model.facts();
        let cybergear = model == Model::CyberGear;
        Self {
            host_id: file.host_id,
            cybergear,
            unwatched: cybergear && file.unwatched,
            torque_limits: match file.torque_limit {
                Some(limit) => [limit; 3],
                None => [facts.limit, facts.torque[0], facts.torque[1]],
            },
            drive: Drive {
                kp: file.kp,
                kd: file.kd,
                damping: file.damping,
                ranges: [
                    file.position_range.unwrap_or(POSITION_RANGE),
                    file.velocity_range.unwrap_or(facts.velocity[0]),
                    file.torque_range.unwrap_or(facts.torque[0]),
                ],
                most: facts.gains,
                bits: 16,
            },
        }
    }

    /// The frame with this message to the servo with this id.
    fn frame(&self, id: u8, message: Message) -> Frame {
        self.request(
            id,
            match message {
                Message::Command(codes) => Request::Command(codes),
                Message::Enable => Request::Enable,
                // It reports nothing of its watchdog that had to be cleared.
                Message::Disable | Message::Clear => Request::Stop { clear: false },
                // It is answered by the state, as is "stop"; its output is off.
                Message::Ask if self.cybergear => Request::Stop { clear: false },
                Message::Ask => Request::Report(false),
                Message::Mark(mark) => Request::Read(self.mark(mark)),
            },
        )
    }

    fn request(&self, id: u8, request: Request) -> Frame {
        request.to_frame(id, self.host_id)
    }

    /// The parameter that is read as this mark.
    fn mark(&self, mark: usize) -> u16 {
        if mark == 0 { self.power_mark() } else { MARKS[mark] }
    }

    /// The parameter that carries the run's mark.
    const fn power_mark(&self) -> u16 {
        if self.cybergear { parameter::SPEED_LIMIT } else { parameter::TIMEOUT }
    }

    /// The content of a frame, if the servo with this id sent it to us.
    fn reply(&self, id: u8, frame: &Frame) -> Option<Reply> {
        let reply = Reply::parse(frame)?;
        let (from, to) = match reply {
            Reply::State(State { id, host, .. })
            | Reply::Value { id, host, .. }
            | Reply::Stored { id, host, .. }
            | Reply::Version { id, host, .. } => (id, Some(host)),
            // Whichever host asked: these go to all, or to the host that the servo assumes.
            Reply::Identity { id, .. } | Reply::Faults { id, .. } => (id, None),
        };
        (from == id && to.is_none_or(|to| to == self.host_id)).then_some(reply)
    }
}

/// Parameters that are read as marks, behind the one that carries the run's. None of them changes by itself, and every servo has them.
const MARKS: [u16; mit::queries::MARKS] = [
    parameter::TIMEOUT,
    parameter::RUN_MODE,
    parameter::TORQUE_LIMIT,
    parameter::CURRENT_LIMIT,
    0x7006,
    0x700a,
    0x7010,
    0x7011,
    0x7014,
    0x7016,
    0x701e,
    0x701f,
    0x7020,
];

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        self.drive.carries(mounting)
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        self.drive.targets(limits, mounting)
    }

    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2] {
        let codec = Codec::new(self.drive.clone(), Mounting::default());
        let (message, mode) = match occasion {
            Occasion::Stopped => (Message::Disable, mode::RESET),
            Occasion::Following | Occasion::Changing => {
                (Message::Command(codec.follow(&PositionCommand::hold(0.0))), mode::RUN)
            }
            Occasion::SwitchingOn | Occasion::AfterLoss => {
                let (host, parameter) = (self.host_id, self.power_mark());
                let reply = Reply::Value { id, host, parameter, value: Some([0; 4]) };
                return [self.frame(id, Message::Mark(0)), reply.to_frame()];
            }
        };
        let rest = State {
            id,
            host: self.host_id,
            mode,
            faults: 0,
            position: 0x7fff,
            velocity: 0x7fff,
            torque: 0x7fff,
            temperature: 300,
        };
        [self.frame(id, message), rest.to_frame(kind::STATE)]
    }

    fn reply_spread_ns(&self) -> i64 {
        REPLY_SPREAD_NS
    }

    fn switching_ns(&self) -> i64 {
        SWITCHING_NS
    }

    /// Kinds and data fill the bits beside the ids.
    fn identifiers(&self, _: u8) -> Vec<Identifiers> {
        vec![Identifiers::EXTENDED]
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        let (kind, data, to) = parts(frame)?;
        let replies = matches!(kind, kind::STATE | kind::READ) && to == self.host_id;
        replies.then_some(data as u8)
    }

    fn cut_off(&self) -> &'static str {
        if self.unwatched {
            "may follow its last command for ever: `robstride.unwatched`"
        } else {
            "goes limp: its watchdog switches the output off"
        }
    }

    /// A CyberGear does not: nothing is known of how its watchdog ends.
    fn timed_out_as(&self) -> Option<(Doing, u32)> {
        (!self.cybergear).then_some((Doing::Off, 0))
    }

    fn reach_of(&self, torque: f64) -> Option<f64> {
        Some(self.drive.reach_of(torque))
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        [mode::RESET, mode::CALIBRATION, mode::RUN].map(|number| (number.into(), mode::name(number))).to_vec()
    }

    fn ready(&self, id: u8, watchdog_s: f64, mark: u32) -> Vec<Exchange> {
        ready::dialogue(self, id, watchdog_s, mark)
    }
}

/// One servo, as [`mit`] drives it.
#[derive(Debug)]
pub struct Protocol {
    settings: Settings,
    id: u8,
    watchdog_s: f64,
    /// What carries the run's mark, as it was written; `None`: it was not.
    mark: Option<Mark>,
}

impl Protocol {
    /// The servo of a plan.
    pub fn of(plan: &ServoPlan<&Settings>) -> Self {
        Self { settings: plan.family.clone(), id: plan.id, watchdog_s: plan.watchdog_s, mark: None }
    }

    /// It reports by itself, which it was commanded not to do before the first tick: its age is unknown.
    fn is_report(&self, frame: &Frame) -> bool {
        parts(frame).is_some_and(|(kind, data, _)| kind == kind::REPORT && data as u8 == self.id)
    }

    fn register(&self, parameter: u16, value: Option<[u8; 4]>) -> Received {
        let mark = (0..MARKS.len()).find(|&mark| self.settings.mark(mark) == parameter);
        let changed = !ready::is_as_set(&self.settings, self.mark, parameter, value);
        Received::Register { mark, changed, deaf: changed && parameter == parameter::RUN_MODE }
    }
}

impl OnBus for Settings {
    const ASKED: Option<u8> = Some(1);

    fn unknown() -> Vec<Self> {
        vec![Self::of(&RobstrideSettings::default())]
    }

    type Bus = mit::Bus<Protocol>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        bus.add(plan, Protocol::of(plan));
    }
}

impl mit::Protocol for Protocol {
    const MARKS: usize = MARKS.len();
    // The run's mark, the run mode, the torque limit: nothing confirms that they were written.
    const WATCHED: usize = 3;
    const REPORTS_RANGES: bool = false;

    fn id(&self) -> u8 {
        self.id
    }

    fn drive(&self) -> &Drive {
        &self.settings.drive
    }

    fn frame(&mut self, message: Message) -> Frame {
        self.settings.frame(self.id, message)
    }

    fn made_ready(&mut self, mark: u32) {
        self.mark = Some(Mark::of(&self.settings, self.watchdog_s, mark));
    }

    fn is_from(&self, frame: &Frame) -> bool {
        self.settings.reply(self.id, frame).is_some() || self.is_report(frame)
    }

    fn receive(&mut self, frame: &Frame) -> Received {
        match self.settings.reply(self.id, frame) {
            Some(Reply::State(state)) => Received::State(reported(&state)),
            Some(Reply::Value { parameter, value, .. }) => self.register(parameter, value),
            // The loop does not ask a servo who it is; faults are in its state as well.
            // Some faults have no bit in the state.
            Some(Reply::Faults { faults, .. }) if faults != 0 => Received::Fault(reported_fault(faults)),
            Some(_) => Received::Aside,
            None => Received::Aside,
        }
    }
}

/// The content of a state.
fn reported(state: &State) -> Reported {
    let fault = match state.faults {
        0 => Fault::NONE,
        // The least significant is named; the code has all of them.
        bits => Fault { code: bits.into(), text: FAULTS[bits.trailing_zeros() as usize] },
    };
    Reported {
        output: match state.mode {
            mode::RESET if state.faults != 0 => Output::Faulted,
            mode::RESET => Output::Off,
            mode::RUN if state.faults == 0 => Output::On,
            _ => Output::Astray,
        },
        mode: Mode { number: state.mode, name: mode::name(state.mode) },
        fault: match state.mode {
            mode::RESET | mode::RUN => fault,
            _ if state.faults != 0 => fault,
            mode::CALIBRATION => CALIBRATES,
            _ => UNKNOWN_MODE,
        },
        position: state.position.into(),
        velocity: state.velocity.into(),
        torque: state.torque.into(),
        celsius: state.celsius(),
    }
}

const CALIBRATES: Fault = Fault { code: 64, text: "it calibrates itself" };
const UNKNOWN_MODE: Fault = Fault { code: 65, text: "it is in an unknown mode" };

/// The least significant of the faults that a servo reports by itself, in its manual's words. Its code is the bit's number and 1000.
fn reported_fault(faults: u32) -> Fault {
    let bit = faults.trailing_zeros();
    let text = match bit {
        0 => "motor over-temperature",
        1 => "driver chip",
        2 => "under-voltage",
        3 => "over-voltage",
        4 => "over-current in phase B",
        5 => "over-current in phase C",
        7 => "encoder not calibrated",
        8 => "hardware identification",
        9 => "position initialisation",
        14 => "stall or overload",
        16 => "over-current in phase A",
        _ => "a fault that the manual does not name",
    };
    Fault { code: 1000 + bit, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServoPlan;
    use crate::family::{self, Family};
    use crate::{Doing, ServoCommand, ServoState, Servos, Taken};

    fn settings(model: Model) -> Settings {
        Settings::of(&RobstrideSettings { model: Some(model), ..RobstrideSettings::default() })
    }

    fn bus(model: Model) -> Box<dyn Servos> {
        let family = Family::Robstride(settings(model));
        let plan = ServoPlan { servo: 0, id: 1, mounting: Mounting::default(), watchdog_s: 0.1, family };
        let mut servos = family::on_bus(&[plan]).remove(0);
        servos.made_ready(3);
        servos
    }

    fn state(mode: u8, faults: u8) -> Frame {
        let rest = State {
            id: 1,
            host: 253,
            mode,
            faults,
            position: 0x8517,
            velocity: 0x7fff,
            torque: 0x7fff,
            temperature: 251,
        };
        rest.to_frame(kind::STATE)
    }

    fn value_reply(parameter: u16, value: Option<[u8; 4]>) -> Frame {
        Reply::Value { id: 1, host: 253, parameter, value }.to_frame()
    }

    /// One cycle: what was sent, and what the answers are.
    fn cycle(
        servos: &mut dyn Servos,
        command: ServoCommand,
        answers: &[Frame],
        states: &mut [ServoState],
    ) -> (Request, Vec<Taken>) {
        servos.begin(&[command]);
        let sent = Request::parse(servos.request(0, 0).unwrap().frame).unwrap().0;
        servos.sent(0, 0, 1_000_000);
        (sent, answers.iter().map(|frame| servos.take(frame, states)).collect())
    }

    fn hold() -> ServoCommand {
        ServoCommand::Position(PositionCommand::hold(0.5))
    }

    #[test]
    fn it_is_verified_damped_and_enabled_before_it_follows() {
        let (mut servos, mut states) = (bus(Model::Rs02), [ServoState::UNKNOWN]);
        let mut step = |command, answer: Frame| cycle(&mut *servos, command, &[answer], &mut states);
        let reset = state(mode::RESET, 0);
        assert_eq!(step(ServoCommand::Stop, reset).0, Request::Stop { clear: false });
        let watchdog = Some(2003_u32.to_le_bytes());
        let (sent, taken) = step(hold(), value_reply(parameter::TIMEOUT, watchdog));
        assert_eq!(sent, Request::Read(parameter::TIMEOUT));
        assert!(matches!(taken[..], [Taken::Answer { servo: 0, .. }]));
        assert!(matches!(step(hold(), reset).0, Request::Command(codes) if codes.kp == 0));
        assert_eq!(step(hold(), state(mode::RUN, 0)).0, Request::Enable);
        let (sent, _) = step(hold(), state(mode::RUN, 0));
        // The vendor's frame for 0.5 rad, kp 20, kd 0.5, but for its own rounding.
        let Request::Command(codes) = sent else { panic!() };
        assert_eq!((codes.position, codes.torque), (0x8517, 0x7fff));
        assert!(codes.kp > 0 && states[0].doing == Doing::Following);
        assert!((states[0].position - 0.5).abs() < 2e-4 && states[0].temperature == 25.1);
    }

    #[test]
    fn a_report_an_old_host_left_on_and_anothers_reply_are_no_state() {
        let (mut servos, mut states) = (bus(Model::Rs02), [ServoState::UNKNOWN]);
        let mut report = state(mode::RUN, 0);
        report.id = report.id & 0x00ff_ffff | u32::from(kind::REPORT) << 24;
        let mut to_another = state(mode::RUN, 0);
        to_another.id = to_another.id & !0xff | 0xff;
        let answers = [report, to_another, state(mode::RESET, 0)];
        let (_, taken) = cycle(&mut *servos, ServoCommand::Stop, &answers, &mut states);
        assert!(
            matches!(taken[..], [Taken::Aside, Taken::Unexpected, Taken::State { newest: true, .. }]),
            "{taken:?}"
        );
        assert_eq!(states[0].doing, Doing::Off);
    }

    #[test]
    fn one_that_has_lost_its_power_is_not_enabled() {
        let (mut servos, mut states) = (bus(Model::Rs02), [ServoState::UNKNOWN]);
        let mut step = |command, answer: Frame| cycle(&mut *servos, command, &[answer], &mut states).0;
        step(ServoCommand::Stop, state(mode::RESET, 0));
        step(hold(), value_reply(parameter::TIMEOUT, Some([0; 4])));
        for _ in 0..20 {
            assert_eq!(step(hold(), state(mode::RESET, 0)), Request::Report(false));
        }
        assert_eq!((states[0].doing, states[0].fault.code), (Doing::Faulted, 256));
    }

    #[test]
    fn every_fault_bit_is_reported_in_words() {
        for (bit, name) in FAULTS.into_iter().enumerate() {
            let Some(Reply::State(state)) = Reply::parse(&state(mode::RUN, 1 << bit)) else { panic!() };
            let reported = reported(&state);
            assert_eq!((reported.output, reported.fault.text), (Output::Astray, name));
        }
    }

    #[test]
    fn ranges_are_the_models() {
        assert_eq!(settings(Model::Rs04).drive.ranges, [POSITION_RANGE, 15.0, 120.0]);
        assert_eq!(settings(Model::Rs04).drive.most, [5000.0, 100.0]);
        assert_eq!(settings(Model::CyberGear).drive.ranges, [POSITION_RANGE, 30.0, 12.0]);
        let disputed = Model::ALL.iter().filter(|model| {
            let Facts { velocity, torque, .. } = model.facts();
            velocity[0] != velocity[1] || torque[0] != torque[1]
        });
        let disputed: Vec<_> = disputed.map(|model| model.word()).collect();
        assert_eq!(disputed, ["RS00", "RS03", "RS05", "RS06", "EL05"]);
    }
}
