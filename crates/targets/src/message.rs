//! What a program sends, and what it is answered.

use khz_run::record;
use khz_settings::words;

/// Times beyond 73 years from the clock's zero are none: sums and differences of others are numbers, too.
const FARTHEST_NS: i64 = 1 << 61;

/// More points are no chunk.
pub const MOST_POINTS: usize = 256;

/// Points of one program: a target, or a chunk of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Its number among those of its program, if they have numbers; one that is not greater than the last is dropped.
    pub seq: Option<u64>,
    /// The joints it is about, each once; none: all, in the order of the robot file.
    pub joints: Vec<String>,
    /// When each point is to be reached, by the robot's clock; rising. 1 to [`MOST_POINTS`].
    pub at_ns: Vec<i64>,
    /// For each point the position of each joint, rad.
    pub position: Vec<Vec<f64>>,
    /// Velocities, rad/s; empty: those of a smooth curve through the points.
    pub velocity: Vec<Vec<f64>>,
    /// Torques, N·m; empty: as before.
    pub torque: Vec<Vec<f64>>,
    /// Shares of the position gain, 0 to 1; empty: as before.
    pub kp_scale: Vec<Vec<f64>>,
    /// Shares of the velocity gain, 0 to 1; empty: as before.
    pub kd_scale: Vec<Vec<f64>>,
}

impl Points {
    /// Positions of all joints at these times.
    pub fn new(at_ns: Vec<i64>, position: Vec<Vec<f64>>) -> Self {
        let (joints, none) = (Vec::new(), Vec::new);
        let (velocity, torque, kp_scale, kd_scale) = (none(), none(), none(), none());
        Self { seq: None, joints, at_ns, position, velocity, torque, kp_scale, kd_scale }
    }

    /// When the first point is to be reached.
    pub fn first_ns(&self) -> i64 {
        self.at_ns.first().copied().unwrap_or(i64::MIN)
    }

    /// When the last point is to be reached.
    pub fn last_ns(&self) -> i64 {
        self.at_ns.last().copied().unwrap_or(i64::MIN)
    }

    /// A single target: others of its program come before and after it.
    pub(crate) fn is_single(&self) -> bool {
        self.at_ns.len() == 1
    }

    /// Whether they are points of so many joints; else what is wrong.
    pub(crate) fn check(&self, joints: usize) -> Result<(), String> {
        let count = self.at_ns.len();
        if count == 0 || count > MOST_POINTS {
            return Err(format!("{count} points; 1 to {MOST_POINTS} are a message"));
        }
        if self.at_ns.iter().any(|at_ns| !(-FARTHEST_NS..=FARTHEST_NS).contains(at_ns)) {
            return Err("a time is out of range".to_owned());
        }
        if self.at_ns.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err("the times of the points do not rise".to_owned());
        }
        let Self { position, velocity, torque, kp_scale, kd_scale, .. } = self;
        let given = [("position", position, true), ("velocity", velocity, false), ("torque", torque, false)];
        let gains = [("kp_scale", kp_scale, false), ("kd_scale", kd_scale, false)];
        for (name, rows, is_needed) in given.into_iter().chain(gains) {
            if rows.is_empty() && !is_needed {
                continue;
            }
            if rows.len() != count || rows.iter().any(|row| row.len() != joints) {
                return Err(format!(
                    "`{name}` must have a row for each of {count} points, of {joints} numbers each"
                ));
            }
            if rows.iter().flatten().any(|value| !value.is_finite()) {
                return Err(format!("a number of `{name}` is not finite"));
            }
        }
        Ok(())
    }
}

/// Who sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Sender {
    /// Its name: those of the same name are one.
    pub name: String,
    /// 0 to 9. A higher one takes the robot from a lower one.
    pub priority: u8,
    /// Takes the robot from one of the same priority.
    pub takes: bool,
    /// How often it sends single targets, if it states that; otherwise that is learned from their times.
    pub every_ns: Option<i64>,
    /// How wrong its times may be, because its clock is another one than the robot's, ns.
    pub clock_ns: i64,
}

impl Sender {
    /// The default priority.
    pub const USUAL: u8 = 5;

    /// Of usual priority.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), priority: Self::USUAL, takes: false, every_ns: None, clock_ns: 0 }
    }
}

/// Why points are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A message of this number was taken.
    #[error("duplicate")]
    Duplicate,
    /// It is older than what was taken before.
    #[error("out_of_order")]
    OutOfOrder,
    /// It is no message; nothing of it is taken.
    #[error("invalid")]
    Invalid(String),
    /// All of it is in the past.
    #[error("late")]
    Late,
    /// It begins later than `horizon_s`.
    #[error("future")]
    Future,
    /// Another program controls the robot.
    #[error("held")]
    Held(String),
    /// The robot is not under control.
    #[error("not_active")]
    NotActive,
    /// More than 500 messages in a second.
    #[error("flood")]
    Flood,
    /// It would take the robot, and a joint is further than `align_rad` from its first point.
    #[error("apart")]
    Apart,
    /// Its clock is not known well enough for times.
    #[error("clock")]
    Clock,
}

impl Refused {
    /// The words, in the order of [`Refused::place`].
    pub const WORDS: [&str; 10] = [
        "duplicate",
        "out_of_order",
        "invalid",
        "late",
        "future",
        "held",
        "not_active",
        "flood",
        "clock",
        "apart",
    ];

    /// Its word.
    pub const fn word(&self) -> &'static str {
        Self::WORDS[self.place()]
    }

    /// Its place among the words.
    pub const fn place(&self) -> usize {
        match self {
            Self::Duplicate => 0,
            Self::OutOfOrder => 1,
            Self::Invalid(_) => 2,
            Self::Late => 3,
            Self::Future => 4,
            Self::Held(_) => 5,
            Self::NotActive => 6,
            Self::Flood => 7,
            Self::Clock => 8,
            Self::Apart => 9,
        }
    }
}

impl From<Stage> for record::Stage {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Idle => Self::Idle,
            Stage::OnTime => Self::OnTime,
            Stage::HeldOver => Self::HeldOver,
            Stage::Waiting => Self::Waiting,
            Stage::Silent => Self::Silent,
        }
    }
}

words! {
    /// Where the targets stand.
    Stage {
        /// No program has sent any, or the one that did has released the robot.
        Idle = "idle",
        /// The next point is known.
        OnTime = "on_time",
        /// It goes on after the newest point, and comes to rest.
        HeldOver = "held_over",
        /// It stands where it came to rest.
        Waiting = "waiting",
        /// It has been standing for longer than `silent_s`.
        Silent = "silent",
    }
}
