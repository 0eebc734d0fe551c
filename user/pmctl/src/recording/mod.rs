// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: the file `perf.data`, mappings, symbols, call chains, and the samples with their names.

pub(crate) mod address_spaces;
pub(crate) mod call_chain;
pub(crate) mod cgroups;
pub(crate) mod file_text;
pub(crate) mod perfdata;
pub(crate) mod places;
pub(crate) mod procfs;
pub(crate) mod profile;
pub(crate) mod symbols;
pub(crate) mod unwind;
