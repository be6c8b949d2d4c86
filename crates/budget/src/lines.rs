//! How the frames of one cycle share their wires.

use crate::costs::{Bridge, Cost, Medium, datagram};
use crate::plan::{Exchange, Line, TickPlan, resized};
use crate::timeline::{Moment, SpanKind, Timeline};
use khz_file::config::ImuLink;
use khz_loop::Aside;
use khz_wire::time::{EthernetRate, arbitration_rank};
use khz_wire::{Frame, udp};
use std::collections::VecDeque;

/// The host's own row.
pub(super) const HOST: &str = "host";
/// Bytes of an attitude a host reads from a pi3hat (mjbots/pi3hat pi3hat.cc).
const ATTITUDE: usize = 42;
/// Bytes of a pi3hat's receive status, as its host reads it, and the most frames it announces.
const STATUS: usize = 6;
/// A host finds nothing on any processor of a pi3hat and rests (mjbots/pi3hat pi3hat.cc).
const REST_NS: i64 = 10_000;

/// When each part of a tick is over, from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub encoded_ns: i64,
    pub sent_ns: i64,
    pub replied_ns: i64,
    pub over_ns: i64,
    pub controlled_ns: i64,
    pub supervised_ns: i64,
    pub recorded_ns: i64,
}

impl TickPlan {
    /// Lays out one cycle. Everything starts at 0, with the encoding.
    pub fn timeline(&self) -> Timeline {
        let mut timeline = Timeline::default();
        self.cycle(&mut timeline);
        timeline
    }

    /// Lays out the tick; when each of its parts is over.
    pub(super) fn cycle(&self, timeline: &mut Timeline) -> Ends {
        let inputs = &self.inputs;
        let servos = self.servos() as i64;
        let encoded =
            timeline.add(HOST, SpanKind::Encode, "all commands", Moment::default(), servos * inputs.servo_ns);
        let (handed, sent) = self.hand_over(timeline, encoded);
        let (sent, read) = self.ask_imu(timeline, sent);
        let mut replied = sent;
        let mut fetched = Vec::new();
        for (line, handed) in self.lines.iter().zip(&handed) {
            for (arrived, exchange) in self.replies(timeline, line, handed) {
                // On a half-duplex bus the next query waits for it.
                let arrived =
                    if line.is_half_duplex() { arrived } else { self.delayed(timeline, line, arrived) };
                if line.hat.is_some() {
                    fetched.push((arrived, line, exchange));
                } else {
                    let ns = if line.is_real { inputs.arrival_ns } else { 0 };
                    let there = timeline.add(&line.name, SpanKind::Transit, "to the loop", arrived, ns);
                    replied = replied.max(there);
                }
            }
        }
        replied = replied.max(self.fetch(timeline, fetched, sent));
        let replied = timeline.add(HOST, SpanKind::Encode, "all replies", replied, servos * inputs.servo_ns);
        let over = replied.max(read);
        let start = if self.pipelined { encoded } else { over };
        let controlled = over.max(timeline.add(HOST, SpanKind::Control, "", start, inputs.control_ns));
        let supervised = timeline.add(HOST, SpanKind::Supervise, "", controlled, inputs.supervise_ns);
        let recorded = timeline.add(HOST, SpanKind::Record, "", supervised, inputs.record_ns);
        let [encoded_ns, sent_ns, replied_ns, over_ns, controlled_ns, supervised_ns, recorded_ns] =
            [encoded, sent, replied, over, controlled, supervised, recorded].map(|moment| moment.ns);
        Ends { encoded_ns, sent_ns, replied_ns, over_ns, controlled_ns, supervised_ns, recorded_ns }
    }

