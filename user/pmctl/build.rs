// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the linker pack the relative relocations.
//!
//! pmctl is a static position-independent executable, which relocates itself when it starts: with unpacked relocations
//! that is a quarter of the instructions of a short `pmctl stat`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}
