//! Results: what a measurement gave, as it is written to a file and read again.

use super::plan::Plan;
use super::recording::Recording;
use khz_page::{Trace, Verdict, grouped, has_percentile};
use khz_report::late::LateReport;
use khz_report::require::{Extent, Required, Requirements, amended};
use khz_rt::late::{Causes, Lost};
use khz_rt::{Cause, Counts, Grade, Histogram, Overrun, Passport, Policy, Report, Summary, Usage};
use khz_run::Usual;
use khz_run::costs::{LateGroup, uncosted};
use khz_run::verdict::{Facts, Stops, judge};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What marks a file as results of this kind.
pub const FORMAT: &str = "khz-jitter";
/// Grows when a file can no longer be read by earlier programs. Files of version 1 are still read: see
/// [`Measurement::definitions`].
pub const VERSION: u32 = 2;
/// The definitions of `docs/metrics.md`.
pub const DEFINITIONS: u32 = 2;

const OF_A_RUN: &str = "is the result of `khz run`, which has a report of its own; `khz log diff` compares the logs of two runs, and this \
                        command results of `khz jitter --save` and `khz rtt send --save`";

/// A file of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// The verdict on all of them. None in results before 2026-11-23.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// One result per plan.
    pub runs: Vec<Measurement>,
}

/// The result of one plan. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The plan in few words.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// Which definitions the figures follow: 2 are those of `docs/metrics.md`. 1 are those before 2026-11-22: causes are
    /// those of [`Causes`] there, and `start_delay_ns` is derived from the wake latencies when the file is read, so that
    /// periods lost to overruns are not in it.
    #[serde(default = "first_definitions")]
    pub definitions: u32,
    /// Time measured, without pauses.
    pub duration_ns: i64,
    /// Time waited for → waking, of every tick that ran. `max_at` is nanoseconds since the start, here and below.
    pub wake_latency_ns: Summary,
    /// Planned time → waking of the first tick at or after it, of every planned period. Runs are compared by it.
    #[serde(default)]
    pub start_delay_ns: Summary,
    /// Waking → next waking.
    pub period_ns: Summary,
    /// Beginning → end of the work.
    pub execution_ns: Summary,
    /// Time waited for → end of the work.
    pub response_ns: Summary,
    /// Overruns and missed ticks.
    #[serde(flatten)]
    pub counts: Counts,
    /// CPU the thread used, percent of one CPU.
    pub cpu_percent: f64,
    /// The work alone, undisturbed, as measured before the run.
    pub usual_work_ns: i64,
    /// Guard of the hybrid strategy at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_ns: Option<i64>,
    /// A tick whose response took longer was late.
    pub late_threshold_ns: i64,
    /// Late ticks by cause.
    pub causes: Causes,
    /// The same, and what they cost, what cost most first. None in results before 2026-11-26.
    #[serde(default)]
    pub late_groups: Vec<LateGroup>,
    /// Ticks that lost time, and to what.
    #[serde(default)]
    pub lost_time: Lost,
    /// The worst of them, by time.
    pub late: Vec<LateReport>,
    /// What the kernel recorded before the first late tick, if it was traced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_events: Vec<String>,
    /// What the thread asked for and got.
    pub setup: Option<Report>,
    /// The machine.
    pub passport: Passport,
    /// What the machine counted meanwhile.
    pub usage: Usage,
    /// For how long the whole process seems to have been stopped meanwhile. 0 in results before 2026-11-26.
    #[serde(default)]
    pub stopped_ns: i64,
    /// The distributions.
    pub histograms: Histograms,
    /// What was required of it, and whether it is met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Required>,
    /// [`Measurement::verdict`], for those who read the file. None in results before 2026-11-23.
    #[serde(default, rename = "verdict")]
    pub verdict_saved: Option<Verdict>,
    /// Wake latency over time: s, ns.
    pub wake_trace: Trace,
    /// Execution time over time: s, ns.
    pub execution_trace: Trace,
}

/// Values in nanoseconds, each with how often it occurred.
pub type Buckets = Vec<(i64, u64)>;

/// The distributions of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histograms {
    /// Of the wake latency.
    pub wake_latency: Buckets,
    /// Of the start delay.
    #[serde(default)]
    pub start_delay: Buckets,
    /// Of the period.
    pub period: Buckets,
    /// Of the execution time.
    pub execution: Buckets,
    /// Of the response time.
    pub response: Buckets,
}

