use super::*;
use crate::control::Robot;
use khz_run::record::Tick;
use khz_tlog::{Record, Sink, Type};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use std::os::fd::OwnedFd;

fn client(hub: &Hub) -> PageClient {
    PageClient::new(hub.join("page test".into(), [127, 0, 0, 1].into()).unwrap().unwrap())
}

/// A datagram of session 1.
fn datagram(number: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    [&b"KLOG\x01"[..], &1u64.to_le_bytes(), &number.to_le_bytes(), &messages.concat()].concat()
}

fn schema(record: u8, name: &str, ty: &Type) -> Vec<u8> {
    let mut out = vec![1, record];
    out.counted(name.as_bytes());
    out.counted(&ty.to_bytes());
    out
}

fn sample(record: u8, time_us: i64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, record];
    out.put(&time_us.to_le_bytes());
    out.counted(payload);
    out
}

/// A run with one signal, whose value is its time in ms but for a spike at 500.
fn hub() -> Hub {
    let hub = Hub::default();
    let ty = Type::object([("x", Type::Float32)]);
    hub.datagram(&datagram(0, &[schema(0, "one", &ty)]));
    for ms in 0..1000i64 {
        let value = if ms == 500 { 1e6 } else { ms as f32 };
        hub.datagram(&datagram(ms as u64 + 1, &[sample(0, ms * 1000, &value.to_le_bytes())]));
    }
    hub
}

