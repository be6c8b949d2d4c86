//! A server with a robot that is none at the other end of its socket, and clients of all kinds.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_export::ros2::{self, Integers};
use khz_tlog::{Sink, Type, Width};
use khz_view::control::Teleop;
use khz_view::{Access, AskError, Connection, Fleet, Hub, Server, Serving, feed};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

/// Long enough on any machine.
const PATIENCE: Duration = Duration::from_secs(60);
const NOW_US: i64 = 1_583_798_400_263_000;

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn servo_type() -> Type {
    let joint = || Type::object(["position", "velocity", "torque"].map(|name| (name, Type::Float32)));
    Type::object([("hip", joint()), ("knee", joint())])
}

fn parameter_type() -> Type {
    Type::object([
        ("tick", Type::Uint(Width::Eight)),
        ("name", Type::String),
        ("value", Type::Float64),
        ("before", Type::Float64),
        ("by", Type::String),
    ])
}

const SERVO: u64 = 0;
const PARAMETERS: u64 = 1;
const PARAMETER: u64 = 2;
const LARGE: u64 = 3;

/// What a recorder sends, made by hand.
struct Robot {
    socket: OwnedFd,
    session: u64,
    number: u64,
}

impl Robot {
    fn send(&mut self, messages: &[u8]) {
        let mut bytes = b"KLOG\x01".to_vec();
        bytes.put(&self.session.to_le_bytes());
        bytes.put(&self.number.to_le_bytes());
        bytes.put(messages);
        self.number += 1;
        send(&self.socket, &bytes, SendFlags::NOSIGNAL).unwrap();
    }

    fn begin(&mut self, session: u64) {
        (self.session, self.number) = (session, 0);
        let mut messages = Vec::new();
        let text = Type::object([("text", Type::String)]);
        let records = [
            (SERVO, "servo", servo_type()),
            (PARAMETERS, "parameters", text),
            (PARAMETER, "parameter", parameter_type()),
            (LARGE, "large", Type::Bytes),
        ];
        for (number, name, ty) in records {
            messages.put(&[1]);
            messages.varuint(number);
            messages.counted(name.as_bytes());
            messages.counted(&ty.to_bytes());
        }
        self.send(&messages);
        let kp = json!([{ "name": "kp", "type": "float", "unit": "", "min": 0.0, "max": 2.0, "default": 1.0,
            "text": "stiffness", "value": 0.5 }, { "name": "on", "type": "boolean", "default": true, "value": true }]);
        let mut payload = Vec::new();
        payload.counted(kp.to_string().as_bytes());
        self.sample(PARAMETERS, NOW_US, &payload);
    }

    fn sample(&mut self, record: u64, time_us: i64, payload: &[u8]) {
        let mut message = vec![2];
        message.varuint(record);
        message.put(&time_us.to_le_bytes());
        message.counted(payload);
        self.send(&message);
    }

    fn servo(&mut self, at: i64) -> Vec<u8> {
        let payload = servo_payload(at);
        self.sample(SERVO, NOW_US + at, &payload);
        payload
    }

    fn changed(&mut self, tick: u64, name: &str, value: f64) {
        let mut payload = tick.to_le_bytes().to_vec();
        payload.counted(name.as_bytes());
        payload.put(&value.to_le_bytes());
        payload.put(&0f64.to_le_bytes());
        payload.counted(b"test");
        self.sample(PARAMETER, NOW_US + tick as i64, &payload);
    }

    fn answer(&mut self, answer: &Value) {
        send(&self.socket, answer.to_string().as_bytes(), SendFlags::NOSIGNAL).unwrap();
    }

    fn asked(&mut self) -> Value {
        let mut bytes = vec![0; 65_536];
        let (len, _) = recv(&self.socket, &mut bytes[..], RecvFlags::empty()).unwrap();
        serde_json::from_slice(&bytes[..len]).unwrap()
    }
}

fn servo_payload(at: i64) -> Vec<u8> {
    (0..6).flat_map(|value| ((at as f32) + value as f32).to_le_bytes()).collect()
}

