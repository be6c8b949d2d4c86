//! Which query a reply answers.
//!
//! Replies carry no number, but a device answers the reads of a query in their order: the first read of a query is its
//! *symbol*, and the reply shows it. A query never has the symbol of one that is still unanswered, so the symbol of a reply
//! names its query, however late it comes.
//!
//! There are two kinds of symbols. *Rotations* of the reads cost no bytes; they are used in turn. There are as many as
//! reads, at least two. Where they are all unanswered, the query is *marked* instead: it reads one harmless register more,
//! first. While a device leaves many queries unanswered only some of them are marked by a symbol of their own; the others
//! are *blind*: their replies are never taken. So the symbols last for long delays, and a device that comes back is known
//! again within [`SPACING`] queries.

/// After so many queries without an answer only every [`SPACING`]th has a symbol of its own.
const DENSE: u64 = 24;
/// See [`DENSE`].
const SPACING: u64 = 32;
/// A query that was overtaken by the answer to a later one is taken for lost after so many queries.
const OVERTAKEN: u64 = 64;
/// For so many queries after a duplicate, or after a question that was not one of these, every query is marked, so that a reply to
/// something else cannot be mistaken for its own.
const WARY: u64 = 256;

/// What distinguishes a query from others: a rotation, or a mark after these, or the last mark, which is blind.
pub type Symbol = u8;

/// What a reply is, by its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To this query, with the newest values of all replies so far.
    News { sent_ns: i64, newest: bool },
    /// To a query older than one already answered.
    Overtaken,
    /// To a query that has been answered before.
    Duplicate,
    /// To a blind query: the newest, which was sent then, or one before it; but none came late.
    Unclear { sent_ns: i64 },
    /// To a blind query, or to one of another host.
    Unknown,
}

/// The queries of one device.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub struct Queries {
    /// By symbol.
    sent: Box<[Sent]>,
    rotations: usize,
    /// Number of the newest query; 0: none yet.
    newest: u64,
    /// The rotation whose turn is next: the same modulo their number, without a division in the tick.
    turn: usize,
    /// Number of the newest query that was answered.
    answered: u64,
    wary_until: u64,
    /// What a blind query brought since the newest query was answered in its turn.
    blind: Blind,
}

/// See [`Queries::blind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blind {
    Nothing,
    /// A reply: the next query has a symbol of its own.
    Reply,
    /// Further ones: that symbol was lost.
    Again,
    /// Replies come late.
    Late,
}

/// The last query with a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sent {
    /// 0: there was none.
    number: u64,
    /// The newest query when this one was sent, or when it was answered.
    used: u64,
    at_ns: i64,
    open: bool,
    /// The device refused it: not to be used again.
    refused: bool,
}

impl Queries {
    /// `marks` include the blind one; 0: queries of this device cannot be marked.
    pub fn new(rotations: usize, marks: usize) -> Self {
        let sent = vec![Sent::default(); rotations + marks].into();
        Self { sent, rotations, newest: 0, turn: 0, answered: 0, wary_until: 0, blind: Blind::Nothing }
    }

    /// Replies to what others asked the device may come for a while: they have no marks.
    pub fn be_wary(&mut self) {
        self.wary_until = self.newest + WARY;
    }

    /// The symbol for the next query.
    pub fn next(&self) -> Symbol {
        let number = self.newest + 1;
        // The usual case straight: the last query was answered, and the next rotation is free, as a rule because its own last one was.
        let sent = &self.sent[self.turn];
        let is_free = || !sent.open && !sent.refused && sent.used < self.newest || self.is_free(sent);
        if self.answered == self.newest && number >= self.wary_until && is_free() {
            return self.turn as Symbol;
        }
        let unanswered = number - self.answered;
        let is_saved = unanswered > DENSE && !number.is_multiple_of(SPACING);
        if self.is_markable() && is_saved && !self.was_received_again() {
            return self.blind();
        }
        let wary = number < self.wary_until;
        let rotation = if wary { None } else { self.least_recent(0..self.rotations) };
        let marked = || self.least_recent(0..self.blind().into());
        (rotation.or_else(marked)).unwrap_or_else(|| self.oldest())
    }

    /// The symbol that was used longest ago. None that was used by or during the newest query: a duplicate of its reply
    /// may come with the next one.
    fn least_recent(&self, symbols: std::ops::Range<usize>) -> Option<Symbol> {
        let free = symbols.filter(|&symbol| self.is_free(&self.sent[symbol]));
        free.min_by_key(|&symbol| self.sent[symbol].used).map(|symbol| symbol as Symbol)
    }

    #[inline]
    fn is_free(&self, sent: &Sent) -> bool {
        let lost = sent.number < self.answered && self.newest - sent.number >= OVERTAKEN;
        !sent.refused && (!sent.open || lost) && (sent.used < self.newest || sent.number == 0)
    }

