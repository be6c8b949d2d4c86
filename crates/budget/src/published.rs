//! Systems whose figures are public, and the model's predictions for them.
//!
//! Each is a robot file of `robots/published` with the delays its article names. Where an article leaves
//! something out, what was taken instead is noted beside the figure.

use crate::costs::{Bridge, Inputs, Separate};
use crate::plan::TickPlan;
use khz_file::{ConfigError, RobotConfig};
use khz_wire::time::{EthernetPath, EthernetRate, SpiCost};
use serde::Serialize;
use std::fmt::Write;

const RS485: &str = include_str!("../robots/published/rs485.toml");
const PI3HAT: &str = include_str!("../robots/published/pi3hat.toml");
const DAMIAO: &str = include_str!("../robots/published/damiao_nine.toml");
const FD_CAN: &str = include_str!("../robots/published/fd_can_plan.toml");

/// A published figure beside the prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The system.
    pub system: &'static str,
    /// Where the figure stands.
    pub origin: &'static str,
    /// What was measured.
    pub quantity: &'static str,
    /// Unit of both figures.
    pub unit: &'static str,
    /// The published figure; none for a plan.
    pub published: Option<f64>,
    /// The model's.
    pub predicted: f64,
    /// The article gives every input.
    pub complete: bool,
    /// An input was derived from the published figure itself, so that the prediction can only agree with it: shown, and
    /// no evidence for the model.
    pub circular: bool,
    /// Assumptions.
    pub assumed: &'static str,
}

impl Published {
    /// Prediction against publication, as a share of the latter; none where the figure is an input.
    pub fn error(&self) -> Option<f64> {
        self.published.filter(|_| !self.circular).map(|published| self.predicted / published - 1.0)
    }
}

const PART_1: &str = "mjbots, Improving the moteus update rate, part 1";
const PART_2: &str = "mjbots, Improving the moteus update rate, part 2";
const PART_4: &str = "mjbots, Improving the moteus update rate, parts 3 and 4";
const HAT: &str = "mjbots, Measuring the pi3hat r4.2 performance";
const HEBI: &str = "HEBI Robotics, Analyzing the viability of Ethernet and UDP for robot control";

/// The CAN processors' SPI clock is 125 MHz by 12, that is 10.42 MHz (mjbots/pi3hat pi3hat.cc, AuxSpi).
const PI_SPI: SpiCost = SpiCost { byte_ns: 768, ..SpiCost::PI3HAT };

/// 3 Mbaud carries 300 000 bytes a second.
const BYTE_NS: i64 = 3_333;

/// The quadruped of part 1: commands first, then a query per servo.
fn part_1() -> Inputs {
    Inputs {
        turnaround_ns: 140_000,
        host_gap_ns: 200_000,
        bridge: Some(Bridge { stores: true, delay_ns: 45_000 }),
        separate: Some(Separate { payload: 26, gap_ns: 120_000 }),
        payload: Some((0, 26)),
        ..Inputs::VIRTUAL
    }
}

fn part_2() -> Inputs {
    Inputs { host_gap_ns: 100_000, bridge: Some(Bridge { stores: false, delay_ns: BYTE_NS }), ..part_1() }
}

/// 23 and 28 bytes less 7 of framing; with commands 14 bytes more.
fn part_4() -> Inputs {
    Inputs {
        turnaround_ns: 75_000,
        host_gap_ns: 4_000,
        bridge: None,
        separate: None,
        payload: Some((23 - 7 + 14, 28 - 7)),
        ..part_1()
    }
}

fn cycle_us(file: &str, name: &str, inputs: Inputs) -> Result<f64, ConfigError> {
    let robot = RobotConfig::parse(file, name)?;
    Ok(TickPlan::of(&robot, inputs).durations_ns()[0] as f64 / 1e3)
}

fn hebi(bits_per_second: u32, switches: u32, switch_delay_ns: i64) -> EthernetPath {
    let rate = EthernetRate { bits_per_second };
    EthernetPath { sender: rate, device: rate, switches, switch_delay_ns }
}

/// What one more switch of this kind adds to a round trip, µs.
fn switch_us(bits_per_second: u32, delay_ns: i64) -> f64 {
    let round_trip_ns = |switches| hebi(bits_per_second, switches, delay_ns).round_trip_ns(200);
    (round_trip_ns(2) - round_trip_ns(1)) as f64 / 1e3
}

/// Every published figure with its prediction.
///
/// # Errors
/// Never for the files as shipped; a test reads them.
pub fn all() -> Result<Vec<Published>, ConfigError> {
    let rows = [rs485_rows()?, hat_rows()?, hebi_rows(), damiao_rows()?, plan_rows()?];
    Ok(rows.into_iter().flatten().collect())
}

fn rs485_rows() -> Result<Vec<Published>, ConfigError> {
    let rs485 = |inputs| cycle_us(RS485, "robots/published/rs485.toml", inputs);
    Ok(vec![
        Published {
            system: "RS485, active junction board",
            origin: PART_1,
            quantity: "rate of commands and queries",
            unit: "Hz",
            published: Some(80.0),
            predicted: 1e6 / rs485(part_1())?,
            complete: true,
            circular: false,
            assumed: "nothing overlaps, as the article adds it up; its 90 µs are 45 each way, for commands too; a query \
             without payload, as in its sum",
        },
        Published {
            system: "RS485, passive bridge, PREEMPT_RT",
            origin: PART_2,
            quantity: "cycle",
            unit: "µs",
            published: Some(6727.0),
            predicted: rs485(part_2())?,
            complete: true,
            circular: false,
            assumed: "servo, frames and 120 µs between commands as in part 1; a byte time each way in the bridge",
        },
        Published {
            system: "RS485, everything optimised",
            origin: PART_4,
            quantity: "cycle with commands",
            unit: "µs",
            published: Some(3500.0),
            predicted: rs485(part_4())?,
            complete: false,
            circular: false,
            assumed: "servo 75 µs; the article gives the frames without commands, a command is taken as 14 bytes \
             more: two, and six values of two bytes",
        },
    ])
}

