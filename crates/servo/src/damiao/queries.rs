//! Which request a reply answers; see the [family's page](super).

use khz_wire::damiao::register;

/// Registers that are read as marks. None of them changes by itself, and every servo has them.
const MARKS: [u8; 13] = [
    register::ID,
    register::MASTER_ID,
    register::TIMEOUT,
    register::CONTROL_MODE,
    register::HARDWARE,
    register::SOFTWARE,
    register::SERIAL,
    register::POLE_PAIRS,
    register::POSITION_RANGE,
    register::VELOCITY_RANGE,
    register::TORQUE_RANGE,
    register::BIT_RATE,
    register::SUB_VERSION,
];

/// What a state that came is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To the request sent then; `newest`: this cycle's.
    News { sent_ns: i64, newest: bool },
    /// A further one to this cycle's request.
    Duplicate,
    /// Nobody can tell.
    Unknown,
}

/// A request with its number, from 1.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at_ns: i64,
}

/// The requests of one servo.
#[derive(Debug, Default)]
pub struct Queries {
    /// Number of the newest request that was sent.
    newest: u64,
    /// Number of the newest that was answered.
    answered: u64,
    /// The request that the next state answers, if that is known.
    awaited: Option<Sent>,
    /// By mark: the request it was read before, until the mark has come.
    marked: [Option<Sent>; MARKS.len()],
    /// The mark of the cycle's request.
    mark: Option<usize>,
}

impl Queries {
    /// A cycle begins. The register to read before its command, if the one before is unanswered.
    pub fn next(&mut self) -> Option<u8> {
        self.mark = None;
        if self.answered != self.newest {
            // What is still on its way cannot be told from the answer to come.
            self.awaited = None;
            self.mark = Some((self.newest % MARKS.len() as u64) as usize);
        }
        self.mark.map(|mark| MARKS[mark])
    }

    /// The cycle's command was sent, after its mark.
    pub fn sent(&mut self, at_ns: i64) {
        self.newest += 1;
        let sent = Sent { number: self.newest, at_ns };
        match self.mark {
            Some(mark) => self.marked[mark] = Some(sent),
            None => self.awaited = Some(sent),
        }
    }

    /// This register's value came: true if it was a mark.
    pub fn marked(&mut self, register: u8) -> bool {
        let mark = MARKS.iter().position(|&mark| mark == register);
        let Some(sent) = mark.and_then(|mark| self.marked[mark].take()) else { return false };
        // A mark that was overtaken tells nothing new.
        self.awaited = Some(sent).filter(|sent| sent.number > self.answered);
        true
    }

    /// A state came.
    pub fn answered(&mut self) -> Answer {
        let is_answered = self.answered == self.newest && self.newest > 0;
        match self.awaited.take() {
            Some(Sent { number, at_ns }) => {
                self.answered = number;
                Answer::News { sent_ns: at_ns, newest: number == self.newest }
            }
            None if is_answered => Answer::Duplicate,
            None => Answer::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(sent_ns: i64) -> Answer {
        Answer::News { sent_ns, newest: true }
    }

    fn send(queries: &mut Queries, at_ns: i64) -> Option<u8> {
        let mark = queries.next();
        queries.sent(at_ns);
        mark
    }

    #[test]
    fn while_replies_come_nothing_is_marked() {
        let mut queries = Queries::default();
        for tick in 0..100 {
            assert_eq!(send(&mut queries, tick), None);
            assert_eq!(queries.answered(), fresh(tick));
        }
    }

    #[test]
    fn a_lost_reply_never_makes_the_next_one_old_or_an_old_one_fresh() {
        let mut queries = Queries::default();
        send(&mut queries, 0);
        // The reply to 0 is lost: the next is found behind its mark.
        let mark = send(&mut queries, 1).unwrap();
        assert!(queries.marked(mark));
        assert_eq!(queries.answered(), fresh(1));
        assert_eq!(send(&mut queries, 2), None);
        // The reply to 2 is late: it comes before the mark of 3, and is not taken for the answer to 3.
        let mark = send(&mut queries, 3).unwrap();
        assert_eq!(queries.answered(), Answer::Unknown);
        assert!(queries.marked(mark));
        assert_eq!(queries.answered(), fresh(3));
    }

    #[test]
    fn a_servo_that_is_always_a_cycle_late_is_never_fresh() {
        let mut queries = Queries::default();
        send(&mut queries, 0);
        let mut last = None;
        for tick in 1..200 {
            let mark = send(&mut queries, tick);
            if let Some(last) = last {
                assert!(queries.marked(last));
                assert_eq!(queries.answered(), Answer::News { sent_ns: tick - 1, newest: false });
            }
            last = mark;
        }
    }

    #[test]
    fn a_second_reply_is_a_duplicate() {
        let mut queries = Queries::default();
        assert_eq!(queries.answered(), Answer::Unknown);
        send(&mut queries, 0);
        assert_eq!(queries.answered(), fresh(0));
        assert_eq!(queries.answered(), Answer::Duplicate);
    }

    #[test]
    fn a_mark_nobody_asked_for_is_none() {
        let mut queries = Queries::default();
        send(&mut queries, 0);
        assert!(!queries.marked(register::ID) && !queries.marked(60));
        assert_eq!(queries.answered(), fresh(0));
    }

    #[test]
    fn a_servo_that_was_silent_for_long_is_known_again_at_once() {
        for silence in [1, 12, 13, 14, 1000] {
            let mut queries = Queries::default();
            (0..silence).for_each(|tick| _ = send(&mut queries, tick));
            let mark = send(&mut queries, silence).unwrap();
            assert!(queries.marked(mark));
            assert_eq!(queries.answered(), fresh(silence), "after {silence}");
        }
    }
}
