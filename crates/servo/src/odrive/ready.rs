//! What is sent to and requested from a servo before it may be driven: it is off, it sends nothing by itself but heartbeats, it knows where it is,
//! nothing is wrong with it, and its watchdog acts. Nothing moves, and nothing is kept.

use super::by_hand::Value;
use super::{Endpoints, Settings, fault};
use crate::exchange::{Exchange, ReplyCheck};
use khz_wire::Frame;
use khz_wire::odrive::{self, Heartbeat, Line, Sdo, Version, command, state};

/// The error for a drive that does not answer.
const IF_SILENT: &str = "check its power, its node (`axis0.config.can.node_id`), the bit rate (250 kbit/s from the factory), and its firmware";

/// A heartbeat comes within this, ns.
const BEAT_NS: i64 = 60_000_000;

/// So long it sends no estimates by itself, ns.
const QUIET_NS: i64 = 250_000_000;

/// What the silence is longer than the watchdog.
const LONGER: f64 = 1.2;

/// The exchanges in their order.
pub fn dialogue(settings: &Settings, id: u8, watchdog_s: f64) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let (mut exchanges, known) = match settings.endpoints.as_deref().map(Endpoints::load) {
        None => (Vec::new(), None),
        Some(Ok(endpoints)) => (vec![servo.firmware(None)], Some(endpoints)),
        // Nothing is set by unknown numbers.
        Some(Err(why)) => return vec![servo.firmware(Some(why))],
    };
    if let Some(endpoints) = &known {
        exchanges.push(servo.is_of(endpoints));
        exchanges.extend(servo.set(endpoints, (!settings.unwatched).then_some(watchdog_s)));
        exchanges.push(servo.cleared());
    }
    exchanges.push(servo.beats());
    if known.is_none() {
        exchanges.push(servo.firmware(None));
    }
    exchanges.extend([servo.quiet(), servo.errors(), servo.estimates(), servo.estimates()]);
    // What was read back needs no silence, in which 0.6 may not watch.
    if !settings.unwatched && known.is_none() {
        exchanges.extend([servo.cleared(), servo.watchdog(watchdog_s)]);
    }
    exchanges.push(servo.cleared());
    exchanges
}

/// What a run needs besides the watchdog, by the endpoints of firmware 0.6.
const FOR_RUNS: [(&str, f64); 4] = [
    ("axis0.config.can.heartbeat_msg_rate_ms", 20.0),
    ("axis0.config.can.encoder_msg_rate_ms", 0.0),
    ("axis0.controller.config.enable_gain_scheduling", 0.0),
    ("axis0.controller.config.circular_setpoints", 0.0),
];
/// How long its watchdog waits, s.
pub(super) const TIMEOUT: &str = "axis0.config.watchdog_timeout";
/// Whether its watchdog acts.
pub(super) const WATCHED: &str = "axis0.config.enable_watchdog";

struct Servo<'a> {
    settings: &'a Settings,
    id: u8,
}

