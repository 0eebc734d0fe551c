// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs: the events of each run, the repetition of runs, and the problems of their counts.

mod input;
pub(super) mod measure;
pub(super) mod problems;
pub(super) mod repeat;
pub(super) mod run;
pub(crate) mod series;
pub(super) mod split_runs;
