//! The functions of onnxruntime that a policy needs, opened at run time. Only this file contains `unsafe`.
//!
//! They stand in a table that grows from version to version and never changes: each is known by its place (`onnxruntime_c_api.h`, the
//! struct `OrtApi`). What is asked for was there in version 17 of the table, and the library gives that version or none.

use khz_policy::Port;
use khz_rt::library::{self, Absent, SharedLibrary};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const VARIABLE: &str = "KHZ_ONNXRUNTIME";
static LIBRARY: SharedLibrary =
    SharedLibrary { name: "onnxruntime", variable: VARIABLE, package: "onnxruntime", file: "libonnxruntime" };

/// The version of the table: that of onnxruntime 1.17.
const VERSION: u32 = 17;

/// `ORT_LOGGING_LEVEL_FATAL`, `ORT_ENABLE_ALL`, `ORT_SEQUENTIAL`, `ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT`, `OrtArenaAllocator`,
/// `OrtMemTypeDefault`.
const FATAL_ALONE: c_int = 4;
const ALL_OPTIMISATIONS: c_int = 99;
const SEQUENTIAL: c_int = 0;
const FLOAT: c_int = 1;
const ARENA: c_int = 1;
const MEMORY: c_int = 0;

/// All that the tensors of all models of the process may have, the largest policy's weights among them.
const MEMORY_BYTES: usize = 512 << 20;

/// How often an evaluation that is under way is looked at, and how many looks in a row it may take.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS: u32 = 10;

/// From this version on it can be told how large tensors may become that are computed while a model is read.
const FOLDING: u32 = 27;

/// The most inputs, outputs and dimensions, and numbers of one.
const MOST: usize = 64;
const NUMBERS: usize = 1 << 20;

/// Numbers that are in another file are named by this key, as protobuf has it.
const ELSEWHERE: &[u8] = b"\x0a\x08location\x12";

/// Why onnxruntime cannot be used, or not for this model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// There is none that can be opened.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// It is another library, or too old.
    #[error("{path} is no onnxruntime that can be used, which 1.17 and newer are: {what}")]
    Unfit {
        /// The library.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// It refuses the model or an evaluation.
    #[error("onnxruntime says: {0}")]
    Reported(String),
    /// It would need more memory than a policy may have.
    #[error(
        "its tensors need more than the {most} MiB that onnxruntime gets here: export it without such large ones; onnxruntime says: {0}",
        most = MEMORY_BYTES >> 20
    )]
    TooLarge(String),
    /// An evaluation was ended.
    #[error(
        "an evaluation by onnxruntime took longer than {} s and was ended: export it without loops (`Loop`, `Scan`) that go on and on",
        LOOKS * LOOK.as_millis() as u32 / 1000
    )]
    Endless,
}

impl LibraryError {
    /// The library was there, and has refused the model.
    pub fn was_asked(&self) -> bool {
        !matches!(self, Self::Absent(_) | Self::Unfit { .. })
    }

    /// What it reports. Only its words tell a lack of memory from other failures.
    fn reported(text: String) -> Self {
        let is_of_memory = ["smaller than requested bytes", "Failed to allocate memory", "bad_alloc"]
            .iter()
            .any(|words| text.contains(words));
        if is_of_memory { Self::TooLarge(text) } else { Self::Reported(text) }
    }
}

/// Things of onnxruntime.
type Thing = *mut c_void;
/// NULL: it went well.
type Status = *mut c_void;

/// Declares the functions: each a field, with its place in the table.
macro_rules! functions {
    ($($name:ident = $place:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// # Safety
            /// `table` is a table of at least the version [`VERSION`].
            unsafe fn of(table: *const *const c_void) -> Option<Self> {
                Some(Self {
                    $($name: {
                        // SAFETY: the table of this version is longer.
                        let function = unsafe { *table.add($place) };
                        if function.is_null() {
                            return None;
                        }
                        // SAFETY: the type is that of the header, which is the same in all versions.
                        unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(function) }
                    },)*
                })
            }
        }
    };
}

