//! Checks a tick and reports what is wrong with it.

mod tally;

use super::joint::Joint;
use super::settings::Thresholds;
use super::{Cause, Fixed, Observation, Phase, Shortcut, Trigger};
use crate::state::{ImuState, RobotState};
use khz_link::ImuSample;
use khz_servo::{Doing, Fault, Quantity, Refused, ServoCommand, ServoState};
use tally::{ASTRAY, Commanded, FOLLOWED, STRAYED, Tally, UNMEASURED_REPLIES};
pub use tally::{OFF_REPLIES, STILL_WAY};

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

/// … and while it is damped, at least so long, ns: its commands may be on their way for some periods, behind a gateway for example, and
/// one that is let go too soon falls.
const ASTRAY_NS: i64 = 50_000_000;

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

/// What may be measured of a joint while nothing is wrong.
#[derive(Clone, Copy, Debug)]
struct Well {
    /// Its positions, rad, …
    position: [f64; 2],
    /// … and how fast it may be, rad/s; no infinity is among either.
    velocity: f64,
}

impl Well {
    fn of(joint: &Joint, settings: &Thresholds) -> Self {
        Self {
            position: joint.bounds.found(settings.position_tolerance),
            velocity: (joint.bounds.velocity * settings.velocity_factor).min(f64::MAX),
        }
    }
}

/// Counts that outlive a tick.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Of each joint.
    well: Fixed<Vec<Well>>,
    /// Per servo.
    tallies: Vec<Tally>,
    /// All servos [go on](Tally::goes_on) in this tick.
    all_go_on: Shortcut<bool>,
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
    /// Every device has answered in one tick since the loop was held up last.
    answered: bool,
    /// Ticks since the loop was last held up for more than a period after every device had answered; [`BACK_TICKS`] once every device
    /// has answered since.
    back: u32,
}

impl Watch {
    pub fn new(joints: &[Joint], settings: &Thresholds) -> Self {
        Self {
            well: Fixed(joints.iter().map(|joint| Well::of(joint, settings)).collect()),
            ..Self::of(vec![Tally::default(); joints.len()])
        }
    }

    fn of(tallies: Vec<Tally>) -> Self {
        Self {
            well: Fixed(Vec::new()),
            tallies,
            all_go_on: Shortcut(false),
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
            answered: false,
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
        let (well, tallies) = (std::mem::take(&mut self.well.0), std::mem::take(&mut self.tallies));
        *self = Self { well: Fixed(well), imu: self.imu, ..Self::of(tallies) };
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
        let stale_before_ns = state.now_ns.saturating_sub(settings.stale_ns());
        let (mut still, mut all_go_on) = (true, phase == Phase::Active);
        let all = self.tallies.iter_mut().zip(&state.servos).zip(joints).zip(&*self.well);
        for (((tally, servo), joint), well) in all {
            let goes_on = phase == Phase::Active
                && servo.at_ns >= stale_before_ns
                && is_well(servo, well, settings)
                && tally.goes_on(servo, joint);
            if !goes_on {
                tally.update(servo, joint, state.now_ns, phase, (too_much, factor));
            }
            all_go_on &= goes_on;
            still &= tally.is_still(servo, joint, settings.still_velocity);
        }
        self.all_go_on = Shortcut(all_go_on);
        state.imu.iter().for_each(|imu| self.imu.update(&imu.sample));
        self.overruns = if seen.overrun { self.overruns.saturating_add(1) } else { 0 };
        self.count_slow(seen, settings);
        self.is_long = seen.held_up_ns >= LONGEST_STALL_NS.max(LONG_PERIODS * state.period_ns);
        self.held_up_ns = seen.held_up_ns + if self.caught_up { 0 } else { self.held_up_ns };
        let complete = seen.cycle.missed + seen.cycle.quiet == 0 && !seen.cycle.imu_missed;
        self.caught_up = complete && seen.held_up_ns <= state.period_ns;
        let stood_still = seen.held_up_ns > state.period_ns;
        self.back = match self.answered {
            true if stood_still => 0,
            // A device that is silent while the loop is held up again and again gets no more time by it.
            _ if !complete => (self.back + 1).min(BACK_TICKS),
            _ => BACK_TICKS,
        };
        self.answered = complete || self.answered && !stood_still;
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

    /// From now on its joints are these.
    #[cfg(test)]
    pub fn watch(&mut self, joints: &[Joint], settings: &Thresholds) {
        self.well = Self::new(joints, settings).well;
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
    pub fn find_causes(
        &self,
        findings: &mut Findings,
        joints: &[Joint],
        state: &RobotState,
        seen: &Observation,
        settings: &Thresholds,
        forgiving: bool,
    ) {
        let mut find = |cause: Cause| findings.add(cause);
        if !self.all_go_on.0 {
            self.look_at_servos(joints, state, settings, forgiving, &mut find);
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

    /// Within its caller it would take the registers of what nearly every tick looks at.
    #[inline(never)]
    fn look_at_servos(
        &self,
        joints: &[Joint],
        state: &RobotState,
        settings: &Thresholds,
        forgiving: bool,
        find: &mut impl FnMut(Cause),
    ) {
        let silence = bearable_silence(state.period_ns, settings, forgiving);
        let stale_ns = settings.stale_ns();
        let stale_before_ns = state.now_ns.saturating_sub(stale_ns);
        let all = state.servos.iter().zip(joints).zip(&*self.well).zip(&self.tallies);
        for (at, (((servo, joint), well), tally)) in (0..).zip(all) {
            if tally.is_following && servo.at_ns >= stale_before_ns && is_well(servo, well, settings) {
                continue;
            }
            if let Some(cause) = servo_trouble(at, servo, joint, tally, state.now_ns) {
                find(cause);
            }
            look_at_values(at, servo, joint, settings, find);
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
fn is_well(servo: &ServoState, well: &Well, settings: &Thresholds) -> bool {
    let ServoState { position, velocity, voltage, temperature, .. } = *servo;
    servo.refused.is_none()
        && position >= well.position[0]
        && position <= well.position[1]
        && velocity.abs() <= well.velocity
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
    } else if imu.cosine_of_tilt() < settings.upright() && imu.tilt() > settings.tilt {
        find(Cause::Tilt { angle: imu.tilt() });
    }
}

#[cfg(test)]
mod tests;