struct Bench {
    hub: Arc<Hub>,
    at: SocketAddr,
    robot: Robot,
    feed: Option<JoinHandle<()>>,
    serving: Option<Serving>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Access::default())
    }

    fn with(access: Access) -> Self {
        let hub = Arc::new(Hub::default());
        // A port of its own, whoever else tests.
        let server = Server::bind(&([127, 0, 0, 1], 0).into(), access, hub.clone()).unwrap();
        let at = server.at();
        let serving = server.start().unwrap();
        let (robot, view) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let of_thread = hub.clone();
        let feed = std::thread::spawn(move || feed::socket(view, &of_thread).unwrap());
        let mut robot = Robot { socket: robot, session: 0, number: 0 };
        robot.begin(7);
        wait_until("the records are known", || hub.parameters().len() == 2 && hub.run().can_be_asked);
        Self { hub, at, robot, feed: Some(feed), serving: Some(serving) }
    }

    fn client(&self, protocol: &str) -> Client {
        Client::open(self.at, protocol).unwrap()
    }

    fn foxglove(&self) -> Client {
        let mut client = self.client("foxglove.sdk.v1");
        client.greeting();
        client
    }

    fn status_line(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// Ends the robot.
    fn end(&mut self) {
        let (other, _) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        self.robot.socket = other;
        self.feed.take().unwrap().join().unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.serving.take();
    }
}

struct Client {
    socket: WebSocket<TcpStream>,
    channels: Vec<Value>,
}

fn upgrade(at: SocketAddr, lines: &str) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    )
}

impl Client {
    fn open(at: SocketAddr, protocol: &str) -> Result<Self, String> {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(upgrade(at, &format!("Sec-WebSocket-Protocol: {protocol}\r\n")).as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).map_err(|_| String::from_utf8_lossy(&head).into_owned())?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        if !head.starts_with("HTTP/1.1 101 ") {
            return Err(head);
        }
        assert!(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
        let socket = WebSocket::from_raw_socket(stream, Role::Client, None);
        Ok(Self { socket, channels: Vec::new() })
    }

    fn say(&mut self, value: &Value) {
        self.socket.send(Message::text(value.to_string())).unwrap();
    }

    fn next(&mut self) -> Message {
        loop {
            match self.socket.read().unwrap() {
                Message::Ping(_) => {}
                message => return message,
            }
        }
    }

    /// The next text; messages of channels before it are left out.
    fn text(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.next() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    fn binary(&mut self) -> Vec<u8> {
        loop {
            if let Message::Binary(bytes) = self.next() {
                return bytes.to_vec();
            }
        }
    }

    fn greeting(&mut self) -> [Value; 3] {
        let greeting = [self.text(), self.text(), self.text()];
        let ops: Vec<_> = greeting.iter().map(|message| message["op"].as_str().unwrap()).collect();
        assert_eq!(ops, ["serverInfo", "advertise", "advertiseServices"]);
        self.channels = greeting[1]["channels"].as_array().unwrap().clone();
        greeting
    }

    fn channel(&self, topic: &str) -> u64 {
        let channel = self.channels.iter().find(|channel| channel["topic"] == topic);
        channel.unwrap_or_else(|| panic!("no {topic}"))["id"].as_u64().unwrap()
    }

    fn subscribe(&mut self, id: u32, topic: &str) {
        let channel = self.channel(topic);
        self.say(&json!({ "op": "subscribe", "subscriptions": [{ "id": id, "channelId": channel }] }));
    }

    /// What is answered to a request is answered behind it: after this all before has been done.
    fn settle(&mut self) {
        self.say(&json!({ "op": "getParameters", "parameterNames": ["none"], "id": "settle" }));
        while self.text()["id"] != "settle" {}
    }
}

#[test]
fn both_names_of_the_protocol_are_spoken() {
    let bench = Bench::new();
    for offered in ["foxglove.sdk.v1", "foxglove.websocket.v1", "foxglove.websocket.v1, foxglove.sdk.v1"] {
        let [info, advertised, services] = bench.client(offered).greeting();
        assert_eq!(info["sessionId"], "7");
        assert_eq!(info["capabilities"], json!(["parameters", "parametersSubscribe", "services"]));
        let topics: Vec<_> = advertised["channels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|channel| channel["topic"].clone())
            .collect();
        assert_eq!(topics, ["/servo", "/joint_states", "/parameters", "/parameter", "/large"]);
        let names: Vec<_> =
            services["services"].as_array().unwrap().iter().map(|service| service["name"].clone()).collect();
        assert_eq!(names, ["/stop", "/arm"]);
    }
    for offered in ["", "Sec-WebSocket-Protocol: mqtt\r\n"] {
        assert_eq!(bench.status_line(&upgrade(bench.at, offered)), "HTTP/1.1 400 Bad Request");
    }
}

#[test]
fn a_message_has_the_bytes_of_the_export() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    client.subscribe(5, "/servo");
    client.settle();
    let payload = bench.robot.servo(1000);
    let mut expected = vec![1, 5, 0, 0, 0];
    expected.extend(((NOW_US + 1000) as u64 * 1000).to_le_bytes());
    ros2::encode(&servo_type(), &payload, Integers::Rounded, &mut expected).unwrap();
    // The encoding aligns to where it begins.
    let mut cdr = Vec::new();
    ros2::encode(&servo_type(), &payload, Integers::Rounded, &mut cdr).unwrap();
    expected.truncate(13);
    expected.extend(cdr);
    assert_eq!(client.binary(), expected);
}

#[test]
fn a_late_subscriber_has_the_newest_at_once() {
    let mut bench = Bench::new();
    bench.robot.servo(1);
    let mut client = bench.foxglove();
    client.subscribe(1, "/parameters");
    assert!(String::from_utf8_lossy(&client.binary()).contains("stiffness"));
    client.say(&json!({ "op": "unsubscribe", "subscriptionIds": [1, 99] }));
    client.subscribe(2, "/joint_states");
    assert_eq!(client.binary()[1], 2);
}

#[test]
fn parameters_are_read_set_and_watched() {
    let mut bench = Bench::new();
    let (mut setter, mut watcher) = (bench.foxglove(), bench.foxglove());
    watcher.say(&json!({ "op": "subscribeParameterUpdates", "parameterNames": ["kp"] }));
    watcher.settle();
    setter.say(&json!({ "op": "getParameters", "parameterNames": [], "id": "a" }));
    let all = json!([{ "name": "kp", "type": "float64", "value": 0.5 }, { "name": "on", "value": true }]);
    assert_eq!(setter.text(), json!({ "op": "parameterValues", "id": "a", "parameters": all }));

    setter.say(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 1 }], "id": "b" }));
    let asked = bench.robot.asked();
    assert_eq!(
        (&asked["set"], asked["by"].as_str().unwrap().starts_with("foxglove 127.0.0.1:")),
        (&json!({ "kp": 1 }), true)
    );
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 10 }));
    let new = json!([{ "name": "kp", "type": "float64", "value": 1.0 }]);
    assert_eq!(setter.text(), json!({ "op": "parameterValues", "id": "b", "parameters": new }));
    assert_eq!(watcher.text(), json!({ "op": "parameterValues", "parameters": new }));

    setter.say(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 7 }], "id": "c" }));
    let asked = bench.robot.asked();
    bench.robot.answer(&json!({ "id": asked["id"], "refused": "kp: 7 is outside 0 to 2" }));
    assert_eq!(setter.text(), json!({ "op": "status", "level": 1, "message": "kp: 7 is outside 0 to 2" }));
    assert_eq!(setter.text()["parameters"], new, "the value in force");

    // What another has set, with the tick that took it; and a late sample of an older change.
    bench.robot.changed(20, "kp", 0.25);
    bench.robot.changed(5, "kp", 9.0);
    assert_eq!(watcher.text()["parameters"][0]["value"], 0.25);
    watcher.settle();
    assert_eq!(bench.hub.parameters()[0].value, Some(0.25));
}