    /// Hands the frames to the links, round robin over the buses: per bus when each was, and the end.
    fn hand_over(&self, timeline: &mut Timeline, start: Moment) -> (Vec<Vec<Moment>>, Moment) {
        let mut now = start;
        let mut handed = vec![Vec::new(); self.lines.len()];
        let rounds = self.lines.iter().map(|line| line.exchanges.len()).max().unwrap_or(0);
        for round in 0..rounds {
            for (line, handed) in self.lines.iter().zip(&mut handed) {
                let Some(exchange) = line.exchanges.get(round) else { continue };
                // Half-duplex queries after the first are handed over in the host's gap.
                if round == 0 || !line.is_half_duplex() {
                    let ns = self.hand_over_ns(line, exchange) * (1 + exchange.besides.len() as i64);
                    now =
                        timeline.add(HOST, SpanKind::Host, &format!("hand over {}", exchange.name), now, ns);
                }
                handed.push(now);
            }
        }
        (handed, now)
    }

    fn hand_over_ns(&self, line: &Line, exchange: &Exchange) -> i64 {
        match line.hat {
            // Port and size, two bytes of identifier, the payload.
            Some(_) => self.inputs.spi.transaction_with_ns(3 + exchange.command.payload().len()),
            None if line.is_real => self.inputs.handover_ns,
            None => self.inputs.emulated_send_ns,
        }
    }

    /// When the IMU has been asked, and when its reading is there.
    fn ask_imu(&self, timeline: &mut Timeline, sent: Moment) -> (Moment, Moment) {
        match self.imu {
            // Readings of a device behind Ethernet come with its reply.
            None | Some(ImuLink::Udp) => (sent, sent),
            Some(ImuLink::Pi3hat) => {
                let ns = self.inputs.spi.transaction_with_ns(ATTITUDE);
                let read = timeline.add(HOST, SpanKind::Imu, "read over SPI", sent, ns);
                (read, read)
            }
            Some(_) => (sent, timeline.add("IMU", SpanKind::Imu, "", sent, self.inputs.imu_ns)),
        }
    }

