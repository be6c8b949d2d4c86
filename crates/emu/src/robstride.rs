//! An emulated RobStride servo or CyberGear: commands, parameters, modes, faults, watchdog, reports, reply times.
//!
//! Made from the maker's manuals and from recordings of five drives (see [`khz_wire::robstride`]), without the firmware. Where
//! they leave something open, the assumption is the one that is harder for a host: a servo that is enabled carries out the last command it
//! got, also one of before; parameters are written while it runs, too, and act at once; every request for it feeds its watchdog,
//! which goes on while it is deaf after "set zero"; a question for its version stops it; after power-up it sends to host 0xFD
//! until another has asked it something. Of what it has to send the lowest identifier goes first, as in the mailboxes of its CAN
//! controller, so states overtake the value of a parameter while the bus is full.

use crate::body::JointState;
use crate::config::{Device, WireKind};
use crate::injection::Injection;
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use crate::mit::{self, Common, Motor as _, Scales};
use crate::noise::Noise;
use crate::twin::{Family, STEP_NS};
use khz_servo::robstride::REPLY_SPREAD_NS;
use khz_wire::Frame;
use khz_wire::mit::Scale;
use khz_wire::robstride::{
    MOST_ID, POSITION_RANGE, Reply, Request, State, TIMEOUT_PER_S, kind, mode, parameter, scale,
};
use std::f64::consts::{PI, TAU};

/// The parameters there are, and whether they can be written.
const TABLE: [(u16, bool); 35] = [
    (parameter::RUN_MODE, true),
    (0x7006, true),
    (0x700a, true),
    (parameter::TORQUE_LIMIT, true),
    (0x7010, true),
    (0x7011, true),
    (0x7014, true),
    (0x7016, true),
    (parameter::SPEED_LIMIT, true),
    (parameter::CURRENT_LIMIT, true),
    (POSITION, false),
    (0x701a, false),
    (VELOCITY, false),
    (parameter::VOLTAGE, false),
    (0x701e, true),
    (0x701f, true),
    (0x7020, true),
    (0x7021, true),
    (0x7022, true),
    (0x7024, true),
    (0x7025, true),
    (parameter::REPORT_PERIOD, true),
    (parameter::TIMEOUT, true),
    (parameter::ZERO_STATE, true),
    (parameter::DAMPER, true),
    (0x702b, true),
    (0x702c, true),
    (0x702d, true),
    (0x702e, true),
    (parameter::CYBERGEAR_TIMEOUT, true),
    (0x2005, false),
    (0x3016, false),
    (0x3017, false),
    (parameter::FAULTS, false),
    (parameter::WARNINGS, false),
];
const POSITION: u16 = 0x7019;
const VELOCITY: u16 = 0x701b;

/// Where it sends to before any host has asked it something.
const FIRST_HOST: u8 = 0xfd;
/// A request to store sets a CyberGear's bit rate: these, by its first byte from 1.
const CYBERGEAR_BPS: [u32; 4] = [1_000_000, 500_000, 250_000, 125_000];

/// Winding losses at the torque range, W: torque heats a great motor less than a small one.
const HEAT_AT_MOST: f64 = 50.0;
/// Below and above these it faults, V.
const SUPPLY: (f64, f64) = (12.0, 60.0);
/// It warns so far below the temperature at which it faults, and only from there on it may fault by itself, °C.
const WARNING_K: f64 = 10.0;

/// What it takes more to switch its output on, at least and at most, ns.
const ENABLE_NS: [f64; 2] = [1_180_000.0, 1_460_000.0];
/// A late reply is no later than this, ns.
const LATE_NS: f64 = 5_000_000.0;
/// From "set zero" to when it neither receives nor sends anything for a while, and that while, at least and at most, ns. Two drives were recorded
/// that were off then; of five that had been enabled before, 46 ms after "set zero", none missed a command.
const BLACKOUT_AFTER_NS: [f64; 2] = [500_000_000.0, 625_000_000.0];
const BLACKOUT_NS: [f64; 2] = [40_000_000.0, 67_000_000.0];

/// Bits of a fault word.
const OVER_TEMPERATURE: u32 = 1;
const UNDER_VOLTAGE: u32 = 1 << 2;
const OVER_VOLTAGE: u32 = 1 << 3;

