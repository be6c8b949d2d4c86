//! Servos without a loop: scan, single commands, whole cycles, raw frames.

use crate::error::{BusError, ClosedError, NoReplyError};
use crate::injected::InjectedFault;
use crate::state::{Command, State};
use crate::times::nanoseconds;
use khz_file::RobotConfig;
use khz_loop::cycle::Cycle;
use khz_loop::{PositionCommand, RobotState, ServoCommand};
use khz_robot::assemble::Links;
use khz_robot::desk::{Answer, Desk, DeskError, DeskServo, Order, Scan, Setting, Wanted};
use khz_rt::now_ns;
use khz_wire::Frame;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use rtrb::Producer;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a raw frame may wait for room, ns.
const ROOM_NS: i64 = 100_000_000;
/// Where each id is queried alone, most ids have no servo: the timeout of each is divided by this.
const ALONE: i64 = 20;

/// The robot's buses, open. Nothing moves unless told to; calls release Python's lock while they wait.
#[pyclass(frozen, module = "kilohertz")]
pub struct Connection {
    open: Mutex<Option<Open>>,
    config: RobotConfig,
    /// What some of its servos are sent before they may be driven needs a run.
    needs_a_run: bool,
}

struct Open {
    desk: Desk,
    cycle: Cycle,
    state: RobotState,
    commands: Vec<ServoCommand>,
    faults: Option<Producer<InjectedFault>>,
    deadline_ns: i64,
}

/// What a servo reports. What the reply did not bring is None; what the servo does not measure is NaN.
#[pyclass(frozen, get_all, module = "kilohertz")]
pub struct Reply {
    /// Operating mode, as its register has it.
    mode: Option<u8>,
    /// Joint position, rad.
    position: Option<f64>,
    /// Joint velocity, rad/s.
    velocity: Option<f64>,
    /// Joint torque, N·m.
    torque: Option<f64>,
    /// Supply, V.
    voltage: Option<f64>,
    /// Board temperature, °C.
    temperature: Option<f64>,
    /// Fault code; 0: none.
    fault: Option<u32>,
    /// The first register it would not read or write, and the code of why.
    error: Option<(u32, u32)>,
    /// Every other register that was asked for: number and value, in the servo's own units.
    registers: BTreeMap<u16, f64>,
}

#[pymethods]
impl Reply {
    fn __repr__(&self) -> String {
        let known = [("position", self.position), ("velocity", self.velocity), ("torque", self.torque)];
        let known = known.into_iter().filter_map(|(name, value)| Some(format!(", {name} {:.4}", value?)));
        let mode = self.mode.map_or("unknown".to_owned(), |mode| mode.to_string());
        format!("<Reply: mode {mode}{}>", known.collect::<String>())
    }
}

#[pymethods]
impl Connection {
    /// Ids and UUIDs of the servos that answer, bus by bus: (bus, id, uuid).
    #[pyo3(signature = (timeout=0.05))]
    fn scan(&self, py: Python<'_>, timeout: f64) -> PyResult<Vec<(String, u8, [u8; 16])>> {
        let timeout_ns = nanoseconds("timeout", timeout)?;
        self.with(py, |open| open.scan(timeout_ns).map_err(error_of))
    }

    /// Asks a servo for its state and for further registers, and waits for its reply.
    #[pyo3(signature = (servo, registers=BTreeMap::new(), timeout=0.02))]
    fn query(
        &self,
        py: Python<'_>,
        servo: usize,
        registers: BTreeMap<u16, String>,
        timeout: f64,
    ) -> PyResult<Reply> {
        self.exchange(py, servo, None, &registers, timeout)
    }

    /// Output off.
    #[pyo3(signature = (servo, timeout=0.02))]
    fn stop(&self, py: Python<'_>, servo: usize, timeout: f64) -> PyResult<Reply> {
        self.exchange(py, servo, Some(Order::Stop), &BTreeMap::new(), timeout)
    }

    /// Damping.
    #[pyo3(signature = (servo, kd_scale=1.0, watchdog=0.0, timeout=0.02))]
    fn damp(
        &self,
        py: Python<'_>,
        servo: usize,
        kd_scale: f64,
        watchdog: f64,
        timeout: f64,
    ) -> PyResult<Reply> {
        let order = Order::Damp { kd_scale, watchdog_s: watchdog };
        self.exchange(py, servo, Some(order), &BTreeMap::new(), timeout)
    }

