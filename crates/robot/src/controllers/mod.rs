//! Built-in controllers: examples to begin with, and filters for a chain.

mod gliding;
mod hold;
mod moving;
mod sine;
mod smooth;
mod stand_and_squat;
mod walk;

pub use hold::{Hold, HoldParameters};
pub use sine::{Sine, SineParameters};
pub use smooth::{LowPass, Slew};
pub use stand_and_squat::{StandAndSquat, StandAndSquatParameters};
pub(crate) use walk::LONGEST;
pub use walk::{Walk, WalkParameters};
