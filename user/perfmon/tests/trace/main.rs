// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces through the seam: what is asked of the driver in which state, and how a buffer is read.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod buffers;
mod calls;
mod errors;
mod machine;
