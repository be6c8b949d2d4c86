//! Which log it is, by its content, and whether it is a later state of one that is known.

use serde::{Deserialize, Serialize};
use sha1_smol::Sha1;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of the shortest prefix that is remembered; each next one is twice as long.
const FIRST: u64 = 4096;
const PIECE: usize = 256 << 10;

/// A state of a log's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// The name of the file, for people.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Of the whole file.
    pub sha1: String,
    /// Of its first 4096 bytes, its first 8192, and so on.
    pub prefixes: Vec<String>,
}

/// How a state of a log compares with the one that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Same,
    /// It goes on where the known one ends.
    Grown,
    /// It is the known one, cut short.
    Older,
    /// Another log that begins alike.
    Other,
}

impl Identity {
    /// Reads the first `bytes` of a log's file. Gives the log's id, too: a digest of its first `head` bytes, which reach to
    /// the end of its first sample and so stay what they are while the log grows.
    ///
    /// # Errors
    /// If the file cannot be read, or is shorter by now.
    pub fn read(file: &File, name: String, bytes: u64, head: u64) -> io::Result<(String, Self)> {
        let (mut whole, mut prefixes, mut id) = (Sha1::new(), Vec::new(), None);
        let mut piece = vec![0; PIECE];
        let (mut at, mut next) = (0, FIRST);
        loop {
            if at == head {
                id = Some(whole.digest().to_string());
            }
            if at == next {
                prefixes.push(whole.digest().to_string());
                next *= 2;
            }
            if at == bytes {
                break;
            }
            let stop = [bytes, next, if at < head { head } else { bytes }].into_iter().min().unwrap_or(bytes);
            let len = usize::try_from(stop - at).unwrap_or(PIECE).min(PIECE);
            file.read_exact_at(&mut piece[..len], at)?;
            whole.update(&piece[..len]);
            at += len as u64;
        }
        let sha1 = whole.digest().to_string();
        // 80 bits: two of a million logs are alike once in a trillion datasets.
        let id = id.unwrap_or_else(|| sha1.clone())[..20].to_owned();
        Ok((id, Self { name, bytes, sha1, prefixes }))
    }

    /// What this state is to one that is known. Two states of one log agree as far as both go; that is known of at least
    /// half of the shorter one, which a log that was repaired at its end agrees in, too.
    pub fn relation(&self, known: &Self) -> Relation {
        if (self.bytes, &self.sha1) == (known.bytes, &known.sha1) {
            return Relation::Same;
        }
        if self.prefixes.iter().zip(&known.prefixes).any(|(one, other)| one != other) {
            return Relation::Other;
        }
        if self.bytes > known.bytes { Relation::Grown } else { Relation::Older }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(bytes: &[u8]) -> (String, Identity) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Identity::read(&file, "a.tlog".into(), bytes.len() as u64, 100.min(bytes.len() as u64)).unwrap()
    }

    #[test]
    fn a_log_is_known_by_its_beginning_and_told_from_another() {
        let whole: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        let (id, known) = of(&whole[..600_000]);
        assert_eq!((id.len(), known.prefixes.len()), (20, 8));
        assert_eq!(known.sha1, Sha1::from(&whole[..600_000]).digest().to_string());
        assert_eq!(known.prefixes[1], Sha1::from(&whole[..8192]).digest().to_string());
        for (bytes, relation) in [
            (600_000, Relation::Same),
            (600_001, Relation::Grown),
            (1_000_000, Relation::Grown),
            (4095, Relation::Older),
        ] {
            let (same, state) = of(&whole[..bytes]);
            assert_eq!((same, state.relation(&known)), (id.clone(), relation), "{bytes}");
        }
        let mut other = whole.clone();
        other[5000] ^= 1;
        let (same, state) = of(&other);
        assert_eq!((same, state.relation(&known)), (id.clone(), Relation::Other));
        other[50] ^= 1;
        assert_ne!(of(&other).0, id);
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error() {
        assert!(Identity::read(&tempfile::tempfile().unwrap(), String::new(), 10, 5).is_err());
    }
}
