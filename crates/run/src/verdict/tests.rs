use super::*;
use khz_rt::Cause;

fn facts() -> Facts {
    Facts {
        target_hz: 1000.0,
        rate_hz: 1000.0,
        periods: 10_000,
        file: RobotFile::At("robot.toml".into()),
        ..Facts::default()
    }
}

fn late(cause: Cause, ticks: u64) -> LateGroup {
    LateGroup {
        cause,
        ticks,
        lost_ns: 1_000_000 * ticks as i64,
        stopped_ns: 0,
        lost_periods: ticks,
        overruns: 0,
        late_wakes: 0,
        worst_ns: Some(3_200_000),
        worst_tick: Some(7),
    }
}

fn broken(after_s: Option<f64>, what: &str) -> Option<Broken> {
    Some(Broken { after_s, what: what.into(), remedy: Some("check power") })
}

#[test]
fn commands_name_the_robot_file() {
    let with = |file| {
        judge(&Facts {
            missed_replies: 5,
            file,
            late: vec![late(Cause::Controller, 12)],
            lost: 12,
            ..facts()
        })
    };
    let verdict = with(RobotFile::At("my robots/it's.toml".into()));
    let file = r"'my robots/it'\''s.toml'";
    assert_eq!(verdict.remedy.as_deref(), Some("make it faster, or set `loop.mode = \"pipelined\"`"));
    assert!(verdict.text.ends_with(&format!("`khz bus scan {file}`.")), "{}", verdict.text);
    let built_in = with(RobotFile::BuiltIn);
    assert!(built_in.text.contains("`khz bus scan`"), "{}", built_in.text);
}

#[test]
fn a_run_that_held_its_rate_is_good() {
    let verdict = judge(&facts());
    assert_eq!((verdict.level, verdict.held, verdict.headline.as_str()), (Level::Good, true, "held 1000 Hz"));
    assert_eq!(verdict.text, "Held 1000 Hz.");
    assert!(verdict.reasons.is_empty() && verdict.cause.is_none() && verdict.remedy.is_none());
}

#[test]
fn virtual_time_holds_no_rate_of_this_computer() {
    let verdict = judge(&Facts { virtual_time: true, granted: Some(Grade::Ordinary), ..facts() });
    assert_eq!(verdict.text, "Held 1000 Hz of virtual time.");
}

#[test]
fn a_run_that_lost_a_period_gets_no_good_badge() {
    let lost = |lost| judge(&Facts { lost, rate_hz: 998.8, ..facts() });
    assert_eq!(lost(12).headline, "did not hold 1000 Hz: lost 12 of 10,000 periods");
    assert_eq!(lost(12).reasons, ["12 periods of 10,000 passed without a tick."]);
    assert_eq!([1, 99, 100].map(|n| lost(n).level), [Level::Warning, Level::Warning, Level::Bad]);
    assert!(!lost(1).held);
}

#[test]
fn the_sentence_names_the_cause_of_most_late_ticks_and_what_to_do() {
    let expected =
        |cause| judge(&Facts { lost: 12, late: vec![late(cause, 12), late(Cause::Bus, 2)], ..facts() }).text;
    let lost = "Did not hold 1000 Hz: lost 12 of 10,000 periods (0.12 %), mostly because";
    let worst = "(12 of 14 lost periods, worst 3.2 ms);";
    for (cause, because, remedy) in [
        (Cause::Preempted, "other threads had its CPU", "run `khz doctor`."),
        (
            Cause::Unaccounted,
            "of time unaccounted for: hypervisor, SMI or interrupts off",
            "run `khz doctor`.",
        ),
        (Cause::PageFault, "of page faults", "run `khz doctor`."),
        (
            Cause::Blocked,
            "the thread was blocked (a lock such as Python's, a file, a sleep, or the process was stopped)",
            "keep locks, files and sleeps out of the tick.",
        ),
        (
            Cause::Controller,
            "the controller took too long",
            "make it faster, or set `loop.mode = \"pipelined\"`.",
        ),
        (Cause::Compute, "computing took too long", "run `khz doctor`."),
    ] {
        assert_eq!(expected(cause), format!("{lost} {because} {worst} {remedy}"));
    }
    // A controller that is pipelined already gets no advice to set that.
    let late_by = vec![late(Cause::Controller, 12), late(Cause::Bus, 2)];
    let elsewhere = judge(&Facts { lost: 12, late: late_by, is_elsewhere: true, ..facts() });
    assert_eq!(elsewhere.text, expected(Cause::Compute));
    let bus = judge(&Facts { lost: 12, late: vec![late(Cause::Bus, 12)], ..facts() }).text;
    let because = "replies took too long (12 of 12 lost periods, worst 3.2 ms); `khz budget robot.toml` shows what the buses need.";
    assert_eq!(bus, format!("{lost} {because}"));
}

