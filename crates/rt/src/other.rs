//! A thread seen from another one: how much of a CPU it got, and whether it waits for one.

use crate::sys::{CpuClock, cpu_clock};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The beginning of `/proc/…/stat` up to the state: a pid, a name of at most 15 bytes in parentheses, and one letter.
const STAT_BYTES: usize = 48;

/// A thread of this process that another one looks at. Made by the thread itself.
///
/// # Realtime contract
/// No allocation and no lock. Each look is one system call: the clock takes half a microsecond, the state some five, so look
/// only when something is late.
#[derive(Debug)]
pub struct OtherThread {
    clock: CpuClock,
    stat: File,
}

impl OtherThread {
    /// The calling thread, for others to look at.
    ///
    /// # Errors
    /// If the kernel does not let it be seen: no `/proc`, for example.
    pub fn current() -> io::Result<Self> {
        // The file stays that of this thread, whichever thread reads it.
        Ok(Self { clock: cpu_clock()?, stat: File::open("/proc/thread-self/stat")? })
    }

    /// CPU time it has used, ns; up to now, if it runs. `None` once it is gone.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<i64> {
        self.clock.now_ns()
    }

    /// It runs, or would run if it were given a CPU: it waits for nothing else.
    #[must_use]
    pub fn is_runnable(&self) -> bool {
        let mut buffer = [0; STAT_BYTES];
        let read = self.stat.read_at(&mut buffer, 0).unwrap_or(0);
        state(&buffer[..read]) == Some(b'R')
    }
}

/// The letter after the name, which may contain anything, also parentheses.
fn state(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn the_state_is_the_letter_after_the_name() {
        assert_eq!(state(b"12 (khz-controller) R 1 12"), Some(b'R'));
        assert_eq!(state(b"12 (a) S (b)) S 1 12"), Some(b'S'));
        assert_eq!([state(b""), state(b"12 (khz"), state(b"12 (khz)")], [None; 3]);
        // The longest pid and name the kernel has.
        assert!("4194304 (123456789012345) R".len() <= STAT_BYTES);
    }

    #[test]
    fn one_that_waits_for_another_is_not_runnable_and_uses_no_cpu_time() {
        let (release, held) = mpsc::channel::<()>();
        let (sender, seen) = mpsc::channel();
        let thread = thread::spawn(move || {
            sender.send(OtherThread::current().unwrap()).unwrap();
            let _ = held.recv();
        });
        let other = seen.recv().unwrap();
        // It comes to wait, eventually, and then its clock stands still.
        loop {
            let used_ns = other.cpu_ns().unwrap();
            if used_ns > 0 && !other.is_runnable() && other.cpu_ns() == Some(used_ns) {
                break;
            }
            thread::yield_now();
        }
        drop(release);
        thread.join().unwrap();
    }

    #[test]
    fn one_that_computes_is_runnable_and_its_clock_goes_on() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static DONE: AtomicBool = AtomicBool::new(false);
        let (sender, seen) = mpsc::channel();
        let thread = thread::spawn(move || {
            sender.send(OtherThread::current().unwrap()).unwrap();
            while !DONE.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let other = seen.recv().unwrap();
        let from_ns = other.cpu_ns().unwrap();
        while other.cpu_ns().unwrap() == from_ns {
            thread::yield_now();
        }
        assert!(other.is_runnable());
        DONE.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }

    #[test]
    fn one_that_is_gone_has_no_clock() {
        let other = thread::spawn(|| OtherThread::current().unwrap()).join().unwrap();
        // Joined is not yet gone: the kernel takes it off its lists a moment later.
        while other.cpu_ns().is_some() {
            thread::yield_now();
        }
        assert!(!other.is_runnable());
    }
}
