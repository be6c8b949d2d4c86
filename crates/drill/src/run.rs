//! One run of a campaign: a scenario is played, and everything that must hold is checked on the way.

use super::defect::Defect;
use super::disk::Recording;
use super::explain::{self, ARMS_MS, longest_watchdog_s};
use super::faulty_controller::{self, ControllerFaults, FaultyController};
use super::fleet::{Fleet, ScenarioRobot, Span};
use super::line::Gate;
use super::monitor::{Monitor, lock};
use super::paced;
use super::prints;
use super::rig::{Rig, Set};
use super::scenario::{Event, Fault, Queue, Scenario, is_unwatched};
use super::violation::{Invariant, Violated};
use khz_emu::PUSH_S;
use khz_emu::injection::{Injection, Refused};
use khz_emu::noise::Noise;
use khz_file::RobotConfig;
use khz_link::faults::{Direction, Fault as WireFault, FaultEffect};
use khz_loop::parameters::{Intake, LiveParameters};
use khz_loop::supervisor::{Cause, Phase, Transition};
use khz_loop::time::VirtualTime;
use khz_loop::timing::Clock;
use khz_loop::{Controller, Doing};
use std::sync::{Arc, Mutex};

/// A robot that must come down leaves control within this many ticks.
const ANSWER_TICKS: u64 = 60;
/// Or within this time, if that is longer.
const ANSWER_S: f64 = 0.07;
/// A robot whose joint is beyond its limits, or too fast, leaves control within this many ticks.
const SEEN_TICKS: u32 = 10;
/// A servo on a bus that is not flooded replies at least once in this many ticks.
const STARVED_TICKS: u32 = 8;
/// A servo takes this long to switch its output on, at most.
const SWITCHED_ON_S: f64 = 0.03;
/// The operator asks to arm at this interval; each request arrives twice, this far apart, ns.
const ASKS_NS: i64 = 100_000_000;
const TWICE_NS: i64 = 50_000_000;
/// One without a limit of torque is pushed by at most this, rad/s².
const PUSHED: f64 = 250.0;

/// What came of one run.
#[derive(Default)]
pub struct Verdict {
    pub violated: Option<Violated>,
    pub brought_down: bool,
    pub armed: bool,
    /// It went on after a stall in which servos had timed out.
    pub recovered: bool,
    /// Why the last change of phase.
    pub last: Option<Cause>,
    pub reaction_ns: Option<i64>,
    /// One tick and the bus cycle.
    pub allowed_ns: i64,
    /// Highest speed at which a joint was driven, as a share of what is allowed.
    pub peak_speed: f64,
}

/// Plays a scenario, with a defect.
pub fn run(fleet: &Fleet, scenario: &Scenario, defect: &dyn Defect) -> Verdict {
    let robot = ScenarioRobot::new(fleet, scenario, defect);
    if let Some(percent) = scenario.paced() {
        let violated = paced::check(&robot, scenario, percent, defect).err();
        return Verdict { violated, armed: true, ..Verdict::default() };
    }
    prints::take_prints();
    let span = fleet.members[scenario.robot.0].span(robot.file.timing.rate_hz);
    match Run::new(robot, span, scenario, defect) {
        Ok(run) => run.judge(),
        Err(what) => {
            Verdict { violated: Some(Violated { invariant: Invariant::Panics, what }), ..Verdict::default() }
        }
    }
}

/// Faults of the wires run by script; their time begins with the first call of the link.
fn on_wire(event: &Event, robot: &RobotConfig) -> Option<WireFault> {
    let period_ns = robot.timing.period_ns();
    let from_ns = event.tick as i64 * period_ns;
    let late = |kind| WireFault { direction: Direction::FromDevices, ..WireFault::new(kind) };
    let (bus, fault) = match event.fault {
        Fault::BusDead(bus) => (bus, WireFault::new(FaultEffect::BusOff)),
        Fault::BusNoisy(bus, percent) => {
            // The checksum of the frame finds the damage; what is left of it is a loss.
            (bus, WireFault { probability: f64::from(percent) * 0.01, ..WireFault::new(FaultEffect::Loss) })
        }
        Fault::BusSlow(bus, us) => (bus, late(FaultEffect::Delay { ns: 0, jitter_ns: i64::from(us) * 1000 })),
        Fault::BusLate(bus, ticks) => {
            (bus, late(FaultEffect::Delay { ns: i64::from(ticks) * period_ns, jitter_ns: 0 }))
        }
        _ => return None,
    };
    Some(WireFault { from_ns, channel: Some(bus as u8), ..fault })
}

