//! People beside a running robot: parameters, steering and arming, through the live channel and by programs. In real time, but
//! nothing here must be fast; things must only happen at last.
#![allow(clippy::unwrap_used)]

#[path = "common/port.rs"]
mod port;

use khz_file::RobotConfig;
use khz_loop::parameters::Parameter;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::{ControlError, Controller, PositionCommand, RobotState, ServoCommand, Teleop};
use khz_robot::launch::{Launch, LaunchOptions};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A busy machine must not fail a test. A test that fails waits so long.
const GENEROUS: Duration = Duration::from_secs(120);

/// Lenient in everything, because the machine that runs the tests may be busy. `more` ends the robot file.
fn robot(more: &str) -> RobotConfig {
    let text = format!(
        "[loop]\nrate_hz = 200\npolicy = \"other\"\nlock_memory = false\n[bus.main]\nlink = \"emulated\"\n\
         [log]\nenabled = false\n[[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\n\
watchdog_s = 30.0\n\
         [supervisor]\nanswer_s = 60\ndamping_s = 0.2\noverruns = 100000\ncontroller_slow = 100000\n\
         stale_ms = 100000\nmissed_replies = 100000\n{more}"
    );
    RobotConfig::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// The viewer's end.
struct Viewer(OwnedFd);

impl Viewer {
    /// It and the robot's end.
    fn pair() -> (Self, OwnedFd) {
        let (viewer, robot) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Self(viewer), robot)
    }

    fn ask(&self, request: &Value) {
        send(&self.0, request.to_string().as_bytes(), SendFlags::empty()).unwrap();
    }

    /// The reply to a request that counts for a second or less, asked again where a busy machine took longer.
    fn in_time(&self, id: u64, request: &Value) -> Value {
        loop {
            let reply = self.answer(id, request.clone());
            if !reply["refused"].as_str().is_some_and(|why| why.contains("ask again")) {
                return reply;
            }
        }
    }

    /// Asks until it is so; again once a request of before counts no more.
    #[track_caller]
    fn ask_until(&self, request: &Value, mut done: impl FnMut() -> bool) {
        let mut asked = None::<Instant>;
        until(|| {
            if asked.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
                self.ask(request);
                asked = Some(Instant::now());
            }
            done()
        });
    }

    fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0; 65_536];
        let (len, _) = recv(&self.0, &mut bytes, RecvFlags::empty()).unwrap();
        bytes.truncate(len);
        bytes
    }

    /// The reply to a request, between the recorder's datagrams.
    fn answer(&self, id: u64, request: Value) -> Value {
        let mut request = request;
        request["id"] = json!(id);
        self.ask(&request);
        loop {
            let bytes = self.receive();
            if bytes.first() == Some(&b'{') {
                let reply: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(reply["id"], id, "{reply}");
                return reply;
            }
            assert!(bytes.starts_with(b"KLOG"), "{bytes:?}");
        }
    }
}

fn start(config: &RobotConfig, live: Option<OwnedFd>) -> Launch {
    Launch::start(config, "", LaunchOptions { live, ..LaunchOptions::default() }).unwrap()
}

