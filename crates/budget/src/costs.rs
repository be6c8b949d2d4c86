//! What a frame costs on its wire, and the delays no robot file holds.

use khz_file::RobotConfig;
use khz_page::duration;
use khz_wire::Frame;
use khz_wire::serial::Packets;
use khz_wire::time::{CanBits, CanRate, EthernetRate, SpiCost, UartRate};

/// The physical layer of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// CAN-FD, with or without bit-rate switch.
    Can(CanRate, bool),
    /// RS485, half duplex.
    Serial(UartRate, Packets),
    /// Ethernet, full duplex, through one switch or more.
    Ethernet(EthernetRate),
    /// No time at all.
    Instant,
}

/// One frame on its wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes, framing included where it is counted in bytes.
    pub bytes: usize,
    /// Bits, stuff bits included.
    pub bits: u64,
    /// From the first bit to the last.
    pub frame_ns: i64,
    /// From the first bit to the earliest next frame.
    pub occupied_ns: i64,
}

impl Medium {
    /// What this frame costs, with the stuff bits that its contents need.
    pub fn cost(self, frame: &Frame) -> Cost {
        let len = frame.payload().len();
        match self {
            Self::Can(rate, brs) => {
                let mut frame = *frame;
                frame.brs = brs;
                let bits = CanBits::of(&frame);
                let total = bits.with_intermission();
                Cost {
                    bytes: len,
                    bits: u64::from(total.nominal + total.data),
                    frame_ns: bits.ns(rate),
                    occupied_ns: total.ns(rate),
                }
            }
            Self::Serial(rate, packets) => {
                let bytes = packets.wire_len(frame);
                let ns = rate.bytes_ns(bytes);
                let bits = bytes as u64 * u64::from(rate.bits_per_byte);
                Cost { bytes, bits, frame_ns: ns, occupied_ns: ns }
            }
            Self::Ethernet(rate) => datagram(rate, len),
            Self::Instant => Cost { bytes: len, ..Cost::default() },
        }
    }

    /// The same wire `factor` times as fast where its rate can be chosen: the data phase of CAN-FD.
    pub(super) fn faster(self, factor: f64) -> Self {
        let times = |rate: u32| (f64::from(rate) * factor) as u32;
        match self {
            Self::Can(rate, brs) => Self::Can(CanRate { data: times(rate.data), ..rate }, brs),
            Self::Serial(rate, packets) => {
                // What its servos can be set to.
                let most = match packets {
                    Packets::Feetech => khz_wire::feetech::BAUDS.into_iter().max(),
                    Packets::Dynamixel => khz_wire::dynamixel::BAUDS.into_iter().max(),
                    Packets::Moteus => None,
                };
                let baud = most.map_or(times(rate.baud), |most| times(rate.baud).min(most));
                Self::Serial(UartRate { baud, ..rate }, packets)
            }
            Self::Ethernet(rate) => {
                Self::Ethernet(EthernetRate { bits_per_second: times(rate.bits_per_second) })
            }
            Self::Instant => Self::Instant,
        }
    }
}

/// A UDP datagram with this payload.
pub(super) fn datagram(rate: EthernetRate, payload: usize) -> Cost {
    let bytes = EthernetRate::udp_bytes(payload) + EthernetRate::GAP;
    Cost {
        bytes,
        bits: 8 * bytes as u64,
        frame_ns: rate.udp_ns(payload),
        occupied_ns: rate.udp_occupied_ns(payload),
    }
}

/// A device between host and servos that passes frames on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// It takes a frame in completely before it sends it, so every byte travels twice, one after the other.
    pub stores: bool,
    /// What it adds to every frame besides.
    pub delay_ns: i64,
}

impl Bridge {
    /// From the first bit before the bridge to the last bit behind it.
    pub(super) fn pass_ns(self, frame_ns: i64) -> i64 {
        frame_ns * if self.stores { 2 } else { 1 } + self.delay_ns
    }
}

