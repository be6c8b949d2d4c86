//! One tick of the whole machine: cycle, supervisor, controller.

use crate::buses::Buses;
use crate::console::Console;
use crate::controller::{Beside, ControlError, Controller, Decision};
use crate::cycle::{Cycle, CycleResult, Paced};
use crate::feed::Feed;
use crate::operator::Heartbeat;
use crate::parameters::{Intake, Taken};
use crate::ready::{self, NotReady};
use crate::requests;
use crate::state::{RobotState, Signal};
use crate::steer::{Input, SteeringReceiver};
use crate::supervisor::{self, Cause, ControllerTurn, Observation, Phase, Supervisor, Transitions};
use crate::time::Time;
use khz_link::Link;
use khz_rt::SectionSummary;
use khz_rt::panics::{self, Panic};
use khz_servo::ServoCommand;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Encoding takes no longer, as a rule, ns: what it takes beyond that moves the bus deadline.
const ENCODING_NS: i64 = 20_000;

/// When each part of a tick was done. All in ns of the loop's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickTiming {
    /// The planned time it ran for: of those passed, the latest.
    pub planned_ns: i64,
    /// The time the loop waited for. After a late wake that is before `planned_ns`.
    pub waited_for_ns: i64,
    /// The first planned time that no earlier tick ran for.
    pub due_ns: i64,
    /// When the loop began to wait: the tick before was over and handed to the observers.
    pub ready_ns: i64,
    /// When it started: the loop woke.
    pub started_ns: i64,
    /// Commands are encoded.
    pub encoded_ns: i64,
    /// Every bus has its frames, as far as they were taken at once; the IMU is asked.
    pub sent_ns: i64,
    /// The last reply is in, or the deadline has passed.
    pub collected_ns: i64,
    /// Of collecting, time in which only the IMU was still outstanding.
    pub imu_ns: i64,
    /// The supervisor has decided and the controller has computed the next commands.
    pub decided_ns: i64,
    /// Of that, time spent in the controller.
    pub control_ns: i64,
    /// Handing the tick *before* to the observers: recorder, statistics, live view.
    pub record_ns: i64,
    /// Loop compute time by the clock: encoding, decoding, state, supervisor, and `record_ns`. Neither links nor
    /// controller. Includes time another thread had the CPU meanwhile.
    pub own_ns: i64,
    /// The robot was controlled: this tick and the one before began in phase active. The figures of a run are of these
    /// ticks; what the first active tick waited for was part of the start-up.
    pub controlled: bool,
    /// The controller computed commands in this tick.
    pub controller_ran: bool,
}

impl TickTiming {
    /// A tick that starts now, at `started_ns`, without having waited for anything but its planned time.
    pub const fn at(planned_ns: i64, started_ns: i64) -> Self {
        Self {
            planned_ns,
            waited_for_ns: planned_ns,
            due_ns: planned_ns,
            ready_ns: planned_ns,
            started_ns,
            encoded_ns: 0,
            sent_ns: 0,
            collected_ns: 0,
            imu_ns: 0,
            decided_ns: 0,
            control_ns: 0,
            record_ns: 0,
            own_ns: 0,
            controlled: false,
            controller_ran: false,
        }
    }

    /// How late the tick started, from the time the loop waited for.
    pub const fn wake_latency_ns(&self) -> i64 {
        self.started_ns - self.waited_for_ns
    }

    /// Of the wake latency, what had passed when the loop began to wait: the tick before was not over.
    pub fn previous_ns(&self) -> i64 {
        (self.ready_ns - self.waited_for_ns).clamp(0, self.wake_latency_ns().max(0))
    }
}

/// Why a controller gave up.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a box for the panic would be allocated within the tick")]
pub enum Failure {
    /// It returned this.
    Error(ControlError),
    /// It panicked.
    Panic(Panic),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Panic(panic) => panic.fmt(f),
        }
    }
}

/// How many failures of a controller are kept.
const FAILURES: usize = 8;

