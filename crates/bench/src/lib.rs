//! The harness of the benches. Each bench is one file of `src/bin`, started by `cargo xtask bench NAME`.
//!
//! A bench runs two things that do the same work in turns, so that whatever disturbs the machine disturbs
//! both, and prints lines a person and a program can read (smaller is better, `VALUE` ≤ `GOAL` is met):
//!
//! ```text
//! ratio NAME VALUE goal GOAL
//! figure NAME VALUE UNIT goal GOAL
//! ```
//!
//! ```no_run
//! use khz_bench::{Bench, timed_ns};
//!
//! let bench = Bench::from_args();
//! let (ours, peer) = bench.interleave(
//!     1_000,
//!     || timed_ns(|| (0..100_u64).sum::<u64>()),
//!     || timed_ns(|| (0..100_u64).fold(0, |sum, number| sum + number)),
//! );
//! bench.ratio("sum_p50", ours.median() / peer.median(), 1.0);
//! bench.figure("sum_p99", ours.percentile(99.0), "ns", 200.0);
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // Figures on standard output are what benches are for.

pub mod machine;
pub mod turns;
pub mod viewers;
pub mod watched;

use std::time::Instant;

/// One run of a bench: how thorough it is to be, and where its figures go.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    quick: bool,
}

impl Bench {
    /// As the command line says: `--quick` asks for a tenth of the rounds.
    pub fn from_args() -> Self {
        Self { quick: std::env::args().any(|word| word == "--quick") }
    }

    /// How many rounds to make where a thorough run makes `rounds`; at least three.
    pub fn rounds(&self, rounds: usize) -> usize {
        if self.quick { (rounds / 10).max(3) } else { rounds }
    }

    /// Calls both in turns and keeps what each call reports that it took, in whatever unit they use. The order
    /// changes from round to round (a b, b a, …), so that neither always follows the other; the first
    /// round only warms up and is not kept.
    pub fn interleave(
        &self,
        rounds: usize,
        mut ours: impl FnMut() -> f64,
        mut peer: impl FnMut() -> f64,
    ) -> (Samples, Samples) {
        let rounds = self.rounds(rounds);
        let (mut a, mut b) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
        ours();
        peer();
        for round in 0..rounds {
            if round % 2 == 0 {
                a.push(ours());
                b.push(peer());
            } else {
                b.push(peer());
                a.push(ours());
            }
        }
        (Samples::new(a), Samples::new(b))
    }

    /// Prints how ours compares to the peer.
    pub fn ratio(&self, name: &str, value: f64, goal: f64) {
        println!("ratio {name} {value:.4} goal {goal}");
    }

    /// Prints a figure that stands for itself.
    pub fn figure(&self, name: &str, value: f64, unit: &str, goal: f64) {
        println!("figure {name} {value:.3} {unit} goal {goal}");
    }
}

/// What was measured, in ascending order.
#[derive(Clone, Debug)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Takes measurements in any order.
    ///
    /// # Panics
    /// If there is none: a bench that measured nothing must not print a figure.
    pub fn new(mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "nothing was measured");
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The smallest sample that at least `percent` of all do not exceed (nearest rank).
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The largest.
    pub fn max(&self) -> f64 {
        self.percentile(100.0)
    }
}

/// How long a piece of work took, in nanoseconds. What it returns counts as used, so the compiler keeps it.
pub fn timed_ns<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let samples = Samples::new((1..=200).rev().map(f64::from).collect());
        assert_eq!(samples.median(), 100.0);
        assert_eq!(samples.percentile(99.0), 198.0);
        assert_eq!(samples.percentile(0.0), 1.0);
        assert_eq!(samples.max(), 200.0);
        assert_eq!(samples.mean(), 100.5);
    }

    #[test]
    fn both_sides_run_as_often_and_in_changing_order() {
        let order = std::cell::RefCell::new(String::new());
        let call = |side: char| {
            order.borrow_mut().push(side);
            1.0
        };
        let (ours, peer) = Bench { quick: false }.interleave(3, || call('a'), || call('b'));
        assert_eq!(*order.borrow(), "ababbaab");
        assert_eq!((ours.0.len(), peer.0.len()), (3, 3));
    }

    #[test]
    fn quick_makes_a_tenth_but_never_too_few() {
        assert_eq!(Bench { quick: true }.rounds(1000), 100);
        assert_eq!(Bench { quick: true }.rounds(5), 3);
        assert_eq!(Bench { quick: false }.rounds(5), 5);
    }
}