    /// The symbol of the oldest query, to be used again where there is no other.
    fn oldest(&self) -> Symbol {
        let usable = (0..self.blind().into()).filter(|&symbol: &usize| !self.sent[symbol].refused);
        usable.min_by_key(|&symbol| self.sent[symbol].number).unwrap_or(0) as Symbol
    }

    /// After a silence the last query, a blind one, was the first to be answered.
    fn was_received_again(&self) -> bool {
        self.blind == Blind::Reply && self.sent[usize::from(self.blind())].number == self.newest
    }

    fn is_markable(&self) -> bool {
        self.sent.len() > self.rotations
    }

    /// The blind symbol; where queries cannot be marked, one that no query has.
    fn blind(&self) -> Symbol {
        (self.sent.len() - usize::from(self.is_markable())) as Symbol
    }

    /// A query with this symbol was sent.
    pub fn sent(&mut self, symbol: Symbol, at_ns: i64) {
        self.newest += 1;
        self.turn = if self.turn + 1 < self.rotations { self.turn + 1 } else { 0 };
        let sent = &mut self.sent[usize::from(symbol)];
        *sent = Sent { number: self.newest, used: self.newest, at_ns, open: true, ..*sent };
    }

    /// [`Queries::answered`] of nearly every reply, as long as that is to the newest query, which has this symbol, not the blind one: when
    /// it was sent. `None`, and nothing else, if it has been answered before, or was not sent yet.
    #[inline]
    pub fn newest_answered(&mut self, symbol: Symbol) -> Option<i64> {
        let newest = self.newest;
        let sent =
            self.sent.get_mut(usize::from(symbol)).filter(|sent| sent.open && sent.number == newest)?;
        (sent.open, sent.used) = (false, newest);
        (self.blind, self.answered) = (Blind::Nothing, newest);
        Some(sent.at_ns)
    }

    /// A reply with this symbol came. `refused`: the device does not read the register that is its mark.
    pub fn answered(&mut self, symbol: Symbol, refused: bool) -> Answer {
        if self.is_markable() && symbol == self.blind() {
            return self.answered_blindly();
        }
        let newest = self.newest;
        let sent = &mut self.sent[usize::from(symbol)];
        sent.refused |= refused;
        let Sent { number, at_ns, open, .. } = *sent;
        if number == 0 {
            return Answer::Unknown;
        }
        if !open {
            self.be_wary();
            return Answer::Duplicate;
        }
        sent.open = false;
        sent.used = newest;
        self.blind = if number == newest { Blind::Nothing } else { Blind::Late };
        if number < self.answered {
            return Answer::Overtaken;
        }
        self.answered = number;
        Answer::News { sent_ns: at_ns, newest: number == newest }
    }

    #[cold]
    fn answered_blindly(&mut self) -> Answer {
        let Sent { number, at_ns, .. } = self.sent[usize::from(self.blind())];
        if number == 0 || number != self.newest || self.blind == Blind::Late {
            return Answer::Unknown;
        }
        self.blind = if self.blind == Blind::Nothing { Blind::Reply } else { Blind::Again };
        Answer::Unclear { sent_ns: at_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: usize = 41;

    fn send(queries: &mut Queries, at_ns: i64) -> Symbol {
        let symbol = queries.next();
        queries.sent(symbol, at_ns);
        symbol
    }

    fn fresh(sent_ns: i64) -> Answer {
        Answer::News { sent_ns, newest: true }
    }

    #[test]
    fn while_replies_come_rotations_take_turns() {
        for rotations in [2, 3, 7] {
            let mut queries = Queries::new(rotations, MARKS);
            for tick in 0..100 {
                let symbol = send(&mut queries, tick);
                assert_eq!(i64::from(symbol), tick % rotations as i64);
                assert_eq!(queries.answered(symbol, false), fresh(tick));
            }
        }
    }

    #[test]
    fn the_short_way_says_what_the_long_one_does() {
        let mut queries = Queries::new(3, MARKS);
        let mut random = 1_u32;
        let (mut short, mut others) = (0, 0);
        for tick in 0..10_000 {
            let mut chance = |of: u32| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 16).is_multiple_of(of)
            };
            if chance(300) {
                queries.be_wary();
            }
            let symbol = queries.next();
            let is_blind = symbol == queries.blind();
            // Now and then a reply comes before its query is sent, is lost, or comes twice.
            let replies = if chance(50) { 0 } else { 1 + usize::from(chance(50)) };
            let sends_first = !chance(50);
            if sends_first {
                queries.sent(symbol, tick);
            }
            for _ in (0..replies).filter(|_| !is_blind) {
                let mut by_long = queries.clone();
                let answer = by_long.answered(symbol, false);
                let before = queries.clone();
                match queries.newest_answered(symbol) {
                    Some(sent_ns) => {
                        assert_eq!((answer, &queries), (fresh(sent_ns), &by_long));
                        short += 1;
                    }
                    None => {
                        assert!(queries == before && answer != fresh(tick));
                        (queries, others) = (by_long, others + 1);
                    }
                }
            }
            if !sends_first {
                queries.sent(symbol, tick);
            }
        }
        assert!(short > 5000 && others > 100, "{short} short, {others} long");
    }