fn json(replies: &[Reply]) -> Value {
    match replies {
        [Reply::Text(text)] => serde_json::from_str(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_learns_what_the_run_is_and_what_is_new() {
    let hub = hub();
    let mut client = client(&hub);
    let run = json(&client.receive(r#"{"ask":"run"}"#, &hub));
    assert_eq!((&run["signals"][0]["name"], &run["records"][0]), (&json!("one.x"), &json!("one")));
    let news = json(&client.receive(r#"{"ask":"news"}"#, &hub));
    assert_eq!(news["extent_us"], json!([0, 999_000]));
    assert_eq!((&news["signature"], &news["is_controllable"]), (&run["signature"], &json!(false)));
    assert_eq!(news["verdict"]["text"], "no record of ticks");
    hub.datagram(&datagram(5000, &[schema(1, "two", &Type::Bool)]));
    let news =
        json(&client.receive(r#"{"ask":"news","events":0,"late":7,"changes":18446744073709551615}"#, &hub));
    assert_ne!(news["signature"], run["signature"], "there is a record more");
    assert_eq!(news["losses"]["datagrams"], 3999);
}

#[test]
fn a_window_is_what_its_head_says_and_has_the_spike() {
    let hub = hub();
    let question = r#"{"ask":"window","id":7,"level":15,"from":0,"count":40,"signals":[0,99]}"#;
    let [Reply::Binary(bytes)] = &client(&hub).receive(question, &hub)[..] else { panic!() };
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let f32_at = |at: usize| f32::from_le_bytes(bytes[32 + 4 * at..36 + 4 * at].try_into().unwrap());
    assert_eq!([u32_at(0), u32_at(4), u32_at(16), u32_at(20), u32_at(24)], [7, 15, 40, 2, 1]);
    assert_eq!(bytes.len(), 32 + 4 * 2 * 2 * 40);
    assert_eq!((f32_at(0), f32_at(40 + (500_000 >> 15))), (0.0, 1e6));
    assert!(f32_at(39).is_nan() && f32_at(80).is_nan());
}

#[test]
fn whatever_a_page_asks_is_answered_within_bounds() {
    let hub = hub();
    let mut client = client(&hub);
    let many: Vec<String> = (0..10_000).map(|signal| signal.to_string()).collect();
    let many = format!(
        r#"{{"ask":"window","id":1,"level":4294967295,"from":-1e300,"count":99999999,"signals":[{}]}}"#,
        many.join(",")
    );
    for question in
        ["", "{}", "[1]", "\"run\"", r#"{"ask":"steer","now_us":99999999999999,"teleop":{}}"#, &many]
    {
        let replies = client.receive(question, &hub);
        let bytes: usize = replies
            .iter()
            .map(|reply| match reply {
                Reply::Text(text) => text.len(),
                Reply::Binary(bytes) => bytes.len(),
            })
            .sum();
        assert!(replies.len() == 1 && bytes < 4 << 20, "{question:.40}: {bytes}");
    }
}

/// A hub with the robot's end of its socket.
fn with_robot() -> (Hub, OwnedFd) {
    let hub = hub();
    let (ours, robot) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    hub.connect(Robot::new(ours));
    (hub, robot)
}

fn received(robot: &OwnedFd) -> Value {
    let mut buffer = [0; 4096];
    let (len, _) = recv(robot, &mut buffer[..], RecvFlags::DONTWAIT).unwrap();
    serde_json::from_slice(&buffer[..len]).unwrap()
}

#[test]
fn requests_reach_the_robot_and_answers_the_page_that_asked() {
    let (hub, robot) = with_robot();
    let mut client = client(&hub);
    assert_eq!(client.receive(r#"{"ask":"set","id":41,"now_us":0,"values":{"kp":0.4}}"#, &hub), []);
    let asked = received(&robot);
    assert_eq!((&asked["set"], &asked["by"]), (&json!({ "kp": 0.4 }), &json!("page test")));
    let id = asked["id"].as_u64().unwrap();
    let message = json(&client.answered(id, &Answer::Denied("kp: too much".into())));
    assert_eq!(message, json!({ "tell": "answer", "id": 41.0, "refused": "kp: too much" }));
    assert_eq!(client.answered(id, &Answer::Done(None)), [], "answered before");
    assert_eq!(client.receive(r#"{"ask":"stop","id":42}"#, &hub), []);
    let asked = received(&robot);
    assert_eq!(asked["do"], "stop");
    let message = json(&client.answered(asked["id"].as_u64().unwrap(), &Answer::Done(Some(9))));
    assert_eq!(message, json!({ "tell": "answer", "id": 42.0, "done": true, "tick": 9 }));
}

#[test]
fn the_stick_says_how_old_it_is() {
    let (hub, robot) = with_robot();
    let mut client = client(&hub);
    let question = r#"{"ask":"steer","now_us":0,"teleop":{"forward":0.3}}"#;
    assert_eq!(client.receive(question, &hub), []);
    let steered = received(&robot);
    assert_eq!((&steered["teleop"]["forward"], &steered["teleop"]["turn"]), (&json!(0.3), &json!(0.0)));
    assert!(steered["age_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn who_drives_is_known_after_the_clock_was_set() {
    let hub = hub();
    let ty = Type::object([
        ("by", Type::String),
        ("forward", Type::Float32),
        ("left", Type::Float32),
        ("turn", Type::Float32),
    ]);
    hub.datagram(&datagram(5000, &[schema(1, "teleop", &ty)]));
    // Both clocks of the run are an hour back now.
    let set_us = |ms: i64| ms * 1000 - 3_600_000_000;
    hub.datagram(&datagram(5001, &[sample(0, set_us(1000), &0f32.to_le_bytes())]));
    let mut input = vec![3];
    input.extend_from_slice(b"ann");
    [0.3f32, 0.0, 0.0].iter().for_each(|value| input.extend_from_slice(&value.to_le_bytes()));
    hub.datagram(&datagram(5002, &[sample(1, set_us(1000), &input)]));
    hub.datagram(&datagram(5003, &[sample(0, set_us(1050), &0f32.to_le_bytes())]));
    let news = json(&client(&hub).receive(r#"{"ask":"news"}"#, &hub));
    assert_eq!((&news["steered"]["by"], &news["steered"]["age_ms"]), (&json!("ann"), &json!(50.0)));
}

#[test]
fn a_robot_that_only_sends_cannot_be_stopped_from_here() {
    let hub = hub();
    let message = json(&client(&hub).receive(r#"{"ask":"stop","id":1}"#, &hub));
    assert!(message["refused"].as_str().unwrap().contains("only receives"), "{message}");
}

#[test]
fn the_page_is_one_file_that_loads_nothing() {
    let html = HTML.as_str();
    assert_eq!(html.matches("<script").count(), 1);
    assert_eq!((html.matches("</script").count(), html.matches("</style").count()), (1, 1));
    for foreign in
        ["/* style */", "/* script */", "src=", "url(", "@import", "fetch(", "innerHTML", "https://"]
    {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

fn event(from: &str, to: &str, cause: &str, is_trouble: bool) -> Vec<u8> {
    let mut payload = vec![9];
    [from, to, cause, "hip"].iter().for_each(|text| payload.counted(text.as_bytes()));
    payload.put(&[u8::from(is_trouble)]);
    payload
}

#[test]
fn the_verdict_names_what_brought_the_robot_down_until_it_walks_again() {
    let mut store = crate::store::Store::default();
    let texts = ["from", "to", "cause", "servo"].map(|name| (name, Type::String));
    let fields = [("tick", Type::VarUint)].into_iter().chain(texts).chain([("trouble", Type::Bool)]);
    store.declare(0, "event", &Type::object(fields));
    store.declare(1, "tick", &Type::object([("number", Type::VarUint)]));
    store.sample(1, 0, &[1]);
    let at = |store: &mut crate::store::Store, event: Vec<u8>| {
        store.sample(0, 0, &event);
        verdict::verdict(store, false)
    };
    assert_eq!(at(&mut store, event("armed", "active", "controller started", false)).0, "note");
    let (level, text) = at(&mut store, event("active", "damping", "no reply", true));
    assert_eq!((level, text.as_str()), ("bad", "damping in tick 9: no reply (hip)"));
    assert_eq!(at(&mut store, event("damping", "fault", "every joint stands still", true)).1, text);
    // The recorder's word of its log may come from the tick before.
    assert_eq!(at(&mut store, event("active", "active", "the log is incomplete", true)).1, text);
    assert_eq!(at(&mut store, event("armed", "active", "controller started", false)).0, "note");
}

/// A log that was removed, a servo that is hot: the page was as green as before.
#[test]
fn the_verdict_names_the_newest_warning() {
    let mut store = crate::store::Store::default();
    store.declare(0, "event", &khz_run::record::Event::schema());
    store.declare(1, "tick", &Tick::schema());
    for number in 0..300 {
        let planned_ns = number as i64 * 1_000_000;
        let tick =
            Tick { number, planned_ns, waited_for_ns: planned_ns, started_ns: planned_ns, ..Tick::UNKNOWN };
        store.sample(1, planned_ns / 1000, &tick.to_bytes());
    }
    let mut warn = |tick, cause: &str, servo: &str| {
        let [from, to] = ["active", "active"].map(Into::into);
        let event = khz_run::record::Event {
            tick,
            from,
            to,
            cause: cause.into(),
            servo: servo.into(),
            trouble: true,
        };
        store.sample(0, 0, &event.to_bytes());
        [false, true].map(|is_over| verdict::verdict(&store, is_over))
    };
    let [(level, live), (level_over, over)] = warn(100, "hot", "knee");
    assert_eq!((level, level_over), ("warning", "warning"));
    assert_eq!(live, "last 10 s: Held 1000 Hz; warned in tick 100 of: hot (knee)");
    assert_eq!(over, "the run has ended; Held 1000 Hz; warned in tick 100 of: hot (knee)");
    let [(_, live), _] = warn(200, "the log is incomplete: it was removed", "");
    assert!(
        live.ends_with("; warned in tick 200 of: the log is incomplete: it was removed (and 1 before)"),
        "{live}"
    );
}

#[test]
fn a_late_tick_that_cost_nothing_is_counted_in_the_verdict() {
    let mut store = crate::store::Store::default();
    store.declare(0, "tick", &Tick::schema());
    for number in 0..300 {
        let late_ns = if number == 200 { 300_000 } else { 5_000 };
        let planned_ns = number as i64 * 1_000_000;
        let tick = Tick {
            number,
            planned_ns,
            waited_for_ns: planned_ns,
            started_ns: planned_ns + late_ns,
            wake_latency_ns: late_ns,
            queued_before_ns: late_ns,
            ..Tick::UNKNOWN
        };
        store.sample(0, planned_ns / 1000, &tick.to_bytes());
    }
    let (held, newest) = ("Held 1000 Hz", "the newest: tick 200 by 295 µs in wake, preempted");
    let live = format!("last 10 s: {held}; 1 late tick, {newest}");
    assert_eq!(verdict::verdict(&store, false), ("good", live));
    let over = format!("the run has ended; {held}; 1 late tick");
    assert_eq!(verdict::verdict(&store, true), ("good", over));
}
