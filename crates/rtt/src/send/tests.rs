use super::*;
use crate::{Echo, Receive};
use khz_link::stamps;
use khz_rt::{Setup, Wake};
use std::os::fd::AsFd;
use std::time::Instant;

fn plan(targets: Vec<SocketAddr>, ticks: u64) -> Plan {
    Plan { ticks, rate_hz: Some(2_000.0), setup: Setup::ordinary(), wake: Wake::Sleep, ..Plan::new(targets) }
}

/// Planned ticks: those in which was asked, and those a busy machine was too late for.
fn planned(results: &Results) -> (u64, u64) {
    let planned = results.planned.as_ref().unwrap_or_else(|| panic!("no planned periods"));
    assert_eq!(planned.periods, results.ticks + planned.missed);
    assert_eq!(planned.questions, planned.periods * results.devices.len() as u64);
    (planned.periods, planned.missed)
}

/// Runs a plan against echoes on loopback, one thread each.
fn against_echoes(devices: usize, alter: impl FnOnce(&mut Plan)) -> Results {
    let loopback = || Echo::bind((Ipv4Addr::LOCALHOST, 0).into(), Receive::Block);
    let mut echoes: Vec<Echo> = (0..devices).filter_map(|_| loopback().ok()).collect();
    let mut plan = plan(echoes.iter().filter_map(|e| e.address().ok()).collect(), 100);
    alter(&mut plan);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for echo in &mut echoes {
            scope.spawn(|| echo.run(&stop));
        }
        let results = Sender::new(plan).and_then(|s| s.run(&AtomicBool::new(false), &Live::default()));
        stop.store(true, Ordering::Relaxed);
        results.unwrap_or_else(|error| panic!("{error}"))
    })
}

#[test]
fn every_answer_is_accounted_for() {
    for ask in [Ask::Together, Ask::Singly] {
        let results = against_echoes(3, |plan| plan.ask = ask);
        let (periods, missed) = planned(&results);
        let asked = 100 - missed;
        assert_eq!((results.devices.len(), periods, results.ticks), (3, 100, asked));
        for device in &results.devices {
            assert_eq!(device.counts.sent, asked);
            assert_eq!(device.counts.answered + device.counts.lost() + device.counts.unsent, asked);
            assert_eq!(device.round_trip.values.count(), device.counts.answered);
        }
    }
}

#[test]
fn without_a_rate_one_follows_the_other() {
    let results = against_echoes(1, |plan| plan.rate_hz = None);
    assert_eq!(results.devices[0].counts.answered, 100);
}

/// While it is there the kernel notes arrivals, which it would else begin with only after a while.
fn stamping() -> std::net::UdpSocket {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
    stamps::enable(socket.as_fd()).unwrap_or_else(|error| panic!("{error}"));
    let begun = Instant::now();
    let stamped = || {
        let sent = socket.local_addr().and_then(|here| socket.send_to(b"x", here));
        let came = sent.and_then(|_| stamps::receive(socket.as_fd(), &mut [0; 10], true));
        came.is_ok_and(|(_, _, stamps)| stamps.software_ns.is_some())
    };
    while !stamped() {
        assert!(begun.elapsed().as_secs() < 60, "no arrival was ever stamped");
    }
    socket
}

#[test]
fn the_kernels_times_split_a_round_trip() {
    let _stamping = stamping();
    for ask in [Ask::Together, Ask::Singly] {
        let results = against_echoes(3, |plan| (plan.ask, plan.stamps) = (ask, true));
        let split = results.split.clone().unwrap_or_default();
        let answered = results.counts().answered;
        let (periods, missed) = planned(&results);
        assert!(answered > 0 || missed == periods, "{missed} of {periods} missed");
        if answered == 0 {
            // The machine stood still for the whole of it: nothing was asked.
            continue;
        }
        // An answer that came after its tick has no question to be split by.
        assert!(split.missing < answered, "{} of {answered} not split", split.missing);
        for part in [&split.out, &split.between, &split.back] {
            assert_eq!(part.count() + split.missing, answered);
        }
        assert_eq!(split.card.count(), 0, "loopback has no card");
        assert!(results.notes.iter().any(|note| note.contains("hwstamp_ctl")), "{:?}", results.notes);
        assert_eq!(results.stack().len(), 3);
    }
}

#[test]
fn every_way_of_receiving_answers_the_same() {
    for receive in [Receive::Block, Receive::Hybrid, Receive::Spin] {
        for stamps in [false, true] {
            let results = against_echoes(1, |plan| {
                (plan.receive, plan.stamps, plan.busy_poll_us) = (receive, stamps, 50);
            });
            let counts = results.counts();
            let (periods, missed) = planned(&results);
            assert_eq!((periods, counts.sent), (100, 100 - missed), "{receive:?}");
            assert_eq!(counts.answered + counts.lost() + counts.unsent, counts.sent, "{receive:?}");
            // Of a machine that stood still for the whole of it nothing was asked.
            assert!(counts.answered > 0 || missed == periods, "{receive:?}");
        }
    }
}