#[test]
fn a_controller_that_is_always_too_slow_is_not_blamed_on_the_computer() {
    let usual = |control| Usual::of(&[(Cause::Controller, control), (Cause::Bus, 200_000)], 500_000);
    let slow = Facts {
        target_hz: 200.0,
        periods: 494,
        lost: 247,
        overruns: 246,
        late: vec![late(Cause::Unaccounted, 7)],
        usual: usual(6_000_000),
        granted: Some(Grade::Ordinary),
        ..facts()
    };
    let expected = "Did not hold 200 Hz: lost 247 of 494 periods (50.00 %), mostly because the controller usually takes 6 ms of \
                a period of 5 ms; make it faster, or set `loop.mode = \"pipelined\"`.";
    assert_eq!(judge(&slow).text, expected);
    // Not beyond the period by itself.
    let verdict = judge(&Facts { usual: usual(4_700_000), ..slow.clone() });
    let expected = "a tick usually takes 4.9 ms of a period of 5 ms, most of it the controller (4.7 ms)";
    assert_eq!(verdict.cause.as_deref(), Some(expected));
    // Nor with what is needed for a late tick: then nothing explains it.
    assert_eq!(judge(&Facts { usual: usual(1_000_000), ..slow }).cause, None);
}

#[test]
fn a_long_pause_is_not_blamed_on_short_preemptions() {
    let pause = LateGroup { lost_periods: 139, worst_ns: Some(702_000_000), ..late(Cause::Blocked, 1) };
    let late = vec![pause, LateGroup { lost_periods: 0, ..late(Cause::Preempted, 26) }];
    let verdict = judge(&Facts { periods: 594, lost: 139, late, ..facts() });
    let expected = "Did not hold 1000 Hz: lost 139 of 594 periods (23.40 %), mostly because the thread was blocked (a lock such \
                as Python's, a file, a sleep, or the process was stopped) (139 of 139 lost periods, worst 702 ms); keep locks, \
                files and sleeps out of the tick.";
    assert_eq!(verdict.text, expected);
}

#[test]
fn no_cause_of_less_than_half_the_time_is_called_most_of_it() {
    let late = vec![late(Cause::Preempted, 4), late(Cause::PageFault, 3), late(Cause::Bus, 2)];
    let verdict = judge(&Facts { lost: 12, late, ..facts() });
    let expected = "Did not hold 1000 Hz: lost 12 of 10,000 periods (0.12 %), for several reasons, most of all because other \
                threads had its CPU (4 of 9 lost periods, worst 3.2 ms); run `khz doctor`. Another 3 periods were lost because of page \
                faults (worst 3.2 ms). Another 2 periods were lost because replies took too long (worst 3.2 ms); `khz budget robot.toml` \
                shows what the buses need.";
    assert_eq!(verdict.text, expected);
    assert_eq!(
        verdict.cause.as_deref(),
        Some("other threads had its CPU (4 of 9 lost periods, worst 3.2 ms)")
    );
}

#[test]
fn a_lost_period_does_not_hide_missed_replies() {
    let servo = Some(("knee".to_owned(), 929));
    let lost = Facts { lost: 49, late: vec![late(Cause::Preempted, 49)], ..facts() };
    let verdict = judge(&Facts { missed_replies: 929, worst_servo: servo, duplicates: 2, ..lost.clone() });
    let did_not = "Did not hold 1000 Hz: lost 49 of 10,000 periods (0.49 %), mostly because other threads had its CPU (49 of 49 \
                   lost periods, worst 3.2 ms); run `khz doctor`.";
    let besides = "Besides, 929 replies were missed by knee (and 1 more problem); check power, wiring and ids with `khz bus scan robot.toml`.";
    assert_eq!(verdict.text, format!("{did_not} {besides}"));
    let verdict = judge(&Facts { imu_missed: 7, ..lost });
    assert_eq!(verdict.text, format!("{did_not} Besides, 7 IMU readings were missed."));
}

#[test]
fn what_follows_from_a_late_tick_is_no_cause_of_its_own() {
    let overran = |overruns, group| LateGroup { lost_periods: 0, overruns, ..group };
    let late = vec![overran(0, late(Cause::PreviousTick, 20)), overran(3, late(Cause::Preempted, 3))];
    let verdict = judge(&Facts { overruns: 3, late, ..facts() });
    assert_eq!(verdict.cause.as_deref(), Some("other threads had its CPU (3 of 3 overruns, worst 3.2 ms)"));
    assert_eq!(
        verdict.text,
        "Held 1000 Hz, but 3 ticks overran, mostly because other threads had its CPU (3 of 3 overruns, worst 3.2 ms); \
         run `khz doctor`."
    );
}

#[test]
fn a_run_that_came_down_says_so_first() {
    let knee = "no reply in time for 10 ticks (knee on bus front)";
    let verdict = judge(&Facts { broken: broken(Some(3.2), knee), ..facts() });
    assert_eq!((verdict.level, verdict.held), (Level::Bad, false));
    assert_eq!(verdict.headline, "came down after 3.2 s");
    let expected = "Came down after 3.2 s: no reply in time for 10 ticks (knee on bus front); it held 1000 Hz until then; check power.";
    assert_eq!(verdict.text, expected);
}

