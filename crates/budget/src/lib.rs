//! What a robot's cycle takes, from first principles: no clock, only bytes, bits and delays.
//!
//! [`TickPlan::of`] reads a robot file and the [`Inputs`] such a file does not hold; [`TickPlan::predict`] lays out one
//! cycle, frame by frame, as a [`Timeline`]. The frames come from the encoders the robot runs with, their
//! durations from [`khz_wire::time`], their order from the rules of the cycle:
//!
//! | bus | who talks when |
//! |---|---|
//! | CAN-FD | the host's frames queue in their order; whenever the wire is free the lowest identifier wins, so replies overtake commands |
//! | RS485 | half duplex: the next query leaves when the reply before has been read |
//! | pi3hat | as CAN-FD, but every frame is also an SPI transaction of the one host thread, in and out |
//! | UDP | one datagram carries the commands; the answers queue at the port to the host |
//!
//! [`published`] holds the systems whose figures are public, and the model's predictions for them.

mod change;
mod costs;
pub(crate) mod edit;
mod fit;
mod host;
mod lines;
mod page;
mod plan;
pub mod published;
mod show;
mod timeline;
mod trial;

pub use change::{Change, ChangeError, Sweep, apply};
pub use costs::{Bridge, Inputs, Medium, Separate};
pub use edit::Edit;
pub use fit::{Cure, File, Fit};
pub use host::Host;
pub use plan::{Exchange, Line, TickPlan};
pub use show::{Part, Prediction};
pub use timeline::{Span, SpanKind, Timeline};
pub use trial::Trial;
