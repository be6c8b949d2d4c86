//! CubeMars (T-Motor) AK servos in MIT mode: one command and one reply of eight bytes per servo and cycle, on classic CAN.
//!
//! [`crate::mit`] describes how they are driven. Specific to them:
//! - Nothing can be read but the state, and that only by a command: neither ranges nor the watchdog, which is off from the factory
//!   and can be set with the maker's tool only. The robot file has to confirm that this is known (`cubemars.unwatched`).
//! - A reply does not report whether the output is on: it is as last commanded.
//! - Some firmware replies on the identifier of its commands. So no second command is sent while a reply may be on its way.
//! - After "set zero" it sends nothing for a second.

mod by_hand;
mod settings;

pub use settings::{CubemarsSettings, Model};

use crate::about::OnBus;
use crate::mit::codec::Codec;
use crate::mit::{self, Drive, Message, Output, Reported};
use crate::{
    Carries, Exchange, FamilySettings, Fault, Identifiers, Mode, Mounting, Occasion, PositionCommand,
    ReplyCheck, ServoPlan,
};
use khz_wire::Frame;
use khz_wire::cubemars::{self, State, error_name};
use khz_wire::mit::Special;

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The identifier of its replies.
    pub reply_id: u16,
    /// Its codes and gains.
    pub drive: Drive,
}

/// The gains of the last code, whichever the model: N·m/rad and N·m·s/rad.
const MOST_GAINS: [f64; 2] = [500.0, 5.0];

impl Settings {
    /// The keys of a servo in a robot file. Without a model the ranges are those of the first; `khz check` refuses that.
    pub fn of(file: &CubemarsSettings) -> Self {
        let [position, velocity, torque] = file.model.unwrap_or_default().ranges();
        Self {
            reply_id: file.reply_id,
            drive: Drive {
                kp: file.kp,
                kd: file.kd,
                damping: file.damping,
                ranges: [
                    file.position_range.unwrap_or(position),
                    file.velocity_range.unwrap_or(velocity),
                    file.torque_range.unwrap_or(torque),
                ],
                most: MOST_GAINS,
                bits: 12,
            },
        }
    }

    /// The frame with this message to the servo with this id. It is asked for its state by "off", which it is then.
    fn frame(&self, id: u8, message: Message) -> Frame {
        let payload = match message {
            Message::Command(codes) => codes.beside_special_codes().to_bytes(),
            Message::Enable => Special::Enable.to_bytes(),
            // It has no registers, so no mark is ever sent.
            Message::Disable | Message::Clear | Message::Ask | Message::Mark(_) => {
                Special::Disable.to_bytes()
            }
        };
        cubemars::frame(id.into(), payload)
    }

    /// The state in a frame, if it is from the servo with this id.
    fn state(&self, id: u8, frame: &Frame) -> Option<State> {
        let is_reply = !frame.extended && !frame.fd && frame.id == u32::from(self.reply_id);
        State::parse(frame.payload()).filter(|state| is_reply && state.id == id)
    }
}

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        self.drive.carries(mounting)
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        self.drive.targets(limits, mounting)
    }

    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2] {
        let codec = Codec::new(self.drive.clone(), Mounting::default());
        let message = match occasion {
            Occasion::Stopped => Message::Disable,
            Occasion::SwitchingOn => Message::Enable,
            Occasion::Following | Occasion::Changing | Occasion::AfterLoss => {
                Message::Command(codec.follow(&PositionCommand::hold(0.0)))
            }
        };
        let rest =
            State { id, position: 0x7fff, velocity: 0x7ff, torque: 0x7ff, temperature: Some(30), error: 0 };
        [self.frame(id, message), cubemars::frame(self.reply_id.into(), rest.to_bytes())]
    }

    fn identifiers(&self, id: u8) -> Vec<Identifiers> {
        vec![Identifiers::one(id.into()), Identifiers::one(self.reply_id.into())]
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        let id = frame.payload().first().copied()?;
        self.state(id, frame).map(|state| state.id)
    }

    fn cut_off(&self) -> &'static str {
        "may follow its last command for ever: no host can read or set its watchdog"
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        vec![(0, Mode::UNREPORTED.name)]
    }

    fn ready(&self, id: u8, _: f64, _: u32) -> Vec<Exchange> {
        let (settings, judged) = (self.clone(), self.clone());
        vec![
            Exchange {
                what: "switch off".to_owned(),
                if_silent: IF_SILENT,
                quiet_ns: 0,
                frame: self.frame(id, Message::Disable),
                judge: Box::new(move |frame| {
                    settings.state(id, frame).map_or(ReplyCheck::Unrelated, |_| ReplyCheck::Good)
                }),
            },
            Exchange {
                what: "tell its state".to_owned(),
                if_silent: IF_SILENT,
                quiet_ns: 0,
                frame: self.frame(id, Message::Ask),
                judge: Box::new(move |frame| match judged.state(id, frame) {
                    None => ReplyCheck::Unrelated,
                    Some(State { error: 0, .. }) => ReplyCheck::Good,
                    Some(State { error, .. }) => ReplyCheck::Wrong(format!(
                        "it says \"{}\", which no frame clears: find out why, and switch its power off and on",
                        error_name(error)
                    )),
                }),
            },
        ]
    }
}

/// The error for a motor that does not answer.
const IF_SILENT: &str = "check its power, its id, the identifier of its replies (`cubemars.reply_id`), the bit rate (1 Mbit/s), and that it is \
                         set to MIT mode";

/// One servo, as [`mit`] drives it.
#[derive(Debug)]
pub struct Protocol {
    settings: Settings,
    id: u8,
}

impl Protocol {
    /// The servo of a plan.
    pub fn of(plan: &ServoPlan<&Settings>) -> Self {
        Self { settings: plan.family.clone(), id: plan.id }
    }
}

impl OnBus for Settings {
    /// It cannot be asked without being switched off.
    const ASKED: Option<u8> = None;

    fn unknown() -> Vec<Self> {
        vec![Self::of(&CubemarsSettings::default())]
    }

    type Bus = mit::Bus<Protocol>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        bus.add(plan, Protocol::of(plan));
    }
}

impl mit::Protocol for Protocol {
    const MARKS: usize = 0;
    const WATCHED: usize = 0;
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

    fn made_ready(&mut self, _: u32) {}

    fn is_from(&self, frame: &Frame) -> bool {
        self.settings.state(self.id, frame).is_some()
    }

    fn receive(&mut self, frame: &Frame) -> mit::Received {
        let state = self.settings.state(self.id, frame);
        state.map_or(mit::Received::Nothing, |state| mit::Received::State(reported(&state)))
    }
}

/// The content of a state.
fn reported(state: &State) -> Reported {
    let (output, fault) = match state.error {
        0 => (Output::AsCommanded, Fault::NONE),
        code => (Output::Faulted, Fault { code: code.into(), text: error_name(code) }),
    };
    Reported {
        output,
        mode: Mode::UNREPORTED,
        fault,
        position: state.position.into(),
        velocity: state.velocity.into(),
        torque: state.torque.into(),
        celsius: state.temperature.map_or(f64::NAN, f64::from),
    }
}
