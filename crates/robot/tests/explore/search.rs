//! Breadth first: every state that any sequence of ticks leads to, so the first sequence found to a broken law is one of
//! the shortest.

use crate::events::{Event, Tick, combinations};
use crate::key::{Caps, EPOCH_NS, Key, key, symmetric_key};
use crate::laws::{self, Memory, Step};
use khz_loop::supervisor::{Cause, Phase, Supervisor, SupervisorSettings};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The kinds of the events in each set, by bit.
fn kinds(sets: &[Vec<Event>], servos: usize) -> Vec<u64> {
    let all = Event::all(servos);
    let kind = |event: &Event| match event {
        Event::Stop(_) | Event::Arm => 0,
        event => all.iter().position(|other| other == event).map_or(0, |place| 1 << place),
    };
    sets.iter().map(|set| set.iter().map(kind).fold(0, |all, kind| all | kind)).collect()
}

/// What is explored.
pub struct Scope {
    pub supervisor: Supervisor,
    pub settings: SupervisorSettings,
    pub servos: usize,
    pub period_ns: i64,
    /// Events in one tick, at most.
    pub at_once: usize,
    /// Which events there are.
    pub only: fn(&Event) -> bool,
    /// Kinds of events that have left traces in a state, at most. Requests leave none: what they do is done at once.
    pub kinds: u32,
    /// Of two states in which the servos are each other only one is explored.
    pub symmetric: bool,
    /// States, at most: a search that grows beyond it has failed.
    pub most_states: usize,
}

/// What was seen.
pub struct Seen {
    pub states: usize,
    pub ticks: usize,
    /// Ticks from the start to the state that is farthest away.
    pub depth: usize,
    pub phases: [usize; 7],
    /// Ticks that a robot asked to stop in every tick takes to settle, in the worst state with the worst events.
    pub settles_within: usize,
    /// States in which servos are being switched on again.
    pub recovering: usize,
}

/// The same kinds, of the other servo.
fn swapped(kinds: u64, servos: usize) -> u64 {
    let all = Event::all(servos);
    let other = |event: &Event| match *event {
        Event::Servo(servo, event) => Event::Servo(1 - servo, event),
        Event::Command(servo, event) => Event::Command(1 - servo, event),
        event => event,
    };
    let of_other = |place: usize| all.iter().position(|event| *event == other(&all[place]));
    let places = (0..all.len()).filter(|place| kinds >> place & 1 == 1);
    places.filter_map(of_other).map(|place| 1 << place).fold(0, |all, kind| all | kind)
}

/// A state, and how it was reached.
struct Node {
    supervisor: Supervisor,
    memory: Memory,
    parent: usize,
    by: usize,
    depth: usize,
    /// The kinds of events whose traces may be in it, by bit.
    kinds: u64,
}

/// Explores everything. The error is the law that does not hold, with the ticks that lead there.
pub fn explore(scope: &Scope) -> Result<Seen, String> {
    let mut search = Search::new(scope);
    let mut at = 0;
    while at < search.nodes.len() {
        search.expand(at)?;
        at += 1;
    }
    search.result()
}

