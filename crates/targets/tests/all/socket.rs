//! Programs in other languages: JSON by a Unix socket and UDP. In real time, but nothing here must be fast.

use crate::robot::Robot;
use khz_targets::socket::Receiver;
use khz_targets::{Refused, TargetsConfig};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

struct Program(OwnedFd);

impl Program {
    fn at(path: &Path) -> Self {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Self(socket)
    }

    fn asks(&self, message: &Value) -> Value {
        self.says(&message.to_string())
    }

    fn says(&self, text: &str) -> Value {
        send(&self.0, text.as_bytes(), SendFlags::empty()).unwrap();
        let mut bytes = vec![0; 65_536];
        let (len, _) = recv(&self.0, &mut bytes, RecvFlags::empty()).unwrap();
        serde_json::from_slice(&bytes[..len]).unwrap()
    }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("khz-targets-{name}-{}", std::process::id()))
}

/// A robot whose clock is this computer's, and where it listens.
fn robot(name: &str) -> (Robot, PathBuf, Receiver) {
    let path = path(name);
    let robot = Robot::new(&TargetsConfig::default(), 4000.0);
    let receiver = Receiver::start(&format!("unix:{}", path.display()), robot.desk.clone()).unwrap();
    (robot, path, receiver)
}

#[test]
fn a_program_is_answered_and_one_that_ends_lets_go() {
    let (robot, path, receiver) = robot("answers");
    let first = Program::at(&path);
    let answer = first.asks(&json!({"from": "policy", "seq": 3, "position": [0.1, 0.2, 0.3], "state": true}));
    assert_eq!((&answer["seq"], &answer["stage"]), (&json!(3), &json!("idle")), "{answer}");
    assert_eq!(answer["state"]["joints"], json!(["shoulder", "elbow", "wrist"]));
    assert!(answer["now"].is_i64(), "{answer}");
    let second = Program::at(&path);
    let other = json!({"from": "other", "joints": ["elbow"], "position": [0.1]});
    let held = second.asks(&other);
    assert_eq!((&held["refused"], &held["by"]), (&json!("held"), &json!("policy")));
    drop(first);
    while second.asks(&other).get("refused").is_some() {
        std::thread::yield_now();
    }
    let status = second.asks(&json!({"from": "other", "status": true}));
    assert_eq!(status["status"]["programs"]["policy"]["taken"], json!(1), "{status}");
    drop(receiver);
    assert!(!path.exists());
    drop(robot);
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let (robot, path, _receiver) = robot("refuses");
    let program = Program::at(&path);
    for (text, why) in [
        ("junk", "no JSON"),
        ("[1]", "JSON object"),
        (r#"{"position":[0.1,0.2,0.3]}"#, "`from`"),
        (r#"{"from":"p","position":[0.1,0.2]}"#, "3 numbers"),
        (r#"{"from":"p","position":"up"}"#, "`position`"),
        (r#"{"from":"p","position":[0,0,0],"at":[0.5]}"#, "`at`"),
        (r#"{"from":"p","position":[0,0,0],"priority":10}"#, "`priority`"),
        (r#"{"from":"p","position":[0,0,0],"postion":[0,0,0]}"#, "`postion`"),
        (r#"{"from":"p","position":[0,0,0],"joints":["tail"]}"#, "`joints`"),
        (r#"{"from":"p","hold_s":"long"}"#, "`hold_s`"),
    ] {
        let answer = program.says(text);
        let said = answer["why"].as_str().unwrap_or_default();
        let is_said = said.contains(why)
            || why == "3 numbers" && said.contains("of 3 numbers")
            || said.contains("tail");
        assert!(answer["refused"] == "invalid" && is_said, "{text}: {answer}");
    }
    assert_eq!(robot.refused("p", &Refused::Invalid(String::new())), 6);
}

#[test]
fn only_this_user_reaches_the_socket_and_a_second_robot_does_not_take_it() {
    use std::os::unix::fs::PermissionsExt;
    let (robot, path, receiver) = robot("private");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let second = Receiver::start(&format!("unix:{}", path.display()), robot.desk.clone());
    assert!(second.err().is_some_and(|error| error.to_string().contains("another robot")));
    drop(receiver);
    // One that was killed leaves its file.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(Receiver::start(&format!("unix:{}", path.display()), robot.desk).unwrap());
}

/// Its clock is another one.
#[test]
fn a_program_on_another_computer_has_its_times_once_it_has_heard_the_robot_s() {
    let robot = Robot::new(&TargetsConfig::default(), 4000.0);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _receiver = Receiver::start(&format!("udp:127.0.0.1:{port}"), robot.desk.clone()).unwrap();
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    program.connect(("127.0.0.1", port)).unwrap();
    program.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let its_us = || khz_rt::now_ns() / 1000 + 5_000_000_000;
    let asks = |message: Value| -> Value {
        program.send(message.to_string().as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        let len = program.recv(&mut bytes).unwrap();
        serde_json::from_slice(&bytes[..len]).unwrap()
    };
    let row = json!([0.1, 0.1, 0.1]);
    let chunk = |t: i64, heard: Option<[i64; 2]>| {
        let mut message = json!({"from": "p", "t": t, "at": [t, t + 33_000], "position": [row, row]});
        if let Some(heard) = heard {
            message["heard"] = json!(heard);
        }
        message
    };
    let mut answer = asks(json!({"from": "p", "t": its_us(), "position": row}));
    assert_eq!(answer["refused"], "clock", "it does not prove its age");
    assert_eq!(asks(json!({"from": "p", "at": [5, 6], "position": [row, row]}))["refused"], "clock");
    // A busy machine takes long now and then.
    for _ in 0..1000 {
        let heard = [answer["now"].as_i64().unwrap(), its_us()];
        answer = asks(chunk(its_us(), Some(heard)));
        if answer.get("refused").is_none() {
            return;
        }
        assert_eq!(answer["refused"], "clock");
    }
    panic!("{answer}");
}
