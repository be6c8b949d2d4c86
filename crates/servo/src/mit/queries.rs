//! Which request a reply answers; see the [page above](super).

/// How many registers are read as marks, where a family can read any. None of them changes by itself. The first also shows that a
/// servo has kept its power.
pub const MARKS: usize = 13;

/// How long a reply may be on its way, ns, where no register can be read. Of 133,815 replies of RobStride servos none took longer.
pub const QUIET_NS: i64 = 5_000_000;
/// With so many commands missed in a row, each after that quiet, a servo may have lost its power.
const SILENT: u32 = 4;

/// No reply is on its way for longer, in cycles.
const OPEN: u64 = 20;

/// So many states may be [`Answer::Unclear`] before a register has to come.
const UNCLEAR: u8 = 2 * SPACING as u8;

/// So many marks are on their way before they are saved, or all but one.
const DENSE: usize = 6;

/// Then there is one more only in every so many pairs of cycles.
const SPACING: u64 = 16;

/// What a state that came is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To the command sent then; `newest`: this cycle's.
    News { sent_ns: i64, newest: bool },
    /// A further one, to a command already answered.
    Duplicate,
    /// To the command sent then, this cycle's, or to an earlier one that was missed: indistinguishable, but nothing was late.
    Unclear { sent_ns: i64 },
    /// Indistinguishable.
    Unknown,
}

/// What the value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// None of ours.
    No,
    /// A mark that was sent beside a command.
    Yes,
    /// The mark that was sent then, and is all that this cycle asks of a servo.
    Alone { sent_ns: i64 },
    /// All that an earlier cycle asked of it.
    Late,
}

/// What is sent in a cycle, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// A mark that is read.
    pub mark: Option<usize>,
    /// The command.
    pub command: bool,
}

/// A command that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    cycle: u64,
    at_ns: i64,
}

/// A mark that is on its way.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sent: Sent,
    /// The first command after it, if there has been one.
    next: Option<Sent>,
}

/// The requests of one servo.
#[derive(Debug)]
pub struct Queries {
    /// How many marks can be read: [`MARKS`] at the most. With fewer, a reply must be less late to be mistaken.
    readable: usize,
    /// The marks whose values show that the servo is as it was set, by bit, but for the first.
    watched: u16,
    /// Of these, the ones to be read because something was missed or came unasked.
    unread: u16,
    /// Cycles so far.
    cycle: u64,
    turn: Turn,
    /// The newest command.
    newest: Option<Sent>,
    /// It, or one after it, has been answered, or nothing before the next command can be.
    in_step: bool,
    /// The command that the next state answers, if that is known.
    awaited: Option<Sent>,
    /// By mark.
    marks: [Option<Mark>; MARKS],
    /// One was sent, and no command since.
    is_marked: bool,
    /// Commands missed of late whose replies have not come, and the cycle after the last of them.
    open: u8,
    missed_in: u64,
    /// Since it was in step: states that were [`Answer::Unclear`]; [`UNCLEAR`] if anything was late.
    unclear: u8,
    /// A reply was missed, and the first mark has not come since: the servo may have lost its power.
    doubtful: bool,
    /// Where nothing can be read: cycles without a request, so far.
    quiet: u32,
    /// The same: commands in a row after which nothing came, not even late.
    missed: u32,
    /// The same: from one command to that of the next cycle, ns.
    period_ns: i64,
    has_period: bool,
}

impl Queries {
    /// Of a servo of which so many marks can be read; the first `watched` of them show that it is as it was set.
    pub fn new(readable: usize, watched: usize) -> Self {
        Self {
            readable: readable.min(MARKS),
            watched: ((1_u32 << watched.min(readable).min(MARKS)) - 1) as u16 & !1,
            unread: 0,
            cycle: 0,
            turn: Turn::default(),
            newest: None,
            in_step: false,
            awaited: None,
            marks: [None; MARKS],
            is_marked: false,
            open: 0,
            missed_in: 0,
            unclear: 0,
            doubtful: false,
            quiet: 0,
            missed: 0,
            period_ns: QUIET_NS,
            has_period: false,
        }
    }

