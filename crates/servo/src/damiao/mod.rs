//! Damiao servos in MIT mode: one command and one reply of eight bytes per servo and cycle, on CAN or CAN-FD.
//!
//! [`crate::mit`] describes how they are driven. Specific to them:
//! - Their ranges are registers, which are read before the first tick; so are ids, control mode and watchdog. The mark of a run is
//!   a watchdog that is longer by 1 to 15 steps of 50 µs.
//! - All frames of registers have one identifier, and a state of a servo that is off, 12.48 rad from its zero, looks like a register.
//! - A command with everything at its greatest would be one of the special codes; it is moved aside by one code.

mod by_hand;
mod ready;
mod settings;

pub use settings::{DamiaoSettings, Model};

use crate::about::OnBus;
use crate::mit::codec::Codec;
use crate::mit::{self, Drive, Message, Output, Received, Reported};
use crate::{
    Carries, Doing, Exchange, FamilySettings, Fault, Identifiers, Mode, Mounting, Occasion, ServoPlan,
};
use khz_wire::Frame;
use khz_wire::damiao::{self, Access, RegisterReply, Special, State, celsius, register, status};

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The identifier of its replies.
    pub master_id: u16,
    /// CAN-FD with bit-rate switch; otherwise classic CAN.
    pub can_fd: bool,
    /// Its codes and gains.
    pub drive: Drive,
}

impl Settings {
    /// The keys of the servo with this id in a robot file. Without a model the ranges are those of the first; `khz check` refuses that.
    pub fn of(file: &DamiaoSettings, id: u8) -> Self {
        let [position, velocity, torque] = file.model.unwrap_or_default().ranges();
        Self {
            master_id: file.master_id.unwrap_or(u16::from(id) + 0x10),
            can_fd: file.can_fd,
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

    /// The frame with this message to the servo with this id.
    fn frame(&self, id: u8, message: Message) -> Frame {
        let (to, payload) = match message {
            Message::Command(codes) => (id.into(), codes.beside_special_codes().to_bytes()),
            Message::Enable => (id.into(), Special::Enable.to_bytes()),
            Message::Disable => (id.into(), Special::Disable.to_bytes()),
            Message::Clear => (id.into(), Special::Clear.to_bytes()),
            Message::Ask => (damiao::REGISTERS, Access::Refresh.to_bytes(id)),
            Message::Mark(mark) => (damiao::REGISTERS, Access::Read(MARKS[mark]).to_bytes(id)),
        };
        damiao::frame(to, self.can_fd, payload)
    }
}

/// The gains of the last code, whichever the model: N·m/rad and N·m·s/rad.
const MOST_GAINS: [f64; 2] = [500.0, 5.0];

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        self.drive.carries(mounting)
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        self.drive.targets(limits, mounting)
    }

    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2] {
        let codec = Codec::new(self.drive.clone(), Mounting::default());
        let reply = |payload| damiao::frame(self.master_id.into(), self.can_fd, payload);
        let (message, status) = match occasion {
            Occasion::Stopped => (Message::Disable, status::DISABLED),
            Occasion::Following | Occasion::Changing => {
                (Message::Command(codec.follow(&crate::PositionCommand::hold(0.0))), status::ENABLED)
            }
            Occasion::SwitchingOn | Occasion::AfterLoss => {
                let message = RegisterReply { asked: damiao::READ, register: MARKS[0], value: [0; 4] };
                return [self.frame(id, Message::Mark(0)), reply(message.to_bytes(id))];
            }
        };
        let rest =
            State { id, status, position: 0x7fff, velocity: 0x7ff, torque: 0x7ff, board: 30, rotor: 30 };
        [self.frame(id, message), reply(rest.to_bytes())]
    }

    /// In the other control modes its commands are at its id and 0x100, 0x200 or 0x300.
    fn identifiers(&self, id: u8) -> Vec<Identifiers> {
        let commands = [0, 0x100, 0x200, 0x300].map(|mode| mode + u32::from(id));
        commands.into_iter().chain([self.master_id.into(), damiao::REGISTERS]).map(Identifiers::one).collect()
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        let is_reply = !frame.extended && frame.id == u32::from(self.master_id);
        frame.payload().first().filter(|_| is_reply).map(|first| first & 0xf)
    }

    fn cut_off(&self) -> &'static str {
        "goes limp: its watchdog switches the output off"
    }

    fn timed_out_as(&self) -> Option<(Doing, u32)> {
        Some((Doing::Faulted, status::LOST_COMMUNICATION.into()))
    }

    fn reach_of(&self, torque: f64) -> Option<f64> {
        Some(self.drive.reach_of(torque))
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        status::ALL.map(|number| (number.into(), status::name(number))).to_vec()
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
    /// Its watchdog, as it was set before the first tick; `None`: it was not.
    timeout: Option<u32>,
    /// The identifier of the replies of another servo with the same id.
    twin: Option<u32>,
}

