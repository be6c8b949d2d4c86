//! The emulated devices, with faults put into them from Python while a loop uses them.

use crate::error::KilohertzError;
use khz_emu::{Injection, World};
use khz_link::{Link, LinkError};
use khz_wire::Request;
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use rtrb::{Consumer, Producer, RingBuffer};

/// Faults on their way that nobody has looked at yet.
const RING: usize = 256;

/// A fault for the emulated devices.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// For a servo, by its index.
    Servo(usize, Injection),
    /// The IMU is gone, or back.
    Imu(bool),
    /// A servo's supply, V.
    Supply(usize, f64),
}

/// A [`World`] that takes faults from a ring. As real-time as the world itself.
pub struct Injected {
    world: World,
    troubles: Consumer<Trouble>,
}

impl Injected {
    /// The link, and the end that puts faults in.
    pub fn new(world: World) -> (Self, Producer<Trouble>) {
        let (producer, troubles) = RingBuffer::new(RING);
        (Self { world, troubles }, producer)
    }

    fn inject(&mut self, now_ns: i64) {
        while let Ok(trouble) = self.troubles.pop() {
            match trouble {
                Trouble::Servo(servo, injection) => self.world.inject(servo, injection, now_ns),
                Trouble::Imu(gone) => self.world.lose_imu(gone),
                Trouble::Supply(servo, volts) => self.world.set_supply(servo, volts, now_ns),
            }
        }
    }
}

impl Link for Injected {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, begin_cycle, flush, receive, next_event_ns, imu, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.inject(now_ns);
        self.world.send(channel, request.frame, now_ns)
    }
}

/// The fault of this name.
///
/// # Errors
/// `ValueError` with the names there are.
pub fn trouble(kind: &str, servo: usize, value: f64) -> PyResult<Trouble> {
    let on = value != 0.0;
    Ok(match kind {
        "silent" => Trouble::Servo(servo, Injection::Silent(on)),
        "lying" => Trouble::Servo(servo, Injection::Lying(on)),
        "stuck" => Trouble::Servo(servo, Injection::Stuck(on)),
        "fault" => Trouble::Servo(servo, Injection::Fault(value as u32)),
        "reboot" => Trouble::Servo(servo, Injection::Reboot),
        "imu_gone" => Trouble::Imu(on),
        "supply" => Trouble::Supply(servo, value),
        other => {
            let there = "silent, lying, stuck, fault, reboot, imu_gone, supply";
            return Err(PyValueError::new_err(format!("no fault is called `{other}`; there are: {there}")));
        }
    })
}

/// Puts a fault in, where there are emulated devices.
///
/// # Errors
/// `KilohertzError` where there are none, or too many faults wait.
pub fn put(troubles: Option<&mut Producer<Trouble>>, trouble: Trouble) -> PyResult<()> {
    let troubles = troubles.ok_or_else(|| KilohertzError::new_err("this robot has no emulated devices"))?;
    troubles
        .push(trouble)
        .map_err(|_| KilohertzError::new_err("too many faults at once: the loop does not take them"))
}
