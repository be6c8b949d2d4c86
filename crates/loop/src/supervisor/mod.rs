//! Decides every tick whether the robot may be controlled, must be damped, or is at rest.
//!
//! ```text
//!         all keep answering    armed         started
//!   Init ───────────────► Idle ───────► Armed ───────► Active ◄── warn, derate: stays, with less torque
//!    ▲                     │              │               │
//!    │                     │              │               │ any trigger with the reaction `damp`
//!    │ re-armed            │              │               ▼
//!    │                     │              │            Damping
//!    │                     ▼              ▼               │ still, or damping time over
//!    └───────────────── Stopped, or Fault if something was wrong
//! ```
//! A trigger with the reaction `stop` leads to rest at once, from anywhere; before `Active` every trigger does, as
//! outputs are off anyway. At rest every servo is commanded to stop, which also clears its fault. Within `Active` servos that timed out
//! while the loop was held up may be switched on again, if the robot file allows it (`recover`).
//!
//! A pure state machine: events and time are arguments, and it never reads a clock.
//!
//! # Realtime contract
//! After construction nothing here allocates, locks, prints or makes a system call. The cost per tick grows with
//! the number of servos only.

mod bring_up;
mod cause;
mod guard;
mod joint;
mod reach;
mod recover;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod watch;

pub use cause::{Cause, Transition, Transitions, Trigger};
pub use joint::{Bounds, Joint, Limits, Timeout};
pub use khz_run::Phase;
pub use khz_servo::Quantity;
pub use settings::{
    Arming, Descent, LEAST_VOLTAGE_LOW_V, LONGEST_RECOVERED_NS, OutOfLimits, Reaction, Reactions, Recover,
    SupervisorSettings,
};
pub use watch::{LONGEST_STALL_NS, RESTART_UNSEEN};
pub(crate) use watch::{OFF_REPLIES, STILL_WAY};

use crate::cycle::CycleResult;
use crate::requests::Request;
use crate::state::RobotState;
use bring_up::BringUp;
use guard::Guard;
use khz_servo::{Doing, ServoCommand, ServoState};
use recover::{Progress, Recovery};
use settings::Thresholds;
use std::fmt;
use std::ops::Deref;
use watch::{Findings, Watch};

/// Stop is sent for this long, and in so many ticks, before the robot counts as settled, unless every servo reports earlier that
/// it is off: some may be lost, and an RMD reports it in two replies of four only, from the fifth on.
const SETTLE_NS: i64 = 50_000_000;
const SETTLE_TICKS: i64 = 10;

fn settle_ns(state: &RobotState) -> i64 {
    SETTLE_NS.max(SETTLE_TICKS * state.period_ns)
}

/// Joints that stood still before they are damped begin to sink within this time, and the first reply that can show it comes
/// two periods after the command: sooner nothing shows that they stand by themselves.
const SINKING_NS: i64 = 50_000_000;
const SINKING_TICKS: i64 = 2;

/// What happened in a tick, besides the state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observation {
    /// The cycle's result.
    pub cycle: CycleResult,
    /// The operator, a signal, the run's end or the loop asks to stop.
    pub stop: Option<Cause>,
    /// The tick before ended after this one should have started.
    pub overrun: bool,
    /// How much longer ago than a period the loop last looked at the devices' answers, ns: it was held up itself.
    pub held_up_ns: i64,
    /// Time in the controller in the tick before, ns; includes what was stolen from the thread meanwhile.
    pub control_ns: i64,
    /// Of that, time in which the controller's own thread waited for a CPU, ns, where that is known.
    pub control_waited_ns: i64,
    /// How long ago the last heartbeat arrived, if one is expected.
    pub heartbeat_age_ns: Option<i64>,
    /// How long the controller's targets have been silent, if that is longer than is borne.
    pub targets_silent_ns: Option<i64>,
}

/// What never changes. `Debug` leaves it out, so that it shows what makes one state different from another.
#[derive(Clone)]
struct Fixed<T>(T);