/// What a RobStride motor or CyberGear is, and how it was left. The default is an RS02 as it is delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// It is a CyberGear.
    pub cybergear: bool,
    /// Half the range of positions, rad: beyond it they go round.
    pub position: f64,
    /// Half the range of velocities, rad/s.
    pub velocity: f64,
    /// Half the range of torques, N·m.
    pub torque: f64,
    /// The torque it is limited to, N·m.
    pub torque_limit: f64,
    /// Greatest position gain, N·m/rad.
    pub kp_most: f64,
    /// Greatest velocity gain, N·m·s/rad.
    pub kd_most: f64,
    /// It faults when board or windings are this warm, °C.
    pub fault_c: f64,
    /// After power-up its position is within half a turn of its zero, not between there and a whole turn: its zero has been stored
    /// `zero_sta` 1.
    pub centred: bool,
    /// It sends reports from the start: an earlier host has left it so.
    pub reports: bool,
    /// Share of its replies that come up to 5 ms late, at random, 0 to 1.
    pub late: f64,
    /// Of its firmware: each recorded model has one of its own.
    pub version: [u8; 4],
}

impl Setup {
    /// An RS02 as it leaves the factory.
    pub const RS02: Self = Self {
        cybergear: false,
        position: POSITION_RANGE,
        velocity: 44.0,
        torque: 17.0,
        torque_limit: 17.0,
        kp_most: 500.0,
        kd_most: 5.0,
        fault_c: 135.0,
        centred: false,
        reports: false,
        late: 0.0,
        version: [0, 2, 3, 34],
    };
}

impl Default for Setup {
    fn default() -> Self {
        Self::RS02
    }
}

/// What is a RobStride's own.
#[derive(Clone, Debug)]
pub struct Motor {
    setup: Setup,
    noise: Noise,
    id: u8,
    /// Who asked it last.
    host: u8,
    mode: u8,
    /// By bit, as in [`parameter::FAULTS`].
    faults: u32,
    /// It has still to report a fault.
    is_unreported: bool,
    parameters: [[u8; 4]; TABLE.len()],
    /// What survives a loss of power.
    stored: [[u8; 4]; TABLE.len()],
    /// Since the start, ns.
    now_ns: i64,
    /// Of the last reply.
    delay_ns: i64,
    /// When it next sends a report, if it does.
    report_ns: Option<i64>,
    /// From when to when it neither receives nor sends anything.
    blackout_ns: [i64; 2],
    /// It listens at another bit rate.
    is_deaf: bool,
}

impl Family for Setup {
    const MOST_ID: u8 = MOST_ID;

    type Servo = mit::Servo<Motor>;

    fn switched_on(device: Device<Self>, seed: u64) -> Result<Self::Servo, String> {
        let mut servo = mit::Servo::new(&device, Motor::new(device.id, device.family, seed));
        servo.restart();
        let motor = &mut servo.motor;
        motor.report_ns = device.family.reports.then(|| motor.report_period_ns());
        Ok(servo)
    }
}

impl Misbehaviours for Setup {
    fn suits(&self, injection: Injection) -> bool {
        mit::suits(injection)
    }

    /// A bit for each.
    fn has_fault(&self, code: u32) -> bool {
        code != 0
    }

    /// Calibration.
    fn other_modes(&self) -> &'static [u8] {
        &[1]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        match Request::parse(request)?.0 {
            Request::Command(codes) => Some(codes.kp > 0),
            Request::Stop { .. } => Some(false),
            _ => None,
        }
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        const MODE: u32 = 3 << 22;
        let mut altered = *reply;
        if State::parse(reply).is_some() {
            altered.id = reply.id & !MODE | u32::from(mode) << 22 & MODE;
        }
        altered
    }

    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame {
        let state = if State::parse(reply).is_some() { 0..8 } else { 0..0 };
        mit::frozen(state, reply, &mut first.frame)
    }
}

impl Motor {
    fn new(id: u8, setup: Setup, seed: u64) -> Self {
        let parameters = TABLE.map(|(number, _)| factory(number, &setup));
        Self {
            setup,
            noise: Noise::new(seed),
            id,
            host: FIRST_HOST,
            mode: mode::RESET,
            faults: 0,
            is_unreported: false,
            parameters,
            stored: parameters,
            now_ns: 0,
            delay_ns: 0,
            report_ns: None,
            blackout_ns: [i64::MIN; 2],
            is_deaf: false,
        }
    }

