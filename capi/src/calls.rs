//! The way in and out: nothing that fails or panics leaves but as a status, and its text waits for `khz_last_error`.

use khz_robot::launch::LaunchError;
use khz_rt::panics::{self, Panic};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::ptr;

thread_local! {
    static LAST: RefCell<(Status, CString)> = RefCell::new((Status::Ok, CString::default()));
    /// This thread is in a call of a controller.
    static IN_CONTROLLER: Cell<bool> = const { Cell::new(false) };
}

/// `khz_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    Error = 1,
    Invalid = 2,
    Config = 3,
    Start = 4,
    BroughtDown = 5,
    NotNow = 6,
    InController = 7,
    Bus = 8,
}

/// Why a call failed.
#[derive(Debug)]
pub struct Problem(pub Status, pub String);

impl Problem {
    pub fn invalid(text: impl Into<String>) -> Self {
        Self(Status::Invalid, text.into())
    }

    pub fn not_now(text: impl Into<String>) -> Self {
        Self(Status::NotNow, text.into())
    }
}

impl From<kilohertz::Error> for Problem {
    fn from(error: kilohertz::Error) -> Self {
        let status = match &error {
            // A robot file that does not fit virtual time is an error of the file, too.
            kilohertz::Error::Config(_) | kilohertz::Error::Launch(LaunchError::VirtualTime(_)) => {
                Status::Config
            }
            kilohertz::Error::BroughtDown(_) => Status::BroughtDown,
            kilohertz::Error::File { .. } => Status::Error,
            _ => Status::Start,
        };
        Self(status, error.to_string())
    }
}

/// What a function of the header returns.
pub trait Returned {
    /// The return value of a call that failed.
    fn failed(status: Status) -> Self;
}

impl Returned for Status {
    fn failed(status: Status) -> Self {
        status
    }
}

impl Returned for () {
    fn failed(_: Status) {}
}

impl Returned for bool {
    fn failed(_: Status) -> Self {
        false
    }
}

impl Returned for usize {
    fn failed(_: Status) -> Self {
        0
    }
}

impl Returned for isize {
    fn failed(_: Status) -> Self {
        -1
    }
}

impl Returned for f64 {
    fn failed(_: Status) -> Self {
        Self::NAN
    }
}

impl Returned for *const c_char {
    fn failed(_: Status) -> Self {
        ptr::null()
    }
}

impl Returned for *mut c_char {
    fn failed(_: Status) -> Self {
        ptr::null_mut()
    }
}

impl<T> Returned for Option<Box<T>> {
    fn failed(_: Status) -> Self {
        None
    }
}

/// Does what a function of the header does, unless this is within a controller.
pub fn call<T: Returned>(work: impl FnOnce() -> Result<T, Problem>) -> T {
    if IN_CONTROLLER.get() {
        let text = "this function allocates or blocks and may not be called from within a controller";
        return failed_with(Problem(Status::InController, text.to_owned()));
    }
    call_in_tick(work)
}

/// As [`call`], for functions that a controller may call.
pub fn call_in_tick<T: Returned>(work: impl FnOnce() -> Result<T, Problem>) -> T {
    panics::install();
    let mut panic = Panic::new();
    let done = panics::catch(&mut panic, work);
    let done = done.unwrap_or_else(|| Err(Problem(Status::Error, format!("a bug in Kilohertz: {panic}"))));
    done.unwrap_or_else(failed_with)
}

fn failed_with<T: Returned>(Problem(status, text): Problem) -> T {
    // Fails only on a thread that is ending, which cannot ask for the error any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (status, c_string(text)));
    T::failed(status)
}

/// Calls a controller's function.
pub fn in_controller<T>(work: impl FnOnce() -> T) -> T {
    let before = IN_CONTROLLER.replace(true);
    let value = work();
    IN_CONTROLLER.set(before);
    value
}

/// Whether this is within a call of a controller.
pub fn is_in_controller() -> bool {
    IN_CONTROLLER.get()
}

/// A text for C; it ends where it has a 0.
pub fn c_string(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes: Vec<u8> = text.into();
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    CString::new(bytes).unwrap_or_default()
}

/// Writes a text and its final 0 for C, which gives `size` bytes, as far as there is room; never half a character.
pub fn put_text(from: &str, text: *mut c_char, size: usize) {
    if text.is_null() || size == 0 {
        return;
    }
    let room = from.len().min(size - 1);
    let len = (0..=room).rev().find(|&at| from.is_char_boundary(at)).unwrap_or(0);
    // SAFETY: the header has the caller give `size` bytes, and `len` is less.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr().cast(), text, len) };
    // SAFETY: as above.
    unsafe { text.wrapping_add(len).write(0) };
}

/// An object, or whose pointer was NULL.
///
/// # Errors
/// It was NULL.
pub fn there<T>(object: Option<T>, name: &str) -> Result<T, Problem> {
    object.ok_or_else(|| Problem::invalid(format!("{name} is NULL")))
}

/// A text from C, `const char *`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    /// The text, if it is not NULL.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn maybe(self, name: &str) -> Result<Option<&'a str>, Problem> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the header has the caller give a text that ends by 0 and stays as it is during the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(Some).map_err(|_| Problem::invalid(format!("{name} is not UTF-8")))
    }

    /// The text.
    ///
    /// # Errors
    /// It is NULL, or not UTF-8.
    pub fn get(self, name: &str) -> Result<&'a str, Problem> {
        self.maybe(name)?.ok_or_else(|| Problem::invalid(format!("{name} is NULL")))
    }
}

#[unsafe(no_mangle)]
extern "C" fn khz_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn khz_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn khz_last_status() -> Status {
    LAST.try_with(|last| last.borrow().0).unwrap_or(Status::Ok)
}

#[unsafe(no_mangle)]
extern "C" fn khz_string_free(text: *mut c_char) {
    call(|| {
        if !text.is_null() {
            // SAFETY: the header has the caller give only what was returned as `char *`, which `CString::into_raw` made, once.
            drop(unsafe { CString::from_raw(text) });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_and_a_text() {
        let status = call(|| -> Result<Status, Problem> { panic!("a wheel came off") });
        let text = LAST.with(|last| last.borrow().1.to_string_lossy().into_owned());
        assert!(text.starts_with("a bug in Kilohertz: a wheel came off, at "), "{text}");
        assert_eq!((status, khz_last_status()), (Status::Error, Status::Error));
    }

    #[test]
    fn a_controller_may_not_call_what_blocks() {
        let status = in_controller(|| call(|| Ok(Status::Ok)));
        assert_eq!((status, is_in_controller()), (Status::InController, false));
        assert_eq!(call(|| Ok(Status::Ok)), Status::Ok);
    }

    #[test]
    fn a_text_with_a_zero_ends_there() {
        assert_eq!(c_string("a\0b").as_c_str(), c"a");
    }
}
