//! `supervisor.recover = "on"`: a robot goes on after a stall that was longer than its servos' watchdogs, in virtual time.

use khz_emu::{Injection, World};
use khz_file::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::ServoCommand;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::supervisor::{Cause, Phase, Recover, Transition};
use khz_loop::time::{Time, VirtualTime};
use khz_robot::assemble;
use khz_wire::damiao::Special;
use khz_wire::mit::Codes;
use khz_wire::{Frame, Request};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const MS: i64 = 1_000_000;

/// Time of which so much is lost at these moments, ns.
struct Frozen {
    time: VirtualTime,
    stalls: Vec<[i64; 2]>,
}

impl Time for Frozen {
    fn now_ns(&mut self) -> i64 {
        if let Some(&[at_ns, for_ns]) = self.stalls.first()
            && self.time.now_ns() >= at_ns
        {
            self.time.elapse(for_ns);
            self.stalls.remove(0);
        }
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.time.pass(until_ns, links);
    }
}

/// Something that happens to the devices at a time, ns after they were made ready.
type Happening = (i64, fn(&mut World, i64));

/// A bus on which something happens, and all that the host sends is kept, with its time.
struct Watched {
    world: World,
    happening: Arc<Mutex<Option<Happening>>>,
    sent: Arc<Mutex<Vec<(i64, Frame)>>>,
    /// From when to when it loses all that is sent, ns.
    loses: [i64; 2],
    /// When a stop is requested, ns.
    asks: Option<(i64, Arc<AtomicBool>)>,
}

impl Link for Watched {
    khz_link::forward_link!(it => it.world; capabilities, begin_cycle, next_event_ns, imu, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.sent.lock().unwrap().push((now_ns, *request.frame));
        let is_lost = (self.loses[0]..self.loses[1]).contains(&now_ns);
        if is_lost { Ok(()) } else { Link::send(&mut self.world, channel, request, now_ns) }
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        if let Some((_, stop)) = self.asks.take_if(|(at_ns, _)| now_ns >= *at_ns) {
            stop.store(true, Ordering::Relaxed);
        }
        let mut happening = self.happening.lock().unwrap();
        if let Some((_, act)) = happening.take_if(|(at_ns, _)| now_ns >= *at_ns) {
            act(&mut self.world, now_ns);
        }
        drop(happening);
        self.world.receive(now_ns)
    }
}

/// Of each tick its time, and what the first joint is measured and commanded; under control, what the second is commanded.
#[derive(Default)]
struct Path(Vec<(i64, f64, ServoCommand)>, Vec<ServoCommand>);

impl Observer for Path {
    fn tick(&mut self, tick: &Tick<'_>) {
        let (state, commands) = (tick.machine.state(), tick.machine.commands());
        self.0.push((state.now_ns, state.servos[0].position, commands[0]));
        if tick.machine.phase() == Phase::Active {
            self.1.push(commands[1]);
        }
    }
}

struct Outcome {
    transitions: Vec<Transition>,
    path: Vec<(i64, f64, ServoCommand)>,
    second: Vec<ServoCommand>,
    sent: Vec<(i64, Frame)>,
    ready_ns: i64,
}

impl Outcome {
    /// What ended control.
    fn end(&self) -> Cause {
        let ends = |change: &&Transition| change.from == Phase::Active && change.to != Phase::Active;
        self.transitions.iter().find(ends).unwrap().cause
    }

    /// When it recovered, ns, from how long a stall, and how far joints had moved, in ms and mrad.
    fn recoveries(&self) -> Vec<(i64, [f64; 2])> {
        let recovery = |change: &Transition| match change.cause {
            Cause::Recovered { moved, held_up_ns, .. } => {
                assert_eq!((change.from, change.to), (Phase::Active, Phase::Active));
                Some((change.at_ns, [held_up_ns as f64 * 1e-6, moved.abs() * 1e3]))
            }
            _ => None,
        };
        self.transitions.iter().filter_map(recovery).collect()
    }

