use super::*;

/// Commands the number of the tick it saw.
struct Echo;

impl Controller for Echo {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        if state.tick == 3 {
            return Err("three".into());
        }
        assert_ne!(state.tick, 13, "a bug in the controller");
        commands.fill(ServoCommand::Position(PositionCommand::hold(state.tick as f64)));
        Ok(())
    }
}

struct Rig {
    pipelined: Pipelined,
    state: RobotState,
    commands: [ServoCommand; 1],
}

impl Rig {
    fn new() -> Self {
        let mut state = RobotState::unknown(1, false, 1_000_000);
        state.servos[0].position = 0.5;
        let pipelined = Pipelined::new(Box::new(Echo), &state, || ()).unwrap();
        Self { pipelined, state, commands: [ServoCommand::Stop] }
    }

    /// An update after the worker has finished the one before.
    fn update(&mut self, tick: u64) -> Result<f64, ControlError> {
        while !self.pipelined.job.is_back() {
            thread::yield_now();
        }
        self.state.tick = tick;
        self.pipelined.update(&self.state, &mut self.commands)?;
        match self.commands[0] {
            ServoCommand::Position(target) => Ok(target.position),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn commands_come_one_tick_later() {
    let mut rig = Rig::new();
    rig.pipelined.start(&rig.state).unwrap();
    assert_eq!(rig.update(1), Ok(0.5));
    assert_eq!(rig.pipelined.beside().and_then(|beside| beside.of_ns), None);
    rig.state.started_ns = 2_000_000;
    assert_eq!(rig.update(2), Ok(1.0));
    rig.state.started_ns = 3_000_000;
    assert_eq!(rig.update(3), Ok(2.0));
    let beside = rig.pipelined.beside().unwrap();
    assert_eq!((beside.is_behind, beside.of_ns), (false, Some(2_000_000)));
    assert_eq!(rig.update(4), Err("three".into()));
}

/// Commands where it was started.
struct Begins(f64, std::sync::mpsc::Receiver<()>);

impl Controller for Begins {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.0 = state.servos[0].position;
        Ok(())
    }

    fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let _ = self.1.recv();
        commands.fill(ServoCommand::Position(PositionCommand::hold(self.0)));
        Ok(())
    }
}

/// What it had computed from its first start was sent.
#[test]
fn one_that_is_started_anew_while_it_computes_begins_with_the_new_state() {
    let mut rig = Rig::new();
    let (go, goes) = std::sync::mpsc::channel();
    rig.pipelined = Pipelined::new(Box::new(Begins(f64::NAN, goes)), &rig.state, || ()).unwrap();
    rig.pipelined.start(&rig.state).unwrap();
    assert_eq!(rig.update(1), Ok(0.5));
    rig.state.servos[0].position = 0.2;
    rig.pipelined.start(&rig.state).unwrap();
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    (0..9).for_each(|_| go.send(()).unwrap());
    assert_eq!([2, 3, 4].map(|tick| rig.update(tick)), [Ok(0.2), Ok(0.2), Ok(0.2)]);
    // One that is still busy when its robot is armed again has not ended its last run.
    rig.state.tick = 100;
    drop(go);
    let (go, goes) = std::sync::mpsc::channel();
    rig.pipelined = Pipelined::new(Box::new(Begins(f64::NAN, goes)), &rig.state, || ()).unwrap();
    rig.pipelined.start(&rig.state).unwrap();
    assert_eq!(rig.update(101), Ok(0.2));
    rig.state.tick = 200;
    assert!(rig.pipelined.start(&rig.state).is_err());
    drop(go);
}

/// Has done what it was to do in tick 2.
struct Brief(u64);

impl Controller for Brief {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.0 = state.tick;
        commands.fill(ServoCommand::Position(PositionCommand::hold(0.0)));
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.0 == 2
    }
}

