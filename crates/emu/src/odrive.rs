//! An emulated ODrive: CANSimple of firmware 0.5.6 and 0.6, cascade, limits, errors, watchdog, messages by itself, restarts.
//!
//! Made from the sources of 0.5.6 and what the makers, DBC files and clients document of 0.6 (see [`khz_wire::odrive`]), without the firmware.
//! Where they leave something open, 0.6 is as 0.5.6. The odd ways are kept: every frame for it feeds its watchdog, which acts with the output off,
//! too; what it sends by itself has the identifier of what it answers; the position term is clamped to the velocity limit, beyond
//! which it switches itself off; without an estimate it reports zeros (0.5); it closes its loop on the set-point it has, however old.

use crate::body::JointState;
use crate::config::{Device, WireKind};
use crate::injection::{Injection, Misbehaviour};
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use crate::mit::{self, Common, Motor as _, Scales};
use crate::twin::{Family, STEP_NS};
use khz_wire::Frame;
use khz_wire::mit::{Codes, Scale};
use khz_wire::odrive::{
    self, Address, FEED_FORWARD, Heartbeat, InputPos, Line, MOST_NODE, Sdo, Version, command, control,
    filled, floats, input, reboot, state, two_floats, words,
};
use std::f64::consts::TAU;

/// Winding losses at its greatest torque, W.
const HEAT_AT_MOST: f64 = 50.0;
/// Below and above these it fails, V.
const SUPPLY: (f64, f64) = (10.5, 59.0);
/// Counts of its encoder in a turn of the motor.
const COUNTS: f64 = 8192.0;
/// So much beyond its velocity limit it switches off.
const TOLERANCE: f64 = 1.2;
/// Restarted, it is deaf and silent for so long, s.
const RESTART_S: f64 = 0.6;
/// What it has until it is set otherwise: gains, and limits in turns/s and A.
const FACTORY: ([f32; 3], [f32; 2]) = ([20.0, 0.166_666_7, 0.333_333_3], [2.0, 10.0]);

/// Its endpoints (0.6): numbers of its own, as those of every firmware are.
const ENDPOINTS: [(&str, u16, &str); 7] = [
    (HEARTBEAT_MS, 274, "uint32"),
    (ESTIMATES_MS, 275, "uint32"),
    (WATCHED, 300, "bool"),
    (TIMEOUT, 301, "float"),
    ("axis0.controller.config.enable_gain_scheduling", 310, "bool"),
    ("axis0.controller.config.circular_setpoints", 311, "bool"),
    (TORQUE_CONSTANT, 400, "float"),
];
const HEARTBEAT_MS: &str = "axis0.config.can.heartbeat_msg_rate_ms";
const ESTIMATES_MS: &str = "axis0.config.can.encoder_msg_rate_ms";
const WATCHED: &str = "axis0.config.enable_watchdog";
const TIMEOUT: &str = "axis0.config.watchdog_timeout";
const TORQUE_CONSTANT: &str = "axis0.config.motor.torque_constant";

/// The `flat_endpoints.json` of the emulated firmware.
pub fn flat_endpoints() -> String {
    let line = |(path, id, kind): (&str, u16, &str)| {
        format!("    \"{path}\": {{\"id\": {id}, \"type\": \"{kind}\"}}")
    };
    let lines = ENDPOINTS.map(line).join(",\n");
    format!(
        "{{\n  \"fw_version\": \"0.6.11\",\n  \"hw_version\": \"5.2.0\",\n  \"endpoints\": {{\n{lines}\n  }}\n}}\n"
    )
}

/// What an ODrive is, and how it was left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Its firmware.
    pub line: Line,
    /// Turns of the motor for one of the joint.
    pub reduction: f64,
    /// N·m/A of the motor.
    pub torque_constant: f64,
    /// A of the motor, as far as the board goes.
    pub most_current: f64,
    /// It fails when board or windings are this warm, °C.
    pub fault_c: f64,
    /// Its watchdog; 0: none, as it leaves the factory.
    pub watchdog_s: f64,
    /// How often it sends heartbeats and estimates by itself, ms; 0: never.
    pub heartbeat_ms: u32,
    /// See [`Setup::heartbeat_ms`].
    pub estimates_ms: u32,
}