#[test]
fn services_stop_and_arm() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    let request = |service: u8, encoding: &str| {
        let mut bytes = vec![2, service, 0, 0, 0, 9, 0, 0, 0];
        bytes.extend((encoding.len() as u32).to_le_bytes());
        bytes.extend(encoding.as_bytes());
        Message::binary(bytes)
    };
    client.socket.send(request(1, "json")).unwrap();
    let asked = bench.robot.asked();
    assert_eq!(asked["do"], "stop");
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 3 }));
    let response = client.binary();
    assert_eq!(response[..17], [3, 1, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, b'j', b's', b'o', b'n']);
    let body: Value = serde_json::from_slice(&response[17..]).unwrap();
    assert_eq!(body, json!({ "success": true, "message": "taken by tick 3" }));

    client.socket.send(request(2, "cdr")).unwrap();
    let asked = bench.robot.asked();
    assert_eq!(asked["do"], "arm");
    bench.robot.answer(&json!({ "id": asked["id"], "refused": "no" }));
    assert_eq!(client.binary()[16..], [0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, b'n', b'o', 0]);

    client.socket.send(request(9, "json")).unwrap();
    assert_eq!(client.text()["op"], "serviceCallFailure");
    client.socket.send(request(1, "ros1")).unwrap();
    assert_eq!(client.text()["op"], "serviceCallFailure");
}

