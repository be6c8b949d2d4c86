//! ODrives by CANSimple: a set-point and a question for position and velocity in every cycle, on classic CAN.
//!
//! How they are driven is described in [`crate::mit`]. What is their own:
//! - A set-point is not answered. What is answered is a remote frame that asks for the estimates, behind it. The drive must not send
//!   those by itself: they could not be distinguished from answers, which is proved before the first tick.
//! - Gains do not travel with a command. They are a cascade in turns of the motor: `vel_gain` = 2π·kd/N², `pos_gain` = kp/kd, no
//!   integrator, N turns of the motor for one of the joint. They are sent when they change, one of the two in a cycle, so that what is
//!   between the two is never stiffer than both. A position gain without a velocity gain cannot be sent.
//! - Messages are not read back. Those that set a drive up are repeated while it is off, and all of them have been sent before it is
//!   switched on, behind the present position as its set-point: an old one would make it jump.
//! - It reports its state in a heartbeat, which is as old as its period. Before the first tick it is proved to be 50 ms at most.
//! - Torque and errors are asked for in turns, every fourth cycle one of them.
//! - Its watchdog is a setting of the drive. Every frame feeds it (0.5.6), and it acts with the output off, too: a silence before the
//!   first tick proves it, and what that leaves is cleared until the drive is first switched on.
//! - Nothing shows that it has kept its power but its heartbeats: they have a gap when it starts again.
//!
//! All four marks have greater identifiers than the estimates, so that none of them overtakes an answer of the drive.

mod by_hand;
mod endpoints;
mod ready;
mod settings;

pub use endpoints::{Endpoint, Endpoints};
pub use settings::{Firmware, OdriveSettings};

use crate::about::OnBus;
use crate::mit::codec::{INTRUDED, SILENT};
use crate::mit::{self, Drive, Message, Output, Received, Reported};
use crate::{
    Aside, Carries, Exchange, FamilySettings, Fault, Identifiers, Mode, Mounting, Occasion, ServoPlan,
};
use khz_wire::Frame;
use khz_wire::mit::Codes;
use khz_wire::odrive::{
    self, Heartbeat, InputPos, Line, MOST_NODE, command, control, floats, input, state, two_floats,
    two_words, words,
};
use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Its firmware; `None`: unknown.
    pub firmware: Option<Firmware>,
    /// Turns of the motor for one of the joint.
    pub reduction: f64,
    /// N·m of the motor for each ampere.
    pub torque_constant: f64,
    /// A of the motor.
    pub current_limit: f64,
    /// Its watchdog is not proved.
    pub unwatched: bool,
    /// The `flat_endpoints.json` of its firmware.
    pub endpoints: Option<PathBuf>,
    /// Its gains and the ranges of the joint.
    pub drive: Drive,
}

/// The greatest gains: N·m/rad and N·m·s/rad.
const MOST_GAINS: [f64; 2] = [10_000.0, 1000.0];

/// Period of a drive's heartbeat, ns: the required setting.
pub const HEARTBEAT_NS: i64 = 20_000_000;

/// What a set-point carries of velocity and torque, turns/s and N·m of the motor: 16 bits of thousandths.
const FEED_FORWARD: f64 = 32.767;

/// Where it is unknown: N·m/A of a small motor. `khz check` refuses that.
const TORQUE_CONSTANT: f64 = 0.05;

/// So much beyond its velocity limit a drive switches off, as it leaves the factory.
pub const TOLERANCE: f64 = 1.2;

/// An error of one of its parts (0.5), which the axis does not have.
const PART: Fault =
    Fault { code: 0x8000_0000, text: "motor, encoder or controller failed: its own error says why" };

/// It answers, but does not report its state.
const MUTE: Fault = Fault {
    code: 0x1_0002,
    text: "it sends no heartbeats any more: its settings have changed; start a new run",
};

/// It has no estimate of its position.
const NO_ESTIMATE: Fault =
    Fault { code: 0x1_0001, text: "it has no position estimate: look at its encoder, and calibrate it" };

