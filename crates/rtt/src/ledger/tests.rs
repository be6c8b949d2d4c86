use super::*;
use crate::Unexpected;

const RUN: u64 = 42;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 7000))
}

fn reply(sequence: u64) -> Packet {
    Packet { kind: PacketKind::Reply, run: RUN, sequence, sent_ns: 0, held_ns: 500 }
}

/// A tick that begins on time, one a microsecond.
fn turn(sequence: u64, now_ns: i64) -> Turn {
    let ends_ns = now_ns + 1_000;
    Turn { sequence, planned_ns: now_ns, begun_ns: now_ns, ends_ns, period_ns: 1_000, ..Turn::default() }
}

fn two() -> Ledger {
    Ledger::new(RUN, 0, &[address(1), address(2)])
}

fn ask(ledger: &mut Ledger, sequence: u64, now_ns: i64) {
    ledger.tick(turn(sequence, now_ns));
    ledger.asks(0, now_ns);
    ledger.asks(1, now_ns + 10);
}

#[test]
fn a_tick_ends_with_its_last_answer() {
    let mut ledger = two();
    ask(&mut ledger, 0, 1_000);
    let first = ledger.receive(&reply(0), address(2), 1_500);
    assert_eq!(
        first,
        Incoming::Answer { device: 1, asked_ns: 1_010, round_trip_ns: 490, late: false, unstamped: false }
    );
    assert_eq!(ledger.waiting(), 1);
    ledger.receive(&reply(0), address(1), 1_800);
    assert_eq!(ledger.waiting(), 0);
    ledger.done(0);
    assert_eq!((ledger.tally().cycle.values().quantile(0.5), ledger.tally().incomplete), (800, 0));
    assert_eq!(ledger.tally().devices[0].round_trip.values().quantile(0.5), 800);
    assert_eq!(ledger.tally().devices[0].held.quantile(0.5), 500);
}

#[test]
fn late_lost_duplicate_and_disordered_answers_are_distinguished() {
    let mut ledger = two();
    for tick in 0..3 {
        ask(&mut ledger, tick, 1_000 * tick as i64);
        ledger.receive(&reply(tick), address(2), 1_000 * tick as i64 + 100);
        ledger.done(0);
    }
    assert_eq!(
        ledger.receive(&reply(1), address(1), 2_200),
        Incoming::Answer { device: 0, asked_ns: 1_000, round_trip_ns: 1_200, late: true, unstamped: false }
    );
    ledger.receive(&reply(0), address(1), 2_300);
    assert_eq!(ledger.receive(&reply(0), address(1), 2_400), Incoming::Duplicate);
    let counts = ledger.tally().devices[0].counts;
    let expected =
        Counts { sent: 3, answered: 2, late: 2, duplicates: 1, out_of_order: 1, ..Counts::default() };
    assert_eq!((counts, counts.lost(), ledger.tally().incomplete), (expected, 1, 3));
}

#[test]
fn unexpected_datagrams_are_named_and_never_answers() {
    let mut ledger = two();
    ask(&mut ledger, 0, 0);
    let other_run = Packet { run: 1, ..reply(0) };
    let request = Packet { kind: PacketKind::Request, run: 1, ..reply(0) };
    for (packet, from) in
        [(other_run, address(1)), (request, address(1)), (reply(0), address(9)), (reply(5), address(1))]
    {
        assert_eq!(ledger.receive(&packet, from, 10), Incoming::Unexpected);
    }
    ledger.receive_unreadable(address(9), Refusal::Foreign);
    ledger.receive_unreadable(address(9), Refusal::Damaged);
    let each = Unexpected {
        other_protocol: 1,
        damaged: 1,
        other_runs: 1,
        requests: 1,
        unknown_devices: 1,
        never_asked: 1,
    };
    assert_eq!(ledger.tally().unexpected, each);
    assert!(ledger.tally().devices.iter().all(|d| d.counts.answered == 0));
}

/// `khz rtt send` reported that none came back when 588 of 600 did, unchanged.
#[test]
fn a_plain_echo_is_no_answer_and_no_silence() {
    let mut ledger = two();
    ask(&mut ledger, 0, 0);
    let echo = Packet { kind: PacketKind::Request, ..reply(0) };
    assert_eq!(ledger.receive(&echo, address(1), 10), Incoming::Unexpected);
    let message: Vec<_> = ledger.counts().map(|(_, c)| (c.echoed, c.lost(), c.silent())).collect();
    assert_eq!((message, ledger.tally().unexpected), (vec![(1, 1, 0), (0, 1, 1)], Unexpected::default()));
}

#[test]
fn an_answer_older_than_the_window_is_not_mistaken() {
    let mut ledger = two();
    ask(&mut ledger, 0, 0);
    ask(&mut ledger, WINDOW as u64, 1_000);
    assert_eq!(ledger.receive(&reply(0), address(1), 2_000), Incoming::Unexpected);
    assert_eq!(ledger.tally().devices[0].counts.answered, 0);
}

