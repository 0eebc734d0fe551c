// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interfaces of other harnesses, for suites that exist: their functions are counted as those of
//! [`main!`](crate::main!), with its options.

pub mod criterion;
pub mod libtest;
