//! The verdict on a run or a measurement: whether it held its rate, why it is no better, and what to do.
//!
//! It judges what happened. How the loop's thread was set up (real-time, degraded, ordinary) is said beside it and
//! lowers no level: a real-time thread can lose periods, and an ordinary one can hold its rate.

use crate::costs::LateGroup;
use crate::tally::{Counts, Pace};
use crate::usual::Usual;
use khz_page::{Level, Verdict, counted, duration, for_shell, grouped};
use khz_rt::{Cause, Grade};

/// What the verdict is made of. What does not apply stays at its default.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The configured rate.
    pub target_hz: f64,
    /// The achieved one.
    pub rate_hz: f64,
    /// The rate is that of a sensor's clock, which may be off by [`SENSOR_CLOCK`].
    pub sensor_paced: bool,
    /// It ran in virtual time, which is never late.
    pub virtual_time: bool,
    /// Planned periods.
    pub periods: u64,
    /// Of these, periods without a tick.
    pub lost: u64,
    /// Ticks that started a period or more late.
    pub late_wakes: u64,
    /// Ticks that ended after the next was planned.
    pub overruns: u64,
    /// Ticks without the frame that paces them.
    pub without_frame: u64,
    /// Frames that pace the loop but came too early to start a tick.
    pub early_frames: u64,
    /// Replies missed.
    pub missed_replies: u64,
    /// Of these, in ticks that had less of the bus cycle on the CPU than all replies usually take.
    pub missed_while_off_cpu: u64,
    /// Of the others, in ticks whose own computing left less of the bus cycle than that.
    pub missed_while_computing: u64,
    /// The servo that missed most of them that nothing excuses, and how many.
    pub worst_servo: Option<(String, u64)>,
    /// What the longest bus cycle needs by the prediction, and what its deadline leaves, ns.
    pub cycle_ns: Option<(i64, i64)>,
    /// The 99th percentile of the wake latency, and from how much on a tick is late, ns.
    pub wake_ns: Option<(i64, i64)>,
    /// Commands that were changed to keep joints within their limits, and how many there were.
    pub changed: Option<(u64, u64)>,
    /// Ticks in which a controller on its own thread was not done, of how many, and the oldest command that was used, ns.
    pub not_done: Option<(u64, u64, i64)>,
    /// What the machine did to the whole process.
    pub stops: Stops,
    /// What happened before and after the controlled time: switching on and coming down.
    pub outside: Outside,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Further replies to a query that was answered.
    pub duplicates: u64,
    /// Frames that were no reply to a query.
    pub unexpected_frames: u64,
    /// IMU readings missed.
    pub imu_missed: u64,
    /// Late ticks by cause, the one that lost most time first.
    pub late: Vec<LateGroup>,
    /// What a tick usually takes.
    pub usual: Option<Usual>,
    /// What the thread was granted, if it asked for a real-time policy.
    pub granted: Option<Grade>,
    /// It ended by itself, because a tick took too long: after so many ticks, of so many planned.
    pub stopped: Option<(u64, u64)>,
    /// What brought the robot down.
    pub broken: Option<Broken>,
    /// What went wrong and did not, as sentences.
    pub warnings: Vec<String>,
    /// The robot file, which the commands in the verdict name.
    pub file: RobotFile,
}

impl Facts {
    /// What counts alone say.
    #[must_use]
    pub fn of(counts: &Counts, pace: Pace, rate_hz: f64, late: Vec<LateGroup>) -> Self {
        let Counts { controlled, outside } = counts;
        let (all, lost) = (counts.all(), controlled.lost_periods(pace));
        Self {
            target_hz: if pace.period_ns > 0 { 1e9 / pace.period_ns as f64 } else { rate_hz },
            rate_hz,
            sensor_paced: pace.by_sensor,
            periods: controlled.ticks + lost,
            lost,
            late_wakes: controlled.late_wakes,
            overruns: controlled.overruns,
            without_frame: all.ticks_without_frame,
            missed_replies: controlled.missed_replies,
            missed_while_off_cpu: controlled.missed_while_off_cpu,
            missed_while_computing: controlled.missed_while_computing,
            outside: Outside {
                lost: outside.skipped,
                late_wakes: outside.late_wakes,
                overruns: outside.overruns,
                missed_replies: outside.missed_replies,
            },
            late,
            late_replies: all.late_replies,
            unexpected_frames: all.unexpected_frames,
            imu_missed: all.imu_missed,
            ..Self::default()
        }
    }
}

/// Where a robot comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RobotFile {
    /// From a text, or from a log: who reads a command replaces `FILE` in it.
    #[default]
    Unknown,
    /// It is the robot that commands are about if no file is named.
    BuiltIn,
    /// From a file, as it was named.
    At(String),
}

impl RobotFile {
    /// A text in which commands say `FILE` for the robot file.
    fn named_in(&self, text: &str) -> String {
        match self {
            Self::Unknown => text.to_owned(),
            Self::BuiltIn => text.replace(" FILE", ""),
            Self::At(path) => text.replace(" FILE", &format!(" {}", as_argument(path))),
        }
    }
}

/// A robot file as a command takes it: a word with a dash is an option, and one without a slash may be the name of a link.
fn as_argument(path: &str) -> String {
    let is_bare = path.starts_with('-') || !path.contains('/') && !path.ends_with(".toml");
    if is_bare { for_shell(&format!("./{path}")) } else { for_shell(path) }
}

/// Time that was taken from the process as a whole, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// By the CPU quota of its control group.
    pub throttled_ns: i64,
    /// All its threads stood still without wanting a CPU: stopped by a signal, or frozen with their control group.
    pub stopped_ns: i64,
    /// Real-time threads may use so much of each second, ns; `None`: all of it, or the thread is not one.
    pub rt_runtime_ns: Option<i64>,
}

/// What of it happened outside the controlled time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outside {
    /// Periods without a tick.
    pub lost: u64,
    /// Ticks that started a period or more late.
    pub late_wakes: u64,
    /// Ticks that ended after the next was planned.
    pub overruns: u64,
    /// Replies missed while the motors were switched on, or while coming down.
    pub missed_replies: u64,
}

/// What brought a robot down, or kept it from coming under control.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// When, if it was under control.
    pub after_s: Option<f64>,
    /// What happened.
    pub what: String,
    /// What to do.
    pub remedy: Option<&'static str>,
}

/// A sensor's clock may be off by this share.
pub const SENSOR_CLOCK: f64 = 0.05;
/// From this share on it is said.
const SENSOR_OFF: f64 = 0.02;

