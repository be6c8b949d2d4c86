//! The live view: one port that serves a robot's run, while it goes on, to its own page, to Foxglove, Lichtblick and
//! PlotJuggler, and to `khz param`.
//!
//! It runs in a process of its own and knows the robot only by what its recorder sends ([`feed`]): records with their
//! schemas, and samples. Requests to the robot go back by the same socket ([`control`]).
//!
//! ```no_run
//! use khz_view::{Access, Hub, Server, feed};
//! use std::sync::Arc;
//!
//! let hub = Arc::new(Hub::default());
//! let server = Server::bind(&"127.0.0.1:0".parse()?, Access::default(), hub.clone())?;
//! println!("{}", server.link("localhost"));
//! let serving = server.start()?;
//! feed::udp(&std::net::UdpSocket::bind("127.0.0.1:9870")?, None, &hub, |_, _| ())?;
//! drop(serving);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod ask;
mod asking;
mod client;
pub mod control;
pub mod feed;
mod foxglove;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod hub;
mod intake;
mod page;
pub mod parameters;
mod peer;
mod senders;
mod server;
mod slots;
pub mod standard;
pub mod store;
pub mod text;
mod topics;

pub use access::Access;
pub use asking::{AskError, Connection};
pub use hub::{Hub, RunState};
pub use intake::{Counts, Intake, Known, News};
pub use page::PageClient;
pub use peer::{Peer, Reply};
pub use senders::{Ignored, Senders};
pub use server::{Fleet, PORT, Server, Serving};
pub use store::{Log, Store};