functions! {
    error_message = 2: fn(Status) -> *const c_char;
    create_env = 3: fn(c_int, *const c_char, *mut Thing) -> Status;
    disable_telemetry = 6: fn(Thing) -> Status;
    create_session = 8: fn(Thing, *const c_void, usize, Thing, *mut Thing) -> Status;
    run = 9: fn(Thing, Thing, *const *const c_char, *const Thing, usize, *const *const c_char, usize, *mut Thing) -> Status;
    create_options = 10: fn(*mut Thing) -> Status;
    set_execution_mode = 13: fn(Thing, c_int) -> Status;
    set_optimisation = 23: fn(Thing, c_int) -> Status;
    set_threads_within = 24: fn(Thing, c_int) -> Status;
    set_threads_between = 25: fn(Thing, c_int) -> Status;
    input_count = 30: fn(Thing, *mut usize) -> Status;
    output_count = 31: fn(Thing, *mut usize) -> Status;
    input_type = 33: fn(Thing, usize, *mut Thing) -> Status;
    output_type = 34: fn(Thing, usize, *mut Thing) -> Status;
    input_name = 36: fn(Thing, usize, Thing, *mut *mut c_char) -> Status;
    output_name = 37: fn(Thing, usize, Thing, *mut *mut c_char) -> Status;
    create_run_options = 39: fn(*mut Thing) -> Status;
    set_terminate = 46: fn(Thing) -> Status;
    create_tensor = 49: fn(Thing, *mut c_void, usize, *const i64, usize, c_int, *mut Thing) -> Status;
    tensor_info = 55: fn(Thing, *mut Thing) -> Status;
    element_type = 60: fn(Thing, *mut c_int) -> Status;
    dimension_count = 61: fn(Thing, *mut usize) -> Status;
    dimensions = 62: fn(Thing, *mut i64, usize) -> Status;
    create_memory_info = 69: fn(c_int, c_int, *mut Thing) -> Status;
    free = 76: fn(Thing, *mut c_void) -> Status;
    default_allocator = 78: fn(*mut Thing) -> Status;
    release_status = 93: fn(Status);
    release_memory_info = 94: fn(Thing);
    release_session = 95: fn(Thing);
    release_value = 96: fn(Thing);
    release_run_options = 97: fn(Thing);
    release_type_info = 98: fn(Thing);
    release_options = 100: fn(Thing);
    add_entry = 130: fn(Thing, *const c_char, *const c_char) -> Status;
    register_allocator = 144: fn(Thing, Thing, Thing) -> Status;
    release_arena_cfg = 157: fn(Thing);
    create_arena_cfg = 164: fn(*const *const c_char, *const usize, usize, *mut Thing) -> Status;
}

/// What the one exported function returns.
#[repr(C)]
struct Base {
    table: unsafe extern "C" fn(u32) -> *const *const c_void,
    version: unsafe extern "C" fn() -> *const c_char,
}

/// The library, opened once for the process and never closed, with its environment.
struct Api {
    functions: Functions,
    version: String,
    env: Thing,
}

// SAFETY: the functions may be called from any thread, and the environment is made for sessions of all threads.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

