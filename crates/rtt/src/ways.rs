//! The ways of receiving against each other.
use super::{Live, Plan, Receive, Results, RttError, Sender};
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the ways take turns, so that whatever disturbs the machine disturbs all.
const ROUNDS: u64 = 10;
/// For how long the kernel polls the card in the comparison, µs, unless the plan has a time.
const POLL_US: u32 = 50;

/// Runs a plan with each way of receiving, a tenth of its ticks at a time and in turns: blocking, hybrid, spinning, and
/// blocking with `SO_BUSY_POLL`. Each gets all the plan's ticks.
///
/// # Errors
/// As [`Sender::run`].
pub fn compare_receive(plan: &Plan, stop: &AtomicBool) -> Result<Vec<Results>, RttError> {
    let poll_us = if plan.busy_poll_us > 0 { plan.busy_poll_us } else { POLL_US };
    let ways = [
        ("block".to_owned(), Receive::Block, 0),
        ("hybrid".to_owned(), Receive::Hybrid, 0),
        ("spin".to_owned(), Receive::Spin, 0),
        (format!("block, SO_BUSY_POLL {poll_us} µs"), Receive::Block, poll_us),
    ];
    let mut all: Vec<Results> = Vec::new();
    let ticks = plan.ticks.div_ceil(ROUNDS);
    for _ in 0..ROUNDS.min(plan.ticks) {
        for (at, (name, receive, busy_poll_us)) in ways.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(all);
            }
            let plan = Plan {
                name: name.clone(),
                receive: *receive,
                busy_poll_us: *busy_poll_us,
                ticks,
                ..plan.clone()
            };
            let results = Sender::new(plan)?.run(stop, &Live::default())?;
            match all.get_mut(at) {
                Some(whole) => whole.absorb(&results),
                None => all.push(results),
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Echo;
    use khz_rt::{Setup, Wake};
    use std::net::Ipv4Addr;

    #[test]
    fn every_way_gets_all_ticks() {
        let Ok(mut echo) = Echo::bind((Ipv4Addr::LOCALHOST, 0).into(), Receive::Block) else {
            panic!("no echo")
        };
        let plan = Plan {
            ticks: 40,
            rate_hz: Some(2_000.0),
            setup: Setup::ordinary(),
            wake: Wake::Sleep,
            ..Plan::new(echo.address().into_iter().collect())
        };
        let over = AtomicBool::new(false);
        let all = std::thread::scope(|scope| {
            scope.spawn(|| echo.run(&over));
            let all = compare_receive(&plan, &AtomicBool::new(false));
            over.store(true, Ordering::Relaxed);
            all.unwrap_or_else(|error| panic!("{error}"))
        });
        let planned = |run: &Results| run.planned.as_ref().map(|planned| planned.periods);
        let message: Vec<_> = all.iter().map(|run| (run.name.as_str(), planned(run))).collect();
        let same = |name| (name, Some(40));
        assert_eq!(message, ["block", "hybrid", "spin", "block, SO_BUSY_POLL 50 µs"].map(same));
    }
}
