use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What steers the robot, from the person at the stick; what is not named is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Teleop {
    /// Velocity forwards, m/s.
    pub forward: f64,
    /// Velocity to the left, m/s.
    pub left: f64,
    /// Rate of turning, rad/s; to the left is positive.
    pub turn: f64,
    /// Height of the body above its usual one, m.
    pub height: f64,
    /// Roll of the body, rad; right side down is positive.
    pub roll: f64,
    /// Pitch of the body, rad; nose down is positive.
    pub pitch: f64,
}

impl Teleop {
    /// An input as it comes: an object whose values are numbers.
    ///
    /// # Errors
    /// What it is instead.
    pub fn read(input: &Value) -> Result<Self, String> {
        match input.is_object() {
            true => Self::deserialize(input).map_err(|error| error.to_string()),
            // Serde takes a list for the fields in their order.
            false => Err(format!("an input is an object, such as {{\"forward\": 0.3}}, not {input}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_input_is_refused() {
        let teleop = Teleop { forward: 0.3, turn: -1.0, ..Teleop::default() };
        assert_eq!(Teleop::read(&json!({ "forward": 0.3, "turn": -1, "seq": 7 })), Ok(teleop));
        assert_eq!(Teleop::read(&json!({})), Ok(Teleop::default()));
        for bad in
            [json!({ "forward": "fast" }), json!({ "turn": null }), json!([0.1]), json!(1), json!(null)]
        {
            assert!(Teleop::read(&bad).is_err(), "{bad}");
        }
    }
}