impl<T> Deref for Fixed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Fixed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// What decides only how soon something is known, not what. `Debug` leaves it out: no state differs by it from another.
#[derive(Clone, Copy, Default)]
struct Shortcut<T>(T);

impl<T> fmt::Debug for Shortcut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// What a controller in charge is to do in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerTurn {
    /// To decide, as in every tick.
    Update,
    /// Nothing; the last commands stay. The state is too old because the loop was held up and devices are only just being asked
    /// again, or servos that have timed out are being switched on again.
    Skip,
    /// Nothing, until every servo has replied to a query of after the stall; then [`ControllerTurn::Restart`].
    AwaitRestart,
    /// To start once more, on this state: during start-up the loop was held up before every servo had followed its first target, so
    /// the joints may be elsewhere by now.
    Restart,
}

impl ControllerTurn {
    /// The controller's positions are those of before a stall.
    const fn is_restart(self) -> bool {
        matches!(self, Self::AwaitRestart | Self::Restart)
    }
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Supervisor {
    settings: Fixed<Thresholds>,
    phase: Phase,
    /// When the phase was entered.
    since_ns: Option<i64>,
    /// What led into damping.
    blame: Option<Cause>,
    /// What the robot file sets for each joint.
    joints: Fixed<Vec<Joint>>,
    /// How long the loop may be held up before servos act by themselves.
    bearable_ns: Fixed<i64>,
    watch: Watch,
    bring_up: BringUp,
    guard: Guard,
    turn: ControllerTurn,
    /// `None`: a stall longer than a watchdog brings the robot down.
    recovery: Option<Box<Recovery>>,
    /// Triggers warned of or derated for, one bit each, until they are over.
    warned: u32,
    /// A trigger with the reaction `derate` is present.
    derated: bool,
    arm: bool,
    /// When an operator asked for it.
    asked_ns: Option<i64>,
    /// See [`Supervisor::lack`].
    lack: Option<Cause>,
    settled: bool,
    /// At rest: ticks in which stop was sent, up to [`SETTLE_TICKS`].
    stops: i64,
    /// At rest: servos up to this one have been looked at whether they are off.
    looked_at: usize,
    /// See [`Supervisor::forgive_hold_ups`].
    forgives_hold_ups: bool,
    /// End of the last tick in which nothing was wrong.
    all_good_ns: i64,
    transitions: Transitions,
}

/// Commands decided so long ago are not those to begin a motion with.
pub(crate) const fn is_outdated(age_ns: i64, period_ns: i64) -> bool {
    let late_ns = age_ns - period_ns;
    late_ns >= watch::HELD_UP_NS && late_ns >= period_ns
}

impl Supervisor {
    /// Watches `servos` servos without their own limits, which are asked for their velocity.
    pub fn new(settings: SupervisorSettings, servos: usize) -> Self {
        Self::with_joints(settings, vec![Joint::UNLIMITED; servos])
    }

    /// Watches these joints. `bearable_ns`: how long the loop may be held up before servos act by themselves.
    pub fn of(settings: SupervisorSettings, joints: Vec<Joint>, bearable_ns: i64) -> Self {
        Self { bearable_ns: Fixed(bearable_ns), ..Self::with_joints(settings, joints) }
    }

    fn with_joints(settings: SupervisorSettings, joints: Vec<Joint>) -> Self {
        let settings = Thresholds::of(settings);
        Self {
            arm: settings.arming == Arming::Automatic,
            phase: Phase::Init,
            since_ns: None,
            blame: None,
            watch: Watch::new(&joints, &settings),
            bring_up: BringUp::default(),
            guard: Guard::new(&joints, settings.position_tolerance),
            turn: ControllerTurn::Update,
            recovery: match settings.recover {
                Recover::On => Recovery::of(&joints).map(Box::new),
                Recover::Off => None,
            },
            settings: Fixed(settings),
            joints: Fixed(joints),
            bearable_ns: Fixed(LONGEST_STALL_NS),
            warned: 0,
            derated: false,
            asked_ns: None,
            lack: None,
            settled: false,
            stops: 0,
            looked_at: 0,
            forgives_hold_ups: false,
            all_good_ns: i64::MIN,
            transitions: Transitions::new(),
        }
    }

