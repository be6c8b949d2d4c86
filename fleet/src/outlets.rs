//! From the samples of a run to what is put on the network: each record under its own key, and what ROS 2 users know.

use crate::bridge::Shared;
use crate::names::{RobotName, is_part};
use crate::publication::{Publication, Rare};
use crate::ros::{Node, Topic};
use crate::settings::Settings;
use crate::thin::{Range, Rule, Thinner};
use anyhow::{Result, anyhow};
use khz_export::ros2::{self, Integers, Messages};
use khz_tlog::{Type, Value};
use khz_view::Intake;
use khz_view::standard::{self, Standard, Status, TickSummary};
use zenoh::liveliness::LivelinessToken;
use zenoh::{Session, Wait};

/// A message for the publication at this place.
pub type Due = (usize, i64, Vec<u8>);

/// All keys of a run.
pub struct Outlets {
    session: Session,
    name: RobotName,
    settings: Settings,
    rare: Rare,
    messages: Messages,
    /// One for each record, by its place.
    records: Vec<Option<Outlet>>,
    publications: Vec<Publication>,
    node: Node,
    /// What makes node and publishers visible in ROS 2's graph, and the tokens of the first of them: of all, or none of a robot that is
    /// hidden.
    announced: Vec<String>,
    tokens: Vec<LivelinessToken>,
    ticks: TickSummary,
}

/// What a record becomes.
struct Outlet {
    thinner: Thinner,
    /// The places of its publications: the newest sample, the least and the greatest values.
    newest: usize,
    range: Option<[usize; 2]>,
    standards: Vec<(Standard, Thinner, usize)>,
}

impl Outlets {
    /// Of a run that has sent nothing yet.
    ///
    /// # Errors
    /// The session is closed.
    pub fn new(shared: &Shared, rare: Rare) -> Result<Self> {
        let (session, name, settings) =
            (shared.session.clone(), shared.name.clone(), shared.settings.clone());
        let node =
            Node { domain: settings.ros.domain, session: session.zid().to_string(), robot: name.ros() };
        let announced = if settings.ros.enabled { vec![node.token()] } else { Vec::new() };
        let mut outlets = Self {
            session,
            name,
            settings,
            rare,
            messages: Messages::default(),
            records: Vec::new(),
            publications: Vec::new(),
            node,
            announced,
            tokens: Vec::new(),
            ticks: TickSummary::default(),
        };
        outlets.show()?;
        Ok(outlets)
    }

    /// Makes node and publishers visible in ROS 2's graph.
    ///
    /// # Errors
    /// The session is closed.
    pub fn show(&mut self) -> Result<()> {
        for key in &self.announced[self.tokens.len()..] {
            let token = self.session.liveliness().declare_token(key.clone()).wait();
            self.tokens.push(token.map_err(|error| anyhow!("cannot declare {key}: {error}"))?);
        }
        Ok(())
    }

    /// Takes them out of ROS 2's graph, of a robot that is silent. Should the run go on, so do the numbers of its samples.
    pub fn hide(&mut self) {
        self.tokens.clear();
    }

    /// Adds to `due` what the newest sample of the record at `place` makes necessary.
    ///
    /// # Errors
    /// The session is closed.
    pub fn sample(&mut self, intake: &Intake, place: usize, due: &mut Vec<Due>) -> Result<()> {
        while self.records.len() <= place {
            let outlet = self.open(intake, self.records.len())?;
            self.records.push(outlet);
        }
        let known = &intake.records()[place];
        let Some((time_us, payload)) = &known.latest else { return Ok(()) };
        if known.name == "tick"
            && let Ok(value) = Value::read(&known.ty, payload)
        {
            self.ticks.add(*time_us, &value);
        }
        let Some(outlet) = &mut self.records[place] else { return Ok(()) };
        if let Some(range) = outlet.thinner.sample(&known.ty, *time_us, payload) {
            due.extend(message(outlet.newest, *time_us, &known.ty, payload));
            if let (Some([least, greatest]), Some(range)) = (outlet.range, range) {
                let Range { least: low, greatest: high } = range;
                due.extend(message(least, *time_us, &known.ty, &low));
                due.extend(message(greatest, *time_us, &known.ty, &high));
            }
        }
        for (standard, thinner, publication) in &mut outlet.standards {
            if thinner.sample(&known.ty, *time_us, payload).is_none() {
                continue;
            }
            let Ok(value) = Value::read(&known.ty, payload) else { continue };
            let bytes = match standard {
                Standard::JointStates => standard::joint_states(*time_us, &value),
                Standard::Imu => standard::imu(*time_us, &value),
                Standard::Diagnostics => {
                    let all = statuses(&self.name, &std::mem::take(&mut self.ticks), intake, *time_us);
                    standard::diagnostics(*time_us, &all)
                }
                Standard::Tf | Standard::Events => None,
            };
            due.extend(bytes.map(|bytes| (*publication, *time_us, bytes)));
        }
        Ok(())
    }