#[track_caller]
fn until(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < GENEROUS, "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the loop has ticked so often.
#[track_caller]
fn let_tick(launch: &Launch, ticks: u64) {
    let from = launch.console().seen().0;
    until(|| launch.console().seen().0 >= from + ticks);
}

fn ended(launch: Launch) -> khz_robot::session::Outcome {
    launch.session.stop();
    launch.wait().unwrap()
}

#[test]
fn a_viewer_changes_parameters_together_and_receives_the_tick_or_why_not() {
    let (viewer, live) = Viewer::pair();
    let launch = start(&robot(""), Some(live));
    until(|| launch.console().seen().1 == Phase::Active);
    let set = json!({"by": "test", "set": {"kp_scale": 0.4, "kd_scale": 0.5}, "age_ms": 1});
    let reply = viewer.in_time(1, &set);
    assert_eq!(reply["done"], true, "{reply}");
    assert!(reply["tick"].is_u64(), "{reply}");
    assert_eq!(launch.parameters().get("kp_scale"), Ok(0.4));
    for (id, set, why) in [
        (2, json!({"kp_scale": 7}), "kp_scale: 7 is outside 0 to 1"),
        (
            3,
            json!({"kd_scale": 0.1, "kp_scal": 0.1}),
            "there is no parameter `kp_scal`; did you mean `kp_scale`?",
        ),
        (4, json!({"kp_scale": "much"}), "kp_scale: it must be a number, not \"much\""),
    ] {
        assert_eq!(viewer.in_time(id, &json!({ "set": set, "age_ms": 1 }))["refused"], why);
    }
    assert_eq!(launch.parameters().get("kd_scale"), Ok(0.5), "all or none");
    assert!(viewer.answer(5, json!({"do": "dance"}))["refused"].is_string());
    assert_eq!(viewer.answer(6, json!({"do": "stop"}))["done"], true);
    let outcome = launch.wait().unwrap();
    assert!(outcome.stats.transitions.iter().any(|change| change.cause == Cause::OperatorStop));
    assert_eq!(outcome.parameters.iter().map(Parameter::get).collect::<Vec<_>>(), [0.4, 0.5]);
    assert!(outcome.live.view.requests >= 6 && outcome.live.view.dropped == 0, "{:?}", outcome.live);
    assert!(outcome.recording.unwrap().paths.is_empty(), "no log was wanted");
}

/// The viewer of a busy computer never got the reply that its stop was done.
#[test]
fn a_reply_waits_for_room_between_the_samples() {
    let (viewer, live) = Viewer::pair();
    let beside = live.try_clone().unwrap();
    let launch = start(&robot(""), Some(live));
    until(|| launch.console().seen().1 == Phase::Active);
    while send(&beside, b"KLOG, and no more", SendFlags::DONTWAIT).is_ok() {}
    let request = json!({"id": 1, "by": "test", "set": {"kp_scale": 0.4}, "age_ms": 1});
    viewer.ask_until(&request, || launch.parameters().get("kp_scale") == Ok(0.4));
    loop {
        let bytes = viewer.receive();
        let reply: Option<Value> = serde_json::from_slice(&bytes).ok();
        // One that came too late was refused before.
        if reply.is_some_and(|reply| reply["done"] == true) {
            break;
        }
    }
    assert_eq!(ended(launch).live.view.replies_lost, 0);
}

#[test]
fn what_is_no_request_is_dropped_and_counted() {
    let (viewer, live) = Viewer::pair();
    let launch = start(&robot(""), Some(live));
    until(|| launch.console().seen().1 == Phase::Active);
    for junk in [&b"junk"[..], b"[1]", b"{", &[b' '; 5000], b"\xff\xfe"] {
        send(&viewer.0, junk, SendFlags::empty()).unwrap();
    }
    assert_eq!(viewer.in_time(1, &json!({"set": {}, "age_ms": 1}))["done"], true);
    let outcome = ended(launch);
    assert!(outcome.live.view.requests >= 1 && outcome.live.view.dropped == 5, "{:?}", outcome.live);
}

#[test]
fn a_viewer_that_reads_nothing_or_dies_delays_nothing() {
    let (viewer, live) = Viewer::pair();
    let launch = start(&robot(""), Some(live));
    until(|| launch.console().seen().1 == Phase::Active);
    // It never reads. Requests are taken all the same.
    for kp_scale in [0.2, 0.3] {
        let request = json!({"id": 1, "set": {"kp_scale": kp_scale}, "age_ms": 1});
        viewer.ask_until(&request, || launch.parameters().get("kp_scale") == Ok(kp_scale));
    }
    drop(viewer);
    launch.parameters().set("kp_scale", 0.9).unwrap();
    until(|| launch.parameters().get("kp_scale") == Ok(0.9));
    let outcome = ended(launch);
    // A busy computer may hold the loop up, and that is reported.
    let mut changes = outcome.stats.transitions.iter().filter(|change| change.from != change.to);
    assert!(changes.all(|change| !change.cause.is_trouble()));
    let sinks = outcome.recording.unwrap().sinks;
    let view = sinks.iter().find(|sink| sink.name == "view").unwrap();
    assert!(view.lost > 0 && view.error.as_ref().unwrap().contains("viewer"), "{view:?}");
}

#[test]
fn a_robot_that_an_operator_arms_waits_in_idle() {
    let (viewer, live) = Viewer::pair();
    let launch = start(&robot("arming = \"operator\""), Some(live));
    let console = Arc::clone(launch.console());
    until(|| console.seen().1 == Phase::Idle);
    let_tick(&launch, 20);
    // A reply that is missed takes it back to the start-up for a few ticks, in which it cannot be armed.
    until(|| viewer.answer(1, json!({"do": "arm", "age_ms": 1}))["done"] == true);
    until(|| console.seen().1 == Phase::Active);
    let reply = viewer.in_time(2, &json!({"do": "arm", "age_ms": 1}));
    assert!(reply["refused"].as_str().unwrap().contains("active"), "{reply}");
    let stats = ended(launch).stats;
    let armed: Vec<_> = stats.transitions.iter().filter(|change| change.to == Phase::Armed).collect();
    assert!(!armed.is_empty() && armed.iter().all(|change| change.cause == Cause::ArmRequested), "{armed:?}");
}

/// A connection that was held up for 7 s, or a process that was frozen: after a message "unreachable" at 2 s, the operator saw the
/// robot armed and active 7.8 s after the request.
#[test]
fn an_old_request_to_arm_or_to_change_does_nothing_and_an_old_stop_stops() {
    let (viewer, live) = Viewer::pair();
    let launch = start(&robot("arming = \"operator\""), Some(live));
    let console = Arc::clone(launch.console());
    until(|| console.seen().1 == Phase::Idle);
    for (id, age, why) in [
        (1, json!(7800), "7.8 s old, and counts for 0.4 s"),
        (2, Value::Null, "its age is unknown"),
        (3, json!(-1), "its age is unknown"),
        (4, json!("0"), "its age is unknown"),
    ] {
        let reply = viewer.answer(id, json!({"do": "arm", "age_ms": age}));
        assert!(reply["refused"].as_str().unwrap().contains(why), "{reply}");
    }
    let reply = viewer.answer(5, json!({"set": {"kp_scale": 0.1}, "age_ms": 2000}));
    assert!(reply["refused"].as_str().unwrap().contains("2.0 s old"), "{reply}");
    let reply = viewer.answer(6, json!({"set": {"kp_scale": 0.1}}));
    assert!(reply["refused"].is_string(), "{reply}");
    let seen = console.seen().0;
    until(|| console.seen().0 > seen + 20);
    // A reply that is missed takes it back to the start-up for a few ticks.
    assert!(matches!(console.seen().1, Phase::Init | Phase::Idle), "{:?}", console.seen());
    assert_eq!(launch.parameters().get("kp_scale"), Ok(1.0));
    assert_eq!(viewer.answer(7, json!({"do": "stop", "age_ms": 3_600_000}))["done"], true);
    let outcome = launch.wait().unwrap();
    assert!(outcome.stats.transitions.iter().all(|change| change.cause != Cause::ArmRequested));
}

#[test]
fn a_run_that_was_not_armed_says_so() {
    let launch = start(&robot("arming = \"operator\""), None);
    let console = Arc::clone(launch.console());
    until(|| console.seen().1 == Phase::Idle);
    let outcome = ended(launch);
    assert_eq!(outcome.machine.supervisor().lack(), Some(Cause::NotArmed));
}

/// Keeps the steering input that it sees.
struct Seen(Arc<Mutex<Vec<Teleop>>>);

impl Controller for Seen {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.0.lock().unwrap().push(state.teleop);
        commands.fill(ServoCommand::Position(PositionCommand::hold(0.0)));
        Ok(())
    }
}