/// One run under way.
struct Run<'a> {
    robot: ScenarioRobot,
    span: Span,
    scenario: &'a Scenario,
    rig: Rig,
    controller_faults: Arc<ControllerFaults>,
    parameters: LiveParameters,
    dice: Noise,
    monitor: Arc<Mutex<Monitor>>,
    /// Only where the disk fills.
    recording: Option<Recording>,
    defect: &'a dyn Defect,
    log: Vec<Transition>,
    tick: u64,
    /// For how many more ticks they start late.
    late: u32,
    /// What ends, and when.
    later: Vec<(u64, Later)>,
    /// Requests to arm: when the next is made, when those that have come were made, and of those that are to come, when, and when made.
    asks_ns: i64,
    came_of_ns: Vec<i64>,
    to_come_ns: Vec<[i64; 2]>,
    /// When the robot came under control.
    active_since: u64,
    /// The longest bus cycle in which every servo replied, before anything went wrong.
    cycle_ns: i64,
    /// By servo: ticks in a row without a reply of one that is on another bus than a flood.
    starved: Vec<u32>,
}

/// The end of a fault.
#[derive(Clone, Copy)]
enum Later {
    PowerOn,
    Open(usize),
    LetGo(usize),
}

impl<'a> Run<'a> {
    fn new(
        robot: ScenarioRobot,
        span: Span,
        scenario: &'a Scenario,
        defect: &'a dyn Defect,
    ) -> Result<Self, String> {
        let (controller_faults, time) = (Arc::new(ControllerFaults::default()), VirtualTime::new(0));
        let monitor = Arc::new(Mutex::new(Monitor::new(&robot, scenario)));
        let controller: Box<dyn Controller> = Box::new(FaultyController {
            inner: faulty_controller::controller(scenario.style, &robot.file),
            faults: Arc::clone(&controller_faults),
            monitor: Arc::clone(&monitor),
            time: time.clone(),
            own_stop: defect.own_stop(),
            prints_panics: defect.prints_panics(),
        });
        let faults: Vec<_> = scenario.events.iter().filter_map(|event| on_wire(event, &robot.file)).collect();
        let fills = scenario.faults().any(|fault| fault == Fault::DiskFull);
        let recording = fills.then(|| Recording::start(&robot.file)).transpose();
        let world = robot.world().map_err(|error| error.to_string())?;
        let recording = recording.map_err(|error| error.to_string())?;
        let (config, supervised) = (&robot.file, &robot.supervised);
        let set = Set { world, config, supervised, monitor: Some(Arc::clone(&monitor)), defect };
        let (intake, parameters) = Intake::new(controller.parameters(), Clock::Virtual);
        let mut rig = Rig::on(set, controller, &faults, time);
        rig.machine.tune(intake);
        let starved = vec![0; robot.file.servos.len()];
        Ok(Self {
            robot,
            span,
            scenario,
            rig,
            controller_faults,
            parameters,
            dice: Noise::new(scenario.seed),
            monitor,
            recording,
            defect,
            log: Vec::new(),
            tick: 0,
            late: 0,
            later: Vec::with_capacity(4),
            asks_ns: 0,
            came_of_ns: Vec::new(),
            to_come_ns: Vec::new(),
            active_since: 0,
            cycle_ns: 0,
            starved,
        })
    }