#[test]
fn a_run_that_was_never_under_control_says_why() {
    let verdict =
        judge(&Facts { periods: 0, broken: broken(None, "never under control: no reply"), ..facts() });
    assert_eq!((verdict.level, verdict.headline.as_str()), (Level::Bad, "never under control"));
    assert_eq!(verdict.text, "Never under control: no reply; check power.");
}

#[test]
fn a_thread_that_was_not_granted_real_time_is_reported_and_costs_no_level() {
    let verdict = judge(&Facts { granted: Some(Grade::Ordinary), ..facts() });
    assert_eq!((verdict.level, verdict.held), (Level::Good, true));
    assert_eq!(verdict.text, "Held 1000 Hz without real-time scheduling; run `khz doctor`.");
    let overran = judge(&Facts { granted: Some(Grade::Ordinary), overruns: 1, imu_missed: 1, ..facts() });
    let expected = "Held 1000 Hz without real-time scheduling, but 1 tick overran (and 1 more problem); run `khz doctor`.";
    assert_eq!(overran.text, expected);
}

#[test]
fn missed_replies_name_the_servo_and_those_outside_control_stand_apart() {
    let servo = Some(("knee".to_owned(), 4));
    let verdict = judge(&Facts { missed_replies: 5, worst_servo: servo, ..facts() });
    assert_eq!((verdict.level, verdict.headline.as_str()), (Level::Bad, "held 1000 Hz, missed 5 replies"));
    let expected = "Held 1000 Hz, but 5 replies were missed (most often by knee: 4); check power, wiring and ids with `khz bus scan robot.toml`.";
    assert_eq!(verdict.text, expected);
    let verdict =
        judge(&Facts { outside: Uncontrolled { missed_replies: 5, ..Uncontrolled::default() }, ..facts() });
    assert_eq!(verdict.level, Level::Warning);
    assert_eq!(verdict.reasons, ["5 replies were missed during start-up or while coming down."]);
}

#[test]
fn bunched_pace_frames_are_no_faster_sensor() {
    let of = |early_frames, without_frame| {
        let paced = Facts { sensor_paced: true, periods: 1_000, early_frames, without_frame, ..facts() };
        judge(&paced).reasons.concat()
    };
    assert!(of(300, 0).contains("set `loop.rate_hz` to the sensor's rate"));
    for (early, without) in [(300, 300), (310, 300), (5, 0)] {
        let text = of(early, without);
        assert!(text.contains("bunched") && !text.contains("rate_hz"), "{text}");
    }
}

#[test]
fn whatever_cost_a_period_shows() {
    let outside =
        Uncontrolled { lost: 1, late_wakes: 1, overruns: 1, missed_replies: 1, ..Uncontrolled::default() };
    for bad in [
        Facts { lost: 1, ..facts() },
        Facts { outside, ..facts() },
        Facts { late_wakes: 1, ..facts() },
        Facts { overruns: 1, ..facts() },
        Facts { missed_replies: 1, ..facts() },
        Facts { missed_replies: 1, missed_while_off_cpu: 1, ..facts() },
        Facts { missed_replies: 1, missed_while_computing: 1, ..facts() },
        Facts { without_frame: 1, ..facts() },
        Facts { early_frames: 1, ..facts() },
        Facts { sensor_paced: true, rate_hz: 940.0, ..facts() },
        Facts { late_replies: 94, ..facts() },
        Facts { duplicates: 94, ..facts() },
        Facts { unexpected_frames: 1, ..facts() },
        Facts { imu_missed: 950, ..facts() },
        Facts { damaged_frames: 1, ..facts() },
        Facts { downs: vec![("main".into(), 3)], ..facts() },
        Facts { periods: 0, ..facts() },
        Facts { stopped: Some((1, 2_000)), periods: 1, ..facts() },
        Facts { broken: broken(Some(1.0), "it fell"), ..facts() },
        Facts { warnings: vec!["It was hot.".into()], ..facts() },
        Facts { unknown: vec!["12 ticks are not in the log.".into()], ..facts() },
    ] {
        let verdict = judge(&bad);
        assert!(verdict.level > Level::Note && verdict.reasons.len() == 1, "{bad:?}: {verdict:?}");
    }
}

/// Ticks missing from a log were reported only for runs that held their rate.
#[test]
fn what_is_not_known_is_reported_however_bad_the_rest_is() {
    let unknown = vec!["The first 300 ticks are not in these files.".to_owned()];
    let text = |facts: Facts| judge(&Facts { unknown: unknown.clone(), ..facts }).text;
    let besides = " Besides, the first 300 ticks are not in these files.";
    assert!(text(facts()).starts_with("Held 1000 Hz, but the first 300 ticks are not in these files"));
    for bad in [
        Facts { lost: 10, ..facts() },
        Facts { broken: broken(Some(1.0), "it fell"), ..facts() },
        Facts { broken: broken(None, "it fell"), periods: 0, ..facts() },
        Facts { stopped: Some((1, 2_000)), periods: 1, ..facts() },
    ] {
        assert!(text(bad.clone()).ends_with(besides), "{}", text(bad));
    }
    let lossy = text(Facts { lost: 10, missed_replies: 5, ..facts() });
    assert!(lossy.ends_with("Besides, 5 replies were missed (and 1 more problem); check power, wiring and ids with `khz bus scan robot.toml`."), "{lossy}");
}