    /// Special codes to a Damiao after a time, ms, with the command before each.
    fn codes(&self, id: u32, from_ms: i64) -> Vec<[Frame; 2]> {
        let to_it = |(at_ns, frame): &&(i64, Frame)| *at_ns >= from_ms * MS + self.ready_ns && frame.id == id;
        let frames: Vec<Frame> = self.sent.iter().filter(to_it).map(|(_, frame)| *frame).collect();
        let is_special = |frames: &&[Frame]| special(&frames[1]).is_some();
        frames.windows(2).filter(is_special).map(|two| [two[0], two[1]]).collect()
    }
}

fn special(frame: &Frame) -> Option<Special> {
    frame.payload().try_into().ok().and_then(Special::from_bytes)
}

fn is_damp(frame: &Frame) -> bool {
    special(frame).is_none() && Codes::from_bytes(frame.payload().try_into().unwrap()).kp == 0
}

/// Runs a robot for 1.5 s that stands still at these times for so long, ms; time counts from when it is ready.
fn run_with(config: &RobotConfig, stalls: &[[i64; 2]], happening: Option<Happening>) -> Outcome {
    run_at(config, stalls, 0, happening)
}

/// As [`run_with`], without a stall, on a bus that loses everything between these times, ms.
fn run_losing(config: &RobotConfig, loses_ms: [i64; 2]) -> Outcome {
    run_on(config, &[], 0, None, (loses_ms, None))
}

/// As [`run_with`], asked to stop at this time, ms.
fn run_asked(config: &RobotConfig, stalls: &[[i64; 2]], at_ms: i64) -> Outcome {
    run_on(config, stalls, 0, None, ([0; 2], Some(at_ms)))
}

/// As [`run_with`], with stalls that begin so much later within a tick.
fn run_at(
    config: &RobotConfig,
    stalls: &[[i64; 2]],
    offset_ns: i64,
    happening: Option<Happening>,
) -> Outcome {
    run_on(config, stalls, offset_ns, happening, ([0; 2], None))
}

fn run_on(
    config: &RobotConfig,
    stalls: &[[i64; 2]],
    offset_ns: i64,
    happening: Option<Happening>,
    (loses_ms, asks_ms): ([i64; 2], Option<i64>),
) -> Outcome {
    let (sent, happens) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Option<Happening>>>::default());
    let world = config.emulate().unwrap();
    let (stop, loses) = (Arc::<AtomicBool>::default(), loses_ms.map(|ms| ms * MS));
    let asks = asks_ms.map(|ms| (ms * MS, Arc::clone(&stop)));
    let link = Watched { world, happening: Arc::clone(&happens), sent: Arc::clone(&sent), loses, asks };
    let controller = assemble::controller(&config.controller);
    let mut machine = assemble::machine_on(config, controller, Box::new(link));
    let mut time = Frozen { time: VirtualTime::new(0), stalls: Vec::new() };
    machine.make_ready(&mut time).unwrap();
    let ready_ns = time.time.now_ns();
    time.stalls =
        stalls.iter().map(|[at_ms, for_ms]| [ready_ns + at_ms * MS + offset_ns, for_ms * MS]).collect();
    *happens.lock().unwrap() = happening.map(|(at_ns, act)| (ready_ns + at_ns, act));
    let options = RunOptions::of(&config.timing, Some(1500 * MS), stop);
    let (mut stats, mut path) = (RunStats::new(100_000), Path::default());
    run(&mut machine, &mut time, &options, &mut [&mut stats, &mut path]);
    assert!(time.stalls.is_empty() && happens.lock().unwrap().is_none(), "all of it took place");
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    Outcome { transitions: stats.transitions, path: path.0, second: path.1, sent, ready_ns }
}

