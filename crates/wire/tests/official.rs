//! The official Rust crate `moteus-protocol` as judge: same bytes out, same numbers in.

use khz_wire::{
    Address, Command, CommandTemplate, Format, Frame, Position, Register, ReplyLayout, Resolution, Target,
    Writer,
};
use moteus_protocol as official;
use moteus_protocol::command::{PositionCommand, PositionFormat};
use moteus_protocol::query::{QueryFormat, QueryResult};
use proptest::prelude::*;

/// The registers a query of both sides can hold, ascending.
const QUERY: [Register; 14] = [
    Register::MODE,
    Register::POSITION,
    Register::VELOCITY,
    Register::TORQUE,
    Register::Q_CURRENT,
    Register::D_CURRENT,
    Register::ABSOLUTE_POSITION,
    Register::POWER,
    Register::MOTOR_TEMPERATURE,
    Register::TRAJECTORY_COMPLETE,
    Register::HOME_STATE,
    Register::VOLTAGE,
    Register::TEMPERATURE,
    Register::FAULT,
];

const POSITION: [Register; 14] = [
    Register::COMMAND_POSITION,
    Register::COMMAND_VELOCITY,
    Register::COMMAND_TORQUE,
    Register::COMMAND_KP_SCALE,
    Register::COMMAND_KD_SCALE,
    Register::COMMAND_MAX_TORQUE,
    Register::COMMAND_STOP_POSITION,
    Register::COMMAND_WATCHDOG,
    Register::COMMAND_VELOCITY_LIMIT,
    Register::COMMAND_ACCELERATION_LIMIT,
    Register::COMMAND_FIXED_VOLTAGE,
    Register::COMMAND_ILIMIT_SCALE,
    Register::COMMAND_FIXED_CURRENT,
    Register::COMMAND_IGNORE_BOUNDS,
];

fn theirs(resolution: Option<Resolution>) -> official::Resolution {
    match resolution {
        None => official::Resolution::Ignore,
        Some(Resolution::Int8) => official::Resolution::Int8,
        Some(Resolution::Int16) => official::Resolution::Int16,
        Some(Resolution::Int32) => official::Resolution::Int32,
        Some(Resolution::Float) => official::Resolution::Float,
    }
}

fn format(registers: &[Register], resolutions: &[Option<Resolution>]) -> Format {
    let pairs = registers.iter().zip(resolutions);
    pairs.fold(Format::new(), |format, (&register, &resolution)| {
        resolution.map_or(format, |resolution| format.with(register, resolution).unwrap())
    })
}

fn their_query(resolutions: &[Option<Resolution>]) -> QueryFormat {
    let mut query = QueryFormat::default();
    let fields = [
        &mut query.mode,
        &mut query.position,
        &mut query.velocity,
        &mut query.torque,
        &mut query.q_current,
        &mut query.d_current,
        &mut query.abs_position,
        &mut query.power,
        &mut query.motor_temperature,
        &mut query.trajectory_complete,
        &mut query.home_state,
        &mut query.voltage,
        &mut query.temperature,
        &mut query.fault,
    ];
    for (field, &resolution) in fields.into_iter().zip(resolutions) {
        *field = theirs(resolution);
    }
    query
}

fn their_position(resolutions: &[Option<Resolution>], values: &[f64]) -> (PositionCommand, PositionFormat) {
    let (mut command, mut format) = (PositionCommand::new(), PositionFormat::default());
    let fields = [
        (&mut command.position, &mut format.position),
        (&mut command.velocity, &mut format.velocity),
        (&mut command.feedforward_torque, &mut format.feedforward_torque),
        (&mut command.kp_scale, &mut format.kp_scale),
        (&mut command.kd_scale, &mut format.kd_scale),
        (&mut command.maximum_torque, &mut format.maximum_torque),
        (&mut command.stop_position, &mut format.stop_position),
        (&mut command.watchdog_timeout, &mut format.watchdog_timeout),
        (&mut command.velocity_limit, &mut format.velocity_limit),
        (&mut command.accel_limit, &mut format.accel_limit),
        (&mut command.fixed_voltage_override, &mut format.fixed_voltage_override),
        (&mut command.ilimit_scale, &mut format.ilimit_scale),
        (&mut command.fixed_current_override, &mut format.fixed_current_override),
        (&mut command.ignore_position_bounds, &mut format.ignore_position_bounds),
    ];
    for (i, (value, kind)) in fields.into_iter().enumerate() {
        *value = resolutions[i].map(|_| values[i] as f32);
        *kind = theirs(resolutions[i]);
    }
    (command, format)
}

