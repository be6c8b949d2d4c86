//! The buses of a machine, for people, who do not know its links.

use crate::supervisor::Cause;
use khz_link::Link;

/// A bus's place: its link and its channel there.
pub type BusPlace = (usize, u8);

/// What links and buses are called, and where the buses are.
#[derive(Clone, Debug, Default)]
pub struct Buses {
    /// What to call each link; behind them the buses themselves, in their order.
    pub names: Vec<String>,
    /// Where each bus is.
    pub places: Vec<BusPlace>,
}

impl Buses {
    /// Of a link that is down and that several buses share, the one bus that was, as `names` has it behind the links. What else
    /// went down, and every other cause, stays as it is. Allocates nothing.
    pub(crate) fn narrowed(&self, cause: Cause, links: &[Box<dyn Link>]) -> Cause {
        let Cause::BusDown { link } = cause else { return cause };
        let was_down = |(_, (of, channel)): &(usize, &BusPlace)| {
            *of == usize::from(link) && links.get(*of).is_some_and(|link| link.counters(*channel).downs > 0)
        };
        let mut down = self.places.iter().enumerate().filter(was_down);
        match (down.next(), down.next()) {
            (Some((bus, _)), None) => Cause::BusDown { link: (links.len() + bus) as u16 },
            _ => cause,
        }
    }
}
