//! Whose log it is, and which of its records is which table.

use crate::ExportError;
use crate::scan::{Selection, scan};
use khz_tlog::{Reader, Source, Value, received};
use std::collections::BTreeMap;

/// The record that names the robot.
const ROBOT: &str = "robot";

/// The name of a record without the number of who sent it, and that number: `servo@2`, in a log of what came over the network.
pub(super) fn sender(name: &str, is_received: bool) -> (&str, Option<u32>) {
    match name.rsplit_once('@') {
        Some((plain, number)) if is_received && !plain.is_empty() => match number.parse() {
            Ok(number) => (plain, Some(number)),
            Err(_) => (name, None),
        },
        _ => (name, None),
    }
}

/// Whether samples of several senders may be in this log. Its records must be known.
pub(super) fn is_received<S: Source>(log: &Reader<S>) -> bool {
    received::MARKS.iter().all(|name| log.record(name).is_ok())
}

/// The names of the robots, by the numbers of their senders. From here on the log gives only the records with the names.
///
/// # Errors
/// If the log cannot be read.
pub(super) fn names<S: Source>(log: &mut Reader<S>) -> Result<BTreeMap<Option<u32>, String>, ExportError> {
    log.survey()?;
    let is_received = is_received(log);
    let is_robot = |name: &&str| sender(name, is_received).0 == ROBOT;
    let records: Vec<String> =
        log.records().iter().map(|record| record.name()).filter(is_robot).map(str::to_owned).collect();
    let mut names = BTreeMap::new();
    if records.is_empty() {
        return Ok(names);
    }
    let count = records.len();
    let selection = Selection { records, ..Selection::default() };
    let each = |item: &khz_tlog::Item<'_>| {
        let who = sender(item.record.name(), is_received).1;
        if let Some(Value::String(name)) = item.value()?.at("name") {
            names.entry(who).or_insert_with(|| name.to_owned());
        }
        Ok(names.len() < count)
    };
    // Damage is reported when the samples are read.
    scan(log, &selection, |_| {}, each)?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_received_records_have_senders() {
        let names = ["servo", "servo@2", "a@b", "a@b@3", "@4", "servo@99999999999"];
        let expected = [
            ("servo", None),
            ("servo", Some(2)),
            ("a@b", None),
            ("a@b", Some(3)),
            ("@4", None),
            (names[5], None),
        ];
        assert_eq!(names.map(|name| sender(name, true)), expected);
        assert_eq!(names.map(|name| sender(name, false)), names.map(|name| (name, None)));
    }
}