/// A cause, and the error text of a controller that gave up.
struct Explained<'a, C> {
    cause: C,
    error: Option<&'a Failure>,
}

impl<C: fmt::Display> fmt::Display for Explained<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        self.error.map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}

/// A robot with everything a tick needs. See [`crate::run`] for the loop around it.
pub struct Machine {
    links: Vec<Box<dyn Link>>,
    /// What people call them.
    buses: Buses,
    cycle: Cycle,
    supervisor: Supervisor,
    controller: Box<dyn Controller>,
    state: RobotState,
    commands: Vec<ServoCommand>,
    bus_deadline_ns: i64,
    /// The last tick ended after the next one should have started.
    late: bool,
    /// What the last tick spent in the controller, or the controller elsewhere.
    control_ns: i64,
    /// Of that, what its thread waited for a CPU, where it is known.
    control_waited_ns: i64,
    /// Where a controller on its own thread stood in the last tick in which it was to decide.
    beside: Option<Beside>,
    /// The last tick began in phase active.
    was_active: bool,
    /// The operator, if one is expected.
    heartbeat: Option<Heartbeat>,
    /// What the controller is fed with from outside, if that is to be watched.
    feed: Option<Feed>,
    /// Changes of the controller's parameters.
    intake: Option<Intake>,
    /// Inputs of a person who steers.
    receiver: Option<SteeringReceiver>,
    /// Who looks at it from beside the loop.
    console: Option<Arc<Console>>,
    /// The controller has done what it was to do.
    is_finished: bool,
    /// Why the controller gave up, and in which tick: again and again, of a robot that is armed again.
    failures: Vec<(u64, Failure)>,
    /// Memory for its panic message.
    panic: Panic,
    result: CycleResult,
    transitions: Transitions,
}

impl Machine {
    /// Puts the parts together. `bus_deadline_ns`: how long after its start a tick's bus cycle ends at the
    /// latest; where encoding took more than 20 µs, by so much later, and by half of the rest of the period at most.
    pub fn new(
        links: Vec<Box<dyn Link>>,
        cycle: Cycle,
        supervisor: Supervisor,
        controller: Box<dyn Controller>,
        state: RobotState,
        bus_deadline_ns: i64,
    ) -> Self {
        let commands = vec![ServoCommand::Stop; state.servos.len()];
        // Here, because it allocates.
        panics::install();
        Self {
            links,
            buses: Buses::default(),
            cycle,
            supervisor,
            controller,
            state,
            commands,
            bus_deadline_ns,
            late: false,
            control_ns: 0,
            control_waited_ns: 0,
            beside: None,
            was_active: false,
            heartbeat: None,
            feed: None,
            intake: None,
            receiver: None,
            console: None,
            is_finished: false,
            failures: Vec::with_capacity(FAILURES),
            panic: Panic::new(),
            result: CycleResult::default(),
            transitions: Transitions::new(),
        }
    }

    /// Makes every servo ready, as its family needs it; before the first tick. May wait, and allocates.
    ///
    /// # Errors
    /// A servo that must not be driven, or whose bus takes longer than a cycle has. Every servo was commanded to switch off.
    pub fn make_ready(&mut self, time: &mut impl Time) -> Result<(), NotReady> {
        self.make_ready_telling(time, &mut |_| {}, &AtomicBool::new(false)).map(drop)
    }

    /// The same; `note` gets what people at the robot must know meanwhile, and `stop` is set by those that want no run any more. False: it was
    /// set while servos that were found on were let down, and the run is not to begin.
    ///
    /// # Errors
    /// As [`Machine::make_ready`].
    pub fn make_ready_telling(
        &mut self,
        time: &mut impl Time,
        note: &mut dyn FnMut(String),
        stop: &AtomicBool,
    ) -> Result<bool, NotReady> {
        let settings = self.supervisor.settings();
        let made = ready::make_ready(&mut self.links, &mut self.cycle, settings, time, note, stop)?;
        let Some(soonest_ns) = made else { return Ok(false) };
        ready::answers_in_time(&self.cycle, &soonest_ns, self.bus_deadline_ns).map(|()| true)
    }