    /// Follows a position: position, velocity, torque, kp_scale, kd_scale, max_torque, watchdog.
    #[pyo3(signature = (servo, values, registers=BTreeMap::new(), timeout=0.02))]
    fn position(
        &self,
        py: Python<'_>,
        servo: usize,
        values: [f64; 7],
        registers: BTreeMap<u16, String>,
        timeout: f64,
    ) -> PyResult<Reply> {
        let [position, velocity, torque, kp_scale, kd_scale, max_torque, watchdog_s] = values;
        let command = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque };
        self.exchange(py, servo, Some(Order::Position { command, watchdog_s }), &registers, timeout)
    }

    /// Makes the present position its zero.
    #[pyo3(signature = (servo, store=false, timeout=0.05))]
    fn set_zero(&self, py: Python<'_>, servo: usize, store: bool, timeout: f64) -> PyResult<Reply> {
        self.set(py, servo, Setting::Zero, store, timeout)
    }

    /// Gives it another id.
    #[pyo3(signature = (servo, id, store=false, timeout=0.05))]
    fn set_id(&self, py: Python<'_>, servo: usize, id: u8, store: bool, timeout: f64) -> PyResult<Reply> {
        self.set(py, servo, Setting::Id(id), store, timeout)
    }

    /// Sets its watchdog, s.
    #[pyo3(signature = (servo, seconds, store=false, timeout=0.05))]
    fn set_watchdog(
        &self,
        py: Python<'_>,
        servo: usize,
        seconds: f64,
        store: bool,
        timeout: f64,
    ) -> PyResult<Reply> {
        self.set(py, servo, Setting::Watchdog(seconds), store, timeout)
    }

    /// One whole bus cycle: commands to all servos, replies from all, as the loop does it, but without its
    /// supervisor. Fills `state`; returns how many servos did not answer in time.
    fn cycle(&self, py: Python<'_>, command: &Command, state: &Bound<'_, State>) -> PyResult<u16> {
        if self.needs_a_run {
            let why =
                "servos of this family are checked and their watchdogs set before they are driven: use run()";
            return Err(PyValueError::new_err(why));
        }
        let mut open = self.lock(py);
        let open = open.as_mut().ok_or_else(closed)?;
        command.read(py, &mut open.commands)?;
        let missed = py.detach(|| open.cycle());
        state.try_borrow_mut()?.fill(py, &open.state)?;
        Ok(missed)
    }

    /// A state and a command that fit this robot.
    fn arrays(&self, py: Python<'_>) -> PyResult<(State, Command)> {
        let names: Vec<String> = self.config.servos.iter().map(|servo| servo.name.clone()).collect();
        let command = Command::new(py, &names);
        command.stop(py);
        Ok((State::new(py, &names)?, command))
    }

    /// Sends a raw frame at once.
    fn send(&self, py: Python<'_>, bus: usize, id: u32, data: &[u8]) -> PyResult<()> {
        let text = "a frame has an identifier of 29 bits and at most 64 bytes";
        let frame = Frame::new(id, data).ok_or_else(|| PyValueError::new_err(text))?;
        if bus >= self.config.buses.len() {
            return Err(PyValueError::new_err("no such bus"));
        }
        self.with(py, |open| open.desk.send_by(bus, &frame, now_ns() + ROOM_NS).map_err(error_of))
    }

    /// The next raw frame that has arrived, as (bus, identifier, bytes), or None.
    fn receive(&self, py: Python<'_>) -> PyResult<Option<(usize, u32, Vec<u8>)>> {
        self.with(py, |open| {
            let received = open.desk.receive();
            Ok(received.map(|(bus, received)| (bus, received.frame.id, received.frame.payload().to_vec())))
        })
    }

    /// Puts a fault into the emulated devices. See `kilohertz.Connection.inject`.
    #[pyo3(signature = (kind, servo=0, value=0.0))]
    fn inject(&self, py: Python<'_>, kind: &str, servo: usize, value: f64) -> PyResult<()> {
        let fault = crate::injected::fault(kind, servo, value)?;
        self.with(py, |open| crate::injected::put(open.faults.as_mut(), fault))
    }

    /// Closes the buses.
    fn close(&self, py: Python<'_>) {
        let open = self.lock(py).take();
        py.detach(|| drop(open));
    }
}

impl Connection {
    /// Around open links.
    pub fn new(config: &RobotConfig, links: Links, faults: Option<Producer<InjectedFault>>) -> Self {
        let cycle = khz_robot::assemble::cycle(config, &links);
        let open = Open {
            cycle,
            desk: Desk::of(config, links),
            faults,
            state: khz_robot::assemble::state(config),
            commands: vec![ServoCommand::Stop; config.servos.len()],
            deadline_ns: config.timing.bus_deadline_ns(),
        };
        let mut plans = config.servos.iter().map(|servo| servo.plan(0));
        let needs_a_run =
            plans.any(|plan| !plan.family.settings().ready(plan.id, plan.watchdog_s, 1).is_empty());
        Self { open: Mutex::new(Some(open)), config: config.clone(), needs_a_run }
    }