/// What happened on the wire was left out where the robot never came under control.
#[test]
fn damaged_frames_and_a_bus_that_went_down_are_named_before_control_too() {
    let silent =
        Some(Broken { after_s: None, what: "no reply during start-up (arm)".into(), remedy: Some(SCAN) });
    let lost = Facts { broken: silent, periods: 0, ..facts() };
    let down = judge(&Facts { downs: vec![("right".into(), 1)], ..lost.clone() }).text;
    assert!(down.starts_with("No reply during start-up (arm), and bus right went down once;"), "{down}");
    // A servo that could not be reached was blamed for its wiring and firmware.
    let on = broken(
        Some(3.0),
        "the servo did not say often enough that it is off and may still be on: cut its power (s3)",
    );
    let cut_off = judge(&Facts { broken: on, downs: vec![("right".into(), 1)], ..facts() }).text;
    assert!(cut_off.contains("cut its power (s3); bus right went down once. It held"), "{cut_off}");
    let damaged = judge(&Facts { damaged_frames: 257, ..lost }).text;
    assert!(damaged.contains("(arm), and 257 frames were damaged;"), "{damaged}");
}

#[test]
fn duplicates_and_missed_imu_readings_get_no_good_badge() {
    let verdict = judge(&Facts { duplicates: 94, imu_missed: 950, ..facts() });
    assert_eq!(verdict.level, Level::Warning);
    assert!(
        verdict.text.ends_with("; check power, wiring and ids with `khz bus scan robot.toml`."),
        "{}",
        verdict.text
    );
    assert_eq!(
        verdict.reasons,
        ["94 replies were duplicates: two servos may have the same id.", "950 IMU readings were missed."]
    );
}

#[test]
fn a_sensor_with_a_clock_of_its_own_is_no_lost_rate() {
    let paced = Facts { sensor_paced: true, rate_hz: 1010.0, ..facts() };
    assert_eq!(judge(&paced).level, Level::Good);
}

#[test]
fn a_cycle_that_never_fits_is_not_blamed_on_the_wiring() {
    let slow = Facts {
        missed_replies: 3_988,
        late_replies: 3_990,
        cycle_ns: Some((922_000, 780_000)),
        worst_servo: Some(("knee".into(), 997)),
        ..facts()
    };
    let verdict = judge(&slow);
    assert_eq!(verdict.headline, "held 1000 Hz, 3,988 replies late");
    let expected = "Held 1000 Hz, but 3,988 replies were late: the longest bus cycle needs \
                922 µs, its deadline leaves 780 µs; `khz budget robot.toml` shows what the buses need.";
    assert_eq!((verdict.text.as_str(), verdict.reasons.len()), (expected, 1));
}

#[test]
fn a_robot_that_came_down_for_late_replies_is_not_blamed_on_the_wiring() {
    let down = |late_replies| {
        let broken =
            Broken { after_s: Some(0.03), what: "no reply in time for 24 ticks".into(), remedy: Some(SCAN) };
        let cycle_ns = Some((922_000, 780_000));
        judge(&Facts { missed_replies: 48, late_replies, cycle_ns, broken: Some(broken), ..facts() }).text
    };
    let expected = "Came down after 30 ms: no reply in time for 24 ticks; 48 replies were late: the longest bus cycle needs 922 µs, its deadline \
                leaves 780 µs. It held 1000 Hz until then; `khz budget robot.toml` shows what the buses need.";
    assert_eq!(down(48), expected);
    assert!(down(3).ends_with("`khz bus scan robot.toml`."), "{}", down(3));
}

/// Half of the servos were reported to have no power.
#[test]
fn a_line_without_time_for_its_servos_is_named_with_the_rate_that_fits() {
    let slow = |in_turn| {
        let what = "no reply during start-up (s11, s12 on bus main)".into();
        let broken = Some(Broken { after_s: None, what, remedy: Some(SCAN) });
        let slow_bus = SlowBus { name: "main".into(), fits_hz: 1240.0, with_later_deadline: false, in_turn };
        let outside = Uncontrolled { missed_replies: 3_024, ..Uncontrolled::default() };
        let cycle_ns = Some((616_000, 533_000));
        judge(&Facts {
            periods: 0,
            outside,
            cycle_ns,
            slow_bus: Some(slow_bus),
            damaged_frames: 750,
            broken,
            ..facts()
        })
        .text
    };
    let expected = "No reply during start-up (s11, s12 on bus main), and 750 frames were damaged; the longest bus cycle needs 616 µs, its deadline \
                leaves 533 µs (bus main: up to 1240 Hz fit with 5 % to spare); `khz budget robot.toml` shows what the buses need.";
    assert_eq!(slow(true), expected);
    assert!(slow(false).ends_with("`khz bus scan robot.toml`."), "{}", slow(false));
    let held = Facts {
        missed_replies: 929,
        cycle_ns: Some((616_000, 533_000)),
        slow_bus: Some(SlowBus {
            name: "arm".into(),
            fits_hz: 400.0,
            with_later_deadline: true,
            in_turn: true,
        }),
        ..facts()
    };
    let expected = "Held 1000 Hz, but 929 replies were missed: the longest bus cycle needs 616 µs, its deadline leaves 533 µs (bus arm: up to 400 Hz fit \
                with 5 % to spare and a later `loop.bus_deadline_us`); `khz budget robot.toml` shows what the buses need.";
    assert_eq!(judge(&held).text, expected);
}

