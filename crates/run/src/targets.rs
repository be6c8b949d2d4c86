//! How the targets of slow programs fared, of a robot that follows them: as it runs, or from its log.
//!
//! [`Mail`] counts messages, [`Course`] ticks, both by what the log has of them (the records `targets` and `stage`), and [`Fared`] are the figures of
//! summary, page, `--require` and verdict. A program owes the next point before the newest one is passed; one that no longer has the robot, has
//! released it or has announced a silence owes nothing, and neither does one when the run ends.

use crate::record::{Following, Stage, Targets};
use khz_page::{counted, duration, grouped};
use khz_rt::{Histogram, Summary};
use serde::Serialize;
use std::collections::BTreeMap;

/// More names are not kept.
const MOST_PROGRAMS: usize = 64;
/// From this share of the ticks at the limit of acceleration on, targets ask for more of it than the robot file grants.
const LIMITED_SHARE: f64 = 0.1;
/// Fewer ticks are no share: a move that begins and ends is at the limit for much of its time.
const LIMITED_TICKS: u64 = 5000;

/// A figure of targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count; all but the messages taken are better small.
    Count(u64),
    /// A time, one value a message.
    Time(Summary),
    /// rad.
    Angle(f64),
}

/// A figure of targets.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its key in JSON, in the object `targets`.
    pub key: &'static str,
    /// What people read.
    pub label: &'static str,
    /// Its definition.
    pub definition: &'static str,
    /// Its name in `--require`: no more than a limit. Of a time without the percentile.
    pub required: Option<&'static str>,
    /// Its value.
    pub within: fn(&Fared) -> Value,
}

