//! The causes as sentences.

use super::Cause;
use khz_servo::{Mode, Quantity, Refused};
use std::fmt;

/// No servo that still replies is warmer than this, °C; no limit can be set above it.
const MOST_CELSIUS: f64 = 200.0;
/// Nor has one less than this, V.
const LEAST_VOLTS: f64 = 1.0;
const CANNOT_BE: &str = "which cannot be: a damaged frame or a broken sensor";

/// A cause and what its links are called.
pub(super) struct NamedCause<'a> {
    pub(super) cause: Cause,
    pub(super) links: &'a [String],
}

impl fmt::Display for NamedCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::BusDown { link } if usize::from(link) < self.links.len() => {
                write!(f, "{} is down", self.links[usize::from(link)])
            }
            cause => cause.fmt(f),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(sentence) = self.sentence() {
            return f.write_str(sentence);
        }
        if self.servo().is_some() {
            return self.write_servo(f);
        }
        let ms = |ns: i64| ns as f64 / 1e6;
        match *self {
            Self::HeartbeatLost { age_ns } => write!(f, "no operator heartbeat for {:.1} ms", ms(age_ns)),
            Self::TargetsSilent { age_ns } => write!(f, "no targets for {:.1} ms", ms(age_ns)),
            Self::BusDown { link } => write!(f, "link {link} is down"),
            Self::Overruns { count } => write!(f, "{count} overruns in a row"),
            Self::ImuSilent { age_ns } => write!(f, "IMU silent for {:.1} ms", ms(age_ns)),
            Self::LoopHeldUp { held_up_ns, .. } => {
                write!(f, "the loop was held up for {:.1} ms", ms(held_up_ns))
            }
            Self::ImuFrozen { for_ns } => {
                write!(f, "the IMU has repeated one reading for {:.1} ms: it hangs", ms(for_ns))
            }
            Self::Tilt { angle } => write!(f, "the body leans by {angle:.2} rad"),
            Self::ControllerSlow { count, took_ns } => write!(
                f,
                "the controller took too long {count} ticks in a row, {:.3} ms in the last",
                ms(took_ns)
            ),
            Self::ControllerPreempted { count, took_ns, waited_ns } => write!(
                f,
                "the controller was preempted {count} ticks in a row: of {:.3} ms in the last, its thread waited {:.3} ms for a CPU",
                ms(took_ns),
                ms(waited_ns)
            ),
            _ => write!(f, "{self:?}"),
        }
    }
}

impl Cause {
    /// The text of a cause that has no figures.
    const fn sentence(self) -> Option<&'static str> {
        Some(match self {
            Self::AllServosSeen => "every servo has replied",
            Self::ArmRequested => "armed",
            Self::ControllerStarted => "controller started",
            Self::TimeOver => "finished",
            Self::OperatorStop => "stopped by the operator",
            Self::NotArmed => "it waits for an operator to arm it",
            Self::HeartbeatLost { age_ns: i64::MAX } => "no heartbeat from the operator yet",
            Self::ServoTimedOut { .. } => "the servo's own watchdog expired",
            Self::ServoReset { .. } => "the servo restarted, or another program switched it off",
            Self::ServoNotFinite { .. } => "the servo reports a value that is not a number",
            Self::ServoNotReportedOff { .. } => {
                "the servo did not say often enough that it is off and may still be on: cut its power"
            }
            // Some of its queries may not have been sent (CubeMars), or their replies be late.
            Self::MissedReplies { count: 1, .. } => "no reply in time for 1 tick",
            Self::NotSeen { late: false, .. } => "no reply during start-up",
            Self::NotSeen { late: true, .. } => "replies come too late during start-up",
            Self::DuplicateReplies { .. } => {
                "two replies to one query: give each servo on this bus its own id, and end other programs that command it"
            }
            Self::Overruns { count: 1 } => "a tick overran",
            Self::ImuSilent { age_ns: i64::MAX } => "no reading from the IMU yet",
            Self::ImuNotFinite => "the IMU reports a value that is not a number",
            Self::CommandNotFinite { .. } => "a command is not a number",
            Self::CommandOutOfLimits { .. } => "a command is beyond the limits",
            Self::TorqueNotBraked { .. } => {
                "a torque on a joint with limits that could not be braked in time: the loop is slower than \
                 `supervisor.torque_control_hz`, or the velocity is not requested (`query.velocity`); command positions or \
                 velocities, raise `rate_hz`, or lower `torque_control_hz` if the joint is slow enough"
            }
            Self::ControllerFailed => "the controller failed",
            Self::ControllerPanicked => "the controller panicked",
            Self::Still => "every joint stands still",
            Self::DampingOver => "damping time over",
            Self::Rearmed => "begun again",
            _ => return None,
        })
    }

    /// The text of a cause with figures that is about a servo.
    fn write_servo(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: i64| ns as f64 / 1e6;
        match self {
            Self::ServoFault { fault, .. } => write!(f, "servo fault {} ({})", fault.code, fault.text),
            Self::ServoSaturated { quantity, most, .. } => write!(
                f,
                "{quantity} beyond what its replies carry (±{most:.3} {}): the servo does not obey, or something drives its joint. If it \
                 may go there, a moteus reports more with `query.{quantity} = \"float\"`; keep others within by their `limits`",
                quantity.unit()
            ),
            Self::RegisterRefused { refused, ran, .. } => write_refused(f, refused, ran),
            Self::ServoNotObeying { mode, .. } => write_not_obeying(f, mode),
            Self::PositionJumped { from, to, .. } => write_jumped(f, from, to),
            Self::ServoStillOn { mode, .. } => write_still_on(f, mode),
            Self::PositionOutOfLimits { position, limit, .. } => write!(
                f,
                "joint at {position:.3} rad, limit {limit:.3} rad: move it, or check `offset`, `sign` and the servo's zero"
            ),
            Self::TooFast { velocity, limit, .. } => {
                write!(f, "joint at {velocity:.2} rad/s, limit {limit:.2} rad/s")
            }
            Self::MissedReplies { count, .. } => write!(f, "no reply in time for {count} ticks"),
            Self::Stale { age_ns, .. } => write!(f, "state {:.1} ms old", ms(age_ns)),
            Self::Recovered { moved, held_up_ns, .. } => write!(
                f,
                "recovered after {:.0} ms without the loop, moved {:.1} mrad",
                ms(held_up_ns),
                moved.abs() * 1e3
            ),
            Self::CommandNotSendable { quantity, value, most, .. } => {
                write_not_sendable(f, quantity, value, most)
            }
            Self::VoltageLow { volts, .. } if volts < LEAST_VOLTS => {
                write!(f, "a voltage of {volts:.1} V, {CANNOT_BE}")
            }
            Self::VoltageLow { volts, .. } => write!(f, "supply at {volts:.1} V"),
            Self::VoltageUnknown { .. } => write_unknown(f, "voltage"),
            Self::TemperatureUnknown { .. } => write_unknown(f, "temperature"),
            Self::Hot { celsius, .. } if celsius > MOST_CELSIUS => {
                write!(f, "a temperature of {celsius:.1} °C, {CANNOT_BE}")
            }
            Self::Hot { celsius, .. } => write!(f, "{celsius:.1} °C"),
            _ => write!(f, "{self:?}"),
        }
    }
}

