//! The controller on its own thread: every job comes back worked on, and the worker ends when it is asked to.
#![allow(missing_docs)]

use khz_proofs::handover::handover;
use loom::thread;

#[test]
fn every_job_comes_back_and_the_worker_ends() {
    loom::model(|| {
        let (mut caller, worker) = handover(Box::new(0));
        let thread = thread::spawn(move || worker.serve(|job| *job += 1));
        let mut job = caller.take().unwrap();
        for n in 1..=2 {
            caller.give(job, Some(thread.thread()));
            while !caller.is_back() {
                thread::yield_now();
            }
            job = caller.take().unwrap();
            assert_eq!(*job, n);
        }
        caller.end(thread.thread());
        thread.join().unwrap();
    });
}

#[test]
fn a_worker_ends_whether_or_not_it_has_seen_its_job() {
    loom::model(|| {
        let (mut caller, worker) = handover(Box::new(0));
        let thread = thread::spawn(move || worker.serve(|job| *job += 1));
        let job = caller.take().unwrap();
        caller.give(job, Some(thread.thread()));
        caller.end(thread.thread());
        thread.join().unwrap();
        assert!(caller.take().is_none_or(|job| *job == 1));
    });
}
