//! Our codecs against the bytes of other people's code.

use crate::common::{bytes, hex_number, number, small, text, vectors};
use khz_wire::command::{Action, Current, Position, StayWithin, VoltageFoc, ZeroVelocity, write_uuid_mask};
use khz_wire::device::{Refusal, RegisterFile, Server};
use khz_wire::fdcanusb::{Dialect, device, host};
use khz_wire::slcan;
use khz_wire::subframe::{Full, read_varuint, write_varuint};
use khz_wire::{Address, Command, Format, Frame, Register, Reply, Resolution, Value, Writer, pi3hat, rs485};
use serde_json::Value as Json;

#[test]
fn addresses() {
    for vector in vectors("addresses.json") {
        let address = Address {
            prefix: u16::from(small(&vector["prefix"])),
            source: small(&vector["source"]),
            destination: small(&vector["destination"]),
            reply: vector["reply"].as_bool().unwrap(),
        };
        let id = hex_number(&vector["id"]);
        assert_eq!((address.id(), Address::from_id(id)), (id, address), "{vector}");
    }
}

#[test]
fn varuints() {
    for vector in vectors("varuints.json") {
        let (value, expected) = (vector["value"].as_u64().unwrap() as u32, bytes(&vector["bytes"]));
        let mut buffer = [0; 5];
        let len = write_varuint(value, &mut buffer).unwrap();
        assert_eq!(buffer[..len], expected, "{vector}");
        assert_eq!(read_varuint(&expected), Some((value, len)), "{vector}");
    }
}

#[test]
fn commands() {
    for vector in vectors("commands.json") {
        let mut payload = [0; 64];
        let mut writer = Writer::new(&mut payload);
        let query = query(&vector["query"]);
        write_command(&vector, &mut writer).unwrap();
        query.query(&mut writer).unwrap();
        assert_eq!(writer.written(), bytes(&vector["bytes"]), "{vector}");
        assert_eq!(!query.is_empty(), vector["query_bit"].as_bool().unwrap(), "{vector}");
    }
}

fn write_command(vector: &Json, writer: &mut Writer<'_>) -> Result<(), Full> {
    if !vector["uuid"].is_null() {
        write_uuid_mask(&bytes(&vector["uuid"]), writer)?;
    }
    if !vector["action"].is_null() {
        return action(vector).write(writer);
    }
    match vector["command"].as_str() {
        None => Ok(()),
        Some(name) => {
            let (command, format) = command(name, &vector["values"]);
            command.write(&format, writer)
        }
    }
}

fn action(vector: &Json) -> Action {
    let arguments: Vec<f64> = vector["arguments"].as_array().unwrap().iter().map(number).collect();
    match text(&vector["action"]) {
        "set_output_nearest" => Action::SetOutputNearest(arguments[0]),
        "set_output_exact" => Action::SetOutputExact(arguments[0]),
        "require_reindex" => Action::RequireReindex,
        "recapture" => Action::Recapture,
        "write_gpio" => Action::WriteGpio { aux1: Some(arguments[0] as u8), aux2: Some(arguments[1] as u8) },
        "set_trim" => Action::SetTrim(arguments[0] as i32),
        "aux_pwm" => Action::AuxPwm(std::array::from_fn(|i| arguments.get(i).copied())),
        other => panic!("unknown action {other}"),
    }
}

/// A field's value, register and resolution, if the vector gives it.
struct Fields<'a>(&'a Json, Format);

impl Fields<'_> {
    fn take(&mut self, name: &str, register: Register, default: f64) -> f64 {
        let (value, kind) = match &self.0[name] {
            Json::Null => return default,
            Json::Array(pair) => (number(&pair[0]), resolution(&pair[1])),
            plain => (number(plain), Resolution::Float),
        };
        self.1 = self.1.with(register, kind).unwrap();
        value
    }
}

