//! What the sender saw in the whole run, and what a reader of the figures must know of it.
use super::super::plan::Plan;
use std::net::SocketAddr;

/// Counts of a whole run, however often they were read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) answered: u64,
    /// Answers that came while the sender waited for its next tick, and those of them without a time of arrival.
    pub(super) unattended: u64,
    pub(super) unstamped: u64,
    /// Round trips that the kernel's times split, and those that the card's did.
    pub(super) split: u64,
    pub(super) split_by_card: u64,
    refused: Option<(SocketAddr, u64)>,
    unreachable: Option<(SocketAddr, u64)>,
}

impl Seen {
    /// A question did not get there.
    pub(super) fn undelivered(&mut self, to: SocketAddr, refused: bool) {
        let kind = if refused { &mut self.refused } else { &mut self.unreachable };
        kind.get_or_insert((to, 0)).1 += 1;
    }

    /// Questions were refused, and none was answered.
    pub(super) fn is_refused(&self) -> bool {
        self.answered == 0 && self.refused.is_some()
    }

    /// Adds what there is to know.
    pub(super) fn add_notes(&self, plan: &Plan, notes: &mut Vec<String>) {
        if plan.stamps && self.answered > 0 && self.split == 0 {
            notes.push(
                "no round trip could be split: the kernel reported no times of sending or of arrival".into(),
            );
        }
        if plan.stamps && self.answered > 0 && self.split_by_card == 0 {
            notes.push(
                "the network card reported no time stamps (it needs `hwstamp_ctl -i INTERFACE -t 1 -r 1`, if it can)"
                    .into(),
            );
        }
        if let Some((to, times)) = self.refused {
            notes.push(format!(
                "connection refused: no program listens on {to} (ICMP port unreachable, {times} times in all); start \
                 `khz rtt echo` there, or check address and port"
            ));
        }
        if let Some((to, times)) = self.unreachable {
            notes.push(format!(
                "{to} cannot be reached (ICMP unreachable, {times} times in all); check cable, address and route"
            ));
        }
        self.limits(plan, notes);
    }

    /// Where the rate is beyond what the way of measuring can do.
    fn limits(&self, plan: &Plan, notes: &mut Vec<String>) {
        let Some(rate_hz) = plan.rate_hz else { return };
        if self.unattended * 10 > self.answered {
            notes.push(format!(
                "{rate_hz} Hz is beyond what this way of asking measures whole: {} of {} answers came while the sender \
                 waited for its next tick, so their round trips end with their arrival in the kernel; use a lower --rate",
                self.unattended, self.answered
            ));
        }
        if self.unstamped > 0 {
            notes.push(format!(
                "{} round trips read up to a period too long: the answers came while the sender waited for its next \
                 tick, and the kernel reported no time of arrival; use a lower --rate",
                self.unstamped
            ));
        }
    }
}