#[test]
fn what_is_finished_is_known_one_tick_later_and_until_the_next_start() {
    let mut rig = Rig::new();
    rig.pipelined = Pipelined::new(Box::new(Brief(0)), &rig.state, || ()).unwrap();
    rig.pipelined.start(&rig.state).unwrap();
    let mut seen = Vec::new();
    for tick in 1..=3 {
        rig.update(tick).unwrap();
        seen.push(rig.pipelined.is_finished());
    }
    assert_eq!(seen, [false, false, true]);
    while !rig.pipelined.job.is_back() {
        thread::yield_now();
    }
    rig.pipelined.start(&rig.state).unwrap();
    assert!(!rig.pipelined.is_finished());
}

/// Commands the value of its parameter.
struct Tuned(Parameter);

impl Controller for Tuned {
    fn parameters(&self) -> Vec<Parameter> {
        vec![self.0.clone()]
    }

    fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        commands.fill(ServoCommand::Position(PositionCommand::hold(self.0.get())));
        Ok(())
    }
}

#[test]
fn a_parameter_travels_with_the_job() {
    let mut rig = Rig::new();
    let inner = Parameter::float("at", 1.0, 0.0..=9.0);
    let tuned = Box::new(Tuned(inner.clone()));
    rig.pipelined = Pipelined::new(tuned, &rig.state, || ()).unwrap();
    rig.pipelined.start(&rig.state).unwrap();
    rig.update(1).unwrap();
    assert_eq!(rig.update(2), Ok(1.0));
    let outer = rig.pipelined.parameters().remove(0);
    outer.put(2.0);
    // The job under way does not see it.
    assert_eq!((rig.update(3), rig.update(4), inner.get()), (Ok(1.0), Ok(2.0), 2.0));
}

/// Decides in every update, and reports in which of them limits had cut its command.
struct Cut(Decision, std::sync::mpsc::Sender<u64>, bool);

impl Controller for Cut {
    fn cut(&mut self, servos: &[bool]) {
        self.2 = servos == [true];
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        if std::mem::take(&mut self.2) {
            let _ = self.1.send(state.tick);
        }
        commands.fill(ServoCommand::Position(PositionCommand::hold(state.tick as f64)));
        Ok(())
    }

    fn decided(&self) -> Option<&Decision> {
        Some(&self.0)
    }
}

#[test]
fn one_that_decides_learns_which_commands_were_cut() {
    let mut rig = Rig::new();
    let (sender, received) = std::sync::mpsc::channel();
    let cut = Cut(Decision::default(), sender, false);
    rig.pipelined = Pipelined::new(Box::new(cut), &rig.state, || ()).unwrap();
    rig.pipelined.start(&rig.state).unwrap();
    for tick in 1..9 {
        rig.update(tick).unwrap();
        if let (5, ServoCommand::Position(command)) = (tick, &mut rig.commands[0]) {
            command.position -= 0.25;
        }
    }
    drop(rig);
    assert_eq!(received.into_iter().collect::<Vec<_>>(), [6]);
}

#[test]
fn a_panic_becomes_an_error() {
    let mut rig = Rig::new();
    rig.pipelined.start(&rig.state).unwrap();
    rig.update(13).unwrap();
    let ControlError(text) = rig.update(14).unwrap_err();
    assert!(
        text.starts_with("the controller panicked: ") && text.contains("a bug in the controller"),
        "{text}"
    );
}

/// Does not return until it is released.
struct Stuck(std::sync::mpsc::Receiver<()>);

impl Controller for Stuck {
    fn update(&mut self, _: &RobotState, _: &mut [ServoCommand]) -> Result<(), ControlError> {
        let _ = self.0.recv();
        Ok(())
    }
}

/// Stuck in its first update, until the sender is gone.
fn stuck() -> (Rig, std::sync::mpsc::Sender<()>) {
    let (release, held) = std::sync::mpsc::channel();
    let mut rig = Rig::new();
    rig.pipelined = Pipelined::new(Box::new(Stuck(held)), &rig.state, || ()).unwrap();
    rig.pipelined.start(&rig.state).unwrap();
    rig.update(0).unwrap();
    (rig, release)
}

#[test]
fn the_end_does_not_wait_for_a_controller_that_never_returns() {
    let (mut rig, release) = stuck();
    assert!(rig.pipelined.profile().is_empty());
    drop(rig);
    let (unasked, also_release) = stuck();
    drop(unasked);
    // Only now; the test would not come here otherwise.
    drop((release, also_release));
}