/// From this share of lost periods on a run is bad.
const BAD_SHARE: f64 = 0.01;
/// From this share of changed commands on the robot does not do what its controller wants.
const CHANGED_SHARE: f64 = 0.1;

/// What to do about a machine.
pub const DOCTOR: &str = "run `khz doctor`";
/// What to do about replies that do not come.
pub const SCAN: &str = "check power, wiring and ids with `khz bus scan FILE`";
pub(crate) const PARTS: &str = "`khz run FILE --budget` shows its time part by part";
/// What to do about replies that come too late.
pub const BUDGET: &str = "`khz budget FILE` shows what the buses need";

/// The verdict on these facts. Whoever lost a period gets no good one.
#[must_use]
pub fn judge(facts: &Facts) -> Verdict {
    let mut reasons: Vec<(Level, String)> = Vec::new();
    reasons.extend(failures(facts).map(|reason| (Level::Bad, reason)));
    reasons.extend(lost(facts));
    reasons.extend(late_ticks(facts).map(|reason| (Level::Warning, reason)));
    reasons.extend(missed_replies(facts));
    reasons.extend(quality(facts).map(|reason| (Level::Warning, reason)));
    reasons.extend(blemishes(facts).map(|reason| (Level::Warning, reason)));
    reasons.extend(facts.warnings.iter().map(|warning| (Level::Warning, warning.clone())));
    // The worst first.
    reasons.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let mut verdict = Verdict {
        level: reasons.iter().map(|(level, _)| *level).max().unwrap_or(Level::Good),
        held: held(facts) && facts.broken.is_none() && facts.stopped.is_none(),
        headline: headline(facts),
        cause: cause(facts),
        remedy: remedy(facts).map(|remedy| facts.file.named_in(&remedy)),
        reasons: reasons.into_iter().map(|(_, reason)| reason).chain(set_up(facts)).collect(),
        text: String::new(),
    };
    let mut what = what(facts, &verdict);
    let cause = verdict.cause.clone();
    // Of several causes none made most of it.
    if let Some(cause) = verdict.cause.take_if(|_| has_several_causes(facts)) {
        what = format!("{what}, for several reasons, most of all because {cause}");
    }
    let verdict = verdict.sentence(&what);
    let text = format!("{}{}", verdict.text, besides(facts, &verdict).unwrap_or_default());
    Verdict { cause, text, ..verdict }
}

/// What was wrong on the buses of a run that did not hold its rate: a lost period hides none of it.
fn besides(facts: &Facts, verdict: &Verdict) -> Option<String> {
    if verdict.held || facts.broken.is_some() || facts.periods == 0 {
        return None;
    }
    let mut wrong = missed_replies(facts).map(|(_, reason)| reason).chain(blemishes(facts));
    let first = wrong.next()?;
    let more = wrong.count();
    let more = and_more(more);
    let remedy =
        bus_remedy(facts).map_or(String::new(), |remedy| format!("; {}", facts.file.named_in(remedy)));
    Some(format!(" Besides, {}{more}{remedy}.", first.trim_end_matches('.')))
}

/// What to do about replies that were missed.
fn bus_remedy(facts: &Facts) -> Option<&'static str> {
    let remedy = if are_late_not_lost(facts) { BUDGET } else { SCAN };
    (clean_misses(facts) > 0).then_some(remedy)
}

/// Nearly as many replies came after their tick as were missed: nothing is wrong with the wiring.
fn are_late_not_lost(facts: &Facts) -> bool {
    let missed =
        (facts.missed_replies + facts.outside.missed_replies).saturating_sub(facts.missed_while_computing);
    let late = late_replies(facts);
    // Of a cycle that does not fit, many are not even waited for.
    let fits_not = facts.cycle_ns.is_some_and(|(needed_ns, left_ns)| needed_ns > left_ns);
    missed > 0 && (late * 10 >= missed * 9 || fits_not && late * 4 >= missed)
}

/// Replies to older queries, without those that computing left no time for.
fn late_replies(facts: &Facts) -> u64 {
    facts.late_replies.saturating_sub(facts.missed_while_computing)
}

/// What brought the robot down, or kept it from control, is that replies come late: those that did are enough of the missed
/// ones, or the bus needs twice its time, which gives up most queries before it sends them, and all replies may be given up.
fn is_broken_by_late_replies(facts: &Facts) -> bool {
    let is_of_replies = facts.broken.as_ref().is_some_and(|broken| broken.remedy == Some(SCAN));
    let needs_twice = facts.cycle_ns.is_some_and(|(needed_ns, left_ns)| needed_ns > 2 * left_ns);
    is_of_replies && (are_late_not_lost(facts) || needs_twice)
}

/// Replies that were missed and that nothing excuses.
fn clean_misses(facts: &Facts) -> u64 {
    facts.missed_replies.saturating_sub(facts.missed_while_off_cpu + facts.missed_while_computing)
}

/// Whether the rate was held: no period lost, and the sensor's clock within its tolerance.
fn held(facts: &Facts) -> bool {
    facts.periods > 0 && facts.lost == 0 && (!facts.sensor_paced || off_rate(facts) <= SENSOR_CLOCK)
}

/// By which share the rate is not the one asked for.
fn off_rate(facts: &Facts) -> f64 {
    (facts.rate_hz / facts.target_hz - 1.0).abs()
}

fn failures(facts: &Facts) -> impl Iterator<Item = String> {
    let broken = facts.broken.as_ref().map(|broken| format!("It ended with: {}.", broken.what));
    broken.into_iter().chain(stopped(facts).map(|stopped| format!("It {stopped}.")))
}

fn lost(facts: &Facts) -> Option<(Level, String)> {
    let share = facts.lost as f64 / facts.periods.max(1) as f64;
    let level = if share >= BAD_SHARE { Level::Bad } else { Level::Warning };
    let (lost, periods) = (counted(facts.lost, "period"), grouped(facts.periods));
    match (facts.periods, facts.lost) {
        (0, _) if facts.broken.is_some() => None,
        (0, _) => Some((Level::Warning, "The robot was never controlled.".into())),
        (_, 0) if held(facts) => None,
        (_, 0) => Some((Level::Warning, format!("The rate was {:.2} Hz.", facts.rate_hz))),
        _ => Some((level, format!("{lost} of {periods} passed without a tick."))),
    }
}