    fn judge(mut self) -> Verdict {
        let violated = self.go().err();
        let unwritten = self.recording.take().and_then(|recording| recording.finish().err());
        let unwritten = unwritten.map(|what| Violated { invariant: Invariant::Recording, what });
        let left = |transition: &Transition| {
            transition.from == Phase::Active
                && transition.to != Phase::Active
                && transition.cause.is_trouble()
        };
        let timing = &self.robot.file.timing;
        let allowed_ns = timing.period_ns() + timing.bus_deadline_ns();
        let clean = self.scenario.faults().all(|fault| !fault.disturbs_the_wire());
        let reaction_ns = self.rig.stage().wire.reaction_ns().filter(|_| clean);
        let slow = reaction_ns.filter(|&ns| ns > allowed_ns).map(|ns| Violated {
            invariant: Invariant::Reaction,
            what: format!("a fault was answered only after {} µs", ns / 1000),
        });
        Verdict {
            violated: violated.or(slow).or(unwritten),
            brought_down: self.log.iter().any(left),
            last: self.log.last().map(|transition| transition.cause),
            armed: self.log.iter().any(|transition| transition.to == Phase::Active),
            recovered: self.log.iter().any(|it| matches!(it.cause, Cause::Recovered { .. })),
            reaction_ns,
            allowed_ns,
            peak_speed: lock(&self.monitor).peak_speed,
        }
    }

    fn go(&mut self) -> Result<(), Violated> {
        if !self.rig.is_ready {
            return Ok(());
        }
        let mut late_us = 0;
        while self.tick < self.longest() && !self.rig.machine.is_settled() {
            let (scenario, tick) = (self.scenario, self.tick);
            self.finish_faults();
            self.shake_contacts();
            self.move_parameters();
            self.ask_to_arm();
            let happens = |event: &&Event| (event.tick..event.tick + event.fault.slices()).contains(&tick);
            for event in scenario.events.iter().filter(happens) {
                match event.fault {
                    Fault::HostKilled => return self.host_is_gone(),
                    Fault::HostStopped(ms) => self.rig.freeze(i64::from(ms) * 1_000_000),
                    Fault::HostLate(us) => (late_us, self.late) = (us, 30),
                    fault => self.begin(fault),
                }
            }
            let late_ns = if self.late > 0 { i64::from(late_us) * 1000 } else { 0 };
            self.late = self.late.saturating_sub(1);
            let timing = self.rig.tick(self.stop(), late_ns);
            let later = |event: &Event| event.tick > tick || event.fault.is_from_the_start();
            let undisturbed = scenario.events.iter().all(later);
            if undisturbed && self.rig.machine.result().missed == 0 {
                self.cycle_ns = self.cycle_ns.max(timing.collected_ns - timing.started_ns);
            }
            self.recording.iter_mut().for_each(|recording| recording.tick(tick, timing, &self.rig.machine));
            self.check_step()?;
            self.tick += 1;
        }
        self.check_end()
    }

    fn stop(&self) -> Option<Cause> {
        // One that lost replies between its start and arming waits for them in idle.
        let waits = matches!(self.rig.machine.phase(), Phase::Idle | Phase::Active);
        let over = self.tick >= self.span.over && waits;
        match self.controller_faults.has(faulty_controller::OPERATOR) {
            true => Some(Cause::OperatorStop),
            false => over.then_some(Cause::TimeOver),
        }
    }

    fn begin(&mut self, fault: Fault) {
        if let Some((servo, injection)) = fault.injection() {
            let now_ns = self.rig.now_ns();
            self.rig.stage().world.inject(servo, injection, now_ns);
        }
        let ms = |ms: u16| i64::from(ms) * 1_000_000;
        match fault {
            Fault::RefusesLimit(servo) => self.refuse_limit(servo),
            Fault::ImuGone => self.rig.stage().world.lose_imu(true),
            Fault::ImuFrozen => self.rig.stage().world.freeze_imu(true),
            Fault::BrownOut(volts) => self.set_supply(f64::from(volts)),
            Fault::Pushed(servo, percent) => self.push(servo, percent),
            Fault::PowerCut(ticks, queue) => self.cut_power(ticks, queue),
            Fault::BusHolds(bus, ticks, queue) => self.hold(bus, ticks, queue),
            Fault::BusFlooded(bus, per_ms) => self.rig.flood(bus, i64::from(per_ms) * 1000),
            Fault::DiskFull => self.recording.iter().for_each(Recording::fill_the_disk),
            Fault::ControllerFreezes(for_ms) => self.controller_faults.freeze(ms(for_ms)),
            Fault::ControllerSlow(us) => self.controller_faults.slow(i64::from(us) * 1_000),
            Fault::ControllerPanics => self.controller_faults.begin(faulty_controller::PANIC),
            Fault::ControllerFails => self.controller_faults.begin(faulty_controller::FAIL),
            Fault::ControllerNan => self.controller_faults.begin(faulty_controller::NAN),
            Fault::ControllerWild => self.controller_faults.begin(faulty_controller::WILD),
            Fault::ControllerHuge => self.controller_faults.begin(faulty_controller::HUGE),
            Fault::ControllerStops(servo) => self.controller_faults.stop(servo),
            Fault::OperatorStop => self.controller_faults.begin(faulty_controller::OPERATOR),
            _ => {}
        }
    }

