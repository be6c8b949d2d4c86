//! What is made of frames that real servos sent: the recordings of `vectors/robstride.json`.
#![allow(clippy::unwrap_used)]

use khz_servo::robstride::{Model, RobstrideSettings, Settings};
use khz_servo::{Doing, Family, Mounting, ServoCommand, ServoPlan, ServoState, Taken, family};
use khz_wire::Frame;
use khz_wire::robstride::State;
use serde_json::Value;

/// The ramp of an RS03, 40 ms long: times, ns, and states.
fn ramp() -> Vec<(i64, State)> {
    let mut json: Value = serde_json::from_str(include_str!("../../../vectors/robstride.json")).unwrap();
    let Value::Array(vectors) = json["vectors"].take() else { panic!() };
    let recorded = vectors.iter().filter_map(|vector| {
        let digits = vector["reply"].as_str()?.replace(' ', "");
        let number = u128::from_str_radix(&digits, 16).unwrap();
        let frame = Frame::extended((number >> 64) as u32, (number as u64).to_be_bytes());
        Some((vector["at_us"].as_i64()? * 1000, State::parse(&frame).unwrap()))
    });
    recorded.collect()
}

/// The ramp so many times, each after the other 5 ms later from where that ended: a span of the comparison is longer than the recording.
fn turning(times: i64) -> Vec<(i64, State)> {
    let ramp = ramp();
    let ((_, first), &(end_ns, last)) = (ramp[0], ramp.last().unwrap());
    let moved = i64::from(last.position) - i64::from(first.position);
    let moved = moved * ramp.len() as i64 / (ramp.len() as i64 - 1);
    let shifted = |time: i64, (at_ns, state): (i64, State)| {
        let position = u16::try_from(i64::from(state.position) + time * moved).unwrap();
        (at_ns + time * (end_ns + 5_000_000), State { position, ..state })
    };
    (0..times).flat_map(|time| ramp.iter().map(move |&recorded| shifted(time, recorded))).collect()
}

/// What a host makes of these states that takes this for the range of velocities.
fn decoded(states: &[(i64, State)], velocity_range: f64) -> ServoState {
    let file = RobstrideSettings {
        model: Some(Model::Rs03),
        velocity_range: Some(velocity_range),
        ..RobstrideSettings::default()
    };
    let family = Family::Robstride(Settings::of(&file));
    let plan = ServoPlan { servo: 0, id: 1, mounting: Mounting::default(), watchdog_s: 0.1, family };
    let mut servos = family::on_bus(&[plan]).remove(0);
    let mut known = [ServoState::UNKNOWN];
    for (at_ns, state) in states {
        servos.begin(&[ServoCommand::Stop]);
        servos.sent(0, 0, *at_ns);
        let taken = servos.take(&state.to_frame(khz_wire::robstride::kind::STATE), &mut known);
        assert!(matches!(taken, Taken::State { newest: true, .. }), "{taken:?}");
    }
    known[0]
}

#[test]
fn the_velocities_of_a_real_rs03_fit_its_manual_and_not_its_makers_package() {
    assert_eq!(ramp().len(), 9);
    let turning = turning(6);
    assert_eq!(decoded(&turning, 20.0).doing, Doing::Following);
    let state = decoded(&turning, 50.0);
    assert_eq!(state.doing, Doing::Other);
    assert!(state.fault.text.contains("velocities"), "{}", state.fault.text);
}
