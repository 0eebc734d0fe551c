// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of functions that can be benchmarks.

use std::marker::PhantomData;

use crate::bencher::Bencher;
use crate::compat::libtest;

/// A function that `main!` lists. The parameter `Kind` distinguishes the implementations.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a benchmark",
    label = "it takes a `Bencher` or nothing; with a list of arguments, it takes one of them, too"
)]
pub trait Function<Arguments, Kind> {
    /// Counts the function.
    fn count(&mut self, bencher: Bencher<'_>, arguments: &Arguments);
}

/// A function that takes a [`Bencher`].
#[derive(Debug)]
pub struct WithBencher;

/// A function that takes the bencher of Rust's test library.
#[derive(Debug)]
pub struct WithLibtestBencher;

/// A function that is counted itself, and returns `Output`.
#[derive(Debug)]
pub struct Plain<Output>(PhantomData<Output>);

impl<F: FnMut(Bencher<'_>)> Function<(), WithBencher> for F {
    fn count(&mut self, bencher: Bencher<'_>, (): &()) {
        self(bencher);
    }
}

impl<F: FnMut(&mut libtest::Bencher<'_>)> Function<(), WithLibtestBencher> for F {
    fn count(&mut self, bencher: Bencher<'_>, (): &()) {
        self(&mut libtest::Bencher::new(bencher));
    }
}

impl<F: FnMut() -> Output, Output> Function<(), Plain<Output>> for F {
    fn count(&mut self, bencher: Bencher<'_>, (): &()) {
        bencher.bench(self);
    }
}

impl<F: FnMut(Bencher<'_>, A), A: Clone> Function<(A,), WithBencher> for F {
    fn count(&mut self, bencher: Bencher<'_>, (argument,): &(A,)) {
        self(bencher, argument.clone());
    }
}

impl<F: FnMut(A) -> Output, A: Clone, Output> Function<(A,), Plain<Output>> for F {
    fn count(&mut self, bencher: Bencher<'_>, (argument,): &(A,)) {
        bencher.with_inputs(|| argument.clone()).bench_values(self);
    }
}