    fn refuse_limit(&mut self, servo: usize) {
        let now_ns = self.rig.now_ns();
        let refused = Injection::RefuseWrite(Some(Refused::MaxTorque));
        self.rig.stage().world.inject(servo, refused, now_ns);
    }

    fn shake_contacts(&mut self) {
        for fault in self.scenario.faults() {
            if let Fault::LooseContact(bus, ticks) = fault {
                let carries = self.tick.is_multiple_of(u64::from(ticks));
                self.rig.set_gate(bus, if carries { Gate::Open } else { Gate::Lost });
            }
        }
    }

    fn move_parameters(&mut self) {
        let due = |event: &Event| match event.fault {
            Fault::ParametersMoved(every) => {
                self.tick.checked_sub(event.tick).is_some_and(|ticks| ticks.is_multiple_of(every.into()))
            }
            _ => false,
        };
        let list = self.parameters.list();
        if list.is_empty() || !self.scenario.events.iter().any(due) {
            return;
        }
        let parameter = &list[(self.dice.bits() % list.len() as u64) as usize];
        let share = (self.dice.bits() % 1001) as f64 / 1000.0;
        // What is no value of it, such as half a step, is refused, as from a person.
        let _ = self.parameters.set(&parameter.name, parameter.min + share * (parameter.max - parameter.min));
    }

    fn ask_to_arm(&mut self) {
        let Some(late_ns) = self.scenario.asks_late_ns() else { return };
        let now_ns = self.rig.now_ns();
        if now_ns >= self.asks_ns {
            self.asks_ns = now_ns + ASKS_NS;
            self.to_come_ns.extend([late_ns, late_ns + TWICE_NS].map(|after_ns| [now_ns + after_ns, now_ns]));
        }
        while let Some(index) = self.to_come_ns.iter().position(|[at_ns, _]| *at_ns <= now_ns) {
            let [_, made_ns] = self.to_come_ns.swap_remove(index);
            self.came_of_ns.push(made_ns);
            self.rig.ask_to_arm(if self.defect.renews_requests() { now_ns } else { made_ns });
        }
    }

    /// Every request that has come no longer counts.
    fn is_armed_late(&self, transition: &Transition) -> bool {
        let counts = |made_ns: &i64| transition.at_ns - made_ns <= i64::from(ARMS_MS) * 1_000_000;
        let waits = self.scenario.asks_late_ns().is_some();
        transition.to == Phase::Armed && waits && !self.came_of_ns.iter().any(counts)
    }

    fn set_supply(&mut self, volts: f64) {
        let now_ns = self.rig.now_ns();
        let mut stage = self.rig.stage();
        (0..stage.world.servos().len()).for_each(|servo| stage.world.set_supply(servo, volts, now_ns));
    }

    fn push(&mut self, servo: usize, percent: i16) {
        let now_ns = self.rig.now_ns();
        let pushed = &self.robot.file.servos[servo];
        let limit = pushed.limits.torque.unwrap_or(PUSHED * pushed.joint.whole_inertia());
        self.rig.stage().world.push(servo, limit * f64::from(percent) * 0.01, now_ns);
        let ticks = (PUSH_S * self.robot.file.timing.rate_hz) as u64;
        self.later.push((self.tick + ticks, Later::LetGo(servo)));
    }

    fn cut_power(&mut self, ticks: u16, queue: Queue) {
        self.power(false);
        self.later.push((self.tick + u64::from(ticks), Later::PowerOn));
        (0..self.robot.file.buses.len()).for_each(|bus| self.hold(bus, ticks, queue));
    }

    fn power(&mut self, on: bool) {
        let now_ns = self.rig.now_ns();
        let mut stage = self.rig.stage();
        for servo in 0..stage.world.servos().len() {
            if stage.world.servos()[servo].is_powered() != on {
                stage.world.inject(servo, Injection::Power(on), now_ns);
            }
        }
    }