impl Settings {
    /// The keys of a servo in a robot file.
    pub fn of(file: &OdriveSettings) -> Self {
        let (reduction, current_limit) = (file.reduction, file.current_limit);
        let torque_constant = file.torque_constant.unwrap_or(TORQUE_CONSTANT);
        let fastest = FEED_FORWARD * TAU / reduction;
        Self {
            firmware: file.firmware,
            reduction,
            torque_constant,
            current_limit,
            unwatched: file.unwatched,
            endpoints: file.endpoints.as_ref().map(PathBuf::from),
            drive: Drive {
                kp: file.kp,
                kd: file.kd,
                damping: file.damping,
                ranges: [
                    file.position_range,
                    file.velocity_range.unwrap_or(fastest).min(fastest),
                    (current_limit * torque_constant).min(FEED_FORWARD) * reduction,
                ],
                most: MOST_GAINS,
                bits: 32,
            },
        }
    }

    /// How its messages are laid out.
    pub fn line(&self) -> Line {
        self.firmware.unwrap_or(Firmware::V06).line()
    }

    /// Turns of the motor in one radian of the joint.
    pub fn turns(&self) -> f64 {
        self.reduction / TAU
    }

    /// `pos_gain` and `vel_gain` of these gains at the joint. Without a velocity gain there is no position gain.
    pub fn cascade(&self, [kp, kd]: [f64; 2]) -> [f32; 2] {
        let pos = if kd > 0.0 { kp / kd } else { 0.0 };
        [pos as f32, (TAU * kd / (self.reduction * self.reduction)) as f32]
    }

    /// The set-point of these angles, velocities and torques at the joint.
    fn set_point(&self, position: f64, velocity: f64, torque: f64) -> InputPos {
        InputPos::new(position * self.turns(), velocity * self.turns(), torque / self.reduction)
    }

    fn limits(&self) -> [u8; 8] {
        floats([(self.drive.ranges[1] * self.turns()) as f32, self.current_limit as f32])
    }

    /// Where it reports the torque on its shaft.
    fn torque_command(&self) -> u8 {
        match self.line() {
            Line::V05 => command::IQ,
            Line::V06 => command::TORQUES,
        }
    }

    /// N·m at the joint per unit of what it reports there.
    fn torque(&self, estimated: [f32; 2]) -> f64 {
        let factor = match self.line() {
            Line::V05 => self.torque_constant,
            Line::V06 => 1.0,
        };
        f64::from(estimated[1]) * factor * self.reduction
    }

    /// The estimates as the joint has them before its mounting, rad and rad/s; `None` if it has none: firmware 0.5 reports zeros then.
    fn estimates(&self, payload: &[u8]) -> Option<[f64; 2]> {
        let values = two_floats(payload)?;
        let is_estimate = values.iter().all(|value| value.is_finite()) && values != [0.0, 0.0];
        is_estimate.then(|| values.map(|value| f64::from(value) / self.turns()))
    }

    fn marks(&self) -> [u8; MARKS] {
        let last = match self.line() {
            Line::V05 => command::COUNT,
            Line::V06 => command::IQ,
        };
        [command::BUS, command::POWERS, command::TEMPERATURE, last]
    }
}

