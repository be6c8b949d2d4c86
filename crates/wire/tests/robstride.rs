//! The frames of RobStride servos as their clients send and read them.

use crate::common::{bytes, hex_number, number, small, text, vectors};
use khz_wire::mit::{Codes, Scale};
use khz_wire::robstride::{POSITION_RANGE, Reply, Request, State, kind, mode, parameter, parts, scale};
use khz_wire::{Frame, robstride};
use serde_json::Value as Json;

/// The identifier's four bytes, then the payload.
fn frame(json: &Json) -> Frame {
    let bytes = bytes(json);
    let (id, payload) = bytes.split_first_chunk().unwrap();
    Frame::extended(u32::from_be_bytes(*id), payload.try_into().unwrap())
}

/// The same with so many bytes of its payload.
fn cut(whole: &Frame, len: usize) -> Frame {
    let mut cut = Frame::classic(whole.id, &whole.payload()[..len]).unwrap();
    cut.extended = true;
    cut
}

fn with(key: &str) -> impl Iterator<Item = Json> {
    vectors("robstride.json").into_iter().filter(move |vector| !vector[key].is_null())
}

fn numbered(of: &Json) -> u16 {
    hex_number(&of["parameter"]) as u16
}

fn value(of: &Json) -> [u8; 4] {
    parameter::value(numbered(of), number(&of["value"]))
}

#[test]
fn requests_say_what_the_programs_meant() {
    for vector in with("asks") {
        let (sent, asks) = (frame(&vector["request"]), &vector["asks"]);
        let (request, id, host) = Request::parse(&sent).unwrap();
        assert_eq!(
            (id, host),
            (small(&asks["id"]), asks["host"].as_u64().map(|host| host as u8)),
            "{vector}"
        );
        let flag = |key: &str| asks[key].as_bool().unwrap();
        let expected = match text(&asks["what"]) {
            "identity" => Request::Identity,
            "command" => request,
            "enable" => Request::Enable,
            "stop" => Request::Stop { clear: flag("clear") },
            "set_zero" => Request::SetZero,
            "set_id" => Request::SetId(small(&asks["new"])),
            "read" => Request::Read(numbered(asks)),
            "write" => Request::Write(numbered(asks), value(asks)),
            "report" => Request::Report(flag("on")),
            "version" => Request::Version,
            other => panic!("{other}"),
        };
        assert_eq!(request, expected, "{vector}");
        // CyberGear-with-python leaves a byte empty that the CyberGear's manual fills.
        let written = request.to_frame(id, host.unwrap_or_default());
        let len = if matches!(request, Request::SetId(_)) { 0 } else { 8 };
        assert_eq!((written.id, &written.payload()[..len]), (sent.id, &sent.payload()[..len]), "{vector}");
    }
}

#[test]
fn commands_carry_the_numbers_that_were_asked_for() {
    for vector in with("asks").filter(|vector| vector["asks"]["ranges"].is_object()) {
        let (Request::Command(codes), ..) = Request::parse(&frame(&vector["request"])).unwrap() else {
            panic!()
        };
        let (asks, range) = (&vector["asks"], |of: &str| number(&vector["asks"]["ranges"][of]));
        let near = |code: u32, of: &str, scale: Scale| {
            // The maker's package stops one code below the end, and rounds around the middle.
            assert!(scale.encode(number(&asks[of])).abs_diff(code) <= 1, "{of} {code:04x} of {vector}");
        };
        near(codes.position, "position", scale(POSITION_RANGE));
        near(codes.velocity, "velocity", scale(range("velocity")));
        near(codes.torque, "torque", scale(range("torque")));
        near(codes.kp, "kp", Scale::new(0.0, range("kp"), 16));
        near(codes.kd, "kd", Scale::new(0.0, range("kd"), 16));
    }
}

