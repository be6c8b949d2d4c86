//! What to change in a robot file so that its cycle fits.
//!
//! Every proposal is an edit of the file's text that was read again and predicted, so it holds what it promises.

use crate::costs::Inputs;
use crate::edit::{Edit, Lengths, edited};
use crate::host::Host;
use crate::plan::TickPlan;
use crate::show::Prediction;
use crate::trial::Trial;
use khz_file::config::ServoConfig;
use khz_file::{ConfigError, RobotConfig};
use khz_loop::time::LAST_LOOK_NS;
use khz_page::duration;
use serde::Serialize;

/// A fit is to have this share of the cycle to spare, if it can: the model is not exact.
pub(super) const SPARE: f64 = 0.05;

/// A robot file that has been read.
#[derive(Clone, Debug)]
pub struct File<'a> {
    text: &'a str,
    name: &'a str,
    robot: RobotConfig,
    host: Option<Host>,
}

/// A proposal.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// The rate that was asked for.
    pub wanted_hz: f64,
    /// The rate that is reached.
    pub rate_hz: f64,
    /// What to change.
    pub edits: Vec<Edit>,
    /// The file with these edits.
    #[serde(skip)]
    pub text: String,
    /// The model's prediction for it.
    pub prediction: Prediction,
    /// How the file with these edits did in virtual time; `None`: it was not tried, as the model predicts that it does not fit.
    pub trial: Option<Trial>,
}

/// So many fits are tried in virtual time, at most.
const TRIALS: usize = 4;

/// One way to make a cycle fit, tried by itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cure {
    /// What to do, in keys of the file.
    pub what: String,
    /// When the last reply is read then, at the latest.
    pub cycle_ns: i64,
    /// The cycle fits then.
    pub fits: bool,
    /// With little to spare.
    pub tight: bool,
}

/// What is tried besides the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    can_fd: bool,
    moves: bool,
    lengths: Option<Lengths>,
    /// The bus deadline is moved; otherwise it stays as it is.
    deadline: bool,
}

impl Means {
    /// All of them, those that cost the user least first: a deadline costs nothing, a format resolution, another bus a plug, and
    /// CAN-FD a setting in each motor.
    fn all() -> impl Iterator<Item = Self> {
        let lengths = [None, Some(Lengths::Short), Some(Lengths::Shortest)];
        let with_lengths = move |can_fd, moves| {
            lengths.into_iter().flat_map(move |lengths| {
                [false, true].map(|deadline| Self { can_fd, moves, lengths, deadline })
            })
        };
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .flat_map(move |(can_fd, moves)| with_lengths(can_fd, moves))
    }
}

impl<'a> File<'a> {
    /// Reads the text of a file of this name.
    ///
    /// # Errors
    /// Something in it is wrong.
    pub fn read(text: &'a str, name: &'a str) -> Result<Self, ConfigError> {
        Ok(Self { text, name, robot: RobotConfig::parse(text, name)?, host: None })
    }

    /// The same, predicted with what this computer takes for its own parts.
    #[must_use]
    pub fn on(self, host: Option<Host>) -> Self {
        Self { host, ..self }
    }

    fn plan(&self, robot: &RobotConfig) -> TickPlan {
        TickPlan::of(robot, Inputs::of(robot).on(self.host.as_ref(), robot))
    }

    /// The prediction of the file as it stands.
    pub fn predict(&self) -> Prediction {
        self.plan(&self.robot).predict()
    }

    /// The least changes that reach this rate, in virtual time as well; if nothing does, those that come nearest.
    ///
    /// # Errors
    /// The file is wrong at this rate, whatever else is changed: what is wrong with it then.
    pub fn fit(&self, wanted_hz: f64) -> Result<Fit, ConfigError> {
        let attempts = self.attempts(wanted_hz);
        if let Some(fit) = self.tried(&attempts) {
            return Ok(fit);
        }
        let highest_hz = attempts.iter().map(|fit| fit.prediction.highest_rate_any_deadline_hz);
        let Some(highest_hz) = highest_hz.reduce(f64::max) else { return Err(self.refusal(wanted_hz)) };
        let spared_hz = (highest_hz / (1.0 + SPARE)).floor().max(1.0);
        if let Some(nearest) = self.nearest(spared_hz, highest_hz.min(wanted_hz)) {
            return Ok(Fit { wanted_hz, ..nearest });
        }
        let attempts = self.attempts(spared_hz);
        match self.tried(&attempts).or(attempts.first().cloned()) {
            Some(nearest) => Ok(Fit { wanted_hz, ..nearest }),
            None => Err(self.refusal(spared_hz)),
        }
    }

