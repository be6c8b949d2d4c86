use super::*;
use khz_tlog::{Sink as _, Width};
use serde_json::Value as Json;
use std::collections::BTreeMap;

const MS: i64 = 1_000_000;

/// What PlotJuggler plots of each object of a datagram, by its own rules: an array of objects, each with the field chosen as
/// time; numbers and truth values under the names on the way to them, joined by `/`, an array's items as `[i]`.
fn plotted(datagram: &[u8]) -> Vec<BTreeMap<String, f64>> {
    let json: Json = serde_json::from_slice(datagram).expect("bad datagrams end the stream");
    let objects = json.as_array().expect("an array, so that each object has its own time");
    objects
        .iter()
        .map(|object| {
            let mut plots = BTreeMap::new();
            plot("", object, &mut plots);
            let time = plots.remove("/timestamp").expect("the first object without it switches times off");
            plots.insert("timestamp".into(), time);
            plots
        })
        .collect()
}

fn plot(name: &str, value: &Json, plots: &mut BTreeMap<String, f64>) {
    match value {
        Json::Object(fields) => {
            fields.iter().for_each(|(key, value)| plot(&format!("{name}/{key}"), value, plots))
        }
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| plot(&format!("{name}[{at}]"), item, plots))
        }
        Json::Number(number) => {
            let value = number.as_f64().unwrap();
            let is_exact = number.as_i64().is_none_or(|integer| value as i64 == integer)
                && number.as_u64().is_none_or(|integer| value as u64 == integer);
            assert!(is_exact, "PlotJuggler stops at {number}");
            assert!(plots.insert(name.to_owned(), value).is_none(), "{name} twice");
        }
        other => panic!("{name}: {other} cannot be plotted"),
    }
}

/// A sink that sends to a socket of the test, and its records.
struct Bench {
    plot: Plot,
    receiver: UdpSocket,
    now_ns: i64,
}

impl Bench {
    fn new(most: usize, records: &[(&str, Type)]) -> Self {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let mut plot = Plot::new(&receiver.local_addr().unwrap().to_string()).unwrap();
        assert_eq!(plot.most, MOST);
        plot.most = most;
        let declared = |(name, ty): &(&str, Type)| Declared { name: (*name).to_owned(), ty: ty.clone() };
        plot.begin(&records.iter().map(declared).collect::<Vec<_>>(), 0).unwrap();
        Self { plot, receiver, now_ns: 0 }
    }

    fn sample(&mut self, record: u16, payload: &[u8]) -> SinkResult {
        self.plot.sample(RecordId(record), self.now_ns, payload)
    }

    /// The next turn, 5 ms later, and what it sent.
    fn turn(&mut self) -> Vec<Vec<u8>> {
        self.plot.turn(self.now_ns).unwrap();
        self.now_ns += 5 * MS;
        self.received()
    }

    fn received(&self) -> Vec<Vec<u8>> {
        let mut buffer = [0; 65_536];
        let mut next = || {
            let len = self.receiver.recv(&mut buffer).ok()?;
            Some(buffer[..len].to_vec())
        };
        std::iter::from_fn(&mut next).collect()
    }
}

/// A servo record like that of a run.
fn servos(names: &[&str]) -> Type {
    let mode = Type::enumeration([(1, "stopped"), (10, "position")]);
    let servo = || {
        Type::object([
            ("position", Type::Float32),
            ("note", Type::String),
            ("fresh", Type::Bool),
            ("mode", mode.clone()),
        ])
    };
    Type::object(names.iter().map(|name| (*name, servo())))
}

fn servo(position: f32, mode: u8, out: &mut Vec<u8>) {
    out.put(&position.to_le_bytes());
    out.counted(b"\"quoted\"");
    out.put(&[u8::from(mode == 10), mode]);
}

fn golden() -> Json {
    let json: Json = serde_json::from_str(include_str!("../../../../vectors/plotjuggler.json")).unwrap();
    json["vectors"][0].clone()
}

#[test]
fn a_datagram_is_as_recorded_and_plots_what_it_should() {
    let rate = Type::object([("rate", Type::FixedArray(3, Box::new(Type::Float64))), ("text", Type::String)]);
    let records = [
        ("servo", servos(&["hip", "knee"])),
        ("imu", rate),
        ("count", Type::Uint(Width::Eight)),
        ("log", Type::String),
    ];
    let mut bench = Bench::new(MOST, &records);
    bench.now_ns = 1250 * MS;
    let mut bytes = Vec::new();
    servo(0.5, 10, &mut bytes);
    servo(f32::NAN, 1, &mut bytes);
    bench.sample(0, &bytes).unwrap();
    let rate = [0.25f64, f64::INFINITY, -1e-7].map(f64::to_le_bytes);
    bench.sample(1, &[rate.as_flattened(), b"\x01x"].concat()).unwrap();
    bench.sample(2, &(1u64 << 53).to_le_bytes()).unwrap();
    bench.sample(3, b"\x05texts").unwrap();
    bench.now_ns += MS;
    bytes.clear();
    servo(0.75, 10, &mut bytes);
    servo(-1.5, 10, &mut bytes);
    bench.sample(0, &bytes).unwrap();
    bench.sample(2, &u64::MAX.to_le_bytes()).unwrap();

    let sent = bench.turn();
    let golden = golden();
    assert_eq!(String::from_utf8(sent[0].clone()).unwrap(), golden["datagram"].as_str().unwrap());
    let plots: Vec<BTreeMap<String, f64>> = serde_json::from_value(golden["plots"].clone()).unwrap();
    assert_eq!(plotted(&sent[0]), plots);
    assert_eq!(bench.plot.lost(), 0);
}

