//! The figures of a run, each declared once: what counts a tick, its key in JSON, its label in tables and on pages, what may
//! be required of it, and its definition, which `docs/metrics.md` and Python's help show.
//!
//! A new count is an entry here; so is the most of something, which only ticks that were late or cost something can raise, so that
//! the others pay nothing for it; a new time is an entry and a line in [`Tally`](crate::tally::Tally) that records it.
//! Every account of a run (text, JSON, page, `--require`, live view, fleet) goes through [`COUNTS`] and [`TIMES`].

use crate::costs::Costly;
use crate::late::Judged;
use crate::record::{Decision, Tick};
use crate::tally::Counts;
use khz_rt::{Cause, Histogram, Summary};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// The ticks that count where one number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The controlled ones; what happened outside stands beside it.
    Controlled,
    /// Those of the whole run.
    Run,
}

/// Where a count is shown to people. All of it is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Always.
    Always,
    /// If there is any.
    IfAny,
    /// In JSON alone.
    InJson,
}

/// What a run must have before it can be judged by a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but ticks.
    Nothing,
    /// A clock: virtual time measures nothing of this computer.
    Clock,
    /// An IMU.
    Imu,
    /// Decisions that are made less often than the loop ticks.
    Decisions,
}

/// A count of a run.
#[derive(Clone, Copy)]
pub struct Count {
    /// Its key in JSON.
    pub key: &'static str,
    /// What people read.
    pub label: &'static str,
    /// Its definition.
    pub definition: &'static str,
    /// Which ticks it is of.
    pub of: Of,
    /// Where it is shown.
    pub shown: Shown,
    /// Its name in `--require`: no more than a limit.
    pub required: Option<&'static str>,
    /// What it needs for that.
    pub needs: Needs,
    /// Its value in some ticks.
    pub within: fn(&Stretch) -> u64,
}

impl Count {
    /// Its value where one number is shown.
    pub fn shown_value(&self, counts: &Counts) -> u64 {
        match self.of {
            Of::Controlled => (self.within)(&counts.controlled),
            Of::Run => (self.within)(&counts.all()),
        }
    }

    /// Those that people see of such counts, each with its number.
    pub fn to_show(counts: &Counts) -> impl Iterator<Item = (&'static Self, u64)> + use<> {
        let counts = *counts;
        let shown_value = COUNTS
            .iter()
            .map(move |count| (count, count.shown_value(&counts), (count.within)(&counts.all())));
        shown_value
            .filter(|(count, _, any)| match count.shown {
                Shown::Always => true,
                Shown::IfAny => *any > 0,
                Shown::InJson => false,
            })
            .map(|(count, value, _)| (count, value))
    }
}

/// What is known of a tick that is counted.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The tick.
    pub tick: &'a Tick,
    /// It started a period or more late.
    pub late_wake: bool,
    /// Something took so much of its bus cycle that replies could not come in time.
    pub off_cpu: bool,
    /// Otherwise encoding did.
    pub encoded: bool,
    /// The judgement, if it was controlled.
    pub judged: Option<&'a Judged>,
    /// From the start of the tick before; 0 if that was not seen.
    pub span_ns: i64,
}

