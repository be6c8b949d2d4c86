//! Things that link and case share.

use khz_emu::hat::Hat;
use khz_emu::pl011::Uart;
use khz_link::pi3hat::{Processor, Spi};
use khz_link::pl011::Registers;
use khz_link::{Link, LinkError, Received};
use khz_rt::alloc_trap::forbid;
use khz_wire::Request;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// Something shared.
pub struct Share<T>(Arc<Mutex<T>>);

impl<T> Share<T> {
    /// Shares it.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// It, for the moment.
    pub fn get(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

impl<T> Clone for Share<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L: Link> Link for Share<L> {
    khz_link::forward_link!(it => *it.get(); capabilities, half_duplex, begin_cycle, send, flush, receive, next_event_ns, close, counters);
}

/// A hat that the case can take off the header.
pub struct Pluggable {
    /// The hat.
    pub hat: Hat,
    /// Its SPI answers nothing any more.
    pub is_off: bool,
}

impl Share<Pluggable> {
    fn hat<T>(&self, work: impl FnOnce(&mut Hat) -> Result<T, LinkError>) -> Result<T, LinkError> {
        let mut it = self.get();
        // As the kernel's SPI driver reports a failed transfer.
        if it.is_off { Err(LinkError::Down { errno: 5 }) } else { work(&mut it.hat) }
    }
}

impl Spi for Share<Pluggable> {
    fn read(&mut self, of: Processor, register: u8, into: &mut [u8], now_ns: i64) -> Result<i64, LinkError> {
        self.hat(|hat| hat.read(of, register, into, now_ns))
    }

    fn write(&mut self, to: Processor, register: u8, bytes: &[u8], now_ns: i64) -> Result<i64, LinkError> {
        self.hat(|hat| hat.write(to, register, bytes, now_ns))
    }

    fn settle(&mut self, ns: i64, now_ns: i64) -> i64 {
        self.get().hat.settle(ns, now_ns)
    }
}

impl Registers for Share<Uart> {
    fn read(&mut self, offset: usize, now_ns: i64) -> u32 {
        self.get().read(offset, now_ns)
    }

    fn write(&mut self, offset: usize, value: u32, now_ns: i64) {
        self.get().write(offset, value, now_ns);
    }
}

/// A link whose calls are watched for use of the heap.
pub struct Watched<L> {
    link: L,
    heap_used: Arc<AtomicBool>,
}

impl<L: Link> Watched<L> {
    /// Watches a link; the flag is set if one of its calls ever used the heap.
    pub fn new(link: L) -> (Self, Arc<AtomicBool>) {
        let heap_used = Arc::new(AtomicBool::new(false));
        (Self { link, heap_used: Arc::clone(&heap_used) }, heap_used)
    }

    fn watch<T>(&mut self, call: impl FnOnce(&mut L) -> T) -> T {
        let (value, heap) = forbid(|| call(&mut self.link));
        self.heap_used.fetch_or(heap.allocations + heap.frees > 0, Relaxed);
        value
    }
}

impl<L: Link> Link for Watched<L> {
    khz_link::forward_link!(it => it.link; capabilities, half_duplex, next_event_ns, fd, counters);

    fn begin_cycle(&mut self, now_ns: i64) {
        self.watch(|link| link.begin_cycle(now_ns));
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.watch(|link| link.send(channel, request, now_ns))
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.watch(|link| link.flush(now_ns))
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.watch(|link| link.receive(now_ns))
    }
}
