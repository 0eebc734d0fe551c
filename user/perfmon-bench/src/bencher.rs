// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bencher, which each benchmark gets to count a function.

use std::hint::black_box;
use std::mem::ManuallyDrop;

use crate::counting::{Error, Meter};

/// The largest number of passes, which is reached if no three passes in a row have equal counts.
const MAX_PASSES: usize = 20;

/// A task of a bencher.
#[derive(Debug)]
pub(crate) enum Task<'a> {
    /// Calls the function once, as a test that the function works.
    Try,
    /// Counts the function, and appends the count of each pass to the counts of its event.
    Count(&'a mut Meter, &'a mut Vec<Vec<u64>>),
}

/// Counts a function. A benchmark calls one of its methods at its end.
#[derive(Debug)]
#[must_use = "nothing is counted without `bench`"]
pub struct Bencher<'a> {
    pub(crate) task: Task<'a>,
    pub(crate) result: &'a mut Option<Result<(), Error>>,
}

/// A bencher that prepares an input for each pass.
#[must_use = "nothing is counted without `bench_values` or `bench_refs`"]
pub struct WithInputs<'a, Make> {
    bencher: Bencher<'a>,
    make: Make,
}

impl<'a> Bencher<'a> {
    /// Counts a function in several passes. The results of the function are dropped outside of the
    /// counted part.
    ///
    /// Only the call is counted: a future or a lazy iterator that the function returns has not run
    /// yet. Run it inside of the function, for example with `block_on` of an executor of this
    /// thread, or with `sum`.
    pub fn bench<Output>(self, mut work: impl FnMut() -> Output) {
        self.run_passes(|meter| {
            // `ManuallyDrop`, so that the assignment does not check whether to drop an old value.
            let mut output: Option<ManuallyDrop<Output>> = None;
            let mut call = || output = Some(ManuallyDrop::new(black_box(work())));
            let counts = call_and_count(meter, &mut call);
            drop(output.map(ManuallyDrop::into_inner));
            counts
        });
    }

    /// Counts all threads of the process, and the threads and processes that they create, instead of the calling thread
    /// only: for a function that gives its work to a pool, or that starts threads and joins them.
    ///
    /// The count has a spread if threads are started, woken or joined: see the crate's documentation. The events are
    /// read by system calls, whose instructions in user mode are subtracted.
    ///
    /// # Panics
    /// If the threads of the process are unknown, because there is no /proc, or because they change all the time.
    pub fn all_threads(mut self) -> Self {
        if let Task::Count(meter, _) = &mut self.task {
            meter.count_all_threads();
        }
        self
    }

    /// Prepares an input for each pass, outside of the counted part.
    pub fn with_inputs<Input, Make: FnMut() -> Input>(self, make: Make) -> WithInputs<'a, Make> {
        WithInputs {
            bencher: self,
            make,
        }
    }

    /// Calls `pass`, which returns the counts of a pass, until the counts are stable, and stores the result.
    fn run_passes(self, mut pass: impl FnMut(Option<&mut Meter>) -> Result<Vec<u64>, Error>) {
        *self.result = Some(match self.task {
            Task::Try => pass(None).map(drop),
            Task::Count(meter, values) => repeat_until_stable(|| pass(Some(meter))).map(|passes| {
                for pass in passes {
                    for (runs, count) in values.iter_mut().zip(pass) {
                        runs.push(count);
                    }
                }
            }),
        });
    }
}

