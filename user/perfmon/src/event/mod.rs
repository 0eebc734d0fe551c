// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: counts of a task, of a task and its descendants, of all tasks on a CPU, or of a cgroup.
//!
//! An [`Event`] is a descriptor like a descriptor of `perf_event_open(2)`, on the driver's
//! counters. A caller that may count a task with Linux's perf may count the task with an `Event`.
//! Any number of programs can count at once, and each event has a counter of its own all the time.
//! If no counter is free, opening fails with [`Cause::NoFreeCounter`](crate::Cause::NoFreeCounter),
//! and the error names the programs that have the counters.
//!
//! ```no_run
//! use perfmon::Event;
//!
//! let event = Event::instructions().user().this_thread().open()?;
//! let sum: u64 = (0..1000).map(std::hint::black_box).sum();
//! println!("{} instructions for {sum}", event.read()?);
//! # Ok::<(), perfmon::Error>(())
//! ```
//!
//! - [`Event::named`]: any event by its name, as [`spec`](crate::spec) describes.
//! - [`Builder`]: the configuration of an event: the counted tasks, and the times at which it
//!   counts.
//! - [`Cgroup`]: a cgroup to count.
//! - [`Group`]: several events that count together, read at one moment.
//! - [`measure`]: the counts of a closure.
//! - [`UserPage`], [`GroupPages`]: reading without a system call.
//! - [`region!`](crate::region!): counts between two points of a program, summed up over all passes.

mod builder;
mod cgroup;
mod descriptor;
mod encoding;
mod find_cgroup;
mod group;
mod group_reading;
mod label;
mod measure;
mod named;
mod owner;
pub mod region;
pub(crate) mod shared;
mod target;
mod user_page;

pub use builder::Builder;
pub use cgroup::Cgroup;
pub use descriptor::{Event, Reading};
pub use encoding::Encoding;
pub use group::{Counts, Group, GroupBuilder};
pub use label::EventLabel;
pub use measure::measure;
pub use owner::{Owner, OwnerKind, Owners};
pub use target::Target;
pub use user_page::{GroupPages, UserPage};
