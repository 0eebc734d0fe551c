// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//!
//! # How it counts
//!
//! A benchmark is called in passes until three of them in a row have counted the same: the first ones fill caches of the
//! program's own. Preparing inputs and dropping results is not counted; what hands them over is, some instructions that
//! are always the same. A benchmark that never counts the same, as with a clock or random numbers in it, or that has
//! several counts in turn, has a spread, and its changes an interval.
//!
//! # What is compared
//!
//! `--save-baseline NAME` writes the numbers to `target/perfmon/BENCH/NAME.json`, the format of `pmctl bench --save`, and
//! `--baseline NAME` compares with them: NAME may be the path of such a file, too. `--fail-if 'instructions:u>+1%'`, or
//! `instructions:1%` for short, makes the exit code 1 if a benchmark has become that much dearer. Benchmarks that the
//! baseline does not have are new, and fail nothing.

#![forbid(unsafe_code)]

mod baseline;
mod bencher;
#[cfg(feature = "criterion")]
mod criterion;
mod elsewhere;
mod meter;
mod options;
mod report;
mod suite;

pub use bencher::{Bencher, WithInputs};
pub use suite::Suite;

#[cfg(feature = "criterion")]
pub use criterion::CountedEvent;

/// Makes `main` of a bench target with `harness = false`: a list of functions, each with its arguments if it takes one,
/// and of groups.
///
/// A function takes a [`Bencher`], and an argument if it has some: a row for each of them is called `name/argument`. That
/// of a group begins with the name of the group.
///
/// ```no_run
/// use perfmon_bench::Bencher;
///
/// fn split(bencher: Bencher<'_>) {
///     bencher.bench(|| "a b c".split(' ').count());
/// }
///
/// fn repeat(bencher: Bencher<'_>, n: usize) {
///     bencher.bench(|| "ab".repeat(n));
/// }
///
/// perfmon_bench::main! {
///     split,
///     group text {
///         repeat = [1, 100],
///     }
/// }
/// ```
#[macro_export]
macro_rules! main {
    ($($benches:tt)*) => {
        fn main() -> ::std::process::ExitCode {
            let mut suite = $crate::Suite::new(
                ::core::env!("CARGO_CRATE_NAME"),
                ::core::option_env!("CARGO_TARGET_TMPDIR"),
            );
            $crate::__benches!(suite; $($benches)*);
            suite.run()
        }
    };
}

/// The list of [`main!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __benches {
    ($suite:ident;) => {};
    ($suite:ident; group $group:ident { $($inner:tt)* }, $($rest:tt)*) => {
        $crate::__benches!($suite; group $group { $($inner)* } $($rest)*);
    };
    ($suite:ident; group $group:ident { $($inner:tt)* } $($rest:tt)*) => {
        $suite.begin_group(::core::stringify!($group));
        $crate::__benches!($suite; $($inner)*);
        $suite.end_group();
        $crate::__benches!($suite; $($rest)*);
    };
    ($suite:ident; $bench:ident = [$($argument:expr),* $(,)?] $(, $($rest:tt)*)?) => {
        $({
            let argument = $argument;
            let name = ::std::format!("{}/{}", ::core::stringify!($bench), argument);
            $suite.add(&name, move |bencher| $bench(bencher, ::core::clone::Clone::clone(&argument)));
        })*
        $crate::__benches!($suite; $($($rest)*)?);
    };
    ($suite:ident; $bench:ident $(, $($rest:tt)*)?) => {
        $suite.add(::core::stringify!($bench), |bencher| $bench(bencher));
        $crate::__benches!($suite; $($($rest)*)?);
    };
}