fn late_ticks(facts: &Facts) -> impl Iterator<Item = String> {
    let found = [
        (facts.late_wakes, format!("{} started a period or more late.", counted(facts.late_wakes, "tick"))),
        (facts.overruns, format!("{} overran.", counted(facts.overruns, "tick"))),
    ];
    occurred(found).chain(outside(&facts.outside))
}

/// What happened while motors were switched on, or while coming down.
fn outside(outside: &Outside) -> Option<String> {
    let found = [
        (outside.lost, format!("{} passed without a tick", counted(outside.lost, "period"))),
        (
            outside.late_wakes,
            format!("{} started a period or more late", counted(outside.late_wakes, "tick")),
        ),
        (outside.overruns, format!("{} overran", counted(outside.overruns, "tick"))),
        (outside.missed_replies, format!("{} missed", were(outside.missed_replies, "reply", "replies"))),
    ];
    let told: Vec<String> = occurred(found).collect();
    (!told.is_empty()).then(|| format!("{} during start-up or while coming down.", told.join(", ")))
}

fn missed_replies(facts: &Facts) -> impl Iterator<Item = (Level, String)> {
    let clean = clean_misses(facts);
    let by = facts.worst_servo.as_ref().map_or(String::new(), |(servo, count)| match *count == clean {
        true => format!(" by {servo}"),
        false => format!(" (most often by {servo}: {})", grouped(*count)),
    });
    let (off, computing) = (facts.missed_while_off_cpu, facts.missed_while_computing);
    let missed = match are_late_not_lost(facts) {
        // Who missed most need not be who is late most.
        true => format!("{} late{}.", were(clean, "reply", "replies"), never_fits(facts)),
        false => format!("{} missed{by}.", were(clean, "reply", "replies")),
    };
    let reasons = [
        (clean, Level::Bad, missed),
        (
            off,
            Level::Warning,
            format!("{} missed while the loop was off its CPU.", were(off, "reply", "replies")),
        ),
        (
            computing,
            Level::Warning,
            format!("{} missed because computing took too long.", were(computing, "reply", "replies")),
        ),
    ];
    reasons.into_iter().filter(|(count, ..)| *count > 0).map(|(_, level, reason)| (level, reason))
}

/// The cycle is longer than its deadline.
fn never_fits(facts: &Facts) -> String {
    let fits_not = facts.cycle_ns.filter(|(needed_ns, left_ns)| needed_ns > left_ns);
    fits_not.map_or(String::new(), |(needed_ns, left_ns)| {
        let [needed, left] = [needed_ns, left_ns].map(|ns| duration(ns as f64));
        format!(": the bus cycle needs {needed}, its deadline leaves {left}")
    })
}

/// What brought a robot down, or kept it from control, is that replies come late.
fn never_came_in_time(facts: &Facts) -> String {
    let late = were(facts.late_replies, "reply", "replies");
    match is_broken_by_late_replies(facts) {
        true => format!("; {late} late{}", never_fits(facts)),
        false => String::new(),
    }
}

/// What makes a run that lost nothing worse than it looks.
fn quality(facts: &Facts) -> impl Iterator<Item = String> {
    [late_starts(facts), sensor_off(facts), changed(facts), not_done(facts)].into_iter().flatten()
}

fn late_starts(facts: &Facts) -> Option<String> {
    let (p99_ns, _) = facts.wake_ns.filter(|(p99_ns, late_ns)| p99_ns > late_ns && !facts.virtual_time)?;
    let (p99, period) = (duration(p99_ns as f64), duration(period_ns(facts) as f64));
    Some(format!("1 % of the ticks started {p99} late or more, of a period of {period}."))
}

fn sensor_off(facts: &Facts) -> Option<String> {
    let is_off = facts.sensor_paced && facts.periods > 0 && off_rate(facts) > SENSOR_OFF && held(facts);
    is_off
        .then(|| format!("The sensor paces the loop at {:.1} Hz, not {} Hz.", facts.rate_hz, facts.target_hz))
}

fn changed(facts: &Facts) -> Option<String> {
    let (changed, commands) = facts.changed?;
    (changed > 0 && changed as f64 >= CHANGED_SHARE * commands as f64).then(|| {
        let (changed, commands) = (grouped(changed), counted(commands, "command"));
        format!("{changed} of {commands} were changed to keep the joints within their limits.")
    })
}

fn not_done(facts: &Facts) -> Option<String> {
    let (not_done, ticks, age_ns) = facts.not_done.filter(|(not_done, ..)| *not_done > 0)?;
    let (not_done, ticks, age) = (grouped(not_done), counted(ticks, "tick"), duration(age_ns as f64));
    Some(format!("The controller was not done in {not_done} of {ticks}: commands were up to {age} old."))
}

/// What was wrong on the buses though every servo was answered for.
fn blemishes(facts: &Facts) -> impl Iterator<Item = String> {
    // Those that were missed in time have been told.
    let late_replies = if are_late_not_lost(facts) { 0 } else { late_replies(facts) };
    let late = were(late_replies, "reply", "replies");
    let duplicates = were(facts.duplicates, "reply", "replies");
    let unexpected = were(facts.unexpected_frames, "frame", "frames");
    let imu = were(facts.imu_missed, "IMU reading", "IMU readings");
    let unpaced = were(facts.without_frame, "tick", "ticks");
    let early = were(facts.early_frames, "pace frame", "pace frames");
    occurred([
        (late_replies, format!("{late} late: to the query of an earlier tick.")),
        (facts.duplicates, format!("{duplicates} duplicates: two servos may have the same id.")),
        (
            facts.unexpected_frames,
            format!("{unexpected} no reply to a query: something else may send on the bus."),
        ),
        (facts.imu_missed, format!("{imu} missed.")),
        (facts.without_frame, format!("{unpaced} started by the timer, without a pace frame.")),
        (facts.early_frames, format!("{early} too early to start a tick: {}.", early_advice(facts))),
    ])
}

/// Of a sensor that is faster than the loop, or of one whose frames come bunched: those leave as many ticks without one.
fn early_advice(facts: &Facts) -> &'static str {
    let bunched = facts.without_frame as f64 + SENSOR_OFF * facts.periods as f64;
    if facts.early_frames as f64 > bunched {
        "set `loop.rate_hz` to the sensor's rate"
    } else {
        "they came bunched, so look for what delays them (`khz doctor` knows the delays of adapters)"
    }
}

fn occurred<const N: usize>(found: [(u64, String); N]) -> impl Iterator<Item = String> {
    found.into_iter().filter(|(count, _)| *count > 0).map(|(_, reason)| reason)
}

