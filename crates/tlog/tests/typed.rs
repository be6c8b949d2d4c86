//! Rust types in logs.

use khz_tlog::{
    Bytes, Columns, Duration, Input, Options, Reader, Record, Slice, Timestamp, Type, Value, Width, Writer,
};

#[derive(Clone, Copy, Debug, PartialEq, Record)]
enum Mode {
    Idle,
    #[tlog(rename = "standing")]
    Stand = 5,
    Walk,
}

#[derive(Clone, Debug, PartialEq, Record)]
struct Joint<const N: usize> {
    position: f32,
    #[tlog(rename = "type")]
    kind: [u8; N],
    mode: Mode,
}

#[derive(Clone, Debug, PartialEq, Record)]
struct Everything {
    truth: bool,
    small: i8,
    large: u64,
    exact: f64,
    name: String,
    blob: Bytes,
    joints: Vec<Joint<2>>,
    pair: [Option<i16>; 2],
    at: Timestamp,
    took: Duration,
    nothing: (),
}

fn example() -> Everything {
    let joint = |position, mode| Joint { position, kind: [1, 2], mode };
    Everything {
        truth: true,
        small: -3,
        large: u64::MAX,
        exact: 0.1,
        name: "häuschen".into(),
        blob: Bytes(vec![0, 255]),
        joints: vec![joint(1.5, Mode::Walk), joint(-1.5, Mode::Stand)],
        pair: [None, Some(-300)],
        at: Timestamp { us: 17 },
        took: Duration { us: -17 },
        nothing: (),
    }
}

#[test]
fn a_derived_field_may_have_a_unit() {
    #[derive(Record)]
    struct Wheel {
        #[tlog(unit = "rad/s", rename = "speed")]
        _speed: f32,
        _slips: bool,
    }
    assert_eq!(Wheel::schema().units(), [("speed".to_owned(), "rad/s")]);
}

/// Numbers side by side, and between them what has no fixed width.
#[derive(Clone, Debug, Default, PartialEq, Record)]
struct Mixed {
    number: u64,
    truth: bool,
    axes: [f32; 3],
    name: String,
    half: i16,
}

#[test]
fn numbers_side_by_side_have_the_bytes_of_each_by_itself() {
    let mixed = Mixed { number: 7, truth: true, axes: [1.0, -2.0, 0.5], name: "knee".into(), half: -1 };
    let axes = mixed.axes.iter().flat_map(Record::to_bytes);
    let each = [7u64.to_bytes(), vec![1]].concat().into_iter().chain(axes);
    let each: Vec<u8> = each.chain([4]).chain(*b"knee").chain((-1i16).to_bytes()).collect();
    assert_eq!(mixed.to_bytes(), each);
    assert_eq!(Mixed::decode(&mut Input::new(&each)).unwrap(), mixed);
}

#[derive(Clone, Copy, Debug, PartialEq, Record, Columns)]
struct Flat {
    /// How far
    /// it went.
    #[tlog(unit = "m", alias = "way")]
    distance: f64,
    count: u32,
    mode: Mode,
    done: bool,
}

#[test]
fn fields_are_read_by_their_names_in_any_order_and_as_far_as_they_are_there() {
    let (float, count) = (Type::Float32, Type::Uint(Width::One));
    let old =
        Type::object([("extra", Type::String), ("count", count), ("mode", Mode::schema()), ("way", float)]);
    let bytes = [&[1, b'x', 9, 6][..], &2.5f32.to_le_bytes()].concat();
    let mut flat = Flat { distance: 0.0, count: 0, mode: Mode::Idle, done: true };
    flat.read(&Value::read(&old, &bytes).unwrap());
    assert_eq!(flat, Flat { distance: 2.5, count: 9, mode: Mode::Walk, done: true });
    flat.set(2, &Value::Float64(77.0));
    assert_eq!(flat.mode, Mode::Walk, "what does not fit changes nothing");
    assert_eq!(Flat::FIELDS[0].about, "How far it went.");
}

#[test]
fn a_struct_goes_through_a_log() {
    let mut writer = Writer::new(Vec::new(), Options::default()).unwrap();
    let id = writer.record("all", &Everything::schema()).unwrap();
    writer.write(id, Some(1), &example().to_bytes()).unwrap();
    let mut reader = Reader::open(writer.finish().unwrap()).unwrap();
    let item = reader.next().unwrap().unwrap();
    assert!(item.record.holds::<Everything>() && !item.record.holds::<Mode>());
    assert_eq!(item.decode::<Everything>().unwrap(), example());
    let value = item.value().unwrap();
    assert_eq!(value.at("joints.0.position"), Some(Value::Float32(1.5)));
    assert_eq!(value.at("joints.1.type.1"), Some(Value::Uint(2)));
    assert_eq!(value.at("joints.1.mode").unwrap().number(), Some(5.0));
    assert_eq!(value.at("pair.0"), Some(Value::Null));
    assert_eq!(value.at("pair.1"), Some(Value::Int(-300)));
    assert!(value.at("pair.2").is_none() && value.at("nobody").is_none() && value.at("truth.x").is_none());
}

#[test]
fn an_enum_has_its_names_and_refuses_other_numbers() {
    assert_eq!(Mode::schema(), Type::enumeration([(0, "Idle"), (5, "standing"), (6, "Walk")]));
    let error = Mode::decode(&mut Input::new(&[7])).unwrap_err();
    assert_eq!(error.to_string(), "a value the type Mode cannot hold (at its byte 0)");
}

#[test]
fn a_struct_is_an_object_of_its_fields() {
    let kind = Type::FixedArray(2, Box::new(Type::Uint(Width::One)));
    let expected = Type::object([("position", Type::Float32), ("type", kind), ("mode", Mode::schema())]);
    assert_eq!(Joint::<2>::schema(), expected);
}

#[test]
fn every_truncation_of_a_value_is_an_error() {
    let bytes = example().to_bytes();
    let ty = Everything::schema();
    for len in 0..bytes.len() {
        assert!(Everything::decode(&mut Input::new(&bytes[..len])).is_err());
        assert!(Value::read(&ty, &bytes[..len]).is_err());
    }
}

#[test]
fn a_slice_takes_a_struct_without_growing() {
    let mut room = [0; 200];
    let mut slice = Slice::new(&mut room);
    example().encode(&mut slice);
    assert_eq!(slice.written().unwrap(), example().to_bytes());
    let mut room = [0; 20];
    let mut slice = Slice::new(&mut room);
    example().encode(&mut slice);
    assert_eq!(slice.written(), None);
}
