//! The dialogue that makes every servo ready, before the first tick: off the tick, so it may wait.

use crate::cycle::{Cycle, DevicePlan};
use crate::supervisor::{OFF_REPLIES, STILL_WAY, SupervisorSettings};
use crate::time::Time;
use khz_link::{Link, LinkError};
use khz_servo::by_hand::{Answer, Ask};
use khz_servo::exchange::MARKS;
use khz_servo::{Exchange, ReplyCheck};
use khz_wire::{Frame, Request};
use std::sync::atomic::{AtomicBool, Ordering};

/// How long to wait for a reply before repeating the query for the first time.
const PATIENCE_NS: i64 = 20_000_000;

/// So often something is asked.
const TRIES: usize = 5;

/// So often a servo is asked whether it is on.
const LOOKS: usize = 2;

/// How long a second answer may take.
const ECHO_NS: i64 = 1_000_000;

/// A pause while a link is full or nothing arrives.
const PAUSE_NS: i64 = 200_000;

/// What to do about an adapter that holds replies back.
const HELD_BACK: &str = "If `khz doctor` finds an adapter whose latency timer holds bytes back (FTDI chips, 16 ms as delivered), set it to 1 ms: \
                         `setserial /dev/ttyUSB0 low_latency`, or `echo 1 | sudo tee /sys/bus/usb-serial/devices/ttyUSB0/latency_timer`";

/// What damaged frames may come of, and what to do about it.
pub const ONE_ID: &str =
    "servos with one id answer at once (new ones have the same: connect one at a time, and `khz bus set-id`)";

/// So often every servo is commanded to switch off, …
const OFFS: usize = 3;

/// … and so long a bus has for the commands to all of them.
const OFF_NS: i64 = 5_000_000;

/// Why a servo is not ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("servo `{name}`: {why}")]
pub struct NotReady {
    /// Its number in the robot.
    pub servo: usize,
    /// Its name.
    pub name: String,
    /// What is wrong, what to do, and what was done.
    pub why: String,
}

/// Lets down what is still on, as far as it can be, switches every servo off, and goes through the dialogue of all.
///
/// # Errors
/// The first servo that does not answer, or not as it has to. Every servo was commanded to switch off.
///
/// `note` gets which servos were found on, and what is done with them, before it is done. `stop` ends the run, also meanwhile.
///
/// Returns how soon after a query each servo has answered at the soonest, ns, if it was asked anything. `None`: `stop` was set while servos
/// that were found on were let down. They are off, and the run is not to begin.
pub fn make_ready(
    links: &mut [Box<dyn Link>],
    cycle: &mut Cycle,
    settings: &SupervisorSettings,
    time: &mut impl Time,
    note: &mut dyn FnMut(String),
    stop: &AtomicBool,
) -> Result<Option<Vec<Option<i64>>>, NotReady> {
    // One lucky answer hides it from `answers_in_time`.
    links.iter().filter_map(|link| link.holds_back()).for_each(&mut *note);
    let Found { left_on, answered } = let_down(links, cycle.devices(), settings, time, note);
    if !answered {
        cycle.unanswered();
    }
    // What holds something up is let down all the same.
    let is_stopped = left_on && stop.load(Ordering::Relaxed);
    let devices = cycle.devices();
    if !is_stopped && dialogues(devices, *MARKS.start()).iter().all(Vec::is_empty) {
        return Ok(Some(vec![None; devices.len()]));
    }
    // One that is silent must not keep another on that a host has left driving.
    switch_off(links, devices, time);
    if is_stopped {
        return Ok(None);
    }
    let mut soonest_ns = vec![None; devices.len()];
    match converse(links, devices, time, &mut soonest_ns) {
        Ok(mark) => {
            cycle.made_ready(mark);
            Ok(Some(soonest_ns))
        }
        Err(not_ready) => {
            switch_off(links, devices, time);
            Err(not_ready)
        }
    }
}

