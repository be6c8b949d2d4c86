//! How many samples lie before some places of a file, for the case that it is cut while it is written.

use std::collections::VecDeque;

/// So many of the newest places are kept, …
const NEWEST: usize = 64;
/// … and of those before as many as that, evenly.
const OLDER: usize = 256;

/// A place, and how many samples of each record lie before it.
type Mark = (u64, Vec<u64>);

/// Places of one file, in order.
#[derive(Default)]
pub struct Marks {
    newest: VecDeque<Mark>,
    older: Vec<Mark>,
    /// Of the places that grow old, one in so many is kept …
    every: usize,
    /// … and so many have.
    aged: usize,
}

impl Marks {
    /// Adds the end of the file.
    pub fn add(&mut self, position: u64, samples: Vec<u64>) {
        self.newest.push_back((position, samples));
        if self.newest.len() <= NEWEST {
            return;
        }
        let aged = self.newest.pop_front().filter(|_| self.aged.is_multiple_of(self.every.max(1)));
        self.aged += 1;
        self.older.extend(aged);
        if self.older.len() > OLDER {
            let mut at = 0;
            self.older.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every = 2 * self.every.max(1);
        }
    }

    /// How many samples of each record surely lie within so many bytes; `None`: none is known to.
    pub fn within(&self, bytes: u64) -> Option<&[u64]> {
        let marks = self.older.iter().chain(&self.newest);
        marks.take_while(|(position, _)| *position <= bytes).last().map(|(_, samples)| samples.as_slice())
    }

    /// Another file begins.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