const FAMILIES: [&str; 2] = [
    "family = \"damiao\"\ndamiao = { model = \"4310\", kp = 20, kd = 1 }",
    "family = \"robstride\"\nrobstride = { model = \"RS02\", kp = 20, kd = 1 }",
];
const DAMIAO: usize = 0;
const MOTEUS: &str = "device = { kp = 20.0, kd = 1.0 }";

/// Two joints that hang on their servos with 1 N·m.
fn robot(family: &str) -> RobotConfig {
    RobotConfig::parse(&lines(family), "test").unwrap()
}

fn lines(family: &str) -> String {
    format!(
        "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\nwatchdog_s = 0.05\n{family}\n\
         limits = {{ position = [-0.5, 0.9], velocity = 2 }}\njoint = {{ inertia = 0.1, gravity = 2.0, start = 0.5 }}\n\
         [[servo]]\nname = \"hip\"\nid = 1\n[[servo]]\nname = \"knee\"\nid = 2\n[supervisor]\nrecover = \"on\""
    )
}

const STALL: [i64; 2] = [700, 60];

#[test]
fn servos_that_have_timed_out_hold_their_joints_again_where_they_are_and_bring_them_back() {
    for family in FAMILIES {
        for offset_ns in [0, 80_000, 250_000, 450_000, 900_000] {
            let outcome = run_at(&robot(family), &[STALL], offset_ns, None);
            assert_eq!(outcome.end(), Cause::TimeOver, "{family} {offset_ns}: {:#?}", outcome.transitions);
            let [(at_ns, [gap_ms, moved_mrad])] = outcome.recoveries()[..] else { panic!("{family}") };
            assert!((57.0..62.0).contains(&gap_ms) && moved_mrad < 30.0, "{family}: {gap_ms} {moved_mrad}");
            let stalled_ns = outcome.ready_ns + STALL[0] * MS;
            let held = outcome.path.iter().rfind(|(at_ns, ..)| *at_ns < stalled_ns).unwrap().1;
            // Never farther away than 50 mrad, and in the end where it was held.
            let after = outcome.path.iter().filter(|it| (at_ns..at_ns + 600 * MS).contains(&it.0));
            let worst = after.map(|(_, position, _)| (position - held).abs()).fold(0.0, f64::max);
            assert!(worst < 0.05, "{family}: {worst}");
            let back = outcome.path.iter().find(|it| it.0 >= at_ns + 500 * MS).unwrap().1;
            assert!((back - held).abs() < 0.002, "{family}: {held} {back}");
        }
    }
}

#[test]
fn gains_come_back_and_the_target_moves_no_faster_than_its_joint() {
    for family in FAMILIES {
        let outcome = run_with(&robot(family), &[STALL], None);
        let (at_ns, _) = outcome.recoveries()[0];
        let held = outcome.path.iter().filter_map(|(now_ns, position, command)| match command {
            ServoCommand::Position(command) => Some((*now_ns, *position, *command)),
            _ => None,
        });
        let held: Vec<_> = held.filter(|it| it.0 > outcome.ready_ns + 759 * MS).collect();
        let (_, position, first) = held[0];
        assert!((first.position - position).abs() < 0.0025 && first.kp_scale == 0.3, "{family}: {first:?}");
        for pair in held.windows(2) {
            let [(now_ns, position, before), (_, _, command)] = pair else { panic!() };
            let step = (command.position - before.position).abs().min((command.position - position).abs());
            assert!(step < 0.0021 && command.kp_scale >= before.kp_scale, "{family} at {now_ns}: {step}");
        }
        let whole = held.iter().find(|(_, _, command)| command.kp_scale == 1.0).unwrap().0;
        assert!((99 * MS..103 * MS).contains(&(whole - at_ns)), "{family}: {}", whole - at_ns);
    }
}

