//! What of a run's log is there to be unfolded: velocity, torque, tracking error, temperature, voltage, IMU.

use khz_page::{Axis, Block, Plot, Stroke, Trace};
use khz_tlog::Value;
use serde::{Deserialize, Serialize};

/// Points of a detail: folded plots are many and small.
const BUCKETS: usize = 300;

/// Plots of one quantity, folded until a reader wants them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detail {
    /// What is shown.
    pub title: String,
    /// In which unit.
    pub unit: String,
    /// The plots, each with its title and named lines; a line called `commanded` is dashed.
    pub plots: Vec<(String, Vec<(String, Trace)>)>,
}

impl Detail {
    /// Nothing of it was recorded.
    fn is_empty(&self) -> bool {
        let has_value = |trace: &Trace| trace.points().iter().any(|(_, value)| value.is_finite());
        !self.plots.iter().flat_map(|(_, lines)| lines).any(|(_, trace)| has_value(trace))
    }

    /// The plots, folded; several side by side.
    pub(super) fn block(&self) -> Option<Block> {
        if self.is_empty() {
            return None;
        }
        let plots: Vec<Plot> = self.plots.iter().map(|(title, lines)| self.plot(title, lines)).collect();
        let plots = match <[Plot; 1]>::try_from(plots) {
            Ok([plot]) => plot.into(),
            Err(plots) => Block::Grid(plots.into_iter().map(Plot::compact).collect()),
        };
        Some(Block::Fold(self.title.clone(), vec![plots]))
    }

    fn plot(&self, title: &str, lines: &[(String, Trace)]) -> Plot {
        let plot = Plot::over_time(title, Axis::new(self.title.to_lowercase(), &self.unit));
        lines.iter().fold(plot, |plot, (name, trace)| {
            let stroke = if name == "commanded" { Stroke::Dashed } else { Stroke::Solid };
            plot.stroke(name, trace, stroke)
        })
    }
}

/// Collects them from the records of a log.
#[derive(Default)]
pub(super) struct Details {
    names: Vec<String>,
    per_joint: [Detail; 3],
    of_all: [Detail; 2],
    imu: [Detail; 2],
    /// The positions commanded last, which the next measurement is compared with.
    targets: Vec<f64>,
}

const VELOCITY: usize = 0;
const TORQUE: usize = 1;
const ERROR: usize = 2;

impl Details {
    /// Of these joints.
    pub(super) fn new(names: Vec<String>) -> Self {
        let lines = |names: &[&str]| {
            names.iter().map(|name| ((*name).to_owned(), Trace::with_buckets(BUCKETS))).collect()
        };
        let detail =
            |title: &str, unit: &str, plots| Detail { title: title.into(), unit: unit.into(), plots };
        let joints =
            |names: &[String], of: &[&str]| names.iter().map(|name| (name.clone(), lines(of))).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let one =
            |title: &str, unit: &str, of: &[&str]| detail(title, unit, vec![(title.to_owned(), lines(of))]);
        Self {
            per_joint: [
                detail("Velocity", "rad/s", joints(&names, &["measured", "commanded"])),
                detail("Torque", "N·m", joints(&names, &["measured"])),
                detail("Tracking error", "rad", joints(&names, &["commanded − measured"])),
            ],
            of_all: [one("Temperature", "°C", &all), one("Voltage", "V", &all)],
            imu: [
                one("IMU: angular rate", "rad/s", &["x", "y", "z"]),
                one("IMU: acceleration", "m/s²", &["x", "y", "z"]),
            ],
            targets: vec![f64::NAN; names.len()],
            names,
        }
    }

    pub(super) fn measured(&mut self, time_s: f64, value: &Value<'_>) {
        for (index, name) in self.names.iter().enumerate() {
            let number = |field: &str| number(value, name, field);
            self.per_joint[VELOCITY].plots[index].1[0].1.push(time_s, number("velocity"));
            self.per_joint[TORQUE].plots[index].1[0].1.push(time_s, number("torque"));
            let error = self.targets[index] - number("position");
            self.per_joint[ERROR].plots[index].1[0].1.push(time_s, error);
            for (detail, field) in self.of_all.iter_mut().zip(["temperature", "voltage"]) {
                detail.plots[0].1[index].1.push(time_s, number(field));
            }
        }
    }

    pub(super) fn commanded(&mut self, time_s: f64, value: &Value<'_>) {
        for (index, name) in self.names.iter().enumerate() {
            self.targets[index] = number(value, name, "position");
            self.per_joint[VELOCITY].plots[index].1[1].1.push(time_s, number(value, name, "velocity"));
        }
    }

    pub(super) fn imu(&mut self, time_s: f64, value: &Value<'_>) {
        for (detail, field) in self.imu.iter_mut().zip(["rate", "acceleration"]) {
            let Some(Value::Array(axes)) = value.at(field) else { continue };
            for ((_, trace), value) in detail.plots[0].1.iter_mut().zip(axes) {
                trace.push(time_s, value.number().unwrap_or(f64::NAN));
            }
        }
    }

    /// Nothing was recorded for a while.
    pub(super) fn hole(&mut self, time_s: f64) {
        let all = self.per_joint.iter_mut().chain(&mut self.of_all).chain(&mut self.imu);
        for (_, trace) in all.flat_map(|detail| &mut detail.plots).flat_map(|plot| &mut plot.1) {
            trace.push(time_s, f64::NAN);
        }
    }

    pub(super) fn finish(self) -> Vec<Detail> {
        self.per_joint
            .into_iter()
            .chain(self.of_all)
            .chain(self.imu)
            .filter(|detail| !detail.is_empty())
            .collect()
    }
}

fn number(value: &Value<'_>, servo: &str, field: &str) -> f64 {
    let Value::Object(servos) = value else { return f64::NAN };
    servos.field(servo).and_then(|servo| servo.at(field)?.number()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_recorded_is_left_out() {
        let joints = vec!["hip".to_owned(), "knee".to_owned()];
        assert!(Details::new(joints.clone()).finish().is_empty());
        let mut details = Details::new(joints);
        details.of_all[0].plots[0].1[1].1.push(0.0, 41.0);
        let shown: Vec<_> = details.finish().into_iter().map(|detail| detail.title).collect();
        assert_eq!(shown, ["Temperature"]);
    }
}
