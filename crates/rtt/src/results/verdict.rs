//! The verdict on round trips: whether every planned question was asked and answered in time, why not, and what to do.

use super::Results;
use khz_page::{Level, Verdict, counted, duration, share};
use khz_rt::Grade;

impl Results {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        let (problems, warnings) = (self.problems(), self.warnings());
        let (level, headline) = match (problems.is_empty(), warnings.is_empty()) {
            (true, true) => (Level::Good, "all answered in time".into()),
            (true, false) => (Level::Warning, format!("all answered, {warnings}")),
            (false, true) => (Level::Bad, problems.clone()),
            (false, false) => (Level::Bad, format!("{problems}, {warnings}")),
        };
        let verdict = Verdict {
            level,
            held: problems.is_empty() && warnings.is_empty(),
            headline,
            cause: self.cause(),
            remedy: self.remedy(),
            reasons: [problems, warnings].into_iter().filter(|reason| !reason.is_empty()).collect(),
            text: String::new(),
        };
        let what = self.what(&verdict);
        verdict.sentence(&what)
    }

    fn what(&self, verdict: &Verdict) -> String {
        let counts = self.counts();
        let questions = self.planned.as_ref().map_or(counts.sent, |planned| planned.questions);
        let questions = counted(questions, "question");
        let trips = self.round_trips();
        let took = trips
            .quantile(0.99)
            .map_or(String::new(), |p99| format!(", p99 of the round trips {}", duration(p99)));
        match counts.answered {
            _ if verdict.held => format!("{questions}, all answered in time{took}"),
            0 => format!("no answer to {questions}"),
            _ => format!("{questions}: {}{took}", verdict.headline),
        }
    }

    /// What the greatest share of what was not answered in time comes from.
    fn cause(&self) -> Option<String> {
        let counts = self.counts();
        let missed = self.planned.as_ref().map_or(0, |planned| planned.missed);
        let causes = [
            (counts.refused, "no program listens at the address (port unreachable)"),
            (counts.unreachable, "the network has no way to the device"),
            (counts.echoed, "the device returned the questions unchanged"),
            (counts.silent(), "answers were lost on the way or never sent"),
            (missed * self.devices.len() as u64, "this computer was too late to ask"),
            (counts.unsent, "the kernel did not send them"),
            (counts.late, "answers came after their period"),
        ];
        let all: u64 = causes.iter().map(|(count, _)| count).sum();
        // Of equal ones the first.
        let (count, why) =
            causes.into_iter().rev().max_by_key(|(count, _)| *count).filter(|(count, _)| *count > 0)?;
        Some(format!("{why} ({:.0} %)", share(count, all)))
    }

    fn remedy(&self) -> Option<String> {
        let counts = self.counts();
        let missed = self.planned.as_ref().map_or(0, |planned| planned.missed);
        let late_sender = missed > 0 && missed >= counts.lost();
        let remedy = if late_sender || (counts.late > 0 && self.setup.grade != Grade::RealTime) {
            "run `khz doctor`"
        } else if counts.refused > 0 {
            "start the device's program (`khz rtt echo` on a computer), or check the port"
        } else if counts.unreachable > 0 || counts.unsent > 0 {
            "check cable, address and network mask"
        } else if counts.echoed > counts.silent() {
            "run `khz rtt echo` on the device: a plain echo marks no answer as one"
        } else if let Some(limit) = self.limit.as_deref().filter(|_| counts.lost() > 0) {
            limit
        } else if counts.answered == 0 || counts.lost() > 0 {
            "check the address, that the device is on (`khz rtt echo` on a computer), and firewalls on the way"
        } else if counts.late > 0 {
            "`--stamps` shows where the time goes"
        } else {
            return None;
        };
        Some(remedy.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::results::Results;
    use crate::{Counts, Plan, Tally};
    use khz_page::{Level, Measured};
    use khz_rt::{Grade, Report};

    fn results(grade: Grade, counts: Counts) -> Results {
        let plan = Plan::new(vec![([127, 0, 0, 1], 7755).into()]);
        let tally = Tally::new(plan.targets.iter().copied());
        let setup = Report { thread: "t".into(), grade, settings: Vec::new() };
        let mut results = Results::new(&plan, &tally, &setup, 0, 0);
        results.devices[0].counts = counts;
        if counts.answered > 0 {
            results.devices[0].round_trip = Measured::from_points([(0.5, 229_000.0)]);
        }
        results.planned = None;
        results
    }

    #[test]
    fn where_the_limit_is_known_no_address_is_suspected() {
        let counts = Counts { sent: 1_000, answered: 900, ..Counts::default() };
        let limit = Some("use fewer `--devices`".to_owned());
        let lab = Results { limit, ..results(Grade::RealTime, counts) };
        assert_eq!(lab.verdict().remedy.as_deref(), Some("use fewer `--devices`"));
        let elsewhere = results(Grade::RealTime, counts).verdict().remedy;
        assert!(elsewhere.is_some_and(|remedy| remedy.contains("check the address")));
        let whole =
            Results { limit: lab.limit, ..results(Grade::RealTime, Counts { answered: 1_000, ..counts }) };
        assert_eq!(whole.verdict().remedy, None);
    }

    #[test]
    fn the_sentence_says_what_why_and_what_to_do() {
        let sent = |answered| Counts { sent: 1_000, answered, ..Counts::default() };
        for (grade, counts, level, text) in [
            (
                Grade::RealTime,
                sent(1_000),
                Level::Good,
                "1,000 questions, all answered in time, p99 of the round trips 229 µs.",
            ),
            (
                Grade::RealTime,
                Counts { refused: 1_000, ..sent(0) },
                Level::Bad,
                "No answer to 1,000 questions, mostly because no program listens at the address (port unreachable) (100 %); start \
                 the device's program (`khz rtt echo` on a computer), or check the port.",
            ),
            (
                Grade::RealTime,
                sent(0),
                Level::Bad,
                "No answer to 1,000 questions, mostly because answers were lost on the way or never sent (100 %); check the \
                 address, that the device is on (`khz rtt echo` on a computer), and firewalls on the way.",
            ),
            (
                Grade::RealTime,
                Counts { echoed: 980, ..sent(0) },
                Level::Bad,
                "No answer to 1,000 questions, mostly because the device returned the questions unchanged (98 %); run `khz rtt echo` \
                 on the device: a plain echo marks no answer as one.",
            ),
            (
                Grade::Ordinary,
                Counts { late: 3, ..sent(1_000) },
                Level::Warning,
                "1,000 questions: all answered, 3 late, p99 of the round trips 229 µs, mostly because answers came after their \
                 period (100 %); run `khz doctor`.",
            ),
        ] {
            let verdict = results(grade, counts).verdict();
            assert_eq!((verdict.level, verdict.text.as_str()), (level, text));
        }
    }
}
