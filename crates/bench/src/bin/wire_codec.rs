//! What a servo's command and reply cost in a tick: our templates against the official crate
//! `moteus-protocol`, the same registers at the same resolutions.
#![allow(clippy::unwrap_used, reason = "constant formats")]

use khz_bench::{Bench, timed_ns};
use khz_wire::{
    Address, CommandTemplate, Format, Frame, Position, Register, ReplyLayout, Resolution, Target,
};
use moteus_protocol::CanFdFrame;
use moteus_protocol::command::{PositionCommand, PositionFormat};
use moteus_protocol::query::{QueryFormat, QueryResult};
use std::hint::black_box;

/// Repetitions in one measurement, so that reading the clock does not count.
const TIMES: u32 = 1_000;

/// Mode 10, 0.25 rev, 1 rev/s, 0.1 N·m, 24.5 V, 30 °C, no fault: the default query's reply, padded.
const REPLY: &[u8; 24] =
    b"\x21\0\x0a\x2f\x01\0\0\x80\x3e\0\0\x80\x3f\xcd\xcc\xcc\x3d\x23\x0d\x31\x1e\0\x50\x50";

fn main() {
    let bench = Bench::from_args();
    encode(&bench);
    decode(&bench);
}

/// Nanoseconds of one repetition.
fn each_ns<T>(mut work: impl FnMut() -> T) -> f64 {
    timed_ns(|| {
        for _ in 0..TIMES {
            black_box(work());
        }
    }) / f64::from(TIMES)
}

fn encode(bench: &Bench) {
    let registers = [
        Register::COMMAND_POSITION,
        Register::COMMAND_VELOCITY,
        Register::COMMAND_TORQUE,
        Register::COMMAND_KP_SCALE,
        Register::COMMAND_KD_SCALE,
    ];
    let format = Format::of(&registers.map(|register| (register, Resolution::Float))).unwrap();
    let (address, query) = (Address::to(1, true), Format::default_query());
    let mut template = CommandTemplate::new(address, &Position::default(), &format, &query).unwrap();
    let target = |position, velocity| Target {
        position,
        velocity,
        torque: 0.0,
        kp_scale: 1.0,
        kd_scale: 1.0,
        max_torque: f64::NAN,
    };

    let mut command = PositionCommand::new();
    (command.position, command.velocity, command.feedforward_torque) = (Some(0.25), Some(1.0), Some(0.0));
    (command.kp_scale, command.kd_scale) = (Some(1.0), Some(1.0));
    let (command_format, query_format) = (PositionFormat::default(), QueryFormat::default());
    let mut official = || {
        let mut frame = CanFdFrame::new();
        black_box(&command).serialize(&mut frame, &command_format);
        query_format.serialize(&mut frame);
        frame
    };
    // The comparison is fair only if both results agree.
    let frame = official();
    assert_eq!(template.fill(&target(0.25, 1.0)).payload(), &frame.data[..usize::from(frame.size)]);
    // What did not change costs ours nothing: position and velocity do.
    let mut step = 0.0;
    let mut ours = || {
        step += 0.001;
        *template.fill(black_box(&target(step, 1.0 + step)))
    };
    let (ours, peer) = bench.interleave(500, || each_ns(&mut ours), || each_ns(&mut official));
    bench.ratio("encode", ours.median() / peer.median(), 1.0);
    bench.figure("encode_p50", ours.median(), "ns", 100.0);
}

fn decode(bench: &Bench) {
    let layout = ReplyLayout::new(&Format::default_query()).unwrap();
    let frame = Frame::new(0x100, REPLY).unwrap();
    assert!(layout.fits(&frame));
    let (ours, peer) = bench.interleave(
        500,
        || each_ns(|| layout.decode(black_box(&frame))),
        || each_ns(|| QueryResult::parse_data(black_box(REPLY))),
    );
    bench.ratio("decode", ours.median() / peer.median(), 1.0);
    bench.figure("decode_p50", ours.median(), "ns", 100.0);
}
