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
        /// How fast a joint goes to where a new curve is, as a multiple of what is usual: a quarter of its velocity and an eighth of its
        /// acceleration, or half of both where a stream goes on.
        catch_up: f64 = 1.0, "", 0.01 => 8.0;
        /// A chunk that begins later than this is refused.
        horizon_s: f64 = 5.0, "s", 0.01 => 3600.0;
        /// A program that has sent the newest point is alone with the robot until so long after the hold-over.
        lease_s: f64 = 0.3, "s", 0.0 => 60.0;
        /// A program that says `hold` may be silent for at most this long.
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
        /// Single targets are followed another four fifths of their period later, and more smoothly.
        smooth: bool = false, "";
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

    pub(crate) fn resumed(&self) -> Share {
        Share::RESUMED.times(self.catch_up)
    }
}
