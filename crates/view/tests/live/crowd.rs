//! Who may connect, and that no client keeps others from Stop.

use super::*;

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
            client.send(
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
fn connections_that_send_nothing_keep_no_other_out() {
    let bench = Bench::new();
    let silent: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(bench.at).unwrap()).collect();
    bench.foxglove();
    drop(silent);
}

#[test]
fn a_client_with_megabytes_of_unread_answers_was_ignored() {
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

/// 64 of them kept all other clients out, Stop included.
#[test]
fn silent_websockets_keep_no_client_from_stop() {
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
fn clients_that_read_and_clients_that_wait_for_a_stop_keep_their_slots() {
    let mut bench = Bench::new();
    let (mut reader, mut stopper) = (bench.foxglove(), bench.client("khz.ask.v1"));
    reader.subscribe(1, "/servo");
    reader.settle();
    bench.robot.servo(1);
    reader.binary();
    stopper.send(&json!({ "do": "stop" }));
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