#[test]
fn looks_at_a_run_and_its_rest_make_the_whole() {
    let loopback = || Echo::bind((Ipv4Addr::LOCALHOST, 0).into(), Receive::Block);
    let Ok(mut echo) = loopback() else { panic!("no echo") };
    // It is stopped after a few looks; with a busy machine that may take any time.
    let plan = plan(echo.address().into_iter().collect(), 200_000);
    let (over, enough, seen) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let (mut whole, rest) = std::thread::scope(|scope| {
        scope.spawn(|| echo.run(&over));
        let (sender, mut checkpoints) =
            Sender::new(plan).map(Sender::checkpoints).unwrap_or_else(|error| panic!("{error}"));
        let looker = scope.spawn(|| {
            let mut whole: Option<Results> = None;
            let mut looks = 0;
            while !seen.load(Ordering::Relaxed) {
                checkpoints.ask();
                std::thread::yield_now();
                if let Some(looked) = checkpoints.look() {
                    match &mut whole {
                        Some(whole) => whole.absorb(&looked),
                        None => whole = Some(looked),
                    }
                    looks += 1;
                    enough.store(looks >= 3, Ordering::Relaxed);
                }
            }
            (whole, checkpoints)
        });
        let rest = sender.run(&enough, &Live::default());
        seen.store(true, Ordering::Relaxed);
        let Ok((mut whole, mut checkpoints)) = looker.join() else { panic!("the looker broke down") };
        if let (Some(whole), Some(last)) = (&mut whole, checkpoints.look()) {
            whole.absorb(&last);
        }
        over.store(true, Ordering::Relaxed);
        let rest = rest.unwrap_or_else(|error| panic!("{error}"));
        (whole.unwrap_or_else(|| panic!("never looked")), checkpoints.rest(rest))
    });
    whole.absorb(&rest);
    assert!(rest.ticks < whole.ticks, "some were looked at before");
    let counts = whole.counts();
    assert_eq!(counts.sent, whole.ticks);
    assert_eq!(counts.answered + counts.lost() + counts.unsent, whole.ticks);
    assert_eq!(whole.round_trips().count(), counts.answered);
}

#[test]
fn that_nothing_was_split_is_reported_for_the_whole_run_only() {
    let is_noted = |results: &Results| results.notes.iter().any(|note| note.contains("could be split"));
    // As when a run that was complete is to be gone on with.
    assert!(!is_noted(&against_echoes(1, |plan| (plan.ticks, plan.stamps) = (0, true))));
    let Ok(mut echo) = Echo::bind((Ipv4Addr::LOCALHOST, 0).into(), Receive::Block) else { panic!("no echo") };
    let plan = Plan { stamps: true, rate_hz: None, ..plan(echo.address().into_iter().collect(), 1) };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| echo.run(&over));
        let (sender, mut checkpoints) =
            Sender::new(plan).map(Sender::checkpoints).unwrap_or_else(|error| panic!("{error}"));
        // The tallies are exchanged in the last tick, so the final one is empty.
        checkpoints.ask();
        let rest = sender.run(&AtomicBool::new(false), &Live::default());
        over.store(true, Ordering::Relaxed);
        let (rest, looked) = (rest.unwrap_or_else(|error| panic!("{error}")), checkpoints.look());
        let mut whole = looked.unwrap_or_else(|| panic!("nothing to look at"));
        whole.absorb(&rest);
        let split = whole.split.as_ref().is_some_and(|split| split.out.count() > 0);
        assert_eq!(is_noted(&rest), whole.counts().answered > 0 && !split);
    });
}

#[test]
fn without_a_device_all_is_lost_and_the_reason_named() {
    // Only root may listen on ports 1 and 2, and no program does. One device: the socket is connected; two: it is not.
    let closed: Vec<SocketAddr> = [1, 2].map(|port| (Ipv4Addr::LOCALHOST, port).into()).to_vec();
    for targets in [&closed[..1], &closed] {
        let plan = Plan { rate_hz: Some(100.0), ..plan(targets.to_vec(), 5) };
        let results = Sender::new(plan).and_then(|s| s.run(&AtomicBool::new(false), &Live::default()));
        let results = results.unwrap_or_else(|error| panic!("{error}"));
        for device in &results.devices {
            let counts = device.counts;
            assert_eq!((counts.sent, counts.answered), (results.ticks, 0));
            assert_eq!((counts.refused, counts.lost(), counts.unsent), (results.ticks, results.ticks, 0));
        }
        let note = results.notes.iter().find(|note| note.contains("connection refused"));
        assert!(note.is_some_and(|note| note.contains("127.0.0.1:")), "{:?}", results.notes);
        assert!(results.problems().contains("lost"));
    }
}