#[test]
fn replies_that_computing_left_no_time_for_are_not_blamed_on_the_bus() {
    let computed = Facts { missed_replies: 24, missed_while_computing: 24, late_replies: 24, ..facts() };
    let verdict = judge(&computed);
    let expected =
        "Held 1000 Hz, but 24 replies were missed because computing took too long; run `khz doctor`.";
    assert_eq!((verdict.level, verdict.text.as_str()), (Level::Warning, expected));
    // Nor do they hide those that it does not explain.
    let verdict = judge(&Facts { missed_replies: 25, ..computed });
    assert_eq!((verdict.level, verdict.headline.as_str()), (Level::Bad, "held 1000 Hz, missed 1 reply"));
}

#[test]
fn a_bus_that_needs_twice_its_time_is_not_blamed_on_the_wiring() {
    let never = |cycle_ns, late_replies| {
        let what = "no reply during start-up (s1 on bus main)".into();
        let broken = Some(Broken { after_s: None, what, remedy: Some(SCAN) });
        let outside = Uncontrolled { missed_replies: 3_024, ..Uncontrolled::default() };
        judge(&Facts {
            periods: 0,
            outside,
            late_replies,
            cycle_ns: Some((cycle_ns, 780_000)),
            broken,
            ..facts()
        })
        .text
    };
    let expected = "No reply during start-up (s1 on bus main); 144 replies were late: the longest bus cycle needs 2.8 ms, its deadline \
                leaves 780 µs; `khz budget robot.toml` shows what the buses need.";
    assert_eq!(never(2_800_000, 144), expected);
    // Nothing comes at all where nothing can.
    assert!(never(2_800_000, 0).ends_with("`khz budget robot.toml` shows what the buses need."));
    // The bus hardly lacks time.
    assert!(never(922_000, 144).ends_with("`khz bus scan robot.toml`."), "{}", never(922_000, 144));
}

#[test]
fn a_run_that_lost_nothing_is_not_good_whatever_else_was_wrong() {
    let slow = Facts { target_hz: 20.0, rate_hz: 20.0, periods: 200, ..facts() };
    for (facts, expected) in [
        (
            Facts { wake_ns: Some((16_000_000, 5_000_000)), ..slow },
            "Held 20 Hz, but 1 % of the ticks started 16 ms late or more, of a period of 50 ms; run `khz doctor`.",
        ),
        (
            Facts { changed: Some((7_988, 7_988)), ..facts() },
            "Held 1000 Hz, but 7,988 of 7,988 commands were changed to keep the joints within their limits; see the commands \
             in the report, and correct the controller or the joints' `limits`.",
        ),
        (
            Facts { sensor_paced: true, rate_hz: 951.0, ..facts() },
            "Held its sensor's rate of 951.0 Hz, but the sensor paces the loop at 951.0 Hz, not 1000 Hz; set `loop.rate_hz` \
             to the sensor's rate.",
        ),
        (
            Facts { not_done: Some((31, 94, 150_000_000)), ..facts() },
            "Held 1000 Hz, but the controller was not done in 31 of 94 ticks: commands were up to 150 ms old; lower \
             `loop.rate_hz`, or make the controller faster.",
        ),
    ] {
        let verdict = judge(&facts);
        assert_eq!((verdict.level, verdict.text.as_str()), (Level::Warning, expected));
    }
    let good = Facts { wake_ns: Some((90_000, 100_000)), changed: Some((5, 7_988)), ..facts() };
    assert_eq!(judge(&good).level, Level::Good);
}

#[test]
fn what_the_machine_did_to_the_whole_process_is_named_with_its_cure() {
    let lost = |cause, stops| {
        let group = LateGroup { lost_ns: 400_000_000, worst_ns: Some(50_000_000), ..late(cause, 9) };
        judge(&Facts { lost: 9, late: vec![group], stops, ..facts() })
    };
    let quota = lost(Cause::Preempted, Stops { throttled_ns: 390_000_000, ..Stops::default() });
    assert!(quota.text.contains("CPU quota") && quota.remedy.is_some_and(|cure| cure.contains("cpu.max")));
    let frozen = lost(Cause::Unaccounted, Stops { stopped_ns: 390_000_000, ..Stops::default() });
    assert!(frozen.text.contains("it was stopped from outside"), "{}", frozen.text);
    let limited = lost(Cause::Preempted, Stops { rt_runtime_ns: Some(950_000_000), ..Stops::default() });
    assert!(limited.remedy.is_some_and(|cure| cure.contains("sched_rt_runtime_us")));
    let other = lost(Cause::Preempted, Stops { throttled_ns: 90_000_000, ..Stops::default() });
    assert!(other.text.contains("other threads had its CPU"), "{}", other.text);
}

