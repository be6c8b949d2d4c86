//! The system calls no safe crate offers, each made safe here.

mod alloc;
mod caught;
mod newest;
mod signal_timer;

pub use alloc::CountingAllocator;
pub use caught::Caught;
pub use newest::{Reader, Writer, newest};
pub(crate) use signal_timer::SignalTimer;

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct sched_attr` as the kernel defines it (uapi/linux/sched/types.h, first version: 48 bytes).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedAttr {
    pub(crate) size: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) period_ns: u64,
}

/// Asks for a scheduling policy for the calling thread.
pub(crate) fn set_scheduler(attr: &SchedAttr) -> io::Result<()> {
    let attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..*attr };
    // SAFETY: thread 0 is the caller; the kernel reads `size` bytes of a struct that lives through the call.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The scheduling policy of a thread of this process (0: the calling thread).
pub(crate) fn scheduler(tid: i32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>();
    // SAFETY: the kernel writes at most `size` bytes to a struct of that size that lives through the call.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) };
    if done == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

/// Keeps the process's memory in RAM, what it has and what it will have.
///
/// Through libc: the address sanitizer replaces `mlockall` there, because its shadow of the address space would fill the RAM.
/// `as_touched`: what is mapped and was never touched stays out of the RAM until it is (Linux 4.4).
pub(crate) fn lock_memory(as_touched: bool) -> io::Result<()> {
    let how = if as_touched { libc::MCL_ONFAULT } else { 0 };
    // SAFETY: it takes flags only, and no memory of ours changes.
    let done = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | how) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets how long a watchdog waits, s (`WDIOC_SETTIMEOUT`, uapi/linux/watchdog.h).
pub(crate) fn set_watchdog_timeout(watchdog: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    /// `_IOWR('W', 6, int)`
    const WDIOC_SETTIMEOUT: u32 = 0xc004_5706;
    let mut seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    // SAFETY: the kernel reads and writes one int, which lives through the call.
    let done = unsafe { libc::ioctl(watchdog.as_raw_fd(), WDIOC_SETTIMEOUT as _, &raw mut seconds) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel counts for the calling thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadUse {
    pub(crate) minor_faults: i64,
    pub(crate) major_faults: i64,
    pub(crate) voluntary_switches: i64,
    pub(crate) involuntary_switches: i64,
}

/// Reads the calling thread's counters: one system call, no allocation.
#[expect(clippy::useless_conversion, reason = "c_long is 32 bits wide on some targets")]
pub(crate) fn thread_use() -> ThreadUse {
    // SAFETY: `rusage` is plain integers, for which all-zero bytes are a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the kernel fills the struct given to it; RUSAGE_THREAD with a valid pointer cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    ThreadUse {
        minor_faults: usage.ru_minflt.into(),
        major_faults: usage.ru_majflt.into(),
        voluntary_switches: usage.ru_nvcsw.into(),
        involuntary_switches: usage.ru_nivcsw.into(),
    }
}

/// The clock of a thread's CPU time, which every thread of the process may read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuClock(libc::clockid_t);

/// The clock of the calling thread's CPU time.
pub(crate) fn cpu_clock() -> io::Result<CpuClock> {
    let mut id = 0;
    // SAFETY: it only names the calling thread.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread exists, and the id is written to an integer that lives through the call.
    let error = unsafe { libc::pthread_getcpuclockid(this, &raw mut id) };
    if error == 0 { Ok(CpuClock(id)) } else { Err(io::Error::from_raw_os_error(error)) }
}

impl CpuClock {
    /// What the thread has used; `None` once it is gone. One system call.
    #[expect(clippy::useless_conversion, reason = "time_t and c_long are 32 bits wide on some targets")]
    pub(crate) fn now_ns(self) -> Option<i64> {
        // SAFETY: `timespec` is plain integers, for which all-zero bytes are a value.
        let mut time: libc::timespec = unsafe { zeroed() };
        // SAFETY: the kernel writes to a struct that lives through the call; it refuses the clock of a thread that is gone.
        let done = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        (done == 0).then(|| i64::from(time.tv_sec) * 1_000_000_000 + i64::from(time.tv_nsec))
    }
}

/// Has this process ignore SIGTTOU, which stops a background process that writes to a terminal set to `tostop`. Its
/// threads write all the same then, and processes it starts ignore it, too.
///
/// # Errors
/// If the kernel refuses; Linux does not.
pub fn ignore_tostop() -> io::Result<()> {
    // SAFETY: no handler is installed, so no code of ours runs in a signal's context.
    let before = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Holds SIGTTOU back for the calling thread alone, which then writes to a terminal from the background, as with [`ignore_tostop`].
///
/// # Errors
/// If the kernel refuses; Linux does not.
pub fn hold_tostop() -> io::Result<()> {
    signal_timer::block(libc::SIGTTOU).map(drop)
}

/// Has the C heap keep what it has: freed memory stays with the process and no request becomes an
/// `mmap`, so that once grown the heap needs no system call and meets no page fault. Process-wide.
#[cfg(target_env = "gnu")]
pub(crate) fn keep_heap() -> io::Result<()> {
    // SAFETY: mallopt only changes tunables of the allocator and may be called at any time.
    let trim = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, -1) };
    // SAFETY: as above.
    let mmap = unsafe { libc::mallopt(libc::M_MMAP_MAX, 0) };
    if trim == 1 && mmap == 1 { Ok(()) } else { Err(io::Error::other("mallopt refused")) }
}

/// Only glibc has these tunables.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn keep_heap() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// The kernel's ticks per second in `/proc` files (`USER_HZ`, 100 on all common machines).
pub(crate) fn clock_ticks_per_second() -> i64 {
    // SAFETY: sysconf reads a constant of the system.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if hz > 0 { hz as i64 } else { 100 }
}

/// Touches memory, in huge pages where the kernel has them, so that no later access waits for a page, nor for
/// looking one up: in a large ring every fifth sample of 1 kB would begin a page that was not used lately. Only
/// whole huge pages (2 MiB on x86) within the memory can be had.
pub fn touch(memory: &mut [MaybeUninit<u8>]) {
    /// uapi/asm-generic/mman-common.h, Linux 6.1
    const MADV_COLLAPSE: i32 = 25;
    let page = rustix::param::page_size();
    let start = memory.as_ptr().align_offset(page).min(memory.len());
    let whole = (memory.len() - start) / page * page;
    let pages: *mut libc::c_void = memory[start..].as_mut_ptr().cast();
    // SAFETY: the pages lie within memory that is borrowed mutably, and the advice does not change what is in them.
    // That a kernel does not take it is no harm.
    unsafe { libc::madvise(pages, whole, libc::MADV_HUGEPAGE) };
    memory.fill(MaybeUninit::new(0));
    // Memory of the heap, or locked since it was reserved, has small pages by now.
    // SAFETY: as above.
    unsafe { libc::madvise(pages, whole, MADV_COLLAPSE) };
}

/// Gives `each` so many pages of zeros that are not there yet, also where all memory is locked: touching one of them is a page
/// fault. None if the kernel refuses.
pub(crate) fn with_absent_pages<T>(pages: usize, each: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    let len = pages * rustix::param::page_size();
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping of its own, at a place that the kernel chooses.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // In a process that locks its memory the pages are there at once, until they are unlocked and given back.
    // SAFETY: only the mapping made above; reading what was given back gives zeros.
    let is_absent = unsafe { libc::munlock(memory, len) } == 0
        // SAFETY: as above.
        && unsafe { libc::madvise(memory, len, libc::MADV_DONTNEED) } == 0;
    let result = is_absent.then(|| {
        // SAFETY: `len` bytes that can be read and written, known to no one else, for as long as the mapping lives.
        each(unsafe { std::slice::from_raw_parts_mut(memory.cast(), len) })
    });
    // SAFETY: the mapping made above; what was lent of it has been given back.
    unsafe { libc::munmap(memory, len) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_memory_is_zero_however_it_lies() {
        for len in [0, 1, 4095, 4097, 3 << 20] {
            let mut memory = vec![MaybeUninit::new(7u8); len + 5];
            touch(&mut memory[5..]);
            // SAFETY: all of it was written.
            let bytes: Vec<u8> = memory.iter().map(|byte| unsafe { byte.assume_init() }).collect();
            assert!(bytes[..5] == [7; 5] && bytes[5..].iter().all(|byte| *byte == 0), "{len}");
        }
    }
}