fn command(name: &str, values: &Json) -> (Command, Format) {
    let mut fields = Fields(values, Format::new());
    let mut take = |name, register, default| fields.take(name, register, default);
    let command = match name {
        "stop" => Command::Stop,
        "brake" => Command::Brake,
        "position" => {
            let default = Position::default();
            Command::Position(Position {
                position: take("position", Register::COMMAND_POSITION, 0.0),
                velocity: take("velocity", Register::COMMAND_VELOCITY, 0.0),
                torque: take("torque", Register::COMMAND_TORQUE, 0.0),
                kp_scale: take("kp_scale", Register::COMMAND_KP_SCALE, 1.0),
                kd_scale: take("kd_scale", Register::COMMAND_KD_SCALE, 1.0),
                max_torque: take("max_torque", Register::COMMAND_MAX_TORQUE, 0.0),
                watchdog: take("watchdog", Register::COMMAND_WATCHDOG, 0.0),
                velocity_limit: take("velocity_limit", Register::COMMAND_VELOCITY_LIMIT, 0.0),
                acceleration_limit: take("acceleration_limit", Register::COMMAND_ACCELERATION_LIMIT, 0.0),
                ..default
            })
        }
        "zero_velocity" => Command::ZeroVelocity(ZeroVelocity {
            kd_scale: take("kd_scale", Register::COMMAND_KD_SCALE, 1.0),
        }),
        "current" => Command::Current(Current {
            q: take("q", Register::COMMAND_Q_CURRENT, 0.0),
            d: take("d", Register::COMMAND_D_CURRENT, 0.0),
        }),
        "voltage_foc" => Command::VoltageFoc(VoltageFoc {
            theta: take("theta", Register::VFOC_THETA, 0.0),
            voltage: take("voltage", Register::VFOC_VOLTAGE, 0.0),
            theta_rate: take("theta_rate", Register::VFOC_THETA_RATE, 0.0),
        }),
        "stay_within" => Command::StayWithin(StayWithin {
            lower: take("lower", Register::WITHIN_LOWER, 0.0),
            upper: take("upper", Register::WITHIN_UPPER, 0.0),
            max_torque: take("max_torque", Register::WITHIN_MAX_TORQUE, 0.0),
            watchdog: take("watchdog", Register::WITHIN_WATCHDOG, 0.0),
            ..StayWithin::default()
        }),
        other => panic!("unknown command {other}"),
    };
    let given = values.as_object().map_or(0, |values| values.len());
    assert_eq!(given, fields.1.registers().len(), "a field of {values} is not read");
    (command, fields.1)
}

fn query(json: &Json) -> Format {
    match json {
        Json::Null => Format::new(),
        Json::String(name) if name == "default" => Format::default_query(),
        list => list.as_array().unwrap().iter().fold(Format::new(), |format, pair| {
            format.with(Register(hex_number(&pair[0]) as u16), resolution(&pair[1])).unwrap()
        }),
    }
}

fn resolution(json: &Json) -> Resolution {
    match text(json) {
        "int8" => Resolution::Int8,
        "int16" => Resolution::Int16,
        "int32" => Resolution::Int32,
        "float" => Resolution::Float,
        other => panic!("unknown resolution {other}"),
    }
}

#[test]
fn replies() {
    for vector in vectors("replies.json") {
        let reply = Reply::parse(&bytes(&vector["bytes"])).unwrap();
        for (name, expected) in vector["fields"].as_object().unwrap() {
            let found = match name.as_str() {
                "mode" => reply.mode.map(|mode| f64::from(mode as u8)),
                "position" => reply.position,
                "velocity" => reply.velocity,
                "torque" => reply.torque,
                "voltage" => reply.voltage,
                "temperature" => reply.temperature,
                "fault" => reply.fault.map(|fault| f64::from(fault.0)),
                "error_register" => {
                    reply.write_error.or(reply.read_error).map(|error| f64::from(error.register))
                }
                "error_code" => reply.write_error.or(reply.read_error).map(|error| f64::from(error.code)),
                other => panic!("unknown field {other}"),
            };
            let (found, expected) = (found.unwrap(), number(expected));
            let equal = (found - expected).abs() < 1e-6 || (found.is_nan() && expected.is_nan());
            assert!(equal, "{vector}: {name} is {found}");
        }
    }
}

/// The register file of the reference server's test program, and a console.
struct Sample {
    console: Vec<u8>,
}

impl RegisterFile for Sample {
    fn read(&mut self, register: Register, resolution: Resolution) -> Result<Value, Refusal> {
        match (register, resolution) {
            (Register(0x111), _) | (Register(0x150..=0x153), Resolution::Int8) => Err(Refusal::Unknown),
            (Register(n), Resolution::Int8) => Ok(Value::Int8(n as i8)),
            (Register(n), Resolution::Int16) => Ok(Value::Int16(n as i16)),
            (Register(n), Resolution::Int32) => Ok(Value::Int32(i32::from(n))),
            (Register(n), Resolution::Float) => Ok(Value::Float(f32::from(n))),
        }
    }

    fn write(&mut self, register: Register, _: Value) -> Result<(), Refusal> {
        match register {
            Register(0x111) => Err(Refusal::Unknown),
            Register(0x001) => Err(Refusal::NotWritable),
            _ => Ok(()),
        }
    }

    fn complete(&mut self) {}

    fn uuid(&self) -> [u8; 16] {
        [0; 16]
    }

