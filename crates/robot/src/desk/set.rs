//! Settings of a servo, changed by hand: its zero, its id, its watchdog, its registers.
//!
//! What is changed here outlives the program, and other programs find it changed. So the servo's state is read first, and nothing
//! is written while its output is on; and what counts as done is what the servo reports afterwards.

use super::{BURST, Desk, DeskError, DeskServo, Found, Scan, Wanted};
use khz_servo::by_hand::{Answer, Ask};
use khz_servo::{Family, Mounting, ServoPlan};
use std::collections::BTreeMap;

/// What is to be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// Its position is 0 here.
    Zero,
    /// It has this id.
    Id(u8),
    /// It acts by itself after so long without a frame, s; 0: never.
    Watchdog(f64),
    /// A register has this value, in the servo's own units.
    Register(u16, f64),
}

impl Desk {
    /// The servo that a person names: as a robot file does, or by its id, on a bus (counted from 0) where there are several.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn named(&mut self, word: &str, bus: Option<usize>, timeout_ns: i64) -> Result<DeskServo, DeskError> {
        if let Ok(id) = word.parse() {
            return self.with_id(id, bus, timeout_ns);
        }
        let is_meant = |servo: &&DeskServo| servo.name == word && bus.is_none_or(|bus| servo.bus == bus);
        let mut meant = self.servos.iter().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(servo), None) => Ok(servo.clone()),
            (Some(_), Some(_)) => {
                Err(impossible(format!("several servos are called `{word}`: give the bus")))
            }
            (None, _) => {
                let names: Vec<_> = self.servos.iter().map(|servo| servo.name.as_str()).collect();
                let names = if names.is_empty() { "write its id".to_owned() } else { names.join(", ") };
                Err(impossible(format!("no servo is called `{word}`; there are: {names}")))
            }
        }
    }

    /// How long it takes to ask for every id on a bus where no servo replies, s: on a line one after the other.
    pub fn longest_search_s(&self, bus: usize, timeout_ns: i64) -> f64 {
        let known = &self.buses[bus].families;
        let families = if known.is_empty() { Family::possible() } else { known.clone() };
        let at_once = if self.is_half_duplex(bus) { 1 } else { BURST };
        let bursts = |family: &Family| family.by_hand().ids().count().div_ceil(at_once);
        families.iter().map(bursts).sum::<usize>() as f64 * timeout_ns as f64 * 1e-9
    }

    fn with_id(&mut self, id: u8, bus: Option<usize>, timeout_ns: i64) -> Result<DeskServo, DeskError> {
        let buses = self.buses();
        let bus = match bus {
            Some(bus) if bus < buses => bus,
            None if buses == 1 => 0,
            _ => return Err(impossible(format!("on which bus is servo {id}? There are 1 to {buses}"))),
        };
        if let Some(servo) = self.servos.iter().find(|servo| (servo.bus, servo.servo.id) == (bus, id)) {
            return Ok(servo.clone());
        }
        let mut found = self.those(bus, &[id], timeout_ns)?;
        if !found.iter().any(|found| found.answer.id == id) {
            found = self.scan(bus, &everybody(timeout_ns))?;
        }
        let ids: Vec<_> = found.iter().map(|found| found.answer.id.to_string()).collect();
        match found.into_iter().find(|found| found.answer.id == id) {
            Some(found) => {
                let servo = ServoPlan {
                    servo: 0,
                    id,
                    mounting: Mounting::default(),
                    watchdog_s: 0.0,
                    family: found.family,
                };
                Ok(DeskServo { name: format!("servo {id}"), bus, servo })
            }
            None => {
                let ids = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
                let bus = self.name(bus);
                Err(impossible(format!(
                    "servo {id} on bus {bus} did not reply; replied: {ids}. Check its power, cable and id"
                )))
            }
        }
    }

    /// Whether a servo may be set now: it can, its output is off, and its new id is free. Nothing is written. Its state is in its
    /// own coordinates; of a register that is to be set it has the present value.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn may_set(
        &mut self,
        servo: &DeskServo,
        setting: Setting,
        store: bool,
        timeout_ns: i64,
    ) -> Result<Answer, DeskError> {
        let Steps { mut check, .. } = steps(servo, setting, store)?;
        match setting {
            Setting::Id(new) => self.is_free(servo, new, timeout_ns)?,
            _ => self.is_alone(servo, timeout_ns)?,
        }
        check.truncate(if store { check.len() } else { 1 });
        let mut answer = self.ask(servo, check, timeout_ns)?;
        if let Setting::Register(number, _) = setting {
            let wanted = Wanted { number, format: None };
            answer.add(self.exchange(servo, None, &[wanted], timeout_ns)?);
        }
        if setting == Setting::Zero {
            self.add_position(servo, &mut answer, timeout_ns)?;
        }
        Ok(answer)
    }

    /// Adds its position, in its own coordinates, if it has not reported it yet: a new zero changes all angles by that much.
    fn add_position(
        &mut self,
        servo: &DeskServo,
        answer: &mut Answer,
        timeout_ns: i64,
    ) -> Result<(), DeskError> {
        if answer.position.is_none() {
            let plan = ServoPlan { mounting: Mounting::default(), ..servo.servo.clone() };
            let unmounted = DeskServo { servo: plan, ..servo.clone() };
            answer.add(self.exchange(&unmounted, None, &[], timeout_ns)?);
        }
        if answer.position.is_some_and(f64::is_finite) {
            return Ok(());
        }
        let why = "it does not say where it is: its zero was not set. Look at it with `khz bus scan`, and calibrate its encoder first";
        Err(wrong(servo, why.to_owned()))
    }

    /// Sets it, reads it back, and, with `store`, makes the servo keep its settings without power. Returns what it reports afterwards;
    /// positions are the joint's.
    ///
    /// # Errors
    /// As [`Desk::may_set`]; or the servo did not take it, or it is not known whether it did.
    pub fn set(
        &mut self,
        servo: &DeskServo,
        setting: Setting,
        store: bool,
        timeout_ns: i64,
    ) -> Result<Answer, DeskError> {
        self.may_set(servo, setting, store, timeout_ns)?;
        let mut steps = steps(servo, setting, store)?;
        let rate = setting.rate_after(servo);
        let answer = match self.ask(servo, std::mem::take(&mut steps.write), timeout_ns) {
            // It may have answered at its new rate.
            Err(DeskError::NoReply { .. }) if rate.is_some() => Answer::default(),
            message => message.map_err(unsure)?,
        };
        if setting == Setting::Zero {
            let takes_s = servo.servo.family.by_hand().zero_takes_s();
            self.receive_until((takes_s * 1e9) as i64, |_, _| false);
        }
        // A link that has no rates, as an emulated one, reaches it as before.
        let is_other = rate.is_some() && self.set_bit_rate(servo.bus, rate).is_ok();
        let afterwards = self.look_again(servo, setting, steps, answer, timeout_ns);
        if is_other {
            self.set_bit_rate(servo.bus, None).map_err(|why| self.refused(servo.bus, why))?;
        }
        afterwards
    }

    /// Reads back a setting that was written, and stores it.
    fn look_again(
        &mut self,
        servo: &DeskServo,
        setting: Setting,
        steps: Steps,
        mut answer: Answer,
        timeout_ns: i64,
    ) -> Result<Answer, DeskError> {
        let (changed, Steps { read_back, keep, .. }) = (setting.applied(servo), steps);
        match self.ask(&changed, read_back, timeout_ns) {
            Err(DeskError::NoReply { .. }) if changed.servo.id != servo.servo.id => {
                return Err(self.not_found_again(servo, changed.servo.id, timeout_ns));
            }
            message => answer.add(message.map_err(unsure)?),
        }
        let kept = self.ask(&changed, keep, timeout_ns);
        answer.add(kept.map_err(|error| wrong(servo, format!("it is set, but not stored: {error}")))?);
        // It is set; that its state cannot be read once more changes nothing.
        if let Ok(state) = self.exchange(&changed, None, &[], timeout_ns) {
            answer.add(state);
        }
        Ok(Answer { id: changed.servo.id, ..answer })
    }

    /// The servos that answer, at least those of them with these ids: a line on which every id has to be asked for alone is asked for these.
    fn those(&mut self, bus: usize, ids: &[u8], timeout_ns: i64) -> Result<Vec<Found>, DeskError> {
        let families = self.buses[bus].families.clone();
        if !self.is_half_duplex(bus) || families.is_empty() {
            return self.scan(bus, &everybody(timeout_ns));
        }
        let (ids, mut found) = (ids.iter().copied().collect(), BTreeMap::new());
        for family in families {
            self.look_for(&family, bus, &everybody(timeout_ns), Some(&ids), &mut found)?;
        }
        Ok(found.into_values().collect())
    }

    /// No other servo has its id, and would be set with it.
    fn is_alone(&mut self, servo: &DeskServo, timeout_ns: i64) -> Result<(), DeskError> {
        let (id, mut found) = (servo.servo.id, BTreeMap::new());
        let only = [id].into_iter().collect();
        self.look_for(&servo.servo.family, servo.bus, &everybody(timeout_ns), Some(&only), &mut found)?;
        let twins = found.get(&id).and_then(Found::twins);
        twins.map_or(Ok(()), |twins| {
            Err(wrong(servo, format!("{twins}, and both would be set: unplug one of them")))
        })
    }

    fn is_free(&mut self, servo: &DeskServo, new: u8, timeout_ns: i64) -> Result<(), DeskError> {
        let (id, family) = (servo.servo.id, servo.servo.family.by_hand());
        let found = self.those(servo.bus, &[id, new], timeout_ns)?;
        let Some(own) = found.iter().find(|found| found.answer.id == id) else {
            let found = self.scan(servo.bus, &everybody(timeout_ns))?;
            let ids: Vec<_> = found.iter().map(|found| found.answer.id.to_string()).collect();
            let who = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
            let bus = self.name(servo.bus);
            let why = format!(
                "id {id} on bus {bus} was asked and did not reply; replied: {who}. In place of the name, give the id it has now"
            );
            return Err(wrong(servo, why));
        };
        if let Some(twins) = own.twins() {
            return Err(wrong(servo, format!("{twins}, and both would take the new id: unplug one of them")));
        }
        if family.has_id(new, &own.answer) {
            return Err(wrong(servo, format!("it has id {new} already")));
        }
        let mut others = found.iter().map(|found| &found.answer).filter(|answer| answer.id != id);
        others.find_map(|other| family.collision(new, other)).map_or(Ok(()), |why| Err(wrong(servo, why)))
    }

    /// Why a servo does not answer under its new id.
    fn not_found_again(&mut self, servo: &DeskServo, new: u8, timeout_ns: i64) -> DeskError {
        let id = servo.servo.id;
        let who = servo.servo.family.by_hand().who(id).into_iter().take(1).collect();
        let why = match self.ask(servo, who, timeout_ns) {
            Ok(_) => format!(
                "it still answers to id {id} and not to {new}: it may take the new one when its power is switched on again"
            ),
            Err(_) => format!(
                "it answers neither to id {id} nor to {new}: switch its power off and on, and look for it with `khz bus scan`"
            ),
        };
        wrong(servo, why)
    }
}

