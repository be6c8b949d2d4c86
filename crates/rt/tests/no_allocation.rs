//! Everything meant for the tick stays off the heap.

use khz_rt::alloc_trap::{CountingAllocator, forbid};
use khz_rt::late::{LateLog, LateTick};
use khz_rt::{
    Cause, Histogram, Overrun, Pacer, PacketPacer, Profile, Sleeps, ThreadMonitor, Waiter, Wake, now_ns,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn the_trap_catches_growth_and_freeing() {
    let mut list = vec![1u8];
    let ((), heap) = forbid(|| list.extend_from_slice(&[2; 1000]));
    assert_eq!(heap.allocations, 1);
    let ((), heap) = forbid(|| drop(list));
    assert_eq!((heap.allocations, heap.frees), (0, 1));
}

#[test]
fn a_measured_tick_stays_off_the_heap_with_every_wake_strategy() {
    for wake in Wake::ALL.iter().copied() {
        let mut waiter = Waiter::new(wake).unwrap();
        let mut latency = Histogram::new();
        let mut profile = Profile::new();
        let work = profile.section("work");
        let mut late = LateLog::new(0, 4);
        let mut monitor = ThreadMonitor::new();
        let mut pacer = Pacer::new(200_000, Overrun::Skip, now_ns());
        let ((), heap) = forbid(|| {
            for _ in 0..10 {
                let woke_ns = waiter.wait_until(pacer.deadline_ns());
                let Some(tick) = pacer.woke(woke_ns) else { return };
                monitor.woke(woke_ns, tick.late_ns, 0);
                latency.record(tick.late_ns, woke_ns);
                profile.begin(work, woke_ns);
                let done_ns = now_ns();
                profile.end(work, done_ns);
                let disturbance = monitor.done(done_ns, Sleeps::START);
                let response_ns = done_ns - tick.planned_ns;
                let part = profile.blame().map(|_| 0);
                let usual_ns = profile.usual_ns(work);
                let (number, at_ns) = (tick.number, woke_ns);
                let own = Cause::Compute;
                late.record(LateTick { number, at_ns, response_ns, usual_ns, part, own, disturbance });
                profile.tick(tick.number);
                pacer.finished(now_ns());
            }
        });
        heap.assert_untouched();
        assert!(latency.count() > 0);
    }
}

#[test]
fn a_packet_paced_tick_stays_off_the_heap() {
    use std::os::fd::AsFd;
    let (silent, _writer) = std::io::pipe().unwrap();
    let mut pacer = PacketPacer::new(200_000, 50_000, now_ns());
    let ((), heap) = forbid(|| {
        for _ in 0..3 {
            khz_rt::wait_readable(silent.as_fd(), pacer.deadline_ns()).unwrap();
            pacer.timeout(now_ns());
        }
    });
    heap.assert_untouched();
    assert_eq!(pacer.counts().fallbacks, 3);
}
