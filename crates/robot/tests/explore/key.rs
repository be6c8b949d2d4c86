//! When are two states of the supervisor the same? If they differ in nothing that it will ever decide by.
//!
//! The key is made of the text of `Debug`, so that it needs no access to private fields and a field that is added
//! counts at once. Points in time become ages, and ages and counts beyond every threshold become one. Points in time
//! are known by their size: virtual time begins at [`EPOCH_NS`], and no duration comes near it.

use std::fmt::{self, Write as _};

/// Where virtual time begins.
pub const EPOCH_NS: i64 = 1 << 60;

/// Fields that decide nothing: settings and joints never change, transitions are taken in every tick, of the blame only matters
/// whether it is trouble (the search adds that), and the others only describe a transition.
fn is_ignored(field: &str) -> bool {
    matches!(
        field,
        "settings"
        | "joints"
        | "transitions"
        | "blame"
        | "all_good_ns"
        | "clamped"
        | "took_ns"
        | "waited_ns"
        | "lack"
        // Ticks are so far apart that no position can have jumped, and every reading of the IMU differs.
        | "track"
        | "imu"
        // Made anew in every tick, from other fields.
        | "is_following"
        | "leads"
        | "refusing"
        // How a joint was held decides where it is held again, within its limits.
        | "preload"
        | "torque"
        | "target"
    )
}

/// Hashes of 128 bits: of a million states two have the same with a probability of 10⁻²⁷.
pub type Key = u128;

/// Fields with thresholds of their own, which no setting shortens: how long a servo may stay off, or do something else.
fn is_long(field: &str) -> bool {
    matches!(field, "off_since_ns" | "stopped" | "stops" | "off" | "astray" | "may_be_on" | "back")
}

/// Lists with an element for each servo: the supervisor's, and what the laws remember.
fn is_per_servo(field: &str) -> bool {
    matches!(
        field,
        "tallies"
            | "last"
            | "missed"
            | "driven"
            | "ran"
            | "off"
            | "commanded"
            | "commanded_before"
            | "astray"
            | "is_astray"
            | "may_be_on"
            | "held"
            | "timed_out"
            | "followed"
    )
}

/// Servos of the explored robots, at most.
pub const MOST_SERVOS: usize = 2;

/// Beyond these, ages and counts are the same to the supervisor.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub age_ns: i64,
    pub count: i64,
    /// Of the fields with long thresholds.
    pub long_age_ns: i64,
    pub long_count: i64,
}

/// The key of a state at a time.
pub fn key(state: &impl fmt::Debug, now_ns: i64, caps: Caps) -> Key {
    let read = Reader::read(state, now_ns, caps);
    read.servos.iter().fold(read.hash, |all, of_one| all.with(of_one.0)).0
}

/// The key that a state has in common with the one in which the two servos are each other; and whether it is that one's.
pub fn symmetric_key(state: &impl fmt::Debug, now_ns: i64, caps: Caps) -> (Key, bool) {
    let Reader { hash, servos: [first, second], .. } = Reader::read(state, now_ns, caps);
    (hash.with(first.0.min(second.0)).with(first.0.max(second.0)).0, first.0 > second.0)
}

/// A hash of everything that it is given.
#[derive(Clone, Copy)]
struct Hash(u128);

impl Hash {
    const FIRST: Self = Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

    #[must_use]
    const fn with(self, value: u128) -> Self {
        let mixed = (self.0 ^ value).wrapping_mul(Self::FACTOR);
        Self(mixed ^ mixed >> 67)
    }
}

/// Reads the text as it is written, word by word.
struct Reader {
    now_ns: i64,
    caps: Caps,
    hash: Hash,
    /// What lists with an element for each servo have of each.
    servos: [Hash; MOST_SERVOS],
    word: String,
    depth: u32,
    /// Within an ignored field, and at which depth it began.
    skip: Option<u32>,
    /// Within a field with a long threshold.
    long: bool,
    /// The next bracket opens a list with an element for each servo.
    lists: bool,
    /// Within such a list: at which depth its elements are, and which one is read.
    list: Option<(u32, usize)>,
}

