//! Servos that lie: they do not do what they are commanded, or do not report what they do.
//!
//! A liar stands between a bus and an honest servo, whichever its family, and changes what it receives and what it sends.

use crate::family::{FamilyConfig, ServoConfig};
use crate::injection::Lie;
use crate::lies::Said;
use crate::noise::Noise;
use crate::twin::Twin;
use khz_wire::Frame;

/// Of so many replies of [`Lie::Mostly`] one is true.
const TRUE_EVERY: u32 = 5;

/// One servo's lies.
#[derive(Debug)]
pub(crate) struct Liar {
    family: FamilyConfig,
    lie: Option<Lie>,
    noise: Noise,
    /// Replies since it began to lie.
    replies: u32,
    /// The newest command that it followed.
    followed: Option<Frame>,
    /// What it goes on to report.
    said: Said,
}

impl Liar {
    /// An honest one.
    pub(crate) fn new(config: &ServoConfig, seed: u64) -> Self {
        let family = config.family;
        Self { family, lie: None, noise: Noise::new(seed), replies: 0, followed: None, said: Said::default() }
    }

    /// From now on it lies so; `None`: it is honest.
    pub(crate) fn lie(&mut self, lie: Option<Lie>) {
        (self.lie, self.replies, self.followed, self.said) = (lie, 0, None, Said::default());
    }

    pub(crate) const fn is_honest(&self) -> bool {
        self.lie.is_none()
    }

    /// What the servo hears of a frame on the bus.
    pub(crate) fn hears(&mut self, frame: &Frame, servo: &dyn Twin) -> Frame {
        if self.lie != Some(Lie::StaysOn) || !servo.takes(frame) {
            return *frame;
        }
        let lies = self.family.lies();
        match (lies.follows(frame), &self.followed) {
            (Some(true), _) => self.followed = Some(*frame),
            (Some(false), Some(followed)) => return lies.commanded_by(followed, frame),
            _ => {}
        }
        *frame
    }

    /// What the host hears of a reply.
    pub(crate) fn says(&mut self, reply: &Frame) -> Frame {
        let lies = self.family.lies();
        self.replies = self.replies.wrapping_add(1);
        match self.lie {
            Some(Lie::Mostly(_)) if self.replies.is_multiple_of(TRUE_EVERY) => *reply,
            Some(Lie::Mode(mode) | Lie::Mostly(mode)) => lies.in_mode(reply, mode),
            Some(Lie::Frozen) => lies.frozen(reply, &mut self.said),
            Some(Lie::Unmeasured) => lies.unmeasured(reply),
            Some(Lie::Altered(percent)) if self.noise.uniform() * 100.0 < f64::from(percent) => {
                self.altered(reply)
            }
            _ => *reply,
        }
    }

    fn altered(&mut self, reply: &Frame) -> Frame {
        let mut altered = *reply;
        let bits = 8 * reply.payload().len() as u64;
        if bits > 0 {
            let bit = (self.noise.bits() % bits) as usize;
            altered.payload_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        altered
    }

    /// How often it sends each reply.
    pub(crate) fn times(&self) -> usize {
        if self.lie == Some(Lie::Twice) { 2 } else { 1 }
    }

    /// How much later it sends it, ns.
    pub(crate) fn delay_ns(&self) -> i64 {
        match self.lie {
            Some(Lie::Slow(us)) => i64::from(us) * 1000,
            _ => 0,
        }
    }
}