#[test]
fn a_damiao_is_damped_before_it_is_cleared_and_before_it_is_enabled_once() {
    let outcome = run_with(&robot(FAMILIES[DAMIAO]), &[STALL], None);
    let comes_down = |two: &[Frame; 2]| special(&two[1]) != Some(Special::Disable);
    for id in [1, 2] {
        let codes: Vec<_> = outcome.codes(id, 700).into_iter().filter(comes_down).collect();
        let what: Vec<_> = codes.iter().map(|two| special(&two[1])).collect();
        assert!(
            what.contains(&Some(Special::Clear)) && what.last() == Some(&Some(Special::Enable)),
            "{what:?}"
        );
        assert_eq!(what.iter().filter(|code| **code == Some(Special::Enable)).count(), 1);
        for [before, code] in codes {
            // It is cleared until it reports that.
            let again = special(&before) == Some(Special::Clear) && special(&code) == special(&before);
            assert!(is_damp(&before) || again, "before {:?}", special(&code));
        }
    }
}

/// It damps by itself once it has timed out. To clear that it has to be stopped, and whatever comes between then leaves it limp.
#[test]
fn a_moteus_that_has_timed_out_is_left_to_damp() {
    let outcome = run_with(&robot(MOTEUS), &[STALL], None);
    assert!(matches!(outcome.end(), Cause::ServoTimedOut { .. }), "{}", outcome.end());
    assert_eq!(outcome.recoveries(), []);
    let is_on = |it: &&(i64, f64, ServoCommand)| !matches!(it.2, ServoCommand::Stop);
    let last_ns = outcome.path.iter().rfind(is_on).unwrap().0;
    let mut after =
        outcome.path.iter().filter(|it| (outcome.ready_ns + STALL[0] * MS..last_ns).contains(&it.0));
    assert!(!after.any(|it| it.2 == ServoCommand::Stop), "it is stopped before it has come down");
}

/// Whatever happens to the second servo, also in the ticks until its mark is read. No servo is back within the two ticks between that and
/// being switched on.
#[test]
fn one_that_has_another_fault_or_has_lost_its_power_is_not_switched_on_again() {
    let happenings: [fn(&mut World, i64); 4] = [
        |world, now_ns| world.inject(1, Injection::Overheated, now_ns),
        |world, now_ns| world.inject(1, Injection::Reboot, now_ns),
        |world, now_ns| world.inject(1, Injection::RebootTurned(1), now_ns),
        |world, now_ns| world.inject(1, Injection::Power(false), now_ns),
    ];
    for (family, lines) in FAMILIES.into_iter().enumerate() {
        for (n, act) in happenings.into_iter().enumerate() {
            for at_ms in [695, 740, 759, 761, 763, 790] {
                let outcome = run_with(&robot(lines), &[STALL], Some((at_ms * MS, act)));
                assert!(outcome.end().is_trouble(), "{lines} {n} {at_ms}: {}", outcome.end());
                if family == DAMIAO && at_ms < 760 {
                    let codes = outcome.codes(2, 700).into_iter().map(|two| special(&two[1]));
                    assert!(codes.into_iter().all(|code| code == Some(Special::Disable)), "{n} {at_ms}");
                }
            }
        }
    }
}

#[test]
fn a_stall_that_is_too_long_and_the_fourth_within_a_minute_bring_the_robot_down() {
    for family in FAMILIES {
        let still = |family: &str| {
            let mut config = robot(family);
            config.servos.iter_mut().for_each(|servo| servo.settings.joint.gravity = 0.0);
            config
        };
        for (for_ms, recovers) in [(100, true), (290, true), (310, false), (600, false)] {
            let outcome = run_with(&still(family), &[[700, for_ms]], None);
            assert_eq!(outcome.recoveries().len(), usize::from(recovers), "{family} {for_ms}");
            assert_eq!(outcome.end() == Cause::TimeOver, recovers, "{family} {for_ms}: {}", outcome.end());
        }
        let four = [[600, 60], [800, 60], [1000, 60], [1200, 60]];
        let outcome = run_with(&still(family), &four, None);
        assert_eq!(outcome.recoveries().len(), 3, "{family}");
        assert!(outcome.end().is_trouble());
        // Nor while one is not over yet.
        let outcome = run_with(&still(family), &[[700, 60], [770, 60]], None);
        assert!(outcome.recoveries().len() <= 1 && outcome.end().is_trouble(), "{family}: {}", outcome.end());
        // Nor if the loop stands still again before that.
        let outcome = run_with(&still(family), &[[700, 60], [761, 120]], None);
        assert_eq!(outcome.recoveries(), [], "{family}");
        assert!(outcome.end().is_trouble());
    }
}

