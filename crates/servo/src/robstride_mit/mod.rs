//! RobStride servos set to their MIT protocol: one command and one reply of eight bytes per servo and cycle, on classic CAN.
//!
//! [`crate::mit`] describes how they are driven. Less is known, and less can be seen, than by their private protocol
//! ([`crate::robstride`]), which is to be preferred. Specific to them:
//! - No register is read or set, nor is the watchdog, which is off from the factory: the robot file has to confirm that this is known
//!   (`robstride_mit.unwatched`). Firmware from 0.3.1.41 has requests for that, of which no recording exists.
//! - A state reports neither whether the output is on, which is as last commanded, nor a fault. Faults are read and cleared before the
//!   first tick only. One that comes later shows as a joint that exerts no torque.
//! - Ranges are those of the manual's chapter 6. Of the RS03, RS04 and RS06 sources differ tenfold on the gains, so there is no such model.
//! - What only asks would be a command at full scale to a motor of another family in MIT mode. So it comes after "off".

mod by_hand;

use crate::about::OnBus;
use crate::mit::codec::Codec;
use crate::mit::{self, Drive, Message, Output, Reported};
use crate::{
    Carries, Exchange, FamilySettings, Fault, Identifiers, Mode, Mounting, Occasion, PositionCommand,
    ReplyCheck, ServoPlan,
};
use khz_settings::{section, words};
use khz_wire::Frame;
use khz_wire::robstride_mit::{Reply, Request, State, fault_name, frame};

words! {
    /// The model of a RobStride servo that is set to its MIT protocol.
    Model {
        /// RS00: 33 rad/s, 14 N·m.
        Rs00 = "RS00",
        /// RS01: 44 rad/s, 17 N·m.
        Rs01 = "RS01",
        /// RS02: 33 rad/s by chapter 6 of its manual, 44 by chapter 4; 17 N·m by both, 20 by LeRobot.
        Rs02 = "RS02",
        /// RS05: 50 rad/s, 5.5 N·m.
        Rs05 = "RS05",
        /// EL05: 50 rad/s, 6 N·m.
        El05 = "EL05",
    }
}

impl Model {
    /// Half the ranges of position (rad), velocity (rad/s) and torque (N·m), by chapter 6 of the manuals of 2026-04-28.
    pub const fn ranges(self) -> [f64; 3] {
        let (velocity, torque) = match self {
            Self::Rs00 => (33.0, 14.0),
            Self::Rs01 => (44.0, 17.0),
            Self::Rs02 => (33.0, 17.0),
            Self::Rs05 => (50.0, 5.5),
            Self::El05 => (50.0, 6.0),
        };
        [12.57, velocity, torque]
    }
}

section! {
    /// `robstride_mit` of a servo with `family = "robstride_mit"`.
    RobstrideMitSettings {
        /// The motor's model; required. Others have their private protocol only (`family = "robstride"`).
        model: Option<Model> = None, "";
        /// The identifier of its replies (its maker calls it the host's id); no servo's id.
        host_id: u8 = 253, "", 0 => 255;
        /// Required: its watchdog is neither set nor read. `true` confirms that you know that the motor may follow its last command for
        /// ever when this computer fails.
        unwatched: bool = false, "";
        /// Position gain: `kp_scale` of a command is a share of it.
        kp: f64 = 20.0, "N·m/rad", 0.0 => 500.0;
        /// Velocity gain: `kd_scale` of a command is a share of it.
        kd: f64 = 0.5, "N·m·s/rad", 0.0 => 5.0;
        /// Velocity gain while it damps.
        damping: f64 = 1.0, "N·m·s/rad", 0.01 => 5.0;
        /// Half the range of positions. Without the key 12.57.
        position_range: Option<f64> = None, "rad", 0.1 => 1000.0;
        /// The greatest velocity that can be represented. Required where sources differ on the model's.
        velocity_range: Option<f64> = None, "rad/s", 0.1 => 1000.0;
        /// The greatest torque that can be represented. Required where sources differ on the model's.
        torque_range: Option<f64> = None, "N·m", 0.01 => 1000.0;
    }
}

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The identifier of its replies.
    pub host_id: u8,
    /// Its codes and gains.
    pub drive: Drive,
}

/// The gains of the last code: N·m/rad and N·m·s/rad.
const MOST_GAINS: [f64; 2] = [500.0, 5.0];
/// As by the private protocol: of 245 times that such a drive was switched on its answer took 5 ms at most.
const SWITCHING_NS: i64 = 5_000_000;

