//! Values of parameters that were found while a robot ran, written down for its next run.

use crate::edit;
use khz_loop::parameters::Parameter;
use khz_loop::parameters::settings::{ParameterKind, ParametersConfig};
use std::fmt::Write;
use toml_edit::{DocumentMut, InlineTable, Item, Key, TomlError, Value};

/// Every parameter of a run with its last value, as `[parameters]` of a robot file. `file` is what the robot file had for
/// them.
pub fn table(list: &[Parameter], file: &ParametersConfig) -> String {
    let mut text = "[parameters]\n".to_owned();
    for parameter in list {
        let value = if is_declared_by(file, parameter) {
            declaration(parameter, parameter.get())
        } else {
            number(parameter, parameter.get())
        };
        let Parameter { name, unit, min, max, text: about, .. } = parameter;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let about = if about.is_empty() { String::new() } else { format!(": {about}") };
        let _ = writeln!(text, "{} = {value} # {min} to {max}{unit}{about}", Key::new(name));
    }
    text
}

/// The text of a robot file in which each parameter that was changed starts with its last value. Comments and layout stay.
///
/// # Errors
/// The text is no TOML.
pub fn into_file(text: &str, list: &[Parameter], file: &ParametersConfig) -> Result<String, TomlError> {
    let start = |parameter: &Parameter| {
        let value = file.get(&parameter.name).and_then(|given| given.value);
        value.map_or(parameter.default, |value| value.number())
    };
    let changed: Vec<&Parameter> =
        list.iter().filter(|parameter| parameter.get() != start(parameter)).collect();
    edit::rewritten(text, |document| {
        for parameter in &changed {
            let value = number(parameter, parameter.get());
            let place = place(document, &parameter.name);
            match place.as_table_like_mut() {
                Some(declared) => edit::set(declared.entry("value").or_insert(Item::None), &value),
                None => edit::set(place, &value),
            }
        }
    })
}

/// Where a parameter stands in `[parameters]`, or will: under its name, or group by group, as it is written.
fn place<'a>(document: &'a mut DocumentMut, name: &str) -> &'a mut Item {
    let mut table = edit::table(document, "parameters");
    let mut rest = name;
    while let Some((group, inner)) = rest.split_once('.')
        && table.get(rest).is_none()
        && table.get(group).is_some_and(Item::is_table_like)
    {
        table = &mut table[group];
        rest = inner;
    }
    &mut table[rest]
}

fn is_declared_by(file: &ParametersConfig, parameter: &Parameter) -> bool {
    // A file that narrows a range may leave out the rest of a declaration.
    file.get(&parameter.name).is_some_and(|given| {
        given.declared(&parameter.name).as_ref().is_some_and(|of_file| {
            of_file.kind == parameter.kind && of_file.unit == parameter.unit && of_file.text == parameter.text
        })
    })
}

fn number(parameter: &Parameter, value: f64) -> Value {
    match parameter.json(value) {
        serde_json::Value::Bool(on) => on.into(),
        serde_json::Value::Number(number) if number.is_i64() => number.as_i64().unwrap_or_default().into(),
        _ => value.into(),
    }
}

fn declaration(parameter: &Parameter, value: f64) -> Value {
    let mut table = InlineTable::new();
    table.insert("value", number(parameter, value));
    table.insert("kind", parameter.kind.word().into());
    if parameter.kind != ParameterKind::Boolean {
        table.insert("min", number(parameter, parameter.min));
        table.insert("max", number(parameter, parameter.max));
    }
    for (key, text) in [("unit", &parameter.unit), ("text", &parameter.text)] {
        if !text.is_empty() {
            table.insert(key, text.as_str().into());
        }
    }
    table.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RobotConfig;
    use khz_loop::parameters::{Intake, settle};
    use khz_loop::supervisor::Phase;
    use khz_loop::timing::Clock;

    const ROBOT: &str =
        "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\n";
    const PARAMETERS: &str = "[parameters] # of mine\nkp = 0.4   # as found on Monday\ngait.hz = 1.5\n\
                              mine = { min = 0.0, value = 3.0, max = 9.0, unit = \"N\" } # declared here\n";

    /// What a run leaves whose parameters were set.
    fn run(text: &str, changes: &[(&str, f64)]) -> (Vec<Parameter>, ParametersConfig) {
        let file = RobotConfig::parse(text, "test").unwrap().parameters;
        let declared = vec![
            Parameter::float("kp", 0.1, 0.0..=2.0).about("Stiffness."),
            Parameter::float("gait.hz", 1.0, 0.0..=4.0).in_unit("Hz"),
            Parameter::integer("gait.legs", 2, 1..=4),
            Parameter::boolean("on", false),
        ];
        let offered: Vec<_> = file.iter().filter_map(|(name, given)| given.declared(name)).collect();
        let _kept = offered.clone();
        let list = settle(declared, offered, &file).unwrap();
        let (mut intake, live) = Intake::new(list.clone(), Clock::Virtual);
        live.set_all("test", changes).unwrap();
        intake.take(1, 0, Phase::Active);
        (list, file)
    }

    #[test]
    fn a_robot_file_keeps_its_comments_and_has_what_was_found() {
        let text = format!("{PARAMETERS}{ROBOT}");
        let changes = [("kp", 0.5), ("gait.hz", 2.0), ("gait.legs", 3.0), ("on", 1.0), ("mine", 4.0)];
        let (list, file) = run(&text, &changes);
        let found = into_file(&text, &list, &file).unwrap();
        for line in
            ["[parameters] # of mine", "kp = 0.5   # as found on Monday", "gait.hz = 2.0", "on = true"]
        {
            assert!(found.contains(line), "{line}: {found}");
        }
        assert!(
            found.contains("mine = { min = 0.0, value = 4.0, max = 9.0, unit = \"N\" } # declared here"),
            "{found}"
        );
        let (again, _) = run(&found, &[]);
        assert!(again.iter().zip(&list).all(|(again, found)| again.get() == found.get()), "{found}");
        assert_eq!(
            into_file(&found, &again, &RobotConfig::parse(&found, "").unwrap().parameters).unwrap(),
            found
        );
    }

    #[test]
    fn a_file_without_parameters_gets_those_that_were_changed() {
        let (list, file) = run(ROBOT, &[("kp", 0.5)]);
        let found = into_file(ROBOT, &list, &file).unwrap();
        assert!(found.starts_with(ROBOT) && found.ends_with("[parameters]\nkp = 0.5\n"), "{found}");
    }

    #[test]
    fn the_table_can_be_pasted_into_a_robot_file() {
        let (list, _) = run(&format!("{PARAMETERS}{ROBOT}"), &[("gait.hz", 2.0), ("mine", 4.0)]);
        let file = RobotConfig::parse(&format!("{PARAMETERS}{ROBOT}"), "test").unwrap().parameters;
        let text = table(&list, &file);
        assert!(text.contains("kp = 0.4 # 0 to 2: Stiffness.\n"), "{text}");
        let (again, _) = run(&format!("{text}{ROBOT}"), &[]);
        assert!(again.iter().zip(&list).all(|(again, found)| again.get() == found.get()), "{text}");
    }
}