/// Only the last stall counted where the replies between were lost: an arm was without commands for 1.2 s, and "recovered after 286 ms".
#[test]
fn time_without_the_loop_adds_up_until_every_servo_is_under_control() {
    let mut recovered = Vec::new();
    for family in FAMILIES {
        let mut config = robot(family);
        config.servos.iter_mut().for_each(|servo| servo.settings.joint.gravity = 0.0);
        // Each but the first comes between the answers to the cycle in which the one before was noticed, and the next ones.
        let cases: [(&[[i64; 2]], Option<f64>); 5] = [
            (&[[400, 290], [691, 290], [982, 290]], None),
            (&[[600, 400], [1001, 85]], None),
            (&[[600, 250], [851, 250]], None),
            (&[[600, 100], [701, 90]], Some(190.0)),
            // One that every servo has outlasted is over.
            (&[[900, 40], [960, 280]], Some(280.0)),
        ];
        for (stalls, reported_ms) in cases {
            let outcome = run_at(&config, stalls, 100_000, None);
            let message: Vec<f64> = outcome.recoveries().iter().map(|it| it.1[0]).collect();
            assert_eq!(
                outcome.end().is_trouble(),
                message.is_empty(),
                "{family} {stalls:?}: {}",
                outcome.end()
            );
            let is_it = |message: &f64| {
                reported_ms.is_some_and(|most: f64| (most - 4.0..most + 1.0).contains(message))
            };
            assert!(message.iter().all(is_it), "{family} {stalls:?}: {message:?}");
            recovered.push(message.len());
        }
    }
    assert_eq!(recovered, [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]);
}

/// Each step takes 50 ms at most; a loop that stands still again within that does not count them.
#[test]
fn a_stall_within_a_recovery_ends_it() {
    for family in FAMILIES {
        let config = robot(family);
        let alone = run_with(&config, &[STALL], None);
        let over_ms = (alone.recoveries()[0].0 - alone.ready_ns) / MS;
        let mut failed = 0;
        for at_ms in 760..over_ms {
            let outcome = run_with(&config, &[STALL, [at_ms, 20]], None);
            match outcome.recoveries()[..] {
                [] => {
                    assert!(outcome.end().is_trouble(), "{family} {at_ms}: {}", outcome.end());
                    failed += 1;
                }
                // The second stall came before the servos had reported their timeout.
                [(_, [reported_ms, _])] => {
                    assert!((76.0..82.0).contains(&reported_ms), "{family} {at_ms}: {reported_ms}")
                }
                _ => panic!("{family} {at_ms}"),
            }
        }
        assert!(failed >= 4 && failed + 3 >= over_ms - 760, "{family}: {failed} of {}", over_ms - 760);
    }
}