fn write_not_obeying(f: &mut fmt::Formatter<'_>, mode: Mode) -> fmt::Result {
    if mode == Mode::UNREPORTED {
        return f.write_str(
            "the servo is not seen to do what it is commanded: its replies do not tell whether its output is on",
        );
    }
    write!(f, "the servo stays in mode {} although it is commanded otherwise", Named(mode))
}

fn write_jumped(f: &mut fmt::Formatter<'_>, from: f64, to: f64) -> fmt::Result {
    if (from - to).abs() < 0.0005 {
        return write!(
            f,
            "the position stays at {to:.3} rad while the servo tells a velocity: its encoder is stuck or loose"
        );
    }
    write!(
        f,
        "position jumped from {from:.3} to {to:.3} rad: the servo restarted, its zero was changed, or its encoder is loose"
    )
}

fn write_still_on(f: &mut fmt::Formatter<'_>, mode: Mode) -> fmt::Result {
    if mode == Mode::UNREPORTED {
        return f.write_str("the servo may still be on although it was commanded to stop: cut its power");
    }
    write!(f, "the servo is still on (mode {}) although it was commanded to stop: cut its power", Named(mode))
}

fn write_not_sendable(f: &mut fmt::Formatter<'_>, quantity: Quantity, value: f64, most: f64) -> fmt::Result {
    match (quantity, most) {
        (share @ (Quantity::KpScale | Quantity::KdScale), _) => write!(
            f,
            "a {share} of {} was commanded, but `command.{share}` is \"none\": the servo would take it as 1",
            Short(value)
        ),
        (Quantity::MaxTorque, _) => {
            write!(f, "a max_torque of {} N·m was commanded, but none is sent to this servo", Short(value))
        }
        (_, 0.0) => write!(f, "a target {quantity} was commanded, but `command.{quantity}` is \"none\""),
        _ => write!(
            f,
            "commanded {quantity} {} {unit} cannot be sent: its format ends at ±{} {unit}",
            Short(value),
            Short(most),
            unit = quantity.unit()
        ),
    }
}

/// A mode as its family calls it, or its number.
struct Named(Mode);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mode { number, name } = self.0;
        if name == Mode::UNKNOWN.name {
            write!(f, "{number}, which is unknown,")
        } else {
            write!(f, "`{name}`")
        }
    }
}

fn write_unknown(f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
    write!(
        f,
        "the servo reports no number for its {what}, so nothing can react to it: update its firmware, or write \
         `query.{what} = \"none\"` to do without"
    )
}

fn write_refused(f: &mut fmt::Formatter<'_>, refused: Refused, ran: bool) -> fmt::Result {
    let Refused { register, name, write } = refused;
    let (verb, table) = if write { ("write", "command") } else { ("read", "query") };
    if ran {
        return write!(
            f,
            "a frame was damaged on its way: the servo refused to {verb} register 0x{register:03x} ({name}), and had not before"
        );
    }
    write!(f, "the servo refused to {verb} register 0x{register:03x} ({name}): see its `{table}` keys")
}

/// Three decimals, or an exponent for what is too large to be meant.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() < 1e6 { write!(f, "{:.3}", self.0) } else { write!(f, "{:.1e}", self.0) }
    }
}
