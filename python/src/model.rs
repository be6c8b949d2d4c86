//! A trained policy, evaluated as in the loop.

use khz_controllers::policy::{Engine, Evaluator, read};
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A trained policy, an ONNX model, as the controller `policy` evaluates it: from an observation to an action, the same to the last bit.
#[pyclass(frozen, module = "kilohertz")]
pub struct Model {
    model: Mutex<Evaluator>,
    sizes: [usize; 2],
}

#[pymethods]
impl Model {
    /// Reads an ONNX file. Raises OSError if it cannot be read, ValueError if it is no model that can be evaluated.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let shown = path.display().to_string();
        let bytes = read(&path)
            .map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string(), shown.clone())))?;
        let model = Evaluator::load(&bytes, Engine::Auto)
            .map_err(|error| PyValueError::new_err(format!("{shown}: {error}")))?;
        let len = |shape: &[usize]| shape.iter().product();
        let sizes = [len(&model.inputs()[0].shape), len(&model.outputs()[0].shape)];
        Ok(Self { model: Mutex::new(model), sizes })
    }

    /// How many numbers an observation has, and an action.
    #[getter]
    fn sizes(&self) -> (usize, usize) {
        self.sizes.into()
    }

    /// Its output for an observation. What a recurrent model carries goes to the next call.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        observation: PyArrayLike1<'py, f32, AllowTypeChange>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let seen = observation.as_array();
        if seen.len() != self.sizes[0] {
            let (given, wanted) = (seen.len(), self.sizes[0]);
            return Err(PyValueError::new_err(format!(
                "the observation has {given} numbers; the model takes {wanted}"
            )));
        }
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.input_mut(0).iter_mut().zip(seen).for_each(|(to, seen)| *to = *seen);
        model.run().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let carried = model.inputs().len().min(model.outputs().len());
        (1..carried).for_each(|number| model.carry(number, number));
        Ok(PyArray1::from_slice(py, model.output(0)))
    }

    /// Forgets what it carries: the next observation is the first of a run.
    fn reset(&self) {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        (1..model.inputs().len()).for_each(|number| model.input_mut(number).fill(0.0));
    }
}
