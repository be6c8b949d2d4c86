//! What must hold in every tick of every run, written without a look at how the supervisor does it.

use crate::events::{CommandEvent, Event, ImuEvent, ServoEvent, Tick};
use crate::key::{Caps, MOST_SERVOS};
use khz_loop::supervisor::{
    Cause, ControllerTurn, Phase, Reaction, Recover, Supervisor, SupervisorSettings, Transition, Trigger,
};
use khz_loop::{Doing, ServoCommand, ServoState};

/// Stop is sent for so long before the robot counts as settled.
fn settle_ns(period_ns: i64) -> i64 {
    50_000_000.max(6 * period_ns)
}

/// A servo may take so long to switch its output on, in time and in replies.
const ENABLING_NS: i64 = 500_000_000;
const STOPPED_REPLIES: u32 = 10;
/// Five replies in a row, or more than one of three for long, in which a servo does something else than it was commanded: what such a
/// reply counts, and where it is too much. One that fits takes one away.
const STRAYED: u32 = 2;
const ASTRAY: u32 = 10;
/// Replies at rest after which a servo counts as off: all of them must report it.
const OFF_REPLIES: u32 = 3;

/// One tick, and what came of it.
pub struct Step<'a> {
    pub events: &'a [Event],
    pub settings: &'a SupervisorSettings,
    pub before: Phase,
    /// The phase after the observation, before the controller's turn.
    pub observed: Phase,
    pub tick: &'a Tick,
    pub transitions: &'a [Transition],
    pub after: &'a Supervisor,
}

impl Step<'_> {
    fn has(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    fn ticks(&self, ns: i64) -> u32 {
        (ns / self.tick.state.period_ns) as u32
    }
}

/// What the laws remember of the ticks before.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The operator or the settings asked to arm where that counts, and it has not been done yet.
    arm: bool,
    /// Ticks in this phase, after the one that led into it.
    ticks: u32,
    /// Ticks in a row without a reply, per servo.
    missed: [u32; MOST_SERVOS],
    overruns: u32,
    /// Ticks since the controller was last in time in which it was late by itself, and all in which it was late.
    slow: u32,
    late: u32,
    down: u32,
    /// It was commanded to move or damp.
    driven: [bool; MOST_SERVOS],
    /// It ran in the tick before, under such a command, and was not commanded to stop.
    ran: [bool; MOST_SERVOS],
    /// Replies in a row in which it was off although it was so commanded.
    off: [u32; MOST_SERVOS],
    /// What it was commanded: 0 to stop, 1 to damp, 2 to move; the same in the tick before; how many replies neither explains; and
    /// that they were too many, and have not all been made up for.
    commanded: [u8; MOST_SERVOS],
    commanded_before: [u8; MOST_SERVOS],
    astray: [u32; MOST_SERVOS],
    is_astray: [bool; MOST_SERVOS],
    /// It was commanded to be on, or reported it, and so many more replies must report that it is off.
    may_be_on: [u32; MOST_SERVOS],
    /// Control ended because of trouble.
    trouble: bool,
    /// Ticks since the loop was held up, this one included.
    stalled: u32,
    /// How often it was held up since every servo was last seen to follow.
    stalls: u32,
    /// For so many ticks servos are being switched on again, …
    recovering: u32,
    /// … or were in the tick before, …
    was_recovering: bool,
    /// … and so often they have been.
    recovered: u32,
    /// It reported meanwhile that it had timed out.
    timed_out: [bool; MOST_SERVOS],
    /// Replies in a row in which it followed and had been commanded to, up to two.
    followed: [u32; MOST_SERVOS],
    /// The controller stands on positions of before a stall: for certain, within the grace, and perhaps.
    owes: bool,
    may_owe: bool,
}

/// So many ticks after a stall servos that have timed out may be switched on again, in so many steps of at most so many ticks, and so often
/// in the time explored, which is less than 60 s.
const EXPLAINED: u32 = 6;
const STEPS: u32 = 3;
const STEP_NS: i64 = 50_000_000;
const RECOVERIES: u32 = 3;