impl Protocol {
    /// The servo of a plan.
    pub fn of(plan: &ServoPlan<&Settings>) -> Self {
        let settings = plan.family.clone();
        Self { settings, id: plan.id, watchdog_s: plan.watchdog_s, timeout: None, twin: None }
    }

    fn register(&self, reply: &RegisterReply) -> Received {
        let mark = MARKS.iter().position(|&mark| reply.asked == damiao::READ && mark == reply.register);
        let changed = !ready::is_as_set(&self.settings, self.id, self.timeout, reply);
        Received::Register { mark, changed, deaf: changed && ready::is_other_mode(reply) }
    }
}

impl OnBus for Settings {
    const ASKED: Option<u8> = Some(2);

    fn unknown() -> Vec<Self> {
        let file = |can_fd| DamiaoSettings { can_fd, ..DamiaoSettings::default() };
        [false, true].map(|can_fd| Self::of(&file(can_fd), 0)).into()
    }

    type Bus = mit::Bus<Protocol>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        bus.add(plan, Protocol::of(plan));
    }
}

impl mit::Protocol for Protocol {
    const MARKS: usize = MARKS.len();
    // Writes to the others are visible on the bus.
    const WATCHED: usize = 1;
    const REPORTS_RANGES: bool = true;

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
        self.timeout = Some(ready::timeout(self.watchdog_s, mark));
    }

    fn is_from(&self, frame: &Frame) -> bool {
        self.settings.replier(frame) == Some(self.id & 0xf)
    }

    fn receive(&mut self, frame: &Frame) -> Received {
        if let Some(reply) = RegisterReply::parse(frame.payload(), self.id) {
            return self.register(&reply);
        }
        State::parse(frame.payload()).map_or(Received::Nothing, |state| Received::State(reported(&state)))
    }

    /// Known by its answer to a read of ours. Any other frame may be of a device that has nothing to do with it.
    fn is_from_twin(&mut self, frame: &Frame) -> bool {
        let is_answer = |reply: RegisterReply| reply.asked == damiao::READ && MARKS.contains(&reply.register);
        if frame.extended || frame.id == damiao::REGISTERS {
            return false;
        }
        if RegisterReply::parse(frame.payload(), self.id).is_some_and(is_answer) {
            self.twin = Some(frame.id);
        }
        let is_its = frame.payload().first().is_some_and(|first| first & 0xf == self.id & 0xf);
        self.twin == Some(frame.id) && is_its
    }
}

/// Registers that are read as marks. None of them changes by itself, and every servo has them. Last are those that a firmware may have
/// to fetch from its flash.
const MARKS: [u8; mit::queries::MARKS] = [
    register::TIMEOUT,
    register::ID,
    register::MASTER_ID,
    register::CONTROL_MODE,
    register::POSITION_RANGE,
    register::VELOCITY_RANGE,
    register::TORQUE_RANGE,
    register::BIT_RATE,
    register::POLE_PAIRS,
    register::SOFTWARE,
    register::SUB_VERSION,
    register::HARDWARE,
    register::SERIAL,
];

