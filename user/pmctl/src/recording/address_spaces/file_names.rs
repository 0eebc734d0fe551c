// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of mapped memory that is not a file of a file system.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::recording::perfdata::{Body, KERNEL, Map, VDSO};

/// The text in the place of an unknown name.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// The name for the vDSO of 32-bit programs, which differs from that of 64-bit programs.
pub(super) const VDSO32: &str = "[vdso32]";

/// The beginning of the names of files of `memfd_create(2)`, which exist in memory only.
pub(super) const MEMFD: &[u8] = b"/memfd:";

/// Returns whether a record is the mapping of a file of `memfd_create(2)`. If that file is the program, its record must
/// be the first of the process, so that [`AddressSpaces`] recognizes it.
pub(crate) fn is_memfd(body: &Body) -> bool {
    match body {
        Body::Map(map) => map.file.as_os_str().as_bytes().starts_with(MEMFD),
        _ => false,
    }
}

/// Returns whether this is a name of anonymous memory. Code in such memory is JIT code.
pub(crate) fn is_anonymous(name: &Path) -> bool {
    const ANONYMOUS_PREFIXES: [&[u8]; 8] = [
        b"//anon",
        b"/anon_hugepage",
        b"/dev/zero",
        MEMFD,
        b"/SYSV",
        b"[anon",
        b"[heap]",
        b"[stack",
    ];
    let name = name.as_os_str().as_bytes();
    name.is_empty()
        || ANONYMOUS_PREFIXES
            .iter()
            .any(|start| name.starts_with(start))
}

/// Returns the name of a mapped file. For the kernel's image, leaves out the symbol behind the name; for the vDSO of a
/// 32-bit program, returns [`VDSO32`].
pub(crate) fn file_name(map: &Map) -> &Path {
    match map.file.to_str() {
        Some(name) if name.starts_with(KERNEL) => Path::new(KERNEL),
        Some(VDSO) if u32::try_from(map.start).is_ok() => Path::new(VDSO32),
        _ => &map.file,
    }
}
