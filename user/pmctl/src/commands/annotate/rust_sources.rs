// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of Rust's library: programs name them by the commit of the compiler, as `/rustc/COMMIT/library/core/src/ptr.rs`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::system::files;

/// The prefix of the paths of the library's sources.
const RUSTC_PREFIX: &str = "/rustc/";

/// The largest manifest of a toolchain that is read, in bytes.
const MAX_MANIFEST_SIZE: u64 = 1 << 24;

/// Returns whether this is a source file of Rust's library.
pub(super) fn is_in_rust_library(path: &str) -> bool {
    path.starts_with(RUSTC_PREFIX)
}

/// Returns the file on this machine that `path` names. The file is part of the component
/// `rust-src`, which rustup must have installed for the commit in `path`.
pub(super) fn find_source(path: &str) -> Option<PathBuf> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup"));
    let rustup = env::var_os("RUSTUP_HOME").map(PathBuf::from).or(home)?;
    find_in(&rustup, path)
}

/// Returns the file that `path` names, from the toolchain of the commit in `path`. `rustup` is rustup's folder.
fn find_in(rustup: &Path, path: &str) -> Option<PathBuf> {
    let (commit, file) = path.strip_prefix(RUSTC_PREFIX)?.split_once('/')?;
    let mut toolchains = fs::read_dir(rustup.join("toolchains")).ok()?.flatten();
    toolchains.find_map(|toolchain| {
        let library = toolchain.path().join("lib/rustlib");
        let manifest = library.join("multirust-channel-manifest.toml");
        let manifest_text =
            String::from_utf8(files::read(&manifest, MAX_MANIFEST_SIZE).ok()?).ok()?;
        let is_same_commit = manifest_text.contains(&format!("git_commit_hash = \"{commit}\""));
        let source = library.join("src/rust").join(file);
        (is_same_commit && source.is_file()).then_some(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_the_same_commit_is_found() {
        let rustup = tempfile::tempdir().expect("a folder can be made");
        let library = rustup.path().join("toolchains/stable/lib/rustlib");
        let source = library.join("src/rust/library/core/src/ptr.rs");
        fs::create_dir_all(source.parent().expect("it has one")).expect("it can be made");
        fs::write(&source, "").expect("it can be written");
        let manifest = library.join("multirust-channel-manifest.toml");
        fs::write(manifest, "git_commit_hash = \"abc\"\n").expect("it can be written");
        let find = |path| find_in(rustup.path(), path);
        assert_eq!(find("/rustc/abc/library/core/src/ptr.rs"), Some(source));
        assert_eq!(find("/rustc/abcd/library/core/src/ptr.rs"), None);
        assert_eq!(find("/rustc/abc/library/core/src/mem.rs"), None);
        assert_eq!(find("/usr/src/ptr.rs"), None);
    }
}
