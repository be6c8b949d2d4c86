use super::*;
use khz_loop::Mode;
use khz_loop::supervisor::{Cause, Trigger};
use std::sync::LazyLock;

fn event(from: &str, to: &str, cause: &str, trouble: bool) -> EventSummary {
    let phase = |name| Phase::ALL.map(Phase::name).into_iter().find(|phase| *phase == name).unwrap_or("init");
    let (from, to, cause) = (phase(from), phase(to), cause.to_owned());
    EventSummary { time_s: 0.0, tick: 0, from, to, cause, servo: None, bus: None, trouble }
}

/// "Held up for 14.3 ms" stood beside "worst 15.1 ms", of one stall.
#[test]
fn a_stall_that_is_warned_of_has_one_length() {
    let stall = LateGroup {
        cause: khz_rt::Cause::Preempted,
        ticks: 1,
        lost_ns: 15_000_000,
        stopped_ns: 0,
        lost_periods: 15,
        overruns: 1,
        late_wakes: 1,
        worst_ns: Some(15_100_000),
        worst_tick: Some(7),
    };
    let warning = Cause::LoopHeldUp { of: Trigger::Overruns, held_up_ns: 14_300_000 }.to_string();
    let message = |tick| {
        let event = EventSummary { tick, ..event("active", "active", &warning, true) };
        warned(&[event], &[stall], 1_000_000)
    };
    assert_eq!(message(8).as_deref(), Some("Warned of: the loop was held up for 15.1 ms."));
    assert_eq!(message(80).as_deref(), Some("Warned of: the loop was held up for 14.3 ms."));
}

#[test]
fn what_brings_a_robot_down_has_a_remedy_that_fits() {
    let remedy_of = |cause: Cause| remedy(&cause.to_string()).unwrap_or_default();
    // Those that come too late do come, so nothing is wrong with the wiring.
    assert!(remedy_of(Cause::NotSeen { servo: 0, late: true }).contains("khz budget"));
    assert!(remedy_of(Cause::NotSeen { servo: 0, late: false }).contains("khz bus scan"));
    assert_eq!(
        remedy_of(Cause::LoopHeldUp { of: Trigger::Stale, held_up_ns: 60_000_000 }),
        "run `khz doctor`"
    );
    let preempted = Cause::ControllerPreempted { count: 51, took_ns: 51_000_000, waited_ns: 50_900_000 };
    assert!(remedy_of(preempted).contains("`loop.cpu`"));
    for (cause, words) in [
        (Cause::HeartbeatLost { age_ns: 1 }, "operator"),
        (Cause::ServoTimedOut { servo: 0 }, "end the cause"),
        (Cause::ServoReset { servo: 0 }, "end the cause"),
        (Cause::ServoNotFinite { servo: 0 }, "end the cause"),
        (Cause::PositionOutOfLimits { servo: 0, position: 2.0, limit: 1.0 }, "`limits`"),
        (Cause::TooFast { servo: 0, velocity: 2.0, limit: 1.0 }, "`limits`"),
        (Cause::MissedReplies { servo: 0, count: 10 }, "khz bus scan"),
        (Cause::Stale { servo: 0, age_ns: 20_000_000 }, "khz bus scan"),
        (Cause::DuplicateReplies { servo: 0 }, "khz bus scan"),
        (Cause::BusDown { link: 0 }, "khz bus scan"),
        (Cause::Overruns { count: 1 }, "khz doctor"),
        (Cause::Overruns { count: 5 }, "khz doctor"),
        (Cause::ImuSilent { age_ns: 1 }, "IMU's power"),
        (Cause::ImuNotFinite, "IMU's power"),
        (Cause::Tilt { angle: 1.0 }, "IMU in the report"),
        (Cause::CommandNotFinite { servo: 0 }, "correct the controller"),
        (Cause::CommandOutOfLimits { servo: 0 }, "correct the controller"),
        (Cause::TorqueNotBraked { servo: 0 }, "correct the controller"),
        (Cause::ControllerFailed, "printed"),
        (Cause::ControllerPanicked, "printed"),
        (Cause::ControllerSlow { count: 3, took_ns: 1 }, "pipelined"),
        (Cause::VoltageLow { servo: 0, volts: 9.0 }, "battery"),
        (Cause::Hot { servo: 0, celsius: 90.0 }, "cool"),
        (Cause::Hot { servo: 0, celsius: 434.6 }, "khz bus scan"),
        (Cause::VoltageLow { servo: 0, volts: 0.2 }, "khz bus scan"),
        (Cause::ServoNotReportedOff { servo: 0 }, "cut its power"),
        (Cause::ServoStillOn { servo: 0, mode: Mode::UNKNOWN }, "cut its power"),
        (Cause::ServoNotObeying { servo: 0, mode: Mode::UNKNOWN }, "end the cause"),
        (Cause::ServoNotObeying { servo: 0, mode: Mode::UNREPORTED }, "khz bus scan"),
        (Cause::PositionJumped { servo: 0, from: 0.0, to: 1.0 }, "end the cause"),
        (Cause::PositionJumped { servo: 0, from: 1.0, to: 1.0 }, "end the cause"),
        (Cause::ImuFrozen { for_ns: 1 }, "IMU's power"),
        (Cause::VoltageUnknown { servo: 0 }, "firmware"),
        (Cause::TemperatureUnknown { servo: 0 }, "firmware"),
    ] {
        assert!(remedy_of(cause).contains(words), "{cause}: {}", remedy_of(cause));
    }
}

