//! Foxglove's protocol: channels, parameters, services.

use super::*;

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
    client.send(&json!({ "op": "unsubscribe", "subscriptionIds": [1, 99] }));
    client.subscribe(2, "/joint_states");
    assert_eq!(client.binary()[1], 2);
}

#[test]
fn parameters_are_read_set_and_watched() {
    let mut bench = Bench::new();
    let (mut setter, mut watcher) = (bench.foxglove(), bench.foxglove());
    watcher.send(&json!({ "op": "subscribeParameterUpdates", "parameterNames": ["kp"] }));
    watcher.settle();
    setter.send(&json!({ "op": "getParameters", "parameterNames": [], "id": "a" }));
    let all = json!([{ "name": "kp", "type": "float64", "value": 0.5 }, { "name": "on", "value": true }]);
    assert_eq!(setter.text(), json!({ "op": "parameterValues", "id": "a", "parameters": all }));

    setter.send(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 1 }], "id": "b" }));
    let asked = bench.robot.asked();
    assert_eq!(
        (&asked["set"], asked["by"].as_str().unwrap().starts_with("foxglove 127.0.0.1:")),
        (&json!({ "kp": 1 }), true)
    );
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 10 }));
    let new = json!([{ "name": "kp", "type": "float64", "value": 1.0 }]);
    assert_eq!(setter.text(), json!({ "op": "parameterValues", "id": "b", "parameters": new }));
    assert_eq!(watcher.text(), json!({ "op": "parameterValues", "parameters": new }));

    setter.send(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 7 }], "id": "c" }));
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
        if let Message::Ping(message) = client.socket.read().unwrap() {
            break u64::from_le_bytes((*message).try_into().unwrap());
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

#[test]
fn a_thousand_subscriptions_are_no_more_than_there_are_channels() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    let all: Vec<Value> =
        (0..1000).map(|id| json!({ "id": id, "channelId": client.channel("/servo") })).collect();
    client.send(&json!({ "op": "subscribe", "subscriptions": all }));
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
