// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces to the system: the processor and the driver, processes and signals, files and the terminal.

pub(crate) mod busy_counters;
pub(crate) mod child;
pub(crate) mod core_kinds;
pub(crate) mod exit;
pub(crate) mod files;
pub(crate) mod glob;
pub(crate) mod hypervisor;
pub(crate) mod machine;
pub(crate) mod msr;
pub(crate) mod node_rights;
pub(crate) mod pmu;
pub(crate) mod precise;
pub(crate) mod processes;
pub(crate) mod screen;
pub(crate) mod signals;
pub(crate) mod stdio;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod users;
pub(crate) mod whole_file;
