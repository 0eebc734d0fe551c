// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs: what is counted in each, how they are repeated, and what is wrong with their counts.

mod input;
pub(super) mod measure;
pub(super) mod problems;
pub(super) mod repeat;
pub(super) mod run;
pub(crate) mod series;
pub(super) mod split_runs;