struct Search<'a> {
    scope: &'a Scope,
    caps: Caps,
    events: Vec<Vec<Event>>,
    /// The kinds of each of these.
    kinds: Vec<u64>,
    nodes: Vec<Node>,
    /// The nodes of each state, with their kinds: none has all those of another, for what that may do the other may, too.
    known: HashMap<Key, Vec<(usize, u64)>>,
    tick: Tick,
    ticks: usize,
    /// From state to state by ticks with a request to stop.
    stopping: Vec<(usize, usize)>,
    /// From each state by the tick in which all is well.
    undisturbed: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(scope: &'a Scope) -> Self {
        let first = Node {
            supervisor: scope.supervisor.clone(),
            memory: Memory::new(),
            parent: 0,
            by: 0,
            depth: 0,
            kinds: 0,
        };
        let mut events = combinations(scope.servos, scope.at_once);
        events.retain(|set| set.iter().all(scope.only));
        let mut search = Self {
            scope,
            caps: laws::caps(&scope.settings, scope.period_ns),
            // Without a bound it does not matter how a state was reached.
            kinds: if scope.kinds == u32::MAX { vec![0; events.len()] } else { kinds(&events, scope.servos) },
            events,
            nodes: Vec::new(),
            known: HashMap::new(),
            tick: Tick::new(scope.servos, scope.period_ns),
            ticks: 0,
            stopping: Vec::new(),
            undisturbed: Vec::new(),
        };
        search.number(first);
        search
    }

    /// The number of a state, new or known.
    fn number(&mut self, node: Node) -> usize {
        let now_ns = EPOCH_NS + node.depth as i64 * self.scope.period_ns;
        // Written as the supervisor's fields are, so that the laws' lists are known as well.
        #[derive(Debug)]
        #[allow(dead_code, reason = "read by Debug")]
        struct All<'a>(&'a Supervisor, &'a Memory, bool);
        let blamed = node.supervisor.blame().is_some_and(Cause::is_trouble);
        let all = All(&node.supervisor, &node.memory, blamed);
        let (name, is_other) = match self.scope.symmetric {
            true => symmetric_key(&all, now_ns, self.caps),
            false => (key(&all, now_ns, self.caps), false),
        };
        let kinds = if is_other { swapped(node.kinds, self.scope.servos) } else { node.kinds };
        let numbers = self.known.entry(name).or_default();
        if let Some(&(known, _)) = numbers.iter().find(|(_, of_known)| of_known & !kinds == 0) {
            return known;
        }
        numbers.push((self.nodes.len(), kinds));
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn expand(&mut self, at: usize) -> Result<(), String> {
        for by in 0..self.events.len() {
            if (self.nodes[at].kinds | self.kinds[by]).count_ones() > self.scope.kinds {
                continue;
            }
            let node = self.step(at, by)?;
            let to = self.number(node);
            if self.events[by].iter().any(|event| matches!(event, Event::Stop(_))) {
                self.stopping.push((at, to));
            }
            if self.events[by].is_empty() {
                self.undisturbed.push(to);
            }
        }
        if self.nodes.len() > self.scope.most_states {
            return Err(format!("more than {} states", self.scope.most_states));
        }
        Ok(())
    }

    /// One tick, as `Machine` runs it.
    fn step(&mut self, at: usize, by: usize) -> Result<Node, String> {
        let Node { supervisor, memory, depth, kinds, .. } = &self.nodes[at];
        let kinds = kinds | self.kinds[by];
        let (before, depth) = (supervisor, depth + 1);
        let (mut supervisor, mut memory) = (supervisor.clone(), memory.clone());
        let tick = &mut self.tick;
        let now_ns = EPOCH_NS + depth as i64 * self.scope.period_ns;
        tick.set(before.phase(), now_ns, &self.events[by], &self.scope.settings);
        if tick.arm {
            supervisor.arm();
        }
        supervisor.observe(&tick.state, &tick.seen);
        let observed = supervisor.phase();
        match (observed, tick.controller) {
            (Phase::Armed | Phase::Active, Some(cause)) => supervisor.controller_failed(cause, &tick.state),
            (Phase::Armed, None) => supervisor.controller_started(&tick.state),
            _ => {}
        }
        supervisor.govern(&mut tick.commands, &tick.state);
        let transitions = supervisor.take_transitions();
        self.ticks += 1;
        let step = Step {
            events: &self.events[by],
            settings: &self.scope.settings,
            before: before.phase(),
            observed,
            tick,
            transitions: &transitions,
            after: &supervisor,
        };
        if let Err(broken) = laws::hold(&mut memory, &step) {
            return Err(format!("{broken}\n{}", self.way(at, Some(by))));
        }
        Ok(Node { supervisor, memory, parent: at, by, depth, kinds })
    }

    /// The ticks that lead to a state, and one more.
    fn way(&self, mut at: usize, last: Option<usize>) -> String {
        let mut ticks: Vec<usize> = last.into_iter().collect();
        while at != 0 {
            ticks.push(self.nodes[at].by);
            at = self.nodes[at].parent;
        }
        let mut text = String::from("ticks that lead there, each with its events:\n");
        for (number, by) in ticks.into_iter().rev().enumerate() {
            let _ = writeln!(text, "  {number}: {:?}", self.events[by]);
        }
        text
    }

    fn result(self) -> Result<Seen, String> {
        self.makes_progress()?;
        let mut phases = [0; 7];
        self.nodes.iter().for_each(|node| phases[node.supervisor.phase() as usize] += 1);
        Ok(Seen {
            states: self.known.len(),
            ticks: self.ticks,
            depth: self.nodes.iter().map(|node| node.depth).max().unwrap_or(0),
            phases,
            settles_within: self.settles_within()?,
            recovering: self.nodes.iter().filter(|node| node.supervisor.is_recovering()).count(),
        })
    }

    /// The longest way to a settled robot, of all ways with a request to stop in every tick.
    fn settles_within(&self) -> Result<usize, String> {
        let most = laws::ticks_to_settle(&self.scope.settings, self.scope.period_ns, self.scope.servos);
        let settled = |at: usize| self.nodes[at].supervisor.is_settled();
        let mut left = vec![0; self.nodes.len()];
        loop {
            let mut grew = false;
            for &(from, to) in self.stopping.iter().rev() {
                if !settled(from) && left[from] <= left[to] {
                    left[from] = left[to] + 1;
                    grew = true;
                    if left[from] > most {
                        let way = self.way(from, None);
                        return Err(format!("asked to stop, it does not settle within {most} ticks\n{way}"));
                    }
                }
            }
            if !grew {
                return Ok(left.into_iter().max().unwrap_or(0));
            }
        }
    }

    /// When nothing is wrong any more, the robot is soon under control, waits to be armed, or is at rest.
    fn makes_progress(&self) -> Result<(), String> {
        let most = laws::ticks_to_settle(&self.scope.settings, self.scope.period_ns, self.scope.servos)
            + (self.scope.settings.answer_ns() / self.scope.period_ns) as usize
            + 4;
        for start in 0..self.nodes.len() {
            let at = (0..most).fold(start, |at, _| self.undisturbed[at]);
            let supervisor = &self.nodes[at].supervisor;
            let arrived =
                matches!(supervisor.phase(), Phase::Active | Phase::Idle) || supervisor.is_settled();
            if !arrived || self.undisturbed[at] != at {
                let (phase, way) = (supervisor.phase(), self.way(start, None));
                return Err(format!("after {most} ticks in which all is well it is in {phase:?}\n{way}"));
            }
        }
        Ok(())
    }
}