/// What is an ODrive's own.
#[derive(Clone, Debug)]
pub struct Motor {
    setup: Setup,
    /// What it has when it starts again.
    kept: (Setup, (bool, f32)),
    /// Its watchdog is used, and acts after so long, s.
    watchdog: (bool, f32),
    /// Endpoints that change nothing here.
    flags: [u32; 2],
    node: u8,
    is_on: bool,
    errors: u32,
    disarmed_by: u32,
    mode: [u32; 2],
    set_point: InputPos,
    gains: [f32; 3],
    limits: [f32; 2],
    /// Set by hand, and given back by nothing but a restart: turns of the motor.
    zero: f64,
    has_estimate: bool,
    /// It has been on: where it is it has known since it was switched on first, as after homing.
    has_started: bool,
    deaf_s: f64,
    restarts: bool,
    now_ns: i64,
    /// The next heartbeat and estimates, ns, and the generator of their jitter.
    due_ns: [i64; 2],
    jitter_state: u32,
}

impl Family for Setup {
    const MOST_ID: u8 = MOST_NODE;
    const LEAST_ID: u8 = 0;

    type Servo = mit::Servo<Motor>;

    fn switched_on(device: Device<Self>, seed: u64) -> Result<Self::Servo, String> {
        let mut motor = Motor::new(device.id, device.family);
        // Every drive has its own phase.
        motor.due_ns = [motor.setup.heartbeat_ms, motor.setup.estimates_ms]
            .map(|ms| (seed % 16) as i64 * 1_000_000 * i64::from(ms) / 16);
        let due_ns = motor.due_ns;
        let mut servo = mit::Servo::new(&device, motor);
        servo.restart();
        (servo.motor.deaf_s, servo.motor.due_ns) = (0.0, due_ns);
        Ok(servo)
    }
}

impl Misbehaviours for Setup {
    /// It reports its state by itself: those frames are not tampered with.
    fn suits(&self, injection: Injection) -> bool {
        mit::suits(injection) && !matches!(injection, Injection::Misbehave(Some(Misbehaviour::Mode(_))))
    }

    fn encoder_step(&self) -> f64 {
        TAU / COUNTS / self.reduction
    }

    fn other_modes(&self) -> &'static [u8] {
        &[4]
    }

    fn has_fault(&self, code: u32) -> bool {
        self.line.errors().iter().any(|(bit, _)| *bit == code)
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        let (_, message) = odrive::parts(request)?;
        let state = request.payload().first();
        match message {
            command::AXIS_STATE => Some(*state? == state::CLOSED_LOOP),
            command::INPUT_POS => Some(true),
            // Damping is following without it.
            command::POS_GAIN => (two_floats(request.payload())?[0] == 0.0).then_some(false),
            command::ESTOP => Some(false),
            _ => None,
        }
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut altered = *reply;
        if let (Some((_, command::HEARTBEAT)), Some(state)) =
            (odrive::parts(reply), altered.payload_mut().get_mut(4))
        {
            *state = mode;
        }
        altered
    }

    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame {
        let is_state = odrive::parts(reply).is_some_and(|(_, message)| message == command::ESTIMATES);
        mit::frozen(if is_state { 0..8 } else { 0..0 }, reply, &mut first.frame)
    }
}