/// What is sent for a setting.
struct Steps {
    /// Reads: may it be done?
    check: Vec<Ask>,
    /// Does it.
    write: Vec<Ask>,
    /// Reads what is set now; goes to the new id.
    read_back: Vec<Ask>,
    /// Stores it; goes to the new id.
    keep: Vec<Ask>,
}

fn steps(servo: &DeskServo, setting: Setting, store: bool) -> Result<Steps, DeskError> {
    let (id, family) = (servo.servo.id, servo.servo.family.by_hand());
    let (asks, new) = match setting {
        Setting::Zero => (family.set_zero(id), id),
        Setting::Id(new) => (family.set_id(id, new), new),
        Setting::Watchdog(seconds) => (family.set_watchdog(id, seconds), id),
        Setting::Register(number, value) => (family.set_register(id, number, value), id),
    };
    let mut check = asks.map_err(impossible)?;
    let mut write = check.split_off(1.min(check.len()));
    let of_new = write.iter().position(|ask| new != id && ask.id == Some(new));
    let read_back = write.split_off(of_new.unwrap_or_else(|| write.len().saturating_sub(1)));
    let mut keep = Vec::new();
    if store {
        check.extend(family.store(id).map_err(impossible)?);
        // The last one does it.
        check.pop();
        keep = family.store(new).map_err(impossible)?;
    }
    Ok(Steps { check, write, read_back, keep })
}

impl Setting {
    /// The bit rate at which the servo answers afterwards, if it is another.
    fn rate_after(self, servo: &DeskServo) -> Option<u32> {
        match self {
            Self::Register(number, value) => servo.servo.family.by_hand().rate_after(number, value),
            _ => None,
        }
    }

    /// The servo as it is afterwards.
    fn applied(self, servo: &DeskServo) -> DeskServo {
        let mut servo = servo.clone();
        if let Self::Id(new) = self {
            servo.servo.id = new;
        }
        servo
    }
}

fn everybody(timeout_ns: i64) -> Scan {
    Scan { last: u8::MAX, timeout_ns, together: false }
}

const fn impossible(why: String) -> DeskError {
    DeskError::Impossible(why)
}

fn wrong(servo: &DeskServo, why: String) -> DeskError {
    DeskError::Wrong { servo: servo.name.clone(), why }
}

/// An error that came after something was written.
fn unsure(error: DeskError) -> DeskError {
    match error {
        DeskError::NoReply { .. } | DeskError::Damaged { .. } | DeskError::Bus { .. } => {
            DeskError::Unsure(Box::new(error))
        }
        known => known,
    }
}
