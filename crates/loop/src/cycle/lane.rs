//! One bus within the cycle: who is next, and on half-duplex buses who is being waited for.

use super::CycleResult;
use super::device::Device;
use khz_link::{Link, LinkError};
use khz_servo::{ServoCommand, ServoState, Servos, Taken};
use khz_wire::Frame;

/// One bus.
#[derive(Debug)]
pub struct Lane {
    pub link: usize,
    channel: u8,
    half_duplex: bool,
    /// Its servos, by family, …
    families: Vec<Box<dyn Servos>>,
    /// … and by turn.
    numbers: Box<[usize]>,
    /// Turns in the order they are taken.
    order: Vec<Turn>,
    /// The same before some of them were put first for this cycle; see [`Lane::put_reading_first`].
    usual: Vec<Turn>,
    is_reordered: bool,
    /// Turns of `order` already taken in this cycle.
    taken: usize,
    /// Requests of the present turn already sent.
    part: usize,
    /// A half-duplex query on its way, …
    outstanding: Option<Turn>,
    /// … since when, …
    since_ns: i64,
    /// … and until when its reply is waited for.
    until_ns: i64,
    /// How long each turn's query took to be answered by all when it last was, in the order of `usual` at the start; 0: not asked yet.
    took_ns: Box<[i64]>,
    /// It was sent in an earlier cycle: its replies come too late for that one, but the bus is not free before.
    is_old: bool,
    /// So many of its replies are still to come then.
    to_come: usize,
    down: bool,
}

/// A turn of a family.
#[derive(Clone, Copy, Debug)]
struct Turn {
    family: usize,
    turn: usize,
    /// Its place in [`Lane::took_ns`].
    number: usize,
    /// Where its servos are among those of the bus.
    from: usize,
    to: usize,
}

impl Lane {
    pub fn new(link: usize, channel: u8, half_duplex: bool, families: Vec<Box<dyn Servos>>) -> Self {
        let (mut order, mut numbers) = (Vec::new(), Vec::new());
        for (family, servos) in families.iter().enumerate() {
            for turn in 0..servos.turns() {
                let from = numbers.len();
                numbers.extend_from_slice(servos.servos(turn));
                order.push(Turn { family, turn, number: order.len(), from, to: numbers.len() });
            }
        }
        Self {
            link,
            channel,
            half_duplex,
            families,
            numbers: numbers.into(),
            usual: order.clone(),
            is_reordered: false,
            took_ns: vec![0; order.len()].into(),
            order,
            taken: 0,
            part: 0,
            outstanding: None,
            since_ns: i64::MIN,
            until_ns: i64::MAX,
            is_old: false,
            to_come: 0,
            down: false,
        }
    }

    /// A query waits for the reply to the one before.
    pub fn is_half_duplex(&self) -> bool {
        self.half_duplex
    }

    #[inline]
    fn servos(&self, turn: &Turn) -> &[usize] {
        &self.numbers[turn.from..turn.to]
    }

    pub fn made_ready(&mut self, mark: u32) {
        self.families.iter_mut().for_each(|servos| servos.made_ready(mark));
    }

    pub fn unanswered(&mut self) {
        self.families.iter_mut().for_each(|servos| servos.unanswered());
    }

    pub fn clear_timeout(&mut self, servo: usize) {
        self.families.iter_mut().for_each(|servos| servos.clear_timeout(servo));
    }

    /// A cycle begins: makes its requests.
    pub fn begin(&mut self, commands: &[ServoCommand]) {
        self.families.iter_mut().for_each(|servos| servos.begin(commands));
        (self.taken, self.part) = (0, 0);
        self.down = false;
        if self.families.iter().any(|servos| servos.reading() > 0) {
            self.put_reading_first();
        }
    }

    /// Turns that read a register are taken before the others; see [`Servos::reading`].
    fn put_reading_first(&mut self) {
        self.usual.copy_from_slice(&self.order);
        self.is_reordered = true;
        let mut first = 0;
        for place in 0..self.order.len() {
            let Turn { family, turn, .. } = self.order[place];
            if self.families[family].is_reading(turn) {
                self.order[first..=place].rotate_right(1);
                first += 1;
            }
        }
    }

