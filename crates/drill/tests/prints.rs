//! A campaign in a process that has built a machine before. Alone in its process: the panic hook is the whole process's.
#![allow(clippy::unwrap_used)]

use khz_drill::campaign::{campaign, idle};
use khz_drill::{Fleet, watch_prints};
use khz_file::RobotConfig;

/// Which thread of a test's process built the first machine was a matter of chance; if it was built before prints were
/// watched, every panic that a machine had caught was a violation.
#[test]
fn panics_that_a_machine_catches_are_not_printed_though_it_was_built_before_prints_are_watched() {
    let text = "[loop]\nrate_hz = 200\n[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n";
    let fleet = Fleet::of(&RobotConfig::parse(text, "test").unwrap());
    assert_eq!(idle(&fleet), None);
    watch_prints();
    let campaign = campaign(&fleet, 150, 1).unwrap();
    assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
}
