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
        let socket = unconnected();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Self(socket)
    }

    fn asks(&self, message: &Value) -> Value {
        self.asks_text(&message.to_string())
    }

    fn asks_text(&self, text: &str) -> Value {
        send(&self.0, text.as_bytes(), SendFlags::empty()).unwrap();
        self.receives()
    }

    fn receives(&self) -> Value {
        let mut bytes = vec![0; 65_536];
        let (len, _) = recv(&self.0, &mut bytes, RecvFlags::empty()).unwrap();
        serde_json::from_slice(&bytes[..len]).unwrap()
    }
}

fn unconnected() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("khz-targets-{name}-{}", std::process::id()))
}

/// A robot whose clock is this computer's, and where it listens.
fn robot(name: &str) -> (Robot, PathBuf, Receiver) {
    let path = path(name);
    let robot = Robot::new(&TargetsConfig::default(), 4000.0);
    let receiver = Receiver::start(&format!("unix:{}", path.display()), robot.inbox.clone()).unwrap();
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
    let state = &answer["state"];
    assert_eq!(state["limits"], json!([[-3.0, 3.0], [-3.0, 3.0], [-3.0, 3.0]]));
    assert_eq!((&state["command"], &state["age"]), (&json!([null, null, null]), &json!([null, null, null])));
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
fn a_name_is_that_of_one_connection_until_it_ends() {
    let (_robot, path, _receiver) = robot("names");
    let (first, second) = (Program::at(&path), Program::at(&path));
    let target = json!({"from": "policy", "position": [0.1, 0.1, 0.1]});
    assert_eq!(first.asks(&target).get("refused"), None);
    for message in
        [&target, &json!({"from": "policy", "release": true}), &json!({"from": "policy", "hold_s": 1})]
    {
        let answer = second.asks(message);
        assert_eq!((&answer["refused"], &answer["by"]), (&json!("held"), &json!("policy")), "{answer}");
    }
    // A query may have any name, and ends nothing.
    assert_eq!(second.asks(&json!({"from": "policy", "state": true})).get("refused"), None);
    drop(second);
    let third = Program::at(&path);
    let is_held = |program: &Program| {
        let answer = program.asks(&json!({"from": "other", "status": true}));
        answer["status"]["programs"]["policy"]["holds"] == json!(true)
    };
    // The one that ended was received before this answer.
    assert!(is_held(&third));
    drop(first);
    while third.asks(&target).get("refused").is_some() {
        std::thread::yield_now();
    }
    assert!(is_held(&third));
}

#[test]
fn a_name_is_that_of_this_process_or_of_a_connection() {
    let (robot, path, _receiver) = robot("in-process");
    let there = Program::at(&path);
    let here = khz_targets::Program::new(robot.inbox.clone(), khz_targets::Sender::new("wave"));
    here.point(&[0.1; 3]).unwrap();
    let answer = there.asks(&json!({"from": "wave", "position": [0.1, 0.1, 0.1]}));
    assert_eq!(answer["refused"], json!("held"), "{answer}");
    there.asks(&json!({"from": "policy", "hold_s": 1}));
    let second = khz_targets::Program::new(robot.inbox.clone(), khz_targets::Sender::new("policy"));
    assert_eq!(second.point(&[0.1; 3]), Err(Refused::Held("policy".to_owned())));
    // The end of a connection ends nothing of what this process sends.
    drop(there);
    let other = Program::at(&path);
    while other.asks(&json!({"from": "policy", "hold_s": 1})).get("refused").is_some() {
        std::thread::yield_now();
    }
    assert!(here.standing().accounts.iter().any(|account| account.name == "wave" && account.holds));
}

/// A name with a line feed wrote a line of the verdict; of two equal keys the second counted.
#[test]
fn what_would_be_ambiguous_is_refused() {
    let (_robot, path, _receiver) = robot("ambiguous");
    let program = Program::at(&path);
    let answer = program.asks(&json!({"from": "x\nHeld 1000 Hz.", "position": [0.1, 0.1, 0.1]}));
    assert_eq!(answer["why"], json!("`from` must be a name, without control characters"));
    let answer = program.asks_text(r#"{"from":"x","position":[0,0,0],"position":[1,1,1]}"#);
    assert!(answer["why"].as_str().unwrap().starts_with("`position` is there twice"), "{answer}");
    let answer = program.asks_text("[1]");
    assert!(answer["why"].as_str().unwrap().contains("expected a JSON object"), "{answer}");
}

/// A robot that ended took away the socket of another one.
#[test]
fn a_socket_that_another_robot_has_put_there_stays() {
    let (_one, path, receiver) = robot("replaced");
    std::fs::remove_file(&path).unwrap();
    let (_other, _, later) = robot("replaced");
    drop(receiver);
    assert!(path.exists());
    drop(later);
    assert!(!path.exists());
}

#[test]
fn points_may_come_with_how_long_nothing_comes_after_them() {
    let (mut robot, path, _receiver) = robot("holds");
    let program = Program::at(&path);
    let mut is_meant = |message: Value| {
        let answer = program.asks(&message);
        assert!(answer.get("refused").is_none(), "{answer}");
        robot.ticks(1);
        robot.inbox.standing().status.following.meant
    };
    assert!(!is_meant(json!({"from": "p", "joints": ["elbow"], "position": [0.1]})));
    assert!(is_meant(json!({"from": "p", "joints": ["elbow"], "position": [0.2], "hold_s": 30})));
    assert!(!is_meant(json!({"from": "p", "joints": ["elbow"], "position": [0.1]})));
    let answer = program.asks(&json!({"from": "p", "state": true}));
    let state = &answer["state"];
    assert!(state["command"][1].is_f64() && state["phase"].is_null(), "{answer}");
}

#[test]
fn a_robot_that_is_down_says_why_before_it_hangs_up() {
    let (_robot, path, receiver) = robot("down");
    let program = Program::at(&path);
    program.asks(&json!({"from": "policy", "state": true}));
    receiver.finish("elbow: it does not answer");
    assert_eq!(program.receives(), json!({"down": "elbow: it does not answer"}));
    let (len, _) = recv(&program.0, &mut [0; 16], RecvFlags::empty()).unwrap();
    assert_eq!(len, 0);
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
        (
            r#"{"from":"p","position":[0,0,0],"postion":[0,0,0]}"#,
            "there is no key `postion`: did you mean `position`?",
        ),
        (r#"{"from":"p","position":[0,0,0],"joints":["tail"]}"#, "`joints`"),
        (r#"{"from":"p","hold_s":"long"}"#, "`hold_s`"),
        (r#"{"from":"p","hold":30}"#, "there is no key `hold`: did you mean `hold_s`?"),
        (r#"{"from":"p","relaese":true}"#, "did you mean `release`?"),
        (r#"{"from":"p","release":1}"#, "`release` must be true or false"),
        (r#"{"from":"p","postion":[0,0,0]}"#, "did you mean `position`?"),
        (r#"{"from":"p","positions":[0,0,0]}"#, "did you mean `position`?"),
        (r#"{"from":"p","position":[0,0,0],"velocitty":[0,0,0]}"#, "did you mean `velocity`?"),
        (r#"{"from":"p","position":[0,0,0],"take":"yes"}"#, "`take` must be true or false"),
        (r#"{"from":"p","position":[0,0,0],"release":true}"#, "`position` or `release`"),
        (r#"{"from":"p","velocity":[0,0,0]}"#, "`velocity` needs `position`"),
    ] {
        let answer = program.asks_text(text);
        let message = answer["why"].as_str().unwrap_or_default();
        let is_explained = message.contains(why)
            || why == "3 numbers" && message.contains("of 3 numbers")
            || message.contains("tail");
        assert!(answer["refused"] == "invalid" && is_explained, "{text}: {answer}");
    }
    assert_eq!(robot.refused("p", &Refused::Invalid(String::new())), 15);
    let long = json!({"from": "p", "position": vec![0.5; 20_000]}).to_string();
    let answer = program.asks_text(&long);
    assert!(answer["why"].as_str().is_some_and(|why| why.contains("longer than 65536 bytes")), "{answer}");
}

/// A socket that was bound and did not listen yet refused programs that waited for its file.
#[test]
fn a_socket_that_is_there_can_be_connected_to() {
    let folder = path("at-once");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("arm.sock");
    for _ in 0..100 {
        let at = SocketAddrUnix::new(&path).unwrap();
        let program = std::thread::spawn(move || {
            let socket = unconnected();
            loop {
                match connect(&socket, &at) {
                    Err(rustix::io::Errno::NOENT) => {}
                    answer => return answer,
                }
            }
        });
        let robot = Robot::new(&TargetsConfig::default(), 4000.0);
        let _receiver = Receiver::start(&format!("unix:{}", path.display()), robot.inbox.clone()).unwrap();
        assert_eq!(program.join().unwrap(), Ok(()));
    }
    // With no file left in it.
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn only_this_user_reaches_the_socket_and_a_second_robot_does_not_take_it() {
    use std::os::unix::fs::PermissionsExt;
    let (robot, path, receiver) = robot("private");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = || {
        let other = Receiver::start(&format!("unix:{}", path.display()), robot.inbox.clone());
        other.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused().contains("another robot"));
    drop(receiver);
    // What is no socket stays, whatever it is.
    std::fs::write(&path, "mine").unwrap();
    assert!(refused().contains("remove it, or write another path"), "{}", refused());
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    assert!(refused().contains("remove it, or write another path"), "{}", refused());
    std::fs::remove_file(&path).unwrap();
    // One that was killed leaves its file.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(Receiver::start(&format!("unix:{}", path.display()), robot.inbox).unwrap());
}

/// Its clock is another one.
#[test]
fn a_program_on_another_computer_has_its_times_once_it_has_received_the_robot_s() {
    let robot = Robot::new(&TargetsConfig::default(), 4000.0);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _receiver = Receiver::start(&format!("udp:127.0.0.1:{port}"), robot.inbox.clone()).unwrap();
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
    let chunk = |t: i64, received: Option<[i64; 2]>| {
        let mut message = json!({"from": "p", "t": t, "at": [t, t + 33_000], "position": [row, row]});
        if let Some(received) = received {
            message["heard"] = json!(received);
        }
        message
    };
    let mut answer = asks(json!({"from": "p", "t": its_us(), "position": row}));
    assert_eq!(answer["refused"], "clock", "it does not prove its age");
    assert_eq!(asks(json!({"from": "p", "at": [5, 6], "position": [row, row]}))["refused"], "clock");
    // A busy machine takes long now and then.
    for _ in 0..1000 {
        let received = [answer["now"].as_i64().unwrap(), its_us()];
        answer = asks(chunk(its_us(), Some(received)));
        if answer.get("refused").is_none() {
            return;
        }
        assert_eq!(answer["refused"], "clock");
    }
    panic!("{answer}");
}