/// A request held up for 7 s armed the robot long after its operator had been told that it is unreachable.
#[test]
fn what_moves_the_robot_says_how_old_it_is_and_a_stop_need_not() {
    let mut bench = Bench::new();
    let (mut page, mut program) = (bench.client("khz.page.v1"), bench.client("khz.ask.v1"));
    let before_us = bench.hub.now_us();
    std::thread::sleep(Duration::from_millis(30));
    page.say(&json!({ "ask": "arm", "id": 1, "now_us": before_us }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);
    page.say(&json!({ "ask": "set", "id": 2, "now_us": before_us, "values": { "kp": 1 } }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);
    program.say(&json!({ "do": "arm", "now_us": before_us }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);
    program.say(&json!({ "set": { "kp": 1 }, "now_us": before_us }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);

    for request in
        [json!({ "do": "arm" }), json!({ "set": { "kp": 1 } }), json!({ "do": "arm", "now_us": 1u64 << 60 })]
    {
        program.say(&request);
        assert!(program.text()["refused"].is_string(), "{request}");
    }
    page.say(&json!({ "ask": "arm", "id": 3 }));
    assert_eq!(page.text()["tell"], "mistake");
    program.say(&json!({ "do": "stop" }));
    assert_eq!(bench.robot.asked()["do"], "stop", "none of them came through");
}

/// Its language has no word for a time, but whatever follows a pong was sent after it.
#[test]
fn foxglove_proves_the_age_of_its_requests_by_pongs() {
    let arm = || Message::binary([&[2, 2, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0][..], b"json"].concat());
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    std::thread::sleep(Duration::from_millis(300));
    // It has read no ping, so it has answered none.
    client.socket.send(arm()).unwrap();
    let asked = bench.robot.asked();
    assert!(asked["do"] == "arm" && asked["age_ms"].as_f64().unwrap() >= 300.0, "{asked}");
    let pinged = loop {
        if let Message::Ping(told) = client.socket.read().unwrap() {
            break u64::from_le_bytes((*told).try_into().unwrap());
        }
    };
    client.socket.flush().unwrap();
    client.socket.send(arm()).unwrap();
    let age_ms = bench.robot.asked()["age_ms"].as_f64().unwrap();
    let since_ms = (bench.hub.now_us() - pinged) as f64 / 1e3;
    assert!(age_ms <= since_ms, "{age_ms} {since_ms}");
    // A time to come proves nothing.
    let future = (1u64 << 60).to_le_bytes().to_vec();
    client.socket.send(Message::Pong(future.into())).unwrap();
    client.socket.send(arm()).unwrap();
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= age_ms);
}

/// A bridge whose robot had just been started again said that it had none.
#[test]
fn a_run_that_has_told_no_parameters_yet_is_not_one_without_any() {
    let server =
        Server::bind(&([127, 0, 0, 1], 0).into(), Access::default(), Arc::new(Hub::default())).unwrap();
    let at = server.at();
    let _serving = server.start().unwrap();
    let asked = Connection::open(at, None).unwrap().parameters();
    assert!(matches!(&asked, Err(AskError::Unanswered(why)) if why.contains("ask again")), "{asked:?}");
}

#[test]
fn khz_param_lists_and_sets() {
    let mut bench = Bench::new();
    let at = bench.at;
    let asking = std::thread::spawn(move || {
        let mut connection = Connection::open(at, None).unwrap();
        let all = connection.parameters().unwrap();
        let set =
            |connection: &mut Connection, value| connection.set(json!({ "kp": value }).as_object().unwrap());
        let done = set(&mut connection, 0.25);
        let refused = set(&mut connection, 7.0);
        (all, done, refused, connection.parameters().unwrap())
    });
    let first = bench.robot.asked();
    assert!(first["by"].as_str().unwrap().starts_with("program "));
    bench.robot.answer(&json!({ "id": first["id"], "done": true, "tick": 4 }));
    let second = bench.robot.asked();
    bench.robot.answer(&json!({ "id": second["id"], "refused": "too large" }));
    let (all, done, refused, after) = asking.join().unwrap();
    assert_eq!((all[0]["max"].clone(), all[0]["value"].clone()), (json!(2.0), json!(0.5)));
    assert_eq!(
        all[1],
        json!({ "name": "on", "type": "boolean", "unit": "", "min": null, "max": null,
        "default": true, "text": "", "value": true })
    );
    assert!(matches!(done, Ok(Some(4))));
    assert!(matches!(refused, Err(AskError::Refused(why)) if why == "too large"));
    assert_eq!(after[0]["value"], 0.25, "the value that a tick has taken");
}

#[test]
fn programs_stop_and_steer() {
    let mut bench = Bench::new();
    let at = bench.at;
    let asking = std::thread::spawn(move || {
        let mut connection = Connection::open(at, None).unwrap();
        let now_us = connection.now_us().unwrap();
        // From the future: refused, which answers no request.
        connection.steer(&Teleop { forward: 9.0, ..Teleop::default() }, now_us + 1_000_000_000).unwrap();
        connection.steer(&Teleop { forward: 0.3, ..Teleop::default() }, now_us).unwrap();
        let (later_us, run) = connection.now().unwrap();
        connection.ask_for(Some("ann\u{1b}[2J"));
        connection.mean(Some(run.unwrap() + 1));
        assert!(matches!(connection.stop(), Err(AskError::Refused(why)) if why.contains("another run")));
        connection.mean(run);
        (connection.stop(), later_us > now_us)
    });
    let steered = bench.robot.asked();
    assert_eq!(steered["teleop"]["forward"], 0.3);
    assert!(steered["age_ms"].as_f64().is_some_and(|age| age >= 0.0));
    let stop = bench.robot.asked();
    assert_eq!(stop["do"], "stop");
    assert!(stop["by"].as_str().unwrap().starts_with("ann[2J via 127.0.0.1:"), "{}", stop["by"]);
    assert!(!bench.hub.is_watched(), "who only asks does not look");
    bench.robot.answer(&json!({ "id": stop["id"], "done": true, "tick": 7 }));
    assert!(matches!(asking.join().unwrap(), (Ok(Some(7)), true)));
}

#[derive(Debug)]
struct Two([Arc<Hub>; 2]);

impl Fleet for Two {
    fn page(&self, token: Option<&str>) -> String {
        format!("the list, {token:?}")
    }

    fn hub(&self, robot: &str) -> Result<Option<Arc<Hub>>, String> {
        if robot == "seventeen" {
            return Err("16 robots are shown".into());
        }
        Ok(["one", "two"].iter().position(|name| *name == robot).map(|at| self.0[at].clone()))
    }

    fn hubs(&self) -> Vec<Arc<Hub>> {
        self.0.to_vec()
    }
}

#[test]
fn several_robots_are_behind_one_port() {
    let hubs: [Arc<Hub>; 2] = Default::default();
    let access = Access::default().with_token("s3cret");
    let server =
        Server::bind_fleet(&"127.0.0.1:0".parse().unwrap(), access, Arc::new(Two(hubs.clone()))).unwrap();
    let at = server.at();
    let serving = server.start().unwrap();
    let get = |target: &str| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/?token=s3cret").contains("the list, Some(\"s3cret\")"));
    assert!(get("/?token=s3cret&robot=two").contains("khz.page.v1"));
    assert!(get("/?token=s3cret&robot=three").starts_with("HTTP/1.1 404"));
    // It was as if there was no such robot.
    let full = get("/?token=s3cret&robot=seventeen");
    assert!(full.starts_with("HTTP/1.1 503") && full.contains("16 robots are shown"), "{full}");
    assert!(get("/?robot=two").starts_with("HTTP/1.1 403"));
    assert!(hubs.iter().all(|hub| hub.clients().is_empty()));
    drop(serving);
}

#[test]
fn with_a_token_nothing_is_to_be_had_without_it() {
    let bench = Bench::with(Access::default().with_token("s3cret"));
    let forbidden = "HTTP/1.1 403 Forbidden";
    let get =
        |target: &str| bench.status_line(&format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", bench.at));
    assert_eq!((get("/").as_str(), get("/?token=s3cret").as_str()), (forbidden, "HTTP/1.1 200 OK"));
    let protocol = "Sec-WebSocket-Protocol: foxglove.sdk.v1\r\n";
    assert_eq!(bench.status_line(&upgrade(bench.at, protocol)), forbidden);
    assert!(matches!(Connection::open(bench.at, None), Err(AskError::Refused(_))));
    assert!(matches!(Connection::open(bench.at, Some("s3cres")), Err(AskError::Refused(_))));
    assert!(Connection::open(bench.at, Some("s3cret")).is_ok());
}

#[test]
fn pages_of_others_cannot_connect() {
    let bench = Bench::new();
    let with = |lines: &str| {
        bench.status_line(&upgrade(bench.at, &format!("Sec-WebSocket-Protocol: khz.page.v1\r\n{lines}")))
    };
    assert_eq!(with("Origin: http://evil.example\r\n"), "HTTP/1.1 403 Forbidden");
    let rebound = upgrade(bench.at, "Sec-WebSocket-Protocol: khz.page.v1\r\n")
        .replace(&bench.at.to_string(), "evil.example");
    assert_eq!(bench.status_line(&rebound), "HTTP/1.1 403 Forbidden");
}

#[test]
fn a_server_for_others_needs_a_token() {
    assert!(Server::bind(&"0.0.0.0:0".parse().unwrap(), Access::default(), Arc::default()).is_err());
}

#[test]
fn a_client_that_never_reads_costs_the_others_nothing() {
    let mut bench = Bench::new();
    let (mut deaf, mut reader) = (bench.foxglove(), bench.foxglove());
    for client in [&mut deaf, &mut reader] {
        client.subscribe(1, "/large");
        client.settle();
    }
    const COUNT: i64 = 5_000;
    let reading = std::thread::spawn(move || {
        let mut last = 0;
        while last < COUNT {
            let bytes = reader.binary();
            let time_us = u64::from_le_bytes(bytes[5..13].try_into().unwrap()) as i64 / 1000 - NOW_US;
            assert!(time_us > last);
            last = time_us;
        }
    });
    let mut payload = Vec::new();
    payload.counted(&[7; 8000]);
    let mut sent = 0;
    let mut send = |robot: &mut Robot| {
        sent += 1;
        robot.sample(LARGE, NOW_US + sent, &payload);
        sent
    };
    // A view that does not keep up loses some; not those that come after it has.
    wait_until("all are read", || {
        (0..COUNT).for_each(|_| _ = send(&mut bench.robot));
        reading.is_finished()
    });
    reading.join().unwrap();
    let mut last = 0;
    let hub = bench.hub.clone();
    wait_until("the last is there", || {
        last = send(&mut bench.robot);
        std::thread::sleep(Duration::from_millis(2));
        hub.latest("large").is_some_and(|(time_us, ..)| time_us == NOW_US + last)
    });
    let lost: Vec<u64> = bench.hub.clients().iter().map(|(_, lost)| *lost).collect();
    assert!(lost[0] > 0, "{lost:?}");
    // It is still served when it reads again, with the newest.
    let newest = (0..last).any(|_| deaf.binary()[5..13] == ((NOW_US + last) as u64 * 1000).to_le_bytes());
    assert!(newest);
}

#[test]
fn who_vanishes_is_forgotten() {
    let mut bench = Bench::new();
    for round in 0..10 {
        let mut client = bench.foxglove();
        client.subscribe(1, "/servo");
        // Without a farewell, in the middle of something.
        let mut stream = client.socket.get_ref().try_clone().unwrap();
        stream.write_all(&[0x82, 0xfe, 0x10][..round % 4]).unwrap();
        drop((client, stream));
        bench.robot.servo(round as i64);
    }
    wait_until("all are gone", || bench.hub.clients().is_empty());
}

#[test]
fn every_truncated_upgrade_and_frame_is_survived() {
    let bench = Bench::new();
    let mut whole = upgrade(bench.at, "Sec-WebSocket-Protocol: foxglove.sdk.v1\r\n").into_bytes();
    whole.extend([0x81, 0x85, 1, 2, 3, 4, b'h', b'e', b'l', b'l', b'o']);
    for len in 0..=whole.len() {
        let mut stream = TcpStream::connect(bench.at).unwrap();
        stream.write_all(&whole[..len]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    wait_until("all are gone", || bench.hub.clients().is_empty());
    bench.foxglove().settle();
}

#[test]
fn garbage_is_answered_or_ends_only_its_own_connection() {
    let bench = Bench::new();
    let mut client = bench.foxglove();
    let deep = "[".repeat(50_000);
    for bad in
        ["", "{", "7", "null", "[]", r#"{"op":7}"#, r#"{"op":"fetchAsset"}"#, r#"{"op":"advertise"}"#, &deep]
    {
        client.socket.send(Message::text(bad.to_owned())).unwrap();
        let status = client.text();
        assert_eq!((&status["op"], &status["level"]), (&json!("status"), &json!(2)), "{status}");
    }
    for op in ["subscribe", "unsubscribe", "getParameters", "setParameters", "subscribeParameterUpdates"] {
        for value in [json!(null), json!(7), json!([7, null, {}, [[]]]), json!({ "a": 1 })] {
            client.say(
                &json!({ "op": op, "subscriptions": value, "subscriptionIds": value, "parameterNames": value,
                "parameters": value, "id": value }),
            );
        }
    }
    for len in 0..16 {
        client.socket.send(Message::binary(vec![2; len])).unwrap();
    }
    client.settle();
    let random: Vec<u8> = (0..1_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for protocol in ["foxglove.sdk.v1", "khz.page.v1", "khz.ask.v1"] {
        let other = bench.client(protocol);
        // It may end the connection before it has all.
        let _ = other.socket.get_ref().write_all(&random);
        drop(other);
    }
    // Larger than any message may be.
    let mut large = bench.foxglove();
    let _ = large.socket.send(Message::binary(vec![0; 1 << 20]));
    while large.socket.read().is_ok() {}
    client.settle();
}

#[test]
fn a_thousand_subscriptions_are_no_more_than_there_are_channels() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    let all: Vec<Value> =
        (0..1000).map(|id| json!({ "id": id, "channelId": client.channel("/servo") })).collect();
    client.say(&json!({ "op": "subscribe", "subscriptions": all }));
    (0..999).for_each(|_| assert_eq!(client.text()["level"], 2));
    client.settle();
    bench.robot.servo(1);
    bench.robot.servo(2);
    let times: Vec<_> = (0..2).map(|_| client.binary()[5..13].to_vec()).collect();
    assert_ne!(times[0], times[1], "each message once");
}

#[test]
fn another_run_has_other_channels() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    let old: Vec<Value> = client.channels.iter().map(|channel| channel["id"].clone()).collect();
    bench.robot.begin(8);
    let gone = client.text();
    assert_eq!((&gone["op"], &gone["channelIds"]), (&json!("unadvertise"), &json!(old)));
    let info = client.text();
    assert_eq!((&info["op"], &info["sessionId"]), (&json!("serverInfo"), &json!("8")));
    let mut new = Vec::new();
    while new.len() < 5 {
        let advertised = client.text();
        assert_eq!(advertised["op"], "advertise");
        new.extend(advertised["channels"].as_array().unwrap().clone());
    }
    assert!(new.iter().all(|channel| !old.contains(&channel["id"])));
}

#[test]
fn the_end_of_the_robot_is_told_to_whoever_waits() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    client.say(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 1 }], "id": "a" }));
    bench.robot.asked();
    bench.end();
    assert_eq!(client.text()["message"], "the run has ended");
    assert_eq!(client.text()["parameters"][0]["value"], 0.5);
    assert!(bench.hub.run().is_over);
    client.subscribe(1, "/parameters");
    client.binary();
}

