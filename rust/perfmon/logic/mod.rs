// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Decisions that need neither a kernel nor hardware.
//!
//! Every file here is compiled twice: into the module, and by cargo on the host as the crate
//! `perfmon-core`. So userland and the module agree on every bit, and the tests run in both places: under
//! KUnit when the module is loaded, and under `cargo test`.
//!
//! The files use `core` and [`crate::abi`] only, and no `unsafe`. Their tests use `assert!(condition)` and
//! `assert_eq!(a, b)` only: KUnit has no other assertions, and any other panic would stop the kernel.
#![forbid(unsafe_code)]

pub mod admission;
pub mod anchor;
pub mod architectural_events;
pub mod branch_records;
pub mod branches;
pub mod cache_events;
pub mod core_kinds;
mod cores;
pub mod counter;
pub mod counter_state;
pub mod cpuid;
pub mod event_attr;
pub mod event_config;
pub mod event_counters;
mod event_encoding;
pub mod event_limits;
pub mod event_state;
pub mod evtsel;
pub mod extend64;
pub mod extra_registers;
pub mod hardware_events;
pub mod hierarchy;
pub mod lbr;
pub mod load_limit;
pub mod mapping;
pub mod memory_access;
pub mod msr;
pub mod pebs;
pub mod perf_event;
pub mod plan;
pub mod pmu;
pub mod precise;
pub mod publish;
pub mod read_format;
pub mod reassign;
pub mod recorded_branches;
pub mod regs;
pub mod ring;
pub mod sample_format;
pub mod sampling;
pub mod sharing;
pub mod throttle;
pub mod trace_config;
pub mod trace_events;
pub mod trace_record;
pub mod trace_state;
pub mod turns;
pub mod user_page;
pub mod values;