/// Commands that travel in frames of their own, all before the first query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Separate {
    /// Payload bytes of a command.
    pub payload: usize,
    /// Pause of the wire before each command.
    pub gap_ns: i64,
}

/// What the robot file does not have: delays of the computer and the devices, and the shape of other protocols.
/// All times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// From the end of a request to the start of its reply, where the file does not give it.
    pub turnaround_ns: i64,
    /// On half-duplex buses, from the end of a reply to the next query.
    pub host_gap_ns: i64,
    /// Handing one frame to a link.
    pub handover_ns: i64,
    /// From a frame's last bit until the loop has it.
    pub arrival_ns: i64,
    /// One pass through an adapter (fdcanusb), each way.
    pub adapter_ns: i64,
    /// Encoding one servo's command; decoding its reply takes as long.
    pub servo_ns: i64,
    /// The controller.
    pub control_ns: i64,
    /// The supervisor.
    pub supervise_ns: i64,
    /// Handing the tick to the recorder.
    pub record_ns: i64,
    /// From asking the IMU to its reading, where it is not on a pi3hat.
    pub imu_ns: i64,
    /// One SPI transaction of a pi3hat.
    pub spi: SpiCost,
    /// Bit rate of Ethernet links.
    pub ethernet: EthernetRate,
    /// Store-and-forward switches on the way.
    pub switches: i64,
    /// What each switch adds besides storing the frame.
    pub switch_ns: i64,
    /// A bridging device on every bus.
    pub bridge: Option<Bridge>,
    /// Commands in frames of their own.
    pub separate: Option<Separate>,
    /// Handing one frame to devices emulated in this process; 0 where it was not measured.
    pub emulated_send_ns: i64,
    /// The robot with which the computer's own parts were measured here; `None`: they are assumed.
    pub measured: Option<String>,
    /// The controller, too, was measured.
    pub control_measured: bool,
    /// Payload bytes of query and reply, where another protocol than ours made them.
    pub payload: Option<(usize, usize)>,
}

impl Inputs {
    /// For real links: a servo of 75 µs (mjbots, "Improving the moteus update rate", part 2: 70 to 80 µs), a host
    /// that polls (30 µs with blocking reads: part 3), 100 Mbit/s through one switch. The other delays are
    /// estimates, to be replaced by measured ones.
    pub const REAL: Self = Self {
        turnaround_ns: 75_000,
        host_gap_ns: 30_000,
        handover_ns: 3_000,
        arrival_ns: 10_000,
        adapter_ns: 125_000,
        servo_ns: 300,
        control_ns: 10_000,
        supervise_ns: 1_000,
        record_ns: 4_000,
        imu_ns: 40_000,
        spi: SpiCost::PI3HAT,
        ethernet: EthernetRate { bits_per_second: 100_000_000 },
        switches: 1,
        switch_ns: 3_000,
        bridge: None,
        separate: None,
        emulated_send_ns: 0,
        measured: None,
        control_measured: false,
        payload: None,
    };

    /// Emulated devices in this process, in virtual time: nothing but the emulated wires takes any.
    pub const VIRTUAL: Self = Self {
        host_gap_ns: 0,
        handover_ns: 0,
        arrival_ns: 0,
        servo_ns: 0,
        control_ns: 0,
        supervise_ns: 0,
        record_ns: 0,
        ..Self::REAL
    };

    /// [`Inputs::REAL`]; for a wholly emulated robot without the delays of links that are not there.
    pub fn of(robot: &RobotConfig) -> Self {
        if !robot.is_emulated() {
            return Self::REAL;
        }
        let Self { servo_ns, control_ns, supervise_ns, record_ns, .. } = Self::REAL;
        Self { servo_ns, control_ns, supervise_ns, record_ns, ..Self::VIRTUAL }
    }

