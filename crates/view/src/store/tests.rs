use super::*;
use khz_run::Phase;
use khz_run::record::{self, Tick};
use khz_tlog::{Field, Options, Record, Sink, Writer};
use proptest::prelude::*;
use std::io::Write;

const RATE_US: i64 = 1000;

fn one() -> Type {
    Type::object([("x", Type::Float32)])
}

fn live(budget: usize, samples: &[(i64, f32)]) -> Store {
    let mut store = Store::live(budget);
    store.declare(0, "one", &one());
    samples.iter().for_each(|(time_us, value)| store.sample(0, *time_us, &value.to_le_bytes()));
    store
}

fn naive(samples: &[(i64, f32)], span: Span) -> (Vec<f32>, Vec<f32>) {
    let mut sides = (vec![f32::NAN; span.count], vec![f32::NAN; span.count]);
    for (time_us, value) in samples {
        if let Ok(place @ 0..) = usize::try_from((time_us >> span.level) - span.from)
            && place < span.count
        {
            sides.0[place] = sides.0[place].min(*value);
            sides.1[place] = sides.1[place].max(*value);
        }
    }
    sides
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
}

/// Where the window is as fine as asked for, it is exact; where it is coarser, every value is between its minimum and maximum.
fn check(window: &Window, samples: &[(i64, f32)], span: Span) -> Result<(), TestCaseError> {
    let (min, max) = naive(samples, span);
    let (got_min, got_max) = window.values.split_at(span.count);
    if window.level == span.level {
        prop_assert!(same(got_min, &min) && same(got_max, &max), "{window:?} {min:?} {max:?}");
        return Ok(());
    }
    for place in 0..span.count {
        if !min[place].is_nan() {
            prop_assert!(got_min[place] <= min[place] && got_max[place] >= max[place]);
        }
    }
    Ok(())
}

fn times() -> impl Strategy<Value = Vec<(i64, f32)>> {
    let step = prop_oneof![8 => 1..3000i64, 1 => 0..5_000_000i64];
    let value =
        prop_oneof![8 => -10.0..10.0f32, 1 => Just(f32::NAN), 1 => Just(f32::INFINITY), 1 => Just(1e9f32)];
    (1_600_000_000_000_000..1_600_000_100_000_000i64, prop::collection::vec((step, value), 1..3000)).prop_map(
        |(start, steps)| {
            let mut time_us = start;
            let next = |(step, value)| {
                time_us += step;
                (time_us, value)
            };
            steps.into_iter().map(next).collect()
        },
    )
}

fn spans(samples: &[(i64, f32)], level: u32, share: f64, count: usize) -> Span {
    let (first, last) = (samples[0].0, samples[samples.len() - 1].0);
    let from_us = first + ((last - first) as f64 * share) as i64;
    Span { level, from: (from_us >> level) - 3, count }
}

proptest! {
    #[test]
    fn no_value_is_lost_in_a_window_of_a_live_store(
        samples in times(), level in 0..30u32, share in 0.0..1.0f64, count in 1..200usize, budget in 0..100_000usize,
    ) {
        let mut store = live(budget, &samples);
        let span = spans(&samples, level, share, count);
        let window = store.window(span, &[0]);
        prop_assert!(window.is_complete);
        check(&window, &samples, span)?;
    }

    #[test]
    fn no_value_is_lost_in_a_window_of_a_log(
        samples in times(), level in 0..30u32, share in 0.0..1.0f64, count in 1..200usize, budget in 0..100_000usize,
    ) {
        let file = log(&samples);
        let mut store = Store::of_log(Log::open(file.path()).unwrap(), budget);
        read(&mut store, 500);
        let span = spans(&samples, level, share, count);
        let window = whole(&mut store, span, &[0]);
        check(&window, &samples, span)?;
    }
}

fn read(store: &mut Store, samples: usize) {
    while store.read(samples, &mut |_| {}).unwrap() {}
}

fn whole(store: &mut Store, span: Span, signals: &[u32]) -> Window {
    loop {
        let window = store.window(span, signals);
        if window.is_complete {
            return window;
        }
    }
}

fn log(samples: &[(i64, f32)]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let record = log.record("one", &one()).unwrap();
    for (time_us, value) in samples {
        log.write(record, Some(*time_us), &value.to_le_bytes()).unwrap();
    }
    file.write_all(&log.finish().unwrap()).unwrap();
    file
}