#[test]
fn a_robot_that_does_not_answer_is_no_reason_to_wait() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    client.say(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 1 }], "id": "a" }));
    let asked = bench.robot.asked();
    assert!(client.text()["message"].as_str().unwrap().contains("did not answer"));
    // What it answers later is for nobody.
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 1 }));
    client.text();
    client.settle();
}

#[test]
fn what_a_robot_sends_wrongly_is_counted() {
    let mut bench = Bench::new();
    let before = bench.hub.counts();
    for bytes in [&b"{"[..], b"{\"id\":1}", b"KLOG", b"nothing", &[0; 100]] {
        send(&bench.robot.socket, bytes, SendFlags::NOSIGNAL).unwrap();
    }
    bench.robot.sample(77, 0, &[]);
    bench.robot.sample(SERVO, 0, &[1, 2, 3]);
    bench.robot.number += 5;
    bench.robot.servo(1);
    wait_until("the last has come", || bench.hub.counts().samples > before.samples);
    let counts = bench.hub.counts();
    assert_eq!((counts.refused, counts.unknown, counts.unfit, counts.lost), (5, 1, 1, 5));
}

#[test]
fn a_stop_is_passed_on_though_the_robot_owes_many_answers() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    for _ in 0..100 {
        let set = json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 0.5 }] });
        client.socket.send(Message::text(set.to_string())).unwrap();
    }
    let mut stop = vec![2, 1, 0, 0, 0, 9, 0, 0, 0];
    stop.extend(4_u32.to_le_bytes());
    stop.extend(b"json");
    client.socket.send(Message::binary(stop)).unwrap();
    while bench.robot.asked()["do"] != "stop" {}
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let bench = Bench::new();
    let silent: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(bench.at).unwrap()).collect();
    bench.foxglove();
    drop(silent);
}

