//! The functions of libmujoco that a body needs, opened at run time. Only this file contains `unsafe`.
//!
//! No struct of MuJoCo is laid out here: everything is asked for and set by functions whose signatures are the same in all
//! versions from 3.0 to 4.0. What did change is the meaning of the bits that name parts of the state, at 3.5.0; [`Api::open`]
//! chooses by the version, and [`Loaded::load`] compares the sizes that the model reports with each other.
//!
//! An error inside libmujoco ends the process, by its design; the hook only makes the text visible. Warnings are kept for
//! the thread that stepped.

use crate::state::Part;
use arrayvec::ArrayString;
use khz_rt::library::{self, Absent, SharedLibrary};
use libloading::Library;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// Versions before and from which the bits of the state changed, as `mj_version` counts.
const OLD: std::ops::RangeInclusive<i32> = 300..=340;
const NEW: std::ops::RangeInclusive<i32> = 3_005_000..=4_000_999;

/// Names the library, or a folder to search.
const VARIABLE: &str = "KHZ_MUJOCO";
static LIBRARY: SharedLibrary =
    SharedLibrary { name: "MuJoCo", variable: VARIABLE, package: "mujoco", file: "libmujoco" };

/// Bytes for the text of an error; MuJoCo cuts it off.
const TEXT: usize = 1000;

/// Types of objects, the same in all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Object {
    /// A joint.
    Joint = 3,
    /// A site.
    Site = 6,
    /// A sensor.
    Sensor = 20,
    /// A keyframe.
    Key = 24,
}

/// Why MuJoCo cannot be used, or not this model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MujocoError {
    /// There is none that can be opened.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// A version that was never tried.
    #[error(
        "{path} is MuJoCo {version}: versions 3.0 to 4.0 can be used; run `pip install 'mujoco>=3,<4.1'`"
    )]
    Version {
        /// The library.
        path: PathBuf,
        /// The version it reports.
        version: String,
    },
    /// A function is missing.
    #[error("{path} is no libmujoco that can be used: {what}")]
    Unfit {
        /// The library.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// The model.
    #[error("{path}: {what}")]
    Model {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Declares the functions: each a field of the same name, looked up by it.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case, reason = "the names of MuJoCo")]
        struct Functions {
            $($(#[$doc])* $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// From 3.5.0.
            mj_readSensor: Option<ReadSensor>,
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of the headers, which are the same in all versions that are accepted.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    // SAFETY: as above.
                    mj_readSensor: unsafe { library.get(b"mj_readSensor\0") }.ok().map(|found| *found),
                })
            }
        }
    };
}

type Model = *mut c_void;
type Data = *mut c_void;
type ReadSensor = unsafe extern "C" fn(Model, Data, c_int, f64, *mut f64, c_int) -> *const f64;
type Hook = unsafe extern "C" fn(*const c_char);

functions! {
    mj_loadXML: fn(*const c_char, *const c_void, *mut c_char, c_int) -> Model;
    mj_saveLastXML: fn(*const c_char, Model, *mut c_char, c_int) -> c_int;
    mj_deleteModel: fn(Model);
    mj_makeData: fn(Model) -> Data;
    mj_deleteData: fn(Data);
    mj_step: fn(Model, Data);
    mj_forward: fn(Model, Data);
    mj_resetData: fn(Model, Data);
    mj_resetDataKeyframe: fn(Model, Data, c_int);
    mj_stateSize: fn(Model, c_int) -> c_int;
    mj_getState: fn(Model, Data, *mut f64, c_int);
    mj_setState: fn(Model, Data, *const f64, c_int);
    mj_name2id: fn(Model, c_int, *const c_char) -> c_int;
    mj_id2name: fn(Model, c_int, c_int) -> *const c_char;
    mj_getTotalmass: fn(Model) -> f64;
    mj_integratePos: fn(Model, *mut f64, *const f64, f64);
    mj_objectAcceleration: fn(Model, Data, c_int, c_int, *mut f64, c_int);
    mj_rnePostConstraint: fn(Model, Data);
    mj_contactForce: fn(Model, Data, c_int, *mut f64);
}

/// The library, opened once for the process and never closed: its hooks point to us.
pub struct Api {
    functions: Functions,
    version: i32,
    path: PathBuf,
}

impl MujocoError {
    /// The library cannot be opened: it is not there, or it is no library.
    fn unopened(path: &Path, what: &str) -> Self {
        match path.is_file() {
            true => Self::Unfit { path: path.to_owned(), what: what.to_owned() },
            false => Absent::Missing(&LIBRARY, what.to_owned()).into(),
        }
    }
}

