//! One emulated robot that stands still between two decisions of a program.

use crate::error::{CommandError, ConfigError, KilohertzError, cannot_start};
use crate::mapped::Mapped;
use crate::shared::Shared;
use khz_controllers::policy::Outside;
use khz_emu::Trunk;
use khz_file::RobotConfig;
use khz_file::config::ControllerConfig;
use khz_loop::controller::hold_still;
use khz_loop::tick::Machine;
use khz_loop::{Controller, RobotState, ServoCommand};
use khz_robot::assemble::{info, open_links};
use khz_robot::stepped::{Commands, Stepped};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;

/// An emulated robot, just before its controller is to decide.
pub struct Emulated {
    stepped: Stepped,
    world: Shared,
    decides: Decides,
    /// The action before, as it was carried out.
    action: Vec<f32>,
    since: Since,
    /// The trunk when the last decision was taken.
    trunk: Trunk,
    /// When the robot came under control, s.
    begun_s: f64,
    /// Why there is nothing to be decided on.
    blind: Option<String>,
}

/// What an action means.
enum Decides {
    /// What a `Mapped` decides, and whether there was a decision.
    Servos(Commands, Vec<ServoCommand>, bool),
    /// What the robot file's policy decides.
    Policy(Outside),
}

/// What happened since the last decision.
#[derive(Clone, Copy, Default)]
struct Since {
    missed: u32,
    late: u32,
    /// Work of all servos by what they measured, without regard to its sign, J.
    energy: f64,
    /// Seconds.
    lasted: f64,
}

/// What came of a decision.
pub struct Outcome {
    /// Seconds since the episode began.
    pub time: f64,
    pub missed: u32,
    pub late: u32,
    /// Watts.
    pub power: f64,
    /// Of the trunk: m, quaternion, m/s forwards, to the left and up, rad/s.
    pub position: [f64; 3],
    pub attitude: [f64; 4],
    pub velocity: [f64; 3],
    pub rate: [f64; 3],
}

/// The policy of a robot file, with the trainer in place of its model; `rise_s` replaces its `start_s`.
///
/// # Errors
/// `ValueError` if the file has none, `ConfigError` with what does not fit.
pub fn policy(config: &RobotConfig, rise_s: Option<f64>) -> PyResult<Outside> {
    let ControllerConfig::Policy(policy) = &config.controller else {
        let text = "this robot file has no policy ([controller] name = \"policy\"), whose terms and actions `policy=True` means";
        return Err(PyValueError::new_err(text));
    };
    Outside::new(policy, rise_s, &info(config)).map_err(|error| ConfigError::new_err(error.to_string()))
}

impl Emulated {
    /// A robot under control, or one that did not come so far. It is decided for by its policy, if that is given, and else by the code that
    /// commands its servos.
    ///
    /// # Errors
    /// `StartError` if it cannot be emulated.
    pub fn start(config: &RobotConfig, policy: Option<Outside>) -> PyResult<Self> {
        let mut world = None;
        let links = open_links(config, |made| {
            let shared = Shared::new(made);
            world = Some(shared.clone());
            Box::new(shared)
        });
        let links = links.map_err(cannot_start)?;
        let servos = config.servos.len();
        let (decides, controller): (_, Box<dyn Controller>) = match policy {
            Some(policy) => (Decides::Policy(policy.clone()), Box::new(policy)),
            None => {
                let (commands, controller) = Commands::outside(servos);
                (Decides::Servos(commands, vec![ServoCommand::Stop; servos], false), controller)
            }
        };
        let stepped = Stepped::start(config, controller, links);
        let stepped = stepped.map_err(cannot_start)?;
        let world = world.ok_or_else(|| KilohertzError::new_err("this robot has no emulated devices"))?;
        let mut robot = Self {
            trunk: world.ask(|world| world.body().trunk()),
            begun_s: 0.0,
            action: vec![0.0; servos],
            since: Since::default(),
            blind: None,
            stepped,
            world,
            decides,
        };
        robot.rise();
        robot.begun_s = robot.state().time();
        Ok(robot)
    }

    /// Until the policy decides for the first time.
    fn rise(&mut self) {
        let Decides::Policy(policy) = &self.decides else { return };
        while self.stepped.is_active() && !policy.is_due(self.stepped.machine().state()) {
            self.stepped.advance(1, |_| {});
        }
    }

