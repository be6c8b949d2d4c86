//! `[targets]`: what is taken from programs that send targets, and from where.

use crate::axis::Share;
use crate::curve::Shape;
use khz_settings::{nanoseconds, section, words};

words! {
    /// How a joint goes from point to point.
    Interpolation {
        /// Without a corner: a cubic that meets the points' velocities.
        Cubic = "cubic",
        /// Straight.
        Linear = "linear",
    }
}

section! {
    /// `[targets]`, for `[controller]` with `name = "targets"`: what is taken from programs that send targets, and from where.
    TargetsConfig {
        /// Where targets of other programs are received: `unix:PATH`, or `udp:ADDRESS:PORT`, where anyone who reaches that address
        /// can move the robot.
        from: Option<String> = None, "";
        /// After the newest point a joint comes to rest within this time.
        hold_over_s: f64 = 0.08, "s", 0.001 => 1.0;
        /// No point for so long after the newest one is the trigger `targets`.
        silent_s: f64 = 1.0, "s", 0.0 => 3600.0;
        /// How fast a joint goes to where a new curve is, as a multiple of what is usual: a quarter of its velocity and a twelfth of its
        /// acceleration, or half of both where a stream goes on.
        catch_up: f64 = 1.0, "", 0.01 => 8.0;
        /// A chunk that begins later than this is refused.
        horizon_s: f64 = 5.0, "s", 0.01 => 3600.0;
        /// A program that has sent the newest point is alone with the robot until so long after the hold-over.
        lease_s: f64 = 0.3, "s", 0.0 => 60.0;
        /// After `hold` a program may be silent for at most this long.
        hold_s: f64 = 60.0, "s", 0.0 => 3600.0;
        /// How a joint goes from point to point.
        interpolation: Interpolation = Interpolation::Cubic, "";
        /// Single targets are followed at once, whatever their times, and each ends in a stop: for jogging by hand only.
        latest: bool = false, "";
        /// After the newest point its torque goes to 0 while the joint comes to rest; otherwise it stays, because it carries a weight.
        fade_torque: bool = false, "";
        /// A program that is to take the robot, and whose first point is further than this from where a joint is led, is refused
        /// (`apart`). Without it the joint goes there.
        align_rad: Option<f64> = None, "rad", 0.0 => 100.0;
        /// When a program takes control and its first point is elsewhere, the joint takes at least this long to move there.
        align_s: Option<f64> = None, "s", 0.01 => 60.0;
        /// Single targets are followed another four fifths of their period later, and more smoothly.
        smooth: bool = false, "";
        /// Which joints an operator moves.
        sticks: SticksConfig = SticksConfig::default(), "";
    }
}

section! {
    /// `[targets.sticks]`: the joints that an operator moves by what [steers](controllers.md#steering) other robots, each with up to a
    /// quarter of its `limits.velocity`. An operator who does so has the robot before all programs, until no input comes for 0.3 s.
    SticksConfig {
        /// The joint that moves with `forward`.
        forward: Option<String> = None, "";
        /// With `left`.
        left: Option<String> = None, "";
        /// With `turn`.
        turn: Option<String> = None, "";
        /// With `height`.
        height: Option<String> = None, "";
        /// With `roll`.
        roll: Option<String> = None, "";
        /// With `pitch`.
        pitch: Option<String> = None, "";
    }
}

impl SticksConfig {
    /// The joints by their keys, in the order of [`Teleop`](khz_loop::state::Teleop).
    pub fn joints(&self) -> [(&'static str, Option<&str>); 6] {
        let Self { forward, left, turn, height, roll, pitch } = self;
        let [forward, left, turn, height, roll, pitch] =
            [forward, left, turn, height, roll, pitch].map(Option::as_deref);
        [
            ("forward", forward),
            ("left", left),
            ("turn", turn),
            ("height", height),
            ("roll", roll),
            ("pitch", pitch),
        ]
    }
}

impl TargetsConfig {
    pub(crate) fn shape(&self) -> Shape {
        let hold_over_ns = nanoseconds(self.hold_over_s, 1e9);
        let is_linear = self.interpolation == Interpolation::Linear;
        Shape { hold_over_ns, is_linear, fades_torque: self.fade_torque }
    }

    pub(crate) fn replaced(&self) -> Share {
        Share::REPLACED.times(self.catch_up)
    }

    /// Of a program that takes the robot.
    pub(crate) fn taken_over(&self) -> Share {
        Share { within_s: self.align_s.unwrap_or(0.0), ..self.replaced() }
    }

    pub(crate) fn resumed(&self) -> Share {
        Share::RESUMED.times(self.catch_up)
    }
}
