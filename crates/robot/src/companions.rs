//! What runs beside a loop, from before its first tick until after its last: heartbeats, steering, live view, recorder, watchdogs.

use crate::assemble::control::Followed;
use crate::live::Channel;
use crate::session::{Outcome, SessionError};
use khz_loop::console::Console;
use khz_loop::operator::{self, Heartbeat, Listener, OperatorError};
use khz_loop::run::Observer;
use khz_loop::steer::{Receiver, Steering, SteeringReceiver, TeleopConfig};
use khz_loop::supervisor::{Cause, Phase, SupervisorSettings, Transition};
use khz_loop::tick::Machine;
use khz_loop::timing::Clock;
use khz_loop::watchdogs::Watchdogs;
use khz_targets::socket::SocketError;
use khz_targets::{Inbox, TargetsConfig};
use std::sync::Arc;

/// They are notified of every tick.
pub(crate) type Observers = Vec<Box<dyn Observer + Send>>;

/// How the loop ended, or that it never began.
pub(crate) type End = Result<Outcome, SessionError>;

/// One of them. Dropped before it was finished, it is of a loop that never began.
pub(crate) trait Companion: Send {
    /// Gives the loop its end of it. Called once, before the first tick.
    fn attach(&mut self, _machine: &mut Machine, _observers: &mut Observers) {}

    /// The loop is over. Ends, and adds its results to the outcome. May block.
    fn finish(self: Box<Self>, _end: &mut End) {}

    /// What has gone wrong since it was asked last.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// All of one loop.
pub(crate) struct Companions(Vec<Box<dyn Companion>>);

impl Companions {
    /// Attaches all of them, in this order. Also returns those that are to be notified of every tick.
    pub fn attach(mut list: Vec<Box<dyn Companion>>, machine: &mut Machine) -> (Self, Observers) {
        let mut observers = Observers::new();
        list.iter_mut().for_each(|one| one.attach(machine, &mut observers));
        (Self(list), observers)
    }

    /// Ends all of them, the last first.
    pub fn finish(&mut self, mut end: End) -> End {
        while let Some(one) = self.0.pop() {
            one.finish(&mut end);
        }
        end
    }

    /// What has gone wrong since it was asked last.
    pub fn trouble(&self) -> Option<String> {
        self.0.iter().find_map(|one| one.trouble())
    }
}

impl<T: Companion> Companion for Option<T> {
    fn attach(&mut self, machine: &mut Machine, observers: &mut Observers) {
        self.iter_mut().for_each(|one| one.attach(machine, observers));
    }

    fn finish(self: Box<Self>, end: &mut End) {
        self.into_iter().for_each(|one| Box::new(one).finish(end));
    }

    fn trouble(&self) -> Option<String> {
        self.as_ref()?.trouble()
    }
}

impl Companion for Listener {
    fn attach(&mut self, machine: &mut Machine, _: &mut Observers) {
        machine.expect(self.heartbeat());
    }
}

/// What a person steers by: the live view, programs, and senders that the file allows.
pub(crate) struct Steered {
    /// The loop's end, until it is attached.
    loop_end: Option<SteeringReceiver>,
    pub steering: Steering,
    /// Inputs are the heartbeats that the robot expects.
    expected: Option<Heartbeat>,
    /// Of programs elsewhere; held for its thread.
    receiver: Option<Receiver>,
}

impl Steered {
    /// Senders that the file allows are received by the computer's clock only.
    pub fn start(
        teleop: &TeleopConfig,
        supervisor: &SupervisorSettings,
        clock: Clock,
    ) -> Result<Self, OperatorError> {
        let heartbeat = Heartbeat::new();
        let is_expected = supervisor.heartbeat_from.as_deref() == Some(operator::TELEOP);
        let expected = is_expected.then(|| heartbeat.clone());
        let (loop_end, steering) = Steering::new(teleop, heartbeat);
        let from = teleop.from.as_ref().filter(|_| clock == Clock::Real);
        let receiver = from.map(|from| Receiver::start(from, steering.clone())).transpose()?;
        Ok(Self { loop_end: Some(loop_end), steering, expected, receiver })
    }
}

impl Companion for Steered {
    fn attach(&mut self, machine: &mut Machine, _: &mut Observers) {
        self.expected.take().into_iter().for_each(|heartbeat| machine.expect(heartbeat));
        self.loop_end.take().into_iter().for_each(|loop_end| machine.steer(loop_end));
    }

    fn finish(self: Box<Self>, end: &mut End) {
        drop(self.receiver);
        if let Ok(outcome) = end {
            outcome.live.teleop = self.steering.counts();
        }
    }
}

/// What those who send targets need.
pub(crate) struct Aimed {
    followed: Followed,
    /// Of programs; held for its thread.
    receiver: Option<khz_targets::socket::Receiver>,
}

impl Aimed {
    /// Takes targets while the robot of `console` is active, those of programs also from the socket that its file names.
    pub fn listen(
        followed: Followed,
        targets: &TargetsConfig,
        console: &Arc<Console>,
        clock: Clock,
    ) -> Result<Self, SocketError> {
        followed.inbox.attend(Arc::clone(console), clock);
        let from = targets.from.as_ref().filter(|_| clock == Clock::Real && followed.by_programs);
        let start = |from: &String| khz_targets::socket::Receiver::start(from, followed.inbox.clone());
        let receiver = from.map(start).transpose()?;
        Ok(Self { followed, receiver })
    }