impl Api {
    /// Opens the library, the first time; looks at the environment only then.
    ///
    /// # Errors
    /// There is none, or none that can be used.
    pub fn open() -> Result<&'static Self, MujocoError> {
        static API: OnceLock<Result<Api, MujocoError>> = OnceLock::new();
        API.get_or_init(Self::open_once).as_ref().map_err(Clone::clone)
    }

    fn open_once() -> Result<Self, MujocoError> {
        let path = LIBRARY.find()?;
        if library::is_cut_off(&path) {
            return Err(MujocoError::Unfit { path, what: "the file is cut off".to_owned() });
        }
        // SAFETY: what libmujoco does when it is loaded is nothing but setting up its tables.
        let library = unsafe { Library::new(&path) }
            .map_err(|error| MujocoError::unopened(&path, &error.to_string()))?;
        let unfit =
            |error: libloading::Error| MujocoError::Unfit { path: path.clone(), what: error.to_string() };
        // The version before the rest: an old library has not all functions.
        // SAFETY: the signature is the same in all versions.
        let version =
            unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"mj_version\0") }.map_err(unfit)?;
        // SAFETY: it only returns a constant.
        let version = unsafe { version() };
        if !OLD.contains(&version) && !NEW.contains(&version) {
            return Err(MujocoError::Version { path, version: version_text(version) });
        }
        let functions = Functions::of(&library).map_err(unfit)?;
        for (name, hook) in [(&b"mju_user_error\0"[..], error as Hook), (b"mju_user_warning\0", warning)] {
            // SAFETY: the symbols are variables of this type.
            let variable = unsafe { library.get::<*mut Option<Hook>>(name) }.map_err(unfit)?;
            // SAFETY: no other code in this process has begun to use the library; the hooks live as long as the process.
            unsafe { **variable = Some(hook) };
        }
        std::mem::forget(library);
        Ok(Self { functions, version, path })
    }

    /// Its version, for people.
    pub fn version(&self) -> String {
        version_text(self.version)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn bits(&self, part: Part) -> c_int {
        part.bit(NEW.contains(&self.version))
    }
}

/// 337 is 3.3.7, 3017000 is 3.17.0.
fn version_text(version: i32) -> String {
    match version {
        1_000_000.. => format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000),
        _ => format!("{}.{}.{}", version / 100, version / 10 % 10, version % 10),
    }
}

thread_local! {
    /// The last warning on this thread.
    static WARNED: RefCell<ArrayString<200>> = const { RefCell::new(ArrayString::new_const()) };
}

/// Keeps the text for the caller of the step. Allocates nothing.
unsafe extern "C" fn warning(text: *const c_char) {
    if text.is_null() {
        return;
    }
    // SAFETY: MuJoCo passes a text that ends with 0.
    let text = unsafe { CStr::from_ptr(text) };
    WARNED.with_borrow_mut(|kept| {
        kept.clear();
        let chars = text.to_bytes().iter().map(|&byte| if byte.is_ascii() { char::from(byte) } else { '?' });
        chars.take(kept.capacity()).for_each(|char| kept.push(char));
    });
}

/// MuJoCo cannot go on after an error and must not return to its caller, nor may a panic go through it.
unsafe extern "C" fn error(text: *const c_char) {
    let text = match text.is_null() {
        true => "an unknown error".into(),
        // SAFETY: MuJoCo passes a text that ends with 0.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy(),
    };
    // Not `eprintln!`, which panics where stderr is closed.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("khz: MuJoCo: {text}\n").as_bytes());
    std::process::abort();
}

/// A model and its state.
pub struct Loaded {
    api: &'static Api,
    model: NonNull<c_void>,
    data: NonNull<c_void>,
}

// SAFETY: model and data belong to this value alone, and libmujoco has no thread of its own for them.
unsafe impl Send for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: both came from libmujoco and are not used afterwards.
        unsafe { (self.api.functions.mj_deleteData)(self.data.as_ptr()) };
        // SAFETY: as above.
        unsafe { (self.api.functions.mj_deleteModel)(self.model.as_ptr()) };
    }
}

impl Loaded {
    /// The version of MuJoCo that loaded it, for people.
    pub fn version(&self) -> String {
        self.api.version()
    }

    /// Loads MJCF or URDF.
    ///
    /// # Errors
    /// MuJoCo's error for the file, in one line.
    pub fn load(api: &'static Api, path: &Path) -> Result<Self, MujocoError> {
        let wrong = |what: String| MujocoError::Model { path: path.to_owned(), what };
        let mut text = [0; TEXT];
        let name = path_text(path).ok_or_else(|| wrong("its name contains a zero byte".to_owned()))?;
        // SAFETY: name and text are valid for the call, and the text's length is given.
        let model = unsafe {
            (api.functions.mj_loadXML)(name.as_ptr(), ptr::null(), text.as_mut_ptr(), TEXT as c_int)
        };
        let model = NonNull::new(model).ok_or_else(|| wrong(one_line(&text)))?;
        // SAFETY: the model is valid.
        let data = NonNull::new(unsafe { (api.functions.mj_makeData)(model.as_ptr()) });
        let Some(data) = data else {
            // SAFETY: the model is valid and not used afterwards.
            unsafe { (api.functions.mj_deleteModel)(model.as_ptr()) };
            return Err(wrong("there is not enough memory for it".to_owned()));
        };
        let loaded = Self { api, model, data };
        let size = |part| loaded.size(part);
        if size(Part::Velocity) != size(Part::WarmStart) || size(Part::Velocity) != size(Part::Applied) {
            return Err(wrong(format!("MuJoCo {} has an unknown order of its state", api.version())));
        }
        Ok(loaded)
    }