/// What the thread asked for and was not granted.
fn set_up(facts: &Facts) -> Option<String> {
    let grade = facts.granted.filter(|grade| *grade != Grade::RealTime && !facts.virtual_time)?;
    Some(match grade {
        Grade::Ordinary => "The loop thread was not granted real-time scheduling.".into(),
        _ => "The loop thread was not granted all it asked for.".into(),
    })
}

/// `stopped on an overrun after 1 of 2,000 ticks`, if it did.
fn stopped(facts: &Facts) -> Option<String> {
    let (ticks, planned) = facts.stopped?;
    Some(format!("stopped on an overrun after {} of {} ticks", grouped(ticks), grouped(planned)))
}

fn headline(facts: &Facts) -> String {
    if let Some(broken) = &facts.broken {
        return match broken.after_s {
            Some(after_s) => format!("came down after {}", duration(after_s * 1e9)),
            None => "never under control".into(),
        };
    }
    let clean = clean_misses(facts);
    // A missed reply is bad, and no badge may say only that the rate was held.
    let replies = if clean == 1 { "reply" } else { "replies" };
    let missed = match are_late_not_lost(facts) {
        true => format!(", {} {replies} late", grouped(clean)),
        false => format!(", missed {} {replies}", grouped(clean)),
    };
    rate(facts) + if clean > 0 { &missed } else { "" }
}

/// Whether the rate was held, and by how much not.
fn rate(facts: &Facts) -> String {
    let target = facts.target_hz;
    if let Some(stopped) = stopped(facts) {
        return format!("did not hold {target} Hz: {stopped}");
    }
    match (facts.periods, facts.lost) {
        (0, _) => format!("never ran at {target} Hz"),
        (_, 0) if held(facts) && facts.virtual_time => format!("held {target} Hz of virtual time"),
        (_, 0) if sensor_off(facts).is_some() => format!("held its sensor's rate of {:.1} Hz", facts.rate_hz),
        (_, 0) if held(facts) => format!("held {target} Hz"),
        (_, 0) => format!("did not hold {target} Hz: ran at {:.2} Hz", facts.rate_hz),
        (periods, lost) => {
            format!("did not hold {target} Hz: lost {} of {}", grouped(lost), counted(periods, "period"))
        }
    }
}

/// What the sentence begins with: what broke comes first, then whether the rate was held.
fn what(facts: &Facts, verdict: &Verdict) -> String {
    let rate = rate(facts);
    let real_time = set_up(facts).filter(|_| verdict.held).map_or("", |_| " without real-time scheduling");
    match &facts.broken {
        Some(Broken { after_s: None, what, .. }) => format!("{what}{}", never_came_in_time(facts)),
        Some(broken) => {
            let late = never_came_in_time(facts);
            format!("{}: {}{late}; it {rate} until then", verdict.headline, broken.what)
        }
        None if verdict.held => format!("{rate}{real_time}{}", but(verdict, real_time.is_empty())),
        None if facts.lost > 0 && facts.stopped.is_none() => {
            format!("{rate} ({:.2} %)", 100.0 * facts.lost as f64 / facts.periods.max(1) as f64)
        }
        None => rate,
    }
}

/// How many problems are left out.
fn and_more(problems: usize) -> String {
    if problems > 0 { format!(" (and {})", counted(problems as u64, "more problem")) } else { String::new() }
}

/// What a reader has to know although the rate was held.
fn but(verdict: &Verdict, real_time: bool) -> String {
    let Some(first) = verdict.reasons.first().filter(|_| verdict.level > Level::Note) else {
        return String::new();
    };
    // That the thread is not real-time is the last reason, and said before.
    let more = verdict.reasons.len() - 1 - usize::from(!real_time);
    let more = and_more(more);
    let first = first.trim_end_matches('.');
    let first = first.strip_prefix("The ").map_or(first.to_owned(), |rest| format!("the {rest}"));
    format!(", but {first}{more}")
}

/// What cost most: lost periods, or else overruns, late wakes, or late ticks.
fn cause(facts: &Facts) -> Option<String> {
    if let Some(usual) = too_slow(facts) {
        return Some(usual.because(period_ns(facts)));
    }
    let is_late = is_late(facts) || late_starts(facts).is_some();
    let group = leading(facts).filter(|_| is_late && facts.broken.is_none())?;
    let (share, all) = (grouped(cost(group, facts)), counted(all_costs(facts), weight(facts).1));
    let worst = group.worst_ns.map_or(String::new(), |ns| format!(", worst {}", duration(ns as f64)));
    Some(format!("{} ({share} of {all}{worst})", because(facts, group)))
}

/// What causes are weighed by: the gravest of what happened that late ticks account for. How much of it each cost, its name, and
/// how often it happened.
type Weight = (fn(&LateGroup) -> u64, &'static str, u64);

fn weight(facts: &Facts) -> Weight {
    let weights: [Weight; 3] = [
        (|group| group.lost_periods, "lost period", facts.lost),
        (|group| group.overruns, "overrun", facts.overruns),
        (|group| group.late_wakes, "late wake", facts.late_wakes),
    ];
    let found = weights.into_iter().find(|(of, ..)| facts.late.iter().map(of).sum::<u64>() > 0);
    found.unwrap_or((|group| group.ticks, "late tick", 0))
}

fn cost(group: &LateGroup, facts: &Facts) -> u64 {
    weight(facts).0(group)
}

/// What all causes cost together.
fn all_costs(facts: &Facts) -> u64 {
    facts.late.iter().map(weight(facts).0).sum()
}

/// It lost time.
fn is_late(facts: &Facts) -> bool {
    facts.lost + facts.late_wakes + facts.overruns > 0
}

/// The usual tick alone takes longer than a period, or so long that most ticks that overran were no later than usual.
fn too_slow(facts: &Facts) -> Option<Usual> {
    let usual = facts.usual.filter(|_| is_late(facts) && facts.broken.is_none())?;
    let most_ns = usual.tick_ns + if are_explained(facts) { 0 } else { usual.threshold_ns };
    (most_ns > period_ns(facts)).then_some(usual)
}

fn period_ns(facts: &Facts) -> i64 {
    (1e9 / facts.target_hz).round() as i64
}

fn late_ticks_judged(facts: &Facts) -> u64 {
    facts.late.iter().map(|group| group.ticks).sum()
}

/// Late ticks can be behind what was lost: there are at least half as many.
fn are_explained(facts: &Facts) -> bool {
    2 * late_ticks_judged(facts) >= facts.overruns.max(facts.late_wakes)
}

/// What cost most, if late ticks account for half of what happened; of several as costly ones, what is no mere consequence of
/// another late tick.
fn leading(facts: &Facts) -> Option<&LateGroup> {
    let is_enough = 2 * all_costs(facts) >= weight(facts).2;
    let by = |group: &&LateGroup| {
        (cost(group, facts), group.cause != Cause::PreviousTick, group.lost_ns, group.ticks)
    };
    facts.late.iter().max_by_key(by).filter(|group| is_enough && cost(group, facts) > 0)
}

/// No cause cost more than half of it.
fn has_several_causes(facts: &Facts) -> bool {
    let led = leading(facts);
    too_slow(facts).is_none() && led.is_some_and(|group| 2 * cost(group, facts) <= all_costs(facts))
}

/// A cause that the machine explains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Explained {
    /// The control group's CPU quota.
    Quota,
    /// The limit of real-time threads.
    RtLimit,
    /// The process was stopped or frozen.
    Stopped,
}

