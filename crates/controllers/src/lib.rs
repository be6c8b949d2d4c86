//! Built-in controllers: examples to begin with, and filters for a chain.
//!
//! They use the loop as everybody's controller does, and know nothing else of a robot.
#![forbid(unsafe_code)]

mod excite;
mod gliding;
mod hold;
mod moving;
pub mod policy;
mod sine;
mod smooth;
mod stand_and_squat;
pub mod walk;

pub use excite::{Excite, ExciteParameters};
pub use hold::{Hold, HoldParameters};
pub use policy::{Policy, PolicyConfig};
pub use sine::{Sine, SineParameters};
pub use smooth::{LowPass, Slew};
pub use stand_and_squat::{StandAndSquat, StandAndSquatParameters};
pub use walk::{Walk, WalkParameters};
