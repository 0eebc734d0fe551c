// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of traces on a simulated driver: the calls in each state, and the reading of buffers.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod buffers;
mod calls;
mod errors;
mod machine;