/// What can be asked for as a mark.
const MARKS: usize = 4;

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        Carries { kp_needs_kd: true, reported_steps: [0.0; 2], ..self.drive.carries(mounting) }
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        self.drive.targets(limits, mounting)
    }

    fn exchange(&self, id: u8, _: Occasion) -> [Frame; 2] {
        let asked = command::ESTIMATES;
        [odrive::ask(id, asked), odrive::frame(id, asked, &floats([0.25, -1.5]))]
    }

    fn besides(&self, id: u8, occasion: Occasion) -> Vec<Frame> {
        let frame_of = |command, payload: [u8; 8]| odrive::frame(id, command, &payload);
        let idle = frame_of(command::AXIS_STATE, words([state::IDLE.into(), 0]));
        let point = frame_of(command::INPUT_POS, self.set_point(0.3, 0.1, 0.1).to_bytes());
        match occasion {
            Occasion::Stopped => vec![idle],
            Occasion::Following => vec![point],
            // Gains are frames of their own, one in a cycle, and are sent again after a loss.
            Occasion::AfterLoss | Occasion::SwitchingOn | Occasion::Changing => {
                vec![frame_of(command::VEL_GAINS, floats([0.03, 0.0])), point]
            }
        }
    }

    /// Messages of both ways are the last five bits.
    fn identifiers(&self, id: u8) -> Vec<Identifiers> {
        vec![Identifiers { id: odrive::ask(id, 0).id, mask: 0x7e0, extended: false }]
    }

    fn aside(&self, id: u8) -> Option<Aside> {
        let asked = self.torque_command();
        let frames = [odrive::ask(id, asked), odrive::frame(id, asked, &floats([0.1, 0.1]))];
        Some(Aside { every: ASKED_EVERY, turn: u32::from(id) % ASKED_EVERY, frames })
    }

    fn by_itself(&self, id: u8) -> Option<(Frame, i64)> {
        let beat = Heartbeat { state: state::CLOSED_LOOP, byte_6: 1, ..Heartbeat::default() };
        Some((odrive::frame(id, command::HEARTBEAT, &beat.to_bytes()), HEARTBEAT_NS))
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        let (node, _) = odrive::parts(frame)?;
        (node <= MOST_NODE && frame.remote.is_none()).then_some(node)
    }

    fn cut_off(&self) -> &'static str {
        if self.unwatched {
            "may follow its last command for ever: `odrive.unwatched`"
        } else {
            "switches off"
        }
    }

    fn reach_of(&self, torque: f64) -> Option<f64> {
        Some(self.drive.reach_of(torque))
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        (0..).zip(state::NAMES).collect()
    }

    fn ready(&self, id: u8, watchdog_s: f64, _: u32) -> Vec<Exchange> {
        ready::dialogue(self, id, watchdog_s)
    }
}

/// The state of this number in words.
fn mode(number: u8) -> Mode {
    Mode { number, name: state::NAMES.get(usize::from(number)).copied().unwrap_or("unknown") }
}

/// The fault in a heartbeat.
fn fault(beat: Heartbeat, line: Line) -> Fault {
    match beat.errors {
        0 if beat.has_error(line) => PART,
        0 => Fault::NONE,
        errors => Fault { code: errors, text: line.error_name(errors) },
    }
}

/// The messages that set it up, in the order in which they are repeated while it is off.
const SETS_UP: usize = 4;
/// Gains among them: position, velocity.
const GAINS: [usize; 2] = [2, 3];

/// In so many commands there is one question for torque or errors.
const ASKED_EVERY: u32 = 4;
/// Of so many of these one is for errors.
const ERRORS_EVERY: u32 = 8;

/// Heartbeats until one with "idle" was made after the command to switch on.
const STALE_BEATS: u8 = 2;

/// A gap between heartbeats, ns, after which it may have started anew. They come every 50 ms at least.
const GAP_NS: i64 = 250_000_000;

/// One servo, as [`mit`] drives it.
#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    id: u8,
    before: [Frame; 3],
    parts: usize,
    /// What each of them sends, of what is remembered: the message that sets it up, or its gains.
    sets: [Option<(usize, f32)>; 3],
    /// Which messages were handed over since it may have started anew.
    set_up: [bool; SETS_UP],
    next: usize,
    /// How often in a row it was commanded off while it was off.
    stops: u32,
    /// The gains last sent to it, if that is known.
    gains: [Option<f32>; 2],
    /// Where it was last, rad at the joint.
    position: f64,
    torque: f64,
    beat: Heartbeat,
    output: Output,
    /// The frames made last command it on.
    switches_on: bool,
    /// It was commanded on; and it has been on since it was made ready.
    is_driven: bool,
    was_driven: bool,
    /// Heartbeats that may be older than the command to switch on.
    stale: u8,
    /// The same for the command to switch off.
    leaving: u8,
    commands: u32,
    asked: u32,
    sent_ns: Option<i64>,
    /// When the newest heartbeat was received, as far as that is known.
    beat_ns: Option<i64>,
    /// It had no estimate when it was asked last.
    is_lost: bool,
}

impl Driver {
    /// The servo of a plan.
    pub fn of(plan: &ServoPlan<&Settings>) -> Self {
        let nothing = odrive::ask(plan.id, command::ESTIMATES);
        Self {
            settings: plan.family.clone(),
            id: plan.id,
            before: [nothing; 3],
            parts: 0,
            sets: [None; 3],
            set_up: [false; SETS_UP],
            next: 0,
            stops: 0,
            gains: [None; 2],
            position: 0.0,
            torque: 0.0,
            beat: Heartbeat::default(),
            output: Output::Off,
            switches_on: false,
            is_driven: false,
            was_driven: false,
            stale: 0,
            leaving: 0,
            commands: u32::from(plan.id),
            asked: 0,
            sent_ns: None,
            beat_ns: None,
            is_lost: false,
        }
    }