/// Whether a cycle can be as short as its deadline wants it, by how soon servos have answered.
///
/// # Errors
/// A servo whose bus is too slow for that: its adapter, most likely.
pub fn answers_in_time(cycle: &Cycle, soonest_ns: &[Option<i64>], deadline_ns: i64) -> Result<(), NotReady> {
    let slow = cycle.too_slow(soonest_ns, deadline_ns);
    let Some(&(servo, queries, soonest_ns)) = slow.first() else { return Ok(()) };
    let needed_ns = queries as i64 * soonest_ns;
    let [soonest, needed, left] =
        [soonest_ns, needed_ns, deadline_ns].map(|ns| format!("{:.1} ms", ns as f64 / 1e6));
    let name = |servo: usize| &*cycle.devices()[servo].name;
    let others: Vec<_> =
        slow[1..].iter().map(|&(servo, ..)| format!("the bus of `{}`", name(servo))).collect();
    let others =
        if others.is_empty() { String::new() } else { format!(". Too slow as well: {}", others.join(", ")) };
    // Where the deadline is the usual share of the period.
    let rate_hz = (0.8e9 / needed_ns as f64).floor();
    let queries =
        if queries == 1 { "one query" } else { &*format!("{queries} queries, one after the other") };
    let why = format!(
        "no servo on its bus answered sooner than {soonest} after it was asked. A cycle has {queries}, which takes {needed} or more, but \
         replies count for {left} (`loop.bus_deadline_us`){others}. {HELD_BACK}. If that is as it has to be, lower `loop.rate_hz` to well \
         below {rate_hz}, and leave out `loop.bus_deadline_us`. No servo was switched on"
    );
    Err(NotReady { servo, name: name(servo).to_owned(), why })
}

fn dialogues(devices: &[DevicePlan], mark: u32) -> Vec<Vec<Exchange>> {
    let ready = |device: &DevicePlan| {
        let plan = &device.servo;
        plan.family.settings().ready(plan.id, plan.watchdog_s, mark)
    };
    devices.iter().map(ready).collect()
}

/// So long a joint has to stand before it is let go, ns: gains that damp strongly let a load sink slowly.
const STANDS_NS: i64 = 600_000_000;

/// A servo that an earlier host has left on.
struct Held<'a> {
    device: &'a DevicePlan,
    /// Where its joint was when it was seen to move last, rad.
    stands_at: f64,
}

/// What was found before the dialogue.
struct Found {
    /// Servos were on.
    left_on: bool,
    /// All that was asked was answered.
    answered: bool,
}

/// Servos that an earlier host has left on hold something up, as a rule: they are damped until they stand still, as when a robot comes
/// down, and for as long at most. Those that nothing damps hold as long: time to hold what they hold.
fn let_down(
    links: &mut [Box<dyn Link>],
    devices: &[DevicePlan],
    settings: &SupervisorSettings,
    time: &mut impl Time,
    note: &mut dyn FnMut(String),
) -> Found {
    let mut answered = true;
    let (mut held, mut turning) = (Vec::new(), Vec::new());
    for device in devices {
        match left(links, device, time, &mut answered) {
            Some(Left::On) => {
                damp(links, device, time, &mut answered);
                held.push(Held { device, stands_at: f64::NAN });
            }
            Some(Left::Turning) => {
                switch_off(links, std::slice::from_ref(device), time);
                turning.push(device);
            }
            Some(Left::Off) | None => {}
        }
    }
    let left_on = !held.is_empty();
    what_is_left_on(&held, &turning, settings.damping_ns()).into_iter().for_each(note);
    let end_ns = time.now_ns() + settings.damping_ns();
    let mut still_since_ns = None;
    while !held.is_empty() && time.now_ns() < end_ns {
        let mut still = true;
        held.retain_mut(|of| {
            let message = damp(links, of.device, time, &mut answered);
            still &= message.as_ref().is_some_and(|message| of.is_still(message, settings));
            message.as_ref().is_none_or(is_on)
                || matches!(left(links, of.device, time, &mut answered), None | Some(Left::On))
        });
        let now_ns = time.now_ns();
        let since_ns = still.then(|| still_since_ns.unwrap_or(now_ns));
        still_since_ns = since_ns;
        if since_ns.is_some_and(|since_ns| now_ns - since_ns >= settings.still_ns().max(STANDS_NS)) {
            break;
        }
        pause(links, end_ns, time);
    }
    Found { left_on, answered }
}

/// What an end that is asked for meanwhile does.
const STOPPED: &str = "Ctrl-C does not shorten that; the run ends then without beginning";