impl Motor {
    fn new(node: u8, setup: Setup) -> Self {
        let (gains, limits) = FACTORY;
        let watchdog = (setup.watchdog_s > 0.0, setup.watchdog_s as f32);
        Self {
            setup,
            kept: (setup, watchdog),
            watchdog,
            flags: [0; 2],
            node,
            is_on: false,
            errors: 0,
            disarmed_by: 0,
            mode: [control::POSITION, input::PASSTHROUGH],
            set_point: InputPos::default(),
            gains,
            limits,
            zero: 0.0,
            has_estimate: true,
            has_started: false,
            deaf_s: 0.0,
            restarts: false,
            now_ns: 0,
            due_ns: [0; 2],
            jitter_state: 0,
        }
    }

    /// Turns of the motor in a radian of the joint.
    fn turns(&self) -> f64 {
        self.setup.reduction / TAU
    }

    /// Turns and turns/s, to a count of its encoder, of which it is somewhere within.
    fn estimates(&self, common: &Common) -> [f32; 2] {
        let JointState { position, velocity } = common.measured;
        let whole = ((position * self.turns() + self.zero) * COUNTS).floor() + 0.5;
        match (self.has_estimate, self.setup.line) {
            _ if common.injected.lying => [f32::MAX; 2],
            (true, _) => [(whole / COUNTS) as f32, (velocity * self.turns()) as f32],
            (false, Line::V05) => [0.0; 2],
            (false, Line::V06) => [f32::NAN; 2],
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        let state = if self.is_on { state::CLOSED_LOOP } else { state::IDLE };
        let beat = Heartbeat { errors: self.errors, state, ..Heartbeat::default() };
        match self.setup.line {
            // "Disarmed" by an error, and the trajectory is always done.
            Line::V06 => Heartbeat { byte_5: if self.errors == 0 { 0 } else { 3 }, byte_6: 1, ..beat },
            Line::V05 => Heartbeat { byte_7: 0x80, ..beat },
        }
    }

    /// What it answers if it is asked for this.
    fn answer_of(&self, common: &Common, asked: u8) -> Option<[u8; 8]> {
        let motor_torque = (common.torque / self.setup.reduction) as f32;
        let amperes = motor_torque / self.setup.torque_constant as f32;
        let watts = (common.torque * common.measured.velocity) as f32;
        let volts = common.device.supply_v as f32;
        let (board, windings) = (common.thermal.board_c as f32, common.thermal.motor_c as f32);
        Some(match (asked, self.setup.line) {
            (command::VERSION, Line::V06) => {
                Version { protocol: 2, hardware: [5, 2, 0], firmware: [0, 6, 11], unreleased: 0 }.to_bytes()
            }
            (command::ADDRESS, Line::V06) => self.address().to_bytes(),
            (command::ERROR, Line::V06) => words([self.errors, self.disarmed_by]),
            // Of the motor, the encoder and the sensorless estimator.
            (command::ERROR | command::RX_SDO | command::TX_SDO, Line::V05) => [0; 8],
            (command::ESTIMATES, _) => floats(self.estimates(common)),
            (command::COUNT, Line::V05) => {
                let counts = (common.measured.position * self.turns() * COUNTS).floor() as i32;
                words([counts as u32, counts.rem_euclid(COUNTS as i32) as u32])
            }
            (command::IQ, _) => floats([amperes; 2]),
            (command::TEMPERATURE, Line::V06) => floats([board, windings]),
            (command::TEMPERATURE | command::TORQUES | command::POWERS, Line::V05) => [0; 8],
            (command::BUS, _) => floats([volts, watts / volts.max(1.0)]),
            (command::TORQUES, Line::V06) => floats([motor_torque; 2]),
            (command::POWERS, Line::V06) => floats([watts; 2]),
            _ => return None,
        })
    }

    fn address(&self) -> Address {
        Address { node: self.node, serial: 0x3957_3653_0000 | u64::from(self.node) }
    }

    /// Carries out a message with data.
    fn carry_out(&mut self, common: &mut Common, message: u8, payload: &[u8]) -> Option<()> {
        let bytes = |least| filled(payload, least);
        let word = |[a, b, c, d, ..]: [u8; 8]| u32::from_le_bytes([a, b, c, d]);
        let numbers = || two_floats(&bytes(4)?);
        match message {
            command::AXIS_STATE => self.switch(common, word(bytes(4)?)),
            command::CONTROLLER_MODE => self.mode = [word(bytes(8)?), u32::from(bytes(8)?[4])],
            command::INPUT_POS => self.set_point = InputPos::from_bytes(bytes(4)?),
            command::LIMITS => self.limits = two_floats(&bytes(8)?)?,
            command::POS_GAIN => [self.gains[0], _] = numbers()?,
            command::VEL_GAINS => [self.gains[1], self.gains[2]] = two_floats(&bytes(8)?)?,
            command::ABSOLUTE_POSITION => {
                let [to, _] = numbers()?;
                // In counts by 0.5.
                let to = match self.setup.line {
                    Line::V05 => f64::from(to.to_bits() as i32) / COUNTS,
                    Line::V06 => to.into(),
                };
                self.zero = to - common.measured.position * self.turns();
            }
            command::CLEAR_ERRORS => (self.errors, self.disarmed_by) = (0, 0),
            command::REBOOT if self.setup.line == Line::V05 || bytes(1)?[0] <= reboot::SAVE => {
                let saves = self.setup.line == Line::V06 && payload.first() == Some(&reboot::SAVE);
                self.kept = if saves { (self.setup, self.watchdog) } else { self.kept };
                self.restarts = true;
            }
            command::ADDRESS => self.readdress(payload),
            _ => return None,
        }
        self.command(common);
        Some(())
    }

    /// Writes an endpoint, or reports its value.
    fn sdo(&mut self, payload: &[u8]) -> Option<Frame> {
        let Sdo { write, endpoint, value } = Sdo::parse(payload)?;
        let (path, ..) = ENDPOINTS.iter().find(|(_, id, _)| *id == endpoint)?;
        let (word, number) = (u32::from_le_bytes(value), f32::from_le_bytes(value));
        if write {
            match *path {
                HEARTBEAT_MS => self.setup.heartbeat_ms = word,
                ESTIMATES_MS => self.setup.estimates_ms = word,
                WATCHED => self.watchdog.0 = value[0] != 0,
                TIMEOUT => self.watchdog.1 = number,
                TORQUE_CONSTANT => self.setup.torque_constant = number.into(),
                _ => self.flags[usize::from(endpoint & 1)] = value[0].into(),
            }
            let (is_used, timeout_s) = self.watchdog;
            self.setup.watchdog_s = if is_used { timeout_s.into() } else { 0.0 };
            return None;
        }
        let word = match *path {
            HEARTBEAT_MS => self.setup.heartbeat_ms,
            ESTIMATES_MS => self.setup.estimates_ms,
            WATCHED => self.watchdog.0.into(),
            TIMEOUT => self.watchdog.1.to_bits(),
            TORQUE_CONSTANT => (self.setup.torque_constant as f32).to_bits(),
            _ => self.flags[usize::from(endpoint & 1)],
        };
        let reply = Sdo { write, endpoint, value: word.to_le_bytes() };
        Some(odrive::frame(self.node, command::TX_SDO, &reply.to_bytes()))
    }

    fn readdress(&mut self, payload: &[u8]) {
        match (self.setup.line, payload, Address::parse(payload)) {
            (Line::V05, [node, ..], _) => self.node = node & 0x3f,
            (Line::V06, _, Some(asked)) if asked.serial == self.address().serial => self.node = asked.node,
            _ => {}
        }
    }

    fn switch(&mut self, common: &Common, wanted: u32) {
        match wanted {
            wanted if wanted == u32::from(state::IDLE) => self.is_on = false,
            wanted if wanted == u32::from(state::CLOSED_LOOP) => {
                let is_sound = self.errors == 0 && self.has_estimate && !common.injected.asleep;
                self.is_on |= is_sound;
            }
            _ => {}
        }
    }

    /// The cascade as the law of its joint: the position term is clamped to the velocity limit.
    fn command(&self, common: &mut Common) {
        let (turns, reduction) = (self.turns(), self.setup.reduction);
        let [pos_gain, vel_gain] = [self.gains[0], self.gains[1]].map(f64::from);
        let feed = |steps: i16| f64::from(steps) / FEED_FORWARD;
        let here = common.measured.position * turns + self.zero;
        let error = f64::from(self.set_point.position) - here;
        let most = f64::from(self.limits[0]);
        let is_position = self.mode == [control::POSITION, input::PASSTHROUGH];
        let wanted = pos_gain * error;
        // A lower gain asks for no more than the limit.
        let pos_gain = if wanted.abs() > most { pos_gain * most / wanted.abs() } else { pos_gain };
        let kd = vel_gain * reduction * reduction / TAU;
        let scales = self.scales();
        common.command = Codes {
            position: scales.position.encode((f64::from(self.set_point.position) - self.zero) / turns),
            velocity: scales.velocity.encode(feed(self.set_point.velocity) / turns),
            kp: scales.kp.encode(if is_position { pos_gain * kd } else { 0.0 }),
            kd: scales.kd.encode(kd),
            torque: scales.torque.encode(feed(self.set_point.torque) * reduction),
        };
    }

    fn fail(&mut self, error: u32) {
        if self.errors == 0 {
            self.disarmed_by = error;
        }
        (self.errors, self.is_on) = (self.errors | error, false);
    }

    /// Overvoltage, undervoltage, velocity limit and heat, as its line numbers them.
    fn causes(&self) -> [u32; 4] {
        match self.setup.line {
            Line::V05 => [0x4, 0x2, 0x200, 0x40000],
            Line::V06 => [0x100, 0x200, 0x8000, 0x2000],
        }
    }
}

impl mit::Motor for Motor {
    // It knows its angle within a turn of the motor, whatever the gear: see `restart`.
    const GEAR: f64 = 1.0;
    const OVERHEATED: u32 = 0x4_2000;