#[test]
fn replies_say_what_the_programs_read() {
    for vector in with("says") {
        let (sent, means) = (frame(&vector["reply"]), &vector["says"]);
        let id = small(&means["id"]);
        let expected = match text(&means["what"]) {
            "identity" => Reply::Identity { id, number: bytes(&means["number"]).try_into().unwrap() },
            "state" | "report" => Reply::State(State {
                id,
                host: small(&means["host"]),
                mode: small(&means["mode"]),
                faults: small(&means["faults"]),
                position: means["position"].as_u64().unwrap() as u16,
                velocity: means["velocity"].as_u64().unwrap() as u16,
                torque: means["torque"].as_u64().unwrap() as u16,
                temperature: (number(&means["celsius"]) * 10.0).round() as i16,
            }),
            "value" => Reply::Value {
                id,
                host: small(&means["host"]),
                parameter: numbered(means),
                value: (!means["value"].is_null()).then(|| bytes(&vector["reply"])[8..].try_into().unwrap()),
            },
            "version" => {
                let numbers: Vec<u8> =
                    text(&means["version"]).split('.').map(|of| of.parse().unwrap()).collect();
                let version = numbers.try_into().unwrap();
                assert_eq!(Reply::version(&sent), Some((id, version)), "{vector}");
                let written = Reply::Version { id, host: small(&means["host"]), version };
                assert_eq!(written.to_frame(), sent, "{vector}");
                continue;
            }
            other => panic!("{other}"),
        };
        if let (Reply::State(state), "report") = (expected, text(&means["what"])) {
            assert_eq!(Reply::parse(&sent), None, "a report answers nothing: {vector}");
            assert_eq!((State::parse(&sent), state.to_frame(kind::REPORT)), (Some(state), sent), "{vector}");
            continue;
        }
        assert_eq!((Reply::parse(&sent), expected.to_frame()), (Some(expected), sent), "{vector}");
        if let Reply::Value { parameter, value: Some(value), .. } = expected {
            assert!((parameter::number(parameter, value) - number(&means["value"])).abs() < 1e-9, "{vector}");
        }
    }
}

/// What was recorded on one bus: the requests, and of each drive how it answered.
#[test]
fn every_request_that_was_recorded_has_one_reply() {
    let mut open = [const { Vec::new() }; 6];
    let mut hosts = [0xfd; 6];
    for vector in vectors("robstride_bus.json") {
        let frame = frame(&vector["frame"]);
        // A value looks like a request to the drive with the host's id.
        if let Some((request, id, host)) = Request::parse(&frame).filter(|&(_, id, _)| id <= 5) {
            assert_eq!(request.to_frame(id, host.unwrap_or_default()), frame);
            hosts[usize::from(id)] = host.unwrap_or(hosts[usize::from(id)]);
            open[usize::from(id)].push(request);
            continue;
        }
        let reply = Reply::parse(&frame).unwrap();
        assert_eq!(reply.to_frame(), frame);
        let (id, host, parameter) = match reply {
            Reply::State(state) => (state.id, state.host, None),
            Reply::Value { id, host, parameter, .. } => (id, host, Some(parameter)),
            other => panic!("{other:?}"),
        };
        assert_eq!(host, hosts[usize::from(id)], "it answers whoever asked last: {vector}");
        let open = &mut open[usize::from(id)];
        let is_its = |request: &Request| match request {
            Request::Read(number) => parameter == Some(*number),
            _ => parameter.is_none(),
        };
        open.remove(open.iter().position(is_its).unwrap());
    }
    assert_eq!(open, [const { Vec::new() }; 6]);
}

#[test]
fn what_is_cut_off_says_nothing() {
    for vector in vectors("robstride.json") {
        for key in ["request", "reply"] {
            let Some(whole) = vector[key].is_string().then(|| frame(&vector[key])) else { continue };
            for len in 0..8 {
                let cut = cut(&whole, len);
                assert_eq!(
                    (Request::parse(&cut), Reply::parse(&cut), State::parse(&cut)),
                    (None, None, None)
                );
            }
            let (mut short_id, mut fd) = (whole, whole);
            (short_id.extended, fd.fd) = (false, true);
            for other in [short_id, fd] {
                assert_eq!((parts(&other), Request::parse(&other), Reply::parse(&other)), (None, None, None));
            }
        }
    }
}