impl Memory {
    pub fn new() -> Self {
        Self {
            arm: true,
            ticks: 0,
            missed: [0; MOST_SERVOS],
            overruns: 0,
            slow: 0,
            late: 0,
            down: 0,
            driven: [false; MOST_SERVOS],
            ran: [false; MOST_SERVOS],
            off: [0; MOST_SERVOS],
            commanded: [0; MOST_SERVOS],
            commanded_before: [0; MOST_SERVOS],
            astray: [0; MOST_SERVOS],
            is_astray: [false; MOST_SERVOS],
            may_be_on: [0; MOST_SERVOS],
            trouble: false,
            stalled: EXPLAINED + 1,
            stalls: 0,
            recovering: 0,
            was_recovering: false,
            recovered: 0,
            timed_out: [false; MOST_SERVOS],
            followed: [0; MOST_SERVOS],
            owes: false,
            may_owe: false,
        }
    }
}

/// Ages and counts beyond every threshold of these settings.
pub fn caps(settings: &SupervisorSettings, period_ns: i64) -> Caps {
    let longest = [
        settings.answer_ns(),
        settings.grace_ns(),
        settings.damping_ns(),
        settings.still_ns(),
        settle_ns(period_ns),
    ];
    // A silence is forgiven after arming for as many ticks as a state may be old.
    let stale = (settings.stale_ns() / period_ns) as u32 + 1;
    let counts =
        [settings.missed_replies, settings.overruns, settings.controller_slow, settings.answer_ticks, stale];
    Caps {
        age_ns: longest.into_iter().fold(0, i64::max) + period_ns,
        count: counts.into_iter().fold(0, u32::max).into(),
        long_age_ns: ENABLING_NS + period_ns,
        long_count: i64::from(ASTRAY.max(STOPPED_REPLIES + 1)),
    }
}

/// From a tick with a request to stop: damping, and its end seen by the tick after; then the time of settling, and a tick for
/// each servo that is named because it may still be on.
pub fn ticks_to_settle(settings: &SupervisorSettings, period_ns: i64, servos: usize) -> usize {
    let up = |ns: i64| (ns + period_ns - 1) / period_ns;
    (1 + up(settings.damping_ns()) + up(settle_ns(period_ns))) as usize + servos
}

/// Checks everything, and remembers the tick.
pub fn hold(memory: &mut Memory, step: &Step<'_>) -> Result<(), String> {
    every_transition_is_recorded(step)?;
    only_along_the_graph(step)?;
    remember_replies(memory, step);
    commands_fit_the_phase(memory, step)?;
    remember_arming(memory, step);
    armed_only_when_asked(memory, step)?;
    armed_only_in_health(step)?;
    stop_is_obeyed(step)?;
    an_end_hides_no_stall(memory, step)?;
    remember_counts(memory, step);
    only_a_stall_is_recovered_from(memory, step)?;
    a_recovery_goes_step_by_step(memory, step)?;
    a_stall_before_the_first_commands_starts_anew(memory, step)?;
    triggers_end_control(memory, step)?;
    nothing_else_ends_control(memory, step)?;
    damping_ends(memory, step)?;
    trouble_ends_in_fault(memory, step)?;
    settled_only_at_rest(memory, step)?;
    remember_phase(memory, step);
    Ok(())
}

