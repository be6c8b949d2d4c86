//! Several emulated robots that Python steps in one call, side by side on threads.

use crate::emulated::{Emulated, policy};
use crate::mapped::Mapped;
use crate::stepper::{MOST_TICKS, varied};
use khz_controllers::policy::Outside;
use khz_file::RobotConfig;
use numpy::{Element, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Emulated robots of one file, each with its own time, chance and values.
#[pyclass(frozen, module = "kilohertz")]
pub struct Steppers {
    robots: Mutex<Vec<Option<Emulated>>>,
    config: RobotConfig,
    threads: usize,
    ticks: u32,
    /// Numbers of an observation.
    size: usize,
    mapped: Option<Py<Mapped>>,
    by_policy: bool,
    rise: Option<f64>,
    keyframe: Option<String>,
}

/// A robot to start anew: its number, its seed, and values that replace those of the robot file.
type Begin = (usize, u64, Vec<(String, f64)>);

/// What one robot is to do.
struct Job<'a> {
    number: usize,
    robot: &'a mut Option<Emulated>,
    order: Order<'a>,
    /// Where what is seen goes; `None`: the policy is to receive its signals first.
    seen: Option<&'a mut [f32]>,
}

enum Order<'a> {
    Begin(Box<RobotConfig>, Option<Outside>),
    Decide(&'a [f32]),
}

impl Job<'_> {
    fn work(self, ticks: u32, mapped: Option<&Mapped>) -> PyResult<()> {
        match self.order {
            // The one before goes first: its memory is that of the next.
            Order::Begin(config, policy) => {
                *self.robot = None;
                *self.robot = Some(Emulated::start(&config, policy)?);
            }
            Order::Decide(action) => {
                let robot = self.robot.as_mut().ok_or_else(unbegun)?;
                robot.decide(action, ticks, mapped)?;
            }
        }
        let robot = self.robot.as_mut().ok_or_else(unbegun)?;
        self.seen.into_iter().for_each(|seen| robot.observe(mapped, seen));
        Ok(())
    }
}

impl Steppers {
    /// So many robots that are not started, on so many threads; one decision of them lasts `ticks`.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        config: &RobotConfig,
        count: usize,
        threads: Option<usize>,
        ticks: u32,
        size: usize,
        mapped: Option<Py<Mapped>>,
        by_policy: bool,
        rise: Option<f64>,
        keyframe: Option<String>,
    ) -> PyResult<Self> {
        if ticks > MOST_TICKS {
            return Err(PyValueError::new_err(format!("{ticks} ticks; at most {MOST_TICKS}")));
        }
        let available = || thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(available).clamp(1, count.max(1));
        let robots = Mutex::new((0..count).map(|_| None).collect());
        let config = config.clone();
        Ok(Self { robots, config, threads, ticks, size, mapped, by_policy, rise, keyframe })
    }

    fn robots(&self) -> MutexGuard<'_, Vec<Option<Emulated>>> {
        self.robots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin<'a>(&self, (_, seed, values): &Begin) -> PyResult<Order<'a>> {
        let config = varied(&self.config, values, Some(*seed), self.keyframe.clone())?;
        let policy = self.by_policy.then(|| policy(&config, self.rise)).transpose()?;
        Ok(Order::Begin(Box::new(config), policy))
    }

    /// One item of each robot.
    fn each<T>(&self, of: impl Fn(&Emulated) -> T) -> PyResult<Vec<T>> {
        self.robots().iter().map(|robot| Ok(of(robot.as_ref().ok_or_else(unbegun)?))).collect()
    }
}