fn our_position(values: &[f64]) -> Position {
    Position {
        position: values[0],
        velocity: values[1],
        torque: values[2],
        kp_scale: values[3],
        kd_scale: values[4],
        max_torque: values[5],
        stop_position: values[6],
        watchdog: values[7],
        velocity_limit: values[8],
        acceleration_limit: values[9],
        fixed_voltage: values[10],
        ilimit_scale: values[11],
        fixed_current: values[12],
        ignore_bounds: values[13],
    }
}

fn any_resolution() -> impl Strategy<Value = Option<Resolution>> {
    use Resolution::{Float, Int8, Int16};
    // int32 is left out: the official crate scales in single precision, which has no 31 bits.
    proptest::option::of(prop_oneof![Just(Int8), Just(Int16), Just(Float)])
}

/// Steps of the least significant bit, and half a step more so that single and double precision truncate to
/// the same integer; sometimes far out of range, or NaN.
fn any_step() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-130_i32..130).prop_map(|n| f64::from(n) + f64::from(n.signum()) * 0.5),
        1 => (-40_000_i32..40_000).prop_map(|n| f64::from(n) + f64::from(n.signum()) * 0.5),
        1 => Just(f64::NAN),
    ]
}

fn their_bytes(frame: &official::CanFdFrame) -> &[u8] {
    &frame.data[..usize::from(frame.size)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn position_commands_are_the_same_bytes(
        resolutions in proptest::collection::vec(any_resolution(), 14),
        steps in proptest::collection::vec(any_step(), 14),
        query in proptest::collection::vec(any_resolution(), 14),
    ) {
        let mut values: Vec<f64> = (0..14)
            .map(|i| steps[i] * POSITION[i].class().lsb(resolutions[i].unwrap_or(Resolution::Float)))
            .map(|value| f64::from(value as f32))
            .collect();
        // A plain yes or no; the official crate turns NaN into "no".
        values[13] = f64::from(steps[13] > 0.0);
        let ours = format(&POSITION, &resolutions);
        let asked = format(&QUERY, &query);
        let command = our_position(&values);
        let mut buffer = [0; 128];
        let mut writer = Writer::new(&mut buffer);
        Command::Position(command).write(&ours, &mut writer).unwrap();
        asked.query(&mut writer).unwrap();
        prop_assume!(writer.len() <= 64);

        let (their_command, their_format) = their_position(&resolutions, &values);
        let mut frame = official::CanFdFrame::new();
        their_command.serialize(&mut frame, &their_format);
        their_query(&query).serialize(&mut frame);
        prop_assert_eq!(writer.written(), their_bytes(&frame));

        if asked.is_answerable() {
            let Position { position, velocity, torque, kp_scale, kd_scale, max_torque, .. } = command;
            let target = Target { position, velocity, torque, kp_scale, kd_scale, max_torque };
            let other = Position { position: 1.0, velocity: 1.0, torque: 1.0, kp_scale: 0.0, kd_scale: 0.0, max_torque: 1.0, ..command };
            let mut template = CommandTemplate::new(Address::to(1, false), &other, &ours, &asked).unwrap();
            prop_assert_eq!(template.fill(&target).payload(), their_bytes(&frame));
        }
    }

    #[test]
    fn replies_are_the_same_numbers(
        query in proptest::collection::vec(any_resolution(), 14),
        noise in proptest::collection::vec(any::<u8>(), 64),
    ) {
        let asked = format(&QUERY, &query);
        prop_assume!(asked.is_answerable() && !asked.is_empty());
        let mut payload = [0; 64];
        let mut writer = Writer::new(&mut payload);
        let mut noise = noise.iter().copied();
        for run in asked.runs() {
            writer.reply_head(run).unwrap();
            for _ in 0..run.count {
                let bytes: Vec<u8> = noise.by_ref().take(run.resolution.size()).collect();
                writer.value(khz_wire::Value::read(run.resolution, &bytes).unwrap_or(khz_wire::Value::Int8(1))).unwrap();
            }
        }
        let len = writer.len();
        let mut frame = Frame::new(0x100, &payload[..len]).unwrap();
        frame.pad();
        let ours = ReplyLayout::new(&asked).unwrap().decode(&frame).unwrap();
        let official = QueryResult::parse_data(frame.payload());
        let pairs = [
            (ours.position, official.position),
            (ours.velocity, official.velocity),
            (ours.torque, official.torque),
            (ours.q_current, official.q_current),
            (ours.d_current, official.d_current),
            (ours.absolute_position, official.abs_position),
            (ours.power, official.power),
            (ours.motor_temperature, official.motor_temperature),
            (ours.voltage, official.voltage),
            (ours.temperature, official.temperature),
        ];
        for (ours, theirs) in pairs {
            let (ours, theirs) = (ours.unwrap_or(f64::NAN), f64::from(theirs));
            let near = (ours - theirs).abs() <= ours.abs() * 1e-6;
            prop_assert!(near || ours == theirs || (ours.is_nan() && theirs.is_nan()), "{ours} {theirs}");
        }
    }
}
