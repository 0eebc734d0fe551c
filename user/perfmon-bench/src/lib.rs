// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//!
//! # How it counts
//!
//! A benchmark is called in passes until three of them in a row have equal counts; the first passes
//! fill the program's own caches. Preparing inputs and dropping results is not counted. Passing an
//! input to the function and returning a result is counted; these instructions are always the same.
//!
//! Each benchmark is counted in two processes that count nothing else. The processes have the same
//! arguments, and an environment of the same size, with these variables only: `CARGO_MANIFEST_DIR`,
//! HOME, `LD_LIBRARY_PATH`, PATH, `RUST_BACKTRACE`, TMPDIR, and the variables of `--env`. The
//! addresses in these processes are not random. The output of a benchmark goes to the standard
//! error.
//!
//! A count is *exact* if it is the same in all passes of both processes. Otherwise, for example
//! because the benchmark uses a clock, random numbers or a hash map with random keys, the count is
//! shown with a spread, and its change with an interval. If only the two processes differ, six
//! processes count the benchmark.
//!
//! [`Bencher::all_threads`] counts all threads of the process. The number of instructions to start,
//! wake and join threads varies from pass to pass, so such a count has a spread. Make the work much
//! larger than this part. Join the threads (`JoinHandle::join`), because the end of `thread::scope`
//! does not wait for their last instructions.
//!
//! Nothing is counted on other machines than x86-64 with Linux: there the benchmarks are built, `cargo test` calls each
//! once, and `cargo bench` ends with exit code 125.
//!
//! If a benchmark panics, the others are counted, shown and saved; the exit code is 125, or 1 if a condition of `--fail-if`
//! holds for another benchmark.
//!
//! # Comparison with a baseline
//!
//! `--save-baseline NAME` writes the counts to `target/perfmon/PACKAGE/BENCH/NAME.json`, in the format of
//! `pmctl bench --save`. `--baseline NAME` compares with them.
//!
//! NAME may also be the path of a file. Several bench targets can share it: their benchmarks are saved as
//! `PACKAGE::BENCH::NAME`. `cargo bench` runs each target in the folder of its package, so give an absolute path in a
//! workspace.
//!
//! With `--fail-if 'instructions:u>+1%'`, or `instructions:1%` for short, the exit code is 1 if the instructions of a
//! benchmark have grown by more than 1 %. A benchmark that the baseline lacks never fails. If the baseline lacks all
//! benchmarks that were counted, nothing is compared, and the exit code is 125, unless another condition holds.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", not(perfmon_elsewhere))),
    allow(dead_code, reason = "only counting uses some items")
)]

mod bencher;
pub mod compat;
#[cfg(feature = "criterion")]
mod counted_event;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(perfmon_elsewhere)))]
mod counting;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(perfmon_elsewhere))))]
#[path = "elsewhere.rs"]
mod counting;
#[cfg(feature = "criterion")]
pub mod criterion;
mod function;
mod options;
mod suite;

pub use bencher::{Bencher, WithInputs};
#[cfg(feature = "criterion")]
pub use counted_event::{CountedEvent, criterion};
pub use suite::Suite;

/// Creates `main` of a bench target with `harness = false`, from a list of functions and groups of functions.
///
/// A function takes a [`Bencher`]; a function that takes none is counted itself. A function that is
/// listed with arguments gets one argument as its second parameter. Each argument makes a benchmark
/// `name/argument`. The name of a benchmark in a group begins with the name of the group. Functions
/// of modules are listed by their paths.
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
/// mod numbers {
///     pub fn parse() -> Result<u64, std::num::ParseIntError> {
///         std::hint::black_box("12").parse()
///     }
///
///     pub fn square(n: u64) -> u64 {
///         n * n
///     }
/// }
///
/// perfmon_bench::main! {
///     split,
///     numbers::parse,
///     group text {
///         repeat = [1, 100],
///         numbers::square = [3],
///     }
/// }
/// ```
#[macro_export]
macro_rules! main {
    ($($benches:tt)*) => {
        fn main() -> ::std::process::ExitCode {
            let mut suite = $crate::Suite::new(
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_CRATE_NAME"),
                ::core::option_env!("CARGO_TARGET_TMPDIR"),
            );
            $crate::__benches!(suite; $($benches)*);
            suite.run()
        }
    };
}

/// Expands the list of [`main!`].
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
    ($suite:ident; $bench:path = [$($argument:expr),* $(,)?] $(, $($rest:tt)*)?) => {
        $({
            let argument = $argument;
            let name = ::std::format!("{}/{}", ::core::stringify!($bench), argument);
            $suite.add_function_with(&name, argument, $bench);
        })*
        $crate::__benches!($suite; $($($rest)*)?);
    };
    ($suite:ident; $bench:path $(, $($rest:tt)*)?) => {
        $suite.add_function(::core::stringify!($bench), $bench);
        $crate::__benches!($suite; $($($rest)*)?);
    };
}
