//! The budget against published figures, and what must hold of every prediction. Against emulated machines it is held in
//! the suite.
//!
//! After a deliberate change run `UPDATE=1 cargo test -p khz-budget --test budget` and review the difference in
//! `docs/budget.md`.
#![allow(clippy::unwrap_used)]

use khz_budget::{ChangeError, Inputs, SpanKind, Sweep, TickPlan, apply, published};
use khz_file::RobotConfig;

#[test]
fn published_figures_are_met() {
    for row in published::all().unwrap() {
        let Some(error) = row.error() else { continue };
        // Where an input had to be guessed, the figure is only to be in the right place.
        let allowed = if row.complete { 0.1 } else { 0.15 };
        assert!(error.abs() < allowed, "{}: {:+.1} %", row.system, 100.0 * error);
    }
}

const BEGIN: &str = "<!-- begin of the generated table -->\n";
const END: &str = "<!-- end of the generated table -->\n";

#[test]
fn the_table_in_the_documentation_is_the_tools() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/budget.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let table = published::table(&published::all().unwrap());
    let expected = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        assert_eq!(text, expected);
    }
}

fn shipped(name: &str) -> RobotConfig {
    RobotConfig::load(format!("{}/../../robots/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Servos on emulated RS485 buses, slow enough that the whole cycle fits.
fn rs485(buses: usize, servos: usize, baud: u32) -> RobotConfig {
    let mut text = "[loop]\nrate_hz = 100\n".to_owned();
    for bus in 0..buses {
        text += &format!("[bus.b{bus}]\nlink = \"emulated\"\nwire = \"rs485\"\nbaud = {baud}\n");
    }
    for servo in 0..servos {
        let (id, bus) = (servo + 1, servo % buses);
        text += &format!("[[servo]]\nname = \"s{id}\"\nbus = \"b{bus}\"\nid = {id}\n");
    }
    RobotConfig::parse(&text, "rs485.toml").unwrap()
}

#[test]
fn replies_shortly_before_the_bus_deadline_come_too_late() {
    let mut robot = RobotConfig::quadruped();
    let cycle_us = TickPlan::of(&robot, Inputs::REAL).predict().cycle_ns as f64 / 1e3;
    for (later_us, missed) in [(10.0, true), (30.0, false)] {
        robot.timing.bus_deadline_us = Some(cycle_us + later_us);
        assert_eq!(TickPlan::of(&robot, Inputs::REAL).predict().deadline_missed, missed, "{later_us}");
    }
}

#[test]
fn a_deadline_without_room_for_a_lost_reply_is_noticed() {
    let mut robot = shipped("quadruped");
    assert_eq!(TickPlan::advice_for_loss(&robot, Inputs::of(&robot)), None);
    // Too little room is what had one lost frame in a hundred bring the quadruped down.
    let usual_ns = TickPlan::of(&robot, Inputs::of(&robot)).durations_ns()[0];
    let longer_ns = TickPlan::after_loss(&robot, Inputs::of(&robot)).durations_ns()[0];
    assert!(longer_ns > usual_ns, "{longer_ns} {usual_ns}");
    robot.timing.bus_deadline_us = Some(usual_ns as f64 / 1e3 + 25.0);
    let text = TickPlan::advice_for_loss(&robot, Inputs::of(&robot)).unwrap();
    let least: f64 = text.split_whitespace().rev().nth(2).unwrap().parse().unwrap();
    robot.timing.bus_deadline_us = Some(least);
    assert_eq!(TickPlan::advice_for_loss(&robot, Inputs::of(&robot)), None, "{text}");
}

#[test]
fn nothing_overlaps_on_a_wire_and_the_critical_path_has_no_way_back() {
    for robot in [RobotConfig::quadruped(), rs485(2, 12, 3_000_000), shipped("published/pi3hat")] {
        let timeline = TickPlan::of(&robot, Inputs::REAL).timeline();
        for row in timeline.rows().into_iter().filter(|row| !row.ends_with(" devices")) {
            let spans = timeline.spans.iter().filter(|span| span.row == row);
            let mut spans: Vec<_> = spans
                .filter(|span| matches!(span.kind, SpanKind::Command | SpanKind::Reply | SpanKind::Host))
                .collect();
            spans.sort_by_key(|span| span.start_ns);
            assert!(spans.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "{row}");
        }
        let path = timeline.critical_path();
        assert!(path.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
        assert_eq!(path.last().unwrap().end_ns, timeline.end_ns());
    }
}

#[test]
fn more_servos_never_take_less_time_and_faster_buses_never_more() {
    let plan = TickPlan::of(&RobotConfig::quadruped(), Inputs::REAL);
    let servos = Sweep::of(&plan, "servo.count=1..40").unwrap();
    assert_eq!(servos.points.len(), 40);
    // Another id may need a stuff bit less.
    assert!(servos.points.windows(2).all(|pair| pair[0].1 <= pair[1].1 + 1_000), "{servos:?}");
    let tick_ns = |rate| {
        let mut plan = plan.clone();
        apply(&mut plan, &format!("bus.rate={rate}")).unwrap();
        plan.durations_ns()[1]
    };
    let ticks = [1_000_000, 2_000_000, 5_000_000, 8_000_000].map(tick_ns);
    assert!(ticks.windows(2).all(|pair| pair[0] > pair[1]), "{ticks:?}");
}

#[test]
fn a_sweep_stays_within_its_range_and_gives_no_point_twice() {
    let plan = TickPlan::of(&rs485(1, 4, 3_000_000), Inputs::REAL);
    let values =
        |sweep| -> Vec<f64> { Sweep::of(&plan, sweep).unwrap().points.iter().map(|point| point.0).collect() };
    let fractions = [0.2, 0.26, 0.32, 0.38, 0.44, 0.5, 0.56, 0.62, 0.68, 0.74, 0.8];
    assert_eq!(values("host.gap_us=0.2..0.8"), fractions);
    assert_eq!(values("host.gap_us=0.5..20.5")[..2], [0.5, 2.5]);
    assert_eq!(values("host.gap_us=0..3"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values("servo.count=3..3"), [3.0]);
    assert_eq!(values("host.gap_us=0.3..0.3"), [0.3]);
    let wide = values("servo.count=1..126");
    assert_eq!((wide.len(), wide[0], wide[100]), (101, 1.0, 126.0));
    assert!(Sweep::of(&plan, "servo.count=1.5..3.5").unwrap_err().to_string().contains("a whole number"));
    let error = Sweep::of(&plan, "servo.count=1..1e12").unwrap_err().to_string();
    assert!(error.contains("servo.count=1000000000000"), "the bound that was written: {error}");
}

#[test]
fn the_same_servos_in_the_sweep_are_the_same_prediction() {
    let plan = TickPlan::of(&RobotConfig::quadruped(), Inputs::REAL);
    let mut again = plan.clone();
    apply(&mut again, "servo.count=12").unwrap();
    let [one, other] = [plan.durations_ns()[0], again.durations_ns()[0]];
    assert!((one - other).abs() < one / 50, "{one} {other}");
}

#[test]
fn a_prediction_names_what_limits_and_what_helps() {
    let robot = rs485(1, 12, 3_000_000);
    let prediction = TickPlan::of(&robot, Inputs::of(&robot)).predict();
    assert_eq!(prediction.critical[0].row, "b0");
    assert_eq!(prediction.changes[0].what, "twice as many buses");
    assert!(prediction.tick_ns > prediction.cycle_ns && prediction.headroom_ns > 0);
    let gains = prediction.changes.iter().map(|change| change.gain_ns);
    assert!(gains.clone().zip(gains.skip(1)).all(|(more, less)| more >= less));
    let share: i64 = prediction.critical.iter().map(|share| share.ns).sum();
    assert!(share <= prediction.tick_ns && share * 10 > prediction.tick_ns * 9);
    let sweep = Sweep::of(&TickPlan::of(&robot, Inputs::REAL), "servo.count=1..20").unwrap();
    let page = prediction.page(Some(&sweep)).to_string();
    assert!(page.contains("critical path") && page.contains("Over servo.count"));
}

/// A command and a query of each servo were counted where one packet asks all, and a bit rate was offered that none can have.
#[test]
fn servos_that_are_asked_together_are_counted_as_they_travel() {
    let robot = shipped("so101");
    let prediction = TickPlan::of(&robot, Inputs::of(&robot)).predict();
    let travels = |kind: SpanKind| prediction.timeline.spans.iter().filter(|span| span.kind == kind).count();
    let bus = &prediction.buses[0];
    assert_eq!(bus.frames, travels(SpanKind::Command) + travels(SpanKind::Reply));
    assert!(bus.bits as i64 * 1_000 <= bus.busy_ns, "{} bits at 1 Mbit/s in {} ns", bus.bits, bus.busy_ns);
    for change in &prediction.changes {
        assert!(
            !["bit rate", "half as long"].iter().any(|idea| change.what.contains(idea)),
            "{}",
            change.what
        );
    }
}

#[test]
fn what_is_changed_is_what_is_taken_for_granted() {
    let file = "[bus.b]\nlink = \"fdcanusb\"\npath = \"/dev/fdcanusb\"\n[[servo]]\nname = \"s\"\nbus = \"b\"\nid = 1\n";
    let mut plan = TickPlan::of(&RobotConfig::parse(file, "robot.toml").unwrap(), Inputs::REAL);
    apply(&mut plan, "servo.turnaround_us=41").unwrap();
    apply(&mut plan, "adapter_us=43").unwrap();
    let text = plan.predict().assumptions.join("\n");
    assert!(text.contains("servos answer after 41 µs") && text.contains("the adapter adds 43 µs"), "{text}");
}

#[test]
fn a_wrong_change_is_reported() {
    let mut plan = TickPlan::of(&RobotConfig::quadruped(), Inputs::REAL);
    let text = |result: Result<(), ChangeError>| result.unwrap_err().to_string();
    assert!(text(apply(&mut plan, "servo.count")).contains("KEY=VALUE"));
    assert!(text(apply(&mut plan, "servos=3")).contains("servo.count"));
    assert!(text(apply(&mut plan, "servo.count=0")).contains("1 to 126"));
    assert!(text(apply(&mut plan, "bus.rate=fast")).contains("bits per second"));
    for sweep in
        ["servo.count", "servo.count=4", "servo.count=9..3", "servo.count=a..b", "servo.count=1..nan"]
    {
        assert!(Sweep::of(&plan, sweep).unwrap_err().to_string().contains("FROM..TO"), "{sweep}");
    }
}

#[test]
fn the_command_that_measures_names_the_robot_file() {
    use khz_file::config::RobotFile;
    let text = |file| {
        let robot = RobotConfig { file, ..RobotConfig::quadruped() };
        TickPlan::of(&robot, Inputs::of(&robot)).predict().assumptions[0].clone()
    };
    assert!(text(RobotFile::At("my robot.toml".into())).contains("`khz budget 'my robot.toml' --measure`"));
    for file in [RobotFile::BuiltIn, RobotFile::Unknown] {
        assert!(text(file.clone()).contains("`khz budget --measure`"), "{}", text(file));
    }
}
