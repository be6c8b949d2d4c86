//! What is counted of one servo from tick to tick.

use crate::supervisor::Phase;
use crate::supervisor::joint::Joint;
use khz_servo::{Carries, Doing, ServoCommand, ServoState, Track};

/// Replies in which a servo may still be stopped after it was commanded to move: the first reads its mode before it takes
/// the command, and a command may be lost.
const STOPPED_REPLIES: u32 = 10;

/// What a reply adds in which a servo does something else than it is commanded to, …
pub(super) const STRAYED: u32 = 2;
/// … what one takes away that fits, and from where on that is no delay: five replies in a row, or more than one of three for long.
const FITTED: u32 = 1;
pub(super) const ASTRAY: u32 = 5 * STRAYED;

/// A joint that has moved farther than this, rad, since it was seen to move last does not stand still, whatever its velocity: one that sinks
/// slowly moves that far within `still_s`. It is two steps of a servo with 4096 per turn, which one that stands may report in turn.
pub const STILL_WAY: f64 = 0.004;

/// Replies at rest that must report a servo off before that is believed; none in between may report it on.
pub const OFF_REPLIES: u32 = 3;

/// Replies in a row in which a value that is asked for is not a number, from which on it counts as not measured.
pub(super) const UNMEASURED_REPLIES: u32 = 5;

/// How long a servo may take to switch its output on; a moteus takes about 10 ms.
pub(super) const ENABLING_NS: i64 = 500_000_000;

/// A servo that was switched on reports so before it receives its first target; the next reply answers that.
pub(super) const FOLLOWED: u8 = 2;

/// What a servo was commanded last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Commanded {
    #[default]
    Stop,
    Damp,
    Follow,
}

impl Commanded {
    pub(super) const fn of(command: &ServoCommand) -> Self {
        match command {
            ServoCommand::Stop => Self::Stop,
            ServoCommand::Damp => Self::Damp,
            ServoCommand::Position(_) => Self::Follow,
        }
    }

    /// What a servo does can be what it was commanded. Whether it stays off although it is to move is counted apart.
    const fn allows(self, doing: Doing) -> bool {
        match doing {
            Doing::Following => matches!(self, Self::Follow),
            // One that has timed out damps until it is stopped.
            Doing::Damping | Doing::TimedOut => !matches!(self, Self::Stop | Self::Follow),
            Doing::Other => false,
            Doing::Off | Doing::Starting | Doing::Faulted => true,
        }
    }
}

/// Counts of one servo that outlive a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Replies missed in a row.
    pub(super) missed: u32,
    /// What it was commanded in this tick, and in the one before: a reply has the mode of before its command.
    pub(super) commanded: Commanded,
    pub(super) commanded_before: Commanded,
    /// It has been seen running since it was so commanded.
    pub(super) ran: bool,
    /// Replies in a row in which it followed as it was commanded, up to [`FOLLOWED`].
    pub(super) followed: u8,
    /// Replies in a row in which it was stopped although it was so commanded, …
    pub(super) stopped: u32,
    /// … and since when it has been off, for whatever reason.
    pub(super) off_since_ns: Option<i64>,
    /// How much its output was on of late for something else than it was commanded.
    pub(super) astray: u32,
    /// That was too much, and is not over yet.
    pub(super) is_astray: bool,
    /// It does not damp: for the rest of damping it is commanded to stop.
    pub(super) let_go: bool,
    /// Where its joint was when it was seen to move last, rad.
    pub(super) stands_at: f64,
    /// Since it was commanded to be on, or reported so, it has not reported often enough that it is off: so many replies are missing.
    pub(super) may_be_on: u32,
    /// Replies in a row without a number for the voltage and for the temperature, although they are asked for.
    pub(super) unmeasured: [u32; 2],
    /// Where it was.
    pub(super) track: Track,
    /// From where to where it jumped in this tick, rad.
    pub(super) jump: Option<[f64; 2]>,
    /// Its reply of this tick is one of a servo that follows, as it was commanded, and nothing that is counted here speaks against it.
    pub(super) is_following: bool,
}

impl Tally {
    /// The servo follows as it did, and its joint is where its velocity leads it, as of nearly all servos of a robot under control: then
    /// [`Tally::update`] would change nothing else. If false, nothing has changed here, either. For replies that are [well](super::is_well).
    #[inline]
    pub(super) fn goes_on(&mut self, servo: &ServoState, joint: &Joint) -> bool {
        let carries = &joint.carries;
        self.is_following
            && self.followed == FOLLOWED
            && self.does_follow(servo)
            && !(servo.voltage.is_nan() && carries.voltage_asked)
            && !(servo.temperature.is_nan() && carries.temperature_asked)
            && self.track.goes_on(servo.at_ns, [servo.position, servo.velocity], f64::INFINITY)
    }

    /// `too_much`: from where on it is astray, if it is to do what it is commanded. `factor`: faster than its limit by it brings the robot down.
    #[inline]
    pub(super) fn update(
        &mut self,
        servo: &ServoState,
        joint: &Joint,
        now_ns: i64,
        phase: Phase,
        (too_much, factor): (Option<u32>, f64),
    ) {
        self.is_following = self.does_follow(servo) && too_much.is_some();
        match self.is_following {
            true => self.follow(),
            false => self.count_reply(servo, now_ns, phase, too_much),
        }
        self.jump = None;
        if servo.fresh {
            self.measure(servo, joint, factor);
        }
        self.is_following &= self.jump.is_none() && self.unmeasured == [0; 2];
    }