#[pymethods]
impl Steppers {
    /// Starts the robots of `begins` anew; all others carry out their row of `actions`. Returns a row of what is seen for each; zeros
    /// without `sees`, where `signal` is to follow.
    #[pyo3(signature = (actions, begins, sees=true))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: PyReadonlyArray2<'py, f32>,
        begins: Vec<Begin>,
        sees: bool,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let mut robots = self.robots();
        let [count, numbers] = [actions.shape()[0], actions.shape()[1]];
        if count != robots.len() || numbers == 0 {
            let text = format!("the actions have {count} rows; there are {} robots", robots.len());
            return Err(PyValueError::new_err(text));
        }
        let actions = actions.as_slice()?;
        let mut orders: Vec<_> = actions.chunks_exact(numbers).map(Order::Decide).collect();
        for begin in &begins {
            let order = orders.get_mut(begin.0).ok_or_else(|| PyValueError::new_err("no such robot"))?;
            *order = self.begin(begin)?;
        }
        let mut seen = vec![0.0; count * self.size];
        let places = seen.chunks_exact_mut(self.size.max(1)).zip(robots.iter_mut()).zip(orders);
        let job = |(number, ((seen, robot), order))| Job { number, robot, order, seen: sees.then_some(seen) };
        let jobs: Vec<Job<'_>> = places.enumerate().map(job).collect();
        let mapped = self.mapped.as_ref().map(Py::get);
        py.detach(|| side_by_side(jobs, self.threads, |job| job.work(self.ticks, mapped)))?;
        table(py, seen, self.size)
    }

    /// Gives the policies their signals, a value of each for every robot, and returns a row of what is seen then for each.
    fn signal<'py>(
        &self,
        py: Python<'py>,
        signals: Vec<(String, Vec<f64>)>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let mut robots = self.robots();
        let mut seen = vec![0.0; robots.len() * self.size];
        let mapped = self.mapped.as_ref().map(Py::get);
        for (number, (robot, seen)) in
            robots.iter_mut().zip(seen.chunks_exact_mut(self.size.max(1))).enumerate()
        {
            let robot = robot.as_mut().ok_or_else(unbegun)?;
            for (name, values) in &signals {
                robot.signal(name, values.get(number).copied().unwrap_or(f64::NAN))?;
            }
            robot.observe(mapped, seen);
        }
        table(py, seen, self.size)
    }

    /// What happened in the last decision, as `kilohertz.VecEnv` reports it, with `active`, `failed` and `posture`: the cosine of the
    /// tilt and the height, NaN without a trunk.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        let outcome = self.each(Emulated::outcome)?;
        info.set_item("time", list(py, outcome.iter().map(|outcome| outcome.time)))?;
        let servos = self.config.servos.len();
        let faults =
            self.each(|robot| robot.state().servos.iter().map(|servo| servo.fault.code).collect())?;
        info.set_item(
            "faults",
            table(py, faults.into_iter().flat_map(Vec::<u32>::into_iter).collect(), servos)?,
        )?;
        info.set_item("missed", list(py, outcome.iter().map(|outcome| outcome.missed)))?;
        info.set_item("late", list(py, outcome.iter().map(|outcome| outcome.late)))?;
        info.set_item("power", list(py, outcome.iter().map(|outcome| outcome.power)))?;
        info.set_item(
            "position",
            table(py, outcome.iter().flat_map(|outcome| outcome.position).collect(), 3)?,
        )?;
        info.set_item(
            "attitude",
            table(py, outcome.iter().flat_map(|outcome| outcome.attitude).collect(), 4)?,
        )?;
        info.set_item(
            "velocity",
            table(py, outcome.iter().flat_map(|outcome| outcome.velocity).collect(), 3)?,
        )?;
        info.set_item("rate", table(py, outcome.iter().flat_map(|outcome| outcome.rate).collect(), 3)?)?;
        info.set_item("active", list(py, self.each(Emulated::is_active)?))?;
        info.set_item("failed", list(py, self.each(Emulated::has_failed)?))?;
        let posture = self.each(|robot| robot.posture().unwrap_or((f64::NAN, f64::NAN)))?;
        info.set_item("posture", table(py, posture.into_iter().flat_map(<[f64; 2]>::from).collect(), 2)?)?;
        Ok(info)
    }

    /// What ended the control of a robot, or kept it from coming under it.
    fn end(&self, number: usize) -> Option<String> {
        self.robots().get(number)?.as_ref()?.end()
    }

    /// How many threads there are.
    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }
}

/// Does all jobs, on this thread and on others.
///
/// # Errors
/// The error of the first robot that has one; the jobs of the others are done.
fn side_by_side<'a>(
    jobs: Vec<Job<'a>>,
    threads: usize,
    work: impl Fn(Job<'a>) -> PyResult<()> + Sync,
) -> PyResult<()> {
    let jobs = Mutex::new(jobs.into_iter());
    let failed: Mutex<Option<(usize, PyErr)>> = Mutex::new(None);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(job) = next() {
            let number = job.number;
            let Err(error) = work(job) else { continue };
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                *failed = Some((number, error));
            }
        }
    };
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, error)| Err(error))
}

fn unbegun() -> PyErr {
    PyValueError::new_err("a robot was never started")
}

fn list<T: Element>(py: Python<'_>, numbers: impl IntoIterator<Item = T>) -> Bound<'_, PyArray1<T>> {
    PyArray1::from_vec(py, numbers.into_iter().collect())
}

/// So many numbers in each row; not copied.
fn table<T: Element>(py: Python<'_>, numbers: Vec<T>, row: usize) -> PyResult<Bound<'_, PyArray2<T>>> {
    let rows = numbers.len().checked_div(row).unwrap_or(0);
    PyArray1::from_vec(py, numbers).reshape([rows, row])
}