#[test]
fn nothing_is_lost_between_two_looks() {
    let mut ledger = two();
    ask(&mut ledger, 0, 0);
    ledger.receive(&reply(0), address(1), 100);
    let mut looked = Box::new(Tally::new([]));
    ledger.exchange(&mut looked);
    // The answer to a question of before comes after the look.
    ledger.receive(&reply(0), address(2), 200);
    ledger.done(0);
    let counts =
        |tally: &Tally| tally.devices.iter().map(|d| (d.counts.sent, d.counts.answered)).collect::<Vec<_>>();
    assert_eq!(counts(&looked), [(1, 1), (1, 0)]);
    assert_eq!(counts(ledger.tally()), [(0, 0), (0, 1)]);
    assert_eq!((looked.ticks, ledger.tally().ticks, ledger.tally().cycle.values().count()), (1, 0, 1));
    assert_eq!(ledger.open_questions(), 0);
    looked.clear();
    assert_eq!((counts(&looked), looked.ticks), (vec![(0, 0), (0, 0)], 0));
}

#[test]
fn a_device_found_late_was_asked_as_often_as_all_others() {
    let mut ledger = Ledger::new(RUN, 0, &[]);
    let mut looked = Box::new(Tally::new([]));
    for tick in 0..4u64 {
        ledger.tick(turn(tick, 1_000 * tick as i64));
        ledger.asks_all(0, 1_000 * tick as i64);
        match tick {
            1 => ledger.unsent_to_all(),
            2 => ledger.exchange(&mut looked),
            3 => assert_ne!(ledger.receive(&reply(3), address(1), 3_100), Incoming::Unexpected),
            _ => {}
        }
        ledger.done(0);
    }
    let counts = ledger.tally().devices[0].counts;
    assert_eq!((counts.sent, counts.unsent, counts.answered, counts.lost()), (4, 1, 1, 2));
}

#[test]
fn what_was_never_sent_is_not_lost_and_ends_no_cycle() {
    let mut ledger = Ledger::new(RUN, 0, &[]);
    for tick in 0..3u64 {
        let now_ns = 1_000 * tick as i64;
        ledger.tick(turn(tick, now_ns));
        ledger.asks_all(0, now_ns);
        match tick {
            2 => ledger.unsent_to_all(),
            _ => _ = ledger.receive(&reply(tick), address(1), now_ns + 100),
        }
        assert_eq!(ledger.waiting(), usize::from(tick == 0));
        assert_eq!(ledger.done(0).complete, tick < 2);
    }
    let counts = ledger.tally().devices[0].counts;
    assert_eq!((counts.sent, counts.unsent, counts.lost(), ledger.open_questions()), (3, 1, 0, 0));
    let mut one = Ledger::new(RUN, 0, &[address(1)]);
    one.tick(turn(0, 1_000));
    one.asks(0, 1_000);
    one.unsent(0);
    assert!(!one.done(0).complete);
    for ledger in [&ledger, &one] {
        let cycles = ledger.tally().cycle.values();
        assert!(ledger.tally().incomplete == 1 && cycles.summary().min >= 0, "{:?}", cycles.summary());
    }
}

#[test]
fn a_broadcast_finds_its_devices() {
    let mut ledger = Ledger::new(RUN, 0, &[]);
    for tick in 0..3u64 {
        let now_ns = 1_000 * tick as i64;
        ledger.tick(turn(tick, now_ns));
        ledger.asks_all(0, now_ns);
        if tick > 0 {
            ledger.receive(&reply(tick), address(1), now_ns + 100);
            ledger.receive(&reply(tick), address(2), now_ns + 200);
        }
        assert_eq!(ledger.waiting(), usize::from(tick < 2));
        ledger.done(0);
    }
    assert_eq!((ledger.tally().incomplete, ledger.tally().cycle.values().count()), (0, 1));
    assert_eq!(ledger.tally().devices.len(), 2);
    let counts = ledger.tally().devices[1].counts;
    assert_eq!((counts.sent, counts.answered, counts.lost()), (3, 2, 1));
    assert_eq!(ledger.receive(&reply(77), address(3), 0), Incoming::Unexpected);
}