impl Api {
    /// Opens the library, the first time; looks at the environment only then.
    fn open() -> Result<&'static Self, LibraryError> {
        static API: OnceLock<Result<Api, LibraryError>> = OnceLock::new();
        API.get_or_init(Self::open_once).as_ref().map_err(Clone::clone)
    }

    fn open_once() -> Result<Self, LibraryError> {
        let path = LIBRARY.find()?;
        let unfit = |what: String| LibraryError::Unfit { path: path.clone(), what };
        if library::is_cut_off(&path) {
            return Err(unfit("the file is cut off".to_owned()));
        }
        // SAFETY: what onnxruntime does when it is loaded is nothing but setting up its tables.
        let library = unsafe { Library::new(&path) }.map_err(|error| match path.is_file() {
            true => unfit(error.to_string()),
            false => Absent::Missing(&LIBRARY, error.to_string()).into(),
        })?;
        // SAFETY: the signature is the same in all versions.
        let base = unsafe { library.get::<unsafe extern "C" fn() -> *const Base>(b"OrtGetApiBase\0") }
            .map_err(|_| unfit("it has no function `OrtGetApiBase`".to_owned()))?;
        // SAFETY: it only returns a constant.
        let base = unsafe { base() };
        // SAFETY: it is NULL, or has two functions and is never freed.
        let base = unsafe { base.as_ref() }.ok_or_else(|| unfit("it has no functions".to_owned()))?;
        // SAFETY: it only returns a constant text.
        let version = unsafe { (base.version)() };
        // SAFETY: it ends with 0.
        let version = unsafe { text(version) };
        if !is_known(&version) {
            // An older one prints a line of its own when it is asked for what it has not.
            return Err(unfit(format!("it is version {version}")));
        }
        // SAFETY: it only returns a constant.
        let table = unsafe { (base.table)(VERSION) };
        let no_table = || unfit(format!("version {version} has not the functions of 1.{VERSION}"));
        if table.is_null() {
            return Err(no_table());
        }
        // SAFETY: the library gives a table of this version, or none.
        let functions = unsafe { Functions::of(table) }.ok_or_else(no_table)?;
        std::mem::forget(library);
        let mut api = Self { functions, version, env: ptr::null_mut() };
        let mut env = ptr::null_mut();
        // SAFETY: the name ends with 0 and outlives the environment, and there is a place for the result.
        api.check(unsafe { (api.functions.create_env)(FATAL_ALONE, c"khz".as_ptr(), &raw mut env) })?;
        api.env = env;
        // SAFETY: the environment is valid.
        api.check(unsafe { (api.functions.disable_telemetry)(api.env) })?;
        api.limit_memory()?;
        Ok(api)
    }

    /// Tensors of all sessions come out of one arena, which has an end: whatever a model asks for, others keep their memory.
    fn limit_memory(&self) -> Result<(), LibraryError> {
        let (key, most) = (c"max_mem".as_ptr(), MEMORY_BYTES);
        // SAFETY: one key and one value, which are valid for the call.
        let arena = self.made(|made| unsafe {
            (self.functions.create_arena_cfg)(&raw const key, &raw const most, 1, made)
        })?;
        let arena = Held(self, arena, |functions| functions.release_arena_cfg);
        // SAFETY: there are no arguments but the place.
        let memory = self.made(|made| unsafe { (self.functions.create_memory_info)(ARENA, MEMORY, made) })?;
        let memory = Held(self, memory, |functions| functions.release_memory_info);
        // SAFETY: all three are valid.
        self.check(unsafe { (self.functions.register_allocator)(self.env, memory.1, arena.1) })
    }

    /// The second number of its version.
    fn minor(&self) -> u32 {
        self.version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
    }

    /// The result of a call; its text, if it failed.
    fn check(&self, status: Status) -> Result<(), LibraryError> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: the status is not NULL.
        let message = unsafe { (self.functions.error_message)(status) };
        // SAFETY: it ends with 0, and lives as long as the status.
        let message = unsafe { text(message) };
        // SAFETY: it is not used afterwards.
        unsafe { (self.functions.release_status)(status) };
        Err(LibraryError::reported(message.lines().map(str::trim).collect::<Vec<_>>().join(" ")))
    }

    /// What a call makes.
    fn made(&self, make: impl FnOnce(*mut Thing) -> Status) -> Result<Thing, LibraryError> {
        let mut made = ptr::null_mut();
        self.check(make(&raw mut made))?;
        match made.is_null() {
            true => Err(LibraryError::Reported("it has made nothing".to_owned())),
            false => Ok(made),
        }
    }
}

/// 1.17 and later, as long as the first number stays.
fn is_known(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(1), Some(VERSION)) && version.starts_with("1.")
}

/// # Safety
/// It is NULL, or a text that ends with 0.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// What is released when it is no longer needed.
struct Held<'a>(&'a Api, Thing, fn(&Functions) -> unsafe extern "C" fn(Thing));

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: it came from onnxruntime, and is not used afterwards.
        unsafe { (self.2)(&self.0.functions)(self.1) };
    }
}

/// Numbers that a model reads or writes, and what onnxruntime knows them by.
struct Tensor {
    port: Port,
    name: CString,
    numbers: NonNull<[f32]>,
    value: Thing,
}

/// A model that onnxruntime evaluates, with one thread.
///
/// # Where it is looked for
/// `KHZ_ONNXRUNTIME` names the library or a folder; then comes the package `onnxruntime` of the active Python environment, or of `python3`;
/// then what the loader finds.
///
/// # Realtime contract
/// An evaluation allocates some tens of times and locks; it belongs on a thread of its own. Its bits depend on the version of the
/// library and on the CPU, by which it chooses how to compute.
pub struct Session {
    api: &'static Api,
    session: Thing,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    ports: [Vec<Port>; 2],
    work: u64,
    watch: Watch,
}

