//! Servos that misbehave: they do not do what they are commanded, or do not report what they do.
//!
//! A `Tamper` stands between a bus and a sound servo, whichever its family, and changes what it receives and what it sends.

use crate::family::{FamilyConfig, ServoConfig};
use crate::injection::Misbehaviour;
use crate::misbehaviour::FrozenReply;
use crate::noise::Noise;
use crate::twin::Twin;
use khz_wire::Frame;

/// Of so many replies of [`Misbehaviour::Mostly`] one is true.
const TRUE_EVERY: u32 = 5;

/// What changes the frames of one servo.
#[derive(Debug)]
pub(crate) struct Tamper {
    family: FamilyConfig,
    misbehaviour: Option<Misbehaviour>,
    noise: Noise,
    /// Replies since it began to misbehave.
    replies: u32,
    /// The newest command that it followed.
    followed: Option<Frame>,
    /// What it goes on to report when it is frozen.
    first: FrozenReply,
}

impl Tamper {
    /// Changes nothing.
    pub(crate) fn new(config: &ServoConfig, seed: u64) -> Self {
        let family = config.family;
        Self {
            family,
            misbehaviour: None,
            noise: Noise::new(seed),
            replies: 0,
            followed: None,
            first: FrozenReply::default(),
        }
    }

    /// From now on the servo misbehaves so; `None`: it does not.
    pub(crate) fn set(&mut self, misbehaviour: Option<Misbehaviour>) {
        (self.misbehaviour, self.replies, self.followed, self.first) =
            (misbehaviour, 0, None, FrozenReply::default());
    }

    pub(crate) const fn is_off(&self) -> bool {
        self.misbehaviour.is_none()
    }

    /// What the servo receives of a frame on the bus.
    pub(crate) fn received(&mut self, frame: &Frame, servo: &dyn Twin) -> Frame {
        if self.misbehaviour != Some(Misbehaviour::StaysOn) || !servo.takes(frame) {
            return *frame;
        }
        let how = self.family.misbehaviours();
        match (how.follows(frame), &self.followed) {
            (Some(true), _) => self.followed = Some(*frame),
            (Some(false), Some(followed)) => return how.commanded_by(followed, frame),
            _ => {}
        }
        *frame
    }

    /// What the host receives of a reply.
    pub(crate) fn sent(&mut self, reply: &Frame) -> Frame {
        let how = self.family.misbehaviours();
        self.replies = self.replies.wrapping_add(1);
        match self.misbehaviour {
            Some(Misbehaviour::Mostly(_)) if self.replies.is_multiple_of(TRUE_EVERY) => *reply,
            Some(Misbehaviour::Mode(mode) | Misbehaviour::Mostly(mode)) => how.in_mode(reply, mode),
            Some(Misbehaviour::Frozen) => how.frozen(reply, &mut self.first),
            Some(Misbehaviour::Unmeasured) => how.unmeasured(reply),
            Some(Misbehaviour::Altered(percent)) if self.noise.uniform() * 100.0 < f64::from(percent) => {
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
        if self.misbehaviour == Some(Misbehaviour::Twice) { 2 } else { 1 }
    }

    /// How much later it sends it, ns.
    pub(crate) fn delay_ns(&self) -> i64 {
        match self.misbehaviour {
            Some(Misbehaviour::Slow(us)) => i64::from(us) * 1000,
            _ => 0,
        }
    }
}