    fn scales(&self) -> Scales {
        let most = Scale::symmetric(1e5, 32);
        let gains = Scale::new(0.0, 1e5, 32);
        Scales { position: most, velocity: most, torque: most, kp: gains, kd: gains }
    }

    fn is_on(&self) -> bool {
        self.is_on
    }

    fn has_fault(&self) -> bool {
        self.errors != 0
    }

    fn most_torque(&self) -> f64 {
        let amperes = f64::from(self.limits[1]).min(self.setup.most_current);
        amperes * self.setup.torque_constant * self.setup.reduction
    }

    fn winding_w(&self, torque: f64) -> f64 {
        let most = self.setup.most_current * self.setup.torque_constant * self.setup.reduction;
        HEAT_AT_MOST * (torque / most).powi(2)
    }

    fn takes(&self, request: &Frame) -> bool {
        odrive::parts(request).is_some_and(|(node, _)| node == self.node) && self.deaf_s == 0.0
    }

    fn answer(&mut self, common: &mut Common, request: &Frame, _: WireKind) -> Option<Frame> {
        let (_, message) = odrive::parts(request)?;
        common.silent_s = 0.0;
        if message == command::ESTOP {
            self.fail(self.setup.line.estop());
            return None;
        }
        // Without data it asks, unless that is all of a message.
        let is_message =
            matches!(message, command::CLEAR_ERRORS | command::REBOOT) && request.remote.is_none();
        if odrive::is_asking(request) && !is_message {
            return self
                .answer_of(common, message)
                .map(|payload| odrive::frame(self.node, message, &payload));
        }
        if message == command::RX_SDO && self.setup.line == Line::V06 {
            return self.sdo(request.payload());
        }
        // The sources of 0.5.6 clear whatever a message contains, and ask for nothing else.
        let payload: &[u8] = if request.payload().is_empty() { &[0] } else { request.payload() };
        self.carry_out(common, message, payload);
        if std::mem::take(&mut self.restarts) {
            self.restart(common);
        }
        None
    }