// SAFETY: session, values and numbers belong to this value alone, and may be used by any one thread.
unsafe impl Send for Session {}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Session {
    /// Reads a model from the bytes of an ONNX file.
    ///
    /// # Errors
    /// onnxruntime cannot be used, or refuses it; or it has an input or output that is not of float32, or numbers in another file.
    pub fn load(bytes: &[u8]) -> Result<Self, LibraryError> {
        if bytes.windows(ELSEWHERE.len()).any(|window| window == ELSEWHERE) {
            let what = "the model has numbers in another file, which its hash would not cover: export it with them inside";
            return Err(LibraryError::Reported(what.to_owned()));
        }
        let api = Api::open()?;
        let watch = Watch::start(api)?;
        let session = {
            let options = options(api)?;
            // SAFETY: bytes and options are valid for the call, which copies what it needs of them.
            api.made(|made| unsafe {
                (api.functions.create_session)(api.env, bytes.as_ptr().cast(), bytes.len(), options.1, made)
            })?
        };
        // From here on it is released, whatever comes.
        let mut loaded = Self {
            api,
            session,
            inputs: Vec::new(),
            outputs: Vec::new(),
            ports: [Vec::new(), Vec::new()],
            work: bytes.len() as u64 / 4,
            watch,
        };
        loaded.fill(true)?;
        loaded.fill(false)?;
        if loaded.inputs.is_empty() || loaded.outputs.is_empty() {
            return Err(LibraryError::Reported("the model has no input, or no output".to_owned()));
        }
        Ok(loaded)
    }

    /// Gives every input, or output, its numbers.
    fn fill(&mut self, is_input: bool) -> Result<(), LibraryError> {
        let functions = &self.api.functions;
        let count = if is_input { functions.input_count } else { functions.output_count };
        let mut ports = 0;
        // SAFETY: the session is valid, and there is a place for the result.
        self.api.check(unsafe { count(self.session, &raw mut ports) })?;
        if ports > MOST {
            return Err(LibraryError::Reported(format!(
                "the model has {ports} inputs or outputs, more than any policy"
            )));
        }
        for number in 0..ports {
            let tensor = self.tensor(is_input, number)?;
            self.ports[usize::from(!is_input)].push(tensor.port.clone());
            if is_input { &mut self.inputs } else { &mut self.outputs }.push(tensor);
        }
        Ok(())
    }

    fn tensor(&self, is_input: bool, number: usize) -> Result<Tensor, LibraryError> {
        let (api, functions) = (self.api, &self.api.functions);
        let name = self.name(if is_input { functions.input_name } else { functions.output_name }, number)?;
        let what = format!("{} `{}`", if is_input { "input" } else { "output" }, name.to_string_lossy());
        let of = if is_input { functions.input_type } else { functions.output_type };
        // SAFETY: session and place are valid.
        let info = api.made(|made| unsafe { of(self.session, number, made) })?;
        let info = Held(api, info, |functions| functions.release_type_info);
        // What this gives belongs to `info`. SAFETY: `info` is valid.
        let tensor = api
            .made(|made| unsafe { (functions.tensor_info)(info.1, made) })
            .map_err(|_| LibraryError::Reported(format!("{what} is no tensor")))?;
        let (mut kind, mut rank) = (0, 0);
        // SAFETY: the tensor's description is valid as long as `info`.
        api.check(unsafe { (functions.element_type)(tensor, &raw mut kind) })?;
        // SAFETY: as above.
        api.check(unsafe { (functions.dimension_count)(tensor, &raw mut rank) })?;
        if kind != FLOAT || rank > MOST {
            return Err(LibraryError::Reported(format!("{what} is not of float32")));
        }
        let mut shape = vec![0_i64; rank];
        // SAFETY: as above, and there is room for so many.
        api.check(unsafe { (functions.dimensions)(tensor, shape.as_mut_ptr(), rank) })?;
        if shape.iter().any(|&size| size < -1) {
            return Err(LibraryError::Reported(format!(
                "{what} has the shape {shape:?}, which is no policy's"
            )));
        }
        // One that the file leaves open is 1.
        shape.iter_mut().for_each(|size| *size = if *size < 0 { 1 } else { *size });
        let numbers = shape.iter().try_fold(1_usize, |numbers, &size| numbers.checked_mul(size as usize));
        let Some(count) = numbers.filter(|numbers| (1..=NUMBERS).contains(numbers)) else {
            return Err(LibraryError::Reported(format!(
                "{what} has the shape {shape:?}, which is no policy's"
            )));
        };
        // SAFETY: there are no arguments but the place.
        let memory = api.made(|made| unsafe { (functions.create_memory_info)(ARENA, MEMORY, made) })?;
        let memory = Held(api, memory, |functions| functions.release_memory_info);
        let numbers = NonNull::from(Box::leak(vec![0.0_f32; count].into_boxed_slice()));
        // SAFETY: the numbers live until this value is released, and nothing else uses them while onnxruntime does.
        let made = api.made(|made| unsafe {
            let (start, bytes) = (numbers.as_ptr().cast::<c_void>(), count * size_of::<f32>());
            (functions.create_tensor)(memory.1, start, bytes, shape.as_ptr(), rank, FLOAT, made)
        });
        let port = Port {
            name: name.to_string_lossy().into_owned(),
            shape: shape.iter().map(|&size| size as usize).collect(),
        };
        match made {
            Ok(value) => Ok(Tensor { port, name, numbers, value }),
            Err(error) => {
                // SAFETY: they came from a box, and nothing refers to them.
                drop(unsafe { Box::from_raw(numbers.as_ptr()) });
                Err(error)
            }
        }
    }

