// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks for trying the harness: `cargo run --example sorting -- --bench`. A program has a file like this one as a
//! bench target.

use std::hint::black_box;

use perfmon_bench::Bencher;

fn nothing(bencher: Bencher<'_>) {
    bencher.bench(|| ());
}

fn sum(bencher: Bencher<'_>) {
    let numbers: Vec<u64> = (0..1000).collect();
    bencher.bench(|| numbers.iter().map(black_box).sum::<u64>());
}

fn sort(bencher: Bencher<'_>, n: u64) {
    bencher
        .with_inputs(|| (0..n).rev().collect::<Vec<u64>>())
        .bench_values(|mut numbers| {
            numbers.sort_unstable();
            numbers
        });
}

fn fill(bencher: Bencher<'_>, n: usize) {
    bencher
        .with_inputs(Vec::new)
        .bench_refs(|numbers: &mut Vec<usize>| numbers.extend(0..n));
}

mod words {
    use std::hint::black_box;

    pub(crate) fn split() -> usize {
        black_box("a b c").split(' ').count()
    }

    pub(crate) fn repeat(n: usize) -> String {
        "ab".repeat(n)
    }
}

perfmon_bench::main! {
    nothing,
    sum,
    group vectors {
        sort = [100, 1000],
        fill = [1000],
    }
    words::split,
    words::repeat = [10, 20],
}