    /// The highest whole rate that works, if the lower one does.
    fn nearest(&self, low_hz: f64, high_hz: f64) -> Option<Fit> {
        let at = |rate_hz| self.tried(&self.attempts(rate_hz)).filter(Fit::works);
        let mut nearest = at(low_hz)?;
        let (mut low_hz, mut high_hz) = (low_hz, high_hz.floor() + 1.0);
        while high_hz - low_hz > 1.0 {
            let middle_hz = ((low_hz + high_hz) / 2.0).floor();
            match at(middle_hz) {
                Some(fit) => (nearest, low_hz) = (fit, middle_hz),
                None => high_hz = middle_hz,
            }
        }
        Some(nearest)
    }

    /// Of the attempts that fit by the model, those with something to spare before the others, the first that does so in virtual time;
    /// if none does, the first.
    fn tried(&self, attempts: &[Fit]) -> Option<Fit> {
        let fitting =
            |is_tight| attempts.iter().filter(move |fit| fit.prediction.fits() && fit.is_tight() == is_tight);
        let mut refused = None;
        for fit in fitting(false).chain(fitting(true)).take(TRIALS) {
            let robot = RobotConfig::parse(&fit.text, self.name).ok()?;
            let fit = Fit { trial: Some(Trial::of(&robot)), ..fit.clone() };
            if fit.works() {
                return Some(fit);
            }
            refused.get_or_insert(fit);
        }
        refused
    }

    fn attempts(&self, rate_hz: f64) -> Vec<Fit> {
        Means::all().filter_map(|means| self.attempt(rate_hz, means)).collect()
    }

    /// Why the file is wrong at this rate.
    fn refusal(&self, rate_hz: f64) -> ConfigError {
        let text = edited(self.text, &[Edit::rate(&self.robot, rate_hz)]);
        let refused = text.ok().and_then(|text| RobotConfig::parse(&text, self.name).err());
        refused.unwrap_or_else(|| ConfigError::new(Vec::new(), self.text, self.name))
    }

    /// Changes, each by itself, that could make the cycle fit at the rate of the file.
    pub fn cures(&self) -> Vec<Cure> {
        let rate_hz = self.robot.timing.rate_hz;
        let alone = |means| self.attempt(rate_hz, means).filter(|fit| !fit.edits.is_empty());
        let short = Means { lengths: Some(Lengths::Short), ..Means::default() };
        let shortest = Means { lengths: Some(Lengths::Shortest), ..Means::default() };
        let spread = Means { moves: true, ..Means::default() };
        let fits = |fit: &Fit| fit.prediction.fits();
        let cycle_ns = self.predict().needed_ns();
        let tried = [
            alone(Means { deadline: true, ..Means::default() }),
            alone(short).filter(fits).or_else(|| alone(shortest)),
            alone(spread),
            alone(Means { can_fd: true, ..Means::default() }),
        ];
        let shortens = |fit: &Fit| fits(fit) || fit.prediction.needed_ns() < cycle_ns;
        let mut cures: Vec<_> = tried.into_iter().flatten().filter(shortens).map(|fit| fit.cure()).collect();
        cures.extend(self.one_bus_more().filter(|cure| cure.cycle_ns < cycle_ns));
        if let Ok(fit) = self.fit(rate_hz)
            && fit.works()
            && !cures.iter().any(|cure| cure.fits)
        {
            cures.push(fit.cure());
        }
        cures.extend(self.lower_rate());
        cures
    }

    /// Not where one question goes to all servos of a line: others would be another one.
    fn one_bus_more(&self) -> Option<Cure> {
        let mut plan = Some(self.plan(&self.robot)).filter(|plan| !plan.asks_together())?;
        let buses = plan.lines.len() + 1;
        plan.each(|plan| plan.set_buses(buses));
        let what = format!("{buses} buses like `{}`, the servos spread evenly", self.robot.buses[0].name);
        let rate_hz = self.robot.timing.rate_hz;
        let fit = Fit {
            wanted_hz: rate_hz,
            rate_hz,
            edits: Vec::new(),
            text: String::new(),
            prediction: plan.predict(),
            trial: None,
        };
        Some(Cure { what, ..fit.cure() })
    }