#[test]
fn memory_of_a_live_store_is_bounded_and_its_newest_samples_are_exact() {
    let budget = 200_000;
    let samples: Vec<_> = (0..200_000).map(|at| (at * RATE_US, (at % 997) as f32)).collect();
    let mut store = live(budget, &samples);
    let kept = store.recent.as_ref().unwrap().bytes();
    assert!(kept <= budget && kept > budget / 4, "{kept}");
    let span = Span { level: 8, from: (190_000 * RATE_US) >> 8, count: 500 };
    let window = store.window(span, &[0]);
    assert_eq!(window.level, 8);
    let (min, _) = naive(&samples, span);
    assert!(same(&window.values[..500], &min));
    let whole = Span { level: 22, from: 0, count: 48 };
    assert_eq!(store.window(whole, &[0]).level, 22);
}

#[test]
fn a_clock_that_is_set_leaves_neither_a_gap_nor_an_end() {
    let mut store = live(1 << 20, &[]);
    let mut put = |time_us: i64| store.sample(0, time_us, &1f32.to_le_bytes());
    (0..10).for_each(|at| put(1_000_000_000_000 + at * RATE_US));
    (0..10).for_each(|at| put(5 + at * RATE_US));
    (0..10).for_each(|at| put(i64::MAX - 20_000 + at * RATE_US));
    put(i64::MIN);
    let (first, last) = store.extent_us().unwrap();
    assert!(last - first <= 31 * RATE_US, "{}", last - first);
    assert_eq!(store.losses().clock_set, 3);
}

#[test]
fn what_a_run_reported_long_ago_does_not_set_the_clock() {
    let mut store = live(1 << 20, &[(20_000_000, 1.0)]);
    store.declare(1, "declared at the start", &one());
    store.sample(1, 10_000_000, &2f32.to_le_bytes());
    store.sample(0, 20_000_000 + RATE_US, &3f32.to_le_bytes());
    assert_eq!(store.extent_us(), Some((20_000_000, 20_000_000 + RATE_US)));
    assert_eq!((store.losses().clock_set, store.shifted_us(5)), (0, 5));
}

#[test]
fn a_log_that_grows_is_followed() {
    let samples: Vec<_> = (0..5000).map(|at| (at * RATE_US, at as f32)).collect();
    let bytes = std::fs::read(log(&samples).path()).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let half = bytes.len() / 2;
    file.write_all(&bytes[..half]).unwrap();
    let mut store = Store::of_log(Log::open(file.path()).unwrap(), 1000);
    read(&mut store, 100);
    let (_, last) = store.extent_us().unwrap();
    assert!(last > 2000 * RATE_US && last < 3000 * RATE_US, "{last}");
    let span = Span { level: 10, from: last >> 10, count: 100 };
    let before = whole(&mut store, span, &[0]);
    file.write_all(&bytes[half..]).unwrap();
    read(&mut store, 100);
    assert_eq!(store.extent_us().unwrap().1, 4999 * RATE_US);
    let after = whole(&mut store, span, &[0]);
    assert_ne!(before.values.len(), before.values.iter().filter(|value| !value.is_nan()).count());
    check(&after, &samples, span).unwrap();
    assert_eq!(store.losses().damaged, 0);
}

#[test]
fn damage_costs_what_it_hit() {
    let samples: Vec<_> = (0..5000).map(|at| (at * RATE_US, at as f32)).collect();
    let mut bytes = std::fs::read(log(&samples).path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0xaa);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let mut store = Store::of_log(Log::open(file.path()).unwrap(), 1 << 20);
    read(&mut store, 1000);
    assert!(store.losses().damaged >= 1);
    assert_eq!(store.extent_us(), Some((0, 4999 * RATE_US)));
}

#[test]
fn whatever_is_asked_for_is_answered() {
    let mut store = live(1 << 16, &[(5, 1.0), (7_000, 2.0)]);
    for level in [0, 1, 30, 55, 56, u32::MAX] {
        for from in [i64::MIN, -1, 0, 1, i64::MAX] {
            for count in [0, 1, MAX_BUCKETS, usize::MAX] {
                let window = store.window(Span { level, from, count }, &[0, 1, u32::MAX]);
                assert!(window.values.len() <= 3 * 2 * MAX_BUCKETS);
            }
        }
    }
    store.sample(7, 0, &[]);
    store.sample(0, 0, &[1]);
    assert_eq!(store.losses().unfit, 2);
}

