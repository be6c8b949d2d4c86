//! Parameters of a controller: declared in Python, read every tick, changed while the robot runs.

use khz_loop::parameters::settings::ParameterKind;
use khz_loop::parameters::{LiveParameters, Parameter};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt};
use serde_json::{Value, json};

/// A number of a controller that may be changed while it runs. A boolean has no range; a number is whole if `default`, `min`
/// and `max` are integers.
#[pyclass(frozen, name = "Parameter", module = "kilohertz")]
pub struct Declared {
    kind: ParameterKind,
    default: f64,
    min: f64,
    max: f64,
    unit: String,
    text: String,
}

#[pymethods]
impl Declared {
    #[new]
    #[pyo3(signature = (default, *, min=None, max=None, unit="", text=""))]
    fn new(
        default: &Bound<'_, PyAny>,
        min: Option<Bound<'_, PyAny>>,
        max: Option<Bound<'_, PyAny>>,
        unit: &str,
        text: &str,
    ) -> PyResult<Self> {
        let (unit, text) = (unit.to_owned(), text.to_owned());
        if default.is_instance_of::<PyBool>() {
            if min.is_some() || max.is_some() {
                return Err(PyValueError::new_err("a boolean has no range"));
            }
            let default = f64::from(u8::from(default.is_truthy()?));
            return Ok(Self { kind: ParameterKind::Boolean, default, min: 0.0, max: 1.0, unit, text });
        }
        let (Some(min), Some(max)) = (min, max) else {
            return Err(PyValueError::new_err("a number needs `min` and `max`: what a person may set it to"));
        };
        let is_whole = [default, &min, &max].iter().all(|number| number.is_instance_of::<PyInt>());
        let kind = if is_whole { ParameterKind::Integer } else { ParameterKind::Float };
        Ok(Self { kind, default: default.extract()?, min: min.extract()?, max: max.extract()?, unit, text })
    }

    fn __repr__(&self) -> String {
        let Self { default, min, max, unit, .. } = self;
        match self.kind {
            ParameterKind::Boolean => {
                format!("<Parameter: {}>", if *default == 0.0 { "False" } else { "True" })
            }
            _ => format!("<Parameter: {default} {unit} within {min} to {max}>"),
        }
    }
}

impl Declared {
    fn named(&self, name: &str) -> Parameter {
        let parameter = match self.kind {
            ParameterKind::Float => Parameter::float(name, self.default, self.min..=self.max),
            ParameterKind::Integer => {
                Parameter::integer(name, self.default as i64, self.min as i64..=self.max as i64)
            }
            ParameterKind::Boolean => Parameter::boolean(name, self.default != 0.0),
        };
        parameter.in_unit(&*self.unit).about(&*self.text)
    }
}

/// What a controller declares by its attribute `parameters`: a dictionary of names and [`Declared`]s. Any other attribute of
/// that name is its own business.
///
/// # Errors
/// `TypeError` for a dictionary in which only some values are parameters.
pub fn declared_by(controller: &Bound<'_, PyAny>) -> PyResult<Vec<Parameter>> {
    let Some(given) = controller.getattr_opt("parameters")? else { return Ok(Vec::new()) };
    let Ok(given) = given.cast::<PyDict>() else { return Ok(Vec::new()) };
    let is_parameter = |value: &Bound<'_, PyAny>| value.is_instance_of::<Declared>();
    if !given.iter().any(|(_, value)| is_parameter(&value)) {
        return Ok(Vec::new());
    }
    let named = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<Parameter> {
        let wrong = || PyTypeError::new_err(format!("parameters[{name}] is no kilohertz.Parameter"));
        let name: String = name.extract()?;
        Ok(value.cast::<Declared>().map_err(|_| wrong())?.get().named(&name))
    };
    given.iter().map(named).collect()
}

/// Parameters by their names: a mapping of the values that the newest tick uses.
#[pyclass(frozen, mapping, module = "kilohertz")]
pub struct Parameters(pub Vec<Parameter>);

#[pymethods]
impl Parameters {
    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let parameter = find(&self.0, name)?;
        let value = parameter.get();
        Ok(match parameter.kind {
            ParameterKind::Float => value.into_pyobject(py)?.into_any().unbind(),
            ParameterKind::Integer => (value as i64).into_pyobject(py)?.into_any().unbind(),
            ParameterKind::Boolean => PyBool::new(py, value != 0.0).to_owned().into_any().unbind(),
        })
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.0.iter().any(|parameter| parameter.name == name)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys().into_pyobject(py)?.try_iter()?.into_any())
    }

    /// The names.
    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|parameter| parameter.name.as_str()).collect()
    }

    /// Everything known of them as JSON, as in the record `parameters`.
    fn json(&self) -> String {
        self.0.iter().map(Parameter::described).collect::<Value>().to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let pair = |parameter: &Parameter| -> PyResult<String> {
            let value = self.__getitem__(py, &parameter.name)?;
            Ok(format!("{}: {}", parameter.name, value.bind(py).repr()?))
        };
        let pairs = self.0.iter().map(pair).collect::<PyResult<Vec<_>>>()?;
        Ok(format!("<Parameters: {}>", pairs.join(", ")))
    }
}

/// Changes values together, and waits until a tick has taken them.
///
/// # Errors
/// `KeyError` for an unknown name; `ValueError` for a value that is not taken, or a robot that is down.
pub fn set(py: Python<'_>, live: &LiveParameters, values: &Bound<'_, PyDict>) -> PyResult<()> {
    let mut changes = Vec::with_capacity(values.len());
    for (name, value) in values {
        let name: String = name.extract()?;
        let number = find(live.list(), &name)?.read(&json_of(&value)?);
        changes.push((name, number.map_err(refused)?));
    }
    let changes: Vec<_> = changes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    match py.detach(|| live.change("python", &changes)).map_err(refused)? {
        Some(_) => Ok(()),
        None => Err(PyValueError::new_err("no tick has taken the change yet")),
    }
}

fn json_of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyBool>() {
        return Ok(json!(value.is_truthy()?));
    }
    let number: f64 = value.extract()?;
    // JSON has no such numbers.
    if number.is_finite() {
        Ok(json!(number))
    } else {
        Err(PyValueError::new_err(format!("{number} is not a finite number")))
    }
}

fn find<'a>(list: &'a [Parameter], name: &str) -> PyResult<&'a Parameter> {
    list.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
        let known: Vec<&str> = list.iter().map(|parameter| parameter.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        PyKeyError::new_err(format!("no parameter is called {name:?}; there are: {known}"))
    })
}

fn refused(error: khz_loop::parameters::ParameterError) -> PyErr {
    PyValueError::new_err(error.0)
}
