use super::{Teleop, any, json, text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest request, bytes.
pub const MAX_REQUEST: usize = 4096;

/// Something asked of the robot that is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// New values of parameters, all or none of which are taken.
    Set(Map<String, Value>),
    /// Stop: the operator's stop.
    Stop,
    /// Arm, if the robot waits for that.
    Arm,
}

impl Ask {
    /// The request of the fields `set` and `do`, of which a message has one.
    pub(super) fn read(set: Option<Value>, deed: Option<&str>) -> Option<Self> {
        match (set, deed) {
            (Some(Value::Object(values)), None) => Some(Self::Set(values)),
            (None, Some("stop")) => Some(Self::Stop),
            (None, Some("arm")) => Some(Self::Arm),
            _ => None,
        }
    }

    /// As `set` or `do`.
    pub(super) fn split(self) -> (Option<Value>, Option<String>) {
        match self {
            Self::Set(values) => (Some(Value::Object(values)), None),
            Self::Stop => (None, Some("stop".into())),
            Self::Arm => (None, Some("arm".into())),
        }
    }
}

/// A request as it goes from a live view to its robot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Request {
    /// Repeated in the reply: a number of the viewer's.
    pub id: Value,
    /// Who asks, for the robot's log.
    pub by: Option<String>,
    /// How long ago it was decided when it was sent, at most, ms; none: it may be of any age.
    pub age_ms: Option<f64>,
    /// What is asked.
    pub what: What,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Something that is answered.
    Ask(Ask),
    /// An input of the stick, which is not; none: it is not one.
    Steer(Option<Teleop>),
    /// Something else.
    Unknown,
}

impl Request {
    /// Reads the bytes of a message; `None` if they are no JSON object, or more than [`MAX_REQUEST`].
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_REQUEST {
            return None;
        }
        // Not at once: of a key that comes twice the last one counts, as ever.
        let object: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        Self::deserialize(Value::Object(object)).ok()
    }

    /// As JSON.
    pub fn json(&self) -> String {
        json(self)
    }

    /// How old it was at most when it was sent, ns; `i64::MAX`: it may be of any age.
    pub fn age_ns(&self) -> i64 {
        self.age_ms.filter(|age_ms| *age_ms >= 0.0).map_or(i64::MAX, |age_ms| (age_ms * 1e6) as i64)
    }

    /// Who asks.
    pub fn by(&self) -> &str {
        self.by.as_deref().unwrap_or("viewer")
    }
}

/// A request as it is written.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(skip_serializing_if = "Value::is_null")]
    id: Value,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "any")]
    set: Option<Value>,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    deed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "any")]
    teleop: Option<Value>,
    #[serde(skip_serializing_if = "Value::is_null")]
    age_ms: Value,
}

impl From<Wire> for Request {
    fn from(wire: Wire) -> Self {
        let Wire { id, by, set, deed, teleop, age_ms } = wire;
        // A stop counts whatever else the message has.
        let what = match (deed.as_deref(), teleop) {
            (Some("stop"), _) => What::Ask(Ask::Stop),
            (_, Some(teleop)) => What::Steer(Teleop::read(&teleop).ok()),
            (deed, None) => {
                let set = set.filter(Value::is_object);
                let deed = deed.filter(|_| set.is_none());
                Ask::read(set, deed).map_or(What::Unknown, What::Ask)
            }
        };
        Self { id, by, age_ms: age_ms.as_f64(), what }
    }
}