impl Histograms {
    pub(super) fn of(recording: &Recording) -> Histograms {
        let buckets = |histogram: &Histogram| histogram.buckets().collect();
        Histograms {
            wake_latency: buckets(&recording.wake),
            start_delay: buckets(&recording.start_delay),
            period: buckets(&recording.period),
            execution: buckets(&recording.execution),
            response: buckets(&recording.response),
        }
    }
}

/// Why a file of results cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// Not to be read at all.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// Ends too early.
    #[error("{path} is cut off after {bytes} bytes: measure again, or copy the whole file")]
    CutOff {
        /// The file.
        path: String,
        /// Its length.
        bytes: usize,
    },
    /// Something else, or of another version.
    #[error("{path}: {what}")]
    Other {
        /// The file.
        path: String,
        /// What it is and what to do.
        what: String,
    },
}

impl Results {
    /// Of these runs.
    #[must_use]
    pub fn of(mut runs: Vec<Measurement>) -> Results {
        runs.iter_mut().for_each(|run| run.verdict_saved = Some(run.verdict()));
        Results { format: FORMAT.into(), version: VERSION, verdict: Some(super::page::verdict(&runs)), runs }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is cut off, of another kind or of another version.
    pub fn read(path: &Path) -> Result<Results, ResultsError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ResultsError::Read { path: name.clone(), error })?;
        Results::parse(&name, &text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub fn parse(path: &str, text: &str) -> Result<Results, ResultsError> {
        let other = |what: String| ResultsError::Other { path: path.into(), what };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
            if error.is_eof() {
                ResultsError::CutOff { path: path.into(), bytes: text.len() }
            } else {
                other(format!("no JSON: {error}"))
            }
        })?;
        match value.get("format").and_then(|format| format.as_str()) {
            Some(FORMAT) => {}
            Some(khz_report::run::FORMAT) => return Err(other(OF_A_RUN.into())),
            Some(format) => return Err(other(format!("holds `{format}`, not results of khz jitter"))),
            // Results of runs before they had a format.
            None if value.get("ended_well").is_some() => return Err(other(OF_A_RUN.into())),
            None => {
                return Err(other(
                    "holds no results of khz jitter (no \"format\"): write them with --save".into(),
                ));
            }
        }
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if (1..=u64::from(VERSION)).contains(&version) => {}
            version => {
                let version =
                    version.map_or("an unknown version".into(), |version| format!("version {version}"));
                return Err(other(format!(
                    "{version} of the format; this khz reads versions 1 and {VERSION}: measure again"
                )));
            }
        }
        let mut results: Results = serde_json::from_value(value)
            .map_err(|error| other(format!("not as khz jitter writes it: {error}")))?;
        results.version = VERSION;
        results
            .runs
            .iter_mut()
            .filter(|run| run.definitions < DEFINITIONS)
            .for_each(Measurement::derive_start_delay);
        Ok(results)
    }
}

/// More missed periods in one wake are not believed: a file from elsewhere may have any number.
const MOST_MISSED: i64 = 10_000;

fn first_definitions() -> u32 {
    1
}

impl Measurement {
    /// What an old result does not have: a wake that was `k` periods late was late for each of the planned times it passed.
    fn derive_start_delay(&mut self) {
        let mut delays = Histogram::new();
        let period_ns = self.plan.period_ns.max(1);
        for &(latency_ns, count) in &self.histograms.wake_latency {
            let missed = (latency_ns / period_ns).clamp(0, MOST_MISSED);
            (0..=missed).for_each(|n| delays.record_many(latency_ns - n * period_ns, count, 0));
        }
        self.start_delay_ns = delays.summary();
        self.histograms.start_delay = delays.buckets().collect();
    }

    /// Planned periods: those with a tick and those without.
    #[must_use]
    pub fn periods(&self) -> u64 {
        self.counts.ticks + self.counts.skipped
    }

