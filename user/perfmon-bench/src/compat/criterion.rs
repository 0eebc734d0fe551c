// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suites that were written for criterion. A suite changes the line that imports criterion:
//!
//! ```no_run
//! // Was: use criterion::{...};
//! use perfmon_bench::compat::criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
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
//!     group.finish();
//! }
//!
//! criterion_group! {
//!     name = benches;
//!     config = Criterion::default().sample_size(10);
//!     targets = sum, sort
//! }
//! criterion_main!(benches);
//! ```
//!
//! criterion itself is not needed: this module has the part of its interface, from version 0.3 to
//! 0.8, that suites use, and each benchmark is counted in processes of its own, with the options,
//! the baselines and the conditions of [`main!`](crate::main!). Settings with a meaning for times
//! only, such as the number of samples, are accepted and have no effect. To count with criterion's
//! own statistics and reports, use [`perfmon_bench::criterion`](mod@crate::criterion).
//!
//! A benchmark that measures by itself with `iter_custom` can't be counted: it fails, its name is
//! printed, and the other benchmarks are counted.

use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

pub use std::hint::black_box;

pub use crate::__compat_criterion_group as criterion_group;
pub use crate::__compat_criterion_main as criterion_main;
use crate::bencher::Task;
use crate::counting::{Error, Meter};
use crate::options::Options;
use crate::suite::Suite;

/// The measurements that criterion's types are generic over.
pub mod measurement {
    /// A measurement.
    pub trait Measurement {}

    /// The measurement that suites name. This module counts events in its place.
    #[derive(Debug)]
    pub struct WallTime;

    impl Measurement for WallTime {}
}

use measurement::WallTime;

/// A function of a suite.
type Group = fn(&mut Criterion);

/// The manager of benchmarks.
#[derive(Debug)]
pub struct Criterion<M = WallTime> {
    work: Work,
    measurement: PhantomData<M>,
}

/// The work on the benchmarks that a suite's functions name.
#[derive(Debug)]
enum Work {
    /// Collects the names of the benchmarks.
    List(Vec<String>),
    /// Runs the benchmark with this name.
    Run(String, Box<Run>),
}

/// The run of a benchmark. It owns the meter and the counts that a [`crate::Bencher`] borrows,
/// because suites expect a [`Criterion`] without a lifetime.
#[derive(Debug)]
struct Run {
    /// The meter, and the counts of each event; `None` to call the benchmark once, as a test.
    counting: Option<(Meter, Vec<Vec<u64>>)>,
    result: Option<Result<(), Error>>,
}

/// Counts the function of a benchmark.
#[derive(Debug)]
pub struct Bencher<'a, M = WallTime> {
    /// The bencher; `None` after the count.
    bencher: Option<crate::Bencher<'a>>,
    measurement: PhantomData<M>,
}

/// A group of benchmarks, whose names begin with the name of the group.
#[derive(Debug)]
pub struct BenchmarkGroup<'a, M = WallTime> {
    criterion: &'a mut Criterion<M>,
    name: String,
}

/// The name of a benchmark in a group: of a function, of a parameter, or of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchmarkId {
    name: String,
}

/// A value that names a benchmark in a group.
pub trait IntoBenchmarkId {
    /// Returns the name.
    fn into_benchmark_id(self) -> BenchmarkId;
}

/// The number of inputs that criterion prepares at once. Here one input is prepared for each pass.
#[expect(missing_docs, reason = "the names are criterion's")]
#[derive(Clone, Copy, Debug)]
pub enum BatchSize {
    SmallInput,
    LargeInput,
    PerIteration,
    NumBatches(u64),
    NumIterations(u64),
}

/// The work of a pass. It has no effect.
#[expect(missing_docs, reason = "the names are criterion's")]
#[derive(Clone, Copy, Debug)]
pub enum Throughput {
    Bytes(u64),
    BytesDecimal(u64),
    Elements(u64),
    Bits(u64),
    ElementsAndBytes { elements: u64, bytes: u64 },
}

/// Criterion's way to choose the number of passes. It has no effect.
#[expect(missing_docs, reason = "the names are criterion's")]
#[derive(Clone, Copy, Debug)]
pub enum SamplingMode {
    Auto,
    Linear,
    Flat,
}

/// The axis of criterion's plots. It has no effect.
#[expect(missing_docs, reason = "the names are criterion's")]
#[derive(Clone, Copy, Debug)]
pub enum AxisScale {
    Linear,
    Logarithmic,
}

