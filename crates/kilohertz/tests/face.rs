//! The way a program of one's own runs a robot.

use khz_file::config::QUADRUPED;
use khz_loop::timing::Mode;
use khz_tlog::{Type, Width};
use kilohertz::record::{RecordId, RecorderBuilder, Tap};
use kilohertz::{
    ControlError, Controller, Observer, PositionCommand, Robot, RobotInfo, RobotState, ServoCommand, Tick,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LEG: &str = r#"
    [bus.leg]
    link = "emulated"
    [[servo]]
    name = "hip"
    bus = "leg"
    id = 1
    [[servo]]
    name = "knee"
    bus = "leg"
    id = 2
    [controller]
    name = "hold"
"#;

fn leg() -> Robot {
    Robot::parse(LEG, "leg.toml").expect("a right file").no_log().duration(Duration::from_secs(2))
}

fn swing(state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
    commands[1] = ServoCommand::Position(PositionCommand::hold(0.2 * state.time().sin()));
    Ok(())
}

/// Counts the ticks and keeps the knee's last position.
#[derive(Clone, Default)]
struct Knee(Arc<[AtomicU64; 2]>);

impl Observer for Knee {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        let knee = tick.machine.state().servos[1].position;
        self.0[1].store(knee.to_bits(), Ordering::Relaxed);
    }
}

#[test]
fn a_run_in_virtual_time_repeats_exactly() {
    let run = || {
        let knee = Knee::default();
        let finished = leg().each_tick(swing).observer(knee.clone()).virtual_time().start().unwrap().finish();
        let summary = finished.unwrap().summary;
        assert_eq!(summary.verdict.headline, "held 1000 Hz of virtual time");
        assert_eq!((summary.all.missed_replies, summary.controlled.lost_periods), (0, 0));
        assert!(summary.ended_well, "{}", summary.end);
        let [ticks, position] = [0, 1].map(|at: usize| knee.0[at].load(Ordering::Relaxed));
        (ticks, position, summary.all.ticks, format!("{:?}", summary.times.cycle))
    };
    let first = run();
    assert_eq!(first.0, first.2, "the observer is called in every tick");
    assert!(f64::from_bits(first.1).abs() > 0.05, "the knee follows");
    assert_eq!(first, run());
}

#[test]
fn nothing_in_virtual_time_takes_this_computers() {
    let summary = leg().virtual_time().start().unwrap().finish().unwrap().summary;
    let own = [
        &summary.times.wake_latency,
        &summary.times.loop_compute,
        &summary.times.cpu,
        &summary.times.control,
    ];
    assert!(own.iter().all(|part| part.max == 0));
    for message in [summary.to_string(), summary.table(false)] {
        assert!(!message.contains("wake ") && !message.contains("loop thread"), "{message}");
    }
}

#[test]
fn what_keeps_real_time_is_refused_in_virtual_time() {
    let real = LEG.replace("link = \"emulated\"", "link = \"fdcanusb\"\npath = \"/dev/null\"");
    let refused = |robot: Robot| robot.virtual_time().no_log().start().map(drop).unwrap_err().to_string();
    let pipelined = leg().configure(|config| config.timing.mode = Mode::Pipelined);
    assert!(refused(pipelined).contains("pipelined"));
    let streamed = leg().log("never.tlog").configure(|config| config.log.stream = Some("127.0.0.1:9".into()));
    let error = streamed.virtual_time().start().map(drop).unwrap_err().to_string();
    assert!(error.contains("log.stream"), "{error}");
    let awaited = leg().configure(|config| config.supervisor.heartbeat_ms = Some(100.0));
    assert!(refused(awaited).contains("heartbeat_ms"));
    let robot = Robot::parse(&real, "leg.toml").unwrap();
    assert_eq!(
        robot.config().why_not_virtual().unwrap(),
        "bus `leg` is not emulated, and devices outside keep their own time"
    );
}

#[test]
fn what_a_program_changes_is_checked_as_a_file_is() {
    let error = leg().configure(|config| config.servos[0].settings.id = 0).start().map(drop).unwrap_err();
    assert!(error.to_string().contains("no moteus has this id"), "{error}");
    let error = Robot::of(&kilohertz::RobotConfig::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains("servo"), "{error}");
}

#[test]
fn a_robot_file_says_itself_that_it_runs_in_virtual_time() {
    let text = format!("{LEG}[loop]\nclock = \"virtual\"\n");
    let robot = Robot::parse(&text, "leg.toml").unwrap().no_log().duration(Duration::from_secs(60));
    assert_eq!(robot.start().unwrap().finish().unwrap().summary.controlled.lost_periods, 0);
    let both = format!("{LEG}[loop]\nclock = \"virtual\"\nmode = \"pipelined\"\n");
    let error = Robot::parse(&both, "leg.toml").map(drop).unwrap_err().to_string();
    assert!(error.contains("cannot run in virtual time"), "{error}");
}

