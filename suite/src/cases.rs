//! The cases. Each holds for every link.

use crate::rig::{Build, DEADLINE_NS, PERIOD_NS, Rig, STRANGER};
use crate::shared::Share;
use khz_emu::Injection;
use khz_link::Link;
use khz_link::faults::{Direction, Fault, FaultEffect};
use khz_loop::{Doing, PositionCommand, ServoCommand};
use khz_wire::{Address, Frame, Register, Subframe, Subframes, Value};
use std::f64::consts::TAU;
use std::time::{Duration, Instant};

/// A fault that strikes what one device sends.
fn from(device: u8, kind: FaultEffect) -> Fault {
    Fault { device: Some(device), direction: Direction::FromDevices, ..Fault::new(kind) }
}

/// All servos but one.
fn but(n: u8, one: u8) -> Vec<u8> {
    (1..=n).filter(|id| *id != one).collect()
}

/// Command and query of 1, 3, 12 and 32 servos: every tick, everyone answers.
pub fn all_answer(build: &Build) {
    for n in [1, 3, 12, 32] {
        let mut rig = Rig::new(build, n, &[]);
        for tick in 0..5 {
            let result = rig.tick();
            assert_eq!((result.replied, result.missed), (u16::from(n), 0), "{n} servos, tick {tick}");
            assert_eq!(
                (result.late, result.foreign, result.links_down),
                (0, 0, 0),
                "{n} servos, tick {tick}"
            );
        }
        assert!(rig.state.servos.iter().all(|servo| servo.doing == Doing::Off && servo.voltage > 20.0));
        let counters = rig.link.counters(0);
        assert_eq!((counters.sent, counters.received), (5 * u64::from(n), 5 * u64::from(n)));
        assert_eq!((counters.corrupt, counters.errors, counters.downs, counters.full), (0, 0, 0, 0));
    }
}

/// A silent servo is missed, every tick, and the others lose nothing.
pub fn silent(build: &Build) {
    for n in [3, 12] {
        let mut rig = Rig::new(build, n, &[]);
        rig.tick();
        let now_ns = rig.now_ns();
        rig.stand.world(&mut |world| world.inject(1, Injection::Silent(true), now_ns));
        for _ in 0..3 {
            let result = rig.tick();
            assert_eq!((result.replied, result.missed, result.late), (u16::from(n) - 1, 1, 0));
            assert_eq!(rig.fresh(), but(n, 2));
        }
        let now_ns = rig.now_ns();
        rig.stand.world(&mut |world| world.inject(1, Injection::Silent(false), now_ns));
        assert_eq!(rig.tick().missed, 0);
    }
}

/// A reply that comes after its tick is late, and never taken for the next tick's.
pub fn late(build: &Build) {
    let delay = FaultEffect::Delay { ns: PERIOD_NS, jitter_ns: 0 };
    let mut rig = Rig::new(build, 3, &[Fault { until_ns: 3 * PERIOD_NS, ..from(2, delay) }]);
    for tick in 0..3 {
        let result = rig.tick();
        assert_eq!((result.replied, result.missed, result.late), (2, 1, u32::from(tick > 0)));
        assert_eq!(rig.fresh(), [1, 3]);
    }
    // The delay is over: this tick's reply comes, and the last of the late ones.
    let result = rig.tick();
    assert_eq!((result.replied, result.missed, result.late), (3, 0, 1));
}

/// A reply that comes twice counts once.
pub fn twice(build: &Build) {
    let mut rig = Rig::new(build, 3, &[from(2, FaultEffect::Duplicate)]);
    // The copy comes right behind the reply, or, where it is the last of the tick, with the next tick.
    let (mut replied, mut late) = (0, 0);
    for _ in 0..4 {
        let result = rig.tick();
        assert_eq!(result.missed, 0);
        replied += result.replied;
        late += result.late;
    }
    assert_eq!((replied, late), (12, 4));
}

/// Frames of a servo that is in no plan change nothing.
pub fn foreign(build: &Build) {
    let mut rig = Rig::new(build, 3, &[]);
    rig.tick();
    let now_ns = rig.now_ns();
    let query = Frame::new(Address::to(STRANGER, true).id(), &[0x11, 0x00]).unwrap();
    rig.link.send(0, &Address::request(&query), now_ns).unwrap();
    rig.link.flush(now_ns).unwrap();
    let result = rig.tick();
    assert_eq!((result.replied, result.missed, result.foreign), (3, 0, 1));
}

/// Flipped bits in one servo's replies never reach another servo's state.
pub fn corrupt(build: &Build) {
    let mut rig = Rig::new(build, 3, &[from(2, FaultEffect::Corrupt)]);
    for _ in 0..50 {
        let result = rig.tick();
        assert!(rig.fresh().starts_with(&[1]) && rig.fresh().ends_with(&[3]));
        assert_eq!(result.replied + result.missed, 3);
        let [first, _, third] = &rig.state.servos[..] else { panic!() };
        assert!([first, third].iter().all(|servo| servo.doing == Doing::Off && servo.voltage > 20.0));
    }
}