fn hat_rows() -> Result<Vec<Published>, ConfigError> {
    let hat = |spi| cycle_us(PI3HAT, "robots/published/pi3hat.toml", Inputs { spi, ..Inputs::VIRTUAL });
    let pi_4 = SpiCost { transaction_ns: PI_SPI.transaction_ns - 1_200, ..PI_SPI };
    Ok(vec![
        Published {
            system: "pi3hat, Pi 3b+",
            origin: HAT,
            quantity: "cycle of 12 servos and IMU",
            unit: "µs",
            published: Some(740.0),
            predicted: hat(PI_SPI)?,
            complete: false,
            circular: false,
            assumed: "the article does not give the frames: 20 and 16 bytes of payload; servo 75 µs; SPI at 10.42 MHz with \
             the documented holds, nothing for the host's own work",
        },
        Published {
            system: "pi3hat, Pi 4",
            origin: HAT,
            quantity: "cycle of 12 servos and IMU",
            unit: "µs",
            published: Some(703.0),
            predicted: hat(pi_4)?,
            complete: false,
            circular: true,
            assumed: "published as about 5 % less than the Pi 3b+; 1.2 µs less per SPI transaction, which is that 5 % spread \
             over some thirty of them; the rest as there",
        },
    ])
}

fn hebi_rows() -> Vec<Published> {
    vec![
        Published {
            system: "HEBI, 200 bytes at 100 Mbit/s",
            origin: HEBI,
            quantity: "wire time of a round trip",
            unit: "µs",
            published: Some(80.0),
            predicted: hebi(100_000_000, 1, 0).round_trip_ns(200) as f64 / 1e3,
            complete: true,
            circular: false,
            assumed: "one switch",
        },
        Published {
            system: "HEBI, one more switch (KSZ8863, 100 Mbit/s)",
            origin: HEBI,
            quantity: "added to a round trip",
            unit: "µs",
            published: Some(43.5),
            predicted: switch_us(100_000_000, 1_450),
            complete: true,
            circular: true,
            assumed: "the switch's own 2.9 µs, as published, half each way",
        },
        Published {
            system: "HEBI, one more switch (RB750Gr2, 1 Gbit/s)",
            origin: HEBI,
            quantity: "added to a round trip",
            unit: "µs",
            published: Some(7.66),
            predicted: switch_us(1_000_000_000, 1_800),
            complete: true,
            circular: true,
            assumed: "the switch's own 3.6 µs, as published, half each way",
        },
        Published {
            system: "HEBI, forty answers at 1 Gbit/s",
            origin: HEBI,
            quantity: "from answer to answer",
            unit: "µs",
            published: Some(2.0),
            predicted: hebi(1_000_000_000, 1, 0).burst_ns(200, 40) as f64 / 39e3,
            complete: true,
            circular: false,
            assumed: "200 bytes each, one behind the other at the sender's port",
        },
    ]
}

fn damiao_rows() -> Result<Vec<Published>, ConfigError> {
    let inputs = Inputs { turnaround_ns: 50_000, ..Inputs::VIRTUAL };
    Ok(vec![Published {
        system: "Damiao, nine motors on CAN-FD",
        origin: "Damiao's log of firmware 3.0, quoted in enactic/openarm issue 34",
        quantity: "rate of commands and states",
        unit: "Hz",
        published: Some(1000.0),
        predicted: 1e6 / cycle_us(DAMIAO, "robots/published/damiao_nine.toml", inputs)?,
        complete: false,
        circular: false,
        assumed: "\"1 kHz without loss\" is a rate that was reached, not the greatest; 5 Mbit/s as there; motors answer after 50 µs, \
                  for which there is no published figure; nothing for the host",
    }])
}

fn plan_rows() -> Result<Vec<Published>, ConfigError> {
    let fd_can = cycle_us(FD_CAN, "robots/published/fd_can_plan.toml", Inputs::VIRTUAL)?;
    Ok(vec![Published {
        system: "FD-CAN plan, 4 buses at 8 Mbit/s",
        origin: PART_4,
        quantity: "rate of commands and queries",
        unit: "Hz",
        published: None,
        predicted: 1e6 / fd_can,
        complete: false,
        circular: false,
        assumed: "a plan without a figure (\"1kHz … with plenty of margin\"); 1 Mbit/s arbitration; servo 75 µs; \
             frames of 20 and 16 bytes; nothing for SPI and the host",
    }])
}

/// The table of `docs/budget.md`, in Markdown.
pub fn table(rows: &[Published]) -> String {
    let mut text = String::from(
        "| system | figure | published | predicted | error | assumptions |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let Published { system, quantity, unit, assumed, .. } = row;
        let published = row.published.map_or("–".to_owned(), |figure| format!("{figure} {unit}"));
        let none = if row.circular { "figure is an input" } else { "–" };
        let error = row.error().map_or(none.to_owned(), |error| format!("{:+.1} %", 100.0 * error));
        let predicted = if row.predicted < 100.0 {
            format!("{:.2}", row.predicted)
        } else {
            format!("{:.0}", row.predicted)
        };
        // Writing to a string cannot fail.
        _ = writeln!(
            text,
            "| {system} | {quantity} | {published} | {predicted} {unit} | {error} | {assumed} |"
        );
    }
    text
}