    fn output(&mut self, channel: u32) -> Option<&[u8]> {
        (channel == 1).then_some(&self.console)
    }

    fn consume(&mut self, _: u32, count: usize) {
        self.console.drain(..count);
    }
}

fn answer(server: &mut Server, file: &mut Sample, request: &[u8]) -> Vec<u8> {
    let mut reply = [0; 64];
    let len = server.answer(request, true, file, &mut reply).unwrap();
    reply[..len].to_vec()
}

#[test]
fn the_reference_server() {
    for vector in vectors("server.json") {
        let mut file = Sample { console: Vec::new() };
        let reply = answer(&mut Server::new(), &mut file, &bytes(&vector["request"]));
        assert_eq!(reply, bytes(&vector["reply"]), "{vector}");
    }
}

#[test]
fn streams() {
    for vector in vectors("streams.json") {
        let (mut server, mut file) = (Server::new(), Sample { console: bytes(&vector["output"]) });
        for exchange in vector["exchanges"].as_array().unwrap() {
            let reply = answer(&mut server, &mut file, &bytes(&exchange[0]));
            assert_eq!(reply, bytes(&exchange[1]), "{vector}");
        }
    }
}

#[test]
fn discovery() {
    let words = |kind| {
        (0x150..0x154)
            .fold(Format::new(), |format, n| format.with(Register(n), Resolution::Int32).unwrap())
            .with(Register::UUID_MASK_CAPABLE, kind)
            .unwrap()
    };
    for vector in vectors("discovery.json") {
        let expected = bytes(&vector["bytes"]);
        let kind = match text(&vector["kind"]) {
            "query" => Resolution::Int8,
            "query_int32" => Resolution::Int32,
            _ => {
                let reply = Reply::parse(&expected).unwrap();
                let word = |n| reply.extra(Register(n)).unwrap() as i64 as i32;
                let uuid: Vec<u8> = (0x150..0x154).flat_map(|n| word(n).to_le_bytes()).collect();
                assert_eq!(uuid, bytes(&vector["uuid"]));
                continue;
            }
        };
        let mut payload = [0; 64];
        let mut writer = Writer::new(&mut payload);
        words(kind).query(&mut writer).unwrap();
        assert_eq!(writer.written(), expected, "{vector}");
    }
}

#[test]
fn fdcanusb_lines() {
    for vector in vectors("fdcanusb.json") {
        let dialect = if vector["dialect"] == "uart" { Dialect::Uart } else { Dialect::Adapter };
        if vector["direction"] == "to_adapter" {
            to_adapter(&vector, dialect);
        } else {
            from_adapter(&vector, dialect);
        }
    }
}

#[test]
fn slcan_lines() {
    for vector in vectors("slcan.json") {
        let mut frame = frame(&vector);
        let flag = |key: &str| vector[key].as_bool().unwrap();
        (frame.extended, frame.fd, frame.brs) = (flag("extended"), flag("fd"), flag("brs"));
        let line = text(&vector["line"]);
        assert_eq!(slcan::parse(line.as_bytes()), Ok(slcan::Line::Frame(frame)), "{vector}");
        let mut out = [0; slcan::MAX_LINE];
        let len = slcan::write(&frame, &mut out).unwrap();
        assert_eq!(std::str::from_utf8(&out[..len]).unwrap(), format!("{line}\r"));
    }
}

fn frame(vector: &Json) -> Frame {
    Frame::new(hex_number(&vector["id"]), &bytes(&vector["data"])).unwrap()
}

fn to_adapter(vector: &Json, dialect: Dialect) {
    let (line, frame) = (text(&vector["line"]), frame(vector));
    assert_eq!(device::Uart::new().parse(line.as_bytes()), Ok(frame), "{vector}");
    let mut out = [0; 192];
    let len = host::write_send(&frame, dialect, &mut out).unwrap();
    // The Python client pads to a length CAN-FD has; these are all such lengths.
    assert_eq!(std::str::from_utf8(&out[..len]).unwrap(), format!("{line}\n"));
}

