//! `khz_run`: a robot that runs, or has run.

use crate::calls::{Problem, Status, Text, c_string, call, call_in_tick, is_in_controller, there};
use kilohertz::targets::Inbox;
use kilohertz::{Finished, LiveParameters, Parameter};
use std::ffi::{CString, c_char};
use std::mem::{ManuallyDrop, replace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `khz_run`.
pub struct Run {
    stop: Arc<AtomicBool>,
    /// `None`: it has been waited for from the start.
    live: Option<LiveParameters>,
    /// Where targets arrive, of a robot that follows them.
    targets: Option<Inbox>,
    stage: Mutex<Stage>,
}

enum Stage {
    Running(Box<kilohertz::Run>),
    /// A thread waits for it.
    Waiting,
    Over(Arc<Over>),
    /// The loop never ran, or a bug ended it.
    Failed(Status, String),
}

/// A run that was waited for.
struct Over {
    finished: Mutex<Finished>,
    /// Why it did not end as planned.
    why: Option<String>,
    parameters: Vec<Parameter>,
    summary: CString,
    table: CString,
    end: CString,
}

impl Run {
    /// A run that has just begun.
    pub fn running(run: kilohertz::Run) -> Self {
        let (live, targets) = (Some(run.parameters()), run.targets_inbox());
        Self { stop: run.stop_flag(), live, targets, stage: Mutex::new(Stage::Running(Box::new(run))) }
    }

    /// A run that is over.
    pub fn finished(finished: Finished) -> Self {
        Self { stop: Arc::default(), live: None, targets: None, stage: Mutex::new(Stage::over(finished)) }
    }

    /// Where its targets arrive; `None`: it follows none.
    pub fn targets(&self) -> Option<&Inbox> {
        self.targets.as_ref()
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end, once.
    fn wait(&self) -> Result<(), Problem> {
        let taken = {
            let mut stage = self.stage();
            match &*stage {
                Stage::Running(_) => replace(&mut *stage, Stage::Waiting),
                Stage::Waiting => return Err(Problem::not_now("another thread waits for this run")),
                Stage::Over(_) | Stage::Failed(..) => return stage.ended(),
            }
        };
        let over = match taken {
            Stage::Running(run) => match run.finish() {
                Ok(finished) => Stage::over(finished),
                Err(error) => Stage::Failed(Status::Start, error.to_string()),
            },
            other => other,
        };
        let mut stage = self.stage();
        *stage = over;
        stage.ended()
    }

    fn over(&self) -> Result<Arc<Over>, Problem> {
        match &*self.stage() {
            Stage::Over(over) => Ok(Arc::clone(over)),
            Stage::Failed(status, text) => Err(Problem(*status, text.clone())),
            _ => Err(Problem::not_now("this run was not waited for: call khz_run_wait first")),
        }
    }

    /// Its parameters; the values are those in force.
    fn parameters(&self) -> Result<Vec<Parameter>, Problem> {
        match &self.live {
            Some(live) => Ok(live.list().to_vec()),
            None => Ok(self.over()?.parameters.clone()),
        }
    }
}

impl Stage {
    fn over(finished: Finished) -> Self {
        let summary = serde_json::to_string(&finished.summary).unwrap_or_default();
        Self::Over(Arc::new(Over {
            why: finished.ended_well().err().map(|error| error.to_string()),
            parameters: finished.parameters().to_vec(),
            summary: c_string(summary),
            table: c_string(finished.summary.to_string()),
            end: c_string(finished.summary.end.as_str()),
            finished: Mutex::new(finished),
        }))
    }

    /// How it ended.
    fn ended(&self) -> Result<(), Problem> {
        match self {
            Self::Over(over) => over.why.clone().map_or(Ok(()), |why| Err(Problem(Status::BroughtDown, why))),
            Self::Failed(status, text) => Err(Problem(*status, text.clone())),
            Self::Running(_) | Self::Waiting => Ok(()),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_stop(run: Option<&Run>) -> Status {
    call_in_tick(|| {
        there(run, "run")?.stop.store(true, Ordering::Relaxed);
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_is_over(run: Option<&Run>) -> bool {
    call_in_tick(|| {
        let run = there(run, "run")?;
        // Within the controller the run is not over; that is answered without waiting for the lock.
        let over = |stage: &Stage| match stage {
            Stage::Running(run) => run.is_over(),
            Stage::Waiting => false,
            Stage::Over(_) | Stage::Failed(..) => true,
        };
        Ok(!is_in_controller() && over(&run.stage()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_arm(run: Option<&Run>) -> Status {
    call(|| match &*there(run, "run")?.stage() {
        Stage::Running(run) => {
            run.arm().map(|()| Status::Ok).map_err(|error| Problem::not_now(error.to_string()))
        }
        _ => Err(Problem::not_now("this run is being waited for, or over")),
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_wait(run: Option<&Run>) -> Status {
    call(|| there(run, "run")?.wait().map(|()| Status::Ok))
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_summary(run: Option<&Run>) -> *const c_char {
    // The text stays where it is: what is over stays so.
    call(|| Ok(there(run, "run")?.over()?.summary.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_table(run: Option<&Run>) -> *const c_char {
    call(|| Ok(there(run, "run")?.over()?.table.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_end(run: Option<&Run>) -> *const c_char {
    call(|| Ok(there(run, "run")?.over()?.end.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_report(run: Option<&Run>, path: Text<'_>) -> Status {
    call(|| {
        let (over, path) = (there(run, "run")?.over()?, path.get("path")?);
        over.finished.lock().unwrap_or_else(PoisonError::into_inner).report(path)?;
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_parameters(run: Option<&Run>) -> *mut c_char {
    call(|| {
        let list = there(run, "run")?.parameters()?;
        let all: serde_json::Value = list.iter().map(Parameter::described).collect();
        Ok(c_string(all.to_string()).into_raw())
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_get_parameter(run: Option<&Run>, name: Text<'_>, value: Option<&mut f64>) -> Status {
    call(|| {
        let (run, name, value) = (there(run, "run")?, name.get("name")?, there(value, "value")?);
        let list = run.parameters()?;
        let known = || list.iter().map(|parameter| parameter.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = list.iter().find(|parameter| parameter.name == name);
        let text = || Problem::invalid(format!("no parameter is called `{name}`; there are: {}", known()));
        *value = found.ok_or_else(text)?.get();
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_set_parameter(run: Option<&Run>, name: Text<'_>, value: f64) -> Status {
    call(|| {
        let (run, name) = (there(run, "run")?, name.get("name")?);
        let live = run.live.as_ref().ok_or_else(|| Problem::not_now("the robot is down"))?;
        let refused = |error: kilohertz::ParameterError| Problem::invalid(error.to_string());
        let taken = live.change("c", &[(name, value)]).map_err(refused)?;
        taken.ok_or_else(|| Problem::not_now("no tick has taken the change yet"))?;
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn khz_run_free(run: Option<Box<Run>>) {
    // Within a controller it would wait for itself: refused there, it must not be freed on the way out either.
    let mut run = ManuallyDrop::new(run);
    call(|| {
        if let Some(run) = run.take() {
            run.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    });
}