/// The arm has fallen limp, and is not held again: that is no success.
#[test]
fn an_end_within_a_recovery_is_the_stalls() {
    for family in FAMILIES {
        let config = robot(family);
        let alone = run_with(&config, &[STALL], None);
        let over_ms = (alone.recoveries()[0].0 - alone.ready_ns) / MS;
        let lasts_ms = over_ms - (STALL[0] + STALL[1]);
        let mut ends = [0; 2];
        for after_ms in 2..lasts_ms + 3 {
            // The run takes 1.5 s from when it is ready.
            let planned = run_with(&config, &[[1440 - after_ms, 60]], None);
            let asked = run_asked(&config, &[STALL], alone.ready_ns / MS + STALL[0] + STALL[1] + after_ms);
            for (outcome, ends) in [planned, asked].iter().zip(&mut ends) {
                match outcome.recoveries()[..] {
                    [] => {
                        let is_it =
                            matches!(outcome.end(), Cause::ServoFault { .. } | Cause::ServoReset { .. });
                        assert!(is_it, "{family} {after_ms}: {}", outcome.end());
                        assert_eq!(outcome.transitions.last().unwrap().to, Phase::Fault);
                        *ends += 1;
                    }
                    _ => assert!(!outcome.end().is_trouble(), "{family} {after_ms}: {}", outcome.end()),
                }
            }
        }
        assert!(ends.iter().all(|ends| *ends + 3 >= lasts_ms), "{family}: {ends:?} of {lasts_ms}");
    }
}

/// What it is for: 60 ms in which an arm is limp for 10, and 150, in which it falls.
#[test]
fn an_arm_recovers_from_a_stall_of_60_ms_and_comes_down_after_150() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/openarm_like.toml");
    let mut config = RobotConfig::load(file).unwrap();
    config.supervisor.recover = Recover::On;
    config.servos.iter_mut().for_each(|servo| servo.settings.watchdog_s = 0.05);
    let outcome = run_with(&config, &[[700, 60]], None);
    assert_eq!((outcome.end(), outcome.recoveries().len()), (Cause::TimeOver, 1));
    let message = outcome.transitions.iter().find(|it| matches!(it.cause, Cause::Recovered { .. })).unwrap();
    assert_eq!(message.cause.to_string(), "recovered after 60 ms without the loop, moved 7.2 mrad");
    let outcome = run_with(&config, &[[700, 150]], None);
    assert!(matches!(outcome.end(), Cause::ServoFault { fault, .. } if fault.code == 13));
    assert_eq!(outcome.recoveries(), []);
}

/// In a slow loop a watchdog is as long as two periods: that its servo timed out is no evidence of a stall.
#[test]
fn a_servo_that_timed_out_because_its_frames_were_lost_stays_down() {
    for rate_hz in [20.0, 100.0, 1000.0] {
        for family in FAMILIES {
            let text = lines(family).replace("watchdog_s = 0.05", "watchdog_s = 0.1");
            let mut config =
                RobotConfig::parse(&format!("{text}\nstale_ms = 300\nmissed_replies = 200"), "test").unwrap();
            config.timing.rate_hz = rate_hz;
            config.servos.iter_mut().for_each(|servo| servo.settings.joint.gravity = 0.0);
            let outcome = run_losing(&config, [900, 1040]);
            assert!(outcome.end().is_trouble(), "{rate_hz} {family}: {}", outcome.end());
            assert_eq!(outcome.recoveries(), [], "{rate_hz} {family}");
        }
    }
}

#[test]
fn a_servo_that_has_not_timed_out_is_damped_meanwhile_and_neither_stopped_nor_enabled() {
    for (family, lines) in FAMILIES.into_iter().enumerate() {
        let mut config = robot(lines);
        config.servos[1].settings.watchdog_s = 0.2;
        let outcome = run_with(&config, &[STALL], None);
        assert_eq!((outcome.end(), outcome.recoveries().len()), (Cause::TimeOver, 1), "{lines}");
        let codes = |id| {
            let mut codes = outcome.codes(id, 700);
            codes.retain(|two| special(&two[1]) != Some(Special::Disable));
            codes.len()
        };
        if family == DAMIAO {
            assert!(codes(1) > 0 && codes(2) == 0, "{} {}", codes(1), codes(2));
        }
        assert!(!outcome.second[1..].contains(&ServoCommand::Stop), "{lines}");
    }
}