    /// Writes the model that was loaded last as MJCF.
    ///
    /// # Errors
    /// MuJoCo's error.
    pub fn save(&self, path: &Path) -> Result<(), MujocoError> {
        let wrong = |what: String| MujocoError::Model { path: path.to_owned(), what };
        let mut text = [0; TEXT];
        let name = path_text(path).ok_or_else(|| wrong("its name contains a zero byte".to_owned()))?;
        // SAFETY: all pointers are valid for the call, and the text's length is given.
        let saved = unsafe {
            let save = self.api.functions.mj_saveLastXML;
            save(name.as_ptr(), self.model.as_ptr(), text.as_mut_ptr(), TEXT as c_int)
        };
        if saved == 1 { Ok(()) } else { Err(wrong(one_line(&text))) }
    }

    /// The model that was loaded last as MJCF.
    ///
    /// # Errors
    /// The error of MuJoCo or the system.
    pub fn saved(&self) -> Result<String, MujocoError> {
        let unread = |error: std::io::Error| MujocoError::Model {
            path: std::env::temp_dir(),
            what: format!("cannot keep a model there: {error}"),
        };
        let folder = tempfile::tempdir().map_err(unread)?;
        let path = folder.path().join("model.xml");
        self.save(&path)?;
        std::fs::read_to_string(&path).map_err(unread)
    }

    /// How many numbers a part of the state has.
    pub fn size(&self, part: Part) -> usize {
        // SAFETY: the model is valid and the bit is one this version knows.
        let size = unsafe { (self.api.functions.mj_stateSize)(self.model.as_ptr(), self.api.bits(part)) };
        usize::try_from(size).unwrap_or(0)
    }

    /// Reads a part of the state.
    ///
    /// # Panics
    /// If `out` is not as long as that part.
    pub fn get(&self, part: Part, out: &mut [f64]) {
        assert_eq!(out.len(), self.size(part), "{part:?}");
        // SAFETY: `out` has the length that `mj_stateSize` demands.
        unsafe {
            let get = self.api.functions.mj_getState;
            get(self.model.as_ptr(), self.data.as_ptr(), out.as_mut_ptr(), self.api.bits(part));
        }
    }

    /// Sets a part of the state.
    ///
    /// # Panics
    /// If `values` are not as many as that part has.
    pub fn set(&mut self, part: Part, values: &[f64]) {
        assert_eq!(values.len(), self.size(part), "{part:?}");
        // SAFETY: `values` has the length that `mj_stateSize` demands.
        unsafe {
            let set = self.api.functions.mj_setState;
            set(self.model.as_ptr(), self.data.as_ptr(), values.as_ptr(), self.api.bits(part));
        }
    }

    /// One step of the model's own length. Returns whether MuJoCo has warned; [`last_warning`] has the text.
    pub fn step(&mut self) -> bool {
        WARNED.with_borrow_mut(ArrayString::clear);
        // SAFETY: model and data are valid and belong together.
        unsafe { (self.api.functions.mj_step)(self.model.as_ptr(), self.data.as_ptr()) };
        WARNED.with_borrow(|text| !text.is_empty())
    }

    /// Computes everything that follows from the state, without moving on.
    pub fn forward(&mut self) {
        // SAFETY: model and data are valid and belong together.
        unsafe { (self.api.functions.mj_forward)(self.model.as_ptr(), self.data.as_ptr()) };
    }

    /// Back to the start, or to a keyframe.
    pub fn reset(&mut self, key: Option<Id>) {
        let (model, data) = (self.model.as_ptr(), self.data.as_ptr());
        match key {
            // SAFETY: model and data are valid and belong together.
            None => unsafe { (self.api.functions.mj_resetData)(model, data) },
            // SAFETY: as above, and the number is that of a keyframe.
            Some(key) => unsafe { (self.api.functions.mj_resetDataKeyframe)(model, data, key.number) },
        }
    }

    /// The object of this name.
    pub fn find(&self, object: Object, name: &str) -> Option<Id> {
        let text = CString::new(name).ok()?;
        // SAFETY: the model is valid and the text ends with 0.
        let number =
            unsafe { (self.api.functions.mj_name2id)(self.model.as_ptr(), object as c_int, text.as_ptr()) };
        (number >= 0).then_some(Id { object, number })
    }

