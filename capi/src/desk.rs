//! `khz_desk`: servos by hand, without a loop.

use crate::calls::{Problem, Status, call, put_text, there};
use crate::robot::Robot;
use khz_robot::assemble::AssembleError;
use kilohertz::PositionCommand;
use kilohertz::desk::{Answer, Order, Scan};
use std::ffi::c_char;
use std::mem::ManuallyDrop;
use std::time::Duration;

/// `khz_desk`.
struct Desk(kilohertz::desk::Desk);

/// Bytes of a fault's text.
const TEXT: usize = 60;

/// `khz_reply`.
#[repr(C)]
struct Reply {
    position: f64,
    velocity: f64,
    torque: f64,
    voltage: f64,
    temperature: f64,
    fault: u32,
    fault_text: [c_char; TEXT],
}

/// `khz_target`.
#[repr(C)]
struct Target {
    position: f64,
    velocity: f64,
    torque: f64,
    kp_scale: f64,
    kd_scale: f64,
    max_torque: f64,
}

impl Reply {
    fn of(answer: &Answer) -> Self {
        let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let mut fault_text = [0; TEXT];
        let text = answer.fault.map_or("none", |fault| fault.text);
        put_text(text, fault_text.as_mut_ptr(), TEXT);
        Self {
            position: known(answer.position),
            velocity: known(answer.velocity),
            torque: known(answer.torque),
            voltage: known(answer.voltage),
            temperature: known(answer.temperature),
            fault: answer.fault.map_or(0, |fault| fault.code),
            fault_text,
        }
    }
}

/// Queries a servo after sending it the order, if there is one.
fn exchange(
    desk: Option<&mut Desk>,
    servo: usize,
    order: Option<&Order>,
    timeout: f64,
    reply: Option<&mut Reply>,
) -> Result<Status, Problem> {
    let Desk(desk) = there(desk, "desk")?;
    let seat = desk.servos().get(servo).cloned().ok_or_else(|| {
        let count = desk.servos().len();
        Problem::invalid(format!("servo {servo} is out of range: the robot has {count}, counted from 0"))
    })?;
    let answer = desk.exchange(&seat, order, &[], nanoseconds(timeout)?);
    let answer = answer.map_err(|error| Problem(Status::Bus, error.to_string()))?;
    if let Some(reply) = reply {
        *reply = Reply::of(&answer);
    }
    Ok(Status::Ok)
}

fn nanoseconds(timeout: f64) -> Result<i64, Problem> {
    let duration = Duration::try_from_secs_f64(timeout).ok();
    let ns = duration.and_then(|duration| i64::try_from(duration.as_nanos()).ok());
    ns.ok_or_else(|| Problem::invalid(format!("timeout is {timeout}; it must be a time in seconds")))
}

#[unsafe(no_mangle)]
extern "C" fn khz_desk_open(robot: Option<&Robot>) -> Option<Box<Desk>> {
    call(|| {
        let opened = kilohertz::desk::Desk::connect(there(robot, "robot")?.config());
        let opened = opened.map_err(|error: AssembleError| Problem(Status::Start, error.to_string()))?;
        Ok(Some(Box::new(Desk(opened))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_desk_free(desk: Option<Box<Desk>>) {
    let mut desk = ManuallyDrop::new(desk);
    call(|| {
        drop(desk.take());
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn khz_desk_scan(
    desk: Option<&mut Desk>,
    bus: usize,
    last: u8,
    timeout: f64,
    ids: *mut u8,
    room: usize,
) -> isize {
    call(|| {
        let Desk(desk) = there(desk, "desk")?;
        if bus >= desk.buses() {
            let count = desk.buses();
            return Err(Problem::invalid(format!(
                "bus {bus} is out of range: the robot has {count}, counted from 0"
            )));
        }
        if ids.is_null() && room > 0 {
            return Err(Problem::invalid("ids is NULL"));
        }
        let scan = Scan { last, timeout_ns: nanoseconds(timeout)?, together: false };
        let found = desk.scan(bus, &scan).map_err(|error| Problem(Status::Bus, error.to_string()))?;
        for (at, found) in found.iter().enumerate().take(room) {
            // SAFETY: the header has the caller give room for `room` ids.
            unsafe { ids.wrapping_add(at).write(found.answer.id) };
        }
        Ok(found.len() as isize)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_desk_query(
    desk: Option<&mut Desk>,
    servo: usize,
    timeout: f64,
    reply: Option<&mut Reply>,
) -> Status {
    call(|| exchange(desk, servo, None, timeout, reply))
}

#[unsafe(no_mangle)]
extern "C" fn khz_desk_stop(
    desk: Option<&mut Desk>,
    servo: usize,
    timeout: f64,
    reply: Option<&mut Reply>,
) -> Status {
    call(|| exchange(desk, servo, Some(&Order::Stop), timeout, reply))
}

#[unsafe(no_mangle)]
extern "C" fn khz_desk_position(
    desk: Option<&mut Desk>,
    servo: usize,
    target: Option<&Target>,
    watchdog: f64,
    timeout: f64,
    reply: Option<&mut Reply>,
) -> Status {
    call(|| {
        let &Target { position, velocity, torque, kp_scale, kd_scale, max_torque } = there(target, "target")?;
        let command = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque };
        // What no servo can follow is refused here, by name; some families would send it.
        if position.is_nan() && kp_scale != 0.0 {
            let text = "position is NaN, which leaves the joint where it is and needs kp_scale 0";
            return Err(Problem::invalid(format!("{text}; kp_scale is {kp_scale}")));
        }
        let is_time = watchdog.is_finite() && watchdog > 0.0;
        if !is_time && !watchdog.is_nan() {
            let text = "it must be a time in seconds above 0, or NaN for none";
            return Err(Problem::invalid(format!("watchdog is {watchdog}; {text}")));
        }
        let mode = if position.is_nan() { khz_robot::plain::VELOCITY } else { khz_robot::plain::POSITION };
        khz_robot::plain::read(mode, command).map_err(|wrong| Problem::invalid(wrong.to_string()))?;
        exchange(desk, servo, Some(&Order::Position { command, watchdog_s: watchdog }), timeout, reply)
    })
}
