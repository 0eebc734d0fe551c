// SPDX-License-Identifier: MIT OR Apache-2.0
//! criterion 0.7, measuring instructions in place of time. A suite changes the line that imports criterion:
//!
//! ```no_run
//! // Was: use criterion::{...};
//! use perfmon_bench::criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
//!
//! fn sum(c: &mut Criterion) {
//!     let numbers: Vec<u64> = (0..1000).collect();
//!     c.bench_function("sum", |b| b.iter(|| numbers.iter().sum::<u64>()));
//! }
//!
//! fn sort(c: &mut Criterion) {
//!     let mut group = c.benchmark_group("sort");
//!     group.bench_with_input(BenchmarkId::from_parameter(100), &100, |b, n| {
//!         b.iter_batched(|| (0..*n).rev().collect::<Vec<u64>>(), |mut v| v.sort(), BatchSize::SmallInput);
//!     });
//! }
//!
//! criterion_group!(benches, sum, sort);
//! criterion_main!(benches);
//! ```
//!
//! If a group has a `config`, that line changes, too: it has [`criterion()`](crate::criterion()) in
//! place of `Criterion::default()`.
//!
//! ```no_run
//! # use perfmon_bench::criterion::{Criterion, criterion_group, criterion_main};
//! # fn sum(_: &mut Criterion) {}
//! criterion_group! {
//!     name = benches;
//!     // Was: config = Criterion::default().sample_size(10);
//!     config = perfmon_bench::criterion().sample_size(10);
//!     targets = sum
//! }
//! criterion_main!(benches);
//! ```
//!
//! The crate needs criterion 0.7 among its dependencies only for criterion's features, such as
//! `html_reports`. Each process counts all benchmarks, so criterion's counts depend on the keys of
//! hash maps and on earlier uses of the heap. [`main!`](crate::main!) counts each benchmark in
//! processes of its own.

pub use ::criterion::*;

pub use crate::__criterion_group as criterion_group;
use crate::counted_event::CountedEvent;

/// The manager of benchmarks, which counts instructions.
pub type Criterion = ::criterion::Criterion<CountedEvent>;

/// criterion's timer of a benchmark, which counts instructions.
pub type Bencher<'a> = ::criterion::Bencher<'a, CountedEvent>;

/// A group of benchmarks that are counted.
pub type BenchmarkGroup<'a, M = CountedEvent> = ::criterion::BenchmarkGroup<'a, M>;

/// Measurements.
pub mod measurement {
    pub use ::criterion::measurement::*;

    /// The counting measurement, for suites whose types name criterion's usual measurement.
    pub type WallTime = crate::counted_event::CountedEvent;
}

/// criterion's macros.
#[doc(hidden)]
pub mod original {
    pub use ::criterion::criterion_group;
}

/// Defines a group of benchmarks, like criterion's macro of this name.
#[doc(hidden)]
#[macro_export]
macro_rules! __criterion_group {
    (name = $name:ident; $($rest:tt)*) => {
        $crate::criterion::original::criterion_group! { name = $name; $($rest)* }
    };
    ($name:ident, $($target:path),+ $(,)*) => {
        $crate::criterion::original::criterion_group! {
            name = $name;
            config = $crate::criterion();
            targets = $($target),+
        }
    };
}