/// The look of criterion's plots. It has no effect.
#[derive(Clone, Debug, Default)]
pub struct PlotConfiguration;

impl PlotConfiguration {
    /// Has no effect.
    #[must_use]
    pub fn summary_scale(self, _: AxisScale) -> Self {
        self
    }
}

impl BenchmarkId {
    /// Returns the name of a function with a parameter.
    pub fn new<S: Into<String>, P: Display>(function: S, parameter: P) -> Self {
        let name = format!("{}/{parameter}", function.into());
        Self { name }
    }

    /// Returns the name of a parameter.
    pub fn from_parameter<P: Display>(parameter: P) -> Self {
        let name = parameter.to_string();
        Self { name }
    }
}

impl IntoBenchmarkId for BenchmarkId {
    fn into_benchmark_id(self) -> BenchmarkId {
        self
    }
}

impl<S: Into<String>> IntoBenchmarkId for S {
    fn into_benchmark_id(self) -> BenchmarkId {
        BenchmarkId { name: self.into() }
    }
}

impl Default for Criterion {
    fn default() -> Self {
        Self::with(Work::List(Vec::new()))
    }
}

/// Defines methods for settings that have a meaning for times only.
macro_rules! without_effect {
    ($($name:ident($type:ty);)*) => {
        $(
            /// Has no effect.
            #[must_use]
            pub fn $name(self, _: $type) -> Self {
                self
            }
        )*
    };
}

/// Defines such methods for a group.
macro_rules! without_effect_on_group {
    ($($name:ident($type:ty);)*) => {
        $(
            /// Has no effect.
            pub fn $name(&mut self, _: $type) -> &mut Self {
                self
            }
        )*
    };
}

impl<M> Criterion<M> {
    fn with(work: Work) -> Self {
        Self {
            work,
            measurement: PhantomData,
        }
    }

    without_effect! {
        sample_size(usize);
        warm_up_time(Duration);
        measurement_time(Duration);
        nresamples(usize);
        noise_threshold(f64);
        confidence_level(f64);
        significance_level(f64);
    }

    /// Has no effect.
    #[must_use]
    pub fn with_plots(self) -> Self {
        self
    }

    /// Has no effect.
    #[must_use]
    pub fn without_plots(self) -> Self {
        self
    }

    /// Has no effect: the options of the command line are used anyway.
    #[must_use]
    pub fn configure_from_args(self) -> Self {
        self
    }

