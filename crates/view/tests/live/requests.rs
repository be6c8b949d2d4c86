//! Requests of programs and pages, and the robot's answers.

use super::*;

/// A request held up for 7 s armed the robot long after the page had reported it unreachable.
#[test]
fn what_moves_the_robot_says_how_old_it_is_and_a_stop_need_not() {
    let mut bench = Bench::new();
    let (mut page, mut program) = (bench.client("khz.page.v1"), bench.client("khz.ask.v1"));
    let before_us = bench.hub.now_us();
    std::thread::sleep(Duration::from_millis(30));
    page.send(&json!({ "ask": "arm", "id": 1, "now_us": before_us }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);
    page.send(&json!({ "ask": "set", "id": 2, "now_us": before_us, "values": { "kp": 1 } }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);
    program.send(&json!({ "do": "arm", "now_us": before_us }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);
    program.send(&json!({ "set": { "kp": 1 }, "now_us": before_us }));
    assert!(bench.robot.asked()["age_ms"].as_f64().unwrap() >= 30.0);

    for request in
        [json!({ "do": "arm" }), json!({ "set": { "kp": 1 } }), json!({ "do": "arm", "now_us": 1u64 << 60 })]
    {
        program.send(&request);
        assert!(program.text()["refused"].is_string(), "{request}");
    }
    page.send(&json!({ "ask": "arm", "id": 3 }));
    assert_eq!(page.text()["tell"], "mistake");
    program.send(&json!({ "do": "stop" }));
    assert_eq!(bench.robot.asked()["do"], "stop", "none of them came through");
}

/// A bridge whose robot had just been started again reported that it had none.
#[test]
fn a_run_that_has_reported_no_parameters_yet_is_not_one_without_any() {
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

#[test]
fn the_end_of_the_robot_is_reported_to_all_that_wait() {
    let mut bench = Bench::new();
    let mut client = bench.foxglove();
    client.send(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 1 }], "id": "a" }));
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
    client.send(&json!({ "op": "setParameters", "parameters": [{ "name": "kp", "value": 1 }], "id": "a" }));
    let asked = bench.robot.asked();
    assert!(client.text()["message"].as_str().unwrap().contains("did not answer"));
    // A later answer is dropped.
    bench.robot.answer(&json!({ "id": asked["id"], "done": true, "tick": 1 }));
    client.text();
    client.settle();
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
    program.send(&json!({ "do": "stop" }));
    program.send(&json!({ "now": true }));
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
        client.send(&json!({ "set": { "kp": 1 }, "now_us": now_us }));
    }
    client.send(&json!({ "do": "stop" }));
    while bench.robot.asked()["do"] != "stop" {}
    while !client.text().to_string().contains("100 times a second") {}
}

/// Samples that a busy view had not taken in yet were in the way of the answer to a stop.
#[test]
fn an_answer_does_not_wait_behind_samples() {
    let mut bench = Bench::new();
    let mut client = bench.client("khz.ask.v1");
    client.send(&json!({ "do": "stop" }));
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