impl Reader {
    fn read(state: &impl fmt::Debug, now_ns: i64, caps: Caps) -> Self {
        let mut reader = Self {
            now_ns,
            caps,
            hash: Hash::FIRST,
            servos: [Hash::FIRST; MOST_SERVOS],
            word: String::with_capacity(64),
            depth: 0,
            skip: None,
            long: false,
            lists: false,
            list: None,
        };
        let _ = write!(reader, "{state:?}");
        reader.word_ends();
        reader
    }

    fn hash(&mut self, value: u128) {
        let hash = match self.list {
            Some((_, servo)) => &mut self.servos[servo],
            None => &mut self.hash,
        };
        *hash = hash.with(value);
    }

    /// A value: a number, or the name of a variant or of a type. They alone make states differ: what stands between them follows from
    /// them.
    fn word_ends(&mut self) {
        let Some(first) = self.word.as_bytes().first() else { return };
        let is_number = first.is_ascii_digit() || *first == b'-';
        let word = std::mem::take(&mut self.word);
        match is_number.then(|| word.parse::<i64>()) {
            Some(Ok(number)) => self.number(number),
            // No chunk is as a shorter one, nor as a number.
            _ => word.as_bytes().chunks(15).for_each(|chunk| {
                let mut value = [0; 16];
                value[..chunk.len()].copy_from_slice(chunk);
                value[15] = chunk.len() as u8;
                self.hash(u128::from_le_bytes(value));
            }),
        }
        self.word = word;
        self.word.clear();
    }

    fn number(&mut self, number: i64) {
        let Caps { age_ns, count, long_age_ns, long_count } = self.caps;
        let (age_ns, count) = if self.long { (long_age_ns, long_count) } else { (age_ns, count) };
        let (kind, value) = match number {
            i64::MIN | i64::MAX => (b'n', number),
            EPOCH_NS.. => (b't', self.now_ns.saturating_sub(number).min(age_ns)),
            _ => (b'c', number.min(count)),
        };
        self.hash(u128::from(kind) << 120 | u128::from(value as u64));
    }

    /// The word was the name of a field.
    fn field(&mut self) {
        let name = self.word.as_str();
        self.skip = is_ignored(name).then_some(self.depth);
        self.long = is_long(name);
        self.lists = self.list.is_none() && is_per_servo(name);
        self.word.clear();
    }

    /// Something between words.
    fn mark(&mut self, letter: u8) {
        self.word_ends();
        self.nest(letter);
    }

    /// An ignored field ends with the comma behind it, or with what surrounds it.
    fn skip(&mut self, letter: u8, began: u32) {
        self.nest(letter);
        if self.depth < began || (letter == b',' && self.depth == began) {
            self.skip = None;
        }
    }

    fn nest(&mut self, letter: u8) {
        match (letter, &mut self.list) {
            (b'{' | b'[' | b'(', _) => self.depth += 1,
            (b'}' | b']' | b')', _) => self.depth -= 1,
            (b',', Some((depth, servo))) if *depth == self.depth => *servo += 1,
            (b' ', _) => return,
            _ => {}
        }
        if self.list.is_some_and(|(depth, _)| self.depth < depth) {
            self.list = None;
        }
        if std::mem::take(&mut self.lists) && letter == b'[' {
            self.list = Some((self.depth, 0));
        }
    }
}

const fn is_of_a_word(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'.' | b'-')
}

/// The same as a table, for the loop in which the exploration spends its time.
const OF_A_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut letter = 0;
    while letter < table.len() {
        table[letter] = is_of_a_word(letter as u8);
        letter += 1;
    }
    table
};