    fn name(
        &self,
        of: unsafe extern "C" fn(Thing, usize, Thing, *mut *mut c_char) -> Status,
        number: usize,
    ) -> Result<CString, LibraryError> {
        let (api, mut name) = (self.api, ptr::null_mut());
        // SAFETY: there are no arguments but the place; it is never released.
        let allocator = api.made(|made| unsafe { (api.functions.default_allocator)(made) })?;
        // SAFETY: session, number and allocator are valid.
        api.check(unsafe { of(self.session, number, allocator, &raw mut name) })?;
        if name.is_null() {
            return Err(LibraryError::Reported("a name is missing".to_owned()));
        }
        // SAFETY: it is a text that ends with 0.
        let copy = unsafe { CStr::from_ptr(name) }.to_owned();
        // SAFETY: it came from this allocator, and is not used afterwards.
        api.check(unsafe { (api.functions.free)(allocator, name.cast()) })?;
        Ok(copy)
    }

    /// The library's version.
    pub fn version(&self) -> &str {
        &self.api.version
    }

    /// Its inputs, in the order of the file.
    pub fn inputs(&self) -> &[Port] {
        &self.ports[0]
    }

    /// Its outputs, in the order of the file.
    pub fn outputs(&self) -> &[Port] {
        &self.ports[1]
    }

    /// The numbers of an input, 0 at first; they stay until they are changed. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input_mut(&mut self, number: usize) -> &mut [f32] {
        // SAFETY: onnxruntime uses them only while it evaluates, and that needs `&mut self`.
        unsafe { self.inputs[number].numbers.as_mut() }
    }

    /// The numbers of an input as they are. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input(&self, number: usize) -> &[f32] {
        // SAFETY: as for `input_mut`.
        unsafe { self.inputs[number].numbers.as_ref() }
    }

    /// The numbers of an output as the last evaluation made them. Does not allocate.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn output(&self, number: usize) -> &[f32] {
        // SAFETY: as for `input_mut`.
        unsafe { self.outputs[number].numbers.as_ref() }
    }

    /// Evaluates it once. Allocates and locks. One that takes longer than 5 s is ended, and so is every later one.
    ///
    /// # Errors
    /// onnxruntime's error.
    pub fn run(&mut self) -> Result<(), LibraryError> {
        let all = |tensors: &[Tensor]| -> (Vec<*const c_char>, Vec<Thing>) {
            tensors.iter().map(|tensor| (tensor.name.as_ptr(), tensor.value)).unzip()
        };
        let ((inputs, given), (outputs, mut taken)) = (all(&self.inputs), all(&self.outputs));
        let watched = &self.watch.watched;
        watched.evaluation.fetch_add(1, Ordering::Relaxed);
        // SAFETY: names and values are valid and as many as stated; outputs are written into numbers of ours.
        let done = self.api.check(unsafe {
            (self.api.functions.run)(
                self.session,
                watched.options.1,
                inputs.as_ptr(),
                given.as_ptr(),
                given.len(),
                outputs.as_ptr(),
                taken.len(),
                taken.as_mut_ptr(),
            )
        });
        watched.evaluation.fetch_add(1, Ordering::Relaxed);
        if watched.was_ended.load(Ordering::Relaxed) { done.map_err(|_| LibraryError::Endless) } else { done }
    }

    /// An input has from now on what an output has. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input or output, or they differ in length.
    pub fn carry(&mut self, output: usize, input: usize) {
        // SAFETY: as for `input_mut`.
        let from = unsafe { self.outputs[output].numbers.as_ref() };
        // An output's numbers are never an input's.
        self.input_mut(input).copy_from_slice(from);
    }

    /// About how many multiplications one evaluation takes, by its size.
    pub fn work(&self) -> u64 {
        self.work
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for tensor in self.inputs.drain(..).chain(self.outputs.drain(..)) {
            // SAFETY: it came from onnxruntime, and is not used afterwards.
            unsafe { (self.api.functions.release_value)(tensor.value) };
            // SAFETY: they came from a box, and nothing refers to them any more.
            drop(unsafe { Box::from_raw(tensor.numbers.as_ptr()) });
        }
        // SAFETY: it came from onnxruntime, and is not used afterwards.
        unsafe { (self.api.functions.release_session)(self.session) };
    }
}

