//! What a tick usually takes. A loop that is always too slow has no late ticks: late is what exceeds the usual.

use crate::commands::{BUDGET, CONTROLLER};
use khz_page::duration;
use khz_rt::Cause;

/// The usual tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    /// From its start to its end.
    pub tick_ns: i64,
    /// From how much over that on a tick is late.
    pub threshold_ns: i64,
    /// What takes most of it, as the cause of a late tick is called.
    pub most: Cause,
    /// How much that takes.
    pub most_ns: i64,
}

impl Usual {
    /// Of these parts; none if there is none.
    #[must_use]
    pub fn of(parts: &[(Cause, i64)], threshold_ns: i64) -> Option<Usual> {
        let (most, most_ns) = parts.iter().copied().max_by_key(|(_, ns)| *ns).filter(|(_, ns)| *ns > 0)?;
        let tick_ns = parts.iter().map(|(_, ns)| ns).sum();
        Some(Usual { tick_ns, threshold_ns, most, most_ns })
    }

    /// Without what others took of each tick.
    #[must_use]
    pub fn without(self, taken_ns: i64) -> Usual {
        Usual { tick_ns: self.tick_ns - taken_ns, ..self }
    }

    /// What takes too long.
    pub fn because(&self, period_ns: i64) -> String {
        let ns = |ns: i64| duration(ns as f64);
        let most = match self.most {
            Cause::Controller => "the controller",
            Cause::Bus => "waiting for replies",
            _ => "computing",
        };
        let (tick, period) = (ns(self.tick_ns), ns(period_ns));
        if self.most_ns > period_ns {
            return format!("{most} usually takes {} of a period of {period}", ns(self.most_ns));
        }
        format!(
            "a tick usually takes {tick} of a period of {period}, most of it {most} ({})",
            ns(self.most_ns)
        )
    }

    /// What to do about it.
    pub const fn remedy(&self) -> &'static str {
        match self.most {
            Cause::Controller => CONTROLLER,
            Cause::Bus => BUDGET,
            _ => "lower the rate",
        }
    }
}