impl fmt::Write for Reader {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Only behind the name of a field this comes by itself: a text may have a colon, too.
        if text == ": " && self.skip.is_none() {
            self.field();
            return Ok(());
        }
        // As a rule names and numbers come as a whole, and so does what stands between them.
        let between = match text {
            ", " => Some(b','),
            " { " => Some(b'{'),
            " }" => Some(b'}'),
            _ => None,
        };
        if let Some(letter) = between {
            match self.skip {
                Some(began) => self.skip(letter, began),
                None => self.mark(letter),
            }
            return Ok(());
        }
        if text.bytes().all(|letter| OF_A_WORD[usize::from(letter)]) {
            if self.skip.is_none() {
                self.word.push_str(text);
            }
            return Ok(());
        }
        for letter in text.bytes() {
            match self.skip {
                Some(began) => self.skip(letter, began),
                None if OF_A_WORD[usize::from(letter)] => self.word.push(char::from(letter)),
                None => self.mark(letter),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct State {
        #[allow(dead_code, reason = "read by Debug")]
        settings: Inner,
        #[allow(dead_code, reason = "read by Debug")]
        since_ns: Option<i64>,
        #[allow(dead_code, reason = "read by Debug")]
        count: [u32; 2],
        #[allow(dead_code, reason = "read by Debug")]
        clamped: u64,
    }

    #[derive(Debug)]
    #[allow(dead_code, reason = "read by Debug")]
    struct Inner {
        a: f64,
        b: Option<(i32, i32)>,
    }

    const CAPS: Caps = Caps { age_ns: 10, count: 3, long_age_ns: 100, long_count: 30 };

    fn state(a: f64, since_ns: i64, count: u32, clamped: u64) -> State {
        State { settings: Inner { a, b: Some((1, 2)) }, since_ns: Some(since_ns), count: [0, count], clamped }
    }

    #[test]
    fn only_what_decides_makes_a_difference() {
        let base = key(&state(1.0, EPOCH_NS + 5, 2, 0), EPOCH_NS + 7, CAPS);
        let same = [
            (state(2.0, EPOCH_NS + 5, 2, 0), EPOCH_NS + 7),
            (state(1.0, EPOCH_NS + 105, 2, 0), EPOCH_NS + 107),
            (state(1.0, EPOCH_NS + 5, 2, 9), EPOCH_NS + 7),
        ];
        for (state, now_ns) in same {
            assert_eq!(key(&state, now_ns, CAPS), base, "{state:?}");
        }
        assert_ne!(key(&state(1.0, EPOCH_NS + 5, 2, 0), EPOCH_NS + 8, CAPS), base);
        assert_ne!(key(&state(1.0, EPOCH_NS + 5, 1, 0), EPOCH_NS + 7, CAPS), base);
    }

    #[test]
    fn a_colon_within_a_text_is_no_field() {
        let of = |text: &str| key(&(text, 1), EPOCH_NS, CAPS);
        assert_ne!(of("udp 10.0.0.1:1"), of("udp 10.0.0.2:1"));
        assert_ne!(of("settings:1"), of("settings:2"));
    }

    #[derive(Debug)]
    struct Pair {
        #[allow(dead_code, reason = "read by Debug")]
        phase: u8,
        #[allow(dead_code, reason = "read by Debug")]
        tallies: [Inner; 2],
        #[allow(dead_code, reason = "read by Debug")]
        missed: [u32; 2],
    }

    #[test]
    fn states_whose_servos_are_each_other_have_a_key_in_common() {
        let inner = |a| Inner { a, b: Some((1, 2)) };
        let pair = |a, b, missed| Pair { phase: 3, tallies: [inner(a), inner(b)], missed };
        let (one, other) = (pair(1.0, 2.0, [0, 1]), pair(2.0, 1.0, [1, 0]));
        let of = |state: &Pair| symmetric_key(state, EPOCH_NS, CAPS);
        assert_eq!(of(&one).0, of(&other).0);
        assert_ne!(of(&one).1, of(&other).1, "one of them is the other's");
        assert_ne!(key(&one, EPOCH_NS, CAPS), key(&other, EPOCH_NS, CAPS));
        // What belongs to one servo stays with it.
        assert_ne!(of(&one).0, of(&pair(1.0, 2.0, [1, 0])).0);
        assert_ne!(of(&one).0, of(&Pair { phase: 2, ..one }).0);
    }

    #[test]
    fn beyond_the_thresholds_all_is_one() {
        let of = |since_ns, count| key(&state(0.0, since_ns, count, 0), EPOCH_NS + 100, CAPS);
        assert_eq!(of(EPOCH_NS + 1, 3), of(EPOCH_NS + 90, 4));
        assert_ne!(of(EPOCH_NS + 1, 3), of(EPOCH_NS + 91, 3));
    }
}