    /// Adds a benchmark.
    pub fn bench_function<F>(&mut self, name: &str, mut benchmark: F) -> &mut Self
    where
        F: FnMut(&mut Bencher<'_, M>),
    {
        self.add(name, &mut benchmark);
        self
    }

    /// Adds a benchmark, which gets the input.
    #[allow(clippy::needless_pass_by_value, reason = "suites are written for it")]
    pub fn bench_with_input<F, I>(
        &mut self,
        id: BenchmarkId,
        input: &I,
        mut benchmark: F,
    ) -> &mut Self
    where
        F: FnMut(&mut Bencher<'_, M>, &I),
        I: ?Sized,
    {
        self.add(&id.name, &mut |bencher| benchmark(bencher, input));
        self
    }

    /// Begins a group.
    pub fn benchmark_group<S: Into<String>>(&mut self, name: S) -> BenchmarkGroup<'_, M> {
        BenchmarkGroup {
            name: name.into(),
            criterion: self,
        }
    }

    /// Collects the name of the benchmark, or runs the benchmark if it has the name of the
    /// benchmark to run.
    fn add(&mut self, name: &str, benchmark: &mut dyn FnMut(&mut Bencher<'_, M>)) {
        match &mut self.work {
            Work::List(names) => names.push(name.to_owned()),
            Work::Run(chosen, run) if chosen == name => run.call(benchmark),
            Work::Run(..) => (),
        }
    }
}

impl Run {
    /// Calls the benchmark.
    fn call<M>(&mut self, benchmark: &mut dyn FnMut(&mut Bencher<'_, M>)) {
        let task = match &mut self.counting {
            Some((meter, values)) => Task::Count(meter, values),
            None => Task::Try,
        };
        let result = &mut self.result;
        benchmark(&mut Bencher {
            bencher: Some(crate::Bencher { task, result }),
            measurement: PhantomData,
        });
    }
}

impl<M> BenchmarkGroup<'_, M> {
    without_effect_on_group! {
        sample_size(usize);
        warm_up_time(Duration);
        measurement_time(Duration);
        nresamples(usize);
        noise_threshold(f64);
        confidence_level(f64);
        significance_level(f64);
        sampling_mode(SamplingMode);
        plot_config(PlotConfiguration);
        throughput(Throughput);
    }

    /// Adds a benchmark.
    pub fn bench_function<Id, F>(&mut self, id: Id, mut benchmark: F) -> &mut Self
    where
        Id: IntoBenchmarkId,
        F: FnMut(&mut Bencher<'_, M>),
    {
        let name = self.name_of(id);
        self.criterion.add(&name, &mut benchmark);
        self
    }

    /// Adds a benchmark, which gets the input.
    pub fn bench_with_input<Id, F, I>(&mut self, id: Id, input: &I, mut benchmark: F) -> &mut Self
    where
        Id: IntoBenchmarkId,
        F: FnMut(&mut Bencher<'_, M>, &I),
        I: ?Sized,
    {
        let name = self.name_of(id);
        self.criterion
            .add(&name, &mut |bencher| benchmark(bencher, input));
        self
    }

    /// Ends the group.
    pub fn finish(self) {}

    fn name_of(&self, id: impl IntoBenchmarkId) -> String {
        format!("{}/{}", self.name, id.into_benchmark_id().name)
    }
}

impl<M> Bencher<'_, M> {
    /// Counts a function. Its results are dropped outside of the counted part.
    ///
    /// # Panics
    /// This and the other methods panic if the benchmark was counted already.
    #[allow(clippy::iter_not_returning_iterator, reason = "criterion's name")]
    pub fn iter<O>(&mut self, routine: impl FnMut() -> O) {
        self.take().bench(routine);
    }

    /// Counts a function, as [`iter`](Self::iter).
    pub fn iter_with_large_drop<O>(&mut self, routine: impl FnMut() -> O) {
        self.iter(routine);
    }

    /// Counts a function that takes its input by value, prepared outside of the counted part.
    pub fn iter_with_setup<I, O>(&mut self, setup: impl FnMut() -> I, routine: impl FnMut(I) -> O) {
        self.take().with_inputs(setup).bench_values(routine);
    }

    /// Counts a function that takes its input by value, prepared outside of the counted part.
    pub fn iter_batched<I, O>(
        &mut self,
        setup: impl FnMut() -> I,
        routine: impl FnMut(I) -> O,
        _: BatchSize,
    ) {
        self.iter_with_setup(setup, routine);
    }

    /// Counts a function that takes its input by reference. The input is prepared and dropped outside of the counted part.
    pub fn iter_batched_ref<I, O>(
        &mut self,
        setup: impl FnMut() -> I,
        routine: impl FnMut(&mut I) -> O,
        _: BatchSize,
    ) {
        self.take().with_inputs(setup).bench_refs(routine);
    }

    /// Calls the function once, for `cargo test`.
    ///
    /// # Panics
    /// If the benchmark is to be counted, because the function measures times by itself.
    pub fn iter_custom(&mut self, mut routine: impl FnMut(u64) -> Duration) {
        let bencher = self.take();
        assert!(
            matches!(bencher.task, Task::Try),
            "`iter_custom` measures by itself, so there is nothing to count"
        );
        bencher.bench(|| routine(1));
    }

    fn take(&mut self) -> crate::Bencher<'_> {
        let bencher = self.bencher.take();
        bencher.expect("a benchmark may be counted once only")
    }
}

/// Adds the benchmarks of these functions to the suite: the expansion of `criterion_main!`.
#[doc(hidden)]
pub fn add_groups(suite: &mut Suite, groups: &'static [Group]) {
    for name in names_in(groups) {
        suite.add(&name.clone(), move |bencher| {
            run_one(groups, &name, bencher);
        });
    }
}

/// Returns the names of the benchmarks. A process that counts one benchmark returns only the name
/// of that benchmark, and does not call the functions for it: some functions set up something that
/// a process can have only once, such as a pool of threads.
fn names_in(groups: &[Group]) -> Vec<String> {
    if let Some(name) = Options::name_to_count() {
        return vec![name];
    }
    let mut criterion = Criterion::default();
    for group in groups {
        group(&mut criterion);
    }
    match criterion.work {
        Work::List(names) => names,
        Work::Run(..) => Vec::new(),
    }
}

/// Calls the functions of a suite. The function that has the benchmark of this name runs the
/// benchmark.
fn run_one(groups: &[Group], name: &str, bencher: crate::Bencher<'_>) {
    let crate::Bencher { task, result } = bencher;
    let (counting, borrowed) = match task {
        Task::Try => (None, None),
        Task::Count(meter, values) => {
            let owned = (meter.take(), std::mem::take(values));
            (Some(owned), Some((meter, values)))
        }
    };
    let run = Run {
        counting,
        result: None,
    };
    let mut criterion = Criterion::with(Work::Run(name.to_owned(), Box::new(run)));
    for group in groups {
        group(&mut criterion);
    }
    if let Work::Run(_, run) = criterion.work {
        *result = run.result;
        if let (Some((meter, values)), Some((owned_meter, owned_values))) = (borrowed, run.counting)
        {
            *meter = owned_meter;
            *values = owned_values;
        }
    }
}

/// Defines a function of a suite that calls others, as criterion's macro of this name.
#[doc(hidden)]
#[macro_export]
macro_rules! __compat_criterion_group {
    (name = $name:ident; config = $config:expr; targets = $($target:path),+ $(,)*) => {
        #[allow(unreachable_pub, reason = "criterion's macro makes the function public, too")]
        pub fn $name(criterion: &mut $crate::compat::criterion::Criterion) {
            let _: $crate::compat::criterion::Criterion = $config;
            $($target(criterion);)+
        }
    };
    ($name:ident, $($target:path),+ $(,)*) => {
        $crate::__compat_criterion_group! {
            name = $name;
            config = $crate::compat::criterion::Criterion::default();
            targets = $($target),+
        }
    };
}

/// Defines `main`, as criterion's macro of this name.
#[doc(hidden)]
#[macro_export]
macro_rules! __compat_criterion_main {
    ($($group:path),+ $(,)*) => {
        fn main() -> ::std::process::ExitCode {
            let mut suite = $crate::Suite::new(
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_CRATE_NAME"),
                ::core::option_env!("CARGO_TARGET_TMPDIR"),
            );
            $crate::compat::criterion::add_groups(&mut suite, &[$($group),+]);
            suite.run()
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(c: &mut Criterion) {
        c.bench_function("sum", |b| b.iter(|| (0..10).sum::<u64>()));
        let mut group = c.benchmark_group("sort");
        group.throughput(Throughput::Elements(3)).sample_size(10);
        let numbers = [3, 1, 2];
        group.bench_with_input(BenchmarkId::new("std", 3), &numbers[..], |b, numbers| {
            b.iter_batched(
                || numbers.to_vec(),
                |mut v| v.sort_unstable(),
                BatchSize::SmallInput,
            );
        });
        group.bench_function("nothing", |_| ());
        group.finish();
    }

    fn by_measurement<M: measurement::Measurement>(group: &mut BenchmarkGroup<'_, M>) {
        group.bench_function(BenchmarkId::from_parameter(7), |b| {
            b.iter_batched_ref(|| 7, |n| *n += 1, BatchSize::PerIteration);
        });
        group.bench_function("custom", |b| b.iter_custom(|_| Duration::ZERO));
    }

    fn more(c: &mut Criterion) {
        by_measurement(&mut c.benchmark_group("more"));
    }

    criterion_group! {
        name = benches;
        config = Criterion::default().sample_size(10).without_plots();
        targets = sum
    }
    criterion_group!(others, more);

    fn suite() -> Suite {
        let mut suite = Suite::default();
        add_groups(&mut suite, &[benches, others]);
        suite
    }

    #[test]
    fn benchmarks_have_the_names_of_criterion() {
        let suite = suite();
        let names: Vec<_> = suite.benches.iter().map(|bench| &bench.name[..]).collect();
        assert_eq!(
            names,
            ["sum", "sort/std/3", "sort/nothing", "more/7", "more/custom"]
        );
    }

    #[test]
    fn each_benchmark_is_called_alone() {
        let mut suite = suite();
        let results = suite.benches.iter_mut().map(|bench| {
            let mut result = None;
            (bench.run)(crate::Bencher {
                task: Task::Try,
                result: &mut result,
            });
            result.is_some()
        });
        // One benchmark has not called its bencher.
        assert_eq!(results.collect::<Vec<_>>(), [true, true, false, true, true]);
    }
}