    /// Whether it ended by itself before its time, because a tick took too long and the plan has `stop`. A person who
    /// interrupts a measurement does not stop it in this sense.
    #[must_use]
    pub fn stopped(&self) -> bool {
        let counts = &self.counts;
        let too_long = counts.overruns + counts.late_wakes + counts.skipped > 0;
        self.plan.overrun == Overrun::Stop && too_long && counts.ticks < self.plan.ticks
    }

    /// Ticks per second.
    #[must_use]
    pub fn rate_hz(&self) -> f64 {
        self.counts.ticks as f64 / self.duration_ns.max(1) as f64 * 1e9
    }

    /// Steal the kernel counted on the CPU the thread was tied to; on all, if it was not.
    #[must_use]
    pub fn steal_ns(&self) -> i64 {
        let of_cpu = self.plan.cpu.and_then(|cpu| self.usage.steal_ns.get(cpu)).copied();
        of_cpu.unwrap_or_else(|| self.usage.steal_total_ns())
    }

    /// Late ticks and their costs by cause; of older results without the costs.
    pub(super) fn late_groups(&self) -> Vec<LateGroup> {
        match self.late_groups.is_empty() {
            true => uncosted(&self.causes),
            false => self.late_groups.clone(),
        }
    }

    /// From how much over the usual on a tick is late.
    pub(super) fn late_ns(&self) -> i64 {
        self.late_threshold_ns - self.usual_work_ns
    }

