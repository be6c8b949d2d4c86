//! Checks a tick and reports what is wrong with it.

use super::joint::Joint;
use super::settings::Thresholds;
use super::{Cause, Observation, Phase, Trigger};
use crate::state::{ImuState, RobotState};
use khz_link::ImuSample;
use khz_servo::{Carries, Doing, Fault, Quantity, Refused, ServoCommand, ServoState, Track};

/// What is wrong in one tick: at most one cause per trigger.
#[derive(Clone, Copy, Debug)]
pub struct Findings {
    causes: [Option<Cause>; Trigger::COUNT],
    /// None of them is present, as in nearly every tick: no need to search them.
    is_empty: bool,
}

impl Findings {
    /// Not a constant: that would be copied, unused parts and all.
    #[inline]
    pub fn none() -> Self {
        Self { causes: [None; Trigger::COUNT], is_empty: true }
    }

    /// Keeps the first of each trigger.
    #[cold]
    #[inline(never)]
    fn add(&mut self, cause: Cause) {
        if let Some(trigger) = cause.trigger() {
            self.causes[trigger as usize].get_or_insert(cause);
            self.is_empty = false;
        }
    }

    /// What is wrong of this kind.
    pub const fn of(&self, trigger: Trigger) -> Option<Cause> {
        self.causes[trigger as usize]
    }

    /// Puts another in its place.
    pub fn set(&mut self, trigger: Trigger, cause: Option<Cause>) {
        self.causes[trigger as usize] = cause;
        self.is_empty &= cause.is_none();
    }

    /// All of them, in the order of their triggers.
    pub fn iter(&self) -> impl Iterator<Item = &Cause> {
        let causes: &[Option<Cause>] = if self.is_empty { &[] } else { &self.causes };
        causes.iter().flatten()
    }
}

/// A servo that was silent for more ticks may have lost its power and be back unseen, on another turn: after so many queries
/// without an answer most replies are not taken.
pub const RESTART_UNSEEN: u32 = 24;

/// Replies in which a servo may still be stopped after it was commanded to move: the first reads its mode before it takes
/// the command, and a command may be lost.
const STOPPED_REPLIES: u32 = 10;

/// What a reply adds in which a servo does something else than it is commanded to, …
const STRAYED: u32 = 2;
/// … what one takes away that fits, and from where on that is no delay: five replies in a row, or more than one of three for long.
const FITTED: u32 = 1;
const ASTRAY: u32 = 5 * STRAYED;

/// … and while it is damped, at least so long, ns: its commands may be on their way for some periods, behind a gateway for example, and
/// one that is let go too soon falls.
const ASTRAY_NS: i64 = 50_000_000;

/// A joint that has moved so far, rad, since it was seen to move last does not stand still, whatever its velocity.
pub const STILL_WAY: f64 = 0.02;

/// Replies at rest that must report a servo off before that is believed; none in between may report it on.
pub const OFF_REPLIES: u32 = 3;

/// Replies in a row in which a value that is asked for is not a number, from which on it counts as not measured.
const UNMEASURED_REPLIES: u32 = 5;

/// How long a servo may take to switch its output on; a moteus takes about 10 ms.
const ENABLING_NS: i64 = 500_000_000;

/// A servo that was switched on reports so before it receives its first target; the next reply answers that.
const FOLLOWED: u8 = 2;
/// From this much on, and from [`HELD_UP_PERIODS`] on, it is reported that the loop was held up.
pub(super) const HELD_UP_NS: i64 = 10_000_000;
const HELD_UP_PERIODS: i64 = 3;

/// A stall of this length, ns, that is also ten periods long brings the robot down whatever its servos report: servos that are off,
/// or without a watchdog, report nothing of it.
pub const LONGEST_STALL_NS: i64 = 1_000_000_000;
const LONG_PERIODS: i64 = 10;

/// So many ticks devices have to answer after the loop was held up: replies to the cycle it was held up in are lost, and a servo in
/// MIT mode is asked for a register before its next state counts.
const BACK_TICKS: u32 = 5;

/// What a servo was commanded last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Commanded {
    #[default]
    Stop,
    Damp,
    Follow,
}