#[test]
fn a_controller_sees_who_steers_and_silence_is_a_missing_heartbeat() {
    let config = robot("heartbeat_from = \"teleop\"\nheartbeat_ms = 2000\n[teleop]\nmax_forward = 0.2\n");
    let (viewer, live) = Viewer::pair();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let controller = Box::new(Seen(Arc::clone(&seen)));
    let options =
        LaunchOptions { live: Some(live), controller: Some(controller), ..LaunchOptions::default() };
    let launch = Launch::start(&config, "", options).unwrap();
    // Too old: no heartbeat, and nothing to be seen.
    viewer.ask(&json!({"by": "test", "teleop": {"forward": 0.1}, "age_ms": 301}));
    viewer.ask(&json!({"by": "test", "teleop": {"forward": 0.1}}));
    until(|| {
        viewer.ask(&json!({"by": "test", "teleop": {"forward": 9.0, "turn": 0.1}, "age_ms": 5.0}));
        std::thread::sleep(Duration::from_millis(20));
        seen.lock().unwrap().iter().any(|teleop| teleop.forward == 0.2)
    });
    // No steering input comes any more.
    let outcome = launch.wait().unwrap();
    let lost =
        |change: &khz_loop::supervisor::Transition| matches!(change.cause, Cause::HeartbeatLost { .. });
    assert!(outcome.stats.transitions.iter().any(lost));
    assert!(outcome.live.teleop.stale >= 2 && outcome.live.teleop.taken > 0, "{:?}", outcome.live);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|teleop| teleop.forward <= 0.2 && (teleop.age_ns >= 5_000_000)));
    assert!(seen.last().unwrap().age_ns > Teleop::STALE_NS, "it grows old");
}