    /// When each reply of a bus has left it.
    fn replies<'a>(
        &self,
        timeline: &mut Timeline,
        line: &'a Line,
        handed: &[Moment],
    ) -> Vec<(Moment, &'a Exchange)> {
        match line.medium {
            Medium::Serial(..) => self.half_duplex(timeline, line, handed),
            Medium::Ethernet(rate) => self.datagrams(timeline, line, handed, rate),
            medium @ (Medium::Can(..) | Medium::Instant) => {
                self.arbitrated(timeline, line, &line.name, medium, handed)
            }
        }
    }

    fn half_duplex<'a>(
        &self,
        timeline: &mut Timeline,
        line: &'a Line,
        handed: &[Moment],
    ) -> Vec<(Moment, &'a Exchange)> {
        let inputs = &self.inputs;
        let Some(&(mut now)) = handed.first() else { return Vec::new() };
        if let Some(separate) = inputs.separate {
            for exchange in &line.exchanges {
                now = timeline.add(&line.name, SpanKind::Gap, &exchange.name, now, separate.gap_ns);
                let command = resized(&exchange.command, separate.payload);
                now = self.pass(timeline, line, SpanKind::Command, exchange, &command, now);
            }
        }
        let mut arrived = Vec::new();
        // When the next question goes out; servos that are asked together answer without waiting for that.
        let mut next = now;
        for exchange in &line.exchanges {
            let asked = exchange.asked();
            if !asked.is_empty() {
                now = timeline.add(&line.name, SpanKind::Gap, &exchange.name, next, inputs.host_gap_ns);
            }
            for frame in asked {
                now = self.pass(timeline, line, SpanKind::Command, exchange, frame, now);
            }
            let ns = self.turnaround_ns(line, exchange);
            now = timeline.add(&line.name, SpanKind::Turnaround, &exchange.name, now, ns);
            now = self.pass(timeline, line, SpanKind::Reply, exchange, &exchange.reply, now);
            // Also where a fault delays it, the reply is waited for: as long as the queries behind it have time.
            next = self.delayed(timeline, line, now);
            arrived.push((next, exchange));
        }
        arrived
    }

    /// A reply that the robot file delays on purpose.
    fn delayed(&self, timeline: &mut Timeline, line: &Line, from: Moment) -> Moment {
        let ns = line.delay_ns + (line.jitter_ns as f64 * self.lateness) as i64;
        timeline.add(&line.name, SpanKind::Transit, "injected delay", from, ns)
    }

    /// A frame on the wire, and through the bridge if there is one.
    fn pass(
        &self,
        timeline: &mut Timeline,
        line: &Line,
        kind: SpanKind,
        exchange: &Exchange,
        frame: &Frame,
        from: Moment,
    ) -> Moment {
        let cost = line.medium.cost(frame);
        let ns = self.inputs.bridge.map_or(cost.frame_ns, |bridge: Bridge| bridge.pass_ns(cost.frame_ns));
        timeline.add(&line.name, kind, &detail(exchange, cost), from, ns)
    }

    /// From the end of a request to the start of its reply.
    fn turnaround_ns(&self, line: &Line, exchange: &Exchange) -> i64 {
        match line.medium {
            Medium::Instant => 0,
            _ => line.turnaround_ns + exchange.delay_ns + (exchange.spread_ns as f64 * self.lateness) as i64,
        }
    }

    /// The host's frames in their order against replies as they become ready: the lowest identifier wins.
    fn arbitrated<'a>(
        &self,
        timeline: &mut Timeline,
        line: &'a Line,
        wire: &str,
        medium: Medium,
        handed: &[Moment],
    ) -> Vec<(Moment, &'a Exchange)> {
        let mut queue: VecDeque<_> = VecDeque::new();
        for (exchange, &ready) in line.exchanges.iter().zip(handed) {
            let ready = timeline.add(wire, SpanKind::Transit, "adapter", ready, line.adapter_ns);
            queue.extend(exchange.sent(self.turn).map(|sent| Sent { ready, ..sent }));
        }
        let mut replies = line.unsolicited(self.lateness, self.unsolicited_ns);
        let (mut free, mut arrived) = (Moment::default(), Vec::new());
        while !(queue.is_empty() && replies.is_empty()) {
            let waiting = queue.iter().take(1).chain(&replies).map(|sent| sent.ready);
            let Some(first) = waiting.min_by_key(|ready| ready.ns) else { break };
            let winner = winner(queue.front(), &replies, first.ns.max(free.ns));
            let Some(sent) = winner.map(|index| replies.remove(index)).or_else(|| queue.pop_front()) else {
                break;
            };
            let cost = medium.cost(sent.frame);
            let detail = detail(sent.exchange, cost);
            let end = timeline.add(wire, sent.kind, &detail, sent.ready.max(free), cost.frame_ns);
            free = Moment { ns: end.ns + cost.occupied_ns - cost.frame_ns, span: end.span };
            if let Some((kind, frame)) = sent.answer {
                let row = format!("{wire} devices");
                let ns = self.turnaround_ns(line, sent.exchange);
                let ready = timeline.add(&row, SpanKind::Turnaround, &sent.exchange.name, end, ns);
                replies.push(Sent { ready, kind, frame, answer: None, ..sent });
            } else if sent.kind == SpanKind::Reply {
                let end = timeline.add(wire, SpanKind::Transit, "adapter", end, line.adapter_ns);
                arrived.push((end, sent.exchange));
            }
        }
        arrived
    }

    /// One datagram with all commands; every device answers with its own, and they queue at the host's port.
    fn datagrams<'a>(
        &self,
        timeline: &mut Timeline,
        line: &'a Line,
        handed: &[Moment],
        rate: EthernetRate,
    ) -> Vec<(Moment, &'a Exchange)> {
        let Some(&last) = handed.last() else { return Vec::new() };
        let commands = datagram(rate, udp_payload(line.exchanges.iter().map(|e| &e.command)));
        let through = |timeline: &mut Timeline, from: Moment, cost: Cost| {
            let ns = self.inputs.switches * (cost.frame_ns + self.inputs.switch_ns);
            timeline.add(&format!("{} switches", line.name), SpanKind::Transit, "", from, ns)
        };
        let sent = timeline.add(&line.name, SpanKind::Command, "all commands", last, commands.frame_ns);
        let there = through(timeline, sent, commands);
        let (mut free, mut arrived) = (Moment::default(), Vec::new());
        for (at, (ready, exchange)) in self.behind(timeline, line, there).into_iter().enumerate() {
            let sensors = if self.imu == Some(ImuLink::Udp) && at == 0 { udp::SENSORS_ENTRY } else { 0 };
            let cost = datagram(rate, udp_payload([&exchange.reply]) + sensors);
            let at_port = through(timeline, ready, cost);
            let end = timeline.add(
                &line.name,
                SpanKind::Reply,
                &detail(exchange, cost),
                at_port.max(free),
                cost.frame_ns,
            );
            free = Moment { ns: end.ns + cost.occupied_ns - cost.frame_ns, span: end.span };
            arrived.push((end, exchange));
        }
        arrived
    }

    /// When each reply of the servos behind an Ethernet port is there, if their commands are at `from`.
    fn behind<'a>(
        &self,
        timeline: &mut Timeline,
        line: &'a Line,
        from: Moment,
    ) -> Vec<(Moment, &'a Exchange)> {
        if let Some(medium) = line.behind {
            let all = vec![from; line.exchanges.len()];
            return self.arbitrated(timeline, line, &format!("{} bus", line.name), medium, &all);
        }
        let slowest = line.exchanges.iter().map(|exchange| self.turnaround_ns(line, exchange)).max();
        let row = format!("{} devices", line.name);
        let ready = timeline.add(&row, SpanKind::Turnaround, "all servos", from, slowest.unwrap_or(0));
        line.exchanges.iter().map(|exchange| (ready, exchange)).collect()
    }

    /// Reads replies from the processors of a pi3hat: status, then up to six frames, until all are in.
    fn fetch(
        &self,
        timeline: &mut Timeline,
        mut waiting: Vec<(Moment, &Line, &Exchange)>,
        start: Moment,
    ) -> Moment {
        let spi = self.inputs.spi;
        let mut now = start;
        waiting.sort_by_key(|(arrived, ..)| arrived.ns);
        while !waiting.is_empty() {
            let before = waiting.len();
            for processor in 0..3 {
                let here = |line: &Line| line.hat.map(|channel| (channel.saturating_sub(1) / 2).min(2));
                if !waiting.iter().any(|(_, line, _)| here(line) == Some(processor)) {
                    continue;
                }
                let seen_ns = now.ns;
                now = timeline.add(HOST, SpanKind::Host, "status", now, spi.transaction_with_ns(STATUS));
                let mut room = STATUS;
                waiting.retain(|(arrived, line, exchange)| {
                    let ready = here(line) == Some(processor) && arrived.ns <= seen_ns && room > 0;
                    if ready {
                        room -= 1;
                        // Port and size, four bytes of identifier, the payload.
                        let ns = spi.transaction_with_ns(5 + exchange.reply.payload().len());
                        now =
                            timeline.add(HOST, SpanKind::Host, &format!("fetch {}", exchange.name), now, ns);
                    }
                    !ready
                });
            }
            if waiting.len() == before {
                // Nothing came: what is waited for is the next reply.
                let rested = Moment { ns: now.ns + REST_NS, ..now };
                let next = waiting.first().map_or(rested, |(arrived, ..)| *arrived);
                now = if next.ns > rested.ns { next } else { Moment { ns: rested.ns, span: next.span } };
            }
        }
        now
    }
}