    /// A cycle begins: what is to be sent. `verify`: the first mark is wanted. `may_look`: a command may wait for a cycle while another
    /// mark is read.
    ///
    /// In step, the command is sent; if the first mark is wanted, that is sent in its place, so that a bus carries no more than it
    /// does otherwise. Only where a command must not wait, a mark goes beside it; the order in which the two are answered does not
    /// matter. Out of step, a mark and a command take turns.
    pub fn next(&mut self, verify: bool, may_look: bool) -> Turn {
        self.cycle += 1;
        let missed = self.newest.is_some() && !self.in_step;
        self.doubtful |= (missed || verify) && self.readable > 0;
        if missed {
            self.miss();
        }
        self.turn = if self.readable == 0 {
            Turn { mark: None, command: !missed || self.has_been_quiet() }
        } else if !missed && may_look && !self.doubtful && self.unread != 0 && self.turn.command {
            // In place of a command, every other cycle: a full bus carries no more.
            Turn { mark: Some(self.unread.trailing_zeros() as usize), command: false }
        } else if !missed {
            // In place of the command, if that may wait, and then only every other cycle.
            let in_place = verify || may_look;
            let is_due = verify || !may_look || self.turn.command;
            let mark = if self.doubtful && is_due { self.free_mark() } else { None };
            Turn { mark, command: !in_place || mark.is_none() }
        } else if let Some(mark) = self.free_mark().filter(|_| self.turn.command) {
            Turn { mark: Some(mark), command: false }
        } else {
            Turn { mark: None, command: true }
        };
        self.awaited = None;
        self.turn
    }

    /// The last cycle's command, or one before, was not answered.
    #[cold]
    fn miss(&mut self) {
        if self.turn.command {
            self.open = if self.cycle - self.missed_in > OPEN { 1 } else { self.open.saturating_add(1) };
            self.missed_in = self.cycle;
        }
        self.look_again();
    }

    /// Something came unasked: another host may have changed the servo.
    pub fn look_again(&mut self) {
        self.unread = self.watched;
    }

    /// Where nothing can be read: after a miss, enough cycles have passed without a request. This one is counted.
    fn has_been_quiet(&mut self) -> bool {
        self.missed += u32::from(self.quiet == 0);
        self.quiet += 1;
        // At least one whole cycle, however long it is.
        let over = i64::from(self.quiet - 1) * self.period_ns >= QUIET_NS;
        if over {
            (self.in_step, self.quiet) = (true, 0);
        }
        over
    }

    /// Nothing can be read, and for long nothing has come.
    pub const fn has_been_silent(&self) -> bool {
        self.missed >= SILENT
    }

    /// A mark that is not on its way, the first before all others. While nothing comes for long they are saved, and at last
    /// the oldest is taken again: a reply has to be very late to be mistaken.
    fn free_mark(&self) -> Option<usize> {
        let open = self.marks.iter().flatten().count();
        // One that is not on its way comes before all others.
        let mark = (0..self.readable).min_by_key(|&mark| self.marks[mark].map(|mark| mark.sent.cycle))?;
        let age = self.marks[mark].map_or(u64::MAX, |mark| self.cycle - mark.sent.cycle);
        // What comes first after a silence does not wait for its turn.
        let dense = DENSE.min(self.readable.saturating_sub(1));
        // So the first of them is taken again after about so many cycles.
        let reused = 2 * (dense as u64 + (self.readable - dense) as u64 * SPACING);
        let is_due_again = self.unclear == 1 && age >= reused;
        let is_due = open < dense || (self.cycle / 2).is_multiple_of(SPACING);
        (is_due || is_due_again).then_some(mark)
    }

    /// The cycle's mark was sent.
    pub fn sent_mark(&mut self, at_ns: i64) {
        if let Some(mark) = self.turn.mark {
            self.marks[mark] = Some(Mark { sent: Sent { cycle: self.cycle, at_ns }, next: None });
            self.is_marked = true;
        }
    }