    /// What was taken for granted, for the reader of a prediction.
    pub fn assumptions(&self, plan: &crate::TickPlan) -> Vec<String> {
        let us = |ns: i64| format!("{} µs", khz_page::number(ns as f64 / 1e3));
        let [servo, control, supervise, record] =
            [self.servo_ns, self.control_ns, self.supervise_ns, self.record_ns].map(us);
        let (origin, control_origin) = match &self.measured {
            None => (plan.file.named_in("assumed; `khz budget FILE --measure` measures it"), ""),
            Some(robot) if self.control_measured => (format!("measured here with `{robot}`"), ""),
            Some(robot) => {
                (format!("measured here with `{robot}`"), " (assumed: another controller was measured)")
            }
        };
        let mut assumptions = vec![format!(
            "host, {origin}: {servo} per servo to encode and again to decode, controller {control}{control_origin}, supervisor \
             {supervise}, recorder {record}"
        )];
        assumptions.extend(uncounted(plan));
        assumptions.extend(of_exchanges(plan));
        if plan.lines.iter().any(|line| line.delay_ns + line.jitter_ns > 0) {
            assumptions.push("`faults` delay replies on purpose, and that is counted".to_owned());
        }
        if plan.lines.iter().any(|line| line.is_half_duplex()) {
            assumptions.push(format!("from a reply to the next query {}", us(self.host_gap_ns)));
        }
        if plan.lines.iter().any(|line| line.is_real) {
            assumptions.push(format!(
                "servos answer after {}; handing over a frame takes {}, receiving one {}",
                us(self.turnaround_ns),
                us(self.handover_ns),
                us(self.arrival_ns)
            ));
        }
        let exchanges = plan.lines.iter().flat_map(|line| &line.exchanges);
        if let Some(ns) = exchanges.map(|exchange| exchange.delay_ns).max().filter(|ns| *ns > 0) {
            assumptions.push(format!("motors take {} more to answer, as the robot file says", us(ns)));
        }
        if plan.lines.iter().any(|line| line.adapter_ns > 0) {
            assumptions.push(format!("the adapter adds {} each way", us(self.adapter_ns)));
        }
        if plan.lines.iter().any(|line| matches!(line.medium, Medium::Can(..))) {
            assumptions.push(
                "frames are those of a robot at rest at 0, which need more stuff bits than most".to_owned(),
            );
        }
        if plan.lines.iter().any(|line| matches!(line.medium, Medium::Ethernet(_))) {
            let switches = if self.switches == 1 { "switch" } else { "switches" };
            assumptions.push(format!("{} {switches} of {} each", self.switches, us(self.switch_ns)));
        }
        if plan.lines.iter().any(|line| line.hat.is_some()) {
            let SpiCost { transaction_ns, byte_ns } = self.spi;
            assumptions
                .push(format!("SPI: {} per transaction and {byte_ns} ns per byte", us(transaction_ns)));
        }
        assumptions
    }
}

/// What the model takes for granted of what servos do when they are switched on, and by themselves.
fn of_exchanges(plan: &crate::TickPlan) -> Vec<String> {
    let exchanges = || plan.lines.iter().flat_map(|line| &line.exchanges);
    let switching = exchanges().map(|exchange| exchange.switching_ns).max().filter(|ns| *ns > 0).map(|ns| {
        format!(
            "cycles in which servos are switched on are not counted: the answer may take {} and travels beside the frames of another cycle; \
             a servo that is switched on misses no reply meanwhile, but where a cycle has less than one more exchange to spare, the \
             replies of others are late",
            duration(ns as f64)
        )
    });
    let by_itself = exchanges().find_map(|exchange| exchange.by_itself).map(|(_, ns)| {
        format!(
            "servos send what they do by themselves every {}; in the longest cycle all of them at once",
            duration(ns as f64)
        )
    });
    switching.into_iter().chain(by_itself).collect()
}

/// What the model does not know of the links, each reported once for all its buses.
fn uncounted(plan: &crate::TickPlan) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in &plan.lines {
        let Some(what) = line.uncounted() else { continue };
        match found.iter_mut().find(|(known, _)| *known == what) {
            Some((_, buses)) => buses.push(&line.name),
            None => found.push((what, vec![&line.name])),
        }
    }
    found.into_iter().map(|(what, buses)| format!("{}: {what}", buses.join(", "))).collect()
}
