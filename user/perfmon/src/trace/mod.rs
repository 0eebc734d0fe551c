// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampling of the whole machine: each CPU writes a record after each period of an event.
//!
//! - [`Config`]: the [`Event`]s, each with its rate, its modes and its records.
//! - [`Trace`]: a trace that is allocated, staged or running; [`Session::allocate`](crate::Session::allocate) creates it.
//! - [`Buffer`]: the memory that one CPU records to. A buffer returns [`Chunk`]s, also while the
//!   trace runs.
//! - [`Decoder`], [`Chunk::records`], [`merge`]: the [`Record`]s of some bytes, of a CPU, of all CPUs by time.
//! - [`Totals`]: the sums of the events on each CPU.

mod alloc;
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

pub use alloc::Alloc;
pub use buffer::{Buffer, Flags, Header};
pub use chunk::{Chunk, Records, Timed};
pub use config::{Config, ConfigBuilder, ConfigError, ConfigProblem};
pub use decode::{DecodeError, Decoder, Problem};
pub use event::Event;
pub use id::{ArchEvent, EventId, FixedEvent, Group, MiscEvent};
pub use merge::{Merge, merge};
pub use record::{Branch, Branches, Record};
pub use state::{Allocated, AtRest, Refused, Running, Staged, State, Trace};
pub use totals::{Mismatch, Totals};