    /// Puts a message on the network.
    pub fn put(&mut self, (publication, time_us, bytes): Due) {
        if let Some(publication) = self.publications.get_mut(publication) {
            publication.put(time_us, bytes);
        }
    }

    /// How many messages were put.
    pub fn sent(&self) -> u64 {
        self.publications.iter().map(|publication| publication.count().unsigned_abs()).sum()
    }

    /// Makes the publications of a record. One whose name cannot be part of a key has none.
    fn open(&mut self, intake: &Intake, place: usize) -> Result<Option<Outlet>> {
        let known = &intake.records()[place];
        let name = khz_export::plain(&known.name).into_owned();
        if !is_part(&name) {
            return Ok(None);
        }
        let (message, _) = self.messages.declare(&known.name, &known.ty, Integers::Rounded);
        let encoding = format!("application/cdr;{message}");
        let rule = self.settings.rule(&known.name);
        let newest = self.publish(&name, &encoding, rule == Rule::Every)?;
        let has_ranges = self.settings.has_ranges(&known.name) && matches!(rule, Rule::RateHz(_));
        let range = match has_ranges {
            true => Some([
                self.publish(&format!("{name}/@least"), &encoding, false)?,
                self.publish(&format!("{name}/@greatest"), &encoding, false)?,
            ]),
            false => None,
        };
        let standards =
            if self.settings.ros.enabled { Standard::of(&known.name, &known.ty) } else { Vec::new() };
        let robot = self.node.robot.clone();
        let standards = standards
            .into_iter()
            .filter_map(|standard| Some((standard, Topic::of(standard, &robot)?)))
            .map(|(standard, topic)| {
                let hz = if standard == Standard::Diagnostics { 1.0 } else { self.settings.ros.rate_hz };
                Ok((standard, Thinner::new(Rule::RateHz(hz), false), self.advertise(&topic)?))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Some(Outlet { thinner: Thinner::new(rule, has_ranges), newest, range, standards }))
    }

    fn publish(&mut self, rest: &str, encoding: &str, is_rare: bool) -> Result<usize> {
        let key = self.name.key(rest);
        let identity = format!("{}/{key}", self.node.session);
        let encoding = Some(encoding.to_owned());
        self.publications.push(match is_rare {
            true => Publication::rare(&self.session, key, &identity, encoding, &self.rare)?,
            false => Publication::new(&self.session, key, &identity, encoding)?,
        });
        Ok(self.publications.len() - 1)
    }

    /// Makes a topic of ROS 2.
    fn advertise(&mut self, topic: &Topic) -> Result<usize> {
        let entity = self.announced.len() as u32;
        let text = self.node.publisher(entity, topic);
        self.publications.push(Publication::new(&self.session, topic.key(self.node.domain), &text, None)?);
        let is_shown = self.tokens.len() == self.announced.len();
        self.announced.push(text);
        if is_shown {
            self.show()?;
        }
        Ok(self.publications.len() - 1)
    }
}

/// A sample as CDR, as in the live view and in exported MCAP files.
pub fn cdr(ty: &Type, payload: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(payload.len() * 2);
    ros2::encode(ty, payload, Integers::Rounded, &mut bytes).ok()?;
    Some(bytes)
}

fn message(publication: usize, time_us: i64, ty: &Type, payload: &[u8]) -> Option<Due> {
    Some((publication, time_us, cdr(ty, payload)?))
}

/// How the loop and the servos are, under names that distinguish the robots.
fn statuses(robot: &RobotName, ticks: &TickSummary, intake: &Intake, time_us: i64) -> Vec<Status> {
    let servos = intake.records().iter().find(|known| known.name == "servo").and_then(|known| {
        let (_, payload) = known.latest.as_ref()?;
        Some(standard::servos(&Value::read(&known.ty, payload).ok()?))
    });
    let all = std::iter::once(ticks.status(time_us)).chain(servos.unwrap_or_default());
    all.map(|status| Status { name: format!("{robot}: {}", status.name), ..status }).collect()
}