macro_rules! figures {
    ($(
        $(#[doc = $line:literal])+
        $key:ident: $label:literal, $kind:ident($of:ty) $(, required $required:literal)?;
    )+) => {
        /// The account of it.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Fared {
            $($(#[doc = $line])+ pub $key: $of,)+
            /// Messages refused, by the reason.
            pub refused_by: BTreeMap<String, u64>,
            /// Who sent what was taken.
            pub programs: Vec<String>,
            /// Of a robot whose arm follows another: the joints that lead, as far as they are known here.
            #[serde(skip)]
            pub leaders: Vec<String>,
            /// Of the same: ticks in which nothing was followed yet, because the arms were further apart than `align_rad`.
            #[serde(skip)]
            pub apart: u64,
        }

        /// Every figure of targets.
        pub const FIGURES: &[Figure] = &[$(Figure {
            key: stringify!($key),
            label: $label,
            definition: concat!($($line),+),
            required: figures!(@required $($required)?),
            within: |fared| Value::$kind(fared.$key),
        }),+];
    };
    (@required) => { None };
    (@required $name:literal) => { Some($name) };
}

figures! {
    /// records `targets` without `refused`
    taken: "targets taken", Count(u64);
    /// records `targets` with `refused`; beside it `refused_by` has them by the reason
    refused: "targets refused", Count(u64), required "targets.refused";
    /// sum of `clamped`: numbers that were beyond a limit, and were cut to it
    clamped: "numbers cut", Count(u64), required "targets.clamped";
    /// differences of `first_ns` of successive records `targets` of one program that were taken and have one point
    cadence_ns: "target cadence", Time(Summary);
    /// `overdue_ns` of the records `targets` that were taken: how long a target came after its time, or any message after the newest point before it
    /// had passed, if that is longer and it was owed
    lateness_ns: "target lateness", Time(Summary), required "targets.late";
    /// ticks with `stage` = `held_over`, without `meant`, until the next targets came or the robot fell silent: what was released, or when the
    /// run ended, is not counted
    held_over: "ticks held over", Count(u64), required "targets.held_over";
    /// the most of them in a row
    held_over_in_a_row: "held over in a row", Count(u64), required "targets.held_over_in_a_row";
    /// how often `stage` became `waiting`, counted as the ticks held over are
    waits: "waits for targets", Count(u64), required "targets.waits";
    /// how often `stage` became `silent`
    silences: "silences", Count(u64), required "targets.silences";
    /// sum of `anew`: curves of joints that were replaced by others, and the difference became an offset
    anchored: "curves replaced", Count(u64);
    /// the largest `offset`
    largest_offset_rad: "largest offset", Angle(f64);
    /// ticks with `stage`, other than `idle`; and, where an arm follows another, other than those before it does (`waiting`, `meant`, `age_us` = 0)
    followed: "ticks followed", Count(u64);
    /// of these, ticks in which a joint was at its limit of acceleration (`limited`)
    limited: "ticks at the acceleration", Count(u64);
}

/// Messages of programs, counted.
#[derive(Clone)]
pub struct Mail {
    fared: Fared,
    lateness: Histogram,
    cadence: Histogram,
    /// The time of the newest single target of each program.
    times: BTreeMap<String, i64>,
}

impl Default for Mail {
    /// None. Allocates.
    fn default() -> Self {
        let (lateness, cadence) = (Histogram::new(), Histogram::new());
        Self { fared: Fared::default(), lateness, cadence, times: BTreeMap::new() }
    }
}

impl Mail {
    /// A message arrived. Allocates.
    pub fn message(&mut self, message: &Targets<'_>) {
        let Self { fared, lateness, cadence, times } = self;
        fared.clamped += u64::from(message.clamped);
        if !message.refused.is_empty() {
            fared.refused += 1;
            *fared.refused_by.entry(message.refused.to_string()).or_default() += 1;
            return;
        }
        fared.taken += 1;
        lateness.record(message.overdue_ns, message.first_ns);
        let is_known = fared.programs.iter().any(|name| *name == message.by);
        if !is_known && fared.programs.len() < MOST_PROGRAMS {
            fared.programs.push(message.by.to_string());
        }
        if message.points == 1 && (is_known || times.len() < MOST_PROGRAMS) {
            let before_ns = times.insert(message.by.to_string(), message.first_ns);
            before_ns.into_iter().for_each(|ns| cadence.record(message.first_ns - ns, message.first_ns));
        }
    }

    /// Both accounts together.
    pub fn fared(&self, course: &Course) -> Fared {
        Fared {
            cadence_ns: self.cadence.summary(),
            lateness_ns: self.lateness.summary(),
            held_over: course.held_over,
            held_over_in_a_row: course.held_over_in_a_row,
            waits: course.waits,
            silences: course.silences,
            anchored: course.anchored,
            largest_offset_rad: course.largest_offset.into(),
            followed: course.followed,
            limited: course.limited,
            apart: course.apart,
            ..self.fared.clone()
        }
    }
}

/// Ticks of a robot that follows targets, counted. Allocates nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Course {
    /// See [`Fared::held_over`].
    pub held_over: u64,
    /// See [`Fared::held_over_in_a_row`].
    pub held_over_in_a_row: u64,
    /// See [`Fared::waits`].
    pub waits: u64,
    /// See [`Fared::silences`].
    pub silences: u64,
    /// See [`Fared::anchored`].
    pub anchored: u64,
    /// See [`Fared::largest_offset_rad`].
    pub largest_offset: f32,
    /// See [`Fared::followed`].
    pub followed: u64,
    /// See [`Fared::limited`].
    pub limited: u64,
    /// See [`Fared::apart`].
    pub apart: u64,
    /// Since the newest point passed: ticks held over, and whether it came to stand. Whether more was owed is not known yet.
    open: (u64, bool),
    last: Following,
}

impl Course {
    /// A tick.
    pub fn tick(&mut self, now: &Following) {
        if now.meant || now.stage == Stage::Idle {
            self.open = (0, false);
        } else if now.age_us < self.last.age_us || now.stage == Stage::Silent {
            // Points grow older by the tick, but for new ones.
            self.settle();
        }
        match now.stage {
            _ if now.meant => {}
            Stage::HeldOver => self.open.0 += 1,
            Stage::Waiting => self.open.1 = true,
            Stage::Silent => self.silences += u64::from(self.last.stage != Stage::Silent),
            Stage::Idle | Stage::OnTime => {}
        }
        self.anchored += u64::from(now.anew);
        self.largest_offset = self.largest_offset.max(now.offset);
        // A program that is waited for has sent a point, which grows older.
        let is_apart = now.stage == Stage::Waiting && now.meant && now.age_us == 0;
        let is_followed = now.stage != Stage::Idle && !is_apart;
        self.apart += u64::from(is_apart);
        self.followed += u64::from(is_followed);
        self.limited += u64::from(is_followed && now.limited > 0);
        self.last = *now;
    }

    fn settle(&mut self) {
        let (held_over, has_waited) = std::mem::take(&mut self.open);
        self.held_over += held_over;
        self.held_over_in_a_row = self.held_over_in_a_row.max(held_over);
        self.waits += u64::from(has_waited);
    }
}

impl Fared {
    /// One sentence, if nothing was followed, anything was late, refused or cut, or the targets ask for more than the joints can.
    pub fn sentence(&self) -> Option<String> {
        // While a robot is not under control nothing is owed: a program that sends to the end has done nothing wrong.
        let refused_by = self.refused_by.iter().filter(|(why, _)| *why != "not_active");
        let of_refused: u64 = refused_by.clone().map(|(_, count)| count).sum();
        let refused = (of_refused > 0).then(|| {
            let why: Vec<String> =
                refused_by.map(|(why, count)| format!("{} {why}", grouped(*count))).collect();
            format!("{} refused ({})", were(of_refused, "message"), why.join(", "))
        });
        let cut = (self.clamped > 0).then(|| format!("{} cut to the limits", were(self.clamped, "number")));
        let parts = [self.never(), self.late(), self.silent(), refused, cut, self.too_quick()];
        let all: Vec<String> = parts.into_iter().flatten().collect();
        (!all.is_empty()).then(|| format!("Targets{}: {}.", self.whose(), all.join("; ")))
    }

    fn whose(&self) -> String {
        let (names, other) = match self.programs.is_empty() {
            true => (&self.leaders, "other leader"),
            false => (&self.programs, "other program"),
        };
        // A log may have any name: none begins a line of its own.
        let one_line = |name: &str| name.replace(char::is_control, " ");
        match &names[..] {
            [] => String::new(),
            [one] => format!(" of {}", one_line(one)),
            [first, others @ ..] => {
                format!(" of {} and {}", one_line(first), counted(others.len() as u64, other))
            }
        }
    }

    fn never(&self) -> Option<String> {
        let message = "nothing was followed: the arms were further apart than `align_rad`; bring them together first, or leave it out";
        (self.followed == 0 && self.apart > 0).then(|| message.to_owned())
    }

    fn late(&self) -> Option<String> {
        if self.held_over == 0 && self.waits == 0 {
            return None;
        }
        let late = match self.lateness_ns.max {
            ..=0 => String::new(),
            longest_ns => format!("up to {} late, ", duration(longest_ns as f64)),
        };
        let waited = match self.waits {
            0 => String::new(),
            waits => format!(" and stood still for want of them {}", counted(waits, "time")),
        };
        Some(format!("{late}the robot was carried over for {}{waited}", counted(self.held_over, "tick")))
    }

    fn silent(&self) -> Option<String> {
        (self.silences > 0).then(|| format!("none came for `silent_s` {}", counted(self.silences, "time")))
    }

    fn too_quick(&self) -> Option<String> {
        let share = self.limited as f64 / self.followed.max(1) as f64;
        let is_much = self.followed >= LIMITED_TICKS && share > LIMITED_SHARE;
        // A joint that catches up with what came late does so at its limit.
        let why = match self.held_over + self.waits {
            0 => ": more of it, or slower targets",
            _ => ", in part to catch up with what came late; first see that none comes late",
        };
        let message =
            || format!("in {:.0} % of the ticks a joint was at `limits.acceleration`{why}", 100.0 * share);
        is_much.then(message)
    }
}

fn were(count: u64, what: &str) -> String {
    format!("{} {}", counted(count, what), if count == 1 { "was" } else { "were" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// What happened, ms by ms: points are known until so long from now, or nothing comes for so long.
    enum Happens {
        /// A message so late, whose last point is so far ahead; then ticks until that.
        Comes { late_ms: i64, ahead_ms: i64 },
        /// So many ticks without one, of which meant are …
        Nothing { ms: i64, meant: bool },
        /// It is released: ticks until it stands.
        Released,
        /// Others of it.
        Received(Targets<'static>),
    }
    use Happens::{Comes, Nothing, Received, Released};

    fn by_policy() -> Targets<'static> {
        Targets { by: "policy".into(), points: 2, ..Targets::default() }
    }

    /// As the loop has them: 80 ms of hold-over, a second until it is silent.
    fn fared(happens: &[Happens]) -> Fared {
        let (mut mail, mut course, mut age_ms) = (Mail::default(), Course::default(), 0);
        let mut ticks = |from_ms: &mut i64, ms: i64, meant: bool, is_expected: bool| {
            for _ in 0..ms {
                *from_ms += 1;
                let stage = match *from_ms {
                    ..=0 => Stage::OnTime,
                    1..=80 => Stage::HeldOver,
                    _ if !is_expected => Stage::Idle,
                    81..=1000 => Stage::Waiting,
                    _ if meant => Stage::Waiting,
                    _ => Stage::Silent,
                };
                let age_us = if stage == Stage::Idle { 0 } else { *from_ms * 1000 };
                course.tick(&Following { stage, age_us, meant, ..Following::default() });
            }
        };
        for one in happens {
            match one {
                Comes { late_ms, ahead_ms } => {
                    mail.message(&Targets { overdue_ns: late_ms * MS, ..by_policy() });
                    age_ms = -ahead_ms;
                    ticks(&mut age_ms, *ahead_ms, false, true);
                }
                Nothing { ms, meant } => ticks(&mut age_ms, *ms, *meant, true),
                Released => ticks(&mut age_ms, 500, false, false),
                Received(message) => mail.message(message),
            }
        }
        mail.fared(&course)
    }

    const FIRST: Happens = Comes { late_ms: 0, ahead_ms: 40 };

    /// What happened, and the sentence about it.
    #[test]
    fn what_is_reported_is_what_happened() {
        let nothing = |ms| Nothing { ms, meant: false };
        let after = |late_ms| Comes { late_ms, ahead_ms: 40 };
        let refused = || Received(Targets { refused: "held".into(), by: "other".into(), ..by_policy() });
        let cut = || Received(Targets { clamped: 2, ..by_policy() });
        let cases: [(&str, Vec<Happens>, &str); 15] = [
            ("nobody has sent", vec![], ""),
            ("all in time", vec![FIRST, FIRST, FIRST], ""),
            ("one, then the end of the run", vec![FIRST, nothing(900)], ""),
            ("one, then released", vec![FIRST, Released], ""),
            ("held over, then released", vec![FIRST, nothing(30), Released], ""),
            ("it stood, then released, then another", vec![FIRST, nothing(300), Released, FIRST], ""),
            ("silent, and means it", vec![FIRST, Nothing { ms: 30_000, meant: true }], ""),
            (
                "silent, means it, and comes again",
                vec![FIRST, Nothing { ms: 30_000, meant: true }, FIRST],
                "",
            ),
            (
                "late once",
                vec![FIRST, nothing(57), after(57)],
                "Targets of policy: up to 57 ms late, the robot was carried over for 57 ticks.",
            ),
            (
                "late, then the end of the run in the next gap",
                vec![FIRST, nothing(57), after(57), nothing(70)],
                "Targets of policy: up to 57 ms late, the robot was carried over for 57 ticks.",
            ),
            (
                "so late that it stood",
                vec![FIRST, nothing(211), after(211)],
                "Targets of policy: up to 211 ms late, the robot was carried over for 80 ticks and stood still for want of them 1 time.",
            ),
            (
                "one, and never more",
                vec![FIRST, nothing(3920)],
                "Targets of policy: the robot was carried over for 80 ticks and stood still for want of them 1 time; none came for \
                 `silent_s` 1 time.",
            ),
            (
                "silent, and comes again",
                vec![FIRST, nothing(3920), after(3920)],
                "Targets of policy: up to 3.92 s late, the robot was carried over for 80 ticks and stood still for want of them 1 time; \
                 none came for `silent_s` 1 time.",
            ),
            (
                "another one is refused, and numbers are cut",
                vec![FIRST, refused(), cut()],
                "Targets of policy: 1 message was refused (1 held); 2 numbers were cut to the limits.",
            ),
            (
                "one comes while the robot comes down",
                vec![FIRST, Received(Targets { refused: "not_active".into(), ..by_policy() })],
                "",
            ),
        ];
        for (what, happens, sentence) in cases {
            assert_eq!(fared(&happens).sentence().unwrap_or_default(), sentence, "{what}");
        }
    }

    #[test]
    fn targets_that_ask_for_more_than_the_limit_are_reported() {
        let ticks = |limited: u64, of: u64| {
            let mut course = Course::default();
            for tick in 0..of {
                let limited = u16::from(tick < limited);
                course.tick(&Following { stage: Stage::OnTime, limited, ..Following::default() });
            }
            Mail::default().fared(&course).sentence()
        };
        assert_eq!([ticks(1000, 10_000), ticks(900, 1000)], [None, None]);
        let message = ticks(2300, 10_000).unwrap_or_default();
        assert_eq!(
            message,
            "Targets: in 23 % of the ticks a joint was at `limits.acceleration`: more of it, or slower targets."
        );
    }

    #[test]
    fn a_late_target_is_blamed_before_the_limit_that_a_joint_catches_up_at() {
        let fared = Fared { held_over: 3, followed: 10_000, limited: 2300, ..Fared::default() };
        let message = fared.sentence().unwrap_or_default();
        assert!(
            message.contains("carried over for 3 ticks; in 23 % of the ticks a joint was at"),
            "{message}"
        );
        assert!(message.ends_with("first see that none comes late."), "{message}");
    }

    #[test]
    fn an_arm_that_was_never_near_its_leader_has_followed_nothing() {
        let summed = |apart: u64, ticks: &[Following]| {
            let mut course = Course::default();
            let waits = Following { stage: Stage::Waiting, meant: true, ..Following::default() };
            (0..apart).for_each(|_| course.tick(&waits));
            ticks.iter().for_each(|tick| course.tick(tick));
            let leaders = vec!["hand".to_owned(), "wrist".to_owned()];
            let fared = Fared { leaders, ..Mail::default().fared(&course) };
            (fared.followed, fared.sentence().unwrap_or_default())
        };
        let (followed, message) = summed(7994, &[]);
        assert_eq!(followed, 0);
        assert!(
            message.starts_with("Targets of hand and 1 other leader: nothing was followed: "),
            "{message}"
        );
        let follows = Following { stage: Stage::OnTime, ..Following::default() };
        assert_eq!(summed(500, &[follows]), (1, String::new()));
        // A program that is silent and means it has been followed.
        assert_eq!(
            summed(0, &[Following { stage: Stage::Waiting, meant: true, age_us: 90_000, ..follows }]).0,
            1
        );
        let late = Following { stage: Stage::HeldOver, age_us: 1000, ..follows };
        assert!(
            summed(0, &[late, follows])
                .1
                .contains("Targets of hand and 1 other leader: the robot was carried")
        );
    }

    #[test]
    fn the_cadence_is_that_of_single_targets_of_one_program() {
        let mut mail = Mail::default();
        for number in 0..10 {
            let one = |by: &'static str, first_ns| Targets {
                by: by.into(),
                points: 1,
                first_ns,
                ..Targets::default()
            };
            mail.message(&one("policy", number * 33 * MS));
            mail.message(&one("view", number * 33 * MS + 7));
            mail.message(&Targets { first_ns: 5, ..by_policy() });
        }
        let cadence = mail.fared(&Course::default()).cadence_ns;
        assert_eq!((cadence.count, cadence.min, cadence.max), (18, 33 * MS, 33 * MS));
    }

    #[test]
    fn every_key_label_and_requirement_is_there_once() {
        use std::collections::BTreeSet;
        let keys: BTreeSet<_> = FIGURES.iter().map(|figure| figure.key).collect();
        let labels: BTreeSet<_> = FIGURES.iter().map(|figure| figure.label).collect();
        let required: Vec<_> = FIGURES.iter().filter_map(|figure| figure.required).collect();
        assert_eq!((keys.len(), labels.len()), (FIGURES.len(), FIGURES.len()));
        assert_eq!(required.iter().collect::<BTreeSet<_>>().len(), required.len());
    }
}
