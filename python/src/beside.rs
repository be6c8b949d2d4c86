//! Python beside the loop: the newest state out, the newest command in, at Python's own rate.

use khz_loop::controller::RobotInfo;
use khz_loop::parameters::Parameter;
use khz_loop::run::{Observer, Tick};
use khz_loop::{ControlError, Controller, PositionCommand, RobotState, ServoCommand};
use khz_rt::now_ns;

/// Commands on their way into the loop.
#[derive(Clone)]
pub struct Order {
    pub commands: Vec<ServoCommand>,
    /// When they were given; 0: none yet.
    pub at_ns: i64,
    /// Over which time positions go to their targets in a straight line.
    pub over_ns: i64,
}

/// The loop's end: holds every joint until the first order, then carries out the newest one.
///
/// # Realtime contract
/// Neither allocates nor locks: newest values travel through [`khz_rt::newest`].
pub struct Beside {
    states: khz_rt::Writer<RobotState>,
    orders: khz_rt::Reader<Order>,
    age_limit_ns: i64,
    /// Where each position was when the newest order came.
    from: Vec<f64>,
    seen_ns: i64,
    /// Those of the robot file: read by Python, beside the loop.
    parameters: Vec<Parameter>,
}

/// Python's end.
pub struct Operator {
    pub states: khz_rt::Reader<RobotState>,
    /// `None`: the robot follows targets.
    pub orders: Option<khz_rt::Writer<Order>>,
}

/// Shows Python the state of a robot whose own controller runs.
pub struct Window(khz_rt::Writer<RobotState>);

impl Window {
    /// The two ends, for a robot whose state looks like `state`.
    pub fn new(state: &RobotState) -> (Self, Operator) {
        let (states_in, states) = khz_rt::newest(state);
        (Self(states_in), Operator { states, orders: None })
    }
}

impl Observer for Window {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0.value().copy_from(tick.machine.state());
        self.0.publish();
    }
}

impl Beside {
    /// The two ends, for a robot whose state looks like `state`. Without an order for `age_limit_ns` the
    /// controller gives up, and the supervisor brings the robot down gently.
    pub fn new(state: &RobotState, age_limit_ns: i64) -> (Self, Operator) {
        let servos = state.servos.len();
        let order = Order { commands: vec![ServoCommand::Stop; servos], at_ns: 0, over_ns: 0 };
        let (state_in, state_out) = khz_rt::newest(state);
        let (order_in, order_out) = khz_rt::newest(&order);
        let from = vec![f64::NAN; servos];
        let beside = Self {
            states: state_in,
            orders: order_out,
            age_limit_ns,
            from,
            seen_ns: 0,
            parameters: Vec::new(),
        };
        (beside, Operator { states: state_out, orders: Some(order_in) })
    }

    fn publish(&mut self, state: &RobotState) {
        self.states.value().copy_from(state);
        self.states.publish();
    }
}

impl Controller for Beside {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        self.parameters.clone_from(&robot.parameters);
        Ok(())
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.publish(state);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.publish(state);
        let order = self.orders.read();
        if order.at_ns == 0 {
            // Where the robot was found, not where it is now: it would sink.
            hold_once(state, commands);
            return Ok(());
        }
        if order.at_ns != self.seen_ns {
            self.seen_ns = order.at_ns;
            for ((from, command), servo) in self.from.iter_mut().zip(commands.iter()).zip(&state.servos) {
                *from = commanded(command).unwrap_or(servo.position);
            }
        }
        let age_ns = now_ns() - order.at_ns;
        if age_ns > self.age_limit_ns {
            return Err("no command came from Python within its age limit".into());
        }
        let part = if order.over_ns > 0 { (age_ns as f64 / order.over_ns as f64).min(1.0) } else { 1.0 };
        for ((command, ordered), &from) in commands.iter_mut().zip(&order.commands).zip(&self.from) {
            *command = on_the_way(*ordered, from, part);
        }
        Ok(())
    }
}

fn commanded(command: &ServoCommand) -> Option<f64> {
    match command {
        ServoCommand::Position(position) if position.position.is_finite() => Some(position.position),
        _ => None,
    }
}

/// The command a part of the way from `from` to its target.
fn on_the_way(ordered: ServoCommand, from: f64, part: f64) -> ServoCommand {
    match ordered {
        ServoCommand::Position(target) if target.position.is_finite() && part < 1.0 => {
            let position = from + (target.position - from) * part;
            ServoCommand::Position(PositionCommand { position, ..target })
        }
        other => other,
    }
}

fn hold_once(state: &RobotState, commands: &mut [ServoCommand]) {
    for (command, servo) in commands.iter_mut().zip(&state.servos) {
        if commanded(command).is_none() {
            *command = ServoCommand::Position(PositionCommand::hold(servo.position));
        }
    }
}
