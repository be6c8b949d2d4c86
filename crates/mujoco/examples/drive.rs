//! Drives every hinge of a model by a sequence of torques that any language can repeat, and prints where it ends: the judge
//! is MuJoCo's own Python package doing the same.
//!
//! `drive MODEL STEP_S STEPS TORQUE JOINT...`
use khz_emu::body::{Body, Drive};
use khz_mujoco::{Binding, Mujoco};
use std::env;
use std::error::Error;

#[allow(clippy::print_stdout, reason = "what it is for")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [model, step_s, steps, torque, joints @ ..] = arguments.as_slice() else {
        return Err("drive MODEL STEP_S STEPS TORQUE JOINT...".into());
    };
    let (step_s, steps, most): (f64, u32, f64) = (step_s.parse()?, steps.parse()?, torque.parse()?);
    let binding = Binding {
        model: model.into(),
        joints: joints.to_vec(),
        gears: Vec::new(),
        keyframe: None,
        imu: None,
        trunk_touch: "trunk_touch".to_owned(),
        payload_kg: 0.0,
        friction: None,
        step_s,
    };
    let mut body = Mujoco::new(&binding)?;
    let mut drives = vec![Drive::default(); joints.len()];
    let mut random: u32 = 1;
    for _ in 0..steps {
        for drive in &mut drives {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            drive.torque = most * (f64::from(random >> 8) / f64::from(1 << 23) - 1.0);
        }
        body.step(step_s, &drives);
    }
    if let Some(why) = body.failed() {
        return Err(why.into());
    }
    // The shortest text that reads back as the same number.
    println!("{:?}", body.positions());
    Ok(())
}