    /// Runs one tick that was planned for `planned_ns`. `stop` asks the supervisor to bring the robot down.
    ///
    /// Neither allocates nor locks nor prints, unless the controller does; waits only through `time`, and never
    /// beyond the bus deadline.
    pub fn tick(&mut self, time: &mut impl Time, planned_ns: i64, stop: Option<Cause>) -> TickTiming {
        let started_ns = time.now_ns();
        self.tick_started(time, TickTiming::at(planned_ns, started_ns), stop)
    }

    /// As [`Machine::tick`], for a loop that knows when the tick started and what it waited for: `timing` has its fields up
    /// to `started_ns`.
    pub fn tick_started(
        &mut self,
        time: &mut impl Time,
        mut timing: TickTiming,
        stop: Option<Cause>,
    ) -> TickTiming {
        self.look(time, &mut timing, stop);
        self.act(time, &mut timing);
        timing
    }

    /// The first part of a tick: everything up to the controller, which [`Machine::act`] calls with the state as it is now.
    pub(crate) fn look(&mut self, time: &mut impl Time, timing: &mut TickTiming, stop: Option<Cause>) {
        let active = self.supervisor.phase() == Phase::Active;
        timing.controlled = active && std::mem::replace(&mut self.was_active, active);
        if supervisor::is_outdated(timing.started_ns - self.state.now_ns, self.state.period_ns) {
            self.supervisor.hold_back(&mut self.commands, &self.state);
        }
        self.encode(time, timing);
        self.cycle.send(&mut self.links, timing.encoded_ns);
        timing.sent_ns = time.now_ns();
        self.collect(time, timing);
        time.collected();
        self.judge(timing, stop);
    }

    /// A tick that sends `commands`, without supervisor and controller: for recorded commands and simulated servos.
    ///
    /// # Panics
    /// If there is not one command per servo.
    pub fn play(&mut self, time: &mut impl Time, planned_ns: i64, commands: &[ServoCommand]) {
        self.commands.copy_from_slice(commands);
        let mut timing = TickTiming::at(planned_ns, time.now_ns());
        self.encode(time, &mut timing);
        self.cycle.send(&mut self.links, timing.encoded_ns);
        self.collect(time, &mut timing);
        self.result = self.cycle.end(&mut self.state);
        self.state.now_ns = timing.collected_ns;
        self.state.tick += 1;
    }

    /// Waits until frames that pace the loop have come, or until `until_ns`. Other frames of its link that come
    /// meanwhile answer older queries.
    ///
    /// As bound as [`Machine::tick`].
    pub fn wait_for_frame(&mut self, time: &mut impl Time, until_ns: i64) -> Option<Paced> {
        loop {
            let now_ns = time.now_ns();
            let (link, paced) = self.cycle.receive_pace(&mut self.links, &mut self.state, now_ns);
            if !paced.at_ns.is_empty() {
                return Some(paced);
            }
            if now_ns >= until_ns {
                return None;
            }
            let events = link.iter().filter_map(|link| link.next_event_ns());
            time.rest(events.fold(until_ns, i64::min), link);
        }
    }

    fn encode(&mut self, time: &mut impl Time, timing: &mut TickTiming) {
        // What arrived since the last cycle answers an older query.
        self.cycle.receive(&mut self.links, timing.started_ns);
        let drained_ns = time.now_ns();
        self.cycle.take_in(&mut self.state);
        self.cycle.begin(&self.commands, self.last_look_ns(time, timing));
        timing.encoded_ns = time.now_ns();
        self.cycle.count_until(self.last_look_ns(time, timing));
        timing.own_ns = timing.encoded_ns - drained_ns;
    }