    fn place(&self, number: u16) -> Option<usize> {
        // A CyberGear's watchdog is another one, and much is not there.
        let is_there = if self.setup.cybergear {
            matches!(number, 0x7005..=0x7020 | parameter::CYBERGEAR_TIMEOUT)
        } else {
            number != parameter::CYBERGEAR_TIMEOUT
        };
        TABLE.iter().position(|(known, _)| *known == number).filter(|_| is_there)
    }

    fn number(&self, number: u16) -> f64 {
        self.place(number).map_or(0.0, |place| parameter::number(number, self.parameters[place]))
    }

    fn read(&self, common: &Common, number: u16) -> Option<[u8; 4]> {
        let place = self.place(number)?;
        let now = match number {
            POSITION | 0x3016 => common.measured.position,
            VELOCITY | 0x3017 => common.measured.velocity,
            parameter::VOLTAGE => common.device.supply_v,
            parameter::FAULTS => f64::from(self.faults),
            parameter::WARNINGS => f64::from(u8::from(self.is_warm(common, WARNING_K))),
            _ => return Some(self.parameters[place]),
        };
        Some(parameter::value(number, now))
    }

    fn write(&mut self, number: u16, value: [u8; 4]) {
        if let Some(place) = self.place(number).filter(|place| TABLE[*place].1) {
            self.parameters[place] = parameter::value(number, parameter::number(number, value));
        }
    }

    fn report_period_ns(&self) -> i64 {
        5_000_000 * (1 + (self.number(parameter::REPORT_PERIOD) as i64).max(1))
    }

    /// A random time between these, ns.
    fn draw_ns(&mut self, [least, most]: [f64; 2]) -> i64 {
        (least + self.noise.uniform() * (most - least)) as i64
    }

    fn identity(&self, common: &Common) -> Reply {
        let [number @ .., _, _, _, _, _, _, _, _] = common.device.uuid;
        Reply::Identity { id: self.id, number }
    }

    /// Carries out a request; what it answers.
    fn carry_out(
        &mut self,
        common: &mut Common,
        request: Request,
        frame: &Frame,
        wire: WireKind,
    ) -> Option<Reply> {
        let cybergear = self.setup.cybergear;
        match request {
            Request::Identity => return Some(self.identity(common)),
            Request::Command(codes) => {
                if self.number(parameter::RUN_MODE) == 0.0 {
                    common.command = codes;
                }
            }
            Request::Enable => self.enable(common),
            Request::Stop { clear } => self.stop(clear),
            Request::Version if cybergear => self.stop(false),
            Request::Version => {
                self.stop(false);
                return Some(Reply::Version { id: self.id, host: self.host, version: self.setup.version });
            }
            Request::SetZero => self.set_zero(common),
            Request::SetId(new) => {
                if (1..=MOST_ID).contains(&new) {
                    self.id = new;
                }
                return Some(self.identity(common));
            }
            Request::Read(number) => {
                let value = self.read(common, number);
                return Some(Reply::Value { id: self.id, host: self.host, parameter: number, value });
            }
            // Of the table that is kept without power only the watchdog is known.
            Request::ReadStored(number) => {
                let message =
                    self.read(common, number).filter(|_| cybergear && number == parameter::CYBERGEAR_TIMEOUT);
                let (id, host) = (self.id, self.host);
                return message.map(|value| Reply::Stored { id, host, parameter: number, value });
            }
            Request::Write(number, value) => self.write(number, value),
            Request::Store if cybergear => {
                self.set_bit_rate(frame.payload().first().copied(), wire);
                return Some(self.identity(common));
            }
            Request::Store => self.stored = self.parameters,
            Request::State => {}
            Request::Report(_) if cybergear => return None,
            Request::Report(on) => self.report_ns = on.then(|| self.now_ns + self.report_period_ns()),
        }
        Some(Reply::State(self.state(common)))
    }

    fn enable(&mut self, common: &Common) {
        if self.mode == mode::RESET && self.faults == 0 && !common.injected.asleep {
            self.mode = mode::RUN;
            self.delay_ns += self.draw_ns(ENABLE_NS);
        }
    }