    /// Its thresholds.
    pub(crate) fn settings(&self) -> &SupervisorSettings {
        &self.settings
    }

    /// Looks at the tick. Changes are reported by [`Supervisor::take_transitions`].
    pub fn observe(&mut self, state: &RobotState, seen: &Observation) {
        let elapsed_ns = state.now_ns - *self.since_ns.get_or_insert(state.now_ns);
        if seen.stop.is_some() {
            // If both are requested at once, stop wins.
            (self.arm, self.asked_ns) = (false, None);
        }
        if self.phase.is_over() {
            self.watch.rest(state);
        } else {
            self.watch.update(self.phase, &self.joints, state, seen, &self.settings);
        }
        self.bring_up.update(state, &seen.cycle);
        match self.phase {
            Phase::Init => self.init(state, seen, elapsed_ns),
            Phase::Idle => self.idle(state, seen),
            Phase::Armed | Phase::Active => self.react(state, seen, elapsed_ns),
            Phase::Damping => self.damp(state, seen, elapsed_ns),
            Phase::Stopped | Phase::Fault => self.settle(state, elapsed_ns),
        }
    }

    fn init(&mut self, state: &RobotState, seen: &Observation, elapsed_ns: i64) {
        let late = elapsed_ns > self.settings.answer_ns();
        self.lack = self.servo_trouble(state, seen).or(self.bring_up.lack());
        if let Some(cause) = seen.stop {
            self.rest(cause, state);
        } else if let Some(cause) = self.lack {
            if late {
                self.rest(cause, state);
            }
        } else if self.bring_up.is_over(self.settings.answer_ticks) {
            self.enter(Phase::Idle, Cause::AllServosSeen, state);
        }
    }

    /// A fault, or a joint that does not know where it is. Stop clears faults, so some pass by themselves.
    fn servo_trouble(&self, state: &RobotState, seen: &Observation) -> Option<Cause> {
        self.findings(state, seen, true).of(Trigger::ServoFault)
    }

    #[inline]
    fn findings(&self, state: &RobotState, seen: &Observation, forgiving: bool) -> Findings {
        let mut findings = Findings::none();
        self.watch.find_causes(&mut findings, &self.joints, state, seen, &self.settings, forgiving);
        findings
    }

    fn idle(&mut self, state: &RobotState, seen: &Observation) {
        let stale_ns = self.settings.stale_ns();
        let age_ns = seen.heartbeat_age_ns.unwrap_or(i64::MAX);
        self.forget_old_request(state.now_ns);
        // A stop cancels that it arms by itself; it does not wait for an operator then.
        let waits = !self.arm && self.settings.arming == Arming::Operator;
        let not_armed = || waits.then_some(Cause::NotArmed);
        let silent = (!self.operator_is_there(seen)).then_some(Cause::HeartbeatLost { age_ns });
        self.lack = silent.or_else(not_armed);
        if let Some(cause) = seen.stop {
            self.rest(cause, state);
        } else if state.servos.iter().any(|servo| servo.age_ns(state.now_ns) > stale_ns) {
            self.back_to_init(Cause::Rearmed, state);
        } else if let Some(cause) = self.servo_trouble(state, seen) {
            self.back_to_init(cause, state);
        } else if self.arm
            && self.operator_is_there(seen)
            && self.bring_up.is_over(self.settings.answer_ticks)
        {
            self.try_to_arm(state, seen);
        }
    }

    /// A robot must not move long after it was asked to.
    fn forget_old_request(&mut self, now_ns: i64) {
        if self.settings.arming == Arming::Automatic || !self.arm {
            self.asked_ns = None;
        } else if !Request::Arm.is_fresh(now_ns - *self.asked_ns.get_or_insert(now_ns)) {
            self.arm = false;
        }
    }