/// An ONNX model prints nothing, and its error is none of the supervisor's.
#[test]
fn a_controller_that_gave_up_has_a_remedy_for_its_error() {
    let remedy_of = |error: &str| {
        let cause = format!("{}: {error}", Cause::ControllerFailed);
        let events = [event("active", "damping", &cause, true)];
        let facts = Facts { unexpected_frames: 9, ..Facts::default() };
        let broken = broken(&known(None, &events, &cause), 1_000, &facts);
        assert_eq!(broken.what, cause);
        broken.remedy
    };
    for (error, words) in [
        ("it says NaN for the joint `elbow`", "last `decision`"),
        (
            "it says more than `action.clip` in 3 decisions in a row (`max_clipped`): 5 for the joint `elbow`",
            "training",
        ),
        ("it carries inf to the next decision, in its output `h`", "last `decision`"),
        ("its decisions are late, `max_late` in a row: they take longer than `delay_ticks`", "`delay_ticks`"),
        ("its observation has NaN: term `joint_torque`, of the joint `elbow`", "in the report"),
        ("its signal `lift` was never set: start the program that sends it first", "its program"),
        ("onnxruntime says: Invalid Feed", "another version of onnxruntime"),
        ("it sees the IMU, which has no reading yet", "IMU's power"),
        // Errors of others are not explained.
        (
            "walk raised ValueError('supply at 9 V, IMU at 90 °C, rad, limit, a tick overran')",
            "correct the controller",
        ),
        ("no reply during start-up, says the planner", "correct the controller"),
    ] {
        assert!(
            remedy_of(error)
                .is_some_and(|remedy_of| remedy_of.contains(words) && !remedy_of.contains("printed")),
            "{error}: {:?}",
            remedy_of(error)
        );
    }
    assert_eq!(remedy_of("the robot is tilted by more than 60°: put it upright"), None);
}

fn known<'a>(config: Option<&'a RobotConfig>, events: &'a [EventSummary], end: &'a str) -> Known<'a> {
    static TALLY: LazyLock<Tally> = LazyLock::new(|| Tally::new(100_000));
    let (tally, pace) = (&*TALLY, Pace::default());
    Known { config, tally, pace, virtual_time: false, events, end, ended_well: false, servos: &[] }
}

#[test]
fn of_a_stall_the_verdict_says_that_it_was_recovered_from() {
    let held_up = Cause::LoopHeldUp { of: Trigger::Overruns, held_up_ns: 60_000_000 };
    let recovered = Cause::Recovered { servo: 1, moved: -0.0011, held_up_ns: 61_000_000 };
    let events = [held_up, recovered].map(|cause| event("active", "active", &cause.to_string(), true));
    let warning = |events: &[EventSummary]| warned(events, &[], 1_000_000).unwrap();
    assert!(warning(&events).contains("recovered after 61 ms without the loop, moved 1.1 mrad"));
    assert!(warning(&events[..1]).contains("the loop was held up for 60.0 ms"));
}