impl Servo<'_> {
    fn line(&self) -> Line {
        self.settings.line()
    }

    /// A frame, and what is made of each message of this drive.
    fn exchange(
        &self,
        what: &str,
        frame: Frame,
        quiet_ns: i64,
        judge: impl Fn(u8, &[u8]) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let id = self.id;
        Exchange {
            what: what.to_owned(),
            if_silent: IF_SILENT,
            quiet_ns,
            frame,
            judge: Box::new(move |frame: &Frame| match odrive::parts(frame) {
                Some((node, message)) if node == id && !odrive::is_asking(frame) => {
                    judge(message, frame.payload())
                }
                _ => ReplyCheck::Unrelated,
            }),
        }
    }

    fn ask(&self, what: &str, asked: u8, judge: impl Fn(&[u8]) -> ReplyCheck + Send + 'static) -> Exchange {
        self.exchange(what, odrive::ask(self.id, asked), 0, move |message, payload| {
            if message == asked { judge(payload) } else { ReplyCheck::Unrelated }
        })
    }

    /// It is off, and reports so often enough.
    fn beats(&self) -> Exchange {
        let ask = odrive::ask(self.id, command::ESTIMATES);
        self.exchange("say by itself what it does", ask, BEAT_NS, move |message, payload| {
            match (message, Heartbeat::parse(payload)) {
                (command::HEARTBEAT, Some(Heartbeat { state: state::CLOSED_LOOP, .. })) => ReplyCheck::Wrong(
                    "it is on although it was told to switch off: another program drives it".to_owned(),
                ),
                (command::HEARTBEAT, Some(_)) => ReplyCheck::Good,
                (command::ESTIMATES, _) => ReplyCheck::Wrong(
                    "it sends no heartbeat within 60 ms, which alone tells whether it is on: set its heartbeat to 20 ms with `odrivetool` \
                     (0.6: `axis0.config.can.heartbeat_msg_rate_ms`, 0.5: `axis0.config.can.heartbeat_rate_ms`)"
                        .to_owned(),
                ),
                _ => ReplyCheck::Unrelated,
            }
        })
    }

    /// 0.6 reports its version; 0.5 has the controller's error where 0.6 has powers, and no version.
    fn firmware(&self, wrong: Option<String>) -> Exchange {
        if let Some(wrong) = wrong {
            return self.ask("tell its supply", command::BUS, move |_| ReplyCheck::Wrong(wrong.clone()));
        }
        match self.line() {
            Line::V06 => self.ask("tell its version (firmware 0.6; that of 0.5 is silent: write `odrive.firmware = \"0.5\"`)", command::VERSION, |payload| {
                match Version::parse(payload) {
                    Some(Version { firmware: [0, 6, _], .. }) => ReplyCheck::Good,
                    Some(Version { firmware: [major, minor, revision], .. }) => ReplyCheck::Wrong(format!(
                        "its firmware is {major}.{minor}.{revision}, whose messages nobody here knows: only 0.5.6 and 0.6 are"
                    )),
                    None => ReplyCheck::Unrelated,
                }
            }),
            Line::V05 => {
                let ask = odrive::ask(self.id, command::COUNT);
                self.exchange("count its encoder (firmware 0.5)", ask, 0, |message, payload| match message {
                    command::VERSION => ReplyCheck::Wrong("its firmware is 0.6: write `odrive.firmware = \"0.6\"`".to_owned()),
                    command::COUNT if payload.len() == 8 => ReplyCheck::Good,
                    _ => ReplyCheck::Unrelated,
                })
            }
        }
    }

    /// The file is of its firmware.
    fn is_of(&self, endpoints: &Endpoints) -> Exchange {
        let endpoints = endpoints.clone();
        self.ask("tell its version", command::VERSION, move |payload| {
            let Some(version) = Version::parse(payload) else { return ReplyCheck::Unrelated };
            endpoints.differ_from(version).map_or(ReplyCheck::Good, ReplyCheck::Wrong)
        })
    }

    /// Writes what a run needs, and reads it back. The watchdog comes last.
    fn set(&self, endpoints: &Endpoints, watchdog_s: Option<f64>) -> Vec<Exchange> {
        let watchdog = watchdog_s.map(|seconds| [(TIMEOUT, seconds), (WATCHED, 1.0)]);
        let all = FOR_RUNS.into_iter().chain(watchdog.into_iter().flatten());
        all.flat_map(|(path, value)| match Value::of(endpoints, path, value) {
            Ok(value) => vec![self.write(path, value), self.read_back(path, value)],
            Err(why) => vec![self.firmware(Some(why))],
        })
        .collect()
    }

    /// Nothing answers it; its next heartbeat comes after it.
    fn write(&self, path: &str, value: Value) -> Exchange {
        let frame = odrive::frame(self.id, command::RX_SDO, &value.sdo(true).to_bytes());
        self.exchange(
            &format!("say by itself what it does, when `{path}` was set"),
            frame,
            0,
            |message, _| {
                if message == command::HEARTBEAT { ReplyCheck::Good } else { ReplyCheck::Unrelated }
            },
        )
    }

    fn read_back(&self, path: &str, value: Value) -> Exchange {
        let frame = odrive::frame(self.id, command::RX_SDO, &value.sdo(false).to_bytes());
        let named = path.to_owned();
        self.exchange(&format!("tell its `{path}`"), frame, 0, move |message, payload| {
            let reported = Sdo::parse(payload)
                .filter(|reported| message == command::TX_SDO && reported.endpoint == value.endpoint);
            match reported {
                None => ReplyCheck::Unrelated,
                Some(reported) if value.is(reported.value) => ReplyCheck::Good,
                Some(reported) => {
                    let (is, was) = (value.read(reported.value), value.read(value.bytes));
                    ReplyCheck::Wrong(format!(
                        "its `{named}` is {is} although {was} was written: set it with `odrivetool`"
                    ))
                }
            }
        })
    }

    /// Estimates sent by itself could not be distinguished from answers.
    fn quiet(&self) -> Exchange {
        let ask = odrive::ask(self.id, command::BUS);
        self.exchange("tell its supply", ask, QUIET_NS, |message, payload| match message {
            command::ESTIMATES => ReplyCheck::Wrong(
                "it sends estimates by itself, which cannot be told from answers: switch that off with `odrivetool` \
                 (0.6: `axis0.config.can.encoder_msg_rate_ms = 0`, 0.5: `axis0.config.can.encoder_rate_ms = 0`)"
                    .to_owned(),
            ),
            command::BUS if payload.len() == 8 => ReplyCheck::Good,
            _ => ReplyCheck::Unrelated,
        })
    }

    fn errors(&self) -> Exchange {
        let line = self.line();
        let ask = odrive::ask(self.id, command::BUS);
        self.exchange("tell its errors by itself", ask, BEAT_NS, move |message, payload| {
            let Some(beat) = Heartbeat::parse(payload).filter(|_| message == command::HEARTBEAT) else {
                return ReplyCheck::Unrelated;
            };
            match fault(Heartbeat { errors: beat.errors & !line.watchdog(), ..beat }, line) {
                fault if fault.code == 0 => ReplyCheck::Good,
                fault => ReplyCheck::Wrong(format!(
                    "it says \"{}\" (error 0x{:X}); find out why (`odrivetool`: `dump_errors(odrv0)`), and clear it",
                    fault.text, fault.code
                )),
            }
        })
    }

    /// It knows where it is.
    fn estimates(&self) -> Exchange {
        let (settings, most) = (self.settings.clone(), self.settings.drive.ranges[0]);
        self.ask("tell where it is", command::ESTIMATES, move |payload| match settings.estimates(payload) {
            Some([position, _]) if position.abs() < most => ReplyCheck::Good,
            Some([position, _]) => ReplyCheck::Wrong(format!(
                "it is at {position:.2} rad, and positions travel up to {most:.2} rad: set `odrive.position_range` or its zero"
            )),
            None => ReplyCheck::Wrong(
                "it has no position estimate (zeros, or no numbers): calibrate its encoder, or search its index, and look at its wires"
                    .to_owned(),
            ),
        })
    }

    /// What its watchdog may have left is cleared.
    fn cleared(&self) -> Exchange {
        let (line, clear) = (self.line(), odrive::frame(self.id, command::CLEAR_ERRORS, &[0]));
        let mut exchange = self.exchange("be without an error", clear, 0, move |message, payload| {
            let beat = Heartbeat::parse(payload).filter(|_| message == command::HEARTBEAT);
            if beat.is_some_and(|beat| !beat.has_error(line)) {
                ReplyCheck::Good
            } else {
                ReplyCheck::Unrelated
            }
        });
        exchange.if_silent =
            "its errors are not cleared, or come again: `odrivetool` tells them (`dump_errors(odrv0)`)";
        exchange
    }

    /// It acts in a silence with its output off, and leaves an error. Firmware 0.6 is closed: whether it acts then is not known.
    fn watchdog(&self, watchdog_s: f64) -> Exchange {
        let (line, ask) = (self.line(), odrive::ask(self.id, command::BUS));
        let silence_ns = (watchdog_s * LONGER * 1e9) as i64 + BEAT_NS;
        self.exchange("tell its supply after a silence", ask, silence_ns, move |message, payload| {
            match (message, Heartbeat::parse(payload)) {
                (command::HEARTBEAT, Some(beat)) if beat.errors & line.watchdog() != 0 => ReplyCheck::Good,
                (command::BUS, _) => ReplyCheck::Wrong(format!(
                    "it was told nothing for {:.0} ms, and its watchdog did not act: nothing stops it when this computer fails. Set \
                     `axis0.config.watchdog_timeout = {watchdog_s}` and `axis0.config.enable_watchdog = True` with `odrivetool`, which it \
                     keeps, or accept that with `odrive.unwatched = true`",
                    silence_ns as f64 * 1e-6
                )),
                _ => ReplyCheck::Unrelated,
            }
        })
    }
}
