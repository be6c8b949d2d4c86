//! Whether a servo answers more than it is asked, again and again.

/// What each answer that was not asked for adds, …
const DOUBLED: u16 = 100;
/// … and what each cycle takes away: less than one in twenty may be disturbances.
const FORGIVEN: u16 = 5;
/// Beyond this another program commands the servo, or another servo has its id.
const INTRUDED: u16 = 1000;

/// Counts the answers of one servo that were not asked for, and forgets them with time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubled(u16);

impl Doubled {
    /// A cycle begins.
    pub const fn forgive(&mut self) {
        self.0 = self.0.saturating_sub(FORGIVEN);
    }

    /// Such an answer has come.
    pub const fn count(&mut self) {
        self.0 = self.0.saturating_add(DOUBLED);
    }

    /// One has come of late: in the last twenty cycles, or in more if there were many.
    pub const fn is_any(self) -> bool {
        self.0 > 0
    }

    /// There are more than disturbances explain: ten at once, or more than one in twenty cycles for long.
    pub const fn is_intruded(self) -> bool {
        self.0 > INTRUDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(cycles: u32, every: u32) -> Doubled {
        let mut doubled = Doubled::default();
        for cycle in 0..cycles {
            doubled.forgive();
            if cycle % every == 0 {
                doubled.count();
            }
        }
        doubled
    }

    #[test]
    fn a_second_program_is_noticed_and_a_disturbance_is_not() {
        assert!(after(11, 1).is_intruded() && !after(9, 1).is_intruded());
        assert!(after(300, 10).is_intruded(), "a second program at a tenth of the rate");
        assert!(!after(100_000, 20).is_intruded());
        assert!(after(20, 20).is_any() && !after(21, 100).is_any());
    }
}