    fn hold(&mut self, bus: usize, ticks: u16, queue: Queue) {
        let gate = match queue {
            Queue::Lost => Gate::Lost,
            Queue::Link if self.defect.keeps_commands() => Gate::Endless,
            Queue::Link => Gate::Link,
            Queue::Kernel => Gate::Kernel(self.robot.file.servos_on(bus).count()),
        };
        self.rig.set_gate(bus, gate);
        self.later.push((self.tick + u64::from(ticks), Later::Open(bus)));
    }

    fn finish_faults(&mut self) {
        let tick = self.tick;
        while let Some(index) = self.later.iter().position(|later| later.0 <= tick) {
            match self.later.swap_remove(index).1 {
                Later::PowerOn => self.power(true),
                // What holds it longer goes on.
                Later::Open(bus) if self.is_held(bus) => {}
                Later::Open(bus) => self.rig.open(bus),
                Later::LetGo(servo) => {
                    let now_ns = self.rig.now_ns();
                    self.rig.stage().world.push(servo, 0.0, now_ns);
                }
            }
        }
    }

    /// Something keeps the bus from carrying frames until a later tick.
    fn is_held(&self, bus: usize) -> bool {
        self.later.iter().any(|(_, later)| matches!(later, Later::Open(held) if *held == bus))
    }

    /// Times of the supervisor count in seconds, faults in ticks.
    fn longest(&self) -> u64 {
        let faster = (self.robot.file.timing.rate_hz / 1000.0).max(1.0);
        (self.span.longest as f64 * faster) as u64
    }

    /// Until when a fault must have led out of control.
    fn answered_by(&self, event: &Event) -> u64 {
        let config = &self.robot.file;
        let ticks = |seconds: f64| (seconds * config.timing.rate_hz) as u64;
        let begun = event.tick.max(self.active_since);
        let start = self.active_since + ticks(config.supervisor.grace_s);
        let begun = if event.fault.has_grace() { begun.max(start) } else { begun };
        // A reading that repeats itself is one that rests, for so long.
        let frozen_ns =
            config.supervisor_settings().imu_frozen_ns().filter(|_| event.fault == Fault::ImuFrozen);
        begun + ANSWER_TICKS.max(ticks(ANSWER_S)) + ticks(frozen_ns.unwrap_or(0) as f64 * 1e-9)
    }

    fn check_step(&mut self) -> Result<(), Violated> {
        if let Some(why) = self.rig.stage().world.body().failed() {
            return Violated::by(Invariant::Body, format!("the simulated body moves no more: {why}"));
        }
        if let Some(violated) = lock(&self.monitor).take() {
            return Err(violated);
        }
        if let Some(beyond) = self.rig.stage().wire.beyond.take() {
            return Violated::by(Invariant::CommandLimits, format!("beyond the limits: {beyond}"));
        }
        for transition in self.rig.machine.transitions() {
            let Transition { from, to, cause, .. } = *transition;
            self.log.push(*transition);
            if from != to && !from.leads_to(to) {
                return Violated::by(Invariant::Graph, format!("no way from {from:?} to {to:?}"));
            }
            if self.is_armed_late(transition) {
                return Violated::by(Invariant::Arming, "the robot was armed by an old request");
            }
            if to == Phase::Active && self.scenario.must_not_arm() {
                return Violated::by(Invariant::Arming, "the robot came under control");
            }
            // A robot that comes down leans, and its joints are where gravity leads them.
            let sinks = from == Phase::Damping && to == from && cause.trigger().is_some_and(explain::moves);
            if cause.is_trouble()
                && !sinks
                && !self.scenario.explains(cause, self.rig.period(), &self.robot.file)
            {
                let servo = cause.servo().map_or(String::new(), |servo| format!(" (servo {servo})"));
                let what =
                    format!("the log says \"{cause}\"{servo} in tick {}, which did not happen", self.tick);
                return Violated::by(Invariant::Cause, what);
            }
            if to == Phase::Active && from != to {
                self.active_since = self.tick;
            }
        }
        if prints::take_prints() > 0 {
            return Violated::by(Invariant::Panics, "a panic was printed within the tick");
        }
        self.check_fairness()?;
        if self.rig.machine.phase() == Phase::Active { self.check_active() } else { Ok(()) }
    }