#[test]
fn a_frozen_control_group_is_named_where_it_is_counted_and_else_it_is_reported_that_it_is_not() {
    let lost = |stops| {
        let group = LateGroup { lost_ns: 120_000_000, ..late(Cause::Unaccounted, 9) };
        judge(&Facts { lost: 9, late: vec![group], stops, ..facts() }).text
    };
    let counted = lost(Stops { frozen_ns: 118_000_000, ..Stops::default() });
    assert!(
        counted.contains("because its cgroup was frozen (9 of 9")
            && counted.contains("keep whatever stops or freezes"),
        "{counted}"
    );
    let uncounted = lost(Stops { has_old_freezer: true, ..Stops::default() });
    assert!(uncounted.contains("or a frozen control group (9 of 9"), "{uncounted}");
}

#[test]
fn two_causes_have_each_its_share_and_its_cure() {
    let stop = LateGroup { lost_ns: 120_000_000, stopped_ns: 120_000_000, ..late(Cause::Blocked, 40) };
    let competitor = LateGroup { lost_ns: 150_000_000, ..late(Cause::Preempted, 60) };
    let stops = Stops { stopped_ns: 120_000_000, ..Stops::default() };
    let both = Facts { lost: 100, late: vec![competitor, stop], stops, ..facts() };
    // The time of the stop is the blocked ticks', so that it explains no others.
    assert_eq!(
        judge(&both).text,
        "Did not hold 1000 Hz: lost 100 of 10,000 periods (1.00 %), mostly because other threads had its CPU (60 of 100 lost periods, \
         worst 3.2 ms); run `khz doctor`. Another 40 periods were lost because it was stopped from outside (a signal, a debugger, a \
         frozen control group) (worst 3.2 ms); keep whatever stops or freezes processes away from this one."
    );
    let few = judge(&Facts { late: vec![competitor, late(Cause::PageFault, 14)], ..both.clone() }).text;
    assert!(!few.contains("Another"), "{few}");
    // Advice for two causes stands once.
    let same =
        judge(&Facts { late: vec![competitor, late(Cause::PageFault, 40)], stops: Stops::default(), ..both })
            .text;
    assert!(
        same.ends_with(
            "run `khz doctor`. Another 40 periods were lost because of page faults (worst 3.2 ms)."
        ),
        "{same}"
    );
}

#[test]
fn what_happened_on_the_wire_is_reported_beside_the_replies_it_cost() {
    let downs = vec![("main".to_owned(), 1)];
    let text = judge(&Facts { missed_replies: 100, downs: downs.clone(), damaged_frames: 8, ..facts() }).text;
    assert!(
        text.starts_with("Held 1000 Hz, but 100 replies were missed, and bus main went down once, and 8 frames were damaged; check"),
        "{text}"
    );
    // It need not cost any.
    let verdict = judge(&Facts { downs, ..facts() });
    assert_eq!(verdict.level, Level::Warning);
    let expected = "Held 1000 Hz, but bus main went down once; check power, wiring and ids with `khz bus scan robot.toml`.";
    assert_eq!(verdict.text, expected);
}

#[test]
fn replies_that_came_late_and_replies_that_did_not_come_are_distinguished() {
    let cycle_ns = Some((922_000, 780_000));
    let slow = Facts { missed_replies: 4_000, late_replies: 3_000, cycle_ns, ..facts() };
    let verdict = judge(&slow);
    assert_eq!(verdict.headline, "held 1000 Hz, missed 4,000 replies, 3,000 of them late");
    let expected = "Held 1000 Hz, but 4,000 replies were missed, of which 3,000 came late, 1,000 did not come: the longest bus cycle needs 922 µs, \
                its deadline leaves 780 µs; `khz budget robot.toml` shows what the buses need; check power, wiring and ids with \
                `khz bus scan robot.toml`.";
    assert_eq!(verdict.text, expected);
    // What was not asked for cannot come.
    let verdict = judge(&Facts { unasked: 1_000, ..slow.clone() });
    assert!(
        verdict.text.contains("3,000 came late, 1,000 were not requested: the longest bus cycle"),
        "{}",
        verdict.text
    );
    assert!(verdict.text.ends_with("`khz budget robot.toml` shows what the buses need."), "{}", verdict.text);
    // Where the cycle fits, too.
    let verdict = judge(&Facts { cycle_ns: None, late_replies: 2_000, ..slow.clone() });
    assert!(verdict.text.contains("of which 2,000 came late, 2,000 did not come;"), "{}", verdict.text);
    // Fewer are only one of the other problems.
    let verdict = judge(&Facts { cycle_ns: None, late_replies: 1_900, ..slow });
    assert!(verdict.text.contains("4,000 replies were missed (and 1 more problem);"), "{}", verdict.text);
}

