//! The emulated devices as a link, which code outside the loop reads as well.

use khz_emu::World;
use khz_link::{Capabilities, Counters, Imu, ImuSample, Link, LinkError, Received};
use khz_wire::Request;
use std::sync::{Arc, Mutex, PoisonError};

/// A [`World`] of which there are several handles. It takes a lock in every call, so it is for virtual time.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    /// Looks into the devices, or changes them.
    pub fn ask<T>(&self, ask: impl FnOnce(&mut World) -> T) -> T {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Link for Shared {
    fn capabilities(&self) -> Capabilities {
        self.ask(|world| Link::capabilities(world))
    }

    fn half_duplex(&self, channel: u8) -> bool {
        self.ask(|world| world.half_duplex(channel))
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        self.ask(|world| world.begin_cycle(now_ns));
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.ask(|world| Link::send(world, channel, request, now_ns))
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.ask(|world| world.flush(now_ns))
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.ask(|world| world.receive(now_ns))
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.ask(|world| world.next_event_ns())
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        if self.ask(|world| world.imu().is_some()) { Some(self) } else { None }
    }

    fn close(&mut self, now_ns: i64) -> Vec<String> {
        self.ask(|world| world.close(now_ns))
    }

    fn counters(&self, channel: u8) -> Counters {
        self.ask(|world| world.counters(channel))
    }
}

impl Imu for Shared {
    fn request(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.ask(|world| Imu::request(world, now_ns))
    }

    fn poll(&mut self, now_ns: i64) -> Result<Option<ImuSample>, LinkError> {
        self.ask(|world| Imu::poll(world, now_ns))
    }
}
