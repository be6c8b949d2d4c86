//! Round trips over UDP: how long a device takes to answer, how steadily, and what gets lost.
//!
//! An [`Echo`] is the device. A [`Sender`] asks devices at a fixed rate and keeps the [`Ledger`]; what it learned
//! are [`Results`], which can be saved, shown as a page and compared.
#![forbid(unsafe_code)]

mod checkpoint;
mod compare;
mod echo;
mod lab;
mod ledger;
mod log;
mod modes;
mod packet;
mod plan;
mod planned;
mod results;
mod sample;
mod send;
mod socket;
mod tally;
mod theory;
mod ways;

pub use checkpoint::Checkpoints;
pub use compare::{compare, comparison_page, verdict as comparison_verdict};
pub use echo::{Echo, EchoCounts};
pub use lab::{Lab, LabResults, Ports, with_servos};
pub use ledger::{Arrival, Closed, Incoming, Ledger, MAX_DEVICES, Turn, WINDOW};
pub use log::{AskedTick, Log, Logged, Tap};
pub use modes::{Excursion, Excursions, Mode, Watch, modes};
pub use packet::{HEADER, MAX_PAYLOAD, Packet, PacketKind, Refusal};
pub use plan::{Ask, Plan};
pub use planned::PlannedResults;
pub use results::{DeviceResults, Results, SplitResults};
pub use sample::RoundTrip;
pub use send::{Live, Sender};
use serde::{Deserialize, Serialize};
pub use socket::{Came, Receive, Socket};
use std::net::SocketAddr;
pub use tally::{DeviceTally, Parts, Planned, Series, Split, Tally};
pub use theory::{Network, Shares, Theory};
pub use ways::compare_receive;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RttError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} (is it in use, or not an address of this machine?)")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The plan asks for something that cannot be.
    #[error("{0}")]
    Plan(String),
    /// The very first question could not be sent.
    #[error("cannot send {payload} bytes to {address} ({hint})")]
    Send {
        /// To whom.
        address: SocketAddr,
        /// How many bytes.
        payload: usize,
        /// The kernel's error.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The network of the lab could not be made.
    #[error("the network could not be created: {0}")]
    Lab(String),
    /// The thread could not be set up.
    #[error(transparent)]
    Setup(#[from] khz_rt::SetupError),
    /// The socket broke.
    #[error("the socket failed")]
    Socket(#[from] std::io::Error),
}

/// What became of the questions to one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Asked.
    pub sent: u64,
    /// Answered, whenever.
    pub answered: u64,
    /// Answered after the period of the tick that asked was over.
    pub late: u64,
    /// Answered again.
    pub duplicates: u64,
    /// Answered after a later question was.
    pub out_of_order: u64,
    /// Not sent, because there was no room in the kernel or a way to the device.
    pub unsent: u64,
    /// Datagrams from the device that cannot be read: damaged on the way, or sent so.
    #[serde(default)]
    pub corrupt: u64,
    /// Questions to a port at which no program listens, by an ICMP message (port unreachable). They are lost, too.
    #[serde(default)]
    pub refused: u64,
    /// Questions without a way to the device, by an ICMP message. They are lost, too.
    #[serde(default)]
    pub unreachable: u64,
    /// Questions that came back unchanged, as from a plain echo. They are lost, too.
    #[serde(default)]
    pub echoed: u64,
}

impl Counts {
    /// Sent and never answered.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered + self.unsent)
    }

    /// Of the lost ones, those of which nothing at all came back.
    pub fn silent(&self) -> u64 {
        self.lost().saturating_sub(self.refused + self.unreachable + self.echoed)
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.late += other.late;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.unsent += other.unsent;
        self.corrupt += other.corrupt;
        self.refused += other.refused;
        self.unreachable += other.unreachable;
        self.echoed += other.echoed;
    }
}

/// Datagrams that came and were no answers to this run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unexpected {
    /// Of another protocol or version, from an address that was not asked.
    #[serde(alias = "foreign")]
    pub other_protocol: u64,
    /// Damaged, from an address that was not asked. Results saved before 2026-11-22 count these, and unreadable datagrams
    /// of the devices themselves, as `foreign`.
    #[serde(default)]
    pub damaged: u64,
    /// Answers to another run.
    pub other_runs: u64,
    /// Requests, as if we were a device.
    pub requests: u64,
    /// Answers from an address that was not asked.
    pub unknown_devices: u64,
    /// Answers to questions never asked, or asked too long ago.
    pub never_asked: u64,
}

impl std::ops::AddAssign for Unexpected {
    fn add_assign(&mut self, other: Self) {
        self.other_protocol += other.other_protocol;
        self.damaged += other.damaged;
        self.other_runs += other.other_runs;
        self.requests += other.requests;
        self.unknown_devices += other.unknown_devices;
        self.never_asked += other.never_asked;
    }
}

impl Unexpected {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.other_protocol
            + self.damaged
            + self.other_runs
            + self.requests
            + self.unknown_devices
            + self.never_asked
    }
}

/// Answers that came while the sender waited for its next tick, so that it did not see them arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unattended {
    /// With the kernel's time of arrival: their round trips end with it.
    pub stamped: u64,
    /// Without: their round trips end when the sender looked next, so they read up to a period too long.
    pub unstamped: u64,
}

impl std::ops::AddAssign for Unattended {
    fn add_assign(&mut self, other: Self) {
        self.stamped += other.stamped;
        self.unstamped += other.unstamped;
    }
}