#[test]
fn replies_missed_outside_control_have_their_servo_and_a_cure() {
    let missed = |missed_replies, late_replies| {
        let worst_servo = Some(("pan".to_owned(), missed_replies));
        let outside = Uncontrolled { missed_replies, late_replies, worst_servo, ..Uncontrolled::default() };
        let verdict = judge(&Facts { outside, late_replies, ..facts() });
        assert_eq!((verdict.level, verdict.reasons.len()), (Level::Warning, 1), "{verdict:?}");
        verdict.text
    };
    let expected = "Held 1000 Hz, but 2 replies were missed by pan during start-up or while coming down; check power, wiring and ids with \
                `khz bus scan robot.toml`.";
    assert_eq!(missed(2, 0), expected);
    let expected = "Held 1000 Hz, but 40 replies were late during start-up or while coming down; `khz budget robot.toml` shows what the \
                buses need.";
    assert_eq!(missed(40, 40), expected);
}

#[test]
fn a_loop_that_was_stopped_while_it_only_waited_is_not_blocked_by_itself() {
    let stopped = |stopped_ns| {
        let group = LateGroup { stopped_ns, ..late(Cause::Blocked, 9) };
        judge(&Facts { lost: 9, late: vec![group], ..facts() })
    };
    let verdict = stopped(9_000_000);
    let because = "it was stopped from outside (a signal, a debugger, a frozen control group) (9 of 9 lost periods, worst 3.2 ms)";
    assert_eq!(verdict.cause.as_deref(), Some(because));
    assert_eq!(
        verdict.remedy.as_deref(),
        Some("keep whatever stops or freezes processes away from this one")
    );
    assert!(stopped(3_000_000).cause.is_some_and(|cause| cause.contains("the thread was blocked")));
}

#[test]
fn where_no_file_can_be_named_no_command_is_reported() {
    let late = vec![late(Cause::Bus, 12)];
    let verdict = judge(&Facts { lost: 12, late, missed_replies: 5, file: RobotFile::Unknown, ..facts() });
    assert_eq!(verdict.remedy.as_deref(), Some("raise `loop.bus_deadline_us`, or lower `loop.rate_hz`"));
    assert!(verdict.text.ends_with("check power, wiring and ids.") && !verdict.text.contains("FILE"));
}

#[test]
fn runs_side_by_side_are_judged_as_each_is() {
    let bad = Verdict { level: Level::Bad, text: "It did not.".into(), ..Verdict::default() };
    let good = Verdict { held: true, text: "It did.".into(), ..Verdict::default() };
    let verdict = side_by_side(&[("spin", good), ("sleep", bad)], "spin is best");
    assert_eq!((verdict.level, verdict.held), (Level::Bad, false));
    assert_eq!(verdict.text, "1 of 2 runs held their rate; spin is best.");
    assert_eq!(verdict.reasons, ["spin: It did.", "sleep: It did not."]);
}

#[test]
fn replies_that_do_not_come_have_their_cure_also_where_waiting_for_them_makes_ticks_late() {
    let wake_ns = Some((900_000, 100_000));
    let bus = LateGroup { lost_periods: 0, ..late(Cause::Bus, 57) };
    let verdict =
        judge(&Facts { missed_replies: 112, late_replies: 82, late: vec![bus], wake_ns, ..facts() });
    assert!(verdict.text.contains("82 came late, 30 did not come"), "{}", verdict.text);
    assert!(verdict.remedy.is_some_and(|cure| cure.contains("khz budget") && cure.contains("khz bus scan")));
}

/// The advice was `khz budget`, which reported that the cycle fits.
#[test]
fn late_replies_of_a_cycle_that_fits_have_another_cure_than_the_budget() {
    let late = |needed_ns, worst| {
        let worst_servo = Some(("s2".to_owned(), worst));
        let cycle_ns = Some((needed_ns, 780_000));
        judge(&Facts { missed_replies: 65, late_replies: 65, worst_servo, cycle_ns, ..facts() }).text
    };
    let cure = "look for what delays or reorders frames (adapter, gateway, network; `khz doctor` knows the delays of adapters), or raise \
                `loop.bus_deadline_us`.";
    let held = "Held 1000 Hz, but 65 replies were late";
    assert_eq!(late(604_000, 65), format!("{held} (all by s2); {cure}"));
    assert_eq!(late(604_000, 60), format!("{held} (most often by s2: 60); {cure}"));
    assert_eq!(late(604_000, 33), format!("{held}; {cure}"));
    // Less to spare than the prediction may be wrong by.
    assert!(
        late(770_000, 33).ends_with("`khz budget robot.toml` shows what the buses need."),
        "{}",
        late(770_000, 33)
    );
    let down = Some(Broken {
        remedy: Some(BUDGET),
        ..broken(None, "replies come too late").unwrap_or_else(|| unreachable!())
    });
    let text = judge(&Facts { periods: 0, broken: down, cycle_ns: Some((604_000, 780_000)), ..facts() }).text;
    assert!(text.ends_with(cure), "{text}");
}

