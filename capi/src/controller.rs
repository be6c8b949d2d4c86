//! A C function in the tick.

use crate::arrays::{Arrays, Command, Recording, State};
use crate::calls::in_controller;
use kilohertz::{ControlError, Controller, Pace, Parameter, RobotInfo, RobotState, ServoCommand};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// `khz_start`.
pub type Start = extern "C" fn(*const State, *mut c_void) -> *const c_char;
/// `khz_update`.
pub type Update = extern "C" fn(*const State, *mut Command, *mut c_void) -> *const c_char;

/// `khz_release`.
pub type Release = extern "C" fn(*mut c_void);

/// The functions of a program, and what they are called with.
#[derive(Clone)]
pub struct Functions {
    pub start: Option<Start>,
    pub update: Update,
    pub user: Arc<User>,
}

/// What the functions are called with. The robot and every controller made for a run share it. A controller that has not
/// returned when its run ends (pipelined mode) keeps its share until it does: only then is it released.
pub struct User {
    user: *mut c_void,
    release: Option<Release>,
}

impl User {
    /// Released by this function, if there is one, when the last share is gone.
    pub fn new(user: *mut c_void, release: Option<Release>) -> Arc<Self> {
        Arc::new(Self { user, release })
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            release(self.user);
        }
    }
}

// SAFETY: the header has the caller give what may be used on the controller's thread, and released on any; we only pass it on.
unsafe impl Send for User {}
// SAFETY: as above; nothing of it changes.
unsafe impl Sync for User {}

/// Calls them.
pub struct CController {
    functions: Functions,
    declared: Vec<Parameter>,
    recording: Option<Recording>,
    /// The run is to end as planned.
    is_finished: bool,
    /// It decides less often than the loop ticks.
    pace: Option<Pace>,
    arrays: Arrays,
}

impl CController {
    /// A controller that declares these parameters and records this.
    pub fn new(functions: Functions, declared: Vec<Parameter>, recording: Option<Recording>) -> Self {
        let arrays = Arrays::new(Vec::new(), false, Vec::new(), None);
        Self { functions, declared, recording, is_finished: false, pace: None, arrays }
    }

    /// The same, deciding less often than the loop ticks if there is a pace.
    pub fn at_pace(self, pace: Option<Pace>) -> Self {
        Self { pace, ..self }
    }
}

