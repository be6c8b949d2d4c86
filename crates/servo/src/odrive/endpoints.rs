//! `flat_endpoints.json`: which number each setting of a firmware has by CAN (0.6). Each release and board has its own file.
//!
//! Not for the tick: reads a file and allocates.

use khz_settings::suggestion;
use khz_wire::odrive::Version;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// The largest file that is read, bytes; real ones have some hundred thousand.
const LARGEST: u64 = 16 << 20;

/// A setting of a drive: its number, and how it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number.
    pub id: u16,
    /// The word of its type: `float`, `bool`, `uint32` …
    pub kind: String,
}

/// The settings of one firmware on one board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    firmware: String,
    hardware: String,
    by_path: BTreeMap<String, Endpoint>,
}

impl Endpoints {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is none; the message has its path.
    pub fn load(path: &Path) -> Result<Self, String> {
        let why = |why: String| format!("{}: {why}", path.display());
        let file = std::fs::File::open(path).map_err(|error| why(error.to_string()))?;
        let mut text = String::new();
        file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| why(error.to_string()))?;
        if text.len() as u64 > LARGEST {
            return Err(why("it has more than 16 MiB, which no `flat_endpoints.json` has".to_owned()));
        }
        Self::parse(&text).map_err(why)
    }

    /// Parses the text.
    ///
    /// # Errors
    /// It is no JSON, or not of this form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let whole: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let word = |key: &str| {
            let word = whole[key].as_str().map(str::to_owned);
            word.ok_or_else(|| format!("it has no `{key}`, as each `flat_endpoints.json` does"))
        };
        let list = whole["endpoints"]
            .as_object()
            .ok_or("it has no `endpoints`, as each `flat_endpoints.json` does")?;
        let entry = |(path, value): (&String, &Value)| {
            let id = value["id"].as_u64().and_then(|id| u16::try_from(id).ok());
            let kind = value["type"].as_str().map(str::to_owned);
            let both = id
                .zip(kind)
                .ok_or_else(|| format!("its endpoint `{path}` has no `id` of 16 bits, or no `type`"));
            both.map(|(id, kind)| (path.clone(), Endpoint { id, kind }))
        };
        let by_path = list.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { firmware: word("fw_version")?, hardware: word("hw_version")?, by_path })
    }

    /// The setting of this path.
    ///
    /// # Errors
    /// There is none, or it is a function.
    pub fn get(&self, path: &str) -> Result<&Endpoint, String> {
        let found = self.by_path.get(path).ok_or_else(|| {
            let names: Vec<_> = self.by_path.keys().map(String::as_str).collect();
            let nearest = suggestion(path, &names, "");
            let nearest =
                if nearest.starts_with("did you mean") { format!("; {nearest}") } else { String::new() };
            format!("firmware {} has no endpoint `{path}`{nearest}", self.firmware)
        })?;
        match &*found.kind {
            "function" => Err(format!("`{path}` is a function, and no setting")),
            _ => Ok(found),
        }
    }

    /// The path and type of a number.
    pub fn of_id(&self, id: u16) -> Option<(&str, &str)> {
        let found = self.by_path.iter().find(|(_, each)| each.id == id && each.kind != "function");
        found.map(|(path, each)| (path.as_str(), each.kind.as_str()))
    }

    /// Why these are not the endpoints of a drive that identified itself like this.
    pub fn differ_from(&self, reported: Version) -> Option<String> {
        let of = |numbers: [u8; 3]| numbers.map(|number| number.to_string()).join(".");
        let (firmware, hardware) = (of(reported.firmware), of(reported.hardware));
        (self.firmware != firmware || self.hardware != hardware).then(|| {
            format!(
                "its firmware is {firmware} on board {hardware}, and `flat_endpoints.json` is of {} on {}: numbers mean something else with \
                 every release, so nothing is written. Get the file of its own from its maker",
                self.firmware, self.hardware
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"fw_version": "0.6.11", "hw_version": "5.2.0", "endpoints": {
        "axis0.config.enable_watchdog": {"id": 300, "type": "bool"},
        "axis0.config.watchdog_timeout": {"id": 301, "type": "float"},
        "save_configuration": {"id": 9, "type": "function", "inputs": [], "outputs": []}}}"#;

    #[test]
    fn settings_have_numbers_and_the_file_is_of_one_firmware() {
        let endpoints = Endpoints::parse(TEXT).unwrap();
        assert_eq!(endpoints.get("axis0.config.enable_watchdog").unwrap().id, 300);
        assert_eq!(endpoints.of_id(301), Some(("axis0.config.watchdog_timeout", "float")));
        assert_eq!(endpoints.of_id(9), None);
        let version = Version { protocol: 2, hardware: [5, 2, 0], firmware: [0, 6, 11], unreleased: 0 };
        assert_eq!(endpoints.differ_from(version), None);
        for other in [Version { firmware: [0, 6, 10], ..version }, Version { hardware: [5, 1, 0], ..version }]
        {
            assert!(endpoints.differ_from(other).unwrap().contains("nothing is written"));
        }
    }

    #[test]
    fn what_is_no_such_file_says_why() {
        let why = |text: &str| Endpoints::parse(text).unwrap_err();
        assert!(why("").contains("no JSON") && why("{").contains("no JSON"));
        assert!(why(&"[".repeat(100_000)).contains("no JSON"), "deep");
        assert!(why("[]").contains("`endpoints`") && why(r#"{"endpoints": {}}"#).contains("`fw_version`"));
        assert!(
            why(r#"{"endpoints": {"a": {"id": 65536, "type": "bool"}}}"#)
                .contains("`a` has no `id` of 16 bits")
        );
        assert!(why(r#"{"endpoints": {"a": 7}}"#).contains("`a`"));
        let endpoints = Endpoints::parse(TEXT).unwrap();
        let unknown = endpoints.get("axis0.config.enable_watchdg").unwrap_err();
        assert!(unknown.contains("no endpoint") && unknown.contains("did you mean"), "{unknown}");
        assert!(endpoints.get("save_configuration").unwrap_err().contains("is a function"));
        let none = Endpoints::load(Path::new("/nowhere/flat_endpoints.json")).unwrap_err();
        assert!(none.starts_with("/nowhere/flat_endpoints.json: "), "{none}");
    }
}