/// What is to be said of servos that were found on.
fn what_is_left_on(held: &[Held<'_>], turning: &[&DevicePlan], damping_ns: i64) -> Vec<String> {
    let (damped, holding): (Vec<_>, Vec<_>) = held.iter().partition(|held| held.can_be_damped());
    let of = |these: Vec<&Held<'_>>| named(these.into_iter().map(|held| held.device));
    let damping_s = damping_ns as f64 / 1e9;
    let damped = of(damped).map(|names| {
        format!(
            "left on by an earlier run or another program: {names}. Damped until all stands still, for {damping_s} s at most, then switched \
             off: what is still held up then FALLS. {STOPPED}"
        )
    });
    let falls = of(holding).map(|names| {
        format!(
            "left on by an earlier run or another program: {names}. Nothing damps it: switched off in {damping_s} s, and what is held up \
             then FALLS. Hold it, or cut the power once it lies. {STOPPED}"
        )
    });
    let at_once = named(turning.iter().copied()).map(|names| {
        format!(
            "left on by an earlier run or another program: {names}. Switched off at once, as it may turn or push in the mode that it was left in"
        )
    });
    at_once.into_iter().chain(damped).chain(falls).collect()
}

/// The names of these devices; `None` if there are none.
fn named<'a>(devices: impl Iterator<Item = &'a DevicePlan>) -> Option<String> {
    let names: Vec<_> = devices.map(|device| format!("`{}`", device.name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

impl Held<'_> {
    fn can_be_damped(&self) -> bool {
        let plan = &self.device.servo;
        !plan.family.by_hand().let_down(plan.id, &plan.mounting).is_empty()
    }

    fn is_still(&mut self, message: &Answer, settings: &SupervisorSettings) -> bool {
        let position = message.position.unwrap_or(f64::NAN);
        let stands = (position - self.stands_at).abs() <= STILL_WAY;
        let is_still = stands && message.velocity.is_some_and(|it| it.abs() < settings.still_velocity);
        if !is_still {
            self.stands_at = position;
        }
        is_still
    }
}

/// How a servo was found.
enum Left {
    Off,
    /// It holds or follows, and can be let down.
    On,
    /// It may turn or push as it was told last.
    Turning,
}

/// As at the end of a run, a servo is off if it reports so several times in a row. `None`: it does not reply, or cannot be asked.
fn left(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    time: &mut impl Time,
    answered: &mut bool,
) -> Option<Left> {
    for _ in 0..OFF_REPLIES {
        let plan = &device.servo;
        let asked = || plan.family.by_hand().left_on(plan.id);
        let message = (0..LOOKS).find_map(|_| look(links, device, &asked()?, time, answered))?;
        if is_on(&message) {
            return Some(Left::On);
        }
        if message.may_turn {
            return Some(Left::Turning);
        }
    }
    Some(Left::Off)
}

fn is_on(message: &Answer) -> bool {
    message.wrong.is_some()
}

/// Tells a servo to damp: the state that it reports, if it can be let down and answers.
fn damp(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    time: &mut impl Time,
    answered: &mut bool,
) -> Option<Answer> {
    let plan = &device.servo;
    let mut message: Option<Answer> = None;
    for ask in plan.family.by_hand().let_down(plan.id, &plan.mounting) {
        let answer = look(links, device, &ask, time, answered)?;
        match &mut message {
            Some(message) => message.add(answer),
            None => message = Some(answer),
        }
    }
    message
}

/// What a servo answers; `answered` becomes false if it does not in time.
fn look(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    ask: &Ask,
    time: &mut impl Time,
    answered: &mut bool,
) -> Option<Answer> {
    let until_ns = time.now_ns() + PATIENCE_NS;
    send_request(&mut *links[device.link], device, &ask.frame, time.now_ns()).ok()?;
    let message = receive(links, device, &ask.read, until_ns, time);
    *answered &= message.is_some();
    message
}

/// Commands every servo to switch off, without waiting for replies.
fn switch_off(links: &mut [Box<dyn Link>], devices: &[DevicePlan], time: &mut impl Time) {
    for _ in 0..OFFS {
        let until_ns = time.now_ns() + OFF_NS;
        links.iter_mut().for_each(|link| link.begin_cycle(until_ns - OFF_NS));
        for device in devices {
            let frame = device.servo.family.by_hand().off(device.servo.id);
            let request = Request { frame: &frame, to: Some(device.servo.id), replies: 0 };
            // A bus that takes nothing is left at that: there is nothing else to be done about it.
            while let Err(LinkError::Full) = links[device.link].send(device.channel, &request, time.now_ns())
                && time.now_ns() < until_ns
            {
                let _ = links[device.link].flush(time.now_ns());
                pause(links, until_ns, time);
            }
        }
        for link in links.iter_mut() {
            let _ = link.flush(time.now_ns());
        }
        while time.now_ns() < until_ns {
            links.iter_mut().for_each(|link| drain(&mut **link, time.now_ns()));
            pause(links, until_ns, time);
        }
    }
}

/// Lets a little time pass.
fn pause(links: &[Box<dyn Link>], until_ns: i64, time: &mut impl Time) {
    let next_ns = (time.now_ns() + PAUSE_NS).min(until_ns);
    time.rest(next_ns, links);
}

/// The mark with which all servos have been made ready: the first, counted from one that is drawn, that none had before.
fn converse(
    links: &mut [Box<dyn Link>],
    devices: &[DevicePlan],
    time: &mut impl Time,
    soonest_ns: &mut [Option<i64>],
) -> Result<u32, NotReady> {
    let (marks, drawn) = (i64::from(*MARKS.end()), time.now_ns());
    let mut used = 0;
    for n in 0..marks {
        let mark = MARKS.start() + (drawn + n).rem_euclid(marks) as u32;
        match talk(links, devices, mark, time, soonest_ns)? {
            None => return Ok(mark),
            Some(servo) => used = servo,
        }
    }
    let why =
        "what marks a run in it is as earlier runs have set it; switch its power off and on again".to_owned();
    Err(not_ready(devices, &[(used, why)]))
}

/// Step by step with all servos, so that none waits for long: its watchdog may run. A servo that has this mark already is
/// returned.
fn talk(
    links: &mut [Box<dyn Link>],
    devices: &[DevicePlan],
    mark: u32,
    time: &mut impl Time,
    soonest_ns: &mut [Option<i64>],
) -> Result<Option<usize>, NotReady> {
    let dialogues = dialogues(devices, mark);
    let steps = dialogues.iter().map(Vec::len).max().unwrap_or(0);
    for step in 0..steps {
        let mut failed = Vec::new();
        for (servo, dialogue) in dialogues.iter().enumerate() {
            let Some(exchange) = dialogue.get(step) else { continue };
            match ask(links, &devices[servo], exchange, time, &mut soonest_ns[servo]) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(servo)),
                Err(why) => failed.push((servo, why)),
            }
        }
        if !failed.is_empty() {
            return Err(not_ready(devices, &failed));
        }
    }
    Ok(None)
}

