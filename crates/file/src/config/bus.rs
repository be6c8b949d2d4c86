//! `[bus.NAME]`: how a bus is reached, and what may go wrong on it on purpose.

use crate::links::{LinkConfig, LinkKind};
use khz_link::faults::FaultsConfig;
use khz_settings::{Problem, Reader, join, section, suggestion};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One bus: a name, a link, and faults to inject.
#[derive(Clone, Debug, PartialEq)]
pub struct BusConfig {
    /// As in `[bus.NAME]`.
    pub name: String,
    /// How it is reached.
    pub link: LinkConfig,
    /// Injected faults; none by default.
    pub faults: FaultsConfig,
}

impl BusConfig {
    /// A bus on which nothing is broken on purpose.
    pub fn new(name: impl Into<String>, link: LinkConfig) -> Self {
        Self { name: name.into(), link, faults: FaultsConfig::default() }
    }
}

section! {
    /// The keys every bus has.
    BusSection {
        /// How the bus is reached.
        link: LinkKind, "";
        /// Injected faults.
        faults: FaultsConfig = FaultsConfig::default(), "";
    }
}

/// Reads all `[bus.NAME]` tables in the order of the file.
pub(super) fn read_buses(value: &Spanned<DeValue<'_>>, reader: &mut Reader) -> Vec<BusConfig> {
    let Some(table) = value.get_ref().as_table() else {
        let problem = Problem::error("bus", "`bus` must be tables, one per bus")
            .at(value.span(), "this is not")
            .help("write `[bus.NAME]` above the settings of each bus");
        reader.problems.push(problem);
        return Vec::new();
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
        .into_iter()
        .filter_map(|(name, value)| read_bus(name.get_ref(), name.span(), value, reader))
        .collect()
}

fn read_bus(
    name: &str,
    span: std::ops::Range<usize>,
    value: &Spanned<DeValue<'_>>,
    reader: &mut Reader,
) -> Option<BusConfig> {
    let path = join("bus", name);
    reader.remember(path.clone(), span.clone());
    let Some(table) = value.get_ref().as_table() else {
        let problem =
            Problem::error(&path, format!("`{path}` must be a table")).at(span, "this is not").help(format!(
                "write `[bus.NAME]` above the settings of each bus; a bus cannot be called `{name}` here"
            ));
        reader.problems.push(problem);
        return None;
    };
    let bus = BusSection::default().over(table, &path, reader);
    // Without a valid kind it is unknown which other keys belong here.
    if reader.span(&join(&path, "link")).is_none() {
        name_as_in_files(table, reader);
        reader.require(table, span, &path, BusSection::KEYS, &[]);
        return None;
    }
    refuse_foreign(table, &path, bus.link, reader);
    reader.require(table, span, &path, bus.link.keys(), &[]);
    Some(BusConfig { name: name.to_owned(), link: bus.link.read(table, &path, reader), faults: bus.faults })
}

/// Explains a link that is written as on a command line, `KIND:TARGET`: the problem with it is the last one.
fn name_as_in_files(table: &DeTable<'_>, reader: &mut Reader) {
    let written = table.get("link").and_then(|link| link.get_ref().as_str());
    let Some(link) = written.and_then(LinkConfig::by_hand) else { return };
    let place = link.kind().keys().iter().find(|key| key.required);
    if let (Some(problem), Some(place)) = (reader.problems.last_mut(), place) {
        problem.help =
            format!("write `link = \"{}\"` and `{} = \"{}\"`", link.kind(), place.name, link.endpoint());
    }
}

/// Unknown keys, and keys that belong to another kind of link.
fn refuse_foreign(table: &DeTable<'_>, path: &str, kind: LinkKind, reader: &mut Reader) {
    let known: Vec<_> = BusSection::KEYS.iter().chain(kind.keys()).map(|key| key.name).collect();
    for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref().as_ref();
        let owner = LinkKind::ALL.iter().find(|other| other.keys().iter().any(|key| key.name == name));
        let (title, help) = match owner {
            Some(owner) => (
                format!("`{name}` is no setting of a bus with `link = \"{kind}\"`"),
                format!("it belongs to `link = \"{owner}\"`; the keys here are `{}`", known.join("`, `")),
            ),
            None => {
                (format!("unknown key `{name}` in `{path}`"), suggestion(name, &known, "the keys here are"))
            }
        };
        reader
            .problems
            .push(Problem::error(join(path, name), title).at(key.span(), "no such key here").help(help));
    }
}