    fn add(&mut self, frame: Frame, sets: Option<(usize, f32)>) {
        if let Some(place) = self.before.get_mut(self.parts) {
            (*place, self.sets[self.parts]) = (frame, sets);
            self.parts += 1;
        }
    }

    fn add_command(&mut self, command: u8, payload: [u8; 8]) {
        self.add(odrive::frame(self.id, command, &payload), None);
    }

    /// One of the messages that set it up, as it is to damp.
    fn set_up(&mut self, which: usize) {
        let [pos, vel] = self.damping();
        let (command, payload, value) = match which {
            0 => (command::CONTROLLER_MODE, words([control::POSITION, input::PASSTHROUGH]), 0.0),
            1 => (command::LIMITS, self.settings.limits(), 0.0),
            2 => (command::POS_GAIN, floats([pos, 0.0]), pos),
            _ => (command::VEL_GAINS, floats([vel, 0.0]), vel),
        };
        self.add(odrive::frame(self.id, command, &payload), Some((which, value)));
    }

    fn damping(&self) -> [f32; 2] {
        // As a command's codes have it, to the last bit.
        let drive = &self.settings.drive;
        self.settings.cascade([0.0, drive.kd().decode(drive.kd().encode(drive.damping))])
    }

    /// The gain to be changed first: what is between the two is not stiffer than both.
    fn change_gains(&mut self, wanted: [f32; 2]) {
        let [pos, vel] = [0, 1].map(|which| self.gains[which] != Some(wanted[which]));
        let lowers_pos = self.gains[0].is_none_or(|sent| wanted[0] < sent);
        let which = match (pos, vel) {
            (false, false) => return,
            (true, true) => usize::from(!lowers_pos),
            (_, vel) => usize::from(vel),
        };
        let command = [command::POS_GAIN, command::VEL_GAINS][which];
        let frame = odrive::frame(self.id, command, &floats([wanted[which], 0.0]));
        self.add(frame, Some((GAINS[which], wanted[which])));
    }

    fn follow(&mut self, codes: Codes) {
        let drive = &self.settings.drive;
        let gains = [drive.kp().decode(codes.kp), drive.kd().decode(codes.kd)];
        let [position, velocity, torque] = [
            drive.position().decode(codes.position),
            drive.velocity().decode(codes.velocity),
            drive.torque().decode(codes.torque),
        ];
        // Without a position gain it means nothing; where it is does no harm.
        let position = if gains[0] > 0.0 { position } else { self.position };
        self.change_gains(self.settings.cascade(gains));
        let point = self.settings.set_point(position, velocity, torque);
        let changed = self.parts > 0;
        self.add_command(command::INPUT_POS, point.to_bytes());
        if !changed {
            self.ask_aside();
        }
    }

    /// Every now and then, torque or errors.
    fn ask_aside(&mut self) {
        if self.commands.is_multiple_of(ASKED_EVERY) {
            self.asked = self.asked.wrapping_add(1);
            let errors = self.asked.is_multiple_of(ERRORS_EVERY);
            let asked = if errors { command::ERROR } else { self.settings.torque_command() };
            self.add(odrive::ask(self.id, asked), None);
        }
    }

    /// Behind all that sets it up, and the present position, which damping has sent before.
    fn switch_on(&mut self) {
        if self.beat_ns.is_none() {
            // Its state is unknown.
            return self.switch_off();
        }
        // A heartbeat may have reported that it is on since its last state.
        if self.output != Output::On {
            (self.stale, self.output) = (STALE_BEATS, Output::Starting);
        }
        let is_damping = self.gains == self.damping().map(Some);
        if let Some(which) = self.set_up.iter().position(|sent| !sent) {
            return self.set_up(which);
        }
        if !is_damping {
            return self.change_gains(self.damping());
        }
        self.add_command(command::AXIS_STATE, words([state::CLOSED_LOOP.into(), 0]));
        (self.switches_on, self.is_driven, self.was_driven) = (true, true, true);
    }

