//! `docs/log-format.md` lists the fields of `tick` as the struct has them, and `docs/metrics.md` the figures as they are declared;
//! `UPDATE=1` writes these tables anew.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_run::figures::{COUNTS, Count, Of, TIMES, Time};
use khz_run::record::Tick;
use khz_run::targets::{FIGURES, Fared, Figure, Value};
use khz_tlog::{Columns, Record, Type};
use std::fmt::Write;

fn fields() -> String {
    let Type::Object(fields) = Tick::schema() else { panic!("an object") };
    let mut text = "| field | type | what |\n|---|---|---|\n".to_owned();
    for (field, info) in fields.iter().zip(Tick::FIELDS) {
        let kind = match &field.ty {
            Type::Bool => "bool".to_owned(),
            Type::Int(width) => format!("i{}", 8 * *width as usize),
            Type::Uint(width) => format!("u{}", 8 * *width as usize),
            Type::Enum { names, .. } => {
                names.iter().map(|(_, name)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            }
            other => panic!("{other:?}"),
        };
        let unit = field.unit().map_or(String::new(), |unit| format!(", {unit}"));
        writeln!(text, "| `{}` | {kind}{unit} | {} |", info.name, info.about).unwrap();
    }
    text
}

fn required(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!("`{name}`"))
}

fn counts() -> String {
    let mut text = "| JSON key, label | shown | required by | definition |\n|---|---|---|---|\n".to_owned();
    for count in COUNTS {
        let of = match count.of {
            Of::Controlled => "controlled",
            Of::Run => "run",
        };
        let Count { key, label, definition, .. } = count;
        let required = required(count.required);
        writeln!(text, "| `{key}`, {label} | {of} | {required} | {} |", definition.trim()).unwrap();
    }
    text
}

fn times() -> String {
    let head = "| JSON key, label | unit | required by | definition | leaves out | equivalent elsewhere |\n|---|---|---|---|---|---|\n";
    let mut text = head.to_owned();
    for Time { key, label, unit, definition, leaves_out, elsewhere, required: name, .. } in TIMES {
        let (definition, name) = (definition.trim(), required(*name));
        writeln!(text, "| `{key}`, {label} | {unit} | {name} | {definition} | {leaves_out} | {elsewhere} |")
            .unwrap();
    }
    text
}

fn targets() -> String {
    let mut text = "| JSON key, label | unit | required by | definition |\n|---|---|---|---|\n".to_owned();
    for Figure { key, label, definition, required: name, within } in FIGURES {
        let unit = match within(&Fared::default()) {
            Value::Count(_) => "",
            Value::Time(_) => "ns",
            Value::Angle(_) => "rad",
        };
        let name = required(*name);
        writeln!(text, "| `{key}`, {label} | {unit} | {name} | {} |", definition.trim()).unwrap();
    }
    text
}

/// The part of a page that is written by this test.
fn is_written(page: &str, what: &str, table: &str) {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let begin = format!("<!-- the {what}: written by UPDATE=1 cargo test -p khz-run --test fields -->\n");
    let end = format!("<!-- end of the {} -->\n", what.split(' ').next().unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&begin).unwrap();
    let (shown, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(shown, table, "UPDATE=1 cargo test -p khz-run --test fields writes it anew");
}

#[test]
fn the_documentation_lists_the_fields_of_a_tick() {
    is_written("log-format.md", "fields of `tick`", &fields());
}

#[test]
fn the_documentation_defines_every_figure() {
    // One after the other: both are in one file.
    is_written("metrics.md", "counts", &counts());
    is_written("metrics.md", "times", &times());
    is_written("metrics.md", "targets", &targets());
}