    /// The cycle's command was sent.
    pub fn sent(&mut self, at_ns: i64) {
        let sent = Sent { cycle: self.cycle, at_ns };
        if let Some(before) = self.newest.filter(|before| before.cycle + 1 == self.cycle) {
            // A tick that is late is no evidence about the next.
            let (now, usual) = (at_ns.saturating_sub(before.at_ns), self.period_ns);
            self.period_ns = if self.has_period {
                usual + (now.clamp(usual / 2, 2 * usual) - usual) / 8
            } else {
                now.max(1)
            };
            self.has_period = true;
        }
        self.awaited = Some(sent).filter(|_| self.newest.is_none() || self.in_step);
        self.newest = Some(sent);
        self.in_step = false;
        if std::mem::take(&mut self.is_marked) {
            for mark in self.marks.iter_mut().flatten() {
                mark.next.get_or_insert(sent);
            }
        }
    }

    /// How many cycles take so long, ns.
    pub const fn cycles(&self, ns: i64) -> u8 {
        let cycles = ns / self.period_ns + 1;
        if cycles < u8::MAX as i64 { cycles as u8 } else { u8::MAX }
    }

    /// A reply was missed since the servo was last seen to have kept its power.
    pub const fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// The value of this mark came.
    pub fn marked(&mut self, mark: usize) -> Marked {
        let Some(came) = self.marks.get_mut(mark).and_then(Option::take) else { return Marked::No };
        if mark == 0 {
            self.doubtful = false;
        }
        self.unread &= !(1 << mark);
        // Values keep their order: marks from before it were lost.
        for earlier in &mut self.marks {
            *earlier = earlier.filter(|earlier| earlier.sent.cycle > came.sent.cycle);
        }
        // One that was sent beside a command in step shows nothing of the order.
        let is_alone = came.next.is_none_or(|next| next.cycle != came.sent.cycle);
        if !self.in_step && is_alone {
            // Whatever was sent before it has been answered, or never will be. What was sent after it may have been, too: a state can
            // overtake a value.
            match came.next {
                None => (self.in_step, self.unclear) = (true, 0),
                next => self.awaited = next,
            }
        }
        match came.sent.cycle == self.cycle {
            true if !self.turn.command => Marked::Alone { sent_ns: came.sent.at_ns },
            false if is_alone => {
                self.unclear = UNCLEAR;
                Marked::Late
            }
            _ => Marked::Yes,
        }
    }

    /// A state came.
    pub fn answered(&mut self) -> Answer {
        match self.awaited.take() {
            Some(sent) => {
                self.in_step = Some(sent) == self.newest;
                self.missed = 0;
                if self.in_step {
                    self.unclear = 0;
                }
                Answer::News { sent_ns: sent.at_ns, newest: sent.cycle == self.cycle }
            }
            // Frames that were delayed or reordered: it is the reply that was missed, and comes after the mark.
            None if self.in_step && (self.open == 0 || self.cycle - self.missed_in > OPEN) => {
                Answer::Duplicate
            }
            None => self.answered_out_of_step(),
        }
    }