/// The content of a state.
fn reported(state: &State) -> Reported {
    let name = status::name(state.status);
    let output = match state.status {
        status::DISABLED => Output::Off,
        status::ENABLED => Output::On,
        status::LOST_COMMUNICATION => Output::TimedOut,
        fault if status::ALL.contains(&fault) => Output::Faulted,
        _ => Output::Astray,
    };
    let fault = match output {
        Output::TimedOut | Output::Faulted | Output::Astray => {
            Fault { code: state.status.into(), text: name }
        }
        _ => Fault::NONE,
    };
    Reported {
        output,
        mode: Mode { number: state.status, name },
        fault,
        position: state.position.into(),
        velocity: state.velocity.into(),
        torque: state.torque.into(),
        celsius: celsius(state.board).max(celsius(state.rotor)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mit::codec::Codec;
    use crate::{PositionCommand, ServoState};
    use khz_wire::mit::Codes;

    fn settings(kp: f64, kd: f64) -> Settings {
        let file = DamiaoSettings { model: Some(Model::Dm4310), kp, kd, ..DamiaoSettings::default() };
        Settings::of(&file, 1)
    }

    fn sent(settings: &Settings, codes: Codes) -> [u8; 8] {
        settings.frame(1, Message::Command(codes)).payload().try_into().unwrap()
    }

    #[test]
    fn damping_is_the_clients_damping_frame_but_for_half_a_step() {
        let settings = settings(50.0, 0.5);
        let mut codec = Codec::new(settings.drive.clone(), Mounting::default());
        let frames = [0; 2].map(|_| sent(&settings, codec.damp(1.0)));
        assert_eq!(frames[1], [0x7f, 0xff, 0x7f, 0xf0, 0, 0x33, 0x38, 0]);
    }

    #[test]
    fn every_status_has_a_meaning_and_only_faults_have_a_code() {
        for number in 0..16 {
            let mut codec = Codec::new(settings(5.0, 0.5).drive, Mounting::default());
            let mut servo = ServoState::UNKNOWN;
            let state = State {
                id: 1,
                status: number,
                position: 0x851e,
                velocity: 0x7ff,
                torque: 0x7ff,
                board: 30,
                rotor: 31,
            };
            codec.decode(&reported(&state), true, &mut servo);
            let expected = match number {
                0 => Doing::Off,
                1 => Doing::Following,
                _ => Doing::Faulted,
            };
            assert_eq!(servo.doing, expected);
            assert_eq!(servo.fault.code == 0, number < 2, "{number}");
            assert!((servo.position - 0.5).abs() < 0.001 && servo.temperature == 31.0);
        }
    }

    #[test]
    fn everything_at_its_greatest_is_no_special_code() {
        let settings = settings(500.0, 5.0);
        let codec = Codec::new(settings.drive.clone(), Mounting::default());
        for torque in [9.98, 9.985, 9.99, 9.995, 10.0] {
            let target = PositionCommand { velocity: 30.0, torque, ..PositionCommand::hold(12.5) };
            assert_ne!(sent(&settings, codec.follow(&target))[..7], [0xff; 7], "{torque}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_command_is_a_special_code(
            parts in [-1e9..1e9_f64, -1e9..1e9, -1e9..1e9, -10.0..10.0, -10.0..10.0],
            gains in (0.0..500.0_f64, 0.0..5.0_f64),
        ) {
            let [position, velocity, torque, kp_scale, kd_scale] = parts;
            let settings = settings(gains.0, gains.1);
            let codec = Codec::new(settings.drive.clone(), Mounting::default());
            let target = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque: f64::NAN };
            proptest::prop_assert_ne!(&sent(&settings, codec.follow(&target))[..7], &[0xff; 7]);
        }
    }
}