/// "2,109 replies were late" stood beside "missed 649".
#[test]
fn what_comes_late_while_a_robot_comes_down_is_not_counted_in_its_controlled_time() {
    let outside = Uncontrolled { missed_replies: 1_500, late_replies: 1_460, ..Uncontrolled::default() };
    let broken = Some(Broken {
        remedy: Some(SCAN),
        ..broken(Some(0.7), "no reply in time for 24 ticks (s1 on bus main)")
            .unwrap_or_else(|| unreachable!())
    });
    let down = Facts { missed_replies: 649, late_replies: 2_109, outside, broken, ..facts() };
    let text = judge(&down).text;
    assert!(text.contains("24 ticks (s1 on bus main); 649 replies were late. It held"), "{text}");
    // Of a run that ended well what came late outside stands apart.
    let outside = Uncontrolled { missed_replies: 3, late_replies: 9, ..Uncontrolled::default() };
    let verdict = judge(&Facts { late_replies: 11, outside, ..facts() });
    assert_eq!(
        verdict.reasons,
        [
            "3 replies were late, 6 replies were late during start-up or while coming down.",
            "2 replies were late: to the query of an earlier tick."
        ]
    );
    // Further replies to one query are no late ones, wherever they came.
    let outside = Uncontrolled { late_replies: 9, ..Uncontrolled::default() };
    let reasons = judge(&Facts { duplicates: 11, outside, ..facts() }).reasons;
    assert_eq!(reasons, ["11 replies were duplicates: two servos may have the same id."]);
}

/// "6 replies were missed by s2", of which five had not been asked for.
#[test]
fn what_was_not_asked_for_after_a_miss_is_distinguished() {
    let worst_servo = Some(("s2".to_owned(), 1));
    let verdict = judge(&Facts { missed_replies: 1, quiet: 5, worst_servo, ..facts() });
    assert_eq!(verdict.headline, "held 1000 Hz, missed 1 reply");
    let expected = "Held 1000 Hz, but 1 reply was missed by s2, and after it 5 queries were not sent; check power, wiring and ids with \
                `khz bus scan robot.toml`.";
    assert_eq!(verdict.text, expected);
}

/// Two of twelve servos were named, and not that both are on one bus.
#[test]
fn of_several_buses_the_one_that_misses_is_named() {
    let missed = |servo: u64, bus: u64| {
        let [worst_servo, worst_bus] =
            [("knee", servo), ("left", bus)].map(|(name, count)| Some((name.to_owned(), count)));
        judge(&Facts { missed_replies: 30, worst_servo, worst_bus, ..facts() }).text
    };
    let held = "Held 1000 Hz, but 30 replies were missed";
    assert!(missed(30, 30).starts_with(&format!("{held} by knee on bus left; check")), "{}", missed(30, 30));
    assert!(
        missed(16, 30).starts_with(&format!("{held} on bus left (most often by knee: 16); check")),
        "{}",
        missed(16, 30)
    );
    assert!(
        missed(16, 20).starts_with(&format!("{held} (most often on bus left: 20, by knee: 16); check")),
        "{}",
        missed(16, 20)
    );
    assert!(
        missed(16, 19).starts_with(&format!("{held} (most often by knee: 16); check")),
        "{}",
        missed(16, 19)
    );
}

/// Late replies of a serial line were the network's.
#[test]
fn what_delays_frames_is_looked_for_where_they_travel() {
    let cure = |medium| {
        let cycle_ns = Some((604_000, 780_000));
        judge(&Facts { missed_replies: 65, late_replies: 65, cycle_ns, medium, ..facts() })
            .remedy
            .unwrap_or_default()
    };
    assert!(cure(Medium::Serial).contains("serial adapter") && !cure(Medium::Serial).contains("network"));
    assert!(cure(Medium::Network).contains("network") && !cure(Medium::Network).contains("adapter"));
    assert!(cure(Medium::Can).contains("CAN adapter") && !cure(Medium::Can).contains("network"));
}

/// "Held 1000 Hz.", good, of one tick.
#[test]
fn a_run_that_is_too_short_to_judge_is_not_good() {
    let verdict = judge(&Facts { periods: 1, too_short: true, ..facts() });
    assert_eq!(verdict.level, Level::Warning);
    assert_eq!(verdict.text, "Held 1000 Hz, but 1 period under control is too few to judge.");
    let down = Facts { periods: 12, too_short: true, broken: broken(Some(0.012), "it fell"), ..facts() };
    assert!(!judge(&down).text.contains("too few"));
}

/// A bus that went down was reported as one servo that did not reply.
#[test]
fn a_robot_that_came_down_because_a_bus_did_says_so() {
    let what = "no reply in time for 10 ticks (z on bus b)".to_owned();
    let broken = Some(Broken { after_s: Some(1.0), what, remedy: Some(crate::commands::SCAN) });
    let text = judge(&Facts { downs: vec![("b".to_owned(), 1)], broken, ..facts() }).text;
    let expected =
        "Came down after 1 s: no reply in time for 10 ticks (z on bus b), and bus b went down once; it held";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_warning_reads_on_within_the_sentence() {
    let expected = "with a warning: the loop was held up for 15.1 ms";
    assert_eq!(super::words::within("Warned of: the loop was held up for 15.1 ms."), expected);
}
