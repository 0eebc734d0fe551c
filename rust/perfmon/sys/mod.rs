// SPDX-License-Identifier: GPL-2.0-only
//! Kernel facilities that the `kernel` crate lacks, or offers at a cost that a fast call can't bear.

pub(crate) mod cgroup;
pub(crate) mod compat;
pub(crate) mod descriptor;
pub(crate) mod error;
pub(crate) mod ffi;
pub(crate) mod file;
pub(crate) mod kernel_thread;
pub(crate) mod mappings;
pub(crate) mod time;
pub(crate) mod tracepoint;
pub(crate) mod uaccess;
pub(crate) mod wait;