    /// What an operator asked for in idle does not count the next time.
    fn back_to_init(&mut self, cause: Cause, state: &RobotState) {
        self.arm &= self.settings.arming == Arming::Automatic;
        self.asked_ns = None;
        self.enter(Phase::Init, cause, state);
    }

    /// A joint outside its limits would have to be driven back before anything else. That decision is left to a person who knows why it is
    /// there: it may have been moved by hand, or its zero, `offset` or `sign` may be wrong.
    fn try_to_arm(&mut self, state: &RobotState, seen: &Observation) {
        (self.arm, self.asked_ns) = (false, None);
        let findings = self.findings(state, seen, true);
        // Nor does a command go out first to a joint that is moved by hand faster than it may move.
        let prevents = |cause: &Cause| {
            let it = matches!(
                cause,
                Cause::VoltageUnknown { .. } | Cause::TemperatureUnknown { .. } | Cause::TooFast { .. }
            );
            it && self.reaction(*cause) >= Reaction::Damp
        };
        let prevents = findings.iter().find(|cause| prevents(cause)).copied();
        if let Some(cause) = findings.of(Trigger::Position).or(prevents) {
            self.rest(cause, state);
        } else {
            self.lack = None;
            self.watch.reset();
            self.guard.reset();
            self.enter(Phase::Armed, Cause::ArmRequested, state);
        }
    }

    fn operator_is_there(&self, seen: &Observation) -> bool {
        let heartbeat = seen.heartbeat_age_ns.zip(self.settings.heartbeat_ns());
        heartbeat.is_none_or(|(age_ns, limit_ns)| age_ns <= limit_ns)
    }

    fn react(&mut self, state: &RobotState, seen: &Observation, elapsed_ns: i64) {
        let forgiving = self.phase == Phase::Armed || elapsed_ns < self.settings.grace_ns();
        let mut findings = self.findings(state, seen, forgiving);
        let mut skips = [Trigger::Stale, Trigger::Imu]
            .into_iter()
            .any(|trigger| matches!(findings.of(trigger), Some(Cause::LoopHeldUp { .. })));
        if self.recovery.is_some() {
            skips |= self.recover(&mut findings, state, seen);
        }
        let turn = if skips { ControllerTurn::Skip } else { ControllerTurn::Update };
        self.turn = match seen.held_up_ns >= watch::HELD_UP_NS || self.turn.is_restart() {
            true => self.turn_after_stall(turn, state, seen, elapsed_ns),
            false => turn,
        };
        match self.worst(seen, &findings) {
            Some((Reaction::Stop, cause)) => self.rest(cause, state),
            Some((Reaction::Damp, cause)) => {
                if cause == Cause::TimeOver {
                    // Nothing graver was found; what was is not lost.
                    self.warn(&findings, state);
                }
                self.bring_down(cause, state);
            }
            _ => self.warn(&findings, state),
        }
    }

    /// What a recovery explains is no finding while it goes on; see [`Recovery`]. Whether the controller is not asked meanwhile.
    #[cold]
    #[inline(never)]
    fn recover(&mut self, findings: &mut Findings, state: &RobotState, seen: &Observation) -> bool {
        let Some(mut recovery) = self.recovery.take() else { return false };
        let mut goes_on = false;
        recovery.look(&self.joints, state, seen);
        let mut found = findings.of(Trigger::ServoFault);
        let excuses = |at, joint: &Joint| recovery.excuses(at, joint, state);
        let beside = self.watch.trouble_beside(&self.joints, state, excuses);
        if recovery.is_running() {
            found = beside;
            match recovery.advance(&self.joints, state, seen) {
                Progress::GoesOn => goes_on = true,
                Progress::Failed(cause) => found = beside.or(Some(cause)),
                Progress::Done(cause) => self.record(self.phase, self.phase, cause, state),
            }
        } else if let (Some(cause), None, Phase::Active) = (found, beside, self.phase)
            && self.reaction(cause) == Reaction::Damp
            && recovery.begin(cause, state.now_ns)
        {
            (found, goes_on) = (None, true);
        }
        findings.set(Trigger::ServoFault, found);
        self.recovery = Some(recovery);
        goes_on
    }