/// Describes the first failure, and names the other servos.
fn not_ready(devices: &[DevicePlan], failed: &[(usize, String)]) -> NotReady {
    let (servo, why) = &failed[0];
    let others: Vec<_> = failed[1..].iter().map(|(servo, _)| format!("`{}`", devices[*servo].name)).collect();
    let others =
        if others.is_empty() { String::new() } else { format!(". Not ready either: {}", others.join(", ")) };
    let why = format!(
        "{why}{others}. Every servo was commanded to switch off; one that does not reply may still be on"
    );
    NotReady { servo: *servo, name: devices[*servo].name.clone(), why }
}

/// One exchange, as often as it takes. False: the mark is used.
fn ask(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    exchange: &Exchange,
    time: &mut impl Time,
    soonest_ns: &mut Option<i64>,
) -> Result<bool, String> {
    let mut down = None;
    let corrupt = links[device.link].counters(device.channel).corrupt;
    match listen_quietly(links, device, exchange, time) {
        Some(ReplyCheck::Good) => return Ok(true),
        Some(ReplyCheck::Wrong(why)) => return Err(why),
        Some(ReplyCheck::Used | ReplyCheck::Unrelated) | None => {}
    }
    for n in 0..TRIES {
        let asked_ns = time.now_ns();
        // Longer and longer: a servo behind a computer that is busy answers late, and none is given up for that.
        let until_ns = asked_ns + (PATIENCE_NS << n.saturating_sub(1));
        let sent = send_request(&mut *links[device.link], device, &exchange.frame, time.now_ns());
        if let Err(error @ (LinkError::Down { .. } | LinkError::Unsupported)) = sent {
            down = Some(error);
        }
        match listen(links, device, exchange, until_ns, time) {
            // Another answer may come, of a second servo with the same id.
            Some(ReplyCheck::Good) => {
                // What follows a repetition may answer the first. A pause may be over later than the answer was there.
                let after_ns = (time.now_ns() - asked_ns - PAUSE_NS).max(0);
                if n == 0 && soonest_ns.is_none_or(|soonest_ns| after_ns < soonest_ns) {
                    *soonest_ns = Some(after_ns);
                }
                return listen_on(links, device, exchange, time);
            }
            Some(ReplyCheck::Used) => return Ok(false),
            Some(ReplyCheck::Wrong(why)) => return Err(why),
            Some(ReplyCheck::Unrelated) | None => {}
        }
    }
    Err(match down {
        Some(error) => format!("it could not be asked to {}: {error}; look at the bus", exchange.what),
        None => {
            let misnamed = links[device.link].misnamed();
            let is_damaged = links[device.link].counters(device.channel).corrupt > corrupt;
            let why = match misnamed {
                _ if is_damaged => damaged(),
                Some(why) => why,
                None => exchange.if_silent.to_owned(),
            };
            format!("it did not answer when asked to {}; {why}", exchange.what)
        }
    })
}

