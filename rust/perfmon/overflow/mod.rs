// SPDX-License-Identifier: GPL-2.0-only
//! The way of an overflow: an NMI ([`nmi`]), its overflows ([`serve`]), the records of a trace ([`trace_sample`]),
//! and the samples of events ([`event_sample`]).
//!
//! Beside it a timer watches each CPU ([`watch`]), and [`suspend`] keeps samples from taking all of a CPU's time.

mod event_sample;
pub(crate) mod nmi;
mod pebs;
mod serve;
mod suspend;
mod trace_sample;
pub(crate) mod watch;
