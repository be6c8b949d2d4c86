//! `khz_targets`: a program that sends targets to a robot that runs.

use crate::calls::{Problem, Status, Text, c_string, call, there};
use crate::run::Run;
use kilohertz::targets::message::MOST_POINTS;
use kilohertz::targets::{Points, Program, Refused, Sender};
use std::ffi::{c_char, c_int};
use std::slice;
use std::time::Duration;

/// `khz_targets`.
struct Targets {
    program: Program,
    /// Servos of the robot.
    count: usize,
}

/// `khz_point`.
#[repr(C)]
struct Point {
    at_ns: i64,
    position: *const f64,
    velocity: *const f64,
    torque: *const f64,
}

impl Targets {
    fn send(&self, points: &[Point]) -> Result<(), Problem> {
        let rows = |name: &str, of: fn(&Point) -> *const f64| {
            let given = points.iter().filter(|point| !of(point).is_null()).count();
            match given {
                0 => Ok(Vec::new()),
                given if given == points.len() => {
                    Ok(points.iter().map(|point| self.row(of(point))).collect())
                }
                _ => Err(Problem::invalid(format!("{name} must be there in all points, or NULL in all"))),
            }
        };
        let position = rows("position", |point| point.position)?;
        let velocity = rows("velocity", |point| point.velocity)?;
        let torque = rows("torque", |point| point.torque)?;
        let at_ns = points.iter().map(|point| point.at_ns).collect();
        let sent = self.program.send(&Points { velocity, torque, ..Points::new(at_ns, position) });
        sent.map_err(|why| match why {
            Refused::Invalid(text) => Problem::invalid(text),
            Refused::Held(by) => Problem::not_now(format!("held: `{by}` has the robot")),
            why => Problem::not_now(why.to_string()),
        })
    }

    fn row(&self, values: *const f64) -> Vec<f64> {
        // SAFETY: the header has the caller give a number for each servo; it is not NULL.
        unsafe { slice::from_raw_parts(values, self.count) }.to_vec()
    }
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_targets(run: Option<&Run>, name: Text<'_>, priority: c_int) -> Option<Box<Targets>> {
    call(|| {
        let (run, name) = (there(run, "run")?, name.get("name")?);
        let text = "this robot does not follow targets: write `name = \"targets\"` below `[controller]`";
        let inbox = run.targets().ok_or_else(|| Problem::not_now(text))?;
        let wrong = || Problem::invalid(format!("the priority {priority} is not 0 to 9"));
        let priority = u8::try_from(priority).ok().filter(|priority| *priority <= 9).ok_or_else(wrong)?;
        if name.is_empty() || name.len() > 64 {
            return Err(Problem::invalid("a name has 1 to 64 bytes"));
        }
        let count = inbox.standing().joints.len();
        let sender = Sender { priority, ..Sender::new(name) };
        Ok(Some(Box::new(Targets { program: Program::new(inbox.clone(), sender), count })))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_targets_now_ns(targets: Option<&Targets>) -> i64 {
    let mut now_ns = 0;
    call(|| {
        now_ns = there(targets, "targets")?.program.now_ns();
        Ok(())
    });
    now_ns
}

#[unsafe(no_mangle)]
extern "C" fn khz_targets_servo_count(targets: Option<&Targets>) -> usize {
    call(|| Ok(there(targets, "targets")?.count))
}

#[unsafe(no_mangle)]
extern "C" fn khz_targets_send(targets: Option<&Targets>, points: *const Point, count: usize) -> Status {
    call(|| {
        let targets = there(targets, "targets")?;
        let points = there((!points.is_null()).then_some(points), "points")?;
        // More are no message, and are not looked at.
        if !(1..=MOST_POINTS).contains(&count) {
            return Err(Problem::invalid(format!("{count} points; 1 to {} are a message", MOST_POINTS)));
        }
        // SAFETY: it is not NULL, and the header has the caller give `count` points.
        targets.send(unsafe { slice::from_raw_parts(points, count) })?;
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_targets_hold(targets: Option<&Targets>, seconds: f64) -> Status {
    call(|| {
        let wrong = || Problem::invalid(format!("{seconds} is no time to hold, s"));
        let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        there(targets, "targets")?.program.hold(time);
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_targets_release(targets: Option<&Targets>) -> Status {
    call(|| {
        there(targets, "targets")?.program.release();
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_targets_status(targets: Option<&Targets>) -> *mut c_char {
    call(|| {
        let standing = there(targets, "targets")?.program.standing();
        Ok(c_string(serde_json::to_string(&standing).unwrap_or_default()).into_raw())
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_targets_free(targets: Option<Box<Targets>>) {
    call(|| {
        drop(targets);
        Ok(())
    });
}
