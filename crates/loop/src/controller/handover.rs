//! One job that travels to another thread and back. `proofs/tests/handover.rs` tries every order in which the two
//! threads can do that: no job is lost, and no worker sleeps while one waits for it.
//!
//! # Realtime contract
//! The caller neither allocates nor locks nor waits; waking the worker is one system call (`futex`).

use crate::sync::{Arc, AtomicBool, Consumer, Ordering, Producer, RingBuffer, Thread, park};

/// The end that gives the job away and takes it back.
pub struct Caller<J> {
    to_worker: Producer<Box<J>>,
    from_worker: Consumer<Box<J>>,
    end: Arc<AtomicBool>,
}

/// The end that does the work.
pub struct Worker<J> {
    jobs: Consumer<Box<J>>,
    results: Producer<Box<J>>,
    end: Arc<AtomicBool>,
}

/// Makes both ends; the job waits for the caller.
pub fn handover<J>(job: Box<J>) -> (Caller<J>, Worker<J>) {
    let (to_worker, jobs) = RingBuffer::new(1);
    let (mut results, from_worker) = RingBuffer::new(1);
    // The ring is new and empty, so the first job finds its place.
    let _ = results.push(job);
    let end = Arc::new(AtomicBool::new(false));
    let worker = Worker { jobs, results, end: Arc::clone(&end) };
    (Caller { to_worker, from_worker, end }, worker)
}

impl<J> Caller<J> {
    /// The job, if it is back.
    pub fn take(&mut self) -> Option<Box<J>> {
        self.from_worker.pop().ok()
    }

    /// Whether the job is back.
    pub fn is_back(&self) -> bool {
        !self.from_worker.is_empty()
    }

    /// Gives the job to the worker and wakes its thread; the ring has room, because there is one job only.
    pub fn give(&mut self, job: Box<J>, worker: Option<&Thread>) {
        let _ = self.to_worker.push(job);
        if let Some(worker) = worker {
            worker.unpark();
        }
    }

    /// Has the worker leave [`Worker::serve`] once it is done with the job it has.
    pub fn end(&self, worker: &Thread) {
        self.end.store(true, Ordering::Release);
        worker.unpark();
    }
}

impl<J> Worker<J> {
    /// Works on every job until the caller ends it. Sleeps in between.
    pub fn serve(mut self, mut work: impl FnMut(&mut J)) {
        while !self.end.load(Ordering::Acquire) {
            let Ok(mut job) = self.jobs.pop() else {
                park();
                continue;
            };
            work(&mut job);
            let _ = self.results.push(job);
        }
    }
}