#[test]
fn a_program_steers_by_udp_and_is_answered_with_the_robots_clock() {
    let port = port::free_port();
    let config = robot(&format!("[teleop]\nfrom = \"udp:127.0.0.1:{port}\""));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let controller = Box::new(Seen(Arc::clone(&seen)));
    let options = LaunchOptions { controller: Some(controller), ..LaunchOptions::default() };
    let launch = Launch::start(&config, "", options).unwrap();
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    program.connect(("127.0.0.1", port)).unwrap();
    let (mut seq, mut now) = (0, None::<u64>);
    until(|| {
        seq += 1;
        let input = json!({"seq": seq, "turn": 0.1, "now": now});
        let input = if now.is_some() { input } else { json!({"seq": seq, "turn": 0.1}) };
        program.send(input.to_string().as_bytes()).unwrap();
        let mut bytes = [0; 100];
        let len = program.recv(&mut bytes).unwrap();
        now = serde_json::from_slice::<Value>(&bytes[..len]).unwrap()["now"].as_u64();
        assert!(now.is_some());
        std::thread::sleep(Duration::from_millis(10));
        seen.lock().unwrap().iter().any(|teleop| teleop.turn == 0.1)
    });
    assert!(ended(launch).live.teleop.taken > 0);
}

#[test]
fn a_wrong_parameter_of_the_robot_file_is_refused_before_the_start() {
    for (text, why) in [
        ("kp_scal = 0.5", "there is no parameter `kp_scal`; did you mean `kp_scale`?"),
        ("kp_scale = 2", "kp_scale: 2 is outside 0 to 1"),
        ("mine = { value = 1, min = 0, max = 2 }", "or no controller reads it"),
    ] {
        let config = robot(&format!("[parameters]\n{text}"));
        let Err(error) = Launch::start(&config, "", LaunchOptions::default()) else { panic!("{text}") };
        let error = error.to_string();
        assert!(error.starts_with("[parameters] ") && error.contains(why), "{error}");
    }
}