#[test]
fn a_controller_that_never_finishes_is_an_error_when_patience_is_over() {
    let (mut rig, release) = stuck();
    rig.pipelined = rig.pipelined.patient(7);
    let late = |rig: &mut Rig| rig.pipelined.update(&rig.state, &mut rig.commands);
    assert!(rig.pipelined.beside().is_some_and(|beside| !beside.is_behind));
    for tick in 0..7 {
        // A loop that is always late itself is no excuse.
        rig.state.elapsed_ns = 1_000_000 * if tick % 2 == 0 { 60 } else { 1 };
        assert_eq!(late(&mut rig), Ok(()));
    }
    assert!(late(&mut rig).is_err() && rig.pipelined.beside().is_some_and(|beside| beside.is_behind));
    drop(release);
}

#[test]
fn a_controller_that_waits_for_something_takes_its_own_time() {
    let (mut rig, release) = stuck();
    // It comes to wait, eventually.
    while rig.pipelined.thread.get().is_none_or(OtherThread::is_runnable) {
        thread::yield_now();
    }
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    let before_ns = rig.pipelined.waited_ns();
    for _ in 0..9 {
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    }
    assert_eq!(rig.pipelined.waited_ns(), before_ns);
    drop(release);
}

/// What a look at a job sees.
fn look(under_way: UnderWay, thread: Option<&OtherThread>, now_ns: i64) -> i64 {
    let mut looked = under_way;
    looked.look(thread, now_ns);
    looked.waited_ns
}

#[test]
fn time_that_a_runnable_thread_did_not_get_was_spent_waiting_for_a_cpu() {
    // This thread runs, and so it is runnable.
    let this = OtherThread::current().unwrap();
    let begun = UnderWay { at_ns: 0, cpu_ns: this.cpu_ns().unwrap(), waited_ns: 0 };
    let later_ns = 3_600_000_000_000;
    let waited_ns = look(begun, Some(&this), later_ns);
    let ran_ns = this.cpu_ns().unwrap() - begun.cpu_ns;
    assert!(waited_ns < later_ns && waited_ns >= later_ns - ran_ns, "{waited_ns}");
    // One that cannot be seen takes its own time.
    assert_eq!(look(begun, None, later_ns), 0);
}

#[test]
fn a_controller_has_its_time_again_after_the_loop_was_held_up() {
    let (mut rig, release) = stuck();
    let long_ns = 5_000_000;
    let given_ns = rig.pipelined.given_ns;
    while now_ns() - given_ns < long_ns {
        thread::yield_now();
    }
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    assert!(rig.pipelined.elsewhere_ns() >= long_ns);
    rig.state.elapsed_ns = 60_000_000;
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    assert!(rig.pipelined.given_ns > given_ns, "it counts from when the loop came back");
    // What it takes from then on counts, and what passed before does not.
    rig.state.elapsed_ns = 1_000_000;
    release.send(()).unwrap();
    while !rig.pipelined.job.is_back() {
        thread::yield_now();
    }
    let back_ns = rig.pipelined.given_ns;
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    assert!(rig.pipelined.elsewhere_ns() <= now_ns() - back_ns);
    drop(release);
}

#[test]
fn a_slow_update_reports_its_own_duration_until_one_is_faster() {
    let (mut rig, release) = stuck();
    let given_ns = rig.pipelined.given_ns;
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    assert!(rig.pipelined.elsewhere_ns() > 0);
    let slow_ns = 20_000_000;
    while now_ns() - given_ns < slow_ns {
        thread::yield_now();
    }
    release.send(()).unwrap();
    while !rig.pipelined.job.is_back() {
        thread::yield_now();
    }
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    assert!(rig.pipelined.elsewhere_ns() >= slow_ns, "it took {}", rig.pipelined.elsewhere_ns());
    // The next one is under way for less, and proves nothing yet.
    rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
    assert!(rig.pipelined.elsewhere_ns() >= slow_ns);
    drop(release);
}
