//! Combines the parameters a controller declares with those in the robot file.

use super::settings::ParametersConfig;
use super::{Parameter, ParameterError, find, unknown};

/// The parameters of a run: those the controller declares, with the start values and ranges of the robot file, and those
/// the file declares and the controller keeps (`offered`).
///
/// # Errors
/// Declarations that are invalid, and entries of the file for parameters that do not exist.
pub fn settle(
    declared: Vec<Parameter>,
    offered: Vec<Parameter>,
    file: &ParametersConfig,
) -> Result<Vec<Parameter>, ParameterError> {
    let mut list = declared;
    for (name, settings) in file {
        if let Ok((at, _)) = find(&list, name) {
            list[at].narrow(settings)?;
        } else if let Some(parameter) = offered.iter().find(|offered| offered.name == *name) {
            if !parameter.is_kept() {
                return Err(ParameterError(format!("{} (or no controller reads it)", unknown(&list, name))));
            }
            list.push(parameter.clone());
        } else {
            let help = "to declare one for a controller of your own, write `value`, `min` and `max`";
            return Err(ParameterError(format!("{}; {help}", unknown(&list, name))));
        }
    }
    for (at, parameter) in list.iter().enumerate() {
        parameter.check_declaration()?;
        parameter.check(parameter.get())?;
        if list[..at].iter().any(|other| other.name == parameter.name) {
            return Err(ParameterError(format!("two parameters are called `{}`", parameter.name)));
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::ParameterKind;
    use crate::parameters::settings::read_parameters;

    /// What stands below `[parameters]`.
    fn file(text: &str) -> ParametersConfig {
        let read = khz_settings::parse(text, "test", |table, reader| read_parameters(table, "", reader));
        read.unwrap_or_else(|error| panic!("{error}")).0
    }

    fn gain() -> Vec<Parameter> {
        vec![Parameter::float("kp", 0.4, 0.0..=2.0), Parameter::boolean("gait.on", false)]
    }

    #[test]
    fn the_file_gives_start_values_and_narrows_ranges() {
        let list =
            settle(gain(), Vec::new(), &file("kp = { value = 0.5, max = 1.0 }\ngait.on = true")).unwrap();
        assert_eq!((list[0].get(), list[0].max, list[0].default), (0.5, 1.0, 0.4));
        assert!(list[1].is_on());
        assert_eq!(settle(gain(), Vec::new(), &file("\"gait.on\" = true")).unwrap()[1].get(), 1.0);
    }

    #[test]
    fn what_the_file_says_wrongly_is_refused_with_what_there_is() {
        for (text, why) in [
            ("kq = 0.5", "there is no parameter `kq`; did you mean `kp`?"),
            ("kp = 7", "kp: 7 is outside 0 to 2"),
            ("kp = { max = 7 }", "kp: 7 is outside 0 to 2"),
            ("kp = { min = 0.5, value = 0.4 }", "kp: 0.4 is outside 0.5 to 2"),
            ("kp = { min = 1.0, max = 0.5 }", "kp: 1 to 0.5 is no range"),
            ("kp = true", "kp: it must be a number"),
            ("gait.on = 1", "gait.on: it must be true or false"),
            ("kp = { text = \"mine\" }", "kp: the controller declares it"),
            ("mine = { value = 1, min = 0, max = 2 }", "or no controller reads it"),
        ] {
            let file = file(text);
            let offered = file.iter().filter_map(|(name, settings)| settings.declared(name)).collect();
            let error = settle(gain(), offered, &file).unwrap_err().0;
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_parameter_of_the_file_is_the_controllers_that_keeps_it() {
        let file = file("mine = { value = 3, kind = \"integer\", min = 0, max = 5, unit = \"steps\" }");
        let offered: Vec<_> = file.iter().filter_map(|(name, settings)| settings.declared(name)).collect();
        let kept = offered[0].clone();
        let list = settle(gain(), offered, &file).unwrap();
        assert_eq!(
            (list[2].get(), list[2].kind, list[2].unit.as_str()),
            (3.0, ParameterKind::Integer, "steps")
        );
        list[2].put(4.0);
        assert_eq!(kept.get(), 4.0);
    }

    #[test]
    fn two_of_one_name_are_refused() {
        let error = settle([gain(), gain()].concat(), Vec::new(), &ParametersConfig::new()).unwrap_err();
        assert_eq!(error.0, "two parameters are called `kp`");
    }
}