#[test]
fn a_servo_that_timed_out_while_the_loop_was_held_up_is_not_blamed_whatever_its_family() {
    let pace = Pace { period_ns: 1_000_000, by_sensor: false };
    let mut tally = Tally::new(100_000);
    for number in 0..300_u64 {
        // The one that ended the run is not the longest.
        let held_up_ns = match number {
            150 => 120_000_000,
            250 => 100_000_000,
            _ => 0,
        };
        let planned_ns = number as i64 * pace.period_ns;
        let started_ns = planned_ns + held_up_ns;
        let skipped = (held_up_ns / pace.period_ns - 1).max(0) as u32;
        let tick = khz_run::record::Tick {
            number,
            planned_ns,
            waited_for_ns: planned_ns,
            due_ns: planned_ns,
            started_ns,
            wake_latency_ns: held_up_ns,
            controlled: true,
            skipped,
            ..khz_run::record::Tick::UNKNOWN
        };
        tally.count(&tick, pace);
    }
    let end = |tick, cause: &str, stopped_ns| {
        let events = [EventSummary { tick, ..event("active", "damping", cause, true) }];
        let stops = Stops { stopped_ns, ..Stops::default() };
        let facts = Facts { stops, late: tally.counter.late_groups(), ..Facts::default() };
        broken(&Known { tally: &tally, pace, ..known(None, &events, cause) }, 0, &facts)
    };
    // Overruns are of the loop itself, if it may not overrun at all.
    for cause in [
        Cause::ServoTimedOut { servo: 0 }.to_string(),
        Cause::ServoReset { servo: 0 }.to_string(),
        Cause::Overruns { count: 1 }.to_string(),
        "servo fault 13 (communication lost)".to_owned(),
    ] {
        let shown = end(251, &cause, 0);
        assert_eq!(shown.what, format!("{cause}, after the loop was held up for 100 ms"));
        assert_eq!(shown.remedy, Some(DOCTOR));
        assert_eq!(end(290, &cause, 0).what, cause);
        let shown = end(251, &cause, 215_000_000);
        assert!(shown.what.ends_with(
            "held up for 100 ms: it was stopped from outside (a signal, a debugger, a frozen control group)"
        ));
        assert!(shown.remedy.is_some_and(|remedy| remedy.starts_with("keep whatever stops")), "{shown:?}");
    }
    assert_eq!(
        end(251, "joint at 2.000 rad, limit 1.000 rad", 0).what,
        "joint at 2.000 rad, limit 1.000 rad"
    );
}

/// "434.6 °C: let the servos cool" stood where frames were seen to be damaged.
#[test]
fn a_value_among_damaged_frames_is_not_the_servos_for_certain() {
    let down = |cause: &str, corrupt, unexpected_frames| {
        let events = [event("active", "damping", cause, true)];
        let facts = Facts { unexpected_frames, ..Facts::default() };
        broken(&known(None, &events, cause), corrupt, &facts)
    };
    let hot = down("434.6 °C (s1 on bus main)", 1_200, 3);
    let what = "434.6 °C (s1 on bus main), perhaps of a frame that was damaged, or no reply to a query";
    assert_eq!((hot.what.as_str(), hot.remedy), (what, Some(SCAN)));
    let cool = down("434.6 °C (s1 on bus main)", 0, 0);
    assert!(
        cool.what == "434.6 °C (s1 on bus main)" && cool.remedy.is_some_and(|remedy| remedy.contains("cool"))
    );
    assert_eq!(down("no reply in time for 10 ticks", 5, 5).what, "no reply in time for 10 ticks");
}

/// Of noise on the line of a Koch arm: "give each servo on this bus its own id".
#[test]
fn replies_out_of_order_among_damaged_frames_are_no_second_servos() {
    for cause in [Cause::DuplicateReplies { servo: 0 }, Cause::NotSeen { servo: 0, late: true }] {
        let cause = cause.to_string();
        let events = [event("active", "damping", &cause, true)];
        let down = |facts: &Facts| broken(&known(None, &events, &cause), 40, facts);
        let noisy = Facts { late_replies: 20, duplicates: 3, ..Facts::default() };
        let what = format!("{cause}, perhaps because frames were damaged");
        assert_eq!((down(&noisy).what, down(&noisy).remedy), (what, Some(SCAN)));
        // Frames that are damaged because the cycle does not fit, and fewer of them.
        for facts in [Facts { cycle_ns: Some((2, 1)), ..noisy.clone() }, Facts { duplicates: 30, ..noisy }] {
            assert_eq!(down(&facts).what, cause);
        }
    }
}

/// Replies of a Koch arm were late while it switched on, and its adapter was blamed: in a usual cycle less is written.
#[test]
fn a_cycle_that_switches_on_and_does_not_fit_is_one_that_does_not_fit() {
    let text = include_str!("../../../../../robots/koch.toml");
    let at = |rate: &str, deadline| {
        let text = text.replace("rate_hz = 200", rate).replace("bus_deadline_us = 4600", deadline);
        fits_not(&RobotConfig::parse(&text, "koch.toml").unwrap())
    };
    assert!(at("rate_hz = 285", "") && !at("rate_hz = 200", "bus_deadline_us = 4600"));
}