/// The median of how often something happens at random is the mean and this, rounded down.
const MEDIAN: f64 = 0.3;

/// A frame that waits for the wire.
#[derive(Clone, Copy)]
struct Sent<'a> {
    ready: Moment,
    kind: SpanKind,
    exchange: &'a Exchange,
    frame: &'a Frame,
    /// What comes back.
    answer: Option<(SpanKind, &'a Frame)>,
}

impl Exchange {
    /// The host's frames in a cycle in which servos have this turn to be asked something besides.
    fn sent(&self, turn: u32) -> impl Iterator<Item = Sent<'_>> {
        let of = |kind, frame, answer| Sent { ready: Moment::default(), kind, exchange: self, frame, answer };
        let besides = self.besides.iter().map(move |frame| of(SpanKind::Command, frame, None));
        let aside = self.aside.as_ref().filter(|aside| aside.turn == turn);
        let aside = aside.map(|Aside { frames: [question, answer], .. }| {
            of(SpanKind::Aside, question, Some((SpanKind::Aside, answer)))
        });
        let command = of(SpanKind::Command, &self.command, Some((SpanKind::Reply, &self.reply)));
        besides.chain(aside).chain([command])
    }
}

impl Line {
    /// What servos send by themselves in a cycle: at the latest all of them at this time, as those do that were switched on together;
    /// usually as many as there are of them in so long.
    fn unsolicited(&self, lateness: f64, unsolicited_ns: i64) -> Vec<Sent<'_>> {
        let own = self.exchanges.iter().filter_map(|exchange| {
            let (frame, every_ns) = exchange.by_itself.as_ref()?;
            let ready = Moment { ns: unsolicited_ns, span: None };
            Some((*every_ns, Sent { ready, kind: SpanKind::Aside, exchange, frame, answer: None }))
        });
        let usual: f64 = own.clone().map(|(every_ns, _)| self.busy_ns() as f64 / every_ns as f64).sum();
        let count = if lateness < 1.0 { (usual + MEDIAN) as usize } else { usize::MAX };
        own.map(|(_, sent)| sent).take(count).collect()
    }

    /// How long the frames of every cycle are on the wire.
    fn busy_ns(&self) -> i64 {
        let frames = self
            .exchanges
            .iter()
            .flat_map(|exchange| exchange.besides.iter().chain([&exchange.command, &exchange.reply]));
        frames.map(|frame| self.medium.cost(frame).occupied_ns).sum()
    }

    /// What does not travel in every tick, on average.
    pub(super) fn seldom(&self, period_ns: i64) -> Cost {
        let mut sum = [0.0; 2];
        for exchange in &self.exchanges {
            let aside = exchange.aside.iter();
            let aside = aside
                .flat_map(|aside| aside.frames.iter().map(|frame| (frame, 1.0 / f64::from(aside.every))));
            let own = exchange
                .by_itself
                .iter()
                .map(|(frame, every_ns)| (frame, period_ns as f64 / *every_ns as f64));
            for (frame, share) in aside.chain(own) {
                let cost = self.medium.cost(frame);
                sum = [sum[0] + share * cost.bits as f64, sum[1] + share * cost.frame_ns as f64];
            }
        }
        Cost { bits: sum[0] as u64, frame_ns: sum[1] as i64, ..Cost::default() }
    }
}

/// Who wins a wire that is free at this time: one of the replies, or the command.
fn winner(command: Option<&Sent<'_>>, replies: &[Sent<'_>], at_ns: i64) -> Option<usize> {
    let command = command.filter(|sent| sent.ready.ns <= at_ns);
    let command_rank = command.map(|sent| arbitration_rank(sent.frame));
    let ready = replies.iter().enumerate().filter(|(_, sent)| sent.ready.ns <= at_ns);
    let (rank, index) = ready.map(|(index, sent)| (arbitration_rank(sent.frame), index)).min()?;
    command_rank.is_none_or(|command_rank| rank < command_rank).then_some(index)
}

fn detail(exchange: &Exchange, cost: Cost) -> String {
    format!("{}, {} bytes", exchange.name, cost.bytes)
}

/// Bytes of a datagram with these frames.
fn udp_payload<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> usize {
    let mut buffer = [0; udp::MAX_DATAGRAM];
    let header = udp::Header { kind: udp::DatagramKind::Request, sequence: 0 };
    let Ok(mut writer) = udp::Writer::new(header, &mut buffer) else { return 0 };
    frames.into_iter().take_while(|frame| writer.push(0, frame).is_ok()).count();
    writer.written().len()
}