impl Controller for CController {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let names = robot.joints.iter().map(|joint| joint.name.clone()).collect();
        // Those of the file first: an index that was given out stays what it is when more are declared. One that the program
        // declares, too, is the program's, with the file's value.
        let of_file = robot.parameters.iter().map(|of_file| {
            self.declared.iter().find(|declared| declared.name == of_file.name).unwrap_or(of_file)
        });
        let parameters = of_file.chain(&self.declared).cloned().collect();
        self.arrays = Arrays::new(names, robot.has_imu, parameters, self.recording.take());
        Ok(())
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.declared.clone()
    }

    fn pace(&self) -> Result<Option<Pace>, ControlError> {
        Ok(self.pace)
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.arrays.hold(state);
        self.is_finished = false;
        let Functions { start: Some(start), user, .. } = &self.functions else { return Ok(()) };
        self.arrays.look(state);
        let (seen, _) = self.arrays.for_c(state);
        outcome(in_controller(|| start(&seen, user.user)))
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.arrays.look(state);
        let (seen, mut command) = self.arrays.for_c(state);
        let Functions { update, user, .. } = &self.functions;
        outcome(in_controller(|| update(&seen, &mut command, user.user)))?;
        self.is_finished = command.finish;
        self.arrays.read(commands)
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

/// What the function returned: NULL, or why it gave up.
fn outcome(text: *const c_char) -> Result<(), ControlError> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the header has the controller return a text that ends by 0 and stays as it is until its next call.
    let text = unsafe { CStr::from_ptr(text) };
    Err(ControlError(text.to_string_lossy().into_owned().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_file::RobotConfig;
    use khz_robot::assemble;
    use khz_rt::alloc_trap::forbid;
    use kilohertz::PositionCommand;
    use kilohertz::record::RecorderBuilder;

    /// Writes every target, asks for a fault and records.
    extern "C" fn busy(state: *const State, command: *mut Command, user: *mut c_void) -> *const c_char {
        let mut text = [0 as c_char; 16];
        // SAFETY: the caller gives a state that lives during the call.
        let seen = unsafe { state.as_ref() };
        let length = crate::arrays::khz_state_fault_text(seen, 0, text.as_mut_ptr(), text.len());
        let is_recorded = crate::arrays::khz_state_record(seen, 0, [1.0, 2.0].as_ptr(), 2);
        // SAFETY: the test gives a place for two numbers.
        unsafe { user.cast::<[usize; 2]>().write([length, usize::from(is_recorded)]) };
        // SAFETY: the caller gives a command that lives during the call.
        let command = unsafe { &mut *command };
        // SAFETY: it has a position for each of twelve servos.
        unsafe { command.position.wrapping_add(11).write(0.25) };
        std::ptr::null()
    }

    extern "C" fn gives_up(_: *const State, _: *mut Command, _: *mut c_void) -> *const c_char {
        c"no more".as_ptr()
    }

    fn controller(update: Update, user: *mut c_void) -> (CController, RobotState) {
        let robot = RobotConfig::quadruped();
        let mut builder = RecorderBuilder::default();
        let fields = khz_tlog::Type::object(["a", "b"].map(|name| (name, khz_tlog::Type::Float64)));
        let records = vec![(builder.record("mine", &fields).unwrap(), 2)];
        let recording = Some(Recording { tap: builder.tap(1 << 20), records });
        let functions = Functions { start: None, update, user: User::new(user, None) };
        let declared = vec![Parameter::float("gain", 0.5, 0.0..=1.0)];
        let mut controller = CController::new(functions, declared, recording);
        controller.prepare(&assemble::info(&robot)).unwrap();
        let mut state = assemble::state(&robot);
        state.servos.iter_mut().for_each(|servo| servo.position = 0.5);
        controller.start(&state).unwrap();
        (controller, state)
    }

    #[test]
    fn a_tick_of_ours_allocates_nothing() {
        let mut seen = [0_usize; 2];
        let (mut controller, state) = controller(busy, (&raw mut seen).cast());
        let mut commands = vec![ServoCommand::Stop; 12];
        // The first call of a thread makes its locals.
        controller.update(&state, &mut commands).unwrap();
        let (result, heap) = forbid(|| (0..100).try_for_each(|_| controller.update(&state, &mut commands)));
        heap.assert_untouched();
        assert_eq!((result, seen), (Ok(()), [4, 1]));
        let ServoCommand::Position(PositionCommand { position, kp_scale, .. }) = commands[11] else {
            panic!("no position")
        };
        assert_eq!((position, kp_scale), (0.25, 1.0));
        let ServoCommand::Position(first) = commands[0] else { panic!("no position") };
        assert_eq!((first.position, first.max_torque.is_nan()), (0.5, true));
    }

    extern "C" fn finishes(_: *const State, command: *mut Command, _: *mut c_void) -> *const c_char {
        // SAFETY: the caller gives a command that lives during the call.
        unsafe { &mut *command }.finish = true;
        std::ptr::null()
    }

    #[test]
    fn a_controller_that_finishes_has_finished() {
        let (mut controller, state) = controller(finishes, std::ptr::null_mut());
        assert!(!controller.is_finished());
        controller.update(&state, &mut vec![ServoCommand::Stop; 12]).unwrap();
        assert!(controller.is_finished());
        controller.start(&state).unwrap();
        assert!(!controller.is_finished());
    }

    extern "C" fn counts(user: *mut c_void) {
        // SAFETY: the test gives a number that lives.
        unsafe { *user.cast::<u32>() += 1 };
    }

    #[test]
    fn what_a_controller_is_called_with_is_released_once_after_the_last_share() {
        let mut released = 0_u32;
        let user = User::new((&raw mut released).cast(), Some(counts));
        let functions = Functions { start: None, update: finishes, user };
        let controller = CController::new(functions.clone(), Vec::new(), None);
        drop(functions);
        assert_eq!(released, 0);
        drop(controller);
        assert_eq!(released, 1);
    }

    #[test]
    fn a_controller_that_gives_up_says_why() {
        let (mut controller, state) = controller(gives_up, std::ptr::null_mut());
        let mut commands = vec![ServoCommand::Stop; 12];
        let error = controller.update(&state, &mut commands).unwrap_err();
        assert_eq!((error.to_string().as_str(), &commands[0]), ("no more", &ServoCommand::Stop));
    }
}