    fn watch(&mut self, common: &mut Common, dt_s: f64) {
        self.deaf_s = (self.deaf_s - dt_s).max(0.0);
        common.silent_s += dt_s;
        if self.setup.watchdog_s > 0.0 && common.silent_s > self.setup.watchdog_s {
            self.fail(self.setup.line.watchdog());
        }
        let [over, under, fast, warm] = self.causes();
        let volts = common.device.supply_v;
        let speed = (common.measured.velocity * self.turns()).abs();
        let found = [
            (volts > SUPPLY.1, over),
            (volts < SUPPLY.0, under),
            (self.is_on && speed > f64::from(self.limits[0]) * TOLERANCE, fast),
            (common.is_warm(self.setup.fault_c), warm),
        ];
        found.into_iter().filter(|(is_so, _)| *is_so).for_each(|(_, error)| self.fail(error));
        self.command(common);
    }

    fn fault(&mut self, code: u32) {
        let known = self.setup.line.errors().iter().map(|(bit, _)| bit).sum::<u32>();
        self.fail(code & known);
    }

    fn switch_off(&mut self) {
        self.is_on = false;
    }

    /// Of where it is it knows the place within a turn of the motor, but when it is switched on first. What was not kept is as it was.
    fn restart(&mut self, common: &mut Common) {
        let turns = self.turns();
        let lost = if self.has_started { (common.joint.position * turns).round() / turns } else { 0.0 };
        common.offset = -lost;
        common.measured = JointState { position: common.joint.position + common.offset, ..common.joint };
        let (kept, node, now_ns) = (self.kept, self.node, self.now_ns);
        let (setup, watchdog) = kept;
        // Its timer starts anew, so that drives that are switched on together speak together.
        let due_ns = [setup.heartbeat_ms, setup.estimates_ms].map(|ms| now_ns + 1_000_000 * i64::from(ms));
        *self = Self {
            kept,
            watchdog,
            now_ns,
            due_ns,
            has_started: true,
            deaf_s: RESTART_S,
            ..Self::new(node, setup)
        };
    }