#[test]
fn a_log_in_virtual_time_is_whole_however_fast_the_ticks_come() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("leg.tlog");
    let robot =
        leg().log(&log).configure(|config| config.log.ring_mib = 1).duration(Duration::from_secs(120));
    let mut finished = robot.virtual_time().start().unwrap().finish().unwrap();
    assert_eq!(finished.summary.log_dropped, 0);
    let report = folder.path().join("leg.html");
    std::fs::write(&report, "another file").unwrap();
    assert_eq!(finished.report(&report).unwrap(), folder.path().join("leg-1.html"));
    assert_eq!(std::fs::read_to_string(report).unwrap(), "another file");
}

/// Ends of a log, by its first and last sample, s.
fn span(log: &std::path::Path) -> f64 {
    let mut log = khz_tlog::Reader::open(std::fs::File::open(log).expect("a log")).expect("readable");
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    while let Some(item) = log.next().expect("undamaged") {
        if let Some(time_us) = item.time_us {
            (first, last) = (first.min(time_us), last.max(time_us));
        }
    }
    (last - first) as f64 * 1e-6
}

#[test]
fn a_log_of_virtual_time_ends_when_its_run_does() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("leg.tlog");
    let finished = leg().log(&log).virtual_time().start().unwrap().finish().unwrap();
    let seconds = finished.summary.all.ticks as f64 * 1e-3;
    assert!((span(&log) - seconds).abs() < 0.1, "{} s of {seconds} s", span(&log));
}

/// Records more in a tick than its ring holds.
struct Talkative(RecordId, Tap);

impl Controller for Talkative {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        (0..100).for_each(|_| assert!(self.1.push(self.0, state.now_ns, &[0; 1000])));
        swing(state, commands)
    }
}

#[test]
fn taps_of_ones_own_lose_no_sample_in_virtual_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = RecorderBuilder::default();
    let own = builder.record("own", &Type::FixedArray(1000, Box::new(Type::Uint(Width::One)))).unwrap();
    let controller = Talkative(own, builder.tap(1 << 16));
    let robot = leg().log(folder.path().join("leg.tlog")).recorder(builder).controller(controller);
    assert_eq!(robot.virtual_time().start().unwrap().finish().unwrap().summary.log_dropped, 0);
}

#[test]
fn an_error_of_main_is_shown_as_text() {
    let error = Robot::parse("name = 1", "leg.toml").map(drop).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn a_run_is_stopped_from_outside() {
    let knee = Knee::default();
    let run = leg().duration(Duration::from_secs(3600)).observer(knee.clone()).start().unwrap();
    let begun = Instant::now();
    while knee.0[0].load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(120), "it never ticked");
        std::thread::sleep(Duration::from_millis(10));
    }
    run.stop();
    // Not after an hour: who runs the tests would notice.
    assert!(run.finish().unwrap().summary.all.ticks > 0);
}

/// Wants a joint that is not there.
struct Wrong;

impl Controller for Wrong {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        assert_eq!((robot.period_ns, robot.has_imu), (1_000_000, false));
        robot.joint("toe").map(drop)
    }

    fn update(&mut self, _: &RobotState, _: &mut [ServoCommand]) -> Result<(), ControlError> {
        Err("never reached".into())
    }
}

#[test]
fn a_controller_for_another_robot_is_refused_before_anything_starts() {
    let error = leg().controller(Wrong).start().map(drop).unwrap_err().to_string();
    assert_eq!(error, "the controller: no joint is called `toe`; the joints are `hip`, `knee`");
}

#[test]
fn joints_have_names() {
    let robot = leg();
    assert_eq!((robot.joint("knee"), robot.joint("toe")), (Some(1), None));
}

#[test]
fn the_quadruped_came_down_where_one_frame_in_a_hundred_was_lost() {
    let wire = "wire = \"can_fd\"\n";
    let lossy = QUADRUPED.replace(wire, &format!("{wire}faults = {{ loss = 0.01 }}\n"));
    let robot = Robot::parse(&lossy, "lossy.toml").expect("a right file").no_log().virtual_time();
    let finished = robot.duration(Duration::from_secs(10)).start().unwrap().finish();
    let summary = finished.unwrap().summary;
    assert!(summary.all.missed_replies > 1000, "{}", summary.all.missed_replies);
    assert!(summary.ended_well, "{}", summary.end);
}