/// Frames of other families travel as they are: classic, with either width of identifier and 8 bytes.
pub fn classic(build: &Build) {
    let mut rig = Rig::new(build, 3, &[]);
    let came = Share::new(Vec::new());
    let seen = came.clone();
    rig.stand.world(&mut |world| {
        let seen = seen.clone();
        world.watch(move |_, frame, _| seen.get().push(*frame));
    });
    let payload = [0x7f, 0xff, 0x7f, 0xff, 0, 0, 0x0d, 0x0a];
    let frames = [0x7ff, 0x017f_ff7f, 0x0300_fd01].map(|id| Frame::classic(id, &payload).unwrap());
    assert_eq!(
        frames.map(|frame| (frame.fd, frame.extended)),
        [(false, false), (false, true), (false, true)]
    );
    for frame in &frames {
        // The next cycle drops what has not left by then: one at a time.
        let now_ns = rig.now_ns();
        rig.link.send(0, &Address::request(frame), now_ns).unwrap();
        rig.link.flush(now_ns).unwrap();
        assert_eq!(rig.tick().replied, 3);
    }
    let came: Vec<_> = came.get().iter().filter(|frame| !frame.fd).copied().collect();
    assert_eq!(came, frames);
}

/// A servo that loses power is missed and comes back by itself.
pub fn reboot(build: &Build) {
    let mut rig = Rig::new(build, 3, &[]);
    rig.tick();
    let now_ns = rig.now_ns();
    rig.stand.world(&mut |world| world.inject(2, Injection::Reboot, now_ns));
    let mut missed = 0;
    // Booting takes a servo far less than these ten seconds.
    for _ in 0..500 {
        let result = rig.tick();
        assert_eq!(rig.fresh()[..2], [1, 2]);
        if result.missed == 0 {
            assert_eq!(rig.state.servos[2].doing, Doing::Off);
            return;
        }
        missed += result.missed;
    }
    panic!("the servo did not come back in {missed} ticks");
}

/// The link dies: reported once, counted, no replies. It comes back: all answer again.
pub fn cut(build: &Build) {
    let mut rig = Rig::new(build, 3, &[]);
    assert_eq!(rig.tick().replied, 3);
    let now_ns = rig.now_ns();
    let downs = rig.stand.cut(now_ns);
    for _ in 0..3 {
        assert_eq!(rig.tick().missed, 3);
    }
    assert_eq!(rig.link.counters(0).downs, downs);
    let now_ns = rig.now_ns();
    rig.stand.repair(now_ns);
    // Opening the device again is the kernel's affair and takes as long as it takes.
    let started = Instant::now();
    while rig.tick().replied != 3 {
        assert!(started.elapsed() < Duration::from_secs(60), "the link did not come back");
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..3 {
        assert_eq!(rig.tick().missed, 0);
    }
    assert_eq!(rig.link.counters(0).downs, downs);
}

/// A bus that refuses for some ticks and then takes everything carries no command older than the tick before.
pub fn refused(build: &Build) {
    for n in [1, 3, 12] {
        let mut rig = Rig::new(build, n, &[]);
        let obeyed = obeyed(&mut rig);
        let tick = |rig: &mut Rig, number: u32| {
            rig.command = ServoCommand::Position(PositionCommand::hold(f64::from(number) * STEP_RAD));
            rig.tick();
            std::mem::take(&mut *obeyed.get())
        };
        for number in 1..=3 {
            assert_eq!(tick(&mut rig, number), vec![number; n.into()], "before");
        }
        let now_ns = rig.now_ns();
        rig.stand.refuse(true, now_ns);
        for number in 4..=13 {
            assert!(tick(&mut rig, number).is_empty(), "nothing passes");
        }
        let now_ns = rig.now_ns();
        rig.stand.refuse(false, now_ns);
        let mut all = 0;
        // A full queue may empty itself step by step.
        for number in 14..60 {
            let obeyed = tick(&mut rig, number);
            assert!(obeyed.iter().all(|old| (number - 1..=number).contains(old)), "{obeyed:?} in {number}");
            all += u32::from(obeyed.len() == usize::from(n));
        }
        assert!(all > 20, "all servos were reached in {all} ticks only");
    }
}

/// From one tick's commanded position to the next.
const STEP_RAD: f64 = 0.01;

/// The commanded positions that reach the servos from now on, in steps.
fn obeyed(rig: &mut Rig) -> Share<Vec<u32>> {
    let obeyed = Share::new(Vec::<u32>::new());
    let seen = obeyed.clone();
    rig.stand.world(&mut |world| {
        let seen = seen.clone();
        world.watch(move |_, frame, _| seen.get().extend(step(frame)));
    });
    obeyed
}

/// Which step a frame commands.
fn step(frame: &Frame) -> Option<u32> {
    for subframe in Subframes::new(frame.payload()).flatten() {
        let Subframe::Write(values) = subframe else { continue };
        let is_position = |(register, _): &(u32, Value)| *register == u32::from(Register::COMMAND_POSITION.0);
        if let Some((_, value)) = values.iter().find(is_position) {
            let turns = Register::COMMAND_POSITION.class().decode(value);
            return Some((turns * TAU / STEP_RAD).round() as u32);
        }
    }
    None
}

/// Nothing the link does in a tick touches the heap, with lost and late replies too.
pub fn heap(build: &Build) {
    let script = [
        Fault { probability: 0.2, ..Fault::new(FaultEffect::Loss) },
        Fault {
            probability: 0.2,
            ..Fault::new(FaultEffect::Delay { ns: DEADLINE_NS, jitter_ns: PERIOD_NS })
        },
    ];
    let mut rig = Rig::new(build, 12, &script);
    for _ in 0..20 {
        let result = rig.tick();
        assert_eq!(result.replied + result.missed, 12);
    }
    assert!(!rig.stand.heap_used(), "a call of the link used the heap");
}