impl<Make> WithInputs<'_, Make> {
    /// Counts a function that takes its input by value.
    pub fn bench_values<Input, Output>(mut self, mut work: impl FnMut(Input) -> Output)
    where
        Make: FnMut() -> Input,
    {
        self.bencher.run_passes(|meter| {
            let mut input = Some((self.make)());
            let mut output: Option<ManuallyDrop<Output>> = None;
            let mut call = || {
                if let Some(input) = input.take() {
                    output = Some(ManuallyDrop::new(black_box(work(black_box(input)))));
                }
            };
            let counts = call_and_count(meter, &mut call);
            drop(output.map(ManuallyDrop::into_inner));
            counts
        });
    }

    /// Counts a function that takes its input by reference. The input is dropped outside of the counted part.
    pub fn bench_refs<Input, Output>(mut self, mut work: impl FnMut(&mut Input) -> Output)
    where
        Make: FnMut() -> Input,
    {
        self.bencher.run_passes(|meter| {
            let mut input = (self.make)();
            let mut output: Option<ManuallyDrop<Output>> = None;
            let mut call = || {
                output = Some(ManuallyDrop::new(black_box(work(black_box(&mut input)))));
            };
            let counts = call_and_count(meter, &mut call);
            drop(output.map(ManuallyDrop::into_inner));
            counts
        });
    }
}

/// Calls the function, and returns its counts if there is a meter.
fn call_and_count(meter: Option<&mut Meter>, call: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
    match meter {
        Some(meter) => meter.count_pass(call),
        None => {
            call();
            Ok(Vec::new())
        }
    }
}

/// Runs passes until three in a row have equal counts, and returns the counts of the last two of
/// them. Otherwise counts vary by chance, and the counts of all passes but the first are returned.
/// This happens if:
/// - counts occur again after different counts;
/// - [`MAX_PASSES`] passes have run, and no three in a row had equal counts.
fn repeat_until_stable(
    mut pass: impl FnMut() -> Result<Vec<u64>, Error>,
) -> Result<Vec<Vec<u64>>, Error> {
    let mut passes = vec![pass()?];
    let mut has_recurred = false;
    while passes.len() < MAX_PASSES {
        let next = pass()?;
        has_recurred |= passes.last() != Some(&next) && passes.contains(&next);
        passes.push(next);
        if let [.., first, second, third] = &passes[..] {
            if !has_recurred && first == second && second == third {
                return Ok(passes.split_off(passes.len() - 2));
            }
        }
    }
    Ok(passes.split_off(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat_with(counts: impl Fn(usize) -> u64) -> (usize, Vec<Vec<u64>>) {
        let mut calls = 0;
        let passes = repeat_until_stable(|| {
            calls += 1;
            Ok(vec![counts(calls), 7])
        });
        (calls, passes.expect("nothing fails"))
    }

    #[test]
    fn three_equal_passes_are_enough() {
        assert_eq!(repeat_with(|_| 5), (3, vec![vec![5, 7]; 2]));
        // The first passes have higher counts.
        let slow_start = repeat_with(|call| if call < 4 { 100 - call as u64 } else { 5 });
        assert_eq!(slow_start, (6, vec![vec![5, 7]; 2]));
    }

    #[test]
    fn alternating_counts_return_all_passes() {
        let (calls, passes) = repeat_with(|call| if call == 2 { 9 } else { 5 });
        assert_eq!((calls, passes.len()), (MAX_PASSES, MAX_PASSES - 1));
        assert_eq!((&passes[0][..], &passes[1][..]), (&[9, 7][..], &[5, 7][..]));
    }

    #[test]
    fn varying_counts_return_all_passes() {
        let (calls, passes) = repeat_with(|call| call as u64);
        assert_eq!((calls, passes.len()), (MAX_PASSES, MAX_PASSES - 1));
        assert_eq!(passes[0], [2, 7]);
    }

    #[test]
    fn trying_a_benchmark_calls_it_once() {
        let mut result = None;
        let mut calls = 0;
        let bencher = Bencher {
            task: Task::Try,
            result: &mut result,
        };
        bencher.bench(|| calls += 1);
        assert_eq!(calls, 1);
        assert_eq!(result, Some(Ok(())));
    }

    #[test]
    fn each_call_gets_its_own_input() {
        let mut result = None;
        let bencher = Bencher {
            task: Task::Try,
            result: &mut result,
        };
        let mut inputs = Vec::new();
        bencher
            .with_inputs(|| vec![1, 2])
            .bench_refs(|input: &mut Vec<u32>| inputs.append(input));
        assert_eq!(inputs, [1, 2]);
    }
}
