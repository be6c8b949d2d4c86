//! The supervisor's state machine, explored exhaustively over abstract time and events.
//!
//! Ticks of 50 ms and thresholds of a few ticks keep the number of states small; nothing in the supervisor knows how long
//! a tick is. In every tick of every state any event may happen ([`events`]), up to a number of them at once, whatever
//! happened before: servos that reply, fault and move as no real one would are more than what can happen, so what holds
//! here holds for them all. After each tick every law ([`laws`]) is checked. [`search`] finds the states.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod events;
mod key;
mod laws;
mod requests;
mod search;

use events::{CommandEvent, Event, ServoEvent};
use khz_file::config::RobotConfig;
use khz_loop::supervisor::Phase;
use khz_robot::assemble;
use search::{Scope, Seen, explore};

const PERIOD_NS: i64 = 50_000_000;

/// A robot file whose thresholds are a few ticks; `reactions` are added to it.
fn robot(servos: usize, reactions: &str, recover: &str) -> RobotConfig {
    let family = match recover {
        "on" => "family = \"damiao\"\ndamiao = { model = \"4310\", kp = 20, kd = 1 }\n",
        _ => "",
    };
    let servo = |n: usize| {
        format!(
            "[[servo]]\nname = \"s{n}\"\nbus = \"main\"\nid = {n}\n{family}\
             limits = {{ position = [-1.0, 1.0], velocity = 20.0 }}\n"
        )
    };
    let servos: String = (1..=servos).map(servo).collect();
    let text = format!(
        "[loop]\nrate_hz = 20\n[bus.main]\nlink = \"emulated\"\n[imu]\nlink = \"emulated\"\n\
         [supervisor]\nanswer_s = 0.1\nanswer_ticks = 2\ngrace_s = 0.1\nmissed_replies = 2\nstale_ms = 100.0\noverruns = 2\n\
         controller_slow = 2\ndamping_s = 0.15\nstill_s = 0.05\nheartbeat_ms = 30.0\nheartbeat_from = \"stdin\"\nrecover = \"{recover}\"\n\
         [supervisor.reactions]\n{reactions}\n{servos}"
    );
    RobotConfig::parse(&text, "explored.toml").unwrap()
}

/// One reaction for every trigger that may have it.
fn reactions(all: &str) -> String {
    let triggers = [
        "servo_fault",
        "missed_replies",
        "stale",
        "position",
        "velocity",
        "overruns",
        "imu",
        "tilt",
        "controller",
        "heartbeat",
        "voltage",
        "temperature",
        "bus_down",
    ];
    triggers.map(|trigger| format!("{trigger} = \"{all}\"\n")).concat()
}

fn explored(servos: usize, at_once: usize, kinds: u32, reactions: &str, most_states: usize) {
    explored_with(servos, at_once, kinds, reactions, most_states, ("off", |_| true));
}

fn explored_with(
    servos: usize,
    at_once: usize,
    kinds: u32,
    reactions: &str,
    most_states: usize,
    (recover, only): (&str, fn(&Event) -> bool),
) {
    let robot = robot(servos, reactions, recover);
    let scope = Scope {
        supervisor: assemble::supervisor(&robot),
        settings: robot.supervisor_settings(),
        servos,
        period_ns: PERIOD_NS,
        at_once,
        only,
        kinds,
        symmetric: servos > 1,
        most_states,
    };
    let seen = explore(&scope).unwrap_or_else(|broken| panic!("{broken}"));
    let Seen { states, ticks, depth, phases, settles_within, recovering } = seen;
    // What is off adds no state, and what is on is reached.
    assert_eq!(recovering > 0, recover == "on");
    println!(
        "{servos} servos, up to {at_once} events in a tick: {states} states (by phase {phases:?}), {ticks} ticks, \
         every state within {depth} ticks; asked to stop it settles within {settles_within} ticks"
    );
    // Armed is entered and left within one tick.
    let unseen = Phase::ALL.into_iter().filter(|&phase| phases[phase as usize] == 0 && phase != Phase::Armed);
    assert_eq!(unseen.collect::<Vec<_>>(), []);
}

#[test]
fn every_law_holds_in_every_state() {
    explored(1, 1, ALL, "", 20_000);
    explored(2, 1, ALL, "", 200_000);
}

#[test]
fn every_law_holds_whatever_the_reactions() {
    explored(1, 1, ALL, &reactions("warn"), 120_000);
    explored(1, 1, ALL, &(reactions("stop") + "command = \"stop\"\noperator = \"stop\"\n"), 40_000);
}

/// Of what can happen, what has to do with it.
#[test]
fn every_law_holds_of_a_robot_that_recovers_from_stalls() {
    let only = |event: &Event| {
        let counts = |event| {
            use ServoEvent::{Fast, Fault, Missed, Off, OutOfLimits, TimedOut};
            matches!(event, Missed | Fault | TimedOut | Off | OutOfLimits | Fast)
        };
        match *event {
            Event::Servo(_, event) => counts(event),
            event => {
                matches!(event, Event::HeldUp | Event::Stop(_) | Event::Command(_, CommandEvent::DampJoint))
            }
        }
    };
    explored_with(1, 1, ALL, "", 60_000, ("on", only));
}

/// Minutes, too.
#[test]
#[ignore = "runs for minutes; `cargo xtask prove explore` runs it"]
fn every_law_holds_of_a_robot_that_recovers_whatever_happens() {
    explored_with(1, 1, ALL, "", 2_000_000, ("on", |_| true));
}

/// However many kinds of events.
const ALL: u32 = u32::MAX;

/// Minutes: `cargo xtask prove explore`.
///
/// Two events in a tick, of any kinds, in every state; the traces of at most two kinds are in a state at a time. Once what one kind
/// has left is gone, another may take its place: most counts end with the tick in which nothing adds to them. Without that bound the states
/// are those of all counts at once, and no computer ends.
#[test]
#[ignore = "runs for minutes; `cargo xtask prove explore` runs it"]
fn every_law_holds_with_two_events_at_once() {
    for all in ["warn", "derate", "damp", "stop"] {
        explored(1, 2, 2, &reactions(all), 1_000_000);
    }
    explored(2, 2, 2, "", 1_000_000);
}