    /// Where the only thing that keeps replies back is a flood on one bus, all others reply.
    fn check_fairness(&mut self) -> Result<(), Violated> {
        let Some(flooded) = self.scenario.flooded() else { return Ok(()) };
        // To read a flood takes a tenth of a period: a bus cycle that does not leave it is late then.
        let timing = &self.robot.file.timing;
        let left_ns = timing.bus_deadline_ns().min(timing.period_ns() / 10 * 9) - timing.period_ns() / 10;
        if self.cycle_ns > left_ns {
            return Ok(());
        }
        let servos = self.robot.file.servos.iter().zip(&self.rig.machine.state().servos);
        for (at, (starved, (servo, state))) in self.starved.iter_mut().zip(servos).enumerate() {
            *starved = if servo.bus != flooded && !state.fresh && !self.scenario.restarts(at) {
                *starved + 1
            } else {
                0
            };
        }
        // During start-up and while the robot restarts, no servo replies.
        if self.starved.contains(&STARVED_TICKS) && self.tick > self.span.from {
            return Violated::by(
                Invariant::Fairness,
                "servos on buses other than the flooded one do not reply",
            );
        }
        Ok(())
    }

    /// What must not go on while the robot is under control.
    fn check_active(&self) -> Result<(), Violated> {
        let config = &self.robot.file;
        let after = |seconds: f64| self.active_since + (seconds * config.timing.rate_hz) as u64;
        // A servo is not commanded before the tick after, and reports in the one after that that it runs, in a slow loop one later.
        let (runs, grace) =
            (after(SWITCHED_ON_S).max(self.active_since + 4), after(config.supervisor.grace_s));
        let overdue = |event: &&Event| {
            self.scenario.must_end_by(event, runs, grace, config) && self.tick > self.answered_by(event)
        };
        if let Some(event) = self.scenario.events.iter().find(overdue) {
            let ticks = self.tick - event.tick;
            let what = format!("still in control {ticks} ticks after {:?}", event.fault);
            return Violated::by(Invariant::LeavesControl, what);
        }
        let sees = self.scenario.blind_s(config) == 0.0;
        match lock(&self.monitor).beyond(SEEN_TICKS).filter(|_| sees) {
            Some(joint) => {
                let what = format!("still in control while {joint} is beyond its limits");
                Violated::by(Invariant::LeavesControl, what)
            }
            None => Ok(()),
        }
    }

    /// A host that is stopped or late cannot look at the clock meanwhile.
    fn longest_pause_ns(&self) -> i64 {
        let pause = |fault: Fault| match fault {
            Fault::HostStopped(ms) | Fault::ControllerFreezes(ms) => i64::from(ms) * 1_000_000,
            Fault::HostLate(us) | Fault::ControllerSlow(us) => i64::from(us) * 1_000,
            _ => 0,
        };
        self.robot.file.timing.period_ns() * 2 + self.scenario.faults().map(pause).sum::<i64>()
    }

    fn check_end(&mut self) -> Result<(), Violated> {
        if !self.rig.machine.is_settled() {
            let what = format!("not at rest after {} ticks, but {:?}", self.tick, self.rig.machine.phase());
            return Violated::by(Invariant::Damping, what);
        }
        let damping = self.log.iter().find(|transition| transition.to == Phase::Damping);
        let rest = self.log.iter().find(|transition| transition.to.is_over());
        if let (Some(damping), Some(rest)) = (damping, rest)
            && damping.deadline_ns.is_some_and(|ns| rest.at_ns > ns + self.longest_pause_ns())
        {
            return Violated::by(Invariant::Damping, "damping took longer than it may");
        }
        self.check_rest()
    }