    fn lower_rate(&self) -> Option<Cure> {
        let predicted = self.predict();
        let (spared_hz, needs_later) = predicted.spared_rate_hz();
        let fit = self.attempt(spared_hz, Means::default()).filter(|_| !needs_later)?;
        // The number that `khz budget` has, too.
        let most_hz = predicted.highest_rate_hz.floor();
        let cure = || Cure {
            what: format!("{} (at most {most_hz}, with nothing to spare)", keys(&fit.edits)),
            ..fit.cure()
        };
        fit.prediction.fits().then(cure)
    }

    /// The file at this rate with these means; `None` if that makes it wrong or suspicious.
    fn attempt(&self, rate_hz: f64, means: Means) -> Option<Fit> {
        let robot = &self.robot;
        let mut edits = Vec::new();
        if rate_hz != robot.timing.rate_hz {
            edits.push(Edit::rate(robot, rate_hz));
        }
        edits.extend(means.lengths.into_iter().flat_map(|lengths| Edit::formats(robot, lengths)));
        edits.extend(Edit::can_fd(robot).filter(|_| means.can_fd));
        if means.moves {
            edits.extend(self.moves(&edits)?);
        }
        if means.deadline {
            edits.push(self.deadline(&edits, rate_hz)?);
        }
        let (text, changed) = self.changed(&edits)?;
        let prediction = self.plan(&changed).predict();
        Some(Fit { wanted_hz: rate_hz, rate_hz, edits, text, prediction, trial: None })
    }

    /// The file with these edits, unless they make it wrong, or more suspicious than it is.
    fn changed(&self, edits: &[Edit]) -> Option<(String, RobotConfig)> {
        let text = edited(self.text, edits).ok()?;
        let robot = RobotConfig::parse(&text, self.name).ok()?;
        (robot.warnings.len() <= self.robot.warnings.len()).then_some((text, robot))
    }

    /// The bus deadline that lets the replies of this cycle in: 80 % of the period or later, with a little to spare where there is
    /// room.
    fn deadline(&self, edits: &[Edit], rate_hz: f64) -> Option<Edit> {
        // As late as can be, so that the file is right whatever its deadline was.
        let period_us = 1e6 / rate_hz;
        let latest = Edit::deadline(&self.robot, (period_us - 1.0).floor());
        let (_, robot) = self.changed(&[edits, &[latest]].concat())?;
        let plan = self.plan(&robot);
        let ([cycle_ns, tick_ns], longest_ns) = (plan.durations_ns(), plan.longest_ns());
        let least_us = (longest_ns + LAST_LOOK_NS) as f64 / 1e3;
        let wanted_us = (least_us + SPARE * longest_ns as f64 / 1e3).max(0.8 * period_us);
        let room_us = period_us - (tick_ns - cycle_ns) as f64 / 1e3;
        let us = wanted_us.min(room_us).floor().max(least_us.ceil());
        // Where there is no such deadline, the prediction states that.
        Some(Edit::deadline(&self.robot, us.min((period_us - 1.0).floor())))
    }

    /// The move of one servo to another bus that shortens the tick most, or makes the buses more even; `None` if there is none.
    fn best_move(&self, robot: &RobotConfig) -> Option<(usize, usize)> {
        let now = self.burden(robot);
        let buses = 0..robot.buses.len();
        let ways = buses.clone().flat_map(|from| buses.clone().map(move |to| (from, to)));
        // Servos of one bus cost much the same: the last that may move stands for all.
        let movers = ways.filter_map(|(from, to)| {
            let allowed =
                robot.servos_on(from).map(|(servo, _)| servo).filter(|&servo| may_be_on(robot, servo, to));
            allowed.last().map(|servo| (servo, to))
        });
        let tried = movers.map(|(servo, bus)| {
            let mut moved = robot.clone();
            moved.servos[servo].bus = bus;
            (self.burden(&moved), servo, bus)
        });
        tried.min().filter(|(burden, ..)| *burden < now).map(|(_, servo, bus)| (servo, bus))
    }

    /// How long the tick is, and how uneven the buses are.
    fn burden(&self, robot: &RobotConfig) -> (i64, usize) {
        let plan = self.plan(robot);
        let uneven = plan.lines.iter().map(|line| line.exchanges.len().pow(2)).sum();
        (plan.durations_ns()[1], uneven)
    }