    /// As of a robot under control nearly all do.
    #[inline]
    fn does_follow(&self, servo: &ServoState) -> bool {
        let is_commanded = self.commanded == Commanded::Follow && self.commanded_before == Commanded::Follow;
        servo.fresh && servo.doing == Doing::Following && is_commanded && self.astray == 0
    }

    /// The result of [`Tally::count_reply`] for a servo that [does](Tally::does_follow), in a fourth of the time.
    #[inline]
    fn follow(&mut self) {
        (self.missed, self.ran, self.stopped, self.off_since_ns) = (0, true, 0, None);
        self.followed = FOLLOWED.min(self.followed + 1);
        (self.is_astray, self.may_be_on) = (false, OFF_REPLIES);
    }

    /// What a servo does, or that it does not reply.
    #[cold]
    #[inline(never)]
    pub(super) fn count_reply(
        &mut self,
        servo: &ServoState,
        now_ns: i64,
        phase: Phase,
        too_much: Option<u32>,
    ) {
        self.missed = if servo.fresh { 0 } else { self.missed.saturating_add(1) };
        let driven = self.commanded != Commanded::Stop;
        let is_on = servo.doing.is_on();
        self.ran = driven && (self.ran || servo.fresh && is_on);
        // While coming down a servo that was off is not switched on to damp.
        let may_be_off = !driven || phase == Phase::Damping && self.commanded == Commanded::Damp;
        if may_be_off || is_on || servo.doing == Doing::Faulted {
            (self.stopped, self.off_since_ns) = (0, None);
        } else if servo.fresh {
            let stopped = (self.stopped + 1).min(STOPPED_REPLIES + 1);
            self.stopped = if servo.doing == Doing::Off { stopped } else { 0 };
            self.off_since_ns.get_or_insert(now_ns);
        }
        if !servo.fresh {
            return;
        }
        let follows = servo.doing == Doing::Following && self.commanded_before == Commanded::Follow;
        self.followed = if follows { FOLLOWED.min(self.followed + 1) } else { 0 };
        let before = !self.let_go && self.commanded_before.allows(servo.doing);
        let explained = self.commanded.allows(servo.doing) || before;
        self.count_astray(too_much, explained);
        if is_on {
            self.may_be_on = OFF_REPLIES;
        }
    }

    /// What a reply measures.
    #[inline]
    fn measure(&mut self, servo: &ServoState, joint: &Joint, factor: f64) {
        let (carries, are_numbers) = (&joint.carries, !servo.voltage.is_nan() && !servo.temperature.is_nan());
        if !(are_numbers && self.unmeasured == [0; 2]) && (carries.voltage_asked || carries.temperature_asked)
        {
            self.count_unmeasured(servo, carries);
        }
        if self.commanded == Commanded::Stop {
            // A joint that is not driven may be given another zero.
            self.track = Track::default();
        } else {
            let from = self.track.position();
            let to = servo.position;
            // A servo that lost its power while it did not reply is back within 26 ms, and perhaps on another turn: no joint that
            // is under control has moved so far meanwhile.
            let fastest = factor * joint.bounds.velocity;
            let jumps = self.track.jumps(servo.at_ns, [to, servo.velocity], [fastest, f64::INFINITY]);
            self.jump = jumps.then_some([from, to]);
        }
    }

    #[cold]
    fn count_unmeasured(&mut self, servo: &ServoState, carries: &Carries) {
        let lacks = [
            carries.voltage_asked && servo.voltage.is_nan(),
            carries.temperature_asked && servo.temperature.is_nan(),
        ];
        for (count, lacks) in self.unmeasured.iter_mut().zip(lacks) {
            // What was refused is reported as that.
            let lacks = lacks && servo.refused.is_none();
            *count = if lacks { (*count + 1).min(UNMEASURED_REPLIES) } else { 0 };
        }
    }

    /// A reply that fits is weak evidence for a servo that often does something else, and none for one that was let go for it.
    pub(super) fn count_astray(&mut self, too_much: Option<u32>, explained: bool) {
        let Some(too_much) = too_much else {
            (self.astray, self.is_astray) = (0, false);
            return;
        };
        if !explained {
            self.astray = (self.astray + STRAYED).min(too_much);
        } else if !self.let_go {
            self.astray = self.astray.saturating_sub(FITTED);
        }
        self.is_astray = self.astray == too_much || self.is_astray && self.astray > 0;
    }

    /// At rest it is believed that it is off, when it has reported so often enough, and nothing less.
    pub(super) fn count_off_replies(&mut self, servo: &ServoState) {
        if servo.doing.is_on() {
            self.may_be_on = OFF_REPLIES;
        } else if self.commanded == Commanded::Stop && matches!(servo.doing, Doing::Off | Doing::Faulted) {
            self.may_be_on = self.may_be_on.saturating_sub(1);
        }
    }

    /// Whether its joint stands still: a velocity can be too coarse to show it, or wrong, and the position shows it, too.
    pub(super) fn is_still(&mut self, servo: &ServoState, joint: &Joint, still_velocity: f64) -> bool {
        let most = || STILL_WAY + 2.0 * joint.carries.reported_steps[0];
        // A servo that does not reply may be moving.
        let is_still = servo.fresh
            && servo.velocity.abs() < still_velocity
            && (servo.position - self.stands_at).abs() <= most();
        if !is_still {
            self.stands_at = servo.position;
        }
        is_still
    }

    /// It was commanded often enough, or for long enough, to be on.
    pub(super) fn stays_off(&self, now_ns: i64) -> bool {
        self.stopped > STOPPED_REPLIES
            || self.off_since_ns.is_some_and(|since_ns| now_ns - since_ns > ENABLING_NS)
    }
}
