// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interfaces of other harnesses, for existing suites. Their functions are counted like the
//! functions of [`main!`](crate::main!), with the same options.

pub mod criterion;
pub mod libtest;