/// What ends an evaluation that takes too long: a model may have loops without an end.
struct Watch {
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

struct Watched {
    /// Those of all evaluations.
    options: Held<'static>,
    /// Even between two evaluations, odd while one is under way.
    evaluation: AtomicU64,
    was_ended: AtomicBool,
    is_over: AtomicBool,
}

// SAFETY: the options may be used by any thread: onnxruntime reads of them while it evaluates whether it is to end.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Watch {
    fn start(api: &'static Api) -> Result<Self, LibraryError> {
        // SAFETY: there are no arguments but the place.
        let options = api.made(|made| unsafe { (api.functions.create_run_options)(made) })?;
        let watched = Arc::new(Watched {
            options: Held(api, options, |functions| functions.release_run_options),
            evaluation: AtomicU64::new(0),
            was_ended: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&watched);
        let thread = thread::Builder::new()
            .name("khz-model".to_owned())
            .stack_size(256 << 10)
            .spawn(move || theirs.look());
        let thread = thread.map_err(|error| LibraryError::Reported(format!("no thread: {error}")))?;
        Ok(Self { watched, thread: Some(thread) })
    }
}

impl Watched {
    /// Counts looks, not time: while the whole process stands still, no evaluation takes longer for that.
    fn look(&self) {
        let (mut before, mut looks) = (0, 0);
        while !self.is_over.load(Ordering::Acquire) {
            thread::park_timeout(LOOK);
            let evaluation = self.evaluation.load(Ordering::Relaxed);
            looks = if evaluation == before && evaluation % 2 == 1 { looks + 1 } else { 0 };
            before = evaluation;
            if looks >= LOOKS {
                self.was_ended.store(true, Ordering::Relaxed);
                let Held(api, options, _) = &self.options;
                // That of a call which cannot fail. SAFETY: the options are valid.
                let _ = api.check(unsafe { (api.functions.set_terminate)(*options) });
                return;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watched.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// One thread, which does not spin while it waits, and memory that has an end.
fn options(api: &Api) -> Result<Held<'_>, LibraryError> {
    let functions = &api.functions;
    // SAFETY: there are no arguments but the place.
    let made = api.made(|made| unsafe { (functions.create_options)(made) })?;
    let options = Held(api, made, |functions| functions.release_options);
    for (set, value) in [
        (functions.set_execution_mode, SEQUENTIAL),
        (functions.set_optimisation, ALL_OPTIMISATIONS),
        (functions.set_threads_within, 1),
        (functions.set_threads_between, 1),
    ] {
        // SAFETY: the options are valid.
        api.check(unsafe { set(options.1, value) })?;
    }
    // What is constant is computed while a model is read, outside the arena: only newer versions can be told how much that may be.
    let folding = match api.minor() {
        ..FOLDING => (c"optimization.disable_specified_optimizers", c"ConstantFolding"),
        _ => (c"optimization.constant_folding_max_output_size_in_bytes", c"67108864"),
    };
    for (key, value) in
        [(c"session.intra_op.allow_spinning", c"0"), (c"session.use_env_allocators", c"1"), folding]
    {
        // SAFETY: the options are valid, and the texts end with 0.
        api.check(unsafe { (functions.add_entry)(options.1, key.as_ptr(), value.as_ptr()) })?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_1_17_on_are_known() {
        for (version, expected) in
            [("1.17.0", true), ("1.32.0", true), ("1.16.3", false), ("2.0.0", false), ("", false)]
        {
            assert_eq!(is_known(version), expected, "{version}");
        }
    }

    #[test]
    fn what_is_missing_is_reported_with_its_cure() {
        let message = LibraryError::from(Absent::Missing(&LIBRARY, "not found".to_owned())).to_string();
        assert!(message.contains("pip install onnxruntime") && message.contains(VARIABLE), "{message}");
        assert!(LibraryError::from(Absent::Static(&LIBRARY)).to_string().contains("the static program"));
    }
}