    /// The verdict on what happened; how the thread was set up is [`Measurement::grade`].
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let verdict = judge(&Facts {
            target_hz: 1e9 / self.plan.period_ns.max(1) as f64,
            rate_hz: self.rate_hz(),
            periods: self.periods(),
            lost: self.counts.skipped,
            late_wakes: self.counts.late_wakes,
            overruns: self.counts.overruns,
            stopped: self.stopped().then_some((self.counts.ticks, self.plan.ticks)),
            wake_ns: has_percentile(self.wake_latency_ns.count, 0.99)
                .then(|| (self.wake_latency_ns.p99, self.late_ns())),
            late: self.late_groups(),
            usual: Usual::of(&[(Cause::Compute, self.usual_work_ns)], self.late_ns()),
            granted: (self.plan.policy != Policy::Other).then(|| self.grade()),
            stops: Stops::of(&self.usage, self.stopped_ns, self.grade(), self.passport.rt_share_percent),
            ..Facts::default()
        });
        amended(verdict, &self.required)
    }

    /// Checks what is required of it; what is not met comes first in the verdict.
    pub fn require(&mut self, requirements: &Requirements<Self>) {
        let (ticks, planned) = (self.counts.ticks, self.plan.ticks);
        let early = (ticks < planned)
            .then(|| format!("it ended after {} of {} ticks", grouped(ticks), grouped(planned)));
        self.required =
            requirements.check_over(self, &Extent { early, ..Extent::of(ticks, self.duration_ns) });
    }

    /// What the thread was granted.
    #[must_use]
    pub fn grade(&self) -> Grade {
        self.setup.as_ref().map_or(Grade::Ordinary, |setup| setup.grade)
    }

    /// What a reader must know before believing the figures.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        use khz_rt::{Policy, Wake};
        let mut warnings = Vec::new();
        if self.definitions < DEFINITIONS {
            warnings.push(
                "measured by an earlier khz: `unaccounted` includes overruns of previous ticks, blocking and faults, and \
                 the start delay does not know periods lost to overruns"
                    .into(),
            );
        }
        if self.plan.policy == Policy::Deadline {
            warnings.push(
                "SCHED_DEADLINE may run the thread anywhere within its period, so its wake latency is not to be \
                 compared with that of the other policies"
                    .into(),
            );
        }
        if self.plan.wake == Wake::Spin
            && self.plan.policy != Policy::Other
            && self.passport.rt_share_percent < 100.0
        {
            warnings.push(format!(
                "a spinning real-time thread uses its CPU whole, and the kernel stops it for {:.0} % of each second \
                 (sched_rt_runtime_us)",
                100.0 - self.passport.rt_share_percent
            ));
        }
        let steal = self.usage.steal_total_ns() as f64 / self.duration_ns.max(1) as f64;
        if steal > 0.001 {
            warnings.push(format!("the hypervisor took {:.2} % of a CPU meanwhile", 100.0 * steal));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Results {
        let mut experiment = super::super::Experiment::new(Plan::default(), false).unwrap();
        experiment.pretend(3);
        Results::of(vec![experiment.finish().0])
    }

    #[test]
    fn results_survive_being_written_and_read() {
        let results = sample();
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(Results::parse("a.json", &text).unwrap(), results);
    }

    /// The text of these results as a khz of before 2026-11-22 wrote it.
    fn as_before(results: &Results) -> String {
        let mut value = serde_json::to_value(results).unwrap();
        value["version"] = 1.into();
        let run = value["runs"][0].as_object_mut().unwrap();
        for key in ["definitions", "start_delay_ns", "lost_time"] {
            run.remove(key).unwrap();
        }
        run["histograms"].as_object_mut().unwrap().remove("start_delay").unwrap();
        run.insert("causes".into(), serde_json::json!({"late":2,"stolen":1,"preempted":0,"fault":0,"own":1}));
        value.to_string()
    }

    #[test]
    fn old_results_are_read_and_their_lost_periods_are_found() {
        let mut results = sample();
        let run = &mut results.runs[0];
        // 98 ticks in time and two that woke 7.1 ms late, for eight planned periods each.
        run.histograms.wake_latency = vec![(1_000, 98), (7_100_000, 2)];
        run.counts = Counts { ticks: 100, skipped: 14, late_wakes: 2, ..Counts::default() };
        let read = &Results::parse("old.json", &as_before(&results)).unwrap().runs[0];
        let delay = &read.start_delay_ns;
        assert_eq!((read.definitions, delay.count, delay.p50), (1, 114, 1_000));
        assert!(delay.p90 > 1_000_000 && delay.max > 7_000_000, "{delay:?}");
        assert_eq!((read.causes.unaccounted, read.causes.compute), (1, 1));
        assert!(read.warnings()[0].contains("earlier khz"), "{:?}", read.warnings());
        assert_eq!(read.verdict().headline, "did not hold 1000 Hz: lost 14 of 114 periods");
    }

    #[test]
    fn a_measurement_that_stopped_itself_does_not_say_that_it_held_its_rate() {
        let mut run = sample().runs.remove(0);
        run.plan = Plan { overrun: Overrun::Stop, ticks: 2_000, ..run.plan };
        run.counts = Counts { ticks: 1, overruns: 1, ..Counts::default() };
        let verdict = run.verdict();
        assert_eq!(verdict.level, khz_page::Level::Bad);
        assert_eq!(verdict.headline, "did not hold 1000 Hz: stopped on an overrun after 1 of 2,000 ticks");
        let text = super::super::run_text(&run);
        assert!(text.contains(": 1 of 2,000 ticks of 1 ms"), "{text}");
        // Interrupted by a person, or the overrun was in the last tick.
        run.counts = Counts { ticks: 700, ..Counts::default() };
        assert!(!run.stopped());
        run.counts = Counts { ticks: 2_000, overruns: 1, ..Counts::default() };
        assert!(!run.stopped());
    }

    #[test]
    fn every_cut_is_reported_as_one() {
        let text = serde_json::to_string(&sample()).unwrap();
        for end in (0..text.len()).step_by(7) {
            let error = Results::parse("a.json", &text[..end]).unwrap_err();
            assert!(matches!(error, ResultsError::CutOff { bytes, .. } if bytes == end), "{end}: {error}");
        }
    }

    #[test]
    fn other_files_are_recognised_by_what_they_are() {
        let refusal = |text: &str| Results::parse("a.json", text).unwrap_err().to_string();
        assert!(refusal("{\"ended_well\":true}").contains("is the result of `khz run`"));
        assert!(refusal("{\"format\":\"khz-run\",\"version\":1}").contains("is the result of `khz run`"));
        assert!(refusal("{\"format\":\"khz-jitter\",\"version\":0,\"runs\":[]}").contains("version 0"));
        assert!(refusal("{\"format\":\"khz-jitter\",\"runs\":[]}").contains("unknown version"));
        assert!(refusal("{\"format\":\"other\"}").contains("`other`"));
        assert!(refusal("[1]").contains("no \"format\""));
        assert!(refusal("hello").contains("no JSON"));
        assert!(refusal("{\"format\":\"khz-jitter\",\"version\":1,\"runs\":[{}]}").contains("missing field"));
    }
}
