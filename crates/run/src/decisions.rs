//! How the decisions of a policy fared: from a run or from its log.

use crate::record::Decision;
use khz_page::{counted, grouped};
use serde::Serialize;

/// Joints that are counted each.
const MOST_JOINTS: usize = 1024;

/// The account of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// Those that were followed, or ended the run.
    pub made: u64,
    /// Of these, those that were later than they were due.
    pub late: u64,
    /// By how many ticks at the most.
    pub latest: u32,
    /// Those that were not made, because the one before was under way.
    pub missed: u64,
    /// Those with a number beyond `action.clip`.
    pub clipped: u64,
    /// Those after which a limit cut a command.
    pub cut: u64,
    /// After how many of them it was that of each joint.
    pub cut_joints: Vec<u64>,
    /// The joints, where they are known.
    pub joints: Vec<String>,
}

impl Default for Decided {
    /// None yet. Allocates, as nothing later does.
    fn default() -> Self {
        Self {
            made: 0,
            late: 0,
            latest: 0,
            missed: 0,
            clipped: 0,
            cut: 0,
            cut_joints: Vec::with_capacity(MOST_JOINTS),
            joints: Vec::new(),
        }
    }
}

impl Decided {
    /// A decision that is followed, or ended the run. Does not allocate.
    pub fn count(&mut self, decision: &Decision) {
        self.made += 1;
        self.late += u64::from(decision.late > 0);
        self.latest = self.latest.max(decision.late);
        self.missed += u64::from(decision.missed);
        self.clipped += u64::from(decision.clipped > 0);
        self.cut += u64::from(decision.cut.0.contains(&true));
        let joints = decision.cut.0.len().min(MOST_JOINTS);
        if self.cut_joints.len() < joints {
            self.cut_joints.resize(joints, 0);
        }
        for (count, cut) in self.cut_joints.iter_mut().zip(&decision.cut.0) {
            *count += u64::from(*cut);
        }
    }

    /// One sentence, if anything was late, not made, clipped or cut.
    pub fn sentence(&self) -> Option<String> {
        let was = |count| if count == 1 { "was" } else { "were" };
        let late = (self.late > 0).then(|| {
            format!(
                "{} {} late, by up to {}",
                grouped(self.late),
                was(self.late),
                counted(self.latest.into(), "tick")
            )
        });
        let missed =
            (self.missed > 0).then(|| format!("{} {} not made", grouped(self.missed), was(self.missed)));
        let clipped = (self.clipped > 0)
            .then(|| format!("{} {} beyond `action.clip`", grouped(self.clipped), was(self.clipped)));
        let cut = (self.cut > 0).then(|| {
            format!(
                "{} {} cut by limits{}",
                grouped(self.cut),
                was(self.cut),
                self.worst().unwrap_or_default()
            )
        });
        let all: Vec<String> = [late, missed, clipped, cut].into_iter().flatten().collect();
        (!all.is_empty()).then(|| format!("Of {}, {}.", counted(self.made, "decision"), all.join("; ")))
    }

    /// Whose commands were cut most often.
    fn worst(&self) -> Option<String> {
        let mut joints: Vec<(&String, u64)> =
            self.joints.iter().zip(self.cut_joints.iter().copied()).filter(|(_, count)| *count > 0).collect();
        joints.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown: Vec<String> =
            joints.iter().take(3).map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
        let more = joints.len().saturating_sub(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!shown.is_empty()).then(|| format!(" ({}{more})", shown.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Each;

    fn counted(decisions: &[Decision]) -> Decided {
        let joints = ["hip", "knee", "foot", "toe"].map(str::to_owned).to_vec();
        let mut decided = Decided { joints, ..Decided::default() };
        decisions.iter().for_each(|decision| decided.count(decision));
        decided
    }

    fn cut(joints: [bool; 4]) -> Decision {
        Decision { cut: Each(joints.to_vec()), ..Decision::default() }
    }

    #[test]
    fn what_went_well_is_not_reported() {
        assert_eq!(counted(&[cut([false; 4]), cut([false; 4])]).sentence(), None);
    }

    #[test]
    fn each_trouble_is_reported_with_its_number() {
        let late = |late, missed| Decision { late, missed, ..cut([false; 4]) };
        let clipped = Decision { clipped: 2, ..cut([true, false, false, false]) };
        let all = [
            late(3, 0),
            late(21, 1),
            clipped,
            cut([true, true, true, true]),
            cut([false, true, false, false]),
        ];
        let sentence = counted(&all).sentence();
        let whole = "Of 5 decisions, 2 were late, by up to 21 ticks; 1 was not made; 1 was beyond `action.clip`; 3 were cut by limits \
                     (hip 2, knee 2, foot 1 and 1 more).";
        assert_eq!(sentence.as_deref(), Some(whole));
    }
}
