//! Where points of all programs arrive: checked, put in order, and handed to the loop as whole curves.
//!
//! # Realtime contract
//! What is here runs on the threads of those who send, which wait for one another. The loop reads the newest curves without waiting.

mod laying;
mod producer;

pub use producer::Counts;

use crate::curve::{Bounds, Curve, Knot};
use crate::lease::Lease;
use crate::message::{Points, Refused, Sender};
use crate::names::Names;
use crate::plan::{Plan, Status};
use crate::settings::TargetsConfig;
use khz_loop::console::Console;
use khz_loop::supervisor::Phase;
use khz_loop::timing::Clock;
use khz_rt::{Reader, Writer};
use khz_run::record;
use khz_run::targets::{Fared, Mail};
use khz_settings::nanoseconds;
use laying::Laying;
use producer::Producer;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// No chunk ends later than this, ns: a program that dies is followed to the end of what it has sent.
const LONGEST_NS: i64 = 60_000_000_000;
/// Messages of all programs in a second that are passed to a log: a flood must not fill it.
const MOST_RECORDED: u32 = 2000;
/// Programs that are distinguished: whatever names are sent, no more is remembered.
const MOST_PROGRAMS: usize = 64;
/// What was before stays so long in a curve, for ticks that come late.
const REMEMBERED_NS: i64 = 400_000_000;

/// Who has the robot while an operator steers.
const OPERATOR: &str = "the operator";

/// A joint, as far as points are concerned.
#[derive(Clone, Debug)]
pub(crate) struct JointTargets {
    pub name: String,
    /// Greatest speed, rad/s.
    pub velocity: f64,
    /// Least and greatest position, rad.
    pub position: [f64; 2],
    /// Greatest acceleration, rad/s².
    pub acceleration: f64,
    /// Greatest torque, N·m; infinite: it has no limit, and is sent none.
    pub torque: f64,
    /// How long its command comes behind its reference, ns: chunks are followed so much ahead.
    pub lead_ns: i64,
}

/// Receives every message.
type Listener = Box<dyn FnMut(i64, &record::Targets<'_>) + Send>;

/// The end of those who send. Clones are of the same robot.
#[derive(Clone)]
pub struct Inbox(Arc<Mutex<Inner>>);

pub(crate) struct Inner {
    settings: TargetsConfig,
    pub joints: Vec<JointTargets>,
    pub status: Option<Reader<Status>>,
    pub log: Option<Reader<Status>>,
    listener: Option<Listener>,
    /// The second in which so many messages were passed on.
    recorded: (i64, u32),
    console: Option<Arc<Console>>,
    clock: Clock,
    plan: Plan,
    loop_end: Writer<Plan>,
    pieces: u32,
    producers: Vec<Producer>,
    /// All messages, also of programs that are remembered no more.
    mail: Mail,
    /// Who has the robot, by its place among the producers.
    lease: Lease,
    names: Names,
}

/// A program, as its targets have gone so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// What became of its messages.
    pub counts: Counts,
    /// How often it sends single targets, ns, as far as that is known.
    pub cadence_ns: Option<i64>,
    /// How long after they were owed its messages came, ns: of the last 128 the middle, all but one in a hundred, and of all the most.
    pub lateness_ns: [i64; 3],
    /// It has the robot.
    pub holds: bool,
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The loop's own account.
    pub status: Status,
    /// The names of the joints, in the order of the robot file.
    pub joints: Vec<String>,
    /// Their least and greatest positions, rad; infinite without a limit.
    pub limits: Vec<[f64; 2]>,
    /// How far it has come; `None`: it is no robot that starts and comes down.
    pub phase: Option<Phase>,
    /// Who has sent: of very many the last.
    pub accounts: Vec<Account>,
    /// The figures of all who have sent.
    pub fared: Fared,
}

