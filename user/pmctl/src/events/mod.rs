// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events, metrics and values; the tasks, CPUs and cgroups to count; and messages about what can't be counted.

pub(crate) mod cgroups;
pub(crate) mod cpus;
pub(crate) mod decode;
pub(crate) mod duration;
pub(crate) mod errata;
pub(crate) mod linux_pmu;
pub(crate) mod metrics;
pub(crate) mod modes;
pub(crate) mod perf_event;
pub(crate) mod rights;
pub(crate) mod schedule;
pub(crate) mod software;
pub(crate) mod threads;
pub(crate) mod values;
pub(crate) mod words;
