//! The emulated devices, with faults put into them from Python while a loop uses them.

use crate::error::KilohertzError;
pub use khz_emu::InjectedFault;
use khz_emu::World;
use khz_link::{Link, LinkError};
use khz_wire::Request;
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::{Arc, OnceLock};

/// Injected faults that have not been taken yet.
const RING: usize = 256;

/// A [`World`] that takes faults from a ring. As real-time as the world itself.
pub struct Injected {
    world: World,
    faults: Consumer<InjectedFault>,
    end: Arc<OnceLock<End>>,
}

/// How the emulated devices ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Where the body's trunk was, if it has one, m.
    pub trunk: Option<[f64; 3]>,
}

/// A handle to the emulated devices for code outside the loop.
pub struct Outside {
    /// Where faults go in.
    pub faults: Producer<InjectedFault>,
    /// Set when the links are closed.
    pub end: Arc<OnceLock<End>>,
}

impl Injected {
    /// The link, and what stays outside.
    pub fn new(world: World) -> (Self, Outside) {
        let (producer, faults) = RingBuffer::new(RING);
        let end = Arc::default();
        (Self { world, faults, end: Arc::clone(&end) }, Outside { faults: producer, end })
    }

    fn inject(&mut self, now_ns: i64) {
        while let Ok(fault) = self.faults.pop() {
            fault.put_into(&mut self.world, now_ns);
        }
    }
}

impl Link for Injected {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, begin_cycle, flush, receive, next_event_ns, imu, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.inject(now_ns);
        Link::send(&mut self.world, channel, request, now_ns)
    }

    fn close(&mut self, now_ns: i64) -> Vec<String> {
        let lines = self.world.close(now_ns);
        let body = self.world.body();
        let _ = self.end.set(End { trunk: body.forces().map(|_| body.trunk().position) });
        lines
    }
}

/// The fault of this name.
///
/// # Errors
/// `ValueError` with the names or the sizes there are.
pub fn fault(kind: &str, servo: usize, value: f64) -> PyResult<InjectedFault> {
    InjectedFault::named(kind, servo, value).map_err(PyValueError::new_err)
}

/// Puts a fault in, where there are emulated devices.
///
/// # Errors
/// `KilohertzError` where there are none, or too many faults wait.
pub fn put(faults: Option<&mut Producer<InjectedFault>>, fault: InjectedFault) -> PyResult<()> {
    let faults = faults.ok_or_else(|| KilohertzError::new_err("this robot has no emulated devices"))?;
    faults
        .push(fault)
        .map_err(|_| KilohertzError::new_err("too many faults at once: the loop does not take them"))
}