    /// Carries out an action, one number per joint, for so many ticks, fewer if the supervisor takes over.
    ///
    /// # Errors
    /// It is no action of this robot.
    pub fn decide(&mut self, action: &[f32], ticks: u32, mapped: Option<&Mapped>) -> PyResult<()> {
        if action.len() != self.action.len() {
            let (given, servos) = (action.len(), self.action.len());
            let text = format!("the action has {given} numbers; there are {servos} servos");
            return Err(PyValueError::new_err(text));
        }
        self.since = Since::default();
        self.trunk = self.world.ask(|world| world.body().trunk());
        let (since, stepped) = (&mut self.since, &mut self.stepped);
        let mut advance =
            |stepped: &mut Stepped, ticks| _ = stepped.advance(ticks, |machine| since.count(machine));
        match (&mut self.decides, mapped) {
            (Decides::Policy(policy), _) => {
                policy.act(action).map_err(|error| CommandError::new_err(error.to_string()))?;
                self.action.copy_from_slice(action);
                advance(stepped, ticks);
            }
            (Decides::Servos(wanted, commands, has_decided), Some(mapped)) => {
                let delay = mapped.delay.min(ticks);
                if delay > 0 {
                    // As `Decimated`: one that is due now is followed first, and before the first joints stay where they are.
                    if !std::mem::replace(has_decided, true) {
                        hold_still(stepped.machine().state(), commands);
                    }
                    wanted.set(commands);
                }
                mapped.act(action, &mut self.action, commands)?;
                advance(stepped, delay);
                if delay < ticks {
                    wanted.set(commands);
                    advance(stepped, ticks - delay);
                }
            }
            (Decides::Servos(..), None) => {}
        }
        Ok(())
    }

    /// Sets a signal of the policy, as of now.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn signal(&mut self, name: &str, value: f64) -> PyResult<()> {
        let names = if let Decides::Policy(policy) = &self.decides { policy.signals() } else { &[] };
        let Some(place) = names.iter().position(|signal| signal == name) else {
            let text = format!("no term of a policy sees a signal `{name}`; there are: {}", names.join(", "));
            return Err(PyValueError::new_err(text));
        };
        self.stepped.signal(place, value);
        Ok(())
    }

    /// Writes what is seen now; once after each decision.
    pub fn observe(&mut self, mapped: Option<&Mapped>, into: &mut [f32]) {
        let state = self.stepped.machine().state();
        match (&self.decides, mapped) {
            (Decides::Policy(policy), _) if self.stepped.is_active() => {
                self.blind = policy.observe(state, into).err().map(|error| error.to_string());
            }
            (Decides::Servos(..), Some(mapped)) => mapped.see(state, &self.action, into),
            _ => {}
        }
    }

    pub fn state(&self) -> &RobotState {
        self.stepped.machine().state()
    }

    pub fn world(&self) -> &Shared {
        &self.world
    }

    /// What is commanded reaches the servos.
    pub fn is_active(&self) -> bool {
        self.stepped.is_active() && self.blind.is_none()
    }

    /// The simulated body cannot go on.
    pub fn has_failed(&self) -> bool {
        self.world.ask(|world| world.body().failed().is_some())
    }

    /// What ended the control, or kept the robot from coming under it.
    pub fn end(&self) -> Option<String> {
        let failed = self.world.ask(|world| world.body().failed().map(str::to_owned));
        let machine = self.stepped.machine();
        let blamed = || machine.supervisor().blame().or(machine.supervisor().lack());
        let blame = || blamed().map(|cause| machine.explained(cause, None).to_string());
        failed
            .map(|why| format!("the simulated body moves no more: {why}"))
            .or_else(|| self.blind.clone())
            .or_else(blame)
    }

    /// Of the simulated trunk the cosine of its tilt, and its height in m; `None` if the body has none.
    pub fn posture(&self) -> Option<(f64, f64)> {
        self.world.ask(|world| {
            let Trunk { position, attitude: [_, x, y, _], .. } = world.body().trunk();
            world.body().has_trunk().then_some((1.0 - 2.0 * (x * x + y * y), position[2]))
        })
    }

    pub fn outcome(&self) -> Outcome {
        let since = self.since;
        // The motion of a body that no longer moves counts as no speed.
        let now = self.world.ask(|world| {
            let body = world.body();
            (body.has_trunk() && body.failed().is_none()).then(|| body.trunk())
        });
        let (now, velocity) = match now {
            Some(now) => (now, velocity(&self.trunk, &now, since.lasted)),
            None => (Trunk::UPRIGHT, [0.0; 3]),
        };
        Outcome {
            time: self.state().time() - self.begun_s,
            missed: since.missed,
            late: since.late,
            power: if since.lasted > 0.0 { since.energy / since.lasted } else { 0.0 },
            position: now.position,
            attitude: now.attitude,
            velocity,
            rate: now.rate,
        }
    }
}

impl Since {
    fn count(&mut self, machine: &Machine) {
        let dt = machine.state().dt();
        let result = machine.result();
        self.missed += u32::from(result.missed);
        self.late += result.late;
        self.lasted += dt;
        let servos = machine.state().servos.iter();
        let power: f64 = servos.map(|servo| (servo.torque * servo.velocity).abs()).sum();
        // Not every servo reports its torque.
        self.energy += if power.is_finite() { power * dt } else { 0.0 };
    }
}

/// From one place to another: forwards, to the left and up, m/s.
fn velocity(before: &Trunk, now: &Trunk, seconds: f64) -> [f64; 3] {
    if seconds <= 0.0 {
        return [0.0; 3];
    }
    let [x, y, up]: [f64; 3] =
        std::array::from_fn(|axis| (now.position[axis] - before.position[axis]) / seconds);
    let (aside, ahead) = before.yaw().sin_cos();
    [ahead * x + aside * y, ahead * y - aside * x, up]
}
