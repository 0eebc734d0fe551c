// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of addresses: from programs and libraries, from their separate debug files, and from the kernel.
//!
//! Files are looked up on this machine only; nothing is downloaded. A file gives no names if its
//! build-id differs from that of the file that ran.

mod debug_files;
mod demangle;
mod elf;
pub(crate) mod jit;
mod kallsyms;
mod length;
mod lines;
mod located;
mod modules;
mod names;
mod sections;
mod targets;

pub(crate) use debug_files::{DebugFiles, hexadecimal};
pub(crate) use elf::Elf;
pub(crate) use lines::{Level, Lines, SourceLine, Text};
pub(crate) use located::{Absence, LocatedFile, path_on_this_machine};
pub(crate) use names::SymbolFinder;
pub(crate) use sections::section_content;
pub(crate) use targets::Targets;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