/// What to do about a servo that does not answer, while frames come that cannot be read.
fn damaged() -> String {
    format!(
        "what came instead was damaged, as when two {ONE_ID}, at another bit rate, or of noise; `khz bus scan` tries all ids"
    )
}

/// What comes in the silence before a request, if there is one. A silence that was over late is kept anew: what had come while this process
/// stood still was not read, and its age is unknown.
fn listen_quietly(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    exchange: &Exchange,
    time: &mut impl Time,
) -> Option<ReplyCheck> {
    if exchange.quiet_ns == 0 {
        return None;
    }
    for _ in 0..TRIES {
        let until_ns = time.now_ns() + exchange.quiet_ns;
        let heard = listen(links, device, exchange, until_ns, time);
        if heard.is_some() || time.now_ns() - until_ns < PATIENCE_NS {
            return heard;
        }
    }
    None
}

/// Sends one request; what came before is no answer to it.
fn send_request(
    link: &mut dyn Link,
    device: &DevicePlan,
    frame: &Frame,
    now_ns: i64,
) -> Result<(), LinkError> {
    link.begin_cycle(now_ns);
    drain(link, now_ns);
    link.send(device.channel, &Request { frame, to: Some(device.servo.id), replies: 1 }, now_ns)?;
    link.flush(now_ns)
}

/// Further replies are harmless, unless one reports a fault.
fn listen_on(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    exchange: &Exchange,
    time: &mut impl Time,
) -> Result<bool, String> {
    let until_ns = time.now_ns() + ECHO_NS;
    while let Some(reply) = listen(links, device, exchange, until_ns, time) {
        if let ReplyCheck::Wrong(why) = reply {
            return Err(why);
        }
    }
    Ok(true)
}

/// The next answer that comes on the servo's bus, if one does by then.
fn listen(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    exchange: &Exchange,
    until_ns: i64,
    time: &mut impl Time,
) -> Option<ReplyCheck> {
    let judged =
        |frame: &Frame| Some((exchange.judge)(frame)).filter(|judged| *judged != ReplyCheck::Unrelated);
    receive(links, device, judged, until_ns, time)
}

/// The first that can be read of what comes on the servo's bus by then.
fn receive<T>(
    links: &mut [Box<dyn Link>],
    device: &DevicePlan,
    read: impl Fn(&Frame) -> Option<T>,
    until_ns: i64,
    time: &mut impl Time,
) -> Option<T> {
    loop {
        let now_ns = time.now_ns();
        if now_ns >= until_ns {
            return None;
        }
        match links[device.link].receive(now_ns) {
            Ok(Some(received)) if received.channel == device.channel => {
                if let Some(value) = read(&received.frame) {
                    return Some(value);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => pause(links, until_ns, time),
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
