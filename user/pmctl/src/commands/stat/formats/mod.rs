// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms in which counts are written.

mod csv;
pub(super) mod human;
mod json;
mod lines;
pub(super) mod number_format;
pub(super) mod output;
mod ratio;
mod side_by_side;
pub(super) mod summary;
pub(super) mod v1;
