//! A server with a robot that is none at the other end of its socket, and clients of all kinds.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod crowd;
mod foxglove;
mod requests;

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
        // A free port: tests run side by side.
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

    fn send(&mut self, value: &Value) {
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
        self.send(&json!({ "op": "subscribe", "subscriptions": [{ "id": id, "channelId": channel }] }));
    }

    /// What is answered to a request is answered behind it: after this all before has been done.
    fn settle(&mut self) {
        self.send(&json!({ "op": "getParameters", "parameterNames": ["none"], "id": "settle" }));
        while self.text()["id"] != "settle" {}
    }
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