    /// Servos to be moved to other buses of the file, so that the tick becomes shorter with every move.
    fn moves(&self, edits: &[Edit]) -> Option<Vec<Edit>> {
        let (_, mut robot) = self.changed(edits).or_else(|| self.changed(&[]))?;
        while let Some((servo, bus)) = self.best_move(&robot) {
            robot.servos[servo].bus = bus;
        }
        let to = |(servo, now): (usize, &ServoConfig)| {
            let bus = robot.servos[servo].bus;
            (bus != now.bus).then(|| Edit::bus(&self.robot, servo, bus))
        };
        Some(self.robot.servos.iter().enumerate().filter_map(to).collect())
    }
}

/// No servo there has its id or knows its frames, and the link carries them.
fn may_be_on(robot: &RobotConfig, servo: usize, bus: usize) -> bool {
    let mover = &robot.servos[servo];
    let carries = mover.in_file().facts().by_registers || robot.buses[bus].link.bus().moteus_only().is_none();
    let gets_on = robot.servos_on(bus).all(|(_, other)| other.id != mover.id && mover.clash(other).is_none());
    mover.bus != bus && carries && gets_on
}

impl Fit {
    /// The rate that was asked for is reached.
    pub fn is_reached(&self) -> bool {
        self.works() && self.rate_hz == self.wanted_hz
    }

    /// It fits by the model, and did so in virtual time.
    pub fn works(&self) -> bool {
        let failed = |trial: &Trial| trial.failure.is_some();
        self.prediction.fits() && !self.trial.as_ref().is_none_or(failed)
    }

    /// It fits, with less to spare than the model may be wrong by.
    pub fn is_tight(&self) -> bool {
        let Prediction { headroom_ns, counts_until_ns, .. } = self.prediction;
        let needed_ns = self.prediction.needed_ns();
        let spare_ns = headroom_ns.min(counts_until_ns - needed_ns);
        self.prediction.fits() && (spare_ns as f64) < SPARE * needed_ns as f64
    }

    fn cure(&self) -> Cure {
        let cycle_ns = self.prediction.needed_ns();
        Cure { what: keys(&self.edits), cycle_ns, fits: self.prediction.fits(), tight: self.is_tight() }
    }

    /// For a terminal: whether it is reached, and what changes.
    pub fn text(&self) -> String {
        let Self { wanted_hz, rate_hz, prediction, .. } = self;
        let mut text = match self.is_reached() {
            true if self.edits.is_empty() => format!("{wanted_hz} Hz: the file fits as it stands\n"),
            true => format!("{wanted_hz} Hz fits with these changes:\n"),
            false if self.works() => {
                format!(
                    "nothing in this file reaches {wanted_hz} Hz; the nearest is {rate_hz} Hz, with these changes:\n"
                )
            }
            false if prediction.fits() => {
                format!("{rate_hz} Hz is predicted to fit with these changes, but it does not:\n")
            }
            false => format!("nothing in this file reaches {wanted_hz} Hz, nor any other rate\n"),
        };
        let width = |read: fn(&Edit) -> &String| {
            self.edits.iter().map(|edit| read(edit).chars().count()).max().unwrap_or(0)
        };
        let (key, now) = (width(|edit| &edit.key).max(3), width(|edit| &edit.now).max(3));
        if !self.edits.is_empty() {
            text += &format!("  {:key$}  {:now$}  proposed\n", "key", "now");
        }
        for edit in &self.edits {
            text += &format!("  {:key$}  {:now$}  {}\n", edit.key, edit.now, edit.then);
        }
        let [cycle, tick] = [prediction.cycle_ns, prediction.tick_ns].map(|ns| duration(ns as f64));
        if self.is_tight() {
            text += "  this is tight: less than 5 % to spare, and the model is not exact\n";
        }
        text += &format!("  cycle {cycle}, tick {tick}; {}\n", prediction.replies_text());
        text + &self.trial.iter().map(|trial| format!("  {}\n", trial.text())).collect::<String>()
    }
}

/// The edits in one line, keys with one value together.
fn keys(edits: &[Edit]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for edit in edits {
        match groups.iter_mut().find(|(then, _)| *then == edit.then) {
            Some((_, keys)) => keys.push(&edit.key),
            None => groups.push((&edit.then, vec![&edit.key])),
        }
    }
    let group = |(then, keys): (&str, Vec<&str>)| format!("{} = {then}", keys.join(", "));
    groups.into_iter().map(group).collect::<Vec<_>>().join("; ")
}
