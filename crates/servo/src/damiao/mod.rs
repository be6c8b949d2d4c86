//! Damiao servos in MIT mode: one command and one reply of eight bytes per servo and cycle, on CAN or CAN-FD.
//!
//! # What is different from other families
//! - The position and velocity gains travel with every command, so the robot file has them.
//! - Their watchdog switches the output off: a joint that is cut off goes limp. Damping exists only while commands come.
//! - No greatest torque travels.
//! - A fault is cleared before the first tick only, never by the loop.
//! - The output has to be enabled by a frame of its own. That is done after each [`ServoCommand::Stop`]: a servo that is
//!   found off in between has lost its power or was switched off by somebody, and is left alone. One that is found on after a
//!   stop is switched off before it is driven.
//! - What was set before the first tick is lost with the power. So a run sets a watchdog that is longer by its *mark*, 1 to 15 steps
//!   of 50 µs, which no servo has had before: whatever a servo has in its flash, it is something else. The watchdog is read before
//!   a servo is enabled and after every missed reply. One whose watchdog, control mode, ranges or ids are others, or that tells
//!   of somebody else's write, is taken for faulted: it is not driven until it has been made ready again.
//! - A reply carries nothing that names its request; see below.
//!
//! # Which request does a reply answer?
//! Each request has exactly one reply, and a servo keeps the order. While every command is answered within its cycle, the
//! next state answers this cycle's. After a miss the servo is out of step: in the next cycle a register is read instead of a
//! command, and its value, which cannot be mistaken, shows that nothing older is to come. As long as it does not come,
//! commands and registers take turns; so a bus carries no more than it does otherwise, and a servo that nobody hears is still told
//! to stop. Thirteen registers take turns.
//!
//! What cannot be distinguished: a reply that comes more than 200 cycles after a miss; the reply to somebody else's
//! request if it comes before this cycle's own; and a state of a servo that is off, 12.48 rad from its zero, which looks like a
//! register. Further replies within a cycle are duplicates, and keep a robot from being armed.

mod by_hand;
mod codec;
mod queries;
mod ready;
mod settings;

pub use settings::{DamiaoSettings, Model};

use crate::{
    Carries, Exchange, FamilySettings, Mounting, Plan, Request, ServoCommand, ServoState, Servos, Taken,
};
use codec::Codec;
use khz_wire::Frame;
use khz_wire::damiao::{self, Access, RegisterReply, State, register, status};
use khz_wire::mit::Scale;
use queries::{Answer, MARKS, Marked, Queries, Turn};

/// How one servo is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The identifier of its replies.
    pub master_id: u16,
    /// CAN-FD with bit-rate switch; otherwise classic CAN.
    pub can_fd: bool,
    /// Position gain, N·m/rad.
    pub kp: f64,
    /// Velocity gain, N·m·s/rad.
    pub kd: f64,
    /// Velocity gain while it damps, N·m·s/rad.
    pub damping: f64,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
}

impl Settings {
    /// What a robot file says of the servo of this id. Without a model the ranges are those of the first; `khz check` refuses that.
    pub fn of(file: &DamiaoSettings, id: u8) -> Self {
        let [position, velocity, torque] = file.model.unwrap_or_default().ranges();
        Self {
            master_id: file.master_id.unwrap_or(u16::from(id) + 0x10),
            can_fd: file.can_fd,
            kp: file.kp,
            kd: file.kd,
            damping: file.damping,
            ranges: [
                file.position_range.unwrap_or(position),
                file.velocity_range.unwrap_or(velocity),
                file.torque_range.unwrap_or(torque),
            ],
        }
    }

    fn position(&self) -> Scale {
        Scale::symmetric(self.ranges[0], 16)
    }

    fn velocity(&self) -> Scale {
        Scale::symmetric(self.ranges[1], 12)
    }

    fn torque(&self) -> Scale {
        Scale::symmetric(self.ranges[2], 12)
    }
}

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        let [position, velocity, torque] = self.ranges;
        Carries {
            zero: mounting.offset,
            position,
            velocity,
            torque,
            max_torque: 0.0,
            least_max_torque: 0.0,
            kp_scale: true,
            kd_scale: true,
            velocity_asked: true,
            reported: [position, velocity],
            reported_steps: [self.position().step(), self.velocity().step()],
        }
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        mounting.narrow(limits, |servo| self.position().inside(servo))
    }

    fn exchange(&self, id: u8) -> [Frame; 2] {
        let codec = Codec::new(self.clone(), Mounting::default());
        let command = codec.follow(&crate::PositionCommand::hold(0.0));
        let rest = State {
            id,
            status: status::ENABLED,
            position: 0x7fff,
            velocity: 0x7ff,
            torque: 0x7ff,
            board: 30,
            rotor: 30,
        };
        [
            damiao::frame(id.into(), self.can_fd, command),
            damiao::frame(self.master_id.into(), self.can_fd, rest.to_bytes()),
        ]
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        let is_reply = !frame.extended && frame.id == u32::from(self.master_id);
        frame.payload().first().filter(|_| is_reply).map(|first| first & 0xf)
    }

    fn cut_off(&self) -> &'static str {
        "goes limp: its watchdog switches the output off"
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        status::ALL.map(|number| (number.into(), status::name(number))).to_vec()
    }

    fn ready(&self, id: u8, watchdog_s: f64, mark: u32) -> Vec<Exchange> {
        ready::dialogue(self, id, watchdog_s, mark)
    }
}

/// The servos of one bus.
#[derive(Debug, Default)]
pub struct Bus {
    servos: Vec<Servo>,
}

