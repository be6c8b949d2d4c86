//! Reads `vectors/`; its README describes the files.

use serde_json::Value as Json;
use std::path::Path;

/// The vectors of a file.
pub fn vectors(file: &str) -> Vec<Json> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut json: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let Json::Array(vectors) = json["vectors"].take() else { panic!("{file}: no list of vectors") };
    assert!(!vectors.is_empty(), "{file}");
    vectors
}

/// Bytes of a hex string; spaces mean nothing.
pub fn bytes(json: &Json) -> Vec<u8> {
    let digits: Vec<u8> = text(json).bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    assert_eq!(digits.len() % 2, 0, "{json}");
    digits.chunks(2).map(pair).collect()
}

pub fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("{json} is no string"))
}

pub fn hex_number(json: &Json) -> u32 {
    u32::from_str_radix(text(json).trim_start_matches("0x"), 16).unwrap()
}

/// A number, or "nan".
pub fn number(json: &Json) -> f64 {
    if *json == "nan" { f64::NAN } else { json.as_f64().unwrap_or_else(|| panic!("{json} is no number")) }
}

pub fn small(json: &Json) -> u8 {
    json.as_u64().and_then(|value| u8::try_from(value).ok()).unwrap_or_else(|| panic!("{json} is no byte"))
}
