//! The frames of RobStride servos as their clients send and read them.

use khz_wire::Frame;
use khz_wire::mit::Codes;
use khz_wire::robstride::{Reply, Request, State, mode, parameter};

#[test]
fn worked_frames() {
    let write =
        Request::Write(parameter::TIMEOUT, parameter::value(parameter::TIMEOUT, 2000.0)).to_frame(1, 0xff);
    assert_eq!(write, Frame::extended(0x1200_ff01, [0x28, 0x70, 0, 0, 0xd0, 7, 0, 0]));
    let codes = Codes { position: 0x8a2e, velocity: 0x7a2d, kp: 0x0f5c, kd: 0x1999, torque: 0x8b4a };
    let command = Request::Command(codes).to_frame(1, 0xff);
    assert_eq!(command, Frame::extended(0x018b_4a01, [0x8a, 0x2e, 0x7a, 0x2d, 0x0f, 0x5c, 0x19, 0x99]));
    let state = Frame::extended(0x0280_01fd, [0x7f, 0xfe, 0x7f, 0xec, 0x7f, 0xa0, 0, 0xe6]);
    let Some(Reply::State(said)) = Reply::parse(&state) else { panic!() };
    assert_eq!((said.id, said.host, said.mode, said.faults, said.celsius()), (1, 0xfd, mode::RUN, 0, 23.0));
    assert_eq!(State::parse(&state), Some(said));
    let failed = Frame::extended(0x1101_01ff, [0x99, 0x79, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        Reply::parse(&failed),
        Some(Reply::Value { id: 1, host: 0xff, parameter: 0x7999, value: None })
    );
}