/// What the machine is known to have done, where it accounts for at least half of what a cause took.
fn explained(facts: &Facts, group: &LateGroup) -> Option<Explained> {
    let Stops { throttled_ns, stopped_ns, rt_runtime_ns } = facts.stops;
    let is_most = |ns: i64| ns > 0 && 2 * ns >= group.lost_ns;
    let worst_ns = group.worst_ns.unwrap_or(0);
    match group.cause {
        Cause::Preempted | Cause::Blocked | Cause::Unaccounted if is_most(stopped_ns) => {
            Some(Explained::Stopped)
        }
        Cause::Preempted | Cause::Unaccounted if is_most(throttled_ns) => Some(Explained::Quota),
        // Nobody else keeps a real-time thread from its CPU for just as long as it is barred in each second.
        Cause::Preempted => {
            let barred_ns = 1_000_000_000 - rt_runtime_ns?;
            (worst_ns > barred_ns * 3 / 5 && worst_ns < barred_ns * 3 / 2).then_some(Explained::RtLimit)
        }
        _ => None,
    }
}

fn because(facts: &Facts, group: &LateGroup) -> &'static str {
    match explained(facts, group) {
        Some(Explained::Quota) => return "the CPU quota of its control group was used up",
        Some(Explained::RtLimit) => {
            return "the kernel limits real-time threads (`kernel.sched_rt_runtime_us`)";
        }
        Some(Explained::Stopped) => {
            return "the whole process was stopped (a signal, a debugger, a frozen control group)";
        }
        None => {}
    }
    match group.cause {
        Cause::PreviousTick => "the tick before overran",
        Cause::Preempted => "other threads had its CPU",
        Cause::Blocked => {
            "the thread was blocked (a lock such as Python's, a file, a sleep, or the process was stopped)"
        }
        Cause::PageFault => "of page faults",
        Cause::Unaccounted => "of time unaccounted for (hypervisor, SMI or interrupts off)",
        Cause::Controller => "the controller took too long",
        Cause::Bus => "replies took too long",
        Cause::Compute => "computing took too long",
    }
}

fn remedy(facts: &Facts) -> Option<String> {
    if let Some(broken) = &facts.broken {
        return if is_broken_by_late_replies(facts) { Some(BUDGET) } else { broken.remedy }
            .map(str::to_owned);
    }
    if let Some(usual) = too_slow(facts) {
        return Some(usual.remedy().into());
    }
    let is_late = is_late(facts) || facts.stopped.is_some() || late_starts(facts).is_some();
    let led = leading(facts).filter(|_| is_late);
    match led.and_then(|group| explained(facts, group)) {
        Some(Explained::Quota) => {
            return Some(
                "raise the quota (`cpu.max`, `CPUQuota=` of systemd, `--cpus` of a container)".into(),
            );
        }
        Some(Explained::RtLimit) => {
            return Some("let it sleep (`loop.wake`), or set `sysctl kernel.sched_rt_runtime_us=-1`".into());
        }
        Some(Explained::Stopped) => {
            return Some("keep whatever stops or freezes processes away from this one".into());
        }
        None => {}
    }
    let set_up = set_up(facts).map(|_| DOCTOR);
    match led.map(|group| group.cause) {
        Some(_) if set_up.is_some() => Some(DOCTOR.into()),
        Some(Cause::Controller) => Some(PARTS.into()),
        Some(Cause::Bus) => Some(BUDGET.into()),
        Some(Cause::Blocked) => Some("keep locks, files and sleeps out of the tick".into()),
        Some(_) => Some(DOCTOR.into()),
        None if is_late => Some(DOCTOR.into()),
        None => bus_remedy(facts).or_else(|| quality_remedy(facts)).or(set_up).map(str::to_owned),
    }
}

fn quality_remedy(facts: &Facts) -> Option<&'static str> {
    let held_up = (facts.missed_while_off_cpu + facts.missed_while_computing > 0).then(String::new);
    let duplicates = (facts.duplicates > 0).then(String::new);
    let remedies = [
        (held_up, DOCTOR),
        (late_starts(facts), DOCTOR),
        (sensor_off(facts), "set `loop.rate_hz` to the sensor's rate"),
        (
            changed(facts),
            "see the commands in the report, and correct the controller or the joints' `limits`",
        ),
        (not_done(facts), "lower `loop.rate_hz`, or make the controller faster"),
        (duplicates, SCAN),
    ];
    remedies.into_iter().find(|(found, _)| found.is_some()).map(|(_, remedy)| remedy)
}