#[test]
fn a_run_against_closed_ports_alone_ends_early() {
    let plan = plan(vec![(Ipv4Addr::LOCALHOST, 1).into()], 100_000_000);
    let results = Sender::new(plan).and_then(|s| s.run(&AtomicBool::new(false), &Live::default()));
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    assert!(results.counts().refused > 0 && results.counts().answered == 0);
    let planned = results.planned.as_ref().map(|planned| planned.periods);
    assert!(planned.is_some_and(|periods| periods < 100_000_000), "{planned:?}");
    assert!(results.notes.iter().any(|note| note.contains("ended early")), "{:?}", results.notes);
}

/// A device that has been asked once, who asked it, and when the tick began.
fn asked() -> (UdpSocket, Sender, Ledger, i64) {
    let device = UdpSocket::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
    let targets: Vec<SocketAddr> = device.local_addr().into_iter().collect();
    let mut sender = Sender::new(plan(targets.clone(), 1)).unwrap_or_else(|error| panic!("{error}"));
    let mut ledger = Ledger::new(sender.run, now_ns(), &targets);
    let begun_ns = now_ns();
    ledger.tick(Turn { begun_ns, planned_ns: begun_ns, ends_ns: begun_ns, period_ns: 1, ..Turn::default() });
    sender.ask(&mut ledger, 0, 0).unwrap_or_else(|error| panic!("{error}"));
    (device, sender, ledger, begun_ns)
}

#[test]
fn a_late_answer_is_not_measured_by_the_senders_next_look() {
    let _stamping = stamping();
    let (device, mut sender, mut ledger, begun_ns) = asked();
    let mut buffer = [0; 200];
    let answered = device.recv_from(&mut buffer).ok().and_then(|(_, from)| {
        Packet::read(&buffer).ok()?.reply(0).write(&mut buffer);
        device.send_to(&buffer, from).ok()
    });
    assert!(answered.is_some());
    // The answer is there; the sender sleeps, and looks after that.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let looked_ns = now_ns();
    sender.drain(&mut ledger).unwrap_or_else(|error| panic!("{error}"));
    let trips = ledger.tally().devices[0].round_trip.values().summary();
    assert_eq!((trips.count, ledger.tally().unattended.stamped), (1, 1));
    // Later than the look it would have been without the kernel's time.
    assert!(trips.max <= looked_ns - begun_ns - 20_000_000, "{} of {}", trips.max, looked_ns - begun_ns);
}

#[test]
fn an_answer_that_is_no_copy_of_the_question_is_corrupt() {
    let (device, mut sender, mut ledger, _) = asked();
    let mut buffer = [0; 5200];
    let (length, from) = device.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{error}"));
    let question = Packet::read(&buffer[..length]).unwrap_or_else(|error| panic!("{error}"));
    question.reply(0).write(&mut buffer);
    let answer = |bytes: &[u8]| assert_eq!(device.send_to(bytes, from).ok(), Some(bytes.len()));
    answer(&buffer[..HEADER]);
    answer(&buffer[..5200]);
    let mut altered = buffer;
    altered[length - 1] ^= 1;
    answer(&altered[..length]);
    answer(&buffer[..length]);
    let ten_ms = std::time::Duration::from_millis(10);
    for _ in 0..500 {
        sender.drain(&mut ledger).unwrap_or_else(|error| panic!("{error}"));
        if ledger.tally().devices[0].counts.answered > 0 {
            break;
        }
        std::thread::sleep(ten_ms);
    }
    let counts = ledger.tally().devices[0].counts;
    assert_eq!((counts.corrupt, counts.answered, counts.duplicates), (3, 1, 0));
}

#[test]
fn plans_that_cannot_be_say_why() {
    let target: SocketAddr = (Ipv4Addr::LOCALHOST, 9).into();
    let six: SocketAddr = (Ipv6Addr::LOCALHOST, 9).into();
    let base = || Plan::new(vec![target]);
    let table: [(Plan, &str); 8] = [
        (Plan::new(vec![]), "no device"),
        (Plan { payload: 47, ..base() }, "use 48 to 65507"),
        (Plan { payload: 65_508, ..base() }, "use 48 to 65507"),
        (Plan { rate_hz: Some(0.0), ..base() }, "0.001 to 100000"),
        (Plan { rate_hz: Some(f64::NAN), ..base() }, "0.001 to 100000"),
        (Plan::new(vec![target, six]), "IPv4 and IPv6"),
        (Plan { ask: Ask::Broadcast, ..Plan::new(vec![target, target]) }, "one address"),
        (Plan::new(vec![target, target]), "127.0.0.1:9 is named twice"),
    ];
    for (plan, words) in table {
        let error = Sender::new(plan).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(words), "{error}");
    }
}
