// SPDX-License-Identifier: GPL-2.0-only
//! The handling of overflows: the NMI ([`nmi`]), its overflows ([`serve`]), the records of a trace
//! ([`trace_sample`]), and the samples of events ([`event_sample`]).
//!
//! A timer watches each CPU ([`watch`]), and [`suspend`] limits the part of a CPU's time that samples take.

mod event_sample;
pub(crate) mod nmi;
mod pebs;
mod serve;
mod suspend;
mod trace_sample;
pub(crate) mod watch;
