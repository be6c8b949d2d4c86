//! Servos without a loop: scan, single commands, whole cycles, raw frames.

use crate::error::{BusError, ClosedError, NoReplyError};
use crate::injected::Trouble;
use crate::state::{Command, State};
use crate::times::nanoseconds;
use khz_link::{Link, LinkError, Received};
use khz_robot::assemble::Links;
use khz_robot::cycle::Cycle;
use khz_robot::{RobotConfig, RobotState, ServoCommand};
use khz_rt::{now_ns, wait_readable};
use khz_wire::address::BROADCAST;
use khz_wire::{Address, Format, Frame, Register, Reply as WireReply, Resolution, Value, Writer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use rtrb::Producer;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Below this distance sleeping is coarser than waiting.
const SLEEP_NS: i64 = 100_000;
/// Every servo has an id up to this one.
const LAST_ID: u8 = 126;

/// The robot's buses, open. Nothing moves unless told to; calls release Python's lock while they wait.
#[pyclass(frozen, module = "kilohertz")]
pub struct Connection {
    open: Mutex<Option<Open>>,
    config: RobotConfig,
}

struct Open {
    links: Links,
    cycle: Cycle,
    state: RobotState,
    commands: Vec<ServoCommand>,
    troubles: Option<Producer<Trouble>>,
    deadline_ns: i64,
}

/// What a servo says of itself. What the reply did not bring is None; what the servo cannot tell is NaN.
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
    fault: Option<u8>,
    /// The first register it would not read or write, and the code of why.
    error: Option<(u32, u32)>,
    /// Every other register that was asked for: number and value, in the servo's own units.
    registers: BTreeMap<u16, f64>,
}

#[pymethods]
impl Connection {
    /// Ids and UUIDs of the servos that answer, bus by bus: (bus, id, uuid).
    #[pyo3(signature = (timeout=0.05))]
    fn scan(&self, py: Python<'_>, timeout: f64) -> PyResult<Vec<(String, u8, [u8; 16])>> {
        let timeout_ns = nanoseconds("timeout", timeout)?;
        self.with(py, |open| {
            let mut found = Vec::new();
            for (bus, config) in self.config.buses.iter().enumerate() {
                let devices = open.scan(bus, timeout_ns).map_err(|error| told(&config.name, error))?;
                found.extend(devices.into_iter().map(|(id, uuid)| (config.name.clone(), id, uuid)));
            }
            Ok(found)
        })
    }

    /// Sends one command (or none) with a query to a servo and waits for its reply.
    #[pyo3(signature = (servo, mode=None, values=BTreeMap::new(), registers=BTreeMap::new(), timeout=0.02))]
    fn exchange(
        &self,
        py: Python<'_>,
        servo: usize,
        mode: Option<u8>,
        values: BTreeMap<u16, f64>,
        registers: BTreeMap<u16, String>,
        timeout: f64,
    ) -> PyResult<Reply> {
        let config = self.config.servos.get(servo).ok_or_else(|| PyValueError::new_err("no such servo"))?;
        let (query, timeout_ns) = (query(&registers)?, nanoseconds("timeout", timeout)?);
        let (sign, offset) = (f64::from(config.sign), config.offset);
        let address = Address::to(config.id, true);
        let frame = khz_wire::command::frame(address, |writer| {
            if let Some(mode) = mode {
                write_command(mode, &values, sign, offset, writer)?;
            }
            query.query(writer)
        });
        let frame =
            frame.map_err(|_| PyValueError::new_err("command and query do not fit into one frame"))?;
        let bus = &self.config.buses[config.bus].name;
        let asked = Asked { bus: config.bus, address, query: &query };
        let reply = self
            .with(py, |open| open.exchange(&asked, &frame, timeout_ns).map_err(|error| told(bus, error)))?;
        let reply = reply.ok_or_else(|| {
            NoReplyError::new_err(format!(
                "{} (id {} on bus {bus}) did not reply within {timeout} s: is it powered, is the id right?",
                config.name, config.id
            ))
        })?;
        WireReply::parse(reply.frame.payload())
            .map(|reply| Reply::new(&reply, sign, offset))
            .map_err(|error| BusError::new_err(format!("{}: its reply is damaged: {error}", config.name)))
    }