/// A thousand periods of 1 ms; in five of them the sender stalls for 200 ms, between ticks.
#[test]
fn stalls_of_the_sender_count_for_every_question_they_cost() {
    const MS: i64 = 1_000_000;
    let mut ledger = Ledger::new(RUN, 0, &[address(1)]);
    let (mut sequence, mut period) = (0, 0);
    while period < 2_000 {
        let missed = if period % 400 == 100 { 199 } else { 0 };
        period += missed as i64;
        let (planned_ns, begun_ns) = (period * MS, period * MS + 20_000);
        let late_ns = 20_000 + missed as i64 * MS;
        let ends_ns = planned_ns + MS;
        ledger.tick(Turn { sequence, planned_ns, late_ns, missed, begun_ns, ends_ns, period_ns: MS });
        ledger.asks(0, begun_ns);
        ledger.receive(&reply(sequence), address(1), begun_ns + 80_000);
        ledger.done(begun_ns + 80_000);
        (sequence, period) = (sequence + 1, period + 1);
    }
    let tally = ledger.tally();
    assert_eq!((tally.ticks, tally.planned.missed, tally.planned.duration_ns), (1_005, 995, 2_000 * MS));
    let (raw, planned) = (tally.devices[0].round_trip.values(), &tally.planned.round_trip);
    assert_eq!((raw.summary().max, raw.count()), (80_000, 1_005));
    // Of each stall, from 0.1 ms for the question asked to 199.1 ms for the first that was not.
    assert_eq!((planned.count(), planned.summary().max), (2_000, 199_100_000));
    let mean_ns = 100_000.0 + 5.0 * MS as f64 * (199.0 * 200.0 / 2.0) / 2_000.0;
    assert_eq!(planned.summary().mean, mean_ns);
    assert!((planned.quantile(0.75) - 100 * MS).abs() < MS, "{}", planned.quantile(0.75));
    assert_eq!(tally.planned.late.summary().max, 199_020_000);
}

#[test]
fn an_answer_read_late_ends_when_it_came_in_the_kernel() {
    let mut ledger = two();
    ask(&mut ledger, 0, 0);
    let unattended = |kernel_ns| Arrival { read_ns: 3_005, kernel_ns, attended: false };
    let incoming = ledger.receive(&reply(0), address(1), unattended(Some(2_550)));
    let expected =
        Incoming::Answer { device: 0, asked_ns: 0, round_trip_ns: 2_550, late: true, unstamped: false };
    assert_eq!(incoming, expected);
    // Before it was asked: the clock was set.
    let incoming = ledger.receive(&reply(0), address(2), unattended(Some(5)));
    let expected =
        Incoming::Answer { device: 1, asked_ns: 10, round_trip_ns: 2_995, late: true, unstamped: true };
    assert_eq!(incoming, expected);
    assert_eq!(ledger.tally().unattended, Unattended { stamped: 1, unstamped: 1 });
}

#[test]
fn answers_to_the_last_tick_can_be_late() {
    let mut ledger = two();
    ask(&mut ledger, 0, 0);
    ledger.receive(&reply(0), address(1), 1_000);
    assert!(!ledger.done(1_000).complete);
    ledger.receive(&reply(0), address(2), 1_001);
    let late: Vec<u64> = ledger.counts().map(|(_, counts)| counts.late).collect();
    assert_eq!(late, [0, 1]);
}

#[test]
fn a_corrupt_reply_is_the_devices_and_no_unknown_senders() {
    let mut ledger = two();
    ledger.receive_unreadable(address(1), Refusal::Damaged);
    ledger.receive_unreadable(address(1), Refusal::Foreign);
    let corrupt: Vec<u64> = ledger.counts().map(|(_, counts)| counts.corrupt).collect();
    assert_eq!((corrupt, ledger.tally().unexpected.total()), (vec![2, 0], 0));
}

#[test]
fn a_closed_port_is_named_beside_what_is_lost() {
    let mut ledger = two();
    ask(&mut ledger, 0, 0);
    ledger.undelivered(address(1), true);
    ledger.undelivered(address(2), false);
    ledger.undelivered(address(9), true);
    let message: Vec<_> = ledger.counts().map(|(_, c)| (c.lost(), c.refused, c.unreachable)).collect();
    assert_eq!(message, [(1, 1, 0), (1, 0, 1)]);
}

#[test]
fn a_question_without_an_answer_is_waited_for_as_long_as_the_window() {
    let mut ledger = two();
    for sequence in 0..WINDOW as u64 + 2 {
        ask(&mut ledger, sequence, 1_000 * sequence as i64);
        if sequence > 0 {
            ledger.receive(&reply(sequence), address(1), 1_000 * sequence as i64 + 100);
            ledger.receive(&reply(sequence), address(2), 1_000 * sequence as i64 + 100);
        }
        ledger.done(0);
        assert_eq!(ledger.open_questions(), if sequence < WINDOW as u64 { 2 } else { 0 });
    }
}

#[test]
fn a_device_that_lies_about_its_held_time_breaks_nothing() {
    let mut ledger = two();
    for sequence in 0..4 {
        ask(&mut ledger, sequence, 0);
        ledger.receive(&Packet { held_ns: i64::MIN, ..reply(sequence) }, address(1), 100);
        ledger.receive(&Packet { held_ns: i64::MAX, ..reply(sequence) }, address(2), 100);
    }
    assert_eq!(ledger.tally().devices[1].held.summary().max, i64::MAX);
}
