// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks that were written for the `#[bench]` of Rust's test library, and for the crate bencher.
//!
//! A suite of such functions changes the lines around them, and stays as it is otherwise:
//!
//! ```no_run
//! // Was: #![feature(test)] extern crate test; use test::{Bencher, black_box};
//! use perfmon_bench::compat::libtest::{Bencher, black_box};
//!
//! // Was: #[bench]
//! fn sum(b: &mut Bencher) {
//!     let numbers: Vec<u64> = (0..1000).collect();
//!     b.iter(|| black_box(&numbers).iter().sum::<u64>());
//! }
//!
//! perfmon_bench::main! { sum }
//! ```
//!
//! The bench target needs `harness = false`. It builds with a stable compiler.

pub use std::hint::black_box;

/// Counts a function. A benchmark calls [`iter`](Self::iter) once.
#[derive(Debug)]
pub struct Bencher<'a> {
    /// The bencher; `None` after the count.
    bencher: Option<crate::Bencher<'a>>,
    /// The number of bytes that a call handles, which a benchmark may set. It has no effect on the count.
    pub bytes: u64,
}

impl<'a> Bencher<'a> {
    pub(crate) fn new(bencher: crate::Bencher<'a>) -> Self {
        Self {
            bencher: Some(bencher),
            bytes: 0,
        }
    }

    /// Counts a function, as [`Bencher::bench`](crate::Bencher::bench): its results are dropped outside of the counted part.
    ///
    /// # Panics
    /// If the method is called a second time, because a benchmark has only one count.
    #[allow(clippy::iter_not_returning_iterator, reason = "libtest's name")]
    pub fn iter<Output>(&mut self, work: impl FnMut() -> Output) {
        match self.bencher.take() {
            Some(bencher) => bencher.bench(work),
            None => panic!("a benchmark may call `Bencher::iter` once only"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::bencher::Task;

    #[test]
    fn a_benchmark_is_called_by_iter() {
        let mut result = None;
        let mut bencher = super::Bencher::new(crate::Bencher {
            task: Task::Try,
            result: &mut result,
        });
        let mut calls = 0;
        bencher.bytes = 8;
        bencher.iter(|| calls += 1);
        assert_eq!((calls, result), (1, Some(Ok(()))));
    }

    #[test]
    #[should_panic(expected = "once only")]
    fn a_second_count_is_refused() {
        let mut result = None;
        let mut bencher = super::Bencher::new(crate::Bencher {
            task: Task::Try,
            result: &mut result,
        });
        bencher.iter(|| ());
        bencher.iter(|| ());
    }
}