    /// One whole bus cycle: commands to all servos, replies from all, as the loop does it, but without its
    /// supervisor. Fills `state`; returns how many servos did not answer in time.
    fn cycle(&self, py: Python<'_>, command: &Command, state: &Bound<'_, State>) -> PyResult<u16> {
        let mut open = self.lock(py);
        let open = open.as_mut().ok_or_else(closed)?;
        command.read(py, &mut open.commands)?;
        let missed = py.detach(|| open.cycle());
        state.try_borrow_mut()?.fill(py, &open.state);
        Ok(missed)
    }

    /// A state and a command that fit this robot.
    fn arrays(&self, py: Python<'_>) -> PyResult<(State, Command)> {
        let names: Vec<String> = self.config.servos.iter().map(|servo| servo.name.clone()).collect();
        let command = Command::new(py, &names);
        command.stop(py);
        Ok((State::new(py, names.len())?, command))
    }

    /// Sends a raw frame at once.
    fn send(&self, py: Python<'_>, bus: usize, id: u32, data: &[u8]) -> PyResult<()> {
        let text = "a frame has an identifier of 29 bits and at most 64 bytes";
        let frame = Frame::new(id, data).ok_or_else(|| PyValueError::new_err(text))?;
        let config = self.config.buses.get(bus).ok_or_else(|| PyValueError::new_err("no such bus"))?;
        self.with(py, |open| {
            open.send(bus, &frame, now_ns() + 100_000_000).map_err(|error| told(&config.name, error))
        })
    }

    /// The next raw frame that has arrived, as (bus, identifier, bytes), or None.
    fn receive(&self, py: Python<'_>) -> PyResult<Option<(usize, u32, Vec<u8>)>> {
        self.with(py, |open| {
            let received = open.receive();
            Ok(received.map(|(bus, received)| (bus, received.frame.id, received.frame.payload().to_vec())))
        })
    }

    /// Puts a fault into the emulated devices. See `kilohertz.Connection.inject`.
    #[pyo3(signature = (kind, servo=0, value=0.0))]
    fn inject(&self, py: Python<'_>, kind: &str, servo: usize, value: f64) -> PyResult<()> {
        let trouble = crate::injected::trouble(kind, servo, value)?;
        self.with(py, |open| crate::injected::put(open.troubles.as_mut(), trouble))
    }

    /// Closes the buses.
    fn close(&self, py: Python<'_>) {
        let open = self.lock(py).take();
        py.detach(|| drop(open));
    }
}

