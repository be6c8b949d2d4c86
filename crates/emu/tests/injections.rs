//! Faults put into servos from outside, and what a probe sees of them.

use crate::common::{Bench, MS};
use khz_emu::injection::Refused;
use khz_emu::{Injection, JointState, Probe, Twin};
use khz_wire::{Frame, Mode};
use std::sync::{Arc, Mutex};

/// Position mode at 0.25 revolutions as int16, then a read of position as int16.
const HOLD: &str = "01000a 0520c409 1501";

fn held() -> Bench {
    let mut bench = Bench::servo(&[("servo.pid_position.kp", "50"), ("servo.pid_position.kd", "1")]);
    for _ in 0..400 {
        bench.send(1, true, HOLD);
        bench.wait_ms(1);
        bench.received();
    }
    assert_eq!(bench.world.moteus(0).unwrap().status().mode, Mode::Position);
    bench
}

fn mode(bench: &Bench) -> Mode {
    bench.world.moteus(0).unwrap().status().mode
}

#[test]
fn a_servo_without_power_receives_nothing_sends_nothing_and_starts_off() {
    let mut bench = held();
    bench.world.inject(0, Injection::Power(false), bench.now_ns);
    bench.send(1, true, HOLD);
    bench.wait_ms(5);
    assert!(bench.received().is_empty());
    assert!(!bench.world.servos()[0].is_powered());
    bench.world.inject(0, Injection::Power(true), bench.now_ns);
    bench.wait_ms(5);
    assert_eq!(mode(&bench), Mode::Stopped);
    bench.send(1, true, HOLD);
    bench.wait_ms(20);
    assert_eq!((mode(&bench), bench.received().len()), (Mode::Position, 1));
}

#[test]
fn a_reboot_can_be_wrong_by_a_turn() {
    let mut bench = held();
    let before = bench.world.moteus(0).unwrap().status().position;
    bench.world.inject(0, Injection::RebootTurned(1), bench.now_ns);
    bench.wait_ms(1);
    let status = bench.world.moteus(0).unwrap().status();
    assert!((status.position - before - 1.0).abs() < 0.01, "{} after {before}", status.position);
    assert_eq!(status.mode, Mode::Stopped);
}

#[test]
fn a_refused_register_is_answered_with_an_error() {
    let mut bench = held();
    bench.world.inject(0, Injection::RefuseRead(Some(Refused::Position)), bench.now_ns);
    bench.send(1, true, HOLD);
    bench.wait_ms(1);
    assert_eq!(bench.received()[0].frame.payload()[0], 0x31);
    bench.world.inject(0, Injection::RefuseRead(None), bench.now_ns);
    bench.world.inject(0, Injection::RefuseWrite(Some(Refused::Position)), bench.now_ns);
    bench.send(1, true, HOLD);
    bench.wait_ms(1);
    assert_eq!(bench.received()[0].frame.payload()[0], 0x30);
}

#[test]
fn a_servo_that_sleeps_stays_in_mode_0() {
    let mut bench = held();
    bench.world.inject(0, Injection::Asleep(true), bench.now_ns);
    bench.send(1, true, HOLD);
    bench.wait_ms(50);
    assert_eq!((mode(&bench), bench.received().len()), (Mode::Stopped, 1));
}

#[test]
fn a_push_moves_the_joint() {
    let mut bench = Bench::servo(&[]);
    bench.world.push(0, 1.0, bench.now_ns);
    bench.wait_ms(100);
    bench.world.push(0, 0.0, bench.now_ns);
    assert!(bench.world.body().joints()[0].velocity > 5.0);
}

#[derive(Default)]
struct Seen {
    frames: Vec<(usize, i64)>,
    steps: usize,
}

struct Eyes(Arc<Mutex<Seen>>);

impl Probe for Eyes {
    fn took(&mut self, servo: usize, _: &Frame, at_ns: i64) {
        self.0.lock().unwrap().frames.push((servo, at_ns));
    }

    fn stepped(&mut self, servos: &[Box<dyn Twin>], joints: &[JointState], _: i64) {
        assert_eq!(servos.len(), joints.len());
        self.0.lock().unwrap().steps += 1;
    }
}

#[test]
fn a_probe_sees_what_servos_take_and_every_step() {
    let mut bench = Bench::new(khz_emu::BusConfig::CAN_FD, 2);
    let seen = Arc::new(Mutex::new(Seen::default()));
    bench.world.attach(Box::new(Eyes(Arc::clone(&seen))));
    let sent_ns = bench.now_ns;
    bench.send(2, true, HOLD);
    bench.wait_ms(10);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.frames.len(), seen.frames[0].0, seen.steps), (1, 1, 40));
    assert!((sent_ns + 1..sent_ns + MS).contains(&seen.frames[0].1), "the wire takes its time");
}