    /// Until when replies count. Servos are not to be blamed for a computer that took long to encode: they have as much longer, up
    /// to half of what the deadline leaves of the period.
    fn last_look_ns(&self, time: &impl Time, timing: &TickTiming) -> i64 {
        let spare_ns = (self.state.period_ns - self.bus_deadline_ns).max(0) / 2;
        let late_ns = (timing.encoded_ns - timing.started_ns - ENCODING_NS).clamp(0, spare_ns);
        timing.started_ns + self.bus_deadline_ns + late_ns - time.reserve_ns()
    }

    fn collect(&mut self, time: &mut impl Time, timing: &mut TickTiming) {
        let last_look_ns = self.last_look_ns(time, timing);
        let mut imu_from_ns = None;
        loop {
            let now_ns = time.now_ns();
            let received = self.cycle.receive(&mut self.links, now_ns);
            self.cycle.receive_imu(&mut self.links, &mut self.state, now_ns);
            if received > 0 {
                let from_ns = time.now_ns();
                self.cycle.take_in(&mut self.state);
                timing.own_ns += time.now_ns() - from_ns;
            }
            if self.cycle.is_complete() || now_ns >= last_look_ns {
                break;
            }
            if self.cycle.has_every_reply() {
                imu_from_ns.get_or_insert(now_ns);
            }
            self.cycle.time_out(now_ns);
            self.cycle.send(&mut self.links, time.now_ns());
            let next_ns = self.cycle.next_ns(&self.links);
            time.pass(next_ns, &self.links);
        }
        timing.collected_ns = time.now_ns();
        timing.imu_ns = imu_from_ns.map_or(0, |from_ns| timing.collected_ns - from_ns);
    }

    /// What came of the cycle goes into the state, and the supervisor looks at it.
    fn judge(&mut self, timing: &TickTiming, stop: Option<Cause>) {
        self.result = self.cycle.end(&mut self.state);
        self.state.elapsed_ns = match self.state.tick {
            0 => self.state.period_ns,
            _ => timing.started_ns - self.state.started_ns,
        };
        let looked_ns = if self.state.tick == 0 { timing.collected_ns } else { self.state.now_ns };
        let held_up_ns = (timing.collected_ns - looked_ns - self.state.period_ns).max(0);
        self.state.planned_ns = timing.planned_ns;
        self.state.started_ns = timing.started_ns;
        self.state.now_ns = timing.collected_ns;
        self.take_requests();
        let overrun = self.state.tick > 0 && self.late;
        let seen = Observation {
            cycle: self.result,
            stop,
            overrun,
            held_up_ns,
            control_ns: self.control_ns,
            control_waited_ns: self.control_waited_ns,
            heartbeat_age_ns: self.heartbeat.as_ref().map(|heartbeat| heartbeat.age_ns(timing.collected_ns)),
            // A controller that has no turn any more expects nothing new.
            targets_silent_ns: self
                .feed
                .as_ref()
                .filter(|_| self.supervisor.phase() == Phase::Active)
                .and_then(|feed| feed.silent_ns(timing.collected_ns)),
        };
        self.supervisor.observe(&self.state, &seen);
    }

    /// The second part of a tick: the controller, and the commands of the next one.
    pub(crate) fn act(&mut self, time: &mut impl Time, timing: &mut TickTiming) {
        let before_ns = time.now_ns();
        timing.controller_ran =
            self.supervisor.phase() == Phase::Active && self.supervisor.turn() == ControllerTurn::Update;
        self.beside = None;
        let (elsewhere_ns, waited_ns) = self.control();
        let after_ns = time.now_ns();
        self.supervisor.govern(&mut self.commands, &self.state);
        self.supervisor.copy_led_to(&mut self.state.led_to);
        if let Some(servos) = self.supervisor.clears() {
            servos.for_each(|servo| self.cycle.clear_timeout(servo));
        }
        self.supervisor.swap_transitions(&mut self.transitions);
        if let Some(console) = &self.console {
            console.show(self.state.tick, self.supervisor.phase());
        }
        self.state.tick += 1;
        timing.decided_ns = time.now_ns();
        self.late = timing.decided_ns > timing.planned_ns + self.state.period_ns;
        timing.control_ns = after_ns - before_ns;
        self.control_ns = timing.control_ns.max(elsewhere_ns);
        self.control_waited_ns = waited_ns;
        timing.own_ns += timing.decided_ns - timing.collected_ns - timing.control_ns;
    }