#[test]
fn a_sample_larger_than_a_datagram_is_sent_in_parts() {
    let names: Vec<String> = (0..40).map(|n| format!("servo_number_{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new(MOST_ELSEWHERE, &[("servo", servos(&names))]);
    let mut bytes = Vec::new();
    (0..40u8).for_each(|n| servo(f32::from(n), 10, &mut bytes));
    bench.sample(0, &bytes).unwrap();
    let sent: Vec<_> = (0..40).flat_map(|_| bench.turn()).collect();
    assert!(sent.len() > 1 && sent.iter().all(|datagram| datagram.len() <= MOST_ELSEWHERE));
    let mut all = BTreeMap::new();
    for plots in sent.iter().flat_map(|datagram| plotted(datagram)) {
        assert_eq!(plots["timestamp"], 0.0);
        all.extend(plots);
    }
    assert_eq!(all.len(), 1 + 40 * 3);
    assert_eq!(all["/servo/servo_number_39/position"], 39.0);
}

/// Three seconds at 1 kHz, with one rare sample each 300 ms; what came in each datagram, and when.
fn three_seconds(most: usize) -> (Bench, Vec<(i64, Vec<u8>)>) {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let records = [("servo", servos(&names)), ("command", servos(&names)), ("parameter", Type::Float64)];
    let mut bench = Bench::new(most, &records);
    let (mut sent, mut bytes) = (Vec::new(), Vec::new());
    (0..12u8).for_each(|_| servo(-0.123_456_7, 10, &mut bytes));
    for turn in 0..600 {
        for tick in 0..5 {
            let turn_ns = std::mem::replace(&mut bench.now_ns, (5 * turn + tick) * MS);
            bench.sample(0, &bytes).unwrap();
            bench.sample(1, &bytes).unwrap();
            bench.now_ns = turn_ns;
        }
        if turn % 60 == 0 {
            bench.sample(2, &(turn as f64).to_le_bytes()).unwrap();
        }
        let now_ns = bench.now_ns;
        sent.extend(bench.turn().into_iter().map(|datagram| (now_ns, datagram)));
    }
    (bench, sent)
}

#[test]
fn too_much_is_thinned_out_evenly_and_what_is_rare_is_kept() {
    for most in [MOST, MOST_ELSEWHERE] {
        let (bench, sent) = three_seconds(most);
        let within_a_second =
            |from: i64| sent.iter().filter(|(at_ns, _)| (from..from + 1000 * MS).contains(at_ns)).count();
        assert!(sent.iter().all(|(at_ns, _)| within_a_second(*at_ns) <= 50));
        assert!(sent.iter().all(|(_, datagram)| datagram.len() <= most));
        let plots: Vec<_> = sent.iter().flat_map(|(_, datagram)| plotted(datagram)).collect();
        let times = |name: &str| -> Vec<i64> {
            let with = plots.iter().filter(|plots| plots.contains_key(name));
            with.map(|plots| (plots["timestamp"] * 1000.0).round() as i64).collect()
        };
        let (servo, command) = (times("/servo/a/position"), times("/command/a/position"));
        assert_eq!(times("/parameter").len(), 10);
        // After the first window every n-th, the same of both records.
        let settled: Vec<i64> = servo.into_iter().filter(|&ms| ms > 400).collect();
        let steps: Vec<i64> = settled.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|&step| step == bench.plot.every as i64), "{steps:?}");
        assert!(settled.len() > 20 && settled.iter().all(|ms| command.contains(ms)));
        assert_eq!(bench.plot.lost(), 0);
        assert!(bench.plot.note().is_none_or(|note| note.contains(&format!("1 of {}", bench.plot.every))));
        assert_eq!(bench.plot.note().is_some(), most == MOST_ELSEWHERE);
    }
}

#[test]
fn what_is_not_received_is_counted() {
    let mut bench = Bench::new(MOST, &[("count", Type::Uint(Width::One))]);
    let (elsewhere, closed) = (UdpSocket::bind("127.0.0.1:0").unwrap(), bench.receiver.local_addr().unwrap());
    bench.receiver = elsewhere;
    let mut errors = 0;
    for turn in 0..10 {
        bench.now_ns = turn * SLOT_NS;
        bench.sample(0, &[7]).unwrap();
        errors += u32::from(bench.plot.turn(bench.now_ns).is_err());
    }
    assert!(errors > 0 && bench.plot.lost() == u64::from(errors), "{errors} for {closed}");
}

#[test]
fn a_name_longer_than_a_datagram_is_an_error_of_its_sample_alone() {
    let long = "x".repeat(2000);
    let mut bench = Bench::new(MOST_ELSEWHERE, &[(&long, Type::Bool), ("short", Type::Bool)]);
    assert!(bench.sample(0, &[1]).is_err());
    bench.sample(1, &[1]).unwrap();
    assert_eq!(plotted(&bench.turn()[0])[0]["/short"], 1.0);
}

#[test]
fn an_address_without_a_port_is_refused_with_the_key() {
    let log = crate::LogConfig { plotjuggler: Some("127.0.0.1".into()), ..Default::default() };
    let Err(error) = crate::RecorderBuilder::new(log).start() else { panic!("it started") };
    assert!(error.to_string().contains("log.plotjuggler wants `HOST:PORT`"), "{error}");
}