fn law(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// The transitions of a tick lead from the phase before to the phase after without a gap.
fn every_transition_is_recorded(step: &Step<'_>) -> Result<(), String> {
    let mut phase = step.before;
    for transition in step.transitions {
        law(transition.from == phase, || format!("a gap before {transition:?}"))?;
        law(transition.at_ns == step.tick.state.now_ns, || format!("another time: {transition:?}"))?;
        law(transition.last_good_ns <= transition.at_ns, || format!("well in the future: {transition:?}"))?;
        law(transition.deadline_ns.is_none_or(|end_ns| end_ns > transition.at_ns), || {
            format!("over before it began: {transition:?}")
        })?;
        phase = transition.to;
    }
    let after = step.after.phase();
    law(phase == after, || format!("from {:?} to {after:?} with {:?}", step.before, step.transitions))
}

fn only_along_the_graph(step: &Step<'_>) -> Result<(), String> {
    let warns = |phase| matches!(phase, Phase::Active | Phase::Damping | Phase::Fault);
    let allowed = |t: &Transition| t.from.leads_to(t.to) || (t.from == t.to && warns(t.to));
    law(step.transitions.iter().all(allowed), || format!("off the graph: {:?}", step.transitions))
}

/// What the servos do, beside what they were commanded.
fn remember_replies(memory: &mut Memory, step: &Step<'_>) {
    for (at, servo) in step.tick.state.servos.iter().enumerate().filter(|(_, servo)| servo.fresh) {
        let commanded = memory.commanded[at];
        let fits = [commanded, memory.commanded_before[at]].into_iter().any(|commanded| match servo.doing {
            Doing::Following => commanded == 2,
            Doing::Damping | Doing::TimedOut => commanded == 1,
            Doing::Other => false,
            Doing::Off | Doing::Starting | Doing::Faulted => true,
        });
        let controlled = matches!(step.before, Phase::Active | Phase::Damping);
        // One that is stopped because it does not damp has nothing to make up for that.
        let let_go = step.before == Phase::Damping && memory.is_astray[at] && commanded == 0;
        memory.astray[at] = match (controlled, fits) {
            (false, _) => 0,
            (true, false) => (memory.astray[at] + STRAYED).min(ASTRAY),
            (true, true) if let_go => memory.astray[at],
            (true, true) => memory.astray[at].saturating_sub(1),
        };
        memory.is_astray[at] = memory.astray[at] == ASTRAY || (memory.is_astray[at] && memory.astray[at] > 0);
        // Only at rest it is believed that it is off.
        let is_off = matches!(servo.doing, Doing::Off | Doing::Faulted);
        memory.may_be_on[at] = match (servo.doing.is_on(), commanded) {
            (true, _) => OFF_REPLIES,
            (false, 0) if is_off && step.before.is_over() => memory.may_be_on[at].saturating_sub(1),
            (false, _) => memory.may_be_on[at],
        };
    }
}

fn commands_fit_the_phase(memory: &Memory, step: &Step<'_>) -> Result<(), String> {
    let after = step.after.phase();
    let fits = |(at, command): (usize, &ServoCommand)| match (after, command) {
        (Phase::Active, ServoCommand::Position(command)) => {
            // NaN is no position to hold; the limits of the explored robot are ±1 rad.
            command.position.abs() <= 1.0 && command.velocity.is_finite() && command.torque.is_finite()
        }
        (Phase::Active, _) => true,
        (Phase::Damping, ServoCommand::Stop) => memory.is_astray[at] || memory.commanded[at] == 0,
        (Phase::Damping, command) => matches!(command, ServoCommand::Damp),
        (_, command) => matches!(command, ServoCommand::Stop),
    };
    law(step.tick.commands.iter().enumerate().all(fits), || {
        format!("in {after:?} it commands {:?}", step.tick.commands)
    })
}

/// Asking counts in idle and at rest; a request to stop takes it back.
fn remember_arming(memory: &mut Memory, step: &Step<'_>) {
    memory.arm |= step.tick.arm && (step.before == Phase::Idle || step.before.is_over());
}

fn armed_only_when_asked(memory: &mut Memory, step: &Step<'_>) -> Result<(), String> {
    for transition in step.transitions {
        let used =
            transition.to == Phase::Armed || (transition.from.is_over() && transition.to == Phase::Init);
        law(!used || memory.arm, || "armed without being asked".into())?;
        memory.arm &= transition.to != Phase::Armed && !transition.to.is_over();
    }
    Ok(())
}

/// Control begins in a tick in which every servo has replied, is healthy and knows where it is, and the operator's
/// heartbeats arrive; and never but by arming.
fn armed_only_in_health(step: &Step<'_>) -> Result<(), String> {
    if !step.transitions.iter().any(|transition| transition.to == Phase::Armed) {
        return Ok(());
    }
    let may_be_fast = step.settings.reactions.velocity < Reaction::Damp;
    for event in step.events {
        let is_too_fast = matches!(event, Event::Servo(_, ServoEvent::Fast)) && !may_be_fast;
        let healthy = !is_too_fast
            && !matches!(
                event,
                Event::OperatorSilent
                    | Event::Servo(
                        _,
                        ServoEvent::Missed
                            | ServoEvent::Stale
                            | ServoEvent::Unknown
                            | ServoEvent::Fault
                            | ServoEvent::TimedOut
                            | ServoEvent::PositionNan
                            | ServoEvent::VelocityNan
                            | ServoEvent::Saturated
                            | ServoEvent::Refused
                            | ServoEvent::OutOfLimits
                    )
                    | Event::AnsweredTwice
                    | Event::Intruded
            );
        law(healthy, || format!("armed in a tick with {event:?}"))?;
    }
    Ok(())
}

fn stop_is_obeyed(step: &Step<'_>) -> Result<(), String> {
    let asked = step.tick.seen.stop.is_some();
    let after = step.after.phase();
    let ends = matches!(after, Phase::Damping | Phase::Stopped | Phase::Fault) || step.before.is_over();
    law(!asked || ends, || format!("asked to stop in {:?} it is in {after:?}", step.before))
}

/// The explored stall is longer than servos bear. Servos that are being switched on again after one are off.
fn an_end_hides_no_stall(memory: &Memory, step: &Step<'_>) -> Result<(), String> {
    let end = step.transitions.iter().find(|it| it.from == Phase::Active && it.to != Phase::Active);
    let lets_go = memory.recovering > 0 && !step.transitions.iter().any(is_recovered);
    law(!lets_go || end.is_none_or(|it| it.cause.is_trouble()), || {
        format!("an end in the midst of a recovery counts as one without trouble: {:?}", step.transitions)
    })?;
    let over = step.before == Phase::Active && step.tick.seen.stop == Some(Cause::TimeOver);
    let hidden = over && step.has(Event::HeldUp) && step.transitions.iter().all(|it| !it.cause.is_trouble());
    law(!hidden, || format!("a stall over the end counts as planned: {:?}", step.transitions))
}

/// Counts in a row, as a robot file counts them, while the robot is under control or comes down.
fn remember_counts(memory: &mut Memory, step: &Step<'_>) {
    let settings = step.settings;
    let controlled = matches!(step.before, Phase::Active | Phase::Damping);
    let count = |present: bool, before: u32, most: u32| {
        if present && controlled { (before + 1).min(most) } else { 0 }
    };
    for (missed, servo) in memory.missed.iter_mut().zip(&step.tick.state.servos) {
        *missed = count(!servo.fresh, *missed, settings.missed_replies);
    }
    memory.overruns = count(step.has(Event::Overrun), memory.overruns, settings.overruns);
    let (slow, preempted) = (step.has(Event::SlowController), step.has(Event::PreemptedController));
    let late = settings.controller_late(step.tick.state.period_ns);
    // A tick in which it had no CPU is no evidence of a slow controller.
    if slow || !preempted || !controlled {
        memory.slow = count(slow, memory.slow, settings.controller_slow);
    }
    memory.late = count(slow || preempted, memory.late, late);
    memory.down = count(step.has(Event::LinkDown), memory.down, settings.missed_replies);
}

/// A recovery begins when a servo reports that it has timed out, right after a stall, not while another goes on, and not too often;
/// never where it is off.
fn only_a_stall_is_recovered_from(memory: &mut Memory, step: &Step<'_>) -> Result<(), String> {
    // In a reply of after the stall, which the one before a missed reply may be, or that in the tick of the next.
    let (now_ns, since) = (step.tick.state.now_ns, i64::from(memory.stalled));
    memory.stalled = if step.has(Event::HeldUp) { 1 } else { (memory.stalled + 1).min(EXPLAINED + 1) };
    let is_news = |servo: &ServoState| now_ns - servo.at_ns < since * step.tick.state.period_ns;
    let follows = |servo: &ServoState| servo.doing == Doing::Following && is_news(servo);
    if step.before != Phase::Active || step.tick.state.servos.iter().all(follows) {
        memory.stalls = 0;
    }
    if step.has(Event::HeldUp) && step.before == Phase::Active {
        memory.stalls = (memory.stalls + 1).min(2);
    }
    if memory.recovering == 0 {
        memory.timed_out = [false; MOST_SERVOS];
    }
    for event in step.events {
        if let Event::Servo(at, ServoEvent::TimedOut) = *event {
            memory.timed_out[at] = true;
        }
    }
    if !step.after.is_recovering() || memory.recovering > 0 {
        return Ok(());
    }
    memory.recovered += 1;
    law(step.settings.recover == Recover::On, || "it recovers although that is off".into())?;
    law(step.before == Phase::Active, || format!("it recovers from {:?}", step.before))?;
    law(memory.stalled <= EXPLAINED, || "it recovers without a stall".into())?;
    law(memory.stalls <= 1, || "two stalls together are longer than one is recovered from".into())?;
    law(memory.timed_out.contains(&true), || "it recovers, and no servo has timed out".into())?;
    law(memory.recovered <= RECOVERIES, || "it recovers too often".into())
}

fn is_recovered(transition: &Transition) -> bool {
    matches!(transition.cause, Cause::Recovered { .. })
}

/// Only a servo that has timed out is stopped, which clears that; none is switched on before all have replied that they are well or off;
/// and each step has its time.
fn a_recovery_goes_step_by_step(memory: &mut Memory, step: &Step<'_>) -> Result<(), String> {
    let goes_on = step.after.is_recovering();
    let done = step.transitions.iter().any(is_recovered);
    law(!step.has(Event::HeldUp) || memory.recovering == 0 || !done && !goes_on, || {
        "a recovery outlasts another stall".into()
    })?;
    law(!done || memory.recovering > 0 && !goes_on, || "recovered from nothing".into())?;
    memory.was_recovering = memory.recovering > 0;
    memory.recovering = if goes_on { memory.recovering + 1 } else { 0 };
    if !goes_on {
        return Ok(());
    }
    let step_ticks = step.ticks(STEP_NS.max(2 * step.tick.state.period_ns));
    law(memory.recovering <= STEPS * step_ticks, || format!("it recovers for {} ticks", memory.recovering))?;
    let may_be_on =
        |doing: Doing| matches!(doing, Doing::Off | Doing::Starting | Doing::Following | Doing::Damping);
    for (at, command) in step.tick.commands.iter().enumerate() {
        let servo = &step.tick.state.servos[at];
        match command {
            ServoCommand::Damp => {}
            ServoCommand::Stop => law(memory.timed_out[at], || "it stops one that has not timed out".into())?,
            ServoCommand::Position(_) => {
                law(memory.recovering > 2, || "it is switched on before it was read and stopped".into())?;
                law(may_be_on(servo.doing), || {
                    format!("it is switched on although it is {:?}", servo.doing)
                })?;
            }
        }
    }
    Ok(())
}

/// As long as a servo that is commanded to move has not followed twice, within the grace of a start, the controller is not asked after a
/// stall before it was started on replies of a later tick.
fn a_stall_before_the_first_commands_starts_anew(memory: &mut Memory, step: &Step<'_>) -> Result<(), String> {
    let servos = &step.tick.state.servos;
    for (at, servo) in servos.iter().enumerate().filter(|(_, servo)| servo.fresh) {
        let follows = servo.doing == Doing::Following && memory.commanded_before[at] == 2;
        memory.followed[at] = if follows { (memory.followed[at] + 1).min(2) } else { 0 };
    }
    if step.before != Phase::Active {
        memory.followed = [0; MOST_SERVOS];
    }
    let commanded =
        || (0..servos.len()).filter(|&at| [memory.commanded[at], memory.commanded_before[at]].contains(&2));
    let is_starting = commanded().next().is_none() || commanded().any(|at| memory.followed[at] < 2);
    let goes_on = step.before == Phase::Active && step.after.phase() == Phase::Active;
    let in_grace = memory.ticks < step.ticks(step.settings.grace_ns());
    let owed = memory.may_owe;
    memory.may_owe |= step.has(Event::HeldUp) && is_starting;
    memory.owes |= step.has(Event::HeldUp) && is_starting && in_grace;
    let recovers = step.after.is_recovering();
    memory.owes &= goes_on && !recovers;
    let skips = step.after.turn() != ControllerTurn::Update;
    memory.may_owe &= goes_on && skips;
    if step.after.turn() == ControllerTurn::Restart {
        let silent = servos.iter().any(|servo| !servo.fresh);
        law(owed && goes_on && !silent && !step.has(Event::HeldUp), || {
            format!("started anew with {:?}", step.events)
        })?;
        (memory.owes, memory.may_owe) = (false, false);
    }
    law(!memory.owes || skips, || "the controller goes on where the joints were".into())
}

/// The gravest reaction to what is wrong in this tick, by the robot file's own words.
fn due(memory: &Memory, step: &Step<'_>) -> Option<(Reaction, Event)> {
    let settings = step.settings;
    // What is forgiven after arming is forgiven for the grace only.
    let forgiven = step.before != Phase::Damping && memory.ticks < step.ticks(settings.grace_ns());
    let reached = |count: u32, threshold: u32| !forgiven && count >= threshold;
    let trigger = |event: &Event| {
        Some(match *event {
            Event::Servo(
                _,
                ServoEvent::Fault
                | ServoEvent::PositionNan
                | ServoEvent::VelocityNan
                | ServoEvent::Saturated
                | ServoEvent::Refused,
            ) => Trigger::ServoFault,
            Event::Servo(_, ServoEvent::TimedOut) if !step.after.is_recovering() => Trigger::ServoFault,
            Event::Servo(_, ServoEvent::OutOfLimits) => Trigger::Position,
            Event::Servo(_, ServoEvent::Fast) => Trigger::Velocity,
            Event::Servo(servo, ServoEvent::Off)
                // One that was commanded to stop meanwhile may be off.
                if memory.ran[servo] || memory.driven[servo] && memory.off[servo] == STOPPED_REPLIES =>
            {
                Trigger::ServoFault
            }
            Event::Servo(_, ServoEvent::LowVoltage) => Trigger::Voltage,
            Event::Servo(_, ServoEvent::Hot) => Trigger::Temperature,
            Event::Servo(servo, ServoEvent::Missed)
                if reached(memory.missed[servo], settings.missed_replies) =>
            {
                Trigger::MissedReplies
            }
            Event::Servo(_, ServoEvent::Stale) if !forgiven && !explained(step) => Trigger::Stale,
            // However often the loop is held up: it misses a reply in every tick.
            Event::Servo(servo, ServoEvent::Stale)
                if reached(memory.missed[servo], settings.missed_replies) =>
            {
                Trigger::MissedReplies
            }
            Event::Servo(_, ServoEvent::Unknown) if !forgiven => Trigger::Stale,
            Event::Overrun if reached(memory.overruns, settings.overruns) => Trigger::Overruns,
            // It counts on under the grace, and then any late tick shows it.
            Event::SlowController | Event::PreemptedController
                if reached(memory.slow, settings.controller_slow)
                    || reached(memory.late, settings.controller_late(step.tick.state.period_ns)) =>
            {
                Trigger::Controller
            }
            Event::LinkDown if reached(memory.down, settings.missed_replies) => Trigger::BusDown,
            Event::Intruded => Trigger::MissedReplies,
            Event::OperatorSilent => Trigger::Heartbeat,
            Event::TargetsSilent => Trigger::Targets,
            Event::Imu(ImuEvent::Tilted) => Trigger::Tilt,
            Event::Imu(ImuEvent::Silent) if explained(step) => return None,
            Event::Imu(_) if !forgiven => Trigger::Imu,
            _ => return None,
        })
    };
    let found = step.events.iter().filter_map(|event| {
        let reaction = match *event {
            Event::Stop(cause) => {
                let reaction = cause.trigger().map_or(Reaction::Damp, |it| it.reaction(&settings.reactions));
                reaction.max(Reaction::Damp)
            }
            Event::Controller(_) if step.observed == Phase::Active => {
                settings.reactions.controller.max(Reaction::Damp)
            }
            Event::Command(_, CommandEvent::Nan | CommandEvent::Infinite)
                // Meanwhile the controller is not asked.
                if step.observed == Phase::Active && step.after.turn() == ControllerTurn::Update =>
            {
                settings.reactions.command.reaction()
            }
            _ => trigger(event)?.reaction(&settings.reactions),
        };
        Some((reaction, *event))
    });
    found.max_by_key(|(reaction, _)| *reaction)
}

/// In this tick the loop is back, and what is too old is so because the loop did not read it. In the explored robot every device answers
/// in the tick before, as far as the loop knows, so this is the tick in which they have time.
fn explained(step: &Step<'_>) -> bool {
    step.has(Event::HeldUp)
}

/// In the same tick: `damp` ends control, `stop` switches off, from damping too.
fn triggers_end_control(memory: &Memory, step: &Step<'_>) -> Result<(), String> {
    if !matches!(step.before, Phase::Active | Phase::Damping) {
        return Ok(());
    }
    let Some((reaction, event)) = due(memory, step) else { return Ok(()) };
    let after = step.after.phase();
    let obeyed = match reaction {
        Reaction::Stop => {
            // What the controller does is of no interest any more once it has no control.
            after.is_over()
        }
        Reaction::Damp => after == Phase::Damping || after.is_over(),
        Reaction::Warn | Reaction::Derate => true,
    };
    law(obeyed, || format!("{event:?} wants {reaction:?}, and it is in {after:?}"))
}

/// A robot with which nothing is wrong stays under control, without a warning.
fn nothing_else_ends_control(memory: &Memory, step: &Step<'_>) -> Result<(), String> {
    if memory.was_recovering {
        // A recovery that failed has ended control; one that succeeded has left a warning.
        return Ok(());
    }
    let harmless = |event: &Event| match *event {
        Event::Arm
        | Event::AnsweredTwice
        | Event::Servo(_, ServoEvent::Still | ServoEvent::Runs)
        | Event::Command(_, CommandEvent::OutOfLimits | CommandEvent::StopJoint | CommandEvent::DampJoint) => {
            true
        }
        Event::Servo(servo, ServoEvent::Missed) => memory.missed[servo] < step.settings.missed_replies,
        Event::Overrun => memory.overruns < step.settings.overruns,
        Event::SlowController | Event::PreemptedController => {
            let late = step.settings.controller_late(step.tick.state.period_ns);
            memory.slow < step.settings.controller_slow && memory.late < late
        }
        Event::LinkDown => memory.down < step.settings.missed_replies,
        _ => false,
    };
    a_stall_alone_ends_nothing(memory, step, &harmless)?;
    let astray = memory.is_astray.contains(&true);
    let undisturbed = step.before == Phase::Active && step.events.iter().all(harmless) && !astray;
    law(!undisturbed || (step.after.phase() == Phase::Active && step.transitions.is_empty()), || {
        format!("out of control without a reason: {:?}", step.transitions)
    })
}

/// A loop that was held up is a warning, and no reason to end control, even if devices' values are too old by it.
fn a_stall_alone_ends_nothing(
    memory: &Memory,
    step: &Step<'_>,
    harmless: &impl Fn(&Event) -> bool,
) -> Result<(), String> {
    let by_it = |event: &Event| match *event {
        // One that was silent before the stall has missed too many replies with or without it.
        Event::Servo(servo, ServoEvent::Stale) => memory.missed[servo] < step.settings.missed_replies,
        event => matches!(event, Event::HeldUp | Event::Imu(ImuEvent::Silent)),
    };
    let stalled = step.before == Phase::Active
        && step.has(Event::HeldUp)
        && step.events.iter().all(|event| by_it(event) || harmless(event))
        && !memory.is_astray.contains(&true);
    let warned =
        |change: &Transition| change.from == change.to && matches!(change.cause, Cause::LoopHeldUp { .. });
    let goes_on = step.after.phase() == Phase::Active && step.transitions.iter().all(warned);
    law(!stalled || goes_on, || format!("a stall ended control: {:?}", step.transitions))
}

/// Not later than the configured time, and not sooner but at rest or by the reaction `stop`.
fn damping_ends(memory: &Memory, step: &Step<'_>) -> Result<(), String> {
    if step.before != Phase::Damping {
        return Ok(());
    }
    let damping_ticks = step.ticks(step.settings.damping_ns());
    let damping = step.after.phase() == Phase::Damping;
    let over = memory.ticks + 1 >= damping_ticks;
    law(!(damping && over), || format!("damping after {} ticks", memory.ticks + 1))?;
    let still =
        step.tick.state.servos.iter().all(|servo| servo.fresh && servo.velocity == 0.0) && memory.ticks > 0;
    // Mode 0 may be a reset, if the servo ran before.
    let reset = |event: &Event| matches!(event, Event::Servo(_, ServoEvent::Off));
    let astray = memory.is_astray.contains(&true);
    let stopped = due(memory, step).is_some_and(|(reaction, _)| reaction == Reaction::Stop)
        || (step.settings.reactions.servo_fault == Reaction::Stop
            && (astray || step.events.iter().any(reset)));
    law(damping || over || still || stopped, || "switched off while it moves".into())
}

fn trouble_ends_in_fault(memory: &mut Memory, step: &Step<'_>) -> Result<(), String> {
    for transition in step.transitions.iter().filter(|transition| transition.from != transition.to) {
        memory.trouble |= transition.cause.is_trouble();
        match transition.to {
            Phase::Stopped => law(!memory.trouble, || format!("trouble ends in {transition:?}"))?,
            Phase::Fault => law(memory.trouble, || format!("no trouble ends in {transition:?}"))?,
            _ => {}
        }
        // A servo that stops replying in idle sends the robot back to init: that is not the end of a run.
        memory.trouble &= !matches!(transition.to, Phase::Init | Phase::Idle);
    }
    Ok(())
}

/// And one that ended as planned has no servo that may be on.
fn settled_only_at_rest(memory: &Memory, step: &Step<'_>) -> Result<(), String> {
    let (after, settled) = (step.after.phase(), step.after.is_settled());
    law(!settled || after.is_over(), || format!("settled in {after:?}"))?;
    let on = memory.may_be_on.iter().any(|&lacking| lacking > 0);
    law(!(settled && on && after == Phase::Stopped), || "ended as planned, and a servo may be on".into())
}

fn remember_phase(memory: &mut Memory, step: &Step<'_>) {
    let after = step.after.phase();
    let most = step.ticks(step.settings.grace_ns().max(step.settings.damping_ns()));
    let counted = after == step.before && matches!(after, Phase::Active | Phase::Damping);
    memory.ticks = if counted { (memory.ticks + 1).min(most) } else { 0 };
    if after == Phase::Damping && step.before != after {
        // What servos did under another command does not count while they are damped.
        (memory.astray, memory.is_astray) = ([0; MOST_SERVOS], [false; MOST_SERVOS]);
    }
    for (index, servo) in step.tick.state.servos.iter().enumerate() {
        memory.commanded_before[index] = memory.commanded[index];
        memory.commanded[index] = match step.tick.commands[index] {
            ServoCommand::Stop => 0,
            ServoCommand::Damp => 1,
            ServoCommand::Position(_) => 2,
        };
        if memory.commanded[index] != 0 {
            memory.may_be_on[index] = OFF_REPLIES;
        }
        let was_driven = memory.driven[index];
        let runs = servo.fresh && !matches!(servo.doing, Doing::Off | Doing::Faulted | Doing::TimedOut);
        let controlled = step.before == Phase::Active && after == Phase::Active;
        memory.driven[index] = after == Phase::Active && step.tick.commands[index] != ServoCommand::Stop;
        memory.ran[index] = controlled && runs && was_driven && memory.driven[index];
        let off = servo.fresh && servo.doing == Doing::Off && controlled && was_driven;
        memory.off[index] = if off { (memory.off[index] + 1).min(STOPPED_REPLIES) } else { 0 };
    }
}
