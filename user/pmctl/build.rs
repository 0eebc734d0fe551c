// SPDX-License-Identifier: MIT OR Apache-2.0
//! Has the linker pack the places that are relocated when pmctl starts.
//!
//! pmctl is linked statically and may be anywhere in memory, so the start goes through them all: unpacked that is
//! a quarter of the instructions of a short `pmctl stat`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}