    /// How far a step goes, s, by the clock: no function returns it. Takes that step; see [`Loaded::reset`].
    pub fn timestep(&mut self) -> f64 {
        let mut times = [[0.0]; 2];
        self.get(Part::Time, &mut times[0]);
        self.step();
        self.get(Part::Time, &mut times[1]);
        times[1][0] - times[0][0]
    }

    /// The name of an object; `None` if it has none, and beyond the last.
    pub fn name(&self, object: Object, number: i32) -> Option<String> {
        // SAFETY: the model is valid; numbers beyond the last give null.
        let name = unsafe { (self.api.functions.mj_id2name)(self.model.as_ptr(), object as c_int, number) };
        // SAFETY: what is not null is a text of the model that ends with 0.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// The names of the first objects of this type, up to one that has none.
    pub fn names(&self, object: Object) -> Vec<String> {
        (0..).map_while(|number| self.name(object, number)).collect()
    }

    /// kg.
    pub fn mass(&self) -> f64 {
        // SAFETY: the model is valid.
        unsafe { (self.api.functions.mj_getTotalmass)(self.model.as_ptr()) }
    }

    /// Moves positions on by velocities.
    ///
    /// # Panics
    /// If they have not the lengths of these parts of the state.
    pub fn integrate(&self, positions: &mut [f64], velocities: &[f64], dt_s: f64) {
        assert_eq!(positions.len(), self.size(Part::Position));
        assert_eq!(velocities.len(), self.size(Part::Velocity));
        // SAFETY: both have the lengths of the model.
        unsafe {
            let integrate = self.api.functions.mj_integratePos;
            integrate(self.model.as_ptr(), positions.as_mut_ptr(), velocities.as_ptr(), dt_s);
        }
    }

    /// What an accelerometer there measures, in its frame, as of the last [`Loaded::forward`]: m/s², 9.81 upwards at rest.
    pub fn specific_force(&mut self, of: Id) -> [f64; 3] {
        let mut out = [0.0; 6];
        let (model, data) = (self.model.as_ptr(), self.data.as_ptr());
        // SAFETY: model and data are valid and belong together.
        unsafe { (self.api.functions.mj_rnePostConstraint)(model, data) };
        // SAFETY: the number is one of the model's, and six numbers have room.
        unsafe {
            let acceleration = self.api.functions.mj_objectAcceleration;
            acceleration(model, data, of.object as c_int, of.number, out.as_mut_ptr(), 1);
        }
        [out[3], out[4], out[5]]
    }

    /// Force of a contact along its normal, N; 0 where there is none of this number.
    pub fn contact(&self, number: i32) -> f64 {
        let mut out = [0.0; 6];
        // SAFETY: any number is allowed, and six numbers have room.
        unsafe {
            (self.api.functions.mj_contactForce)(
                self.model.as_ptr(),
                self.data.as_ptr(),
                number,
                out.as_mut_ptr(),
            );
        }
        out[0]
    }

    /// Whether [`Loaded::scalar`] reads anything.
    pub fn reads_sensors(&self) -> bool {
        self.api.functions.mj_readSensor.is_some()
    }

    /// A sensor of one number, as of the last [`Loaded::forward`]. `None` before 3.5.0.
    pub fn scalar(&self, sensor: Id) -> Option<f64> {
        let read = self.api.functions.mj_readSensor?;
        // Room for the longest there is without a plugin, where it does not return a pointer into its own.
        let mut room = [0.0; 16];
        // SAFETY: the number is that of a sensor.
        let value = unsafe {
            read(self.model.as_ptr(), self.data.as_ptr(), sensor.number, 0.0, room.as_mut_ptr(), 0)
        };
        // SAFETY: it points to the sensor's data if it is not null.
        Some(if value.is_null() { room[0] } else { unsafe { *value } })
    }
}

/// An object of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    object: Object,
    number: c_int,
}

/// The last warning of a step on this thread.
pub fn last_warning() -> ArrayString<200> {
    WARNED.with_borrow(|text| *text)
}

fn path_text(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).ok()
}

/// Texts of MuJoCo have several lines.
fn one_line(text: &[c_char; TEXT]) -> String {
    let bytes: Vec<u8> = text.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_program_says_that_it_cannot_and_what_can() {
        let message = MujocoError::from(Absent::Static(&LIBRARY)).to_string();
        assert!(
            message.contains("the static program") && message.contains("pip install kilohertz"),
            "{message}"
        );
    }

    #[test]
    fn versions_are_counted_in_two_ways() {
        assert_eq!(version_text(337), "3.3.7");
        assert_eq!(version_text(3_017_000), "3.17.0");
        assert_eq!(version_text(4_000_000), "4.0.0");
    }
}