    /// There may be a frame for the link: not all had their turn, and the bus is not waiting for a reply.
    #[inline]
    pub fn may_send(&self) -> bool {
        !self.is_sent() && self.outstanding.is_none()
    }

    /// No frame of this cycle is left, or the bus does not take it.
    #[inline]
    pub fn is_sent(&self) -> bool {
        self.taken >= self.order.len() || self.down
    }

    /// Offers the next frame to the link, after [`Lane::may_send`]; replies count until `deadline_ns`. True if the link took it.
    pub fn send_next(
        &mut self,
        devices: &mut [Device],
        links: &mut [Box<dyn Link>],
        [now_ns, deadline_ns]: [i64; 2],
        result: &mut CycleResult,
    ) -> bool {
        let Some(turn) = self.order.get(self.taken) else { return false };
        let servos = &mut *self.families[turn.family];
        let Some(request) = servos.request(turn.turn, self.part) else {
            self.keep_quiet(devices, result);
            return self.send_next(devices, links, [now_ns, deadline_ns], result);
        };
        let replies = request.replies;
        match links[self.link].send(self.channel, &request, now_ns) {
            Ok(()) => {}
            Err(LinkError::Full) => return false,
            Err(LinkError::Down { .. } | LinkError::Unsupported) => {
                self.down = true;
                result.links_down |= 1 << self.link;
                return false;
            }
        }
        if servos.sent(turn.turn, self.part, now_ns) {
            self.numbers[turn.from..turn.to].iter().for_each(|&servo| devices[servo].asked());
            (self.taken, self.part) = (self.taken + 1, 0);
        } else {
            self.part += 1;
        }
        if self.half_duplex && replies > 0 {
            self.wait_for(*turn, devices, [now_ns, deadline_ns]);
        }
        true
    }

    /// Passes over turns in which nothing is asked, so that what their servos still answer cannot be mistaken. They are few.
    #[cold]
    #[inline(never)]
    fn keep_quiet(&mut self, devices: &mut [Device], result: &mut CycleResult) {
        while let Some(turn) = self.order.get(self.taken)
            && self.families[turn.family].request(turn.turn, self.part).is_none()
        {
            let servos = self.servos(turn);
            servos.iter().for_each(|&servo| devices[servo].keep_quiet());
            result.quiet += servos.len() as u16;
            (self.taken, self.part) = (self.taken + 1, 0);
        }
    }

    // Within its caller it would take the registers of the way of all other buses.
    #[inline(never)]
    fn wait_for(&mut self, turn: Turn, devices: &[Device], [now_ns, deadline_ns]: [i64; 2]) {
        self.since_ns = now_ns;
        self.until_ns = self.give_up_ns(turn, devices, deadline_ns);
        (self.outstanding, self.is_old) = (Some(turn), false);
    }

    /// When a query that was just sent is given up: when those behind it need the rest of the cycle. Replies that come later must not meet
    /// the next query, so that is as late as may be; what is on the wire is never cut off. The cycle's last query is waited for as long as
    /// it usually takes, in the next cycle too, and the first time, when that is not known, twice as long as it has.
    fn give_up_ns(&self, turn: Turn, devices: &[Device], deadline_ns: i64) -> i64 {
        let least_ns = |turn: &Turn| {
            let timeouts = self.servos(turn).iter().map(|&servo| devices[servo].reply_timeout_ns());
            timeouts.max().unwrap_or(0)
        };
        let Some(rest) = self.order.get(self.taken..).filter(|rest| !rest.is_empty()) else {
            let usual_ns = match self.took_ns[turn.number] {
                0 => 2 * (deadline_ns - self.since_ns),
                took_ns => took_ns + took_ns / 4,
            };
            return deadline_ns.max(self.since_ns + usual_ns.max(least_ns(&turn)));
        };
        let rest_ns: i64 = rest
            .iter()
            .map(|turn| match self.took_ns[turn.number] {
                0 => least_ns(turn),
                took_ns => took_ns,
            })
            .sum();
        (deadline_ns - rest_ns).max(self.since_ns + least_ns(&turn))
    }

