//! The robot's targets: of programs that send at once one has the robot, and the loop follows none that was refused or has let go of it.
#![allow(missing_docs)]

use khz_proofs::lease::{Claim, Lease};
use khz_proofs::newest::{Writer, newest};
use khz_proofs::sync::Arc;
use loom::sync::Mutex;
use loom::thread;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a inbox has behind its lock; a plan is its number and who sent it.
struct Inbox {
    lease: Lease,
    sent: u8,
    plans: Writer<[u8; 2]>,
}

/// Whether it was taken.
fn send(inbox: &Mutex<Inbox>, place: usize, priority: u8) -> bool {
    let mut inbox = inbox.lock().expect("no thread panicked");
    let claim = Claim { place, priority, takes: false };
    if inbox.lease.check(claim, 0).is_err() {
        return false;
    }
    inbox.sent += 1;
    *inbox.plans.value() = [inbox.sent, place as u8];
    inbox.plans.publish();
    inbox.lease.take(claim, 100);
    true
}

#[test]
fn of_two_programs_that_send_at_once_one_has_the_robot_and_the_loop_sees_no_other() {
    loom::model(|| {
        let (plans, mut seen) = newest(&[0; 2]);
        let inbox = Arc::new(Mutex::new(Inbox { lease: Lease::default(), sent: 0, plans }));
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || [(); 2].map(|()| send(&inbox, 2, 5)))
        };
        let mine = send(&inbox, 1, 5);
        let [number, place] = *seen.read();
        let others = other.join().unwrap();
        // The first one has it.
        assert_eq!(others, [!mine; 2]);
        let [last, holder] = *seen.read();
        assert_eq!((holder, last), if mine { (1, 1) } else { (2, 2) });
        assert!(number <= last && (number == 0 || place == holder));
        assert_eq!(inbox.lock().unwrap().lease.holder(), Some(usize::from(holder)));
    });
}

#[test]
fn a_stronger_program_has_the_robot_in_the_end_and_the_loop_never_goes_back() {
    loom::model(|| {
        let (plans, mut seen) = newest(&[0; 2]);
        let inbox = Arc::new(Mutex::new(Inbox { lease: Lease::default(), sent: 0, plans }));
        let stronger = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || assert!(send(&inbox, 9, 9)))
        };
        let loops = thread::spawn(move || {
            let [first, second] = [(); 2].map(|()| *seen.read());
            assert!(first[0] <= second[0] && (first[1] != 9 || second[1] == 9), "{first:?} {second:?}");
            seen
        });
        send(&inbox, 1, 5);
        let mut seen = loops.join().unwrap();
        stronger.join().unwrap();
        assert_eq!(seen.read()[1], 9);
    });
}

/// What was released is taken by the next one, whichever is quicker.
#[test]
fn a_program_that_lets_go_is_followed_by_no_plan_of_its_own() {
    static WAS_TAKEN: AtomicBool = AtomicBool::new(false);
    loom::model(|| {
        let (plans, mut seen) = newest(&[0; 2]);
        let inbox = Arc::new(Mutex::new(Inbox { lease: Lease::default(), sent: 0, plans }));
        assert!(send(&inbox, 1, 5));
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || send(&inbox, 2, 5))
        };
        inbox.lock().unwrap().lease.release();
        let was_taken = other.join().unwrap();
        WAS_TAKEN.fetch_or(was_taken, Ordering::Relaxed);
        let again = send(&inbox, 1, 5);
        assert!(was_taken != again, "one of both");
        assert_eq!(seen.read()[1], if was_taken { 2 } else { 1 });
    });
    assert!(WAS_TAKEN.load(Ordering::Relaxed), "in none of the orders the robot was free");
}
