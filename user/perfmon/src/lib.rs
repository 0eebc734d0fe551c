// SPDX-License-Identifier: MIT OR Apache-2.0
//! Performance counters of x86 CPUs through `/dev/perfmon`.
//!
//! - [`Device`]: read the properties of the CPUs and the values of counters. Any number of programs
//!   can use it at once.
//! - [`Session`]: set counters up, and record traces. Only one program at a time can have a
//!   session.
//! - [`Counter`]: start, stop, reset and read a counter of a session.
//! - [`event`]: count a program, a task, a CPU or a cgroup. Any number of programs can count at
//!   once, and a caller that may use Linux's perf may open an [`Event`].
//! - [`spec`]: events by their names, `L1-dcache-load-misses` or `cpu/event=0xc0,cmask=1/u`, on a [`Pmu`].
//! - [`sampler`]: sample a program, a task or a CPU. A [`Sampler`] is an event with a ring, and any
//!   number of programs can sample at once.
//! - [`trace`]: sample the whole machine. A [`Trace`](trace::Trace) records a sample on each CPU
//!   after each period of an event; `trace` also has the buffers, the decoder, and the merger of
//!   the records of all CPUs into one stream.
//!
//! A [`Counter`] counts on **every CPU of the machine**, whatever task runs there; its value is the
//! sum over the CPUs. The vendor's manual lists the events of a CPU; an [`EventSelect`] is built
//! from the event number and the unit mask in the manual, or by [`spec::parse`] from a name.
//!
//! # Instructions that are counted besides the work
//! A count includes some instructions of this library: the end of [`Counter::start`] and the
//! beginning of [`Counter::stop`]. Their number is small, and the same each time. If these
//! instructions matter, measure an empty run and subtract its count. With several counters, stop
//! them in the order in which they were started: then each counter includes the same number of the
//! calls for other counters.

mod big_core;
mod cpu_list;
mod device;
mod error;
pub mod event;
pub mod pmu;
mod properties;
pub mod sampler;
mod select;
mod session;
pub mod spec;
pub mod sys;
mod text;
pub mod trace;

pub use device::{Device, PATH};
pub use error::{Attempt, Cause, Error};
pub use event::{Encoding, Event, Group, measure};
/// The kernel's "errno", as in [`Cause::Unexpected`].
pub use nix::errno::Errno;
/// The structures and numbers of `include/uapi/linux/perfmon.h`.
pub use perfmon_core::abi;
pub use pmu::Pmu;
pub use properties::{Configuration, Counters, Info, Properties, Timestamp};
pub use sampler::Sampler;
pub use select::{CounterId, EventSelect, Modes};
pub use session::{Counter, Session};
pub use text::printable;

/// The examples in the README are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