    /// How many queries a cycle sends one after the other, each when the one before has been answered; 0 where none waits.
    pub fn in_sequence(&self) -> usize {
        if self.half_duplex { self.order.len() } else { 0 }
    }

    /// Its servos.
    pub fn all_servos(&self) -> &[usize] {
        &self.numbers
    }

    /// The servos that may not answer in time because they are switching on.
    pub fn switching_on(&self) -> impl Iterator<Item = usize> + '_ {
        let turns = self.order.iter().filter(|turn| self.families[turn.family].is_switching_on(turn.turn));
        turns.flat_map(|turn| self.servos(turn)).copied()
    }

    /// Reads a frame of this bus into the state of its servo.
    pub fn take(&mut self, frame: &Frame, states: &mut [ServoState]) -> Taken {
        // Nearly always there is one.
        if let [servos] = &mut *self.families {
            return servos.take(frame, states);
        }
        let families = self.families.iter_mut();
        families
            .map(|servos| servos.take(frame, states))
            .find(|taken| *taken != Taken::Unexpected)
            .unwrap_or(Taken::Unexpected)
    }

    /// A fresh reply has been read: with the last outstanding one a half-duplex bus is free for the next query.
    pub fn answered(&mut self, devices: &[Device], at_ns: i64) {
        if let Some(turn) = self.outstanding
            && !self.is_old
            && !self.servos(&turn).iter().any(|&servo| devices[servo].is_awaited())
        {
            self.took_ns[turn.number] = at_ns - self.since_ns;
            self.outstanding = None;
        }
    }

    /// A reply came too late for its cycle: with the last one to the outstanding query the bus is free for the next.
    pub fn received_late(&mut self, servo: usize, at_ns: i64) {
        if self.is_old
            && let Some(turn) = self.outstanding
            && self.servos(&turn).contains(&servo)
        {
            let took_ns = at_ns - self.since_ns;
            self.to_come = self.to_come.saturating_sub(1);
            if self.to_come == 0 {
                self.took_ns[turn.number] = took_ns;
                self.outstanding = None;
            } else {
                // The next one is on its way.
                self.until_ns = self.until_ns.max(at_ns + took_ns / 4);
            }
        }
    }

    /// When to stop waiting for the outstanding reply.
    #[inline]
    pub fn timeout_ns(&self) -> Option<i64> {
        self.outstanding.map(|_| self.until_ns)
    }

    #[inline]
    pub fn time_out(&mut self, now_ns: i64) {
        if now_ns >= self.until_ns
            && let Some(turn) = self.outstanding.take()
        {
            // One that is never answered is not waited for that long again.
            self.took_ns[turn.number] = self.took_ns[turn.number].max(1);
        }
    }

    /// Settles which servo is asked first in the next cycle: one without a turn in this one. Where all had one, on half-duplex buses a
    /// silent device holds up those after it, so it is asked last.
    pub fn end(&mut self, devices: &[Device]) {
        if !std::mem::replace(&mut self.is_old, true)
            && let Some(turn) = self.outstanding
        {
            self.to_come = self.servos(&turn).iter().filter(|&&servo| devices[servo].was_missed()).count();
        }
        // The deadline cut the last one off, unless the bus was its own all the time: then it is silent.
        let cut_off = usize::from(self.outstanding.is_some() && self.taken > 1);
        let served = self.taken - cut_off;
        if std::mem::take(&mut self.is_reordered) && served == self.order.len() {
            self.order.copy_from_slice(&self.usual);
        }
        let is_silent = |turn: &Turn| self.servos(turn).iter().any(|&servo| devices[servo].was_missed());
        if served < self.order.len() {
            self.order.rotate_left(served);
        } else if self.half_duplex
            && let Some(place) = self.order.iter().position(is_silent)
        {
            self.order[place..].rotate_left(1);
        }
    }
}
