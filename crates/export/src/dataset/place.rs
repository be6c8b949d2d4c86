//! Where the rows of a log lie: folders in Hive's manner, with names that are safe whatever a log contains.

use std::fmt::Write;
use std::path::{Component, Path};

/// What Hive's readers take for no value.
pub(super) const NONE: &str = "__HIVE_DEFAULT_PARTITION__";
/// Bytes of a name at most, as it is written: file systems allow 255 for `robot=` and it.
const MOST: usize = 200;

const DAY_US: i64 = 86_400_000_000;
/// The day after 9999-12-31, in days since 1970: later years have more digits than engines read.
const DAYS_END: i64 = 2_932_897;

/// The name with every byte percent-encoded that is no ASCII letter, digit, `-`, `_` or `.`, and a first `.` or `_`, which
/// hides a file from readers. Engines decode it. One that is too long is cut, and has a digest behind it. An empty name
/// is `~`, which no other becomes.
pub(super) fn encoded(name: &str) -> String {
    if name.is_empty() {
        return "~".into();
    }
    let mut out = String::new();
    for (at, byte) in name.bytes().enumerate() {
        let hides = at == 0 && b"._".contains(&byte);
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) && !hides {
            out.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    if out.len() > MOST {
        let digest = sha1_smol::Sha1::from(name).digest().to_string();
        // Not within an encoded byte.
        let end = (MOST - 20..MOST - 10).find(|&end| !out[end - 2..end].contains('%')).unwrap_or(MOST - 20);
        out.truncate(end);
        out.push('~');
        out.push_str(&digest[..8]);
    }
    out
}

/// Whether a path below the dataset is one of a log's files: `table/robot=…/day=…/ID.parquet`, or `ID@2.parquet`.
pub(super) fn is_of(path: &str, log: &str) -> bool {
    let is_normal = |part: &str| Path::new(part).components().eq([Component::Normal(part.as_ref())]);
    let parts: Vec<&str> = path.split('/').collect();
    let [table, robot, day, file] = parts[..] else { return false };
    parts.iter().all(|part| is_normal(part))
        && !table.starts_with(['_', '.'])
        && robot.starts_with("robot=")
        && day.starts_with("day=")
        && is_file_of(file, log)
}

/// Whether a file is called as those of a log are.
pub(super) fn is_file_of(file: &str, log: &str) -> bool {
    let Some(behind) = file.strip_suffix(".parquet").and_then(|name| name.strip_prefix(log)) else {
        return false;
    };
    behind.is_empty()
        || behind
            .strip_prefix('@')
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The folder of a robot's rows.
pub(super) fn robot(name: Option<&str>) -> String {
    format!("robot={}", name.filter(|name| !name.is_empty()).map_or(NONE.to_owned(), encoded))
}

/// The UTC day of a time, `2026-03-01`. None before 1970 and after 9999: there is no such day in Hive's folders.
pub(super) fn day(time_us: i64) -> Option<String> {
    let days = time_us.div_euclid(DAY_US);
    if !(0..DAYS_END).contains(&days) {
        return None;
    }
    // Howard Hinnant's civil_from_days: eras of 400 years, years beginning in March.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    Some(format!("{year:04}-{month:02}-{:02}", of_year - (153 * march + 2) / 5 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_folder_and_none_is_hidden() {
        let names = ["quad-1", "a=b", "a/b c", "..", ".", "_tmp", "größe", "100%", "a\nb", "*?[", "\\", "~"];
        let expected = [
            "quad-1",
            "a%3Db",
            "a%2Fb%20c",
            "%2E.",
            "%2E",
            "%5Ftmp",
            "gr%C3%B6%C3%9Fe",
            "100%25",
            "a%0Ab",
            "%2A%3F%5B",
            "%5C",
            "%7E",
        ];
        assert_eq!(names.map(encoded), expected);
        assert_eq!((robot(None), robot(Some(""))), (format!("robot={NONE}"), format!("robot={NONE}")));
        assert_eq!(encoded(""), "~");
        // A robot of that name has one all the same.
        assert_eq!(robot(Some(NONE)), "robot=%5F_HIVE_DEFAULT_PARTITION__");
    }

    #[test]
    fn only_a_logs_own_places_are_its_files() {
        let own = ["t/robot=a/day=b/x.parquet", "~/robot=/day=/x@12.parquet"];
        assert!(own.iter().all(|path| is_of(path, "x")));
        let others = [
            "",
            "/robot=a/day=b/x.parquet",
            "t/robot=a/day=b/x-2.parquet",
            "t/robot=a/day=b/x@.parquet",
            "t/robot=a/day=b/y.parquet",
            "t/robot=a/day=b/../x.parquet",
            "../robot=a/day=b/x.parquet",
            "./robot=a/day=b/x.parquet",
            "_tmp/robot=a/day=b/x.parquet",
            "t/a/day=b/x.parquet",
            "t/robot=a/b/x.parquet",
            "t/robot=a/day=b/x.json",
        ];
        assert_eq!(others.into_iter().find(|path| is_of(path, "x")), None);
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let long = ["ß".repeat(500), "ß".repeat(501), "x".repeat(201), "x".repeat(202), "=".repeat(999)];
        let cut: Vec<_> = long.iter().map(|name| encoded(name)).collect();
        for (at, name) in cut.iter().enumerate() {
            assert!(name.len() <= MOST && !cut[..at].contains(name), "{name}");
            let (head, _) = name.rsplit_once('~').unwrap();
            assert!(head.split('%').skip(1).all(|rest| rest.len() >= 2), "{name}");
        }
        assert_eq!(encoded(&"x".repeat(200)), "x".repeat(200));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [0, 1, DAY_US - 1, DAY_US, 951_782_400_000_000, 1_772_323_199_999_999];
        let expected = ["1970-01-01", "1970-01-01", "1970-01-01", "1970-01-02", "2000-02-29", "2026-02-28"];
        assert_eq!(days.map(|us| day(us).unwrap()), expected);
        assert_eq!(day(DAYS_END * DAY_US - 1).as_deref(), Some("9999-12-31"));
        assert_eq!([-1, DAYS_END * DAY_US, i64::MIN, i64::MAX].map(day), [const { None }; 4]);
    }
}
