//! Looks at a tick and says what is wrong with it.

use super::{Cause, Observation, SupervisorSettings, Trigger};
use crate::state::{RobotState, ServoState};
use khz_wire::Mode;

/// What is wrong in one tick: at most one cause per trigger.
pub type Findings = [Option<Cause>; Trigger::COUNT];

/// Counts that outlive a tick.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Replies missed in a row, per servo.
    missed: Vec<u32>,
    /// The servo has been seen running since the robot was armed.
    ran: Vec<bool>,
    /// The servo is asked for its velocity: then NaN is what it says, otherwise what nobody knows.
    velocity_asked: Vec<bool>,
    /// Refusals in a row, per link.
    refusals: [u32; 64],
    overruns: u32,
    /// Ticks in a row in which the controller took too long, and how long it took in the last of them.
    slow: u32,
    took_ns: i64,
    /// When the joints came to rest.
    still_since_ns: Option<i64>,
}

impl Watch {
    pub fn new(velocity_asked: Vec<bool>) -> Self {
        let servos = velocity_asked.len();
        Self {
            missed: vec![0; servos],
            ran: vec![false; servos],
            velocity_asked,
            refusals: [0; 64],
            overruns: 0,
            slow: 0,
            took_ns: 0,
            still_since_ns: None,
        }
    }

    /// Forgets what happened in an earlier activation.
    pub fn reset(&mut self) {
        self.missed.fill(0);
        self.ran.fill(false);
        self.refusals.fill(0);
        self.overruns = 0;
        self.slow = 0;
        self.still_since_ns = None;
    }

    /// Takes a tick in.
    pub fn update(&mut self, state: &RobotState, seen: &Observation, settings: &SupervisorSettings) {
        let mut still = true;
        for ((missed, ran), servo) in self.missed.iter_mut().zip(&mut self.ran).zip(&state.servos) {
            *missed = if servo.fresh { 0 } else { missed.saturating_add(1) };
            *ran |= servo.fresh && servo.mode.is_active();
            // A servo nobody hears may move.
            still &= servo.fresh && servo.velocity.abs() < settings.still_velocity;
        }
        self.overruns = if seen.overrun { self.overruns.saturating_add(1) } else { 0 };
        // One tick proves nothing: whoever takes the CPU within the controller's turn makes it look slow.
        self.slow = if seen.control_ns > settings.controller_ns { self.slow.saturating_add(1) } else { 0 };
        self.took_ns = seen.control_ns;
        self.still_since_ns = if still { self.still_since_ns.or(Some(state.now_ns)) } else { None };
        let down = seen.cycle.links_down;
        if down == 0 && self.refusals == [0; 64] {
            return;
        }
        for (link, refusals) in self.refusals.iter_mut().enumerate() {
            *refusals = if down >> link & 1 == 1 { refusals.saturating_add(1) } else { 0 };
        }
    }

    /// How long every joint has stood still.
    pub fn still_ns(&self, now_ns: i64) -> i64 {
        self.still_since_ns.map_or(0, |since_ns| now_ns - since_ns)
    }

    /// Everything that is wrong now. `forgiving`: the robot was armed only just now.
    pub fn findings(
        &self,
        state: &RobotState,
        seen: &Observation,
        settings: &SupervisorSettings,
        forgiving: bool,
    ) -> Findings {
        let mut findings: Findings = [None; Trigger::COUNT];
        let mut find = |cause: Cause| {
            if let Some(trigger) = cause.trigger() {
                findings[trigger as usize].get_or_insert(cause);
            }
        };
        for (index, servo) in state.servos.iter().enumerate() {
            self.look_at_servo(index, servo, settings, &mut find);
            if !forgiving {
                self.look_at_age(index, servo, state.now_ns, settings, &mut find);
            }
        }
        if !forgiving {
            self.look_at_loop(settings, &mut find);
        }
        look_at_imu(state, settings, forgiving, &mut find);
        if let (Some(limit_ns), Some(age_ns)) = (settings.heartbeat_ns, seen.heartbeat_age_ns)
            && age_ns > limit_ns
        {
            find(Cause::HeartbeatLost { age_ns });
        }
        findings
    }

    fn look_at_servo(
        &self,
        index: usize,
        servo: &ServoState,
        settings: &SupervisorSettings,
        find: &mut impl FnMut(Cause),
    ) {
        let at = index as u16;
        match servo.mode {
            Mode::Fault => find(Cause::ServoFault { servo: at, fault: servo.fault }),
            Mode::PositionTimeout => find(Cause::ServoTimedOut { servo: at }),
            mode if self.ran[index] && !mode.is_active() => find(Cause::ServoReset { servo: at }),
            _ if servo.is_known() && !self.is_finite(index, servo) => {
                find(Cause::ServoNotFinite { servo: at });
            }
            _ => {}
        }
        // Comparisons with values that were not asked for, NaN, are false.
        if servo.voltage < settings.voltage_low {
            find(Cause::VoltageLow { servo: at, volts: servo.voltage });
        }
        if servo.temperature >= settings.temperature_hard {
            find(Cause::Hot { servo: at, celsius: servo.temperature });
        }
    }

    fn is_finite(&self, index: usize, servo: &ServoState) -> bool {
        servo.position.is_finite() && (servo.velocity.is_finite() || !self.velocity_asked[index])
    }

    fn look_at_age(
        &self,
        index: usize,
        servo: &ServoState,
        now_ns: i64,
        settings: &SupervisorSettings,
        find: &mut impl FnMut(Cause),
    ) {
        let count = self.missed[index];
        if count >= settings.missed_replies {
            find(Cause::MissedReplies { servo: index as u16, count });
        }
        let age_ns = servo.age_ns(now_ns);
        if age_ns > settings.stale_ns {
            find(Cause::Stale { servo: index as u16, age_ns });
        }
    }

    fn look_at_loop(&self, settings: &SupervisorSettings, find: &mut impl FnMut(Cause)) {
        if self.overruns >= settings.overruns {
            find(Cause::Overruns { count: self.overruns });
        }
        if self.slow >= settings.controller_slow {
            find(Cause::ControllerSlow { count: self.slow, took_ns: self.took_ns });
        }
        if let Some(link) = self.refusals.iter().position(|&refusals| refusals >= settings.missed_replies) {
            find(Cause::BusDown { link: link as u16 });
        }
    }
}

fn look_at_imu(
    state: &RobotState,
    settings: &SupervisorSettings,
    forgiving: bool,
    find: &mut impl FnMut(Cause),
) {
    let Some(imu) = &state.imu else { return };
    let age_ns = imu.age_ns(state.now_ns);
    if age_ns > settings.imu_silent_ns {
        if !forgiving {
            find(Cause::ImuSilent { age_ns });
        }
        return;
    }
    let sample = &imu.sample;
    let mut values = sample.attitude.iter().chain(&sample.rate).chain(&sample.acceleration);
    if !values.all(|value| value.is_finite()) {
        // One that is not ready yet may answer, but has nothing to say.
        if !forgiving {
            find(Cause::ImuNotFinite);
        }
    } else if imu.tilt() > settings.tilt {
        find(Cause::Tilt { angle: imu.tilt() });
    }
}
