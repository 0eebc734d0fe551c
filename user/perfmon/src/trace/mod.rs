// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampling: records of what the CPUs do, each time that an event has happened so often.
//!
//! - [`Config`]: which [`Event`]s, and what is recorded of each.
//! - [`Trace`]: allocated, staged, running; made by [`Session::allocate`](crate::Session::allocate).
//! - [`Buffer`]: the memory that one CPU records to; gives [`Chunk`]s, also while the trace runs.
//! - [`Decoder`], [`Chunk::records`], [`merge`]: the [`Record`]s of some bytes, of a CPU, of all CPUs by time.
//! - [`Totals`]: how often each event happened in all.

mod buffer;
mod chunk;
mod config;
mod decode;
mod event;
mod id;
mod merge;
mod record;
mod state;
mod totals;

pub use buffer::{Buffer, Flags, Header};
pub use chunk::{Chunk, Records, Timed};
pub use config::{Config, ConfigBuilder, ConfigError, ConfigProblem};
pub use decode::{DecodeError, Decoder, Problem};
pub use event::Event;
pub use id::{ArchEvent, EventId, FixedEvent, Group, MiscEvent};
pub use merge::{Merge, merge};
pub use record::{Branch, Branches, Record};
pub use state::{Alloc, Allocated, AtRest, Refused, Running, Staged, State, Trace};
pub use totals::{Mismatch, Totals};