    /// Off; one that reports off is also set up and cleared, in turns with that, so that a bus carries no more than otherwise.
    fn switch_off(&mut self) {
        if std::mem::take(&mut self.is_driven) && self.output == Output::On {
            // Neither on nor off until a heartbeat made after this reports it.
            (self.leaving, self.output) = (STALE_BEATS, Output::Starting);
        }
        let is_off = self.beat_ns.is_some() && self.beat.state == state::IDLE;
        self.stops = if is_off { self.stops.wrapping_add(1) } else { 0 };
        match self.stops % 4 {
            1 | 3 => {
                self.set_up(self.next);
                self.next = (self.next + 1) % SETS_UP;
            }
            2 if !self.was_driven && self.is_timed_out() => {
                self.add(odrive::frame(self.id, command::CLEAR_ERRORS, &[0]), None);
            }
            _ => self.add_command(command::AXIS_STATE, words([state::IDLE.into(), 0])),
        }
    }

    /// What its watchdog leaves is all that is wrong with it.
    fn is_timed_out(&self) -> bool {
        self.beat.errors == self.settings.line().watchdog()
    }

    fn state(&mut self, payload: &[u8]) -> Received {
        let Some([position, velocity]) = self.settings.estimates(payload) else {
            let fault = if std::mem::replace(&mut self.is_lost, true) { NO_ESTIMATE } else { Fault::NONE };
            return Received::Done { output: self.output, fault, newest: true };
        };
        (self.is_lost, self.position) = (false, position);
        if self.beat_ns.is_none() {
            // Its state is unknown.
            return Received::Done { output: self.output, fault: Fault::NONE, newest: true };
        }
        if self.is_driven && self.is_mute() {
            return Received::Fault(MUTE);
        }
        let drive = &self.settings.drive;
        Received::State(Reported {
            output: self.output,
            mode: mode(self.beat.state),
            fault: fault(self.beat, self.settings.line()),
            position: drive.position().encode(position),
            velocity: drive.velocity().encode(velocity),
            torque: drive.torque().encode(self.torque),
            celsius: f64::NAN,
        })
    }

    fn heartbeat(&mut self, beat: Heartbeat) -> Received {
        let has_error = beat.has_error(self.settings.line());
        let is_late = self.is_mute();
        self.beat_ns = self.sent_ns;
        self.beat = beat;
        let is_stale = self.stale > 0 && beat.state != state::CLOSED_LOOP && !has_error;
        self.stale = if is_stale { self.stale - 1 } else { 0 };
        let is_leaving =
            self.leaving > 0 && !self.is_driven && beat.state == state::CLOSED_LOOP && !has_error;
        self.leaving = if is_leaving { self.leaving - 1 } else { 0 };
        self.output = match beat.state {
            state::IDLE | 0 if has_error => Output::Faulted,
            state::IDLE | 0 if is_stale => Output::Starting,
            state::IDLE | 0 => Output::Off,
            state::CLOSED_LOOP if is_leaving => Output::Starting,
            state::CLOSED_LOOP if !has_error => Output::On,
            _ => Output::Astray,
        };
        if is_late {
            self.forget();
            return Received::Fault(SILENT);
        }
        // It may vanish from the next heartbeat.
        match fault(beat, self.settings.line()) {
            fault if has_error && self.is_driven => Received::Fault(fault),
            _ => Received::Aside,
        }
    }

    /// The last heartbeat was too long ago.
    fn is_mute(&self) -> bool {
        self.beat_ns.zip(self.sent_ns).is_some_and(|(beat_ns, sent_ns)| sent_ns - beat_ns > GAP_NS)
    }

    /// Its settings are unknown.
    fn forget(&mut self) {
        (self.set_up, self.gains) = ([false; SETS_UP], [None; 2]);
    }

    /// Active errors, which 0.5 reports for its motor only.
    fn errors(&self, payload: &[u8]) -> Received {
        let Some([active, rest]) = two_words(payload) else { return Received::Nothing };
        let line = self.settings.line();
        match line {
            _ if !self.is_driven => Received::Aside,
            Line::V06 if active != 0 => {
                Received::Fault(Fault { code: active, text: line.error_name(active) })
            }
            Line::V05 if active | rest != 0 => Received::Fault(PART),
            _ => Received::Aside,
        }
    }
}