    fn set_bit_rate(&mut self, code: Option<u8>, wire: WireKind) {
        let asked = code.and_then(|code| CYBERGEAR_BPS.get(usize::from(code).checked_sub(1)?));
        if let (Some(asked_bps), WireKind::CanFd { nominal_bps, .. }) = (asked, wire) {
            self.is_deaf = *asked_bps != nominal_bps;
        }
    }

    fn state(&self, common: &Common) -> State {
        let [position, velocity, torque] = common.codes(&self.scales());
        State {
            id: self.id,
            host: self.host,
            mode: self.mode,
            faults: summary(self.faults, self.setup.cybergear),
            position,
            velocity,
            torque,
            temperature: (10.0 * common.thermal.motor_c).round() as i16,
        }
    }

    fn stop(&mut self, clear: bool) {
        self.mode = mode::RESET;
        if clear {
            self.faults = 0;
        }
    }

    fn set_zero(&mut self, common: &mut Common) {
        common.offset = -common.joint.position;
        common.measured.position = 0.0;
        let from_ns = self.now_ns + self.draw_ns(BLACKOUT_AFTER_NS);
        self.blackout_ns = [from_ns, from_ns + self.draw_ns(BLACKOUT_NS)];
    }

    /// Board or windings are as warm as when it faults, or so much less.
    fn is_warm(&self, common: &Common, less_k: f64) -> bool {
        common.is_warm(self.setup.fault_c - less_k)
    }

    /// It has the bus's bit rate, and is not in the blackout after "set zero".
    fn is_on_bus(&self) -> bool {
        let [from_ns, until_ns] = self.blackout_ns;
        let is_dark = self.mode == mode::RESET && (from_ns..until_ns).contains(&self.now_ns);
        !self.is_deaf && !is_dark
    }

    /// What it sends unasked.
    fn unasked(&mut self, common: &Common) -> Option<Frame> {
        if std::mem::take(&mut self.is_unreported) {
            let warnings = u32::from(self.is_warm(common, WARNING_K));
            let report = Reply::Faults { id: self.id, host: self.host, faults: self.faults, warnings };
            return Some(report.to_frame());
        }
        let due_ns = self.report_ns.filter(|due_ns| *due_ns <= self.now_ns)?;
        self.report_ns = Some(due_ns + self.report_period_ns());
        Some(self.state(common).to_frame(kind::REPORT))
    }
}

impl mit::Motor for Motor {
    const GEAR: f64 = 9.0;
    const OVERHEATED: u32 = OVER_TEMPERATURE;

    fn scales(&self) -> Scales {
        Scales {
            position: scale(self.setup.position),
            velocity: scale(self.setup.velocity),
            torque: scale(self.setup.torque),
            kp: Scale::new(0.0, self.setup.kp_most, 16),
            kd: Scale::new(0.0, self.setup.kd_most, 16),
        }
    }

    fn is_on(&self) -> bool {
        self.mode == mode::RUN
    }

    fn has_fault(&self) -> bool {
        self.faults != 0
    }

    fn most_torque(&self) -> f64 {
        self.number(parameter::TORQUE_LIMIT).max(0.0).min(self.setup.torque)
    }

    fn winding_w(&self, torque: f64) -> f64 {
        HEAT_AT_MOST * (torque / self.setup.torque).powi(2)
    }

    fn takes(&self, request: &Frame) -> bool {
        self.is_on_bus() && Request::parse(request).is_some_and(|(_, id, _)| id == self.id)
    }

    fn answer(&mut self, common: &mut Common, request: &Frame, wire: WireKind) -> Option<Frame> {
        let (asked, _, host) = Request::parse(request)?;
        self.host = host.unwrap_or(self.host);
        common.silent_s = 0.0;
        self.delay_ns = self.draw_ns([0.0, REPLY_SPREAD_NS as f64]);
        if self.noise.uniform() < self.setup.late {
            self.delay_ns += self.draw_ns([0.0, LATE_NS]);
        }
        self.carry_out(common, asked, request, wire).map(|reply| reply.to_frame())
    }