    /// What people beside the loop ask for: steering, parameters, arming.
    fn take_requests(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            self.state.teleop = receiver.look(self.state.now_ns);
        }
        let now_ns = self.state.now_ns;
        if let Some(intake) = &mut self.intake {
            intake.take(self.state.tick, now_ns, self.supervisor.phase());
            let (signals, tick) = (&mut self.state.signals, self.state.tick);
            intake.signals().for_each(|(place, value)| set_signal(signals, place, value, tick));
        }
        if let Some(decided_ns) = self.console.as_ref().and_then(|console| console.asked_to_arm()) {
            requests::arm(&mut self.supervisor, decided_ns, now_ns);
        }
    }

    /// How long the controller took elsewhere, and waited; see [`Controller::elsewhere_ns`] and [`Controller::waited_ns`].
    fn control(&mut self) -> (i64, i64) {
        let (phase, turn) = (self.supervisor.phase(), self.supervisor.turn());
        let (controller, state, commands) = (&mut self.controller, &self.state, &mut self.commands);
        let (is_finished, beside) = (&mut self.is_finished, &mut self.beside);
        let mut elsewhere = (0, 0);
        let outcome = match phase {
            Phase::Active if turn == ControllerTurn::Update => panics::catch(&mut self.panic, || {
                let outcome = controller.update(state, commands);
                elsewhere = (controller.elsewhere_ns(), controller.waited_ns());
                *beside = controller.beside();
                *is_finished = controller.is_finished();
                outcome
            }),
            Phase::Active if turn != ControllerTurn::Restart => return elsewhere,
            Phase::Armed | Phase::Active => panics::catch(&mut self.panic, || controller.start(state)),
            _ => return elsewhere,
        };
        match outcome {
            Some(Ok(())) if phase == Phase::Armed => self.supervisor.controller_started(&self.state),
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.failed(Failure::Error(error));
                self.supervisor.controller_failed(Cause::ControllerFailed, &self.state);
            }
            None => {
                self.failed(Failure::Panic(self.panic.clone()));
                self.supervisor.controller_failed(Cause::ControllerPanicked, &self.state);
            }
        }
        elsewhere
    }

    fn failed(&mut self, failure: Failure) {
        if self.failures.len() == FAILURES {
            self.failures.remove(0);
        }
        self.failures.push((self.state.tick, failure));
    }

    /// The state as of the last tick. Its `tick` is the number of the next one.
    pub fn state(&self) -> &RobotState {
        &self.state
    }

    /// The commands the next tick will send.
    pub fn commands(&self) -> &[ServoCommand] {
        &self.commands
    }

    /// What came of the last tick's cycle.
    pub fn result(&self) -> &CycleResult {
        &self.result
    }

    /// The last tick's changes of phase, oldest first.
    pub fn transitions(&self) -> &Transitions {
        &self.transitions
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        self.supervisor.phase()
    }

    /// The controller has done what it was to do, as of its last update: see [`Controller::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The robot is at rest and the servos have been commanded to stop.
    pub fn is_settled(&self) -> bool {
        self.supervisor.is_settled()
    }

    /// The supervisor, for its state and messages.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Where a controller on its own thread stood in this tick; `None`: it has none, or was not to decide.
    pub fn beside(&self) -> Option<Beside> {
        self.beside
    }

    /// The decision that is followed from this tick on, if the controller decides less often than the loop ticks.
    pub fn decided(&self) -> Option<&Decision> {
        self.controller.decided().filter(|decided| decided.begins_in(self.state.tick.wrapping_sub(1)))
    }

    /// Asks to arm: from idle, or from rest to begin again from measured positions, with the grace of a start. For
    /// loops of your own around [`Machine::tick`]: [`crate::run::run`] ends at rest. Ignored in other phases.
    pub fn arm(&mut self) {
        self.supervisor.arm();
    }

    /// From now on a loop that is held up is only warned of; see [`Supervisor::forgive_hold_ups`].
    pub fn forgive_hold_ups(&mut self) {
        self.supervisor.forgive_hold_ups();
    }

    /// From now on the operator's heartbeats are required, as set for the supervisor.
    pub fn expect(&mut self, operator: Heartbeat) {
        self.heartbeat = Some(operator);
    }

    /// From now on silence of what feeds the controller is a trigger.
    pub fn watch_feed(&mut self, feed: Feed) {
        self.feed = Some(feed);
    }

    /// From now on changes of the controller's parameters are taken.
    pub fn tune(&mut self, intake: Intake) {
        self.intake = Some(intake);
    }

    /// A signal as of this tick, without a parameter of it being changed: for who learns in the place of a controller.
    pub fn signal(&mut self, place: usize, value: f64) {
        set_signal(&mut self.state.signals, place, value, self.state.tick);
    }

    /// From now on the state has what a person steering asks for.
    pub fn steer(&mut self, receiver: SteeringReceiver) {
        self.receiver = Some(receiver);
    }

    /// From now on it shows tick and phase there, and can be asked to arm.
    pub fn attend(&mut self, console: Arc<Console>) {
        self.console = Some(console);
    }

    /// Changes of parameters that the last tick has taken.
    pub fn changes(&self) -> &[Taken] {
        self.intake.as_ref().map_or(&[], Intake::taken)
    }

    /// The input that the last tick has taken, if it was a new one.
    pub fn input(&self) -> Option<&Input> {
        self.receiver.as_ref()?.news()
    }

    /// Why the controller gave up the last time, if it did. A panic is reported here only: nothing is printed within a tick, because
    /// printing may never return.
    pub fn failure(&self) -> Option<&Failure> {
        self.failures.last().map(|(_, failure)| failure)
    }

    /// From now on causes name its buses.
    pub fn name_buses(&mut self, buses: Buses) {
        self.buses = buses;
    }

    /// Its buses, if they have names.
    pub fn buses(&self) -> &Buses {
        &self.buses
    }

    /// A cause for people, who know buses; for a controller that gave up, with its error text, in this tick or the last time. Allocates
    /// nothing.
    pub fn explained(&self, cause: Cause, tick: Option<u64>) -> impl fmt::Display {
        let is_its_own = matches!(cause, Cause::ControllerFailed | Cause::ControllerPanicked);
        let mut failures =
            self.failures.iter().rev().filter(|(in_tick, _)| tick.is_none_or(|tick| tick == *in_tick));
        Explained {
            cause: self.buses.narrowed(cause, &self.links).named(&self.buses.names),
            error: failures.next().filter(|_| is_its_own).map(|(_, failure)| failure),
        }
    }

    /// Where the controller's time went; asked once, after the run.
    pub fn controller_profile(&mut self) -> Vec<SectionSummary> {
        // A controller that panicked may not be in a state to report it.
        panics::catch(&mut Panic::new(), || self.controller.profile()).unwrap_or_default()
    }

    /// The cycle, for its counts.
    pub fn cycle(&self) -> &Cycle {
        &self.cycle
    }

    /// After the last tick: has the links drop what they did not hand over, and returns in lines for people what may still
    /// reach the servos. Not for the loop: allocates, and may wait some milliseconds.
    pub fn close_links(&mut self, now_ns: i64) -> Vec<String> {
        // Pending requests are answered as not taken.
        self.intake = None;
        self.links.iter_mut().flat_map(|link| link.close(now_ns)).collect()
    }

    /// The links, for their counters.
    pub fn links(&self) -> &[Box<dyn Link>] {
        &self.links
    }
}

/// A place that there is not is left out: who declares signals has checked their number.
fn set_signal(signals: &mut [Signal], place: usize, value: f64, tick: u64) {
    if let Some(signal) = signals.get_mut(place) {
        *signal = Signal { value, tick: Some(tick) };
    }
}