/// What a drive never sends with data: another program does.
fn is_of_a_host(code: u8) -> bool {
    matches!(
        code,
        command::ESTOP | command::AXIS_STATE | command::CONTROLLER_MODE..=command::TRAJECTORY_INERTIA
    ) || matches!(code, command::REBOOT | command::CLEAR_ERRORS..=command::VEL_GAINS)
}

impl OnBus for Settings {
    // Some adapters do not carry its questions.
    const ASKED: Option<u8> = None;

    fn unknown() -> Vec<Self> {
        let of =
            |firmware| Self::of(&OdriveSettings { firmware: Some(firmware), ..OdriveSettings::default() });
        vec![of(Firmware::V06), of(Firmware::V05)]
    }

    fn with_endpoints(self, path: &Path) -> Option<Self> {
        Some(Self { endpoints: Some(path.to_owned()), ..self })
    }

    type Bus = mit::Bus<Driver>;

    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>) {
        bus.add(plan, Driver::of(plan));
    }
}

impl mit::Protocol for Driver {
    const MARKS: usize = MARKS;
    const WATCHED: usize = 1;
    // Turns are turns.
    const REPORTS_RANGES: bool = true;
    // A heartbeat reports it, and two may be older.
    const SWITCHING_NS: i64 = 6_000_000;

    fn id(&self) -> u8 {
        self.id
    }

    fn drive(&self) -> &Drive {
        &self.settings.drive
    }

    fn frame(&mut self, message: Message) -> Frame {
        if let Message::Mark(mark) = message {
            // What was sent before may not have arrived.
            self.gains = [None; 2];
            return odrive::ask(self.id, self.settings.marks()[mark]);
        }
        (self.parts, self.sets, self.switches_on) = (0, [None; 3], false);
        // Whatever it is commanded: drives with other nodes are asked aside in other cycles, whenever they were switched on.
        self.commands = self.commands.wrapping_add(1);
        match message {
            Message::Command(codes) => self.follow(codes),
            Message::Enable => self.switch_on(),
            Message::Disable | Message::Clear => self.switch_off(),
            Message::Ask | Message::Mark(_) => {}
        }
        odrive::ask(self.id, command::ESTIMATES)
    }

    fn switches_on(&self) -> bool {
        self.switches_on
    }

    fn before(&self) -> &[Frame] {
        &self.before[..self.parts]
    }

    fn sent_before(&mut self, which: usize) {
        let Some((sets, value)) = self.sets.get(which).copied().flatten() else { return };
        self.set_up[sets] = true;
        if let Some(gain) = GAINS.iter().position(|gain| *gain == sets) {
            self.gains[gain] = Some(value);
        }
    }

    fn sent(&mut self, now_ns: i64) {
        self.sent_ns = Some(now_ns);
    }

    fn made_ready(&mut self, _: u32) {
        (self.was_driven, self.beat_ns) = (false, None);
        self.forget();
    }

    fn is_from(&self, frame: &Frame) -> bool {
        self.settings.replier(frame) == Some(self.id)
    }

    fn receive(&mut self, frame: &Frame) -> Received {
        let (payload, code) = (frame.payload(), frame.id as u8 & 0x1f);
        match code {
            command::HEARTBEAT => {
                Heartbeat::parse(payload).map_or(Received::Nothing, |beat| self.heartbeat(beat))
            }
            // An empty frame asks.
            _ if payload.len() != 8 && !is_of_a_host(code) => Received::Nothing,
            command::ESTIMATES => self.state(payload),
            command::ERROR => self.errors(payload),
            code if code == self.settings.torque_command() => {
                let torque = two_floats(payload).map(|both| self.settings.torque(both));
                self.torque = torque.filter(|torque| torque.is_finite()).unwrap_or(self.torque);
                Received::Aside
            }
            code if is_of_a_host(code) => Received::Fault(INTRUDED),
            other => match self.settings.marks().iter().position(|mark| *mark == other) {
                Some(mark) => Received::Register { mark: Some(mark), changed: false, deaf: false },
                None => Received::Aside,
            },
        }
    }
}

#[cfg(test)]
mod tests;