    #[cold]
    fn answered_out_of_step(&mut self) -> Answer {
        self.open = self.open.saturating_sub(1);
        // Late is not silent.
        self.missed = 0;
        let asked = self.newest.filter(|sent| sent.cycle == self.cycle && !self.in_step);
        let Some(sent) = asked.filter(|_| self.unclear < UNCLEAR) else {
            self.unclear = UNCLEAR;
            return Answer::Unknown;
        };
        self.unclear += 1;
        Answer::Unclear { sent_ns: sent.at_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Turn = Turn { mark: None, command: true };

    fn fresh(sent_ns: i64) -> Answer {
        Answer::News { sent_ns, newest: true }
    }

    fn send(queries: &mut Queries, at_ns: i64) -> Turn {
        send_or_verify(queries, at_ns, false)
    }

    fn send_or_verify(queries: &mut Queries, at_ns: i64, verify: bool) -> Turn {
        let turn = queries.next(verify, true);
        if turn.mark.is_some() {
            queries.sent_mark(at_ns);
        }
        if turn.command {
            queries.sent(at_ns);
        }
        turn
    }

    #[test]
    fn while_replies_come_nothing_is_marked() {
        let mut queries = Queries::new(MARKS, 1);
        for tick in 0..100 {
            assert_eq!(send(&mut queries, tick), COMMAND);
            assert_eq!(queries.answered(), fresh(tick));
        }
    }

    #[test]
    fn after_a_miss_a_mark_alone_brings_it_back_into_step() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        let turn = send(&mut queries, 1);
        assert_eq!(turn, Turn { mark: Some(0), command: false });
        assert!(queries.is_doubtful());
        assert_eq!(
            queries.marked(0),
            Marked::Alone { sent_ns: 1 },
            "nothing more is missed than what was lost"
        );
        assert!(!queries.is_doubtful());
        assert_eq!(send(&mut queries, 2), COMMAND);
        assert_eq!(queries.answered(), fresh(2));
    }

    #[test]
    fn a_late_reply_is_never_taken_for_a_newer_one() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        let turn = send(&mut queries, 1);
        // The reply to 0 comes before the mark.
        assert_eq!(queries.answered(), Answer::Unknown);
        assert_eq!(queries.marked(turn.mark.unwrap()), Marked::Alone { sent_ns: 1 });
        send(&mut queries, 2);
        assert_eq!(queries.answered(), fresh(2));
        assert_eq!(queries.answered(), Answer::Duplicate);
    }