macro_rules! counts {
    ($(
        $(#[doc = $line:literal])+
        $key:ident: $label:literal of $of:ident, $shown:ident
        $(, required $required:literal)? $(, needs $needs:ident)?
        = $count:expr;
    )+ most of costly ticks {$(
        $(#[doc = $most_line:literal])+
        $most_key:ident: $most_label:literal of $most_of:ident, $most_shown:ident
        $(, required $most_required:literal)? $(, needs $most_needs:ident)?
        = $most:expr;
    )+} of decisions {$(
        $(#[doc = $of_line:literal])+
        $of_key:ident: $of_label:literal, $of_shown:ident $(, required $of_required:literal)? = $of_count:expr;
    )+}) => {
        /// Some of the ticks of a run, counted.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Stretch {
            $($(#[doc = $line])+ pub $key: u64,)+
            $($(#[doc = $most_line])+ pub $most_key: u64,)+
            $($(#[doc = $of_line])+ pub $of_key: u64,)+
            /// Ticks that ended later than usual.
            #[serde(skip)]
            pub late: u64,
            /// Replies missed in controlled ticks whose encoding left less of the bus cycle than they usually take.
            #[serde(skip)]
            pub missed_while_computing: u64,
            /// From the start of the tick before each to the start of it, summed.
            #[serde(skip)]
            pub span_ns: i64,
            /// The longest wake latency.
            #[serde(skip)]
            pub worst_wake_ns: i64,
        }

        /// Every count that has a key.
        pub const COUNTS: &[Count] = &[$(
            counts!(@count $key $label $of $shown [$($line),+] [$($required)?] [$($needs)?]),
        )+ $(
            counts!(@count $most_key $most_label $most_of $most_shown [$($most_line),+] [$($most_required)?] [$($most_needs)?]),
        )+ $(
            counts!(@count $of_key $of_label Run $of_shown [$($of_line),+] [$($of_required)?] [Decisions])
        ),+];

        impl AddAssign for Stretch {
            fn add_assign(&mut self, more: Self) {
                self.add_tick(more);
                $(self.$most_key = self.$most_key.max(more.$most_key);)+
                $(self.$of_key += more.$of_key;)+
            }
        }

        impl Stretch {
            /// Adds a tick that raises no most.
            #[inline]
            pub fn add_tick(&mut self, more: Self) {
                $(self.$key += more.$key;)+
                self.late += more.late;
                self.missed_while_computing += more.missed_while_computing;
                self.span_ns = self.span_ns.saturating_add(more.span_ns);
                self.worst_wake_ns = self.worst_wake_ns.max(more.worst_wake_ns);
            }

            /// Takes in what a tick that was added was late or cost.
            pub fn raise(&mut self, tick: &Costly) {
                $({
                    let most: fn(&Costly) -> u64 = $most;
                    self.$most_key = self.$most_key.max(most(tick));
                })+
            }

            /// Takes in a decision that is followed. No tick adds to these.
            pub fn decide(&mut self, decision: &Decision) {
                $({
                    let count: fn(&Decision) -> u64 = $of_count;
                    self.$of_key += count(decision);
                })+
            }

            /// One tick.
            #[inline]
            pub fn one(seen: &Seen<'_>) -> Self {
                let computed = seen.encoded && seen.judged.is_some_and(|judged| judged.cause == Cause::Compute);
                Self {
                    $($key: {
                        let count: fn(&Seen<'_>) -> u64 = $count;
                        count(seen)
                    },)+
                    late: seen.judged.is_some_and(|judged| judged.is_late).into(),
                    missed_while_computing: if computed { seen.tick.missed.into() } else { 0 },
                    span_ns: seen.span_ns,
                    worst_wake_ns: seen.tick.wake_latency_ns,
                    ..Self::default()
                }
            }
        }
    };
    (@count $key:ident $label:literal $of:ident $shown:ident
        [$($line:literal),+] [$($required:literal)?] [$($needs:ident)?]) => {
        Count {
            key: stringify!($key),
            label: $label,
            definition: concat!($($line),+),
            of: Of::$of,
            shown: Shown::$shown,
            required: counts!(@required $($required)?),
            needs: counts!(@needs $($needs)?),
            within: |stretch| stretch.$key,
        }
    };
    (@required) => { None };
    (@required $name:literal) => { Some($name) };
    (@needs) => { Needs::Nothing };
    (@needs $needs:ident) => { Needs::$needs };
}

counts! {
    /// ticks run, all phases
    ticks: "ticks" of Run, InJson = |_| 1;
    /// sum of `skipped`, under every overrun policy. Under `re_phase` it counts the planned times of the old phase that
    /// passed
    skipped: "periods skipped" of Controlled, InJson = |seen| seen.tick.skipped.into();
    /// ticks with `wake_latency_ns` ≥ one period
    late_wakes: "late wakes" of Controlled, IfAny = |seen| seen.late_wake.into();
    /// ticks with `overrun`: the end of the tick, `started_ns` + `cycle_ns` + `decide_ns`, was after `planned_ns` + period
    overruns: "overruns" of Controlled, Always, required "overruns", needs Clock = |seen| seen.tick.overrun.into();
    /// sum of `minor_faults` and `major_faults`: memory that was not mapped when it was accessed. With memory locked, only memory that
    /// the controller requests from the kernel causes them
    page_faults: "page faults" of Controlled, InJson, required "page_faults", needs Clock
        = |seen| u64::from(seen.tick.minor_faults) + u64::from(seen.tick.major_faults);
    /// ticks with `without_frame`
    ticks_without_frame: "ticks without frame" of Run, IfAny = |seen| seen.tick.without_frame.into();
    /// sum of `missed`
    missed_replies: "missed replies" of Controlled, Always, required "missed" = |seen| seen.tick.missed.into();
    /// sum of `missed` over the ticks that had less CPU time within the bus cycle than all replies usually take:
    /// `away_in_cycle_ns` ≥ 50 µs and `cycle_ns` − `away_in_cycle_ns` ≤ the usual time. *Usual* is a running median (computed
    /// as for late ticks, from the first value on) of `cycle_ns` − `imu_ns` over all earlier ticks with `missed` = 0; until
    /// there is one, no reply counts here. Replies missed although the usual time was left do not count here, nor do those
    /// missed during time that is not measured, such as steal that the guest kernel does not account for. No other
    /// disturbance counts here: the bus deadline is relative to the actual start and moves back if encoding takes more than
    /// 20 µs (by up to half of what it leaves of the period), and the controller runs after the cycle. If encoding takes even longer, so that
    /// `cycle_ns` − `encode_ns` ≤ the usual time in a controlled tick that is late by its own computing, `verdict` blames
    /// the missed replies on computing
    missed_while_off_cpu: "…while off the CPU" of Controlled, IfAny
        = |seen| if seen.off_cpu { seen.tick.missed.into() } else { 0 };
    /// sum of `late`: replies to older queries, and further replies to one query
    late_replies: "late replies" of Run, IfAny, required "late_replies" = |seen| seen.tick.late.into();
    /// sum of `unexpected`: frames that were no reply to a query
    unexpected_frames: "unexpected frames" of Run, IfAny, required "unexpected" = |seen| seen.tick.unexpected.into();
    /// sum of `imu_missed`: ticks without a reading of the IMU
    imu_missed: "missed IMU readings" of Run, IfAny, required "imu_missed", needs Imu
        = |seen| seen.tick.imu_missed.into();

    most of costly ticks {
        /// the most late ticks (`late`) in a row. A single disturbance makes one tick late; many in a row have a lasting cause
        late_in_a_row: "late in a row" of Controlled, InJson, required "late_in_a_row", needs Clock = |tick| tick.late_in_a_row;
        /// the most planned times that passed between two ticks: the largest `skipped`. A robot tolerates scattered missing ticks better
        /// than the same number in a row
        skipped_in_a_row: "skipped in a row" of Controlled, IfAny, required "skipped_in_a_row" = |tick| tick.lost_periods;
    }

    of decisions {
        /// records `decision`: decisions that were followed, or so late that they ended the run, of a controller that decides less often
        /// than the loop ticks
        decisions: "decisions", InJson = |_| 1;
        /// decisions with `late` > 0: they were followed later than they were due, or ended the run before they were there
        late_decisions: "late decisions", IfAny, required "late_decisions" = |decision| u64::from(decision.late > 0);
        /// sum of `missed`: decisions that were not made, because the one before was under way
        missed_decisions: "decisions not made", IfAny, required "missed_decisions" = |decision| decision.missed.into();
        /// decisions with `clipped` > 0: a number of them was beyond `action.clip`
        clipped_decisions: "clipped decisions", IfAny, required "clipped_decisions"
            = |decision| u64::from(decision.clipped > 0);
        /// decisions with a `cut`: a limit has cut a joint's command in a tick since the decision before. With `between = "hold"`
        /// the limit of velocity cuts every step that is longer than it allows in one tick
        cut_decisions: "decisions cut by limits", IfAny, required "cut_decisions"
            = |decision| decision.cut.0.contains(&true).into();
    }
}

/// A time of a run, one value a tick.
#[derive(Clone, Copy)]
pub struct Time {
    /// Its key in JSON.
    pub key: &'static str,
    /// What people read.
    pub label: &'static str,
    /// Its unit, and whether it is wall clock or CPU time.
    pub unit: &'static str,
    /// Its definition.
    pub definition: &'static str,
    /// What is not in it.
    pub leaves_out: &'static str,
    /// What others call it.
    pub elsewhere: &'static str,
    /// Its name in `--require`, without the percentile: no more than a limit.
    pub required: Option<&'static str>,
    /// The devices alone take it, also in virtual time.
    pub is_of_devices: bool,
    /// It is not of ticks but of decisions, which most robots have none of.
    pub is_of_decisions: bool,
    /// Its figures.
    pub within: fn(&Times<Summary>) -> &Summary,
}

impl Time {
    /// Those that people see of such figures, each with its own: of a run in virtual time only what the devices took.
    pub fn to_show(
        times: &Times<Summary>,
        virtual_time: bool,
    ) -> impl Iterator<Item = (&'static Self, &Summary)> {
        let shown = TIMES.iter().filter(move |time| time.is_of_devices || !virtual_time);
        shown
            .map(|time| (time, (time.within)(times)))
            .filter(|(time, of)| !time.is_of_decisions || of.count > 0)
    }
}

/// What people read of the periods that passed without a tick. They follow from counts and pace, so that no tick adds to them.
pub const LOST_PERIODS: &str = "lost periods";

macro_rules! times {
    ($(
        $(#[doc = $line:literal])+
        $name:ident $key:literal: $label:literal $unit:literal $(, required $required:literal)? $(, of $devices:ident)?
        $(, leaves_out $leaves_out:literal)? $(, elsewhere $elsewhere:literal)?;
    )+) => {
        /// One of something for each time of a run: its values, or its figures.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
        pub struct Times<T> {
            $($(#[doc = $line])+ #[serde(rename = $key)] pub $name: T,)+
        }

        /// Every time of a run.
        pub const TIMES: &[Time] = &[$(Time {
            key: $key,
            label: $label,
            unit: $unit,
            definition: concat!($($line),+),
            leaves_out: concat!($($leaves_out)?),
            elsewhere: concat!($($elsewhere)?),
            required: counts!(@required $($required)?),
            is_of_devices: times!(@devices $($devices)?),
            is_of_decisions: times!(@decisions $($devices)?),
            within: |times| &times.$name,
        }),+];

        impl Times<Histogram> {
            /// No values. Allocates.
            pub fn new() -> Self {
                Self { $($name: Histogram::new()),+ }
            }

            /// The figures of each. Allocates.
            pub fn summaries(&self) -> Times<Summary> {
                Times { $($name: self.$name.summary()),+ }
            }
        }
    };
    (@devices) => { false };
    (@devices devices) => { true };
    (@devices decisions) => { false };
    (@decisions) => { false };
    (@decisions devices) => { false };
    (@decisions decisions) => { true };
}

times! {
    /// `started_ns − waited_for_ns`, of ticks that ran
    wake_latency "wake_latency_ns": "wake latency" "ns", required "wake",
        leaves_out "periods without a tick: see start delay",
        elsewhere "cyclictest, rtla timerlat (user). Both sleep: compare them with `wake = \"sleep\"`, not with `hybrid` or \
                   `spin`, which poll the clock until the deadline";
    /// for *every planned time*: from it to the start of the first tick at or after it. A tick gives `skipped` + 1 values:
    /// `started_ns − due_ns − i·period`, i = 0 … `skipped`
    start_delay "start_delay_ns": "start delay" "ns", required "start_delay",
        leaves_out "nothing",
        elsewhere "HdrHistogram's corrected recording (`recordValueWithExpectedInterval`), with the number of lost periods \
                   known instead of estimated; sockperf and wrk2 do the same for replies";
    /// start to start: `started_ns` minus that of the previous tick
    period "period_ns": "period" "ns", required "period", of devices,
        leaves_out "the tick before the first controlled one supplies a start, not a value";
    /// from `started_ns` to the last reply decoded, or to the bus deadline: `encode_ns` + `send_ns` + `collect_ns`
    cycle "cycle_ns": "bus cycle" "ns", required "cycle", of devices,
        leaves_out "the controller";
    /// encoding, decoding, state, supervisor, and handing the previous tick to the recorder, the statistics and the live
    /// view. *Includes preemption during that time*
    loop_compute "loop_compute_ns": "loop compute" "ns, wall clock", required "compute",
        leaves_out "links, emulated devices, controller, reading the thread's counters";
    /// CPU time of the thread from the start of the tick to its end, before the hand-over to the observers; includes spinning
    /// for replies
    cpu "cpu_ns": "CPU time" "ns, `CLOCK_THREAD_CPUTIME_ID`",
        leaves_out "time preempted, blocked or asleep. Includes steal where the guest kernel does not account for it, so it \
                    may exceed the tick's wall time minus `away_ns`";
    /// time in the controller, for *all* ticks with `controller_ran` in any phase; `parts[control]` is that of the controlled
    /// ticks. (Includes the first active tick; excludes a tick in which the supervisor took over)
    control "control_ns": "controller" "ns, wall clock", required "control",
        leaves_out "ticks without a controller";
    /// `took_ns` of the decisions that were followed: from the thread's beginning one to its end
    decision "decision_ns": "decision" "ns, wall clock", required "decision", of decisions,
        leaves_out "the wait until it is due; decisions made within the tick";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_label_and_requirement_is_there_once() {
        let keys: Vec<&str> =
            COUNTS.iter().map(|count| count.key).chain(TIMES.iter().map(|time| time.key)).collect();
        let labels = COUNTS.iter().map(|count| count.label).chain(TIMES.iter().map(|time| time.label));
        let required = COUNTS.iter().filter_map(|count| count.required);
        let required: Vec<&str> = required.chain(TIMES.iter().filter_map(|time| time.required)).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        assert_eq!(labels.collect::<BTreeSet<_>>().len(), keys.len());
        assert_eq!(required.iter().collect::<BTreeSet<_>>().len(), required.len());
    }

    #[test]
    fn json_has_every_count_and_time_under_its_key() {
        let keys = |value: serde_json::Value| match value {
            serde_json::Value::Object(map) => map.keys().cloned().collect::<BTreeSet<_>>(),
            other => panic!("{other}"),
        };
        let stretch = serde_json::to_value(Stretch::default()).unwrap_or_default();
        assert_eq!(keys(stretch), COUNTS.iter().map(|count| count.key.to_owned()).collect());
        let times = serde_json::to_value(Times::<Histogram>::new().summaries()).unwrap_or_default();
        assert_eq!(keys(times), TIMES.iter().map(|time| time.key.to_owned()).collect());
    }

    #[test]
    fn what_is_wrong_outside_control_is_shown_too() {
        let outside = Stretch { late_wakes: 2, ..Stretch::default() };
        let shown = Count::to_show(&Counts { outside, ..Counts::default() });
        let labels: Vec<_> = shown.map(|(count, number)| (count.label, number)).collect();
        assert_eq!(labels, [("late wakes", 0), ("overruns", 0), ("missed replies", 0)]);
    }
}