impl Inbox {
    pub(crate) fn new(settings: &TargetsConfig) -> (Reader<Plan>, Self) {
        let plan = Plan::default();
        let (loop_end, reader) = khz_rt::newest(&plan);
        let inner = Inner {
            settings: settings.clone(),
            joints: Vec::new(),
            status: None,
            log: None,
            listener: None,
            recorded: (i64::MIN, 0),
            console: None,
            clock: Clock::Real,
            plan,
            loop_end,
            pieces: 0,
            producers: Vec::new(),
            mail: Mail::default(),
            lease: Lease::default(),
            names: Names::default(),
        };
        (reader, Self(Arc::new(Mutex::new(inner))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on points are taken only while this robot is active, and it is as late as on this clock.
    pub fn attend(&self, console: Arc<Console>, clock: Clock) {
        let mut inner = self.lock();
        (inner.console, inner.clock) = (Some(console), clock);
    }

    /// From now on `listener` is called with when a message arrived, ns, and what became of it; of at most 2000 a second. It is called on the
    /// threads of those who send, one at a time.
    pub fn listen(&self, listener: impl FnMut(i64, &record::Targets<'_>) + Send + 'static) {
        self.lock().listener = Some(Box::new(listener));
    }

    /// How it stands as of each tick, for one that looks between ticks and does not wait; `None`: it is locked, or the controller
    /// was not prepared yet.
    pub fn watch(&self) -> Option<Reader<Status>> {
        self.lock().log.take()
    }

    /// Now, ns, by the robot's clock: that of the last tick in virtual time.
    pub fn now_ns(&self) -> i64 {
        let mut inner = self.lock();
        match (inner.clock, &mut inner.status) {
            (Clock::Virtual, Some(status)) => status.read().now_ns,
            _ => khz_rt::now_ns(),
        }
    }

    /// Points of `sender` that arrived at `now_ns`, by the robot's clock. Waits for others who send.
    ///
    /// # Errors
    /// Why nothing of them is taken.
    pub fn send(&self, sender: &Sender, points: &Points, now_ns: i64) -> Result<(), Refused> {
        let mut inner = self.lock();
        let at = inner.producer(sender);
        let before = inner.producers[at].counts.clamped;
        let outcome = inner.take(at, points, now_ns);
        inner.producers[at].counts.add(outcome.as_ref().err());
        let clamped = inner.producers[at].counts.clamped - before;
        let [first_ns, last_ns] = [points.first_ns(), points.last_ns()];
        let message = record::Targets {
            seq: points.seq.map_or(0, |seq| seq.saturating_add(1)),
            points: points.at_ns.len() as u32,
            first_ns,
            last_ns,
            late_ns: now_ns.saturating_sub(first_ns),
            overdue_ns: *outcome.as_ref().unwrap_or(&0),
            clamped: u32::try_from(clamped).unwrap_or(u32::MAX),
            ..record::Targets::default()
        };
        inner.record_message(sender, message, outcome.as_ref().err(), now_ns);
        outcome.map(|_| ())
    }

    /// As [`Inbox::send`], of what could not be read: counted only.
    pub fn refuse(&self, sender: &Sender, why: &Refused, now_ns: i64) {
        let mut inner = self.lock();
        let at = inner.producer(sender);
        inner.producers[at].counts.add(Some(why));
        inner.record_message(sender, record::Targets::default(), Some(why), now_ns);
    }

    /// The program in control announces silence for `for_ns`, at most `hold_s`, until it sends again. No effect from others.
    pub fn hold(&self, name: &str, for_ns: i64, now_ns: i64) {
        let mut inner = self.lock();
        if inner.holds(name) {
            let most_ns = nanoseconds(inner.settings.hold_s, 1e9);
            inner.plan.hold_until_ns = now_ns.saturating_add(for_ns.clamp(0, most_ns));
            inner.publish();
        }
    }

    /// The program in control is done with the robot: it comes to rest, and nothing is expected any more. No effect from others.
    pub fn release(&self, name: &str) {
        self.let_go(name, false);
    }

    /// The program in control is gone: others may have it at once. It is expected as before, and no longer than before.
    pub fn gone(&self, name: &str) {
        self.let_go(name, true);
    }

    /// The number of a new connection.
    pub(crate) fn connection(&self) -> u64 {
        self.lock().names.connection()
    }

    /// This connection sends under this name, or the process itself does.
    pub(crate) fn claim(&self, name: &str, by: u64) -> Result<(), Refused> {
        match self.lock().names.claim(name, by) {
            true => Ok(()),
            false => Err(Refused::Held(name.to_owned())),
        }
    }

    /// A connection has ended: its programs are gone, and their names are free.
    pub(crate) fn hang_up(&self, connection: u64) {
        let own = self.lock().names.free(connection);
        own.iter().for_each(|name| self.gone(name));
    }

    fn let_go(&self, name: &str, is_expected: bool) {
        let mut inner = self.lock();
        inner.restart(name);
        if inner.holds(name) {
            inner.lease.release();
            inner.plan.hold_until_ns = i64::MIN;
            inner.plan.is_expected = is_expected;
            inner.publish();
        }
    }

    /// The loop's own account of the last tick. Waits for those who send; allocates.
    pub fn status(&self) -> Status {
        self.lock().status()
    }

    /// How it stands, without programs and figures. Waits for those who send; allocates.
    pub fn seen(&self) -> Standing {
        let mut inner = self.lock();
        let status = inner.status();
        inner.seen(status)
    }

    /// How it stands, with all figures. Waits for those who send, and takes much longer than [`Inbox::seen`]; allocates.
    pub fn standing(&self) -> Standing {
        let mut inner = self.lock();
        let status = inner.status();
        let holder = inner.lease.holder();
        let account = |(at, producer): (usize, &Producer)| Account {
            name: producer.sender.name.clone(),
            counts: producer.counts,
            cadence_ns: producer.pace.cadence_ns(producer.sender.every_ns),
            lateness_ns: producer.lateness.figures(),
            holds: holder == Some(at),
        };
        let accounts = inner.producers.iter().enumerate().map(account).collect();
        let fared = inner.mail.fared(&status.course);
        Standing { accounts, fared, ..inner.seen(status) }
    }
}

impl Inner {
    fn status(&mut self) -> Status {
        self.status.as_mut().map(|status| status.read().clone()).unwrap_or_default()
    }

    fn seen(&self, status: Status) -> Standing {
        let limits = self.joints.iter().map(|joint| joint.position).collect();
        let phase = self.console.as_ref().map(|console| console.seen().1);
        let joints = self.joints.iter().map(|joint| joint.name.clone()).collect();
        Standing { status, joints, limits, phase, ..Standing::default() }
    }

    fn producer(&mut self, sender: &Sender) -> usize {
        let found = self.producers.iter().position(|producer| producer.sender.name == sender.name);
        let at = found.unwrap_or_else(|| {
            let new = Producer::new(sender);
            if self.producers.len() < MOST_PROGRAMS {
                self.producers.push(new);
                return self.producers.len() - 1;
            }
            let at = self.longest_silent();
            self.producers[at] = new;
            at
        });
        self.producers[at].sender.clone_from(sender);
        at
    }

    fn record_message(
        &mut self,
        sender: &Sender,
        message: record::Targets<'_>,
        refused: Option<&Refused>,
        now_ns: i64,
    ) {
        let (by, refused) = (sender.name.as_str().into(), refused.map_or("", Refused::word).into());
        let message = record::Targets { by, clock_ns: sender.clock_ns, refused, ..message };
        self.mail.message(&message);
        let second = now_ns.div_euclid(1_000_000_000);
        if self.recorded.0 != second {
            self.recorded = (second, 0);
        }
        self.recorded.1 = self.recorded.1.saturating_add(1);
        if let Some(listener) = self.listener.as_mut().filter(|_| self.recorded.1 <= MOST_RECORDED) {
            listener(now_ns, &message);
        }
    }

    /// The place of the program whose newest point is the oldest, but not of the one that has the robot.
    fn longest_silent(&self) -> usize {
        let others = self.producers.iter().enumerate().filter(|(at, _)| self.lease.holder() != Some(*at));
        others.min_by_key(|(_, producer)| (producer.newest_ns, producer.second.0)).map_or(0, |(at, _)| at)
    }

    fn holds(&self, name: &str) -> bool {
        self.lease.holder().is_some_and(|at| self.producers[at].sender.name == name)
    }

    fn restart(&mut self, name: &str) {
        let named = self.producers.iter_mut().find(|producer| producer.sender.name == name);
        named.into_iter().for_each(Producer::restart);
    }

    /// How long after it was owed it came, ns.
    fn take(&mut self, at: usize, points: &Points, now_ns: i64) -> Result<i64, Refused> {
        self.producers[at].count_message(now_ns)?;
        let joints = self.check(points)?;
        self.follow_robot()?;
        let lease_ns = nanoseconds(self.settings.hold_over_s + self.settings.lease_s, 1e9);
        if now_ns.saturating_sub(self.producers[at].newest_ns) > lease_ns {
            // It may have been started again, and counts from 1.
            self.producers[at].restart();
        }
        let claim = self.producers[at].claim(at);
        let held = |place: usize| Refused::Held(self.producers[place].sender.name.clone());
        self.lease.check(claim, now_ns).map_err(held)?;
        self.producers[at].check_order(points)?;
        let takes_over = self.lease.holder() != Some(at);
        let follows_at_once = self.settings.latest && points.is_single();
        let learned_ns = self.producers[at].delay_ns(points, now_ns, self.settings.smooth);
        let delay_ns = if follows_at_once { 0 } else { learned_ns };
        self.check_times(at, points, delay_ns, now_ns)?;
        if takes_over {
            self.check_aligned(&joints, points)?;
        }
        for (column, joint) in joints.into_iter().enumerate() {
            self.lay(at, joint, column, points, delay_ns, takes_over, now_ns);
        }
        let overdue_ns = self.overdue_ns(at, points, now_ns);
        self.producers[at].lateness.saw(overdue_ns);
        self.producers[at].note(points);
        (self.plan.is_expected, self.plan.hold_until_ns) = (true, i64::MIN);
        // Also what is followed at once is on time until the next one is due.
        self.plan.end_ns = points.last_ns() + learned_ns;
        self.lease.take(claim, self.plan.end_ns.saturating_add(lease_ns));
        self.publish();
        Ok(overdue_ns)
    }

    /// How long after it was owed it came, ns. A program that takes control owed nothing.
    fn overdue_ns(&self, at: usize, points: &Points, now_ns: i64) -> i64 {
        let owed = (self.lease.holder() == Some(at)).then(|| self.plan.owed_ns());
        let due = points.is_single().then(|| points.first_ns());
        owed.into_iter().chain(due).map(|due_ns| now_ns.saturating_sub(due_ns)).fold(0, i64::max)
    }

    /// The places of its joints.
    fn check(&self, points: &Points) -> Result<Vec<usize>, Refused> {
        let place = |name: &String| {
            let found = self.joints.iter().position(|joint| joint.name == *name);
            found.ok_or_else(|| Refused::Invalid(format!("there is no joint `{name}`")))
        };
        let joints: Vec<usize> = match points.joints.is_empty() {
            true => (0..self.joints.len()).collect(),
            false => points.joints.iter().map(place).collect::<Result<_, _>>()?,
        };
        let twice = joints.iter().enumerate().find(|(at, joint)| joints[..*at].contains(joint));
        if let Some((_, &joint)) = twice {
            return Err(Refused::Invalid(format!("the joint `{}` is there twice", self.joints[joint].name)));
        }
        points.check(joints.len()).map_err(Refused::Invalid)?;
        let asks = |column: usize| points.torque.iter().any(|row| row[column] != 0.0);
        let unlimited =
            |&(column, &joint): &(usize, &usize)| self.joints[joint].torque == f64::INFINITY && asks(column);
        if let Some((_, &joint)) = joints.iter().enumerate().find(unlimited) {
            let name = &self.joints[joint].name;
            return Err(Refused::Invalid(format!(
                "`torque` needs `limits.torque` of `{name}` in the robot file"
            )));
        }
        Ok(joints)
    }

    /// Nothing from before a start is kept over it.
    fn follow_robot(&mut self) -> Result<(), Refused> {
        let is_active = self.console.as_ref().is_none_or(|console| console.seen().1 == Phase::Active);
        let (epoch, is_steered) = self.status.as_mut().map_or((0, false), |status| {
            let status = status.read();
            (status.epoch, status.is_steered)
        });
        if !is_active || epoch == 0 {
            return Err(Refused::NotActive);
        }
        if epoch != self.plan.epoch {
            let generation = self.plan.generation;
            self.plan = Plan { epoch, generation, ..Plan::default() };
            self.lease.release();
        }
        match is_steered {
            true => Err(Refused::Held(OPERATOR.to_owned())),
            false => Ok(()),
        }
    }

    /// A program that takes control begins where the robot is, if that is wanted.
    fn check_aligned(&mut self, joints: &[usize], points: &Points) -> Result<(), Refused> {
        let Some((most, status)) = self.settings.align_rad.zip(self.status.as_mut()) else { return Ok(()) };
        let status = status.read();
        let led = |joint: usize| status.target[joint] + status.offset[joint];
        let is_near = |(&joint, position): (&usize, &f64)| (led(joint) - position).abs() <= most;
        match joints.iter().zip(&points.position[0]).all(is_near) {
            true => Ok(()),
            false => Err(Refused::Apart),
        }
    }

    fn check_times(&self, at: usize, points: &Points, delay_ns: i64, now_ns: i64) -> Result<(), Refused> {
        let horizon_ns = nanoseconds(self.settings.horizon_s, 1e9);
        let ahead_ns = [points.first_ns(), points.last_ns()].map(|at_ns| at_ns.saturating_sub(now_ns));
        if ahead_ns[0] > horizon_ns || ahead_ns[1] > horizon_ns.max(LONGEST_NS) {
            return Err(Refused::Future);
        }
        let past_ns = now_ns.saturating_sub(points.last_ns().saturating_add(delay_ns));
        let is_newer = points.last_ns() > self.producers[at].newest_ns;
        // What would be silence at once is nothing to follow: its times are wrong.
        let most_ns = nanoseconds(self.settings.silent_s.max(self.settings.hold_over_s), 1e9);
        match past_ns > 0 && !is_newer || past_ns > most_ns {
            true => Err(Refused::Late),
            false => Ok(()),
        }
    }

    /// Puts the points of a joint into its curve.
    #[expect(clippy::too_many_arguments, reason = "what one message says of one joint")]
    fn lay(
        &mut self,
        at: usize,
        joint: usize,
        column: usize,
        points: &Points,
        delay_ns: i64,
        takes_over: bool,
        now_ns: i64,
    ) {
        let targets = &self.joints[joint];
        self.plan.curves.resize_with(self.joints.len(), Curve::default);
        let curve = &mut self.plan.curves[joint];
        let delay_ns = if points.is_single() { delay_ns } else { -targets.lead_ns };
        // A program that sends no gains does not know that another one took them away.
        let former = curve
            .0
            .last()
            .map(|last| Knot { gains: if takes_over { [1.0; 2] } else { last.gains }, ..*last });
        let mut knots = Vec::with_capacity(points.at_ns.len());
        for row in 0..points.at_ns.len() {
            let before = knots.last().or(former.as_ref());
            let (knot, is_clamped) = targets.knot(points, row, column, delay_ns, before);
            knots.push(knot);
            self.producers[at].counts.clamped += u64::from(is_clamped);
        }
        let laying = Laying {
            shape: self.settings.shape(),
            replaced: if takes_over { self.settings.taken_over() } else { self.settings.replaced() },
            resumed: self.settings.resumed(),
            piece: self.pieces + 1,
            bounds: Bounds {
                velocity: targets.velocity,
                acceleration: targets.acceleration,
                is_stream: points.is_single(),
            },
            is_same: self.producers[at].is_same(points),
            now_ns,
        };
        self.pieces += 1;
        match knots[..] {
            [knot] if self.settings.latest => laying.jog(curve, knot, takes_over),
            [knot] => laying.append(curve, knot, takes_over),
            _ => laying.replace(curve, knots),
        }
        curve.forget(now_ns - REMEMBERED_NS);
    }

    fn publish(&mut self) {
        self.plan.generation += 1;
        self.loop_end.value().clone_from(&self.plan);
        self.loop_end.publish();
    }
}
