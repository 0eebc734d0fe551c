// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unwinds the callers of functions without frame pointers, from the registers and the stack of a program, and from the
//! tables that compilers make for exceptions (`.eh_frame`) and for debuggers (`.debug_frame`).
//!
//! [`UnwindTables`](tables::UnwindTables) are the tables of a file. For an address they give a [`Step`](step::Step), which says
//! where the caller's registers are. Steps are cached, since most samples are at addresses of earlier ones.

mod cut_chains;
mod files;
mod memory;
mod precise;
mod step;
mod tables;
#[cfg(test)]
mod tests;
mod unwinder;

pub(crate) use cut_chains::CutChains;
pub(crate) use files::{Programs, RecordedFiles, vdso, vdso_build_id};
pub(crate) use unwinder::{UNWOUND, Unwinder, UnwoundProcess};