impl From<Request> for Wire {
    fn from(request: Request) -> Self {
        let Request { id, by, age_ms, what } = request;
        let wire = Self { id, by, age_ms: age_ms.into(), ..Self::default() };
        match what {
            What::Ask(ask) => {
                let (set, deed) = ask.split();
                Self { set, deed, ..wire }
            }
            What::Steer(teleop) => {
                Self { teleop: teleop.and_then(|teleop| serde_json::to_value(teleop).ok()), ..wire }
            }
            What::Unknown => wire,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(id: Value, what: What, age_ms: Option<f64>) -> Request {
        Request { id, by: Some("page".into()), age_ms, what }
    }

    #[test]
    fn a_request_is_the_json_of_the_documentation() {
        let set = Ask::Set(Map::from_iter([("kp_scale".to_owned(), json!(0.4))]));
        let teleop = Teleop { forward: 0.3, ..Teleop::default() };
        for (request, text) in [
            (
                request(json!(17), What::Ask(set), Some(12.0)),
                r#"{"id":17,"by":"page","set":{"kp_scale":0.4},"age_ms":12.0}"#,
            ),
            (request(json!(18), What::Ask(Ask::Stop), None), r#"{"id":18,"by":"page","do":"stop"}"#),
            (
                request(json!(19), What::Ask(Ask::Arm), Some(12.0)),
                r#"{"id":19,"by":"page","do":"arm","age_ms":12.0}"#,
            ),
            (
                request(Value::Null, What::Steer(Some(teleop)), Some(12.0)),
                r#"{"by":"page","teleop":{"forward":0.3,"left":0.0,"turn":0.0,"height":0.0,"roll":0.0,"pitch":0.0},"age_ms":12.0}"#,
            ),
        ] {
            assert_eq!(
                serde_json::from_str::<Value>(&request.json()).unwrap(),
                serde_json::from_str::<Value>(text).unwrap()
            );
            assert_eq!(Request::read(text.as_bytes()), Some(request));
        }
    }

    #[test]
    fn a_stop_is_one_whatever_else_is_in_it() {
        for text in [
            r#"{"do":"stop"}"#,
            r#"{"do":"stop","do":"stop","id":[1],"by":7,"age_ms":"old","more":{}}"#,
            r#"{"do":"stop","set":5,"teleop":null}"#,
            r#"{"do":"stop","set":{"kp":1},"teleop":{}}"#,
        ] {
            assert_eq!(
                Request::read(text.as_bytes()).map(|request| request.what),
                Some(What::Ask(Ask::Stop)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_field_of_another_type_is_none() {
        let read = |text: &str| Request::read(text.as_bytes()).unwrap();
        let odd = read(r#"{"id":"a","by":7,"age_ms":"1","do":"arm"}"#);
        assert_eq!((odd.id.clone(), odd.by(), odd.age_ns()), (json!("a"), "viewer", i64::MAX));
        for (age, ns) in
            [("-1", i64::MAX), ("null", i64::MAX), ("0", 0), ("1.5", 1_500_000), ("1e300", i64::MAX)]
        {
            assert_eq!(read(&format!(r#"{{"do":"arm","age_ms":{age}}}"#)).age_ns(), ns, "{age}");
        }
        assert_eq!(read(r#"{"set":7,"do":"arm"}"#).what, What::Ask(Ask::Arm));
        for unknown in ["{}", r#"{"do":7}"#, r#"{"do":"dance"}"#, r#"{"set":[1]}"#] {
            assert_eq!(read(unknown).what, What::Unknown, "{unknown}");
        }
        for steer in ["null", "7", "[0.1]", r#"{"forward":"fast"}"#] {
            assert_eq!(read(&format!(r#"{{"teleop":{steer}}}"#)).what, What::Steer(None), "{steer}");
        }
    }

    #[test]
    fn what_is_no_object_or_too_long_is_no_request() {
        for bad in [&b"junk"[..], b"[1]", b"{", b"", b"7", b"\xff\xfe"] {
            assert_eq!(Request::read(bad), None);
        }
        let mut long = br#"{"do":"stop"}"#.to_vec();
        long.resize(MAX_REQUEST, b' ');
        assert!(Request::read(&long).is_some());
        long.push(b' ');
        assert_eq!(Request::read(&long), None);
        let deep = [b"{\"set\":".repeat(300), b"7".to_vec()].concat();
        assert_eq!(Request::read(&deep), None);
    }
}