    /// The controller's turn after a stall, if it is this one otherwise.
    #[cold]
    #[inline(never)]
    fn turn_after_stall(
        &self,
        turn: ControllerTurn,
        state: &RobotState,
        seen: &Observation,
        elapsed_ns: i64,
    ) -> ControllerTurn {
        let was_away = seen.held_up_ns >= state.period_ns.max(watch::HELD_UP_NS);
        let is_new = elapsed_ns - seen.held_up_ns < self.settings.grace_ns() && self.watch.is_starting();
        let knows_all =
            !was_away && turn == ControllerTurn::Update && state.servos.iter().all(|servo| servo.fresh);
        let waits = was_away && is_new || self.turn == ControllerTurn::AwaitRestart;
        match waits && !self.forgives_hold_ups && !self.is_recovering() {
            false => turn,
            true if knows_all => ControllerTurn::Restart,
            true => ControllerTurn::AwaitRestart,
        }
    }

    /// Servos that have timed out are being switched on again, and the controller is not asked.
    pub fn is_recovering(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.is_running())
    }

    /// Servos that are stopped in the next cycle, and may be commanded to clear what their watchdogs have left.
    pub(crate) fn clears(&self) -> Option<impl Iterator<Item = usize> + '_> {
        let clearing = self.recovery.as_ref().filter(|recovery| recovery.is_clearing());
        clearing.map(|recovery| recovery.stopped())
    }

    /// The gravest reaction asked for, and the first cause of it. A planned end comes after what is wrong.
    fn worst(&self, seen: &Observation, findings: &Findings) -> Option<(Reaction, Cause)> {
        let reaction = |cause: Cause| self.reaction(cause);
        // A requested stop is obeyed, even where the cause alone would only lead to a warning.
        let asked = seen.stop.map(|cause| (reaction(cause).max(Reaction::Damp), self.asked(cause)));
        let found = findings.iter().map(|&cause| (reaction(cause), cause));
        asked.into_iter().chain(found).fold(None, |worst, next| match worst {
            Some((gravest, cause)) if gravest > next.0 || gravest == next.0 && cause != Cause::TimeOver => {
                worst
            }
            _ => Some(next),
        })
    }

    /// Why the robot comes down that is asked to. While servos are being switched on again after a stall, it is what the stall led to. If
    /// its time was over while the loop stood still for longer than servos bear, it ends as any such stall does: they have come down by
    /// themselves, although those that were not asked yet have not reported it.
    fn asked(&self, cause: Cause) -> Cause {
        if let Some(lets_go) = self.recovery.as_ref().and_then(|recovery| recovery.unfinished()) {
            return if cause.is_trouble() { cause } else { lets_go };
        }
        let held_up_ns = self.watch.held_up_ns();
        let is_planned = cause == Cause::TimeOver;
        match is_planned && !self.forgives_hold_ups && held_up_ns > *self.bearable_ns {
            true => Cause::LoopHeldUp { of: Trigger::Overruns, held_up_ns },
            false => cause,
        }
    }

    fn reaction(&self, cause: Cause) -> Reaction {
        match cause {
            Cause::LoopHeldUp { .. } if self.forgives_hold_ups => Reaction::Warn,
            Cause::LoopHeldUp { of: Trigger::Overruns, .. } if !self.watch.was_held_up_long() => {
                Reaction::Warn
            }
            Cause::LoopHeldUp { of, .. } if of != Trigger::Overruns && self.watch.is_just_back() => {
                Reaction::Warn
            }
            _ => cause.trigger().map_or(Reaction::Damp, |trigger| trigger.reaction(&self.settings.reactions)),
        }
    }

    /// Records what is new among the warnings, one per tick, and derates for those that ask for it.
    fn warn(&mut self, findings: &Findings, state: &RobotState) {
        self.derated = false;
        let mut present = 0;
        let mut news = None;
        for cause in findings.iter() {
            let Some(trigger) = cause.trigger() else { continue };
            let bit = 1 << trigger as u32;
            present |= bit;
            self.derated |= self.reaction(*cause) == Reaction::Derate;
            if self.warned & bit == 0 && news.is_none() {
                news = Some(*cause);
                self.warned |= bit;
            }
        }
        // While it comes down each is recorded once, however often it comes and goes.
        if self.phase != Phase::Damping {
            self.warned &= present;
        }
        if present == 0 {
            self.all_good_ns = state.now_ns;
        }
        if let Some(cause) = news {
            self.record(self.phase, self.phase, cause, state);
        }
    }

    fn damp(&mut self, state: &RobotState, seen: &Observation, elapsed_ns: i64) {
        let findings = self.findings(state, seen, false);
        if let Some((Reaction::Stop, cause)) = self.worst(seen, &findings) {
            self.rest(cause, state);
        } else if elapsed_ns >= self.settings.damping_ns() {
            self.rest(Cause::DampingOver, state);
        } else if self.has_come_down(state, elapsed_ns) {
            self.rest(Cause::Still, state);
        } else {
            self.let_go(state);
            self.warn(&findings, state);
        }
    }

    /// Every joint has stood still for long enough, under damping.
    fn has_come_down(&self, state: &RobotState, elapsed_ns: i64) -> bool {
        let least_ns = SINKING_NS.max(SINKING_TICKS * state.period_ns);
        let still_ns = self.settings.still_ns().max(least_ns);
        let stood = self.watch.still_ns(state.now_ns).is_some_and(|stood_ns| stood_ns >= still_ns);
        stood && elapsed_ns >= still_ns
    }

    /// A servo that goes on following while the robot comes down is switched off.
    fn let_go(&mut self, state: &RobotState) {
        if let Some(servo) = self.watch.let_go() {
            let mode = state.servos[usize::from(servo)].mode;
            self.warned |= 1 << Trigger::ServoFault as u32;
            self.record(self.phase, self.phase, Cause::ServoNotObeying { servo, mode }, state);
        }
    }

    fn settle(&mut self, state: &RobotState, elapsed_ns: i64) {
        let off = |servo: &ServoState| servo.fresh && !servo.doing.is_on();
        let all_off = state.servos.iter().all(off) && self.watch.may_be_on(0).is_none();
        // Time in which the loop stood still sends nothing.
        self.stops = (self.stops + 1).min(SETTLE_TICKS);
        let is_over = self.stops == SETTLE_TICKS && elapsed_ns >= settle_ns(state);
        self.settled = all_off || is_over && !self.accuse(state);
        if self.settled && self.arm {
            self.blame = None;
            (self.settled, self.stops, self.looked_at) = (false, 0, 0);
            self.watch.reset();
            self.enter(Phase::Init, Cause::Rearmed, state);
        }
    }

    /// Names a servo, one per tick, that was commanded to stop and did not report that it is off. The run did not end as planned then.
    fn accuse(&mut self, state: &RobotState) -> bool {
        let Some(at) = self.watch.may_be_on(self.looked_at) else { return false };
        self.looked_at = at + 1;
        // A request to arm again was made without knowing that.
        (self.arm, self.asked_ns) = (false, None);
        let servo = at as u16;
        let ServoState { fresh, doing, mode, .. } = state.servos[at];
        let cause = match fresh && doing.is_on() {
            true => Cause::ServoStillOn { servo, mode },
            false => Cause::ServoNotReportedOff { servo },
        };
        let from = std::mem::replace(&mut self.phase, Phase::Fault);
        self.record(from, Phase::Fault, cause, state);
        true
    }

    /// From now on a loop that is held up is only warned of, as long as the devices answer once they are asked again. Otherwise they
    /// have a few ticks for that.
    ///
    /// For devices emulated within the loop's own process, which stand still with it. Never for real ones.
    pub fn forgive_hold_ups(&mut self) {
        self.forgives_hold_ups = true;
    }

    /// What the controller is to do in this tick if the robot is active.
    pub const fn turn(&self) -> ControllerTurn {
        self.turn
    }

    /// The controller has been started.
    pub fn controller_started(&mut self, state: &RobotState) {
        if self.phase == Phase::Armed {
            self.enter(Phase::Active, Cause::ControllerStarted, state);
        }
    }

    /// The controller has given up.
    pub fn controller_failed(&mut self, cause: Cause, state: &RobotState) {
        match (self.phase, self.settings.reactions.controller) {
            // There is no command to go on with, so the mildest reaction is to damp.
            (Phase::Active, Reaction::Warn | Reaction::Derate | Reaction::Damp) => {
                self.bring_down(cause, state)
            }
            (Phase::Armed | Phase::Active, _) => self.rest(cause, state),
            _ => {}
        }
    }

    /// Replaces the commands with what the phase demands, and keeps those of the controller within the limits.
    pub fn govern(&mut self, commands: &mut [ServoCommand], state: &RobotState) {
        if self.phase == Phase::Active {
            let derate = if self.derated { self.settings.derate_to } else { 1.0 };
            if let Some(recovery) = &mut self.recovery {
                recovery.command(commands, state);
            }
            if self.turn.is_restart() {
                self.take_back(commands, state);
            }
            if let Some(cause) = self.guard.check(&self.joints, commands, state, &self.settings, derate) {
                // A command that cannot be sent leaves nothing to go on with.
                match self.settings.reactions.command {
                    Descent::Stop => self.rest(cause, state),
                    Descent::Damp => self.bring_down(cause, state),
                }
            }
        }
        match self.phase {
            Phase::Active => {
                if let Some(recovery) = &mut self.recovery {
                    recovery.remember(&self.joints, commands, state);
                }
            }
            Phase::Damping => {
                commands.iter_mut().zip(self.watch.damping()).for_each(|(to, command)| *to = command);
            }
            Phase::Init | Phase::Idle | Phase::Armed | Phase::Stopped | Phase::Fault => {
                commands.fill(ServoCommand::Stop);
            }
        }
        self.watch.command(commands);
    }

    /// For [`RobotState::led_to`], after [`Supervisor::govern`].
    pub fn copy_led_to(&self, to: &mut [Option<f64>]) {
        // As a rule none is led, and none was.
        if self.guard.leads() || to.iter().any(Option::is_some) {
            to.iter_mut().zip(self.guard.led_to()).for_each(|(to, led_to)| *to = led_to);
        }
    }

    /// Takes back what a servo would follow that does not follow yet, because the state that was decided on [is old](is_outdated): its
    /// joint may be elsewhere by now. Its target starts anew in the next tick.
    #[cold]
    pub(crate) fn hold_back(&mut self, commands: &mut [ServoCommand], state: &RobotState) {
        self.take_back(commands, state);
        self.watch.amend(commands);
    }

    /// A servo that is off stays off: one commanded to damp is not switched on until it has been stopped.
    #[cold]
    fn take_back(&mut self, commands: &mut [ServoCommand], state: &RobotState) {
        for (at, (command, servo)) in commands.iter_mut().zip(&state.servos).enumerate() {
            if matches!(command, ServoCommand::Position(_)) && !self.watch.follows(at) {
                *command = if servo.doing == Doing::Off { ServoCommand::Stop } else { ServoCommand::Damp };
                self.guard.forget(at);
            }
        }
    }

    /// Takes the phase from a record instead of deciding on it: for a controller that runs on recorded states. Allocates
    /// nothing.
    pub fn follow(&mut self, phase: Phase) {
        if phase == Phase::Armed {
            self.guard.reset();
        }
        self.phase = phase;
    }

    /// As [`Supervisor::arm`] in idle, of a request that was decided at `asked_ns` and counts for 0.4 s since then. Ignored
    /// elsewhere.
    pub fn arm_since(&mut self, asked_ns: i64) {
        if self.phase == Phase::Idle {
            // One that was overtaken does not shorten the time of the newer one.
            (self.arm, self.asked_ns) = (true, self.asked_ns.max(Some(asked_ns)));
        }
    }

    /// Asks to arm: from idle, or from rest to begin again from measured positions. Ignored elsewhere.
    pub fn arm(&mut self) {
        self.arm |= self.phase == Phase::Idle || self.phase.is_over();
    }

    /// Damps a robot that is under control; one that is not needs no damping.
    fn bring_down(&mut self, cause: Cause, state: &RobotState) {
        if self.phase == Phase::Active {
            self.blame = Some(cause);
            self.watch.begin_damping();
            self.enter(Phase::Damping, cause, state);
            // What brought it down needs no second record.
            self.warned = cause.trigger().map_or(0, |trigger| 1 << trigger as u32);
        } else {
            self.rest(cause, state);
        }
    }

    fn rest(&mut self, cause: Cause, state: &RobotState) {
        let trouble = cause.is_trouble() || self.blame.is_some_and(Cause::is_trouble);
        (self.settled, self.stops, self.looked_at) = (false, 0, 0);
        self.arm = false;
        self.enter(if trouble { Phase::Fault } else { Phase::Stopped }, cause, state);
    }

    fn enter(&mut self, to: Phase, cause: Cause, state: &RobotState) {
        let from = std::mem::replace(&mut self.phase, to);
        self.since_ns = Some(state.now_ns);
        self.warned = 0;
        self.derated = false;
        self.turn = ControllerTurn::Update;
        if let Some(recovery) = &mut self.recovery {
            recovery.end();
        }
        self.record(from, to, cause, state);
    }

    fn record(&mut self, from: Phase, to: Phase, cause: Cause, state: &RobotState) {
        let now_ns = state.now_ns;
        let deadline_ns = match to {
            Phase::Init => Some(now_ns + self.settings.answer_ns()),
            Phase::Damping => Some(now_ns + self.settings.damping_ns()),
            Phase::Stopped | Phase::Fault => Some(now_ns + settle_ns(state)),
            Phase::Idle | Phase::Armed | Phase::Active => None,
        };
        let last_good_ns = match cause {
            Cause::ImuSilent { .. } => state.imu.map_or(now_ns, |imu| imu.sample.at_ns),
            Cause::MissedReplies { servo, .. }
            | Cause::Stale { servo, .. }
            | Cause::NotSeen { servo, .. } => {
                state.servos.get(usize::from(servo)).map_or(now_ns, |servo| servo.at_ns)
            }
            _ if cause.is_trouble() => self.all_good_ns,
            _ => now_ns,
        };
        let transition =
            Transition { tick: state.tick, at_ns: now_ns, from, to, cause, deadline_ns, last_good_ns };
        // There is room: a tick has one observation, one turn of the controller, and one look at its commands.
        let _ = self.transitions.try_push(transition);
    }

    /// The phase now.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The robot is at rest and the servos have been commanded to stop: the loop may end.
    pub const fn is_settled(&self) -> bool {
        self.phase.is_over() && self.settled
    }

    /// What led to damping, if anything did.
    pub const fn blame(&self) -> Option<Cause> {
        self.blame
    }

    /// What kept the robot from being armed in the last tick before it was at rest: a servo that did not reply or had a
    /// fault, or a missing operator heartbeat. `None`: it was armed, or the run ended before start-up was over.
    pub const fn lack(&self) -> Option<Cause> {
        self.lack
    }

    /// Commands changed so far to keep joints within their limits: cut to a limit, slowed down to the joint's greatest
    /// speed, or turned away from a limit the joint is at. One per servo and tick.
    pub const fn clamped(&self) -> u64 {
        self.guard.clamped()
    }

    /// As [`Supervisor::take_transitions`], in the place of those of before. In nearly every tick there are none, and nothing is copied.
    #[inline]
    pub(crate) fn swap_transitions(&mut self, message: &mut Transitions) {
        message.clear();
        if !self.transitions.is_empty() {
            std::mem::swap(message, &mut self.transitions);
        }
    }

    /// The transitions since this was last asked, oldest first.
    pub fn take_transitions(&mut self) -> Transitions {
        std::mem::take(&mut self.transitions)
    }
}
