// SPDX-License-Identifier: GPL-2.0-only
//! The way of an overflow: an NMI ([`nmi`]), its overflows ([`serve`]), the records of a trace ([`sample`]),
//! and the samples of events ([`ring`]).
//!
//! Beside it a timer watches each CPU ([`watch`]), and [`suspend`] keeps samples from taking all of a CPU's time.

pub(crate) mod nmi;
mod ring;
mod sample;
mod serve;
mod suspend;
pub(crate) mod watch;