/// One servo: its frames, and which of its requests are unanswered.
#[derive(Debug)]
struct Servo {
    number: usize,
    id: u8,
    watchdog_s: f64,
    /// Its watchdog, as it was set before the first tick; `None`: it was not.
    timeout: Option<u32>,
    /// The identifier of somebody else's replies who has its id, too.
    twin: Option<u32>,
    codec: Codec,
    queries: Queries,
    turn: Turn,
    /// Reads the mark of the turn.
    mark: Frame,
    command: Frame,
    /// Its watchdog was seen to be set since it was last told to stop.
    verified: bool,
}

impl Bus {
    /// Adds a servo; of several with the same id and identifier of replies, only the first one is read.
    pub fn add(&mut self, plan: &Plan<&Settings>) {
        let off = damiao::frame(plan.id.into(), plan.family.can_fd, damiao::Special::Disable.to_bytes());
        self.servos.push(Servo {
            number: plan.servo,
            id: plan.id,
            watchdog_s: plan.watchdog_s,
            timeout: None,
            twin: None,
            codec: Codec::new(plan.family.clone(), plan.mounting),
            queries: Queries::default(),
            turn: Turn::default(),
            mark: off,
            command: off,
            verified: false,
        });
    }

    /// A frame with an identifier of nobody's.
    fn take_unknown(&mut self, frame: &Frame) -> Taken {
        for servo in &mut self.servos {
            if servo.is_from_twin(frame) {
                return Taken::Duplicate { servo: servo.number };
            }
        }
        Taken::Unexpected
    }
}

impl Servo {
    fn begin(&mut self, command: &ServoCommand) {
        let can_fd = self.codec.settings().can_fd;
        self.verified &= *command != ServoCommand::Stop;
        let verify = !self.verified && self.codec.is_to_be_enabled(command);
        self.turn = self.queries.next(verify);
        if let Some(register) = self.turn.mark {
            let payload = Access::Read(register).to_bytes(self.id);
            self.mark = damiao::frame(damiao::REGISTERS, can_fd, payload);
        }
        if !self.turn.command {
            return;
        }
        let may_enable = self.verified && !self.queries.is_doubtful();
        self.command = match self.codec.encode(command, may_enable) {
            Some(bytes) => damiao::frame(self.id.into(), can_fd, bytes),
            None => damiao::frame(damiao::REGISTERS, can_fd, Access::Refresh.to_bytes(self.id)),
        };
    }

    /// The parts of the present turn: the frame, and whether it is the command.
    fn part(&self, part: usize) -> Option<(&Frame, bool)> {
        let mark = self.turn.mark.map(|_| (&self.mark, false));
        let command = self.turn.command.then_some((&self.command, true));
        mark.into_iter().chain(command).nth(part)
    }

    /// The frame is one of its replies.
    fn is_from(&self, frame: &Frame) -> bool {
        self.codec.settings().replier(frame) == Some(self.id & 0xf)
    }

    /// The frame is of a second motor with its id, known by its answer to a read of ours. Any other frame may be of a device
    /// that has nothing to do with it.
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

    fn take_register(&mut self, reply: &RegisterReply) -> Taken {
        let servo = self.number;
        if !ready::is_as_set(self.codec.settings(), self.id, self.timeout, reply) {
            self.codec.has_changed(ready::is_other_mode(reply));
        }
        // Nobody writes registers within the loop; a mark is read.
        let marked =
            if reply.asked == damiao::READ { self.queries.marked(reply.register) } else { Marked::No };
        if marked != Marked::No && reply.register == register::TIMEOUT {
            self.verified = true;
        }
        match marked {
            Marked::Alone { sent_ns } => Taken::Answer { servo, sent_ns },
            Marked::Yes => Taken::Aside,
            Marked::No => Taken::Unexpected,
        }
    }

    fn take(&mut self, frame: &Frame, state: &mut ServoState) -> Taken {
        let servo = self.number;
        if let Some(reply) = RegisterReply::parse(frame.payload(), self.id) {
            return self.take_register(&reply);
        }
        let Some(said) = State::parse(frame.payload()) else { return Taken::Unexpected };
        match self.queries.answered() {
            Answer::News { sent_ns, newest } => {
                self.codec.decode(&said, state);
                state.at_ns = sent_ns;
                Taken::State { servo, sent_ns, newest }
            }
            Answer::Duplicate => Taken::Duplicate { servo },
            Answer::Unknown => Taken::Late { servo },
        }
    }
}

impl Servos for Bus {
    fn made_ready(&mut self, mark: u32) {
        for servo in &mut self.servos {
            servo.timeout = Some(ready::timeout(servo.watchdog_s, mark));
        }
    }

    fn turns(&self) -> usize {
        self.servos.len()
    }

    fn servos(&self, turn: usize) -> &[usize] {
        self.servos.get(turn).map_or(&[], |servo| std::slice::from_ref(&servo.number))
    }

    fn begin(&mut self, commands: &[ServoCommand]) {
        for servo in &mut self.servos {
            servo.begin(&commands[servo.number]);
        }
    }

    fn request(&self, turn: usize, part: usize) -> Option<Request<'_>> {
        let servo = self.servos.get(turn)?;
        let (frame, _) = servo.part(part)?;
        Some(Request { frame, to: Some(servo.id), replies: 1 })
    }

    fn sent(&mut self, turn: usize, part: usize, now_ns: i64) {
        let servo = &mut self.servos[turn];
        match servo.part(part) {
            Some((_, true)) => servo.queries.sent(now_ns),
            Some((_, false)) => servo.queries.sent_mark(now_ns),
            None => {}
        }
    }

    fn take(&mut self, frame: &Frame, states: &mut [ServoState]) -> Taken {
        match self.servos.iter_mut().find(|servo| servo.is_from(frame)) {
            Some(servo) => servo.take(frame, &mut states[servo.number]),
            None => self.take_unknown(frame),
        }
    }
}
