// SPDX-License-Identifier: GPL-2.0-only
//! The way of an overflow interrupt (PMI).

pub(crate) mod budget;
pub(crate) mod late;
pub(crate) mod watch;
