// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The ABI of `/dev/perfmon`, as Rust.
//!
//! `perfmon.rs` is what bindgen makes of `include/uapi/linux/perfmon.h`. It is committed, so that a
//! build needs no libclang, and it is the same file for the module and for userland. After a change
//! of the header, `cargo xtask bindings` in `user/` makes it anew; `cargo xtask bindings --check`
//! fails as long as that has not been done.
//!
//! Every structure derives zerocopy's traits: a structure with implicit padding doesn't compile, and
//! the assertions on sizes and offsets that bindgen adds hold the layout on both sides.
#![allow(non_camel_case_types, missing_docs, clippy::all, clippy::pedantic)]
// kernel-doc has brackets that are no links.
#![allow(rustdoc::broken_intra_doc_links)]
#![forbid(unsafe_code)]

include!("perfmon.rs");
