//! Opening a lost device again, on its own thread: opening may take milliseconds, and a tick has none.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Opens a device again and again until it is back.
///
/// The thread sleeps while nothing is lost. It ends within one pause after the `Reopener` is dropped.
pub(crate) struct Reopener {
    lost: rtrb::Producer<Option<OwnedFd>>,
    fresh: rtrb::Consumer<OwnedFd>,
    thread: thread::Thread,
}

impl Reopener {
    /// Starts the thread; `open` is called on it.
    pub(crate) fn new(open: impl Fn() -> io::Result<OwnedFd> + Send + 'static) -> io::Result<Self> {
        let (lost, mut lost_end) = rtrb::RingBuffer::<Option<OwnedFd>>::new(1);
        let (mut fresh_end, fresh) = rtrb::RingBuffer::new(1);
        let work = move || {
            while !lost_end.is_abandoned() {
                let Ok(dead) = lost_end.pop() else {
                    thread::park();
                    continue;
                };
                drop(dead); // Closed here, because closing can wait too.
                while let Some(fd) = attempt(&open, &lost_end) {
                    if fresh_end.push(fd).is_ok() {
                        break;
                    }
                }
            }
        };
        let handle = thread::Builder::new().name("khz-reopen".into()).stack_size(256 << 10).spawn(work)?;
        Ok(Self { lost, fresh, thread: handle.thread().clone() })
    }

    /// Hands a dead descriptor over and asks for a new one. Does not wait.
    pub(crate) fn lost(&mut self, dead: Option<OwnedFd>) {
        // The ring is only full if the previous loss is not yet being worked on; one request is enough.
        let _ = self.lost.push(dead);
        self.thread.unpark();
    }

    /// The new descriptor, once there is one. Does not wait.
    pub(crate) fn poll(&mut self) -> Option<OwnedFd> {
        self.fresh.pop().ok()
    }
}

impl Drop for Reopener {
    fn drop(&mut self) {
        // First abandon the ring, then wake the thread so that it sees it.
        let (placeholder, _) = rtrb::RingBuffer::new(1);
        drop(std::mem::replace(&mut self.lost, placeholder));
        self.thread.unpark();
    }
}

/// Tries until it works, or `None` once no one wants it any more.
fn attempt(
    open: &impl Fn() -> io::Result<OwnedFd>,
    wanted: &rtrb::Consumer<Option<OwnedFd>>,
) -> Option<OwnedFd> {
    while !wanted.is_abandoned() {
        if let Ok(fd) = open() {
            return Some(fd);
        }
        thread::sleep(PAUSE);
    }
    None
}
