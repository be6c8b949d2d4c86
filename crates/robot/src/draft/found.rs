//! A robot file of the servos that answered on a link.

use super::{Draft, Servo};
use crate::desk::Found;
use crate::links::{LinkConfig, LinkKind};
use khz_servo::Family;
use std::collections::BTreeSet;

/// The file of the servos found on the link that a command line names so.
///
/// # Errors
/// The word names no link of which a robot file could say where it is.
pub fn of_found(word: &str, found: &[Found]) -> Result<String, String> {
    let link = LinkConfig::by_hand(word)
        .ok_or_else(|| format!("{word}: no link of a robot file; write {}", LinkKind::usages()))?;
    let buses: BTreeSet<usize> = found.iter().map(|found| found.bus).collect();
    let is_alone = buses.len() == 1;
    let name = |bus: usize| if is_alone { "main".to_owned() } else { format!("bus_{}", bus + 1) };
    let servo = |found: &Found| {
        let id = found.answer.id;
        let own = if is_alone { format!("servo_{id}") } else { format!("servo_{}_{id}", found.bus + 1) };
        let firmware = found.answer.identity.firmware.as_deref().unwrap_or("unknown");
        Servo {
            about: vec![format!("{}, firmware {firmware}", found.family.name())],
            name: own,
            bus: name(found.bus),
            id,
            lines: [
                vec![format!("family = \"{}\"", found.family.name())],
                found.family.by_hand().in_file(&found.answer),
            ]
            .concat(),
        }
    };
    // No greatest torque travels to other families.
    let torque =
        if found.iter().all(|found| found.family == Family::default()) { ", torque = 1.0" } else { "" };
    let draft = Draft {
        about: vec![
            format!("The servos that answered on {word}."),
            String::new(),
            "Give each its joint's name, its direction (`sign`) and its angle at the servo's zero (`offset`), and widen the".to_owned(),
            "limits once it moves as it should. Every key: docs/configuration.md.".to_owned(),
        ],
        name: "robot".to_owned(),
        rate_hz: 1000.0,
        buses: buses.iter().map(|&bus| (name(bus), bus_keys(&link, word, bus))).collect(),
        defaults: vec![
            "# Narrow and slow on purpose. Positions in rad, velocities in rad/s, torques in N·m.".to_owned(),
            "# A joint that is found outside its limits is not armed.".to_owned(),
            format!("limits = {{ position = [-0.5, 0.5], velocity = 1.0{torque} }}"),
        ],
        servos: found.iter().map(servo).collect(),
        more: Vec::new(),
    };
    Ok(draft.to_string())
}

/// The lines of a bus: the kind of its link and where it is.
fn bus_keys(link: &LinkConfig, word: &str, bus: usize) -> Vec<String> {
    let mut lines = vec![format!("link = \"{}\"", link.kind())];
    let keys = serde_json::to_value(link).unwrap_or_default();
    let keys = keys.as_object().into_iter().flatten();
    match word.split_once(':') {
        Some(_) => {
            let endpoint = link.endpoint();
            let is_place = |value: &serde_json::Value| value.as_str() == Some(&endpoint);
            let place = keys.clone().find(|(_, value)| is_place(value));
            lines.extend(place.map(|(key, _)| format!("{key} = {endpoint:?}")));
            let given = |key: &str| match key {
                "nominal_bit_rate" => word.contains(",bitrate="),
                "data_bit_rate" => word.contains(",data="),
                _ => false,
            };
            let rates = keys.into_iter().filter(|(key, _)| given(key));
            lines.extend(rates.map(|(key, value)| format!("{key} = {value}")));
        }
        None if link.bus().shared(bus).is_some() && !link.is_emulated() => {
            lines.push(format!("channel = {}", bus + 1));
        }
        None => {}
    }
    lines
}