/// With the defaults the bytes come, as the loop sleeps until the kernel has some.
#[test]
fn a_loop_that_spins_beside_a_serial_port_is_advised_to_poll() {
    let of = |receive: &str, link: &str, cause: &str| {
        let servo = "[[servo]]\nname = \"knee\"\nbus = \"legs\"\nid = 1\n";
        let file = format!("[loop]\nreceive = \"{receive}\"\n[bus.legs]\n{link}\n{servo}");
        let config = RobotConfig::parse(&file, "leg.toml").unwrap();
        let down = [event("active", "damping", cause, true)];
        broken(&known(Some(&config), &down, cause), 0, &Facts::default()).remedy.unwrap_or_default()
    };
    let (serial, missed) = ("link = \"rs485\"\npath = \"/dev/ttyUSB0\"", "no reply in time for 5 ticks");
    assert!(of("spin", serial, missed).contains("write `receive = \"poll\"` in `[loop]`"));
    assert!(of("spin", serial, "no reply during start-up").contains("`receive = \"poll\"`"));
    assert!(!of("poll", serial, missed).contains("receive"));
    assert!(!of("spin", "link = \"emulated\"", missed).contains("receive"));
    assert!(!of("spin", serial, "supply at 9.0 V").contains("receive"));
}

#[test]
fn servos_that_may_still_be_on_are_named_at_the_end() {
    let on = |from, servo: &str| EventSummary {
        servo: Some(servo.to_owned()),
        ..event(from, "fault", "the servo is still on: cut its power", true)
    };
    let mut events = vec![
        event("active", "damping", "finished", false),
        event("damping", "stopped", "every joint stands still", false),
        on("stopped", "knee"),
    ];
    let only = ("finished, and then the servo is still on: cut its power".to_owned(), false);
    assert_eq!(ending(&events, 9, None), only, "and no end as planned");
    events.extend([on("fault", "hip"), on("fault", "ankle")]);
    assert_eq!(ending(&events, 9, None).0, only.0 + "; may still be on, cut the power: hip, ankle");
}

/// A run that the operator had stopped "came down" for a bus that had been back for seconds, and for a servo's silence afterwards.
#[test]
fn trouble_after_a_stop_does_not_take_its_place() {
    let events = [
        event("active", "active", "bus main is down", true),
        event("active", "damping", "stopped by the operator", false),
        event("damping", "stopped", "damping time over", false),
        event("stopped", "fault", "the servo is still on: cut its power", true),
    ];
    let expected = "stopped by the operator, and then the servo is still on: cut its power";
    assert_eq!(ending(&events, 9, None), (expected.to_owned(), false));
    // One that was armed again had trouble of its own.
    let again = [
        event("active", "stopped", "stopped by the operator", false),
        event("stopped", "init", "begun again", false),
        event("armed", "active", "controller started", false),
        event("active", "damping", "supply at 9.0 V", true),
    ];
    assert_eq!(ending(&again, 9, None).0, "supply at 9.0 V");
}

#[test]
fn a_warning_is_not_what_ended_a_run() {
    let mut events = vec![
        event("armed", "active", "controller started", false),
        event("active", "active", "supply at 10.0 V", true),
        event("active", "damping", "finished", false),
        event("damping", "stopped", "every joint stands still", false),
    ];
    assert_eq!(ending(&events, 9, None), ("finished".to_owned(), true));
    assert_eq!(ending(&events[..2], 9, None), ("did not end".to_owned(), true));
    events[2] = event("active", "damping", "no reply in time for 10 ticks", true);
    assert_eq!(ending(&events, 9, None), ("no reply in time for 10 ticks".to_owned(), false));
}

#[test]
fn trouble_after_a_planned_end_does_not_mean_that_it_was_never_under_control() {
    let mut events = [
        event("active", "damping", "finished", false),
        event("damping", "fault", "the servo did not say often enough that it is off", true),
    ];
    events[0].time_s = 2.0;
    let (end, well) = ending(&events, 9, None);
    assert!(!well && broken(&known(None, &events, &end), 0, &Facts::default()).after_s == Some(2.0), "{end}");
}

#[test]
fn a_run_without_a_controlled_tick_did_not_end_well() {
    let stopped = [event("init", "stopped", "stopped by the operator", false)];
    let lack = Some("no reply during start-up (knee on bus left)".to_owned());
    let (end, well) = ending(&stopped, 0, lack);
    assert_eq!(
        end,
        "stopped by the operator before it was under control: no reply during start-up (knee on bus left)"
    );
    let remedy = broken(&known(None, &stopped, &end), 0, &Facts::default()).remedy;
    assert!(!well && remedy.is_some_and(|remedy| remedy.contains("khz bus scan")));
    // Ctrl-C in start-up: nothing else is known to have been wrong.
    let (end, well) = ending(&stopped, 0, None);
    assert_eq!((end.as_str(), well), ("stopped by the operator before it was under control", false));
    let over = [event("init", "stopped", "finished", false)];
    assert_eq!(ending(&over, 0, None).0, "finished before it was under control");
}