#[test]
fn a_client_with_megabytes_of_unread_answers_was_not_heard() {
    let mut bench = Bench::new();
    bench.robot.servo(1);
    let mut page = bench.client("khz.page.v1");
    let window = r#"{"ask":"window","id":1,"level":0,"from":0,"count":2000,"signals":[0,1,2,3,4,5]}"#;
    // 96 kB each, more than the system keeps.
    for _ in 0..200 {
        page.socket.send(Message::text(window)).unwrap();
    }
    page.socket.send(Message::text(r#"{"ask":"stop","id":2}"#)).unwrap();
    while bench.robot.asked()["do"] != "stop" {}
}

/// 64 of them kept everybody else out, Stop included.
#[test]
fn silent_websockets_keep_nobody_from_stop() {
    let mut bench = Bench::new();
    let silent: Vec<_> = (0..150).map(|_| Client::open(bench.at, "khz.ask.v1")).collect();
    let at = bench.at;
    let stopping = std::thread::spawn(move || Connection::open(at, None).unwrap().stop());
    let asked = bench.robot.asked();
    assert_eq!(asked["do"], "stop");
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 7 }));
    assert!(matches!(stopping.join().unwrap(), Ok(Some(7))));
    drop(silent);
}

#[test]
fn whoever_reads_and_whoever_waits_for_a_stop_keep_their_seats() {
    let mut bench = Bench::new();
    let (mut reader, mut stopper) = (bench.foxglove(), bench.client("khz.ask.v1"));
    reader.subscribe(1, "/servo");
    reader.settle();
    bench.robot.servo(1);
    reader.binary();
    stopper.say(&json!({ "do": "stop" }));
    let asked = bench.robot.asked();
    let mut silent = Vec::new();
    for at in 0..150 {
        silent.push(Client::open(bench.at, "khz.ask.v1"));
        // Read all the while: who has taken nothing for a second may lose its seat, and a busy machine takes longer for 150.
        if at % 5 == 0 {
            bench.robot.servo(2 + at);
            reader.binary();
        }
    }
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 7 }));
    // Either answer; a machine that is busy may have taken longer than the view waits.
    let answer = stopper.text();
    assert!(answer["done"] == true || answer["unreachable"].is_string(), "{answer}");
    bench.robot.servo(200);
    reader.binary();
    drop(silent);
}