fn were(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one} was") } else { format!("{} {many} were", grouped(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { target_hz: 1000.0, rate_hz: 1000.0, periods: 10_000, ..Facts::default() }
    }

    fn late(cause: Cause, ticks: u64) -> LateGroup {
        LateGroup {
            cause,
            ticks,
            lost_ns: 1_000_000 * ticks as i64,
            lost_periods: ticks,
            overruns: 0,
            late_wakes: 0,
            worst_ns: Some(3_200_000),
            worst_tick: Some(7),
        }
    }

    fn broken(after_s: Option<f64>, what: &str) -> Option<Broken> {
        Some(Broken { after_s, what: what.into(), remedy: Some("check power") })
    }

    #[test]
    fn commands_name_the_robot_file() {
        let with = |file| {
            judge(&Facts {
                missed_replies: 5,
                file,
                late: vec![late(Cause::Controller, 12)],
                lost: 12,
                ..facts()
            })
        };
        let verdict = with(RobotFile::At("my robots/it's.toml".into()));
        let file = r"'my robots/it'\''s.toml'";
        assert_eq!(verdict.remedy, Some(format!("`khz run {file} --budget` shows its time part by part")));
        assert!(verdict.text.ends_with(&format!("`khz bus scan {file}`.")), "{}", verdict.text);
        let built_in = with(RobotFile::BuiltIn);
        assert!(built_in.text.contains("`khz run --budget`"), "{}", built_in.text);
    }

    #[test]
    fn a_run_that_held_its_rate_is_good() {
        let verdict = judge(&facts());
        assert_eq!(
            (verdict.level, verdict.held, verdict.headline.as_str()),
            (Level::Good, true, "held 1000 Hz")
        );
        assert_eq!(verdict.text, "Held 1000 Hz.");
        assert!(verdict.reasons.is_empty() && verdict.cause.is_none() && verdict.remedy.is_none());
    }

    #[test]
    fn virtual_time_holds_no_rate_of_this_computer() {
        let verdict = judge(&Facts { virtual_time: true, granted: Some(Grade::Ordinary), ..facts() });
        assert_eq!(verdict.text, "Held 1000 Hz of virtual time.");
    }

    #[test]
    fn a_run_that_lost_a_period_gets_no_good_badge() {
        let lost = |lost| judge(&Facts { lost, rate_hz: 998.8, ..facts() });
        assert_eq!(lost(12).headline, "did not hold 1000 Hz: lost 12 of 10,000 periods");
        assert_eq!(lost(12).reasons, ["12 periods of 10,000 passed without a tick."]);
        assert_eq!([1, 99, 100].map(|n| lost(n).level), [Level::Warning, Level::Warning, Level::Bad]);
        assert!(!lost(1).held);
    }

    #[test]
    fn the_sentence_names_the_cause_of_most_late_ticks_and_what_to_do() {
        let said = |cause| {
            judge(&Facts { lost: 12, late: vec![late(cause, 9), late(Cause::Bus, 5)], ..facts() }).text
        };
        let lost = "Did not hold 1000 Hz: lost 12 of 10,000 periods (0.12 %), mostly because";
        let worst = "(9 of 14 lost periods, worst 3.2 ms);";
        for (cause, because, remedy) in [
            (Cause::Preempted, "other threads had its CPU", "run `khz doctor`."),
            (
                Cause::Unaccounted,
                "of time unaccounted for (hypervisor, SMI or interrupts off)",
                "run `khz doctor`.",
            ),
            (Cause::PageFault, "of page faults", "run `khz doctor`."),
            (
                Cause::Blocked,
                "the thread was blocked (a lock such as Python's, a file, a sleep, or the process was stopped)",
                "keep locks, files and sleeps out of the tick.",
            ),
            (
                Cause::Controller,
                "the controller took too long",
                "`khz run FILE --budget` shows its time part by part.",
            ),
            (Cause::Compute, "computing took too long", "run `khz doctor`."),
        ] {
            assert_eq!(said(cause), format!("{lost} {because} {worst} {remedy}"));
        }
        let bus = judge(&Facts { lost: 12, late: vec![late(Cause::Bus, 12)], ..facts() }).text;
        let because = "replies took too long (12 of 12 lost periods, worst 3.2 ms); `khz budget FILE` shows what the buses need.";
        assert_eq!(bus, format!("{lost} {because}"));
    }

    #[test]
    fn a_controller_that_is_always_too_slow_is_not_blamed_on_the_computer() {
        let usual = |control| Usual::of(&[(Cause::Controller, control), (Cause::Bus, 200_000)], 500_000);
        let slow = Facts {
            target_hz: 200.0,
            periods: 494,
            lost: 247,
            overruns: 246,
            late: vec![late(Cause::Unaccounted, 7)],
            usual: usual(6_000_000),
            granted: Some(Grade::Ordinary),
            ..facts()
        };
        let said = "Did not hold 200 Hz: lost 247 of 494 periods (50.00 %), mostly because the controller usually takes 6 ms of \
                    a period of 5 ms; `khz run FILE --budget` shows its time part by part.";
        assert_eq!(judge(&slow).text, said);
        // Not beyond the period by itself.
        let verdict = judge(&Facts { usual: usual(4_700_000), ..slow.clone() });
        let said = "a tick usually takes 4.9 ms of a period of 5 ms, most of it the controller (4.7 ms)";
        assert_eq!(verdict.cause.as_deref(), Some(said));
        // Nor with what is needed for a late tick: then nothing explains it.
        assert_eq!(judge(&Facts { usual: usual(1_000_000), ..slow }).cause, None);
    }

    #[test]
    fn a_long_pause_is_not_blamed_on_short_preemptions() {
        let pause = LateGroup { lost_periods: 139, worst_ns: Some(702_000_000), ..late(Cause::Blocked, 1) };
        let late = vec![pause, LateGroup { lost_periods: 0, ..late(Cause::Preempted, 26) }];
        let verdict = judge(&Facts { periods: 594, lost: 139, late, ..facts() });
        let said = "Did not hold 1000 Hz: lost 139 of 594 periods (23.40 %), mostly because the thread was blocked (a lock such \
                    as Python's, a file, a sleep, or the process was stopped) (139 of 139 lost periods, worst 702 ms); keep locks, \
                    files and sleeps out of the tick.";
        assert_eq!(verdict.text, said);
    }

    #[test]
    fn no_cause_of_less_than_half_the_time_is_called_most_of_it() {
        let late = vec![late(Cause::Preempted, 4), late(Cause::PageFault, 3), late(Cause::Bus, 2)];
        let verdict = judge(&Facts { lost: 12, late, ..facts() });
        let said = "Did not hold 1000 Hz: lost 12 of 10,000 periods (0.12 %), for several reasons, most of all because other \
                    threads had its CPU (4 of 9 lost periods, worst 3.2 ms); run `khz doctor`.";
        assert_eq!(verdict.text, said);
        assert_eq!(
            verdict.cause.as_deref(),
            Some("other threads had its CPU (4 of 9 lost periods, worst 3.2 ms)")
        );
    }

    #[test]
    fn a_lost_period_does_not_hide_missed_replies() {
        let servo = Some(("knee".to_owned(), 929));
        let lost = Facts { lost: 49, late: vec![late(Cause::Preempted, 49)], ..facts() };
        let verdict =
            judge(&Facts { missed_replies: 929, worst_servo: servo, duplicates: 2, ..lost.clone() });
        let did_not = "Did not hold 1000 Hz: lost 49 of 10,000 periods (0.49 %), mostly because other threads had its CPU (49 of 49 \
                       lost periods, worst 3.2 ms); run `khz doctor`.";
        let besides = "Besides, 929 replies were missed by knee (and 1 more problem); check power, wiring and ids with `khz bus scan FILE`.";
        assert_eq!(verdict.text, format!("{did_not} {besides}"));
        let verdict = judge(&Facts { imu_missed: 7, ..lost });
        assert_eq!(verdict.text, format!("{did_not} Besides, 7 IMU readings were missed."));
    }

    #[test]
    fn what_follows_from_a_late_tick_is_no_cause_of_its_own() {
        let overran = |overruns, group| LateGroup { lost_periods: 0, overruns, ..group };
        let late = vec![overran(0, late(Cause::PreviousTick, 20)), overran(3, late(Cause::Preempted, 3))];
        let verdict = judge(&Facts { overruns: 3, late, ..facts() });
        assert_eq!(
            verdict.cause.as_deref(),
            Some("other threads had its CPU (3 of 3 overruns, worst 3.2 ms)")
        );
        assert_eq!(
            verdict.text,
            "Held 1000 Hz, but 3 ticks overran, mostly because other threads had its CPU (3 of 3 overruns, worst 3.2 ms); \
             run `khz doctor`."
        );
    }

    #[test]
    fn a_run_that_came_down_says_so_first() {
        let knee = "10 replies missed in a row (knee on bus front)";
        let verdict = judge(&Facts { broken: broken(Some(3.2), knee), ..facts() });
        assert_eq!((verdict.level, verdict.held), (Level::Bad, false));
        assert_eq!(verdict.headline, "came down after 3.2 s");
        let said = "Came down after 3.2 s: 10 replies missed in a row (knee on bus front); it held 1000 Hz until then; check power.";
        assert_eq!(verdict.text, said);
    }

    #[test]
    fn a_run_that_was_never_under_control_says_why() {
        let verdict =
            judge(&Facts { periods: 0, broken: broken(None, "never under control: no reply"), ..facts() });
        assert_eq!((verdict.level, verdict.headline.as_str()), (Level::Bad, "never under control"));
        assert_eq!(verdict.text, "Never under control: no reply; check power.");
    }

    #[test]
    fn a_thread_that_was_not_granted_real_time_is_said_and_costs_no_level() {
        let verdict = judge(&Facts { granted: Some(Grade::Ordinary), ..facts() });
        assert_eq!((verdict.level, verdict.held), (Level::Good, true));
        assert_eq!(verdict.text, "Held 1000 Hz without real-time scheduling; run `khz doctor`.");
        let overran = judge(&Facts { granted: Some(Grade::Ordinary), overruns: 1, imu_missed: 1, ..facts() });
        let said = "Held 1000 Hz without real-time scheduling, but 1 tick overran (and 1 more problem); run `khz doctor`.";
        assert_eq!(overran.text, said);
    }

    #[test]
    fn missed_replies_name_the_servo_and_those_outside_control_stand_apart() {
        let servo = Some(("knee".to_owned(), 4));
        let verdict = judge(&Facts { missed_replies: 5, worst_servo: servo, ..facts() });
        assert_eq!(
            (verdict.level, verdict.headline.as_str()),
            (Level::Bad, "held 1000 Hz, missed 5 replies")
        );
        let said = "Held 1000 Hz, but 5 replies were missed (most often by knee: 4); check power, wiring and ids with `khz bus scan FILE`.";
        assert_eq!(verdict.text, said);
        let verdict =
            judge(&Facts { outside: Outside { missed_replies: 5, ..Outside::default() }, ..facts() });
        assert_eq!(verdict.level, Level::Warning);
        assert_eq!(verdict.reasons, ["5 replies were missed during start-up or while coming down."]);
    }

    #[test]
    fn bunched_pace_frames_are_no_faster_sensor() {
        let of = |early_frames, without_frame| {
            let paced = Facts { sensor_paced: true, periods: 1_000, early_frames, without_frame, ..facts() };
            judge(&paced).reasons.concat()
        };
        assert!(of(300, 0).contains("set `loop.rate_hz` to the sensor's rate"));
        for (early, without) in [(300, 300), (310, 300), (5, 0)] {
            let said = of(early, without);
            assert!(said.contains("bunched") && !said.contains("rate_hz"), "{said}");
        }
    }

    #[test]
    fn whatever_cost_a_period_shows() {
        let outside = Outside { lost: 1, late_wakes: 1, overruns: 1, missed_replies: 1 };
        for bad in [
            Facts { lost: 1, ..facts() },
            Facts { outside, ..facts() },
            Facts { late_wakes: 1, ..facts() },
            Facts { overruns: 1, ..facts() },
            Facts { missed_replies: 1, ..facts() },
            Facts { missed_replies: 1, missed_while_off_cpu: 1, ..facts() },
            Facts { missed_replies: 1, missed_while_computing: 1, ..facts() },
            Facts { without_frame: 1, ..facts() },
            Facts { early_frames: 1, ..facts() },
            Facts { sensor_paced: true, rate_hz: 940.0, ..facts() },
            Facts { late_replies: 94, ..facts() },
            Facts { duplicates: 94, ..facts() },
            Facts { unexpected_frames: 1, ..facts() },
            Facts { imu_missed: 950, ..facts() },
            Facts { periods: 0, ..facts() },
            Facts { stopped: Some((1, 2_000)), periods: 1, ..facts() },
            Facts { broken: broken(Some(1.0), "it fell"), ..facts() },
            Facts { warnings: vec!["It was hot.".into()], ..facts() },
        ] {
            let verdict = judge(&bad);
            assert!(verdict.level > Level::Note && verdict.reasons.len() == 1, "{bad:?}: {verdict:?}");
        }
    }

    #[test]
    fn duplicates_and_missed_imu_readings_get_no_good_badge() {
        let verdict = judge(&Facts { duplicates: 94, imu_missed: 950, ..facts() });
        assert_eq!(verdict.level, Level::Warning);
        assert!(
            verdict.text.ends_with("; check power, wiring and ids with `khz bus scan FILE`."),
            "{}",
            verdict.text
        );
        assert_eq!(
            verdict.reasons,
            ["94 replies were duplicates: two servos may have the same id.", "950 IMU readings were missed."]
        );
    }

    #[test]
    fn a_sensor_with_a_clock_of_its_own_is_no_lost_rate() {
        let paced = Facts { sensor_paced: true, rate_hz: 1010.0, ..facts() };
        assert_eq!(judge(&paced).level, Level::Good);
    }

    #[test]
    fn a_cycle_that_never_fits_is_not_blamed_on_the_wiring() {
        let slow = Facts {
            missed_replies: 3_988,
            late_replies: 3_990,
            cycle_ns: Some((922_000, 780_000)),
            worst_servo: Some(("knee".into(), 997)),
            ..facts()
        };
        let verdict = judge(&slow);
        assert_eq!(verdict.headline, "held 1000 Hz, 3,988 replies late");
        let said = "Held 1000 Hz, but 3,988 replies were late: the bus cycle needs \
                    922 µs, its deadline leaves 780 µs; `khz budget FILE` shows what the buses need.";
        assert_eq!((verdict.text.as_str(), verdict.reasons.len()), (said, 1));
        // Some came late, and most never.
        let lost = judge(&Facts { late_replies: 300, ..slow });
        assert!(
            lost.headline.ends_with("missed 3,988 replies") && lost.text.ends_with("`khz bus scan FILE`."),
            "{lost:?}"
        );
    }

    #[test]
    fn a_robot_that_came_down_for_late_replies_is_not_blamed_on_the_wiring() {
        let down = |late_replies| {
            let broken =
                Broken { after_s: Some(0.03), what: "24 replies missed in a row".into(), remedy: Some(SCAN) };
            let cycle_ns = Some((922_000, 780_000));
            judge(&Facts { missed_replies: 48, late_replies, cycle_ns, broken: Some(broken), ..facts() }).text
        };
        let said = "Came down after 30 ms: 24 replies missed in a row; 48 replies were late: the bus cycle needs 922 µs, its deadline \
                    leaves 780 µs; it held 1000 Hz until then; `khz budget FILE` shows what the buses need.";
        assert_eq!(down(48), said);
        assert!(down(3).ends_with("`khz bus scan FILE`."), "{}", down(3));
    }

    #[test]
    fn replies_that_computing_left_no_time_for_are_not_blamed_on_the_bus() {
        let computed = Facts { missed_replies: 24, missed_while_computing: 24, late_replies: 24, ..facts() };
        let verdict = judge(&computed);
        let said =
            "Held 1000 Hz, but 24 replies were missed because computing took too long; run `khz doctor`.";
        assert_eq!((verdict.level, verdict.text.as_str()), (Level::Warning, said));
        // Nor do they hide those that it does not explain.
        let verdict = judge(&Facts { missed_replies: 25, ..computed });
        assert_eq!((verdict.level, verdict.headline.as_str()), (Level::Bad, "held 1000 Hz, missed 1 reply"));
    }

    #[test]
    fn a_bus_that_needs_twice_its_time_is_not_blamed_on_the_wiring() {
        let never = |cycle_ns, late_replies| {
            let what = "no reply during start-up (s1 on bus main)".into();
            let broken = Some(Broken { after_s: None, what, remedy: Some(SCAN) });
            let outside = Outside { missed_replies: 3_024, ..Outside::default() };
            judge(&Facts {
                periods: 0,
                outside,
                late_replies,
                cycle_ns: Some((cycle_ns, 780_000)),
                broken,
                ..facts()
            })
            .text
        };
        let said = "No reply during start-up (s1 on bus main); 144 replies were late: the bus cycle needs 2.8 ms, its deadline \
                    leaves 780 µs; `khz budget FILE` shows what the buses need.";
        assert_eq!(never(2_800_000, 144), said);
        // Nothing comes at all where nothing can.
        assert!(never(2_800_000, 0).ends_with("`khz budget FILE` shows what the buses need."));
        // The bus hardly lacks time.
        assert!(never(922_000, 144).ends_with("`khz bus scan FILE`."), "{}", never(922_000, 144));
    }

    #[test]
    fn a_run_that_lost_nothing_is_not_good_whatever_else_was_wrong() {
        let slow = Facts { target_hz: 20.0, rate_hz: 20.0, periods: 200, ..facts() };
        for (facts, said) in [
            (
                Facts { wake_ns: Some((16_000_000, 5_000_000)), ..slow },
                "Held 20 Hz, but 1 % of the ticks started 16 ms late or more, of a period of 50 ms; run `khz doctor`.",
            ),
            (
                Facts { changed: Some((7_988, 7_988)), ..facts() },
                "Held 1000 Hz, but 7,988 of 7,988 commands were changed to keep the joints within their limits; see the commands \
                 in the report, and correct the controller or the joints' `limits`.",
            ),
            (
                Facts { sensor_paced: true, rate_hz: 951.0, ..facts() },
                "Held its sensor's rate of 951.0 Hz, but the sensor paces the loop at 951.0 Hz, not 1000 Hz; set `loop.rate_hz` \
                 to the sensor's rate.",
            ),
            (
                Facts { not_done: Some((31, 94, 150_000_000)), ..facts() },
                "Held 1000 Hz, but the controller was not done in 31 of 94 ticks: commands were up to 150 ms old; lower \
                 `loop.rate_hz`, or make the controller faster.",
            ),
        ] {
            let verdict = judge(&facts);
            assert_eq!((verdict.level, verdict.text.as_str()), (Level::Warning, said));
        }
        let good = Facts { wake_ns: Some((90_000, 100_000)), changed: Some((5, 7_988)), ..facts() };
        assert_eq!(judge(&good).level, Level::Good);
    }

    #[test]
    fn what_the_machine_did_to_the_whole_process_is_named_with_its_cure() {
        let lost = |cause, stops| {
            let group = LateGroup { lost_ns: 400_000_000, worst_ns: Some(50_000_000), ..late(cause, 9) };
            judge(&Facts { lost: 9, late: vec![group], stops, ..facts() })
        };
        let quota = lost(Cause::Preempted, Stops { throttled_ns: 390_000_000, ..Stops::default() });
        assert!(
            quota.text.contains("CPU quota") && quota.remedy.is_some_and(|cure| cure.contains("cpu.max"))
        );
        let frozen = lost(Cause::Unaccounted, Stops { stopped_ns: 390_000_000, ..Stops::default() });
        assert!(frozen.text.contains("the whole process was stopped"), "{}", frozen.text);
        let limited = lost(Cause::Preempted, Stops { rt_runtime_ns: Some(950_000_000), ..Stops::default() });
        assert!(limited.remedy.is_some_and(|cure| cure.contains("sched_rt_runtime_us")));
        let other = lost(Cause::Preempted, Stops { throttled_ns: 90_000_000, ..Stops::default() });
        assert!(other.text.contains("other threads had its CPU"), "{}", other.text);
    }
}
