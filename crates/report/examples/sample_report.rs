//! Writes sample pages into a directory: `cargo run -p khz-report --example sample_report -- DIR`.
//!
//! The figures are made up from a seed; the browser tests open these pages.
#![allow(missing_docs)]
use khz_page::{
    Axis, Bar, Better, Comparison, Distribution, Figure, Gantt, Level, Measured, Page, Plot, Ranges, Section,
    StackedTrace, Trace, Verdict,
};
use khz_report::run::page::{Device, Event, Fact, Grant, Joint, PartTimes, RunData};
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target/sample-reports".into()));
    std::fs::create_dir_all(&directory)?;
    for (name, page) in [
        ("run", run()),
        ("compare", compare()),
        ("hostile", hostile()),
        ("empty", empty()),
        ("large", large()),
    ] {
        std::fs::write(directory.join(name).with_extension("html"), page.to_string())?;
    }
    Ok(())
}

/// Numbers that look like noise and are the same each time.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1u32 << 31)
    }

    /// Mostly near `typical`, with a long tail.
    fn tail(&mut self, typical: f64) -> f64 {
        typical * (0.9 + 0.2 * self.unit() + 0.05 / (self.unit() + 0.002))
    }
}

const PHASES: [(&str, f64); 7] = [
    ("wake", 3_000.0),
    ("encode", 2_500.0),
    ("bus", 420_000.0),
    ("decode", 3_000.0),
    ("supervisor", 600.0),
    ("controller", 8_000.0),
    ("record", 400.0),
];

fn run() -> Page {
    let mut data = RunData {
        title: "quadruped · stand and squat".into(),
        subtitle: "12 servos on 4 CAN-FD buses + IMU, emulated, 1 kHz for 10 s".into(),
        verdict: Verdict {
            level: Level::Warning,
            held: true,
            headline: "held 1000 Hz".into(),
            reasons: vec!["The loop thread was not granted real-time scheduling.".into()],
            remedy: Some("run `khz doctor`".into()),
            ..Verdict::default()
        }
        .sentence("held 1000 Hz without real-time scheduling"),
        period_ns: 1_000_000,
        bus_deadline_ns: 980_000,
        config: "[loop]\nrate_hz = 1000\n".into(),
        ..RunData::default()
    };
    ticks(&mut data);
    data.figures = vec![
        Figure::new("rate", "1000.0 Hz").note("asked for 1000").level(Level::Good),
        Figure::new("ticks", "10\u{202f}000"),
        Figure::new("missed replies", "0").note("of 120 000").level(Level::Good),
        Figure::new("cycle p99", "447 µs").note("44.7 % of the period").level(Level::Good),
        Figure::new("wake p99", "62 µs").level(Level::Warning).note("sleep, SCHED_OTHER"),
        Figure::new("worst cycle", "812 µs").note("at 6.214 s"),
    ];
    data.joints = joints();
    data.devices = devices();
    data.events = vec![
        Event { time_s: 0.0, level: Level::Note, what: "armed".into(), detail: "from idle".into() },
        Event {
            time_s: 6.214,
            level: Level::Warning,
            what: "late tick".into(),
            detail: "steal 350 µs".into(),
        },
        Event { time_s: 9.99, level: Level::Note, what: "damping".into(), detail: "end of run".into() },
    ];
    data.passport =
        [("kernel", "6.12.0"), ("preemption", "dynamic"), ("CPU", "example, 2 cores"), ("steal", "1.2 %")]
            .map(|(key, value)| Fact { key: key.into(), value: value.into(), level: Level::Note })
            .into();
    data.grants = grants();
    data.page()
}

fn grants() -> Vec<Grant> {
    vec![
        Grant {
            thread: "loop".into(),
            setting: "policy".into(),
            requested: "FIFO 80".into(),
            granted: "OTHER".into(),
            ok: false,
        },
        Grant {
            thread: "loop".into(),
            setting: "memory lock".into(),
            requested: "all".into(),
            granted: "all".into(),
            ok: true,
        },
    ]
}

fn ticks(data: &mut RunData) {
    let mut noise = Noise(1);
    let mut rows = Vec::new();
    let mut times = PHASES.map(|_| khz_rt::Histogram::new());
    data.phases = StackedTrace::new(PHASES.map(|p| p.0));
    // A hole of 88 ms, as of a process that is stopped.
    for tick in (0..3_000).chain(3_088..10_000u32) {
        let time = f64::from(tick) * 0.001;
        if tick == 3_088 {
            data.phases.gap(time - 0.044);
            rows.push((time - 0.044, vec![f32::NAN; PHASES.len()]));
        }
        let mut row: Vec<f32> = PHASES
            .iter()
            .map(|(name, ns)| if *name == "bus" { ns + 9e3 * noise.unit() } else { noise.tail(*ns) } as f32)
            .collect();
        match tick {
            3_088 => row[0] = 88e6,
            6_214 => row[0] = 380_000.0,
            _ => {}
        }
        data.phases.push(time, &row);
        times.iter_mut().zip(&row).for_each(|(times, ns)| times.record(*ns as i64, i64::from(tick)));
        rows.push((time, row));
    }
    let part = |((name, ns), times): (&(&str, f64), &khz_rt::Histogram)| PartTimes {
        name: (*name).into(),
        time_ns: times.summary(),
        predicted_ns: (*name != "wake").then_some((ns * 0.97) as i64),
    };
    data.parts = PHASES.iter().zip(&times).map(part).collect();
    let sum = |row: &[f32]| row.iter().copied().map(f64::from).sum::<f64>();
    data.cycle = Measured::from_points(rows.iter().map(|(t, r)| (*t, sum(r))));
    data.wake = Measured::from_points(rows.iter().map(|(t, r)| (*t, f64::from(r[0]))));
    data.cpu = Measured::from_points(rows.iter().map(|(t, r)| (*t, sum(r) - f64::from(r[0] + r[2]))));
}