    fn exchange(
        &self,
        py: Python<'_>,
        servo: usize,
        order: Option<Order>,
        registers: &BTreeMap<u16, String>,
        timeout: f64,
    ) -> PyResult<Reply> {
        let timeout_ns = nanoseconds("timeout", timeout)?;
        let wanted = registers.iter().map(|(&number, format)| Wanted { number, format: Some(format) });
        let wanted: Vec<_> = wanted.collect();
        self.with(py, |open| {
            let servo = open.servo(servo)?;
            open.desk.exchange(&servo, order.as_ref(), &wanted, timeout_ns).map(Reply::new).map_err(error_of)
        })
    }

    fn set(
        &self,
        py: Python<'_>,
        servo: usize,
        setting: Setting,
        store: bool,
        timeout: f64,
    ) -> PyResult<Reply> {
        let timeout_ns = nanoseconds("timeout", timeout)?;
        self.with(py, |open| {
            let servo = open.servo(servo)?;
            open.desk.set(&servo, setting, store, timeout_ns).map(Reply::new).map_err(error_of)
        })
    }

    /// Asks the buses without Python's lock: others may run meanwhile, and wait here for their turn.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&mut Open) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let mut open = self.lock(py);
        let open = open.as_mut().ok_or_else(closed)?;
        py.detach(|| ask(open))
    }

    /// Waits without Python's lock for who has the buses now: they need it to go on.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<Open>> {
        self.open.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn servo(&self, servo: usize) -> PyResult<DeskServo> {
        let found = self.desk.servos().get(servo).cloned();
        found.ok_or_else(|| PyValueError::new_err("no such servo"))
    }

    fn scan(&mut self, timeout_ns: i64) -> Result<Vec<(String, u8, [u8; 16])>, DeskError> {
        let mut all = Vec::new();
        for bus in 0..self.desk.buses() {
            let timeout_ns = if self.desk.is_half_duplex(bus) { timeout_ns / ALONE } else { timeout_ns };
            let found = self.desk.scan(bus, &Scan { last: u8::MAX, timeout_ns, together: true })?;
            let name = self.desk.name(bus);
            let uuid = |answer: &Answer| answer.identity.uuid.unwrap_or_default();
            all.extend(found.iter().map(|each| (name.to_owned(), each.answer.id, uuid(&each.answer))));
        }
        Ok(all)
    }

    fn cycle(&mut self) -> u16 {
        let started_ns = now_ns();
        let until_ns = started_ns + self.deadline_ns;
        let links = self.desk.links();
        self.cycle.receive(links, started_ns);
        self.cycle.take_in(&mut self.state);
        self.cycle.begin(&self.commands, until_ns);
        self.cycle.send(links, now_ns());
        loop {
            let links = self.desk.links();
            let now_ns = now_ns();
            self.cycle.receive(links, now_ns);
            self.cycle.receive_imu(links, &mut self.state, now_ns);
            self.cycle.take_in(&mut self.state);
            if self.cycle.is_complete() || now_ns >= until_ns {
                break;
            }
            self.cycle.time_out(now_ns);
            self.cycle.send(links, now_ns);
            let next_ns = self.cycle.next_ns(self.desk.links());
            self.desk.pass(next_ns.min(until_ns));
        }
        self.state.now_ns = now_ns();
        self.state.tick += 1;
        self.cycle.end(&mut self.state).missed
    }
}

impl Reply {
    fn new(answer: Answer) -> Self {
        Self {
            mode: answer.mode.map(|mode| mode.number),
            position: answer.position,
            velocity: answer.velocity,
            torque: answer.torque,
            voltage: answer.voltage,
            temperature: answer.temperature,
            fault: answer.fault.map(|fault| fault.code),
            error: answer.refused,
            registers: answer.registers,
        }
    }
}

fn error_of(error: DeskError) -> PyErr {
    let text = error.to_string();
    match error {
        DeskError::Bus { .. } | DeskError::NotCarried { .. } | DeskError::Damaged { .. } => {
            BusError::new_err(text)
        }
        DeskError::NoReply { .. } | DeskError::Unsure(_) => NoReplyError::new_err(text),
        DeskError::Impossible(_) | DeskError::Wrong { .. } => PyValueError::new_err(text),
    }
}

fn closed() -> PyErr {
    ClosedError::new_err("this connection was closed")
}