fn from_adapter(vector: &Json, dialect: Dialect) {
    let line = text(&vector["line"]);
    let parsed = host::parse(line.as_bytes(), dialect).unwrap();
    let mut uart = device::Uart::new();
    uart.parse(b"can send 8001 11001F01130D BF *AD").unwrap();
    let mut out = [0; 192];
    let written = match (text(&vector["is"]), dialect) {
        ("ok", _) => {
            assert_eq!(parsed, host::FromAdapter::Ok);
            uart.write_ok(&mut out)
        }
        ("error", _) => {
            let words = ["checksum", "unknown command"];
            let word = words.into_iter().find(|word| vector["text"] == *word).unwrap();
            assert_eq!(parsed, host::FromAdapter::Error(word.as_bytes()));
            uart.write_refusal(device::Refusal(word), &mut out)
        }
        (_, dialect) => {
            let host::FromAdapter::Received(received) = parsed else { panic!("{vector}: {parsed:?}") };
            let frame = frame(vector);
            assert_eq!((received.id, received.payload()), (frame.id, frame.payload()), "{vector}");
            match dialect {
                Dialect::Uart => uart.write_received(&frame, &mut out),
                Dialect::Adapter => device::Adapter.write_received(&frame, &mut out),
            }
        }
    };
    if vector["exact"] == true {
        assert_eq!(std::str::from_utf8(&out[..written.unwrap()]).unwrap(), format!("{line}\r\n"));
    }
}

#[test]
fn rs485_frames() {
    for vector in vectors("rs485.json") {
        let address = Address {
            prefix: 0,
            source: small(&vector["source"]),
            destination: small(&vector["destination"]),
            reply: vector["reply"].as_bool().unwrap(),
        };
        if vector["deliverable"] == false {
            let repeat = vector["payload_repeat"].as_u64().unwrap() as usize;
            let mut wire = bytes(&vector["head"]);
            wire.extend(bytes(&vector["payload"]).repeat(repeat));
            assert_eq!(rs485::crc16(&wire).to_le_bytes().to_vec(), bytes(&vector["crc"]));
            wire.extend(bytes(&vector["crc"]));
            let mut decoder = rs485::Decoder::new();
            assert_eq!(decoder.next(&mut &wire[..]), None, "longer than a frame");
            continue;
        }
        let frame = Frame::new(address.id(), &bytes(&vector["payload"])).unwrap();
        let expected = bytes(&vector["frame"]);
        let mut out = [0; rs485::MAX_FRAME];
        let len = rs485::encode(&frame, &mut out).unwrap();
        assert_eq!(out[..len], expected, "{vector}");
        assert_eq!(rs485::Decoder::new().next(&mut &expected[..]), Some(frame), "{vector}");
    }
}

#[test]
fn pi3hat_registers() {
    for vector in vectors("pi3hat.json") {
        let (register, expected) = (small(&vector["register"]), bytes(&vector["bytes"]));
        match text(&vector["is"]) {
            "version" => {
                let known = match register {
                    pi3hat::register::IMU_VERSION => pi3hat::IMU_VERSION,
                    pi3hat::register::RF_VERSION => pi3hat::RF_VERSION,
                    _ => 4,
                };
                assert_eq!(expected, [known], "{vector}");
            }
            "rf_id" => {
                let id = u32::from_le_bytes(expected.try_into().unwrap());
                assert_eq!(u64::from(id), vector["value"].as_u64().unwrap());
            }
            "imu_config" => {
                let config = pi3hat::ImuConfig::decode(&expected).unwrap();
                let angles = [config.roll_deg, config.pitch_deg, config.yaw_deg].map(f64::from);
                assert_eq!(angles, ["roll", "pitch", "yaw"].map(|name| number(&vector[name])));
                assert_eq!(u64::from(config.rate_hz), vector["rate"].as_u64().unwrap());
                assert_eq!(config.encode().to_vec(), expected);
            }
            "can_config" => {
                let host = vector["default"] == "host";
                let config =
                    if host { pi3hat::CanConfig::HOST_DEFAULT } else { pi3hat::CanConfig::PORT_5_DEFAULT };
                assert_eq!(config.encode().to_vec(), expected);
                assert_eq!(pi3hat::CanConfig::decode(&expected), Some(config));
            }
            "status" => {
                let sizes = pi3hat::decode_receive_status(&expected).unwrap();
                let listed = vector["sizes"].as_array().unwrap().iter().map(small);
                assert!(sizes.into_iter().eq(listed));
                assert_eq!(pi3hat::encode_receive_status(sizes)[..6], expected);
            }
            kind => {
                let (port, frame) = (small(&vector["port"]), frame(&vector));
                let mut out = [0; pi3hat::MAX_BLOB];
                if kind == "send" {
                    assert_eq!(pi3hat::encode_send(port, &frame, &mut out), Some((register, expected.len())));
                } else {
                    assert_eq!(pi3hat::encode_received(port, &frame, &mut out), Some(expected.len()));
                    assert_eq!(pi3hat::decode_received(&expected), Some((port, frame)));
                }
                assert_eq!(out[..expected.len()], expected, "{vector}");
            }
        }
    }
}
