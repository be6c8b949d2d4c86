//! Exports, plots and units.

use super::{T0, bench, khz, lines_of, stdout};
use khz_tlog::{Options, Type, Writer};
use serde_json::Value;

#[test]
fn exports_and_plots_are_written() {
    let bench = bench();
    for format in ["mcap", "csv"] {
        assert!(khz(&["export", &bench.log, "--format", format]).status.success(), "{format}");
    }
    let mcap = std::fs::read(format!("{}/run.mcap", bench.folder)).unwrap();
    assert!(mcap.starts_with(b"\x89MCAP0\r\n") && mcap.ends_with(b"\x89MCAP0\r\n"));
    let table = std::fs::read_to_string(format!("{}/run.csv/imu.csv", bench.folder)).unwrap();
    assert_eq!(table.lines().count(), 1001);
    let page = format!("{}/plot.html", bench.folder);
    assert!(khz(&["plot", &bench.log, "imu.rate", "-o", &page]).status.success());
    assert!(std::fs::read_to_string(page).unwrap().contains("rate.2"));
}

#[test]
fn records_whose_names_become_the_same_have_tables_of_their_own() {
    let bench = bench();
    let path = format!("{}/names.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let names = ["tick@2", "tick_2", "tick.2", "tick_2_2"];
    let records = names.map(|name| log.record(name, &Type::Bool).unwrap());
    for (index, record) in records.into_iter().enumerate() {
        (0..=index).for_each(|_| log.write(record, Some(T0), &[1]).unwrap());
    }
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let folder = format!("{}/tables", bench.folder);
    let words = ["export", &path, "--format", "csv", "-o", &folder];
    let paths = lines_of(&words);
    let samples = |path: &String| std::fs::read_to_string(path).unwrap().lines().count() - 1;
    assert_eq!(paths.iter().map(samples).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(paths[0].ends_with("/tick_2.csv") && paths[1].ends_with("/tick_2_2.csv"), "{paths:?}");
    assert_eq!(lines_of(&[&words[..], &["--force"]].concat()), paths);
}

#[test]
fn tables_of_records_without_a_name_or_of_different_case_share_no_file() {
    let bench = bench();
    let path = format!("{}/names.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    for name in ["a_b", "A_B", ""] {
        let record = log.record(name, &Type::Bool).unwrap();
        log.write(record, Some(T0), &[1]).unwrap();
    }
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let folder = format!("{}/tables", bench.folder);
    let paths = lines_of(&["export", &path, "--format", "csv", "-o", &folder]);
    assert_eq!(paths, ["a_b.csv", "A_B_2.csv", "unnamed.csv"].map(|name| format!("{folder}/{name}")));
    assert!(khz(&["export", &path, "--format", "mcap"]).status.success());
}

#[test]
fn thousands_of_units_filled_the_screen() {
    use khz_tlog::Field;

    let bench = bench();
    let path = format!("{}/units.tlog", bench.folder);
    let field = |n: usize| Field::new(format!("f{n}"), Type::Bool).with_unit(&format!("u{n}"));
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    log.record("many", &Type::Object((0..2000).map(field).collect())).unwrap();
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let shown = stdout(&khz(&["info", &path]));
    assert!(shown.ends_with(", f19 u19, and 1980 more (--json)\n"), "{shown}");
}

#[test]
fn info_shows_units_and_plots_have_them_at_their_axis() {
    use khz_tlog::Field;

    let bench = bench();
    let path = format!("{}/units.tlog", bench.folder);
    let leg = Type::Object(vec![
        Field::new("angle", Type::Float64).with_unit("rad"),
        Field::new("t_s", Type::Float64).with_unit("s"),
    ]);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let record = log.record("legs", &Type::object([("left", leg.clone()), ("right", leg)])).unwrap();
    log.write(record, Some(T0), &[0; 32]).unwrap();
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    assert!(stdout(&khz(&["info", &path])).ends_with("\nrecord units\nlegs   angle rad\n"));
    let info: Value = serde_json::from_str(&stdout(&khz(&["info", &path, "--json"]))).unwrap();
    assert_eq!(
        info["records"][0]["units"],
        serde_json::json!({"left.angle": "rad", "left.t_s": "s", "right.angle": "rad", "right.t_s": "s"})
    );
    let plot = |what: &str| {
        let page = format!("{}/plot.html", bench.folder);
        assert!(khz(&["plot", &path, what, "-o", &page, "--force"]).status.success());
        std::fs::read_to_string(page).unwrap()
    };
    let has_unit = |page: String| page.contains("\"unit\":\"rad\"");
    // Seconds are on axes of their own.
    assert!(
        has_unit(plot("legs.left.angle")) && has_unit(plot("legs.left")) && !has_unit(plot("legs.left.t_s"))
    );
}

/// PlotJuggler stops at an integer that no float64 holds exactly.
#[test]
fn an_mcap_export_rounds_integers_beyond_float64_and_keeps_them_on_request() {
    let bench = bench();
    let path = format!("{}/ids.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let record = log.record("ids", &Type::object([("id", Type::Int(khz_tlog::Width::Eight))])).unwrap();
    log.write(record, Some(T0), &((1i64 << 53) + 1).to_le_bytes()).unwrap();
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let export = |more: &[&str]| {
        let output = khz(&[&["export", &path, "--force"], more].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let definition = || {
        let file = std::fs::read(format!("{}/ids.mcap", bench.folder)).unwrap();
        let has = |text: &[u8]| file.windows(text.len()).any(|bytes| bytes == text);
        (has(b"float64 id\n"), has(b"int64 id\n"))
    };
    for (more, message, written) in [
        (None, "they were rounded: --exact-integers", (true, false)),
        (Some("--exact-integers"), "PlotJuggler stops there", (false, true)),
    ] {
        let (code, error) = export(&[&["--format", "mcap"], more.as_slice()].concat());
        assert!(code == Some(0) && error.contains("64-bit integers in ids"), "{error}");
        assert!(error.contains(message) && definition() == written, "{error}");
    }
    assert_eq!(export(&["--format", "csv", "--exact-integers"]).0, Some(2));
}