    fn pass(&mut self, dt_s: f64) {
        self.now_ns += (dt_s * 1e9).round() as i64;
    }

    fn supply_changed(&mut self, common: &mut Common) {
        self.watch(common, 0.0);
    }

    fn can_speak(&self) -> bool {
        self.setup.heartbeat_ms > 0 || self.setup.estimates_ms > 0
    }

    /// Its timer has steps of a millisecond and some jitter.
    fn speak(&mut self, common: &Common) -> Option<Frame> {
        let periods = [self.setup.heartbeat_ms, self.setup.estimates_ms];
        let due = (0..2).find(|&which| periods[which] > 0 && self.due_ns[which] <= self.now_ns)?;
        self.jitter_state = self.jitter_state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let jitter_ns = i64::from(self.jitter_state >> 30) * STEP_NS;
        let whole_ns = (self.due_ns[due] / 1_000_000 + i64::from(periods[due])) * 1_000_000;
        self.due_ns[due] = whole_ns + jitter_ns;
        if self.deaf_s > 0.0 {
            return self.speak(common);
        }
        Some(match due {
            0 => odrive::frame(self.node, command::HEARTBEAT, &self.heartbeat().to_bytes()),
            _ => odrive::frame(self.node, command::ESTIMATES, &floats(self.estimates(common))),
        })
    }

    fn unasked_ns(&self, _: &Common) -> Option<i64> {
        let periods = [self.setup.heartbeat_ms, self.setup.estimates_ms];
        let due = (0..2).filter(|&which| periods[which] > 0).map(|which| self.due_ns[which] - self.now_ns);
        due.min().map(|ns| ns.max(STEP_NS))
    }
}