#[test]
fn a_log_has_what_may_be_changed_and_every_change_with_its_tick() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = robot("[parameters]\nkp_scale = { value = 0.5, max = 0.9 }");
    config.log.enabled = true;
    config.log.path = folder.path().join("log.tlog").display().to_string();
    for mode in [khz_loop::timing::Mode::Inline, khz_loop::timing::Mode::Pipelined] {
        config.timing.mode = mode;
        let launch = start(&config, None);
        let parameters = launch.parameters().clone();
        until(|| launch.console().seen().1 == Phase::Active);
        let receipt = parameters.set_all("a test", &[("kp_scale", 0.25), ("kd_scale", 0.75)]).unwrap();
        until(|| receipt.tick().unwrap().is_some());
        let tick = receipt.tick().unwrap().unwrap();
        launch.steering().steer(
            &Teleop { turn: 0.5, ..Teleop::NONE },
            khz_rt::now_ns(),
            khz_rt::now_ns(),
            khz_loop::parameters::Source::from("me").unwrap(),
        );
        // One tick sees the input, and the recorder has all of the ticks before the end.
        let_tick(&launch, 5);
        let outcome = ended(launch);
        assert!(parameters.set("kp_scale", 0.3).is_err(), "the robot is down");
        let path = &outcome.recording.as_ref().unwrap().paths[0];
        let mut log = khz_tlog::Reader::open(std::fs::File::open(path).unwrap()).unwrap();
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        while let Some(item) = log.next().unwrap() {
            if ["parameter", "parameters", "teleop"].contains(&item.record.name()) {
                let value = json_of(&item.value().unwrap());
                found.entry(item.record.name().to_owned()).or_default().push(value);
            }
        }
        assert_eq!(found["parameters"].len(), 1);
        let declared: Value = serde_json::from_str(found["parameters"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&declared[0]["name"], &declared[0]["value"], &declared[0]["max"]),
            (&json!("kp_scale"), &json!(0.5), &json!(0.9))
        );
        let change = |name, value, before| json!({"tick": tick, "name": name, "value": value, "before": before, "by": "a test"});
        assert_eq!(found["parameter"], [change("kp_scale", 0.25, 0.5), change("kd_scale", 0.75, 1.0)]);
        assert_eq!(
            (found["teleop"].len(), &found["teleop"][0]["turn"], &found["teleop"][0]["by"]),
            (1, &json!(0.5), &json!("me"))
        );
    }
}

/// The fields of a record that these tests look at.
fn json_of(value: &khz_tlog::Value<'_>) -> Value {
    let fields = ["tick", "name", "value", "before", "by", "text", "turn"];
    let json = |value: khz_tlog::Value<'_>| match value {
        khz_tlog::Value::String(text) => json!(text),
        khz_tlog::Value::Uint(number) => json!(number),
        other => json!(other.number()),
    };
    fields.iter().filter_map(|field| Some(((*field).to_owned(), json(value.at(field)?)))).collect()
}

#[test]
fn a_stop_is_obeyed_whatever_floods_the_robot_and_answered_by_the_tick_that_obeyed() {
    let (viewer, of_robot) = Viewer::pair();
    let launch = start(&robot(""), Some(of_robot));
    until(|| launch.console().seen().1 == Phase::Active);
    let stick = json!({ "by": "page", "teleop": { "forward": 0.3 }, "age_ms": 9e9 }).to_string();
    // More than are looked at in a second, as long as they do not take half a minute.
    for _ in 0..30_000 {
        send(&viewer.0, stick.as_bytes(), SendFlags::empty()).unwrap();
    }
    let tick = viewer.answer(1, json!({ "do": "stop" }))["tick"].as_u64().unwrap();
    let outcome = launch.wait().unwrap();
    let stopped = outcome.stats.transitions.iter().find(|change| change.cause == Cause::OperatorStop);
    assert!(outcome.live.view.dropped > 0, "it was no flood");
    assert!(stopped.is_some_and(|change| change.tick <= tick), "{stopped:?} {tick}");
}