/// Its requests filled the socket, and a stop was answered with "takes no more requests at the moment".
#[test]
fn a_stop_reaches_a_robot_that_has_read_nothing_for_long() {
    let mut bench = Bench::new();
    let mut steering: Vec<Client> = (0..4).map(|_| bench.client("khz.ask.v1")).collect();
    for client in &mut steering {
        let steer = json!({ "steer": { "forward": 0.1 }, "now_us": bench.hub.now_us() }).to_string();
        (0..200).for_each(|_| client.socket.write(Message::text(steer.clone())).unwrap());
        client.socket.flush().unwrap();
    }
    // Refused, because the robot takes no more.
    let refused = steering[0].text();
    assert!(refused["refused"].as_str().unwrap().contains("takes no more"), "{refused}");
    let mut program = bench.client("khz.ask.v1");
    program.say(&json!({ "do": "stop" }));
    program.say(&json!({ "now": true }));
    let next = program.text();
    assert!(next["now_us"].is_u64(), "the stop was not passed on: {next}");
    while bench.robot.asked()["do"] != "stop" {}
}

#[test]
fn a_client_that_changes_too_much_is_refused_with_the_limit_and_can_still_stop() {
    let mut bench = Bench::new();
    let mut client = bench.client("khz.ask.v1");
    let now_us = bench.hub.now_us();
    for _ in 0..1000 {
        client.say(&json!({ "set": { "kp": 1 }, "now_us": now_us }));
    }
    client.say(&json!({ "do": "stop" }));
    while bench.robot.asked()["do"] != "stop" {}
    while !client.text().to_string().contains("100 times a second") {}
}

/// Samples that a busy view had not taken in yet were in the way of the answer to a stop.
#[test]
fn an_answer_does_not_wait_behind_samples() {
    let mut bench = Bench::new();
    let mut client = bench.client("khz.ask.v1");
    client.say(&json!({ "do": "stop" }));
    let asked = bench.robot.asked();
    let hub = bench.hub.clone();
    // A page searches the history.
    let store = hub.store();
    (0..2000).for_each(|at| drop(bench.robot.servo(at)));
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 7 }));
    let answer = client.text();
    drop(store);
    assert_eq!(answer["tick"], 7, "{answer}");
}
