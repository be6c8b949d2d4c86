//! RobStride servos and the CyberGear, by their "private protocol": classic CAN with 29-bit identifiers.
//!
//! How they are driven is told by [`crate::mit`]. What is their own:
//! - Ranges of codes cannot be read: the robot file has them. The torque limit of a servo, which can, must not be beyond the
//!   range of torques. Where two sources of a model's ranges differ the file has to say which it is.
//! - A reply carries the servo's id and that of the host, and a register cannot be mistaken for a state.
//! - Positions wrap within two turns either way.
//! - The mark of a run is a watchdog that is longer by 1 to 15 steps of 50 µs. A CyberGear has its watchdog in a table that keeps it
//!   without power, so there it is a speed limit, which operation mode does not use.
//! - Whether one that reports its state by itself has been left so by another host, nobody knows: it is told to stop that.
//! - It answers to "enable" after 1.4 to 5 ms.

mod by_hand;
mod ready;
mod settings;

pub use settings::{Facts, Model, RobstrideSettings};

use crate::mit::codec::Codec;
use crate::mit::{self, Drive, Heard, Output, Said, Say};
use crate::{Carries, Exchange, FamilySettings, Fault, Mode, Mounting, Plan, PositionCommand};
use khz_wire::Frame;
use khz_wire::robstride::{FAULTS, POSITION_RANGE, Reply, Request, State, kind, mode, parameter, parts};
use ready::Mark;

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// This computer's id.
    pub host_id: u8,
    /// It is a CyberGear, whose protocol differs a little.
    pub cybergear: bool,
    /// Its watchdog is not set.
    pub unwatched: bool,
    /// Its codes and gains.
    pub drive: Drive,
}

impl Settings {
    /// What a robot file says of a servo. Without a model it is the first, and where sources differ the range is the manual's;
    /// `khz check` refuses both.
    pub fn of(file: &RobstrideSettings) -> Self {
        let model = file.model.unwrap_or_default();
        let facts = model.facts();
        let cybergear = model == Model::CyberGear;
        Self {
            host_id: file.host_id,
            cybergear,
            unwatched: cybergear && file.unwatched,
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

    /// The frame that says this to the servo of this id.
    fn frame(&self, id: u8, say: Say) -> Frame {
        self.request(
            id,
            match say {
                Say::Command(codes) => Request::Command(codes),
                Say::Enable => Request::Enable,
                Say::Disable => Request::Stop { clear: false },
                // It is answered by the state, as is "stop"; its output is off.
                Say::Ask if self.cybergear => Request::Stop { clear: false },
                Say::Ask => Request::Report(false),
                Say::Mark(mark) => Request::Read(self.mark(mark)),
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

    /// What a frame says, if the servo of this id sent it to us.
    fn reply(&self, id: u8, frame: &Frame) -> Option<Reply> {
        let reply = Reply::parse(frame)?;
        let (from, to) = match reply {
            Reply::State(State { id, host, .. })
            | Reply::Value { id, host, .. }
            | Reply::Stored { id, host, .. }
            | Reply::Version { id, host, .. } => (id, Some(host)),
            // Whoever asked: these go to all, or to whomever the servo thinks.
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

    fn exchange(&self, id: u8) -> [Frame; 2] {
        let codec = Codec::new(self.drive.clone(), Mounting::default());
        let command = codec.follow(&PositionCommand::hold(0.0));
        let rest = State {
            id,
            host: self.host_id,
            mode: mode::RUN,
            faults: 0,
            position: 0x7fff,
            velocity: 0x7fff,
            torque: 0x7fff,
            temperature: 300,
        };
        [self.frame(id, Say::Command(command)), rest.to_frame(kind::STATE)]
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
    pub fn of(plan: &Plan<&Settings>) -> Self {
        Self { settings: plan.family.clone(), id: plan.id, watchdog_s: plan.watchdog_s, mark: None }
    }

    fn register(&self, parameter: u16, value: Option<[u8; 4]>) -> Heard {
        let mark = (0..MARKS.len()).find(|&mark| self.settings.mark(mark) == parameter);
        let changed = !ready::is_as_set(&self.settings, self.mark, parameter, value);
        Heard::Register { mark, changed, deaf: changed && parameter == parameter::RUN_MODE }
    }
}

impl mit::Protocol for Protocol {
    const MARKS: usize = MARKS.len();

    fn id(&self) -> u8 {
        self.id
    }

    fn drive(&self) -> &Drive {
        &self.settings.drive
    }

    fn frame(&self, say: Say) -> Frame {
        self.settings.frame(self.id, say)
    }

    fn made_ready(&mut self, mark: u32) {
        self.mark = Some(Mark::of(&self.settings, self.watchdog_s, mark));
    }

    fn is_from(&self, frame: &Frame) -> bool {
        self.settings.reply(self.id, frame).is_some()
    }

    fn hear(&self, frame: &Frame) -> Heard {
        match self.settings.reply(self.id, frame) {
            // It reports by itself: its age is not known.
            Some(Reply::State(_)) if parts(frame).is_some_and(|(kind, ..)| kind == kind::REPORT) => {
                Heard::Aside
            }
            Some(Reply::State(state)) => Heard::State(said(&state)),
            Some(Reply::Value { parameter, value, .. }) => self.register(parameter, value),
            // Whoever is asked who it is has not been asked by the loop; its faults are in its state as well.
            Some(_) => Heard::Aside,
            None => Heard::Nothing,
        }
    }
}

/// What a state says.
fn said(state: &State) -> Said {
    let fault = match state.faults {
        0 => Fault::NONE,
        bits => Fault { code: bits.into(), text: FAULT_TEXTS[bits.trailing_zeros() as usize] },
    };
    Said {
        output: match state.mode {
            _ if state.faults != 0 => Output::Faulted,
            mode::RESET => Output::Off,
            mode::RUN => Output::On,
            // Its output is on for something else.
            _ => Output::Faulted,
        },
        mode: Mode { number: state.mode, name: mode::name(state.mode) },
        fault: if state.mode == mode::CALIBRATION && state.faults == 0 { CALIBRATES } else { fault },
        position: state.position,
        velocity: state.velocity,
        torque: state.torque,
        celsius: state.celsius(),
    }
}

/// The least significant fault is told; its code has all of them.
const FAULT_TEXTS: [&str; 6] = FAULTS;

const CALIBRATES: Fault = Fault { code: 64, text: "it calibrates itself" };
