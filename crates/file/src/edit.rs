//! Changes to the text of a robot file. Comments, layout, line endings and the byte order mark stay.

use toml_edit::{DocumentMut, Item, Table, Value};

/// The byte order mark.
const MARK: char = '\u{feff}';

/// A text of TOML after a change, with its line endings and its byte order mark.
pub fn rewritten(text: &str, change: impl FnOnce(&mut DocumentMut)) -> Result<String, toml_edit::TomlError> {
    let mut file: DocumentMut = text.parse()?;
    change(&mut file);
    let mut edited = file.to_string();
    if text.contains("\r\n") {
        edited = edited.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if text.starts_with(MARK) && !edited.starts_with(MARK) {
        edited.insert(0, MARK);
    }
    Ok(edited)
}

/// A table of the root; a new one if there is none.
pub fn table<'a>(file: &'a mut DocumentMut, name: &str) -> &'a mut Item {
    file.entry(name).or_insert_with(|| Item::Table(Table::new()))
}

/// Replaces a value, and keeps the comment behind it.
pub fn set(item: &mut Item, value: &Value) {
    let mut value = value.clone();
    if let Some(old) = item.as_value() {
        *value.decor_mut() = old.decor().clone();
    }
    *item = Item::Value(value);
}
