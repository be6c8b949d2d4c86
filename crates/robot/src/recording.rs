//! What records a run: its log, the live view's stream, and what is in every log besides the ticks.

use crate::companions::{Companion, End, Observers};
use crate::recorder::{Recorder, RecorderBuilder, RecorderError};
use crate::records::{RunLog, parameters_record, parameters_schema, robot_record, robot_schema};
use crate::session::SessionError;
use khz_file::config::RobotConfig;
use khz_file::draft;
use khz_loop::console::Console;
use khz_loop::parameters::Parameter;
use khz_loop::tick::Machine;
use khz_loop::timing::Clock;
use khz_rt::Passport;
use khz_run::record::Policy;
use khz_targets::Inbox;
use khz_tlog::Record;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Memory for what is recorded outside the loop.
const SIDE_RING_BYTES: usize = 1 << 20;

/// Who has something to record besides the loop.
pub(crate) struct Besides<'a> {
    pub console: &'a Arc<Console>,
    pub parameters: &'a [Parameter],
    pub targets: Option<&'a Inbox>,
    pub policy: Option<Policy>,
    /// The viewer's socket.
    pub view: Option<OwnedFd>,
}

/// The recording of a run that may still be refused. If it is dropped, it ends and deletes its files: a refused run leaves none.
pub(crate) struct Recording {
    recorder: Option<Recorder>,
    /// The loop's end, until it is attached.
    log: Option<RunLog>,
}

impl Recording {
    /// Begins to record, if a log or a viewer is there for it. Also returns why pages do not draw the robot. `text` is its file's.
    ///
    /// # Errors
    /// The log cannot be begun.
    pub fn start(
        mut builder: RecorderBuilder,
        config: &RobotConfig,
        text: &str,
        besides: Besides<'_>,
    ) -> Result<(Option<Self>, Option<String>), RecorderError> {
        if !config.log.enabled && besides.view.is_none() {
            return Ok((None, None));
        }
        builder = builder.log(config.log.clone());
        if let Some(view) = besides.view {
            builder = builder.view(view);
        }
        if !config.log.enabled {
            builder = builder.no_log();
        }
        let now_ns = match config.timing.clock {
            Clock::Real => khz_rt::now_ns(),
            Clock::Virtual => {
                // Its zero is now.
                builder = builder.virtual_time(khz_rt::clock::realtime_ns());
                0
            }
        };
        let mut log = RunLog::declare(&mut builder, config)?.with_parameters(besides.parameters);
        if let Some(inbox) = besides.targets {
            log = log.with_targets(&mut builder, inbox)?;
        }
        let mut policy_record = None;
        if let Some(policy) = besides.policy {
            log = log.with_decisions(&mut builder, &policy)?;
            let record = builder.record("policy", &Policy::schema())?;
            builder.in_every_file(record);
            policy_record = Some((record, policy.to_bytes()));
        }
        log.report_errors(&mut builder, besides.console);
        let robot = builder.record("robot", &robot_schema())?;
        builder.in_every_file(robot);
        let parameters = builder.record("parameters", &parameters_schema())?;
        let mut side = builder.tap(SIDE_RING_BYTES);
        let recorder = builder.start()?;
        let passport = serde_json::to_string(&Passport::read()).unwrap_or_default();
        let (shape, not_drawn) = match draft::shape(config) {
            Ok(shape) => (shape, None),
            Err(why) => (String::new(), Some(why)),
        };
        side.push(robot, now_ns, &robot_record(config, text, &passport, &shape));
        side.push(parameters, now_ns, &parameters_record(besides.parameters));
        if let Some((record, bytes)) = policy_record {
            side.push(record, now_ns, &bytes);
        }
        Ok((Some(Self { recorder: Some(recorder), log: Some(log) }), not_drawn))
    }
}

impl Companion for Recording {
    fn attach(&mut self, _: &mut Machine, observers: &mut Observers) {
        self.log.take().into_iter().for_each(|log| observers.push(Box::new(log)));
    }

    fn finish(mut self: Box<Self>, end: &mut End) {
        match end {
            Ok(outcome) => outcome.recording = self.recorder.take().map(Recorder::finish),
            // It ran, and the log so far may show the reason.
            Err(SessionError::Panicked(_)) => drop(self.recorder.take()),
            Err(_) => {}
        }
    }

    fn trouble(&self) -> Option<String> {
        self.recorder.as_ref()?.trouble()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let files = self.recorder.take().map(|recorder| recorder.finish().paths);
        // What cannot be removed stays, as an empty log.
        files.into_iter().flatten().for_each(|file| _ = std::fs::remove_file(file));
    }
}
