//! Which frames of a bus belong to a servo, so that families can share a bus.

use khz_wire::Frame;
use std::fmt;

/// Identifiers that agree with `id` in the bits of `mask`, as an acceptance filter has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifiers {
    /// One of them.
    pub id: u32,
    /// The bits in which all of them agree.
    pub mask: u32,
    /// They have 29 bits, not 11.
    pub extended: bool,
}

impl Identifiers {
    /// Every identifier of 29 bits.
    pub const EXTENDED: Self = Self { id: 0, mask: 0, extended: true };

    /// Every identifier there is.
    pub const ALL: [Self; 2] = [Self { extended: false, ..Self::EXTENDED }, Self::EXTENDED];

    /// One of 11 bits.
    pub const fn one(id: u32) -> Self {
        Self { id, mask: 0x7ff, extended: false }
    }

    /// The frame has one of them.
    pub const fn has(self, frame: &Frame) -> bool {
        frame.extended == self.extended && (frame.id ^ self.id) & self.mask == 0
    }

    /// The least that is also among the others.
    pub fn shared(self, other: Self) -> Option<Identifier> {
        let agree = (self.id ^ other.id) & self.mask & other.mask == 0;
        let id = (self.id & self.mask) | (other.id & other.mask);
        (agree && self.extended == other.extended).then_some(Identifier { id, extended: self.extended })
    }
}

/// One identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifier {
    /// Its bits.
    pub id: u32,
    /// It has 29 of them, not 11.
    pub extended: bool,
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extended {
            true => write!(f, "0x{:08X}", self.id),
            false => write!(f, "0x{:03X}", self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FamilySettings;
    use crate::damiao::{self, DamiaoSettings};
    use crate::odrive::{self, OdriveSettings};
    use crate::rmd::{self, RmdSettings};

    /// The table in docs/servos.md.
    #[test]
    fn these_nodes_are_no_identifiers_of_rmd_and_damiao_motors() {
        let rmd = rmd::Settings::of(&RmdSettings::default());
        let damiao = |id| damiao::Settings::of(&DamiaoSettings::default(), id).identifiers(id);
        let taken: Vec<_> =
            (1..=32).flat_map(|id| rmd.identifiers(id)).chain((1..=15).flat_map(damiao)).collect();
        let odrive = odrive::Settings::of(&OdriveSettings::default());
        let is_free = |node: &u8| {
            odrive.identifiers(*node).iter().all(|own| taken.iter().all(|other| own.shared(*other).is_none()))
        };
        let free: Vec<u8> = (1..=62).filter(is_free).collect();
        let documented =
            [1..=7, 9..=9, 12..=15, 17..=17, 21..=23, 25..=31, 34..=39, 42..=62].into_iter().flatten();
        assert_eq!(free, documented.collect::<Vec<u8>>());
    }

    #[test]
    fn identifiers_are_shared_where_all_bits_of_both_agree() {
        let node = Identifiers { id: 10 << 5, mask: 0x7e0, extended: false };
        let shared = |other| node.shared(other).map(|shared| shared.to_string());
        assert_eq!(shared(Identifiers::one(0x141)).as_deref(), Some("0x141"));
        assert_eq!(shared(Identifiers::one(0x160)), None, "of the next node");
        assert_eq!(shared(Identifiers { extended: true, ..Identifiers::one(0x141) }), None);
        assert_eq!(shared(Identifiers::EXTENDED), None);
        // Of a moteus, which listens to every source.
        let broadcast = Identifiers { id: 0x7f, mask: 0x7f, extended: false };
        assert_eq!(
            broadcast.shared(Identifiers::one(0x7ff)),
            Some(Identifier { id: 0x7ff, extended: false })
        );
    }
}
