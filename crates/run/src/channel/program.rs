use super::{Answer, Ask, Parameter, Teleop, any, json, number, text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A message of a program to a live view (`khz.ask.v1`).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Wire")]
pub struct Program {
    /// What it asks.
    pub question: Question,
    /// The run that is meant; none: whichever is there.
    pub run: Option<u64>,
    /// For whom it asks: the robot's log has it.
    pub whom: Option<String>,
}

/// What a program asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The robot's parameters.
    Parameters,
    /// The view's clock, and its run.
    Now,
    /// Something of the robot, and the newest clock that was received; a stop needs none.
    Ask(Ask, Option<u64>),
    /// An input of the stick, and the newest clock that was received.
    Steer(Teleop, u64),
}

/// A message of a live view to a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ViewMessage {
    /// The parameters, with the values in force.
    Parameters {
        /// All of them.
        parameters: Vec<Parameter>,
    },
    /// The view's clock.
    Now {
        /// µs since some time in the past.
        now_us: u64,
        /// The number of the run; none before the first sample.
        run: Option<u64>,
    },
    /// What became of what was asked of the robot.
    Answer(Answer),
    /// An input was not passed on. Marked: it answers no question, and may come between one and its answer.
    NotSteered {
        /// Always false.
        steer: bool,
        /// Why.
        refused: String,
    },
}

impl Program {
    /// Reads a message.
    ///
    /// # Errors
    /// What is wrong with it, for the author of the program.
    pub fn read(message: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(message).map_err(|error| format!("no JSON: {error}"))?;
        let value = if value.is_object() { value } else { Value::Object(Map::new()) };
        let wire = Wire::deserialize(value).map_err(|error| error.to_string())?;
        Ok(Self { question: wire.question()?, run: wire.run, whom: wire.whom })
    }

    /// As JSON.
    pub fn json(&self) -> String {
        json(self)
    }
}

impl ViewMessage {
    /// An input was not passed on.
    pub fn not_steered(why: &impl std::fmt::Display) -> Self {
        Self::NotSteered { steer: false, refused: why.to_string() }
    }

    /// Whether a message is about an input, and answers no question.
    pub fn is_of_steering(message: &Value) -> bool {
        message.get("steer").is_some()
    }

    /// As JSON.
    pub fn json(&self) -> String {
        json(self)
    }
}

/// A question as it is written.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "any")]
    parameters: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "any")]
    now: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "any")]
    steer: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "any")]
    set: Option<Value>,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    deed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    now_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    run: Option<u64>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    whom: Option<String>,
}

impl Wire {
    fn question(&self) -> Result<Question, String> {
        if self.parameters.is_some() {
            return Ok(Question::Parameters);
        }
        if self.now.is_some() {
            return Ok(Question::Now);
        }
        if let Some(teleop) = &self.steer {
            let teleop = Teleop::read(teleop).map_err(|error| format!("steer: {error}"))?;
            return Ok(Question::Steer(teleop, self.now_us.ok_or("an input needs `now_us`")?));
        }
        let ask = Ask::read(self.set.clone(), self.deed.as_deref());
        let ask = ask.ok_or("not understood; one of parameters, set, do, now, steer")?;
        Ok(Question::Ask(ask, self.now_us))
    }
}

impl From<Program> for Wire {
    fn from(program: Program) -> Self {
        let Program { question, run, whom } = program;
        let wire = Self { run, whom, ..Self::default() };
        match question {
            Question::Parameters => Self { parameters: Some(true.into()), ..wire },
            Question::Now => Self { now: Some(true.into()), ..wire },
            Question::Steer(teleop, now_us) => {
                Self { steer: serde_json::to_value(teleop).ok(), now_us: Some(now_us), ..wire }
            }
            Question::Ask(ask, now_us) => {
                let (set, deed) = ask.split();
                Self { set, deed, now_us, ..wire }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_question_is_the_json_of_the_documentation() {
        let set = Ask::Set(Map::from_iter([("kp_scale".to_owned(), json!(0.4))]));
        let teleop = Teleop { forward: 0.3, ..Teleop::default() };
        for (question, text) in [
            (Question::Parameters, r#"{"parameters":true,"run":7,"for":"ann"}"#),
            (Question::Now, r#"{"now":true,"run":7,"for":"ann"}"#),
            (Question::Ask(set, Some(8)), r#"{"set":{"kp_scale":0.4},"now_us":8,"run":7,"for":"ann"}"#),
            (Question::Ask(Ask::Stop, None), r#"{"do":"stop","run":7,"for":"ann"}"#),
            (Question::Ask(Ask::Arm, Some(8)), r#"{"do":"arm","now_us":8,"run":7,"for":"ann"}"#),
        ] {
            let program = Program { question, run: Some(7), whom: Some("ann".into()) };
            assert_eq!(program.json(), text);
            assert_eq!(Program::read(text), Ok(program));
        }
        let short = Program::read(r#"{"steer":{"forward":0.3},"now_us":8}"#).unwrap();
        assert_eq!(short.question, Question::Steer(teleop, 8));
        assert_eq!(Program::read(&short.json()), Ok(short));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_reason() {
        let why = |text: &str| Program::read(text).unwrap_err();
        assert!(why("{").starts_with("no JSON: "));
        for odd in ["7", "[]", "{}", r#"{"do":"dance"}"#, r#"{"set":[1]}"#, r#"{"set":{},"do":"arm"}"#] {
            assert!(why(odd).starts_with("not understood; one of"), "{odd}");
        }
        assert!(why(r#"{"steer":{"forward":"fast"},"now_us":1}"#).starts_with("steer: "));
        assert_eq!(why(r#"{"steer":{}}"#), "an input needs `now_us`");
    }

    #[test]
    fn what_a_view_says_is_the_json_of_the_documentation() {
        for (message, text) in [
            (ViewMessage::Parameters { parameters: Vec::new() }, r#"{"parameters":[]}"#),
            (ViewMessage::Now { now_us: 8, run: None }, r#"{"now_us":8,"run":null}"#),
            (ViewMessage::Answer(Answer::Done(Some(7))), r#"{"done":true,"tick":7}"#),
            (ViewMessage::not_steered(&"no"), r#"{"steer":false,"refused":"no"}"#),
        ] {
            assert_eq!(message.json(), text);
        }
    }
}
