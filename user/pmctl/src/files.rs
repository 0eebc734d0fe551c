// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that others must not read.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

/// Returns options that create a file for its owner only. A file that is there keeps its mode.
pub(crate) fn private() -> OpenOptions {
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    options
}