#[test]
fn all_numbers_of_a_record_are_signals() {
    let float = |name: &str| Field::new(name, Type::Float32);
    let ty = Type::Object(vec![
        Field::new("rate", Type::FixedArray(3, Box::new(Type::Float32))).with_unit("rad/s"),
        Field::new("leg", Type::Object(vec![float("q").with_unit("rad"), Field::new("note", Type::String)])),
        Field::new("maybe", Type::optional(Type::Object(vec![float("a"), float("b")]))),
        Field::new("many", Type::Array(Box::new(Type::Float32))),
        Field::new("mode", Type::enumeration([(4, "on"), (5, "off")])),
        Field::new("big", Type::Uint(khz_tlog::Width::Eight)),
    ]);
    let mut store = Store::default();
    store.declare(3, "all", &ty);
    let names: Vec<_> = store.signals().iter().map(|signal| signal.name.as_str()).collect();
    let expected = ["rate.0", "rate.1", "rate.2", "leg.q", "maybe.a", "maybe.b", "mode", "big"];
    assert_eq!(names, expected.map(|name| format!("all.{name}")));
    assert_eq!(store.signals()[3].unit.as_deref(), Some("rad"));
    let mut payload = Vec::new();
    [1f32, 2.0, 3.0, 4.0].iter().for_each(|value| payload.put(&value.to_le_bytes()));
    payload.counted(b"text");
    payload.put(&[0, 1]);
    payload.put(&9f32.to_le_bytes());
    payload.put(&[5]);
    payload.put(&u64::from(u32::MAX).to_le_bytes());
    store.sample(3, 0, &payload);
    let newest: Vec<_> = (0..8).map(|signal| store.newest(signal)).collect();
    assert!(newest[4].is_nan() && newest[5].is_nan());
    assert_eq!([newest[0], newest[3], newest[6], newest[7]], [1.0, 4.0, 5.0, 4_294_967_295.0]);
}

#[test]
fn a_record_with_too_many_numbers_costs_only_its_own() {
    let mut store = Store::default();
    let sixty_four = |ty| Type::FixedArray(64, Box::new(ty));
    let bomb = sixty_four(sixty_four(sixty_four(Type::Float32)));
    store.declare(0, "bomb", &bomb);
    store.declare(1, "one", &one());
    assert_eq!((store.losses().records_left_out, store.signals().len()), (1, 1));
    store.sample(0, 0, &[0; 64 * 64 * 64 * 4]);
    store.sample(1, 0, &[0; 4]);
    assert_eq!((store.losses().unfit, store.newest(0)), (0, 0.0));
}

#[test]
fn another_schema_replaces_the_one_before() {
    let mut store = live(1 << 20, &[(0, 1.0)]);
    store.declare(0, "one", &one());
    assert_eq!(store.signals().len(), 1);
    store.declare(0, "one", &Type::object([("y", Type::Float64)]));
    store.sample(0, 1, &2f64.to_le_bytes());
    let current: Vec<_> = store.signals().iter().filter(|signal| signal.is_current).collect();
    assert_eq!((current.len(), current[0].name.as_str()), (1, "one.y"));
    assert_eq!(store.newest(store.signal("one.y").unwrap()), 2.0);
}

fn joints(second: &str) -> Type {
    let joint = || Type::object([("kind", Type::Bool), ("position", Type::Float32)]);
    Type::object([("hip", joint()), (second, joint())])
}

fn positions(hip: f32, knee: f32) -> Vec<u8> {
    [&[1][..], &hip.to_le_bytes(), &[1], &knee.to_le_bytes()].concat()
}

#[test]
fn how_far_a_servo_is_off_its_command_is_a_signal() {
    let mut store = Store::default();
    store.declare(0, "servo", &joints("knee"));
    store.declare(1, "command", &joints("knee"));
    store.sample(1, 0, &positions(1.0, 2.0));
    store.sample(0, 1000, &positions(0.75, 2.5));
    let error = |name| store.newest(store.signal(name).unwrap());
    assert_eq!([error("error.hip"), error("error.knee")], [0.25, -0.5]);
    let signal = store.signal("error.knee").unwrap();
    assert_eq!(store.signals()[signal as usize].unit.as_deref(), Some("rad"));
    let window = store.window(Span { level: 10, from: 0, count: 1 }, &[signal]);
    assert_eq!(window.values, [-0.5, -0.5]);
}

#[test]
fn a_record_called_error_is_the_runs_own() {
    let mut store = Store::default();
    store.declare(0, "error", &one());
    store.declare(1, "servo", &joints("knee"));
    store.declare(2, "command", &joints("knee"));
    store.sample(0, 0, &3f32.to_le_bytes());
    store.sample(1, 0, &positions(0.0, 0.0));
    assert_eq!(store.newest(store.signal("error.x").unwrap()), 3.0);
}

fn tick(number: u64, late_ns: i64, bus_ns: i64, control_ns: i64) -> Tick {
    let planned_ns = number as i64 * 1_000_000;
    Tick {
        number,
        planned_ns,
        waited_for_ns: planned_ns,
        started_ns: planned_ns + late_ns,
        wake_latency_ns: late_ns,
        collect_ns: bus_ns,
        cycle_ns: bus_ns,
        decide_ns: control_ns + 5_000,
        control_ns,
        controller_ran: true,
        phase: Phase::Active,
        ..Tick::UNKNOWN
    }
}

