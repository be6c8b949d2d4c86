//! What to measure: which devices are asked, how, and how often.
use super::packet::{HEADER, MAX_PAYLOAD};
use super::socket::Receive;
use super::theory::Network;
use super::{MAX_DEVICES, RttError};
use khz_rt::{Setup, Wake};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// How the devices are asked in a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// All questions first, then all answers.
    #[default]
    Together,
    /// One device after the other, each after the answer of the one before.
    Singly,
    /// One question to all, by a broadcast.
    Broadcast,
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "together" => Ok(Self::Together),
            "singly" => Ok(Self::Singly),
            "broadcast" => Ok(Self::Broadcast),
            _ => Err(format!("no way to ask is called `{word}`: use together, singly or broadcast")),
        }
    }
}

impl Ask {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Singly => "singly",
            Self::Broadcast => "broadcast",
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A name for the results.
    pub name: String,
    /// The devices; for a broadcast the one address it goes to.
    pub targets: Vec<SocketAddr>,
    /// How they are asked.
    pub ask: Ask,
    /// How many answers a broadcast waits for; with none, as many devices as have answered before.
    pub expect: usize,
    /// Ticks per second; with none the next follows at once.
    pub rate_hz: Option<f64>,
    /// Ticks to make.
    pub ticks: u64,
    /// Bytes of a datagram, [`HEADER`] to [`MAX_PAYLOAD`].
    pub payload: usize,
    /// How to wait for answers.
    pub receive: Receive,
    /// How to wait for the tick.
    pub wake: Wake,
    /// What the thread asks of the kernel.
    pub setup: Setup,
    /// Where to send from; with none, any address and port.
    pub bind: Option<SocketAddr>,
    /// The network between, for the theory beside the measurement.
    pub network: Option<Network>,
    /// Ask the kernel for its own times of every datagram. Costs two system calls more for each answer.
    pub stamps: bool,
    /// For how long the kernel polls the network card when nothing is there (`SO_BUSY_POLL`), µs; 0 leaves it to
    /// interrupts.
    pub busy_poll_us: u32,
}

impl Plan {
    /// Measures these devices with the defaults: 1 kHz for ten seconds, 200 bytes, all asked together.
    pub fn new(targets: Vec<SocketAddr>) -> Self {
        Self {
            name: "rtt".into(),
            targets,
            ask: Ask::default(),
            expect: 0,
            rate_hz: Some(1000.0),
            ticks: 10_000,
            payload: 200,
            receive: Receive::default(),
            wake: Wake::default(),
            setup: Setup::default(),
            bind: None,
            network: None,
            stamps: false,
            busy_poll_us: 0,
        }
    }

    /// The period in nanoseconds, if there is one.
    pub fn period_ns(&self) -> Option<i64> {
        self.rate_hz.map(|rate| (1e9 / rate) as i64)
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// What in it cannot.
    pub(super) fn check(&self) -> Result<(), RttError> {
        let problem = |text: String| Err(RttError::Plan(text));
        if self.targets.is_empty() {
            return problem("no device to ask: name at least one address".into());
        }
        if self.targets.len() > MAX_DEVICES {
            return problem(format!("{} devices are too many: at most {MAX_DEVICES}", self.targets.len()));
        }
        if self.ask == Ask::Broadcast && self.targets.len() != 1 {
            return problem("a broadcast goes to one address".into());
        }
        // Its address alone shows whose answer it is.
        let mut message = HashSet::new();
        if let Some(twice) = self.targets.iter().find(|target| !message.insert(*target)) {
            return problem(format!("the device {twice} is named twice: name it once"));
        }
        if !(HEADER..=MAX_PAYLOAD).contains(&self.payload) {
            let payload = self.payload;
            return problem(format!("a payload of {payload} bytes cannot be: use {HEADER} to {MAX_PAYLOAD}"));
        }
        if let Some(rate) = self.rate_hz.filter(|rate| !(0.001..=100_000.0).contains(rate)) {
            return problem(format!("a rate of {rate} Hz cannot be: use 0.001 to 100000"));
        }
        match self.targets.iter().find(|t| t.is_ipv4() != self.targets[0].is_ipv4()) {
            Some(_) => problem("IPv4 and IPv6 devices cannot be asked in one run".into()),
            None => Ok(()),
        }
    }

    /// Where to send from.
    pub(super) fn bind_address(&self) -> SocketAddr {
        let any: SocketAddr = match self.targets.first() {
            Some(SocketAddr::V6(_)) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        self.bind.unwrap_or(any)
    }
}