impl Connection {
    /// Around open links.
    pub fn new(config: &RobotConfig, links: Links, troubles: Option<Producer<Trouble>>) -> Self {
        let cycle = khz_robot::assemble::cycle(config, &links);
        let open = Open {
            cycle,
            links,
            troubles,
            state: khz_robot::assemble::state(config),
            commands: vec![ServoCommand::Stop; config.servos.len()],
            deadline_ns: config.timing.bus_deadline_ns(),
        };
        Self { open: Mutex::new(Some(open)), config: config.clone() }
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
    fn link(&mut self, bus: usize) -> (&mut dyn Link, u8) {
        let (link, channel) = self.links.places[bus];
        (&mut *self.links.links[link], channel)
    }

    fn send(&mut self, bus: usize, frame: &Frame, until_ns: i64) -> Result<(), LinkError> {
        loop {
            let (link, channel) = self.link(bus);
            match link.send(channel, &Address::request(frame), now_ns()) {
                Err(LinkError::Full) if now_ns() < until_ns => std::thread::yield_now(),
                Ok(()) => return link.flush(now_ns()),
                other => return other,
            }
        }
    }

    /// What has arrived on any bus.
    fn receive(&mut self) -> Option<(usize, Received)> {
        let now_ns = now_ns();
        for (index, link) in self.links.links.iter_mut().enumerate() {
            if let Ok(Some(received)) = link.receive(now_ns) {
                let place = (index, received.channel);
                if let Some(bus) = self.links.places.iter().position(|&each| each == place) {
                    return Some((bus, received));
                }
            }
        }
        None
    }

    /// Lets time pass until something may have arrived.
    fn pass(&self, until_ns: i64) {
        let links = &self.links.links;
        if let [link] = links.as_slice()
            && let Some(fd) = link.fd()
        {
            // Whatever it says, the link is asked next.
            let _ = wait_readable(fd, until_ns);
            return;
        }
        let next_ns = links.iter().filter_map(|link| link.next_event_ns()).min().unwrap_or(until_ns);
        let left_ns = next_ns.min(until_ns).saturating_sub(now_ns());
        let kernel_fed = links.iter().any(|link| link.fd().is_some());
        match left_ns {
            _ if kernel_fed => std::thread::sleep(Duration::from_micros(20)),
            SLEEP_NS.. => std::thread::sleep(Duration::from_nanos((left_ns - SLEEP_NS / 2) as u64)),
            _ => std::hint::spin_loop(),
        }
    }

    fn exchange(
        &mut self,
        asked: &Asked<'_>,
        frame: &Frame,
        timeout_ns: i64,
    ) -> Result<Option<Received>, LinkError> {
        while self.receive().is_some() {}
        let until_ns = now_ns() + timeout_ns;
        self.send(asked.bus, frame, until_ns)?;
        loop {
            match self.receive() {
                Some((from, received)) if asked.answered_by(from, &received.frame).is_some() => {
                    return Ok(Some(received));
                }
                Some(_) => {}
                None if now_ns() >= until_ns => return Ok(None),
                None => self.pass(until_ns),
            }
        }
    }

    fn scan(&mut self, bus: usize, timeout_ns: i64) -> Result<Vec<(u8, [u8; 16])>, LinkError> {
        let mut found = BTreeMap::new();
        let Some(query) = uuid_query() else { return Ok(Vec::new()) };
        let (link, channel) = self.link(bus);
        let half_duplex = link.half_duplex(channel);
        // Where answers would collide, everybody is asked alone.
        let each: Vec<u8> = if half_duplex { (1..=LAST_ID).collect() } else { vec![BROADCAST] };
        let timeout_ns = if half_duplex { timeout_ns / 20 } else { timeout_ns };
        for destination in each {
            let address = Address::to(destination, true);
            let Ok(frame) = khz_wire::command::frame(address, |writer| query.query(writer)) else { continue };
            let asked = Asked { bus, address, query: &query };
            while self.receive().is_some() {}
            let until_ns = now_ns() + timeout_ns;
            self.send(bus, &frame, until_ns)?;
            // What has arrived by the deadline counts, however late we look.
            loop {
                match self.receive() {
                    Some((from, received)) => {
                        let Some(id) = asked.answered_by(from, &received.frame) else { continue };
                        found.insert(id, uuid(&received.frame));
                        if half_duplex {
                            break;
                        }
                    }
                    None if now_ns() >= until_ns => break,
                    None => self.pass(until_ns),
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    fn cycle(&mut self) -> u16 {
        let started_ns = now_ns();
        let until_ns = started_ns + self.deadline_ns;
        let links = &mut self.links.links;
        self.cycle.receive(links, started_ns);
        self.cycle.take_in(&mut self.state);
        self.cycle.begin(&self.commands, until_ns);
        self.cycle.send(links, now_ns());
        loop {
            let links = &mut self.links.links;
            let now_ns = now_ns();
            self.cycle.receive(links, now_ns);
            self.cycle.receive_imu(links, &mut self.state, now_ns);
            self.cycle.take_in(&mut self.state);
            if self.cycle.is_complete() || now_ns >= until_ns {
                break;
            }
            self.cycle.time_out(now_ns);
            self.cycle.send(links, now_ns);
            self.pass(self.cycle.next_ns(&self.links.links).min(until_ns));
        }
        self.state.now_ns = now_ns();
        self.state.tick += 1;
        self.cycle.end(&mut self.state).missed
    }
}

/// What was asked, of whom.
struct Asked<'a> {
    bus: usize,
    address: Address,
    query: &'a Format,
}

impl Asked<'_> {
    /// Who answered this with such a frame, if it is an answer to it. Others travel on the bus as well: requests of
    /// other hosts, their answers, and answers to what was asked before, by somebody who took too long.
    fn answered_by(&self, bus: usize, frame: &Frame) -> Option<u8> {
        let from = Address::from_id(frame.id);
        let meant = [from.source, BROADCAST].contains(&self.address.destination);
        let ours = bus == self.bus && meant && from == self.address.answered_by(from.source);
        (ours && self.query.is_answered_by(frame.payload())).then_some(from.source)
    }
}

impl Reply {
    fn new(reply: &WireReply, sign: f64, offset: f64) -> Self {
        Self {
            mode: reply.mode.map(|mode| mode as u8),
            position: reply.position.map(|turns| sign * turns * TAU + offset),
            velocity: reply.velocity.map(|turns| sign * turns * TAU),
            torque: reply.torque.map(|torque| sign * torque),
            voltage: reply.voltage,
            temperature: reply.temperature,
            fault: reply.fault.map(|fault| fault.0),
            error: reply.write_error.or(reply.read_error).map(|error| (error.register, error.code)),
            registers: registers(reply),
        }
    }
}

/// Registers of a reply in the servo's own units, whether they have a field or not.
fn registers(reply: &WireReply) -> BTreeMap<u16, f64> {
    let with_field = [
        (Register::Q_CURRENT, reply.q_current),
        (Register::D_CURRENT, reply.d_current),
        (Register::ABSOLUTE_POSITION, reply.absolute_position),
        (Register::POWER, reply.power),
        (Register::MOTOR_TEMPERATURE, reply.motor_temperature),
        (
            Register::TRAJECTORY_COMPLETE,
            reply.trajectory_complete.map(|complete| f64::from(u8::from(complete))),
        ),
        (Register::HOME_STATE, reply.home_state.map(f64::from)),
    ];
    let fields = with_field.into_iter().filter_map(|(register, value)| Some((register.0, value?)));
    fields.chain(reply.extras().map(|(register, value)| (register.0, value))).collect()
}

/// The default query and further registers, each as `int8`, `int16`, `int32` or `float`.
fn query(registers: &BTreeMap<u16, String>) -> PyResult<Format> {
    registers.iter().try_fold(Format::default_query(), |format, (&register, resolution)| {
        let resolution = match resolution.as_str() {
            "int8" => Resolution::Int8,
            "int16" => Resolution::Int16,
            "int32" => Resolution::Int32,
            "float" => Resolution::Float,
            other => {
                let text = format!("resolution `{other}`: write int8, int16, int32 or float");
                return Err(PyValueError::new_err(text));
            }
        };
        format.with(Register(register), resolution).map_err(|error| PyValueError::new_err(error.to_string()))
    })
}

/// Mode first, because it resets the others; then the values, as floats, the joint's angles turned into the
/// servo's revolutions.
fn write_command(
    mode: u8,
    values: &BTreeMap<u16, f64>,
    sign: f64,
    offset: f64,
    writer: &mut Writer<'_>,
) -> Result<(), khz_wire::subframe::Full> {
    writer.write(u32::from(Register::MODE.0), &[Value::Int8(mode as i8)])?;
    for (&register, &value) in values {
        let value = match Register(register) {
            Register::COMMAND_POSITION => sign * (value - offset) / TAU,
            Register::COMMAND_VELOCITY => sign * value / TAU,
            Register::COMMAND_TORQUE => sign * value,
            _ => value,
        };
        writer.write(u32::from(register), &[Value::Float(value as f32)])?;
    }
    Ok(())
}

fn uuid_query() -> Option<Format> {
    let words = (0..4).map(|word| (Register(Register::UUID.0 + word), Resolution::Int32));
    Format::of(&words.collect::<Vec<_>>()).ok()
}

fn uuid(frame: &Frame) -> [u8; 16] {
    let mut uuid = [0; 16];
    let Ok(reply) = WireReply::parse(frame.payload()) else { return uuid };
    for (word, bytes) in uuid.chunks_exact_mut(4).enumerate() {
        let value = reply.extra(Register(Register::UUID.0 + word as u16)).unwrap_or(0.0);
        bytes.copy_from_slice(&(value as i64 as i32).to_le_bytes());
    }
    uuid
}

fn told(bus: &str, error: LinkError) -> PyErr {
    BusError::new_err(format!("bus {bus}: {error}"))
}

fn closed() -> PyErr {
    ClosedError::new_err("this connection was closed")
}