fn joints() -> Vec<Joint> {
    let mut noise = Noise(2);
    let names = ["front_left", "front_right", "rear_left", "rear_right"];
    let parts = [("hip", 0.05, 0.0), ("thigh", 0.4, 0.7), ("knee", 0.8, -1.4)];
    let mut joints = Vec::new();
    for leg in names {
        for (part, swing, centre) in parts {
            let at = |t: f64| centre + swing * (t * 2.0).sin();
            let times = || (0..10_000).map(|i| f64::from(i) * 0.001);
            joints.push(Joint {
                name: format!("{leg}_{part}"),
                unit: "rad".into(),
                commanded: Trace::from_points(times().map(|t| (t, at(t)))),
                measured: Trace::from_points(times().map(|t| (t, at(t - 0.04) + 0.004 * noise.unit()))),
                limits: Some((centre - 1.0, centre + 1.0)),
            });
        }
    }
    joints
}

fn devices() -> Vec<Device> {
    let mut noise = Noise(3);
    let device = |at: u64| Device {
        name: format!("servo_{at}"),
        bus: format!("bus_{}", at % 4),
        sent: 10_000,
        replied: 10_000 - at / 9,
        missed: at / 9,
        late: Some(0),
        duplicates: Some(0),
        round_trip: Distribution::from_samples(
            (0..2_000).map(|_| noise.tail(180_000.0 + 40_000.0 * (at / 4) as f64)),
        ),
    };
    (0..12).map(device).collect()
}

fn compare() -> Page {
    let mut noise = Noise(4);
    let runs: Vec<(&str, Distribution)> =
        [("idle, FIFO", 3e3), ("loaded, FIFO", 5e3), ("loaded, OTHER", 6e4)]
            .map(|(name, ns)| (name, Distribution::from_samples((0..100_000).map(|_| noise.tail(ns)))))
            .into();
    let q = |q: f64| runs.iter().map(move |r| r.1.quantile(q).unwrap_or(f64::NAN)).collect::<Vec<_>>();
    let figures = Comparison::new(runs.iter().map(|r| r.0))
        .row("wake p50", "ns", Better::Lower, q(0.5))
        .row("wake p99", "ns", Better::Lower, q(0.99))
        .row("wake largest", "ns", Better::Lower, q(1.0))
        .row("rate", "Hz", Better::Higher, [1000.0, 1000.0, 999.2]);
    let curves = runs.iter().fold(
        Plot::percentiles("Wake latency", Axis::new("latency", "ns").log()).limit(1e6, "period"),
        |plot, (name, values)| plot.curve(*name, values),
    );
    let bins =
        runs.iter().take(2).fold(Plot::histogram("Wake latency", Axis::new("latency", "ns")), |plot, run| {
            plot.bins(run.0, &run.1, 100.0)
        });
    let ranges = runs.iter().fold(Ranges::new("Per run", "ns"), |ranges, run| ranges.device(run.0, &run.1));
    let bus = Gantt::new("One bus cycle")
        .row(
            "bus 1",
            [Bar::new("query", 0.0, 6e4), Bar::new("turnaround", 6e4, 1.3e5), Bar::new("reply", 1.3e5, 2e5)],
        )
        .row("bus 2", [Bar::new("query", 2e4, 8e4).detail("query servo 4"), Bar::new("reply", 1.5e5, 2.2e5)]);
    Page::new("Three machines, one loop")
        .badge(Level::Note, "3 runs")
        .section(Section::new("Side by side").text("Each run against the first.").with(figures))
        .section(Section::new("Distributions").with(curves).with(bins).with(ranges).with(bus))
}

fn hostile() -> Page {
    let evil =
        "\"'></script></style></title><script>window.broken=1</script><img src=x onerror=window.broken=1>";
    let trace =
        Trace::from_points([(0.0, 1.0), (1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, -5.0), (4.0, 2.0)]);
    let plot = Plot::over_time(evil, Axis::new(evil, evil))
        .line(evil, &trace)
        .marker(1.0, evil, Level::Bad)
        .limit(0.5, evil);
    Page::new(evil).subtitle(evil).badge(Level::Bad, evil).section(Section::new(evil).text(evil).with(plot))
}

fn empty() -> Page {
    let none = Distribution::default();
    Page::new("Nothing happened").section(
        Section::new("Empty")
            .with(Plot::over_time("no line", Axis::new("y", "ns")))
            .with(Plot::over_time("empty line", Axis::new("y", "")).line("a", &Trace::new()))
            .with(
                Plot::over_time("one point", Axis::new("y", "")).line("a", &Trace::from_points([(1.0, 1.0)])),
            )
            .with(Plot::percentiles("no samples", Axis::new("y", "ns").log()).curve("a", &none))
            .with(Plot::histogram("no samples", Axis::new("x", "ns")).bins("a", &none, 10.0))
            .with(Plot::stack("no parts", Axis::new("y", "ns"), &StackedTrace::default())),
    )
}

fn large() -> Page {
    let mut noise = Noise(5);
    let peak = 7_654_321;
    let trace = Trace::from_uniform(
        0.0,
        1e-3,
        (0..10_000_000).map(|i| if i == peak { 9e6 } else { noise.tail(5e3) }),
    );
    let plot = Plot::over_time("Ten million ticks", Axis::new("latency", "ns").log()).line("wake", &trace);
    Page::new("Ten million points")
        .section(Section::new("Thinned").text("One peak, at 7654.321 s.").with(plot))
}
