// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of pmctl, each in a module of its name, and the [browser](tui) of `report` and `top`.

pub(crate) mod annotate;
pub(crate) mod bench;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod encode;
pub(crate) mod export;
pub(crate) mod flamegraph;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod record;
pub(crate) mod regs;
pub(crate) mod report;
pub(crate) mod script;
pub(crate) mod serve;
pub(crate) mod stat;
pub(crate) mod top;
pub(crate) mod tui;
pub(crate) mod vm;
pub(crate) mod wrap;