impl Settings {
    /// The keys of a servo in a robot file. Without a model the ranges are those of the first; `khz check` refuses that.
    pub fn of(file: &RobstrideMitSettings) -> Self {
        let [position, velocity, torque] = file.model.unwrap_or_default().ranges();
        Self {
            host_id: file.host_id,
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

    /// What an id's servo answers, if this is from it.
    fn reply(&self, id: u8, frame: &Frame) -> Option<Reply> {
        let is_reply = !frame.extended && !frame.fd && frame.id == u32::from(self.host_id);
        Reply::parse(frame.payload()).filter(|reply| is_reply && reply.id() == id)
    }

    /// A request that must be answered, by anything.
    fn asked(&self, id: u8, what: &str, request: Request) -> Exchange {
        self.judged(id, what, request, |_| ReplyCheck::Good)
    }

    fn judged(&self, id: u8, what: &str, request: Request, judge: fn(Reply) -> ReplyCheck) -> Exchange {
        let settings = self.clone();
        Exchange {
            what: what.to_owned(),
            if_silent: IF_SILENT,
            quiet_ns: 0,
            frame: frame(id, request.to_bytes()),
            judge: Box::new(move |frame| settings.reply(id, frame).map_or(ReplyCheck::Unrelated, judge)),
        }
    }
}

/// It is asked for its state by "off", which it is then. It has no registers, so no mark is ever sent.
const fn request(message: Message) -> Request {
    match message {
        Message::Command(codes) => Request::Command(codes),
        Message::Enable => Request::Enable,
        Message::Disable | Message::Clear | Message::Ask | Message::Mark(_) => Request::Stop,
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
        let asked = match occasion {
            Occasion::Stopped => Request::Stop,
            Occasion::SwitchingOn => Request::Enable,
            Occasion::Following | Occasion::Changing | Occasion::AfterLoss => {
                Request::Command(codec.follow(&PositionCommand::hold(0.0)))
            }
        };
        let rest = State { id, position: 0x7fff, velocity: 0x7ff, torque: 0x7ff, temperature: 300 };
        [frame(id, asked.to_bytes()), frame(self.host_id, Reply::State(rest).to_bytes())]
    }

    fn switching_ns(&self) -> i64 {
        SWITCHING_NS
    }

    /// Commands of its other modes and parameters have identifiers of their own.
    fn identifiers(&self, id: u8) -> Vec<Identifiers> {
        let own = [0, 0x100, 0x200, 0x300, 0x400].map(|kind| kind + u32::from(id));
        own.into_iter().chain([self.host_id.into()]).map(Identifiers::one).collect()
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        let id = frame.payload().first().copied()?;
        self.reply(id, frame).map(Reply::id)
    }

    fn cut_off(&self) -> &'static str {
        "may follow its last command for ever: its watchdog is neither set nor read"
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        vec![(0, Mode::UNREPORTED.name)]
    }

    fn ready(&self, id: u8, _: f64, _: u32) -> Vec<Exchange> {
        vec![
            self.asked(id, "switch off", Request::Stop),
            self.asked(id, "clear its faults", Request::Faults { clear: true }),
            self.asked(id, "take commands of MIT mode", Request::Mode(0)),
            self.judged(id, "tell its faults", Request::Faults { clear: true }, |reply| match reply {
                Reply::State(_) => ReplyCheck::Good,
                Reply::Faults { faults, .. } => ReplyCheck::Wrong(format!(
                    "it says \"{}\" although it was commanded to clear its faults; find out why before you drive it",
                    fault(faults).text
                )),
            }),
        ]
    }
}

/// The error for a motor that does not answer.
const IF_SILENT: &str = "check its power, its id, the identifier of its replies (`robstride_mit.host_id`), the bit rate (1 Mbit/s), and that it \
                         is set to its MIT protocol (a motor as delivered is not: `family = \"robstride\"`)";

/// The least significant fault.
fn fault(faults: u16) -> Fault {
    let bit = faults.trailing_zeros();
    Fault { code: 1000 + bit, text: fault_name(bit) }
}

/// One servo, as [`mit`] drives it.
#[derive(Debug)]
pub struct Protocol {
    settings: Settings,
    id: u8,
}

impl OnBus for Settings {
    /// It cannot be asked without being switched off.
    const ASKED: Option<u8> = None;

    fn unknown() -> Vec<Self> {
        vec![Self::of(&RobstrideMitSettings::default())]
    }

    type Bus = mit::Bus<Protocol>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        bus.add(plan, Protocol { settings: plan.family.clone(), id: plan.id });
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
        frame(self.id, request(message).to_bytes())
    }

    fn made_ready(&mut self, _: u32) {}

    fn is_from(&self, frame: &Frame) -> bool {
        self.settings.reply(self.id, frame).is_some()
    }

    fn receive(&mut self, frame: &Frame) -> mit::Received {
        match self.settings.reply(self.id, frame) {
            Some(Reply::State(state)) => mit::Received::State(reported(&state)),
            // The loop does not ask for them: another host does.
            Some(Reply::Faults { faults, .. }) => mit::Received::Fault(fault(faults)),
            None => mit::Received::Nothing,
        }
    }
}

/// The content of a state.
fn reported(state: &State) -> Reported {
    Reported {
        output: Output::AsCommanded,
        mode: Mode::UNREPORTED,
        fault: Fault::NONE,
        position: state.position.into(),
        velocity: state.velocity.into(),
        torque: state.torque.into(),
        celsius: f64::from(state.temperature) * 0.1,
    }
}
