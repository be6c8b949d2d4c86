//! What a loop knows of a servo, in no family's words. SI units: radians, N·m, seconds where named.

/// One servo, as of its newest reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServoState {
    /// Joint position, rad. NaN before the first reply; infinite if it is beyond what the reply can carry, as are velocity
    /// and torque.
    pub position: f64,
    /// Joint velocity, rad/s.
    pub velocity: f64,
    /// Joint torque, N·m.
    pub torque: f64,
    /// Supply, V.
    pub voltage: f64,
    /// Temperature of the servo's board, °C.
    pub temperature: f64,
    /// What it is doing.
    pub doing: Doing,
    /// The same in its family's words.
    pub mode: Mode,
    /// Why it stopped, if it did.
    pub fault: Fault,
    /// The register its newest reply refused to read or write, if it did. Values that were not read are NaN.
    pub refused: Option<Refused>,
    /// When the query was sent that its newest reply answers: its values are no older. `i64::MIN` before the first.
    pub at_ns: i64,
    /// Of the newest reply that came in time: from handing its query to the link until it had arrived. 0 before the first.
    pub round_trip_ns: i64,
    /// It has answered this tick's query: with its state, unless that was not asked for or is lost; `at_ns` shows how old that is.
    pub fresh: bool,
}

impl ServoState {
    /// Before the first reply.
    pub const UNKNOWN: Self = Self {
        position: f64::NAN,
        velocity: f64::NAN,
        torque: f64::NAN,
        voltage: f64::NAN,
        temperature: f64::NAN,
        doing: Doing::Off,
        mode: Mode::UNKNOWN,
        fault: Fault::NONE,
        refused: None,
        at_ns: i64::MIN,
        round_trip_ns: 0,
        fresh: false,
    };

    /// It has replied at least once.
    pub const fn is_known(&self) -> bool {
        self.at_ns != i64::MIN
    }

    /// How old its values are at `now_ns`, at the most; `i64::MAX` before the first reply.
    pub const fn age_ns(&self, now_ns: i64) -> i64 {
        if self.is_known() { now_ns.saturating_sub(self.at_ns) } else { i64::MAX }
    }
}

/// What a servo is doing, as far as a loop has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Doing {
    /// Its output is off, and nothing is wrong.
    Off = 0,
    /// On its way from off to on.
    Starting = 1,
    /// It follows its commands: position, velocity, torque.
    Following = 2,
    /// It damps.
    Damping = 3,
    /// It has received no command for too long and acts on its own, as its watchdog is configured.
    TimedOut = 4,
    /// It has switched itself off; [`ServoState::fault`] is the reason.
    Faulted = 5,
    /// Its output is on for something no loop commands, such as a calibration, or although it reports a fault.
    Other = 6,
}

impl Doing {
    /// All of them, in numerical order.
    pub const ALL: [Self; 7] = [
        Self::Off,
        Self::Starting,
        Self::Following,
        Self::Damping,
        Self::TimedOut,
        Self::Faulted,
        Self::Other,
    ];

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Starting => "starting",
            Self::Following => "following",
            Self::Damping => "damping",
            Self::TimedOut => "timed_out",
            Self::Faulted => "faulted",
            Self::Other => "other",
        }
    }

    /// Its output is on.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::Following | Self::Damping | Self::TimedOut | Self::Other)
    }
}

/// What a servo is doing, as its family calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The family's number for it.
    pub number: u8,
    /// The family's word for it.
    pub name: &'static str,
}

impl Mode {
    /// Before the first reply.
    pub const UNKNOWN: Self = Self { number: 0, name: "unknown" };
    /// For a servo whose replies do not report the state of its output.
    pub const UNREPORTED: Self = Self { number: 0, name: "as told" };
}

/// Why a servo stopped, in its family's terms; code 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The family's code.
    pub code: u32,
    /// What its manual calls it.
    pub text: &'static str,
}

impl Fault {
    /// No fault.
    pub const NONE: Self = Self { code: 0, text: "none" };
}

/// A register that a servo refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which register.
    pub register: u16,
    /// Its name.
    pub name: &'static str,
    /// What was refused: to write it, or else to read it.
    pub write: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_servo_is_infinitely_old() {
        assert_eq!(ServoState::UNKNOWN.age_ns(5), i64::MAX);
        assert_eq!(ServoState { at_ns: 3, ..ServoState::UNKNOWN }.age_ns(5), 2);
    }

    #[test]
    fn the_numbers_of_a_log_are_the_places_of_the_names() {
        for (number, doing) in Doing::ALL.into_iter().enumerate() {
            assert_eq!(doing as usize, number);
        }
    }
}