#[test]
fn velocities_are_those_of_the_manual_and_not_of_the_package() {
    // An RS03: 20 rad/s according to its manual; robstride-dynamics has 50.
    let moving: Vec<(f64, State)> = with("at_us")
        .map(|vector| (number(&vector["at_us"]) * 1e-6, State::parse(&frame(&vector["reply"])).unwrap()))
        .collect();
    let position = |state: &State| scale(POSITION_RANGE).decode(state.position.into());
    let ratio = |range: f64| {
        let velocity = |state: &State| scale(range).decode(state.velocity.into());
        let way = |pair: &[(f64, State)]| {
            0.5 * (velocity(&pair[0].1) + velocity(&pair[1].1)) * (pair[1].0 - pair[0].0)
        };
        let [(_, first), .., (_, last)] = moving.as_slice() else { panic!() };
        moving.windows(2).map(way).sum::<f64>() / (position(last) - position(first))
    };
    assert!((ratio(20.0) - 1.0).abs() < 0.02, "{}", ratio(20.0));
    assert!(ratio(50.0) > 2.0);
}

#[test]
fn versions_and_fault_reports() {
    let version = Reply::Version { id: 1, host: 0xfd, version: [0, 3, 1, 42] };
    let sent = version.to_frame();
    assert_eq!((sent.id, sent.payload()), (0x0200_01fd, &[0, 0xc4, 0x56, 0, 3, 1, 42, 0x07][..]));
    assert_eq!(Reply::version(&sent), Some((1, [0, 3, 1, 42])));
    assert_eq!(Reply::version(&cut(&sent, 7)), Some((1, [0, 3, 1, 42])));
    (0..7).for_each(|len| assert_eq!(Reply::version(&cut(&sent, len)), None));
    let faults = Reply::Faults { id: 1, host: 0xfd, faults: 1 | 1 << 14, warnings: 1 };
    assert_eq!(faults.to_frame(), Frame::extended(0x1500_01fd, [1, 0x40, 0, 0, 1, 0, 0, 0]));
    assert_eq!(Reply::parse(&faults.to_frame()), Some(faults));
}

#[test]
fn every_request_survives_the_way_there_and_back() {
    let codes = Codes { position: 1, velocity: 2, kp: 3, kd: 4, torque: 0xfffe };
    let requests = [
        Request::Identity,
        Request::Command(codes),
        Request::Enable,
        Request::Stop { clear: false },
        Request::Stop { clear: true },
        Request::SetZero,
        Request::SetId(7),
        Request::Read(parameter::TIMEOUT),
        Request::Write(parameter::TIMEOUT, [0xd0, 7, 0, 0]),
        Request::Store,
        Request::Report(true),
        Request::Report(false),
        Request::Version,
        Request::State,
    ];
    for request in requests {
        let host = (!matches!(request, Request::Command(_))).then_some(0xfd);
        assert_eq!(Request::parse(&request.to_frame(5, 0xfd)), Some((request, 5, host)));
    }
}

#[test]
fn parameters_have_the_types_of_the_manual() {
    for (number, value) in [
        (parameter::RUN_MODE, [2, 0, 0, 0]),
        (parameter::REPORT_PERIOD, [2, 0, 0, 0]),
        (parameter::TIMEOUT, [2, 0, 0, 0]),
        (parameter::CYBERGEAR_TIMEOUT, [2, 0, 0, 0]),
        (parameter::FAULTS, [2, 0, 0, 0]),
        (parameter::TORQUE_LIMIT, 2_f32.to_le_bytes()),
    ] {
        assert_eq!(
            (parameter::number(number, value), parameter::value(number, 2.0)),
            (2.0, value),
            "{number:x}"
        );
    }
    assert_eq!([mode::name(mode::RESET), mode::name(mode::RUN), mode::name(3)], ["reset", "run", "unknown"]);
    assert_eq!(robstride::FAULTS[2], "over-temperature");
}
