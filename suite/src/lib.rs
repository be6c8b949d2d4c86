//! One set of cases that every link has to pass, run through the bus cycle as the robot runs it.
//!
//! Each link under test stands opposite the same emulated servos. Time is virtual even where the link is a
//! real one over kernel objects (pseudo terminals, sockets): after each step the [`lockstep`] waits until the
//! kernel has carried everything over, so that results depend on nothing but the case.
//!
//! | module | what |
//! |---|---|
//! | [`rig`] | servos, link and cycle put together |
//! | [`shared`] | what link and case share |
//! | [`lockstep`] | a real link whose other end keeps virtual time |
//! | [`cases`] | the cases |
//! | [`stands`] | how each link is set up |
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

pub mod cases;
pub mod lockstep;
pub mod rig;
pub mod shared;
pub mod stands;

/// Declares one test per case for a stand.
#[macro_export]
macro_rules! conformance {
    ($stand:expr) => {
        $crate::conformance!($stand => all_answer silent late twice foreign corrupt reboot cut refused heap);
    };
    // A link that carries CAN frames of any kind.
    (any $stand:expr) => {
        $crate::conformance!($stand => all_answer silent late twice foreign corrupt classic reboot cut refused heap);
    };
    ($stand:expr => $($case:ident)*) => {
        $(#[test]
        fn $case() {
            $crate::cases::$case(&$stand);
        })*
    };
}