    fn watch(&mut self, common: &mut Common, dt_s: f64) {
        common.silent_s += dt_s;
        let number = if self.setup.cybergear { parameter::CYBERGEAR_TIMEOUT } else { parameter::TIMEOUT };
        let timeout_s = self.number(number) / TIMEOUT_PER_S;
        if timeout_s > 0.0 && common.silent_s > timeout_s {
            self.mode = mode::RESET;
        }
        let volts = common.device.supply_v;
        let found = [
            (self.is_warm(common, 0.0), OVER_TEMPERATURE),
            (volts < SUPPLY.0, UNDER_VOLTAGE),
            (volts > SUPPLY.1, OVER_VOLTAGE),
        ];
        let found = found.into_iter().filter_map(|(is_so, bit)| is_so.then_some(bit)).sum::<u32>();
        if found & !self.faults != 0 {
            self.fault(found);
        }
    }

    fn fault(&mut self, code: u32) {
        self.faults |= code;
        self.mode = mode::RESET;
        self.is_unreported = true;
    }

    fn switch_off(&mut self) {
        self.mode = mode::RESET;
    }

    /// Of where it is it knows the place within a turn of its output.
    fn restart(&mut self, common: &mut Common) {
        self.parameters = self.stored;
        if self.setup.cybergear {
            common.offset = 0.0;
        }
        let first = if self.number(parameter::ZERO_STATE) == 0.0 { 0.0 } else { -PI };
        let position = first + (common.joint.position + common.offset - first).rem_euclid(TAU);
        common.offset = position - common.joint.position;
        common.measured = JointState { position, ..common.joint };
        (self.mode, self.faults, self.is_unreported, self.host) = (mode::RESET, 0, false, FIRST_HOST);
        (self.report_ns, self.blackout_ns) = (None, [i64::MIN; 2]);
    }

    fn pass(&mut self, dt_s: f64) {
        self.now_ns += (dt_s * 1e9).round() as i64;
    }

    fn wrapped(&self, position: f64) -> f64 {
        (position + self.setup.position).rem_euclid(2.0 * self.setup.position) - self.setup.position
    }

    fn shift(&self, common: &mut Common, by: f64) {
        common.offset += by;
        common.measure(common.joint, self);
    }

    fn supply_changed(&mut self, common: &mut Common) {
        self.watch(common, 0.0);
    }

    fn delay_ns(&self) -> i64 {
        self.delay_ns
    }

    fn can_speak(&self) -> bool {
        true
    }

    fn speak(&mut self, common: &Common) -> Option<Frame> {
        let unasked = self.unasked(common)?;
        self.is_on_bus().then_some(unasked)
    }

    fn unasked_ns(&self, common: &Common) -> Option<i64> {
        let report_ns = self.report_ns.map(|due_ns| (due_ns - self.now_ns).max(STEP_NS));
        let may_fault =
            self.is_unreported || self.is_warm(common, WARNING_K) && self.faults & OVER_TEMPERATURE == 0;
        let fault_ns = may_fault.then_some(STEP_NS);
        let first_ns = [report_ns, fault_ns].into_iter().flatten().min();
        first_ns.filter(|_| !self.is_deaf)
    }
}

/// A parameter as it is delivered, or was stored since.
fn factory(number: u16, motor: &Setup) -> [u8; 4] {
    let value = match number {
        parameter::TORQUE_LIMIT => motor.torque_limit,
        parameter::SPEED_LIMIT => motor.velocity,
        parameter::CURRENT_LIMIT => 16.0,
        parameter::REPORT_PERIOD => 1.0,
        parameter::ZERO_STATE => f64::from(u8::from(motor.centred)),
        _ => 0.0,
    };
    parameter::value(number, value)
}

/// The six bits a state has for a word of faults; some have none.
fn summary(faults: u32, cybergear: bool) -> u8 {
    let any = |bits: u32| faults & bits != 0;
    let stall = !cybergear && any(1 << 14);
    let groups = [
        any(UNDER_VOLTAGE),
        any(1 << 4 | 1 << 5 | 1 << 16),
        any(OVER_TEMPERATURE),
        any(1 << 9),
        stall,
        any(1 << 7),
    ];
    groups.into_iter().enumerate().map(|(bit, is_set)| u8::from(is_set) << bit).sum()
}
