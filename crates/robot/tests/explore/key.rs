//! When are two states of the supervisor the same? If they differ in nothing that it will ever decide by.
//!
//! The key is made of the text of `Debug`, so that it needs no access to private fields and a field that is added
//! counts at once. Points in time become ages, and ages and counts beyond every threshold become one. Points in time
//! are known by their size: virtual time begins at [`EPOCH_NS`], and no duration comes near it.

use std::fmt::{self, Write as _};

/// Where virtual time begins.
pub const EPOCH_NS: i64 = 1 << 60;

/// Fields that decide nothing: the settings never change, transitions are taken in every tick, of the blame only matters
/// whether it is trouble (the search adds that), and the others only say something about a transition.
const IGNORED: [&str; 10] = [
    "settings",
    "transitions",
    "blame",
    "all_good_ns",
    "clamped",
    "took_ns",
    "waited_ns",
    "lack",
    // Ticks are so far apart that no position can have jumped, and every reading of the IMU differs.
    "track",
    "imu",
];

/// Hashes of 128 bits: of a million states two have the same with a probability of 10⁻²⁷.
pub type Key = u128;

/// Fields with thresholds of their own, which no setting shortens: how long a servo may stay off.
const LONG: [&str; 2] = ["off_since_ns", "stopped"];

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
    let mut reader = Reader {
        now_ns,
        caps,
        hash: FNV_OFFSET,
        word: String::with_capacity(64),
        depth: 0,
        skip: None,
        long: false,
    };
    let _ = write!(reader, "{state:?}");
    reader.word_ends();
    reader.hash
}

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Reads the text as it is written, word by word.
struct Reader {
    now_ns: i64,
    caps: Caps,
    hash: u128,
    word: String,
    depth: u32,
    /// Within an ignored field, and at which depth it began.
    skip: Option<u32>,
    /// Within a field with a long threshold.
    long: bool,
}

impl Reader {
    fn hash(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.hash = (self.hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }

    fn word_ends(&mut self) {
        let word = std::mem::take(&mut self.word);
        match word.parse::<i64>() {
            Ok(number) => self.number(number),
            Err(_) => self.hash(word.as_bytes()),
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
        self.hash(&[kind]);
        self.hash(&value.to_le_bytes());
    }

    fn read(&mut self, letter: u8) {
        if letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'.' | b'-') {
            self.word.push(char::from(letter));
            return;
        }
        if letter == b':' {
            self.skip = IGNORED.contains(&self.word.as_str()).then_some(self.depth);
            self.long = LONG.contains(&self.word.as_str());
        }
        self.word_ends();
        self.hash(&[letter]);
        self.nest(letter);
    }

    /// An ignored field ends with the comma behind it, or with what surrounds it.
    fn skip(&mut self, letter: u8, began: u32) {
        self.nest(letter);
        if self.depth < began || (letter == b',' && self.depth == began) {
            self.skip = None;
            self.hash(&[letter]);
        }
    }

    fn nest(&mut self, letter: u8) {
        match letter {
            b'{' | b'[' | b'(' => self.depth += 1,
            b'}' | b']' | b')' => self.depth -= 1,
            _ => {}
        }
    }
}

impl fmt::Write for Reader {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &letter in text.as_bytes() {
            match self.skip {
                None => self.read(letter),
                Some(began) => self.skip(letter, began),
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
    fn beyond_the_thresholds_all_is_one() {
        let of = |since_ns, count| key(&state(0.0, since_ns, count, 0), EPOCH_NS + 100, CAPS);
        assert_eq!(of(EPOCH_NS + 1, 3), of(EPOCH_NS + 90, 4));
        assert_ne!(of(EPOCH_NS + 1, 3), of(EPOCH_NS + 91, 3));
    }
}