/// A run in which some ticks are late, and one was not recorded.
fn late_run(store: &mut Store) {
    store.declare(0, "tick", &Tick::schema());
    let preempted = |tick: Tick| Tick { queued_before_ns: tick.wake_latency_ns, ..tick };
    let of = |number: u64| match number {
        50 => preempted(tick(number, 900_000, 200_000, 20_000)),
        2500 => preempted(tick(number, 300_000, 200_000, 20_000)),
        2600 => tick(number, 5_000, 200_000, 420_000),
        2700 => tick(number, 5_000, 700_000, 20_000),
        2800 => tick(number, 80_000, 200_000, 20_000),
        _ => tick(number, 5_000, 200_000, 20_000),
    };
    let recorded = (0..3000).filter(|number| *number != 1000);
    recorded.for_each(|number| store.sample(0, number as i64 * RATE_US, &of(number).to_bytes()));
}

#[test]
fn late_ticks_are_listed_with_what_made_them_late() {
    let mut store = Store::default();
    late_run(&mut store);
    let ticks = store.ticks();
    let late: Vec<_> = ticks.late().since(0).map(|tick| (tick.tick, tick.part, tick.cause)).collect();
    let expected = [(2500, "wake", "preempted"), (2600, "control", "controller"), (2700, "bus", "bus")];
    assert_eq!(late, expected, "the first hundred are not judged");
    let counts = ticks.counts();
    assert_eq!((counts.all().ticks, ticks.unrecorded(), counts.controlled.ticks), (2999, 1, 2997));
    assert_eq!((ticks.phase(), ticks.period_ns()), (Some(Phase::Active), Some(1_000_000)));
    assert!((ticks.rate_hz().unwrap() - 1000.0).abs() < 1e-6);
}

#[test]
fn a_tick_is_late_by_what_the_robot_file_says() {
    let mut store = Store::default();
    let robot = record::Robot { file: "[loop]\nlate_us = 50".into(), ..record::Robot::default() };
    store.declare(7, "robot", &record::Robot::schema());
    store.sample(7, 0, &robot.to_bytes());
    late_run(&mut store);
    assert_eq!(store.ticks().late().count(), 4);
}

#[test]
fn a_log_without_most_fields_of_a_tick_is_counted_as_far_as_it_goes() {
    let mut store = Store::default();
    store.declare(0, "tick", &Type::object([("number", Type::VarUint)]));
    (1..=9).for_each(|number| store.sample(0, i64::from(number) * 10_000, &[number]));
    let ticks = store.ticks();
    assert_eq!((ticks.counts().all().ticks, ticks.late().count()), (9, 0));
    assert!((ticks.rate_hz().unwrap() - 100.0).abs() < 1e-6);
}

fn texts(fields: &[&str]) -> Type {
    Type::object(fields.iter().map(|name| (*name, Type::String)))
}

#[test]
fn parameters_have_the_value_that_a_tick_took() {
    let mut store = Store::default();
    store.declare(0, "parameters", &texts(&["text"]));
    let change = Type::object([
        ("tick", Type::VarUint),
        ("name", Type::String),
        ("value", Type::Float64),
        ("before", Type::Float64),
        ("by", Type::String),
    ]);
    store.declare(1, "parameter", &change);
    let mut declared = Vec::new();
    declared.counted(
        br#"[{"name":"kp","type":"float","unit":"","min":0,"max":2,"default":1,"text":"","value":1}]"#,
    );
    store.sample(0, 0, &declared);
    assert_eq!(store.parameters()[0].value, Some(1.0));
    let mut changed = vec![17];
    changed.counted(b"kp");
    changed.put(&0.5f64.to_le_bytes());
    changed.put(&1f64.to_le_bytes());
    changed.counted(b"page");
    store.sample(1, 1, &changed);
    store.sample(0, 2, &declared); // Repeated for who came late.
    assert_eq!(store.parameters()[0].value, Some(0.5));
    let change = store.changes().since(0).next().unwrap();
    assert_eq!((change.tick, change.by.as_str(), store.changes().count()), (17, "page", 1));
}

#[test]
fn a_list_keeps_its_newest_entries_and_counts_all() {
    let mut list = List::default();
    (0..2500).for_each(|at| list.push(at));
    assert_eq!((list.count(), list.since(0).count(), list.since(2490).count()), (2500, 1000, 10));
    assert_eq!(list.since(0).next(), Some(&1500));
    assert_eq!(list.since(u64::MAX).next(), None);
}
