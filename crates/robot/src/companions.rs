//! What runs beside a loop, from before its first tick until after its last: whoever hears, steers, looks, records, or watches.

use crate::live::Channel;
use crate::recorder::Recorder;
use crate::records::RunLog;
use crate::session::{Outcome, SessionError};
use khz_file::RobotConfig;
use khz_loop::console::Console;
use khz_loop::feed::Feed;
use khz_loop::operator::{Heartbeat, Listener};
use khz_loop::run::Observer;
use khz_loop::steer::{Receiver, Steering, SteeringReceiver};
use khz_loop::tick::Machine;
use khz_loop::timing::Clock;
use khz_loop::watchdogs::Watchdogs;
use khz_targets::Desk;
use khz_targets::socket::SocketError;
use std::sync::Arc;

/// Those who are told of every tick.
pub(crate) type Observers = Vec<Box<dyn Observer + Send>>;

/// How the loop ended, or that it never began.
pub(crate) type End = Result<Outcome, SessionError>;

/// One of them. Dropped before it was finished, it is of a loop that never began.
pub(crate) trait Companion: Send {
    /// Gives the loop its end of it. Called once, before the first tick.
    fn attach(&mut self, _machine: &mut Machine, _observers: &mut Observers) {}

    /// The loop is over. Ends, and adds to the outcome what there is to tell. May block.
    fn finish(self: Box<Self>, _end: &mut End) {}

    /// What has gone wrong since it was asked last.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// All of one loop.
pub(crate) struct Companions(Vec<Box<dyn Companion>>);

impl Companions {
    /// Attaches all of them, in this order. Returns those who are to be told of every tick, too.
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

/// What a person who steers needs.
pub(crate) struct Steered {
    /// The loop's end, until it is attached.
    pub loop_end: Option<SteeringReceiver>,
    pub steering: Steering,
    /// Inputs are the heartbeats that the robot expects.
    pub expected: Option<Heartbeat>,
    /// Of programs elsewhere; held for its thread.
    pub receiver: Option<Receiver>,
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

/// What programs that send targets need.
pub(crate) struct Aimed {
    pub desk: Desk,
    pub feed: Feed,
    /// Of other programs; held for its thread.
    pub receiver: Option<khz_targets::socket::Receiver>,
}

impl Aimed {
    /// Takes targets while the robot of `console` is active, also from where its file says.
    pub fn listen(mut self, config: &RobotConfig, console: &Arc<Console>) -> Result<Self, SocketError> {
        self.desk.attend(Arc::clone(console), config.timing.clock);
        let from = config.targets.from.as_ref().filter(|_| config.timing.clock == Clock::Real);
        let start = |from: &String| khz_targets::socket::Receiver::start(from, self.desk.clone());
        self.receiver = from.map(start).transpose()?;
        Ok(self)
    }
}

impl Companion for Aimed {
    fn attach(&mut self, machine: &mut Machine, _: &mut Observers) {
        machine.watch_feed(self.feed.clone());
    }

    fn finish(self: Box<Self>, end: &mut End) {
        drop(self.receiver);
        if let Ok(outcome) = end {
            outcome.live.targets = Some(self.desk.standing());
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

/// A recording of a run that may not come about. Dropped, it ends and takes its files with it: a run that was refused leaves none.
pub(crate) struct Recording {
    recorder: Option<Recorder>,
    /// The loop's end, until it is attached.
    log: Option<RunLog>,
}

impl Recording {
    pub fn new(recorder: Recorder, log: RunLog) -> Self {
        Self { recorder: Some(recorder), log: Some(log) }
    }
}

impl Companion for Recording {
    fn attach(&mut self, _: &mut Machine, observers: &mut Observers) {
        self.log.take().into_iter().for_each(|log| observers.push(Box::new(log)));
    }

    fn finish(mut self: Box<Self>, end: &mut End) {
        match end {
            Ok(outcome) => outcome.recording = self.recorder.take().map(Recorder::finish),
            // It ran, and what there is of the log may say why.
            Err(SessionError::Panicked(_)) => drop(self.recorder.take()),
            Err(_) => {}
        }
    }

    fn trouble(&self) -> Option<String> {
        self.recorder.as_ref()?.trouble()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let files = self.recorder.take().map(|recorder| recorder.finish().paths);
        // What cannot be removed stays, as an empty log.
        files.into_iter().flatten().for_each(|file| _ = std::fs::remove_file(file));
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