impl Commanded {
    const fn of(command: &ServoCommand) -> Self {
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
struct Tally {
    /// Replies missed in a row.
    missed: u32,
    /// What it was commanded in this tick, and in the one before: a reply has the mode of before its command.
    commanded: Commanded,
    commanded_before: Commanded,
    /// It has been seen running since it was so commanded.
    ran: bool,
    /// Replies in a row in which it followed as it was commanded, up to [`FOLLOWED`].
    followed: u8,
    /// Replies in a row in which it was stopped although it was so commanded, …
    stopped: u32,
    /// … and since when it has been off, for whatever reason.
    off_since_ns: Option<i64>,
    /// How much its output was on of late for something else than it was commanded.
    astray: u32,
    /// That was too much, and is not over yet.
    is_astray: bool,
    /// It does not damp: for the rest of damping it is commanded to stop.
    let_go: bool,
    /// Where its joint was when it was seen to move last, rad.
    stands_at: f64,
    /// Since it was commanded to be on, or reported so, it has not reported often enough that it is off: so many replies are missing.
    may_be_on: u32,
    /// Replies in a row without a number for the voltage and for the temperature, although they are asked for.
    unmeasured: [u32; 2],
    /// Where it was.
    track: Track,
    /// From where to where it jumped in this tick, rad.
    jump: Option<[f64; 2]>,
    /// Its reply of this tick is one of a servo that follows, as it was commanded, and nothing that is counted here speaks against it.
    is_following: bool,
}

impl Tally {
    /// `too_much`: from where on it is astray, if it is to do what it is commanded. `factor`: faster than its limit by it brings the robot down.
    #[inline]
    fn update(
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
    fn count_reply(&mut self, servo: &ServoState, now_ns: i64, phase: Phase, too_much: Option<u32>) {
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
    fn count_astray(&mut self, too_much: Option<u32>, explained: bool) {
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
    fn count_off_replies(&mut self, servo: &ServoState) {
        if servo.doing.is_on() {
            self.may_be_on = OFF_REPLIES;
        } else if self.commanded == Commanded::Stop && matches!(servo.doing, Doing::Off | Doing::Faulted) {
            self.may_be_on = self.may_be_on.saturating_sub(1);
        }
    }

    /// Whether its joint stands still: a velocity can be too coarse to show it, or wrong, and the position shows it, too.
    fn is_still(&mut self, servo: &ServoState, joint: &Joint, still_velocity: f64) -> bool {
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
    fn stays_off(&self, now_ns: i64) -> bool {
        self.stopped > STOPPED_REPLIES
            || self.off_since_ns.is_some_and(|since_ns| now_ns - since_ns > ENABLING_NS)
    }
}

/// Whether the readings of a sensor change: the noise of a real one changes the last digits of each.
#[derive(Clone, Copy, Debug)]
struct Changes {
    last: ImuSample,
    /// When a reading last differed from the one before.
    changed_ns: i64,
}

impl Default for Changes {
    fn default() -> Self {
        Self { last: ImuState::NONE, changed_ns: i64::MIN }
    }
}

impl Changes {
    fn update(&mut self, sample: &ImuSample) {
        let values = |of: &ImuSample| (of.attitude, of.rate, of.acceleration);
        if sample.at_ns != self.last.at_ns && values(sample) != values(&self.last) {
            (self.last, self.changed_ns) = (*sample, sample.at_ns);
        }
    }
}

/// Counts that outlive a tick.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Per servo.
    tallies: Vec<Tally>,
    /// Refusals in a row, per link, …
    refusals: [u32; 64],
    /// … and the links that have any; bit per link.
    refusing: u64,
    overruns: u32,
    /// Ticks in a row in which the controller took too long, and how long it took in the last of them.
    slow: u32,
    took_ns: i64,
    /// The same of ticks in which it was late for whatever reason, and how long its thread waited for a CPU in the last.
    late: u32,
    waited_ns: i64,
    /// When the joints came to rest.
    still_since_ns: Option<i64>,
    imu: Changes,
    /// How long the loop was held up since it last caught up.
    held_up_ns: i64,
    /// Every device answered in the last tick, and what it answered was asked after the loop was held up last.
    caught_up: bool,
    /// It was held up too long in this tick to go on.
    is_long: bool,
    /// Every device answered in the last tick.
    complete: bool,
    /// Ticks since the loop was last held up for more than a period while all was well; [`BACK_TICKS`] once every device has answered
    /// since.
    back: u32,
}

impl Watch {
    pub fn new(servos: usize) -> Self {
        Self {
            tallies: vec![Tally::default(); servos],
            refusals: [0; 64],
            refusing: 0,
            overruns: 0,
            slow: 0,
            took_ns: 0,
            late: 0,
            waited_ns: 0,
            still_since_ns: None,
            imu: Changes::default(),
            held_up_ns: 0,
            caught_up: false,
            is_long: false,
            complete: false,
            back: BACK_TICKS,
        }
    }

    /// Forgets what happened in an earlier activation, but for which servos may be on.
    pub fn reset(&mut self) {
        for tally in &mut self.tallies {
            *tally = Tally { may_be_on: tally.may_be_on, ..Tally::default() };
        }
        (self.refusals, self.refusing) = ([0; 64], 0);
        self.overruns = 0;
        (self.slow, self.late) = (0, 0);
        self.still_since_ns = None;
    }

    /// Takes a tick at rest in: all that counts is whether servos are off.
    pub fn rest(&mut self, state: &RobotState) {
        let (tallies, imu) = (std::mem::take(&mut self.tallies), self.imu);
        *self = Self { tallies, imu, ..Self::new(0) };
        for (tally, servo) in self.tallies.iter_mut().zip(&state.servos) {
            *tally = Tally { commanded: tally.commanded, may_be_on: tally.may_be_on, ..Tally::default() };
            if servo.fresh {
                tally.count_off_replies(servo);
            }
        }
    }

    /// Takes a tick in that began in this phase.
    pub fn update(
        &mut self,
        phase: Phase,
        joints: &[Joint],
        state: &RobotState,
        seen: &Observation,
        settings: &Thresholds,
    ) {
        let too_much = match phase {
            Phase::Active => Some(ASTRAY),
            Phase::Damping => Some(ASTRAY.max(STRAYED * (ASTRAY_NS / state.period_ns.max(1)) as u32)),
            _ => None,
        };
        // While it comes down a joint may fall.
        let factor = if phase == Phase::Active { settings.velocity_factor } else { f64::INFINITY };
        let mut still = true;
        for ((tally, servo), joint) in self.tallies.iter_mut().zip(&state.servos).zip(joints) {
            tally.update(servo, joint, state.now_ns, phase, (too_much, factor));
            still &= tally.is_still(servo, joint, settings.still_velocity);
        }
        state.imu.iter().for_each(|imu| self.imu.update(&imu.sample));
        self.overruns = if seen.overrun { self.overruns.saturating_add(1) } else { 0 };
        self.count_slow(seen, settings);
        self.is_long = seen.held_up_ns >= LONGEST_STALL_NS.max(LONG_PERIODS * state.period_ns);
        self.held_up_ns = seen.held_up_ns + if self.caught_up { 0 } else { self.held_up_ns };
        let complete = seen.cycle.missed + seen.cycle.quiet == 0 && !seen.cycle.imu_missed;
        self.caught_up = complete && seen.held_up_ns <= state.period_ns;
        self.back = match self.complete {
            true if seen.held_up_ns > state.period_ns => 0,
            // A device that is silent while the loop is held up again and again gets no more time by it.
            _ if !complete => (self.back + 1).min(BACK_TICKS),
            _ => BACK_TICKS,
        };
        self.complete = complete;
        self.still_since_ns = if still { self.still_since_ns.or(Some(state.now_ns)) } else { None };
        let down = seen.cycle.links_down;
        if down | self.refusing != 0 {
            self.count_refusals(down);
        }
    }

    #[cold]
    fn count_refusals(&mut self, down: u64) {
        self.refusing = down;
        for (link, refusals) in self.refusals.iter_mut().enumerate() {
            *refusals = if down >> link & 1 == 1 { refusals.saturating_add(1) } else { 0 };
        }
    }

    /// One tick proves nothing: preemption within the controller's turn makes it look slow. What its own thread is
    /// known to have waited for a CPU is not the controller's, and neither adds to the count nor begins it anew.
    fn count_slow(&mut self, seen: &Observation, settings: &Thresholds) {
        let limit_ns = settings.controller_ns();
        (self.took_ns, self.waited_ns) = (seen.control_ns, seen.control_waited_ns);
        if seen.control_ns <= limit_ns {
            (self.slow, self.late) = (0, 0);
            return;
        }
        self.late = self.late.saturating_add(1);
        if seen.control_ns - seen.control_waited_ns > limit_ns {
            self.slow = self.slow.saturating_add(1);
        }
    }

    /// Remembers the next commands of the servos.
    pub fn command(&mut self, commands: &[ServoCommand]) {
        for (tally, command) in self.tallies.iter_mut().zip(commands) {
            tally.commanded_before = std::mem::replace(&mut tally.commanded, Commanded::of(command));
            if tally.commanded != Commanded::Stop {
                tally.may_be_on = OFF_REPLIES;
            }
        }
    }

    /// The servo has been given a target.
    pub fn follows(&self, servo: usize) -> bool {
        self.tallies[servo].followed == FOLLOWED
    }

    /// A servo that is commanded to follow has not been given a target, or none is commanded yet.
    pub fn is_starting(&self) -> bool {
        // What was taken back after a stall was commanded before it.
        let commanded =
            |tally: &&Tally| [tally.commanded, tally.commanded_before].contains(&Commanded::Follow);
        let mut all = self.tallies.iter().filter(commanded).peekable();
        all.peek().is_none() || all.any(|tally| tally.followed < FOLLOWED)
    }

    /// Some of the last commands are others, and the replies to them are none to a target.
    pub fn amend(&mut self, commands: &[ServoCommand]) {
        for (tally, command) in self.tallies.iter_mut().zip(commands) {
            let commanded = Commanded::of(command);
            if tally.commanded != commanded {
                (tally.commanded, tally.followed) = (commanded, 0);
            }
        }
    }

    /// How long every joint has stood still; `None` if one moves, or may.
    pub fn still_ns(&self, now_ns: i64) -> Option<i64> {
        self.still_since_ns.map(|since_ns| now_ns - since_ns)
    }

    /// From now on all servos are damped: what they did under another command does not count for that.
    pub fn begin_damping(&mut self) {
        self.tallies.iter_mut().for_each(|tally| (tally.astray, tally.is_astray) = (0, false));
    }

    /// A servo that does not damp although it is commanded to, if there is another: from now on it is to be commanded to stop.
    pub fn let_go(&mut self) -> Option<u16> {
        let astray = |tally: &Tally| tally.commanded == Commanded::Damp && tally.is_astray && !tally.let_go;
        let at = self.tallies.iter().position(astray)?;
        self.tallies[at].let_go = true;
        Some(at as u16)
    }

    /// What servos are commanded to while the robot comes down.
    pub fn damping(&self) -> impl Iterator<Item = ServoCommand> + '_ {
        let command = |let_go| if let_go { ServoCommand::Stop } else { ServoCommand::Damp };
        self.tallies.iter().map(move |tally| command(tally.let_go))
    }

    /// The first servo from this one on that may still be on.
    pub fn may_be_on(&self, from: usize) -> Option<usize> {
        (from..self.tallies.len()).find(|&at| self.tallies[at].may_be_on > 0)
    }

    /// The servo does not do what it is commanded.
    #[cfg(test)]
    pub fn is_astray(&self, servo: usize) -> bool {
        self.tallies[servo].is_astray
    }

    /// The loop was held up only just now, and devices had no time yet to answer.
    pub fn is_just_back(&self) -> bool {
        self.back < BACK_TICKS
    }

    /// How long the loop was held up since the last tick in which every device answered what it was asked after that.
    pub const fn held_up_ns(&self) -> i64 {
        self.held_up_ns
    }

    /// The loop was held up for too long to go on, in this tick.
    pub const fn was_held_up_long(&self) -> bool {
        self.is_long
    }

    /// Adds everything that is wrong now to `findings`, which are many bytes to hand over. `forgiving`: the robot was armed only just now.
    pub fn find(
        &self,
        findings: &mut Findings,
        joints: &[Joint],
        state: &RobotState,
        seen: &Observation,
        settings: &Thresholds,
        forgiving: bool,
    ) {
        let mut find = |cause: Cause| findings.add(cause);
        let silence = bearable_silence(state.period_ns, settings, forgiving);
        let stale_ns = settings.stale_ns();
        let stale_before_ns = state.now_ns.saturating_sub(stale_ns);
        let all = state.servos.iter().zip(joints).zip(&self.tallies);
        for (at, ((servo, joint), tally)) in (0..).zip(all) {
            if tally.is_following && servo.at_ns >= stale_before_ns && is_well(servo, joint, settings) {
                continue;
            }
            if let Some(cause) = servo_trouble(at, servo, joint, tally, state.now_ns) {
                find(cause);
            }
            look_at_values(at, servo, joint, settings, &mut find);
            if tally.unmeasured[0] >= UNMEASURED_REPLIES {
                find(Cause::VoltageUnknown { servo: at });
            }
            if tally.unmeasured[1] >= UNMEASURED_REPLIES {
                find(Cause::TemperatureUnknown { servo: at });
            }
            if tally.missed >= silence {
                find(Cause::MissedReplies { servo: at, count: tally.missed });
            }
            if servo.at_ns < stale_before_ns {
                let age_ns = servo.age_ns(state.now_ns);
                let held_up = self.held_up(age_ns, stale_ns, Trigger::Stale);
                find(held_up.unwrap_or(Cause::Stale { servo: at, age_ns }));
            }
        }
        if let Some(servo) = seen.cycle.intruded {
            find(Cause::DuplicateReplies { servo });
        }
        if !forgiving {
            self.look_at_loop(state.period_ns, settings, &mut find);
        }
        if is_reported(seen.held_up_ns, state.period_ns) {
            find(Cause::LoopHeldUp { of: Trigger::Overruns, held_up_ns: seen.held_up_ns });
        }
        look_at_imu(self, state, settings, forgiving, &mut find);
        if let (Some(limit_ns), Some(age_ns)) = (settings.heartbeat_ns(), seen.heartbeat_age_ns)
            && age_ns > limit_ns
        {
            find(Cause::HeartbeatLost { age_ns });
        }
        if let Some(age_ns) = seen.targets_silent_ns {
            find(Cause::TargetsSilent { age_ns });
        }
    }

    /// What is older than `limit_ns` because the loop was held up, and not because its device is silent.
    fn held_up(&self, age_ns: i64, limit_ns: i64, of: Trigger) -> Option<Cause> {
        let held_up_ns = self.held_up_ns;
        let explains = age_ns - held_up_ns <= limit_ns && held_up_ns > age_ns / 2;
        explains.then_some(Cause::LoopHeldUp { of, held_up_ns })
    }

    /// What is wrong with a servo itself, but for those for which there is an excuse.
    #[cold]
    pub fn trouble_beside(
        &self,
        joints: &[Joint],
        state: &RobotState,
        is_excused: impl Fn(usize, &Joint) -> bool,
    ) -> Option<Cause> {
        let all = state.servos.iter().zip(joints).zip(&self.tallies).enumerate();
        all.filter(|(at, ((_, joint), _))| !is_excused(*at, joint)).find_map(
            |(at, ((servo, joint), tally))| servo_trouble(at as u16, servo, joint, tally, state.now_ns),
        )
    }

    fn look_at_loop(&self, period_ns: i64, settings: &Thresholds, find: &mut impl FnMut(Cause)) {
        if self.overruns >= settings.overruns {
            find(Cause::Overruns { count: self.overruns });
        }
        if self.slow >= settings.controller_slow {
            find(Cause::ControllerSlow { count: self.slow, took_ns: self.took_ns });
        }
        if self.late >= settings.controller_late(period_ns) {
            let (count, took_ns, waited_ns) = (self.late, self.took_ns, self.waited_ns);
            find(Cause::ControllerPreempted { count, took_ns, waited_ns });
        }
        let has_refused = |&refusals: &u32| refusals >= settings.missed_replies;
        if self.refusing != 0
            && let Some(link) = self.refusals.iter().position(has_refused)
        {
            find(Cause::BusDown { link: link as u16 });
        }
    }
}

/// The loop was held up for so long that it is reported.
pub const fn is_reported(held_up_ns: i64, period_ns: i64) -> bool {
    held_up_ns >= HELD_UP_NS && held_up_ns >= HELD_UP_PERIODS * period_ns
}

/// So many replies may be missed in a row. During the grace only as many as make the state stale, or hide a restart.
fn bearable_silence(period_ns: i64, settings: &Thresholds, forgiving: bool) -> u32 {
    if !forgiving {
        return settings.missed_replies;
    }
    let ticks = (settings.stale_ns() / period_ns.max(1) + 1).min(RESTART_UNSEEN.into());
    settings.missed_replies.max(u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// Nothing that a [following](Tally::is_following) servo reports is wrong; if false, the others have to check.
#[inline]
fn is_well(servo: &ServoState, joint: &Joint, settings: &Thresholds) -> bool {
    let ServoState { position, velocity, voltage, temperature, .. } = *servo;
    let [low, high] = joint.bounds.position;
    // None of the usual numbers times 0 is anything but 0.
    let are_finite = position * 0.0 + velocity * 0.0 == 0.0;
    are_finite
        && servo.refused.is_none()
        && position >= low - settings.position_tolerance
        && position <= high + settings.position_tolerance
        && velocity.abs() <= joint.bounds.velocity * settings.velocity_factor
        && !(voltage < settings.voltage_low_v || temperature >= settings.temperature_hard_c)
}

/// What is wrong with a servo itself.
fn servo_trouble(at: u16, servo: &ServoState, joint: &Joint, tally: &Tally, now_ns: i64) -> Option<Cause> {
    match servo.doing {
        Doing::Faulted => return Some(Cause::ServoFault { servo: at, fault: servo.fault }),
        Doing::Other if servo.fault != Fault::NONE => {
            return Some(Cause::ServoFault { servo: at, fault: servo.fault });
        }
        Doing::TimedOut => return Some(Cause::ServoTimedOut { servo: at }),
        doing if tally.ran && !doing.is_on() => return Some(Cause::ServoReset { servo: at }),
        _ if !servo.is_known() => return None,
        _ => {}
    }
    if let Some([from, to]) = tally.jump {
        return Some(Cause::PositionJumped { servo: at, from, to });
    }
    if let Some(refused) = servo.refused {
        return Some(refusal(at, refused, tally));
    }
    let [position, velocity] = joint.carries.reported;
    let saturated = |quantity, most| Some(Cause::ServoSaturated { servo: at, quantity, most });
    if servo.position.is_infinite() {
        saturated(Quantity::Position, position)
    } else if servo.velocity.is_infinite() {
        saturated(Quantity::Velocity, velocity)
    } else if servo.position.is_nan() || servo.velocity.is_nan() && joint.carries.velocity_asked {
        Some(Cause::ServoNotFinite { servo: at })
    } else if tally.stays_off(now_ns) || tally.is_astray {
        Some(Cause::ServoNotObeying { servo: at, mode: servo.mode })
    } else {
        None
    }
}

#[cold]
#[inline(never)]
fn refusal(servo: u16, refused: Refused, tally: &Tally) -> Cause {
    Cause::RegisterRefused { servo, refused, ran: tally.ran }
}

/// What a servo measures. Comparisons with values that were not asked for, NaN, are false.
fn look_at_values(
    at: u16,
    servo: &ServoState,
    joint: &Joint,
    settings: &Thresholds,
    find: &mut impl FnMut(Cause),
) {
    if servo.voltage < settings.voltage_low_v {
        find(Cause::VoltageLow { servo: at, volts: servo.voltage });
    }
    if servo.temperature >= settings.temperature_hard_c {
        find(Cause::Hot { servo: at, celsius: servo.temperature });
    }
    let position = servo.position;
    if let Some(limit) = joint.bounds.exceeded(position, settings.position_tolerance)
        && position.is_finite()
    {
        find(Cause::PositionOutOfLimits { servo: at, position, limit });
    }
    let (velocity, limit) = (servo.velocity, joint.bounds.velocity);
    if velocity.abs() > limit * settings.velocity_factor && velocity.is_finite() {
        find(Cause::TooFast { servo: at, velocity, limit });
    }
}

fn look_at_imu(
    watch: &Watch,
    state: &RobotState,
    settings: &Thresholds,
    forgiving: bool,
    find: &mut impl FnMut(Cause),
) {
    let Some(imu) = &state.imu else { return };
    let age_ns = imu.age_ns(state.now_ns);
    let silent_ns = settings.imu_silent_ns();
    if age_ns > silent_ns {
        if !forgiving {
            let held_up = watch.held_up(age_ns, silent_ns, Trigger::Imu);
            find(held_up.unwrap_or(Cause::ImuSilent { age_ns }));
        }
        return;
    }
    let repeated_ns = imu.sample.at_ns.saturating_sub(watch.imu.changed_ns);
    if settings.imu_frozen_ns().is_some_and(|limit_ns| repeated_ns > limit_ns) && !forgiving {
        find(Cause::ImuFrozen { for_ns: repeated_ns });
    }
    let sample = &imu.sample;
    let mut values = sample.attitude.iter().chain(&sample.rate).chain(&sample.acceleration);
    if !values.all(|value| value.is_finite()) {
        // One that is not ready yet may answer, but has no values to report.
        if !forgiving {
            find(Cause::ImuNotFinite);
        }
    } else if imu.tilt() > settings.tilt {
        find(Cause::Tilt { angle: imu.tilt() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::SupervisorSettings;
    use proptest::prelude::*;

    /// A usual value, or one at a border, or none.
    fn near(usual: f64) -> impl Strategy<Value = f64> {
        let borders = [0.0, 0.1, 1.0, 1.1, 2.0, 10.0, 75.0, -1.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        prop_oneof![4 => Just(usual), 2 => prop::sample::select(borders.to_vec()), 1 => -3.0..3.0]
    }

    fn reply() -> impl Strategy<Value = ServoState> {
        let values = (near(0.5), near(0.25), near(24.0), near(30.0));
        let does = (prop::sample::select(Doing::ALL.to_vec()), prop::bool::weighted(0.7));
        (values, does, any::<bool>(), 0..2_u32).prop_map(|(values, (doing, follows), is_refused, code)| {
            let (position, velocity, voltage, temperature) = values;
            let doing = if follows { Doing::Following } else { doing };
            let refused = is_refused.then_some(Refused { register: 1, name: "", write: false });
            let fault = Fault { code, text: "" };
            let known = ServoState { at_ns: 0, fresh: true, ..ServoState::UNKNOWN };
            ServoState { position, velocity, voltage, temperature, doing, refused, fault, ..known }
        })
    }

    /// Commands and replies of some ticks, and those in which nothing came.
    fn ticks() -> impl Strategy<Value = Vec<(Commanded, ServoState, bool)>> {
        let commanded =
            prop_oneof![4 => Just(Commanded::Follow), 1 => Just(Commanded::Damp), 1 => Just(Commanded::Stop)];
        prop::collection::vec((commanded, reply(), prop::bool::weighted(0.9)), 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn the_short_way_of_a_servo_that_follows_is_the_long_one(
            ticks in ticks(),
            (is_active, let_go) in (prop::bool::weighted(0.8), any::<bool>()),
        ) {
            let (phase, too_much) =
                if is_active { (Phase::Active, Some(ASTRAY)) } else { (Phase::Armed, None) };
            let mut tally = Tally { let_go, ..Tally::default() };
            for (at, (commanded, servo, comes)) in (0..).zip(ticks) {
                let servo = ServoState { fresh: comes, at_ns: at, ..servo };
                (tally.commanded_before, tally.commanded) = (tally.commanded, commanded);
                let mut long = tally;
                long.count_reply(&servo, at, phase, too_much);
                tally.update(&servo, &Joint::UNLIMITED, at, phase, (too_much, 2.0));
                // Both measure in the same way.
                let Tally { unmeasured, track, jump, .. } = tally;
                let long = Tally { unmeasured, track, jump, ..long };
                prop_assert_eq!(counts(tally), counts(long));
            }
        }

        #[test]
        fn nothing_is_found_in_what_is_well(
            ticks in ticks(),
            (low, high, fastest) in (near(-1.0), near(1.0), near(2.0)),
            asked in any::<[bool; 3]>(),
        ) {
            let bounds = crate::supervisor::Bounds { position: [low, high], velocity: fastest, torque: 1.0 };
            let [velocity_asked, voltage_asked, temperature_asked] = asked;
            let carries = Carries { velocity_asked, voltage_asked, temperature_asked, ..Carries::EVERYTHING };
            let joint = Joint { bounds, target: bounds.position, carries, timeout: None };
            let (settings, mut tally) = (Thresholds::of(SupervisorSettings::default()), Tally::default());
            for (at, (commanded, servo, _)) in (0..).zip(ticks) {
                let servo = ServoState { at_ns: at, ..servo };
                (tally.commanded_before, tally.commanded) = (tally.commanded, commanded);
                tally.update(&servo, &joint, at, Phase::Active, (Some(ASTRAY), 2.0));
                if tally.is_following && is_well(&servo, &joint, &settings) {
                    prop_assert_eq!(servo_trouble(0, &servo, &joint, &tally, at), None);
                    let mut found = None;
                    look_at_values(0, &servo, &joint, &settings, &mut |cause| found = Some(cause));
                    prop_assert_eq!(found, None);
                    prop_assert!(tally.missed == 0 && tally.unmeasured == [0; 2]);
                }
            }
        }
    }

    /// What is counted of a servo, as text: NaN is NaN.
    fn counts(tally: Tally) -> String {
        format!("{:?}", Tally { is_following: false, ..tally })
    }

    #[test]
    fn a_stall_explains_an_age_only_where_nothing_else_does() {
        let held_up = |held_up_ns, age_ns, limit_ns| {
            let watch = Watch { held_up_ns, ..Watch::new(1) };
            watch.held_up(age_ns, limit_ns, Trigger::Stale).is_some()
        };
        assert!(held_up(100, 120, 20));
        assert!(!held_up(100, 121, 20), "without the stall it would be too old, too");
        assert!(!held_up(60, 120, 60) && held_up(61, 120, 60), "more than half of it");
        assert!(!held_up(50, 120, 70));
    }

    #[test]
    fn silence_after_arming_is_borne_as_long_as_the_state_is_of_use_and_no_restart_is_hidden() {
        let settings = SupervisorSettings { stale_ms: Some(50.0), ..SupervisorSettings::default() };
        let settings = Thresholds::of(settings);
        let bearable = |period_ns, forgiving| bearable_silence(period_ns, &settings, forgiving);
        assert_eq!([bearable(5_000_000, true), bearable(5_000_000, false)], [11, 10]);
        assert_eq!(bearable(1_000_000, true), RESTART_UNSEEN);
        assert_eq!(bearable(50_000_000, true), 10, "never less than later");
    }

    #[test]
    fn a_joint_stands_still_where_its_position_stays_within_what_its_format_blurs() {
        let still = |steps: f64, positions: &[f64]| -> Vec<bool> {
            let carries = Carries { reported_steps: [steps, 0.0], ..Carries::EVERYTHING };
            let joint = Joint { carries, ..Joint::UNLIMITED };
            let mut tally = Tally { stands_at: positions[0], ..Tally::default() };
            let at = |&position| ServoState { position, velocity: 0.0, fresh: true, ..ServoState::UNKNOWN };
            positions[1..].iter().map(|position| tally.is_still(&at(position), &joint, 0.05)).collect()
        };
        // Once it has moved, it may stand there.
        let all = still(0.05, &[1.0, 1.11, 0.89, 1.13, 1.2, 1.0]);
        assert_eq!(all, [true, true, false, true, false]);
        assert_eq!(still(0.0, &[0.0, STILL_WAY, -STILL_WAY, 1.1 * STILL_WAY]), [true, true, false]);
    }

    #[test]
    fn one_that_strays_is_astray_until_all_of_it_is_made_up_for() {
        let mut tally = Tally::default();
        (0..4).for_each(|_| tally.count_astray(Some(ASTRAY), false));
        assert!(!tally.is_astray);
        tally.count_astray(Some(ASTRAY), false);
        let astray = (0..10).map(|_| {
            tally.count_astray(Some(ASTRAY), true);
            tally.is_astray
        });
        assert_eq!(astray.filter(|is_astray| *is_astray).count(), 9);
    }

    #[test]
    fn a_servo_may_take_its_time_to_switch_on_and_no_longer() {
        let tally = Tally { off_since_ns: Some(0), ..Tally::default() };
        let stays_off = [ENABLING_NS - 1, ENABLING_NS, ENABLING_NS + 1, 2 * ENABLING_NS];
        assert_eq!(stays_off.map(|now_ns| tally.stays_off(now_ns)), [false, false, true, true]);
    }

    /// A watch of no servos, after ticks of this period.
    fn watched(period_ns: i64, ticks: &[Observation]) -> Watch {
        let state = RobotState::unknown(0, false, period_ns);
        let settings = Thresholds::of(SupervisorSettings::default());
        let mut watch = Watch::new(0);
        ticks.iter().for_each(|seen| watch.update(Phase::Active, &[], &state, seen, &settings));
        watch
    }

    fn found(
        state: &RobotState,
        seen: &Observation,
        settings: &SupervisorSettings,
        forgiving: bool,
    ) -> Findings {
        let mut findings = Findings::none();
        let settings = Thresholds::of(settings.clone());
        Watch::new(0).find(&mut findings, &[], state, seen, &settings, forgiving);
        findings
    }

    fn held_up(held_up_ns: i64) -> Observation {
        Observation { held_up_ns, ..Observation::default() }
    }

    #[test]
    fn at_low_rates_a_long_stall_is_longer() {
        let is_long = |period_ns, held_up_ns| watched(period_ns, &[held_up(held_up_ns)]).was_held_up_long();
        let second = LONGEST_STALL_NS;
        assert_eq!([second - 1, second].map(|ns| is_long(1_000_000, ns)), [false, true]);
        assert_eq!([2 * second - 1, 2 * second].map(|ns| is_long(second / 5, ns)), [false, true]);
        let is_reported = |period_ns, held_up_ns| {
            let state = RobotState::unknown(0, false, period_ns);
            let settings = SupervisorSettings::default();
            let found = found(&state, &held_up(held_up_ns), &settings, false);
            found.of(Trigger::Overruns).is_some()
        };
        assert_eq!([HELD_UP_NS - 1, HELD_UP_NS].map(|ns| is_reported(1_000_000, ns)), [false, true]);
        assert_eq!([149_999_999, 150_000_000].map(|ns| is_reported(50_000_000, ns)), [false, true]);
    }

    #[test]
    fn devices_have_time_to_answer_after_a_stall_and_until_all_have() {
        let period_ns = 1_000_000;
        let just_back = |ticks: &[Observation]| watched(period_ns, ticks).is_just_back();
        let well = Observation::default();
        let missed = |missed, quiet| {
            let cycle = crate::cycle::CycleResult { missed, quiet, ..Default::default() };
            Observation { cycle, ..Observation::default() }
        };
        assert!(!just_back(&[well, well]) && !just_back(&[well, held_up(period_ns)]));
        assert!(just_back(&[well, held_up(period_ns + 1)]));
        assert!(!just_back(&[well, held_up(period_ns + 1), well]), "all have answered");
        assert!(just_back(&[well, held_up(period_ns + 1), missed(1, 1)]), "one of each has not");
    }

    /// Replies in the tick of a stall are to queries of before it: if one of the next is lost, the stall still explains its age.
    #[test]
    fn a_reply_lost_right_after_a_stall_is_no_older_than_the_stall_made_it() {
        let (period_ns, stall_ns) = (1_000_000, 60_000_000);
        let lost = Observation {
            cycle: crate::cycle::CycleResult { missed: 1, ..Default::default() },
            ..Observation::default()
        };
        let well = Observation::default();
        let after = |ticks: &[Observation]| watched(period_ns, ticks).held_up_ns();
        assert_eq!(after(&[well, held_up(stall_ns), lost]), stall_ns);
        assert_eq!(after(&[well, held_up(stall_ns), well]), stall_ns, "as old as what was asked before");
        assert_eq!(after(&[well, held_up(stall_ns), well, lost]), 0);
    }

    #[test]
    fn a_new_activation_forgets_all_but_which_servos_may_be_on() {
        let mut watch = watched(1_000_000, &[Observation { overrun: true, ..Observation::default() }]);
        watch.tallies = vec![Tally { missed: 3, may_be_on: 2, ..Tally::default() }];
        watch.reset();
        let tally = &watch.tallies[0];
        assert_eq!((watch.overruns, tally.missed, tally.may_be_on), (0, 0, 2));
    }

    #[test]
    fn an_operator_and_a_body_at_their_limit_exactly_are_within_it() {
        let state = RobotState::unknown(0, true, 1_000_000);
        let found = |age_ns| {
            let settings = SupervisorSettings { heartbeat_ms: Some(100.0), ..SupervisorSettings::default() };
            let seen = Observation { heartbeat_age_ns: Some(age_ns), ..Observation::default() };
            let found = found(&state, &seen, &settings, true);
            found.of(Trigger::Heartbeat).is_some()
        };
        assert_eq!([100_000_000, 100_000_001].map(found), [false, true]);
        let sample =
            ImuSample { at_ns: 0, attitude: [0.9, 0.3, 0.3, 0.1], rate: [0.0; 3], acceleration: [0.0; 3] };
        let imu = ImuState { sample, fresh: true };
        let state = RobotState { imu: Some(imu), now_ns: 0, ..state };
        let tilts = |tilt| {
            let (settings, mut found) = (SupervisorSettings { tilt, ..SupervisorSettings::default() }, false);
            look_at_imu(&Watch::new(0), &state, &Thresholds::of(settings), true, &mut |cause| {
                found |= matches!(cause, Cause::Tilt { .. });
            });
            found
        };
        assert_eq!([imu.tilt(), 0.99 * imu.tilt()].map(tilts), [false, true]);
    }

    #[test]
    fn refusals_are_counted_in_a_row_and_for_each_link() {
        let down = |links_down| {
            let cycle = crate::cycle::CycleResult { links_down, ..Default::default() };
            Observation { cycle, ..Observation::default() }
        };
        let counted = |ticks: &[Observation]| watched(1_000_000, ticks).refusals[..3].to_vec();
        assert_eq!(counted(&[down(0b101), down(0b100)]), [0, 0, 2]);
        assert_eq!(counted(&[down(0b101), down(0)]), [0, 0, 0]);
    }

    #[test]
    fn time_that_a_controller_waited_for_a_cpu_is_not_its_own_at_the_limit_either() {
        let limit_ns = SupervisorSettings::default().controller_ns();
        let seen = |control_waited_ns| Observation {
            control_ns: limit_ns + 5,
            control_waited_ns,
            ..Observation::default()
        };
        let counts = [5, 4].map(|waited_ns| {
            let watch = watched(1_000_000, &[seen(waited_ns)]);
            (watch.late, watch.slow)
        });
        assert_eq!(counts, [(1, 0), (1, 1)]);
    }

    #[test]
    fn at_a_threshold_exactly() {
        let joint = Joint {
            bounds: crate::supervisor::Bounds { velocity: 6.0, ..crate::supervisor::Bounds::NONE },
            ..Joint::UNLIMITED
        };
        let settings = Thresholds::of(SupervisorSettings::default());
        let found = |servo: ServoState| {
            let mut found = 0;
            look_at_values(0, &servo, &joint, &settings, &mut |_| found += 1);
            found
        };
        let known = ServoState { position: 0.0, velocity: 0.0, ..ServoState::UNKNOWN };
        let (volts, celsius) = (settings.voltage_low_v, settings.temperature_hard_c);
        assert_eq!([volts, volts - 0.1].map(|voltage| found(ServoState { voltage, ..known })), [0, 1]);
        assert_eq!(
            [celsius - 0.1, celsius].map(|temperature| found(ServoState { temperature, ..known })),
            [0, 1]
        );
        assert_eq!([8.9, 9.0, -9.1].map(|velocity| found(ServoState { velocity, ..known })), [0, 0, 1]);
    }
}