    #[test]
    fn a_reply_that_a_mark_overtakes_is_no_duplicate() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        let turn = send(&mut queries, 1);
        assert_eq!(queries.marked(turn.mark.unwrap()), Marked::Alone { sent_ns: 1 });
        assert_eq!([queries.answered(), queries.answered()], [Answer::Unknown, Answer::Duplicate]);
        // Nor is one for ever.
        send(&mut queries, 2);
        send(&mut queries, 3);
        for tick in 4..40 {
            let turn = send(&mut queries, tick);
            turn.mark.into_iter().for_each(|mark| _ = queries.marked(mark));
            if turn.command {
                queries.answered();
            }
        }
        assert_eq!(queries.answered(), Answer::Duplicate);
    }

    #[test]
    fn after_two_misses_the_mark_that_is_still_wanted_takes_the_place_of_a_command() {
        let mut queries = Queries::new(MARKS, 1);
        // The command and the first mark are lost; the next command's reply may be older.
        (0..2).for_each(|tick| _ = send(&mut queries, tick));
        let answer = (send(&mut queries, 2), queries.answered());
        assert_eq!(answer, (COMMAND, Answer::Unclear { sent_ns: 2 }), "neither missed nor late");
        assert_eq!(send(&mut queries, 3), Turn { mark: Some(1), command: false });
        assert_eq!(queries.marked(1), Marked::Alone { sent_ns: 3 });
        // No cycle carries more than one request.
        assert_eq!((send(&mut queries, 4), queries.answered()), (COMMAND, fresh(4)));
        assert!(queries.is_doubtful());
        assert_eq!(send(&mut queries, 5), Turn { mark: Some(0), command: false });
        assert_eq!(queries.marked(0), Marked::Alone { sent_ns: 5 });
        assert!(!queries.is_doubtful());
    }

    #[test]
    fn a_mark_that_comes_after_its_cycle_is_a_late_reply() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        let turn = send(&mut queries, 1);
        send(&mut queries, 2);
        assert_eq!(queries.marked(turn.mark.unwrap()), Marked::Late);
        assert_eq!(queries.answered(), fresh(2));
    }

    #[test]
    fn a_servo_that_is_always_late_is_never_fresh() {
        for late in (1..60).chain([130, 200]) {
            let mut queries = Queries::new(MARKS, 1);
            // What it was asked, in order: a register, or the command sent then.
            let mut asked = std::collections::VecDeque::new();
            let mut unclear = 0;
            for tick in 0..1500 {
                let turn = send(&mut queries, tick);
                asked.push_back((turn, tick));
                if asked.len() > late {
                    let (turn, sent_ns) = asked.pop_front().unwrap();
                    if let Some(mark) = turn.mark {
                        queries.marked(mark);
                    }
                    if turn.command {
                        let answer = queries.answered();
                        unclear += u32::from(matches!(answer, Answer::Unclear { .. }));
                        let is_true = match answer {
                            Answer::News { sent_ns: message, newest } => message == sent_ns && !newest,
                            _ => true,
                        };
                        assert!(is_true, "{late} late, tick {tick}: {answer:?} for {sent_ns}");
                    }
                }
            }
            assert!(unclear <= 1, "{late} late: {unclear} may have been in time");
        }
    }

    #[test]
    fn no_loss_or_delay_makes_an_old_reply_fresh() {
        // States keep their order among themselves, get lost, and come up to five cycles late; a few thousand patterns of both. The
        // value of a register comes behind all states before it, and `overtaken`: behind some after it, too.
        let mut random = 1_u64;
        let mut dice = move |sides: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % sides
        };
        for (overtaken, marks) in [(false, MARKS), (true, MARKS), (false, 4), (true, 4)].repeat(300) {
            let (mut queries, mut wire) = (Queries::new(marks, 1), Vec::new());
            let (mut fresh, mut state_due, mut value_due) = (0, 0, 0);
            for tick in 0..200_i64 {
                let turn = send_or_verify(&mut queries, tick, dice(5) == 0);
                state_due = state_due.max(tick + if dice(8) == 0 { dice(6) as i64 } else { 0 });
                value_due = state_due.max(value_due);
                if overtaken && dice(4) == 0 {
                    value_due = value_due.max(tick + dice(6) as i64);
                } else if !overtaken {
                    state_due = value_due;
                }
                for part in [turn.mark.map(Err), turn.command.then_some(Ok(tick))].into_iter().flatten() {
                    if dice(10) != 0 {
                        wire.push((if part.is_err() { value_due } else { state_due }, part));
                    }
                }
                // What is due in the same cycle, in the order in which it was asked for.
                wire.sort_by_key(|(due, _)| *due);
                let later = wire.split_off(wire.partition_point(|(due, _)| *due <= tick));
                for (_, part) in std::mem::replace(&mut wire, later) {
                    match part {
                        Err(mark) => _ = queries.marked(mark),
                        Ok(sent_ns) => {
                            if let Answer::News { sent_ns: message, newest } = queries.answered() {
                                // Never newer than it is; where the command after a mark was lost, or its state overtook the mark,
                                // older.
                                assert!(message <= sent_ns && (!newest || sent_ns == tick), "{overtaken}");
                                fresh += u32::from(newest);
                            }
                        }
                    }
                }
            }
            assert!(fresh > 20, "{fresh}");
        }
    }

    /// With four marks of which two were lost a servo that answered again at once was not believed for 32 cycles.
    #[test]
    fn of_few_marks_two_that_are_lost_leave_a_third() {
        let mut queries = Queries::new(4, 1);
        for tick in 0..100 {
            send(&mut queries, tick);
            queries.answered();
        }
        let lost = (100..104).map(|tick| send(&mut queries, tick)).collect::<Vec<_>>();
        assert_eq!(lost.iter().filter(|turn| turn.mark.is_some()).count(), 2, "{lost:?}");
        let back = (104..112).find(|&tick| match send(&mut queries, tick).mark {
            Some(mark) => queries.marked(mark) == Marked::Alone { sent_ns: tick },
            None => false,
        });
        assert!(back.is_some_and(|tick| tick < 107), "{back:?}");
    }

    /// As recorded: on a full bus a value came 3.6 ms after it was asked for, behind the states of two later commands, and the next one
    /// in time.
    #[test]
    fn after_a_value_that_was_overtaken_it_is_in_step_as_soon_as_the_next_one_comes() {
        for late in 1..20 {
            let mut queries = Queries::new(MARKS, 1);
            // The first state is lost.
            send(&mut queries, 0);
            let mut waiting = Vec::new();
            for tick in 1..=late {
                let turn = send(&mut queries, tick);
                waiting.extend(turn.mark);
                if turn.command {
                    assert_eq!(queries.answered(), Answer::Unclear { sent_ns: tick }, "in time, maybe older");
                }
            }
            // The bus is free again.
            waiting.into_iter().for_each(|mark| assert_ne!(queries.marked(mark), Marked::No));
            let known = (late + 1..).find(|&tick| {
                let turn = send(&mut queries, tick);
                turn.mark.into_iter().for_each(|mark| _ = queries.marked(mark));
                turn.command && queries.answered() == fresh(tick)
            });
            assert!(known.unwrap() <= late + 3, "{late} cycles late, in step in {known:?}");
        }
    }

    #[test]
    fn a_mark_that_was_not_requested_is_none() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        assert_eq!([1, 60].map(|mark| queries.marked(mark)), [Marked::No; 2]);
        assert_eq!(queries.answered(), fresh(0));
    }

    #[test]
    fn a_servo_that_was_silent_for_long_is_known_again_soon() {
        for silence in [1, 12, 13, 14, 25, 26, 1000] {
            let mut queries = Queries::new(MARKS, 1);
            (0..silence).for_each(|tick| _ = send(&mut queries, tick));
            let known = (silence..silence + 2 * SPACING as i64 + 3).any(|tick| {
                let turn = send(&mut queries, tick);
                turn.mark.into_iter().for_each(|mark| _ = queries.marked(mark));
                turn.command && queries.answered() == fresh(tick)
            });
            assert!(known, "after {silence}");
        }
    }

    /// Of 13 lost replies 28 were missed, and 15 of them late.
    #[test]
    fn after_a_silence_nothing_more_is_missed_and_nothing_is_late() {
        for silence in [1, 2, 3, 6, 12, 13, 14, 20, 25, 26, 40, 70, 1000] {
            let mut queries = Queries::new(MARKS, 1);
            (0..silence).for_each(|tick| _ = send(&mut queries, tick));
            let mut unclear = 0;
            for tick in silence..silence + 60 {
                let turn = send(&mut queries, tick);
                if let Some(mark) = turn.mark {
                    assert_eq!(queries.marked(mark), Marked::Alone { sent_ns: tick }, "after {silence}");
                } else {
                    let answer = queries.answered();
                    unclear += u32::from(answer != fresh(tick));
                    assert!([fresh(tick), Answer::Unclear { sent_ns: tick }].contains(&answer), "{answer:?}");
                }
            }
            assert!(unclear <= 1, "after {silence}: {unclear}");
        }
    }

    /// One whose replies come, but no register, is not taken for answered for ever.
    #[test]
    fn a_servo_that_reports_no_register_is_not_in_time_for_long() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        let mut unclear = 0;
        for tick in 1..1000 {
            if send(&mut queries, tick).command {
                unclear += u32::from(matches!(queries.answered(), Answer::Unclear { .. }));
            }
        }
        assert_eq!(unclear, u32::from(UNCLEAR));
    }

    #[test]
    fn verifying_costs_the_bus_nothing_and_is_no_miss() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        assert_eq!(queries.answered(), fresh(0));
        assert_eq!(queries.next(true, true), Turn { mark: Some(0), command: false });
        queries.sent_mark(1);
        assert_eq!(queries.marked(0), Marked::Alone { sent_ns: 1 });
        assert!(!queries.is_doubtful());
        assert_eq!(send(&mut queries, 2), COMMAND);
        assert_eq!(queries.answered(), fresh(2));
    }

    #[test]
    fn a_servo_whose_verification_is_lost_is_asked_again() {
        let mut queries = Queries::new(MARKS, 1);
        send(&mut queries, 0);
        assert_eq!(queries.answered(), fresh(0));
        let asked = [1, 2, 3].map(|at_ns| {
            let turn = queries.next(true, true);
            queries.sent_mark(at_ns);
            if at_ns > 1 {
                queries.marked(turn.mark.unwrap());
            }
            turn.mark
        });
        assert_eq!(asked, [Some(0), Some(1), Some(0)]);
        assert!(!queries.is_doubtful());
        assert_eq!(send(&mut queries, 4), COMMAND);
    }

    #[test]
    fn a_mark_beside_a_command_leaves_it_in_step_whichever_comes_first() {
        for state_first in [true, false] {
            let mut queries = Queries { doubtful: true, ..Queries::new(MARKS, 1) };
            // A command that must not wait.
            assert_eq!(queries.next(false, false), Turn { mark: Some(0), command: true });
            queries.sent_mark(1);
            queries.sent(1);
            if state_first {
                assert_eq!(queries.answered(), fresh(1));
                assert_eq!(queries.marked(0), Marked::Yes);
            } else {
                assert_eq!(queries.marked(0), Marked::Yes);
                assert_eq!(queries.answered(), fresh(1));
            }
            assert!(!queries.is_doubtful());
            assert_eq!(send(&mut queries, 2), COMMAND);
        }
    }

    /// Without marks: cycles of a millisecond, answered after so many.
    fn unmarked(
        queries: &mut Queries,
        cycles: i64,
        is_answered: impl Fn(i64) -> bool,
    ) -> Vec<(bool, Option<Answer>)> {
        let cycle = |tick: i64| {
            let turn = send(queries, tick * 1_000_000);
            (turn.command, (turn.command && is_answered(tick)).then(|| queries.answered()))
        };
        (0..cycles).map(cycle).collect()
    }

    #[test]
    fn where_nothing_can_be_read_a_miss_is_waited_out() {
        let mut queries = Queries::new(0, 0);
        let turns = unmarked(&mut queries, 20, |tick| tick != 10);
        let sent: Vec<_> = turns.iter().map(|(sent, _)| *sent).collect();
        assert!(sent[..=10].iter().all(|sent| *sent));
        // Five milliseconds later nothing older can come.
        assert_eq!(sent[11..17], [false, false, false, false, false, true]);
        assert_eq!(turns[16].1, Some(fresh(16_000_000)));
        assert!(!queries.has_been_silent() && !queries.is_doubtful());
        // What comes in the quiet belongs to no query.
        let mut queries = Queries::new(0, 0);
        (0..3).for_each(|tick| _ = (send(&mut queries, tick), queries.answered()));
        send(&mut queries, 3);
        send(&mut queries, 4);
        assert_eq!(queries.answered(), Answer::Unknown);
    }

    #[test]
    fn where_nothing_can_be_read_long_silence_is_noticed() {
        let mut queries = Queries::new(0, 0);
        unmarked(&mut queries, 40, |tick| tick < 10);
        assert!(queries.has_been_silent());
        // No other counts as possibly without power: one whose replies are late has kept it.
        assert_eq!(queries.answered(), Answer::Unknown);
        assert!(!queries.has_been_silent());
    }

    #[test]
    fn where_nothing_can_be_read_a_reply_later_than_a_cycle_is_never_fresh() {
        // At 100 Hz, each reply 13 ms after its command.
        let (mut queries, mut due) = (Queries::new(0, 0), std::collections::VecDeque::new());
        let mut fresh = 0;
        for tick in 0..200_i64 {
            let now_ns = tick * 10_000_000;
            if send(&mut queries, now_ns).command {
                due.push_back(now_ns + 13_000_000);
            }
            while due.front().is_some_and(|at_ns| *at_ns < now_ns + 10_000_000) {
                due.pop_front();
                fresh += u32::from(matches!(queries.answered(), Answer::News { newest: true, .. }));
            }
        }
        assert_eq!(fresh, 0);
        assert!(!queries.has_been_silent(), "it answers");
    }

    #[test]
    fn after_a_miss_everything_that_was_set_is_read_again_and_the_bus_carries_no_more() {
        let mut queries = Queries::new(MARKS, 3);
        send(&mut queries, 0);
        let mut read = Vec::new();
        for tick in 1..12 {
            let turn = send(&mut queries, tick);
            assert!(turn.mark.is_none() || !turn.command, "one request a cycle");
            read.extend(turn.mark);
            turn.mark.into_iter().for_each(|mark| _ = queries.marked(mark));
            if turn.command {
                assert_eq!(queries.answered(), fresh(tick));
            }
        }
        assert_eq!(read, [0, 1, 2]);
    }
}