    #[test]
    fn a_single_lost_reply_costs_no_byte_and_nothing_later() {
        let mut queries = Queries::new(3, MARKS);
        for tick in 0..300 {
            let symbol = send(&mut queries, tick);
            assert!(symbol < 3, "tick {tick} is marked");
            if tick % 100 != 50 {
                assert_eq!(queries.answered(symbol, false), fresh(tick));
            }
        }
    }

    #[test]
    fn a_device_that_was_silent_for_long_is_known_again_within_the_spacing() {
        for silence in [1, 2, 23, 24, 25, 100, 1000, 100_000] {
            let mut queries = Queries::new(2, MARKS);
            (0..silence).for_each(|tick| _ = send(&mut queries, tick));
            let known = (silence..).position(|tick| {
                let symbol = send(&mut queries, tick);
                queries.answered(symbol, false) == fresh(tick)
            });
            assert!(known < Some(SPACING as usize), "{known:?} queries after {silence}");
            if silence < 24 {
                assert_eq!(known, Some(0));
            }
        }
    }

    /// After 40 lost replies 16 more were missed, and reported as late.
    #[test]
    fn after_a_silence_the_second_reply_is_known_and_none_is_late() {
        for silence in [1, 13, 24, 25, 40, 70, 1000] {
            let mut queries = Queries::new(2, MARKS);
            (0..silence).for_each(|tick| _ = send(&mut queries, tick));
            let answers = [0, 1].map(|tick| {
                let symbol = send(&mut queries, silence + tick);
                queries.answered(symbol, false)
            });
            let is_first = [fresh(silence), Answer::Unclear { sent_ns: silence }].contains(&answers[0]);
            assert!(is_first && answers[1] == fresh(silence + 1), "{silence}: {answers:?}");
        }
    }

    #[test]
    fn a_device_that_is_always_late_is_taken_for_nothing_else() {
        for late in [1, 2, 23, 24, 25, 26, 60, 300, 500] {
            let mut queries = Queries::new(2, MARKS);
            let mut asked = std::collections::VecDeque::new();
            for tick in 0..3000 {
                asked.push_back((send(&mut queries, tick), tick));
                if asked.len() > late {
                    let (symbol, sent_ns) = asked.pop_front().unwrap();
                    let answer = queries.answered(symbol, false);
                    let is_true = match answer {
                        Answer::News { sent_ns: message, newest } => message == sent_ns && !newest,
                        other => other == Answer::Unknown,
                    };
                    assert!(is_true, "{late} late, tick {tick}: {answer:?} for {sent_ns}");
                }
            }
        }
    }

    #[test]
    fn the_oldest_of_600_unanswered_queries_is_still_known() {
        for rotations in [2, 3, 7] {
            let mut queries = Queries::new(rotations, MARKS);
            let first = send(&mut queries, 0);
            (1..600).for_each(|tick| _ = send(&mut queries, tick));
            assert_eq!(queries.answered(first, false), Answer::News { sent_ns: 0, newest: false });
        }
    }

    #[test]
    fn replies_to_no_query_are_unknown() {
        assert_eq!(Queries::new(2, MARKS).answered(1, false), Answer::Unknown);
        let mut queries = Queries::new(2, MARKS);
        send(&mut queries, 0);
        assert_eq!(queries.answered(2 + MARKS as u8 - 1, false), Answer::Unknown);
    }

    #[test]
    fn a_mark_the_device_refuses_is_not_used_again() {
        let mut queries = Queries::new(2, MARKS);
        let [_, _, refused] = [0, 1, 2].map(|tick| send(&mut queries, tick));
        assert_eq!(queries.answered(refused, true), fresh(2));
        for tick in 3..1000 {
            assert_ne!(send(&mut queries, tick), refused);
        }
    }

    #[test]
    fn where_queries_cannot_be_marked_the_oldest_rotation_is_used_again() {
        let mut queries = Queries::new(2, 0);
        let symbols: Vec<_> = (0..6).map(|tick| send(&mut queries, tick)).collect();
        assert_eq!(symbols, [0, 1, 0, 1, 0, 1]);
        assert_eq!(queries.answered(1, false), fresh(5));
    }

    #[test]
    fn after_a_duplicate_further_ones_are_recognised_however_late() {
        let mut queries = Queries::new(3, MARKS);
        let first = send(&mut queries, 0);
        assert_eq!(queries.answered(first, false), fresh(0));
        assert_eq!(queries.answered(first, false), Answer::Duplicate);
        let mut replies = Vec::new();
        for tick in 1..200 {
            let symbol = send(&mut queries, tick);
            if let Some(&late) = replies.iter().rev().nth(29) {
                assert_eq!(queries.answered(late, false), Answer::Duplicate, "tick {tick}");
            }
            assert_eq!(queries.answered(symbol, false), fresh(tick));
            replies.push(symbol);
        }
    }
}
