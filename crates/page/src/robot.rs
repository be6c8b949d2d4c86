//! The robot as its joints hold it, at the time the reader points at.
use super::markup::script_json;
use super::plot::Points;
use super::{Stroke, Trace};
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Points of each part of the attitude: as many as the plots of the joints have.
const BUCKETS: usize = 600;

/// The robot drawn by what the plots of its joints show: those over time whose title is a joint's name, with lines called
/// `measured` and `commanded`. Turned by dragging.
#[derive(Debug, Clone)]
pub struct Robot {
    skeleton: Value,
    attitude: Vec<Trace>,
}

impl Robot {
    /// From the `skeleton` of a log's `robot` record, and the parts of the attitude (w, x, y, z) over time, if they are known; nothing
    /// if that is no JSON.
    pub fn new(skeleton: &str, attitude: &[Trace]) -> Option<Self> {
        let skeleton = serde_json::from_str(skeleton).ok()?;
        let attitude = attitude.iter().map(|part| part.thinned(BUCKETS)).collect();
        Some(Self { skeleton, attitude })
    }

    pub(super) fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        #[derive(Serialize)]
        struct Drawing<'a> {
            skeleton: &'a Value,
            attitude: Vec<Points<'a>>,
        }
        let points: Vec<_> = self.attitude.iter().map(Trace::points).collect();
        let attitude = points.iter().map(|points| Points::new("attitude", Stroke::Solid, points, None));
        let drawing = Drawing { skeleton: &self.skeleton, attitude: attitude.collect() };
        write!(
            out,
            "<figure class=\"robot\"><figcaption><b>Robot</b><span><i class=\"c0\"></i>measured</span>"
        )?;
        write!(
            out,
            "<span><i class=\"c1 dashed\"></i>commanded</span><span class=\"at\"></span></figcaption>"
        )?;
        write!(out, "<script type=\"application/json\">{}</script>", script_json(&drawing))?;
        writeln!(out, "</figure>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_skeleton_stays_data() {
        let evil = r#"{"bodies":["</script><img src=x onerror=alert(1)>"]}"#;
        let mut text = String::new();
        Robot::new(evil, &[Trace::from_uniform(0.0, 1.0, [1.0])]).unwrap().html(&mut text).unwrap();
        assert!(text.matches("</script>").count() == 1 && !text.contains("<img"), "{text}");
        assert!(Robot::new("", &[]).is_none() && Robot::new("{", &[]).is_none());
    }
}