    fn check_rest(&mut self) -> Result<(), Violated> {
        // Who has no power gets it back now; what waits behind the links is delivered.
        self.power(true);
        self.rig.freeze(5_000_000);
        self.rig.end_host();
        self.rig.freeze(145_000_000);
        if let Some(violated) = lock(&self.monitor).take() {
            return Err(violated);
        }
        let unreachable = self.unreachable();
        for (index, servo) in self.rig.stage().world.servos().iter().enumerate() {
            let doing = servo.doing();
            let of_file = self.robot.stands_for[index];
            let name = &self.robot.file.servos[of_file].name;
            if self.reports_on(of_file) {
                continue;
            }
            // Without a watchdog it follows its last target for ever.
            if doing == Doing::Following
                && !(unreachable.contains(&of_file) && is_unwatched(&self.robot.file))
            {
                let what = format!("{name} still follows a position at rest");
                return Violated::by(Invariant::OutputsOff, what);
            }
            // What cannot be reached has run out of its watchdog by itself.
            if doing.is_on() && !unreachable.contains(&of_file) {
                let what = format!("{name} keeps its output on at rest: {}", doing.name());
                return Violated::by(Invariant::OutputsOff, what);
            }
        }
        Ok(())
    }

    /// A servo that stays on whatever it is commanded: the log names it, so that a person can cut its power.
    fn reports_on(&self, servo: usize) -> bool {
        let is_it = |fault| fault == Fault::StaysOn(servo);
        let names_it = |transition: &Transition| {
            transition.cause.servo().map(usize::from) == Some(servo) && transition.cause.is_trouble()
        };
        self.scenario.faults().any(is_it) && self.log.iter().any(names_it)
    }

    /// Servos that no frame may have reached in the end.
    fn unreachable(&self) -> Vec<usize> {
        let robot = &self.robot.file;
        // Stop is sent for 50 ms, and in ten ticks at the least; that all of them are lost is one case in a million.
        let stops = (0.05 * robot.timing.rate_hz).max(10.0);
        let bearable = 1e-6_f64.powf(1.0 / stops);
        let cut_off = |fault: Fault| match fault {
            Fault::BusDead(bus) => Some(bus),
            Fault::BusNoisy(bus, percent) if f64::from(percent) > 100.0 * bearable => Some(bus),
            _ => None,
        };
        let mut buses: Vec<usize> = self.scenario.faults().filter_map(cut_off).collect();
        // Those that carried nothing when the run ended, unless their servos have lost power since: these must be off.
        let kept_power = |bus: usize| {
            self.scenario.faults().any(|fault| match fault {
                Fault::BusHolds(held, ..) => held == bus,
                Fault::PowerCut(_, queue) => queue == Queue::Kernel,
                _ => false,
            })
        };
        buses.extend(self.later.iter().filter_map(|(_, later)| match later {
            Later::Open(bus) => Some(*bus).filter(|&bus| kept_power(bus)),
            _ => None,
        }));
        (0..robot.servos.len()).filter(|&servo| buses.contains(&robot.servos[servo].bus)).collect()
    }

    /// No tick comes any more: the servos must damp by themselves.
    fn host_is_gone(&mut self) -> Result<(), Violated> {
        let watchdog_s = longest_watchdog_s(&self.robot.file);
        self.rig.freeze((watchdog_s * 1e9) as i64 + 20_000_000);
        self.rig.end_host();
        self.rig.freeze((watchdog_s * 1e9) as i64 + 20_000_000);
        let stage = self.rig.stage();
        let obeying = stage.world.servos().iter().position(|servo| servo.doing() == Doing::Following);
        match obeying {
            Some(servo) => {
                let name = &self.robot.real.servos[servo].name;
                Violated::by(Invariant::Watchdog, format!("{name} goes on without a host"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Formats, Style};

    /// The end of the shorter one opened the bus, and the robot that went on was required to come down.
    #[test]
    fn a_bus_that_is_held_twice_at_once_is_held_until_the_later_end() {
        let fleet = Fleet::built_in();
        let robot = fleet.members.iter().position(|member| member.config.name == "solo").unwrap();
        let hold = |tick, ticks| Event { tick, fault: Fault::BusHolds(0, ticks, Queue::Link) };
        let scenario = Scenario {
            seed: 0,
            robot: (robot, "solo".into()),
            style: Style::Hold,
            rate_hz: 1000.0,
            formats: Formats { command: None, query: None },
            events: vec![hold(200, 60), hold(202, 3)],
        };
        let Verdict { violated, brought_down, .. } = run(&fleet, &scenario, &crate::defect::Sound);
        assert!(violated.is_none(), "{:?}", violated.map(|violated| violated.what));
        assert!(brought_down);
    }
}