    /// Where targets are sent.
    pub fn inbox(&self) -> &Inbox {
        &self.followed.inbox
    }

    /// The same for programs: a leader's robot takes none of theirs.
    pub fn inbox_for_programs(&self) -> Option<&Inbox> {
        Some(&self.followed.inbox).filter(|_| self.followed.by_programs)
    }

    /// What brought the robot down, or why it never began.
    fn reason(end: &End) -> String {
        let outcome = match end {
            Ok(outcome) => outcome,
            Err(error) => return error.to_string(),
        };
        let Some(cause) = end_of(&outcome.stats.transitions) else {
            return "it ended before it was under control".to_owned();
        };
        let text = outcome.machine.explained(cause, None);
        let devices = outcome.machine.cycle().devices();
        let servo = cause.servo().and_then(|servo| devices.get(usize::from(servo)));
        servo.map_or_else(|| text.to_string(), |servo| format!("{}: {text}", servo.name))
    }
}

/// Why the robot came down the last time; what was only warned of, or was got over, is no reason.
fn end_of(transitions: &[Transition]) -> Option<Cause> {
    let since = transitions.iter().rposition(|change| change.cause == Cause::Rearmed).unwrap_or(0);
    let goes_down = |change: &&Transition| {
        change.from != change.to && matches!(change.to, Phase::Damping | Phase::Stopped | Phase::Fault)
    };
    let mut down = transitions[since..].iter().filter(goes_down).map(|change| change.cause);
    let trouble = down.clone().find(|cause| cause.is_trouble());
    trouble.or_else(|| down.next())
}

impl Companion for Aimed {
    fn attach(&mut self, machine: &mut Machine, _: &mut Observers) {
        machine.watch_feed(self.followed.feed.clone());
    }

    fn finish(mut self: Box<Self>, end: &mut End) {
        if let Some(receiver) = self.receiver.take() {
            receiver.finish(&Self::reason(end));
        }
        if let Ok(outcome) = end {
            outcome.live.targets = Some(self.followed.inbox.standing());
        }
    }
}

impl Companion for Channel {
    fn finish(self: Box<Self>, end: &mut End) {
        let counts = Self::finish(*self);
        if let Ok(outcome) = end {
            outcome.live.view = counts;
        }
    }
}

impl Companion for Watchdogs {
    fn attach(&mut self, _: &mut Machine, observers: &mut Observers) {
        observers.push(Box::new(self.pulsing()));
    }

    fn finish(self: Box<Self>, end: &mut End) {
        // A loop that panicked left its robot as it was: no watchdog is called off for that.
        if matches!(end, Err(SessionError::Panicked(_))) {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Active, Damping, Fault, Idle, Init, Stopped};

    /// The end of a robot that went through these.
    fn end(changes: &[(Phase, Phase, Cause)]) -> Option<Cause> {
        let transition = |&(from, to, cause): &(Phase, Phase, Cause)| Transition {
            tick: 0,
            at_ns: 0,
            from,
            to,
            cause,
            deadline_ns: None,
            last_good_ns: 0,
        };
        end_of(&changes.iter().map(transition).collect::<Vec<_>>())
    }

    #[test]
    fn programs_receive_what_brought_the_robot_down_and_not_what_was_warned_of_before() {
        let silent = Cause::TargetsSilent { age_ns: 1_000_100_000 };
        let lost = Cause::ServoTimedOut { servo: 1 };
        let begun = (Idle, Active, Cause::ControllerStarted);
        let warned = (Active, Active, silent);
        let finished = (Active, Damping, Cause::TimeOver);
        let failed = [(Active, Damping, lost), (Damping, Fault, Cause::DampingOver)];
        let again = (Fault, Init, Cause::Rearmed);
        assert_eq!(end(&[begun, warned, finished]), Some(Cause::TimeOver));
        assert_eq!(end(&[begun, warned, (Active, Damping, Cause::OperatorStop)]), Some(Cause::OperatorStop));
        assert_eq!(end(&[begun, (Active, Damping, silent)]), Some(silent));
        assert_eq!(end(&[begun, warned, failed[0], failed[1]]), Some(lost));
        assert_eq!(end(&[begun, finished, (Damping, Fault, lost)]), Some(lost), "graver than the end");
        assert_eq!(
            end(&[begun, failed[0], failed[1], again, begun, warned, finished]),
            Some(Cause::TimeOver)
        );
        assert_eq!(end(&[(Idle, Stopped, Cause::OperatorStop)]), Some(Cause::OperatorStop));
        assert_eq!(end(&[begun, warned]), None);
    }
}
