//! `docs/log-format.md` lists the fields of `tick` as the struct has them; `UPDATE=1` writes the table anew.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_run::record::Tick;
use khz_tlog::{Columns, Record, Type};
use std::fmt::Write;

const BEGIN: &str =
    "<!-- the fields of `tick`: written by UPDATE=1 cargo test -p khz-run --test fields -->\n";
const END: &str = "<!-- end of the fields -->\n";

fn table() -> String {
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

#[test]
fn the_documentation_lists_the_fields_of_a_tick() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/log-format.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
        return;
    }
    assert_eq!(shown, table(), "UPDATE=1 cargo test -p khz-run --test fields writes it anew");
}
