//! The dialogue that makes every servo ready, before the first tick: off the tick, so it may wait.

use crate::cycle::DevicePlan;
use crate::time::Time;
use khz_link::{Link, LinkError};
use khz_servo::{Exchange, Heard};
use khz_wire::Request;

/// How long to wait for a reply before repeating the query.
const PATIENCE_NS: i64 = 20_000_000;

/// So often something is asked.
const TRIES: usize = 5;

/// How long a second answer may take.
const ECHO_NS: i64 = 1_000_000;

/// A pause while a link is full or nothing arrives.
const PAUSE_NS: i64 = 200_000;

/// Why a servo is not ready. Nothing has been driven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("servo {}: {why}", self.name())]
pub struct NotReady {
    /// Its number in the robot.
    pub servo: usize,
    /// Its name, where that is known.
    pub name: Option<String>,
    /// What is wrong, and what to do.
    pub why: String,
}

impl NotReady {
    fn name(&self) -> String {
        self.name.as_ref().map_or_else(|| format!("number {}", self.servo), |name| format!("`{name}`"))
    }
}

/// Goes through the dialogue of every servo, one after another.
///
/// # Errors
/// The first servo that does not answer, or not as it has to.
pub fn make_ready(
    links: &mut [Box<dyn Link>],
    devices: &[DevicePlan],
    time: &mut impl Time,
) -> Result<(), NotReady> {
    for (servo, device) in devices.iter().enumerate() {
        let plan = &device.servo;
        for exchange in plan.family.settings().ready(plan.id, plan.watchdog_s) {
            ask(links, device, &exchange, time).map_err(|why| NotReady { servo, name: None, why })?;
        }
    }
    Ok(())
}

/// One exchange, as often as it takes.
fn ask(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    exchange: &Exchange,
    time: &mut impl Time,
) -> Result<(), String> {
    let mut down = None;
    for _ in 0..TRIES {
        let until_ns = time.now_ns() + PATIENCE_NS;
        let link = &mut links[device.link];
        link.begin_cycle(time.now_ns());
        drain(&mut **link, time.now_ns());
        let request = Request { frame: &exchange.frame, to: Some(device.servo.id), replies: 1 };
        let sent = link.send(device.channel, &request, time.now_ns());
        let sent = sent.and_then(|()| link.flush(time.now_ns()));
        if let Err(error @ (LinkError::Down { .. } | LinkError::Unsupported)) = sent {
            down = Some(error);
        }
        match listen(links, device, exchange, until_ns, time) {
            // Another answer may come, of a second servo with the same id.
            Some(Heard::Good) => return listen_on(links, device, exchange, time),
            Some(Heard::Wrong(why)) => return Err(why),
            Some(Heard::SomethingElse) | None => {}
        }
    }
    Err(match down {
        Some(error) => format!("it could not be asked to {}: {error}; look at the bus", exchange.what),
        None => format!("it did not answer when asked to {}; {}", exchange.what, exchange.if_silent),
    })
}

/// Further answers are no harm, unless one says what is wrong.
fn listen_on(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    exchange: &Exchange,
    time: &mut impl Time,
) -> Result<(), String> {
    let until_ns = time.now_ns() + ECHO_NS;
    while let Some(heard) = listen(links, device, exchange, until_ns, time) {
        if let Heard::Wrong(why) = heard {
            return Err(why);
        }
    }
    Ok(())
}

/// The next answer that comes on the servo's bus, if one does by then.
fn listen(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    exchange: &Exchange,
    until_ns: i64,
    time: &mut impl Time,
) -> Option<Heard> {
    loop {
        let now_ns = time.now_ns();
        if now_ns >= until_ns {
            return None;
        }
        match links[device.link].receive(now_ns) {
            Ok(Some(received)) if received.channel == device.channel => {
                let heard = (exchange.judge)(&received.frame);
                if heard != Heard::SomethingElse {
                    return Some(heard);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => time.rest((now_ns + PAUSE_NS).min(until_ns), links),
        }
    }
}

/// What came before the request is no answer to it. A link that floods is left at that.
fn drain(link: &mut dyn Link, now_ns: i64) {
    for _ in 0..1000 {
        if !matches!(link.receive(now_ns), Ok(Some(_))) {
            return;
        }
    }
}
